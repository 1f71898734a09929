//! The agent of subnet management on a port of memory.

use super::*;
use crate::mad::{MAD_BYTES, status_of, u16_at, u64_at};
use proptest::prelude::*;

/// A port that does what it is told.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Model {
    pub facts: PortFacts,
    prefix: u64,
    pkeys: [u16; 32],
    sl2vl: [u8; 16],
    arb: [[(u8, u8); 64]; 2],
    sets: u32,
    refuses: bool,
    pub description: [u8; 64],
}

impl Model {
    pub fn new() -> Self {
        Self {
            facts: PortFacts {
                number: 1,
                lid: 0,
                lmc: 0,
                cap_mask: 0x8040,
                cap_mask2: 1,
                state: State::Init,
                phys_state: 5,
                width: 2,
                speed: 4,
                speed_ext: 0,
                mtu: 1,
                mtu_cap: 5,
                vl_cap: 4,
                op_vls: 1,
                high_limit: 0,
                hoq_life: 0,
                phy_errors: 8,
                arb_entries: 64,
                pkey_violations: 3,
                enforces_pkeys: [false; 2],
                qkey_violations: 0,
            },
            prefix: DEFAULT_PREFIX,
            pkeys: [0xffff; 32],
            sl2vl: [0; 16],
            arb: [[(0, 0); 64]; 2],
            sets: 0,
            refuses: false,
            description: [b'x'; 64],
        }
    }
}

impl Port for Model {
    fn node(&mut self) -> NodeFacts {
        NodeFacts {
            system_guid: 1,
            node_guid: 2,
            port_guid: 3,
            ports: 2,
            pkeys: 32,
            device: 4,
            revision: 5,
            vendor: 6,
            description: self.description,
        }
    }

    fn set_description(&mut self, text: &[u8; 64]) -> Result<(), Refused> {
        self.description = *text;
        Ok(())
    }

    fn facts(&mut self) -> PortFacts {
        self.facts
    }

    fn set(&mut self, settings: &PortSettings) -> Result<(), Refused> {
        if self.refuses {
            return Err(Refused);
        }
        self.sets += 1;
        let f = &mut self.facts;
        (f.lid, f.lmc, f.mtu, f.op_vls) = (settings.lid, settings.lmc, settings.mtu, settings.op_vls);
        f.state = settings.state.unwrap_or(f.state);
        f.high_limit = settings.high_limit;
        self.prefix = settings.gid_prefix;
        Ok(())
    }

    fn clear_violations(&mut self, pkey: bool, qkey: bool) {
        if pkey {
            self.facts.pkey_violations = 0;
        }
        if qkey {
            self.facts.qkey_violations = 0;
        }
    }

    fn pkeys(&mut self, block: u16) -> Option<[u16; 32]> {
        (block == 0).then_some(self.pkeys)
    }

    fn set_pkeys(&mut self, _: u16, pkeys: &[u16; 32]) -> Result<(), Refused> {
        self.pkeys = *pkeys;
        Ok(())
    }

    fn sl2vl(&mut self) -> [u8; 16] {
        self.sl2vl
    }

    fn set_sl2vl(&mut self, vls: &[u8; 16]) -> Result<(), Refused> {
        self.sl2vl = *vls;
        Ok(())
    }

    fn vl_arb(&mut self, high: bool, block: u8) -> Option<[(u8, u8); 32]> {
        let from = 32 * usize::from(block);
        self.arb[usize::from(high)].get(from..from + 32)?.try_into().ok()
    }

    fn set_vl_arb(&mut self, high: bool, block: u8, entries: &[(u8, u8); 32]) -> Result<(), Refused> {
        let from = 32 * usize::from(block);
        self.arb[usize::from(high)][from..from + 32].copy_from_slice(entries);
        Ok(())
    }
}

fn request(method: u8, attribute: u16, modifier: u32, mkey: u64) -> Mad {
    let mut mad = [0; MAD_BYTES];
    (mad[0], mad[1], mad[2], mad[3]) = (1, mad::class::SM_LID, 1, method);
    put_u64(&mut mad, 8, 0x1234);
    put_u16(&mut mad, 16, attribute);
    put_u32(&mut mad, 20, modifier);
    put_u64(&mut mad, 24, mkey);
    mad
}

fn data(mad: &Mad) -> &[u8] {
    &mad[SMP_DATA..SMP_DATA + SMP_DATA_BYTES]
}

