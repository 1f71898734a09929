//! Options, names and flags of sockets (RS-2, RS-3).

use std::ffi::{c_int, c_void};
use std::net::{IpAddr, SocketAddr, SocketAddrV6};

use super::socket::{ENOTCONN, Inner, Rsocket, Stage, find};
use crate::abi::*;
use crate::address;
use crate::errno::{Call, EINVAL, Errno, last_errno};
use crate::path::{data_of, first_whole};
use crate::state::with;

const EFAULT: Errno = Errno(libc::EFAULT);
const ENOPROTOOPT: Errno = Errno(libc::ENOPROTOOPT);
/// RS-3.
const SOL_RDMA: c_int = 0x10000;
const RDMA_SQSIZE: c_int = 0;
const RDMA_RQSIZE: c_int = 1;
const RDMA_INLINE: c_int = 2;
const RDMA_IOMAPSIZE: c_int = 3;
const RDMA_ROUTE: c_int = 4;
/// TCP_MAXSEG of who is not connected, as librdmacm has it.
const USUAL_SEGMENT: c_int = 2048;

/// Flags that are remembered, and change nothing.
const REMEMBERED: [(c_int, c_int); 8] = [
    // A port number is free as soon as who had it has closed it.
    (libc::SOL_SOCKET, libc::SO_REUSEADDR),
    (libc::SOL_SOCKET, libc::SO_KEEPALIVE),
    (libc::SOL_SOCKET, libc::SO_OOBINLINE),
    // Nothing waits for more.
    (libc::IPPROTO_TCP, libc::TCP_NODELAY),
    (libc::IPPROTO_TCP, libc::TCP_KEEPIDLE),
    (libc::IPPROTO_TCP, libc::TCP_KEEPINTVL),
    (libc::IPPROTO_TCP, libc::TCP_KEEPCNT),
    (libc::IPPROTO_IPV6, libc::IPV6_V6ONLY),
];

/// A value of C.
///
/// # Safety
/// As many bytes as it says.
unsafe fn value<T: Copy>(at: *const c_void, len: socklen_t) -> Call<T> {
    if at.is_null() {
        return Err(EFAULT);
    }
    if (len as usize) < size_of::<T>() {
        return Err(EINVAL);
    }
    // SAFETY: the caller's promise; the types here take any bits.
    Ok(unsafe { at.cast::<T>().read_unaligned() })
}

/// rsetsockopt.
///
/// # Safety
/// As the manual page says.
pub unsafe fn set(fd: c_int, level: c_int, name: c_int, at: *const c_void, len: socklen_t) -> Call<()> {
    let socket = find(fd)?;
    let mut inner = socket.lock();
    if (level, name) == (libc::SOL_SOCKET, libc::SO_LINGER) {
        // SAFETY: the caller's promise.
        inner.linger = unsafe { value(at, len) }?;
        return Ok(());
    }
    if (level, name) == (SOL_RDMA, RDMA_ROUTE) {
        if at.is_null() {
            return Err(EFAULT);
        }
        // SAFETY: the caller's promise.
        let bytes = unsafe { std::slice::from_raw_parts(at.cast::<u8>(), len as usize) };
        return set_route(&socket, &mut inner, bytes);
    }
    // SAFETY: as above.
    let number: c_int = unsafe { value(at, len) }?;
    let size = number.max(0) as u32;
    let is_early = matches!(inner.stage, Stage::Idle | Stage::Bound | Stage::Listening);
    match (level, name) {
        (libc::IPPROTO_TCP, libc::TCP_KEEPIDLE) if number <= 0 => return Err(EINVAL),
        (level, name) if REMEMBERED.contains(&(level, name)) => {
            inner.options.insert((level, name), number);
        }
        // Twice as much, as socket(7) says of Linux. Buffers of a connection stay what they are.
        (libc::SOL_SOCKET, libc::SO_RCVBUF) if is_early => {
            inner.config.set_receive_bytes(size.saturating_mul(2))
        }
        (libc::SOL_SOCKET, libc::SO_SNDBUF) if is_early => {
            inner.config.set_send_bytes(size.saturating_mul(2))
        }
        (libc::SOL_SOCKET, libc::SO_RCVBUF | libc::SO_SNDBUF) | (libc::IPPROTO_TCP, libc::TCP_MAXSEG) => {}
        (SOL_RDMA, RDMA_SQSIZE..=RDMA_IOMAPSIZE) if !is_early || number < 0 => return Err(EINVAL),
        (SOL_RDMA, RDMA_SQSIZE) => inner.config.set_send_queue(size),
        (SOL_RDMA, RDMA_RQSIZE) => inner.config.set_receive_queue(size),
        (SOL_RDMA, RDMA_INLINE) => inner.config.inline = size.min(super::config::MAX_QUEUE),
        (SOL_RDMA, RDMA_IOMAPSIZE) => inner.config.set_iomaps(size),
        _ => return Err(ENOPROTOOPT),
    }
    Ok(())
}

