//! Mask bits.

use crate::table::{FlagsDef, abi_flags};

/// Tables of this module.
pub const FLAGS: &[&FlagsDef] = &[
    &qp_attr::TABLE,
    &access::TABLE,
    &device_cap::TABLE,
    &rx_hash::TABLE,
    &port_cap::TABLE,
    &port_cap2::TABLE,
    &wc_flag::TABLE,
    &port_attr::TABLE,
    &link_attr::TABLE,
    &feature::TABLE,
];

abi_flags! {
    /// Attributes of MODIFY_QP: the bits of ibv_qp_attr_mask.
    qp_attr: u32, Software {
        /// qp_state.
        STATE = 0,
        /// cur_qp_state.
        CUR_STATE = 1,
        /// en_sqd_async_notify.
        EN_SQD_ASYNC_NOTIFY = 2,
        /// qp_access_flags.
        ACCESS_FLAGS = 3,
        /// pkey_index.
        PKEY_INDEX = 4,
        /// port_num.
        PORT = 5,
        /// qkey.
        QKEY = 6,
        /// ah_attr.
        AV = 7,
        /// path_mtu.
        PATH_MTU = 8,
        /// timeout.
        TIMEOUT = 9,
        /// retry_cnt.
        RETRY_CNT = 10,
        /// rnr_retry.
        RNR_RETRY = 11,
        /// rq_psn.
        RQ_PSN = 12,
        /// max_rd_atomic.
        MAX_QP_RD_ATOMIC = 13,
        /// alt_ah_attr, alt_pkey_index, alt_port_num, alt_timeout.
        ALT_PATH = 14,
        /// min_rnr_timer.
        MIN_RNR_TIMER = 15,
        /// sq_psn.
        SQ_PSN = 16,
        /// max_dest_rd_atomic.
        MAX_DEST_RD_ATOMIC = 17,
        /// path_mig_state.
        PATH_MIG_STATE = 18,
        /// max_send_wr, max_recv_wr, max_send_sge, max_recv_sge, max_inline_data.
        CAP = 19,
        /// dest_qp_num.
        DEST_QPN = 20,
        /// rate_limit.
        RATE_LIMIT = 25,
    }
}

abi_flags! {
    /// Access rights: the bits of ibv_access_flags.
    access: u32, Hardware {
        /// The card may write for local operations.
        LOCAL_WRITE = 0,
        /// Peer may RDMA WRITE.
        REMOTE_WRITE = 1,
        /// Peer may RDMA READ.
        REMOTE_READ = 2,
        /// Peer may use atomics.
        REMOTE_ATOMIC = 3,
        /// Windows may be bound to it.
        MW_BIND = 4,
        /// Addresses count from 0 at the start of the region.
        ZERO_BASED = 5,
        /// Pages on demand.
        ON_DEMAND = 6,
        /// Huge pages.
        HUGETLB = 7,
        /// Peer may FLUSH, so that all can see what it has written.
        FLUSH_GLOBAL = 8,
        /// Peer may FLUSH, so that what it has written outlives a loss of power. Nobody gets it.
        FLUSH_PERSISTENT = 9,
        /// A hint that writes may pass one another.
        RELAXED_ORDERING = 20,
        /// Of a QP alone, and no program's (a bit of the optional range): a connection without end-to-end credits.
        NO_CREDITS = 24,
    }
}

