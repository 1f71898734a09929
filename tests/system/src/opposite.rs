//! A card on one end of a cable, and on the other the reference model (`hca-model`): an independent reading of the
//! specification, with which the card has to get along packet by packet.

use hca_cosim::{CableId, CardConfig, CardId, Fabric, Plug, Simulation};
use hca_host::PcieParams;
use hca_link::{CableConfig, FaultSpec, LinkKind};
use hca_model::{Access, Manners, QpConfig};
use hca_switch::IbSwitchConfig;
use hca_verbs::{
    ConnectOptions, PeerInfo, QpCap, RawQp, Service, connect_raw, gid_of_ipv4, link_local_gid_of_mac,
};
use hca_wire::{Link, Network, Psn, ethernet, grh, ipv4, ipv6, lrh, udp};

use crate::judge::Judge;
use crate::node::{Dev, Node};
use crate::rig::{RigError, identity};
use crate::station::CYCLE_NS;

pub use crate::station::{Filter, ModelPort, Seen, Way};

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
    /// The cable at the card, which is its end A.
    pub at_card: CableId,
    /// The card's driver.
    pub node: Node,
    /// The model.
    pub model: ModelPort,
    /// Judges both, where nothing is lost on purpose between the cable and the model.
    pub judge: Judge,
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
        let mut cables = Vec::new();
        if config.link == LinkKind::InfiniBand {
            let (cable, plug) = lay_switch(&mut fabric, near)?;
            cables.push(cable);
            near = plug;
        }
        let cable = CableConfig {
            faults: config.faults,
            ..CableConfig::new("link", config.link)
        };
        let cable = fabric.plug([near, Plug::Peer(peer)], cable)?;
        cables.push(cable);
        let judge = Judge::listen(&mut fabric, &cables);
        let sim = Simulation::new(fabric);
        let node = Node::open(sim.device(card, 0)?, 4096)?;
        Ok(Self {
            sim,
            card,
            cable,
            at_card: cables[0],
            node,
            model,
            judge,
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
            selective_repeat: false,
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
            access: Access::REMOTE_READ | Access::REMOTE_WRITE | Access::REMOTE_ATOMIC | Access::FLUSH_GLOBAL,
            manners: Manners::default(),
            ..match service {
                Service::Uc => QpConfig::uc(qpn, qp.qp_num(), link),
                _ => QpConfig::rc(qpn, qp.qp_num(), link),
            }
        };
        change(&mut config);
        let service = config.service;
        let credits = [options.credits, config.manners.credits];
        self.judge
            .connect_ends(service, [qp.qp_num(), qpn], options, credits);
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

/// A switch at the card; returns the cable to it, and its free port, towards the model.
fn lay_switch(fabric: &mut Fabric, near: Plug) -> Result<(CableId, Plug), RigError> {
    let switch = fabric.add_switch(IbSwitchConfig::new("switch", 2))?;
    for node in 0..2 {
        let lid = identity(node, LinkKind::InfiniBand).lid;
        let tables = fabric.net_mut().switch_mut(switch).forwarding_mut();
        tables
            .set_unicast(lid, node + 1)
            .map_err(hca_cosim::SimError::from)?;
    }
    let cable = CableConfig::new("near", LinkKind::InfiniBand);
    let cable = fabric.plug([near, Plug::Switch(switch, 1)], cable)?;
    Ok((cable, Plug::Switch(switch, 2)))
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
