//! ACC-9: who may speak to whom by the P_Keys of their QPs (KEY-8, KEY-13, KEY-14, KEY-17), and what is counted.

mod common;

use common::{BOTH_LINKS, LOCAL_AND_REMOTE, Pair, cap};
use hca_link::LinkKind;
use hca_system_tests::{RigConfig, path};
use hca_verbs::{ConnectOptions, Mtu, QpState, SendOp, Service, WcStatus};

const PORT: u8 = 1;
const INDEX: u16 = 3;
const LEN: u32 = 64;
const TARGET: u64 = 4096;
/// KEY-17: a full member, two limited ones of the same partition, a full member of another.
const A: u16 = 0x8001;
const B: u16 = 0x0001;
const C: u16 = 0x0001;
const D: u16 = 0x8002;

/// Both ends' keys, and whether they may speak.
const VECTOR: [(u16, u16, bool); 10] = [
    (A, A, true),
    (A, B, true),
    (A, C, true),
    (B, A, true),
    (B, C, false),
    (D, A, false),
    (D, B, false),
    (A, D, false),
    (C, D, false),
    (D, D, true),
];

fn violations(pair: &Pair, node: usize) -> u64 {
    let context = &pair.rig.nodes[node].context;
    let counted = context.query_counters(PORT).unwrap().pkey_violations();
    assert_eq!(
        u64::from(context.query_port(PORT).unwrap().bad_pkey_cntr()),
        counted
    );
    counted
}

/// A message each way between two new QPs whose ports have these keys.
fn speak(pair: &mut Pair, service: Service, keys: (u16, u16), may: bool) {
    let what = format!("{service:?} between {:#06x} and {:#06x}", keys.0, keys.1);
    let options = ConnectOptions {
        pkey_index: INDEX,
        timeout: 1,
        retry_cnt: 0,
        ..path(Mtu::Bytes1024)
    };
    for (node, key) in [(0, keys.0), (1, keys.1)] {
        pair.rig.nodes[node].context.set_pkey(PORT, INDEX, key).unwrap();
        assert_eq!(pair.rig.nodes[node].context.query_pkey(PORT, INDEX).unwrap(), key);
    }
    for from in 0..2 {
        let to = 1 - from;
        pair.qps = pair
            .rig
            .connect_as(service, [cap(); 2], [false; 2], &options)
            .unwrap();
        let before = [violations(pair, 0), violations(pair, 1)];
        let (source, target) = ([pair.mrs[from].sge(0, LEN)], [pair.mrs[to].sge(TARGET, LEN)]);
        pair.recv(to, 2, &target);
        pair.post(from, 1, SendOp::Send, &source);
        if may {
            let bytes = pair.expected(from, 0, LEN);
            pair.expect(to, TARGET, &bytes);
            pair.wait_ok(from, 1);
            pair.wait_ok(to, 2);
        } else {
            // A reliable sender goes on until its time is over; the other one hears nothing.
            let wc = pair.wait(from);
            let told = if service == Service::Rc {
                WcStatus::RetryExcErr
            } else {
                WcStatus::Success
            };
            assert_eq!((wc.wr_id, wc.status), (1, told), "{what}");
            pair.silent(to, 3_000);
            assert_eq!(pair.qps[to].query().unwrap().qp_state, QpState::Rts, "{what}");
        }
        pair.check_memory(&what);
        let dropped = violations(pair, to) - before[to];
        assert_eq!(dropped, u64::from(!may), "{what}: counted at the receiver");
        assert_eq!(
            violations(pair, from),
            before[from],
            "{what}: counted at the sender"
        );
    }
}

fn vector(kind: LinkKind) {
    let mut pair = Pair::new(
        &RigConfig::new(61, kind),
        &path(Mtu::Bytes1024),
        64 << 10,
        [LOCAL_AND_REMOTE; 2],
    );
    for service in [Service::Rc, Service::Uc] {
        for (a, b, may) in VECTOR {
            speak(&mut pair, service, (a, b), may);
        }
    }
}

/// KEY-12, KEY-20: a QP has an index, and not a value: what a port's table says now is what its packets have and are
/// judged by, of QPs that were connected before. A table whose entry is empty lets nobody in (KEY-9).
#[test]
fn key_12_traffic_follows_the_table() {
    let options = ConnectOptions {
        pkey_index: INDEX,
        ..path(Mtu::Bytes1024)
    };
    for kind in BOTH_LINKS {
        let config = RigConfig::new(62, kind);
        let mut pair = Pair::new(&config, &path(Mtu::Bytes1024), 64 << 10, [LOCAL_AND_REMOTE; 2]);
        let set = |pair: &Pair, node: usize, key| {
            let context = &pair.rig.nodes[node].context;
            context.set_pkey(PORT, INDEX, key).unwrap();
        };
        (0..2).for_each(|node| set(&pair, node, A));
        pair.qps = pair
            .rig
            .connect_as(Service::Uc, [cap(); 2], [false; 2], &options)
            .unwrap();
        let steps = [
            (0, D, false),
            (1, D, true),
            (1, 0, false),
            (1, B, false),
            (0, A, true),
            (0, 0, false),
        ];
        for (step, (node, key, may)) in steps.into_iter().enumerate() {
            set(&pair, node, key);
            let (source, target) = ([pair.mrs[0].sge(0, LEN)], [pair.mrs[1].sge(TARGET, LEN)]);
            if step == 0 {
                pair.recv(1, 2, &target);
            }
            let before = violations(&pair, 1);
            pair.post(0, 1, SendOp::Send, &source);
            pair.wait_ok(0, 1);
            if may {
                pair.wait_ok(1, 2);
                pair.recv(1, 2, &target);
            } else {
                pair.silent(1, 3_000);
            }
            assert_eq!(
                violations(&pair, 1) - before,
                u64::from(!may),
                "{kind:?}, step {step}"
            );
        }
    }
}

#[test]
fn acc_9_the_vector_of_partitions() {
    BOTH_LINKS.into_iter().for_each(vector);
}
