//! The InfiniBand switch.

use hca_link::Cable;
use hca_wire::lrh;

use super::config::IbSwitchConfig;
use super::headers::set_vl;
use super::link::{Due, LinkEnd, Received, Wire};
use super::management::{Management, Rest, Side};
use super::queue::{OutQueue, Waiting};
use super::tables::{Forwarding, Sl2Vl, SlTables};
use crate::arb::{DATA_VLS_MAX, Heads, VlArbConfig, VlArbiter};
use crate::counters::{PortCounters, VlCounters};
use crate::ports::Ports;
use crate::store::{Source, Store, Stored};
use crate::{PORTS_MAX, SwitchError, VL15};

/// The sending side of a port.
struct Output {
    queues: [OutQueue; DATA_VLS_MAX + 1],
    arbiter: VlArbiter,
}

struct Port {
    link: LinkEnd,
    out: Output,
}

/// A switch: store and forward, packets wait at the input in the buffer of their VL.
pub struct IbSwitch {
    config: IbSwitchConfig,
    ports: Ports<Port>,
    forwarding: Forwarding,
    sl_tables: SlTables,
    store: Store,
    management: Management,
    /// When the switch has to act by itself, arrivals apart.
    wake_at: Option<u64>,
    /// When the next packet has been at the head of its queue for too long.
    expires_at: Option<u64>,
    /// When a data packet last left.
    progress_at: u64,
    /// Until then it is switched off.
    is_away_until: u64,
    /// A link has come or gone since somebody asked last.
    has_turned: bool,
}

impl IbSwitch {
    /// A switch without cables and routes.
    pub fn new(config: IbSwitchConfig) -> Result<Self, SwitchError> {
        config.check()?;
        let management = Management::new(&config);
        Ok(Self {
            ports: Ports::new(&config.name, config.ports),
            config,
            forwarding: Forwarding::default(),
            sl_tables: SlTables::default(),
            store: Store::default(),
            management,
            wake_at: None,
            expires_at: None,
            progress_at: 0,
            is_away_until: 0,
            has_turned: false,
        })
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.config.name
    }

    /// What it was made from.
    pub fn config(&self) -> &IbSwitchConfig {
        &self.config
    }

    /// Its forwarding tables.
    pub fn forwarding(&self) -> &Forwarding {
        &self.forwarding
    }

    /// Its forwarding tables, to fill. Packets inside keep the way they have.
    pub fn forwarding_mut(&mut self) -> &mut Forwarding {
        &mut self.forwarding
    }

    /// Sets the SL-to-VL table between two ports. Packets inside keep the VL they have.
    pub fn set_sl2vl(&mut self, input: u8, output: u8, table: Sl2Vl) -> Result<(), SwitchError> {
        self.ports.index(input)?;
        self.ports.index(output)?;
        self.sl_tables.set(input, output, table);
        Ok(())
    }

    /// Sets the VL arbitration of a port.
    pub fn set_arbitration(&mut self, port: u8, config: VlArbConfig) -> Result<(), SwitchError> {
        let index = self.ports.index(port)?;
        let arbiter = VlArbiter::new(config)?;
        if let Some(port) = &mut self.ports[index] {
            port.out.arbiter = arbiter;
        }
        Ok(())
    }

    /// The VL arbitration of a port; `None`: there is no cable.
    pub fn arbitration(&self, port: u8) -> Option<&VlArbConfig> {
        self.ports.get(port).map(|port| port.out.arbiter.config())
    }

    /// The VL of each SL on the way from one port to another.
    pub fn sl2vl(&self, input: u8, output: u8) -> Sl2Vl {
        let vls = self.operational_vls(output).unwrap_or(1);
        std::array::from_fn(|sl| self.sl_tables.vl(input, output, sl as u8, vls))
    }

    /// Counters of a port; `None`: there is no cable.
    pub fn counters(&self, port: u8) -> Option<PortCounters> {
        self.ports.get(port).map(|port| port.link.counters)
    }

    /// Counters of a VL of a port.
    pub fn vl_counters(&self, port: u8, vl: u8) -> Option<VlCounters> {
        self.ports.get(port).map(|port| port.link.vl_counters(vl))
    }

    /// Blocks in the receive buffer of a VL of a port.
    pub fn buffer_fill(&self, port: u8, vl: u8) -> u32 {
        self.ports.get(port).map_or(0, |port| port.link.buffer(vl).used())
    }

