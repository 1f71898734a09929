//! Static rate: one card sends to two others through a switch. A destination that is held gets its rate; the other one
//! loses nothing by it.

use hca_cosim::{BuiltSwitch, CableId, CardConfig, Fabric, Simulation};
use hca_link::{CableConfig, Dir, LinkKind};
use hca_switch::{EthSwitchConfig, IbSwitchConfig};
use hca_system_tests::{Dev, Node, Place, connect, identity, path};
use hca_verbs::{
    Access, ConnectOptions, Mr, Mtu, QpAttr, QpAttrMask, QpCap, QpState, RawQp, SendFlags, SendOp, SendWr,
    Service, Sge, StaticRate, WrData,
};

const LINKS: [LinkKind; 2] = [LinkKind::InfiniBand, LinkKind::Ethernet];
const CLOCK_HZ: f64 = 250e6;
/// Bytes of a message.
const LEN: u32 = 65536;
/// Messages of a flow under way, and if they are small.
const DEPTH: u32 = 8;
const SMALL_DEPTH: u32 = 64;
/// Before the measurement, and its length, in cycles.
const WARM_UP: u64 = 8_000;
const WINDOW: u64 = 40_000;

/// Cards 0, 1 and 2 at the ports 1, 2 and 3 of a switch.
struct Star {
    sim: Simulation,
    nodes: Vec<Node>,
    /// Of each card; its end A is at the card.
    cables: Vec<CableId>,
    memory: Vec<Mr<Dev>>,
}

/// A QP of one card that always has something to do.
struct Flow {
    from: usize,
    qps: [RawQp<Dev>; 2],
    op: SendOp,
    local: Sge,
    depth: u32,
    posted: u32,
}

impl Star {
    fn new(link: LinkKind) -> Self {
        let mut fabric = Fabric::new(1);
        let cards = [0, 1, 2].map(|index: u8| {
            let config = CardConfig::core(&format!("card{index}"), identity(index, link));
            fabric.add_card(config).unwrap()
        });
        let switch = match link {
            LinkKind::InfiniBand => {
                let id = fabric.add_switch(IbSwitchConfig::new("switch", 3)).unwrap();
                let tables = fabric.net_mut().switch_mut(id).forwarding_mut();
                for index in 0..3 {
                    tables.set_unicast(identity(index, link).lid, index + 1).unwrap();
                }
                BuiltSwitch::InfiniBand(id)
            }
            LinkKind::Ethernet => {
                let id = fabric.add_eth_switch(EthSwitchConfig::new("switch", 3)).unwrap();
                for index in 0..3 {
                    let mac = identity(index, link).mac;
                    fabric
                        .net_mut()
                        .eth_switch_mut(id)
                        .set_address(mac, index + 1)
                        .unwrap();
                }
                BuiltSwitch::Ethernet(id)
            }
        };
        let cables = (1..).zip(cards).map(|(port, card)| {
            let config = CableConfig::new(&format!("link{port}"), link);
            fabric
                .plug([hca_cosim::Plug::Card(card), switch.plug(port)], config)
                .unwrap()
        });
        let cables = cables.collect();
        let sim = Simulation::new(fabric);
        let nodes: Vec<_> = cards
            .iter()
            .map(|card| Node::open(sim.device(*card, 0).unwrap(), 256).unwrap())
            .collect();
        let access = Access::LOCAL_WRITE | Access::REMOTE_WRITE | Access::REMOTE_READ;
        let memory = (1u64..).zip(&nodes).map(|(index, node)| {
            let buf = node.alloc(LEN as usize).unwrap();
            node.register(&buf, Place::whole(&buf, access, index << 40))
                .unwrap()
        });
        let memory = memory.collect();
        Self {
            sim,
            nodes,
            cables,
            memory,
        }
    }

    /// WRITEs of one card to another, or READs of one from another; `rate` is that of the path, seen from both.
    fn flow(&self, from: usize, to: usize, read: bool, rate: StaticRate) -> Flow {
        self.flow_of(Service::Rc, LEN, from, to, read, rate)
    }

