//! Admin queue: commands and completions of 256 bytes, and the bodies of the commands that create and change
//! objects. Bodies start at byte 8; offsets in their tables count from there.

use crate::table::{StructDef, layout};

/// Tables of this module.
pub const STRUCTS: &[&StructDef] = &[
    &AdminCmd::TABLE,
    &AdminCpl::TABLE,
    &HandleCmd::TABLE,
    &HandleResult::TABLE,
    &ModifyPortCmd::TABLE,
    &SetGidCmd::TABLE,
    &SetPkeyCmd::TABLE,
    &SetNodeDescCmd::TABLE,
    &CreateEqCmd::TABLE,
    &CreateCqCmd::TABLE,
    &ResizeCqCmd::TABLE,
    &ModifyCqCmd::TABLE,
    &CreateQpCmd::TABLE,
    &McastCmd::TABLE,
    &CreateRuleCmd::TABLE,
    &CreateRssCmd::TABLE,
    &AhAttr::TABLE,
    &QpAttr::TABLE,
    &ModifyQpCmd::TABLE,
    &SetKeyTableCmd::TABLE,
    &SetContextMemoryCmd::TABLE,
    &RegMrCmd::TABLE,
    &AllocDmCmd::TABLE,
    &CopyDmCmd::TABLE,
    &WriteFirmwareCmd::TABLE,
    &ActivateFirmwareCmd::TABLE,
    &AllocMwCmd::TABLE,
    &RegMrResult::TABLE,
    &ModifyMrCmd::TABLE,
    &CreateSrqCmd::TABLE,
    &ModifySrqCmd::TABLE,
];

layout! {
    /// Entry of the admin send ring.
    AdminCmd("admin_cmd", 256, Software) {
        /// admin_opcode.
        opcode set_opcode: u8 [0, 0, 8];
        /// Returned in the completion.
        command_id set_command_id: u16 [2, 0, 16];
        /// Body, by opcode.
        body set_body: [u8; 248] [8, 0, 1984];
    }
}

layout! {
    /// Entry of the admin completion ring.
    AdminCpl("admin_cpl", 256, Software) {
        /// admin_status.
        status set_status: u8 [0, 0, 8];
        /// command_id of the command.
        command_id set_command_id: u16 [2, 0, 16];
        /// Number of the argument or object that the status is about; 0 if none.
        detail set_detail: u32 [4, 0, 32];
        /// Body, by opcode of the command.
        body set_body: [u8; 244] [8, 0, 1952];
        /// 1 on the first pass over a zeroed ring, toggles with each pass. Written last.
        phase set_phase: bool [252, 0, 1];
    }
}

layout! {
    /// Body of commands that name one object.
    HandleCmd("handle_cmd", 248, Software) {
        /// Number of the object: PD, EQN, CQN, QPN, SRQN, AH or L_Key.
        handle set_handle: u32 [0, 0, 32];
    }
}

layout! {
    /// Completion body of commands that make one object.
    HandleResult("handle_result", 244, Software) {
        /// Number of the object: PD, EQN, CQN, QPN, SRQN or AH.
        handle set_handle: u32 [0, 0, 32];
        /// CREATE_SRQ of XRC: what peers name it.
        number set_number: u32 [4, 0, 24] "SPEC-3";
    }
}

layout! {
    /// MODIFY_PORT.
    ModifyPortCmd("modify_port_cmd", 248, Software) {
        /// Port, from 1.
        port_num set_port_num: u8 [0, 0, 8];
        /// link_layer: the personality of the port.
        link_layer set_link_layer: u8 [1, 0, 8] "SYS-3";
        /// Port takes part in traffic.
        enable set_enable: bool [2, 0, 1];
        /// A subnet manager runs at the port.
        is_sm set_is_sm: bool [2, 1, 1] "MGMT-9";
        /// LID mask control.
        lmc set_lmc: u8 [3, 0, 3] "ADDR-3";
        /// port_attr bits: what to change.
        attr_mask set_attr_mask: u32 [4, 0, 32];
        /// LID.
        lid set_lid: u16 [8, 0, 16] "ADDR-2";
        /// mtu.
        mtu set_mtu: u8 [10, 0, 3];
        /// MAC address, bytes as on the wire.
        mac set_mac: [u8; 6] [12, 0, 48];
    }
}

