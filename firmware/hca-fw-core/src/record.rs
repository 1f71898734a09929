//! What firmware keeps of each QP: of its CREATE_QP and of its attributes what later commands and its context need, and
//! no bit more. The soft core's memory holds 1,024 of these records.

use crate::{NUM_CQS, NUM_EQS, NUM_FUNCS, NUM_PDS, NUM_PORTS, NUM_SRQS, NUM_XRCDS};
use hca_abi::{AhAttr, CreateQpCmd, PD_ANY, QpAttr, QpState, Service, access};

use crate::ring::Ring;
use crate::srq::LastWqe;

// What the fields below have room for.
const _: () = assert!(NUM_CQS <= 1 << 16);
const _: () = assert!(NUM_SRQS <= 1 << 8 && NUM_XRCDS <= 1 << 8 && NUM_EQS <= 1 << 8 && NUM_PORTS < 4);
const _: () = assert!(NUM_PDS <= 1 << PD_BITS && NUM_FUNCS <= 1 << (16 - PD_BITS));
const _: () = assert!(size_of::<QpRec>() <= 88);

/// Bits of `Made::kind` beside the service.
const SQ_SIG_ALL: u8 = 1 << 3;
const HAS_SRQ: u8 = 1 << 4;
const IS_GSI: u8 = 1 << 5;
const IS_SMI: u8 = 1 << 6;
const IS_TARGET: u8 = 1 << 7;
/// Bits of `Made::pd_and_func` that are the PD.
const PD_BITS: u32 = 12;
const PD: u16 = (1 << PD_BITS) - 1;

/// What it was made with.
#[derive(Clone, Copy)]
#[repr(Rust, packed)]
pub(crate) struct Made {
    sq: u64,
    rq: u64,
    /// The PD, and the function.
    pd_and_func: u16,
    send_cqn: u16,
    recv_cqn: u16,
    /// Of a target of XRC its domain, of any other QP its SRQ.
    srqn_or_xrcd: u8,
    async_eqn: u8,
    kind: u8,
}

impl Made {
    pub const fn new() -> Self {
        Self {
            sq: 0,
            rq: 0,
            pd_and_func: 0,
            send_cqn: 0,
            recv_cqn: 0,
            srqn_or_xrcd: 0,
            async_eqn: 0,
            kind: 0,
        }
    }

    /// From a command whose handles are the function's, with the rings that it comes to.
    #[inline(always)]
    pub fn set(&mut self, func: u8, cmd: &CreateQpCmd, sq: Ring, rq: Ring) {
        let bit = |has: bool, bit: u8| if has { bit } else { 0 };
        let is_target = cmd.is_target();
        let is_xrc = cmd.service() == u8::from(Service::Xrc);
        let (send_cqn, recv_cqn) = match (is_target, is_xrc) {
            (true, _) => (0, 0),
            (_, true) => (cmd.send_cqn(), cmd.send_cqn()),
            _ => (cmd.send_cqn(), cmd.recv_cqn()),
        };
        let srqn_or_xrcd = match (is_target, cmd.has_srq()) {
            (true, _) => cmd.xrcd(),
            (_, true) => cmd.srqn(),
            _ => 0,
        };
        *self = Self {
            sq: sq.to_word(),
            rq: rq.to_word(),
            pd_and_func: if is_target { 0 } else { cmd.pd() as u16 & PD } | u16::from(func) << PD_BITS,
            send_cqn: send_cqn as u16,
            recv_cqn: recv_cqn as u16,
            srqn_or_xrcd: srqn_or_xrcd as u8,
            async_eqn: cmd.async_eqn(),
            kind: cmd.service() & 7
                | bit(cmd.sq_sig_all(), SQ_SIG_ALL)
                | bit(cmd.has_srq(), HAS_SRQ)
                | bit(cmd.is_gsi(), IS_GSI)
                | bit(cmd.is_smi(), IS_SMI)
                | bit(is_target, IS_TARGET),
        };
    }

