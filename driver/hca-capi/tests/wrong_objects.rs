//! Every call of libibverbs that takes an object, with NULL, with one that is gone, and with every live one of another
//! kind: the error of the manual pages, in the form that each returns (V-1 leaves more to the program; this library
//! looks up what it is given). And every argument that must not be NULL.
//!
//! Post and poll look nothing up, and are no symbols.

mod common;

use std::collections::BTreeSet;
use std::ffi::{c_int, c_uint, c_void};
use std::ptr::null_mut;

use common::*;
use ibverbs::abi::*;

unsafe extern "C" {
    fn ibv_attach_mcast(qp: *mut ibv_qp, gid: *const ibv_gid, lid: u16) -> c_int;
    fn ibv_detach_mcast(qp: *mut ibv_qp, gid: *const ibv_gid, lid: u16) -> c_int;
    fn ibv_get_device_index(device: *mut ibv_device) -> c_int;
    fn ibv_get_pkey_index(context: *mut ibv_context, port: u8, pkey: u16) -> c_int;
    fn ibv_modify_srq(srq: *mut ibv_srq, attr: *mut ibv_srq_attr, mask: c_int) -> c_int;
    fn ibv_query_srq(srq: *mut ibv_srq, attr: *mut ibv_srq_attr) -> c_int;
    fn ibv_query_gid_type(context: *mut ibv_context, port: u8, index: c_uint, kind: *mut c_uint) -> c_int;
    fn ibv_reg_mr_iova(
        pd: *mut ibv_pd,
        addr: *mut c_void,
        length: usize,
        iova: u64,
        access: c_int,
    ) -> *mut ibv_mr;
    fn ibv_reg_mr_iova2(
        pd: *mut ibv_pd,
        addr: *mut c_void,
        length: usize,
        iova: u64,
        access: c_uint,
    ) -> *mut ibv_mr;
    fn ibv_resolve_eth_l2_from_gid(
        context: *mut ibv_context,
        attr: *mut ibv_ah_attr,
        mac: *mut [u8; 6],
        vlan: *mut u16,
    ) -> c_int;
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Device,
    Context,
    Channel,
    Pd,
    Td,
    Ah,
    Mr,
    Cq,
    Qp,
    Srq,
}

/// What a call has returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Answer {
    /// NULL and errno.
    Null(c_int),
    /// An errno, in errno too.
    Code(c_int),
    /// -1 and errno.
    Minus(c_int),
    /// An errno below 0.
    Negative(c_int),
    /// 0 where a number is wanted, and errno.
    Zero(c_int),
    /// Something else: a success.
    Done,
}

fn null<T>(pointer: *mut T) -> Answer {
    let errno = errno();
    if pointer.is_null() {
        Answer::Null(errno)
    } else {
        Answer::Done
    }
}

fn code(result: c_int) -> Answer {
    let errno = errno();
    if result > 0 && result == errno {
        Answer::Code(errno)
    } else {
        Answer::Done
    }
}

fn minus(result: c_int) -> Answer {
    let errno = errno();
    if result == -1 {
        Answer::Minus(errno)
    } else {
        Answer::Done
    }
}

/// All kinds of objects, one each.
struct Objects([(Kind, *mut c_void); 10]);

impl Objects {
    /// Made on an open device, which stays open.
    unsafe fn new(device: *mut ibv_device, context: *mut ibv_context, buf: &mut [u8]) -> Self {
        // SAFETY: live objects; each is checked.
        unsafe {
            let verbs = extended(context);
            let pd = ibv_alloc_pd(context);
            let td = (*verbs).alloc_td.unwrap()(context, &mut ibv_td_init_attr::default());
            let channel = ibv_create_comp_channel(context);
            let cq = ibv_create_cq(context, 10, null_mut(), null_mut(), 0);
            let qp = ibv_create_qp(pd, &mut init_attr(cq));
            let mr = ibv_reg_mr(pd, buf.as_mut_ptr().cast(), buf.len(), 1);
            let mut srq = ibv_srq_init_attr::default();
            (srq.attr.max_wr, srq.attr.max_sge) = (4, 1);
            let srq = ibv_create_srq(pd, (&raw mut srq).cast());
            let ah = ibv_create_ah(pd, &mut ah_attr(context));
            let all = [
                (Kind::Device, device.cast()),
                (Kind::Context, context.cast()),
                (Kind::Channel, channel.cast()),
                (Kind::Pd, pd.cast()),
                (Kind::Td, td.cast()),
                (Kind::Ah, ah.cast()),
                (Kind::Mr, mr.cast()),
                (Kind::Cq, cq.cast()),
                (Kind::Qp, qp.cast()),
                (Kind::Srq, srq.cast()),
            ];
            assert!(all.iter().all(|(kind, object): &(Kind, *mut c_void)| {
                assert!(!object.is_null(), "{kind:?}");
                true
            }));
            Self(all)
        }
    }

