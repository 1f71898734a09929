//! In line with the packets around them; what nobody may do after them; strangers.

use super::*;

/// OP-11: WRITEs before a SEND with invalidate count, in one list of work requests; READs before it, too. What is
/// behind it on its QP comes through as well, once and in order, while other QPs go on.
#[test]
fn op_11_in_order_on_its_queue() {
    for link in BOTH_LINKS {
        in_order(&RigConfig::new(68, link), 12);
    }
}

/// The same with loss, copies and disorder: a copy of a SEND with invalidate invalidates nothing a second time.
#[test]
fn op_11_in_order_with_faults() {
    for link in BOTH_LINKS {
        for seed in 0..3 {
            let faults = FaultSpec {
                loss: 0.03,
                corrupt: 0.01,
                dup: 0.05,
                reorder: 0.05,
                ..FaultSpec::default()
            };
            let config = RigConfig {
                faults,
                ..RigConfig::new(690 + seed, link)
            };
            in_order(&config, 12);
        }
    }
}

/// Rounds of: bind, and the peer posts WRITE, READ, SEND with invalidate of it and a SEND at once; others in between.
fn in_order(config: &RigConfig, rounds: u32) {
    let is_lossy = config.faults.loss > 0.0;
    let mut pair = pair_on(config);
    let mut rng = Rng::new(config.seed, "order");
    let mut qps = more(&pair);
    let mut others = more(&pair);
    let mut mw = window(&pair, MwType::Two);
    for round in 0..rounds {
        let how = whole(&mw, &pair.mrs[1]);
        let rkey = bind(&pair, &mut qps[1], &mut mw, how);
        let remote_addr = how.addr;
        let (len, sent) = (1 + rng.below(BYTES as u32), rng.below(3000));
        let targets = [pair.mrs[1].sge(30_000, 3000), pair.mrs[1].sge(34_000, 3000)];
        for (number, target) in targets.iter().enumerate() {
            let sges = std::slice::from_ref(target);
            qps[1]
                .post_recv(&[RecvWr {
                    wr_id: 20 + number as u64,
                    sges,
                }])
                .unwrap();
        }
        let bytes = pair.expected(0, 0, len);
        pair.expect(1, AT, &bytes);
        let read = pair.expected(1, AT, len);
        pair.expect(0, 8000, &read);
        let message = pair.expected(0, 40_000, sent);
        pair.expect(1, 30_000, &message);
        pair.expect(1, 34_000, &message);
        let wr = |wr_id, op, sges| SendWr {
            wr_id,
            op,
            flags: SendFlags::SIGNALED,
            data: WrData::Sges(sges),
        };
        let (source, back) = ([pair.mrs[0].sge(0, len)], [pair.mrs[0].sge(8000, len)]);
        let text = [pair.mrs[0].sge(40_000, sent)];
        let mut list = [
            wr(1, SendOp::RdmaWrite { remote_addr, rkey }, &source[..]),
            wr(2, SendOp::RdmaRead { remote_addr, rkey }, &back[..]),
            wr(
                3,
                SendOp::SendWithInv {
                    invalidate_rkey: rkey,
                },
                &text[..],
            ),
            wr(4, SendOp::Send, &text[..]),
        ];
        // A READ whose answer is lost comes again when its key is dead: so it is the sender's to wait for it (OP-13).
        list[2].flags.fence = is_lossy;
        let noise = [pair.mrs[0].sge(20_000, 4000)];
        let noise_op = pair.write_to(1, 50_000);
        let noise_bytes = pair.expected(0, 20_000, 4000);
        pair.expect(1, 50_000, &noise_bytes);
        for _ in 0..3 {
            post(&mut others[0], noise_op, &noise);
        }
        qps[0].post_send(&list).unwrap();
        let mut ends: Vec<_> = (0..7).map(|_| pair.wait(0)).collect();
        assert!(
            ends.iter().all(|wc| wc.status == WcStatus::Success),
            "round {round}: {ends:?}"
        );
        ends.retain(|wc| wc.qp_num == qps[0].qp_num());
        assert_eq!(ends.iter().map(|wc| wc.wr_id).collect::<Vec<_>>(), [1, 2, 3, 4]);
        let first = pair.wait_ok(1, 20);
        assert_eq!(
            (first.byte_len, first.wc_flags, first.imm_data),
            (sent, WITH_INV, rkey)
        );
        let second = pair.wait_ok(1, 21);
        assert_eq!((second.byte_len, second.wc_flags), (sent, 0));
        pair.check_memory(&format!("{config:?}, round {round}"));
    }
    // The one NAK may be lost: the QP that has sent it is in error.
    let status = write8(&pair, &mut qps[0], mw.rkey(), pair.mrs[1].addr() + AT);
    assert!(
        status == WcStatus::RemAccessErr || (is_lossy && status == WcStatus::RetryExcErr),
        "{status:?}"
    );
    pair.check_memory("the last key");
}

