//! The driver: brings a function of a card up, talks to its admin queue, and owns the rings that carry work.
//!
//! It must not know how a device is reached ([`hca_dev::Device`] hides that), and it knows no verbs:
//! protection domains, completion channels and QP states are in `hca-verbs`.
//!
//! * [`Function`]: bring-up and one method per admin command. Every wait has a bound and names what it waited
//!   for.
//! * [`SendRing`], [`RecvRing`], [`CqRing`], [`EqRing`]: one owner each, no locks, no allocation after
//!   creation.
//! * [`Doorbells`]: the one place with the order "write entry, release fence, doorbell".
//!
//! ```no_run
//! use hca_driver::{Function, OpenOptions};
//! use std::rc::Rc;
//! fn hello(dev: Rc<dyn hca_dev::Device>) -> Result<(), hca_driver::DriverError> {
//!     let mut function = Function::open(dev, &OpenOptions::default())?;
//!     println!("{} QPs", function.query_device()?.max_qp());
//!     let pd = function.alloc_pd()?;
//!     function.dealloc_pd(pd)
//! }
//! ```
//! Tests: `tests/`, against the fake card of `hca-fake`, whose admin queue is served by the real firmware.
#![forbid(unsafe_code)]

mod admin;
mod commands;
mod cq_ring;
mod datagram;
mod doorbell;
mod eq_ring;
mod error;
mod firmware_commands;
mod function;
mod key_table;
mod link_commands;
mod owner;
mod push;
mod qpn_table;
mod recv_ring;
mod send_ring;
mod shadow;
mod srq_ring;
mod work;

use std::ops::Deref;

pub use cq_ring::{Completion, CqRing, usable_cqes};
pub use datagram::{AddressVector, Datagram, DatagramRules, Destination};
pub use doorbell::Doorbells;
pub use eq_ring::{EqRing, EqWatch};
pub use error::{AdminError, DriverError, PostError};
pub use function::{Function, FunctionInfo, OpenOptions};
pub use link_commands::VlWeight;
pub use push::{PushSlot, PushSlots};
pub use recv_ring::RecvRing;
pub use send_ring::SendRing;
pub use shadow::{QpShadow, RecvShadow, WqShadow};
pub use srq_ring::SrqRing;
pub use work::{BadWr, MwBind, RecvWr, SendFlags, SendOp, SendWr, Sge, WqSize, WrData};

/// A shared pointer to a device: `Rc<dyn Device>` for a simulator in this thread, `Arc<dyn Device + Send +
/// Sync>` for one behind a socket. What holds the pointer is `Send` exactly if the pointer is.
pub trait DevicePtr: Clone + Deref<Target: hca_dev::Device> {}

impl<P: Clone + Deref<Target: hca_dev::Device>> DevicePtr for P {}
