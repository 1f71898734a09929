//! The in-process device: a driver in the same thread as the simulation, whose waiting lets simulated time
//! pass.

use std::cell::{Cell, RefCell, RefMut};
use std::rc::Rc;
use std::sync::Arc;

use hca_dev::{Device, DeviceError, DeviceInfo, DmaBuf, RING_IOVA_BASE, SharedMem, UserMemory, user_iova};
use hca_host::{Fault, IommuMap, Memory};

use crate::containment::{lost_write, reset_function};
use crate::fabric::{CardId, Fabric};
use crate::{BAR_LEN_BYTES, NUM_VECTORS, SimError};

/// Time a driver's empty poll takes when nothing happens meanwhile.
const POLL_CYCLES: u64 = 64;
/// The same where all cards are without gates, and with what any of them makes visible it is over: there is nothing
/// that would be worth looking at in between.
const PLAIN_POLL_CYCLES: u64 = 512;
/// A register read that takes longer is given up.
const MMIO_READ_CYCLES: u64 = 1_000_000;
/// What bus addresses of allocated memory are multiples of: the largest page that memory of this machine may have
/// without being asked.
const ADDRESS_STEP: u64 = 2 << 20;

/// A fabric shared by the drivers of its cards.
#[derive(Clone)]
pub struct Simulation {
    fabric: Rc<RefCell<Fabric>>,
    /// Bus address of what is allocated next. By order, not by where this process has the memory: firmware on the
    /// card's own processor takes other times for other addresses.
    next_iova: Rc<Cell<u64>>,
}

impl Simulation {
    /// Takes the fabric over. A function whose write is lost is cut off; see
    /// [`hca_host::Host::contain_lost_writes`].
    pub fn new(mut fabric: Fabric) -> Self {
        for card in fabric.cards() {
            fabric.host_mut(card).contain_lost_writes(true);
        }
        Self {
            fabric: Rc::new(RefCell::new(fabric)),
            next_iova: Rc::new(Cell::new(RING_IOVA_BASE)),
        }
    }

    /// From now on a function whose write is lost goes on without it, as on hosts that only log; it is counted.
    pub fn let_writes_be_lost(&self) {
        let mut fabric = self.fabric();
        for card in fabric.cards() {
            fabric.host_mut(card).contain_lost_writes(false);
        }
    }

    /// The fabric, to look at or to change. Not to be held across calls of devices.
    pub fn fabric(&self) -> RefMut<'_, Fabric> {
        self.fabric.borrow_mut()
    }

    /// One function of a card; one that was cut off is let in again.
    pub fn device(&self, card: CardId, func: u8) -> Result<SimDevice, SimError> {
        let mut fabric = self.fabric();
        fabric.check_function(card, func)?;
        if let Some(map) = fabric.host_mut(card).function(func) {
            map.set_bus_master(true);
        }
        drop(fabric);
        Ok(SimDevice {
            sim: self.clone(),
            card,
            func,
        })
    }
}

/// One function of a simulated card.
#[derive(Clone)]
pub struct SimDevice {
    sim: Simulation,
    card: CardId,
    func: u8,
}

impl SimDevice {
    /// The card it belongs to.
    pub fn card(&self) -> CardId {
        self.card
    }

    /// The simulation it belongs to.
    pub fn simulation(&self) -> &Simulation {
        &self.sim
    }

    fn with_map<T>(&self, action: impl FnOnce(&mut IommuMap) -> T) -> Result<T, DeviceError> {
        let mut fabric = self.sim.fabric();
        let map = fabric.host_mut(self.card).function(self.func);
        map.map(action)
            .ok_or_else(|| DeviceError::Gone(format!("the card has no function {}", self.func)))
    }

    /// The write for which this function is cut off. Whoever looks resets those of the card that have just been.
    fn lost_write(&self, fabric: &mut Fabric) -> Option<Fault> {
        while let Some(func) = fabric.host_mut(self.card).take_contained() {
            reset_function(fabric, self.card, func);
        }
        lost_write(fabric, self.card, self.func)
    }

    fn write_register(&self, offset: u32, data: u64, strb: u8) {
        let mut fabric = self.sim.fabric();
        if self.lost_write(&mut fabric).is_none() {
            fabric.mmio_write(self.card, self.func, offset as u16, data, strb);
        }
    }

    fn map(&self, iova: u64, len_bytes: usize, memory: Memory) -> Result<(), DeviceError> {
        self.with_map(|map| map.map(iova, len_bytes as u64, memory))?
            .map_err(|e| DeviceError::Map {
                addr: iova,
                len_bytes,
                reason: e.to_string(),
            })
    }
}

