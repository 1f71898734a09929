//! The agent of an InfiniBand switch: what a subnet manager reads and sets. The switch's tables are the ones that it
//! forwards by; of a link's size (MTU, VLs) its ends have agreed already, and what is set there is only read back.

use hca_agents::packet::{self, From, MAX_PACKET};
use hca_agents::pma;
use hca_agents::sma::{ARB_PER_BLOCK, PKEYS_PER_BLOCK};
use hca_agents::smp::Way;
use hca_agents::switch::{NO_PORT, Switch, SwitchAgent, SwitchFacts};
use hca_agents::{NodeFacts, PortFacts, PortSettings, Refused, State};
use hca_wire::{LID_PERMISSIVE, LNH_IBA_GLOBAL, LNH_IBA_LOCAL, QPN_GSI, QPN_SMI, crc, lrh};

use super::config::IbSwitchConfig;
use super::headers;
use super::link::Received;
use super::tables::{Forwarding, SlTables};
use crate::arb::{VlArbConfig, VlWeight};
use crate::counters::PortCounters;

/// Card cycles of a second and of a microsecond: leases are in seconds.
const CYCLES_PER_S: u64 = 250_000_000;
const CYCLES_PER_US: u64 = CYCLES_PER_S / 1_000_000;
/// HOQLife: 4.096 us * 2^n, and for ever.
const HOQ_UNIT_CYCLES: u64 = 4_096 * CYCLES_PER_US / 1_000;
const HOQ_MAX: u8 = 19;
const HOQ_FOR_EVER: u8 = 31;
/// Entries of the tables.
const LINEAR_CAP: u16 = 0xc000;
const MULTICAST_CAP: u16 = 1024;
const ARB_ENTRIES: u8 = 2 * ARB_PER_BLOCK as u8;
/// What ports say of their cables: four lanes of 25 Gb/s.
const WIDTH_4X: u8 = 2;
const SPEED_10: u8 = 4;
const SPEED_25_EXT: u8 = 2;
const PHYS_LINK_UP: u8 = 5;
const PHYS_POLLING: u8 = 2;
const PHYS_DISABLED: u8 = 3;
/// E-5: notices and traps, with directed routes too, SL to VL tables, faster lanes.
const CAPABILITIES: u32 = 1 << 2 | 1 << 3 | 1 << 6 | 1 << 14 | 1 << 21;
/// VL of subnet management.
const VL15: u8 = 15;
/// Headers in front of a datagram.
const MAD_AT: usize = 28;
/// PortSelect of a datagram of performance management.
const PORT_SELECT: usize = 65;

/// Which way a packet passes a port.
#[derive(Clone, Copy)]
pub(crate) enum Side {
    In,
    Out,
}

/// What a manager has set at a port.
struct PortState {
    state: State,
    mtu: u8,
    /// Before somebody sets it: what the link's ends have agreed on.
    op_vls: Option<u8>,
    /// HOQLife. Before somebody sets it: what the switch was made with.
    hoq_life: Option<u8>,
    arbitration: VlArbConfig,
    /// A manager has not switched it off.
    is_enabled: bool,
    /// Partitions that may pass (KEY-19), whether those that come in and those that leave are judged, and how many
    /// packets were none of them.
    pkeys: [u16; PKEYS_PER_BLOCK],
    enforces: [bool; 2],
    pkey_violations: u16,
    counters: pma::Agent,
}

/// The agent of a switch, and its ports from 0.
pub(crate) struct Management {
    agent: SwitchAgent,
    guid: u64,
    name: String,
    lid: u16,
    lmc: u8,
    mtu_cap: u8,
    vl_cap: u8,
    /// HOQLife that it was made with.
    hoq_life: u8,
    is_managed: bool,
    ports: Vec<PortState>,
}

/// The arbitration that a port gets, if one does.
pub(crate) type NewArbitration = Option<(u8, VlArbConfig)>;

/// The rest of the switch, for its agent.
pub(crate) struct Rest<'a> {
    pub forwarding: &'a mut Forwarding,
    pub sl_tables: &'a mut SlTables,
    /// VLs of each port's link; `None`: there is no cable, or it is down.
    pub op_vls: Vec<Option<u8>>,
    pub arbitration: NewArbitration,
}

fn vls_code(vls: u8) -> u8 {
    match vls {
        1 => 1,
        2 => 2,
        4 => 3,
        8 => 4,
        _ => 5,
    }
}

