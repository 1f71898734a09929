//! The header tables. Section numbers are those of IBA volume 1 unless another text is named.

use crate::field::{HeaderDef, header};

/// Every header of this crate in the order in which a packet can hold them.
pub const HEADERS: &[&HeaderDef] = &[
    &ethernet::DEF,
    &vlan::DEF,
    &ipv4::DEF,
    &ipv6::DEF,
    &udp::DEF,
    &lrh::DEF,
    &grh::DEF,
    &bth::DEF,
    &rdeth::DEF,
    &deth::DEF,
    &xrceth::DEF,
    &feth::DEF,
    &reth::DEF,
    &atomic_eth::DEF,
    &aeth::DEF,
    &atomic_ack_eth::DEF,
    &immdt::DEF,
    &ieth::DEF,
];

header! {
    ethernet, "Ethernet", 14 bytes, "Ethernet header (IEEE 802.3 clause 3).";
    dst_mac / set_dst_mac: [u8; 6] = (0, 7, 48), "Destination address.";
    src_mac / set_src_mac: [u8; 6] = (6, 7, 48), "Source address.";
    ethertype / set_ethertype: u16 = (12, 7, 16), "What follows: 0x0800 IPv4, 0x86DD IPv6, 0x8100 VLAN tag.";
}

header! {
    vlan, "VLAN", 4 bytes, "Rest of a VLAN tag, behind EtherType 0x8100 (IEEE 802.1Q 9.6).";
    pcp / set_pcp: u8 = (0, 7, 3), "Priority code point.";
    dei / set_dei: bool = (0, 4, 1), "Drop eligible indicator.";
    vid / set_vid: u16 = (0, 3, 12), "VLAN identifier.";
    ethertype / set_ethertype: u16 = (2, 7, 16), "What follows the tag.";
}

header! {
    ipv4, "IPv4", 20 bytes, "IPv4 header without options (RFC 791 3.1).";
    version / set_version: u8 = (0, 7, 4), "Version, 4.";
    ihl / set_ihl: u8 = (0, 3, 4), "Header length in 4-byte words; 5, as RoCEv2 allows no options (A17.3.1).";
    dscp / set_dscp: u8 = (1, 7, 6), "Differentiated services code point (RFC 2474); masked in the ICRC.";
    ecn / set_ecn: u8 = (1, 1, 2), "Explicit congestion notification (RFC 3168); masked in the ICRC.";
    total_len / set_total_len: u16 = (2, 7, 16), "Bytes of header and payload.";
    identification / set_identification: u16 = (4, 7, 16), "Fragment group; free for RoCEv2.";
    reserved_flag / set_reserved_flag: bool = (6, 7, 1), "Reserved, 0.";
    dont_fragment / set_dont_fragment: bool = (6, 6, 1), "Do not fragment; set for RoCEv2 (A17.3.1).";
    more_fragments / set_more_fragments: bool = (6, 5, 1), "More fragments follow; 0 for RoCEv2.";
    fragment_offset / set_fragment_offset: u16 = (6, 4, 13), "Fragment place in 8-byte units; 0 for RoCEv2.";
    ttl / set_ttl: u8 = (8, 7, 8), "Time to live; masked in the ICRC.";
    protocol / set_protocol: u8 = (9, 7, 8), "What follows: 17 UDP.";
    checksum / set_checksum: u16 = (10, 7, 16), "Header checksum (RFC 1071); masked in the ICRC.";
    src_addr / set_src_addr: [u8; 4] = (12, 7, 32), "Source address.";
    dst_addr / set_dst_addr: [u8; 4] = (16, 7, 32), "Destination address.";
}

header! {
    ipv6, "IPv6", 40 bytes, "IPv6 header (RFC 8200 3).";
    version / set_version: u8 = (0, 7, 4), "Version, 6.";
    traffic_class / set_traffic_class: u8 = (0, 3, 8), "Traffic class (DSCP and ECN); masked in the ICRC.";
    flow_label / set_flow_label: u32 = (1, 3, 20), "Flow label; masked in the ICRC.";
    payload_len / set_payload_len: u16 = (4, 7, 16), "Bytes behind this header.";
    next_header / set_next_header: u8 = (6, 7, 8), "What follows: 17 UDP.";
    hop_limit / set_hop_limit: u8 = (7, 7, 8), "Hop limit; masked in the ICRC.";
    src_addr / set_src_addr: [u8; 16] = (8, 7, 128), "Source address.";
    dst_addr / set_dst_addr: [u8; 16] = (24, 7, 128), "Destination address.";
}