/// RS-3: the way that a connection of the future goes.
fn set_route(socket: &Rsocket, inner: &mut Inner, bytes: &[u8]) -> Call<()> {
    if socket.is_datagram || !matches!(inner.stage, Stage::Idle | Stage::Bound) {
        return Err(EINVAL);
    }
    first_whole(bytes)?;
    inner.route = Some(hca_room::copied(bytes)?);
    Ok(())
}

/// rgetsockopt.
///
/// # Safety
/// As the manual page says.
pub unsafe fn get(fd: c_int, level: c_int, name: c_int, at: *mut c_void, len: *mut socklen_t) -> Call<()> {
    let socket = find(fd)?;
    // SAFETY: the program's variable, or NULL.
    let len = unsafe { len.as_mut() }.filter(|_| !at.is_null()).ok_or(EFAULT)?;
    let mut inner = socket.lock();
    let linger = inner.linger;
    match (level, name) {
        // SAFETY: the caller's promise.
        (libc::SOL_SOCKET, libc::SO_LINGER) => unsafe { put(&linger, at, len) },
        (SOL_RDMA, RDMA_ROUTE) => {
            if (*len as usize) < size_of::<ibv_path_data>() {
                return Err(EINVAL);
            }
            match path(&socket)? {
                // SAFETY: as above.
                Some(record) => unsafe { put(&data_of(&record), at, len) },
                None => *len = 0,
            }
        }
        _ => {
            let number = number_of(&socket, &mut inner, level, name)?;
            // SAFETY: as above.
            unsafe { put(&number, at, len) }
        }
    }
    Ok(())
}

fn number_of(socket: &Rsocket, inner: &mut Inner, level: c_int, name: c_int) -> Call<c_int> {
    let config = inner.config;
    Ok(match (level, name) {
        (level, name) if REMEMBERED.contains(&(level, name)) => {
            inner.options.get(&(level, name)).copied().unwrap_or(0)
        }
        (libc::SOL_SOCKET, libc::SO_ERROR) => error(inner).map_or(0, |errno| errno.0),
        (libc::SOL_SOCKET, libc::SO_TYPE) if socket.is_datagram => libc::SOCK_DGRAM,
        (libc::SOL_SOCKET, libc::SO_PROTOCOL) if socket.is_datagram => libc::IPPROTO_UDP,
        (libc::SOL_SOCKET, libc::SO_TYPE) => libc::SOCK_STREAM,
        (libc::SOL_SOCKET, libc::SO_DOMAIN) => socket.domain,
        (libc::SOL_SOCKET, libc::SO_PROTOCOL) => libc::IPPROTO_TCP,
        (libc::SOL_SOCKET, libc::SO_ACCEPTCONN) => (inner.stage == Stage::Listening).into(),
        (libc::SOL_SOCKET, libc::SO_RCVBUF) => config.receive_bytes as c_int,
        (libc::SOL_SOCKET, libc::SO_SNDBUF) => config.send_bytes as c_int,
        (libc::IPPROTO_TCP, libc::TCP_MAXSEG) => segment(socket)?,
        (SOL_RDMA, RDMA_SQSIZE) => config.send_queue as c_int,
        (SOL_RDMA, RDMA_RQSIZE) => config.receive_queue as c_int,
        (SOL_RDMA, RDMA_INLINE) => inner
            .stream
            .as_ref()
            .map_or(config.inline, |stream| stream.inline) as c_int,
        (SOL_RDMA, RDMA_IOMAPSIZE) => config.iomaps.into(),
        _ => return Err(ENOPROTOOPT),
    })
}

/// What has gone wrong since it was last asked for.
fn error(inner: &mut Inner) -> Option<Errno> {
    let of_stream = inner.stream.as_mut().and_then(|stream| stream.take_error());
    inner.error.take().or(of_stream)
}

/// Writes as much of a value as there is room for.
///
/// # Safety
/// `at` has as many bytes as `len` says.
unsafe fn put<T>(value: &T, at: *mut c_void, len: &mut socklen_t) {
    let count = (*len as usize).min(size_of::<T>());
    // SAFETY: the caller's promise.
    unsafe { std::ptr::copy_nonoverlapping((&raw const *value).cast::<u8>(), at.cast(), count) };
    *len = count as socklen_t;
}

