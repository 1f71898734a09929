//! The link as firmware sees it: rows, status words, and the states that hardware moves through by itself.

use hca_abi::{
    CtxTable, HwEventKind, LINK_ROW_CTRL, LINK_ROW_DSCP, LINK_ROW_HIGH, LINK_ROW_LOW, LINK_ROW_SL2VL,
    LINK_WORD_STATE, LinkCtrl, LinkDscp, LinkSl2vl, LinkStatus, LinkVlArb, PortState, VL_ARB_ENTRIES,
};

use crate::card::Card;

const WORDS: usize = 256;
/// Data VLs of this card.
const NUM_VLS: u32 = 8;

/// State of the link, and what its status words show.
#[derive(Debug)]
pub struct FakeLink {
    /// Data VLs that the card was built with.
    pub vls: u32,
    /// Status words; the first comes from the state.
    pub words: [u32; WORDS],
    state: PortState,
    phy_up: bool,
}

impl FakeLink {
    pub(crate) fn new() -> Self {
        Self {
            vls: NUM_VLS,
            words: [0; WORDS],
            state: PortState::Down,
            phy_up: true,
        }
    }

    /// The state.
    pub fn state(&self) -> PortState {
        self.state
    }

    pub(crate) fn word(&self, word: usize) -> u32 {
        if word == LINK_WORD_STATE as usize {
            let mut status = LinkStatus::new();
            status.set_state(self.state.into());
            status.set_phy_up(self.phy_up);
            return u32::from_le_bytes(status.0);
        }
        self.words.get(word).copied().unwrap_or(0)
    }
}

impl Card {
    /// The control row was written: VL-14.
    pub(crate) fn link_ctrl_written(&mut self) {
        let asked = PortState::try_from(self.link_ctrl().state());
        let link = &mut self.link;
        let before = link.state;
        link.state = match asked {
            Ok(PortState::Down) => PortState::Down,
            Ok(state @ (PortState::Init | PortState::Armed | PortState::Active))
                if link.phy_up && before != PortState::ActiveDefer =>
            {
                state
            }
            Ok(PortState::Init | PortState::Armed | PortState::Active) => before,
            other => {
                self.violation(format!("link state {other:?} written"));
                return;
            }
        };
        if self.link.state != before {
            self.raise(HwEventKind::Port, 1, 0);
        }
    }

    /// The cable is taken out or put in again.
    pub fn set_phy_up(&mut self, up: bool) {
        let link = &mut self.link;
        link.phy_up = up;
        link.state = match (link.state, up) {
            (PortState::Active, false) => PortState::ActiveDefer,
            (PortState::ActiveDefer, true) => PortState::Active,
            (PortState::Init | PortState::Armed, false) => PortState::Down,
            (state, _) => state,
        };
        self.raise(HwEventKind::Port, 1, 0);
    }

    /// The cable has been out for too long.
    pub fn give_link_up(&mut self) {
        if self.link.state == PortState::ActiveDefer {
            self.link.state = PortState::Down;
            self.raise(HwEventKind::Port, 1, 0);
        }
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
