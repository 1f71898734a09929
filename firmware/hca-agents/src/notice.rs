//! Notices, and the traps that bring them to the subnet manager (IBA vol1 13.4.8, 13.4.9, 14.2.5.1): a trap goes again
//! until it is repressed, and never sooner behind another than SubnetTimeOut allows (MGMT-6).

use crate::divide::divide;
use crate::mad::{self, MAD_BYTES, Mad, class, method, put_u16, put_u32, put_u64, transaction_of, u16_at};
use crate::sma::{Kept, attr};
use crate::smp;
use crate::switch::Offender;

/// Bytes of the part of a notice that its trap number gives a meaning.
const DETAIL_BYTES: usize = 54;
/// What a notice tells about; its bytes.
pub(crate) type Details = [u8; DETAIL_BYTES];
/// Where a notice begins in a datagram, and its details in it.
const NOTICE: usize = mad::SMP_DATA;
const DETAILS: usize = NOTICE + 10;
/// What trap 259 tells of a packet: both LIDs, P_Key, SL, and the QP that it is for.
const OFFENDER_VALID: u16 = 0x2f;
/// This bit says that a notice is of a kind of the specification.
const GENERIC: u8 = 0x80;
/// However short SubnetTimeOut is: traps leave room for all else.
const MIN_INTERVAL_US: u64 = 10_000;
/// 4.096 us * 2^n.
const TIMEOUT_UNIT_NS: u64 = 4_096;
/// Of trap 144: what has changed besides the capability mask is told, and what that is.
const LOCAL_CHANGES: usize = 5;
const CHANGES: usize = 10;
/// NodeDescription is another one.
pub(crate) const NODE_DESCRIPTION_CHANGED: u16 = 1;
/// Hops that a notice of a bad M_Key has room for.
const NOTICE_HOPS: usize = 30;

/// Kinds of traps; of each one waits at most.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Trap {
    /// The link of a port of a switch has come or gone.
    LinkState = 128,
    /// The capability mask or NodeDescription is another one.
    Capabilities = 144,
    /// Somebody has named a wrong M_Key.
    BadMkey = 256,
    /// A packet of another partition has come.
    BadPkey = 257,
    /// A datagram with a wrong Q_Key has come.
    BadQkey = 258,
    /// A switch has dropped a packet of another partition.
    SwitchBadPkey = 259,
}

const KINDS: [Trap; 6] = [
    Trap::LinkState,
    Trap::Capabilities,
    Trap::BadMkey,
    Trap::BadPkey,
    Trap::BadQkey,
    Trap::SwitchBadPkey,
];

impl Trap {
    /// Urgent, security or informational.
    fn class(self) -> u8 {
        match self {
            Self::LinkState => 1,
            Self::BadMkey | Self::BadPkey | Self::BadQkey | Self::SwitchBadPkey => 2,
            Self::Capabilities => 4,
        }
    }
}

/// A notice that nobody has taken note of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Waiting {
    details: Details,
    /// Of the trap: another one for each event, so that who represses an older one represses this not.
    transaction: u32,
    /// When it was sent last.
    sent_us: Option<u64>,
}

/// The notices of an agent that wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Notices {
    waiting: [Option<Waiting>; KINDS.len()],
    last_transaction: u32,
    /// When a trap went last.
    sent_us: Option<u64>,
}

impl Notices {
    pub const fn new() -> Self {
        Self {
            waiting: [None; KINDS.len()],
            last_transaction: 0,
            sent_us: None,
        }
    }

    /// Something has happened. One of the same kind that still waits is told as this one.
    pub fn raise(&mut self, trap: Trap, details: Details) {
        self.last_transaction = self.last_transaction.wrapping_add(1);
        let transaction = self.last_transaction;
        for (slot, kind) in self.waiting.iter_mut().zip(KINDS) {
            if kind == trap {
                let sent_us = slot.and_then(|waiting| waiting.sent_us);
                *slot = Some(Waiting {
                    details,
                    transaction,
                    sent_us,
                });
            }
        }
    }

    /// Trap 144. It tells of what has changed since the subnet manager has heard of one last: of both, if it is two
    /// things.
    pub fn raise_local(&mut self, mut details: Details) {
        let waiting = KINDS.into_iter().zip(self.waiting);
        let mut waiting = waiting.filter(|(kind, _)| *kind == Trap::Capabilities);
        if let Some((_, Some(before))) = waiting.next() {
            details[LOCAL_CHANGES] |= before.details[LOCAL_CHANGES];
            let changes = u16_at(&details, CHANGES) | u16_at(&before.details, CHANGES);
            put_u16(&mut details, CHANGES, changes);
        }
        self.raise(Trap::Capabilities, details);
    }

    /// The subnet manager has heard of one.
    pub fn repress(&mut self, mad: &Mad) {
        for slot in &mut self.waiting {
            *slot = slot.filter(|waiting| u64::from(waiting.transaction) != transaction_of(mad));
        }
    }

    /// The one whose turn it is, and how many wait.
    fn first(&self) -> Option<(Trap, Waiting, u16)> {
        let all = KINDS.into_iter().zip(self.waiting);
        let all = all.filter_map(|(kind, slot)| slot.map(|waiting| (kind, waiting)));
        let count = self.waiting.iter().flatten().count() as u16;
        all.min_by_key(|(_, waiting)| waiting.sent_us)
            .map(|(kind, waiting)| (kind, waiting, count))
    }

