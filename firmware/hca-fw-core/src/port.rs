//! The port: personality, addresses, GID and P_Key tables.

use crate::counters::counter_index;
use crate::hal::Hal;
use crate::link::{Link, PortFacts};
use crate::objects::require;
use crate::{Bus, CmdResult, Control, Identity};
use hca_abi::{
    AdminStatus, EventKind, LinkCongestion, LinkLayer, ModifyPortCmd, Mtu, OpVls, PortState, PortView,
    QueryPortResult, SetGidCmd, SetPkeyCmd, port_attr, port_cap, port_cap2,
};

/// Entries of the GID table.
pub const NUM_GIDS: usize = 16;
/// Entries of the P_Key table.
pub const NUM_PKEYS: usize = 32;
/// KEY-10: full member of the default partition.
pub const DEFAULT_PKEY: u16 = 0xffff;
const MAX_MSG_BYTES: u32 = 1 << 31;
/// phys_state of a port whose link is not up.
pub const PHYS_POLLING: u8 = 2;
/// phys_state LinkUp.
pub const PHYS_LINK_UP: u8 = 5;
/// active_width and lanes, the usual one first; active_speed and Mbit/s of a lane (E-6).
const WIDTHS: [(u8, u32); 4] = [(2, 4), (1, 1), (4, 8), (8, 12)];
const SPEEDS: [(u8, u32); 7] = [
    (1, 2_500),
    (2, 5_000),
    (4, 10_000),
    (16, 14_062),
    (32, 25_000),
    (64, 50_000),
    (128, 100_000),
];
/// V-38.
const GRH_REQUIRED: u8 = 1;
/// E-5. InfiniBand: notices and traps, of capabilities, of NodeDescription and with directed routes too, SL to VL
/// tables, static rates, lanes beyond 10 Gb/s, a GUID of the whole card, clients that can be told to register again. No
/// agent answers for connections or devices.
const IB_CAPS: u32 = port_cap::NOTICE
    | port_cap::TRAP
    | port_cap::DR_NOTICE
    | port_cap::CAP_MASK_NOTICE
    | port_cap::CAP_MASK2
    | port_cap::SL_MAP
    | port_cap::OPT_IPD
    | port_cap::EXTENDED_SPEEDS
    | port_cap::SYS_IMAGE_GUID
    | port_cap::CLIENT_REG;
/// KEY-15, KEY-25.
const QKEY_VIOLATIONS: u32 = counter_index("qkey_violations");
const PKEY_VIOLATIONS: u32 = counter_index("pkey_violations");

/// Configuration of a port.
pub(crate) struct Port {
    /// Which, from 0.
    index: u8,
    identity: Identity,
    enabled: bool,
    /// Functions were told last that it is up.
    pub is_announced: bool,
    /// State of the link, and whether its cable is there, when somebody looked last because it had changed.
    pub seen: (PortState, bool),
    /// A subnet manager runs here.
    is_sm: bool,
    lmc: u8,
    mtu: u8,
    gids: [[u8; 16]; NUM_GIDS],
    pkeys: [u16; NUM_PKEYS],
    /// Violations that a subnet manager has cleared: the card's counters run on.
    cleared_pkey: u64,
    cleared_qkey: u64,
    pub link: Link,
    /// What function 0 has said of congestion control.
    pub congestion: LinkCongestion,
    /// Those who answer for the port on an InfiniBand link.
    pub sma: hca_agents::Agent,
    pub pma: hca_agents::pma::Agent,
    /// The one that talks to the neighbour on an Ethernet link.
    pub lldp: hca_agents::lldp::Agent,
}

/// What the data path knows of a port.
pub(crate) struct PortIdentity {
    pub infiniband: bool,
    pub active: bool,
    pub mac: [u8; 6],
    pub lid: u16,
    pub lmc: u8,
    pub mtu: u8,
}

impl Port {
    pub const fn new(index: u8) -> Self {
        let identity = Identity {
            guid: [0; 8],
            mac: [0; 6],
            ipv4: [0; 4],
            ipv6: [0; 16],
            lid: 0,
            infiniband: false,
            self_active: true,
            peer_vls: OpVls::Fifteen,
            rate_mbps: 0,
        };
        Self {
            index,
            identity,
            enabled: false,
            is_announced: false,
            seen: (PortState::Down, false),
            is_sm: false,
            lmc: 0,
            mtu: 5,
            gids: [[0; 16]; NUM_GIDS],
            pkeys: [0; NUM_PKEYS],
            cleared_pkey: 0,
            cleared_qkey: 0,
            link: Link::new(index),
            congestion: LinkCongestion::new(),
            sma: hca_agents::Agent::new(),
            pma: hca_agents::pma::Agent::new(),
            lldp: hca_agents::lldp::Agent::new(),
        }
    }

