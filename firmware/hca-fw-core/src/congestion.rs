//! Congestion control of an Ethernet port: the row that hardware acts on, checked, kept and told.

use crate::features::has;
use crate::hal::Hal;
use crate::objects::require;
use crate::{Bus, CmdResult, Control};
use hca_abi::{
    AdminStatus, CC_RATE_MIN, CcAlgorithm, CongestionCmd, CongestionResult, LINK_ROW_CONGESTION,
    LinkCongestion, feature,
};

/// A round trip and its excess are at most so many bits of cycles.
const DELAY_BITS: u32 = 20;

/// Checks what an algorithm would divide by, or never come out of. Detail: the byte of the field in the row.
fn check(row: &LinkCongestion) -> CmdResult {
    require(CcAlgorithm::try_from(row.algorithm()).is_ok(), 0)?;
    require(row.alpha_period() != 0, 4)?;
    require(row.rate_period() != 0, 6)?;
    require(row.rate_bytes() != 0, 8)?;
    require(u32::from(row.min_rate()) >= CC_RATE_MIN, 14)?;
    require(u32::from(row.delay_scale()) <= DELAY_BITS, 23)
}

impl Control {
    /// A row that does not enable may say anything: it is kept for the next look alone.
    pub(crate) fn set_congestion<B: Bus>(&mut self, hal: &mut Hal<B>, cmd: &CongestionCmd) -> CmdResult {
        let at = self.port_at(cmd.port_num())?;
        let row = LinkCongestion(cmd.row());
        if row.enable() {
            check(&row)?;
            let is_there = has(feature::CONGESTION) && !self.has_transport_alone();
            if self.ports[at].infiniband() || !is_there {
                return Err((AdminStatus::Unsupported, cmd.port_num().into()));
            }
        }
        self.ports[at].congestion = row;
        hal.link_row(at as u8, LINK_ROW_CONGESTION, row.as_bytes());
        Ok(())
    }

    pub(crate) fn query_congestion(&self, port_num: u8) -> CmdResult<CongestionResult> {
        let mut out = CongestionResult::new();
        out.set_row(self.ports[self.port_at(port_num)?].congestion.0);
        Ok(out)
    }
}
