//! ACC-2: what a QP does in each state (QPS-4): posts, processing, incoming packets, answers; for RC, UC and UD.

mod common;

use common::{BOTH_LINKS, CANARY_BYTES, LOCAL_AND_REMOTE, Pair, cap, step};
use hca_link::LinkKind;
use hca_system_tests::{Dev, RigConfig, path};
use hca_verbs::{
    Ah, AhAttr, ConnectOptions, Datagram, Mtu, QpState, RawQp, RecvWr, SendFlags, SendOp, SendWr, Service,
    Sge, WcStatus, WrData, peer_info,
};

const LEN: u32 = 100;
const QKEY: u32 = 0x3333_3333;
/// Where receives land; of datagrams 40 bytes further.
const TARGET: u64 = 8192;
/// Time for a send, its only retry and the time-outs behind both.
const CYCLES: u64 = 40_000;
const STATES: [QpState; 7] = [
    QpState::Reset,
    QpState::Init,
    QpState::Rtr,
    QpState::Rts,
    QpState::Sqd,
    QpState::Sqe,
    QpState::Err,
];
const POST_RR: u64 = 1;
const POST_SR: u64 = 2;
const PEER_RR: u64 = 3;
const PEER_SR: u64 = 4;
/// The send that takes a QP to SQE.
const BAD_SR: u64 = 5;

/// A QP at node 0 in the state that is looked at, and its peer at node 1 in RTS.
struct Cell {
    pair: Pair,
    service: Service,
    qps: [RawQp<Dev>; 2],
    ways: Option<[Ah<Dev>; 2]>,
}

fn options() -> ConnectOptions {
    ConnectOptions {
        timeout: 1,
        retry_cnt: 1,
        ..path(Mtu::Bytes1024)
    }
}

fn way(pair: &Pair, from: usize, kind: LinkKind) -> Ah<Dev> {
    let context = &pair.rig.nodes[1 - from].context;
    let port = context.query_port(1).unwrap();
    let gid_index = u8::from(kind == LinkKind::Ethernet);
    let attr = AhAttr {
        is_global: true,
        dgid: context.query_gid(1, gid_index.into()).unwrap(),
        sgid_index: gid_index,
        dlid: port.lid(),
        dmac: port.mac(),
        ..AhAttr::default()
    };
    pair.rig.nodes[from].pd.create_ah(&attr).unwrap()
}

impl Cell {
    fn new(service: Service, kind: LinkKind, state: QpState) -> Self {
        let pair = Pair::new(
            &RigConfig::new(51, kind),
            &path(Mtu::Bytes1024),
            64 << 10,
            [LOCAL_AND_REMOTE; 2],
        );
        let mut qps =
            [0, 1].map(|node: usize| pair.rig.nodes[node].create_qp_of(service, cap(), false).unwrap());
        let infos = [0, 1].map(|node: usize| peer_info(&qps[node], &options(), 0).unwrap());
        for to in [QpState::Init, QpState::Rtr, QpState::Rts] {
            step(&mut qps[1], &options(), &infos[0], to, QKEY);
        }
        for to in [QpState::Init, QpState::Rtr, QpState::Rts] {
            if state == QpState::Reset || qps[0].state() == state {
                break;
            }
            step(&mut qps[0], &options(), &infos[1], to, QKEY);
        }
        let ways = (service == Service::Ud).then(|| [0, 1].map(|node| way(&pair, node, kind)));
        let mut cell = Self {
            pair,
            service,
            qps,
            ways,
        };
        match state {
            QpState::Sqd | QpState::Err => cell.qps[0].modify_state(state).unwrap(),
            QpState::Sqe => cell.fail_a_send(),
            _ => {}
        }
        assert_eq!(cell.qps[0].query().unwrap().qp_state, state);
        cell
    }

    fn fail_a_send(&mut self) {
        let good = self.pair.mrs[0].sge(0, LEN);
        let lkey = good.lkey ^ 0x100;
        assert!(self.send(0, BAD_SR, Sge { lkey, ..good }));
        let wc = self.pair.wait(0);
        assert_eq!((wc.wr_id, wc.status), (BAD_SR, WcStatus::LocProtErr));
    }

    /// Could it be posted?
    fn send(&mut self, node: usize, wr_id: u64, sge: Sge) -> bool {
        let sges = [sge];
        let wr = SendWr {
            wr_id,
            op: SendOp::Send,
            flags: SendFlags::SIGNALED,
            data: WrData::Sges(&sges),
        };
        let number = self.qps[1 - node].qp_num();
        match &self.ways {
            None => self.qps[node].post_send(&[wr]).is_ok(),
            Some(ways) => {
                let to = ways[node].to(number, QKEY);
                self.qps[node].post_send_to([Datagram { wr, to }]).is_ok()
            }
        }
    }

