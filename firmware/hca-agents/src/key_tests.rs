//! M_Keys: every level of protection, with and without a lease, before and after it has run out, Get, Set and
//! TrapRepress, with the key, without one and with a wrong one, of a card and of a switch (KEY-2 to KEY-5).

use crate::mad::{self, MAD_BYTES, Mad, SMP_DATA, method, put_u16, put_u64, u16_at, u64_at};
use crate::sma::attr;
use crate::sma::tests::Model as CaPort;
use crate::smp::Way;
use crate::switch::SwitchAgent;
use crate::switch::tests::Model as SwitchPorts;
use crate::{Agent, sma::Kept};

const KEY: u64 = 0x1122_3344_5566_7788;
const LEASE_S: u16 = 15;
/// When everything begins.
const START_S: u64 = 1_000;
const MKEY: usize = SMP_DATA;
const LEASE: usize = SMP_DATA + 26;
const PROTECT: usize = SMP_DATA + 34;
const VIOLATIONS: usize = SMP_DATA + 44;

/// A card or a switch with an M_Key.
#[expect(clippy::large_enum_variant, reason = "there are two of them")]
#[derive(Clone)]
enum Node {
    Card(Agent, CaPort),
    Switch(SwitchAgent, SwitchPorts),
}

impl Node {
    /// The answer to a request about PortInfo of the port that has the M_Key.
    fn ask(&mut self, method: u8, mkey: u64, data: Option<&Mad>, now_s: u64) -> Option<Mad> {
        let mut mad = data.copied().unwrap_or([0; MAD_BYTES]);
        mad[..64].fill(0);
        (mad[0], mad[1], mad[2], mad[3]) = (1, mad::class::SM_LID, 1, method);
        let attribute = if method == method::TRAP_REPRESS {
            attr::NOTICE
        } else {
            attr::PORT_INFO
        };
        put_u16(&mut mad, 16, attribute);
        put_u64(&mut mad, 24, mkey);
        let is_answered = match self {
            Self::Card(agent, port) => agent.handle(&mut mad, 9, port, now_s),
            Self::Switch(agent, ports) => agent.handle(&mut mad, 9, 3, ports, now_s) == Way::Here,
        };
        is_answered.then_some(mad)
    }

    fn kept(&self) -> Kept {
        match self {
            Self::Card(agent, _) => *agent.kept(),
            Self::Switch(agent, _) => *agent.kept(),
        }
    }

    fn trap(&mut self) -> Option<Mad> {
        match self {
            Self::Card(agent, _) => agent.trap(0, 7),
            Self::Switch(agent, _) => agent.trap(0, 7),
        }
    }

    /// A Set of what is.
    fn as_set(&mut self, now_s: u64) -> Mad {
        let mut mad = self.ask(method::GET, KEY, None, now_s).unwrap();
        (mad[SMP_DATA + 32], mad[SMP_DATA + 33]) = (mad[SMP_DATA + 32] & 0xf0, 0);
        put_u16(&mut mad, SMP_DATA + 16, 7);
        put_u16(&mut mad, SMP_DATA + 18, 1);
        mad
    }

    fn lock(mut self, protect: u8, lease_s: u16) -> Self {
        let mut set = self.as_set(START_S);
        put_u64(&mut set, MKEY, KEY);
        put_u16(&mut set, LEASE, lease_s);
        set[PROTECT] = protect << 6;
        let told = self.ask(method::SET, 0, Some(&set), START_S).unwrap();
        assert_eq!(mad::status_of(&told), 0);
        self
    }
}

fn nodes() -> [Node; 2] {
    [
        Node::Card(Agent::new(), CaPort::new()),
        Node::Switch(SwitchAgent::new(), SwitchPorts::default()),
    ]
}

/// What who has not the key gets, by level: an answer to a Get, and the M_Key in it (IBA vol1 14.2.4.1).
const LEVELS: [(bool, bool); 4] = [(true, true), (true, false), (false, false), (false, false)];

