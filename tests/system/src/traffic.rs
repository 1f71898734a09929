//! Carries a plan out and judges what the cards do with it.

use std::collections::{HashMap, VecDeque};

use hca_abi::MAX_SGE;
use hca_link::LinkKind;
use hca_model::Atomic;
use hca_verbs::{
    Access, ConnectOptions, EventKind, Flush, Mr, Mtu, PageSize, QpAttr, QpAttrMask, QpCap, RawQp, RecvWr,
    SendFlags, SendOp, SendWr, Sge, WcOpcode, WcStatus, WorkCompletion, WrData, wc_flag,
};

use crate::arena::Arena;
use crate::intruder::Stranger;
use crate::judge::Judge;
use crate::node::{Dev, Place, path};
use crate::plan::{Area, INLINE_BYTES_MAX, Kind, Message, Pair, Piece, Plan};
use crate::rig::{Rig, RigError};
use crate::rng::Rng;

/// Bytes of canaries between two regions, at least.
const CANARY_BYTES: u64 = 64;
/// Virtual address of each node's arena.
const BASES: [u64; 2] = [0x1000_0000_0000, 0x2000_0000_0000];
/// Bit of a wr_id that marks a receive; the QP is above, the message below.
const RECV_BIT: u64 = 1 << 31;

/// One end of a connection at work.
struct EndRun {
    qp: RawQp<Dev>,
    /// By [`Area`]: where it is in the arena, and its key. Without atomics of the peer there are no words.
    areas: Vec<(u64, Mr<Dev>)>,
    /// By message: what the word of an atomic holds when its turn comes.
    found: HashMap<usize, u64>,
    /// Next message to post.
    next_send: usize,
    /// Messages before this one have completed.
    sends_done: usize,
    /// Messages posted and signaled, in order.
    sends_due: VecDeque<usize>,
    /// Messages of the peer that consume a receive: next to post, next to complete.
    receives: Vec<usize>,
    next_recv: usize,
    recvs_done: usize,
}

pub(crate) struct Traffic<'a> {
    plan: &'a Plan,
    arenas: [Arena; 2],
    ends: Vec<[EndRun; 2]>,
}

fn wrong(text: String) -> RigError {
    RigError::Wrong(text)
}

impl<'a> Traffic<'a> {
    /// Makes memory, regions and connections.
    pub fn new(rig: &mut Rig, seed: u64, plan: &'a Plan, judge: &Judge) -> Result<Self, RigError> {
        let mut rng = Rng::new(seed, "traffic");
        let mut offsets: [Vec<[u64; 3]>; 2] = Default::default();
        let mut arenas = Vec::new();
        for (node, offsets) in offsets.iter_mut().enumerate() {
            let mut at = 0;
            for pair in &plan.pairs {
                let end = &pair.ends[node];
                let [source, target] = [end.source_bytes, end.target_bytes].map(|len| {
                    let start = at + CANARY_BYTES + u64::from(rng.below(5000));
                    at = start + u64::from(len);
                    start
                });
                let words = (at + CANARY_BYTES).next_multiple_of(8);
                if end.words_bytes != 0 {
                    at = words + u64::from(end.words_bytes);
                }
                offsets.push([source, target, words]);
            }
            let buf = rig.nodes[node].alloc((at + CANARY_BYTES) as usize)?;
            arenas.push(Arena::new(buf, &mut rng));
        }
        let arenas = <[Arena; 2]>::try_from(arenas).unwrap_or_else(|_| unreachable!("two nodes"));
        let mut ends = Vec::new();
        for (index, pair) in plan.pairs.iter().enumerate() {
            let qps = connect(rig, &mut rng, plan, pair, judge)?;
            let mut runs = Vec::new();
            for (node, qp) in qps.into_iter().enumerate() {
                let starts = offsets[node][index];
                let areas = register(rig, &mut rng, node, &arenas[node], pair, starts)?;
                let peer = &pair.ends[1 - node].messages;
                let receives = (0..peer.len()).filter(|at| peer[*at].receives()).collect();
                runs.push(EndRun {
                    qp,
                    areas,
                    found: HashMap::new(),
                    next_send: 0,
                    sends_done: 0,
                    sends_due: VecDeque::new(),
                    receives,
                    next_recv: 0,
                    recvs_done: 0,
                });
            }
            ends.push(<[EndRun; 2]>::try_from(runs).unwrap_or_else(|_| unreachable!("two ends")));
        }
        let mut traffic = Self { plan, arenas, ends };
        traffic.expect_results();
        Ok(traffic)
    }

