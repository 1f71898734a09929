//! One QP.

use std::collections::VecDeque;

use hca_abi::{
    Cqe, CreateQpCmd, Mtu, QpAttr, QpState, Service, SqWqeCtrl, WcStatus, qp_attr, wqe_distance, wqe_index,
};
use hca_link::LinkKind;
use hca_wire::Psn;

use crate::histogram::Histogram;
use crate::packet::{Peer, Request};
use crate::report::{Flow, QpReport};

/// Bit of wc_opcode that marks the receive queue.
const RECV_BIT: u8 = 0x80;

/// A work request between doorbell and completion.
#[derive(Clone, Copy, Debug)]
struct Posted {
    index: u32,
    at_ns: u64,
    bytes: u32,
}

/// Messages of one direction, and when the first and the last were.
#[derive(Clone, Copy, Debug, Default)]
struct Window {
    messages: u64,
    bytes: u64,
    errors: u64,
    first_ns: Option<u64>,
    first_bytes: u64,
    last_ns: u64,
}

impl Window {
    fn add(&mut self, bytes: u64) {
        self.messages += 1;
        self.bytes += bytes;
    }

    /// `whole`: the window begins before the first message, not with its end.
    fn flow(&self, whole: bool) -> Flow {
        let time_ns = self
            .first_ns
            .map_or(0, |first| self.last_ns.saturating_sub(first));
        let (messages, bytes) = if whole {
            (self.messages, self.bytes)
        } else {
            (self.messages.saturating_sub(1), self.bytes - self.first_bytes)
        };
        let per_s = |count: u64| {
            if time_ns == 0 {
                0.0
            } else {
                count as f64 * 1e9 / time_ns as f64
            }
        };
        Flow {
            messages: self.messages,
            bytes: self.bytes,
            errors: self.errors,
            time_ns,
            bytes_per_s: per_s(bytes),
            messages_per_s: per_s(messages),
        }
    }
}

/// What is known of a QP.
#[derive(Clone, Debug)]
pub(crate) struct QpMeter {
    qp_num: u32,
    is_ud: bool,
    sq_base: u64,
    sq_mask: u32,
    sq_stride: u64,
    peer: Option<Peer>,
    peer_qp_num: Option<u32>,
    mtu_bytes: u32,
    next: u32,
    posted: VecDeque<Posted>,
    sent: Window,
    received: Window,
    latency: Histogram,
    packets: u64,
    retransmitted: u64,
    restarts: u64,
    /// Behind the highest that was sent, and behind the last.
    next_psn: Option<Psn>,
    last_end: Option<Psn>,
    last_completion_ns: Option<u64>,
    first_error_ns: Option<u64>,
    last_packet_ns: Option<u64>,
}

impl QpMeter {
    pub fn new(qp_num: u32, cmd: &CreateQpCmd) -> Self {
        let entries = 1u32.checked_shl(cmd.sq_log_size().into()).unwrap_or(0);
        Self {
            qp_num,
            is_ud: cmd.service() == u8::from(Service::Ud),
            sq_base: cmd.sq_base(),
            sq_mask: entries.saturating_sub(1),
            sq_stride: 64u64.checked_shl(cmd.sq_log_stride().into()).unwrap_or(0),
            peer: None,
            peer_qp_num: None,
            mtu_bytes: 256,
            next: 0,
            posted: VecDeque::new(),
            sent: Window::default(),
            received: Window::default(),
            latency: Histogram::default(),
            packets: 0,
            retransmitted: 0,
            restarts: 0,
            next_psn: None,
            last_end: None,
            last_completion_ns: None,
            first_error_ns: None,
            last_packet_ns: None,
        }
    }

    /// Where its packets go.
    pub fn destination(&self) -> Option<(Peer, u32)> {
        Some((self.peer?, self.peer_qp_num?))
    }

    pub fn modify(&mut self, link: LinkKind, attr: &QpAttr, mask: u32) {
        if mask & qp_attr::AV != 0 {
            let path = hca_abi::AhAttr(attr.ah_attr());
            self.peer = Some(match link {
                LinkKind::Ethernet => Peer::Gid(path.dgid()),
                LinkKind::InfiniBand => Peer::Lid(path.dlid()),
            });
        }
        if mask & qp_attr::DEST_QPN != 0 {
            self.peer_qp_num = Some(attr.dest_qp_num());
        }
        if mask & qp_attr::PATH_MTU != 0
            && let Ok(mtu) = Mtu::try_from(attr.path_mtu())
        {
            self.mtu_bytes = 128 << u8::from(mtu);
        }
        if mask & qp_attr::SQ_PSN != 0 {
            self.next_psn = Some(Psn::new(attr.sq_psn()));
        }
        if mask & qp_attr::STATE != 0 && attr.qp_state() == u8::from(QpState::Reset) {
            self.next = 0;
            self.posted.clear();
        }
    }