    fn recv(&mut self, node: usize, wr_id: u64) -> bool {
        let sges = [self.pair.mrs[node].sge(TARGET, LEN + 40)];
        self.qps[node].post_recv(&[RecvWr { wr_id, sges: &sges }]).is_ok()
    }

    /// Everything that completes at a node, in the order of the work requests.
    fn completions(&self, node: usize) -> Vec<(u64, WcStatus)> {
        let mut found = Vec::new();
        while let Some(wc) = self.pair.rig.nodes[node].poll().unwrap() {
            found.push((wc.wr_id, wc.status));
        }
        found.sort_unstable_by_key(|(wr_id, _)| *wr_id);
        found
    }

    /// A message lies at a node.
    fn arrived(&self, node: usize) -> bool {
        let header = if self.service == Service::Ud { 40 } else { 0 };
        let mut bytes = vec![0; LEN as usize];
        let at = CANARY_BYTES + TARGET + header;
        self.pair.memory[node].buf().read_bytes(at as usize, &mut bytes);
        bytes == self.pair.expected(1 - node, 0, LEN)
    }
}

fn check(service: Service, kind: LinkKind, state: QpState) {
    use QpState::{Err, Reset, Rtr, Rts, Sqd, Sqe};
    let what = format!("{service:?} in {state:?} over {kind:?}");
    let mut cell = Cell::new(service, kind, state);
    let good = [0, 1].map(|node: usize| cell.pair.mrs[node].sge(0, LEN));
    // QPS-5: a post that is forbidden fails at once.
    assert_eq!(cell.recv(0, POST_RR), state != Reset, "{what}: post RR");
    assert_eq!(
        cell.send(0, POST_SR, good[0]),
        matches!(state, Rts | Sqd | Sqe | Err),
        "{what}: post SR"
    );
    assert!(cell.recv(1, PEER_RR) && cell.send(1, PEER_SR, good[1]));
    cell.pair.rig.run(CYCLES);

    let receives = matches!(state, Rtr | Rts | Sqd | Sqe);
    let mut own = Vec::new();
    if receives || state == Err {
        let status = if receives {
            WcStatus::Success
        } else {
            WcStatus::WrFlushErr
        };
        own.push((POST_RR, status));
    }
    if matches!(state, Rts | Sqe | Err) {
        let status = if state == Rts {
            WcStatus::Success
        } else {
            WcStatus::WrFlushErr
        };
        own.push((POST_SR, status));
    }
    assert_eq!(cell.completions(0), own, "{what}: its own work requests");
    assert_eq!(cell.arrived(0), receives, "{what}: incoming packets");

    // Only RC asks for answers, and a peer without them is in error.
    let answered = receives || service != Service::Rc;
    let mut peers = Vec::new();
    if state == Rts || !answered {
        let status = if answered {
            WcStatus::Success
        } else {
            WcStatus::WrFlushErr
        };
        peers.push((PEER_RR, status));
    }
    let status = if answered {
        WcStatus::Success
    } else {
        WcStatus::RetryExcErr
    };
    peers.push((PEER_SR, status));
    assert_eq!(cell.completions(1), peers, "{what}: its answers");
    assert_eq!(cell.arrived(1), state == Rts, "{what}: outgoing requests");

    if state == Sqd {
        // What was held goes on.
        cell.qps[0].modify_state(Rts).unwrap();
        cell.pair.rig.run(CYCLES);
        assert_eq!(
            cell.completions(0),
            [(POST_SR, WcStatus::Success)],
            "{what}, then in RTS"
        );
        assert_eq!(
            cell.completions(1),
            [(PEER_RR, WcStatus::Success)],
            "{what}, then in RTS"
        );
        assert!(cell.arrived(1));
    }
}

fn every_state(service: Service) {
    for kind in BOTH_LINKS {
        for state in STATES {
            // RC has no SQE.
            if (service, state) != (Service::Rc, QpState::Sqe) {
                check(service, kind, state);
            }
        }
    }
}

#[test]
fn acc_2_reliable_connections() {
    every_state(Service::Rc);
}

#[test]
fn acc_2_unreliable_connections() {
    every_state(Service::Uc);
}

#[test]
fn acc_2_datagrams() {
    every_state(Service::Ud);
}
