//! The link through the verbs, on a lone card.

mod common;
use common::*;
use hca_abi::{
    LINK_WORD_ERRORS, LINK_WORD_PFC_PAUSED, LINK_WORD_PFC_SENT, LINK_WORD_PFC_XOFF, LINK_WORD_TX_CREDITS,
};
use hca_lone::LoneCard;
use hca_verbs::*;
use std::rc::Rc;

fn infiniband() -> (Rc<LoneCard>, Context<Dev>) {
    let dev = Rc::new(LoneCard::infiniband());
    let context = Context::open_with(dev.clone(), &OpenOptions::simulated()).unwrap();
    (dev, context)
}

/// VL-4, VL-8, VL-12, VL-14: what is set is what is there, and what the card says of it.
#[test]
fn a_link_is_configured_and_looked_at() {
    let (dev, context) = infiniband();
    let status = context.link_status(1).unwrap();
    assert_eq!(
        (status.state, status.wanted_state),
        (PortState::Active, PortState::Active)
    );
    assert_eq!((status.built_vls, status.op_vls), (OpVls::Eight, OpVls::Eight));
    assert_eq!(
        (status.policy, status.limit, status.mtu),
        (LinkPolicy::Iba, 255, Mtu::Bytes4096)
    );
    assert!(status.phy_up && status.link_layer == LinkLayer::Infiniband && status.lid == 1);

    let config = LinkConfig::new()
        .peer_vls(OpVls::Two)
        .policy(LinkPolicy::RoundQuantum)
        .limit(8)
        .hoq_life(12)
        .pfc_enable(3);
    context.link_config(1, &config).unwrap();
    let high = [VlWeight { vl: 0, weight: 25 }];
    let low = [VlWeight { vl: 1, weight: 100 }];
    context.set_vl_arb(1, VlArbTable::High, &high).unwrap();
    context.set_vl_arb(1, VlArbTable::Low, &low).unwrap();
    let mut map = [15; 16];
    map[..2].copy_from_slice(&[0, 1]);
    context.set_sl2vl(1, &map).unwrap();
    let status = context.link_status(1).unwrap();
    assert_eq!((status.op_vls, status.peer_vls), (OpVls::Two, OpVls::Two));
    assert_eq!((status.policy, status.limit), (LinkPolicy::RoundQuantum, 8));
    assert_eq!((status.hoq_life, status.pfc_enable), (12, 3));
    assert_eq!(status.sl2vl, map);
    assert_eq!(context.vl_arb(1, VlArbTable::High).unwrap(), high);
    assert_eq!(context.vl_arb(1, VlArbTable::Low).unwrap(), low);
    dev.with_card(|card| {
        assert_eq!(card.link_arbitration(true), [(0, 25)]);
        assert_eq!(card.link_arbitration(false), [(1, 100)]);
        assert_eq!(card.link_sl2vl(), map);
        card.set_link_word(LINK_WORD_TX_CREDITS + 3, 77);
        card.set_link_word(LINK_WORD_ERRORS + 12, 5);
    });
    let counters = context.link_counters(1).unwrap();
    assert_eq!(
        (counters.vls[3].tx_credits(), counters.vls[4].tx_credits()),
        (77, 0)
    );
    assert_eq!(counters.errors.fcp_sent(), 5);

    let config = LinkConfig::new().state(PortState::Down).vls(OpVls::One);
    context.link_config(1, &config).unwrap();
    let status = context.link_status(1).unwrap();
    assert_eq!((status.state, status.op_vls), (PortState::Down, OpVls::One));
    dev.assert_no_violations();
}

/// A refusal says what was wrong, in words.
#[test]
fn refusals_name_the_field() {
    let (dev, context) = infiniband();
    let text = |result: Result<()>| {
        let error = result.unwrap_err();
        assert_eq!(error.errno(), 22);
        error.to_string()
    };
    let armed = LinkConfig::new().state(PortState::Armed);
    assert!(text(context.link_config(1, &armed)).contains("state"));
    let vls = LinkConfig::new().vls(OpVls::Fifteen);
    assert!(text(context.link_config(1, &vls)).contains("op_vls"));
    let entries = [VlWeight { vl: 0, weight: 1 }, VlWeight { vl: 8, weight: 1 }];
    assert!(text(context.set_vl_arb(1, VlArbTable::Low, &entries)).contains("entry 1"));
    assert!(text(context.set_vl_arb(1, VlArbTable::Low, &[entries[0]; 65])).contains("at most 64"));
    let mut map = [0; 16];
    map[5] = 9;
    assert!(text(context.set_sl2vl(1, &map)).contains("SL 5"));
    map[5] = 16;
    assert!(text(context.set_sl2vl(1, &map)).contains("at most 15"));
    assert_eq!(context.link_status(1).unwrap().sl2vl[5], 5);
    dev.assert_no_violations();
}

