//! Protection domains and memory regions.

use std::ffi::{c_int, c_uint, c_void};

use hca_dev::UserMemory;
use hca_verbs::MrOptions;

use crate::abi::*;
use crate::boundary::access::check_access;
use crate::boundary::live::{CStruct, get, publish, retire};
use crate::boundary::mapped::check_memory;
use crate::boundary::{Verb, destroyed, invalid, pointer, status};
use crate::objects::context::context_of;
use crate::objects::memory::{MrObject, PdObject};

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
