//! Enumerations of `u8` codes.

use crate::admin_opcode::AdminOpcode;
use crate::congestion::CcAlgorithm;
use crate::link::{EthTrust, LinkPolicy};
use crate::table::{EnumDef, abi_enum};

/// Tables of this module.
pub const ENUMS: &[&EnumDef] = &[
    &WrOpcode::TABLE,
    &WcOpcode::TABLE,
    &WcStatus::TABLE,
    &QpState::TABLE,
    &Service::TABLE,
    &Mtu::TABLE,
    &PortState::TABLE,
    &OpVls::TABLE,
    &LinkPolicy::TABLE,
    &EthTrust::TABLE,
    &StaticRate::TABLE,
    &LinkLayer::TABLE,
    &PathMigState::TABLE,
    &AtomicCap::TABLE,
    &CqArm::TABLE,
    &EventKind::TABLE,
    &HwEventKind::TABLE,
    &HwEventWho::TABLE,
    &PipeMsgKind::TABLE,
    &CcAlgorithm::TABLE,
    &RuleKind::TABLE,
    &CtxTable::TABLE,
    &LineMiss::TABLE,
    &CtxCmd::TABLE,
    &DmaCmd::TABLE,
    &AdminOpcode::TABLE,
    &AdminStatus::TABLE,
    &crate::soc::SocFault::TABLE,
    &crate::soc::SlotState::TABLE,
];

abi_enum! {
    /// Send work request opcodes: the values of ibv_wr_opcode.
WrOpcode("wr_opcode", "WrOp", 8, Hardware) {
        /// RDMA WRITE.
        RdmaWrite = 0,
        /// RDMA WRITE that also consumes a receive WQE.
        RdmaWriteWithImm = 1,
        /// SEND.
        Send = 2,
        /// SEND with immediate data.
        SendWithImm = 3,
        /// RDMA READ.
        RdmaRead = 4,
        /// Compare and swap.
        AtomicCmpAndSwp = 5,
        /// Fetch and add.
        AtomicFetchAndAdd = 6,
        /// Invalidate a local key.
        LocalInv = 7,
        /// Bind a memory window.
        BindMw = 8,
        /// SEND that invalidates an R_Key at the receiver.
        SendWithInv = 9,
        /// TCP segmentation offload.
        Tso = 10,
        /// Register memory under a key that is free (IBV_WR_DRIVER1).
        RegMr = 11,
        /// Compare and swap of some bits (IB_WR_MASKED_ATOMIC_CMP_AND_SWP).
        MaskedAtomicCmpAndSwp = 12,
        /// Fetch and add by fields (IB_WR_MASKED_ATOMIC_FETCH_AND_ADD).
        MaskedAtomicFetchAndAdd = 13,
        /// What was written before can be seen by everybody, in order with READs and atomics.
        Flush = 14,
        /// 8 bytes written at once, in order with READs and atomics.
        AtomicWrite = 15,
    }
}

abi_enum! {
    /// Completion opcodes: the values of ibv_wc_opcode. Bit 7: a receive.
WcOpcode("wc_opcode", "WcOp", 8, Hardware) {
        /// SEND of any form.
        Send = 0,
        /// RDMA WRITE.
        RdmaWrite = 1,
        /// RDMA READ.
        RdmaRead = 2,
        /// Compare and swap.
        CompSwap = 3,
        /// Fetch and add.
        FetchAdd = 4,
        /// Memory window bind.
        BindMw = 5,
        /// Local invalidate.
        LocalInv = 6,
        /// FLUSH.
        Flush = 8,
        /// ATOMIC WRITE.
        AtomicWrite = 9,
        /// Fast registration.
        RegMr = 10,
        /// Masked compare and swap.
        MaskedCompSwap = 11,
        /// Masked fetch and add.
        MaskedFetchAdd = 12,
        /// Receive of a SEND.
        Recv = 128,
        /// Receive WQE consumed by RDMA WRITE with immediate.
        RecvRdmaWithImm = 129,
    }
}

