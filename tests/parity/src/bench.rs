//! Two open cards with a connection between them, and small steps to use it.

use hca_verbs::{
    Access, CompChannel, ConnectOptions, Context, Cq, CqOptions, EventKind, Mr, MrOptions, Mtu, OpenOptions,
    Pd, QpCap, QpOptions, RawQp, RecvWr, SendFlags, SendOp, SendWr, Sge, WcStatus, WorkCompletion, WrData,
    connect_raw, peer_info,
};

use crate::memory::Memory;
use crate::{Dev, Ends, Failure, Outcome};

/// All rights that a region can have on this card.
pub const ALL_RIGHTS: Access =
    Access::from_bits(Access::LOCAL_WRITE.bits() | Access::REMOTE_WRITE.bits() | Access::REMOTE_READ.bits());
/// Completions that a queue holds.
const CQE: u32 = 64;

/// A card with everything that traffic needs. Fields are dropped in this order.
pub struct Side {
    pub qp: RawQp<Dev>,
    pub mr: Mr<Dev>,
    pub cq: Cq<Dev>,
    pub channel: CompChannel<Dev>,
    pub pd: Pd<Dev>,
    pub context: Context<Dev>,
    pub memory: Memory,
    pub dev: Dev,
    pub patience_ns: u64,
}

/// How QPs are connected: retries end after a millisecond of the card.
pub fn options() -> ConnectOptions {
    ConnectOptions {
        mtu: Mtu::Bytes1024,
        timeout: 6,
        retry_cnt: 3,
        psns: (0, 0),
        ..ConnectOptions::default()
    }
}

/// What QPs are made with.
pub fn cap() -> QpCap {
    QpCap {
        max_send_wr: 32,
        max_recv_wr: 32,
        max_send_sge: 16,
        max_recv_sge: 16,
        max_inline_data: 220,
    }
}

/// What is not as it must be.
pub fn wrong<T>(what: impl Into<String>) -> Outcome<T> {
    Err(Failure::Wrong(what.into()))
}

/// Fails with what was found instead.
pub fn expect<T: PartialEq + std::fmt::Debug>(what: &str, found: T, wanted: T) -> Outcome {
    if found == wanted {
        Ok(())
    } else {
        wrong(format!("{what}: {found:?}, not {wanted:?}"))
    }
}

/// Compares memory, and says where it differs.
pub fn expect_bytes(what: &str, found: &[u8], wanted: &[u8]) -> Outcome {
    match found
        .iter()
        .zip(wanted)
        .position(|(found, wanted)| found != wanted)
    {
        None => expect(&format!("{what}: length"), found.len(), wanted.len()),
        Some(at) => wrong(format!(
            "{what}: byte {at} of {} is {:#04x}, not {:#04x}",
            wanted.len(),
            found[at],
            wanted[at]
        )),
    }
}

impl Side {
    /// Opens a device, and registers memory of so many bytes.
    pub fn open(dev: &Dev, patience_ns: u64, memory_bytes: usize) -> Outcome<Self> {
        let open = OpenOptions {
            ready_timeout_ns: patience_ns,
            command_timeout_ns: patience_ns,
            ..OpenOptions::default()
        };
        let context = Context::open_with(dev.clone(), &open)?;
        let pd = context.alloc_pd()?;
        let channel = context.create_comp_channel();
        let cq = context.create_cq(&CqOptions::with_channel(CQE, &channel))?;
        let qp = pd.create_raw_qp(&QpOptions {
            cap: cap(),
            ..QpOptions::new(&cq, &cq)
        })?;
        let memory = Memory::new(memory_bytes)?;
        let mr = pd.reg_user_mr(memory.user(0, memory_bytes), &MrOptions::new(ALL_RIGHTS))?;
        Ok(Self {
            qp,
            mr,
            cq,
            channel,
            pd,
            context,
            memory,
            dev: dev.clone(),
            patience_ns,
        })
    }

