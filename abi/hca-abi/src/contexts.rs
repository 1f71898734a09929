//! Contexts and tables that firmware writes into the card through the context port.

use crate::flags::{MPT_ACCESS, MPT_FLUSH_SHIFT, access};
use crate::table::{StructDef, layout};

/// Tables of this module.
pub const STRUCTS: &[&StructDef] = &[
    &Qpc::TABLE,
    &Mpt::TABLE,
    &KeyTable::TABLE,
    &Forget::TABLE,
    &GidRow::TABLE,
    &GroupRow::TABLE,
    &RuleRow::TABLE,
    &RuleKey::TABLE,
    &RssRow::TABLE,
    &RssQpRow::TABLE,
    &DmRow::TABLE,
    &Cqc::TABLE,
    &Eqc::TABLE,
    &Srqc::TABLE,
];

layout! {
    /// QP context without dynamic state, written by firmware only.
    Qpc("qpc", 256, Hardware) {
        /// qp_state.
        state set_state: u8 [0, 0, 3] "QPS-1";
        /// service: bits 7:5 of the BTH opcode.
        service set_service: u8 [0, 4, 3] "X-2";
        /// Peer may RDMA WRITE.
        remote_write set_remote_write: bool [1, 0, 1];
        /// Peer may RDMA READ.
        remote_read set_remote_read: bool [1, 1, 1];
        /// Peer may use atomics.
        remote_atomic set_remote_atomic: bool [1, 2, 1];
        /// Every send WQE makes a CQE.
        sq_sig_all set_sq_sig_all: bool [1, 3, 1] "V-112";
        /// Receives come from SRQ srqn.
        has_srq set_has_srq: bool [1, 4, 1] "SPEC-9";
        /// Packets carry a GRH (always so on RoCE).
        is_global set_is_global: bool [1, 5, 1] "SYS-5";
        /// dgid is ::ffff:a.b.c.d: packets carry IPv4.
        is_ipv4 set_is_ipv4: bool [1, 6, 1];
        /// Datagrams name QP 1 as their source.
        is_gsi set_is_gsi: bool [1, 7, 1] "MGMT-4";
        /// Owning function.
        func set_func: u8 [2, 0, 8];
        /// Port, from 1.
        port set_port: u8 [3, 0, 2];
        /// path_mig_state, of RC and UC. MIGRATED: packets have MigReq 1, and that of the peer's does not matter; else
        /// they have 0, and what the peer's have is reported (PATH_ARMED, PATH_ASKED, PATH_FAILED).
        path_mig_state set_path_mig_state: u8 [3, 2, 2] "APM-3";
        /// mtu: 1 = 256 .. 5 = 4096 bytes.
        path_mtu set_path_mtu: u8 [3, 4, 3] "WIRE-10";
        /// Protection domain; of a target of XRC PD_ANY.
        pd set_pd: u32 [4, 0, 24];
        /// Index into the port's P_Key table.
        pkey_index set_pkey_index: u8 [7, 0, 6] "KEY-12";
        /// XRC: it receives, and has no send queue. Else it sends, and has no receive queue.
        is_target set_is_target: bool [7, 6, 1] "SPEC-3";
        /// QP0: packets name QP 0 as their source, and go on VL15.
        is_smi set_is_smi: bool [7, 7, 1] "MGMT-2";
        /// QP at the peer.
        dest_qpn set_dest_qpn: u32 [8, 0, 24] "QPS-17";
        /// READs and atomics that may be outstanding as requester, 0..=16.
        max_rd_atomic set_max_rd_atomic: u8 [11, 0, 5];
        /// Q_Key.
        qkey set_qkey: u32 [12, 0, 32];
        /// Bus address of the send ring.
        sq_base set_sq_base: u64 [16, 0, 64];
        /// Bus address of the receive ring; has_srq: of the SRQ's slots.
        rq_base set_rq_base: u64 [24, 0, 64];
        /// CQ of the send queue.
        send_cqn set_send_cqn: u32 [32, 0, 24];
        /// log2 of the entries of the send ring.
        sq_log_size set_sq_log_size: u8 [35, 0, 5];
        /// Send WQE stride is 64 << this.
        sq_log_stride set_sq_log_stride: u8 [35, 5, 2];
        /// CQ of the receive queue.
        recv_cqn set_recv_cqn: u32 [36, 0, 24];
        /// log2 of the entries of the receive ring; has_srq: of the SRQ's slots.
        rq_log_size set_rq_log_size: u8 [39, 0, 5];
        /// Receive WQE stride is 64 << this.
        rq_log_stride set_rq_log_stride: u8 [39, 5, 2];
        /// Shared receive queue.
        srqn set_srqn: u32 [40, 0, 24];
        /// READs and atomics that the peer may have outstanding here, 0..=16.
        max_dest_rd_atomic set_max_dest_rd_atomic: u8 [43, 0, 5];
        /// Peer may FLUSH, for global visibility.
        flush_global set_flush_global: bool [43, 5, 1];
        /// RC: credits are told (without an SRQ), and those of the peer limit what needs a receive WQE there.
        credits set_credits: bool [43, 6, 1] "X-3";
        /// RC, and so does the peer: WRITEs may pass one another, and what is lost of them is sent again alone.
        selective set_selective: bool [43, 7, 1];
        /// First send PSN.
        sq_psn set_sq_psn: u32 [44, 0, 24] "WIRE-21";
        /// Acknowledge timeout: 4.096 us << n, 0 = never.
        timeout set_timeout: u8 [47, 0, 5] "REL-6";
        /// First expected PSN.
        rq_psn set_rq_psn: u32 [48, 0, 24] "WIRE-21";
        /// Retransmissions after timeout or sequence NAK.
        retry_cnt set_retry_cnt: u8 [51, 0, 3];
        /// Retransmissions after RNR NAK; 7 = without end.
        rnr_retry set_rnr_retry: u8 [51, 4, 3];
        /// RNR timer code sent in RNR NAKs.
        min_rnr_timer set_min_rnr_timer: u8 [52, 0, 5] "REL-11";
        /// Index of the source GID.
        sgid_index set_sgid_index: u8 [53, 0, 4];
        /// Service level.
        sl set_sl: u8 [54, 0, 4];
        /// Bits to put into the low end of the source LID.
        src_path_bits set_src_path_bits: u8 [55, 0, 7] "ADDR-4";
        /// Pacing in kbit/s, 0 = none.
        rate_limit set_rate_limit: u32 [56, 0, 32] "RATE-6";
        /// RoCEv2 UDP source port.
        udp_src_port set_udp_src_port: u16 [60, 0, 16];
        /// Destination LID.
        dlid set_dlid: u16 [62, 0, 16];
        /// Destination GID, bytes as on the wire.
        dgid set_dgid: [u8; 16] [64, 0, 128];
        /// Source GID (entry sgid_index, resolved by firmware), bytes as on the wire.
        sgid set_sgid: [u8; 16] [80, 0, 128];
        /// Destination MAC address, bytes as on the wire.
        dmac set_dmac: [u8; 6] [96, 0, 48];
        /// Hop limit.
        hop_limit set_hop_limit: u8 [102, 0, 8];
        /// Traffic class.
        traffic_class set_traffic_class: u8 [103, 0, 8];
        /// Flow label.
        flow_label set_flow_label: u32 [104, 0, 20];
        /// Static rate.
        static_rate set_static_rate: u8 [107, 0, 8] "RATE-5";
        /// Time that the destination takes per byte on the wire, in 2^-16 cycles of the card (100 Gbit/s: 1311).
        rate_interval set_rate_interval: u32 [108, 0, 24] "RATE-3";
        /// QPs of one group take turns at a packet's time (rate_interval) per packet, 1..RATE_GROUPS; 0: no limit.
        rate_group set_rate_group: u8 [111, 0, 8] "RATE-4";
        /// The QPN. Its low bits are the row, the others a generation: who names another one does not mean this QP.
        qpn set_qpn: u32 [112, 0, 24];
        /// XRC domain of a target.
        xrcd set_xrcd: u32 [116, 0, 24] "SPEC-3";
        /// Other QPs may have this row, too: whoever names one of them is reported (LINE_MISS, PACKET_MISS).
        is_shared set_is_shared: bool [119, 0, 1];
        /// This write: both queues go on from the record, not from sq_psn, rq_psn and 0. With init_sq and init_rq.
        restores set_restores: bool [119, 1, 1];
        /// This write: the responder tells the peer which request it expects, as if a later one had come.
        asks_again set_asks_again: bool [119, 2, 1];
        /// is_shared: the doors are shut for this QP, too, as for one that has not the row.
        is_shut set_is_shut: bool [119, 3, 1];
        /// restores: producer index of the send queue. From here on ctx_data reads what the QP was that had the row
        /// before the last write of a QP context: word 0 is what belongs here.
        sq_pi set_sq_pi: u32 [128, 0, 17];
        /// restores: oldest send WQE that is not completed.
        una_wqe set_una_wqe: u32 [130, 1, 17];
        /// restores: producer index of the receive queue.
        rq_pi set_rq_pi: u32 [132, 2, 17];
        /// restores: READs and atomics completed.
        rd_done set_rd_done: u16 [134, 3, 16];
        /// In context memory: it restores.
        has_record set_has_record: bool [136, 3, 1];
        /// restores: PSN with which that WQE begins.
        una_psn set_una_psn: u32 [137, 0, 24];
        /// restores: the rest, which is the hardware's own affair.
        record set_record: [u8; 56] [140, 0, 448];
    }
}

