//! Frames, raw QPs, and two cards with both.

use crate::common::{CANARY_BYTES, LOCAL_AND_REMOTE, Pair, cap};
use hca_link::LinkKind;
use hca_system_tests::{Dev, Node, RigConfig, path};
use hca_verbs::{
    Flow, FlowAttr, Mtu, QpAttr, QpAttrMask, QpOptions, QpState, RawQp, RecvWr, SendFlags, SendOp, SendWr,
    Service, WcOpcode, WcStatus, WrData, wc_flag,
};

pub const REGION_BYTES: u64 = 256 << 10;
/// Room of each receive.
pub const SLOT: u64 = 8192;
/// Shortest frame on a wire, without FCS.
pub const MIN_FRAME: usize = 60;
pub const VLAN: [u8; 2] = [0x81, 0x00];
pub const ALL_MACS: [u8; 6] = [0xff; 6];

pub fn mac(node: usize) -> [u8; 6] {
    hca_system_tests::identity(node as u8, LinkKind::Ethernet).mac
}

/// An Ethernet header and what is behind it.
pub fn frame(dst: [u8; 6], src: [u8; 6], tag: Option<u16>, ether_type: u16, body: &[u8]) -> Vec<u8> {
    let mut out = [dst, src].concat();
    if let Some(tag) = tag {
        out.extend(VLAN);
        out.extend(tag.to_be_bytes());
    }
    out.extend(ether_type.to_be_bytes());
    out.extend(body);
    out
}

