//! Routes: what each switch forwards where. Destination by destination, so that every switch's choice depends on the
//! destination alone, as forwarding tables do.

use std::collections::{BTreeMap, VecDeque};

use crate::file::Algorithm;
use crate::{EndSpec, SwitchSpec, Topology};

/// Tables of a switch.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SwitchRoutes {
    /// LID and port, in the order of LIDs.
    pub unicast: Vec<(u16, u8)>,
    /// MLID and port, one entry per port.
    pub multicast: Vec<(u16, u8)>,
    /// Card, its port, and the port that leads there, for addresses other than LIDs.
    pub cards: Vec<(usize, u8, u8)>,
    /// Ports by which frames to unknown addresses leave: a tree, and the cards.
    pub flood: Vec<u8>,
}

/// A way from a switch to a neighbour.
#[derive(Debug, Clone, Copy)]
struct Hop {
    port: u8,
    next: usize,
    /// Port of the neighbour.
    next_port: u8,
}

/// Switches and the links between them.
struct Graph {
    /// Per switch, in the order of ports.
    hops: Vec<Vec<Hop>>,
    /// Card and its port: switch and port.
    homes: BTreeMap<(usize, u8), (usize, u8)>,
}

impl Graph {
    fn new(topology: &Topology) -> Self {
        let mut hops = vec![Vec::new(); topology.switches.len()];
        let mut homes = BTreeMap::new();
        for link in &topology.links {
            match link.ends {
                [EndSpec::Switch(a, port_a), EndSpec::Switch(b, port_b)] => {
                    let hop = |port, next, next_port| Hop {
                        port,
                        next,
                        next_port,
                    };
                    hops[a].push(hop(port_a, b, port_b));
                    hops[b].push(hop(port_b, a, port_a));
                }
                [EndSpec::Card(card, card_port), EndSpec::Switch(switch, port)]
                | [EndSpec::Switch(switch, port), EndSpec::Card(card, card_port)] => {
                    homes.insert((card, card_port), (switch, port));
                }
                [EndSpec::Card(..), EndSpec::Card(..)]
                | [EndSpec::Outside(_), _]
                | [_, EndSpec::Outside(_)] => {}
            }
        }
        for hops in &mut hops {
            hops.sort_by_key(|hop| hop.port);
        }
        Self { hops, homes }
    }

    /// Links between each switch and `root`; `None`: not connected.
    fn distances(&self, root: usize) -> Vec<Option<u32>> {
        let mut distances = vec![None; self.hops.len()];
        let mut queue = VecDeque::from([root]);
        distances[root] = Some(0);
        while let Some(at) = queue.pop_front() {
            let next_distance = distances[at].map(|distance: u32| distance + 1);
            for hop in &self.hops[at] {
                if distances[hop.next].is_none() {
                    distances[hop.next] = next_distance;
                    queue.push_back(hop.next);
                }
            }
        }
        distances
    }

    /// Place of each switch in the tree: those of a part that `root` is not in have a root of their own.
    fn ranks(&self, root: usize) -> Vec<(u32, usize)> {
        let mut ranks = vec![None; self.hops.len()];
        for start in std::iter::once(root).chain(0..self.hops.len()) {
            if ranks.get(start).is_some_and(Option::is_none) {
                for (switch, distance) in self.distances(start).into_iter().enumerate() {
                    if let Some(distance) = distance {
                        ranks[switch] = Some((distance, switch));
                    }
                }
            }
        }
        ranks.into_iter().map(|rank| rank.unwrap_or((0, 0))).collect()
    }

    /// Ports of each switch by which the destination's switch is nearest.
    fn shortest(&self, home: usize) -> Vec<Vec<u8>> {
        let distances = self.distances(home);
        let closer = |at: usize, hop: &Hop| match (distances[at], distances[hop.next]) {
            (Some(here), Some(there)) => there < here,
            _ => false,
        };
        let ports = |(at, hops): (usize, &Vec<Hop>)| {
            hops.iter()
                .filter(|hop| closer(at, hop))
                .map(|hop| hop.port)
                .collect()
        };
        self.hops.iter().enumerate().map(ports).collect()
    }

