//! QP0 or QP1 of a port: datagrams in and out, by the verbs that any program has.

use std::collections::HashMap;
use std::ffi::c_int;
use std::ptr::null_mut;
use std::time::{Duration, Instant};

use hca_agents::{MAD_BYTES, Mad};

use crate::abi::*;
use crate::errno::{Call, EINVAL, Errno, last_errno, made, verb};

/// The kernel's QP types of QP0 and QP1, which our libibverbs takes.
const QPT_SMI: ibv_qp_type = 0;
const QPT_GSI: ibv_qp_type = 1;
const GRH_BYTES: usize = 40;
const RECEIVES: usize = 256;
const SENDS: usize = 32;
const SLOT_BYTES: usize = 512;
/// A datagram that has not left after this time never will.
const SEND_LIMIT: Duration = Duration::from_secs(20);

/// Which of the two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Which {
    /// QP0.
    Smi,
    /// QP1.
    Gsi,
}

/// Where a datagram goes or has come from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Route {
    pub lid: u16,
    pub sl: u8,
    pub path_bits: u8,
    pub qpn: u32,
    pub qkey: u32,
    /// GID, its index here, flow label, hop limit and traffic class of a GRH.
    pub grh: Option<([u8; 16], u8, u32, u8, u8)>,
}

impl Route {
    /// The part of it that an address handle is made of.
    fn way(&self) -> Self {
        Self {
            qpn: 0,
            qkey: 0,
            ..*self
        }
    }
}

/// An open QP.
pub struct ManagementQp {
    which: Which,
    context: *mut ibv_context,
    port_num: u8,
    pd: *mut ibv_pd,
    channel: *mut ibv_comp_channel,
    send_cq: *mut ibv_cq,
    recv_cq: *mut ibv_cq,
    qp: *mut ibv_qp,
    mr: *mut ibv_mr,
    memory: Vec<u8>,
    ahs: HashMap<Route, *mut ibv_ah>,
    free_sends: Vec<usize>,
}

// SAFETY: verbs may be called from any thread, and who owns this calls one at a time.
unsafe impl Send for ManagementQp {}

impl ManagementQp {
    /// Opens it, ready to receive.
    ///
    /// # Safety
    /// `context` is an open device that stays open.
    pub unsafe fn open(context: *mut ibv_context, port_num: u8, which: Which) -> Call<Self> {
        let mut qp = Self {
            which,
            context,
            port_num,
            pd: null_mut(),
            channel: null_mut(),
            send_cq: null_mut(),
            recv_cq: null_mut(),
            qp: null_mut(),
            mr: null_mut(),
            memory: vec![0; (RECEIVES + SENDS) * SLOT_BYTES],
            ahs: HashMap::new(),
            free_sends: (RECEIVES..RECEIVES + SENDS).collect(),
        };
        // SAFETY: the caller's context. What fails here is taken down by Drop.
        unsafe { qp.make() }?;
        qp.start()?;
        Ok(qp)
    }

