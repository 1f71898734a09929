//! Datagrams: to QPs of this card only; those to anybody else go out and are not seen again.

use hca_abi::{
    Cqe, CtxTable, GROUP_HASH_HEADS, GidRow, GroupRow, Mtu, QpState, Qpc, Service, SqWqeUdCtrl,
    WC_SL_ROCE_IPV4, WC_SL_ROCE_IPV6, WcOpcode, WcStatus, WrOpcode, wc_flag,
};
use hca_fw_core::{NUM_GIDS, line_of};
use hca_wire::{QPN_GSI, QPN_MULTICAST, QPN_SMI};

use crate::card::{Card, PortIdentity};

/// OP-22: room before the data for the header of the network.
pub(crate) const GRH_BYTES: usize = 40;
/// KEY-24: send the QP's own Q_Key instead.
const CONTROLLED_QKEY: u32 = 1 << 31;
const IPV4_PREFIX: [u8; 12] = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff];
/// What follows the GRH: UDP, or the transport header of InfiniBand.
const NEXT_UDP: u8 = 17;
const NEXT_IBA: u8 = 0x1b;
/// Bytes of the headers that an IP header's length counts, before the data: UDP, BTH, DETH; the ICRC behind it.
const TRANSPORT_BYTES: usize = 8 + 12 + 8 + 4;

fn mtu_bytes(qpc: &Qpc) -> u32 {
    match Mtu::try_from(qpc.path_mtu()) {
        Ok(mtu) => 128 << u8::from(mtu),
        Err(_) => 0,
    }
}

/// The GRH, or behind 20 bytes of nothing the IPv4 header (IBA annex A17.4.5.2).
fn network_header(wqe: &SqWqeUdCtrl, sgid: [u8; 16], is_infiniband: bool) -> [u8; GRH_BYTES] {
    let mut out = [0; GRH_BYTES];
    let payload = wqe.length() as usize + TRANSPORT_BYTES;
    if is_infiniband && !wqe.is_global() {
        return out;
    }
    if !is_infiniband && wqe.dgid()[..12] == IPV4_PREFIX {
        let header = &mut out[20..];
        (header[0], header[1]) = (0x45, wqe.traffic_class());
        header[2..4].copy_from_slice(&((20 + payload) as u16).to_be_bytes());
        (header[8], header[9]) = (wqe.hop_limit(), NEXT_UDP);
        header[12..16].copy_from_slice(&sgid[12..]);
        header[16..].copy_from_slice(&wqe.dgid()[12..]);
        let words = header
            .chunks(2)
            .map(|w| u32::from(u16::from_be_bytes([w[0], w[1]])));
        let sum: u32 = words.sum();
        let fold = |sum: u32| (sum & 0xffff) + (sum >> 16);
        header[10..12].copy_from_slice(&(!fold(fold(sum)) as u16).to_be_bytes());
        return out;
    }
    let word = 6 << 28 | u32::from(wqe.traffic_class()) << 20 | wqe.flow_label();
    out[..4].copy_from_slice(&word.to_be_bytes());
    out[4..6].copy_from_slice(&(payload as u16).to_be_bytes());
    out[6] = if is_infiniband { NEXT_IBA } else { NEXT_UDP };
    out[7] = wqe.hop_limit();
    out[8..24].copy_from_slice(&sgid);
    out[24..].copy_from_slice(&wqe.dgid());
    out
}

/// The exclusive or of the 6-bit pieces of an MGID.
fn hash(mgid: [u8; 16]) -> u32 {
    let bits = u128::from_le_bytes(mgid);
    (0..22).fold(0, |hash, piece| hash ^ (bits >> (6 * piece)) as u32 & 63)
}

/// Does the port take packets with this destination?
fn is_for(port: &PortIdentity, wqe: &SqWqeUdCtrl) -> bool {
    if port.is_infiniband {
        wqe.dlid() >> port.lmc == port.lid >> port.lmc
    } else {
        wqe.dmac() == port.mac
    }
}

impl Card {
    fn gid(&self, port: u8, index: u8) -> [u8; 16] {
        let row = u32::from(port.saturating_sub(1)) * NUM_GIDS as u32 + u32::from(index);
        GidRow::read_from(&self.row(CtxTable::Gid, row)).map_or([0; 16], |row| row.gid())
    }

