//! One card: the Verilated model with what is at its ports, its firmware, and the memory of its host.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::Path;

use hca_abi::{PortView, SocFault};
use hca_host::{Host, MmioRequest, PcieModel};
use hca_link::{Cable, Dir};
use hca_vsim::Dut;

use crate::circuit::Circuit;
use crate::config::{CardConfig, CardFirmware};
use crate::core_firmware::{CoreFirmware, ProcessorCounters};
use crate::design::Design;
use crate::firmware::{FirmwarePort, Program, ProgramPort, shared_lines};
use crate::flash::Flash;
use crate::functional::{Functional, PacketEnd};
use crate::observe::{PacketNotes, SentPacket};
use crate::port_observer::PortObserver;
use crate::stamps::Stamp;
use crate::wire::Attachment;
use crate::{NUM_FUNCS, NUM_PORTS, SimError};

/// What a card has done, besides the counters of its links.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CardCounters {
    /// Cycles evaluated; the rest of the time the card was idle.
    pub evaluated_cycles: u64,
    /// Packets sent.
    pub tx_packets: u64,
    /// Packets received.
    pub rx_packets: u64,
    /// Accesses of the firmware.
    pub firmware_accesses: u64,
}

/// How a cycle is looked at.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Look {
    /// Cards are evaluated though nothing of theirs should change.
    pub checked: bool,
    /// See `Fabric::is_moving`.
    pub moving: bool,
    /// Each card has just said when it has to be looked at, and nothing has happened since.
    pub was_asked: bool,
}

/// What does a card's work, with everything at its ports.
pub(crate) enum Engine {
    Rtl(Box<Circuit>),
    Functional(Box<Functional>),
}

/// A simulated card.
pub struct Card {
    guid: u64,
    engine: Engine,
    program: Option<Program>,
    pub(crate) host: Host,
    interrupts: BTreeMap<(u8, u16), u64>,
    observer: Option<Box<dyn PortObserver>>,
}

impl Card {
    /// `registers` decides what they hold before reset, `seed` all other randomness.
    pub(crate) fn new(config: CardConfig, seed: u64, registers: u64) -> Result<Self, SimError> {
        if config.design == Design::Model {
            return Self::functional(config, seed);
        }
        let dut = Dut::new(config.model, registers).map_err(|_| SimError::NoRtl(config.name.clone()))?;
        let (program, firmware) = match config.firmware {
            CardFirmware::Native(entry) => {
                let program = Program::new(entry, config.firmware_think_cycles)?;
                (Some(program), FirmwarePort::Program(ProgramPort::new()))
            }
            CardFirmware::Core(board) => {
                let core = CoreFirmware::new(&config.name, *board, registers)?;
                (None, FirmwarePort::Core(Box::new(core)))
            }
        };
        let pcie = PcieModel::new(config.pcie, seed)?;
        let ports = config.ports.clamp(1, NUM_PORTS);
        let mut circuit = Circuit::new(config.name, dut, pcie, firmware, ports);
        circuit.stop_on_violation = config.stop_on_violation;
        Ok(Self {
            guid: config.guid,
            engine: Engine::Rtl(Box::new(circuit)),
            program,
            host: Host::new(NUM_FUNCS),
            interrupts: BTreeMap::new(),
            observer: None,
        })
    }

    /// A card without gates.
    fn functional(config: CardConfig, seed: u64) -> Result<Self, SimError> {
        let refuse = |what| SimError::Functional {
            card: config.name.clone(),
            what,
        };
        let CardFirmware::Native(entry) = config.firmware else {
            return Err(refuse(
                "it has no processor of its own for firmware; choose native firmware, or the RTL",
            ));
        };
        if shared_lines().is_some() {
            return Err(refuse(
                "its QPs share no lines; leave HCA_SHARED_LINES away, or choose the RTL",
            ));
        }
        let pcie = PcieModel::new(config.pcie, seed)?;
        let ports = config.ports.clamp(1, NUM_PORTS);
        Ok(Self {
            guid: config.guid,
            engine: Engine::Functional(Box::new(Functional::new(config.name, pcie, ports))),
            program: Some(Program::new(entry, 0)?),
            host: Host::new(NUM_FUNCS),
            interrupts: BTreeMap::new(),
            observer: None,
        })
    }