    /// Blocks that a port may send on a data VL; `None`: the neighbour sets no limit, or there is none.
    pub fn credits(&self, port: u8, vl: u8) -> Option<u16> {
        self.ports.get(port).and_then(|port| port.link.credits(vl))
    }

    /// Data VLs that a port's link has agreed on.
    pub fn operational_vls(&self, port: u8) -> Option<u8> {
        self.ports.get(port).map(|port| port.link.wire.op_vls)
    }

    /// Packets inside.
    pub fn packets(&self) -> usize {
        self.store.len()
    }

    /// When a data packet last left.
    pub fn progress_at(&self) -> u64 {
        self.progress_at
    }

    /// True where a port has a cable.
    pub(crate) fn is_taken(&self, port: u8) -> Result<bool, SwitchError> {
        self.ports.is_taken(port)
    }

    pub(crate) fn attach(&mut self, port: u8, wire: Wire) -> Result<(), SwitchError> {
        let out = Output {
            queues: Default::default(),
            arbiter: VlArbiter::new(self.config.arbitration.clone())?,
        };
        let link = LinkEnd::new(&self.config.link(), wire);
        self.ports.attach(port, Port { link, out })
    }

    /// True where the switch has something to do in this cycle. `timers`: something moves in the network, so the
    /// credits are told anew when it is time.
    pub(crate) fn next_event(&self, cables: &[Cable], timers: bool) -> Option<u64> {
        let mut next = self.wake_at;
        for port in self.ports.iter().flatten() {
            if port.link.is_stale(cables) {
                return Some(0);
            }
            let timer = (timers && port.link.is_up()).then(|| port.link.refresh_at());
            next = [next, port.link.next_arrival(cables), timer]
                .into_iter()
                .flatten()
                .min();
        }
        next
    }

    /// One cycle.
    pub(crate) fn step(&mut self, now: u64, cables: &mut [Cable], timers: bool) {
        self.follow_cables(now, cables);
        self.send_trap(now);
        for index in 0..self.ports.len() {
            while let Some(received) = self.ports[index]
                .as_mut()
                .and_then(|port| port.link.poll(now, cables))
            {
                self.forward(now, index, received);
            }
        }
        if self.expires_at.is_some_and(|at| at <= now) {
            self.expire(now);
        }
        let due = if timers { Due::NewsAndRefresh } else { Due::News };
        for index in 0..self.ports.len() {
            if let Some(port) = &mut self.ports[index] {
                port.link.refresh(now, due);
            }
            self.transmit(now, index, cables);
        }
        self.wake_at = self.next_wake(now, cables);
    }

    /// What leaves in the place of a packet of subnet management for the switch, and through which port.
    fn manage(&mut self, now: u64, input: u8, received: Received) -> Option<(Received, u8)> {
        let rest = Rest {
            forwarding: &mut self.forwarding,
            sl_tables: &mut self.sl_tables,
            op_vls: self
                .ports
                .iter()
                .map(|port| port.as_ref().filter(|port| port.link.is_up()))
                .map(|port| port.map(|port| port.link.wire.op_vls))
                .collect(),
            arbitration: None,
        };
        let (leaves, arbitration) = self.management.handle(now, input, received, rest);
        if let Some((port, arbitration)) = arbitration {
            // One that cannot be leaves things as they are.
            let _ = self.set_arbitration(port, arbitration);
        }
        leaves
    }

    /// What leaves in the place of a packet of general services for the switch: its counters.
    fn tell_counters(&mut self, received: &Received) -> Option<(Received, u8)> {
        let ports = &self.ports;
        let counters = |port: u8| ports.get(port).map(|port| port.link.counters);
        let (bytes, dlid) = self.management.count(received, counters)?;
        let output = self.forwarding.unicast(dlid).filter(|port| *port != 0)?;
        let lrh = lrh::Repr::read(&bytes).ok()?;
        let blocks = hca_wire::blocks(bytes.len()) as u16;
        Some((Received { bytes, lrh, blocks }, output))
    }

    /// What cables that were pulled or plugged in mean, and ports that were switched on or off.
    fn follow_cables(&mut self, now: u64, cables: &mut [Cable]) {
        let is_back = now >= self.is_away_until;
        for (index, number) in (0..self.ports.len()).zip(1..) {
            let Some(port) = &mut self.ports[index] else {
                continue;
            };
            let wire = port.link.wire;
            cables[wire.cable].enable(wire.tx, is_back && self.management.is_enabled(number));
            if !port.link.has_turned(cables) {
                continue;
            }
            self.has_turned = true;
            if !port.link.is_up() {
                self.drop_waiting(now, index);
            }
            self.management.link_changed(number);
        }
    }

