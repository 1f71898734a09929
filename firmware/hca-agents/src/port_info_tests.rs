//! PortInfo, field by field: what a Get says of each, and what a Set of each value does (MGMT-5, MGMT-11, VL-14). The
//! tables are the attribute from its first bit to its last; a field that nobody has thought of fails the test.

use super::*;
use crate::mad::{self, MAD_BYTES, Mad, SMP_DATA, attribute_of, method, put_u32, status_of};
use crate::sma::tests::Model as CaPort;
use crate::smp::Way;
use crate::switch::SwitchAgent;
use crate::switch::tests::Model as SwitchPorts;
use crate::{Agent, sma::attr};
use std::vec::Vec;

/// What a Set of a value does.
#[derive(Clone, Copy, Debug)]
enum Set {
    /// It is read from then on.
    Is(u64),
    /// The answer says that all is well, and what is read is what was.
    Stays(u64),
    /// Refused: "a value that cannot be", and nothing has changed.
    No(u64),
}
use Set::{Is, No, Stays};

/// Name, bits, what a Get says, Sets.
type Row = (&'static str, usize, u64, &'static [Set]);

/// PortInfo of a card that has LID 7 of a manager at LID 1.
const CARD: &[Row] = &[
    ("M_Key", 64, 0, &[Is(0x1122_3344_5566_7788), Is(0)]),
    (
        "GidPrefix",
        64,
        0xfe80_0000_0000_0000,
        &[Is(0xfec0_0000_0000_0001)],
    ),
    (
        "LID",
        16,
        7,
        &[Is(0x40), Is(0xbfff), No(0), No(0xc000), No(0xffff)],
    ),
    (
        "MasterSMLID",
        16,
        1,
        &[Is(0x99), Is(0xbfff), No(0), No(0xc000), No(0xffff)],
    ),
    ("CapabilityMask", 32, 0x8040, &[Stays(0xffff_ffff), Stays(0)]),
    ("DiagCode", 16, 0, &[Stays(0xffff)]),
    ("M_KeyLeasePeriod", 16, 0, &[Is(300), Is(0xffff)]),
    ("LocalPortNum", 8, 1, &[Stays(2)]),
    (
        "LinkWidthEnabled",
        8,
        3,
        &[Stays(0), Stays(2), Stays(3), Stays(0xff), No(1), No(8)],
    ),
    ("LinkWidthSupported", 8, 3, &[Stays(1), Stays(0xff)]),
    ("LinkWidthActive", 8, 2, &[Stays(1), Stays(8)]),
    ("LinkSpeedSupported", 4, 7, &[Stays(1)]),
    // DOWN trains the link, which is in INIT then.
    (
        "PortState",
        4,
        2,
        &[Stays(0), Stays(1), Stays(2), Is(3), No(4), No(5), No(15)],
    ),
    (
        "PortPhysicalState",
        4,
        5,
        &[Stays(0), Stays(2), No(1), No(3), No(4), No(5), No(15)],
    ),
    ("LinkDownDefaultState", 4, 2, &[Stays(0), Stays(2), No(1), No(3)]),
    ("M_KeyProtectBits", 2, 0, &[Is(1), Is(2), Is(3)]),
    ("reserved", 3, 0, &[Stays(7)]),
    // LID 7 has no room for more.
    ("LMC", 3, 0, &[Is(0), No(1), No(7)]),
    ("LinkSpeedActive", 4, 4, &[Stays(1)]),
    (
        "LinkSpeedEnabled",
        4,
        7,
        &[Stays(0), Stays(4), Stays(7), Stays(15), No(1), No(2), No(3)],
    ),
    (
        "NeighborMTU",
        4,
        1,
        &[Stays(0), Is(1), Is(2), Is(3), Is(4), Is(5), No(6), No(15)],
    ),
    ("MasterSMSL", 4, 0, &[Is(5), Is(15)]),
    ("VLCap", 4, 4, &[Stays(1)]),
    ("InitType", 4, 0, &[Stays(15)]),
    ("VLHighLimit", 8, 0, &[Is(9), Is(255)]),
    ("VLArbitrationHighCap", 8, 64, &[Stays(1)]),
    ("VLArbitrationLowCap", 8, 64, &[Stays(1)]),
    ("InitTypeReply", 4, 0, &[Is(3), Is(15)]),
    ("MTUCap", 4, 5, &[Stays(1)]),
    ("VLStallCount", 3, 0, &[Stays(7)]),
    ("HOQLife", 5, 0, &[Stays(5)]),
    (
        "OperationalVLs",
        4,
        1,
        &[Stays(0), Is(1), Is(2), Is(3), Is(4), No(5), No(15)],
    ),
    ("PartitionEnforcementInbound", 1, 0, &[Stays(1)]),
    ("PartitionEnforcementOutbound", 1, 0, &[Stays(1)]),
    ("FilterRawInbound", 1, 0, &[Stays(1)]),
    ("FilterRawOutbound", 1, 0, &[Stays(1)]),
    ("M_KeyViolations", 16, 0, &[Stays(9), Is(0)]),
    ("P_KeyViolations", 16, 3, &[Stays(9), Is(0)]),
    ("Q_KeyViolations", 16, 2, &[Stays(9), Is(0)]),
    ("GUIDCap", 8, 1, &[Stays(9)]),
    ("ClientReregister", 1, 0, &[Stays(1)]),
    ("MulticastPKeyTrapSuppressionEnabled", 2, 0, &[Stays(3)]),
    ("SubnetTimeOut", 5, 0, &[Is(18), Is(31)]),
    ("reserved", 3, 0, &[Stays(7)]),
    ("RespTimeValue", 5, 16, &[Stays(3)]),
    ("LocalPhyErrors", 4, 8, &[Stays(3)]),
    ("OverrunErrors", 4, 0, &[Stays(8)]),
    ("MaxCreditHint", 16, 0, &[Stays(9)]),
    ("reserved", 8, 0, &[Stays(0xff)]),
    ("LinkRoundTripLatency", 24, 0, &[Stays(9)]),
    ("CapabilityMask2", 16, 1, &[Stays(0xffff)]),
    ("LinkSpeedExtActive", 4, 0, &[Stays(2)]),
    ("LinkSpeedExtSupported", 4, 0, &[Stays(3)]),
    ("reserved", 3, 0, &[Stays(7)]),
    (
        "LinkSpeedExtEnabled",
        5,
        0,
        &[Stays(0), Stays(30), Stays(31), No(1), No(2), No(4)],
    ),
];