    fn get<T>(&self, kind: Kind) -> *mut T {
        self.0.iter().find(|(other, _)| *other == kind).unwrap().1.cast()
    }

    /// All but device and context.
    unsafe fn destroy(&self) {
        // SAFETY: live objects, destroyed once.
        unsafe {
            let verbs = extended(self.get(Kind::Context));
            assert_eq!(ibv_destroy_ah(self.get(Kind::Ah)), 0);
            assert_eq!(ibv_dereg_mr(self.get(Kind::Mr)), 0);
            assert_eq!(ibv_destroy_qp(self.get(Kind::Qp)), 0);
            assert_eq!(ibv_destroy_srq(self.get(Kind::Srq)), 0);
            assert_eq!(ibv_destroy_cq(self.get(Kind::Cq)), 0);
            assert_eq!(ibv_destroy_comp_channel(self.get(Kind::Channel)), 0);
            assert_eq!((*verbs).dealloc_td.unwrap()(self.get(Kind::Td)), 0);
            assert_eq!(ibv_dealloc_pd(self.get(Kind::Pd)), 0);
        }
    }
}

/// The way to the card itself.
fn ah_attr(context: *mut ibv_context) -> ibv_ah_attr {
    let mut attr = ibv_ah_attr {
        is_global: 1,
        port_num: 1,
        ..Default::default()
    };
    attr.grh.sgid_index = 1;
    // SAFETY: an open device, and room for a GID.
    assert_eq!(unsafe { ibv_query_gid(context, 1, 1, &mut attr.grh.dgid) }, 0);
    attr
}

/// A call with everything right but its object, which is the last argument.
type Call = unsafe fn(&Objects, &mut [u8], *mut c_void) -> Answer;

