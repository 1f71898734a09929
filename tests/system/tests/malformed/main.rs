//! Packets of which each may be wrong in any way, at line rate, at a card with QPs of every service: it never hangs,
//! writes nothing outside of what was granted, and its counters say what became of each packet (SYS-7, KEY-*, D15).

#[path = "../common/mod.rs"]
mod common;
mod packets;

use common::{LIMIT_NS, LOCAL_AND_REMOTE, cap};
use hca_link::LinkKind;
use hca_model::{Op, SendRequest};
use hca_system_tests::opposite::{Opposite, OppositeConfig};
use hca_system_tests::{Arena, Dev, Place, Rng, identity, path};
use hca_verbs::{
    Access, ConnectOptions, Mr, Mtu, PeerInfo, PortCounters, QpAttr, QpAttrMask, QpState, RawQp, RecvWr,
    Service, Srq, WcStatus, XrcTarget, Xrcd, connect_raw, connect_target,
};
use packets::{Knowledge, Victim};

const MTU_BYTES: u32 = 1024;
const QKEY: u32 = 0x1357_9bdf;
/// Regions of 8 KiB in one buffer, with as much between them that nobody may touch.
const ROOM: u64 = 8192;
const WRITABLE: u64 = ROOM;
const READABLE: u64 = 3 * ROOM;
const RECEIVES: u64 = 5 * ROOM;
const ARENA_BYTES: u64 = 7 * ROOM;
/// Receives of a queue, and bytes of each: UD's has a GRH in front.
const DEPTH: u64 = 8;
const RECEIVE_BYTES: u32 = 1024;
/// QPs of each service that is attacked.
const QPS: usize = 12;
/// Packets between two looks at the card.
const BATCH: usize = 4000;

type Count = fn(&PortCounters) -> u64;

enum End {
    Qp(Box<RawQp<Dev>>),
    Target(Box<XrcTarget<Dev>>),
    Nobody,
}

struct Bench {
    opposite: Opposite,
    options: ConnectOptions,
    arena: Arena,
    regions: Vec<Mr<Dev>>,
    srq: Srq<Dev>,
    xrcd: Xrcd<Dev>,
    link: LinkKind,
    ends: Vec<(End, Victim)>,
    known: Knowledge,
}

impl Bench {
    fn new(seed: u64, link: LinkKind) -> Self {
        let opposite = Opposite::new(&OppositeConfig::new(seed, link)).unwrap();
        let node = &opposite.node;
        let mut rng = Rng::new(seed, "memory");
        let arena = Arena::new(node.alloc(ARENA_BYTES as usize).unwrap(), &mut rng);
        let other = node.context.alloc_pd().unwrap();
        let region = |access, offset| Place {
            offset,
            len: ROOM,
            ..Place::whole(arena.buf(), access, common::BASES[0])
        };
        let all = LOCAL_AND_REMOTE | Access::REMOTE_ATOMIC | Access::FLUSH_GLOBAL;
        let mut regions = vec![
            node.register(arena.buf(), region(all, WRITABLE)).unwrap(),
            node.register(arena.buf(), region(Access::REMOTE_READ, READABLE))
                .unwrap(),
            node.register(arena.buf(), region(Access::LOCAL_WRITE, RECEIVES))
                .unwrap(),
            node.register_in(&other, arena.buf(), region(all, 0)).unwrap(),
            node.register(arena.buf(), region(all, 6 * ROOM)).unwrap(),
        ];
        let keys = regions.iter().map(Mr::rkey).collect();
        let ranges = regions.iter().map(|mr| (mr.addr(), ROOM as u32)).collect();
        // The last is stale from now on.
        regions.pop().unwrap().destroy().unwrap();
        let xrcd = node.context.alloc_xrcd().unwrap();
        let srq = node.pd.create_xrc_srq(&xrcd, &node.cq, 32, 1).unwrap();
        let known = Knowledge {
            link: opposite.link_to_card(Some(1).filter(|_| link == LinkKind::Ethernet)),
            mtu: MTU_BYTES,
            keys,
            ranges,
            qkey: QKEY,
            srqns: vec![srq.number().unwrap()],
        };
        let options = ConnectOptions {
            gid_index: Some(1).filter(|_| link == LinkKind::Ethernet),
            ..path(Mtu::Bytes1024)
        };
        let mut bench = Self {
            opposite,
            options,
            arena,
            regions,
            srq,
            xrcd,
            link,
            ends: Vec::new(),
            known,
        };
        bench.open_ends();
        bench
    }

