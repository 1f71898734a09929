//! Firmware on the card's own processor: the model of the soft core at the card's firmware port, and the board that
//! loads it, prints its console and knows the addresses of its ports.

use std::collections::VecDeque;
use std::mem;

use hca_abi::{
    BoardHead, BoardNeighbour, BoardPort, PortView, SOC_BOARD_BASE, SOC_BOARD_BOOT, SOC_BOARD_BYTES,
    SOC_BOARD_NEIGHBOURS, SOC_BOARD_PORTS, SOC_BOARD_SLOTS, SOC_ROM_BASE, SOC_TELL_CONSOLE, SOC_TELL_GID,
    SOC_TELL_OWN_GID, SOC_TELL_PORT, SOC_TELL_PORT_LAST, SOC_TELL_WANTED, SocFault,
};
use hca_fw_core::{Identity, NUM_GIDS, NUM_NEIGHBOURS, Neighbour, Quotas};
use hca_outside::Host;
use hca_vsim::{Ports, SocInputs, SocOutputs, SoftCore};

use crate::SimError;
use crate::firmware::Views;
use crate::flash::{Flash, Heard};

/// Lines of the console that are kept; the last ones matter.
const MAX_LINES: usize = 64;
/// Bytes of a line.
const MAX_LINE_BYTES: usize = 200;
/// 16 ms: longer than the longest piece of work by far.
const WATCHDOG_CYCLES: u32 = 4_000_000;
/// Cycles in reset after the image is there.
const RESET_CYCLES: usize = 4;

/// What the board of a card knows: the firmware gets it with its image.
pub struct Board {
    head: BoardHead,
    identities: Vec<Identity>,
    /// Neighbours that are known anyway.
    known: Vec<Neighbour>,
    wires: Vec<Wire>,
    flash: Flash,
    /// The boot program chooses and checks the first image, too, in its own time.
    checks_first: bool,
}

/// What the firmware and a wire to the outside know of each other.
struct Wire {
    port_num: u8,
    mac: [u8; 6],
    neighbours: hca_outside::Neighbours,
    /// Of the list that the board has.
    version: u64,
    gids: [[u8; 16]; NUM_GIDS],
}

impl Board {
    /// Of a card with these ports, whose functions have these quotas; who is on its networks, and its wires to the
    /// outside.
    pub(crate) fn new(
        identities: &[Identity],
        quotas: Quotas,
        neighbours: &[Neighbour],
        wires: Vec<(u8, hca_outside::Neighbours)>,
    ) -> Self {
        let mut head = BoardHead::new();
        head.set_quotas(quotas.to_nibbles());
        head.set_ports(identities.len() as u8);
        head.set_watchdog_cycles(WATCHDOG_CYCLES);
        let wire = |(port_num, neighbours): (u8, _)| Wire {
            port_num,
            mac: identities
                .get(usize::from(port_num).wrapping_sub(1))
                .map_or([0; 6], |identity| identity.mac),
            neighbours,
            version: 0,
            gids: [[0; 16]; NUM_GIDS],
        };
        let wires: Vec<_> = wires.into_iter().map(wire).collect();
        head.set_asks(wires.iter().fold(0, |asks, wire| asks | 1 << (wire.port_num - 1)));
        Self {
            head,
            identities: identities.to_vec(),
            known: neighbours.to_vec(),
            wires,
            flash: Flash::new(hca_image::IMAGE, hca_fw_core::HARDWARE, hca_image::PUBLIC_KEY),
            checks_first: false,
        }
    }

    /// It comes up with what another board has kept without power, by the boot program.
    pub(crate) fn set_flash(&mut self, flash: &Flash) {
        self.flash = flash.without_power();
        self.checks_first = true;
    }

