//! Queue pairs at work: each is one of the transport's, with the rings that feed it.

use std::collections::VecDeque;

use hca_abi::{Cqe, HwEventKind, HwEventWho, QpState, Qpc, WcStatus};
use hca_fw_core::line_of;
use hca_model::{Frame, Qp, QpConfig, Service, same_sender};
use hca_regs as reg;
use hca_wire::{Link, Operation, Psn, Syndrome, aeth, reth};

use crate::HostPort;
use crate::body::Body;
use crate::card::Ahead;
use crate::keys::KeyUser;
use crate::reach::{Failure, Reach};
use crate::spare;
use crate::timers::Timers;
use crate::wqe::{LocalWqe, SendWqe};

/// KEY-14.
const FULL_MEMBER: u16 = 0x8000;
/// Send WQEs of a QP that are in the card.
const FETCHED_MAX: usize = 64;

/// A QP and what is known of it besides.
struct Line {
    qp: Qp,
    /// Its context; whoever works on the QP has it meanwhile.
    qpc: Option<Box<Qpc>>,
    /// It has failed, and firmware has not said yet that it knows.
    is_untold: bool,
    /// SQD: firmware waits until nothing is under way (QPS-10).
    drains: bool,
    /// A WQE without packets waits until everything before it has completed.
    local: Option<LocalWqe>,
    /// A request that was longer than there was room for.
    refused: Option<hca_model::SendRequest>,
    timer: Option<u64>,
    is_ready: bool,
    /// Bytes of a MIDDLE packet of its WRITE to another card, of which the first packet has left.
    middle_bytes: usize,
    /// QP_COMM_EST has been told.
    is_established: bool,
    /// Behind the last PSN that was sent.
    sent: Option<Psn>,
    /// What the ports were when its headers were made.
    port_changes: u64,
}

impl Line {
    fn new(config: QpConfig) -> Self {
        Self {
            qp: Qp::new(config),
            qpc: None,
            is_untold: false,
            drains: false,
            local: None,
            refused: None,
            timer: None,
            is_ready: false,
            middle_bytes: 0,
            is_established: false,
            sent: None,
            port_changes: 0,
        }
    }

    /// Of what the card has of it there may be something to send.
    fn has_more(&self, now: u64) -> bool {
        self.local.is_some() || self.refused.is_some() || self.qp.may_send(now)
    }

    /// Nothing of its send queue is under way.
    fn is_drained(&self) -> bool {
        self.qp.sends_outstanding() == 0 && self.local.is_none() && self.refused.is_none()
    }
}

/// All of a card.
pub(crate) struct Lines {
    lines: Vec<Option<Box<Line>>>,
    /// Those that may have something to send, by port from 0.
    ready: Vec<VecDeque<u32>>,
    /// By time in nanoseconds.
    timers: Timers,
}

impl Lines {
    pub fn new(lines: usize, ports: usize) -> Self {
        Self {
            lines: (0..lines).map(|_| None).collect(),
            ready: vec![VecDeque::new(); ports],
            timers: Timers::new(lines),
        }
    }

    /// Somebody may have something to send through a port.
    #[inline]
    pub fn has_ready(&self, port: usize) -> bool {
        !self.ready[port].is_empty()
    }

    /// When the time changes something, in nanoseconds.
    #[inline]
    pub fn next_timeout(&self) -> Option<u64> {
        self.timers.first().map(|(at, _)| at)
    }

    #[inline]
    fn set_timer(&mut self, line: u32, at: Option<u64>) {
        let Some(of) = &mut self.lines[line as usize] else {
            return;
        };
        if of.timer == at {
            return;
        }
        of.timer = at;
        self.timers.set(line, at);
    }

    /// Send WQEs of a QP that were fetched and have not completed.
    pub fn sends_under_way(&self, line: u32) -> u32 {
        let of = self.lines.get(line as usize).and_then(|of| of.as_deref());
        of.map_or(0, |of| {
            let waits = u32::from(of.local.is_some()) + u32::from(of.refused.is_some());
            of.qp.sends_outstanding() as u32 + waits
        })
    }

