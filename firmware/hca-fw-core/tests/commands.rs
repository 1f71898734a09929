//! Commands through the admin ring of a lone card: what once went wrong, and limits.

use std::rc::Rc;

use hca_abi::{
    AdminStatus, Cqc, CreateCqCmd, CreateEqCmd, CreateQpCmd, CtxTable, EventKind, HwEventKind, ModifyCqCmd,
    ModifyMrCmd, RegMrCmd, ResizeCqCmd, access,
};
use hca_dev::{Device, DmaBuf};
use hca_driver::{AdminError, DriverError, Function, OpenOptions};
use hca_lone::LoneCard;

struct Rig {
    dev: Rc<LoneCard>,
    function: Function<Rc<LoneCard>>,
    ring: DmaBuf,
}

fn refusal<T: std::fmt::Debug>(result: Result<T, DriverError>) -> AdminError {
    match result {
        Err(DriverError::Admin(e)) => e,
        other => panic!("expected a refusal, got {other:?}"),
    }
}

impl Rig {
    fn new() -> Self {
        let dev = Rc::new(LoneCard::new());
        let function = Function::open(dev.clone(), &OpenOptions::simulated()).unwrap();
        let ring = dev.alloc_dma(1 << 16).unwrap();
        Self { dev, function, ring }
    }

    fn create_eq(&mut self, vector: u16) -> Result<u8, DriverError> {
        let mut cmd = CreateEqCmd::new();
        cmd.set_base(self.ring.iova());
        cmd.set_log_size(4);
        cmd.set_vector(vector);
        self.function.create_eq(&cmd)
    }

    fn create_cq(&mut self, eqn: u8) -> Result<u32, DriverError> {
        let mut cmd = CreateCqCmd::new();
        cmd.set_base(self.ring.iova());
        cmd.set_log_size(4);
        cmd.set_eqn(eqn);
        self.function.create_cq(&cmd)
    }

    fn create_qp(&mut self, pd: u32, cqn: u32, eqn: u8) -> Result<u32, DriverError> {
        let mut cmd = CreateQpCmd::new();
        cmd.set_pd(pd);
        cmd.set_send_cqn(cqn);
        cmd.set_recv_cqn(cqn);
        cmd.set_async_eqn(eqn);
        cmd.set_sq_base(self.ring.iova());
        cmd.set_rq_base(self.ring.iova());
        self.function.create_qp(&cmd)
    }
}

/// Event queues come and go: numbers beyond the table were given out once the last had been.
#[test]
fn event_queue_numbers_last_for_ever() {
    let mut rig = Rig::new();
    for _ in 0..200 {
        let eqn = rig.create_eq(0).unwrap();
        rig.function.destroy_eq(eqn).unwrap();
    }
    let limit = rig.function.query_device().unwrap().max_eq();
    let all: Vec<u8> = (0..limit).map(|_| rig.create_eq(0).unwrap()).collect();
    assert_eq!(refusal(rig.create_eq(0)).status, AdminStatus::NoResources);
    rig.function.destroy_eq(all[7]).unwrap();
    assert_eq!(rig.create_eq(0).unwrap(), all[7]);
}

#[test]
fn a_vector_that_does_not_exist_is_refused() {
    let mut rig = Rig::new();
    for vector in [8, 0x7ff, 0xffff] {
        assert_eq!(refusal(rig.create_eq(vector)).status, AdminStatus::BadParam);
    }
}

/// Events of a QP must not go to somebody else's queue: its EQ stays while the QP does.
#[test]
fn nothing_in_use_can_be_destroyed() {
    let mut rig = Rig::new();
    let (eq, async_eq) = (rig.create_eq(0).unwrap(), rig.create_eq(0).unwrap());
    let cqn = rig.create_cq(eq).unwrap();
    let pd = rig.function.alloc_pd().unwrap();
    let qpn = rig.create_qp(pd, cqn, async_eq).unwrap();
    assert_eq!(refusal(rig.function.destroy_eq(eq)).status, AdminStatus::InUse);
    assert_eq!(
        refusal(rig.function.destroy_eq(async_eq)).status,
        AdminStatus::InUse
    );
    assert_eq!(refusal(rig.function.destroy_cq(cqn)).status, AdminStatus::InUse);
    assert_eq!(refusal(rig.function.dealloc_pd(pd)).status, AdminStatus::InUse);
    rig.function.destroy_qp(qpn).unwrap();
    rig.function.destroy_cq(cqn).unwrap();
    rig.function.destroy_eq(eq).unwrap();
    rig.function.destroy_eq(async_eq).unwrap();
    rig.function.dealloc_pd(pd).unwrap();
    rig.dev.assert_no_violations();
}

