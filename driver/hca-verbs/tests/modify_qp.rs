//! QPS-3, QPS-18: a modify does all of it or nothing, through the whole stack.

mod common;

use common::{Bench, Dev};
use hca_verbs::*;
use proptest::prelude::*;

const STATES: [QpState; 5] = [
    QpState::Reset,
    QpState::Init,
    QpState::Rtr,
    QpState::Rts,
    QpState::Sqd,
];

/// A QP in the given state, with every attribute that may be set by then.
fn qp_in(bench: &Bench, state: QpState) -> RawQp<Dev> {
    let mut qp = bench.qp(QpCap::default()).into_raw();
    let attr = legal(bench);
    let mut step = |state, bits: &[QpAttrMask]| {
        let mask = bits.iter().fold(QpAttrMask::STATE, |a, b| a | *b);
        qp.modify(
            &QpAttr {
                qp_state: state,
                ..attr
            },
            mask,
        )
        .unwrap();
    };
    use QpAttrMask as M;
    let steps: [(QpState, &[M]); 4] = [
        (QpState::Init, &[M::PKEY_INDEX, M::PORT, M::ACCESS_FLAGS]),
        (
            QpState::Rtr,
            &[
                M::AV,
                M::PATH_MTU,
                M::DEST_QPN,
                M::RQ_PSN,
                M::MAX_DEST_RD_ATOMIC,
                M::MIN_RNR_TIMER,
            ],
        ),
        (
            QpState::Rts,
            &[
                M::SQ_PSN,
                M::TIMEOUT,
                M::RETRY_CNT,
                M::RNR_RETRY,
                M::MAX_QP_RD_ATOMIC,
            ],
        ),
        (QpState::Sqd, &[]),
    ];
    for (to, bits) in steps
        .into_iter()
        .take(STATES.iter().position(|s| *s == state).unwrap())
    {
        step(to, bits);
    }
    qp
}

/// Attributes that are all legal, and all differ from those of a fresh QP.
fn legal(bench: &Bench) -> QpAttr {
    QpAttr {
        path_mtu: Mtu::Bytes2048,
        rq_psn: 0xab_cdef,
        sq_psn: 0x12_3456,
        dest_qp_num: 0x654,
        qp_access_flags: Access::REMOTE_READ,
        ah_attr: AhAttr {
            dgid: gid_of_ipv4([10, 0, 0, 2]),
            sgid_index: 1,
            is_global: true,
            ..AhAttr::default()
        },
        pkey_index: 0,
        max_rd_atomic: 4,
        max_dest_rd_atomic: 5,
        min_rnr_timer: 6,
        timeout: 7,
        retry_cnt: 3,
        rnr_retry: 2,
        ..QpAttr::default()
    }
    .with_port(bench)
}

trait WithPort {
    fn with_port(self, bench: &Bench) -> Self;
}

impl WithPort for QpAttr {
    fn with_port(self, bench: &Bench) -> Self {
        assert!(bench.context.query_port(self.port_num).is_ok());
        self
    }
}

/// What modify is asked for: the legal attributes, changed a little.
fn changed(bench: &Bench, to: QpState) -> QpAttr {
    QpAttr {
        qp_state: to,
        qp_access_flags: Access::REMOTE_WRITE,
        min_rnr_timer: 9,
        timeout: 8,
        ..legal(bench)
    }
}

fn try_modify(bench: &Bench, qp: &mut RawQp<Dev>, to: QpState, mask: QpAttrMask) -> bool {
    let before = qp.query().unwrap();
    let software_state = qp.state();
    match qp.modify(&changed(bench, to), mask) {
        Ok(()) => true,
        Err(e) => {
            // APM and resizing are known but not supported (QPS-22).
            assert!([22, 95].contains(&e.errno()), "{e}");
            assert_eq!(
                (qp.query().unwrap(), qp.state()),
                (before, software_state),
                "{mask:?} to {to:?}"
            );
            false
        }
    }
}

/// Each transition with each single attribute missing or added.
#[test]
fn one_bit_more_or_less() {
    let bench = Bench::new(64);
    let mut accepted = 0;
    for from in STATES {
        for to in [STATES.as_slice(), &[QpState::Sqe, QpState::Err]].concat() {
            let bases = [1u32, 0x39, 0x2_9181 | 1 << 20 | 1 << 12, 0x1_2e01];
            for bits in bases
                .iter()
                .flat_map(|base| (0..32).map(move |bit| base ^ 1 << bit))
                .chain(bases)
            {
                let mut qp = qp_in(&bench, from);
                accepted += usize::from(try_modify(&bench, &mut qp, to, QpAttrMask::from_bits(bits)));
            }
        }
    }
    assert!(accepted > 20, "{accepted} of all were accepted");
    bench.dev.assert_no_violations();
}