layout! {
    /// SET_GID.
    SetGidCmd("set_gid_cmd", 248, Software) {
        /// Port, from 1.
        port_num set_port_num: u8 [0, 0, 8];
        /// Entry.
        index set_index: u16 [2, 0, 16] "ADDR-6";
        /// GID, bytes as on the wire; all zero clears the entry.
        gid set_gid: [u8; 16] [8, 0, 128];
    }
}

layout! {
    /// SET_PKEY.
    SetPkeyCmd("set_pkey_cmd", 248, Software) {
        /// Port, from 1.
        port_num set_port_num: u8 [0, 0, 8];
        /// Entry.
        index set_index: u16 [2, 0, 16] "KEY-11";
        /// P_Key; low 15 bits zero clears the entry.
        pkey set_pkey: u16 [4, 0, 16] "KEY-9";
    }
}

layout! {
    /// SET_NODE_DESC.
    SetNodeDescCmd("set_node_desc_cmd", 248, Software) {
        /// Text; zeros behind it.
        text set_text: [u8; 64] [0, 0, 512] "MGMT-13";
    }
}

layout! {
    /// CREATE_EQ.
    CreateEqCmd("create_eq_cmd", 248, Software) {
        /// Bus address of the zeroed ring, 64-byte aligned.
        base set_base: u64 [0, 0, 64];
        /// log2 of the entries.
        log_size set_log_size: u8 [8, 0, 8];
        /// MSI-X vector of the function.
        vector set_vector: u16 [10, 0, 16];
        /// Events of ports go here, too.
        port_events set_port_events: bool [12, 0, 1] "EVT-1";
    }
}

layout! {
    /// CREATE_CQ.
    CreateCqCmd("create_cq_cmd", 248, Software) {
        /// Bus address of the zeroed ring, 64-byte aligned.
        base set_base: u64 [0, 0, 64];
        /// log2 of the entries.
        log_size set_log_size: u8 [8, 0, 8] "V-55";
        /// Event queue for completion events.
        eqn set_eqn: u8 [9, 0, 8];
        /// A full ring is overwritten, without an error.
        ignore_overrun set_ignore_overrun: bool [10, 0, 1] "V-58";
    }
}

layout! {
    /// MODIFY_CQ: when an armed queue has what it was armed for, its event comes with the count-th completion, or so
    /// long after the first one; at once if either is 0.
    ModifyCqCmd("modify_cq_cmd", 248, Software) {
        /// CQ.
        cqn set_cqn: u32 [0, 0, 24];
        /// Completions.
        count set_count: u16 [4, 0, 16] "V-64";
        /// Microseconds.
        period_us set_period_us: u16 [6, 0, 16] "V-64";
    }
}

layout! {
    /// RESIZE_CQ. When it completes, all CQEs for the old ring are in it, and every further one goes to the new ring,
    /// at the index that the free-running one gives there. Software moves what it has not consumed.
    ResizeCqCmd("resize_cq_cmd", 248, Software) {
        /// Bus address of the new ring, 64-byte aligned, its phase bits set for nothing to be there.
        base set_base: u64 [0, 0, 64];
        /// log2 of its entries, not less than before.
        log_size set_log_size: u8 [8, 0, 8] "V-63";
        /// CQ.
        cqn set_cqn: u32 [12, 0, 24];
    }
}

