//! Every field of every command, broken one at a time, from a function that has no right to anything (KEY-1, D15): the
//! status is the one that the contract gives for that field, no object comes to life, the function still works, and
//! its neighbour notices nothing.

#[path = "../common/mod.rs"]
mod common;
mod queues;

use common::{LOCAL_AND_REMOTE, Pair};
use hca_abi::{
    AdminOpcode as Op, AdminStatus as Status, CreateCqCmd, CreateEqCmd, CreateQpCmd, HandleCmd, HandleResult,
    ModifyCqCmd, ModifyMrCmd, ModifyQpCmd, QpAttr, QpState, QueryEntryCmd, QueryPortCmd, RegMrCmd,
    RegMrResult, ResizeCqCmd, Service, SetKeyTableCmd, access, qp_attr,
};
use hca_dev::DmaBuf;
use hca_link::LinkKind;
use hca_system_tests::{Node, RigConfig, Rng, path};
use hca_verbs::Mtu;

type Body = [u8; 248];
/// A command with one thing wrong with it.
type Case = (Op, String, Body, Status);

/// Nothing is mapped there.
const NOWHERE: u64 = 0xdead_0000_0000;
const MEMORY_BYTES: usize = 64 << 10;
/// Where in the memory what lies.
const CQ_RING: u64 = 0;
const LARGER_CQ_RING: u64 = 0x1000;
const SEND_RING: u64 = 0x3000;
const RECV_RING: u64 = 0x4000;
const EQ_RING: u64 = 0x5000;
const PAGE_LIST: u64 = 0x6000;
const KEY_TABLE: u64 = 0x7000;
/// log2 of its rows.
const LOG_KEYS: u8 = 3;

/// One of each object, made by hand.
struct Objects {
    memory: DmaBuf,
    pd: u32,
    eqn: u8,
    cqn: u32,
    qpn: u32,
    lkey: u32,
    /// Of two rows of the key table.
    row: u32,
}

fn number(node: &Node, opcode: Op, body: &Body) -> u32 {
    let cpl = node.context.function().issue_raw(opcode.into(), body).unwrap();
    assert_eq!(cpl.status(), u8::from(Status::Ok), "{opcode:?}: {cpl:?}");
    HandleResult(cpl.body()).handle()
}

impl Objects {
    /// In a key table of its own.
    fn new(node: &Node) -> Self {
        Self::in_rows(node, 1)
    }

    /// In these rows; not row 1: of the table that the driver has made.
    fn in_rows(node: &Node, row: u32) -> Self {
        let memory = node.alloc(MEMORY_BYTES).unwrap();
        for page in 0..4u64 {
            memory.store_u64((PAGE_LIST + 8 * page) as usize, memory.iova() + (page << 12));
        }
        let mut objects = Self {
            memory,
            pd: number(node, Op::AllocPd, &[0; 248]),
            eqn: 0,
            cqn: 0,
            qpn: 0,
            lkey: 0,
            row,
        };
        objects.eqn = number(node, Op::CreateEq, &objects.create_eq().0) as u8;
        objects.cqn = number(node, Op::CreateCq, &objects.create_cq().0);
        objects.qpn = number(node, Op::CreateQp, &objects.create_qp().0);
        if row == 1 {
            number(node, Op::SetKeyTable, &objects.key_table().0);
        }
        objects.lkey = number(node, Op::RegMr, &objects.reg_mr().0);
        // The other sound commands that are broken below: of pages, to be changed, to be brought up.
        let paged = number(node, Op::RegMr, &objects.reg_pages().0);
        number(node, Op::DeregMr, &handle(paged));
        number(node, Op::ModifyMr, &objects.modify_mr().0);
        number(node, Op::ModifyQp, &objects.to_init().0);
        let mut back = objects.to_init();
        back.set_attr_mask(qp_attr::STATE);
        back.set_attr(QpAttr::new().0);
        number(node, Op::ModifyQp, &back.0);
        objects
    }

    fn at(&self, offset: u64) -> u64 {
        self.memory.iova() + offset
    }

    fn create_eq(&self) -> CreateEqCmd {
        let mut cmd = CreateEqCmd::new();
        cmd.set_base(self.at(EQ_RING));
        cmd.set_log_size(4);
        cmd
    }

