//! Control plane of the card: admin queue, QP state machine, memory registration, error handling.
//!
//! `no_std`, no heap, no interrupts: one loop calls [`Firmware::poll`], which does a bounded piece of work, for the
//! functions in turn. Everything it knows of the hardware is behind [`Bus`], 32-bit accesses to the register map of
//! `abi/regs`. The same crate runs natively inside the simulator and on the soft core (decision D9).
//!
//! It must not know about hosts, simulators or packets: RTL owns every packet (D8).
//!
//! ```
//! use hca_fw_core::{Bus, Firmware, RegisterBus};
//! struct NoEvents;
//! impl RegisterBus for NoEvents {
//!     fn read32(&mut self, _addr: u32) -> u32 { 0 }
//!     fn write32(&mut self, _addr: u32, _value: u32) {}
//! }
//! impl Bus for NoEvents {}
//! let mut fw = Firmware::boxed();
//! assert!(!fw.poll(&mut NoEvents)); // no event: nothing to do
//! ```
//! Tests: beside each module, and `tests/` against a card with nothing around it (`hca-lone`).
#![no_std]
#![forbid(unsafe_code)]

#[cfg(feature = "std")]
extern crate std;

mod admin;
mod congestion;
mod context_memory;
mod counters;
mod device;
mod device_memory;
mod events;
mod features;
mod fetch;
mod groups;
mod hal;
mod held;
mod image;
mod lines;
mod link;
mod lldp;
mod memory;
mod merge;
mod migrate;
mod neighbours;
mod objects;
mod patience;
mod pool;
mod port;
mod priorities;
mod probe;
mod qp;
mod qpc;
mod quotas;
mod rate;
mod record;
mod restart;
mod ring;
mod rss;
mod rules;
mod sma;
mod srq;
mod table;
mod transition;
mod turns;
mod update;
mod xrc;

pub use features::FEATURES;
pub use image::Image;
pub use migrate::{path_asked_cause, place_of_gids};
pub use neighbours::{FindNeighbour, NUM_NEIGHBOURS, Neighbour};
pub use port::{
    DEFAULT_PKEY, NUM_GIDS, NUM_PKEYS, PHYS_LINK_UP, PHYS_POLLING, port_cap_flags, width_and_speed,
};
pub use quotas::{MAX_PARTS, Quotas};
pub use transition::{Attr, Refusal, Rule, check, rule_of};
pub use update::Flash;

use admin::Answer;
use device_memory::DeviceMemory;
use groups::Groups;
use hal::{Hal, Shadow};
use hca_abi::{AdminStatus, OpVls, PortView, Qpc};
use lines::Lines;
use memory::Keys;
use neighbours::Neighbours;
use objects::{CqRec, EqRec};
use pool::IdPool;
use port::Port;
use rate::RateGroups;
use record::QpRec;
use rss::Spreads;
use rules::Rules;
use srq::{LastWqes, SrqRec};
use table::Table;
use turns::Func;

pub use hca_regs::RegisterBus;

/// 32-bit access to the card's firmware register map, and what the processor does that firmware runs on.
pub trait Bus: RegisterBus {
    /// Firmware takes time of its own here: [`Bus::cycles`] tells it, and between two accesses something can be done.
    const HAS_CLOCK: bool = false;

    /// Reads words that follow each other, a multiple of 4 bytes. A bus need not have one before it asks for the next.
    fn read_run(&mut self, addr: u32, out: &mut [u8]) {
        for (at, word) in (addr..).step_by(4).zip(out.as_chunks_mut().0) {
            *word = self.read32(at).to_le_bytes();
        }
    }

    /// What firmware keeps is whole: after a restart it goes on from here. Where nothing restarts it this does nothing.
    fn commit(&mut self) {}

    /// The clock in cycles; of a bus without one the accesses so far, whose time is all that passes.
    fn cycles(&mut self) -> u32 {
        0
    }

    /// Where images of the firmware are kept; none: firmware is a part of something else.
    fn flash(&mut self) -> Option<&mut dyn Flash> {
        None
    }

