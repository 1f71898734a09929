//! A packet at a port: collected beat by beat, then named.

use std::fmt::Write as _;

use hca_wire::{
    Envelope, ExtHeader, FlowControl, FlowControlOp, Framing, Link, Network, Opcode, Syndrome, aeth,
};

/// Beats of the largest packet, and room for what is longer by mistake.
const BYTES_MAX: usize = 8192;
/// EtherType of PAUSE and PFC (IEEE 802.3 clause 31, 802.1Q clause 36).
const ETHERTYPE_MAC_CONTROL: u16 = 0x8808;
const ETHERTYPE_OFFSET: usize = 12;

/// A beat of a stream: it is the last one, its bytes, their number.
pub(crate) type Beat = (bool, [u32; 16], u8);

/// Collects the beats of one direction.
#[derive(Default)]
pub(crate) struct Assembler {
    bytes: Vec<u8>,
    /// Bytes of the packet, also those that were not kept.
    len_bytes: usize,
    first: u64,
}

/// A whole packet.
pub(crate) struct Whole<'a> {
    pub bytes: &'a [u8],
    pub len_bytes: usize,
    /// Cycle of its first beat.
    pub first: u64,
}

impl Assembler {
    /// Takes a beat; true: that was the packet's last.
    pub fn add(&mut self, now: u64, (last, words, len_bytes): Beat) -> bool {
        if self.len_bytes == 0 {
            self.bytes.clear();
            self.first = now;
        }
        let mut line = [0; 64];
        for (bytes, word) in line.chunks_exact_mut(4).zip(words) {
            bytes.copy_from_slice(&word.to_le_bytes());
        }
        let beat = &line[..usize::from(len_bytes).min(line.len())];
        if self.bytes.len() < BYTES_MAX {
            self.bytes.extend_from_slice(beat);
        }
        self.len_bytes += beat.len();
        last
    }

    /// The packet that is complete; the next beat begins another.
    pub fn take(&mut self) -> Whole<'_> {
        Whole {
            bytes: &self.bytes,
            len_bytes: std::mem::take(&mut self.len_bytes),
            first: self.first,
        }
    }
}

/// What names a packet among others on its way through a card.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Key {
    pub opcode: u8,
    pub dest_qpn: u32,
    pub psn: u32,
}

/// A packet as far as the timeline shows it.
pub(crate) struct Seen {
    /// Text without characters that JSON escapes.
    pub name: String,
    /// Inside of a JSON object.
    pub args: String,
    /// None: it has no transport header.
    pub key: Option<Key>,
    /// VL, or priority.
    pub vl: u8,
}

