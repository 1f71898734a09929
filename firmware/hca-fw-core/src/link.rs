//! The link of a port: how many virtual lanes it uses, how they share it, and its state. Firmware keeps what was asked
//! for; what the hardware gets follows from that, from the other end of the cable and from the personality, and is
//! written row by row where it differs from what is there.

use crate::features::{USED_ENTRIES, arbitration_policy};
use crate::hal::Hal;
use crate::objects::{require, require_size};
use crate::priorities::{DSCP_ROWS, PRIORITY_COUNT, Priorities};
use crate::{Bus, CmdResult, Control, Identity, NUM_FUNCS};
use hca_abi::{
    AdminStatus, EthTrust, EventKind, HOQ_LIFE_NEVER, LINK_ROW_CTRL, LINK_ROW_DSCP, LINK_ROW_HIGH,
    LINK_ROW_LOW, LINK_ROW_SL2VL, LINK_WORD_ERRORS, LINK_WORD_PFC_PAUSED, LINK_WORD_PFC_RECEIVED,
    LINK_WORD_PFC_SENT, LINK_WORD_PFC_XOFF, LINK_WORD_PFC_XON, LINK_WORD_RX_FILL, LINK_WORD_RX_PACKETS,
    LINK_WORD_RX_RING, LINK_WORD_TX_BLOCKS, LINK_WORD_TX_CREDITS, LINK_WORD_TX_FILL, LINK_WORD_TX_PACKETS,
    LINK_WORD_TX_RING, LINK_WORD_TX_WAIT, LinkCtrl, LinkDscp, LinkLayer, LinkPolicy, LinkSl2vl, LinkStatus,
    LinkVlArb, MGMT_VL, OpVls, PfcCounters, PortState, QueryLinkErrorsResult, QueryLinkResult,
    QueryPfcCountersResult, QueryVlCountersCmd, QueryVlCountersResult, SetLinkCmd, SetSl2vlCmd,
    VL_ARB_ENTRIES, VLS, VlArbCmd, VlArbResult, VlCounters, link_attr,
};

/// Weight of each VL until somebody sets a table: one packet of 4096 bytes.
const DEFAULT_WEIGHT: u8 = 64;
const ENTRIES: usize = VL_ARB_ENTRIES as usize;
/// VLs of one QUERY_VL_COUNTERS answer.
const VLS_PER_ANSWER: u8 = 8;
/// Counters of errors of a link.
const NUM_LINK_ERRORS: usize = QueryLinkErrorsResult::TABLE.fields.len();
// The answer has them in their order, word by word. Its table itself would bring all of its texts into the image.
const _: () = {
    let mut at = 0;
    while at < NUM_LINK_ERRORS {
        assert!(QueryLinkErrorsResult::TABLE.fields[at].lsb() as usize == 32 * at);
        at += 1;
    }
};

/// A VL arbitration table: VL and weight of each entry.
pub(crate) type ArbTable = [(u8, u8); ENTRIES];
const EMPTY: ArbTable = [(0, 0); ENTRIES];

/// What was asked for.
#[derive(Clone, Copy)]
struct Settings {
    state: PortState,
    vls: OpVls,
    peer_vls: OpVls,
    policy: LinkPolicy,
    limit: u8,
    hoq_life: u8,
    pfc_enable: u8,
    /// Ethernet.
    priorities: Priorities,
    /// `None`: SL i to VL i modulo the VLs in use.
    sl2vl: Option<u64>,
    /// `None`: empty.
    high: Option<ArbTable>,
    /// `None`: every VL in use, with the same weight.
    low: Option<ArbTable>,
}

/// What the hardware has. The context port cleared the tables after reset.
struct Written {
    op_vls: u8,
    sl2vl: u64,
    dscp: [u32; DSCP_ROWS],
    high: ArbTable,
    low: ArbTable,
}

/// Configuration of one link.
pub(crate) struct Link {
    /// Which port, from 0.
    port: u8,
    built: OpVls,
    self_active: bool,
    settings: Settings,
    written: Written,
    /// Data packets received when the port became ARMED.
    armed_at: u32,
}