    pub fn sq(&self) -> Ring {
        Ring::of_word(self.sq)
    }

    pub fn rq(&self) -> Ring {
        Ring::of_word(self.rq)
    }

    pub fn service(&self) -> u8 {
        self.kind & 7
    }

    pub fn sq_sig_all(&self) -> bool {
        self.kind & SQ_SIG_ALL != 0
    }

    pub fn has_srq(&self) -> bool {
        self.kind & HAS_SRQ != 0
    }

    pub fn is_gsi(&self) -> bool {
        self.kind & IS_GSI != 0
    }

    pub fn is_smi(&self) -> bool {
        self.kind & IS_SMI != 0
    }

    pub fn is_target(&self) -> bool {
        self.kind & IS_TARGET != 0
    }

    /// The SRQ's domain is compared with that of keys, packet by packet: a target's own is any.
    pub fn pd(&self) -> u32 {
        if self.is_target() {
            PD_ANY
        } else {
            (self.pd_and_func & PD).into()
        }
    }

    pub fn send_cqn(&self) -> u32 {
        self.send_cqn.into()
    }

    pub fn recv_cqn(&self) -> u32 {
        self.recv_cqn.into()
    }

    pub fn srqn(&self) -> u32 {
        if self.is_target() {
            0
        } else {
            self.srqn_or_xrcd.into()
        }
    }

    pub fn xrcd(&self) -> u32 {
        if self.is_target() {
            self.srqn_or_xrcd.into()
        } else {
            0
        }
    }

    pub fn async_eqn(&self) -> u8 {
        self.async_eqn
    }

    pub fn func(&self) -> u8 {
        (self.pd_and_func >> PD_BITS) as u8
    }
}

/// Attributes of a QP, with the state. A word of 24 bits has something else in its upper byte.
#[derive(Clone, Copy)]
#[repr(Rust, packed)]
pub(crate) struct Attrs {
    qkey: u32,
    rate_limit: u32,
    /// rq_psn, min_rnr_timer.
    rq: u32,
    /// sq_psn, timeout.
    sq: u32,
    /// dest_qp_num, retry_cnt, rnr_retry.
    dest: u32,
    /// flow_label, sl, `IS_GLOBAL`, `HAS_PATH`, max_rd_atomic.
    flow: u32,
    dgid: [u8; 16],
    dmac: [u8; 6],
    dlid: u16,
    udp_src_port: u16,
    hop_limit: u8,
    traffic_class: u8,
    sgid_index: u8,
    src_path_bits: u8,
    static_rate: u8,
    /// qp_state, `RELAXED`, path_mtu.
    state: u8,
    /// qp_access_flags, port_num, `SQ_DRAINING`, `NOTIFIES`.
    access: u8,
    /// pkey_index, `FLUSH`.
    pkey_index: u8,
    /// max_dest_rd_atomic, `Migration`, `HAS_ALTERNATE`.
    max_dest_rd_atomic: u8,
}

/// Of path_mig_state what firmware tells apart.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Migration {
    Migrated,
    Rearm,
    Armed,
    /// ARMED, and PATH_MIG_ERR has been told: once for whoever asks.
    ArmedTold,
}

const MAX_DEST_RD: u8 = 31;
const MIGRATION_SHIFT: u32 = 5;
/// An alternate path is loaded, and the QP has not come to it yet.
const HAS_ALTERNATE: u8 = 1 << 7;
const LOW_24: u32 = 0xff_ffff;
const FLOW_LABEL: u32 = 0xf_ffff;
const SL_SHIFT: u32 = 20;
const IS_GLOBAL: u32 = 1 << 24;
/// The path is set: of the QP's port.
const HAS_PATH: u32 = 1 << 25;
const PATH: u32 = 0x3ff_ffff;
const MAX_RD_SHIFT: u32 = 26;
const MTU_SHIFT: u8 = 4;
/// Of qp_access_flags RELAXED_ORDERING and NO_CREDITS, as far apart there.
const ORDER: u8 = ((access::RELAXED_ORDERING | access::NO_CREDITS) >> ORDER_SHIFT) as u8;
const ORDER_SHIFT: u32 = access::RELAXED_ORDERING.trailing_zeros() - 3;
const ACCESS: u8 = 15;
/// Of qp_access_flags FLUSH_GLOBAL, as far apart there.
const FLUSH: u8 = 1 << 7;
const FLUSH_SHIFT: u32 = access::FLUSH_GLOBAL.trailing_zeros() - 7;
const PORT_SHIFT: u8 = 4;
const PORT: u8 = 3 << PORT_SHIFT;
const SQ_DRAINING: u8 = 1 << 6;
const NOTIFIES: u8 = 1 << 7;

