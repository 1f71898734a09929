//! A shared receive queue: WQEs in numbered slots, and the list of the slots that are posted.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use hca_abi::{RqWqeCtrl, SRQ_LINE_ENTRIES};
use hca_dev::DmaBuf;
use hca_room::NoRoom;

use crate::base::device::DevicePtr;
use crate::base::doorbell::Doorbells;
use crate::base::error::PostError;
use crate::base::work::{RECV_HEADER_BYTES, RecvWr, WqSize, total_length, words_of, write_sges};

const BITS: usize = u64::BITS as usize;
/// Bytes of a slot number in the list.
const ENTRY_BYTES: usize = 2;

/// A shared receive queue in DMA memory. Many may post, one after the other; completions give slots back in any order,
/// without a lock.
#[derive(Debug)]
pub struct SrqRing {
    slots: DmaBuf,
    list: DmaBuf,
    size: WqSize,
    max_sge: usize,
    wr_ids: Box<[AtomicU64]>,
    /// A bit for each slot: nobody has it. Completions set bits, posts take them.
    free: Box<[AtomicU64]>,
    post: Mutex<Post>,
}

/// What posting one after the other needs.
#[derive(Debug, Default)]
struct Post {
    /// Index in the list, free-running.
    next: u32,
    /// What the card has been told.
    told: u32,
    /// Where in `free` the last slot was found.
    at: usize,
}

impl SrqRing {
    /// Bytes of the memory for the list of a queue of this size.
    pub fn list_bytes(size: &WqSize) -> usize {
        (SRQ_LINE_ENTRIES as usize).max(1 << size.log_size) * ENTRY_BYTES
    }

    /// A queue in `slots`, of `size.ring_bytes()`, and `list`, of [`SrqRing::list_bytes`].
    pub fn new(slots: DmaBuf, list: DmaBuf, size: WqSize) -> Result<Self, NoRoom> {
        let entries = 1usize << size.log_size;
        let word = |i: usize| match entries - i * BITS {
            left if left < BITS => (1 << left) - 1,
            _ => u64::MAX,
        };
        Ok(Self {
            slots,
            list,
            size,
            max_sge: size.recv_sges(),
            wr_ids: hca_room::slice(entries, |_| AtomicU64::new(0))?,
            free: hca_room::slice(entries.div_ceil(BITS), |i| AtomicU64::new(word(i)))?,
            post: Mutex::default(),
        })
    }

    /// The memory: slots and list.
    pub fn memory(&self) -> [&DmaBuf; 2] {
        [&self.slots, &self.list]
    }

    /// Work requests that it holds.
    pub fn entries(&self) -> u32 {
        self.wr_ids.len() as u32
    }

    /// Slots that nobody has.
    pub fn free_slots(&self) -> u32 {
        let words = self.free.iter();
        words.map(|word| word.load(Ordering::Acquire).count_ones()).sum()
    }

    fn lock(&self) -> MutexGuard<'_, Post> {
        self.post.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Posts the list, as far as it can, with one doorbell; how many were posted, and why no more were.
    pub fn post<'a, P: DevicePtr>(
        &self,
        doorbells: &Doorbells<P>,
        srqn: u32,
        list: impl IntoIterator<Item = RecvWr<'a>>,
    ) -> (usize, Result<(), PostError>) {
        let post = &mut *self.lock();
        let mut posted = 0;
        let mut result = Ok(());
        for wr in list {
            if let Err(error) = self.push(post, &wr) {
                result = Err(error);
                break;
            }
            posted += 1;
        }
        Self::tell(post, doorbells, srqn);
        (posted, result)
    }

    fn tell<P: DevicePtr>(post: &mut Post, doorbells: &Doorbells<P>, srqn: u32) {
        if post.told != post.next {
            doorbells.srq(srqn, post.next);
            post.told = post.next;
        }
    }

    fn push(&self, post: &mut Post, wr: &RecvWr<'_>) -> Result<(), PostError> {
        if wr.sges.len() > self.max_sge {
            return Err(PostError::TooManySges {
                given: wr.sges.len(),
                max: self.max_sge,
            });
        }
        let length = total_length(wr.sges)?;
        let slot = self.take_free(post).ok_or(PostError::RingFull {
            entries: self.entries(),
        })?;
        let stride = self.size.stride_bytes();
        let wqe = self.slots.part(usize::from(slot) * stride, stride);
        write_sges(wqe, RECV_HEADER_BYTES, wr.sges);
        let mut ctrl = RqWqeCtrl::new();
        ctrl.set_num_sge(wr.sges.len() as u8);
        ctrl.set_length(length);
        ctrl.set_wqe_index(slot.into());
        wqe.store_words(0, words_of::<_, 2>(ctrl.as_bytes()));
        self.wr_ids[usize::from(slot)].store(wr.wr_id, Ordering::Relaxed);
        self.enlist(post, slot);
        Ok(())
    }

    fn enlist(&self, post: &mut Post, slot: u16) {
        let entry = post.next as usize * ENTRY_BYTES % Self::list_bytes(&self.size);
        self.list.write_bytes(entry, &slot.to_le_bytes());
        post.next = post.next.wrapping_add(1);
    }

    /// A free slot, from where the last one was found on: nobody else takes any.
    fn take_free(&self, post: &mut Post) -> Option<u16> {
        for step in 0..self.free.len() {
            let at = (post.at + step) % self.free.len();
            let word = self.free[at].load(Ordering::Acquire);
            if word != 0 {
                let bit = word.trailing_zeros();
                self.free[at].fetch_and(!(1 << bit), Ordering::Relaxed);
                post.at = at;
                return Some((at * BITS + bit as usize) as u16);
            }
        }
        None
    }

    /// A completion gives a slot back: its wr_id, or `None` when the slot was not posted.
    #[inline]
    pub(crate) fn retire(&self, slot: u16) -> Option<u64> {
        let (at, bit) = (usize::from(slot) / BITS, 1 << (usize::from(slot) % BITS));
        let wr_id = self.wr_ids.get(usize::from(slot))?.load(Ordering::Relaxed);
        let was_free = self.free[at].fetch_or(bit, Ordering::Release) & bit != 0;
        (!was_free).then_some(wr_id)
    }

    /// The card has taken a slot and not used it: it is posted again, as it is. False: it was not posted.
    pub(crate) fn post_again<P: DevicePtr>(&self, doorbells: &Doorbells<P>, srqn: u32, slot: u16) -> bool {
        let (at, bit) = (usize::from(slot) / BITS, 1 << (usize::from(slot) % BITS));
        let is_posted =
            usize::from(slot) < self.wr_ids.len() && self.free[at].load(Ordering::Acquire) & bit == 0;
        if is_posted {
            let post = &mut *self.lock();
            self.enlist(post, slot);
            Self::tell(post, doorbells, srqn);
        }
        is_posted
    }
}
