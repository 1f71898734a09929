//! Entries of the rings in host memory: send and receive WQEs, completions, events; the event FIFO of
//! firmware.

use crate::consts::WQE_INDEX_BITS;
use crate::table::{StructDef, layout};

/// Tables of this module.
pub const STRUCTS: &[&StructDef] = &[
    &SqWqeCtrl::TABLE,
    &SqWqeUdCtrl::TABLE,
    &SqWqeAtomic::TABLE,
    &SqWqeMasks::TABLE,
    &SqWqeBind::TABLE,
    &Sge::TABLE,
    &RqWqeCtrl::TABLE,
    &Cqe::TABLE,
    &Eqe::TABLE,
    &HwEvent::TABLE,
];

layout! {
    /// First 32 bytes of every send WQE. Scatter/gather entries or inline data follow at byte 32; an atomic
    /// has `sq_wqe_atomic` at byte 32 and its entry at byte 48; an ATOMIC WRITE has its 8 bytes as inline data; a
    /// masked compare and swap has `sq_wqe_masks` at byte 64, so its stride is 128 at least.
    /// 32 + 16 * num_sge must not exceed the stride.
    SqWqeCtrl("sq_wqe_ctrl", 32, Hardware) {
        /// wr_opcode.
        opcode set_opcode: u8 [0, 0, 8] "V-116";
        /// Write a CQE on success too.
        signaled set_signaled: bool [1, 0, 1] "V-112";
        /// Set the solicited-event bit in the last packet.
        solicited set_solicited: bool [1, 1, 1] "OP-16";
        /// Start only after all prior READs and atomics of this queue have finished.
        fence set_fence: bool [1, 2, 1] "OP-13";
        /// Data is in the WQE itself, from byte 32; num_sge is 0.
        inline_data set_inline_data: bool [1, 3, 1] "OP-15";
        /// Frames: fill in the checksums of an IPv4 header and of what it carries, TCP or UDP.
        ip_csum set_ip_csum: bool [1, 4, 1] "OP-17";
        /// Scatter/gather entries, 0..=16.
        num_sge set_num_sge: u8 [2, 0, 8];
        /// Immediate data, bytes as on the wire. SEND_WITH_INV and LOCAL_INV: the R_Key, also as on the wire
        /// (most significant byte first).
        imm_data set_imm_data: u32 [4, 0, 32] "WIRE-5";
        /// Message bytes: sum of the entries' lengths, or inline bytes. Hardware checks it while it walks.
        length set_length: u32 [8, 0, 32];
        /// Free-running ring index of this WQE; hardware rejects another value.
        wqe_index set_wqe_index: u32 [12, 0, 17];
        /// RDMA and atomics: virtual address at the responder.
        remote_addr set_remote_addr: u64 [16, 0, 64];
        /// RDMA and atomics: R_Key at the responder.
        rkey set_rkey: u32 [24, 0, 32];
        /// XRC: SRQ at the responder.
        remote_srqn set_remote_srqn: u32 [28, 0, 24] "SPEC-3";
    }
}

