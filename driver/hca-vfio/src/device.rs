//! One function of a card behind the kernel's VFIO.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Instant;

use hca_dev::{Device, DeviceError, DeviceInfo, DmaBuf, SharedMem, UserMemory};
use vfio_bindings::bindings::vfio::{
    VFIO_DEVICE_FLAGS_RESET, VFIO_PCI_BAR0_REGION_INDEX, VFIO_PCI_CONFIG_REGION_INDEX,
    VFIO_REGION_INFO_FLAG_MMAP,
};

use crate::bar::Bar;
use crate::ioctl;
use crate::iova::IovaSpace;
use crate::irq::Interrupts;
use crate::limits;
use crate::mappings::{Iommu, MapError, Mappings, UnmapError};
use crate::open::{self, Kernel};
use crate::sysfs::{Bdf, Sysfs};

/// Empty polls in a row that keep the processor; after them the poller offers it to others.
const SPINS: u32 = 64;
/// A register that is never all ones.
const ID_REGISTER: u32 = 0;
/// A card that has silently gone is noticed after this time: asking it costs a register read.
const LOOK_NS: u64 = 100_000_000;
const SILENT: &str = "its registers read as ones: it was unplugged, has lost its power, or was cut off after an access \
                      that the IOMMU refused (the kernel's log names the address; of a simulated card hca sim does)";
/// Command register of the configuration space: memory space, bus master.
const COMMAND: u64 = 4;
const MEMORY_SPACE: u16 = 1 << 1;
const BUS_MASTER: u16 = 1 << 2;

/// What a lock guards.
#[derive(Debug)]
struct State {
    mappings: Mappings,
    /// None: the device is lost, and given back.
    kernel: Option<Kernel>,
}

/// A function of a card that `hca bind` has prepared. It belongs to this process until the value is dropped.
#[derive(Debug)]
pub struct VfioDevice {
    info: DeviceInfo,
    sysfs: Sysfs,
    bar: Bar,
    interrupts: Interrupts,
    state: Mutex<State>,
    is_lost: AtomicBool,
    why_lost: OnceLock<&'static str>,
    next_look_ns: AtomicU64,
    start: Instant,
}

/// A container's IOMMU domain.
struct Domain<'a>(&'a File);

impl Iommu for Domain<'_> {
    type Error = io::Error;

    fn map(&self, addr: u64, iova: u64, len_bytes: u64) -> io::Result<bool> {
        match ioctl::map_dma(self.0, addr, iova, len_bytes, true) {
            // Memory that the process itself cannot write serves as a source.
            Err(error) if error.raw_os_error() == Some(libc::EFAULT) => {
                ioctl::map_dma(self.0, addr, iova, len_bytes, false).map(|()| false)
            }
            result => result.map(|()| true),
        }
    }

    fn unmap(&self, iova: u64, len_bytes: u64) -> io::Result<()> {
        let done = ioctl::unmap_dma(self.0, iova, len_bytes)?;
        if done == len_bytes {
            Ok(())
        } else {
            Err(io::Error::other(format!(
                "{done} of {len_bytes} bytes were mapped"
            )))
        }
    }
}

fn os(what: &'static str) -> impl Fn(io::Error) -> DeviceError {
    move |reason| DeviceError::Os { what, reason }
}

/// Pages of the process and of the IOMMU: the larger of both.
fn page_bytes(iommu: u64) -> u64 {
    // SAFETY: a plain question to the C library.
    let process = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    iommu.max(u64::try_from(process).unwrap_or(0))
}

/// Sets bits of the command register, or clears them.
fn command(device: BorrowedFd<'_>, set: u16, clear: u16) -> io::Result<()> {
    let config = ioctl::region(device, VFIO_PCI_CONFIG_REGION_INDEX)?;
    let file = File::from(device.try_clone_to_owned()?);
    let at = config.offset + COMMAND;
    let mut word = [0; 2];
    file.read_exact_at(&mut word, at)?;
    let value = u16::from_le_bytes(word) & !clear | set;
    file.write_all_at(&value.to_le_bytes(), at)
}

/// Back to what the card is after power-on, where it can.
fn reset(device: BorrowedFd<'_>) -> io::Result<()> {
    if ioctl::device_flags(device)? & VFIO_DEVICE_FLAGS_RESET == 0 {
        // The driver's own reset of the function, which follows, frees what it owned; its bus master bit is off.
        return Ok(());
    }
    ioctl::reset(device)
}

impl VfioDevice {
    /// Opens a function that is bound to vfio-pci.
    pub fn open(bdf: Bdf) -> Result<Self, DeviceError> {
        Self::open_in(Sysfs::new(), bdf)
    }

