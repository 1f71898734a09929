//! What a queue pair of the transport reaches: the rings, keys and memory of the function that has it.

use hca_abi::{
    Cqe, EventKind, HwEventKind, HwEventWho, PD_ANY, Qpc, WC_SL_ROCE_IPV4, WC_SL_ROCE_IPV6, WcOpcode,
    WcStatus, wc_flag,
};
use hca_fw_core::{line_of, path_asked_cause, place_of_gids};
use hca_model::{
    Access, BadReceive, Completion, Frame, ModelEvent, PathNews, QpConfig, RecvRequest, Refusal, Service,
    Sge, World,
};
use hca_wire::{Link, Network};

use crate::HostPort;
use crate::body::Body;
use crate::datagrams::gids;
use crate::keys::KeyUser;
use crate::port::PortCounters;

/// XRC: no receive queue has been named.
pub(crate) const NO_QUEUE: u32 = u32::MAX;

/// How a QP has failed, for firmware.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Failure {
    pub status: WcStatus,
    pub who: HwEventWho,
}

/// The world of one QP for one call.
pub(crate) struct Reach<'a> {
    pub body: &'a mut Body,
    pub host: &'a mut dyn HostPort,
    pub qpc: Box<Qpc>,
    /// The packet that is handled.
    pub frame: Option<&'a Frame>,
    /// Through which port, from 0, it has come.
    pub port: usize,
    /// The first thing that went wrong.
    pub failure: Option<Failure>,
}

impl<'a> Reach<'a> {
    pub fn new(body: &'a mut Body, host: &'a mut dyn HostPort, qpc: Box<Qpc>) -> Self {
        Self {
            body,
            host,
            qpc,
            frame: None,
            port: 0,
            failure: None,
        }
    }

    /// Changes the counters of the QP's port.
    pub fn count(&mut self, change: impl FnOnce(&mut PortCounters)) {
        let at = usize::from(self.qpc.port()).wrapping_sub(1);
        if let Some(port) = self.body.ports.get_mut(at) {
            change(&mut port.counters);
        }
    }

    fn line(&self) -> u32 {
        line_of(self.qpc.qpn())
    }

    /// The SRQ that a request of XRC names, a row.
    fn named(&self, config: &QpConfig) -> Option<u32> {
        if config.service != Service::Xrc || config.receive_queue == NO_QUEUE {
            return None;
        }
        self.body.xrc_srq(self.qpc.func(), config.receive_queue)
    }

    /// Who uses a key; for XRC the domain is that of the SRQ that is named, and once it has been compared any.
    fn user(&self, config: &QpConfig) -> KeyUser {
        let pd = match self.named(config) {
            Some(row) => self.body.srqs[row as usize].context.pd(),
            None if config.service == Service::Xrc && self.qpc.is_target() => PD_ANY,
            None => config.domain,
        };
        KeyUser {
            func: self.qpc.func(),
            pd,
            qpn: config.qpn,
        }
    }

    fn fail(&mut self, status: WcStatus, who: HwEventWho) {
        self.failure.get_or_insert(Failure { status, who });
    }

    /// What only a datagram's completion says: how it has come.
    fn describe_way(&self, cqe: &mut Cqe) -> u8 {
        let Some(frame) = self.frame else { return 0 };
        match frame.link {
            Link::Ethernet { ip, .. } => {
                cqe.set_sl(match ip {
                    Network::Ipv4(_) => WC_SL_ROCE_IPV4 as u8,
                    Network::Ipv6(_) => WC_SL_ROCE_IPV6 as u8,
                });
                wc_flag::GRH
            }
            Link::InfiniBand { lrh, grh } => {
                cqe.set_sl(lrh.sl);
                cqe.set_slid(lrh.slid);
                let port = &self.body.ports[usize::from(self.qpc.port().max(1)) - 1];
                let is_unicast = !is_multicast_lid(lrh.dlid);
                cqe.set_dlid_path_bits(if is_unicast {
                    (lrh.dlid ^ port.lid) as u8
                } else {
                    0
                });
                if grh.is_some() { wc_flag::GRH } else { 0 }
            }
        }
    }

