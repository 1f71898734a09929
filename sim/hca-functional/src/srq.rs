//! Shared receive queues: lists of slots.

use hca_abi::{HwEventKind, Qpc, Srqc};
use hca_fw_core::NUM_SRQS;

use crate::HostPort;
use crate::body::Body;
use crate::looks::QueueIndices;

/// See above.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Srq {
    pub context: Srqc,
    producer: u32,
    consumer: u32,
    /// limit_tag of the limit that was reached last.
    reached: u8,
    has_failed: bool,
}

impl Srq {
    pub fn indices(&self) -> Option<QueueIndices> {
        self.context.valid().then(|| QueueIndices {
            producer: self.producer,
            consumer: self.consumer,
            size: 1 << self.context.log_size(),
        })
    }
}

/// Where a QP's next receive WQE is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ReceivePlace {
    pub base: u64,
    pub log_size: u8,
    pub log_stride: u8,
    pub index: u32,
}

impl Body {
    /// A row of the table was written.
    pub fn srqc_written(&mut self, srqn: u32, row: &[u8]) {
        let context = Srqc::read_from(row).unwrap_or_default();
        let Some(srq) = self.srqs.get_mut(srqn as usize) else {
            return;
        };
        let before = if context.keep() { *srq } else { Srq::default() };
        *srq = Srq { context, ..before };
        self.look_at_limit(srqn);
    }

    /// The doorbell of an SRQ. False: it is not this function's.
    pub fn srq_doorbell(&mut self, func: u8, srqn: u32, producer: u32) -> bool {
        let srq = self.srqs.get_mut(srqn as usize);
        let Some(srq) = srq.filter(|srq| srq.context.valid() && srq.context.func() == func) else {
            return false;
        };
        srq.producer = producer;
        self.look_at_limit(srqn);
        true
    }

    /// SPEC-6.
    fn look_at_limit(&mut self, srqn: u32) {
        let srq = &mut self.srqs[srqn as usize];
        let (context, posted) = (srq.context, hca_abi::wqe_distance(srq.consumer, srq.producer));
        if context.valid() && context.limit_tag() != srq.reached && posted < context.limit() {
            srq.reached = context.limit_tag();
            let func = context.func();
            self.raise(HwEventKind::SrqLimit, func, srqn, context.limit_tag().into());
        }
    }

    /// The row of the SRQ that a peer names, if it is one of XRC that works (decision 0037).
    pub fn xrc_srq(&self, func: u8, number: u32) -> Option<u32> {
        let row = number % NUM_SRQS as u32;
        let srq = &self.srqs[row as usize];
        let context = &srq.context;
        let is_it = context.valid() && context.is_xrc() && context.number() == number;
        (is_it && context.func() == func && !srq.has_failed).then_some(row)
    }

    /// Takes the next slot of an SRQ.
    pub fn take_slot(&mut self, host: &mut dyn HostPort, srqn: u32) -> Option<u32> {
        let srq = self.srqs.get_mut(srqn as usize)?;
        if !srq.context.valid() || srq.has_failed || srq.producer == srq.consumer {
            return None;
        }
        let at = u64::from(srq.consumer) & ((1 << srq.context.log_size()) - 1);
        let func = srq.context.func();
        let mut slot = [0; 2];
        if !host.look(func, srq.context.base() + 2 * at, &mut slot) {
            srq.has_failed = true;
            self.raise(HwEventKind::SrqError, func, srqn, 0);
            return None;
        }
        srq.consumer = hca_abi::wqe_index(srq.consumer + 1);
        self.look_at_limit(srqn);
        Some(u16::from_le_bytes(slot).into())
    }

    /// Takes the next receive WQE of a QP; `named`: the SRQ of XRC, a row.
    pub fn take_receive(
        &mut self,
        host: &mut dyn HostPort,
        line: u32,
        qpc: &Qpc,
        named: Option<u32>,
    ) -> Option<ReceivePlace> {
        if let Some(row) = named {
            let index = self.take_slot(host, row)?;
            let context = &self.srqs[row as usize].context;
            return Some(ReceivePlace {
                base: context.slots(),
                log_size: context.slots_log_size(),
                log_stride: context.slots_log_stride(),
                index,
            });
        }
        let index = if qpc.has_srq() {
            self.take_slot(host, qpc.srqn())?
        } else {
            let rings = &mut self.rings[line as usize];
            if rings.rq_consumer == rings.rq_producer {
                return None;
            }
            let index = rings.rq_consumer;
            rings.rq_consumer = hca_abi::wqe_index(index + 1);
            index
        };
        Some(ReceivePlace {
            base: qpc.rq_base(),
            log_size: qpc.rq_log_size(),
            log_stride: qpc.rq_log_stride(),
            index,
        })
    }
}
