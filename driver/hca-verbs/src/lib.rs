//! Verbs: the safe interface of programs to a card. Names and meanings are those of libibverbs.
//!
//! It must not know how rings are laid out (that is `hca-driver`), nor how a device is reached (`hca-dev`).
//!
//! ```no_run
//! use hca_verbs::{Access, Context, CqOptions, QpOptions, Result};
//! fn hello(dev: std::rc::Rc<dyn hca_dev::Device>) -> Result<()> {
//!     let buf = dev.alloc_dma(4096)?;
//!     let context = Context::open(dev)?;
//!     let pd = context.alloc_pd()?;
//!     let mr = pd.reg_mr(&buf, Access::LOCAL_WRITE | Access::REMOTE_WRITE)?;
//!     let cq = context.create_cq(&CqOptions::new(16))?;
//!     let qp = pd.create_qp(&QpOptions::new(&cq, &cq))?;
//!     println!("QP {:#x}, R_Key {:#x}", qp.qp_num(), mr.rkey());
//!     Ok(())
//! }
//! ```
//! * Objects destroy themselves when dropped, in the right order; `destroy` does it now and says what went
//!   wrong.
//! * Every object works with any pointer to a device: `Rc<dyn Device>` for one thread, `Arc<dyn Device + Send
//!   + Sync>` for many.
//! * [`Qp`] has its state in its type; [`RawQp`] checks at run time, and is the one for datagrams: a QP of
//!   [`Service::Ud`] sends with [`RawQp::post_send_to`] to who an [`Ah`] leads to. Receives of datagrams need 40 bytes
//!   more, for the header of the network in front of the data.
//!
//! Tests: `tests/`, against the fake card of `hca-fake`.
#![forbid(unsafe_code)]

/// `Debug` that shows what the named methods return, whatever the pointer to the device is.
macro_rules! debug_as {
    ($ty:ident, $($method:ident),*) => {
        impl<P: hca_driver::DevicePtr> std::fmt::Debug for $ty<P> {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.debug_struct(stringify!($ty))
                    $(.field(stringify!($method), &self.$method()))*
                    .finish_non_exhaustive()
            }
        }
    };
}

mod address;
mod ah;
mod attr;
mod connect;
mod context;
mod cq;
mod error;
mod events;
mod known;
mod link;
mod memory;
mod pd;
mod raw_qp;
mod srq;
mod typed_qp;
mod window;

pub use address::{AhAttr, Gid, gid_of_ipv4, link_local_gid_of_mac};
pub use ah::Ah;
pub use attr::{Access, QpAttr, QpAttrMask, QpCap};
pub use connect::{ConnectOptions, PeerInfo, connect, connect_pair, connect_raw, peer_info};
pub use context::Context;
pub use cq::{Cq, CqOptions, WorkCompletion};
pub use error::{Error, Result};
pub use events::{AsyncEvent, CompChannel};
pub use hca_abi::{
    CqArm, EventKind, LinkLayer, LinkPolicy, ModifyPortCmd, Mtu, OpVls, PortState, QpState,
    QueryCountersResult as PortCounters, QueryDeviceResult as DeviceAttr,
    QueryLinkErrorsResult as LinkErrors, QueryPortResult as PortAttr, Service, StaticRate, VlCounters,
    WcOpcode, WcStatus, port_attr, wc_flag,
};
pub use hca_driver::{
    AddressVector, AdminError, BadWr, Datagram, Destination, DevicePtr, DriverError, MwBind, OpenOptions,
    PostError, RecvWr, SendFlags, SendOp, SendWr, Sge, VlWeight, WrData,
};
pub use known::PortTables;
pub use link::{LinkConfig, LinkCounters, LinkStatus, VlArbTable};
pub use memory::{Mr, MrOptions, PageSize};
pub use pd::Pd;
pub use raw_qp::{QpOptions, RawQp};
pub use srq::{Srq, SrqAttr};
pub use typed_qp::{Init, Qp, Reset, Rtr, Rts, State, TransitionError};
pub use window::{Mw, MwType, next_rkey};
