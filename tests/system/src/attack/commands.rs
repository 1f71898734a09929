//! Admin commands as a client means them, and the ways to spoil them.

use std::collections::BTreeMap;

use hca_abi::table::FieldValue;
use hca_abi::{
    AdminOpcode, AhAttr, CongestionCmd, CreateCqCmd, CreateEqCmd, CreateQpCmd, CreateSrqCmd,
    DIRECT_PAGE_SHIFT, HandleCmd, MIN_PAGE_SHIFT, MIN_WQE_STRIDE_BYTES, ModifyCqCmd, ModifyMrCmd,
    ModifyPortCmd, ModifyQpCmd, ModifySrqCmd, Mtu, NULL_PAGES, QpAttr, QpState, QueryEntryCmd, QueryLldpCmd,
    QueryPortCmd, QueryVlCountersCmd, RegMrCmd, ResizeCqCmd, SetGidCmd, SetKeyTableCmd, SetLinkCmd,
    SetNodeDescCmd, SetPkeyCmd, SetSl2vlCmd, StructDef, VlArbCmd, access, qp_attr,
};

use super::{Buffers, Target};
use crate::rng::Rng;

/// Body of a command.
pub type Body = [u8; 248];

/// Rights that a region may have.
const RIGHTS: u32 = access::LOCAL_WRITE | access::REMOTE_WRITE | access::REMOTE_READ;
const INIT: u32 = qp_attr::STATE | qp_attr::PKEY_INDEX | qp_attr::PORT | qp_attr::ACCESS_FLAGS;
const RTR: u32 = qp_attr::STATE
    | qp_attr::AV
    | qp_attr::PATH_MTU
    | qp_attr::DEST_QPN
    | qp_attr::RQ_PSN
    | qp_attr::MAX_DEST_RD_ATOMIC
    | qp_attr::MIN_RNR_TIMER;
const RTS: u32 = qp_attr::STATE
    | qp_attr::SQ_PSN
    | qp_attr::TIMEOUT
    | qp_attr::RETRY_CNT
    | qp_attr::RNR_RETRY
    | qp_attr::MAX_QP_RD_ATOMIC;

/// log2 of the rows of a client's key table.
const LOG_KEYS: u8 = 5;

/// What a client knows: numbers of objects that it has made, some of them gone by now.
#[derive(Debug, Default)]
pub struct Known {
    /// Protection domains.
    pub pds: Vec<u32>,
    /// Event queues.
    pub eqs: Vec<u32>,
    /// Completion queues.
    pub cqs: Vec<u32>,
    /// QPs.
    pub qps: Vec<u32>,
    /// Keys of regions.
    pub keys: Vec<u32>,
    /// There is a table for them.
    pub has_key_table: bool,
    /// QPs and the states that they were brought to.
    states: BTreeMap<u32, QpState>,
}

impl Known {
    /// What a command makes goes here.
    pub fn made(&mut self, opcode: AdminOpcode) -> Option<&mut Vec<u32>> {
        Some(match opcode {
            AdminOpcode::AllocPd => &mut self.pds,
            AdminOpcode::CreateEq => &mut self.eqs,
            AdminOpcode::CreateCq => &mut self.cqs,
            AdminOpcode::CreateQp => &mut self.qps,
            AdminOpcode::RegMr => &mut self.keys,
            _ => return None,
        })
    }

    /// A command was done.
    pub fn changed(&mut self, opcode: AdminOpcode, body: &Body) {
        self.has_key_table |= opcode == AdminOpcode::SetKeyTable;
        let cmd = ModifyQpCmd::read_from(body).unwrap_or_default();
        let attr = QpAttr::read_from(&cmd.attr()).unwrap_or_default();
        if let (AdminOpcode::ModifyQp, Ok(state)) = (opcode, QpState::try_from(attr.qp_state())) {
            self.states.insert(cmd.qpn(), state);
        }
    }

    /// The QP can send, as far as the client knows.
    pub fn can_send(&self, qpn: u32) -> bool {
        self.states.get(&qpn) == Some(&QpState::Rts)
    }

    /// The QP begins with its first work request again.
    pub fn is_new(&self, qpn: u32) -> bool {
        matches!(self.states.get(&qpn), Some(QpState::Reset | QpState::Init))
    }

    fn handle(&self, rng: &mut Rng, opcode: AdminOpcode) -> u32 {
        let of = match opcode {
            AdminOpcode::DeallocPd => &self.pds,
            AdminOpcode::DestroyEq => &self.eqs,
            AdminOpcode::DestroyCq => &self.cqs,
            AdminOpcode::DeregMr | AdminOpcode::QueryMr => &self.keys,
            _ => &self.qps,
        };
        one_of(rng, of)
    }
}

