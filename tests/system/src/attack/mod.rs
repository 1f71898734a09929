//! A client that does everything wrong, at random, on one function: commands, doorbells, rings, memory that goes away,
//! resets. What it does is a question of its seed alone. It knows the driver's contract well, or it would not get deep.

mod commands;

use std::collections::VecDeque;

use hca_abi::table::FieldValue;
use hca_abi::{
    AdminCmd, AdminCpl, AdminOpcode, AdminStatus, BAR0_BYTES, CQ_DOORBELL_OFFSET, CqDoorbell,
    DOORBELL_PAGE_BYTES, DOORBELL_PAGE_OFFSET, EQ_DOORBELL_OFFSET, EqDoorbell, HandleResult, MAX_SGE,
    RQ_DOORBELL_OFFSET, RqWqeCtrl, SQ_DOORBELL_OFFSET, Sge, SqDoorbell, SqWqeCtrl, WrOpcode,
};
use hca_dev::{Device, DmaBuf};
use hca_regs as reg;

use crate::node::Dev;
use crate::rig::RigError;
use crate::rng::Rng;
use commands::{Body, Known, one_of, sound, spoil, table_of};

/// Buffers that everything lies in: rings, lists, data.
const BUFFERS: usize = 6;
const BUFFER_BYTES: usize = 16 << 10;
/// Bytes between the places that are given out: all rings fit in behind one.
const LINE_BYTES: u64 = 512;
/// Entries of the admin rings.
const ADMIN_LOG_SIZE: u8 = 4;
const ADMIN_RING_BYTES: usize = 256 << ADMIN_LOG_SIZE;
/// Turns of looking at a reset before it counts as one that does not end.
const RESET_LOOKS: u32 = 200_000;
/// Attempts in a row without an answer after which the client starts again.
const SILENCE: u32 = 64;

/// Memory of the client; what is in it is random.
#[derive(Debug)]
pub(crate) struct Buffers(Vec<DmaBuf>);

impl Buffers {
    fn pick(&self, rng: &mut Rng) -> &DmaBuf {
        &self.0[rng.below(self.0.len() as u32) as usize]
    }

    /// Bus address of a place for a ring, 512 bytes aligned.
    fn line(&self, rng: &mut Rng) -> u64 {
        let lines = BUFFER_BYTES as u64 / LINE_BYTES / 2;
        self.pick(rng).iova() + u64::from(rng.below(lines as u32)) * LINE_BYTES
    }

    /// First address and length of a piece.
    fn range(&self, rng: &mut Rng) -> (u64, u64) {
        let (buf, start) = (self.pick(rng), u64::from(rng.below(BUFFER_BYTES as u32)));
        let len = 1 + u64::from(rng.below((BUFFER_BYTES as u64 - start) as u32));
        (buf.iova() + start, len)
    }
}

/// Where its packets go: a card, and QPs there that belong to an accomplice.
#[derive(Clone, Debug, Default)]
pub struct Target {
    /// GID of the port.
    pub dgid: [u8; 16],
    /// MAC address of the port.
    pub dmac: [u8; 6],
    /// LID of the port.
    pub dlid: u16,
    /// QPs that may be disturbed.
    pub qpns: Vec<u32>,
    /// Regions that may be written to: key, address.
    pub regions: Vec<(u32, u64)>,
}

impl Target {
    /// A QP of the accomplice, or one that nobody has.
    fn qpn(&self, rng: &mut Rng) -> u32 {
        if self.qpns.is_empty() || rng.percent(10) {
            rng.between(0x400, 0xff_fffe)
        } else {
            rng.pick(&self.qpns)
        }
    }
}

/// A ring that the client knows of: QP, where it is, log2 of entries and of the stride over 64.
#[derive(Clone, Copy, Debug)]
struct Ring {
    qpn: u32,
    base: u64,
    log_size: u8,
    log_stride: u8,
    next: u16,
}

/// What it does, and how often in 100 operations each; a seed leaves some out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Deed {
    Command,
    Garbage,
    Doorbell,
    Register,
    SendWork,
    RecvWork,
    Scribble,
    Unmap,
    Reset,
}

