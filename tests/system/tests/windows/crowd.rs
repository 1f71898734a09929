//! Many windows, many queues, and ends amid operations.

use super::*;

fn all_ok(pair: &Pair, node: usize, count: u32) {
    for _ in 0..count {
        pair.wait_ok(node, 7);
    }
}

/// A card full of windows that are bound and invalidated by many QPs at once, with traffic beside them: all end well.
#[test]
fn storm_of_binds() {
    for link in BOTH_LINKS {
        let mut pair = pair(72, link);
        let mut rng = Rng::new(72, "storm");
        let mut many: Vec<(Qps, Mw<Dev>)> = (0..16)
            .map(|_| (more(&pair), window(&pair, MwType::Two)))
            .collect();
        let noise = [pair.mrs[0].sge(20_000, 4000)];
        let noise_bytes = pair.expected(0, 20_000, 4000);
        pair.expect(1, 50_000, &noise_bytes);
        for _ in 0..5 {
            let mut noise_left = 0;
            for (number, (qps, mw)) in many.iter_mut().enumerate() {
                let at = pair.mrs[1].addr() + 64 * number as u64;
                let to = bind_of(mw.bind_op(next_rkey(mw.rkey()), &pair.mrs[1], at, 64, all()));
                post(&mut qps[1], SendOp::BindMw(to), &[]);
                mw.set_rkey(to.rkey);
                if rng.percent(50) {
                    let op = pair.write_to(1, 50_000);
                    pair.post(0, 7, op, &noise);
                    noise_left += 1;
                }
            }
            all_ok(&pair, 1, 16);
            for (number, (qps, mw)) in many.iter_mut().enumerate() {
                let (remote_addr, rkey) = (pair.mrs[1].addr() + 64 * number as u64, mw.rkey());
                let bytes = pair.expected(0, 128 * number as u64, 64);
                pair.expect(1, 64 * number as u64, &bytes);
                let sge = [pair.mrs[0].sge(128 * number as u64, 64)];
                post(&mut qps[0], SendOp::RdmaWrite { remote_addr, rkey }, &sge);
            }
            all_ok(&pair, 0, 16 + noise_left);
            pair.check_memory("after a round");
            for (number, (qps, mw)) in many.iter_mut().enumerate() {
                let invalidate_rkey = mw.rkey();
                if number % 2 == 0 {
                    post(&mut qps[1], SendOp::LocalInv { invalidate_rkey }, &[]);
                } else {
                    qps[1].post_recv(&[RecvWr { wr_id: 7, sges: &[] }]).unwrap();
                    post(&mut qps[0], SendOp::SendWithInv { invalidate_rkey }, &[]);
                }
            }
            all_ok(&pair, 1, 16);
            all_ok(&pair, 0, 8);
        }
        let (mut qps, mw) = many.remove(3);
        writes(&mut pair, &mut qps[0], mw.rkey(), false, "invalidated");
    }
}

/// A QP goes to ERR, and away, in the midst of binds and invalidations; the window is free for others, and the line
/// of the QP for the next one.
#[test]
fn qps_end_amid_operations() {
    for link in BOTH_LINKS {
        let mut pair = pair(73, link);
        let mut rng = Rng::new(73, "ends");
        for round in 0..12u32 {
            let mut qps = more(&pair);
            let mut mw = bound(&pair, &mut qps[1], MwType::Two);
            qps[1].post_recv(&[RecvWr { wr_id: 8, sges: &[] }]).unwrap();
            let invalidate_rkey = mw.rkey();
            match round % 2 {
                0 => post(&mut qps[1], SendOp::LocalInv { invalidate_rkey }, &[]),
                _ => post(&mut qps[0], SendOp::SendWithInv { invalidate_rkey }, &[]),
            }
            pair.rig.run(u64::from(rng.below(1500)));
            drop(qps);
            mw.destroy().unwrap();
            pair.rig.run(3000);
            while pair.rig.nodes[1].poll().unwrap().is_some() {}
            while pair.rig.nodes[0].poll().unwrap().is_some() {}
            pair.check_traffic("after the QPs");
        }
    }
}