/// Key 0 names no region: once it named the reserved one, and freeing it broke the count of the PD.
#[test]
fn key_zero_is_no_region() {
    let mut rig = Rig::new();
    assert_eq!(refusal(rig.function.dereg_mr(0)).status, AdminStatus::BadHandle);
    assert_eq!(refusal(rig.function.query_mr(0)).status, AdminStatus::BadHandle);
}

/// V-131: other rights and another domain under the same key; what cannot be changes nothing.
#[test]
fn a_region_changes_its_rights_and_its_domain() {
    let mut rig = Rig::new();
    let (pd, other) = (rig.function.alloc_pd().unwrap(), rig.function.alloc_pd().unwrap());
    let mut cmd = RegMrCmd::new();
    cmd.set_pd(pd);
    cmd.set_start(0x1000);
    cmd.set_iova(0x1000);
    cmd.set_length(4096);
    cmd.set_page_shift(63);
    let key = rig.function.reg_mr(&cmd).unwrap().lkey();
    let modify = |pd, lkey, access| {
        let mut cmd = ModifyMrCmd::new();
        cmd.set_lkey(lkey);
        cmd.set_pd(pd);
        cmd.set_access(access);
        cmd
    };
    for (cmd, status) in [
        (modify(other, key + 1, 1), AdminStatus::BadHandle),
        (modify(1 << 20, key, 1), AdminStatus::BadHandle),
        (modify(other, key, access::REMOTE_WRITE), AdminStatus::BadParam),
        (modify(other, key, access::REMOTE_ATOMIC), AdminStatus::BadParam),
        (modify(other, key, 1 << 30), AdminStatus::BadParam),
        (modify(other, key, access::ZERO_BASED), AdminStatus::BadParam),
        (
            modify(other, key, access::FLUSH_PERSISTENT),
            AdminStatus::BadParam,
        ),
    ] {
        assert_eq!(refusal(rig.function.modify_mr(&cmd)).status, status);
        let now = rig.function.query_mr(key).unwrap();
        assert_eq!((now.pd(), now.access(), now.length()), (pd, 0, 4096));
    }
    let rights = access::LOCAL_WRITE
        | access::REMOTE_READ
        | access::REMOTE_ATOMIC
        | access::MW_BIND
        | access::FLUSH_GLOBAL;
    // What the card does not have is taken as a word, and not granted.
    let asked = rights | access::RELAXED_ORDERING;
    rig.function.modify_mr(&modify(other, key, asked)).unwrap();
    let now = rig.function.query_mr(key).unwrap();
    assert_eq!((now.pd(), now.access(), now.start()), (other, rights, 0x1000));
    rig.function.dealloc_pd(pd).unwrap();
    assert_eq!(refusal(rig.function.dealloc_pd(other)).status, AdminStatus::InUse);
    rig.function.dereg_mr(key).unwrap();
    rig.function.dealloc_pd(other).unwrap();
}

