//! A client that does everything wrong, at random, on one function: commands, doorbells, rings, memory that goes away,
//! resets. What it does is a question of its seed alone. It knows the driver's contract well, or it would not get deep.

mod admin;
mod commands;
mod work;

use std::collections::VecDeque;

use hca_abi::AdminOpcode;
use hca_dev::{Device, DmaBuf};
use hca_regs as reg;

use crate::node::Dev;
use crate::rig::RigError;
use crate::rng::Rng;
use commands::{Body, Known};

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

/// Where its packets go: a card, and QPs there. They are an accomplice's, or strangers' whose peers are elsewhere.
#[derive(Clone, Debug, Default)]
pub struct Target {
    /// GID of the port.
    pub dgid: [u8; 16],
    /// MAC address of the port.
    pub dmac: [u8; 6],
    /// LID of the port.
    pub dlid: u16,
    /// QPs that are spoken to.
    pub qpns: Vec<u32>,
    /// Regions that may be written to: key, address.
    pub regions: Vec<(u32, u64)>,
}

impl Target {
    /// One of those, or one that nobody has.
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
    next: u32,
}

/// What it does; a seed leaves some out.
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

/// How often each is done, of about 10,000 operations: memory that goes away, and resets, are to meet something.
const DEEDS: [(Deed, u32); 9] = [
    (Deed::Command, 2500),
    (Deed::Garbage, 200),
    (Deed::Doorbell, 1600),
    (Deed::Register, 600),
    (Deed::SendWork, 2500),
    (Deed::RecvWork, 1200),
    (Deed::Scribble, 1300),
    (Deed::Unmap, 12),
    (Deed::Reset, 4),
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
    /// Commands that it has under way at most, as a rule: few, and it knows what it has.
    depth: usize,
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
        let depth = rng.pick(&[2, 4, 4, 1 << ADMIN_LOG_SIZE]);
        let mut attacker = Self {
            dev,
            rng,
            deeds,
            depth,
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
}

fn alloc(dev: &Dev, rng: &mut Rng, len_bytes: usize) -> Result<DmaBuf, RigError> {
    let buf = dev.alloc_dma(len_bytes).map_err(hca_verbs::Error::from)?;
    buf.write_bytes(0, &rng.bytes(len_bytes));
    Ok(buf)
}

fn free(dev: &Dev, buf: DmaBuf) -> Result<(), RigError> {
    Ok(dev.free_dma(buf).map_err(hca_verbs::Error::from)?)
}
