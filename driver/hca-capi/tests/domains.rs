//! Thread domains, parent domains (V-81, V-82), ECE, and the largest queues.

mod common;

use std::ffi::{c_int, c_void};
use std::ptr::null_mut;

use common::*;
use ibverbs::abi::*;

#[track_caller]
fn refused<T>(pointer: *mut T, wanted: c_int) {
    let found = errno();
    assert!(pointer.is_null());
    assert_eq!(found, wanted, "errno");
}

/// ibv_alloc_td and ibv_alloc_parent_domain of verbs.h.
unsafe fn domains(bench: &Bench) -> (*mut ibv_td, *mut ibv_pd) {
    // SAFETY: a live context, and a slot that is checked.
    unsafe {
        let verbs = extended(bench.context);
        let td = (*verbs).alloc_td.unwrap()(bench.context, &mut ibv_td_init_attr::default());
        let mut attr = ibv_parent_domain_init_attr {
            pd: bench.pd,
            td,
            ..Default::default()
        };
        let domain = (*verbs).alloc_parent_domain.unwrap()(bench.context, &mut attr);
        assert!(!td.is_null() && !domain.is_null());
        assert_eq!(
            (*domain).handle,
            (*bench.pd).handle,
            "the protection domain itself"
        );
        (td, domain)
    }
}

/// V-81: everything that takes a PD takes a parent domain; V-82: and all of it goes first.
#[test]
fn what_is_made_in_a_parent_domain() {
    let bench = bench(30);
    // SAFETY: live objects.
    unsafe {
        let verbs = extended(bench.context);
        let (td, domain) = domains(&bench);
        let mut attr = ibv_cq_init_attr_ex {
            cqe: 50,
            comp_mask: IBV_CQ_INIT_ATTR_MASK_PD | IBV_CQ_INIT_ATTR_MASK_FLAGS,
            flags: IBV_CREATE_CQ_ATTR_SINGLE_THREADED,
            parent_domain: domain,
            ..Default::default()
        };
        let create_cq = (*verbs).create_cq_ex.unwrap();
        let cq: *mut ibv_cq = create_cq(bench.context, &mut attr).cast();
        attr.parent_domain = bench.pd;
        refused(create_cq(bench.context, &mut attr), libc::EINVAL);
        let qps = [(); 2].map(|()| ibv_create_qp(domain, &mut init_attr(cq)));
        assert!(qps.iter().all(|qp| (**qp).pd == domain));
        connect(qps[0], (*qps[1]).qp_num);
        connect(qps[1], (*qps[0]).qp_num);
        let mut bytes = vec![0u8; 4096];
        let addr = bytes.as_mut_ptr().cast::<c_void>();
        let mr = ibv_reg_mr(domain, addr, 4096, 1);
        let mut dgid = ibv_gid::default();
        assert_eq!(ibv_query_gid(bench.context, 1, 1, &mut dgid), 0);
        let mut attr = ibv_ah_attr {
            is_global: 1,
            port_num: 1,
            ..Default::default()
        };
        (attr.grh.dgid, attr.grh.sgid_index) = (dgid, 1);
        let ah = ibv_create_ah(domain, &mut attr);
        let mut srq_attr = ibv_srq_init_attr::default();
        (srq_attr.attr.max_wr, srq_attr.attr.max_sge) = (4, 1);
        let srq = ibv_create_srq(domain, (&raw mut srq_attr).cast());
        assert!(!cq.is_null() && !mr.is_null() && !ah.is_null() && !srq.is_null());

        // Both QPs work on it, without locks.
        for round in 0..40 {
            assert_eq!(post_recv(qps[1], round), 0);
            assert_eq!(post_send(qps[0], &mut [send_wr(round)]), (0, None));
            let wc = completions(cq, 2);
            assert!(wc.iter().all(|wc| wc.status == IBV_WC_SUCCESS));
        }

        let busy = || {
            assert_eq!(ibv_dealloc_pd(domain), libc::EBUSY);
            assert_eq!((*verbs).dealloc_td.unwrap()(td), libc::EBUSY);
            assert_eq!(ibv_dealloc_pd(bench.pd), libc::EBUSY);
        };
        busy();
        assert_eq!(ibv_destroy_srq(srq), 0);
        busy();
        assert_eq!(ibv_destroy_ah(ah), 0);
        busy();
        // A region that goes over to another domain is not in this one any more.
        let change_pd = IBV_REREG_MR_CHANGE_PD as c_int;
        assert_eq!(ibv_rereg_mr(mr, change_pd, bench.pd, null_mut(), 0, 0), 0);
        qps.iter().for_each(|qp| assert_eq!(ibv_destroy_qp(*qp), 0));
        busy();
        assert_eq!(ibv_destroy_cq(cq), 0);
        assert_eq!(
            (*verbs).dealloc_td.unwrap()(td),
            libc::EBUSY,
            "the parent domain has it"
        );
        assert_eq!(ibv_dealloc_pd(domain), 0);
        assert_eq!(ibv_dealloc_pd(domain), libc::EINVAL);
        assert_eq!((*verbs).dealloc_td.unwrap()(td), 0);
        assert_eq!((*verbs).dealloc_td.unwrap()(td), libc::EINVAL);
        assert_eq!(ibv_dereg_mr(mr), 0);
    }
    bench.close();
}

