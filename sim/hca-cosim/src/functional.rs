//! A card without gates on the same PCIe link, firmware and cables as one of RTL.
//!
//! Register accesses, interrupts and packets take the time of their links; what the card does in between takes none,
//! and neither does its access to memory.

use std::time::Duration;

use hca_functional::{Card, HostPort};
use hca_host::{Found, Host, LINE_BYTES, Line, MmioRequest, PcieModel, WriteBeat, earlier};
use hca_link::{Cable, Dir, LinkError, LinkKind};
use hca_switch::IbPort;
use hca_vsim::DATA_VLS;

use crate::NUM_VECTORS;
use crate::firmware::{FirmwarePort, Program, ProgramPort};
use crate::observe::PacketNotes;

/// The memory of a client answers in this time of the machine's clock, or is taken for missing.
const READ_TIME: Duration = Duration::from_secs(2);
/// Turns of firmware and card within a cycle.
const TURNS_MAX: usize = 64;

/// The card's end of a cable.
pub(crate) struct PacketEnd {
    pub cable: usize,
    pub kind: LinkKind,
    pub tx: Dir,
    pub rx: Dir,
    /// Credits and lanes of InfiniBand.
    infiniband: Option<Box<IbPort>>,
}

impl PacketEnd {
    pub fn new(cable: usize, kind: LinkKind, tx: Dir, rx: Dir) -> Self {
        let infiniband = kind == LinkKind::InfiniBand && tx != rx;
        Self {
            cable,
            kind,
            tx,
            rx,
            infiniband: infiniband.then(|| Box::new(IbPort::new(cable, tx, DATA_VLS))),
        }
    }

    /// The next packet that has come.
    fn receive(&mut self, now: u64, cables: &mut [Cable]) -> Option<Vec<u8>> {
        match &mut self.infiniband {
            Some(port) => port.receive(now, cables),
            None => Some(cables[self.cable].poll(self.rx, now)?.bytes),
        }
    }

    /// Another packet may be given to it now.
    fn has_room(&self, now: u64, cables: &[Cable]) -> bool {
        match &self.infiniband {
            Some(port) => port.has_room(),
            None => cables[self.cable].ready(self.tx, now),
        }
    }

    fn send(
        &mut self,
        now: u64,
        cables: &mut [Cable],
        (packet, line): (Vec<u8>, Option<u32>),
    ) -> Result<(), LinkError> {
        match &mut self.infiniband {
            Some(port) => {
                port.push(packet, line);
                Ok(())
            }
            None => cables[self.cable].push_packet(self.tx, now, &packet),
        }
    }

    fn next_event(&self, now: u64, cables: &[Cable], timers: bool, wants_to_send: bool) -> Option<u64> {
        if let Some(port) = &self.infiniband {
            return port.next_event(now, cables, timers, wants_to_send);
        }
        let ready = wants_to_send.then(|| cables[self.cable].ready_cycle(self.tx));
        earlier(ready, cables[self.cable].next_arrival_cycle(self.rx))
    }
}

/// A port.
#[derive(Default)]
pub(crate) struct PacketPort {
    pub end: Option<PacketEnd>,
    pub notes: PacketNotes,
    is_up: bool,
}

/// The host for one cycle.
struct Dma<'a> {
    host: &'a mut Host,
    pcie: &'a mut PcieModel,
    now: u64,
    broken: &'a mut Vec<String>,
}

impl HostPort for Dma<'_> {
    fn read(&mut self, func: u8, addr: u64, out: &mut [u8]) -> bool {
        let read = match self.host.read(func, addr, out) {
            Ok(Found::Now) => Ok(()),
            // Memory that keeps everybody waiting is as good as none.
            Ok(Found::Later(fetch)) => {
                fetch.wait_for(READ_TIME);
                fetch.finish(out)
            }
            Err(fault) => Err(fault),
        };
        if let Err(fault) = read {
            self.host.log(fault);
        }
        read.is_ok()
    }

    fn look(&mut self, func: u8, addr: u64, out: &mut [u8]) -> bool {
        let map = self.host.function(func);
        map.is_some_and(|map| map.peek(addr, out)) || self.read(func, addr, out)
    }

    fn write(&mut self, func: u8, addr: u64, bytes: &[u8]) -> bool {
        let faults = self.host.fault_count();
        let (mut at, mut rest) = (addr, bytes);
        while !rest.is_empty() {
            let lane = (at % LINE_BYTES as u64) as usize;
            // A line is what a completion is; more are data.
            if lane == 0 && rest.len() > LINE_BYTES {
                let (now, later) = rest.split_at(rest.len() / LINE_BYTES * LINE_BYTES);
                self.host.write_lines(self.now, func, at, now);
                at = at.wrapping_add(now.len() as u64);
                rest = later;
                continue;
            }
            let (now, later) = rest.split_at(rest.len().min(LINE_BYTES - lane));
            let mut line = Line::ZERO;
            line.0[lane..lane + now.len()].copy_from_slice(now);
            let strb = u64::MAX >> (LINE_BYTES - now.len()) << lane;
            self.host
                .write_line(self.now, func, at - lane as u64, &line, strb);
            at = at.wrapping_add(now.len() as u64);
            rest = later;
        }
        self.host.fault_count() == faults
    }

    fn interrupt(&mut self, func: u8, vector: u16) {
        let beat = WriteBeat {
            msix: true,
            last: true,
            func,
            addr: vector.into(),
            strb: 0xf,
            data: Line::ZERO,
        };
        let pushed = self.pcie.push_write(self.now, &beat);
        self.broken.extend(pushed.err().map(|error| error.to_string()));
    }
}

