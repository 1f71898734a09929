//! Commands of the admin queue.

use crate::table::abi_enum;

abi_enum! {
    /// Admin commands.
AdminOpcode("admin_opcode", "AdminOp", 8, Software) {
        /// Nothing.
        Nop = 0,
        /// Limits of the card: query_device_result.
        QueryDevice = 1,
        /// State of a port: query_port_cmd, query_port_result.
        QueryPort = 2,
        /// Configure a port: modify_port_cmd.
        ModifyPort = 3,
        /// Set a GID table entry: set_gid_cmd.
        SetGid = 4,
        /// Set a P_Key table entry: set_pkey_cmd.
        SetPkey = 5,
        /// Allocate a protection domain: handle_result.
        AllocPd = 6,
        /// Free a protection domain: handle_cmd.
        DeallocPd = 7,
        /// Create an event queue: create_eq_cmd, handle_result.
        CreateEq = 8,
        /// Destroy an event queue: handle_cmd.
        DestroyEq = 9,
        /// Create a completion queue: create_cq_cmd, handle_result.
        CreateCq = 10,
        /// Destroy a completion queue: handle_cmd.
        DestroyCq = 11,
        /// Create a QP: create_qp_cmd, handle_result.
        CreateQp = 12,
        /// Change a QP: modify_qp_cmd.
        ModifyQp = 13,
        /// Read a QP: handle_cmd, query_qp_result.
        QueryQp = 14,
        /// Destroy a QP: handle_cmd.
        DestroyQp = 15,
        /// Register memory: reg_mr_cmd, reg_mr_result.
        RegMr = 16,
        /// Deregister memory: handle_cmd with the L_Key.
        DeregMr = 17,
        /// Read a region: handle_cmd with the L_Key, query_mr_result.
        QueryMr = 18,
        /// Create a shared receive queue: create_srq_cmd, handle_result.
        CreateSrq = 21,
        /// Change a shared receive queue: modify_srq_cmd.
        ModifySrq = 22,
        /// Read a shared receive queue: handle_cmd, query_srq_result.
        QuerySrq = 23,
        /// Destroy a shared receive queue: handle_cmd.
        DestroySrq = 24,
        /// Counters of a port: query_port_cmd, query_counters_result.
        QueryCounters = 25,
        /// Free everything the function owns.
        ResetFunc = 26,
        /// Read a GID table entry: query_entry_cmd, query_gid_result.
        QueryGid = 27,
        /// Read a P_Key table entry: query_entry_cmd, query_pkey_result.
        QueryPkey = 28,
        /// Configure a link: set_link_cmd.
        SetLink = 29,
        /// State and configuration of a link: query_port_cmd, query_link_result.
        QueryLink = 30,
        /// Replace a VL arbitration table: vl_arb_cmd.
        SetVlArb = 31,
        /// Read a VL arbitration table: vl_arb_cmd, vl_arb_result.
        QueryVlArb = 32,
        /// Replace the SL to VL table: set_sl2vl_cmd.
        SetSl2vl = 33,
        /// Credits, rings and counters of VLs: query_vl_counters_cmd, query_vl_counters_result.
        QueryVlCounters = 34,
        /// Error counters of a link: query_port_cmd, query_link_errors_result.
        QueryLinkErrors = 35,
        /// Change rights and protection domain of a region, which keeps its keys: modify_mr_cmd.
        ModifyMr = 36,
        /// Give a completion queue a larger ring: resize_cq_cmd.
        ResizeCq = 37,
        /// MAC address behind a GID, as a path to it would get it: resolve_gid_cmd, resolve_gid_result.
        ResolveGid = 38,
        /// Where the function's memory keys are: set_key_table_cmd.
        SetKeyTable = 39,
        /// A QP gets what comes for a multicast group: mcast_cmd.
        AttachMcast = 40,
        /// It no longer does: mcast_cmd.
        DetachMcast = 41,
        /// Allocate a memory window: alloc_mw_cmd, handle_result with its first R_Key.
        AllocMw = 42,
        /// Free a memory window, bound or not: handle_cmd with any of its R_Keys.
        DeallocMw = 43,
        /// Allocate an XRC domain: handle_result.
        AllocXrcd = 44,
        /// Free an XRC domain: handle_cmd.
        DeallocXrcd = 45,
        /// Frames that match go to a raw QP: create_rule_cmd, handle_result.
        CreateRule = 46,
        /// They no longer do: handle_cmd.
        DestroyRule = 47,
        /// Congestion control of a port: congestion_cmd.
        SetCongestion = 48,
        /// The same: query_port_cmd, congestion_result.
        QueryCongestion = 49,
        /// Pauses of each priority of an Ethernet port: query_port_cmd, query_pfc_counters_result.
        QueryPfcCounters = 50,
        /// Give the card another NodeDescription: set_node_desc_cmd.
        SetNodeDesc = 51,
        /// Its NodeDescription: query_node_desc_result.
        QueryNodeDesc = 52,
        /// Firmware that runs, and what is in the board's slots: query_firmware_result.
        QueryFirmware = 53,
        /// What the neighbour on an Ethernet link says of itself (LLDP): query_lldp_cmd, query_lldp_result.
        QueryLldp = 54,
        /// A piece of an image for the slot that does not run: write_firmware_cmd.
        WriteFirmware = 55,
        /// The image in that slot is tried at the next start: activate_firmware_cmd.
        ActivateFirmware = 56,
        /// A target of rules that spreads frames over raw QPs: create_rss_cmd, handle_result.
        CreateRss = 57,
        /// It is gone: handle_cmd.
        DestroyRss = 58,
        /// What a rule has had since it was made: handle_cmd, query_rule_result.
        QueryRule = 59,
        /// Moderation of a completion queue's events: modify_cq_cmd.
        ModifyCq = 60,
        /// Allocate device memory: alloc_dm_cmd, handle_result.
        AllocDm = 61,
        /// Free it: handle_cmd.
        FreeDm = 62,
        /// Copy between it and host memory: copy_dm_cmd.
        CopyDm = 63,
        /// Where QPs rest that have no line: set_context_memory_cmd.
        SetContextMemory = 64,
    }
}
