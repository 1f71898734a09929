//! The agent of a switch: which way directed routes go, what the switch and each of its ports are, and its forwarding
//! tables. Of a switch only port 0 has a LID; the M_Key is the whole switch's (KEY-2).

use crate::mad::{
    self, Mad, SMP_DATA, SMP_DATA_BYTES, attribute_of, class_of, method, method_of, mkey_of, modifier_of,
    put_u16, status, u16_at,
};
use crate::notice::{self, Trap};
use crate::port_info::{self, PortFacts, PortSettings};
use crate::sma::{
    ARB_PER_BLOCK, Agent, Kept, NodeFacts, PKEYS_PER_BLOCK, Refused, arb_block, attr, node_info,
};
use crate::smp::{self, Way};

const SWITCH: u8 = 2;
/// SwitchInfo, LinearForwardingTable, MulticastForwardingTable.
const SWITCH_INFO: u16 = 0x12;
const LINEAR_TABLE: u16 = 0x19;
const MULTICAST_TABLE: u16 = 0x1b;
/// LIDs of a block of the linear table, and groups of one of the multicast table.
const LIDS_PER_BLOCK: usize = 64;
const GROUPS_PER_BLOCK: usize = 32;
/// Ports of a position of the multicast table.
const PORTS_PER_POSITION: u8 = 16;
/// InboundEnforcementCap and OutboundEnforcementCap.
const ENFORCES_PKEYS: u8 = 0xc0;
/// A LID that leads nowhere.
pub const NO_PORT: u8 = 0xff;

/// What SwitchInfo says of the switch itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SwitchFacts {
    /// LIDs of the linear table.
    pub linear_cap: u16,
    /// Groups of the multicast table.
    pub multicast_cap: u16,
}

/// A switch as its agent works on it. Ports count from 0, which is the switch itself.
pub trait Switch {
    /// NodeInfo and NodeDescription.
    fn node(&mut self) -> NodeFacts;
    /// Sizes of its tables.
    fn facts(&mut self) -> SwitchFacts;
    /// What PortInfo tells of a port; `None`: there is none.
    fn port(&mut self, number: u8) -> Option<PortFacts>;
    /// What PortInfo sets at a port that is there.
    fn set_port(&mut self, number: u8, settings: &PortSettings) -> Result<(), Refused>;
    /// The port for a LID, or [`NO_PORT`].
    fn unicast(&mut self, lid: u16) -> u8;
    /// Sets it.
    fn set_unicast(&mut self, lid: u16, port: u8);
    /// The ports for a group, by bit.
    fn multicast(&mut self, mlid: u16) -> u64;
    /// Sets them.
    fn set_multicast(&mut self, mlid: u16, ports: u64);
    /// P_Keys of a port other than 0, which it enforces (KEY-19).
    fn pkeys(&mut self, port: u8) -> [u16; PKEYS_PER_BLOCK];
    /// Sets them.
    fn set_pkeys(&mut self, port: u8, pkeys: &[u16; PKEYS_PER_BLOCK]);
    /// VL of each SL on the way from one port to another.
    fn sl2vl(&mut self, input: u8, output: u8) -> [u8; 16];
    /// Sets it.
    fn set_sl2vl(&mut self, input: u8, output: u8, vls: &[u8; 16]) -> Result<(), Refused>;
    /// A block of a port's VL arbitration table.
    fn vl_arb(&mut self, port: u8, high: bool, block: u8) -> Option<[(u8, u8); ARB_PER_BLOCK]>;
    /// Sets it.
    fn set_vl_arb(
        &mut self,
        port: u8,
        high: bool,
        block: u8,
        entries: &[(u8, u8); ARB_PER_BLOCK],
    ) -> Result<(), Refused>;
}

/// A packet of another partition, as its headers say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Offender {
    /// LID that it is from.
    pub slid: u16,
    /// LID that it is for.
    pub dlid: u16,
    /// Its P_Key.
    pub pkey: u16,
    /// Its service level.
    pub sl: u8,
    /// QP that it is for.
    pub dest_qpn: u32,
}

/// The agent of a switch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SwitchAgent {
    agent: Agent,
    /// LinearFDBTop, DefaultPort and those of multicast, life time: what a manager writes there is read there.
    linear_top: u16,
    default_ports: [u8; 3],
    life_time: u8,
    multicast_top: u16,
    pkeys: [u16; PKEYS_PER_BLOCK],
}

impl SwitchAgent {
    /// Of a switch that no subnet manager has spoken to.
    pub const fn new() -> Self {
        let mut pkeys = [0; PKEYS_PER_BLOCK];
        pkeys[0] = 0xffff;
        Self {
            agent: Agent::new(),
            linear_top: 0,
            default_ports: [0; 3],
            life_time: 0,
            multicast_top: 0,
            pkeys,
        }
    }

    /// What subnet managers have written so far.
    pub fn kept(&self) -> &Kept {
        self.agent.kept()
    }

    /// P_Keys of the switch itself: of its port 0.
    pub fn pkeys(&self) -> &[u16; PKEYS_PER_BLOCK] {
        &self.pkeys
    }

