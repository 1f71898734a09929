//! Address handles.

use std::ffi::c_int;

use crate::abi::*;
use crate::boundary::convert::ah_from_c;
use crate::boundary::live::{CStruct, get, publish, retire};
use crate::boundary::{Errno, Verb, pointer, status};
use crate::entry::wc_address::address_behind;
use crate::objects::ah::AhObject;
use crate::objects::memory::PdObject;

fn create(pd: *mut ibv_pd, attr: &ibv_ah_attr, pkey_index: u16) -> Verb<*mut ibv_ah> {
    // SAFETY: looked up first.
    let domain = unsafe { get(pd.cast::<PdObject>())? };
    let ah = domain.pd.create_ah(&ah_from_c(attr))?;
    let ah = match pkey_index {
        0 => ah,
        index => ah.in_partition(index)?,
    };
    // SAFETY: just found.
    let context = unsafe { (*pd).context };
    let raw = CStruct::new(ibv_ah {
        context,
        pd,
        // The card has no number for it.
        handle: 0,
    });
    Ok(publish(AhObject {
        raw,
        ah,
        _domain: domain.hold(),
    })?
    .cast())
}

pub unsafe extern "C" fn create_ah(pd: *mut ibv_pd, attr: *mut ibv_ah_attr) -> *mut ibv_ah {
    pointer(|| {
        // SAFETY: the program's structure, or NULL.
        create(pd, unsafe { attr.as_ref() }.ok_or(Errno(libc::EINVAL))?, 0)
    })
}

/// `hca_create_mad_ah`, for our libibumad: datagrams of a QP1 that go there have the P_Key of this index (KEY-21).
pub unsafe extern "C" fn create_mad_ah(
    pd: *mut ibv_pd,
    attr: *mut ibv_ah_attr,
    pkey_index: u16,
) -> *mut ibv_ah {
    pointer(|| {
        // SAFETY: the caller's structure, or NULL.
        let attr = unsafe { attr.as_ref() }.ok_or(Errno(libc::EINVAL))?;
        create(pd, attr, pkey_index)
    })
}

/// The way back to who sent a datagram.
pub unsafe extern "C" fn create_ah_from_wc(
    pd: *mut ibv_pd,
    wc: *mut ibv_wc,
    grh: *mut ibv_grh,
    port_num: u8,
) -> *mut ibv_ah {
    pointer(|| {
        // SAFETY: looked up first.
        unsafe { get(pd.cast::<PdObject>())? };
        // SAFETY: the PD was just found; its context is open. The program's completion and header, or NULL.
        let attr = unsafe { address_behind((*pd).context, port_num, wc, grh)? };
        create(pd, &attr, 0)
    })
}

pub unsafe extern "C" fn destroy_ah(ah: *mut ibv_ah) -> c_int {
    status(|| {
        drop(retire(ah.cast::<AhObject>())?);
        Ok(())
    })
}