    /// Its memory from SOC_BOARD_BASE on, as far as it is used.
    fn memory(&self) -> Vec<u8> {
        let mut list = self.known.clone();
        for wire in &self.wires {
            let learnt = wire.neighbours.list().into_iter();
            let port_num = wire.port_num;
            list.extend(learnt.map(|(gid, mac)| Neighbour { port_num, gid, mac }));
        }
        list.truncate(NUM_NEIGHBOURS);
        let mut head = self.head;
        head.set_neighbours(list.len() as u16);
        let mut memory = head.as_bytes().to_vec();
        for (index, identity) in self.identities.iter().enumerate() {
            memory.resize(SOC_BOARD_PORTS as usize + index * size_of::<BoardPort>(), 0);
            memory.extend(port(identity).as_bytes());
        }
        memory.resize(SOC_BOARD_BOOT as usize, 0);
        memory.extend(self.flash.boot().as_bytes());
        memory.resize(SOC_BOARD_SLOTS as usize, 0);
        for slot in self.flash.slots() {
            memory.extend(slot.as_bytes());
        }
        memory.resize(SOC_BOARD_NEIGHBOURS as usize, 0);
        for neighbour in list {
            let mut entry = BoardNeighbour::new();
            entry.set_port_num(neighbour.port_num);
            entry.set_gid(neighbour.gid);
            entry.set_mac(neighbour.mac);
            memory.extend(entry.as_bytes());
        }
        memory
    }

    /// Wires have learnt something since the last call.
    fn has_news(&mut self) -> bool {
        self.wires.iter_mut().fold(false, |news, wire| {
            let version = wire.neighbours.version();
            news | (mem::replace(&mut wire.version, version) != version)
        })
    }

    fn wire(&mut self, port_num: u32) -> Option<&mut Wire> {
        self.wires
            .iter_mut()
            .find(|wire| u32::from(wire.port_num) == port_num)
    }
}

fn port(identity: &Identity) -> BoardPort {
    let mut port = BoardPort::new();
    port.set_guid(identity.guid);
    port.set_mac(identity.mac);
    port.set_lid(identity.lid);
    port.set_ipv4(identity.ipv4);
    port.set_ipv6(identity.ipv6);
    port.set_infiniband(identity.infiniband);
    port.set_self_active(identity.self_active);
    port.set_peer_vls(identity.peer_vls as u8);
    port.set_rate_mbps(identity.rate_mbps);
    port
}

/// What a card's own processor has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProcessorCounters {
    /// Cycles in which it did not sleep.
    pub awake_cycles: u64,
    /// Restarts by the watchdog.
    pub restarts: u32,
    /// Words that the journal of its data has held at most.
    pub journal_words: u32,
}

/// The soft core and its board.
pub(crate) struct CoreFirmware {
    name: String,
    soc: SoftCore,
    outputs: SocOutputs,
    board: Board,
    /// Words that the board is writing: address in words, value.
    loads: VecDeque<(u32, u32)>,
    /// They are written, and the firmware does not know yet.
    is_changed: bool,
    line: String,
    lines: VecDeque<String>,
    gid: [u8; 16],
    /// The port that it tells of, and what it has told.
    view: PortView,
    views: Views,
    /// An access is at the port and not answered.
    is_waiting: bool,
    accesses: u64,
    awake_cycles: u64,
}

impl CoreFirmware {
    /// In reset, with its image loaded. `registers` decides what it holds otherwise.
    pub fn new(name: &str, mut board: Board, registers: u64) -> Result<Self, SimError> {
        if hca_image::IMAGE.is_empty() {
            return Err(SimError::NoImage(name.to_owned()));
        }
        let preload = if board.checks_first {
            None
        } else {
            board.flash.preload()
        };
        let image = preload.map(<[u8]>::to_vec).unwrap_or_default();
        let memory = board.memory();
        let limit = (SOC_BOARD_BYTES - SOC_BOARD_NEIGHBOURS) as usize / size_of::<BoardNeighbour>();
        let count = board.known.len();
        if memory.len() > SOC_BOARD_BYTES as usize || count > limit {
            let card = name.to_owned();
            return Err(SimError::BoardFull { card, count, limit });
        }
        let mut soc = SoftCore::new(registers).map_err(|_| SimError::NoRtl(name.to_owned()))?;
        let mut inputs = SocInputs {
            rst: 1,
            fw_req_stall: 1,
            ..SocInputs::default()
        };
        inputs.load_valid = 1;
        for (addr, value) in words(0, &image)
            .chain(words(SOC_BOARD_BASE, &memory))
            .chain(words(SOC_ROM_BASE, hca_image::ROM))
        {
            (inputs.load_addr, inputs.load_data) = (addr, value);
            soc.step(&inputs);
        }
        inputs.load_valid = 0;
        for _ in 0..RESET_CYCLES {
            soc.step(&inputs);
        }
        Ok(Self {
            name: name.to_owned(),
            outputs: *soc.outputs(),
            soc,
            board,
            loads: VecDeque::new(),
            is_changed: false,
            line: String::new(),
            lines: VecDeque::new(),
            gid: [0; 16],
            view: PortView::new(),
            views: Views::default(),
            is_waiting: false,
            accesses: 0,
            awake_cycles: 0,
        })
    }

