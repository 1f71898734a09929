//! The card: registers and context tables.

use std::collections::{HashMap, VecDeque};

use hca_abi::{
    Cqc, CtxTable, DM_PAGES, GROUP_ROWS, HwEvent, HwEventKind, LINK_ROW_CTRL, LINK_ROWS, PipeMsgKind, Qpc,
    RSS_ENTRIES, RSS_QPS, RULES,
};
use hca_fw_core::{
    Bus, NUM_CQS, NUM_EQS, NUM_FUNCS, NUM_GIDS, NUM_PORTS, NUM_QPS, NUM_SRQS, RegisterBus, line_of,
};
use hca_regs as reg;

use crate::device_memory::DeviceMemory;
use crate::host::HostMemory;
use crate::link::FakeLink;
use crate::push::PushSlots;
use crate::queues::{CqState, EqState};
use crate::srq::SrqState;

const CTX_BYTES: usize = 256;
/// Cycles that pass with each read of the time register.
const CYCLES_PER_LOOK: u64 = 64;
pub(crate) const VECTORS: u16 = 8;
const CLOCK_HZ: u32 = 250_000_000;

/// Bytes of a packet in the window of management datagrams, and where the one to send is.
const MAD_WINDOW: usize = reg::MAD_BYTES as usize / 2;
const MAD_TO_SEND: u32 = reg::MAD + reg::MAD_BYTES / 2;

/// What the data path keeps of a QP: free-running ring indices.
#[derive(Clone, Copy, Debug, Default)]
pub struct QpRings {
    /// Send doorbell.
    pub sq_producer: u32,
    /// Next send WQE.
    pub sq_consumer: u32,
    /// Receive doorbell.
    pub rq_producer: u32,
    /// Next receive WQE.
    pub rq_consumer: u32,
    /// QP_ERROR was reported.
    pub failed: bool,
}

/// Who a port is.
pub(crate) struct PortIdentity {
    pub is_infiniband: bool,
    pub mac: [u8; 6],
    pub lid: u16,
    pub lmc: u8,
}

/// The card.
#[derive(Debug)]
pub struct Card {
    /// The host's memory.
    pub host: HostMemory,
    /// What the card was given that breaks the contract.
    pub violations: Vec<String>,
    /// Bus accesses of the firmware.
    pub accesses: u64,
    /// The data path runs by itself; false: a test moves it.
    pub auto: bool,
    /// The link of the port.
    pub link: FakeLink,
    pub(crate) func_regs: Vec<HashMap<u32, u32>>,
    pub(crate) admin_producer: [u16; NUM_FUNCS],
    pub(crate) events: VecDeque<HwEvent>,
    pub(crate) tables: HashMap<(u8, u32), [u8; CTX_BYTES]>,
    pub(crate) qps: HashMap<u32, QpRings>,
    pub(crate) cqs: HashMap<u32, CqState>,
    pub(crate) eqs: HashMap<u8, EqState>,
    pub(crate) srqs: HashMap<u32, SrqState>,
    pub(crate) irqs: [u64; VECTORS as usize],
    pub(crate) time: u64,
    pub(crate) push_slots: PushSlots,
    device_memory: DeviceMemory,
    /// Packets of management datagrams for firmware, and what it has sent.
    mads: VecDeque<Vec<u8>>,
    mads_sent: Vec<Vec<u8>>,
    regs: HashMap<u32, u32>,
    mailbox: Vec<u8>,
    dma_error: bool,
    ctx_error: bool,
}