const fn with_low(word: u32, value: u32) -> u32 {
    word & !LOW_24 | value & LOW_24
}

const fn with_high(word: u32, value: u8) -> u32 {
    word & LOW_24 | (value as u32) << 24
}

impl Attrs {
    /// Those of a QP in RESET.
    pub const fn new() -> Self {
        Self {
            qkey: 0,
            rate_limit: 0,
            rq: 0,
            sq: 0,
            dest: 0,
            flow: 0,
            dgid: [0; 16],
            dmac: [0; 6],
            dlid: 0,
            udp_src_port: 0,
            hop_limit: 0,
            traffic_class: 0,
            sgid_index: 0,
            src_path_bits: 0,
            static_rate: 0,
            state: 0,
            access: 0,
            pkey_index: 0,
            max_dest_rd_atomic: 0,
        }
    }

    pub fn qp_state(&self) -> u8 {
        self.state & 7
    }

    pub fn set_qp_state(&mut self, state: QpState) {
        self.state = self.state & !7 | u8::from(state) & 7;
    }

    pub fn path_mtu(&self) -> u8 {
        self.state >> MTU_SHIFT & 7
    }

    pub fn set_path_mtu(&mut self, mtu: u8) {
        self.state = self.state & (7 | ORDER) | mtu << MTU_SHIFT;
    }

    /// Below 16, FLUSH_GLOBAL, RELAXED_ORDERING and NO_CREDITS.
    pub fn qp_access_flags(&self) -> u32 {
        u32::from(self.access & ACCESS)
            | u32::from(self.pkey_index & FLUSH) << FLUSH_SHIFT
            | u32::from(self.state & ORDER) << ORDER_SHIFT
    }

    pub fn set_qp_access_flags(&mut self, flags: u32) {
        self.access = self.access & !ACCESS | flags as u8 & ACCESS;
        self.pkey_index = self.pkey_index & !FLUSH | (flags >> FLUSH_SHIFT) as u8 & FLUSH;
        self.state = self.state & !ORDER | (flags >> ORDER_SHIFT) as u8 & ORDER;
    }

    pub fn port_num(&self) -> u8 {
        (self.access & PORT) >> PORT_SHIFT
    }

    pub fn set_port_num(&mut self, port_num: u8) {
        self.access = self.access & !PORT | port_num << PORT_SHIFT & PORT;
    }

    pub fn sq_draining(&self) -> bool {
        self.access & SQ_DRAINING != 0
    }

    pub fn set_sq_draining(&mut self, drains: bool) {
        self.access = self.access & !SQ_DRAINING | if drains { SQ_DRAINING } else { 0 };
    }

    pub fn en_sqd_async_notify(&self) -> bool {
        self.access & NOTIFIES != 0
    }

    pub fn set_en_sqd_async_notify(&mut self, notifies: bool) {
        self.access = self.access & !NOTIFIES | if notifies { NOTIFIES } else { 0 };
    }

    pub fn pkey_index(&self) -> u8 {
        self.pkey_index & !FLUSH
    }

    pub fn set_pkey_index(&mut self, index: u8) {
        self.pkey_index = self.pkey_index & FLUSH | index & !FLUSH;
    }

    pub fn qkey(&self) -> u32 {
        self.qkey
    }

