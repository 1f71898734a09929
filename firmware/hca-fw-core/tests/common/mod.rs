//! A client of one function that does not wait: it fills its admin ring and looks for answers.
#![allow(dead_code, reason = "each test file uses a part of it")]

use std::ops::Range;

use hca_abi::{ADMIN_DOORBELL_OFFSET, AdminDoorbell};
use hca_abi::{
    AdminCmd, AdminCpl, AdminOpcode, AdminStatus, AhAttr, CreateCqCmd, CreateEqCmd, CreateQpCmd, CtxTable,
    DOORBELL_PAGE_OFFSET, HandleCmd, HandleResult, ModifyMrCmd, ModifyQpCmd, Mpt, QpAttr, QpState,
    QueryDeviceResult, RegMrCmd, ResizeCqCmd, SetKeyTableCmd, access, qp_attr,
};
use hca_dev::{Device, DmaBuf};
use hca_fw_core::{NUM_CQS, NUM_EQS, NUM_PDS, NUM_QPS, Quotas, SHARING_FUNCS};
use hca_lone::LoneCard;
use hca_regs as reg;

const LOG_SIZE: u8 = 10;
const OWNER_OFFSET: usize = 252;
const LIST_PAGES: usize = 16_384;
const RING_BYTES: usize = 1 << 16;
/// log2 of the rows of a client's key table.
const LOG_KEYS: u8 = 8;
/// log2 of the entries of every CQ and EQ.
const QUEUE_LOG_SIZE: u8 = 4;

/// What QUERY_DEVICE allows.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    pub qps: u32,
    pub cqs: u32,
    pub mrs: u32,
    pub pds: u32,
    pub eqs: u32,
}

/// Objects of a function.
#[derive(Debug, Default)]
pub struct Made {
    pub pds: Vec<u32>,
    pub eqs: Vec<u32>,
    pub cqs: Vec<u32>,
    pub qps: Vec<u32>,
    pub keys: Vec<u32>,
}

pub struct Client {
    dev: LoneCard,
    func: u8,
    quotas: Quotas,
    commands: DmaBuf,
    completions: DmaBuf,
    ring: DmaBuf,
    list: DmaBuf,
    keys: DmaBuf,
    next: u16,
    /// Row of the next key.
    row: u32,
}

impl Client {
    /// Function `func` of the card, reset and enabled.
    pub fn open(dev: &LoneCard, func: u8) -> Self {
        Self::open_of(dev, func, SHARING_FUNCS.into())
    }

    /// The same of a card whose tables are divided so.
    pub fn open_of(dev: &LoneCard, func: u8, quotas: Quotas) -> Self {
        let dev = dev.function(func);
        let alloc = |bytes| dev.alloc_dma(bytes).unwrap();
        let ring_bytes = AdminCmd::BYTES << LOG_SIZE;
        let mut client = Self {
            func,
            quotas,
            commands: alloc(ring_bytes),
            completions: alloc(ring_bytes),
            ring: alloc(RING_BYTES),
            list: alloc(LIST_PAGES * 8),
            keys: alloc(Mpt::BYTES << LOG_KEYS),
            next: 0,
            row: 0,
            dev,
        };
        client.request_reset();
        client.dev.settle();
        assert!(!client.is_resetting());
        let dev = &client.dev;
        for (lo, hi, ring) in [
            (
                reg::FUNC_ADMIN_SQ_BASE_LO,
                reg::FUNC_ADMIN_SQ_BASE_HI,
                &client.commands,
            ),
            (
                reg::FUNC_ADMIN_CQ_BASE_LO,
                reg::FUNC_ADMIN_CQ_BASE_HI,
                &client.completions,
            ),
        ] {
            dev.mmio_write32(lo, ring.iova() as u32);
            dev.mmio_write32(hi, (ring.iova() >> 32) as u32);
        }
        dev.mmio_write32(reg::FUNC_ADMIN_LOG_SIZE, LOG_SIZE.into());
        dev.mmio_write32(reg::FUNC_CONTROL, reg::FUNC_CONTROL_ENABLE_MASK);
        dev.settle();
        client.set_key_table(client.keys.iova(), LOG_KEYS).unwrap();
        client
    }

    pub fn func(&self) -> u8 {
        self.func
    }

    pub fn set_key_table(&mut self, base: u64, log_size: u8) -> Result<AdminCpl, AdminStatus> {
        let mut cmd = SetKeyTableCmd::new();
        cmd.set_base(base);
        cmd.set_log_size(log_size);
        self.call(AdminOpcode::SetKeyTable, cmd.as_bytes())
    }

    pub fn request_reset(&self) {
        self.dev
            .mmio_write32(reg::FUNC_CONTROL, reg::FUNC_CONTROL_RESET_MASK);
    }

