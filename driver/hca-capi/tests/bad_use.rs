//! Wrong use gets the error that the manual pages promise, changes nothing, and never ends the program.

mod common;

use std::ffi::{CStr, c_int, c_void};
use std::ptr::null_mut;

use common::*;
use ibverbs::abi::*;

/// The verb failed with NULL and this errno.
#[track_caller]
fn refused<T>(pointer: *mut T, wanted: c_int) {
    let found = errno();
    assert!(pointer.is_null());
    assert_eq!(found, wanted, "errno");
}

const EINVAL: c_int = libc::EINVAL;

#[test]
fn memory_regions() {
    let bench = bench(10);
    let mut buf = vec![0u8; 8192];
    let addr = buf.as_mut_ptr().cast::<c_void>();
    // SAFETY: live objects; memory that is not there is only named.
    unsafe {
        let reg =
            |addr: *mut c_void, length, access: u32| ibv_reg_mr(bench.pd, addr, length, access as c_int);
        // MEM: unreadable, or not writable where the card is to write.
        refused(
            reg(0x1000 as *mut c_void, 4096, IBV_ACCESS_LOCAL_WRITE),
            libc::EFAULT,
        );
        let protection = libc::PROT_NONE;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        let hidden = libc::mmap(null_mut(), 8192, protection, flags, -1, 0);
        refused(reg(hidden, 8192, 0), libc::EFAULT);
        let constant = libc::mmap(null_mut(), 8192, libc::PROT_READ, flags, -1, 0);
        refused(reg(constant, 8192, IBV_ACCESS_LOCAL_WRITE), libc::EFAULT);
        let mr = reg(constant, 8192, IBV_ACCESS_REMOTE_READ);
        assert!(!mr.is_null(), "a region that is only read may be constant");
        assert_eq!(ibv_dereg_mr(mr), 0);
        // Too large, mapped or not.
        refused(reg(addr, usize::MAX / 2, 1), libc::EFAULT);
        refused(reg(addr, usize::MAX, 1), EINVAL);
        let mut attr = ibv_device_attr::default();
        assert_eq!(ibv_query_device(bench.context, &mut attr), 0);
        let length = attr.max_mr_size as usize + 4096;
        let rights = libc::PROT_READ | libc::PROT_WRITE;
        let huge = libc::mmap(null_mut(), length, rights, flags, -1, 0);
        if huge != libc::MAP_FAILED {
            refused(reg(huge, length, 1), EINVAL);
            libc::munmap(huge, length);
        }
        refused(reg(addr, 0, 1), EINVAL);
        // V-130: remote writing needs local writing; rights that no card of ours has.
        refused(reg(addr, 8192, IBV_ACCESS_REMOTE_WRITE), EINVAL);
        refused(reg(addr, 8192, IBV_ACCESS_REMOTE_ATOMIC), EINVAL);
        refused(reg(addr, 8192, IBV_ACCESS_ON_DEMAND), libc::EOPNOTSUPP);
        refused(reg(addr, 8192, 1 << 15), EINVAL);
        refused(ibv_reg_mr(null_mut(), addr, 8192, 1), EINVAL);
        refused(ibv_reg_mr(bench.cq.cast(), addr, 8192, 1), EINVAL);

        let mr = reg(addr, 8192, 7);
        assert_eq!(((*mr).length, (*mr).addr), (8192, addr));
        assert_eq!(ibv_dealloc_pd(bench.pd), libc::EBUSY);
        assert_eq!(ibv_dereg_mr(mr), 0);
        assert_eq!(ibv_dereg_mr(mr), EINVAL);
        assert_eq!(ibv_dereg_mr(null_mut()), EINVAL);
        let translation = IBV_REREG_MR_CHANGE_TRANSLATION as c_int;
        assert_eq!(
            ibv_rereg_mr(mr, translation, bench.pd, addr, 8192, 1),
            IBV_REREG_MR_ERR_INPUT
        );
        for map in [hidden, constant] {
            libc::munmap(map, 8192);
        }
    }
    bench.close();
}

