//! BAR 0 in this process.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::sync::atomic::{Ordering, fence};

/// A mapped BAR. Each access is one load or store of its width, none is left out or moved across another; between these
/// and memory stand the barriers in here, and nowhere else.
#[derive(Debug)]
pub struct Bar {
    base: *mut u8,
    len_bytes: usize,
}

// SAFETY: the mapping belongs to the whole process and is touched by volatile accesses alone; registers are made for
// writes from any processor.
unsafe impl Send for Bar {}
// SAFETY: as above.
unsafe impl Sync for Bar {}

/// Memory stores before it are visible to devices before a register write that follows, as of the kernel's writel.
/// x86 orders stores by itself; the fence then binds the compiler alone.
#[inline(always)]
fn before_write() {
    fence(Ordering::Release);
    #[cfg(target_arch = "aarch64")]
    // SAFETY: a barrier; it touches nothing.
    unsafe {
        std::arch::asm!("dmb oshst", options(nostack, preserves_flags))
    };
    #[cfg(target_arch = "riscv64")]
    // SAFETY: a barrier; it touches nothing.
    unsafe {
        std::arch::asm!("fence w, o", options(nostack, preserves_flags))
    };
}

/// What the card wrote before it answered a register read is seen by loads that follow, as of the kernel's readl.
#[inline(always)]
fn after_read() {
    #[cfg(target_arch = "aarch64")]
    // SAFETY: a barrier; it touches nothing.
    unsafe {
        std::arch::asm!("dmb oshld", options(nostack, preserves_flags))
    };
    #[cfg(target_arch = "riscv64")]
    // SAFETY: a barrier; it touches nothing.
    unsafe {
        std::arch::asm!("fence i, r", options(nostack, preserves_flags))
    };
    fence(Ordering::Acquire);
}

impl Bar {
    /// Maps `len_bytes` of a device's descriptor from `offset` on.
    pub fn map(device: BorrowedFd<'_>, offset: u64, len_bytes: usize) -> io::Result<Self> {
        let offset =
            libc::off_t::try_from(offset).map_err(|_| io::Error::from_raw_os_error(libc::EOVERFLOW))?;
        let rights = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: a new mapping at an address the kernel chooses; the result is checked.
        let base = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                len_bytes,
                rights,
                libc::MAP_SHARED,
                device.as_raw_fd(),
                offset,
            )
        };
        if base == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        // A child has no business at the card. Refused on memory that is none of a device's: nothing is lost then.
        // SAFETY: our own mapping.
        unsafe { libc::madvise(base, len_bytes, libc::MADV_DONTFORK) };
        Ok(Self {
            base: base.cast(),
            len_bytes,
        })
    }

    /// Puts memory of nobody in the device's place, in one step: accesses that are under way, and those to come, reach
    /// the one or the other and do no harm. From now on reads give what was written last, or zeros.
    pub fn detach(&self) {
        let rights = libc::PROT_READ | libc::PROT_WRITE;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED;
        // SAFETY: replaces our own mapping, all of it, by one with the same rights. When there is no memory
        // for that, the device's stays, which is as harmless.
        unsafe { libc::mmap(self.base.cast(), self.len_bytes, rights, flags, -1, 0) };
    }

    /// Its length.
    pub fn len_bytes(&self) -> usize {
        self.len_bytes
    }

    #[inline(always)]
    fn at<T>(&self, offset: u32) -> *mut T {
        let offset = offset as usize;
        let fits = offset
            .checked_add(size_of::<T>())
            .is_some_and(|end| end <= self.len_bytes);
        assert!(
            fits && offset.is_multiple_of(size_of::<T>()),
            "register at {offset:#x}, {} bytes: outside or unaligned in a BAR of {:#x} bytes",
            size_of::<T>(),
            self.len_bytes
        );
        self.base.wrapping_add(offset).cast()
    }

    /// Reads a register.
    #[inline]
    pub fn read32(&self, offset: u32) -> u32 {
        // SAFETY: `at` checked range and alignment; the mapping lives as long as self.
        let value = unsafe { self.at::<u32>(offset).read_volatile() };
        after_read();
        u32::from_le(value)
    }

    /// Writes a register.
    #[inline]
    pub fn write32(&self, offset: u32, value: u32) {
        let register = self.at::<u32>(offset);
        before_write();
        // SAFETY: as in `read32`.
        unsafe { register.write_volatile(value.to_le()) }
    }

    /// Writes a register of 64 bits (doorbells).
    #[inline]
    pub fn write64(&self, offset: u32, value: u64) {
        let register = self.at::<u64>(offset);
        before_write();
        // SAFETY: as in `read32`.
        unsafe { register.write_volatile(value.to_le()) }
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        // SAFETY: our own mapping, whose registers nobody has a pointer to.
        unsafe { libc::munmap(self.base.cast(), self.len_bytes) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hca_dev::SharedMem;
    use std::os::fd::AsFd;

    fn bar() -> (SharedMem, Bar) {
        let memory = SharedMem::new("bar", 8192).unwrap();
        let bar = Bar::map(memory.fd().unwrap(), 4096, 4096).unwrap();
        (memory, bar)
    }

    #[test]
    fn registers_are_little_endian_at_their_offset() {
        let (memory, bar) = bar();
        bar.write64(0xff8, 0x0102_0304_0506_0708);
        bar.write32(4, 0xa1b2_c3d4);
        assert_eq!(
            (bar.read32(0xff8), bar.read32(0xffc), bar.read32(4)),
            (0x0506_0708, 0x0102_0304, 0xa1b2_c3d4)
        );
        let mut bytes = [0; 4];
        // SAFETY: inside the mapping.
        unsafe { hca_dev::load_bytes(memory.as_ptr().add(4096 + 4), &mut bytes) };
        assert_eq!(bytes, [0xd4, 0xc3, 0xb2, 0xa1]);
    }

    #[test]
    fn a_detached_bar_reaches_the_device_no_more() {
        let (memory, bar) = bar();
        bar.write32(0, 7);
        bar.detach();
        bar.write32(0, 9);
        let mut bytes = [0; 4];
        // SAFETY: inside the mapping.
        unsafe { hca_dev::load_bytes(memory.as_ptr().add(4096), &mut bytes) };
        assert_eq!(u32::from_le_bytes(bytes), 7);
    }

    #[test]
    fn offsets_are_checked() {
        let (_memory, bar) = bar();
        for (offset, is_wide) in [
            (0x1000, false),
            (0xffc, true),
            (2, false),
            (4, true),
            (u32::MAX - 3, false),
        ] {
            let outcome = std::panic::catch_unwind(|| match is_wide {
                true => bar.write64(offset, 0),
                false => bar.write32(offset, 0),
            });
            assert!(outcome.is_err(), "{offset:#x}");
        }
        assert!(Bar::map(tempfile::tempfile().unwrap().as_fd(), u64::MAX, 4096).is_err());
    }
}
