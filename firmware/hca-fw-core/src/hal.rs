//! The register sequences: each thing firmware can ask of the hardware is one function here, and nowhere else.

use crate::held::{Held, Kept, NUM_KEPT, NUM_PAIRS, PAIR_BYTES, first_pairs};
use crate::patience::Patience;
use crate::port::{NUM_GIDS, PortIdentity};
use crate::probe::{DmaError, Probes};
use crate::qpc::RESET_PAIRS;
use crate::{Bus, CmdResult};
use hca_abi::{
    AdminCpl, CtxTable, GidRow, GroupRow, HwEventKind, LINK_PORT_ROWS, PipeMsgKind, Qpc, RssQpRow, RssRow,
    RuleRow,
};
use hca_agents::divide;
use hca_regs as reg;

/// Polls of a busy bit before the hardware is given up: far beyond any legal wait.
const MAX_POLLS: u32 = 1 << 20;
/// A piece of work that could go on ends after so many cycles of the card's clock.
const CYCLES_PER_TURN: u32 = 2_000;
/// The same where a bus access is all that takes time: about 1,400 cycles.
const ACCESSES_PER_TURN: u32 = 192;
/// Timers are for frames that may be so much late, in cycles: looking at each takes a division.
const TIMERS_LATE: u32 = 262_144;
/// Scratch line of the mailbox for probing host memory.
const PROBE_AREA: u32 = 512;
/// Where in the mailbox admin completions are made.
const CPL_AREA: u32 = 256;
/// What the DMA engine moves at a time.
const LINE_BYTES: u32 = 64;

/// Bytes of a completion before its body.
const CPL_HEAD_BYTES: usize = 8;
const KEPT_CPLS: usize = if cfg!(feature = "std") { 1 } else { 0 };
/// Pairs of a completion but for the last.
const CPL_PAIRS: u32 = first_pairs(NUM_PAIRS - 1);
/// From the counters of one port to those of the next.
const COUNTERS_PORT_BYTES: u32 = 256;
/// Behind them: of rules, so many bytes each.
const COUNTERS_RULES: u32 = 2 * COUNTERS_PORT_BYTES;
const RULE_COUNT_BYTES: u32 = 16;

/// What the hardware holds of what firmware wrote. An access costs seven cycles, so what is there already is not
/// written again. Words go in pairs: with one half of an address alone the time would depend on where memory lies.
pub(crate) struct Shadow {
    /// All ones: not known.
    kept: [u32; NUM_KEPT],
    ctx: Held,
    /// Of the completion in the mailbox, but for the last pair: natively what it is, for an access takes long; on the
    /// core, which writes sooner than it compares, which pairs may be other than zero.
    cpl: [Held; KEPT_CPLS],
    cpl_used: u32,
    /// The last pair of the completion.
    last_pair: Option<u64>,
    /// A context write may not have been taken yet.
    is_ctx_busy: bool,
    /// A transfer that nobody waits for may be under way.
    is_dma_busy: bool,
    /// Of reads of a line, and of several.
    patience: [Patience; 2],
}

impl Shadow {
    /// Nothing is known.
    pub const fn new() -> Self {
        Self {
            kept: [u32::MAX; NUM_KEPT],
            ctx: Held::of(u32::MAX),
            cpl: [const { Held::of(CPL_PAIRS) }; KEPT_CPLS],
            cpl_used: CPL_PAIRS,
            last_pair: None,
            is_ctx_busy: true,
            is_dma_busy: false,
            patience: [Patience::new(); 2],
        }
    }
}

fn write_pair<B: Bus>(bus: &mut B, addr: u32, pair: u64) {
    bus.write32(addr, pair as u32);
    bus.write32(addr + 4, (pair >> 32) as u32);
}

/// The hardware behind a bus.
pub(crate) struct Hal<'a, B: Bus> {
    bus: &'a mut B,
    shadow: &'a mut Shadow,
    /// When the piece of work under way began, by the bus's clock.
    since: u32,
    /// How a probe has ended that was waited for at once.
    probed: Option<Result<(), DmaError>>,
}

