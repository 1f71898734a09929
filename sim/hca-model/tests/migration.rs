//! APM-1 to APM-8 between two models: a connection changes to its second path when the first one fails, when its peer
//! has, or when it is told to.

mod common;

use common::{Faults, Pair, QPNS, ib_link, region};
use hca_model::{
    EventKind, Frame, ModelError, Op, PathMigState, QpConfig, RecvRequest, SecondPath, SendRequest, Service,
    Sge, WcStatus, example_link, reply_link,
};
use hca_wire::{Framing, Link, Network};

const LEN: u32 = 3_000;

fn framing(link: &Link) -> Framing {
    match link {
        Link::Ethernet { .. } => Framing::Ethernet,
        Link::InfiniBand { .. } => Framing::InfiniBand,
    }
}

/// Another way between the same two.
fn other(link: Link) -> Link {
    let mut link = link;
    match &mut link {
        Link::Ethernet {
            ip: Network::Ipv4(ip),
            ..
        } => (ip.src_addr[3], ip.dst_addr[3]) = (91, 92),
        Link::Ethernet {
            ip: Network::Ipv6(ip),
            ..
        } => (ip.src_addr[15], ip.dst_addr[15]) = (91, 92),
        Link::InfiniBand { lrh, .. } => (lrh.slid, lrh.dlid) = (91, 92),
    }
    link
}

/// Bits of the wire are damaged wherever a packet goes by this path.
fn cut(pair: &mut Pair, path: Link) {
    let ends = [path, reply_link(&path)];
    pair.lie = Some(Box::new(move |from, bytes| {
        let frame = Frame::parse(framing(&path), bytes).unwrap();
        if hca_model::same_sender(&frame.link, &ends[1 - from]) {
            bytes[20] ^= 1;
        }
    }));
}

struct Two {
    pair: Pair,
    link: Link,
    regions: [(u32, u64); 2],
    sent: [u64; 2],
}

impl Two {
    fn new(link: Link, service: Service) -> Self {
        let mut pair = Pair::new(5, Faults::default());
        pair.connect(link, |_, config| {
            config.service = service;
            config.retry_cnt = 1;
        });
        pair.checker = None;
        let regions = [0, 1].map(|node| region(&mut pair, node, 2 * LEN as usize));
        Self {
            pair,
            link,
            regions,
            sent: [0; 2],
        }
    }

    fn load(&mut self, node: usize, link: Link) {
        let path = SecondPath {
            link,
            pkey: 0xffff,
            timeout: 4,
        };
        self.pair.models[node].load_path(QPNS[node], path).unwrap();
        self.ask(node, PathMigState::Rearm).unwrap();
    }

    fn load_both(&mut self) {
        let second = other(self.link);
        self.load(0, second);
        self.load(1, reply_link(&second));
    }

    fn ask(&mut self, node: usize, state: PathMigState) -> Result<(), ModelError> {
        self.pair.models[node].set_path_mig_state(QPNS[node], state)
    }

    fn states(&mut self) -> [PathMigState; 2] {
        [0, 1].map(|node: usize| self.pair.models[node].path_mig_state(QPNS[node]).unwrap())
    }

    fn events(&mut self) -> [Vec<EventKind>; 2] {
        [0, 1].map(|node: usize| {
            let model = &mut self.pair.models[node];
            std::iter::from_fn(|| model.poll_event())
                .map(|event| event.kind)
                .collect()
        })
    }

    /// So many messages from a node.
    fn post(&mut self, from: usize, many: u64) {
        for _ in 0..many {
            let to = 1 - from;
            let number = self.sent[from];
            self.sent[from] += 1;
            let [(key, va), (there, there_va)] = [self.regions[from], self.regions[to]];
            let half = u64::from(LEN);
            let receive = RecvRequest::new(number, vec![Sge::new(there, there_va + half, LEN)]);
            self.pair.models[to].post_recv(QPNS[to], receive).unwrap();
            let request = SendRequest::new(number, Op::SEND, vec![Sge::new(key, va, LEN)]);
            self.pair.models[from].post_send(QPNS[from], request).unwrap();
        }
    }

    /// A message each, and all of both is there once, in order.
    fn exchange(&mut self) {
        self.pair.completions = Default::default();
        let first = self.sent;
        for node in 0..2 {
            self.post(node, 1);
        }
        self.pair.run(20_000);
        self.check(first, 1);
    }

    /// The completions are those of so many messages of each node, from these on.
    fn check(&mut self, first: [u64; 2], many: u64) {
        for node in 0..2 {
            let of = |receives: bool, first: u64| {
                let wcs = self.pair.completions[node].iter();
                let side = wcs.filter(|wc| (u8::from(wc.opcode) & 0x80 != 0) == receives);
                let found: Vec<_> = side.map(|wc| (wc.wr_id, wc.status)).collect();
                let wanted: Vec<_> = (first..first + many)
                    .map(|number| (number, WcStatus::Success))
                    .collect();
                assert_eq!(found, wanted, "node {node}, receives: {receives}");
            };
            of(false, first[node]);
            of(true, first[1 - node]);
        }
    }
}

