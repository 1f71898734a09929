//! What a switch reads in a frame and changes in it: addresses, priority, congestion mark, and pauses.

use hca_wire::{ETHERTYPE_IPV4, ETHERTYPE_IPV6, ETHERTYPE_VLAN, crc, ethernet, ipv4, ipv6, vlan};

/// Priorities.
pub(crate) const PRIORITIES: usize = 8;
/// Where pause frames go: to the other end of the cable and no further (IEEE 802.1Qbb, 802.3 annex 31D).
const PAUSE_MAC: [u8; 6] = [0x01, 0x80, 0xc2, 0x00, 0x00, 0x01];
/// EtherType of MAC control frames.
const ETHERTYPE_CONTROL: u16 = 0x8808;
/// Operation of a pause per priority.
const OPCODE_PFC: u16 = 0x0101;
/// Shortest frame, frame check sequence not counted.
const FRAME_BYTES_MIN: usize = 60;
/// Bits of a pause quantum.
pub(crate) const QUANTUM_BITS: u64 = 512;
/// Congestion experienced, in the two bits of the traffic class.
const ECN_CE: u8 = 3;

/// A pause frame: for each priority how many quanta, if it says anything of it. 0 ends a pause.
pub(crate) type Pause = [Option<u16>; PRIORITIES];

/// The pause frame with these times.
pub(crate) fn pause_frame(pause: &Pause, src_mac: [u8; 6]) -> Vec<u8> {
    let header = ethernet::Repr {
        dst_mac: PAUSE_MAC,
        src_mac,
        ethertype: ETHERTYPE_CONTROL,
    };
    let mut frame = header.to_bytes().to_vec();
    frame.extend(OPCODE_PFC.to_be_bytes());
    let named = |(priority, quanta): (usize, &Option<u16>)| quanta.map_or(0, |_| 1u16 << priority);
    let vector: u16 = pause.iter().enumerate().map(named).sum();
    frame.extend(vector.to_be_bytes());
    for quanta in pause {
        frame.extend(quanta.unwrap_or(0).to_be_bytes());
    }
    frame.resize(FRAME_BYTES_MIN, 0);
    frame
}

/// Reads a frame to the MAC control address: `None` where it is another frame, an empty pause where it says nothing we
/// understand. Such frames are never forwarded.
pub(crate) fn read_pause(frame: &[u8]) -> Option<Pause> {
    let header = ethernet::Repr::read(frame).ok()?;
    if header.dst_mac != PAUSE_MAC {
        return None;
    }
    let word = |index: usize| {
        let at = ethernet::LEN + 2 * index;
        let bytes = frame.get(at..at + 2)?;
        Some(u16::from_be_bytes([bytes[0], bytes[1]]))
    };
    if header.ethertype != ETHERTYPE_CONTROL || word(0) != Some(OPCODE_PFC) {
        return Some(Pause::default());
    }
    let vector = word(1).unwrap_or(0);
    let of = |priority: usize| word(2 + priority).filter(|_| vector >> priority & 1 == 1);
    Some(std::array::from_fn(of))
}

/// Offset of the IP header, and whether it is IPv4.
fn ip_header(frame: &[u8]) -> Option<(usize, bool)> {
    let mut ethertype = ethernet::Repr::read(frame).ok()?.ethertype;
    let mut at = ethernet::LEN;
    if ethertype == ETHERTYPE_VLAN {
        ethertype = vlan::Repr::read(frame.get(at..)?).ok()?.ethertype;
        at += vlan::LEN;
    }
    match ethertype {
        ETHERTYPE_IPV4 if frame.len() >= at + ipv4::LEN => Some((at, true)),
        ETHERTYPE_IPV6 if frame.len() >= at + ipv6::LEN => Some((at, false)),
        _ => None,
    }
}

/// DSCP and congestion bits of an IP packet.
pub(crate) fn traffic_class(frame: &[u8]) -> Option<u8> {
    let (at, is_ipv4) = ip_header(frame)?;
    Some(if is_ipv4 {
        frame[at + 1]
    } else {
        frame[at] << 4 | frame[at + 1] >> 4
    })
}

/// What a port reads a frame's priority from. A frame without it has priority 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EthPriorities {
    /// The VLAN tag; false: the DSCP.
    pub trust_pcp: bool,
    /// Priority of each DSCP.
    pub dscp: [u8; 64],
}

impl Default for EthPriorities {
    /// The top three bits of the DSCP.
    fn default() -> Self {
        Self {
            trust_pcp: false,
            dscp: std::array::from_fn(|dscp| dscp as u8 >> 3),
        }
    }
}

impl EthPriorities {
    /// Priority of a frame.
    pub(crate) fn of(&self, frame: &[u8]) -> u8 {
        if !self.trust_pcp {
            let class = traffic_class(frame);
            return class.map_or(0, |class| self.dscp[usize::from(class >> 2)] & 7);
        }
        match (ethernet::Repr::read(frame), frame.get(ethernet::LEN)) {
            (Ok(header), Some(tag)) if header.ethertype == ETHERTYPE_VLAN => tag >> 5,
            _ => 0,
        }
    }
}

