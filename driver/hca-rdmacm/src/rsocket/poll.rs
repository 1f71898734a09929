//! rpoll and rselect: sockets of this library and other descriptors in one list (RS-6).

use std::ffi::c_int;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::config::Config;
use super::connect::finish;
use super::socket::{EAGAIN, Inner, Rsocket, Stage, find};
use super::waits::{Bell, readable, sleep};
use crate::errno::{Call, EINVAL, Errno};

/// An entry of the program's list.
enum Entry {
    Ours(Arc<Rsocket>),
    Other,
}

/// What a socket has to say of what is asked for.
fn state_of(socket: &Rsocket, events: i16) -> i16 {
    let mut inner = socket.lock();
    if let Stage::Opening { .. } = inner.stage {
        match finish(socket, inner, false) {
            Ok(again) => inner = again,
            Err(errno) => {
                inner = socket.lock();
                // Who asks by SO_ERROR shall hear of it.
                if errno != EAGAIN {
                    inner.error = Some(errno);
                }
            }
        }
    }
    if socket.is_datagram {
        socket.process(&mut inner);
        return of_datagrams(&mut inner, events);
    }
    match inner.stage {
        Stage::Opening { .. } => 0,
        // As of sockets that are neither connected nor listen.
        Stage::Idle | Stage::Bound => events & libc::POLLOUT | libc::POLLHUP,
        Stage::Failed => events & (libc::POLLIN | libc::POLLOUT) | libc::POLLERR | libc::POLLHUP,
        Stage::Listening => {
            let mut poll = [readable(socket.cm_fd())];
            let waits = sleep(&mut poll, Some(Instant::now())).is_ok_and(|count| count > 0);
            if waits { events & libc::POLLIN } else { 0 }
        }
        Stage::Connected => {
            socket.process(&mut inner);
            of_stream(&inner, events)
        }
    }
}

/// What is not bound yet can send: that binds it.
fn of_datagrams(inner: &mut Inner, events: i16) -> i16 {
    let datagrams = inner.datagrams.as_mut();
    let (can_read, can_write) = datagrams.map_or((false, true), |datagrams| {
        (datagrams.is_there(), datagrams.can_send_any())
    });
    let found = [(can_read, libc::POLLIN), (can_write, libc::POLLOUT)];
    found
        .iter()
        .filter(|(is_so, _)| *is_so)
        .fold(0, |all, (_, event)| all | event)
        & events
}

fn of_stream(inner: &Inner, events: i16) -> i16 {
    let Some(stream) = &inner.stream else {
        return libc::POLLERR;
    };
    let mut found = 0;
    if stream.incoming.unread() > 0 || !stream.can_read {
        found |= libc::POLLIN;
    }
    if !stream.can_read {
        found |= libc::POLLRDHUP;
    }
    // A send that fails does not wait.
    if stream.out.is_ready() || !stream.can_write {
        found |= libc::POLLOUT;
    }
    found &= events;
    // The end comes behind what has not been read: some programs look at nothing else.
    if !stream.is_open && stream.incoming.unread() == 0 {
        found |= libc::POLLHUP;
    }
    if stream.has_failed() {
        found |= libc::POLLERR;
    }
    found
}

/// Looks at every entry once. How many have something to say?
fn look(fds: &mut [libc::pollfd], entries: &[Entry]) -> Call<usize> {
    let mut others = hca_room::copied(fds)?;
    for (entry, fd) in entries.iter().zip(&mut others) {
        // poll(2) ignores what is negative.
        if let Entry::Ours(_) = entry {
            fd.fd = -1;
        }
    }
    sleep(&mut others, Some(Instant::now()))?;
    let mut count = 0;
    for ((entry, fd), other) in entries.iter().zip(fds.iter_mut()).zip(&others) {
        fd.revents = match entry {
            Entry::Ours(socket) => state_of(socket, fd.events),
            Entry::Other => other.revents,
        };
        count += usize::from(fd.revents != 0);
    }
    Ok(count)
}

/// Has every stream say when something happens; what to wait for.
fn arm(fds: &[libc::pollfd], entries: &[Entry], bell: &Bell, wake: &mut Instant) -> Call<Vec<libc::pollfd>> {
    let mut list = Vec::new();
    // A stream has two descriptors, everything else one.
    hca_room::reserve(&mut list, 1 + 2 * fds.len())?;
    list.push(readable(bell.0));
    for (entry, fd) in entries.iter().zip(fds) {
        match entry {
            Entry::Other => list.push(libc::pollfd { revents: 0, ..*fd }),
            Entry::Ours(socket) => {
                let mut inner = socket.lock();
                socket.watch(&mut inner, bell.0, true);
                let is_ready = socket.is_datagram || inner.stage == Stage::Connected;
                match inner.transport().filter(|_| is_ready) {
                    Some(transport) => {
                        transport.arm();
                        *wake = transport.look_again().map_or(*wake, |again| again.min(*wake));
                        list.extend(transport.polls());
                    }
                    None => list.push(readable(socket.cm_fd())),
                }
            }
        }
    }
    Ok(list)
}