    /// Tells the board what a port is now. Where nobody looks this does nothing.
    fn show_port(&mut self, _view: &PortView) {}
}

/// Version of the firmware: major, minor, patch.
pub const VERSION: [u16; 3] = [0, 1, 0];
/// Version of the hardware.
pub const HARDWARE_VERSION: u32 = 1;
/// What an image of this firmware is for (image_head.hardware): hardware, what it is built without, the lines of its
/// tables.
pub const HARDWARE: u32 =
    HARDWARE_VERSION << 24 | ((hca_abi::feature::ALL & !FEATURES) as u32) << 8 | QPN_LINE_BITS;
/// QPs of the card: the lines of its tables. `HCA_VSIM_LINES`, when this is compiled, says how many: 1024, which is the
/// default, 4096 or 16384.
pub const NUM_QPS: usize = lines(option_env!("HCA_VSIM_LINES"));

const fn lines(named: Option<&str>) -> usize {
    let Some(text) = named else { return 1024 };
    match text.as_bytes() {
        b"1024" => 1024,
        b"4096" => 4096,
        b"16384" => 16384,
        _ => panic!("HCA_VSIM_LINES is 1024, 4096 or 16384"),
    }
}

/// QPs that the firmware has records of, those without a line included. `HCA_VSIM_QPS`, when this is compiled, says how
/// many: a multiple of the lines, which is a power of two; without it, and on the soft core, which shares no lines,
/// there are as many as lines.
pub const NUM_CONTEXTS: usize = if cfg!(feature = "std") {
    contexts(option_env!("HCA_VSIM_QPS"))
} else {
    NUM_QPS
};

const fn contexts(named: Option<&str>) -> usize {
    let Some(text) = named else { return NUM_QPS };
    let (digits, mut at, mut value) = (text.as_bytes(), 0, 0);
    while at < digits.len() {
        assert!(digits[at].is_ascii_digit(), "HCA_VSIM_QPS is a number");
        value = 10 * value + (digits[at] - b'0') as usize;
        at += 1;
    }
    assert!(
        value.is_power_of_two() && value >= NUM_QPS && value <= 1 << 20,
        "HCA_VSIM_QPS is a power of two, from the number of lines to 1048576"
    );
    value
}

/// Low bits of a QPN: the line, a place in the card's tables. The others are a generation, which counts the QPs that
/// have had the line.
pub const QPN_LINE_BITS: u32 = NUM_QPS.trailing_zeros();

/// The line of a QPN.
pub const fn line_of(qpn: u32) -> u32 {
    qpn & ((1 << QPN_LINE_BITS) - 1)
}

/// CQs of the card.
pub const NUM_CQS: usize = if NUM_QPS < 4096 { NUM_QPS } else { 4096 };
/// Shared receive queues of the card.
pub const NUM_SRQS: usize = 128;
/// Functions of the card. `HCA_VSIM_FUNCS`, when this is compiled, says how many: 1, 4 or as many as the register map
/// has room for, which is the default (decision 0078).
pub const NUM_FUNCS: usize = functions(option_env!("HCA_VSIM_FUNCS"));

const fn functions(named: Option<&str>) -> usize {
    const { assert!(hca_abi::FUNCS == hca_regs::FUNC_COUNT && hca_abi::FUNCS == hca_regs::MGMT_FN_COUNT) }
    let Some(text) = named else {
        return hca_abi::FUNCS as usize;
    };
    match text.as_bytes() {
        b"1" => 1,
        b"4" => 4,
        b"16" => 16,
        _ => panic!("HCA_VSIM_FUNCS is 1, 4 or 16"),
    }
}