/// The PortInfo that there is, as a Set of it.
fn set_of_port_info(agent: &mut Agent, port: &mut Model, mkey: u64) -> Mad {
    let mut mad = request(method::GET, attr::PORT_INFO, 0, mkey);
    assert!(agent.handle(&mut mad, 7, port, 0));
    (mad[3], mad[4], mad[5]) = (method::SET, 0, 0);
    put_u16(&mut mad, SMP_DATA + 16, 7);
    put_u16(&mut mad, SMP_DATA + 18, 1);
    mad[SMP_DATA + 32] &= 0xf0;
    mad[SMP_DATA + 33] = 0;
    mad
}

/// The status of the answer; `None`: there is none.
fn ask(agent: &mut Agent, port: &mut Model, mut mad: Mad, now_s: u64) -> Option<u16> {
    let asked = mad;
    agent.handle(&mut mad, 7, port, now_s).then(|| {
        assert_eq!(mad[3], method::GET_RESP);
        assert_eq!(
            (mad[8..16].to_vec(), mad[16..18].to_vec()),
            (asked[8..16].to_vec(), asked[16..18].to_vec())
        );
        status_of(&mad)
    })
}

/// MGMT-5: what a subnet manager sets, the port gets, and others read.
#[test]
fn a_port_is_set_up() {
    let (mut agent, mut port) = (Agent::new(), Model::new());
    let mut set = set_of_port_info(&mut agent, &mut port, 0);
    put_u32(&mut set, 20, 1 << 31 | 1);
    set[SMP_DATA + 36] = 4 << 4 | 2;
    set[SMP_DATA + 43] = 3 << 4;
    set[SMP_DATA + 51] = 18;
    set[SMP_DATA + 32] |= 3;
    assert!(agent.handle(&mut set, 7, &mut port, 0));
    assert_eq!(status_of(&set), 0);
    assert_eq!(
        (
            port.facts.lid,
            port.facts.mtu,
            port.facts.op_vls,
            port.facts.state
        ),
        (7, 4, 3, State::Armed)
    );
    assert_eq!(
        (
            agent.kept().sm_lid,
            agent.kept().sm_sl,
            agent.kept().subnet_timeout
        ),
        (1, 2, 18)
    );
    assert_eq!(u16_at(data(&set), 16), 7, "the answer tells what is now");
    assert_eq!(data(&set)[32] & 15, 3);
}

/// VL-14: every state from every other: only the way up, one at a time, and down.
#[test]
fn states_move_by_the_specification() {
    for from in [State::Init, State::Armed, State::Active] {
        for to in 0..16u8 {
            let (mut agent, mut port) = (Agent::new(), Model::new());
            port.facts.state = from;
            let mut set = set_of_port_info(&mut agent, &mut port, 0);
            set[SMP_DATA + 32] = port.facts.speed << 4 | to;
            let ok = match (from, to) {
                (_, 0 | 1) | (State::Init, 3) | (State::Armed, 4) => true,
                _ => to == from as u8,
            };
            let expected = if ok { status::OK } else { status::BAD_VALUE };
            assert_eq!(
                ask(&mut agent, &mut port, set, 0),
                Some(expected),
                "{from:?} to {to}"
            );
            assert_eq!(port.sets, u32::from(ok));
        }
    }
}

/// Values that cannot be change nothing.
#[test]
fn impossible_values_are_refused() {
    let changes: [(usize, &[u8]); 10] = [
        (16, &[0, 0]),
        (16, &[0xc0, 0]),
        (18, &[0, 0]),
        (34, &[3]),
        (36, &[6 << 4]),
        (43, &[5 << 4]),
        (33, &[3 << 4]),
        (33, &[1]),
        (29, &[8]),
        (35, &[1]),
    ];
    for (at, bytes) in changes {
        let (mut agent, mut port) = (Agent::new(), Model::new());
        let mut set = set_of_port_info(&mut agent, &mut port, 0);
        set[SMP_DATA + at..SMP_DATA + at + bytes.len()].copy_from_slice(bytes);
        let before = (agent, port.clone());
        assert_eq!(
            ask(&mut agent, &mut port, set, 0),
            Some(status::BAD_VALUE),
            "{at} {bytes:?}"
        );
        assert_eq!((agent, port), before);
    }
    let (mut agent, mut port) = (Agent::new(), Model::new());
    port.refuses = true;
    let set = set_of_port_info(&mut agent, &mut port, 0);
    let before = agent;
    assert_eq!(ask(&mut agent, &mut port, set, 0), Some(status::BAD_VALUE));
    assert_eq!(agent, before);
}

