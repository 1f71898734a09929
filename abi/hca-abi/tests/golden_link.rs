//! Golden bytes of the link: rows of the context port, commands and completions.

mod common;
use common::expect;
use hca_abi::*;

#[test]
fn rows() {
    let mut e = LinkVlArb::new();
    e.set_vl(14);
    e.set_weight(0xa5);
    expect(e.as_bytes(), 4, &[(0, "0e a5")]);

    let mut m = LinkSl2vl::new();
    m.set_map(0xfedc_ba98_7654_3210);
    expect(m.as_bytes(), 8, &[(0, "10 32 54 76 98 ba dc fe")]);

    let mut c = LinkCtrl::new();
    c.set_state(PortState::Active.into());
    c.set_op_vls(OpVls::Eight.into());
    c.set_policy(LinkPolicy::RoundQuantum.into());
    c.set_limit(10);
    c.set_mtu(Mtu::Bytes2048.into());
    c.set_hoq_life(31);
    c.set_pfc_enable(0x81);
    expect(c.as_bytes(), 16, &[(0, "44 01 0a 04 1f 81")]);

    let mut r = LinkCongestion::new();
    r.set_enable(true);
    r.set_algorithm(CcAlgorithm::Delay.into());
    r.set_cnp_dscp(48);
    r.set_cnp_interval(195);
    r.set_alpha_period(215);
    r.set_rate_period(0x1234);
    r.set_rate_bytes(0xa0_0001);
    r.set_alpha_shift(8);
    r.set_recovery_steps(5);
    r.set_min_rate(82);
    r.set_additive(0x0148);
    r.set_hyper(0x0666);
    r.set_delay_target(0x9_c408);
    r.set_delay_scale(11);
    r.set_delay_shift(3);
    expect(
        r.as_bytes(),
        32,
        &[
            (0, "11 30 c3 00 d7 00 34 12 01 00 a0 08 05"),
            (14, "52 00 48 01 66 06 08 c4 09 0b 03"),
        ],
    );

    let mut s = LinkStatus::new();
    s.set_state(PortState::ActiveDefer.into());
    s.set_phy_up(true);
    expect(s.as_bytes(), 4, &[(0, "0d")]);
}

#[test]
fn commands() {
    let mut l = SetLinkCmd::new();
    l.set_port_num(1);
    l.set_state(PortState::Armed.into());
    l.set_op_vls(OpVls::Fifteen.into());
    l.set_peer_vls(OpVls::Two.into());
    l.set_attr_mask(link_attr::ALL);
    l.set_policy(1);
    l.set_limit(255);
    l.set_hoq_life(3);
    l.set_pfc_enable(0x0f);
    l.set_trust(1);
    l.set_strict(0x80);
    l.set_lldp_tx(true);
    l.set_prio_tc(0x7654_3210);
    l.set_tc_percent([40, 60, 0, 0, 0, 0, 0, 0]);
    l.set_dscp_mask(1 << 26);
    let mut dscp = [0; 64];
    dscp[26] = 3;
    l.set_dscp(dscp);
    let bytes = [
        (0, "01 03 05 02 ff 07 00 00 01 ff 03 0f 01 80 01"),
        (16, "10 32 54 76"),
        (24, "28 3c"),
        (32, "00 00 00 04"),
        (40 + 26, "03"),
    ];
    expect(l.as_bytes(), 248, &bytes);

    let mut a = VlArbCmd::new();
    a.set_port_num(1);
    a.set_high(true);
    a.set_count(2);
    let mut entries = [0; 128];
    entries[..4].copy_from_slice(&[0, 64, 1, 32]);
    a.set_entries(entries);
    expect(a.as_bytes(), 248, &[(0, "01 01 02"), (8, "00 40 01 20")]);

    let mut m = SetSl2vlCmd::new();
    m.set_port_num(1);
    m.set_map(0xf000_0000_0000_0021);
    expect(m.as_bytes(), 248, &[(0, "01"), (8, "21 00 00 00 00 00 00 f0")]);

    let mut c = CongestionCmd::new();
    c.set_port_num(2);
    c.set_row([0xc7; 32]);
    expect(c.as_bytes(), 248, &[(0, "02"), (8, &["c7"; 32].join(" "))]);

    let mut q = QueryVlCountersCmd::new();
    q.set_port_num(1);
    q.set_first_vl(8);
    expect(q.as_bytes(), 248, &[(0, "01 08")]);
}