    pub fn set_qkey(&mut self, qkey: u32) {
        self.qkey = qkey;
    }

    pub fn rate_limit(&self) -> u32 {
        self.rate_limit
    }

    pub fn set_rate_limit(&mut self, kbps: u32) {
        self.rate_limit = kbps;
    }

    pub fn rq_psn(&self) -> u32 {
        self.rq & LOW_24
    }

    pub fn set_rq_psn(&mut self, psn: u32) {
        self.rq = with_low(self.rq, psn);
    }

    pub fn min_rnr_timer(&self) -> u8 {
        (self.rq >> 24) as u8
    }

    pub fn set_min_rnr_timer(&mut self, code: u8) {
        self.rq = with_high(self.rq, code);
    }

    pub fn sq_psn(&self) -> u32 {
        self.sq & LOW_24
    }

    pub fn set_sq_psn(&mut self, psn: u32) {
        self.sq = with_low(self.sq, psn);
    }

    pub fn timeout(&self) -> u8 {
        (self.sq >> 24) as u8
    }

    pub fn set_timeout(&mut self, code: u8) {
        self.sq = with_high(self.sq, code);
    }

    pub fn dest_qp_num(&self) -> u32 {
        self.dest & LOW_24
    }

    pub fn set_dest_qp_num(&mut self, qpn: u32) {
        self.dest = with_low(self.dest, qpn);
    }

    pub fn retry_cnt(&self) -> u8 {
        (self.dest >> 24) as u8 & 7
    }

    pub fn rnr_retry(&self) -> u8 {
        (self.dest >> 28) as u8 & 7
    }

    pub fn set_retry_cnt(&mut self, count: u8) {
        self.dest = with_high(self.dest, self.rnr_retry() << 4 | count & 7);
    }

    pub fn set_rnr_retry(&mut self, count: u8) {
        self.dest = with_high(self.dest, count << 4 | self.retry_cnt());
    }

    pub fn max_rd_atomic(&self) -> u8 {
        (self.flow >> MAX_RD_SHIFT) as u8
    }

    pub fn set_max_rd_atomic(&mut self, count: u8) {
        self.flow = self.flow & PATH | u32::from(count) << MAX_RD_SHIFT;
    }

    pub fn max_dest_rd_atomic(&self) -> u8 {
        self.max_dest_rd_atomic & MAX_DEST_RD
    }

    pub fn set_max_dest_rd_atomic(&mut self, count: u8) {
        self.max_dest_rd_atomic = self.max_dest_rd_atomic & !MAX_DEST_RD | count;
    }

    pub fn migration(&self) -> Migration {
        match self.max_dest_rd_atomic >> MIGRATION_SHIFT & 3 {
            0 => Migration::Migrated,
            1 => Migration::Rearm,
            2 => Migration::Armed,
            _ => Migration::ArmedTold,
        }
    }

    pub fn has_alternate(&self) -> bool {
        self.max_dest_rd_atomic & HAS_ALTERNATE != 0
    }

    pub fn set_migration(&mut self, state: Migration, has_alternate: bool) {
        let alternate = if has_alternate { HAS_ALTERNATE } else { 0 };
        self.max_dest_rd_atomic =
            self.max_dest_rd_atomic & MAX_DEST_RD | (state as u8) << MIGRATION_SHIFT | alternate;
    }

    /// path_mig_state.
    pub fn path_mig_state(&self) -> u8 {
        (self.migration() as u8).min(Migration::Armed as u8)
    }

    pub fn udp_src_port(&self) -> u16 {
        self.udp_src_port
    }

    pub fn set_udp_src_port(&mut self, port: u16) {
        self.udp_src_port = port;
    }
}

/// The path.
impl Attrs {
    pub fn has_path(&self) -> bool {
        self.flow & HAS_PATH != 0
    }

    pub fn is_global(&self) -> bool {
        self.flow & IS_GLOBAL != 0
    }

    pub fn flow_label(&self) -> u32 {
        self.flow & FLOW_LABEL
    }