/// V-136: windows are bound on UC, too; type 2 is invalidated by its owner, and SEND with invalidate is none of its
/// operations.
#[test]
fn v_136_unreliable_connections() {
    for link in BOTH_LINKS {
        let mut pair = pair(74, link);
        for kind in TYPES {
            let mut qps = [0, 1].map(|node: usize| {
                pair.rig.nodes[node]
                    .create_qp_of(Service::Uc, cap(), false)
                    .unwrap()
            });
            hca_system_tests::connect(&mut qps, &path(Mtu::Bytes1024)).unwrap();
            let mut mw = bound(&pair, &mut qps[1], kind);
            let (remote_addr, rkey) = (pair.mrs[1].addr() + AT, mw.rkey());
            let sge = [pair.mrs[0].sge(0, 3000)];
            let bytes = pair.expected(0, 0, 3000);
            pair.expect(1, AT, &bytes);
            let write = SendOp::RdmaWrite { remote_addr, rkey };
            run_ok(&pair, 0, &mut qps[0], write, &sge);
            pair.rig.run(5000);
            pair.check_memory("through the window");
            let end = match kind {
                MwType::One => SendOp::BindMw(MwBind {
                    length: 0,
                    ..whole(&mw, &pair.mrs[1])
                }),
                MwType::Two => SendOp::LocalInv {
                    invalidate_rkey: rkey,
                },
            };
            run_ok(&pair, 1, &mut qps[1], end, &[]);
            let other = [pair.mrs[0].sge(9000, 3000)];
            // Lost without a word.
            run_ok(&pair, 0, &mut qps[0], write, &other);
            pair.rig.run(5000);
            pair.check_memory("through no window");
            let wr = SendWr {
                wr_id: 1,
                op: SendOp::SendWithInv {
                    invalidate_rkey: rkey,
                },
                flags: SendFlags::SIGNALED,
                data: WrData::Sges(&[]),
            };
            assert!(qps[0].post_send(&[wr]).is_err());
            mw.destroy().unwrap();
        }
    }
}

/// V-166: what has no data is given none; many binds of one queue, unsignaled ones among them, over the edges of the
/// blocks in which the card keeps them, with messages between.
#[test]
fn binds_among_messages() {
    for link in BOTH_LINKS {
        let mut pair = pair(75, link);
        let mut rng = Rng::new(75, "among");
        let mut qps = more(&pair);
        let mut mw = window(&pair, MwType::One);
        let data = [pair.mrs[1].sge(0, 8)];
        let op = SendOp::BindMw(whole(&mw, &pair.mrs[1]));
        for data in [WrData::Sges(&data), WrData::Inline(&[1])] {
            let wr = SendWr {
                wr_id: 1,
                op,
                flags: SendFlags::SIGNALED,
                data,
            };
            assert!(qps[1].post_send(&[wr]).is_err());
        }
        let bytes = pair.expected(1, 0, 500);
        pair.expect(0, 3000, &bytes);
        let write = pair.write_to(0, 3000);
        let source = [pair.mrs[1].sge(0, 500)];
        for round in 0..10 {
            let mut list = Vec::new();
            for number in 0..13 {
                let is_bind = rng.percent(50);
                if is_bind {
                    let to = whole(&mw, &pair.mrs[1]);
                    mw.set_rkey(to.rkey);
                    list.push((SendOp::BindMw(to), number == 12));
                } else {
                    list.push((write, number == 12));
                }
            }
            let wrs: Vec<_> = (list.iter())
                .map(|(op, is_last)| SendWr {
                    wr_id: 7,
                    op: *op,
                    flags: if *is_last {
                        SendFlags::SIGNALED
                    } else {
                        SendFlags::default()
                    },
                    data: WrData::Sges(if matches!(op, SendOp::BindMw(_)) {
                        &[]
                    } else {
                        &source
                    }),
                })
                .collect();
            qps[1].post_send(&wrs).unwrap();
            pair.wait_ok(1, 7);
            pair.silent(1, 100);
            let rkey = mw.rkey();
            if round % 3 == 0 {
                writes(&mut pair, &mut qps[0], rkey, true, "the newest key");
            }
        }
        pair.check_memory("all of them");
    }
}

/// OP-11: into a receive queue that several QPs share, whose slots come back all the same when the key is refused.
#[test]
fn op_11_shared_receive_queues() {
    for kind in BOTH_LINKS {
        let mut bench = many::Bench::on(kind, Service::Rc, 3, 8);
        bench.post_all(0..8);
        let pd = &bench.rig.nodes[1].pd;
        let region = pd.reg_mr(bench.memory[1].buf(), BINDABLE).unwrap();
        let windows: Vec<_> = (0..2).map(|_| pd.alloc_mw(MwType::Two).unwrap()).collect();
        for (mw, qp) in windows.iter().zip(&mut bench.receivers) {
            let op = mw.bind_op(next_rkey(mw.rkey()), &region, region.addr(), 64, all());
            post(qp, op, &[]);
            while bench.rig.nodes[1].poll().unwrap().is_none() {}
        }
        for (qp, key, status) in [
            (0, next_rkey(windows[0].rkey()), WcStatus::Success),
            (2, next_rkey(windows[1].rkey()), WcStatus::RemAccessErr),
            (1, next_rkey(windows[1].rkey()), WcStatus::Success),
        ] {
            let source = [bench.mrs[0].sge(0, 0)];
            post(
                &mut bench.senders[qp],
                SendOp::SendWithInv { invalidate_rkey: key },
                &source,
            );
            let wc = bench.wait(0);
            assert_eq!(wc.status, status, "{kind:?}, QP {qp}");
            let wc = bench.wait(1);
            if status == WcStatus::Success {
                assert_eq!((wc.status, wc.wc_flags, wc.imm_data), (status, WITH_INV, key));
            } else {
                assert_eq!(wc.status, WcStatus::WrFlushErr);
            }
        }
        assert_eq!(bench.srq.free_slots(), 3);
    }
}

