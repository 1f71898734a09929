//! Shared receive queues of ids (CM-50): at most one each, from which the id's QP receives.

use std::ptr::null_mut;

use crate::abi::*;
use crate::errno::{Call, EINVAL, Errno, made, verb};
use crate::state::{Cm, with};

impl Cm {
    fn create_srq(&mut self, id: usize, pd: *mut ibv_pd, attr: &mut ibv_srq_init_attr) -> Call<()> {
        let port = self.port_of(id)?;
        let default_pd = self.default_pd(port)?;
        let raw = self.id(id)?.raw;
        // SAFETY: a live id; a PD of the program is looked at for its card alone.
        unsafe {
            if !(*raw).srq.is_null() {
                return Err(EINVAL);
            }
            let pd = match pd.is_null() {
                true => default_pd,
                false if (*pd).context != (*raw).verbs => return Err(EINVAL),
                false => pd,
            };
            (*raw).srq = made(ibv_create_srq(pd, attr))?;
            (*raw).pd = pd;
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
        Ok(())
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

/// A call of C: rdma_create_srq.
///
/// # Safety
/// As the manual page says.
pub unsafe fn create(id: *mut rdma_cm_id, pd: *mut ibv_pd, attr: *mut ibv_srq_init_attr) -> Call<()> {
    // SAFETY: the program's structure, or NULL.
    let attr = unsafe { attr.as_mut() }.ok_or(EINVAL)?;
    with(id, |cm, id| cm.create_srq(id, pd, attr))
}

/// A call of C: rdma_create_srq_ex, of the one type that there is.
///
/// # Safety
/// As the manual page says.
pub unsafe fn create_ex(id: *mut rdma_cm_id, attr: *mut ibv_srq_init_attr_ex) -> Call<()> {
    const KNOWN: u32 = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD;
    // SAFETY: the program's structure, or NULL.
    let attr = unsafe { attr.as_mut() }.ok_or(EINVAL)?;
    let has = |bit| attr.comp_mask & bit != 0;
    if attr.comp_mask & !KNOWN != 0 || (has(IBV_SRQ_INIT_ATTR_TYPE) && attr.srq_type != IBV_SRQT_BASIC) {
        with(id, |_, _| Ok(()))?;
        return Err(Errno(libc::EOPNOTSUPP));
    }
    let pd = if has(IBV_SRQ_INIT_ATTR_PD) {
        attr.pd
    } else {
        null_mut()
    };
    let mut plain = ibv_srq_init_attr {
        srq_context: attr.srq_context,
        attr: attr.attr,
    };
    with(id, |cm, id| cm.create_srq(id, pd, &mut plain))?;
    attr.attr = plain.attr;
    Ok(())
}
