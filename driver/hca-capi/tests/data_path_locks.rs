//! Two QPs do not wait for each other: one thread keeps everything that a QP, its CQ and the open card can lock,
//! another one posts and polls on its own QP meanwhile. K-6: what may sleep is not the data path's.

mod common;

use std::ptr::null_mut;
use std::sync::mpsc::channel;
use std::time::Duration;

use common::*;
use ibverbs::abi::*;

/// Far longer than the work takes, whatever else the processor has to do.
const PATIENCE: Duration = Duration::from_secs(60);

/// An extended CQ, and two extended QPs on it that are connected with each other.
fn extended_pair(bench: &Bench) -> (*mut ibv_cq_ex, [*mut ibv_qp; 2]) {
    // SAFETY: all of it is alive; slots are checked.
    unsafe {
        let mut attr = ibv_cq_init_attr_ex {
            cqe: 50,
            ..Default::default()
        };
        let cq = (*extended(bench.context)).create_cq_ex.unwrap()(bench.context, &mut attr);
        let mut attr = init_attr_ex(bench.pd, cq.cast(), IBV_QP_EX_WITH_SEND);
        let create = (*extended(bench.context)).create_qp_ex.unwrap();
        let qps = [(); 2].map(|()| create(bench.context, &mut attr));
        connect(qps[0], (*qps[1]).qp_num);
        connect(qps[1], (*qps[0]).qp_num);
        (cq, qps)
    }
}

/// Eight messages from one QP to the other; every entry point of the data path is used.
fn traffic(cq: *mut ibv_cq_ex, qps: [*mut ibv_qp; 2]) {
    for i in 0..8 {
        assert_eq!(post_recv(qps[1], 100 + i), 0);
    }
    let mut list: Vec<ibv_send_wr> = (0..4).map(send_wr).collect();
    assert_eq!(post_send(qps[0], &mut list), (0, None));
    // SAFETY: extended objects, alive.
    unsafe {
        let qp = ibv_qp_to_qp_ex(qps[0]);
        (*qp).wr_start.unwrap()(qp);
        for i in 4..8 {
            ((*qp).wr_id, (*qp).wr_flags) = (i, IBV_SEND_SIGNALED);
            (*qp).wr_send.unwrap()(qp);
            (*qp).wr_set_sge_list.unwrap()(qp, 0, null_mut());
        }
        assert_eq!((*qp).wr_complete.unwrap()(qp), 0);
        // Some by the plain interface, the rest by the extended one, and empty polls of both between.
        let wc = completions(cq.cast(), 6);
        assert!(wc.iter().all(|wc| wc.status == IBV_WC_SUCCESS));
        let mut rest = 10;
        while rest > 0 {
            let mut result = (*cq).start_poll.unwrap()(cq, null_mut());
            let opened = result == 0;
            while result == 0 {
                assert_eq!((*cq).status, IBV_WC_SUCCESS);
                rest -= 1;
                result = (*cq).next_poll.unwrap()(cq);
            }
            if opened {
                (*cq).end_poll.unwrap()(cq);
            }
        }
        assert_eq!(
            (*(*cq).context).ops.poll_cq.unwrap()(cq.cast(), 1, &mut ibv_wc::default()),
            0
        );
        assert_eq!((*(*cq).context).ops.req_notify_cq.unwrap()(cq.cast(), 0), 0);
    }
}

/// V-1, V-178.
#[test]
fn qps_on_two_threads_do_not_wait_for_each_other() {
    let bench = bench(KEPT_CARD as usize);
    let (held_cq, held) = extended_pair(&bench);
    let (free_cq, free) = extended_pair(&bench);
    // SAFETY: extended objects, alive.
    unsafe {
        // A completion for the section of the CQ that stays open.
        assert_eq!(post_recv(held[1], 1), 0);
        assert_eq!(post_send(held[0], &mut [send_wr(2)]), (0, None));
        let start = (*held_cq).start_poll.unwrap();
        while start(held_cq, null_mut()) != 0 {}
        // Both locks of a QP and its CQ, for as long as the sections last; and the card's admin queue.
        for qp in held.map(|qp| ibv_qp_to_qp_ex(qp)) {
            (*qp).wr_start.unwrap()(qp);
        }
        let admin = KEPT.get().unwrap().function();

        let (done, wait) = channel();
        let (cq, qps) = (free_cq as usize, free.map(|qp| qp as usize));
        let other = std::thread::spawn(move || {
            traffic(cq as *mut ibv_cq_ex, qps.map(|qp| qp as *mut ibv_qp));
            done.send(()).unwrap();
        });
        assert!(
            wait.recv_timeout(PATIENCE).is_ok(),
            "the other QP's thread waits for a lock, or has failed"
        );
        other.join().unwrap();

        drop(admin);
        for qp in held.map(|qp| ibv_qp_to_qp_ex(qp)) {
            (*qp).wr_abort.unwrap()(qp);
        }
        (*held_cq).end_poll.unwrap()(held_cq);
        for (cq, qps) in [(held_cq, held), (free_cq, free)] {
            for qp in qps {
                assert_eq!(ibv_destroy_qp(qp), 0);
            }
            assert_eq!(ibv_destroy_cq(cq.cast()), 0);
        }
    }
    bench.close();
}