/// What has been heard is taken, and nobody is told any more.
fn disarm(entries: &[Entry], bell: &Bell) {
    for entry in entries {
        if let Entry::Ours(socket) = entry {
            let mut inner = socket.lock();
            socket.watch(&mut inner, bell.0, false);
            if let Some(transport) = inner.transport() {
                transport.disarm();
            }
        }
    }
    bell.hush();
}

/// rpoll.
///
/// # Safety
/// As many entries as it says.
pub unsafe fn rpoll(fds: *mut libc::pollfd, count: libc::nfds_t, timeout_ms: c_int) -> Call<c_int> {
    let count = usize::try_from(count).map_err(|_| EINVAL)?;
    let fds = match (fds.is_null(), count) {
        (_, 0) => &mut [],
        (true, _) => return Err(Errno(libc::EFAULT)),
        // SAFETY: the caller's promise.
        _ => unsafe { std::slice::from_raw_parts_mut(fds, count) },
    };
    let limit = (timeout_ms >= 0).then(|| Duration::from_millis(timeout_ms as u64));
    wait(fds, limit).map(|count| count as c_int)
}

fn wait(fds: &mut [libc::pollfd], limit: Option<Duration>) -> Call<usize> {
    let begin = Instant::now();
    let until = limit.and_then(|limit| begin.checked_add(limit));
    let entry = |fd: &libc::pollfd| find(fd.fd).map_or(Entry::Other, Entry::Ours);
    let entries = hca_room::slice(fds.len(), |at| entry(&fds[at]))?;
    let config = Config::of_machine();
    let patience = Duration::from_micros(config.polling_us.into());
    loop {
        let found = look(fds, &entries)?;
        if found > 0 || until.is_some_and(|until| until <= Instant::now()) {
            return Ok(found);
        }
        if begin.elapsed() >= patience {
            break;
        }
    }
    let bell = Bell::new()?;
    loop {
        let mut wake = Instant::now() + Duration::from_millis(config.wake_up_ms.max(1).into());
        let mut list = arm(fds, &entries, &bell, &mut wake)?;
        // What has come before it was armed is not heard of.
        let found = look(fds, &entries);
        let result = match found {
            Ok(0) => sleep(&mut list, Some(until.map_or(wake, |until| until.min(wake)))).map(drop),
            Ok(_) => Ok(()),
            Err(errno) => Err(errno),
        };
        disarm(&entries, &bell);
        result?;
        let found = look(fds, &entries)?;
        if found > 0 || until.is_some_and(|until| until <= Instant::now()) {
            return Ok(found);
        }
    }
}

/// rselect.
///
/// # Safety
/// As the manual page says.
pub unsafe fn rselect(
    count: c_int,
    sets: [*mut libc::fd_set; 3],
    timeout: *mut libc::timeval,
) -> Call<c_int> {
    if !(0..=libc::FD_SETSIZE as c_int).contains(&count) {
        return Err(EINVAL);
    }
    // SAFETY: the program's structure, or NULL.
    let limit = match unsafe { timeout.as_ref() } {
        None => None,
        Some(time) if time.tv_sec < 0 || time.tv_usec < 0 => return Err(EINVAL),
        Some(time) => {
            Some(Duration::from_secs(time.tv_sec as u64) + Duration::from_micros(time.tv_usec as u64))
        }
    };
    const EVENTS: [i16; 3] = [libc::POLLIN, libc::POLLOUT, libc::POLLPRI];
    let mut fds = Vec::new();
    for fd in 0..count {
        let mut events = 0;
        for (set, event) in sets.iter().zip(EVENTS) {
            // SAFETY: the program's sets, or NULL; the number is below their size.
            if !set.is_null() && unsafe { libc::FD_ISSET(fd, *set) } {
                events |= event;
            }
        }
        if events != 0 {
            fds.push(libc::pollfd {
                fd,
                events,
                revents: 0,
            });
        }
    }
    wait(&mut fds, limit)?;
    if fds.iter().any(|fd| fd.revents & libc::POLLNVAL != 0) {
        return Err(super::socket::EBADF);
    }
    // What each set stands for, as Linux has it.
    let meaning = [
        libc::POLLIN | libc::POLLHUP | libc::POLLERR,
        libc::POLLOUT | libc::POLLERR,
        libc::POLLPRI,
    ];
    let mut found = 0;
    for ((set, event), meaning) in sets.iter().zip(EVENTS).zip(meaning) {
        if set.is_null() {
            continue;
        }
        // SAFETY: the program's set.
        unsafe { libc::FD_ZERO(*set) };
        for fd in fds
            .iter()
            .filter(|fd| fd.events & event != 0 && fd.revents & meaning != 0)
        {
            // SAFETY: as above.
            unsafe { libc::FD_SET(fd.fd, *set) };
            found += 1;
        }
    }
    Ok(found)
}
