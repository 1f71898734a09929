//! Memory windows through both interfaces (V-135 to V-139): objects, and what is refused. The lone card does not see
//! a program's memory: what the operations do, system tests and pyverbs on the simulated card show.

mod common;

use std::ffi::{c_int, c_void};

use common::*;
use ibverbs::abi::*;

const ACCESS: u32 = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_MW_BIND;

#[test]
fn windows_come_and_go() {
    let bench = bench(2);
    let mut attr = ibv_device_attr::default();
    // SAFETY: a live context.
    assert_eq!(unsafe { ibv_query_device(bench.context, &mut attr) }, 0);
    // V-139: what is there, and nothing else.
    let caps = IBV_DEVICE_MEM_WINDOW | IBV_DEVICE_MEM_WINDOW_TYPE_2B | IBV_DEVICE_MEM_MGT_EXTENSIONS;
    let others = IBV_DEVICE_MEM_WINDOW_TYPE_2A;
    assert_eq!(attr.device_cap_flags & (caps | others), caps);
    assert!(attr.max_mw > 0);
    // SAFETY: all of it is alive, or what a program may get wrong.
    unsafe {
        let ops = &(*bench.context).ops;
        let (alloc, dealloc) = (ops.alloc_mw.unwrap(), ops.dealloc_mw.unwrap());
        assert!(alloc(bench.pd, 3).is_null());
        assert!(alloc(std::ptr::null_mut(), IBV_MW_TYPE_1).is_null());
        let other_pd = ibv_alloc_pd(bench.context);
        for kind in [IBV_MW_TYPE_1, IBV_MW_TYPE_2] {
            let mw = alloc(other_pd, kind);
            assert_eq!(
                ((*mw).context, (*mw).pd, (*mw).type_),
                (bench.context, other_pd, kind)
            );
            assert_eq!(ibv_dealloc_pd(other_pd), libc::EBUSY);
            assert_eq!(dealloc(mw), 0);
            assert_eq!(dealloc(mw), libc::EINVAL);
        }
        assert_eq!(ibv_dealloc_pd(other_pd), 0);
    }
    bench.close();
}

#[test]
fn wrong_binds_are_refused() {
    let bench = bench(3);
    let mut words = [0u64; 8];
    let addr = words.as_mut_ptr().cast::<c_void>();
    // SAFETY: all of it is alive, or what a program may get wrong.
    unsafe {
        let mr = ibv_reg_mr(bench.pd, addr, 64, ACCESS as c_int);
        let ops = &(*bench.context).ops;
        let (alloc, dealloc, bind) = (
            ops.alloc_mw.unwrap(),
            ops.dealloc_mw.unwrap(),
            ops.bind_mw.unwrap(),
        );
        let windows = [IBV_MW_TYPE_1, IBV_MW_TYPE_2].map(|kind| alloc(bench.pd, kind));
        let other_pd = ibv_alloc_pd(bench.context);
        let foreign = alloc(other_pd, IBV_MW_TYPE_1);
        let request = ibv_mw_bind {
            wr_id: 1,
            send_flags: IBV_SEND_SIGNALED,
            bind_info: ibv_mw_bind_info {
                mr,
                addr: addr as u64,
                length: 64,
                mw_access_flags: IBV_ACCESS_REMOTE_WRITE,
            },
        };
        let refused = |mw: *mut ibv_mw, change: &dyn Fn(&mut ibv_mw_bind)| {
            let mut request = request;
            change(&mut request);
            let before = if mw.is_null() { 0 } else { (*mw).rkey };
            assert_eq!(bind(bench.qps[0], mw, &mut request), libc::EINVAL);
            assert!(mw.is_null() || (*mw).rkey == before);
        };
        refused(windows[1], &|_| ());
        refused(foreign, &|_| ());
        refused(std::ptr::null_mut(), &|_| ());
        refused(windows[0], &|r| r.bind_info.mr = std::ptr::null_mut());
        refused(windows[0], &|r| {
            r.bind_info.mw_access_flags = IBV_ACCESS_ON_DEMAND
        });
        refused(windows[0], &|r| r.send_flags = 1 << 20);
        // V-166: no data, in the plain way.
        let mut sge = ibv_sge {
            addr: addr as u64,
            length: 8,
            lkey: (*mr).lkey,
        };
        for opcode in [IBV_WR_LOCAL_INV, IBV_WR_BIND_MW] {
            let mut wr = send_wr(7);
            wr.opcode = opcode;
            (wr.sg_list, wr.num_sge) = (&mut sge, 1);
            assert_eq!(post_send(bench.qps[0], &mut [wr]), (libc::EINVAL, Some(0)));
        }
        for mw in windows.into_iter().chain([foreign]) {
            assert_eq!(dealloc(mw), 0);
        }
        assert_eq!(ibv_dealloc_pd(other_pd), 0);
        assert_eq!(ibv_dereg_mr(mr), 0);
    }
    bench.close();
}