/// V-55, V-111.
#[test]
fn sizes_out_of_range() {
    let bench = bench(11);
    // SAFETY: live objects.
    unsafe {
        let vectors = (*bench.context).num_comp_vectors;
        for (cqe, vector) in [
            (0, 0),
            (-1, 0),
            (1 << 30, 0),
            (10, vectors),
            (10, c_int::MAX),
            (10, -1),
        ] {
            let cq = ibv_create_cq(bench.context, cqe, null_mut(), null_mut(), vector);
            refused(cq, EINVAL);
        }
        let wrong: [fn(&mut ibv_qp_init_attr); 8] = [
            |attr| attr.cap.max_send_wr = 1 << 20,
            |attr| attr.cap.max_recv_wr = u32::MAX,
            |attr| attr.cap.max_send_sge = 17,
            |attr| attr.cap.max_recv_sge = 1000,
            |attr| attr.cap.max_inline_data = 1 << 16,
            |attr| attr.send_cq = null_mut(),
            |attr| attr.recv_cq = null_mut(),
            |attr| attr.qp_type = 77,
        ];
        for change in wrong {
            let mut attr = init_attr(bench.cq);
            change(&mut attr);
            refused(ibv_create_qp(bench.pd, &mut attr), EINVAL);
        }
        for (qp_type, errno) in [(IBV_QPT_XRC_RECV, EINVAL), (IBV_QPT_DRIVER, libc::EOPNOTSUPP)] {
            let mut attr = init_attr(bench.cq);
            attr.qp_type = qp_type;
            refused(ibv_create_qp(bench.pd, &mut attr), errno);
        }
        let mut attr = ibv_qp_init_attr {
            srq: 0x10 as *mut ibv_srq,
            ..init_attr(bench.cq)
        };
        refused(ibv_create_qp(bench.pd, &mut attr), EINVAL);
        assert_eq!(ibv_resize_cq(bench.cq, 0), EINVAL);
        assert_eq!(ibv_resize_cq(bench.cq, -5), EINVAL);
        assert_eq!(ibv_resize_cq(bench.cq, 1 << 30), EINVAL);
        let before = (*bench.cq).cqe;
        assert_eq!(ibv_resize_cq(bench.cq, before + 1), 0);
        assert!((*bench.cq).cqe > before, "V-63: cqe says what it holds now");
    }
    bench.close();
}

/// V-51, V-121, V-132: objects in use are EBUSY and stay; those that are gone are EINVAL, of whatever kind.
#[test]
fn destroying_in_use_and_twice() {
    let bench = bench(13);
    // SAFETY: live objects, and pointers that are only looked up.
    unsafe {
        assert_eq!(ibv_destroy_cq(bench.cq), libc::EBUSY);
        assert_eq!(ibv_dealloc_pd(bench.pd), libc::EBUSY);
        let channel = ibv_create_comp_channel(bench.context);
        let cq = ibv_create_cq(bench.context, 10, null_mut(), channel, 0);
        assert_eq!(ibv_destroy_comp_channel(channel), libc::EBUSY);
        assert_eq!(ibv_destroy_cq(cq), 0);
        assert_eq!(ibv_destroy_cq(cq), EINVAL);
        assert_eq!(ibv_destroy_comp_channel(channel), 0);
        assert_eq!(ibv_destroy_comp_channel(channel), EINVAL);
        let qp = ibv_create_qp(bench.pd, &mut init_attr(bench.cq));
        assert_eq!(ibv_destroy_qp(qp), 0);
        assert_eq!(ibv_destroy_qp(qp), EINVAL);
        let pd = ibv_alloc_pd(bench.context);
        assert_eq!(ibv_dealloc_pd(pd), 0);
        assert_eq!(ibv_dealloc_pd(pd), EINVAL);
        // The wrong kind of object.
        assert_eq!(ibv_destroy_qp(bench.cq.cast()), EINVAL);
        assert_eq!(ibv_destroy_cq(bench.qps[0].cast()), EINVAL);
        refused(
            ibv_create_qp(bench.context.cast(), &mut init_attr(bench.cq)),
            EINVAL,
        );
        refused(
            ibv_create_qp(bench.pd, &mut init_attr(bench.qps[0].cast())),
            EINVAL,
        );
        refused(
            ibv_create_cq(bench.context, 10, null_mut(), bench.cq.cast(), 0),
            EINVAL,
        );
        let again = open(13);
        assert_eq!(ibv_close_device(again), 0);
        assert_eq!((ibv_close_device(again), errno()), (-1, EINVAL));
        refused(ibv_alloc_pd(again), EINVAL);
    }
    bench.close();
}