    /// All targets are disjoint and no source changes: the end is known before the start.
    fn expect_results(&mut self) {
        for (pair, runs) in self.plan.pairs.iter().zip(&mut self.ends) {
            for node in 0..2 {
                for (index, message) in pair.ends[node].messages.iter().enumerate() {
                    if message.kind.is_atomic() {
                        let found = expect_atomic(&mut self.arenas, runs, node, message);
                        runs[node].found.insert(index, found);
                        continue;
                    }
                    let (from, to) = if message.kind == Kind::Read {
                        (1 - node, node)
                    } else {
                        (node, 1 - node)
                    };
                    let source = runs[from].areas[Area::Source as usize].0;
                    let target = runs[to].areas[Area::Target as usize].0;
                    let remote = std::slice::from_ref(&message.remote);
                    let (read, write) = match message.kind {
                        Kind::Read => (remote, &message.local[..]),
                        Kind::Write | Kind::WriteImm => (&message.local[..], remote),
                        _ => (&message.local[..], &message.receive[..]),
                    };
                    let bytes = gather(&self.arenas[from], source, read);
                    scatter(&mut self.arenas[to], target, write, &bytes);
                }
            }
        }
    }

    /// QPs of a node, as one who must not speak to them knows them.
    pub fn strangers(&self, node: usize) -> Vec<Stranger> {
        let pairs = self.ends.iter().zip(&self.plan.pairs);
        pairs
            .map(|(ends, pair)| Stranger {
                qpn: ends[node].qp.qp_num(),
                psn: pair.ends[1 - node].start_psn,
            })
            .collect()
    }

    /// Takes completions and posts what there is room for. False: nothing changed.
    pub fn turn(&mut self, rig: &mut Rig) -> Result<bool, RigError> {
        let mut changed = false;
        for node in 0..2 {
            while let Some(completion) = rig.nodes[node].poll()? {
                self.judge(node, &completion)?;
                changed = true;
            }
            if let Some(event) = rig.nodes[node].context.poll_async_event()
                && event.kind != EventKind::CommEst
            {
                return Err(wrong(format!(
                    "node {node}: event {:?} about {:#x}",
                    event.kind, event.id
                )));
            }
            for pair in 0..self.ends.len() {
                changed |= self.post_recvs(node, pair)?;
                changed |= self.post_sends(node, pair)?;
            }
        }
        Ok(changed)
    }

    fn post_recvs(&mut self, node: usize, pair: usize) -> Result<bool, RigError> {
        let plan = &self.plan.pairs[pair];
        let run = &mut self.ends[pair][node];
        let depth = plan.ends[node].recv_depth as usize;
        let mut posted = false;
        while run.next_recv < run.receives.len() && run.next_recv - run.recvs_done < depth {
            let message = &plan.ends[1 - node].messages[run.receives[run.next_recv]];
            let sges = sges(&run.areas[Area::Target as usize].1, &message.receive);
            let wr_id = (pair as u64) << 32 | RECV_BIT | run.next_recv as u64;
            run.qp.post_recv(&[RecvWr { wr_id, sges: &sges }])?;
            run.next_recv += 1;
            posted = true;
        }
        Ok(posted)
    }

