//! One more than there is, of everything that the card has a number of: the errno of the manual pages, nothing is left
//! of the call, and all of it can be had again when it is given back. What a process has little of (descriptors,
//! memory): `exhausted_process.rs`.

mod common;

use std::collections::BTreeSet;
use std::ffi::{c_int, c_void};
use std::ptr::null_mut;

use common::makers::*;
use common::*;
use ibverbs::abi::*;

/// As many as the card has, one more is ENOMEM, and all of them come back.
#[test]
fn too_many_objects() {
    let given = Given::new(41);
    for (name, limit, make, unmake) in ROWS {
        // SAFETY: live objects.
        unsafe {
            for round in 0..2 {
                let made: Vec<_> = (0..)
                    .map(|number| make(&given, number))
                    .take_while(|object| !object.is_null())
                    .collect();
                assert_eq!(errno(), libc::ENOMEM, "{name}, round {round}");
                assert_eq!(made.len(), limit(&given) as usize, "{name}, round {round}");
                for object in made {
                    assert_eq!(unmake(&given, object), 0, "{name}, round {round}");
                }
            }
        }
    }
    given.close();
}

/// V-130, V-133, V-135: regions, null regions and windows have one table of keys.
#[test]
fn too_many_keys() {
    let mut given = Given::new(42);
    let (addr, length) = (given.memory.as_mut_ptr().cast::<c_void>(), given.memory.len());
    // SAFETY: live objects; the memory stays.
    unsafe {
        let (alloc, dealloc) = (
            (*given.bench.context).ops.alloc_mw.unwrap(),
            (*given.bench.context).ops.dealloc_mw.unwrap(),
        );
        let region = ibv_reg_mr(given.bench.pd, addr, length, 1);
        let windows: Vec<_> = std::iter::repeat_with(|| alloc(given.bench.pd, IBV_MW_TYPE_2))
            .take_while(|window| !window.is_null())
            .collect();
        assert_eq!(errno(), libc::ENOMEM);
        assert_eq!(windows.len() + 1, given.device.max_mw as usize);
        assert_eq!(given.device.max_mw, given.device.max_mr);
        let refused = |pointer: *mut ibv_mr| assert_eq!((pointer, errno()), (null_mut(), libc::ENOMEM));
        for _ in 0..2 {
            assert_eq!(
                (alloc(given.bench.pd, IBV_MW_TYPE_1), errno()),
                (null_mut(), libc::ENOMEM)
            );
            refused(ibv_reg_mr(given.bench.pd, addr, length, 1));
            refused(slots(&given).alloc_null_mr.unwrap()(given.bench.pd));
        }
        // One is given back: one can be had, of either kind.
        assert_eq!(dealloc(windows[0]), 0);
        let other = ibv_reg_mr(given.bench.pd, addr, length, 1);
        assert!(!other.is_null());
        refused(ibv_reg_mr(given.bench.pd, addr, length, 1));
        assert_eq!((ibv_dereg_mr(other), ibv_dereg_mr(region)), (0, 0));
        windows[1..]
            .iter()
            .for_each(|window| assert_eq!(dealloc(*window), 0));
    }
    given.close();
}

/// V-150: a group takes so many QPs.
#[test]
fn too_many_members() {
    let given = Given::new(43);
    // SAFETY: live objects.
    unsafe {
        let most = given.device.max_mcast_qp_attach;
        let qps: Vec<_> = (0..=most)
            .map(|_| {
                let qp = ibv_create_qp(given.bench.pd, &mut small(&given, IBV_QPT_UD));
                let mut init = ibv_qp_attr {
                    qp_state: IBV_QPS_INIT,
                    port_num: 1,
                    ..Default::default()
                };
                let mask = IBV_QP_STATE | IBV_QP_PORT | IBV_QP_PKEY_INDEX | IBV_QP_QKEY;
                assert_eq!(ibv_modify_qp(qp, &mut init, mask as c_int), 0);
                qp
            })
            .collect();
        let (last, others) = qps.split_last().unwrap();
        for qp in others {
            assert_eq!(ibv_attach_mcast(*qp, &group(0), 0), 0);
        }
        assert_eq!(ibv_attach_mcast(*last, &group(0), 0), libc::ENOMEM);
        assert_eq!(ibv_attach_mcast(*last, &group(1), 0), 0, "another group");
        assert_eq!(ibv_detach_mcast(*last, &group(1), 0), 0);
        assert_eq!(ibv_detach_mcast(others[0], &group(0), 0), 0);
        assert_eq!(ibv_attach_mcast(*last, &group(0), 0), 0, "there is a place again");
        for qp in &qps[1..] {
            assert_eq!(ibv_detach_mcast(*qp, &group(0), 0), 0);
        }
        qps.iter().for_each(|qp| assert_eq!(ibv_destroy_qp(*qp), 0));
    }
    given.close();
}

