//! The link: rows that firmware writes through the context port (table LINK), and the admin commands that
//! configure it and read it out.

use crate::table::{StructDef, abi_enum, layout};

/// Tables of this module.
pub const STRUCTS: &[&StructDef] = &[
    &LinkVlArb::TABLE,
    &LinkSl2vl::TABLE,
    &LinkCtrl::TABLE,
    &LinkDscp::TABLE,
    &LinkStatus::TABLE,
    &SetLinkCmd::TABLE,
    &VlArbCmd::TABLE,
    &VlArbResult::TABLE,
    &SetSl2vlCmd::TABLE,
    &QueryVlCountersCmd::TABLE,
    &VlCounters::TABLE,
    &QueryVlCountersResult::TABLE,
    &QueryLinkResult::TABLE,
    &QueryLinkErrorsResult::TABLE,
    &PfcCounters::TABLE,
    &QueryPfcCountersResult::TABLE,
    &QueryLldpCmd::TABLE,
    &QueryLldpResult::TABLE,
];

layout! {
    /// Rows LINK_ROW_HIGH + n and LINK_ROW_LOW + n: entry n of a VL arbitration table.
    LinkVlArb("link_vl_arb", 4, Hardware) {
        /// Data VL, 0..=14.
        vl set_vl: u8 [0, 0, 4] "VL-12";
        /// Units of 64 bytes; 0: the entry is skipped.
        weight set_weight: u8 [1, 0, 8] "VL-12";
    }
}

layout! {
    /// Row LINK_ROW_SL2VL: the VL of each service level. Ethernet: the traffic class of each priority.
    LinkSl2vl("link_sl2vl", 8, Hardware) {
        /// Bits 4n+3:4n are the VL of SL n; 15: the SL is unusable for data.
        map set_map: u64 [0, 0, 64] "VL-8";
    }
}

layout! {
    /// Row LINK_ROW_CTRL: what the link shall do.
    LinkCtrl("link_ctrl", 16, Hardware) {
        /// port_state; ACTIVE_DEFER is never written, hardware goes there and back by itself.
        state set_state: u8 [0, 0, 3] "VL-14";
        /// op_vls: operational data VLs.
        op_vls set_op_vls: u8 [0, 4, 3] "VL-2";
        /// link_policy.
        policy set_policy: u8 [1, 0, 1];
        /// Limit of High Priority in units of 4096 bytes; 255: no limit, 0: one packet.
        limit set_limit: u8 [2, 0, 8] "VL-12";
        /// mtu.
        mtu set_mtu: u8 [3, 0, 3];
        /// A packet may wait 1024 << n cycles in the transmit ring; 31: for ever.
        hoq_life set_hoq_life: u8 [4, 0, 5];
        /// Ethernet: bit n: priority n obeys and sends PFC pauses.
        pfc_enable set_pfc_enable: u8 [5, 0, 8];
        /// Ethernet: bit n: traffic class n goes before those with weights, and before the strict ones below it.
        strict set_strict: u8 [6, 0, 8];
        /// Ethernet: a frame has the priority of its VLAN tag, else 0; without this bit, that of its DSCP, else 0.
        trust_pcp set_trust_pcp: bool [7, 0, 1];
    }
}

layout! {
    /// Rows LINK_ROW_DSCP + n: Ethernet: the priorities of DSCP 8n to 8n + 7.
    LinkDscp("link_dscp", 4, Hardware) {
        /// Bits 4i+2:4i are the priority of DSCP 8n + i.
        map set_map: u32 [0, 0, 32];
    }
}

layout! {
    /// Status word LINK_WORD_STATE.
    LinkStatus("link_status", 4, Hardware) {
        /// port_state.
        state set_state: u8 [0, 0, 3] "VL-14";
        /// The physical link is up.
        phy_up set_phy_up: bool [0, 3, 1] "MGMT-7";
    }
}

