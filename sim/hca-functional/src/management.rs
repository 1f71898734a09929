//! Packets between a port and firmware: datagrams for the agents of an InfiniBand port, frames of LLDP.

use hca_abi::MGMT_VL;
use hca_model::Frame;
use hca_wire::{
    ETHERTYPE_LLDP, Framing, LNH_IBA_GLOBAL, Link, MAD_ATTR_SM_INFO, MAD_CLASS_BM, MAD_CLASS_PERF, MAD_GET,
    MAD_SET, MAD_TRAP_REPRESS, Opcode, QPN_GSI, QPN_SMI, crc,
};

/// Bytes of a management datagram.
const MAD_BYTES: usize = 256;
const CRC_BYTES: usize = hca_wire::ICRC_LEN + hca_wire::VCRC_LEN;

/// A packet of subnet management: for QP0, on VL15. It sets ports up, so that it needs no active one.
pub(crate) fn is_smp(frame: &Frame) -> bool {
    match frame.link {
        Link::InfiniBand { lrh, .. } => frame.packet.dest_qp == QPN_SMI && u32::from(lrh.vl) == MGMT_VL,
        Link::Ethernet { .. } => false,
    }
}

/// A request to an agent of the port, which firmware answers; others are for the QPs that share QP0 and QP1.
pub(crate) fn is_for_agent(frame: &Frame) -> bool {
    let (packet, payload) = (&frame.packet, &frame.packet.payload);
    let is_management = matches!(frame.link, Link::InfiniBand { .. })
        && packet.opcode == Opcode::UdSendOnly
        && payload.len() == MAD_BYTES;
    if !is_management || ![MAD_GET, MAD_SET, MAD_TRAP_REPRESS].contains(&payload[3]) {
        return false;
    }
    match packet.dest_qp {
        QPN_SMI if !is_smp(frame) => false,
        QPN_SMI => u16::from_be_bytes([payload[16], payload[17]]) != MAD_ATTR_SM_INFO,
        QPN_GSI => [MAD_CLASS_PERF, MAD_CLASS_BM].contains(&payload[1]),
        _ => false,
    }
}

/// What firmware gets of a packet: it without its CRCs.
pub(crate) fn without_crcs(mut bytes: Vec<u8>) -> Vec<u8> {
    bytes.truncate(bytes.len().saturating_sub(CRC_BYTES));
    bytes
}

/// A packet of firmware's, from the LRH to its payload, with its CRCs.
pub(crate) fn with_crcs(mut bytes: Vec<u8>) -> Vec<u8> {
    let is_global = bytes.get(1).is_some_and(|byte| byte & 3 == LNH_IBA_GLOBAL);
    let icrc = match is_global {
        true => crc::icrc_ib_global(&bytes),
        false => crc::icrc_ib_local(&bytes),
    };
    bytes.extend(icrc.to_be_bytes());
    let vcrc = crc::vcrc(&bytes);
    bytes.extend(vcrc.to_be_bytes());
    bytes
}

/// A frame that says who the neighbour of an Ethernet port is.
pub(crate) fn is_lldp(framing: Framing, bytes: &[u8]) -> bool {
    framing == Framing::Ethernet && bytes.get(12..14) == Some(&ETHERTYPE_LLDP.to_be_bytes())
}