/// A port with an M_Key of 0x55, its protection and lease.
fn locked(protect: u8, lease_s: u16) -> (Agent, Model) {
    let (mut agent, mut port) = (Agent::new(), Model::new());
    let mut set = set_of_port_info(&mut agent, &mut port, 0);
    put_u64(&mut set, SMP_DATA, 0x55);
    put_u16(&mut set, SMP_DATA + 26, lease_s);
    set[SMP_DATA + 34] = protect << 6;
    assert_eq!(ask(&mut agent, &mut port, set, 0), Some(0));
    (agent, port)
}

/// MGMT-13: NodeDescription is set by a manager where CapabilityMask2 says so, and by none elsewhere; who has not the
/// key does not. What the host has changed is told of, together with what else has.
#[test]
fn mgmt_13_a_node_is_described() {
    let (mut agent, mut port) = locked(0, 0);
    let mut set = request(method::SET, attr::NODE_DESC, 0, 0x55);
    set[SMP_DATA..SMP_DATA + 64].copy_from_slice(&[b'y'; 64]);
    let mut stranger = set;
    put_u64(&mut stranger, 24, 0x56);
    assert_eq!(ask(&mut agent, &mut port, stranger, 0), None);
    assert_eq!(port.description, [b'x'; 64]);
    assert_eq!(ask(&mut agent, &mut port, set, 0), Some(0));
    let mut get = request(method::GET, attr::NODE_DESC, 0, 0);
    assert!(agent.handle(&mut get, 7, &mut port, 0));
    assert_eq!((data(&get), port.description), (&[b'y'; 64][..], [b'y'; 64]));
    port.facts.cap_mask2 = 0;
    assert_eq!(ask(&mut agent, &mut port, set, 0), Some(status::NO_ATTRIBUTE));

    let (mut agent, _) = locked(0, 0);
    agent.description_changed(7, 0x8040);
    agent.capabilities_changed(7, 0x8042);
    let trap = agent.trap(0, 7).unwrap();
    let told = &trap[SMP_DATA..];
    assert_eq!((u16_at(told, 4), u16_at(told, 12)), (144, 7));
    assert_eq!(
        (told[15], u16_at(told, 18), u16_at(told, 20)),
        (1, 0x8042, 1),
        "both"
    );
}

/// KEY-2, KEY-3, KEY-4: who has not the key changes nothing, and reads what the protection lets them.
#[test]
fn keys_protect() {
    for protect in 0..4 {
        for (mkey, holds) in [(0x55, true), (0, false), (0x56, false)] {
            let (mut agent, mut port) = locked(protect, 0);
            let mut get = request(method::GET, attr::PORT_INFO, 0, mkey);
            let readable = holds || protect < 2;
            assert_eq!(agent.handle(&mut get, 7, &mut port, 0), readable);
            if readable {
                let shown = if holds || protect == 0 { 0x55 } else { 0 };
                assert_eq!(u64_at(data(&get), 0), shown, "protection {protect}");
            }
            let mut set = set_of_port_info(&mut agent, &mut port, 0x55);
            put_u64(&mut set, 24, mkey);
            let sets = port.sets;
            let violations = agent.kept().mkey_violations;
            assert_eq!(ask(&mut agent, &mut port, set, 0), holds.then_some(0));
            assert_eq!(port.sets - sets, u32::from(holds));
            assert_eq!(agent.kept().mkey_violations - violations, u16::from(!holds));
        }
    }
}

/// KEY-5: the lease runs from the first refusal, unless somebody with the key is heard.
#[test]
fn leases_run_out() {
    let (mut agent, mut port) = locked(3, 10);
    let get = |mkey| request(method::GET, attr::PORT_INFO, 0, mkey);
    assert_eq!(ask(&mut agent, &mut port, get(0), 1000), None);
    assert_eq!(ask(&mut agent, &mut port, get(0), 1009), None);
    assert_eq!(ask(&mut agent, &mut port, get(0x55), 1009), Some(0));
    assert_eq!(
        ask(&mut agent, &mut port, get(0), 1019),
        None,
        "the lease began anew"
    );
    assert_eq!(ask(&mut agent, &mut port, get(0), 1028), None);
    assert_eq!(ask(&mut agent, &mut port, get(0), 1029), Some(0));
    assert_eq!(agent.kept().protect, 0);
    let (mut agent, mut port) = locked(3, 0);
    assert_eq!(ask(&mut agent, &mut port, get(0), 1), None);
    assert_eq!(ask(&mut agent, &mut port, get(0), 1 << 40), None, "for ever");
}