    fn post_sends(&mut self, node: usize, pair: usize) -> Result<bool, RigError> {
        let [first, second] = &mut self.ends[pair];
        let (run, peer) = if node == 0 {
            (first, second)
        } else {
            (second, first)
        };
        let end = &self.plan.pairs[pair].ends[node];
        let room = end.send_depth as usize - (run.next_send - run.sends_done);
        let count = room
            .min(end.burst as usize)
            .min(end.messages.len() - run.next_send);
        if count == 0 {
            return Ok(false);
        }
        let messages = &end.messages[run.next_send..][..count];
        let mut inline = Vec::new();
        let mut lists = Vec::new();
        for message in messages {
            let (start, region) = &run.areas[message.kind.local_area() as usize];
            inline.push(match message.kind {
                Kind::Store(value) => value.to_le_bytes().to_vec(),
                _ if message.inline => gather(&self.arenas[node], *start, &message.local),
                _ => Vec::new(),
            });
            lists.push(sges(region, &message.local));
        }
        let mut wrs = Vec::new();
        for (at, message) in messages.iter().enumerate() {
            let index = run.next_send + at;
            if message.signaled {
                run.sends_due.push_back(index);
            }
            let data = if message.inline {
                WrData::Inline(&inline[at])
            } else {
                WrData::Sges(&lists[at])
            };
            let flags = SendFlags {
                signaled: message.signaled,
                solicited: message.solicited,
                fence: message.fence,
                ip_csum: false,
            };
            let wr_id = (pair as u64) << 32 | index as u64;
            wrs.push(SendWr {
                wr_id,
                op: operation(message, peer, run.found.get(&index).copied().unwrap_or_default()),
                flags,
                data,
            });
        }
        run.qp.post_send(&wrs)?;
        run.next_send += count;
        Ok(true)
    }

    /// One completion: is it the next one due, and does it say what it must?
    fn judge(&mut self, node: usize, wc: &WorkCompletion) -> Result<(), RigError> {
        let wr_id = wc.wr_id;
        let pair = (wr_id >> 32) as usize;
        let here = format!("node {node}, QP {:#x}, work request {:#x}", wc.qp_num, wr_id);
        if wc.status != WcStatus::Success {
            return Err(wrong(format!(
                "{here}: status {:?}, vendor code {:#x}",
                wc.status, wc.vendor_err
            )));
        }
        let run = &mut self.ends[pair][node];
        if run.qp.qp_num() != wc.qp_num {
            return Err(wrong(format!(
                "{here}: the work request belongs to QP {:#x}",
                run.qp.qp_num()
            )));
        }
        let plan = &self.plan.pairs[pair];
        if wr_id & RECV_BIT == 0 {
            let due = run.sends_due.pop_front();
            if due != Some(wr_id as u32 as usize) {
                return Err(wrong(format!("{here}: completed, but message {due:?} was due")));
            }
            run.sends_done = wr_id as u32 as usize + 1;
            let message = &plan.ends[node].messages[wr_id as u32 as usize];
            return judge_send(&here, message, wc);
        }
        let index = (wr_id & (RECV_BIT - 1)) as usize;
        if index != run.recvs_done {
            return Err(wrong(format!(
                "{here}: completed, but receive {} was due",
                run.recvs_done
            )));
        }
        run.recvs_done += 1;
        let message = &plan.ends[1 - node].messages[run.receives[index]];
        judge_recv(&here, message, wc)?;
        // The data must be there before the completion (law 4 of the card).
        let target = run.areas[Area::Target as usize].0;
        let there = match message.kind {
            Kind::WriteImm => std::slice::from_ref(&message.remote),
            _ => &message.receive[..],
        };
        let all = there
            .iter()
            .all(|piece| self.arenas[node].holds(target + u64::from(piece.offset), piece.len));
        if all {
            Ok(())
        } else {
            Err(wrong(format!(
                "{here}: completed before its data was there, or it is wrong"
            )))
        }
    }

    /// Changes that no work request may notice (V-63, QPS-18): a completion queue gets a larger ring, a QP in RTS
    /// another RNR timer.
    pub fn change(&mut self, rig: &Rig, turn: u32) -> Result<(), RigError> {
        const CQE_MAX: u32 = 1 << 15;
        let node = turn as usize % 2;
        let cq = &rig.nodes[node].cq;
        if cq.cqe() < CQE_MAX && turn.is_multiple_of(3) {
            cq.resize(2 * cq.cqe())?;
        }
        if self.ends.is_empty() {
            return Ok(());
        }
        let pair = turn as usize / 2 % self.ends.len();
        let attr = QpAttr {
            min_rnr_timer: (turn % 4) as u8 + 1,
            ..QpAttr::default()
        };
        Ok(self.ends[pair][node]
            .qp
            .modify(&attr, QpAttrMask::MIN_RNR_TIMER)?)
    }

