//! The transport as the specification has it: a channel adapter's queue pairs in plain Rust, against which the card is
//! proved.
//!
//! It is written from the InfiniBand Architecture Specification (IBA) and our requirements, not from the RTL, and it
//! favours what is obvious over what is fast. No sockets, no clock, no threads: whoever owns a [`Model`] hands it the
//! packets that arrive and says what time it is, and takes from it the packets that leave, the completions, and the
//! time at which it wants to be asked again.
//!
//! * [`Model`]: queue pairs of RC, UC and UD with their memory. [`QpConfig`], [`SendRequest`], [`RecvRequest`],
//!   [`Completion`] are what verbs call them.
//! * [`Packet`]: what is between the network's headers and the CRCs; [`Frame`] is a packet with those headers.
//! * [`Checker`]: follows the packets of connections between other people's cards, and names the first one that the
//!   rules do not allow.
//! * [`Manners`]: what the specification leaves free, so that a peer's freedom can be tried out.
//!
//! The only things it shares with the card are the wire's layouts (`hca-wire`) and the numbers of statuses and opcodes
//! (`hca-abi`). It must not know about rings, doorbells, cables or cycles.
//!
//! ```
//! use hca_model::{Access, Model, Op, QpConfig, RecvRequest, SendRequest, Sge, example_link};
//! let (mut here, mut there) = (Model::new(), Model::new());
//! let link = example_link();
//! here.create_qp(QpConfig::rc(2, 3, link)).unwrap();
//! there.create_qp(QpConfig::rc(3, 2, hca_model::reply_link(&link))).unwrap();
//! let source = here.register(0, 0x1000, b"hello".to_vec(), Access::LOCAL);
//! let target = there.register(0, 0x2000, vec![0; 5], Access::LOCAL);
//! there.post_recv(3, RecvRequest::new(7, vec![Sge::new(target, 0x2000, 5)])).unwrap();
//! here.post_send(2, SendRequest::new(8, Op::SEND, vec![Sge::new(source, 0x1000, 5)])).unwrap();
//! while let Some(bytes) = here.poll_transmit(0) {
//!     there.handle_packet(0, &bytes);
//! }
//! assert_eq!(there.memory().bytes(target), Some(&b"hello"[..]));
//! assert_eq!(there.poll_completion().unwrap().wr_id, 7);
//! ```
//!
//! Tests: `tests/` (two models over a bad wire, any bytes at the wire), and `tests/system` (against the card).
#![forbid(unsafe_code)]

mod ahead;
mod checker;
mod config;
mod datagram;
mod link;
mod memory;
mod model;
mod packet;
mod paths;
mod payload;
mod qp;
mod requester;
mod responder;
mod timers;
mod work;
mod world;

pub use checker::{Checker, ConnectionSpec, EndSpec, PIPELINE_NS, Violation};
pub use config::{Manners, QpConfig, Service};
pub use hca_abi::{EventKind, Mtu, PathMigState, QpState, WcOpcode, WcStatus};
pub use link::{example_link, reply_link, same_sender};
pub use memory::{Access, Memory, Refusal, Sge};
pub use model::{Model, ModelError, ModelEvent};
pub use packet::{Frame, Packet};
pub use paths::SecondPath;
pub use payload::Payload;
pub use qp::{Qp, pkeys_match};
pub use timers::{ack_timeout_ns, rnr_wait_ns};
pub use work::{Atomic, Completion, Destination, Op, RecvRequest, SendFlags, SendRequest};
pub use world::{BadReceive, PathNews, World};