layout! {
    /// Memory protection table entry: row of a memory key in its function's key table, in host memory. key = index << 8
    /// | tag; the upper bits of the index are the function, the others (MAX_LOG_KEYS) the row.
    Mpt("mpt", 64, Hardware) {
        /// The key exists.
        valid set_valid: bool [0, 0, 1];
        /// 0: memory region, 1: memory window. A window that is not bound has `valid` 0.
        is_window set_is_window: bool [0, 1, 1] "MEM-13";
        /// Window: of type 2B. Only the QP through which it was bound may use it, and invalidate it.
        is_type_2 set_is_type_2: bool [0, 2, 1] "V-135";
        /// Null region: all addresses are inside it, writes are discarded. `iova` is the bus address of NULL_PAGES
        /// pages of 4 KiB of zeros, which are read.
        is_null set_is_null: bool [0, 3, 1] "V-133";
        /// Region for fast registration: a work request makes it valid, another one, or a SEND with invalidate, not.
        is_fast set_is_fast: bool [0, 4, 1] "MEM-16";
        /// Bits 0..=5 of this byte are the low bits of the access flags.
        local_write set_local_write: bool [1, 0, 1];
        /// Peer may RDMA WRITE.
        remote_write set_remote_write: bool [1, 1, 1];
        /// Peer may RDMA READ.
        remote_read set_remote_read: bool [1, 2, 1];
        /// Peer may use atomics.
        remote_atomic set_remote_atomic: bool [1, 3, 1];
        /// Windows may be bound to it.
        mw_bind set_mw_bind: bool [1, 4, 1];
        /// Addresses count from 0 at the start of the region.
        zero_based set_zero_based: bool [1, 5, 1];
        /// Peer may FLUSH, for global visibility.
        flush_global set_flush_global: bool [1, 6, 1];
        /// Low byte of the key.
        tag set_tag: u8 [2, 0, 8];
        /// Owning function.
        func set_func: u8 [3, 0, 8];
        /// Protection domain.
        pd set_pd: u32 [4, 0, 24];
        /// Page size is 1 << this, 12..=30; 63: one contiguous bus range.
        page_shift set_page_shift: u8 [7, 0, 6];
        /// Window of type 2: the QP through which it was bound.
        qpn set_qpn: u32 [8, 0, 24];
        /// Window: row of the region that it is bound to.
        region set_region: u32 [12, 0, 20] "MEM-15";
        /// First virtual address.
        start set_start: u64 [16, 0, 64];
        /// Bytes.
        length set_length: u64 [24, 0, 64];
        /// page_shift 63: bus address of start. Otherwise of the page list, a multiple of 64: entry i, a u64, is the
        /// bus address of page (start >> page_shift) + i. A window has the list of its region.
        iova set_iova: u64 [32, 0, 64];
        /// With a page list: how many bytes start is behind the beginning of the list's first page.
        list_offset set_list_offset: u64 [40, 0, 64];
        /// Fast registration: how many pages a region of this key may touch.
        max_pages set_max_pages: u32 [48, 0, 32] "MEM-16";
        /// Fast registration: entries of the page list of now, or of last time.
        num_pages set_num_pages: u32 [52, 0, 32];
    }
}