/// Reads a packet, however wrong it is.
pub(crate) fn see(framing: Framing, packet: &Whole) -> Seen {
    let lane = match framing {
        Framing::InfiniBand => "vl",
        Framing::Ethernet => "priority",
    };
    let mut args = format!(r#""bytes":{}"#, packet.len_bytes);
    let Ok(envelope) = Envelope::parse(framing, packet.bytes) else {
        return Seen {
            name: other(framing, packet.bytes),
            args,
            key: None,
            vl: 0,
        };
    };
    let (bth, vl) = (envelope.bth(), lane_of(envelope.link()));
    let crcs = envelope.crcs();
    // Writing to a String cannot fail.
    let _ = write!(
        args,
        r#","to_qp":"{:#x}","psn":{},"{lane}":{vl}"#,
        bth.dest_qp, bth.psn
    );
    if !(crcs.icrc_ok() && crcs.vcrc_ok()) {
        args += r#","crc":"wrong""#;
    }
    Seen {
        name: name(&envelope),
        args,
        key: Some(Key {
            opcode: bth.opcode,
            dest_qpn: bth.dest_qp,
            psn: bth.psn,
        }),
        vl,
    }
}

fn lane_of(link: &Link) -> u8 {
    match link {
        Link::InfiniBand { lrh, .. } => lrh.vl,
        Link::Ethernet { vlan: Some(tag), .. } => tag.pcp,
        Link::Ethernet { ip, .. } => match ip {
            Network::Ipv4(ip) => ip.dscp >> 3,
            Network::Ipv6(ip) => ip.traffic_class >> 5,
        },
    }
}

fn name(envelope: &Envelope) -> String {
    let code = envelope.bth().opcode;
    let Ok(opcode) = Opcode::try_from(code) else {
        return format!("opcode {code:#04x}");
    };
    // Only what comes before it would be in the way, and nothing does in the services we have.
    let syndrome = opcode
        .has(ExtHeader::Aeth)
        .then(|| aeth::Repr::read(envelope.body()).ok())
        .flatten()
        .map(|aeth| Syndrome::from_byte(aeth.syndrome));
    match syndrome {
        Some(Syndrome::Nak(reason)) => format!("{opcode}: NAK {reason:?}"),
        Some(Syndrome::RnrNak(_)) => format!("{opcode}: RNR NAK"),
        _ => opcode.to_string(),
    }
}

/// Name of a packet without transport header.
fn other(framing: Framing, bytes: &[u8]) -> String {
    let ethertype = bytes.get(ETHERTYPE_OFFSET..ETHERTYPE_OFFSET + 2);
    match (framing, ethertype) {
        (Framing::Ethernet, Some(&[high, low])) => match u16::from_be_bytes([high, low]) {
            ETHERTYPE_MAC_CONTROL => "pause".to_owned(),
            ethertype => format!("Ethernet {ethertype:#06x}"),
        },
        _ => "no packet of ours".to_owned(),
    }
}

/// Name and arguments of a link packet, and what it says if it is right.
pub(crate) fn see_link(packet: &Whole) -> (&'static str, String, Option<FlowControl>) {
    match FlowControl::parse(packet.bytes) {
        Ok(flow) => {
            let args = format!(r#""vl":{},"fctbs":{},"fccl":{}"#, flow.vl, flow.fctbs, flow.fccl);
            let name = match flow.op {
                FlowControlOp::Normal => "flow control",
                FlowControlOp::Init => "flow control, init",
            };
            (name, args, Some(flow))
        }
        Err(error) => ("flow control, wrong", format!(r#""error":"{error}""#), None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn whole(bytes: &[u8]) -> Whole<'_> {
        Whole {
            bytes,
            len_bytes: bytes.len(),
            first: 0,
        }
    }

    #[test]
    fn beats_become_a_packet() {
        let mut assembler = Assembler::default();
        let beat = |last, len| (last, [0x0403_0201; 16], len);
        assert!(!assembler.add(5, beat(false, 64)));
        assert!(assembler.add(6, beat(true, 2)));
        let packet = assembler.take();
        assert_eq!((packet.first, packet.len_bytes), (5, 66));
        assert_eq!(packet.bytes[62..], [3, 4, 1, 2]);
        assert!(assembler.add(9, beat(true, 6)));
        assert_eq!((assembler.take().first, assembler.take().len_bytes), (9, 0));
    }

    #[test]
    fn whatever_comes_has_a_name() {
        for len in [0, 1, 13, 14, 60] {
            let bytes = vec![0x88; len];
            for framing in [Framing::Ethernet, Framing::InfiniBand] {
                assert_eq!(see(framing, &whole(&bytes)).key, None);
            }
        }
        let mut pause = [0; 60];
        pause[12..14].copy_from_slice(&[0x88, 0x08]);
        assert_eq!(see(Framing::Ethernet, &whole(&pause)).name, "pause");
        let (name, _, flow) = see_link(&whole(&[0; 6]));
        assert!(flow.is_none() && name.ends_with("wrong"));
        let flow = FlowControl {
            op: FlowControlOp::Init,
            vl: 3,
            fctbs: 5,
            fccl: 9,
        };
        let (name, args, seen) = see_link(&whole(&flow.to_bytes()));
        assert_eq!((name, seen), ("flow control, init", Some(flow)));
        assert_eq!(args, r#""vl":3,"fctbs":5,"fccl":9"#);
    }
}