/// Facts of the port that its link depends on.
#[derive(Clone, Copy)]
pub(crate) struct PortFacts {
    pub infiniband: bool,
    pub enabled: bool,
    pub mtu: u8,
}

impl Link {
    pub const fn new(port: u8) -> Self {
        Self {
            port,
            built: OpVls::One,
            self_active: true,
            settings: Settings {
                state: PortState::Down,
                vls: OpVls::One,
                peer_vls: OpVls::Fifteen,
                policy: LinkPolicy::Iba,
                limit: hca_abi::LIMIT_UNLIMITED as u8,
                hoq_life: HOQ_LIFE_NEVER as u8,
                pfc_enable: 0,
                priorities: Priorities::new(),
                sl2vl: None,
                high: None,
                low: None,
            },
            written: Written {
                op_vls: 0,
                sl2vl: 0,
                dscp: [0; DSCP_ROWS],
                high: EMPTY,
                low: EMPTY,
            },
            armed_at: 0,
        }
    }

    /// First configuration. VL-3: who waits for a subnet manager uses VL0 alone until it comes.
    pub fn init<B: Bus>(&mut self, hal: &mut Hal<B>, facts: PortFacts, identity: &Identity) {
        self.built = OpVls::at_most(hal.num_vls()).unwrap_or(OpVls::One);
        self.self_active = identity.self_active;
        self.settings.peer_vls = identity.peer_vls;
        self.settings.vls = if self.self_active { self.built } else { OpVls::One };
        self.settings.state = self.state_at_start();
        self.apply(hal, facts, Some(self.settings.state));
    }

    /// VL-14: a port that nobody configures configures itself.
    fn state_at_start(&self) -> PortState {
        if self.self_active {
            PortState::Active
        } else {
            PortState::Init
        }
    }

    /// The port was switched on or off.
    pub fn enable<B: Bus>(&mut self, hal: &mut Hal<B>, facts: PortFacts) {
        self.settings.state = if facts.enabled {
            self.state_at_start()
        } else {
            PortState::Down
        };
        self.apply(hal, facts, Some(self.settings.state));
    }

    /// VL-4: the smaller of both ends. Ethernet has its priorities without asking.
    pub fn op_vls(&self, infiniband: bool) -> OpVls {
        if infiniband {
            self.settings.vls.min(self.settings.peer_vls)
        } else {
            self.built
        }
    }

    /// VLs that the port could use.
    pub fn built(&self) -> OpVls {
        self.built
    }

    /// The VL of each SL. VL-4: with one data VL every SL maps to it. On Ethernet an SL is a priority, and a VL is a
    /// traffic class.
    fn sl2vl(&self, infiniband: bool) -> u64 {
        let vls = u32::from(self.op_vls(infiniband).count()).max(1);
        let spread = (0..16).fold(0, |map, sl| map | u64::from(sl % vls) << (4 * sl));
        match (self.settings.sl2vl, self.settings.priorities.ets) {
            (Some(map), _) if infiniband && vls > 1 => map,
            (_, Some(ets)) if !infiniband => ets.class_map(),
            _ => spread,
        }
    }

    /// Ethernet: the priority of a packet with this traffic class.
    pub fn priority(&self, traffic_class: u8) -> u8 {
        self.settings.priorities.of(traffic_class)
    }

    /// Ethernet: priorities, the class of each, and how many classes there are.
    pub fn classes(&self) -> (&Priorities, u64, u8) {
        let count = self.op_vls(false).count().clamp(1, PRIORITY_COUNT as u8);
        (&self.settings.priorities, self.sl2vl(false), count)
    }

    /// Ethernet: priorities with PFC, a bit each.
    pub fn pfc_enable(&self) -> u8 {
        self.settings.pfc_enable
    }

    fn table(&self, high: bool, infiniband: bool) -> ArbTable {
        if let (Some(ets), false) = (self.settings.priorities.ets, infiniband) {
            let mut table = EMPTY;
            if !high {
                let entries = table.iter_mut().zip(ets.weights());
                entries.for_each(|(entry, class)| *entry = class);
            }
            return table;
        }
        let given = if high {
            self.settings.high
        } else {
            self.settings.low
        };
        given.unwrap_or_else(|| {
            let mut table = EMPTY;
            for vl in 0..self.op_vls(infiniband).count() {
                if !high {
                    table[usize::from(vl)] = (vl, DEFAULT_WEIGHT);
                }
            }
            table
        })
    }

