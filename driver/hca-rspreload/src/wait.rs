//! poll, select and theirs with signals: rsockets and other descriptors in one list.

use std::cell::Cell;
use std::ffi::c_int;

use crate::rdma;
use crate::real::{self, fail};
use crate::table::{Behind, behind};

type Set = *mut libc::fd_set;

const READ: i16 = libc::POLLIN | libc::POLLHUP | libc::POLLERR;
const WRITE: i16 = libc::POLLOUT | libc::POLLERR;

fn is_ours(fd: c_int) -> bool {
    matches!(behind(fd), Behind::Rsocket(_) | Behind::Both(_))
}

/// The program's list as rsockets know it, and which entry each of theirs belongs to.
fn translate(fds: &[libc::pollfd]) -> (Vec<libc::pollfd>, Vec<usize>) {
    let (mut list, mut of) = (Vec::new(), Vec::new());
    for (at, entry) in fds.iter().enumerate() {
        let mut add = |fd: c_int| {
            list.push(libc::pollfd {
                fd,
                events: entry.events,
                revents: 0,
            });
            of.push(at);
        };
        match behind(entry.fd) {
            Behind::Rsocket(rsocket) => add(rsocket),
            Behind::Both(rsocket) => {
                add(rsocket);
                add(entry.fd);
            }
            _ => add(entry.fd),
        }
    }
    (list, of)
}

thread_local! {
    /// rpoll calls poll for what is the kernel's in a list, and that may have an rsocket beside it.
    static IS_INSIDE: Cell<bool> = const { Cell::new(false) };
}

/// poll(2) with rsockets among the entries.
pub fn wait(fds: &mut [libc::pollfd], timeout_ms: c_int) -> c_int {
    let (mut list, of) = translate(fds);
    // SAFETY: live entries, as many as named.
    let done = inside(|| unsafe { rdma::rpoll(list.as_mut_ptr(), list.len() as libc::nfds_t, timeout_ms) });
    if done < 0 {
        return -1;
    }
    for entry in fds.iter_mut() {
        entry.revents = 0;
    }
    for (entry, at) in list.iter().zip(of) {
        fds[at].revents |= entry.revents;
    }
    fds.iter().filter(|entry| entry.revents != 0).count() as c_int
}

/// A call of rsockets' whose own polls are the kernel's.
pub fn inside<T>(call: impl FnOnce() -> T) -> T {
    IS_INSIDE.set(true);
    let done = call();
    IS_INSIDE.set(false);
    done
}

/// The program's entries, if rsockets are among them.
///
/// # Safety
/// As many as it says.
unsafe fn entries<'a>(fds: *mut libc::pollfd, count: libc::nfds_t) -> Option<&'a mut [libc::pollfd]> {
    if fds.is_null() || count > 1 << 20 || IS_INSIDE.get() {
        return None;
    }
    // SAFETY: the caller's promise.
    let fds = unsafe { std::slice::from_raw_parts_mut(fds, count as usize) };
    fds.iter().any(|entry| is_ours(entry.fd)).then_some(fds)
}

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn poll(fds: *mut libc::pollfd, count: libc::nfds_t, timeout_ms: c_int) -> c_int {
    // SAFETY: as the program calls it.
    unsafe {
        match entries(fds, count) {
            Some(fds) => wait(fds, timeout_ms),
            None => real::poll(fds, count, timeout_ms),
        }
    }
}

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn __poll_chk(
    fds: *mut libc::pollfd,
    count: libc::nfds_t,
    timeout_ms: c_int,
    size: usize,
) -> c_int {
    if size / size_of::<libc::pollfd>() < count as usize {
        std::process::abort();
    }
    // SAFETY: as the program calls it.
    unsafe { poll(fds, count, timeout_ms) }
}

/// Milliseconds of a time, up to the next one; -1: without end.
///
/// # Safety
/// A structure, or NULL.
unsafe fn milliseconds(time: *const libc::timespec) -> c_int {
    // SAFETY: the caller's promise.
    match unsafe { time.as_ref() } {
        None => -1,
        Some(time) => {
            let part = (time.tv_nsec as u64).div_ceil(1_000_000) as i64;
            time.tv_sec
                .saturating_mul(1000)
                .saturating_add(part)
                .clamp(0, i32::MAX.into()) as c_int
        }
    }
}

