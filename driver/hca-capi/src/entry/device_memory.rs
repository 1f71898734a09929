//! Device memory (V-77 to V-80).

use std::ffi::{c_int, c_uint, c_void};

use hca_abi::DM_PAGE_BYTES;

use crate::abi::*;
use crate::boundary::access::check_access;
use crate::boundary::live::{CStruct, get, publish, retire};
use crate::boundary::{Errno, Verb, destroyed, invalid, pointer, status, unsupported};
use crate::objects::context::context_of;
use crate::objects::device_memory::DmObject;
use crate::objects::memory::{MrObject, PdObject};

pub unsafe extern "C" fn alloc_dm(context: *mut ibv_context, attr: *mut ibv_alloc_dm_attr) -> *mut ibv_dm {
    pointer(|| {
        // SAFETY: as context_of says; the program's structure, or NULL.
        let (owner, attr) = unsafe { (context_of(context)?, attr.as_ref().ok_or(Errno(libc::EINVAL))?) };
        if attr.comp_mask != 0 {
            return Err(unsupported("ibv_alloc_dm: no comp_mask is known"));
        }
        if attr.log_align_req > DM_PAGE_BYTES.ilog2() {
            return Err(invalid(&format!(
                "ibv_alloc_dm: alignment 2^{}, pages begin at multiples of {DM_PAGE_BYTES}",
                attr.log_align_req
            )));
        }
        let dm = owner.hca().alloc_dm(attr.length)?;
        let raw = CStruct::new(ibv_dm {
            context,
            memcpy_to_dm: Some(memcpy_to_dm),
            memcpy_from_dm: Some(memcpy_from_dm),
            comp_mask: 0,
            handle: dm.handle(),
        });
        Ok(publish(Box::new(DmObject { raw, dm })).cast())
    })
}

/// EBUSY while a region is there.
pub unsafe extern "C" fn free_dm(dm: *mut ibv_dm) -> c_int {
    status(|| {
        let object = retire(dm.cast::<DmObject>())?;
        if let Err(errno) = destroyed(object.dm.destroy()) {
            publish(object);
            return Err(errno);
        }
        Ok(())
    })
}

/// What the caller says of the host's side of a copy.
fn memory(host: *const c_void, length: usize) -> Verb<*const u8> {
    if host.is_null() && length > 0 {
        return Err(Errno(libc::EINVAL));
    }
    Ok(host.cast())
}

unsafe extern "C" fn memcpy_to_dm(
    dm: *mut ibv_dm,
    dm_offset: u64,
    host_addr: *const c_void,
    length: usize,
) -> c_int {
    status(|| {
        // SAFETY: looked up first.
        let object = unsafe { get(dm.cast::<DmObject>())? };
        let host = memory(host_addr, length)?;
        if length > object.dm.len_bytes() {
            return Err(invalid("ibv_memcpy_to_dm: more than the device memory has"));
        }
        let mut bytes = vec![0; length];
        // SAFETY: the program has so many bytes there; a copy, for it may change them meanwhile.
        unsafe { std::ptr::copy_nonoverlapping(host, bytes.as_mut_ptr(), length) };
        Ok(object.dm.write(dm_offset, &bytes)?)
    })
}

unsafe extern "C" fn memcpy_from_dm(
    host_addr: *mut c_void,
    dm: *mut ibv_dm,
    dm_offset: u64,
    length: usize,
) -> c_int {
    status(|| {
        // SAFETY: looked up first.
        let object = unsafe { get(dm.cast::<DmObject>())? };
        let host = memory(host_addr, length)?;
        if length > object.dm.len_bytes() {
            return Err(invalid("ibv_memcpy_from_dm: more than the device memory has"));
        }
        let mut bytes = vec![0; length];
        object.dm.read(dm_offset, &mut bytes)?;
        // SAFETY: the program has room for so many bytes there.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), host.cast_mut(), length) };
        Ok(())
    })
}

pub unsafe extern "C" fn reg_dm_mr(
    pd: *mut ibv_pd,
    dm: *mut ibv_dm,
    dm_offset: u64,
    length: usize,
    access: c_uint,
) -> *mut ibv_mr {
    pointer(|| {
        // SAFETY: both are looked up first.
        let (domain, object) = unsafe { (get(pd.cast::<PdObject>())?, get(dm.cast::<DmObject>())?) };
        // SAFETY: fields that nobody changes.
        let context = unsafe { (*domain.raw.as_ptr()).context };
        let mr = (domain.pd).reg_dm_mr(&object.dm, dm_offset, length, check_access(access)?)?;
        let raw = CStruct::new(ibv_mr {
            context,
            pd,
            addr: std::ptr::null_mut(),
            length,
            handle: mr.lkey(),
            lkey: mr.lkey(),
            rkey: mr.rkey(),
        });
        Ok(publish(Box::new(MrObject {
            raw,
            mr,
            iova: 0,
            access,
            domain: domain.hold(),
        }))
        .cast())
    })
}
