//! Firmware beside the card: ordinary Rust in a coroutine, each of whose bus accesses takes simulated time.

use corosensei::stack::DefaultStack;
use corosensei::{Coroutine, CoroutineResult, Yielder};
use hca_abi::PortView;
use hca_fw_core::{Bus, Firmware, Identity, Neighbour, Quotas, RegisterBus};
use hca_outside::Host;
use hca_vsim::Ports;

use crate::core_firmware::CoreFirmware;
use crate::design::Design;
use crate::{NUM_PORTS, SimError};

const STACK_BYTES: usize = 4 << 20;
/// Cycles that the program thinks at a time, behind several accesses: meanwhile the card may stand still, and need not
/// be evaluated.
const THINK_AT_ONCE: u64 = 64;

/// What the firmware wants from the simulator.
enum Ask {
    /// So many words from an address on.
    Read(u32, usize),
    /// A word that was read last, without time.
    Word(usize),
    Write(u32, u32),
    /// The interrupt, or the end of so many cycles.
    Irq(Option<u64>),
    /// The end of so many cycles.
    Pause(u32),
    /// Nothing: a port is this now.
    Show(PortView),
}

/// The program: runs for the life of the card.
pub type FirmwareEntry = Box<dyn FnOnce(&mut FwBus<'_>)>;

/// The card's firmware, compiled for this machine; an identity for each port, how many functions share its tables, and
/// who is on its networks.
pub fn native_firmware(identities: &[Identity], functions: u8, neighbours: &[Neighbour]) -> FirmwareEntry {
    let quotas = Quotas::from(functions);
    firmware_with_wires(identities, quotas, neighbours, Vec::new(), None, Design::Rtl)
}

/// Lines that the QPs of a function share, as `HCA_SHARED_LINES` says; without it each QP has its own.
pub(crate) fn shared_lines() -> Option<u32> {
    std::env::var("HCA_SHARED_LINES").ok()?.parse().ok()
}

/// The same with ports, from 1, that have wires to the outside: who is there is asked for. The QPs of a function share
/// `lines` lines.
pub(crate) fn firmware_with_wires(
    identities: &[Identity],
    quotas: Quotas,
    neighbours: &[Neighbour],
    wires: Vec<(u8, hca_outside::Neighbours)>,
    lines: Option<u32>,
    design: Design,
) -> FirmwareEntry {
    let (identities, neighbours) = (identities.to_vec(), neighbours.to_vec());
    Box::new(move |bus| {
        let mut firmware = Firmware::boxed_for(quotas);
        if let Some(lines) = lines {
            firmware.share_lines(lines);
        }
        if design == Design::Model {
            firmware.set_transport_alone();
        }
        firmware.set_neighbours(&neighbours);
        firmware.init_ports(bus, &identities);
        let mut wires: Vec<_> = wires
            .into_iter()
            .map(|(port_num, neighbours)| {
                let identity = identities.get(usize::from(port_num).wrapping_sub(1));
                firmware.set_asks(port_num, true);
                PortWire {
                    port_num,
                    mac: identity.map_or([0; 6], |identity| identity.mac),
                    neighbours,
                    version: 0,
                    gids: Vec::new(),
                }
            })
            .collect();
        loop {
            PortWire::before_poll(&mut wires, &mut firmware, &neighbours);
            let worked = firmware.poll(bus);
            PortWire::after_poll(&mut wires, &mut firmware);
            if !worked {
                let wakes_in = firmware.wakes_in(bus);
                bus.wait_irq(wakes_in);
            }
        }
    })
}

/// What the firmware and a wire to the outside know of each other.
struct PortWire {
    port_num: u8,
    mac: [u8; 6],
    neighbours: hca_outside::Neighbours,
    /// Of the list that the firmware has.
    version: u64,
    /// The addresses that the wire answers for.
    gids: Vec<[u8; 16]>,
}

impl PortWire {
    /// Tells the firmware who is there, beside those that are `known` anyway.
    fn before_poll(wires: &mut [Self], firmware: &mut Firmware, known: &[Neighbour]) {
        let mut changed = false;
        for wire in &mut *wires {
            let version = wire.neighbours.version();
            changed |= std::mem::replace(&mut wire.version, version) != version;
        }
        if !changed {
            return;
        }
        let mut list = known.to_vec();
        for wire in wires {
            let port_num = wire.port_num;
            let learnt = wire.neighbours.list().into_iter();
            list.extend(learnt.map(|(gid, mac)| Neighbour { port_num, gid, mac }));
        }
        firmware.set_neighbours(&list);
    }

    /// Asks for whom the firmware needs, and tells the wires of new addresses.
    fn after_poll(wires: &mut [Self], firmware: &mut Firmware) {
        let wanted = if wires.is_empty() {
            None
        } else {
            firmware.take_wanted()
        };
        for wire in wires {
            if let Some((_, gid)) = wanted.filter(|(port_num, _)| *port_num == wire.port_num) {
                wire.neighbours.want(gid);
            }
            let gids = firmware.gids(wire.port_num);
            if wire.gids != gids {
                wire.gids = gids.to_vec();
                wire.neighbours.set_host(Host::of_gids(wire.mac, gids));
            }
        }
    }
}

/// The firmware's view of the hardware.
pub struct FwBus<'a> {
    yielder: &'a Yielder<u32, Ask>,
    /// So far.
    accesses: u32,
}