    pub fn disable(&self) {
        self.dev.mmio_write32(reg::FUNC_CONTROL, 0);
    }

    pub fn is_resetting(&self) -> bool {
        self.dev.mmio_read32(reg::FUNC_CONTROL) & reg::FUNC_CONTROL_RESET_MASK != 0
    }

    /// Announces a command; its index.
    pub fn post_raw(&mut self, opcode: u8, body: &[u8]) -> u16 {
        let index = self.next;
        let mut cmd = AdminCmd::new();
        cmd.set_opcode(opcode);
        cmd.set_command_id(index);
        let mut padded = [0; 248];
        padded[..body.len()].copy_from_slice(body);
        cmd.set_body(padded);
        self.commands.write_bytes(self.offset(index), cmd.as_bytes());
        self.next = index.wrapping_add(1);
        let mut doorbell = AdminDoorbell::new();
        doorbell.set_producer_index(self.next);
        self.dev
            .mmio_write64(DOORBELL_PAGE_OFFSET + ADMIN_DOORBELL_OFFSET, doorbell.to_word());
        index
    }

    pub fn post(&mut self, opcode: AdminOpcode, body: &[u8]) -> u16 {
        self.post_raw(opcode.into(), body)
    }

    fn offset(&self, index: u16) -> usize {
        (usize::from(index) & ((1 << LOG_SIZE) - 1)) * AdminCmd::BYTES
    }

    /// The answer, if it is there.
    pub fn answer(&self, index: u16) -> Option<AdminCpl> {
        let mut cpl = AdminCpl::new();
        self.completions.read_bytes(self.offset(index), &mut cpl.0);
        let phase = index >> LOG_SIZE & 1 == 0;
        assert_eq!(u8::from(cpl.phase()), cpl.0[OWNER_OFFSET]);
        (cpl.phase() == phase).then(|| {
            assert_eq!(cpl.command_id(), index);
            cpl
        })
    }

    /// A command and its answer.
    pub fn call(&mut self, opcode: AdminOpcode, body: &[u8]) -> Result<AdminCpl, AdminStatus> {
        let index = self.post(opcode, body);
        loop {
            if let Some(cpl) = self.answer(index) {
                return match AdminStatus::try_from(cpl.status()).unwrap() {
                    AdminStatus::Ok => Ok(cpl),
                    status => Err(status),
                };
            }
            assert!(
                self.dev.turn(),
                "{opcode:?} is not answered, and nothing is to be done"
            );
        }
    }

    fn make(&mut self, opcode: AdminOpcode, body: &[u8]) -> Result<u32, AdminStatus> {
        self.call(opcode, body)
            .map(|cpl| HandleResult(cpl.body()).handle())
    }

    pub fn limits(&mut self) -> Limits {
        let d = QueryDeviceResult(self.call(AdminOpcode::QueryDevice, &[]).unwrap().body());
        Limits {
            qps: d.max_qp(),
            cqs: d.max_cq(),
            mrs: d.max_mr().min((1 << LOG_KEYS) - 1),
            pds: d.max_pd(),
            eqs: d.max_eq(),
        }
    }

    pub fn post_handle(&mut self, opcode: AdminOpcode, handle: u32) -> u16 {
        let mut cmd = HandleCmd::new();
        cmd.set_handle(handle);
        self.post(opcode, cmd.as_bytes())
    }

    pub fn destroy(&mut self, opcode: AdminOpcode, handle: u32) -> Result<AdminCpl, AdminStatus> {
        let mut cmd = HandleCmd::new();
        cmd.set_handle(handle);
        self.call(opcode, cmd.as_bytes())
    }

    pub fn alloc_pd(&mut self) -> u32 {
        self.make(AdminOpcode::AllocPd, &[]).unwrap()
    }

    pub fn create_eq(&mut self) -> Result<u32, AdminStatus> {
        let mut cmd = CreateEqCmd::new();
        cmd.set_base(self.ring.iova());
        cmd.set_log_size(QUEUE_LOG_SIZE);
        self.make(AdminOpcode::CreateEq, cmd.as_bytes())
    }

    fn create_cq(&mut self, eqn: u32) -> Result<u32, AdminStatus> {
        let mut cmd = CreateCqCmd::new();
        cmd.set_base(self.ring.iova());
        cmd.set_log_size(QUEUE_LOG_SIZE);
        cmd.set_eqn(eqn as u8);
        self.make(AdminOpcode::CreateCq, cmd.as_bytes())
    }

    fn qp_cmd(&self, made: &Made) -> CreateQpCmd {
        let mut cmd = CreateQpCmd::new();
        cmd.set_pd(made.pds[0]);
        cmd.set_send_cqn(made.cqs[0]);
        cmd.set_recv_cqn(made.cqs[0]);
        cmd.set_async_eqn(made.eqs[0] as u8);
        cmd.set_sq_base(self.ring.iova());
        cmd.set_rq_base(self.ring.iova());
        cmd
    }

