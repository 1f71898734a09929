//! Memory that a card may reach: shared mappings of our own, and memory that the program already has.

#[cfg(not(miri))]
use std::ffi::CString;
use std::fs::File;
use std::marker::PhantomData;
#[cfg(not(miri))]
use std::os::fd::FromRawFd;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use crate::copy::{load_bytes, store_bytes};
use crate::error::DeviceError;

/// Page size that mappings are rounded to.
pub const PAGE_BYTES: usize = 4096;

/// `len_bytes` rounded up to whole pages.
pub fn page_round_up(len_bytes: usize) -> Option<usize> {
    len_bytes
        .checked_add(PAGE_BYTES - 1)
        .map(|n| n & !(PAGE_BYTES - 1))
}

/// File systems whose files can be sealed; of them, the one with pages of the ordinary size.
const TMPFS_MAGIC: i64 = 0x0102_1994;

/// A shared mapping of a memfd. Unmapped when the last owner drops it.
#[derive(Debug)]
pub struct SharedMem {
    base: *mut u8,
    len_bytes: usize,
    /// Only of memory made here: to hold a descriptor for each mapping of others' would use them up.
    file: Option<File>,
}

// SAFETY: the mapping belongs to the whole process, and all accesses through this type are atomic.
unsafe impl Send for SharedMem {}
// SAFETY: as above.
unsafe impl Sync for SharedMem {}

impl SharedMem {
    /// New zeroed memory behind a memfd, so that another process can map it too. Rounded up to pages, at
    /// least one.
    #[cfg(not(miri))]
    pub fn new(name: &str, len_bytes: usize) -> Result<Self, DeviceError> {
        let no_memory = |reason| DeviceError::NoMemory { len_bytes, reason };
        let too_long = || std::io::Error::from_raw_os_error(libc::ENOMEM);
        let rounded = page_round_up(len_bytes.max(1)).ok_or_else(|| no_memory(too_long()))?;
        let name =
            CString::new(name).map_err(|_| no_memory(std::io::Error::from_raw_os_error(libc::EINVAL)))?;
        // SAFETY: name is a C string; the result is checked.
        let fd = unsafe { libc::memfd_create(name.as_ptr(), libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING) };
        if fd < 0 {
            return Err(no_memory(std::io::Error::last_os_error()));
        }
        // SAFETY: fd is new and nobody else owns it.
        let file = unsafe { File::from_raw_fd(fd) };
        file.set_len(rounded as u64).map_err(no_memory)?;
        // So that a process we share it with knows that it stays.
        // SAFETY: a plain system call on our own file.
        if unsafe { libc::fcntl(file.as_raw_fd(), libc::F_ADD_SEALS, libc::F_SEAL_SHRINK) } < 0 {
            return Err(no_memory(std::io::Error::last_os_error()));
        }
        let mut memory = Self::from_file(&file, 0, rounded)?;
        memory.file = Some(file);
        Ok(memory)
    }

    /// The same for this process and its children alone: it holds no descriptor, of which a process has few.
    pub fn unnamed(len_bytes: usize) -> Result<Self, DeviceError> {
        let mut memory = Self::new("hca-dma", len_bytes)?;
        memory.file = None;
        Ok(memory)
    }

    /// Miri knows no memfd: memory of this process alone.
    #[cfg(miri)]
    pub fn new(_name: &str, len_bytes: usize) -> Result<Self, DeviceError> {
        let layout = page_layout(page_round_up(len_bytes.max(1)).unwrap_or(0));
        // SAFETY: not of zero bytes.
        let base = unsafe { std::alloc::alloc_zeroed(layout) };
        Ok(Self {
            base,
            len_bytes: layout.size(),
            file: None,
        })
    }

    /// Maps a part of a memfd that somebody else made. It must be sealed against shrinking, and be long enough from
    /// the page-aligned `file_offset` on: touching the mapping then never raises SIGBUS. Nothing of a file that is
    /// refused is mapped, not even for a moment.
    pub fn from_file(file: &File, file_offset: u64, len_bytes: usize) -> Result<Self, DeviceError> {
        Self::map_file(file, file_offset, len_bytes, libc::PROT_READ | libc::PROT_WRITE)
    }

