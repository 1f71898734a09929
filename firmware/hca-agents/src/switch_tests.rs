//! The agent of a switch on a switch of memory.

use super::*;
use crate::State;
use crate::mad::{MAD_BYTES, put_u32, status_of, u32_at};
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::vec::Vec;

#[derive(Clone, Default)]
pub(crate) struct Model {
    lids: BTreeMap<u16, u8>,
    groups: BTreeMap<u16, u64>,
    vls: BTreeMap<(u8, u8), [u8; 16]>,
    set: Vec<(u8, PortSettings)>,
    pkeys: BTreeMap<u8, [u16; 32]>,
    ports: BTreeMap<u8, PortFacts>,
}

const PORTS: u8 = 4;

impl Model {
    /// What a port is, to change.
    pub fn facts_mut(&mut self, number: u8) -> &mut PortFacts {
        self.ports.entry(number).or_insert(PortFacts {
            number,
            lid: 0,
            lmc: 0,
            cap_mask: 0,
            cap_mask2: 0,
            state: State::Init,
            phys_state: 5,
            width: 2,
            speed: 4,
            speed_ext: 2,
            mtu: 5,
            mtu_cap: 5,
            vl_cap: 4,
            op_vls: 1,
            high_limit: 0,
            hoq_life: 0,
            phy_errors: 0,
            arb_entries: 64,
            enforces_pkeys: [false; 2],
            pkey_violations: 0,
            qkey_violations: 0,
        })
    }
}

impl Switch for Model {
    fn node(&mut self) -> NodeFacts {
        NodeFacts {
            system_guid: 1,
            node_guid: 2,
            port_guid: 2,
            ports: PORTS,
            pkeys: 32,
            device: 4,
            revision: 5,
            vendor: 6,
            description: [b's'; 64],
        }
    }

    fn facts(&mut self) -> SwitchFacts {
        SwitchFacts {
            linear_cap: 128,
            multicast_cap: 64,
        }
    }

    fn port(&mut self, number: u8) -> Option<PortFacts> {
        (number <= PORTS).then(|| *self.facts_mut(number))
    }

    fn set_port(&mut self, number: u8, settings: &PortSettings) -> Result<(), Refused> {
        self.set.push((number, *settings));
        let facts = self.facts_mut(number);
        if number == 0 {
            (facts.lid, facts.lmc) = (settings.lid, settings.lmc);
        }
        (facts.mtu, facts.op_vls, facts.high_limit) = (settings.mtu, settings.op_vls, settings.high_limit);
        (facts.hoq_life, facts.enforces_pkeys) = (settings.hoq_life, settings.enforces_pkeys);
        // A cable trains again at once.
        facts.state = match settings.state.unwrap_or(facts.state) {
            State::Down if settings.state.is_some() => State::Init,
            state => state,
        };
        facts.phys_state = match settings.is_enabled {
            Some(false) => 3,
            _ => facts.phys_state,
        };
        Ok(())
    }

    fn pkeys(&mut self, port: u8) -> [u16; 32] {
        self.pkeys.get(&port).copied().unwrap_or([0; 32])
    }

    fn set_pkeys(&mut self, port: u8, pkeys: &[u16; 32]) {
        self.pkeys.insert(port, *pkeys);
    }

    fn unicast(&mut self, lid: u16) -> u8 {
        self.lids.get(&lid).copied().unwrap_or(NO_PORT)
    }

    fn set_unicast(&mut self, lid: u16, port: u8) {
        self.lids.insert(lid, port);
    }

    fn multicast(&mut self, mlid: u16) -> u64 {
        self.groups.get(&mlid).copied().unwrap_or(0)
    }

    fn set_multicast(&mut self, mlid: u16, ports: u64) {
        self.groups.insert(mlid, ports);
    }

    fn sl2vl(&mut self, input: u8, output: u8) -> [u8; 16] {
        self.vls.get(&(input, output)).copied().unwrap_or([0; 16])
    }

    fn set_sl2vl(&mut self, input: u8, output: u8, vls: &[u8; 16]) -> Result<(), Refused> {
        self.vls.insert((input, output), *vls);
        Ok(())
    }

    fn vl_arb(&mut self, port: u8, _: bool, _: u8) -> Option<[(u8, u8); ARB_PER_BLOCK]> {
        (port <= PORTS).then_some([(0, 1); ARB_PER_BLOCK])
    }

