//! Every kind of message over a clean cable: sizes around the MTU, lists, inline, flags.

mod common;

use common::{ALL_MTUS, BOTH_LINKS, CANARY_BYTES, LOCAL_AND_REMOTE, Pair, cap};
use hca_link::LinkKind;
use hca_system_tests::{RigConfig, path};
use hca_verbs::{
    Access, ConnectOptions, CqOptions, Mtu, QpOptions, RecvWr, SendFlags, SendOp, SendWr, Sge, WcOpcode,
    WrData, connect_raw, peer_info, wc_flag,
};

const REGION_BYTES: u64 = 64 << 10;
/// Where targets start; sources start at 0.
const TARGET: u64 = 32 << 10;

fn pair(link: LinkKind, options: &ConnectOptions) -> Pair {
    Pair::new(
        &RigConfig::new(1, link),
        options,
        REGION_BYTES,
        [LOCAL_AND_REMOTE; 2],
    )
}

/// One message of each kind from node 0 to node 1, at odd addresses.
fn all_operations(pair: &mut Pair, len: u32, what: &str) {
    let imm_data = 0x0102_0304;
    let (from, to) = (u64::from(len % 7), TARGET + u64::from(len % 13));
    let bytes = pair.expected(0, from, len);
    let source = [pair.mrs[0].sge(from, len)];

    // OP-3: the peer is not told.
    pair.expect(1, to, &bytes);
    pair.post(0, 1, pair.write_to(1, to), &source);
    assert_eq!(pair.wait_ok(0, 1).opcode, WcOpcode::RdmaWrite, "{what}");

    // OP-1, OP-2: placement by the receiver; immediate data as a number.
    let target = [pair.mrs[1].sge(to + 8192, len)];
    pair.expect(1, to + 8192, &bytes);
    pair.recv(1, 10, &target);
    pair.post(0, 2, SendOp::SendWithImm { imm_data }, &source);
    assert_eq!(pair.wait_ok(0, 2).opcode, WcOpcode::Send, "{what}");
    let wc = pair.wait_ok(1, 10);
    assert_eq!(
        (wc.opcode, wc.byte_len, wc.imm_data),
        (WcOpcode::Recv, len, imm_data),
        "{what}"
    );
    assert_eq!(wc.wc_flags & wc_flag::WITH_IMM, wc_flag::WITH_IMM, "{what}");

    // OP-4: a receive is consumed, its buffers stay as they are.
    let untouched = [pair.mrs[1].sge(0, 16)];
    pair.recv(1, 11, &untouched);
    pair.expect(1, to + 16384, &bytes);
    let (remote_addr, rkey) = pair.remote(1, to + 16384);
    pair.post(
        0,
        3,
        SendOp::RdmaWriteWithImm {
            remote_addr,
            rkey,
            imm_data,
        },
        &source,
    );
    pair.wait_ok(0, 3);
    let wc = pair.wait_ok(1, 11);
    assert_eq!(
        (wc.opcode, wc.byte_len, wc.imm_data),
        (WcOpcode::RecvRdmaWithImm, len, imm_data),
        "{what}"
    );

    // OP-5: the peer's bytes come here.
    let bytes = pair.expected(1, from, len);
    pair.expect(0, to, &bytes);
    let landing = [pair.mrs[0].sge(to, len)];
    pair.post(0, 4, pair.read_from(1, from), &landing);
    let wc = pair.wait_ok(0, 4);
    assert_eq!((wc.opcode, wc.byte_len), (WcOpcode::RdmaRead, len), "{what}");
    pair.check_memory(what);
}

