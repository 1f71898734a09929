//! Sockets made, bound, connected, shut and closed.

use std::ffi::c_int;
use std::net::SocketAddr;
use std::sync::{Arc, MutexGuard};

use super::config::Config;
use super::datagram::Datagrams;
use super::socket::{EAGAIN, Inner, Rsocket, Stage, find, insert, private_data, take};
use super::stream::Stream;
use super::waits::{readable, sleep};
use super::wire::Greeting;
use crate::abi::*;
use crate::address;
use crate::connect;
use crate::errno::{Call, EINVAL, Errno};
use crate::ids::{complete, new_synchronous};
use crate::state::with;

/// Retries without end: what is lost is sent again, and a receiver that is not ready is waited for.
const ENDLESS: u8 = 7;

/// rsocket (RS-1, RS-2).
pub fn open(domain: c_int, kind: c_int, protocol: c_int) -> Call<c_int> {
    let is_ip = matches!(domain, libc::AF_INET | libc::AF_INET6);
    let space = match (kind, protocol) {
        (libc::SOCK_STREAM, 0 | libc::IPPROTO_TCP) => RDMA_PS_TCP,
        (libc::SOCK_DGRAM, 0 | libc::IPPROTO_UDP) => RDMA_PS_UDP,
        _ => return Err(Errno(libc::EOPNOTSUPP)),
    };
    if !is_ip {
        return Err(Errno(libc::EOPNOTSUPP));
    }
    let socket = Rsocket::new(new_synchronous(space)?, domain, Stage::Idle, Config::of_machine())?;
    Ok(insert(socket))
}

/// A program's address.
///
/// # Safety
/// As many bytes as it says, or NULL.
pub unsafe fn given(addr: *const sockaddr, len: socklen_t, domain: c_int) -> Call<SocketAddr> {
    let needed = match domain {
        libc::AF_INET => size_of::<libc::sockaddr_in>(),
        _ => size_of::<libc::sockaddr_in6>(),
    };
    // The first two bytes say what it is.
    if addr.is_null() || (len as usize) < size_of::<libc::sa_family_t>() {
        return Err(EINVAL);
    }
    // SAFETY: the caller's promise.
    let family = unsafe { std::ptr::addr_of!((*addr).sa_family).read_unaligned() };
    if i32::from(family) != domain {
        return Err(Errno(libc::EAFNOSUPPORT));
    }
    if (len as usize) < needed {
        return Err(EINVAL);
    }
    // SAFETY: as above.
    let addr = unsafe { address::read(addr) }?;
    // ::ffff:a.b.c.d is an IPv4 address.
    Ok(SocketAddr::new(addr.ip().to_canonical(), addr.port()))
}

/// rbind.
///
/// # Safety
/// As the manual page says.
pub unsafe fn bind(fd: c_int, addr: *const sockaddr, len: socklen_t) -> Call<()> {
    let socket = find(fd)?;
    // SAFETY: the caller's promise.
    let addr = unsafe { given(addr, len, socket.domain) }?;
    let mut inner = socket.lock();
    if inner.stage != Stage::Idle {
        return Err(EINVAL);
    }
    if socket.is_datagram {
        return bind_datagrams(&socket, &mut inner, addr);
    }
    with(socket.id, |cm, id| cm.bind(id, addr))?;
    inner.stage = Stage::Bound;
    Ok(())
}

fn bind_datagrams(socket: &Rsocket, inner: &mut Inner, addr: SocketAddr) -> Call<()> {
    inner.datagrams = Some(Datagrams::bind(socket.id, addr, &inner.config)?);
    inner.stage = Stage::Bound;
    Ok(())
}

/// A socket of datagrams that has its QPs: on any port, where the program names none.
pub fn bound<'a>(socket: &'a Rsocket) -> Call<MutexGuard<'a, Inner>> {
    let mut inner = socket.lock();
    if inner.stage == Stage::Idle {
        let any = match socket.domain {
            libc::AF_INET => SocketAddr::from(([0; 4], 0)),
            _ => SocketAddr::from(([0u16; 8], 0)),
        };
        bind_datagrams(socket, &mut inner, any)?;
    }
    Ok(inner)
}

/// rlisten.
pub fn listen(fd: c_int, backlog: c_int) -> Call<()> {
    let socket = find(fd)?;
    let mut inner = socket.lock();
    if socket.is_datagram {
        return Err(Errno(libc::EOPNOTSUPP));
    }
    match inner.stage {
        Stage::Listening => return Ok(()),
        Stage::Idle | Stage::Bound => {}
        _ => return Err(EINVAL),
    }
    with(socket.id, |cm, id| cm.listen(id, backlog))?;
    inner.stage = Stage::Listening;
    Ok(())
}

