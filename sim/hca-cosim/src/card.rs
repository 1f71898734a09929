//! One card: the Verilated model, its firmware, its host side and its ports, cycle by cycle.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::Path;

use hca_fw_core::{Identity, Neighbour};
use hca_host::{Host, Line, MmioRequest, PcieModel, PcieParams, WriteBeat};
use hca_link::Cable;
use hca_vsim::{Beat, Dut, Model};

use crate::firmware::{FirmwareEntry, FirmwareRunner, firmware_with_wires};
use crate::monitor::Monitor;
use crate::observe::SentPacket;
use crate::port_observer::PortObserver;
use crate::quiet::{Inputs, Quiet, Silence};
use crate::stamps::{Stamp, StampKind, Stamps};
use crate::waveform::Waveform;
use crate::wire::{Attachment, Wire};
use crate::{NUM_FUNCS, NUM_PORTS, SimError};

/// Cycles of reset before time starts.
const RESET_CYCLES: u64 = 16;
/// Violations kept; the first ones matter.
const MAX_VIOLATIONS: usize = 16;

/// What a card is built from.
pub struct CardConfig {
    /// For messages and seeds; unique in a fabric.
    pub name: String,
    /// The design.
    pub model: Model,
    /// Ports fitted, 1 or 2.
    pub ports: u8,
    /// What the card calls itself, an EUI-64; 0: nothing.
    pub guid: u64,
    /// The host side.
    pub pcie: PcieParams,
    /// The program beside it.
    pub firmware: FirmwareEntry,
    /// Cycles the firmware computes between two bus accesses.
    pub firmware_think_cycles: u64,
    /// A broken port contract or a failed assertion of the RTL stops the run (panic). Otherwise it is only
    /// listed, as it is in a [`crate::Server`], where it stops that one card.
    pub stop_on_violation: bool,
}

impl CardConfig {
    /// The card with one port and its native firmware, on a default PCIe link.
    pub fn core(name: &str, identity: Identity) -> Self {
        Self::with_ports(name, &[identity])
    }

    /// The card with as many ports as there are identities, one or two.
    pub fn with_ports(name: &str, identities: &[Identity]) -> Self {
        Self::with_shares(name, identities, NUM_FUNCS, &[])
    }

    /// The same with its tables divided among the first `functions` functions only, 1 to 4; it knows who has which GID
    /// on its networks.
    pub fn with_shares(name: &str, identities: &[Identity], functions: u8, neighbours: &[Neighbour]) -> Self {
        Self::with_wires(name, identities, functions, neighbours, Vec::new())
    }

    /// The same with wires to the outside at some ports, from 1: it asks there for neighbours that it does not know.
    pub(crate) fn with_wires(
        name: &str,
        identities: &[Identity],
        functions: u8,
        neighbours: &[Neighbour],
        wires: Vec<(u8, hca_outside::Neighbours)>,
    ) -> Self {
        let firmware = firmware_with_wires(identities, functions, neighbours, wires);
        Self {
            model: if identities.len() > 1 {
                Model::TwoPorts
            } else {
                Model::Core
            },
            ports: identities.len() as u8,
            guid: identities
                .first()
                .map_or(0, |identity| u64::from_be_bytes(identity.guid)),
            ..Self::with_firmware(name, firmware)
        }
    }

    /// The test card, firmware idle.
    pub fn probe(name: &str) -> Self {
        Self::with_firmware(name, Box::new(|_| ()))
    }

    /// The test card with a program of the caller's.
    pub fn with_firmware(name: &str, firmware: FirmwareEntry) -> Self {
        Self {
            name: name.to_owned(),
            model: Model::Probe,
            ports: 1,
            guid: 0,
            pcie: PcieParams::default(),
            firmware,
            firmware_think_cycles: 4,
            stop_on_violation: true,
        }
    }
}

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

/// A read request or a write beat without its data: what the handshake monitors compare.
type ReadPayload = (u8, u8, u64, u16);
type WritePayload = (u8, u8, u64, u64, Beat);