/// WIRE-10, WIRE-13, SYS-9: segmentation at every MTU, on both links (SYS-3), IPv4 and IPv6, with GRH and without.
#[test]
fn every_operation_at_every_mtu_around_the_packet_boundary() {
    for link in BOTH_LINKS {
        for (index, (mtu, mtu_bytes)) in ALL_MTUS.into_iter().enumerate() {
            let gid_index = match (link, index % 2) {
                (LinkKind::Ethernet, even) => Some(1 - even as u8),
                (LinkKind::InfiniBand, 0) => None,
                (LinkKind::InfiniBand, _) => Some(0),
            };
            let mut pair = pair(
                link,
                &ConnectOptions {
                    gid_index,
                    ..path(mtu)
                },
            );
            for len in [0, 1, mtu_bytes - 1, mtu_bytes, mtu_bytes + 1] {
                all_operations(&mut pair, len, &format!("{link:?}, MTU {mtu_bytes}, {len} bytes"));
            }
            pair.rig.check_idle(1_000_000).unwrap();
        }
    }
}

/// V-30 max_sge: 16 entries on both sides, cut at different places, empty ones among them.
#[test]
fn sixteen_pieces_gathered_and_scattered() {
    let mut pair = pair(LinkKind::Ethernet, &path(Mtu::Bytes1024));
    let lens = [1, 64, 0, 63, 65, 128, 7, 300, 1, 1, 0, 511, 1024, 2, 33, 90];
    let total = lens.iter().sum::<u32>();
    let (mut source, mut target, mut bytes) = (Vec::<Sge>::new(), Vec::<Sge>::new(), Vec::new());
    let (mut from, mut to) = (3, TARGET + 5);
    for len in lens {
        source.push(pair.mrs[0].sge(from, len));
        bytes.extend(pair.expected(0, from, len));
        from += u64::from(len) + 11;
    }
    let mut done = 0;
    for len in lens.into_iter().rev() {
        target.push(pair.mrs[1].sge(to, len));
        pair.expect(1, to, &bytes[done as usize..(done + len) as usize]);
        (to, done) = (to + u64::from(len) + 9, done + len);
    }
    pair.recv(1, 1, &target);
    pair.post(0, 2, SendOp::Send, &source);
    pair.wait_ok(0, 2);
    assert_eq!(pair.wait_ok(1, 1).byte_len, total);
    // The same lists for WRITE and READ.
    pair.expect(1, 0x4000, &bytes);
    pair.post(0, 3, pair.write_to(1, 0x4000), &source);
    pair.wait_ok(0, 3);
    let there = pair.expected(1, 0x100, total);
    let mut at = 0;
    for sge in &source {
        let offset = sge.addr - pair.mrs[0].addr();
        pair.expect(0, offset, &there[at..at + sge.length as usize]);
        at += sge.length as usize;
    }
    pair.post(0, 4, pair.read_from(1, 0x100), &source);
    pair.wait_ok(0, 4);
    pair.check_memory("16 pieces");
}

/// OP-15, KEY-32: inline data is taken at post and needs no key; every length up to the ring's limit.
#[test]
fn inline_data_of_every_length() {
    let mut pair = pair(LinkKind::InfiniBand, &path(Mtu::Bytes256));
    let limit = pair.qps[0].cap().max_inline_data;
    for len in (0..=limit).step_by(5).chain([limit - 1, limit]) {
        let mut bytes = (0..len).map(|i| (i * 7 + len) as u8).collect::<Vec<_>>();
        let to = TARGET + u64::from(len);
        pair.expect(1, to, &bytes);
        pair.post_with(
            0,
            u64::from(len),
            pair.write_to(1, to),
            SendFlags::SIGNALED,
            WrData::Inline(&bytes),
        );
        bytes.fill(0xee);
        pair.wait_ok(0, len.into());
        pair.check_memory(&format!("{len} bytes inline"));
    }
}

/// V-112, OP-20: with selective signalling a completion stands for all earlier ones, and there are no others.
#[test]
fn only_signaled_requests_complete() {
    let mut pair = pair(LinkKind::Ethernet, &path(Mtu::Bytes1024));
    for round in 0..3 {
        for index in 0..32u64 {
            let bytes = pair.expected(0, index, 100);
            let to = TARGET + index * 128;
            pair.expect(1, to, &bytes);
            let sges = [pair.mrs[0].sge(index, 100)];
            let flags = SendFlags {
                signaled: index % 8 == 7,
                ..SendFlags::default()
            };
            pair.post_with(
                0,
                round * 100 + index,
                pair.write_to(1, to),
                flags,
                WrData::Sges(&sges),
            );
        }
        for index in [7, 15, 23, 31] {
            pair.wait_ok(0, round * 100 + index);
        }
        pair.silent(0, 20_000);
        pair.check_memory("selective signalling");
    }
}

