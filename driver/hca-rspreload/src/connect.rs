//! Where sockets go, and where they come from.

use std::ffi::{c_int, c_void};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use crate::fork;
use crate::rdma;
use crate::real::{self, errno, fail};
use crate::table::{self, Behind, behind, changes, set};

type ConstAddr = *const libc::sockaddr;
type Addr = *mut libc::sockaddr;
type Len = *mut libc::socklen_t;

const FLAGS_OF_TYPE: c_int = libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
/// What rsockets say of addresses that are not theirs.
const NOT_OURS: [c_int; 6] = [
    libc::ENETUNREACH,
    libc::EHOSTUNREACH,
    libc::EADDRNOTAVAIL,
    libc::ENODEV,
    libc::EBUSY,
    libc::ENOSYS,
];

/// An address of IP.
///
/// # Safety
/// As many bytes as it says, or NULL.
unsafe fn read(addr: ConstAddr, len: libc::socklen_t) -> Option<SocketAddr> {
    if addr.is_null() || (len as usize) < size_of::<libc::sockaddr_in>() {
        return None;
    }
    // SAFETY: the caller's promise, for either length.
    unsafe {
        let sin = addr.cast::<libc::sockaddr_in>().read_unaligned();
        match i32::from(sin.sin_family) {
            libc::AF_INET => {
                let ip = Ipv4Addr::from(u32::from_be(sin.sin_addr.s_addr));
                Some(SocketAddr::new(ip.into(), u16::from_be(sin.sin_port)))
            }
            libc::AF_INET6 if len as usize >= size_of::<libc::sockaddr_in6>() => {
                let sin6 = addr.cast::<libc::sockaddr_in6>().read_unaligned();
                let ip = Ipv6Addr::from(sin6.sin6_addr.s6_addr);
                Some(SocketAddr::new(ip.into(), u16::from_be(sin6.sin6_port)))
            }
            _ => None,
        }
    }
}

/// Can a card have the address? Those of the machine itself stay in it.
fn may_be_ours(ip: IpAddr) -> bool {
    let ip = ip.to_canonical();
    !ip.is_loopback() && !ip.is_unspecified() && !ip.is_multicast()
}

/// Makes the rsocket of a socket that is not decided, with its options.
fn make(fd: c_int) -> Option<c_int> {
    table::uses_rsockets();
    let mut domain: c_int = 0;
    let mut len = size_of::<c_int>() as libc::socklen_t;
    // SAFETY: a variable of this function.
    let rsocket = unsafe {
        real::getsockopt(
            fd,
            libc::SOL_SOCKET,
            libc::SO_DOMAIN,
            (&raw mut domain).cast(),
            &mut len,
        );
        rdma::rsocket(domain, libc::SOCK_STREAM, 0)
    };
    if rsocket < 0 {
        return None;
    }
    let options = changes().options.get(&fd).cloned().unwrap_or_default();
    for (level, name, value) in options {
        // SAFETY: as long as it says. One that rsockets do not have stays the kernel's socket's.
        unsafe {
            rdma::rsetsockopt(
                rsocket,
                level,
                name,
                value.as_ptr().cast(),
                value.len() as libc::socklen_t,
            )
        };
    }
    Some(rsocket)
}

/// It is decided: from now on calls go to the rsocket.
fn become_rsocket(fd: c_int, rsocket: c_int) {
    crate::epoll::moved(fd);
    set(fd, Behind::Rsocket(rsocket));
}

fn set_nonblocking(rsocket: c_int, is_on: bool) {
    // SAFETY: no pointers.
    unsafe { rdma::rfcntl(rsocket, libc::F_SETFL, if is_on { libc::O_NONBLOCK } else { 0 }) };
}

/// Ends an rsocket that came to nothing; true: the address is not for rsockets.
fn discard(rsocket: c_int) -> bool {
    let why = errno();
    // SAFETY: nobody else has it.
    unsafe { rdma::rclose(rsocket) };
    fail(why);
    NOT_OURS.contains(&why)
}

