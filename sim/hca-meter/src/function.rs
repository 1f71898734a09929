//! One function, as long as a process has it.

use std::collections::{BTreeMap, HashMap};
use std::ops::Range;

use hca_abi::{
    ADMIN_DOORBELL_OFFSET, AdminDoorbell, AdminOpcode, Cqe, CreateCqCmd, CreateQpCmd, DOORBELL_PAGE_OFFSET,
    HandleCmd, HandleResult, MAX_LOG_CQ_SIZE, ModifyQpCmd, QpAttr, SQ_DOORBELL_OFFSET, SqDoorbell,
};
use hca_cosim::SentPacket;
use hca_host::{IommuMap, SharedWrite};
use hca_link::LinkKind;
use hca_regs as reg;

use crate::admin::{AdminTap, Done};
use crate::packet::{self, Peer};
use crate::qp::QpMeter;
use crate::report::QpReport;

/// Reports of destroyed QPs that are kept.
const KEPT_QPS: usize = 4096;

/// A body of a command or completion as a table.
macro_rules! table {
    ($name:ident, $body:expr) => {{
        let mut table = $name::new();
        table.0.copy_from_slice(&$body[..$name::BYTES]);
        table
    }};
}

/// A CQ's ring.
#[derive(Clone, Copy, Debug)]
struct CqRing {
    cqn: u32,
    len_bytes: u64,
}

/// Measures one function.
#[derive(Debug)]
pub struct FunctionMeter {
    link: LinkKind,
    admin: AdminTap,
    /// By bus address.
    cqs: BTreeMap<u64, CqRing>,
    qps: HashMap<u32, QpMeter>,
    /// In the order of creation.
    order: Vec<u32>,
    peers: HashMap<(Peer, u32), u32>,
    finished: Vec<QpReport>,
    idle_qps: u64,
    lost_qps: u64,
}

impl FunctionMeter {
    /// Of a function whose port is of this kind.
    pub fn new(link: LinkKind) -> Self {
        Self {
            link,
            admin: AdminTap::default(),
            cqs: BTreeMap::new(),
            qps: HashMap::new(),
            order: Vec::new(),
            peers: HashMap::new(),
            finished: Vec::new(),
            idle_qps: 0,
            lost_qps: 0,
        }
    }

    /// See [`hca_cosim::Observer::register_written`].
    pub fn register_written(&mut self, now_ns: u64, bytes: Range<u16>, value: u64, memory: &IommuMap) {
        let read = |addr: u64, out: &mut [u8]| memory.peek(addr, out);
        let offset = u32::from(bytes.start);
        if bytes.len() == 4 && offset == reg::FUNC_CONTROL {
            if reg::field(value as u32, reg::FUNC_CONTROL_RESET_MASK) != 0 {
                self.reset();
            }
            return;
        }
        if bytes.len() == 4 {
            return self.admin.register(offset, value as u32);
        }
        match offset.checked_sub(DOORBELL_PAGE_OFFSET) {
            Some(SQ_DOORBELL_OFFSET) => {
                let doorbell = SqDoorbell::from_word(value);
                if let Some(qp) = self.qps.get_mut(&doorbell.qpn()) {
                    qp.posted(now_ns, doorbell.producer_index(), read);
                }
            }
            Some(ADMIN_DOORBELL_OFFSET) => {
                self.admin
                    .doorbell(AdminDoorbell::from_word(value).producer_index(), read);
            }
            _ => {}
        }
    }

    /// See [`hca_cosim::Observer::ring_written`].
    pub fn ring_written(&mut self, now_ns: u64, write: &SharedWrite, memory: &IommuMap) {
        let read = |addr: u64, out: &mut [u8]| memory.peek(addr, out);
        if let Some(done) = self.admin.written(write.addr, read) {
            return self.done(&done);
        }
        let ring = self.cqs.range(..=write.addr).next_back();
        if ring.is_none_or(|(base, ring)| write.addr - base >= ring.len_bytes) {
            return;
        }
        let cqe = Cqe(write.line.0);
        if let Some(qp) = self.qps.get_mut(&cqe.qpn()) {
            qp.completed(now_ns, &cqe);
        }
    }

    /// See [`hca_cosim::Observer::packet_sent`].
    pub fn packet_sent(&mut self, now_ns: u64, packet: &SentPacket) {
        let Some(request) = packet::request(packet.link, packet.bytes()) else {
            return;
        };
        let qpn = self.peers.get(&(request.peer, request.dest_qp));
        if let Some(qp) = qpn.and_then(|qpn| self.qps.get_mut(qpn)) {
            qp.packets(now_ns, &request, packet.count);
        }
    }

    fn done(&mut self, done: &Done) {
        let handle = || table!(HandleCmd, done.command).handle();
        let made = || table!(HandleResult, done.completion).handle();
        match AdminOpcode::try_from(done.opcode) {
            Ok(AdminOpcode::CreateCq) => {
                let cmd = table!(CreateCqCmd, done.command);
                let log_size = u32::from(cmd.log_size()).min(MAX_LOG_CQ_SIZE);
                let (cqn, len_bytes) = (made(), (Cqe::BYTES as u64) << log_size);
                self.cqs.insert(cmd.base(), CqRing { cqn, len_bytes });
            }
            Ok(AdminOpcode::DestroyCq) => {
                let cqn = handle();
                self.cqs.retain(|_, ring| ring.cqn != cqn);
            }
            Ok(AdminOpcode::CreateQp) => {
                let qpn = made();
                self.finish(qpn);
                self.qps
                    .insert(qpn, QpMeter::new(qpn, &table!(CreateQpCmd, done.command)));
                self.order.push(qpn);
            }
            Ok(AdminOpcode::ModifyQp) => {
                let cmd = table!(ModifyQpCmd, done.command);
                if let Some(qp) = self.qps.get_mut(&cmd.qpn()) {
                    qp.modify(self.link, &QpAttr(cmd.attr()), cmd.attr_mask());
                    if let Some(destination) = qp.destination() {
                        self.peers.insert(destination, cmd.qpn());
                    }
                }
            }
            Ok(AdminOpcode::DestroyQp) => self.finish(handle()),
            _ => {}
        }
    }

    /// Keeps the figures of a QP that ends.
    fn finish(&mut self, qpn: u32) {
        let Some(qp) = self.qps.remove(&qpn) else { return };
        self.order.retain(|other| *other != qpn);
        self.peers.retain(|_, other| *other != qpn);
        let report = qp.report();
        if !report.has_traffic() {
            self.idle_qps += 1;
        } else if self.finished.len() < KEPT_QPS {
            self.finished.push(report);
        } else {
            self.lost_qps += 1;
        }
    }

    fn reset(&mut self) {
        for qpn in self.order.clone() {
            self.finish(qpn);
        }
        self.cqs.clear();
        self.admin.reset();
    }

    /// QPs with traffic, how many had none, and how many were not kept.
    pub fn report(&self) -> (Vec<QpReport>, u64, u64) {
        let living = self.order.iter().filter_map(|qpn| self.qps.get(qpn));
        let (mut qps, mut idle) = (self.finished.clone(), self.idle_qps);
        for report in living.map(QpMeter::report) {
            if report.has_traffic() {
                qps.push(report);
            } else {
                idle += 1;
            }
        }
        (qps, idle, self.lost_qps)
    }
}
