//! Refused work requests: the right status, both QPs in ERR, one completion for every work request, nothing written.

mod common;

use common::{LOCAL_AND_REMOTE, Pair};
use hca_link::LinkKind;
use hca_system_tests::{Place, RigConfig, path};
use hca_verbs::{
    Access, ConnectOptions, EventKind, Mtu, QpState, RecvWr, SendFlags, SendOp, SendWr, Sge, WcStatus, WrData,
};

const REGION_BYTES: u64 = 16 << 10;
/// Work requests behind the bad one.
const BEHIND: u64 = 3;

fn pair() -> Pair {
    pair_with(&path(Mtu::Bytes1024), [LOCAL_AND_REMOTE; 2])
}

fn pair_with(options: &ConnectOptions, access: [Access; 2]) -> Pair {
    Pair::new(
        &RigConfig::new(5, LinkKind::Ethernet),
        options,
        REGION_BYTES,
        access,
    )
}

/// What must come of a bad work request.
struct Verdict {
    /// Of the bad work request.
    requester: WcStatus,
    /// Asynchronous event at the responder (REL-13), or none.
    event: Option<EventKind>,
    /// Status of the receive the responder had posted for it; the other receives are flushed.
    receive: Option<WcStatus>,
    /// The responder's QP is in ERR too.
    responder_fails: bool,
    /// Work requests behind the bad one may have been carried out when it fails: they are empty then.
    others_run: bool,
}

/// NAK remote access error: KEY-31, REL-12.
const ACCESS: Verdict = Verdict {
    requester: WcStatus::RemAccessErr,
    event: Some(EventKind::QpAccessErr),
    receive: None,
    responder_fails: true,
    others_run: false,
};
/// Refused before anything goes to the wire.
const LOCAL: Verdict = Verdict {
    requester: WcStatus::LocProtErr,
    event: None,
    receive: None,
    responder_fails: false,
    others_run: false,
};

/// Posts the bad work request with others behind it, and judges what comes.
#[track_caller]
fn refused(pair: &mut Pair, what: &str, op: SendOp, sges: &[Sge], verdict: &Verdict) {
    let good = [pair.mrs[0].sge(0, if verdict.others_run { 0 } else { 64 })];
    let unused = [pair.mrs[0].sge(0, 64)];
    pair.recv(0, 50, &unused);
    let mut wrs = vec![SendWr {
        wr_id: 1,
        op,
        flags: SendFlags::default(),
        data: WrData::Sges(sges),
    }];
    let behind = (2..2 + BEHIND).map(|wr_id| SendWr {
        wr_id,
        op: pair.write_to(1, 0),
        flags: SendFlags {
            signaled: wr_id % 2 == 0,
            ..SendFlags::default()
        },
        data: WrData::Sges(&good),
    });
    wrs.extend(behind);
    pair.qps[0].post_send(&wrs).unwrap();
    // QPS-13, QPS-14, STAT-2: the cause, then the flush of both queues, also of unsignaled work requests.
    let mut sends = Vec::new();
    let mut recvs = Vec::new();
    for _ in 0..2 + BEHIND {
        let wc = pair.wait(0);
        if wc.wr_id < 50 {
            sends.push((wc.wr_id, wc.status))
        } else {
            recvs.push((wc.wr_id, wc.status))
        }
    }
    let mut wanted = vec![(1, verdict.requester)];
    wanted.extend((2..2 + BEHIND).map(|wr_id| (wr_id, WcStatus::WrFlushErr)));
    assert_eq!(sends, wanted, "{what}: send queue");
    assert_eq!(recvs, [(50, WcStatus::WrFlushErr)], "{what}: receive queue");
    assert_eq!(
        pair.qps[0].query().unwrap().qp_state,
        QpState::Err,
        "{what}: requester"
    );
    judge_responder(pair, what, verdict);
    pair.silent(0, 20_000);
    pair.silent(1, 20_000);
    pair.check_memory(what);
}

#[track_caller]
fn judge_responder(pair: &mut Pair, what: &str, verdict: &Verdict) {
    if let Some(status) = verdict.receive {
        let wc = pair.wait(1);
        assert_eq!(
            (wc.wr_id, wc.status),
            (60, status),
            "{what}: receive of the responder"
        );
    }
    let state = pair.qps[1].query().unwrap().qp_state;
    let event = std::iter::from_fn(|| pair.rig.nodes[1].context.poll_async_event())
        .find(|event| event.kind != EventKind::CommEst);
    if verdict.responder_fails {
        assert_eq!(state, QpState::Err, "{what}: responder");
        let sge = [pair.mrs[1].sge(0, 64)];
        // Posted in ERR: flushed as well (QPS-13).
        pair.qps[1]
            .post_recv(&[RecvWr {
                wr_id: 61,
                sges: &sge,
            }])
            .unwrap();
        let wc = pair.wait(1);
        assert_eq!(
            (wc.wr_id, wc.status),
            (61, WcStatus::WrFlushErr),
            "{what}: receive posted in ERR"
        );
    } else {
        assert_eq!(state, QpState::Rts, "{what}: the responder must not notice");
    }
    let qpn = pair.qps[1].qp_num();
    assert_eq!(
        event.map(|event| (event.kind, event.id)),
        verdict.event.map(|kind| (kind, qpn)),
        "{what}"
    );
}

