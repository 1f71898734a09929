//! QPs of ids: the library takes them through their states (CM-20).

use std::ffi::c_int;
use std::ptr::null_mut;
use std::time::SystemTime;

use crate::abi::*;
use crate::errno::{Call, EINVAL, Errno, made, verb};
use crate::state::{Cm, Id, with};
use crate::xrc;

/// CM-61: Q_Key of QPs of datagrams, unless a program has another one.
pub const UDP_QKEY: u32 = RDMA_UDP_QKEY;
const CONNECTED_ACCESS: u32 =
    IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_LOCAL_WRITE;

/// A number that no packet of before had, as far as possible.
pub fn starting_psn() -> u32 {
    let since = SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default();
    (since.subsec_nanos() ^ std::process::id().wrapping_mul(0x9e37_79b9)) & 0xff_ffff
}

impl Id {
    fn is_uc(&self) -> bool {
        self.kind() == IBV_QPT_UC
    }

    /// Type of its QP.
    pub fn kind(&self) -> ibv_qp_type {
        // SAFETY: a live id.
        unsafe { (*self.raw).qp_type }
    }

    /// The peer's QP, once it has replied.
    fn replied_qpn(&self) -> Call<u32> {
        let rep = self.rep.as_ref().ok_or(EINVAL)?;
        Ok(if self.kind() == IBV_QPT_XRC_SEND {
            rep.local_eecn
        } else {
            rep.local_qpn
        })
    }

    /// Attributes of the id's QP in INIT.
    fn init_attr(&self, port_num: u8) -> (ibv_qp_attr, u32) {
        let mut attr = ibv_qp_attr {
            qp_state: IBV_QPS_INIT,
            port_num,
            ..Default::default()
        };
        let mut mask = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT;
        if self.is_ud() {
            attr.qkey = UDP_QKEY;
            mask |= IBV_QP_QKEY;
        } else {
            attr.qp_access_flags = CONNECTED_ACCESS;
            mask |= IBV_QP_ACCESS_FLAGS;
        }
        (attr, mask)
    }

    fn rtr_attr(&self) -> Call<(ibv_qp_attr, u32)> {
        let mut attr = ibv_qp_attr {
            qp_state: IBV_QPS_RTR,
            ..Default::default()
        };
        let mut mask = IBV_QP_STATE;
        if self.is_ud() {
            return Ok((attr, mask));
        }
        // IBA 12.7: each side names the PSN with which the *other* one begins.
        let req = self.req.as_ref().ok_or(EINVAL)?;
        attr.path_mtu = self.path.mtu.into();
        attr.ah_attr = self.path.route.to_ah_attr();
        if self.is_passive {
            let rep = self.rep.as_ref().ok_or(EINVAL)?;
            (attr.dest_qp_num, attr.rq_psn) = (req.local_qpn, rep.starting_psn);
            attr.max_dest_rd_atomic = rep.responder_resources;
        } else {
            (attr.dest_qp_num, attr.rq_psn) = (self.replied_qpn()?, req.starting_psn);
            attr.max_dest_rd_atomic = req.responder_resources;
        }
        mask |= IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
        // An initiator of XRC answers nobody, a target asks nobody.
        if !self.is_uc() && self.kind() != IBV_QPT_XRC_SEND {
            // CM-38: an RNR timer of 0 is the longest.
            attr.min_rnr_timer = 0;
            mask |= IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
        }
        Ok((attr, mask))
    }

    fn rts_attr(&self) -> Call<(ibv_qp_attr, u32)> {
        let mut attr = ibv_qp_attr {
            qp_state: IBV_QPS_RTS,
            ..Default::default()
        };
        let mut mask = IBV_QP_STATE | IBV_QP_SQ_PSN;
        if self.is_ud() {
            return Ok((attr, mask));
        }
        let (req, rep) = (self.req.as_ref().ok_or(EINVAL)?, self.rep.as_ref().ok_or(EINVAL)?);
        (attr.timeout, attr.retry_cnt) = (req.primary_local_ack_timeout, req.retry_count);
        if self.is_passive {
            (attr.sq_psn, attr.rnr_retry) = (req.starting_psn, req.rnr_retry_count);
            attr.max_rd_atomic = rep.initiator_depth;
        } else {
            (attr.sq_psn, attr.rnr_retry) = (rep.starting_psn, rep.rnr_retry_count);
            attr.max_rd_atomic = req.initiator_depth.min(rep.responder_resources);
        }
        if !self.is_uc() {
            mask |= IBV_QP_TIMEOUT;
        }
        if !self.is_uc() && self.kind() != IBV_QPT_XRC_RECV {
            mask |= IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC;
        }
        Ok((attr, mask))
    }

    fn qp(&self) -> *mut ibv_qp {
        // SAFETY: a live id.
        unsafe { (*self.raw).qp }
    }

    /// Has the program made a QP on the id?
    pub fn has_qp(&self) -> bool {
        !self.qp().is_null()
    }

