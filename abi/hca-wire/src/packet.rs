//! A complete packet: parse into representations, build from representations.

use crate::{
    Crcs, ETHERTYPE_IPV4, ETHERTYPE_IPV6, ETHERTYPE_VLAN, Envelope, ExtHeader, Framing, GRH_NEXT_HEADER_IBA,
    ICRC_LEN, IP_PROTO_UDP, LNH_IBA_GLOBAL, LNH_IBA_LOCAL, Link, Network, Opcode, ROCE_UDP_PORT, VCRC_LEN,
    WireError, bth, crc, grh, ipv4, ipv6, lrh,
};
use core::ops::Range;

macro_rules! ext_headers {
    ($( $field:ident: $module:ident = $variant:ident, $doc:literal; )+) => {
        /// The extended transport headers of a packet; the fields stand in wire order.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
        pub struct ExtHeaders {
            $( #[doc = $doc] pub $field: Option<crate::$module::Repr>, )+
        }

        impl ExtHeaders {
            /// Reads the headers that `opcode` asks for from the bytes behind the BTH.
            pub fn read(opcode: Opcode, bytes: &[u8]) -> Result<Self, WireError> {
                let mut headers = Self::default();
                let mut at = 0;
                $(
                    if opcode.has(ExtHeader::$variant) {
                        headers.$field = Some(crate::$module::Repr::read(&bytes[at..])?);
                        at += crate::$module::LEN;
                    }
                )+
                debug_assert_eq!(at, opcode.ext_len());
                Ok(headers)
            }

            /// Fails unless exactly the headers of `opcode` are there.
            fn check(&self, opcode: Opcode) -> Result<(), WireError> {
                $(
                    let needed = opcode.has(ExtHeader::$variant);
                    if self.$field.is_some() != needed {
                        return Err(WireError::HeaderSet { header: crate::$module::DEF.name, needed });
                    }
                )+
                Ok(())
            }

            fn emit(&self, out: &mut Cursor<'_>) {
                $( if let Some(header) = &self.$field { out.put(&header.to_bytes()); } )+
            }
        }
    };
}

ext_headers! {
    rdeth: rdeth = Rdeth, "Reliable datagram ETH.";
    deth: deth = Deth, "Datagram ETH.";
    xrceth: xrceth = Xrceth, "XRC ETH.";
    feth: feth = Feth, "FLUSH ETH.";
    reth: reth = Reth, "RDMA ETH.";
    atomic_eth: atomic_eth = AtomicEth, "Atomic ETH.";
    aeth: aeth = Aeth, "ACK ETH.";
    atomic_ack_eth: atomic_ack_eth = AtomicAckEth, "Atomic ACK ETH.";
    immdt: immdt = ImmDt, "Immediate data.";
    ieth: ieth = Ieth, "Invalidate ETH.";
}

/// A parsed packet. Parsing does not judge the CRCs: ask [`WholePacket::crcs`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WholePacket<'a> {
    envelope: Envelope<'a>,
    opcode: Opcode,
    ext: ExtHeaders,
    payload_offset: usize,
    payload_len: usize,
}

impl<'a> WholePacket<'a> {
    /// Parses one packet.
    pub fn parse(framing: Framing, bytes: &'a [u8]) -> Result<Self, WireError> {
        let envelope = Envelope::parse(framing, bytes)?;
        let opcode = Opcode::try_from(envelope.bth().opcode)?;
        let ext = ExtHeaders::read(opcode, envelope.body())?;
        let padded_len = envelope.body().len() - opcode.ext_len();
        let pad_len = usize::from(envelope.bth().pad_count);
        if !padded_len.is_multiple_of(4) || pad_len > padded_len {
            let expected_bytes = (padded_len + pad_len).next_multiple_of(4);
            let field = "payload with pad bytes";
            return Err(WireError::Length {
                field,
                found_bytes: padded_len,
                expected_bytes,
            });
        }
        let payload_offset = envelope.body_offset() + opcode.ext_len();
        let payload_len = padded_len - pad_len;
        Ok(Self {
            envelope,
            opcode,
            ext,
            payload_offset,
            payload_len,
        })
    }

