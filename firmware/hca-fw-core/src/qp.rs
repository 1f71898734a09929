//! Commands for queue pairs. Modify is all or nothing (QPS-3, QPS-18): the new attributes are built on a copy and
//! checked whole before anything is stored or told to the hardware.

use crate::admin::MANAGER;
use crate::groups::Of;
use crate::hal::Hal;
use crate::memory::{GRANTED, IGNORED};
use crate::merge::merge;
use crate::neighbours::is_ipv4;
use crate::objects::require;
use crate::port::Port;
use crate::probe::Probes;
use crate::qpc::set_made;
use crate::rate::{Rate, RateKey, pacing_interval, static_interval};
use crate::record::{Attrs, QpRec};
use crate::ring::Ring;
use crate::srq::LastWqe;
use crate::transition::{Attr, Refusal, check_rule, rule_of, rule_of_target};
use crate::turns::{Fenced, Rest};
use crate::{Bus, CmdResult, Control};
use hca_abi::{
    AdminStatus, AhAttr, CreateQpCmd, EventKind, ModifyQpCmd, PipeMsgKind, QpAttr, QpState, Qpc,
    QueryQpResult, Service, access,
};

/// READs and atomics a QP may have outstanding in either direction.
pub(crate) const MAX_RD_ATOMIC: u8 = 16;
const MAX_PSN: u32 = 0xff_ffff;
/// KEY-24: a controlled Q_Key.
const CONTROLLED_QKEY: u32 = 1 << 31;
/// Hop limit of a route whose own nobody has set.
const ROUTE_HOP_LIMIT: u8 = 64;

impl QpRec {
    /// What it gets of a port, from 1, if it is one of these.
    fn place_at(&self, port_num: u8) -> Option<Of> {
        let at = port_num.checked_sub(1)?;
        match (self.made.is_smi(), self.made.is_gsi()) {
            (true, _) => Some(Of::Smi(at)),
            (_, true) => Some(Of::Gsi(at)),
            _ => None,
        }
    }
}

impl Control {
    /// Place of the port of the QP that has a line, if one has.
    pub(crate) fn port_of_qp(&self, line: u32) -> Option<usize> {
        let is_there = self.qp_ids.contains(line);
        let port_num = is_there.then(|| self.qps[line as usize].attr.port_num());
        self.port_at(port_num?.max(1)).ok()
    }

    /// The line of a QPN, if it names a QP of the function, and not one that had the line before.
    pub(crate) fn own_qp(&self, func: u8, qpn: u32) -> CmdResult<u32> {
        let line = self.lines.index_of(qpn);
        if self.qp_ids.owns(func, line) && self.qpn_of(line) == qpn {
            Ok(line)
        } else {
            Err((AdminStatus::BadHandle, qpn))
        }
    }

    /// The QPN of the QP that has a line, or that had it last and is not quite gone.
    pub(crate) fn qpn_of(&self, line: u32) -> u32 {
        self.lines.qpn_of(line, self.qps[line as usize].generation)
    }