layout! {
    /// Where a function's keys are: a key table.
    KeyTable("key_table", 64, Hardware) {
        /// There is one.
        valid set_valid: bool [0, 0, 1];
        /// log2 of its rows.
        log_size set_log_size: u8 [2, 0, 5];
        /// Bus address of row 0, a multiple of 64.
        base set_base: u64 [8, 0, 64];
    }
}

layout! {
    /// What the card keeps of host memory for a key is read again the next time.
    Forget("forget", 64, Hardware) {
        /// The lines of the region's page list, too.
        pages set_pages: bool [0, 0, 1];
        /// All keys of the function of the index, and all page lists.
        all set_all: bool [0, 1, 1];
    }
}

layout! {
    /// Entry of a port's GID table, for datagrams: their WQEs name the source by index, so that a process cannot make
    /// one up.
    GidRow("gid_row", 64, Hardware) {
        /// The GID, bytes as on the wire.
        gid set_gid: [u8; 16] [0, 0, 128] "ADDR-13";
    }
}

layout! {
    /// A place in a list of QPs that get a copy each of a datagram: of those for QP1 of a port, or for multicast groups
    /// with the same hash. A list begins at a head, which is no member.
    GroupRow("group_row", 64, Hardware) {
        /// A member: qpn gets a copy.
        valid set_valid: bool [0, 0, 1];
        /// Only of datagrams to mgid that came through port.
        is_multicast set_is_multicast: bool [0, 1, 1] "MC-1";
        /// Port, from 0.
        port set_port: u8 [1, 0, 1];
        /// The row behind it; 0: none.
        next set_next: u16 [2, 0, 16];
        /// QPN of the member.
        qpn set_qpn: u32 [4, 0, 24];
        /// Group, bytes as on the wire.
        mgid set_mgid: [u8; 16] [16, 0, 128] "ADDR-13";
    }
}

