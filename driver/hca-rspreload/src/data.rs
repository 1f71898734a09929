//! Bytes in and out.

use std::ffi::{c_int, c_void};

use crate::epoll;
use crate::rdma;
use crate::real::{self, fail};
use crate::table;

/// Bytes that sendfile copies at a time.
const PIECE: usize = 64 << 10;

/// A call goes to the rsocket behind a descriptor, or to the C library.
macro_rules! either {
    ($fd:ident, $event:expr, $ours:expr, $theirs:expr) => {
        match table::rsocket($fd) {
            Some(rsocket) => {
                #[allow(
                    clippy::redundant_closure_call,
                    reason = "the rsocket's number is the closure's"
                )]
                // SAFETY: as the program calls it.
                let done = unsafe { ($ours)(rsocket) };
                epoll::used($fd, $event);
                done
            }
            // SAFETY: as the program calls it.
            None => unsafe { $theirs },
        }
    };
}

const IN: u32 = libc::EPOLLIN as u32;
const OUT: u32 = libc::EPOLLOUT as u32;

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn recv(fd: c_int, buf: *mut c_void, len: usize, flags: c_int) -> isize {
    either!(
        fd,
        IN,
        |rs| rdma::rrecv(rs, buf, len, flags),
        real::recv(fd, buf, len, flags)
    )
}

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn recvfrom(
    fd: c_int,
    buf: *mut c_void,
    len: usize,
    flags: c_int,
    addr: *mut libc::sockaddr,
    addr_len: *mut libc::socklen_t,
) -> isize {
    either!(
        fd,
        IN,
        |rs| rdma::rrecvfrom(rs, buf, len, flags, addr, addr_len),
        real::recvfrom(fd, buf, len, flags, addr, addr_len)
    )
}

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn recvmsg(fd: c_int, msg: *mut libc::msghdr, flags: c_int) -> isize {
    either!(
        fd,
        IN,
        |rs| rdma::rrecvmsg(rs, msg, flags),
        real::recvmsg(fd, msg, flags)
    )
}

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn read(fd: c_int, buf: *mut c_void, len: usize) -> isize {
    either!(
        fd,
        IN,
        |rs| rdma::rrecv(rs, buf, len, 0),
        real::read(fd, buf, len)
    )
}

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn readv(fd: c_int, iov: *const libc::iovec, count: c_int) -> isize {
    either!(
        fd,
        IN,
        |rs| rdma::rreadv(rs, iov, count),
        real::readv(fd, iov, count)
    )
}

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn send(fd: c_int, buf: *const c_void, len: usize, flags: c_int) -> isize {
    either!(
        fd,
        OUT,
        |rs| rdma::rsend(rs, buf, len, flags),
        real::send(fd, buf, len, flags)
    )
}

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn sendto(
    fd: c_int,
    buf: *const c_void,
    len: usize,
    flags: c_int,
    addr: *const libc::sockaddr,
    addr_len: libc::socklen_t,
) -> isize {
    // sendto(2): of a stream the address may be ignored, and Linux does so.
    either!(
        fd,
        OUT,
        |rs| rdma::rsend(rs, buf, len, flags),
        real::sendto(fd, buf, len, flags, addr, addr_len)
    )
}

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn sendmsg(fd: c_int, msg: *const libc::msghdr, flags: c_int) -> isize {
    either!(
        fd,
        OUT,
        |rs| rdma::rsendmsg(rs, msg, flags),
        real::sendmsg(fd, msg, flags)
    )
}

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn write(fd: c_int, buf: *const c_void, len: usize) -> isize {
    either!(
        fd,
        OUT,
        |rs| rdma::rsend(rs, buf, len, 0),
        real::write(fd, buf, len)
    )
}

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn writev(fd: c_int, iov: *const libc::iovec, count: c_int) -> isize {
    either!(
        fd,
        OUT,
        |rs| rdma::rwritev(rs, iov, count),
        real::writev(fd, iov, count)
    )
}

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn sendfile64(
    to: c_int,
    from: c_int,
    offset: *mut libc::off64_t,
    len: usize,
) -> isize {
    match table::rsocket(to) {
        // SAFETY: as the program calls it.
        None => unsafe { real::sendfile64(to, from, offset, len) },
        // SAFETY: as above.
        Some(_) => unsafe { send_file(to, from, offset, len) },
    }
}

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn sendfile(to: c_int, from: c_int, offset: *mut libc::off_t, len: usize) -> isize {
    // SAFETY: as the program calls it.
    unsafe { sendfile64(to, from, offset, len) }
}

/// A file's bytes, by a buffer of this process.
///
/// # Safety
/// As sendfile(2) says.
unsafe fn send_file(to: c_int, from: c_int, offset: *mut libc::off64_t, len: usize) -> isize {
    let mut buffer = vec![0u8; len.min(PIECE)];
    let mut done = 0usize;
    // SAFETY: the program's variable, or NULL: then the file's own place is meant.
    let own = unsafe { offset.as_mut() };
    // SAFETY: no pointers.
    let begin = own
        .as_ref()
        .map_or_else(|| unsafe { libc::lseek(from, 0, libc::SEEK_CUR) }, |own| **own);
    if begin < 0 {
        return -1;
    }
    while done < len {
        let want = (len - done).min(buffer.len());
        // SAFETY: a live buffer, as long as it says.
        let sent = unsafe {
            match real::pread64(from, buffer.as_mut_ptr().cast(), want, begin + done as i64) {
                0 => break,
                got if got < 0 => got,
                got => send(to, buffer.as_ptr().cast(), got as usize, 0),
            }
        };
        if sent < 0 {
            if done == 0 {
                return -1;
            }
            break;
        }
        done += sent as usize;
    }
    match own {
        Some(own) => *own = begin + done as i64,
        // SAFETY: no pointers.
        None => drop(unsafe { libc::lseek(from, begin + done as i64, libc::SEEK_SET) }),
    }
    done as isize
}

/// What a compiler calls instead, where it knows a buffer's size.
fn check(len: usize, size: usize) {
    if len > size {
        std::process::abort();
    }
}

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn __recv_chk(
    fd: c_int,
    buf: *mut c_void,
    len: usize,
    size: usize,
    flags: c_int,
) -> isize {
    check(len, size);
    // SAFETY: as the program calls it.
    unsafe { recv(fd, buf, len, flags) }
}

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn __read_chk(fd: c_int, buf: *mut c_void, len: usize, size: usize) -> isize {
    check(len, size);
    // SAFETY: as the program calls it.
    unsafe { read(fd, buf, len) }
}

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn __recvfrom_chk(
    fd: c_int,
    buf: *mut c_void,
    len: usize,
    size: usize,
    flags: c_int,
    addr: *mut libc::sockaddr,
    addr_len: *mut libc::socklen_t,
) -> isize {
    check(len, size);
    // SAFETY: as the program calls it.
    unsafe { recvfrom(fd, buf, len, flags, addr, addr_len) }
}

/// Pages cannot be moved into a card's buffers: EINVAL, as of any descriptor that splice(2) does not know.
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn splice(
    from: c_int,
    from_offset: *mut libc::loff_t,
    to: c_int,
    to_offset: *mut libc::loff_t,
    len: usize,
    flags: libc::c_uint,
) -> isize {
    if table::rsocket(from).or(table::rsocket(to)).is_some() {
        return fail(libc::EINVAL) as isize;
    }
    // SAFETY: as the program calls it.
    unsafe { real::splice(from, from_offset, to, to_offset, len, flags) }
}
