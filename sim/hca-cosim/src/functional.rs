//! A card without gates on the same PCIe link, firmware and cables as one of RTL.
//!
//! Register accesses, interrupts and packets take the time of their links; what the card does in between takes none,
//! and neither does its access to memory.

use std::any::Any;
use std::cell::Cell;
use std::time::Duration;

use hca_functional::{Card, Frame, HostPort, Outgoing, spare};
use hca_host::{Found, Host, LINE_BYTES, Line, MmioRequest, PcieModel, WriteBeat, earlier};
use hca_link::{Cable, Content, Dir, LinkError, LinkKind, Unwritten};
use hca_switch::IbPort;
use hca_vsim::DATA_VLS;

use crate::NUM_VECTORS;
use crate::firmware::{FirmwarePort, Program, ProgramPort};
use crate::observe::PacketNotes;

/// The memory of a client answers in this time of the machine's clock, or is taken for missing.
const READ_TIME: Duration = Duration::from_secs(2);
/// Turns of firmware and card within a cycle.
const TURNS_MAX: usize = 64;

/// A packet of a connection on its way to another card, which takes it as it is unless somebody has looked at it.
struct Passed {
    frame: Box<Frame>,
    len_bytes: usize,
}

impl Unwritten for Passed {
    fn len_bytes(&self) -> usize {
        self.len_bytes
    }

    fn count(&self) -> u32 {
        self.frame.packet.count
    }

    fn parts(&self) -> Vec<Box<dyn Unwritten>> {
        let part = |frame| -> Box<dyn Unwritten> {
            Box::new(Self {
                frame: Box::new(frame),
                len_bytes: self.len_bytes,
            })
        };
        self.frame.parts().into_iter().map(part).collect()
    }

