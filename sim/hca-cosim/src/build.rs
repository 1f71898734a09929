//! A fabric from a topology.

use hca_switch::SwitchId;
use hca_topology::{CardSpec, EndSpec, SwitchRoutes, SwitchSpec, Topology};

use crate::fabric::{CableId, CardId, Fabric, Plug};
use crate::{CardConfig, Identity, SimError};

/// What a topology has become; cards, switches and cables in its order.
pub struct Built {
    /// The fabric.
    pub fabric: Fabric,
    /// Its cards.
    pub cards: Vec<CardId>,
    /// Its switches.
    pub switches: Vec<SwitchId>,
    /// Its cables.
    pub cables: Vec<CableId>,
}

/// Addresses of a card as its firmware gets them.
pub fn identity(card: &CardSpec) -> Identity {
    Identity {
        guid: card.guid,
        mac: card.mac,
        ipv4: card.ipv4,
        lid: card.lid,
        infiniband: card.kind == hca_link::LinkKind::InfiniBand,
        self_active: true,
    }
}

impl Fabric {
    /// Builds cards with their native firmware, switches with their tables, and cables.
    pub fn from_topology(topology: &Topology, seed: u64) -> Result<Built, SimError> {
        let mut fabric = Self::new(seed);
        let mut cards = Vec::new();
        for card in &topology.cards {
            cards.push(fabric.add_card(CardConfig {
                pcie: card.pcie.clone(),
                ..CardConfig::core(&card.name, identity(card))
            })?);
        }
        let mut switches = Vec::new();
        for (switch, routes) in topology.switches.iter().zip(topology.routes()) {
            switches.push(fabric.build_switch(switch, &routes)?);
        }
        let mut cables = Vec::new();
        for link in &topology.links {
            let plug = |end| match end {
                EndSpec::Card(card) => Plug::Card(cards[card]),
                EndSpec::Switch(switch, port) => Plug::Switch(switches[switch], port),
            };
            cables.push(fabric.plug(link.ends.map(plug), link.cable.clone())?);
        }
        // Ports have an arbiter of their own once they have a cable.
        for (switch, id) in topology.switches.iter().zip(&switches) {
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

    fn build_switch(&mut self, switch: &SwitchSpec, routes: &SwitchRoutes) -> Result<SwitchId, SimError> {
        let id = self.add_switch(switch.config.clone())?;
        let built = self.net_mut().switch_mut(id);
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
}
