//! The host's side of the registers: function registers, and doorbells.

use hca_abi::{
    ADMIN_DOORBELL_OFFSET, AdminDoorbell, CQ_DOORBELL_OFFSET, CqDoorbell, DOORBELL_PAGE_BYTES,
    DOORBELL_PAGE_OFFSET, EQ_DOORBELL_OFFSET, EqDoorbell, HwEventKind, RQ_DOORBELL_OFFSET, RqDoorbell,
    SQ_DOORBELL_OFFSET, SRQ_DOORBELL_OFFSET, SqDoorbell, SrqDoorbell,
};
use hca_fw_core::line_of;
use hca_regs as reg;

use crate::HostPort;
use crate::body::CLOCK_HZ;
use crate::card::Card;

impl Card {
    /// Whether anything comes of a write there: what lies in a push slot the ring has, too.
    pub const fn hears_write(addr: u16) -> bool {
        (addr as u32) < DOORBELL_PAGE_OFFSET + DOORBELL_PAGE_BYTES
    }

    /// The host writes up to eight bytes in the aligned eight at `addr` of a function's BAR, by `strb`.
    pub fn write_register(&mut self, host: &mut dyn HostPort, func: u8, addr: u16, data: u64, strb: u8) {
        let addr = u32::from(addr) & !7;
        if addr >= DOORBELL_PAGE_OFFSET {
            // A doorbell is one write of 64 bits.
            if strb == 0xff && addr < DOORBELL_PAGE_OFFSET + DOORBELL_PAGE_BYTES {
                self.doorbell(host, func, addr - DOORBELL_PAGE_OFFSET, data);
            }
            return;
        }
        for (half, lanes) in [(0, 0x0f), (4, 0xf0)] {
            if strb & lanes == lanes {
                self.write_function(func, addr + half, (data >> (8 * half)) as u32);
            }
        }
    }

    fn write_function(&mut self, func: u8, addr: u32, value: u32) {
        let Some(regs) = self.func_regs.get_mut(usize::from(func)) else {
            return;
        };
        match addr {
            reg::FUNC_CONTROL
            | reg::FUNC_ADMIN_SQ_BASE_LO
            | reg::FUNC_ADMIN_SQ_BASE_HI
            | reg::FUNC_ADMIN_CQ_BASE_LO
            | reg::FUNC_ADMIN_CQ_BASE_HI
            | reg::FUNC_ADMIN_LOG_SIZE => drop(regs.insert(addr, value)),
            _ => return,
        }
        if addr == reg::FUNC_CONTROL {
            self.body.raise(HwEventKind::FuncControl, func, 0, 0);
        }
    }

    /// The host reads a register of a function.
    pub fn read_register(&self, func: u8, addr: u16) -> u32 {
        let addr = u32::from(addr) & !3;
        let Some(regs) = self.func_regs.get(usize::from(func)) else {
            return u32::MAX;
        };
        let told = |at: u32| self.reg(at + u32::from(func) * reg::MGMT_FN_STRIDE);
        match addr {
            reg::FUNC_ID => hca_abi::HCA_ID,
            reg::FUNC_ABI_VERSION => hca_abi::ABI_VERSION,
            reg::FUNC_STATUS => told(reg::MGMT_FN_STATUS),
            reg::FUNC_ADMIN_STATUS => told(reg::MGMT_FN_ADMIN_STATUS),
            reg::FUNC_TIME_LO => self.body.now as u32,
            reg::FUNC_TIME_HI => (self.body.now >> 32) as u32,
            reg::FUNC_CLOCK_HZ => CLOCK_HZ,
            reg::FUNC_FUNC_INFO => {
                let vectors = reg::place(self.body.vectors.into(), reg::FUNC_FUNC_INFO_VECTORS_MASK);
                u32::from(func) | vectors
            }
            _ => regs.get(&addr).copied().unwrap_or(0),
        }
    }

    fn doorbell(&mut self, host: &mut dyn HostPort, func: u8, offset: u32, data: u64) {
        let (is_right, id) = match offset {
            SQ_DOORBELL_OFFSET => {
                let doorbell = SqDoorbell::from_word(data);
                let (qpn, producer) = (doorbell.qpn(), doorbell.producer_index());
                (self.queue_doorbell(host, func, qpn, producer, true), qpn)
            }
            RQ_DOORBELL_OFFSET => {
                let doorbell = RqDoorbell::from_word(data);
                let (qpn, producer) = (doorbell.qpn(), doorbell.producer_index());
                (self.queue_doorbell(host, func, qpn, producer, false), qpn)
            }
            CQ_DOORBELL_OFFSET => {
                let doorbell = CqDoorbell::from_word(data);
                let (cqn, consumer) = (doorbell.cqn(), doorbell.consumer_index());
                let is_right = self.body.cq_doorbell(host, func, cqn, consumer, doorbell.arm());
                (is_right, cqn)
            }
            EQ_DOORBELL_OFFSET => {
                let doorbell = EqDoorbell::from_word(data);
                let eqn = doorbell.eqn().into();
                (self.body.eq_doorbell(func, eqn, doorbell.consumer_index()), eqn)
            }
            SRQ_DOORBELL_OFFSET => {
                let doorbell = SrqDoorbell::from_word(data);
                let srqn = doorbell.srqn();
                (
                    self.body.srq_doorbell(func, srqn, doorbell.producer_index()),
                    srqn,
                )
            }
            ADMIN_DOORBELL_OFFSET => {
                let producer = AdminDoorbell::from_word(data).producer_index();
                if let Some(kept) = self.admin_producer.get_mut(usize::from(func)) {
                    *kept = producer;
                }
                self.body.raise(HwEventKind::AdminDb, func, producer.into(), 0);
                (true, 0)
            }
            _ => (true, 0),
        };
        if !is_right {
            self.body.raise(HwEventKind::BadDoorbell, func, id, 0);
        }
    }

    /// False: the QP is not there, or not this function's.
    fn queue_doorbell(
        &mut self,
        host: &mut dyn HostPort,
        func: u8,
        qpn: u32,
        producer: u32,
        is_send: bool,
    ) -> bool {
        let qpc = self.body.qpc_of(qpn).filter(|qpc| qpc.func() == func);
        let Some(qpc) = qpc.copied() else { return false };
        let line = line_of(qpn);
        let rings = &mut self.body.rings[line as usize];
        // More than the ring has is a driver's mistake that must not make us read what it never wrote.
        let (from, log_size) = match is_send {
            true => (rings.sq_fetched, qpc.sq_log_size()),
            false => (rings.rq_consumer, qpc.rq_log_size()),
        };
        if hca_abi::wqe_distance(from, producer) > 1 << log_size {
            return false;
        }
        if is_send {
            rings.sq_producer = producer;
            self.lines.flush_sends(&mut self.body, host, line);
            self.lines.wake(&self.body, line);
        } else {
            rings.rq_producer = producer;
            self.lines.flush_receives(&mut self.body, host, line);
        }
        true
    }
}
