//! A port: who it is, its link's state as firmware sees it, and what it counts.

use std::collections::BTreeMap;

use hca_abi::{
    HwEventKind, LINK_PORT_ROWS, LINK_ROW_CTRL, LINK_ROW_SL2VL, LINK_WORD_STATE, LinkCtrl, LinkSl2vl,
    LinkStatus, PortState,
};
use hca_fw_core::NUM_PKEYS;
use hca_regs as reg;
use hca_wire::LID_PERMISSIVE;

use crate::body::Body;

/// Cycles for which an active link waits for its other end.
const DEFER_CYCLES: u64 = 1 << 20;

/// Packets and bytes of a port.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PortCounters {
    /// Packets sent.
    pub tx_packets: u64,
    /// Bytes sent.
    pub tx_bytes: u64,
    /// Packets received that were packets.
    pub rx_packets: u64,
    /// Their bytes.
    pub rx_bytes: u64,
    /// Packets with wrong CRCs.
    pub rx_crc_errors: u64,
    /// Packets for nobody.
    pub rx_drops: u64,
    /// Packets with a wrong P_Key.
    pub pkey_violations: u64,
    /// Datagrams with a wrong Q_Key.
    pub qkey_violations: u64,
    /// Packets to a QP that did not come from its peer.
    pub bad_sources: u64,
    /// Requests with a PSN ahead of the expected one.
    pub out_of_sequence: u64,
    /// Requests that have come before.
    pub duplicate_requests: u64,
    /// RNR NAKs sent.
    pub rnr_naks_sent: u64,
    /// RNR NAKs received.
    pub rnr_naks_received: u64,
    /// Other NAKs sent.
    pub naks_sent: u64,
    /// Other NAKs received.
    pub naks_received: u64,
    /// Times for an answer that were over.
    pub ack_timeouts: u64,
    /// Requests sent again.
    pub retransmitted: u64,
    /// Datagrams for a QP1 that had no receive.
    pub qp1_drops: u64,
    /// Packets that no QP takes.
    pub stray_packets: u64,
    /// Datagrams for another QP that had none.
    pub datagrams_without_receive: u64,
}

/// See above.
#[derive(Clone, Debug)]
pub(crate) struct Port {
    pub is_infiniband: bool,
    pub mac: [u8; 6],
    pub lid: u16,
    pub lmc: u8,
    pkeys: [u16; NUM_PKEYS],
    sl2vl: u64,
    state: PortState,
    is_up: bool,
    /// Since when an active link has no other end.
    deferred: Option<u64>,
    /// Status words that somebody else has written.
    words: BTreeMap<u32, u32>,
    pub counters: PortCounters,
}

impl Port {
    pub fn new() -> Self {
        Self {
            is_infiniband: false,
            mac: [0; 6],
            lid: 0,
            lmc: 0,
            pkeys: [0; NUM_PKEYS],
            sl2vl: 0,
            state: PortState::Down,
            is_up: false,
            deferred: None,
            words: BTreeMap::new(),
            counters: PortCounters::default(),
        }
    }

    /// It carries data.
    #[inline]
    pub fn is_active(&self) -> bool {
        self.state == PortState::Active
    }

    pub fn pkey(&self, index: u8) -> u16 {
        self.pkeys.get(usize::from(index)).copied().unwrap_or(0)
    }

    /// KEY-14: the entry that is in the partition of a packet.
    pub fn pkey_index(&self, pkey: u16) -> Option<u8> {
        const FULL: u16 = 0x8000;
        let matches = |own: &u16| (own ^ pkey) & !FULL == 0 && (own | pkey) & FULL != 0 && own & !FULL != 0;
        self.pkeys.iter().position(matches).map(|index| index as u8)
    }

    /// VL-8.
    pub fn vl_of(&self, sl: u8) -> u8 {
        (self.sl2vl >> (4 * u32::from(sl & 15)) & 15) as u8
    }

    /// A LID of the port.
    pub fn has_lid(&self, lid: u16) -> bool {
        lid != LID_PERMISSIVE && lid >> self.lmc == self.lid >> self.lmc
    }

