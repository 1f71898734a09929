use std::collections::VecDeque;

use crate::iommu::{Fault, IommuMap};
use crate::{Interrupt, Line};

/// Faults kept for the reader; more are only counted.
const FAULT_LOG: usize = 32;

/// The host as one card sees it: an address space per function, and what the card got wrong.
pub struct Host {
    functions: Vec<IommuMap>,
    faults: VecDeque<Fault>,
    fault_count: u64,
    interrupts: VecDeque<Interrupt>,
    writes_seen: u64,
}

impl Host {
    /// A host for a card with this many functions, nothing mapped.
    pub fn new(num_functions: u8) -> Self {
        Self {
            functions: (0..num_functions).map(|_| IommuMap::default()).collect(),
            faults: VecDeque::new(),
            fault_count: 0,
            interrupts: VecDeque::new(),
            writes_seen: 0,
        }
    }

    /// The map of a function, if the card has it.
    pub fn function(&mut self, func: u8) -> Option<&mut IommuMap> {
        self.functions.get_mut(usize::from(func))
    }

    /// Reads for the card.
    pub fn read(&mut self, func: u8, addr: u64, out: &mut [u8]) -> Result<(), Fault> {
        let result = match self.functions.get(usize::from(func)) {
            Some(map) => map.read(func, addr, out),
            None => Err(Fault { func, addr }),
        };
        result.inspect_err(|fault| self.log(*fault))
    }

    /// Writes for the card, in this cycle. A line that faults is dropped and logged, as an IOMMU does with posted
    /// writes.
    pub fn write_line(&mut self, cycle: u64, func: u8, addr: u64, line: &Line, strb: u64) {
        self.writes_seen += 1;
        let result = match self.functions.get_mut(usize::from(func)) {
            Some(map) => map.write_line(cycle, func, addr, line, strb),
            None => Err(Fault { func, addr }),
        };
        if let Err(fault) = result {
            self.log(fault);
        }
    }

    /// An interrupt has arrived.
    pub fn interrupt(&mut self, interrupt: Interrupt) {
        self.writes_seen += 1;
        self.interrupts.push_back(interrupt);
    }

    /// The next interrupt not yet taken.
    pub fn take_interrupt(&mut self) -> Option<Interrupt> {
        self.interrupts.pop_front()
    }

    /// Counts everything the card made visible to the host (lines and interrupts): unchanged means nothing
    /// new to poll.
    pub fn writes_seen(&self) -> u64 {
        self.writes_seen
    }

    /// Accesses to addresses that are not mapped.
    pub fn fault_count(&self) -> u64 {
        self.fault_count
    }

    /// The last few of them.
    pub fn faults(&self) -> impl Iterator<Item = &Fault> {
        self.faults.iter()
    }

    fn log(&mut self, fault: Fault) {
        self.fault_count += 1;
        if self.faults.len() == FAULT_LOG {
            self.faults.pop_front();
        }
        self.faults.push_back(fault);
    }
}