    /// Takes its identity and starts the link.
    pub fn init<B: Bus>(&mut self, hal: &mut Hal<B>, identity: Identity) {
        self.identity = identity;
        self.enabled = true;
        let gids = identity.gids();
        self.gids[..gids.len()].copy_from_slice(&gids);
        self.pkeys[0] = DEFAULT_PKEY;
        self.apply(hal);
        for (i, gid) in self.gids.iter().enumerate() {
            hal.gid_row(self.index, i, gid);
        }
        for i in 0..NUM_PKEYS {
            hal.set_pkey(self.index, i as u32, self.pkeys[i]);
        }
        self.link.init(hal, self.facts(), &identity);
    }

    /// What the link depends on.
    pub fn facts(&self) -> PortFacts {
        PortFacts {
            infiniband: self.identity.infiniband,
            enabled: self.enabled,
            mtu: self.mtu,
        }
    }

    /// Brings the link to its settings; `request`: the state that somebody asks for.
    pub fn apply_link<B: Bus>(&mut self, hal: &mut Hal<B>, request: Option<PortState>) {
        self.link.apply(hal, self.facts(), request);
    }

    fn apply<B: Bus>(&self, hal: &mut Hal<B>) {
        let is = PortIdentity {
            infiniband: self.identity.infiniband,
            active: self.enabled,
            mac: self.identity.mac,
            lid: self.identity.lid,
            lmc: self.lmc,
            mtu: self.mtu,
        };
        hal.set_port(self.index, &is);
    }

    /// Its number, from 1.
    pub fn number(&self) -> u8 {
        self.index + 1
    }

    pub fn identity(&self) -> &Identity {
        &self.identity
    }

    pub fn gids(&self) -> &[[u8; 16]] {
        &self.gids
    }

    pub fn infiniband(&self) -> bool {
        self.identity.infiniband
    }

    pub fn enabled(&self) -> bool {
        self.enabled
    }

    pub fn lmc(&self) -> u8 {
        self.lmc
    }

    pub fn mtu(&self) -> u8 {
        self.mtu
    }

    pub fn gid(&self, index: u8) -> Option<&[u8; 16]> {
        self.gids.get(index as usize)
    }

    pub fn has_gid(&self, gid: &[u8; 16]) -> bool {
        self.gids.contains(gid)
    }

    pub fn pkeys(&self) -> &[u16] {
        &self.pkeys
    }

    /// Its port_cap_flags.
    pub fn capabilities(&self) -> u32 {
        let sm = if self.is_sm { port_cap::SM } else { 0 };
        port_cap_flags(self.infiniband()) | sm
    }

    /// CapabilityMask of its PortInfo: bit 26, which programs know as IP_BASED_GIDS, is of notices of other changes
    /// there.
    pub fn cap_mask(&self) -> u32 {
        const OTHER_LOCAL_CHANGES: u32 = 1 << 26;
        self.capabilities() | OTHER_LOCAL_CHANGES
    }

    /// What the board is told of it.
    pub fn view(&self) -> PortView {
        let (state, phy_up) = self.seen;
        let mut view = PortView::new();
        view.set_port_num(self.number());
        view.set_state(state.into());
        view.set_phys_state(phys_state(phy_up));
        view.set_cap_flags(self.capabilities());
        if self.infiniband() {
            view.set_lid(self.identity.lid);
            view.set_lmc(self.lmc);
            view.set_sm_lid(self.sma.kept().sm_lid);
            view.set_sm_sl(self.sma.kept().sm_sl);
        }
        view
    }

    /// A subnet manager has come or gone. MGMT-9: the one that is master, if there is one, is told.
    fn set_is_sm(&mut self, is_sm: bool) {
        if self.is_sm != is_sm {
            self.is_sm = is_sm;
            let cap_mask = self.cap_mask();
            self.sma.capabilities_changed(self.identity.lid, cap_mask);
        }
    }

    /// Violations of P_Keys and Q_Keys since they were cleared.
    pub fn violations<B: Bus>(&self, hal: &mut Hal<B>) -> [u16; 2] {
        [
            (PKEY_VIOLATIONS, self.cleared_pkey),
            (QKEY_VIOLATIONS, self.cleared_qkey),
        ]
        .map(|(index, cleared)| {
            let count = hal.counter(self.index, index).saturating_sub(cleared);
            u16::try_from(count).unwrap_or(u16::MAX)
        })
    }

    pub fn clear_violations<B: Bus>(&mut self, hal: &mut Hal<B>, pkey: bool, qkey: bool) {
        if pkey {
            self.cleared_pkey = hal.counter(self.index, PKEY_VIOLATIONS);
        }
        if qkey {
            self.cleared_qkey = hal.counter(self.index, QKEY_VIOLATIONS);
        }
    }
}

