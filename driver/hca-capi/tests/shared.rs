//! Shared receive queues through the C interface (V-100..105): create, post, limits, events, and wrong use.

mod common;

use std::ffi::c_int;
use std::ptr::{addr_of_mut, null_mut};

use common::*;
use ibverbs::abi::*;

unsafe extern "C" {
    fn ibv_modify_srq(srq: *mut ibv_srq, attr: *mut ibv_srq_attr, mask: c_int) -> c_int;
    fn ibv_query_srq(srq: *mut ibv_srq, attr: *mut ibv_srq_attr) -> c_int;
}

/// A card, an SRQ, and two connected QPs that receive from it.
struct Shared {
    context: *mut ibv_context,
    pd: *mut ibv_pd,
    cq: *mut ibv_cq,
    srq: *mut ibv_srq,
    qps: [*mut ibv_qp; 2],
}

fn create(pd: *mut ibv_pd, max_wr: u32, max_sge: u32) -> (*mut ibv_srq, ibv_srq_attr) {
    let mut init = ibv_srq_init_attr {
        srq_context: 0x77 as *mut _,
        attr: ibv_srq_attr {
            max_wr,
            max_sge,
            // DEFECT-4: not at creation.
            srq_limit: 5,
        },
    };
    // SAFETY: a live PD, or what the test wants looked at.
    let srq = unsafe { ibv_create_srq(pd, addr_of_mut!(init).cast()) };
    (srq, init.attr)
}

fn srq_attr(srq: *mut ibv_srq) -> ibv_srq_attr {
    let mut attr = ibv_srq_attr::default();
    // SAFETY: a live SRQ.
    assert_eq!(unsafe { ibv_query_srq(srq, &mut attr) }, 0);
    attr
}

/// ibv_post_srq_recv of verbs.h: errno, and the position of bad_wr.
fn post(srq: *mut ibv_srq, list: &mut [ibv_recv_wr]) -> (c_int, Option<usize>) {
    let base = list.as_mut_ptr();
    for i in 1..list.len() {
        // SAFETY: inside the list.
        unsafe { (*base.add(i - 1)).next = base.add(i) };
    }
    let mut bad = null_mut();
    // SAFETY: a live SRQ, and a list that ends with NULL.
    let result = unsafe { (*(*srq).context).ops.post_srq_recv.unwrap()(srq, base, &mut bad) };
    (
        result,
        (0..list.len()).find(|i| std::ptr::eq(base.wrapping_add(*i), bad)),
    )
}

fn receives(wr_ids: std::ops::Range<u64>) -> Vec<ibv_recv_wr> {
    let wr = |wr_id| ibv_recv_wr {
        wr_id,
        ..Default::default()
    };
    wr_ids.map(wr).collect()
}

impl Shared {
    fn new(card: usize) -> Self {
        let context = open(card);
        // SAFETY: all of it is alive; results are checked.
        unsafe {
            let pd = ibv_alloc_pd(context);
            let cq = ibv_create_cq(context, 200, null_mut(), null_mut(), 0);
            let (srq, attr) = create(pd, 10, 2);
            assert!(!srq.is_null() && attr.max_wr >= 10 && attr.max_sge >= 2);
            assert_eq!(attr.srq_limit, 0);
            let qps = [(); 2].map(|()| {
                let mut init = init_attr(cq);
                init.srq = srq;
                // SPEC-9: ignored.
                (init.cap.max_recv_wr, init.cap.max_recv_sge) = (u32::MAX, u32::MAX);
                let qp = ibv_create_qp(pd, &mut init);
                assert!(!qp.is_null());
                assert_eq!((init.cap.max_recv_wr, init.cap.max_recv_sge), (0, 0));
                qp
            });
            connect(qps[0], (*qps[1]).qp_num);
            connect(qps[1], (*qps[0]).qp_num);
            Self {
                context,
                pd,
                cq,
                srq,
                qps,
            }
        }
    }

