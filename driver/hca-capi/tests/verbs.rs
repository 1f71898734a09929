//! The C interface on a lone card: values, errors, events. Data needs a simulator: tests/system.

mod common;

use std::ffi::{CStr, c_int, c_void};
use std::ptr::null_mut;
use std::sync::atomic::{AtomicBool, Ordering};

use common::*;
use ibverbs::abi::*;

/// V-22, V-23, V-25, V-26, V-31, V-35, V-39.
#[test]
fn devices_and_what_they_say() {
    let (context, again) = (open(0), open(0));
    // SAFETY: open contexts and room for each result.
    unsafe {
        assert_ne!(context, again);
        let device = (*context).device;
        assert_eq!(CStr::from_ptr(ibv_get_device_name(device)), c"hca0");
        assert_eq!(ibv_get_device_guid(device).to_be(), 0x0000_0aff_fe00_0001);
        let mut attr = ibv_device_attr::default();
        assert_eq!(ibv_query_device(context, &mut attr), 0);
        assert_eq!((attr.phys_port_cnt, attr.max_sge, attr.max_srq), (1, 16, 32));
        // V-30: the OUI of the card's MAC address, from which its GUID is made with the universal/local bit turned.
        assert_eq!(
            attr.vendor_id,
            (u64::from_be(attr.node_guid) >> 40) as u32 ^ 0x02_0000
        );

        // Programs of the first ABI reserve 48 bytes.
        let mut old = [0xaau8; 52];
        assert_eq!(ibv_query_port(context, 1, old.as_mut_ptr().cast()), 0);
        assert_eq!(old[48..], [0xaa; 4]);
        let mut port = ibv_port_attr::default();
        let slot = (*extended(context)).query_port.unwrap();
        assert_eq!(slot(context, 1, &mut port, size_of::<ibv_port_attr>()), 0);
        assert_eq!(
            (port.state, u32::from(port.link_layer)),
            (IBV_PORT_ACTIVE, IBV_LINK_LAYER_ETHERNET)
        );
        assert_eq!(
            slot(context, 2, &mut port, size_of::<ibv_port_attr>()),
            libc::EINVAL
        );

        let mut attr = ibv_device_attr_ex::default();
        let slot = (*extended(context)).query_device_ex.unwrap();
        assert_eq!(slot(context, NO_ATTR, &mut attr, size_of_val(&attr)), 0);
        assert_eq!((attr.hca_core_clock, attr.phys_port_cnt_ex), (250_000, 1));

        let (mut gid, mut pkey) = (ibv_gid::default(), 0);
        assert_eq!(ibv_query_gid(context, 1, 1, &mut gid), 0);
        assert_eq!(gid.raw[10..], [0xff, 0xff, 10, 0, 0, 1]);
        assert_eq!(ibv_query_gid(context, 1, 1 << 20, &mut gid), -1);
        assert_eq!(ibv_query_pkey(context, 1, 0, &mut pkey), 0);
        assert_eq!(pkey, 0xffff);
        assert_eq!(ibv_close_device(context), 0);
        assert_eq!(
            ibv_query_device(again, &mut ibv_device_attr::default()),
            0,
            "the other open lives"
        );
        assert_eq!((ibv_close_device(context), errno()), (-1, libc::EINVAL));
        assert_eq!(ibv_close_device(again), 0);
    }
}

#[test]
fn a_card_without_a_free_function_cannot_be_opened() {
    assert!(open(63).is_null());
    assert_eq!(errno(), libc::EBUSY);
}

/// V-66.
#[test]
fn messages_complete_in_order() {
    let bench = bench(1);
    for i in 0..20 {
        assert_eq!(post_recv(bench.qps[1], 100 + i), 0);
    }
    let mut list: Vec<ibv_send_wr> = (0..19).map(send_wr).collect();
    let mut imm = ibv_send_wr {
        opcode: IBV_WR_SEND_WITH_IMM,
        ..send_wr(19)
    };
    imm.__bindgen_anon_1.imm_data = 0x1234_5678u32.to_be();
    list.push(imm);
    assert_eq!(post_send(bench.qps[0], &mut list), (0, None));
    let wc = bench.completions(40);
    let ids = |flag: u32| {
        wc.iter()
            .filter(move |w| w.opcode & 128 == flag)
            .map(|w| w.wr_id)
            .collect::<Vec<_>>()
    };
    assert!(wc.iter().all(|w| w.status == IBV_WC_SUCCESS));
    assert_eq!((ids(0), ids(128)), ((0..20).collect(), (100..120).collect()));
    let last = wc.iter().find(|w| w.wr_id == 119).unwrap();
    assert_eq!(last.wc_flags & IBV_WC_WITH_IMM, IBV_WC_WITH_IMM);
    // SAFETY: the flag says which field it is.
    assert_eq!(unsafe { last.__bindgen_anon_1.imm_data }, 0x1234_5678u32.to_be());
    bench.close();
}