    /// The link of a port of the switch, whose LID this is, has come or gone.
    pub fn link_changed(&mut self, lid: u16) {
        self.agent.notices.raise(Trap::LinkState, notice::link_state(lid));
    }

    /// A packet of another partition was dropped at a port of the switch, whose own LID is `lid`.
    pub fn bad_pkey(&mut self, lid: u16, port: u8, packet: &Offender) {
        let details = notice::switch_bad_pkey(lid, port, packet);
        self.agent.notices.raise(Trap::SwitchBadPkey, details);
    }

    /// When [`SwitchAgent::trap`] has something.
    pub fn trap_due_us(&self) -> Option<u64> {
        self.agent.trap_due_us()
    }

    /// The trap that goes now, as of [`Agent::trap`].
    pub fn trap(&mut self, now_us: u64, lid: u16) -> Option<Mad> {
        self.agent.notices.next(now_us, &self.agent.kept, lid, SWITCH)
    }

    /// Takes a datagram from a LID that has come to QP0 through port `input`: a directed one, or one for the switch's
    /// own LID. It goes out through the port that this says, or is lost. `Here`: it has become an answer, to go by its
    /// LID.
    pub fn handle(
        &mut self,
        mad: &mut Mad,
        slid: u16,
        input: u8,
        switch: &mut impl Switch,
        now_s: u64,
    ) -> Way {
        let is_ours = matches!(class_of(mad), mad::class::SM_LID | mad::class::SM_DIRECTED);
        if !is_ours {
            return Way::Lost;
        }
        let is_directed = smp::is_directed(mad);
        if is_directed {
            match smp::pass(mad, input) {
                Way::Here => {}
                // Out through port 0 would be to itself.
                Way::Out(0) => return Way::Lost,
                other => return other,
            }
        }
        let is_request = matches!(method_of(mad), method::GET | method::SET | method::TRAP_REPRESS);
        if !is_request || !self.agent.is_let_in(mad, slid, now_s) {
            return Way::Lost;
        }
        let result = if (mad[0], mad[2]) == (1, 1) {
            self.attribute(mad, input, switch)
        } else {
            Err(status::BAD_VERSION)
        };
        mad::answer(mad, result.err().unwrap_or(status::OK));
        match is_directed && smp::hops_of(mad) != 0 {
            true => Way::Out(input),
            false => Way::Here,
        }
    }

    fn attribute(&mut self, mad: &mut Mad, input: u8, switch: &mut impl Switch) -> Result<(), u16> {
        let is_set = method_of(mad) == method::SET;
        let (modifier, mkey, attribute) = (modifier_of(mad), mkey_of(mad), attribute_of(mad));
        if attribute == attr::NOTICE {
            let lid = switch.port(0).map_or(0, |port| port.lid);
            self.agent.notices.attribute(mad, is_set, lid, SWITCH);
            return Ok(());
        }
        let data = &mut mad[SMP_DATA..SMP_DATA + SMP_DATA_BYTES];
        match (attribute, is_set) {
            (attr::NODE_INFO, false) => node_info(data, SWITCH, &switch.node(), input),
            (attr::NODE_DESC, false) => data.copy_from_slice(&switch.node().description),
            (SWITCH_INFO, _) => self.switch_info(data, switch, is_set),
            (attr::PORT_INFO, _) => self.port_info(data, switch, (input, is_set), modifier, mkey)?,
            (attr::PKEY_TABLE, _) => self.pkey_table(data, switch, is_set, modifier)?,
            (attr::SL_TO_VL, _) => sl_to_vl(data, switch, is_set, modifier)?,
            (attr::VL_ARB, _) => vl_arb(data, switch, is_set, modifier)?,
            (LINEAR_TABLE, _) => linear_table(data, switch, is_set, modifier)?,
            (MULTICAST_TABLE, _) => multicast_table(data, switch, is_set, modifier)?,
            _ => return Err(status::NO_ATTRIBUTE),
        }
        Ok(())
    }

    fn switch_info(&mut self, data: &mut [u8], switch: &mut impl Switch, is_set: bool) {
        if is_set {
            self.linear_top = u16_at(data, 6);
            self.default_ports.copy_from_slice(&data[8..11]);
            self.life_time = data[11] >> 3;
            self.multicast_top = u16_at(data, 18);
        }
        let facts = switch.facts();
        data.fill(0);
        put_u16(data, 0, facts.linear_cap);
        put_u16(data, 4, facts.multicast_cap);
        put_u16(data, 6, self.linear_top);
        data[8..11].copy_from_slice(&self.default_ports);
        data[11] = self.life_time << 3;
        put_u16(data, 14, PKEYS_PER_BLOCK as u16);
        data[16] = ENFORCES_PKEYS;
        put_u16(data, 18, self.multicast_top);
    }