    fn event(&self) -> ibv_async_event {
        // SAFETY: an open context; its structure is written. Polls let the card go on.
        unsafe {
            let poll = (*self.context).ops.poll_cq.unwrap();
            let mut ready = libc::pollfd {
                fd: (*self.context).async_fd,
                events: libc::POLLIN,
                revents: 0,
            };
            until(|| {
                poll(self.cq, 1, &mut ibv_wc::default());
                libc::poll(&mut ready, 1, 0) == 1
            });
            let mut event = std::mem::zeroed();
            assert_eq!(ibv_get_async_event(self.context, &mut event), 0);
            event
        }
    }

    fn close(self) {
        // SAFETY: created above, and nobody else has them.
        unsafe {
            assert_eq!(ibv_destroy_srq(self.srq), libc::EBUSY);
            for qp in self.qps {
                assert_eq!(ibv_destroy_qp(qp), 0);
            }
            assert_eq!(ibv_dealloc_pd(self.pd), libc::EBUSY);
            assert_eq!(ibv_destroy_srq(self.srq), 0);
            assert_eq!(ibv_destroy_srq(self.srq), libc::EINVAL);
            assert_eq!(ibv_destroy_cq(self.cq), 0);
            assert_eq!(ibv_dealloc_pd(self.pd), 0);
            assert_eq!(ibv_close_device(self.context), 0);
        }
    }
}

#[test]
fn messages_arrive_in_the_shared_queue() {
    let shared = Shared::new(0);
    let max_wr = u64::from(srq_attr(shared.srq).max_wr);
    // V-105: stops at the one for which there is no room.
    let (result, bad) = post(shared.srq, &mut receives(0..max_wr + 3));
    assert_eq!((result, bad), (libc::ENOMEM, Some(max_wr as usize)));
    for round in 0..3 * max_wr {
        let qp = shared.qps[round as usize % 2];
        assert_eq!(post_send(qp, &mut [send_wr(500 + round)]).0, 0);
        let mut found = shared.completions();
        found.sort_by_key(|wc| wc.wr_id);
        assert_eq!((found[0].wr_id, found[0].opcode), (round, IBV_WC_RECV));
        assert_eq!(found[1].wr_id, 500 + round);
        assert_eq!(
            post(shared.srq, &mut receives(max_wr + round..max_wr + round + 1)),
            (0, None)
        );
    }
    // SPEC-9, V-165: not through the QP.
    assert_eq!(post_recv(shared.qps[0], 1), libc::EINVAL);
    // SAFETY: live objects and structures.
    unsafe {
        let (mut attr, mut init) = (ibv_qp_attr::default(), ibv_qp_init_attr::default());
        assert_eq!(ibv_query_qp(shared.qps[0], &mut attr, 0, &mut init), 0);
        assert_eq!((init.srq, init.cap.max_recv_wr), (shared.srq, 0));
        assert_eq!((*shared.qps[0]).srq, shared.srq);
        assert_eq!((*shared.srq).srq_context as usize, 0x77);
    }
    shared.close();
}

impl Shared {
    fn completions(&self) -> Vec<ibv_wc> {
        completions(self.cq, 2)
    }
}

/// SPEC-6, V-102: the limit, its event, and its acknowledgement, which a destroy waits for (V-48).
#[test]
fn limits_and_their_events() {
    let shared = Shared::new(1);
    assert_eq!(post(shared.srq, &mut receives(0..4)), (0, None));
    let modify = |srq_limit, mask: u32| {
        let mut attr = ibv_srq_attr {
            max_wr: 20,
            max_sge: 1,
            srq_limit,
        };
        // SAFETY: a live SRQ.
        unsafe { ibv_modify_srq(shared.srq, &mut attr, mask as c_int) }
    };
    assert_eq!(modify(4, IBV_SRQ_LIMIT), 0);
    assert_eq!(srq_attr(shared.srq).srq_limit, 4);
    // No change with an error in it, and what the device lacks.
    assert_eq!(modify(100_000, IBV_SRQ_LIMIT), libc::EINVAL);
    assert_eq!(modify(2, IBV_SRQ_LIMIT | 1 << 7), libc::EINVAL);
    assert_eq!(modify(2, IBV_SRQ_LIMIT | IBV_SRQ_MAX_WR), libc::EOPNOTSUPP);
    assert_eq!(modify(2, 0), 0);
    assert_eq!(srq_attr(shared.srq).srq_limit, 4);
    assert_eq!(post_send(shared.qps[0], &mut [send_wr(9)]).0, 0);
    shared.completions();
    let mut event = shared.event();
    assert_eq!(event.event_type, IBV_EVENT_SRQ_LIMIT_REACHED);
    // SAFETY: of this type.
    assert_eq!(unsafe { event.element.srq }, shared.srq);
    assert_eq!(srq_attr(shared.srq).srq_limit, 0);
    // SAFETY: an event that was read.
    unsafe { ibv_ack_async_event(&mut event) };
    shared.close();
}