    pub fn sl(&self) -> u8 {
        (self.flow >> SL_SHIFT) as u8 & 15
    }

    pub fn dgid(&self) -> [u8; 16] {
        self.dgid
    }

    pub fn dmac(&self) -> [u8; 6] {
        self.dmac
    }

    pub fn set_dmac(&mut self, mac: [u8; 6]) {
        self.dmac = mac;
    }

    pub fn dlid(&self) -> u16 {
        self.dlid
    }

    pub fn hop_limit(&self) -> u8 {
        self.hop_limit
    }

    pub fn traffic_class(&self) -> u8 {
        self.traffic_class
    }

    pub fn sgid_index(&self) -> u8 {
        self.sgid_index
    }

    pub fn src_path_bits(&self) -> u8 {
        self.src_path_bits
    }

    pub fn static_rate(&self) -> u8 {
        self.static_rate
    }

    /// One through the QP's own port.
    pub fn set_path(&mut self, ah: &AhAttr) {
        let is_global = if ah.is_global() { IS_GLOBAL } else { 0 };
        let path = ah.flow_label() & FLOW_LABEL | u32::from(ah.sl() & 15) << SL_SHIFT | is_global | HAS_PATH;
        self.flow = self.flow & !PATH | path;
        self.dgid = ah.dgid();
        self.dmac = ah.dmac();
        self.dlid = ah.dlid();
        self.hop_limit = ah.hop_limit();
        self.traffic_class = ah.traffic_class();
        self.sgid_index = ah.sgid_index();
        self.src_path_bits = ah.src_path_bits();
        self.static_rate = ah.static_rate();
    }

    fn path(&self) -> AhAttr {
        let mut ah = AhAttr::new();
        if self.has_path() {
            ah.set_dgid(self.dgid);
            ah.set_flow_label(self.flow_label());
            ah.set_sgid_index(self.sgid_index);
            ah.set_hop_limit(self.hop_limit);
            ah.set_traffic_class(self.traffic_class);
            ah.set_is_global(self.is_global());
            ah.set_dlid(self.dlid);
            ah.set_sl(self.sl());
            ah.set_src_path_bits(self.src_path_bits);
            ah.set_static_rate(self.static_rate);
            ah.set_port_num(self.port_num());
            ah.set_dmac(self.dmac);
        }
        ah
    }

    /// As QUERY_QP tells them.
    pub fn to_body(self) -> QpAttr {
        let mut attr = QpAttr::new();
        attr.set_qp_state(self.qp_state());
        attr.set_cur_qp_state(self.qp_state());
        attr.set_path_mtu(self.path_mtu());
        attr.set_qkey(self.qkey);
        attr.set_rq_psn(self.rq_psn());
        attr.set_sq_psn(self.sq_psn());
        attr.set_dest_qp_num(self.dest_qp_num());
        attr.set_qp_access_flags(self.qp_access_flags());
        attr.set_ah_attr(self.path().0);
        attr.set_pkey_index(self.pkey_index().into());
        attr.set_en_sqd_async_notify(self.en_sqd_async_notify());
        attr.set_sq_draining(self.sq_draining());
        attr.set_max_rd_atomic(self.max_rd_atomic());
        attr.set_max_dest_rd_atomic(self.max_dest_rd_atomic());
        attr.set_path_mig_state(self.path_mig_state());
        attr.set_min_rnr_timer(self.min_rnr_timer());
        attr.set_port_num(self.port_num());
        attr.set_timeout(self.timeout());
        attr.set_retry_cnt(self.retry_cnt());
        attr.set_rnr_retry(self.rnr_retry());
        attr.set_udp_src_port(self.udp_src_port);
        attr.set_rate_limit(self.rate_limit);
        attr
    }
}

/// A queue pair.
#[derive(Clone, Copy)]
pub(crate) struct QpRec {
    pub made: Made,
    pub attr: Attrs,
    /// Rate group, 0: none.
    pub rate_group: u8,
    /// LAST_WQE_REACHED.
    pub last_wqe: LastWqe,
    /// QPs that have had this line before; outlives the QP.
    pub generation: u16,
}

