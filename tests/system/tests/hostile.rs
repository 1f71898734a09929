//! A client that does everything wrong, on function 1, while function 0 of the same card keeps working (D15, SYS-7).
//! The card answers with an error event, an error status or not at all; it never hangs and never touches memory of
//! others.

mod common;

use std::rc::Rc;

use common::{LOCAL_AND_REMOTE, Pair};
use hca_abi::{
    AdminOpcode, AdminStatus, CreateQpCmd, DOORBELL_PAGE_OFFSET, ModifyQpCmd, RQ_DOORBELL_OFFSET,
    SQ_DOORBELL_OFFSET, SqDoorbell,
};
use hca_cosim::NUM_EQS;
use hca_dev::{Device, DmaBuf};
use hca_link::LinkKind;
use hca_system_tests::{Dev, Node, Rig, RigConfig, Rng, path};
use hca_verbs::{EventKind, Mtu, QpCap, QpState, VlArbTable, WcStatus};

fn pair() -> Pair {
    Pair::new(
        &RigConfig::new(13, LinkKind::Ethernet),
        &path(Mtu::Bytes1024),
        4096,
        [LOCAL_AND_REMOTE; 2],
    )
}

/// The next function of card 0.
fn hostile_node(rig: &Rig) -> Node {
    Node::open(rig.neighbour(0, 1), 64).unwrap()
}

fn ring_doorbell(dev: &Dev, offset: u32, qpn: u32, producer_index: u32) {
    let mut word = SqDoorbell::new();
    word.set_qpn(qpn);
    word.set_producer_index(producer_index);
    dev.mmio_write64(DOORBELL_PAGE_OFFSET + offset, word.to_word());
}

/// Doorbells of queues that do not exist, of other functions' queues, and of no queue at all.
#[test]
fn doorbells_of_nothing() {
    let mut pair = pair();
    let hostile = hostile_node(&pair.rig);
    let victim = pair.qps[0].qp_num();
    for qpn in [0, 1, 5, 1023, 1024, 0x80_0000, 0xff_ffff, victim] {
        for offset in [SQ_DOORBELL_OFFSET, RQ_DOORBELL_OFFSET] {
            ring_doorbell(&hostile.dev, offset, qpn, 7);
        }
    }
    for offset in (0..0x1000).step_by(8).skip(6) {
        hostile.dev.mmio_write64(DOORBELL_PAGE_OFFSET + offset, u64::MAX);
    }
    for word in [0, 0xffff_ffff_0000_0003, u64::MAX] {
        hostile.dev.mmio_write64(DOORBELL_PAGE_OFFSET + 0x10, word);
        hostile.dev.mmio_write64(DOORBELL_PAGE_OFFSET + 0x18, word);
    }
    pair.rig.run(20_000);
    pair.check_traffic("after doorbells of nothing");
    assert_eq!(pair.rig.nodes[0].context.poll_async_event(), None);
}

/// A QP of the hostile function whose rings are the test's own memory, connected to nobody.
struct RawQueue {
    qpn: u32,
    send: DmaBuf,
    recv: DmaBuf,
}

const LOG_SIZE: u8 = 4;
const RING_BYTES: usize = 64 << LOG_SIZE;