    /// What the hardware says. A card without a link block says state NOP: what was asked for is then the truth.
    pub fn status<B: Bus>(&self, hal: &mut Hal<B>) -> (PortState, bool) {
        let status = LinkStatus(hal.link_word(self.port, hca_abi::LINK_WORD_STATE).to_le_bytes());
        match PortState::try_from(status.state()) {
            Ok(PortState::Nop) | Err(_) => (self.settings.state, true),
            Ok(state) => (state, status.phy_up()),
        }
    }

    /// The state to write when nobody asks for another: the one that is, unless the link is DOWN and could be better.
    fn state_to_keep<B: Bus>(&self, hal: &mut Hal<B>) -> PortState {
        match self.status(hal) {
            (PortState::Down, true) if self.settings.state != PortState::Down => self.state_at_start(),
            (PortState::ActiveDefer, _) => PortState::Active,
            (state, _) => state,
        }
    }

    /// Writes what differs. Tables come before the VLs that need them; an SL moves to a VL after that VL is there, and
    /// leaves one before it goes.
    pub fn apply<B: Bus>(&mut self, hal: &mut Hal<B>, facts: PortFacts, request: Option<PortState>) {
        for high in [true, false] {
            let table = self.table(high, facts.infiniband);
            let (first, written) = if high {
                (LINK_ROW_HIGH, &mut self.written.high)
            } else {
                (LINK_ROW_LOW, &mut self.written.low)
            };
            for (row, (new, old)) in (first..).zip(table.iter().zip(written.iter_mut())) {
                if *new != *old {
                    let mut entry = LinkVlArb::new();
                    entry.set_vl(new.0);
                    entry.set_weight(new.1);
                    hal.link_row(self.port, row, entry.as_bytes());
                    *old = *new;
                }
            }
        }
        let op_vls = u8::from(self.op_vls(facts.infiniband));
        let state = request.unwrap_or_else(|| self.state_to_keep(hal));
        let grows = op_vls >= self.written.op_vls;
        if grows {
            self.write_ctrl(hal, facts, state);
        }
        let map = self.sl2vl(facts.infiniband);
        if map != self.written.sl2vl {
            let mut row = LinkSl2vl::new();
            row.set_map(map);
            hal.link_row(self.port, LINK_ROW_SL2VL, row.as_bytes());
            self.written.sl2vl = map;
        }
        if !facts.infiniband {
            self.write_dscp(hal);
        }
        if !grows {
            self.write_ctrl(hal, facts, state);
        }
        self.written.op_vls = op_vls;
    }

    fn write_dscp<B: Bus>(&mut self, hal: &mut Hal<B>) {
        let rows = self.settings.priorities.dscp_rows();
        for (row, (new, old)) in (LINK_ROW_DSCP..).zip(rows.iter().zip(&mut self.written.dscp)) {
            if *new != *old {
                let mut eight = LinkDscp::new();
                eight.set_map(*new);
                hal.link_row(self.port, row, eight.as_bytes());
                *old = *new;
            }
        }
    }

    fn write_ctrl<B: Bus>(&self, hal: &mut Hal<B>, facts: PortFacts, state: PortState) {
        let s = &self.settings;
        let mut ctrl = LinkCtrl::new();
        ctrl.set_state(state.into());
        ctrl.set_op_vls(self.op_vls(facts.infiniband).into());
        ctrl.set_policy(s.policy.into());
        ctrl.set_limit(s.limit);
        ctrl.set_mtu(facts.mtu);
        ctrl.set_hoq_life(s.hoq_life);
        ctrl.set_pfc_enable(s.pfc_enable);
        ctrl.set_strict(s.priorities.ets.map_or(0, |ets| ets.strict));
        ctrl.set_trust_pcp(s.priorities.trust == EthTrust::Pcp);
        hal.link_row(self.port, LINK_ROW_CTRL, ctrl.as_bytes());
    }

    fn data_packets<B: Bus>(&self, hal: &mut Hal<B>) -> u32 {
        (0..MGMT_VL).fold(0u32, |sum, vl| {
            sum.wrapping_add(hal.link_word(self.port, LINK_WORD_RX_PACKETS + vl))
        })
    }
}

