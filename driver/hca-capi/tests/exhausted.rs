//! One more than there is, of everything that the card has a number of: the errno of the manual pages, nothing is left
//! of the call, and all of it can be had again when it is given back. What a process has little of (descriptors,
//! memory): `exhausted_process.rs`.

mod common;

use std::collections::BTreeSet;
use std::ffi::{c_int, c_void};
use std::ptr::null_mut;

use common::*;
use ibverbs::abi::*;

/// What the calls are made with.
struct Given {
    bench: Bench,
    device: ibv_device_attr,
    /// Of QPs whose frames are spread.
    wq: *mut ibv_wq,
    spread: *mut ibv_rwq_ind_table,
    raw: *mut ibv_qp,
    ud: *mut ibv_qp,
    xrcd: *mut ibv_xrcd,
    memory: Vec<u8>,
}

/// What a call has made; its number among those that were made before.
type Make = unsafe fn(&Given, usize) -> *mut c_void;
type Unmake = unsafe fn(&Given, *mut c_void) -> c_int;

/// The call, how many there are beside those of [`Given`], and its counterpart.
type Row = (&'static str, fn(&Given) -> c_int, Make, Unmake);

unsafe fn slots(given: &Given) -> &verbs_context {
    // SAFETY: open, and the table of functions stays as it is.
    unsafe { &*extended(given.bench.context) }
}

/// The smallest queues.
fn small(given: &Given, qp_type: ibv_qp_type) -> ibv_qp_init_attr {
    let mut attr = init_attr(given.bench.cq);
    (attr.cap.max_send_wr, attr.cap.max_recv_wr) = (1, 1);
    attr.qp_type = qp_type;
    attr
}

fn small_ex(given: &Given, qp_type: ibv_qp_type) -> ibv_qp_init_attr_ex {
    let mut attr = init_attr_ex(given.bench.pd, given.bench.cq, 0);
    (attr.cap.max_send_wr, attr.cap.max_recv_wr) = (1, 1);
    attr.qp_type = qp_type;
    attr
}

unsafe fn create_qp_ex(given: &Given, mut attr: ibv_qp_init_attr_ex) -> *mut c_void {
    // SAFETY: live objects.
    unsafe { slots(given).create_qp_ex.unwrap()(given.bench.context, &mut attr).cast() }
}

unsafe fn destroy_qp(_: &Given, object: *mut c_void) -> c_int {
    // SAFETY: made by create_qp.
    unsafe { ibv_destroy_qp(object.cast()) }
}

unsafe fn destroy_srq(_: &Given, object: *mut c_void) -> c_int {
    // SAFETY: made by create_srq.
    unsafe { ibv_destroy_srq(object.cast()) }
}

/// V-90.
unsafe fn create_wq(context: *mut ibv_context, pd: *mut ibv_pd, cq: *mut ibv_cq) -> *mut ibv_wq {
    let mut attr = ibv_wq_init_attr {
        wq_type: IBV_WQT_RQ,
        max_wr: 1,
        max_sge: 1,
        pd,
        cq,
        ..Default::default()
    };
    // SAFETY: live objects.
    unsafe { (*extended(context)).create_wq.unwrap()(context, &mut attr) }
}

/// A function's share of 256; no attribute says it.
const XRCDS: c_int = 64;

/// The QPs that there are beside those of the bench, the WQ, the raw QP and that of datagrams.
fn qps(given: &Given) -> c_int {
    given.device.max_qp - 5
}

/// A multicast group of its own.
fn group(number: usize) -> ibv_gid {
    let mut gid = ibv_gid { raw: [0; 16] };
    // SAFETY: any bytes are a GID.
    let raw = unsafe { &mut gid.raw };
    (raw[0], raw[1], raw[14], raw[15]) = (0xff, 0x12, (number >> 8) as u8, number as u8);
    gid
}

unsafe extern "C" {
    fn ibv_attach_mcast(qp: *mut ibv_qp, gid: *const ibv_gid, lid: u16) -> c_int;
    fn ibv_detach_mcast(qp: *mut ibv_qp, gid: *const ibv_gid, lid: u16) -> c_int;
}

#[repr(C)]
struct Rule {
    attr: ibv_flow_attr,
    spec: ibv_flow_spec_eth,
}

unsafe fn create_flow(given: &Given, number: usize) -> *mut c_void {
    let mut rule = Rule {
        attr: ibv_flow_attr {
            size: size_of::<Rule>() as u16,
            num_of_specs: 1,
            port: 1,
            ..Default::default()
        },
        spec: ibv_flow_spec_eth {
            type_: IBV_FLOW_SPEC_ETH,
            size: size_of::<ibv_flow_spec_eth>() as u16,
            ..Default::default()
        },
    };
    (rule.spec.val.dst_mac, rule.spec.mask.dst_mac) = ([2, 0, 0, 0, 0, number as u8], [0xff; 6]);
    // SAFETY: a live QP.
    unsafe { slots(given).ibv_create_flow.unwrap()(given.raw, (&raw mut rule).cast()).cast() }
}

/// V-114.
unsafe fn create_spread(given: &Given) -> *mut c_void {
    let mut key = [9u8; 40];
    let mut attr = small_ex(given, IBV_QPT_RAW_PACKET);
    attr.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_IND_TABLE | IBV_QP_INIT_ATTR_RX_HASH;
    (attr.send_cq, attr.recv_cq, attr.rwq_ind_tbl) = (null_mut(), null_mut(), given.spread);
    attr.rx_hash_conf = ibv_rx_hash_conf {
        rx_hash_function: IBV_RX_HASH_FUNC_TOEPLITZ as u8,
        rx_hash_key_len: 40,
        rx_hash_key: key.as_mut_ptr(),
        rx_hash_fields_mask: IBV_RX_HASH_SRC_IPV4.into(),
    };
    // SAFETY: live objects; the key is copied.
    unsafe { create_qp_ex(given, attr) }
}

#[rustfmt::skip]
#[allow(
    clippy::undocumented_unsafe_blocks,
    reason = "of each row alike: live objects, and each that is made is given back once"
)]
const ROWS: &[Row] = &[
    // V-56.
    ("ibv_alloc_pd", |g| g.device.max_pd - 1, |g, _| unsafe { ibv_alloc_pd(g.bench.context).cast() },
     |_, o| unsafe { ibv_dealloc_pd(o.cast()) }),
    ("ibv_create_cq", |g| g.device.max_cq - 1,
     |g, _| unsafe { ibv_create_cq(g.bench.context, 1, null_mut(), null_mut(), 0).cast() },
     |_, o| unsafe { ibv_destroy_cq(o.cast()) }),
    ("create_cq_ex", |g| g.device.max_cq - 1, |g, _| unsafe {
        let mut attr = ibv_cq_init_attr_ex { cqe: 1, ..Default::default() };
        slots(g).create_cq_ex.unwrap()(g.bench.context, &mut attr).cast()
    }, |_, o| unsafe { ibv_destroy_cq(o.cast()) }),
    // V-110, V-114: every kind of QP is of the same number, and so are WQs.
    ("ibv_create_qp: RC", qps, |g, _| unsafe {
        ibv_create_qp(g.bench.pd, &mut small(g, IBV_QPT_RC)).cast()
    }, destroy_qp),
    ("ibv_create_qp: UC", qps, |g, _| unsafe {
        ibv_create_qp(g.bench.pd, &mut small(g, IBV_QPT_UC)).cast()
    }, destroy_qp),
    ("ibv_create_qp: UD", qps, |g, _| unsafe {
        ibv_create_qp(g.bench.pd, &mut small(g, IBV_QPT_UD)).cast()
    }, destroy_qp),
    ("ibv_create_qp: RAW_PACKET", qps, |g, _| unsafe {
        ibv_create_qp(g.bench.pd, &mut small(g, IBV_QPT_RAW_PACKET)).cast()
    }, destroy_qp),
    ("create_qp_ex: XRC_SEND", qps, |g, _| unsafe { create_qp_ex(g, small_ex(g, IBV_QPT_XRC_SEND)) }, destroy_qp),
    ("create_qp_ex: XRC_RECV", qps, |g, _| unsafe {
        let mut attr = small_ex(g, IBV_QPT_XRC_RECV);
        (attr.comp_mask, attr.xrcd) = (IBV_QP_INIT_ATTR_XRCD, g.xrcd);
        create_qp_ex(g, attr)
    }, destroy_qp),
    ("create_qp_ex: RX_HASH", |_| hca_abi::RSS_QPS as c_int, |g, _| unsafe { create_spread(g) }, destroy_qp),
    ("create_wq", qps, |g, _| unsafe { create_wq(g.bench.context, g.bench.pd, g.bench.cq).cast() },
     |g, o| unsafe { slots(g).destroy_wq.unwrap()(o.cast()) }),
    // V-100, V-101.
    ("ibv_create_srq", |g| g.device.max_srq, |g, _| unsafe {
        let mut attr = ibv_srq_init_attr::default();
        (attr.attr.max_wr, attr.attr.max_sge) = (1, 1);
        ibv_create_srq(g.bench.pd, (&raw mut attr).cast()).cast()
    }, destroy_srq),
    ("create_srq_ex: XRC", |g| g.device.max_srq, |g, _| unsafe {
        let mut attr = ibv_srq_init_attr_ex {
            comp_mask: IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ,
            srq_type: IBV_SRQT_XRC,
            pd: g.bench.pd,
            xrcd: g.xrcd,
            cq: g.bench.cq,
            ..Default::default()
        };
        (attr.attr.max_wr, attr.attr.max_sge) = (1, 1);
        slots(g).create_srq_ex.unwrap()(g.bench.context, &mut attr).cast()
    }, destroy_srq),
    // V-83.
    ("open_xrcd", |_| XRCDS - 1, |g, _| unsafe {
        let mut attr = ibv_xrcd_init_attr {
            comp_mask: IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS,
            fd: -1,
            oflags: libc::O_CREAT,
        };
        slots(g).open_xrcd.unwrap()(g.bench.context, &mut attr).cast()
    }, |g, o| unsafe { slots(g).close_xrcd.unwrap()(o.cast()) }),
    // V-155, of the whole card.
    ("create_flow", |_| hca_abi::RULES as c_int, |g, number| unsafe { create_flow(g, number) },
     |g, o| unsafe { slots(g).ibv_destroy_flow.unwrap()(o.cast()) }),
    // V-150: as many memberships as groups; each of the QP in another one. What is "made" is the group's number.
    ("ibv_attach_mcast", |g| g.device.max_mcast_grp, |g, number| unsafe {
        match ibv_attach_mcast(g.ud, &group(number), 0) {
            0 => (number + 1) as *mut c_void,
            code => { assert_eq!(code, errno()); null_mut() }
        }
    }, |g, o| unsafe { ibv_detach_mcast(g.ud, &group(o as usize - 1), 0) }),
];