    /// The same with every way going up the tree first and then only down. A switch that can get there going down alone
    /// does so, so that whoever has sent a packet down to it is never led up again.
    fn up_down(&self, home: usize, ranks: &[(u32, usize)]) -> Vec<Vec<u8>> {
        let count = self.hops.len();
        let mut down: Vec<Option<u32>> = vec![None; count];
        down[home] = Some(0);
        let mut queue = VecDeque::from([home]);
        while let Some(at) = queue.pop_front() {
            for hop in &self.hops[at] {
                // The neighbour above reaches us going down.
                if ranks[hop.next] < ranks[at] && down[hop.next].is_none() {
                    down[hop.next] = down[at].map(|distance| distance + 1);
                    queue.push_back(hop.next);
                }
            }
        }
        let mut order: Vec<usize> = (0..count).collect();
        order.sort_by_key(|switch| ranks[*switch]);
        let mut best = down.clone();
        let mut ports = vec![Vec::new(); count];
        for at in order {
            if at == home {
                continue;
            }
            let goes_down = down[at].is_some();
            let candidates: Vec<(u32, u8)> = self.hops[at]
                .iter()
                .filter(|hop| (ranks[hop.next] > ranks[at]) == goes_down)
                .filter_map(|hop| {
                    let distance = if goes_down { down[hop.next] } else { best[hop.next] };
                    Some((distance?, hop.port))
                })
                .collect();
            let Some(least) = candidates.iter().map(|(distance, _)| *distance).min() else {
                continue;
            };
            best[at] = Some(least + 1);
            ports[at] = candidates
                .into_iter()
                .filter(|(distance, _)| *distance == least)
                .map(|(_, port)| port)
                .collect();
        }
        ports
    }

    /// Ports of each switch on the tree that joins the members of a group.
    fn tree(&self, members: &[(usize, u8)], ranks: &[(u32, usize)]) -> Vec<Vec<u8>> {
        let homes: Vec<(usize, u8)> = members
            .iter()
            .filter_map(|member| self.homes.get(member).copied())
            .collect();
        let mut ports = vec![Vec::new(); self.hops.len()];
        for (switch, port) in &homes {
            ports[*switch].push(*port);
        }
        let Some(top) = homes.iter().map(|(switch, _)| *switch).min_by_key(|s| ranks[*s]) else {
            return ports;
        };
        let distances = self.distances(top);
        for (switch, _) in homes {
            let mut at = switch;
            while let Some(here) = distances[at].filter(|here| *here > 0) {
                let up = self.hops[at]
                    .iter()
                    .find(|hop| distances[hop.next] == Some(here - 1));
                let Some(up) = up else { break };
                if ports[at].contains(&up.port) {
                    break;
                }
                ports[at].push(up.port);
                ports[up.next].push(up.next_port);
                at = up.next;
            }
        }
        for ports in &mut ports {
            ports.sort_unstable();
            ports.dedup();
        }
        ports
    }
}

impl Graph {
    /// Ports of each switch on a tree over all switches, and those with cards.
    fn flood(&self, ranks: &[(u32, usize)]) -> Vec<Vec<u8>> {
        let mut ports = vec![Vec::new(); self.hops.len()];
        for (switch, port) in self.homes.values() {
            ports[*switch].push(*port);
        }
        for (at, hops) in self.hops.iter().enumerate() {
            // The root of a part has rank 0; everybody else has one neighbour above that the tree goes by.
            let up = hops.iter().find(|hop| ranks[hop.next].0 + 1 == ranks[at].0);
            if let Some(up) = up {
                ports[at].push(up.port);
                ports[up.next].push(up.next_port);
            }
        }
        for ports in &mut ports {
            ports.sort_unstable();
        }
        ports
    }
}

/// Tables of all switches.
pub(crate) fn find(topology: &Topology) -> Vec<SwitchRoutes> {
    let graph = Graph::new(topology);
    let ranks = graph.ranks(topology.root);
    let mut unicast: Vec<BTreeMap<u16, u8>> = vec![BTreeMap::new(); topology.switches.len()];
    let mut tables: Vec<SwitchRoutes> = vec![SwitchRoutes::default(); topology.switches.len()];
    for (&(index, number), &(home, home_port)) in &graph.homes {
        let Some(spec) = topology.cards[index].port(number) else {
            continue;
        };
        let mut ports = match topology.algorithm {
            Algorithm::Shortest => graph.shortest(home),
            Algorithm::UpDown => graph.up_down(home, &ranks),
            Algorithm::Explicit => continue,
        };
        ports[home] = vec![home_port];
        for (switch, ports) in ports.iter().enumerate() {
            if let Some(port) = ports.first() {
                tables[switch].cards.push((index, number, *port));
            }
            for (offset, lid) in spec.lids().enumerate() {
                if let Some(port) = ports.get(offset % ports.len().max(1)) {
                    unicast[switch].insert(lid, *port);
                }
            }
        }
    }
    for (table, (switch, mut lids)) in tables.iter_mut().zip(topology.switches.iter().zip(unicast)) {
        if let SwitchSpec::InfiniBand(switch) = switch {
            lids.extend(switch.routes.iter().copied());
        }
        table.unicast = lids.into_iter().collect();
    }
    for (table, flood) in tables.iter_mut().zip(graph.flood(&ranks)) {
        table.flood = flood;
    }
    for group in &topology.groups {
        for (table, ports) in tables.iter_mut().zip(graph.tree(&group.members, &ranks)) {
            table
                .multicast
                .extend(ports.into_iter().map(|port| (group.mlid, port)));
        }
    }
    tables
}
