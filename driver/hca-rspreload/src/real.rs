//! The calls of the C library that this library stands in front of.

use std::ffi::{c_int, c_void};

use hca_exports::behind;

type Addr = *mut libc::sockaddr;
type Len = *mut libc::socklen_t;
type Set = *mut libc::fd_set;

behind! {
    socket(domain: c_int, kind: c_int, protocol: c_int) -> c_int;
    bind(fd: c_int, addr: *const libc::sockaddr, len: libc::socklen_t) -> c_int;
    listen(fd: c_int, backlog: c_int) -> c_int;
    accept4(fd: c_int, addr: Addr, len: Len, flags: c_int) -> c_int;
    connect(fd: c_int, addr: *const libc::sockaddr, len: libc::socklen_t) -> c_int;
    shutdown(fd: c_int, how: c_int) -> c_int;
    close(fd: c_int) -> c_int;
    dup(fd: c_int) -> c_int;
    dup3(old: c_int, new: c_int, flags: c_int) -> c_int;
    recv(fd: c_int, buf: *mut c_void, len: usize, flags: c_int) -> isize;
    recvfrom(fd: c_int, buf: *mut c_void, len: usize, flags: c_int, addr: Addr, addr_len: Len) -> isize;
    recvmsg(fd: c_int, msg: *mut libc::msghdr, flags: c_int) -> isize;
    read(fd: c_int, buf: *mut c_void, len: usize) -> isize;
    readv(fd: c_int, iov: *const libc::iovec, count: c_int) -> isize;
    send(fd: c_int, buf: *const c_void, len: usize, flags: c_int) -> isize;
    sendto(
        fd: c_int, buf: *const c_void, len: usize, flags: c_int, addr: *const libc::sockaddr, addr_len: libc::socklen_t
    ) -> isize;
    sendmsg(fd: c_int, msg: *const libc::msghdr, flags: c_int) -> isize;
    write(fd: c_int, buf: *const c_void, len: usize) -> isize;
    writev(fd: c_int, iov: *const libc::iovec, count: c_int) -> isize;
    sendfile64(to: c_int, from: c_int, offset: *mut libc::off64_t, len: usize) -> isize;
    pread64(fd: c_int, buf: *mut c_void, len: usize, offset: libc::off64_t) -> isize;
    splice(
        from: c_int, from_offset: *mut libc::loff_t, to: c_int, to_offset: *mut libc::loff_t, len: usize,
        flags: libc::c_uint
    ) -> isize;
    poll(fds: *mut libc::pollfd, count: libc::nfds_t, timeout_ms: c_int) -> c_int;
    ppoll(
        fds: *mut libc::pollfd, count: libc::nfds_t, timeout: *const libc::timespec, signals: *const libc::sigset_t
    ) -> c_int;
    select(count: c_int, read: Set, write: Set, except: Set, timeout: *mut libc::timeval) -> c_int;
    pselect(
        count: c_int, read: Set, write: Set, except: Set, timeout: *const libc::timespec,
        signals: *const libc::sigset_t
    ) -> c_int;
    epoll_ctl(epoll: c_int, op: c_int, fd: c_int, event: *mut libc::epoll_event) -> c_int;
    epoll_wait(epoll: c_int, events: *mut libc::epoll_event, max: c_int, timeout_ms: c_int) -> c_int;
    epoll_pwait(
        epoll: c_int, events: *mut libc::epoll_event, max: c_int, timeout_ms: c_int, signals: *const libc::sigset_t
    ) -> c_int;
    getpeername(fd: c_int, addr: Addr, len: Len) -> c_int;
    getsockname(fd: c_int, addr: Addr, len: Len) -> c_int;
    setsockopt(fd: c_int, level: c_int, name: c_int, value: *const c_void, len: libc::socklen_t) -> c_int;
    getsockopt(fd: c_int, level: c_int, name: c_int, value: *mut c_void, len: Len) -> c_int;
    fcntl64(fd: c_int, cmd: c_int, arg: usize) -> c_int;
    ioctl(fd: c_int, request: libc::c_ulong, arg: usize) -> c_int;
}

/// errno, which the C library gives every thread.
pub fn errno() -> c_int {
    // SAFETY: always readable.
    unsafe { *libc::__errno_location() }
}

/// Sets errno, for a call that returns -1.
pub fn fail(errno: c_int) -> c_int {
    // SAFETY: always writable.
    unsafe { *libc::__errno_location() = errno };
    -1
}

/// Flags of a descriptor.
pub fn flags(fd: c_int) -> c_int {
    // SAFETY: no pointers.
    unsafe { fcntl64(fd, libc::F_GETFL, 0) }
}