impl<'a, B: Bus> Hal<'a, B> {
    pub fn new(bus: &'a mut B, shadow: &'a mut Shadow) -> Self {
        let since = bus.cycles();
        Self {
            bus,
            shadow,
            since,
            probed: None,
        }
    }

    /// A piece of work that could go on has to end: it has taken [`CYCLES_PER_TURN`], or as many bus accesses as native
    /// firmware makes in that time.
    pub fn is_over(&mut self) -> bool {
        let most = if B::HAS_CLOCK {
            CYCLES_PER_TURN
        } else {
            ACCESSES_PER_TURN
        };
        self.bus.cycles().wrapping_sub(self.since) >= most
    }

    /// Timers are to be looked at, by what says when they are the next time.
    pub fn is_time(&mut self, at: &mut u32) -> bool {
        if !B::HAS_CLOCK {
            return true;
        }
        let now = self.bus.cycles();
        let is_time = now.wrapping_sub(*at) < 1 << 31;
        if is_time {
            *at = now.wrapping_add(TIMERS_LATE);
        }
        is_time
    }

    /// Cycles until timers are looked at.
    pub fn until(&mut self, at: u32) -> u32 {
        if !B::HAS_CLOCK {
            return 0;
        }
        let left = at.wrapping_sub(self.bus.cycles());
        if left > TIMERS_LATE { 0 } else { left }
    }

    /// Another piece of work begins.
    pub fn restart(&mut self) {
        self.since = self.bus.cycles();
    }

    pub(crate) fn read(&mut self, addr: u32) -> u32 {
        self.bus.read32(addr)
    }

    pub(crate) fn write(&mut self, addr: u32, value: u32) {
        self.bus.write32(addr, value);
    }

    fn write_kept(&mut self, register: Kept, value: u32) {
        if core::mem::replace(&mut self.shadow.kept[register as usize], value) != value {
            self.write(register.addr(), value);
        }
    }

    #[inline(never)]
    fn wait_clear(&mut self, addr: u32, mask: u32) -> u32 {
        self.count_waits(addr, mask).0
    }

    /// Looks until the bits are clear: what was read last, and how many looks before it were in vain.
    #[inline(always)]
    fn count_waits(&mut self, addr: u32, mask: u32) -> (u32, u32) {
        let (mut value, mut vain) = (self.read(addr), 0);
        while value & mask != 0 && vain < MAX_POLLS {
            value = self.read(addr);
            vain += 1;
        }
        (value, vain)
    }

    /// What firmware keeps is whole: a restart goes on from here.
    pub fn commit(&mut self) {
        self.bus.commit();
    }

    /// Where images of the firmware are kept.
    pub fn flash(&mut self) -> Option<&mut dyn crate::Flash> {
        self.bus.flash()
    }

    /// After a restart: waits until nothing is under way that firmware had begun before.
    pub fn wait_rest(&mut self) {
        self.wait_ctx();
        self.wait_clear(reg::MGMT_DMA_STATUS, reg::MGMT_DMA_STATUS_BUSY_MASK);
    }

    /// Is there one?
    pub fn has_event(&mut self) -> bool {
        self.read(reg::MGMT_EV_STATUS) & reg::MGMT_EV_STATUS_PENDING_MASK != 0
    }

    /// Oldest event, if any. It stays until [`Hal::pop_event`].
    pub fn event(&mut self) -> Option<[u32; 3]> {
        if !self.has_event() {
            return None;
        }
        let w0 = self.read(reg::MGMT_EV_W0);
        let words = match HwEventKind::try_from(w0 as u8) {
            // Their first word says all.
            Ok(HwEventKind::AdminDb | HwEventKind::FuncControl | HwEventKind::Mad) => [w0, 0, 0],
            _ => [w0, self.read(reg::MGMT_EV_W1), self.read(reg::MGMT_EV_W2)],
        };
        Some(words)
    }

    /// Done with the oldest event. A restart in between makes it come again: better twice than never.
    pub fn pop_event(&mut self) {
        self.commit();
        self.write(reg::MGMT_EV_POP, reg::MGMT_EV_POP_POP_MASK);
    }

