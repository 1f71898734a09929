//! Raw QPs, and the rule that leads one's frames to the other.

use anyhow::Result;
use hca_dev::DmaBuf;
use hca_system_tests::{Dev, Rig};
use hca_verbs::{
    EthFilter, Flow, FlowAttr, FlowSpec, QpAttr, QpAttrMask, QpCap, QpOptions, QpState, RawQp, Service, Srq,
};

/// Shortest frame without FCS.
pub const FRAME_BYTES_MIN: u32 = 60;
/// What a frame may have beyond the MTU.
pub const HEADER_BYTES: u32 = hca_abi::MAX_ETH_HEADER_BYTES;
/// Each pair of QPs needs a rule.
pub const QPS_MAX: u32 = hca_abi::RULES;
const MAC_BYTES: [u8; 6] = [0xff; 6];
/// IEEE 802 local experimental EtherType 1.
const ETHER_TYPE: [u8; 2] = [0x88, 0xb5];

/// A QP at each card; frames of the first go to the second while the rule is there.
pub struct Joined {
    pub qps: [RawQp<Dev>; 2],
    pub rule: Flow<Dev>,
}

/// Destination of the frames of a pair of QPs: a locally administered address of its own.
fn mac(index: u32) -> [u8; 6] {
    [0x06, 0x48, 0x43, 0, 1, index as u8]
}

/// Makes them, and puts the header into the source.
pub fn join(
    rig: &Rig,
    cap: QpCap,
    index: u32,
    srq: Option<&Srq<Dev>>,
    (source, at): (&DmaBuf, u64),
) -> Result<Joined> {
    let make = |node: usize| -> Result<RawQp<Dev>> {
        let srq = srq.filter(|_| node == 1);
        let node = &rig.nodes[node];
        let mut qp = node.pd.create_raw_qp(&QpOptions {
            cap,
            srq,
            service: Service::Raw,
            ..QpOptions::new(&node.cq, &node.cq)
        })?;
        let attr = |qp_state| QpAttr {
            qp_state,
            ..QpAttr::default()
        };
        qp.modify(&attr(QpState::Init), QpAttrMask::STATE | QpAttrMask::PORT)?;
        qp.modify(&attr(QpState::Rtr), QpAttrMask::STATE)?;
        qp.modify(&attr(QpState::Rts), QpAttrMask::STATE)?;
        Ok(qp)
    };
    let qps = [make(0)?, make(1)?];
    let filter = |dst_mac| EthFilter {
        dst_mac,
        ..EthFilter::default()
    };
    let rule = qps[1].create_flow(&FlowAttr {
        port_num: 1,
        specs: &[FlowSpec::Eth(filter(mac(index)), filter(MAC_BYTES))],
        ..FlowAttr::default()
    })?;
    let from = rig.nodes[0].context.query_port(1)?.mac();
    source.write_bytes(at as usize, &[&mac(index)[..], &from, &ETHER_TYPE].concat());
    Ok(Joined { qps, rule })
}
