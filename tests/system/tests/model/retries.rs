//! What is lost, late or not taken yet: how often and when it comes again, at the packets themselves.

use std::cell::RefCell;
use std::rc::Rc;

use super::common::BOTH_LINKS;
use super::duel::{CARD_VA, Duel, MODEL_VA, TARGET};
use hca_link::{FaultSpec, LinkKind};
use hca_model::{Manners, Op, QpState, ack_timeout_ns, rnr_wait_ns};
use hca_system_tests::opposite::{OppositeConfig, Seen, Way};
use hca_system_tests::path;
use hca_verbs::{ConnectOptions, Mtu, QpState as CardState, SendOp, Service, WcStatus};
use hca_wire::{NakCode, Operation, RnrTimer, Syndrome};

const MTU: u32 = 1024;
/// Between two looks of whoever passes over the timers.
const SLACK_NS: u64 = 20_000;

fn options() -> ConnectOptions {
    ConnectOptions {
        psns: (0xff_fffe, 0xff_ffff),
        ..path(Mtu::Bytes1024)
    }
}

fn duel(link: LinkKind, options: &ConnectOptions) -> Duel {
    Duel::new(&OppositeConfig::new(11, link), Service::Rc, options)
}

/// Times of the packets of one way that `is` says yes to.
fn times(log: &[Seen], way: Way, is: impl Fn(Operation) -> bool) -> Vec<u64> {
    let of_way = log.iter().filter(|seen| seen.way == way);
    let found = of_way.filter(|seen| seen.frame.packet.opcode.operation().is_some_and(&is));
    found.map(|seen| seen.ns).collect()
}

fn gaps(times: &[u64]) -> Vec<u64> {
    times.windows(2).map(|pair| pair[1] - pair[0]).collect()
}

/// REL-3, REL-6, REL-9, REL-18, STAT 12: without an answer the card sends a packet `retry_cnt` more times, each
/// after its timeout and not later than four times that (IBA vol1 9.7.6.1.3), and then gives up.
#[test]
fn a_silent_peer_exhausts_the_retries() {
    for (link, retry_cnt, timeout) in [
        (LinkKind::Ethernet, 0, 3),
        (LinkKind::Ethernet, 7, 3),
        (LinkKind::InfiniBand, 3, 5),
    ] {
        let options = ConnectOptions {
            retry_cnt,
            timeout,
            ..options()
        };
        let mut duel = duel(link, &options);
        let model = duel.opposite.model.clone();
        model.keep_log();
        model.set_filter(|way, _| way == Way::Out);
        let (remote_addr, rkey) = (MODEL_VA, duel.key);
        duel.post(1, SendOp::RdmaWrite { remote_addr, rkey }, 0, 100);
        let wc = duel.wait();
        assert_eq!((wc.wr_id, wc.status), (1, WcStatus::RetryExcErr));
        assert_eq!(duel.qp.query().unwrap().qp_state, CardState::Err);
        let sent = times(&model.take_log(), Way::In, Operation::is_write);
        assert_eq!(sent.len(), usize::from(retry_cnt) + 1, "{link:?}");
        let limit = ack_timeout_ns(timeout).unwrap();
        for gap in gaps(&sent) {
            assert!(
                (limit..4 * limit + SLACK_NS).contains(&gap),
                "{gap} ns for {limit}"
            );
        }
    }
}

/// REL-3, REL-4, QPS-4: the same the other way round: a card's QP in ERR says nothing.
#[test]
fn a_card_in_error_is_silent() {
    let mut duel = duel(
        LinkKind::Ethernet,
        &ConnectOptions {
            timeout: 2,
            retry_cnt: 2,
            ..options()
        },
    );
    duel.qp.modify_state(CardState::Err).unwrap();
    let model = duel.opposite.model.clone();
    model.keep_log();
    let op = Op::Write {
        va: CARD_VA,
        rkey: duel.mr.rkey(),
        imm: None,
    };
    duel.model_post(1, op, 0, 100);
    assert_eq!(duel.model_wait().status, WcStatus::RetryExcErr);
    let log = model.take_log();
    assert_eq!(times(&log, Way::Out, Operation::is_write).len(), 3);
    assert!(log.iter().all(|seen| seen.way == Way::Out), "it has answered");
    assert_eq!(model.with(|model| model.state(duel.qpn)), Ok(QpState::Err));
}