    fn port_info(
        &mut self,
        data: &mut [u8],
        switch: &mut impl Switch,
        (input, is_set): (u8, bool),
        modifier: u32,
        mkey: u64,
    ) -> Result<(), u16> {
        let number = u8::try_from(modifier & !(1 << 31)).map_err(|_| status::BAD_VALUE)?;
        let facts = switch.port(number).ok_or(status::BAD_VALUE)?;
        if is_set {
            let mut kept = self.agent.kept;
            let settings = if number == 0 {
                port_info::read(data, &facts, &mut kept)?
            } else {
                port_info::read_link(data, &facts)?
            };
            switch
                .set_port(number, &settings)
                .map_err(|_| status::BAD_VALUE)?;
            self.agent.kept = kept;
        }
        let shows_mkey = self.agent.kept.protect == 0 || self.agent.holds(mkey) || is_set;
        let facts = switch.port(number).unwrap_or(facts);
        port_info::write(data, &facts, &self.agent.kept, input, shows_mkey);
        Ok(())
    }

    /// The switch's own are those of port 0; others enforce theirs.
    fn pkey_table(
        &mut self,
        data: &mut [u8],
        switch: &mut impl Switch,
        is_set: bool,
        modifier: u32,
    ) -> Result<(), u16> {
        let (port, block) = ((modifier >> 16) as u8, modifier as u16);
        let is_there = modifier >> 24 == 0 && switch.port(port).is_some();
        if block != 0 || !is_there {
            return Err(status::BAD_VALUE);
        }
        let mut pkeys = if port == 0 { self.pkeys } else { switch.pkeys(port) };
        for (pkey, pair) in pkeys.iter_mut().zip(data.chunks_exact_mut(2)) {
            if is_set {
                *pkey = u16_at(pair, 0);
            }
            put_u16(pair, 0, *pkey);
        }
        match port {
            _ if !is_set => {}
            0 => self.pkeys = pkeys,
            port => switch.set_pkeys(port, &pkeys),
        }
        Ok(())
    }
}

impl Default for SwitchAgent {
    fn default() -> Self {
        Self::new()
    }
}

fn refused(_: Refused) -> u16 {
    status::BAD_VALUE
}

fn sl_to_vl(data: &mut [u8], switch: &mut impl Switch, is_set: bool, modifier: u32) -> Result<(), u16> {
    let (input, output) = ((modifier >> 8) as u8, modifier as u8);
    for port in [input, output] {
        switch.port(port).ok_or(status::BAD_VALUE)?;
    }
    if is_set {
        let vls = core::array::from_fn(|sl| data[sl / 2] >> (4 * (1 - sl % 2)) & 15);
        switch.set_sl2vl(input, output, &vls).map_err(refused)?;
    }
    let vls = switch.sl2vl(input, output);
    data.fill(0);
    for (byte, pair) in data.iter_mut().zip(vls.chunks_exact(2)) {
        *byte = pair[0] << 4 | pair[1] & 15;
    }
    Ok(())
}

fn vl_arb(data: &mut [u8], switch: &mut impl Switch, is_set: bool, modifier: u32) -> Result<(), u16> {
    let (high, block) = arb_block(modifier)?;
    let port = modifier as u8;
    let mut entries = switch.vl_arb(port, high, block).ok_or(status::BAD_VALUE)?;
    if is_set {
        for (entry, pair) in entries.iter_mut().zip(data.chunks_exact(2)) {
            *entry = (pair[0] & 15, pair[1]);
        }
        switch.set_vl_arb(port, high, block, &entries).map_err(refused)?;
    }
    for (pair, (vl, weight)) in data.chunks_exact_mut(2).zip(entries) {
        pair.copy_from_slice(&[vl, weight]);
    }
    Ok(())
}

fn linear_table(data: &mut [u8], switch: &mut impl Switch, is_set: bool, modifier: u32) -> Result<(), u16> {
    let first = u64::from(modifier) * LIDS_PER_BLOCK as u64;
    if first >= u64::from(switch.facts().linear_cap) {
        return Err(status::BAD_VALUE);
    }
    for (lid, byte) in (first as u16..).zip(data.iter_mut()) {
        if is_set && lid != 0 {
            switch.set_unicast(lid, *byte);
        }
        *byte = switch.unicast(lid);
    }
    Ok(())
}

fn multicast_table(
    data: &mut [u8],
    switch: &mut impl Switch,
    is_set: bool,
    modifier: u32,
) -> Result<(), u16> {
    let (block, position) = (modifier & 0x1ff, (modifier >> 28) as u8);
    let first = block * GROUPS_PER_BLOCK as u32;
    if first >= u32::from(switch.facts().multicast_cap) || position * PORTS_PER_POSITION >= 64 {
        return Err(status::BAD_VALUE);
    }
    let shift = position * PORTS_PER_POSITION;
    for (group, pair) in (first as u16..).zip(data.chunks_exact_mut(2)) {
        let mlid = hca_wire::LID_MULTICAST + group;
        if is_set {
            let others = switch.multicast(mlid) & !(0xffff << shift);
            switch.set_multicast(mlid, others | u64::from(u16_at(pair, 0)) << shift);
        }
        put_u16(pair, 0, (switch.multicast(mlid) >> shift) as u16);
    }
    Ok(())
}

#[cfg(test)]
#[path = "switch_tests.rs"]
pub(crate) mod tests;