    unsafe fn make(&mut self) -> Call<()> {
        let context = self.context;
        // SAFETY: objects of an open context, made one after the other.
        unsafe {
            self.pd = made(ibv_alloc_pd(context))?;
            self.channel = made(ibv_create_comp_channel(context))?;
            if libc::fcntl((*self.channel).fd, libc::F_SETFL, libc::O_NONBLOCK) < 0 {
                return Err(last_errno());
            }
            self.recv_cq = made(ibv_create_cq(
                context,
                RECEIVES as c_int,
                null_mut(),
                self.channel,
                0,
            ))?;
            self.send_cq = made(ibv_create_cq(context, SENDS as c_int, null_mut(), null_mut(), 0))?;
            self.mr = made(reg_mr(self.pd, &mut self.memory, IBV_ACCESS_LOCAL_WRITE as c_int))?;
            let mut init = ibv_qp_init_attr {
                send_cq: self.send_cq,
                recv_cq: self.recv_cq,
                cap: ibv_qp_cap {
                    max_send_wr: SENDS as u32,
                    max_recv_wr: RECEIVES as u32,
                    max_send_sge: 1,
                    max_recv_sge: 1,
                    max_inline_data: 0,
                },
                qp_type: match self.which {
                    Which::Smi => QPT_SMI,
                    Which::Gsi => QPT_GSI,
                },
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
                ..Default::default()
            };
            // SAFETY: a live QP.
            verb(unsafe { ibv_modify_qp(self.qp, &mut attr, (IBV_QP_STATE | mask) as c_int) })?;
        }
        self.arm()?;
        (0..RECEIVES).try_for_each(|slot| self.post_receive(slot))
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

    fn address_handle(&mut self, route: &Route) -> Call<*mut ibv_ah> {
        if let Some(ah) = self.ahs.get(&route.way()) {
            return Ok(*ah);
        }
        let mut attr = ibv_ah_attr {
            dlid: route.lid,
            sl: route.sl,
            src_path_bits: route.path_bits,
            port_num: self.port_num,
            ..Default::default()
        };
        if let Some((gid, sgid_index, flow_label, hop_limit, traffic_class)) = route.grh {
            attr.is_global = 1;
            attr.grh = ibv_global_route {
                dgid: ibv_gid { raw: gid },
                flow_label,
                sgid_index,
                hop_limit,
                traffic_class,
            };
        }
        // SAFETY: a live PD.
        let ah = made(unsafe { ibv_create_ah(self.pd, &mut attr) })?;
        self.ahs.insert(route.way(), ah);
        Ok(ah)
    }

    /// Sends a datagram; waits only while all places of the send queue are taken.
    pub fn send(&mut self, route: &Route, mad: &Mad) -> Call<()> {
        let ah = self.address_handle(route)?;
        let slot = self.send_slot()?;
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
        wr.wr.ud.remote_qpn = route.qpn;
        wr.wr.ud.remote_qkey = route.qkey;
        let mut bad = null_mut();
        // SAFETY: a live QP and AH; the slot is not written before the completion.
        let code = unsafe {
            let post = (*self.context).ops.post_send.ok_or(EINVAL)?;
            post(self.qp, &mut wr, &mut bad)
        };
        verb(code).inspect_err(|_| self.free_sends.push(slot))
    }

    fn send_slot(&mut self) -> Call<usize> {
        let start = Instant::now();
        loop {
            while let Some(wc) = self.poll(self.send_cq)? {
                self.free_sends.push(wc.wr_id as usize);
            }
            if let Some(slot) = self.free_sends.pop() {
                return Ok(slot);
            }
            if start.elapsed() > SEND_LIMIT {
                return Err(Errno(libc::ETIMEDOUT));
            }
            std::thread::yield_now();
        }
    }

    /// All datagrams that have come.
    pub fn receive(&mut self) -> Call<Vec<(Mad, Route)>> {
        let (mut cq, mut cookie) = (null_mut(), null_mut());
        let mut events = 0;
        // SAFETY: a live channel that does not block.
        while unsafe { ibv_get_cq_event(self.channel, &mut cq, &mut cookie) } == 0 {
            events += 1;
        }
        // SAFETY: as many as were fetched.
        unsafe { ibv_ack_cq_events(self.recv_cq, events) };
        self.arm()?;
        let mut found = Vec::new();
        while let Some(wc) = self.poll(self.recv_cq)? {
            let slot = wc.wr_id as usize;
            if slot >= RECEIVES {
                continue;
            }
            if wc.status == IBV_WC_SUCCESS && wc.byte_len as usize == GRH_BYTES + MAD_BYTES {
                let at = slot * SLOT_BYTES;
                let data = &self.memory[at + GRH_BYTES..at + GRH_BYTES + MAD_BYTES];
                if let Ok(mad) = data.try_into() {
                    found.push((mad, self.route_of(&wc, &self.memory[at..at + GRH_BYTES])));
                }
            }
            self.post_receive(slot)?;
        }
        Ok(found)
    }

    /// Where a datagram has come from, which is where its answer goes.
    fn route_of(&self, wc: &ibv_wc, grh: &[u8]) -> Route {
        let has_grh = wc.wc_flags & IBV_WC_GRH != 0;
        let word = u32::from_be_bytes([grh[0], grh[1], grh[2], grh[3]]);
        let sgid: [u8; 16] = grh[8..24].try_into().unwrap_or_default();
        Route {
            lid: wc.slid,
            sl: wc.sl,
            path_bits: wc.dlid_path_bits,
            qpn: wc.src_qp,
            qkey: match self.which {
                Which::Smi => 0,
                Which::Gsi => hca_wire::QKEY_GSI,
            },
            // An answer goes back as far as it must, whatever was left of the way here.
            grh: has_grh.then_some((sgid, 0, word & 0xf_ffff, 64, (word >> 20) as u8)),
        }
    }
}

impl Drop for ManagementQp {
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

/// ibv_reg_mr is a macro in the header; the function behind it is the same.
unsafe fn reg_mr(pd: *mut ibv_pd, memory: &mut [u8], access: c_int) -> *mut ibv_mr {
    unsafe extern "C" {
        fn ibv_reg_mr(pd: *mut ibv_pd, addr: *mut libc::c_void, length: usize, access: c_int) -> *mut ibv_mr;
    }
    // SAFETY: the caller's PD; memory that outlives the region.
    unsafe { ibv_reg_mr(pd, memory.as_mut_ptr().cast(), memory.len(), access) }
}