layout! {
    /// A rule for received frames: whose `rule_key`, masked, is `value` goes to qpn, unless a rule with precedence
    /// has it.
    RuleRow("rule_row", 192, Hardware) {
        /// There is one.
        valid set_valid: bool [0, 0, 1];
        /// Its frames go to nobody: IBV_FLOW_SPEC_ACTION_DROP.
        drops set_drops: bool [0, 1, 1] "V-155";
        /// Receive side scaling: qpn is a row of the table RSS, whose hash names the QP.
        spreads set_spreads: bool [0, 2, 1] "V-114";
        /// It has packets of the transport, too: IBV_FLOW_ATTR_SNIFFER.
        sniffs set_sniffs: bool [0, 3, 1] "V-155";
        /// Port, from 0.
        port set_port: u8 [1, 0, 1] "V-155";
        /// QPN of a raw QP.
        qpn set_qpn: u32 [4, 0, 24];
        /// Rows, a bit each: if one of them matches, this rule does not get the frame.
        yields set_yields: u32 [8, 0, 32] "V-155";
        /// Goes into imm_data of the completion: IBV_FLOW_SPEC_ACTION_TAG.
        tag set_tag: u32 [12, 0, 32] "V-155";
        /// What the masked key is.
        value set_value: [u8; 64] [64, 0, 512];
        /// Bits of the key that count.
        mask set_mask: [u8; 64] [128, 0, 512];
    }
}

