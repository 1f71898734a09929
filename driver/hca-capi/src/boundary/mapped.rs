//! What of the address space a program has.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::AsRawFd;

use crate::boundary::{Errno, Verb, invalid, warn};

/// One mapping.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Mapping {
    from: u64,
    to: u64,
    is_readable: bool,
    is_writable: bool,
}

/// The kernel would pin the pages and so find out; here the process' own map tells whether they are there.
pub fn check_memory(addr: u64, len_bytes: u64, is_written: bool) -> Verb<()> {
    let end = addr.checked_add(len_bytes).filter(|_| len_bytes > 0);
    let end =
        end.ok_or_else(|| invalid("memory region of no bytes, or past the end of the address space"))?;
    let Ok(mut maps) = File::open("/proc/self/maps") else {
        // No such file system: the card will find out.
        return Ok(());
    };
    let fits = |found: &Mapping| found.is_readable && (found.is_writable || !is_written);
    let mut covered = addr;
    let mut listed: Option<Vec<Mapping>> = None;
    while covered < end {
        let found = match &listed {
            Some(list) => covering(list, covered),
            None => match query(&maps, covered) {
                Ok(found) => found,
                // A kernel before 6.11: all of the list is read once.
                Err(_) => {
                    let mut text = String::new();
                    maps.read_to_string(&mut text).map_err(unread)?;
                    listed = Some(list_of(&text)?);
                    continue;
                }
            },
        };
        let Some(mapping) = found.filter(fits) else {
            warn(&format_args!(
                "memory at {covered:#x} is not mapped, or not with the rights of the region"
            ));
            return Err(Errno(libc::EFAULT));
        };
        covered = mapping.to;
    }
    Ok(())
}

/// As long as the program has mappings.
fn list_of(text: &str) -> Verb<Vec<Mapping>> {
    let mut list = Vec::new();
    hca_room::reserve(&mut list, text.lines().count())?;
    hca_room::require()?;
    list.extend(text.lines().filter_map(parse));
    Ok(list)
}

fn unread(error: io::Error) -> Errno {
    let code = match error.kind() {
        io::ErrorKind::OutOfMemory => libc::ENOMEM,
        _ => error.raw_os_error().unwrap_or(libc::EIO),
    };
    Errno(code)
}

fn covering(list: &[Mapping], addr: u64) -> Option<Mapping> {
    let behind = list.partition_point(|mapping| mapping.to <= addr);
    list.get(behind).copied().filter(|mapping| mapping.from <= addr)
}

/// A line of /proc/self/maps.
fn parse(line: &str) -> Option<Mapping> {
    let mut words = line.split_ascii_whitespace();
    let (range, rights) = (words.next()?, words.next()?);
    let (from, to) = range.split_once('-')?;
    Some(Mapping {
        from: u64::from_str_radix(from, 16).ok()?,
        to: u64::from_str_radix(to, 16).ok()?,
        is_readable: rights.starts_with('r'),
        is_writable: rights.chars().nth(1) == Some('w'),
    })
}

/// struct procmap_query of linux/fs.h, as far as it was when it came (6.11): the kernel takes shorter ones.
#[repr(C)]
#[derive(Default)]
struct ProcmapQuery {
    size: u64,
    query_flags: u64,
    query_addr: u64,
    vma_start: u64,
    vma_end: u64,
    vma_flags: u64,
    vma_page_size: u64,
    vma_offset: u64,
    inode: u64,
    dev_major: u32,
    dev_minor: u32,
    vma_name_size: u32,
    build_id_size: u32,
    vma_name_addr: u64,
    build_id_addr: u64,
}

/// PROCMAP_QUERY: _IOWR('f', 17, struct procmap_query).
const PROCMAP_QUERY: u64 = 3 << 30 | (size_of::<ProcmapQuery>() as u64) << 16 | (b'f' as u64) << 8 | 17;
const READABLE: u64 = 1;
const WRITABLE: u64 = 2;

/// The mapping at an address; an error where the kernel does not know the question.
fn query(maps: &File, addr: u64) -> Result<Option<Mapping>, Errno> {
    let mut found = ProcmapQuery {
        size: size_of::<ProcmapQuery>() as u64,
        query_addr: addr,
        ..Default::default()
    };
    // SAFETY: a live structure of the size that it says.
    if unsafe { libc::ioctl(maps.as_raw_fd(), PROCMAP_QUERY as _, &raw mut found) } != 0 {
        return match std::io::Error::last_os_error().raw_os_error() {
            Some(libc::ENOENT) => Ok(None),
            code => Err(Errno(code.unwrap_or(libc::EIO))),
        };
    }
    Ok(Some(Mapping {
        from: found.vma_start,
        to: found.vma_end,
        is_readable: found.vma_flags & READABLE != 0,
        is_writable: found.vma_flags & WRITABLE != 0,
    }))
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

    #[test]
    fn the_list_and_the_question_agree() {
        let maps = File::open("/proc/self/maps").unwrap();
        let text = std::fs::read_to_string("/proc/self/maps").unwrap();
        let list = list_of(&text).unwrap();
        assert!(list.len() > 5 && list.is_sorted_by_key(|mapping| mapping.from));
        // The program's own text and data stay as they are.
        for addr in [parse as *const () as u64, (&raw const EMPTY) as u64] {
            let listed = covering(&list, addr).unwrap();
            assert!(listed.is_readable);
            if let Ok(found) = query(&maps, addr) {
                assert_eq!(found, Some(listed));
                assert_eq!(query(&maps, 8), Ok(None));
            }
        }
        assert_eq!(covering(&list, 8), None);
    }

    static EMPTY: [u8; 1] = [0];
}
