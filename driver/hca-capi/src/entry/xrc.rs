//! XRC domains, which a process can share by a file, and further handles of a target of XRC.

use std::ffi::c_int;
use std::sync::{Arc, Weak};

use crate::abi::*;
use crate::boundary::live::{CStruct, get, lock, publish, retire};
use crate::boundary::{Errno, destroyed, invalid, pointer, status, unsupported};
use crate::entry::qp::hand_out_target;
use crate::objects::context::context_of;
use crate::objects::names::{Domain, file_of};
use crate::objects::xrc::XrcdObject;

/// V-83. As the kernel answers: EAGAIN for a file without a domain, EINVAL for one that has one and O_EXCL.
pub unsafe extern "C" fn open_xrcd(
    context: *mut ibv_context,
    attr: *mut ibv_xrcd_init_attr,
) -> *mut ibv_xrcd {
    const PARTS: u32 = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS;
    pointer(|| {
        // SAFETY: the program's structure, or NULL.
        let attr = unsafe { attr.as_ref() }.ok_or(Errno(libc::EINVAL))?;
        if attr.comp_mask >= IBV_XRCD_INIT_ATTR_RESERVED {
            return Err(unsupported("ibv_open_xrcd: comp_mask beyond FD and OFLAGS"));
        }
        if attr.comp_mask != PARTS || attr.oflags & !(libc::O_CREAT | libc::O_EXCL) != 0 {
            return Err(invalid(
                "ibv_open_xrcd: fd and oflags are wanted, of O_CREAT and O_EXCL",
            ));
        }
        // SAFETY: as context_of says.
        let owner = unsafe { context_of(context)? };
        let has = |flag| attr.oflags & flag != 0;
        let file = match attr.fd {
            -1 if !has(libc::O_CREAT) => return Err(invalid("ibv_open_xrcd: no file, and no O_CREAT")),
            -1 => None,
            fd => Some(file_of(fd)?),
        };
        let names = &mut lock(&owner.card.shared.names);
        let known = file
            .as_ref()
            .and_then(|(file, _)| names.domains.get(file).and_then(Weak::upgrade));
        let domain = match known {
            Some(_) if has(libc::O_EXCL) => {
                return Err(invalid("ibv_open_xrcd: O_EXCL, and the file has a domain"));
            }
            Some(domain) => domain,
            None if !has(libc::O_CREAT) => return Err(Errno(libc::EAGAIN)),
            None => {
                let xrcd = owner.hca().alloc_xrcd()?;
                let name = file.as_ref().map(|(name, _)| *name);
                let domain = Arc::new(Domain { xrcd, file });
                if let Some(name) = name {
                    names.domains.insert(name, Arc::downgrade(&domain));
                }
                domain
            }
        };
        let object = XrcdObject {
            raw: CStruct::new(ibv_xrcd { context }),
            domain,
            card: owner.card.clone(),
        };
        Ok(publish(object)?.cast())
    })
}

/// V-84: EBUSY for the last reference while SRQs or targets are in the domain.
pub unsafe extern "C" fn close_xrcd(raw: *mut ibv_xrcd) -> c_int {
    status(|| {
        let object = raw.cast::<XrcdObject>();
        // SAFETY: looked up first.
        let xrcd = unsafe { get(object)? };
        let card = xrcd.card.clone();
        let names = &mut lock(&card.shared.names);
        if Arc::strong_count(&xrcd.domain) == 1 {
            destroyed(xrcd.domain.xrcd.close())?;
            if let Some((name, _)) = &xrcd.domain.file {
                names.domains.remove(name);
            }
        }
        drop(retire(object)?);
        Ok(())
    })
}

/// V-120: one more handle of a target, of the same domain.
pub unsafe extern "C" fn open_qp(context: *mut ibv_context, attr: *mut ibv_qp_open_attr) -> *mut ibv_qp {
    const PARTS: u32 = IBV_QP_OPEN_ATTR_NUM | IBV_QP_OPEN_ATTR_XRCD | IBV_QP_OPEN_ATTR_TYPE;
    pointer(|| {
        // SAFETY: the program's structure, or NULL.
        let attr = unsafe { attr.as_ref() }.ok_or(Errno(libc::EINVAL))?;
        if attr.comp_mask >= IBV_QP_OPEN_ATTR_RESERVED {
            return Err(unsupported(
                "ibv_open_qp: comp_mask beyond NUM, XRCD, CONTEXT and TYPE",
            ));
        }
        if attr.comp_mask & PARTS != PARTS || attr.qp_type != IBV_QPT_XRC_RECV {
            return Err(invalid(
                "ibv_open_qp: number, domain and type XRC_RECV are wanted",
            ));
        }
        // SAFETY: as context_of says; looked up first.
        let (owner, xrcd) = unsafe { (context_of(context)?, get(attr.xrcd.cast::<XrcdObject>())?) };
        if !Arc::ptr_eq(&xrcd.card, &owner.card) {
            return Err(invalid("ibv_open_qp: the XRC domain is of another device"));
        }
        let target = lock(&owner.card.shared.names).find_target(attr.qp_num, &xrcd.domain);
        let target = target.ok_or_else(|| invalid("ibv_open_qp: no such QP in this domain"))?;
        let qp_context = match attr.comp_mask & IBV_QP_OPEN_ATTR_CONTEXT {
            0 => std::ptr::null_mut(),
            _ => attr.qp_context,
        };
        let state = u8::from(lock(&target.qp).query()?.qp_state).into();
        Ok(hand_out_target(context, owner, target, qp_context, state)?.cast())
    })
}