    pub fn is_done(&self) -> bool {
        self.plan.pairs.iter().zip(&self.ends).all(|(plan, runs)| {
            runs.iter().zip(&plan.ends).all(|(run, end)| {
                run.next_send == end.messages.len()
                    && run.sends_due.is_empty()
                    && run.recvs_done == run.receives.len()
            })
        })
    }

    /// What is not done yet, for the message of a failure.
    pub fn missing(&self) -> String {
        let mut text = Vec::new();
        for (pair, (plan, runs)) in self.plan.pairs.iter().zip(&self.ends).enumerate() {
            for (node, (run, end)) in runs.iter().zip(&plan.ends).enumerate() {
                let sends = (end.messages.len() - run.next_send, run.sends_due.len());
                let recvs = run.receives.len() - run.recvs_done;
                if sends != (0, 0) || recvs != 0 {
                    let due = run
                        .sends_due
                        .front()
                        .map(|at| (at, end.messages[*at].kind, end.messages[*at].len));
                    text.push(format!(
                        "pair {pair} node {node} QP {:#x}: {} unposted, {} signaled due (next {due:?}), \
                         {recvs} receives",
                        run.qp.qp_num(),
                        sends.0,
                        sends.1
                    ));
                }
            }
        }
        format!("completion of [{}]", text.join("; "))
    }

    /// After everything has completed and the cards are at rest.
    pub fn check_end(&mut self, rig: &mut Rig) -> Result<(), RigError> {
        for node in 0..2 {
            if let Some(extra) = rig.nodes[node].poll()? {
                return Err(wrong(format!(
                    "node {node}: a completion too many, work request {:#x}",
                    extra.wr_id
                )));
            }
            if let Some((at, found, wanted)) = self.arenas[node].first_difference() {
                let place = self.place(node, at as u64);
                return Err(wrong(format!(
                    "node {node}: byte {at:#x} of its memory is {found:#04x} instead of {wanted:#04x}: {place}"
                )));
            }
        }
        Ok(())
    }

    /// What lies at a place of an arena.
    fn place(&self, node: usize, at: u64) -> String {
        for (pair, runs) in self.ends.iter().enumerate() {
            for (area, (start, region)) in runs[node].areas.iter().enumerate() {
                if (*start..*start + region.length()).contains(&at) {
                    let name = ["source", "target", "words"][area];
                    return format!("offset {:#x} of the {name} area of pair {pair}", at - start);
                }
            }
        }
        "outside all regions".to_owned()
    }

    pub fn messages(&self) -> u64 {
        self.all_messages().count() as u64
    }

    pub fn bytes(&self) -> u64 {
        self.all_messages().map(|message| u64::from(message.len)).sum()
    }

    fn all_messages(&self) -> impl Iterator<Item = &Message> {
        self.plan
            .pairs
            .iter()
            .flat_map(|pair| &pair.ends)
            .flat_map(|end| &end.messages)
    }
}

fn connect(
    rig: &Rig,
    rng: &mut Rng,
    plan: &Plan,
    pair: &Pair,
    judge: &Judge,
) -> Result<[RawQp<Dev>; 2], RigError> {
    let mtu = match pair.mtu_bytes {
        256 => Mtu::Bytes256,
        512 => Mtu::Bytes512,
        1024 => Mtu::Bytes1024,
        2048 => Mtu::Bytes2048,
        _ => Mtu::Bytes4096,
    };
    // RoCE over IPv4 or IPv6; InfiniBand with GRH or without.
    let gid_index = match (plan.link, rng.percent(30)) {
        (LinkKind::Ethernet, false) => Some(1),
        (LinkKind::Ethernet, true) | (LinkKind::InfiniBand, true) => Some(0),
        (LinkKind::InfiniBand, false) => None,
    };
    let caps = [0, 1].map(|node: usize| QpCap {
        max_send_wr: pair.ends[node].send_depth,
        max_recv_wr: pair.ends[node].recv_depth,
        max_send_sge: MAX_SGE,
        max_recv_sge: MAX_SGE,
        max_inline_data: INLINE_BYTES_MAX,
    });
    let psns = (pair.ends[0].start_psn, pair.ends[1].start_psn);
    let options = ConnectOptions {
        psns,
        gid_index,
        rd_atomic: pair.rd_atomic,
        timeout: plan.swarm.ack_timeout(),
        selective_repeat: plan.selective,
        ..path(mtu)
    };
    let sig_all = [0, 1].map(|node: usize| pair.ends[node].sig_all);
    let qps = rig.connect(caps, sig_all, &options)?;
    let qpns = [qps[0].qp_num(), qps[1].qp_num()];
    judge.connect(hca_model::Service::Rc, qpns, &options);
    Ok(qps)
}

