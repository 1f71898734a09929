//! Card and host as a test sees them, and firmware's way to the registers.

use std::ops::{Deref, DerefMut};

use hca_abi::{Cqe, HwEventKind};
use hca_functional::Card;
use hca_fw_core::{Bus, RegisterBus};

use crate::audit::Audit;
use crate::host::HostMemory;

pub(crate) const VECTORS: u16 = 8;
const CYCLE_PS: u64 = 4_000;
/// The only one.
pub(crate) const PORT: usize = 0;

/// Everything but firmware. What a test may see of the card itself is [`Card`]'s.
pub struct Hardware {
    /// The host's memory.
    pub host: HostMemory,
    /// What was done against the contract.
    pub violations: Vec<String>,
    /// Bus accesses of firmware.
    pub accesses: u64,
    /// Packets move by themselves; false: a test moves them.
    pub auto: bool,
    pub(crate) card: Card,
    pub(crate) audit: Audit,
    pub(crate) now_ns: u64,
    mads_sent: Vec<Vec<u8>>,
}

impl Deref for Hardware {
    type Target = Card;

    fn deref(&self) -> &Card {
        &self.card
    }
}

impl DerefMut for Hardware {
    fn deref_mut(&mut self) -> &mut Card {
        &mut self.card
    }
}

impl Hardware {
    /// A card whose cable is there.
    pub(crate) fn new() -> Self {
        let mut card = Card::new(1, VECTORS, CYCLE_PS);
        card.set_link_up(PORT, true);
        Self {
            host: HostMemory::new(),
            violations: Vec::new(),
            accesses: 0,
            auto: true,
            card,
            audit: Audit::new(),
            now_ns: 0,
            mads_sent: Vec::new(),
        }
    }

    pub(crate) fn violation(&mut self, what: String) {
        self.violations.push(what);
    }

    /// Time passes, in which what waits for it is done.
    pub fn pass_ns(&mut self, ns: u64) {
        self.now_ns += ns;
        let cycle = self.now_ns * 1_000 / CYCLE_PS;
        self.card.advance(&mut self.host, cycle);
    }

    /// Moves one packet; false: there is none. Those of firmware are kept for the test.
    pub(crate) fn move_packet(&mut self) -> bool {
        self.mads_sent.extend(self.card.take_datagrams_of_firmware());
        self.card.send_one(&mut self.host, PORT)
    }

    /// Moves one packet. If there is none, the time comes for which something waits. False: nothing does.
    pub fn step(&mut self) -> bool {
        if self.move_packet() {
            return true;
        }
        let next_ns = self.card.next_event().map(|cycle| cycle * CYCLE_PS / 1_000);
        if let Some(at) = next_ns {
            self.pass_ns(at.saturating_sub(self.now_ns));
        }
        next_ns.is_some()
    }

    /// Admin commands of function 0 so far, modulo 2^16.
    pub fn admin_commands(&self) -> u16 {
        self.card.admin_producer(0)
    }

    /// The cable is taken out or put in again.
    pub fn set_phy_up(&mut self, is_up: bool) {
        self.card.set_link_up(PORT, is_up);
    }

    /// A status word of the link says this.
    pub fn set_link_word(&mut self, word: u32, value: u32) {
        self.card.set_link_word(PORT, word, value);
    }

    /// A packet of a management datagram for firmware comes, LRH to payload.
    pub fn mad_arrives(&mut self, packet: &[u8]) {
        self.card.datagram_for_firmware(PORT as u8, packet);
    }

    /// The packets that firmware has sent since the last call; they go no further.
    pub fn take_mads_sent(&mut self) -> Vec<Vec<u8>> {
        self.mads_sent.extend(self.card.take_datagrams_of_firmware());
        std::mem::take(&mut self.mads_sent)
    }

    /// A completion of nothing.
    pub fn write_cqe(&mut self, cqn: u32, cqe: Cqe) {
        self.card.write_cqe(&mut self.host, cqn, cqe);
    }

    /// Tells firmware of something that has not happened.
    pub fn raise(&mut self, kind: HwEventKind, id: u32, cause: u32) {
        self.card.raise(kind, id, cause);
    }
}

impl Bus for Hardware {
    fn cycles(&mut self) -> u32 {
        self.accesses as u32
    }
}

impl RegisterBus for Hardware {
    fn read32(&mut self, addr: u32) -> u32 {
        self.accesses += 1;
        self.card.bus_read(addr)
    }

    fn write32(&mut self, addr: u32, value: u32) {
        self.accesses += 1;
        self.audit_bus(addr, value);
        self.card.bus_write(&mut self.host, addr, value);
        self.audit_done(addr);
    }
}