layout! {
    /// SET_LINK.
    SetLinkCmd("set_link_cmd", 248, Software) {
        /// Port, from 1.
        port_num set_port_num: u8 [0, 0, 8];
        /// port_state to go to.
        state set_state: u8 [1, 0, 8] "VL-14";
        /// op_vls wanted; firmware uses the smaller of this and the peer's.
        op_vls set_op_vls: u8 [2, 0, 8] "VL-4";
        /// op_vls of the other end of the cable.
        peer_vls set_peer_vls: u8 [3, 0, 8] "VL-4";
        /// link_attr bits: what to change.
        attr_mask set_attr_mask: u32 [4, 0, 32];
        /// link_policy.
        policy set_policy: u8 [8, 0, 8];
        /// Limit of High Priority in units of 4096 bytes; 255: no limit, 0: one packet.
        limit set_limit: u8 [9, 0, 8] "VL-12";
        /// A packet may wait 1024 << n cycles in the transmit ring; 31: for ever.
        hoq_life set_hoq_life: u8 [10, 0, 8];
        /// Ethernet: bit n: priority n obeys and sends PFC pauses.
        pfc_enable set_pfc_enable: u8 [11, 0, 8];
        /// eth_trust.
        trust set_trust: u8 [12, 0, 8];
        /// Ethernet: bit n: traffic class n is strict.
        strict set_strict: u8 [13, 0, 8];
        /// Ethernet: the port tells its neighbour who it is.
        lldp_tx set_lldp_tx: bool [14, 0, 1];
        /// Ethernet: bits 4n+3:4n are the traffic class of priority n.
        prio_tc set_prio_tc: u32 [16, 0, 32];
        /// Ethernet: the share of each traffic class that is not strict, in percent; they are 100 together.
        tc_percent set_tc_percent: [u8; 8] [24, 0, 64];
        /// DSCPs whose priority changes, a bit each.
        dscp_mask set_dscp_mask: u64 [32, 0, 64];
        /// Priority of each DSCP.
        dscp set_dscp: [u8; 64] [40, 0, 512];
    }
}

layout! {
    /// SET_VL_ARB, QUERY_VL_ARB.
    VlArbCmd("vl_arb_cmd", 248, Software) {
        /// Port, from 1.
        port_num set_port_num: u8 [0, 0, 8];
        /// The high priority table; 0: the low one.
        high set_high: bool [1, 0, 1] "VL-12";
        /// SET: entries given, 0..=64; those behind get weight 0.
        count set_count: u8 [2, 0, 8];
        /// SET: pairs of bytes: VL, weight.
        entries set_entries: [u8; 128] [8, 0, 1024] "VL-12";
    }
}

layout! {
    /// Completion body of QUERY_VL_ARB.
    VlArbResult("vl_arb_result", 244, Software) {
        /// Entries up to the last one with a weight.
        count set_count: u8 [0, 0, 8];
        /// Pairs of bytes: VL, weight.
        entries set_entries: [u8; 128] [8, 0, 1024] "VL-12";
    }
}

layout! {
    /// SET_SL2VL.
    SetSl2vlCmd("set_sl2vl_cmd", 248, Software) {
        /// Port, from 1.
        port_num set_port_num: u8 [0, 0, 8];
        /// Bits 4n+3:4n are the VL of SL n; 15: the SL is unusable for data.
        map set_map: u64 [8, 0, 64] "VL-8";
    }
}

layout! {
    /// QUERY_VL_COUNTERS.
    QueryVlCountersCmd("query_vl_counters_cmd", 248, Software) {
        /// Port, from 1.
        port_num set_port_num: u8 [0, 0, 8];
        /// First VL of the answer, 0 or 8.
        first_vl set_first_vl: u8 [1, 0, 8];
    }
}

layout! {
    /// One VL in a QUERY_VL_COUNTERS completion. Counters are free running and wrap at 32 bits.
    VlCounters("vl_counters", 28, Software) {
        /// Blocks of 64 bytes that the peer has room for.
        tx_credits set_tx_credits: u32 [0, 0, 32] "VL-6";
        /// Blocks in the transmit ring.
        tx_fill set_tx_fill: u32 [4, 0, 32];
        /// Blocks in the receive ring.
        rx_fill set_rx_fill: u32 [8, 0, 32];
        /// Packets sent.
        tx_packets set_tx_packets: u32 [12, 0, 32];
        /// Blocks sent.
        tx_blocks set_tx_blocks: u32 [16, 0, 32];
        /// Packets received.
        rx_packets set_rx_packets: u32 [20, 0, 32];
        /// Cycles in which a packet waited for credit (PortXmitWait of this VL).
        tx_wait set_tx_wait: u32 [24, 0, 32];
    }
}

layout! {
    /// Completion body of QUERY_VL_COUNTERS.
    QueryVlCountersResult("query_vl_counters_result", 244, Software) {
        /// Eight vl_counters, of VLs first_vl..first_vl + 7.
        vls set_vls: [u8; 224] [0, 0, 1792];
    }
}