layout! {
    /// First 64 bytes of a send WQE of a UD QP: as sq_wqe_ctrl, with the destination and the way to it in the place of
    /// the remote address. Scatter/gather entries or inline data follow at byte 64; 64 + 16 * num_sge must not exceed
    /// the stride.
    SqWqeUdCtrl("sq_wqe_ud_ctrl", 64, Hardware) {
        /// wr_opcode: SEND or SEND_WITH_IMM.
        opcode set_opcode: u8 [0, 0, 8] "V-116";
        /// Write a CQE on success too.
        signaled set_signaled: bool [1, 0, 1] "V-112";
        /// Set the solicited-event bit in the packet.
        solicited set_solicited: bool [1, 1, 1] "OP-16";
        /// Without effect: a datagram waits for nothing.
        fence set_fence: bool [1, 2, 1] "OP-13";
        /// Data is in the WQE itself, from byte 64; num_sge is 0.
        inline_data set_inline_data: bool [1, 3, 1] "OP-15";
        /// Scatter/gather entries, 0..=16.
        num_sge set_num_sge: u8 [2, 0, 8];
        /// Immediate data, bytes as on the wire.
        imm_data set_imm_data: u32 [4, 0, 32] "WIRE-5";
        /// Message bytes, at most the MTU of the port: sum of the entries' lengths, or inline bytes.
        length set_length: u32 [8, 0, 32] "XPORT-4";
        /// Free-running ring index of this WQE; hardware rejects another value.
        wqe_index set_wqe_index: u32 [12, 0, 17];
        /// Destination QP.
        remote_qpn set_remote_qpn: u32 [16, 0, 24];
        /// Source GID: entry of the table of the QP's port.
        sgid_index set_sgid_index: u8 [19, 0, 4] "ADDR-13";
        /// Q_Key to send; bit 31 set: send the QP's own.
        qkey set_qkey: u32 [20, 0, 32] "KEY-24";
        /// Destination GID, bytes as on the wire. Ethernet: ::ffff:a.b.c.d sends IPv4.
        dgid set_dgid: [u8; 16] [24, 0, 128] "ADDR-13";
        /// Ethernet: destination MAC address, bytes as on the wire.
        dmac set_dmac: [u8; 6] [40, 0, 48];
        /// InfiniBand: destination LID.
        dlid set_dlid: u16 [46, 0, 16] "ADDR-13";
        /// Flow label.
        flow_label set_flow_label: u32 [48, 0, 20] "ADDR-13";
        /// Hop limit.
        hop_limit set_hop_limit: u8 [51, 0, 8] "ADDR-13";
        /// Traffic class.
        traffic_class set_traffic_class: u8 [52, 0, 8] "ADDR-13";
        /// InfiniBand: service level.
        sl set_sl: u8 [53, 0, 4] "ADDR-13";
        /// The packet carries a GRH (always so on RoCE).
        is_global set_is_global: bool [53, 4, 1] "SYS-5";
        /// InfiniBand: bits to put into the low end of the source LID.
        src_path_bits set_src_path_bits: u8 [54, 0, 7] "ADDR-4";
        /// QP1: index of the P_Key to send; other QPs have theirs in their context.
        pkey_index set_pkey_index: u8 [55, 0, 5] "KEY-21";
        /// Ethernet: UDP source port; 0: one by the QPN.
        udp_src_port set_udp_src_port: u16 [56, 0, 16];
    }
}

layout! {
    /// Bytes 32..48 of an atomic send WQE.
    SqWqeAtomic("sq_wqe_atomic", 16, Hardware) {
        /// COMP_SWAP: value to compare with; FETCH_ADD: value to add.
        compare_add set_compare_add: u64 [0, 0, 64];
        /// COMP_SWAP: value to store. Masked FETCH_ADD: the most significant bit of each field; the highest one may be
        /// left away, so 0 is one field.
        swap set_swap: u64 [8, 0, 64] "OP-9";
    }
}

layout! {
    /// Bytes 64..80 of a masked compare and swap. They leave as they stand here, as the payload of its request.
    SqWqeMasks("sq_wqe_masks", 16, Hardware) {
        /// Bits to compare.
        compare_mask set_compare_mask: u64 [0, 0, 64] "OP-8";
        /// Bits to store.
        swap_mask set_swap_mask: u64 [8, 0, 64] "OP-8";
    }
}

layout! {
    /// Bytes 32..64 of a BIND_MW or REG_MR WQE; remote_addr is the first address of the window or region, rkey its new
    /// key, and num_sge, length and inline_data are 0. LOCAL_INV has nothing behind byte 32.
    SqWqeBind("sq_wqe_bind", 32, Hardware) {
        /// Bytes of the window or region; type 1: 0 ends the binding.
        length set_length: u64 [0, 0, 64] "V-137";
        /// BIND_MW: L_Key of the region.
        lkey set_lkey: u32 [8, 0, 32];
        /// Rights: BIND_MW: bits 1, 2, 3 and 5 of the access flags; REG_MR: bits 0 to 3.
        access set_access: u8 [12, 0, 6] "V-139";
        /// BIND_MW: the window is of type 2, and must not be bound.
        is_type_2 set_is_type_2: bool [13, 0, 1] "V-136";
        /// REG_MR: page size is 1 << this, 12..=30.
        page_shift set_page_shift: u8 [14, 0, 6] "MEM-16";
        /// REG_MR: bus address of the page list, a multiple of 64.
        page_list_addr set_page_list_addr: u64 [16, 0, 64] "MEM-16";
    }
}

layout! {
    /// Scatter/gather entry.
    Sge("sge", 16, Hardware) {
        /// Virtual address in the region of lkey.
        addr set_addr: u64 [0, 0, 64];
        /// Bytes; 0 means zero bytes.
        length set_length: u32 [8, 0, 32];
        /// L_Key.
        lkey set_lkey: u32 [12, 0, 32];
    }
}