    pub(crate) fn create_qp<B: Bus>(
        &mut self,
        hal: &mut Hal<B>,
        func: u8,
        cmd: &CreateQpCmd,
    ) -> CmdResult<u32> {
        let service = Service::try_from(cmd.service());
        if !self.serves(cmd)
            || ((cmd.is_gsi() || cmd.is_smi()) && service != Ok(Service::Ud))
            || (cmd.is_gsi() && cmd.is_smi())
            || cmd.create_flags() != 0
        {
            return Err((AdminStatus::Unsupported, u32::from(cmd.service())));
        }
        // Who has QP0 can be the subnet manager, of everybody's ports; who sends frames as it likes can speak as
        // anybody.
        if (cmd.is_smi() || service == Ok(Service::Raw)) && func != MANAGER {
            return Err((AdminStatus::NotPermitted, func.into()));
        }
        let is_xrc = service == Ok(Service::Xrc);
        if is_xrc || cmd.is_target() {
            self.check_xrc(func, cmd)?;
        }
        let sq = if cmd.is_target() {
            Ring::NONE
        } else {
            Ring::of_sends(cmd)
        };
        // SPEC-9: with an SRQ the QP has no ring of its own to receive; the SRQ's slots stand in its place.
        let rq = if cmd.has_srq() {
            self.slots_of_new_qp(func, cmd)?
        } else if is_xrc {
            Ring::NONE
        } else {
            Ring::of_receives(cmd)
        };
        sq.check_size()?;
        rq.check_size()?;
        let mut probes = Probes::new(func);
        if !cmd.is_target() {
            sq.check_place(&mut probes)?;
        }
        if !is_xrc {
            rq.check_place(&mut probes)?;
        }
        // Beside the reads of the rings' ends the rest is checked, and the context is made.
        if probes.any() {
            probes.begin(hal);
        }
        if !cmd.is_target() {
            self.own_pd(func, cmd.pd())?;
            self.own_cq(func, cmd.send_cqn())?;
            if !is_xrc && cmd.recv_cqn() != cmd.send_cqn() {
                self.own_cq(func, cmd.recv_cqn())?;
            }
        }
        let eq = self.own_eq(func, u32::from(cmd.async_eqn()))?;
        probes.step(hal)?;
        let limit = self.max_qps(func);
        let may_rest = service == Ok(Service::Rc) && !cmd.has_srq();
        let line = self.lines.alloc(&mut self.qp_ids, func, may_rest);
        let line = line.ok_or((AdminStatus::NoResources, limit))?;
        // Whoever had the line before has left the rest as that of a QP in RESET is (`silence_qp`).
        self.qps[line as usize].made.set(func, cmd, sq, rq);
        if let Err(e) = self.lay_qp(hal, line, &mut probes) {
            self.qp_ids.free(line);
            return Err(e);
        }
        let made = &self.qps[line as usize].made;
        self.eqs[eq].users += 1;
        if made.is_target() {
            self.xrcds[made.xrcd() as usize] += 1;
        } else {
            self.pds[made.pd() as usize] += 1;
            self.cqs[made.send_cqn() as usize].qps += 1;
            self.cqs[made.recv_cqn() as usize].qps += 1;
        }
        if made.has_srq() {
            self.srqs[made.srqn() as usize].qps += 1;
        }
        self.have_line(hal, line);
        self.lines.enter(line);
        if !self.is_written_later(line, true) {
            hal.ctx_write_made(self.lines.line_of(line));
        }
        self.keep_record(hal, line, true);
        Ok(self.qpn_of(line))
    }

    /// Makes the context of a QP, ready to be written, while `probes` go on to their end.
    fn lay_qp<B: Bus>(&mut self, hal: &mut Hal<B>, line: u32, probes: &mut Probes) -> CmdResult {
        probes.step(hal)?;
        self.make_made(line);
        probes.step(hal)?;
        hal.ctx_lay_made(&self.made);
        probes.finish(hal)
    }

    pub(crate) fn destroy_qp<B: Bus>(&mut self, hal: &mut Hal<B>, func: u8, qpn: u32) -> CmdResult<Rest> {
        let line = self.own_qp(func, qpn)?;
        let is_in_use = match self.qps[line as usize].service() {
            Service::Ud => self.groups.is_attached(qpn),
            Service::Raw => self.rules.has(qpn),
            _ => false,
        };
        if is_in_use {
            return Err((AdminStatus::InUse, qpn)); // MC-8
        }
        self.silence_qp(hal, line);
        // Completions under way reach the host before the answer to this command does, and none comes later.
        Ok(Rest::Fence(Fenced::FreeQp(line)))
    }

    /// RESET everywhere: every block drops what it holds for the QP.
    pub(crate) fn silence_qp<B: Bus>(&mut self, hal: &mut Hal<B>, line: u32) {
        // Members of groups are datagram QPs, and only raw ones have rules (`mcast`, `create_rule`).
        match self.qps[line as usize].service() {
            Service::Ud => self.groups.leave_all(hal, self.qpn_of(line)),
            Service::Raw => self.rules.drop_qp(hal, self.qpn_of(line)),
            _ => {}
        }
        // One in RESET has the attributes and the context that it would get: it came there by this, or by its making.
        if !self.lines.are_shared() && self.qps[line as usize].state() == QpState::Reset {
            return;
        }
        let rec = &mut self.qps[line as usize];
        self.rates.leave(core::mem::take(&mut rec.rate_group));
        rec.attr = Attrs::new();
        rec.last_wqe = LastWqe::No;
        self.write_qpc(hal, line, true, true);
    }

