//! What a switch reads of a packet behind its LRH, and the one field that it writes.

use hca_agents::switch::Offender;
use hca_wire::{LNH_IBA_GLOBAL, LNH_IBA_LOCAL, crc, lrh};

use super::link::Received;

const LRH_BYTES: usize = 8;
const GRH_BYTES: usize = 40;

/// Partition, QP and way of a packet; `None`: it has no BTH (raw packets).
pub(crate) fn offender(received: &Received) -> Option<Offender> {
    let at = match received.bytes.get(1)? & 3 {
        LNH_IBA_LOCAL => LRH_BYTES,
        LNH_IBA_GLOBAL => LRH_BYTES + GRH_BYTES,
        _ => return None,
    };
    let bth = received.bytes.get(at..at + 8)?;
    Some(Offender {
        slid: received.lrh.slid,
        dlid: received.lrh.dlid,
        pkey: u16::from_be_bytes([bth[2], bth[3]]),
        sl: received.lrh.sl,
        dest_qpn: u32::from_be_bytes([0, bth[5], bth[6], bth[7]]),
    })
}

/// Writes the VL into a packet's LRH, and the VCRC that follows from it. The ICRC does not cover the VL.
pub(crate) fn set_vl(bytes: &mut [u8], vl: u8) {
    let body = bytes.len().saturating_sub(hca_wire::VCRC_LEN);
    if let Ok(mut packet) = lrh::Packet::new_checked(&mut bytes[..body]) {
        packet.set_vl(vl);
    }
    let vcrc = crc::vcrc(&bytes[..body]);
    bytes[body..].copy_from_slice(&vcrc.to_be_bytes());
}
