//! Shared receive queues: their life, limits, and what becomes of receives whose QP goes (V-100..105, SPEC-4..9).

mod common;

use common::Bench;
use hca_verbs::*;

fn send(wr_id: u64) -> SendWr<'static> {
    SendWr {
        wr_id,
        op: SendOp::Send,
        flags: SendFlags::default(),
        data: WrData::Sges(&[]),
    }
}

fn receive(wr_id: u64) -> RecvWr<'static> {
    RecvWr { wr_id, sges: &[] }
}

/// QPs of an SRQ that are connected with each other.
fn pair(bench: &Bench, srq: &Srq<common::Dev>) -> [RawQp<common::Dev>; 2] {
    let mut qps = [(); 2].map(|()| {
        let options = QpOptions {
            srq: Some(srq),
            ..QpOptions::new(&bench.cq, &bench.cq)
        };
        bench.pd.create_raw_qp(&options).unwrap()
    });
    let infos = [0, 1].map(|i: usize| peer_info(&qps[i], &bench.options, 7).unwrap());
    for (qp, peer) in qps.iter_mut().zip([1, 0]) {
        connect_raw(qp, &bench.options, 7, &infos[peer]).unwrap();
    }
    qps
}

fn poll(bench: &Bench) -> Vec<WorkCompletion> {
    bench.dev.settle();
    let mut wc = [WorkCompletion::default(); 64];
    let count = bench.cq.poll_cq(&mut wc).unwrap();
    wc[..count].to_vec()
}

#[test]
fn life_of_a_shared_queue() {
    let bench = Bench::new(64);
    for (max_wr, max_sge) in [(0, 1), (1, 0), ((1 << 16) + 1, 1), (1, 17)] {
        let error = bench.pd.create_srq(max_wr, max_sge).unwrap_err();
        assert_eq!(error.errno(), 22, "{max_wr} {max_sge}");
    }
    let srq = bench.pd.create_srq(5, 3).unwrap();
    let found = srq.query().unwrap();
    assert_eq!((found.max_wr, found.max_sge), (srq.max_wr(), srq.max_sge()));
    assert!(found.max_wr >= 5 && found.max_sge >= 3 && found.srq_limit == 0);
    let mut qps = pair(&bench, &srq);
    assert_eq!(
        (qps[0].cap().max_recv_wr, qps[0].srq().unwrap().srqn()),
        (0, srq.srqn())
    );
    // SPEC-9.
    let refused = qps[0].post_recv(&[receive(1)]).unwrap_err();
    assert_eq!(refused.error, PostError::SharedQueue);
    srq.post_recv(&[receive(1), receive(2)]).unwrap();
    for (i, qp) in qps.iter_mut().enumerate() {
        qp.post_send(&[send(0)]).unwrap();
        assert_eq!(poll(&bench)[0].wr_id, i as u64 + 1);
    }
    // V-104: EBUSY with QPs; then nothing has changed.
    assert_eq!(srq.destroy().unwrap_err().errno(), 16);
    srq.post_recv(&[receive(3)]).unwrap();
    drop(qps);
    assert_eq!(srq.free_slots(), srq.max_wr() - 1);
    srq.destroy().unwrap();
    assert_eq!(srq.destroy().unwrap_err().errno(), 22);
    assert!(srq.query().is_err() && srq.arm_limit(1).is_err());
    assert_eq!(
        srq.post_recv(&[receive(3)]).unwrap_err().error,
        PostError::BadState
    );
    bench.dev.assert_no_violations();
}

/// A QP keeps its SRQ, an SRQ its PD: dropped in any order, all of it goes.
#[test]
fn dropped_in_any_order() {
    let bench = Bench::new(64);
    let pd = bench.context.alloc_pd().unwrap();
    let srq = pd.create_srq(5, 1).unwrap();
    let options = QpOptions {
        srq: Some(&srq),
        ..QpOptions::new(&bench.cq, &bench.cq)
    };
    let qp = pd.create_raw_qp(&options).unwrap();
    let (pd_handle, srqn) = (pd.handle(), srq.srqn());
    drop((pd, srq));
    assert!(bench.context.function().query_srq(srqn).is_ok());
    drop(qp);
    assert!(bench.context.function().query_srq(srqn).is_err());
    assert!(
        bench.context.function().dealloc_pd(pd_handle).is_err(),
        "it is gone"
    );
    bench.dev.assert_no_violations();
}

/// SPEC-6: armed, told once, and 0 then; more than it holds is refused.
#[test]
fn limits() {
    let bench = Bench::new(64);
    let srq = bench.pd.create_srq(8, 1).unwrap();
    let mut qps = pair(&bench, &srq);
    srq.post_recv(&[receive(1), receive(2), receive(3)]).unwrap();
    assert_eq!(srq.arm_limit(9).unwrap_err().errno(), 22);
    srq.arm_limit(3).unwrap();
    assert_eq!(bench.context.poll_async_event(), None);
    for _ in 0..2 {
        qps[0].post_send(&[send(0)]).unwrap();
        assert_eq!(poll(&bench).len(), 1);
    }
    let event = bench.context.poll_async_event().unwrap();
    assert_eq!((event.kind, event.id), (EventKind::SrqLimitReached, srq.srqn()));
    assert_eq!(bench.context.poll_async_event(), None);
    assert_eq!(srq.query().unwrap().srq_limit, 0);
}

/// QPS-6: completions that a RESET takes away free their slots; SPEC-8: ERR takes nothing of what is posted.
#[test]
fn what_a_qp_leaves_behind() {
    let bench = Bench::new(64);
    let srq = bench.pd.create_srq(8, 1).unwrap();
    let [mut a, mut b] = pair(&bench, &srq);
    srq.post_recv(&[receive(1), receive(2), receive(3)]).unwrap();
    a.post_send(&[send(0), send(0)]).unwrap();
    bench.dev.settle();
    assert_eq!(srq.free_slots(), srq.max_wr() - 3);
    b.modify_state(QpState::Reset).unwrap();
    assert_eq!(srq.free_slots(), srq.max_wr() - 1);
    assert_eq!(poll(&bench), []);
    a.modify_state(QpState::Err).unwrap();
    bench.dev.settle();
    let event = bench.context.poll_async_event().unwrap();
    assert_eq!((event.kind, event.id), (EventKind::QpLastWqeReached, a.qp_num()));
    assert_eq!(poll(&bench), []);
    assert_eq!(srq.free_slots(), srq.max_wr() - 1);
    bench.dev.assert_no_violations();
}