impl Device for SimDevice {
    fn info(&self) -> DeviceInfo {
        let fabric = self.sim.fabric();
        let name = format!("{}.{}", fabric.card(self.card).name(), self.func);
        DeviceInfo {
            name,
            bar_len_bytes: BAR_LEN_BYTES,
            num_vectors: NUM_VECTORS,
        }
    }

    fn mmio_write32(&self, offset: u32, value: u32) {
        let high = offset & 4 != 0;
        let (data, strb) = if high {
            (u64::from(value) << 32, 0xf0)
        } else {
            (u64::from(value), 0x0f)
        };
        self.write_register(offset, data, strb);
    }

    fn mmio_write64(&self, offset: u32, value: u64) {
        self.write_register(offset, value, 0xff);
    }

    fn mmio_read32(&self, offset: u32) -> u32 {
        let mut fabric = self.sim.fabric();
        if self.lost_write(&mut fabric).is_some() {
            return u32::MAX;
        }
        let id = fabric.mmio_read(self.card, self.func, offset as u16);
        let limit = fabric.now() + MMIO_READ_CYCLES;
        while fabric.step(limit) {
            // One thread reads registers, and waits for each: a value with another id belongs to a read given
            // up.
            while let Some((found, value)) = fabric.take_mmio_value(self.card) {
                if found == id {
                    return value;
                }
            }
        }
        u32::MAX
    }

    fn alloc_dma(&self, len_bytes: usize) -> Result<DmaBuf, DeviceError> {
        let memory = Arc::new(SharedMem::unnamed(len_bytes)?);
        let iova = self.sim.next_iova.get();
        let end = iova + memory.len_bytes() as u64;
        self.sim.next_iova.set(end.next_multiple_of(ADDRESS_STEP));
        let buf = DmaBuf::new(memory.clone(), iova);
        self.map(buf.iova(), buf.len_bytes(), Memory::Shared { memory, offset: 0 })?;
        Ok(buf)
    }

    fn free_dma(&self, buf: DmaBuf) -> Result<(), DeviceError> {
        self.unmap_dma(buf.iova(), buf.len_bytes())
    }

    fn map_dma(&self, memory: UserMemory) -> Result<u64, DeviceError> {
        let iova = user_iova(&memory)?;
        self.map(iova, memory.len_bytes(), Memory::User(memory))?;
        Ok(iova)
    }

    fn unmap_dma(&self, iova: u64, len_bytes: usize) -> Result<(), DeviceError> {
        self.with_map(|map| map.unmap(iova, len_bytes as u64))?
            .map_err(|_| DeviceError::NotMapped { iova, len_bytes })
    }

    fn progress(&self) {
        let mut fabric = self.sim.fabric();
        if fabric.is_plain() {
            let limit = fabric.now() + PLAIN_POLL_CYCLES;
            let seen = fabric.host_writes();
            while fabric.step(limit) && fabric.now() < limit && fabric.host_writes() == seen {}
        } else {
            let limit = fabric.now() + POLL_CYCLES;
            let seen = fabric.card(self.card).host_writes();
            while fabric.step(limit) && fabric.now() < limit && fabric.card(self.card).host_writes() == seen {
            }
        }
        self.lost_write(&mut fabric);
    }

    fn is_gone(&self) -> bool {
        self.lost_write(&mut self.sim.fabric()).is_some()
    }

    fn why_gone(&self) -> Option<String> {
        let mut fabric = self.sim.fabric();
        let lost = self.lost_write(&mut fabric)?;
        Some(format!("{}: {lost}", fabric.card(self.card).name()))
    }

    fn wait_irq(&self, vector: u16, deadline_ns: u64) -> Result<bool, DeviceError> {
        if vector >= NUM_VECTORS {
            return Err(DeviceError::BadVector {
                vector,
                num_vectors: NUM_VECTORS,
            });
        }
        let mut fabric = self.sim.fabric();
        let limit = fabric.card(self.card).pcie().params().cycles(deadline_ns);
        loop {
            if fabric.card_mut(self.card).take_interrupts(self.func, vector) > 0 {
                return Ok(true);
            }
            if fabric.now() >= limit || self.lost_write(&mut fabric).is_some() {
                return Ok(false);
            }
            fabric.step(limit);
        }
    }

    fn now_ns(&self) -> u64 {
        self.sim.fabric().now_ns(self.card)
    }
}
