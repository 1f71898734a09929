//! The agent of an InfiniBand switch: what a subnet manager reads and sets. The switch's tables are the ones that it
//! forwards by; of a link's size (MTU, VLs) its ends have agreed already, and what is set there is only read back.

use hca_agents::packet::{self, From};
use hca_agents::sma::{ARB_PER_BLOCK, PKEYS_PER_BLOCK};
use hca_agents::smp::Way;
use hca_agents::switch::{NO_PORT, Switch, SwitchAgent, SwitchFacts};
use hca_agents::{NodeFacts, PortFacts, PortSettings, Refused, State};
use hca_wire::{LID_PERMISSIVE, LNH_IBA_LOCAL, QPN_SMI, crc, lrh};

use super::link::Received;
use super::switch::IbSwitchConfig;
use super::tables::{Forwarding, SlTables};
use crate::arb::{VlArbConfig, VlWeight};

/// Card cycles of a second: leases are in seconds.
const CYCLES_PER_S: u64 = 250_000_000;
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
/// E-5: SL to VL tables, faster lanes.
const CAPABILITIES: u32 = 1 << 6 | 1 << 14;
/// Headers in front of a datagram.
const MAD_AT: usize = 28;

/// What a manager has set at a port.
struct PortState {
    state: State,
    mtu: u8,
    op_vls: u8,
    high_limit: u8,
    hoq_life: u8,
    arbitration: VlArbConfig,
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
    ports: Vec<PortState>,
}

/// The arbitration that a port gets, if one does.
pub(crate) type NewArbitration = Option<(u8, VlArbConfig)>;

/// The rest of the switch, for its agent.
pub(crate) struct Rest<'a> {
    pub forwarding: &'a mut Forwarding,
    pub sl_tables: &'a mut SlTables,
    /// VLs of each port's link; `None`: there is no cable.
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
            state: match config.is_managed && number != 0 {
                true => State::Init,
                false => State::Active,
            },
            mtu: mtu_cap,
            op_vls: 1,
            high_limit: 0,
            hoq_life: 0,
            arbitration: config.arbitration.clone(),
        };
        Self {
            agent: SwitchAgent::new(),
            guid: config.guid,
            name: config.name.clone(),
            lid: 0,
            lmc: 0,
            mtu_cap,
            vl_cap: vls_code(config.data_vls),
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
        let way = agent.handle(&mut mad, input, &mut hands, now / CYCLES_PER_S);
        self.agent = agent;
        let output = match way {
            Way::Out(port) => Some(port),
            Way::Here => {
                received.bytes[2..4].copy_from_slice(&from.slid.to_be_bytes());
                received.bytes[6..8].copy_from_slice(&self.lid.to_be_bytes());
                received.lrh.dlid = from.slid;
                rest.forwarding.unicast(from.slid).filter(|port| *port != 0)
            }
            Way::Lost => None,
        };
        received.bytes[MAD_AT..data].copy_from_slice(&mad);
        let icrc = crc::icrc_ib_local(&received.bytes[..data]);
        received.bytes[data..body].copy_from_slice(&icrc.to_be_bytes());
        let vcrc = crc::vcrc(&received.bytes[..body]);
        received.bytes[body..].copy_from_slice(&vcrc.to_be_bytes());
        (output.map(|port| (received, port)), rest.arbitration)
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
        let m = &*self.management;
        let port = m.ports.get(usize::from(number))?;
        Some(PortFacts {
            number,
            lid: if number == 0 { m.lid } else { 0 },
            lmc: if number == 0 { m.lmc } else { 0 },
            cap_mask: if number == 0 { CAPABILITIES } else { 0 },
            state: if is_up { port.state } else { State::Down },
            phys_state: if is_up { PHYS_LINK_UP } else { PHYS_POLLING },
            width: WIDTH_4X,
            speed: SPEED_10,
            speed_ext: SPEED_25_EXT,
            mtu: port.mtu,
            mtu_cap: m.mtu_cap,
            vl_cap: m.vl_cap,
            op_vls: port.op_vls,
            high_limit: port.high_limit,
            hoq_life: port.hoq_life,
            arb_entries: if number == 0 { 0 } else { ARB_ENTRIES },
            pkey_violations: 0,
            qkey_violations: 0,
        })
    }

    fn set_port(&mut self, number: u8, settings: &PortSettings) -> Result<(), Refused> {
        if number == 0 {
            (self.management.lid, self.management.lmc) = (settings.lid, settings.lmc);
        }
        let port = self.port_mut(number).ok_or(Refused)?;
        (port.mtu, port.op_vls) = (settings.mtu, settings.op_vls);
        (port.high_limit, port.hoq_life) = (settings.high_limit, settings.hoq_life);
        match settings.state {
            // The cable trains again at once.
            Some(State::Down) => port.state = State::Init,
            Some(state) if number != 0 => port.state = state,
            _ => {}
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
