//! Names and options.

use std::ffi::{c_int, c_void};

use crate::connect::remember;
use crate::fork;
use crate::rdma;
use crate::real::{self, errno};
use crate::table::{Behind, behind};

type Addr = *mut libc::sockaddr;
type Len = *mut libc::socklen_t;

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn getpeername(fd: c_int, addr: Addr, len: Len) -> c_int {
    // SAFETY: as the program calls it.
    unsafe {
        match behind(fd) {
            Behind::Rsocket(rsocket) => rdma::rgetpeername(rsocket, addr, len),
            _ => fork::name(fd, addr, len, true).unwrap_or_else(|| real::getpeername(fd, addr, len)),
        }
    }
}

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn getsockname(fd: c_int, addr: Addr, len: Len) -> c_int {
    // SAFETY: as the program calls it.
    unsafe {
        match behind(fd) {
            Behind::Rsocket(rsocket) => rdma::rgetsockname(rsocket, addr, len),
            _ => fork::name(fd, addr, len, false).unwrap_or_else(|| real::getsockname(fd, addr, len)),
        }
    }
}

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn setsockopt(
    fd: c_int,
    level: c_int,
    name: c_int,
    value: *const c_void,
    len: libc::socklen_t,
) -> c_int {
    // SAFETY: as the program calls it.
    unsafe {
        match behind(fd) {
            Behind::Rsocket(rsocket) => match rdma::rsetsockopt(rsocket, level, name, value, len) {
                // One that rsockets do not have: the kernel's socket keeps it, so that it can be asked for.
                -1 if errno() == libc::ENOPROTOOPT => real::setsockopt(fd, level, name, value, len),
                done => done,
            },
            found => {
                let done = real::setsockopt(fd, level, name, value, len);
                if done == 0 && found == Behind::Open && !value.is_null() {
                    remember(fd, level, name, value, len);
                }
                done
            }
        }
    }
}

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn getsockopt(
    fd: c_int,
    level: c_int,
    name: c_int,
    value: *mut c_void,
    len: Len,
) -> c_int {
    // SAFETY: as the program calls it.
    unsafe {
        match behind(fd) {
            Behind::Rsocket(rsocket) => match rdma::rgetsockopt(rsocket, level, name, value, len) {
                -1 if errno() == libc::ENOPROTOOPT => real::getsockopt(fd, level, name, value, len),
                done => done,
            },
            _ => real::getsockopt(fd, level, name, value, len),
        }
    }
}
