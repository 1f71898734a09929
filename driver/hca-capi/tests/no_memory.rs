//! Calls that get no memory: ENOMEM, nothing is left of them, and never the end of the process. This thread's allocator
//! gives so many bytes and no more, from none to as many as the call needs, each row in a process of its own that says
//! which call ended it.

mod common;

use std::ffi::{c_int, c_void};
use std::ptr::null_mut;

use hca_room::limited::{Limited, budgets, each_in_a_child, limited, unlimited};

use common::makers::{Given, ROWS, create_qp_ex, slots, small, small_ex};
use common::*;
use ibverbs::abi::*;

#[global_allocator]
static ALLOCATOR: Limited = Limited;

type Make = unsafe fn(&mut Given) -> *mut c_void;
type Unmake = unsafe fn(&Given, *mut c_void) -> c_int;

/// What the card has no number of, and large queues.
#[rustfmt::skip]
#[allow(
    clippy::undocumented_unsafe_blocks,
    reason = "of each row alike: live objects, and each that is made is given back once"
)]
const MORE: &[(&str, Make, Unmake)] = &[
    ("ibv_get_device_list", |_| unsafe { ibv_get_device_list(null_mut()).cast() },
     |_, o| unsafe { ibv_free_device_list(o.cast()); 0 }),
    ("ibv_open_device", |g| unsafe { ibv_open_device((*g.bench.context).device).cast() },
     |_, o| unsafe { ibv_close_device(o.cast()) }),
    ("ibv_open_device of another card", |g| unsafe { ibv_open_device(g.other).cast() },
     |_, o| unsafe { ibv_close_device(o.cast()) }),
    ("ibv_import_pd", |g| unsafe { ibv_import_pd(g.bench.context, (*g.bench.pd).handle).cast() },
     |_, o| unsafe { ibv_unimport_pd(o.cast()); 0 }),
    ("ibv_create_comp_channel", |g| unsafe { ibv_create_comp_channel(g.bench.context).cast() },
     |_, o| unsafe { ibv_destroy_comp_channel(o.cast()) }),
    ("alloc_td", |g| unsafe {
        slots(g).alloc_td.unwrap()(g.bench.context, &mut ibv_td_init_attr::default()).cast()
    }, |g, o| unsafe { slots(g).dealloc_td.unwrap()(o.cast()) }),
    ("alloc_parent_domain", |g| unsafe {
        let mut attr = ibv_parent_domain_init_attr { pd: g.bench.pd, ..Default::default() };
        slots(g).alloc_parent_domain.unwrap()(g.bench.context, &mut attr).cast()
    }, |_, o| unsafe { ibv_dealloc_pd(o.cast()) }),
    ("ibv_reg_mr", |g| unsafe {
        ibv_reg_mr(g.bench.pd, g.memory.as_mut_ptr().cast(), g.memory.len(), 1).cast()
    }, |_, o| unsafe { ibv_dereg_mr(o.cast()) }),
    ("alloc_null_mr", |g| unsafe { slots(g).alloc_null_mr.unwrap()(g.bench.pd).cast() },
     |_, o| unsafe { ibv_dereg_mr(o.cast()) }),
    ("ibv_alloc_mw", |g| unsafe {
        (*g.bench.context).ops.alloc_mw.unwrap()(g.bench.pd, IBV_MW_TYPE_2).cast()
    }, |g, o| unsafe { (*g.bench.context).ops.dealloc_mw.unwrap()(o.cast()) }),
    ("ibv_create_ah", |g| unsafe {
        let mut attr = steps(0, gid(g))[1].0.ah_attr;
        attr.static_rate = 0;
        ibv_create_ah(g.bench.pd, &mut attr).cast()
    }, |_, o| unsafe { ibv_destroy_ah(o.cast()) }),
    ("alloc_dm", |g| unsafe {
        let mut attr = ibv_alloc_dm_attr { length: 4096, ..Default::default() };
        slots(g).alloc_dm.unwrap()(g.bench.context, &mut attr).cast()
    }, |g, o| unsafe { slots(g).free_dm.unwrap()(o.cast()) }),
    ("create_counters", |g| unsafe {
        slots(g).create_counters.unwrap()(g.bench.context, &mut ibv_counters_init_attr::default()).cast()
    }, |g, o| unsafe { slots(g).destroy_counters.unwrap()(o.cast()) }),
    ("create_rwq_ind_table", |g| unsafe {
        let mut wqs = [g.wq; 8];
        let mut attr = ibv_rwq_ind_table_init_attr {
            log_ind_tbl_size: 3,
            ind_tbl: wqs.as_mut_ptr(),
            comp_mask: 0,
        };
        slots(g).create_rwq_ind_table.unwrap()(g.bench.context, &mut attr).cast()
    }, |g, o| unsafe { slots(g).destroy_rwq_ind_table.unwrap()(o.cast()) }),
    ("ibv_create_cq: large, with a channel", |g| unsafe {
        let channel = unlimited_channel(g);
        let cq = ibv_create_cq(g.bench.context, 1 << 16, null_mut(), channel, 0);
        if cq.is_null() {
            let code = errno();
            assert_eq!(unlimited(|| ibv_destroy_comp_channel(channel)), 0);
            *libc::__errno_location() = code;
        }
        cq.cast()
    }, |_, o| unsafe {
        let channel = (*o.cast::<ibv_cq>()).channel;
        match ibv_destroy_cq(o.cast()) {
            0 => ibv_destroy_comp_channel(channel),
            code => code,
        }
    }),
    ("ibv_create_qp: large", |g| unsafe {
        let mut attr = small(g, IBV_QPT_RC);
        (attr.cap.max_send_wr, attr.cap.max_recv_wr) = (1 << 16, 1 << 16);
        ibv_create_qp(g.bench.pd, &mut attr).cast()
    }, |_, o| unsafe { ibv_destroy_qp(o.cast()) }),
    ("create_qp_ex: large, datagrams", |g| unsafe {
        let mut attr = small_ex(g, IBV_QPT_UD);
        (attr.cap.max_send_wr, attr.cap.max_recv_wr) = (1 << 14, 1 << 14);
        create_qp_ex(g, attr)
    }, |_, o| unsafe { ibv_destroy_qp(o.cast()) }),
    ("ibv_create_srq: large", |g| unsafe {
        let mut attr = ibv_srq_init_attr::default();
        (attr.attr.max_wr, attr.attr.max_sge) = (1 << 16, 1);
        ibv_create_srq(g.bench.pd, (&raw mut attr).cast()).cast()
    }, |_, o| unsafe { ibv_destroy_srq(o.cast()) }),
];