/// The port that the kernel's socket is bound to.
fn bound_port(fd: c_int) -> u16 {
    // SAFETY: all-zero addresses are valid; as long as it says.
    unsafe {
        let mut storage: libc::sockaddr_storage = std::mem::zeroed();
        let mut len = size_of::<libc::sockaddr_storage>() as libc::socklen_t;
        real::getsockname(fd, (&raw mut storage).cast(), &mut len);
        read((&raw const storage).cast(), len).map_or(0, |addr| addr.port())
    }
}

/// Binds an rsocket to a port of all addresses.
fn bind_to_any(rsocket: c_int, fd: c_int) -> c_int {
    // SAFETY: all-zero addresses are valid; as long as it says.
    unsafe {
        let mut storage: libc::sockaddr_storage = std::mem::zeroed();
        let mut len = size_of::<libc::sockaddr_storage>() as libc::socklen_t;
        if real::getsockname(fd, (&raw mut storage).cast(), &mut len) < 0 {
            return -1;
        }
        rdma::rbind(rsocket, (&raw const storage).cast(), len)
    }
}

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn socket(domain: c_int, kind: c_int, protocol: c_int) -> c_int {
    // SAFETY: as the program calls it.
    let fd = unsafe { real::socket(domain, kind, protocol) };
    let is_ip = matches!(domain, libc::AF_INET | libc::AF_INET6);
    let is_stream = kind & !FLAGS_OF_TYPE == libc::SOCK_STREAM && matches!(protocol, 0 | libc::IPPROTO_TCP);
    if fd >= 0 && is_ip && is_stream && table::has_room(fd) {
        fork::prepare_once();
        set(fd, Behind::Open);
    }
    fd
}

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn bind(fd: c_int, addr: ConstAddr, len: libc::socklen_t) -> c_int {
    // SAFETY: as the program calls it.
    unsafe {
        match behind(fd) {
            Behind::Open if read(addr, len).is_some_and(|addr| may_be_ours(addr.ip())) => {}
            Behind::Rsocket(rsocket) | Behind::Both(rsocket) => return rdma::rbind(rsocket, addr, len),
            _ => return real::bind(fd, addr, len),
        }
        let Some(rsocket) = make(fd) else {
            return real::bind(fd, addr, len);
        };
        if rdma::rbind(rsocket, addr, len) == 0 {
            set_nonblocking(rsocket, real::flags(fd) & libc::O_NONBLOCK != 0);
            become_rsocket(fd, rsocket);
            return 0;
        }
        match discard(rsocket) {
            true => real::bind(fd, addr, len),
            false => -1,
        }
    }
}

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn connect(fd: c_int, addr: ConstAddr, len: libc::socklen_t) -> c_int {
    // SAFETY: as the program calls it.
    unsafe {
        match behind(fd) {
            Behind::Open if read(addr, len).is_some_and(|addr| may_be_ours(addr.ip())) => {}
            Behind::Rsocket(rsocket) => return rdma::rconnect(rsocket, addr, len),
            _ => return real::connect(fd, addr, len),
        }
        let Some(rsocket) = make(fd) else {
            return real::connect(fd, addr, len);
        };
        set_nonblocking(rsocket, real::flags(fd) & libc::O_NONBLOCK != 0);
        let bound = bound_port(fd) == 0 || bind_to_any(rsocket, fd) == 0;
        let done = if bound {
            rdma::rconnect(rsocket, addr, len)
        } else {
            -1
        };
        if done == 0 || errno() == libc::EINPROGRESS {
            let why = errno();
            become_rsocket(fd, rsocket);
            fail(why);
            return done;
        }
        match discard(rsocket) {
            true => real::connect(fd, addr, len),
            false => -1,
        }
    }
}

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn listen(fd: c_int, backlog: c_int) -> c_int {
    // SAFETY: as the program calls it.
    unsafe {
        match behind(fd) {
            Behind::Rsocket(rsocket) => return rdma::rlisten(rsocket, backlog),
            Behind::Open if listens_everywhere(fd) => {}
            _ => return real::listen(fd, backlog),
        }
        let Some(rsocket) = make(fd) else {
            return real::listen(fd, backlog);
        };
        // Both shall have the same port, which the kernel chooses where the program does not.
        let named = bound_port(fd) != 0 || bind_any_port(fd) == 0;
        if named && bind_to_any(rsocket, fd) == 0 && rdma::rlisten(rsocket, backlog) == 0 {
            // Who waits for either must not be held up by one of them.
            set_nonblocking(rsocket, true);
            let done = real::listen(fd, backlog);
            if done == 0 {
                set(fd, Behind::Both(rsocket));
            } else {
                discard(rsocket);
            }
            return done;
        }
        match discard(rsocket) {
            true => real::listen(fd, backlog),
            false => -1,
        }
    }
}