    /// Nothing that waits for an output leaves any more.
    fn drop_waiting(&mut self, now: u64, index: usize) {
        for queue in 0..=DATA_VLS_MAX {
            while let Some(port) = &mut self.ports[index]
                && let Some(source) = port.out.queues[queue].any()
                && let Some(waiting) = port.out.queues[queue].pop(now, source)
            {
                port.link.counters.port_xmit_discards += 1;
                self.leave(waiting.slot);
            }
        }
    }

    /// Sends the trap whose time has come; it needs no room in a receive buffer.
    fn send_trap(&mut self, now: u64) {
        if self.management.trap_due().is_none_or(|due| due > now) {
            return;
        }
        let Some((bytes, output)) = self.management.trap(now, &self.forwarding) else {
            return;
        };
        let source = Source { port: 0, vl: VL15 };
        let blocks = hca_wire::blocks(bytes.len()) as u16;
        let waiting = Waiting {
            blocks,
            bytes: bytes.len() as u32,
            ready_at: now,
            slot: self.store.insert(Stored {
                bytes,
                source,
                blocks,
                copies: 1,
            }),
        };
        match self.ports.get_mut(output).filter(|port| port.link.is_up()) {
            Some(port) => port.out.queues[usize::from(VL15)].push(now, source, waiting),
            None => self.leave(waiting.slot),
        }
    }

    /// Switches it off, and on again at a later cycle: then it is as new, for a subnet manager to set up.
    pub fn restart(&mut self, now: u64, until: u64) {
        for index in 0..self.ports.len() {
            self.drop_waiting(now, index);
        }
        self.is_away_until = until;
        self.wake_at = Some(now);
        if self.config.is_managed {
            self.management = Management::new(&self.config);
            self.forwarding = Forwarding::default();
            self.sl_tables = SlTables::default();
        }
    }

    /// Has a link come or gone since this was asked last?
    pub(crate) fn take_turned(&mut self) -> bool {
        std::mem::take(&mut self.has_turned)
    }

    /// A trap is to go, for the first time or again.
    pub(crate) fn waits_to_tell(&self) -> bool {
        self.management.trap_due().is_some()
    }

    /// LID and LMC that a subnet manager has given it.
    pub fn lid(&self) -> (u16, u8) {
        self.management.lid()
    }

    /// PortState of a port, from 1, by its number in PortInfo; `None`: it has no cable.
    pub fn port_state(&self, port: u8) -> Option<u8> {
        const DOWN: u8 = 1;
        let is_up = self.ports.get(port)?.link.is_up();
        Some(if is_up { self.management.state(port) } else { DOWN })
    }

    /// Puts a packet that has come in into the queues of its outputs.
    fn forward(&mut self, now: u64, index: usize, mut received: Received) {
        let input = index as u8 + 1;
        let lrh = received.lrh;
        let mut ports = self.forwarding.ports(lrh.dlid, input);
        if lrh.vl == VL15 && self.management.is_for(&lrh, &self.forwarding) {
            let Some((leaves, output)) = self.manage(now, input, received) else {
                return;
            };
            received = leaves;
            ports = 1u64.checked_shl(output.into()).unwrap_or(0);
        } else if lrh.vl != VL15 && self.forwarding.unicast(lrh.dlid) == Some(0) {
            let Some((leaves, output)) = self.tell_counters(&received) else {
                self.drain_input(index, lrh.vl);
                return;
            };
            received = leaves;
            ports = 1u64.checked_shl(output.into()).unwrap_or(0);
        } else if lrh.vl != VL15 && !self.management.takes(input) {
            ports = 0;
        }
        let mut outputs = [(0u8, 0u8); PORTS_MAX as usize];
        let (mut count, mut unusable) = (0, 0);
        if !self.management.admits(input, Side::In, &received) {
            (ports, unusable) = (0, 1);
            if let Some(port) = &mut self.ports[index] {
                port.link.counters.port_rcv_constraint_errors += 1;
            }
        }
        while ports != 0 {
            let output = ports.trailing_zeros() as u8;
            ports &= ports - 1;
            match self.output_vl(input, output, &received) {
                Some(vl) => {
                    outputs[count] = (output, vl);
                    count += 1;
                }
                None => unusable += 1,
            }
        }
        let Some(port) = &mut self.ports[index] else {
            return;
        };
        // What leaves may be another packet than what has come.
        let lrh = received.lrh;
        if count == 0 {
            if unusable == 0 {
                port.link.counters.port_rcv_switch_relay_errors += 1;
            }
            port.link.drain(lrh.vl, 0);
            return;
        }
        if port.link.fill(lrh.vl, received.blocks).is_err() {
            return;
        }
        let source = Source {
            port: input,
            vl: lrh.vl,
        };
        let bytes = received.bytes.len() as u32;
        let slot = self.store.insert(Stored {
            bytes: received.bytes,
            source,
            blocks: received.blocks,
            copies: count as u32,
        });
        for (output, vl) in &outputs[..count] {
            let waiting = Waiting {
                slot,
                blocks: received.blocks,
                bytes,
                ready_at: now + self.config.forward_cycles,
            };
            if let Some(port) = self.ports.get_mut(*output) {
                port.out.queues[usize::from(*vl)].push(now, source, waiting);
            }
        }
    }

