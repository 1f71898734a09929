//! The C interface as a program calls it. Shared with the system tests, which have real cards behind it.
#![allow(dead_code, missing_docs)]

use std::ffi::{c_char, c_int, c_uint, c_void};
use std::ptr::{null, null_mut};

use ibverbs::abi::*;

// As a path, for whoever includes this file by its path.
#[path = "attr.rs"]
mod attr;
pub use attr::*;

unsafe extern "C" {
    pub fn ibv_get_device_list(num: *mut c_int) -> *mut *mut ibv_device;
    pub fn ibv_free_device_list(list: *mut *mut ibv_device);
    pub fn ibv_get_device_name(device: *mut ibv_device) -> *const c_char;
    pub fn ibv_get_device_guid(device: *mut ibv_device) -> u64;
    pub fn ibv_open_device(device: *mut ibv_device) -> *mut ibv_context;
    pub fn ibv_close_device(context: *mut ibv_context) -> c_int;
    pub fn ibv_query_device(context: *mut ibv_context, attr: *mut ibv_device_attr) -> c_int;
    pub fn ibv_query_port(context: *mut ibv_context, port: u8, attr: *mut c_void) -> c_int;
    pub fn ibv_query_gid(context: *mut ibv_context, port: u8, index: c_int, gid: *mut ibv_gid) -> c_int;
    pub fn ibv_query_pkey(context: *mut ibv_context, port: u8, index: c_int, pkey: *mut u16) -> c_int;
    pub fn ibv_alloc_pd(context: *mut ibv_context) -> *mut ibv_pd;
    pub fn ibv_dealloc_pd(pd: *mut ibv_pd) -> c_int;
    pub fn ibv_reg_mr(pd: *mut ibv_pd, addr: *mut c_void, length: usize, access: c_int) -> *mut ibv_mr;
    pub fn ibv_dereg_mr(mr: *mut ibv_mr) -> c_int;
    pub fn ibv_rereg_mr(
        mr: *mut ibv_mr,
        flags: c_int,
        pd: *mut ibv_pd,
        addr: *mut c_void,
        length: usize,
        access: c_int,
    ) -> c_int;
    pub fn ibv_create_comp_channel(context: *mut ibv_context) -> *mut ibv_comp_channel;
    pub fn ibv_destroy_comp_channel(channel: *mut ibv_comp_channel) -> c_int;
    pub fn ibv_create_cq(
        context: *mut ibv_context,
        cqe: c_int,
        cq_context: *mut c_void,
        channel: *mut ibv_comp_channel,
        comp_vector: c_int,
    ) -> *mut ibv_cq;
    pub fn ibv_destroy_cq(cq: *mut ibv_cq) -> c_int;
    pub fn ibv_resize_cq(cq: *mut ibv_cq, cqe: c_int) -> c_int;
    pub fn ibv_get_cq_event(
        channel: *mut ibv_comp_channel,
        cq: *mut *mut ibv_cq,
        cq_context: *mut *mut c_void,
    ) -> c_int;
    pub fn ibv_ack_cq_events(cq: *mut ibv_cq, events: c_uint);
    pub fn ibv_create_qp(pd: *mut ibv_pd, attr: *mut ibv_qp_init_attr) -> *mut ibv_qp;
    pub fn ibv_modify_qp(qp: *mut ibv_qp, attr: *mut ibv_qp_attr, mask: c_int) -> c_int;
    pub fn ibv_query_qp(
        qp: *mut ibv_qp,
        attr: *mut ibv_qp_attr,
        mask: c_int,
        init: *mut ibv_qp_init_attr,
    ) -> c_int;
    pub fn ibv_destroy_qp(qp: *mut ibv_qp) -> c_int;
    pub fn ibv_qp_to_qp_ex(qp: *mut ibv_qp) -> *mut ibv_qp_ex;
    pub fn ibv_get_async_event(context: *mut ibv_context, event: *mut ibv_async_event) -> c_int;
    pub fn ibv_ack_async_event(event: *mut ibv_async_event);
    pub fn ibv_destroy_ah(ah: *mut ibv_ah) -> c_int;
    pub fn ibv_destroy_srq(srq: *mut ibv_srq) -> c_int;
    pub fn ibv_create_ah(pd: *mut ibv_pd, attr: *mut ibv_ah_attr) -> *mut ibv_ah;
    pub fn ibv_create_ah_from_wc(
        pd: *mut ibv_pd,
        wc: *mut ibv_wc,
        grh: *mut ibv_grh,
        port: u8,
    ) -> *mut ibv_ah;
    pub fn ibv_create_srq(pd: *mut ibv_pd, attr: *mut c_void) -> *mut ibv_srq;
    pub fn ibv_query_ece(qp: *mut ibv_qp, ece: *mut ibv_ece) -> c_int;
    pub fn ibv_set_ece(qp: *mut ibv_qp, ece: *mut ibv_ece) -> c_int;
    pub fn _ibv_query_gid_ex(
        context: *mut ibv_context,
        port: u32,
        index: u32,
        entry: *mut ibv_gid_entry,
        flags: u32,
        entry_size: usize,
    ) -> c_int;
    pub fn _ibv_query_gid_table(
        context: *mut ibv_context,
        entries: *mut ibv_gid_entry,
        max_entries: usize,
        flags: u32,
        entry_size: usize,
    ) -> isize;
    pub fn ibv_import_device(cmd_fd: c_int) -> *mut ibv_context;
    pub fn ibv_import_pd(context: *mut ibv_context, handle: u32) -> *mut ibv_pd;
    pub fn ibv_unimport_pd(pd: *mut ibv_pd);
    pub fn ibv_import_dm(context: *mut ibv_context, handle: u32) -> *mut ibv_dm;
    pub fn ibv_unimport_dm(dm: *mut ibv_dm);
    pub fn ibv_import_mr(pd: *mut ibv_pd, handle: u32) -> *mut ibv_mr;
    pub fn ibv_unimport_mr(mr: *mut ibv_mr);
    pub fn ibv_init_ah_from_wc(
        context: *mut ibv_context,
        port: u8,
        wc: *mut ibv_wc,
        grh: *mut ibv_grh,
        attr: *mut ibv_ah_attr,
    ) -> c_int;
    pub fn ibv_wc_status_str(status: c_int) -> *const c_char;
}