    /// A register of the port was written; `offset` counts from its first.
    pub fn register_written(&mut self, offset: u32, value: u32) {
        const FIRST_PKEY: u32 = reg::MGMT_PORT_PKEY - reg::MGMT_PORT;
        match reg::MGMT_PORT + offset {
            reg::MGMT_PORT_CTRL => self.is_infiniband = value & reg::MGMT_PORT_CTRL_IB_MASK != 0,
            reg::MGMT_PORT_MAC_LO => self.mac[2..].copy_from_slice(&value.to_be_bytes()),
            reg::MGMT_PORT_MAC_HI => self.mac[..2].copy_from_slice(&(value as u16).to_be_bytes()),
            reg::MGMT_PORT_LID => self.lid = value as u16,
            reg::MGMT_PORT_LMC => self.lmc = value as u8 & 7,
            _ => {
                let index = offset.wrapping_sub(FIRST_PKEY) / 4;
                if let Some(pkey) = self.pkeys.get_mut(index as usize) {
                    *pkey = value as u16;
                }
            }
        }
    }

    pub fn state(&self) -> PortState {
        self.state
    }

    pub fn set_word(&mut self, word: u32, value: u32) {
        self.words.insert(word, value);
    }

    /// A status word of the link.
    pub fn link_word(&self, word: u32) -> u32 {
        if word != LINK_WORD_STATE {
            return self.words.get(&word).copied().unwrap_or(0);
        }
        let mut status = LinkStatus::new();
        status.set_state(self.state.into());
        status.set_phy_up(self.is_up);
        u32::from_le_bytes(status.0)
    }

    /// A counter by its place in `query_counters_result`.
    pub fn counter(&self, index: u32) -> u64 {
        let counters = &self.counters;
        match index {
            0 => counters.tx_packets,
            1 => counters.tx_bytes,
            2 => counters.rx_packets,
            3 => counters.rx_bytes,
            4 => counters.rx_crc_errors,
            6 => counters.rx_drops,
            7 => counters.pkey_violations,
            8 => counters.qkey_violations,
            9 => counters.out_of_sequence,
            10 => counters.duplicate_requests,
            11 => counters.rnr_naks_sent,
            12 => counters.rnr_naks_received,
            13 => counters.naks_sent,
            14 => counters.naks_received,
            15 => counters.ack_timeouts,
            16 => counters.retransmitted,
            17 => counters.bad_sources,
            21 => counters.qp1_drops,
            22 => counters.stray_packets,
            23 => counters.datagrams_without_receive,
            _ => 0,
        }
    }
}

impl Body {
    /// A row of the table LINK was written.
    pub fn link_written(&mut self, index: u32, row: &[u8]) {
        let (at, row_of_port) = (index / LINK_PORT_ROWS, index % LINK_PORT_ROWS);
        self.port_changes += 1;
        let Some(port) = self.ports.get_mut(at as usize) else {
            return;
        };
        match row_of_port {
            LINK_ROW_SL2VL => port.sl2vl = LinkSl2vl::read_from(row).unwrap_or_default().map(),
            LINK_ROW_CTRL => {
                let asked = PortState::try_from(LinkCtrl::read_from(row).unwrap_or_default().state());
                let before = port.state;
                port.state = match asked {
                    Ok(PortState::Down) => PortState::Down,
                    Ok(state @ (PortState::Init | PortState::Armed | PortState::Active))
                        if port.is_up && before != PortState::ActiveDefer =>
                    {
                        state
                    }
                    _ => before,
                };
                if port.state != before {
                    port.deferred = None;
                    self.raise(HwEventKind::Port, 0, at + 1, 0);
                }
            }
            _ => {}
        }
    }

    /// The cable is there, or not. `at` counts from 0.
    pub fn set_link_up(&mut self, at: usize, is_up: bool) {
        let now = self.now;
        let port = &mut self.ports[at];
        if port.is_up == is_up {
            return;
        }
        port.is_up = is_up;
        (port.state, port.deferred) = match (port.state, is_up) {
            (PortState::Active, false) => (PortState::ActiveDefer, Some(now)),
            (PortState::ActiveDefer, true) => (PortState::Active, None),
            (PortState::Init | PortState::Armed, false) => (PortState::Down, None),
            (state, _) => (state, None),
        };
        self.raise(HwEventKind::Port, 0, at as u32 + 1, 0);
    }

    /// Links whose other end has been away for too long.
    #[inline]
    pub fn give_links_up(&mut self) {
        for at in 0..self.ports.len() {
            let due = self.link_timer(at).is_some_and(|due| due <= self.now);
            if due {
                (self.ports[at].state, self.ports[at].deferred) = (PortState::Down, None);
                self.raise(HwEventKind::Port, 0, at as u32 + 1, 0);
            }
        }
    }

    /// When a link is given up.
    #[inline]
    pub fn link_timer(&self, at: usize) -> Option<u64> {
        self.ports[at].deferred.map(|since| since + DEFER_CYCLES)
    }
}