#[test]
fn null_where_something_is_needed() {
    let bench = bench(14);
    // SAFETY: NULL is what is tested.
    unsafe {
        refused(ibv_open_device(null_mut()), EINVAL);
        assert_eq!(ibv_close_device(null_mut()), -1);
        assert!(ibv_get_device_name(null_mut()).is_null());
        assert_eq!(ibv_get_device_guid(null_mut()), 0);
        ibv_free_device_list(null_mut());
        let list = ibv_get_device_list(null_mut());
        assert!(!list.is_null(), "the count is optional");
        ibv_free_device_list(list);

        assert_eq!(
            ibv_query_device(null_mut(), &mut ibv_device_attr::default()),
            EINVAL
        );
        assert_eq!(ibv_query_device(bench.context, null_mut()), EINVAL);
        assert_eq!(ibv_query_port(bench.context, 1, null_mut()), EINVAL);
        assert_eq!(ibv_query_gid(bench.context, 1, 0, null_mut()), -1);
        assert_eq!(ibv_query_pkey(bench.context, 1, 0, null_mut()), -1);
        refused(ibv_alloc_pd(null_mut()), EINVAL);
        assert_eq!(ibv_dealloc_pd(null_mut()), EINVAL);
        refused(ibv_create_comp_channel(null_mut()), EINVAL);
        assert_eq!(ibv_destroy_comp_channel(null_mut()), EINVAL);
        refused(ibv_create_cq(null_mut(), 1, null_mut(), null_mut(), 0), EINVAL);
        assert_eq!(ibv_destroy_cq(null_mut()), EINVAL);
        assert_eq!(ibv_resize_cq(null_mut(), 1), EINVAL);
        refused(ibv_create_qp(null_mut(), &mut init_attr(bench.cq)), EINVAL);
        refused(ibv_create_qp(bench.pd, null_mut()), EINVAL);
        assert_eq!(ibv_destroy_qp(null_mut()), EINVAL);
        let mut attr = ibv_qp_attr::default();
        assert_eq!(ibv_modify_qp(null_mut(), &mut attr, 1), EINVAL);
        assert_eq!(ibv_modify_qp(bench.qps[0], null_mut(), 1), EINVAL);
        let mut init = ibv_qp_init_attr::default();
        assert_eq!(ibv_query_qp(null_mut(), &mut attr, 1, &mut init), EINVAL);
        assert_eq!(ibv_query_qp(bench.qps[0], null_mut(), 1, &mut init), EINVAL);
        assert_eq!(ibv_query_qp(bench.qps[0], &mut attr, 1, null_mut()), EINVAL);
        refused(ibv_qp_to_qp_ex(null_mut()), EINVAL);
        let (mut cq, mut cq_context) = (null_mut(), null_mut());
        assert_eq!(ibv_get_cq_event(null_mut(), &mut cq, &mut cq_context), -1);
        ibv_ack_cq_events(null_mut(), 1);
        assert_eq!(
            ibv_get_async_event(null_mut(), &mut ibv_async_event::default()),
            -1
        );
        ibv_ack_async_event(null_mut());
        assert_eq!(ibv_destroy_ah(null_mut()), EINVAL);
        assert_eq!(ibv_destroy_srq(null_mut()), EINVAL);
        let create = (*extended(bench.context)).create_cq_ex.unwrap();
        refused(create(bench.context, null_mut()), EINVAL);
        let modify = (*extended(bench.context)).modify_cq.unwrap();
        assert_eq!(modify(bench.cq, null_mut()), EINVAL);
        for attr_mask in [
            0,
            IBV_CQ_ATTR_RESERVED,
            IBV_CQ_ATTR_MODERATE | IBV_CQ_ATTR_RESERVED,
        ] {
            let mut attr = ibv_modify_cq_attr {
                attr_mask,
                ..Default::default()
            };
            assert_eq!(modify(bench.cq, &mut attr), EINVAL, "{attr_mask}");
        }
        // V-133, V-131: a null region stays what it is.
        let null = (*extended(bench.context)).alloc_null_mr.unwrap()(bench.pd);
        let rereg = ibv_rereg_mr(
            null,
            IBV_REREG_MR_CHANGE_ACCESS as c_int,
            null_mut(),
            null_mut(),
            0,
            3,
        );
        assert_eq!(rereg, IBV_REREG_MR_ERR_INPUT);
        assert_eq!(ibv_dereg_mr(null), 0);
        let create = (*extended(bench.context)).create_qp_ex.unwrap();
        refused(create(bench.context, null_mut()), EINVAL);

        refused(ibv_create_ah(bench.pd, &mut ibv_ah_attr::default()), EINVAL);
        refused(ibv_create_ah(bench.pd, null_mut()), EINVAL);
        refused(ibv_create_ah(null_mut(), &mut ibv_ah_attr::default()), EINVAL);
        refused(
            ibv_create_ah_from_wc(null_mut(), null_mut(), null_mut(), 1),
            EINVAL,
        );
        refused(ibv_create_ah_from_wc(bench.pd, null_mut(), null_mut(), 1), EINVAL);
        refused(ibv_create_srq(bench.pd, null_mut()), EINVAL);
        assert_eq!(CStr::from_ptr(ibv_wc_status_str(99)), c"unknown");
        assert_eq!(CStr::from_ptr(ibv_wc_status_str(-1)), c"unknown");
    }
    bench.close();
}