/// What is another way at a port of a switch, other than 0.
const OF_SWITCH: &[(&str, u64, &[Set])] = &[
    ("M_Key", 0, &[Stays(5)]),
    ("GidPrefix", 0xfe80_0000_0000_0000, &[Stays(5)]),
    ("LID", 0, &[Stays(7), Stays(0xffff)]),
    ("MasterSMLID", 0, &[Stays(7), Stays(0xffff)]),
    ("CapabilityMask", 0, &[Stays(0xffff_ffff)]),
    ("M_KeyLeasePeriod", 0, &[Stays(300)]),
    ("LocalPortNum", 3, &[Stays(2)]),
    // Disabled: until somebody says Polling.
    (
        "PortPhysicalState",
        5,
        &[Stays(0), Stays(2), Is(3), No(1), No(4), No(5), No(15)],
    ),
    ("M_KeyProtectBits", 0, &[Stays(3)]),
    ("LMC", 0, &[Stays(1)]),
    ("MasterSMSL", 0, &[Stays(5)]),
    (
        "NeighborMTU",
        5,
        &[Stays(0), Is(1), Is(2), Is(3), Is(4), Is(5), No(6), No(15)],
    ),
    ("InitTypeReply", 0, &[Stays(3)]),
    ("HOQLife", 0, &[Is(5), Is(19), Is(31)]),
    ("PartitionEnforcementInbound", 0, &[Is(1)]),
    ("PartitionEnforcementOutbound", 0, &[Is(1)]),
    ("M_KeyViolations", 0, &[Stays(9)]),
    ("P_KeyViolations", 0, &[Stays(9)]),
    ("Q_KeyViolations", 0, &[Stays(9)]),
    ("SubnetTimeOut", 0, &[Stays(18)]),
    ("LocalPhyErrors", 0, &[Stays(3)]),
    ("CapabilityMask2", 0, &[Stays(1)]),
    ("LinkSpeedExtActive", 2, &[Stays(1)]),
    ("LinkSpeedExtSupported", 3, &[Stays(1)]),
    (
        "LinkSpeedExtEnabled",
        3,
        &[Stays(0), Stays(2), Stays(3), Stays(30), Stays(31), No(1), No(4)],
    ),
];

