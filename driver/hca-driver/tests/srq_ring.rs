//! The ring of a shared receive queue: slots are taken, listed and given back in any order, and none is lost.

use std::rc::Rc;

use hca_abi::{Cqe, RqWqeCtrl, VENDOR_ERR_UNUSED, WcOpcode, WcStatus};
use hca_dev::{Device, DmaBuf};
use hca_driver::*;
use hca_lone::LoneCard;
use proptest::prelude::*;

const QPN: u32 = 5;
const CQ_LOG_SIZE: u8 = 10;

struct Bench {
    ring: std::sync::Arc<SrqRing>,
    slots: DmaBuf,
    list: DmaBuf,
    cq: CqRing,
    cq_memory: DmaBuf,
    doorbells: Doorbells<Rc<LoneCard>>,
    /// Next entry of the CQ, and of the list as the card reads it.
    next_cqe: u32,
    consumer: u16,
}

impl Bench {
    fn new(max_wr: u32) -> Self {
        let dev = Rc::new(LoneCard::new());
        let size = WqSize::for_recv(max_wr, 3).unwrap();
        let slots = dev.alloc_dma(size.ring_bytes()).unwrap();
        let list = dev.alloc_dma(SrqRing::list_bytes(&size)).unwrap();
        let cq_memory = dev.alloc_dma(CqRing::ring_bytes(CQ_LOG_SIZE)).unwrap();
        let ring = std::sync::Arc::new(SrqRing::new(slots.clone(), list.clone(), size).unwrap());
        let mut cq = CqRing::new(cq_memory.clone(), 1, CQ_LOG_SIZE, 10);
        let send = SendRing::new(dev.alloc_dma(64).unwrap(), WqSize::for_send(1, 1, 0).unwrap()).unwrap();
        cq.attach(
            QPN,
            QpShadow {
                send: send.shadow().clone(),
                recv: RecvShadow::Shared {
                    srqn: 1,
                    ring: ring.clone(),
                },
            },
        );
        Self {
            ring,
            slots,
            list,
            cq,
            cq_memory,
            doorbells: Doorbells::new(dev),
            next_cqe: 0,
            consumer: 0,
        }
    }

    fn post(&self, wr_ids: impl IntoIterator<Item = u64>) -> (usize, Result<(), PostError>) {
        let wr = |wr_id| RecvWr { wr_id, sges: &[] };
        self.ring.post(&self.doorbells, 1, wr_ids.into_iter().map(wr))
    }

    /// The card takes the next slot off the list; its WQE is in it.
    fn take(&mut self) -> u16 {
        let at = usize::from(self.consumer) % (self.list_entries()) * 2;
        let mut slot = [0; 2];
        self.list.read_bytes(at, &mut slot);
        self.consumer = self.consumer.wrapping_add(1);
        let slot = u16::from_le_bytes(slot);
        let mut ctrl = RqWqeCtrl::new();
        self.slots.read_bytes(usize::from(slot) * 64, &mut ctrl.0);
        assert_eq!(ctrl.wqe_index(), u32::from(slot));
        slot
    }

    fn list_entries(&self) -> usize {
        (self.ring.entries() as usize).max(32)
    }

    fn complete(&mut self, slot: u16, status: WcStatus, vendor_err: u8) {
        let mut cqe = Cqe::new();
        cqe.set_qpn(QPN);
        cqe.set_wqe_index(slot);
        cqe.set_opcode(WcOpcode::Recv.into());
        cqe.set_status(status.into());
        cqe.set_vendor_err(vendor_err);
        cqe.set_phase(self.next_cqe >> CQ_LOG_SIZE & 1 == 0);
        let at = (self.next_cqe as usize & ((1 << CQ_LOG_SIZE) - 1)) * Cqe::BYTES;
        self.cq_memory.write_bytes(at, cqe.as_bytes());
        self.next_cqe += 1;
    }

    fn poll(&mut self) -> Result<Option<u64>, BadCompletion> {
        let found = self.cq.poll(&self.doorbells)?;
        Ok(found.map(|completion| completion.wr_id))
    }
}