    /// When the next trap goes; `None`: nothing is to be told, or nobody is there.
    pub fn due_us(&self, kept: &Kept) -> Option<u64> {
        if kept.sm_lid == 0 || self.waiting.iter().all(Option::is_none) {
            return None;
        }
        let timeout_us = divide(TIMEOUT_UNIT_NS << kept.subnet_timeout, 1_000);
        Some(self.sent_us.map_or(0, |at| at + timeout_us.max(MIN_INTERVAL_US)))
    }

    /// The trap that goes now.
    pub fn next(&mut self, now_us: u64, kept: &Kept, lid: u16, producer: u8) -> Option<Mad> {
        if self.due_us(kept)? > now_us {
            return None;
        }
        let (trap, waiting, count) = self.first()?;
        self.sent_us = Some(now_us);
        for (slot, kind) in self.waiting.iter_mut().zip(KINDS) {
            if let Some(waiting) = slot.as_mut().filter(|_| kind == trap) {
                waiting.sent_us = Some(now_us);
            }
        }
        let mut mad = [0; MAD_BYTES];
        (mad[0], mad[1], mad[2], mad[3]) = (1, class::SM_LID, 1, method::TRAP);
        put_u64(&mut mad, 8, waiting.transaction.into());
        put_u16(&mut mad, 16, attr::NOTICE);
        write(&mut mad, trap, &waiting.details, lid, producer, count - 1);
        Some(mad)
    }

    /// Get of Notice: the first of the queue, or nothing. A Set takes it out.
    pub fn attribute(&mut self, mad: &mut Mad, is_set: bool, lid: u16, producer: u8) {
        if is_set && let Some((trap, ..)) = self.first() {
            for (slot, kind) in self.waiting.iter_mut().zip(KINDS) {
                *slot = slot.filter(|_| kind != trap);
            }
        }
        mad[NOTICE..NOTICE + mad::SMP_DATA_BYTES].fill(0);
        if let Some((trap, waiting, count)) = self.first() {
            write(mad, trap, &waiting.details, lid, producer, count);
        }
    }
}

fn write(mad: &mut Mad, trap: Trap, details: &Details, lid: u16, producer: u8, count: u16) {
    mad[NOTICE] = GENERIC | trap.class();
    mad[NOTICE + 3] = producer;
    put_u16(mad, NOTICE + 4, trap as u16);
    put_u16(mad, NOTICE + 6, lid);
    put_u16(mad, NOTICE + 8, count);
    mad[DETAILS..DETAILS + DETAIL_BYTES].copy_from_slice(details);
}

/// Of trap 128: the switch.
pub(crate) fn link_state(lid: u16) -> Details {
    let mut details = [0; DETAIL_BYTES];
    put_u16(&mut details, 0, lid);
    details
}

/// Of trap 144: the port, what it can do now, and what else has changed.
pub(crate) fn local_change(lid: u16, cap_mask: u32, changes: u16) -> Details {
    let mut details = [0; DETAIL_BYTES];
    put_u16(&mut details, 2, lid);
    details[LOCAL_CHANGES] = u8::from(changes != 0);
    put_u32(&mut details, 6, cap_mask);
    put_u16(&mut details, CHANGES, changes);
    details
}

/// Of trap 256: the request, from whom it came and how.
pub(crate) fn bad_mkey(mad: &Mad, slid: u16) -> Details {
    let mut details = [0; DETAIL_BYTES];
    put_u16(&mut details, 2, slid);
    put_u16(&mut details, 4, u16_at(mad, 32));
    details[6] = mad::method_of(mad);
    put_u16(&mut details, 8, mad::attribute_of(mad));
    put_u32(&mut details, 10, mad::modifier_of(mad));
    put_u64(&mut details, 14, mad::mkey_of(mad));
    if smp::is_directed(mad) {
        let hops = usize::from(smp::hops_of(mad).min(smp::MAX_HOPS));
        let told = hops.min(NOTICE_HOPS);
        details[23] = 0x80 | u8::from(hops > told) << 6 | told as u8;
        details[24..24 + told].copy_from_slice(&smp::return_path(mad)[1..=told]);
    } else {
        put_u16(&mut details, 4, 0);
    }
    details
}

/// Of traps 257 and 258: the LID that a packet was from, the port and the QP that it was for. Hardware keeps no such
/// packet: its key and its QP stay 0.
pub(crate) fn bad_key(slid: u16, lid: u16, qpn: u32) -> Details {
    let mut details = [0; DETAIL_BYTES];
    put_u16(&mut details, 2, slid);
    put_u16(&mut details, 4, lid);
    put_u32(&mut details, 14, qpn & 0xff_ffff);
    details
}

/// Of trap 259: the packet, the switch, and the port that has dropped it. Who has sent it names no QP of his own.
pub(crate) fn switch_bad_pkey(lid: u16, port: u8, packet: &Offender) -> Details {
    let mut details = [0; DETAIL_BYTES];
    put_u16(&mut details, 0, OFFENDER_VALID);
    put_u16(&mut details, 2, packet.slid);
    put_u16(&mut details, 4, packet.dlid);
    put_u16(&mut details, 6, packet.pkey);
    put_u32(&mut details, 8, u32::from(packet.sl) << 28);
    put_u32(&mut details, 12, packet.dest_qpn & 0xff_ffff);
    put_u16(&mut details, 48, lid);
    details[50] = port;
    details
}

#[cfg(test)]
#[path = "notice_tests.rs"]
mod tests;
