//! A client that keeps every rule, and names strangers' QPs as its peers: it knows their numbers and the PSNs that they
//! expect, but sends from another address than their peers do (QPS-17).

use hca_cosim::SimDevice;
use hca_link::LinkKind;
use hca_verbs::{
    ConnectOptions, Mtu, PeerInfo, QpCap, RawQp, SendFlags, SendOp, SendWr, WrData, connect_raw, peer_info,
};

use crate::node::{Dev, Node, path};
use crate::rig::RigError;
use crate::rng::Rng;

/// Packets to each stranger: as many as are sent without an answer.
const PACKETS: u32 = 32;

/// A QP that somebody else uses.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stranger {
    pub qpn: u32,
    /// The first PSN that it expects from its peer.
    pub psn: u32,
}

/// A function with one QP for each stranger.
pub(crate) struct Intruder {
    _node: Node,
    /// What is left to be posted of each.
    qps: Vec<(RawQp<Dev>, u32)>,
}

impl Intruder {
    /// Strangers on the card of this function: their peers are on another one.
    pub fn new(
        dev: SimDevice,
        link: LinkKind,
        rng: &mut Rng,
        strangers: &[Stranger],
    ) -> Result<Self, RigError> {
        let node = Node::open(dev, 16)?;
        let options = ConnectOptions {
            gid_index: (link == LinkKind::Ethernet).then_some(1),
            // Nobody answers, and it goes on.
            timeout: 0,
            ..path(Mtu::Bytes1024)
        };
        let cap = QpCap {
            max_send_wr: PACKETS,
            ..QpCap::default()
        };
        let mut qps = Vec::new();
        for stranger in strangers {
            let mut qp = node.create_qp(cap, false)?;
            let peer = PeerInfo {
                qp_num: stranger.qpn,
                ..peer_info(&qp, &options, 0)?
            };
            // Some of them come when they would be the next ones.
            let psn = (stranger.psn + rng.below(2 * PACKETS)) & 0xff_ffff;
            connect_raw(&mut qp, &options, psn, &peer)?;
            qps.push((qp, PACKETS));
        }
        Ok(Self { _node: node, qps })
    }

    /// A message without bytes to one of them, if it has not had all; returns how many were posted.
    pub fn step(&mut self, rng: &mut Rng) -> Result<u64, RigError> {
        let at = rng.below(self.qps.len() as u32) as usize;
        let (qp, left) = &mut self.qps[at];
        if *left == 0 {
            return Ok(0);
        }
        *left -= 1;
        let op = if rng.percent(50) {
            SendOp::Send
        } else {
            SendOp::RdmaWrite {
                remote_addr: 0,
                rkey: 0,
            }
        };
        qp.post_send(&[SendWr {
            wr_id: 0,
            op,
            flags: SendFlags::default(),
            data: WrData::Sges(&[]),
        }])?;
        Ok(1)
    }
}
