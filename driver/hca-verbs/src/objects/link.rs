//! The link of a port: virtual lanes, their arbitration, credits, states. What a subnet manager would set.

use hca_abi::{
    LinkLayer, LinkPolicy, Mtu, OpVls, PortState, QueryLinkErrorsResult, SetLinkCmd, VlCounters, link_attr,
};
use hca_driver::{DevicePtr, VlWeight};

use crate::objects::context::Context;
use crate::values::error::{Error, Result};

/// What to change of a link. Starts empty; each method adds one thing. The card does all of it or nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LinkConfig {
    state: Option<PortState>,
    vls: Option<OpVls>,
    peer_vls: Option<OpVls>,
    policy: Option<LinkPolicy>,
    limit: Option<u8>,
    hoq_life: Option<u8>,
    pfc_enable: Option<u8>,
}

impl LinkConfig {
    /// Nothing.
    pub fn new() -> Self {
        Self::default()
    }

    /// Moves the link: DOWN from anywhere, else one step DOWN, INIT, ARMED, ACTIVE.
    pub fn state(self, state: PortState) -> Self {
        Self {
            state: Some(state),
            ..self
        }
    }

    /// Data VLs to use, at most as many as the card was built with.
    pub fn vls(self, vls: OpVls) -> Self {
        Self {
            vls: Some(vls),
            ..self
        }
    }

    /// Data VLs of the other end: the link uses the smaller number (VL-4).
    pub fn peer_vls(self, vls: OpVls) -> Self {
        Self {
            peer_vls: Some(vls),
            ..self
        }
    }

    /// How the arbiter shares the link.
    pub fn policy(self, policy: LinkPolicy) -> Self {
        Self {
            policy: Some(policy),
            ..self
        }
    }

    /// Limit of High Priority in units of 4096 bytes; 255: none, 0: one packet.
    pub fn limit(self, limit: u8) -> Self {
        Self {
            limit: Some(limit),
            ..self
        }
    }

    /// A packet may wait 1024 << n cycles in the transmit ring; 31: for ever.
    pub fn hoq_life(self, hoq_life: u8) -> Self {
        Self {
            hoq_life: Some(hoq_life),
            ..self
        }
    }

    /// Ethernet: bit n: priority n obeys and sends PFC pauses.
    pub fn pfc_enable(self, priorities: u8) -> Self {
        Self {
            pfc_enable: Some(priorities),
            ..self
        }
    }

    fn to_abi(self, port_num: u8) -> SetLinkCmd {
        let mut cmd = SetLinkCmd::new();
        let mut mask = 0;
        cmd.set_port_num(port_num);
        if let Some(state) = self.state {
            cmd.set_state(state.into());
            mask |= link_attr::STATE;
        }
        if let Some(vls) = self.vls {
            cmd.set_op_vls(vls.into());
            mask |= link_attr::OP_VLS;
        }
        if let Some(vls) = self.peer_vls {
            cmd.set_peer_vls(vls.into());
            mask |= link_attr::PEER_VLS;
        }
        if let Some(policy) = self.policy {
            cmd.set_policy(policy.into());
            mask |= link_attr::POLICY;
        }
        if let Some(limit) = self.limit {
            cmd.set_limit(limit);
            mask |= link_attr::LIMIT;
        }
        if let Some(hoq_life) = self.hoq_life {
            cmd.set_hoq_life(hoq_life);
            mask |= link_attr::HOQ_LIFE;
        }
        if let Some(priorities) = self.pfc_enable {
            cmd.set_pfc_enable(priorities);
            mask |= link_attr::PFC_ENABLE;
        }
        cmd.set_attr_mask(mask);
        cmd
    }
}

/// One of the two arbitration tables of a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VlArbTable {
    /// Served first, within the Limit of High Priority.
    High,
    /// Served when high has nothing, or has used its limit up.
    Low,
}

