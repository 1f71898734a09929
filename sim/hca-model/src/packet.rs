//! Packets: from bytes, and to bytes.

use hca_wire::{ExtHeaders, Framing, Link, Opcode, PacketRepr, Psn, WholePacket, bth};

use crate::payload::Payload;

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
    pub payload: Payload,
    /// So many packets in one: 1, or, where nobody sees packets on their way, MIDDLE packets of a WRITE that follow
    /// each other. `psn` is that of the first, each has as much of the payload.
    pub count: u32,
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
            payload: Payload::new(),
            count: 1,
        }
    }

    /// It becomes another one, as [`Packet::new`] makes it, but for what is left in its payload: that has the length
    /// which [`Packet::payload_of`] gives it.
    pub(crate) fn renew(&mut self, opcode: Opcode, dest_qp: u32, psn: Psn) {
        (self.opcode, self.dest_qp, self.psn) = (opcode, dest_qp, psn);
        (self.pkey, self.ack_req, self.solicited) = (0xffff, false, false);
        self.ext = ExtHeaders::default();
        self.count = 1;
    }

    /// Room for so many bytes of payload, in which anything may stand.
    pub(crate) fn payload_of(&mut self, len_bytes: usize) -> &mut [u8] {
        self.payload.make_room(len_bytes)
    }
}

impl Default for Packet {
    /// A packet that is to become another one.
    fn default() -> Self {
        Self::new(Opcode::RcAcknowledge, 0, Psn::new(0))
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
            payload: whole.payload().into(),
            count: 1,
        };
        Some(Self {
            link: *whole.link(),
            packet,
        })
    }

    /// Bytes of the packet, CRCs and all; where it stands for several, of each.
    pub fn len_bytes(&self) -> usize {
        self.repr_of_first().buffer_len().unwrap_or(0)
    }

    /// Writes the headers of the packet, of the first where it stands for several: how many bytes they have; 0 where
    /// they are not those of its opcode, or there is no room for them.
    pub fn write_headers(&self, out: &mut [u8]) -> usize {
        self.repr_of_first().emit_headers(out).unwrap_or(0)
    }

    /// The packets that it stands for, each for itself.
    pub fn parts(&self) -> Vec<Self> {
        let packet = &self.packet;
        let each = packet.payload.len() / packet.count as usize;
        let part = |at: u32| Self {
            link: self.link,
            packet: Packet {
                psn: packet.psn.wrapping_add(at),
                payload: packet.payload[at as usize * each..][..each].into(),
                count: 1,
                ..Packet {
                    payload: Payload::new(),
                    ..*packet
                }
            },
        };
        (0..packet.count).map(part).collect()
    }

    /// The packet as bytes, CRCs and all; `None` where its headers are not those of its opcode, or it is too long.
    pub fn emit(&self) -> Option<Vec<u8>> {
        let repr = self.repr();
        let mut bytes = vec![0; repr.buffer_len().ok()?];
        repr.emit(&mut bytes).ok()?;
        Some(bytes)
    }

    fn repr_of_first(&self) -> PacketRepr<'_> {
        let repr = self.repr();
        let payload = &repr.payload[..repr.payload.len() / self.packet.count as usize];
        PacketRepr { payload, ..repr }
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