    fn create_cq(&self) -> CreateCqCmd {
        let mut cmd = CreateCqCmd::new();
        cmd.set_base(self.at(CQ_RING));
        cmd.set_log_size(4);
        cmd.set_eqn(self.eqn);
        cmd
    }

    fn resize_cq(&self) -> ResizeCqCmd {
        let mut cmd = ResizeCqCmd::new();
        cmd.set_base(self.at(LARGER_CQ_RING));
        cmd.set_log_size(5);
        cmd.set_cqn(self.cqn);
        cmd
    }

    fn modify_cq(&self) -> ModifyCqCmd {
        let mut cmd = ModifyCqCmd::new();
        cmd.set_cqn(self.cqn);
        cmd.set_count(4);
        cmd.set_period_us(10);
        cmd
    }

    fn create_qp(&self) -> CreateQpCmd {
        let mut cmd = CreateQpCmd::new();
        cmd.set_service(Service::Rc.into());
        cmd.set_sq_log_size(4);
        cmd.set_rq_log_size(4);
        cmd.set_pd(self.pd);
        cmd.set_send_cqn(self.cqn);
        cmd.set_recv_cqn(self.cqn);
        cmd.set_sq_base(self.at(SEND_RING));
        cmd.set_rq_base(self.at(RECV_RING));
        cmd.set_async_eqn(self.eqn);
        cmd
    }

    fn to_init(&self) -> ModifyQpCmd {
        let mut attr = QpAttr::new();
        attr.set_qp_state(QpState::Init.into());
        attr.set_port_num(1);
        let mut cmd = ModifyQpCmd::new();
        cmd.set_qpn(self.qpn);
        cmd.set_attr_mask(qp_attr::STATE | qp_attr::PKEY_INDEX | qp_attr::PORT | qp_attr::ACCESS_FLAGS);
        cmd.set_attr(attr.0);
        cmd
    }

    fn key_table(&self) -> SetKeyTableCmd {
        let mut cmd = SetKeyTableCmd::new();
        cmd.set_base(self.at(KEY_TABLE));
        cmd.set_log_size(LOG_KEYS);
        cmd
    }

    fn reg_mr(&self) -> RegMrCmd {
        let mut cmd = RegMrCmd::new();
        cmd.set_row(self.row);
        cmd.set_pd(self.pd);
        cmd.set_access(access::LOCAL_WRITE);
        cmd.set_start(self.at(0));
        cmd.set_length(4 << 12);
        cmd.set_iova(self.at(0));
        cmd.set_page_shift(hca_abi::DIRECT_PAGE_SHIFT as u8);
        cmd
    }

    fn reg_pages(&self) -> RegMrCmd {
        let mut cmd = self.reg_mr();
        cmd.set_row(self.row + 1);
        cmd.set_start(0x1000_0000);
        cmd.set_page_shift(12);
        cmd.set_num_pages(4);
        cmd.set_page_list_addr(self.at(PAGE_LIST));
        cmd
    }

    fn modify_mr(&self) -> ModifyMrCmd {
        let mut cmd = ModifyMrCmd::new();
        cmd.set_lkey(self.lkey);
        cmd.set_pd(self.pd);
        cmd.set_access(access::LOCAL_WRITE);
        cmd
    }

    /// All of it can go: nothing has come to life that uses any of it.
    fn destroy(self, node: &Node) {
        for (opcode, number) in [
            (Op::DestroyQp, self.qpn),
            (Op::DeregMr, self.lkey),
            (Op::DestroyCq, self.cqn),
            (Op::DestroyEq, self.eqn.into()),
            (Op::DeallocPd, self.pd),
        ] {
            let cpl = node
                .context
                .function()
                .issue_raw(opcode.into(), &handle(number))
                .unwrap();
            assert_eq!(
                cpl.status(),
                u8::from(Status::Ok),
                "{opcode:?}: something uses it: {cpl:?}"
            );
        }
    }
}

fn handle(number: u32) -> Body {
    let mut cmd = HandleCmd::new();
    cmd.set_handle(number);
    cmd.0
}

/// What is to be broken, how, and what the card must say.
type Break<'a, T> = (&'a str, &'a dyn Fn(&mut T), Status);

/// One case for each way to break a command.
fn broken<T: Copy>(opcode: Op, sound: T, bytes: fn(T) -> Body, breaks: &[Break<'_, T>]) -> Vec<Case> {
    let case = |(what, break_it, status): &Break<'_, T>| {
        let mut cmd = sound;
        break_it(&mut cmd);
        (opcode, (*what).to_owned(), bytes(cmd), *status)
    };
    breaks.iter().map(case).collect()
}