abi_flags! {
    /// Capabilities of the card: the bits of device_cap_flags and device_cap_flags_ex.
    device_cap: u64, Software {
        /// Rings can be resized.
        RESIZE_MAX_WR = 0,
        /// bad_pkey_cntr is kept.
        BAD_PKEY_CNTR = 1,
        /// qkey_viol_cntr is kept.
        BAD_QKEY_CNTR = 2,
        /// Raw multicast.
        RAW_MULTI = 3,
        /// Automatic path migration.
        AUTO_PATH_MIG = 4,
        /// The port of a QP can change in SQD.
        CHANGE_PHY_PORT = 5,
        /// The port of an address handle is checked.
        UD_AV_PORT_ENFORCE = 6,
        /// cur_qp_state is honoured.
        CURR_QP_STATE_MOD = 7,
        /// The port can be shut.
        SHUTDOWN_PORT = 8,
        /// InitType is supported.
        INIT_TYPE = 9,
        /// PORT_ACTIVE is raised.
        PORT_ACTIVE_EVENT = 10,
        /// sys_image_guid is meaningful.
        SYS_IMAGE_GUID = 11,
        /// RNR NAKs are sent.
        RC_RNR_NAK_GEN = 12,
        /// SRQs can be resized.
        SRQ_RESIZE = 13,
        /// Arming for the n-th completion.
        N_NOTIFY_CQ = 14,
        /// Memory windows.
        MEM_WINDOW = 17,
        /// IPv4 checksum offload on UD.
        UD_IP_CSUM = 18,
        /// XRC.
        XRC = 20,
        /// SEND_WITH_INV, LOCAL_INV, fast registration.
        MEM_MGT_EXTENSIONS = 21,
        /// Windows of type 2A.
        MEM_WINDOW_TYPE_2A = 23,
        /// Windows of type 2B.
        MEM_WINDOW_TYPE_2B = 24,
        /// IPv4 checksum offload on RC.
        RC_IP_CSUM = 25,
        /// IPv4 checksum offload on raw packets.
        RAW_IP_CSUM = 26,
        /// Flow steering.
        MANAGED_FLOW_STEERING = 29,
        /// Frame check sequence can be received.
        RAW_SCATTER_FCS = 34,
        /// Writes can be padded to cache lines.
        PCI_WRITE_END_PADDING = 36,
        /// FLUSH, so that all can see what was written.
        FLUSH_GLOBAL = 38,
        /// FLUSH, so that what was written outlives a loss of power.
        FLUSH_PERSISTENT = 39,
        /// ATOMIC WRITE.
        ATOMIC_WRITE = 40,
    }
}

abi_flags! {
    /// What of a frame is hashed: the bits of ibv_rx_hash_fields.
    rx_hash: u8, Hardware {
        /// IPv4 source address.
        SRC_IPV4 = 0,
        /// IPv4 destination address.
        DST_IPV4 = 1,
        /// IPv6 source address.
        SRC_IPV6 = 2,
        /// IPv6 destination address.
        DST_IPV6 = 3,
        /// Source port of TCP.
        SRC_PORT_TCP = 4,
        /// Destination port of TCP.
        DST_PORT_TCP = 5,
        /// Source port of UDP.
        SRC_PORT_UDP = 6,
        /// Destination port of UDP.
        DST_PORT_UDP = 7,
    }
}

abi_flags! {
    /// Capabilities of a port: the bits of port_cap_flags.
    port_cap: u32, Software {
        /// A subnet manager runs here.
        SM = 1,
        /// Notices.
        NOTICE = 2,
        /// Traps.
        TRAP = 3,
        /// Optional inter-packet delays.
        OPT_IPD = 4,
        /// Automatic migration.
        AUTO_MIGR = 5,
        /// SL to VL mapping.
        SL_MAP = 6,
        /// M_Key kept in NVRAM.
        MKEY_NVRAM = 7,
        /// P_Key kept in NVRAM.
        PKEY_NVRAM = 8,
        /// LED information.
        LED_INFO = 9,
        /// System image GUID.
        SYS_IMAGE_GUID = 11,
        /// P_Key switch external port trap.
        PKEY_SW_EXT_PORT_TRAP = 12,
        /// Extended speeds.
        EXTENDED_SPEEDS = 14,
        /// port_cap_flags2 is meaningful.
        CAP_MASK2 = 15,
        /// Connection management.
        CM = 16,
        /// SNMP tunnelling.
        SNMP_TUNNEL = 17,
        /// Reinitialisation.
        REINIT = 18,
        /// Device management.
        DEVICE_MGMT = 19,
        /// Vendor class.
        VENDOR_CLASS = 20,
        /// Directed route notices.
        DR_NOTICE = 21,
        /// Capability mask notices.
        CAP_MASK_NOTICE = 22,
        /// Boot management.
        BOOT_MGMT = 23,
        /// Link round-trip latency.
        LINK_LATENCY = 24,
        /// Client reregistration.
        CLIENT_REG = 25,
        /// GIDs are made from IP addresses.
        IP_BASED_GIDS = 26,
    }
}

