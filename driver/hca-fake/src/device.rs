//! The functions of the fake card as devices of `hca-dev`.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use hca_abi::{
    ADMIN_DOORBELL_OFFSET, AdminDoorbell, BAR0_BYTES, CQ_DOORBELL_OFFSET, CqDoorbell, DOORBELL_PAGE_OFFSET,
    EQ_DOORBELL_OFFSET, EqDoorbell, OpVls, PUSH_SLOTS_OFFSET, RQ_DOORBELL_OFFSET, RqDoorbell,
    SQ_DOORBELL_OFFSET, SRQ_DOORBELL_OFFSET, SqDoorbell, SrqDoorbell,
};
use hca_dev::{Device, DeviceError, DeviceInfo, DmaBuf, UserMemory};
use hca_fw_core::{Firmware, Identity, NUM_FUNCS};

use crate::card::{Card, VECTORS};
use crate::queues::Queue;

/// Simulated time of one call of `progress`.
const TURN_NS: u64 = 100;

struct Inner {
    card: Card,
    firmware: Box<Firmware>,
    now_ns: u64,
    firmware_hangs: bool,
    gone: bool,
}

/// A function of a fake card with real firmware.
pub struct FakeDevice {
    inner: Arc<Mutex<Inner>>,
    func: u8,
}

impl Default for FakeDevice {
    fn default() -> Self {
        Self::new()
    }
}

impl FakeDevice {
    /// Card number 0 of the simulated network, port on Ethernet.
    pub fn new() -> Self {
        Self::with(Self::identity(), |_| ())
    }

    /// The same on InfiniBand.
    pub fn infiniband() -> Self {
        let identity = Identity {
            infiniband: true,
            ..Self::identity()
        };
        Self::with(identity, |_| ())
    }

    /// Who card number 0 is.
    pub fn identity() -> Identity {
        Identity {
            guid: [0, 0, 10, 0xff, 0xfe, 0, 0, 1],
            mac: [2, 0, 10, 0, 0, 1],
            ipv4: [10, 0, 0, 1],
            ipv6: std::net::Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 1).octets(),
            lid: 1,
            infiniband: false,
            self_active: true,
            peer_vls: OpVls::Fifteen,
            rate_mbps: 100_000,
        }
    }

    /// Who card number 1 is: the neighbour.
    pub fn neighbour() -> Identity {
        Identity {
            guid: [0, 0, 10, 0xff, 0xfe, 0, 0, 2],
            mac: [2, 0, 10, 0, 0, 2],
            ipv4: [10, 0, 0, 2],
            ipv6: std::net::Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 2).octets(),
            lid: 2,
            ..Self::identity()
        }
    }

    /// A card with that identity and its neighbour; `prepare` changes it before its firmware starts.
    pub fn with(identity: Identity, prepare: impl FnOnce(&mut Card)) -> Self {
        let mut card = Card::new();
        prepare(&mut card);
        let mut firmware = Firmware::boxed();
        firmware.set_neighbours(&Self::neighbour().neighbours(1).collect::<Vec<_>>());
        firmware.init(&mut card, identity);
        let inner = Inner {
            card,
            firmware,
            now_ns: 0,
            firmware_hangs: false,
            gone: false,
        };
        Self {
            inner: Arc::new(Mutex::new(inner)),
            func: 0,
        }
    }

    /// Another function of the same card, which must have it.
    pub fn function(&self, func: u8) -> Self {
        assert!(usize::from(func) < NUM_FUNCS, "function {func}");
        Self {
            inner: self.inner.clone(),
            func,
        }
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        // A test that has panicked may still look.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// One turn of firmware and the data path; false: neither had anything to do.
    pub fn turn(&self) -> bool {
        self.inner().turn()
    }

    /// Looks at the card, or changes it.
    pub fn with_card<T>(&self, f: impl FnOnce(&mut Card) -> T) -> T {
        f(&mut self.inner().card)
    }

    /// Looks into the firmware, or changes it.
    pub fn with_firmware<T>(&self, f: impl FnOnce(&mut Firmware) -> T) -> T {
        f(&mut self.inner().firmware)
    }

    /// Starts firmware again on the card as it is.
    pub fn restart(&self, start: impl FnOnce(&mut Box<Firmware>, &mut Card)) {
        let inner = &mut *self.inner();
        start(&mut inner.firmware, &mut inner.card);
    }

    /// From now on firmware does nothing (or works again).
    pub fn set_firmware_hangs(&self, hangs: bool) {
        self.inner().firmware_hangs = hangs;
    }

    /// From now on the card answers nothing, as after surprise removal.
    pub fn set_gone(&self) {
        self.inner().gone = true;
    }

    /// Runs firmware and the data path until neither has anything to do.
    pub fn settle(&self) {
        while self.inner().turn() {}
    }

    /// Panics if the card was given anything that breaks the contract.
    pub fn assert_no_violations(&self) {
        let inner = self.inner();
        assert!(
            inner.card.violations.is_empty(),
            "violations of the contract: {:#?}",
            inner.card.violations
        );
    }
}