layout! {
    /// CREATE_QP.
    CreateQpCmd("create_qp_cmd", 248, Software) {
        /// service.
        service set_service: u8 [0, 0, 8] "V-110";
        /// Every send WQE makes a CQE.
        sq_sig_all set_sq_sig_all: bool [1, 0, 1] "V-112";
        /// Receives come from SRQ srqn.
        has_srq set_has_srq: bool [1, 1, 1] "SPEC-9";
        /// QP1 of its port: one of the function for general management datagrams.
        is_gsi set_is_gsi: bool [1, 2, 1] "MGMT-4";
        /// QP0 of its port, an InfiniBand one, for subnet management datagrams: of the first function alone.
        is_smi set_is_smi: bool [1, 3, 1] "MGMT-2";
        /// A target of XRC: it receives into the XRC SRQs of domain xrcd, and has neither PD, CQs nor rings.
        is_target set_is_target: bool [1, 4, 1] "SPEC-3";
        /// log2 of the entries of the send ring.
        sq_log_size set_sq_log_size: u8 [2, 0, 8];
        /// Send WQE stride is 64 << this.
        sq_log_stride set_sq_log_stride: u8 [3, 0, 8];
        /// log2 of the entries of the receive ring.
        rq_log_size set_rq_log_size: u8 [4, 0, 8];
        /// Receive WQE stride is 64 << this.
        rq_log_stride set_rq_log_stride: u8 [5, 0, 8];
        /// Protection domain.
        pd set_pd: u32 [8, 0, 24];
        /// CQ of the send queue.
        send_cqn set_send_cqn: u32 [12, 0, 24];
        /// CQ of the receive queue.
        recv_cqn set_recv_cqn: u32 [16, 0, 24];
        /// Shared receive queue.
        srqn set_srqn: u32 [20, 0, 24];
        /// Bus address of the send ring, aligned to 64 bytes.
        sq_base set_sq_base: u64 [24, 0, 64];
        /// Bus address of the receive ring, aligned to 64 bytes.
        rq_base set_rq_base: u64 [32, 0, 64];
        /// XRC domain.
        xrcd set_xrcd: u32 [40, 0, 24];
        /// QP create flags of ibv_create_qp_ex.
        create_flags set_create_flags: u32 [44, 0, 32] "V-114";
        /// EQ that asynchronous events of this QP go to.
        async_eqn set_async_eqn: u8 [48, 0, 8] "V-47";
    }
}

layout! {
    /// ATTACH_MCAST, DETACH_MCAST.
    McastCmd("mcast_cmd", 248, Software) {
        /// A QP of datagrams.
        qpn set_qpn: u32 [0, 0, 24] "MC-1";
        /// The group, bytes as on the wire; first byte 0xff, or ::ffff:224.0.0.0/4.
        mgid set_mgid: [u8; 16] [16, 0, 128] "ADDR-13";
    }
}

layout! {
    /// CREATE_RULE: of function 0 alone. Rules of the same rank do not shut each other out: each gets a copy.
    CreateRuleCmd("create_rule_cmd", 248, Software) {
        /// A raw QP. With `spreads`: the handle of CREATE_RSS.
        qpn set_qpn: u32 [0, 0, 24] "V-155";
        /// rule_kind.
        kind set_kind: u8 [4, 0, 8] "V-155";
        /// Port, from 1: that of the QP.
        port_num set_port_num: u8 [5, 0, 8] "V-155";
        /// The smaller goes first.
        priority set_priority: u16 [6, 0, 16] "V-155";
        /// Frames go to rules of lower rank, too (DONT_TRAP): NORMAL only.
        goes_on set_goes_on: bool [8, 0, 1] "V-155";
        /// Frames go to nobody.
        drops set_drops: bool [8, 1, 1] "V-155";
        /// To one of the QPs of an indirection table.
        spreads set_spreads: bool [8, 2, 1] "V-114";
        /// Goes into imm_data of completions.
        tag set_tag: u32 [12, 0, 32] "V-155";
        /// NORMAL: what the masked rule_key of a frame is.
        value set_value: [u8; 64] [16, 0, 512] "V-155";
        /// NORMAL: bits of the key that count.
        mask set_mask: [u8; 64] [80, 0, 512] "V-155";
    }
}

layout! {
    /// CREATE_RSS: of function 0 alone. A QP that is destroyed leaves a number in the table that is nobody's.
    CreateRssCmd("create_rss_cmd", 248, Software) {
        /// rx_hash_fields.
        fields set_fields: u8 [0, 0, 8] "V-95";
        /// Entries of the indirection table, logarithm to base 2; RSS_ENTRIES at most.
        log_size set_log_size: u8 [1, 0, 8] "V-93";
        /// Protection domain that all of its QPs are of.
        pd set_pd: u32 [4, 0, 24] "MEM-1";
        /// Toeplitz key.
        key set_key: [u8; 40] [8, 0, 320] "V-95";
        /// Indirection table: three bytes each, the least significant first, QPNs of raw QPs.
        qpns set_qpns: [u8; 192] [48, 0, 1536] "V-93";
    }
}

