//! Where the parts of a packet lie, whatever its opcode.

use crate::{
    ETHERTYPE_IPV4, ETHERTYPE_IPV6, ETHERTYPE_VLAN, GRH_NEXT_HEADER_IBA, ICRC_LEN, IP_PROTO_UDP,
    LNH_IBA_GLOBAL, LNH_IBA_LOCAL, ROCE_UDP_PORT, VCRC_LEN, WireError, bth, crc, ethernet, grh, ipv4, ipv6,
    lrh, udp, vlan,
};

/// What the first byte of a packet belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Framing {
    /// An Ethernet frame without preamble and frame check sequence.
    Ethernet,
    /// An InfiniBand packet, LRH through VCRC.
    InfiniBand,
}

/// IP header of a RoCEv2 packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Network {
    /// IP version 4.
    Ipv4(ipv4::Repr),
    /// IP version 6.
    Ipv6(ipv6::Repr),
}

/// Everything in front of the BTH.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Link {
    /// RoCEv2 on Ethernet.
    Ethernet {
        /// Ethernet header.
        eth: ethernet::Repr,
        /// VLAN tag, if there is one.
        vlan: Option<vlan::Repr>,
        /// IP header.
        ip: Network,
        /// UDP header.
        udp: udp::Repr,
    },
    /// InfiniBand.
    InfiniBand {
        /// Local route header.
        lrh: lrh::Repr,
        /// Global route header, if there is one.
        grh: Option<grh::Repr>,
    },
}

impl Link {
    /// Framing of this link.
    pub const fn framing(&self) -> Framing {
        match self {
            Self::Ethernet { .. } => Framing::Ethernet,
            Self::InfiniBand { .. } => Framing::InfiniBand,
        }
    }

    /// Bytes in front of the header at which lengths and the ICRC begin: the IP header or the LRH.
    pub const fn covered_offset(&self) -> usize {
        match self {
            Self::Ethernet { vlan: Some(_), .. } => ethernet::LEN + vlan::LEN,
            Self::Ethernet { vlan: None, .. } => ethernet::LEN,
            Self::InfiniBand { .. } => 0,
        }
    }

    /// Bytes in front of the BTH.
    pub const fn header_len(&self) -> usize {
        let network_len = match self {
            Self::Ethernet {
                ip: Network::Ipv4(_), ..
            } => ipv4::LEN + udp::LEN,
            Self::Ethernet {
                ip: Network::Ipv6(_), ..
            } => ipv6::LEN + udp::LEN,
            Self::InfiniBand { grh: Some(_), .. } => lrh::LEN + grh::LEN,
            Self::InfiniBand { grh: None, .. } => lrh::LEN,
        };
        self.covered_offset() + network_len
    }

    /// ICRC of a packet with these headers; `covered` runs from the IP header or LRH to the pad bytes.
    pub(crate) fn icrc(&self, covered: &[u8]) -> u32 {
        match self {
            Self::Ethernet {
                ip: Network::Ipv4(_), ..
            } => crc::icrc_roce_ipv4(covered),
            Self::Ethernet {
                ip: Network::Ipv6(_), ..
            } => crc::icrc_roce_ipv6(covered),
            Self::InfiniBand { grh: Some(_), .. } => crc::icrc_ib_global(covered),
            Self::InfiniBand { grh: None, .. } => crc::icrc_ib_local(covered),
        }
    }
}

/// The CRCs of a packet, as found in it and as they should be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Crcs {
    /// ICRC in the packet.
    pub icrc_found: u32,
    /// ICRC computed over the packet.
    pub icrc_expected: u32,
    /// VCRC in the packet and as computed; InfiniBand only.
    pub vcrc_found_expected: Option<(u16, u16)>,
}

impl Crcs {
    /// True where the ICRC is right.
    pub fn icrc_ok(&self) -> bool {
        self.icrc_found == self.icrc_expected
    }

    /// True where the VCRC is right or the packet has none.
    pub fn vcrc_ok(&self) -> bool {
        self.vcrc_found_expected
            .is_none_or(|(found, expected)| found == expected)
    }
}

