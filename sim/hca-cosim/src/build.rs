//! A fabric from a topology.

use hca_outside::{Host, Wire};
use hca_switch::{EthSwitchConfig, EthSwitchId, SwitchId};
use hca_topology::{EndSpec, IbSwitchSpec, PortSpec, SwitchRoutes, SwitchSpec, Topology};

use crate::fabric::{CableId, CardId, Fabric, Plug, split_seed};
use crate::{CardConfig, Design, Identity, Neighbour, OpVls, SimError};

/// What a topology has become; cards, switches and cables in its order.
pub struct Built {
    /// The fabric.
    pub fabric: Fabric,
    /// Its cards.
    pub cards: Vec<CardId>,
    /// Its switches.
    pub switches: Vec<BuiltSwitch>,
    /// Its cables.
    pub cables: Vec<CableId>,
}

/// A switch of either kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BuiltSwitch {
    /// An InfiniBand switch.
    InfiniBand(SwitchId),
    /// An Ethernet switch.
    Ethernet(EthSwitchId),
}

impl BuiltSwitch {
    /// One of its ports.
    pub fn plug(self, port: u8) -> Plug {
        match self {
            Self::InfiniBand(id) => Plug::Switch(id, port),
            Self::Ethernet(id) => Plug::EthSwitch(id, port),
        }
    }
}

/// What the firmware of card `index` gets: addresses of its ports, and what a subnet manager would tell them.
pub fn identities(topology: &Topology, index: usize) -> Vec<Identity> {
    let identity = |(port, spec): (u8, &PortSpec)| Identity {
        guid: spec.guid,
        mac: spec.mac,
        ipv4: spec.ipv4,
        ipv6: spec.ipv6,
        lid: if spec.is_managed { 0 } else { spec.lid },
        infiniband: spec.kind == hca_link::LinkKind::InfiniBand,
        self_active: !spec.is_managed,
        peer_vls: peer_vls(topology, EndSpec::Card(index, port)),
        rate_mbps: rate_mbps(topology, EndSpec::Card(index, port)),
    };
    (1..).zip(&topology.cards[index].ports).map(identity).collect()
}

/// Rate of a port's cable; 0: it has none.
fn rate_mbps(topology: &Topology, end: EndSpec) -> u32 {
    const BITS_PER_MBIT: u64 = 1_000_000;
    let link = topology.links.iter().find(|link| link.ends.contains(&end));
    let mbps = link.map_or(0, |link| link.cable.rate_bits_per_s / BITS_PER_MBIT);
    u32::try_from(mbps).unwrap_or(u32::MAX)
}

/// Who has which GID where the Ethernet ports of card `index` lead to.
fn neighbours(topology: &Topology, index: usize) -> Vec<Neighbour> {
    let mut known = Vec::new();
    for (port_num, port) in (1..).zip(&topology.cards[index].ports) {
        if port.kind == hca_link::LinkKind::Ethernet {
            for (card, far) in topology.reachable(index, port_num) {
                let identity = identities(topology, card)[usize::from(far) - 1];
                known.extend(identity.neighbours(port_num));
            }
        }
    }
    known
}

/// Ports of card `index` that have a wire to the outside, and who is there. The wires answer for them from now on.
fn wires_of(topology: &Topology, index: usize, wires: &[Wire]) -> Vec<(u8, hca_outside::Neighbours)> {
    let mut found = Vec::new();
    for link in &topology.links {
        if let [EndSpec::Card(card, port), EndSpec::Outside(peer)] = link.ends
            && card == index
        {
            let identity = identities(topology, card)[usize::from(port) - 1];
            wires[peer].set_host(Host::of_gids(identity.mac, &identity.gids()));
            found.push((port, wires[peer].neighbours()));
        }
    }
    found
}

/// VL-4: data VLs of what is at the other end of a port's cable. Cards are all built alike.
fn peer_vls(topology: &Topology, end: EndSpec) -> OpVls {
    let link = topology.links.iter().find(|link| link.ends.contains(&end));
    let switch = link.and_then(|link| {
        link.ends.iter().find_map(|end| match end {
            EndSpec::Switch(switch, _) => topology.switches.get(*switch),
            EndSpec::Card(..) | EndSpec::Outside(_) => None,
        })
    });
    match switch {
        Some(SwitchSpec::InfiniBand(switch)) => {
            OpVls::at_most(switch.config.data_vls.into()).unwrap_or(OpVls::One)
        }
        _ => OpVls::Fifteen,
    }
}