    fn set_vl_arb(&mut self, _: u8, _: bool, _: u8, _: &[(u8, u8); ARB_PER_BLOCK]) -> Result<(), Refused> {
        Err(Refused)
    }
}

/// A request by directed route whose last hop is the switch.
fn request(method: u8, attribute: u16, modifier: u32) -> Mad {
    let mut mad = [0; MAD_BYTES];
    (mad[0], mad[1], mad[2], mad[3]) = (1, mad::class::SM_DIRECTED, 1, method);
    (mad[6], mad[7]) = (1, 1);
    put_u16(&mut mad, 16, attribute);
    put_u32(&mut mad, 20, modifier);
    mad[32..36].fill(0xff);
    mad
}

/// What comes back, through port 3.
fn ask(agent: &mut SwitchAgent, switch: &mut Model, mut mad: Mad) -> Mad {
    assert_eq!(agent.handle(&mut mad, 7, 3, switch, 0), Way::Out(3));
    assert_eq!((mad[3], mad[4] & 0x80, mad[193]), (method::GET_RESP, 0x80, 3));
    mad
}

/// MGMT-1: what a subnet manager must see to look behind a switch: its kind and ports, and through which it was asked.
#[test]
fn a_switch_is_discovered() {
    let (mut agent, mut switch) = (SwitchAgent::new(), Model::default());
    let node = ask(&mut agent, &mut switch, request(method::GET, attr::NODE_INFO, 0));
    assert_eq!((node[66], node[67], node[64 + 36]), (SWITCH, PORTS, 3));
    let info = ask(&mut agent, &mut switch, request(method::GET, SWITCH_INFO, 0));
    assert_eq!((u16_at(&info, 64), u16_at(&info, 68)), (128, 64));
    for number in 0..=PORTS {
        let port = ask(
            &mut agent,
            &mut switch,
            request(method::GET, attr::PORT_INFO, number.into()),
        );
        assert_eq!(
            (status_of(&port) & 0x7fff, port[64 + 28]),
            (0, 3),
            "the port asked through"
        );
    }
    let none = ask(&mut agent, &mut switch, request(method::GET, attr::PORT_INFO, 5));
    assert_eq!(status_of(&none) & 0x7fff, status::BAD_VALUE);
}

/// MC, MGMT-1: forwarding tables are written block by block.
#[test]
fn forwarding_tables_are_written() {
    let (mut agent, mut switch) = (SwitchAgent::new(), Model::default());
    let mut set = request(method::SET, LINEAR_TABLE, 1);
    set[SMP_DATA..SMP_DATA + 64].fill(NO_PORT);
    set[SMP_DATA + 6] = 2;
    ask(&mut agent, &mut switch, set);
    assert_eq!((switch.unicast(70), switch.unicast(71)), (2, NO_PORT));
    let got = ask(&mut agent, &mut switch, request(method::GET, LINEAR_TABLE, 1));
    assert_eq!(got[SMP_DATA..SMP_DATA + 64], set[SMP_DATA..SMP_DATA + 64]);
    for (position, ports) in [(0u32, 0b1_0110u16), (1, 0x8001)] {
        let mut set = request(method::SET, MULTICAST_TABLE, position << 28 | 1);
        put_u16(&mut set, SMP_DATA + 4, ports);
        ask(&mut agent, &mut switch, set);
    }
    assert_eq!(switch.multicast(0xc000 + 34), 0x8001_0016);
    for (attribute, modifier) in [
        (LINEAR_TABLE, 2),
        (LINEAR_TABLE, u32::MAX),
        (MULTICAST_TABLE, 2),
        (MULTICAST_TABLE, 4 << 28),
    ] {
        let refused = ask(&mut agent, &mut switch, request(method::GET, attribute, modifier));
        assert_eq!(status_of(&refused) & 0x7fff, status::BAD_VALUE);
    }
}

