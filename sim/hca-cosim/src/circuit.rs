//! The model of a card and everything at its ports: what one thread works on in a cycle.
//!
//! A cycle has three parts. The simulation's own thread begins it, with what arrives from outside; any thread runs it;
//! and the simulation's thread ends it, with what leaves. In between no two circuits have anything in common.

use hca_host::{Line, MmioRequest, PcieModel, WriteBeat};
use hca_link::Cable;
use hca_vsim::{Beat, Check, Dut};

use crate::firmware::FirmwarePort;
use crate::monitor::Monitor;
use crate::quiet::{Inputs, Quiet, named_cycle};
use crate::stamps::{StampKind, Stamps};
use crate::waveform::Waveform;
use crate::wire::Wire;

/// Cycles of reset before time starts.
const RESET_CYCLES: u64 = 16;
/// Violations kept; the first ones matter.
const MAX_VIOLATIONS: usize = 16;

/// A read of a page list, by its tag: two of the clients of hca_dma_rd_mux.
const fn is_of_page_list(tag: u8) -> bool {
    matches!(tag, 0xd0..=0xd7 | 0xe0..=0xe7)
}

/// A read request or a write beat without its data: what the handshake monitors compare.
type ReadPayload = (u8, u8, u64, u16);
type WritePayload = (u8, u8, u64, u64, Beat);

/// See above.
pub(crate) struct Circuit {
    /// Of the card, for messages.
    pub name: String,
    pub dut: Dut,
    pub pcie: PcieModel,
    pub firmware: FirmwarePort,
    pub wires: Vec<Wire>,
    pub stamps: Stamps,
    pub waveform: Waveform,
    pub evaluated_cycles: u64,
    /// Reads of page lists, by their tags.
    pub page_list_reads: u64,
    pub violations: Vec<String>,
    pub stop_on_violation: bool,
    pub cycle_ps: u64,
    /// None while something may change.
    pub quiet: Option<Quiet>,
    /// This cycle, and what it has brought so far.
    now: u64,
    inputs: Inputs,
    is_driven: bool,
    stands_still: bool,
    is_due: bool,
    is_checked: bool,
    /// The cycle in which something in it is due by the time alone.
    named: Option<u64>,
    settled_lawfully: bool,
    /// Firmware was not at its port in the last cycle.
    was_away: bool,
    reading: Option<(u8, u64)>,
    read_monitor: Monitor<ReadPayload>,
    write_monitor: Monitor<WritePayload>,
}

impl Circuit {
    /// A model that has been reset, with this link, this firmware and so many ports.
    pub fn new(name: String, dut: Dut, pcie: PcieModel, firmware: FirmwarePort, ports: u8) -> Self {
        let cycle_ps = 1_000_000 / u64::from(pcie.params().clock_mhz.max(1));
        let mut circuit = Self {
            name,
            dut,
            pcie,
            firmware,
            wires: (0..usize::from(ports)).map(Wire::new).collect(),
            stamps: Stamps::default(),
            waveform: Waveform::default(),
            evaluated_cycles: 0,
            page_list_reads: 0,
            violations: Vec::new(),
            stop_on_violation: true,
            cycle_ps,
            quiet: None,
            now: 0,
            inputs: Inputs::default(),
            is_driven: false,
            stands_still: false,
            is_due: false,
            is_checked: false,
            named: None,
            settled_lawfully: true,
            was_away: true,
            reading: None,
            read_monitor: Monitor::default(),
            write_monitor: Monitor::default(),
        };
        circuit.dut.ports().num_ports_i.set(ports);
        // Nobody drives the stream of a port that is not there.
        circuit.dut.ports().mac1_tx_ready_i.set(1);
        for _ in 0..RESET_CYCLES {
            circuit.dut.ports().rst_i.set(1);
            circuit.tick();
        }
        circuit.dut.ports().rst_i.set(0);
        circuit
    }

    /// A clock period without a look at the ports: reset.
    fn tick(&mut self) {
        self.dut.ports().now_i.set(0);
        for clk in [0, 1] {
            self.dut.ports().clk_i.set(clk);
            self.dut.eval();
        }
    }

    /// Begins a cycle. `checked`: the model is evaluated even where that would change nothing, and it is a violation if
    /// something changes.
    pub fn begin(&mut self, now: u64, cables: &mut [Cable], checked: bool) {
        self.now = now;
        for wire in &mut self.wires {
            wire.begin(now, cables);
        }
        // What is surely due is driven by whoever evaluates it.
        self.is_driven = self.quiet.is_some();
        if self.is_driven {
            self.drive();
        }
        let quiet = self.quiet.as_ref();
        self.stands_still = quiet.is_some_and(|quiet| quiet.holds(now, &self.inputs));
        self.is_checked = checked;
        self.is_due = checked || !self.stands_still;
        if !self.is_due {
            self.firmware.compute(now, self.dut.ports());
        }
    }