    fn modify(&self, (mut attr, mask): (ibv_qp_attr, u32)) -> Call<()> {
        // SAFETY: a live QP: it is taken off the id before it is destroyed.
        verb(unsafe { ibv_modify_qp(self.qp(), &mut attr, mask as c_int) })
    }

    /// Ready to receive and to send, by what both sides have said.
    pub fn make_ready(&self) -> Call<()> {
        self.modify(self.rtr_attr()?)?;
        self.modify(self.rts_attr()?)
    }

    /// CM-42: what is posted is flushed.
    pub fn make_failed(&self) {
        if self.has_qp() && !self.is_ud() {
            let attr = ibv_qp_attr {
                qp_state: IBV_QPS_ERR,
                ..Default::default()
            };
            // One that is in ERR already stays there.
            let _ = self.modify((attr, IBV_QP_STATE));
        }
    }
}

impl Cm {
    /// CM-23: attributes for the state that the program names.
    pub fn qp_attributes(&mut self, id: usize, state: u32) -> Call<(ibv_qp_attr, u32)> {
        let port = self.port_of(id)?;
        let num = self.ports[port].num;
        let entry = self.id(id)?;
        match state {
            IBV_QPS_INIT => Ok(entry.init_attr(num)),
            IBV_QPS_RTR => entry.rtr_attr(),
            IBV_QPS_RTS => entry.rts_attr(),
            _ => Err(EINVAL),
        }
    }

    /// Makes the CQs that the program leaves to the library, each with its channel.
    pub fn make_cqs(&mut self, id: usize, attr: &mut ibv_qp_init_attr) -> Call<()> {
        let entry = self.id(id)?;
        let raw = entry.raw;
        // SAFETY: a live id.
        let context = unsafe { (*raw).verbs };
        let cookie: *mut libc::c_void = raw.cast();
        let make = move |entries: u32| -> Call<_> {
            // SAFETY: an open device, of a bound id.
            unsafe {
                let channel = made(ibv_create_comp_channel(context))?;
                let cq = ibv_create_cq(context, entries.max(1) as c_int, cookie, channel, 0);
                let cq = made(cq).inspect_err(|_| {
                    ibv_destroy_comp_channel(channel);
                })?;
                Ok((cq, channel))
            }
        };
        // From here on: of two the first may be there when the second cannot be had.
        entry.owns_cqs = true;
        // SAFETY: a live id.
        unsafe {
            let (sends, receives) = match attr.qp_type {
                IBV_QPT_XRC_RECV => (false, false),
                IBV_QPT_XRC_SEND => (true, false),
                _ => (true, true),
            };
            if attr.recv_cq.is_null() && receives {
                ((*raw).recv_cq, (*raw).recv_cq_channel) = make(attr.cap.max_recv_wr)?;
                attr.recv_cq = (*raw).recv_cq;
            }
            if attr.send_cq.is_null() && sends {
                ((*raw).send_cq, (*raw).send_cq_channel) = make(attr.cap.max_send_wr)?;
                attr.send_cq = (*raw).send_cq;
            }
        }
        Ok(())
    }

    /// A QP of the program's PD and XRC domain, or of those of the card.
    pub fn create_qp(
        &mut self,
        id: usize,
        (pd, xrcd): (*mut ibv_pd, *mut ibv_xrcd),
        attr: &mut ibv_qp_init_attr,
    ) -> Call<()> {
        let port = self.port_of(id)?;
        let default_pd = self.default_pd(port)?;
        let entry = self.id(id)?;
        let raw = entry.raw;
        if entry.has_qp() {
            return Err(EINVAL);
        }
        // SAFETY: a live id.
        if attr.qp_type != unsafe { (*raw).qp_type } {
            return Err(EINVAL);
        }
        let pd = if pd.is_null() { default_pd } else { pd };
        let is_xrc = matches!(attr.qp_type, IBV_QPT_XRC_SEND | IBV_QPT_XRC_RECV);
        if attr.srq.is_null() && !is_xrc {
            // SAFETY: a live id. CM-50: its QP receives from its SRQ.
            attr.srq = unsafe { (*raw).srq };
        }
        let result = self.make_cqs(id, attr).and_then(|()| match attr.qp_type {
            IBV_QPT_XRC_RECV => self.create_target(port, xrcd, attr),
            // SAFETY: each is looked up there.
            _ => made(unsafe { ibv_create_qp(pd, attr) }),
        });
        let result = result.and_then(|qp| self.own_qp(id, qp));
        let made_ready = result.and_then(|qp| {
            // SAFETY: a live id.
            unsafe {
                (*raw).qp = qp;
                (*raw).pd = pd;
            }
            self.begin_qp(id)
        });
        if made_ready.is_err() {
            self.destroy_qp(id)?;
        }
        made_ready
    }

    /// CM-20: a QP by objects of another open of the card, or of another card, is none for the id.
    fn own_qp(&mut self, id: usize, qp: *mut ibv_qp) -> Call<*mut ibv_qp> {
        let raw = self.id(id)?.raw;
        // SAFETY: a live id, and the QP that was just made.
        unsafe {
            if (*qp).context != (*raw).verbs {
                ibv_destroy_qp(qp);
                return Err(EINVAL);
            }
        }
        Ok(qp)
    }

