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
//! # A message, on a card in this process
//!
//! ```
//! use hca_verbs::*;
//!
//! # fn main() -> std::result::Result<(), Box<dyn std::error::Error>> {
//! // For tests: a card without a wire, which delivers to itself. `hca-vfio-user` and `hca-vfio` have real ones.
//! let device = std::rc::Rc::new(hca_lone::LoneCard::new());
//! let context = Context::open_with(device, &OpenOptions::simulated())?;
//! let pd = context.alloc_pd()?;
//! let cq = context.create_cq(&CqOptions::new(16))?;
//! let qp = || pd.create_qp(&QpOptions::new(&cq, &cq));
//! let (mut left, mut right) = connect_pair(qp()?, qp()?, &ConnectOptions::default())?;
//! right.post_recv(&[RecvWr { wr_id: 1, sges: &[] }])?;
//! left.post_send(&[SendWr {
//!     wr_id: 2,
//!     op: SendOp::SendWithImm { imm_data: 42 },
//!     flags: SendFlags::SIGNALED,
//!     data: WrData::Sges(&[]),
//! }])?;
//! let mut wc = [WorkCompletion::default(); 2];
//! cq.poll_all(&mut wc, 1_000_000_000)?;
//! assert!(wc.iter().all(WorkCompletion::is_ok));
//! assert!(wc.iter().any(|wc| wc.wr_id == 1 && wc.imm_data == 42));
//! # Ok(())
//! # }
//! ```
//!
//! # Completions as a stream
//!
//! For asynchronous programs a CQ with a channel is a [`Stream`](futures_core::Stream), for any executor;
//! [`EventThread`] waits for interrupts, or the executor calls [`Context::run_events`].
//!
//! ```no_run
//! # async fn next<S: futures_core::Stream + Unpin>(s: &mut S) -> Option<S::Item> { None }
//! # type Dev = std::sync::Arc<dyn hca_dev::Device + Send + Sync>;
//! # async fn serve(context: hca_verbs::Context<Dev>) -> std::result::Result<(), Box<dyn std::error::Error>> {
//! use hca_verbs::{CqOptions, EventThread};
//! let channel = context.create_comp_channel();
//! let cq = context.create_cq(&CqOptions::with_channel(128, &channel))?;
//! let _interrupts = EventThread::start(&context)?;
//! let mut completions = cq.completions()?;
//! while let Some(wc) = next(&mut completions).await { // StreamExt::next of the futures crate
//!     println!("work request {} is done", wc?.wr_id);
//! }
//! # Ok(())
//! # }
//! ```
//!
//! Folders are floors, and imports lead down (`make tidy` sees to it): `values`, what verbs are asked with and answer;
//! `function`, what the objects of a card share; `objects`; and on top of them `connect` and `streams`.
//!
//! Tests: `tests/`, against a card with nothing around it (`hca-lone`).
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

mod connect;
mod function;
mod objects;
mod streams;
mod values;

pub use connect::{
    ConnectOptions, PeerInfo, connect, connect_pair, connect_raw, connect_target, connect_xrc, peer_info,
};
pub use function::dispatcher::AsyncEvent;
pub use function::known::PortTables;
pub use hca_abi::{
    CcAlgorithm, CqArm, EthTrust, EventKind, LinkLayer, LinkPolicy, ModifyPortCmd, Mtu, OpVls, PathMigState,
    PfcCounters, PortState, QpState, QueryCountersResult as PortCounters, QueryDeviceResult as DeviceAttr,
    QueryLinkErrorsResult as LinkErrors, QueryPortResult as PortAttr, Service, StaticRate, VlCounters,
    WcOpcode, WcStatus, port_attr, wc_flag,
};
pub use hca_driver::{
    AddressVector, AdminError, BadWr, Datagram, Destination, DevicePtr, DriverError, Flush, MwBind, Opcodes,
    OpenOptions, PlainWr, PostError, RecvWr, RegMr, SendFlags, SendOp, SendWr, Sge, VlWeight, WrData,
};
pub use objects::ah::Ah;
pub use objects::channel::CompChannel;
pub use objects::congestion::Congestion;
pub use objects::context::Context;
pub use objects::cq::{Cq, CqOptions, WorkCompletion};
pub use objects::device_memory::DeviceMemory;
pub use objects::fast_mr::{FastMr, MAX_FAST_PAGES};
pub use objects::flow::{Flow, FlowCounts};
pub use objects::link::{EtsConfig, LinkConfig, LinkCounters, LinkStatus, PfcStatus, VlArbTable};
pub use objects::lldp::LldpStatus;
pub use objects::memory::{Mr, MrOptions, PageSize};
pub use objects::pd::Pd;
pub use objects::raw_qp::{Posting, QpOptions, RawQp};
pub use objects::rss::{RssOptions, RssQp};
pub use objects::srq::{Srq, SrqAttr};
pub use objects::typed_qp::{Init, Qp, Reset, Rtr, Rts, State, TransitionError};
pub use objects::window::{Mw, MwType, next_rkey};
pub use objects::wq::{Wq, WqState};
pub use objects::xrc::{XrcTarget, Xrcd};
pub use streams::{Completions, EventThread};
pub use values::address::AhAttr;
pub use values::attr::{Access, QpAttr, QpAttrMask, QpCap};
pub use values::error::{Error, Result};
pub use values::flow::{EthFilter, FlowAttr, FlowKind, FlowSpec, Ipv4Filter, Ipv6Filter, PortFilter};
pub use values::gid::{Gid, gid_of_ipv4, link_local_gid_of_mac};