    /// Resting ones and numbers of nobody are attacked, too.
    fn open_ends(&mut self) {
        use hca_wire::Service as Wire;
        let node = &self.opposite.node;
        let mut add = |end, qpn, service| self.ends.push((end, Victim { qpn, service, psn: 0 }));
        for _ in 0..QPS {
            for (service, wire) in [
                (Service::Rc, Wire::Rc),
                (Service::Uc, Wire::Uc),
                (Service::Ud, Wire::Ud),
            ] {
                let qp = node.create_qp_of(service, cap(), false).unwrap();
                let qpn = qp.qp_num();
                add(End::Qp(Box::new(qp)), qpn, wire);
            }
            let target = self.xrcd.create_target().unwrap();
            let qpn = target.qp_num();
            add(End::Target(Box::new(target)), qpn, Wire::Xrc);
        }
        for qpn in [0, 1, 0xff_ffff] {
            add(End::Nobody, qpn, Wire::Ud);
        }
    }

    fn receive(&self, index: u64) -> hca_verbs::Sge {
        self.regions[2].sge(index * u64::from(RECEIVE_BYTES) % ROOM, RECEIVE_BYTES)
    }

    /// All QPs as they were at first: connected, with receives; what was in them has gone.
    fn renew(&mut self) {
        let here = identity(1, self.link);
        let mut ends = std::mem::take(&mut self.ends);
        for (index, (end, victim)) in ends.iter_mut().enumerate() {
            victim.psn = 0;
            let peer = PeerInfo {
                qp_num: 0x1000 + index as u32,
                psn: 0,
                gid: self.options.gid_index.map(|index| self.opposite.model_gid(index)),
                lid: here.lid,
                mac: here.mac,
                rd_atomic: 4,
                selective_repeat: false,
            };
            match end {
                End::Qp(qp) => {
                    qp.modify_state(QpState::Reset).unwrap();
                    match qp.service() {
                        Service::Ud => to_rts(qp),
                        _ => connect_raw(qp, &self.options, 0, &peer).unwrap(),
                    }
                    // Most have none.
                    let depth = if index / 4 % 4 == 0 { DEPTH } else { 0 };
                    for wr_id in 0..depth {
                        let sges = [self.receive(wr_id)];
                        qp.post_recv(&[RecvWr { wr_id, sges: &sges }]).unwrap();
                    }
                }
                End::Target(target) => {
                    target.modify_state(QpState::Reset).unwrap();
                    connect_target(target, &self.options, 0, &peer).unwrap();
                }
                End::Nobody => {}
            }
        }
        self.ends = ends;
        while self.srq.free_slots() > 0 {
            let sges = [self.receive(0)];
            self.srq
                .post_recv(&[RecvWr {
                    wr_id: 0,
                    sges: &sges,
                }])
                .unwrap();
        }
        self.opposite.run(2_000);
    }

    /// Lets the card work until everything has left the wire, and some time more; takes what it has to say.
    fn settle(&mut self) {
        let end_ns = self.opposite.now_ns() + LIMIT_NS;
        while self.opposite.model.waiting() > 0 {
            self.opposite.run(1_000);
            assert!(
                self.opposite.now_ns() < end_ns,
                "the card takes nothing more from its wire"
            );
        }
        self.opposite.run(20_000);
        while self.opposite.node.poll_ready().unwrap().is_some() {}
        while self.opposite.node.context.poll_async_event().is_some() {}
    }