/// Name, kind of object, how it says no, and the call.
type Row = (&'static str, Kind, Answer, Call);

const EINVAL: c_int = libc::EINVAL;
const NULL: Answer = Answer::Null(EINVAL);
const CODE: Answer = Answer::Code(EINVAL);
const MINUS: Answer = Answer::Minus(EINVAL);

/// Slots of the extended context, as verbs.h calls them.
unsafe fn slots(objects: &Objects) -> &verbs_context {
    // SAFETY: open, and the table of functions stays as it is.
    unsafe { &*extended(objects.get(Kind::Context)) }
}

#[rustfmt::skip]
#[allow(
    clippy::undocumented_unsafe_blocks,
    reason = "of each row alike: the object is only looked up, all else is alive"
)]
const ROWS: &[Row] = &[
    ("ibv_get_device_name", Kind::Device, NULL, |_, _, o| unsafe { null(ibv_get_device_name(o.cast()).cast_mut()) }),
    ("ibv_get_device_index", Kind::Device, MINUS, |_, _, o| unsafe { minus(ibv_get_device_index(o.cast())) }),
    // V-23.
    ("ibv_get_device_guid", Kind::Device, Answer::Zero(libc::EMFILE), |_, _, o| unsafe {
        match ibv_get_device_guid(o.cast()) { 0 => Answer::Zero(errno()), _ => Answer::Done }
    }),
    // V-25.
    ("ibv_open_device", Kind::Device, NULL, |_, _, o| unsafe { null(ibv_open_device(o.cast())) }),
    // V-26.
    ("ibv_close_device", Kind::Context, MINUS, |_, _, o| unsafe { minus(ibv_close_device(o.cast())) }),
    ("ibv_query_device", Kind::Context, CODE, |_, _, o| unsafe {
        code(ibv_query_device(o.cast(), &mut ibv_device_attr::default()))
    }),
    // V-35.
    ("ibv_query_port", Kind::Context, CODE, |_, _, o| unsafe {
        let mut attr = ibv_port_attr::default();
        code(ibv_query_port(o.cast(), 1, (&raw mut attr).cast()))
    }),
    ("ibv_query_gid", Kind::Context, MINUS, |_, _, o| unsafe {
        minus(ibv_query_gid(o.cast(), 1, 0, &mut ibv_gid::default()))
    }),
    ("_ibv_query_gid_ex", Kind::Context, CODE, |_, _, o| unsafe {
        code(_ibv_query_gid_ex(o.cast(), 1, 0, &mut ibv_gid_entry::default(), 0, size_of::<ibv_gid_entry>()))
    }),
    ("_ibv_query_gid_table", Kind::Context, Answer::Negative(EINVAL), |_, _, o| unsafe {
        let mut entry = ibv_gid_entry::default();
        match _ibv_query_gid_table(o.cast(), &mut entry, 1, 0, size_of::<ibv_gid_entry>()) {
            found if found < 0 => Answer::Negative(-found as c_int),
            _ => Answer::Done,
        }
    }),
    ("ibv_query_gid_type", Kind::Context, MINUS, |_, _, o| unsafe {
        minus(ibv_query_gid_type(o.cast(), 1, 0, &mut 0))
    }),
    ("ibv_query_pkey", Kind::Context, MINUS, |_, _, o| unsafe { minus(ibv_query_pkey(o.cast(), 1, 0, &mut 0)) }),
    ("ibv_get_pkey_index", Kind::Context, MINUS, |_, _, o| unsafe { minus(ibv_get_pkey_index(o.cast(), 1, 0xffff)) }),
    ("ibv_resolve_eth_l2_from_gid", Kind::Context, CODE, |own, _, o| unsafe {
        code(ibv_resolve_eth_l2_from_gid(o.cast(), &mut ah_attr(own.get(Kind::Context)), &mut [0; 6], &mut 0))
    }),
    ("ibv_alloc_pd", Kind::Context, NULL, |_, _, o| unsafe { null(ibv_alloc_pd(o.cast())) }),
    ("ibv_import_pd", Kind::Context, NULL, |_, _, o| unsafe { null(ibv_import_pd(o.cast(), 1)) }),
    ("ibv_import_mr", Kind::Pd, NULL, |_, _, o| unsafe { null(ibv_import_mr(o.cast(), 1)) }),
    // V-50, V-51.
    ("ibv_create_comp_channel", Kind::Context, NULL, |_, _, o| unsafe { null(ibv_create_comp_channel(o.cast())) }),
    ("ibv_destroy_comp_channel", Kind::Channel, CODE, |_, _, o| unsafe { code(ibv_destroy_comp_channel(o.cast())) }),
    // V-55: the context, and the channel, which may be NULL.
    ("ibv_create_cq", Kind::Context, NULL, |_, _, o| unsafe {
        null(ibv_create_cq(o.cast(), 1, null_mut(), null_mut(), 0))
    }),
    // V-45, V-68.
    ("ibv_get_async_event", Kind::Context, MINUS, |_, _, o| unsafe {
        minus(ibv_get_async_event(o.cast(), &mut ibv_async_event::default()))
    }),
    ("ibv_get_cq_event", Kind::Channel, MINUS, |_, _, o| unsafe {
        minus(ibv_get_cq_event(o.cast(), &mut null_mut(), &mut null_mut()))
    }),
    ("ibv_resize_cq", Kind::Cq, CODE, |_, _, o| unsafe { code(ibv_resize_cq(o.cast(), 20)) }),
    ("ibv_destroy_cq", Kind::Cq, CODE, |_, _, o| unsafe { code(ibv_destroy_cq(o.cast())) }),
    ("ibv_dealloc_pd", Kind::Pd, CODE, |_, _, o| unsafe { code(ibv_dealloc_pd(o.cast())) }),
    ("ibv_reg_mr", Kind::Pd, NULL, |_, buf, o| unsafe {
        null(ibv_reg_mr(o.cast(), buf.as_mut_ptr().cast(), buf.len(), 1))
    }),
    ("ibv_reg_mr_iova", Kind::Pd, NULL, |_, buf, o| unsafe {
        null(ibv_reg_mr_iova(o.cast(), buf.as_mut_ptr().cast(), buf.len(), 0, 1))
    }),
    ("ibv_reg_mr_iova2", Kind::Pd, NULL, |_, buf, o| unsafe {
        null(ibv_reg_mr_iova2(o.cast(), buf.as_mut_ptr().cast(), buf.len(), 0, 1))
    }),
    // V-132.
    ("ibv_dereg_mr", Kind::Mr, CODE, |_, _, o| unsafe { code(ibv_dereg_mr(o.cast())) }),
    // V-131: its own codes.
    ("ibv_rereg_mr", Kind::Mr, Answer::Minus(EINVAL), |own, _, o| unsafe {
        let access = IBV_REREG_MR_CHANGE_ACCESS as c_int;
        minus(ibv_rereg_mr(o.cast(), access, own.get(Kind::Pd), null_mut(), 0, 1))
    }),
    ("ibv_create_ah", Kind::Pd, NULL, |own, _, o| unsafe {
        null(ibv_create_ah(o.cast(), &mut ah_attr(own.get(Kind::Context))))
    }),
    // V-146, V-147.
    ("ibv_create_ah_from_wc", Kind::Pd, NULL, |_, _, o| unsafe {
        null(ibv_create_ah_from_wc(o.cast(), &mut ibv_wc::default(), null_mut(), 1))
    }),
    ("ibv_init_ah_from_wc", Kind::Context, MINUS, |_, _, o| unsafe {
        minus(ibv_init_ah_from_wc(o.cast(), 1, &mut ibv_wc::default(), null_mut(), &mut ibv_ah_attr::default()))
    }),
    ("ibv_destroy_ah", Kind::Ah, CODE, |_, _, o| unsafe { code(ibv_destroy_ah(o.cast())) }),
    ("ibv_create_srq", Kind::Pd, NULL, |_, _, o| unsafe {
        let mut attr = ibv_srq_init_attr::default();
        (attr.attr.max_wr, attr.attr.max_sge) = (4, 1);
        null(ibv_create_srq(o.cast(), (&raw mut attr).cast()))
    }),
    ("ibv_modify_srq", Kind::Srq, CODE, |_, _, o| unsafe {
        code(ibv_modify_srq(o.cast(), &mut ibv_srq_attr::default(), IBV_SRQ_LIMIT as c_int))
    }),
    ("ibv_query_srq", Kind::Srq, MINUS, |_, _, o| unsafe {
        minus(ibv_query_srq(o.cast(), &mut ibv_srq_attr::default()))
    }),
    ("ibv_destroy_srq", Kind::Srq, CODE, |_, _, o| unsafe { code(ibv_destroy_srq(o.cast())) }),
    ("ibv_create_qp", Kind::Pd, NULL, |own, _, o| unsafe {
        null(ibv_create_qp(o.cast(), &mut init_attr(own.get(Kind::Cq))))
    }),
    ("ibv_create_qp: send_cq", Kind::Cq, NULL, |own, _, o| unsafe {
        let mut attr = init_attr(own.get(Kind::Cq));
        attr.send_cq = o.cast();
        null(ibv_create_qp(own.get(Kind::Pd), &mut attr))
    }),
    ("ibv_create_qp: recv_cq", Kind::Cq, NULL, |own, _, o| unsafe {
        let mut attr = init_attr(own.get(Kind::Cq));
        attr.recv_cq = o.cast();
        null(ibv_create_qp(own.get(Kind::Pd), &mut attr))
    }),
    // V-118, V-119.
    ("ibv_modify_qp", Kind::Qp, CODE, |_, _, o| unsafe {
        let mut attr = ibv_qp_attr { qp_state: IBV_QPS_RESET, ..Default::default() };
        code(ibv_modify_qp(o.cast(), &mut attr, IBV_QP_STATE as c_int))
    }),
    ("ibv_query_qp", Kind::Qp, CODE, |_, _, o| unsafe {
        code(ibv_query_qp(o.cast(), &mut ibv_qp_attr::default(), 0, &mut ibv_qp_init_attr::default()))
    }),
    // V-117.
    ("ibv_qp_to_qp_ex", Kind::Qp, NULL, |_, _, o| unsafe { null(ibv_qp_to_qp_ex(o.cast())) }),
    // V-150, V-151.
    ("ibv_attach_mcast", Kind::Qp, CODE, |_, _, o| unsafe { code(ibv_attach_mcast(o.cast(), &ibv_gid::default(), 0)) }),
    ("ibv_detach_mcast", Kind::Qp, CODE, |_, _, o| unsafe { code(ibv_detach_mcast(o.cast(), &ibv_gid::default(), 0)) }),
    ("ibv_query_ece", Kind::Qp, CODE, |_, _, o| unsafe { code(ibv_query_ece(o.cast(), &mut ibv_ece::default())) }),
    ("ibv_set_ece", Kind::Qp, CODE, |_, _, o| unsafe { code(ibv_set_ece(o.cast(), &mut ibv_ece::default())) }),
    ("ibv_destroy_qp", Kind::Qp, CODE, |_, _, o| unsafe { code(ibv_destroy_qp(o.cast())) }),
    // What verbs.h calls by the context's table.
    ("query_device_ex", Kind::Context, CODE, |own, _, o| unsafe {
        let mut attr = ibv_device_attr_ex::default();
        let len = size_of_val(&attr);
        code(slots(own).query_device_ex.unwrap()(o.cast(), std::ptr::null(), &mut attr, len))
    }),
    ("query_port", Kind::Context, CODE, |own, _, o| unsafe {
        let mut attr = ibv_port_attr::default();
        let len = size_of_val(&attr);
        code(slots(own).query_port.unwrap()(o.cast(), 1, &mut attr, len))
    }),
    ("query_rt_values", Kind::Context, CODE, |own, _, o| unsafe {
        let mut values = ibv_values_ex { comp_mask: IBV_VALUES_MASK_RAW_CLOCK, ..Default::default() };
        code(slots(own).query_rt_values.unwrap()(o.cast(), &mut values))
    }),
    ("create_cq_ex", Kind::Context, NULL, |own, _, o| unsafe {
        let mut attr = ibv_cq_init_attr_ex { cqe: 1, ..Default::default() };
        null(slots(own).create_cq_ex.unwrap()(o.cast(), &mut attr))
    }),
    ("create_qp_ex: pd", Kind::Pd, NULL, |own, _, o| unsafe {
        let mut attr = init_attr_ex(o.cast(), own.get(Kind::Cq), IBV_QP_EX_WITH_SEND);
        null(slots(own).create_qp_ex.unwrap()(own.get(Kind::Context), &mut attr))
    }),
    ("modify_cq", Kind::Cq, CODE, |own, _, o| unsafe {
        let mut attr = ibv_modify_cq_attr { attr_mask: IBV_CQ_ATTR_MODERATE, ..Default::default() };
        code(slots(own).modify_cq.unwrap()(o.cast(), &mut attr))
    }),
    ("alloc_null_mr", Kind::Pd, NULL, |own, _, o| unsafe {
        null(slots(own).alloc_null_mr.unwrap()(o.cast()))
    }),
    ("alloc_td", Kind::Context, NULL, |own, _, o| unsafe {
        null(slots(own).alloc_td.unwrap()(o.cast(), &mut ibv_td_init_attr::default()))
    }),
    ("dealloc_td", Kind::Td, CODE, |own, _, o| unsafe { code(slots(own).dealloc_td.unwrap()(o.cast())) }),
    ("alloc_parent_domain", Kind::Context, NULL, |own, _, o| unsafe {
        let mut attr = ibv_parent_domain_init_attr { pd: own.get(Kind::Pd), ..Default::default() };
        null(slots(own).alloc_parent_domain.unwrap()(o.cast(), &mut attr))
    }),
    ("alloc_parent_domain: pd", Kind::Pd, NULL, |own, _, o| unsafe {
        let mut attr = ibv_parent_domain_init_attr { pd: o.cast(), ..Default::default() };
        null(slots(own).alloc_parent_domain.unwrap()(own.get(Kind::Context), &mut attr))
    }),
];