impl Card {
    pub(crate) fn new() -> Self {
        Self {
            host: HostMemory::new(),
            violations: Vec::new(),
            accesses: 0,
            auto: true,
            link: FakeLink::new(),
            func_regs: vec![HashMap::new(); NUM_FUNCS],
            admin_producer: [0; NUM_FUNCS],
            events: VecDeque::new(),
            tables: HashMap::new(),
            qps: HashMap::new(),
            cqs: HashMap::new(),
            eqs: HashMap::new(),
            srqs: HashMap::new(),
            irqs: [0; VECTORS as usize],
            time: 0,
            push_slots: PushSlots::new(),
            device_memory: DeviceMemory::new(),
            mads: VecDeque::new(),
            mads_sent: Vec::new(),
            regs: HashMap::new(),
            mailbox: vec![0; reg::MAILBOX_BYTES as usize],
            dma_error: false,
            ctx_error: false,
        }
    }

    /// Writes down a breach of the contract.
    pub(crate) fn violation(&mut self, what: String) {
        self.violations.push(what);
    }

    /// A packet of a management datagram for firmware comes through the first port, LRH to payload.
    pub fn mad_arrives(&mut self, packet: &[u8]) {
        let mut padded = packet.to_vec();
        padded.resize(MAD_WINDOW, 0);
        self.mads.push_back(padded);
        self.raise(HwEventKind::Mad, 0, 0);
    }

    /// The packets that firmware has sent since the last call.
    pub fn take_mads_sent(&mut self) -> Vec<Vec<u8>> {
        std::mem::take(&mut self.mads_sent)
    }

    fn mad_go(&mut self, value: u32) {
        let bytes = reg::field(value, reg::MGMT_MAD_TX_BYTES_MASK);
        if value & reg::MGMT_MAD_TX_GO_MASK == 0 || bytes == 0 || !bytes.is_multiple_of(4) {
            self.violation(format!("a datagram of {bytes} bytes is sent"));
            return;
        }
        let word = |at: u32| self.reg(reg::MAD + reg::MAD_BYTES / 2 + at).to_le_bytes();
        let packet = (0..bytes).step_by(4).flat_map(word).collect();
        self.mads_sent.push(packet);
    }

    /// Tells firmware something.
    pub fn raise(&mut self, kind: HwEventKind, id: u32, cause: u32) {
        let mut event = HwEvent::new();
        event.set_kind(kind.into());
        event.set_id(id);
        event.set_cause(cause);
        self.events.push_back(event);
    }

    /// The driver's admin doorbell.
    pub(crate) fn admin_doorbell(&mut self, func: u8, producer: u16) {
        self.admin_producer[usize::from(func)] = producer;
        let mut event = HwEvent::new();
        event.set_kind(HwEventKind::AdminDb.into());
        event.set_func(func);
        event.set_id(producer.into());
        self.events.push_back(event);
    }

    /// Row of a context table; zero if it was never written.
    pub fn row(&self, table: CtxTable, index: u32) -> [u8; CTX_BYTES] {
        self.tables
            .get(&(table.into(), index))
            .copied()
            .unwrap_or([0; CTX_BYTES])
    }

    /// What firmware has told of a port, from 1.
    pub(crate) fn port_identity(&self, port: u8) -> PortIdentity {
        let reg = |addr| self.reg(addr + u32::from(port.saturating_sub(1)) * reg::MGMT_PORT_STRIDE);
        let [hi, lo] = [reg::MGMT_PORT_MAC_HI, reg::MGMT_PORT_MAC_LO].map(|addr| reg(addr).to_be_bytes());
        PortIdentity {
            is_infiniband: reg(reg::MGMT_PORT_CTRL) & 1 != 0,
            mac: [hi[2], hi[3], lo[0], lo[1], lo[2], lo[3]],
            lid: reg(reg::MGMT_PORT_LID) as u16,
            lmc: reg(reg::MGMT_PORT_LMC) as u8,
        }
    }

    /// Context of the QP that has a QPN's line.
    pub fn qpc(&self, qpn: u32) -> Qpc {
        Qpc(self.row(CtxTable::Qpc, line_of(qpn)))
    }

    /// Admin commands of function 0 so far, modulo 2^16.
    pub fn admin_commands(&self) -> u16 {
        self.admin_producer[0]
    }

