//! What is refused, by whom, with which errno, and that nothing has changed then.

mod common;

use std::collections::HashSet;
use std::sync::Arc;

use common::{Bench, Dev, all_rights, send};
use hca_dev::Device;
use hca_verbs::*;

const ENOMEM: i32 = 12;
const EBUSY: i32 = 16;
const EINVAL: i32 = 22;
const EOPNOTSUPP: i32 = 95;

/// With a pointer that is Send, every object is.
#[test]
fn objects_are_send_if_the_pointer_is() {
    fn check<T: Send>() {}
    type Shared = Arc<dyn Device + Send + Sync>;
    check::<Context<Shared>>();
    check::<(
        Pd<Shared>,
        Mr<Shared>,
        Cq<Shared>,
        CompChannel<Shared>,
        Qp<Rts, Shared>,
        RawQp<Shared>,
    )>();
}

/// V-164: found at post time, returned at once; earlier ones of the list stay posted (V-165, V-166).
#[test]
fn bad_work_requests() {
    let bench = Bench::new(64);
    let cap = QpCap {
        max_send_wr: 4,
        max_recv_wr: 2,
        max_send_sge: 2,
        max_inline_data: 0,
        ..QpCap::default()
    };
    let (mut a, mut b) = bench.pair(cap);
    let cap = a.cap();
    assert_eq!(
        (
            cap.max_send_wr,
            cap.max_recv_wr,
            cap.max_send_sge,
            cap.max_inline_data
        ),
        (4, 2, 2, 32)
    );
    bench.dev.with_card(|card| card.auto = false);
    let sge = [bench.mr.sge(0, 1); 17];
    let errno = |bad: BadWr| (bad.index, bad.error.errno());
    let good = send(1, &sge[..1]);
    assert_eq!(
        a.post_send(&[good, send(2, &sge[..3])]).map_err(errno),
        Err((1, EINVAL))
    );
    let inline = |len| SendWr {
        data: WrData::Inline(&[7; 64][..len]),
        ..good
    };
    assert_eq!(a.post_send(&[inline(33)]).map_err(errno), Err((0, EINVAL)));
    let read = SendOp::RdmaRead {
        remote_addr: 0,
        rkey: 0,
    };
    assert_eq!(
        a.post_send(&[SendWr {
            op: read,
            ..inline(8)
        }])
        .map_err(errno),
        Err((0, EINVAL))
    );
    let long = [
        Sge {
            length: 1 << 31,
            ..sge[0]
        },
        sge[0],
    ];
    assert_eq!(a.post_send(&[send(3, &long)]).map_err(errno), Err((0, EINVAL)));
    assert_eq!(
        a.post_send(&[inline(32), good, good, good]).map_err(errno),
        Err((3, ENOMEM))
    );
    assert_eq!(
        b.post_recv(&[RecvWr { wr_id: 9, sges: &sge }]).map_err(errno),
        Err((0, EINVAL))
    );
    let recv = RecvWr {
        wr_id: 9,
        sges: &sge[..1],
    };
    assert_eq!(b.post_recv(&[recv, recv, recv]).map_err(errno), Err((2, ENOMEM)));
    bench.dev.with_card(|card| {
        assert_eq!(card.qp_indices(a.qp_num()).sq_producer, 4);
        assert_eq!(card.qp_indices(b.qp_num()).rq_producer, 2);
    });
    bench.dev.assert_no_violations();
}

/// The first of a list is posted alone, and rides with its doorbell, because the second is refused: none of its entries
/// is missing, though the second one's WQE had been begun. The lone card compares what was pushed with the ring.
#[test]
fn what_is_pushed_is_the_one_before_a_bad_one() {
    let bench = Bench::new(256);
    let (mut a, mut b) = bench.pair(QpCap {
        max_send_sge: 6,
        ..QpCap::default()
    });
    let long = Sge {
        length: u32::MAX,
        ..bench.mr.sge(0, 1)
    };
    for (wr_id, pieces, bad) in [(1, 6, 1), (2, 1, 6), (3, 4, 2)] {
        let good = vec![bench.mr.sge(0, 8); pieces];
        let recv = [bench.mr.sge(128, 64)];
        b.post_recv(&[RecvWr { wr_id, sges: &recv }]).unwrap();
        let refused = a.post_send(&[send(wr_id, &good), send(9, &vec![long; bad])]);
        assert_eq!(refused.unwrap_err().index, 1);
        for wc in bench.completions(2) {
            assert_eq!((wc.wr_id, wc.status), (wr_id, WcStatus::Success));
        }
    }
    bench.dev.assert_no_violations();
}