/// State and configuration of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkStatus {
    /// The state.
    pub state: PortState,
    /// The state that was asked for.
    pub wanted_state: PortState,
    /// The physical link is up.
    pub phy_up: bool,
    /// Personality of the port.
    pub link_layer: LinkLayer,
    /// Data VLs the card was built with.
    pub built_vls: OpVls,
    /// Data VLs of the other end, as far as anybody said.
    pub peer_vls: OpVls,
    /// Data VLs in use.
    pub op_vls: OpVls,
    /// How the arbiter shares the link.
    pub policy: LinkPolicy,
    /// Limit of High Priority in units of 4096 bytes; 255: none, 0: one packet.
    pub limit: u8,
    /// MTU of the port.
    pub mtu: Mtu,
    /// A packet may wait 1024 << n cycles in the transmit ring; 31: for ever.
    pub hoq_life: u8,
    /// Ethernet: bit n: priority n obeys and sends PFC pauses.
    pub pfc_enable: u8,
    /// LID mask control.
    pub lmc: u8,
    /// LID.
    pub lid: u16,
    /// The VL of each SL; 15: unusable for data.
    pub sl2vl: [u8; 16],
    /// Blocks of 64 bytes in a VL's transmit ring; 0: not told.
    pub tx_ring_blocks: u32,
    /// Blocks of 64 bytes in a VL's receive ring; 0: not told.
    pub rx_ring_blocks: u32,
}

/// Counters of a link. All are free running and wrap at 32 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkCounters {
    /// Credits, rings and counters of VL0..VL15.
    pub vls: [VlCounters; 16],
    /// Errors.
    pub errors: QueryLinkErrorsResult,
}

fn known<T: TryFrom<u8>>(what: &str, code: u8) -> Result<T> {
    T::try_from(code).map_err(|_| Error::Invalid(format!("the card says {what} {code}, which is none")))
}

impl<P: DevicePtr> Context<P> {
    /// Changes a link: all of it or nothing. A refusal names the `link_attr` bit of what was wrong.
    pub fn link_config(&self, port_num: u8, config: &LinkConfig) -> Result<()> {
        Ok(self.function().set_link(&config.to_abi(port_num))?)
    }

    /// State and configuration of a link.
    pub fn link_status(&self, port_num: u8) -> Result<LinkStatus> {
        let r = self.function().query_link(port_num)?;
        Ok(LinkStatus {
            state: known("port state", r.state())?,
            wanted_state: known("port state", r.wanted_state())?,
            phy_up: r.phy_up(),
            link_layer: known("link layer", r.link_layer())?,
            built_vls: known("VLs", r.built_vls())?,
            peer_vls: known("VLs", r.peer_vls())?,
            op_vls: known("VLs", r.op_vls())?,
            policy: known("policy", r.policy())?,
            limit: r.limit(),
            mtu: known("MTU", r.mtu())?,
            hoq_life: r.hoq_life(),
            pfc_enable: r.pfc_enable(),
            lmc: r.lmc(),
            lid: r.lid(),
            sl2vl: std::array::from_fn(|sl| (r.sl2vl() >> (4 * sl) & 15) as u8),
            tx_ring_blocks: r.tx_ring(),
            rx_ring_blocks: r.rx_ring(),
        })
    }

    /// Credits, rings and counters per VL, and errors.
    pub fn link_counters(&self, port_num: u8) -> Result<LinkCounters> {
        let mut function = self.function();
        Ok(LinkCounters {
            vls: function.query_vl_counters(port_num)?,
            errors: function.query_link_errors(port_num)?,
        })
    }

    /// Replaces an arbitration table: at most 64 entries, those behind count nothing (VL-12). A refusal names the
    /// index of the wrong entry.
    pub fn set_vl_arb(&self, port_num: u8, table: VlArbTable, entries: &[VlWeight]) -> Result<()> {
        let high = table == VlArbTable::High;
        Ok(self.function().set_vl_arb(port_num, high, entries)?)
    }

    /// An arbitration table, up to the last entry that counts.
    pub fn vl_arb(&self, port_num: u8, table: VlArbTable) -> Result<Vec<VlWeight>> {
        Ok(self
            .function()
            .query_vl_arb(port_num, table == VlArbTable::High)?)
    }

    /// Replaces the VL of each SL (VL-8); 15: the SL is unusable for data. A refusal names the wrong SL.
    pub fn set_sl2vl(&self, port_num: u8, vls: &[u8; 16]) -> Result<()> {
        Ok(self.function().set_sl2vl(port_num, vls)?)
    }
}