/// KEY-27, KEY-30: a key that nobody has given out, the right index with a wrong tag, a key after its end.
#[test]
fn remote_key_that_is_not_valid() {
    for (what, change) in [("unknown index", 0x0003_ff00_u32), ("wrong tag", 0x0000_0001)] {
        let mut pair = pair();
        let sges = [pair.mrs[0].sge(0, 3000)];
        let (remote_addr, rkey) = pair.remote(1, 0);
        let rkey = rkey ^ change;
        refused(
            &mut pair,
            what,
            SendOp::RdmaWrite { remote_addr, rkey },
            &sges,
            &ACCESS,
        );
    }
    let mut pair = pair();
    let sges = [pair.mrs[0].sge(0, 3000)];
    let op = pair.read_from(1, 0);
    pair.mrs[1].destroy().unwrap();
    // The later WRITEs name the dead region too, but the first refusal is what counts.
    refused(&mut pair, "deregistered", op, &sges, &ACCESS);
}

/// KEY-28, MEM-1: a region of another protection domain.
#[test]
fn remote_key_of_another_protection_domain() {
    let mut pair = pair();
    let node = &pair.rig.nodes[1];
    let other = node.context.alloc_pd().unwrap();
    let buf = pair.memory[1].buf().clone();
    let mr = node
        .register_in(
            &other,
            &buf,
            Place::whole(&buf, LOCAL_AND_REMOTE, common::BASES[1]),
        )
        .unwrap();
    let sges = [pair.mrs[0].sge(0, 100)];
    let op = SendOp::RdmaWrite {
        remote_addr: mr.addr(),
        rkey: mr.rkey(),
    };
    refused(&mut pair, "other PD", op, &sges, &ACCESS);
}

/// KEY-31: one byte beyond either end, for WRITE and READ, of one packet and of many. Bytes of the message that lie in
/// the region may be written before the error is found; those beyond may not, so the region's own bytes are not judged
/// for the WRITE of many packets: its packets before the last are legal.
#[test]
fn one_byte_out_of_bounds() {
    for (what, offset, len) in [
        ("end", REGION_BYTES - 99, 100),
        ("start", u64::MAX, 100),
        ("all of it behind the end", REGION_BYTES, 1),
    ] {
        for read in [false, true] {
            let mut pair = pair();
            let sges = [pair.mrs[0].sge(0, len)];
            let (remote_addr, rkey) = (pair.mrs[1].addr().wrapping_add(offset), pair.mrs[1].rkey());
            let op = if read {
                SendOp::RdmaRead { remote_addr, rkey }
            } else {
                SendOp::RdmaWrite { remote_addr, rkey }
            };
            refused(&mut pair, &format!("{what}, read {read}"), op, &sges, &ACCESS);
        }
    }
}

/// KEY-31: the region's rights and the QP's rights must both allow it.
#[test]
fn missing_rights() {
    let read_only = Access::LOCAL_WRITE | Access::REMOTE_READ;
    let write_only = Access::LOCAL_WRITE | Access::REMOTE_WRITE;
    for (what, mr_access, qp_access, read) in [
        ("region without REMOTE_WRITE", read_only, LOCAL_AND_REMOTE, false),
        ("region without REMOTE_READ", write_only, LOCAL_AND_REMOTE, true),
        ("QP without REMOTE_WRITE", LOCAL_AND_REMOTE, read_only, false),
        ("QP without REMOTE_READ", LOCAL_AND_REMOTE, write_only, true),
    ] {
        let options = ConnectOptions {
            access: qp_access,
            ..path(Mtu::Bytes1024)
        };
        let mut pair = pair_with(&options, [LOCAL_AND_REMOTE, mr_access]);
        let sges = [pair.mrs[0].sge(0, 100)];
        let op = if read {
            pair.read_from(1, 0)
        } else {
            pair.write_to(1, 0)
        };
        refused(&mut pair, what, op, &sges, &ACCESS);
    }
}

/// STAT LOC_PROT_ERR: a wrong L_Key, a list entry one byte too long, a landing buffer without LOCAL_WRITE (MEM-9).
#[test]
fn local_protection() {
    let mut wrong_key = pair();
    let mut sge = wrong_key.mrs[0].sge(0, 100);
    sge.lkey ^= 1;
    let op = wrong_key.write_to(1, 0);
    refused(&mut wrong_key, "wrong L_Key", op, &[sge], &LOCAL);

    let mut too_long = pair();
    let sges = [
        too_long.mrs[0].sge(0, 100),
        too_long.mrs[0].sge(REGION_BYTES - 10, 11),
    ];
    refused(&mut too_long, "entry too long", SendOp::Send, &sges, &LOCAL);

    let mut read_only = pair_with(&path(Mtu::Bytes1024), [Access::REMOTE_READ, LOCAL_AND_REMOTE]);
    let sges = [read_only.mrs[0].sge(0, 100)];
    let op = read_only.read_from(1, 0);
    // The card finds out when the answer comes: only the requester fails.
    let verdict = Verdict {
        others_run: true,
        ..LOCAL
    };
    refused(
        &mut read_only,
        "READ into a region without LOCAL_WRITE",
        op,
        &sges,
        &verdict,
    );
}