const DEEDS: [(Deed, u32); 9] = [
    (Deed::Command, 160),
    (Deed::Garbage, 20),
    (Deed::Doorbell, 250),
    (Deed::Register, 60),
    (Deed::SendWork, 250),
    (Deed::RecvWork, 120),
    (Deed::Scribble, 130),
    (Deed::Unmap, 6),
    (Deed::Reset, 2),
];

/// What has been done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Operations of any kind.
    pub operations: u64,
    /// Admin commands answered.
    pub answers: u64,
    /// Of these: done.
    pub done: u64,
    /// Function resets.
    pub resets: u64,
}

impl std::ops::AddAssign for Tally {
    fn add_assign(&mut self, other: Self) {
        self.operations += other.operations;
        self.answers += other.answers;
        self.done += other.done;
        self.resets += other.resets;
    }
}

/// The client.
pub struct Attacker {
    dev: Dev,
    rng: Rng,
    deeds: Vec<(Deed, u32)>,
    buffers: Buffers,
    admin: [DmaBuf; 2],
    /// Next command, free running.
    next: u16,
    /// Commands under way: index, opcode if it is one, body.
    under_way: VecDeque<(u16, Option<AdminOpcode>, Body)>,
    silence: u32,
    /// A reset is under way, and was looked at so often.
    resetting: Option<u32>,
    known: Known,
    sends: Vec<Ring>,
    recvs: Vec<Ring>,
    regions: Vec<(u32, u64)>,
    target: Target,
    tally: Tally,
}

impl Attacker {
    /// Takes a function over. `name`: makes it differ from others of the same seed.
    pub fn new(dev: Dev, seed: u64, name: &str) -> Result<Self, RigError> {
        let mut rng = Rng::new(seed, name);
        let buffers = (0..BUFFERS).map(|_| alloc(&dev, &mut rng, BUFFER_BYTES));
        let buffers = Buffers(buffers.collect::<Result<_, _>>()?);
        let admin = [
            alloc(&dev, &mut rng, ADMIN_RING_BYTES)?,
            alloc(&dev, &mut rng, ADMIN_RING_BYTES)?,
        ];
        // What every client needs to get anywhere is always there.
        let always = |deed| matches!(deed, Deed::Command | Deed::SendWork);
        let deeds = DEEDS.iter().filter(|(deed, _)| always(*deed) || rng.percent(75));
        let deeds = deeds.copied().collect();
        let mut attacker = Self {
            dev,
            rng,
            deeds,
            buffers,
            admin,
            next: 0,
            under_way: VecDeque::new(),
            silence: 0,
            resetting: None,
            known: Known::default(),
            sends: Vec::new(),
            recvs: Vec::new(),
            regions: Vec::new(),
            target: Target::default(),
            tally: Tally::default(),
        };
        attacker.start_again();
        Ok(attacker)
    }

    /// What it may be disturbed with: its QPs and regions.
    pub fn offers(&self) -> (&[u32], &[(u32, u64)]) {
        (&self.known.qps, &self.regions)
    }

    /// From now on its packets go there.
    pub fn aim(&mut self, target: Target) {
        self.target = target;
    }

    /// What it has done so far.
    pub fn tally(&self) -> Tally {
        self.tally
    }

    /// One operation.
    pub fn step(&mut self) -> Result<(), RigError> {
        if let Some(looks) = self.resetting {
            return self.look_at_reset(looks);
        }
        self.tally.operations += 1;
        let total = self.deeds.iter().map(|(_, weight)| weight).sum();
        let mut at = self.rng.below(total);
        let mut deeds = self.deeds.iter();
        let deed = deeds.find_map(|(deed, weight)| match at.checked_sub(*weight) {
            Some(left) => {
                at = left;
                None
            }
            None => Some(*deed),
        });
        match deed.unwrap_or(Deed::Command) {
            Deed::Command => self.command(),
            Deed::Garbage => self.garbage(),
            Deed::Doorbell => self.doorbell(),
            Deed::Register => self.register(),
            Deed::SendWork => self.send_work(),
            Deed::RecvWork => self.recv_work(),
            Deed::Scribble => self.scribble(),
            Deed::Unmap => self.unmap()?,
            Deed::Reset => self.start_again(),
        }
        Ok(())
    }

