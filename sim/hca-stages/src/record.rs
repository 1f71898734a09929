//! What is known about one work request.

use hca_abi::{WcStatus, WrOpcode};
use hca_wire::Service;
use serde::ser::SerializeStruct as _;
use serde::{Serialize, Serializer};

use crate::Stage;

/// A stage that was not reached.
const NEVER: u64 = u64::MAX;

/// One send work request and the cycles at which it reached its stages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkRecord {
    /// Card that it was posted to, by its place in the fabric.
    pub card: usize,
    /// Its queue pair.
    pub qpn: u32,
    /// Free-running index in the send queue.
    pub wqe_index: u32,
    /// `wr_opcode`; none where the card never began it.
    pub opcode: Option<u8>,
    /// Bytes of the message.
    pub bytes: u32,
    /// A completion was asked for.
    pub signaled: bool,
    /// `wc_status` of its completion; none without one.
    pub status: Option<u8>,
    /// Packets that the requester made for it.
    pub packets: u32,
    /// Those of them that it had made before.
    pub retransmitted: u32,
    /// Its packets did not leave the card: both ends are the same port.
    pub looped: bool,
    /// Its WQE rode with the doorbell: the card need not read it, but may.
    pub pushed: bool,
    /// Transport service of its packets: bits 7:5 of their opcodes.
    pub(crate) service: u8,
    at: [u64; Stage::ALL.len()],
}

/// Time between two stages that follow each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
pub struct Span {
    /// Where it begins.
    pub from: Stage,
    /// Where it ends.
    pub to: Stage,
}

impl WorkRecord {
    pub(crate) fn new(card: usize, qpn: u32, wqe_index: u32, doorbell: u64) -> Self {
        let mut record = Self {
            card,
            qpn,
            wqe_index,
            opcode: None,
            bytes: 0,
            signaled: false,
            status: None,
            packets: 0,
            retransmitted: 0,
            looped: false,
            pushed: false,
            service: 0,
            at: [NEVER; Stage::ALL.len()],
        };
        record.set(Stage::Doorbell, doorbell);
        record
    }

    /// The cycle at which it reached a stage.
    pub fn at(&self, stage: Stage) -> Option<u64> {
        let cycle = self.at[stage as usize];
        (cycle != NEVER).then_some(cycle)
    }

    pub(crate) fn set(&mut self, stage: Stage, cycle: u64) {
        self.at[stage as usize] = cycle;
    }

    /// Only the first time counts.
    pub(crate) fn set_first(&mut self, stage: Stage, cycle: u64) {
        if self.at(stage).is_none() {
            self.set(stage, cycle);
        }
    }

    /// The peer answers with data: an RDMA READ, or an atomic.
    pub fn is_read(&self) -> bool {
        let answered = [
            WrOpcode::RdmaRead,
            WrOpcode::AtomicCmpAndSwp,
            WrOpcode::AtomicFetchAndAdd,
            WrOpcode::AtomicWrite,
            WrOpcode::Flush,
            WrOpcode::MaskedAtomicCmpAndSwp,
            WrOpcode::MaskedAtomicFetchAndAdd,
        ];
        answered.iter().any(|opcode| self.opcode == Some(*opcode as u8))
    }

    /// Data is written at the end of its way: of an ATOMIC WRITE it is with the request, carried out as a READ is.
    pub(crate) fn has_data(&self) -> bool {
        self.bytes > 0 && self.opcode != Some(WrOpcode::AtomicWrite as u8)
    }

    /// No packet goes out: a window is bound or invalidated.
    fn is_local(&self) -> bool {
        let local = [WrOpcode::BindMw, WrOpcode::RegMr, WrOpcode::LocalInv];
        local.iter().any(|opcode| self.opcode == Some(*opcode as u8))
    }

    /// The peer answers.
    pub(crate) fn is_reliable(&self) -> bool {
        [Service::Rc as u8, Service::Xrc as u8].contains(&self.service)
    }

    /// It completed without error, or without a completion.
    pub fn succeeded(&self) -> bool {
        self.status.is_none_or(|status| status == WcStatus::Success as u8)
    }