/// With other signals blocked meanwhile. Not in one step, as the kernel has it.
pub fn masked<T>(signals: *const libc::sigset_t, call: impl FnOnce() -> T) -> T {
    if signals.is_null() {
        return call();
    }
    // SAFETY: the program's set, and one of this function; all zero is one to write to.
    let mut old: libc::sigset_t = unsafe { std::mem::zeroed() };
    // SAFETY: as above.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, signals, &mut old) };
    let done = call();
    let why = real::errno();
    // SAFETY: as above.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &old, std::ptr::null_mut()) };
    fail(why);
    done
}

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn ppoll(
    fds: *mut libc::pollfd,
    count: libc::nfds_t,
    timeout: *const libc::timespec,
    signals: *const libc::sigset_t,
) -> c_int {
    // SAFETY: as the program calls it.
    unsafe {
        match entries(fds, count) {
            Some(fds) => masked(signals, || wait(fds, milliseconds(timeout))),
            None => real::ppoll(fds, count, timeout, signals),
        }
    }
}

/// Is a descriptor in a set?
fn is_in(fd: c_int, set: Set) -> bool {
    // SAFETY: the program's set, or NULL; the number is below its size.
    !set.is_null() && unsafe { libc::FD_ISSET(fd, set) }
}

fn has_ours(count: c_int, sets: [Set; 3]) -> bool {
    (0..count.clamp(0, libc::FD_SETSIZE as c_int))
        .any(|fd| is_ours(fd) && sets.iter().any(|set| is_in(fd, *set)))
}

/// select(2) with rsockets in the sets.
fn select_ours(count: c_int, sets: [Set; 3], timeout_ms: c_int) -> c_int {
    let kinds = [
        (libc::POLLIN, READ),
        (libc::POLLOUT, WRITE),
        (libc::POLLPRI, libc::POLLPRI),
    ];
    let mut fds = Vec::new();
    for fd in 0..count.min(libc::FD_SETSIZE as c_int) {
        let asked = sets.iter().zip(kinds).filter(|(set, _)| is_in(fd, **set));
        let events = asked.fold(0, |events, (_, (event, _))| events | event);
        if events != 0 {
            fds.push(libc::pollfd {
                fd,
                events,
                revents: 0,
            });
        }
    }
    if wait(&mut fds, timeout_ms) < 0 {
        return -1;
    }
    if fds.iter().any(|entry| entry.revents & libc::POLLNVAL != 0) {
        return fail(libc::EBADF);
    }
    let mut found = 0;
    for (set, (event, meaning)) in sets.into_iter().zip(kinds) {
        if set.is_null() {
            continue;
        }
        // SAFETY: the program's set.
        unsafe { libc::FD_ZERO(set) };
        for entry in fds
            .iter()
            .filter(|entry| entry.events & event != 0 && entry.revents & meaning != 0)
        {
            // SAFETY: as above.
            unsafe { libc::FD_SET(entry.fd, set) };
            found += 1;
        }
    }
    found
}

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn select(
    count: c_int,
    read: Set,
    write: Set,
    except: Set,
    timeout: *mut libc::timeval,
) -> c_int {
    let sets = [read, write, except];
    if !has_ours(count, sets) {
        // SAFETY: as the program calls it.
        return unsafe { real::select(count, read, write, except, timeout) };
    }
    // SAFETY: the program's structure, or NULL.
    let time = unsafe { timeout.as_ref() }.map(|time| libc::timespec {
        tv_sec: time.tv_sec,
        tv_nsec: time.tv_usec.saturating_mul(1000),
    });
    // SAFETY: live or NULL.
    let limit = unsafe { milliseconds(time.as_ref().map_or(std::ptr::null(), |time| time)) };
    select_ours(count, sets, limit)
}

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn pselect(
    count: c_int,
    read: Set,
    write: Set,
    except: Set,
    timeout: *const libc::timespec,
    signals: *const libc::sigset_t,
) -> c_int {
    let sets = [read, write, except];
    if !has_ours(count, sets) {
        // SAFETY: as the program calls it.
        return unsafe { real::pselect(count, read, write, except, timeout, signals) };
    }
    // SAFETY: the program's structure, or NULL.
    let limit = unsafe { milliseconds(timeout) };
    masked(signals, || select_ours(count, sets, limit))
}
