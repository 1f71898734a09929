//! Calls that find no descriptor and no memory left in the process: the errno of the manual pages, nothing is left of
//! the call, and it works as soon as there is some again. One test: its process has little for a while. What the card
//! has a number of: `exhausted.rs`.

mod common;

use std::ffi::{c_int, c_void};
use std::ptr::null_mut;

use common::*;
use ibverbs::abi::*;

/// What the calls are made with.
struct Given {
    bench: Bench,
    device: *mut ibv_device,
    channel: *mut ibv_comp_channel,
    /// Of a card that nobody has open.
    closed: *mut ibv_device,
    /// Of the context's cmd_fd.
    duplicate: c_int,
    memory: Vec<u8>,
}

type Make = unsafe fn(&mut Given) -> *mut c_void;
type Unmake = unsafe fn(*mut c_void) -> c_int;
/// The call and its counterpart.
type Row = (&'static str, Make, Unmake);

unsafe fn destroy_cq(object: *mut c_void) -> c_int {
    // SAFETY: made by create_cq.
    unsafe { ibv_destroy_cq(object.cast()) }
}

unsafe fn create_cq(given: &Given, cqe: u32, channel: *mut ibv_comp_channel) -> *mut c_void {
    // SAFETY: live objects.
    unsafe { ibv_create_cq(given.bench.context, cqe as c_int, null_mut(), channel, 0).cast() }
}

unsafe fn create_qp(given: &Given, max_wr: u32) -> *mut c_void {
    let mut attr = init_attr(given.bench.cq);
    attr.cap = ibv_qp_cap {
        max_send_wr: max_wr,
        max_recv_wr: max_wr,
        max_send_sge: 16,
        max_recv_sge: 16,
        max_inline_data: 0,
    };
    // SAFETY: live objects.
    unsafe { ibv_create_qp(given.bench.pd, &mut attr).cast() }
}

unsafe fn create_srq(given: &Given, max_wr: u32) -> *mut c_void {
    let mut attr = ibv_srq_init_attr::default();
    (attr.attr.max_wr, attr.attr.max_sge) = (max_wr, 16);
    // SAFETY: live objects.
    unsafe { ibv_create_srq(given.bench.pd, (&raw mut attr).cast()).cast() }
}

#[allow(
    clippy::undocumented_unsafe_blocks,
    reason = "of each row alike: live objects"
)]
const NEED_DESCRIPTORS: &[Row] = &[
    // V-25, V-50: pipes that events come through.
    (
        "ibv_open_device",
        |g| unsafe { ibv_open_device(g.device).cast() },
        |o| unsafe { ibv_close_device(o.cast()) },
    ),
    (
        "ibv_open_device of a card that was closed",
        |g| unsafe { ibv_open_device(g.closed).cast() },
        |o| unsafe { ibv_close_device(o.cast()) },
    ),
    (
        "ibv_import_device",
        |g| unsafe {
            // A duplicate of a context's, which a context that is made of it takes along.
            if g.duplicate < 0 {
                g.duplicate = libc::dup((*g.bench.context).cmd_fd);
            }
            let made = ibv_import_device(g.duplicate);
            if !made.is_null() {
                g.duplicate = -1;
            }
            made.cast()
        },
        |o| unsafe { ibv_close_device(o.cast()) },
    ),
    (
        "ibv_create_comp_channel",
        |g| unsafe { ibv_create_comp_channel(g.bench.context).cast() },
        |o| unsafe { ibv_destroy_comp_channel(o.cast()) },
    ),
    // Memory that card and process share is a file until it is mapped.
    (
        "ibv_create_cq",
        |g| unsafe { create_cq(g, 10, null_mut()) },
        destroy_cq,
    ),
    (
        "ibv_create_qp",
        |g| unsafe { create_qp(g, 1) },
        |o| unsafe { ibv_destroy_qp(o.cast()) },
    ),
    (
        "ibv_create_srq",
        |g| unsafe { create_srq(g, 1) },
        |o| unsafe { ibv_destroy_srq(o.cast()) },
    ),
];

/// What needs none: works all the while.
#[allow(
    clippy::undocumented_unsafe_blocks,
    reason = "of each row alike: live objects"
)]
const NEED_NONE: &[Row] = &[
    (
        "ibv_get_device_list",
        |_| unsafe { ibv_get_device_list(null_mut()).cast() },
        |o| {
            unsafe { ibv_free_device_list(o.cast()) };
            0
        },
    ),
    (
        "ibv_alloc_pd",
        |g| unsafe { ibv_alloc_pd(g.bench.context).cast() },
        |o| unsafe { ibv_dealloc_pd(o.cast()) },
    ),
];

/// Much memory, of the card's or of the library's own.
#[allow(
    clippy::undocumented_unsafe_blocks,
    reason = "of each row alike: live objects"
)]
const NEED_MEMORY: &[Row] = &[
    (
        "ibv_create_cq",
        |g| unsafe { create_cq(g, 3 << 20, null_mut()) },
        destroy_cq,
    ),
    (
        "ibv_create_cq with a channel",
        |g| unsafe { create_cq(g, 3 << 20, g.channel) },
        destroy_cq,
    ),
    (
        "ibv_resize_cq",
        |g| unsafe {
            match ibv_resize_cq(g.bench.cq, 3 << 20) {
                0 => g.bench.cq.cast(),
                code => {
                    assert_eq!(code, errno());
                    null_mut()
                }
            }
        },
        |_| 0,
    ),
    (
        "ibv_create_qp",
        |g| unsafe { create_qp(g, 1 << 16) },
        |o| unsafe { ibv_destroy_qp(o.cast()) },
    ),
    (
        "ibv_create_srq",
        |g| unsafe { create_srq(g, 1 << 16) },
        |o| unsafe { ibv_destroy_srq(o.cast()) },
    ),
];