    fn receive_completion(&mut self, completion: &Completion) {
        let mut cqe = Cqe::new();
        let mut flags = 0;
        if let Some(imm) = completion.imm {
            flags |= wc_flag::WITH_IMM;
            cqe.set_imm_data(imm.swap_bytes());
        }
        if let Some(key) = completion.invalidated {
            flags |= wc_flag::WITH_INV;
            cqe.set_imm_data(key.swap_bytes());
        }
        cqe.set_byte_len(completion.byte_len);
        let is_datagram = hca_abi::Service::try_from(self.qpc.service()) == Ok(hca_abi::Service::Ud);
        cqe.set_src_qp(completion.src_qp);
        if is_datagram && completion.status == WcStatus::Success {
            flags |= self.describe_way(&mut cqe);
            if self.qpc.is_gsi()
                && let Some(frame) = self.frame
            {
                let port = &self.body.ports[usize::from(self.qpc.port().max(1)) - 1];
                cqe.set_pkey_index(port.pkey_index(frame.packet.pkey).unwrap_or(0).into());
            }
        }
        cqe.set_wc_flags(flags);
        let mut cqn = self.qpc.recv_cqn();
        if hca_abi::Service::try_from(self.qpc.service()) == Ok(hca_abi::Service::Xrc) {
            cqe.set_is_xrc(true);
            cqe.set_srqn(completion.receive_queue & 0xff_ffff);
            match self.body.xrc_srq(self.qpc.func(), completion.receive_queue) {
                Some(row) => cqn = self.body.srqs[row as usize].context.cqn(),
                None => return,
            }
        }
        self.write(cqe, cqn, completion);
    }

    fn write(&mut self, mut cqe: Cqe, cqn: u32, completion: &Completion) {
        cqe.set_wqe_index(completion.wr_id as u16);
        cqe.set_opcode(completion.opcode.into());
        cqe.set_status(completion.status.into());
        cqe.set_qpn(completion.qpn);
        self.body.write_cqe(self.host, cqn, cqe, completion.solicited);
    }

    /// A completion of a send WQE.
    pub fn send_completion(&mut self, completion: &Completion) {
        let mut cqe = Cqe::new();
        if completion.status == WcStatus::Success {
            cqe.set_byte_len(completion.byte_len);
        }
        self.write(cqe, self.qpc.send_cqn(), completion);
    }

    /// The receives of the ring are flushed (QPS-14).
    pub fn flush_ring(&mut self) {
        let line = self.line() as usize;
        let has_ring = !self.qpc.has_srq() && !self.is_of_xrc();
        while has_ring && self.body.rings[line].rq_consumer != self.body.rings[line].rq_producer {
            let index = self.body.rings[line].rq_consumer;
            self.body.rings[line].rq_consumer = hca_abi::wqe_index(index + 1);
            self.flush_one(index, WcOpcode::Recv, self.qpc.recv_cqn());
        }
    }

    /// The send WQEs that have not been fetched are flushed.
    pub fn flush_sends(&mut self) {
        let line = self.line() as usize;
        while self.body.rings[line].sq_fetched != self.body.rings[line].sq_producer {
            let index = self.body.rings[line].sq_fetched;
            self.body.rings[line].sq_fetched = hca_abi::wqe_index(index + 1);
            self.flush_one(index, WcOpcode::Send, self.qpc.send_cqn());
        }
    }

    fn flush_one(&mut self, index: u32, opcode: WcOpcode, cqn: u32) {
        let mut cqe = Cqe::new();
        cqe.set_wqe_index(index as u16);
        cqe.set_opcode(opcode.into());
        cqe.set_status(WcStatus::WrFlushErr.into());
        cqe.set_qpn(self.qpc.qpn());
        self.body.write_cqe(self.host, cqn, cqe, false);
    }

    fn is_of_xrc(&self) -> bool {
        hca_abi::Service::try_from(self.qpc.service()) == Ok(hca_abi::Service::Xrc)
    }
}

/// ADDR-9: LIDs of multicast groups.
pub(crate) fn is_multicast_lid(lid: u16) -> bool {
    (0xc000..0xffff).contains(&lid)
}

/// What of the way of a packet firmware compares with a path.
fn asked_by(port: usize, frame: &Frame) -> u32 {
    let place = match frame.link {
        Link::InfiniBand { lrh, .. } => lrh.slid,
        Link::Ethernet { .. } => {
            gids(&frame.link).map_or(0, |(source, destination)| place_of_gids(&source, &destination))
        }
    };
    path_asked_cause(port as u8, frame.packet.pkey, place)
}