/// Symbols without a row: those that take no object of ours, return nothing, or are not there for anybody.
const OTHERS: &[&str] = &[
    // Acknowledging is of no effect on what is no object: bad_use.rs.
    "ibv_ack_async_event",
    "ibv_ack_cq_events",
    // Structures of the program and of the C library: symbols.rs compares them with rdma-core's.
    "ibv_copy_ah_attr_from_kern",
    "ibv_copy_path_rec_from_kern",
    "ibv_copy_path_rec_to_kern",
    "ibv_copy_qp_attr_from_kern",
    "ibv_event_type_str",
    "ibv_node_type_str",
    "ibv_port_state_str",
    "ibv_rate_to_mbps",
    "ibv_rate_to_mult",
    "ibv_wc_status_str",
    "mbps_to_ibv_rate",
    "mult_to_ibv_rate",
    // The list.
    "ibv_free_device_list",
    "ibv_get_device_list",
    // Files and memory.
    "ibv_dofork_range",
    "ibv_dontfork_range",
    "ibv_fork_init",
    "ibv_get_sysfs_path",
    "ibv_is_fork_initialized",
    "ibv_read_sysfs_file",
    // Nobody can have such an object: EOPNOTSUPP, symbols.rs.
    "ibv_reg_dmabuf_mr",
    // device_memory.rs.
    "ibv_import_dm",
    "ibv_unimport_dm",
    // A descriptor; and what returns nothing: imported.rs.
    "ibv_import_device",
    "ibv_unimport_mr",
    "ibv_unimport_pd",
    // 0 whatever it is.
    "ibv_query_qp_data_in_order",
];

