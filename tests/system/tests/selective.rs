//! Selective repeat between two cards: WRITEs pass one another where packets are lost, and so does the data of READs;
//! nothing else does (REL-1, REL-16, REL-19; decisions 0066, 0071).

mod common;

use common::{BOTH_LINKS, LOCAL_AND_REMOTE, Pair, cap};
use hca_link::{FaultSpec, LinkKind};
use hca_system_tests::scenario::{Options, run};
use hca_system_tests::{RigConfig, path};
use hca_verbs::{Access, ConnectOptions, Mtu, QpAttrMask, SendOp, WcStatus};

fn selective(mtu: Mtu) -> ConnectOptions {
    ConnectOptions {
        selective_repeat: true,
        ..path(mtu)
    }
}

fn faults(text: &str) -> FaultSpec {
    text.parse().unwrap()
}

/// Messages of every kind and size over cables that lose, double and reorder much: every byte, every completion once
/// and in order, and every packet judged by the reference model.
fn under(text: &str, seeds: std::ops::Range<u64>) {
    for seed in seeds {
        let options = Options {
            faults: Some(faults(text)),
            selective: Some(true),
            ..Options::default()
        };
        if let Err(failure) = run(seed, &options) {
            panic!("{failure}");
        }
    }
}

#[test]
fn messages_of_all_kinds_over_a_cable_that_loses_packets() {
    under("loss=0.03", 1..9);
}

#[test]
fn messages_of_all_kinds_over_a_cable_that_does_everything() {
    under("loss=0.02,dup=0.02,reorder=0.05,corrupt=0.01", 9..17);
}

/// Nanoseconds that 64 KiB WRITEs or READs of one QP take, 16 at a time.
fn time_of(seed: u64, loss: f64, reads: bool) -> u64 {
    const COUNT: u64 = 150;
    const BYTES: u32 = 64 << 10;
    let config = RigConfig {
        faults: FaultSpec {
            loss,
            ..FaultSpec::default()
        },
        ..RigConfig::new(seed, LinkKind::Ethernet)
    };
    let options = selective(Mtu::Bytes4096);
    let mut pair = Pair::new(&config, &options, BYTES.into(), [LOCAL_AND_REMOTE; 2]);
    let (from, to) = if reads { (1, 0) } else { (0, 1) };
    let bytes = pair.expected(from, 0, BYTES);
    pair.expect(to, 0, &bytes);
    let sges = [pair.mrs[0].sge(0, BYTES)];
    let start = pair.rig.now_ns();
    for wr_id in 0..COUNT + 16 {
        if wr_id >= 16 {
            pair.wait_ok(0, wr_id - 16);
        }
        if wr_id < COUNT {
            let op = if reads {
                pair.read_from(1, 0)
            } else {
                pair.write_to(1, 0)
            };
            pair.post(0, wr_id, op, &sges);
        }
    }
    pair.check_memory("WRITEs, READs");
    pair.rig.now_ns() - start
}

/// One packet in a hundred is lost: nine tenths of the goodput must be left.
#[test]
fn a_lost_packet_costs_little_more_than_itself() {
    for reads in [false, true] {
        let whole = time_of(1, 0.0, reads);
        let lossy: u64 = (1..4).map(|seed| time_of(seed, 0.01, reads)).sum();
        let left = 300 * whole / lossy;
        println!("{left} % left, READs: {reads}");
        assert!(left >= 90, "{left} % of the goodput is left, READs: {reads}");
    }
}

/// READs to one place, each posted when the one before it has completed, over a cable that loses much: what was asked
/// for again and comes late is never written over the data of the next READ.
#[test]
fn nothing_of_a_read_is_written_behind_its_completion() {
    const BYTES: u32 = 3_000;
    for (seed, link) in (1..9).zip(BOTH_LINKS.into_iter().cycle()) {
        let config = RigConfig {
            faults: faults("loss=0.1,fc_loss=0"),
            ..RigConfig::new(seed, link)
        };
        let room = u64::from(BYTES) * 4;
        let mut pair = Pair::new(&config, &selective(Mtu::Bytes256), room, [LOCAL_AND_REMOTE; 2]);
        for round in 0..24_u64 {
            let (source, place) = (u64::from(BYTES) * (round % 3), u64::from(BYTES) * 3);
            let bytes = pair.expected(1, source, BYTES);
            let sges = [pair.mrs[0].sge(place, BYTES)];
            for (at, from) in [(0, (source + 64) % u64::from(BYTES)), (1, 0), (2, source)] {
                let op = pair.read_from(1, from);
                pair.post(0, round * 3 + at, op, &sges);
                pair.wait_ok(0, round * 3 + at);
            }
            pair.expect(0, place, &bytes);
            pair.check_memory("READs to one place");
        }
    }
}