/// REL-8, REL-10, REL-11, REL-18: the card waits as long as the NAK says, asks `rnr_retry` times, gives up.
#[test]
fn the_card_waits_as_long_as_the_rnr_nak_says() {
    for (rnr_retry, timer) in [(0, 1), (3, 6), (6, 12)] {
        let options = ConnectOptions {
            rnr_retry,
            min_rnr_timer: timer,
            timeout: 8,
            ..options()
        };
        let mut duel = duel(LinkKind::Ethernet, &options);
        let model = duel.opposite.model.clone();
        model.keep_log();
        duel.post(1, SendOp::Send, 0, 3 * MTU);
        assert_eq!(duel.wait().status, WcStatus::RnrRetryExcErr);
        let log = model.take_log();
        let asked = times(&log, Way::In, Operation::is_first);
        let told = times(&log, Way::Out, |operation| operation == Operation::Acknowledge);
        assert_eq!(
            (asked.len(), told.len()),
            (usize::from(rnr_retry) + 1, usize::from(rnr_retry) + 1)
        );
        let limit = rnr_wait_ns(RnrTimer::new(timer));
        for (told, asked) in told.iter().zip(&asked[1..]) {
            let waited = asked - told;
            assert!(
                (limit..2 * limit + SLACK_NS).contains(&waited),
                "{waited} ns for {limit}"
            );
        }
    }
}

/// REL-8: seven is without end, and a receive that comes at last is enough; both roles.
#[test]
fn a_late_receive_is_not_too_late() {
    for link in BOTH_LINKS {
        let mut duel = duel(link, &options());
        duel.post(1, SendOp::Send, 0, 2 * MTU + 1);
        duel.model_post(2, Op::SEND, 0, 2 * MTU + 1);
        duel.opposite.run(60_000);
        duel.model_recv(3, TARGET, 2 * MTU + 1);
        duel.recv(4, TARGET, 2 * MTU + 1);
        duel.reaches_model(0, TARGET, 2 * MTU + 1);
        duel.reaches_card(0, TARGET, 2 * MTU + 1);
        let mut card = [duel.wait(), duel.wait()];
        card.sort_by_key(|wc| wc.wr_id);
        assert_eq!(
            card.map(|wc| (wc.wr_id, wc.status)),
            [1, 4].map(|id| (id, WcStatus::Success))
        );
        let mut model = [duel.model_wait(), duel.model_wait()];
        model.sort_by_key(|wc| wc.wr_id);
        assert_eq!(
            model.map(|wc| (wc.wr_id, wc.status)),
            [2, 3].map(|id| (id, WcStatus::Success))
        );
        duel.check_memory("late receives");
    }
}

/// Bytes of the long messages of [`post_all`].
const LEN: u32 = 4 * MTU + 100;

/// Where message `index` of [`post_all`] comes from, and where it goes.
fn places(index: u64) -> (u64, u64) {
    (index * 6_000, TARGET + index * 6_000)
}

/// A message of every kind in one direction, five packets each, and a short one; receives are there.
fn post_all(duel: &mut Duel, from_card: bool) {
    for (wr_id, len) in [(10, LEN), (11, 0)] {
        let (_, target) = places(wr_id - 10);
        if from_card {
            duel.model_recv(wr_id, target, len);
        } else {
            duel.recv(wr_id, target, len);
        }
    }
    for (index, len) in [(0, LEN), (1, LEN), (2, LEN), (3, 9)] {
        let (from, to) = places(index);
        // READ, the third one, goes the other way.
        if from_card == (index != 2) {
            duel.reaches_model(from, to, len);
        } else {
            duel.reaches_card(from, to, len);
        }
        if from_card {
            post_from_card(duel, index, len);
        } else {
            post_from_model(duel, index, len);
        }
    }
}

fn post_from_card(duel: &mut Duel, index: u64, len: u32) {
    let ((from, to), rkey) = (places(index), duel.key);
    let remote_addr = MODEL_VA + to;
    let (op, here) = match index {
        0 => (SendOp::Send, from),
        1 => {
            let imm_data = 5;
            let op = SendOp::RdmaWriteWithImm {
                remote_addr,
                rkey,
                imm_data,
            };
            (op, from)
        }
        2 => {
            let remote_addr = MODEL_VA + from;
            (SendOp::RdmaRead { remote_addr, rkey }, to)
        }
        _ => (SendOp::RdmaWrite { remote_addr, rkey }, from),
    };
    duel.post(index + 1, op, here, len);
}