header! {
    udp, "UDP", 8 bytes, "UDP header (RFC 768; RoCEv2: A17.3.2).";
    src_port / set_src_port: u16 = (0, 7, 16), "Source port; RoCEv2 puts flow entropy here.";
    dst_port / set_dst_port: u16 = (2, 7, 16), "Destination port; 4791 is RoCEv2.";
    length / set_length: u16 = (4, 7, 16), "Bytes of header and payload.";
    checksum / set_checksum: u16 = (6, 7, 16), "Checksum; 0 is none; masked in the ICRC.";
}

header! {
    lrh, "LRH", 8 bytes, "Local route header (5.2.1, 7.7).";
    vl / set_vl: u8 = (0, 7, 4), "Virtual lane; masked in the ICRC (7.7.1).";
    lver / set_lver: u8 = (0, 3, 4), "Link version, 0 (7.7.2).";
    sl / set_sl: u8 = (1, 7, 4), "Service level (7.7.3).";
    resv2 / set_resv2: u8 = (1, 3, 2), "Reserved, 0 (7.7.4).";
    lnh / set_lnh: u8 = (1, 1, 2), "What follows: 0 raw, 1 raw IPv6, 2 BTH, 3 GRH (7.7.5).";
    dlid / set_dlid: u16 = (2, 7, 16), "Destination local identifier (7.7.6).";
    resv5 / set_resv5: u8 = (4, 7, 5), "Reserved, 0 (7.7.7).";
    pkt_len / set_pkt_len: u16 = (4, 2, 11), "Length in 4-byte words, LRH through ICRC (7.7.8).";
    slid / set_slid: u16 = (6, 7, 16), "Source local identifier (7.7.9).";
}

header! {
    grh, "GRH", 40 bytes, "Global route header (5.2.2, 8.3).";
    ip_ver / set_ip_ver: u8 = (0, 7, 4), "IP version, 6 (8.3.1).";
    tclass / set_tclass: u8 = (0, 3, 8), "Traffic class; masked in the ICRC (8.3.2).";
    flow_label / set_flow_label: u32 = (1, 3, 20), "Flow label; masked in the ICRC (8.3.3).";
    pay_len / set_pay_len: u16 = (4, 7, 16), "Bytes behind the GRH up to and with the ICRC (8.3.4).";
    nxt_hdr / set_nxt_hdr: u8 = (6, 7, 8), "Next header; 0x1B is IBA transport (8.3.5).";
    hop_limit / set_hop_limit: u8 = (7, 7, 8), "Hop limit; masked in the ICRC (8.3.6).";
    sgid / set_sgid: [u8; 16] = (8, 7, 128), "Source GID (8.3.7).";
    dgid / set_dgid: [u8; 16] = (24, 7, 128), "Destination GID (8.3.8).";
}

header! {
    bth, "BTH", 12 bytes, "Base transport header (5.2.3, 9.2).";
    opcode / set_opcode: u8 = (0, 7, 8), "Operation and service; says which headers follow (9.2.1).";
    solicited / set_solicited: bool = (1, 7, 1), "SE: the responder shall raise a solicited event (9.2.3).";
    mig_req / set_mig_req: bool = (1, 6, 1), "MigReq: path migration state; 1 is migrated (9.2.4).";
    pad_count / set_pad_count: u8 = (1, 5, 2), "Pad bytes that align the payload to 4 bytes (9.2.5).";
    tver / set_tver: u8 = (1, 3, 4), "Transport header version, 0 (9.2.6).";
    pkey / set_pkey: u16 = (2, 7, 16), "Partition key (9.2.7).";
    fecn / set_fecn: bool = (4, 7, 1), "Forward congestion notification; masked in the ICRC (9.2.8).";
    becn / set_becn: bool = (4, 6, 1), "Backward congestion notification; masked in the ICRC (9.2.8).";
    resv6 / set_resv6: u8 = (4, 5, 6), "Reserved, 0; masked in the ICRC (9.2.8).";
    dest_qp / set_dest_qp: u32 = (5, 7, 24), "Destination QP number; 0xFFFFFF is multicast (9.2.9).";
    ack_req / set_ack_req: bool = (8, 7, 1), "A: the responder shall acknowledge this packet (9.2.10).";
    resv7 / set_resv7: u8 = (8, 6, 7), "Reserved, 0 (9.2.11).";
    psn / set_psn: u32 = (9, 7, 24), "Packet sequence number (9.2.12).";
}