/// A packet cut into link headers, BTH, the rest, and CRCs. Its opcode is not looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Envelope<'a> {
    bytes: &'a [u8],
    link: Link,
    bth: bth::Repr,
    icrc_offset: usize,
}

fn length(field: &'static str, found_bytes: usize, expected_bytes: usize) -> Result<(), WireError> {
    if found_bytes == expected_bytes {
        return Ok(());
    }
    Err(WireError::Length {
        field,
        found_bytes,
        expected_bytes,
    })
}

fn need(header: &'static str, need_bytes: usize, have_bytes: usize) -> Result<(), WireError> {
    if have_bytes >= need_bytes {
        return Ok(());
    }
    Err(WireError::Truncated {
        header,
        need_bytes,
        have_bytes,
    })
}

impl<'a> Envelope<'a> {
    /// Finds the parts of one packet.
    ///
    /// An Ethernet frame may be longer than its IP packet (frames are padded to 60 bytes); an
    /// InfiniBand packet may not.
    pub fn parse(framing: Framing, bytes: &'a [u8]) -> Result<Self, WireError> {
        match framing {
            Framing::Ethernet => Self::parse_ethernet(bytes),
            Framing::InfiniBand => Self::parse_infiniband(bytes),
        }
    }

    fn parse_ethernet(bytes: &'a [u8]) -> Result<Self, WireError> {
        let eth = ethernet::Repr::read(bytes)?;
        let mut at = ethernet::LEN;
        let mut ethertype = eth.ethertype;
        let mut tag = None;
        if ethertype == ETHERTYPE_VLAN {
            let repr = vlan::Repr::read(&bytes[at..])?;
            at += vlan::LEN;
            ethertype = repr.ethertype;
            tag = Some(repr);
        }
        let (ip, ip_header_len, ip_len) = match ethertype {
            ETHERTYPE_IPV4 => parse_ipv4(&bytes[at..])?,
            ETHERTYPE_IPV6 => parse_ipv6(&bytes[at..])?,
            _ => return Err(WireError::NotIba("EtherType is neither IPv4 nor IPv6")),
        };
        // The port first: a foreign packet that is cut short is foreign, not broken.
        let udp = udp::Repr::read(&bytes[at + ip_header_len..])?;
        if udp.dst_port != ROCE_UDP_PORT {
            return Err(WireError::NotIba("UDP destination port is not 4791"));
        }
        need("IP packet", ip_len, bytes.len() - at)?;
        need("UDP header", ip_header_len + udp::LEN, ip_len)?;
        let end = at + ip_len;
        at += ip_header_len;
        length("UDP length", usize::from(udp.length), end - at)?;
        at += udp::LEN;
        Self::finish(
            bytes,
            Link::Ethernet {
                eth,
                vlan: tag,
                ip,
                udp,
            },
            at,
            end,
        )
    }

    fn parse_infiniband(bytes: &'a [u8]) -> Result<Self, WireError> {
        let lrh = lrh::Repr::read(bytes)?;
        let end = usize::from(lrh.pkt_len) * 4;
        let grh = match lrh.lnh {
            LNH_IBA_LOCAL => None,
            LNH_IBA_GLOBAL => Some(grh::Repr::read(&bytes[lrh::LEN..])?),
            _ => return Err(WireError::NotIba("LRH announces a raw packet")),
        };
        need("packet of the LRH's length and VCRC", end + VCRC_LEN, bytes.len())?;
        length("LRH packet length", end, bytes.len() - VCRC_LEN)?;
        let mut at = lrh::LEN;
        if let Some(grh) = &grh {
            at += grh::LEN;
            if grh.nxt_hdr != GRH_NEXT_HEADER_IBA {
                return Err(WireError::NotIba("GRH next header is not 0x1B"));
            }
            need("BTH and ICRC", at, end)?;
            length("GRH payload length", usize::from(grh.pay_len), end - at)?;
        }
        Self::finish(bytes, Link::InfiniBand { lrh, grh }, at, end)
    }

