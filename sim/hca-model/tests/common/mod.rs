//! Two models on a wire that loses, copies, delays and damages packets, in virtual time.
#![allow(dead_code, reason = "each test file uses a part of it")]

use std::collections::BTreeMap;

use hca_model::{
    Access, Checker, Completion, ConnectionSpec, EndSpec, Manners, Model, QpConfig, Violation, example_link,
    reply_link,
};
use hca_wire::{Framing, Link, Psn, grh, lrh};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{RngCore, SeedableRng};

/// Numbers of the two QPs.
pub const QPNS: [u32; 2] = [0x11, 0x22];
/// Time of a packet on the wire.
const PACKET_NS: u64 = 100;

/// Choices that depend on the seed only.
pub struct Rng(ChaCha8Rng);

impl Rng {
    pub fn new(seed: u64) -> Self {
        Self(ChaCha8Rng::seed_from_u64(seed))
    }

    pub fn below(&mut self, limit: u32) -> u32 {
        ((u64::from(self.0.next_u32()) * u64::from(limit)) >> 32) as u32
    }

    pub fn percent(&mut self, percent: u32) -> bool {
        self.below(100) < percent
    }

    pub fn pick<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.below(choices.len() as u32) as usize]
    }

    pub fn bytes(&mut self, len: usize) -> Vec<u8> {
        let mut bytes = vec![0; len];
        self.0.fill_bytes(&mut bytes);
        bytes
    }
}

/// What the wire does, in percent of the packets.
#[derive(Clone, Copy, Debug, Default)]
pub struct Faults {
    pub loss: u32,
    pub copy: u32,
    pub delay: u32,
    pub damage: u32,
}

impl Faults {
    /// Each kind is there or not: a run with only one finds what a mixture hides.
    pub fn draw(rng: &mut Rng) -> Self {
        let mut one = || if rng.percent(50) { rng.below(7) } else { 0 };
        Self {
            loss: one(),
            copy: one(),
            delay: one(),
            damage: one(),
        }
    }
}

/// Two models and what is between them.
pub struct Pair {
    pub models: [Model; 2],
    pub now: u64,
    pub rng: Rng,
    pub faults: Faults,
    /// Packets on their way, by arrival and number: for whom, and their bytes.
    flying: BTreeMap<(u64, u64), (usize, Vec<u8>)>,
    number: u64,
    free: [u64; 2],
    pub completions: [Vec<Completion>; 2],
    /// Judges both of them.
    pub checker: Option<Checker>,
    pub violation: Option<Box<Violation>>,
    /// Changes what is sent: number of the packet, and its bytes.
    pub lie: Option<Lie>,
    /// Loses packets by number.
    pub drop_packet: Option<Box<dyn FnMut(usize) -> bool>>,
}

pub type Lie = Box<dyn FnMut(usize, &mut Vec<u8>)>;

pub fn ib_link() -> Link {
    Link::InfiniBand {
        lrh: lrh::Repr {
            slid: 1,
            dlid: 2,
            ..Default::default()
        },
        grh: None,
    }
}

pub fn global_ib_link() -> Link {
    let Link::InfiniBand { lrh, .. } = ib_link() else {
        unreachable!("it is InfiniBand")
    };
    Link::InfiniBand {
        lrh,
        grh: Some(grh::Repr {
            sgid: [1; 16],
            dgid: [2; 16],
            ..Default::default()
        }),
    }
}

impl Pair {
    pub fn new(seed: u64, faults: Faults) -> Self {
        Self {
            models: [Model::new(), Model::new()],
            now: 0,
            rng: Rng::new(seed),
            faults,
            flying: BTreeMap::new(),
            number: 0,
            free: [0; 2],
            completions: Default::default(),
            checker: None,
            violation: None,
            lie: None,
            drop_packet: None,
        }
    }

    /// Makes a QP on each side, connected, with what `change` makes of it.
    pub fn connect(&mut self, link: Link, mut change: impl FnMut(usize, &mut QpConfig)) {
        let made = [0, 1].map(|node: usize| {
            let link = if node == 0 { link } else { reply_link(&link) };
            let mut config = QpConfig::rc(QPNS[node], QPNS[1 - node], link);
            config.timeout = 4;
            change(node, &mut config);
            self.models[node].create_qp(config).unwrap();
            config
        });
        let framing = match link {
            Link::Ethernet { .. } => Framing::Ethernet,
            Link::InfiniBand { .. } => Framing::InfiniBand,
        };
        let mut checker = Checker::new(framing);
        if made[0].service != hca_model::Service::Ud {
            checker.connect(ConnectionSpec {
                service: made[0].service,
                ends: made.map(|config| EndSpec {
                    qpn: config.qpn,
                    link: config.link,
                    sq_psn: config.sq_psn,
                }),
                mtu_bytes: made[0].mtu_bytes(),
                timeout: made[0].timeout,
                retry_cnt: made[0].retry_cnt,
                rnr_retry: made[0].rnr_retry,
                max_rd_atomic: made[0].max_rd_atomic,
                pipeline_ns: hca_model::PIPELINE_NS,
                selective: false,
                credits: made.map(|config| config.manners.credits),
                drops_inside: framing == Framing::Ethernet,
            });
        }
        self.checker = Some(checker);
    }