impl Given {
    fn new(card: usize) -> Self {
        let bench = bench(card);
        let mut device = ibv_device_attr::default();
        // SAFETY: live objects; each is looked at.
        unsafe {
            assert_eq!(ibv_query_device(bench.context, &mut device), 0);
            let wq = create_wq(bench.context, bench.pd, bench.cq);
            let verbs = &*extended(bench.context);
            let mut wqs = [wq];
            let mut table = ibv_rwq_ind_table_init_attr {
                log_ind_tbl_size: 0,
                ind_tbl: wqs.as_mut_ptr(),
                comp_mask: 0,
            };
            let spread = verbs.create_rwq_ind_table.unwrap()(bench.context, &mut table);
            let mut xrcd = ibv_xrcd_init_attr {
                comp_mask: IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS,
                fd: -1,
                oflags: libc::O_CREAT,
            };
            let xrcd = verbs.open_xrcd.unwrap()(bench.context, &mut xrcd);
            let [raw, ud] = [IBV_QPT_RAW_PACKET, IBV_QPT_UD].map(|qp_type| {
                let mut attr = init_attr(bench.cq);
                attr.qp_type = qp_type;
                let qp = ibv_create_qp(bench.pd, &mut attr);
                let mut init = ibv_qp_attr {
                    qp_state: IBV_QPS_INIT,
                    port_num: 1,
                    ..Default::default()
                };
                let more = if qp_type == IBV_QPT_UD {
                    IBV_QP_PKEY_INDEX | IBV_QP_QKEY
                } else {
                    0
                };
                let mask = IBV_QP_STATE | IBV_QP_PORT | more;
                assert_eq!(ibv_modify_qp(qp, &mut init, mask as c_int), 0);
                qp
            });
            assert!(!wq.is_null() && !spread.is_null() && !xrcd.is_null());
            Self {
                bench,
                device,
                wq,
                spread,
                raw,
                ud,
                xrcd,
                memory: vec![0; 4096],
            }
        }
    }

    fn close(self) {
        // SAFETY: made above.
        unsafe {
            let verbs = slots(&self);
            assert_eq!(verbs.destroy_rwq_ind_table.unwrap()(self.spread), 0);
            assert_eq!(verbs.destroy_wq.unwrap()(self.wq), 0);
            assert_eq!(verbs.close_xrcd.unwrap()(self.xrcd), 0);
            assert_eq!((ibv_destroy_qp(self.raw), ibv_destroy_qp(self.ud)), (0, 0));
        }
        self.bench.close();
    }
}

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
