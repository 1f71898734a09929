//! Admin queue: bodies of the query commands and of their completions.

use crate::table::{StructDef, layout};

/// Tables of this module.
pub const STRUCTS: &[&StructDef] = &[
    &QueryDeviceResult::TABLE,
    &QueryPortCmd::TABLE,
    &QueryPortResult::TABLE,
    &QueryEntryCmd::TABLE,
    &QueryGidResult::TABLE,
    &ResolveGidCmd::TABLE,
    &ResolveGidResult::TABLE,
    &QueryPkeyResult::TABLE,
    &QueryNodeDescResult::TABLE,
    &QueryQpResult::TABLE,
    &QueryMrResult::TABLE,
    &QuerySrqResult::TABLE,
    &QueryCountersResult::TABLE,
    &QueryFirmwareResult::TABLE,
    &QueryRuleResult::TABLE,
];

layout! {
    /// Completion body of QUERY_DEVICE: what ibv_query_device and ibv_query_device_ex report. Attributes of
    /// RD, FMR, on-demand paging, RSS and tag matching are not here: the card has none and the driver
    /// reports 0.
    QueryDeviceResult("query_device_result", 244, Software) {
        /// Firmware version, major.
        fw_ver_major set_fw_ver_major: u16 [0, 0, 16] "V-30";
        /// Firmware version, minor.
        fw_ver_minor set_fw_ver_minor: u16 [2, 0, 16] "V-30";
        /// Firmware version, patch.
        fw_ver_patch set_fw_ver_patch: u16 [4, 0, 16] "V-30";
        /// Ports.
        phys_port_cnt set_phys_port_cnt: u8 [6, 0, 8] "V-30";
        /// atomic_cap.
        atomic_cap set_atomic_cap: u8 [7, 0, 8] "E-4";
        /// Node GUID, bytes as on the wire.
        node_guid set_node_guid: [u8; 8] [8, 0, 64] "ADDR-1";
        /// System image GUID, bytes as on the wire.
        sys_image_guid set_sys_image_guid: [u8; 8] [16, 0, 64] "ADDR-1";
        /// Largest region.
        max_mr_size set_max_mr_size: u64 [24, 0, 64] "V-30";
        /// Bit n: pages of 1 << n bytes.
        page_size_cap set_page_size_cap: u64 [32, 0, 64] "V-30";
        /// device_cap bits.
        device_cap_flags set_device_cap_flags: u64 [40, 0, 64] "E-3";
        /// IEEE vendor.
        vendor_id set_vendor_id: u32 [48, 0, 32] "V-30";
        /// Part.
        vendor_part_id set_vendor_part_id: u32 [52, 0, 32] "V-30";
        /// Hardware version.
        hw_ver set_hw_ver: u32 [56, 0, 32] "V-30";
        /// QPs of this function.
        max_qp set_max_qp: u32 [60, 0, 32] "V-30";
        /// WQEs of a queue.
        max_qp_wr set_max_qp_wr: u32 [64, 0, 32] "V-30";
        /// Entries of a WQE.
        max_sge set_max_sge: u32 [68, 0, 32] "V-30";
        /// Entries of a READ.
        max_sge_rd set_max_sge_rd: u32 [72, 0, 32] "V-30";
        /// CQs.
        max_cq set_max_cq: u32 [76, 0, 32] "V-30";
        /// Entries of a CQ.
        max_cqe set_max_cqe: u32 [80, 0, 32] "V-30";
        /// Regions.
        max_mr set_max_mr: u32 [84, 0, 32] "V-30";
        /// Protection domains.
        max_pd set_max_pd: u32 [88, 0, 32] "V-30";
        /// Responder depth of a QP.
        max_qp_rd_atom set_max_qp_rd_atom: u32 [92, 0, 32] "V-30";
        /// Responder resources in all.
        max_res_rd_atom set_max_res_rd_atom: u32 [96, 0, 32] "V-30";
        /// Initiator depth of a QP.
        max_qp_init_rd_atom set_max_qp_init_rd_atom: u32 [100, 0, 32] "V-30";
        /// Memory windows.
        max_mw set_max_mw: u32 [104, 0, 32] "V-30";
        /// Raw IPv6 QPs.
        max_raw_ipv6_qp set_max_raw_ipv6_qp: u32 [108, 0, 32] "V-30";
        /// Raw Ethertype QPs.
        max_raw_ethy_qp set_max_raw_ethy_qp: u32 [112, 0, 32] "V-30";
        /// Multicast groups.
        max_mcast_grp set_max_mcast_grp: u32 [116, 0, 32] "MC-6";
        /// QPs of a group.
        max_mcast_qp_attach set_max_mcast_qp_attach: u32 [120, 0, 32] "MC-6";
        /// Attachments in all.
        max_total_mcast_qp_attach set_max_total_mcast_qp_attach: u32 [124, 0, 32] "MC-6";
        /// Address handles.
        max_ah set_max_ah: u32 [128, 0, 32] "V-30";
        /// SRQs.
        max_srq set_max_srq: u32 [132, 0, 32] "V-30";
        /// WQEs of an SRQ.
        max_srq_wr set_max_srq_wr: u32 [136, 0, 32] "V-30";
        /// Entries of a WQE of an SRQ.
        max_srq_sge set_max_srq_sge: u32 [140, 0, 32] "V-30";
        /// P_Key table entries.
        max_pkeys set_max_pkeys: u16 [144, 0, 16] "V-30";
        /// Local acknowledge delay code.
        local_ca_ack_delay set_local_ca_ack_delay: u8 [146, 0, 8] "V-30";
        /// atomic_cap of masked atomics.
        masked_atomic_cap set_masked_atomic_cap: u8 [147, 0, 8] "OP-8";
        /// GID table entries.
        max_gids set_max_gids: u16 [148, 0, 16];
        /// MSI-X vectors of this function.
        num_comp_vectors set_num_comp_vectors: u16 [150, 0, 16] "V-25";
        /// Event queues.
        max_eq set_max_eq: u32 [152, 0, 32];
        /// Entries of an event queue.
        max_eqe set_max_eqe: u32 [156, 0, 32];
        /// Inline bytes of a send WQE.
        max_inline_data set_max_inline_data: u32 [160, 0, 32] "V-111";
        /// Pages of one region.
        max_mtt set_max_mtt: u32 [164, 0, 32] "V-130";
        /// Bits of a CQE timestamp that count.
        completion_timestamp_mask set_completion_timestamp_mask: u64 [168, 0, 64] "V-31";
        /// Card clock in kHz.
        hca_core_clock_khz set_hca_core_clock_khz: u32 [176, 0, 32] "V-31";
        /// Raw packet capabilities.
        raw_packet_caps set_raw_packet_caps: u32 [180, 0, 32] "V-33";
        /// Device memory bytes.
        max_dm_size set_max_dm_size: u64 [184, 0, 64] "V-31";
        /// Lowest pacing rate in kbit/s.
        pacing_min_kbps set_pacing_min_kbps: u32 [192, 0, 32] "RATE-6";
        /// Highest pacing rate in kbit/s, 0 = no pacing.
        pacing_max_kbps set_pacing_max_kbps: u32 [196, 0, 32] "RATE-6";
        /// Bit n: QPs of ibv_qp_type n can be paced.
        pacing_qp_types set_pacing_qp_types: u32 [200, 0, 32] "RATE-6";
        /// Completions that moderation can gather.
        max_cq_count set_max_cq_count: u16 [204, 0, 16] "V-31";
        /// Longest moderation period in microseconds.
        max_cq_period_us set_max_cq_period_us: u16 [206, 0, 16] "V-31";
        /// PCI atomics: bit 0 4 bytes, bit 1 8 bytes, bit 2 16 bytes; fetch and add.
        pci_atomic_fetch_add set_pci_atomic_fetch_add: u16 [208, 0, 16] "V-33";
        /// The same for swap.
        pci_atomic_swap set_pci_atomic_swap: u16 [210, 0, 16] "V-33";
        /// The same for compare and swap.
        pci_atomic_cmp_swap set_pci_atomic_cmp_swap: u16 [212, 0, 16] "V-33";
        /// Largest TCP segmentation request, 0 = none.
        max_tso set_max_tso: u32 [216, 0, 32] "V-31";
        /// Bit n: service n (see service) is supported.
        service_mask set_service_mask: u8 [220, 0, 8];
        /// Low bits of a QPN that tell the QPs of the card apart that exist at one time; the others are a generation.
        qpn_line_bits set_qpn_line_bits: u8 [221, 0, 8];
        /// Push slots of the function (see PUSH_SLOTS_OFFSET), 0 = none.
        push_slots set_push_slots: u8 [222, 0, 8];
        /// QPs with receive side scaling; 0 = none.
        rss_qps set_rss_qps: u8 [223, 0, 8] "V-31";
        /// Entries of the largest indirection table.
        rss_entries set_rss_entries: u8 [224, 0, 8] "V-31";
        /// log2 of the bytes that function 0 is asked for (SET_CONTEXT_MEMORY); 0: none.
        log_context_bytes set_log_context_bytes: u8 [225, 0, 8];
    }
}