fn raw_queue(node: &Node) -> RawQueue {
    let (send, recv) = (node.alloc(RING_BYTES).unwrap(), node.alloc(RING_BYTES).unwrap());
    // A QP that the driver makes says which numbers the others have here.
    let model = node.create_qp(QpCap::default(), false).unwrap();
    let created = node.context.function().query_qp(model.qp_num()).unwrap();
    let mut cmd = CreateQpCmd::new();
    cmd.set_sq_log_size(LOG_SIZE);
    cmd.set_rq_log_size(LOG_SIZE);
    cmd.set_pd(created.pd());
    cmd.set_send_cqn(created.send_cqn());
    cmd.set_recv_cqn(created.recv_cqn());
    cmd.set_sq_base(send.iova());
    cmd.set_rq_base(recv.iova());
    cmd.set_async_eqn(async_eqn(node, &cmd));
    let qpn = node.context.function().create_qp(&cmd).unwrap();
    let bring_up = |state: QpState, mask: u32, mut attr: hca_abi::QpAttr| {
        attr.set_qp_state(state.into());
        let mut cmd = ModifyQpCmd::new();
        cmd.set_qpn(qpn);
        cmd.set_attr_mask(mask);
        cmd.set_attr(attr.0);
        node.context.function().modify_qp(&cmd).unwrap();
    };
    let options = path(Mtu::Bytes1024);
    let peer = hca_verbs::peer_info(&model, &options, 0).unwrap();
    let mut attr = hca_abi::QpAttr::new();
    attr.set_port_num(1);
    bring_up(QpState::Init, 0x39, attr);
    let mut ah = hca_abi::AhAttr::new();
    ah.set_port_num(1);
    ah.set_is_global(true);
    ah.set_sgid_index(1);
    ah.set_hop_limit(64);
    ah.set_dgid(peer.gid.unwrap());
    ah.set_dmac([2, 0x48, 0x43, 0, 0, 2]);
    let mut attr = hca_abi::QpAttr::new();
    attr.set_ah_attr(ah.0);
    attr.set_path_mtu(Mtu::Bytes1024.into());
    attr.set_dest_qp_num(1000);
    attr.set_max_dest_rd_atomic(1);
    attr.set_min_rnr_timer(1);
    bring_up(
        QpState::Rtr,
        1 | 1 << 7 | 1 << 8 | 1 << 20 | 1 << 12 | 1 << 17 | 1 << 15,
        attr,
    );
    let mut attr = hca_abi::QpAttr::new();
    attr.set_timeout(1);
    attr.set_max_rd_atomic(1);
    bring_up(
        QpState::Rts,
        1 | 1 << 16 | 1 << 9 | 1 << 10 | 1 << 11 | 1 << 13,
        attr,
    );
    RawQueue { qpn, send, recv }
}

/// The lowest event queue the card lets us name: the driver does not tell the number of its own.
fn async_eqn(node: &Node, cmd: &CreateQpCmd) -> u8 {
    let mut cmd = *cmd;
    let found = (0..NUM_EQS as u8).find(|eqn| {
        cmd.set_async_eqn(*eqn);
        let made = node.context.function().create_qp(&cmd);
        made.map(|qpn| node.context.function().destroy_qp(qpn).unwrap())
            .is_ok()
    });
    found.expect("the function has an event queue")
}

fn state(node: &Node, qpn: u32) -> QpState {
    let attr = hca_abi::QpAttr(node.context.function().query_qp(qpn).unwrap().attr());
    QpState::try_from(attr.qp_state()).unwrap()
}

/// Random WQEs: wrong indices, opcodes, lengths, keys. The QP fails, the card does not.
#[test]
fn garbage_in_the_rings() {
    let mut pair = pair();
    let hostile = hostile_node(&pair.rig);
    let mut rng = Rng::new(99, "garbage");
    for round in 0..12 {
        let queue = raw_queue(&hostile);
        queue.send.write_bytes(0, &rng.bytes(RING_BYTES));
        queue.recv.write_bytes(0, &rng.bytes(RING_BYTES));
        for slot in 0..1usize << LOG_SIZE {
            // Most rounds get past the first check: the index, then a known opcode, then a short list.
            if round % 4 > 0 {
                queue
                    .send
                    .write_bytes(slot * 64 + 12, &(slot as u16).to_le_bytes());
                queue
                    .recv
                    .write_bytes(slot * 64 + 8, &(slot as u16).to_le_bytes());
            }
            if round % 4 > 1 {
                queue.send.write_bytes(slot * 64, &[rng.below(11) as u8]);
            }
            if round % 4 > 2 {
                queue.send.write_bytes(slot * 64 + 2, &[rng.below(3) as u8]);
            }
        }
        ring_doorbell(&hostile.dev, RQ_DOORBELL_OFFSET, queue.qpn, 9);
        ring_doorbell(&hostile.dev, SQ_DOORBELL_OFFSET, queue.qpn, 9);
        pair.rig.run(200_000);
        assert_eq!(state(&hostile, queue.qpn), QpState::Err, "round {round}");
        pair.check_traffic(&format!("after garbage, round {round}"));
    }
}