/// V-164, V-165, V-177, V-92, V-105: a queue that is full is ENOMEM by every way to post; the first that was not posted
/// is named.
#[test]
fn full_queues() {
    let given = Given::new(44);
    // SAFETY: live objects and lists.
    unsafe {
        let ops = (*given.bench.context).ops;
        let mut srq_attr = ibv_srq_init_attr::default();
        (srq_attr.attr.max_wr, srq_attr.attr.max_sge) = (1, 1);
        let srq = ibv_create_srq(given.bench.pd, (&raw mut srq_attr).cast());
        let mut bad = null_mut();
        let mut wr = ibv_recv_wr::default();
        let post =
            |wr: &mut ibv_recv_wr, bad: &mut *mut ibv_recv_wr| ops.post_srq_recv.unwrap()(srq, wr, bad);
        let room = (0..).take_while(|_| post(&mut wr, &mut bad) == 0).count();
        assert_eq!((room, errno()), (srq_attr.attr.max_wr as usize, libc::ENOMEM));
        assert!(std::ptr::eq(bad, &raw mut wr));
        assert_eq!(ibv_destroy_srq(srq), 0);

        let mut ready = ibv_wq_attr {
            attr_mask: IBV_WQ_ATTR_STATE,
            wq_state: IBV_WQS_RDY,
            ..Default::default()
        };
        assert_eq!(slots(&given).modify_wq.unwrap()(given.wq, &mut ready), 0);
        let post = (*given.wq).post_recv.unwrap();
        assert_eq!(post(given.wq, &mut wr, &mut bad), 0);
        assert_eq!(post(given.wq, &mut wr, &mut bad), libc::ENOMEM);
        assert!(std::ptr::eq(bad, &raw mut wr));

        // The extended interface posts all of a section or nothing of it.
        let attr = &mut init_attr_ex(given.bench.pd, given.bench.cq, IBV_QP_EX_WITH_SEND);
        attr.cap.max_send_wr = 2;
        let qp = slots(&given).create_qp_ex.unwrap()(given.bench.context, attr);
        connect(qp, (*qp).qp_num);
        let section = |requests: u64| {
            let qp = ibv_qp_to_qp_ex(qp);
            (*qp).wr_start.unwrap()(qp);
            for wr_id in 0..requests {
                (*qp).wr_id = wr_id;
                (*qp).wr_flags = IBV_SEND_SIGNALED;
                (*qp).wr_send.unwrap()(qp);
                (*qp).wr_set_sge_list.unwrap()(qp, 0, null_mut());
            }
            (*qp).wr_complete.unwrap()(qp)
        };
        let room = u64::from(attr.cap.max_send_wr);
        assert_eq!(section(room + 1), libc::ENOMEM);
        assert_eq!((section(room), section(1)), (0, libc::ENOMEM));
        // A window is bound by the same queue.
        let window = ops.alloc_mw.unwrap()(given.bench.pd, IBV_MW_TYPE_1);
        let mut bind = ibv_mw_bind::default();
        assert_eq!(ops.bind_mw.unwrap()(qp, window, &mut bind), libc::ENOMEM);
        assert_eq!(ops.dealloc_mw.unwrap()(window), 0);
        assert_eq!(post_send(qp, &mut [send_wr(1)]), (libc::ENOMEM, Some(0)));
        let room = (0..).take_while(|wr_id| post_recv(qp, *wr_id) == 0).count();
        let mut query = (ibv_qp_attr::default(), ibv_qp_init_attr::default());
        assert_eq!(ibv_query_qp(qp, &mut query.0, 0, &mut query.1), 0);
        assert_eq!((room as u32, errno()), (query.1.cap.max_recv_wr, libc::ENOMEM));
        assert_eq!(ibv_destroy_qp(qp), 0);
    }
    given.close();
}

