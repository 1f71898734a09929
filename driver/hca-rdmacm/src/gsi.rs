//! QP1 of a port: management datagrams in and out, by the verbs that any program has.

use std::collections::HashMap;
use std::ffi::c_int;
use std::ptr::null_mut;
use std::time::{Duration, Instant};

use hca_cm::{MAD_BYTES, Mad};
use hca_wire::{QKEY_GSI, QPN_GSI};

use crate::abi::*;
use crate::address::Gid;
use crate::errno::{Call, EINVAL, Errno, last_errno, made, verb};

/// The kernel's QP type of QP1, which our libibverbs takes.
const QPT_GSI: ibv_qp_type = 1;
const GRH_BYTES: usize = 40;
const RECEIVES: usize = 128;
const SLOT_BYTES: usize = 512;
/// The slot that datagrams are sent from, behind those of receives.
const SEND_SLOT: usize = RECEIVES;
/// A datagram that has not left after this time never will.
const SEND_LIMIT: Duration = Duration::from_secs(20);

/// Where a datagram goes or has come from: an address vector that can be compared.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Route {
    pub is_global: bool,
    pub dgid: Gid,
    pub sgid_index: u8,
    pub hop_limit: u8,
    pub traffic_class: u8,
    pub flow_label: u32,
    pub dlid: u16,
    pub sl: u8,
    pub src_path_bits: u8,
    pub port_num: u8,
}

impl Route {
    pub fn to_ah_attr(&self) -> ibv_ah_attr {
        ibv_ah_attr {
            grh: ibv_global_route {
                dgid: ibv_gid { raw: self.dgid },
                flow_label: self.flow_label,
                sgid_index: self.sgid_index,
                hop_limit: self.hop_limit,
                traffic_class: self.traffic_class,
            },
            dlid: self.dlid,
            sl: self.sl,
            src_path_bits: self.src_path_bits,
            is_global: self.is_global.into(),
            port_num: self.port_num,
            ..Default::default()
        }
    }

    fn from_ah_attr(attr: &ibv_ah_attr) -> Self {
        let is_global = attr.is_global != 0;
        let dgid = match is_global {
            // SAFETY: any bytes are a GID.
            true => unsafe { attr.grh.dgid.raw },
            false => [0; 16],
        };
        Self {
            is_global,
            dgid,
            sgid_index: if is_global { attr.grh.sgid_index } else { 0 },
            // An answer goes back as far as it must, whatever was left of the way here.
            hop_limit: if is_global { 64 } else { 0 },
            traffic_class: attr.grh.traffic_class,
            flow_label: 0,
            dlid: attr.dlid,
            sl: attr.sl,
            src_path_bits: attr.src_path_bits,
            port_num: attr.port_num,
        }
    }
}

/// An open QP1.
pub struct Gsi {
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
    unacked: u32,
}

// SAFETY: verbs may be called from any thread, and who owns this calls one at a time.
unsafe impl Send for Gsi {}

impl Gsi {
    /// Opens the QP1 of a port, ready to receive.
    ///
    /// # Safety
    /// `context` is an open device that stays open.
    pub unsafe fn open(context: *mut ibv_context, port_num: u8) -> Call<Self> {
        let mut memory = vec![0u8; (RECEIVES + 1) * SLOT_BYTES];
        // SAFETY: objects of an open context, made one after the other; of a process that fails here the rest goes
        // with it.
        unsafe {
            let pd = made(ibv_alloc_pd(context))?;
            let channel = made(ibv_create_comp_channel(context))?;
            if libc::fcntl((*channel).fd, libc::F_SETFL, libc::O_NONBLOCK) < 0 {
                return Err(last_errno());
            }
            let depth = RECEIVES as c_int;
            let recv_cq = made(ibv_create_cq(context, depth, null_mut(), channel, 0))?;
            let send_cq = made(ibv_create_cq(context, depth, null_mut(), null_mut(), 0))?;
            let access = IBV_ACCESS_LOCAL_WRITE as c_int;
            let mr = made(hca_reg_mr(pd, &mut memory, access))?;
            let mut init = ibv_qp_init_attr {
                send_cq,
                recv_cq,
                cap: ibv_qp_cap {
                    max_send_wr: 16,
                    max_recv_wr: RECEIVES as u32,
                    max_send_sge: 1,
                    max_recv_sge: 1,
                    max_inline_data: 0,
                },
                qp_type: QPT_GSI,
                sq_sig_all: 1,
                ..Default::default()
            };
            let qp = made(ibv_create_qp(pd, &mut init))?;
            let mut gsi = Self {
                context,
                port_num,
                pd,
                channel,
                send_cq,
                recv_cq,
                qp,
                mr,
                memory,
                ahs: HashMap::new(),
                unacked: 0,
            };
            gsi.start()?;
            Ok(gsi)
        }
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
                qkey: QKEY_GSI,
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
        if let Some(ah) = self.ahs.get(route) {
            return Ok(*ah);
        }
        let mut attr = route.to_ah_attr();
        // SAFETY: a live PD.
        let ah = made(unsafe { ibv_create_ah(self.pd, &mut attr) })?;
        self.ahs.insert(route.clone(), ah);
        Ok(ah)
    }

