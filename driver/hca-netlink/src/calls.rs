//! The C library's calls before which this library stands.
//!
//! A socket of NETLINK_RDMA becomes one of NETLINK_USERSOCK, by which processes may talk to each other: bind,
//! getsockname, poll, receiving, dup and close are the kernel's own. Only what is sent to port 0, the kernel, is
//! answered here. A thread that is cancelled while it sends unwinds through these functions.

use std::ffi::{c_int, c_void};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::answers;

/// Of linux/netlink.h.
const NETLINK_USERSOCK: c_int = 2;
const NETLINK_RDMA: c_int = 20;
const CLASS: &str = "/sys/class/infiniband";
const ADDRESS_BYTES: libc::socklen_t = size_of::<libc::sockaddr_nl>() as libc::socklen_t;

/// Has this process ever asked for such a socket? Until then no call looks any further.
static IS_IN_USE: AtomicBool = AtomicBool::new(false);

mod real {
    use std::ffi::{c_int, c_void};

    hca_exports::behind! {
        socket(domain: c_int, kind: c_int, protocol: c_int) -> c_int;
        send(fd: c_int, bytes: *const c_void, len: usize, flags: c_int) -> isize;
        sendto(
            fd: c_int, bytes: *const c_void, len: usize, flags: c_int, addr: *const libc::sockaddr,
            addr_len: libc::socklen_t,
        ) -> isize;
        sendmsg(fd: c_int, message: *const libc::msghdr, flags: c_int) -> isize;
    }
}

fn option(fd: c_int, name: c_int) -> Option<c_int> {
    let mut value: c_int = 0;
    let mut len = size_of::<c_int>() as libc::socklen_t;
    // SAFETY: a live variable of this length.
    let code = unsafe { libc::getsockopt(fd, libc::SOL_SOCKET, name, (&raw mut value).cast(), &mut len) };
    (code == 0).then_some(value)
}

/// Is this socket one of ours, and does it send to the kernel?
///
/// # Safety
/// `addr` is NULL or as long as `len` says.
unsafe fn asks(fd: c_int, addr: *const libc::sockaddr, len: libc::socklen_t) -> bool {
    if !IS_IN_USE.load(Ordering::Relaxed) {
        return false;
    }
    // SAFETY: the caller's promise.
    let to_kernel = addr.is_null()
        || len >= ADDRESS_BYTES && unsafe { addr.cast::<libc::sockaddr_nl>().read_unaligned() }.nl_pid == 0;
    let is_ours = || {
        option(fd, libc::SO_DOMAIN) == Some(libc::AF_NETLINK)
            && option(fd, libc::SO_PROTOCOL) == Some(NETLINK_USERSOCK)
    };
    to_kernel && is_ours()
}

fn address(port_id: u32) -> libc::sockaddr_nl {
    // SAFETY: all zero is an address.
    let mut address: libc::sockaddr_nl = unsafe { std::mem::zeroed() };
    (address.nl_family, address.nl_pid) = (libc::AF_NETLINK as u16, port_id);
    address
}

/// The number that the kernel knows a socket by; as on its way to the kernel it gets one if it has none.
fn port_id(fd: c_int) -> Option<u32> {
    let mut own = address(0);
    for _ in 0..2 {
        let mut len = ADDRESS_BYTES;
        // SAFETY: live variables; the address is as long as it says.
        unsafe {
            if libc::getsockname(fd, (&raw mut own).cast(), &mut len) != 0 {
                return None;
            }
            if own.nl_pid != 0 {
                return Some(own.nl_pid);
            }
            libc::bind(fd, (&raw const own).cast(), ADDRESS_BYTES);
        }
    }
    None
}