    /// The same to be read only: whoever writes there ends by SIGSEGV. The file may be open for reading alone.
    pub fn from_file_to_read(file: &File, file_offset: u64, len_bytes: usize) -> Result<Self, DeviceError> {
        Self::map_file(file, file_offset, len_bytes, libc::PROT_READ)
    }

    fn map_file(file: &File, file_offset: u64, len_bytes: usize, prot: i32) -> Result<Self, DeviceError> {
        let fail = |reason: String| DeviceError::Map {
            addr: file_offset,
            len_bytes,
            reason,
        };
        check_stays(file).map_err(fail)?;
        // The length is looked at behind the seal: from there on it can only grow.
        let file_len = file.metadata().map_err(|e| fail(e.to_string()))?.len();
        let end = file_offset.checked_add(len_bytes as u64);
        if len_bytes == 0 || end.is_none_or(|end| end > file_len) {
            return Err(fail(format!(
                "the range is not inside the file of {file_len} bytes"
            )));
        }
        let offset = libc::off_t::try_from(file_offset).map_err(|_| fail("file offset too large".into()))?;
        // SAFETY: a new mapping at an address the kernel chooses; the result is checked.
        let base = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                len_bytes,
                prot,
                libc::MAP_SHARED,
                file.as_raw_fd(),
                offset,
            )
        };
        if base == libc::MAP_FAILED {
            let reason = std::io::Error::last_os_error();
            return Err(match reason.raw_os_error() {
                Some(libc::ENOMEM) => DeviceError::NoMemory { len_bytes, reason },
                _ => fail(reason.to_string()),
            });
        }
        Ok(Self {
            base: base.cast(),
            len_bytes,
            file: None,
        })
    }

    /// First byte.
    #[inline]
    pub fn as_ptr(&self) -> *mut u8 {
        self.base
    }

    /// Length of the mapping.
    #[inline]
    pub fn len_bytes(&self) -> usize {
        self.len_bytes
    }

    /// The file behind memory that was made here, to pass to another process.
    pub fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.file.as_ref().map(AsFd::as_fd)
    }
}

/// Nobody can take the file's pages away behind its mapping; or what is wrong with it.
fn check_stays(file: &File) -> Result<(), String> {
    // SAFETY: a plain system call on a live file; any file may be asked.
    let seals = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_GET_SEALS) };
    if seals < 0 || seals & libc::F_SEAL_SHRINK == 0 {
        return Err("the file can shrink: it must be a memfd with F_SEAL_SHRINK".into());
    }
    // A hole in huge pages cannot be filled again when all of them are taken: that, too, raises SIGBUS.
    // SAFETY: an all-zero statfs is valid, and the kernel fills it.
    let mut found = unsafe { std::mem::zeroed::<libc::statfs>() };
    // SAFETY: as above.
    let result = unsafe { libc::fstatfs(file.as_raw_fd(), &mut found) };
    if result != 0 || found.f_type != TMPFS_MAGIC {
        return Err("the memfd has huge pages: make it without MFD_HUGETLB".into());
    }
    Ok(())
}

#[cfg(miri)]
fn page_layout(len_bytes: usize) -> std::alloc::Layout {
    std::alloc::Layout::from_size_align(len_bytes, PAGE_BYTES).expect("whole pages")
}

impl Drop for SharedMem {
    #[cfg(miri)]
    fn drop(&mut self) {
        // SAFETY: allocated so, and no reference into it outlives us.
        unsafe { std::alloc::dealloc(self.base, page_layout(self.len_bytes)) };
    }

    #[cfg(not(miri))]
    fn drop(&mut self) {
        // SAFETY: base and len_bytes are those of our own mapping, and no reference into it outlives us.
        unsafe { libc::munmap(self.base.cast(), self.len_bytes) };
    }
}

/// Memory of this process that a program wants the card to reach: a registered buffer.
#[derive(Clone, Copy, Debug)]
pub struct UserMemory {
    addr: u64,
    len_bytes: usize,
}

impl UserMemory {
    /// Names memory at `ptr`.
    ///
    /// # Safety
    /// Until `unmap_dma` has returned, the memory must stay allocated, and the program must expect that its
    /// bytes change at any time, as with every RDMA memory region.
    pub unsafe fn new(ptr: *mut u8, len_bytes: usize) -> Self {
        Self {
            addr: ptr as u64,
            len_bytes,
        }
    }

