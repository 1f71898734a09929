//! Packets as far as they must be recognised.

use hca_cosim::CardPorts;
use hca_wire::{Envelope, Framing, Link, Opcode, Operation};

/// Where a packet goes that does not leave its card; no port has this address.
pub(crate) const INSIDE: u64 = u64::MAX;

/// A packet at one port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Packet {
    /// BTH opcode.
    pub opcode: u8,
    /// Destination QP.
    pub dest_qpn: u32,
    pub psn: u32,
    /// Addresses of the ports that it comes from and goes to.
    pub from: u64,
    pub to: u64,
    /// Cycles of its first and last beat.
    pub first: u64,
    pub last: u64,
    /// It did not cross the port: its card is its destination too.
    pub looped: bool,
}

impl Packet {
    /// Its service's number.
    pub fn service(&self) -> u8 {
        Opcode::try_from(self.opcode).map_or(self.opcode >> 5, |opcode| opcode.service() as u8)
    }

    /// From responder to requester.
    pub fn is_reply(&self) -> bool {
        Opcode::try_from(self.opcode).is_ok_and(Opcode::is_response)
    }

    /// A READ response, or the answer of an atomic.
    pub fn is_read_reply(&self) -> bool {
        Opcode::try_from(self.opcode)
            .ok()
            .and_then(Opcode::operation)
            .is_some_and(|operation| {
                operation.is_read_response() || operation == Operation::AtomicAcknowledge
            })
    }
}

/// Collects the beats of one direction.
#[derive(Default)]
pub(crate) struct Assembler {
    bytes: Vec<u8>,
    first: u64,
}

/// Beats of the largest packet, and room for what is longer by mistake.
const BYTES_MAX: usize = 8192;

impl Assembler {
    /// Takes a beat; the last one of a packet gives the packet, if it has a transport header. `verify`: and right
    /// CRCs.
    pub fn beat(
        &mut self,
        now: u64,
        beat: (bool, u8, [u32; 16]),
        framing: Framing,
        verify: bool,
    ) -> Option<Packet> {
        let (last, len_bytes, words) = beat;
        if self.bytes.is_empty() {
            self.first = now;
        }
        let mut line = [0; 64];
        for (bytes, word) in line.chunks_exact_mut(4).zip(words) {
            bytes.copy_from_slice(&word.to_le_bytes());
        }
        if self.bytes.len() < BYTES_MAX {
            self.bytes
                .extend_from_slice(&line[..usize::from(len_bytes).min(64)]);
        }
        if !last {
            return None;
        }
        let packet = self.parse(now, framing, verify);
        self.bytes.clear();
        packet
    }

    fn parse(&self, now: u64, framing: Framing, verify: bool) -> Option<Packet> {
        let envelope = Envelope::parse(framing, &self.bytes).ok()?;
        if verify {
            let crcs = envelope.crcs();
            if !(crcs.icrc_ok() && crcs.vcrc_ok()) {
                return None;
            }
        }
        let bth = envelope.bth();
        let (from, to) = match envelope.link() {
            Link::Ethernet { eth, .. } => (address(&eth.src_mac), address(&eth.dst_mac)),
            Link::InfiniBand { lrh, .. } => (lrh.slid.into(), lrh.dlid.into()),
        };
        Some(Packet {
            opcode: bth.opcode,
            dest_qpn: bth.dest_qp,
            psn: bth.psn,
            from,
            to,
            first: self.first,
            last: now,
            looped: false,
        })
    }
}

fn address(mac: &[u8; 6]) -> u64 {
    mac.iter()
        .fold(0, |address, byte| address << 8 | u64::from(*byte))
}

/// The beat that the card hands to the wire in this cycle.
pub(crate) fn tx_beat(ports: &CardPorts) -> Option<(bool, u8, [u32; 16])> {
    let taken = ports.mac_tx_valid_o.get() != 0 && ports.mac_tx_ready_i.get() != 0;
    taken.then(|| {
        (
            ports.mac_tx_last_o.get() != 0,
            ports.mac_tx_len_o.get(),
            ports.mac_tx_data_o.get(),
        )
    })
}

/// The beat that the wire hands to the card in this cycle.
pub(crate) fn rx_beat(ports: &CardPorts) -> Option<(bool, u8, [u32; 16])> {
    (ports.mac_rx_valid_i.get() != 0).then(|| {
        (
            ports.mac_rx_last_i.get() != 0,
            ports.mac_rx_len_i.get(),
            ports.mac_rx_data_i.get(),
        )
    })
}
