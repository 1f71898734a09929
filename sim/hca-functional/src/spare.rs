//! Frames that have been taken in: their memory is that of the next ones.
//!
//! What one card sends another takes in, mostly on the same thread: so the list is the thread's.

use std::cell::RefCell;

use hca_model::{Frame, Packet};
use hca_wire::{Link, lrh};

/// Frames kept; more are not under way between two cards whose messages are long.
const KEPT_MAX: usize = 64;
/// The same of those that were several packets.
const LONG_MAX: usize = 8;

#[derive(Default)]
#[expect(
    clippy::vec_box,
    reason = "frames travel in boxes, and those are what is kept"
)]
struct Kept {
    single: Vec<Box<Frame>>,
    /// Those that were several packets: their payload is long, and stays so.
    long: Vec<Box<Frame>>,
}

thread_local! {
    static KEPT: RefCell<Kept> = RefCell::default();
}

/// A frame to become another one.
pub(crate) fn take() -> Box<Frame> {
    new_unless(KEPT.with_borrow_mut(|kept| kept.single.pop()))
}

/// A frame to become several packets.
pub(crate) fn take_long() -> Box<Frame> {
    new_unless(KEPT.with_borrow_mut(|kept| kept.long.pop()))
}

fn new_unless(kept: Option<Box<Frame>>) -> Box<Frame> {
    kept.unwrap_or_else(|| {
        Box::new(Frame {
            link: Link::InfiniBand {
                lrh: lrh::Repr::default(),
                grh: None,
            },
            packet: Packet::default(),
        })
    })
}

/// Nobody needs it any more.
pub fn give_back(frame: Box<Frame>) {
    KEPT.with_borrow_mut(|Kept { single, long }| {
        let (kept, most) = match frame.packet.count {
            1 => (single, KEPT_MAX),
            _ => (long, LONG_MAX),
        };
        if kept.len() < most {
            kept.push(frame);
        }
    });
}