    /// Function reset at any moment: everything it had is gone. It starts again once the card says so, step by step, so
    /// that its waiting is not the neighbour's.
    fn start_again(&mut self) {
        self.tally.resets += 1;
        self.dev
            .mmio_write32(reg::FUNC_CONTROL, reg::FUNC_CONTROL_RESET_MASK);
        self.resetting = Some(0);
        self.under_way.clear();
        self.forget();
    }

    fn forget(&mut self) {
        self.known = Known::default();
        self.sends.clear();
        self.recvs.clear();
        self.regions.clear();
    }

    /// A look at the reset; at its end the function is enabled.
    fn look_at_reset(&mut self, looks: u32) -> Result<(), RigError> {
        if self.dev.mmio_read32(reg::FUNC_CONTROL) & reg::FUNC_CONTROL_RESET_MASK != 0 {
            self.resetting = Some(looks + 1);
            if looks < RESET_LOOKS {
                return Ok(());
            }
            let name = self.dev.info().name;
            return Err(RigError::Wrong(format!("{name}: a function reset does not end")));
        }
        self.resetting = None;
        self.admin[1].fill(0, ADMIN_RING_BYTES, 0);
        for (lo, hi, ring) in [
            (
                reg::FUNC_ADMIN_SQ_BASE_LO,
                reg::FUNC_ADMIN_SQ_BASE_HI,
                &self.admin[0],
            ),
            (
                reg::FUNC_ADMIN_CQ_BASE_LO,
                reg::FUNC_ADMIN_CQ_BASE_HI,
                &self.admin[1],
            ),
        ] {
            self.dev.mmio_write32(lo, ring.iova() as u32);
            self.dev.mmio_write32(hi, (ring.iova() >> 32) as u32);
        }
        self.dev
            .mmio_write32(reg::FUNC_ADMIN_LOG_SIZE, ADMIN_LOG_SIZE.into());
        self.dev
            .mmio_write32(reg::FUNC_CONTROL, reg::FUNC_CONTROL_ENABLE_MASK);
        (self.next, self.silence) = (0, 0);
        Ok(())
    }

    /// Ends it: the function is as a new driver finds it.
    pub fn finish(&mut self) -> Result<(), RigError> {
        self.start_again();
        while let Some(looks) = self.resetting {
            self.look_at_reset(looks)?;
        }
        Ok(())
    }

    /// A command that might be right, spoiled or not.
    fn command(&mut self) {
        self.harvest();
        if self.is_full() {
            self.silence += 1;
            if self.silence > SILENCE {
                // Its admin queue has stopped: a ring that is gone, or a producer index beyond it.
                self.start_again();
            }
            return;
        }
        let opcode = self.draw_opcode();
        let mut body = sound(&mut self.rng, opcode, &self.known, &self.buffers, &self.target);
        if self.rng.percent(15) {
            spoil(&mut self.rng, table_of(opcode), &mut body);
        }
        self.post(opcode.into(), body);
        if self.rng.percent(80) {
            self.ring_admin();
        }
    }

    fn garbage(&mut self) {
        let opcode = self.rng.u32() as u8;
        let mut body = [0; 248];
        self.rng.fill(&mut body);
        if !self.is_full() && opcode != u8::from(AdminOpcode::ModifyQp) {
            self.post(opcode, body);
            self.ring_admin();
        }
    }

    /// As many commands are under way as the ring holds; more stop the queue, which is to happen now and then.
    fn is_full(&mut self) -> bool {
        let room = if self.rng.percent(1) { 2 } else { 0 };
        self.under_way.len() >= (1 << ADMIN_LOG_SIZE) + room
    }

    /// What it lacks first, else anything.
    fn draw_opcode(&mut self) -> AdminOpcode {
        let known = &self.known;
        let wanted = [
            (known.pds.len() < 2, AdminOpcode::AllocPd),
            (known.eqs.is_empty(), AdminOpcode::CreateEq),
            (known.cqs.len() < 2, AdminOpcode::CreateCq),
            (known.qps.len() < 3, AdminOpcode::CreateQp),
            (known.keys.len() < 3, AdminOpcode::RegMr),
        ];
        let missing = wanted.iter().find(|(missing, _)| *missing);
        match missing {
            Some((_, opcode)) if self.rng.percent(70) => *opcode,
            _ if self.rng.percent(60) => AdminOpcode::ModifyQp,
            _ => self.rng.pick(AdminOpcode::ALL),
        }
    }