#[test]
fn results() {
    let mut l = QueryLinkResult::new();
    l.set_state(5);
    l.set_wanted_state(4);
    l.set_phy_up(true);
    l.set_link_layer(1);
    l.set_built_vls(4);
    l.set_wanted_vls(3);
    l.set_peer_vls(2);
    l.set_op_vls(2);
    l.set_policy(1);
    l.set_limit(7);
    l.set_mtu(5);
    l.set_hoq_life(20);
    l.set_pfc_enable(0xff);
    l.set_lmc(6);
    l.set_lid(0x1234);
    l.set_sl2vl(0x0102_0304_0506_0708);
    l.set_tx_ring(0x400);
    l.set_rx_ring(0x200);
    let parts = [
        (0, "05 04 01 01 04 03 02 02 01 07 05 14 ff 06 34 12"),
        (16, "08 07 06 05 04 03 02 01 00 04 00 00 00 02 00 00"),
    ];
    expect(l.as_bytes(), 244, &parts);

    let mut a = VlArbResult::new();
    a.set_count(1);
    a.set_entries([3; 128]);
    assert_eq!((a.as_bytes()[0], a.as_bytes()[8], a.as_bytes()[135]), (1, 3, 3));

    let mut v = VlCounters::new();
    for (n, set) in [
        VlCounters::set_tx_credits,
        VlCounters::set_tx_fill,
        VlCounters::set_rx_fill,
        VlCounters::set_tx_packets,
        VlCounters::set_tx_blocks,
        VlCounters::set_rx_packets,
        VlCounters::set_tx_wait,
    ]
    .into_iter()
    .enumerate()
    {
        set(&mut v, 0x0100 + n as u32);
        assert_eq!(v.as_bytes()[4 * n..4 * n + 4], [n as u8, 1, 0, 0]);
    }
    assert_eq!(8 * VlCounters::BYTES, QueryVlCountersResult::new().vls().len());
}

/// VL-2: the codes of max_vl_num, and the largest that a number of VLs allows.
#[test]
fn numbers_of_vls() {
    let counts: Vec<_> = OpVls::ALL.iter().map(|v| (*v as u8, v.count())).collect();
    assert_eq!(counts, [(1, 1), (2, 2), (3, 4), (4, 8), (5, 15)]);
    assert_eq!(OpVls::at_most(0), None);
    for (vls, code) in [
        (1, 1),
        (2, 2),
        (3, 2),
        (4, 3),
        (7, 3),
        (8, 4),
        (14, 4),
        (15, 5),
        (99, 5),
    ] {
        assert_eq!(OpVls::at_most(vls).map(u8::from), Some(code), "{vls}");
    }
}

/// RATE-5: the values of ibv_rate.
#[test]
fn static_rates() {
    let codes = [
        (2, 25),
        (5, 50),
        (3, 100),
        (6, 200),
        (4, 300),
        (7, 400),
        (8, 600),
        (9, 800),
        (10, 1200),
        (11, 140),
        (12, 560),
        (13, 1120),
        (14, 1680),
        (15, 250),
        (16, 1000),
        (17, 2000),
        (18, 3000),
    ];
    for (code, rate) in codes {
        assert_eq!(
            StaticRate::try_from(code).unwrap().in_100mbps(),
            Some(rate),
            "code {code}"
        );
    }
    assert_eq!(StaticRate::try_from(0).unwrap().in_100mbps(), None);
    assert!(StaticRate::try_from(1).is_err() && StaticRate::try_from(25).is_err());
}