    /// A packet that has come in goes no further.
    fn drain_input(&mut self, index: usize, vl: u8) {
        if let Some(port) = &mut self.ports[index] {
            port.link.drain(vl, 0);
        }
    }

    /// VL of a packet behind an output; `None`, and counted there: it has none.
    fn output_vl(&mut self, input: u8, output: u8, received: &Received) -> Option<u8> {
        let lrh = &received.lrh;
        let port = self.ports.get_mut(output);
        let Some(port) = port else {
            // A port without a cable: as if the destination were unknown.
            if let Some(port) = self.ports.get_mut(input) {
                port.link.counters.port_rcv_switch_relay_errors += 1;
            }
            return None;
        };
        if !port.link.is_up() || received.blocks > port.link.wire.packet_blocks {
            // Nobody is there, or it is larger than the MTU behind this port.
            port.link.counters.port_xmit_discards += 1;
            return None;
        }
        // VL-9: subnet management keeps its VL.
        if lrh.vl == VL15 {
            return Some(VL15);
        }
        if !self.management.sends(output) {
            port.link.counters.port_xmit_discards += 1;
            return None;
        }
        if !self.management.admits(output, Side::Out, received) {
            port.link.counters.port_xmit_constraint_errors += 1;
            return None;
        }
        let op_vls = port.link.wire.op_vls;
        let vl = self.sl_tables.vl(input, output, lrh.sl, op_vls);
        if vl < op_vls {
            return Some(vl);
        }
        port.link.counters.port_xmit_constraint_errors += 1;
        None
    }

    /// How long a packet may be the first of a queue of a port, from 1; `None`: for ever. What the manager says, or
    /// else the switch's own.
    pub fn hoq_life_cycles(&self, port: u8) -> Option<u64> {
        let set = self.management.hoq_life_cycles(port);
        set.unwrap_or(self.config.hoq_life_cycles)
    }

    /// Drops what has been at the head of a queue for too long.
    fn expire(&mut self, now: u64) {
        for index in 0..self.ports.len() {
            let Some(life) = self.hoq_life_cycles(index as u8 + 1) else {
                continue;
            };
            for queue in 0..=DATA_VLS_MAX {
                while let Some(port) = &mut self.ports[index]
                    && let Some(source) = port.out.queues[queue].expired(now, life)
                    && let Some(waiting) = port.out.queues[queue].pop(now, source)
                {
                    port.link.counters.port_xmit_discards += 1;
                    self.progress_at = now;
                    self.leave(waiting.slot);
                }
            }
        }
    }

    /// A copy has left its queue: with the last one the packet gives its room back.
    fn leave(&mut self, slot: usize) {
        if let Some(packet) = self.store.copy_left(slot)
            && let Some(port) = self.ports.get_mut(packet.source.port)
        {
            port.link.drain(packet.source.vl, packet.blocks);
        }
    }