    /// A doorbell: `read` gives the work requests.
    pub fn posted(&mut self, now_ns: u64, producer: u32, read: impl Fn(u64, &mut [u8]) -> bool) {
        let count = wqe_distance(self.next, producer);
        // What the card would not believe either.
        if count > self.sq_mask.saturating_add(1) {
            return;
        }
        for _ in 0..count {
            let at = u64::from(self.next & self.sq_mask) * self.sq_stride;
            let mut wqe = [0; SqWqeCtrl::BYTES];
            let is_there = read(self.sq_base.wrapping_add(at), &mut wqe);
            if self.posted.len() > self.sq_mask as usize {
                // Two passes without a completion: the program posts too much, and the card will say so.
                self.posted.pop_front();
            }
            self.posted.push_back(Posted {
                index: self.next,
                at_ns: now_ns,
                bytes: if is_there { SqWqeCtrl(wqe).length() } else { 0 },
            });
            self.next = wqe_index(self.next + 1);
        }
        if count > 0 {
            self.sent.first_ns.get_or_insert(now_ns);
        }
    }

    /// A completion. Those of signalled work requests stand for earlier ones that were not.
    pub fn completed(&mut self, now_ns: u64, cqe: &Cqe) {
        let is_ok = cqe.status() == u8::from(WcStatus::Success);
        self.last_completion_ns = Some(now_ns);
        if !is_ok {
            self.first_error_ns.get_or_insert(now_ns);
        }
        if cqe.opcode() & RECV_BIT != 0 {
            let bytes = u64::from(cqe.byte_len());
            let window = &mut self.received;
            if !is_ok {
                window.errors += 1;
                return;
            }
            if window.first_ns.is_none() {
                (window.first_ns, window.first_bytes) = (Some(now_ns), bytes);
            }
            window.add(bytes);
            window.last_ns = now_ns;
            return;
        }
        // Indices follow each other; a completion names the low bits of its own.
        let distance = |first: &Posted| usize::from(cqe.wqe_index().wrapping_sub(first.index as u16));
        let is_known = self
            .posted
            .front()
            .is_some_and(|first| distance(first) < self.posted.len());
        while is_known && let Some(posted) = self.posted.pop_front() {
            let is_named = posted.index as u16 == cqe.wqe_index();
            if is_named && !is_ok {
                self.sent.errors += 1;
                return;
            }
            self.sent.add(posted.bytes.into());
            self.sent.last_ns = now_ns;
            if is_named {
                self.latency.add(now_ns.saturating_sub(posted.at_ns));
                return;
            }
        }
    }

    /// So many of its packets went out, of which this is the first.
    pub fn packets(&mut self, now_ns: u64, request: &Request, count: u32) {
        self.packets += u64::from(count);
        self.last_packet_ns = Some(now_ns);
        if self.is_ud {
            return;
        }
        let expected = *self.next_psn.get_or_insert(request.psn);
        let is_again = request.psn.is_before(expected);
        self.retransmitted += u64::from(is_again) * u64::from(count);
        self.restarts += u64::from(is_again && self.last_end != Some(request.psn));
        // A READ takes the numbers of its answers.
        let answers = request
            .read_bytes
            .map_or(count, |bytes| bytes.div_ceil(self.mtu_bytes).max(1));
        let next = request.psn.wrapping_add(answers);
        self.last_end = Some(next);
        if next.is_after(expected) {
            self.next_psn = Some(next);
        }
    }

    pub fn report(&self) -> QpReport {
        QpReport {
            qp_num: self.qp_num,
            peer_qp_num: self.peer_qp_num,
            sent: self.sent.flow(true),
            received: self.received.flow(false),
            latency: self.latency.latency(),
            packets: self.packets,
            retransmitted_packets: self.retransmitted,
            restarts: self.restarts,
            open: self.posted.len() as u64,
            last_completion_ns: self.last_completion_ns,
            first_error_ns: self.first_error_ns,
            last_packet_ns: self.last_packet_ns,
        }
    }
}
