//! Rules for received frames: which raw QP gets them, or which table of them, or nobody (ibv_create_flow). The hardware
//! compares a frame with all of them at once; which of those that match goes before which is in each row (`yields`),
//! and is worked out here.

use crate::hal::Hal;
use crate::objects::require;
use crate::table::Table;
use crate::{Bus, CmdResult, Control};
use hca_abi::{
    AdminStatus, CreateRuleCmd, CtxTable, QpState, QueryRuleResult, RULES, RuleKey, RuleKind, RuleRow,
    Service,
};

const ROWS: usize = RULES as usize;
/// Ranks behind those of NORMAL rules, which are their priorities.
const RANK_MC_DEFAULT: u32 = 1 << 16;
const RANK_ALL_DEFAULT: u32 = RANK_MC_DEFAULT + 1;
/// First byte of a MAC address: the bit of groups.
const GROUP_BIT: u8 = 1;

/// Whose a rule is, and where its frames go unless it drops them.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Target {
    /// QPN.
    Qp(u32),
    /// Row of receive side scaling.
    Spread(u32),
}

/// A rule: what the command said, checked.
#[derive(Clone, Copy)]
struct Rule {
    target: Target,
    drops: bool,
    tag: u32,
    kind: RuleKind,
    /// From 0.
    port: u8,
    rank: u32,
    goes_on: bool,
    value: [u8; 64],
    mask: [u8; 64],
}

impl Rule {
    /// Nobody behind it gets what it has.
    fn stops(&self) -> bool {
        self.kind != RuleKind::Sniffer && !self.goes_on
    }

    /// Does it lose what both match to the other?
    fn yields_to(&self, other: &Self) -> bool {
        self.kind != RuleKind::Sniffer && other.stops() && other.port == self.port && other.rank < self.rank
    }
}

/// All rules of the card.
pub(crate) struct Rules {
    rows: Table<Option<Rule>, ROWS>,
}

impl Rules {
    pub const fn new() -> Self {
        Self {
            rows: Table::new([None; ROWS]),
        }
    }

    fn write<B: Bus>(&self, hal: &mut Hal<B>, at: usize) {
        let mut row = RuleRow::new();
        if let Some(rule) = &self.rows[at] {
            row.set_valid(true);
            row.set_port(rule.port);
            row.set_drops(rule.drops);
            row.set_sniffs(rule.kind == RuleKind::Sniffer);
            row.set_tag(rule.tag);
            match rule.target {
                Target::Qp(qpn) => row.set_qpn(qpn),
                Target::Spread(spread) => {
                    row.set_spreads(true);
                    row.set_qpn(spread);
                }
            }
            row.set_value(rule.value);
            row.set_mask(rule.mask);
            let beats = |(i, other): (usize, &Option<Rule>)| {
                let other = other.as_ref()?;
                rule.yields_to(other).then_some(1 << i)
            };
            row.set_yields(self.rows.iter().enumerate().filter_map(beats).sum());
        }
        hal.rule_row(at as u32, &row);
    }

    /// Those it takes frames from are told first, so that no frame goes to both.
    fn add<B: Bus>(&mut self, hal: &mut Hal<B>, rule: Rule) -> CmdResult<u32> {
        let free = self.rows.iter().position(Option::is_none);
        let at = free.ok_or((AdminStatus::NoResources, RULES))?;
        self.rows[at] = Some(rule);
        self.write_behind(hal, &rule);
        self.write(hal, at);
        Ok(at as u32)
    }

    /// Those that have yielded to it are told last: the row may be another rule's next.
    fn remove<B: Bus>(&mut self, hal: &mut Hal<B>, at: usize) {
        let rule = self.rows[at].take();
        self.write(hal, at);
        if let Some(rule) = rule {
            self.write_behind(hal, &rule);
        }
    }

    /// Writes the rows that yield to a rule, as they are now.
    fn write_behind<B: Bus>(&self, hal: &mut Hal<B>, rule: &Rule) {
        for (at, row) in self.rows.iter().enumerate() {
            if row.as_ref().is_some_and(|other| other.yields_to(rule)) {
                self.write(hal, at);
            }
        }
    }

    /// Has the QP a rule?
    pub fn has(&self, qpn: u32) -> bool {
        self.leads_to(Target::Qp(qpn))
    }

    /// Leads a rule to a row of receive side scaling?
    pub fn has_spread(&self, row: u32) -> bool {
        self.leads_to(Target::Spread(row))
    }

    fn leads_to(&self, target: Target) -> bool {
        self.rows.iter().flatten().any(|rule| rule.target == target)
    }

