//! Firmware's side of the registers.

use hca_abi::{CtxTable, HwEventKind, KeyTable, PipeMsgKind};
use hca_fw_core::{NUM_CQS, NUM_EQS, NUM_FUNCS, NUM_QPS};
use hca_regs as reg;

use crate::HostPort;
use crate::body::{Body, ROW_BYTES};
use crate::card::Card;

/// Bytes of a packet of a management datagram, and where the one to send is.
pub(crate) const MAD_BYTES: usize = reg::MAD_BYTES as usize / 2;
const MAD_TO_SEND: u32 = reg::MAD + reg::MAD_BYTES / 2;
/// From the counters of one port to those of the next.
const COUNTERS_PORT_BYTES: u32 = 256;

impl Card {
    /// Firmware has something to look at.
    #[inline]
    pub fn interrupts_firmware(&self) -> bool {
        !self.body.events.is_empty()
    }

    pub(crate) fn reg(&self, addr: u32) -> u32 {
        self.regs.get(&addr).copied().unwrap_or(0)
    }

    fn event_word(&self, at: usize) -> u32 {
        let bytes = self.body.events.front().copied().unwrap_or_default().0;
        let word = bytes.get(4 * at..).and_then(|rest| rest.first_chunk());
        word.map_or(0, |word| u32::from_le_bytes(*word))
    }

    /// Firmware reads a register.
    pub fn bus_read(&self, addr: u32) -> u32 {
        match addr {
            0..reg::MGMT => {
                let (func, offset) = (addr / reg::FUNC_STRIDE, addr % reg::FUNC_STRIDE);
                self.read_register(func as u8, offset as u16)
            }
            reg::MGMT_EV_STATUS => u32::from(!self.body.events.is_empty()),
            reg::MGMT_EV_W0 => self.event_word(0),
            reg::MGMT_EV_W1 => self.event_word(1),
            reg::MGMT_EV_W2 => self.event_word(2),
            reg::MGMT_DMA_STATUS => u32::from(self.dma_error) * reg::MGMT_DMA_STATUS_ERROR_MASK,
            reg::MGMT_CTX_STATUS => u32::from(self.ctx_error) * reg::MGMT_CTX_STATUS_ERROR_MASK,
            // What is asked for is done before the next access.
            reg::MGMT_GO_STATUS => 0,
            reg::MGMT_NUM_QPS => NUM_QPS as u32,
            reg::MGMT_NUM_CQS => NUM_CQS as u32,
            reg::MGMT_NUM_EQS => NUM_EQS as u32,
            reg::MGMT_NUM_MRS => 1 << hca_abi::MAX_LOG_KEYS,
            reg::MGMT_NUM_FUNCS => NUM_FUNCS as u32,
            reg::MGMT_NUM_PORTS => self.body.ports.len() as u32,
            reg::MGMT_NUM_VLS => self.body.data_vls,
            reg::MGMT_LINK_DATA => {
                let select = self.reg(reg::MGMT_LINK_SEL);
                let port = reg::field(select, reg::MGMT_LINK_SEL_PORT_MASK) as usize;
                let word = reg::field(select, reg::MGMT_LINK_SEL_WORD_MASK);
                self.body.ports.get(port).map_or(0, |port| port.link_word(word))
            }
            reg::MGMT_MAD_STATUS => self.mads.front().map_or(0, |(port, packet)| {
                reg::MGMT_MAD_STATUS_PENDING_MASK
                    | reg::place(u32::from(*port), reg::MGMT_MAD_STATUS_PORT_MASK)
                    | reg::place(packet.len() as u32, reg::MGMT_MAD_STATUS_BYTES_MASK)
            }),
            reg::MAD..MAD_TO_SEND => {
                let at = (addr - reg::MAD) as usize & !3;
                let packet = self.mads.front().map_or(&[][..], |(_, packet)| packet);
                let mut word = [0; 4];
                for (to, from) in word.iter_mut().zip(packet.iter().skip(at)) {
                    *to = *from;
                }
                u32::from_le_bytes(word)
            }
            reg::COUNTERS..reg::MAD => self.counter_word(addr - reg::COUNTERS),
            reg::MAILBOX.. => {
                let at = ((addr - reg::MAILBOX) % reg::MAILBOX_BYTES) as usize & !3;
                self.mailbox[at..]
                    .first_chunk()
                    .map_or(0, |word| u32::from_le_bytes(*word))
            }
            _ => {
                let of_func = addr.wrapping_sub(reg::MGMT_FN_ADMIN_PRODUCER);
                let (func, rest) = (of_func / reg::MGMT_FN_STRIDE, of_func % reg::MGMT_FN_STRIDE);
                match self.admin_producer.get(func as usize) {
                    Some(producer) if rest == 0 => (*producer).into(),
                    _ => self.reg(addr),
                }
            }
        }
    }