    /// Nothing has changed but what was granted.
    fn check_memory(&mut self) {
        for from in [WRITABLE, RECEIVES] {
            let mut found = vec![0; ROOM as usize];
            self.arena.buf().read_bytes(from as usize, &mut found);
            self.arena.expect(from, &found);
        }
        assert_eq!(self.arena.first_difference(), None, "written where nobody may");
    }

    fn counted(&self) -> PortCounters {
        self.opposite.node.context.query_counters(1).unwrap()
    }

    /// Packets that are longer than any may be never leave the link.
    fn too_long(&self) -> u64 {
        let counters = self.opposite.node.context.link_counters(1).unwrap();
        counters.errors.port_rcv_errors().into()
    }

    fn attack(&mut self, rng: &mut Rng, count: usize) -> PortCounters {
        self.renew();
        let (before, come, too_long) = (self.counted(), self.come(), self.too_long());
        let mut ends = std::mem::take(&mut self.ends);
        let each = count.div_ceil(ends.len());
        for left in (0..count).rev() {
            let (_, victim) = &mut ends[left / each];
            self.opposite.model.put(packets::draw(rng, &self.known, victim));
        }
        self.ends = ends;
        self.settle();
        self.check_memory();
        let mut passed = PortCounters::new();
        let after = self.counted();
        macro_rules! pass {
            ($($get:ident $set:ident,)*) => { $( passed.$set(after.$get() - before.$get()); )* };
        }
        pass! {
            rx_packets set_rx_packets, rx_crc_errors set_rx_crc_errors, rx_buffer_drops set_rx_buffer_drops,
            rx_drops set_rx_drops, pkey_violations set_pkey_violations, qkey_violations set_qkey_violations,
            bad_sources set_bad_sources, out_of_sequence set_out_of_sequence, stray_packets set_stray_packets,
            duplicate_requests set_duplicate_requests, naks_sent set_naks_sent, rnr_naks_sent set_rnr_naks_sent,
            datagrams_without_receive set_datagrams_without_receive,
        }
        let told = passed.rx_packets()
            + passed.rx_crc_errors()
            + passed.rx_buffer_drops()
            + passed.rx_drops()
            + (self.too_long() - too_long);
        assert_eq!(
            told,
            self.come() - come,
            "packets of which no counter tells: {passed:?}"
        );
        passed
    }

    /// Packets that have arrived at the card: a switch does not pass on every one.
    fn come(&self) -> u64 {
        let fabric = self.opposite.sim.fabric();
        fabric
            .cable(self.opposite.at_card)
            .stats()
            .b_to_a
            .delivered_packets
    }

    /// A new connection works, in both directions.
    fn check_life(&mut self) {
        let (mut qp, qpn) = self
            .opposite
            .connect(Service::Rc, cap(), &self.options, |_| ())
            .unwrap();
        let sges = [self.receive(0)];
        qp.post_recv(&[RecvWr {
            wr_id: 7,
            sges: &sges,
        }])
        .unwrap();
        let data = vec![0x5a; 64];
        let send = Op::Send {
            imm: None,
            invalidate: None,
        };
        self.opposite.model.post_send(
            qpn,
            SendRequest {
                inline: Some(data.clone()),
                ..SendRequest::new(8, send, vec![])
            },
        );
        let end_ns = self.opposite.now_ns() + LIMIT_NS;
        let wc = loop {
            if let Some(wc) = self.opposite.node.poll().unwrap() {
                break wc;
            }
            assert!(self.opposite.now_ns() < end_ns, "no completion at the card");
        };
        assert_eq!((wc.status, wc.wr_id, wc.byte_len), (WcStatus::Success, 7, 64));
        self.arena.expect(RECEIVES, &data);
        self.check_memory();
        qp.destroy().unwrap();
    }
}