    /// Waits until every listener has taken the last context (after reset: until every table is clear).
    pub fn wait_ctx(&mut self) {
        if core::mem::replace(&mut self.shadow.is_ctx_busy, false) {
            self.wait_clear(reg::MGMT_CTX_STATUS, reg::MGMT_CTX_STATUS_BUSY_MASK);
        }
    }

    /// Writes one row of a table.
    pub fn ctx_write(&mut self, table: CtxTable, index: u32, row: &[u8]) {
        self.ctx_lay(row, row.len().div_ceil(PAIR_BYTES));
        self.ctx_go(table, index, 0);
    }

    /// Writes a QP context, restarting the named queues. One that does not restore ends with its record.
    pub fn ctx_write_qpc(&mut self, line: u32, row: &Qpc, init_sq: bool, init_rq: bool) {
        self.ctx_lay_row(row);
        let flags = u32::from(init_sq) * reg::MGMT_CTX_FLAGS_INIT_SQ_MASK
            + u32::from(init_rq) * reg::MGMT_CTX_FLAGS_INIT_RQ_MASK;
        self.ctx_go(CtxTable::Qpc, line, flags);
    }

    /// Puts the context of a QP in RESET where the next write takes it from.
    pub fn ctx_lay_made(&mut self, row: &Qpc) {
        self.ctx_lay_qpc(row, RESET_PAIRS);
    }

    /// Writes the context that has been laid, of a QP that begins.
    pub fn ctx_write_made(&mut self, line: u32) {
        let queues = reg::MGMT_CTX_FLAGS_INIT_SQ_MASK | reg::MGMT_CTX_FLAGS_INIT_RQ_MASK;
        self.ctx_go(CtxTable::Qpc, line, queues);
    }

    #[inline(never)]
    pub(crate) fn ctx_lay_qpc(&mut self, row: &Qpc, pairs: u32) {
        let bus = &mut *self.bus;
        let write = |at, pair| write_pair(bus, reg::MGMT_CTX_DATA + 8 * at, pair);
        self.shadow.ctx.take_whole(row.as_bytes(), pairs, write);
    }

    /// What the QP was whose row the last write of a QP context took: words from `Qpc::sq_pi` on.
    pub fn qp_record(&mut self, out: &mut [u32]) {
        self.wait_ctx();
        for (i, word) in out.iter_mut().enumerate() {
            *word = self.read(reg::MGMT_CTX_DATA + 4 * i as u32);
        }
    }

    fn ctx_lay(&mut self, row: &[u8], pairs: usize) {
        let bus = &mut *self.bus;
        let write = |at, pair| write_pair(bus, reg::MGMT_CTX_DATA + 8 * at, pair);
        self.shadow.ctx.take(row, first_pairs(pairs), write);
    }

    pub(crate) fn ctx_go(&mut self, table: CtxTable, index: u32, flags: u32) {
        self.write_kept(Kept::CtxTable, u8::from(table).into());
        self.write_kept(Kept::CtxFlags, flags);
        self.write(reg::MGMT_CTX_INDEX, index);
        self.wait_ctx();
        self.write(reg::MGMT_CTX_CMD, reg::MGMT_CTX_CMD_WRITE_MASK);
        // A link takes a row in the cycle of the command.
        self.shadow.is_ctx_busy = table != CtxTable::Link;
    }

    /// Makes the first rows of a table all zero: nobody's. Of QPs, both queues begin anew.
    pub fn ctx_clear(&mut self, table: CtxTable, rows: u32) {
        let queues = reg::MGMT_CTX_FLAGS_INIT_SQ_MASK | reg::MGMT_CTX_FLAGS_INIT_RQ_MASK;
        let flags = if table == CtxTable::Qpc { queues } else { 0 };
        self.ctx_lay(&[], NUM_PAIRS);
        self.ctx_go(table, 0, flags);
        // The row stays in the card's registers.
        for index in 1..rows {
            self.write(reg::MGMT_CTX_INDEX, index);
            self.wait_ctx();
            self.write(reg::MGMT_CTX_CMD, reg::MGMT_CTX_CMD_WRITE_MASK);
            self.shadow.is_ctx_busy = true;
        }
    }

