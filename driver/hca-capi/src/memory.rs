//! Protection domains and memory regions.

use std::ffi::{c_int, c_uint, c_void};

use hca_dev::UserMemory;
use hca_verbs::{Access, MrOptions};

use crate::abi::*;
use crate::boundary::{Errno, Verb, destroyed, invalid, pointer, status, unsupported};
use crate::context::context_of;
use crate::live::{CStruct, Kind, Object, get, publish, retire};
use crate::sockets::DevPtr;

/// Protection domain.
#[repr(C)]
pub struct PdObject {
    raw: CStruct<ibv_pd>,
    pub pd: hca_verbs::Pd<DevPtr>,
}

impl Object for PdObject {
    const KIND: Kind = Kind::Pd;
}

pub unsafe extern "C" fn alloc_pd(context: *mut ibv_context) -> *mut ibv_pd {
    pointer(|| {
        // SAFETY: as context_of says.
        let pd = unsafe { context_of(context)? }.hca().alloc_pd()?;
        let raw = CStruct::new(ibv_pd {
            context,
            handle: pd.handle(),
        });
        Ok(publish(Box::new(PdObject { raw, pd })).cast())
    })
}

pub unsafe extern "C" fn dealloc_pd(pd: *mut ibv_pd) -> c_int {
    status(|| {
        // SAFETY: looked up first.
        destroyed(unsafe { get(pd.cast::<PdObject>())? }.pd.destroy())?;
        drop(retire(pd.cast::<PdObject>())?);
        Ok(())
    })
}

/// Memory region.
#[repr(C)]
pub struct MrObject {
    raw: CStruct<ibv_mr>,
    mr: hca_verbs::Mr<DevPtr>,
    /// As the program gave them.
    iova: u64,
    access: c_uint,
}

impl Object for MrObject {
    const KIND: Kind = Kind::Mr;
}

/// Bits 20 to 29 are hints that any card may ignore (ibv_reg_mr(3)).
const OPTIONAL_ACCESS: c_uint = 0x3ff0_0000;
/// How the system maps the memory: for a region, nothing that a card has to know.
const HOST_ACCESS: c_uint = IBV_ACCESS_HUGETLB | OPTIONAL_ACCESS;
/// Rights that a region can be asked for. The card grants what it has of them.
const KNOWN_ACCESS: c_uint = IBV_ACCESS_LOCAL_WRITE
    | IBV_ACCESS_REMOTE_WRITE
    | IBV_ACCESS_REMOTE_READ
    | IBV_ACCESS_REMOTE_ATOMIC
    | IBV_ACCESS_MW_BIND
    | IBV_ACCESS_ZERO_BASED
    | HOST_ACCESS;

/// qp_access_flags without what says nothing about a QP; programs give QPs the rights of their regions. The card
/// judges the rest.
pub fn qp_access(flags: c_uint) -> Access {
    Access::from_bits(flags & !(HOST_ACCESS | IBV_ACCESS_ON_DEMAND))
}

fn check_access(access: c_uint) -> Verb<Access> {
    if access & IBV_ACCESS_ON_DEMAND != 0 {
        return Err(unsupported("on-demand paging: register memory that is there"));
    }
    if access & !KNOWN_ACCESS != 0 {
        let unknown = access & !KNOWN_ACCESS;
        return Err(invalid(&format!("access {access:#x}: nobody knows {unknown:#x}")));
    }
    let remote_writes = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC;
    if access & remote_writes != 0 && access & IBV_ACCESS_LOCAL_WRITE == 0 {
        return Err(invalid("remote write and atomic rights need LOCAL_WRITE"));
    }
    Ok(Access::from_bits(access & !HOST_ACCESS))
}

/// The kernel would pin the pages and so find out; here the process' own map tells whether they are there.
fn check_memory(addr: u64, len_bytes: u64, is_written: bool) -> Verb<()> {
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
    crate::boundary::warn(&format!(
        "memory at {covered:#x} is not mapped, or not with the rights of the region"
    ));
    Err(Errno(libc::EFAULT))
}

/// Makes a region. `iova`: the address that work requests and peers use.
fn make(pd: *mut ibv_pd, addr: *mut c_void, length: usize, iova: u64, access: c_uint) -> Verb<MrObject> {
    // SAFETY: looked up first.
    let domain = unsafe { get(pd.cast::<PdObject>())? };
    let rights = check_access(access)?;
    check_memory(addr as u64, length as u64, access & IBV_ACCESS_LOCAL_WRITE != 0)?;
    let first = if access & IBV_ACCESS_ZERO_BASED == 0 {
        iova
    } else {
        0
    };
    let options = MrOptions {
        addr: Some(first),
        ..MrOptions::new(rights)
    };
    // SAFETY: the program keeps the memory until it deregisters it, and expects RDMA to change it (V-132).
    let memory = unsafe { UserMemory::new(addr.cast(), length) };
    let mr = domain.pd.reg_user_mr(memory, &options)?;
    let (lkey, rkey) = (mr.lkey(), mr.rkey());
    // SAFETY: a field that nobody changes.
    let context = unsafe { (*domain.raw.as_ptr()).context };
    let raw = CStruct::new(ibv_mr {
        context,
        pd,
        addr,
        length,
        handle: lkey,
        lkey,
        rkey,
    });
    Ok(MrObject {
        raw,
        mr,
        iova,
        access,
    })
}

