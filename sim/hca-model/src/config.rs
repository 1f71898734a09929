//! What a QP is told before it works (QPS 8.4).

use hca_abi::{Mtu, PathMigState};
use hca_wire::{Link, Psn};

use crate::memory::Access;

/// Transport service of a QP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Service {
    /// Reliable connection (XPORT-1).
    Rc,
    /// Unreliable connection (XPORT-2).
    Uc,
    /// Unreliable datagram (XPORT-4).
    Ud,
    /// Extended reliable connection (SPEC-3): its requests name the receive queue.
    Xrc,
}

impl Service {
    /// Requests are answered, and sent again until they are.
    pub const fn is_reliable(self) -> bool {
        matches!(self, Self::Rc | Self::Xrc)
    }
}

/// What the specification leaves to each implementation. Any choice is right; a peer has to live with all of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Manners {
    /// Packets of a long message after which a requester asks for an acknowledge.
    pub ask_every: u32,
    /// Packets that may be under way without an answer.
    pub window: u32,
    /// How long a responder keeps an acknowledge back, to answer more with it. A request for one is enough for it to
    /// be sent then.
    pub ack_delay_ns: u64,
    /// A responder answers every packet, asked or not.
    pub ack_all: bool,
    /// A responder with a receive queue of its own tells how many receives are there, and a requester keeps to what it
    /// is told (IBA vol1 9.7.7.2). Without it the one tells of no limit, and the other keeps none.
    pub credits: bool,
    /// A responder may keep WRITEs behind a gap, and name what is missing (decision 0066). A requester that hears it
    /// goes back all the same; without this the NAK is of no kind that there is.
    pub selective: bool,
}

impl Default for Manners {
    fn default() -> Self {
        Self {
            ask_every: 8,
            window: 256,
            ack_delay_ns: 0,
            ack_all: false,
            credits: false,
            selective: false,
        }
    }
}

/// A QP's attributes. What belongs to connections or to reliability has no meaning for other services.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QpConfig {
    /// Service.
    pub service: Service,
    /// Its number.
    pub qpn: u32,
    /// What its datagrams name as their source: the same, but 0 and 1 of management (MGMT-4).
    pub source_qpn: u32,
    /// The peer's.
    pub dest_qpn: u32,
    /// Headers of packets to the peer.
    pub link: Link,
    /// P_Key.
    pub pkey: u16,
    /// APM-3: whether there is another path, and the peer knows of it.
    pub path_mig_state: PathMigState,
    /// Q_Key (UD).
    pub qkey: u32,
    /// Largest payload.
    pub mtu: Mtu,
    /// First PSN to send.
    pub sq_psn: Psn,
    /// First PSN expected.
    pub rq_psn: Psn,
    /// REL-6.
    pub timeout: u8,
    /// REL-3, REL-9.
    pub retry_cnt: u8,
    /// REL-8.
    pub rnr_retry: u8,
    /// Code in RNR NAKs (REL-10).
    pub min_rnr_timer: u8,
    /// READs and atomics outstanding as requester (OP-23).
    pub max_rd_atomic: u8,
    /// The same as responder.
    pub max_dest_rd_atomic: u8,
    /// What the peer may do (KEY-31).
    pub access: Access,
    /// Protection domain.
    pub domain: u32,
    /// Number of the receive queue; QPs with the same one share it (SPEC-4). XRC: what the last request has named.
    pub receive_queue: u32,
    /// What is left free.
    pub manners: Manners,
}

impl QpConfig {
    /// A reliable connection with MTU 1024, PSNs from 0, timeout 67 ms, seven retries, RNR without end.
    pub fn rc(qpn: u32, dest_qpn: u32, link: Link) -> Self {
        Self {
            service: Service::Rc,
            qpn,
            source_qpn: qpn,
            dest_qpn,
            link,
            pkey: 0xffff,
            path_mig_state: PathMigState::Migrated,
            qkey: 0,
            mtu: Mtu::Bytes1024,
            sq_psn: Psn::new(0),
            rq_psn: Psn::new(0),
            timeout: 14,
            retry_cnt: 7,
            rnr_retry: 7,
            min_rnr_timer: 1,
            max_rd_atomic: 16,
            max_dest_rd_atomic: 16,
            access: Access::ALL,
            domain: 0,
            receive_queue: qpn,
            manners: Manners::default(),
        }
    }

    /// The same without acknowledges.
    pub fn uc(qpn: u32, dest_qpn: u32, link: Link) -> Self {
        Self {
            service: Service::Uc,
            ..Self::rc(qpn, dest_qpn, link)
        }
    }

    /// A QP for datagrams; `link` says which network it is on.
    pub fn ud(qpn: u32, qkey: u32, link: Link) -> Self {
        Self {
            service: Service::Ud,
            qkey,
            ..Self::rc(qpn, 0, link)
        }
    }

    /// Bytes of a full packet (WIRE-10).
    pub fn mtu_bytes(&self) -> u32 {
        128 << self.mtu as u32
    }
}