/// Functions among which the tables are divided where nobody says anything else: the first ones. The others have
/// registers and an admin queue, and no objects.
pub const SHARING_FUNCS: u8 = if NUM_FUNCS < 4 { NUM_FUNCS as u8 } else { 4 };
/// Event queues of the card.
pub const NUM_EQS: usize = if NUM_FUNCS > 4 { 8 * NUM_FUNCS } else { 32 };
/// Ports that a card can have.
pub const NUM_PORTS: usize = 2;
/// Protection domains of the card.
pub const NUM_PDS: usize = 1024;
/// XRC domains of the card.
pub const NUM_XRCDS: usize = 256;

/// Result of a command: `Err` carries the status and the number of the argument or object it is about.
pub(crate) type CmdResult<T = ()> = Result<T, (AdminStatus, u32)>;

/// The firmware of a card. In this order, see [`Control`].
#[repr(C)]
pub struct Firmware {
    /// Where firmware takes time of its own: cycle of the clock before which no timer is looked at.
    timers_at: u32,
    /// The last poll has looked at them.
    has_looked: bool,
    shadow: Shadow,
    control: Control,
}

/// All state of the control plane. Every table is divided among the functions ([`Quotas`]). In this order: what an
/// instruction reaches from the beginning needs no address of its own, so what is small and used often comes first.
#[repr(C)]
pub(crate) struct Control {
    #[cfg(feature = "std")]
    transport_alone: bool,
    /// The function that had the last turn.
    last_turn: u8,
    /// Functions that there may be work for, a bit each.
    busy: u16,
    /// Ports that this card has.
    num_ports: u8,
    /// Management datagrams may wait.
    has_mads: bool,
    /// The board has not been told of all that its ports are.
    has_views: bool,
    /// Another image is to be started.
    wants_restart: bool,
    /// A command has been answered since the start.
    has_answered: bool,
    last_wqes: LastWqes,
    /// A command is done, and its answer is made and may not be in host memory yet: whose it is, and where it goes.
    answering: Option<(u8, u64)>,
    funcs: Table<Func, NUM_FUNCS>,
    /// Who spreads frames over raw QPs.
    spreads: Spreads,
    answer: Answer,
    /// Where contexts of QPs in RESET are made: all that such a one does not have is zero for ever.
    made: Qpc,
    keys: Table<Keys, NUM_FUNCS>,
    device_memory: DeviceMemory,
    eq_ids: IdPool<{ NUM_EQS / 32 }>,
    cq_ids: IdPool<{ NUM_CQS / 32 }>,
    pd_ids: IdPool<{ NUM_PDS / 32 }>,
    qp_ids: IdPool<{ NUM_CONTEXTS / 32 }>,
    srq_ids: IdPool<{ NUM_SRQS / 32 }>,
    xrcd_ids: IdPool<{ NUM_XRCDS / 32 }>,
    eqs: Table<EqRec, NUM_EQS>,
    rates: RateGroups,
    lines: Lines,
    neighbours: Neighbours,
    /// The image that runs.
    image: Image,
    /// NodeDescription (MGMT-13); zeros behind it.
    description: [u8; sma::DESCRIPTION_BYTES],
    ports: Table<Port, NUM_PORTS>,
    rules: Rules,
    /// SRQs and targets in each XRC domain.
    xrcds: Table<u32, NUM_XRCDS>,
    srqs: Table<SrqRec, NUM_SRQS>,
    /// Objects that use each PD.
    pds: Table<u32, NUM_PDS>,
    cqs: Table<CqRec, NUM_CQS>,
    groups: Groups,
    qps: Table<QpRec, NUM_CONTEXTS>,
}

impl Firmware {
    /// The state after reset of a card whose tables [`SHARING_FUNCS`] functions share.
    pub const fn new() -> Self {
        Self::for_quotas(Quotas::equal(SHARING_FUNCS))
    }

    /// The same with the tables divided so.
    pub const fn for_quotas(quotas: Quotas) -> Self {
        Self {
            control: Control::new(quotas),
            shadow: Shadow::new(),
            timers_at: 0,
            has_looked: false,
        }
    }

    /// Divides the tables so, before [`Firmware::init_ports`].
    pub fn share_out(&mut self, quotas: Quotas) {
        self.control.share_out(quotas);
    }

