//! The link of a port: virtual lanes, their arbitration, credits, states. What a subnet manager would set.

use hca_abi::{
    DSCPS, EthTrust, LinkLayer, LinkPolicy, Mtu, OpVls, PRIORITIES, PfcCounters, PortState,
    QueryLinkErrorsResult, QueryLinkResult, SetLinkCmd, VlCounters, link_attr,
};
use hca_driver::{DevicePtr, VlWeight};

use crate::objects::context::Context;
use crate::values::error::{Error, Result};

/// Traffic classes of an Ethernet port (IEEE 802.1Qaz): strict ones go first, the highest before the others; the rest
/// share what is left.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EtsConfig {
    /// Class of each priority.
    pub prio_tc: [u8; PRIORITIES as usize],
    /// Strict classes, a bit each.
    pub strict: u8,
    /// Share of each class that is not strict; they are 100 together.
    pub percent: [u8; PRIORITIES as usize],
}

/// What to change of a link. Starts empty; each method adds one thing. The card does all of it or nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkConfig {
    state: Option<PortState>,
    vls: Option<OpVls>,
    peer_vls: Option<OpVls>,
    policy: Option<LinkPolicy>,
    limit: Option<u8>,
    hoq_life: Option<u8>,
    pfc_enable: Option<u8>,
    trust: Option<EthTrust>,
    ets: Option<EtsConfig>,
    lldp_tx: Option<bool>,
    dscp_mask: u64,
    dscp: [u8; DSCPS as usize],
    /// A number that is no DSCP.
    no_dscp: Option<u8>,
}

impl Default for LinkConfig {
    fn default() -> Self {
        Self {
            state: None,
            vls: None,
            peer_vls: None,
            policy: None,
            limit: None,
            hoq_life: None,
            pfc_enable: None,
            trust: None,
            ets: None,
            lldp_tx: None,
            dscp_mask: 0,
            dscp: [0; DSCPS as usize],
            no_dscp: None,
        }
    }
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

    /// Ethernet: where the priority of a frame is.
    pub fn trust(self, trust: EthTrust) -> Self {
        Self {
            trust: Some(trust),
            ..self
        }
    }

    /// Ethernet: traffic classes.
    pub fn ets(self, ets: EtsConfig) -> Self {
        Self {
            ets: Some(ets),
            ..self
        }
    }

    /// Ethernet: the port tells its neighbour who it is (LLDP).
    pub fn lldp_tx(self, on: bool) -> Self {
        Self {
            lldp_tx: Some(on),
            ..self
        }
    }

    /// Ethernet: the priority of a DSCP. With one above 63 all of it is refused.
    pub fn dscp(mut self, dscp: u8, priority: u8) -> Self {
        match self.dscp.get_mut(usize::from(dscp)) {
            Some(entry) => {
                *entry = priority;
                self.dscp_mask |= 1 << dscp;
            }
            None => self.no_dscp = Some(dscp),
        }
        self
    }

    /// What a command has no bits for must not become something else on its way to the card.
    fn check(&self) -> Result<()> {
        if let Some(dscp) = self.no_dscp {
            return Err(Error::Invalid(format!(
                "{dscp} is no DSCP: they are 0 to {}",
                DSCPS - 1
            )));
        }
        let classes = self.ets.map_or([0; PRIORITIES as usize], |ets| ets.prio_tc);
        match classes.iter().find(|tc| u32::from(**tc) >= PRIORITIES) {
            Some(tc) => Err(Error::Invalid(format!(
                "{tc} is no traffic class: they are 0 to {}",
                PRIORITIES - 1
            ))),
            None => Ok(()),
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
        if let Some(trust) = self.trust {
            cmd.set_trust(trust.into());
            mask |= link_attr::TRUST;
        }
        if let Some(ets) = self.ets {
            let classes = (0..).zip(ets.prio_tc);
            cmd.set_prio_tc(classes.fold(0, |map, (priority, tc)| map | u32::from(tc) << (4 * priority)));
            cmd.set_strict(ets.strict);
            cmd.set_tc_percent(ets.percent);
            mask |= link_attr::ETS;
        }
        if let Some(on) = self.lldp_tx {
            cmd.set_lldp_tx(on);
            mask |= link_attr::LLDP_TX;
        }
        if self.dscp_mask != 0 {
            cmd.set_dscp_mask(self.dscp_mask);
            cmd.set_dscp(self.dscp);
            mask |= link_attr::DSCP;
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
    /// The VL of each SL; 15: unusable for data. Ethernet: the traffic class of each priority.
    pub sl2vl: [u8; 16],
    /// Ethernet: where the priority of a frame is.
    pub trust: EthTrust,
    /// Ethernet: the priority of each DSCP.
    pub dscp: [u8; DSCPS as usize],
    /// Ethernet: traffic classes; `None`: nobody has set them, and all have the same weight.
    pub ets: Option<EtsConfig>,
    /// Blocks of 64 bytes in a VL's transmit ring; 0: not told.
    pub tx_ring_blocks: u32,
    /// Blocks of 64 bytes in a VL's receive ring; 0: not told.
    pub rx_ring_blocks: u32,
}

/// Priority flow control of an Ethernet port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PfcStatus {
    /// Counters of each priority, free running; they wrap at 32 bits.
    pub priorities: [PfcCounters; PRIORITIES as usize],
    /// Blocks of 64 bytes in a priority's receive ring with which the other end is paused.
    pub xoff_blocks: u32,
    /// With so few it may go on.
    pub xon_blocks: u32,
    /// Blocks of a ring.
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

fn vl_of(r: &QueryLinkResult, sl: usize) -> u8 {
    (r.sl2vl() >> (4 * sl) & 15) as u8
}

impl<P: DevicePtr> Context<P> {
    /// Changes a link: all of it or nothing. The card's refusal names the `link_attr` bit of what was wrong;
    /// [`Error::Invalid`] a number that no card knows.
    pub fn link_config(&self, port_num: u8, config: &LinkConfig) -> Result<()> {
        config.check()?;
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
            sl2vl: std::array::from_fn(|sl| vl_of(&r, sl)),
            trust: known("trust", r.trust())?,
            dscp: r.dscp(),
            ets: r.has_ets().then(|| EtsConfig {
                prio_tc: std::array::from_fn(|priority| vl_of(&r, priority)),
                strict: r.strict(),
                percent: r.tc_percent(),
            }),
            tx_ring_blocks: r.tx_ring(),
            rx_ring_blocks: r.rx_ring(),
        })
    }

    /// Pauses of each priority of an Ethernet port, and when they are asked for.
    pub fn pfc_status(&self, port_num: u8) -> Result<PfcStatus> {
        let r = self.function().query_pfc_counters(port_num)?;
        let all = r.priorities();
        let mut priorities = [PfcCounters::new(); PRIORITIES as usize];
        for (counters, bytes) in priorities.iter_mut().zip(all.chunks_exact(PfcCounters::BYTES)) {
            counters.0.copy_from_slice(bytes);
        }
        Ok(PfcStatus {
            priorities,
            xoff_blocks: r.xoff_blocks(),
            xon_blocks: r.xon_blocks(),
            rx_ring_blocks: r.rx_ring_blocks(),
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