    /// Link headers, BTH and CRCs.
    pub fn envelope(&self) -> &Envelope<'a> {
        &self.envelope
    }

    /// Headers in front of the BTH.
    pub fn link(&self) -> &Link {
        self.envelope.link()
    }

    /// Base transport header.
    pub fn bth(&self) -> &bth::Repr {
        self.envelope.bth()
    }

    /// Opcode of the BTH.
    pub fn opcode(&self) -> Opcode {
        self.opcode
    }

    /// Extended transport headers.
    pub fn ext(&self) -> &ExtHeaders {
        &self.ext
    }

    /// Payload without pad bytes.
    pub fn payload(&self) -> &'a [u8] {
        &self.envelope.bytes()[self.payload_range()]
    }

    /// Place of the payload in the packet.
    pub fn payload_range(&self) -> Range<usize> {
        self.payload_offset..self.payload_offset + self.payload_len
    }

    /// The pad bytes behind the payload.
    pub fn pad(&self) -> &'a [u8] {
        &self.envelope.bytes()[self.payload_range().end..self.envelope.icrc_offset()]
    }

    /// The CRCs in the packet, and computed over it.
    pub fn crcs(&self) -> Crcs {
        self.envelope.crcs()
    }

    /// What to hand to [`PacketRepr::emit`] to get this packet again.
    pub fn repr(&self) -> PacketRepr<'a> {
        PacketRepr {
            link: *self.link(),
            bth: *self.bth(),
            ext: self.ext,
            payload: self.payload(),
        }
    }
}

/// What is needed to build a packet.
///
/// Fields that follow from others are filled in by [`PacketRepr::emit`], whatever they hold here:
/// EtherTypes, IP version, header length, protocol, lengths and checksum, UDP port and length,
/// LNH and packet length, GRH version, next header and length, the BTH's pad count, and the CRCs.
/// The UDP checksum is sent as given; 0, no checksum, is the usual choice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PacketRepr<'a> {
    /// Headers in front of the BTH.
    pub link: Link,
    /// Base transport header.
    pub bth: bth::Repr,
    /// Extended headers; must be those of the opcode.
    pub ext: ExtHeaders,
    /// Payload without pad bytes.
    pub payload: &'a [u8],
}

/// Writes one thing behind the other. The buffer was measured before, so it never runs over.
struct Cursor<'b> {
    bytes: &'b mut [u8],
    at: usize,
}

impl Cursor<'_> {
    fn put(&mut self, part: &[u8]) {
        self.bytes[self.at..self.at + part.len()].copy_from_slice(part);
        self.at += part.len();
    }
}

impl PacketRepr<'_> {
    /// Longest IP packet or InfiniBand packet that the length fields can express.
    fn covered_len_max(&self) -> usize {
        const LRH_LEN_MAX: usize = 0x7ff * 4;
        match self.link {
            Link::Ethernet { .. } => usize::from(u16::MAX),
            Link::InfiniBand { .. } => LRH_LEN_MAX,
        }
    }

    /// Bytes from the start of the packet through the ICRC.
    fn len_with_icrc(&self, opcode: Opcode) -> usize {
        let padded_len = self.payload.len().next_multiple_of(4);
        self.link.header_len() + bth::LEN + opcode.ext_len() + padded_len + ICRC_LEN
    }

    /// Bytes that [`Self::emit`] writes.
    pub fn buffer_len(&self) -> Result<usize, WireError> {
        let len = self.len_with_icrc(Opcode::try_from(self.bth.opcode)?);
        Ok(match self.link {
            Link::Ethernet { .. } => len,
            Link::InfiniBand { .. } => len + VCRC_LEN,
        })
    }

    /// Writes the packet with its CRCs and returns its length.
    ///
    /// Short Ethernet frames are not padded to 60 bytes: that is the MAC's work.
    pub fn emit(&self, buffer: &mut [u8]) -> Result<usize, WireError> {
        let opcode = Opcode::try_from(self.bth.opcode)?;
        self.ext.check(opcode)?;
        let end = self.len_with_icrc(opcode);
        let covered_len = end - self.link.covered_offset();
        if covered_len > self.covered_len_max() {
            let headers_len = covered_len - self.payload.len().next_multiple_of(4);
            let limit_bytes = self.covered_len_max() - headers_len;
            return Err(WireError::PayloadTooLong {
                limit_bytes,
                found_bytes: self.payload.len(),
            });
        }
        let (need_bytes, have_bytes) = (self.buffer_len()?, buffer.len());
        if have_bytes < need_bytes {
            return Err(WireError::BufferTooSmall {
                need_bytes,
                have_bytes,
            });
        }

        let mut out = Cursor { bytes: buffer, at: 0 };
        self.put_headers(covered_len, &mut out);
        out.put(self.payload);
        out.put(&[0; 3][..self.pad_len()]);
        let icrc = self.link.icrc(&out.bytes[self.link.covered_offset()..out.at]);
        out.put(&icrc.to_be_bytes());
        if let Link::InfiniBand { .. } = self.link {
            let vcrc = crc::vcrc(&out.bytes[..out.at]);
            out.put(&vcrc.to_be_bytes());
        }
        Ok(out.at)
    }

    /// Writes what is in front of the payload, as [`PacketRepr::emit`] does, and returns its length.
    pub fn emit_headers(&self, buffer: &mut [u8]) -> Result<usize, WireError> {
        let opcode = Opcode::try_from(self.bth.opcode)?;
        self.ext.check(opcode)?;
        let (need_bytes, have_bytes) = (self.link.header_len() + bth::LEN + opcode.ext_len(), buffer.len());
        if have_bytes < need_bytes {
            return Err(WireError::BufferTooSmall {
                need_bytes,
                have_bytes,
            });
        }
        let mut out = Cursor { bytes: buffer, at: 0 };
        self.put_headers(self.len_with_icrc(opcode) - self.link.covered_offset(), &mut out);
        Ok(out.at)
    }

    fn pad_len(&self) -> usize {
        self.payload.len().next_multiple_of(4) - self.payload.len()
    }

    fn put_headers(&self, covered_len: usize, out: &mut Cursor<'_>) {
        emit_link(&self.link, covered_len, out);
        out.put(
            &bth::Repr {
                pad_count: self.pad_len() as u8,
                ..self.bth
            }
            .to_bytes(),
        );
        self.ext.emit(out);
    }
}