fn qp_cases(own: &Objects, other: &Objects) -> Vec<Case> {
    use Status::{BadHandle, BadLength, BadParam, BadState, DmaError, Unsupported};
    let mut cases = broken(
        Op::CreateQp,
        own.create_qp(),
        |cmd| cmd.0,
        &[
            (
                "initiator of XRC with an SRQ",
                &|cmd| {
                    cmd.set_service(Service::Xrc.into());
                    cmd.set_has_srq(true);
                },
                BadParam,
            ),
            ("target of RC", &|cmd| cmd.set_is_target(true), BadParam),
            ("service of nobody", &|cmd| cmd.set_service(77), Unsupported),
            ("no SRQ", &|cmd| cmd.set_has_srq(true), BadHandle),
            ("create_flags", &|cmd| cmd.set_create_flags(1), Unsupported),
            ("sq_log_size", &|cmd| cmd.set_sq_log_size(17), BadLength),
            ("rq_log_size", &|cmd| cmd.set_rq_log_size(255), BadLength),
            ("sq_log_stride", &|cmd| cmd.set_sq_log_stride(4), BadLength),
            ("rq_log_stride", &|cmd| cmd.set_rq_log_stride(4), BadLength),
            ("pd 0", &|cmd| cmd.set_pd(0), BadHandle),
            ("pd of the neighbour", &|cmd| cmd.set_pd(other.pd), BadHandle),
            (
                "send_cqn of the neighbour",
                &|cmd| cmd.set_send_cqn(other.cqn),
                BadHandle,
            ),
            (
                "recv_cqn of the neighbour",
                &|cmd| cmd.set_recv_cqn(other.cqn),
                BadHandle,
            ),
            ("recv_cqn of nobody", &|cmd| cmd.set_recv_cqn(0x3ff), BadHandle),
            (
                "async_eqn of the neighbour",
                &|cmd| cmd.set_async_eqn(other.eqn),
                BadHandle,
            ),
            (
                "sq_base between lines",
                &|cmd| cmd.set_sq_base(cmd.sq_base() + 16),
                BadParam,
            ),
            (
                "rq_base for its stride",
                &|cmd| {
                    cmd.set_rq_log_stride(3);
                    cmd.set_rq_base(cmd.rq_base() + 64);
                },
                BadParam,
            ),
            ("sq_base nowhere", &|cmd| cmd.set_sq_base(NOWHERE), DmaError),
            ("rq_base nowhere", &|cmd| cmd.set_rq_base(NOWHERE), DmaError),
            (
                "rq_base at the end",
                &|cmd| cmd.set_rq_base(u64::MAX - 63),
                BadParam,
            ),
        ],
    );
    let attr = |cmd: &mut ModifyQpCmd, change: &dyn Fn(&mut QpAttr)| {
        let mut attr = QpAttr(cmd.attr());
        change(&mut attr);
        cmd.set_attr(attr.0);
    };
    let add = |cmd: &mut ModifyQpCmd, mask: u32| cmd.set_attr_mask(cmd.attr_mask() | mask);
    cases.extend(broken(
        Op::ModifyQp,
        own.to_init(),
        |cmd| cmd.0,
        &[
            ("qpn of nobody", &|cmd| cmd.set_qpn(0xff_ffff), BadHandle),
            ("qpn 0", &|cmd| cmd.set_qpn(0), BadHandle),
            ("qpn of the neighbour", &|cmd| cmd.set_qpn(other.qpn), BadHandle),
            (
                "a bit of the mask without a meaning",
                &|cmd| add(cmd, 1 << 31),
                BadParam,
            ),
            (
                "one attribute less",
                &|cmd| cmd.set_attr_mask(qp_attr::STATE | qp_attr::PORT),
                BadParam,
            ),
            ("one attribute more", &|cmd| add(cmd, qp_attr::TIMEOUT), BadParam),
            (
                "no such state",
                &|cmd| attr(cmd, &|a| a.set_qp_state(7)),
                BadParam,
            ),
            (
                "no such way",
                &|cmd| attr(cmd, &|a| a.set_qp_state(QpState::Rts.into())),
                BadState,
            ),
            (
                "cur_qp_state",
                &|cmd| {
                    add(cmd, qp_attr::CUR_STATE);
                    attr(cmd, &|a| a.set_cur_qp_state(QpState::Rts.into()));
                },
                BadState,
            ),
            ("port 0", &|cmd| attr(cmd, &|a| a.set_port_num(0)), BadParam),
            ("port 2", &|cmd| attr(cmd, &|a| a.set_port_num(2)), BadParam),
            (
                "pkey_index",
                &|cmd| attr(cmd, &|a| a.set_pkey_index(0xffff)),
                BadParam,
            ),
            (
                "qp_access_flags",
                &|cmd| attr(cmd, &|a| a.set_qp_access_flags(1 << 30)),
                BadParam,
            ),
        ],
    ));
    cases
}