/// QPS-5: a forbidden post fails at once, in every state.
#[test]
fn posts_by_state() {
    let bench = Bench::new(64);
    let mut qp = bench.qp(QpCap::default()).into_raw();
    let peer = bench.qp(QpCap::default()).into_raw();
    let info = peer_info(&peer, &bench.options, 1).unwrap();
    let recv = [RecvWr { wr_id: 1, sges: &[] }];
    let sends = [send(1, &[])];
    assert_eq!(qp.post_recv(&recv).unwrap_err().error, PostError::BadState);
    assert_eq!(qp.post_send(&sends).unwrap_err().error, PostError::BadState);
    let mask = QpAttrMask::STATE | QpAttrMask::PKEY_INDEX | QpAttrMask::PORT | QpAttrMask::ACCESS_FLAGS;
    qp.modify(
        &QpAttr {
            qp_state: QpState::Init,
            ..QpAttr::default()
        },
        mask,
    )
    .unwrap();
    qp.post_recv(&recv).unwrap();
    assert_eq!(qp.post_send(&sends).unwrap_err().error, PostError::BadState);
    connect_raw(&mut qp, &bench.options, 1, &info).unwrap();
    qp.modify_state(QpState::Err).unwrap();
    // QPS-13, QPS-14: what was queued and what is posted now comes back flushed.
    qp.post_recv(&recv).unwrap();
    qp.post_send(&sends).unwrap();
    let wc = bench.completions(3);
    assert!(
        wc.iter()
            .all(|wc| wc.status == WcStatus::WrFlushErr && wc.wr_id == 1)
    );
    qp.modify_state(QpState::Reset).unwrap();
    assert_eq!(qp.post_recv(&recv).unwrap_err().error, PostError::BadState);
    qp.destroy().unwrap();
    assert_eq!(qp.destroy().unwrap_err().errno(), EINVAL);
}

/// QPS-6: RESET takes the completions out of the CQ, and the QP can be used again from index 0.
#[test]
fn recycling_through_reset() {
    let bench = Bench::new(64);
    let (a, b) = bench.pair(QpCap {
        max_send_wr: 4,
        ..QpCap::default()
    });
    let (mut a, mut b) = (a.into_raw(), b.into_raw());
    for round in 0..5 {
        let op = SendOp::RdmaWrite {
            remote_addr: bench.mr.addr(),
            rkey: bench.mr.rkey(),
        };
        a.post_send(
            &[SendWr {
                op,
                ..send(round, &[])
            }; 3],
        )
        .unwrap();
        b.post_send(
            &[SendWr {
                op,
                ..send(100 + round, &[])
            }; 2],
        )
        .unwrap();
        bench.dev.settle();
        a.modify_state(QpState::Reset).unwrap();
        let wc = bench.completions(2);
        assert!(wc.iter().all(|wc| wc.wr_id == 100 + round && wc.is_ok()));
        bench.assert_no_completion();
        b.modify_state(QpState::Reset).unwrap();
        let (to_b, to_a) = (
            peer_info(&b, &bench.options, 2).unwrap(),
            peer_info(&a, &bench.options, 1).unwrap(),
        );
        connect_raw(&mut a, &bench.options, 1, &to_b).unwrap();
        connect_raw(&mut b, &bench.options, 2, &to_a).unwrap();
    }
    bench.dev.assert_no_violations();
}

/// V-57: a CQ that overruns says so: by a last completion with an error, by event, and by every later poll.
#[test]
fn cq_overrun() {
    let bench = Bench::new(4);
    let (mut a, _b) = bench.pair(QpCap::default());
    let op = SendOp::RdmaWrite {
        remote_addr: bench.mr.addr(),
        rkey: bench.mr.rkey(),
    };
    a.post_send(&[SendWr { op, ..send(5, &[]) }; 9]).unwrap();
    bench.dev.settle();
    let mut wc = [WorkCompletion::default(); 9];
    let got = bench.cq.poll_cq(&mut wc).unwrap();
    let room = bench.cq.cqe() as usize;
    assert!((room..9).contains(&got), "{got} completions");
    let (last, good) = wc[..got].split_last().unwrap();
    assert!(
        good.iter()
            .all(|wc| (wc.wr_id, wc.status) == (5, WcStatus::Success))
    );
    assert_eq!((last.wr_id, last.status), (5, WcStatus::GeneralErr));
    assert!(matches!(bench.cq.poll_cq(&mut wc), Err(Error::CqDead { .. })));
    assert!(matches!(bench.cq.poll_cq(&mut wc), Err(Error::CqDead { .. })));
    let events: Vec<AsyncEvent> = std::iter::from_fn(|| bench.context.poll_async_event()).collect();
    let kinds: Vec<EventKind> = events.iter().map(|event| event.kind).collect();
    assert_eq!(kinds, [EventKind::CqErr, EventKind::QpFatal, EventKind::QpFatal]);
    assert_eq!(events[0].id, bench.cq.cqn());
    assert_eq!(a.query().unwrap().qp_state, QpState::Err);
}