    fn open_in(sysfs: Sysfs, bdf: Bdf) -> Result<Self, DeviceError> {
        let kernel = open::open(&sysfs, bdf)?;
        let device = kernel.device.as_fd();
        reset(device).map_err(open::failed(bdf, "reset it"))?;
        let iommu =
            ioctl::iommu_info(&kernel.container).map_err(open::failed(bdf, "ask what its IOMMU can do"))?;
        let page_bytes = page_bytes(iommu.page_bytes);
        let mappings = Mappings::new(IovaSpace::new(&iommu.ranges, page_bytes), page_bytes);
        let bar = map_bar(bdf, device)?;
        let interrupts = Interrupts::new(device).map_err(open::failed(bdf, "set its interrupts up"))?;
        // Last: before, it could not even have told us of its past.
        command(device, MEMORY_SPACE | BUS_MASTER, 0).map_err(open::failed(bdf, "let it be a bus master"))?;
        let info = DeviceInfo {
            name: bdf.to_string(),
            bar_len_bytes: bar.len_bytes() as u32,
            num_vectors: interrupts.count(),
        };
        let state = Mutex::new(State {
            mappings,
            kernel: Some(kernel),
        });
        Ok(Self {
            info,
            sysfs,
            bar,
            interrupts,
            state,
            is_lost: AtomicBool::new(false),
            why_lost: OnceLock::new(),
            next_look_ns: AtomicU64::new(0),
            start: Instant::now(),
        })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn gone(&self) -> DeviceError {
        let why = self.why_lost.get().copied().unwrap_or("it was taken away");
        DeviceError::Gone(format!("{}: {why}", self.info.name))
    }

    /// Gives everything back that the kernel holds for us: no mapping is left, and the device's descriptor is closed,
    /// so that whoever takes the card away need not wait for this process. Registers read as ones from now on.
    fn lose(&self, why: &'static str) {
        let mut state = self.state();
        let Some(kernel) = state.kernel.take() else {
            return;
        };
        // The reason is there before anybody can ask for it.
        let _ = self.why_lost.set(why);
        self.is_lost.store(true, Ordering::SeqCst);
        self.bar.detach();
        release(&kernel, &mut state.mappings);
        drop(state);
        // Whoever waits for an interrupt looks again.
        self.interrupts.wake();
    }

    /// The kernel says that the card is to go, or has failed.
    fn check_alarms(&self) -> bool {
        if let Some(alarm) = self.interrupts.alarm() {
            self.lose(alarm);
        }
        self.is_lost.load(Ordering::SeqCst)
    }

    /// One look at most for each interval.
    fn is_silent(&self) -> bool {
        let now_ns = self.now_ns();
        let next_ns = self.next_look_ns.load(Ordering::Relaxed);
        let is_mine = now_ns >= next_ns
            && self
                .next_look_ns
                .compare_exchange(next_ns, now_ns + LOOK_NS, Ordering::Relaxed, Ordering::Relaxed)
                .is_ok();
        is_mine && self.bar.read32(ID_REGISTER) == u32::MAX
    }

    fn map(&self, addr: u64, len_bytes: usize, may_share: bool) -> Result<u64, DeviceError> {
        let mut state = self.state();
        let State { mappings, kernel } = &mut *state;
        let Some(kernel) = kernel else {
            return Err(self.gone());
        };
        let made = mappings.map(&Domain(&kernel.container), addr, len_bytes as u64, may_share);
        made.map_err(|error| {
            let refused = |reason: &str| DeviceError::Map {
                addr,
                len_bytes,
                reason: reason.to_owned(),
            };
            match error {
                MapError::NoIova => {
                    refused("the IOMMU has no bus addresses left for so much: unregister other memory first")
                }
                MapError::NoRange => refused("it ends past the last address"),
                MapError::Iommu(error) => {
                    limits::refusal(&self.sysfs, addr, len_bytes as u64, mappings, &error)
                }
            }
        })
    }

    fn unmap(&self, iova: u64, len_bytes: usize) -> Result<(), DeviceError> {
        let mut state = self.state();
        let State { mappings, kernel } = &mut *state;
        let ended = match kernel {
            Some(kernel) => mappings.unmap(&Domain(&kernel.container), iova, len_bytes as u64),
            // Nothing is mapped any more; the owners need not know.
            None => mappings
                .unmap(&Nothing, iova, len_bytes as u64)
                .map_err(|_| UnmapError::NotMapped),
        };
        ended.map_err(|error| match error {
            UnmapError::NotMapped => DeviceError::NotMapped { iova, len_bytes },
            UnmapError::Iommu(reason) => os("end a mapping of the IOMMU")(reason),
        })
    }
}

/// The IOMMU of a device that is gone.
struct Nothing;

impl Iommu for Nothing {
    type Error = std::convert::Infallible;

    fn map(&self, _addr: u64, _iova: u64, _len_bytes: u64) -> Result<bool, Self::Error> {
        Ok(true)
    }