abi_enum! {
    /// Completion statuses: the values of ibv_wc_status.
WcStatus("wc_status", "Wc", 8, Hardware) {
        /// Done.
        Success = 0,
        /// Message longer than the receive WQE, or longer than the port allows.
        LocLenErr = 1,
        /// Malformed WQE or operation not allowed on this QP.
        LocQpOpErr = 2,
        /// RD only.
        LocEecOpErr = 3,
        /// L_Key, protection domain, bounds or right of a local entry.
        LocProtErr = 4,
        /// Flushed: the QP was in error.
        WrFlushErr = 5,
        /// Bind refused.
        MwBindErr = 6,
        /// Response with an unexpected opcode.
        BadRespErr = 7,
        /// Responder's own memory while handling a WRITE with immediate.
        LocAccessErr = 8,
        /// Peer: invalid request.
        RemInvReqErr = 9,
        /// Peer: remote access.
        RemAccessErr = 10,
        /// Peer: remote operational.
        RemOpErr = 11,
        /// No response after all retries.
        RetryExcErr = 12,
        /// Still not ready after all RNR retries.
        RnrRetryExcErr = 13,
        /// RD only.
        LocRddViolErr = 14,
        /// RD only.
        RemInvRdReqErr = 15,
        /// Peer aborted.
        RemAbortErr = 16,
        /// RD only.
        InvEecnErr = 17,
        /// RD only.
        InvEecStateErr = 18,
        /// Device fatal.
        FatalErr = 19,
        /// Response timeout.
        RespTimeoutErr = 20,
        /// Other.
        GeneralErr = 21,
        /// Tag matching.
        TmErr = 22,
        /// Rendezvous not finished in hardware.
        TmRndvIncomplete = 23,
    }
}

abi_enum! {
    /// QP states: the values of ibv_qp_state.
QpState("qp_state", "Qps", 3, Hardware) {
        /// RESET.
        Reset = 0,
        /// INIT.
        Init = 1,
        /// Ready to receive.
        Rtr = 2,
        /// Ready to send.
        Rts = 3,
        /// Send queue drained or draining.
        Sqd = 4,
        /// Send queue error.
        Sqe = 5,
        /// Error.
        Err = 6,
    }
}

abi_enum! {
    /// Transport services: bits 7:5 of the BTH opcode.
Service("service", "Service", 3, Hardware) {
        /// Reliable connection.
        Rc = 0,
        /// Unreliable connection.
        Uc = 1,
        /// Unreliable datagram.
        Ud = 3,
        /// Extended reliable connection.
        Xrc = 5,
        /// Whole Ethernet frames. No opcode of the wire has these bits: inside the card alone.
        Raw = 7,
    }
}

abi_enum! {
    /// Path MTU: payload bytes of a packet.
Mtu("mtu", "Mtu", 3, Hardware) {
        /// 256 bytes.
        Bytes256 = 1,
        /// 512 bytes.
        Bytes512 = 2,
        /// 1024 bytes.
        Bytes1024 = 3,
        /// 2048 bytes.
        Bytes2048 = 4,
        /// 4096 bytes.
        Bytes4096 = 5,
    }
}

abi_enum! {
    /// Port states: the values of ibv_port_state.
PortState("port_state", "PortState", 3, Hardware) {
        /// Reserved.
        Nop = 0,
        /// Physical link down.
        Down = 1,
        /// Waits for the subnet manager.
        Init = 2,
        /// Configured.
        Armed = 3,
        /// In use.
        Active = 4,
        /// In use while the link recovers.
        ActiveDefer = 5,
    }
}

abi_enum! {
    /// Data VLs of a port: the codes of max_vl_num.
OpVls("op_vls", "OpVls", 3, Hardware) {
        /// VL0.
        One = 1,
        /// VL0 and VL1.
        Two = 2,
        /// VL0..VL3.
        Four = 3,
        /// VL0..VL7.
        Eight = 4,
        /// VL0..VL14.
        Fifteen = 5,
    }
}

impl OpVls {
    /// How many VLs.
    pub const fn count(self) -> u8 {
        match self {
            Self::One => 1,
            Self::Two => 2,
            Self::Four => 4,
            Self::Eight => 8,
            Self::Fifteen => 15,
        }
    }

    /// The largest code with at most `vls` VLs; `None` for 0.
    pub fn at_most(vls: u32) -> Option<Self> {
        Self::ALL
            .iter()
            .rev()
            .copied()
            .find(|code| u32::from(code.count()) <= vls)
    }
}