impl QpRec {
    pub const fn new() -> Self {
        Self {
            made: Made::new(),
            attr: Attrs::new(),
            rate_group: 0,
            last_wqe: LastWqe::No,
            generation: 0,
        }
    }

    /// State of the QP.
    pub fn state(&self) -> QpState {
        QpState::try_from(self.attr.qp_state()).unwrap_or(QpState::Err)
    }

    pub fn service(&self) -> Service {
        Service::try_from(self.made.service()).unwrap_or(Service::Rc)
    }

    /// It is QP0 or QP1 of its port.
    pub fn is_management(&self) -> bool {
        self.made.is_gsi() || self.made.is_smi()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Nothing that is set changes another field, at the limits of each.
    #[test]
    fn attributes_are_told_as_they_were_set() {
        let mut ah = AhAttr::new();
        ah.0 = core::array::from_fn(|at| at as u8 ^ 0xa5);
        let mut ah = ah.without_reserved();
        ah.set_port_num(2);
        let mut attr = Attrs::new();
        assert_eq!(attr.to_body(), QpAttr::new());
        attr.set_port_num(2);
        attr.set_path(&ah);
        attr.set_qp_state(QpState::Err);
        attr.set_path_mtu(5);
        attr.set_qkey(0x8001_0000);
        attr.set_rate_limit(99_999_999);
        attr.set_qp_access_flags(15 | access::NO_CREDITS | access::FLUSH_GLOBAL);
        attr.set_pkey_index(31);
        attr.set_migration(Migration::ArmedTold, true);
        attr.set_max_dest_rd_atomic(16);
        attr.set_udp_src_port(0xc123);
        attr.set_sq_draining(true);
        attr.set_en_sqd_async_notify(true);
        for round in [0, 1] {
            // In both orders: upper bytes before and after the lower ones.
            if round == 0 {
                attr.set_rq_psn(LOW_24);
                attr.set_sq_psn(0x12_3456);
                attr.set_dest_qp_num(0x80_0001);
            }
            attr.set_min_rnr_timer(31);
            attr.set_timeout(30);
            attr.set_retry_cnt(6);
            attr.set_rnr_retry(7);
            attr.set_max_rd_atomic(16);
            attr.set_rq_psn(0x65_4321);
            attr.set_sq_psn(LOW_24 - round);
            attr.set_dest_qp_num(3);
        }
        let told = attr.to_body();
        assert_eq!(AhAttr::read_from(&told.ah_attr()), Some(ah));
        assert_eq!((told.qp_state(), told.cur_qp_state(), told.path_mtu()), (6, 6, 5));
        assert_eq!(
            (told.rq_psn(), told.sq_psn(), told.dest_qp_num()),
            (0x65_4321, LOW_24 - 1, 3)
        );
        assert_eq!((told.min_rnr_timer(), told.timeout()), (31, 30));
        assert_eq!((told.retry_cnt(), told.rnr_retry()), (6, 7));
        assert_eq!((told.max_rd_atomic(), told.max_dest_rd_atomic()), (16, 16));
        assert_eq!(
            (told.qkey(), told.rate_limit(), told.udp_src_port()),
            (0x8001_0000, 99_999_999, 0xc123)
        );
        assert_eq!(
            (told.qp_access_flags(), told.pkey_index(), told.port_num()),
            (15 | access::NO_CREDITS | access::FLUSH_GLOBAL, 31, 2)
        );
        assert!(attr.has_alternate() && told.path_mig_state() == 2);
        attr.set_migration(Migration::Rearm, false);
        assert_eq!(
            (attr.to_body().path_mig_state(), attr.max_dest_rd_atomic()),
            (1, 16)
        );
        assert!(!attr.has_alternate());
        assert!(told.sq_draining() && told.en_sqd_async_notify());
    }
}
