//! Protection domains and memory regions.

use std::ffi::{c_int, c_uint, c_void};

use hca_dev::{OneThread, UserMemory};
use hca_verbs::MrOptions;

use crate::abi::*;
use crate::boundary::access::check_access;
use crate::boundary::live::{CStruct, get, publish, put_back, retire};
use crate::boundary::mapped::check_memory;
use crate::boundary::{Errno, Verb, destroyed, invalid, pointer, status, unsupported};
use crate::cards::DevPtr;
use crate::objects::context::context_of;
use crate::objects::memory::{Hold, MrObject, Parent, PdObject, TdObject, is_in_use};

pub unsafe extern "C" fn alloc_pd(context: *mut ibv_context) -> *mut ibv_pd {
    pointer(|| {
        // SAFETY: as context_of says.
        let pd = unsafe { context_of(context)? }.hca().alloc_pd()?;
        publish_pd(context, pd, None)
    })
}

/// Hands a domain to the program; `parent`: it is another name for one.
pub fn publish_pd(
    context: *mut ibv_context,
    pd: hca_verbs::Pd<DevPtr>,
    parent: Option<Parent>,
) -> Verb<*mut ibv_pd> {
    let raw = CStruct::new(ibv_pd {
        context,
        handle: pd.handle(),
    });
    let users = Hold::default();
    Ok(publish(PdObject {
        raw,
        pd,
        users,
        parent,
    })?
    .cast())
}

/// A parent domain is freed alone: its protection domain stays.
pub unsafe extern "C" fn dealloc_pd(pd: *mut ibv_pd) -> c_int {
    status(|| {
        // SAFETY: looked up first.
        let domain = unsafe { get(pd.cast::<PdObject>())? };
        if is_in_use(&domain.users) {
            return Err(Errno(libc::EBUSY));
        }
        if domain.parent.is_none() {
            destroyed(domain.pd.destroy())?;
        }
        drop(retire(pd.cast::<PdObject>())?);
        Ok(())
    })
}

/// V-81.
pub unsafe extern "C" fn alloc_td(context: *mut ibv_context, attr: *mut ibv_td_init_attr) -> *mut ibv_td {
    pointer(|| {
        // SAFETY: as context_of says; the program's structure, or NULL.
        let (_, attr) = unsafe { (context_of(context)?, attr.as_ref()) };
        if attr.ok_or(Errno(libc::EINVAL))?.comp_mask != 0 {
            return Err(unsupported("ibv_alloc_td: no comp_mask is known"));
        }
        let raw = CStruct::new(ibv_td { context });
        let users = Hold::default();
        Ok(publish(TdObject { raw, users })?.cast())
    })
}

/// V-82.
pub unsafe extern "C" fn dealloc_td(td: *mut ibv_td) -> c_int {
    status(|| {
        // SAFETY: looked up first.
        if is_in_use(&unsafe { get(td.cast::<TdObject>())? }.users) {
            return Err(Errno(libc::EBUSY));
        }
        drop(retire(td.cast::<TdObject>())?);
        Ok(())
    })
}

/// Rings are memory that the card shares with the process: a program's own allocators cannot make it.
pub unsafe extern "C" fn alloc_parent_domain(
    context: *mut ibv_context,
    attr: *mut ibv_parent_domain_init_attr,
) -> *mut ibv_pd {
    pointer(|| {
        // SAFETY: as context_of says; the program's structure, or NULL.
        let (_, attr) = unsafe { (context_of(context)?, attr.as_ref()) };
        let attr = attr.ok_or(Errno(libc::EINVAL))?;
        if attr.comp_mask & !IBV_PARENT_DOMAIN_INIT_ATTR_PD_CONTEXT != 0 {
            return Err(unsupported(
                "ibv_alloc_parent_domain: no comp_mask but PD_CONTEXT",
            ));
        }
        // SAFETY: looked up first.
        let domain = unsafe { get(attr.pd.cast::<PdObject>())? };
        // SAFETY: looked up first, if there is one.
        let thread = (!attr.td.is_null()).then(|| unsafe { get(attr.td.cast::<TdObject>()) });
        let thread = thread.transpose()?;
        // SAFETY: both were just found.
        let is_foreign =
            unsafe { (*attr.pd).context != context || thread.is_some() && (*attr.td).context != context };
        if is_foreign {
            return Err(invalid(
                "a parent domain and what it is made of are of one context",
            ));
        }
        // SAFETY: what a thread domain says (V-81).
        let promise = thread.map(|_| unsafe { OneThread::promise() });
        let parent = Parent {
            _pd: domain.users.clone(),
            _td: thread.map(|thread| thread.users.clone()),
            one_thread: promise,
        };
        publish_pd(context, domain.pd.clone(), Some(parent))
    })
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
        domain: domain.hold(),
    })
}

fn register(
    pd: *mut ibv_pd,
    addr: *mut c_void,
    length: usize,
    iova: u64,
    access: c_uint,
) -> Verb<*mut ibv_mr> {
    Ok(publish(make(pd, addr, length, iova, access)?)?.cast())
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

/// V-133. The only right of its L_Key is LOCAL_WRITE; as an R_Key it grants nothing.
pub unsafe extern "C" fn alloc_null_mr(pd: *mut ibv_pd) -> *mut ibv_mr {
    pointer(|| {
        // SAFETY: looked up first.
        let domain = unsafe { get(pd.cast::<PdObject>())? };
        let mr = domain.pd.alloc_null_mr()?;
        // SAFETY: a field that nobody changes.
        let context = unsafe { (*domain.raw.as_ptr()).context };
        let raw = CStruct::new(ibv_mr {
            context,
            pd,
            addr: std::ptr::null_mut(),
            length: usize::MAX,
            handle: mr.lkey(),
            lkey: mr.lkey(),
            rkey: mr.rkey(),
        });
        Ok(publish(MrObject {
            raw,
            mr,
            iova: 0,
            access: IBV_ACCESS_LOCAL_WRITE,
            domain: domain.hold(),
        })?
        .cast())
    })
}

pub unsafe extern "C" fn dereg_mr(mr: *mut ibv_mr) -> c_int {
    status(|| {
        let mut object = retire(mr.cast::<MrObject>())?;
        if let Err(errno) = destroyed(object.mr.destroy()) {
            // Still there: EBUSY, or the card does not answer.
            put_back(object);
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
    object.domain = domain.hold();
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
        hca_room::require()?;
        let flags = flags as c_uint;
        if flags == 0 || flags & !IBV_REREG_MR_FLAGS_SUPPORTED != 0 {
            return Err(invalid(format_args!("ibv_rereg_mr: flags {flags:#x}")));
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
        // SAFETY: looked up first.
        let region = &unsafe { get(mr.cast::<MrObject>())? }.mr;
        if region.is_null() || region.is_device_memory() {
            return Err(invalid(
                "ibv_rereg_mr: not of a null region, and not of device memory",
            ));
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
        put_back(object);
        result
    };
    if status(run) == 0 {
        0
    } else {
        IBV_REREG_MR_ERR_INPUT
    }
}
