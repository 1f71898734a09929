//! Access rights that this card does not have: named, they are accepted and grant nothing (qperf, UCX, uDAPL and the
//! Rust crates name them all). What nobody knows is refused.

mod common;

use std::ffi::{c_int, c_void};

use common::*;
use ibverbs::abi::*;

/// MEM-7: the card grants the first four.
const GRANTED: u32 =
    IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
const UNKNOWN: [u32; 5] = [1 << 9, 1 << 10, 1 << 15, 1 << 19, 1 << 30];

/// The rights that the card keeps for a region: RDMA by a peer QP of the same card, as far as rights go.
fn granted(lkey: u32) -> u32 {
    let mut function = KEPT.get().unwrap().function();
    function.query_mr(lkey).unwrap().access()
}

#[test]
fn a_region_with_every_right_there_is() {
    let bench = bench(KEPT_CARD as usize);
    let mut bytes = vec![0u8; 8192];
    let addr = bytes.as_mut_ptr().cast::<c_void>();
    let optional = [IBV_ACCESS_RELAXED_ORDERING, IBV_ACCESS_OPTIONAL_FIRST << 9];
    let extra = [
        0,
        IBV_ACCESS_MW_BIND,
        IBV_ACCESS_HUGETLB,
        IBV_ACCESS_MW_BIND | IBV_ACCESS_HUGETLB,
    ];
    // SAFETY: live objects and memory.
    unsafe {
        for more in extra.into_iter().chain(optional) {
            for rights in 0..=GRANTED {
                let access = rights | more;
                let mr = ibv_reg_mr(bench.pd, addr, 8192, access as c_int);
                // MEM-8.
                let remote_writes = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC;
                if access & remote_writes != 0 && access & IBV_ACCESS_LOCAL_WRITE == 0 {
                    assert!(mr.is_null() && errno() == libc::EINVAL, "{access:#x}");
                    continue;
                }
                assert!(!mr.is_null(), "{access:#x}: errno {}", errno());
                let windows = more & IBV_ACCESS_MW_BIND;
                assert_eq!(granted((*mr).lkey), rights | windows, "{access:#x}");
                // Other rights of the same kind, by the other verb.
                let change = IBV_REREG_MR_CHANGE_ACCESS as c_int;
                let all = (GRANTED | more) as c_int;
                assert_eq!(ibv_rereg_mr(mr, change, bench.pd, addr, 8192, all), 0);
                assert_eq!(granted((*mr).lkey), GRANTED | windows);
                assert_eq!(ibv_dereg_mr(mr), 0);
            }
        }
        for unknown in UNKNOWN {
            let mr = ibv_reg_mr(bench.pd, addr, 8192, (unknown | 1) as c_int);
            assert!(mr.is_null() && errno() == libc::EINVAL, "{unknown:#x}");
        }
        let mr = ibv_reg_mr(bench.pd, addr, 8192, (IBV_ACCESS_ON_DEMAND | 1) as c_int);
        assert!(
            mr.is_null() && errno() == libc::EOPNOTSUPP,
            "there is no on-demand paging"
        );
    }
    bench.close();
}

fn to_init(qp: *mut ibv_qp, qp_access_flags: u32) -> c_int {
    let mut attr = ibv_qp_attr {
        qp_state: IBV_QPS_INIT,
        port_num: 1,
        qp_access_flags,
        ..Default::default()
    };
    let mask = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS;
    // SAFETY: a live QP.
    unsafe { ibv_modify_qp(qp, &mut attr, mask as c_int) }
}

fn query(qp: *mut ibv_qp) -> ibv_qp_attr {
    let (mut attr, mut init) = (ibv_qp_attr::default(), ibv_qp_init_attr::default());
    // SAFETY: a live QP.
    assert_eq!(unsafe { ibv_query_qp(qp, &mut attr, !0, &mut init) }, 0);
    attr
}

#[test]
fn a_qp_with_every_right_there_is() {
    let bench = bench(30);
    let rights = [
        IBV_ACCESS_MW_BIND,
        IBV_ACCESS_ZERO_BASED,
        IBV_ACCESS_ON_DEMAND,
        IBV_ACCESS_HUGETLB,
        IBV_ACCESS_RELAXED_ORDERING,
        IBV_ACCESS_OPTIONAL_FIRST << 9,
    ];
    // SAFETY: live objects.
    let qp = unsafe { ibv_create_qp(bench.pd, &mut init_attr(bench.cq)) };
    for set in 0..1 << rights.len() {
        let extra: u32 = (0..rights.len())
            .filter(|i| set >> i & 1 == 1)
            .map(|i| rights[i])
            .sum();
        for own in [0, GRANTED & !1, GRANTED] {
            assert_eq!(to_init(qp, own | extra), 0, "{:#x}", own | extra);
            assert_eq!(query(qp).qp_access_flags, own);
        }
    }
    for unknown in UNKNOWN {
        assert_eq!(to_init(qp, unknown | GRANTED), libc::EINVAL);
        assert_eq!(query(qp).qp_access_flags, GRANTED, "nothing has changed");
    }
    // SAFETY: created above.
    assert_eq!(unsafe { ibv_destroy_qp(qp) }, 0);
    bench.close();
}

/// A PSN has 24 bits; programs that draw 32 random ones rely on the rest being dropped.
#[test]
fn psns_are_masked() {
    let bench = bench(31);
    // SAFETY: live objects.
    unsafe {
        let qp = ibv_create_qp(bench.pd, &mut init_attr(bench.cq));
        assert_eq!(to_init(qp, 0), 0);
        let mut dgid = ibv_gid::default();
        assert_eq!(ibv_query_gid(bench.context, 1, 1, &mut dgid), 0);
        for (mut attr, mask) in steps(0, dgid).into_iter().skip(1) {
            (attr.rq_psn, attr.sq_psn) = (0xfedc_ba98, 0x8123_4567);
            assert_eq!(ibv_modify_qp(qp, &mut attr, mask as c_int), 0);
        }
        let found = query(qp);
        assert_eq!((found.rq_psn, found.sq_psn), (0xdc_ba98, 0x23_4567));
        assert_eq!(ibv_destroy_qp(qp), 0);
    }
    bench.close();
}
