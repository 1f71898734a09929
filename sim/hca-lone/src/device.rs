//! The card as a driver reaches it.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use hca_abi::{BAR0_BYTES, DOORBELL_PAGE_OFFSET, OpVls};
use hca_dev::{Device, DeviceError, DeviceInfo, DmaBuf, UserMemory};
use hca_fw_core::{Firmware, Identity, NUM_FUNCS, Quotas, SHARING_FUNCS};

use crate::card::{Hardware, VECTORS};

/// Time of one call of `progress`.
const TURN_NS: u64 = 100;
/// Time of a read of a register.
const READ_NS: u64 = 256;

struct Inner {
    hardware: Hardware,
    firmware: Box<Firmware>,
    firmware_hangs: bool,
    gone: bool,
}

/// A function of a card with nothing around it.
pub struct LoneCard {
    inner: Arc<Mutex<Inner>>,
    func: u8,
}

impl Default for LoneCard {
    fn default() -> Self {
        Self::new()
    }
}

impl LoneCard {
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
    pub fn with(identity: Identity, prepare: impl FnOnce(&mut Hardware)) -> Self {
        Self::of_quotas(identity, SHARING_FUNCS.into(), prepare)
    }

    /// The same with its tables divided so.
    pub fn of_quotas(identity: Identity, quotas: Quotas, prepare: impl FnOnce(&mut Hardware)) -> Self {
        let mut hardware = Hardware::new();
        prepare(&mut hardware);
        let mut firmware = Firmware::boxed_for(quotas);
        firmware.set_neighbours(&Self::neighbour().neighbours(1).collect::<Vec<_>>());
        firmware.init(&mut hardware, identity);
        let inner = Inner {
            hardware,
            firmware,
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

    /// One turn of firmware, and a packet; false: neither had anything to do.
    pub fn turn(&self) -> bool {
        self.inner().turn()
    }

    /// Looks at the card, or changes it.
    pub fn with_card<T>(&self, f: impl FnOnce(&mut Hardware) -> T) -> T {
        f(&mut self.inner().hardware)
    }

    /// Looks into the firmware, or changes it.
    pub fn with_firmware<T>(&self, f: impl FnOnce(&mut Firmware) -> T) -> T {
        f(&mut self.inner().firmware)
    }

    /// Starts firmware again on the card as it is.
    pub fn restart(&self, start: impl FnOnce(&mut Box<Firmware>, &mut Hardware)) {
        let inner = &mut *self.inner();
        start(&mut inner.firmware, &mut inner.hardware);
    }

    /// From now on firmware does nothing (or works again).
    pub fn set_firmware_hangs(&self, hangs: bool) {
        self.inner().firmware_hangs = hangs;
    }

    /// From now on the card answers nothing, as after surprise removal.
    pub fn set_gone(&self) {
        self.inner().gone = true;
    }

    /// Runs firmware and moves packets until there is nothing to do. What waits for a time still waits.
    pub fn settle(&self) {
        while self.inner().turn() {}
    }

    /// Panics if anything was done against the contract.
    pub fn assert_no_violations(&self) {
        let inner = self.inner();
        assert!(
            inner.hardware.violations.is_empty(),
            "violations of the contract: {:#?}",
            inner.hardware.violations
        );
    }
}

impl Inner {
    fn turn(&mut self) -> bool {
        if self.gone {
            self.hardware.now_ns += TURN_NS;
            return false;
        }
        self.hardware.pass_ns(TURN_NS);
        let firmware_worked = !self.firmware_hangs && self.firmware.poll(&mut self.hardware);
        let packet_moved = self.hardware.auto && self.hardware.move_packet();
        firmware_worked || packet_moved
    }
}

impl Device for LoneCard {
    fn info(&self) -> DeviceInfo {
        DeviceInfo {
            name: format!("lone0.{}", self.func),
            bar_len_bytes: BAR0_BYTES,
            num_vectors: VECTORS,
        }
    }

    fn mmio_write32(&self, offset: u32, value: u32) {
        let inner = &mut *self.inner();
        if inner.gone {
            return;
        }
        if offset >= DOORBELL_PAGE_OFFSET || !offset.is_multiple_of(4) {
            return inner.hardware.violation(format!("32-bit write to {offset:#x}"));
        }
        let shift = 8 * (offset & 4);
        let Hardware { card, host, .. } = &mut inner.hardware;
        card.write_register(
            host,
            self.func,
            offset as u16,
            u64::from(value) << shift,
            0xf << (offset & 4),
        );
    }

    fn mmio_write64(&self, offset: u32, value: u64) {
        let inner = &mut *self.inner();
        if inner.gone {
            return;
        }
        inner.hardware.audit_doorbell(self.func, offset, value);
        let Hardware { card, host, .. } = &mut inner.hardware;
        if let Ok(offset) = u16::try_from(offset) {
            card.write_register(host, self.func, offset, value, 0xff);
        }
    }

    fn mmio_read32(&self, offset: u32) -> u32 {
        let inner = &mut *self.inner();
        if inner.gone {
            return u32::MAX;
        }
        inner.hardware.pass_ns(READ_NS);
        let offset = u16::try_from(offset);
        offset.map_or(u32::MAX, |offset| {
            inner.hardware.card.read_register(self.func, offset)
        })
    }

    fn alloc_dma(&self, len_bytes: usize) -> Result<DmaBuf, DeviceError> {
        self.inner().hardware.host.alloc(len_bytes)
    }

    fn free_dma(&self, buf: DmaBuf) -> Result<(), DeviceError> {
        self.inner().hardware.host.unmap(buf.iova(), buf.len_bytes())
    }

    fn map_dma(&self, memory: UserMemory) -> Result<u64, DeviceError> {
        self.inner().hardware.host.map(memory.len_bytes())
    }

    fn unmap_dma(&self, iova: u64, len_bytes: usize) -> Result<(), DeviceError> {
        self.inner().hardware.host.unmap(iova, len_bytes)
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
            if inner.hardware.host.take_interrupts(vector) > 0 {
                return Ok(true);
            }
            if inner.hardware.now_ns >= deadline_ns {
                return Ok(false);
            }
            inner.turn();
        }
    }

    fn now_ns(&self) -> u64 {
        self.inner().hardware.now_ns
    }
}
