//! Completions come in the order in which the card wrote them, whoever arms the CQ meanwhile (V-67, V-70).

mod common;

use std::ptr::null_mut;
use std::sync::mpsc::channel;

use common::*;
use ibverbs::abi::*;

/// A message from one QP to the other, until the card has written its receive completion.
fn message(qps: [*mut ibv_qp; 2], wr_id: u64) {
    assert_eq!(post_recv(qps[1], wr_id), 0);
    let mut list = [ibv_send_wr {
        send_flags: 0,
        ..send_wr(wr_id)
    }];
    assert_eq!(post_send(qps[0], &mut list), (0, None));
    let device = KEPT.get().unwrap().device();
    (0..100).for_each(|_| device.progress());
}

/// Another thread arms the CQ, and is done when this returns.
fn armed_elsewhere(cq: *mut ibv_cq) {
    let (cq, (done, wait)) = (cq as usize, channel());
    let other = std::thread::spawn(move || {
        let cq = cq as *mut ibv_cq;
        // SAFETY: a live CQ.
        let result = unsafe { (*(*cq).context).ops.req_notify_cq.unwrap()(cq, 0) };
        done.send(result).unwrap();
    });
    let result = wait.recv_timeout(PATIENCE);
    assert_eq!(result, Ok(0), "arming waits for a poll on another thread");
    other.join().unwrap();
}

fn poll_one(cq: *mut ibv_cq) -> Option<u64> {
    let mut wc = ibv_wc::default();
    // SAFETY: a live CQ.
    let count = unsafe { (*(*cq).context).ops.poll_cq.unwrap()(cq, 1, &mut wc) };
    (count == 1).then_some(wc.wr_id)
}

fn poll_one_ex(cq: *mut ibv_cq) -> Option<u64> {
    let cq = cq.cast::<ibv_cq_ex>();
    // SAFETY: a live extended CQ.
    unsafe {
        if (*cq).start_poll.unwrap()(cq, null_mut()) != 0 {
            return None;
        }
        let wr_id = (*cq).wr_id;
        (*cq).end_poll.unwrap()(cq);
        Some(wr_id)
    }
}

/// Each poll takes one, by either interface. While the first looks for completions the second time, the card writes
/// number 1, another thread arms, the card writes number 2.
#[test]
fn arming_while_another_thread_polls_keeps_the_order() {
    let context = open(KEPT_CARD as usize);
    for take in [poll_one, poll_one_ex] {
        // SAFETY: live objects; slots are there.
        unsafe {
            let pd = ibv_alloc_pd(context);
            let channel = ibv_create_comp_channel(context);
            let mut attr = ibv_cq_init_attr_ex {
                cqe: 50,
                channel,
                ..Default::default()
            };
            let cq = (*extended(context)).create_cq_ex.unwrap()(context, &mut attr).cast::<ibv_cq>();
            let qps = [(); 2].map(|()| ibv_create_qp(pd, &mut init_attr(cq)));
            connect(qps[0], (*qps[1]).qp_num);
            connect(qps[1], (*qps[0]).qp_num);
            BETWEEN_LOOKS.set(Some(Box::new(move || {
                message(qps, 1);
                armed_elsewhere(cq);
                message(qps, 2);
            })));
            let found: Vec<u64> = (0..10).filter_map(|_| take(cq)).collect();
            assert_eq!(found, [1, 2]);
            // What arming has taken belongs to a QP still: it goes with it (QPS-6).
            message(qps, 3);
            armed_elsewhere(cq);
            assert_eq!(ibv_destroy_qp(qps[1]), 0);
            assert_eq!(take(cq), None);
            assert_eq!(ibv_destroy_qp(qps[0]), 0);
            assert_eq!(ibv_destroy_cq(cq), 0);
            assert_eq!(ibv_destroy_comp_channel(channel), 0);
            assert_eq!(ibv_dealloc_pd(pd), 0);
        }
    }
    // SAFETY: opened above.
    assert_eq!(unsafe { ibv_close_device(context) }, 0);
}