impl Inner {
    fn turn(&mut self) -> bool {
        self.now_ns += TURN_NS;
        if self.gone {
            return false;
        }
        self.card.pass_time(TURN_NS);
        let firmware_worked = !self.firmware_hangs && self.firmware.poll(&mut self.card);
        let data_moved = self.card.auto && self.card.step();
        firmware_worked || data_moved
    }
}

impl Device for FakeDevice {
    fn info(&self) -> DeviceInfo {
        DeviceInfo {
            name: format!("fake0.{}", self.func),
            bar_len_bytes: BAR0_BYTES,
            num_vectors: VECTORS,
        }
    }

    fn mmio_write32(&self, offset: u32, value: u32) {
        let inner = &mut *self.inner();
        match () {
            () if inner.gone => {}
            () if offset < DOORBELL_PAGE_OFFSET => inner.card.func_write(self.func.into(), offset, value),
            () => inner.card.violation(format!("32-bit write to {offset:#x}")),
        }
    }

    fn mmio_write64(&self, offset: u32, value: u64) {
        let inner = &mut *self.inner();
        if inner.gone {
            return;
        }
        let card = &mut inner.card;
        match offset.wrapping_sub(DOORBELL_PAGE_OFFSET) {
            SQ_DOORBELL_OFFSET => {
                let db = SqDoorbell::from_word(value);
                if db.push() {
                    card.check_pushed(self.func, &db);
                }
                card.qp_doorbell(Queue::Send, db.qpn(), db.producer_index());
            }
            RQ_DOORBELL_OFFSET => {
                let db = RqDoorbell::from_word(value);
                card.qp_doorbell(Queue::Recv, db.qpn(), db.producer_index());
            }
            CQ_DOORBELL_OFFSET => {
                let db = CqDoorbell::from_word(value);
                card.cq_doorbell(db.cqn(), db.consumer_index(), db.arm());
            }
            EQ_DOORBELL_OFFSET => {
                let db = EqDoorbell::from_word(value);
                card.eq_doorbell(db.eqn(), db.consumer_index());
            }
            SRQ_DOORBELL_OFFSET => {
                let db = SrqDoorbell::from_word(value);
                card.srq_doorbell(self.func, db.srqn(), db.producer_index());
            }
            ADMIN_DOORBELL_OFFSET => {
                let producer = AdminDoorbell::from_word(value).producer_index();
                card.admin_doorbell(self.func, producer);
            }
            _ if card.push_word(self.func, offset.wrapping_sub(PUSH_SLOTS_OFFSET), value) => {}
            other => card.violation(format!("64-bit write to offset {other:#x} of the doorbell page")),
        }
    }

    fn mmio_read32(&self, offset: u32) -> u32 {
        let inner = &mut *self.inner();
        if inner.gone {
            u32::MAX
        } else {
            inner.card.func_read(self.func.into(), offset)
        }
    }

    fn alloc_dma(&self, len_bytes: usize) -> Result<DmaBuf, DeviceError> {
        self.inner().card.host.alloc(len_bytes)
    }

    fn free_dma(&self, buf: DmaBuf) -> Result<(), DeviceError> {
        self.inner().card.host.unmap(buf.iova(), buf.len_bytes())
    }

    fn map_dma(&self, memory: UserMemory) -> Result<u64, DeviceError> {
        self.inner().card.host.map(memory.len_bytes())
    }

    fn unmap_dma(&self, iova: u64, len_bytes: usize) -> Result<(), DeviceError> {
        self.inner().card.host.unmap(iova, len_bytes)
    }

    fn progress(&self) {
        self.inner().turn();
    }

    fn wait_irq(&self, vector: u16, deadline_ns: u64) -> Result<bool, DeviceError> {
        if vector >= VECTORS {
            return Err(DeviceError::BadVector {
                vector,
                num_vectors: VECTORS,
            });
        }
        let inner = &mut *self.inner();
        loop {
            if std::mem::take(&mut inner.card.irqs[usize::from(vector)]) > 0 {
                return Ok(true);
            }
            if inner.now_ns >= deadline_ns {
                return Ok(false);
            }
            inner.turn();
        }
    }

    fn now_ns(&self) -> u64 {
        self.inner().now_ns
    }
}