type Change = unsafe fn(&mut Given) -> c_int;

/// Calls that make nothing: 0 or ENOMEM, with any memory.
#[rustfmt::skip]
#[allow(clippy::undocumented_unsafe_blocks, reason = "of each row alike: live objects")]
const CHANGES: &[(&str, Change)] = &[
    ("ibv_query_device", |g| unsafe { ibv_query_device(g.bench.context, &mut g.device) }),
    ("ibv_query_port", |g| unsafe {
        let mut attr = ibv_port_attr::default();
        ibv_query_port(g.bench.context, 1, (&raw mut attr).cast())
    }),
    ("ibv_query_gid", |g| unsafe { status(ibv_query_gid(g.bench.context, 1, 1, &mut ibv_gid::default())) }),
    ("ibv_query_pkey", |g| unsafe { status(ibv_query_pkey(g.bench.context, 1, 0, &mut 0)) }),
    ("ibv_resize_cq", |g| unsafe { ibv_resize_cq(g.bench.cq, 200) }),
    ("ibv_modify_qp", |g| unsafe {
        let qp = g.ud;
        let mut attr = ibv_qp_attr { qp_state: IBV_QPS_INIT, port_num: 1, qkey: 7, ..Default::default() };
        let mask = IBV_QP_STATE | IBV_QP_PORT | IBV_QP_PKEY_INDEX | IBV_QP_QKEY;
        ibv_modify_qp(qp, &mut attr, mask as c_int)
    }),
    ("ibv_query_qp", |g| unsafe {
        ibv_query_qp(g.bench.qps[0], &mut ibv_qp_attr::default(), 1, &mut ibv_qp_init_attr::default())
    }),
    ("ibv_post_recv", |g| post_until_full(post_recv(g.bench.qps[0], 1))),
    ("ibv_post_send", |g| post_until_full(post_send(g.bench.qps[0], &mut [send_wr(1)]).0)),
    ("ibv_poll_cq", |g| unsafe {
        (*g.bench.context).ops.poll_cq.unwrap()(g.bench.cq, 1, &mut ibv_wc::default()).min(0)
    }),
    ("ibv_req_notify_cq", |g| unsafe { (*g.bench.context).ops.req_notify_cq.unwrap()(g.bench.cq, 0) }),
    ("ibv_rereg_mr", |g| unsafe { rereg(g) }),
];