    /// Address in this process.
    pub fn addr(&self) -> u64 {
        self.addr
    }

    /// Length.
    #[inline]
    pub fn len_bytes(&self) -> usize {
        self.len_bytes
    }
}

/// Memory allocated by a device for DMA. Safe to touch while the card does: every access is atomic.
///
/// Offsets outside the buffer panic: they come from the driver's own arithmetic, never from the card.
#[derive(Clone, Debug)]
pub struct DmaBuf {
    memory: Arc<SharedMem>,
    /// First byte of `memory`, here so that the data path follows one pointer.
    base: *mut u8,
    iova: u64,
    len_bytes: usize,
}

// SAFETY: `base` is the mapping's, which goes with it, and is only touched atomically.
unsafe impl Send for DmaBuf {}
// SAFETY: as above.
unsafe impl Sync for DmaBuf {}

/// A part of a buffer, as an entry of a ring. That it is inside was looked at once; who accesses a place that is known
/// when the program is compiled, of a part whose length is, has nothing to look at any more.
#[derive(Clone, Copy, Debug)]
pub struct DmaPart<'a> {
    first: *mut u8,
    len_bytes: usize,
    buf: PhantomData<&'a DmaBuf>,
}

/// Out of line, with what it prints: nothing of it is in the way of an access that is right.
#[cold]
#[inline(never)]
fn outside(offset: usize, len_bytes: usize, all_bytes: usize) -> ! {
    panic!("{len_bytes} bytes at {offset:#x} are outside or unaligned in a DMA buffer of {all_bytes:#x}");
}

/// Panics unless the bytes are inside and aligned.
#[inline(always)]
fn check(offset: usize, len_bytes: usize, align: usize, all_bytes: usize) {
    let fits = offset.checked_add(len_bytes).is_some_and(|end| end <= all_bytes);
    if !fits || !offset.is_multiple_of(align) {
        outside(offset, len_bytes, all_bytes);
    }
}

impl DmaPart<'_> {
    #[inline(always)]
    fn at(&self, offset: usize, len_bytes: usize) -> *mut u64 {
        check(offset, len_bytes, 8, self.len_bytes);
        self.first.wrapping_add(offset).cast()
    }

    /// 32-bit load that orders later loads behind it: for owner words.
    #[inline(always)]
    pub fn load_u32_acquire(&self, offset: usize) -> u32 {
        check(offset, 4, 4, self.len_bytes);
        let at = self.first.wrapping_add(offset).cast();
        // SAFETY: inside and aligned, as was just seen; the mapping is only touched atomically.
        unsafe { AtomicU32::from_ptr(at).load(Ordering::Acquire) }
    }

    /// `N` relaxed 64-bit loads, one after the other.
    #[inline(always)]
    pub fn load_words<const N: usize>(&self, offset: usize) -> [u64; N] {
        let first = self.at(offset, 8 * N);
        let mut words = [0; N];
        for (i, word) in words.iter_mut().enumerate() {
            // SAFETY: as in `load_u32_acquire`.
            *word = unsafe { AtomicU64::from_ptr(first.wrapping_add(i)).load(Ordering::Relaxed) };
        }
        words
    }

    /// Copies into the part.
    #[inline]
    pub fn write_bytes(&self, offset: usize, bytes: &[u8]) {
        check(offset, bytes.len(), 1, self.len_bytes);
        // SAFETY: inside, as was just seen; the mapping is only touched atomically.
        unsafe { store_bytes(self.first.wrapping_add(offset), bytes) }
    }

    /// `N` relaxed 64-bit stores, one after the other.
    #[inline(always)]
    pub fn store_words<const N: usize>(&self, offset: usize, words: [u64; N]) {
        let first = self.at(offset, 8 * N);
        for (i, word) in words.into_iter().enumerate() {
            // SAFETY: as in `load_u32_acquire`.
            unsafe { AtomicU64::from_ptr(first.wrapping_add(i)).store(word, Ordering::Relaxed) }
        }
    }
}

impl DmaBuf {
    /// Used by implementations of [`crate::Device`]: memory that is mapped at bus address `iova`.
    pub fn new(memory: Arc<SharedMem>, iova: u64) -> Self {
        let (base, len_bytes) = (memory.as_ptr(), memory.len_bytes());
        Self {
            memory,
            base,
            iova,
            len_bytes,
        }
    }