    /// From now on the QPs of a function share so many lines, 4 or more, and there may be as many of them as the
    /// firmware has records for. Before [`Firmware::init_ports`], after [`Firmware::share_out`]; its
    /// functions have equal shares.
    pub fn share_lines(&mut self, lines: u32) {
        self.control.share_lines(lines);
    }

    /// The hardware is a model of the transport alone: what a port does beside it (raw packets, pacing, congestion
    /// control) is refused, and not among the capabilities.
    #[cfg(feature = "std")]
    pub fn set_transport_alone(&mut self) {
        self.control.transport_alone = true;
    }

    /// The state after reset, on the heap (hosts only: it is larger than many stacks).
    #[cfg(feature = "std")]
    pub fn boxed() -> std::boxed::Box<Self> {
        Self::boxed_for(Quotas::equal(SHARING_FUNCS))
    }

    /// [`Firmware::for_quotas`], on the heap.
    #[cfg(feature = "std")]
    pub fn boxed_for(quotas: Quotas) -> std::boxed::Box<Self> {
        // Made on a stack of its own: with all lines it is larger than a thread's usual one.
        let stack = (1 << 20) + 4 * size_of::<Self>();
        let make = move || std::boxed::Box::new(Self::for_quotas(quotas));
        let made = std::thread::Builder::new().stack_size(stack).spawn(make);
        let made = made.expect("memory for a thread that makes the firmware's tables");
        made.join().expect("tables are made without a panic")
    }

    /// Brings up a card with one port: [`Firmware::init_ports`].
    pub fn init<B: Bus>(&mut self, bus: &mut B, identity: Identity) {
        self.init_ports(bus, &[identity]);
    }

    /// Brings the card up: waits for the table sweep, sets the identity of each port that the card has, tells every
    /// function it is ready. A port without an identity is left out.
    pub fn init_ports<B: Bus>(&mut self, bus: &mut B, identities: &[Identity]) {
        let mut hal = Hal::new(bus, &mut self.shadow);
        hal.wait_ctx();
        self.control.init_ports(&mut hal, identities);
    }

    /// Tells it which image it is, where it is one of its own.
    pub fn set_image(&mut self, image: Image) {
        self.control.image = image;
    }

    /// It has answered a command: an image that can do this can be replaced by another.
    pub fn has_answered(&self) -> bool {
        self.control.has_answered
    }

    /// A command wants another image to be started; once.
    pub fn take_restart(&mut self) -> bool {
        core::mem::take(&mut self.control.wants_restart)
    }

    /// Tells it who has which GID on the networks of its ports: these and no others from now on. May be called between
    /// two polls.
    pub fn set_neighbours(&mut self, neighbours: &[Neighbour]) {
        self.control.neighbours.set(neighbours);
    }

    /// Neighbours that it has not been told of are looked for there, when a command needs one.
    pub fn find_neighbours_in(&mut self, elsewhere: FindNeighbour) {
        self.control.neighbours.find_in(elsewhere);
    }

    /// From now on neighbours of a port that are not known can be asked for: a command that needs one answers
    /// `Resolving`, and [`Firmware::take_wanted`] tells whom it needs.
    pub fn set_asks(&mut self, port_num: u8, asks: bool) {
        self.control.neighbours.set_asks(port_num, asks);
    }

    /// Port and GID of the neighbour that a command has needed since the last call; the last of them, if several.
    pub fn take_wanted(&mut self) -> Option<(u8, [u8; 16])> {
        self.control.neighbours.take_wanted()
    }

    /// GID table of a port, from 1; empty for one that is not there.
    pub fn gids(&self, port_num: u8) -> &[[u8; 16]] {
        let index = usize::from(port_num).wrapping_sub(1);
        self.control.ports.get(index).map_or(&[], Port::gids)
    }