    pub fn accesses(&self) -> u64 {
        self.accesses
    }

    pub fn counters(&self) -> ProcessorCounters {
        ProcessorCounters {
            awake_cycles: self.awake_cycles,
            restarts: self.outputs.restarts,
            journal_words: self.outputs.journal_most,
        }
    }

    /// From now on firmware is restarted when a turn of its loop takes longer than so many cycles.
    pub fn set_watchdog(&mut self, cycles: u32) {
        self.board.head.set_watchdog_cycles(cycles);
        self.tell_board();
    }

    /// Firmware fails so many cycles after it has heard of this, and again after restarts, so many times in all.
    pub fn set_fault(&mut self, fault: SocFault, cycles: u32, times: u32) {
        self.board.head.set_fault_until(self.outputs.restarts + times);
        self.board.head.set_fault(fault.into());
        self.board.head.set_fault_cycles(cycles);
        self.tell_board();
    }

    pub fn flash(&self) -> &Flash {
        &self.board.flash
    }

    fn tell_board(&mut self) {
        self.loads.extend(words(SOC_BOARD_BASE, &self.board.memory()));
        self.is_changed = true;
    }

    /// What it has said last that a port, from 1, is.
    pub fn view(&self, port_num: u8) -> Option<PortView> {
        self.views.of(port_num)
    }

    pub fn take_lines(&mut self) -> Vec<String> {
        self.lines.drain(..).collect()
    }

    /// Something goes on in it, or the board writes.
    #[inline]
    pub fn is_awake(&self) -> bool {
        self.outputs.sleeps == 0 || self.is_changed || !self.loads.is_empty()
    }

    /// No access is at the card's port, and none is under way in the card.
    #[inline]
    pub fn is_away(&self) -> bool {
        self.outputs.fw_req == 0 && !self.is_waiting
    }

    #[inline]
    fn timer_at(&self) -> Option<u64> {
        (self.outputs.timer_active != 0).then_some(self.outputs.timer_at)
    }

    /// It sleeps until its timer ends.
    pub fn has_timer(&self) -> bool {
        !self.is_awake() && self.timer_at().is_some()
    }

    /// It has something to do in this cycle, whatever the card does.
    #[inline]
    pub fn is_due(&self, now: u64) -> bool {
        self.is_awake() || self.timer_at().is_some_and(|at| at <= now)
    }

    pub fn next_event(&self, now: u64) -> Option<u64> {
        if self.is_awake() {
            return Some(now + 1);
        }
        self.timer_at().map(|at| at.max(now + 1))
    }

    #[inline]
    pub fn drive(&mut self, ports: &Ports) {
        ports.fw_req_i.set(self.outputs.fw_req);
        ports.fw_we_i.set(self.outputs.fw_we);
        ports.fw_addr_i.set(self.outputs.fw_addr);
        ports.fw_wdata_i.set(self.outputs.fw_wdata);
    }