impl Fabric {
    /// Builds cards with their native firmware, switches with their tables, and cables.
    pub fn from_topology(topology: &Topology, seed: u64) -> Result<Built, SimError> {
        let mut fabric = Self::new(seed);
        let mut wires = Vec::new();
        for peer in &topology.peers {
            wires.push(Wire::open(peer.clone())?);
        }
        let mut cards = Vec::new();
        for (index, card) in topology.cards.iter().enumerate() {
            let design = match card.is_model {
                true => Design::Model,
                false => Design::chosen(),
            };
            cards.push(fabric.add_card(CardConfig {
                pcie: card.pcie.clone(),
                ..CardConfig::with_wires(
                    design,
                    &card.name,
                    &identities(topology, index),
                    card.quotas(),
                    &neighbours(topology, index),
                    wires_of(topology, index, &wires),
                )
            })?);
        }
        let mut switches = Vec::new();
        for (switch, routes) in topology.switches.iter().zip(topology.routes()) {
            switches.push(match switch {
                SwitchSpec::InfiniBand(switch) => {
                    BuiltSwitch::InfiniBand(fabric.build_ib_switch(switch, &routes)?)
                }
                SwitchSpec::Ethernet(config) => {
                    let config = EthSwitchConfig {
                        seed: split_seed(seed, &config.name),
                        ..config.clone()
                    };
                    BuiltSwitch::Ethernet(fabric.build_eth_switch(config, topology, &routes)?)
                }
            });
        }
        let outsides = wires.into_iter().map(|wire| fabric.add_outside(wire));
        let outsides: Vec<_> = outsides.collect();
        let mut cables = Vec::new();
        for link in &topology.links {
            let plug = |end| match end {
                EndSpec::Card(card, port) => Plug::CardPort(cards[card], port),
                EndSpec::Switch(switch, port) => switches[switch].plug(port),
                EndSpec::Outside(peer) => Plug::Outside(outsides[peer]),
            };
            cables.push(fabric.plug(link.ends.map(plug), link.cable.clone())?);
        }
        // Ports have an arbiter of their own once they have a cable.
        for (switch, built) in topology.switches.iter().zip(&switches) {
            let (SwitchSpec::InfiniBand(switch), BuiltSwitch::InfiniBand(id)) = (switch, built) else {
                continue;
            };
            for (port, config) in &switch.arbitration {
                let switch = fabric.net_mut().switch_mut(*id);
                switch.set_arbitration(*port, config.clone())?;
            }
        }
        Ok(Built {
            fabric,
            cards,
            switches,
            cables,
        })
    }

    fn build_ib_switch(
        &mut self,
        switch: &IbSwitchSpec,
        routes: &SwitchRoutes,
    ) -> Result<SwitchId, SimError> {
        let id = self.add_switch(switch.config.clone())?;
        let built = self.net_mut().switch_mut(id);
        if switch.config.is_managed {
            // A subnet manager finds the ways.
            return Ok(id);
        }
        for (lid, port) in &routes.unicast {
            built.forwarding_mut().set_unicast(*lid, *port)?;
        }
        for (mlid, port) in &routes.multicast {
            built.forwarding_mut().add_multicast(*mlid, *port)?;
        }
        for (from, to, table) in &switch.sl2vl {
            built.set_sl2vl(*from, *to, *table)?;
        }
        Ok(id)
    }

    fn build_eth_switch(
        &mut self,
        config: EthSwitchConfig,
        topology: &Topology,
        routes: &SwitchRoutes,
    ) -> Result<EthSwitchId, SimError> {
        let id = self.add_eth_switch(config)?;
        let built = self.net_mut().eth_switch_mut(id);
        for (card, number, port) in &routes.cards {
            if let Some(spec) = topology.cards[*card].port(*number) {
                built.set_address(spec.mac, *port)?;
            }
        }
        built.set_flood_ports(routes.flood.iter().copied())?;
        Ok(id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hca_link::{CableConfig, LinkKind};

    /// V-35: a port knows the rate of its own cable.
    #[test]
    fn rates_are_those_of_the_cables() {
        let cable = |rate_gbps: u64| CableConfig {
            rate_bits_per_s: rate_gbps * 1_000_000_000,
            ..CableConfig::new("", LinkKind::Ethernet)
        };
        let topology = Topology::pairs_of(2, &[cable(25), cable(200)]).unwrap();
        for card in 0..2 {
            let rates: Vec<u32> = identities(&topology, card)
                .iter()
                .map(|port| port.rate_mbps)
                .collect();
            assert_eq!(rates, [25_000, 200_000]);
        }
    }
}