    fn write(&self) -> Vec<u8> {
        // What a QP makes has the headers of its opcode.
        self.frame.emit().unwrap_or_default()
    }
}

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
    fn receive(&mut self, now: u64, cables: &mut [Cable]) -> Option<Content> {
        match &mut self.infiniband {
            Some(port) => port.receive(now, cables).map(Content::Bytes),
            None => cables[self.cable].poll_content(self.rx, now),
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
        (packet, line): (Outgoing, Option<u32>),
    ) -> Result<(), LinkError> {
        let cable = &mut cables[self.cable];
        match (&mut self.infiniband, packet) {
            (Some(port), packet) => {
                port.push(packet.into_bytes(), line);
                Ok(())
            }
            (None, Outgoing::Bytes(bytes)) => cable.push_packet(self.tx, now, &bytes),
            (None, Outgoing::Frame { frame, len_bytes }) => {
                cable.push_unwritten(self.tx, now, Box::new(Passed { frame, len_bytes }))
            }
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

impl PacketPort {
    /// Packets that the card may send later than it could, because nobody misses them before the one behind them comes:
    /// how many, and how many bytes each has.
    fn middles_ahead(&self, index: usize, card: &Card, cables: &[Cable]) -> Option<(u32, usize)> {
        /// Not half of the shortest time-out, in which the peer has to see some of what it waits for.
        const AWAITED_CYCLES: u64 = 1000;
        // Asked first: most of the time there are none.
        let ahead = card.middles_ahead(index)?;
        let end = self.end.as_ref()?;
        let cable = &cables[end.cable];
        let is_smooth = end.infiniband.is_none()
            && end.tx != end.rx
            && self.is_up
            && cable.is_up()
            && cable.is_smooth(end.tx);
        if !is_smooth {
            return None;
        }
        let mut count = ahead.count;
        if ahead.is_awaited {
            let behind = |count| cable.ready_cycle_behind(end.tx, count, ahead.len_bytes);
            let cycles_of_16 = (behind(16) - behind(0)).max(1);
            let most = 16 * AWAITED_CYCLES / cycles_of_16;
            count = count.min(u32::try_from(most).unwrap_or(u32::MAX)).max(1);
        }
        Some((count, ahead.len_bytes))
    }
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

    fn is_far(&self, func: u8) -> bool {
        self.host.is_far(func)
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

    fn hush(&mut self, on: bool) {
        self.host.hush(on);
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
    /// What was said last of the next cycle in which it has to be looked at.
    said: Cell<Option<u64>>,
    /// That is void: something has changed.
    is_touched: Cell<bool>,
    /// Others hear of its packets when it says so, and not by the cycle: packets that nobody misses may go later.
    is_alone: Cell<bool>,
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
            said: Cell::new(None),
            is_touched: Cell::new(true),
            is_alone: Cell::new(false),
            card: Card::new(ports, NUM_VECTORS, cycle_ps),
        }
    }

    /// The processor accesses a register. What nobody here hears is counted, and goes no further.
    #[inline]
    pub fn push_mmio(&mut self, now: u64, request: MmioRequest) {
        if let MmioRequest::Write { addr, .. } = request
            && !Card::hears_write(addr)
        {
            return self.pcie.count_mmio_write();
        }
        self.pcie.push_mmio(now, request);
        self.hear_of(self.pcie.next_event());
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
        let next = self.find_next_event(now, cables, with_links);
        self.said.set(next);
        self.is_touched.set(false);
        next
    }

    /// The same as it was said the last time, if nothing has happened since but what [`Functional::hear_of`] told.
    #[inline]
    pub fn next_unless_said(&self, now: u64, cables: &[Cable]) -> Option<u64> {
        // Memory of a client may have answered without anybody's word.
        if self.is_touched.get() || self.pcie.waits_for_memory() {
            self.next_event(now, cables, false)
        } else {
            self.said.get()
        }
    }

    /// Something is due in this cycle, too.
    #[inline]
    pub fn hear_of(&self, at: Option<u64>) {
        self.said.set(earlier(self.said.get(), at));
    }

    /// What was said is void.
    #[inline]
    pub fn touch(&self) {
        self.is_touched.set(true);
    }

    /// By what was said last.
    #[inline]
    pub fn is_due(&self, now: u64) -> bool {
        self.said.get().is_some_and(|at| at <= now) || self.is_new()
    }

    /// The same, as it was said the last time.
    pub fn said_event(&self) -> Option<u64> {
        self.said.get()
    }

    fn find_next_event(&self, now: u64, cables: &[Cable], with_links: bool) -> Option<u64> {
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
                Some(end) if wants_to_send && self.is_alone.get() => {
                    let (ready, arrival) = (&cables[end.cable], cables[end.cable].next_arrival_cycle(end.rx));
                    let ready = match port.middles_ahead(index, &self.card, cables) {
                        Some((count, bytes)) => ready.ready_cycle_behind(end.tx, count, bytes),
                        None => ready.ready_cycle(end.tx),
                    };
                    earlier(Some(ready), arrival)
                }
                Some(end) => end.next_event(now, cables, with_links, wants_to_send),
            };
            next = earlier(next, of_port);
        }
        next.map(|at| at.max(now + 1))
    }

    /// Whether the fabric is one in which that is so.
    pub fn set_alone(&self, is_alone: bool) {
        self.is_alone.set(is_alone);
    }

    /// Sends what could have left before this cycle, and that nobody has missed, each packet at its time.
    fn catch_up(&mut self, now: u64, host: &mut Host, cables: &mut [Cable]) {
        let (pcie, broken) = (&mut self.pcie, &mut self.violations);
        let mut dma = Dma {
            host,
            pcie,
            now,
            broken,
        };
        for (index, port) in self.ports.iter_mut().enumerate() {
            let Some((most, bytes)) = port.middles_ahead(index, &self.card, cables) else {
                continue;
            };
            let Some(PacketEnd { cable, tx, kind, .. }) = port.end else {
                continue;
            };
            let cable = &mut cables[cable];
            let behind = |count| cable.ready_cycle_behind(tx, count, bytes);
            let count = (1..=most).rev().find(|count| behind(count - 1) < now);
            let Some(count) = count else { continue };
            let (first, last) = (behind(0), behind(count - 1));
            let Some((frame, len_bytes)) = self.card.take_middles(&mut dma, index, (count, last)) else {
                continue;
            };
            port.notes.frame(last, kind, &frame, len_bytes);
            let pushed = cable.push_several(tx, first, Box::new(Passed { frame, len_bytes }));
            dma.broken.extend(pushed.err().map(|error| error.to_string()));
        }
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
        self.touch();
        let (cables, with_links) = net;
        if self.is_alone.get() {
            self.catch_up(now, host, cables);
        }
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
                receive(card, &mut dma, index, packet);
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
                match &packet {
                    Outgoing::Bytes(bytes) => port.notes.beat(now, end.kind, bytes, true),
                    Outgoing::Frame { frame, len_bytes } => {
                        port.notes.frame(now, end.kind, frame, *len_bytes);
                    }
                }
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

fn receive(card: &mut Card, dma: &mut Dma<'_>, port: usize, packet: Content) {
    match packet {
        Content::Bytes(bytes) => card.receive(dma, port, &bytes),
        Content::Unwritten(packet) => {
            let packet: Box<dyn Any> = packet;
            // Nobody but a card leaves packets unwritten.
            if let Ok(passed) = packet.downcast::<Passed>() {
                card.receive_frame(dma, port, &passed.frame, passed.len_bytes);
                spare::give_back(passed.frame);
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