/// active_width and active_speed: the codes whose product is nearest to the rate of a link (E-6).
pub fn width_and_speed(rate_mbps: u32) -> (u8, u8) {
    let pairs = WIDTHS.iter().flat_map(|w| SPEEDS.iter().map(move |s| (w, s)));
    let nearest = pairs.min_by_key(|((_, lanes), (_, mbps))| (lanes * mbps).abs_diff(rate_mbps));
    nearest.map_or((0, 0), |((width, _), (speed, _))| (*width, *speed))
}

/// phys_state of a port whose cable is there, or is not.
fn phys_state(phy_up: bool) -> u8 {
    if phy_up { PHYS_LINK_UP } else { PHYS_POLLING }
}

/// port_cap_flags of a personality; APM-2: each kind of port migrates.
pub const fn port_cap_flags(infiniband: bool) -> u32 {
    let of_link = if infiniband {
        IB_CAPS
    } else {
        port_cap::IP_BASED_GIDS
    };
    of_link | port_cap::AUTO_MIGR
}

impl Port {
    /// Addresses that a subnet manager gives; `prefix`: of its GIDs. The GID table's first entry is now this.
    pub fn set_address(&mut self, lid: u16, lmc: u8, mtu: u8, prefix: u64) {
        self.identity.lid = lid;
        (self.lmc, self.mtu) = (lmc, mtu);
        self.gids[0][..8].copy_from_slice(&prefix.to_be_bytes());
        self.gids[0][8..].copy_from_slice(&self.identity.guid);
    }

    /// The hardware gets all addresses.
    pub fn apply_address<B: Bus>(&self, hal: &mut Hal<B>) {
        self.apply(hal);
        hal.gid_row(self.index, 0, &self.gids[0]);
    }

    /// Sets the whole P_Key table.
    pub fn set_pkeys<B: Bus>(&mut self, hal: &mut Hal<B>, pkeys: &[u16; NUM_PKEYS]) {
        for (index, (new, old)) in (0..).zip(pkeys.iter().zip(&mut self.pkeys)) {
            if *new != *old {
                *old = *new;
                hal.set_pkey(self.index, index, *new);
            }
        }
    }
}

impl Control {
    /// Place of a port that a command names, counted from 1.
    pub(crate) fn port_at(&self, port_num: u8) -> CmdResult<usize> {
        require((1..=self.num_ports).contains(&port_num), u32::from(port_num))?;
        Ok(usize::from(port_num) - 1)
    }

    /// The ports that the card has.
    pub(crate) fn fitted(&self) -> &[Port] {
        self.ports
            .get(..usize::from(self.num_ports))
            .unwrap_or(&*self.ports)
    }

    pub(crate) fn modify_port<B: Bus>(&mut self, hal: &mut Hal<B>, cmd: &ModifyPortCmd) -> CmdResult {
        let at = self.port_at(cmd.port_num())?;
        let mask = cmd.attr_mask();
        let has = |bit: u32| mask & bit != 0;
        require(mask & !port_attr::ALL == 0, mask)?;
        let link = LinkLayer::try_from(cmd.link_layer());
        require(
            !has(port_attr::LINK_LAYER) || matches!(link, Ok(LinkLayer::Infiniband | LinkLayer::Ethernet)),
            0,
        )?;
        require(
            !has(port_attr::MTU) || Mtu::try_from(cmd.mtu()).is_ok(),
            u32::from(cmd.mtu()),
        )?;
        require(
            !has(port_attr::LID) || (1..0xc000).contains(&cmd.lid()),
            u32::from(cmd.lid()),
        )?;
        // ADDR-3: the port answers to 1 << LMC consecutive LIDs from its base LID, which is a multiple of their number.
        let lmc = if has(port_attr::LMC) {
            cmd.lmc()
        } else {
            self.ports[at].lmc
        };
        let lid = if has(port_attr::LID) {
            cmd.lid()
        } else {
            self.ports[at].identity.lid
        };
        require(
            !has(port_attr::LID | port_attr::LMC) || lid.trailing_zeros() >= u32::from(lmc),
            port_attr::LMC,
        )?;
        // A port changes its personality only while nobody talks through it.
        if has(port_attr::LINK_LAYER) && self.any_connected_qp(cmd.port_num()) {
            return Err((AdminStatus::InUse, 0));
        }
        let port = &mut self.ports[at];
        let switched = has(port_attr::ENABLE) && port.enabled != cmd.enable();
        let was_infiniband = port.identity.infiniband;
        if let (true, Ok(link)) = (has(port_attr::LINK_LAYER), link) {
            port.identity.infiniband = link == LinkLayer::Infiniband;
        }
        let has_new_gids = port.identity.infiniband != was_infiniband;
        if has(port_attr::ENABLE) {
            port.enabled = cmd.enable();
        }
        let has_new_lid = has(port_attr::LID) && port.identity.lid != cmd.lid();
        if has_new_lid {
            port.identity.lid = cmd.lid();
        }
        if has(port_attr::LMC) {
            port.lmc = cmd.lmc();
        }
        if has(port_attr::MTU) {
            port.mtu = cmd.mtu();
        }
        if has(port_attr::MAC) {
            port.identity.mac = cmd.mac();
        }
        if has(port_attr::IS_SM) {
            port.set_is_sm(cmd.is_sm());
        }
        port.apply(hal);
        if port.infiniband() {
            port.lldp.set_on(false);
            port.lldp.link_down();
        }
        port.lldp.changed();
        let facts = port.facts();
        if switched {
            port.link.enable(hal, facts);
        } else {
            port.link.apply(hal, facts, None);
        }
        if has_new_lid {
            self.post_port_event(hal, at, EventKind::LidChange);
        }
        if has_new_gids {
            // The same bytes, of another type: the rows that the card has are right.
            self.post_port_event(hal, at, EventKind::GidChange);
        }
        self.announce_link(hal);
        Ok(())
    }