    /// The same of any connected service, with messages of any length.
    fn flow_of(
        &self,
        service: Service,
        len: u32,
        from: usize,
        to: usize,
        read: bool,
        rate: StaticRate,
    ) -> Flow {
        let depth = if len < LEN { SMALL_DEPTH } else { DEPTH };
        let cap = QpCap {
            max_send_wr: depth,
            ..QpCap::default()
        };
        let mut qps = [from, to].map(|node| self.nodes[node].create_qp_of(service, cap, false).unwrap());
        let options = ConnectOptions {
            static_rate: rate.into(),
            timeout: 14,
            ..path(Mtu::Bytes4096)
        };
        connect(&mut qps, &options).unwrap();
        let (remote_addr, rkey) = (self.memory[to].addr(), self.memory[to].rkey());
        Flow {
            from,
            qps,
            op: if read {
                SendOp::RdmaRead { remote_addr, rkey }
            } else {
                SendOp::RdmaWrite { remote_addr, rkey }
            },
            local: self.memory[from].sge(0, len),
            depth,
            posted: 0,
        }
    }

    /// Keeps the flows busy for so many cycles.
    fn run(&self, flows: &mut [Flow], cycles: u64) {
        let end = self.sim.fabric().now() + cycles;
        while self.sim.fabric().now() < end {
            for flow in flows.iter_mut() {
                while flow.posted < flow.depth {
                    let wr = SendWr {
                        wr_id: flow.qps[0].qp_num().into(),
                        op: flow.op,
                        flags: SendFlags::SIGNALED,
                        data: WrData::Sges(&[flow.local]),
                    };
                    flow.qps[0].post_send(&[wr]).unwrap();
                    flow.posted += 1;
                }
            }
            self.sim.fabric().run(200);
            for (index, node) in self.nodes.iter().enumerate() {
                while let Some(wc) = node.poll().unwrap() {
                    assert!(wc.is_ok(), "{wc:?}");
                    let mine = |f: &&mut Flow| f.from == index && u64::from(f.qps[0].qp_num()) == wc.wr_id;
                    // None: of a flow that has been given up.
                    if let Some(flow) = flows.iter_mut().find(mine) {
                        flow.posted -= 1;
                    }
                }
            }
        }
    }

    /// Bits per second on the wire towards each card, in units of 1 Gbit/s, while the flows are busy.
    fn measure(&self, flows: &mut [Flow]) -> [f64; 3] {
        let bytes = || {
            let fabric = self.sim.fabric();
            [0, 1, 2].map(|card: usize| fabric.cable(self.cables[card]).stats().dir(Dir::BToA).wire_bytes)
        };
        self.run(flows, WARM_UP);
        let start = self.sim.fabric().now();
        let before = bytes();
        self.run(flows, WINDOW);
        let end = self.sim.fabric().now();
        let (seconds, after) = ((end - start) as f64 / CLOCK_HZ, bytes());
        [0, 1, 2].map(|card| (after[card] - before[card]) as f64 * 8.0 / seconds / 1e9)
    }
}

#[track_caller]
fn close(what: &str, measured: f64, wanted: f64, share: f64) {
    println!("STATIC RATE {what}: {measured:.2} Gbit/s, wanted {wanted:.2}");
    assert!(
        (measured - wanted).abs() <= wanted * share,
        "{what}: {measured:.2} Gbit/s instead of {wanted:.2}"
    );
}

