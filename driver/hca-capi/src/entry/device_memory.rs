//! Device memory (V-77 to V-80).

use std::ffi::{c_int, c_uint, c_void};
use std::sync::Arc;

use hca_abi::DM_PAGE_BYTES;
use hca_verbs::DeviceMemory;

use crate::abi::*;
use crate::boundary::access::check_access;
use crate::boundary::live::{CStruct, find_map, get, publish, put_back, retire};
use crate::boundary::{Errno, Verb, destroyed, invalid, pointer, status, unsupported};
use crate::cards::DevPtr;
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
            return Err(invalid(format_args!(
                "ibv_alloc_dm: alignment 2^{}, pages begin at multiples of {DM_PAGE_BYTES}",
                attr.log_align_req
            )));
        }
        let dm = Arc::new(owner.hca().alloc_dm(attr.length)?);
        publish_dm(context, dm, false)
    })
}

/// Hands device memory to the program.
fn publish_dm(
    context: *mut ibv_context,
    dm: Arc<DeviceMemory<DevPtr>>,
    is_import: bool,
) -> Verb<*mut ibv_dm> {
    let raw = CStruct::new(ibv_dm {
        context,
        memcpy_to_dm: Some(memcpy_to_dm),
        memcpy_from_dm: Some(memcpy_from_dm),
        comp_mask: 0,
        handle: dm.handle(),
    });
    Ok(publish(DmObject { raw, dm, is_import })?.cast())
}

/// Device memory of the same card, by its number. It is in use for as long as this name of it is there.
pub unsafe extern "C" fn import_dm(context: *mut ibv_context, handle: u32) -> *mut ibv_dm {
    pointer(|| {
        // SAFETY: as context_of says.
        let card = unsafe { context_of(context)? }.hca();
        let is_it = |object: &DmObject| {
            let found = object.dm.handle() == handle && object.dm.is_of(card);
            found.then(|| object.dm.clone())
        };
        let dm = find_map(is_it).ok_or_else(|| {
            invalid(format_args!(
                "no device memory of this card has the handle {handle}"
            ))
        })?;
        publish_dm(context, dm, true)
    })
}

/// The memory itself stays.
pub unsafe extern "C" fn unimport_dm(dm: *mut ibv_dm) {
    status(|| {
        // SAFETY: looked up first.
        if !unsafe { get(dm.cast::<DmObject>())? }.is_import {
            return Err(invalid("ibv_unimport_dm: device memory that was not imported"));
        }
        drop(retire(dm.cast::<DmObject>())?);
        Ok(())
    });
}

/// EBUSY while a region is there, or another name.
pub unsafe extern "C" fn free_dm(dm: *mut ibv_dm) -> c_int {
    status(|| {
        // SAFETY: looked up first.
        let object = unsafe { get(dm.cast::<DmObject>())? };
        if object.is_import {
            return Err(invalid(
                "ibv_free_dm: it was imported, and is freed by its own name",
            ));
        }
        if Arc::strong_count(&object.dm) > 1 {
            return Err(Errno(libc::EBUSY));
        }
        let object = retire(dm.cast::<DmObject>())?;
        if let Err(errno) = destroyed(object.dm.destroy()) {
            put_back(object);
            return Err(errno);
        }
        Ok(())
    })
}

/// Programs may copy words, as other cards have it, and rdma-core's tests ask for it.
const WORD_BYTES: u64 = 4;

/// What the caller says of a copy: the host's side of it.
fn host_side(object: &DmObject, dm_offset: u64, host: *const c_void, length: usize) -> Verb<*const u8> {
    if host.is_null() && length > 0 {
        return Err(Errno(libc::EINVAL));
    }
    if !dm_offset.is_multiple_of(WORD_BYTES) || !(length as u64).is_multiple_of(WORD_BYTES) {
        return Err(invalid(format_args!(
            "{length} bytes at {dm_offset:#x} of device memory: multiples of {WORD_BYTES} are copied"
        )));
    }
    if length > object.dm.len_bytes() {
        return Err(invalid("copy of more than the device memory has"));
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
        let host = host_side(object, dm_offset, host_addr, length)?;
        let mut bytes = hca_room::slice(length, |_| 0)?;
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
        let host = host_side(object, dm_offset, host_addr, length)?;
        let mut bytes = hca_room::slice(length, |_| 0)?;
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
        Ok(publish(MrObject {
            raw,
            mr,
            iova: 0,
            access,
            domain: domain.hold(),
        })?
        .cast())
    })
}