layout! {
    /// Completion body of QUERY_LINK.
    QueryLinkResult("query_link_result", 244, Software) {
        /// port_state that the link is in.
        state set_state: u8 [0, 0, 8] "VL-14";
        /// port_state that was asked for.
        wanted_state set_wanted_state: u8 [1, 0, 8];
        /// The physical link is up.
        phy_up set_phy_up: bool [2, 0, 1] "MGMT-7";
        /// link_layer.
        link_layer set_link_layer: u8 [3, 0, 8];
        /// op_vls that the card was built with.
        built_vls set_built_vls: u8 [4, 0, 8] "VL-2";
        /// op_vls asked for.
        wanted_vls set_wanted_vls: u8 [5, 0, 8];
        /// op_vls of the other end of the cable.
        peer_vls set_peer_vls: u8 [6, 0, 8] "VL-4";
        /// op_vls in use.
        op_vls set_op_vls: u8 [7, 0, 8] "VL-4";
        /// link_policy.
        policy set_policy: u8 [8, 0, 8];
        /// Limit of High Priority in units of 4096 bytes; 255: no limit, 0: one packet.
        limit set_limit: u8 [9, 0, 8] "VL-12";
        /// mtu.
        mtu set_mtu: u8 [10, 0, 8];
        /// A packet may wait 1024 << n cycles in the transmit ring; 31: for ever.
        hoq_life set_hoq_life: u8 [11, 0, 8];
        /// Ethernet: bit n: priority n obeys and sends PFC pauses.
        pfc_enable set_pfc_enable: u8 [12, 0, 8];
        /// LID mask control.
        lmc set_lmc: u8 [13, 0, 8] "ADDR-3";
        /// LID.
        lid set_lid: u16 [14, 0, 16] "ADDR-2";
        /// Bits 4n+3:4n are the VL of SL n; 15: the SL is unusable for data.
        sl2vl set_sl2vl: u64 [16, 0, 64] "VL-8";
        /// Blocks of 64 bytes that a VL's transmit ring holds at most, of a pool that all share; 0: not told.
        tx_ring set_tx_ring: u32 [24, 0, 32];
        /// Size of a VL's receive ring in blocks of 64 bytes; 0: not told.
        rx_ring set_rx_ring: u32 [28, 0, 32];
        /// eth_trust.
        trust set_trust: u8 [32, 0, 8];
        /// Ethernet: bit n: traffic class n is strict.
        strict set_strict: u8 [33, 0, 8];
        /// Ethernet: somebody has set traffic classes; else each has the same weight, and tc_percent comes close.
        has_ets set_has_ets: bool [34, 0, 1];
        /// Ethernet: the share of each traffic class that is not strict, in percent.
        tc_percent set_tc_percent: [u8; 8] [40, 0, 64];
        /// Ethernet: the priority of each DSCP.
        dscp set_dscp: [u8; 64] [48, 0, 512];
    }
}

layout! {
    /// Completion body of QUERY_LINK_ERRORS, in the order of the status words from LINK_WORD_ERRORS. Free
    /// running, wrap at 32 bits.
    QueryLinkErrorsResult("query_link_errors_result", 244, Software) {
        /// Packets dropped because the physical layer marked them.
        symbol_error set_symbol_error: u32 [0, 0, 32];
        /// Times the physical link was lost and came back.
        link_error_recovery set_link_error_recovery: u32 [4, 0, 32];
        /// Times the physical link was lost for good.
        link_downed set_link_downed: u32 [8, 0, 32];
        /// Packets received with an error of the link layer.
        port_rcv_errors set_port_rcv_errors: u32 [12, 0, 32];
        /// Packets that a switch marked bad.
        port_rcv_remote_phys_errors set_port_rcv_remote_phys_errors: u32 [16, 0, 32];
        /// Packets a switch could not forward.
        port_rcv_switch_relay_errors set_port_rcv_switch_relay_errors: u32 [20, 0, 32];
        /// Packets dropped on the transmit side: link down or life time over.
        port_xmit_discards set_port_xmit_discards: u32 [24, 0, 32];
        /// Packets not sent because their SL has no VL, or their VL is not in use.
        port_xmit_constraint_errors set_port_xmit_constraint_errors: u32 [28, 0, 32];
        /// Packets not accepted because of the port's rules.
        port_rcv_constraint_errors set_port_rcv_constraint_errors: u32 [32, 0, 32];
        /// Times the local physical errors passed their threshold.
        local_link_integrity_errors set_local_link_integrity_errors: u32 [36, 0, 32];
        /// Packets that came without credit and found the ring full.
        excessive_buffer_overrun_errors set_excessive_buffer_overrun_errors: u32 [40, 0, 32];
        /// Packets of VL15 dropped because its ring was full.
        vl15_dropped set_vl15_dropped: u32 [44, 0, 32];
        /// Flow control packets sent.
        fcp_sent set_fcp_sent: u32 [48, 0, 32] "VL-6";
        /// Flow control packets received.
        fcp_received set_fcp_received: u32 [52, 0, 32] "VL-6";
        /// Flow control packets with a wrong LPCRC.
        lpcrc_errors set_lpcrc_errors: u32 [56, 0, 32];
        /// Packets received on a VL that is not in use.
        vl_mismatch set_vl_mismatch: u32 [60, 0, 32];
    }
}

