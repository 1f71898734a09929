//! Bytes in and out.

use std::ffi::{c_int, c_void};
use std::net::SocketAddr;
use std::sync::MutexGuard;

use super::connect::{self, finish};
use super::datagram::look_up;
use super::socket::{Inner, Rsocket, Stage, find};
use super::stream::{Pieces, Stream};
use super::wire::Message;
use crate::abi::*;
use crate::errno::{Call, EINVAL, Errno};

const EFAULT: Errno = Errno(libc::EFAULT);
/// Flags that ask for what there is not. Others change nothing for a stream; programs give some of either direction.
const ABSENT_FLAGS: c_int = libc::MSG_OOB | libc::MSG_ERRQUEUE;

/// The pieces of a list.
///
/// # Safety
/// As many as it says, or NULL.
unsafe fn pieces<'a>(iov: *const libc::iovec, count: usize) -> Call<Pieces<'a>> {
    match (iov.is_null(), count) {
        (_, 0) => Ok(&[]),
        (true, _) => Err(EFAULT),
        (_, 1025..) => Err(EINVAL),
        // SAFETY: the caller's promise.
        _ => Ok(unsafe { std::slice::from_raw_parts(iov, count) }),
    }
}

fn piece(buf: *mut c_void, len: usize) -> libc::iovec {
    libc::iovec {
        iov_base: buf,
        iov_len: len,
    }
}

fn total(pieces: Pieces<'_>) -> Call<usize> {
    let mut sum = 0usize;
    for piece in pieces {
        if piece.iov_base.is_null() && piece.iov_len > 0 {
            return Err(EFAULT);
        }
        sum = sum
            .checked_add(piece.iov_len)
            .filter(|sum| *sum <= isize::MAX as usize)
            .ok_or(EINVAL)?;
    }
    Ok(sum)
}

/// A socket that is connected, or was.
fn connected<'a>(socket: &'a Rsocket, flags: c_int) -> Call<MutexGuard<'a, Inner>> {
    let inner = socket.lock();
    match inner.stage {
        Stage::Connected => Ok(inner),
        _ => {
            let may_wait = inner.may_wait(flags);
            finish(socket, inner, may_wait)
        }
    }
}

/// Receives into pieces.
fn receive(fd: c_int, into: Pieces<'_>, flags: c_int) -> Call<usize> {
    let socket = find(fd)?;
    if flags & ABSENT_FLAGS != 0 {
        return Err(Errno(libc::EOPNOTSUPP));
    }
    let want = total(into)?;
    if socket.is_datagram {
        return receive_datagram(&socket, into, flags).map(|(len, _)| len.min(want));
    }
    let mut inner = connected(&socket, flags)?;
    let keeps = flags & libc::MSG_PEEK != 0;
    let needs = if flags & libc::MSG_WAITALL != 0 && !keeps {
        want
    } else {
        want.min(1)
    };
    let mut done = 0;
    while done < needs {
        let may_wait = inner.may_wait(flags);
        let is_there = |stream: &mut Stream| stream.incoming.unread() > 0 || !stream.can_read;
        inner = match socket.wait(inner, may_wait, is_there) {
            Ok(inner) => inner,
            Err(errno) if done == 0 => return Err(errno),
            Err(_) => break,
        };
        let stream = inner.stream()?;
        let taken = fill(stream, into, done, keeps);
        if taken == 0 {
            match stream.take_error().filter(|_| done == 0) {
                Some(errno) => return Err(errno),
                None => break,
            }
        }
        done += taken;
        stream.grant();
        if keeps {
            break;
        }
    }
    Ok(done)
}

/// Fills pieces from the first free byte on.
fn fill(stream: &mut Stream, into: Pieces<'_>, mut skip: usize, keeps: bool) -> usize {
    let mut done = 0;
    for piece in into {
        let used = skip.min(piece.iov_len);
        skip -= used;
        if piece.iov_len > used {
            // SAFETY: the program's memory, as long as it says.
            let copied = unsafe {
                stream.copy_out(piece.iov_base.cast::<u8>().add(used), piece.iov_len - used, keeps)
            };
            done += copied;
            // What is only looked at is seen from the first byte on: one piece of it.
            if copied < piece.iov_len - used || keeps {
                break;
            }
        }
    }
    done
}