    /// A cycle, after the card's outputs have settled. Nothing happens while it sleeps.
    #[inline]
    pub fn step(&mut self, now: u64, ports: &Ports) {
        let irq = ports.fw_irq_o.get();
        if irq == 0 && !self.is_due(now) {
            return;
        }
        if self.outputs.sleeps != 0 && self.board.has_news() {
            self.tell_board();
        }
        let (read, write) = (ports.fw_rd_ack_o.get(), ports.fw_wr_ack_o.get());
        let stall = ports.fw_req_stall_o.get();
        self.is_waiting |= self.outputs.fw_req != 0 && stall == 0;
        if read | write != 0 {
            self.accesses += 1;
            self.is_waiting = false;
        }
        let load = self.loads.pop_front();
        let (load_addr, load_data) = load.unwrap_or_default();
        let board_event = load.is_none() && mem::take(&mut self.is_changed);
        self.awake_cycles += 1;
        self.outputs = *self.soc.step(&SocInputs {
            now,
            fw_rdata: ports.fw_rdata_o.get(),
            load_addr,
            load_data,
            rst: 0,
            fw_req_stall: stall,
            fw_rd_ack: read,
            fw_wr_ack: write,
            fw_irq: irq,
            load_valid: load.is_some().into(),
            board_event: board_event.into(),
        });
        if self.outputs.tell_valid != 0 {
            self.hear(self.outputs.tell_addr, self.outputs.tell_data);
        }
    }

    /// A word for the board.
    fn hear(&mut self, addr: u32, word: u32) {
        match addr {
            SOC_TELL_CONSOLE => self.print(word as u8),
            SOC_TELL_PORT..=SOC_TELL_PORT_LAST => self.hear_view(addr, word),
            SOC_TELL_WANTED => {
                if let Some(wire) = self.board.wire(word) {
                    wire.neighbours.want(self.gid);
                }
            }
            SOC_TELL_OWN_GID => {
                let gid = self.gid;
                let wire = self.board.wire(word >> 16);
                if let Some(wire) = wire
                    && let Some(own) = wire.gids.get_mut((word & 0xffff) as usize)
                {
                    *own = gid;
                    wire.neighbours.set_host(Host::of_gids(wire.mac, &wire.gids));
                }
            }
            _ => match self.board.flash.hear(addr, word) {
                Heard::Nothing => self.hear_gid(addr, word),
                Heard::Word => {}
                Heard::Changed => self.tell_board(),
                Heard::Load(image) => {
                    self.loads.extend(words(0, &image));
                    self.tell_board();
                }
            },
        }
    }

    /// A word of what a port is.
    fn hear_view(&mut self, addr: u32, word: u32) {
        let at = (addr - SOC_TELL_PORT) as usize & !3;
        if let Some(bytes) = self.view.0.get_mut(at..at + 4) {
            bytes.copy_from_slice(&word.to_le_bytes());
        }
        if addr == SOC_TELL_PORT_LAST {
            self.views.keep(self.view);
        }
    }

    /// A word of a GID.
    fn hear_gid(&mut self, addr: u32, word: u32) {
        let at = addr.wrapping_sub(SOC_TELL_GID) as usize;
        if let Some(bytes) = self.gid.get_mut(at..at.saturating_add(4)) {
            bytes.copy_from_slice(&word.to_le_bytes());
        }
    }

    fn print(&mut self, byte: u8) {
        if byte != b'\n' && self.line.len() < MAX_LINE_BYTES {
            let is_plain = byte == b' ' || byte.is_ascii_graphic();
            self.line.push(if is_plain { byte.into() } else { '?' });
            return;
        }
        if self.lines.len() == MAX_LINES {
            self.lines.pop_front();
        }
        let line = mem::take(&mut self.line);
        eprintln!("firmware of {}: {line}", self.name);
        self.lines.push_back(line);
    }
}

/// Words of the processor's memory.
fn words(base: u32, bytes: &[u8]) -> impl Iterator<Item = (u32, u32)> {
    bytes.chunks(4).enumerate().map(move |(index, chunk)| {
        let mut word = [0; 4];
        word[..chunk.len()].copy_from_slice(chunk);
        (base / 4 + index as u32, u32::from_le_bytes(word))
    })
}