    /// What does its work.
    pub fn design(&self) -> Design {
        match &self.engine {
            Engine::Rtl(_) => Design::Rtl,
            Engine::Functional(_) => Design::Model,
        }
    }

    fn circuit(&self) -> Option<&Circuit> {
        match &self.engine {
            Engine::Rtl(circuit) => Some(circuit),
            Engine::Functional(_) => None,
        }
    }

    fn circuit_mut(&mut self) -> Option<&mut Circuit> {
        match &mut self.engine {
            Engine::Rtl(circuit) => Some(circuit),
            Engine::Functional(_) => None,
        }
    }

    fn firmware(&self) -> &FirmwarePort {
        match &self.engine {
            Engine::Rtl(circuit) => &circuit.firmware,
            Engine::Functional(card) => &card.firmware,
        }
    }

    /// Its PCIe link, for whoever drives it.
    pub(crate) fn pcie_mut(&mut self) -> &mut PcieModel {
        match &mut self.engine {
            Engine::Rtl(circuit) => &mut circuit.pcie,
            Engine::Functional(card) => &mut card.pcie,
        }
    }

    /// The processor accesses a register.
    #[inline]
    pub(crate) fn push_mmio(&mut self, now: u64, request: MmioRequest) {
        match &mut self.engine {
            Engine::Rtl(circuit) => circuit.pcie.push_mmio(now, request),
            Engine::Functional(card) => card.push_mmio(now, request),
        }
    }

    /// Its name.
    pub fn name(&self) -> &str {
        match &self.engine {
            Engine::Rtl(circuit) => &circuit.name,
            Engine::Functional(card) => &card.name,
        }
    }

    /// What it calls itself, an EUI-64; 0: nothing.
    pub fn guid(&self) -> u64 {
        self.guid
    }

    /// Its ports.
    pub fn ports(&self) -> u8 {
        match &self.engine {
            Engine::Rtl(circuit) => circuit.wires.len() as u8,
            Engine::Functional(card) => card.ports.len() as u8,
        }
    }

    /// The cable at a port, from 1, and the directions in which it sends and receives there.
    pub(crate) fn attachment(&self, port: u8) -> Option<(usize, Dir, Dir)> {
        let at = usize::from(port).wrapping_sub(1);
        match &self.engine {
            Engine::Rtl(circuit) => {
                let attachment = circuit.wires.get(at)?.attachment.as_ref()?;
                Some((attachment.cable, attachment.tx, attachment.rx.dir()))
            }
            Engine::Functional(card) => {
                let end = card.ports.get(at)?.end.as_ref()?;
                Some((end.cable, end.tx, end.rx))
            }
        }
    }

    /// Plugs a cable in; the port is there.
    pub(crate) fn attach(&mut self, port: u8, attachment: Attachment) {
        let at = usize::from(port) - 1;
        match &mut self.engine {
            Engine::Rtl(circuit) => {
                circuit.wires[at].attachment = Some(attachment);
                circuit.quiet = None;
            }
            Engine::Functional(card) => {
                let Attachment { cable, kind, tx, rx } = attachment;
                card.ports[at].end = Some(PacketEnd::new(cable, kind, tx, rx.dir()));
            }
        }
    }

    /// Length of its cycle.
    pub fn cycle_ps(&self) -> u64 {
        match &self.engine {
            Engine::Rtl(circuit) => circuit.cycle_ps,
            Engine::Functional(card) => card.cycle_ps,
        }
    }

    /// Memory and IOMMU of its host, to look at.
    #[inline]
    pub(crate) fn host_ref(&self) -> &Host {
        &self.host
    }

    /// Memory and IOMMU of its host.
    #[inline]
    pub fn host(&mut self) -> &mut Host {
        &mut self.host
    }