/// OP-13, OP-14: a fenced SEND of a READ's landing buffer carries what the READ has brought.
#[test]
fn fence_waits_for_earlier_reads() {
    const LEN: u32 = 12_000;
    let mut pair = pair(LinkKind::Ethernet, &path(Mtu::Bytes256));
    let bytes = pair.expected(1, 50, LEN);
    pair.expect(0, TARGET, &bytes);
    pair.expect(1, TARGET, &bytes);
    let landing = [pair.mrs[0].sge(TARGET, LEN)];
    let target = [pair.mrs[1].sge(TARGET, LEN)];
    pair.recv(1, 9, &target);
    let read = SendWr {
        wr_id: 1,
        op: pair.read_from(1, 50),
        flags: SendFlags::SIGNALED,
        data: WrData::Sges(&landing),
    };
    let flags = SendFlags {
        fence: true,
        ..SendFlags::SIGNALED
    };
    let send = SendWr {
        wr_id: 2,
        op: SendOp::Send,
        flags,
        data: WrData::Sges(&landing),
    };
    pair.qps[0].post_send(&[read, send]).unwrap();
    pair.wait_ok(0, 1);
    pair.wait_ok(0, 2);
    pair.wait_ok(1, 9);
    pair.check_memory("fence");
}

/// OP-16, V-67: a CQ armed for solicited completions raises one event, for the solicited SEND only.
#[test]
fn solicited_events_come_once_and_only_when_asked_for() {
    let mut pair = pair(LinkKind::Ethernet, &path(Mtu::Bytes1024));
    let options = path(Mtu::Bytes1024);
    let node = &pair.rig.nodes[1];
    let channel = node.context.create_comp_channel();
    let cq = node
        .context
        .create_cq(&CqOptions::with_channel(64, &channel))
        .unwrap();
    let mut there = node
        .pd
        .create_raw_qp(&QpOptions {
            cap: cap(),
            ..QpOptions::new(&cq, &cq)
        })
        .unwrap();
    let mut here = pair.rig.nodes[0].create_qp(cap(), false).unwrap();
    let infos = [
        peer_info(&here, &options, 0).unwrap(),
        peer_info(&there, &options, 0).unwrap(),
    ];
    connect_raw(&mut here, &options, 0, &infos[1]).unwrap();
    connect_raw(&mut there, &options, 0, &infos[0]).unwrap();
    let empty: [Sge; 0] = [];
    for wr_id in 0..4 {
        there.post_recv(&[RecvWr { wr_id, sges: &empty }]).unwrap();
    }
    cq.req_notify(true).unwrap();
    let mut send = |pair: &Pair, wr_id, solicited| {
        let flags = SendFlags {
            solicited,
            ..SendFlags::SIGNALED
        };
        here.post_send(&[SendWr {
            wr_id,
            op: SendOp::Send,
            flags,
            data: WrData::Sges(&empty),
        }])
        .unwrap();
        pair.wait_ok(0, wr_id);
    };
    send(&pair, 0, false);
    pair.rig.run(10_000);
    assert_eq!(channel.poll_event(), None, "an unsolicited SEND raised an event");
    send(&pair, 1, true);
    pair.rig.run(10_000);
    assert_eq!(
        channel.poll_event(),
        Some(cq.cqn()),
        "the solicited SEND raised no event"
    );
    send(&pair, 2, true);
    pair.rig.run(10_000);
    assert_eq!(channel.poll_event(), None, "an event without being armed again");
    cq.req_notify(false).unwrap();
    pair.rig.run(1_000);
    send(&pair, 3, false);
    pair.rig.run(10_000);
    assert_eq!(
        channel.poll_event(),
        Some(cq.cqn()),
        "no event at the next completion"
    );
    let mut wcs = [Default::default(); 4];
    cq.poll_all(&mut wcs, pair.rig.now_ns() + common::LIMIT_NS)
        .unwrap();
    assert!(
        wcs.iter()
            .enumerate()
            .all(|(index, wc)| wc.is_ok() && wc.wr_id == index as u64),
        "{wcs:?}"
    );
}