    pub fn post_create_qp(&mut self, made: &Made) -> u16 {
        let cmd = self.qp_cmd(made);
        self.post(AdminOpcode::CreateQp, cmd.as_bytes())
    }

    fn create_qp(&mut self, made: &Made) -> Result<u32, AdminStatus> {
        let cmd = self.qp_cmd(made);
        self.make(AdminOpcode::CreateQp, cmd.as_bytes())
    }

    fn reg_cmd(&mut self, pd: u32, pages: u32) -> RegMrCmd {
        self.row = self.row % ((1 << LOG_KEYS) - 1) + 1;
        let mut cmd = RegMrCmd::new();
        cmd.set_row(self.row);
        cmd.set_pd(pd);
        cmd.set_access(access::LOCAL_WRITE);
        cmd.set_length(u64::from(pages) << 12);
        cmd.set_num_pages(pages);
        cmd.set_page_shift(12);
        cmd.set_page_list_addr(self.list.iova());
        cmd
    }

    pub fn post_reg_mr(&mut self, pd: u32, pages: u32) -> u16 {
        let cmd = self.reg_cmd(pd, pages);
        self.post(AdminOpcode::RegMr, cmd.as_bytes())
    }

    pub fn reg_mr(&mut self, pd: u32, pages: u32) -> Result<u32, AdminStatus> {
        let cmd = self.reg_cmd(pd, pages);
        self.make(AdminOpcode::RegMr, cmd.as_bytes())
    }

    pub fn post_modify_mr(&mut self, lkey: u32, pd: u32) -> u16 {
        let mut cmd = ModifyMrCmd::new();
        cmd.set_lkey(lkey);
        cmd.set_pd(pd);
        self.post(AdminOpcode::ModifyMr, cmd.as_bytes())
    }

    pub fn post_resize_cq(&mut self, cqn: u32) -> u16 {
        let mut cmd = ResizeCqCmd::new();
        cmd.set_cqn(cqn);
        cmd.set_base(self.ring.iova());
        cmd.set_log_size(QUEUE_LOG_SIZE + 1);
        self.post(AdminOpcode::ResizeCq, cmd.as_bytes())
    }

    fn modify_cmd(qpn: u32, state: QpState, mask: u32, mut attr: QpAttr) -> ModifyQpCmd {
        attr.set_qp_state(state.into());
        let mut cmd = ModifyQpCmd::new();
        cmd.set_qpn(qpn);
        cmd.set_attr_mask(mask | qp_attr::STATE);
        cmd.set_attr(attr.0);
        cmd
    }

    pub fn post_modify_to_reset(&mut self, qpn: u32) -> u16 {
        let cmd = Self::modify_cmd(qpn, QpState::Reset, 0, QpAttr::new());
        self.post(AdminOpcode::ModifyQp, cmd.as_bytes())
    }

    pub fn bring_to_rts(&mut self, qpn: u32) {
        use qp_attr::*;
        let mut attr = QpAttr::new();
        attr.set_port_num(1);
        attr.set_path_mtu(3);
        attr.set_dest_qp_num(77);
        let mut ah = AhAttr::new();
        ah.set_port_num(1);
        ah.set_is_global(true);
        ah.set_dmac([2, 0, 0, 0, 0, 9]);
        ah.set_dgid([9; 16]);
        attr.set_ah_attr(ah.0);
        let connect = AV | PATH_MTU | DEST_QPN | RQ_PSN | MAX_DEST_RD_ATOMIC | MIN_RNR_TIMER;
        let send = SQ_PSN | TIMEOUT | RETRY_CNT | RNR_RETRY | MAX_QP_RD_ATOMIC;
        for (state, mask) in [
            (QpState::Init, PKEY_INDEX | PORT | ACCESS_FLAGS),
            (QpState::Rtr, connect),
            (QpState::Rts, send),
        ] {
            let cmd = Self::modify_cmd(qpn, state, mask, attr);
            self.call(AdminOpcode::ModifyQp, cmd.as_bytes()).unwrap();
        }
    }

    /// A few objects of each kind, two of the QPs at work.
    pub fn make_some(&mut self) -> Made {
        let mut made = Made {
            pds: vec![self.alloc_pd()],
            ..Made::default()
        };
        made.eqs = vec![self.create_eq().unwrap()];
        made.cqs = (0..2).map(|_| self.create_cq(made.eqs[0]).unwrap()).collect();
        made.keys = (1..4)
            .map(|pages| self.reg_mr(made.pds[0], 40 * pages).unwrap())
            .collect();
        made.qps = (0..5).map(|_| self.create_qp(&made).unwrap()).collect();
        for at in 0..2 {
            self.bring_to_rts(made.qps[at]);
        }
        made
    }