    /// A target of XRC: it has no queues, but a domain whose SRQs requests name.
    fn create_target(
        &mut self,
        port: usize,
        xrcd: *mut ibv_xrcd,
        attr: &ibv_qp_init_attr,
    ) -> Call<*mut ibv_qp> {
        let xrcd = if xrcd.is_null() {
            self.default_xrcd(port)?
        } else {
            xrcd
        };
        let context = self.devices[self.ports[port].device].context;
        let mut target = ibv_qp_init_attr_ex {
            qp_context: attr.qp_context,
            qp_type: IBV_QPT_XRC_RECV,
            comp_mask: IBV_QP_INIT_ATTR_XRCD,
            xrcd,
            ..Default::default()
        };
        // SAFETY: an open device, and a domain of it or of the program.
        unsafe { xrc::create_qp(context, &mut target) }
    }

    fn begin_qp(&mut self, id: usize) -> Call<()> {
        let init = self.qp_attributes(id, IBV_QPS_INIT)?;
        let entry = self.id(id)?;
        entry.modify(init)?;
        if entry.is_ud() { entry.make_ready() } else { Ok(()) }
    }

    /// Destroys the id's QP, and the CQs that were made for it.
    pub fn destroy_qp(&mut self, id: usize) -> Call<()> {
        let entry = self.id(id)?;
        let raw = entry.raw;
        // SAFETY: what the id has is live until it is taken off here.
        unsafe {
            let qp = std::mem::replace(&mut (*raw).qp, null_mut());
            if !qp.is_null() {
                for (_, mgid, mlid, _) in entry.groups.iter().filter(|(.., receives)| *receives) {
                    ibv_detach_mcast(qp, &ibv_gid { raw: *mgid }, *mlid);
                }
                ibv_destroy_qp(qp);
            }
        }
        self.free_cqs(id)
    }

    /// Destroys the CQs that were made for an id, when neither its QP nor its SRQ of XRC is there any more.
    pub fn free_cqs(&mut self, id: usize) -> Call<()> {
        let entry = self.id(id)?;
        let raw = entry.raw;
        if entry.has_xrc_srq || entry.has_qp() {
            return Ok(());
        }
        // SAFETY: what the id has is live until it is taken off here.
        unsafe {
            if std::mem::take(&mut entry.owns_cqs) {
                for cq in [&mut (*raw).send_cq, &mut (*raw).recv_cq] {
                    let cq = std::mem::replace(cq, null_mut());
                    if !cq.is_null() {
                        ibv_destroy_cq(cq);
                    }
                }
                for channel in [&mut (*raw).send_cq_channel, &mut (*raw).recv_cq_channel] {
                    let channel = std::mem::replace(channel, null_mut());
                    if !channel.is_null() {
                        ibv_destroy_comp_channel(channel);
                    }
                }
            }
        }
        Ok(())
    }
}

/// A call of C: rdma_create_qp.
///
/// # Safety
/// As the manual page says.
pub unsafe fn create(id: *mut rdma_cm_id, pd: *mut ibv_pd, attr: *mut ibv_qp_init_attr) -> Call<()> {
    // SAFETY: the program's structure, or NULL.
    let attr = unsafe { attr.as_mut() }.ok_or(EINVAL)?;
    // One that fails leaves nothing in it.
    let mut own = *attr;
    with(id, |cm, id| cm.create_qp(id, (pd, null_mut()), &mut own))?;
    *attr = own;
    Ok(())
}

/// A call of C: rdma_create_qp_ex, with what rdma_create_qp has.
///
/// # Safety
/// As the manual page says.
pub unsafe fn create_ex(id: *mut rdma_cm_id, attr: *mut ibv_qp_init_attr_ex) -> Call<()> {
    // SAFETY: the program's structure, or NULL.
    let attr = unsafe { attr.as_mut() }.ok_or(EINVAL)?;
    let has = |bit| attr.comp_mask & bit != 0;
    if attr.comp_mask & !(IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_XRCD) != 0 {
        return Err(Errno(libc::EOPNOTSUPP));
    }
    let mut plain = ibv_qp_init_attr {
        qp_context: attr.qp_context,
        send_cq: attr.send_cq,
        recv_cq: attr.recv_cq,
        srq: attr.srq,
        cap: attr.cap,
        qp_type: attr.qp_type,
        sq_sig_all: attr.sq_sig_all,
    };
    let pd = if has(IBV_QP_INIT_ATTR_PD) {
        attr.pd
    } else {
        null_mut()
    };
    let xrcd = if has(IBV_QP_INIT_ATTR_XRCD) {
        attr.xrcd
    } else {
        null_mut()
    };
    with(id, |cm, id| cm.create_qp(id, (pd, xrcd), &mut plain))?;
    (attr.cap, attr.send_cq, attr.recv_cq) = (plain.cap, plain.send_cq, plain.recv_cq);
    Ok(())
}