header! {
    rdeth, "RDETH", 4 bytes, "Reliable datagram extended transport header (5.2.4, 9.3.1).";
    resv8 / set_resv8: u8 = (0, 7, 8), "Reserved, 0.";
    ee_context / set_ee_context: u32 = (1, 7, 24), "End-to-end context at the destination.";
}

header! {
    deth, "DETH", 8 bytes, "Datagram extended transport header (5.2.5, 9.3.2).";
    qkey / set_qkey: u32 = (0, 7, 32), "Q_Key that the destination QP checks.";
    resv8 / set_resv8: u8 = (4, 7, 8), "Reserved, 0.";
    src_qp / set_src_qp: u32 = (5, 7, 24), "Source QP number.";
}

header! {
    xrceth, "XRCETH", 4 bytes, "Extended reliable connection extended transport header (annex A14).";
    resv8 / set_resv8: u8 = (0, 7, 8), "Reserved, 0.";
    xrcsrq / set_xrcsrq: u32 = (1, 7, 24), "Shared receive queue at the destination.";
}

header! {
    feth, "FETH", 4 bytes, "FLUSH extended transport header (annex A19).";
    resv26 / set_resv26: u32 = (0, 7, 26), "Reserved, 0.";
    sel / set_sel: u8 = (3, 5, 2), "Selectivity level: 0 the range in the RETH, 1 the whole memory region.";
    plt / set_plt: u8 = (3, 3, 4), "Placement type: bit 0 global visibility, bit 1 persistence.";
}

header! {
    reth, "RETH", 16 bytes, "RDMA extended transport header (5.2.6, 9.3.3).";
    va / set_va: u64 = (0, 7, 64), "Virtual address at the responder.";
    rkey / set_rkey: u32 = (8, 7, 32), "R_Key that allows the access.";
    dma_len / set_dma_len: u32 = (12, 7, 32), "Length of the whole message in bytes.";
}

header! {
    atomic_eth, "AtomicETH", 28 bytes, "Atomic extended transport header (5.2.7, 9.3.4).";
    va / set_va: u64 = (0, 7, 64), "Virtual address at the responder, a multiple of 8.";
    rkey / set_rkey: u32 = (8, 7, 32), "R_Key that allows the access.";
    swap_add / set_swap_add: u64 = (12, 7, 64), "Value to swap in (CmpSwap) or to add (FetchAdd).";
    compare / set_compare: u64 = (20, 7, 64), "Value to compare with (CmpSwap only).";
}

header! {
    aeth, "AETH", 4 bytes, "ACK extended transport header (5.2.8, 9.7.5.1).";
    syndrome / set_syndrome: u8 = (0, 7, 8), "ACK with credits, RNR NAK with timer, or NAK with code.";
    msn / set_msn: u32 = (1, 7, 24), "Message sequence number of the last completed message.";
}

header! {
    atomic_ack_eth, "AtomicAckETH", 8 bytes, "Atomic ACK extended transport header (5.2.9).";
    orig_remote / set_orig_remote: u64 = (0, 7, 64), "Value at the responder before the operation.";
}

header! {
    immdt, "ImmDt", 4 bytes, "Immediate data extended transport header (5.2.10).";
    imm / set_imm: u32 = (0, 7, 32), "Immediate data, delivered in the receive completion.";
}

header! {
    ieth, "IETH", 4 bytes, "Invalidate extended transport header (5.2.11).";
    rkey / set_rkey: u32 = (0, 7, 32), "R_Key that the responder invalidates.";
}

// Not in `HEADERS`: a link packet has no other header, and only the link layer sees it.
header! {
    fcp, "FCP", 6 bytes, "Flow control packet, whole (7.9.4).";
    op / set_op: u8 = (0, 7, 4), "Operation: 0 normal, 1 initialisation.";
    fctbs / set_fctbs: u16 = (0, 3, 12), "Flow control total blocks sent, modulo 4096.";
    vl / set_vl: u8 = (2, 7, 4), "Virtual lane.";
    fccl / set_fccl: u16 = (2, 3, 12), "Flow control credit limit, modulo 4096.";
    lpcrc / set_lpcrc: u16 = (4, 7, 16), "Link packet CRC over the four bytes in front of it.";
}