/// What is another way at port 0 of a switch, which has the switch's LID.
const OF_PORT_0: &[(&str, u64, &[Set])] = &[
    ("LocalPortNum", 3, &[Stays(2)]),
    ("CapabilityMask", 0, &[Stays(0xffff_ffff)]),
    ("NeighborMTU", 5, &[Stays(0), Is(1), Is(5), No(6), No(15)]),
    ("HOQLife", 0, &[Is(5)]),
    ("PartitionEnforcementInbound", 0, &[Is(1)]),
    ("PartitionEnforcementOutbound", 0, &[Is(1)]),
    ("P_KeyViolations", 0, &[Stays(9)]),
    ("Q_KeyViolations", 0, &[Stays(9)]),
    ("LocalPhyErrors", 0, &[Stays(3)]),
    ("CapabilityMask2", 0, &[Stays(1)]),
    ("LinkSpeedExtActive", 2, &[Stays(1)]),
    ("LinkSpeedExtSupported", 3, &[Stays(1)]),
    ("LinkSpeedExtEnabled", 3, &[Stays(0), Stays(2), No(1), No(4)]),
];

fn bits(data: &[u8], at: usize, width: usize) -> u64 {
    let bit = |n: usize| u64::from(data[n / 8] >> (7 - n % 8) & 1);
    (at..at + width).fold(0, |value, n| value << 1 | bit(n))
}

fn put_bits(data: &mut [u8], at: usize, width: usize, value: u64) {
    for n in 0..width {
        let (byte, mask) = ((at + n) / 8, 0x80u8 >> ((at + n) % 8));
        let is_one = value >> (width - 1 - n) & 1 != 0;
        data[byte] = data[byte] & !mask | if is_one { mask } else { 0 };
    }
}

/// A port with its agent.
#[expect(clippy::large_enum_variant, reason = "there is one at a time")]
enum Asked {
    Card(Agent, CaPort),
    Switch(SwitchAgent, SwitchPorts, u8),
}

impl Asked {
    fn port(&self) -> u8 {
        match self {
            Self::Card(..) => 0,
            Self::Switch(.., port) => *port,
        }
    }

    /// PortInfo that comes back, and the status with it.
    fn ask(&mut self, method: u8, data: Option<&[u8]>) -> (Vec<u8>, u16) {
        let mut mad: Mad = [0; MAD_BYTES];
        (mad[0], mad[1], mad[2], mad[3]) = (1, mad::class::SM_LID, 1, method);
        crate::mad::put_u16(&mut mad, 16, attr::PORT_INFO);
        put_u32(&mut mad, 20, self.port().into());
        if let Some(data) = data {
            mad[SMP_DATA..SMP_DATA + 64].copy_from_slice(data);
        }
        let is_answered = match self {
            Self::Card(agent, port) => agent.handle(&mut mad, 7, port, 0),
            Self::Switch(agent, ports, _) => agent.handle(&mut mad, 7, 3, ports, 0) == Way::Here,
        };
        assert!(is_answered && attribute_of(&mad) == attr::PORT_INFO);
        (mad[SMP_DATA..SMP_DATA + 64].to_vec(), status_of(&mad))
    }

    fn get(&mut self) -> Vec<u8> {
        let (data, status) = self.ask(method::GET, None);
        assert_eq!(status, 0);
        data
    }

    /// What is, as a Set that changes nothing.
    fn as_set(&mut self) -> Vec<u8> {
        let mut data = self.get();
        put_bits(&mut data, 32 * 8 + 4, 4, 0);
        put_bits(&mut data, 33 * 8, 4, 0);
        data
    }

    /// Set up by a manager at LID 1.
    fn set_up(mut self) -> Self {
        if !matches!(self, Self::Switch(.., 1..)) {
            let mut data = self.as_set();
            put_bits(&mut data, 16 * 8, 16, 7);
            put_bits(&mut data, 18 * 8, 16, 1);
            assert_eq!(self.ask(method::SET, Some(&data)).1, 0);
        }
        self
    }
}