    /// A counter is read by its low word first; both are of the moment.
    fn counter_word(&self, offset: u32) -> u32 {
        let (port, within) = (offset / COUNTERS_PORT_BYTES, offset % COUNTERS_PORT_BYTES);
        let port = self.body.ports.get(port as usize);
        let value = port.map_or(0, |port| port.counter(within / 8));
        (value >> (8 * (within & 4))) as u32
    }

    /// Firmware writes a register.
    pub fn bus_write(&mut self, host: &mut dyn HostPort, addr: u32, value: u32) {
        if addr >= reg::MAILBOX {
            let at = ((addr - reg::MAILBOX) % reg::MAILBOX_BYTES) as usize & !3;
            self.mailbox[at..at + 4].copy_from_slice(&value.to_le_bytes());
            return;
        }
        self.regs.insert(addr, value);
        match addr {
            reg::MGMT_EV_POP if value & reg::MGMT_EV_POP_POP_MASK != 0 => drop(self.body.events.pop_front()),
            reg::MGMT_DMA_CTRL => self.dma(host, value),
            reg::MGMT_CTX_CMD => self.context(host, value),
            reg::MGMT_MSG_GO => self.message(host),
            reg::MGMT_EQE_GO => {
                let words = [0, 1, 2, 3].map(|at| self.reg(reg::MGMT_EQE_DATA + 4 * at));
                let eqn = self.reg(reg::MGMT_EQE_EQN) as u8;
                self.body.write_eqe(host, eqn, words);
            }
            reg::MGMT_MAD_RX => drop(self.mads.pop_front()),
            reg::MGMT_MAD_TX if value & reg::MGMT_MAD_TX_GO_MASK != 0 => self.send_mad(value),
            reg::MGMT_FN..reg::MGMT_PORT => self.function_written(addr - reg::MGMT_FN),
            reg::MGMT_PORT..reg::COUNTERS => {
                let offset = addr - reg::MGMT_PORT;
                let at = offset / reg::MGMT_PORT_STRIDE;
                self.body.port_changes += 1;
                if let Some(port) = self.body.ports.get_mut(at as usize) {
                    port.register_written(offset % reg::MGMT_PORT_STRIDE, value);
                }
            }
            _ => {}
        }
    }

    fn function_written(&mut self, offset: u32) {
        const DONE: u32 = reg::MGMT_FN_RESET_DONE - reg::MGMT_FN;
        let func = (offset / reg::MGMT_FN_STRIDE) as usize;
        if offset % reg::MGMT_FN_STRIDE == DONE && func < NUM_FUNCS {
            self.func_regs[func].insert(reg::FUNC_CONTROL, 0);
            // A doorbell of the last owner must not count for the next.
            self.admin_producer[func] = 0;
        }
    }

