//! Receive side scaling: targets of rules that spread frames over raw QPs by a hash (ibv_create_rwq_ind_table and
//! ibv_create_qp_ex with RX_HASH). The hardware hashes and looks the QP up; here is who may be in a table.

use crate::hal::Hal;
use crate::objects::require;
use crate::table::Table;
use crate::{Bus, CmdResult, Control};
use hca_abi::{AdminStatus, CreateRssCmd, RSS_ENTRIES, RSS_QPS, RssRow, Service};

const ROWS: usize = RSS_QPS as usize;
const ENTRIES: usize = RSS_ENTRIES as usize;
const QPN_BYTES: usize = 3;

/// Its QPs, entry by entry.
#[derive(Clone, Copy)]
struct Spread {
    entries: usize,
    qpns: [u32; ENTRIES],
}

impl Spread {
    fn has(&self, qpn: u32) -> bool {
        self.qpns[..self.entries].contains(&qpn)
    }
}

/// All of the card.
pub(crate) struct Spreads {
    rows: Table<Option<Spread>, ROWS>,
}

impl Spreads {
    pub const fn new() -> Self {
        Self {
            rows: Table::new([None; ROWS]),
        }
    }

    pub fn is_there(&self, row: u32) -> bool {
        self.rows.get(row as usize).is_some_and(Option::is_some)
    }

    /// Is the QP in a table?
    pub fn has(&self, qpn: u32) -> bool {
        self.rows.iter().flatten().any(|spread| spread.has(qpn))
    }

    /// A row with the QP: from now on nobody's. Rules that lead there are the caller's to take away.
    pub fn take_with(&mut self, qpn: u32) -> Option<u32> {
        let of_qp = |row: &Option<Spread>| row.as_ref().is_some_and(|spread| spread.has(qpn));
        let at = self.rows.iter().position(of_qp)?;
        self.rows[at] = None;
        Some(at as u32)
    }
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
        let mut spread = Spread {
            entries: 1 << log_size,
            qpns: [0; ENTRIES],
        };
        let told = cmd.qpns();
        for (qpn, bytes) in spread.qpns[..spread.entries]
            .iter_mut()
            .zip(told.chunks_exact(QPN_BYTES))
        {
            *qpn = u32::from_le_bytes([bytes[0], bytes[1], bytes[2], 0]);
            let made = &self.qps[self.own_qp(func, *qpn)? as usize].made;
            require(made.service() == u8::from(Service::Raw), *qpn)?;
            require(made.pd() == cmd.pd(), *qpn)?; // MEM-1
        }
        let free = self.spreads.rows.iter().position(Option::is_none);
        let at = free.ok_or((AdminStatus::NoResources, RSS_QPS))?;
        let mut row = RssRow::new();
        row.set_fields(cmd.fields());
        row.set_log_size(log_size);
        row.set_key(cmd.key());
        hal.rss_row(at as u32, &row);
        for (entry, qpn) in spread.qpns[..spread.entries].iter().enumerate() {
            hal.rss_qp(at as u32 * RSS_ENTRIES + entry as u32, *qpn);
        }
        self.spreads.rows[at] = Some(spread);
        Ok(at as u32)
    }

    /// No rule leads there any more; the hardware's row stays as it is.
    pub(crate) fn destroy_rss(&mut self, handle: u32) -> CmdResult {
        if !self.spreads.is_there(handle) {
            return Err((AdminStatus::BadHandle, handle));
        }
        if self.rules.has_spread(handle) {
            return Err((AdminStatus::InUse, handle));
        }
        self.spreads.rows[handle as usize] = None;
        Ok(())
    }
}