impl World for Reach<'_> {
    fn check(&mut self, config: &QpConfig, range: Sge, right: Access) -> Result<(), Refusal> {
        let user = self.user(config);
        self.body.check_key(self.host, user, range, right)
    }

    fn check_region(&mut self, config: &QpConfig, key: u32, right: Access) -> Result<(), Refusal> {
        let user = self.user(config);
        self.body.check_region(self.host, user, key, right)
    }

    fn is_far(&self) -> bool {
        self.host.is_far(self.qpc.func())
    }

    fn read_to(
        &mut self,
        config: &QpConfig,
        range: Sge,
        right: Access,
        out: &mut [u8],
    ) -> Result<(), Refusal> {
        let user = self.user(config);
        self.body.read_key(self.host, user, (range, right), out)
    }

    fn write(
        &mut self,
        config: &QpConfig,
        key: u32,
        va: u64,
        bytes: &[u8],
        right: Access,
    ) -> Result<(), Refusal> {
        let user = self.user(config);
        // Nobody has to see at once what is in the middle of a message.
        let is_middle = self.frame.is_some_and(|frame| frame.packet.opcode.is_middle());
        self.host.hush(is_middle);
        let written = self.body.write_key(self.host, user, (key, va), bytes, right);
        self.host.hush(false);
        written
    }

    fn invalidate(&mut self, config: &QpConfig, key: u32) -> Result<(), Refusal> {
        let user = self.user(config);
        self.body.invalidate(self.host, user, key, true)
    }

    fn check_queue(&mut self, config: &QpConfig) -> Result<(), Refusal> {
        let row = self.named(config).ok_or(Refusal::Key)?;
        if self.body.srqs[row as usize].context.xrcd() == self.qpc.xrcd() {
            Ok(())
        } else {
            Err(Refusal::Domain)
        }
    }

    fn next_receive(&mut self, config: &QpConfig) -> Result<Option<RecvRequest>, BadReceive> {
        let named = self.named(config);
        if named.is_none() && self.is_of_xrc() {
            return Ok(None);
        }
        let line = self.line();
        let place = self.body.take_receive(self.host, line, &self.qpc, named);
        place
            .map(|place| self.body.fetch_receive(self.host, self.qpc.func(), place))
            .transpose()
    }

    fn count_receives(&mut self, _: &QpConfig) -> Option<u32> {
        let rings = &self.body.rings[self.line() as usize];
        (!self.qpc.has_srq()).then(|| hca_abi::wqe_distance(rings.rq_consumer, rings.rq_producer))
    }

    fn flush_receives(&mut self, _: &QpConfig) {
        self.flush_ring();
    }

    fn complete(&mut self, completion: Completion) {
        let is_receive = u8::from(completion.opcode) & 0x80 != 0;
        if is_receive {
            self.receive_completion(&completion);
        } else {
            self.send_completion(&completion);
        }
        match completion.status {
            WcStatus::Success | WcStatus::WrFlushErr => {}
            status if is_receive => self.fail(status, HwEventWho::Responder),
            status @ (WcStatus::LocQpOpErr | WcStatus::LocLenErr | WcStatus::LocProtErr) => {
                self.fail(status, HwEventWho::Requester);
            }
            status => self.fail(status, HwEventWho::Ack),
        }
    }

    fn tell(&mut self, event: ModelEvent) {
        match event.kind {
            EventKind::QpReqErr => self.fail(WcStatus::RemInvReqErr, HwEventWho::Responder),
            EventKind::QpAccessErr => self.fail(WcStatus::RemAccessErr, HwEventWho::Responder),
            // Firmware tells of the rest by itself.
            _ => {}
        }
    }

    fn path_news(&mut self, _: &QpConfig, news: PathNews<'_>) {
        let (func, line) = (self.qpc.func(), self.line());
        let (kind, cause) = match news {
            PathNews::Armed => (HwEventKind::PathArmed, 0),
            PathNews::Asked(frame) => (HwEventKind::PathAsked, asked_by(self.port, frame)),
            PathNews::Failed => (HwEventKind::PathFailed, 0),
        };
        self.body.raise(kind, func, line, cause);
    }
}