    /// The QP is gone.
    pub fn drop_qp<B: Bus>(&mut self, hal: &mut Hal<B>, qpn: u32) {
        for at in 0..ROWS {
            if self.rows[at].is_some_and(|rule| rule.target == Target::Qp(qpn)) {
                self.remove(hal, at);
            }
        }
    }

    /// None is left.
    pub fn clear<B: Bus>(&mut self, hal: &mut Hal<B>) {
        self.rows = Table::new([None; ROWS]);
        hal.ctx_clear(CtxTable::Rule, RULES);
    }
}

/// Value, mask and rank of a rule by its kind.
fn pattern(cmd: &CreateRuleCmd, kind: RuleKind) -> CmdResult<([u8; 64], [u8; 64], u32)> {
    let mut groups = RuleKey::new();
    groups.set_dmac([GROUP_BIT, 0, 0, 0, 0, 0]);
    let groups = *groups.as_bytes();
    let none = [0; 64];
    match kind {
        RuleKind::Normal => {
            let (value, mask) = (cmd.value(), cmd.mask());
            let over = value
                .iter()
                .zip(mask)
                .position(|(value, mask)| value & !mask != 0);
            match over {
                // A bit that does not count can have no value: nothing would match.
                Some(at) => Err((AdminStatus::BadParam, at as u32)),
                None => Ok((value, mask, cmd.priority().into())),
            }
        }
        RuleKind::McDefault => Ok((groups, groups, RANK_MC_DEFAULT)),
        RuleKind::AllDefault => Ok((none, none, RANK_ALL_DEFAULT)),
        RuleKind::Sniffer => Ok((none, none, u32::MAX)),
    }
}

impl Control {
    /// CREATE_RULE: of the manager alone, for whoever has a rule can have what is meant for others.
    pub(crate) fn create_rule<B: Bus>(
        &mut self,
        hal: &mut Hal<B>,
        func: u8,
        cmd: &CreateRuleCmd,
    ) -> CmdResult<u32> {
        let (target, port) = self.target_of(func, cmd)?;
        let kind = RuleKind::try_from(cmd.kind()).map_err(|e| (AdminStatus::BadParam, e.code.into()))?;
        require(!cmd.goes_on() || kind == RuleKind::Normal, cmd.kind().into())?;
        let (value, mask, rank) = pattern(cmd, kind)?;
        let rule = Rule {
            target,
            drops: cmd.drops(),
            tag: cmd.tag(),
            kind,
            port,
            rank,
            goes_on: cmd.goes_on(),
            value,
            mask,
        };
        self.rules.add(hal, rule)
    }

    /// Whom a rule is for, and its port, from 0. A QP's port is known from INIT on; the QPs of receive side scaling
    /// take what any port brings them.
    fn target_of(&self, func: u8, cmd: &CreateRuleCmd) -> CmdResult<(Target, u8)> {
        let (target, port_num) = if cmd.spreads() {
            let is_there = self.spreads.is_there(cmd.qpn());
            is_there
                .then_some(())
                .ok_or((AdminStatus::BadHandle, cmd.qpn()))?;
            self.port_at(cmd.port_num())?;
            (Target::Spread(cmd.qpn()), cmd.port_num())
        } else {
            let rec = &self.qps[self.own_qp(func, cmd.qpn())? as usize];
            require(rec.made.service() == u8::from(Service::Raw), cmd.qpn())?;
            (Target::Qp(cmd.qpn()), rec.attr.port_num())
        };
        let port = port_num.checked_sub(1);
        let port = port.ok_or((AdminStatus::BadState, QpState::Reset as u32))?;
        require(cmd.port_num() == port_num, cmd.port_num().into())?;
        Ok((target, port))
    }

    /// The place of a rule. All are the manager's.
    fn rule_at(&self, handle: u32) -> CmdResult<usize> {
        let at = handle as usize;
        let is_there = self.rules.rows.get(at).is_some_and(Option::is_some);
        is_there.then_some(at).ok_or((AdminStatus::BadHandle, handle))
    }

    pub(crate) fn destroy_rule<B: Bus>(&mut self, hal: &mut Hal<B>, handle: u32) -> CmdResult {
        let at = self.rule_at(handle)?;
        self.rules.remove(hal, at);
        Ok(())
    }

    pub(crate) fn query_rule<B: Bus>(&self, hal: &mut Hal<B>, handle: u32) -> CmdResult<QueryRuleResult> {
        self.rule_at(handle)?;
        let (packets, bytes) = hal.rule_counts(handle);
        let mut told = QueryRuleResult::new();
        told.set_packets(packets);
        told.set_bytes(bytes);
        Ok(told)
    }
}