layout! {
    /// QUERY_PORT, QUERY_COUNTERS.
    QueryPortCmd("query_port_cmd", 248, Software) {
        /// Port, from 1.
        port_num set_port_num: u8 [0, 0, 8] "V-35";
    }
}

layout! {
    /// Completion body of QUERY_PORT: what ibv_query_port reports.
    QueryPortResult("query_port_result", 244, Software) {
        /// port_state.
        state set_state: u8 [0, 0, 8] "E-2";
        /// mtu the port can do.
        max_mtu set_max_mtu: u8 [1, 0, 8] "V-35";
        /// mtu in use.
        active_mtu set_active_mtu: u8 [2, 0, 8] "V-36";
        /// LID mask control.
        lmc set_lmc: u8 [3, 0, 8] "ADDR-3";
        /// GID table entries.
        gid_tbl_len set_gid_tbl_len: u32 [4, 0, 32] "V-35";
        /// port_cap bits.
        port_cap_flags set_port_cap_flags: u32 [8, 0, 32] "E-5";
        /// Largest message.
        max_msg_sz set_max_msg_sz: u32 [12, 0, 32] "V-35";
        /// P_Key violations.
        bad_pkey_cntr set_bad_pkey_cntr: u32 [16, 0, 32] "KEY-15";
        /// Q_Key violations.
        qkey_viol_cntr set_qkey_viol_cntr: u32 [20, 0, 32] "V-35";
        /// P_Key table entries.
        pkey_tbl_len set_pkey_tbl_len: u16 [24, 0, 16] "V-35";
        /// LID.
        lid set_lid: u16 [26, 0, 16] "ADDR-5";
        /// LID of the subnet manager.
        sm_lid set_sm_lid: u16 [28, 0, 16] "V-35";
        /// Code of the number of virtual lanes.
        max_vl_num set_max_vl_num: u8 [30, 0, 8] "V-35";
        /// Service level of the subnet manager.
        sm_sl set_sm_sl: u8 [31, 0, 8] "V-35";
        /// Subnet timeout code.
        subnet_timeout set_subnet_timeout: u8 [32, 0, 8] "MGMT-6";
        /// InitTypeReply.
        init_type_reply set_init_type_reply: u8 [33, 0, 8] "MGMT-11";
        /// Width code.
        active_width set_active_width: u8 [34, 0, 8] "E-6";
        /// Speed code.
        active_speed set_active_speed: u8 [35, 0, 8] "E-6";
        /// Physical state.
        phys_state set_phys_state: u8 [36, 0, 8] "MGMT-7";
        /// link_layer.
        link_layer set_link_layer: u8 [37, 0, 8] "V-39";
        /// Bit 0: every address vector must have a GRH.
        flags set_flags: u8 [38, 0, 8] "V-38";
        /// More capabilities.
        port_cap_flags2 set_port_cap_flags2: u16 [40, 0, 16] "E-5";
        /// MAC address, bytes as on the wire.
        mac set_mac: [u8; 6] [42, 0, 48];
    }
}