fn links() -> [Link; 2] {
    [example_link(), ib_link()]
}

const MIGRATED: [PathMigState; 2] = [PathMigState::Migrated; 2];
const ARMED: [PathMigState; 2] = [PathMigState::Armed; 2];

/// APM-3: both ends arm, or none.
#[test]
fn apm_3_both_ends_arm() {
    for link in links() {
        let mut two = Two::new(link, Service::Rc);
        two.load(0, other(link));
        two.exchange();
        assert_eq!(two.states(), [PathMigState::Rearm, PathMigState::Migrated]);
        two.load(1, reply_link(&other(link)));
        two.exchange();
        assert_eq!(two.states(), ARMED);
        assert_eq!(two.events(), [vec![], vec![]]);
    }
}

/// APM-1, APM-5: what is under way when the path fails arrives once, in order, along the other one.
#[test]
fn apm_1_a_path_fails() {
    for link in links() {
        let mut two = Two::new(link, Service::Rc);
        two.load_both();
        two.exchange();
        two.pair.completions = Default::default();
        let first = two.sent;
        for node in 0..2 {
            two.post(node, 20);
        }
        two.pair.run(60);
        cut(&mut two.pair, link);
        two.pair.run(100_000);
        two.check(first, 20);
        assert_eq!(two.states(), MIGRATED);
        assert_eq!(two.events(), [vec![EventKind::PathMig], vec![EventKind::PathMig]]);
    }
}

/// APM-1: without a second path it ends as ever.
#[test]
fn apm_1_a_path_fails_and_there_is_no_other() {
    let mut two = Two::new(example_link(), Service::Rc);
    cut(&mut two.pair, example_link());
    two.post(0, 1);
    two.pair.run(10_000);
    assert_eq!(two.pair.completions[0][0].status, WcStatus::RetryExcErr);
}

/// APM-6: who is told to migrates, and the peer follows; on UC the message that asked is lost.
#[test]
fn apm_6_the_peer_follows() {
    for (link, service) in links()
        .into_iter()
        .flat_map(|link| [(link, Service::Rc), (link, Service::Uc)])
    {
        let mut two = Two::new(link, service);
        two.load_both();
        two.exchange();
        assert_eq!(two.states(), ARMED);
        two.ask(1, PathMigState::Migrated).unwrap();
        assert_eq!(two.states(), [PathMigState::Armed, PathMigState::Migrated]);
        cut(&mut two.pair, link);
        if service == Service::Rc {
            two.exchange();
        } else {
            two.post(1, 1);
            two.pair.run(10_000);
        }
        assert_eq!(two.states(), MIGRATED);
        assert_eq!(two.events(), [vec![EventKind::PathMig], vec![EventKind::PathMig]]);
        let QpConfig { link: found, .. } = two.pair.models[0].config(QPNS[0]).unwrap();
        assert_eq!(found, other(link));
    }
}

/// APM-8: a packet that asks for another path than the one that is loaded moves nobody, and is told of once.
#[test]
fn apm_8_the_ends_disagree() {
    for link in links() {
        let mut two = Two::new(link, Service::Rc);
        let second = other(link);
        two.load(0, second);
        two.load(1, reply_link(&link));
        two.exchange();
        two.ask(0, PathMigState::Migrated).unwrap();
        two.post(0, 3);
        two.pair.completions = Default::default();
        two.pair.run(100_000);
        assert_eq!(two.pair.completions[0][0].status, WcStatus::RetryExcErr);
        assert_eq!(two.states(), [PathMigState::Migrated, PathMigState::Armed]);
        let [_, there] = two.events();
        assert_eq!(there, [EventKind::PathMigErr]);
    }
}

/// APM-3, APM-4: what is no state to ask for, and who has no second path.
#[test]
fn apm_4_what_is_refused() {
    let mut two = Two::new(example_link(), Service::Rc);
    let no_path = Err(ModelError::NoPath(QPNS[0]));
    assert_eq!(two.ask(0, PathMigState::Rearm), no_path);
    assert_eq!(two.ask(0, PathMigState::Armed), no_path);
    assert_eq!(two.ask(0, PathMigState::Migrated), Ok(()));
    two.load(0, other(example_link()));
    assert_eq!(two.ask(0, PathMigState::Armed), no_path);
    // From REARM the wish is taken back, and nothing has moved.
    assert_eq!(two.ask(0, PathMigState::Migrated), Ok(()));
    assert_eq!(two.states(), MIGRATED);
    assert_eq!(two.events(), [vec![], vec![]]);
    let mut two = Two::new(example_link(), Service::Xrc);
    let path = SecondPath {
        link: other(example_link()),
        pkey: 0xffff,
        timeout: 4,
    };
    assert_eq!(two.pair.models[0].load_path(QPNS[0], path), no_path);
}