/// A producer index further than the ring is long, and one that runs backwards.
#[test]
fn producer_index_beyond_the_ring() {
    let mut pair = pair();
    let hostile = hostile_node(&pair.rig);
    for (first, then) in [(17, 17), (0x8000, 0xffff), (3, 1), (16, 15), (0x1_0000, 0x1_ffff)] {
        let queue = raw_queue(&hostile);
        ring_doorbell(&hostile.dev, SQ_DOORBELL_OFFSET, queue.qpn, first);
        ring_doorbell(&hostile.dev, SQ_DOORBELL_OFFSET, queue.qpn, then);
        ring_doorbell(&hostile.dev, RQ_DOORBELL_OFFSET, queue.qpn, first);
        pair.rig.run(200_000);
        pair.check_traffic(&format!("after producer index {first}, then {then}"));
    }
}

/// Rings whose memory is gone: refused at creation, or found when the card reads.
#[test]
fn rings_at_unmapped_addresses() {
    let mut pair = pair();
    let hostile = hostile_node(&pair.rig);
    let queue = raw_queue(&hostile);
    let mut cmd = CreateQpCmd::new();
    let created = hostile.context.function().query_qp(queue.qpn).unwrap();
    cmd.set_pd(created.pd());
    cmd.set_send_cqn(created.send_cqn());
    cmd.set_recv_cqn(created.recv_cqn());
    cmd.set_sq_base(0xdead_0000_0000);
    cmd.set_rq_base(0xdead_0000_0000);
    assert!(
        hostile.context.function().create_qp(&cmd).is_err(),
        "a ring at an address that is not mapped"
    );
    // Memory that goes away later.
    hostile.dev.free_dma(queue.send).unwrap();
    hostile.dev.free_dma(queue.recv).unwrap();
    ring_doorbell(&hostile.dev, SQ_DOORBELL_OFFSET, queue.qpn, 4);
    pair.rig.run(200_000);
    assert_eq!(state(&hostile, queue.qpn), QpState::Err);
    pair.check_traffic("after a ring that is gone");
}

/// Random admin commands of every opcode: each gets a completion, and nothing of function 0 changes.
#[test]
fn garbage_admin_commands() {
    let mut pair = pair();
    let hostile = hostile_node(&pair.rig);
    let mut rng = Rng::new(77, "admin");
    let before = pair.qps[0].query().unwrap();
    let ports = |pair: &Pair| {
        let manager = &pair.rig.nodes[0].context;
        let gids: Vec<_> = (0..16)
            .map(|index| manager.query_gid(1, index).unwrap())
            .collect();
        let pkeys: Vec<_> = (0..32)
            .map(|index| manager.query_pkey(1, index).unwrap())
            .collect();
        let tables = [VlArbTable::High, VlArbTable::Low].map(|table| manager.vl_arb(1, table).unwrap());
        (
            manager.query_port(1).unwrap(),
            manager.link_status(1).unwrap(),
            gids,
            pkeys,
            tables,
        )
    };
    let ports_before = ports(&pair);
    for round in 0..400 {
        let opcode = if round < 300 {
            rng.below(64) as u8
        } else {
            rng.below(256) as u8
        };
        // It would end the hostile function's own event queues, which the driver still has.
        if opcode == u8::from(AdminOpcode::ResetFunc) {
            continue;
        }
        let mut body = rng.bytes(248);
        if round % 2 == 0 {
            // Small numbers name things that exist.
            body.iter_mut()
                .enumerate()
                .for_each(|(at, byte)| *byte = if at % 4 == 0 { *byte & 7 } else { 0 });
        }
        let cpl = hostile.context.function().issue_raw(opcode, &body).unwrap();
        assert!(
            AdminStatus::try_from(cpl.status()).is_ok(),
            "opcode {opcode}: status {}",
            cpl.status()
        );
        let expected = match AdminOpcode::try_from(opcode) {
            Err(_) => Some(AdminStatus::BadOpcode),
            Ok(known) => known.is_for_manager().then_some(AdminStatus::NotPermitted),
        };
        assert!(
            expected.is_none_or(|status| cpl.status() == u8::from(status)),
            "opcode {opcode}: status {}",
            cpl.status()
        );
    }
    assert_eq!(
        pair.qps[0].query().unwrap(),
        before,
        "function 0's QP has changed"
    );
    assert_eq!(ports(&pair), ports_before, "the port has changed");
    pair.check_traffic("after garbage commands");
}

