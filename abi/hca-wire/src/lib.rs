//! Packet formats of InfiniBand and RoCEv2, as tables, views and representations.
//!
//! Every header is one table of fields (name, place, width, meaning). From that table come the
//! Rust view `Packet<T>` (reads and writes the bytes in place), the value type `Repr` (parse and
//! emit), and, through the contract generator, the SystemVerilog, C, Python and Markdown forms.
//! Bytes are in network order as the InfiniBand Architecture Specification (IBA) prints them.
//!
//! The crate neither allocates nor panics on bytes from outside.
//!
//! * [`headers`]: the tables; [`HEADERS`] lists them all.
//! * [`Opcode`], [`Psn`], [`Syndrome`], [`RnrTimer`]: values with rules of their own.
//! * [`crc`]: ICRC, VCRC, LPCRC and the IP checksum.
//! * [`lldp`]: what neighbours on an Ethernet link tell of themselves.
//! * [`FlowControl`]: the flow control packets of an InfiniBand link.
//! * [`Envelope`]: where the parts of a packet lie; enough to check its CRCs.
//! * [`WholePacket`] and [`PacketRepr`]: parse and build a complete packet.
#![no_std]
#![forbid(unsafe_code)]

pub mod crc;
mod envelope;
mod error;
mod field;
mod flow_control;
pub mod headers;
pub mod lldp;
mod opcode;
mod packet;
mod psn;
mod syndrome;

pub use envelope::{Crcs, Envelope, Framing, Link, Network};
pub use error::WireError;
pub use field::{FieldDef, HeaderDef};
pub use flow_control::{
    BLOCK_BYTES, BLOCK_COUNTS, CREDITS_MAX, FLOW_CONTROL_LEN, FlowControl, FlowControlError, FlowControlOp,
    blocks,
};
pub use headers::{HEADERS, aeth, atomic_ack_eth, atomic_eth, bth, deth, ethernet, fcp, feth, grh, ieth};
pub use headers::{immdt, ipv4, ipv6, lrh, rdeth, reth, udp, vlan, xrceth};
pub use opcode::{ExtHeader, Opcode, Operation, Service};
pub use packet::{ExtHeaders, PacketRepr, WholePacket};
pub use psn::Psn;
pub use syndrome::{NakCode, RnrTimer, Syndrome};

/// EtherType of IPv4.
pub const ETHERTYPE_IPV4: u16 = 0x0800;
/// EtherType of IPv6.
pub const ETHERTYPE_IPV6: u16 = 0x86dd;
/// EtherType that announces an IEEE 802.1Q tag.
pub const ETHERTYPE_VLAN: u16 = 0x8100;
/// EtherType of the Link Layer Discovery Protocol (IEEE 802.1AB).
pub const ETHERTYPE_LLDP: u16 = 0x88cc;
/// IP protocol number of UDP.
pub const IP_PROTO_UDP: u8 = 17;
/// UDP destination port of RoCEv2 (IBA vol1 annex A17).
pub const ROCE_UDP_PORT: u16 = 4791;
/// Next-header value that says "an IBA transport header follows the GRH" (IBA vol1 8.3.6).
pub const GRH_NEXT_HEADER_IBA: u8 = 0x1b;
/// LRH link-next-header value: an IBA transport header follows the LRH (IBA vol1 7.7.5).
pub const LNH_IBA_LOCAL: u8 = 2;
/// LRH link-next-header value: a GRH and then an IBA transport header follow.
pub const LNH_IBA_GLOBAL: u8 = 3;
/// QP number of the general services QP.
pub const QPN_GSI: u32 = 1;
/// Destination QP number of a multicast packet.
pub const QPN_MULTICAST: u32 = 0xff_ffff;
/// Q_Key of the general services QP, QP1.
pub const QKEY_GSI: u32 = 0x8001_0000;
/// QP number of the subnet management interface.
pub const QPN_SMI: u32 = 0;
/// Destination LID of a packet for whoever is at the other end (IBA vol1 4.1.3).
pub const LID_PERMISSIVE: u16 = 0xffff;
/// Management class of performance management (IBA vol1 13.4.4).
pub const MAD_CLASS_PERF: u8 = 4;
/// Management class of baseboard management.
pub const MAD_CLASS_BM: u8 = 5;
/// Method of a request to read an attribute (IBA vol1 13.4.5).
pub const MAD_GET: u8 = 1;
/// Method of a request to change an attribute.
pub const MAD_SET: u8 = 2;
/// Method by which a trap is not sent again.
pub const MAD_TRAP_REPRESS: u8 = 7;
/// Attribute of subnet management that a subnet manager answers, not an agent: SMInfo (IBA vol1 14.2.5.13).
pub const MAD_ATTR_SM_INFO: u16 = 0x20;
/// First LID of multicast groups; the last one is below the permissive LID, 0xffff (IBA vol1 4.1.3).
pub const LID_MULTICAST: u16 = 0xc000;
/// Bytes of the ICRC.
pub const ICRC_LEN: usize = 4;
/// Bytes of the VCRC.
pub const VCRC_LEN: usize = 2;