abi_enum! {
    /// Rates of a path: the values of ibv_rate.
StaticRate("static_rate", "Rate", 8, Software) {
        /// That of the port.
        Max = 0,
        /// 2.5 Gbit/s.
        Gbps2p5 = 2,
        /// 10 Gbit/s.
        Gbps10 = 3,
        /// 30 Gbit/s.
        Gbps30 = 4,
        /// 5 Gbit/s.
        Gbps5 = 5,
        /// 20 Gbit/s.
        Gbps20 = 6,
        /// 40 Gbit/s.
        Gbps40 = 7,
        /// 60 Gbit/s.
        Gbps60 = 8,
        /// 80 Gbit/s.
        Gbps80 = 9,
        /// 120 Gbit/s.
        Gbps120 = 10,
        /// 14 Gbit/s.
        Gbps14 = 11,
        /// 56 Gbit/s.
        Gbps56 = 12,
        /// 112 Gbit/s.
        Gbps112 = 13,
        /// 168 Gbit/s.
        Gbps168 = 14,
        /// 25 Gbit/s.
        Gbps25 = 15,
        /// 100 Gbit/s.
        Gbps100 = 16,
        /// 200 Gbit/s.
        Gbps200 = 17,
        /// 300 Gbit/s.
        Gbps300 = 18,
        /// 28 Gbit/s.
        Gbps28 = 19,
        /// 50 Gbit/s.
        Gbps50 = 20,
        /// 400 Gbit/s.
        Gbps400 = 21,
        /// 600 Gbit/s.
        Gbps600 = 22,
        /// 800 Gbit/s.
        Gbps800 = 23,
        /// 1200 Gbit/s.
        Gbps1200 = 24,
    }
}

impl StaticRate {
    /// Rate in units of 100 Mbit/s; `None` for the port's own.
    pub const fn in_100mbps(self) -> Option<u32> {
        Some(match self {
            Self::Max => return None,
            Self::Gbps2p5 => 25,
            Self::Gbps5 => 50,
            Self::Gbps10 => 100,
            Self::Gbps14 => 140,
            Self::Gbps20 => 200,
            Self::Gbps25 => 250,
            Self::Gbps28 => 280,
            Self::Gbps30 => 300,
            Self::Gbps40 => 400,
            Self::Gbps50 => 500,
            Self::Gbps56 => 560,
            Self::Gbps60 => 600,
            Self::Gbps80 => 800,
            Self::Gbps100 => 1000,
            Self::Gbps112 => 1120,
            Self::Gbps120 => 1200,
            Self::Gbps168 => 1680,
            Self::Gbps200 => 2000,
            Self::Gbps300 => 3000,
            Self::Gbps400 => 4000,
            Self::Gbps600 => 6000,
            Self::Gbps800 => 8000,
            Self::Gbps1200 => 12000,
        })
    }
}

abi_enum! {
    /// Link layers: the values of IBV_LINK_LAYER.
LinkLayer("link_layer", "LinkLayer", 2, Software) {
        /// Legacy: InfiniBand.
        Unspecified = 0,
        /// InfiniBand.
        Infiniband = 1,
        /// Ethernet: RoCEv2.
        Ethernet = 2,
    }
}

abi_enum! {
    /// Path migration states: the values of ibv_mig_state.
PathMigState("path_mig_state", "PathMig", 2, Hardware) {
        /// On the path that is loaded.
        Migrated = 0,
        /// Alternate path loaded, not yet agreed.
        Rearm = 1,
        /// May migrate.
        Armed = 2,
    }
}

abi_enum! {
    /// What atomics are atomic with: the values of ibv_atomic_cap.
AtomicCap("atomic_cap", "AtomicCap", 2, Software) {
        /// No atomics.
        None = 0,
        /// With this adapter only.
        Hca = 1,
        /// With every access to memory.
        Glob = 2,
    }
}

abi_enum! {
    /// What a completion queue doorbell arms.
CqArm("cq_arm", "CqArm", 2, Hardware) {
        /// Leave as it is.
        None = 0,
        /// Event at the next completion.
        Next = 1,
        /// Event at the next solicited or error completion.
        Solicited = 2,
    }
}

