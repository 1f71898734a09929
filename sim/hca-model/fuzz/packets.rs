//! Whatever bytes come by a cable: they are a packet or none, and the reference model, which carries programs as the
//! fast card (decision 0069), bears each. Run by `scripts/fuzz.sh`.
//!
//! An input is pieces of at most 255 bytes, each behind its length. Each piece is taken as a packet as it stands, and,
//! behind headers of the peer and with CRCs that fit, as what a hostile peer says from the BTH on.
#![no_main]

use hca_model::{Access, Frame, Model, Op, QpConfig, RecvRequest, SendRequest, Sge};
use hca_wire::{
    Envelope, FlowControl, Framing, Link, Network, Opcode, PacketRepr, WholePacket, crc, ethernet, ipv4, lrh, udp,
};
use libfuzzer_sys::fuzz_target;

const MEMORY: u64 = 0x1000;
const QKEY: u32 = 0x1357;
const REGION_BYTES: usize = 4096;

fn links() -> [Link; 2] {
    [
        Link::Ethernet {
            eth: ethernet::Repr::default(),
            vlan: None,
            ip: Network::Ipv4(ipv4::Repr { ttl: 64, ..Default::default() }),
            udp: udp::Repr { src_port: 0xc000, ..Default::default() },
        },
        Link::InfiniBand { lrh: lrh::Repr { slid: 1, dlid: 2, ..Default::default() }, grh: None },
    ]
}

/// A model with a QP of each service, of that number plus 2: requests are under way, receives wait.
fn model(link: Link) -> Model {
    let mut model = Model::new();
    let key = model.register(0, MEMORY, vec![0; REGION_BYTES], Access::ALL);
    let configs = [QpConfig::rc(2, 2, link), QpConfig::uc(3, 3, link), QpConfig::ud(5, QKEY, link)];
    for config in configs {
        let qpn = config.qpn;
        model.create_qp(config).expect("a QP");
        for wr_id in 0..4 {
            let _ = model.post_recv(qpn, RecvRequest::new(wr_id, vec![Sge::new(key, MEMORY, 512)]));
        }
    }
    let (va, rkey) = (MEMORY + 1024, key);
    for (wr_id, op) in [Op::Read { va, rkey }, Op::Write { va, rkey, imm: None }].into_iter().enumerate() {
        let _ = model.post_send(2, SendRequest::new(wr_id as u64, op, vec![Sge::new(key, MEMORY, 2048)]));
    }
    model
}

/// The piece behind headers of this link, with lengths and CRCs that fit.
fn sealed(link: &Link, piece: &[u8]) -> Vec<u8> {
    let payload = &piece[..piece.len() & !3];
    let room = hca_wire::bth::LEN;
    let filler = vec![0; payload.len().saturating_sub(room)];
    let bth = hca_wire::bth::Repr { opcode: Opcode::RcSendOnly as u8, ..Default::default() };
    let repr = PacketRepr { link: *link, bth, ext: Default::default(), payload: &filler };
    let mut bytes = vec![0; repr.buffer_len().expect("short enough")];
    repr.emit(&mut bytes).expect("a packet");
    let at = link.header_len();
    let end = bytes.len() - 4 - if matches!(link, Link::InfiniBand { .. }) { 2 } else { 0 };
    let len = payload.len().min(end - at);
    bytes[at..at + len].copy_from_slice(&payload[..len]);
    let icrc = match link {
        Link::Ethernet { .. } => crc::icrc_roce_ipv4(&bytes[link.covered_offset()..end]),
        Link::InfiniBand { .. } => crc::icrc_ib_local(&bytes[..end]),
    };
    bytes[end..end + 4].copy_from_slice(&icrc.to_be_bytes());
    if matches!(link, Link::InfiniBand { .. }) {
        let vcrc = crc::vcrc(&bytes[..end + 4]);
        bytes[end + 4..].copy_from_slice(&vcrc.to_be_bytes());
    }
    bytes
}

fn parse(framing: Framing, bytes: &[u8]) {
    let _ = Envelope::parse(framing, bytes);
    let _ = Frame::parse(framing, bytes);
    let Ok(whole) = WholePacket::parse(framing, bytes) else {
        return;
    };
    let repr = PacketRepr { link: *whole.link(), bth: *whole.bth(), ext: *whole.ext(), payload: whole.payload() };
    let mut again = vec![0; repr.buffer_len().expect("a known opcode")];
    repr.emit(&mut again).expect("what was parsed can be built");
    let built = WholePacket::parse(framing, &again).expect("what was built can be parsed");
    assert_eq!((built.bth().opcode, built.payload()), (whole.bth().opcode, whole.payload()));
}

fuzz_target!(|bytes: &[u8]| {
    let Some((&choice, mut rest)) = bytes.split_first() else {
        return;
    };
    let link = links()[usize::from(choice & 1)];
    let framing = if choice & 1 == 0 { Framing::Ethernet } else { Framing::InfiniBand };
    let mut model = model(link);
    let mut now = 0;
    while let Some((&len, behind)) = rest.split_first() {
        let (piece, others) = behind.split_at(usize::from(len).min(behind.len()));
        rest = others;
        let _ = FlowControl::parse(piece);
        parse(framing, piece);
        let packet = sealed(&link, piece);
        parse(framing, &packet);
        now += 1000;
        model.handle_timeout(now);
        if let Some(frame) = Frame::parse(framing, &packet) {
            model.handle_frame(now, &frame);
        }
        for _ in 0..64 {
            if model.poll_transmit(now).is_none() {
                break;
            }
        }
        while model.poll_completion().is_some() || model.poll_event().is_some() {}
    }
});