/// raccept: the connection is answered, not waited for; its first use waits.
///
/// # Safety
/// As the manual page says.
pub unsafe fn accept(fd: c_int, addr: *mut sockaddr, len: *mut socklen_t) -> Call<c_int> {
    let socket = find(fd)?;
    let (config, may_wait) = {
        let inner = socket.lock();
        if socket.is_datagram {
            return Err(Errno(libc::EOPNOTSUPP));
        }
        if inner.stage != Stage::Listening {
            return Err(EINVAL);
        }
        (inner.config, inner.may_wait(0))
    };
    let id = loop {
        let mut id = std::ptr::null_mut();
        // SAFETY: a variable of this function.
        match unsafe { connect::get_request(socket.id, &mut id) } {
            Ok(()) => break id,
            Err(EAGAIN) if may_wait => sleep(&mut [readable(socket.cm_fd())], None)?,
            Err(errno) => return Err(errno),
        };
    };
    let accepted = Rsocket::new(id, socket.domain, Stage::Opening { is_passive: true }, config)?;
    if let Err(errno) = answer(&accepted) {
        // SAFETY: a live id.
        let _ = unsafe { connect::reject(id, hca_cm::RejectReason::Consumer, std::ptr::null(), 0) };
        // Who asked is no rsocket, or has gone: the listener is as well as before.
        let aborted = Errno(libc::ECONNABORTED);
        return Err(if errno.is_shortage() { errno } else { aborted });
    }
    let fd = insert(accepted);
    if !addr.is_null() && !len.is_null() {
        // SAFETY: the caller's promise.
        unsafe { super::options::name(fd, addr, len, true) }?;
    }
    Ok(fd)
}

fn answer(socket: &Rsocket) -> Call<()> {
    let peer = Greeting::parse(&private_data(socket.id)?).ok_or(Errno(libc::EPROTO))?;
    let mut inner = socket.lock();
    // SAFETY: the id is bound to the card through which it was asked, and lives longer.
    let mut stream = unsafe { Stream::new(socket.id, &inner.config) }?;
    stream.meet(&peer);
    let greeting = stream.greeting();
    // What was asked for, as rdma_accept would answer by itself.
    let mut param = rdma_conn_param {
        flow_control: 1,
        rnr_retry_count: ENDLESS,
        private_data: greeting.as_ptr().cast(),
        private_data_len: greeting.len() as u8,
        ..Default::default()
    };
    inner.stream = Some(stream);
    // SAFETY: live structures.
    match unsafe { connect::accept(socket.id, &mut param) } {
        Ok(()) => is_connected(&mut inner),
        Err(EAGAIN) => {}
        Err(errno) => return Err(errno),
    }
    Ok(())
}

fn is_connected(inner: &mut Inner) {
    inner.stage = Stage::Connected;
    if let Some(stream) = &mut inner.stream {
        stream.open();
    }
}

/// rconnect.
///
/// # Safety
/// As the manual page says.
pub unsafe fn connect(fd: c_int, addr: *const sockaddr, len: socklen_t) -> Call<()> {
    let socket = find(fd)?;
    // SAFETY: the caller's promise.
    let addr = unsafe { given(addr, len, socket.domain) }?;
    if socket.is_datagram {
        let mut inner = super::data::known(&socket, bound(&socket)?, addr)?;
        inner.datagrams()?.peer = Some(addr);
        return Ok(());
    }
    let mut inner = socket.lock();
    match inner.stage {
        Stage::Idle | Stage::Bound => {}
        // Asked again: how far is it?
        Stage::Opening { .. } => {
            let may_wait = inner.may_wait(0);
            return finish(&socket, inner, may_wait)
                .map(drop)
                .map_err(|errno| match errno {
                    EAGAIN => Errno(libc::EALREADY),
                    errno => errno,
                });
        }
        Stage::Connected => return Err(Errno(libc::EISCONN)),
        Stage::Listening | Stage::Failed => return Err(EINVAL),
    }
    let begun = begin(&socket, &mut inner, addr);
    if let Err(errno) = begun {
        return Err(failed(&socket, &mut inner, errno));
    }
    let may_wait = inner.may_wait(0);
    finish(&socket, inner, may_wait)
        .map(drop)
        .map_err(|errno| match errno {
            EAGAIN => Errno(libc::EINPROGRESS),
            errno => errno,
        })
}