    /// `at` is where the BTH begins, `end` where the ICRC ends.
    fn finish(bytes: &'a [u8], link: Link, at: usize, end: usize) -> Result<Self, WireError> {
        need("BTH and ICRC", at + bth::LEN + ICRC_LEN, end)?;
        let bth = bth::Repr::read(&bytes[at..end])?;
        Ok(Self {
            bytes,
            link,
            bth,
            icrc_offset: end - ICRC_LEN,
        })
    }

    /// The whole packet.
    pub fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// Headers in front of the BTH.
    pub fn link(&self) -> &Link {
        &self.link
    }

    /// Base transport header.
    pub fn bth(&self) -> &bth::Repr {
        &self.bth
    }

    /// Extended headers, payload and pad bytes.
    pub fn body(&self) -> &'a [u8] {
        &self.bytes[self.body_offset()..self.icrc_offset]
    }

    /// Where [`Self::body`] begins.
    pub fn body_offset(&self) -> usize {
        self.link.header_len() + bth::LEN
    }

    /// Where the ICRC begins.
    pub fn icrc_offset(&self) -> usize {
        self.icrc_offset
    }

    /// Bytes behind the IP packet of an Ethernet frame.
    pub fn trailer(&self) -> &'a [u8] {
        match self.link {
            Link::Ethernet { .. } => &self.bytes[self.icrc_offset + ICRC_LEN..],
            Link::InfiniBand { .. } => &[],
        }
    }

    /// The CRCs in the packet, and computed over it.
    pub fn crcs(&self) -> Crcs {
        let covered = &self.bytes[self.link.covered_offset()..self.icrc_offset];
        let end = self.icrc_offset + ICRC_LEN;
        let mut icrc = [0; ICRC_LEN];
        icrc.copy_from_slice(&self.bytes[self.icrc_offset..end]);
        let vcrc_found_expected = match self.link {
            Link::Ethernet { .. } => None,
            Link::InfiniBand { .. } => {
                let found = u16::from_be_bytes([self.bytes[end], self.bytes[end + 1]]);
                Some((found, crc::vcrc(&self.bytes[..end])))
            }
        };
        Crcs {
            icrc_found: u32::from_be_bytes(icrc),
            icrc_expected: self.link.icrc(covered),
            vcrc_found_expected,
        }
    }
}

/// Reads an IPv4 header: the header, its bytes, and the bytes of the whole IP packet.
fn parse_ipv4(bytes: &[u8]) -> Result<(Network, usize, usize), WireError> {
    let ip = ipv4::Repr::read(bytes)?;
    if ip.version != 4 {
        return Err(WireError::NotIba("EtherType says IPv4, the IP version does not"));
    }
    if ip.protocol != IP_PROTO_UDP {
        return Err(WireError::NotIba("IP protocol is not UDP"));
    }
    if ip.more_fragments || ip.fragment_offset != 0 {
        return Err(WireError::NotIba("IPv4 fragment"));
    }
    if usize::from(ip.ihl) * 4 != ipv4::LEN {
        return Err(WireError::NotIba("IPv4 header has options"));
    }
    Ok((
        Network::Ipv4(ip),
        ipv4::LEN,
        usize::from(ip.total_len).max(ipv4::LEN),
    ))
}

/// Reads an IPv6 header: the header, its bytes, and the bytes of the whole IP packet.
fn parse_ipv6(bytes: &[u8]) -> Result<(Network, usize, usize), WireError> {
    let ip = ipv6::Repr::read(bytes)?;
    if ip.version != 6 {
        return Err(WireError::NotIba("EtherType says IPv6, the IP version does not"));
    }
    if ip.next_header != IP_PROTO_UDP {
        return Err(WireError::NotIba("IPv6 next header is not UDP"));
    }
    Ok((
        Network::Ipv6(ip),
        ipv6::LEN,
        ipv6::LEN + usize::from(ip.payload_len),
    ))
}