    /// A silenced QP is gone, after a fence. Whoever has its line next has another QPN: what still comes for the old
    /// one, from the wire or from its process, reaches nobody.
    pub(crate) fn free_qp<B: Bus>(&mut self, hal: &mut Hal<B>, line: u32) {
        self.drop_record(hal, line);
        let rec = &mut self.qps[line as usize];
        rec.generation = (rec.generation + 1) & self.lines.max_generation();
        self.lines.leave(line);
        let made = &rec.made;
        if made.is_target() {
            self.xrcds[made.xrcd() as usize] -= 1;
        } else {
            // Rows of keys that a function has forged may have counted it down already.
            let users = &mut self.pds[made.pd() as usize];
            *users = users.saturating_sub(1);
            self.cqs[made.send_cqn() as usize].qps -= 1;
            self.cqs[made.recv_cqn() as usize].qps -= 1;
        }
        self.eqs[made.async_eqn() as usize].users -= 1;
        if made.has_srq() {
            self.srqs[made.srqn() as usize].qps -= 1;
        }
        self.qp_ids.free(line);
    }

    pub(crate) fn query_qp(&self, func: u8, qpn: u32) -> CmdResult<QueryQpResult> {
        let rec = &self.qps[self.own_qp(func, qpn)? as usize];
        let mut out = QueryQpResult::new();
        out.set_attr(rec.attr.to_body().0);
        out.set_service(rec.made.service());
        out.set_sq_sig_all(rec.made.sq_sig_all());
        out.set_pd(rec.made.pd());
        out.set_send_cqn(rec.made.send_cqn());
        out.set_recv_cqn(rec.made.recv_cqn());
        out.set_has_srq(rec.made.has_srq());
        out.set_srqn(rec.made.srqn());
        Ok(out)
    }