#[test]
fn posting_stops_at_the_bad_work_request() {
    let bench = bench(2);
    let mut sges = [ibv_sge::default(); 17];
    let mut list: Vec<ibv_send_wr> = (0..12).map(send_wr).collect();
    (list[10].num_sge, list[10].sg_list) = (3, sges.as_mut_ptr());
    assert_eq!(post_send(bench.qps[0], &mut list), (libc::EINVAL, Some(10)));
    let mut list: Vec<ibv_send_wr> = (20..24).map(send_wr).collect();
    list[1].opcode = IBV_WR_TSO;
    assert_eq!(post_send(bench.qps[0], &mut list), (libc::EOPNOTSUPP, Some(1)));
    // 11 are outstanding; the ring has 32 entries.
    let mut list: Vec<ibv_send_wr> = (30..60).map(send_wr).collect();
    assert_eq!(post_send(bench.qps[0], &mut list), (libc::ENOMEM, Some(21)));
    let mut bytes = [7u8; 500];
    let mut sge = ibv_sge {
        addr: bytes.as_mut_ptr() as u64,
        length: 500,
        lkey: 0,
    };
    let flags = IBV_SEND_INLINE | IBV_SEND_SIGNALED;
    let mut inline = [ibv_send_wr {
        sg_list: &mut sge,
        num_sge: 1,
        send_flags: flags,
        ..send_wr(0)
    }];
    assert_ne!(post_send(bench.qps[0], &mut inline).0, 0);
    for i in 0..32 {
        post_recv(bench.qps[1], i);
    }
    let wc = bench.completions(64);
    let sent: Vec<u64> = wc
        .iter()
        .filter(|w| w.opcode == IBV_WC_SEND)
        .map(|w| w.wr_id)
        .collect();
    assert_eq!(sent, (0..10).chain(20..21).chain(30..51).collect::<Vec<u64>>());
    bench.close();
}

