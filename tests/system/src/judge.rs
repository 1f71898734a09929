//! The reference model's checker at the cables of a rig: it follows every packet of the connections that it is told of,
//! and names the first one that the rules of the transport do not allow.

use std::cell::RefCell;
use std::rc::Rc;

use hca_cosim::{CableId, Fabric};
use hca_link::{Dir, LinkKind, Listener};
use hca_model::{Checker, ConnectionSpec, EndSpec, PIPELINE_NS, Service, Violation};
use hca_verbs::{ConnectOptions, Mtu};
use hca_wire::{Framing, Psn};

use crate::opposite::link_between;
use crate::rig::{Rig, RigError};

/// Nanoseconds of a cycle of the cards.
const CYCLE_NS: u64 = 4;

struct Bench {
    checker: Checker,
    violation: Option<Box<Violation>>,
}

/// Judges a rig.
#[derive(Clone)]
pub struct Judge {
    bench: Rc<RefCell<Bench>>,
    link: LinkKind,
    pipeline_ns: u64,
    drops_inside: bool,
}

/// What is heard at a cable: only what a card sends into it and takes out of it.
struct Ear {
    bench: Rc<RefCell<Bench>>,
    /// Directions in which a card sends here, by [`Dir`].
    sends: [bool; 2],
    /// Directions in which a card receives here.
    receives: [bool; 2],
}

impl Listener for Ear {
    fn sent(&mut self, dir: Dir, now_cycle: u64, bytes: &[u8]) {
        let mut bench = self.bench.borrow_mut();
        if self.sends[dir as usize]
            && bench.violation.is_none()
            && let Err(violation) = bench.checker.sent(now_cycle * CYCLE_NS, bytes)
        {
            bench.violation = Some(violation);
        }
    }

    fn delivered(&mut self, dir: Dir, now_cycle: u64, bytes: &[u8]) {
        if self.receives[dir as usize] {
            self.bench
                .borrow_mut()
                .checker
                .arrived(now_cycle * CYCLE_NS, bytes);
        }
    }
}

impl Judge {
    /// Listens at the first ports of both cards.
    pub fn attach(rig: &mut Rig) -> Self {
        Self::listen(&mut rig.sim.fabric(), &rig.cables)
    }

    /// The same, or nowhere, where nothing comes to light: packets of fast cards are looked at by nobody then.
    pub fn attach_if(is_wanted: bool, rig: &mut Rig) -> Self {
        let cables = if is_wanted { &rig.cables[..] } else { &[] };
        Self::at(&mut rig.sim.fabric(), rig.cables[0], cables)
    }

    /// Listens at both ends of a row of cables, from end A of the first one to end B of the last one.
    pub fn listen(fabric: &mut Fabric, cables: &[CableId]) -> Self {
        Self::at(fabric, cables[0], cables)
    }

    fn at(fabric: &mut Fabric, like: CableId, cables: &[CableId]) -> Self {
        let link = fabric.cable(like).config().kind;
        let framing = match link {
            LinkKind::Ethernet => Framing::Ethernet,
            LinkKind::InfiniBand => Framing::InfiniBand,
        };
        let bench = Rc::new(RefCell::new(Bench {
            checker: Checker::new(framing),
            violation: None,
        }));
        let copies = |cable: &CableId| fabric.cable(*cable).config().faults.dup > 0.0;
        let drops_inside = link == LinkKind::Ethernet || cables.iter().any(copies);
        let last = cables.len().saturating_sub(1);
        // Card 0 is at end A of the first cable, card 1 at end B of the last one.
        for (index, cable) in cables.iter().enumerate() {
            let (is_first, is_last) = (index == 0, index == last);
            if is_first || is_last {
                let ear = Ear {
                    bench: bench.clone(),
                    sends: [is_first, is_last],
                    receives: [is_last, is_first],
                };
                fabric.cable_mut(*cable).listen(Some(Box::new(ear)));
            }
        }
        Self {
            bench,
            link,
            pipeline_ns: PIPELINE_NS,
            drops_inside,
        }
    }

    /// Hosts are slow: packets that are made may wait for their payload as long as that.
    pub fn behind_slow_hosts(self, pipeline_ns: u64) -> Self {
        Self { pipeline_ns, ..self }
    }

    /// Of connections whose ends drop packets that have arrived.
    pub fn with_drops_inside(&self) -> Self {
        Self {
            drops_inside: true,
            ..self.clone()
        }
    }

    /// From now on a connection is judged: QPNs of cards 0 and 1, and what they were connected with.
    pub fn connect(&self, service: Service, qpns: [u32; 2], options: &ConnectOptions) {
        self.connect_ends(service, qpns, options, [options.credits; 2]);
    }

    /// The same; which ends keep to credits is said.
    pub fn connect_ends(
        &self,
        service: Service,
        qpns: [u32; 2],
        options: &ConnectOptions,
        credits: [bool; 2],
    ) {
        let psns = [options.psns.0, options.psns.1];
        let ends = [0, 1].map(|node: u8| EndSpec {
            qpn: qpns[usize::from(node)],
            link: link_between(node, self.link, options.gid_index),
            sq_psn: Psn::new(psns[usize::from(node)]),
        });
        self.bench.borrow_mut().checker.connect(ConnectionSpec {
            service,
            ends,
            mtu_bytes: mtu_bytes(options.mtu),
            timeout: options.timeout,
            retry_cnt: options.retry_cnt,
            rnr_retry: options.rnr_retry,
            max_rd_atomic: options.rd_atomic,
            pipeline_ns: self.pipeline_ns,
            selective: options.selective_repeat,
            credits,
            drops_inside: self.drops_inside,
        });
    }

    /// What a QP of a card sends and gets is not judged any more: it leaves its connection.
    pub fn forget(&self, node: usize, qpn: u32) {
        self.bench.borrow_mut().checker.forget(node, qpn);
    }

    /// Fails where a packet has broken a rule.
    pub fn verdict(&self) -> Result<(), RigError> {
        match &self.bench.borrow().violation {
            None => Ok(()),
            Some(violation) => Err(RigError::Wrong(violation.to_string())),
        }
    }

    /// Packets judged.
    pub fn packets(&self) -> u64 {
        self.bench.borrow().checker.packets()
    }
}

fn mtu_bytes(mtu: Mtu) -> u32 {
    128 << mtu as u32
}