    /// Takes what hardware reports, answers a management datagram, and does a piece of work of the function whose turn
    /// it is: commands that are long take several turns. At most some thousand cycles; `false`: there was nothing to
    /// do, or where firmware takes time of its own there is nothing left, until the hardware has an event.
    pub fn poll<B: Bus>(&mut self, bus: &mut B) -> bool {
        let mut hal = Hal::new(bus, &mut self.shadow);
        let had_events = self.control.take_events(&mut hal);
        hal.restart();
        self.has_looked = hal.is_time(&mut self.timers_at);
        let had_other = (self.has_looked || self.control.has_other_work())
            && self.control.work_else(&mut hal, self.has_looked);
        let had_line = self.control.turn_lines(&mut hal);
        hal.restart();
        let had_turn = self.control.take_turn(&mut hal);
        self.control.let_lines_go(&mut hal);
        self.control.show_ports(bus);
        // Where an event ends the sleep at once, nobody has to look once more.
        (had_turn || had_line || had_events || had_other) && !(B::HAS_CLOCK && self.control.all_rest())
    }

    /// When [`Firmware::poll`] has something to do though the hardware has no event: in so many cycles of the card's
    /// clock. `None`: never.
    pub fn wakes_in<B: Bus>(&mut self, bus: &mut B) -> Option<u64> {
        // Right behind a command the next one is near: when timers are due is worked out after a while without any.
        let left = Hal::new(bus, &mut self.shadow).until(self.timers_at);
        if left != 0 && !self.has_looked {
            return Some(left.into());
        }
        let due_us = [self.control.trap_due_us(), self.control.lldp_due_us()];
        let due_us = due_us.into_iter().flatten().min()?;
        let mut hal = Hal::new(bus, &mut self.shadow);
        let left_us = due_us.saturating_sub(hal.micros());
        let cycles = (left_us + 1) * u64::from(hal.clock_mhz());
        Some(cycles.max(left.into()))
    }
}

impl Control {
    /// See [`Firmware::set_transport_alone`]. The image for a card's own processor has nothing of it.
    const fn has_transport_alone(&self) -> bool {
        #[cfg(feature = "std")]
        return self.transport_alone;
        #[cfg(not(feature = "std"))]
        false
    }

    const fn new(quotas: Quotas) -> Self {
        Self {
            #[cfg(feature = "std")]
            transport_alone: false,
            funcs: Table::new([const { Func::new() }; NUM_FUNCS]),
            last_turn: 0,
            busy: 0,
            ports: Table::new([Port::new(0), Port::new(1)]),
            num_ports: 1,
            neighbours: Neighbours::new(),
            pd_ids: IdPool::new(NUM_PDS as u32, 1, quotas),
            pds: Table::new([0; NUM_PDS]),
            xrcd_ids: IdPool::new(NUM_XRCDS as u32, 0, quotas),
            xrcds: Table::new([0; NUM_XRCDS]),
            eq_ids: IdPool::new(NUM_EQS as u32, 0, quotas),
            eqs: Table::new([const { EqRec::new() }; NUM_EQS]),
            cq_ids: IdPool::new(NUM_CQS as u32, 0, quotas),
            cqs: Table::new([const { CqRec::new() }; NUM_CQS]),
            // QP0 and QP1 are the management QPs.
            qp_ids: IdPool::new(NUM_QPS as u32, 2, quotas),
            qps: Table::new([const { QpRec::new() }; NUM_CONTEXTS]),
            lines: Lines::new(quotas),
            srq_ids: IdPool::new(NUM_SRQS as u32, 0, quotas),
            srqs: Table::new([const { SrqRec::new() }; NUM_SRQS]),
            last_wqes: LastWqes::new(),
            rates: RateGroups::new(quotas),
            groups: Groups::new(quotas),
            rules: Rules::new(),
            spreads: Spreads::new(),
            keys: Table::new([const { Keys::new() }; NUM_FUNCS]),
            device_memory: DeviceMemory::new(quotas),
            has_mads: false,
            has_views: false,
            description: sma::DESCRIPTION,
            answer: Answer::new(),
            made: Qpc::new(),
            answering: None,
            image: Image::native(),
            wants_restart: false,
            has_answered: false,
        }
    }