/// Registers both areas of an end.
fn register(
    rig: &Rig,
    rng: &mut Rng,
    node: usize,
    arena: &Arena,
    pair: &Pair,
    starts: [u64; 3],
) -> Result<Vec<(u64, Mr<Dev>)>, RigError> {
    let end = &pair.ends[node];
    let mut area = |offset, len: u32, access| -> Result<(u64, Mr<Dev>), RigError> {
        let page_size = rng.pick(&[PageSize::Direct, PageSize::KiB4]);
        let place = Place {
            offset,
            len: len.into(),
            access,
            page_size,
            base: BASES[node],
        };
        Ok((offset, rig.nodes[node].register(arena.buf(), place)?))
    };
    let mut areas = vec![
        area(starts[0], end.source_bytes, Access::REMOTE_READ)?,
        area(
            starts[1],
            end.target_bytes,
            Access::LOCAL_WRITE | Access::REMOTE_WRITE,
        )?,
    ];
    if end.words_bytes != 0 {
        let rights =
            Access::LOCAL_WRITE | Access::REMOTE_WRITE | Access::REMOTE_ATOMIC | Access::FLUSH_GLOBAL;
        areas.push(area(starts[2], end.words_bytes, rights)?);
    }
    Ok(areas)
}

fn sges(region: &Mr<Dev>, pieces: &[Piece]) -> Vec<Sge> {
    pieces
        .iter()
        .map(|piece| region.sge(piece.offset.into(), piece.len))
        .collect()
}

fn gather(arena: &Arena, start: u64, pieces: &[Piece]) -> Vec<u8> {
    let pieces = pieces
        .iter()
        .map(|piece| arena.expected(start + u64::from(piece.offset), piece.len));
    pieces.collect::<Vec<_>>().concat()
}

fn scatter(arena: &mut Arena, start: u64, pieces: &[Piece], mut bytes: &[u8]) {
    for piece in pieces {
        let (now, rest) = bytes.split_at((piece.len as usize).min(bytes.len()));
        arena.expect(start + u64::from(piece.offset), now);
        bytes = rest;
    }
}

/// What an atomic of a node leaves at both ends; returns what it finds. A word has one QP that changes it, in order.
fn expect_atomic(arenas: &mut [Arena; 2], runs: &[EndRun; 2], node: usize, message: &Message) -> u64 {
    let at = runs[1 - node].areas[Area::Words as usize].0 + u64::from(message.remote.offset);
    let mut word = [0; 8];
    word.copy_from_slice(arenas[1 - node].expected(at, 8));
    let found = u64::from_le_bytes(word);
    let left = match message.kind {
        Kind::FetchAdd(add) => found.wrapping_add(add),
        Kind::CmpSwap { hit: true, swap } => swap,
        Kind::MaskedAdd { add, boundaries } => Atomic::MaskedFetchAdd { add, boundaries }.apply(found),
        Kind::MaskedSwap {
            hit: true,
            swap,
            swap_mask,
            ..
        } => found & !swap_mask | swap & swap_mask,
        Kind::Store(value) => value,
        _ => found,
    };
    arenas[1 - node].expect(at, &left.to_le_bytes());
    let target = runs[node].areas[Area::Target as usize].0;
    scatter(&mut arenas[node], target, &message.local, &word);
    found
}

