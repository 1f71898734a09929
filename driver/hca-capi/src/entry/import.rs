//! Objects that one part of a process has made, for another part that knows their numbers. Another process cannot have
//! them: a function of a card belongs to the process that opened it, and no kernel keeps its objects for others.

use std::ffi::c_int;
use std::fs;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::ptr::null_mut;

use crate::abi::*;
use crate::boundary::live::{CStruct, find, get, publish, retire};
use crate::boundary::{invalid, pointer, status, unsupported};
use crate::entry::context::open_of;
use crate::entry::memory::publish_pd;
use crate::objects::context::{ContextObject, context_of};
use crate::objects::memory::{ImportedMrObject, MrObject, Parent, PdObject};

/// The number of the eventfd behind a descriptor, which its duplicates have too.
fn eventfd_id(fd: RawFd) -> Option<u64> {
    let info = fs::read_to_string(format!("/proc/self/fdinfo/{fd}")).ok()?;
    let line = info.lines().find_map(|line| line.strip_prefix("eventfd-id:"))?;
    line.trim().parse().ok()
}

/// The descriptor is the context's from now on, and closed with it.
pub unsafe extern "C" fn import_device(cmd_fd: c_int) -> *mut ibv_context {
    pointer(|| {
        let id = eventfd_id(cmd_fd).ok_or_else(|| invalid("ibv_import_device: no cmd_fd of a context"))?;
        let is_it = |context: &ContextObject| eventfd_id(context.cmd_fd.as_raw_fd()) == Some(id);
        // SAFETY: who imports a context does not close it meanwhile.
        let Some(context) = (unsafe { find(is_it) }) else {
            return Err(unsupported("ibv_import_device: a context of another process"));
        };
        if context.cmd_fd.as_raw_fd() == cmd_fd {
            return Err(invalid(
                "ibv_import_device: the context's own cmd_fd, and no duplicate",
            ));
        }
        // SAFETY: a field that nobody changes.
        let device = unsafe { (*context.verbs.as_ptr()).context.device };
        // SAFETY: it was just found open, and the program hands it over.
        open_of(device, context.card.clone(), unsafe {
            OwnedFd::from_raw_fd(cmd_fd)
        })
    })
}

/// A domain of the same card, by its number. It is in use for as long as this name of it is there.
pub unsafe extern "C" fn import_pd(context: *mut ibv_context, handle: u32) -> *mut ibv_pd {
    pointer(|| {
        // SAFETY: as context_of says.
        let card = unsafe { context_of(context)? }.hca();
        let is_it = |domain: &PdObject| {
            domain.parent.is_none() && domain.pd.handle() == handle && domain.pd.is_of(card)
        };
        // SAFETY: who imports a domain does not free it meanwhile.
        let domain = unsafe { find(is_it) }.ok_or_else(|| {
            invalid(&format!(
                "no protection domain of this card has the handle {handle}"
            ))
        })?;
        let parent = Parent {
            _pd: domain.users.clone(),
            _td: None,
            one_thread: None,
        };
        Ok(publish_pd(context, domain.pd.clone(), Some(parent)))
    })
}

/// What was made in it stays; the domain itself does, too.
pub unsafe extern "C" fn unimport_pd(pd: *mut ibv_pd) {
    status(|| {
        // SAFETY: looked up first.
        if unsafe { get(pd.cast::<PdObject>())? }.parent.is_none() {
            return Err(invalid("ibv_unimport_pd: a domain that was not imported"));
        }
        drop(retire(pd.cast::<PdObject>())?);
        Ok(())
    });
}

/// The keys of a region in that domain, by its number; where it lies the program knows.
pub unsafe extern "C" fn import_mr(pd: *mut ibv_pd, handle: u32) -> *mut ibv_mr {
    pointer(|| {
        // SAFETY: looked up first.
        let domain = unsafe { get(pd.cast::<PdObject>())? };
        let is_it = |region: &MrObject| region.mr.lkey() == handle && region.mr.is_in(&domain.pd);
        // SAFETY: who imports a region does not deregister it meanwhile.
        let region = unsafe { find(is_it) }
            .ok_or_else(|| invalid(&format!("no region of this domain has the handle {handle}")))?;
        // SAFETY: fields that nobody changes meanwhile.
        let (context, length) = unsafe { ((*domain.raw.as_ptr()).context, (*region.raw.as_ptr()).length) };
        let raw = CStruct::new(ibv_mr {
            context,
            pd,
            addr: null_mut(),
            length,
            handle,
            lkey: region.mr.lkey(),
            rkey: region.mr.rkey(),
        });
        Ok(publish(Box::new(ImportedMrObject { raw })).cast())
    })
}

/// The region stays registered.
pub unsafe extern "C" fn unimport_mr(mr: *mut ibv_mr) {
    status(|| {
        drop(retire(mr.cast::<ImportedMrObject>())?);
        Ok(())
    });
}
