//! A function of a card: bring-up and shutdown.

use std::fmt;

use hca_abi::{ABI_VERSION, AdminStatus, HCA_ID, MAX_LOG_ADMIN_SIZE, SetContextMemoryCmd};
use hca_dev::{Device, DmaBuf};
use hca_regs as reg;

use crate::base::device::DevicePtr;
use crate::base::doorbell::Doorbells;
use crate::base::error::DriverError;
use crate::function::admin::AdminQueue;
use crate::function::key_table::KeyTable;

/// How to open a function. Times are in the device's clock: simulated time in-process, else a monotonic
/// clock.
#[derive(Clone, Copy, Debug)]
pub struct OpenOptions {
    /// log2 of the entries of the admin rings, at most 10.
    pub admin_log_size: u8,
    /// How long the card may take to become ready, and to reset the function.
    pub ready_timeout_ns: u64,
    /// How long an admin command may take.
    pub command_timeout_ns: u64,
    /// Function 0 gives the card the memory that it asks for, where QPs rest that have no line.
    pub gives_context_memory: bool,
}

impl Default for OpenOptions {
    /// 16 entries; 2 s each: far beyond what a card needs, also a simulated one behind a socket.
    fn default() -> Self {
        Self {
            admin_log_size: 4,
            ready_timeout_ns: 2_000_000_000,
            command_timeout_ns: 2_000_000_000,
            gives_context_memory: true,
        }
    }
}

impl OpenOptions {
    /// For simulated time: 20 ms for either, 5 million cycles of a card at 250 MHz.
    pub fn simulated() -> Self {
        Self {
            ready_timeout_ns: 20_000_000,
            command_timeout_ns: 20_000_000,
            ..Self::default()
        }
    }
}

/// What the registers say about a function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FunctionInfo {
    /// Function number on its card.
    pub func: u8,
    /// MSI-X vectors.
    pub vectors: u16,
    /// Card clock.
    pub clock_hz: u32,
}

/// An open function. Dropping it resets the function on the card: everything it made is gone then.
pub struct Function<P: DevicePtr> {
    pub(crate) admin: AdminQueue<P>,
    pub(crate) keys: KeyTable,
    /// Where QPs of the card rest that have no line.
    contexts: Option<DmaBuf>,
    pub(crate) dev: P,
    info: FunctionInfo,
    ready_timeout_ns: u64,
}

impl<P: DevicePtr> Function<P> {
    /// Checks that the card speaks our contract, resets the function, and starts its admin queue.
    pub fn open(dev: P, options: &OpenOptions) -> Result<Self, DriverError> {
        let max = MAX_LOG_ADMIN_SIZE as u8;
        let log_size = options.admin_log_size;
        if log_size > max {
            let (value, max) = (log_size.into(), max.into());
            return Err(DriverError::TooLarge {
                what: "admin_log_size",
                value,
                max,
            });
        }
        check_identity(&*dev)?;
        wait_ready(&*dev, options.ready_timeout_ns)?;
        reset(&*dev, options.ready_timeout_ns)?;
        let rings = alloc_pair(&*dev, AdminQueue::<P>::ring_bytes(log_size))?;
        for (lo, hi, ring) in [
            (reg::FUNC_ADMIN_SQ_BASE_LO, reg::FUNC_ADMIN_SQ_BASE_HI, &rings.0),
            (reg::FUNC_ADMIN_CQ_BASE_LO, reg::FUNC_ADMIN_CQ_BASE_HI, &rings.1),
        ] {
            dev.mmio_write32(lo, ring.iova() as u32);
            dev.mmio_write32(hi, (ring.iova() >> 32) as u32);
        }
        dev.mmio_write32(reg::FUNC_ADMIN_LOG_SIZE, log_size.into());
        dev.mmio_write32(reg::FUNC_CONTROL, reg::FUNC_CONTROL_ENABLE_MASK);
        let word = dev.mmio_read32(reg::FUNC_FUNC_INFO);
        let info = FunctionInfo {
            func: reg::field(word, reg::FUNC_FUNC_INFO_FUNC_NUMBER_MASK) as u8,
            vectors: reg::field(word, reg::FUNC_FUNC_INFO_VECTORS_MASK) as u16,
            clock_hz: dev.mmio_read32(reg::FUNC_CLOCK_HZ),
        };
        let doorbells = Doorbells::new(dev.clone());
        let admin = AdminQueue::new(doorbells, rings, log_size, options.command_timeout_ns);
        // From here on dropping releases everything.
        let mut function = Self {
            admin,
            keys: KeyTable::default(),
            contexts: None,
            dev,
            info,
            ready_timeout_ns: options.ready_timeout_ns,
        };
        function.nop()?;
        if info.func == 0 && options.gives_context_memory {
            function.give_context_memory()?;
        }
        Ok(function)
    }