/// One cell: who asks with `mkey` at `now_s`, where `level` counts.
fn check(mut node: Node, level: u8, method: u8, mkey: u64, now_s: u64, what: &str) {
    let (answers_get, shows) = LEVELS[usize::from(level)];
    let holds = mkey == KEY;
    let mut set = node.clone().as_set(now_s);
    put_u16(&mut set, LEASE, 77);
    let before = node.kept().mkey_violations;
    let told = node.ask(method, mkey, Some(&set), now_s);
    let (is_answered, is_violation) = match method {
        method::GET => (holds || answers_get, !holds && !answers_get),
        method::SET => (holds, !holds),
        // It never has an answer, and is refused like a Set.
        _ => (false, !holds),
    };
    assert_eq!(told.is_some(), is_answered, "{what}");
    if let (Some(told), method::GET) = (told, method) {
        let wanted = if holds || shows { KEY } else { 0 };
        assert_eq!(u64_at(&told, MKEY), wanted, "{what}");
        assert_eq!(told[PROTECT] >> 6, level, "{what}");
    }
    let is_set = node.kept().lease_s == 77;
    assert_eq!(is_set, holds && method == method::SET, "{what}");
    let counted = node.kept().mkey_violations - before;
    assert_eq!(counted, u16::from(is_violation), "{what}: violations");
    if is_violation {
        let trap = node.trap().unwrap();
        assert_eq!(u16_at(&trap, SMP_DATA + 4), 256, "{what}");
        assert_eq!(u64_at(&trap, SMP_DATA + 10 + 14), mkey, "{what}: which key");
        let told = node.ask(method::GET, KEY, None, now_s).unwrap();
        assert_eq!(u16_at(&told, VIOLATIONS), before + 1, "{what}: PortInfo tells");
    } else {
        assert!(
            node.trap()
                .is_none_or(|trap| u16_at(&trap, SMP_DATA + 4) != 256 || before != 0),
            "{what}"
        );
    }
}

/// KEY-2 to KEY-5, every cell: level, lease, its end, method, key, kind of node.
#[test]
fn key_3_every_cell() {
    for node in nodes() {
        for (level, lease_s) in (0..4).flat_map(|level| [(level, 0), (level, LEASE_S)]) {
            let locked = node.clone().lock(level, lease_s);
            // How long ago somebody was refused for the first time, if anybody was.
            for refused_s in [None, Some(0), Some(LEASE_S - 1), Some(LEASE_S), Some(1_000)] {
                for method in [method::GET, method::SET, method::TRAP_REPRESS] {
                    for mkey in [KEY, 0, KEY ^ 1] {
                        let what = std::format!(
                            "level {level}, lease {lease_s}, refused {refused_s:?} s ago, method \
                                                 {method:#x}, key {mkey:#x}"
                        );
                        let mut node = locked.clone();
                        if refused_s.is_some() {
                            assert!(node.ask(method::SET, 3, None, START_S).is_none());
                        }
                        let now_s = START_S + u64::from(refused_s.unwrap_or(5_000));
                        let has_ended = lease_s != 0 && refused_s.is_some_and(|ago_s| ago_s >= lease_s);
                        check(
                            node,
                            if has_ended { 0 } else { level },
                            method,
                            mkey,
                            now_s,
                            &what,
                        );
                    }
                }
            }
        }
    }
}

/// KEY-5: the lease is a matter of time: it makes no difference whether anybody has asked meanwhile, and whoever names
/// the key begins it anew. What a port is then is what a manager without the key finds, reads the key from, and takes.
#[test]
fn key_5_a_lease_ends_by_itself() {
    for node in nodes() {
        for asks_meanwhile in [false, true] {
            let mut node = node.clone().lock(3, LEASE_S);
            let end_s = START_S + u64::from(LEASE_S);
            assert!(node.ask(method::SET, 3, None, START_S).is_none());
            if asks_meanwhile {
                for now_s in START_S..end_s {
                    assert!(node.ask(method::GET, 0, None, now_s).is_none());
                }
            }
            let mut told = node.ask(method::GET, 0, None, end_s).unwrap();
            assert_eq!((u64_at(&told, MKEY), told[PROTECT] >> 6), (KEY, 0));
            // The key itself is still there: who does not name it sets nothing.
            let found = u64_at(&told, MKEY);
            (told[SMP_DATA + 32], told[SMP_DATA + 33]) = (told[SMP_DATA + 32] & 0xf0, 0);
            put_u64(&mut told, MKEY, 0x77);
            told[PROTECT] = 2 << 6;
            assert!(node.ask(method::SET, 0, Some(&told), end_s).is_none());
            assert!(node.ask(method::SET, found, Some(&told), end_s).is_some());
            assert!(
                node.ask(method::GET, KEY, None, end_s).is_none(),
                "another one's now"
            );
            assert!(node.ask(method::GET, 0x77, None, end_s).is_some());
        }
        // The key, once in time: the lease begins anew with the next refusal.
        let mut node = node.clone().lock(2, LEASE_S);
        let (first_s, last_s) = (
            START_S + u64::from(LEASE_S) - 1,
            START_S + 2 * u64::from(LEASE_S) - 1,
        );
        assert!(node.ask(method::GET, 3, None, START_S).is_none());
        assert!(node.ask(method::GET, KEY, None, first_s).is_some());
        assert!(node.ask(method::GET, 3, None, first_s + 1).is_none());
        assert!(node.ask(method::GET, 3, None, last_s).is_none());
        assert!(node.ask(method::GET, 3, None, last_s + 1).is_some());
    }
}
