//! Whatever comes over the wire: bytes that are no packet, and packets with right CRCs that nobody in his senses sends.
//! Nothing panics, and memory without rights stays as it is.

mod common;

use common::{QPNS, draw_link};
use hca_model::{
    Access, Checker, ConnectionSpec, EndSpec, Frame, Model, Op, Packet, QpConfig, RecvRequest, SendRequest,
    Service, Sge, reply_link,
};
use hca_wire::{
    ExtHeader, ExtHeaders, Framing, Link, Opcode, Psn, aeth, atomic_ack_eth, atomic_eth, deth, feth, ieth,
    immdt, rdeth, reth, xrceth,
};
use proptest::prelude::*;
use proptest::test_runner::RngSeed;

const VA: u64 = 0x1000;
const LEN: usize = 3_000;

/// A model in the middle of everything: a QP of each service with sends and receives outstanding. Returns the keys of a
/// region that may be written by anybody, and of one that may not.
fn busy(link: Link) -> (Model, [u32; 2]) {
    let mut model = Model::new();
    let open = model.register(0, VA, vec![7; LEN], Access::ALL);
    let shut = model.register(0, VA, vec![9; LEN], Access::NONE);
    for (index, service) in (0..).zip([Service::Rc, Service::Uc, Service::Ud]) {
        let qpn = QPNS[0] + index;
        let config = QpConfig {
            service,
            qkey: 5,
            ..QpConfig::rc(qpn, QPNS[1], link)
        };
        model.create_qp(config).unwrap();
        for wr_id in 0..3 {
            let sges = vec![Sge::new(open, VA, 2_000)];
            model
                .post_recv(qpn, RecvRequest::new(wr_id, sges.clone()))
                .unwrap();
            let op = match (service, wr_id) {
                (Service::Rc, 1) => Op::Read { va: VA, rkey: open },
                _ => Op::SEND,
            };
            model.post_send(qpn, SendRequest::new(wr_id, op, sges)).unwrap();
        }
    }
    for _ in 0..12 {
        model.poll_transmit(0);
    }
    while model.poll_completion().is_some() {}
    (model, [open, shut])
}

/// Lets a model work on what has come, for a while.
fn work(model: &mut Model) {
    for now in (0..50).map(|step| step * 50_000_000) {
        model.handle_timeout(now);
        for _ in 0..20 {
            model.poll_transmit(now);
        }
    }
    while model.poll_completion().is_some() {}
}

fn checker(framing: Framing, link: Link) -> Checker {
    let mut checker = Checker::new(framing);
    let ends = [(QPNS[0], link), (QPNS[1], reply_link(&link))];
    checker.connect(ConnectionSpec {
        service: Service::Rc,
        ends: ends.map(|(qpn, link)| EndSpec {
            qpn,
            link,
            sq_psn: Psn::new(0),
        }),
        mtu_bytes: 1024,
        timeout: 14,
        retry_cnt: 7,
        rnr_retry: 7,
        max_rd_atomic: 16,
        pipeline_ns: hca_model::PIPELINE_NS,
        selective: false,
        credits: [false; 2],
        drops_inside: framing == Framing::Ethernet,
    });
    checker
}

/// Numbers, many of them near where something happens.
fn number() -> impl Strategy<Value = u32> {
    prop_oneof![
        0..12_u32,
        Just(u32::MAX),
        Just(0xff_ffff),
        Just(0x80_0000),
        any::<u32>()
    ]
}