    /// Ports that the card has.
    pub fn num_ports(&mut self) -> u32 {
        self.read(reg::MGMT_NUM_PORTS)
    }

    /// Writes a row of a port's link. Ports count from 0 here.
    pub fn link_row(&mut self, port: u8, row: u32, bytes: &[u8]) {
        self.ctx_write(CtxTable::Link, u32::from(port) * LINK_PORT_ROWS + row, bytes);
    }

    /// Writes an entry of a port's GID table, from which datagrams take their source. Ports count from 0 here.
    pub fn gid_row(&mut self, port: u8, index: usize, gid: &[u8; 16]) {
        let mut row = GidRow::new();
        row.set_gid(*gid);
        let index = usize::from(port) * NUM_GIDS + index;
        self.ctx_write(CtxTable::Gid, index as u32, row.as_bytes());
    }

    /// Writes a rule for received frames.
    pub fn rule_row(&mut self, index: u32, row: &RuleRow) {
        self.ctx_write(CtxTable::Rule, index, row.as_bytes());
    }

    /// Frames and bytes that the rule of a row has had.
    pub fn rule_counts(&mut self, index: u32) -> (u64, u64) {
        let addr = reg::COUNTERS + COUNTERS_RULES + RULE_COUNT_BYTES * index;
        let mut word = |at: u32| u64::from(self.read(addr + 4 * at));
        // In this order: a read of the first holds the others.
        let packets = word(0) | word(1) << 32;
        (packets, word(2) | word(3) << 32)
    }

    /// Writes a row of receive side scaling.
    pub fn rss_row(&mut self, index: u32, row: &RssRow) {
        self.ctx_write(CtxTable::Rss, index, row.as_bytes());
    }

    /// Writes an entry of an indirection table.
    pub fn rss_qp(&mut self, index: u32, qpn: u32) {
        let mut row = RssQpRow::new();
        row.set_qpn(qpn);
        self.ctx_write(CtxTable::RssQp, index, row.as_bytes());
    }

    /// Writes a row of the lists of QPs that share datagrams.
    pub fn group_row(&mut self, index: u16, row: &GroupRow) {
        self.ctx_write(CtxTable::Group, index.into(), row.as_bytes());
    }

    /// Reads a status word of a port's link.
    pub fn link_word(&mut self, port: u8, word: u32) -> u32 {
        let port = reg::place(port.into(), reg::MGMT_LINK_SEL_PORT_MASK);
        let word = reg::place(word, reg::MGMT_LINK_SEL_WORD_MASK);
        self.write(reg::MGMT_LINK_SEL, port | word);
        self.read(reg::MGMT_LINK_DATA)
    }

    /// Data VLs that the link was built with.
    pub fn num_vls(&mut self) -> u32 {
        self.read(reg::MGMT_NUM_VLS)
    }

    fn dma(&mut self, func: u8, addr: u64, local: u32, bytes: u32, command: u32) -> Result<(), DmaError> {
        self.dma_start(func, addr, local, bytes, command);
        self.dma_end(bytes, command)
    }

    /// It calls nothing, and neither does its end, so that neither keeps registers.
    #[inline(never)]
    fn dma_start(&mut self, func: u8, addr: u64, local: u32, bytes: u32, command: u32) {
        // A command that was refused may have left a probe under way.
        if core::mem::replace(&mut self.shadow.is_dma_busy, true) {
            self.count_waits(reg::MGMT_DMA_STATUS, reg::MGMT_DMA_STATUS_BUSY_MASK);
        }
        self.write_kept(Kept::DmaLen, bytes);
        self.write_kept(Kept::DmaFunc, func.into());
        self.write_kept(Kept::DmaLocal, local);
        self.dma_go(addr, command);
    }

    #[inline(always)]
    fn dma_go(&mut self, addr: u64, command: u32) {
        self.write(reg::MGMT_DMA_ADDR_LO, addr as u32);
        self.write(reg::MGMT_DMA_ADDR_HI, (addr >> 32) as u32);
        self.write(reg::MGMT_DMA_CTRL, command);
    }