    fn post(&mut self, opcode: u8, body: Body) {
        let mut cmd = AdminCmd::new();
        cmd.set_opcode(opcode);
        cmd.set_command_id(self.next);
        cmd.set_body(body);
        let slot = usize::from(self.next) & ((1 << ADMIN_LOG_SIZE) - 1);
        self.admin[0].write_bytes(slot * AdminCmd::BYTES, cmd.as_bytes());
        self.under_way
            .push_back((self.next, AdminOpcode::try_from(opcode).ok(), body));
        self.next = self.next.wrapping_add(1);
    }

    fn ring_admin(&mut self) {
        let offset = DOORBELL_PAGE_OFFSET + hca_abi::ADMIN_DOORBELL_OFFSET;
        self.dev.mmio_write64(offset, self.next.into());
    }

    /// Learns from the answers that have come.
    fn harvest(&mut self) {
        while let Some((index, opcode, body)) = self.under_way.front().copied() {
            let slot = usize::from(index) & ((1 << ADMIN_LOG_SIZE) - 1);
            let mut cpl = AdminCpl::new();
            self.admin[1].read_bytes(slot * AdminCpl::BYTES, &mut cpl.0);
            if cpl.phase() != (index >> ADMIN_LOG_SIZE & 1 == 0) {
                return;
            }
            self.under_way.pop_front();
            self.silence = 0;
            self.tally.answers += 1;
            if cpl.status() != u8::from(AdminStatus::Ok) || cpl.command_id() != index {
                continue;
            }
            self.tally.done += 1;
            let number = HandleResult::read_from(&cpl.body()).map_or(0, |result| result.handle());
            if let Some(opcode) = opcode {
                self.learn(opcode, &body, number);
            }
        }
    }

    fn learn(&mut self, opcode: AdminOpcode, body: &Body, number: u32) {
        if opcode == AdminOpcode::ResetFunc {
            self.forget();
        }
        if let Some(numbers) = self.known.made(opcode) {
            numbers.push(number);
            // Old ones may still be there; so many at most are named.
            numbers.drain(..numbers.len().saturating_sub(12));
        }
        self.known.changed(opcode, body);
        match opcode {
            AdminOpcode::CreateQp => {
                let cmd = hca_abi::CreateQpCmd::read_from(body).unwrap_or_default();
                let ring = |base, log_size, log_stride| Ring {
                    qpn: number,
                    base,
                    log_size,
                    log_stride,
                    next: 0,
                };
                let (send, recv) = (
                    ring(cmd.sq_base(), cmd.sq_log_size(), cmd.sq_log_stride()),
                    ring(cmd.rq_base(), cmd.rq_log_size(), cmd.rq_log_stride()),
                );
                push_bounded(&mut self.sends, send);
                push_bounded(&mut self.recvs, recv);
            }
            AdminOpcode::RegMr => {
                let cmd = hca_abi::RegMrCmd::read_from(body).unwrap_or_default();
                push_bounded(&mut self.regions, (number, cmd.start()));
            }
            _ => {}
        }
    }

    /// Any place of the BAR, any width; most often one that means something.
    fn doorbell(&mut self) {
        let (rng, known) = (&mut self.rng, &self.known);
        let word = match rng.below(8) {
            0 => u64::from(rng.u32()) << 32 | u64::from(rng.u32()),
            1..4 => {
                let mut word = SqDoorbell::new();
                word.set_qpn(one_of(rng, &known.qps) & 0xff_ffff);
                word.set_producer_index(rng.pick(&[0, 1, 2, 7, 31, 32, 33, 0x7fff, 0x8000, 0xffff]));
                word.to_word()
            }
            4..6 => {
                let mut word = CqDoorbell::new();
                word.set_cqn(one_of(rng, &known.cqs) & 0xff_ffff);
                word.set_arm(rng.below(4) as u8);
                word.set_consumer_index(rng.pick(&[0, 1, 63, 64, 0x80_0000, 0xff_ffff]));
                word.to_word()
            }
            6 => {
                let mut word = EqDoorbell::new();
                word.set_eqn(one_of(rng, &known.eqs) as u8);
                word.set_consumer_index(rng.u32() as u16);
                word.to_word()
            }
            _ => rng.below(40).into(),
        };
        let offset = match rng.below(10) {
            0..3 => SQ_DOORBELL_OFFSET,
            3..5 => RQ_DOORBELL_OFFSET,
            5..7 => CQ_DOORBELL_OFFSET,
            7 => EQ_DOORBELL_OFFSET,
            8 => rng.below(DOORBELL_PAGE_BYTES / 4) * 4,
            _ => rng.below(16) * 4,
        };
        self.write_bar(DOORBELL_PAGE_OFFSET + offset, word);
    }