/// Answers into the socket's own queue. -1 and errno if there is no room, as of the kernel.
fn answer(fd: c_int, request: &[u8]) -> isize {
    let Some(port_id) = port_id(fd) else { return -1 };
    // SAFETY: no pointers.
    let from = unsafe {
        real::socket(
            libc::AF_NETLINK,
            libc::SOCK_RAW | libc::SOCK_CLOEXEC,
            NETLINK_USERSOCK,
        )
    };
    if from < 0 {
        return -1;
    }
    let to = address(port_id);
    let mut result = request.len() as isize;
    for datagram in answers::to(Path::new(CLASS), request, port_id) {
        // SAFETY: live bytes and a live address.
        let sent = unsafe {
            let addr = (&raw const to).cast();
            real::sendto(
                from,
                datagram.as_ptr().cast(),
                datagram.len(),
                libc::MSG_DONTWAIT,
                addr,
                ADDRESS_BYTES,
            )
        };
        if sent < 0 {
            result = -1;
            break;
        }
    }
    // SAFETY: this function's own descriptor; errno is kept.
    unsafe {
        let errno = *libc::__errno_location();
        libc::close(from);
        *libc::__errno_location() = errno;
    }
    result
}

fn failed(errno: c_int) -> isize {
    // SAFETY: always writable.
    unsafe { *libc::__errno_location() = errno };
    -1
}

/// A panic must not reach the program: it is as if the kernel had no memory.
fn contained(request: Option<&[u8]>, fd: c_int) -> isize {
    let Some(request) = request else {
        return failed(libc::EFAULT);
    };
    std::panic::catch_unwind(|| answer(fd, request)).unwrap_or_else(|_| failed(libc::ENOMEM))
}

/// What a program sends: nothing is something, NULL is not.
///
/// # Safety
/// As long as it says, or NULL.
unsafe fn sent<'a, T>(start: *const T, len: usize) -> Option<&'a [T]> {
    match (start.is_null(), len) {
        (_, 0) => Some(&[]),
        (true, _) => None,
        // SAFETY: the caller's promise.
        (false, _) => Some(unsafe { std::slice::from_raw_parts(start, len) }),
    }
}

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn socket(domain: c_int, kind: c_int, protocol: c_int) -> c_int {
    let is_rdma = (domain, protocol) == (libc::AF_NETLINK, NETLINK_RDMA);
    if is_rdma {
        IS_IN_USE.store(true, Ordering::Relaxed);
    }
    // SAFETY: no pointers.
    unsafe { real::socket(domain, kind, if is_rdma { NETLINK_USERSOCK } else { protocol }) }
}

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn send(fd: c_int, bytes: *const c_void, len: usize, flags: c_int) -> isize {
    // SAFETY: as the program calls it.
    unsafe {
        match asks(fd, std::ptr::null(), 0) {
            true => contained(sent(bytes.cast(), len), fd),
            false => real::send(fd, bytes, len, flags),
        }
    }
}

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn sendto(
    fd: c_int,
    bytes: *const c_void,
    len: usize,
    flags: c_int,
    addr: *const libc::sockaddr,
    addr_len: libc::socklen_t,
) -> isize {
    // SAFETY: as the program calls it.
    unsafe {
        match asks(fd, addr, addr_len) {
            true => contained(sent(bytes.cast(), len), fd),
            false => real::sendto(fd, bytes, len, flags, addr, addr_len),
        }
    }
}

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn sendmsg(fd: c_int, message: *const libc::msghdr, flags: c_int) -> isize {
    // SAFETY: as the program calls it.
    unsafe {
        let to = message
            .as_ref()
            .map(|message| (message.msg_name.cast_const().cast(), message.msg_namelen));
        let Some(message) = message
            .as_ref()
            .filter(|_| to.is_some_and(|(addr, len)| asks(fd, addr, len)))
        else {
            return real::sendmsg(fd, message, flags);
        };
        let pieces = sent(message.msg_iov.cast_const(), message.msg_iovlen);
        let bytes = pieces.and_then(|pieces| {
            let bytes = pieces
                .iter()
                .map(|piece| sent(piece.iov_base.cast_const().cast::<u8>(), piece.iov_len));
            bytes.collect::<Option<Vec<_>>>()
        });
        contained(bytes.map(|bytes| bytes.concat()).as_deref(), fd)
    }
}
