//! A card on one end of a cable, and on the other the reference model (`hca-model`): an independent reading of the
//! specification, with which the card has to get along packet by packet.

use std::cell::RefCell;
use std::rc::Rc;

use hca_cosim::{CableId, CardConfig, CardId, Fabric, Peer, Plug, Simulation};
use hca_host::PcieParams;
use hca_link::{CableConfig, FaultSpec, LinkKind};
use hca_model::{Access, Completion, Frame, Manners, Model, ModelEvent, QpConfig, RecvRequest, SendRequest};
use hca_switch::IbSwitchConfig;
use hca_verbs::{
    ConnectOptions, PeerInfo, QpCap, RawQp, Service, connect_raw, gid_of_ipv4, link_local_gid_of_mac,
};
use hca_wire::{Framing, Link, Network, Psn, ethernet, grh, ipv4, ipv6, lrh, udp};

use crate::node::{Dev, Node};
use crate::rig::{RigError, identity};

/// Nanoseconds of a cycle of the card.
const CYCLE_NS: u64 = 4;

/// Which way a packet goes, as the model sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// From the card.
    In,
    /// To the card.
    Out,
}

/// A packet at the model.
#[derive(Clone, Debug)]
pub struct Seen {
    /// When.
    pub ns: u64,
    /// Which way.
    pub way: Way,
    /// What.
    pub frame: Frame,
}

/// Looks at a packet at the model; false: it is lost.
pub type Filter = Box<dyn FnMut(Way, &Frame) -> bool>;

struct Station {
    model: Model,
    framing: Framing,
    now_ns: u64,
    /// There may be something to send that no packet and no timer tells of.
    posted: bool,
    filter: Option<Filter>,
    log: Option<Vec<Seen>>,
}

impl Station {
    /// Whether a packet goes on.
    fn passes(&mut self, way: Way, frame: &Frame) -> bool {
        let passes = self.filter.as_mut().is_none_or(|filter| filter(way, frame));
        if let Some(log) = &mut self.log {
            log.push(Seen {
                ns: self.now_ns,
                way,
                frame: frame.clone(),
            });
        }
        passes
    }
}

/// The model's end of the cable, shared between the fabric and a test.
#[derive(Clone)]
pub struct ModelPort(Rc<RefCell<Station>>);

impl ModelPort {
    fn new(kind: LinkKind) -> Self {
        Self(Rc::new(RefCell::new(Station {
            model: Model::new(),
            framing: match kind {
                LinkKind::Ethernet => Framing::Ethernet,
                LinkKind::InfiniBand => Framing::InfiniBand,
            },
            now_ns: 0,
            posted: false,
            filter: None,
            log: None,
        })))
    }

    /// Does something with the model, after which it may have something to send.
    pub fn with<T>(&self, action: impl FnOnce(&mut Model) -> T) -> T {
        let mut station = self.0.borrow_mut();
        station.posted = true;
        action(&mut station.model)
    }

    /// Posts a send request.
    pub fn post_send(&self, qpn: u32, request: SendRequest) {
        self.with(|model| model.post_send(qpn, request))
            .unwrap_or_else(|error| panic!("{error}"));
    }

    /// Posts a receive.
    pub fn post_recv(&self, qpn: u32, request: RecvRequest) {
        self.with(|model| model.post_recv(qpn, request))
            .unwrap_or_else(|error| panic!("{error}"));
    }

    /// The oldest completion.
    pub fn poll(&self) -> Option<Completion> {
        self.with(Model::poll_completion)
    }

    /// The oldest event.
    pub fn poll_event(&self) -> Option<ModelEvent> {
        self.with(Model::poll_event)
    }

    /// From now on packets pass this, in both directions.
    pub fn set_filter(&self, filter: impl FnMut(Way, &Frame) -> bool + 'static) {
        self.0.borrow_mut().filter = Some(Box::new(filter));
    }

    /// Everything passes.
    pub fn clear_filter(&self) {
        self.0.borrow_mut().filter = None;
    }

    /// From now on packets are kept, lost ones too.
    pub fn keep_log(&self) {
        self.0.borrow_mut().log = Some(Vec::new());
    }

    /// What has been kept; it is kept on.
    pub fn take_log(&self) -> Vec<Seen> {
        self.0
            .borrow_mut()
            .log
            .as_mut()
            .map(std::mem::take)
            .unwrap_or_default()
    }
}

