//! Registered memory of a program, byte by byte: what it must hold, what it may, and what nobody may have touched.

use hca_dev::DmaBuf;
use hca_verbs::{Access, DeviceMemory, FastMr, Mr, MrOptions, PageSize, SendOp};

use crate::node::{Dev, Node, Place};
use crate::rig::RigError;
use crate::rng::Rng;

use super::plan::RegionPlan;

/// Bytes in front of a region and behind it.
const CANARY_BYTES: usize = 64;
/// Virtual addresses of regions are so far apart.
const REGION_STEP: u64 = 0x1000_0000;
const BASE: u64 = 0x5000_0000_0000;
/// Those of regions for fast registration, and how large the pages of them are.
const FAST_BASE: u64 = 0x6000_0000_0000;
const PAGE_BYTES: usize = 4096;

/// What is known of a byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Care {
    /// It is what `now` says.
    Exact,
    /// A message that may have been carried out, or not, or a part of it: `now` or `next`.
    Either,
    /// A receive is posted there.
    Any,
}

enum Memory {
    Host(DmaBuf),
    Device(DeviceMemory<Dev>),
}

/// A region with the memory around it.
pub(super) struct Ledger {
    plan: RegionPlan,
    index: usize,
    memory: Memory,
    /// In front of the region.
    margin: usize,
    now: Vec<u8>,
    next: Vec<u8>,
    care: Vec<Care>,
    pub mr: Mr<Dev>,
}

fn wrong(text: String) -> RigError {
    RigError::Wrong(text)
}

impl Ledger {
    pub fn new(node: &Node, index: usize, plan: &RegionPlan, rng: &mut Rng) -> Result<Self, RigError> {
        let len = plan.len as usize;
        let (memory, margin) = if plan.in_device {
            (Memory::Device(node.context.alloc_dm(len)?), 0)
        } else {
            let buf = node.alloc(len + 2 * CANARY_BYTES)?;
            (Memory::Host(buf), CANARY_BYTES)
        };
        let now = rng.bytes(len + 2 * margin);
        match &memory {
            Memory::Host(buf) => buf.write_bytes(0, &now),
            Memory::Device(dm) => dm.write(0, &now)?,
        }
        let mr = register(node, index, plan, &memory)?;
        Ok(Self {
            plan: plan.clone(),
            index,
            memory,
            margin,
            next: now.clone(),
            care: vec![Care::Exact; now.len()],
            now,
            mr,
        })
    }

    /// Zeros, which others change as they please.
    pub fn clear(&mut self) -> Result<(), RigError> {
        let zeros = vec![0; self.plan.len as usize];
        match &self.memory {
            Memory::Host(buf) => buf.write_bytes(self.margin, &zeros),
            Memory::Device(dm) => dm.write(0, &zeros)?,
        }
        self.any(0, self.plan.len);
        Ok(())
    }

    /// Pages that a region for fast registration needs for all of it; none: it is device memory.
    pub fn pages(&self) -> Option<u32> {
        let pages = (self.margin % PAGE_BYTES + self.plan.len as usize).div_ceil(PAGE_BYTES);
        matches!(self.memory, Memory::Host(_)).then_some(pages as u32)
    }

    /// Operation that registers all of it under another key, at addresses of its own.
    pub fn reg_op(&self, mr: &mut FastMr<Dev>, key: u32) -> Result<SendOp, RigError> {
        let Memory::Host(buf) = &self.memory else {
            return Err(wrong("fast registration of device memory".to_owned()));
        };
        let options = MrOptions {
            addr: Some(FAST_BASE + (buf.iova() + self.margin as u64) % PAGE_BYTES as u64),
            offset: self.margin,
            length: Some(self.plan.len as usize),
            ..MrOptions::new(Access::LOCAL_WRITE | Access::REMOTE_WRITE)
        };
        Ok(mr.reg_op(key, buf, &options)?)
    }

    /// Under a new key, after the old one has been taken away.
    pub fn register_again(&mut self, node: &Node) -> Result<(), RigError> {
        self.mr = register(node, self.index, &self.plan, &self.memory)?;
        Ok(())
    }

    fn range(&self, offset: u32, len: usize) -> std::ops::Range<usize> {
        let start = self.margin + offset as usize;
        start..start + len
    }