/// V-67, V-70: one event for each arming, only for completions that come later; solicited means solicited.
#[test]
fn completion_events() {
    let bench = Bench::new(16);
    let channel = bench.context.create_comp_channel();
    let cq = bench
        .context
        .create_cq(&CqOptions::with_channel(16, &channel))
        .unwrap();
    let qp = |recv_cq| bench.pd.create_qp(&QpOptions::new(&bench.cq, recv_cq)).unwrap();
    let (mut a, mut b) = connect_pair(qp(&bench.cq), qp(&cq), &bench.options).unwrap();
    let now = || bench.dev.now_ns();
    b.post_recv(&[RecvWr { wr_id: 1, sges: &[] }; 4]).unwrap();
    a.post_send(&[send(1, &[])]).unwrap();
    bench.dev.settle();
    cq.req_notify(false).unwrap();
    assert!(matches!(
        channel.get_event(now() + 10_000),
        Err(Error::Timeout { .. })
    ));
    a.post_send(&[send(1, &[]), send(1, &[])]).unwrap();
    assert_eq!(channel.get_event(now() + 100_000).unwrap(), cq.cqn());
    assert_eq!(channel.poll_event(), None);
    bench.dev.settle();
    cq.req_notify(true).unwrap();
    assert_eq!(cq.poll_cq(&mut [WorkCompletion::default(); 8]).unwrap(), 3);
    let solicited = SendFlags {
        solicited: true,
        ..SendFlags::SIGNALED
    };
    b.post_recv(&[RecvWr { wr_id: 1, sges: &[] }; 2]).unwrap();
    a.post_send(&[send(1, &[])]).unwrap();
    assert!(channel.get_event(now() + 10_000).is_err());
    a.post_send(&[SendWr {
        flags: solicited,
        ..send(1, &[])
    }])
    .unwrap();
    assert_eq!(channel.get_event(now() + 100_000).unwrap(), cq.cqn());
    bench.dev.assert_no_violations();
}

/// V-64, ibv_modify_cq: an event for the third completion, or when the period is over; 0 is off again. V-58: no
/// overrun.
#[test]
fn moderated_events() {
    let bench = Bench::new(16);
    let channel = bench.context.create_comp_channel();
    let options = CqOptions {
        ignore_overrun: true,
        ..CqOptions::with_channel(3, &channel)
    };
    let cq = bench.context.create_cq(&options).unwrap();
    let qp = |recv_cq| bench.pd.create_qp(&QpOptions::new(&bench.cq, recv_cq)).unwrap();
    let (mut a, mut b) = connect_pair(qp(&bench.cq), qp(&cq), &bench.options).unwrap();
    let now = || bench.dev.now_ns();
    b.post_recv(&[RecvWr { wr_id: 1, sges: &[] }; 20]).unwrap();
    let mut receive = |count: usize| {
        for _ in 0..count {
            a.post_send(&[send(1, &[])]).unwrap();
        }
        bench.dev.settle();
    };
    cq.moderate(3, 50).unwrap();
    cq.req_notify(false).unwrap();
    receive(2);
    assert_eq!(channel.poll_event(), None);
    receive(1);
    assert_eq!(channel.poll_event(), Some(cq.cqn()));
    assert_eq!(cq.poll_cq(&mut [WorkCompletion::default(); 8]).unwrap(), 3);
    cq.req_notify(false).unwrap();
    receive(1);
    let from_ns = now();
    assert!(channel.get_event(from_ns + 30_000).is_err());
    assert_eq!(channel.get_event(from_ns + 60_000).unwrap(), cq.cqn());
    assert_eq!(cq.poll_cq(&mut [WorkCompletion::default(); 8]).unwrap(), 1);
    cq.moderate(0, 0).unwrap();
    cq.req_notify(false).unwrap();
    receive(1);
    assert_eq!(channel.poll_event(), Some(cq.cqn()));
    receive(12);
    assert_eq!(bench.context.poll_async_event(), None, "it has no overrun");
}

