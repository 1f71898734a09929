//! Device memory through the tables of verbs.h (V-77 to V-80, MEM-19): what programs get, and what is refused. What the
//! card does with it, system tests and programs show.

mod common;

use std::ffi::c_void;
use std::ptr::null_mut;

use common::*;
use ibverbs::abi::*;

const ACCESS: u32 = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_ZERO_BASED;

fn attr(length: usize) -> ibv_alloc_dm_attr {
    ibv_alloc_dm_attr {
        length,
        log_align_req: 3,
        comp_mask: 0,
    }
}

fn max_dm_size(bench: &Bench) -> usize {
    let mut device = ibv_device_attr_ex::default();
    let len = size_of_val(&device);
    // SAFETY: a live context.
    let ops = unsafe { &*extended(bench.context) };
    let query = ops.query_device_ex.unwrap();
    // SAFETY: as above, and room for the answer.
    let status = unsafe { query(bench.context, std::ptr::null(), &mut device, len) };
    assert_eq!(status, 0);
    device.max_dm_size as usize
}

#[test]
fn it_is_copied_and_registered() {
    let bench = bench(3);
    let all = max_dm_size(&bench);
    assert!(all >= 4096);
    // SAFETY: all of it is alive.
    unsafe {
        let ops = &*extended(bench.context);
        let dm = ops.alloc_dm.unwrap()(bench.context, &mut attr(all));
        assert!(!dm.is_null());
        assert_eq!((*dm).context, bench.context);
        let (to, from) = ((*dm).memcpy_to_dm.unwrap(), (*dm).memcpy_from_dm.unwrap());
        let bytes: Vec<u8> = (0..2000).map(|n| n as u8).collect();
        assert_eq!(to(dm, 100, bytes.as_ptr().cast(), bytes.len()), 0);
        let mut found = vec![9u8; 2008];
        assert_eq!(from(found.as_mut_ptr().cast(), dm, 96, found.len()), 0);
        assert_eq!((found[3], &found[4..2004], found[2004]), (0, &bytes[..], 0));
        for (offset, length) in [(1, 4), (4, 1), (2, 2)] {
            assert_eq!(to(dm, offset, bytes.as_ptr().cast(), length), libc::EINVAL);
            assert_eq!(from(found.as_mut_ptr().cast(), dm, offset, length), libc::EINVAL);
        }
        assert_eq!(
            (to(dm, 0, std::ptr::null(), 0), from(null_mut(), dm, 0, 0)),
            (0, 0)
        );

        let reg = ops.reg_dm_mr.unwrap();
        let mr = reg(bench.pd, dm, 8, 64, ACCESS);
        assert_eq!(((*mr).addr, (*mr).length, (*mr).pd), (null_mut(), 64, bench.pd));
        // V-78, and an order in which it goes.
        assert_eq!(ops.free_dm.unwrap()(dm), libc::EBUSY);
        let rereg = ibv_rereg_mr(
            mr,
            IBV_REREG_MR_CHANGE_ACCESS as i32,
            null_mut(),
            null_mut(),
            0,
            1,
        );
        assert_eq!(rereg, IBV_REREG_MR_ERR_INPUT);
        assert_eq!(ibv_dereg_mr(mr), 0);
        assert_eq!(ops.free_dm.unwrap()(dm), 0);
        assert_eq!(ops.free_dm.unwrap()(dm), libc::EINVAL);
    }
    bench.close();
}

