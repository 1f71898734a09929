//! Whether driver and firmware keep to the contract where the card would not notice, or would bear it.

use hca_abi::{
    ADMIN_DOORBELL_OFFSET, CQ_DOORBELL_OFFSET, CqDoorbell, CtxTable, DOORBELL_PAGE_OFFSET,
    EQ_DOORBELL_OFFSET, EqDoorbell, LINK_ROW_CTRL, PUSH_SLOT_BYTES, PUSH_SLOTS, PUSH_SLOTS_OFFSET,
    PipeMsgKind, PortState, QpState, Qpc, RQ_DOORBELL_OFFSET, RqDoorbell, SQ_DOORBELL_OFFSET,
    SRQ_DOORBELL_OFFSET, SRQ_LINE_ENTRIES, Service, Sge, SqDoorbell, SqWqeCtrl, SqWqeUdCtrl, SrqDoorbell,
    wqe_distance,
};
use hca_fw_core::NUM_FUNCS;
use hca_regs as reg;

use crate::card::Hardware;

const SLOT_BYTES: usize = PUSH_SLOT_BYTES as usize;
const SLOTS_BYTES: usize = PUSH_SLOTS as usize * SLOT_BYTES;
/// 24-bit free-running indices.
const CQ_INDEX_MASK: u32 = 0xff_ffff;

/// What lies in the push slots of all functions: the card itself looks into the ring.
pub(crate) struct Audit {
    pushed: Vec<u8>,
}

impl Audit {
    pub fn new() -> Self {
        Self {
            pushed: vec![0; NUM_FUNCS * SLOTS_BYTES],
        }
    }
}

/// Which queue of a QP.
#[derive(Clone, Copy, Debug)]
enum Queue {
    Send,
    Recv,
}

fn send_header_bytes(qpc: &Qpc) -> usize {
    match Service::try_from(qpc.service()) {
        Ok(Service::Ud) => SqWqeUdCtrl::BYTES,
        _ => SqWqeCtrl::BYTES,
    }
}

impl Hardware {
    /// Before the card sees a 64-bit write.
    pub(crate) fn audit_doorbell(&mut self, func: u8, offset: u32, value: u64) {
        match offset.wrapping_sub(DOORBELL_PAGE_OFFSET) {
            SQ_DOORBELL_OFFSET => {
                let doorbell = SqDoorbell::from_word(value);
                if doorbell.push() {
                    self.audit_pushed(func, &doorbell);
                }
                self.audit_queue(Queue::Send, doorbell.qpn(), doorbell.producer_index());
            }
            RQ_DOORBELL_OFFSET => {
                let doorbell = RqDoorbell::from_word(value);
                self.audit_queue(Queue::Recv, doorbell.qpn(), doorbell.producer_index());
            }
            CQ_DOORBELL_OFFSET => {
                let doorbell = CqDoorbell::from_word(value);
                self.audit_cq(doorbell.cqn(), doorbell.consumer_index());
            }
            EQ_DOORBELL_OFFSET => {
                let doorbell = EqDoorbell::from_word(value);
                self.audit_eq(doorbell.eqn().into(), doorbell.consumer_index());
            }
            SRQ_DOORBELL_OFFSET => {
                let doorbell = SrqDoorbell::from_word(value);
                self.audit_srq(doorbell.srqn(), doorbell.producer_index());
            }
            ADMIN_DOORBELL_OFFSET => {}
            _ if self.keep_pushed(func, offset.wrapping_sub(PUSH_SLOTS_OFFSET), value) => {}
            _ => self.violation(format!("64-bit write to {offset:#x}, where no doorbell is")),
        }
    }

    fn audit_queue(&mut self, queue: Queue, qpn: u32, producer: u32) {
        let qpc = self.card.qpc(qpn);
        if qpc.qpn() != qpn {
            return self.violation(format!("doorbell of QP {qpn:#x}, which does not exist"));
        }
        let indices = self.card.qp_indices(qpn);
        let (old, consumer, log_size) = match queue {
            Queue::Send => (indices.sq_producer, indices.sq_consumer, qpc.sq_log_size()),
            Queue::Recv => (indices.rq_producer, indices.rq_consumer, qpc.rq_log_size()),
        };
        let filled = wqe_distance(consumer, producer);
        if filled > 1 << log_size || filled < wqe_distance(consumer, old) {
            self.violation(format!(
                "QP {qpn:#x}: {queue:?} doorbell {producer:#x} over consumer {consumer:#x}"
            ));
        }
    }

