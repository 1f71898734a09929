//! Receive side scaling: targets of rules that spread frames over raw QPs by a hash (ibv_create_rwq_ind_table and
//! ibv_create_qp_ex with RX_HASH). The hardware hashes and looks the QP up. Who may be in a table is judged when it is
//! made. A QP that goes afterwards leaves its QPN there, which is nobody's: QPNs of a line have generations.

use crate::hal::Hal;
use crate::objects::require;
use crate::{Bus, CmdResult, Control};
use hca_abi::{AdminStatus, CreateRssCmd, RSS_ENTRIES, RSS_QPS, RssRow, Service};

const QPN_BYTES: usize = 3;

/// Rows of the card, a bit each for those that are there. All are the manager's.
#[derive(Clone, Copy, Default)]
pub(crate) struct Spreads {
    rows: u32,
}

impl Spreads {
    pub const fn new() -> Self {
        const { assert!(RSS_QPS < u32::BITS) }
        Self { rows: 0 }
    }

    pub fn is_there(self, row: u32) -> bool {
        row < RSS_QPS && self.rows >> row & 1 == 1
    }
}

/// A table as the command has it.
fn table(cmd: &CreateRssCmd) -> impl Iterator<Item = u32> {
    let (told, entries) = (cmd.qpns(), 1 << cmd.log_size());
    let number = |bytes: &[u8]| {
        bytes
            .iter()
            .rev()
            .fold(0, |qpn, byte| qpn << 8 | u32::from(*byte))
    };
    (0..entries).map(move |entry: usize| {
        let at = QPN_BYTES * entry;
        number(told.get(at..at + QPN_BYTES).unwrap_or(&[]))
    })
}

impl Control {
    /// CREATE_RSS: of the manager alone, as the QPs that it leads to are.
    pub(crate) fn create_rss<B: Bus>(
        &mut self,
        hal: &mut Hal<B>,
        func: u8,
        cmd: &CreateRssCmd,
    ) -> CmdResult<u32> {
        let log_size = cmd.log_size();
        require(u32::from(log_size) <= RSS_ENTRIES.ilog2(), log_size.into())?;
        self.own_pd(func, cmd.pd())?;
        for qpn in table(cmd) {
            let made = &self.qps[self.own_qp(func, qpn)? as usize].made;
            require(made.service() == u8::from(Service::Raw), qpn)?;
            require(made.pd() == cmd.pd(), qpn)?; // MEM-1
        }
        let at = self.spreads.rows.trailing_ones();
        if at >= RSS_QPS {
            return Err((AdminStatus::NoResources, RSS_QPS));
        }
        let mut row = RssRow::new();
        row.set_fields(cmd.fields());
        row.set_log_size(log_size);
        row.set_key(cmd.key());
        hal.rss_row(at, &row);
        for (entry, qpn) in (0..).zip(table(cmd)) {
            hal.rss_qp(at * RSS_ENTRIES + entry, qpn);
        }
        self.spreads.rows |= 1 << at;
        Ok(at)
    }

    /// No rule leads there any more; the hardware's row stays as it is.
    pub(crate) fn destroy_rss(&mut self, handle: u32) -> CmdResult {
        if !self.spreads.is_there(handle) {
            return Err((AdminStatus::BadHandle, handle));
        }
        if self.rules.has_spread(handle) {
            return Err((AdminStatus::InUse, handle));
        }
        self.spreads.rows &= !(1 << handle);
        Ok(())
    }

    /// The manager's function begins anew: rules, and what they lead to.
    pub(crate) fn clear_rules<B: Bus>(&mut self, hal: &mut Hal<B>) {
        self.rules.clear(hal);
        self.spreads = Spreads::new();
    }
}