/// Sends pieces.
fn send(fd: c_int, from: Pieces<'_>, flags: c_int) -> Call<usize> {
    let socket = find(fd)?;
    if flags & ABSENT_FLAGS != 0 {
        return Err(Errno(libc::EOPNOTSUPP));
    }
    let len = total(from)?;
    if socket.is_datagram {
        let peer = connect::bound(&socket)?.datagrams()?.peer;
        return send_datagram(&socket, from, len, flags, peer.ok_or(Errno(libc::EDESTADDRREQ))?);
    }
    let mut inner = connected(&socket, flags)?;
    if !inner.stream()?.can_write {
        return Err(inner.stream()?.send_error());
    }
    inner = tell_mappings(&socket, inner, flags)?;
    let mut done = 0;
    while done < len {
        let sent = ready(&socket, inner, flags).and_then(|mut inner| {
            // SAFETY: the program's memory, as long as it says.
            let sent = unsafe { send_one(inner.stream()?, from, done, len - done) }?;
            Ok((inner, sent))
        });
        match sent {
            Ok((again, len)) => {
                inner = again;
                done += len;
            }
            Err(_) if done > 0 => break,
            Err(errno) => return Err(errno),
        }
    }
    Ok(done)
}

/// Receives a datagram: its length, and who has sent it.
fn receive_datagram(socket: &Rsocket, into: Pieces<'_>, flags: c_int) -> Call<(usize, SocketAddr)> {
    let inner = connect::bound(socket)?;
    let may_wait = inner.may_wait(flags);
    let mut inner = socket.wait_until(inner, may_wait, |inner| Ok(inner.datagrams()?.is_there()))?;
    let (from, len) = inner.datagrams()?.receive(into, flags & libc::MSG_PEEK != 0)?;
    Ok((len, from))
}

/// A socket that knows where an address has its QP. Nobody holds the lock while it is asked.
pub fn known<'a>(
    socket: &'a Rsocket,
    mut inner: MutexGuard<'a, Inner>,
    to: SocketAddr,
) -> Call<MutexGuard<'a, Inner>> {
    if !inner.datagrams()?.knows(&to) {
        drop(inner);
        let found = look_up(to)?;
        inner = socket.lock();
        inner.datagrams()?.learn(to, &found)?;
    }
    Ok(inner)
}

fn send_datagram(
    socket: &Rsocket,
    from: Pieces<'_>,
    len: usize,
    flags: c_int,
    to: SocketAddr,
) -> Call<usize> {
    let inner = known(socket, connect::bound(socket)?, to)?;
    let may_wait = inner.may_wait(flags);
    let mut inner = socket.wait_until(inner, may_wait, |inner| Ok(inner.datagrams()?.can_send(&to)))?;
    inner.datagrams()?.send(&to, from, len)?;
    Ok(len)
}

/// Waits until a stream can send.
fn ready<'a>(socket: &'a Rsocket, inner: MutexGuard<'a, Inner>, flags: c_int) -> Call<MutexGuard<'a, Inner>> {
    let may_wait = inner.may_wait(flags);
    let mut inner = socket.wait(inner, may_wait, |stream| {
        stream.out.is_ready() || !stream.can_write
    })?;
    let stream = inner.stream()?;
    if stream.can_write {
        Ok(inner)
    } else {
        Err(stream.send_error())
    }
}

/// Sends one message of a stream that is ready.
///
/// # Safety
/// So many bytes in the pieces, behind those that are skipped.
unsafe fn send_one(stream: &mut Stream, from: Pieces<'_>, skip: usize, len: usize) -> Call<usize> {
    let want = len.min(u32::MAX as usize) as u32;
    let Some(piece) = stream.out.take(want, stream.inline) else {
        return Ok(0);
    };
    let (to, message) = ((piece.addr, piece.key), Message::Data(piece.len));
    // SAFETY: the caller's promise.
    unsafe { stream.post_bytes(from, skip, piece.len, piece.span, to, Some(message)) }?;
    Ok(piece.len as usize)
}

/// Tells the other side of new mappings, before anything else is sent (RS-4).
fn tell_mappings<'a>(
    socket: &'a Rsocket,
    mut inner: MutexGuard<'a, Inner>,
    flags: c_int,
) -> Call<MutexGuard<'a, Inner>> {
    while inner.stream()?.iomaps.news().is_some() {
        inner = ready(socket, inner, flags)?;
        let stream = inner.stream()?;
        let (Some((addr, key, index, map)), inline) = (stream.iomaps.news(), stream.inline) else {
            continue;
        };
        let mut bytes = map.to_host(stream.is_swapped());
        let from = [piece(bytes.as_mut_ptr().cast(), bytes.len())];
        if let Some((len, span)) = stream.out.take_direct(bytes.len() as u32, inline, true) {
            let message = Some(Message::Iomap(index));
            // SAFETY: bytes of this function; a stream that is ready has room for all of them.
            unsafe { stream.post_bytes(&from, 0, len, span, (addr, key), message) }?;
            stream.iomaps.told();
        }
    }
    Ok(inner)
}