    pub(crate) fn modify_qp<B: Bus>(
        &mut self,
        hal: &mut Hal<B>,
        func: u8,
        cmd: &ModifyQpCmd,
    ) -> CmdResult<Rest> {
        let line = self.own_qp(func, cmd.qpn())?;
        let i = line as usize;
        let rec = &self.qps[i];
        let from = rec.state();
        let mask = Attr::from_bits(cmd.attr_mask()).ok_or((AdminStatus::BadParam, cmd.attr_mask()))?;
        let given = QpAttr(cmd.attr());
        let to = if mask.contains(Attr::STATE) {
            QpState::try_from(given.qp_state()).map_err(|e| (AdminStatus::BadParam, u32::from(e.code)))?
        } else {
            from
        };
        if mask.contains(Attr::CUR_STATE) && given.cur_qp_state() != rec.attr.qp_state() {
            return Err((AdminStatus::BadState, u32::from(rec.attr.qp_state())));
        }
        let rule = match rec.made.is_target() {
            true => rule_of_target(from, to),
            false => rule_of(rec.service(), from, to),
        };
        check_rule(rule, mask).map_err(|refusal| match refusal {
            Refusal::NoSuchTransition => (AdminStatus::BadState, u32::from(rec.attr.qp_state())),
            Refusal::Missing(attrs) | Refusal::NotTaken(attrs) => (AdminStatus::BadParam, attrs.bits()),
        })?;
        // QPS-10: only a drained queue may go on, or be changed.
        if from == QpState::Sqd && rec.attr.sq_draining() && matches!(to, QpState::Sqd | QpState::Rts) {
            return Err((AdminStatus::BadState, u32::from(rec.attr.qp_state())));
        }
        let migrates = mask.intersects(Attr::ALT_PATH | Attr::PATH_MIG_STATE);
        if mask.contains(Attr::CAP) || (migrates && !self.can_migrate(line)) {
            return Err((AdminStatus::Unsupported, mask.bits()));
        }
        let paces = mask.contains(Attr::RATE_LIMIT) && given.rate_limit() != 0;
        if paces && self.has_transport_alone() {
            return Err((AdminStatus::Unsupported, Attr::RATE_LIMIT.bits()));
        }
        let is_management = self.qps[i].is_management();
        // KEY-24: what a peer believes of such a Q_Key is that an operating system stands behind it.
        if mask.contains(Attr::QKEY)
            && !is_management
            && given.qkey() & CONTROLLED_QKEY != 0
            && func != MANAGER
        {
            return Err((AdminStatus::NotPermitted, func.into()));
        }
        let mut attr = if to == QpState::Reset {
            Attrs::new()
        } else {
            merge(&rec.attr, &given, mask)
        };
        self.check_values(mask, &given, &attr)?;
        if mask.contains(Attr::AV) {
            self.resolve_path(&mut attr)?;
        }
        let service = self.qps[i].service();
        if service == Service::Raw && to != QpState::Reset {
            // InfiniBand has no frames that are not of its own kind.
            require(!self.port_of(&attr)?.infiniband(), attr.port_num().into())?;
        }
        if matches!(service, Service::Ud | Service::Raw) && to != QpState::Reset {
            // V-36: it bounds the message, and nobody gives it.
            attr.set_path_mtu(self.port_of(&attr)?.mtu());
        }
        let mut place = None;
        if is_management && to != QpState::Reset {
            let is_smi = self.qps[i].made.is_smi();
            // Ethernet has no subnet manager.
            require(
                !is_smi || self.port_of(&attr)?.infiniband(),
                attr.port_num().into(),
            )?;
            attr.set_qkey(if is_smi { 0 } else { hca_wire::QKEY_GSI });
            place = self.qps[i].place_at(attr.port_num());
            if let Some(of) = place {
                self.groups.check_place(func, self.qpn_of(line), of)?;
            }
        }
        attr.set_qp_state(to);
        let drains = from == QpState::Rts && to == QpState::Sqd && !self.qps[i].made.is_target();
        attr.set_sq_draining(drains);
        if to != QpState::Sqd || drains {
            // QPS-11: it belongs to this one way into SQD, not to the QP.
            attr.set_en_sqd_async_notify(
                mask.contains(Attr::EN_SQD_ASYNC_NOTIFY) && given.en_sqd_async_notify(),
            );
        }
        let has_migrated = migrates && self.set_migration(hal, line, mask, &given, &mut attr)?;
        self.set_attrs(line, attr)?;
        if is_management {
            self.groups.place(hal, func, self.qpn_of(line), place);
        }
        self.apply_transition(hal, line, from, to);
        if has_migrated {
            self.post_qp_event(hal, line, EventKind::PathMig, 0);
        }
        if has_migrated || (from, to) == (QpState::Init, QpState::Rtr) {
            // From now on packets come in: a second init_rq would forget them.
            self.only_answer(hal, func);
        }
        // QPS-6: the driver removes the QP's completions next; none may come after that.
        Ok(match to {
            QpState::Reset => Rest::Fence(Fenced::Nothing),
            _ => Rest::None,
        })
    }

    /// The QP has these attributes now, if its rate can be kept.
    pub(crate) fn set_attrs(&mut self, line: u32, attr: Attrs) -> CmdResult {
        let rate = self.rate_of(line, &attr);
        let rec = &mut self.qps[line as usize];
        let group = self.rates.change(rec.made.func(), rec.rate_group, rate);
        rec.rate_group = group.ok_or((AdminStatus::NoResources, crate::rate::GROUPS))?;
        rec.attr = attr;
        Ok(())
    }

    /// Tells the hardware about a legal transition.
    fn apply_transition<B: Bus>(&mut self, hal: &mut Hal<B>, line: u32, from: QpState, to: QpState) {
        let fresh = matches!((from, to), (QpState::Reset, QpState::Init)) || to == QpState::Reset;
        let init_rq = fresh || (from == QpState::Init && to == QpState::Rtr);
        let init_sq = fresh || (from == QpState::Rtr && to == QpState::Rts);
        self.write_qpc(hal, line, init_sq, init_rq);
        let sends = !self.qps[line as usize].made.is_target();
        let at = self.lines.line_of(line);
        if from == QpState::Rts && to == QpState::Sqd && sends {
            hal.inject(PipeMsgKind::SqDrain, at);
        }
        if to == QpState::Err && from != QpState::Reset && sends {
            if self.lines.is_cold(line) {
                self.want_line(line);
            } else {
                hal.inject(PipeMsgKind::FlushSq, at);
                hal.inject(PipeMsgKind::FlushRq, at);
            }
        }
        if to == QpState::Reset {
            self.qps[line as usize].last_wqe = LastWqe::No;
        } else if to == QpState::Err && from != QpState::Err {
            self.owe_last_wqe(line);
        }
    }