/// V-105: the list stops at the first that does not fit; those before it are posted.
#[test]
fn a_full_queue_refuses() {
    for max_wr in [1, 2, 63, 64, 65, 200] {
        let mut bench = Bench::new(max_wr);
        let entries = bench.ring.entries();
        assert!(entries >= max_wr);
        let (posted, result) = bench.post(0..u64::from(entries) + 3);
        assert_eq!(posted, entries as usize);
        assert_eq!(result, Err(PostError::RingFull { entries }));
        assert_eq!(bench.ring.free_slots(), 0);
        let mut taken: Vec<u16> = (0..entries).map(|_| bench.take()).collect();
        taken.sort_unstable();
        assert!(
            taken.iter().map(|slot| u32::from(*slot)).eq(0..entries),
            "each once"
        );
    }
    let bench = Bench::new(4);
    let sges = [Sge::default(); 17];
    let wr = [
        RecvWr { wr_id: 1, sges: &[] },
        RecvWr {
            wr_id: 2,
            sges: &sges,
        },
    ];
    let (posted, result) = bench.ring.post(&bench.doorbells, 1, wr);
    assert_eq!(posted, 1);
    assert!(matches!(result, Err(PostError::TooManySges { given: 17, .. })));
    assert_eq!(bench.ring.free_slots(), bench.ring.entries() - 1);
}

/// A slot that was not used is posted again, and the program hears nothing of it; purged, too.
#[test]
fn unused_slots_are_posted_again() {
    let mut bench = Bench::new(4);
    bench.post([7]).1.unwrap();
    let slot = bench.take();
    for _ in 0..3 {
        bench.complete(slot, WcStatus::WrFlushErr, VENDOR_ERR_UNUSED as u8);
        assert_eq!(bench.poll().unwrap(), None);
        assert_eq!((bench.ring.free_slots(), bench.take()), (3, slot));
    }
    bench.complete(slot, WcStatus::WrFlushErr, VENDOR_ERR_UNUSED as u8);
    bench.cq.purge(&bench.doorbells, QPN);
    assert_eq!((bench.ring.free_slots(), bench.take()), (3, slot));
    // A flush of a QP that has died is the program's.
    bench.complete(slot, WcStatus::WrFlushErr, 0);
    assert_eq!(bench.poll().unwrap(), Some(7));
    assert_eq!(bench.ring.free_slots(), 4);
}

/// QPS-6: completions that a reset takes away give their slots back.
#[test]
fn purged_completions_give_slots_back() {
    let mut bench = Bench::new(8);
    bench.post(0..8).1.unwrap();
    for _ in 0..5 {
        let slot = bench.take();
        bench.complete(slot, WcStatus::Success, 0);
    }
    assert_eq!(bench.poll().unwrap(), Some(0));
    bench.cq.purge(&bench.doorbells, QPN);
    assert_eq!((bench.poll().unwrap(), bench.ring.free_slots()), (None, 5));
}

/// Completions of slots that nobody has posted, or that do not exist, are errors and harm nothing.
#[test]
fn wrong_completions_are_errors() {
    let mut bench = Bench::new(8);
    bench.post([1]).1.unwrap();
    let slot = bench.take();
    for wrong in [slot ^ 1, 8, 0xffff] {
        for vendor_err in [0, VENDOR_ERR_UNUSED as u8] {
            bench.complete(wrong, WcStatus::WrFlushErr, vendor_err);
            let found = bench.poll();
            assert!(matches!(found, Err(BadCompletion { .. })), "{wrong}: {found:?}");
        }
    }
    bench.complete(slot, WcStatus::Success, 0);
    assert_eq!(bench.poll().unwrap(), Some(1));
    bench.complete(slot, WcStatus::Success, 0);
    assert!(bench.poll().is_err(), "twice");
    assert_eq!(bench.ring.free_slots(), 8);
}

proptest! {
    /// Any order of posts, takes and completions: each wr_id comes back once, with the slot that had it, and indices of
    /// the list wrap.
    #[test]
    fn slots_come_and_go(
        max_wr in 1u32..150,
        steps in prop::collection::vec((any::<u8>(), 1u64..70, any::<prop::sample::Index>()), 1..400),
    ) {
        let mut bench = Bench::new(max_wr);
        let entries = u64::from(bench.ring.entries());
        let (mut next, mut listed, mut held) = (0u64, std::collections::VecDeque::new(), Vec::new());
        for (kind, count, which) in steps {
            match kind % 3 {
                0 => {
                    let in_use = listed.len() + held.len();
                    let (posted, result) = bench.post(next..next + count);
                    prop_assert_eq!(posted as u64, count.min(entries - in_use as u64));
                    prop_assert_eq!(result.is_ok(), posted as u64 == count);
                    listed.extend(next..next + posted as u64);
                    next += posted as u64;
                }
                1 => for _ in 0..count.min(listed.len() as u64) {
                    held.push((bench.take(), listed.pop_front()));
                },
                _ if !held.is_empty() => {
                    let (slot, wr_id) = held.swap_remove(which.index(held.len()));
                    bench.complete(slot, WcStatus::Success, 0);
                    prop_assert_eq!(bench.poll().unwrap(), wr_id);
                }
                _ => {}
            }
            prop_assert_eq!(u64::from(bench.ring.free_slots()), entries - (listed.len() + held.len()) as u64);
        }
    }
}
