//! What firmware has told the port, in the words of the specification.

use hca_abi::{
    CtxTable, LINK_ROW_CTRL, LINK_ROW_DSCP, LINK_ROW_HIGH, LINK_ROW_LOW, LINK_ROW_SL2VL, LinkCtrl, LinkDscp,
    LinkSl2vl, LinkVlArb, PortState, VL_ARB_ENTRIES,
};

use crate::card::{Hardware, PORT};

impl Hardware {
    /// The state of the link.
    pub fn link_state(&self) -> PortState {
        self.card.link_state(PORT)
    }

    /// Control row of the link.
    pub fn link_ctrl(&self) -> LinkCtrl {
        LinkCtrl::read_from(&self.row(CtxTable::Link, LINK_ROW_CTRL)).unwrap_or_default()
    }

    /// The VL of each SL.
    pub fn link_sl2vl(&self) -> [u8; 16] {
        let row = LinkSl2vl::read_from(&self.row(CtxTable::Link, LINK_ROW_SL2VL)).unwrap_or_default();
        std::array::from_fn(|sl| (row.map() >> (4 * sl) & 15) as u8)
    }

    /// Ethernet: the priority of each DSCP.
    pub fn link_dscp(&self) -> [u8; 64] {
        let row =
            |at: u32| LinkDscp::read_from(&self.row(CtxTable::Link, LINK_ROW_DSCP + at)).unwrap_or_default();
        std::array::from_fn(|dscp| (row(dscp as u32 / 8).map() >> (4 * (dscp % 8)) & 7) as u8)
    }

    /// The entries of an arbitration table that count, as (VL, weight).
    pub fn link_arbitration(&self, high: bool) -> Vec<(u8, u8)> {
        let first = if high { LINK_ROW_HIGH } else { LINK_ROW_LOW };
        (first..first + VL_ARB_ENTRIES)
            .filter_map(|row| LinkVlArb::read_from(&self.row(CtxTable::Link, row)))
            .map(|entry| (entry.vl(), entry.weight()))
            .filter(|(_, weight)| *weight != 0)
            .collect()
    }
}