/// V-164, V-167: the first bad work request is named, those before it are posted.
#[test]
fn posting_and_polling() {
    let bench = bench(15);
    // SAFETY: live objects and lists.
    unsafe {
        let ops = (*bench.context).ops;
        // QPS-5: RESET takes nothing, INIT takes receives.
        let qp = ibv_create_qp(bench.pd, &mut init_attr(bench.cq));
        let mut two = [send_wr(1), send_wr(2)];
        assert_eq!(post_send(qp, &mut two), (EINVAL, Some(0)));
        assert_eq!(post_recv(qp, 1), EINVAL);
        let mut attr = ibv_qp_attr {
            qp_state: IBV_QPS_INIT,
            port_num: 1,
            ..Default::default()
        };
        let mask = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS;
        assert_eq!(ibv_modify_qp(qp, &mut attr, mask as c_int), 0);
        assert_eq!(post_send(qp, &mut two), (EINVAL, Some(0)));
        assert_eq!(post_recv(qp, 1), 0);
        // Not a transition, not a state, and a mask that lacks what INIT to RTR needs.
        attr.qp_state = IBV_QPS_RTS;
        assert_eq!(ibv_modify_qp(qp, &mut attr, IBV_QP_STATE as c_int), EINVAL);
        attr.qp_state = 99;
        assert_eq!(ibv_modify_qp(qp, &mut attr, IBV_QP_STATE as c_int), EINVAL);
        attr.qp_state = IBV_QPS_RTR;
        assert_eq!(ibv_modify_qp(qp, &mut attr, IBV_QP_STATE as c_int), EINVAL);
        assert_eq!(ibv_modify_qp(qp, &mut attr, 1 << 30), EINVAL);
        assert_eq!((*qp).state, IBV_QPS_INIT);
        assert_eq!(ibv_destroy_qp(qp), 0);

        let sender = bench.qps[0];
        let mut sges = [ibv_sge::default(); 40];
        let mut long = [send_wr(1)];
        for num_sge in [3, 17, 40, c_int::MAX, -1] {
            (long[0].sg_list, long[0].num_sge) = (sges.as_mut_ptr(), num_sge);
            assert_eq!(
                post_send(sender, &mut long),
                (EINVAL, Some(0)),
                "{num_sge} entries"
            );
        }
        (long[0].sg_list, long[0].num_sge) = (null_mut(), 1);
        assert_eq!(post_send(sender, &mut long), (EINVAL, Some(0)));
        let mut recv = ibv_recv_wr {
            sg_list: sges.as_mut_ptr(),
            num_sge: 17,
            ..Default::default()
        };
        let mut bad = null_mut();
        assert_eq!(ops.post_recv.unwrap()(sender, &mut recv, &mut bad), EINVAL);
        assert!(std::ptr::eq(bad, &raw mut recv));

        let mut bytes = [7u8; 500];
        let addr = bytes.as_mut_ptr() as u64;
        let mut sge = ibv_sge {
            addr,
            length: 500,
            lkey: 0,
        };
        let mut inline = [ibv_send_wr {
            sg_list: &mut sge,
            num_sge: 1,
            send_flags: IBV_SEND_INLINE | IBV_SEND_SIGNALED,
            ..send_wr(0)
        }];
        assert_eq!(
            post_send(sender, &mut inline),
            (EINVAL, Some(0)),
            "inline too long"
        );
        inline[0].send_flags = 1 << 20;
        assert_eq!(post_send(sender, &mut inline), (EINVAL, Some(0)), "unknown flag");
        inline[0].opcode = 200;
        assert_ne!(post_send(sender, &mut inline).0, 0);

        // More than the queue holds, in one list and one by one.
        let mut many: Vec<ibv_send_wr> = (0..33).map(send_wr).collect();
        assert_eq!(post_send(sender, &mut many), (libc::ENOMEM, Some(32)));
        assert_eq!(post_send(sender, &mut [send_wr(99)]), (libc::ENOMEM, Some(0)));
        for i in 0..32 {
            assert_eq!(post_recv(bench.qps[1], i), 0);
        }
        bench.completions(64);
        for i in 0..32 {
            assert_eq!(post_recv(sender, i), 0);
        }
        assert_eq!(post_recv(sender, 32), libc::ENOMEM);

        let poll = ops.poll_cq.unwrap();
        assert_eq!(poll(bench.cq, 0, null_mut()), 0);
        assert!(poll(bench.cq, -1, null_mut()) < 0);
        assert!(poll(bench.cq, c_int::MIN, null_mut()) < 0);
        ibv_ack_cq_events(bench.cq, 1000);
    }
    bench.close();
}