impl Management {
    pub fn new(config: &IbSwitchConfig) -> Self {
        let mtu_cap = (config.mtu_bytes / 128).trailing_zeros() as u8;
        let port = |number: u8| PortState {
            state: match number {
                0 => State::Active,
                _ => state_at_start(config.is_managed),
            },
            mtu: mtu_cap,
            op_vls: None,
            hoq_life: None,
            arbitration: config.arbitration.clone(),
            is_enabled: true,
            pkeys: [0; PKEYS_PER_BLOCK],
            enforces: [false; 2],
            pkey_violations: 0,
            counters: pma::Agent::new(),
        };
        Self {
            agent: SwitchAgent::new(),
            guid: config.guid,
            name: config.name.clone(),
            lid: 0,
            lmc: 0,
            mtu_cap,
            vl_cap: vls_code(config.data_vls),
            hoq_life: hoq_code(config.hoq_life_cycles),
            is_managed: config.is_managed,
            ports: (0..=config.ports).map(port).collect(),
        }
    }

    /// VL-14: do data come in through the port?
    pub fn takes(&self, port: u8) -> bool {
        let port = self.ports.get(usize::from(port));
        port.is_some_and(|port| matches!(port.state, State::Armed | State::Active))
    }

    /// Do data leave through it?
    pub fn sends(&self, port: u8) -> bool {
        let port = self.ports.get(usize::from(port));
        port.is_some_and(|port| port.state == State::Active)
    }

    /// KEY-19: may a packet of this partition pass the port? Of one that may not the manager hears (trap 259). Subnet
    /// management has no partition (KEY-16).
    pub fn admits(&mut self, port: u8, side: Side, received: &Received) -> bool {
        let Some(found) = self.ports.get_mut(usize::from(port)) else {
            return true;
        };
        if !found.enforces[side as usize] || received.lrh.vl == VL15 {
            return true;
        }
        let Some(offender) = headers::offender(received) else {
            return true;
        };
        let is_let_in = match side {
            Side::In => packet::is_own(&found.pkeys, offender.pkey),
            Side::Out => packet::is_member(&found.pkeys, offender.pkey),
        };
        if !is_let_in {
            found.pkey_violations = found.pkey_violations.saturating_add(1);
            self.agent.bad_pkey(self.lid, port, &offender);
        }
        is_let_in
    }

    /// Has a manager left the port on?
    pub fn is_enabled(&self, port: u8) -> bool {
        let port = self.ports.get(usize::from(port));
        port.is_some_and(|port| port.is_enabled)
    }

    /// HOQLife that a manager has set at a port: cycles, or `None` for ever. The outer `None`: nobody has.
    pub fn hoq_life_cycles(&self, port: u8) -> Option<Option<u64>> {
        let code = self.ports.get(usize::from(port))?.hoq_life?;
        Some((code <= HOQ_MAX).then(|| HOQ_UNIT_CYCLES << code))
    }

    /// LID and LMC of the switch.
    pub fn lid(&self) -> (u16, u8) {
        (self.lid, self.lmc)
    }

    /// PortState of a port, by its number in PortInfo, as far as its cable allows.
    pub fn state(&self, port: u8) -> u8 {
        self.ports
            .get(usize::from(port))
            .map_or(0, |port| port.state as u8)
    }

    /// The link of a port has come or gone.
    pub fn link_changed(&mut self, port: u8) {
        let state = state_at_start(self.is_managed);
        if let Some(port) = self.ports.get_mut(usize::from(port)) {
            port.state = state;
        }
        self.agent.link_changed(self.lid);
    }

    /// The cycle in which a trap goes.
    pub fn trap_due(&self) -> Option<u64> {
        let due_us = self.agent.trap_due_us()?;
        Some(due_us.saturating_mul(CYCLES_PER_US))
    }

    /// The trap that goes now, to the port that leads to the subnet manager.
    pub fn trap(&mut self, now: u64, forwarding: &Forwarding) -> Option<(Vec<u8>, u8)> {
        let mad = self.agent.trap(now / CYCLES_PER_US, self.lid)?;
        let kept = self.agent.kept();
        let mut bytes = [0; MAX_PACKET];
        let len = packet::write_trap(self.lid, kept, &mad, &mut bytes);
        let output = forwarding.unicast(kept.sm_lid).filter(|port| *port != 0)?;
        Some((closed(&bytes[..len]), output))
    }