/// V-58 to V-61, V-114, V-116, V-117; V-180: what is longer than inline data may be.
#[test]
fn extended_interfaces() {
    let bench = bench(3);
    // SAFETY: all of it is alive; slots are checked.
    unsafe {
        let mut attr = ibv_cq_init_attr_ex {
            cqe: 50,
            wc_flags: 0x7f,
            ..Default::default()
        };
        let create = (*extended(bench.context)).create_cq_ex.unwrap();
        let cq = create(bench.context, &mut attr);
        assert!(!cq.is_null());
        let mut unknown = ibv_cq_init_attr_ex {
            wc_flags: 1 << 40,
            ..attr
        };
        assert!(create(bench.context, &mut unknown).is_null());
        assert_eq!(errno(), libc::EOPNOTSUPP);

        let mut attr = init_attr_ex(
            bench.pd,
            cq.cast(),
            IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM,
        );
        let create = (*extended(bench.context)).create_qp_ex.unwrap();
        let qps = [(); 2].map(|()| create(bench.context, &mut attr));
        attr.send_ops_flags = IBV_QP_EX_WITH_TSO.into();
        assert!(create(bench.context, &mut attr).is_null());
        assert_eq!(errno(), libc::EOPNOTSUPP);
        connect(qps[0], (*qps[1]).qp_num);
        connect(qps[1], (*qps[0]).qp_num);
        assert!(ibv_qp_to_qp_ex(bench.qps[0]).is_null());
        let qp = ibv_qp_to_qp_ex(qps[0]);
        let start = (*cq).start_poll.unwrap();
        assert_eq!(start(cq, &mut ibv_poll_cq_attr::default()), libc::ENOENT);
        for i in 0..20 {
            assert_eq!(post_recv(qps[1], 100 + i), 0);
        }

        // An aborted section leaves nothing; one with a bad part neither.
        (*qp).wr_start.unwrap()(qp);
        (*qp).wr_send.unwrap()(qp);
        (*qp).wr_abort.unwrap()(qp);
        (*qp).wr_start.unwrap()(qp);
        (*qp).wr_send.unwrap()(qp);
        (*qp).wr_set_inline_data.unwrap()(qp, [0u8; 500].as_mut_ptr().cast(), 500);
        assert_eq!((*qp).wr_complete.unwrap()(qp), libc::EINVAL);
        (*qp).wr_start.unwrap()(qp);
        for i in 0..33 {
            ((*qp).wr_id, (*qp).wr_flags) = (i, IBV_SEND_SIGNALED);
            (*qp).wr_send.unwrap()(qp);
        }
        assert_eq!(
            (*qp).wr_complete.unwrap()(qp),
            libc::ENOMEM,
            "nothing of it is posted"
        );
        (*qp).wr_start.unwrap()(qp);
        for i in 0..20 {
            ((*qp).wr_id, (*qp).wr_flags) = (i, IBV_SEND_SIGNALED);
            (*qp).wr_send_imm.unwrap()(qp, (i as u32).to_be());
            (*qp).wr_set_sge_list.unwrap()(qp, 0, null_mut());
        }
        assert_eq!((*qp).wr_complete.unwrap()(qp), 0);

        let (mut sent, mut received) = (Vec::new(), Vec::new());
        for _ in 0..10_000 {
            let mut result = start(cq, &mut ibv_poll_cq_attr::default());
            let opened = result == 0;
            while result == 0 {
                assert_eq!((*cq).status, IBV_WC_SUCCESS);
                match (*cq).read_opcode.unwrap()(cq) {
                    IBV_WC_RECV => {
                        received.push(((*cq).wr_id, u32::from_be((*cq).read_imm_data.unwrap()(cq))))
                    }
                    _ => sent.push((*cq).wr_id),
                }
                result = (*cq).next_poll.unwrap()(cq);
            }
            assert_eq!(result, libc::ENOENT);
            if opened {
                (*cq).end_poll.unwrap()(cq);
            }
        }
        assert_eq!(sent, (0..20).collect::<Vec<u64>>());
        assert_eq!(received, (0..20).map(|i| (100 + i, i as u32)).collect::<Vec<_>>());
        for qp in qps {
            assert_eq!(ibv_destroy_qp(qp), 0);
        }
        assert_eq!(ibv_destroy_cq(cq.cast()), 0);
    }
    bench.close();
}

fn readable(fd: c_int, timeout_ms: c_int) -> bool {
    let mut poll = libc::pollfd {
        fd,
        events: libc::POLLIN,
        revents: 0,
    };
    // SAFETY: one live pollfd.
    unsafe { libc::poll(&mut poll, 1, timeout_ms) == 1 }
}

/// V-50, V-68, V-69.
#[test]
fn completion_events_come_through_a_descriptor() {
    let bench = bench(4);
    let mark = 0x77 as *mut c_void;
    // SAFETY: all of it is alive; results are checked.
    unsafe {
        let channel = ibv_create_comp_channel(bench.context);
        let cq = ibv_create_cq(bench.context, 10, mark, channel, 0);
        assert!(!cq.is_null());
        assert_eq!(ibv_destroy_comp_channel(channel), libc::EBUSY);
        let notify = (*bench.context).ops.req_notify_cq.unwrap();
        assert_eq!(notify(cq, 0), 0);
        let qps = [(); 2].map(|()| ibv_create_qp(bench.pd, &mut init_attr(cq)));
        connect(qps[0], (*qps[1]).qp_num);
        connect(qps[1], (*qps[0]).qp_num);
        assert!(!readable((*channel).fd, 20));
        assert_eq!(post_recv(qps[1], 1), 0);
        assert_eq!(post_send(qps[0], &mut [send_wr(2)]), (0, None));
        completions(cq, 2);
        assert!(readable((*channel).fd, 5000));
        let (mut which, mut context) = (null_mut(), null_mut());
        assert_eq!(ibv_get_cq_event(channel, &mut which, &mut context), 0);
        assert_eq!((which, context), (cq, mark));
        assert!(!readable((*channel).fd, 20), "one event per arm");
        libc::fcntl((*channel).fd, libc::F_SETFL, libc::O_NONBLOCK);
        assert_eq!(
            (ibv_get_cq_event(channel, &mut which, &mut context), errno()),
            (-1, libc::EAGAIN)
        );

        // V-67: completions that are there do not trigger, and are there after arming.
        for i in 0..3 {
            assert_eq!(post_recv(qps[1], 10 + i), 0);
        }
        assert_eq!(post_send(qps[0], &mut [(); 3].map(|()| send_wr(20))), (0, None));
        let mut wc = ibv_wc::default();
        let poll = (*bench.context).ops.poll_cq.unwrap();
        (0..100).for_each(|_| assert_eq!(poll(bench.cq, 1, &mut wc), 0));
        assert_eq!(notify(cq, 0), 0);
        assert!(!readable((*channel).fd, 50), "nothing new has come");
        completions(cq, 6);

        // Destroy waits for the acknowledgement.
        for qp in qps {
            assert_eq!(ibv_destroy_qp(qp), 0);
        }
        static ACKNOWLEDGED: AtomicBool = AtomicBool::new(false);
        let (address, (say, hear)) = (cq as usize, std::sync::mpsc::channel());
        let destroyer = std::thread::spawn(move || {
            say.send(libc::gettid()).unwrap();
            let result = ibv_destroy_cq(address as *mut ibv_cq);
            (result, ACKNOWLEDGED.load(Ordering::SeqCst))
        });
        let thread = hear.recv().unwrap();
        until(|| destroyer.is_finished() || is_asleep(thread));
        ACKNOWLEDGED.store(true, Ordering::SeqCst);
        ibv_ack_cq_events(cq, 1);
        assert_eq!(destroyer.join().unwrap(), (0, true));
        assert_eq!(ibv_destroy_comp_channel(channel), 0);
        assert_eq!(ibv_destroy_comp_channel(channel), libc::EINVAL);
    }
    bench.close();
}