    /// The model has to be evaluated in this cycle.
    pub fn is_due(&self) -> bool {
        self.is_due
    }

    /// Runs the cycle.
    pub fn run(&mut self) {
        self.settle();
        self.clock();
    }

    /// Its first half: what follows from registers and inputs.
    pub fn settle(&mut self) {
        if !self.is_driven {
            self.drive();
        }
        self.dut.eval();
        self.evaluated_cycles += 1;
        self.settled_lawfully = self.dut.is_lawful();
        let now = self.now;
        self.waveform.record(&mut self.dut, now, now * self.cycle_ps);
        self.sample_mmio();
        self.sample_host();
        self.sample_wires();
        self.firmware.sample(now, self.dut.ports());
    }

    /// Its second half: the registers take over. Whether anything is going to happen is not known yet where the
    /// firmware is to go on.
    pub fn clock(&mut self) {
        // In the cycle that it has named the card names the next one already.
        let named = self.named.into_iter().chain(named_cycle(self.dut.ports()));
        let is_due = named.min().is_some_and(|at| at <= self.now);
        let check = match (self.is_checked, self.stands_still) {
            (false, _) => Check::None,
            (true, false) => Check::Sleeping,
            (true, true) => Check::All,
        };
        // When firmware goes away the card soon has nothing to do: the sooner that is found the less is evaluated.
        let is_away = self.firmware.is_away();
        let may_rest = !std::mem::replace(&mut self.was_away, is_away) && is_away;
        if self.dut.clock(is_due, check, may_rest).is_err() {
            self.violation("a part changed in a cycle in which nothing should move in it".into());
        }
        self.named = named_cycle(self.dut.ports());
        if !self.firmware.wants_program() {
            self.judge();
        }
    }

    /// Ends the cycle.
    pub fn end(&mut self, cables: &mut [Cable]) {
        for index in 0..self.wires.len() {
            if let Err(what) = self.wires[index].end(self.now, cables) {
                self.violation(what);
            }
        }
    }

    /// After the clock edge: is anything going to happen?
    pub fn judge(&mut self) {
        let now = self.now;
        if !(self.dut.is_lawful() && self.settled_lawfully) {
            self.violation("an assertion of the RTL failed (see the message above)".into());
        }
        let middle_ps = now * self.cycle_ps + self.cycle_ps / 2;
        self.waveform.record(&mut self.dut, now, middle_ps);
        if !self.stands_still {
            let firmware_away = self.firmware.is_away();
            self.quiet = Quiet::found(now, &self.dut, self.inputs, firmware_away);
        }
    }

    /// The next cycle in which it has to be looked at; none while it waits for others only. What its links do by
    /// themselves, such as telling credits again, counts `with_links` only.
    pub fn next_event(&self, now: u64, cables: &[Cable], with_links: bool) -> Option<u64> {
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

    /// Gives the model its inputs.
    fn drive(&mut self) {
        let now = self.now;
        self.firmware.drive(now, self.dut.ports());
        self.drive_mmio();
        self.drive_host();
        for wire in &mut self.wires {
            wire.drive(now, self.dut.ports(), &mut self.stamps);
        }
        self.inputs = Inputs::of(self.dut.ports());
        self.dut.ports().now_i.set(now);
        self.dut.ports().clk_i.set(0);
    }

    fn sample_wires(&mut self) {
        for index in 0..self.wires.len() {
            let sampled = self.wires[index].sample(self.now, self.dut.ports(), &mut self.stamps);
            if let Err(what) = sampled {
                self.violation(what);
            }
        }
    }

    fn violation(&mut self, what: String) {
        let text = format!("card {} cycle {}: {what}", self.name, self.now);
        assert!(!self.stop_on_violation, "{text}");
        if self.violations.len() < MAX_VIOLATIONS {
            self.violations.push(text);
        }
    }

    // ---- Registers
    // -------------------------------------------------------------------------------------------------

    fn drive_mmio(&mut self) {
        let now = self.now;
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

    fn sample_mmio(&mut self) {
        let now = self.now;
        let ports = self.dut.ports();
        let taken = (ports.mmio_wr_valid_i.get() & ports.mmio_wr_ready_o.get() != 0)
            || (ports.mmio_rd_valid_i.get() & ports.mmio_rd_ready_o.get() != 0);
        if ports.mmio_rdata_valid_o.get() != 0 {
            match self.reading.take() {
                Some((func, id)) => self.pcie.push_mmio_value(now, func, id, ports.mmio_rdata_o.get()),
                None => return self.violation("register data without a read".into()),
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

    fn drive_host(&mut self) {
        let now = self.now;
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

    fn sample_host(&mut self) {
        let now = self.now;
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
            self.page_list_reads += u64::from(is_of_page_list(tag));
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
            self.violation(what);
        }
    }
}