/// RATE-5, RATE-8, ADDR-4, ADDR-13: what an address says of lane, rate and source reaches the card.
#[test]
fn paths_reach_the_card() {
    let (dev, context) = infiniband();
    let mut lmc = ModifyPortCmd::new();
    lmc.set_port_num(1);
    lmc.set_lid(0x40);
    lmc.set_lmc(3);
    lmc.set_attr_mask(port_attr::LMC | port_attr::LID);
    context.modify_port(&lmc).unwrap();
    let pd = context.alloc_pd().unwrap();
    let cq = context.create_cq(&CqOptions::new(16)).unwrap();
    let qp = || pd.create_qp(&QpOptions::new(&cq, &cq)).unwrap();
    let options = ConnectOptions {
        sl: 11,
        static_rate: StaticRate::Gbps10.into(),
        ..ConnectOptions::default()
    };
    let (a, _b) = connect_pair(qp(), qp(), &options).unwrap();
    let qpc = dev.with_card(|card| card.qpc(a.qp_num()));
    // 10 Gbit/s: a byte takes a fifth of a cycle.
    assert_eq!(
        (qpc.sl(), qpc.static_rate(), qpc.rate_interval()),
        (11, 3, 65536 / 5 + 1)
    );
    assert_ne!(qpc.rate_group(), 0);
    assert_eq!(a.query().unwrap().ah_attr.static_rate, 3);

    let mut raw = qp().into_raw();
    raw.modify(
        &QpAttr {
            qp_state: QpState::Init,
            ..QpAttr::default()
        },
        init_mask(),
    )
    .unwrap();
    let mut to_rtr = |src_path_bits, static_rate| {
        let ah_attr = AhAttr {
            dlid: 5,
            src_path_bits,
            static_rate,
            ..AhAttr::default()
        };
        let attr = QpAttr {
            qp_state: QpState::Rtr,
            ah_attr,
            ..QpAttr::default()
        };
        raw.modify(&attr, rtr_mask())
    };
    for (src_path_bits, static_rate) in [(8, 0), (0, 1), (0, 25), (0, 255)] {
        assert_eq!(to_rtr(src_path_bits, static_rate).unwrap_err().errno(), 22);
    }
    to_rtr(7, 2).unwrap();
    let qpc = dev.with_card(|card| card.qpc(raw.qp_num()));
    assert_eq!(
        (qpc.src_path_bits(), qpc.static_rate(), qpc.rate_interval()),
        (7, 2, 52429)
    );
    // RATE-4: another destination, another group.
    assert_ne!(
        qpc.rate_group(),
        dev.with_card(|card| card.qpc(a.qp_num())).rate_group()
    );
    assert_eq!(raw.query().unwrap().ah_attr.src_path_bits, 7);
    dev.assert_no_violations();
}