    fn dma(&mut self, host: &mut dyn HostPort, command: u32) {
        let word = |addr| u64::from(self.reg(addr));
        let addr = word(reg::MGMT_DMA_ADDR_LO) | word(reg::MGMT_DMA_ADDR_HI) << 32;
        let (func, place) = (self.reg(reg::MGMT_DMA_FUNC) as u8, self.reg(reg::MGMT_DMA_LOCAL));
        let local = reg::field(place, reg::MGMT_DMA_LOCAL_VALUE_MASK) as usize;
        let len = self.reg(reg::MGMT_DMA_LEN) as usize;
        let skip = reg::field(place, reg::MGMT_DMA_LOCAL_SKIP_MASK) as usize;
        let spare = reg::field(place, reg::MGMT_DMA_LOCAL_SPARE_MASK) as usize;
        let to_host = command == reg::MGMT_DMA_CTRL_MAILBOX_TO_HOST_MASK;
        let mailbox = &mut self.mailbox;
        let Some(area) = mailbox.get_mut(local..local.saturating_add(len)) else {
            self.dma_error = true;
            return;
        };
        self.dma_error = !match to_host {
            true => {
                let end = area.len().saturating_sub(spare).max(skip);
                self.body
                    .write_bus(host, func, addr + skip as u64, &area[skip..end])
            }
            false => self.body.read_bus(host, func, addr, area),
        };
    }

    fn context(&mut self, host: &mut dyn HostPort, command: u32) {
        let index = self.reg(reg::MGMT_CTX_INDEX);
        let table = CtxTable::try_from(self.reg(reg::MGMT_CTX_TABLE) as u8);
        let table = table.ok().filter(|table| index < Body::rows_of(*table));
        self.ctx_error = table.is_none() || command != reg::MGMT_CTX_CMD_WRITE_MASK;
        let Some(table) = table.filter(|_| !self.ctx_error) else {
            return;
        };
        let mut row = [0; ROW_BYTES];
        for (at, word) in (0..).zip(row.chunks_exact_mut(4)) {
            word.copy_from_slice(&self.reg(reg::MGMT_CTX_DATA + 4 * at).to_le_bytes());
        }
        let body = &mut self.body;
        match table {
            CtxTable::Qpc => {
                let flags = self.regs.get(&reg::MGMT_CTX_FLAGS).copied().unwrap_or(0);
                self.lines.qpc_written(body, host, index, &row, flags);
            }
            CtxTable::Cqc => body.cqc_written(index, &row),
            CtxTable::Eqc => body.eqc_written(index, &row),
            CtxTable::Srqc => body.srqc_written(index, &row),
            CtxTable::KeyTable => {
                body.keys[index as usize] = KeyTable::read_from(&row).unwrap_or_default();
            }
            CtxTable::DeviceMemory => body.device_memory.row_written(index, &row),
            CtxTable::Link => {
                body.link_written(index, &row);
                body.set_row(table, index, &row);
            }
            // Keys are read anew each time.
            CtxTable::Forget | CtxTable::Record => {}
            CtxTable::Gid | CtxTable::Group | CtxTable::Rule | CtxTable::Rss | CtxTable::RssQp => {
                body.set_row(table, index, &row);
            }
        }
    }

    fn message(&mut self, host: &mut dyn HostPort) {
        let line = self.reg(reg::MGMT_MSG_QPN);
        if line as usize >= NUM_QPS {
            return;
        }
        let (lines, body) = (&mut self.lines, &mut self.body);
        match PipeMsgKind::try_from(self.regs.get(&reg::MGMT_MSG_KIND).copied().unwrap_or(0) as u8) {
            Ok(PipeMsgKind::SqDrain) => lines.drain(body, host, line),
            Ok(PipeMsgKind::FlushSq) => lines.flush_sends(body, host, line),
            Ok(PipeMsgKind::FlushRq) => lines.flush_receives(body, host, line),
            Err(_) => {}
        }
    }

    /// A packet for firmware has come.
    pub(crate) fn mad_arrives(&mut self, port: u8, packet: Vec<u8>) {
        self.mads.push_back((port, packet));
        self.body.raise(HwEventKind::Mad, 0, 0, 0);
    }

    fn send_mad(&mut self, value: u32) {
        let bytes = reg::field(value, reg::MGMT_MAD_TX_BYTES_MASK);
        let port = reg::field(value, reg::MGMT_MAD_TX_PORT_MASK) as u8;
        let word = |at: u32| self.reg(MAD_TO_SEND + at).to_le_bytes();
        let packet: Vec<u8> = (0..bytes).step_by(4).flat_map(word).collect();
        if bytes as usize <= MAD_BYTES && !packet.is_empty() {
            self.mads_to_send.push_back((port, packet));
        }
    }
}