    /// Takes a packet that came in on a data VL for the switch's own LID: what leaves in its place, a datagram of
    /// performance management. `counters`: of a port, if there is one.
    pub fn count(
        &mut self,
        received: &Received,
        counters: impl Fn(u8) -> Option<PortCounters>,
    ) -> Option<(Vec<u8>, u16)> {
        let data = received
            .bytes
            .len()
            .checked_sub(hca_wire::VCRC_LEN + hca_wire::ICRC_LEN)?;
        let (from, mut mad) = packet::read(&received.bytes[..data])?;
        let icrc = received.bytes.get(data..data + hca_wire::ICRC_LEN)?;
        let is_good = from.qpn == QPN_GSI
            && icrc == icrc_of(&received.bytes[..data])
            && packet::is_member(self.agent.pkeys(), from.pkey);
        if !is_good {
            return None;
        }
        // Who names no port that is there is told so by port 0, which no packets pass. Without a cable nothing counts.
        let number = Some(mad[PORT_SELECT])
            .filter(|number| usize::from(*number) < self.ports.len())
            .unwrap_or(0);
        let agent = &mut self.ports.get_mut(usize::from(number))?.counters;
        if !agent.handle(&mut mad, number, || {
            counters(number).as_ref().map(counts).unwrap_or_default()
        }) {
            return None;
        }
        let mut bytes = [0; MAX_PACKET];
        let len = packet::write_answer(&from, self.lid, |_| received.lrh.vl, &mad, &mut bytes);
        Some((closed(&bytes[..len]), from.slid))
    }

    /// Is a packet of subnet management for the switch itself, or for it to pass on?
    pub fn is_for(&self, packet: &lrh::Repr, forwarding: &Forwarding) -> bool {
        packet.dlid == LID_PERMISSIVE || forwarding.unicast(packet.dlid) == Some(0)
    }

    /// Takes such a packet that came in through a port: what leaves in its place, and through which port.
    pub fn handle(
        &mut self,
        now: u64,
        input: u8,
        mut received: Received,
        mut rest: Rest<'_>,
    ) -> (Option<(Received, u8)>, NewArbitration) {
        let body = received.bytes.len().saturating_sub(hca_wire::VCRC_LEN);
        let data = body.saturating_sub(hca_wire::ICRC_LEN);
        let read = packet::read(&received.bytes[..data]);
        let Some((from, mut mad)) = read.filter(|(from, _)| is_good(from, &received, data)) else {
            return (None, None);
        };
        let mut agent = self.agent;
        let mut hands = Hands {
            management: self,
            rest: &mut rest,
        };
        let way = agent.handle(&mut mad, from.slid, input, &mut hands, now / CYCLES_PER_S);
        self.agent = agent;
        let output = match way {
            Way::Out(port) => {
                received.address(LID_PERMISSIVE, LID_PERMISSIVE);
                Some(port)
            }
            Way::Here => {
                received.address(self.lid, from.slid);
                rest.forwarding.unicast(from.slid).filter(|port| *port != 0)
            }
            Way::Lid(lid) => {
                received.address(self.lid, lid);
                rest.forwarding.unicast(lid).filter(|port| *port != 0)
            }
            Way::Lost => None,
        };
        received.bytes[MAD_AT..data].copy_from_slice(&mad);
        received.bytes = closed(&received.bytes[..data]);
        (output.map(|port| (received, port)), rest.arbitration)
    }
}

/// HOQLife of a time in cycles, rounded up.
fn hoq_code(cycles: Option<u64>) -> u8 {
    let holds = |code: &u8| cycles.is_some_and(|cycles| HOQ_UNIT_CYCLES << code >= cycles);
    (0..=HOQ_MAX).find(holds).unwrap_or(HOQ_FOR_EVER)
}

/// VL-14: a port that nobody configures configures itself.
fn state_at_start(is_managed: bool) -> State {
    if is_managed { State::Init } else { State::Active }
}

/// The ICRC of a packet without CRCs.
fn icrc_of(bytes: &[u8]) -> [u8; hca_wire::ICRC_LEN] {
    let icrc = match bytes.get(1).map(|byte| byte & 3) {
        Some(LNH_IBA_GLOBAL) => crc::icrc_ib_global(bytes),
        _ => crc::icrc_ib_local(bytes),
    };
    icrc.to_be_bytes()
}