    /// Can a datagram go there?
    pub fn reach(&mut self, route: &Route) -> Call<()> {
        self.address_handle(route).map(drop)
    }

    /// Sends a datagram; when this returns it has left the card, so that it does not die with the process.
    pub fn send(&mut self, route: &Route, mad: &Mad) -> Call<()> {
        let ah = self.address_handle(route)?;
        let at = SEND_SLOT * SLOT_BYTES;
        self.memory[at..at + MAD_BYTES].copy_from_slice(mad);
        let mut sge = self.sge(SEND_SLOT, MAD_BYTES);
        let mut wr = ibv_send_wr {
            sg_list: &mut sge,
            num_sge: 1,
            opcode: IBV_WR_SEND,
            send_flags: IBV_SEND_SIGNALED,
            ..Default::default()
        };
        wr.wr.ud.ah = ah;
        wr.wr.ud.remote_qpn = QPN_GSI;
        wr.wr.ud.remote_qkey = QKEY_GSI;
        let mut bad = null_mut();
        // SAFETY: a live QP and AH; the slot is not written before the completion.
        let code = unsafe {
            let post = (*self.context).ops.post_send.ok_or(EINVAL)?;
            post(self.qp, &mut wr, &mut bad)
        };
        verb(code)?;
        let start = Instant::now();
        while self.poll(self.send_cq)?.is_none() {
            if start.elapsed() > SEND_LIMIT {
                return Err(Errno(libc::ETIMEDOUT));
            }
            std::thread::yield_now();
        }
        Ok(())
    }

    /// All datagrams that have come.
    pub fn receive(&mut self) -> Call<Vec<(Mad, Route)>> {
        let (mut cq, mut cookie) = (null_mut(), null_mut());
        // SAFETY: a live channel that does not block.
        while unsafe { ibv_get_cq_event(self.channel, &mut cq, &mut cookie) } == 0 {
            self.unacked += 1;
        }
        // SAFETY: as many as were fetched.
        unsafe { ibv_ack_cq_events(self.recv_cq, std::mem::take(&mut self.unacked)) };
        self.arm()?;
        let mut found = Vec::new();
        while let Some(mut wc) = self.poll(self.recv_cq)? {
            let slot = wc.wr_id as usize;
            if wc.status == IBV_WC_SUCCESS && wc.byte_len as usize == GRH_BYTES + MAD_BYTES && slot < RECEIVES
            {
                let at = slot * SLOT_BYTES;
                let mut attr = ibv_ah_attr::default();
                let grh = self.memory[at..].as_mut_ptr().cast();
                // SAFETY: a completion with its 40 bytes in front of the data.
                let code =
                    unsafe { ibv_init_ah_from_wc(self.context, self.port_num, &mut wc, grh, &mut attr) };
                let data = &self.memory[at + GRH_BYTES..at + GRH_BYTES + MAD_BYTES];
                if let (0, Ok(mad)) = (code, data.try_into()) {
                    found.push((mad, Route::from_ah_attr(&attr)));
                }
            }
            self.post_receive(slot)?;
        }
        Ok(found)
    }
}

/// ibv_reg_mr is a macro in the header; the function behind it is the same.
unsafe fn hca_reg_mr(pd: *mut ibv_pd, memory: &mut [u8], access: c_int) -> *mut ibv_mr {
    unsafe extern "C" {
        fn ibv_reg_mr(pd: *mut ibv_pd, addr: *mut libc::c_void, length: usize, access: c_int) -> *mut ibv_mr;
    }
    // SAFETY: the caller's PD; memory that outlives the region.
    unsafe { ibv_reg_mr(pd, memory.as_mut_ptr().cast(), memory.len(), access) }
}