    /// Sends what the line of a port takes: flow control, then VL 15, then data by arbitration.
    fn transmit(&mut self, now: u64, index: usize, cables: &mut [Cable]) {
        while let Some(port) = &mut self.ports[index]
            && port.link.line_ready(now, cables)
        {
            if port.link.has_fcp() {
                port.link.send_fcp(now, cables);
                continue;
            }
            let Some((vl, source)) = port.choose(now) else {
                break;
            };
            let Some(waiting) = port.out.queues[usize::from(vl)].pop(now, source) else {
                break;
            };
            if let Some(packet) = self.store.get(waiting.slot) {
                if packet.source.vl == vl {
                    port.link.send(now, cables, vl, &packet.bytes);
                } else {
                    let mut bytes = packet.bytes.clone();
                    set_vl(&mut bytes, vl);
                    port.link.send(now, cables, vl, &bytes);
                }
            }
            self.progress_at = now;
            self.leave(waiting.slot);
        }
    }

    /// When the switch has to act next without anything arriving.
    fn next_wake(&mut self, now: u64, cables: &[Cable]) -> Option<u64> {
        let mut next: Option<u64> = None;
        let mut at = |cycle: u64| next = Some(next.map_or(cycle, |found| found.min(cycle)));
        if now < self.is_away_until {
            at(self.is_away_until);
        }
        if let Some(due) = self.management.trap_due() {
            at(due.max(now + 1));
        }
        self.expires_at = None;
        for index in 0..self.ports.len() {
            let life = self.hoq_life_cycles(index as u8 + 1);
            let Some(port) = &mut self.ports[index] else {
                continue;
            };
            let line = port.link.line_ready_cycle(cables).max(now + 1);
            if port.link.has_fcp() {
                at(line);
            }
            for (vl, queue) in port.out.queues.iter().enumerate() {
                let Some(ready_at) = queue.ready_at() else {
                    if vl < DATA_VLS_MAX {
                        port.link.note_wait(now, vl, false);
                    }
                    continue;
                };
                if ready_at > now {
                    at(ready_at.max(line));
                }
                let sendable = queue
                    .head(now)
                    .map(|(_, head)| port.link.may_send(vl as u8, head.blocks));
                if sendable == Some(true) {
                    at(line);
                }
                if vl < DATA_VLS_MAX {
                    port.link.note_wait(now, vl, sendable == Some(false));
                }
                if let Some(life) = life
                    && let Some(since) = queue.oldest_head()
                {
                    let expires_at = (since + life).max(now + 1);
                    self.expires_at = self
                        .expires_at
                        .map_or(Some(expires_at), |at| Some(at.min(expires_at)));
                    at(expires_at);
                }
            }
        }
        next
    }

    /// For each receive buffer that holds anything: for each packet at a head, the output port and VL it waits for and
    /// its blocks.
    pub(crate) fn waits(&self) -> impl Iterator<Item = (Source, u8, u8, u16)> {
        let ports = (1..).zip(self.ports.iter());
        ports
            .filter_map(|(number, port)| Some((number, port.as_ref()?)))
            .flat_map(|(number, port)| {
                let queues = (0..).zip(&port.out.queues).take(DATA_VLS_MAX);
                queues.flat_map(move |(vl, queue)| {
                    queue
                        .heads()
                        .map(move |(source, head)| (source, number, vl, head.blocks))
                })
            })
    }

    /// Free blocks of a receive buffer.
    pub(crate) fn buffer_free(&self, port: u8, vl: u8) -> u32 {
        self.ports.get(port).map_or(0, |port| port.link.buffer(vl).free())
    }

    /// The cable of a port.
    pub(crate) fn cable(&self, port: u8) -> Option<usize> {
        self.ports.get(port).map(|port| port.link.wire.cable)
    }
}

impl Port {
    /// The VL and source whose packet goes next.
    fn choose(&mut self, now: u64) -> Option<(u8, Source)> {
        let Output { queues, arbiter } = &mut self.out;
        if let Some((source, _)) = queues[usize::from(VL15)].head(now) {
            return Some((VL15, source));
        }
        let mut heads: Heads = [None; DATA_VLS_MAX];
        for (vl, queue) in queues.iter().take(DATA_VLS_MAX).enumerate() {
            if queue.is_empty() {
                continue;
            }
            let head = queue.head(now).map(|(_, head)| head);
            heads[vl] = head
                .filter(|head| self.link.may_send(vl as u8, head.blocks))
                .map(|head| head.bytes);
        }
        let vl = arbiter.pick(&heads)?;
        let (source, _) = queues[usize::from(vl)].head(now)?;
        Some((vl, source))
    }
}

#[cfg(test)]
#[path = "switch_tests.rs"]
mod tests;
