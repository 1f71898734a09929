//! Agents that live long among neighbours who mean harm: by seed, as many cases as `HCA_AGENT_CASES` says.

use crate::mad::{self, MAD_BYTES, Mad, class, method, put_u16, put_u32, put_u64, status_of, transaction_of};
use crate::sma::tests::Model as CaPort;
use crate::smp::Way;
use crate::switch::SwitchAgent;
use crate::switch::tests::Model as SwitchPorts;
use crate::{Agent, State, pma};
use std::env;

const KEY: u64 = 0x1122_3344_5566_7788;
const MIN_TRAP_US: u64 = 10_000;

fn cases() -> u64 {
    let asked = env::var("HCA_AGENT_CASES").ok();
    asked.map_or(30_000, |text| text.parse().expect("HCA_AGENT_CASES is a number"))
}

/// SplitMix64.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }

    fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }

    fn one_of<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.below(of.len() as u64) as usize]
    }

    /// A datagram of any bytes, most of whose headers name something that there is.
    fn mad(&mut self, knows_key: bool) -> Mad {
        let mut mad = [0; MAD_BYTES];
        for chunk in mad.chunks_mut(8) {
            chunk.copy_from_slice(&self.next().to_be_bytes());
        }
        if self.below(10) != 0 {
            (mad[0], mad[2]) = (1, 1);
            mad[1] = self.one_of(&[class::SM_LID, class::SM_DIRECTED]);
            mad[3] = self.one_of(&[method::GET, method::SET, method::TRAP_REPRESS, method::GET_RESP]);
            put_u16(
                &mut mad,
                16,
                self.one_of(&[
                    2, 0x10, 0x11, 0x12, 0x14, 0x15, 0x16, 0x17, 0x18, 0x19, 0x1b, 0x31,
                ]),
            );
            let modifier = self.below(4) as u32 | self.one_of(&[0, 1 << 16, 3 << 16, 1 << 28, 1 << 31]);
            put_u32(&mut mad, 20, modifier);
            let hops = self.below(4) as u8;
            (mad[6], mad[7]) = (self.one_of(&[hops, hops, 0, 1]), hops);
            if self.below(4) != 0 {
                mad[4] &= 0x7f;
                mad[32..36].fill(0xff);
            }
        }
        put_u64(&mut mad, 24, if knows_key { KEY } else { self.next() });
        mad
    }
}

fn is_request(mad: &Mad) -> bool {
    matches!(
        mad::method_of(mad),
        method::GET | method::SET | method::TRAP_REPRESS
    )
}

fn lock(agent: &mut Agent, port: &mut CaPort) {
    let mut mad = [0; MAD_BYTES];
    (mad[0], mad[1], mad[2], mad[3]) = (1, class::SM_LID, 1, method::GET);
    put_u16(&mut mad, 16, 0x15);
    put_u64(&mut mad, 24, KEY);
    assert!(agent.handle(&mut mad, 3, port, 0));
    (mad[3], mad[4], mad[5]) = (method::SET, 0, 0);
    put_u64(&mut mad, 64, KEY);
    put_u16(&mut mad, 64 + 16, 7);
    put_u16(&mut mad, 64 + 18, 3);
    put_u16(&mut mad, 64 + 26, 0);
    (mad[64 + 32], mad[64 + 33], mad[64 + 34]) = (mad[64 + 32] & 0xf0, 0, 2 << 6);
    assert!(agent.handle(&mut mad, 3, port, 0));
    assert_eq!(status_of(&mad), 0);
}

/// KEY-2 to KEY-5, MGMT-2: who does not know the key changes nothing and reads nothing, however long he tries; each try
/// is counted, and told of at the rate that is allowed.
#[test]
fn key_3_who_does_not_know_the_key_gets_nowhere() {
    let (mut random, mut agent, mut port) = (Random(1), Agent::new(), CaPort::new());
    lock(&mut agent, &mut port);
    let (before, mut tries, mut traps) = (port.clone(), 0u64, 0u64);
    for case in 0..cases() {
        let now_us = case * 7;
        let mut mad = random.mad(false);
        let is_try = is_request(&mad) && mad::mkey_of(&mad) != KEY && matches!(mad[1], class::SM_LID);
        assert!(
            !agent.handle(&mut mad, 9, &mut port, now_us / 1_000_000),
            "case {case}"
        );
        assert_eq!(port, before, "case {case}");
        tries += u64::from(is_try);
        if let Some(trap) = agent.trap(now_us, 7) {
            traps += 1;
            assert_eq!(mad::u16_at(&trap, 64 + 4), 256);
        }
    }
    let counted = u64::from(agent.kept().mkey_violations);
    assert!(
        counted >= tries.min(u16::MAX.into()) && tries > cases() / 10,
        "{counted} of {tries}"
    );
    assert!(
        traps >= 1 && traps <= cases() * 7 / MIN_TRAP_US + 1,
        "{traps} traps"
    );
}