    /// The bytes before `at`, a multiple of 64, and those from there on, as buffers that share the memory. The device
    /// gets back the whole.
    pub fn split(&self, at: usize) -> [Self; 2] {
        let part = |offset: usize, len_bytes: usize| Self {
            memory: self.memory.clone(),
            base: self.at(offset, len_bytes, 64),
            iova: self.iova + offset as u64,
            len_bytes,
        };
        [part(0, at), part(at, self.len_bytes.saturating_sub(at))]
    }

    /// Bus address of the first byte.
    pub fn iova(&self) -> u64 {
        self.iova
    }

    /// Length in bytes (whole pages, where it is not a part).
    #[inline]
    pub fn len_bytes(&self) -> usize {
        self.len_bytes
    }

    /// First byte in this process.
    #[inline]
    pub fn as_ptr(&self) -> *mut u8 {
        self.base
    }

    /// These bytes; they begin at a multiple of 8.
    #[inline(always)]
    pub fn part(&self, offset: usize, len_bytes: usize) -> DmaPart<'_> {
        DmaPart {
            first: self.at(offset, len_bytes, 8),
            len_bytes,
            buf: PhantomData,
        }
    }

    /// The mapping, to share its ownership.
    pub fn memory(&self) -> &Arc<SharedMem> {
        &self.memory
    }

    #[inline(always)]
    fn at(&self, offset: usize, len_bytes: usize, align: usize) -> *mut u8 {
        check(offset, len_bytes, align, self.len_bytes);
        self.base.wrapping_add(offset)
    }

    /// Copies out of the buffer.
    pub fn read_bytes(&self, offset: usize, out: &mut [u8]) {
        let src = self.at(offset, out.len(), 1);
        // SAFETY: `at` checked the range; the mapping is ours and only touched atomically.
        unsafe { load_bytes(src, out) }
    }

    /// Copies into the buffer.
    pub fn write_bytes(&self, offset: usize, bytes: &[u8]) {
        let dst = self.at(offset, bytes.len(), 1);
        // SAFETY: as in `read_bytes`.
        unsafe { store_bytes(dst, bytes) }
    }

    /// Sets `len_bytes` bytes to `value`.
    pub fn fill(&self, offset: usize, len_bytes: usize, value: u8) {
        let block = [value; 256];
        for start in (0..len_bytes).step_by(block.len()) {
            self.write_bytes(offset + start, &block[..block.len().min(len_bytes - start)]);
        }
    }

    /// Relaxed 32-bit load.
    #[inline]
    pub fn load_u32(&self, offset: usize) -> u32 {
        // SAFETY: `at` checked range and alignment; the mapping is only touched atomically.
        unsafe { AtomicU32::from_ptr(self.at(offset, 4, 4).cast()).load(Ordering::Relaxed) }
    }

    /// 32-bit load that orders later loads behind it: for owner words.
    #[inline]
    pub fn load_u32_acquire(&self, offset: usize) -> u32 {
        // SAFETY: as in `load_u32`.
        unsafe { AtomicU32::from_ptr(self.at(offset, 4, 4).cast()).load(Ordering::Acquire) }
    }

    /// Relaxed 32-bit store.
    #[inline]
    pub fn store_u32(&self, offset: usize, value: u32) {
        // SAFETY: as in `load_u32`.
        unsafe { AtomicU32::from_ptr(self.at(offset, 4, 4).cast()).store(value, Ordering::Relaxed) }
    }

    /// Relaxed 64-bit load.
    #[inline]
    pub fn load_u64(&self, offset: usize) -> u64 {
        // SAFETY: as in `load_u32`.
        unsafe { AtomicU64::from_ptr(self.at(offset, 8, 8).cast()).load(Ordering::Relaxed) }
    }

    /// `N` relaxed 64-bit loads, one after the other.
    #[inline]
    pub fn load_words<const N: usize>(&self, offset: usize) -> [u64; N] {
        self.part(offset, 8 * N).load_words(0)
    }

    /// `N` relaxed 64-bit stores, one after the other.
    #[inline]
    pub fn store_words<const N: usize>(&self, offset: usize, words: [u64; N]) {
        self.part(offset, 8 * N).store_words(0, words);
    }

    /// Relaxed 64-bit store.
    #[inline]
    pub fn store_u64(&self, offset: usize, value: u64) {
        // SAFETY: as in `load_u32`.
        unsafe { AtomicU64::from_ptr(self.at(offset, 8, 8).cast()).store(value, Ordering::Relaxed) }
    }
}