/// True of an address that a switch never forwards to (IEEE 802.1Q 8.6.3: 01:80:c2:00:00:00 to 0f): pauses, LLDP and
/// their like are for the other end of the cable.
pub(crate) fn is_reserved(mac: [u8; 6]) -> bool {
    mac[..5] == PAUSE_MAC[..5] && mac[5] < 0x10
}

/// True where the sender understands congestion marks.
pub(crate) fn is_ecn_capable(frame: &[u8]) -> bool {
    traffic_class(frame).is_some_and(|class| class & ECN_CE != 0)
}

/// True where congestion has been marked.
pub(crate) fn is_marked(frame: &[u8]) -> bool {
    traffic_class(frame).is_some_and(|class| class & ECN_CE == ECN_CE)
}

/// Marks congestion (RFC 3168 5). The ICRC does not cover the traffic class; the IPv4 checksum does.
pub(crate) fn mark(frame: &mut [u8]) {
    match ip_header(frame) {
        Some((at, true)) => {
            frame[at + 1] |= ECN_CE;
            frame[at + 10..at + 12].fill(0);
            let len = usize::from(frame[at] & 15) * 4;
            let end = (at + len).min(frame.len());
            let checksum = crc::ipv4_checksum(&frame[at..end]);
            frame[at + 10..at + 12].copy_from_slice(&checksum.to_be_bytes());
        }
        Some((at, false)) => frame[at + 1] |= ECN_CE << 4,
        None => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hca_wire::{ExtHeaders, Framing, Link, Network, Opcode, PacketRepr, WholePacket, bth, udp};

    fn packet(class: u8, v4: bool, tag: bool) -> Vec<u8> {
        let ip = if v4 {
            Network::Ipv4(ipv4::Repr {
                dscp: class >> 2,
                ecn: class & 3,
                ttl: 64,
                ..Default::default()
            })
        } else {
            Network::Ipv6(ipv6::Repr {
                traffic_class: class,
                ..Default::default()
            })
        };
        let vlan = tag.then_some(vlan::Repr {
            vid: 5,
            ..Default::default()
        });
        let repr = PacketRepr {
            link: Link::Ethernet {
                eth: ethernet::Repr::default(),
                vlan,
                ip,
                udp: udp::Repr::default(),
            },
            bth: bth::Repr {
                opcode: Opcode::RcSendOnly as u8,
                ..Default::default()
            },
            ext: ExtHeaders::default(),
            payload: &[3; 40],
        };
        let mut bytes = vec![0; repr.buffer_len().unwrap()];
        repr.emit(&mut bytes).unwrap();
        bytes
    }

    #[test]
    fn a_mark_changes_two_bits_and_the_checksum() {
        for v4 in [true, false] {
            for tag in [true, false] {
                for class in [0x62, 0x61] {
                    let mut bytes = packet(class, v4, tag);
                    assert_eq!(
                        (EthPriorities::default().of(&bytes), is_marked(&bytes)),
                        (3, false)
                    );
                    assert!(is_ecn_capable(&bytes));
                    mark(&mut bytes);
                    assert!(is_marked(&bytes));
                    assert_eq!(traffic_class(&bytes), Some(0x63));
                    // Header checksum and ICRC hold.
                    let whole = WholePacket::parse(Framing::Ethernet, &bytes).unwrap();
                    assert!(whole.crcs().icrc_ok());
                    assert_eq!(bytes, packet(0x63, v4, tag));
                }
                assert!(!is_ecn_capable(&packet(0x60, v4, tag)));
            }
        }
        let mut arp = vec![0; 42];
        arp[12..14].copy_from_slice(&[0x08, 0x06]);
        let before = arp.clone();
        mark(&mut arp);
        assert_eq!((arp, EthPriorities::default().of(&before)), (before.clone(), 0));
    }

    #[test]
    fn priorities_by_dscp_or_tag() {
        let mut by = EthPriorities::default();
        by.dscp[26] = 6;
        let class = |v4, tag| packet(26 << 2 | 1, v4, tag);
        assert_eq!([true, false].map(|v4| by.of(&class(v4, v4))), [6, 6]);
        by.trust_pcp = true;
        let mut tagged = class(true, true);
        tagged[ethernet::LEN] = 5 << 5 | 1;
        assert_eq!(
            [by.of(&tagged), by.of(&class(true, false)), by.of(&[])],
            [5, 0, 0]
        );
        assert!(is_reserved([1, 0x80, 0xc2, 0, 0, 0xe]) && !is_reserved([1, 0x80, 0xc2, 0, 0, 0x10]));
    }

    #[test]
    fn pauses_come_back() {
        let mut pause = Pause::default();
        (pause[0], pause[3], pause[7]) = (Some(0), Some(0xffff), Some(1));
        let frame = pause_frame(&pause, [2, 0, 0, 0, 0, 1]);
        assert_eq!(frame.len(), 60);
        assert_eq!(frame[..6], PAUSE_MAC);
        assert_eq!(frame[12..18], [0x88, 0x08, 0x01, 0x01, 0x00, 0x89]);
        assert_eq!(read_pause(&frame), Some(pause));
        // Cut or of another kind: nothing to obey, nothing to forward.
        assert_eq!(read_pause(&frame[..15]), Some(Pause::default()));
        assert_eq!(read_pause(&packet(0, true, false)), None);
        assert_eq!(read_pause(&[]), None);
    }
}