/// OP-21: a message longer than the receive; a receive whose own key is wrong.
#[test]
fn receives_that_cannot_take_the_message() {
    let mut short = pair();
    let sge = [short.mrs[1].sge(0, 99)];
    short.recv(1, 60, &sge);
    let sges = [short.mrs[0].sge(0, 100)];
    let verdict = Verdict {
        requester: WcStatus::RemInvReqErr,
        event: None,
        receive: Some(WcStatus::LocLenErr),
        responder_fails: true,
        others_run: false,
    };
    refused(
        &mut short,
        "receive one byte too short",
        SendOp::Send,
        &sges,
        &verdict,
    );

    let mut wrong_key = pair();
    let mut sge = wrong_key.mrs[1].sge(0, 100);
    sge.lkey ^= 1;
    wrong_key.recv(1, 60, &[sge]);
    let verdict = Verdict {
        requester: WcStatus::RemOpErr,
        event: None,
        receive: Some(WcStatus::LocProtErr),
        responder_fails: true,
        others_run: false,
    };
    let sges = [wrong_key.mrs[0].sge(0, 100)];
    refused(
        &mut wrong_key,
        "receive with a wrong L_Key",
        SendOp::Send,
        &sges,
        &verdict,
    );
}

/// REL-3, REL-9, REL-18: a peer that does not answer; REL-8: a peer that never has a receive.
#[test]
fn retries_end() {
    for retry_cnt in [0, 2] {
        let config = RigConfig {
            faults: "loss=1".parse().unwrap(),
            ..RigConfig::new(6, LinkKind::InfiniBand)
        };
        let options = ConnectOptions {
            retry_cnt,
            timeout: 2,
            ..path(Mtu::Bytes1024)
        };
        let mut pair = Pair::new(&config, &options, REGION_BYTES, [LOCAL_AND_REMOTE; 2]);
        let sges = [pair.mrs[0].sge(0, 100)];
        let (op, start_ns) = (pair.write_to(1, 0), pair.rig.now_ns());
        let verdict = Verdict {
            requester: WcStatus::RetryExcErr,
            ..LOCAL
        };
        refused(
            &mut pair,
            &format!("no answer, {retry_cnt} retries"),
            op,
            &sges,
            &verdict,
        );
        // REL-6: timeout 2 is 16.384 us, waited for once more than there are retries.
        let least_ns = 16_384 * (u64::from(retry_cnt) + 1);
        assert!(
            pair.rig.now_ns() - start_ns >= least_ns,
            "gave up after {} ns",
            pair.rig.now_ns() - start_ns
        );
    }
    for rnr_retry in [0, 3] {
        let options = ConnectOptions {
            rnr_retry,
            min_rnr_timer: 1,
            ..path(Mtu::Bytes1024)
        };
        let mut pair = pair_with(&options, [LOCAL_AND_REMOTE; 2]);
        let sges = [pair.mrs[0].sge(0, 100)];
        let verdict = Verdict {
            requester: WcStatus::RnrRetryExcErr,
            ..LOCAL
        };
        refused(
            &mut pair,
            &format!("no receive, {rnr_retry} RNR retries"),
            SendOp::Send,
            &sges,
            &verdict,
        );
    }
}

/// QPS-13: moved to ERR by software with work outstanding: every work request is flushed, once and in order.
#[test]
fn modify_to_err_flushes_everything() {
    let mut pair = pair();
    let sges = [pair.mrs[0].sge(0, 64)];
    // Nobody receives: the SENDs stay outstanding.
    for wr_id in 0..5 {
        pair.recv(0, 100 + wr_id, &sges);
        pair.post_with(0, wr_id, SendOp::Send, SendFlags::default(), WrData::Sges(&sges));
    }
    pair.rig.run(5_000);
    pair.qps[0].modify_state(QpState::Err).unwrap();
    let (mut sends, mut recvs) = (Vec::new(), Vec::new());
    for _ in 0..10 {
        let wc = pair.wait(0);
        assert_eq!(wc.status, WcStatus::WrFlushErr, "{wc:?}");
        if wc.wr_id < 100 {
            sends.push(wc.wr_id)
        } else {
            recvs.push(wc.wr_id)
        }
    }
    assert_eq!((sends, recvs), ((0..5).collect(), (100..105).collect()));
    pair.silent(0, 20_000);
    pair.check_memory("modify to ERR");
}