fn to_rts(qp: &mut RawQp<Dev>) {
    let attr = |qp_state| QpAttr {
        qp_state,
        qkey: QKEY,
        port_num: 1,
        ..QpAttr::default()
    };
    let init = QpAttrMask::STATE | QpAttrMask::PKEY_INDEX | QpAttrMask::PORT | QpAttrMask::QKEY;
    qp.modify(&attr(QpState::Init), init).unwrap();
    qp.modify(&attr(QpState::Rtr), QpAttrMask::STATE).unwrap();
    qp.modify(&attr(QpState::Rts), QpAttrMask::STATE | QpAttrMask::SQ_PSN)
        .unwrap();
}

fn siege(seed: u64, link: LinkKind, count: usize) {
    let mut bench = Bench::new(seed, link);
    let mut rng = Rng::new(seed, "packets");
    let mut left = count;
    let mut passed = Vec::new();
    while left > 0 {
        let batch = left.min(BATCH);
        passed.push(bench.attack(&mut rng, batch));
        left -= batch;
        if std::env::var_os("OPERATIONS").is_some() {
            eprint!("\r{link:?}: {left} packets to go   ");
        }
    }
    bench.check_life();
    // What was drawn was of every kind.
    let sum = |of: Count| passed.iter().map(of).sum::<u64>();
    let whole: [(&str, Count); 10] = [
        ("good", PortCounters::rx_packets),
        ("malformed", PortCounters::rx_drops),
        ("of another P_Key", PortCounters::pkey_violations),
        ("of another Q_Key", PortCounters::qkey_violations),
        ("ahead", PortCounters::out_of_sequence),
        ("come before", PortCounters::duplicate_requests),
        ("for nobody", PortCounters::stray_packets),
        ("refused", PortCounters::naks_sent),
        ("too early", PortCounters::rnr_naks_sent),
        ("without a receive", PortCounters::datagrams_without_receive),
    ];
    for (name, of) in whole {
        assert!(sum(of) > 0, "no packets {name}");
        eprintln!("{name}: {}", sum(of));
    }
    if link == LinkKind::Ethernet {
        // A switch keeps these from the card.
        assert!(sum(PortCounters::rx_crc_errors) > 0 && sum(PortCounters::bad_sources) > 0);
    }
}

#[test]
fn sys_7_on_ethernet() {
    siege(1, LinkKind::Ethernet, 2 * BATCH);
}

#[test]
fn sys_7_on_infiniband() {
    siege(5, LinkKind::InfiniBand, 2 * BATCH);
}

/// Longer than the longest packet that there is: the link itself drops it, and says so.
#[test]
fn sys_7_longer_than_any_packet() {
    let mut bench = Bench::new(9, LinkKind::Ethernet);
    let whole = packets::longest(&bench.known);
    for (more, is_too_long) in [(0, false), (64, true), (9000, true)] {
        let (before, too_long) = (bench.counted(), bench.too_long());
        let mut bytes = whole.clone();
        bytes.resize(whole.len() + more, 0);
        bench.opposite.model.put(bytes);
        bench.settle();
        let strays = bench.counted().stray_packets() - before.stray_packets();
        assert_eq!(strays, u64::from(!is_too_long), "{more} more");
        assert_eq!(bench.too_long() - too_long, u64::from(is_too_long), "{more} more");
    }
    bench.renew();
    bench.check_life();
}

/// `make soak OPERATIONS=1000000`; START moves on to seeds not yet seen.
#[test]
#[ignore = "takes as long as OPERATIONS asks for"]
fn soak_of_packets() {
    let number =
        |name: &str, usual| std::env::var(name).map_or(usual, |text| text.parse().expect("a number"));
    let (count, start) = (number("OPERATIONS", 1_000_000), number("START", 1));
    for (seed, link) in (start..).zip([LinkKind::Ethernet, LinkKind::InfiniBand]) {
        siege(seed, link, count as usize / 2);
    }
}
