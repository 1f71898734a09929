//! rsockets, as librdmacm.so.1 has them.

use std::ffi::{c_int, c_void};

unsafe extern "C" {
    pub fn rsocket(domain: c_int, kind: c_int, protocol: c_int) -> c_int;
    pub fn rbind(fd: c_int, addr: *const libc::sockaddr, len: libc::socklen_t) -> c_int;
    pub fn rlisten(fd: c_int, backlog: c_int) -> c_int;
    pub fn raccept(fd: c_int, addr: *mut libc::sockaddr, len: *mut libc::socklen_t) -> c_int;
    pub fn rconnect(fd: c_int, addr: *const libc::sockaddr, len: libc::socklen_t) -> c_int;
    pub fn rshutdown(fd: c_int, how: c_int) -> c_int;
    pub fn rclose(fd: c_int) -> c_int;
    pub fn rrecv(fd: c_int, buf: *mut c_void, len: usize, flags: c_int) -> isize;
    pub fn rrecvfrom(
        fd: c_int,
        buf: *mut c_void,
        len: usize,
        flags: c_int,
        addr: *mut libc::sockaddr,
        addr_len: *mut libc::socklen_t,
    ) -> isize;
    pub fn rrecvmsg(fd: c_int, msg: *mut libc::msghdr, flags: c_int) -> isize;
    pub fn rreadv(fd: c_int, iov: *const libc::iovec, count: c_int) -> isize;
    pub fn rsend(fd: c_int, buf: *const c_void, len: usize, flags: c_int) -> isize;
    pub fn rsendmsg(fd: c_int, msg: *const libc::msghdr, flags: c_int) -> isize;
    pub fn rwritev(fd: c_int, iov: *const libc::iovec, count: c_int) -> isize;
    pub fn rpoll(fds: *mut libc::pollfd, count: libc::nfds_t, timeout_ms: c_int) -> c_int;
    pub fn rgetpeername(fd: c_int, addr: *mut libc::sockaddr, len: *mut libc::socklen_t) -> c_int;
    pub fn rgetsockname(fd: c_int, addr: *mut libc::sockaddr, len: *mut libc::socklen_t) -> c_int;
    pub fn rsetsockopt(
        fd: c_int,
        level: c_int,
        name: c_int,
        value: *const c_void,
        len: libc::socklen_t,
    ) -> c_int;
    pub fn rgetsockopt(
        fd: c_int,
        level: c_int,
        name: c_int,
        value: *mut c_void,
        len: *mut libc::socklen_t,
    ) -> c_int;
    pub fn rfcntl(fd: c_int, cmd: c_int, ...) -> c_int;
}
