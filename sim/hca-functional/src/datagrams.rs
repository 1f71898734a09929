//! Packets that come: whose they are.

use hca_abi::{CtxTable, GROUP_HASH_HEADS, GROUP_ROWS, GROUP_SMI_HEADS, GroupRow, PathMigState};
use hca_fw_core::line_of;
use hca_model::Frame;
use hca_wire::{Framing, Link, Network, QPN_GSI, QPN_MULTICAST, QPN_SMI};

use crate::body::Body;
use crate::management::is_smp;
use crate::reach::is_multicast_lid;

/// The exclusive or of the 6-bit pieces of an MGID.
fn hash(mgid: [u8; 16]) -> u32 {
    let bits = u128::from_le_bytes(mgid);
    (0..22).fold(0, |hash, piece| hash ^ (bits >> (6 * piece)) as u32 & 63)
}

/// Where a packet comes from and where it goes to, as GIDs; none without a global header.
pub(crate) fn gids(link: &Link) -> Option<([u8; 16], [u8; 16])> {
    let of_ipv4 = |addr: [u8; 4]| {
        let mut gid = [0; 16];
        gid[10..12].copy_from_slice(&[0xff, 0xff]);
        gid[12..].copy_from_slice(&addr);
        gid
    };
    match link {
        Link::InfiniBand { grh, .. } => grh.map(|grh| (grh.sgid, grh.dgid)),
        Link::Ethernet {
            ip: Network::Ipv6(ip),
            ..
        } => Some((ip.src_addr, ip.dst_addr)),
        Link::Ethernet {
            ip: Network::Ipv4(ip),
            ..
        } => Some((of_ipv4(ip.src_addr), of_ipv4(ip.dst_addr))),
    }
}

/// How a packet that leaves is to be taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ways {
    /// The port itself is meant.
    pub to_self: bool,
    /// Others are.
    pub to_others: bool,
}

impl Body {
    /// Where a packet of a port, from 0, goes.
    pub fn ways(&self, port: usize, link: &Link) -> Ways {
        let port = &self.ports[port];
        let (is_own, is_group) = match link {
            Link::Ethernet { eth, .. } => (eth.dst_mac == port.mac, eth.dst_mac[0] & 1 != 0),
            Link::InfiniBand { lrh, .. } => (port.has_lid(lrh.dlid), is_multicast_lid(lrh.dlid)),
        };
        Ways {
            to_self: is_own || is_group,
            to_others: !is_own,
        }
    }

    /// A packet that has come through a port, from 0, is for this card.
    pub fn is_for(&self, port: usize, link: &Link) -> bool {
        self.ways(port, link).to_self
    }

    /// The framing of a port.
    pub fn framing(&self, port: usize) -> Framing {
        if self.ports[port].is_infiniband {
            Framing::InfiniBand
        } else {
            Framing::Ethernet
        }
    }

    /// The line of the QP that gets a packet for one of the usual numbers, if it is there. Whoever has migrated may ask
    /// through another port (APM-3).
    pub fn only_taker(&self, port: usize, frame: &Frame) -> Option<u32> {
        let qpn = frame.packet.dest_qp;
        if matches!(qpn, QPN_GSI | QPN_SMI | QPN_MULTICAST) {
            return None;
        }
        let there = self.qpc_of(qpn)?;
        let asks = || there.path_mig_state() == u8::from(PathMigState::Armed) && frame.packet.mig_req;
        (usize::from(there.port()) == port + 1 || asks()).then(|| line_of(qpn))
    }

    /// Lines of the QPs that get a packet.
    pub fn takers(&self, port: usize, frame: &Frame) -> Vec<u32> {
        let qpn = frame.packet.dest_qp;
        let mgid = match qpn {
            QPN_MULTICAST => gids(&frame.link).map(|(_, destination)| destination),
            _ => None,
        };
        let head = match (qpn, mgid) {
            (QPN_GSI, _) => port as u32,
            (QPN_SMI, _) if !is_smp(frame) => return Vec::new(),
            (QPN_SMI, _) => GROUP_SMI_HEADS + port as u32,
            (QPN_MULTICAST, Some(mgid)) => GROUP_HASH_HEADS + hash(mgid),
            (QPN_MULTICAST, None) => return Vec::new(),
            _ => return self.only_taker(port, frame).into_iter().collect(),
        };
        let row = |at| GroupRow::read_from(self.row(CtxTable::Group, at)).unwrap_or_default();
        let next = |at: &u32| Some(u32::from(row(*at).next())).filter(|next| *next != 0);
        let list = std::iter::successors(next(&head), next).take(GROUP_ROWS as usize);
        // A list of groups has others with the same hash; one of QP1s or QP0s is of one port.
        let is_member = |row: &GroupRow| match mgid {
            Some(mgid) => row.is_multicast() && row.mgid() == mgid && usize::from(row.port()) == port,
            None => !row.is_multicast(),
        };
        list.map(row)
            .filter(|row| row.valid() && is_member(row) && self.qpc_of(row.qpn()).is_some())
            .map(|row| line_of(row.qpn()))
            .collect()
    }
}