    /// Moves a QP to ERR because hardware says so; none when it is there already or has no queues to flush. Which event
    /// is for that: a work queue is a raw QP that only receives (decision 0060).
    pub(crate) fn fail_qp<B: Bus>(&mut self, hal: &mut Hal<B>, line: u32) -> Option<EventKind> {
        if !self.qp_ids.contains(line) {
            return None;
        }
        let rec = &mut self.qps[line as usize];
        if matches!(rec.state(), QpState::Reset | QpState::Init | QpState::Err) {
            return None;
        }
        let from = rec.state();
        let kind = if rec.service() == Service::Raw && from == QpState::Rtr {
            EventKind::WqFatal
        } else {
            EventKind::QpFatal
        };
        rec.attr.set_qp_state(QpState::Err);
        rec.attr.set_sq_draining(false);
        self.apply_transition(hal, line, from, QpState::Err);
        Some(kind)
    }

    /// Does the line belong to a QP that goes on receiving when a send has failed?
    pub(crate) fn outlives_failed_sends(&self, line: u32) -> bool {
        self.qp_ids.contains(line)
            && matches!(
                self.qps[line as usize].service(),
                Service::Uc | Service::Ud | Service::Raw
            )
    }

    /// Moves a QP of UC or UD to SQE because hardware says that a send failed (QPS-12). It goes on receiving.
    pub(crate) fn stop_sends<B: Bus>(&mut self, hal: &mut Hal<B>, line: u32) {
        let rec = &mut self.qps[line as usize];
        if !matches!(rec.state(), QpState::Rts | QpState::Sqd) {
            return;
        }
        rec.attr.set_qp_state(QpState::Sqe);
        rec.attr.set_sq_draining(false);
        self.write_qpc(hal, line, false, false);
        hal.inject(PipeMsgKind::FlushSq, self.lines.line_of(line));
    }

    /// The port of a QP: the first one until it is set.
    pub(crate) fn port_of(&self, attr: &Attrs) -> CmdResult<&Port> {
        Ok(&self.ports[self.port_at(attr.port_num().max(1))?])
    }

    /// `all`: what the QP will have then.
    pub(crate) fn check_values(&self, mask: Attr, a: &QpAttr, all: &Attrs) -> CmdResult {
        let bad = |attr: Attr| (AdminStatus::BadParam, attr.bits());
        let check = |attr: Attr, ok: bool| {
            if mask.contains(attr) && !ok {
                Err(bad(attr))
            } else {
                Ok(())
            }
        };
        let legal_access = GRANTED | IGNORED | access::ZERO_BASED | access::NO_CREDITS;
        check(Attr::PORT, self.port_at(a.port_num()).is_ok())?;
        let port = self.port_of(all)?;
        check(Attr::PKEY_INDEX, (a.pkey_index() as usize) < port.pkeys().len())?;
        check(Attr::ACCESS_FLAGS, a.qp_access_flags() & !legal_access == 0)?;
        check(Attr::PATH_MTU, a.path_mtu() >= 1 && a.path_mtu() <= port.mtu())?;
        check(Attr::TIMEOUT, a.timeout() <= 31)?;
        check(Attr::RETRY_CNT, a.retry_cnt() <= 7)?;
        check(Attr::RNR_RETRY, a.rnr_retry() <= 7)?;
        check(Attr::RQ_PSN, a.rq_psn() <= MAX_PSN)?;
        check(Attr::SQ_PSN, a.sq_psn() <= MAX_PSN)?;
        check(Attr::MAX_QP_RD_ATOMIC, a.max_rd_atomic() <= MAX_RD_ATOMIC)?;
        check(Attr::MAX_DEST_RD_ATOMIC, a.max_dest_rd_atomic() <= MAX_RD_ATOMIC)?;
        check(Attr::MIN_RNR_TIMER, a.min_rnr_timer() <= 31)?;
        check(Attr::RATE_LIMIT, pacing_interval(a.rate_limit()).is_some())?;
        check(
            Attr::AV,
            !mask.contains(Attr::AV) || legal_path(port, &AhAttr(a.ah_attr())),
        )
    }

