//! Work requests and completions.

use hca_abi::{WcOpcode, WcStatus};
use hca_wire::{Link, Psn};

use crate::ahead::Ahead;
use crate::config::QpConfig;
use crate::memory::Sge;

/// What an atomic does with the eight bytes that it finds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Atomic {
    /// OP-6.
    CompareSwap {
        /// What must be there.
        compare: u64,
        /// What is put there then.
        swap: u64,
    },
    /// OP-7.
    FetchAdd {
        /// What is added.
        add: u64,
    },
    /// OP-8.
    MaskedCompareSwap {
        /// What must be there.
        compare: u64,
        /// What is put there then.
        swap: u64,
        /// In these bits.
        compare_mask: u64,
        /// In these bits.
        swap_mask: u64,
    },
    /// OP-9.
    MaskedFetchAdd {
        /// What is added.
        add: u64,
        /// The most significant bit of each field.
        boundaries: u64,
    },
}

impl Atomic {
    /// What it leaves of what it finds.
    pub fn apply(self, found: u64) -> u64 {
        match self {
            Self::CompareSwap { compare, swap } if found == compare => swap,
            Self::CompareSwap { .. } => found,
            Self::FetchAdd { add } => found.wrapping_add(add),
            Self::MaskedCompareSwap {
                compare,
                swap,
                compare_mask,
                swap_mask,
            } if found & compare_mask == compare & compare_mask => found & !swap_mask | swap & swap_mask,
            Self::MaskedCompareSwap { .. } => found,
            Self::MaskedFetchAdd { add, boundaries } => add_by_fields(found, add, boundaries),
        }
    }
}

/// Bit by bit, as on paper: no carry goes beyond a boundary.
fn add_by_fields(a: u64, b: u64, boundaries: u64) -> u64 {
    let (mut sum, mut carry) = (0, 0);
    for bit in 0..u64::BITS {
        let ones = (a >> bit & 1) + (b >> bit & 1) + carry;
        sum |= (ones & 1) << bit;
        carry = if boundaries >> bit & 1 == 1 { 0 } else { ones >> 1 };
    }
    sum
}

/// What a send work request asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    /// OP-1, OP-2, OP-11.
    Send {
        /// Immediate data.
        imm: Option<u32>,
        /// R_Key that the receiver shall invalidate; not together with immediate data.
        invalidate: Option<u32>,
    },
    /// OP-3, OP-4.
    Write {
        /// Address at the peer.
        va: u64,
        /// Key of the peer.
        rkey: u32,
        /// Immediate data.
        imm: Option<u32>,
    },
    /// OP-5.
    Read {
        /// Address at the peer.
        va: u64,
        /// Key of the peer.
        rkey: u32,
    },
    /// OP-6 to OP-9.
    Atomic {
        /// Address at the peer, a multiple of eight.
        va: u64,
        /// Key of the peer.
        rkey: u32,
        /// What to do there.
        atomic: Atomic,
    },
    /// 8 bytes written at once, answered like a READ (annex A19).
    AtomicWrite {
        /// Address at the peer, a multiple of eight.
        va: u64,
        /// Key of the peer.
        rkey: u32,
        /// The bytes.
        value: [u8; 8],
    },
    /// What was written before can be seen by everybody; answered like a READ of nothing (annex A19).
    Flush {
        /// Address at the peer.
        va: u64,
        /// Key of the peer.
        rkey: u32,
        /// Bytes from there on.
        len: u32,
        /// Placement type: bit 0 global visibility, bit 1 persistence.
        placement: u8,
        /// Selectivity level: 0 these bytes, 1 the whole region.
        selectivity: u8,
    },
    /// What cannot be read: completes with this in its turn.
    Broken(WcStatus),
}

impl Op {
    /// A SEND without anything beside.
    pub const SEND: Self = Self::Send {
        imm: None,
        invalidate: None,
    };

    /// READ, atomic, ATOMIC WRITE or FLUSH: answered by a response, and it counts for `max_rd_atomic` (OP-23).
    pub const fn fetches(self) -> bool {
        matches!(
            self,
            Self::Read { .. } | Self::Atomic { .. } | Self::AtomicWrite { .. } | Self::Flush { .. }
        )
    }

    /// Opcode of its completion (E-7).
    pub const fn wc_opcode(self) -> WcOpcode {
        match self {
            Self::Send { .. } | Self::Broken(_) => WcOpcode::Send,
            Self::Write { .. } => WcOpcode::RdmaWrite,
            Self::Read { .. } => WcOpcode::RdmaRead,
            Self::Atomic {
                atomic: Atomic::CompareSwap { .. },
                ..
            } => WcOpcode::CompSwap,
            Self::Atomic {
                atomic: Atomic::FetchAdd { .. },
                ..
            } => WcOpcode::FetchAdd,
            Self::Atomic {
                atomic: Atomic::MaskedCompareSwap { .. },
                ..
            } => WcOpcode::MaskedCompSwap,
            Self::Atomic {
                atomic: Atomic::MaskedFetchAdd { .. },
                ..
            } => WcOpcode::MaskedFetchAdd,
            Self::AtomicWrite { .. } => WcOpcode::AtomicWrite,
            Self::Flush { .. } => WcOpcode::Flush,
        }
    }
}