layout! {
    /// Address vector: ibv_ah_attr and the destination MAC address.
    AhAttr("ah_attr", 40, Software) {
        /// Destination GID, bytes as on the wire.
        dgid set_dgid: [u8; 16] [0, 0, 128] "ADDR-13";
        /// Flow label.
        flow_label set_flow_label: u32 [16, 0, 20] "WIRE-18";
        /// Index of the source GID.
        sgid_index set_sgid_index: u8 [20, 0, 8] "ADDR-13";
        /// Hop limit.
        hop_limit set_hop_limit: u8 [21, 0, 8] "WIRE-18";
        /// Traffic class.
        traffic_class set_traffic_class: u8 [22, 0, 8] "WIRE-18";
        /// The GRH fields count.
        is_global set_is_global: bool [23, 0, 1] "ADDR-13";
        /// Destination LID.
        dlid set_dlid: u16 [24, 0, 16] "ADDR-10";
        /// Service level.
        sl set_sl: u8 [26, 0, 4] "ADDR-13";
        /// Source path bits.
        src_path_bits set_src_path_bits: u8 [27, 0, 7] "ADDR-4";
        /// Static rate.
        static_rate set_static_rate: u8 [28, 0, 8] "RATE-5";
        /// Port, from 1.
        port_num set_port_num: u8 [29, 0, 8] "ADDR-13";
        /// Destination MAC address (RoCE), bytes as on the wire.
        dmac set_dmac: [u8; 6] [30, 0, 48];
    }
}

layout! {
    /// Attributes of a QP: ibv_qp_attr.
    QpAttr("qp_attr_body", 176, Software) {
        /// qp_state.
        qp_state set_qp_state: u8 [0, 0, 8] "QPS-15";
        /// qp_state the caller assumes.
        cur_qp_state set_cur_qp_state: u8 [1, 0, 8] "QPS-15";
        /// mtu.
        path_mtu set_path_mtu: u8 [2, 0, 8] "WIRE-10";
        /// path_mig_state.
        path_mig_state set_path_mig_state: u8 [3, 0, 8] "APM-4";
        /// Q_Key.
        qkey set_qkey: u32 [4, 0, 32];
        /// First expected PSN.
        rq_psn set_rq_psn: u32 [8, 0, 24] "WIRE-21";
        /// First send PSN.
        sq_psn set_sq_psn: u32 [12, 0, 24] "WIRE-21";
        /// QP at the peer.
        dest_qp_num set_dest_qp_num: u32 [16, 0, 24] "QPS-17";
        /// access bits REMOTE_WRITE, REMOTE_READ, REMOTE_ATOMIC, FLUSH_GLOBAL; RELAXED_ORDERING, on RC and with a peer
        /// that has it: WRITEs may pass one another, and what is lost of them is sent again alone; NO_CREDITS.
        qp_access_flags set_qp_access_flags: u32 [20, 0, 32];
        /// Send WQEs.
        max_send_wr set_max_send_wr: u32 [24, 0, 32] "V-111";
        /// Receive WQEs.
        max_recv_wr set_max_recv_wr: u32 [28, 0, 32] "V-111";
        /// Entries of a send WQE.
        max_send_sge set_max_send_sge: u32 [32, 0, 32] "V-111";
        /// Entries of a receive WQE.
        max_recv_sge set_max_recv_sge: u32 [36, 0, 32] "V-111";
        /// Inline bytes.
        max_inline_data set_max_inline_data: u32 [40, 0, 32] "V-111";
        /// ah_attr of the primary path.
        ah_attr set_ah_attr: [u8; 40] [44, 0, 320];
        /// ah_attr of the alternate path.
        alt_ah_attr set_alt_ah_attr: [u8; 40] [84, 0, 320] "APM-4";
        /// Index into the port's P_Key table.
        pkey_index set_pkey_index: u16 [124, 0, 16] "KEY-12";
        /// P_Key index of the alternate path.
        alt_pkey_index set_alt_pkey_index: u16 [126, 0, 16] "KEY-18";
        /// Ask for SQ_DRAINED.
        en_sqd_async_notify set_en_sqd_async_notify: bool [128, 0, 1] "QPS-11";
        /// Query only: in SQD and not yet drained.
        sq_draining set_sq_draining: bool [128, 1, 1] "QPS-10";
        /// READs and atomics outstanding as requester.
        max_rd_atomic set_max_rd_atomic: u8 [129, 0, 8];
        /// READs and atomics the peer may have outstanding here.
        max_dest_rd_atomic set_max_dest_rd_atomic: u8 [130, 0, 8];
        /// RNR timer code.
        min_rnr_timer set_min_rnr_timer: u8 [131, 0, 8] "REL-11";
        /// Port, from 1.
        port_num set_port_num: u8 [132, 0, 8];
        /// Acknowledge timeout code.
        timeout set_timeout: u8 [133, 0, 8] "REL-6";
        /// Retries after timeout or sequence NAK.
        retry_cnt set_retry_cnt: u8 [134, 0, 8];
        /// Retries after RNR NAK; 7 = without end.
        rnr_retry set_rnr_retry: u8 [135, 0, 8];
        /// Port of the alternate path.
        alt_port_num set_alt_port_num: u8 [136, 0, 8] "APM-4";
        /// Timeout code of the alternate path.
        alt_timeout set_alt_timeout: u8 [137, 0, 8] "APM-4";
        /// RoCEv2 UDP source port; 0: firmware chooses.
        udp_src_port set_udp_src_port: u16 [138, 0, 16];
        /// Pacing in kbit/s, 0 = none.
        rate_limit set_rate_limit: u32 [140, 0, 32] "RATE-6";
    }
}