    fn dma_end(&mut self, bytes: u32, command: u32) -> Result<(), DmaError> {
        self.shadow.is_dma_busy = false;
        let busy = reg::MGMT_DMA_STATUS_BUSY_MASK;
        let status = if command == reg::MGMT_DMA_CTRL_HOST_TO_MAILBOX_MASK && !B::HAS_CLOCK {
            let kind = usize::from(bytes > LINE_BYTES);
            self.bus.pause(self.shadow.patience[kind].cycles());
            let (status, vain) = self.count_waits(reg::MGMT_DMA_STATUS, busy);
            self.shadow.patience[kind].learn(vain);
            status
        } else {
            self.count_waits(reg::MGMT_DMA_STATUS, busy).0
        };
        if status & (busy | reg::MGMT_DMA_STATUS_ERROR_MASK) == 0 {
            Ok(())
        } else {
            Err(DmaError)
        }
    }

    /// Asks for host memory in the mailbox; everything a multiple of 64 bytes.
    pub fn start_fetch(&mut self, func: u8, addr: u64, local: u32, bytes: u32) {
        self.dma_start(func, addr, local, bytes, reg::MGMT_DMA_CTRL_HOST_TO_MAILBOX_MASK);
    }

    /// Waits for it.
    pub fn end_fetch(&mut self, bytes: u32) -> Result<(), DmaError> {
        self.dma_end(bytes, reg::MGMT_DMA_CTRL_HOST_TO_MAILBOX_MASK)
    }

    /// Host memory to mailbox; everything a multiple of 64 bytes.
    pub fn dma_from_host(&mut self, func: u8, addr: u64, local: u32, bytes: u32) -> Result<(), DmaError> {
        self.dma(func, addr, local, bytes, reg::MGMT_DMA_CTRL_HOST_TO_MAILBOX_MASK)
    }

    /// Mailbox to host memory; everything a multiple of 64 bytes.
    pub fn dma_to_host(&mut self, func: u8, addr: u64, local: u32, bytes: u32) -> Result<(), DmaError> {
        self.dma(func, addr, local, bytes, reg::MGMT_DMA_CTRL_MAILBOX_TO_HOST_MASK)
    }

    /// Makes an admin completion, whose body has so many bytes. It stays in the mailbox until the next one, over a
    /// restart, too.
    pub fn set_completion(&mut self, cpl: &AdminCpl, body_bytes: usize) {
        // Behind its body the mailbox is zero then: of an earlier one, also another function's, nothing is left.
        let used = first_pairs((CPL_HEAD_BYTES + body_bytes).div_ceil(PAIR_BYTES)) & CPL_PAIRS;
        let (bus, area) = (&mut *self.bus, reg::MAILBOX + CPL_AREA);
        if let Some(held) = self.shadow.cpl.first_mut() {
            held.take_whole(cpl.as_bytes(), used, |at, pair| {
                write_pair(bus, area + 8 * at, pair)
            });
        } else {
            let mut left = used | core::mem::replace(&mut self.shadow.cpl_used, used);
            let pairs = cpl.as_bytes().as_chunks().0;
            while let Some(pair) = pairs.get(left.trailing_zeros() as usize) {
                write_pair(bus, area + 8 * left.trailing_zeros(), u64::from_le_bytes(*pair));
                left &= left - 1;
            }
        }
        // The last pair has the phase.
        let last = cpl
            .as_bytes()
            .last_chunk()
            .map_or(0, |pair| u64::from_le_bytes(*pair));
        if self.shadow.last_pair.replace(last) != Some(last) {
            write_pair(bus, area + AdminCpl::BYTES as u32 - 8, last);
        }
    }

    /// Writes the admin completion to host memory, a multiple of 64.
    pub fn completion_to_host(&mut self, func: u8, addr: u64) -> Result<(), DmaError> {
        self.dma_to_host(func, addr, CPL_AREA, AdminCpl::BYTES as u32)
    }