/// MGMT-2, VL-14: who knows the key can do anything but this: an answer is of its question, a state moves by one step.
#[test]
fn vl_14_who_knows_the_key_stays_within_the_rules() {
    let (mut random, mut agent, mut port) = (Random(2), Agent::new(), CaPort::new());
    for case in 0..cases() {
        if agent.kept().mkey != KEY {
            // Whatever key somebody has set: its port is a new one.
            (agent, port) = (Agent::new(), CaPort::new());
            lock(&mut agent, &mut port);
        }
        let mut mad = random.mad(true);
        let (asked, state) = (mad, port.facts.state);
        if agent.handle(&mut mad, 9, &mut port, case) {
            assert!(is_request(&asked), "case {case}");
            assert_eq!(mad[3], method::GET_RESP);
            assert_eq!(transaction_of(&mad), transaction_of(&asked));
            assert_eq!(
                (mad[..3] == asked[..3], mad[16..32] == asked[16..32]),
                (true, true)
            );
            let may_set = mad::method_of(&asked) == method::SET && status_of(&mad) & 0x7fff == 0;
            assert!(may_set || state == port.facts.state, "case {case}");
        }
        let (from, to) = (state as u8, port.facts.state as u8);
        let is_step = from == to || to == from + 1 || to == State::Down as u8;
        assert!(is_step, "case {case}: {from} to {to}");
        let _ = agent.trap(case * 1_000, 7);
        if port.facts.state == State::Down {
            port.facts.state = State::Init;
        }
    }
}

/// MGMT-2: a switch passes on, answers or loses; what it passes on leaves by a port of the route.
#[test]
fn mgmt_2_a_switch_survives_any_datagram() {
    let (mut random, mut agent, mut switch) = (Random(3), SwitchAgent::new(), SwitchPorts::default());
    let (mut passed, mut answered) = (0u64, 0u64);
    for case in 0..cases() {
        let mut mad = random.mad(case % 2 == 0);
        let asked = mad;
        let input = 1 + random.below(4) as u8;
        match agent.handle(&mut mad, 9, input, &mut switch, case) {
            Way::Out(port) if mad[3] == asked[3] && status_of(&mad) == status_of(&asked) => {
                passed += 1;
                assert!(asked[128..].contains(&port), "case {case}: by a port of a path");
                assert_eq!(mad[64..128], asked[64..128], "case {case}: data are not its own");
            }
            Way::Out(port) => {
                answered += 1;
                assert_eq!((port, mad[3]), (input, method::GET_RESP), "case {case}");
            }
            Way::Here => assert_eq!(mad[3], method::GET_RESP, "case {case}"),
            Way::Lid(_) | Way::Lost => {}
        }
        if case % 50 == 0 {
            agent.link_changed(5);
        }
        let _ = agent.trap(case * 1_000, 5);
        if agent.kept().mkey != 0 {
            agent = SwitchAgent::new();
        }
    }
    assert!(
        passed > cases() / 100 && answered > cases() / 100,
        "{passed} passed, {answered} answered"
    );
}

/// MGMT-4: the same of performance management: counters never grow by a question, and answers are of their questions.
#[test]
fn mgmt_4_counters_survive_any_datagram() {
    let (mut random, mut agent) = (Random(4), pma::Agent::new());
    for case in 0..cases() {
        let mut mad = random.mad(true);
        if case % 4 != 0 {
            (mad[0], mad[1], mad[2]) = (1, class::PERF, 1);
            mad[3] = random.one_of(&[method::GET, method::SET, 5, 0x81]);
            put_u16(&mut mad, 16, random.one_of(&[1, 0x12, 0x1d, 0x15]));
            mad[65] = random.one_of(&[1, 1, 0xff, 7]);
        }
        let asked = mad;
        let now = pma::Counts {
            xmit_words: case,
            rcv_packets: case / 2,
            ..pma::Counts::default()
        };
        if agent.handle(&mut mad, 1, || now) {
            assert_eq!(
                (mad[3], mad[8..24] == asked[8..24]),
                (method::GET_RESP, true),
                "case {case}"
            );
            let is_read = status_of(&mad) == 0 && mad::attribute_of(&asked) == 0x12;
            assert!(
                !is_read || u64::from(mad::u32_at(&mad, 64 + 24)) <= case,
                "case {case}"
            );
        }
    }
}