layout! {
    /// QUERY_GID, QUERY_PKEY.
    QueryEntryCmd("query_entry_cmd", 248, Software) {
        /// Port, from 1.
        port_num set_port_num: u8 [0, 0, 8] "V-40";
        /// Entry.
        index set_index: u16 [2, 0, 16] "V-40";
    }
}

layout! {
    /// Completion body of QUERY_GID.
    QueryGidResult("query_gid_result", 244, Software) {
        /// GID, bytes as on the wire.
        gid set_gid: [u8; 16] [0, 0, 128] "V-40";
    }
}

layout! {
    /// RESOLVE_GID.
    ResolveGidCmd("resolve_gid_cmd", 248, Software) {
        /// Port, from 1: an Ethernet one.
        port_num set_port_num: u8 [0, 0, 8];
        /// GID, bytes as on the wire.
        gid set_gid: [u8; 16] [8, 0, 128] "ADDR-8";
    }
}

layout! {
    /// Completion body of RESOLVE_GID.
    ResolveGidResult("resolve_gid_result", 244, Software) {
        /// MAC address, bytes as on the wire.
        mac set_mac: [u8; 6] [0, 0, 48] "ADDR-8";
    }
}

layout! {
    /// Completion body of QUERY_PKEY.
    QueryPkeyResult("query_pkey_result", 244, Software) {
        /// P_Key.
        pkey set_pkey: u16 [0, 0, 16] "V-41";
    }
}