/// A program that closes the channel's descriptor itself: its events are gone, and nothing else.
#[test]
fn a_channel_whose_descriptor_was_closed() {
    let bench = bench(16);
    // SAFETY: live objects; the descriptor is closed once.
    unsafe {
        let channel = ibv_create_comp_channel(bench.context);
        let cq = ibv_create_cq(bench.context, 10, null_mut(), channel, 0);
        let qps = [(); 2].map(|()| ibv_create_qp(bench.pd, &mut init_attr(cq)));
        connect(qps[0], (*qps[1]).qp_num);
        connect(qps[1], (*qps[0]).qp_num);
        let fd = (*channel).fd;
        assert_eq!(libc::close(fd), 0);
        let (mut which, mut context) = (null_mut(), null_mut());
        assert_eq!(ibv_get_cq_event(channel, &mut which, &mut context), -1);
        assert_eq!(errno(), libc::EBADF);
        // Events that nobody can read: a write into a pipe without a reader.
        for i in 0..20 {
            assert_eq!((*bench.context).ops.req_notify_cq.unwrap()(cq, 0), 0);
            assert_eq!(post_recv(qps[1], i), 0);
            assert_eq!(post_send(qps[0], &mut [send_wr(i)]), (0, None));
            completions(cq, 2);
        }
        // The number may be somebody else's by now: it stays open.
        let null = libc::open(c"/dev/null".as_ptr(), libc::O_RDONLY);
        let mine = if null == fd { null } else { libc::dup2(null, fd) };
        assert_eq!(mine, fd);
        for qp in qps {
            assert_eq!(ibv_destroy_qp(qp), 0);
        }
        assert_eq!(ibv_destroy_cq(cq), 0);
        assert_eq!(ibv_destroy_comp_channel(channel), 0);
        assert_eq!(
            libc::fcntl(mine, libc::F_GETFD),
            0,
            "destroying has not closed another file"
        );
        libc::close(mine);
    }
    bench.close();
}

/// Two opens of one card are two contexts: what is made of one is not for objects of the other.
#[test]
fn objects_of_two_contexts() {
    let (bench, other) = (bench(14), open(14));
    let mut buf = vec![0u8; 4096];
    let addr = buf.as_mut_ptr().cast::<c_void>();
    // SAFETY: live objects.
    unsafe {
        let cq = ibv_create_cq(other, 10, null_mut(), null_mut(), 0);
        let pd = ibv_alloc_pd(other);
        assert!(!cq.is_null() && !pd.is_null());
        for (send_cq, recv_cq) in [(cq, bench.cq), (bench.cq, cq), (cq, cq)] {
            let mut attr = ibv_qp_init_attr {
                send_cq,
                recv_cq,
                ..init_attr(bench.cq)
            };
            refused(ibv_create_qp(bench.pd, &mut attr), EINVAL);
        }
        refused(ibv_create_qp(pd, &mut init_attr(bench.cq)), EINVAL);
        let qp = ibv_create_qp(pd, &mut init_attr(cq));
        assert!(!qp.is_null(), "all of one context");
        assert_eq!(ibv_destroy_qp(qp), 0);

        let channel = ibv_create_comp_channel(bench.context);
        refused(ibv_create_cq(other, 10, null_mut(), channel, 0), EINVAL);
        assert_eq!(ibv_destroy_comp_channel(channel), 0);

        let mr = ibv_reg_mr(bench.pd, addr, 4096, 1);
        let change_pd = IBV_REREG_MR_CHANGE_PD as c_int;
        assert_eq!(
            ibv_rereg_mr(mr, change_pd, pd, null_mut(), 0, 0),
            IBV_REREG_MR_ERR_INPUT
        );
        assert_eq!(ibv_dereg_mr(mr), 0, "it is as it was");
        assert_eq!(ibv_destroy_cq(cq), 0);
        assert_eq!(ibv_dealloc_pd(pd), 0);
        assert_eq!(ibv_close_device(other), 0);
    }
    bench.close();
}
