//! What ibv_post_send and ibv_poll_cq cost the processor, through the C entry points, on a device that does nothing:
//! doorbells go nowhere, completions are written into the ring by hand between the measurements.
//!
//! `cargo run --release -p hca-capi --example c_data_path_cost`. Prints nanoseconds, the best of some rounds: the
//! machine may have other work.

#[path = "../tests/common/mod.rs"]
mod common;

use std::ffi::c_int;
use std::hint::black_box;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::ptr::null_mut;
use std::sync::atomic::Ordering;
use std::time::Instant;

use common::*;
use hca_abi::Cqe;
use hca_dev::DmaBuf;
use hca_vfio_user::{PostedReader, PostedWrite, PostedWriter, SharedRegion, eventfd};
use ibverbs::abi::*;

/// Work requests between two measurements; as many as a queue holds.
const BATCH: u32 = 512;
const LOG_CQ_SIZE: u8 = 11;
const ROUNDS: u32 = 400;

/// A QP whose completions we write.
struct Null {
    bench: Bench,
    cq: *mut ibv_cq,
    qp: *mut ibv_qp,
    ring: DmaBuf,
    written: u32,
}

impl Null {
    fn new() -> Self {
        let bench = bench(0);
        // SAFETY: all of it is alive; results are checked.
        unsafe {
            let cqe = hca_driver::usable_cqes(LOG_CQ_SIZE) as c_int;
            let cq = ibv_create_cq(bench.context, cqe, null_mut(), null_mut(), 0);
            let ring = LAST_RING.lock().unwrap().clone().unwrap();
            assert_eq!(ring.len_bytes(), Cqe::BYTES << LOG_CQ_SIZE);
            let mut attr = init_attr(cq);
            (attr.cap.max_send_wr, attr.cap.max_recv_wr) = (BATCH, BATCH);
            let qp = ibv_create_qp(bench.pd, &mut attr);
            assert!(!qp.is_null());
            connect(qp, (*bench.qps[1]).qp_num);
            IS_NULL.store(true, Ordering::Relaxed);
            Self {
                bench,
                cq,
                qp,
                ring,
                written: 0,
            }
        }
    }

    /// The card's part: a completion of each work request.
    fn complete(&mut self, opcode: u32, count: u32, first_index: u32) {
        for i in 0..count {
            let mut cqe = Cqe::new();
            // SAFETY: alive.
            cqe.set_qpn(unsafe { (*self.qp).qp_num });
            cqe.set_opcode(opcode as u8);
            cqe.set_wqe_index((first_index + i) as u16);
            cqe.set_phase(self.written >> LOG_CQ_SIZE & 1 == 0);
            let slot = self.written as usize & ((1 << LOG_CQ_SIZE) - 1);
            self.ring.write_bytes(slot * Cqe::BYTES, cqe.as_bytes());
            self.written += 1;
        }
    }

    /// Takes them, `at_once` per call.
    fn poll(&self, at_once: u32) {
        let mut wc = [ibv_wc::default(); 16];
        // SAFETY: alive, and room for 16.
        unsafe {
            let poll = (*self.bench.context).ops.poll_cq.unwrap();
            for _ in 0..BATCH / at_once {
                let got = poll(black_box(self.cq), at_once as c_int, wc.as_mut_ptr());
                assert!(got == at_once as c_int && wc[0].status == IBV_WC_SUCCESS);
            }
        }
    }
}

/// Nanoseconds of one of `count` things that `f` does.
fn time(best: &mut f64, count: u32, f: impl FnOnce()) {
    let start = Instant::now();
    f();
    *best = best.min(start.elapsed().as_nanos() as f64 / f64::from(count));
}

/// The doorbell as a simulator's clients ring it, while the simulator is awake.
fn doorbell() -> f64 {
    let region = SharedRegion::new().expect("memory");
    let (_ours, theirs) = UnixStream::pair().expect("a socket");
    let kick = eventfd().expect("an eventfd");
    let writer = PostedWriter::new(
        region.clone(),
        kick.as_fd().try_clone_to_owned().expect("a copy"),
        theirs.into(),
    );
    let mut reader = PostedReader::new(region);
    let mut best = f64::MAX;
    for _ in 0..ROUNDS {
        time(&mut best, BATCH, || {
            for value in 0..BATCH {
                writer.post(black_box(PostedWrite {
                    offset: 0x1000,
                    len_bytes: 8,
                    value: value.into(),
                }));
            }
        });
        assert_eq!(std::iter::from_fn(|| reader.take()).count(), BATCH as usize);
    }
    best
}

fn main() {
    let mut null = Null::new();
    let mut bytes = [0u8; 64];
    let mut sge = ibv_sge {
        addr: bytes.as_mut_ptr() as u64,
        length: 64,
        lkey: 7,
    };
    let mut wr = ibv_send_wr {
        sg_list: &mut sge,
        num_sge: 1,
        opcode: IBV_WR_RDMA_WRITE,
        ..send_wr(1)
    };
    (wr.wr.rdma.remote_addr, wr.wr.rdma.rkey) = (0x1000, 9);
    let mut list = [wr; 32];
    let [mut send, mut send_list, mut recv, mut one, mut many, mut empty] = [f64::MAX; 6];
    for round in 0..ROUNDS {
        let first = 2 * round * BATCH;
        time(&mut send, BATCH, || {
            (0..BATCH).for_each(|_| assert_eq!(post_send(null.qp, std::slice::from_mut(&mut wr)).0, 0));
        });
        null.complete(IBV_WC_RDMA_WRITE, BATCH, first);
        time(&mut one, BATCH, || null.poll(1));
        time(&mut send_list, BATCH, || {
            (0..BATCH / 32).for_each(|_| assert_eq!(post_send(null.qp, &mut list).0, 0));
        });
        null.complete(IBV_WC_RDMA_WRITE, BATCH, first + BATCH);
        time(&mut many, BATCH, || null.poll(16));
        time(&mut recv, BATCH, || {
            (0..BATCH).for_each(|i| assert_eq!(post_recv(null.qp, i.into()), 0));
        });
        null.complete(IBV_WC_RECV, BATCH, round * BATCH);
        null.poll(16);
        time(&mut empty, BATCH, || {
            // SAFETY: alive, and room for one.
            unsafe {
                let poll = (*null.bench.context).ops.poll_cq.unwrap();
                (0..BATCH).for_each(|_| assert_eq!(poll(null.cq, 1, &mut ibv_wc::default()), 0));
            }
        });
    }
    println!("ibv_post_send, a WRITE with one entry, a doorbell each  {send:6.1} ns");
    println!("ibv_post_send, the same in lists of 32, each            {send_list:6.1} ns");
    println!("ibv_post_recv                                           {recv:6.1} ns");
    println!("ibv_poll_cq, one completion                             {one:6.1} ns");
    println!("ibv_poll_cq, 16 at a time, each                         {many:6.1} ns");
    println!("ibv_poll_cq that finds nothing                          {empty:6.1} ns");
    println!(
        "ibv_post_send + ibv_poll_cq                             {:6.1} ns",
        send + one
    );
    println!(
        "work requests posted and polled per second and core      {:6.1} million",
        1e3 / (send + one)
    );
    println!(
        "doorbell through the ring shared with a simulator       {:6.1} ns",
        doorbell()
    );
}
