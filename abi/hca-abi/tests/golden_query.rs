//! Golden bytes of what the query commands return.

mod common;
use common::expect;
use hca_abi::*;

#[test]
fn query_device() {
    let mut d = QueryDeviceResult::new();
    d.set_fw_ver_major(1);
    d.set_fw_ver_minor(2);
    d.set_fw_ver_patch(3);
    d.set_phys_port_cnt(1);
    d.set_atomic_cap(AtomicCap::Hca.into());
    d.set_node_guid([1, 2, 3, 4, 5, 6, 7, 8]);
    d.set_sys_image_guid([9, 10, 11, 12, 13, 14, 15, 16]);
    d.set_max_mr_size(1 << 40);
    d.set_page_size_cap(0x4000_1000);
    d.set_device_cap_flags(device_cap::RAW_SCATTER_FCS | device_cap::RC_RNR_NAK_GEN);
    d.set_vendor_id(0x20);
    d.set_max_qp(0x21);
    d.set_max_sge_rd(0x22);
    d.set_max_qp_rd_atom(0x23);
    d.set_max_mcast_grp(0x24);
    d.set_max_srq_sge(0x25);
    d.set_max_pkeys(0x0102);
    d.set_local_ca_ack_delay(15);
    d.set_max_gids(16);
    d.set_num_comp_vectors(0x0203);
    d.set_max_inline_data(480);
    d.set_completion_timestamp_mask(u64::MAX);
    d.set_hca_core_clock_khz(250_000);
    d.set_max_dm_size(0x26);
    d.set_pacing_qp_types(0x27);
    d.set_max_cq_period_us(0x28);
    d.set_pci_atomic_cmp_swap(0x29);
    d.set_max_tso(0x2a);
    d.set_service_mask(1);
    let parts = [
        (
            0,
            "01 00 02 00 03 00 01 01 01 02 03 04 05 06 07 08 09 0a 0b 0c 0d 0e 0f 10",
        ),
        (
            24,
            "00 00 00 00 00 01 00 00 00 10 00 40 00 00 00 00 00 10 00 00 04 00 00 00",
        ),
        (48, "20"),
        (60, "21"),
        (72, "22"),
        (92, "23"),
        (116, "24"),
        (140, "25 00 00 00 02 01 0f 00 10 00 03 02"),
        (160, "e0 01"),
        (168, "ff ff ff ff ff ff ff ff 90 d0 03 00"),
        (184, "26"),
        (200, "27 00 00 00 00 00 28 00"),
        (212, "29 00 00 00 2a 00 00 00 01"),
    ];
    expect(d.as_bytes(), 244, &parts);
}

#[test]
fn query_port() {
    let mut c = QueryPortCmd::new();
    c.set_port_num(2);
    expect(c.as_bytes(), 248, &[(0, "02")]);

    let mut p = QueryPortResult::new();
    p.set_state(PortState::Active.into());
    p.set_max_mtu(Mtu::Bytes4096.into());
    p.set_active_mtu(Mtu::Bytes1024.into());
    p.set_lmc(1);
    p.set_gid_tbl_len(16);
    p.set_port_cap_flags(port_cap::CM | port_cap::IP_BASED_GIDS);
    p.set_max_msg_sz(0x8000_0000);
    p.set_bad_pkey_cntr(0x11);
    p.set_qkey_viol_cntr(0x12);
    p.set_pkey_tbl_len(32);
    p.set_lid(0x0102);
    p.set_sm_lid(0x0304);
    p.set_max_vl_num(4);
    p.set_sm_sl(5);
    p.set_subnet_timeout(18);
    p.set_init_type_reply(6);
    p.set_active_width(2);
    p.set_active_speed(32);
    p.set_phys_state(5);
    p.set_link_layer(LinkLayer::Infiniband.into());
    p.set_flags(1);
    p.set_port_cap_flags2(0x2000);
    p.set_mac([2, 3, 4, 5, 6, 7]);
    let parts = [
        (
            0,
            "04 05 03 01 10 00 00 00 00 00 01 04 00 00 00 80 11 00 00 00 12 00 00 00",
        ),
        (
            24,
            "20 00 02 01 04 03 04 05 12 06 02 20 05 01 01 00 00 20 02 03 04 05 06 07",
        ),
    ];
    expect(p.as_bytes(), 244, &parts);
}

#[test]
fn query_tables() {
    let mut c = QueryEntryCmd::new();
    c.set_port_num(1);
    c.set_index(0x0102);
    expect(c.as_bytes(), 248, &[(0, "01 00 02 01")]);

    let mut r = ResolveGidCmd::new();
    r.set_port_num(2);
    r.set_gid([1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16]);
    let parts = [(0, "02"), (8, "01 02 03 04 05 06 07 08 09 0a 0b 0c 0d 0e 0f 10")];
    expect(r.as_bytes(), 248, &parts);
    let mut m = ResolveGidResult::new();
    m.set_mac([1, 2, 3, 4, 5, 6]);
    expect(m.as_bytes(), 244, &[(0, "01 02 03 04 05 06")]);
    let mut g = QueryGidResult::new();
    g.set_gid([1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16]);
    expect(
        g.as_bytes(),
        244,
        &[(0, "01 02 03 04 05 06 07 08 09 0a 0b 0c 0d 0e 0f 10")],
    );

    let mut p = QueryPkeyResult::new();
    p.set_pkey(0xffff);
    expect(p.as_bytes(), 244, &[(0, "ff ff")]);

    let mut s = QuerySrqResult::new();
    s.set_max_wr(1);
    s.set_max_sge(2);
    s.set_limit(3);
    expect(s.as_bytes(), 244, &[(0, "01 00 00 00 02 00 00 00 03")]);
}

#[test]
fn query_counters() {
    let mut c = QueryCountersResult::new();
    let setters: [fn(&mut QueryCountersResult, u64); 25] = [
        QueryCountersResult::set_tx_packets,
        QueryCountersResult::set_tx_bytes,
        QueryCountersResult::set_rx_packets,
        QueryCountersResult::set_rx_bytes,
        QueryCountersResult::set_rx_crc_errors,
        QueryCountersResult::set_rx_buffer_drops,
        QueryCountersResult::set_rx_drops,
        QueryCountersResult::set_pkey_violations,
        QueryCountersResult::set_qkey_violations,
        QueryCountersResult::set_out_of_sequence,
        QueryCountersResult::set_duplicate_requests,
        QueryCountersResult::set_rnr_naks_sent,
        QueryCountersResult::set_rnr_naks_received,
        QueryCountersResult::set_naks_sent,
        QueryCountersResult::set_naks_received,
        QueryCountersResult::set_ack_timeouts,
        QueryCountersResult::set_retransmitted_packets,
        QueryCountersResult::set_bad_sources,
        QueryCountersResult::set_np_ecn_marked_roce_packets,
        QueryCountersResult::set_np_cnp_sent,
        QueryCountersResult::set_rp_cnp_handled,
        QueryCountersResult::set_qp1_drops,
        QueryCountersResult::set_stray_packets,
        QueryCountersResult::set_datagrams_without_receive,
        QueryCountersResult::set_sniffer_drops,
    ];
    // Counter n of the register map is the n-th counter here: the order is part of the contract.
    for (n, set) in setters.into_iter().enumerate() {
        set(&mut c, 0x0100 + n as u64);
        assert_eq!(c.as_bytes()[8 * n..8 * n + 8], [n as u8, 1, 0, 0, 0, 0, 0, 0]);
    }
}