/// V-135, V-138: windows have rows as regions have, are no regions, and belong to their domain until they go.
#[test]
fn windows_come_and_go() {
    let mut rig = Rig::new();
    let pd = rig.function.alloc_pd().unwrap();
    assert_eq!(
        refusal(rig.function.alloc_mw(1 << 20, true)).status,
        AdminStatus::BadHandle
    );
    let keys = [true, false].map(|is_type_2| rig.function.alloc_mw(pd, is_type_2).unwrap());
    assert_ne!(keys[0] >> 8, keys[1] >> 8);
    assert_eq!(refusal(rig.function.dealloc_pd(pd)).status, AdminStatus::InUse);
    for key in keys {
        assert_eq!(refusal(rig.function.query_mr(key)).status, AdminStatus::BadHandle);
        assert_eq!(refusal(rig.function.dereg_mr(key)).status, AdminStatus::BadHandle);
        // Any of its keys names it.
        rig.function.dealloc_mw(key ^ 0x55).unwrap();
        assert_eq!(
            refusal(rig.function.dealloc_mw(key)).status,
            AdminStatus::BadHandle
        );
    }
    let mut cmd = RegMrCmd::new();
    cmd.set_pd(pd);
    cmd.set_start(0x1000);
    cmd.set_iova(0x1000);
    cmd.set_length(4096);
    cmd.set_page_shift(63);
    let region = rig.function.reg_mr(&cmd).unwrap().lkey();
    assert_eq!(
        refusal(rig.function.dealloc_mw(region)).status,
        AdminStatus::BadHandle
    );
    rig.function.dereg_mr(region).unwrap();
    rig.function.dealloc_pd(pd).unwrap();
}

/// V-63: a larger ring, never a smaller one; what cannot be leaves the queue as it was.
#[test]
fn rings_of_queues_grow() {
    let mut rig = Rig::new();
    let eqn = rig.create_eq(0).unwrap();
    let cqn = rig.create_cq(eqn).unwrap();
    let mut cmd = ResizeCqCmd::new();
    cmd.set_cqn(cqn);
    cmd.set_base(rig.ring.iova());
    cmd.set_log_size(4);
    rig.function.resize_cq(&cmd).unwrap();
    rig.function.resize_cq(&cmd).unwrap();
    let ring = rig.ring.iova();
    for (cqn, base, log_size, status) in [
        (cqn, ring, 3, AdminStatus::BadLength),
        (cqn, ring, 40, AdminStatus::BadLength),
        (cqn, ring + 8, 4, AdminStatus::BadParam),
        (cqn + 1, ring, 4, AdminStatus::BadHandle),
        (cqn, 1 << 47, 4, AdminStatus::DmaError),
    ] {
        cmd.set_cqn(cqn);
        cmd.set_base(base);
        cmd.set_log_size(log_size);
        assert_eq!(refusal(rig.function.resize_cq(&cmd)).status, status);
    }
}

/// V-64: moderation of one's own queue; the longest period of the attributes. A ring that grows leaves it and
/// IGNORE_OVERRUN (V-58) as they are.
#[test]
fn queues_are_moderated() {
    let mut rig = Rig::new();
    let attr = rig.function.query_device().unwrap();
    assert_eq!(
        (attr.max_cq_count(), attr.max_cq_period_us()),
        (u16::MAX, u16::MAX)
    );
    let eqn = rig.create_eq(0).unwrap();
    let mut cmd = CreateCqCmd::new();
    cmd.set_base(rig.ring.iova());
    cmd.set_log_size(3);
    cmd.set_eqn(eqn);
    cmd.set_ignore_overrun(true);
    let cqn = rig.function.create_cq(&cmd).unwrap();
    let mut cmd = ModifyCqCmd::new();
    cmd.set_cqn(cqn);
    cmd.set_count(3);
    cmd.set_period_us(u16::MAX);
    rig.function.modify_cq(&cmd).unwrap();
    cmd.set_cqn(cqn + 1);
    assert_eq!(
        refusal(rig.function.modify_cq(&cmd)).status,
        AdminStatus::BadHandle
    );
    let mut cmd = ResizeCqCmd::new();
    cmd.set_cqn(cqn);
    cmd.set_base(rig.ring.iova());
    cmd.set_log_size(4);
    rig.function.resize_cq(&cmd).unwrap();
    let row = rig
        .dev
        .with_card(|card| Cqc::read_from(&card.row(CtxTable::Cqc, cqn)).unwrap());
    assert_eq!((row.mod_count(), row.mod_cycles()), (3, 250 * 65_535));
    assert!(row.ignore_overrun() && row.log_size() == 4 && row.valid());
}