/// One of them, or a small number.
pub fn one_of(rng: &mut Rng, numbers: &[u32]) -> u32 {
    if numbers.is_empty() || rng.percent(2) {
        rng.below(64)
    } else {
        rng.pick(numbers)
    }
}

fn body<const N: usize>(bytes: &[u8; N]) -> Body {
    let mut body = [0; 248];
    body[..N].copy_from_slice(bytes);
    body
}

/// The table of a command's body.
fn table_of(opcode: AdminOpcode) -> &'static StructDef {
    match opcode {
        AdminOpcode::CreateEq => &CreateEqCmd::TABLE,
        AdminOpcode::CreateCq => &CreateCqCmd::TABLE,
        AdminOpcode::ResizeCq => &ResizeCqCmd::TABLE,
        AdminOpcode::ModifyCq => &ModifyCqCmd::TABLE,
        AdminOpcode::CreateQp => &CreateQpCmd::TABLE,
        AdminOpcode::ModifyQp => &ModifyQpCmd::TABLE,
        AdminOpcode::SetKeyTable => &SetKeyTableCmd::TABLE,
        AdminOpcode::RegMr => &RegMrCmd::TABLE,
        AdminOpcode::ModifyMr => &ModifyMrCmd::TABLE,
        AdminOpcode::CreateSrq => &CreateSrqCmd::TABLE,
        AdminOpcode::ModifySrq => &ModifySrqCmd::TABLE,
        AdminOpcode::ModifyPort => &ModifyPortCmd::TABLE,
        AdminOpcode::SetGid => &SetGidCmd::TABLE,
        AdminOpcode::SetPkey => &SetPkeyCmd::TABLE,
        AdminOpcode::SetNodeDesc => &SetNodeDescCmd::TABLE,
        AdminOpcode::SetLink => &SetLinkCmd::TABLE,
        AdminOpcode::SetVlArb | AdminOpcode::QueryVlArb => &VlArbCmd::TABLE,
        AdminOpcode::SetSl2vl => &SetSl2vlCmd::TABLE,
        AdminOpcode::QueryVlCounters => &QueryVlCountersCmd::TABLE,
        AdminOpcode::QueryGid | AdminOpcode::QueryPkey => &QueryEntryCmd::TABLE,
        AdminOpcode::QueryPort
        | AdminOpcode::QueryCounters
        | AdminOpcode::QueryLink
        | AdminOpcode::QueryLinkErrors
        | AdminOpcode::QueryCongestion
        | AdminOpcode::QueryPfcCounters => &QueryPortCmd::TABLE,
        AdminOpcode::QueryLldp => &QueryLldpCmd::TABLE,
        AdminOpcode::SetCongestion => &CongestionCmd::TABLE,
        _ => &HandleCmd::TABLE,
    }
}