    /// Ring indices of a QP.
    pub fn rings(&self, qpn: u32) -> QpRings {
        self.qps.get(&line_of(qpn)).copied().unwrap_or_default()
    }

    /// The driver's read of a function register.
    pub(crate) fn func_read(&mut self, func: usize, offset: u32) -> u32 {
        match offset {
            reg::FUNC_ID => hca_abi::HCA_ID,
            reg::FUNC_ABI_VERSION => hca_abi::ABI_VERSION,
            reg::FUNC_STATUS => self.fn_reg(func, reg::MGMT_FN_STATUS),
            reg::FUNC_ADMIN_STATUS => self.fn_reg(func, reg::MGMT_FN_ADMIN_STATUS),
            reg::FUNC_TIME_LO => {
                self.time += CYCLES_PER_LOOK;
                self.time as u32
            }
            reg::FUNC_TIME_HI => (self.time >> 32) as u32,
            reg::FUNC_CLOCK_HZ => CLOCK_HZ,
            reg::FUNC_FUNC_INFO => func as u32 | reg::place(VECTORS.into(), reg::FUNC_FUNC_INFO_VECTORS_MASK),
            _ => self.func_regs[func].get(&offset).copied().unwrap_or(0),
        }
    }

    /// The driver's write of a function register.
    pub(crate) fn func_write(&mut self, func: usize, offset: u32, value: u32) {
        self.func_regs[func].insert(offset, value);
        if offset == reg::FUNC_CONTROL {
            let mut event = HwEvent::new();
            event.set_kind(HwEventKind::FuncControl.into());
            event.set_func(func as u8);
            self.events.push_back(event);
        }
    }

    fn fn_reg(&self, func: usize, addr: u32) -> u32 {
        self.reg(addr + func as u32 * reg::MGMT_FN_STRIDE)
    }

    fn reg(&self, addr: u32) -> u32 {
        self.regs.get(&addr).copied().unwrap_or(0)
    }

    fn mailbox_range(&mut self, local: u32, len: u32) -> Option<std::ops::Range<usize>> {
        let end = local.checked_add(len).filter(|end| *end <= reg::MAILBOX_BYTES);
        if end.is_none() || len == 0 || !local.is_multiple_of(64) || !len.is_multiple_of(64) {
            self.violation(format!("mailbox transfer of {len} bytes at {local:#x}"));
            return None;
        }
        Some(local as usize..end? as usize)
    }

    fn dma(&mut self, command: u32) {
        let addr =
            u64::from(self.reg(reg::MGMT_DMA_ADDR_LO)) | u64::from(self.reg(reg::MGMT_DMA_ADDR_HI)) << 32;
        let place = self.reg(reg::MGMT_DMA_LOCAL);
        let local = reg::field(place, reg::MGMT_DMA_LOCAL_VALUE_MASK);
        let range = self.mailbox_range(local, self.reg(reg::MGMT_DMA_LEN));
        let Some(range) = range else {
            self.dma_error = true;
            return;
        };
        let area = &mut self.mailbox[range];
        let to_host = command == reg::MGMT_DMA_CTRL_MAILBOX_TO_HOST_MASK;
        let skip = reg::field(place, reg::MGMT_DMA_LOCAL_SKIP_MASK) as usize;
        let spare = reg::field(place, reg::MGMT_DMA_LOCAL_SPARE_MASK) as usize;
        if let Some(page) = DeviceMemory::page_of(self.regs.get(&reg::MGMT_DMA_FUNC).copied(), addr) {
            self.dma_error = !if to_host {
                let end = area.len() - spare;
                self.device_memory
                    .write(page, addr + skip as u64, &area[skip..end])
            } else {
                self.device_memory.read(page, addr, area)
            };
            return;
        }
        if skip + spare != 0 {
            self.violation(format!("{skip} and {spare} bytes at the edges of host memory"));
            return;
        }
        self.dma_error = match command {
            reg::MGMT_DMA_CTRL_HOST_TO_MAILBOX_MASK => !self.host.read(addr, area),
            reg::MGMT_DMA_CTRL_MAILBOX_TO_HOST_MASK => !self.host.write(addr, area),
            _ => true,
        };
    }