    /// Its PCIe link.
    pub fn pcie(&self) -> &PcieModel {
        match &self.engine {
            Engine::Rtl(circuit) => &circuit.pcie,
            Engine::Functional(card) => &card.pcie,
        }
    }

    /// From now on its host answers one read in so many never; 0: all are answered.
    pub fn lose_reads(&mut self, one_in: u32) {
        self.pcie_mut().lose_reads(one_in);
    }

    /// Counts what it has made visible to its host: lines written and interrupts.
    #[inline]
    pub fn host_writes(&self) -> u64 {
        self.host.writes_seen()
    }

    /// What it has done.
    pub fn counters(&self) -> CardCounters {
        let (evaluated_cycles, [tx_packets, rx_packets]) = match &self.engine {
            Engine::Rtl(circuit) => {
                let sent = circuit.wires.iter().map(|wire| wire.tx_packets).sum();
                let received = circuit.wires.iter().map(|wire| wire.rx_packets).sum();
                (circuit.evaluated_cycles, [sent, received])
            }
            Engine::Functional(card) => (card.steps, card.packets()),
        };
        CardCounters {
            evaluated_cycles,
            firmware_accesses: self.firmware().accesses(),
            tx_packets,
            rx_packets,
        }
    }

    /// Lines that the firmware on its own processor has printed since the last call.
    pub fn take_console(&mut self) -> Vec<String> {
        match self.circuit_mut().map(|circuit| &mut circuit.firmware) {
            Some(FirmwarePort::Core(core)) => core.take_lines(),
            _ => Vec::new(),
        }
    }

    /// What its firmware has said last that a port, from 1, is; nothing before it has looked.
    pub fn port_view(&self, port_num: u8) -> Option<PortView> {
        self.firmware().view(port_num)
    }

    /// Its own processor's cycles awake, and restarts by the watchdog; none where firmware runs natively.
    pub fn processor(&self) -> Option<ProcessorCounters> {
        match self.firmware() {
            FirmwarePort::Program(_) => None,
            FirmwarePort::Core(core) => Some(core.counters()),
        }
    }

    /// What its board would keep if power went away now.
    ///
    /// # Panics
    /// If firmware runs natively: there is no flash.
    pub fn flash(&mut self) -> Flash {
        self.core().flash().clone()
    }

    /// From now on its own processor is restarted when a turn of the firmware's loop takes longer than so many cycles.
    ///
    /// # Panics
    /// If firmware runs natively: nothing restarts it.
    pub fn set_watchdog(&mut self, cycles: u32) {
        self.core().set_watchdog(cycles);
    }

    /// The firmware on its own processor fails so many cycles after it has heard of this, whatever it does then, and
    /// again after restarts, so many times in all.
    ///
    /// # Panics
    /// If firmware runs natively.
    pub fn set_fault(&mut self, fault: SocFault, cycles: u32, times: u32) {
        self.core().set_fault(fault, cycles, times);
    }

    fn core(&mut self) -> &mut CoreFirmware {
        match self.circuit_mut().map(|circuit| &mut circuit.firmware) {
            Some(FirmwarePort::Core(core)) => core,
            _ => panic!("this card's firmware runs natively, without a processor"),
        }
    }

    /// Lines of page lists that it has read.
    pub fn page_list_reads(&self) -> u64 {
        self.circuit().map_or(0, |circuit| circuit.page_list_reads)
    }

    /// From now on a broken contract or a failed assertion is listed, and does not stop the run.
    pub(crate) fn list_violations(&mut self) {
        if let Some(circuit) = self.circuit_mut() {
            circuit.stop_on_violation = false;
        }
    }

    /// Broken port contracts and failed assertions.
    pub fn violations(&self) -> &[String] {
        match &self.engine {
            Engine::Rtl(circuit) => &circuit.violations,
            Engine::Functional(card) => &card.violations,
        }
    }

