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
//! Tests: `tests/`, against a card with nothing around it (`hca-lone`), with the real firmware.
#![forbid(unsafe_code)]

mod base;
mod function;
mod rings;

pub use base::datagram::{AddressVector, Datagram, DatagramRules, Destination};
pub use base::device::DevicePtr;
pub use base::doorbell::Doorbells;
pub use base::error::{AdminError, BadCompletion, DriverError, PostError};
pub use base::push::{PushSlot, PushSlots};
pub use base::work::{
    BadWr, Flush, MwBind, Opcodes, PlainWr, RecvWr, RegMr, SendFlags, SendOp, SendWr, Sge, WqSize, WrData,
};
pub use function::bring_up::{Function, FunctionInfo, OpenOptions};
pub use function::device_memory::dm_iova;
pub use function::link_commands::VlWeight;
pub use rings::cq_ring::{Completion, CqRing, usable_cqes};
pub use rings::eq_ring::{EqRing, EqWatch};
pub use rings::recv_ring::RecvRing;
pub use rings::send_ring::SendRing;
pub use rings::shadow::{QpShadow, RecvShadow, WqShadow};
pub use rings::srq_ring::SrqRing;