    /// Sends a datagram, whose data has been gathered. Whether anybody gets it does not matter.
    pub(crate) fn send_datagram(
        &mut self,
        qpc: &Qpc,
        wqe: &SqWqeUdCtrl,
        data: &[u8],
    ) -> Result<(), WcStatus> {
        if !matches!(
            WrOpcode::try_from(wqe.opcode()),
            Ok(WrOpcode::Send | WrOpcode::SendWithImm)
        ) {
            return Err(WcStatus::LocQpOpErr);
        }
        let port = self.port_identity(qpc.port());
        let sgid = self.gid(qpc.port(), wqe.sgid_index());
        if wqe.length() > mtu_bytes(qpc) {
            return Err(WcStatus::LocLenErr);
        }
        if !port.is_infiniband && (!wqe.is_global() || sgid == [0; 16]) {
            self.violation(format!(
                "QP {:#x}: a datagram without a source GID: {wqe:?}",
                qpc.qpn()
            ));
            return Err(WcStatus::LocQpOpErr);
        }
        for qpn in self.takers(qpc, wqe) {
            self.deliver(qpc, wqe, sgid, qpn, data);
        }
        Ok(())
    }

    /// QPs of this card that get the datagram, each a copy, if they want it.
    fn takers(&self, qpc: &Qpc, wqe: &SqWqeUdCtrl) -> Vec<u32> {
        let port_index = qpc.port().saturating_sub(1);
        let head = match wqe.remote_qpn() {
            QPN_GSI => u32::from(port_index),
            QPN_MULTICAST => GROUP_HASH_HEADS + hash(wqe.dgid()),
            _ if is_for(&self.port_identity(qpc.port()), wqe) => return vec![wqe.remote_qpn()],
            _ => return Vec::new(),
        };
        let row = |at| GroupRow::read_from(&self.row(CtxTable::Group, at));
        let next = |at| Some(u32::from(row(at)?.next())).filter(|next| *next != 0);
        let list = std::iter::successors(next(head), |at| next(*at)).filter_map(row);
        let own = list.filter(|row| {
            let is_group = row.is_multicast() && row.port() == port_index && row.mgid() == wqe.dgid();
            row.valid() && (is_group || (!row.is_multicast() && is_for(&self.port_identity(qpc.port()), wqe)))
        });
        own.map(|row| row.qpn()).collect()
    }

    fn deliver(&mut self, qpc: &Qpc, wqe: &SqWqeUdCtrl, sgid: [u8; 16], qpn: u32, data: &[u8]) {
        let port = self.port_identity(qpc.port());
        let peer_line = line_of(qpn);
        let peer = self.qpc(peer_line);
        let qkey = match wqe.qkey() & CONTROLLED_QKEY {
            0 => wqe.qkey(),
            _ => qpc.qkey(),
        };
        let listens = matches!(
            QpState::try_from(peer.state()),
            Ok(QpState::Rtr | QpState::Rts | QpState::Sqd | QpState::Sqe)
        );
        let is_taken = peer.qpn() == qpn
            && Service::try_from(peer.service()) == Ok(Service::Ud)
            && listens
            && peer.port() == qpc.port()
            && peer.qkey() == qkey
            && self.can_receive(peer_line);
        if !is_taken {
            return;
        }
        let mut message = network_header(wqe, sgid, port.is_infiniband).to_vec();
        message.extend_from_slice(data);
        let mut cqe = Cqe::new();
        cqe.set_opcode(WcOpcode::Recv.into());
        cqe.set_byte_len(message.len() as u32);
        cqe.set_src_qp(match (qpc.is_smi(), qpc.is_gsi()) {
            (true, _) => QPN_SMI,
            (_, true) => QPN_GSI,
            _ => qpc.qpn(),
        });
        // P_Keys are not judged here: whoever sends and receives on a QP1 shares that one.
        if peer.is_gsi() && qpc.is_gsi() {
            cqe.set_pkey_index(wqe.pkey_index().into());
        }
        if port.is_infiniband {
            cqe.set_sl(wqe.sl());
            cqe.set_slid(port.lid | u16::from(wqe.src_path_bits()));
            cqe.set_dlid_path_bits((wqe.dlid() ^ port.lid) as u8);
        } else if wqe.dgid()[..12] == IPV4_PREFIX {
            cqe.set_sl(WC_SL_ROCE_IPV4 as u8);
        } else {
            cqe.set_sl(WC_SL_ROCE_IPV6 as u8);
        }
        let mut flags = if wqe.is_global() { wc_flag::GRH } else { 0 };
        if wqe.opcode() == u8::from(WrOpcode::SendWithImm) {
            flags |= wc_flag::WITH_IMM;
            cqe.set_imm_data(wqe.imm_data());
        }
        cqe.set_wc_flags(flags);
        // What goes wrong there is no matter of the sender.
        let _ = self.receive(peer_line, &peer, cqe, Some(&message), wqe.solicited());
    }
}