    fn context(&mut self, command: u32) {
        let (table, index) = (self.reg(reg::MGMT_CTX_TABLE) as u8, self.reg(reg::MGMT_CTX_INDEX));
        let limit = match CtxTable::try_from(table) {
            Ok(CtxTable::Qpc) => NUM_QPS as u32,
            Ok(CtxTable::Cqc) => NUM_CQS as u32,
            Ok(CtxTable::Eqc) => NUM_EQS as u32,
            Ok(CtxTable::KeyTable) => NUM_FUNCS as u32,
            Ok(CtxTable::Forget) => 1 << 24,
            Ok(CtxTable::Link) => LINK_ROWS,
            Ok(CtxTable::Gid) => (NUM_PORTS * NUM_GIDS) as u32,
            Ok(CtxTable::Group) => GROUP_ROWS,
            Ok(CtxTable::Srqc) => NUM_SRQS as u32,
            Ok(CtxTable::Rule) => RULES,
            Ok(CtxTable::Rss) => RSS_QPS,
            Ok(CtxTable::RssQp) => RSS_QPS * RSS_ENTRIES,
            Ok(CtxTable::DeviceMemory) => NUM_FUNCS as u32 * DM_PAGES,
            Err(_) => 0,
        };
        self.ctx_error = index >= limit || command != reg::MGMT_CTX_CMD_WRITE_MASK;
        if self.ctx_error {
            self.violation(format!("context access {command} to table {table}, row {index}"));
            return;
        }
        let mut row = [0; CTX_BYTES];
        for (i, word) in row.chunks_exact_mut(4).enumerate() {
            word.copy_from_slice(&self.reg(reg::MGMT_CTX_DATA + 4 * i as u32).to_le_bytes());
        }
        if table == u8::from(CtxTable::Cqc) {
            let written = Cqc::read_from(&row).unwrap_or_default();
            row[..Cqc::BYTES].copy_from_slice(self.cqc_after(index, written).as_bytes());
        }
        if table == u8::from(CtxTable::DeviceMemory) {
            self.device_memory.set_row(index, &row);
        }
        self.tables.insert((table, index), row);
        if table == u8::from(CtxTable::Link) {
            if index == LINK_ROW_CTRL {
                self.link_ctrl_written();
            }
            return;
        }
        let flags = self.reg(reg::MGMT_CTX_FLAGS);
        self.context_written(table, index, flags);
    }

    fn write_trigger(&mut self, addr: u32, value: u32) {
        match addr {
            reg::MGMT_EV_POP if value & reg::MGMT_EV_POP_POP_MASK != 0 => drop(self.events.pop_front()),
            reg::MGMT_DMA_CTRL => self.dma(value),
            reg::MGMT_MAD_RX => drop(self.mads.pop_front()),
            reg::MGMT_MAD_TX => self.mad_go(value),
            reg::MGMT_CTX_CMD => self.context(value),
            reg::MGMT_MSG_GO => {
                let qpn = self.reg(reg::MGMT_MSG_QPN);
                match PipeMsgKind::try_from(self.reg(reg::MGMT_MSG_KIND) as u8) {
                    // Its send queues are always empty between two calls.
                    Ok(PipeMsgKind::SqDrain) => self.raise(HwEventKind::SqDrained, qpn, 0),
                    Ok(PipeMsgKind::FlushSq) => self.flush_sq(qpn),
                    Ok(PipeMsgKind::FlushRq) => self.flush_rq(qpn),
                    Err(e) => self.violation(e.to_string()),
                }
            }
            reg::MGMT_EQE_GO => {
                let eqn = self.reg(reg::MGMT_EQE_EQN) as u8;
                let words = [0, 1, 2, 3].map(|i| self.reg(reg::MGMT_EQE_DATA + 4 * i));
                self.write_eqe(eqn, words);
            }
            _ => {}
        }
    }