/// KEY-28, D15: another function's keys are worth nothing, even with its virtual addresses.
#[test]
fn keys_of_another_function() {
    let mut pair = pair();
    let hostile = Rc::new(hostile_node(&pair.rig));
    let peer = Node::open(pair.rig.neighbour(1, 1), 64).unwrap();
    let mut qps = [
        hostile.create_qp(common::cap(), false).unwrap(),
        peer.create_qp(common::cap(), false).unwrap(),
    ];
    hca_system_tests::connect(&mut qps, &path(Mtu::Bytes1024)).unwrap();
    let stolen = [pair.mrs[0].sge(0, 64)];
    let wr = hca_verbs::SendWr {
        wr_id: 1,
        op: hca_verbs::SendOp::RdmaWrite {
            remote_addr: pair.mrs[1].addr(),
            rkey: pair.mrs[1].rkey(),
        },
        flags: hca_verbs::SendFlags::SIGNALED,
        data: hca_verbs::WrData::Sges(&stolen),
    };
    qps[0].post_send(&[wr]).unwrap();
    let wc = wait(&pair.rig, &hostile);
    assert_eq!(wc, WcStatus::LocProtErr, "a local key of another function");
    // With data of its own it still must not reach the other function's region.
    let mut qps = [
        hostile.create_qp(common::cap(), false).unwrap(),
        peer.create_qp(common::cap(), false).unwrap(),
    ];
    hca_system_tests::connect(&mut qps, &path(Mtu::Bytes1024)).unwrap();
    qps[0]
        .post_send(&[hca_verbs::SendWr {
            data: hca_verbs::WrData::Inline(b"stolen"),
            ..wr
        }])
        .unwrap();
    let wc = wait(&pair.rig, &hostile);
    assert_eq!(wc, WcStatus::RemAccessErr, "a remote key of another function");
    pair.check_memory("another function's keys");
    pair.check_traffic("after the theft");
    // Firmware tells of it, which may be slower than the completion.
    let end_ns = pair.rig.now_ns() + common::LIMIT_NS;
    let event = loop {
        match peer.context.poll_async_event() {
            Some(event) => break event.kind,
            None if pair.rig.now_ns() < end_ns => pair.rig.run(256),
            None => panic!("no event"),
        }
    };
    assert!(
        matches!(event, EventKind::CommEst | EventKind::QpAccessErr),
        "{event:?}"
    );
}

fn wait(rig: &Rig, node: &Node) -> WcStatus {
    let end_ns = rig.now_ns() + common::LIMIT_NS;
    loop {
        if let Some(wc) = node.poll().unwrap() {
            return wc.status;
        }
        assert!(rig.now_ns() < end_ns, "no completion");
    }
}
