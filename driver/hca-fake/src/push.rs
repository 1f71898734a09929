//! Push slots: what lies in one when a doorbell names it must be what the ring has, and nothing else may be under way
//! in that send queue.

use hca_abi::{PUSH_SLOT_BYTES, PUSH_SLOTS, Sge, SqDoorbell, SqWqeCtrl, wqe_distance};
use hca_fw_core::{NUM_FUNCS, line_of};

use crate::card::Card;
use crate::data_path::send_header_bytes;

const SLOT_BYTES: usize = PUSH_SLOT_BYTES as usize;
const FUNC_BYTES: usize = PUSH_SLOTS as usize * SLOT_BYTES;

/// The slots of all functions.
#[derive(Debug)]
pub(crate) struct PushSlots(Vec<u8>);

impl PushSlots {
    pub(crate) fn new() -> Self {
        Self(vec![0; NUM_FUNCS * FUNC_BYTES])
    }
}

impl Card {
    /// A word for a slot; `offset` counts from the function's first one. False: there is no slot.
    pub(crate) fn push_word(&mut self, func: u8, offset: u32, value: u64) -> bool {
        let offset = offset as usize;
        if offset >= FUNC_BYTES || !offset.is_multiple_of(8) {
            return false;
        }
        let at = usize::from(func) * FUNC_BYTES + offset;
        self.push_slots.0[at..at + 8].copy_from_slice(&value.to_le_bytes());
        true
    }

    /// Before a doorbell that says that its last WQE was pushed.
    pub(crate) fn check_pushed(&mut self, func: u8, doorbell: &SqDoorbell) {
        let (qpn, index) = (doorbell.qpn(), wqe_distance(1, doorbell.producer_index()));
        let qpc = self.qpc(qpn);
        let Some(rings) = self.qps.get(&line_of(qpn)) else {
            return; // the doorbell itself is a violation
        };
        if rings.sq_consumer != index {
            let consumer = rings.sq_consumer;
            self.violation(format!(
                "QP {qpn:#x}: WQE {index:#x} was pushed while {consumer:#x} is under way"
            ));
        }
        let at = usize::from(func) * FUNC_BYTES + usize::from(doorbell.push_slot()) * SLOT_BYTES;
        let pushed = self.push_slots.0[at..at + SLOT_BYTES].to_vec();
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
}