layout! {
    /// What rules look at in a frame, numbers most significant byte first, as on the wire. What a frame does not have
    /// is 0.
    RuleKey("rule_key", 64, Hardware) {
        /// Destination MAC address.
        dmac set_dmac: [u8; 6] [0, 0, 48];
        /// Source MAC address.
        smac set_smac: [u8; 6] [6, 0, 48];
        /// VLAN tag: priority, DEI, identifier.
        vlan set_vlan: [u8; 2] [12, 0, 16];
        /// EtherType, of what is behind the VLAN tag.
        ether_type set_ether_type: [u8; 2] [14, 0, 16];
        /// IPv6: source address. IPv4: in the first four bytes.
        src_ip set_src_ip: [u8; 16] [16, 0, 128];
        /// Destination address, as the source.
        dst_ip set_dst_ip: [u8; 16] [32, 0, 128];
        /// IPv4: protocol. IPv6: next header.
        proto set_proto: u8 [48, 0, 8];
        /// Type of service, traffic class.
        tos set_tos: u8 [49, 0, 8];
        /// Time to live, hop limit.
        ttl set_ttl: u8 [50, 0, 8];
        /// It has a VLAN tag.
        has_vlan set_has_vlan: bool [51, 0, 1];
        /// It is IPv4, version and header length right.
        is_ipv4 set_is_ipv4: bool [51, 1, 1];
        /// It is IPv6.
        is_ipv6 set_is_ipv6: bool [51, 2, 1];
        /// It carries TCP, and is the first fragment of its packet or the only one.
        is_tcp set_is_tcp: bool [51, 3, 1];
        /// The same of UDP.
        is_udp set_is_udp: bool [51, 4, 1];
        /// IPv4: bits of the flags: 0 more fragments, 1 do not fragment.
        ip_flags set_ip_flags: u8 [51, 5, 2];
        /// Source port of TCP or UDP.
        src_port set_src_port: [u8; 2] [52, 0, 16];
        /// Destination port.
        dst_port set_dst_port: [u8; 2] [54, 0, 16];
        /// IPv6: flow label, in the lower 20 bits.
        flow_label set_flow_label: [u8; 3] [56, 0, 24];
    }
}

layout! {
    /// Receive side scaling: what of a frame is hashed, and with which key. The lower log_size bits of the hash name an
    /// entry among the RSS_ENTRIES of the row in the table RSS_QP.
    RssRow("rss_row", 64, Hardware) {
        /// rx_hash_fields. Others count as zeros, in their place.
        fields set_fields: u8 [0, 0, 8] "V-95";
        /// Entries, logarithm to base 2.
        log_size set_log_size: u8 [1, 0, 3] "V-93";
        /// Toeplitz key, as standards print it.
        key set_key: [u8; 40] [16, 0, 320] "V-95";
    }
}

layout! {
    /// A page of device memory.
    DmRow("dm_row", 8, Hardware) {
        /// It is there. Until then reads of it fail and writes are lost; with the row it is cleared.
        there set_there: bool [0, 0, 1] "MEM-19";
        /// Owning function: for any other it is not there.
        func set_func: u8 [1, 0, 8] "MEM-19";
    }
}

layout! {
    /// An entry of an indirection table.
    RssQpRow("rss_qp_row", 8, Hardware) {
        /// QPN of a raw QP.
        qpn set_qpn: u32 [0, 0, 24] "V-93";
    }
}

impl Mpt {
    /// Sets the access bits that there are from `access` flags; other bits of `flags` are ignored.
    pub fn set_access(&mut self, flags: u32) {
        self.0[1] = (flags & MPT_ACCESS | (flags & access::FLUSH_GLOBAL) >> MPT_FLUSH_SHIFT) as u8;
    }

    /// The access bits as `access` flags.
    pub fn access(&self) -> u32 {
        let bits = u32::from(self.0[1]);
        bits & MPT_ACCESS | bits << MPT_FLUSH_SHIFT & access::FLUSH_GLOBAL
    }
}