    /// Never back, never past what was written.
    fn audit_cq(&mut self, cqn: u32, consumer: u32) {
        let Some(cq) = self.card.cq_indices(cqn) else {
            return self.violation(format!("doorbell of CQ {cqn:#x}, which does not exist"));
        };
        let distance = |to: u32, from: u32| to.wrapping_sub(from) & CQ_INDEX_MASK;
        let is_forward = distance(consumer, cq.consumer) <= distance(cq.producer, cq.consumer);
        if !is_forward || distance(cq.producer, consumer) > cq.size {
            self.violation(format!(
                "CQ {cqn:#x}: consumer index {consumer:#x} is not in the ring"
            ));
        }
    }

    fn audit_eq(&mut self, eqn: u32, consumer: u16) {
        let Some(eq) = self.card.eq_indices(eqn) else {
            return self.violation(format!("doorbell of EQ {eqn}, which does not exist"));
        };
        let (old, producer) = (eq.consumer as u16, eq.producer as u16);
        if consumer.wrapping_sub(old) > producer.wrapping_sub(old) {
            self.violation(format!(
                "EQ {eqn}: consumer index {consumer:#x} is not in the ring"
            ));
        }
    }

    fn audit_srq(&mut self, srqn: u32, producer: u32) {
        let Some(srq) = self.card.srq_indices(srqn) else {
            return self.violation(format!("doorbell of SRQ {srqn:#x}, which does not exist"));
        };
        let filled = wqe_distance(srq.consumer, producer);
        if filled > srq.size || filled < wqe_distance(srq.consumer, srq.producer) {
            self.violation(format!(
                "SRQ {srqn:#x}: doorbell {producer:#x} is not in the list"
            ));
        }
    }

    /// A word for a slot; `offset` counts from the function's first one. False: there is no slot.
    fn keep_pushed(&mut self, func: u8, offset: u32, value: u64) -> bool {
        let offset = offset as usize;
        if offset >= SLOTS_BYTES || !offset.is_multiple_of(8) {
            return false;
        }
        let at = usize::from(func) * SLOTS_BYTES + offset;
        self.audit.pushed[at..at + 8].copy_from_slice(&value.to_le_bytes());
        true
    }

    /// What was pushed is what the ring has, and nothing else of its queue is under way (decision 0024).
    fn audit_pushed(&mut self, func: u8, doorbell: &SqDoorbell) {
        let (qpn, index) = (doorbell.qpn(), wqe_distance(1, doorbell.producer_index()));
        let qpc = self.card.qpc(qpn);
        if qpc.qpn() != qpn {
            return; // the doorbell itself is a violation
        }
        let consumer = self.card.qp_indices(qpn).sq_consumer;
        if consumer != index {
            self.violation(format!(
                "QP {qpn:#x}: WQE {index:#x} was pushed while {consumer:#x} is under way"
            ));
        }
        let at = usize::from(func) * SLOTS_BYTES + usize::from(doorbell.push_slot()) * SLOT_BYTES;
        let pushed = self.audit.pushed[at..at + SLOT_BYTES].to_vec();
        let ctrl = SqWqeCtrl::read_from(&pushed).unwrap_or_default();
        let entries = if ctrl.inline_data() {
            0
        } else {
            usize::from(ctrl.num_sge())
        };
        let len = send_header_bytes(&qpc) + entries * Sge::BYTES;
        let stride = 64u64 << qpc.sq_log_stride();
        let slot = u64::from(index) & ((1 << qpc.sq_log_size()) - 1);
        let mut ring = vec![0; len.min(SLOT_BYTES)];
        let was_read = self.host.read(qpc.sq_base() + slot * stride, &mut ring);
        if !was_read || len > SLOT_BYTES || ring != pushed[..len] {
            self.violation(format!(
                "QP {qpn:#x}: WQE {index:#x} was pushed as {ctrl:?}, which is not what its ring has"
            ));
        }
    }