/// Binds the kernel's socket to a port that it chooses, as listen(2) does.
fn bind_any_port(fd: c_int) -> c_int {
    // SAFETY: all-zero addresses are valid; what is asked for is the family.
    unsafe {
        let mut storage: libc::sockaddr_storage = std::mem::zeroed();
        let mut len = size_of::<libc::sockaddr_storage>() as libc::socklen_t;
        if real::getsockname(fd, (&raw mut storage).cast(), &mut len) < 0 {
            return -1;
        }
        real::bind(fd, (&raw const storage).cast(), len)
    }
}

/// Is the socket bound to all addresses, or none?
fn listens_everywhere(fd: c_int) -> bool {
    // SAFETY: all-zero addresses are valid; as long as it says.
    unsafe {
        let mut storage: libc::sockaddr_storage = std::mem::zeroed();
        let mut len = size_of::<libc::sockaddr_storage>() as libc::socklen_t;
        real::getsockname(fd, (&raw mut storage).cast(), &mut len);
        read((&raw const storage).cast(), len).is_some_and(|addr| addr.ip().is_unspecified())
    }
}

/// A kernel's socket that keeps the number of an rsocket.
fn adopt(rsocket: c_int, like: c_int, flags: c_int) -> c_int {
    let mut domain: c_int = 0;
    let mut len = size_of::<c_int>() as libc::socklen_t;
    // SAFETY: a variable of this function.
    let fd = unsafe {
        real::getsockopt(
            like,
            libc::SOL_SOCKET,
            libc::SO_DOMAIN,
            (&raw mut domain).cast(),
            &mut len,
        );
        real::socket(domain, libc::SOCK_STREAM | flags & FLAGS_OF_TYPE, 0)
    };
    if fd < 0 || !table::has_room(fd) {
        let why = if fd < 0 { errno() } else { libc::EMFILE };
        // SAFETY: nobody else has either.
        unsafe {
            rdma::rclose(rsocket);
            real::close(fd);
        }
        return fail(why);
    }
    set_nonblocking(rsocket, flags & libc::SOCK_NONBLOCK != 0);
    set(fd, Behind::Rsocket(rsocket));
    fd
}

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn accept4(fd: c_int, addr: Addr, len: Len, flags: c_int) -> c_int {
    if flags & !FLAGS_OF_TYPE != 0 {
        return fail(libc::EINVAL);
    }
    // SAFETY: as the program calls it.
    unsafe {
        match behind(fd) {
            Behind::Rsocket(rsocket) => match rdma::raccept(rsocket, addr, len) {
                -1 => -1,
                accepted => adopt(accepted, fd, flags),
            },
            Behind::Both(rsocket) => accept_either(fd, rsocket, addr, len, flags),
            _ => real::accept4(fd, addr, len, flags),
        }
    }
}