/// May somebody move a link so? MGMT-5: the subnet manager leads it through INIT and ARMED; anybody may take it down.
fn legal(from: PortState, to: PortState) -> bool {
    use PortState::{Active, ActiveDefer, Armed, Down, Init};
    matches!(
        (from, to),
        (_, Down)
            | (Down, Init)
            | (Init, Init | Armed)
            | (Armed, Armed | Active)
            | (Active | ActiveDefer, Active)
    )
}

/// What a subnet manager does to a link.
impl Link {
    /// The limit of High Priority.
    pub fn limit(&self) -> u8 {
        self.settings.limit
    }

    /// VLs and limit of High Priority. MGMT-5: the state moves as `request` says. One to DOWN trains the link again,
    /// after which it is in INIT; that the cable does this at once, so what waits on VL15 is not lost.
    pub fn manage<B: Bus>(
        &mut self,
        hal: &mut Hal<B>,
        facts: PortFacts,
        vls: OpVls,
        limit: u8,
        request: Option<PortState>,
    ) {
        (self.settings.vls, self.settings.limit) = (vls, limit);
        let request = match request {
            Some(PortState::Down) => Some(PortState::Init),
            other => other,
        };
        if request == Some(PortState::Armed) {
            self.armed_at = self.data_packets(hal);
        }
        self.settings.state = request.unwrap_or(self.settings.state);
        self.apply(hal, facts, request);
    }

    /// The VL of each SL that the hardware has.
    pub fn sl2vl_now(&self) -> u64 {
        self.written.sl2vl
    }

    /// Sets the VL of each SL: bits 4n of SL n. False: there is no such VL.
    pub fn manage_sl2vl<B: Bus>(&mut self, hal: &mut Hal<B>, facts: PortFacts, map: u64) -> bool {
        let vls = u64::from(self.built.count());
        let is_legal = |vl| vl < vls || vl == u64::from(MGMT_VL);
        let ok = (0..16).all(|sl| is_legal(map >> (4 * sl) & 15));
        if ok {
            self.settings.sl2vl = Some(map);
            self.apply(hal, facts, None);
        }
        ok
    }

    /// VL and weight of each entry of an arbitration table.
    pub fn arbitration(&self, high: bool) -> ArbTable {
        self.table(high, true)
    }

    /// Sets an arbitration table. False: it has a VL that is not there. An entry without weight has no VL.
    pub fn manage_arbitration<B: Bus>(
        &mut self,
        hal: &mut Hal<B>,
        facts: PortFacts,
        high: bool,
        table: &ArbTable,
    ) -> bool {
        let table = table.map(|(vl, weight)| if weight == 0 { (0, 0) } else { (vl, weight) });
        let ok = table.iter().all(|(vl, _)| *vl < self.built.count());
        if ok {
            let settings = &mut self.settings;
            *(if high {
                &mut settings.high
            } else {
                &mut settings.low
            }) = Some(table);
            self.apply(hal, facts, None);
        }
        ok
    }
}

