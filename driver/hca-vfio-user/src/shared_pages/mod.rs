//! Private pages of registered memory that become shared in their place, so that the simulated card has them, too,
//! without the kernel in between: for a program with [`SHARE_VARIABLE`] of "1".
//!
//! When memory is registered, the pages that lie wholly inside it are copied into a memfd, which then is mapped where
//! they were; once no registration is left, it is the other way round. Whoever writes there meanwhile waits
//! ([`still`]), and a child of `fork` gets copies ([`fork`]): addresses, bytes and what is private to whom stay as they
//! are. What does not work any more while memory is registered is to throw its contents away (`madvise` with
//! `MADV_DONTNEED`), which a real card would not notice either.

mod fork;
mod maps;
mod still;

use std::fs::File;
use std::io;
use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd};
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use hca_dev::{PAGE_BYTES, SharedMem, UserMemory};

use maps::Maps;
use still::Still;

/// Of this value "1": registered memory is shared with the simulator.
pub const SHARE_VARIABLE: &str = "HCA_SHARE_MEMORY";
/// Name of the files.
const NAME: &str = "hca-memory";
/// Files of this process; each is a descriptor here and a mapping of the simulator's.
const FILES_MAX: usize = 256;

/// A file in place of private pages.
struct Pages {
    file: Arc<File>,
    inode: u64,
    uses: u32,
}

/// Of the whole process: the same memory may be given to several cards.
static ALL: Mutex<Vec<Pages>> = Mutex::new(Vec::new());

fn all() -> MutexGuard<'static, Vec<Pages>> {
    ALL.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The pages of a piece of memory that are shared as long as this value lives.
#[derive(Debug)]
pub(crate) struct Shared {
    /// Address of the first page.
    pub addr: u64,
    pub len_bytes: usize,
    /// Where in the file the first one is.
    pub offset: u64,
    file: Arc<File>,
    inode: u64,
}

impl Shared {
    /// Shares the pages that lie wholly in the memory. None: it has none, or they stay private, because they are not
    /// just memory that a program has allocated, or the kernel does not help.
    pub fn new(memory: &UserMemory) -> Option<Self> {
        let page = PAGE_BYTES as u64;
        let addr = memory.addr().checked_next_multiple_of(page)?;
        let end = memory.addr().checked_add(memory.len_bytes() as u64)? / page * page;
        let len_bytes = usize::try_from(end.checked_sub(addr)?)
            .ok()
            .filter(|len| *len > 0)?;
        let mut all = all();
        let maps = Maps::read().ok()?;
        let lines = maps.of(addr, end)?;
        let known = match lines[..] {
            [line] => all.iter_mut().find(|known| line.memfd(NAME) == Some(known.inode)),
            _ => None,
        };
        if let Some(known) = known {
            known.uses = known.uses.saturating_add(1);
            let offset = addr - lines[0].start + lines[0].offset;
            let (file, inode) = (known.file.clone(), known.inode);
            return Some(Self {
                addr,
                len_bytes,
                offset,
                file,
                inode,
            });
        }
        if all.len() >= FILES_MAX || !lines.iter().all(|line| line.is_plain()) {
            return None;
        }
        fork::prepare_once();
        let (file, inode) = replace(addr, len_bytes).ok()?;
        let (file, uses) = (Arc::new(file), 1);
        all.push(Pages {
            file: file.clone(),
            inode,
            uses,
        });
        Some(Self {
            addr,
            len_bytes,
            offset: 0,
            file,
            inode,
        })
    }

    /// The file that the pages are in.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

impl Drop for Shared {
    /// The last one makes the pages private again. Where the kernel cannot keep others from writing meanwhile they stay
    /// as they are, to be found when they are registered again.
    fn drop(&mut self) {
        let mut all = all();
        let Some(at) = all.iter().position(|pages| Arc::ptr_eq(&pages.file, &self.file)) else {
            return;
        };
        all[at].uses -= 1;
        if all[at].uses == 0 && make_private(self.inode).is_ok() {
            all.swap_remove(at);
        }
    }
}

/// Copies pages into a new file, and maps it in their place: the file and its inode.
fn replace(addr: u64, len_bytes: usize) -> io::Result<(File, u64)> {
    let memory = SharedMem::new(NAME, len_bytes).map_err(io::Error::other)?;
    let fd = memory.fd().ok_or(io::ErrorKind::Unsupported)?;
    let file = File::from(fd.try_clone_to_owned()?);
    let inode = file.metadata()?.ino();
    let still = Still::new(addr, len_bytes)?;
    for offset in (0..len_bytes).step_by(PAGE_BYTES) {
        // SAFETY: a page of the program's to read and write, seen in the maps, which nobody writes meanwhile.
        let page =
            unsafe { std::slice::from_raw_parts((addr as *const u8).wrapping_add(offset), PAGE_BYTES) };
        // A page of zeros stays a hole.
        if page.iter().any(|byte| *byte != 0) {
            file.write_all_at(page, offset as u64)?;
        }
    }
    // SAFETY: over pages of the program's whose bytes are in the file, while nobody writes: nothing changes for it.
    let mapped = unsafe {
        libc::mmap(
            addr as *mut libc::c_void,
            len_bytes,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_SHARED | libc::MAP_FIXED,
            file.as_raw_fd(),
            0,
        )
    };
    drop(still);
    if mapped == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    Ok((file, inode))
}

/// Where a file is still mapped there are private pages with the same bytes afterwards.
fn make_private(inode: u64) -> io::Result<()> {
    for (addr, len_bytes) in Maps::read()?.shared_of(NAME, &[inode]) {
        let still = Still::new(addr, len_bytes)?;
        copy_privately(addr, len_bytes)?;
        drop(still);
    }
    Ok(())
}

/// Puts a private copy of pages in their place. Nothing of the heap is touched: a child of `fork` calls it, too.
fn copy_privately(addr: u64, len_bytes: usize) -> io::Result<()> {
    // SAFETY: a new mapping at an address the kernel chooses; the result is checked.
    let copy = unsafe {
        libc::mmap(
            std::ptr::null_mut(),
            len_bytes,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
            -1,
            0,
        )
    };
    if copy == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    let (from, to) = (addr as *const u8, copy.cast::<u8>());
    for offset in (0..len_bytes).step_by(PAGE_BYTES) {
        // SAFETY: a page of each mapping; the other one is the program's, and was seen in the maps. What is not
        // written stays zero.
        unsafe {
            let page = std::slice::from_raw_parts(from.wrapping_add(offset), PAGE_BYTES);
            if page.iter().any(|byte| *byte != 0) {
                to.wrapping_add(offset)
                    .copy_from_nonoverlapping(page.as_ptr(), PAGE_BYTES);
            }
        }
    }
    let flags = libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED;
    // SAFETY: our new mapping goes over pages with the same bytes.
    let moved = unsafe { libc::mremap(copy, len_bytes, len_bytes, flags, addr as *mut libc::c_void) };
    if moved == libc::MAP_FAILED {
        let error = io::Error::last_os_error();
        // SAFETY: our own mapping, which was not moved.
        unsafe { libc::munmap(copy, len_bytes) };
        return Err(error);
    }
    Ok(())
}

#[cfg(test)]
mod tests;
