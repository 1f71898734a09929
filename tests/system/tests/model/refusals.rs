//! What is refused: status and state at the one who asked, code on the wire, event at the one who refused; both roles.

use super::common::BOTH_LINKS;
use super::duel::{CARD_VA, Duel, MODEL_VA, REGION_BYTES, TARGET};
use hca_link::LinkKind;
use hca_model::{EventKind, Op, QpConfig, QpState, RecvRequest, Sge as ModelSge};
use hca_system_tests::opposite::{OppositeConfig, Way};
use hca_system_tests::path;
use hca_verbs::{ConnectOptions, Mtu, QpState as CardState, RecvWr, SendOp, Service, Sge, WcStatus};
use hca_wire::{NakCode, Syndrome};

/// What is wrong with a request.
#[derive(Clone, Copy, Debug)]
enum Wrong {
    Key,
    Range,
    RegionRight,
    QpRight,
    ShortReceive,
    ReceiveKey,
}

const ALL: [Wrong; 6] = [
    Wrong::Key,
    Wrong::Range,
    Wrong::RegionRight,
    Wrong::QpRight,
    Wrong::ShortReceive,
    Wrong::ReceiveKey,
];

impl Wrong {
    fn is_of_send(self) -> bool {
        matches!(self, Self::ShortReceive | Self::ReceiveKey)
    }

    /// Status of the sender, status of the receive, code of the NAK, event at the responder (REL-13, REL-16, section
    /// 17).
    fn outcome(self) -> (WcStatus, WcStatus, NakCode, Option<EventKind>) {
        match self {
            Self::ShortReceive => (
                WcStatus::RemInvReqErr,
                WcStatus::LocLenErr,
                NakCode::InvalidRequest,
                None,
            ),
            Self::ReceiveKey => (
                WcStatus::RemOpErr,
                WcStatus::LocProtErr,
                NakCode::RemoteOperational,
                None,
            ),
            _ => (
                WcStatus::RemAccessErr,
                WcStatus::WrFlushErr,
                NakCode::RemoteAccess,
                Some(EventKind::QpAccessErr),
            ),
        }
    }
}

fn options(wrong: Wrong) -> ConnectOptions {
    let usual = path(Mtu::Bytes1024);
    match wrong {
        Wrong::QpRight => ConnectOptions {
            access: hca_verbs::Access::LOCAL_WRITE,
            ..usual
        },
        _ => usual,
    }
}

fn duel(link: LinkKind, wrong: Wrong, change: impl FnOnce(&mut QpConfig)) -> Duel {
    let mut duel = Duel::with(
        &OppositeConfig::new(5, link),
        Service::Rc,
        &options(wrong),
        change,
    );
    duel.opposite.model.keep_log();
    if let Wrong::RegionRight = wrong {
        let bytes = duel.model_expected.clone();
        let access = hca_model::Access::LOCAL;
        duel.key = duel
            .opposite
            .model
            .with(|model| model.register(0, MODEL_VA, bytes, access));
        let place = hca_system_tests::Place::whole(duel.arena.buf(), hca_verbs::Access::LOCAL_WRITE, CARD_VA);
        duel.mr = duel.opposite.node.register(duel.arena.buf(), place).unwrap();
    }
    duel
}

/// The only NAK of the log, and which way it went.
fn nak(duel: &Duel) -> Option<(Way, NakCode)> {
    let log = duel.opposite.model.take_log();
    let mut found = log.iter().filter_map(|seen| {
        let syndrome = Syndrome::from_byte(seen.frame.packet.ext.aeth?.syndrome);
        match syndrome {
            Syndrome::Nak(code) => Some((seen.way, code)),
            _ => None,
        }
    });
    let first = found.next();
    assert_eq!(found.next(), None, "one refusal, one NAK");
    first
}