impl FwBus<'_> {
    /// Sleeps until the hardware has an event, or so many cycles.
    pub fn wait_irq(&mut self, cycles: Option<u64>) {
        self.yielder.suspend(Ask::Irq(cycles));
    }
}

impl Bus for FwBus<'_> {
    fn show_port(&mut self, view: &PortView) {
        self.yielder.suspend(Ask::Show(*view));
    }

    fn cycles(&mut self) -> u32 {
        self.accesses
    }

    fn read_run(&mut self, addr: u32, out: &mut [u8]) {
        let words = out.as_chunks_mut().0;
        if words.is_empty() {
            return;
        }
        self.accesses = self.accesses.wrapping_add(words.len() as u32);
        self.yielder.suspend(Ask::Read(addr, words.len()));
        for (index, word) in words.iter_mut().enumerate() {
            *word = self.yielder.suspend(Ask::Word(index)).to_le_bytes();
        }
    }
}

impl RegisterBus for FwBus<'_> {
    fn read32(&mut self, addr: u32) -> u32 {
        self.accesses = self.accesses.wrapping_add(1);
        self.yielder.suspend(Ask::Read(addr, 1))
    }

    fn write32(&mut self, addr: u32, value: u32) {
        self.accesses = self.accesses.wrapping_add(1);
        self.yielder.suspend(Ask::Write(addr, value));
    }

    fn pause(&mut self, cycles: u32) {
        if cycles > 0 {
            self.yielder.suspend(Ask::Pause(cycles));
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    /// The program goes on in this cycle, with this value.
    Computing(u32),
    /// It computes until this cycle, then its access goes out.
    Thinking(u64),
    /// The access stands at the port: the next one, where words are read that follow each other.
    Requesting,
    /// All taken, not all answered yet.
    Waiting,
    /// Lets the card work until this cycle.
    Pausing(u64),
    /// Sleeps until the interrupt line is up, or until this cycle.
    Sleeping(Option<u64>),
    /// The program has returned.
    Ended,
}

/// The program as a coroutine. It never leaves the thread that made it.
pub(crate) struct Program {
    coroutine: Coroutine<u32, Ask, ()>,
    think_cycles: u64,
    /// It has to think for so long yet.
    owed_cycles: u64,
}

impl Program {
    pub fn new(entry: FirmwareEntry, think_cycles: u64) -> Result<Self, SimError> {
        let stack = DefaultStack::new(STACK_BYTES).map_err(|reason| SimError::Os {
            what: "cannot allocate the firmware's stack".into(),
            reason,
        })?;
        let coroutine = Coroutine::with_stack(stack, move |yielder: &Yielder<u32, Ask>, _: u32| {
            entry(&mut FwBus { yielder, accesses: 0 });
        });
        Ok(Self {
            coroutine,
            think_cycles,
            owed_cycles: 0,
        })
    }

    /// Goes on where the port says so, to its next access, which goes to the port at once, or after the time it takes
    /// to think of several.
    #[inline]
    pub fn go_on(&mut self, now: u64, port: &mut FirmwarePort) {
        let FirmwarePort::Program(port) = port else {
            return;
        };
        if let State::Sleeping(Some(until)) | State::Pausing(until) = port.state
            && until <= now
        {
            port.state = State::Computing(0);
        }
        let State::Computing(value) = port.state else {
            return;
        };
        let mut asked = self.coroutine.resume(value);
        loop {
            let answer = match asked {
                CoroutineResult::Yield(Ask::Show(view)) => {
                    port.views.keep(view);
                    0
                }
                CoroutineResult::Yield(Ask::Word(index)) => port.words.get(index).copied().unwrap_or(0),
                _ => break,
            };
            asked = self.coroutine.resume(answer);
        }
        let mut accesses = 1;
        port.access = match asked {
            CoroutineResult::Yield(Ask::Read(addr, words)) => {
                port.words.clear();
                (port.left, port.asked, accesses) = (words, words, words as u64);
                (0, addr, 0)
            }
            CoroutineResult::Yield(Ask::Write(addr, value)) => (1, addr, value),
            CoroutineResult::Yield(Ask::Irq(cycles)) => {
                // The rest it thinks while nobody waits for it.
                self.owed_cycles = 0;
                return port.state = State::Sleeping(cycles.map(|cycles| now + cycles));
            }
            CoroutineResult::Yield(Ask::Show(_) | Ask::Word(_)) => return,
            CoroutineResult::Yield(Ask::Pause(cycles)) => {
                return port.state = State::Pausing(now + u64::from(cycles));
            }
            CoroutineResult::Return(()) => return port.state = State::Ended,
        };
        self.owed_cycles += self.think_cycles * accesses;
        let thinks = if self.owed_cycles < THINK_AT_ONCE {
            0
        } else {
            std::mem::take(&mut self.owed_cycles)
        };
        port.state = State::Thinking(now + 1 + thinks);
    }
}

/// The firmware port of a card, and who is there.
pub(crate) enum FirmwarePort {
    /// A program of this machine, which the card's own thread runs.
    Program(ProgramPort),
    /// The card's processor.
    Core(Box<CoreFirmware>),
}

impl FirmwarePort {
    /// Bus accesses so far.
    pub fn accesses(&self) -> u64 {
        match self {
            Self::Program(port) => port.accesses,
            Self::Core(core) => core.accesses(),
        }
    }

    /// What it has said last that a port, from 1, is.
    pub fn view(&self, port_num: u8) -> Option<PortView> {
        match self {
            Self::Program(port) => port.views.of(port_num),
            Self::Core(core) => core.view(port_num),
        }
    }

    /// It does nothing until the card or the time wakes it.
    #[inline]
    pub fn is_idle(&self) -> bool {
        match self {
            Self::Program(port) => port.is_idle(),
            Self::Core(core) => !core.is_awake(),
        }
    }

    /// It will do something though nothing happens.
    pub fn has_timer(&self) -> bool {
        match self {
            Self::Program(port) => port.has_timer(),
            Self::Core(core) => core.has_timer(),
        }
    }

    /// Nothing of it is under way at the card's port. A processor may compute meanwhile.
    #[inline]
    pub fn is_away(&self) -> bool {
        match self {
            Self::Program(port) => {
                port.is_idle() || matches!(port.state, State::Thinking(_) | State::Pausing(_))
            }
            Self::Core(core) => core.is_away(),
        }
    }

    /// The program is to go on before this cycle ends.
    #[inline]
    pub fn wants_program(&self) -> bool {
        matches!(self, Self::Program(port) if matches!(port.state, State::Computing(_)))
    }

    /// The next cycle in which it does something by itself.
    pub fn next_event(&self, now: u64) -> Option<u64> {
        match self {
            Self::Program(port) => port.next_event(now),
            Self::Core(core) => core.next_event(now),
        }
    }

    /// Before the first evaluation of a cycle.
    #[inline]
    pub fn drive(&mut self, now: u64, ports: &Ports) {
        match self {
            Self::Program(port) => port.drive(now, ports),
            Self::Core(core) => core.drive(ports),
        }
    }

    /// After it: the outputs are settled.
    #[inline]
    pub fn sample(&mut self, now: u64, ports: &Ports) {
        match self {
            Self::Program(port) => port.sample(ports),
            Self::Core(core) => core.step(now, ports),
        }
    }

    /// A cycle in which the card stands still.
    #[inline]
    pub fn compute(&mut self, now: u64, ports: &Ports) {
        if let Self::Core(core) = self
            && core.is_due(now)
        {
            core.step(now, ports);
        }
    }
}

/// What a board has been told of the ports of its card.
#[derive(Default)]
pub(crate) struct Views([Option<PortView>; NUM_PORTS as usize]);

impl Views {
    /// Keeps what a port is now.
    pub fn keep(&mut self, view: PortView) {
        if let Some(kept) = self.0.get_mut(usize::from(view.port_num()).wrapping_sub(1)) {
            *kept = Some(view);
        }
    }

    /// Of a port, from 1.
    pub fn of(&self, port_num: u8) -> Option<PortView> {
        *self.0.get(usize::from(port_num).wrapping_sub(1))?
    }
}

/// What a program waits for at the firmware port of a card.
pub(crate) struct ProgramPort {
    state: State,
    views: Views,
    /// The access under way: write enable, address, data.
    access: (u8, u32, u32),
    /// Words of a read: all, those to be asked for yet, and what has come.
    asked: usize,
    left: usize,
    words: Vec<u32>,
    accesses: u64,
}

impl ProgramPort {
    /// Of a program that has not begun.
    pub fn new() -> Self {
        Self {
            state: State::Computing(0),
            views: Views::default(),
            access: (0, 0, 0),
            asked: 0,
            left: 0,
            words: Vec::new(),
            accesses: 0,
        }
    }

    /// What the program wants of a card that answers at once: a write, where, and what. It waits for nothing else.
    pub fn asked(&self) -> Option<(bool, u32, u32)> {
        let (writes, addr, data) = self.access;
        matches!(self.state, State::Thinking(_)).then_some((writes != 0, addr & 0xf_ffff, data))
    }

    /// It has it. Where words are read that follow each other it wants the next one then.
    pub fn answer(&mut self, value: u32) {
        self.accesses += 1;
        if self.access.0 != 0 {
            self.state = State::Computing(0);
            return;
        }
        self.words.push(value);
        self.access.1 += 4;
        self.left -= 1;
        if self.left == 0 {
            self.state = State::Computing(value);
        }
    }

    /// What it lets the card work on is done already. False: it does not.
    pub fn skip_pause(&mut self) -> bool {
        let pauses = matches!(self.state, State::Pausing(_));
        if pauses {
            self.state = State::Computing(0);
        }
        pauses
    }

    /// The interrupt line is up.
    pub fn wake(&mut self) {
        if let State::Sleeping(_) = self.state {
            self.state = State::Computing(0);
        }
    }

    /// Nothing under way.
    #[inline]
    fn is_idle(&self) -> bool {
        matches!(self.state, State::Sleeping(_) | State::Ended)
    }

    fn has_timer(&self) -> bool {
        matches!(self.state, State::Sleeping(Some(_)))
    }

    /// The next cycle in which it does something by itself.
    fn next_event(&self, now: u64) -> Option<u64> {
        match self.state {
            State::Sleeping(until) => until,
            State::Ended => None,
            State::Thinking(until) | State::Pausing(until) => Some(until),
            State::Computing(_) | State::Requesting | State::Waiting => Some(now + 1),
        }
    }

    /// Before the first evaluation of a cycle.
    #[inline]
    fn drive(&mut self, now: u64, ports: &Ports) {
        if let State::Thinking(until) = self.state
            && until <= now
        {
            self.state = State::Requesting;
            ports.fw_we_i.set(self.access.0);
            ports.fw_wdata_i.set(self.access.2);
        }
        if self.state == State::Requesting {
            ports.fw_addr_i.set(self.access.1 & 0xf_ffff);
        }
        ports.fw_req_i.set(u8::from(self.state == State::Requesting));
    }

    /// After it: the outputs are settled.
    #[inline]
    fn sample(&mut self, ports: &Ports) {
        match self.state {
            State::Requesting => {
                self.sample_word(ports);
                if ports.fw_req_stall_o.get() == 0 {
                    self.accesses += 1;
                    self.taken();
                }
            }
            State::Waiting => {
                self.sample_word(ports);
                // Each that was asked for has been taken.
                if self.words.len() == self.asked {
                    self.state = State::Computing(self.words.last().copied().unwrap_or(0));
                }
            }
            State::Sleeping(_) if ports.fw_irq_o.get() != 0 => self.state = State::Computing(0),
            _ => {}
        }
    }

    /// The card has taken an access.
    fn taken(&mut self) {
        if self.access.0 != 0 {
            // Posted: what follows meets it done, for the card does one access after the other.
            self.state = State::Computing(0);
            return;
        }
        self.left -= 1;
        self.access.1 += 4;
        if self.left == 0 {
            self.state = State::Waiting;
        }
    }

    fn sample_word(&mut self, ports: &Ports) {
        if ports.fw_rd_ack_o.get() != 0 {
            self.words.push(ports.fw_rdata_o.get());
        }
    }
}