/// A count of bytes as C returns it.
fn counted(done: usize) -> isize {
    done as isize
}

/// rrecv, rread.
///
/// # Safety
/// As the manual page says.
pub unsafe fn rrecv(fd: c_int, buf: *mut c_void, len: usize, flags: c_int) -> Call<isize> {
    receive(fd, &[piece(buf, len)], flags).map(counted)
}

/// rrecvfrom.
///
/// # Safety
/// As the manual page says.
pub unsafe fn rrecvfrom(
    fd: c_int,
    buf: *mut c_void,
    len: usize,
    flags: c_int,
    addr: *mut sockaddr,
    addr_len: *mut socklen_t,
) -> Call<isize> {
    let socket = find(fd)?;
    if socket.is_datagram && flags & ABSENT_FLAGS == 0 {
        let into = [piece(buf, len)];
        total(&into)?;
        let (got, from) = receive_datagram(&socket, &into, flags)?;
        if !addr.is_null() && !addr_len.is_null() {
            // SAFETY: the caller's promise.
            unsafe { super::options::put_name(&socket, from, addr, addr_len) }?;
        }
        return Ok(counted(got.min(len)));
    }
    let done = receive(fd, &[piece(buf, len)], flags)?;
    if !addr.is_null() && !addr_len.is_null() {
        // SAFETY: the caller's promise.
        unsafe { super::options::name(fd, addr, addr_len, true) }?;
    }
    Ok(counted(done))
}

/// rreadv.
///
/// # Safety
/// As the manual page says.
pub unsafe fn rreadv(fd: c_int, iov: *const libc::iovec, count: c_int) -> Call<isize> {
    let count = usize::try_from(count).map_err(|_| EINVAL)?;
    // SAFETY: the caller's promise.
    receive(fd, unsafe { pieces(iov, count) }?, 0).map(counted)
}

/// rrecvmsg: without control messages.
///
/// # Safety
/// As the manual page says.
pub unsafe fn rrecvmsg(fd: c_int, msg: *mut libc::msghdr, flags: c_int) -> Call<isize> {
    // SAFETY: the program's structure, or NULL.
    let msg = unsafe { msg.as_mut() }.ok_or(EFAULT)?;
    // SAFETY: as above.
    let into = unsafe { pieces(msg.msg_iov, msg.msg_iovlen) }?;
    let socket = find(fd)?;
    if socket.is_datagram && flags & ABSENT_FLAGS == 0 {
        let want = total(into)?;
        let (got, from) = receive_datagram(&socket, into, flags)?;
        (msg.msg_controllen, msg.msg_flags) = (0, if got > want { libc::MSG_TRUNC } else { 0 });
        if !msg.msg_name.is_null() {
            // SAFETY: as above.
            unsafe { super::options::put_name(&socket, from, msg.msg_name.cast(), &mut msg.msg_namelen) }?;
        }
        return Ok(counted(got.min(want)));
    }
    let done = receive(fd, into, flags)?;
    (msg.msg_controllen, msg.msg_flags) = (0, 0);
    if !msg.msg_name.is_null() {
        // SAFETY: as above.
        unsafe { super::options::name(fd, msg.msg_name.cast(), &mut msg.msg_namelen, true) }?;
    }
    Ok(counted(done))
}

/// rsend, rwrite.
///
/// # Safety
/// As the manual page says.
pub unsafe fn rsend(fd: c_int, buf: *const c_void, len: usize, flags: c_int) -> Call<isize> {
    send(fd, &[piece(buf.cast_mut(), len)], flags).map(counted)
}

/// rsendto: of a stream, to nobody else.
///
/// # Safety
/// As the manual page says.
pub unsafe fn rsendto(
    fd: c_int,
    buf: *const c_void,
    len: usize,
    flags: c_int,
    addr: *const sockaddr,
    addr_len: socklen_t,
) -> Call<isize> {
    let socket = find(fd)?;
    if socket.is_datagram && !addr.is_null() {
        let from = [piece(buf.cast_mut(), len)];
        // SAFETY: the caller's promise.
        let to = unsafe { connect::given(addr, addr_len, socket.domain) }?;
        if flags & ABSENT_FLAGS != 0 {
            return Err(Errno(libc::EOPNOTSUPP));
        }
        let len = total(&from)?;
        return send_datagram(&socket, &from, len, flags, to).map(counted);
    }
    if !addr.is_null() || addr_len != 0 {
        return Err(Errno(libc::EISCONN));
    }
    // SAFETY: the caller's promise.
    unsafe { rsend(fd, buf, len, flags) }
}

