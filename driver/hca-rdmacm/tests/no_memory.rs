//! Calls that get no memory: -1 or NULL with ENOMEM, and never the end of the process. This thread's allocator gives so
//! many bytes and no more. Without a card: what needs one asks libibverbs, whose own test is `no_memory.rs` there.

use std::cell::Cell;
use std::ffi::{c_char, c_int, c_ulong, c_void};
use std::ptr::{null, null_mut};

use hca_room::limited::{Limited, budgets, each_in_a_child, limited};
use rdmacm::abi::*;

unsafe extern "C" {
    fn rdma_create_event_channel() -> *mut rdma_event_channel;
    fn rdma_destroy_event_channel(channel: *mut rdma_event_channel);
    fn rdma_create_id(
        channel: *mut rdma_event_channel,
        id: *mut *mut rdma_cm_id,
        context: *mut c_void,
        ps: rdma_port_space,
    ) -> c_int;
    fn rdma_destroy_id(id: *mut rdma_cm_id) -> c_int;
    fn rdma_getaddrinfo(
        node: *const c_char,
        service: *const c_char,
        hints: *const rdma_addrinfo,
        res: *mut *mut rdma_addrinfo,
    ) -> c_int;
    fn rdma_freeaddrinfo(res: *mut rdma_addrinfo);
    fn rsocket(domain: c_int, kind: c_int, protocol: c_int) -> c_int;
    fn rclose(fd: c_int) -> c_int;
    fn rpoll(fds: *mut libc::pollfd, count: c_ulong, timeout_ms: c_int) -> c_int;
}

#[global_allocator]
static ALLOCATOR: Limited = Limited;

fn errno() -> c_int {
    std::io::Error::last_os_error().raw_os_error().unwrap()
}

/// The object, or what stands for a descriptor, one up; NULL where the call failed.
type Make = unsafe fn() -> *mut c_void;
type Unmake = unsafe fn(*mut c_void);

unsafe fn id(ps: rdma_port_space) -> *mut c_void {
    let mut id = null_mut();
    // SAFETY: a variable of this function.
    match unsafe { rdma_create_id(null_mut(), &mut id, null_mut(), ps) } {
        0 => id.cast(),
        _ => null_mut(),
    }
}

unsafe fn socket(kind: c_int) -> *mut c_void {
    // SAFETY: no pointers.
    (unsafe { rsocket(libc::AF_INET, kind, 0) } + 1) as usize as *mut c_void
}

unsafe fn destroy_id(id: *mut c_void) {
    // SAFETY: made by create_id.
    assert_eq!(unsafe { rdma_destroy_id(id.cast()) }, 0);
}

unsafe fn close(socket: *mut c_void) {
    // SAFETY: no pointers.
    assert_eq!(unsafe { rclose(socket as c_int - 1) }, 0);
}

/// Entries of a poll: more bytes than small things need.
const MANY: usize = 20_000;

thread_local! {
    static POLLS: Cell<*mut libc::pollfd> = const { Cell::new(null_mut()) };
}

/// No descriptor is asked about: the call copies its list, and finds nothing.
unsafe fn poll() -> *mut c_void {
    // SAFETY: as many entries as named.
    (unsafe { rpoll(POLLS.get(), MANY as c_ulong, 0) } + 1) as usize as *mut c_void
}

#[rustfmt::skip]
#[allow(clippy::undocumented_unsafe_blocks, reason = "of each row alike: each that is made is given back once")]
const ROWS: &[(&str, Make, Unmake)] = &[
    ("rdma_create_event_channel", || unsafe { rdma_create_event_channel().cast() },
     |o| unsafe { rdma_destroy_event_channel(o.cast()) }),
    ("rdma_create_id: TCP", || unsafe { id(RDMA_PS_TCP) }, destroy_id),
    ("rdma_create_id: UDP", || unsafe { id(RDMA_PS_UDP) }, destroy_id),
    ("rdma_getaddrinfo", || unsafe {
        let hints = rdma_addrinfo { ai_flags: (RAI_NUMERICHOST | RAI_PASSIVE) as c_int, ..Default::default() };
        let mut info = null_mut();
        match rdma_getaddrinfo(c"127.0.0.1".as_ptr(), null(), &hints, &mut info) {
            0 => info.cast(),
            code => { assert_eq!(code, -1); null_mut() }
        }
    }, |o| unsafe { rdma_freeaddrinfo(o.cast()) }),
    ("rsocket: stream", || unsafe { socket(libc::SOCK_STREAM) }, close),
    ("rsocket: datagrams", || unsafe { socket(libc::SOCK_DGRAM) }, close),
    ("rpoll", || unsafe { poll() }, |_| ()),
];

fn run(number: usize) {
    let mut fds = vec![
        libc::pollfd {
            fd: -1,
            events: libc::POLLIN,
            revents: 0,
        };
        MANY
    ];
    POLLS.set(fds.as_mut_ptr());
    let (name, make, unmake) = ROWS[number];
    let (mut made, mut refusals) = (null_mut(), 0);
    for bytes in budgets() {
        // SAFETY: as the row says.
        let (object, code) = limited(bytes, || unsafe { (make(), errno()) });
        if !object.is_null() {
            made = object;
            break;
        }
        assert_eq!(code, libc::ENOMEM, "{name} with {bytes} bytes");
        refusals += 1;
    }
    assert!(!made.is_null() && refusals > 0, "{name}: {refusals} refusals");
    // SAFETY: just made.
    limited(0, || unsafe { unmake(made) });
}

/// CM-4: ENOMEM.
#[test]
fn no_memory_is_an_errno() {
    let names = ROWS.iter().map(|row| row.0);
    each_in_a_child("no_memory_is_an_errno", names, run);
}
