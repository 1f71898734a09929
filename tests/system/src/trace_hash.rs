//! A hash of everything that passes the ports of cards, cycle by cycle: equal runs have equal ones.

use hca_cosim::{CardId, Fabric, StampKind};

/// Port events of a card that are kept between two looks.
const STAMPS: usize = 1 << 16;
/// FNV-1a, over words instead of bytes.
const BASIS: u64 = 0xcbf2_9ce4_8422_2325;
const PRIME: u64 = 0x100_0000_01b3;

/// Kind, cycle, size and place in the page of every event so far.
pub struct TraceHash(u64);

impl TraceHash {
    /// Has the cards keep their events from now on.
    pub fn record(fabric: &mut Fabric, cards: &[CardId]) -> Self {
        for card in cards {
            fabric.card_mut(*card).record_stamps(STAMPS);
        }
        Self(BASIS)
    }

    /// The hash of what has been collected.
    pub fn value(&self) -> u64 {
        self.0
    }

    fn add(&mut self, word: u64) {
        self.0 = (self.0 ^ word).wrapping_mul(PRIME);
    }

    /// Takes the events that the cards have kept.
    pub fn collect(&mut self, fabric: &mut Fabric, cards: &[CardId]) {
        for (index, card) in cards.iter().enumerate() {
            for stamp in fabric.card_mut(*card).take_stamps() {
                self.add(stamp.cycle << 4 | index as u64);
                self.add_event(stamp.kind);
            }
        }
    }

    fn add_event(&mut self, kind: StampKind) {
        // Addresses differ from process to process, places in pages do not.
        self.add(match kind {
            StampKind::MmioWrite { func, addr } => 0x100 | u64::from(func) << 32 | u64::from(addr) << 40,
            StampKind::ReadRequest { tag, addr, len_bytes } => {
                0x200 | u64::from(tag) | (addr & 0xfff) << 32 | u64::from(len_bytes) << 48
            }
            StampKind::ReadFirst { tag } => 0x300 | u64::from(tag),
            StampKind::ReadLast { tag, err } => 0x400 | u64::from(tag) | u64::from(err) << 32,
            StampKind::TxFirst => 0x500,
            StampKind::TxLast => 0x600,
            StampKind::TxLink => 0xb00,
            StampKind::RxLink => 0xc00,
            StampKind::RxFirst => 0x700,
            StampKind::RxLast => 0x800,
            StampKind::WriteLast { addr } => 0x900 | (addr & 0xfff) << 32,
            StampKind::Msix { vector } => 0xa00 | u64::from(vector) << 32,
        });
    }
}
