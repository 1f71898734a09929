//! Shared receive queues of ids (CM-50): at most one each, from which the id's QP receives.

use std::ptr::null_mut;

use crate::abi::*;
use crate::errno::{Call, EINVAL, Errno, verb};
use crate::state::{Cm, with};
use crate::xrc;

impl Cm {
    /// An SRQ of what `attr` names; the rest is the id's.
    fn create_srq(&mut self, id: usize, attr: &mut ibv_srq_init_attr_ex) -> Call<()> {
        let port = self.port_of(id)?;
        let default_pd = self.default_pd(port)?;
        let raw = self.id(id)?.raw;
        let is_xrc = attr.srq_type == IBV_SRQT_XRC;
        // SAFETY: a live id.
        unsafe {
            let context = (*raw).verbs;
            if !(*raw).srq.is_null() {
                return Err(EINVAL);
            }
            if attr.pd.is_null() {
                attr.pd = default_pd;
            }
            attr.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD;
            let complete = match is_xrc {
                true => self.complete_xrc(id, port, attr),
                false => Ok(()),
            };
            let made = complete.and_then(|()| xrc::create_srq(context, attr));
            let made = made.and_then(|srq| match (*srq).context == context {
                true => Ok(srq),
                // The PD is another card's, or of another open of this one.
                false => verb(ibv_destroy_srq(srq)).and(Err(EINVAL)),
            });
            self.id(id)?.has_xrc_srq = is_xrc && made.is_ok();
            match made {
                Ok(srq) => ((*raw).srq, (*raw).pd) = (srq, attr.pd),
                Err(errno) => {
                    self.free_cqs(id)?;
                    return Err(errno);
                }
            }
        }
        Ok(())
    }

    /// CM-50: what the program leaves away of an SRQ of XRC: domain, and the CQ of its completions.
    fn complete_xrc(&mut self, id: usize, port: usize, attr: &mut ibv_srq_init_attr_ex) -> Call<()> {
        attr.comp_mask |= IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ;
        if attr.xrcd.is_null() {
            attr.xrcd = self.default_xrcd(port)?;
        }
        let raw = self.id(id)?.raw;
        // SAFETY: a live id.
        unsafe {
            if attr.cq.is_null() && (*raw).recv_cq.is_null() {
                // Of a QP that has no other use than its receive CQ.
                let mut like = ibv_qp_init_attr {
                    send_cq: std::ptr::dangling_mut(),
                    qp_type: IBV_QPT_RC,
                    ..Default::default()
                };
                like.cap.max_recv_wr = attr.attr.max_wr;
                self.make_cqs(id, &mut like)?;
            }
            if attr.cq.is_null() {
                attr.cq = (*raw).recv_cq;
            }
        }
        Ok(())
    }

    /// One that QPs still use stays, and the id keeps it.
    pub fn destroy_srq(&mut self, id: usize) -> Call<()> {
        let raw = self.id(id)?.raw;
        // SAFETY: a live id, and its SRQ.
        unsafe {
            if (*raw).srq.is_null() {
                return Err(EINVAL);
            }
            verb(ibv_destroy_srq((*raw).srq))?;
            (*raw).srq = null_mut();
        }
        self.id(id)?.has_xrc_srq = false;
        self.free_cqs(id)
    }

    /// What a peer is told: that of the id's QP, or what the program says of its own.
    pub fn has_srq(&mut self, id: usize, param: Option<&rdma_conn_param>) -> Call<bool> {
        let raw = self.id(id)?.raw;
        // SAFETY: a live id, and its QP.
        Ok(unsafe {
            match (*raw).qp.is_null() {
                true => param.is_some_and(|param| param.srq != 0),
                false => !(*(*raw).qp).srq.is_null(),
            }
        })
    }
}

/// A call of C: rdma_create_srq. Of an id for targets of XRC it is one of XRC.
///
/// # Safety
/// As the manual page says.
pub unsafe fn create(id: *mut rdma_cm_id, pd: *mut ibv_pd, attr: *mut ibv_srq_init_attr) -> Call<()> {
    // SAFETY: the program's structure, or NULL.
    let attr = unsafe { attr.as_mut() }.ok_or(EINVAL)?;
    with(id, |cm, id| {
        let mut whole = ibv_srq_init_attr_ex {
            srq_context: attr.srq_context,
            attr: attr.attr,
            srq_type: match cm.id(id)?.kind() {
                IBV_QPT_XRC_RECV => IBV_SRQT_XRC,
                _ => IBV_SRQT_BASIC,
            },
            pd,
            ..Default::default()
        };
        cm.create_srq(id, &mut whole)?;
        attr.attr = whole.attr;
        Ok(())
    })
}

/// A call of C: rdma_create_srq_ex, of the types that the card has.
///
/// # Safety
/// As the manual page says.
pub unsafe fn create_ex(id: *mut rdma_cm_id, attr: *mut ibv_srq_init_attr_ex) -> Call<()> {
    const KNOWN: u32 =
        IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ;
    // SAFETY: the program's structure, or NULL.
    let attr = unsafe { attr.as_mut() }.ok_or(EINVAL)?;
    let has = |bit| attr.comp_mask & bit != 0;
    let kind = if has(IBV_SRQ_INIT_ATTR_TYPE) {
        attr.srq_type
    } else {
        IBV_SRQT_BASIC
    };
    if attr.comp_mask & !KNOWN != 0 || !matches!(kind, IBV_SRQT_BASIC | IBV_SRQT_XRC) {
        with(id, |_, _| Ok(()))?;
        return Err(Errno(libc::EOPNOTSUPP));
    }
    let mut whole = ibv_srq_init_attr_ex {
        srq_context: attr.srq_context,
        attr: attr.attr,
        srq_type: kind,
        pd: if has(IBV_SRQ_INIT_ATTR_PD) {
            attr.pd
        } else {
            null_mut()
        },
        xrcd: if has(IBV_SRQ_INIT_ATTR_XRCD) {
            attr.xrcd
        } else {
            null_mut()
        },
        cq: if has(IBV_SRQ_INIT_ATTR_CQ) {
            attr.cq
        } else {
            null_mut()
        },
        ..Default::default()
    };
    with(id, |cm, id| cm.create_srq(id, &mut whole))?;
    attr.attr = whole.attr;
    Ok(())
}
