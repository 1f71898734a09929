//! Frames that have been taken in: their memory is that of the next ones.
//!
//! What one card sends another takes in, mostly on the same thread: so the list is the thread's.

use std::cell::RefCell;

use hca_model::{Frame, Packet};
use hca_wire::{Link, lrh};

/// Frames kept; more are not under way between two cards whose messages are long.
const KEPT_MAX: usize = 64;

thread_local! {
    static KEPT: RefCell<Vec<Box<Frame>>> = const { RefCell::new(Vec::new()) };
}

/// A frame to become another one.
pub(crate) fn take() -> Box<Frame> {
    let kept = KEPT.with_borrow_mut(Vec::pop);
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
    KEPT.with_borrow_mut(|kept| {
        if kept.len() < KEPT_MAX {
            kept.push(frame);
        }
    });
}