#[test]
fn what_is_refused() {
    let bench = bench(4);
    let all = max_dm_size(&bench);
    // SAFETY: alive, or what a program may get wrong.
    unsafe {
        let ops = &*extended(bench.context);
        let (alloc, free, reg) = (
            ops.alloc_dm.unwrap(),
            ops.free_dm.unwrap(),
            ops.reg_dm_mr.unwrap(),
        );
        let refused = |pointer: *mut c_void, wanted: i32, what: &str| {
            assert!(pointer.is_null(), "{what}");
            assert_eq!(errno(), wanted, "{what}");
        };
        for length in [0, all + 1, usize::MAX] {
            refused(
                alloc(bench.context, &mut attr(length)).cast(),
                libc::EINVAL,
                "length",
            );
        }
        refused(
            alloc(bench.context, null_mut()).cast(),
            libc::EINVAL,
            "no attributes",
        );
        for context in [null_mut(), bench.pd.cast()] {
            refused(alloc(context, &mut attr(64)).cast(), libc::EINVAL, "context");
        }
        let bad = |change: fn(&mut ibv_alloc_dm_attr)| {
            let mut attr = attr(64);
            change(&mut attr);
            alloc(bench.context, &mut attr).cast()
        };
        refused(bad(|attr| attr.log_align_req = 13), libc::EINVAL, "alignment");
        refused(bad(|attr| attr.comp_mask = 1), libc::EOPNOTSUPP, "comp_mask");

        let whole = alloc(bench.context, &mut attr(all));
        refused(
            alloc(bench.context, &mut attr(1)).cast(),
            libc::ENOMEM,
            "exhausted",
        );
        for (offset, length) in [(0, all + 4), (1, all), (all as u64, 1), (u64::MAX, 8)] {
            let mr = reg(bench.pd, whole, offset, length, ACCESS);
            refused(mr.cast(), libc::EINVAL, "range of a region");
            let mut bytes = vec![0u8; length];
            let (to, from) = ((*whole).memcpy_to_dm.unwrap(), (*whole).memcpy_from_dm.unwrap());
            assert_eq!(to(whole, offset, bytes.as_ptr().cast(), length), libc::EINVAL);
            assert_eq!(
                from(bytes.as_mut_ptr().cast(), whole, offset, length),
                libc::EINVAL
            );
        }
        let (to, from) = ((*whole).memcpy_to_dm.unwrap(), (*whole).memcpy_from_dm.unwrap());
        assert_eq!(to(whole, 0, std::ptr::null(), 1), libc::EINVAL);
        assert_eq!(from(null_mut(), whole, 0, 1), libc::EINVAL);
        assert_eq!(to(bench.pd.cast(), 0, (&raw const all).cast(), 1), libc::EINVAL);
        refused(
            reg(bench.pd, whole, 0, 64, 1).cast(),
            libc::EINVAL,
            "not ZERO_BASED",
        );
        refused(reg(null_mut(), whole, 0, 64, ACCESS).cast(), libc::EINVAL, "PD");
        refused(
            reg(bench.pd, bench.pd.cast(), 0, 64, ACCESS).cast(),
            libc::EINVAL,
            "DM",
        );
        for stranger in [null_mut(), bench.cq.cast(), bench.context.cast()] {
            assert_eq!(free(stranger), libc::EINVAL);
        }
        assert_eq!(free(whole), 0);
    }
    bench.close();
}

/// ibv_import_dm(3): another name, by which it is copied, and not freed.
#[test]
fn it_is_imported_by_its_number() {
    let bench = bench(7);
    // SAFETY: alive, or what a program may get wrong.
    unsafe {
        let ops = &*extended(bench.context);
        let (alloc, free) = (ops.alloc_dm.unwrap(), ops.free_dm.unwrap());
        for nobody in [0, 1, u32::MAX] {
            assert!(ibv_import_dm(bench.context, nobody).is_null());
            assert_eq!(errno(), libc::EINVAL);
        }
        let dm = alloc(bench.context, &mut attr(4096));
        let other = ibv_import_dm(bench.context, (*dm).handle);
        assert_eq!((*dm).memcpy_to_dm.unwrap()(dm, 4, b"word".as_ptr().cast(), 4), 0);
        let mut found = [0u8; 4];
        let from = (*other).memcpy_from_dm.unwrap();
        assert_eq!(from(found.as_mut_ptr().cast(), other, 4, 4), 0);
        assert_eq!(&found, b"word");
        assert_eq!((free(dm), free(other)), (libc::EBUSY, libc::EINVAL));
        ibv_unimport_dm(dm);
        ibv_unimport_dm(other);
        ibv_unimport_dm(other);
        assert_eq!(free(dm), 0);
        assert!(ibv_import_dm(null_mut(), 0).is_null());
    }
    bench.close();
}

/// Device memory of another context, of the same card or not, is no PD's.
#[test]
fn contexts_do_not_mix() {
    let (bench, other) = (bench(5), bench(6));
    // SAFETY: alive.
    unsafe {
        let ops = &*extended(bench.context);
        let dm = ops.alloc_dm.unwrap()(other.context, &mut attr(64));
        let mr = ops.reg_dm_mr.unwrap()(bench.pd, dm, 0, 64, ACCESS);
        assert!(mr.is_null());
        assert_eq!(errno(), libc::EINVAL);
        assert_eq!(ops.free_dm.unwrap()(dm), 0);
    }
    bench.close();
    other.close();
}