pub fn errno() -> c_int {
    std::io::Error::last_os_error().raw_os_error().unwrap()
}

/// The extended context, as verbs_get_ctx of verbs.h finds it.
pub fn extended(context: *mut ibv_context) -> *mut verbs_context {
    // SAFETY: an open context.
    unsafe { assert_eq!((*context).abi_compat as usize, usize::MAX) };
    context
        .wrapping_byte_sub(std::mem::offset_of!(verbs_context, context))
        .cast()
}

/// Opens a device of the list.
pub fn open_device(number: usize) -> *mut ibv_context {
    // SAFETY: the index is checked, and an opened device stays valid.
    unsafe {
        let mut num = 0;
        let list = ibv_get_device_list(&mut num);
        assert!(number < num as usize, "device {number} of {num}");
        assert!((*list.add(num as usize)).is_null());
        let context = ibv_open_device(*list.add(number));
        ibv_free_device_list(list);
        context
    }
}

/// A card with two connected QPs on one CQ.
pub struct Bench {
    pub context: *mut ibv_context,
    pub pd: *mut ibv_pd,
    pub cq: *mut ibv_cq,
    pub qps: [*mut ibv_qp; 2],
}

/// With another QP of the same card.
pub fn connect(qp: *mut ibv_qp, dest_qp_num: u32) {
    let mut dgid = ibv_gid::default();
    // SAFETY: a live QP, and 16 bytes.
    assert_eq!(unsafe { ibv_query_gid((*qp).context, 1, 1, &mut dgid) }, 0);
    connect_to(qp, dest_qp_num, dgid);
}

/// With a QP of the card that has this GID.
pub fn connect_to(qp: *mut ibv_qp, dest_qp_num: u32, dgid: ibv_gid) {
    for (mut attr, mask) in steps(dest_qp_num, dgid) {
        // SAFETY: a live QP.
        let result = unsafe { ibv_modify_qp(qp, &mut attr, mask as c_int) };
        assert_eq!(result, 0, "to state {}", attr.qp_state);
    }
}

impl Bench {
    /// On a card that delivers to itself.
    pub fn on(context: *mut ibv_context) -> Self {
        // SAFETY: all of it is alive; results are checked.
        unsafe {
            let pd = ibv_alloc_pd(context);
            let cq = ibv_create_cq(context, 100, null_mut(), null_mut(), 0);
            let qps = [(); 2].map(|()| ibv_create_qp(pd, &mut init_attr(cq)));
            assert!(!pd.is_null() && !cq.is_null() && qps.iter().all(|qp| !qp.is_null()));
            connect(qps[0], (*qps[1]).qp_num);
            connect(qps[1], (*qps[0]).qp_num);
            Self { context, pd, cq, qps }
        }
    }