/// `found`: what the word of an atomic holds by then.
fn operation(message: &Message, peer: &EndRun, found: u64) -> SendOp {
    let imm_data = message.imm;
    let at = |area: Area| {
        let region = &peer.areas[area as usize].1;
        (region.addr() + u64::from(message.remote.offset), region.rkey())
    };
    match message.kind {
        Kind::Send => SendOp::Send,
        Kind::SendImm => SendOp::SendWithImm { imm_data },
        Kind::Write => {
            let (remote_addr, rkey) = at(Area::Target);
            SendOp::RdmaWrite { remote_addr, rkey }
        }
        Kind::WriteImm => {
            let (remote_addr, rkey) = at(Area::Target);
            SendOp::RdmaWriteWithImm {
                remote_addr,
                rkey,
                imm_data,
            }
        }
        Kind::Read => {
            let (remote_addr, rkey) = at(Area::Source);
            SendOp::RdmaRead { remote_addr, rkey }
        }
        Kind::FetchAdd(add) => {
            let (remote_addr, rkey) = at(Area::Words);
            SendOp::AtomicFetchAndAdd {
                remote_addr,
                rkey,
                add,
            }
        }
        Kind::CmpSwap { hit, swap } => {
            let (remote_addr, rkey) = at(Area::Words);
            SendOp::AtomicCmpAndSwp {
                remote_addr,
                rkey,
                compare: if hit { found } else { !found },
                swap,
            }
        }
        Kind::MaskedAdd { add, boundaries } => {
            let (remote_addr, rkey) = at(Area::Words);
            SendOp::MaskedAtomicFetchAndAdd {
                remote_addr,
                rkey,
                add,
                boundaries,
            }
        }
        Kind::MaskedSwap {
            hit,
            swap,
            compare_mask,
            swap_mask,
        } => {
            let (remote_addr, rkey) = at(Area::Words);
            SendOp::MaskedAtomicCmpAndSwp {
                remote_addr,
                rkey,
                compare: if hit { found ^ !compare_mask } else { !found },
                swap,
                compare_mask,
                swap_mask,
            }
        }
        Kind::Store(_) => {
            let (remote_addr, rkey) = at(Area::Words);
            SendOp::AtomicWrite { remote_addr, rkey }
        }
        Kind::Flush { whole } => {
            let (remote_addr, rkey) = at(Area::Words);
            SendOp::Flush(Flush {
                remote_addr,
                rkey,
                length: message.remote.len,
                placement: Flush::GLOBAL,
                whole_region: whole,
            })
        }
    }
}

fn judge_send(here: &str, message: &Message, wc: &WorkCompletion) -> Result<(), RigError> {
    let opcode = match message.kind {
        Kind::Send | Kind::SendImm => WcOpcode::Send,
        Kind::Write | Kind::WriteImm => WcOpcode::RdmaWrite,
        Kind::Read => WcOpcode::RdmaRead,
        Kind::FetchAdd(_) => WcOpcode::FetchAdd,
        Kind::CmpSwap { .. } => WcOpcode::CompSwap,
        Kind::MaskedAdd { .. } => WcOpcode::MaskedFetchAdd,
        Kind::MaskedSwap { .. } => WcOpcode::MaskedCompSwap,
        Kind::Store(_) => WcOpcode::AtomicWrite,
        Kind::Flush { .. } => WcOpcode::Flush,
    };
    if wc.opcode != opcode {
        return Err(wrong(format!(
            "{here}: opcode {:?} instead of {opcode:?}",
            wc.opcode
        )));
    }
    if (message.kind == Kind::Read || message.kind.is_atomic()) && wc.byte_len != message.len {
        return Err(wrong(format!(
            "{here}: byte_len {} instead of {}",
            wc.byte_len, message.len
        )));
    }
    Ok(())
}

fn judge_recv(here: &str, message: &Message, wc: &WorkCompletion) -> Result<(), RigError> {
    let (opcode, imm) = match message.kind {
        Kind::WriteImm => (WcOpcode::RecvRdmaWithImm, true),
        kind => (WcOpcode::Recv, kind == Kind::SendImm),
    };
    if (wc.opcode, wc.byte_len) != (opcode, message.len) {
        let found = (wc.opcode, wc.byte_len);
        return Err(wrong(format!(
            "{here}: {found:?} instead of {opcode:?}, {} bytes",
            message.len
        )));
    }
    let flagged = wc.wc_flags & wc_flag::WITH_IMM != 0;
    if flagged != imm || (imm && wc.imm_data != message.imm) {
        return Err(wrong(format!(
            "{here}: immediate {flagged} {:#x} instead of {imm} {:#x}",
            wc.imm_data, message.imm
        )));
    }
    Ok(())
}