/// Runs `f` while the process may have no more of a resource than it has.
fn with_limit<T>(resource: libc::__rlimit_resource_t, most: u64, f: impl FnOnce() -> T) -> T {
    // SAFETY: a structure of this function, and a limit that goes back to what it was.
    unsafe {
        let mut before: libc::rlimit = std::mem::zeroed();
        assert_eq!(libc::getrlimit(resource, &mut before), 0);
        let less = libc::rlimit {
            rlim_cur: most.min(before.rlim_max),
            ..before
        };
        assert_eq!(libc::setrlimit(resource, &less), 0);
        let result = f();
        assert_eq!(libc::setrlimit(resource, &before), 0);
        result
    }
}

/// Bytes that the process has mapped.
fn mapped_bytes() -> u64 {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap();
    let pages: u64 = text.split(' ').next().unwrap().parse().unwrap();
    // SAFETY: cannot fail.
    pages * unsafe { libc::sysconf(libc::_SC_PAGESIZE) } as u64
}

/// Runs `f` while not even a small piece can be had: no more may be mapped, and what the allocator has is taken.
fn with_nothing(f: &mut dyn FnMut()) {
    with_limit(libc::RLIMIT_AS, mapped_bytes(), || {
        // Pieces that hold the address of the one before.
        let mut last: *mut usize = null_mut();
        let mut size = 1 << 20;
        while size >= size_of::<usize>() {
            // SAFETY: plain memory, checked, large enough for what is written to it.
            unsafe {
                let piece = libc::malloc(size).cast::<usize>();
                if piece.is_null() {
                    size /= 2;
                } else {
                    *piece = last as usize;
                    last = piece;
                }
            }
        }
        f();
        while !last.is_null() {
            // SAFETY: made above, each once.
            unsafe {
                let before = *last as *mut usize;
                libc::free(last.cast());
                last = before;
            }
        }
    });
}

/// Each fails, twice; afterwards each works.
fn check(given: &mut Given, rows: &[Row], wanted: c_int, limited: impl Fn(&mut dyn FnMut())) {
    for (name, make, unmake) in rows {
        for _ in 0..2 {
            // Nothing that the next call could have in the place of what is denied.
            *LAST_RING.lock().unwrap() = None;
            let mut found = (null_mut(), 0);
            // SAFETY: live objects.
            limited(&mut || found = (unsafe { make(given) }, errno()));
            assert_eq!(found, (null_mut(), wanted), "{name}");
        }
        // SAFETY: live objects.
        unsafe {
            let made = make(given);
            assert!(!made.is_null(), "{name}: {}", errno());
            assert_eq!(unmake(made), 0, "{name}");
        }
    }
}

#[test]
fn no_descriptor_and_no_memory() {
    let bench = bench(45);
    // SAFETY: live objects.
    let mut given = unsafe {
        let channel = ibv_create_comp_channel(bench.context);
        let other = open(46);
        let closed = (*other).device;
        assert_eq!(ibv_close_device(other), 0);
        Given {
            device: (*bench.context).device,
            channel,
            closed,
            duplicate: libc::dup((*bench.context).cmd_fd),
            bench,
            memory: vec![0; 1 << 20],
        }
    };
    // A limit below what is open already leaves none.
    let no_descriptor = |f: &mut dyn FnMut()| with_limit(libc::RLIMIT_NOFILE, 0, f);
    check(&mut given, NEED_DESCRIPTORS, libc::EMFILE, no_descriptor);
    for (name, make, unmake) in NEED_NONE {
        // SAFETY: live objects.
        let made = with_limit(libc::RLIMIT_NOFILE, 0, || unsafe { make(&mut given) });
        assert!(!made.is_null(), "{name}");
        // SAFETY: just made.
        assert_eq!(unsafe { unmake(made) }, 0, "{name}");
    }
    // Room for small things, none for what these ask for.
    let little_memory =
        |more: u64| move |f: &mut dyn FnMut()| with_limit(libc::RLIMIT_AS, mapped_bytes() + more, f);
    check(&mut given, NEED_MEMORY, libc::ENOMEM, little_memory(8 << 20));
    // The ring has room, and what software keeps beside it has none: a CQ of so many completions has a ring of 256 MiB.
    let with_channel = &NEED_MEMORY[1..2];
    check(&mut given, with_channel, libc::ENOMEM, little_memory(300 << 20));
    for rows in [NEED_DESCRIPTORS, NEED_NONE, NEED_MEMORY] {
        check(&mut given, rows, libc::ENOMEM, with_nothing);
    }
    // Regions are memory that the program has; a limit on memory does not count.
    // SAFETY: live objects.
    unsafe {
        let (addr, length) = (given.memory.as_mut_ptr().cast(), given.memory.len());
        let mr = ibv_reg_mr(given.bench.pd, addr, length, 1);
        assert!(!mr.is_null());
        assert_eq!(ibv_dereg_mr(mr), 0);
        assert_eq!(ibv_destroy_comp_channel(given.channel), 0);
    }
    given.bench.close();
}