fn memory_cases(own: &Objects, other: &Objects) -> Vec<Case> {
    use Status::{BadHandle, BadLength, BadParam, DmaError, InUse, Unsupported};
    let mut cases = broken(
        Op::RegMr,
        own.reg_mr(),
        |cmd| cmd.0,
        &[
            ("pd 0", &|cmd| cmd.set_pd(0), BadHandle),
            ("pd of the neighbour", &|cmd| cmd.set_pd(other.pd), BadHandle),
            ("access without a name", &|cmd| cmd.set_access(1 << 31), BadParam),
            ("on demand", &|cmd| cmd.set_access(access::ON_DEMAND), Unsupported),
            (
                "remote without local",
                &|cmd| cmd.set_access(access::REMOTE_WRITE),
                BadParam,
            ),
            ("length 0", &|cmd| cmd.set_length(0), BadLength),
            ("length beyond 2^48", &|cmd| cmd.set_length(1 << 49), BadLength),
            ("start wraps", &|cmd| cmd.set_start(u64::MAX - 5), BadLength),
            ("iova wraps", &|cmd| cmd.set_iova(u64::MAX - 5), BadLength),
            ("row 0", &|cmd| cmd.set_row(0), BadParam),
            (
                "row behind the table",
                &|cmd| cmd.set_row(1 << LOG_KEYS),
                BadParam,
            ),
            ("row of no function", &|cmd| cmd.set_row(1 << 20 | 3), BadParam),
            ("row in use", &|_| (), InUse),
            (
                "null with more rights",
                &|cmd| {
                    cmd.set_is_null(true);
                    cmd.set_access(access::LOCAL_WRITE | access::REMOTE_READ);
                },
                BadParam,
            ),
            (
                "null of another size",
                &|cmd| {
                    cmd.set_is_null(true);
                    cmd.set_access(access::LOCAL_WRITE);
                    cmd.set_length(4096);
                },
                BadLength,
            ),
        ],
    );
    cases.extend(broken(
        Op::SetKeyTable,
        own.key_table(),
        |cmd| cmd.0,
        &[
            (
                "base between lines",
                &|cmd| cmd.set_base(cmd.base() + 8),
                BadParam,
            ),
            ("base nowhere", &|cmd| cmd.set_base(NOWHERE), DmaError),
            ("end nowhere", &|cmd| cmd.set_log_size(20), DmaError),
            ("more rows than keys have", &|cmd| cmd.set_log_size(21), BadLength),
            (
                "fewer rows than before",
                &|cmd| cmd.set_log_size(LOG_KEYS - 1),
                BadLength,
            ),
        ],
    ));
    cases.extend(broken(
        Op::RegMr,
        own.reg_pages(),
        |cmd| cmd.0,
        &[
            ("page_shift 11", &|cmd| cmd.set_page_shift(11), BadParam),
            ("page_shift 31", &|cmd| cmd.set_page_shift(31), BadParam),
            ("a page less", &|cmd| cmd.set_num_pages(3), BadLength),
            ("a page more", &|cmd| cmd.set_num_pages(5), BadLength),
            (
                "a page more by its start",
                &|cmd| cmd.set_start(cmd.start() + 1),
                BadLength,
            ),
            (
                "more pages than there are",
                &|cmd| cmd.set_length(1 << 40),
                BadLength,
            ),
            (
                "list between lines",
                &|cmd| cmd.set_page_list_addr(cmd.page_list_addr() + 8),
                BadParam,
            ),
            ("list nowhere", &|cmd| cmd.set_page_list_addr(NOWHERE), DmaError),
            (
                "pages that begin in the middle",
                &|cmd| cmd.set_page_shift(13),
                BadLength,
            ),
        ],
    ));
    cases.extend(broken(
        Op::ModifyMr,
        own.modify_mr(),
        |cmd| cmd.0,
        &[
            ("lkey of nobody", &|cmd| cmd.set_lkey(0xffff_ff00), BadHandle),
            ("lkey before", &|cmd| cmd.set_lkey(cmd.lkey() ^ 1), BadHandle),
            (
                "lkey of the neighbour",
                &|cmd| cmd.set_lkey(other.lkey),
                BadHandle,
            ),
            ("pd of the neighbour", &|cmd| cmd.set_pd(other.pd), BadHandle),
            ("access without a name", &|cmd| cmd.set_access(1 << 31), BadParam),
            ("on demand", &|cmd| cmd.set_access(access::ON_DEMAND), Unsupported),
            (
                "remote without local",
                &|cmd| cmd.set_access(access::REMOTE_WRITE),
                BadParam,
            ),
        ],
    ));
    cases
}