    /// ibv_poll_cq of verbs.h, until `count` have come.
    pub fn completions(&self, count: usize) -> Vec<ibv_wc> {
        completions(self.cq, count)
    }

    pub fn close(self) {
        // SAFETY: created above, and nobody else has them.
        unsafe {
            for qp in self.qps {
                assert_eq!(ibv_destroy_qp(qp), 0);
            }
            assert_eq!(ibv_destroy_cq(self.cq), 0);
            assert_eq!(ibv_dealloc_pd(self.pd), 0);
            assert_eq!(ibv_close_device(self.context), 0);
        }
    }
}

pub fn completions(cq: *mut ibv_cq, count: usize) -> Vec<ibv_wc> {
    let mut found = vec![ibv_wc::default(); count];
    let mut done = 0;
    // With each look a packet moves: a message and its acknowledge are two.
    for _ in 0..100_000 + 4 * count {
        // SAFETY: a live CQ, and room for what is missing.
        let got = unsafe {
            let poll = (*(*cq).context).ops.poll_cq.unwrap();
            poll(cq, (count - done) as c_int, found.as_mut_ptr().add(done))
        };
        assert!(got >= 0);
        done += got as usize;
        if done == count {
            return found;
        }
    }
    panic!("{done} completions instead of {count}");
}

pub fn post_recv(qp: *mut ibv_qp, wr_id: u64) -> c_int {
    let mut wr = ibv_recv_wr {
        wr_id,
        ..Default::default()
    };
    let mut bad = null_mut();
    // SAFETY: a live QP.
    unsafe { (*(*qp).context).ops.post_recv.unwrap()(qp, &mut wr, &mut bad) }
}

pub fn send_wr(wr_id: u64) -> ibv_send_wr {
    ibv_send_wr {
        wr_id,
        opcode: IBV_WR_SEND,
        send_flags: IBV_SEND_SIGNALED,
        ..Default::default()
    }
}

/// The errno, and the position of bad_wr.
pub fn post_send(qp: *mut ibv_qp, list: &mut [ibv_send_wr]) -> (c_int, Option<usize>) {
    let base = list.as_mut_ptr();
    for i in 1..list.len() {
        // SAFETY: inside the list.
        unsafe { (*base.add(i - 1)).next = base.add(i) };
    }
    let mut bad = null_mut();
    // SAFETY: a live QP and a list that ends with NULL.
    let result = unsafe { (*(*qp).context).ops.post_send.unwrap()(qp, base, &mut bad) };
    let index = (0..list.len()).find(|i| std::ptr::eq(base.wrapping_add(*i), bad));
    assert!(bad.is_null() || index.is_some());
    (result, index)
}

pub const NO_ATTR: *const ibv_query_device_ex_input = null();

/// Nothing that a test waits for takes so long, whatever else the processor has to do.
pub const PATIENCE: std::time::Duration = std::time::Duration::from_secs(60);

/// Waits until it is so; gives the processor away meanwhile.
#[track_caller]
pub fn until(mut is_so: impl FnMut() -> bool) {
    let start = std::time::Instant::now();
    while !is_so() {
        assert!(
            start.elapsed() < PATIENCE,
            "it did not happen within {PATIENCE:?}"
        );
        std::thread::yield_now();
    }
}

/// A line of what the kernel says about a thread of this process.
fn thread_status(thread: libc::pid_t, field: &str) -> Option<String> {
    let status = std::fs::read_to_string(format!("/proc/self/task/{thread}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix(field));
    line.map(|text| text.trim_start_matches(':').trim().to_owned())
}

/// A thread waits for something.
pub fn is_asleep(thread: libc::pid_t) -> bool {
    thread_status(thread, "State").is_some_and(|state| state.starts_with('S'))
}

/// How often this thread has gone to sleep so far.
pub fn naps() -> u64 {
    // SAFETY: cannot fail.
    let thread = unsafe { libc::gettid() };
    let count = thread_status(thread, "voluntary_ctxt_switches");
    count
        .and_then(|count| count.parse().ok())
        .expect("the kernel counts")
}