    /// Nothing has been given out yet.
    fn share_out(&mut self, quotas: Quotas) {
        self.pd_ids.share_out(NUM_PDS as u32, 1, quotas);
        self.xrcd_ids.share_out(NUM_XRCDS as u32, 0, quotas);
        self.eq_ids.share_out(NUM_EQS as u32, 0, quotas);
        self.cq_ids.share_out(NUM_CQS as u32, 0, quotas);
        self.qp_ids.share_out(NUM_QPS as u32, 2, quotas);
        self.lines = Lines::new(quotas);
        self.srq_ids.share_out(NUM_SRQS as u32, 0, quotas);
        self.rates.share_out(quotas);
        self.groups.share_out(quotas);
        self.device_memory = DeviceMemory::new(quotas);
    }

    /// Something waits beside events and commands.
    pub(crate) fn has_other_work(&self) -> bool {
        self.has_mads || self.last_wqes.is_busy()
    }

    /// Does it, and what timers are for if it is time. False: there was nothing to do.
    #[inline(never)]
    fn work_else<B: Bus>(&mut self, hal: &mut Hal<B>, is_time: bool) -> bool {
        let had_told = self.tell_last_wqes(hal);
        hal.restart();
        let had_mad =
            self.answer_mad(hal) || (is_time && (self.send_traps(hal) || self.tell_neighbours(hal)));
        hal.restart();
        had_told || had_mad
    }

    fn init_ports<B: Bus>(&mut self, hal: &mut Hal<B>, identities: &[Identity]) {
        let count = identities.len().clamp(1, NUM_PORTS) as u32;
        self.num_ports = hal.num_ports().clamp(1, count) as u8;
        for (port, identity) in self.ports.iter_mut().zip(identities) {
            if port.number() <= self.num_ports {
                port.init(hal, *identity);
            }
        }
        self.announce_link(hal);
    }
}

impl Default for Firmware {
    fn default() -> Self {
        Self::new()
    }
}

/// What makes a port different from all others: comes from a ROM on a board, from the configuration in a simulator. The
/// first port's GUID is the card's too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Identity {
    /// Port GUID, first byte on the wire first.
    pub guid: [u8; 8],
    /// MAC address, first byte on the wire first.
    pub mac: [u8; 6],
    /// IPv4 address for GID 1 (as ::ffff:a.b.c.d); all zero: none.
    pub ipv4: [u8; 4],
    /// IPv6 address beside the link-local one, for GID 2; all zero: none.
    pub ipv6: [u8; 16],
    /// LID given at start (no subnet manager yet).
    pub lid: u16,
    /// InfiniBand framing instead of RoCEv2.
    pub infiniband: bool,
    /// The port goes to ACTIVE by itself; false: it waits in INIT for a subnet manager.
    pub self_active: bool,
    /// Data VLs of the other end, as a subnet manager finds out; fifteen if nobody did.
    pub peer_vls: OpVls,
    /// Rate of the cable in Mbit/s, as the ends of a link find out when they train it.
    pub rate_mbps: u32,
}

impl Identity {
    /// The first entries of the port's GID table; one without an address is all zero. ADDR-6: GID 0 is subnet prefix
    /// and port GUID, on Ethernet the link-local IPv6 address; the others are the port's IPv4 and further IPv6 address.
    pub fn gids(&self) -> [[u8; 16]; 3] {
        let ipv4 = match self.ipv4 {
            [0, 0, 0, 0] => [0; 16],
            ipv4 => neighbours::of_ipv4(ipv4),
        };
        [neighbours::link_local(self.guid), ipv4, self.ipv6]
    }

    /// What a card knows of this port that finds it on the network of its own port `port_num`.
    pub fn neighbours(&self, port_num: u8) -> impl Iterator<Item = Neighbour> + use<> {
        let mac = self.mac;
        let gids = self.gids().into_iter().filter(|gid| *gid != [0; 16]);
        gids.map(move |gid| Neighbour { port_num, gid, mac })
    }
}