fn other_cases(own: &Objects, other: &Objects) -> Vec<Case> {
    use Status::{BadHandle, BadParam, InUse, NotPermitted};
    let mut cases = Vec::new();
    for (opcode, of_the_neighbour) in [
        (Op::DeallocPd, other.pd),
        (Op::DestroyEq, other.eqn.into()),
        (Op::DestroyCq, other.cqn),
        (Op::DestroyQp, other.qpn),
        (Op::QueryQp, other.qpn),
        (Op::DeregMr, other.lkey),
        (Op::QueryMr, other.lkey),
    ] {
        for (what, number) in [("of the neighbour", of_the_neighbour), ("of nobody", u32::MAX)] {
            cases.push((opcode, what.to_owned(), handle(number), BadHandle));
        }
    }
    let used = [
        (Op::DeallocPd, own.pd),
        (Op::DestroyEq, own.eqn.into()),
        (Op::DestroyCq, own.cqn),
    ];
    cases.extend(used.map(|(opcode, number)| (opcode, "in use".to_owned(), handle(number), InUse)));
    for opcode in [Op::CreateSrq, Op::ModifySrq, Op::QuerySrq, Op::DestroySrq] {
        cases.push((opcode, "none of its own".to_owned(), [0; 248], BadHandle));
    }
    let mut port = QueryPortCmd::new();
    port.set_port_num(1);
    for opcode in Op::ALL.iter().filter(|opcode| opcode.is_for_manager()) {
        cases.push((*opcode, "not the manager".to_owned(), port.0, NotPermitted));
    }
    let of_port = [
        Op::QueryPort,
        Op::QueryCounters,
        Op::QueryLink,
        Op::QueryVlArb,
        Op::QueryLinkErrors,
        Op::QueryCongestion,
        Op::QueryPfcCounters,
        Op::QueryLldp,
    ];
    for (opcode, number) in of_port
        .into_iter()
        .flat_map(|opcode| [(opcode, 0), (opcode, 2), (opcode, 255)])
    {
        port.set_port_num(number);
        cases.push((opcode, format!("port {number}"), port.0, BadParam));
    }
    let mut entry = QueryEntryCmd::new();
    for (opcode, (port, index)) in [Op::QueryGid, Op::QueryPkey]
        .into_iter()
        .flat_map(|opcode| [(1, 0xffff), (1, 200), (0, 0), (2, 0)].map(|at| (opcode, at)))
    {
        entry.set_port_num(port);
        entry.set_index(index);
        cases.push((opcode, format!("port {port}, entry {index}"), entry.0, BadParam));
    }
    cases
}

/// Event queues that the function can still make.
fn free_eqs(node: &Node, memory: &DmaBuf) -> usize {
    let mut cmd = CreateEqCmd::new();
    cmd.set_base(memory.iova() + EQ_RING);
    let made: Vec<u8> = std::iter::from_fn(|| node.context.function().create_eq(&cmd).ok()).collect();
    for eqn in &made {
        node.context.function().destroy_eq(*eqn).unwrap();
    }
    made.len()
}