#[test]
fn every_public_symbol_is_in_the_table() {
    let list = include_str!("../exports.txt")
        .lines()
        .filter(|line| !line.contains("PRIVATE"));
    let symbols: BTreeSet<&str> = list.map(|line| line.split_once(' ').unwrap().1).collect();
    let rows = ROWS
        .iter()
        .map(|(name, ..)| *name)
        .filter(|name| name.contains("ibv_"));
    let known: BTreeSet<&str> = rows.chain(OTHERS.iter().copied()).collect();
    let missing: Vec<_> = symbols.difference(&known).collect();
    assert!(missing.is_empty(), "{missing:?}");
}

#[test]
fn objects_that_are_none_gone_or_of_another_kind() {
    let bench = bench(40);
    let mut buf = vec![0u8; 4096];
    // SAFETY: live objects; wrong ones are only looked up.
    unsafe {
        let device = (*bench.context).device;
        let live = Objects::new(device, bench.context, &mut buf);
        // Gone last, so that nothing of the table has taken their places.
        let context = open(40);
        let gone = Objects::new(device, context, &mut buf);
        gone.destroy();
        assert_eq!(ibv_close_device(context), 0);
        for (name, kind, wanted, call) in ROWS {
            let is_wrong = |(other, _): &&(Kind, *mut c_void)| other != kind;
            let others = live
                .0
                .iter()
                .filter(is_wrong)
                .map(|(other, object)| (format!("a {other:?}"), *object));
            let mut wrong: Vec<_> = others.collect();
            wrong.push(("NULL".into(), null_mut()));
            if *kind != Kind::Device {
                wrong.push((format!("a {kind:?} that is gone"), gone.get(*kind)));
            }
            for (what, object) in wrong {
                *libc::__errno_location() = 0;
                let found = call(&live, &mut buf, object);
                assert_eq!(found, *wanted, "{name} with {what}");
            }
        }
        // Nothing of it has changed anything.
        live.destroy();
    }
    bench.close();
}