#[test]
fn tables_are_written_and_read() {
    let (mut agent, mut port) = (Agent::new(), Model::new());
    for (attribute, modifier, bytes) in [
        (attr::PKEY_TABLE, 0, 64),
        (attr::SL_TO_VL, 0, 8),
        (attr::VL_ARB, 1 << 16, 64),
        (attr::VL_ARB, 2 << 16, 64),
        (attr::VL_ARB, 3 << 16, 64),
        (attr::VL_ARB, 4 << 16, 64),
    ] {
        let mut set = request(method::SET, attribute, modifier, 0);
        for (index, byte) in set[SMP_DATA..SMP_DATA + bytes].iter_mut().enumerate() {
            // A VL has four bits.
            *byte = index as u8 & 15;
        }
        let written = data(&set).to_vec();
        assert!(agent.handle(&mut set, 7, &mut port, 0));
        assert_eq!((status_of(&set), data(&set)), (0, &written[..]));
        let mut get = request(method::GET, attribute, modifier, 0);
        assert!(agent.handle(&mut get, 7, &mut port, 0));
        assert_eq!(data(&get), written);
    }
    assert_eq!(
        (port.pkeys[1], port.sl2vl[3], port.arb[1][33]),
        (0x203, 1, (2, 3))
    );
    for (attribute, modifier) in [
        (attr::PKEY_TABLE, 1),
        (attr::VL_ARB, 0),
        (attr::VL_ARB, 5 << 16),
        (attr::GUID_INFO, 1),
        (attr::PORT_INFO, 2),
    ] {
        for method in [method::GET, method::SET] {
            let mad = request(method, attribute, modifier, 0);
            assert_eq!(
                ask(&mut agent, &mut port, mad, 0),
                Some(status::BAD_VALUE),
                "{attribute:#x} {modifier:#x}"
            );
        }
    }
}

#[test]
fn what_it_does_not_know_it_says() {
    let (mut agent, mut port) = (Agent::new(), Model::new());
    for attribute in (0..=0xffu16).chain([0xff00, 0xffff]) {
        for method in [method::GET, method::SET] {
            let known = match attribute {
                attr::NODE_INFO => method == method::GET,
                attr::NODE_DESC => true,
                attr::NOTICE => true,
                attr::GUID_INFO..=attr::VL_ARB => true,
                _ => false,
            };
            if !known {
                let mad = request(method, attribute, 0, 0);
                assert_eq!(
                    ask(&mut agent, &mut port, mad, 0),
                    Some(status::NO_ATTRIBUTE),
                    "{attribute:#x}"
                );
            }
        }
    }
    let mut old = request(method::GET, attr::NODE_INFO, 0, 0);
    old[2] = 2;
    assert_eq!(ask(&mut agent, &mut port, old, 0), Some(status::BAD_VERSION));
    for method in (0..=255).filter(|method| ![method::GET, method::SET].contains(method)) {
        assert_eq!(
            ask(&mut agent, &mut port, request(method, attr::NODE_INFO, 0, 0), 0),
            None
        );
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    /// MGMT-2: any bytes are an answer or nothing; what is no Set with the key changes nothing.
    #[test]
    fn any_bytes_are_survived(head in proptest::collection::vec(any::<u8>(), 64), body in any::<[u8; 32]>(),
                              class in prop_oneof![Just(1u8), Just(0x81), any::<u8>()],
                              method in prop_oneof![Just(1u8), Just(2), any::<u8>()],
                              attribute in prop_oneof![0x10u16..0x20, any::<u16>()], hop in 0u8..4) {
        let (mut agent, mut port) = locked(2, 0);
        let mut mad = [0; MAD_BYTES];
        mad[..64].copy_from_slice(&head);
        for chunk in mad[64..].chunks_mut(32) {
            chunk.copy_from_slice(&body);
        }
        (mad[0], mad[1], mad[2], mad[3]) = (1, class, 1, method);
        if hop < 3 {
            mad[4] &= 0x7f;
            (mad[6], mad[7]) = (hop, hop);
            mad[32..36].fill(0xff);
        }
        put_u16(&mut mad, 16, attribute);
        let before = (port.clone(), agent.kept().mkey);
        let answered = agent.handle(&mut mad, 7, &mut port, 5);
        if mkey_of(&mad) != 0x55 {
            prop_assert!(!answered);
            prop_assert_eq!((port, agent.kept().mkey), before);
        }
        // And with the key.
        put_u64(&mut mad, 24, 0x55);
        mad[3] = method;
        let (mut agent, mut port) = locked(2, 0);
        let _ = agent.handle(&mut mad, 7, &mut port, 5);
    }
}