/// Each attribute with a value out of range: EINVAL and the QP as it was.
#[test]
fn one_bad_value() {
    use QpAttrMask as M;
    let bench = Bench::new(64);
    let ok = legal(&bench);
    let path = |ah_attr| QpAttr { ah_attr, ..ok };
    let to_rtr =
        M::STATE | M::AV | M::PATH_MTU | M::DEST_QPN | M::RQ_PSN | M::MAX_DEST_RD_ATOMIC | M::MIN_RNR_TIMER;
    let rtr = [
        // QPS-21: no GRH on Ethernet; a GID that is not there; a peer whose MAC address nobody knows.
        path(AhAttr {
            is_global: false,
            ..ok.ah_attr
        }),
        path(AhAttr {
            sgid_index: 5,
            ..ok.ah_attr
        }),
        path(AhAttr {
            sgid_index: 16,
            ..ok.ah_attr
        }),
        path(AhAttr {
            sgid_index: 255,
            is_global: false,
            ..ok.ah_attr
        }),
        path(AhAttr {
            port_num: 2,
            ..ok.ah_attr
        }),
        path(AhAttr {
            dgid: [0x20; 16],
            ..ok.ah_attr
        }),
        path(AhAttr {
            flow_label: 1 << 20,
            ..ok.ah_attr
        }),
        path(AhAttr { sl: 16, ..ok.ah_attr }),
        path(AhAttr {
            src_path_bits: 128,
            ..ok.ah_attr
        }),
        QpAttr {
            dest_qp_num: 1 << 24,
            ..ok
        },
        QpAttr {
            max_dest_rd_atomic: 17,
            ..ok
        },
        QpAttr {
            min_rnr_timer: 32,
            ..ok
        },
    ];
    let to_rts =
        M::STATE | M::SQ_PSN | M::TIMEOUT | M::RETRY_CNT | M::RNR_RETRY | M::MAX_QP_RD_ATOMIC | M::CUR_STATE;
    let ready = QpAttr {
        cur_qp_state: QpState::Rtr,
        ..ok
    };
    let rts = [
        QpAttr { timeout: 32, ..ready },
        QpAttr {
            retry_cnt: 8,
            ..ready
        },
        QpAttr {
            rnr_retry: 8,
            ..ready
        },
        // QPS-15: the caller is wrong about the state.
        QpAttr {
            cur_qp_state: QpState::Rts,
            ..ready
        },
    ];
    let to_init = M::STATE | M::PKEY_INDEX | M::PORT | M::ACCESS_FLAGS;
    let init = [
        QpAttr { pkey_index: 32, ..ok },
        QpAttr { port_num: 0, ..ok },
        QpAttr { port_num: 2, ..ok },
        QpAttr {
            qp_access_flags: Access::from_bits(1 << 9),
            ..ok
        },
    ];
    for (from, to, mask, bad, good) in [
        (QpState::Reset, QpState::Init, to_init, &init[..], ok),
        (QpState::Init, QpState::Rtr, to_rtr, &rtr[..], ok),
        (QpState::Rtr, QpState::Rts, to_rts, &rts[..], ready),
    ] {
        let mut qp = qp_in(&bench, from);
        let before = qp.query().unwrap();
        for attr in bad {
            let error = qp
                .modify(
                    &QpAttr {
                        qp_state: to,
                        ..*attr
                    },
                    mask,
                )
                .unwrap_err();
            assert_eq!(error.errno(), 22, "{attr:?}");
            assert_eq!(qp.query().unwrap(), before);
        }
        qp.modify(&QpAttr { qp_state: to, ..good }, mask).unwrap();
    }
}

/// QPS-19: without CHANGE_PHY_PORT a QP stays at its port, also in SQD.
#[test]
fn the_port_stays() {
    use QpAttrMask as M;
    const CHANGE_PHY_PORT: u64 = 1 << 5;
    let bench = Bench::new(64);
    assert_eq!(
        bench.context.query_device().unwrap().device_cap_flags() & CHANGE_PHY_PORT,
        0
    );
    let mut qp = drained(&bench, false);
    assert!(!try_modify(&bench, &mut qp, QpState::Sqd, M::STATE | M::PORT));
    assert!(!try_modify(
        &bench,
        &mut qp,
        QpState::Sqd,
        M::STATE | M::PORT | M::AV
    ));
    assert!(try_modify(
        &bench,
        &mut qp,
        QpState::Sqd,
        M::STATE | M::AV | M::TIMEOUT
    ));
}