/// V-133: a null region has one right, for ever.
#[test]
fn null_regions_are_local() {
    let mut rig = Rig::new();
    let pd = rig.function.alloc_pd().unwrap();
    let mut cmd = RegMrCmd::new();
    cmd.set_pd(pd);
    cmd.set_page_shift(63);
    cmd.set_is_null(true);
    for (access, length, iova, status) in [
        (3, 3 * 4096, 4096, AdminStatus::BadParam),
        (0, 3 * 4096, 4096, AdminStatus::BadParam),
        (1, 2 * 4096, 4096, AdminStatus::BadLength),
        (1, 3 * 4096, 4096 + 64, AdminStatus::BadLength),
    ] {
        cmd.set_access(access);
        cmd.set_length(length);
        cmd.set_iova(iova);
        assert_eq!(
            refusal(rig.function.reg_mr(&cmd)).status,
            status,
            "{access} {length} {iova}"
        );
    }
    cmd.set_iova(4096);
    let key = rig.function.reg_mr(&cmd).unwrap().lkey();
    let mut cmd = ModifyMrCmd::new();
    cmd.set_lkey(key);
    cmd.set_pd(pd);
    cmd.set_access(3);
    assert_eq!(
        refusal(rig.function.modify_mr(&cmd)).status,
        AdminStatus::BadParam
    );
    rig.function.dereg_mr(key).unwrap();
    rig.function.dealloc_pd(pd).unwrap();
}

/// MEM-19: what there is, copies to the byte, and who has what.
#[test]
fn device_memory_is_given_in_pages() {
    let mut rig = Rig::new();
    let (all, page) = (hca_abi::DM_BYTES / 4, hca_abi::DM_PAGE_BYTES);
    for bad in [0, all + 1, u32::MAX] {
        assert_eq!(refusal(rig.function.alloc_dm(bad)).status, AdminStatus::BadLength);
    }
    let (first, second) = (
        rig.function.alloc_dm(page + 1).unwrap(),
        rig.function.alloc_dm(page).unwrap(),
    );
    assert_eq!((first, second), (0, 2));
    let rest = refusal(rig.function.alloc_dm(all - 2 * page));
    assert_eq!(rest.status, AdminStatus::NoResources);
    let bytes: Vec<u8> = (0..3000).map(|n| n as u8).collect();
    rig.function.write_dm(first, 61, &bytes).unwrap();
    rig.function.write_dm(first, 2 * page - 1, &[7]).unwrap();
    let mut found = vec![1; 2 * page as usize];
    rig.function.read_dm(first, 0, &mut found).unwrap();
    let mut wanted = vec![0; 2 * page as usize];
    wanted[61..3061].copy_from_slice(&bytes);
    wanted[2 * page as usize - 1] = 7;
    assert_eq!(found, wanted);
    for (offset, length) in [(2 * page, 1), (2 * page - 1, 2), (u32::MAX, 1)] {
        let refused = refusal(rig.function.write_dm(first, offset, &vec![0; length]));
        assert_eq!(refused.status, AdminStatus::BadLength, "{offset} {length}");
    }
    for nobody in [1, 3, 7, 8, u32::MAX] {
        let copy = refusal(rig.function.write_dm(nobody, 0, &[0]));
        assert_eq!((copy.status, copy.detail), (AdminStatus::BadHandle, nobody));
        assert_eq!(
            refusal(rig.function.free_dm(nobody)).status,
            AdminStatus::BadHandle
        );
    }
    rig.function.free_dm(first).unwrap();
    assert_eq!(
        refusal(rig.function.free_dm(first)).status,
        AdminStatus::BadHandle
    );
    let again = rig.function.alloc_dm(2 * page).unwrap();
    let mut found = vec![1; 2 * page as usize];
    rig.function.read_dm(again, 0, &mut found).unwrap();
    assert!(
        found.iter().all(|byte| *byte == 0),
        "what was there before is gone"
    );
    rig.function.reset_func().unwrap();
    rig.dev.assert_no_violations();
}