/// What the responder refuses behind a gap takes nothing of what is missing along: whoever completes with success has
/// its bytes at the peer, in order, and the WRITE with the wrong key never does.
#[test]
fn a_refusal_behind_a_gap_acknowledges_nothing() {
    const BYTES: u32 = 2_048;
    const GOOD: u64 = 8;
    let mut refused = 0;
    for (seed, link) in (1..13).zip(BOTH_LINKS.into_iter().cycle()) {
        let config = RigConfig {
            faults: faults("loss=0.2,fc_loss=0"),
            ..RigConfig::new(seed, link)
        };
        let options = selective(Mtu::Bytes256);
        let mut pair = Pair::new(
            &config,
            &options,
            u64::from(BYTES) * (GOOD + 1),
            [LOCAL_AND_REMOTE; 2],
        );
        for at in 0..=GOOD {
            let offset = at * u64::from(BYTES);
            let (remote_addr, rkey) = pair.remote(1, offset);
            let rkey = rkey ^ u32::from(at == GOOD);
            let sges = [pair.mrs[0].sge(offset, BYTES)];
            pair.post(0, at, SendOp::RdmaWrite { remote_addr, rkey }, &sges);
        }
        let statuses: Vec<_> = (0..=GOOD)
            .map(|at| {
                let wc = pair.wait(0);
                assert_eq!(wc.wr_id, at, "in order");
                wc.status
            })
            .collect();
        let done = statuses
            .iter()
            .take_while(|status| **status == WcStatus::Success)
            .count() as u64;
        assert!(done <= GOOD, "the wrong key was taken: {statuses:?}");
        assert!(
            matches!(
                statuses[done as usize],
                WcStatus::RemAccessErr | WcStatus::RetryExcErr
            ) && statuses[done as usize + 1..]
                .iter()
                .all(|status| *status == WcStatus::WrFlushErr),
            "{statuses:?}"
        );
        refused += u32::from(statuses.contains(&WcStatus::RemAccessErr));
        let len = done as u32 * BYTES;
        let (wanted, mut found) = (pair.expected(0, 0, len), vec![0; len as usize]);
        pair.memory[1]
            .buf()
            .read_bytes(common::CANARY_BYTES as usize, &mut found);
        assert!(
            found == wanted,
            "seed {seed}: {done} WRITEs were told of, their bytes are not there"
        );
    }
    assert!(refused > 6, "{refused} of 12 were refused");
}

/// Both ends or none: an option of one end changes nothing, and a QP says whether it does.
#[test]
fn both_ends_agree_or_none_does() {
    for (options, does) in [(path(Mtu::Bytes1024), false), (selective(Mtu::Bytes1024), true)] {
        let mut pair = Pair::with_cap(
            &RigConfig::new(3, LinkKind::Ethernet),
            &options,
            4096,
            [LOCAL_AND_REMOTE; 2],
            cap(),
        );
        for qp in &mut pair.qps {
            let rights = qp.query().unwrap().qp_access_flags;
            assert_eq!(rights.contains(Access::RELAXED_ORDERING), does);
        }
        // Other rights of a QP at work do not change it.
        let attr = hca_verbs::QpAttr {
            qp_access_flags: LOCAL_AND_REMOTE,
            ..Default::default()
        };
        pair.qps[1].modify(&attr, QpAttrMask::ACCESS_FLAGS).unwrap();
        let rights = pair.qps[1].query().unwrap().qp_access_flags;
        assert_eq!(rights.contains(Access::RELAXED_ORDERING), does);
        pair.check_traffic("after the change");
    }
}