/// RATE-1, RATE-3, RATE-4, RATE-7: a destination held at 25 Gbit/s gets them, beside one without a rate that gets all
/// the rest, and beside one of 50 Gbit/s that gets what it gets alone.
#[test]
fn a_held_destination_holds_nobody_back() {
    for link in LINKS {
        let star = Star::new(link);
        let mut held = [star.flow(0, 1, false, StaticRate::Gbps25)];
        let alone = star.measure(&mut held)[1];
        close("25 alone", alone, 25.0, 0.02);
        drop(held);

        let star = Star::new(link);
        let mut free = [star.flow(0, 2, false, StaticRate::Max)];
        let line = star.measure(&mut free)[2];
        let [free] = free;
        let mut both = [free, star.flow(0, 1, false, StaticRate::Gbps25)];
        let [_, slow, fast] = star.measure(&mut both);
        close("25 beside the line", slow, 25.0, 0.02);
        close("line beside 25", slow + fast, line, 0.01);

        let star = Star::new(link);
        let mut fast = [star.flow(0, 2, false, StaticRate::Gbps50)];
        let alone = star.measure(&mut fast)[2];
        close("50 alone", alone, 50.0, 0.02);
        let [fast] = fast;
        let mut both = [fast, star.flow(0, 1, false, StaticRate::Gbps25)];
        let [_, slow, fast] = star.measure(&mut both);
        close("25 beside 50", slow, 25.0, 0.02);
        close("50 beside 25", fast, alone, 0.01);
    }
}

/// RATE-4: the rate is the destination's: QPs to it share it, and READ responses are held with WRITEs.
#[test]
fn read_responses_are_held_too() {
    for link in LINKS {
        let star = Star::new(link);
        let mut flows = [
            star.flow(1, 0, true, StaticRate::Gbps25),
            star.flow(2, 0, true, StaticRate::Max),
        ];
        let [_, slow, fast] = star.measure(&mut flows);
        close("READ responses at 25", slow, 25.0, 0.02);
        assert!(fast > 70.0, "the other one gets {fast:.2} Gbit/s");
        let [slow, fast] = flows;
        let mut flows = [slow, fast, star.flow(0, 1, false, StaticRate::Gbps25)];
        let [_, slow, other] = star.measure(&mut flows);
        close("READ responses and WRITEs at 25", slow, 25.0, 0.02);
        assert!(other > 70.0, "the other one gets {other:.2} Gbit/s");
    }
}

/// RATE-1: every byte of a packet counts, whatever the service: small messages, which are headers for the most part.
#[test]
fn small_messages_of_every_service_are_held() {
    for link in LINKS {
        for service in [Service::Rc, Service::Uc] {
            let star = Star::new(link);
            let mut flows = [star.flow_of(service, 64, 0, 1, false, StaticRate::Gbps2p5)];
            let rate = star.measure(&mut flows)[1];
            close(&format!("{link:?}, {service:?}, 64 B"), rate, 2.5, 0.03);
        }
    }
}

/// RATE-6: a paced QP keeps its own rate, whatever others do to the same destination; query tells it; 0 ends it.
#[test]
fn a_paced_qp_keeps_its_rate() {
    let star = Star::new(LinkKind::Ethernet);
    let device = star.nodes[0].context.query_device().unwrap();
    assert!(device.pacing_min_kbps() <= 8_000 && device.pacing_max_kbps() == 100_000_000);
    assert_eq!(device.pacing_qp_types(), 1 << 2, "RC");
    let mut flows = [star.flow(0, 1, false, StaticRate::Max)];
    let pace = |flow: &mut Flow, rate_limit| {
        let attr = QpAttr {
            qp_state: QpState::Rts,
            rate_limit,
            ..QpAttr::default()
        };
        flow.qps[0]
            .modify(&attr, QpAttrMask::STATE | QpAttrMask::RATE_LIMIT)
            .map(|()| {
                assert_eq!(flow.qps[0].query().unwrap().rate_limit, rate_limit);
            })
    };
    pace(&mut flows[0], 12_500_000).unwrap();
    close("paced", star.measure(&mut flows)[1], 12.5, 0.02);
    assert_eq!(
        pace(&mut flows[0], device.pacing_min_kbps() - 1)
            .unwrap_err()
            .errno(),
        22
    );
    let [paced] = flows;
    let mut flows = [paced, star.flow(0, 1, false, StaticRate::Max)];
    let both = star.measure(&mut flows)[1];
    assert!(both > 90.0, "{both:.2} Gbit/s");
    pace(&mut flows[0], 0).unwrap();
    let [free, _] = flows;
    let alone = star.measure(&mut [free])[1];
    assert!(alone > 90.0, "{alone:.2} Gbit/s");
}