/// rwritev.
///
/// # Safety
/// As the manual page says.
pub unsafe fn rwritev(fd: c_int, iov: *const libc::iovec, count: c_int) -> Call<isize> {
    let count = usize::try_from(count).map_err(|_| EINVAL)?;
    // SAFETY: the caller's promise.
    send(fd, unsafe { pieces(iov, count) }?, 0).map(counted)
}

/// rsendmsg: without control messages.
///
/// # Safety
/// As the manual page says.
pub unsafe fn rsendmsg(fd: c_int, msg: *const libc::msghdr, flags: c_int) -> Call<isize> {
    // SAFETY: the program's structure, or NULL.
    let msg = unsafe { msg.as_ref() }.ok_or(EFAULT)?;
    if !msg.msg_control.is_null() && msg.msg_controllen > 0 {
        return Err(Errno(libc::EOPNOTSUPP));
    }
    // SAFETY: as above.
    let from = unsafe { pieces(msg.msg_iov, msg.msg_iovlen) }?;
    let socket = find(fd)?;
    if socket.is_datagram && !msg.msg_name.is_null() && flags & ABSENT_FLAGS == 0 {
        // SAFETY: as above.
        let to = unsafe { connect::given(msg.msg_name.cast(), msg.msg_namelen, socket.domain) }?;
        return send_datagram(&socket, from, total(from)?, flags, to).map(counted);
    }
    send(fd, from, flags).map(counted)
}

/// riomap (RS-4).
///
/// # Safety
/// As the manual page says.
pub unsafe fn riomap(
    fd: c_int,
    buf: *mut c_void,
    len: usize,
    prot: c_int,
    flags: c_int,
    offset: libc::off_t,
) -> Call<libc::off_t> {
    let socket = find(fd)?;
    if prot & !(libc::PROT_WRITE | libc::PROT_NONE) != 0 || flags != 0 {
        return Err(EINVAL);
    }
    let inner = socket.lock();
    let mut inner = match inner.stage {
        // A connection that is on its way is there soon, and the program has nothing to ask for it again by.
        Stage::Connected | Stage::Opening { .. } => finish(&socket, inner, true)?,
        _ => return Err(EINVAL),
    };
    let stream = inner.stream()?;
    let pd = stream.pd();
    // SAFETY: the caller's promise.
    unsafe {
        stream
            .iomaps
            .map(pd, buf, len, prot & libc::PROT_WRITE != 0, offset)
    }
}

/// riounmap.
pub fn riounmap(fd: c_int, buf: *mut c_void, len: usize) -> Call<()> {
    find(fd)?
        .lock()
        .stream()
        .map_err(|_| EINVAL)?
        .iomaps
        .unmap(buf, len)
}

/// riowrite (RS-5): EFAULT where nothing is mapped.
///
/// # Safety
/// As the manual page says.
pub unsafe fn riowrite(
    fd: c_int,
    buf: *const c_void,
    len: usize,
    offset: libc::off_t,
    flags: c_int,
) -> Call<isize> {
    let socket = find(fd)?;
    if flags & ABSENT_FLAGS != 0 {
        return Err(Errno(libc::EOPNOTSUPP));
    }
    let from = [piece(buf.cast_mut(), len)];
    total(&from)?;
    let mut inner = connected(&socket, flags)?;
    inner = tell_mappings(&socket, inner, flags)?;
    let mut done = 0;
    while done < len {
        let result = ready(&socket, inner, flags).and_then(|mut inner| {
            let stream = inner.stream()?;
            let at = (offset as u64).wrapping_add(done as u64);
            let (addr, key, left) = stream.iomaps.find(at).ok_or(EFAULT)?;
            let want = (len - done).min(left as usize) as u32;
            let Some((len, span)) = stream.out.take_direct(want, stream.inline, false) else {
                return Ok((inner, 0));
            };
            // SAFETY: the program's memory, as long as it says.
            unsafe { stream.post_bytes(&from, done, len, span, (addr, key), None) }?;
            Ok((inner, len as usize))
        });
        match result {
            Ok((again, len)) => {
                inner = again;
                done += len;
            }
            Err(_) if done > 0 => break,
            Err(errno) => return Err(errno),
        }
    }
    Ok(counted(done))
}