layout! {
    /// MODIFY_QP.
    ModifyQpCmd("modify_qp_cmd", 248, Software) {
        /// QP.
        qpn set_qpn: u32 [0, 0, 24];
        /// qp_attr bits: what to change.
        attr_mask set_attr_mask: u32 [4, 0, 32] "QPS-18";
        /// qp_attr_body.
        attr set_attr: [u8; 176] [8, 0, 1408];
    }
}

layout! {
    /// REG_MR.
    RegMrCmd("reg_mr_cmd", 248, Software) {
        /// Protection domain.
        pd set_pd: u32 [0, 0, 24];
        /// access bits.
        access set_access: u32 [4, 0, 32] "V-130";
        /// First virtual address.
        start set_start: u64 [8, 0, 64];
        /// Bytes, at least 1.
        length set_length: u64 [16, 0, 64] "V-130";
        /// Direct: bus address of start.
        iova set_iova: u64 [24, 0, 64];
        /// Bus address of a list of u64 page bus addresses.
        page_list_addr set_page_list_addr: u64 [32, 0, 64];
        /// Entries of the list.
        num_pages set_num_pages: u32 [40, 0, 32];
        /// Page size is 1 << this, 12..=30; 63: direct, one contiguous bus range, no list.
        page_shift set_page_shift: u8 [44, 0, 8];
        /// Row of the key table, not 0 and not in use.
        row set_row: u32 [48, 0, 32];
        /// Null region: access LOCAL_WRITE, direct, of NULL_PAGES pages of 4 KiB of zeros at iova; start is 0.
        is_null set_is_null: bool [52, 0, 1] "V-133";
        /// A key for fast registration: not valid, until a work request says of what. num_pages: how many it may touch;
        /// the rest is of a region that has so many.
        is_fast set_is_fast: bool [52, 1, 1] "MEM-16";
    }
}

layout! {
    /// ALLOC_MW: a memory window, which is not bound.
    AllocMwCmd("alloc_mw_cmd", 248, Software) {
        /// Protection domain.
        pd set_pd: u32 [0, 0, 24] "V-135";
        /// It is of type 2B.
        is_type_2 set_is_type_2: bool [4, 0, 1] "V-135";
        /// Row of the key table, not 0 and not in use.
        row set_row: u32 [8, 0, 32];
    }
}

layout! {
    /// SET_KEY_TABLE: where the function's keys are from now on. One that there was before is part of it, row by row.
    SetKeyTableCmd("set_key_table_cmd", 248, Software) {
        /// Bus address of row 0, a multiple of 64. Rows that were never used are zero.
        base set_base: u64 [0, 0, 64];
        /// log2 of the rows, at most MAX_LOG_KEYS and not less than before.
        log_size set_log_size: u8 [8, 0, 8];
    }
}

layout! {
    /// SET_CONTEXT_MEMORY, function 0's: where QPs of the card rest that have no line; before there are QPs.
    SetContextMemoryCmd("set_context_memory_cmd", 248, Software) {
        /// Bus address, a multiple of 256.
        base set_base: u64 [0, 0, 64];
        /// Bytes: 1 << query_device_result.log_context_bytes at least.
        bytes set_bytes: u64 [8, 0, 64];
    }
}