layout! {
    /// Completion body of QUERY_NODE_DESC.
    QueryNodeDescResult("query_node_desc_result", 244, Software) {
        /// Text; zeros behind it.
        text set_text: [u8; 64] [0, 0, 512] "MGMT-13";
    }
}

layout! {
    /// Completion body of QUERY_QP.
    QueryQpResult("query_qp_result", 244, Software) {
        /// qp_attr_body.
        attr set_attr: [u8; 176] [0, 0, 1408] "V-118";
        /// service.
        service set_service: u8 [176, 0, 8];
        /// Every send WQE makes a CQE.
        sq_sig_all set_sq_sig_all: bool [177, 0, 1] "V-112";
        /// Receives come from SRQ srqn.
        has_srq set_has_srq: bool [177, 1, 1];
        /// Protection domain.
        pd set_pd: u32 [180, 0, 24];
        /// CQ of the send queue.
        send_cqn set_send_cqn: u32 [184, 0, 24];
        /// CQ of the receive queue.
        recv_cqn set_recv_cqn: u32 [188, 0, 24];
        /// Shared receive queue.
        srqn set_srqn: u32 [192, 0, 24];
    }
}

layout! {
    /// Completion body of QUERY_MR.
    QueryMrResult("query_mr_result", 244, Software) {
        /// L_Key.
        lkey set_lkey: u32 [0, 0, 32];
        /// R_Key.
        rkey set_rkey: u32 [4, 0, 32];
        /// Protection domain.
        pd set_pd: u32 [8, 0, 24];
        /// access bits.
        access set_access: u32 [12, 0, 32];
        /// First virtual address.
        start set_start: u64 [16, 0, 64];
        /// Bytes.
        length set_length: u64 [24, 0, 64];
        /// Page size is 1 << this; 63: direct.
        page_shift set_page_shift: u8 [32, 0, 8];
    }
}

layout! {
    /// Completion body of QUERY_SRQ.
    QuerySrqResult("query_srq_result", 244, Software) {
        /// WQEs.
        max_wr set_max_wr: u32 [0, 0, 32];
        /// Entries of a WQE.
        max_sge set_max_sge: u32 [4, 0, 32];
        /// Limit; 0: none, or it was reached.
        limit set_limit: u32 [8, 0, 32];
    }
}

