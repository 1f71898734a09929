//! What of the address space a program has.

use crate::boundary::{Errno, Verb, invalid, warn};

/// The kernel would pin the pages and so find out; here the process' own map tells whether they are there.
pub fn check_memory(addr: u64, len_bytes: u64, is_written: bool) -> Verb<()> {
    let end = addr.checked_add(len_bytes).filter(|_| len_bytes > 0);
    let end =
        end.ok_or_else(|| invalid("memory region of no bytes, or past the end of the address space"))?;
    let Ok(maps) = std::fs::read_to_string("/proc/self/maps") else {
        // No such file system: the card will find out.
        return Ok(());
    };
    let mut covered = addr;
    for line in maps.lines() {
        let mut words = line.split_ascii_whitespace();
        let (range, rights) = (words.next().unwrap_or(""), words.next().unwrap_or(""));
        let Some((from, to)) = range.split_once('-') else {
            continue;
        };
        let (Ok(from), Ok(to)) = (u64::from_str_radix(from, 16), u64::from_str_radix(to, 16)) else {
            continue;
        };
        if to <= covered {
            continue;
        }
        if from > covered || !rights.starts_with('r') || (is_written && !rights.starts_with("rw")) {
            break;
        }
        covered = to;
        if covered >= end {
            return Ok(());
        }
    }
    warn(&format!(
        "memory at {covered:#x} is not mapped, or not with the rights of the region"
    ));
    Err(Errno(libc::EFAULT))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_that_is_not_there_is_found() {
        let page = 4096;
        // SAFETY: new mappings; the middle page of three loses its rights.
        let base = unsafe {
            let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
            let rights = libc::PROT_READ | libc::PROT_WRITE;
            let base = libc::mmap(std::ptr::null_mut(), 4 * page, rights, flags, -1, 0);
            assert_ne!(base, libc::MAP_FAILED);
            libc::mprotect(base.byte_add(page), page, libc::PROT_READ);
            libc::mprotect(base.byte_add(3 * page), page, libc::PROT_NONE);
            base as u64
        };
        let page = page as u64;
        assert_eq!(check_memory(base, 3 * page, false), Ok(()));
        assert_eq!(check_memory(base + 100, 10, true), Ok(()));
        assert_eq!(check_memory(base, 2 * page, true), Err(Errno(libc::EFAULT)));
        assert_eq!(check_memory(base, 4 * page, false), Err(Errno(libc::EFAULT)));
        assert_eq!(check_memory(base, 0, false), Err(Errno(libc::EINVAL)));
        assert_eq!(check_memory(u64::MAX, 2, false), Err(Errno(libc::EINVAL)));
        assert_eq!(check_memory(0x10, 16, false), Err(Errno(libc::EFAULT)));
    }
}