layout! {
    /// Completion body of REG_MR.
    RegMrResult("reg_mr_result", 244, Software) {
        /// L_Key, also the handle of the region.
        lkey set_lkey: u32 [0, 0, 32];
        /// R_Key.
        rkey set_rkey: u32 [4, 0, 32];
    }
}

layout! {
    /// MODIFY_MR: the region's keys and translation stay.
    ModifyMrCmd("modify_mr_cmd", 248, Software) {
        /// L_Key of the region.
        lkey set_lkey: u32 [0, 0, 32] "V-131";
        /// Protection domain from now on.
        pd set_pd: u32 [4, 0, 24] "V-131";
        /// access bits from now on.
        access set_access: u32 [8, 0, 32] "V-131";
    }
}

layout! {
    /// CREATE_SRQ.
    CreateSrqCmd("create_srq_cmd", 248, Software) {
        /// Protection domain.
        pd set_pd: u32 [0, 0, 24];
        /// Bus address of the slots, a multiple of the stride: slot n is at base + n * stride.
        base set_base: u64 [8, 0, 64];
        /// log2 of the slots, each of which holds a WQE whose wqe_index is the slot's number.
        log_size set_log_size: u8 [16, 0, 8];
        /// WQE stride is 64 << this.
        log_stride set_log_stride: u8 [17, 0, 8];
        /// The SRQ is for XRC.
        is_xrc set_is_xrc: bool [18, 0, 1];
        /// EQ for the asynchronous events of this SRQ.
        async_eqn set_async_eqn: u8 [19, 0, 8];
        /// XRC domain.
        xrcd set_xrcd: u32 [24, 0, 24];
        /// CQ of an XRC SRQ.
        cqn set_cqn: u32 [28, 0, 24];
        /// Bus address of the list, a multiple of 64: a ring of the posted slots' numbers, 16 bits each, as many as
        /// there are slots but at least SRQ_LINE_ENTRIES.
        list_base set_list_base: u64 [32, 0, 64];
    }
}

layout! {
    /// MODIFY_SRQ.
    ModifySrqCmd("modify_srq_cmd", 248, Software) {
        /// SRQ.
        srqn set_srqn: u32 [0, 0, 24];
        /// New limit: SRQ_LIMIT_REACHED is raised once when fewer WQEs are posted, at once if so now; 0: never.
        limit set_limit: u32 [4, 0, 32];
    }
}

layout! {
    /// WRITE_FIRMWARE. Offset 0 erases what was in the slot; the pieces follow each other.
    WriteFirmwareCmd("write_firmware_cmd", 248, Software) {
        /// Bus address of the piece, a multiple of 64.
        addr set_addr: u64 [0, 0, 64];
        /// Where in the slot it goes, a multiple of 64.
        offset set_offset: u32 [8, 0, 32];
        /// Its bytes, a multiple of 64, FIRMWARE_CHUNK_BYTES at most.
        bytes set_bytes: u32 [12, 0, 32];
    }
}

layout! {
    /// ALLOC_DM. The handle is the number of its first page, from which its bus addresses follow: page n of the card is
    /// at n * DM_PAGE_BYTES behind DM_BUS_HIGH.
    AllocDmCmd("alloc_dm_cmd", 248, Software) {
        /// Bytes; whole pages are given.
        length set_length: u32 [0, 0, 32] "V-77";
    }
}

layout! {
    /// COPY_DM: a piece of host memory to device memory, or back. Bus address and offset have the same remainder by 64.
    CopyDmCmd("copy_dm_cmd", 248, Software) {
        /// Bus address of the piece in host memory.
        addr set_addr: u64 [0, 0, 64];
        /// What ALLOC_DM gave.
        handle set_handle: u32 [8, 0, 32] "V-79";
        /// Where it begins there.
        offset set_offset: u32 [12, 0, 32];
        /// Bytes, DM_COPY_BYTES at most with the remainder. To the host whole lines of 64 bytes are written.
        bytes set_bytes: u32 [16, 0, 32];
        /// From device memory to the host, not from there.
        to_host set_to_host: bool [20, 0, 1];
    }
}

layout! {
    /// ACTIVATE_FIRMWARE.
    ActivateFirmwareCmd("activate_firmware_cmd", 248, Software) {
        /// Start anew at once, when the answer is there: functions in use have to be reset.
        restart set_restart: bool [0, 0, 1];
    }
}