layout! {
    /// One priority in a QUERY_PFC_COUNTERS completion. Free running, wrap at 32 bits.
    PfcCounters("pfc_counters", 16, Software) {
        /// Pause frames sent that stop this priority.
        sent set_sent: u32 [0, 0, 32];
        /// Pause frames received that stop this priority, where it has PFC.
        received set_received: u32 [4, 0, 32];
        /// Cycles in which it was paused by the other end.
        paused_cycles set_paused_cycles: u32 [8, 0, 32];
        /// Blocks of 64 bytes in its receive ring.
        rx_fill set_rx_fill: u32 [12, 0, 32];
    }
}

layout! {
    /// Completion body of QUERY_PFC_COUNTERS.
    QueryPfcCountersResult("query_pfc_counters_result", 244, Software) {
        /// Eight pfc_counters, by priority.
        priorities set_priorities: [u8; 128] [0, 0, 1024];
        /// Blocks in a receive ring with which the other end is paused.
        xoff_blocks set_xoff_blocks: u32 [128, 0, 32];
        /// Blocks with which it may go on.
        xon_blocks set_xon_blocks: u32 [132, 0, 32];
        /// Blocks of a receive ring: those above xoff_blocks are for what is under way.
        rx_ring_blocks set_rx_ring_blocks: u32 [136, 0, 32];
    }
}

abi_enum! {
    /// How the VL arbiter shares the link.
LinkPolicy("link_policy", "LinkPolicy", 1, Hardware) {
        /// Weighted round robin in each table, high before low within its limit.
        Iba = 0,
        /// Rounds in which the high table gets its weights a whole number of times.
        RoundQuantum = 1,
    }
}

abi_enum! {
    /// What an Ethernet port reads a frame's priority from.
EthTrust("eth_trust", "EthTrust", 1, Software) {
        /// The DSCP of its IP header, by the port's map; a frame without one has priority 0.
        Dscp = 0,
        /// Its VLAN tag; a frame without one has priority 0.
        Pcp = 1,
    }
}

layout! {
    /// QUERY_LLDP.
    QueryLldpCmd("query_lldp_cmd", 248, Software) {
        /// Port, from 1.
        port_num set_port_num: u8 [0, 0, 8];
        /// Which bytes of the LLDPDU: from 192 times this on. 0, 1 or 2.
        part set_part: u8 [1, 0, 8];
    }
}

layout! {
    /// Completion body of QUERY_LLDP. Parts with the same `received` are of one LLDPDU. Counters stop at their end.
    QueryLldpResult("query_lldp_result", 244, Software) {
        /// The port tells its neighbour who it is.
        tx set_tx: bool [0, 0, 1];
        /// Bytes of the neighbour's TLVs, without their end; 0: nobody has been heard, or not for long.
        bytes set_bytes: u16 [2, 0, 16];
        /// Seconds until it is forgotten, rounded up.
        left_s set_left_s: u32 [4, 0, 32];
        /// LLDPDUs sent.
        sent set_sent: u32 [8, 0, 32];
        /// LLDPDUs received.
        received set_received: u32 [12, 0, 32];
        /// Those of them that were malformed.
        malformed set_malformed: u32 [16, 0, 32];
        /// Neighbours forgotten because they fell silent.
        aged_out set_aged_out: u32 [20, 0, 32];
        /// Neighbours forgotten because another one came.
        replaced set_replaced: u32 [24, 0, 32];
        /// Bytes of this part; zeros behind the end.
        tlvs set_tlvs: [u8; 192] [48, 0, 1536];
    }
}