layout! {
    /// First 16 bytes of every receive WQE; scatter/gather entries follow at byte 16.
    RqWqeCtrl("rq_wqe_ctrl", 16, Hardware) {
        /// Scatter/gather entries, 0..=16.
        num_sge set_num_sge: u8 [0, 0, 8];
        /// Sum of the entries' lengths.
        length set_length: u32 [4, 0, 32] "OP-21";
        /// Free-running ring index of this WQE (SRQ: its slot); hardware rejects another value.
        wqe_index set_wqe_index: u32 [8, 0, 17];
    }
}

layout! {
    /// Completion queue entry.
    Cqe("cqe", 64, Hardware) {
        /// Low bits of the free-running ring index of the completed WQE (SRQ: its slot). Of the WQEs that are posted no
        /// two have the same.
        wqe_index set_wqe_index: u16 [0, 0, 16];
        /// wc_opcode; bit 7: the receive queue.
        opcode set_opcode: u8 [2, 0, 8] "E-7";
        /// wc_status.
        status set_status: u8 [3, 0, 8] "STAT";
        /// Local QP.
        qpn set_qpn: u32 [4, 0, 32] "E-9";
        /// Bytes received, or moved by READ and atomics.
        byte_len set_byte_len: u32 [8, 0, 32] "E-9";
        /// Immediate data or invalidated R_Key, bytes as on the wire. Of a frame: the tag of its rule, a number.
        imm_data set_imm_data: u32 [12, 0, 32] "E-9";
        /// Card cycles when the CQE was made.
        timestamp set_timestamp: u64 [16, 0, 64] "V-31";
        /// UD: source QP.
        src_qp set_src_qp: u32 [24, 0, 32] "E-9";
        /// wc_flags.
        wc_flags set_wc_flags: u8 [28, 0, 8] "E-8";
        /// UD: service level; over Ethernet WC_SL_ROCE_IPV6 or WC_SL_ROCE_IPV4.
        sl set_sl: u8 [29, 0, 8] "E-9";
        /// GSI QP: index of the P_Key.
        pkey_index set_pkey_index: u16 [30, 0, 16] "KEY-21";
        /// UD: source LID.
        slid set_slid: u16 [32, 0, 16] "E-9";
        /// UD unicast: path bits of the destination LID.
        dlid_path_bits set_dlid_path_bits: u8 [34, 0, 8] "ADDR-4";
        /// Detail of an error: AETH syndrome or the check that failed.
        vendor_err set_vendor_err: u8 [35, 0, 8] "E-9";
        /// XRC: the SRQ whose slot it was, as peers name it.
        srqn set_srqn: u32 [36, 0, 24] "SPEC-3";
        /// There is one.
        is_xrc set_is_xrc: bool [39, 0, 1] "SPEC-3";
        /// 1 on the first pass over a zeroed ring, toggles with each pass. Written last.
        phase set_phase: bool [60, 0, 1];
    }
}

layout! {
    /// Event queue entry.
    Eqe("eqe", 64, Hardware) {
        /// event_kind.
        kind set_kind: u8 [0, 0, 8] "E-10";
        /// Event queue this entry is in.
        eqn set_eqn: u16 [2, 0, 16];
        /// CQN, QPN, SRQN or port, by kind.
        id set_id: u32 [4, 0, 32];
        /// Syndrome or status.
        data0 set_data0: u32 [8, 0, 32];
        /// More detail, by kind.
        data1 set_data1: u32 [12, 0, 32];
        /// Card cycles when the event was made.
        timestamp set_timestamp: u64 [16, 0, 64];
        /// 1 on the first pass over a zeroed ring, toggles with each pass. Written last.
        phase set_phase: bool [60, 0, 1];
    }
}

layout! {
    /// What the event FIFO of the firmware carries: registers EV_W0, EV_W1, EV_W2.
    HwEvent("hw_event", 12, Hardware) {
        /// hw_event_kind.
        kind set_kind: u8 [0, 0, 8];
        /// Function the event belongs to.
        func set_func: u8 [1, 0, 8];
        /// QPN, CQN, EQN or SRQN, by kind.
        id set_id: u32 [4, 0, 32];
        /// Bits 7:0 wc_status, bits 15:8 syndrome, bits 23:16 hw_event_who; by kind.
        cause set_cause: u32 [8, 0, 32];
    }
}

/// A free-running index of a work queue, as the card counts it.
#[inline]
pub const fn wqe_index(index: u32) -> u32 {
    index & ((1 << WQE_INDEX_BITS) - 1)
}

/// How many WQEs further on index `to` is than index `from`.
#[inline]
pub const fn wqe_distance(from: u32, to: u32) -> u32 {
    wqe_index(to.wrapping_sub(from))
}