/// A command that the card would do, if what it names is still there.
pub fn sound(rng: &mut Rng, opcode: AdminOpcode, known: &Known, buffers: &Buffers, target: &Target) -> Body {
    match opcode {
        AdminOpcode::CreateEq => {
            let mut cmd = CreateEqCmd::new();
            cmd.set_base(buffers.line(rng));
            cmd.set_log_size(rng.below(7) as u8);
            cmd.set_vector(rng.below(4) as u16);
            cmd.set_port_events(rng.percent(30));
            body(cmd.as_bytes())
        }
        AdminOpcode::CreateCq => {
            let mut cmd = CreateCqCmd::new();
            cmd.set_base(buffers.line(rng));
            cmd.set_log_size(rng.below(7) as u8);
            cmd.set_eqn(one_of(rng, &known.eqs) as u8);
            cmd.set_ignore_overrun(rng.percent(30));
            body(cmd.as_bytes())
        }
        AdminOpcode::ResizeCq => {
            let mut cmd = ResizeCqCmd::new();
            cmd.set_base(buffers.line(rng));
            cmd.set_log_size(rng.below(8) as u8);
            cmd.set_cqn(one_of(rng, &known.cqs) & 0xff_ffff);
            body(cmd.as_bytes())
        }
        AdminOpcode::ModifyCq => {
            let mut cmd = ModifyCqCmd::new();
            cmd.set_cqn(one_of(rng, &known.cqs) & 0xff_ffff);
            cmd.set_count(rng.below(4) as u16);
            cmd.set_period_us(rng.below(20) as u16);
            body(cmd.as_bytes())
        }
        AdminOpcode::CreateQp => body(create_qp(rng, known, buffers).as_bytes()),
        AdminOpcode::ModifyQp => body(modify_qp(rng, known, target).as_bytes()),
        AdminOpcode::SetKeyTable => {
            // Among what it writes over, and has the card write over: rows become what nobody would make of them.
            let mut cmd = SetKeyTableCmd::new();
            cmd.set_base(buffers.line(rng));
            cmd.set_log_size(LOG_KEYS);
            body(cmd.as_bytes())
        }
        AdminOpcode::RegMr => body(reg_mr(rng, known, buffers).as_bytes()),
        AdminOpcode::ModifyMr => {
            let mut cmd = ModifyMrCmd::new();
            cmd.set_lkey(one_of(rng, &known.keys));
            cmd.set_pd(one_of(rng, &known.pds) & 0xff_ffff);
            cmd.set_access(rng.u32() & RIGHTS);
            body(cmd.as_bytes())
        }
        AdminOpcode::QueryGid | AdminOpcode::QueryPkey => {
            let mut cmd = QueryEntryCmd::new();
            cmd.set_port_num(1);
            cmd.set_index(rng.below(4) as u16);
            body(cmd.as_bytes())
        }
        AdminOpcode::QueryPort
        | AdminOpcode::QueryCounters
        | AdminOpcode::QueryLink
        | AdminOpcode::QueryLinkErrors
        | AdminOpcode::QueryCongestion
        | AdminOpcode::QueryLldp
        | AdminOpcode::SetCongestion
        | AdminOpcode::QueryVlArb
        | AdminOpcode::QueryVlCounters
        | AdminOpcode::ModifyPort
        | AdminOpcode::SetGid
        | AdminOpcode::SetPkey
        | AdminOpcode::SetLink
        | AdminOpcode::SetVlArb
        | AdminOpcode::SetSl2vl => {
            // All of them begin with the port.
            let mut cmd = QueryPortCmd::new();
            cmd.set_port_num(1);
            body(cmd.as_bytes())
        }
        _ => {
            let mut cmd = HandleCmd::new();
            cmd.set_handle(known.handle(rng, opcode));
            body(cmd.as_bytes())
        }
    }
}

fn create_qp(rng: &mut Rng, known: &Known, buffers: &Buffers) -> CreateQpCmd {
    let mut cmd = CreateQpCmd::new();
    let stride = rng.pick(&[0, 0, 1, 3]);
    let log_size_max = 5 - u32::from(stride) / 2;
    cmd.set_sq_sig_all(rng.percent(50));
    cmd.set_sq_log_size(rng.between(0, log_size_max) as u8);
    cmd.set_sq_log_stride(stride);
    cmd.set_rq_log_size(rng.between(0, log_size_max) as u8);
    cmd.set_rq_log_stride(stride);
    cmd.set_pd(one_of(rng, &known.pds) & 0xff_ffff);
    cmd.set_send_cqn(one_of(rng, &known.cqs) & 0xff_ffff);
    cmd.set_recv_cqn(one_of(rng, &known.cqs) & 0xff_ffff);
    let align = u64::from(MIN_WQE_STRIDE_BYTES) << stride;
    cmd.set_sq_base(buffers.line(rng) & !(align - 1));
    cmd.set_rq_base(buffers.line(rng) & !(align - 1));
    cmd.set_async_eqn(one_of(rng, &known.eqs) as u8);
    cmd
}

fn modify_qp(rng: &mut Rng, known: &Known, target: &Target) -> ModifyQpCmd {
    let mut attr = QpAttr::new();
    let qpn = one_of(rng, &known.qps) & 0xff_ffff;
    let (state, mask) = match (known.states.get(&qpn), rng.below(12)) {
        (_, 9) => (QpState::Err, qp_attr::STATE),
        (_, 10) => (QpState::Reset, qp_attr::STATE),
        (_, 11) => (QpState::Sqd, qp_attr::STATE),
        (Some(QpState::Init), _) => (QpState::Rtr, RTR),
        (Some(QpState::Rtr), _) => (QpState::Rts, RTS),
        (Some(QpState::Rts | QpState::Sqd), _) => (QpState::Rts, qp_attr::STATE),
        (Some(QpState::Err | QpState::Sqe), _) => (QpState::Reset, qp_attr::STATE),
        (Some(QpState::Reset) | None, _) => (QpState::Init, INIT),
    };
    attr.set_qp_state(state.into());
    attr.set_port_num(1);
    attr.set_qp_access_flags(rng.u32() & RIGHTS);
    attr.set_path_mtu(rng.pick(Mtu::ALL).into());
    attr.set_dest_qp_num(target.qpn(rng));
    // Often the same, so that some connections stand.
    attr.set_rq_psn(if rng.percent(80) { 0 } else { rng.u32() & 0xff_ffff });
    attr.set_sq_psn(if rng.percent(80) { 0 } else { rng.u32() & 0xff_ffff });
    attr.set_max_rd_atomic(rng.below(17) as u8);
    attr.set_max_dest_rd_atomic(rng.below(17) as u8);
    attr.set_min_rnr_timer(rng.below(3) as u8 + 1);
    attr.set_timeout(rng.below(8) as u8);
    attr.set_retry_cnt(rng.below(8) as u8);
    attr.set_rnr_retry(rng.below(8) as u8);
    let mut ah = AhAttr::new();
    ah.set_port_num(1);
    ah.set_is_global(true);
    ah.set_sgid_index(1);
    ah.set_hop_limit(64);
    ah.set_traffic_class(rng.u32() as u8);
    ah.set_dgid(target.dgid);
    ah.set_dmac(target.dmac);
    ah.set_dlid(target.dlid);
    attr.set_ah_attr(ah.0);
    if rng.percent(20) {
        spoil(rng, &QpAttr::TABLE, &mut attr.0);
        // Not any QP at that address: the peer of some might have the attacker's own.
        attr.set_dest_qp_num(target.qpn(rng));
    }
    let mut cmd = ModifyQpCmd::new();
    cmd.set_qpn(qpn);
    cmd.set_attr_mask(mask);
    cmd.set_attr(attr.0);
    cmd
}

