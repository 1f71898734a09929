use std::collections::VecDeque;

use crate::iommu::{Cause, Fault, Found, IommuMap};
use crate::remote::Ticket;
use crate::{Interrupt, LINE_BYTES, Line};

/// Faults kept for the reader; more are only counted.
const FAULT_LOG: usize = 32;

/// The host as one card sees it: an address space per function, and what the card got wrong.
pub struct Host {
    functions: Vec<IommuMap>,
    faults: VecDeque<Fault>,
    fault_count: u64,
    contained: VecDeque<u8>,
    interrupts: VecDeque<Interrupt>,
    writes_seen: u64,
    /// Nobody waits for what is written now.
    is_hushed: bool,
}

impl Host {
    /// A host for a card with this many functions, nothing mapped.
    pub fn new(num_functions: u8) -> Self {
        Self {
            functions: (0..num_functions).map(|_| IommuMap::default()).collect(),
            faults: VecDeque::new(),
            fault_count: 0,
            contained: VecDeque::new(),
            interrupts: VecDeque::new(),
            writes_seen: 0,
            is_hushed: false,
        }
    }

    /// The write for which a function is contained.
    #[inline]
    pub fn lost_write(&self, func: u8) -> Option<Fault> {
        self.functions.get(usize::from(func))?.lost_write()
    }

    /// The map of a function, if the card has it.
    pub fn function(&mut self, func: u8) -> Option<&mut IommuMap> {
        self.functions.get_mut(usize::from(func))
    }

    /// The program of a function is another process, which has to be asked for its memory.
    pub fn is_far(&self, func: u8) -> bool {
        let map = self.functions.get(usize::from(func));
        map.is_some_and(IommuMap::is_far)
    }

    /// Reads for the card. Who is given a fault, or has one from the fetch, has it logged.
    pub fn read(&mut self, func: u8, addr: u64, out: &mut [u8]) -> Result<Found, Fault> {
        match self.functions.get_mut(usize::from(func)) {
            Some(map) => map.read(func, addr, out),
            None => Err(Fault::read(func, addr, Cause::Unmapped)),
        }
    }

    /// The last write of a function that is not done yet.
    pub(crate) fn last_write(&mut self, func: u8) -> Option<Ticket> {
        self.function(func)?.last_write()
    }

    /// Waits for writes that reached memory so long ago that others may hear of them by now: the other end of a
    /// transfer, over the wire. For as long as there is patience with whose memory it is; after that only its own
    /// rings are kept behind its data.
    #[inline]
    pub fn keep_up(&mut self, now: u64) {
        self.functions.iter_mut().for_each(|map| map.keep_up(now));
    }

    /// Gives what was started to whoever does it, and logs what failed.
    pub fn flush(&mut self) {
        for func in 0..self.functions.len() {
            let map = &mut self.functions[func];
            map.flush();
            let (count, addrs) = map.take_failed();
            self.fault_count += count - addrs.len() as u64;
            for addr in addrs {
                self.lose(Fault::write(func as u8, addr, Cause::Unmapped));
            }
        }
    }

    /// Writes for the card, in this cycle. A line that faults is dropped and logged, as an IOMMU does with posted
    /// writes.
    pub fn write_line(&mut self, cycle: u64, func: u8, addr: u64, line: &Line, strb: u64) {
        let result = match self.functions.get_mut(usize::from(func)) {
            Some(map) => map.write_line(cycle, func, addr, line, strb),
            None => Err(Fault::write(func, addr, Cause::Unmapped)),
        };
        self.see_writes(func, 1);
        if let Err(fault) = result {
            self.lose(fault);
        }
    }

    /// The same of whole lines that follow each other; `addr` is a multiple of 64. It is for data: what others look for
    /// at its end is a line of its own.
    pub fn write_lines(&mut self, cycle: u64, func: u8, addr: u64, bytes: &[u8]) {
        let mut done = 0;
        while done < bytes.len() {
            let at = addr.wrapping_add(done as u64);
            let (count, result) = match self.functions.get_mut(usize::from(func)) {
                Some(map) => map.write_lines(cycle, func, at, &bytes[done..]),
                None => (LINE_BYTES, Err(Fault::write(func, at, Cause::Unmapped))),
            };
            if let Err(fault) = result {
                self.lose(fault);
            }
            done += count;
        }
        self.see_writes(func, (bytes.len() / LINE_BYTES) as u64);
    }

    fn see_writes(&mut self, func: u8, count: u64) {
        if self.is_hushed {
            return;
        }
        self.writes_seen += count;
        if let Some(map) = self.functions.get_mut(usize::from(func)) {
            map.see_writes();
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
    #[inline]
    pub fn writes_seen(&self) -> u64 {
        self.writes_seen
    }

    /// Nobody waits for what is written from now on, or somebody does again: what is in the middle of a message is
    /// looked for when its end has come, which is written behind it.
    pub fn hush(&mut self, on: bool) {
        self.is_hushed = on;
    }

    /// Accesses to addresses that are not mapped.
    pub fn fault_count(&self) -> u64 {
        self.fault_count
    }

    /// The last few of them.
    pub fn faults(&self) -> impl Iterator<Item = &Fault> {
        self.faults.iter()
    }

    /// The same, and forgets them: of many since the last call the last few.
    pub fn take_faults(&mut self) -> VecDeque<Fault> {
        std::mem::take(&mut self.faults)
    }

    /// Whether lost writes are contained, see [`IommuMap::contain_lost_writes`].
    pub fn contain_lost_writes(&mut self, on: bool) {
        self.functions
            .iter_mut()
            .for_each(|map| map.contain_lost_writes(on));
    }

    /// The next function that has been contained and is to be reset, as root ports do it that contain errors.
    #[inline]
    pub fn take_contained(&mut self) -> Option<u8> {
        if self.contained.is_empty() {
            return None;
        }
        self.contained.pop_front()
    }

    fn lose(&mut self, fault: Fault) {
        if self
            .functions
            .get_mut(usize::from(fault.func))
            .is_some_and(|map| map.lose(fault))
        {
            self.contained.push_back(fault.func);
        }
        self.log(fault);
    }

    /// Notes a fault that a read was given.
    pub fn log(&mut self, fault: Fault) {
        self.fault_count += 1;
        if self.faults.len() == FAULT_LOG {
            self.faults.pop_front();
        }
        self.faults.push_back(fault);
    }
}