/// V-75, V-65: in use means EBUSY, and nothing has changed.
#[test]
fn destroy_while_in_use() {
    let bench = Bench::new(16);
    let (mut a, b) = bench.pair(QpCap::default());
    assert_eq!(bench.cq.destroy().unwrap_err().errno(), EBUSY);
    assert_eq!(bench.pd.destroy().unwrap_err().errno(), EBUSY);
    a.post_send(&[SendWr {
        data: WrData::Inline(b"x"),
        ..send(1, &[])
    }])
    .unwrap();
    a.destroy().unwrap();
    b.destroy().unwrap();
    bench.cq.destroy().unwrap();
    assert_eq!(
        bench
            .cq
            .poll_cq(&mut [WorkCompletion::default()])
            .unwrap_err()
            .errno(),
        EINVAL
    );
    assert_eq!(bench.pd.destroy().unwrap_err().errno(), EBUSY);
    let mut mr = bench.mr;
    mr.destroy().unwrap();
    assert!(matches!(mr.destroy(), Err(Error::Destroyed { .. })));
    bench.pd.destroy().unwrap();
    bench.dev.assert_no_violations();
}

/// Running out is an error, not the end: what was freed can be had again.
#[test]
fn exhaustion() {
    let bench = Bench::new(16);
    let cap = QpCap {
        max_send_wr: 1,
        max_recv_wr: 1,
        ..QpCap::default()
    };
    let options = QpOptions {
        cap,
        ..QpOptions::new(&bench.cq, &bench.cq)
    };
    let max = bench.context.query_device().unwrap().max_qp();
    let mut qps: Vec<RawQp<_>> = (0..max)
        .map(|_| bench.pd.create_raw_qp(&options).unwrap())
        .collect();
    let mapped = bench.dev.with_card(|card| card.host.mapped());
    assert_eq!(bench.pd.create_raw_qp(&options).unwrap_err().errno(), ENOMEM);
    assert_eq!(bench.dev.with_card(|card| card.host.mapped()), mapped);
    qps.pop();
    qps.push(bench.pd.create_raw_qp(&options).unwrap());
}

/// V-130: as many regions as QUERY_DEVICE says, a million, through a key table that grows eleven times; each with a key
/// of its own (KEY-29), and all of them work.
#[test]
#[ignore = "ten seconds and more; part of make soak"]
fn a_million_regions() {
    let bench = Bench::new(4);
    let mut mrs = Vec::new();
    let error = loop {
        match bench.pd.reg_mr(&bench.buf, all_rights()) {
            Ok(mr) => mrs.push(mr),
            Err(e) => break e,
        }
    };
    // The bench has one region.
    let max = bench.context.query_device().unwrap().max_mr();
    assert_eq!((error.errno(), mrs.len() + 1), (ENOMEM, max as usize));
    assert_eq!(max, (1 << 20) - 1);
    let keys: HashSet<u32> = mrs.iter().map(Mr::lkey).collect();
    assert_eq!(keys.len(), mrs.len());
    mrs.pop();
    mrs.push(bench.pd.reg_mr(&bench.buf, all_rights()).unwrap());
    works(&bench, mrs.iter().step_by(10_007));
}

/// The same with some thousands, and regions that come and go: the table grows with those there are.
#[test]
fn key_tables_grow() {
    let bench = Bench::new(4);
    let mut mrs = Vec::new();
    let mut keys = HashSet::new();
    for round in 0..5_000 {
        let mr = bench.pd.reg_mr(&bench.buf, all_rights()).unwrap();
        assert!(keys.insert(mr.lkey()), "a key of before, in round {round}");
        mrs.push(mr);
        if round % 3 == 0 {
            mrs.swap_remove(round * 7919 % mrs.len());
        }
    }
    works(&bench, mrs.iter().step_by(61));
    drop(mrs);
    let mapped = bench.dev.with_card(|card| card.host.mapped());
    let mr = bench.pd.reg_mr(&bench.buf, all_rights()).unwrap();
    assert_eq!(bench.dev.with_card(|card| card.host.mapped()), mapped);
    works(&bench, [&mr].into_iter());
}