fn register(
    pd: *mut ibv_pd,
    addr: *mut c_void,
    length: usize,
    iova: u64,
    access: c_uint,
) -> Verb<*mut ibv_mr> {
    Ok(publish(Box::new(make(pd, addr, length, iova, access)?)).cast())
}

pub unsafe extern "C" fn reg_mr(
    pd: *mut ibv_pd,
    addr: *mut c_void,
    length: usize,
    access: c_int,
) -> *mut ibv_mr {
    pointer(|| register(pd, addr, length, addr as u64, access as c_uint))
}

pub unsafe extern "C" fn reg_mr_iova2(
    pd: *mut ibv_pd,
    addr: *mut c_void,
    length: usize,
    iova: u64,
    access: c_uint,
) -> *mut ibv_mr {
    pointer(|| register(pd, addr, length, iova, access))
}

pub unsafe extern "C" fn dereg_mr(mr: *mut ibv_mr) -> c_int {
    status(|| {
        let mut object = retire(mr.cast::<MrObject>())?;
        if let Err(errno) = destroyed(object.mr.destroy()) {
            // Still there: EBUSY, or the card does not answer.
            publish(object);
            return Err(errno);
        }
        Ok(())
    })
}

/// Other rights, another domain: the card changes the entry of the region, whose keys stay.
fn change(object: &mut MrObject, pd: *mut ibv_pd, access: c_uint) -> Verb<()> {
    // SAFETY: looked up first.
    let domain = unsafe { get(pd.cast::<PdObject>())? };
    let rights = check_access(access)?;
    let writes = access & IBV_ACCESS_LOCAL_WRITE != 0;
    let raw = object.raw.as_ptr();
    // SAFETY: fields that only rereg_mr changes, and it has the object to itself.
    let (addr, length) = unsafe { ((*raw).addr, (*raw).length) };
    check_memory(addr as u64, length as u64, writes)?;
    object.mr.modify(&domain.pd, rights)?;
    // SAFETY: as above.
    unsafe { (*raw).pd = pd };
    object.access = access;
    Ok(())
}

/// V-131. A region at another place has new keys; one that changes only its rights or its domain keeps them. Whatever
/// goes wrong, the region is as it was, and still has to be deregistered.
pub unsafe extern "C" fn rereg_mr(
    mr: *mut ibv_mr,
    flags: c_int,
    pd: *mut ibv_pd,
    addr: *mut c_void,
    length: usize,
    access: c_int,
) -> c_int {
    let run = || {
        let flags = flags as c_uint;
        if flags == 0 || flags & !IBV_REREG_MR_FLAGS_SUPPORTED != 0 {
            return Err(invalid(&format!("ibv_rereg_mr: flags {flags:#x}")));
        }
        let has = |flag| flags & flag != 0;
        if has(IBV_REREG_MR_CHANGE_PD) {
            // SAFETY: both are looked up first.
            unsafe {
                get(mr.cast::<MrObject>())?;
                get(pd.cast::<PdObject>())?;
                if (*mr).context != (*pd).context {
                    return Err(invalid("the PD of a region must be of its context"));
                }
            }
        }
        let mut object = retire(mr.cast::<MrObject>())?;
        let raw = object.raw.as_ptr();
        // SAFETY: fields that only this function changes, and it has the object to itself.
        let (old_addr, old_length, old_pd) = unsafe { ((*raw).addr, (*raw).length, (*raw).pd) };
        let (addr, length, iova) = if has(IBV_REREG_MR_CHANGE_TRANSLATION) {
            (addr, length, addr as u64)
        } else {
            (old_addr, old_length, object.iova)
        };
        let pd = if has(IBV_REREG_MR_CHANGE_PD) { pd } else { old_pd };
        let access = if has(IBV_REREG_MR_CHANGE_ACCESS) {
            access as c_uint
        } else {
            object.access
        };
        let is_moved =
            has(IBV_REREG_MR_CHANGE_TRANSLATION) || (access ^ object.access) & IBV_ACCESS_ZERO_BASED != 0;
        let result = if is_moved {
            make(pd, addr, length, iova, access).and_then(|new| {
                // Only now: nothing has changed if the new one cannot be.
                object.mr.destroy()?;
                *object = new;
                Ok(())
            })
        } else {
            change(&mut object, pd, access)
        };
        publish(object);
        result
    };
    if status(run) == 0 {
        0
    } else {
        IBV_REREG_MR_ERR_INPUT
    }
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
