//! QP0 or QP1 of a port: datagrams in and out, by the verbs that any program has.

use std::ffi::c_int;
use std::time::{Duration, Instant};

use hca_agents::Mad;

use crate::abi::*;
use crate::errno::{Call, Errno};
use crate::info;
use hca_ibv::queues::{GRH_BYTES, Queues, Shape};

/// The kernel's QP types of QP0 and QP1, which our libibverbs takes.
const QPT_SMI: ibv_qp_type = 0;
const QPT_GSI: ibv_qp_type = 1;
const RECEIVES: usize = 256;
const SENDS: usize = 32;
/// A datagram that has not left after this time never will.
const SEND_LIMIT: Duration = Duration::from_secs(20);
/// And for what is under way when it is closed: a card that is stuck, or whose simulator is gone, holds nobody up.
const LAST_LIMIT: Duration = Duration::from_secs(1);

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
    /// Of QP1: which P_Key of the port (KEY-21).
    pub pkey_index: u16,
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

    fn to_ah_attr(self, port_num: u8) -> ibv_ah_attr {
        let mut attr = ibv_ah_attr {
            dlid: self.lid,
            sl: self.sl,
            src_path_bits: self.path_bits,
            port_num,
            ..Default::default()
        };
        if let Some((gid, sgid_index, flow_label, hop_limit, traffic_class)) = self.grh {
            attr.is_global = 1;
            attr.grh = ibv_global_route {
                dgid: ibv_gid { raw: gid },
                flow_label,
                sgid_index,
                hop_limit,
                traffic_class,
            };
        }
        attr
    }

    /// Where a datagram has come from, which is where its answer goes.
    fn of(which: Which, wc: &ibv_wc, grh: &[u8; GRH_BYTES]) -> Self {
        let has_grh = wc.wc_flags & IBV_WC_GRH != 0;
        let word = u32::from_be_bytes([grh[0], grh[1], grh[2], grh[3]]);
        let sgid: [u8; 16] = grh[8..24].try_into().unwrap_or_default();
        Self {
            lid: wc.slid,
            sl: wc.sl,
            pkey_index: wc.pkey_index,
            path_bits: wc.dlid_path_bits,
            qpn: wc.src_qp,
            qkey: match which {
                Which::Smi => 0,
                Which::Gsi => hca_wire::QKEY_GSI,
            },
            // An answer goes back as far as it must, whatever was left of the way here.
            grh: has_grh.then_some((sgid, 0, word & 0xf_ffff, 64, (word >> 20) as u8)),
        }
    }
}

/// An open QP.
pub struct ManagementQp {
    which: Which,
    queues: Queues<Route>,
    free_sends: Vec<usize>,
}

impl ManagementQp {
    /// Opens it, ready to receive.
    ///
    /// # Safety
    /// `context` is an open device that stays open.
    pub unsafe fn open(context: *mut ibv_context, port_num: u8, which: Which) -> Call<Self> {
        let shape = Shape {
            qp_type: match which {
                Which::Smi => QPT_SMI,
                Which::Gsi => QPT_GSI,
            },
            // What these QPs have is not the program's to say.
            qkey: 0,
            receives: RECEIVES,
            sends: SENDS,
        };
        Ok(Self {
            which,
            // SAFETY: the caller's context.
            queues: unsafe { Queues::open(context, port_num, shape) }?,
            free_sends: (RECEIVES..RECEIVES + SENDS).collect(),
        })
    }

    /// Readable when datagrams have come.
    pub fn fd(&self) -> c_int {
        self.queues.fd()
    }

    /// Sends a datagram; waits only while all places of the send queue are taken.
    pub fn send(&mut self, route: &Route, mad: &Mad) -> Call<()> {
        let mut attr = route.to_ah_attr(self.queues.port_num);
        // SAFETY: a live PD.
        let make = |pd| unsafe { info::create_ah(pd, &mut attr, route.pkey_index) };
        let ah = self.queues.address_handle(route.way(), make)?;
        let slot = self.send_slot()?;
        let sent = self.queues.send(slot, ah, (route.qpn, route.qkey), mad);
        sent.inspect_err(|_| self.free_sends.push(slot))
    }

    /// Whether all that was sent has left.
    pub fn has_sent(&mut self) -> Call<bool> {
        while let Some(slot) = self.queues.sent()? {
            self.free_sends.push(slot);
        }
        Ok(self.free_sends.len() == SENDS)
    }

    /// A kernel has copied what a program sends, and sends it also when the program has ended. Here it lies in this
    /// process's memory: its last answer leaves before that is gone.
    pub fn settle(&mut self) {
        let start = Instant::now();
        while start.elapsed() < LAST_LIMIT && self.has_sent() == Ok(false) {
            std::thread::yield_now();
        }
    }

    fn send_slot(&mut self) -> Call<usize> {
        let start = Instant::now();
        loop {
            self.has_sent()?;
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
        let which = self.which;
        self.queues.receive(|wc, grh| Some(Route::of(which, wc, grh)))
    }
}

impl Drop for ManagementQp {
    fn drop(&mut self) {
        self.settle();
    }
}