fn post_from_model(duel: &Duel, index: u64, len: u32) {
    let ((from, to), rkey) = (places(index), duel.mr.rkey());
    let write = |imm| Op::Write {
        va: CARD_VA + to,
        rkey,
        imm,
    };
    let (op, here) = match index {
        0 => (Op::SEND, from),
        1 => (write(Some(5)), from),
        2 => {
            let va = CARD_VA + from;
            (Op::Read { va, rkey }, to)
        }
        _ => (write(None), from),
    };
    duel.model_post(index + 1, op, here, len);
}

/// Everything that [`post_all`] has begun ends well, in order, once.
fn all_is_well(duel: &mut Duel, from_card: bool, what: &str) {
    for wr_id in 1..=4 {
        if from_card {
            duel.wait_ok(wr_id);
        } else {
            duel.model_ok(wr_id);
        }
    }
    for wr_id in [10, 11] {
        if from_card {
            duel.model_ok(wr_id);
        } else {
            duel.wait_ok(wr_id);
        }
    }
    duel.opposite.run(30_000);
    assert!(
        duel.opposite.node.poll_ready().unwrap().is_none() && duel.opposite.model.poll().is_none(),
        "{what}"
    );
    duel.check_memory(what);
}

/// REL-1, REL-3, REL-16, REL-19: each packet in turn is lost once, requests, acknowledges and READ data, in both roles.
#[test]
fn any_packet_may_be_lost() {
    for (from_card, way) in [
        (true, Way::In),
        (true, Way::Out),
        (false, Way::In),
        (false, Way::Out),
    ] {
        for lost in 0..20 {
            let link = BOTH_LINKS[lost % 2];
            let mut duel = duel(link, &options());
            let mut number = 0;
            duel.opposite.model.set_filter(move |found, _| {
                number += usize::from(found == way);
                !(found == way && number == lost + 1)
            });
            post_all(&mut duel, from_card);
            all_is_well(
                &mut duel,
                from_card,
                &format!("{way:?} packet {lost} lost, from the card: {from_card}"),
            );
        }
    }
}

/// REL-19, WIRE-17: every packet comes twice, or many change places; nothing is carried out twice.
#[test]
fn copies_and_disorder_change_nothing() {
    let faults = [
        FaultSpec {
            dup: 1.0,
            ..FaultSpec::default()
        },
        FaultSpec {
            reorder: 0.3,
            ..FaultSpec::default()
        },
        FaultSpec {
            reorder: 0.2,
            dup: 0.3,
            ..FaultSpec::default()
        },
    ];
    for (index, faults) in faults.into_iter().enumerate() {
        for (link, from_card) in BOTH_LINKS
            .into_iter()
            .flat_map(|link| [(link, true), (link, false)])
        {
            let config = OppositeConfig {
                faults,
                ..OppositeConfig::new(20 + index as u64, link)
            };
            let mut duel = Duel::new(&config, Service::Rc, &options());
            post_all(&mut duel, from_card);
            all_is_well(
                &mut duel,
                from_card,
                &format!("{faults}, {link:?}, from the card: {from_card}"),
            );
        }
    }
}

/// What the specification leaves free: a peer that acknowledges everything, or late and rarely, or asks always, or
/// sends one packet at a time.
#[test]
fn any_manners_will_do() {
    let usual = Manners::default();
    let all = [
        Manners {
            ack_all: true,
            ..usual
        },
        Manners {
            ack_delay_ns: 20_000,
            ..usual
        },
        Manners {
            ask_every: 1,
            ..usual
        },
        Manners { window: 1, ..usual },
        Manners {
            window: 3,
            ask_every: 100,
            ack_delay_ns: 3_000,
            ..usual
        },
    ];
    for manners in all {
        for from_card in [true, false] {
            let config = OppositeConfig::new(3, LinkKind::Ethernet);
            let mut duel = Duel::with(&config, Service::Rc, &options(), |config| {
                config.manners = manners
            });
            post_all(&mut duel, from_card);
            all_is_well(
                &mut duel,
                from_card,
                &format!("{manners:?}, from the card: {from_card}"),
            );
        }
    }
}