    fn register(&mut self) {
        let near = self.rng.percent(70);
        let offset = self.rng.below(if near { 0x80 } else { BAR0_BYTES }) & !3;
        if self.rng.percent(30) {
            self.dev.mmio_read32(offset);
        } else if offset & !7 != reg::FUNC_CONTROL & !7 {
            let word = u64::from(self.rng.u32()) << 32 | u64::from(self.rng.u32());
            self.write_bar(offset, word);
        }
    }

    fn write_bar(&mut self, offset: u32, word: u64) {
        // Half a doorbell is not one.
        if offset.is_multiple_of(8) && self.rng.percent(90) {
            self.dev.mmio_write64(offset, word);
        } else {
            self.dev.mmio_write32(offset, word as u32);
        }
    }

    /// An entry of a data segment list: mostly a region of its own.
    fn sge(&mut self, length: u32) -> Sge {
        let mut sge = Sge::new();
        let own = self.regions.len() as u32;
        let (key, start) = if own > 0 && self.rng.percent(95) {
            self.regions[self.rng.below(own) as usize]
        } else {
            (self.rng.u32(), self.buffers.line(&mut self.rng))
        };
        sge.set_lkey(key);
        sge.set_addr(start);
        sge.set_length(length);
        sge
    }

    /// A work request as a driver writes it, spoiled or not, and its doorbell, right or not.
    fn send_work(&mut self) {
        let count = self.sends.len() as u32;
        if count == 0 {
            return;
        }
        let at = self.rng.below(count) as usize;
        let ring = self.sends[at];
        let stride = 64usize << ring.log_stride;
        let mut wqe = vec![0; stride];
        let num_sge = self.rng.below(((stride as u32 - 32) / 16).min(MAX_SGE) + 1);
        let each = self.rng.pick(&[0, 1, 64, 255, 1024, 5000]);
        let mut ctrl = SqWqeCtrl::new();
        let common = [WrOpcode::RdmaWrite, WrOpcode::Send, WrOpcode::RdmaRead];
        let choices = if self.rng.percent(80) {
            &common[..]
        } else {
            WrOpcode::ALL
        };
        ctrl.set_opcode(self.rng.pick(choices).into());
        ctrl.set_signaled(self.rng.percent(50));
        ctrl.set_solicited(self.rng.percent(20));
        ctrl.set_fence(self.rng.percent(20));
        ctrl.set_wqe_index(ring.next);
        ctrl.set_num_sge(num_sge as u8);
        ctrl.set_length(num_sge * each);
        if !self.target.regions.is_empty() {
            let (key, start) = self.rng.pick(&self.target.regions);
            ctrl.set_rkey(key);
            ctrl.set_remote_addr(start);
        }
        if self.rng.percent(10) {
            spoil(&mut self.rng, &SqWqeCtrl::TABLE, &mut ctrl.0);
        }
        wqe[..32].copy_from_slice(ctrl.as_bytes());
        for index in 0..num_sge as usize {
            let mut sge = self.sge(each);
            if self.rng.percent(3) {
                spoil(&mut self.rng, &Sge::TABLE, &mut sge.0);
            }
            wqe[32 + 16 * index..][..16].copy_from_slice(sge.as_bytes());
        }
        self.sends[at].next = ring.next.wrapping_add(1);
        self.store(ring, &wqe);
        self.ring_work(SQ_DOORBELL_OFFSET, ring);
    }