impl Control {
    pub(crate) fn set_link<B: Bus>(&mut self, hal: &mut Hal<B>, cmd: &SetLinkCmd) -> CmdResult {
        let at = self.port_at(cmd.port_num())?;
        let mask = cmd.attr_mask();
        require(mask & !link_attr::ALL == 0, mask)?;
        let has = |attr: u32| mask & attr != 0;
        let link = &self.ports[at].link;
        let mut new = link.settings;
        if has(link_attr::OP_VLS) {
            new.vls = OpVls::try_from(cmd.op_vls())
                .ok()
                .filter(|vls| *vls <= link.built)
                .ok_or((AdminStatus::BadParam, link_attr::OP_VLS))?;
        }
        if has(link_attr::PEER_VLS) {
            new.peer_vls =
                OpVls::try_from(cmd.peer_vls()).map_err(|_| (AdminStatus::BadParam, link_attr::PEER_VLS))?;
        }
        if has(link_attr::POLICY) {
            new.policy = arbitration_policy(cmd.policy())?;
        }
        if has(link_attr::LIMIT) {
            new.limit = cmd.limit();
        }
        if has(link_attr::HOQ_LIFE) {
            require(u32::from(cmd.hoq_life()) <= HOQ_LIFE_NEVER, link_attr::HOQ_LIFE)?;
            new.hoq_life = cmd.hoq_life();
        }
        if has(link_attr::PFC_ENABLE) {
            new.pfc_enable = cmd.pfc_enable();
        }
        let of_ethernet =
            cmd.attr_mask() & (link_attr::TRUST | link_attr::DSCP | link_attr::ETS | link_attr::LLDP_TX);
        if of_ethernet != 0 && self.ports[at].infiniband() {
            return Err((AdminStatus::Unsupported, of_ethernet));
        }
        new.priorities
            .change(cmd, link.built.count().min(PRIORITY_COUNT as u8))?;
        let mut request = None;
        if has(link_attr::STATE) {
            let state = PortState::try_from(cmd.state())
                .ok()
                .filter(|state| !matches!(state, PortState::Nop | PortState::ActiveDefer))
                .ok_or((AdminStatus::BadParam, link_attr::STATE))?;
            let (now, phy_up) = link.status(hal);
            let possible = state == PortState::Down || (phy_up && self.ports[at].enabled());
            if !possible || !legal(now, state) {
                return Err((AdminStatus::BadState, link_attr::STATE));
            }
            new.state = state;
            request = Some(state);
        }
        self.ports[at].link.settings = new;
        if has(link_attr::LLDP_TX) {
            self.ports[at].lldp.set_on(cmd.lldp_tx());
        }
        self.ports[at].lldp.changed();
        if request == Some(PortState::Armed) {
            self.ports[at].link.armed_at = self.ports[at].link.data_packets(hal);
        }
        self.ports[at].apply_link(hal, request);
        self.announce_link(hal);
        Ok(())
    }

    /// VL-14: a port that is ARMED becomes ACTIVE by the first data packet it receives, for then the fabric is.
    /// Hardware does not report that packet: whoever asks for the state finds out.
    pub(crate) fn activate_armed<B: Bus>(&mut self, hal: &mut Hal<B>, at: usize) {
        let link = &mut self.ports[at].link;
        if link.status(hal).0 == PortState::Armed && link.data_packets(hal) != link.armed_at {
            link.settings.state = PortState::Active;
            self.ports[at].apply_link(hal, Some(PortState::Active));
            self.announce_link(hal);
        }
    }

    pub(crate) fn set_vl_arb<B: Bus>(&mut self, hal: &mut Hal<B>, cmd: &VlArbCmd) -> CmdResult {
        let at = self.port_at(cmd.port_num())?;
        let count = usize::from(cmd.count());
        require_size(u32::from(cmd.count()) <= USED_ENTRIES, USED_ENTRIES)?;
        let vls = self.ports[at].link.built.count();
        let mut table = EMPTY;
        for (index, (entry, pair)) in table
            .iter_mut()
            .zip(cmd.entries().chunks_exact(2))
            .enumerate()
            .take(count)
        {
            require(pair[0] < vls, index as u32)?;
            *entry = (pair[0], pair[1]);
        }
        let settings = &mut self.ports[at].link.settings;
        if cmd.high() {
            settings.high = Some(table);
        } else {
            settings.low = Some(table);
        }
        self.ports[at].apply_link(hal, None);
        Ok(())
    }

    pub(crate) fn query_vl_arb(&self, cmd: &VlArbCmd) -> CmdResult<VlArbResult> {
        let at = self.port_at(cmd.port_num())?;
        let table = self.ports[at].link.table(cmd.high(), self.ports[at].infiniband());
        let mut entries = [0; 2 * ENTRIES];
        for (pair, (vl, weight)) in entries.chunks_exact_mut(2).zip(table) {
            pair.copy_from_slice(&[vl, weight]);
        }
        let count = table
            .iter()
            .rposition(|(_, weight)| *weight != 0)
            .map_or(0, |last| last + 1);
        let mut out = VlArbResult::new();
        out.set_count(count as u8);
        out.set_entries(entries);
        Ok(out)
    }