/// V-45, V-46, V-57.
#[test]
fn asynchronous_events_name_their_object() {
    let bench = bench(5);
    // SAFETY: all of it is alive; results are checked.
    unsafe {
        // A CQ of one entry overruns.
        let small = ibv_create_cq(bench.context, 1, null_mut(), null_mut(), 0);
        let mut attr = ibv_qp_init_attr {
            send_cq: small,
            ..init_attr(bench.cq)
        };
        let qps = [
            ibv_create_qp(bench.pd, &mut attr),
            ibv_create_qp(bench.pd, &mut init_attr(bench.cq)),
        ];
        connect(qps[0], (*qps[1]).qp_num);
        connect(qps[1], (*qps[0]).qp_num);
        for i in 0..30 {
            assert_eq!(post_recv(qps[1], i), 0);
        }
        let mut list: Vec<ibv_send_wr> = (0..30).map(send_wr).collect();
        assert_eq!(post_send(qps[0], &mut list), (0, None));
        let mut found = false;
        let mut wc = ibv_wc::default();
        let poll = (*bench.context).ops.poll_cq.unwrap();
        for _ in 0..1000 {
            poll(bench.cq, 1, &mut wc);
        }
        while readable((*bench.context).async_fd, 1000) {
            let mut event = ibv_async_event::default();
            assert_eq!(ibv_get_async_event(bench.context, &mut event), 0);
            found |= event.event_type == IBV_EVENT_CQ_ERR && event.element.cq == small;
            ibv_ack_async_event(&mut event);
            if found {
                break;
            }
        }
        assert!(found, "CQ_ERR");
        while poll(small, 1, &mut wc) > 0 {}
        assert_eq!(poll(small, 1, &mut wc), -1);
        for qp in qps {
            assert_eq!(ibv_destroy_qp(qp), 0);
        }
        assert_eq!(ibv_destroy_cq(small), 0);
    }
    bench.close();
}

/// V-118, V-119.
#[test]
fn a_query_tells_what_was_set() {
    let bench = bench(7);
    let (mut attr, mut init) = (ibv_qp_attr::default(), ibv_qp_init_attr::default());
    // SAFETY: a live QP and room for the results.
    unsafe {
        assert_eq!(ibv_query_qp(bench.qps[0], &mut attr, -1, &mut init), 0);
        assert_eq!((attr.qp_state, (*bench.qps[0]).state), (IBV_QPS_RTS, IBV_QPS_RTS));
        assert_eq!(
            (attr.dest_qp_num, attr.path_mtu),
            ((*bench.qps[1]).qp_num, IBV_MTU_1024)
        );
        assert_eq!((attr.timeout, attr.retry_cnt, attr.ah_attr.is_global), (14, 7, 1));
        let path = &attr.ah_attr;
        assert_eq!((path.sl, path.src_path_bits, path.static_rate), (3, 2, 5));
        assert_eq!(
            (init.send_cq, init.cap.max_send_wr, init.qp_type),
            (bench.cq, 32, IBV_QPT_RC)
        );
    }
    bench.close();
}