/// Writes the headers in front of the BTH; `covered_len` is the length of the IP or InfiniBand packet.
fn emit_link(link: &Link, covered_len: usize, out: &mut Cursor<'_>) {
    match *link {
        Link::Ethernet {
            mut eth,
            vlan,
            ip,
            mut udp,
        } => {
            let (ethertype, ip_len) = match ip {
                Network::Ipv4(_) => (ETHERTYPE_IPV4, ipv4::LEN),
                Network::Ipv6(_) => (ETHERTYPE_IPV6, ipv6::LEN),
            };
            eth.ethertype = if vlan.is_some() { ETHERTYPE_VLAN } else { ethertype };
            out.put(&eth.to_bytes());
            if let Some(mut vlan) = vlan {
                vlan.ethertype = ethertype;
                out.put(&vlan.to_bytes());
            }
            emit_ip(ip, covered_len, out);
            udp.dst_port = ROCE_UDP_PORT;
            udp.length = (covered_len - ip_len) as u16;
            out.put(&udp.to_bytes());
        }
        Link::InfiniBand { mut lrh, grh } => {
            lrh.lnh = if grh.is_some() {
                LNH_IBA_GLOBAL
            } else {
                LNH_IBA_LOCAL
            };
            lrh.pkt_len = (covered_len / 4) as u16;
            out.put(&lrh.to_bytes());
            if let Some(mut grh) = grh {
                grh.ip_ver = 6;
                grh.nxt_hdr = GRH_NEXT_HEADER_IBA;
                grh.pay_len = (covered_len - lrh::LEN - grh::LEN) as u16;
                out.put(&grh.to_bytes());
            }
        }
    }
}

fn emit_ip(ip: Network, covered_len: usize, out: &mut Cursor<'_>) {
    match ip {
        Network::Ipv4(mut ip) => {
            ip.version = 4;
            ip.ihl = (ipv4::LEN / 4) as u8;
            ip.total_len = covered_len as u16;
            ip.protocol = IP_PROTO_UDP;
            ip.checksum = 0;
            ip.checksum = crc::ipv4_checksum(&ip.to_bytes());
            out.put(&ip.to_bytes());
        }
        Network::Ipv6(mut ip) => {
            ip.version = 6;
            ip.payload_len = (covered_len - ipv6::LEN) as u16;
            ip.next_header = IP_PROTO_UDP;
            out.put(&ip.to_bytes());
        }
    }
}
