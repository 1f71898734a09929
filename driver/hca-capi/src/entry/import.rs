//! Objects that one part of a process has made, for another part that knows their numbers. Another process cannot have
//! them: a function of a card belongs to the process that opened it, and no kernel keeps its objects for others.

use std::ffi::c_int;
use std::fs;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::ptr::null_mut;

use hca_exports::errno;

use crate::abi::*;
use crate::boundary::live::{CStruct, find_map, get, publish, retire};
use crate::boundary::pipe::EventPipe;
use crate::boundary::{Verb, invalid, pointer, status, unsupported};
use crate::entry::context::open_of;
use crate::entry::memory::publish_pd;
use crate::objects::context::{ContextObject, context_of};
use crate::objects::memory::{ImportedMrObject, MrObject, Parent, PdObject};

/// The number of the eventfd behind a descriptor, which its duplicates have too. `None`: there is no eventfd.
fn eventfd_id(fd: RawFd) -> Verb<Option<u64>> {
    let info = match fs::read_to_string(format!("/proc/self/fdinfo/{fd}")) {
        Ok(info) => info,
        // Who has no descriptor left to look with has not been told anything of this one.
        Err(error) => {
            return error
                .raw_os_error()
                .map(errno::Errno)
                .filter(|e| e.is_shortage())
                .map_or(Ok(None), |e| Err(e.into()));
        }
    };
    let line = info.lines().find_map(|line| line.strip_prefix("eventfd-id:"));
    Ok(line.and_then(|line| line.trim().parse().ok()))
}

/// The descriptor is the context's from now on, and closed with it; one that is refused stays the caller's.
pub unsafe extern "C" fn import_device(cmd_fd: c_int) -> *mut ibv_context {
    pointer(|| {
        let owned = |context: &ContextObject| (context.cmd_fd.as_raw_fd() == cmd_fd).then_some(());
        if find_map(owned).is_some() {
            return Err(invalid(
                "ibv_import_device: the cmd_fd of an open context, and no duplicate of it",
            ));
        }
        let id = eventfd_id(cmd_fd)?.ok_or_else(|| invalid("ibv_import_device: no cmd_fd of a context"))?;
        let is_it = |context: &ContextObject| {
            let found = context.card.is_ours() && eventfd_id(context.cmd_fd.as_raw_fd()) == Ok(Some(id));
            // SAFETY: a field that nobody changes.
            let device = unsafe { (*context.verbs.as_ptr()).context.device };
            found.then(|| (device, context.card.clone()))
        };
        let (device, card) =
            find_map(is_it).ok_or_else(|| unsupported("ibv_import_device: a context of another process"))?;
        let pipe = EventPipe::new()?;
        // SAFETY: it was just found open, no context owns it, and the program hands it over.
        open_of(device, card, unsafe { OwnedFd::from_raw_fd(cmd_fd) }, pipe)
    })
}

/// A domain of the same card, by its number. It is in use for as long as this name of it is there.
pub unsafe extern "C" fn import_pd(context: *mut ibv_context, handle: u32) -> *mut ibv_pd {
    pointer(|| {
        // SAFETY: as context_of says.
        let card = unsafe { context_of(context)? }.hca();
        let is_it = |domain: &PdObject| {
            let found = domain.parent.is_none() && domain.pd.handle() == handle && domain.pd.is_of(card);
            found.then(|| (domain.pd.clone(), domain.users.clone()))
        };
        let (pd, users) = find_map(is_it).ok_or_else(|| {
            invalid(format_args!(
                "no protection domain of this card has the handle {handle}"
            ))
        })?;
        let parent = Parent {
            _pd: users,
            _td: None,
            one_thread: None,
        };
        publish_pd(context, pd, Some(parent))
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
        // SAFETY: a field that nobody changes.
        let context = unsafe { (*domain.raw.as_ptr()).context };
        let is_it = |region: &MrObject| {
            let found = region.mr.lkey() == handle && region.mr.is_in(&domain.pd);
            // SAFETY: a field that nobody changes while the region is there.
            let length = unsafe { (*region.raw.as_ptr()).length };
            found.then(|| ibv_mr {
                context,
                pd,
                addr: null_mut(),
                length,
                handle,
                lkey: region.mr.lkey(),
                rkey: region.mr.rkey(),
            })
        };
        let raw = find_map(is_it)
            .map(CStruct::new)
            .ok_or_else(|| invalid(format_args!("no region of this domain has the handle {handle}")))?;
        Ok(publish(ImportedMrObject { raw })?.cast())
    })
}

/// The region stays registered.
pub unsafe extern "C" fn unimport_mr(mr: *mut ibv_mr) {
    status(|| {
        drop(retire(mr.cast::<ImportedMrObject>())?);
        Ok(())
    });
}