    pub(crate) fn set_sl2vl<B: Bus>(&mut self, hal: &mut Hal<B>, cmd: &SetSl2vlCmd) -> CmdResult {
        let at = self.port_at(cmd.port_num())?;
        let vls = u64::from(self.ports[at].link.built.count());
        for sl in 0..16 {
            let vl = cmd.map() >> (4 * sl) & 15;
            // VL-8: VL15 says that the SL is unusable.
            require(vl < vls || vl == u64::from(MGMT_VL), sl)?;
        }
        self.ports[at].link.settings.sl2vl = Some(cmd.map());
        self.ports[at].apply_link(hal, None);
        Ok(())
    }

    pub(crate) fn query_link<B: Bus>(&self, hal: &mut Hal<B>, port_num: u8) -> CmdResult<QueryLinkResult> {
        let at = self.port_at(port_num)?;
        let (port, link) = (&self.ports[at], &self.ports[at].link);
        let s = &link.settings;
        let (state, phy_up) = link.status(hal);
        let facts = port.facts();
        let mut out = QueryLinkResult::new();
        out.set_state(state.into());
        out.set_wanted_state(s.state.into());
        out.set_phy_up(phy_up);
        out.set_link_layer(
            if facts.infiniband {
                LinkLayer::Infiniband
            } else {
                LinkLayer::Ethernet
            }
            .into(),
        );
        out.set_built_vls(link.built.into());
        out.set_wanted_vls(s.vls.into());
        out.set_peer_vls(s.peer_vls.into());
        out.set_op_vls(link.op_vls(facts.infiniband).into());
        out.set_policy(s.policy.into());
        out.set_limit(s.limit);
        out.set_mtu(facts.mtu);
        out.set_hoq_life(s.hoq_life);
        out.set_pfc_enable(s.pfc_enable);
        out.set_lmc(port.lmc());
        out.set_lid(port.identity().lid);
        out.set_sl2vl(link.sl2vl(facts.infiniband));
        out.set_trust(s.priorities.trust.into());
        out.set_dscp(s.priorities.dscp);
        out.set_has_ets(s.priorities.ets.is_some());
        if let Some(ets) = s.priorities.ets {
            out.set_strict(ets.strict);
            out.set_tc_percent(ets.percent);
        }
        out.set_tx_ring(hal.link_word(link.port, LINK_WORD_TX_RING));
        out.set_rx_ring(hal.link_word(link.port, LINK_WORD_RX_RING));
        Ok(out)
    }

    pub(crate) fn query_vl_counters<B: Bus>(
        &self,
        hal: &mut Hal<B>,
        cmd: &QueryVlCountersCmd,
    ) -> CmdResult<QueryVlCountersResult> {
        let at = self.port_at(cmd.port_num())?;
        let first = cmd.first_vl();
        require(
            first.is_multiple_of(VLS_PER_ANSWER) && u32::from(first) < VLS,
            u32::from(first),
        )?;
        let mut vls = [0; VLS_PER_ANSWER as usize * VlCounters::BYTES];
        for (vl, bytes) in (u32::from(first)..).zip(vls.chunks_exact_mut(VlCounters::BYTES)) {
            let mut c = VlCounters::new();
            c.set_tx_credits(hal.link_word(at as u8, LINK_WORD_TX_CREDITS + vl));
            c.set_tx_fill(hal.link_word(at as u8, LINK_WORD_TX_FILL + vl));
            c.set_rx_fill(hal.link_word(at as u8, LINK_WORD_RX_FILL + vl));
            c.set_tx_packets(hal.link_word(at as u8, LINK_WORD_TX_PACKETS + vl));
            c.set_tx_blocks(hal.link_word(at as u8, LINK_WORD_TX_BLOCKS + vl));
            c.set_rx_packets(hal.link_word(at as u8, LINK_WORD_RX_PACKETS + vl));
            c.set_tx_wait(hal.link_word(at as u8, LINK_WORD_TX_WAIT + vl));
            bytes.copy_from_slice(c.as_bytes());
        }
        let mut out = QueryVlCountersResult::new();
        out.set_vls(vls);
        Ok(out)
    }