impl Qpc {
    /// Sets remote_write, remote_read, remote_atomic, flush_global, selective and credits from `access` flags.
    pub fn set_access(&mut self, flags: u32) {
        self.set_remote_write(flags & access::REMOTE_WRITE != 0);
        self.set_remote_read(flags & access::REMOTE_READ != 0);
        self.set_remote_atomic(flags & access::REMOTE_ATOMIC != 0);
        self.set_flush_global(flags & access::FLUSH_GLOBAL != 0);
        self.set_selective(flags & access::RELAXED_ORDERING != 0);
        self.set_credits(flags & access::NO_CREDITS == 0);
    }
}

layout! {
    /// Completion queue context.
    Cqc("cqc", 64, Hardware) {
        /// The queue exists.
        valid set_valid: bool [0, 0, 1];
        /// Another ring for a queue at work: indices, arming, error and moderation stay as they are.
        keep set_keep: bool [0, 1, 1] "V-63";
        /// When it is full the next entry is overwritten, and there is no error.
        ignore_overrun set_ignore_overrun: bool [0, 2, 1] "V-58";
        /// Only mod_count and mod_cycles of a queue at work are written.
        moderate set_moderate: bool [0, 3, 1] "V-64";
        /// Owning function.
        func set_func: u8 [1, 0, 8];
        /// log2 of the entries.
        log_size set_log_size: u8 [2, 0, 5];
        /// Event queue that completion events go to.
        eqn set_eqn: u8 [3, 0, 8];
        /// An event waits for so many completions, or for mod_cycles; if either is 0 it does not.
        mod_count set_mod_count: u16 [4, 0, 16] "V-64";
        /// Bus address of the ring.
        base set_base: u64 [8, 0, 64];
        /// Cycles from the first completion that an event is about.
        mod_cycles set_mod_cycles: u32 [16, 0, 24] "V-64";
    }
}

layout! {
    /// Event queue context.
    Eqc("eqc", 64, Hardware) {
        /// The queue exists.
        valid set_valid: bool [0, 0, 1];
        /// Owning function.
        func set_func: u8 [1, 0, 8];
        /// log2 of the entries.
        log_size set_log_size: u8 [2, 0, 5];
        /// MSI-X vector of the function.
        vector set_vector: u16 [4, 0, 11];
        /// Bus address of the ring.
        base set_base: u64 [8, 0, 64];
    }
}

layout! {
    /// Shared receive queue context. The WQEs lie in slots, which the contexts of its QPs name; here is the list of the
    /// slots that are posted.
    Srqc("srqc", 64, Hardware) {
        /// The queue exists.
        valid set_valid: bool [0, 0, 1];
        /// Another limit for a queue at work: indices stay as they are.
        keep set_keep: bool [0, 1, 1] "SPEC-6";
        /// Peers may name it in an XRCETH; what follows base counts then.
        is_xrc set_is_xrc: bool [0, 2, 1] "SPEC-3";
        /// Owning function.
        func set_func: u8 [1, 0, 8];
        /// log2 of the entries of the list, at least that of SRQ_LINE_ENTRIES.
        log_size set_log_size: u8 [2, 0, 5];
        /// With each limit that is armed another one.
        limit_tag set_limit_tag: u8 [3, 0, 8];
        /// Fewer posted WQEs than this raise SRQ_LIMIT, once; 0: not armed.
        limit set_limit: u32 [4, 0, 17] "SPEC-6";
        /// Bus address of the list, a multiple of 64: slot numbers of 16 bits.
        base set_base: u64 [8, 0, 64];
        /// Bus address of the slots.
        slots set_slots: u64 [16, 0, 64];
        /// log2 of the slots.
        slots_log_size set_slots_log_size: u8 [24, 0, 5];
        /// WQE stride is 64 << this.
        slots_log_stride set_slots_log_stride: u8 [24, 5, 2];
        /// Protection domain, also of the keys that peers name beside it.
        pd set_pd: u32 [28, 0, 24];
        /// CQ of its receives.
        cqn set_cqn: u32 [32, 0, 24];
        /// XRC domain.
        xrcd set_xrcd: u32 [36, 0, 24];
        /// What peers name it. Its low bits are the row, the others a generation, as those of a QPN.
        number set_number: u32 [40, 0, 24];
    }
}