/// Each of these regions can be written to by a peer.
fn works<'a>(bench: &Bench, mrs: impl Iterator<Item = &'a Mr<Dev>>) {
    let (mut a, _b) = bench.pair(QpCap {
        max_inline_data: 8,
        ..QpCap::default()
    });
    for (number, mr) in mrs.enumerate() {
        let op = SendOp::RdmaWrite {
            remote_addr: mr.addr() + 512,
            rkey: mr.rkey(),
        };
        let text = (number as u64).to_le_bytes();
        a.post_send(&[SendWr {
            wr_id: number as u64,
            op,
            flags: SendFlags::SIGNALED,
            data: WrData::Inline(&text),
        }])
        .unwrap();
        let mut wc = [WorkCompletion::default()];
        while bench.cq.poll_cq(&mut wc).unwrap() == 0 {}
        assert_eq!(wc[0].status, WcStatus::Success, "region {number}");
        assert_eq!(bench.buf.load_u64(512), number as u64);
    }
}

#[test]
fn sizes_out_of_range() {
    let bench = Bench::new(16);
    let create = |cap| {
        bench.pd.create_raw_qp(&QpOptions {
            cap,
            ..QpOptions::new(&bench.cq, &bench.cq)
        })
    };
    let ok = QpCap::default();
    for cap in [
        QpCap {
            max_send_wr: 65_537,
            ..ok
        },
        QpCap {
            max_recv_wr: u32::MAX,
            ..ok
        },
        QpCap {
            max_send_sge: 17,
            ..ok
        },
        QpCap {
            max_recv_sge: 17,
            ..ok
        },
        QpCap {
            max_inline_data: 481,
            ..ok
        },
    ] {
        assert_eq!(create(cap).unwrap_err().errno(), EINVAL, "{cap:?}");
    }
    let big = QpCap {
        max_send_sge: 16,
        max_recv_sge: 16,
        max_inline_data: 480,
        ..ok
    };
    assert_eq!(create(big).unwrap().cap(), big);
    assert_eq!(
        bench.context.create_cq(&CqOptions::new(0)).unwrap_err().errno(),
        EINVAL
    );
    assert_eq!(
        bench
            .context
            .create_cq(&CqOptions::new(u32::MAX))
            .unwrap_err()
            .errno(),
        EINVAL
    );
    for cqe in 1..70 {
        assert!(bench.context.create_cq(&CqOptions::new(cqe)).unwrap().cqe() >= cqe);
    }
}

/// MEM-8 and the bounds of registrations; a failed one leaves nothing mapped.
#[test]
fn registrations() {
    let bench = Bench::new(16);
    let errno = |options: &MrOptions| bench.pd.reg_mr_with(&bench.buf, options).unwrap_err().errno();
    let ok = MrOptions::new(all_rights());
    assert_eq!(errno(&MrOptions::new(Access::REMOTE_WRITE)), EINVAL);
    // MEM-11: on-demand paging, which has no name here.
    assert_eq!(errno(&MrOptions::new(Access::from_bits(0x40))), EOPNOTSUPP);
    // MEM-10: addresses of a zero-based region begin with 0, whatever it is made of.
    let zero_based = MrOptions::new(Access::ZERO_BASED);
    assert_eq!(bench.pd.reg_mr_with(&bench.buf, &zero_based).unwrap().addr(), 0);
    assert_eq!(
        errno(&MrOptions {
            addr: Some(8),
            ..zero_based
        }),
        EINVAL
    );
    assert_eq!(
        errno(&MrOptions {
            length: Some(0),
            ..ok
        }),
        EINVAL
    );
    assert_eq!(
        errno(&MrOptions {
            length: Some(1 << 17),
            ..ok
        }),
        EINVAL
    );
    assert_eq!(
        errno(&MrOptions {
            offset: 1 << 17,
            ..ok
        }),
        EINVAL
    );
    assert_eq!(
        errno(&MrOptions {
            offset: 1,
            length: Some(1 << 16),
            ..ok
        }),
        EINVAL
    );
    assert_eq!(
        errno(&MrOptions {
            addr: Some(u64::MAX - 5),
            ..ok
        }),
        EINVAL
    );
    assert_eq!(
        errno(&MrOptions {
            page_size: PageSize::Shift(11),
            ..ok
        }),
        EINVAL
    );
    assert_eq!(
        errno(&MrOptions {
            page_size: PageSize::Shift(31),
            ..ok
        }),
        EINVAL
    );
    assert_eq!(
        errno(&MrOptions {
            page_size: PageSize::KiB4,
            addr: Some(0x123),
            ..ok
        }),
        EINVAL
    );
    let listed = |pages: &[u64], options: &MrOptions| bench.pd.reg_pages(pages, options).map(drop);
    let two = MrOptions {
        addr: Some(0x800),
        length: Some(0x1000),
        page_size: PageSize::KiB4,
        ..ok
    };
    let page = bench.buf.iova();
    let mapped = bench.dev.with_card(|card| card.host.mapped());
    listed(&[page, page], &two).unwrap();
    assert_eq!(listed(&[page], &two).unwrap_err().errno(), EINVAL);
    assert_eq!(listed(&[page, page, page], &two).unwrap_err().errno(), EINVAL);
    assert_eq!(listed(&[page, page + 8], &two).unwrap_err().errno(), EINVAL);
    assert_eq!(listed(&[], &two).unwrap_err().errno(), EINVAL);
    assert_eq!(bench.dev.with_card(|card| card.host.mapped()), mapped);
}