    /// On Ethernet a path needs a MAC address. One that the driver has not found itself is that of the neighbour.
    pub(crate) fn resolve_path(&mut self, attr: &mut Attrs) -> CmdResult {
        let port = self.port_of(attr)?;
        if !port.infiniband() && attr.dmac() == [0; 6] {
            let port_num = port.number();
            attr.set_dmac(self.mac_of(port_num, &attr.dgid())?);
        }
        Ok(())
    }

    /// MAC address behind a GID on the network of a port; if it is not known, somebody may be asked.
    pub(crate) fn mac_of(&mut self, port_num: u8, gid: &[u8; 16]) -> CmdResult<[u8; 6]> {
        let port = &self.ports[self.port_at(port_num)?];
        let mac = self.neighbours.resolve(port, gid);
        mac.ok_or_else(|| {
            let asked = self.neighbours.want(port_num, *gid);
            let status = if asked {
                AdminStatus::Resolving
            } else {
                AdminStatus::Unreachable
            };
            (status, Attr::AV.bits())
        })
    }

    /// The rate that a QP must keep: of its path, or its own. With both it is in the group of the path, at the slower
    /// of the two.
    fn rate_of(&self, line: u32, a: &Attrs) -> Option<Rate> {
        let path = static_interval(a.static_rate()).unwrap_or(0);
        let own = pacing_interval(a.rate_limit()).unwrap_or(0);
        let key = if path == 0 {
            RateKey::Qp(line)
        } else if self.port_of(a).ok()?.infiniband() {
            RateKey::Lid(a.port_num(), a.dlid())
        } else {
            RateKey::Mac(a.port_num(), a.dmac())
        };
        let interval = path.max(own);
        (interval != 0).then_some(Rate { key, interval })
    }

    /// Writes the hardware's context from the record, if the QP has its line.
    pub(crate) fn write_qpc<B: Bus>(&mut self, hal: &mut Hal<B>, line: u32, init_sq: bool, init_rq: bool) {
        self.have_line(hal, line);
        let (is_new, at) = (init_sq && init_rq, self.lines.line_of(line));
        if self.is_written_later(line, is_new) {
            if self.lines.is_backed {
                hal.ctx_lay_row(&self.qpc_of(line));
            }
        } else if is_new && self.qps[line as usize].state() == QpState::Reset {
            self.make_made(line);
            hal.ctx_lay_made(&self.made);
            hal.ctx_write_made(at);
        } else {
            hal.ctx_write_qpc(at, &self.qpc_of(line), init_sq, init_rq);
        }
        self.keep_record(hal, line, is_new);
    }

    /// The hardware's context, from the record. The source GID is resolved here.
    pub(crate) fn qpc_of(&self, line: u32) -> Qpc {
        let mut q = Qpc::new();
        set_made(&mut q, &self.qps[line as usize].made, self.qpn_of(line));
        q.set_is_shared(self.lines.are_shared());
        // In RESET it has no attributes.
        if self.qps[line as usize].state() != QpState::Reset {
            self.set_attributes(&mut q, line);
        }
        q
    }

    /// The same of one in RESET, in its place.
    fn make_made(&mut self, line: u32) {
        let qpn = self.qpn_of(line);
        set_made(&mut self.made, &self.qps[line as usize].made, qpn);
        self.made.set_is_shared(self.lines.are_shared());
    }