/// V-131.
#[test]
fn a_region_is_registered_again() {
    let bench = bench(8);
    let mut buf = vec![0u8; 16384];
    let addr = buf.as_mut_ptr().cast::<c_void>();
    // SAFETY: live objects; memory that is not there is only named.
    unsafe {
        let mr = ibv_reg_mr(bench.pd, addr, 4096, 1);
        let first = ((*mr).lkey, (*mr).rkey);
        let other = ibv_alloc_pd(bench.context);
        let [translation, pd, access] = [
            IBV_REREG_MR_CHANGE_TRANSLATION,
            IBV_REREG_MR_CHANGE_PD,
            IBV_REREG_MR_CHANGE_ACCESS,
        ]
        .map(|flag| flag as c_int);
        // What cannot be leaves it as it was.
        let nowhere = 0x1000 as *mut c_void;
        for (flags, pd, addr, length, rights) in [
            (0, other, addr, 8192, 7),
            (1 << 10, other, addr, 8192, 7),
            (translation, other, nowhere, 4096, 7),
            (translation, other, addr, 0, 7),
            (pd, null_mut(), addr, 8192, 7),
            (access, other, addr, 8192, IBV_ACCESS_REMOTE_WRITE as c_int),
        ] {
            assert_eq!(
                ibv_rereg_mr(mr, flags, pd, addr, length, rights),
                IBV_REREG_MR_ERR_INPUT
            );
            assert_eq!(((*mr).lkey, (*mr).rkey, (*mr).length), (first.0, first.1, 4096));
        }
        let moved = addr.byte_add(100);
        assert_eq!(
            ibv_rereg_mr(mr, translation | access, null_mut(), moved, 8192, 7),
            0
        );
        assert_eq!(((*mr).addr, (*mr).length, (*mr).pd), (moved, 8192, bench.pd));
        assert_ne!(((*mr).lkey, (*mr).rkey), first);
        assert_eq!(ibv_dealloc_pd(other), 0, "nothing of it is used");
        let other = ibv_alloc_pd(bench.context);
        let keys = ((*mr).lkey, (*mr).rkey);
        assert_eq!(ibv_rereg_mr(mr, pd, other, null_mut(), 0, 0), 0);
        assert_eq!(((*mr).addr, (*mr).length, (*mr).pd), (moved, 8192, other));
        assert_eq!(ibv_rereg_mr(mr, access, null_mut(), null_mut(), 0, 1), 0);
        assert_eq!(((*mr).lkey, (*mr).rkey), keys, "it is where it was");
        assert_eq!(ibv_dealloc_pd(other), libc::EBUSY);
        assert_eq!(ibv_dereg_mr(mr), 0);
        assert_eq!(ibv_dereg_mr(mr), libc::EINVAL);
        assert_eq!(ibv_dealloc_pd(other), 0);
    }
    bench.close();
}

/// V-25: every vector's event queue delivers, to CQs of one channel.
#[test]
fn completion_vectors() {
    let bench = bench(9);
    // SAFETY: live objects.
    unsafe {
        let vectors = (*bench.context).num_comp_vectors;
        assert_eq!(vectors, 4);
        let channel = ibv_create_comp_channel(bench.context);
        let cqs: Vec<_> = (0..vectors)
            .map(|vector| ibv_create_cq(bench.context, 10, null_mut(), channel, vector))
            .collect();
        for cq in &cqs {
            let qps = [(); 2].map(|()| ibv_create_qp(bench.pd, &mut init_attr(*cq)));
            connect(qps[0], (*qps[1]).qp_num);
            connect(qps[1], (*qps[0]).qp_num);
            assert_eq!((*bench.context).ops.req_notify_cq.unwrap()(*cq, 0), 0);
            assert_eq!(post_recv(qps[1], 1), 0);
            assert_eq!(post_send(qps[0], &mut [send_wr(2)]), (0, None));
            completions(*cq, 2);
            assert!(readable((*channel).fd, 20_000));
            let (mut which, mut context) = (null_mut(), null_mut());
            assert_eq!(ibv_get_cq_event(channel, &mut which, &mut context), 0);
            assert_eq!(which, *cq);
            ibv_ack_cq_events(*cq, 1);
            qps.iter().for_each(|qp| assert_eq!(ibv_destroy_qp(*qp), 0));
        }
        cqs.iter().for_each(|cq| assert_eq!(ibv_destroy_cq(*cq), 0));
        assert_eq!(ibv_destroy_comp_channel(channel), 0);
    }
    bench.close();
}