/// In SQD, drained; with the notice or without.
fn drained(bench: &Bench, notify: bool) -> RawQp<Dev> {
    let mut qp = qp_in(bench, QpState::Rts);
    drain(bench, &mut qp, notify.then_some(true));
    qp
}

/// To SQD; `notify`: en_sqd_async_notify, if it is given at all. Was there a notice?
fn drain(bench: &Bench, qp: &mut RawQp<Dev>, notify: Option<bool>) -> bool {
    let attr = QpAttr {
        qp_state: QpState::Sqd,
        en_sqd_async_notify: notify.unwrap_or(true),
        ..QpAttr::default()
    };
    let mask = match notify {
        Some(_) => QpAttrMask::STATE | QpAttrMask::EN_SQD_ASYNC_NOTIFY,
        None => QpAttrMask::STATE,
    };
    qp.modify(&attr, mask).unwrap();
    bench.dev.settle();
    assert!(!qp.query().unwrap().sq_draining);
    bench
        .context
        .poll_async_event()
        .is_some_and(|event| event.kind == EventKind::SqDrained)
}

/// QPS-11: who moves a QP to SQD says each time whether the end of it is an event.
#[test]
fn a_drain_notice_is_asked_for_each_time() {
    let bench = Bench::new(64);
    let mut qp = qp_in(&bench, QpState::Rts);
    for (notify, wanted) in [
        (Some(true), true),
        (None, false),
        (Some(false), false),
        (Some(true), true),
        (Some(false), false),
        (None, false),
    ] {
        assert_eq!(drain(&bench, &mut qp, notify), wanted, "{notify:?}");
        assert_eq!(qp.query().unwrap().en_sqd_async_notify, wanted);
        let rts = QpAttr {
            qp_state: QpState::Rts,
            ..QpAttr::default()
        };
        qp.modify(&rts, QpAttrMask::STATE).unwrap();
        assert!(!qp.query().unwrap().en_sqd_async_notify, "it is over");
    }
}

/// WIRE-18: on InfiniBand as given; on Ethernet no packet is sent that the first router would drop.
#[test]
fn hop_limits() {
    let infiniband = LinkLayer::Infiniband;
    for (link, given, sent) in [
        (LinkLayer::Ethernet, 0, 64),
        (LinkLayer::Ethernet, 1, 64),
        (LinkLayer::Ethernet, 2, 2),
        (LinkLayer::Ethernet, 64, 64),
        (LinkLayer::Ethernet, 255, 255),
        (infiniband, 0, 0),
        (infiniband, 1, 1),
        (infiniband, 64, 64),
        (infiniband, 255, 255),
    ] {
        let bench = Bench::new(64);
        bench.context.set_link_layer(1, link).unwrap();
        let mut qp = qp_in(&bench, QpState::Init);
        let ok = legal(&bench);
        let attr = QpAttr {
            qp_state: QpState::Rtr,
            ah_attr: AhAttr {
                hop_limit: given,
                dlid: 7,
                ..ok.ah_attr
            },
            ..ok
        };
        use QpAttrMask as M;
        let connect = M::STATE | M::AV | M::PATH_MTU | M::DEST_QPN | M::RQ_PSN;
        qp.modify(&attr, connect | M::MAX_DEST_RD_ATOMIC | M::MIN_RNR_TIMER)
            .unwrap();
        let qpc = bench.dev.with_card(|card| card.qpc(qp.qp_num()));
        assert_eq!(qpc.hop_limit(), sent, "{link:?} {given}");
        assert_eq!(qp.query().unwrap().ah_attr.hop_limit, given, "what was given");
    }
}

/// RoCEv2 headers of a path: traffic class and flow label as given, whatever marks of congestion it holds; a source
/// port from the flow label, or from both QPNs; over IPv4 and IPv6 alike.
#[test]
fn headers_of_a_path() {
    use QpAttrMask as M;
    let bench = Bench::new(64);
    let neighbour = hca_lone::LoneCard::neighbour().gids();
    for (sgid_index, dgid) in (0..).zip(neighbour) {
        for (flow_label, traffic_class, port) in [
            (0, 0, None),
            (1, 0xff, Some(0xc001)),
            (0xf_ffff, 0x2e << 2, Some(0xffc0)),
        ] {
            for given in [0, 1, 2, 64] {
                let mut qp = qp_in(&bench, QpState::Init);
                let ok = legal(&bench);
                let attr = QpAttr {
                    qp_state: QpState::Rtr,
                    dest_qp_num: 0x34,
                    ah_attr: AhAttr {
                        dgid,
                        sgid_index,
                        is_global: true,
                        flow_label,
                        traffic_class,
                        hop_limit: given,
                        dmac: [0; 6],
                        ..ok.ah_attr
                    },
                    ..ok
                };
                let connect = M::STATE | M::AV | M::PATH_MTU | M::DEST_QPN | M::RQ_PSN;
                qp.modify(&attr, connect | M::MAX_DEST_RD_ATOMIC | M::MIN_RNR_TIMER)
                    .unwrap();
                let qpc = bench.dev.with_card(|card| card.qpc(qp.qp_num()));
                // Both QPNs are small: the product needs no folding but that of its upper bits.
                let product = qp.qp_num() * 0x34;
                let made = 0xc000 | ((product & 0x3fff) ^ (product >> 14)) as u16;
                assert_eq!(qpc.udp_src_port(), port.unwrap_or(made));
                assert_eq!(qpc.traffic_class(), traffic_class);
                assert_eq!(qpc.is_ipv4(), sgid_index == 1);
                assert_eq!(qpc.hop_limit(), if given < 2 { 64 } else { given });
            }
        }
    }
}