    fn recv_work(&mut self) {
        let count = self.recvs.len() as u32;
        if count == 0 {
            return;
        }
        let at = self.rng.below(count) as usize;
        let ring = self.recvs[at];
        let stride = 64usize << ring.log_stride;
        let mut wqe = vec![0; stride];
        let num_sge = self.rng.below(((stride as u32 - 16) / 16).min(MAX_SGE) + 1);
        let each = self.rng.pick(&[0, 64, 1024, 5000]);
        let mut ctrl = RqWqeCtrl::new();
        ctrl.set_num_sge(num_sge as u8);
        ctrl.set_length(num_sge * each);
        ctrl.set_wqe_index(ring.next);
        if self.rng.percent(10) {
            spoil(&mut self.rng, &RqWqeCtrl::TABLE, &mut ctrl.0);
        }
        wqe[..16].copy_from_slice(ctrl.as_bytes());
        for index in 0..num_sge as usize {
            let sge = self.sge(each);
            wqe[16 + 16 * index..][..16].copy_from_slice(sge.as_bytes());
        }
        self.recvs[at].next = ring.next.wrapping_add(1);
        self.store(ring, &wqe);
        self.ring_work(RQ_DOORBELL_OFFSET, ring);
    }

    /// Writes an entry where the ring was, if that memory is still there.
    fn store(&mut self, ring: Ring, wqe: &[u8]) {
        let slot = u64::from(ring.next) & ((1 << ring.log_size) - 1);
        let at = ring.base.wrapping_add(slot * wqe.len() as u64);
        let end = BUFFER_BYTES as u64 - wqe.len() as u64;
        let buf = self
            .buffers
            .0
            .iter()
            .find(|buf| at.wrapping_sub(buf.iova()) <= end);
        if let Some(buf) = buf {
            buf.write_bytes((at - buf.iova()) as usize, wqe);
        }
    }

    fn ring_work(&mut self, offset: u32, ring: Ring) {
        if self.rng.percent(50) {
            let mut word = SqDoorbell::new();
            word.set_qpn(ring.qpn & 0xff_ffff);
            let beyond = if self.rng.percent(3) {
                self.rng.u32() as u16
            } else {
                1
            };
            word.set_producer_index(ring.next.wrapping_add(beyond));
            self.dev
                .mmio_write64(DOORBELL_PAGE_OFFSET + offset, word.to_word());
        }
    }

    /// Bytes anywhere in its memory: owner bits, half written entries, lists, rings that the card writes.
    fn scribble(&mut self) {
        let admin = self.rng.percent(3);
        let buf = if admin {
            &self.admin[self.rng.below(2) as usize]
        } else {
            self.buffers.pick(&mut self.rng)
        };
        let at = self.rng.below(buf.len_bytes() as u32 - 64) as usize;
        let mut bytes = self.rng.bytes(64);
        match self.rng.below(3) {
            // A list of pages, a few of which exist.
            0 => (0..8).for_each(|i| (buf.iova() + 4096 * (i as u64 % 4)).store(&mut bytes, 64 * i, 64)),
            1 => bytes.truncate(1),
            _ => {}
        }
        let at = if bytes.len() == 64 { at & !63 } else { at };
        buf.write_bytes(at, &bytes);
    }

    /// Memory goes away, whatever lies in it; other memory comes.
    fn unmap(&mut self) -> Result<(), RigError> {
        if self.rng.percent(10) {
            let at = self.rng.below(2) as usize;
            let new = alloc(&self.dev, &mut self.rng, ADMIN_RING_BYTES)?;
            let old = std::mem::replace(&mut self.admin[at], new);
            return free(&self.dev, old);
        }
        let at = self.rng.below(BUFFERS as u32) as usize;
        let new = alloc(&self.dev, &mut self.rng, BUFFER_BYTES)?;
        let old = std::mem::replace(&mut self.buffers.0[at], new);
        free(&self.dev, old)
    }
}

/// Twelve at most; the oldest goes.
fn push_bounded<T>(list: &mut Vec<T>, item: T) {
    list.push(item);
    list.drain(..list.len().saturating_sub(12));
}

fn alloc(dev: &Dev, rng: &mut Rng, len_bytes: usize) -> Result<DmaBuf, RigError> {
    let buf = dev.alloc_dma(len_bytes).map_err(hca_verbs::Error::from)?;
    buf.write_bytes(0, &rng.bytes(len_bytes));
    Ok(buf)
}

fn free(dev: &Dev, buf: DmaBuf) -> Result<(), RigError> {
    Ok(dev.free_dma(buf).map_err(hca_verbs::Error::from)?)
}