    /// Writes a key that was given back into its row again, which is the client's own memory.
    pub fn forge(&self, key: u32, change: impl FnOnce(&mut Mpt)) {
        let at = ((key >> 8) & ((1 << LOG_KEYS) - 1)) as usize * Mpt::BYTES;
        let mut row = Mpt::new();
        self.keys.read_bytes(at, &mut row.0);
        row.set_valid(true);
        change(&mut row);
        self.keys.write_bytes(at, row.as_bytes());
    }

    pub fn destroy_all(&mut self, made: Made) {
        for (opcode, handles) in [
            (AdminOpcode::DestroyQp, made.qps),
            (AdminOpcode::DeregMr, made.keys),
            (AdminOpcode::DestroyCq, made.cqs),
            (AdminOpcode::DestroyEq, made.eqs),
            (AdminOpcode::DeallocPd, made.pds),
        ] {
            for handle in handles {
                self.destroy(opcode, handle).unwrap();
            }
        }
    }

    /// All that the limits allow.
    pub fn take_everything(&mut self, limits: &Limits) -> Made {
        let mut made = Made::default();
        made.pds.extend((0..limits.pds).map(|_| self.alloc_pd()));
        made.eqs
            .extend((0..limits.eqs).map(|_| self.create_eq().unwrap()));
        made.cqs
            .extend((0..limits.cqs).map(|_| self.create_cq(made.eqs[0]).unwrap()));
        made.keys
            .extend((0..limits.mrs).map(|_| self.reg_mr(made.pds[0], 1).unwrap()));
        for _ in 0..limits.qps {
            let qpn = self.create_qp(&made).unwrap();
            made.qps.push(qpn);
        }
        made
    }

    /// Not one more of anything.
    pub fn nothing_is_left(&mut self) {
        let none = Err(AdminStatus::NoResources);
        assert_eq!(self.make(AdminOpcode::AllocPd, &[]), none);
        assert_eq!(self.create_eq(), none);
        // Queues and domains that are the function's own.
        let first = |client: &Self, table| client.share(table).start;
        let (pd, cqn) = (self.part_of(NUM_PDS).start + 1, first(self, CtxTable::Cqc));
        let eqn = first(self, CtxTable::Eqc);
        assert_eq!(self.create_cq(eqn), none);
        let made = Made {
            pds: vec![pd],
            cqs: vec![cqn],
            eqs: vec![eqn],
            ..Made::default()
        };
        assert_eq!(self.create_qp(&made), none);
        assert_eq!(self.reg_mr(pd, 1), Err(AdminStatus::InUse));
    }

    /// The function's numbers of a table.
    fn share(&self, table: CtxTable) -> Range<u32> {
        match table {
            CtxTable::KeyTable => u32::from(self.func)..u32::from(self.func) + 1,
            CtxTable::Eqc => self.part_of(NUM_EQS),
            CtxTable::Cqc => self.part_of(NUM_CQS),
            _ => self.part_of(NUM_QPS),
        }
    }

    /// The function's part of so many.
    fn part_of(&self, all: usize) -> Range<u32> {
        let (own, each) = (self.quotas.of(self.func), all as u32 / self.quotas.parts());
        own.start * each..own.end * each
    }

    /// Rows of the function that hardware takes for valid.
    pub fn valid_rows(&self, dev: &LoneCard, table: CtxTable) -> usize {
        // A QP that is not in RESET; of the others bit 0.
        let mask = if table == CtxTable::Qpc { 7 } else { 1 };
        let rows = self.share(table);
        dev.with_card(|card| rows.filter(|row| card.row(table, *row)[0] & mask != 0).count())
    }

    /// Everything that the hardware was told for the function, and the rows of its keys.
    pub fn rows(&self, dev: &LoneCard) -> Vec<[u8; 256]> {
        let all: Vec<_> = [CtxTable::KeyTable, CtxTable::Cqc, CtxTable::Eqc, CtxTable::Qpc]
            .iter()
            .flat_map(|table| self.share(*table).map(|row| (*table, row)))
            .collect();
        let length = |table| match table {
            CtxTable::Qpc => 256,
            _ => 64,
        };
        dev.with_card(|card| {
            let row = |(table, row)| {
                let mut bytes = card.row(table, row);
                // The port's register is wider than the row.
                bytes[length(table)..].fill(0);
                bytes
            };
            let keys = (0..1 << LOG_KEYS).map(|row| {
                let mut bytes = [0; 256];
                self.keys.read_bytes(row * Mpt::BYTES, &mut bytes[..Mpt::BYTES]);
                bytes
            });
            all.into_iter().map(row).chain(keys).collect()
        })
    }
}