    fn unmap(&self, _iova: u64, _len_bytes: u64) -> Result<(), Self::Error> {
        Ok(())
    }
}

fn map_bar(bdf: Bdf, device: BorrowedFd<'_>) -> Result<Bar, DeviceError> {
    let fail = open::failed(bdf, "map its BAR 0");
    let region = ioctl::region(device, VFIO_PCI_BAR0_REGION_INDEX).map_err(&fail)?;
    let len_bytes = usize::try_from(region.size)
        .ok()
        .filter(|len| *len > 0 && u32::try_from(*len).is_ok());
    match len_bytes {
        Some(len_bytes) if region.flags & VFIO_REGION_INFO_FLAG_MMAP != 0 => {
            Bar::map(device, region.offset, len_bytes).map_err(&fail)
        }
        _ => Err(fail(io::Error::other(format!(
            "it has {} bytes and flags {:#x}: no OpenHCA card's",
            region.size, region.flags
        )))),
    }
}

/// Quiet first, then nothing mapped. What fails is the kernel's to do, when the descriptors close.
fn release(kernel: &Kernel, mappings: &mut Mappings) {
    let device = kernel.device.as_fd();
    let _ = command(device, 0, BUS_MASTER);
    Interrupts::switch_off(device);
    let _ = reset(device);
    mappings.unmap_all(&Domain(&kernel.container));
}

impl Drop for VfioDevice {
    fn drop(&mut self) {
        let mut state = self.state();
        let State { mappings, kernel } = &mut *state;
        if let Some(kernel) = kernel.take() {
            release(&kernel, mappings);
        }
    }
}

impl Device for VfioDevice {
    fn info(&self) -> DeviceInfo {
        self.info.clone()
    }

    fn mmio_write32(&self, offset: u32, value: u32) {
        self.bar.write32(offset, value);
    }

    #[inline]
    fn mmio_write64(&self, offset: u32, value: u64) {
        self.bar.write64(offset, value);
    }

    fn mmio_read32(&self, offset: u32) -> u32 {
        let value = self.bar.read32(offset);
        if self.is_lost.load(Ordering::Relaxed) {
            u32::MAX
        } else {
            value
        }
    }

    fn alloc_dma(&self, len_bytes: usize) -> Result<DmaBuf, DeviceError> {
        let memory = Arc::new(SharedMem::new("hca-dma", len_bytes)?);
        // New memory: whatever was mapped at its address is not there any more.
        let iova = self.map(memory.as_ptr() as u64, memory.len_bytes(), false)?;
        Ok(DmaBuf::new(memory, iova))
    }

    fn free_dma(&self, buf: DmaBuf) -> Result<(), DeviceError> {
        self.unmap(buf.iova(), buf.len_bytes())
    }

    fn map_dma(&self, memory: UserMemory) -> Result<u64, DeviceError> {
        self.map(memory.addr(), memory.len_bytes(), true)
    }

    fn unmap_dma(&self, iova: u64, len_bytes: usize) -> Result<(), DeviceError> {
        self.unmap(iova, len_bytes)
    }

    fn progress(&self) {
        std::thread::yield_now();
    }

    /// A card of its own needs no processor of ours: a poller keeps it, and after a while offers it to others.
    fn rest(&self, _seen: u32, empty_polls: u32) {
        if empty_polls < SPINS {
            std::hint::spin_loop();
        } else {
            std::thread::yield_now();
        }
    }

    fn is_gone(&self) -> bool {
        if self.check_alarms() {
            return true;
        }
        if self.is_silent() {
            self.lose(SILENT);
        }
        self.is_lost.load(Ordering::SeqCst)
    }

    fn why_gone(&self) -> Option<String> {
        let why = self.why_lost.get()?;
        Some(format!("{}: {why}", self.info.name))
    }

    fn wait_irq(&self, vector: u16, deadline_ns: u64) -> Result<bool, DeviceError> {
        let num_vectors = self.info.num_vectors;
        let fd = self
            .interrupts
            .vector(vector)
            .ok_or(DeviceError::BadVector { vector, num_vectors })?;
        loop {
            if self.check_alarms() {
                return Err(self.gone());
            }
            if take_count(fd) {
                return Ok(true);
            }
            let left_ns = deadline_ns.saturating_sub(self.now_ns());
            if left_ns == 0 {
                return Ok(false);
            }
            self.interrupts.wait(fd, left_ns);
        }
    }

    fn irq_fd(&self, vector: u16) -> Option<BorrowedFd<'_>> {
        self.interrupts.vector(vector).map(AsFd::as_fd)
    }

    fn now_ns(&self) -> u64 {
        self.start.elapsed().as_nanos() as u64
    }
}

/// There were interrupts; they are consumed.
fn take_count(fd: &OwnedFd) -> bool {
    let mut count = [0u8; 8];
    // SAFETY: an eventfd read writes eight bytes.
    let got = unsafe { libc::read(fd.as_raw_fd(), count.as_mut_ptr().cast(), count.len()) };
    got == count.len() as isize
}