    /// Reads the ends of a ring: [`Probes`].
    pub fn probe_ring(&mut self, func: u8, base: u64, bytes: u32) -> CmdResult {
        let mut probes = Probes::new(func);
        probes.add(base, bytes)?;
        probes.begin(self);
        probes.finish(self)
    }

    /// Asks for a line of host memory, the first one or another one behind it. Where a bus access is all that takes
    /// time nothing can be done meanwhile.
    #[inline(always)]
    pub fn start_probe(&mut self, func: u8, addr: u64, is_first: bool) {
        let command = reg::MGMT_DMA_CTRL_HOST_TO_MAILBOX_MASK;
        if is_first {
            self.dma_start(func, addr, PROBE_AREA, LINE_BYTES, command);
        } else {
            self.shadow.is_dma_busy = true;
            self.dma_go(addr, command);
        }
        if !B::HAS_CLOCK {
            self.probed = Some(self.dma_end(LINE_BYTES, command));
        }
    }

    /// Waits for it.
    #[inline(always)]
    pub fn end_probe(&mut self) -> Result<(), DmaError> {
        if B::HAS_CLOCK {
            self.shadow.is_dma_busy = false;
            let busy = reg::MGMT_DMA_STATUS_BUSY_MASK;
            let status = self.count_waits(reg::MGMT_DMA_STATUS, busy).0;
            let is_right = status & (busy | reg::MGMT_DMA_STATUS_ERROR_MASK) == 0;
            return is_right.then_some(()).ok_or(DmaError);
        }
        self.probed.take().unwrap_or(Ok(()))
    }

    /// Reads a word of the mailbox.
    pub fn mailbox_word(&mut self, offset: u32) -> u32 {
        self.read(reg::MAILBOX + offset)
    }

    /// Reads mailbox bytes; offset and length are multiples of 4.
    #[inline(never)]
    pub fn mailbox_read(&mut self, offset: u32, out: &mut [u8]) {
        let mut at = reg::MAILBOX + offset;
        if !B::HAS_CLOCK {
            return self.bus.read_run(at, out);
        }
        let (fours, rest) = out.as_chunks_mut::<16>();
        // By four: each step of a loop takes as long as half a word.
        for four in fours {
            if let [a, b, c, d] = four.as_chunks_mut().0 {
                *a = self.read(at).to_le_bytes();
                *b = self.read(at + 4).to_le_bytes();
                *c = self.read(at + 8).to_le_bytes();
                *d = self.read(at + 12).to_le_bytes();
            }
            at += 16;
        }
        for word in rest.as_chunks_mut().0 {
            *word = self.read(at).to_le_bytes();
            at += 4;
        }
    }

    /// Writes mailbox bytes; offset and length are multiples of 4.
    pub fn mailbox_write(&mut self, offset: u32, bytes: &[u8]) {
        for (i, word) in bytes.chunks_exact(4).enumerate() {
            let word = u32::from_le_bytes([word[0], word[1], word[2], word[3]]);
            self.write(reg::MAILBOX + offset + 4 * i as u32, word);
        }
    }

    /// The port through which the packet came that waits, if one does; of a frame, its bytes.
    pub fn mad_pending(&mut self) -> Option<(u8, usize)> {
        let status = self.read(reg::MGMT_MAD_STATUS);
        let port = reg::field(status, reg::MGMT_MAD_STATUS_PORT_MASK) as u8;
        let bytes = reg::field(status, reg::MGMT_MAD_STATUS_BYTES_MASK) as usize;
        (status & reg::MGMT_MAD_STATUS_PENDING_MASK != 0).then_some((port, bytes))
    }

    /// Reads bytes of the packet that waits, from a multiple of 4 on, a multiple of 4 of them.
    pub fn mad_read(&mut self, from: usize, out: &mut [u8]) {
        for (i, word) in out.chunks_exact_mut(4).enumerate() {
            let addr = reg::MAD + (from + 4 * i) as u32;
            word.copy_from_slice(&self.read(addr).to_le_bytes());
        }
    }