    /// It may have something to send.
    #[inline]
    pub fn wake(&mut self, body: &Body, line: u32) {
        let port = port_of(body, line);
        if let Some(of) = &mut self.lines[line as usize]
            && let Some(ready) = self.ready.get_mut(port)
            && !std::mem::replace(&mut of.is_ready, true)
        {
            ready.push_back(line);
        }
    }

    /// Does something with a QP, and tells firmware what has come of it.
    fn with<T>(
        &mut self,
        body: &mut Body,
        host: &mut dyn HostPort,
        line: u32,
        frame: Option<&Frame>,
        work: impl FnOnce(&mut Line, &mut Reach<'_>) -> T,
    ) -> Option<T> {
        let of = self.lines[line as usize].as_deref_mut()?;
        let qpc = of.qpc.take()?;
        // The P_Key of QP0 and QP1 is that of the last packet.
        if (of.port_changes != body.port_changes || qpc.is_gsi() || qpc.is_smi())
            && let (Some(port), Some(link)) = (body.port_of(&qpc), body.connection_link(&qpc))
        {
            (of.qp.config.pkey, of.qp.config.link) = (port.pkey(qpc.pkey_index()), link);
            of.port_changes = body.port_changes;
        }
        let mut reach = Reach::new(body, host, qpc);
        reach.frame = frame;
        let done = work(of, &mut reach);
        let Reach { failure, qpc, .. } = reach;
        if let Some(Failure { status, who }) = failure {
            of.is_untold = true;
            of.local = None;
            of.refused = None;
            let cause = u32::from(u8::from(status)) | (who as u32) << 16;
            body.raise(HwEventKind::QpError, qpc.func(), line, cause);
        }
        if of.drains && of.is_drained() {
            of.drains = false;
            body.raise(HwEventKind::SqDrained, qpc.func(), line, 0);
        }
        of.qpc = Some(qpc);
        Some(done)
    }

    /// A row of the table was written.
    pub fn qpc_written(
        &mut self,
        body: &mut Body,
        host: &mut dyn HostPort,
        line: u32,
        row: &[u8],
        flags: u32,
    ) {
        let qpc = Qpc::read_from(row).unwrap_or_default();
        let state = QpState::try_from(qpc.state()).unwrap_or(QpState::Reset);
        let is_fresh = matches!(state, QpState::Reset | QpState::Init);
        if state == QpState::Reset {
            // What it holds of a shared queue is given back while its context is still there.
            self.with(body, host, line, None, |of, reach| of.qp.give_up_receive(reach));
        }
        let starts_sends = flags & reg::MGMT_CTX_FLAGS_INIT_SQ_MASK != 0;
        let starts_receives = flags & reg::MGMT_CTX_FLAGS_INIT_RQ_MASK != 0;
        body.qpcs[line as usize] = qpc;
        let rings = &mut body.rings[line as usize];
        if starts_sends {
            rings.sq_fetched = 0;
            rings.sq_producer = if is_fresh { 0 } else { rings.sq_producer };
        }
        if starts_receives {
            rings.rq_consumer = 0;
            rings.rq_producer = if is_fresh { 0 } else { rings.rq_producer };
        }
        let Some(config) = body.config_of(&qpc) else {
            self.set_timer(line, None);
            self.lines[line as usize] = None;
            return;
        };
        let of = self.lines[line as usize].get_or_insert_with(|| Box::new(Line::new(config)));
        of.qp.set_config(config);
        of.qpc = Some(Box::new(qpc));
        of.port_changes = 0;
        if starts_sends {
            of.qp.restart_sends();
            of.sent = None;
            (of.local, of.refused, of.drains) = (None, None, false);
        }
        if starts_receives {
            of.qp.restart_receives();
            of.is_established = false;
        }
        if is_fresh {
            of.is_untold = false;
        }
        self.set_state(body, host, line, state);
        self.wake(body, line);
    }

    fn set_state(&mut self, body: &mut Body, host: &mut dyn HostPort, line: u32, state: QpState) {
        let worked = self.with(body, host, line, None, |of, reach| match state {
            QpState::Err => {
                of.is_untold = false;
                (of.local, of.refused) = (None, None);
                if of.qp.state != QpState::Err {
                    of.qp.fail_receives(reach);
                }
            }
            QpState::Sqe => {
                of.is_untold = false;
                (of.local, of.refused) = (None, None);
                of.qp.state = state;
            }
            // What has failed stays so until firmware knows of it.
            _ if of.is_untold => {}
            _ => of.qp.state = state,
        });
        debug_assert!(worked.is_some());
    }

    /// Firmware asks to be told when the send queue has nothing under way. What has not begun waits in the ring.
    pub fn drain(&mut self, body: &mut Body, host: &mut dyn HostPort, line: u32) {
        self.with(body, host, line, None, |of, reach| {
            let mut back = of.qp.take_back() as u32;
            back += u32::from(of.local.take().is_some()) + u32::from(of.refused.take().is_some());
            let rings = &mut reach.body.rings[line as usize];
            rings.sq_fetched = hca_abi::wqe_distance(back, rings.sq_fetched);
            of.drains = true;
        });
    }

    /// Completes every send WQE with WR_FLUSH_ERR (QPS-14).
    pub fn flush_sends(&mut self, body: &mut Body, host: &mut dyn HostPort, line: u32) {
        let of = self.lines[line as usize].as_deref();
        if of.is_some_and(|of| matches!(of.qp.state, QpState::Err | QpState::Sqe)) {
            self.with(body, host, line, None, |_, reach| reach.flush_sends());
        }
    }

    /// The same of receive WQEs.
    pub fn flush_receives(&mut self, body: &mut Body, host: &mut dyn HostPort, line: u32) {
        let of = self.lines[line as usize].as_deref();
        if of.is_some_and(|of| of.qp.state == QpState::Err) {
            self.with(body, host, line, None, |_, reach| reach.flush_ring());
        }
    }

    /// A packet for a QP, through a port.
    pub fn receive(
        &mut self,
        body: &mut Body,
        host: &mut dyn HostPort,
        port: usize,
        line: u32,
        frame: &Frame,
    ) {
        let now = body.now_ns();
        self.with(body, host, line, Some(frame), |of, reach| {
            reach.port = port;
            if of.qp.is_asked_to_migrate(&frame.packet) {
                // It is reported, and comes again when the QP is on that path.
                return of.qp.handle(now, frame, reach);
            }
            if !judge(of, reach, frame) {
                return;
            }
            let state = QpState::try_from(reach.qpc.state());
            let is_first = state == Ok(QpState::Rtr) && !of.is_established;
            let is_connected = of.qp.config.service != Service::Ud;
            if is_first && is_connected {
                of.is_established = true;
                let func = reach.qpc.func();
                reach.body.raise(HwEventKind::QpCommEst, func, line, 0);
            }
            let consumed = reach.body.rings[line as usize].rq_consumer;
            count_received(of, reach, frame);
            of.qp.handle(now, frame, reach);
            let has_taken = reach.body.rings[line as usize].rq_consumer != consumed;
            if reach.qpc.is_gsi() && !has_taken {
                reach.count(|counters| counters.qp1_drops += 1);
            } else if !is_connected && !has_taken && !reach.qpc.has_srq() {
                reach.count(|counters| counters.datagrams_without_receive += 1);
            }
        });
        self.after(body, line);
    }

    /// What is over already is seen to in the next cycle.
    #[inline]
    fn look_at_timer(&mut self, body: &Body, line: u32) {
        let of = self.lines[line as usize].as_ref();
        let at = of.and_then(|of| of.qp.next_timer());
        self.set_timer(line, at.map(|at| at.max(body.now_ns() + 1)));
    }

    /// Looks at what is due now.
    #[inline]
    fn after(&mut self, body: &Body, line: u32) {
        self.look_at_timer(body, line);
        let rings = &body.rings[line as usize];
        let waits = rings.sq_fetched != rings.sq_producer;
        let of = self.lines[line as usize].as_deref();
        if of.is_some_and(|of| waits || of.has_more(body.now_ns())) {
            self.wake(body, line);
        }
    }

    /// Time has come to the present.
    pub fn handle_timeouts(&mut self, body: &mut Body, host: &mut dyn HostPort) {
        let now = body.now_ns();
        while let Some((at, line)) = self.timers.first()
            && at <= now
        {
            self.set_timer(line, None);
            self.with(body, host, line, None, |of, reach| {
                let waits_for_answer = of.qp.handle_timeout(now, reach);
                reach.count(|counters| counters.ack_timeouts += u64::from(waits_for_answer));
            });
            self.after(body, line);
        }
    }

    /// The next packet through a port: QPs take turns.
    pub fn next_packet(
        &mut self,
        body: &mut Body,
        host: &mut dyn HostPort,
        port: usize,
    ) -> Option<(u32, Box<Frame>)> {
        while let Some(line) = self.ready[port].pop_front() {
            if let Some(of) = &mut self.lines[line as usize] {
                of.is_ready = false;
            }
            if port_of(body, line) != port {
                // It has migrated.
                self.wake(body, line);
                continue;
            }
            self.refill(body, host, line);
            let now = body.now_ns();
            let mut frame = spare::take();
            let made = self.with(body, host, line, None, |of, reach| {
                frame.link = of.qp.next_link();
                let made = of.qp.put_next_packet(now, reach, &mut frame.packet);
                if made {
                    count_sent(of, reach, &frame.packet);
                }
                made
            });
            if made == Some(true) {
                self.after(body, line);
                return Some((line, frame));
            }
            spare::give_back(frame);
            self.look_at_timer(body, line);
        }
        None
    }

    /// A packet leaves the card, or not.
    pub fn packet_leaves(&mut self, line: u32, frame: &Frame, len_bytes: Option<usize>) {
        let more_bytes = match frame.packet.opcode.operation() {
            Some(Operation::WriteFirst) => reth::LEN,
            Some(Operation::ReadResponseFirst) => aeth::LEN,
            Some(operation) if operation.is_first() || operation.is_middle() => 0,
            _ => return,
        };
        if let Some(of) = self.lines[line as usize].as_deref_mut() {
            of.middle_bytes = len_bytes.map_or(0, |len_bytes| len_bytes - more_bytes);
        }
    }

    /// Packets that leave next through a port and change nothing before the one behind them does.
    #[inline]
    pub fn middles_ahead(&self, port: usize) -> Option<Ahead> {
        let ready = &self.ready[port];
        let line = *ready.front()?;
        let of = self.lines[line as usize].as_deref()?;
        // Only where nobody else has anything to send.
        if of.middle_bytes == 0 || ready.len() != 1 {
            return None;
        }
        let (count, is_awaited) = of.qp.middles_ahead();
        (count > 0).then_some(Ahead {
            count,
            len_bytes: of.middle_bytes,
            is_awaited,
        })
    }

    /// So many of those as one; the last leaves now.
    pub fn take_middles(
        &mut self,
        body: &mut Body,
        host: &mut dyn HostPort,
        port: usize,
        count: u32,
    ) -> Option<Box<Frame>> {
        let line = *self.ready[port].front()?;
        let now = body.now_ns();
        let mut frame = if count > 1 {
            spare::take_long()
        } else {
            spare::take()
        };
        let made = self.with(body, host, line, None, |of, reach| {
            frame.link = of.qp.next_link();
            let made = of.qp.put_middles(now, count, reach, &mut frame.packet);
            if made {
                count_sent(of, reach, &frame.packet);
            }
            made
        });
        if made != Some(true) {
            spare::give_back(frame);
            return None;
        }
        self.look_at_timer(body, line);
        Some(frame)
    }

    /// A packet of a QP has left only now.
    pub fn packet_left(&mut self, body: &Body, line: u32) {
        let now = body.now_ns();
        let Some(of) = &mut self.lines[line as usize] else {
            return;
        };
        of.qp.packet_left(now);
        self.look_at_timer(body, line);
    }

    /// Fetches send WQEs while there is room, and does those that have no packets.
    fn refill(&mut self, body: &mut Body, host: &mut dyn HostPort, line: u32) {
        self.with(body, host, line, None, |of, reach| {
            while of.qp.state == QpState::Rts && of.qp.sends_outstanding() < FETCHED_MAX {
                if let Some(wqe) = of.local {
                    if of.qp.sends_outstanding() > 0 {
                        return;
                    }
                    of.local = None;
                    do_local(of, reach, &wqe);
                    continue;
                }
                let request = match of.refused.take() {
                    Some(request) => request,
                    None => {
                        let rings = &mut reach.body.rings[line as usize];
                        if rings.sq_fetched == rings.sq_producer {
                            return;
                        }
                        let index = rings.sq_fetched;
                        rings.sq_fetched = hca_abi::wqe_index(index + 1);
                        match reach.body.fetch_send(reach.host, &reach.qpc, index) {
                            SendWqe::Request(request) => *request,
                            SendWqe::Local(wqe) => {
                                of.local = Some(wqe);
                                continue;
                            }
                        }
                    }
                };
                if let Some(request) = of.qp.offer_send(request, reach) {
                    post_later(of, reach, request);
                    return;
                }
            }
        });
    }
}

/// Where a QP sends, from 0.
fn port_of(body: &Body, line: u32) -> usize {
    usize::from(body.qpcs[line as usize].port().max(1)) - 1
}

/// Whether a packet is this QP's; who sends with a wrong key is counted and told of.
fn judge(of: &mut Line, reach: &mut Reach<'_>, frame: &Frame) -> bool {
    let (packet, config) = (&frame.packet, &mut of.qp.config);
    let is_live = !matches!(of.qp.state, QpState::Reset | QpState::Init | QpState::Err);
    if !is_live || packet.opcode.service() != wire_service(config.service) {
        return false;
    }
    // XRC: an initiator takes answers, a target requests.
    let is_xrc = config.service == Service::Xrc;
    if is_xrc && packet.opcode.is_response() == reach.qpc.is_target() {
        return false;
    }
    let (line, func) = (line_of(reach.qpc.qpn()), reach.qpc.func());
    let slid = match frame.link {
        Link::InfiniBand { lrh, .. } => lrh.slid,
        Link::Ethernet { .. } => 0,
    };
    let Some(port) = reach
        .body
        .ports
        .get_mut(usize::from(reach.qpc.port()).wrapping_sub(1))
    else {
        return false;
    };
    if reach.qpc.is_smi() || (reach.qpc.is_gsi() && port.pkey_index(packet.pkey).is_some()) {
        // KEY-21: any partition of the port; management of subnets has none.
        config.pkey = packet.pkey | FULL_MEMBER;
    }
    if let Some(deth) = packet.ext.deth.filter(|_| reach.qpc.is_smi()) {
        // MGMT-2: QP0 has no Q_Key.
        config.qkey = deth.qkey;
    }
    let violation = if !hca_model::pkeys_match(packet.pkey, config.pkey) {
        port.counters.pkey_violations += 1;
        Some(HwEventKind::PkeyViolation)
    } else if packet.ext.deth.is_some_and(|deth| deth.qkey != config.qkey) {
        port.counters.qkey_violations += 1;
        Some(HwEventKind::QkeyViolation)
    } else if config.service != Service::Ud && !same_sender(&frame.link, &config.link) {
        port.counters.bad_sources += 1;
        return false;
    } else {
        None
    };
    if let Some(kind) = violation {
        reach.body.raise(kind, func, line, slid.into());
    }
    violation.is_none()
}

/// What an acknowledge says, for the counters.
fn syndrome_of(packet: &hca_model::Packet) -> Option<Syndrome> {
    packet.ext.aeth.map(|aeth| Syndrome::from_byte(aeth.syndrome))
}

fn count_received(of: &Line, reach: &mut Reach<'_>, frame: &Frame) {
    let packet = &frame.packet;
    let is_request = of.qp.config.service.is_reliable() && !packet.opcode.is_response();
    let ahead = packet.psn.distance_from(of.qp.expected());
    let syndrome = syndrome_of(packet).filter(|_| packet.opcode.is_response());
    reach.count(|counters| {
        counters.out_of_sequence += u64::from(is_request && ahead > 0) * u64::from(packet.count);
        counters.duplicate_requests += u64::from(is_request && ahead < 0);
        counters.rnr_naks_received += u64::from(matches!(syndrome, Some(Syndrome::RnrNak(_))));
        counters.naks_received += u64::from(matches!(syndrome, Some(Syndrome::Nak(_))));
    });
}

fn count_sent(of: &mut Line, reach: &mut Reach<'_>, packet: &hca_model::Packet) {
    let syndrome = syndrome_of(packet);
    let is_request = of.qp.config.service.is_reliable() && !packet.opcode.is_response();
    let is_again = is_request && of.sent.is_some_and(|sent| packet.psn.is_before(sent));
    if is_request && !is_again {
        of.sent = Some(packet.psn.wrapping_add(packet.count));
    }
    reach.count(|counters| {
        counters.retransmitted += u64::from(is_again);
        counters.rnr_naks_sent += u64::from(matches!(syndrome, Some(Syndrome::RnrNak(_))));
        counters.naks_sent += u64::from(matches!(syndrome, Some(Syndrome::Nak(_))));
    });
}

fn wire_service(service: Service) -> hca_wire::Service {
    match service {
        Service::Rc => hca_wire::Service::Rc,
        Service::Uc => hca_wire::Service::Uc,
        Service::Ud => hca_wire::Service::Ud,
        Service::Xrc => hca_wire::Service::Xrc,
    }
}

/// A request that takes more PSNs than may be outstanding now: it waits; one that always will is at fault.
fn post_later(of: &mut Line, reach: &mut Reach<'_>, request: hca_model::SendRequest) {
    if of.qp.sends_outstanding() > 0 {
        of.refused = Some(request);
        return;
    }
    let broken = hca_model::Op::Broken(WcStatus::LocLenErr);
    let request = hca_model::SendRequest {
        op: broken,
        sges: Vec::new(),
        inline: None,
        ..request
    };
    of.qp.post_send(request, reach);
}

/// BIND_MW or LOCAL_INV, whose turn it is.
fn do_local(of: &mut Line, reach: &mut Reach<'_>, wqe: &LocalWqe) {
    let user = KeyUser {
        func: reach.qpc.func(),
        pd: reach.qpc.pd(),
        qpn: reach.qpc.qpn(),
    };
    let done = reach.body.do_local(reach.host, user, wqe);
    let status = done.err().unwrap_or(WcStatus::Success);
    if status == WcStatus::Success && !wqe.signaled {
        return;
    }
    let mut cqe = Cqe::new();
    cqe.set_wqe_index(wqe.index as u16);
    cqe.set_opcode(wqe.opcode.into());
    cqe.set_status(status.into());
    cqe.set_qpn(reach.qpc.qpn());
    let cqn = reach.qpc.send_cqn();
    reach.body.write_cqe(reach.host, cqn, cqe, false);
    if status != WcStatus::Success {
        let who = HwEventWho::Requester;
        reach.failure.get_or_insert(Failure { status, who });
        if of.qp.config.service.is_reliable() {
            of.qp.fail_receives(reach);
        } else {
            of.qp.state = QpState::Sqe;
        }
    }
}