/// Accepts from whichever has a connection first.
///
/// # Safety
/// As accept4(2) says.
unsafe fn accept_either(fd: c_int, rsocket: c_int, addr: Addr, len: Len, flags: c_int) -> c_int {
    loop {
        let mut fds = [rsocket, fd].map(|fd| libc::pollfd {
            fd,
            events: libc::POLLIN,
            revents: 0,
        });
        let timeout = if real::flags(fd) & libc::O_NONBLOCK != 0 {
            0
        } else {
            -1
        };
        // SAFETY: live entries, as many as named.
        match crate::wait::inside(|| unsafe { rdma::rpoll(fds.as_mut_ptr(), 2, timeout) }) {
            0 => return fail(libc::EAGAIN),
            -1 => return -1,
            _ => {}
        }
        if fds[0].revents != 0 {
            // SAFETY: the caller's promise.
            match unsafe { rdma::raccept(rsocket, addr, len) } {
                -1 if errno() == libc::EAGAIN => continue,
                -1 => return -1,
                accepted => return adopt(accepted, fd, flags),
            }
        }
        // SAFETY: the caller's promise.
        return unsafe { real::accept4(fd, addr, len, flags) };
    }
}

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn accept(fd: c_int, addr: Addr, len: Len) -> c_int {
    // SAFETY: as the program calls it.
    unsafe { accept4(fd, addr, len, 0) }
}

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn shutdown(fd: c_int, how: c_int) -> c_int {
    // SAFETY: as the program calls it.
    unsafe {
        match behind(fd) {
            Behind::Rsocket(rsocket) => rdma::rshutdown(rsocket, how),
            _ => real::shutdown(fd, how),
        }
    }
}

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn close(fd: c_int) -> c_int {
    // The number is free only when nothing stands behind it.
    if behind(fd) != Behind::Kernel {
        crate::epoll::forget(fd);
        set(fd, Behind::Kernel);
    }
    fork::forget(fd);
    // SAFETY: as the program calls it.
    unsafe { real::close(fd) }
}

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn dup(fd: c_int) -> c_int {
    // SAFETY: as the program calls it.
    let new = unsafe { real::dup(fd) };
    same(fd, new)
}

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn dup2(fd: c_int, new: c_int) -> c_int {
    if fd == new {
        return if real::flags(fd) < 0 { -1 } else { new };
    }
    // SAFETY: as the program calls it.
    unsafe { dup3(fd, new, 0) }
}

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn dup3(fd: c_int, new: c_int, flags: c_int) -> c_int {
    // SAFETY: as the program calls it.
    let new = unsafe { real::dup3(fd, new, flags) };
    same(fd, new)
}

/// What stands behind a descriptor stands behind its copy, too.
pub fn same(fd: c_int, new: c_int) -> c_int {
    if new < 0 {
        return new;
    }
    match behind(fd) {
        Behind::Kernel if behind(new) == Behind::Kernel => {}
        // Whose copies go different ways is the kernel's.
        Behind::Open => set(new, Behind::Kernel),
        found => set(new, found),
    }
    new
}

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn fcntl64(fd: c_int, cmd: c_int, arg: usize) -> c_int {
    // SAFETY: as the program calls it; what is variable has one argument at most.
    let done = unsafe { real::fcntl64(fd, cmd, arg) };
    if done >= 0 {
        match (cmd, behind(fd)) {
            (libc::F_SETFL, Behind::Rsocket(rsocket)) => {
                set_nonblocking(rsocket, arg as c_int & libc::O_NONBLOCK != 0);
            }
            (libc::F_DUPFD | libc::F_DUPFD_CLOEXEC, _) => return same(fd, done),
            _ => {}
        }
    }
    done
}

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn fcntl(fd: c_int, cmd: c_int, arg: usize) -> c_int {
    // SAFETY: as the program calls it.
    unsafe { fcntl64(fd, cmd, arg) }
}

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn ioctl(fd: c_int, request: libc::c_ulong, arg: usize) -> c_int {
    // SAFETY: as the program calls it; what is variable has one argument at most.
    let done = unsafe { real::ioctl(fd, request, arg) };
    if let (0, libc::FIONBIO, Behind::Rsocket(rsocket)) = (done, request, behind(fd)) {
        // SAFETY: the kernel has read it.
        set_nonblocking(rsocket, unsafe { *(arg as *const c_int) } != 0);
    }
    done
}

/// An option that was set before it was known where the socket goes.
///
/// # Safety
/// As many bytes as it says.
pub unsafe fn remember(fd: c_int, level: c_int, name: c_int, value: *const c_void, len: libc::socklen_t) {
    // SAFETY: the caller's promise: the kernel has read them.
    let bytes = unsafe { std::slice::from_raw_parts(value.cast::<u8>(), len as usize) }.to_vec();
    changes()
        .options
        .entry(fd)
        .or_default()
        .push((level, name, bytes));
}