    /// Done with the packet that waits. A restart in between makes it come again.
    pub fn mad_pop(&mut self) {
        self.commit();
        self.write(reg::MGMT_MAD_RX, reg::MGMT_MAD_RX_POP_MASK);
    }

    /// Sends a packet, whose bytes are a multiple of 4, through a port, from 0.
    pub fn mad_send(&mut self, port: u8, packet: &[u8]) {
        self.wait_clear(reg::MGMT_MAD_STATUS, reg::MGMT_MAD_STATUS_BUSY_MASK);
        let to = reg::MAD + reg::MAD_BYTES / 2;
        for (i, word) in packet.chunks_exact(4).enumerate() {
            let word = u32::from_le_bytes([word[0], word[1], word[2], word[3]]);
            self.write(to + 4 * i as u32, word);
        }
        let port = reg::place(port.into(), reg::MGMT_MAD_TX_PORT_MASK);
        let bytes = reg::place(packet.len() as u32, reg::MGMT_MAD_TX_BYTES_MASK);
        self.write(reg::MGMT_MAD_TX, port | bytes | reg::MGMT_MAD_TX_GO_MASK);
    }

    /// Seconds since power on.
    pub fn seconds(&mut self) -> u64 {
        divide(self.micros(), 1_000_000)
    }

    /// Microseconds since power on.
    pub fn micros(&mut self) -> u64 {
        let low = self.read(reg::FUNC_TIME_LO);
        let high = self.read(reg::FUNC_TIME_HI);
        // The high word moves every 17 s: this much off in one case of a billion hurts nobody.
        divide(u64::from(high) << 32 | u64::from(low), self.clock_mhz())
    }

    /// Card clock.
    pub fn clock_mhz(&mut self) -> u32 {
        (self.read(reg::FUNC_CLOCK_HZ) / 1_000_000).max(1)
    }

    /// Sends a message into the pipeline, behind the last context.
    pub fn inject(&mut self, kind: PipeMsgKind, line: u32) {
        self.wait_ctx();
        self.wait_clear(reg::MGMT_GO_STATUS, reg::MGMT_GO_STATUS_MSG_BUSY_MASK);
        self.write(reg::MGMT_MSG_KIND, u8::from(kind).into());
        self.write(reg::MGMT_MSG_QPN, line);
        self.write(reg::MGMT_MSG_GO, 1);
    }

    /// Posts an event queue entry.
    pub fn post_eqe(&mut self, eqn: u8, kind: u8, id: u32, data0: u32) {
        self.wait_clear(reg::MGMT_GO_STATUS, reg::MGMT_GO_STATUS_EQE_BUSY_MASK);
        self.write(reg::MGMT_EQE_EQN, eqn.into());
        for (i, word) in [u32::from(kind), id, data0, 0].into_iter().enumerate() {
            self.write(reg::MGMT_EQE_DATA + 4 * i as u32, word);
        }
        self.write(reg::MGMT_EQE_GO, 1);
    }

    /// Starts a fence behind the last context. One that others have started begins anew, and covers both.
    pub fn start_fence(&mut self) {
        self.wait_ctx();
        self.write(reg::MGMT_FENCE_GO, 1);
    }

    /// Is every memory access over that was under way at the start of the last fence?
    pub fn is_fence_over(&mut self) -> bool {
        self.read(reg::MGMT_GO_STATUS) & reg::MGMT_GO_STATUS_FENCE_BUSY_MASK == 0
    }

    /// Waits for that.
    pub fn wait_fence(&mut self) {
        self.wait_clear(reg::MGMT_GO_STATUS, reg::MGMT_GO_STATUS_FENCE_BUSY_MASK);
    }

    /// What the driver of `func` wrote: (enable, reset).
    pub fn func_control(&mut self, func: u8) -> (bool, bool) {
        let v = self.read(func_reg(func, reg::FUNC_CONTROL));
        (
            v & reg::FUNC_CONTROL_ENABLE_MASK != 0,
            v & reg::FUNC_CONTROL_RESET_MASK != 0,
        )
    }

