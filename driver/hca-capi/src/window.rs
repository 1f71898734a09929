//! Memory windows (V-135 to V-139).

use std::ffi::{c_int, c_uint};

use hca_verbs::{Access, MwBind, MwType, SendOp, SendWr, WrData, next_rkey};

use crate::abi::*;
use crate::boundary::{Errno, Verb, destroyed, invalid, pointer, status};
use crate::live::{CStruct, Kind, Object, get, publish, retire};
use crate::memory::PdObject;
use crate::post;
use crate::qp::QpObject;
use crate::sockets::DevPtr;

/// Memory window.
#[repr(C)]
pub struct MwObject {
    raw: CStruct<ibv_mw>,
    mw: hca_verbs::Mw<DevPtr>,
}

impl Object for MwObject {
    const KIND: Kind = Kind::Mw;
}

/// Rights of a window. Programs give it those of its region, too, and no other card minds.
const MW_ACCESS: c_uint =
    IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_ZERO_BASED;

pub unsafe extern "C" fn alloc_mw(pd: *mut ibv_pd, kind: ibv_mw_type) -> *mut ibv_mw {
    pointer(|| {
        // SAFETY: looked up first.
        let domain = unsafe { get(pd.cast::<PdObject>())? };
        let mw = domain.pd.alloc_mw(match kind {
            IBV_MW_TYPE_1 => MwType::One,
            IBV_MW_TYPE_2 => MwType::Two,
            _ => {
                return Err(invalid(&format!(
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
        Ok(publish(Box::new(MwObject { raw, mw })).cast())
    })
}

pub unsafe extern "C" fn dealloc_mw(mw: *mut ibv_mw) -> c_int {
    status(|| {
        let mut object = retire(mw.cast::<MwObject>())?;
        if let Err(errno) = destroyed(object.mw.destroy()) {
            publish(object);
            return Err(errno);
        }
        Ok(())
    })
}

/// The operation of a bind. The window's next key has the low byte of `rkey`; what it has above is its own.
///
/// # Safety
/// `mw` and the region that `info` names are the program's, alive.
pub unsafe fn bind(mw: *mut ibv_mw, rkey: u32, info: &ibv_mw_bind_info) -> Verb<SendOp> {
    let known = MW_ACCESS | IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND;
    if mw.is_null() || info.mw_access_flags & !known != 0 || (info.mr.is_null() && info.length != 0) {
        return Err(Errno(libc::EINVAL));
    }
    // SAFETY: as the caller says.
    let (is_type_2, lkey, own) = unsafe {
        let lkey = if info.mr.is_null() { 0 } else { (*info.mr).lkey };
        ((*mw).type_ == IBV_MW_TYPE_2, lkey, (*mw).rkey)
    };
    Ok(SendOp::BindMw(MwBind {
        rkey: own & !0xff | rkey & 0xff,
        is_type_2,
        lkey,
        addr: info.addr,
        length: info.length,
        access: Access::from_bits(info.mw_access_flags & MW_ACCESS).bits(),
    }))
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
        let op = unsafe { bind(mw, rkey, &request.bind_info)? };
        let wr = SendWr {
            wr_id: request.wr_id,
            op,
            flags: post::flags_of(request.send_flags)?,
            data: WrData::Sges(&[]),
        };
        object
            .inner
            .with(|inner| inner.qp.post_send(&[wr]).map_err(|bad| post::refusal(bad).0))?;
        // SAFETY: as above.
        unsafe { (*mw).rkey = rkey };
        Ok(())
    })
}