impl Peer for ModelPort {
    fn next_cycle(&self) -> Option<u64> {
        let station = self.0.borrow();
        let timeout = station.model.next_timeout().map(|ns| ns.div_ceil(CYCLE_NS));
        if station.posted { Some(0) } else { timeout }
    }

    fn receive(&mut self, now: u64, bytes: &[u8]) {
        let mut station = self.0.borrow_mut();
        station.now_ns = now * CYCLE_NS;
        if let Some(frame) = Frame::parse(station.framing, bytes)
            && station.passes(Way::In, &frame)
        {
            let ns = station.now_ns;
            station.model.handle_frame(ns, &frame);
            station.posted = true;
        }
    }

    fn transmit(&mut self, now: u64) -> Option<Vec<u8>> {
        let mut station = self.0.borrow_mut();
        let ns = now * CYCLE_NS;
        station.now_ns = ns;
        station.model.handle_timeout(ns);
        while let Some(bytes) = station.model.poll_transmit(ns) {
            let frame = Frame::parse(station.framing, &bytes);
            if frame.is_some_and(|frame| station.passes(Way::Out, &frame)) {
                return Some(bytes);
            }
        }
        station.posted = false;
        None
    }
}

/// What an encounter is made of.
#[derive(Clone, Debug)]
pub struct OppositeConfig {
    /// Root seed.
    pub seed: u64,
    /// Personality of the card's port.
    pub link: LinkKind,
    /// Faults between the two.
    pub faults: FaultSpec,
    /// Host side of the card.
    pub pcie: PcieParams,
}

impl OppositeConfig {
    /// No faults, default PCIe.
    pub fn new(seed: u64, link: LinkKind) -> Self {
        Self {
            seed,
            link,
            faults: FaultSpec::default(),
            pcie: PcieParams::default(),
        }
    }
}

/// A card with its driver, and the model.
pub struct Opposite {
    /// The simulation; not to be borrowed across calls of the node.
    pub sim: Simulation,
    /// The card.
    pub card: CardId,
    /// The cable at the model; the card is at end A, behind a switch on InfiniBand.
    pub cable: CableId,
    /// The card's driver.
    pub node: Node,
    /// The model.
    pub model: ModelPort,
    link: LinkKind,
    next_qpn: u32,
}

impl Opposite {
    /// Builds both.
    pub fn new(config: &OppositeConfig) -> Result<Self, RigError> {
        let mut fabric = Fabric::new(config.seed);
        let ports = [identity(0, config.link)];
        let card = fabric.add_card(CardConfig {
            pcie: config.pcie.clone(),
            ..CardConfig::with_shares("card0", &ports, 4, &[])
        })?;
        let model = ModelPort::new(config.link);
        let peer = fabric.add_peer(Box::new(model.clone()));
        let mut near = Plug::Card(card);
        if config.link == LinkKind::InfiniBand {
            near = lay_switch(&mut fabric, near)?;
        }
        let cable = CableConfig {
            faults: config.faults,
            ..CableConfig::new("link", config.link)
        };
        let cable = fabric.plug([near, Plug::Peer(peer)], cable)?;
        let sim = Simulation::new(fabric);
        let node = Node::open(sim.device(card, 0)?, 4096)?;
        Ok(Self {
            sim,
            card,
            cable,
            node,
            model,
            link: config.link,
            next_qpn: 0x100,
        })
    }

    /// Connects a QP of the card with one of the model; `options.psns` are the card's and the model's first PSNs.
    /// Returns the model's QPN too. `change` sees what the model's QP is made from.
    pub fn connect(
        &mut self,
        service: Service,
        cap: QpCap,
        options: &ConnectOptions,
        change: impl FnOnce(&mut QpConfig),
    ) -> Result<(RawQp<Dev>, u32), RigError> {
        let mut qp = self.node.create_qp_of(service, cap, false)?;
        let there = identity(1, self.link);
        let gid = options.gid_index.map(|index| gid_of(1, self.link, index));
        self.next_qpn += 0x11;
        let qpn = self.next_qpn;
        let peer = PeerInfo {
            qp_num: qpn,
            psn: options.psns.1,
            gid,
            lid: there.lid,
            mac: there.mac,
            rd_atomic: options.rd_atomic,
        };
        connect_raw(&mut qp, options, options.psns.0, &peer)?;
        let link = self.link_to_card(options.gid_index);
        let mut config = QpConfig {
            mtu: options.mtu,
            sq_psn: Psn::new(options.psns.1),
            rq_psn: Psn::new(options.psns.0),
            timeout: options.timeout,
            retry_cnt: options.retry_cnt,
            rnr_retry: options.rnr_retry,
            min_rnr_timer: options.min_rnr_timer,
            max_rd_atomic: options.rd_atomic,
            max_dest_rd_atomic: options.rd_atomic,
            access: Access::REMOTE_READ | Access::REMOTE_WRITE | Access::REMOTE_ATOMIC,
            manners: Manners::default(),
            ..match service {
                Service::Uc => QpConfig::uc(qpn, qp.qp_num(), link),
                _ => QpConfig::rc(qpn, qp.qp_num(), link),
            }
        };
        change(&mut config);
        let made = self.model.with(|model| model.create_qp(config));
        made.map_err(|error| RigError::Wrong(error.to_string()))?;
        Ok((qp, qpn))
    }