    pub fn expected(&self, offset: u32, len: u32) -> &[u8] {
        &self.now[self.range(offset, len as usize)]
    }

    /// These bytes may come, at once or one after the other.
    pub fn may(&mut self, offset: u32, bytes: &[u8]) {
        let range = self.range(offset, bytes.len());
        self.next[range.clone()].copy_from_slice(bytes);
        self.care[range].fill(Care::Either);
    }

    /// These bytes are there from now on.
    pub fn must(&mut self, offset: u32, bytes: &[u8]) {
        let range = self.range(offset, bytes.len());
        self.now[range.clone()].copy_from_slice(bytes);
        self.care[range].fill(Care::Exact);
    }

    /// What might come has come. False: it was not to come any more, and what is to stay is something else.
    pub fn comes(&mut self, offset: u32, bytes: &[u8]) -> bool {
        let range = self.range(offset, bytes.len());
        let stays = |at: usize| self.care[at] == Care::Exact;
        let fits = range
            .clone()
            .zip(bytes)
            .all(|(at, byte)| !stays(at) || self.now[at] == *byte);
        self.must(offset, bytes);
        fits
    }

    /// What is there is the card's affair for a while; what was known comes back with [`Ledger::as_before`].
    pub fn any(&mut self, offset: u32, len: u32) {
        let range = self.range(offset, len as usize);
        self.care[range].fill(Care::Any);
    }

    pub fn as_before(&mut self, offset: u32, len: u32) {
        let range = self.range(offset, len as usize);
        self.care[range].fill(Care::Exact);
    }

    /// What the memory holds now, as far as it may, stays for ever.
    pub fn freeze(&mut self, offset: u32, len: u32) -> Result<(), RigError> {
        let range = self.range(offset, len as usize);
        let found = self.bytes(range.clone())?;
        self.compare(range.start, &found)?;
        self.must(offset, &found);
        Ok(())
    }

    pub fn found(&self, offset: u32, len: u32) -> Result<Vec<u8>, RigError> {
        self.bytes(self.range(offset, len as usize))
    }

    /// Are the bytes there that must be?
    pub fn holds(&self, offset: u32, len: u32) -> Result<bool, RigError> {
        Ok(self.found(offset, len)? == self.expected(offset, len))
    }

    fn bytes(&self, range: std::ops::Range<usize>) -> Result<Vec<u8>, RigError> {
        let mut bytes = vec![0; range.len()];
        match &self.memory {
            Memory::Host(buf) => buf.read_bytes(range.start, &mut bytes),
            Memory::Device(dm) => dm.read(range.start as u64, &mut bytes)?,
        }
        Ok(bytes)
    }

    fn compare(&self, start: usize, found: &[u8]) -> Result<(), RigError> {
        for (at, byte) in found.iter().enumerate() {
            let at = start + at;
            let right = match self.care[at] {
                Care::Exact => *byte == self.now[at],
                Care::Either => *byte == self.now[at] || *byte == self.next[at],
                Care::Any => true,
            };
            if !right {
                let (now, what) = (self.now[at], self.plan.what);
                return Err(wrong(format!(
                    "node {}: byte {} of region {} ({what}) is {byte:#04x} instead of {now:#04x} ({:?})",
                    self.plan.node,
                    at as i64 - self.margin as i64,
                    self.index,
                    self.care[at],
                )));
            }
        }
        Ok(())
    }

    /// Every byte is one of those that it may be.
    pub fn check(&self) -> Result<(), RigError> {
        let all = self.bytes(0..self.now.len())?;
        self.compare(0, &all)
    }
}

fn register(node: &Node, index: usize, plan: &RegionPlan, memory: &Memory) -> Result<Mr<Dev>, RigError> {
    let mr = match memory {
        Memory::Host(buf) => node.register(
            buf,
            Place {
                offset: CANARY_BYTES as u64,
                len: plan.len.into(),
                access: plan.access,
                page_size: if plan.pages {
                    PageSize::KiB4
                } else {
                    PageSize::Direct
                },
                base: BASE + REGION_STEP * index as u64,
            },
        )?,
        Memory::Device(dm) => {
            let access = plan.access | Access::ZERO_BASED;
            node.pd.reg_dm_mr(dm, 0, plan.len as usize, access)?
        }
    };
    Ok(mr)
}