/// VL-14: ports of a switch are led up one by one; port 0 alone has LIDs.
#[test]
fn ports_are_led_up() {
    let (mut agent, mut switch) = (SwitchAgent::new(), Model::default());
    let mut set = ask(&mut agent, &mut switch, request(method::GET, attr::PORT_INFO, 2));
    let head = request(method::SET, attr::PORT_INFO, 2);
    set[..64].copy_from_slice(&head[..64]);
    (set[64 + 32], set[64 + 33]) = (3, 0);
    set[192..].fill(0);
    ask(&mut agent, &mut switch, set);
    let (number, settings) = switch.set[0];
    assert_eq!((number, settings.state), (2, Some(State::Armed)));
    put_u32(&mut set, 20, 1);
    set[64 + 32] = 4;
    let refused = ask(&mut agent, &mut switch, set);
    assert_eq!(
        status_of(&refused) & 0x7fff,
        status::BAD_VALUE,
        "not from INIT to ACTIVE"
    );
    // Port 0 without a LID.
    put_u32(&mut set, 20, 0);
    set[64 + 32] = 0;
    let refused = ask(&mut agent, &mut switch, set);
    assert_eq!(status_of(&refused) & 0x7fff, status::BAD_VALUE);
    put_u16(&mut set, 64 + 16, 5);
    put_u16(&mut set, 64 + 18, 1);
    // KEY-2.
    mad::put_u64(&mut set, 64, 0x77);
    set[64 + 34] = 2 << 6;
    ask(&mut agent, &mut switch, set);
    let mut locked = request(method::GET, attr::NODE_INFO, 0);
    assert_eq!(agent.handle(&mut locked, 7, 1, &mut switch, 0), Way::Lost);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(5_000))]

    #[test]
    fn any_bytes_are_survived(head in proptest::collection::vec(any::<u8>(), 128), input in 1u8..=4,
                              method in 1u8..3, attribute in 0x10u16..0x1c, modifier: u32, raw: bool) {
        let mut mad = [0xa5; MAD_BYTES];
        mad[..128].copy_from_slice(&head);
        if !raw {
            mad[..64].copy_from_slice(&request(method, attribute, modifier & 0xf000_0103)[..64]);
        }
        let _ = SwitchAgent::new().handle(&mut mad, 7, input, &mut Model::default(), 0);
        let _ = u32_at(&mad, 0);
    }
}

/// KEY-19: a table of P_Keys for each port, port 0's is the switch's own; who enforces says so, and tells of offenders.
#[test]
fn key_19_ports_enforce_partitions() {
    let (mut agent, mut switch) = (SwitchAgent::new(), Model::default());
    let info = ask(&mut agent, &mut switch, request(method::GET, SWITCH_INFO, 0));
    assert_eq!((u16_at(&info, 64 + 14), info[64 + 16]), (32, 0xc0));
    for port in 0..=u32::from(PORTS) {
        let mut set = request(method::SET, attr::PKEY_TABLE, port << 16);
        put_u16(&mut set, 64, 0x8001 + port as u16);
        put_u16(&mut set, 126, 7);
        ask(&mut agent, &mut switch, set);
    }
    for port in 0..=u32::from(PORTS) {
        let told = ask(
            &mut agent,
            &mut switch,
            request(method::GET, attr::PKEY_TABLE, port << 16),
        );
        assert_eq!((u16_at(&told, 64), u16_at(&told, 126)), (0x8001 + port as u16, 7));
    }
    for modifier in [1, u32::from(PORTS + 1) << 16, 1 << 24] {
        let told = ask(
            &mut agent,
            &mut switch,
            request(method::GET, attr::PKEY_TABLE, modifier),
        );
        assert_eq!(status_of(&told) & 0x7fff, status::BAD_VALUE, "{modifier:#x}");
    }
    let mut set = ask(&mut agent, &mut switch, request(method::GET, attr::PORT_INFO, 2));
    (set[3], set[4], set[5], set[6], set[64 + 32], set[64 + 33]) = (method::SET, 0, 0, 1, 0, 0);
    set[64 + 43] |= 0x0c;
    let told = ask(&mut agent, &mut switch, set);
    assert_eq!((status_of(&told) & 0x7fff, told[64 + 43] & 0x0f), (0, 0x0c));

    agent.agent.kept.sm_lid = 3;
    let offender = Offender {
        slid: 7,
        dlid: 9,
        pkey: 0x8123,
        sl: 4,
        dest_qpn: 0x77,
    };
    agent.bad_pkey(5, 2, &offender);
    let trap = agent.trap(0, 5).unwrap();
    let details = &trap[64 + 10..];
    assert_eq!((u16_at(&trap, 68), trap[64]), (259, 0x82));
    assert_eq!(
        (u16_at(details, 2), u16_at(details, 4), u16_at(details, 6)),
        (7, 9, 0x8123)
    );
    assert_eq!((u32_at(details, 8), u32_at(details, 12)), (4 << 28, 0x77));
    assert_eq!((u16_at(details, 48), details[50]), (5, 2));
}