/// A simulated card.
pub struct Card {
    name: String,
    guid: u64,
    dut: Dut,
    pub(crate) pcie: PcieModel,
    pub(crate) host: Host,
    firmware: FirmwareRunner,
    wires: Vec<Wire>,
    /// Of this cycle.
    inputs: Inputs,
    stands_still: bool,
    is_due: bool,
    settled_lawfully: bool,
    silence: Silence,
    quiet: Option<Quiet>,
    reading: Option<(u8, u64)>,
    read_monitor: Monitor<ReadPayload>,
    write_monitor: Monitor<WritePayload>,
    interrupts: BTreeMap<(u8, u16), u64>,
    stamps: Stamps,
    waveform: Waveform,
    observer: Option<Box<dyn PortObserver>>,
    counters: CardCounters,
    violations: Vec<String>,
    stop_on_violation: bool,
    cycle_ps: u64,
}

impl Card {
    pub(crate) fn new(config: CardConfig, seed: u64) -> Result<Self, SimError> {
        let cycle_ps = 1_000_000 / u64::from(config.pcie.clock_mhz.max(1));
        let mut card = Self {
            name: config.name,
            guid: config.guid,
            dut: Dut::new(config.model, seed),
            pcie: PcieModel::new(config.pcie, seed)?,
            host: Host::new(NUM_FUNCS),
            firmware: FirmwareRunner::new(config.firmware, config.firmware_think_cycles)?,
            wires: (0..usize::from(config.ports.clamp(1, NUM_PORTS)))
                .map(Wire::new)
                .collect(),
            inputs: Inputs::default(),
            stands_still: false,
            is_due: false,
            settled_lawfully: true,
            silence: Silence::default(),
            quiet: None,
            reading: None,
            read_monitor: Monitor::default(),
            write_monitor: Monitor::default(),
            interrupts: BTreeMap::new(),
            stamps: Stamps::default(),
            waveform: Waveform::default(),
            observer: None,
            counters: CardCounters::default(),
            violations: Vec::new(),
            stop_on_violation: config.stop_on_violation,
            cycle_ps,
        };
        card.dut.ports().num_ports_i.set(card.ports());
        // Nobody drives the stream of a port that is not there.
        card.dut.ports().mac1_tx_ready_i.set(1);
        for _ in 0..RESET_CYCLES {
            card.dut.ports().rst_i.set(1);
            card.tick(0);
        }
        card.dut.ports().rst_i.set(0);
        Ok(card)
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What it calls itself, an EUI-64; 0: nothing.
    pub fn guid(&self) -> u64 {
        self.guid
    }

    /// Its ports.
    pub fn ports(&self) -> u8 {
        self.wires.len() as u8
    }

    /// Its end of the cable at a port, from 1.
    pub(crate) fn attachment(&self, port: u8) -> Option<&Attachment> {
        self.wires
            .get(usize::from(port).wrapping_sub(1))?
            .attachment
            .as_ref()
    }

    /// Plugs a cable in; the port is there.
    pub(crate) fn attach(&mut self, port: u8, attachment: Attachment) {
        self.wires[usize::from(port) - 1].attachment = Some(attachment);
        self.quiet = None;
    }

    /// Length of its cycle.
    pub fn cycle_ps(&self) -> u64 {
        self.cycle_ps
    }

    /// Memory and IOMMU of its host.
    pub fn host(&mut self) -> &mut Host {
        &mut self.host
    }

    /// Its PCIe link.
    pub fn pcie(&self) -> &PcieModel {
        &self.pcie
    }

    /// Counts what it has made visible to its host: lines written and interrupts.
    pub fn host_writes(&self) -> u64 {
        self.host.writes_seen()
    }

    /// What it has done.
    pub fn counters(&self) -> CardCounters {
        CardCounters {
            firmware_accesses: self.firmware.accesses(),
            tx_packets: self.wires.iter().map(|wire| wire.tx_packets).sum(),
            rx_packets: self.wires.iter().map(|wire| wire.rx_packets).sum(),
            ..self.counters
        }
    }

    /// From now on a broken contract or a failed assertion is listed, and does not stop the run.
    pub(crate) fn list_violations(&mut self) {
        self.stop_on_violation = false;
    }

    /// Broken port contracts and failed assertions.
    pub fn violations(&self) -> &[String] {
        &self.violations
    }

    /// Keeps the last `capacity` port events from now on; 0 switches off.
    pub fn record_stamps(&mut self, capacity: usize) {
        self.stamps.set_capacity(capacity);
    }

    /// The port events kept, oldest first; the record is empty afterwards.
    pub fn take_stamps(&mut self) -> Vec<Stamp> {
        self.stamps.take()
    }

    /// Shows every cycle to an observer, or to none.
    pub fn observe(&mut self, observer: Option<Box<dyn PortObserver>>) {
        self.observer = observer;
    }

    /// Makes a waveform of the cycles in `window`, of those in which the card is evaluated: an idle card does not
    /// change. The file is made now and ends with the window, or with [`Card::trace_close`].
    pub fn trace_window(&mut self, path: &Path, window: Range<u64>) -> Result<(), SimError> {
        let what = format!("cannot trace card {}", self.name);
        self.waveform
            .begin(&mut self.dut, path, window)
            .map_err(|reason| SimError::Os { what, reason })
    }

    /// Ends the waveform: from its first cycle to behind its last, none where the run did not reach the window.
    /// Fails where it had to end early.
    pub fn trace_close(&mut self) -> Result<Option<Range<u64>>, SimError> {
        let what = format!("cannot trace card {}", self.name);
        self.waveform
            .end(&mut self.dut)
            .map_err(|reason| SimError::Os { what, reason })
    }

    /// Notes the packets that go out from now on, or no longer.
    pub(crate) fn note_packets(&mut self, on: bool) {
        for wire in &mut self.wires {
            wire.notes.switch(on);
        }
    }

    /// The packets noted since the last call.
    pub(crate) fn take_sent(&mut self) -> Vec<SentPacket> {
        let mut sent: Vec<_> = self.wires.iter_mut().flat_map(|wire| wire.notes.take()).collect();
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
        self.quiet.is_none() || !self.firmware.is_idle() || self.pcie.next_event().is_some()
    }

    /// The next cycle in which it has to be looked at; none while it waits for others only. What its links do by
    /// themselves, such as telling credits again, counts `with_links` only.
    pub(crate) fn next_event(&self, now: u64, cables: &[Cable], with_links: bool) -> Option<u64> {
        let Some(quiet) = &self.quiet else {
            return Some(now + 1);
        };
        let wires = self.wires.iter().map(|wire| wire.next_event(now, cables));
        let own = [
            self.pcie.next_event(),
            (!quiet.inputs.may_read)
                .then(|| self.pcie.read_ready_cycle())
                .flatten(),
            (!quiet.inputs.may_write).then(|| self.pcie.write_ready_cycle()),
            self.firmware.next_event(now),
            quiet.timers_at,
            quiet.links_at.filter(|_| with_links),
        ];
        wires.chain(own).flatten().min().map(|at| at.max(now + 1))
    }

    // ---- A cycle: drive, settle (the model), sample, clock (the model), judge
    // -----------------------------------------------------------------------------------------

    /// Gives the model its inputs. False where it need not be evaluated, because that would change nothing; `checked`:
    /// then it is, and it is a violation if something changes.
    pub(crate) fn drive(&mut self, now: u64, cables: &mut [Cable], checked: bool) -> bool {
        self.firmware.drive(now, self.dut.ports());
        self.drive_mmio(now);
        self.drive_host(now);
        for wire in &mut self.wires {
            wire.drive(now, self.dut.ports(), cables, &mut self.stamps);
        }
        self.inputs = Inputs::of(self.dut.ports());
        let quiet = self.quiet.as_ref();
        self.stands_still = quiet.is_some_and(|quiet| quiet.holds(now, &self.inputs));
        self.is_due = checked || !self.stands_still;
        self.dut.ports().now_i.set(now);
        self.dut.ports().clk_i.set(0);
        self.is_due
    }

    /// The model, if it has to be evaluated in this cycle.
    pub(crate) fn due(&mut self) -> Option<&mut Dut> {
        self.is_due.then_some(&mut self.dut)
    }

    /// Looks at what the settled model says, and prepares the clock edge.
    pub(crate) fn sample(&mut self, now: u64, cables: &mut [Cable]) {
        if !self.is_due {
            return;
        }
        self.counters.evaluated_cycles += 1;
        self.settled_lawfully = self.dut.is_lawful();
        self.waveform.record(&mut self.dut, now, now * self.cycle_ps);
        self.sample_mmio(now);
        self.sample_host(now);
        self.sample_wires(now, cables);
        self.firmware.sample(now, self.dut.ports());
        if let Some(observer) = &mut self.observer {
            observer.cycle(now, self.dut.ports());
        }
        self.dut.ports().clk_i.set(1);
    }

    /// After the clock edge: is anything going to happen?
    pub(crate) fn judge(&mut self, now: u64) {
        if !self.is_due {
            return;
        }
        if !(self.dut.is_lawful() && self.settled_lawfully) {
            self.violation(
                now,
                "an assertion of the RTL failed (see the message above)".into(),
            );
        }
        let middle_ps = now * self.cycle_ps + self.cycle_ps / 2;
        self.waveform.record(&mut self.dut, now, middle_ps);
        if !self.stands_still {
            let firmware_idle = self.firmware.is_idle();
            self.quiet = self.silence.judge(now, &mut self.dut, self.inputs, firmware_idle);
        } else if !self.dut.same() {
            self.violation(now, "changed in a cycle in which nothing should move".into());
            self.quiet = None;
        }
    }

    /// A clock period without a look at the ports: reset.
    fn tick(&mut self, now: u64) {
        self.dut.ports().now_i.set(now);
        for clk in [0, 1] {
            self.dut.ports().clk_i.set(clk);
            self.dut.eval();
        }
    }

    fn sample_wires(&mut self, now: u64, cables: &mut [Cable]) {
        for index in 0..self.wires.len() {
            let sent = self.wires[index].sample(now, self.dut.ports(), cables, &mut self.stamps);
            if let Err(what) = sent {
                self.violation(now, what);
            }
        }
    }

    fn violation(&mut self, now: u64, what: String) {
        let text = format!("card {} cycle {now}: {what}", self.name);
        assert!(!self.stop_on_violation, "{text}");
        if self.violations.len() < MAX_VIOLATIONS {
            self.violations.push(text);
        }
    }

    // ---- Registers
    // -------------------------------------------------------------------------------------------------

    fn drive_mmio(&mut self, now: u64) {
        let ports = self.dut.ports();
        ports.mmio_wr_valid_i.set(0);
        ports.mmio_rd_valid_i.set(0);
        if self.reading.is_some() {
            return;
        }
        match self.pcie.mmio_front(now) {
            Some(MmioRequest::Write {
                func,
                addr,
                data,
                strb,
            }) => {
                ports.mmio_wr_valid_i.set(1);
                ports.mmio_wr_func_i.set(*func);
                ports.mmio_wr_addr_i.set(*addr);
                ports.mmio_wr_data_i.set(*data);
                ports.mmio_wr_strb_i.set(*strb);
            }
            Some(MmioRequest::Read { func, addr, .. }) => {
                ports.mmio_rd_valid_i.set(1);
                ports.mmio_rd_func_i.set(*func);
                ports.mmio_rd_addr_i.set(*addr);
            }
            None => {}
        }
    }

    fn sample_mmio(&mut self, now: u64) {
        let ports = self.dut.ports();
        let taken = (ports.mmio_wr_valid_i.get() & ports.mmio_wr_ready_o.get() != 0)
            || (ports.mmio_rd_valid_i.get() & ports.mmio_rd_ready_o.get() != 0);
        if ports.mmio_rdata_valid_o.get() != 0 {
            match self.reading.take() {
                Some((func, id)) => self.pcie.push_mmio_value(now, func, id, ports.mmio_rdata_o.get()),
                None => return self.violation(now, "register data without a read".into()),
            }
        }
        if !taken {
            return;
        }
        match self.pcie.mmio_taken() {
            Some(MmioRequest::Write { func, addr, .. }) => {
                self.stamps.push(now, StampKind::MmioWrite { func, addr });
            }
            Some(MmioRequest::Read { func, id, .. }) => self.reading = Some((func, id)),
            None => {}
        }
    }

    // ---- Host memory
    // -----------------------------------------------------------------------------------------------

    fn drive_host(&mut self, now: u64) {
        let ports = self.dut.ports();
        ports.hrd_req_ready_i.set(u8::from(self.pcie.read_ready(now)));
        ports.hwr_ready_i.set(u8::from(self.pcie.write_ready(now)));
        let Some(beat) = self.pcie.poll_completion(now) else {
            ports.hrd_rsp_valid_i.set(0);
            return;
        };
        if ports.hrd_rsp_valid_i.get() == 0 || ports.hrd_rsp_tag_i.get() != beat.tag {
            self.stamps.push(now, StampKind::ReadFirst { tag: beat.tag });
        }
        if beat.last {
            self.stamps.push(
                now,
                StampKind::ReadLast {
                    tag: beat.tag,
                    err: beat.err,
                },
            );
        }
        ports.hrd_rsp_valid_i.set(1);
        ports.hrd_rsp_tag_i.set(beat.tag);
        ports.hrd_rsp_last_i.set(u8::from(beat.last));
        ports.hrd_rsp_err_i.set(u8::from(beat.err));
        ports.hrd_rsp_data_i.set(beat.data.to_words());
    }

    fn sample_host(&mut self, now: u64) {
        let ports = self.dut.ports();
        let (valid, ready) = (ports.hrd_req_valid_o.get() != 0, ports.hrd_req_ready_i.get() != 0);
        let request = || {
            let len = ports.hrd_req_len_o.get();
            (
                ports.hrd_req_tag_o.get(),
                ports.hrd_req_func_o.get(),
                ports.hrd_req_addr_o.get(),
                len,
            )
        };
        let mut broken = Vec::new();
        if !self.read_monitor.check(valid, ready, request) {
            broken.push("hrd_req changed or was withdrawn before it was taken".to_owned());
        }
        if valid && ready {
            let (tag, func, addr, len_bytes) = request();
            self.stamps
                .push(now, StampKind::ReadRequest { tag, addr, len_bytes });
            broken.extend(
                self.pcie
                    .push_read(now, tag, func, addr, len_bytes)
                    .err()
                    .map(|e| e.to_string()),
            );
        }

        let (valid, ready) = (ports.hwr_valid_o.get() != 0, ports.hwr_ready_i.get() != 0);
        let payload = || {
            let flags = ports.hwr_msix_o.get() << 1 | ports.hwr_last_o.get();
            (
                flags,
                ports.hwr_func_o.get(),
                ports.hwr_addr_o.get(),
                ports.hwr_strb_o.get(),
                ports.hwr_data_o.get(),
            )
        };
        if !self.write_monitor.check(valid, ready, payload) {
            broken.push("hwr changed or was withdrawn before it was taken".to_owned());
        }
        if valid && ready {
            let (flags, func, addr, strb, data) = payload();
            let (msix, last) = (flags & 2 != 0, flags & 1 != 0);
            if msix {
                self.stamps.push(now, StampKind::Msix { vector: addr as u16 });
            } else if last {
                self.stamps.push(now, StampKind::WriteLast { addr });
            }
            let beat = WriteBeat {
                msix,
                last,
                func,
                addr,
                strb,
                data: Line::from_words(&data),
            };
            broken.extend(self.pcie.push_write(now, &beat).err().map(|e| e.to_string()));
        }
        for what in broken {
            self.violation(now, what);
        }
    }
}