    /// Keeps the last `capacity` port events from now on; 0 switches off. A card without gates has none.
    pub fn record_stamps(&mut self, capacity: usize) {
        if let Some(circuit) = self.circuit_mut() {
            circuit.stamps.set_capacity(capacity);
        }
    }

    /// The port events kept, oldest first; the record is empty afterwards.
    pub fn take_stamps(&mut self) -> Vec<Stamp> {
        self.circuit_mut()
            .map(|circuit| circuit.stamps.take())
            .unwrap_or_default()
    }

    /// Shows every cycle to an observer, or to none. A card without gates has no cycles to show.
    pub fn observe(&mut self, observer: Option<Box<dyn PortObserver>>) {
        self.observer = observer;
    }

    /// Makes a waveform of the cycles in `window`, of those in which the card is evaluated: an idle card does not
    /// change. The file is made now and ends with the window, or with [`Card::trace_close`].
    pub fn trace_window(&mut self, path: &Path, window: Range<u64>) -> Result<(), SimError> {
        let what = format!("cannot trace card {}", self.name());
        let card = self.name().to_owned();
        let what_not = "it has no waveform; leave --trace away, or choose the RTL";
        let Some(circuit) = self.circuit_mut() else {
            return Err(SimError::Functional { card, what: what_not });
        };
        circuit
            .waveform
            .begin(&mut circuit.dut, path, window)
            .map_err(|reason| SimError::Os { what, reason })
    }

    /// Ends the waveform: from its first cycle to behind its last, none where the run did not reach the window.
    /// Fails where it had to end early.
    pub fn trace_close(&mut self) -> Result<Option<Range<u64>>, SimError> {
        let what = format!("cannot trace card {}", self.name());
        let Some(circuit) = self.circuit_mut() else {
            return Ok(None);
        };
        circuit
            .waveform
            .end(&mut circuit.dut)
            .map_err(|reason| SimError::Os { what, reason })
    }

    /// Notes the packets that go out from now on, or no longer.
    pub(crate) fn note_packets(&mut self, on: bool) {
        self.notes().for_each(|notes| notes.switch(on));
    }

    fn notes(&mut self) -> impl Iterator<Item = &mut PacketNotes> {
        let (wires, ports) = match &mut self.engine {
            Engine::Rtl(circuit) => (&mut circuit.wires[..], &mut [][..]),
            Engine::Functional(card) => (&mut [][..], &mut card.ports[..]),
        };
        let wires = wires.iter_mut().map(|wire| &mut wire.notes);
        wires.chain(ports.iter_mut().map(|port| &mut port.notes))
    }

    /// The packets noted since the last call.
    pub(crate) fn take_sent(&mut self) -> Vec<SentPacket> {
        let mut sent: Vec<_> = self.notes().flat_map(PacketNotes::take).collect();
        sent.sort_by_key(|packet| packet.cycle);
        sent
    }

    /// Interrupts of a vector that have arrived since the last call.
    pub fn take_interrupts(&mut self, func: u8, vector: u16) -> u64 {
        while let Some(interrupt) = self.host.take_interrupt() {
            *self
                .interrupts
                .entry((interrupt.func, interrupt.vector))
                .or_default() += 1;
        }
        self.interrupts.remove(&(func, vector)).unwrap_or(0)
    }

    /// Something is under way in it, on its link or in its firmware; timers that run do not count.
    pub(crate) fn is_moving(&self) -> bool {
        match &self.engine {
            Engine::Rtl(circuit) => {
                circuit.quiet.is_none() || !circuit.firmware.is_idle() || circuit.pcie.next_event().is_some()
            }
            Engine::Functional(card) => card.is_moving(),
        }
    }

    /// Something may change in it in the next cycle already.
    pub(crate) fn is_restless(&self) -> bool {
        self.circuit().is_some_and(|circuit| circuit.quiet.is_none())
    }

    /// The next cycle in which it has to be looked at; see [`Circuit::next_event`].
    pub(crate) fn next_event(&self, now: u64, cables: &[Cable], with_links: bool) -> Option<u64> {
        match &self.engine {
            Engine::Rtl(circuit) => circuit.next_event(now, cables, with_links),
            Engine::Functional(card) => card.next_event(now, cables, with_links),
        }
    }