    /// Before firmware writes a register.
    pub(crate) fn audit_bus(&mut self, addr: u32, value: u32) {
        match addr {
            0..reg::MGMT => self.violation(format!("firmware writes the function register {addr:#x}")),
            reg::MGMT_DMA_CTRL => self.audit_dma(),
            reg::MGMT_MSG_GO => self.audit_message(),
            reg::MGMT_MAD_TX => {
                let bytes = reg::field(value, reg::MGMT_MAD_TX_BYTES_MASK);
                if value & reg::MGMT_MAD_TX_GO_MASK == 0 || bytes == 0 || !bytes.is_multiple_of(4) {
                    self.violation(format!("a datagram of {bytes} bytes is sent"));
                }
            }
            _ => {}
        }
    }

    fn audit_dma(&mut self) {
        let [place, len, high] =
            [reg::MGMT_DMA_LOCAL, reg::MGMT_DMA_LEN, reg::MGMT_DMA_ADDR_HI].map(|at| self.card.bus_read(at));
        let local = reg::field(place, reg::MGMT_DMA_LOCAL_VALUE_MASK);
        let end = local.checked_add(len).filter(|end| *end <= reg::MAILBOX_BYTES);
        if end.is_none() || len == 0 || !local.is_multiple_of(64) || !len.is_multiple_of(64) {
            self.violation(format!("mailbox transfer of {len} bytes at {local:#x}"));
        }
        let skip = reg::field(place, reg::MGMT_DMA_LOCAL_SKIP_MASK);
        let spare = reg::field(place, reg::MGMT_DMA_LOCAL_SPARE_MASK);
        if skip + spare != 0 && high >> 16 != hca_abi::DM_BUS_HIGH {
            self.violation(format!("{skip} and {spare} bytes at the edges of host memory"));
        }
    }

    fn audit_message(&mut self) {
        let [line, kind] = [reg::MGMT_MSG_QPN, reg::MGMT_MSG_KIND].map(|at| self.card.bus_read(at));
        let state = QpState::try_from(self.card.qpc(line).state());
        let is_right = match PipeMsgKind::try_from(kind as u8) {
            Ok(PipeMsgKind::SqDrain) => true,
            Ok(PipeMsgKind::FlushSq) => matches!(state, Ok(QpState::Err | QpState::Sqe)),
            Ok(PipeMsgKind::FlushRq) => state == Ok(QpState::Err),
            Err(_) => false,
        };
        if !is_right {
            self.violation(format!("message {kind} to the QP of line {line:#x} in {state:?}"));
        }
    }

    /// Behind firmware's write of a register.
    pub(crate) fn audit_done(&mut self, addr: u32) {
        if addr != reg::MGMT_CTX_CMD {
            return;
        }
        let [table, row, status] =
            [reg::MGMT_CTX_TABLE, reg::MGMT_CTX_INDEX, reg::MGMT_CTX_STATUS].map(|at| self.card.bus_read(at));
        if status & reg::MGMT_CTX_STATUS_ERROR_MASK != 0 {
            return self.violation(format!("context access to table {table}, row {row}"));
        }
        match CtxTable::try_from(table as u8) {
            Ok(CtxTable::Srqc) => {
                let size = self.card.srq_indices(row).map(|srq| srq.size);
                if size.is_some_and(|size| size < SRQ_LINE_ENTRIES) {
                    self.violation(format!("SRQ {row:#x}: its list of {size:?} entries is no line"));
                }
            }
            Ok(CtxTable::Link) if row == LINK_ROW_CTRL => {
                let asked = PortState::try_from(self.link_ctrl().state());
                let may_be = [
                    PortState::Down,
                    PortState::Init,
                    PortState::Armed,
                    PortState::Active,
                ];
                if !asked.is_ok_and(|state| may_be.contains(&state)) {
                    self.violation(format!("link state {asked:?} written"));
                }
            }
            _ => {}
        }
    }
}
