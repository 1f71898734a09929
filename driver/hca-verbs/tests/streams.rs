//! Completions as a stream: what is there is there at once, what comes later wakes, and nothing is lost between.

mod common;

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context as Task, Poll, Wake, Waker};

use common::Dev;
use futures_core::Stream;
use hca_lone::LoneCard;
use hca_verbs::*;

#[derive(Default)]
struct Woken(AtomicUsize);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

struct Rig {
    context: Context<Dev>,
    cq: Cq<Dev>,
    other: Cq<Dev>,
    qps: (Qp<Rts, Dev>, Qp<Rts, Dev>),
    channel: CompChannel<Dev>,
    dev: Dev,
}

/// Receives complete on `cq`, sends on `other`; both have the channel.
fn rig(cqe: u32) -> Rig {
    let dev = Dev::new(LoneCard::new());
    let context = Context::open_with(dev.clone(), &OpenOptions::simulated()).unwrap();
    let pd = context.alloc_pd().unwrap();
    let channel = context.create_comp_channel();
    let make = || {
        context
            .create_cq(&CqOptions::with_channel(cqe, &channel))
            .unwrap()
    };
    let (cq, other) = (make(), make());
    let qp = || pd.create_qp(&QpOptions::new(&other, &cq)).unwrap();
    let qps = connect_pair(qp(), qp(), &ConnectOptions::default()).unwrap();
    Rig {
        context,
        cq,
        other,
        qps,
        channel,
        dev,
    }
}

impl Rig {
    fn message(&mut self, wr_id: u64) {
        self.qps.1.post_recv(&[RecvWr { wr_id, sges: &[] }]).unwrap();
        let (op, flags, data) = (SendOp::Send, SendFlags::SIGNALED, WrData::Sges(&[]));
        self.qps
            .0
            .post_send(&[SendWr {
                wr_id,
                op,
                flags,
                data,
            }])
            .unwrap();
    }

    fn card_works(&self) {
        self.dev.settle();
        self.context.run_events();
    }
}

fn next(stream: &mut Completions<Dev>, waker: &Waker) -> Poll<Option<Result<WorkCompletion>>> {
    Pin::new(stream).poll_next(&mut Task::from_waker(waker))
}

fn wr_id(found: Poll<Option<Result<WorkCompletion>>>) -> u64 {
    match found {
        Poll::Ready(Some(Ok(wc))) if wc.is_ok() => wc.wr_id,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_task_is_woken_once_for_what_comes() {
    let mut rig = rig(16);
    let woken = Arc::new(Woken::default());
    let waker = Waker::from(woken.clone());
    let mut stream = rig.cq.completions().unwrap();
    assert!(next(&mut stream, &waker).is_pending());
    rig.message(1);
    rig.message(2);
    rig.card_works();
    assert_eq!(woken.0.load(Ordering::Relaxed), 1);
    assert_eq!([(); 2].map(|()| wr_id(next(&mut stream, &waker))), [1, 2]);
    assert!(next(&mut stream, &waker).is_pending());
    // What is there already is there at once, and wakes nobody (V-67).
    assert_eq!(woken.0.load(Ordering::Relaxed), 1);
    rig.message(3);
    rig.card_works();
    assert_eq!(woken.0.load(Ordering::Relaxed), 2);
    assert_eq!(wr_id(next(&mut stream, &waker)), 3);
    // Its events are not the channel's; the other CQ's are.
    assert_eq!(rig.channel.pending(), 0);
    rig.other.req_notify(false).unwrap();
    rig.message(4);
    rig.card_works();
    assert_eq!(rig.channel.poll_event(), Some(rig.other.cqn()));
    assert_eq!(wr_id(next(&mut stream, &waker)), 4);
}

/// However card and task take turns, each completion comes once and in order.
#[test]
fn nothing_is_lost_between_two_looks() {
    let mut rig = rig(64);
    let woken = Arc::new(Woken::default());
    let waker = Waker::from(woken.clone());
    let mut stream = rig.cq.completions().unwrap();
    let (mut sent, mut seen, mut wakes) = (0, 0, 0);
    let mut is_waiting = false;
    let mut random = 12345u64;
    while seen < 500 {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        match random >> 62 {
            0 if sent < 500 && sent - seen < 10 => {
                sent += 1;
                rig.message(sent);
            }
            1 => rig.card_works(),
            // A task runs when it was woken, or has not waited yet.
            2 if !is_waiting || woken.0.load(Ordering::Relaxed) > wakes => {
                wakes = woken.0.load(Ordering::Relaxed);
                is_waiting = false;
                match next(&mut stream, &waker) {
                    Poll::Pending => is_waiting = true,
                    found => {
                        seen += 1;
                        assert_eq!(wr_id(found), seen);
                    }
                }
            }
            _ => {
                let mut wc = [WorkCompletion::default(); 16];
                rig.other.poll_cq(&mut wc).unwrap();
            }
        }
    }
}

/// The error of a dead CQ wakes, and ends the stream.
#[test]
fn a_dead_cq_is_the_end() {
    let mut rig = rig(1);
    let woken = Arc::new(Woken::default());
    let waker = Waker::from(woken.clone());
    let mut stream = rig.cq.completions().unwrap();
    assert!(next(&mut stream, &waker).is_pending());
    for i in 0..8 {
        rig.message(i);
        rig.card_works();
        rig.other.poll_cq(&mut [WorkCompletion::default(); 8]).unwrap();
    }
    let mut ended = false;
    for _ in 0..16 {
        match next(&mut stream, &waker) {
            Poll::Ready(Some(Ok(_))) => assert!(!ended),
            Poll::Ready(Some(Err(error))) => {
                assert!(matches!(error, Error::CqDead { .. }), "{error}");
                ended = true;
            }
            Poll::Ready(None) => assert!(ended),
            Poll::Pending => rig.card_works(),
        }
    }
    assert!(ended);
}

#[test]
fn a_cq_without_a_channel_has_no_stream() {
    let rig = rig(4);
    let cq = rig.context.create_cq(&CqOptions::new(4)).unwrap();
    assert!(matches!(cq.completions().err(), Some(Error::Invalid(_))));
    // As a future of an executor that never sleeps.
    let mut stream = rig.cq.completions().unwrap();
    let mut first = pin!(poll_fn(|task| Pin::new(&mut stream).poll_next(task)));
    let waker = Waker::noop();
    assert!(Future::poll(first.as_mut(), &mut Task::from_waker(waker)).is_pending());
}
