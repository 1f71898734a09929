//! A call for everything that a program can make of which the card has a number, with its counterpart.

use std::ffi::{c_int, c_void};
use std::ptr::null_mut;

use ibverbs::abi::*;

use super::*;

/// What the calls are made with.
pub struct Given {
    pub bench: Bench,
    pub device: ibv_device_attr,
    /// Of QPs whose frames are spread.
    pub wq: *mut ibv_wq,
    pub spread: *mut ibv_rwq_ind_table,
    pub raw: *mut ibv_qp,
    pub ud: *mut ibv_qp,
    pub xrcd: *mut ibv_xrcd,
    /// Of a card that nobody has open.
    pub other: *mut ibv_device,
    pub memory: Vec<u8>,
}

/// What a call has made; its number among those that were made before.
pub type Make = unsafe fn(&Given, usize) -> *mut c_void;
pub type Unmake = unsafe fn(&Given, *mut c_void) -> c_int;

/// The call, how many there are beside those of [`Given`], and its counterpart.
pub type Row = (&'static str, fn(&Given) -> c_int, Make, Unmake);

pub unsafe fn slots(given: &Given) -> &verbs_context {
    // SAFETY: open, and the table of functions stays as it is.
    unsafe { &*extended(given.bench.context) }
}

/// The smallest queues.
pub fn small(given: &Given, qp_type: ibv_qp_type) -> ibv_qp_init_attr {
    let mut attr = init_attr(given.bench.cq);
    (attr.cap.max_send_wr, attr.cap.max_recv_wr) = (1, 1);
    attr.qp_type = qp_type;
    attr
}

pub fn small_ex(given: &Given, qp_type: ibv_qp_type) -> ibv_qp_init_attr_ex {
    let mut attr = init_attr_ex(given.bench.pd, given.bench.cq, 0);
    (attr.cap.max_send_wr, attr.cap.max_recv_wr) = (1, 1);
    attr.qp_type = qp_type;
    attr
}

pub unsafe fn create_qp_ex(given: &Given, mut attr: ibv_qp_init_attr_ex) -> *mut c_void {
    // SAFETY: live objects.
    unsafe { slots(given).create_qp_ex.unwrap()(given.bench.context, &mut attr).cast() }
}

pub unsafe fn destroy_qp(_: &Given, object: *mut c_void) -> c_int {
    // SAFETY: made by create_qp.
    unsafe { ibv_destroy_qp(object.cast()) }
}

pub unsafe fn destroy_srq(_: &Given, object: *mut c_void) -> c_int {
    // SAFETY: made by create_srq.
    unsafe { ibv_destroy_srq(object.cast()) }
}

/// V-90.
pub unsafe fn create_wq(context: *mut ibv_context, pd: *mut ibv_pd, cq: *mut ibv_cq) -> *mut ibv_wq {
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
pub const XRCDS: c_int = 64;

/// The QPs that there are beside those of the bench, the WQ, the raw QP and that of datagrams.
pub fn qps(given: &Given) -> c_int {
    given.device.max_qp - 5
}

/// A multicast group of its own.
pub fn group(number: usize) -> ibv_gid {
    let mut gid = ibv_gid { raw: [0; 16] };
    // SAFETY: any bytes are a GID.
    let raw = unsafe { &mut gid.raw };
    (raw[0], raw[1], raw[14], raw[15]) = (0xff, 0x12, (number >> 8) as u8, number as u8);
    gid
}

unsafe extern "C" {
    pub fn ibv_attach_mcast(qp: *mut ibv_qp, gid: *const ibv_gid, lid: u16) -> c_int;
    pub fn ibv_detach_mcast(qp: *mut ibv_qp, gid: *const ibv_gid, lid: u16) -> c_int;
}

#[repr(C)]
pub struct Rule {
    attr: ibv_flow_attr,
    spec: ibv_flow_spec_eth,
}

pub unsafe fn create_flow(given: &Given, number: usize) -> *mut c_void {
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
pub unsafe fn create_spread(given: &Given) -> *mut c_void {
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
pub const ROWS: &[Row] = &[
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

/// The device of a card, without an open.
fn device_of(card: usize) -> *mut ibv_device {
    // SAFETY: devices are never freed.
    unsafe {
        let list = ibv_get_device_list(null_mut());
        let device = *list.add(card);
        ibv_free_device_list(list);
        device
    }
}

impl Given {
    pub fn new(card: usize) -> Self {
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
                other: device_of(card + 1),
                memory: vec![0; 4096],
            }
        }
    }

    pub fn close(self) {
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