/// KEY-31: reading needs no right to write, and a region without remote rights still serves its owner.
#[test]
fn rights_are_enough_when_they_are_just_enough() {
    let rights = [Access::LOCAL_WRITE, Access::REMOTE_READ];
    let mut pair = Pair::new(
        &RigConfig::new(1, LinkKind::Ethernet),
        &path(Mtu::Bytes1024),
        REGION_BYTES,
        rights,
    );
    let bytes = pair.expected(1, REGION_BYTES - 5000, 5000);
    pair.expect(0, 0, &bytes);
    let landing = [pair.mrs[0].sge(0, 5000)];
    pair.post(0, 1, pair.read_from(1, REGION_BYTES - 5000), &landing);
    pair.wait_ok(0, 1);
    pair.check_memory("READ up to the last byte");
}

/// MEM-21: buffers of a work request belong to the card until it completes. A source that its program changes meanwhile
/// arrives in old and new bytes, whole for each byte; a target holds old and new bytes meanwhile. With the completions
/// both are the program's again: the target is what arrived, whatever becomes of the source.
#[test]
fn mem_21_buffers_are_the_cards_until_the_completion() {
    // Longer by far than what is on its way when the first bytes arrive.
    const LEN: u32 = 256 << 10;
    const TARGET: u64 = LEN as u64;
    const NEW: u8 = 0xa5;
    for link in BOTH_LINKS {
        let config = RigConfig::new(1, link);
        let mut pair = Pair::new(&config, &path(Mtu::Bytes1024), 2 * TARGET, [LOCAL_AND_REMOTE; 2]);
        let old = pair.expected(0, 0, LEN);
        let before = pair.expected(1, TARGET, LEN);
        let (from, to) = ([pair.mrs[0].sge(0, LEN)], [pair.mrs[1].sge(TARGET, LEN)]);
        pair.recv(1, 1, &to);
        pair.post(0, 2, SendOp::Send, &from);
        let at = CANARY_BYTES as usize;
        let (mut found, mut both) = (vec![0; LEN as usize], false);
        // Until the first bytes are there, and then some.
        while found[..64] != old[..64] {
            pair.rig.run(50);
            pair.memory[1].buf().read_bytes(at + TARGET as usize, &mut found);
            let of_either = found.iter().zip(old.iter().zip(&before));
            assert!(
                of_either
                    .clone()
                    .all(|(byte, (new, old))| byte == new || byte == old),
                "{link:?}"
            );
            both |= found[..64] == old[..64] && found[LEN as usize - 64..] == before[LEN as usize - 64..];
        }
        assert!(both, "{link:?}: nothing was to be seen in between");
        pair.memory[0].buf().fill(at, LEN as usize, NEW);
        pair.expect(0, 0, &[NEW; LEN as usize]);
        pair.wait_ok(0, 2);
        assert_eq!(pair.wait_ok(1, 1).byte_len, LEN);
        pair.memory[1].buf().read_bytes(at + TARGET as usize, &mut found);
        assert!(
            found
                .iter()
                .zip(&old)
                .all(|(byte, old)| byte == old || *byte == NEW),
            "{link:?}"
        );
        assert_eq!(found[..64], old[..64], "{link:?}: taken before the change");
        assert_eq!(found.last(), Some(&NEW), "{link:?}: taken after the change");
        pair.memory[0].buf().fill(at, LEN as usize, 0);
        pair.expect(0, 0, &[0; LEN as usize]);
        pair.expect(1, TARGET, &found);
        pair.rig.check_idle(1_000_000).unwrap();
        pair.check_memory("after the completions");
    }
}