/// How a send work request is carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SendFlags {
    /// It completes visibly even where all is well.
    pub signaled: bool,
    /// OP-16.
    pub solicited: bool,
    /// OP-13.
    pub fence: bool,
}

impl Default for SendFlags {
    fn default() -> Self {
        Self {
            signaled: true,
            solicited: false,
            fence: false,
        }
    }
}

/// Where a datagram goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Destination {
    /// Headers.
    pub link: Link,
    /// QP.
    pub qpn: u32,
    /// Its Q_Key.
    pub qkey: u32,
}

/// A send work request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SendRequest {
    /// The caller's number for it.
    pub wr_id: u64,
    /// What to do.
    pub op: Op,
    /// Where the data is, or goes.
    pub sges: Vec<Sge>,
    /// OP-15: the data itself, instead of a list.
    pub inline: Option<Vec<u8>>,
    /// How.
    pub flags: SendFlags,
    /// UD only.
    pub destination: Option<Destination>,
    /// XRC only: the receive queue at the peer.
    pub remote_srqn: u32,
    /// UD only: another P_Key than the QP's (KEY-21: QP1 has any of its port).
    pub pkey: Option<u16>,
}

impl SendRequest {
    /// A signaled request over a connection.
    pub fn new(wr_id: u64, op: Op, sges: Vec<Sge>) -> Self {
        Self {
            wr_id,
            op,
            sges,
            inline: None,
            flags: SendFlags::default(),
            destination: None,
            remote_srqn: 0,
            pkey: None,
        }
    }

    /// Bytes of the message.
    pub fn len(&self) -> u64 {
        match &self.inline {
            Some(bytes) => bytes.len() as u64,
            None => self.sges.iter().map(|sge| u64::from(sge.len)).sum(),
        }
    }

    /// A message without bytes.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// A send work request with its place among the PSNs.
#[derive(Debug)]
pub(crate) struct Wqe {
    pub request: SendRequest,
    /// Bytes.
    pub len: u32,
    /// Messages up to it and with it, modulo 2^24.
    pub ssn: u32,
    /// First PSN.
    pub first: Psn,
    /// Packets, of the request or (READ) of its response.
    pub packets: u32,
    /// READ: PSNs from which it has been asked for; a response may begin at each of them.
    pub asked_from: Vec<Psn>,
    /// Its request has left at least once.
    pub begun: bool,
    /// A WRITE or SEND of many packets all of whose data could be read when it began.
    pub is_smooth: bool,
    /// READ, atomic: everything has come.
    pub fetched: bool,
    /// Some of its data, if its memory is far.
    pub ahead: Ahead,
}

impl Wqe {
    pub fn last(&self) -> Psn {
        self.first.wrapping_add(self.packets - 1)
    }

    pub fn contains(&self, psn: Psn) -> bool {
        !psn.is_before(self.first) && !psn.is_after(self.last())
    }
}

/// A receive work request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecvRequest {
    /// The caller's number for it.
    pub wr_id: u64,
    /// Where the data goes.
    pub sges: Vec<Sge>,
}

impl RecvRequest {
    /// A receive into these places.
    pub fn new(wr_id: u64, sges: Vec<Sge>) -> Self {
        Self { wr_id, sges }
    }
}

/// A work completion (E-9).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Completion {
    /// QP.
    pub qpn: u32,
    /// The request's.
    pub wr_id: u64,
    /// How it went.
    pub status: WcStatus,
    /// What it was.
    pub opcode: WcOpcode,
    /// Bytes of a receive, of a READ.
    pub byte_len: u32,
    /// Immediate data of a receive.
    pub imm: Option<u32>,
    /// Key that the peer has invalidated.
    pub invalidated: Option<u32>,
    /// Sender of a datagram.
    pub src_qp: u32,
    /// The peer asked for a solicited event.
    pub solicited: bool,
    /// Of a receive: its queue.
    pub receive_queue: u32,
}

impl Completion {
    /// One of a send request.
    pub(crate) fn of_send(qpn: u32, request: &SendRequest, status: WcStatus) -> Self {
        let byte_len = match request.op {
            Op::AtomicWrite { value, .. } => value.len() as u32,
            op if op.fetches() => request.len() as u32,
            _ => 0,
        };
        Self {
            qpn,
            wr_id: request.wr_id,
            status,
            opcode: request.op.wc_opcode(),
            byte_len,
            imm: None,
            invalidated: None,
            src_qp: 0,
            solicited: false,
            receive_queue: 0,
        }
    }

    /// One of a receive request.
    pub(crate) fn of_recv(config: &QpConfig, wr_id: u64, status: WcStatus) -> Self {
        Self {
            qpn: config.qpn,
            wr_id,
            status,
            opcode: WcOpcode::Recv,
            byte_len: 0,
            imm: None,
            invalidated: None,
            src_qp: 0,
            solicited: false,
            receive_queue: config.receive_queue,
        }
    }
}