#[cfg(all(test, not(miri)))]
mod tests {
    use super::*;

    fn file_of(memory: &SharedMem) -> File {
        File::from(memory.fd().unwrap().try_clone_to_owned().unwrap())
    }

    #[test]
    fn shared_memory_is_shared_with_its_file() {
        let a = Arc::new(SharedMem::new("test", 5000).unwrap());
        assert_eq!(a.len_bytes(), 8192);
        let file = file_of(&a);
        let b = DmaBuf::new(Arc::new(SharedMem::from_file(&file, 4096, 4096).unwrap()), 0);
        let a = DmaBuf::new(a, 0x1000);
        a.write_bytes(4098, b"hello");
        let mut out = [0; 5];
        b.read_bytes(2, &mut out);
        assert_eq!(&out, b"hello");
        b.store_u32(8, 0x1234_5678);
        assert_eq!(a.load_u32_acquire(4104), 0x1234_5678);
        a.fill(0, 8192, 0xa5);
        assert_eq!(b.load_u64(4088), 0xa5a5_a5a5_a5a5_a5a5);
        b.store_words(4072, [1, 2]);
        assert_eq!(b.load_words(4072), [1, 2, 0xa5a5_a5a5_a5a5_a5a5]);
    }

    #[test]
    fn a_file_too_short_is_refused() {
        let a = SharedMem::new("short", 4096).unwrap();
        let error = SharedMem::from_file(&file_of(&a), 4096, 4096).unwrap_err();
        assert!(
            error.to_string().contains("not inside the file of 4096 bytes"),
            "{error}"
        );
        assert!(SharedMem::new("huge", usize::MAX).is_err());
    }

    /// SYS-7: a mapping of a file that can shrink kills whoever touches it.
    #[test]
    fn a_file_that_can_shrink_is_refused() {
        // SAFETY: a plain system call with a C string; the result is checked.
        let fd = unsafe { libc::memfd_create(c"loose".as_ptr(), libc::MFD_ALLOW_SEALING) };
        assert!(fd >= 0);
        // SAFETY: new, and nobody else owns it.
        let memfd = unsafe { File::from_raw_fd(fd) };
        memfd.set_len(4096).unwrap();
        let plain = tempfile::tempfile().unwrap();
        plain.set_len(4096).unwrap();
        for file in [&memfd, &plain, &File::open("/dev/zero").unwrap()] {
            let error = SharedMem::from_file(file, 0, 4096).unwrap_err().to_string();
            assert!(error.contains("F_SEAL_SHRINK"), "{error}");
        }
        let (reader, _writer) = std::io::pipe().unwrap();
        let pipe = File::from(std::os::fd::OwnedFd::from(reader));
        assert!(SharedMem::from_file(&pipe, 0, 4096).is_err());
    }

    #[test]
    fn parts_are_of_the_same_memory() {
        let whole = DmaBuf::new(Arc::new(SharedMem::new("x", 8192).unwrap()), 0x10000);
        let [first, second] = whole.split(4096 + 64);
        assert_eq!((first.iova(), first.len_bytes()), (0x10000, 4160));
        assert_eq!((second.iova(), second.len_bytes()), (0x11040, 4032));
        first.write_bytes(4152, &[1; 8]);
        second.write_bytes(0, &[2; 8]);
        let mut seen = [0; 16];
        whole.read_bytes(4152, &mut seen);
        assert_eq!(seen, [1, 1, 1, 1, 1, 1, 1, 1, 2, 2, 2, 2, 2, 2, 2, 2]);
    }

    #[test]
    #[should_panic(expected = "outside or unaligned")]
    fn parts_end_where_they_end() {
        let whole = DmaBuf::new(Arc::new(SharedMem::new("x", 4096).unwrap()), 0);
        whole.split(64)[0].load_u32(64);
    }

    #[test]
    #[should_panic(expected = "outside or unaligned")]
    fn offsets_are_checked() {
        DmaBuf::new(Arc::new(SharedMem::new("x", 4096).unwrap()), 0).load_u32(4096);
    }
}