#[test]
fn a_broken_field_is_refused_by_its_status() {
    let config = RigConfig::new(77, LinkKind::Ethernet);
    let mut pair = Pair::new(&config, &path(Mtu::Bytes1024), 4096, [LOCAL_AND_REMOTE; 2]);
    let hostile = Node::open(pair.rig.sim.device(pair.rig.cards[0], 1).unwrap(), 64).unwrap();
    let before = pair.qps[0].query().unwrap();
    let neighbour = Objects::in_rows(&pair.rig.nodes[0], 1000);
    let own = Objects::new(&hostile);
    let free = free_eqs(&hostile, &own.memory);

    let mut cases = queues::queue_cases(&own, &neighbour);
    cases.extend(qp_cases(&own, &neighbour));
    cases.extend(memory_cases(&own, &neighbour));
    cases.extend(other_cases(&own, &neighbour));
    let mut wrong = Vec::new();
    for (opcode, what, body, status) in &cases {
        let cpl = hostile
            .context
            .function()
            .issue_raw((*opcode).into(), body)
            .unwrap();
        let found = Status::try_from(cpl.status());
        if found != Ok(*status) {
            wrong.push(format!("{opcode:?}, {what}: {found:?} instead of {status:?}"));
        }
        assert!(
            cpl.body().iter().all(|byte| *byte == 0),
            "{opcode:?}, {what}: a refusal says something"
        );
    }
    assert!(
        wrong.is_empty(),
        "of {} cases:\n{}",
        cases.len(),
        wrong.join("\n")
    );
    unknown_opcodes(&hostile);

    // No object came to life, and none died: each is still there, nothing uses it, and as many can be made as before.
    let lkey = own.lkey;
    assert_eq!(
        hostile.context.function().query_mr(lkey).unwrap().length(),
        4 << 12
    );
    let memory = own.memory.clone();
    let qp = QpAttr(hostile.context.function().query_qp(own.qpn).unwrap().attr());
    assert_eq!(
        qp.qp_state(),
        u8::from(QpState::Reset),
        "a refused MODIFY_QP changes nothing (QPS-3)"
    );
    own.destroy(&hostile);
    assert_eq!(
        free_eqs(&hostile, &memory),
        free + 1,
        "its own event queue has gone"
    );
    let again = Objects::new(&hostile);
    again.destroy(&hostile);
    neighbour.destroy(&pair.rig.nodes[0]);
    assert_eq!(
        pair.qps[0].query().unwrap(),
        before,
        "function 0's QP has changed"
    );
    pair.check_traffic("after broken commands");
}

/// Codes that mean nothing, with any bytes behind them.
fn unknown_opcodes(hostile: &Node) {
    let mut rng = Rng::new(77, "admin");
    let unknown: Vec<u8> = (0..=255).filter(|code| Op::try_from(*code).is_err()).collect();
    assert!(unknown.len() > 100);
    for _ in 0..64 {
        let (opcode, body) = (rng.pick(&unknown), rng.bytes(248));
        let cpl = hostile.context.function().issue_raw(opcode, &body).unwrap();
        let found = (Status::try_from(cpl.status()), cpl.detail());
        assert_eq!(found, (Ok(Status::BadOpcode), u32::from(opcode)));
    }
}

#[test]
fn keys_that_were_given_back_are_refused() {
    let config = RigConfig::new(78, LinkKind::Ethernet);
    let mut pair = Pair::new(&config, &path(Mtu::Bytes1024), 4096, [LOCAL_AND_REMOTE; 2]);
    let hostile = Node::open(pair.rig.sim.device(pair.rig.cards[0], 1).unwrap(), 64).unwrap();
    let own = Objects::new(&hostile);
    // KEY-30: the key of a region that is gone is worth nothing, also when its place is used again.
    let mut gone = Vec::new();
    for _ in 0..8 {
        let cpl = hostile
            .context
            .function()
            .issue_raw(Op::RegMr.into(), &own.reg_pages().0)
            .unwrap();
        let lkey = RegMrResult(cpl.body()).lkey();
        assert!(!gone.contains(&lkey), "key {lkey:#x} was given out twice");
        number(&hostile, Op::DeregMr, &handle(lkey));
        gone.push(lkey);
        for old in &gone {
            for opcode in [Op::QueryMr, Op::DeregMr] {
                let cpl = hostile
                    .context
                    .function()
                    .issue_raw(opcode.into(), &handle(*old))
                    .unwrap();
                assert_eq!(
                    Status::try_from(cpl.status()),
                    Ok(Status::BadHandle),
                    "{opcode:?} {old:#x}"
                );
            }
        }
    }
    own.destroy(&hostile);
    pair.check_traffic("after keys that were given back");
}