abi_enum! {
    /// What an EQE reports: a completion event, or 0x10 + ibv_event_type.
EventKind("event_kind", "Event", 8, Hardware) {
        /// Completion event of CQ id.
        Completion = 0,
        /// CQ overrun or CQ write failed.
        CqErr = 0x10,
        /// QP cannot complete any more.
        QpFatal = 0x11,
        /// Responder: invalid request.
        QpReqErr = 0x12,
        /// Responder: access violation.
        QpAccessErr = 0x13,
        /// First packet on a QP in RTR.
        CommEst = 0x14,
        /// Send queue drained.
        SqDrained = 0x15,
        /// Path migrated.
        PathMig = 0x16,
        /// Path migration failed.
        PathMigErr = 0x17,
        /// Card failed.
        DeviceFatal = 0x18,
        /// Port became active.
        PortActive = 0x19,
        /// Port left active.
        PortErr = 0x1a,
        /// LID changed.
        LidChange = 0x1b,
        /// P_Key table changed.
        PkeyChange = 0x1c,
        /// Subnet manager changed.
        SmChange = 0x1d,
        /// SRQ failed.
        SrqErr = 0x1e,
        /// SRQ fell below its limit.
        SrqLimitReached = 0x1f,
        /// Last WQE of a QP on an SRQ consumed.
        QpLastWqeReached = 0x20,
        /// Subnet manager asks to register again.
        ClientReregister = 0x21,
        /// GID table changed.
        GidChange = 0x22,
        /// Work queue failed.
        WqFatal = 0x23,
    }
}

abi_enum! {
    /// What hardware tells firmware through the event FIFO.
HwEventKind("hw_event_kind", "HwEvent", 8, Hardware) {
        /// Admin doorbell rung.
        AdminDb = 1,
        /// CONTROL of a function written.
        FuncControl = 2,
        /// QP failed; cause says how and who saw it.
        QpError = 3,
        /// First packet on a QP in RTR.
        QpCommEst = 4,
        /// CQ overrun or CQ write failed.
        CqError = 5,
        /// Doorbell for a queue that does not exist or belongs to another function.
        BadDoorbell = 6,
        /// Event queue full.
        EqOverflow = 7,
        /// Send queue drained.
        SqDrained = 8,
        /// Port changed.
        Port = 9,
        /// Doorbell on a QP in ERR.
        QpFlushNeeded = 10,
        /// Packet with a wrong P_Key; cause: LID that it is from.
        PkeyViolation = 11,
        /// SRQ has fewer WQEs than its limit; cause: limit_tag.
        SrqLimit = 12,
        /// List of an SRQ's slots cannot be read.
        SrqError = 13,
        /// A management datagram for firmware has come.
        Mad = 14,
        /// Datagram with a wrong Q_Key; cause: LID that it is from.
        QkeyViolation = 15,
        /// Doorbell for a QP that has not the row that it may have; id: QPN, cause 16:0: its producer
        /// index, cause 17: of the send queue, cause 18: hardware cannot make room (hca_lines), cause 20:19: line_miss.
        LineMiss = 16,
        /// Packet for such a QP; id: row, cause 15:0: the upper bits of its QPN, cause 16: it is a request.
        PacketMiss = 17,
        /// Packet with MigReq 0 for a QP in REARM.
        PathArmed = 18,
        /// Packet with MigReq 1 for a QP in ARMED, which was dropped. Cause 15:0: lower 15 bits of its P_Key xor what
        /// `path_digest` makes of its addresses, 16: port, from 0, 17: bit 15 of its P_Key.
        PathAsked = 19,
        /// A QP in ARMED has no retries left; it waits as after an RNR NAK, and begins them anew.
        PathFailed = 20,
        /// A QP in ERR, SQE or SQD has its line from context memory; id: QPN.
        LineFilled = 21,
    }
}

abi_enum! {
    /// Which unit saw a QP error: bits 23:16 of a hw_event's cause.
HwEventWho("hw_event_who", "HwWho", 8, Hardware) {
        /// Requester: a send WQE failed locally.
        Requester = 0,
        /// Responder: a request of the peer failed.
        Responder = 1,
        /// Acknowledge unit: the peer refused, or did not answer.
        Ack = 2,
    }
}