    fn event_word(&self, i: usize) -> u32 {
        let bytes = self.events.front().copied().unwrap_or_default().0;
        u32::from_le_bytes([bytes[4 * i], bytes[4 * i + 1], bytes[4 * i + 2], bytes[4 * i + 3]])
    }
}

impl Bus for Card {
    fn cycles(&mut self) -> u32 {
        self.accesses as u32
    }
}

impl RegisterBus for Card {
    fn read32(&mut self, addr: u32) -> u32 {
        self.accesses += 1;
        match addr {
            0..reg::MGMT => self.func_read(
                (addr / reg::FUNC_STRIDE) as usize % NUM_FUNCS,
                addr % reg::FUNC_STRIDE,
            ),
            reg::MGMT_EV_STATUS => u32::from(!self.events.is_empty()),
            reg::MGMT_EV_W0 => self.event_word(0),
            reg::MGMT_EV_W1 => self.event_word(1),
            reg::MGMT_EV_W2 => self.event_word(2),
            reg::MGMT_DMA_STATUS => u32::from(self.dma_error) * reg::MGMT_DMA_STATUS_ERROR_MASK,
            reg::MGMT_CTX_STATUS => u32::from(self.ctx_error) * reg::MGMT_CTX_STATUS_ERROR_MASK,
            reg::MGMT_NUM_QPS => NUM_QPS as u32,
            reg::MGMT_NUM_VLS => self.link.vls,
            reg::MGMT_LINK_DATA => {
                let word = reg::field(self.reg(reg::MGMT_LINK_SEL), reg::MGMT_LINK_SEL_WORD_MASK);
                self.link.word(word as usize)
            }
            reg::MGMT_MAD_STATUS => u32::from(!self.mads.is_empty()),
            reg::MAD..MAD_TO_SEND => {
                let at = (addr - reg::MAD) as usize & !3;
                let word = self
                    .mads
                    .front()
                    .map_or([0; 4], |mad| [0, 1, 2, 3].map(|i| mad[at + i]));
                u32::from_le_bytes(word)
            }
            reg::MAILBOX.. => {
                let at = ((addr - reg::MAILBOX) % reg::MAILBOX_BYTES) as usize & !3;
                u32::from_le_bytes([0, 1, 2, 3].map(|i| self.mailbox[at + i]))
            }
            _ => {
                let func = (addr.wrapping_sub(reg::MGMT_FN_ADMIN_PRODUCER) / reg::MGMT_FN_STRIDE) as usize;
                let offset = addr.wrapping_sub(reg::MGMT_FN_ADMIN_PRODUCER) % reg::MGMT_FN_STRIDE;
                match self.admin_producer.get(func) {
                    Some(producer) if offset == 0 => (*producer).into(),
                    _ => self.reg(addr),
                }
            }
        }
    }

    fn write32(&mut self, addr: u32, value: u32) {
        self.accesses += 1;
        if addr >= reg::MAILBOX {
            let at = ((addr - reg::MAILBOX) % reg::MAILBOX_BYTES) as usize & !3;
            self.mailbox[at..at + 4].copy_from_slice(&value.to_le_bytes());
            return;
        }
        if addr < reg::MGMT {
            self.violation(format!("firmware writes the function register {addr:#x}"));
            return;
        }
        self.regs.insert(addr, value);
        let done = addr.wrapping_sub(reg::MGMT_FN_RESET_DONE);
        if done.is_multiple_of(reg::MGMT_FN_STRIDE) && ((done / reg::MGMT_FN_STRIDE) as usize) < NUM_FUNCS {
            let func = (done / reg::MGMT_FN_STRIDE) as usize;
            self.func_regs[func].insert(reg::FUNC_CONTROL, 0);
            // A doorbell of the last owner must not count for the next.
            self.admin_producer[func] = 0;
        }
        self.write_trigger(addr, value);
    }
}