    /// Its firmware waits for the time to do something.
    pub(crate) fn has_firmware_timer(&self) -> bool {
        self.firmware().has_timer()
    }

    /// Begins a cycle: memory is accessed, and what has come by cable is taken.
    pub(crate) fn begin(&mut self, now: u64, cables: &mut [Cable], how: Look) {
        let Look { checked, moving, .. } = how;
        match &mut self.engine {
            Engine::Rtl(circuit) => {
                circuit.pcie.advance(now, &mut self.host);
                // Only in the first cycle: later it has gone on before the cycle ended.
                if let Some(program) = &mut self.program {
                    program.go_on(now, &mut circuit.firmware);
                }
                circuit.begin(now, cables, checked);
            }
            Engine::Functional(card) => {
                card.pcie.advance(now, &mut self.host);
                let next = match how.was_asked {
                    true => card.said_event(),
                    false => card.next_event(now.saturating_sub(1), cables, moving),
                };
                if next.is_some_and(|at| at <= now) || card.is_new() {
                    card.step(now, &mut self.host, self.program.as_mut(), (cables, moving));
                }
            }
        }
    }

    /// Begins, does and ends a cycle, if the card is one without gates on Ethernet that has something to do in it.
    #[inline]
    pub(crate) fn work_alone(&mut self, now: u64, cables: &mut [Cable]) -> bool {
        let Engine::Functional(card) = &mut self.engine else {
            return false;
        };
        if !card.is_due(now) {
            return false;
        }
        card.pcie.advance(now, &mut self.host);
        card.step(now, &mut self.host, self.program.as_mut(), (cables, false));
        true
    }

    /// Of such a card: the next cycle in which it has something to do, as it was said last unless somebody has touched
    /// the card meanwhile.
    #[inline]
    pub(crate) fn next_alone(&self, now: u64, cables: &[Cable]) -> Option<u64> {
        match &self.engine {
            Engine::Functional(card) => card.next_unless_said(now, cables),
            Engine::Rtl(_) => None,
        }
    }

    /// Of such a card: something is to do in this cycle, too.
    #[inline]
    pub(crate) fn hear_of(&self, at: Option<u64>) {
        if let Engine::Functional(card) = &self.engine {
            card.hear_of(at);
        }
    }

    /// Whether its fabric is one of cards without gates alone.
    pub(crate) fn set_alone(&self, is_alone: bool) {
        if let Engine::Functional(card) = &self.engine {
            card.set_alone(is_alone);
        }
    }

    /// Somebody may have changed it: what it has said of its next cycle is void.
    pub(crate) fn touch(&self) {
        if let Engine::Functional(card) = &self.engine {
            card.touch();
        }
    }

    /// Its model, if it has to be evaluated in this cycle.
    pub(crate) fn due(&mut self) -> Option<&mut Circuit> {
        self.circuit_mut().filter(|circuit| circuit.is_due())
    }

    /// Somebody looks at its ports.
    pub(crate) fn is_observed(&self) -> bool {
        self.observer.is_some()
    }

    /// Shows a settled cycle.
    pub(crate) fn show(&mut self, now: u64) {
        if let (Some(observer), Engine::Rtl(circuit)) = (&mut self.observer, &self.engine)
            && circuit.is_due()
        {
            observer.cycle(now, circuit.dut.ports());
        }
    }

    /// Ends a cycle: what the model has sent goes into the cables, and the firmware goes on.
    pub(crate) fn end(&mut self, now: u64, cables: &mut [Cable]) {
        let Engine::Rtl(circuit) = &mut self.engine else {
            return;
        };
        if !circuit.is_due() {
            return;
        }
        circuit.end(cables);
        if let Some(program) = &mut self.program
            && circuit.firmware.wants_program()
        {
            program.go_on(now, &mut circuit.firmware);
            circuit.judge();
        }
    }
}