#[test]
fn parent_domains_that_cannot_be() {
    let (bench, other) = (bench(31), open(31));
    // SAFETY: live objects.
    unsafe {
        let verbs = extended(bench.context);
        let alloc = |attr: &mut ibv_parent_domain_init_attr| {
            (*verbs).alloc_parent_domain.unwrap()(bench.context, attr)
        };
        let alone = ibv_parent_domain_init_attr {
            pd: bench.pd,
            ..Default::default()
        };
        let alloc_td = (*verbs).alloc_td.unwrap();
        refused(alloc_td(bench.context, null_mut()), libc::EINVAL);
        refused(
            alloc_td(null_mut(), &mut ibv_td_init_attr::default()),
            libc::EINVAL,
        );
        refused(
            alloc_td(bench.context, &mut ibv_td_init_attr { comp_mask: 1 }),
            libc::EOPNOTSUPP,
        );
        assert_eq!((*verbs).dealloc_td.unwrap()(null_mut()), libc::EINVAL);
        let (theirs, td) = (
            ibv_alloc_pd(other),
            alloc_td(other, &mut ibv_td_init_attr::default()),
        );
        for (pd, thread, errno) in [
            (null_mut(), null_mut(), libc::EINVAL),
            (bench.cq.cast(), null_mut(), libc::EINVAL),
            (bench.pd, bench.pd.cast(), libc::EINVAL),
            (theirs, null_mut(), libc::EINVAL),
            (bench.pd, td, libc::EINVAL),
        ] {
            let mut attr = ibv_parent_domain_init_attr {
                pd,
                td: thread,
                ..alone
            };
            refused(alloc(&mut attr), errno);
        }
        let comp_mask = IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS;
        refused(
            alloc(&mut ibv_parent_domain_init_attr { comp_mask, ..alone }),
            libc::EOPNOTSUPP,
        );
        refused(
            (*verbs).alloc_parent_domain.unwrap()(bench.context, null_mut()),
            libc::EINVAL,
        );
        // Without a thread domain, with a word of the program's that nobody asks for.
        let comp_mask = IBV_PARENT_DOMAIN_INIT_ATTR_PD_CONTEXT;
        let domain = alloc(&mut ibv_parent_domain_init_attr { comp_mask, ..alone });
        assert_eq!(ibv_dealloc_pd(domain), 0);
        assert_eq!((*verbs).dealloc_td.unwrap()(td), 0);
        assert_eq!(ibv_dealloc_pd(theirs), 0);
        assert_eq!(ibv_close_device(other), 0);
    }
    bench.close();
}