/// A packet with its CRCs.
fn closed(bytes: &[u8]) -> Vec<u8> {
    let mut packet = bytes.to_vec();
    packet.extend(icrc_of(bytes));
    packet.extend(crc::vcrc(&packet).to_be_bytes());
    packet
}

/// What the counters of a port say to performance management.
fn counts(of: &PortCounters) -> pma::Counts {
    pma::Counts {
        downed: of.link_downed,
        rcv_errors: of.port_rcv_errors,
        rcv_constraint_errors: of.port_rcv_constraint_errors,
        rcv_switch_relay_errors: of.port_rcv_switch_relay_errors,
        xmit_discards: of.port_xmit_discards,
        xmit_constraint_errors: of.port_xmit_constraint_errors,
        vl15_dropped: of.vl15_dropped,
        overruns: of.excessive_buffer_overrun_errors,
        xmit_words: of.port_xmit_bytes / 4,
        rcv_words: of.port_rcv_bytes / 4,
        xmit_packets: of.port_xmit_pkts,
        rcv_packets: of.port_rcv_pkts,
        xmit_wait: of.port_xmit_wait,
        ..pma::Counts::default()
    }
}

/// A datagram from QP 0 to QP 0, without GRH, with nothing behind it, and intact.
fn is_good(from: &From, received: &Received, data: usize) -> bool {
    let bytes = &received.bytes;
    (from.qpn, from.src_qpn) == (QPN_SMI, 0)
        && bytes[1] & 3 == LNH_IBA_LOCAL
        && data == MAD_AT + hca_agents::MAD_BYTES
        && bytes[data..data + 4] == crc::icrc_ib_local(&bytes[..data]).to_be_bytes()
}

struct Hands<'a, 'b> {
    management: &'a mut Management,
    rest: &'a mut Rest<'b>,
}

impl Hands<'_, '_> {
    fn port_mut(&mut self, number: u8) -> Option<&mut PortState> {
        self.management.ports.get_mut(usize::from(number))
    }

    fn vls(&self, port: u8) -> Option<u8> {
        self.rest.op_vls.get(usize::from(port).wrapping_sub(1)).copied()?
    }
}

impl Switch for Hands<'_, '_> {
    fn node(&mut self) -> NodeFacts {
        let m = &*self.management;
        let mut description = [0; 64];
        let name = m.name.bytes().take(description.len());
        description.iter_mut().zip(name).for_each(|(to, byte)| *to = byte);
        NodeFacts {
            system_guid: m.guid,
            node_guid: m.guid,
            port_guid: m.guid,
            ports: m.ports.len() as u8 - 1,
            pkeys: PKEYS_PER_BLOCK as u16,
            device: 2,
            revision: 1,
            vendor: 0,
            description,
        }
    }

    fn facts(&mut self) -> SwitchFacts {
        SwitchFacts {
            linear_cap: LINEAR_CAP,
            multicast_cap: MULTICAST_CAP,
        }
    }

    fn port(&mut self, number: u8) -> Option<PortFacts> {
        let is_up = number == 0 || self.vls(number).is_some();
        let agreed = vls_code(self.vls(number).unwrap_or(1));
        let m = &*self.management;
        let port = m.ports.get(usize::from(number))?;
        Some(PortFacts {
            number,
            lid: if number == 0 { m.lid } else { 0 },
            lmc: if number == 0 { m.lmc } else { 0 },
            cap_mask: if number == 0 { CAPABILITIES } else { 0 },
            cap_mask2: 0,
            state: if is_up { port.state } else { State::Down },
            phys_state: match (is_up, port.is_enabled) {
                (true, _) => PHYS_LINK_UP,
                (false, true) => PHYS_POLLING,
                (false, false) => PHYS_DISABLED,
            },
            width: WIDTH_4X,
            speed: SPEED_10,
            speed_ext: SPEED_25_EXT,
            mtu: port.mtu,
            mtu_cap: m.mtu_cap,
            vl_cap: m.vl_cap,
            op_vls: port.op_vls.unwrap_or(agreed),
            high_limit: port.arbitration.limit,
            hoq_life: port.hoq_life.unwrap_or(m.hoq_life),
            phy_errors: 0,
            arb_entries: if number == 0 { 0 } else { ARB_ENTRIES },
            enforces_pkeys: port.enforces,
            pkey_violations: port.pkey_violations,
            qkey_violations: 0,
        })
    }