    /// Who could be a subnet manager has gone.
    pub(crate) fn manager_gone(&mut self) {
        for port in self.ports.iter_mut() {
            port.set_is_sm(false);
        }
        self.has_views = true;
    }

    pub(crate) fn query_port<B: Bus>(&self, hal: &mut Hal<B>, port_num: u8) -> CmdResult<QueryPortResult> {
        let at = self.port_at(port_num)?;
        let p = &self.ports[at];
        let (state, phy_up) = p.link.status(hal);
        let mut out = QueryPortResult::new();
        out.set_state(state.into());
        out.set_max_mtu(Mtu::Bytes4096.into());
        out.set_active_mtu(p.mtu);
        out.set_lmc(p.lmc);
        out.set_gid_tbl_len(NUM_GIDS as u32);
        out.set_max_msg_sz(MAX_MSG_BYTES);
        out.set_pkey_tbl_len(NUM_PKEYS as u16);
        out.set_lid(if p.infiniband() { p.identity.lid } else { 0 });
        out.set_max_vl_num(p.link.built().into());
        if p.infiniband() {
            out.set_sm_lid(p.sma.kept().sm_lid);
            out.set_sm_sl(p.sma.kept().sm_sl);
            out.set_subnet_timeout(p.sma.kept().subnet_timeout);
            out.set_init_type_reply(p.sma.kept().init_type_reply);
        }
        let (width, speed) = width_and_speed(p.identity.rate_mbps);
        out.set_active_width(width);
        out.set_active_speed(speed);
        out.set_port_cap_flags(p.capabilities());
        if p.infiniband() {
            out.set_port_cap_flags2(port_cap2::SET_NODE_DESC as u16);
        } else {
            out.set_flags(GRH_REQUIRED);
        }
        out.set_phys_state(phys_state(phy_up));
        out.set_link_layer(
            if p.infiniband() {
                LinkLayer::Infiniband
            } else {
                LinkLayer::Ethernet
            }
            .into(),
        );
        out.set_mac(p.identity.mac);
        let mut counted = |index| u32::try_from(hal.counter(at as u8, index)).unwrap_or(u32::MAX);
        out.set_bad_pkey_cntr(counted(PKEY_VIOLATIONS));
        out.set_qkey_viol_cntr(counted(QKEY_VIOLATIONS));
        Ok(out)
    }

    pub(crate) fn set_gid<B: Bus>(&mut self, hal: &mut Hal<B>, cmd: &SetGidCmd) -> CmdResult {
        let at = self.port_at(cmd.port_num())?;
        let i = usize::from(cmd.index());
        require(i < NUM_GIDS, u32::from(cmd.index()))?;
        if core::mem::replace(&mut self.ports[at].gids[i], cmd.gid()) != cmd.gid() {
            hal.gid_row(at as u8, i, &cmd.gid());
            self.ports[at].lldp.changed();
            self.post_port_event(hal, at, EventKind::GidChange);
        }
        Ok(())
    }

    pub(crate) fn set_pkey<B: Bus>(&mut self, hal: &mut Hal<B>, cmd: &SetPkeyCmd) -> CmdResult {
        let at = self.port_at(cmd.port_num())?;
        let i = usize::from(cmd.index());
        require(i < NUM_PKEYS, u32::from(cmd.index()))?;
        let old = core::mem::replace(&mut self.ports[at].pkeys[i], cmd.pkey());
        hal.set_pkey(at as u8, i as u32, cmd.pkey());
        if old != cmd.pkey() {
            self.post_port_event(hal, at, EventKind::PkeyChange);
        }
        Ok(())
    }
}
