//! Who has which address on the network of a wire. Time is told to it.

use std::net::IpAddr;
use std::time::{Duration, Instant};

use crate::host::{Gateway, Mac, StaticNeighbour, is_station, is_unicast};

/// Entries of a wire.
const ENTRIES_MAX: usize = 256;
/// Of these may be the user's.
pub(crate) const STATIC_MAX: usize = 128;
/// How long what has been learnt counts; then it is asked for again when it is wanted.
const LIFETIME: Duration = Duration::from_secs(60);
/// Questions for an address, and the time between them: a second in all, as Linux takes.
const QUESTIONS: u32 = 4;
const QUESTION_INTERVAL: Duration = Duration::from_millis(250);

/// How an address is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// By the user, for good.
    Static(Mac),
    /// By what the neighbour has said.
    Learnt(Mac, Instant),
    /// Not yet: so many questions are left, the next one then.
    Asked(u32, Instant),
    /// It is reached through the gateway with this address.
    Via(IpAddr, Instant),
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    address: IpAddr,
    state: State,
}

/// The neighbours of a port.
#[derive(Debug, Default)]
pub(crate) struct Table {
    entries: Vec<Entry>,
    gateways: Vec<Gateway>,
    /// Changes whenever the list does.
    version: u64,
}

impl Table {
    pub fn new(neighbours: &[StaticNeighbour], gateways: &[Gateway]) -> Self {
        let entry = |neighbour: &StaticNeighbour| Entry {
            address: neighbour.address,
            state: State::Static(neighbour.mac),
        };
        Self {
            entries: neighbours.iter().take(STATIC_MAX).map(entry).collect(),
            gateways: gateways.to_vec(),
            version: 1,
        }
    }

    pub fn version(&self) -> u64 {
        self.version
    }

    fn find(&self, address: IpAddr) -> Option<&Entry> {
        self.entries.iter().find(|entry| entry.address == address)
    }

    fn mac(&self, entry: &Entry) -> Option<Mac> {
        match entry.state {
            State::Static(mac) | State::Learnt(mac, _) => Some(mac),
            State::Asked(..) => None,
            State::Via(gateway, _) => match self.find(gateway)?.state {
                State::Static(mac) | State::Learnt(mac, _) => Some(mac),
                State::Asked(..) | State::Via(..) => None,
            },
        }
    }

    /// All that are known.
    pub fn list(&self) -> Vec<(IpAddr, Mac)> {
        let known = self.entries.iter();
        known
            .filter_map(|entry| Some((entry.address, self.mac(entry)?)))
            .collect()
    }

    /// Somebody has said where an address is; `insert`: also one that nobody wanted to know.
    pub fn learn(&mut self, now: Instant, address: IpAddr, mac: Mac, insert: bool) {
        if !is_unicast(&address) || !is_station(mac) {
            return;
        }
        let learnt = State::Learnt(mac, now + LIFETIME);
        match self.entries.iter_mut().find(|entry| entry.address == address) {
            Some(Entry { state, .. }) => match *state {
                State::Static(_) | State::Via(..) => {}
                State::Learnt(old, _) if old == mac => *state = learnt,
                State::Learnt(..) | State::Asked(..) => {
                    *state = learnt;
                    self.version += 1;
                }
            },
            None if insert => self.add(address, learnt),
            None => {}
        }
    }

    /// An address is wanted: if it is not known, it is asked for.
    pub fn want(&mut self, now: Instant, address: IpAddr) {
        if !is_unicast(&address) {
            return;
        }
        let gateway = self.gateways.iter().find(|gateway| gateway.leads_to(address));
        let Some(gateway) = gateway.map(|gateway| gateway.address) else {
            return self.ask(now, address);
        };
        if self.find(address).is_none() {
            self.add(address, State::Via(gateway, now + LIFETIME));
        }
        self.ask(now, gateway);
    }

    fn ask(&mut self, now: Instant, address: IpAddr) {
        if self.find(address).is_none() {
            self.add(address, State::Asked(QUESTIONS, now));
        }
    }

    fn add(&mut self, address: IpAddr, state: State) {
        if self.entries.len() >= ENTRIES_MAX {
            // Who has been heard of longest ago goes.
            let age = |entry: &Entry| match entry.state {
                State::Static(_) => None,
                State::Learnt(_, until) | State::Asked(_, until) | State::Via(_, until) => Some(until),
            };
            let ages = self.entries.iter().enumerate();
            let oldest = ages.filter_map(|(at, entry)| Some((age(entry)?, at))).min();
            if let Some((_, at)) = oldest {
                self.entries.swap_remove(at);
            }
        }
        self.entries.push(Entry { address, state });
        self.version += 1;
    }

