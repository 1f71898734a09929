//! One method per admin command of the link.

use hca_abi::{
    AdminOpcode, CongestionCmd, CongestionResult, LinkCongestion, QueryLinkErrorsResult, QueryLinkResult,
    QueryLldpCmd, QueryLldpResult, QueryPfcCountersResult, QueryPortCmd, QueryVlCountersCmd,
    QueryVlCountersResult, SetLinkCmd, SetSl2vlCmd, VL_ARB_ENTRIES, VlArbCmd, VlArbResult, VlCounters,
};

use crate::base::device::DevicePtr;
use crate::base::error::DriverError;
use crate::function::bring_up::Function;

/// VLs of one QUERY_VL_COUNTERS answer.
const VLS_PER_ANSWER: usize = 8;

/// Entry of a VL arbitration table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct VlWeight {
    /// Data VL.
    pub vl: u8,
    /// Units of 64 bytes; 0: the entry is skipped.
    pub weight: u8,
}

fn port_cmd(port_num: u8) -> QueryPortCmd {
    let mut cmd = QueryPortCmd::new();
    cmd.set_port_num(port_num);
    cmd
}

fn table_cmd(port_num: u8, high: bool) -> VlArbCmd {
    let mut cmd = VlArbCmd::new();
    cmd.set_port_num(port_num);
    cmd.set_high(high);
    cmd
}

impl<P: DevicePtr> Function<P> {
    /// SET_LINK: all of it or nothing.
    pub fn set_link(&mut self, cmd: &SetLinkCmd) -> Result<(), DriverError> {
        self.admin.issue(AdminOpcode::SetLink, cmd.as_bytes()).map(drop)
    }

    /// QUERY_LINK; ports count from 1.
    pub fn query_link(&mut self, port_num: u8) -> Result<QueryLinkResult, DriverError> {
        let body = self
            .admin
            .issue(AdminOpcode::QueryLink, port_cmd(port_num).as_bytes())?;
        Ok(QueryLinkResult(body))
    }

    /// SET_VL_ARB: replaces the high or the low priority table; entries behind those given count nothing.
    pub fn set_vl_arb(&mut self, port_num: u8, high: bool, entries: &[VlWeight]) -> Result<(), DriverError> {
        let mut cmd = table_cmd(port_num, high);
        let mut bytes = cmd.entries();
        if entries.len() > VL_ARB_ENTRIES as usize {
            return Err(DriverError::TooLarge {
                what: "entries of a VL arbitration table",
                value: entries.len() as u64,
                max: VL_ARB_ENTRIES.into(),
            });
        }
        for (pair, entry) in bytes.chunks_exact_mut(2).zip(entries) {
            pair.copy_from_slice(&[entry.vl, entry.weight]);
        }
        cmd.set_count(entries.len() as u8);
        cmd.set_entries(bytes);
        self.admin.issue(AdminOpcode::SetVlArb, cmd.as_bytes()).map(drop)
    }

    /// QUERY_VL_ARB: the entries up to the last one that counts.
    pub fn query_vl_arb(&mut self, port_num: u8, high: bool) -> Result<Vec<VlWeight>, DriverError> {
        let body = self
            .admin
            .issue(AdminOpcode::QueryVlArb, table_cmd(port_num, high).as_bytes())?;
        let result = VlArbResult(body);
        let pairs = result.entries();
        Ok(pairs
            .chunks_exact(2)
            .take(result.count().into())
            .map(|pair| VlWeight {
                vl: pair[0],
                weight: pair[1],
            })
            .collect())
    }

    /// SET_SL2VL: the VL of each SL; 15: the SL is unusable for data.
    pub fn set_sl2vl(&mut self, port_num: u8, vls: &[u8; 16]) -> Result<(), DriverError> {
        let mut map = 0;
        for (sl, vl) in vls.iter().enumerate() {
            if *vl > 15 {
                return Err(DriverError::TooLarge {
                    what: "VL of an SL",
                    value: (*vl).into(),
                    max: 15,
                });
            }
            map |= u64::from(*vl) << (4 * sl);
        }
        let mut cmd = SetSl2vlCmd::new();
        cmd.set_port_num(port_num);
        cmd.set_map(map);
        self.admin.issue(AdminOpcode::SetSl2vl, cmd.as_bytes()).map(drop)
    }

    /// QUERY_VL_COUNTERS for all VLs.
    pub fn query_vl_counters(&mut self, port_num: u8) -> Result<[VlCounters; 16], DriverError> {
        let mut all = [VlCounters::new(); 16];
        for (answer, vls) in all.chunks_exact_mut(VLS_PER_ANSWER).enumerate() {
            let mut cmd = QueryVlCountersCmd::new();
            cmd.set_port_num(port_num);
            cmd.set_first_vl((answer * VLS_PER_ANSWER) as u8);
            let body = self.admin.issue(AdminOpcode::QueryVlCounters, cmd.as_bytes())?;
            let bytes = QueryVlCountersResult(body).vls();
            for (vl, bytes) in vls.iter_mut().zip(bytes.chunks_exact(VlCounters::BYTES)) {
                vl.0.copy_from_slice(bytes);
            }
        }
        Ok(all)
    }

    /// SET_CONGESTION: replaces all of the row.
    pub fn set_congestion(&mut self, port_num: u8, row: &LinkCongestion) -> Result<(), DriverError> {
        let mut cmd = CongestionCmd::new();
        cmd.set_port_num(port_num);
        cmd.set_row(row.0);
        self.admin
            .issue(AdminOpcode::SetCongestion, cmd.as_bytes())
            .map(drop)
    }

    /// QUERY_CONGESTION.
    pub fn query_congestion(&mut self, port_num: u8) -> Result<LinkCongestion, DriverError> {
        let cmd = port_cmd(port_num);
        let body = self.admin.issue(AdminOpcode::QueryCongestion, cmd.as_bytes())?;
        Ok(LinkCongestion(CongestionResult(body).row()))
    }

    /// QUERY_LLDP: one part of what the neighbour says.
    pub fn query_lldp(&mut self, port_num: u8, part: u8) -> Result<QueryLldpResult, DriverError> {
        let mut cmd = QueryLldpCmd::new();
        cmd.set_port_num(port_num);
        cmd.set_part(part);
        let body = self.admin.issue(AdminOpcode::QueryLldp, cmd.as_bytes())?;
        Ok(QueryLldpResult(body))
    }

    /// QUERY_PFC_COUNTERS.
    pub fn query_pfc_counters(&mut self, port_num: u8) -> Result<QueryPfcCountersResult, DriverError> {
        let body = self
            .admin
            .issue(AdminOpcode::QueryPfcCounters, port_cmd(port_num).as_bytes())?;
        Ok(QueryPfcCountersResult(body))
    }

    /// QUERY_LINK_ERRORS.
    pub fn query_link_errors(&mut self, port_num: u8) -> Result<QueryLinkErrorsResult, DriverError> {
        let body = self
            .admin
            .issue(AdminOpcode::QueryLinkErrors, port_cmd(port_num).as_bytes())?;
        Ok(QueryLinkErrorsResult(body))
    }
}