/// Ethernet: what is set of priorities is what the hardware has and what the card says of it: the map of DSCPs, classes
/// with their weights, strict ones. A refusal names what is wrong, and changes nothing.
#[test]
fn priorities_are_configured_and_looked_at() {
    let bench = Bench::new(16);
    let context = &bench.context;
    let status = context.link_status(1).unwrap();
    assert_eq!((status.trust, status.ets), (EthTrust::Dscp, None));
    assert!((0..64).all(|dscp| status.dscp[dscp] == dscp as u8 >> 3));
    assert!((0..8).all(|priority| status.sl2vl[priority] == priority as u8));
    let ets = EtsConfig {
        prio_tc: [0, 0, 1, 1, 2, 2, 0, 2],
        strict: 4,
        percent: [20, 80, 0, 0, 0, 0, 0, 0],
    };
    let config = LinkConfig::new()
        .ets(ets)
        .dscp(26, 6)
        .dscp(63, 0)
        .trust(EthTrust::Pcp)
        .pfc_enable(8);
    context.link_config(1, &config).unwrap();
    let seen = context.link_status(1).unwrap();
    assert_eq!(
        (seen.ets, seen.trust, seen.pfc_enable),
        (Some(ets), EthTrust::Pcp, 8)
    );
    assert_eq!((seen.dscp[25], seen.dscp[26], seen.dscp[63]), (3, 6, 0));
    bench.dev.with_card(|card| {
        assert_eq!(card.link_arbitration(true), []);
        assert_eq!(card.link_arbitration(false), [(0, 60), (1, 240)]);
        assert_eq!(card.link_sl2vl()[..8], ets.prio_tc);
        assert_eq!(card.link_dscp(), seen.dscp);
        assert_eq!(
            (card.link_ctrl().strict(), card.link_ctrl().trust_pcp()),
            (4, true)
        );
        card.set_link_word(LINK_WORD_PFC_SENT + 3, 7);
        card.set_link_word(LINK_WORD_PFC_PAUSED + 3, 99);
        card.set_link_word(LINK_WORD_PFC_XOFF, 256);
    });
    let pfc = context.pfc_status(1).unwrap();
    let counts = pfc
        .priorities
        .map(|p| (p.sent(), p.received(), p.paused_cycles()));
    assert_eq!(
        (counts[3], counts[2], pfc.xoff_blocks),
        ((7, 0, 99), (0, 0, 0), 256)
    );
    let refused = |config: LinkConfig, word: &str| {
        let error = context.link_config(1, &config).unwrap_err();
        assert!(error.errno() == 22 && error.to_string().contains(word), "{error}");
    };
    refused(LinkConfig::new().dscp(1, 8).pfc_enable(1), "dscp");
    let short = EtsConfig {
        percent: [20, 79, 0, 0, 0, 0, 0, 0],
        ..ets
    };
    refused(LinkConfig::new().ets(short), "ets");
    refused(LinkConfig::new().dscp(64, 1).pfc_enable(1), "64 is no DSCP");
    let mut classes = ets;
    classes.prio_tc[7] = 16;
    refused(LinkConfig::new().ets(classes), "16 is no traffic class");
    assert_eq!(context.link_status(1).unwrap(), seen);
    bench.dev.assert_no_violations();
}

/// On Ethernet the priority is that of the DSCP, by the port's map.
#[test]
fn ethernet_priorities_follow_the_dscp() {
    let bench = Bench::new(16);
    let options = ConnectOptions {
        sl: 9,
        traffic_class: 0xb4,
        ..ConnectOptions::default()
    };
    let (a, _b) = connect_pair(bench.qp(QpCap::default()), bench.qp(QpCap::default()), &options).unwrap();
    let qpc = bench.dev.with_card(|card| card.qpc(a.qp_num()));
    assert_eq!((qpc.sl(), qpc.traffic_class()), (5, 0xb4));
    let attr = a.query().unwrap();
    assert_eq!(attr.ah_attr.sl, 9, "what was set is what is queried");
    bench
        .context
        .link_config(1, &LinkConfig::new().dscp(0xb4 >> 2, 2))
        .unwrap();
    let (a, _b) = connect_pair(bench.qp(QpCap::default()), bench.qp(QpCap::default()), &options).unwrap();
    assert_eq!(bench.dev.with_card(|card| card.qpc(a.qp_num())).sl(), 2);
}

/// EVT PORT_ACTIVE, PORT_ERR, LID_CHANGE, PKEY_CHANGE, GID_CHANGE: once per change, with the number of the port, and
/// none for what stays as it was.
#[test]
fn changes_of_a_port_are_events() {
    let (dev, context) = infiniband();
    let expect = |what: &str, kinds: &[EventKind]| {
        let events = std::iter::from_fn(|| context.poll_async_event());
        let seen: Vec<_> = events.map(|event| (event.kind, event.id)).collect();
        let wanted: Vec<_> = kinds.iter().map(|kind| (*kind, 1)).collect();
        assert_eq!(seen, wanted, "{what}");
    };
    expect("nothing has happened", &[]);
    dev.with_card(|card| card.set_phy_up(false));
    dev.settle();
    expect("the link waits for its cable", &[]);
    dev.with_card(|card| card.set_phy_up(true));
    dev.settle();
    expect("the cable is back in time", &[]);
    let go = |state| context.link_config(1, &LinkConfig::new().state(state)).unwrap();
    go(PortState::Down);
    expect("down", &[EventKind::PortErr]);
    go(PortState::Init);
    go(PortState::Armed);
    expect("still not active", &[]);
    go(PortState::Active);
    expect("active", &[EventKind::PortActive]);
    context.set_pkey(1, 3, 0x8003).unwrap();
    context.set_pkey(1, 3, 0x8003).unwrap();
    context.set_gid(1, 5, [9; 16]).unwrap();
    context.set_gid(1, 5, [9; 16]).unwrap();
    expect("tables", &[EventKind::PkeyChange, EventKind::GidChange]);
    dev.assert_no_violations();
}