layout! {
    /// Completion body of QUERY_COUNTERS: since the last card reset.
    QueryCountersResult("query_counters_result", 244, Software) {
        /// Packets sent.
        tx_packets set_tx_packets: u64 [0, 0, 64];
        /// Bytes sent, headers included.
        tx_bytes set_tx_bytes: u64 [8, 0, 64];
        /// Packets received with good CRCs.
        rx_packets set_rx_packets: u64 [16, 0, 64];
        /// Bytes received with good CRCs.
        rx_bytes set_rx_bytes: u64 [24, 0, 64];
        /// Packets with a wrong ICRC or VCRC.
        rx_crc_errors set_rx_crc_errors: u64 [32, 0, 64];
        /// Packets dropped for want of buffer.
        rx_buffer_drops set_rx_buffer_drops: u64 [40, 0, 64];
        /// Packets dropped for any other reason.
        rx_drops set_rx_drops: u64 [48, 0, 64];
        /// Packets with a wrong P_Key.
        pkey_violations set_pkey_violations: u64 [56, 0, 64];
        /// Packets with a wrong Q_Key.
        qkey_violations set_qkey_violations: u64 [64, 0, 64];
        /// Packets with a PSN ahead of the expected one.
        out_of_sequence set_out_of_sequence: u64 [72, 0, 64];
        /// Duplicate requests.
        duplicate_requests set_duplicate_requests: u64 [80, 0, 64];
        /// RNR NAKs sent.
        rnr_naks_sent set_rnr_naks_sent: u64 [88, 0, 64];
        /// RNR NAKs received.
        rnr_naks_received set_rnr_naks_received: u64 [96, 0, 64];
        /// NAKs sent.
        naks_sent set_naks_sent: u64 [104, 0, 64];
        /// NAKs received.
        naks_received set_naks_received: u64 [112, 0, 64];
        /// Acknowledge timeouts.
        ack_timeouts set_ack_timeouts: u64 [120, 0, 64];
        /// Packets sent again.
        retransmitted_packets set_retransmitted_packets: u64 [128, 0, 64];
        /// Packets to a QP that did not come from its peer: LID or GIDs are not its path's.
        bad_sources set_bad_sources: u64 [136, 0, 64] "QPS-17";
        /// Packets of connected QPs that came with a congestion mark.
        np_ecn_marked_roce_packets set_np_ecn_marked_roce_packets: u64 [144, 0, 64];
        /// CNPs sent.
        np_cnp_sent set_np_cnp_sent: u64 [152, 0, 64];
        /// CNPs received for a QP, from its peer.
        rp_cnp_handled set_rp_cnp_handled: u64 [160, 0, 64];
        /// Datagrams for a QP1 that had no receive for them.
        qp1_drops set_qp1_drops: u64 [168, 0, 64] "STAT";
        /// Packets that no QP takes: none has the number, receives in its state, and is of the service; datagrams that
        /// are no SENDs, or longer than the port can carry.
        stray_packets set_stray_packets: u64 [176, 0, 64] "SYS-7";
        /// Datagrams for a QP, not QP1, that had no receive for them.
        datagrams_without_receive set_datagrams_without_receive: u64 [184, 0, 64] "XPORT-4";
        /// Packets and frames that sniffers did not get because the receive buffer was filling up.
        sniffer_drops set_sniffer_drops: u64 [192, 0, 64] "V-155";
    }
}

layout! {
    /// QUERY_RULE: frames that the rule had, whatever became of them.
    QueryRuleResult("query_rule_result", 244, Software) {
        /// Frames.
        packets set_packets: u64 [0, 0, 64] "V-85";
        /// Their bytes, without the FCS.
        bytes set_bytes: u64 [8, 0, 64] "V-85";
    }
}

layout! {
    /// Completion body of QUERY_FIRMWARE.
    QueryFirmwareResult("query_firmware_result", 244, Software) {
        /// It runs on the card's own processor, from an image; otherwise it is a part of the simulator.
        on_core set_on_core: bool [0, 0, 1];
        /// It can be replaced: the board has slots.
        is_updatable set_is_updatable: bool [0, 1, 1];
        /// Slot that runs; SLOT_NONE: none.
        running set_running: u8 [1, 0, 8];
        /// Slot to be tried at the next start; SLOT_NONE: none.
        next set_next: u8 [2, 0, 8];
        /// Version that runs: major, minor, patch in bits 31:16, 15:8, 7:0.
        version set_version: u32 [4, 0, 32];
        /// SHA-256 of the image that runs, with its own field zero.
        digest set_digest: [u8; 32] [8, 0, 256];
        /// A board_slot for each slot.
        slots set_slots: [u8; 128] [40, 0, 1024];
        /// Images of an epoch before this one do not start on this board.
        epoch set_epoch: u32 [168, 0, 32];
        /// What images have to be made for (image_head.hardware).
        hardware set_hardware: u32 [172, 0, 32];
        /// Ed25519 key that images have to be signed with.
        public_key set_public_key: [u8; 32] [176, 0, 256];
    }
}
