//! What programs do to their own objects while work is under way: destroy, deregister, take rights away, modify, die.
//! Function 1 of both cards; the traffic of function 0 must not notice.

use hca_dev::DmaBuf;
use hca_verbs::{
    Access, ConnectOptions, Mr, Mtu, QpCap, QpState, RawQp, SendFlags, SendOp, SendWr, Service, Srq,
    WcStatus, WrData, XrcTarget, connect_xrc,
};

use crate::arena::Arena;
use crate::node::{Dev, Node, Place, connect, path};
use crate::rig::{Rig, RigError};
use crate::rng::Rng;

/// The function whose program does it.
pub(crate) const FUNC: u8 = 1;
/// Bytes of a message; slot n of one side's source goes to slot n of the other side's target, however often.
const SLOT_BYTES: u32 = 1500;
const SLOTS: u32 = 16;
const AREA_BYTES: u64 = SLOT_BYTES as u64 * SLOTS as u64;
/// Nobody may touch these, in front of, between and behind both areas.
const CANARY_BYTES: u64 = 333;
const SOURCE: u64 = CANARY_BYTES;
const TARGET: u64 = 2 * CANARY_BYTES + AREA_BYTES;
const BASES: [u64; 2] = [0x3000_0000_0000, 0x4000_0000_0000];
const OUTSTANDING_MAX: u64 = 8;
/// All retries of all work requests are over by then.
const LIMIT_CYCLES: u64 = 40_000_000;

/// What happens, and whether to the end that asks or to the other one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Deed {
    /// ibv_destroy_qp.
    Destroy,
    /// ibv_dereg_mr of the region that is written to.
    Deregister,
    /// ibv_rereg_mr to no rights.
    Revoke,
    /// To ERR.
    Error,
    /// To RESET.
    Reset,
    /// The program ends: it takes its objects away, and its function is reset.
    Death,
    /// The program is killed: its function is reset in the middle of everything.
    Kill,
}

/// When what happens to whom.
#[derive(Clone, Copy, Debug)]
pub(crate) struct UpheavalPlan {
    /// RC, UC or XRC.
    pub service: Service,
    pub deed: Deed,
    /// End that it happens to.
    pub node: usize,
    /// End that posts.
    pub requester: usize,
    /// After so many completions.
    pub after: u64,
    /// READs instead of WRITEs in so many of 100.
    pub reads_percent: u32,
}

impl UpheavalPlan {
    pub fn draw(rng: &mut Rng) -> Self {
        use Deed::{Death, Deregister, Destroy, Error, Kill, Reset, Revoke};
        let service = rng.pick(&[Service::Rc, Service::Rc, Service::Uc, Service::Xrc]);
        let reads_percent = rng.pick(&[0, 50, 100]);
        Self {
            service,
            deed: rng.pick(&[Destroy, Deregister, Revoke, Error, Reset, Death, Kill]),
            node: rng.below(2) as usize,
            requester: rng.below(2) as usize,
            after: rng.between(1, 30).into(),
            reads_percent: if service == Service::Uc { 0 } else { reads_percent },
        }
    }
}

enum EndQp {
    Qp(Box<RawQp<Dev>>),
    /// With what peers name in all that they send.
    Target(XrcTarget<Dev>, Srq<Dev>),
}

impl EndQp {
    fn destroy(&mut self) -> Result<(), RigError> {
        match self {
            Self::Qp(qp) => qp.destroy()?,
            Self::Target(target, ..) => target.destroy()?,
        }
        Ok(())
    }

    fn modify_state(&mut self, state: QpState) -> Result<(), RigError> {
        match self {
            Self::Qp(qp) => qp.modify_state(state)?,
            Self::Target(target, ..) => target.modify_state(state)?,
        }
        Ok(())
    }

    fn srqn(&self) -> Option<u32> {
        match self {
            Self::Qp(_) => None,
            Self::Target(_, srq) => srq.number(),
        }
    }
}

/// Two connected ends; of XRC the requester is the initiator.
fn make_qps(
    nodes: &[Node; 2],
    plan: &UpheavalPlan,
    options: &ConnectOptions,
) -> Result<[EndQp; 2], RigError> {
    let cap = QpCap {
        max_send_wr: OUTSTANDING_MAX as u32,
        ..QpCap::default()
    };
    let make = |node: usize| nodes[node].create_qp_of(plan.service, cap, true);
    if plan.service != Service::Xrc {
        let mut qps = [make(0)?, make(1)?];
        connect(&mut qps, options)?;
        return Ok(qps.map(|qp| EndQp::Qp(Box::new(qp))));
    }
    let peer = &nodes[1 - plan.requester];
    let xrcd = peer.context.alloc_xrcd()?;
    let srq = peer.pd.create_xrc_srq(&xrcd, &peer.cq, 1, 1)?;
    let (mut initiator, mut target) = (make(plan.requester)?, xrcd.create_target()?);
    connect_xrc(&mut initiator, &mut target, options)?;
    let ends = [EndQp::Qp(Box::new(initiator)), EndQp::Target(target, srq)];
    let [from, to] = ends;
    Ok(if plan.requester == 0 {
        [from, to]
    } else {
        [to, from]
    })
}