fn reg_mr(rng: &mut Rng, known: &Known, buffers: &Buffers) -> RegMrCmd {
    let mut cmd = RegMrCmd::new();
    cmd.set_row(rng.between(1, (1 << LOG_KEYS) - 1));
    let rights = rng.u32() & RIGHTS;
    let remote_write = rights & access::REMOTE_WRITE != 0;
    cmd.set_access(if remote_write {
        rights | access::LOCAL_WRITE
    } else {
        rights
    });
    cmd.set_pd(one_of(rng, &known.pds) & 0xff_ffff);
    if rng.percent(60) {
        let (start, len) = buffers.range(rng);
        cmd.set_start(start);
        cmd.set_iova(start);
        cmd.set_length(len);
        cmd.set_page_shift(DIRECT_PAGE_SHIFT as u8);
        if rng.percent(10) {
            cmd.set_is_null(true);
            cmd.set_access(access::LOCAL_WRITE);
            cmd.set_iova(start & !0xfff);
            cmd.set_length(u64::from(NULL_PAGES) << MIN_PAGE_SHIFT);
        }
    } else {
        // Whatever lies in that memory is the list: pages that are not there, or not on a page's bound.
        let pages = u64::from(rng.between(1, 64));
        cmd.set_start(u64::from(rng.u32()) << 12);
        cmd.set_length(pages << 12);
        cmd.set_page_list_addr(buffers.line(rng));
        cmd.set_num_pages(pages as u32);
        cmd.set_page_shift(12);
    }
    cmd
}

/// Spoils a command that was sound.
pub fn spoil_command(rng: &mut Rng, opcode: AdminOpcode, body: &mut Body) {
    spoil(rng, table_of(opcode), body);
    if opcode != AdminOpcode::ModifyQp {
        return;
    }
    // A QP that speaks to a stranger gets no other path: a function of the peer's card has the peer's addresses.
    let mut cmd = ModifyQpCmd::read_from(body).unwrap_or_default();
    if cmd.attr_mask() & qp_attr::AV != 0 {
        cmd.set_attr_mask(cmd.attr_mask() | qp_attr::DEST_QPN);
        body[..ModifyQpCmd::BYTES].copy_from_slice(cmd.as_bytes());
    }
}

/// Gives some fields of a structure values that they should not have.
pub fn spoil(rng: &mut Rng, table: &StructDef, bytes: &mut [u8]) {
    for _ in 0..rng.between(1, 3) {
        let field = rng.pick(table.fields);
        let (lsb, width) = (field.lsb() as usize, field.width as usize);
        if width > 64 {
            let range = lsb / 8..(lsb + width) / 8;
            let at = range.start + rng.below((range.end - range.start) as u32) as usize;
            bytes[at] ^= 1 << rng.below(8);
            continue;
        }
        let old = u64::load(bytes, lsb, width);
        let value = match rng.below(8) {
            0 => 0,
            1 => u64::MAX,
            2 => old.wrapping_add(1),
            3 => old.wrapping_sub(1),
            4 => old ^ 1 << rng.below(width as u32),
            5 => 1 << (width - 1),
            6 => u64::from(rng.below(16)),
            _ => u64::from(rng.u32()) << 32 | u64::from(rng.u32()),
        };
        (value & u64::MAX >> (64 - width)).store(bytes, lsb, width);
    }
}