abi_enum! {
    /// Messages from firmware into the pipeline.
PipeMsgKind("pipe_msg_kind", "PipeMsg", 3, Hardware) {
        /// The QP is in SQD: report SQ_DRAINED once every send WQE that was begun is completed.
        SqDrain = 0,
        /// Complete every send WQE of the QP with WR_FLUSH_ERR.
        FlushSq = 1,
        /// Complete every receive WQE of the QP with WR_FLUSH_ERR.
        FlushRq = 2,
    }
}

abi_enum! {
    /// Kinds of rules for received frames: ibv_flow_attr_type.
RuleKind("rule_kind", "Rule", 2, Software) {
        /// What matches value and mask.
        Normal = 0,
        /// What no other rule takes.
        AllDefault = 1,
        /// Frames to groups that no NORMAL rule takes.
        McDefault = 2,
        /// A copy of each, whoever has it.
        Sniffer = 3,
    }
}

abi_enum! {
    /// Tables behind the context port.
CtxTable("ctx_table", "CtxTable", 4, Hardware) {
        /// qpc by QPN.
        Qpc = 0,
        /// cqc by CQN.
        Cqc = 1,
        /// eqc by EQN.
        Eqc = 2,
        /// key_table by function.
        KeyTable = 3,
        /// forget by key index.
        Forget = 4,
        /// Rows of the link by port and row: LINK_ROW_HIGH and so on.
        Link = 5,
        /// gid_row by port (from 0) * 16 + entry: source GIDs of datagrams.
        Gid = 6,
        /// group_row by row: the first GROUP_HEADS are heads of lists.
        Group = 7,
        /// srqc by SRQN.
        Srqc = 8,
        /// rule_row by row, RULES of them.
        Rule = 9,
        /// rss_row by row, RSS_QPS of them.
        Rss = 10,
        /// rss_qp_row by row of RSS * RSS_ENTRIES + entry.
        RssQp = 11,
        /// dm_row by page, DM_PAGES of them.
        DeviceMemory = 12,
        /// qpc into context memory, by the low lines_ctrl.index_bits of its QPN. With ctx_flags.init_sq all of it, else
        /// what comes before its record.
        Record = 13,
    }
}

abi_enum! {
    /// Why a QP that rests in context memory gets its line.
LineMiss("line_miss", "Miss", 2, Hardware) {
        /// Doorbell of its send queue.
        Sq = 0,
        /// Doorbell of its receive queue.
        Rq = 1,
        /// A request of its peer, which was dropped.
        Ask = 2,
        /// Firmware wants it.
        Fill = 3,
    }
}

abi_enum! {
    /// Commands of the context port.
CtxCmd("ctx_cmd", "CtxCmd", 2, Hardware) {
        /// CTX_DATA to the table.
        Write = 1,
    }
}

abi_enum! {
    /// Commands of the firmware's DMA engine.
DmaCmd("dma_cmd", "DmaCmd", 2, Hardware) {
        /// Host memory to mailbox.
        HostToMailbox = 1,
        /// Mailbox to host memory.
        MailboxToHost = 2,
    }
}

abi_enum! {
    /// Results of admin commands. Each maps to one errno.
AdminStatus("admin_status", "Admin", 8, Software) {
        /// Done (0).
        Ok = 0,
        /// Unknown command (ENOSYS).
        BadOpcode = 1,
        /// Argument out of range or not allowed; nothing changed (EINVAL).
        BadParam = 2,
        /// No such object, or it belongs to another function (ENOENT).
        BadHandle = 3,
        /// Object is in a state that does not allow it (EINVAL).
        BadState = 4,
        /// No free object or table entries (ENOMEM).
        NoResources = 5,
        /// Object is still in use (EBUSY).
        InUse = 6,
        /// This card cannot do it (EOPNOTSUPP).
        Unsupported = 7,
        /// Length or size out of range (EINVAL).
        BadLength = 8,
        /// Host memory could not be read or written (EFAULT).
        DmaError = 9,
        /// Firmware failed (EIO).
        Internal = 10,
        /// Only function 0, the manager, may do it; detail: the function that asked (EPERM).
        NotPermitted = 11,
        /// No neighbour of the port has the GID (EHOSTUNREACH).
        Unreachable = 12,
        /// The port asks its network who has the GID: try again, for a second (EHOSTUNREACH).
        Resolving = 13,
    }
}