struct End {
    qp: EndQp,
    source: Mr<Dev>,
    target: Mr<Dev>,
    node: Node,
}

pub(crate) struct Upheaval {
    plan: UpheavalPlan,
    rng: Rng,
    /// None: it has died.
    ends: [Option<End>; 2],
    /// Outlives regions and queues: what is written after the command that took them away has returned is seen there.
    memory: [Arena; 2],
    posted: u64,
    done: u64,
    failed: bool,
    happened: bool,
    /// Node and what its memory held when the deed was done.
    frozen: Option<(usize, Vec<u8>)>,
}

fn wrong(text: String) -> RigError {
    RigError::Wrong(format!("upheaval: {text}"))
}

impl Upheaval {
    /// `timeout`: [`Swarm::ack_timeout`](crate::plan::Swarm::ack_timeout).
    pub fn new(rig: &Rig, seed: u64, plan: UpheavalPlan, timeout: u8) -> Result<Self, RigError> {
        let mut rng = Rng::new(seed, "upheaval");
        let open = |card| -> Result<Node, RigError> { Ok(Node::open(rig.sim.device(card, FUNC)?, 64)?) };
        let nodes = [open(rig.cards[0])?, open(rig.cards[1])?];
        let options = ConnectOptions {
            rd_atomic: 4,
            timeout,
            ..path(rng.pick(&[Mtu::Bytes256, Mtu::Bytes1024]))
        };
        let qps = make_qps(&nodes, &plan, &options)?;
        let buf = |node: &Node| node.alloc((3 * CANARY_BYTES + 2 * AREA_BYTES) as usize);
        let memory = [
            Arena::new(buf(&nodes[0])?, &mut rng),
            Arena::new(buf(&nodes[1])?, &mut rng),
        ];
        let mut ends = Vec::new();
        for (index, (node, qp)) in nodes.into_iter().zip(qps).enumerate() {
            let area = |offset, access| {
                let place = Place {
                    offset,
                    len: AREA_BYTES,
                    ..Place::whole(memory[index].buf(), access, BASES[index])
                };
                node.register(memory[index].buf(), place)
            };
            let source = area(SOURCE, Access::REMOTE_READ)?;
            let target = area(TARGET, Access::LOCAL_WRITE | Access::REMOTE_WRITE)?;
            ends.push(Some(End {
                qp,
                source,
                target,
                node,
            }));
        }
        Ok(Self {
            plan,
            rng,
            ends: <[_; 2]>::try_from(ends).unwrap_or_else(|_| unreachable!("two ends")),
            memory,
            posted: 0,
            done: 0,
            failed: false,
            happened: false,
            frozen: None,
        })
    }

    /// Posts, takes completions, and does the deed when its moment has come.
    pub fn turn(&mut self) -> Result<bool, RigError> {
        let mut changed = self.take_completions()?;
        if !self.happened && self.done >= self.plan.after {
            self.happen()?;
            changed = true;
        }
        if !self.happened {
            changed |= self.post()?;
        }
        Ok(changed)
    }

    fn post(&mut self) -> Result<bool, RigError> {
        let before = self.posted;
        while self.posted - self.done < OUTSTANDING_MAX {
            let is_read = self.rng.percent(self.plan.reads_percent);
            let at = self.slot(self.posted);
            let [Some(a), Some(b)] = &mut self.ends else {
                return Ok(false);
            };
            let (from, to) = if self.plan.requester == 0 { (a, b) } else { (b, a) };
            let (local, op) = if is_read {
                let (remote_addr, rkey) = (to.source.addr() + at, to.source.rkey());
                (
                    from.target.sge(at, SLOT_BYTES),
                    SendOp::RdmaRead { remote_addr, rkey },
                )
            } else {
                let (remote_addr, rkey) = (to.target.addr() + at, to.target.rkey());
                (
                    from.source.sge(at, SLOT_BYTES),
                    SendOp::RdmaWrite { remote_addr, rkey },
                )
            };
            let sges = [local];
            let wr = SendWr {
                wr_id: self.posted,
                op,
                flags: SendFlags::SIGNALED,
                data: WrData::Sges(&sges),
            };
            match (&mut from.qp, to.qp.srqn()) {
                (EndQp::Qp(qp), Some(srqn)) => qp.post_send_xrc([(wr, srqn)])?,
                (EndQp::Qp(qp), None) => qp.post_send(&[wr])?,
                (EndQp::Target(..), _) => return Err(wrong("a target is to send".to_owned())),
            }
            self.posted += 1;
        }
        Ok(self.posted > before)
    }