    /// Another QP of the same kind.
    pub fn another_qp(&self) -> Outcome<RawQp<Dev>> {
        Ok(self.pd.create_raw_qp(&QpOptions {
            cap: cap(),
            ..QpOptions::new(&self.cq, &self.cq)
        })?)
    }

    pub fn deadline_ns(&self) -> u64 {
        self.dev.now_ns() + self.patience_ns
    }

    /// The next completion.
    pub fn wait(&self) -> Outcome<WorkCompletion> {
        let mut wc = [WorkCompletion::default()];
        self.cq.poll_all(&mut wc, self.deadline_ns())?;
        Ok(wc[0])
    }

    /// The next asynchronous event of this kind; others are passed over.
    pub fn wait_event(&self, kind: EventKind) -> Outcome {
        while self.context.get_async_event(self.deadline_ns())?.kind != kind {}
        Ok(())
    }

    /// The next completion is of this work request, with this status.
    pub fn wait_for(&self, wr_id: u64, status: WcStatus) -> Outcome<WorkCompletion> {
        let wc = self.wait()?;
        expect("completion", (wc.wr_id, wc.status), (wr_id, status))?;
        Ok(wc)
    }

    pub fn wait_ok(&self, wr_id: u64) -> Outcome<WorkCompletion> {
        self.wait_for(wr_id, WcStatus::Success)
    }

    /// Posts a signaled work request.
    pub fn post(&mut self, wr_id: u64, op: SendOp, data: WrData<'_>) -> Outcome {
        post(&mut self.qp, wr_id, op, data)
    }

    pub fn recv(&mut self, wr_id: u64, sges: &[Sge]) -> Outcome {
        self.qp.post_recv(&[RecvWr { wr_id, sges }])?;
        Ok(())
    }

    /// A WRITE to a place of this side's region.
    pub fn write_here(&self, offset: u64) -> SendOp {
        write_to(&self.mr, offset)
    }

    /// A READ from there.
    pub fn read_here(&self, offset: u64) -> SendOp {
        let (remote_addr, rkey) = (self.mr.addr() + offset, self.mr.rkey());
        SendOp::RdmaRead { remote_addr, rkey }
    }
}

/// A WRITE to a place of a region.
pub fn write_to(mr: &Mr<Dev>, offset: u64) -> SendOp {
    let (remote_addr, rkey) = (mr.addr() + offset, mr.rkey());
    SendOp::RdmaWrite { remote_addr, rkey }
}

/// Posts a signaled work request.
pub fn post(qp: &mut RawQp<Dev>, wr_id: u64, op: SendOp, data: WrData<'_>) -> Outcome {
    let flags = SendFlags::SIGNALED;
    qp.post_send(&[SendWr {
        wr_id,
        op,
        flags,
        data,
    }])?;
    Ok(())
}

/// Connects two QPs.
pub fn connect(a: &mut RawQp<Dev>, b: &mut RawQp<Dev>) -> Outcome {
    let options = options();
    let infos = [peer_info(a, &options, 0)?, peer_info(b, &options, 0)?];
    connect_raw(a, &options, 0, &infos[1])?;
    connect_raw(b, &options, 0, &infos[0])?;
    Ok(())
}

/// Both sides, connected.
pub fn pair(ends: &Ends, memory_bytes: usize) -> Outcome<[Side; 2]> {
    let [a, b] = &ends.devices;
    let mut sides = [
        Side::open(a, ends.patience_ns, memory_bytes)?,
        Side::open(b, ends.patience_ns, memory_bytes)?,
    ];
    let [a, b] = &mut sides;
    connect(&mut a.qp, &mut b.qp)?;
    Ok(sides)
}

/// A few bytes go there and arrive.
pub fn check_traffic([a, b]: &mut [Side; 2]) -> Outcome {
    let bytes = a.memory.fill(0, 3000, 99);
    let sges = [a.mr.sge(0, 3000)];
    a.post(990, b.write_here(5), WrData::Sges(&sges))?;
    a.wait_ok(990)?;
    expect_bytes("a WRITE afterwards", &b.memory.read(5, 3000), &bytes)
}