    /// MSI-X vectors of `func`; a function has at least one.
    pub fn vectors(&mut self, func: u8) -> u16 {
        let word = self.read(func_reg(func, reg::FUNC_FUNC_INFO));
        (reg::field(word, reg::FUNC_FUNC_INFO_VECTORS_MASK) as u16).max(1)
    }

    /// Card clock.
    pub fn clock_khz(&mut self) -> u32 {
        self.read(reg::FUNC_CLOCK_HZ) / 1000
    }

    /// Admin rings of `func`: (send ring, completion ring, log2 of the entries).
    pub fn admin_rings(&mut self, func: u8) -> (u64, u64, u8) {
        let mut read = |addr| u64::from(self.read(func_reg(func, addr)));
        let sq = read(reg::FUNC_ADMIN_SQ_BASE_LO) | read(reg::FUNC_ADMIN_SQ_BASE_HI) << 32;
        let cq = read(reg::FUNC_ADMIN_CQ_BASE_LO) | read(reg::FUNC_ADMIN_CQ_BASE_HI) << 32;
        (sq, cq, read(reg::FUNC_ADMIN_LOG_SIZE) as u8)
    }

    /// Sets what the driver of `func` sees in STATUS.
    pub fn set_func_status(&mut self, func: u8, ready: bool, fatal: bool, link_up: bool) {
        let v = u32::from(ready) | u32::from(fatal) << 1 | u32::from(link_up) << 2;
        self.write(fn_reg(func, reg::MGMT_FN_STATUS), v);
    }

    /// Sets what the driver of `func` sees in ADMIN_STATUS.
    pub fn set_admin_status(&mut self, func: u8, consumer_index: u16, error: u8) {
        let word = u32::from(consumer_index) | u32::from(error) << 16;
        self.write(fn_reg(func, reg::MGMT_FN_ADMIN_STATUS), word);
    }

    /// Newest producer index of the admin doorbell of `func`.
    pub fn admin_producer(&mut self, func: u8) -> u16 {
        self.read(fn_reg(func, reg::MGMT_FN_ADMIN_PRODUCER)) as u16
    }

    /// Clears the driver's enable and reset requests.
    pub fn reset_done(&mut self, func: u8) {
        self.write(fn_reg(func, reg::MGMT_FN_RESET_DONE), 1);
    }

    /// Configures a port.
    pub fn set_port(&mut self, port: u8, is: &PortIdentity) {
        let mac = is.mac.iter().fold(0u64, |acc, b| acc << 8 | u64::from(*b));
        let mut write = |addr, value| self.write(port_reg(port, addr), value);
        write(reg::MGMT_PORT_MAC_LO, mac as u32);
        write(reg::MGMT_PORT_MAC_HI, (mac >> 32) as u32);
        write(reg::MGMT_PORT_LID, is.lid.into());
        write(reg::MGMT_PORT_LMC, is.lmc.into());
        write(reg::MGMT_PORT_MTU, is.mtu.into());
        let ctrl = u32::from(is.infiniband) | u32::from(is.active) << 1 | u32::from(is.active) << 2;
        write(reg::MGMT_PORT_CTRL, ctrl);
    }

    /// Sets a P_Key table entry.
    pub fn set_pkey(&mut self, port: u8, index: u32, pkey: u16) {
        self.write(port_reg(port, reg::MGMT_PORT_PKEY) + 4 * index, pkey.into());
    }

    /// Reads a 64-bit counter of a port by its position in `query_counters_result`.
    pub fn counter(&mut self, port: u8, index: u32) -> u64 {
        let addr = reg::COUNTERS + COUNTERS_PORT_BYTES * u32::from(port) + 8 * index;
        let lo = self.read(addr);
        u64::from(lo) | u64::from(self.read(addr + 4)) << 32
    }
}

fn func_reg(func: u8, addr: u32) -> u32 {
    addr + u32::from(func) * reg::FUNC_STRIDE
}

fn port_reg(port: u8, addr: u32) -> u32 {
    addr + u32::from(port) * reg::MGMT_PORT_STRIDE
}

fn fn_reg(func: u8, addr: u32) -> u32 {
    addr + u32::from(func) * reg::MGMT_FN_STRIDE
}