fn headers(opcode: Opcode, numbers: [u32; 4], key: u32) -> ExtHeaders {
    let has = |header| opcode.has(header);
    let [a, b, c, d] = numbers;
    let va = VA
        .wrapping_add(u64::from(b % 4_000))
        .wrapping_add(u64::from(a & 1) << 40);
    ExtHeaders {
        rdeth: has(ExtHeader::Rdeth).then_some(rdeth::Repr {
            resv8: 0,
            ee_context: a,
        }),
        deth: has(ExtHeader::Deth).then_some(deth::Repr {
            qkey: a,
            resv8: 0,
            src_qp: b,
        }),
        xrceth: has(ExtHeader::Xrceth).then_some(xrceth::Repr { resv8: 0, xrcsrq: a }),
        feth: has(ExtHeader::Feth).then_some(feth::Repr {
            resv26: b & 0x3ff_ffff,
            sel: a as u8 & 3,
            plt: d as u8 & 15,
        }),
        reth: has(ExtHeader::Reth).then_some(reth::Repr {
            va,
            rkey: key,
            dma_len: c,
        }),
        atomic_eth: has(ExtHeader::AtomicEth).then_some(atomic_eth::Repr {
            va,
            rkey: key,
            swap_add: c.into(),
            compare: d.into(),
        }),
        aeth: has(ExtHeader::Aeth).then_some(aeth::Repr {
            syndrome: a as u8,
            msn: d,
        }),
        atomic_ack_eth: has(ExtHeader::AtomicAckEth).then_some(atomic_ack_eth::Repr { orig_remote: 1 }),
        immdt: has(ExtHeader::ImmDt).then_some(immdt::Repr { imm: d }),
        ieth: has(ExtHeader::Ieth).then_some(ieth::Repr { rkey: key }),
    }
}

/// What a packet is made from: opcode, QP, PSN, numbers for its headers, length, choice of a key.
type Draft = (usize, u32, u32, [u32; 4], usize, usize);

fn draft() -> impl Strategy<Value = Draft> {
    let lens = prop_oneof![
        Just(0_usize),
        Just(1),
        Just(1023),
        Just(1024),
        Just(1025),
        0..4_200_usize
    ];
    let numbers = [number(), number(), number(), number()];
    (
        0..Opcode::ALL.len(),
        0..4_u32,
        number(),
        numbers,
        lens,
        0..3_usize,
    )
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 2_000,
        failure_persistence: None,
        rng_seed: RngSeed::Fixed(2),
        ..ProptestConfig::default()
    })]

    /// WIRE-16: what is no packet is nothing.
    #[test]
    fn bytes_that_are_no_packet(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        let (mut model, [open, shut]) = busy(hca_model::example_link());
        model.handle_packet(0, &bytes);
        prop_assert_eq!(model.memory().bytes(open).unwrap(), &[7; LEN][..]);
        prop_assert_eq!(model.memory().bytes(shut).unwrap(), &[9; LEN][..]);
        prop_assert_eq!(model.poll_completion(), None);
        let mut checker = checker(Framing::InfiniBand, common::ib_link());
        prop_assert!(checker.sent(0, &bytes).is_ok());
        checker.arrived(0, &bytes);
    }

    /// KEY-31: packets with right CRCs and everything else by chance.
    #[test]
    fn packets_of_the_mad(seed in 0..30_u64, drafts in proptest::collection::vec(draft(), 1..12)) {
        let link = draw_link(&mut common::Rng::new(seed));
        let framing = match link {
            Link::Ethernet { .. } => Framing::Ethernet,
            Link::InfiniBand { .. } => Framing::InfiniBand,
        };
        let (mut model, keys) = busy(link);
        let mut checker = checker(framing, link);
        for (opcode, qpn, psn, numbers, len, key) in drafts {
            let opcode = Opcode::ALL[opcode];
            let key = keys.get(key).copied().unwrap_or(3);
            let packet = Packet {
                count: 1,
                ack_req: numbers[0] & 2 != 0,
                ext: headers(opcode, numbers, key),
                payload: vec![1; len].into(),
                ..Packet::new(opcode, QPNS[0] + qpn, Psn::new(psn))
            };
            let frame = Frame { link: reply_link(&link), packet };
            let Some(bytes) = frame.emit() else { continue };
            model.handle_packet(0, &bytes);
            // Lawful or not, it has a verdict.
            let _ = checker.sent(0, &bytes);
            checker.arrived(0, &bytes);
        }
        work(&mut model);
        // SEND with invalidate may have taken it away.
        let shut = model.memory().bytes(keys[1]);
        prop_assert!(shut.is_none_or(|bytes| bytes == [9; LEN]));
    }
}