/// KEY-27, V-135: the key table grows while windows are bound, some of them just then: what they are is what they were.
#[test]
fn v_135_windows_outlive_a_key_table() {
    for link in BOTH_LINKS {
        let mut pair = pair(77, link);
        let mut owners: Vec<Qps> = (0..4).map(|_| more(&pair)).collect();
        let mut windows: Vec<_> = owners
            .iter_mut()
            .map(|qps| bound(&pair, &mut qps[1], MwType::Two))
            .collect();
        let mut regions = Vec::new();
        let options = |number: usize| hca_verbs::MrOptions {
            offset: number,
            length: Some(1),
            ..hca_verbs::MrOptions::new(LOCAL_AND_REMOTE)
        };
        for number in 0..1100 {
            // The table has 1,024 rows, then 2,048.
            if number == 1000 || number == 1015 {
                let (qps, mw) = (&mut owners[number % 2], &mut windows[number % 2]);
                let invalidate_rkey = mw.rkey();
                post(&mut qps[1], SendOp::LocalInv { invalidate_rkey }, &[]);
                let to = whole(mw, &pair.mrs[1]);
                mw.set_rkey(to.rkey);
                post(&mut qps[1], SendOp::BindMw(to), &[]);
            }
            let buf = pair.memory[1].buf();
            regions.push(pair.rig.nodes[1].pd.reg_mr_with(buf, &options(number)).unwrap());
        }
        all_ok(&pair, 1, 4);
        for (qps, mw) in owners.iter_mut().zip(&windows) {
            writes(&mut pair, &mut qps[0], mw.rkey(), true, "as before");
            let invalidate_rkey = mw.rkey();
            run_ok(&pair, 1, &mut qps[1], SendOp::LocalInv { invalidate_rkey }, &[]);
            writes(
                &mut pair,
                &mut qps[0],
                invalidate_rkey,
                false,
                "invalidated in the new table",
            );
        }
    }
}

fn timed(pair: &Pair, run: &mut dyn FnMut()) -> u64 {
    let start_ns = pair.rig.now_ns();
    run();
    pair.rig.now_ns() - start_ns
}

/// What an operation costs on an idle card, from the post to its completion, and how many a card does in a second.
/// `cargo test ... what_operations_cost -- --nocapture` prints it.
#[test]
fn what_operations_cost() {
    for link in BOTH_LINKS {
        let mut pair = pair(76, link);
        let mut qps = more(&pair);
        let mut mw = window(&pair, MwType::Two);
        let how = whole(&mw, &pair.mrs[1]);
        let bind_ns = timed(&pair, &mut || {
            bind(&pair, &mut qps[1], &mut mw, how);
        });
        let op = SendOp::LocalInv {
            invalidate_rkey: mw.rkey(),
        };
        let local_ns = timed(&pair, &mut || {
            run_ok(&pair, 1, &mut qps[1], op, &[]);
        });
        let how = whole(&mw, &pair.mrs[1]);
        let invalidate_rkey = bind(&pair, &mut qps[1], &mut mw, how);
        let mut send_ns = [0; 2];
        for (op, ns) in [SendOp::Send, SendOp::SendWithInv { invalidate_rkey }]
            .into_iter()
            .zip(&mut send_ns)
        {
            qps[1].post_recv(&[RecvWr { wr_id: 1, sges: &[] }]).unwrap();
            pair.rig.run(2000);
            *ns = timed(&pair, &mut || {
                run_ok(&pair, 0, &mut qps[0], op, &[]);
            });
            pair.wait_ok(1, 1);
        }
        let mut many: Vec<_> = (0..32)
            .map(|_| (more(&pair), window(&pair, MwType::One)))
            .collect();
        let all_ns = timed(&pair, &mut || {
            for (qps, mw) in &mut many {
                let how = whole(mw, &pair.mrs[1]);
                post(&mut qps[1], SendOp::BindMw(how), &[]);
            }
            all_ok(&pair, 1, 32);
        });
        println!(
            "{link:?}: bind {bind_ns} ns, invalidate {local_ns} ns, SEND {} ns, with invalidate {} ns; \
             32 QPs: {} ns per bind",
            send_ns[0],
            send_ns[1],
            all_ns / 32
        );
        assert!(bind_ns.max(local_ns).max(send_ns[1]) < 20_000);
    }
}