fn begin(socket: &Rsocket, inner: &mut Inner, addr: SocketAddr) -> Call<()> {
    let id = socket.id;
    with(id, |cm, id| cm.resolve_addr(id, None, addr))?;
    complete(id)?;
    with(id, |cm, id| match inner.route.take() {
        Some(path) => cm.set_path(id, &path),
        None => cm.resolve_route(id),
    })?;
    complete(id)?;
    // SAFETY: the id is bound to the card through which the address is reached, and lives longer.
    let stream = unsafe { Stream::new(id, &inner.config) }?;
    let greeting = stream.greeting();
    inner.stream = Some(stream);
    inner.stage = Stage::Opening { is_passive: false };
    let mut param = rdma_conn_param {
        private_data: greeting.as_ptr().cast(),
        private_data_len: greeting.len() as u8,
        flow_control: 1,
        retry_count: ENDLESS,
        rnr_retry_count: ENDLESS,
        ..Default::default()
    };
    // SAFETY: live structures.
    match unsafe { connect::connect(id, &mut param) } {
        // The answer is looked at where it is waited for.
        Ok(()) => greet(socket, inner),
        Err(EAGAIN) => Ok(()),
        Err(errno) => Err(errno),
    }
}

/// The answer to what this side has asked for.
fn greet(socket: &Rsocket, inner: &mut Inner) -> Call<()> {
    let peer = Greeting::parse(&private_data(socket.id)?).ok_or(Errno(libc::EPROTO))?;
    inner.stream()?.meet(&peer);
    is_connected(inner);
    Ok(())
}

/// An attempt has failed.
fn failed(socket: &Rsocket, inner: &mut Inner, errno: Errno) -> Errno {
    (inner.stage, inner.error) = (Stage::Failed, Some(errno));
    inner.stream = None;
    socket.tell(inner);
    errno
}

/// Sees to it that a socket on its way is connected, or says why it is not.
pub fn finish<'a>(
    socket: &'a Rsocket,
    mut inner: MutexGuard<'a, Inner>,
    may_wait: bool,
) -> Call<MutexGuard<'a, Inner>> {
    loop {
        let is_passive = match inner.stage {
            Stage::Opening { is_passive } => is_passive,
            Stage::Connected => return Ok(inner),
            Stage::Failed => return Err(inner.error.take().unwrap_or(super::socket::ENOTCONN)),
            _ => return Err(super::socket::ENOTCONN),
        };
        let done = match (complete(socket.id), is_passive) {
            (Ok(()), true) => {
                is_connected(&mut inner);
                Ok(())
            }
            (Ok(()), false) => greet(socket, &mut inner),
            (Err(errno), _) => Err(errno),
        };
        match done {
            Ok(()) => socket.tell(&inner),
            Err(EAGAIN) if may_wait => inner = socket.wait_for_cm(inner)?,
            Err(EAGAIN) => return Err(EAGAIN),
            Err(errno) => {
                let errno = failed(socket, &mut inner, errno);
                inner.error = None;
                return Err(errno);
            }
        }
    }
}

/// rshutdown.
pub fn shutdown(fd: c_int, how: c_int) -> Call<()> {
    let socket = find(fd)?;
    let (reads, writes) = match how {
        libc::SHUT_RD => (true, false),
        libc::SHUT_WR => (false, true),
        libc::SHUT_RDWR => (true, true),
        _ => return Err(EINVAL),
    };
    let inner = socket.lock();
    let inner = match inner.stage {
        Stage::Opening { .. } => finish(&socket, inner, true)?,
        Stage::Connected => inner,
        _ => return Err(super::socket::ENOTCONN),
    };
    socket.shut(inner, reads, writes, true).map(drop)
}

/// rclose: what was sent arrives first, unless SO_LINGER says that it need not.
pub fn close(fd: c_int) -> Call<()> {
    let socket: Arc<Rsocket> = take(fd)?;
    let mut inner = socket.lock();
    if let Stage::Opening { .. } = inner.stage {
        inner = match finish(&socket, inner, false) {
            Ok(inner) => inner,
            Err(_) => return Ok(()),
        };
    }
    if inner.datagrams.is_some() {
        // What was sent leaves first.
        return socket
            .wait_until(inner, true, |inner| Ok(inner.datagrams()?.is_drained()))
            .map(drop);
    }
    if inner.stage == Stage::Connected {
        let aborts = inner.linger.l_onoff != 0 && inner.linger.l_linger == 0;
        // Whatever comes of it, the socket is closed.
        if let Ok(mut inner) = socket.shut(inner, true, true, !aborts)
            && let Some(stream) = &mut inner.stream
        {
            // Threads that still wait for it have waited long enough.
            stream.fail(super::socket::EBADF);
        }
    }
    Ok(())
}