    fn set_port(&mut self, number: u8, settings: &PortSettings) -> Result<(), Refused> {
        if number == 0 {
            (self.management.lid, self.management.lmc) = (settings.lid, settings.lmc);
        }
        let mut new_arbitration = None;
        let port = self.port_mut(number).ok_or(Refused)?;
        (port.mtu, port.op_vls) = (settings.mtu, Some(settings.op_vls));
        (port.hoq_life, port.enforces) = (Some(settings.hoq_life), settings.enforces_pkeys);
        if port.arbitration.limit != settings.high_limit {
            port.arbitration.limit = settings.high_limit;
            new_arbitration = Some((number, port.arbitration.clone()));
        }
        if let Some(is_enabled) = settings.is_enabled.filter(|_| number != 0) {
            port.is_enabled = is_enabled;
        }
        match settings.state {
            // The cable trains again at once.
            Some(State::Down) => port.state = State::Init,
            Some(state) if number != 0 => port.state = state,
            _ => {}
        }
        if number != 0 && new_arbitration.is_some() {
            self.rest.arbitration = new_arbitration;
        }
        Ok(())
    }

    fn unicast(&mut self, lid: u16) -> u8 {
        self.rest.forwarding.unicast(lid).unwrap_or(NO_PORT)
    }

    fn set_unicast(&mut self, lid: u16, port: u8) {
        let is_there = usize::from(port) < self.management.ports.len();
        // A LID that cannot be leads nowhere.
        if !is_there || self.rest.forwarding.set_unicast(lid, port).is_err() {
            self.rest.forwarding.clear_unicast(lid);
        }
    }

    fn multicast(&mut self, mlid: u16) -> u64 {
        self.rest.forwarding.multicast(mlid)
    }

    fn set_multicast(&mut self, mlid: u16, ports: u64) {
        self.rest.forwarding.set_multicast(mlid, ports);
    }

    fn pkeys(&mut self, port: u8) -> [u16; PKEYS_PER_BLOCK] {
        self.port_mut(port)
            .map_or([0; PKEYS_PER_BLOCK], |port| port.pkeys)
    }

    fn set_pkeys(&mut self, port: u8, pkeys: &[u16; PKEYS_PER_BLOCK]) {
        if let Some(port) = self.port_mut(port) {
            port.pkeys = *pkeys;
        }
    }

    fn sl2vl(&mut self, input: u8, output: u8) -> [u8; 16] {
        let vls = self.vls(output).unwrap_or(1);
        core::array::from_fn(|sl| self.rest.sl_tables.vl(input, output, sl as u8, vls))
    }

    fn set_sl2vl(&mut self, input: u8, output: u8, vls: &[u8; 16]) -> Result<(), Refused> {
        self.rest.sl_tables.set(input, output, *vls);
        Ok(())
    }

    fn vl_arb(&mut self, port: u8, high: bool, block: u8) -> Option<[(u8, u8); ARB_PER_BLOCK]> {
        let of = &self.port_mut(port)?.arbitration;
        let list = if high { &of.high } else { &of.low };
        let entry = |at: usize| list.get(at).map_or((0, 0), |entry| (entry.vl, entry.weight));
        Some(core::array::from_fn(|at| {
            entry(usize::from(block) * ARB_PER_BLOCK + at)
        }))
    }

    fn set_vl_arb(
        &mut self,
        port: u8,
        high: bool,
        block: u8,
        entries: &[(u8, u8); ARB_PER_BLOCK],
    ) -> Result<(), Refused> {
        let vls = self.vls(port).ok_or(Refused)?;
        let of = &mut self.port_mut(port).ok_or(Refused)?.arbitration;
        let list = if high { &mut of.high } else { &mut of.low };
        let from = usize::from(block) * ARB_PER_BLOCK;
        let nothing = VlWeight { vl: 0, weight: 0 };
        list.resize(usize::from(ARB_ENTRIES), nothing);
        for (to, (vl, weight)) in list[from..].iter_mut().zip(entries) {
            *to = match *vl < vls {
                true => VlWeight {
                    vl: *vl,
                    weight: *weight,
                },
                false => nothing,
            };
        }
        let arbitration = of.clone();
        self.rest.arbitration = Some((port, arbitration));
        Ok(())
    }
}