/// -1 and errno, of the first ABI.
fn status(code: c_int) -> c_int {
    if code == 0 { 0 } else { errno() }
}

/// A queue that is full is ENOMEM, too: here it is neither.
fn post_until_full(code: c_int) -> c_int {
    if code == libc::ENOMEM { 0 } else { code }
}

unsafe fn rereg(given: &mut Given) -> c_int {
    // SAFETY: live objects.
    unsafe {
        let mr = unlimited(|| ibv_reg_mr(given.bench.pd, given.memory.as_mut_ptr().cast(), 64, 1));
        assert!(!mr.is_null());
        let flags = IBV_REREG_MR_CHANGE_ACCESS as c_int;
        let code = ibv_rereg_mr(mr, flags, null_mut(), null_mut(), 0, 3);
        let code = if code == 0 { 0 } else { errno() };
        // With nothing but what it has.
        assert_eq!(limited(0, || ibv_dereg_mr(mr)), 0);
        code
    }
}

fn gid(given: &Given) -> ibv_gid {
    let mut gid = ibv_gid::default();
    // SAFETY: an open device, and 16 bytes.
    unlimited(|| assert_eq!(unsafe { ibv_query_gid(given.bench.context, 1, 1, &mut gid) }, 0));
    gid
}

unsafe fn unlimited_channel(given: &Given) -> *mut ibv_comp_channel {
    // SAFETY: an open device.
    let channel = unlimited(|| unsafe { ibv_create_comp_channel(given.bench.context) });
    assert!(!channel.is_null());
    channel
}

/// Fails with ENOMEM until there is enough; then it works, and is given back with nothing to spare.
fn make_with_little(name: &str, given: &mut Given, make: impl Fn(&mut Given) -> *mut c_void, unmake: Unmake) {
    let (mut made, mut refusals) = (null_mut(), 0);
    for bytes in budgets() {
        let (object, code) = limited(bytes, || (make(given), errno()));
        if !object.is_null() {
            made = object;
            break;
        }
        assert_eq!(code, libc::ENOMEM, "{name} with {bytes} bytes");
        refusals += 1;
    }
    assert!(!made.is_null(), "{name}: no memory was enough");
    // The card alone remembers who is in a group.
    assert_eq!(refusals > 0, name != "ibv_attach_mcast", "{name}");
    // SAFETY: just made.
    let code = limited(0, || unsafe { unmake(given, made) });
    assert_eq!(code, 0, "{name}: given back");
}

/// The rows by number.
fn run(number: usize) -> Option<()> {
    let mut given = Given::new(47);
    if let Some((name, _, make, unmake)) = ROWS.get(number) {
        make_with_little(
            name,
            &mut given,
            |given| {
                // SAFETY: live objects.
                unsafe { make(given, 0) }
            },
            *unmake,
        );
    } else if let Some((name, make, unmake)) = MORE.get(number - ROWS.len()) {
        make_with_little(
            name,
            &mut given,
            |given| {
                // SAFETY: live objects.
                unsafe { make(given) }
            },
            *unmake,
        );
    } else {
        let (name, change) = CHANGES.get(number - ROWS.len() - MORE.len())?;
        for bytes in budgets().take(256) {
            // SAFETY: live objects.
            let code = limited(bytes, || unsafe { change(&mut given) });
            assert!(
                [0, libc::ENOMEM].contains(&code),
                "{name} with {bytes} bytes: {code}"
            );
        }
        // SAFETY: live objects.
        assert_eq!(unsafe { change(&mut given) }, 0, "{name}");
    }
    given.close();
    Some(())
}

/// V-12 and the manual pages: ENOMEM.
#[test]
fn no_memory_is_an_errno() {
    let names = (ROWS.iter().map(|row| row.0))
        .chain(MORE.iter().map(|row| row.0))
        .chain(CHANGES.iter().map(|row| row.0));
    each_in_a_child("no_memory_is_an_errno", names, |number| run(number).unwrap());
}