    /// The stages that a work request of this kind must reach when it succeeds, in the order in which it reaches
    /// them: together they cut the time from doorbell to completion into pieces without gaps.
    pub fn chain(&self) -> impl Iterator<Item = Stage> + use<> {
        use Stage::{
            Cqe, Doorbell, EmitFirst, PeerRxLast, Placed, ReplyRx, ReplyTxFirst, ReplyTxLast, Retired,
            TxFirst, TxLast, WqeArrived, WqeAsked,
        };
        let chain: &[Stage] = if self.is_local() {
            &[Doorbell, WqeAsked, WqeArrived, Retired, Cqe]
        } else if !self.is_reliable() {
            // Nobody answers: it is complete when it has been sent, and may arrive later or never.
            &[Doorbell, WqeAsked, WqeArrived, EmitFirst, Retired, Cqe]
        } else if self.is_read() {
            &[
                Doorbell,
                WqeAsked,
                WqeArrived,
                EmitFirst,
                TxFirst,
                TxLast,
                PeerRxLast,
                ReplyTxFirst,
                ReplyTxLast,
                ReplyRx,
                Placed,
                Retired,
                Cqe,
            ]
        } else {
            &[
                Doorbell, WqeAsked, WqeArrived, EmitFirst, TxFirst, TxLast, PeerRxLast, Placed, ReplyRx,
                Retired, Cqe,
            ]
        };
        let (has_cqe, has_payload, looped) = (self.status.is_some(), self.has_data(), self.looped);
        let was_read = !self.pushed || self.at(WqeAsked).is_some();
        // Of the two ends only one counts; the data of an unsignaled READ is its end.
        let ends_placed = !has_cqe && self.is_read() && has_payload;
        chain.iter().copied().filter(move |stage| match stage {
            WqeAsked | WqeArrived => was_read,
            Cqe => has_cqe,
            Retired => !has_cqe && !ends_placed,
            Placed => has_payload,
            TxFirst | TxLast | PeerRxLast | ReplyTxFirst | ReplyTxLast => !looped,
            _ => true,
        })
    }

    /// Stages of the chain that it did not reach: none for one that succeeded.
    pub fn missing(&self) -> Vec<Stage> {
        self.chain().filter(|stage| self.at(*stage).is_none()).collect()
    }

    /// The pieces of its time, in order, with their length in cycles. Pieces around a stage that it did not reach
    /// are one.
    pub fn spans(&self) -> Vec<(Span, u64)> {
        let mut reached = self
            .chain()
            .filter_map(|stage| self.at(stage).map(|cycle| (stage, cycle)));
        let Some(mut last) = reached.next() else {
            return Vec::new();
        };
        let mut spans = Vec::new();
        for (to, cycle) in reached {
            let span = Span { from: last.0, to };
            spans.push((span, cycle.saturating_sub(last.1)));
            last = (to, cycle);
        }
        spans
    }

    /// From the doorbell to the end of the chain.
    pub fn end_to_end(&self) -> Option<u64> {
        let end = self.chain().last().and_then(|stage| self.at(stage))?;
        Some(end - self.at(Stage::Doorbell)?)
    }
}

impl Serialize for WorkRecord {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        struct Stages<'a>(&'a WorkRecord);
        impl Serialize for Stages<'_> {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                let reached = Stage::ALL.into_iter();
                serializer.collect_map(
                    reached.filter_map(|stage| self.0.at(stage).map(|cycle| (stage.name(), cycle))),
                )
            }
        }
        let opcode = self
            .opcode
            .and_then(|code| WrOpcode::try_from(code).ok())
            .map(|opcode| format!("{opcode:?}"));
        let mut out = serializer.serialize_struct("WorkRecord", 9)?;
        out.serialize_field("card", &self.card)?;
        out.serialize_field("qpn", &self.qpn)?;
        out.serialize_field("wqe_index", &self.wqe_index)?;
        out.serialize_field("opcode", &opcode)?;
        out.serialize_field("bytes", &self.bytes)?;
        out.serialize_field("status", &self.status)?;
        out.serialize_field("packets", &self.packets)?;
        out.serialize_field("retransmitted", &self.retransmitted)?;
        out.serialize_field("cycles", &Stages(self))?;
        out.end()
    }
}