/// KEY-31, OP-21, REL-12, REL-13: the model refuses the card.
#[test]
fn the_model_refuses_the_card() {
    for (link, wrong) in BOTH_LINKS
        .into_iter()
        .flat_map(|link| ALL.map(|wrong| (link, wrong)))
    {
        for read in [false, true] {
            if wrong.is_of_send() && read {
                continue;
            }
            let mut duel = duel(link, wrong, |config| {
                if let Wrong::QpRight = wrong {
                    config.access = hca_model::Access::NONE;
                }
            });
            let (status, received, code, event) = wrong.outcome();
            let sge = match wrong {
                Wrong::ShortReceive => duel.model_sge(TARGET, 99),
                _ => ModelSge::new(duel.key ^ 0x4000_0000, MODEL_VA, 100),
            };
            let receive = RecvRequest::new(7, vec![sge]);
            duel.opposite.model.post_recv(duel.qpn, receive);
            let remote_addr = match wrong {
                Wrong::Range => MODEL_VA + REGION_BYTES - 99,
                _ => MODEL_VA,
            };
            let rkey = match wrong {
                Wrong::Key => duel.key ^ 0x100,
                _ => duel.key,
            };
            let op = match (wrong.is_of_send(), read) {
                (true, _) => SendOp::Send,
                (_, false) => SendOp::RdmaWrite { remote_addr, rkey },
                (_, true) => SendOp::RdmaRead { remote_addr, rkey },
            };
            duel.post(1, op, 0, 100);
            duel.post(2, SendOp::Send, 0, 1);
            let what = format!("{link:?}, {wrong:?}, READ {read}");
            let wc = duel.wait();
            assert_eq!((wc.wr_id, wc.status), (1, status), "{what}");
            let wc = duel.wait();
            assert_eq!((wc.wr_id, wc.status), (2, WcStatus::WrFlushErr), "{what}");
            assert_eq!(duel.qp.query().unwrap().qp_state, CardState::Err, "{what}");
            let wc = duel.model_wait();
            assert_eq!((wc.wr_id, wc.status), (7, received), "{what}");
            assert_eq!(nak(&duel), Some((Way::Out, code)), "{what}");
            assert_eq!(
                duel.opposite.model.poll_event().map(|event| event.kind),
                event,
                "{what}"
            );
            duel.check_memory(&what);
        }
    }
}

/// KEY-31, OP-21, REL-12, REL-13, EVT: the card refuses the model.
#[test]
fn the_card_refuses_the_model() {
    for (link, wrong) in BOTH_LINKS
        .into_iter()
        .flat_map(|link| ALL.map(|wrong| (link, wrong)))
    {
        for read in [false, true] {
            if wrong.is_of_send() && read {
                continue;
            }
            let mut duel = duel(link, wrong, |_| ());
            let (status, received, code, event) = wrong.outcome();
            let good = duel.mr.sge(TARGET, 100);
            let sge = match wrong {
                Wrong::ShortReceive => duel.mr.sge(TARGET, 99),
                _ => Sge {
                    lkey: good.lkey ^ 0x100,
                    ..good
                },
            };
            let receive = RecvWr {
                wr_id: 7,
                sges: &[sge],
            };
            duel.qp.post_recv(&[receive]).unwrap();
            duel.opposite.run(500);
            let va = match wrong {
                Wrong::Range => CARD_VA + REGION_BYTES - 99,
                _ => CARD_VA,
            };
            let rkey = match wrong {
                Wrong::Key => duel.mr.rkey() ^ 0x100,
                _ => duel.mr.rkey(),
            };
            let op = match (wrong.is_of_send(), read) {
                (true, _) => Op::SEND,
                (_, false) => Op::Write { va, rkey, imm: None },
                (_, true) => Op::Read { va, rkey },
            };
            duel.model_post(1, op, 0, 100);
            duel.model_post(2, Op::SEND, 0, 1);
            let what = format!("{link:?}, {wrong:?}, READ {read}");
            let wc = duel.model_wait();
            assert_eq!((wc.wr_id, wc.status), (1, status), "{what}");
            let wc = duel.model_wait();
            assert_eq!((wc.wr_id, wc.status), (2, WcStatus::WrFlushErr), "{what}");
            let state = duel.opposite.model.with(|model| model.state(duel.qpn));
            assert_eq!(state, Ok(QpState::Err), "{what}");
            let wc = duel.wait();
            assert_eq!((wc.wr_id, wc.status), (7, received), "{what}");
            assert_eq!(nak(&duel), Some((Way::In, code)), "{what}");
            duel.opposite.run(10_000);
            let mut kinds = std::iter::from_fn(|| duel.opposite.node.context.poll_async_event());
            let found = kinds.find(|event| event.kind != EventKind::CommEst);
            assert_eq!(found.map(|event| event.kind), event, "{what}");
            duel.check_memory(&what);
        }
    }
}

/// OP-23: a peer that has more READs outstanding than was agreed on is refused.
#[test]
fn too_many_reads_are_an_invalid_request() {
    for link in BOTH_LINKS {
        let options = ConnectOptions {
            rd_atomic: 1,
            ..path(Mtu::Bytes256)
        };
        let config = OppositeConfig::new(6, link);
        let mut duel = Duel::with(&config, Service::Rc, &options, |config| config.max_rd_atomic = 16);
        let rkey = duel.mr.rkey();
        duel.reaches_model(0, TARGET, 40_000);
        for wr_id in 0..8 {
            duel.model_post(wr_id, Op::Read { va: CARD_VA, rkey }, TARGET, 40_000);
        }
        let statuses: Vec<WcStatus> = (0..8).map(|_| duel.model_wait().status).collect();
        assert!(
            statuses.contains(&WcStatus::RemInvReqErr),
            "{link:?}: {statuses:?}"
        );
        let state = duel.qp.query().unwrap().qp_state;
        assert_eq!(state, CardState::Err, "{link:?}");
    }
}