    fn slot(&self, index: u64) -> u64 {
        index % u64::from(SLOTS) * u64::from(SLOT_BYTES)
    }

    /// V-112, QPS-16: each work request completes once, in order; after the first that fails all are flushed.
    fn take_completions(&mut self) -> Result<bool, RigError> {
        let mut changed = false;
        for (index, end) in self.ends.iter().enumerate() {
            let Some(end) = end else { continue };
            while end.node.context.poll_async_event().is_some() {}
            while let Some(wc) = end.node.poll_ready()? {
                changed = true;
                let here = format!("node {index}, {:?}: {wc:?}", self.plan);
                if index != self.plan.requester || wc.wr_id != self.done || self.done == self.posted {
                    return Err(wrong(format!("{here}, but work request {} was due", self.done)));
                }
                if wc.status != WcStatus::Success && !self.happened {
                    return Err(wrong(format!("{here}, before anything happened")));
                }
                if self.failed && wc.status != WcStatus::WrFlushErr {
                    return Err(wrong(format!("{here}, after one has failed")));
                }
                self.failed |= wc.status != WcStatus::Success;
                self.done += 1;
            }
        }
        Ok(changed)
    }

    fn happen(&mut self) -> Result<(), RigError> {
        self.happened = true;
        let UpheavalPlan { deed, node, .. } = self.plan;
        let Some(end) = &mut self.ends[node] else {
            return Ok(());
        };
        match deed {
            Deed::Destroy => end.qp.destroy()?,
            Deed::Deregister => end.target.destroy()?,
            Deed::Revoke => end.target.modify(&end.node.pd, Access::from_bits(0))?,
            Deed::Error => end.qp.modify_state(QpState::Err)?,
            Deed::Reset => end.qp.modify_state(QpState::Reset)?,
            Deed::Death => self.ends[node] = None,
            Deed::Kill => {
                let killed = end.node.context.function().reset_func();
                killed.map_err(hca_verbs::Error::from)?;
                // What it had, and takes away now, is not there any more.
                self.ends[node] = None;
            }
        }
        if deed != Deed::Error {
            self.frozen = Some((node, bytes_of(self.memory[node].buf())));
        }
        if node == self.plan.requester
            && matches!(deed, Deed::Destroy | Deed::Reset | Deed::Death | Deed::Kill)
        {
            // Its outstanding work requests are gone with it, and so are completions not yet polled.
            self.done = self.posted;
        }
        Ok(())
    }

    /// After the traffic: whatever is under way completes.
    pub fn end(&mut self, rig: &mut Rig) -> Result<(), RigError> {
        let end = rig.now_cycles() + LIMIT_CYCLES;
        while !self.happened || self.done < self.posted {
            if !self.turn()? {
                rig.progress();
            }
            if rig.now_cycles() > end {
                let what = format!("{:?}: completion {} of {}", self.plan, self.done, self.posted);
                return Err(RigError::Late {
                    what,
                    limit_ns: LIMIT_CYCLES * 4,
                });
            }
        }
        Ok(())
    }

    /// When the cards are at rest: nothing more has come, and memory holds what it may.
    pub fn check_end(&mut self) -> Result<(), RigError> {
        self.take_completions()?;
        for node in 0..2 {
            let found = bytes_of(self.memory[node].buf());
            let source = self.memory[1 - node].expected(SOURCE, AREA_BYTES as u32);
            let old = self.memory[node].expected(0, found.len() as u32);
            let is_new = |at: usize| {
                (at as u64)
                    .checked_sub(TARGET)
                    .and_then(|at| source.get(at as usize))
            };
            let at = (0..found.len()).find(|at| found[*at] != old[*at] && is_new(*at) != Some(&found[*at]));
            if let Some(at) = at {
                return Err(wrong(format!(
                    "{:?}: node {node}, byte {at:#x} is nobody's",
                    self.plan
                )));
            }
            if let Some((frozen, then)) = &self.frozen
                && *frozen == node
                && let Some(at) = then.iter().zip(&found).position(|(then, now)| then != now)
                && !self.stays_writable(at as u64)
            {
                return Err(wrong(format!(
                    "{:?}: node {node}, byte {at:#x} was written after the command had returned",
                    self.plan
                )));
            }
        }
        Ok(())
    }

    /// The deed has not taken away the right to write there.
    fn stays_writable(&self, at: u64) -> bool {
        let in_target = (TARGET..TARGET + AREA_BYTES).contains(&at);
        // Deregistered and revoked is the target; queues that are gone touch nothing at all.
        !in_target && matches!(self.plan.deed, Deed::Deregister | Deed::Revoke)
    }
}

fn bytes_of(buf: &DmaBuf) -> Vec<u8> {
    let mut bytes = vec![0; buf.len_bytes()];
    buf.read_bytes(0, &mut bytes);
    bytes
}
