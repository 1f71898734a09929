//! Post and poll allocate nothing; with --nocapture this prints what they cost on a device that does nothing.

mod common;

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::ptr::null_mut;
use std::sync::atomic::Ordering;
use std::time::Instant;

use common::*;
use ibverbs::abi::*;

struct Counting;

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

// SAFETY: everything is the system allocator's; counting touches no memory of it.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.set(ALLOCATIONS.get() + 1);
        // SAFETY: the caller's promises.
        unsafe { System.alloc(layout) }
    }
    unsafe fn dealloc(&self, ptr: *mut u8, layout: Layout) {
        // SAFETY: the caller's promises.
        unsafe { System.dealloc(ptr, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Runs `f`, which does something `times` times.
fn measure(what: &str, times: u64, f: impl FnOnce()) {
    let (before, start) = (ALLOCATIONS.get(), Instant::now());
    f();
    let ns = start.elapsed().as_nanos() as u64;
    let allocated = ALLOCATIONS.get() - before;
    println!("{what}: {} ns", ns / times);
    assert_eq!(allocated, 0, "{what} allocates");
}

const DEPTH: usize = 8192;

#[test]
fn post_and_poll_allocate_nothing() {
    let bench = bench(0);
    // SAFETY: all of it is alive; results are checked.
    unsafe {
        let mut attr = ibv_cq_init_attr_ex {
            cqe: 4 * DEPTH as u32,
            wc_flags: 7,
            ..Default::default()
        };
        let cq = (*extended(bench.context)).create_cq_ex.unwrap()(bench.context, &mut attr);
        let mut attr = init_attr_ex(bench.pd, cq.cast(), IBV_QP_EX_WITH_SEND);
        (attr.cap.max_send_wr, attr.cap.max_recv_wr) = (DEPTH as u32, DEPTH as u32);
        let create = (*extended(bench.context)).create_qp_ex.unwrap();
        let qps = [(); 2].map(|()| create(bench.context, &mut attr));
        connect(qps[0], (*qps[1]).qp_num);
        connect(qps[1], (*qps[0]).qp_num);

        IS_NULL.store(true, Ordering::Relaxed);
        let n = DEPTH as u64;
        measure("post_recv", n - 1, || {
            (1..n).for_each(|i| assert_eq!(post_recv(qps[1], i), 0))
        });
        measure("post_send", n / 2, || {
            (0..n / 2).for_each(|i| assert_eq!(post_send(qps[0], &mut [send_wr(i)]).0, 0));
        });
        let mut list = [(); 32].map(|()| send_wr(1));
        measure("post_send in lists of 32, each", n / 4, || {
            (0..n / 128).for_each(|_| assert_eq!(post_send(qps[0], &mut list).0, 0));
        });
        let qp = ibv_qp_to_qp_ex(qps[0]);
        let section = || {
            (*qp).wr_start.unwrap()(qp);
            (*qp).wr_flags = IBV_SEND_SIGNALED;
            (*qp).wr_send.unwrap()(qp);
            (*qp).wr_set_sge_list.unwrap()(qp, 0, null_mut());
            assert_eq!((*qp).wr_complete.unwrap()(qp), 0);
        };
        // The first section makes its memory.
        section();
        measure("section of one work request", n / 4 - 2, || {
            (0..n / 4 - 2).for_each(|_| section())
        });
        measure("empty poll", n, || {
            let poll = (*bench.context).ops.poll_cq.unwrap();
            (0..n).for_each(|_| assert_eq!(poll(cq.cast(), 1, &mut ibv_wc::default()), 0));
        });

        // The doorbells of one more of each tell the card of all; then it works until all are done.
        IS_NULL.store(false, Ordering::Relaxed);
        assert_eq!(post_recv(qps[1], n), 0);
        section();
        let poll = (*bench.context).ops.poll_cq.unwrap();
        (0..4 * n).for_each(|_| assert_eq!(poll(bench.cq, 1, &mut ibv_wc::default()), 0));
        IS_NULL.store(true, Ordering::Relaxed);
        let mut wc = [ibv_wc::default(); 16];
        measure("poll of 16 completions, each", n, || {
            (0..n / 16).for_each(|_| assert_eq!(poll(cq.cast(), 16, wc.as_mut_ptr()), 16));
        });
        assert!(wc.iter().all(|wc| wc.status == IBV_WC_SUCCESS));
        measure("extended poll, each", n, || {
            let mut result = (*cq).start_poll.unwrap()(cq, null_mut());
            for _ in 0..n {
                assert_eq!((result, (*cq).status), (0, IBV_WC_SUCCESS));
                result = (*cq).next_poll.unwrap()(cq);
            }
            assert_eq!(result, libc::ENOENT);
            (*cq).end_poll.unwrap()(cq);
        });
    }
}