/// OP-23: as many READs are outstanding as were agreed on, and no more.
#[test]
fn as_many_reads_as_agreed_are_outstanding() {
    for depth in [1, 2, 4, 16] {
        let options = ConnectOptions {
            rd_atomic: depth,
            ..options()
        };
        let mut duel = duel(LinkKind::Ethernet, &options);
        let model = duel.opposite.model.clone();
        model.keep_log();
        let (remote_addr, rkey) = (MODEL_VA, duel.key);
        for wr_id in 0..24 {
            let landing = TARGET + wr_id * 2_000;
            duel.reaches_card(0, landing, MTU + 7);
            duel.post(wr_id, SendOp::RdmaRead { remote_addr, rkey }, landing, MTU + 7);
        }
        for wr_id in 0..24 {
            duel.wait_ok(wr_id);
        }
        duel.check_memory("READs");
        let (mut outstanding, mut most) = (0_i32, 0);
        for seen in model.take_log() {
            let operation = seen.frame.packet.opcode.operation().unwrap();
            outstanding += i32::from(operation == Operation::ReadRequest);
            outstanding -= i32::from(operation == Operation::ReadResponseLast);
            most = most.max(outstanding);
        }
        let depth = i32::from(depth);
        assert!((depth.min(2)..=depth).contains(&most), "{most} of {depth}");
    }
}

/// REL-19, REL-18: a READ request comes twice while the data of an earlier READ is on its way. With no retry to spend,
/// nothing may be lost by that.
#[test]
fn a_copied_read_request_takes_nothing_away() {
    let options = ConnectOptions {
        retry_cnt: 0,
        ..path(Mtu::Bytes256)
    };
    let mut duel = duel(LinkKind::Ethernet, &options);
    let copy = Rc::new(RefCell::new(None));
    let seen = copy.clone();
    duel.opposite.model.set_filter(move |way, frame| {
        if way == Way::Out && frame.packet.opcode.operation() == Some(Operation::ReadRequest) {
            *seen.borrow_mut() = frame.emit();
        }
        true
    });
    let rkey = duel.mr.rkey();
    let lens = [40_000, 100];
    for (wr_id, len) in (0..).zip(lens) {
        duel.reaches_model(0, TARGET + 50_000 * wr_id, len);
        duel.model_post(
            wr_id,
            Op::Read { va: CARD_VA, rkey },
            TARGET + 50_000 * wr_id,
            len,
        );
    }
    duel.opposite.run(300);
    let second = copy.borrow_mut().take().unwrap();
    let mut fabric = duel.opposite.sim.fabric();
    let now = fabric.now();
    // From the model at end B.
    let cable = fabric.cable_mut(duel.opposite.cable);
    cable.push_packet(hca_link::Dir::BToA, now, &second).unwrap();
    drop(fabric);
    duel.model_ok(0);
    duel.model_ok(1);
    duel.check_memory("a copy of the second READ");
}

/// REL-16, X-3: a gap is told once, with the PSN that is missing and the messages that are complete.
#[test]
fn a_gap_is_told_once() {
    for link in BOTH_LINKS {
        let mut duel = duel(link, &options());
        let model = duel.opposite.model.clone();
        model.keep_log();
        let mut number = 0;
        model.set_filter(move |way, _| {
            number += u32::from(way == Way::Out);
            !(way == Way::Out && number == 3)
        });
        let rkey = duel.mr.rkey();
        let write = |va| Op::Write { va, rkey, imm: None };
        duel.reaches_card(0, TARGET, 100);
        duel.reaches_card(0, TARGET + 200, 20 * MTU);
        duel.model_post(1, write(CARD_VA + TARGET), 0, 100);
        duel.model_post(2, write(CARD_VA + TARGET + 200), 0, 20 * MTU);
        duel.model_ok(1);
        duel.model_ok(2);
        duel.check_memory("behind a gap");
        let naks: Vec<_> = model
            .take_log()
            .into_iter()
            .filter(|seen| seen.way == Way::In)
            .map(|seen| (seen.frame.packet.psn.get(), seen.frame.packet.ext.aeth.unwrap()))
            .filter(|(_, aeth)| Syndrome::from_byte(aeth.syndrome) == Syndrome::Nak(NakCode::PsnSequence))
            .map(|(psn, aeth)| (psn, aeth.msn))
            .collect();
        // PSNs: 0xffffff is the first message, 0 the FIRST of the second, 1 is lost.
        assert_eq!(naks, [(1, 1)], "{link:?}");
    }
}