    /// The next address to ask for now.
    pub fn question(&mut self, now: Instant) -> Option<IpAddr> {
        let due = |state: &State| matches!(state, State::Asked(_, at) if *at <= now);
        while let Some(at) = self.entries.iter().position(|entry| due(&entry.state)) {
            match &mut self.entries[at].state {
                State::Asked(left @ 1.., next) => {
                    *left -= 1;
                    *next = now + QUESTION_INTERVAL;
                    return Some(self.entries[at].address);
                }
                // Nobody has answered: the next who wants it begins anew.
                _ => drop(self.entries.swap_remove(at)),
            }
        }
        None
    }

    /// Forgets what is too old.
    pub fn expire(&mut self, now: Instant) {
        let count = self.entries.len();
        self.entries.retain(|entry| match entry.state {
            State::Learnt(_, until) | State::Via(_, until) => until > now,
            State::Static(_) | State::Asked(..) => true,
        });
        if self.entries.len() != count {
            self.version += 1;
        }
    }

    /// When there is something to do although nothing comes.
    pub fn next_time(&self) -> Option<Instant> {
        let times = self.entries.iter().filter_map(|entry| match entry.state {
            State::Static(_) => None,
            State::Learnt(_, at) | State::Asked(_, at) | State::Via(_, at) => Some(at),
        });
        times.min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAC: Mac = [0x52, 0x54, 0, 0, 0, 1];

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn asked_for_a_second_then_forgotten() {
        let start = Instant::now();
        let at = |millis| start + Duration::from_millis(millis);
        let mut table = Table::new(&[], &[]);
        table.want(at(0), ip("10.0.0.9"));
        for millis in [0, 250, 500, 750] {
            table.want(at(millis), ip("10.0.0.9"));
            assert_eq!(table.question(at(millis)), Some(ip("10.0.0.9")));
            assert_eq!(table.question(at(millis)), None);
            assert_eq!(table.next_time(), Some(at(millis + 250)));
        }
        assert_eq!((table.question(at(1000)), table.next_time()), (None, None));
        table.want(at(2000), ip("10.0.0.9"));
        assert_eq!(table.question(at(2000)), Some(ip("10.0.0.9")));
        let before = table.version();
        table.learn(at(2001), ip("10.0.0.9"), MAC, false);
        assert_ne!(table.version(), before);
        assert_eq!(table.list(), [(ip("10.0.0.9"), MAC)]);
        assert_eq!(table.question(at(5000)), None);
        table.expire(at(62_000));
        assert_eq!(table.list().len(), 1);
        table.expire(at(62_001));
        assert!(table.list().is_empty());
    }

    #[test]
    fn what_nobody_wants_is_learnt_only_if_it_was_for_us() {
        let now = Instant::now();
        let mut table = Table::new(&[], &[]);
        table.learn(now, ip("10.0.0.9"), MAC, false);
        assert!(table.list().is_empty());
        table.learn(now, ip("10.0.0.9"), MAC, true);
        let moved = [0x52, 0x54, 0, 0, 0, 2];
        table.learn(now, ip("10.0.0.9"), moved, false);
        assert_eq!(table.list(), [(ip("10.0.0.9"), moved)]);
        for (address, mac) in [
            ("224.0.0.1", MAC),
            ("10.0.0.8", [0xff; 6]),
            ("0.0.0.0", MAC),
            ("10.0.0.8", [0; 6]),
        ] {
            table.learn(now, ip(address), mac, true);
        }
        assert_eq!(table.list().len(), 1);
    }

    #[test]
    fn static_entries_stay_and_the_table_is_bounded() {
        let start = Instant::now();
        let fixed: StaticNeighbour = "10.0.0.9,52:54:00:00:00:01".parse().unwrap();
        let mut table = Table::new(&[fixed], &[]);
        table.learn(start, ip("10.0.0.9"), [2; 6], true);
        for n in 0..1000u32 {
            let now = start + Duration::from_millis(n.into());
            table.learn(now, IpAddr::V4((0x0b00_0001 + n).into()), MAC, true);
        }
        let list = table.list();
        assert_eq!(list.len(), ENTRIES_MAX);
        assert!(list.contains(&(ip("10.0.0.9"), MAC)));
        assert!(list.contains(&(IpAddr::V4((0x0b00_0001 + 999).into()), MAC)));
    }

    #[test]
    fn other_networks_are_behind_the_gateway() {
        let now = Instant::now();
        let mut table = Table::new(&[], &["10.0.0.254".parse().unwrap()]);
        table.want(now, ip("10.1.2.3"));
        assert_eq!(table.question(now), Some(ip("10.0.0.254")));
        assert_eq!(table.question(now), None);
        table.learn(now, ip("10.0.0.254"), MAC, false);
        assert_eq!(table.list(), [(ip("10.1.2.3"), MAC), (ip("10.0.0.254"), MAC)]);
        table.want(now, ip("10.0.0.7"));
        assert_eq!(table.question(now), Some(ip("10.0.0.7")));
    }
}