    #[inline(never)]
    fn set_attributes(&self, q: &mut Qpc, line: u32) {
        let rec = &self.qps[line as usize];
        let a = &rec.attr;
        q.set_state(a.qp_state());
        q.set_port(a.port_num().max(1));
        q.set_pkey_index(a.pkey_index());
        q.set_path_mtu(a.path_mtu().max(1));
        q.set_path_mig_state(a.path_mig_state());
        q.set_access(a.qp_access_flags());
        q.set_dest_qpn(a.dest_qp_num());
        q.set_qkey(a.qkey());
        q.set_timeout(a.timeout());
        q.set_retry_cnt(a.retry_cnt());
        q.set_rnr_retry(a.rnr_retry());
        q.set_min_rnr_timer(a.min_rnr_timer());
        q.set_max_rd_atomic(a.max_rd_atomic());
        q.set_max_dest_rd_atomic(a.max_dest_rd_atomic());
        q.set_sq_psn(a.sq_psn());
        q.set_rq_psn(a.rq_psn());
        if !matches!(rec.service(), Service::Ud | Service::Raw) {
            self.set_path(q, a);
        }
        q.set_rate_limit(a.rate_limit());
        if rec.rate_group != 0 {
            q.set_rate_group(rec.rate_group);
            q.set_rate_interval(self.rate_of(line, a).map_or(0, |rate| rate.interval));
        }
    }

    fn set_path(&self, q: &mut Qpc, a: &Attrs) {
        let Ok(port) = self.port_of(a) else {
            return;
        };
        let sgid = port.gid(a.sgid_index()).copied().unwrap_or([0; 16]);
        let dgid = a.dgid();
        let udp = match a.udp_src_port() {
            0 => udp_source_port(a.flow_label(), q.qpn(), a.dest_qp_num()),
            given => given,
        };
        q.set_udp_src_port(udp);
        q.set_is_global(a.is_global());
        q.set_is_ipv4(is_ipv4(&dgid));
        q.set_dgid(dgid);
        q.set_sgid(sgid);
        q.set_sgid_index(a.sgid_index());
        q.set_dmac(a.dmac());
        q.set_traffic_class(a.traffic_class());
        q.set_hop_limit(hop_limit(port, a.hop_limit()));
        q.set_flow_label(a.flow_label());
        // On Ethernet the priority is what an SL is on InfiniBand: the DSCP says it on the wire.
        q.set_sl(if port.infiniband() {
            a.sl()
        } else {
            port.link.priority(a.traffic_class())
        });
        q.set_dlid(a.dlid());
        q.set_src_path_bits(a.src_path_bits());
        q.set_static_rate(a.static_rate());
    }
}

/// Source port of a RoCEv2 flow (IBTA annex A17: the dynamic range, made from the flow label): one for all packets of a
/// QP, which keeps them in order, and different ones for different QPs, which spreads them over equal ways. A path
/// without a flow label gets one made from both QPNs; it is the same in both directions. Linux computes the same port.
fn udp_source_port(flow_label: u32, qpn: u32, dest_qpn: u32) -> u16 {
    let label = if flow_label == 0 {
        let product = u64::from(qpn) * u64::from(dest_qpn);
        let folded = product ^ (product >> 20);
        (folded ^ (folded >> 40)) as u32 & 0xf_ffff
    } else {
        flow_label & 0xf_ffff
    };
    0xc000 | ((label & 0x3fff) ^ (label >> 14)) as u16
}

/// WIRE-18: as given. On Ethernet 0 and 1, which no router passes on, become what the route would say: programs leave
/// the field empty there, because an operating system fills it in.
fn hop_limit(port: &Port, given: u8) -> u8 {
    match given {
        0 | 1 if !port.infiniband() => ROUTE_HOP_LIMIT,
        given => given,
    }
}

/// QPS-21: on Ethernet a path needs a GRH; its source GID must exist, and be an IPv4 address if its destination is one:
/// a packet has both in one header. RATE-5: its rate
/// must be one. ADDR-4: its source LID must be one of the port's. ADDR-13: it leaves through the QP's port.
fn legal_path(port: &Port, ah: &AhAttr) -> bool {
    let Some(sgid) = port.gid(ah.sgid_index()) else {
        return false;
    };
    let grh_ok = !ah.is_global() || *sgid != [0; 16];
    let link_ok = if port.infiniband() {
        ah.dlid() != 0 && ah.src_path_bits() >> port.lmc() == 0
    } else {
        ah.is_global() && is_ipv4(sgid) == is_ipv4(&ah.dgid())
    };
    grh_ok && link_ok && static_interval(ah.static_rate()).is_some() && ah.port_num() == port.number()
}

#[cfg(test)]
#[path = "qp_tests.rs"]
mod tests;