    fn send(&mut self, from: usize, mut bytes: Vec<u8>) {
        if let Some(lie) = &mut self.lie {
            lie(from, &mut bytes);
        }
        if let Some(checker) = &mut self.checker
            && let Err(violation) = checker.sent(self.now, &bytes)
        {
            self.violation.get_or_insert(violation);
        }
        let sent = self.now.max(self.free[from]);
        self.free[from] = sent + PACKET_NS;
        let Faults {
            loss,
            copy,
            delay,
            damage,
        } = self.faults;
        let dropped = self.drop_packet.as_mut().is_some_and(|drop| drop(from));
        if dropped || self.rng.percent(loss) {
            return;
        }
        let copied = self.rng.percent(copy).then(|| bytes.clone());
        if self.rng.percent(damage) {
            let bit = self.rng.below(bytes.len() as u32 * 8);
            bytes[bit as usize / 8] ^= 1 << (bit % 8);
        }
        for bytes in [Some(bytes), copied].into_iter().flatten() {
            let late = if self.rng.percent(delay) {
                self.rng.below(5_000).into()
            } else {
                0
            };
            self.number += 1;
            let at = self.free[from] + 500 + late;
            self.flying.insert((at, self.number), (1 - from, bytes));
        }
    }

    /// One step of time. False: nothing is under way.
    pub fn step(&mut self) -> bool {
        for node in 0..2 {
            if self.free[node] <= self.now
                && let Some(bytes) = self.models[node].poll_transmit(self.now)
            {
                self.send(node, bytes);
            }
        }
        let arrival = self.flying.keys().next().map(|(at, _)| *at);
        let times = [0, 1].map(|node: usize| {
            let timeout = self.models[node].next_timeout();
            // The line is busy: what may leave has to wait for it.
            let line = (self.free[node] > self.now).then_some(self.free[node]);
            [timeout.map(|at| at.max(self.free[node])), line]
                .into_iter()
                .flatten()
                .min()
        });
        let Some(next) = times.into_iter().flatten().chain(arrival).min() else {
            return false;
        };
        self.now = self.now.max(next);
        while let Some(entry) = self.flying.first_entry() {
            if entry.key().0 > self.now {
                break;
            }
            let (to, bytes) = entry.remove();
            if let Some(checker) = &mut self.checker {
                checker.arrived(self.now, &bytes);
            }
            self.models[to].handle_packet(self.now, &bytes);
        }
        for node in 0..2 {
            self.models[node].handle_timeout(self.now);
            while let Some(completion) = self.models[node].poll_completion() {
                self.completions[node].push(completion);
            }
        }
        true
    }

    /// Until nothing is under way, or for so many steps.
    pub fn run(&mut self, steps: usize) {
        for _ in 0..steps {
            if !self.step() {
                return;
            }
        }
    }
}

/// PSNs, MTU, link and manners by chance.
pub fn draw_config(rng: &mut Rng, config: &mut QpConfig, start: [u32; 2], node: usize) {
    config.sq_psn = Psn::new(start[node]);
    config.rq_psn = Psn::new(start[1 - node]);
    config.retry_cnt = 7;
    config.manners = Manners {
        ask_every: rng.pick(&[1, 3, 16, 1000]),
        window: rng.pick(&[1, 2, 7, 64, 512]),
        ack_delay_ns: rng.pick(&[0, 0, 300, 5_000]),
        ack_all: rng.percent(30),
        credits: rng.percent(60),
        selective: false,
    };
}

pub fn draw_link(rng: &mut Rng) -> Link {
    [example_link(), ib_link(), global_ib_link()][rng.below(3) as usize]
}

/// A region of random bytes.
pub fn region(pair: &mut Pair, node: usize, len: usize) -> (u32, u64) {
    let va = 0x1000 * (node as u64 + 1) + u64::from(pair.rng.below(100));
    let bytes = pair.rng.bytes(len);
    (pair.models[node].register(0, va, bytes, Access::ALL), va)
}