/// KEY-30: while a peer hammers a window, the owner invalidates it, locally or by being asked to. Nothing that was
/// written behind the completion is ever seen.
#[test]
fn key_30_nothing_is_in_flight_behind_the_completion() {
    for link in BOTH_LINKS {
        let mut pair = pair(70, link);
        let mut rng = Rng::new(70, "flight");
        for round in 0..8u32 {
            let kind = if round % 2 == 0 { MwType::Two } else { MwType::One };
            let mut owner = more(&pair);
            let mut mw = bound(&pair, &mut owner[1], kind);
            let rkey = mw.rkey();
            let remote_addr = pair.mrs[1].addr() + AT;
            let source = [pair.mrs[0].sge(u64::from(round) * 4000, 4000)];
            for _ in 0..12 {
                post(&mut owner[0], SendOp::RdmaWrite { remote_addr, rkey }, &source);
            }
            pair.rig.run(u64::from(100 + rng.below(3000)));
            let op = match kind {
                MwType::Two => SendOp::LocalInv {
                    invalidate_rkey: rkey,
                },
                MwType::One => SendOp::BindMw(MwBind {
                    length: 0,
                    ..whole(&mw, &pair.mrs[1])
                }),
            };
            // The peer's failures end this QP, too, if they come first.
            let status = run(&pair, 1, &mut owner[1], op, &[]).status;
            if status != WcStatus::Success {
                assert_eq!(status, WcStatus::WrFlushErr);
                mw.destroy().unwrap();
            }
            let at = (common::CANARY_BYTES + AT) as usize;
            let look = |pair: &Pair| {
                let mut bytes = vec![0; 4000];
                pair.memory[1].buf().read_bytes(at, &mut bytes);
                bytes
            };
            let seen = look(&pair);
            pair.rig.run(40_000);
            assert!(
                look(&pair) == seen,
                "round {round}: written behind the completion"
            );
            pair.expect(1, AT, &seen);
            pair.check_memory(&format!("{link:?}, round {round}"));
            let ends: Vec<_> = (0..12).map(|_| pair.wait(0).status).collect();
            let good = ends.iter().take_while(|s| **s == WcStatus::Success).count();
            assert!(
                good == 12 || ends[good] == WcStatus::RemAccessErr,
                "round {round}: {ends:?}"
            );
        }
    }
}

/// D15: another function of the card can neither bind nor invalidate what is not its own, nor reach memory by a row
/// that it has written itself.
#[test]
fn d_15_a_neighbour_binds_and_invalidates_nothing() {
    for link in BOTH_LINKS {
        let mut pair = pair(71, link);
        let mut qps = more(&pair);
        let mw = bound(&pair, &mut qps[1], MwType::Two);
        let open =
            |node: usize| Node::open(pair.rig.sim.device(pair.rig.cards[node], 1).unwrap(), 64).unwrap();
        let (peer, intruder) = (open(0), open(1));
        let own = intruder.alloc(4096).unwrap();
        let mr = intruder.pd.reg_mr(&own, BINDABLE).unwrap();
        let victim = pair.mrs[1].lkey();
        let mut mine = intruder.pd.alloc_mw(MwType::Two).unwrap();
        let good = bind_of(mine.bind_op(next_rkey(mine.rkey()), &mr, mr.addr(), 64, all()));
        let ops = [
            (
                "their window",
                SendOp::LocalInv {
                    invalidate_rkey: mw.rkey(),
                },
            ),
            (
                "their window, bound",
                SendOp::BindMw(MwBind {
                    rkey: next_rkey(mw.rkey()),
                    ..good
                }),
            ),
            (
                "their region",
                SendOp::BindMw(MwBind {
                    lkey: victim,
                    addr: pair.mrs[1].addr(),
                    ..good
                }),
            ),
        ];
        let fresh = || {
            let mut qps = [&peer, &intruder].map(|node| node.create_qp(cap(), false).unwrap());
            hca_system_tests::connect(&mut qps, &path(Mtu::Bytes1024)).unwrap();
            qps
        };
        let end_of = |node: &Node| {
            let end_ns = pair.rig.now_ns() + common::LIMIT_NS;
            loop {
                if let Some(wc) = node.poll().unwrap() {
                    return wc.status;
                }
                assert!(pair.rig.now_ns() < end_ns, "no completion");
            }
        };
        for (what, op) in ops {
            let [_peer_qp, mut qp] = fresh();
            post(&mut qp, op, &[]);
            assert_eq!(end_of(&intruder), WcStatus::MwBindErr, "{what}");
        }
        let [mut peer_qp, mut qp] = fresh();
        qp.post_recv(&[RecvWr { wr_id: 1, sges: &[] }]).unwrap();
        post(
            &mut peer_qp,
            SendOp::SendWithInv {
                invalidate_rkey: mw.rkey(),
            },
            &[],
        );
        assert_eq!(end_of(&peer), WcStatus::RemAccessErr);
        // Its own works.
        let [_peer_qp, mut qp] = fresh();
        post(&mut qp, SendOp::BindMw(good), &[]);
        // The flushed receive came first.
        assert_eq!(end_of(&intruder), WcStatus::WrFlushErr);
        assert_eq!(end_of(&intruder), WcStatus::Success);
        mine.destroy().unwrap();
        writes(&mut pair, &mut qps[0], mw.rkey(), true, "untouched");
        pair.check_traffic("after the intruder");
    }
}