/// See above.
pub(crate) struct Functional {
    /// Of the card, for messages.
    pub name: String,
    pub pcie: PcieModel,
    pub firmware: FirmwarePort,
    pub ports: Vec<PacketPort>,
    pub violations: Vec<String>,
    pub cycle_ps: u64,
    /// Cycles in which it had something to do.
    pub steps: u64,
    card: Card,
}

impl Functional {
    pub fn new(name: String, pcie: PcieModel, ports: u8) -> Self {
        let cycle_ps = 1_000_000 / u64::from(pcie.params().clock_mhz.max(1));
        Self {
            name,
            pcie,
            firmware: FirmwarePort::Program(ProgramPort::new()),
            ports: (0..ports).map(|_| PacketPort::default()).collect(),
            violations: Vec::new(),
            cycle_ps,
            steps: 0,
            card: Card::new(ports, NUM_VECTORS, cycle_ps),
        }
    }

    /// Packets sent and received.
    pub fn packets(&self) -> [u64; 2] {
        let ports = (0..self.ports.len()).map(|port| self.card.counters(port));
        ports.fold([0, 0], |sum, counters| {
            [sum[0] + counters.tx_packets, sum[1] + counters.rx_packets]
        })
    }

    /// Something is under way in it.
    pub fn is_moving(&self) -> bool {
        !self.firmware.is_idle()
            || self.card.interrupts_firmware()
            || self.pcie.next_event().is_some()
            || self.wants_to_send()
    }

    fn wants_to_send(&self) -> bool {
        (0..self.ports.len()).any(|port| self.card.wants_to_send(port))
    }

    /// The next cycle in which it has to be looked at.
    pub fn next_event(&self, now: u64, cables: &[Cable], with_links: bool) -> Option<u64> {
        if self.card.interrupts_firmware() {
            return Some(now + 1);
        }
        let mut next = earlier(self.pcie.next_event(), self.firmware.next_event(now));
        next = earlier(next, self.card.next_event());
        for (index, port) in self.ports.iter().enumerate() {
            let wants_to_send = self.card.wants_to_send(index);
            let of_port = match &port.end {
                None => wants_to_send.then_some(now + 1),
                Some(end) if port.is_up != cables[end.cable].is_up() => Some(now + 1),
                Some(end) => end.next_event(now, cables, with_links, wants_to_send),
            };
            next = earlier(next, of_port);
        }
        next.map(|at| at.max(now + 1))
    }

    /// It has never been looked at.
    pub fn is_new(&self) -> bool {
        self.steps == 0
    }

    /// One cycle, with the cables of the network, and whether what links do by themselves is due.
    pub fn step(
        &mut self,
        now: u64,
        host: &mut Host,
        program: Option<&mut Program>,
        net: (&mut [Cable], bool),
    ) {
        self.steps += 1;
        let (cables, with_links) = net;
        let Self {
            pcie,
            firmware,
            ports,
            violations,
            card,
            ..
        } = self;
        let mut dma = Dma {
            host,
            pcie,
            now,
            broken: violations,
        };
        card.advance(&mut dma, now);
        for (index, port) in ports.iter_mut().enumerate() {
            let Some(end) = &mut port.end else { continue };
            port.is_up = cables[end.cable].is_up();
            card.set_link_up(index, port.is_up);
            while let Some(packet) = end.receive(now, cables) {
                card.receive(&mut dma, index, &packet);
            }
        }
        access_registers(&mut dma, card);
        if let Some(program) = program {
            run_firmware(&mut dma, card, program, firmware);
        }
        for (index, port) in ports.iter_mut().enumerate() {
            let Some(end) = &mut port.end else {
                // Packets fall on the floor.
                while card.transmit(&mut dma, index).is_some() {}
                continue;
            };
            let is_up = cables[end.cable].is_up();
            while end.has_room(now, cables)
                && let Some((packet, line)) = card.transmit(&mut dma, index)
            {
                if !is_up {
                    continue;
                }
                port.notes.beat(now, end.kind, &packet, true);
                let pushed = end.send(now, cables, (packet, line));
                dma.broken.extend(pushed.err().map(|error| error.to_string()));
            }
            if let Some(port) = &mut end.infiniband {
                let left = port.transmit(now, cables, with_links);
                left.into_iter().for_each(|line| card.packet_left(line));
            }
        }
    }
}

fn access_registers(dma: &mut Dma<'_>, card: &mut Card) {
    let now = dma.now;
    while dma.pcie.mmio_front(now).is_some() {
        match dma.pcie.mmio_taken() {
            Some(MmioRequest::Write {
                func,
                addr,
                data,
                strb,
            }) => card.write_register(dma, func, addr, data, strb),
            Some(MmioRequest::Read { func, addr, id }) => {
                let value = card.read_register(func, addr);
                dma.pcie.push_mmio_value(now, func, id, value);
            }
            None => {}
        }
    }
}

/// Firmware goes on until it waits for something.
fn run_firmware(dma: &mut Dma<'_>, card: &mut Card, program: &mut Program, port: &mut FirmwarePort) {
    for _ in 0..TURNS_MAX {
        if let FirmwarePort::Program(port) = port
            && card.interrupts_firmware()
        {
            port.wake();
        }
        loop {
            program.go_on(dma.now, port);
            let FirmwarePort::Program(port) = port else {
                return;
            };
            let Some((is_write, addr, data)) = port.asked() else {
                if port.skip_pause() {
                    continue;
                }
                break;
            };
            let value = if is_write {
                card.bus_write(dma, addr, data);
                0
            } else {
                card.bus_read(addr)
            };
            port.answer(value);
        }
        if !card.interrupts_firmware() {
            return;
        }
    }
}