#[test]
fn no_options_of_connection_establishment() {
    let bench = bench(32);
    let mut ece = ibv_ece {
        vendor_id: 7,
        options: 7,
        comp_mask: 7,
    };
    // SAFETY: live objects, or NULL.
    unsafe {
        assert_eq!(ibv_query_ece(bench.qps[0], &mut ece), 0);
        assert_eq!((ece.vendor_id, ece.options, ece.comp_mask), (0, 0, 0));
        assert_eq!(ibv_set_ece(bench.qps[0], &mut ece), 0);
        (ece.vendor_id, ece.options) = (0x15b3, 1);
        assert_eq!(ibv_set_ece(bench.qps[0], &mut ece), libc::EINVAL);
        assert_eq!(ibv_set_ece(bench.qps[0], null_mut()), libc::EINVAL);
        assert_eq!(ibv_query_ece(bench.qps[0], null_mut()), libc::EINVAL);
        assert_eq!(ibv_query_ece(bench.cq.cast(), &mut ece), libc::EINVAL);
        assert_eq!(ibv_set_ece(null_mut(), &mut ece), libc::EINVAL);
    }
    bench.close();
}

/// V-111: queues of 65,536 work requests, all posted at once, and a CQ of all their completions; one more is refused.
#[test]
fn the_largest_queues() {
    let bench = bench(33);
    // SAFETY: live objects.
    unsafe {
        let cq = ibv_create_cq(bench.context, 1 << 17, null_mut(), null_mut(), 0);
        assert!(!cq.is_null() && (*cq).cqe >= 1 << 17);
        let mut device = ibv_device_attr::default();
        assert_eq!(ibv_query_device(bench.context, &mut device), 0);
        assert_eq!((device.max_qp_wr, device.max_srq_wr), (1 << 16, 1 << 16));
        assert!(device.max_cqe >= 1 << 16);
        let mut attr = init_attr(cq);
        (attr.cap.max_send_wr, attr.cap.max_recv_wr) = (1 << 16, 1 << 16);
        let qps = [(); 2].map(|()| ibv_create_qp(bench.pd, &mut attr));
        assert_eq!((attr.cap.max_send_wr, attr.cap.max_recv_wr), (1 << 16, 1 << 16));
        connect(qps[0], (*qps[1]).qp_num);
        connect(qps[1], (*qps[0]).qp_num);
        // Full, once around the indices and further.
        for round in 0..3u64 {
            for i in 0..1 << 16 {
                assert_eq!(post_recv(qps[1], i), 0, "{round}.{i}");
            }
            assert_eq!(post_recv(qps[1], 0), libc::ENOMEM);
            let mut list = [(); 64].map(|()| send_wr(round));
            for _ in 0..(1 << 16) / 64 {
                assert_eq!(post_send(qps[0], &mut list), (0, None));
            }
            assert_eq!(post_send(qps[0], &mut [send_wr(0)]), (libc::ENOMEM, Some(0)));
            let wc = completions(cq, 1 << 17);
            assert!(wc.iter().all(|wc| wc.status == IBV_WC_SUCCESS));
        }
        for (send, recv, is_ok) in [
            (32_768, 65_535, true),
            (32_769, 1, true),
            (65_537, 1, false),
            (1, 65_537, false),
            (u32::MAX, 1, false),
        ] {
            (attr.cap.max_send_wr, attr.cap.max_recv_wr) = (send, recv);
            if is_ok {
                let qp = ibv_create_qp(bench.pd, &mut attr);
                assert!(!qp.is_null() && attr.cap.max_send_wr >= send && attr.cap.max_recv_wr >= recv);
                assert_eq!(ibv_destroy_qp(qp), 0);
            } else {
                refused(ibv_create_qp(bench.pd, &mut attr), libc::EINVAL);
            }
        }
        qps.iter().for_each(|qp| assert_eq!(ibv_destroy_qp(*qp), 0));
        assert_eq!(ibv_destroy_cq(cq), 0);
    }
    bench.close();
}