fn card() -> Asked {
    let mut port = CaPort::new();
    port.facts.qkey_violations = 2;
    Asked::Card(Agent::new(), port).set_up()
}

fn switch(port: u8) -> Asked {
    Asked::Switch(SwitchAgent::new(), SwitchPorts::default(), port).set_up()
}

/// Each field with each of its values, from the beginning each time.
fn check(make: impl Fn() -> Asked, others: &[(&str, u64, &'static [Set])]) {
    let mut at = 0;
    for (name, width, before, sets) in CARD {
        let other = others.iter().find(|(other, ..)| other == name);
        let (before, sets) = other.map_or((*before, *sets), |(_, before, sets)| (*before, *sets));
        let first = make().get();
        assert_eq!(bits(&first, at, *width), before, "Get of {name}");
        for set in sets {
            let mut asked = make();
            let (mut data, Is(value) | Stays(value) | No(value)) = (asked.as_set(), *set);
            put_bits(&mut data, at, *width, value);
            let (_, status) = asked.ask(method::SET, Some(&data));
            let refused = matches!(set, No(_));
            assert_eq!(
                status,
                if refused { mad::status::BAD_VALUE } else { 0 },
                "{name}: {set:?}"
            );
            let now = asked.get();
            let wanted = if matches!(set, Is(_)) { value } else { before };
            assert_eq!(bits(&now, at, *width), wanted, "{name}: {set:?}");
            if refused {
                assert_eq!(now, first, "{name}: {set:?}: something else has changed");
            }
        }
        at += width;
    }
    assert_eq!(at, 64 * 8, "the table is the attribute");
    for (name, ..) in others {
        assert!(CARD.iter().any(|row| row.0 == *name), "{name}");
    }
}

/// MGMT-5, MGMT-11: every field of a card's PortInfo.
#[test]
fn mgmt_5_every_field_of_a_card() {
    check(card, &[]);
}

/// MGMT-5: the same of the ports of a switch.
#[test]
fn mgmt_5_every_field_of_a_switch() {
    check(|| switch(2), OF_SWITCH);
    check(|| switch(0), OF_PORT_0);
}

/// VL-14: from every state to every state, 0 (no change) to ACTIVE, at a card and at a switch; what may not be is
/// refused and changes nothing. A port that trains its link anew (DOWN) is in INIT when it answers: a card whose link
/// is down has none to be asked by.
#[test]
fn vl_14_every_state_to_every_state() {
    use State::{Active, Armed, Down, Init};
    // Rows: from. Columns: 0 (none), DOWN, INIT, ARMED, ACTIVE. `None`: refused.
    let table = [
        (Down, [Some(Down), Some(Down), None, None, None]),
        (Init, [Some(Init), Some(Down), Some(Init), Some(Armed), None]),
        (Armed, [Some(Armed), Some(Down), None, Some(Armed), Some(Active)]),
        (Active, [Some(Active), Some(Down), None, None, Some(Active)]),
    ];
    for (from, row) in table {
        for (to, wanted) in row.into_iter().enumerate() {
            for mut asked in [card(), switch(2)] {
                let mut data = asked.as_set();
                put_bits(&mut data, 32 * 8 + 4, 4, to as u64);
                match &mut asked {
                    Asked::Card(_, port) => port.facts.state = from,
                    Asked::Switch(_, ports, number) => ports.facts_mut(*number).state = from,
                }
                let (_, status) = asked.ask(method::SET, Some(&data));
                assert_eq!(status == 0, wanted.is_some(), "{from:?} to {to}");
                let wanted = wanted.unwrap_or(from);
                let (now, wanted) = match &mut asked {
                    Asked::Card(_, port) => (port.facts.state, wanted),
                    // The model of a switch trains its link at once.
                    Asked::Switch(_, ports, number) if to == 1 && from != Down => {
                        (ports.facts_mut(*number).state, Init)
                    }
                    Asked::Switch(_, ports, number) => (ports.facts_mut(*number).state, wanted),
                };
                assert_eq!(now, wanted, "{from:?} to {to}");
            }
        }
    }
}