/// A peer may offer more READs outstanding than the card can have: then it has fewer. To offer them itself is refused.
/// Who connects agrees on the lesser.
#[test]
fn read_depth() {
    let bench = Bench::new(64);
    let limit = bench.context.query_device().unwrap().max_qp_rd_atom() as u8;
    use QpAttrMask as M;
    let mut qp = qp_in(&bench, QpState::Init);
    let attr = QpAttr {
        qp_state: QpState::Rtr,
        max_dest_rd_atomic: limit + 1,
        ..legal(&bench)
    };
    let connect = M::STATE | M::AV | M::PATH_MTU | M::DEST_QPN | M::RQ_PSN;
    let refused = qp.modify(&attr, connect | M::MAX_DEST_RD_ATOMIC | M::MIN_RNR_TIMER);
    assert_eq!(refused.unwrap_err().errno(), 22);
    let attr = QpAttr {
        max_dest_rd_atomic: limit,
        ..attr
    };
    qp.modify(&attr, connect | M::MAX_DEST_RD_ATOMIC | M::MIN_RNR_TIMER)
        .unwrap();
    let attr = QpAttr {
        qp_state: QpState::Rts,
        max_rd_atomic: 128,
        ..attr
    };
    let rts = M::STATE | M::SQ_PSN | M::TIMEOUT | M::RETRY_CNT | M::RNR_RETRY;
    qp.modify(&attr, rts | M::MAX_QP_RD_ATOMIC).unwrap();
    let found = qp.query().unwrap();
    assert_eq!((found.max_rd_atomic, found.max_dest_rd_atomic), (limit, limit));
    for (ours, theirs, agreed) in [
        (16, 128, limit),
        (255, 255, limit),
        (4, 128, 4),
        (16, 2, 2),
        (0, 16, 0),
    ] {
        let mut qp = qp_in(&bench, QpState::Init);
        let options = ConnectOptions {
            rd_atomic: ours,
            ..ConnectOptions::default()
        };
        let own = peer_info(&qp, &options, 0).unwrap();
        assert_eq!(own.rd_atomic, ours.min(limit));
        let peer = PeerInfo {
            rd_atomic: theirs,
            ..own
        };
        connect_raw(&mut qp, &options, 0, &peer).unwrap();
        let attr = qp.query().unwrap();
        assert_eq!((attr.max_rd_atomic, attr.max_dest_rd_atomic), (agreed, agreed));
    }
}

/// The typed QP comes back from a failed transition, and works.
#[test]
fn a_failed_transition_gives_the_qp_back() {
    let bench = Bench::new(64);
    let failed = bench
        .qp(QpCap::default())
        .to_init(&QpAttr {
            port_num: 9,
            ..QpAttr::default()
        })
        .unwrap_err();
    assert!(
        failed.to_string().contains("ModifyQp refused: BadParam"),
        "{failed}"
    );
    let qp = failed.qp.to_init(&QpAttr::default()).unwrap();
    assert_eq!(qp.to_reset().unwrap().query().unwrap().qp_state, QpState::Reset);
}

proptest! {
    /// QPS-18 for any mask, known bits or not.
    #[test]
    fn any_mask(from in 0usize..5, to in 0u8..7, bits in any::<u32>(), keep in any::<u32>()) {
        let bench = Bench::new(64);
        let mut qp = qp_in(&bench, STATES[from]);
        let to = QpState::try_from(to).unwrap();
        for bits in [bits, bits & keep, bits & keep | 1] {
            try_modify(&bench, &mut qp, to, QpAttrMask::from_bits(bits));
        }
        bench.dev.assert_no_violations();
    }
}
