//! QP1 of a port: management datagrams in and out, by the verbs that any program has.

use std::ffi::c_int;
use std::time::{Duration, Instant};

use hca_cm::Mad;
use hca_wire::{QKEY_GSI, QPN_GSI};

use crate::abi::*;
use crate::address::Gid;
use crate::errno::{Call, Errno, made};
use hca_ibv::queues::{Queues, Shape};

/// The kernel's QP type of QP1, which our libibverbs takes.
const QPT_GSI: ibv_qp_type = 1;
const RECEIVES: usize = 128;
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
    queues: Queues<Route>,
}

impl Gsi {
    /// Opens the QP1 of a port, ready to receive.
    ///
    /// # Safety
    /// `context` is an open device that stays open.
    pub unsafe fn open(context: *mut ibv_context, port_num: u8) -> Call<Self> {
        let shape = Shape {
            qp_type: QPT_GSI,
            qkey: QKEY_GSI,
            receives: RECEIVES,
            sends: 1,
        };
        // SAFETY: the caller's context.
        let queues = unsafe { Queues::open(context, port_num, shape) }?;
        Ok(Self { queues })
    }

    /// Readable when datagrams have come.
    pub fn fd(&self) -> c_int {
        self.queues.fd()
    }

    fn address_handle(&mut self, route: &Route) -> Call<*mut ibv_ah> {
        let mut attr = route.to_ah_attr();
        // SAFETY: a live PD.
        let make = |pd| made(unsafe { ibv_create_ah(pd, &mut attr) });
        self.queues.address_handle(route.clone(), make)
    }

    /// Can a datagram go there?
    pub fn reach(&mut self, route: &Route) -> Call<()> {
        self.address_handle(route).map(drop)
    }

    /// Sends a datagram; when this returns it has left the card, so that it does not die with the process.
    pub fn send(&mut self, route: &Route, mad: &Mad) -> Call<()> {
        let ah = self.address_handle(route)?;
        self.queues.send(SEND_SLOT, ah, (QPN_GSI, QKEY_GSI), mad)?;
        let start = Instant::now();
        while self.queues.sent()?.is_none() {
            if start.elapsed() > SEND_LIMIT {
                return Err(Errno(libc::ETIMEDOUT));
            }
            std::thread::yield_now();
        }
        Ok(())
    }

    /// All datagrams that have come.
    pub fn receive(&mut self) -> Call<Vec<(Mad, Route)>> {
        let (context, port_num) = (self.queues.context, self.queues.port_num);
        self.queues.receive(|wc, grh| {
            let mut attr = ibv_ah_attr::default();
            // SAFETY: a completion with its 40 bytes in front of the data.
            let code =
                unsafe { ibv_init_ah_from_wc(context, port_num, wc, grh.as_mut_ptr().cast(), &mut attr) };
            (code == 0).then(|| Route::from_ah_attr(&attr))
        })
    }
}