    pub(crate) fn query_pfc_counters<B: Bus>(
        &self,
        hal: &mut Hal<B>,
        port_num: u8,
    ) -> CmdResult<QueryPfcCountersResult> {
        let at = self.port_at(port_num)?;
        if self.ports[at].infiniband() {
            return Err((AdminStatus::Unsupported, port_num.into()));
        }
        let port = at as u8;
        let mut priorities = [0; PRIORITY_COUNT * PfcCounters::BYTES];
        for (priority, bytes) in (0..).zip(priorities.chunks_exact_mut(PfcCounters::BYTES)) {
            let mut c = PfcCounters::new();
            c.set_sent(hal.link_word(port, LINK_WORD_PFC_SENT + priority));
            c.set_received(hal.link_word(port, LINK_WORD_PFC_RECEIVED + priority));
            c.set_paused_cycles(hal.link_word(port, LINK_WORD_PFC_PAUSED + priority));
            c.set_rx_fill(hal.link_word(port, LINK_WORD_RX_FILL + priority));
            bytes.copy_from_slice(c.as_bytes());
        }
        let mut out = QueryPfcCountersResult::new();
        out.set_priorities(priorities);
        out.set_xoff_blocks(hal.link_word(port, LINK_WORD_PFC_XOFF));
        out.set_xon_blocks(hal.link_word(port, LINK_WORD_PFC_XON));
        out.set_rx_ring_blocks(hal.link_word(port, LINK_WORD_RX_RING));
        Ok(out)
    }

    pub(crate) fn query_link_errors<B: Bus>(
        &self,
        hal: &mut Hal<B>,
        port_num: u8,
    ) -> CmdResult<QueryLinkErrorsResult> {
        let at = self.port_at(port_num)?;
        let mut out = QueryLinkErrorsResult::new();
        let places = out.0.as_chunks_mut().0.iter_mut().take(NUM_LINK_ERRORS);
        for (word, place) in (LINK_WORD_ERRORS..).zip(places) {
            *place = hal.link_word(at as u8, word).to_le_bytes();
        }
        Ok(out)
    }

    /// Hardware changed the state of a link, or its cable came or went.
    pub(crate) fn link_event<B: Bus>(&mut self, hal: &mut Hal<B>, port_num: u32) {
        let Ok(at) = u8::try_from(port_num)
            .map_err(|_| ())
            .and_then(|port| self.port_at(port).map_err(|_| ()))
        else {
            return;
        };
        self.activate_armed(hal, at);
        let link = &mut self.ports[at].link;
        let (now, phy_up) = link.status(hal);
        if phy_up {
            self.ports[at].lldp.link_up();
        }
        let link = &mut self.ports[at].link;
        if (now, phy_up) == (PortState::Down, true) && link.settings.state != PortState::Down {
            // Who waits for a subnet manager begins again.
            link.settings.state = link.state_at_start();
            self.ports[at].apply_link(hal, None);
        }
        self.announce_link(hal);
    }

    /// Tells every function whether a link is up, and those that asked which one came or went.
    pub(crate) fn announce_link<B: Bus>(&mut self, hal: &mut Hal<B>) {
        let mut any_up = false;
        for at in 0..self.fitted().len() {
            let port = &mut self.ports[at];
            let seen = port.link.status(hal);
            port.seen = seen;
            let up = port.enabled() && matches!(seen.0, PortState::Active | PortState::ActiveDefer);
            let has_changed = core::mem::replace(&mut port.is_announced, up) != up;
            any_up |= up;
            if has_changed {
                let kind = if up {
                    EventKind::PortActive
                } else {
                    EventKind::PortErr
                };
                self.post_port_event(hal, at, kind);
            }
        }
        for func in 0..NUM_FUNCS as u8 {
            let is_lost = self.funcs[usize::from(func)].is_lost;
            hal.set_func_status(func, !is_lost, is_lost, any_up);
        }
        self.has_views = true;
    }

    /// Tells the board what the ports are, if something of it has changed: behind the work that has changed it.
    pub(crate) fn show_ports<B: Bus>(&mut self, bus: &mut B) {
        if core::mem::take(&mut self.has_views) {
            for port in self.fitted() {
                bus.show_port(&port.view());
            }
        }
    }
}

#[cfg(test)]
#[path = "link_tests.rs"]
mod tests;
