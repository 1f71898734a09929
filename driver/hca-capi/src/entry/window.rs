//! Memory windows (V-135 to V-139).

use std::ffi::c_int;

use hca_verbs::{MwType, SendWr, WrData, next_rkey};

use crate::abi::*;
use crate::boundary::convert::flags_of;
use crate::boundary::live::{CStruct, get, publish, put_back, retire};
use crate::boundary::window::bind_op;
use crate::boundary::{Errno, destroyed, invalid, pointer, status};
use crate::objects::memory::{MwObject, PdObject};
use crate::objects::qp::QpObject;

pub unsafe extern "C" fn alloc_mw(pd: *mut ibv_pd, kind: ibv_mw_type) -> *mut ibv_mw {
    pointer(|| {
        // SAFETY: looked up first.
        let domain = unsafe { get(pd.cast::<PdObject>())? };
        let mw = domain.pd.alloc_mw(match kind {
            IBV_MW_TYPE_1 => MwType::One,
            IBV_MW_TYPE_2 => MwType::Two,
            _ => {
                return Err(invalid(format_args!(
                    "memory window of type {kind}: there are 1 and 2"
                )));
            }
        })?;
        // SAFETY: a live domain, and a field that nobody changes.
        let context = unsafe { (*pd).context };
        let raw = CStruct::new(ibv_mw {
            context,
            pd,
            rkey: mw.rkey(),
            handle: mw.rkey() >> 8,
            type_: kind,
        });
        Ok(publish(MwObject { raw, mw })?.cast())
    })
}

pub unsafe extern "C" fn dealloc_mw(mw: *mut ibv_mw) -> c_int {
    status(|| {
        let mut object = retire(mw.cast::<MwObject>())?;
        if let Err(errno) = destroyed(object.mw.destroy()) {
            put_back(object);
            return Err(errno);
        }
        Ok(())
    })
}

/// V-136: type 1. The window has its new key at once; it counts when the request has completed.
pub unsafe extern "C" fn bind_mw(qp: *mut ibv_qp, mw: *mut ibv_mw, request: *mut ibv_mw_bind) -> c_int {
    status(|| {
        if qp.is_null() || mw.is_null() || request.is_null() {
            return Err(Errno(libc::EINVAL));
        }
        // SAFETY: the program's objects.
        let (object, request) = unsafe { (&*qp.cast::<QpObject>(), &*request) };
        // SAFETY: as above.
        let (kind, old, pd, qp_pd) = unsafe { ((*mw).type_, (*mw).rkey, (*mw).pd, (*qp).pd) };
        if kind != IBV_MW_TYPE_1 || pd != qp_pd {
            return Err(Errno(libc::EINVAL));
        }
        let rkey = next_rkey(old);
        // SAFETY: as above.
        let op = unsafe { bind_op(mw, rkey, &request.bind_info)? };
        let wr = SendWr {
            wr_id: request.wr_id,
            op,
            flags: flags_of(request.send_flags)?,
            data: WrData::Sges(&[]),
        };
        object.inner.with(|inner| {
            let posted = inner.qp.own()?.post_send(&[wr]);
            posted.map_err(|bad| Errno(bad.error.errno()))
        })?;
        // SAFETY: as above.
        unsafe { (*mw).rkey = rkey };
        Ok(())
    })
}