/// COPY_DM from a client that names what it likes: nothing moves that is not inside.
#[test]
fn copies_are_checked() {
    let mut rig = Rig::new();
    let dm = rig.function.alloc_dm(4096).unwrap();
    let good = (rig.ring.iova(), 0, 64);
    let iova = rig.ring.iova();
    for (addr, offset, bytes, status) in [
        (iova + 1, 0, 64, AdminStatus::BadParam),
        (iova, 1, 63, AdminStatus::BadParam),
        (iova, 0, 0, AdminStatus::BadLength),
        (iova, 0, 1025, AdminStatus::BadLength),
        (iova + 63, 63, 1024, AdminStatus::BadLength),
        (iova, 4096, 1, AdminStatus::BadLength),
        (iova, u32::MAX - 63, 64, AdminStatus::BadLength),
        (iova, 0, u32::MAX, AdminStatus::BadLength),
        (0x40, 0, 64, AdminStatus::DmaError),
        (0x7fff_ffff_ffff_ffc0, 0, 64, AdminStatus::DmaError),
    ] {
        for to_host in [false, true] {
            let mut cmd = hca_abi::CopyDmCmd::new();
            cmd.set_addr(addr);
            cmd.set_handle(dm);
            cmd.set_offset(offset);
            cmd.set_bytes(bytes);
            cmd.set_to_host(to_host);
            let opcode = hca_abi::AdminOpcode::CopyDm.into();
            let answer = rig.function.issue_raw(opcode, cmd.as_bytes()).unwrap();
            assert_eq!(answer.status(), u8::from(status), "{addr:#x} {offset} {bytes}");
        }
    }
    let (addr, offset, bytes) = good;
    let mut cmd = hca_abi::CopyDmCmd::new();
    cmd.set_addr(addr);
    cmd.set_handle(dm);
    cmd.set_offset(offset);
    cmd.set_bytes(bytes);
    let opcode = hca_abi::AdminOpcode::CopyDm.into();
    assert_eq!(
        rig.function.issue_raw(opcode, cmd.as_bytes()).unwrap().status(),
        0
    );
}

/// A list at the end of the address space, a range past it.
#[test]
fn registrations_at_the_end_of_the_address_space() {
    let mut rig = Rig::new();
    let pd = rig.function.alloc_pd().unwrap();
    let mut cmd = RegMrCmd::new();
    cmd.set_pd(pd);
    cmd.set_length(4096 * 600);
    cmd.set_num_pages(600);
    cmd.set_page_shift(12);
    cmd.set_page_list_addr(!63);
    assert_eq!(refusal(rig.function.reg_mr(&cmd)).status, AdminStatus::BadParam);
    cmd.set_page_list_addr(1 << 47);
    assert_eq!(refusal(rig.function.reg_mr(&cmd)).status, AdminStatus::DmaError);
    cmd.set_page_shift(63);
    cmd.set_iova(u64::MAX - 4096);
    assert_eq!(refusal(rig.function.reg_mr(&cmd)).status, AdminStatus::BadLength);
    cmd.set_iova(0);
    cmd.set_start(u64::MAX - 4096);
    assert_eq!(refusal(rig.function.reg_mr(&cmd)).status, AdminStatus::BadLength);
    // A failed registration leaves nothing: the domain can go.
    rig.function.dealloc_pd(pd).unwrap();
}

/// QPS-11: SQ_DRAINED is for those who asked for it; events for objects that are gone go nowhere.
#[test]
fn events_for_nobody_are_dropped() {
    let mut rig = Rig::new();
    let eqn = rig.create_eq(0).unwrap();
    let cqn = rig.create_cq(eqn).unwrap();
    let pd = rig.function.alloc_pd().unwrap();
    let qpn = rig.create_qp(pd, cqn, eqn).unwrap();
    for id in [qpn, 1, 1023, 1024, 0xff_ffff, u32::MAX] {
        for kind in [
            HwEventKind::SqDrained,
            HwEventKind::QpError,
            HwEventKind::BadDoorbell,
        ] {
            rig.dev.with_card(|card| card.raise(kind, id, 0));
        }
    }
    for id in [1024, 0xff_ffff, u32::MAX] {
        for kind in [
            HwEventKind::CqError,
            HwEventKind::QpCommEst,
            HwEventKind::EqOverflow,
        ] {
            rig.dev.with_card(|card| card.raise(kind, id, 0));
        }
    }
    rig.dev.settle();
    let mut owner = [0; 64];
    rig.dev
        .with_card(|card| assert!(card.host.read(rig.ring.iova(), &mut owner)));
    assert_eq!(
        owner,
        [0; 64],
        "an event of kind {:?}",
        EventKind::try_from(owner[0])
    );
    rig.function.nop().unwrap();
    rig.dev.assert_no_violations();
}