    /// Gives the card the memory that it asks function 0 for. Where other functions have QPs already it is too late:
    /// firmware goes on keeping those that rest.
    fn give_context_memory(&mut self) -> Result<(), DriverError> {
        let log_bytes = self.query_device()?.log_context_bytes();
        if log_bytes == 0 {
            return Ok(());
        }
        let len_bytes = 1usize.checked_shl(log_bytes.into()).unwrap_or(usize::MAX);
        let buf = self.dev.alloc_dma(len_bytes)?;
        let mut cmd = SetContextMemoryCmd::new();
        cmd.set_base(buf.iova());
        cmd.set_bytes(len_bytes as u64);
        match self.set_context_memory(&cmd) {
            Ok(()) => self.contexts = Some(buf),
            Err(DriverError::Admin(refusal)) if refusal.status == AdminStatus::InUse => {
                self.dev.free_dma(buf)?
            }
            Err(error) => {
                self.dev.free_dma(buf)?;
                return Err(error);
            }
        }
        Ok(())
    }

    /// The device.
    pub fn device(&self) -> &P {
        &self.dev
    }

    /// What the registers say.
    pub fn info(&self) -> FunctionInfo {
        self.info
    }

    /// Is the link of the port up?
    pub fn link_up(&self) -> bool {
        reg::field(
            self.dev.mmio_read32(reg::FUNC_STATUS),
            reg::FUNC_STATUS_LINK_UP_MASK,
        ) != 0
    }

    /// Card cycles since power on.
    pub fn time_cycles(&self) -> u64 {
        let mut hi = self.dev.mmio_read32(reg::FUNC_TIME_HI);
        loop {
            let lo = self.dev.mmio_read32(reg::FUNC_TIME_LO);
            let again = self.dev.mmio_read32(reg::FUNC_TIME_HI);
            // The high word changes every 17 s: one more turn at most.
            if again == hi {
                return u64::from(hi) << 32 | u64::from(lo);
            }
            hi = again;
        }
    }
}

impl<P: DevicePtr> fmt::Debug for Function<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Function")
            .field("info", &self.info)
            .finish_non_exhaustive()
    }
}

impl<P: DevicePtr> Drop for Function<P> {
    fn drop(&mut self) {
        // A card that does not answer can no longer be told anything; its memory is released all the same.
        let _ = reset(&*self.dev, self.ready_timeout_ns);
        for memory in self
            .admin
            .memory()
            .into_iter()
            .chain(self.keys.end())
            .chain(self.contexts.take())
        {
            let _ = self.dev.free_dma(memory);
        }
    }
}

fn alloc_pair<D: Device + ?Sized>(dev: &D, len_bytes: usize) -> Result<(DmaBuf, DmaBuf), DriverError> {
    let first = dev.alloc_dma(len_bytes)?;
    match dev.alloc_dma(len_bytes) {
        Ok(second) => Ok((first, second)),
        Err(e) => {
            dev.free_dma(first)?;
            Err(e.into())
        }
    }
}

fn check_identity<D: Device + ?Sized>(dev: &D) -> Result<(), DriverError> {
    let device = || dev.info().name;
    let id = dev.mmio_read32(reg::FUNC_ID);
    if id != HCA_ID {
        return Err(DriverError::NotOurs { device: device(), id });
    }
    let found = dev.mmio_read32(reg::FUNC_ABI_VERSION);
    if found != ABI_VERSION {
        return Err(DriverError::AbiVersion {
            device: device(),
            found,
            wanted: ABI_VERSION,
        });
    }
    Ok(())
}

fn wait_ready<D: Device + ?Sized>(dev: &D, timeout_ns: u64) -> Result<(), DriverError> {
    wait(dev, timeout_ns, "STATUS.ready", |dev| {
        let status = dev.mmio_read32(reg::FUNC_STATUS);
        match status {
            u32::MAX => Err(DriverError::Gone),
            _ if reg::field(status, reg::FUNC_STATUS_FATAL_MASK) != 0 => Err(DriverError::Fatal),
            _ => Ok(reg::field(status, reg::FUNC_STATUS_READY_MASK) != 0),
        }
    })
}

/// Frees everything the function owns on the card, also what an earlier driver has left.
fn reset<D: Device + ?Sized>(dev: &D, timeout_ns: u64) -> Result<(), DriverError> {
    dev.mmio_write32(reg::FUNC_CONTROL, reg::FUNC_CONTROL_RESET_MASK);
    wait(dev, timeout_ns, "the end of a function reset", |dev| {
        match dev.mmio_read32(reg::FUNC_CONTROL) {
            u32::MAX => Err(DriverError::Gone),
            control => Ok(reg::field(control, reg::FUNC_CONTROL_RESET_MASK) == 0),
        }
    })
}

fn wait<D: Device + ?Sized>(
    dev: &D,
    timeout_ns: u64,
    what: &'static str,
    mut done: impl FnMut(&D) -> Result<bool, DriverError>,
) -> Result<(), DriverError> {
    let start_ns = dev.now_ns();
    while !done(dev)? {
        let waited_ns = dev.now_ns().saturating_sub(start_ns);
        if waited_ns > timeout_ns {
            return Err(DriverError::Timeout { what, waited_ns });
        }
        dev.progress();
    }
    Ok(())
}
