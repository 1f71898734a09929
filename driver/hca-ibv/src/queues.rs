//! A QP of management datagrams with its queues, by the verbs that any program has: what libibumad and librdmacm have
//! in common.

use std::collections::HashMap;
use std::ffi::c_int;
use std::hash::Hash;
use std::ptr::null_mut;

use hca_exports::errno::{Call, EINVAL, Errno, last_errno, made, verb};

use crate::abi::*;
use crate::calls::*;

/// Bytes in front of what is received.
pub const GRH_BYTES: usize = 40;
/// Bytes of a datagram.
pub const MAD_BYTES: usize = 256;
/// Bytes of a place in memory.
const SLOT_BYTES: usize = 512;

/// What a QP is made of.
#[derive(Clone, Copy)]
pub struct Shape {
    /// The kernel's type of QP0 or QP1, which our libibverbs takes.
    pub qp_type: ibv_qp_type,
    /// What datagrams are accepted with, where it is the program's to say.
    pub qkey: u32,
    /// Places of the receive queue.
    pub receives: usize,
    /// Places of the send queue.
    pub sends: usize,
}

/// An open QP whose receives are posted. `R`: what an address handle is found by.
pub struct Queues<R> {
    /// The open device.
    pub context: *mut ibv_context,
    /// The port that the QP is on.
    pub port_num: u8,
    shape: Shape,
    pd: *mut ibv_pd,
    channel: *mut ibv_comp_channel,
    send_cq: *mut ibv_cq,
    recv_cq: *mut ibv_cq,
    qp: *mut ibv_qp,
    mr: *mut ibv_mr,
    /// Places of receives, and those of sends behind them.
    memory: Box<[u8]>,
    ahs: HashMap<R, *mut ibv_ah>,
}

// SAFETY: verbs may be called from any thread, and who owns this calls one at a time.
unsafe impl<R: Send> Send for Queues<R> {}

impl<R: Eq + Hash> Queues<R> {
    /// Opens it, ready to receive.
    ///
    /// # Safety
    /// `context` is an open device that stays open.
    pub unsafe fn open(context: *mut ibv_context, port_num: u8, shape: Shape) -> Call<Self> {
        let mut queues = Self {
            context,
            port_num,
            shape,
            pd: null_mut(),
            channel: null_mut(),
            send_cq: null_mut(),
            recv_cq: null_mut(),
            qp: null_mut(),
            mr: null_mut(),
            memory: hca_room::slice((shape.receives + shape.sends) * SLOT_BYTES, |_| 0)?,
            ahs: HashMap::new(),
        };
        // SAFETY: the caller's context. What fails here is taken down by Drop.
        unsafe { queues.make() }?;
        queues.start()?;
        Ok(queues)
    }

    unsafe fn make(&mut self) -> Call<()> {
        let (context, depth) = (self.context, self.shape.receives as c_int);
        // SAFETY: objects of an open context, made one after the other.
        unsafe {
            self.pd = made(ibv_alloc_pd(context))?;
            self.channel = made(ibv_create_comp_channel(context))?;
            if libc::fcntl((*self.channel).fd, libc::F_SETFL, libc::O_NONBLOCK) < 0 {
                return Err(last_errno());
            }
            self.recv_cq = made(ibv_create_cq(context, depth, null_mut(), self.channel, 0))?;
            let depth = self.shape.sends as c_int;
            self.send_cq = made(ibv_create_cq(context, depth, null_mut(), null_mut(), 0))?;
            self.mr = made(ibv_reg_mr(
                self.pd,
                self.memory.as_mut_ptr().cast(),
                self.memory.len(),
                IBV_ACCESS_LOCAL_WRITE as c_int,
            ))?;
            let mut init = ibv_qp_init_attr {
                send_cq: self.send_cq,
                recv_cq: self.recv_cq,
                cap: ibv_qp_cap {
                    max_send_wr: self.shape.sends as u32,
                    max_recv_wr: self.shape.receives as u32,
                    max_send_sge: 1,
                    max_recv_sge: 1,
                    max_inline_data: 0,
                },
                qp_type: self.shape.qp_type,
                sq_sig_all: 1,
                ..Default::default()
            };
            self.qp = made(ibv_create_qp(self.pd, &mut init))?;
        }
        Ok(())
    }

    fn start(&mut self) -> Call<()> {
        let steps = [
            (IBV_QPS_INIT, IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY),
            (IBV_QPS_RTR, 0),
            (IBV_QPS_RTS, IBV_QP_SQ_PSN),
        ];
        for (qp_state, mask) in steps {
            let mut attr = ibv_qp_attr {
                qp_state,
                port_num: self.port_num,
                qkey: self.shape.qkey,
                ..Default::default()
            };
            // SAFETY: a live QP.
            verb(unsafe { ibv_modify_qp(self.qp, &mut attr, (IBV_QP_STATE | mask) as c_int) })?;
        }
        self.arm()?;
        (0..self.shape.receives).try_for_each(|slot| self.post_receive(slot))
    }

    /// Readable when datagrams have come.
    pub fn fd(&self) -> c_int {
        // SAFETY: the channel lives as long as this.
        unsafe { (*self.channel).fd }
    }

    fn sge(&self, slot: usize, length: usize) -> ibv_sge {
        ibv_sge {
            addr: self.memory.as_ptr() as u64 + (slot * SLOT_BYTES) as u64,
            length: length as u32,
            // SAFETY: a live MR.
            lkey: unsafe { (*self.mr).lkey },
        }
    }