/// SPEC-8: LAST_WQE_REACHED for the QP that went to ERR.
#[test]
fn last_wqe_reached() {
    let shared = Shared::new(2);
    assert_eq!(post(shared.srq, &mut receives(0..4)), (0, None));
    let mut attr = ibv_qp_attr {
        qp_state: IBV_QPS_ERR,
        ..Default::default()
    };
    // SAFETY: a live QP.
    let result = unsafe { ibv_modify_qp(shared.qps[1], &mut attr, IBV_QP_STATE as c_int) };
    assert_eq!(result, 0);
    let mut event = shared.event();
    assert_eq!(event.event_type, IBV_EVENT_QP_LAST_WQE_REACHED);
    // SAFETY: of this type; an event that was read.
    unsafe {
        assert_eq!(event.element.qp, shared.qps[1]);
        ibv_ack_async_event(&mut event);
    }
    shared.close();
}

/// Sizes and objects that cannot be: errno, and nothing else.
#[test]
fn wrong_use() {
    let shared = Shared::new(3);
    for (max_wr, max_sge) in [(0, 1), (1, 0), ((1 << 16) + 1, 1), (1, 17), (u32::MAX, u32::MAX)] {
        let (srq, _) = create(shared.pd, max_wr, max_sge);
        assert!(srq.is_null() && errno() == libc::EINVAL, "{max_wr} {max_sge}");
    }
    // SAFETY: pointers that are no SRQs are looked up first.
    unsafe {
        assert!(ibv_create_srq(shared.pd, null_mut()).is_null() && errno() == libc::EINVAL);
        assert!(create(shared.cq.cast(), 1, 1).0.is_null() && errno() == libc::EINVAL);
        let wrong: *mut ibv_srq = shared.pd.cast();
        let mut attr = ibv_srq_attr::default();
        assert_eq!(
            ibv_modify_srq(wrong, &mut attr, IBV_SRQ_LIMIT as c_int),
            libc::EINVAL
        );
        assert_eq!(ibv_query_srq(wrong, &mut attr), -1);
        assert_eq!(errno(), libc::EINVAL);
        assert_eq!(ibv_query_srq(shared.srq, null_mut()), -1);
        assert_eq!(ibv_destroy_srq(wrong), libc::EINVAL);
        let mut init = init_attr(shared.cq);
        init.srq = wrong;
        assert!(ibv_create_qp(shared.pd, &mut init).is_null() && errno() == libc::EINVAL);
        // MEM-1: of another PD, or of another open of the card.
        let other = ibv_alloc_pd(shared.context);
        init.srq = shared.srq;
        assert!(ibv_create_qp(other, &mut init).is_null() && errno() == libc::EINVAL);
        assert_eq!(ibv_dealloc_pd(other), 0);
        // V-101: a type that is not there.
        let mut tagged = ibv_srq_init_attr_ex {
            comp_mask: IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD,
            srq_type: IBV_SRQT_TM,
            pd: shared.pd,
            ..Default::default()
        };
        let create_srq_ex = (*extended(shared.context)).create_srq_ex.unwrap();
        assert!(create_srq_ex(shared.context, &mut tagged).is_null() && errno() == libc::EOPNOTSUPP);
        let mut device = ibv_device_attr::default();
        assert_eq!(ibv_query_device(shared.context, &mut device), 0);
        assert!(device.max_srq > 0 && device.max_srq_wr == 1 << 16 && device.max_srq_sge == 16);
        assert_eq!(device.device_cap_flags & IBV_DEVICE_SRQ_RESIZE, 0);
    }
    shared.close();
}