/// Calls that ask for nothing that a card has a number of. The others are in a table, here or in the other file.
const NEEDS_NOTHING: &[(&str, &[&str])] = &[
    (
        "gives back, or changes what there is",
        &[
            "ibv_ack_async_event",
            "ibv_ack_cq_events",
            "ibv_close_device",
            "ibv_dealloc_pd",
            "ibv_dereg_mr",
            "ibv_destroy_ah",
            "ibv_destroy_comp_channel",
            "ibv_destroy_cq",
            "ibv_destroy_qp",
            "ibv_destroy_srq",
            "ibv_detach_mcast",
            "ibv_free_device_list",
            "ibv_get_async_event",
            "ibv_get_cq_event",
            "ibv_modify_qp",
            "ibv_modify_srq",
            "ibv_rereg_mr",
            "ibv_set_ece",
            "ibv_unimport_dm",
            "ibv_unimport_mr",
            "ibv_unimport_pd",
        ],
    ),
    (
        "tells something",
        &[
            "_ibv_query_gid_ex",
            "_ibv_query_gid_table",
            "ibv_event_type_str",
            "ibv_get_device_guid",
            "ibv_get_device_index",
            "ibv_get_device_name",
            "ibv_get_pkey_index",
            "ibv_get_sysfs_path",
            "ibv_init_ah_from_wc",
            "ibv_is_fork_initialized",
            "ibv_node_type_str",
            "ibv_port_state_str",
            "ibv_qp_to_qp_ex",
            "ibv_query_device",
            "ibv_query_ece",
            "ibv_query_gid",
            "ibv_query_pkey",
            "ibv_query_port",
            "ibv_query_qp",
            "ibv_query_qp_data_in_order",
            "ibv_query_srq",
            "ibv_rate_to_mbps",
            "ibv_rate_to_mult",
            "ibv_read_sysfs_file",
            "ibv_resolve_eth_l2_from_gid",
            "ibv_wc_status_str",
            "mbps_to_ibv_rate",
            "mult_to_ibv_rate",
        ],
    ),
    (
        "is of memory that the program has, or refers to what there is",
        &[
            "ibv_copy_ah_attr_from_kern",
            "ibv_copy_path_rec_from_kern",
            "ibv_copy_path_rec_to_kern",
            "ibv_copy_qp_attr_from_kern",
            "ibv_dofork_range",
            "ibv_dontfork_range",
            "ibv_fork_init",
            "ibv_import_mr",
            "ibv_import_pd",
        ],
    ),
    (
        "the card has none: EOPNOTSUPP",
        &["ibv_import_dm", "ibv_reg_dmabuf_mr"],
    ),
    (
        "an address handle is memory of the process alone",
        &["ibv_create_ah", "ibv_create_ah_from_wc"],
    ),
];
/// Those whose limits are in tests of their own here, and those of `exhausted_process.rs`.
const OTHERS: &[&str] = &[
    "ibv_reg_mr",
    "ibv_reg_mr_iova",
    "ibv_reg_mr_iova2",
    "ibv_create_comp_channel",
    "ibv_get_device_list",
    "ibv_import_device",
    "ibv_open_device",
    "ibv_resize_cq",
];

#[test]
fn every_public_symbol_is_asked_or_needs_nothing() {
    let list = include_str!("../exports.txt").lines();
    let public = list.filter(|line| !line.contains("PRIVATE"));
    let symbols: BTreeSet<&str> = public.map(|line| line.split_once(' ').unwrap().1).collect();
    let rows = ROWS.iter().map(|(name, ..)| name.split(':').next().unwrap());
    let asked = rows
        .filter(|name| name.starts_with("ibv_"))
        .chain(OTHERS.iter().copied());
    let excused = NEEDS_NOTHING.iter().flat_map(|(_, names)| names.iter().copied());
    let known: BTreeSet<&str> = asked.chain(excused).collect();
    let differ: Vec<_> = symbols.symmetric_difference(&known).collect();
    assert!(differ.is_empty(), "{differ:?}");
}
