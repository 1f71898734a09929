//! Doorbells: the only MMIO of the data path.

use std::sync::atomic::{Ordering, fence};

use hca_abi::{
    ADMIN_DOORBELL_OFFSET, AdminDoorbell, CQ_DOORBELL_OFFSET, CqArm, CqDoorbell, DOORBELL_PAGE_OFFSET,
    EQ_DOORBELL_OFFSET, EqDoorbell, PUSH_SLOT_BYTES, PUSH_SLOTS_OFFSET, RQ_DOORBELL_OFFSET, RqDoorbell,
    SQ_DOORBELL_OFFSET, SRQ_DOORBELL_OFFSET, SqDoorbell, SrqDoorbell, wqe_index,
};
use hca_dev::Device;

use crate::base::device::DevicePtr;

/// The doorbell page of a function.
#[derive(Clone)]
pub struct Doorbells<P> {
    dev: P,
}

impl<P: DevicePtr> Doorbells<P> {
    /// The doorbells of a device.
    pub fn new(dev: P) -> Self {
        Self { dev }
    }

    /// The device.
    pub fn device(&self) -> &P::Target {
        &self.dev
    }

    /// The hardware promises: "everything stored to DMA memory before an MMIO write is visible to the card
    /// before the write arrives" ([`Device`]). The fence keeps the compiler and the processor to the same
    /// order.
    #[inline]
    fn ring(&self, offset: u32, word: u64) {
        fence(Ordering::Release);
        self.dev.mmio_write64(DOORBELL_PAGE_OFFSET + offset, word);
    }

    /// `producer_index`: index after the last send WQE posted.
    #[inline]
    pub fn send(&self, qpn: u32, producer_index: u32) {
        let mut word = SqDoorbell::new();
        word.set_qpn(qpn);
        word.set_producer_index(wqe_index(producer_index));
        self.ring(SQ_DOORBELL_OFFSET, word.to_word());
    }

    /// As [`Doorbells::send`]; the last WQE posted, which lies in the ring, goes to a push slot before. `wqe`: at most
    /// `PUSH_SLOT_BYTES`; what is missing of its last eight bytes is zero.
    #[inline]
    pub fn send_pushed(&self, qpn: u32, producer_index: u32, slot: u8, wqe: &[u8]) {
        debug_assert!(wqe.len() <= PUSH_SLOT_BYTES as usize);
        let slot_offset = PUSH_SLOTS_OFFSET + u32::from(slot) * PUSH_SLOT_BYTES;
        fence(Ordering::Release);
        for (offset, chunk) in (slot_offset..).step_by(8).zip(wqe.chunks(8)) {
            let mut bytes = [0; 8];
            bytes[..chunk.len()].copy_from_slice(chunk);
            self.dev.mmio_write64(offset, u64::from_le_bytes(bytes));
        }
        let mut word = SqDoorbell::new();
        word.set_qpn(qpn);
        word.set_producer_index(wqe_index(producer_index));
        word.set_push(true);
        word.set_push_slot(slot);
        self.ring(SQ_DOORBELL_OFFSET, word.to_word());
    }

    /// `producer_index`: index after the last receive WQE posted.
    #[inline]
    pub fn recv(&self, qpn: u32, producer_index: u32) {
        let mut word = RqDoorbell::new();
        word.set_qpn(qpn);
        word.set_producer_index(wqe_index(producer_index));
        self.ring(RQ_DOORBELL_OFFSET, word.to_word());
    }

    /// `producer_index`: index after the last entry of the SRQ's list.
    #[inline]
    pub fn srq(&self, srqn: u32, producer_index: u32) {
        let mut word = SrqDoorbell::new();
        word.set_srqn(srqn);
        word.set_producer_index(wqe_index(producer_index));
        self.ring(SRQ_DOORBELL_OFFSET, word.to_word());
    }

    /// `consumer_index`: index after the last CQE taken, 24 bits.
    #[inline]
    pub fn cq(&self, cqn: u32, consumer_index: u32, arm: CqArm) {
        let mut word = CqDoorbell::new();
        word.set_cqn(cqn);
        word.set_arm(arm.into());
        word.set_consumer_index(consumer_index);
        self.ring(CQ_DOORBELL_OFFSET, word.to_word());
    }

    /// `consumer_index`: index after the last EQE taken.
    pub fn eq(&self, eqn: u8, consumer_index: u16) {
        let mut word = EqDoorbell::new();
        word.set_eqn(eqn);
        word.set_consumer_index(consumer_index);
        self.ring(EQ_DOORBELL_OFFSET, word.to_word());
    }

    /// `producer_index`: index after the last admin command.
    pub fn admin(&self, producer_index: u16) {
        let mut word = AdminDoorbell::new();
        word.set_producer_index(producer_index);
        self.ring(ADMIN_DOORBELL_OFFSET, word.to_word());
    }
}
