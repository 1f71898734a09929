//! QPs of datagrams, and the way from one to the other.

use anyhow::Result;
use hca_system_tests::{Dev, Rig};
use hca_verbs::{
    Ah, AhAttr, ConnectOptions, QpAttr, QpAttrMask, QpCap, QpOptions, QpState, RawQp, Service, Srq,
};

/// What lies in front of the data of a received datagram.
pub const HEADER_BYTES: u32 = 40;
pub const QKEY: u32 = 0x1111_1111;

/// A QP at each card, and the way from the first to the second.
pub struct Joined {
    pub qps: [RawQp<Dev>; 2],
    pub way: Ah<Dev>,
}

/// Makes them.
pub fn join(rig: &Rig, cap: QpCap, path: &ConnectOptions, srq: Option<&Srq<Dev>>) -> Result<Joined> {
    let make = |node: usize| -> Result<RawQp<Dev>> {
        let srq = srq.filter(|_| node == 1);
        let node = &rig.nodes[node];
        let mut qp = node.pd.create_raw_qp(&QpOptions {
            cap,
            srq,
            service: Service::Ud,
            ..QpOptions::new(&node.cq, &node.cq)
        })?;
        let attr = |qp_state| QpAttr {
            qp_state,
            qkey: QKEY,
            ..QpAttr::default()
        };
        let init = QpAttrMask::STATE | QpAttrMask::PKEY_INDEX | QpAttrMask::PORT | QpAttrMask::QKEY;
        qp.modify(&attr(QpState::Init), init)?;
        qp.modify(&attr(QpState::Rtr), QpAttrMask::STATE)?;
        qp.modify(&attr(QpState::Rts), QpAttrMask::STATE | QpAttrMask::SQ_PSN)?;
        Ok(qp)
    };
    let peer = &rig.nodes[1].context;
    let port = peer.query_port(1)?;
    let dgid = path
        .gid_index
        .map(|index| peer.query_gid(1, index.into()))
        .transpose()?;
    let way = rig.nodes[0].pd.create_ah(&AhAttr {
        dgid: dgid.unwrap_or_default(),
        sgid_index: path.gid_index.unwrap_or(0),
        is_global: dgid.is_some(),
        dlid: port.lid(),
        dmac: port.mac(),
        sl: path.sl,
        traffic_class: path.traffic_class,
        ..AhAttr::default()
    })?;
    Ok(Joined {
        qps: [make(0)?, make(1)?],
        way,
    })
}
