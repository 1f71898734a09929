//! Packets: from bytes, and to bytes.

use hca_wire::{ExtHeaders, Framing, Link, Opcode, PacketRepr, Psn, WholePacket, bth};

/// What is between the headers of the network and the CRCs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Packet {
    /// Operation and service.
    pub opcode: Opcode,
    /// Destination QP.
    pub dest_qp: u32,
    /// Sequence number.
    pub psn: Psn,
    /// Partition.
    pub pkey: u16,
    /// A response is asked for.
    pub ack_req: bool,
    /// OP-16.
    pub solicited: bool,
    /// APM-3: the sender is on the path that it has, and wants no other.
    pub mig_req: bool,
    /// Extended headers, as the opcode asks for them.
    pub ext: ExtHeaders,
    /// Without pad bytes.
    pub payload: Vec<u8>,
}

impl Packet {
    /// A packet without extended headers and payload.
    pub fn new(opcode: Opcode, dest_qp: u32, psn: Psn) -> Self {
        Self {
            opcode,
            dest_qp,
            psn,
            pkey: 0xffff,
            ack_req: false,
            solicited: false,
            mig_req: true,
            ext: ExtHeaders::default(),
            payload: Vec::new(),
        }
    }
}

/// A packet with the headers of the network that carries it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    /// Everything in front of the transport.
    pub link: Link,
    /// The transport's part.
    pub packet: Packet,
}

impl Frame {
    /// WIRE-16: reads a packet whose CRCs are right and whose fields make sense; anything else is no packet.
    pub fn parse(framing: Framing, bytes: &[u8]) -> Option<Self> {
        let whole = WholePacket::parse(framing, bytes).ok()?;
        let (crcs, bth) = (whole.crcs(), whole.bth());
        if !(crcs.icrc_ok() && crcs.vcrc_ok()) || bth.tver != 0 {
            return None;
        }
        if !whole.payload().is_empty() && !whole.opcode().has_payload() {
            return None;
        }
        let packet = Packet {
            opcode: whole.opcode(),
            dest_qp: bth.dest_qp,
            psn: Psn::new(bth.psn),
            pkey: bth.pkey,
            ack_req: bth.ack_req,
            solicited: bth.solicited,
            mig_req: bth.mig_req,
            ext: *whole.ext(),
            payload: whole.payload().to_vec(),
        };
        Some(Self {
            link: *whole.link(),
            packet,
        })
    }

    /// Bytes of the packet, CRCs and all.
    pub fn len_bytes(&self) -> usize {
        self.repr().buffer_len().unwrap_or(0)
    }

    /// The packet as bytes, CRCs and all; `None` where its headers are not those of its opcode, or it is too long.
    pub fn emit(&self) -> Option<Vec<u8>> {
        let repr = self.repr();
        let mut bytes = vec![0; repr.buffer_len().ok()?];
        repr.emit(&mut bytes).ok()?;
        Some(bytes)
    }

    #[inline]
    fn repr(&self) -> PacketRepr<'_> {
        let packet = &self.packet;
        PacketRepr {
            link: self.link,
            bth: bth::Repr {
                opcode: packet.opcode as u8,
                solicited: packet.solicited,
                mig_req: packet.mig_req,
                pkey: packet.pkey,
                dest_qp: packet.dest_qp,
                ack_req: packet.ack_req,
                psn: packet.psn.get(),
                ..Default::default()
            },
            ext: packet.ext,
            payload: &packet.payload,
        }
    }
}
