//! Open devices.

use std::mem::offset_of;
use std::os::fd::{OwnedFd, RawFd};
use std::sync::Arc;

use crate::abi::*;
use crate::boundary::live::{CStruct, Kind, Object, get};
use crate::boundary::pipe::EventPipe;
use crate::boundary::{Verb, invalid};
use crate::cards::DevPtr;
use crate::objects::card::Card;

/// An open device. The program's pointer is that of the last field of `verbs`.
#[repr(C)]
pub struct ContextObject {
    pub verbs: CStruct<verbs_context>,
    /// Asynchronous events.
    pub pipe: Arc<EventPipe<16>>,
    /// What the program sees as `cmd_fd`: programs duplicate and poll it. There is no kernel driver behind it, so that
    /// every ioctl fails.
    pub cmd_fd: OwnedFd,
    /// The card, claimed as long as any open of it lives.
    pub card: Arc<Card>,
}

impl Object for ContextObject {
    const KIND: Kind = Kind::Context;
}

impl ContextObject {
    /// The Rust context.
    pub fn hca(&self) -> &hca_verbs::Context<DevPtr> {
        &self.card.shared.context
    }

    /// The descriptor as the program sees it.
    pub fn async_fd(&self) -> RawFd {
        self.pipe.fd()
    }
}

/// The object around the structure that the program holds.
pub fn object_of(raw: *mut ibv_context) -> *mut ContextObject {
    raw.wrapping_byte_sub(offset_of!(verbs_context, context)).cast()
}

/// The open device behind a pointer of the program.
///
/// # Safety
/// The program does not close it while the reference lives.
pub unsafe fn context_of<'a>(raw: *mut ibv_context) -> Verb<&'a ContextObject> {
    // SAFETY: looked up first.
    unsafe { get(object_of(raw)) }
}

/// A port that exists.
pub fn check_port(context: &ContextObject, port_num: u8) -> Verb<()> {
    let ports = context.hca().query_device()?.phys_port_cnt();
    if (1..=ports).contains(&port_num) {
        Ok(())
    } else {
        Err(invalid(format_args!(
            "port {port_num}: the card has ports 1 to {ports}"
        )))
    }
}
