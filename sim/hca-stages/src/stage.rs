//! The stages.

use serde::{Serialize, Serializer};

/// Where a work request has got to. "Here" is the card that it was posted to, "peer" the other one.
///
/// Where something was done more than once, because packets were lost, the first `first` counts, and of each `last`
/// the one that led on: the copy of the last packet that the peer carried out, the answer that was accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Stage {
    /// The card took the doorbell that covers it.
    Doorbell,
    /// The card asked the host for its WQE.
    WqeAsked,
    /// The WQE's last byte arrived.
    WqeArrived,
    /// The requester made its first packet descriptor. What follows for the packet: reading its payload.
    EmitFirst,
    /// The requester made its last packet descriptor.
    EmitLast,
    /// First beat of its first packet on the wire.
    TxFirst,
    /// Last beat of its last packet on the wire (READ: of the request).
    TxLast,
    /// First beat of its first packet at the peer.
    PeerRxFirst,
    /// Last beat of its last packet at the peer.
    PeerRxLast,
    /// READ: first beat of the first response on the wire, at the peer.
    ReplyTxFirst,
    /// READ: last beat of the last response on the wire, at the peer.
    ReplyTxLast,
    /// Last beat, here, of the packet that answers it: the acknowledge, or the last READ response.
    ReplyRx,
    /// Last write of its payload to host memory: the peer's, for a READ ours.
    Placed,
    /// The card counts it as done: the requester has been told so.
    Retired,
    /// Its completion was written to host memory.
    Cqe,
    /// An interrupt followed its completion.
    Msix,
}

impl Stage {
    /// All, in the order of their declaration.
    pub const ALL: [Self; 16] = [
        Self::Doorbell,
        Self::WqeAsked,
        Self::WqeArrived,
        Self::EmitFirst,
        Self::EmitLast,
        Self::TxFirst,
        Self::TxLast,
        Self::PeerRxFirst,
        Self::PeerRxLast,
        Self::ReplyTxFirst,
        Self::ReplyTxLast,
        Self::ReplyRx,
        Self::Placed,
        Self::Retired,
        Self::Cqe,
        Self::Msix,
    ];

    /// Name in reports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Doorbell => "doorbell",
            Self::WqeAsked => "wqe_asked",
            Self::WqeArrived => "wqe_arrived",
            Self::EmitFirst => "emit_first",
            Self::EmitLast => "emit_last",
            Self::TxFirst => "tx_first",
            Self::TxLast => "tx_last",
            Self::PeerRxFirst => "peer_rx_first",
            Self::PeerRxLast => "peer_rx_last",
            Self::ReplyTxFirst => "reply_tx_first",
            Self::ReplyTxLast => "reply_tx_last",
            Self::ReplyRx => "reply_rx",
            Self::Placed => "placed",
            Self::Retired => "retired",
            Self::Cqe => "cqe",
            Self::Msix => "msix",
        }
    }
}

impl Serialize for Stage {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_stage_has_its_place_and_a_name_of_its_own() {
        for (index, stage) in Stage::ALL.into_iter().enumerate() {
            assert_eq!(stage as usize, index);
            assert_eq!(
                Stage::ALL
                    .iter()
                    .filter(|other| other.name() == stage.name())
                    .count(),
                1
            );
        }
    }
}