/// Data through page tables is the same data, scattered and across page ends.
#[test]
fn paged_regions() {
    let bench = Bench::new(64);
    let dev = &*bench.dev;
    let big = dev.alloc_dma(6 << 20).unwrap();
    let text: Vec<u8> = (0..10_000u32).map(|i| (i * 7 % 251) as u8).collect();
    big.write_bytes((2 << 20) - 5000, &text);
    let huge = MrOptions {
        page_size: PageSize::MiB2,
        addr: Some(big.iova()),
        ..MrOptions::new(all_rights())
    };
    let from = bench.pd.reg_mr_with(&big, &huge).unwrap();
    // Every second page of the other buffer, backwards.
    let pages: Vec<u64> = (0..4).map(|i| bench.buf.iova() + ((7 - 2 * i) << 12)).collect();
    let scattered = MrOptions {
        addr: Some(0x7000_0100),
        length: Some(10_000),
        page_size: PageSize::KiB4,
        ..huge
    };
    let to = bench.pd.reg_pages(&pages[..3], &scattered).unwrap();
    let (mut a, _b) = bench.pair(QpCap {
        max_send_sge: 2,
        ..QpCap::default()
    });
    let op = SendOp::RdmaWrite {
        remote_addr: to.addr(),
        rkey: to.rkey(),
    };
    let sges = [from.sge((2 << 20) - 5000, 6000), from.sge((2 << 20) + 1000, 4000)];
    a.post_send(&[SendWr { op, ..send(1, &sges) }]).unwrap();
    assert_eq!(bench.completions(1)[0].status, WcStatus::Success);
    let mut got = vec![0; 3 << 12];
    for i in 0..3 {
        bench
            .buf
            .read_bytes((7 - 2 * i) << 12, &mut got[i << 12..][..1 << 12]);
    }
    assert_eq!(&got[0x100..0x100 + 10_000], &text[..]);
    // KEY-30: a key is dead with its region.
    let (addr, rkey) = (to.addr(), to.rkey());
    drop(to);
    let op = SendOp::RdmaWrite {
        remote_addr: addr,
        rkey,
    };
    a.post_send(&[SendWr {
        op,
        ..send(2, &sges[..1])
    }])
    .unwrap();
    assert_eq!(bench.completions(1)[0].status, WcStatus::RemAccessErr);
}

/// The port's personality, and that nobody changes it under a connection.
#[test]
fn link_layer() {
    let bench = Bench::new(16);
    let (a, b) = bench.pair(QpCap::default());
    let error = bench
        .context
        .set_link_layer(1, LinkLayer::Infiniband)
        .unwrap_err();
    assert_eq!(error.errno(), EBUSY);
    drop((a, b));
    bench.context.set_link_layer(1, LinkLayer::Infiniband).unwrap();
    let port = bench.context.query_port(1).unwrap();
    assert_eq!((port.link_layer(), port.lid()), (LinkLayer::Infiniband.into(), 1));
    let options = ConnectOptions {
        gid_index: None,
        ..bench.options
    };
    let (mut a, _b) = connect_pair(bench.qp(QpCap::default()), bench.qp(QpCap::default()), &options).unwrap();
    assert!(!a.query().unwrap().ah_attr.is_global);
    let op = SendOp::RdmaRead {
        remote_addr: bench.mr.addr(),
        rkey: bench.mr.rkey(),
    };
    a.post_send(&[SendWr {
        op,
        ..send(1, &[bench.mr.sge(8, 8)])
    }])
    .unwrap();
    assert!(bench.completions(1)[0].is_ok());
}