    fn arm(&self) -> Call<()> {
        // SAFETY: the operations of an open context, with a live CQ.
        let code = unsafe {
            let notify = (*self.context).ops.req_notify_cq.ok_or(EINVAL)?;
            notify(self.recv_cq, 0)
        };
        verb(code)
    }

    fn post_receive(&self, slot: usize) -> Call<()> {
        let mut sge = self.sge(slot, GRH_BYTES + MAD_BYTES);
        let mut wr = ibv_recv_wr {
            wr_id: slot as u64,
            sg_list: &mut sge,
            num_sge: 1,
            ..Default::default()
        };
        let mut bad = null_mut();
        // SAFETY: a live QP; the slot is nobody else's.
        let code = unsafe {
            let post = (*self.context).ops.post_recv.ok_or(EINVAL)?;
            post(self.qp, &mut wr, &mut bad)
        };
        verb(code)
    }

    /// The next completion of a CQ.
    fn poll(&self, cq: *mut ibv_cq) -> Call<Option<ibv_wc>> {
        let mut wc = ibv_wc::default();
        // SAFETY: a live CQ, and room for one completion.
        let count = unsafe {
            let poll = (*self.context).ops.poll_cq.ok_or(EINVAL)?;
            poll(cq, 1, &mut wc)
        };
        match count {
            0 => Ok(None),
            1 => Ok(Some(wc)),
            _ => Err(Errno(libc::EIO)),
        }
    }

    /// The address handle of a key, made when it is first asked for.
    pub fn address_handle(
        &mut self,
        key: R,
        make: impl FnOnce(*mut ibv_pd) -> Call<*mut ibv_ah>,
    ) -> Call<*mut ibv_ah> {
        if let Some(ah) = self.ahs.get(&key) {
            return Ok(*ah);
        }
        let ah = make(self.pd)?;
        self.ahs.insert(key, ah);
        Ok(ah)
    }

    /// Sends a datagram from a place behind those of receives.
    pub fn send(
        &mut self,
        slot: usize,
        ah: *mut ibv_ah,
        (qpn, qkey): (u32, u32),
        mad: &[u8; MAD_BYTES],
    ) -> Call<()> {
        let at = slot * SLOT_BYTES;
        self.memory[at..at + MAD_BYTES].copy_from_slice(mad);
        let mut sge = self.sge(slot, MAD_BYTES);
        let mut wr = ibv_send_wr {
            wr_id: slot as u64,
            sg_list: &mut sge,
            num_sge: 1,
            opcode: IBV_WR_SEND,
            send_flags: IBV_SEND_SIGNALED,
            ..Default::default()
        };
        wr.wr.ud.ah = ah;
        wr.wr.ud.remote_qpn = qpn;
        wr.wr.ud.remote_qkey = qkey;
        let mut bad = null_mut();
        // SAFETY: a live QP and AH; the slot is not written before the completion.
        let code = unsafe {
            let post = (*self.context).ops.post_send.ok_or(EINVAL)?;
            post(self.qp, &mut wr, &mut bad)
        };
        verb(code)
    }

    /// The place of a datagram that has left.
    pub fn sent(&self) -> Call<Option<usize>> {
        Ok(self.poll(self.send_cq)?.map(|wc| wc.wr_id as usize))
    }

    /// All datagrams that have come; `route`: from where, by completion and the 40 bytes in front.
    pub fn receive<T>(
        &mut self,
        mut route: impl FnMut(&mut ibv_wc, &mut [u8; GRH_BYTES]) -> Option<T>,
    ) -> Call<Vec<([u8; MAD_BYTES], T)>> {
        let (mut cq, mut cookie, mut events) = (null_mut(), null_mut(), 0);
        // SAFETY: a live channel that does not block.
        while unsafe { ibv_get_cq_event(self.channel, &mut cq, &mut cookie) } == 0 {
            events += 1;
        }
        // SAFETY: as many as were fetched.
        unsafe { ibv_ack_cq_events(self.recv_cq, events) };
        self.arm()?;
        let mut found = Vec::new();
        while let Some(mut wc) = self.poll(self.recv_cq)? {
            let slot = wc.wr_id as usize;
            if slot >= self.shape.receives {
                continue;
            }
            if wc.status == IBV_WC_SUCCESS && wc.byte_len as usize == GRH_BYTES + MAD_BYTES {
                let place = &mut self.memory[slot * SLOT_BYTES..][..GRH_BYTES + MAD_BYTES];
                let (grh, mad) = place.split_at_mut(GRH_BYTES);
                if let (Ok(grh), Ok(mad)) = (grh.try_into(), <[u8; MAD_BYTES]>::try_from(&*mad)) {
                    found.extend(route(&mut wc, grh).map(|route| (mad, route)));
                }
            }
            self.post_receive(slot)?;
        }
        Ok(found)
    }
}

impl<R> Drop for Queues<R> {
    fn drop(&mut self) {
        // SAFETY: each object was made by this and is used no more; those that were not made are NULL.
        unsafe {
            for ah in self.ahs.values() {
                ibv_destroy_ah(*ah);
            }
            if !self.qp.is_null() {
                ibv_destroy_qp(self.qp);
            }
            for cq in [self.send_cq, self.recv_cq] {
                if !cq.is_null() {
                    ibv_destroy_cq(cq);
                }
            }
            if !self.mr.is_null() {
                ibv_dereg_mr(self.mr);
            }
            if !self.channel.is_null() {
                ibv_destroy_comp_channel(self.channel);
            }
            if !self.pd.is_null() {
                ibv_dealloc_pd(self.pd);
            }
        }
    }
}