/// RFC 1071, over big-endian words; an odd byte at the end is followed by 0.
pub fn sum(bytes: &[u8]) -> u16 {
    let words = bytes
        .chunks(2)
        .map(|w| u32::from(w[0]) << 8 | u32::from(*w.get(1).unwrap_or(&0)));
    let mut sum: u32 = words.sum();
    while sum >> 16 != 0 {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}

pub const TCP: u8 = 6;
pub const UDP: u8 = 17;

/// IPv4 with TCP or UDP, checksums right or left empty.
pub fn ipv4(proto: u8, ips: [[u8; 4]; 2], ports: [u16; 2], data: &[u8], with_sums: bool) -> Vec<u8> {
    let mut l4 = [ports[0].to_be_bytes(), ports[1].to_be_bytes()].concat();
    let at = if proto == UDP {
        l4.extend((8 + data.len() as u16).to_be_bytes());
        l4.extend([0, 0]);
        6
    } else {
        l4.extend([0, 0, 0, 1, 0, 0, 0, 2, 0x50, 0x10, 0x20, 0, 0, 0, 0, 0]);
        16
    };
    l4.extend(data);
    let mut ip = vec![0x45, 0];
    ip.extend((20 + l4.len() as u16).to_be_bytes());
    ip.extend([0, 7, 0x40, 0, 61, proto, 0, 0]);
    ip.extend(ips.concat());
    if with_sums {
        let check = !sum(&ip);
        ip[10..12].copy_from_slice(&check.to_be_bytes());
        let mut pseudo = ips.concat();
        pseudo.extend([0, proto]);
        pseudo.extend((l4.len() as u16).to_be_bytes());
        pseudo.extend(&l4);
        let check = match !sum(&pseudo) {
            0 if proto == UDP => 0xffff,
            check => check,
        };
        l4[at..at + 2].copy_from_slice(&check.to_be_bytes());
    }
    ip.extend(l4);
    ip
}

pub fn ipv6(next: u8, ips: [[u8; 16]; 2], ports: [u16; 2], data: &[u8]) -> Vec<u8> {
    let mut out = vec![0x6a, 0xb1, 0x23, 0x45];
    out.extend((8 + data.len() as u16).to_be_bytes());
    out.extend([next, 63]);
    out.extend(ips.concat());
    out.extend([ports[0].to_be_bytes(), ports[1].to_be_bytes()].concat());
    out.extend((8 + data.len() as u16).to_be_bytes());
    out.extend([0xab, 0xcd]);
    out.extend(data);
    out
}

pub fn raw_qp(node: &Node) -> RawQp<Dev> {
    let options = QpOptions {
        cap: cap(),
        service: Service::Raw,
        ..QpOptions::new(&node.cq, &node.cq)
    };
    let mut qp = node.pd.create_raw_qp(&options).unwrap();
    to_rts(&mut qp);
    qp
}

/// QPS-20: what a raw QP needs is its port.
pub fn to_rts(qp: &mut RawQp<Dev>) {
    let attr = |qp_state| QpAttr {
        qp_state,
        port_num: 1,
        ..QpAttr::default()
    };
    qp.modify(&attr(QpState::Init), QpAttrMask::STATE | QpAttrMask::PORT)
        .unwrap();
    for state in [QpState::Rtr, QpState::Rts] {
        qp.modify(&attr(state), QpAttrMask::STATE).unwrap();
    }
}

/// Two nodes with a connection, and a raw QP at node 0 that sends and several at node 1 that receive.
pub struct Net {
    pub pair: Pair,
    pub sender: RawQp<Dev>,
    pub takers: Vec<RawQp<Dev>>,
    next_id: u64,
}

impl Net {
    pub fn new(takers: usize) -> Self {
        Self::on(&RigConfig::new(61, LinkKind::Ethernet), takers)
    }

    pub fn on(config: &RigConfig, takers: usize) -> Self {
        let pair = Pair::new(config, &path(Mtu::Bytes4096), REGION_BYTES, [LOCAL_AND_REMOTE; 2]);
        let sender = raw_qp(&pair.rig.nodes[0]);
        let takers = (0..takers).map(|_| raw_qp(&pair.rig.nodes[1])).collect();
        Self {
            pair,
            sender,
            takers,
            next_id: 0,
        }
    }

    pub fn rule(&self, taker: usize, attr: FlowAttr<'_>) -> Flow<Dev> {
        self.takers[taker]
            .create_flow(&FlowAttr { port_num: 1, ..attr })
            .unwrap()
    }

    pub fn recv(&mut self, taker: usize) {
        let slot = self.next_id % 16;
        let sge = self.pair.mrs[1].sge(slot * SLOT, SLOT as u32);
        let wr_id = (taker as u64) << 32 | slot;
        self.next_id += 1;
        self.takers[taker]
            .post_recv(&[RecvWr { wr_id, sges: &[sge] }])
            .unwrap();
    }

    /// What node 0 sends next.
    pub fn put(&mut self, bytes: &[u8]) {
        let buf = self.pair.memory[0].buf();
        buf.write_bytes(CANARY_BYTES as usize, bytes);
        self.pair.expect(0, 0, bytes);
    }

    pub fn send(&mut self, bytes: &[u8], ip_csum: bool) {
        self.put(bytes);
        let (head, rest) = (
            bytes.len() as u32 / 3,
            bytes.len() as u32 - bytes.len() as u32 / 3,
        );
        let mr = &self.pair.mrs[0];
        let sges = [mr.sge(0, head), mr.sge(u64::from(head), rest)];
        let flags = SendFlags {
            ip_csum,
            ..SendFlags::SIGNALED
        };
        let wr = SendWr {
            wr_id: 77,
            op: SendOp::Send,
            flags,
            data: WrData::Sges(&sges),
        };
        self.sender.post_send(&[wr]).unwrap();
        let wc = self.pair.wait_ok(0, 77);
        assert_eq!(wc.opcode, WcOpcode::Send);
    }

    /// Sends a frame and says which takers got it, and whether its checksums were found right. It must be as sent,
    /// padded to the shortest of a wire.
    pub fn deliver(
        &mut self,
        sent: &[u8],
        wanted: &[u8],
        ip_csum: bool,
        takers: usize,
    ) -> (Vec<usize>, bool) {
        self.send(sent, ip_csum);
        let (mut got, mut csum_ok) = (Vec::new(), None);
        for _ in 0..takers {
            let wc = self.pair.wait(1);
            assert_eq!((wc.status, wc.opcode), (WcStatus::Success, WcOpcode::Recv));
            let len = wanted.len().max(MIN_FRAME);
            assert_eq!(wc.byte_len as usize, len);
            let mut bytes = vec![0; len];
            let at = (wc.wr_id & 0xff) * SLOT;
            self.pair.memory[1]
                .buf()
                .read_bytes((CANARY_BYTES + at) as usize, &mut bytes);
            self.pair.expect(1, at, &bytes);
            assert_eq!(&bytes[..wanted.len()], wanted, "{} bytes", wanted.len());
            assert!(bytes[wanted.len()..].iter().all(|byte| *byte == 0));
            assert_eq!(wc.wc_flags & !wc_flag::IP_CSUM_OK, 0);
            let ok = wc.wc_flags & wc_flag::IP_CSUM_OK != 0;
            assert_eq!(*csum_ok.get_or_insert(ok), ok);
            got.push((wc.wr_id >> 32) as usize);
        }
        self.pair.silent(1, 1200);
        got.sort_unstable();
        (got, csum_ok.unwrap_or(false))
    }

    /// Each taker has a receive posted; who gets the frame?
    pub fn who(&mut self, sent: &[u8], expected: &[usize]) {
        let (got, _) = self.deliver(sent, sent, false, expected.len());
        assert_eq!(got, expected);
        for taker in got {
            self.recv(taker);
        }
    }
}