abi_flags! {
    /// More capabilities of a port: the bits of port_cap_flags2.
    port_cap2: u32, Software {
        /// A subnet manager may set NodeDescription.
        SET_NODE_DESC = 0,
    }
}

abi_flags! {
    /// Flags of a completion: the bits of ibv_wc_flags.
    wc_flag: u8, Hardware {
        /// The first 40 bytes of the buffer are a GRH (UD only).
        GRH = 0,
        /// imm_data is immediate data.
        WITH_IMM = 1,
        /// IPv4 and TCP/UDP checksums are right.
        IP_CSUM_OK = 2,
        /// imm_data is an invalidated R_Key.
        WITH_INV = 3,
    }
}

abi_flags! {
    /// Attributes of MODIFY_PORT.
    port_attr: u32, Software {
        /// link_layer.
        LINK_LAYER = 0,
        /// enable.
        ENABLE = 1,
        /// lid.
        LID = 2,
        /// lmc.
        LMC = 3,
        /// mtu.
        MTU = 4,
        /// mac.
        MAC = 5,
        /// is_sm.
        IS_SM = 6,
    }
}

abi_flags! {
    /// Attributes of SET_LINK.
    link_attr: u32, Software {
        /// state.
        STATE = 0,
        /// op_vls.
        OP_VLS = 1,
        /// peer_vls.
        PEER_VLS = 2,
        /// policy.
        POLICY = 3,
        /// limit.
        LIMIT = 4,
        /// hoq_life.
        HOQ_LIFE = 5,
        /// pfc_enable.
        PFC_ENABLE = 6,
        /// trust.
        TRUST = 7,
        /// prio_tc, strict and tc_percent.
        ETS = 8,
        /// Priorities of the DSCPs in dscp_mask.
        DSCP = 9,
        /// lldp_tx.
        LLDP_TX = 10,
    }
}

/// The access rights that an MPT entry keeps as they are, in its byte 1; FLUSH_GLOBAL is at bit 6 there.
pub const MPT_ACCESS: u32 = 0x3f;
/// How much further up it is in the access rights.
pub const MPT_FLUSH_SHIFT: u32 = access::FLUSH_GLOBAL.trailing_zeros() - 6;

abi_flags! {
    /// What a card may be built without; everything else it always has. `HCA_FEATURES` of the RTL, `HCA_VSIM_FEATURES`.
    feature: u16, Hardware {
        /// Raw QPs: rules for frames, receive side scaling, sniffers, checksums of IP.
        RAW = 0,
        /// Congestion control, rates that a QP is held to, and RATE_GROUPS groups of static rates; for
        /// four functions or fewer there are RATE_GROUPS_LEAST without it.
        CONGESTION = 1,
        /// Shared receive queues, and XRC, which needs them.
        SRQ = 2,
        /// Work requests that change keys: windows, fast registration, invalidation.
        KEY_WR = 3,
        /// Atomics, ATOMIC WRITE and FLUSH.
        ATOMIC = 4,
        /// Device memory.
        DEVICE_MEMORY = 5,
        /// Selective repeat.
        SELECTIVE = 6,
        /// Contexts of QPs in host memory, which hardware fetches (hca_lines).
        CONTEXT_MEMORY = 7,
        /// The policy round-quantum, and VL arbitration tables of VL_ARB_ENTRIES; without it they have
        /// VL_ARB_ENTRIES_LEAST.
        ARBITRATION = 8,
    }
}