/// The path of a connection.
fn path(socket: &Rsocket) -> Call<Option<ibv_sa_path_rec>> {
    with(socket.id, |_, _| {
        // SAFETY: a live id, with as many records as it says.
        Ok(unsafe {
            match (*socket.id).route.num_paths {
                0 => None,
                _ => (*socket.id).route.path_rec.as_ref().copied(),
            }
        })
    })
}

fn segment(socket: &Rsocket) -> Call<c_int> {
    Ok(path(socket)?.map_or(USUAL_SEGMENT, |path| 128 << path.mtu.min(5)))
}

/// rgetsockname, rgetpeername.
///
/// # Safety
/// As the manual page says.
pub unsafe fn name(fd: c_int, addr: *mut sockaddr, len: *mut socklen_t, of_peer: bool) -> Call<()> {
    let socket = find(fd)?;
    // SAFETY: the program's variable, or NULL.
    let len = unsafe { len.as_mut() }
        .filter(|_| !addr.is_null())
        .ok_or(EFAULT)?;
    let found = name_of(&socket, of_peer)?;
    // SAFETY: as above.
    unsafe { put_name(&socket, found, addr, len) }
}

/// Writes a name as a socket's family has it.
///
/// # Safety
/// As the manual pages say.
pub unsafe fn put_name(
    socket: &Rsocket,
    name: SocketAddr,
    addr: *mut sockaddr,
    len: *mut socklen_t,
) -> Call<()> {
    let found = in_family(name, socket.domain);
    // SAFETY: the caller's promise.
    let len = unsafe { len.as_mut() }.ok_or(EFAULT)?;
    // SAFETY: all-zero addresses are valid.
    let mut storage: libc::sockaddr_storage = unsafe { std::mem::zeroed() };
    // SAFETY: there is room for any address; the program's has as many bytes as it says.
    unsafe {
        address::write((&raw mut storage).cast(), &found);
        let count = (*len as usize).min(address::length(&found));
        std::ptr::copy_nonoverlapping((&raw const storage).cast::<u8>(), addr.cast(), count);
    }
    *len = address::length(&found) as socklen_t;
    Ok(())
}

/// A socket's address, or its peer's, as its family writes them.
pub fn name_of(socket: &Rsocket, of_peer: bool) -> Call<SocketAddr> {
    let (stage, peer) = {
        let inner = socket.lock();
        (
            inner.stage,
            inner.datagrams.as_ref().and_then(|datagrams| datagrams.peer),
        )
    };
    if let (Some(peer), true) = (peer, of_peer) {
        return Ok(in_family(peer, socket.domain));
    }
    let found = with(socket.id, |cm, id| {
        let entry = cm.id(id)?;
        Ok(if of_peer { entry.dst } else { entry.src })
    })?;
    let is_joined = matches!(stage, Stage::Opening { .. } | Stage::Connected);
    match (found, of_peer) {
        (_, true) if !is_joined => Err(ENOTCONN),
        (Some(addr), _) => Ok(in_family(addr, socket.domain)),
        (None, true) => Err(ENOTCONN),
        (None, false) if socket.domain == libc::AF_INET => Ok(SocketAddr::from(([0; 4], 0))),
        (None, false) => Ok(SocketAddr::from(([0u16; 8], 0))),
    }
}

/// An IPv4 address in an IPv6 socket is ::ffff:a.b.c.d.
fn in_family(addr: SocketAddr, domain: c_int) -> SocketAddr {
    match (addr.ip(), domain) {
        (IpAddr::V4(ip), libc::AF_INET6) => SocketAddrV6::new(ip.to_ipv6_mapped(), addr.port(), 0, 0).into(),
        _ => addr,
    }
}

/// rfcntl.
pub fn control(fd: c_int, cmd: c_int, arg: c_int) -> Call<c_int> {
    let socket = find(fd)?;
    match cmd {
        libc::F_GETFL => Ok(socket.lock().flags),
        libc::F_SETFL => {
            let settable = libc::O_NONBLOCK | libc::O_APPEND | libc::O_ASYNC;
            socket.lock().flags = libc::O_RDWR | arg & settable;
            Ok(0)
        }
        libc::F_GETFD | libc::F_SETFD => {
            // SAFETY: a live descriptor; no pointers.
            match unsafe { libc::fcntl(fd, cmd, arg) } {
                -1 => Err(last_errno()),
                flags => Ok(flags),
            }
        }
        _ => Err(Errno(libc::EOPNOTSUPP)),
    }
}