    /// Headers from the model to the card, with the GIDs of an index, or without any.
    pub fn link_to_card(&self, gid_index: Option<u8>) -> Link {
        link_between(1, self.link, gid_index)
    }

    /// GID of the model.
    pub fn model_gid(&self, index: u8) -> [u8; 16] {
        gid_of(1, self.link, index)
    }

    /// Simulated time in nanoseconds.
    pub fn now_ns(&self) -> u64 {
        self.sim.fabric().now() * CYCLE_NS
    }

    /// Lets `cycles` pass.
    pub fn run(&self, cycles: u64) {
        self.sim.fabric().run(cycles);
    }
}

/// A switch at the card; returns its free port, towards the model.
fn lay_switch(fabric: &mut Fabric, near: Plug) -> Result<Plug, RigError> {
    let switch = fabric.add_switch(IbSwitchConfig::new("switch", 2))?;
    for node in 0..2 {
        let lid = identity(node, LinkKind::InfiniBand).lid;
        let tables = fabric.net_mut().switch_mut(switch).forwarding_mut();
        tables
            .set_unicast(lid, node + 1)
            .map_err(hca_cosim::SimError::from)?;
    }
    let cable = CableConfig::new("near", LinkKind::InfiniBand);
    fabric.plug([near, Plug::Switch(switch, 1)], cable)?;
    Ok(Plug::Switch(switch, 2))
}

/// GID of node `index` of a pair (ADDR-6): on Ethernet 1 is the IPv4 one.
fn gid_of(index: u8, link: LinkKind, gid_index: u8) -> [u8; 16] {
    let identity = identity(index, link);
    match (link, gid_index) {
        (LinkKind::Ethernet, 0) => link_local_gid_of_mac(identity.mac),
        (LinkKind::Ethernet, _) => gid_of_ipv4(identity.ipv4),
        (LinkKind::InfiniBand, _) => {
            let mut gid = [0; 16];
            gid[..2].copy_from_slice(&[0xfe, 0x80]);
            gid[8..].copy_from_slice(&identity.guid);
            gid
        }
    }
}

/// Headers of a packet from node `from` of a pair to the other one.
pub fn link_between(from: u8, link: LinkKind, gid_index: Option<u8>) -> Link {
    let [source, target] = [from, 1 - from].map(|node| identity(node, link));
    let gids = |index| [from, 1 - from].map(|node| gid_of(node, link, index));
    match link {
        LinkKind::Ethernet => Link::Ethernet {
            eth: ethernet::Repr {
                src_mac: source.mac,
                dst_mac: target.mac,
                ..Default::default()
            },
            vlan: None,
            ip: match gid_index {
                Some(0) => Network::Ipv6(ipv6::Repr {
                    hop_limit: 64,
                    src_addr: gids(0)[0],
                    dst_addr: gids(0)[1],
                    ..Default::default()
                }),
                _ => Network::Ipv4(ipv4::Repr {
                    ttl: 64,
                    dont_fragment: true,
                    src_addr: source.ipv4,
                    dst_addr: target.ipv4,
                    ..Default::default()
                }),
            },
            udp: udp::Repr {
                src_port: 0xc000,
                ..Default::default()
            },
        },
        LinkKind::InfiniBand => Link::InfiniBand {
            lrh: lrh::Repr {
                slid: source.lid,
                dlid: target.lid,
                ..Default::default()
            },
            grh: gid_index.map(|index| grh::Repr {
                hop_limit: 64,
                sgid: gids(index)[0],
                dgid: gids(index)[1],
                ..Default::default()
            }),
        },
    }
}
