//! epoll with rsockets in it: the kernel's set for the kernel's descriptors, and a list beside it for rsockets.
//!
//! Who asks for edges is told again of what it was told of before, when it has used the descriptor since. That is more
//! often than the kernel would, never less.

use std::collections::HashMap;
use std::ffi::c_int;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::rdma;
use crate::real::{self, fail};
use crate::table::{Behind, behind};
use crate::wait::{inside, masked};

/// A descriptor in a set.
#[derive(Clone, Copy)]
struct Watch {
    fd: c_int,
    events: u32,
    data: u64,
    /// What was told of an edge.
    told: u32,
    /// EPOLLONESHOT: told once, and silent until it is asked for again.
    is_silent: bool,
}

type Sets = HashMap<c_int, Vec<Watch>>;

static SETS: LazyLock<Mutex<Sets>> = LazyLock::new(Mutex::default);
/// Has anything ever been in it? Most programs need not lock.
static IS_USED: AtomicBool = AtomicBool::new(false);

const EDGES: u32 = libc::EPOLLET as u32;
const ONCE: u32 = libc::EPOLLONESHOT as u32;
const ALWAYS: u32 = (libc::EPOLLERR | libc::EPOLLHUP) as u32;
/// Events that poll(2) has, by the same bits.
const EVENTS: u32 = (libc::EPOLLIN | libc::EPOLLOUT | libc::EPOLLPRI | libc::EPOLLRDHUP) as u32 | ALWAYS;

fn sets() -> MutexGuard<'static, Sets> {
    SETS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A descriptor is closed.
pub fn forget(fd: c_int) {
    if IS_USED.load(Ordering::Relaxed) {
        let mut sets = sets();
        sets.remove(&fd);
        sets.values_mut()
            .for_each(|set| set.retain(|watch| watch.fd != fd));
    }
}

/// A rsocket stands behind a descriptor now: the kernel has nothing to say of it.
pub fn moved(fd: c_int) {
    if IS_USED.load(Ordering::Relaxed) {
        let sets = sets();
        for (set, _) in sets
            .iter()
            .filter(|(_, set)| set.iter().any(|watch| watch.fd == fd))
        {
            // SAFETY: no pointers. One that is not in the kernel's set stays out.
            unsafe { real::epoll_ctl(*set, libc::EPOLL_CTL_DEL, fd, std::ptr::null_mut()) };
        }
    }
}

/// A descriptor was used: what is there now is news.
pub fn used(fd: c_int, event: u32) {
    if IS_USED.load(Ordering::Relaxed) {
        let mut sets = sets();
        let all = sets.values_mut().flatten().filter(|watch| watch.fd == fd);
        all.for_each(|watch| watch.told &= !event);
    }
}

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn epoll_ctl(
    set: c_int,
    op: c_int,
    fd: c_int,
    event: *mut libc::epoll_event,
) -> c_int {
    let found = behind(fd);
    if found != Behind::Kernel {
        // SAFETY: the program's structure, or NULL.
        let event = unsafe { event.as_ref() };
        let done = note(set, op, fd, event);
        if let Behind::Rsocket(_) = found {
            return match done {
                Ok(()) => 0,
                Err(errno) => fail(errno),
            };
        }
    }
    // SAFETY: as the program calls it.
    unsafe { real::epoll_ctl(set, op, fd, event) }
}

fn note(set: c_int, op: c_int, fd: c_int, event: Option<&libc::epoll_event>) -> Result<(), c_int> {
    IS_USED.store(true, Ordering::Relaxed);
    let mut sets = sets();
    let watches = sets.entry(set).or_default();
    let at = watches.iter().position(|watch| watch.fd == fd);
    let new = || {
        let event = event.ok_or(libc::EFAULT)?;
        Ok::<Watch, c_int>(Watch {
            fd,
            events: event.events,
            data: event.u64,
            told: 0,
            is_silent: false,
        })
    };
    match (op, at) {
        (libc::EPOLL_CTL_ADD, None) => watches.push(new()?),
        (libc::EPOLL_CTL_MOD, Some(at)) => watches[at] = new()?,
        (libc::EPOLL_CTL_DEL, Some(at)) => drop(watches.swap_remove(at)),
        (libc::EPOLL_CTL_ADD, Some(_)) => return Err(libc::EEXIST),
        (libc::EPOLL_CTL_MOD | libc::EPOLL_CTL_DEL, None) => return Err(libc::ENOENT),
        _ => return Err(libc::EINVAL),
    }
    Ok(())
}

/// The rsockets of a set of which there may be news, with what to ask of them.
fn ours(set: c_int) -> Vec<(Watch, libc::pollfd)> {
    let sets = sets();
    let watches = sets.get(&set).map_or(&[][..], Vec::as_slice);
    let asked = |watch: &Watch| {
        let (Behind::Rsocket(fd) | Behind::Both(fd)) = behind(watch.fd) else {
            return None;
        };
        let silent = watch.is_silent || watch.told & ALWAYS != 0;
        let events = watch.events & EVENTS & !watch.told;
        (!silent).then_some((
            *watch,
            libc::pollfd {
                fd,
                events: events as i16,
                revents: 0,
            },
        ))
    };
    watches.iter().filter_map(asked).collect()
}

/// Tells of a watch; what is remembered of that.
fn tell(set: c_int, fd: c_int, found: u32) {
    let mut sets = sets();
    let watches = sets.get_mut(&set).into_iter().flatten();
    for watch in watches.filter(|watch| watch.fd == fd) {
        if watch.events & EDGES != 0 {
            watch.told |= found;
        }
        watch.is_silent |= watch.events & ONCE != 0;
    }
}

/// epoll_wait(2) with rsockets in the set.
///
/// # Safety
/// Room for as many events as it says.
unsafe fn wait(set: c_int, events: *mut libc::epoll_event, max: c_int, timeout_ms: c_int) -> c_int {
    let until = u64::try_from(timeout_ms)
        .ok()
        .map(|ms| Instant::now() + Duration::from_millis(ms));
    loop {
        let ours = ours(set);
        let mut list = vec![libc::pollfd {
            fd: set,
            events: libc::POLLIN,
            revents: 0,
        }];
        list.extend(ours.iter().map(|(_, poll)| *poll));
        let left = until.map_or(-1, |until| {
            let left = until.saturating_duration_since(Instant::now());
            left.as_micros().div_ceil(1000).min(i32::MAX as u128) as c_int
        });
        // SAFETY: live entries, as many as named.
        let done = inside(|| unsafe { rdma::rpoll(list.as_mut_ptr(), list.len() as libc::nfds_t, left) });
        if done < 0 {
            return -1;
        }
        let mut count = 0;
        for ((watch, _), poll) in ours.iter().zip(&list[1..]) {
            let found = poll.revents as u16 as u32 & (watch.events | ALWAYS) & EVENTS;
            if found != 0 && count < max {
                let event = libc::epoll_event {
                    events: found,
                    u64: watch.data,
                };
                // SAFETY: the caller's promise.
                unsafe { events.add(count as usize).write_unaligned(event) };
                tell(set, watch.fd, found);
                count += 1;
            }
        }
        if list[0].revents != 0 && count < max {
            // SAFETY: as above.
            let more = unsafe { real::epoll_wait(set, events.add(count as usize), max - count, 0) };
            if more < 0 && count == 0 {
                return -1;
            }
            count += more.max(0);
        }
        if count > 0 || left == 0 {
            return count;
        }
    }
}

fn has_ours(set: c_int) -> bool {
    IS_USED.load(Ordering::Relaxed) && !ours(set).is_empty()
}

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn epoll_wait(
    set: c_int,
    events: *mut libc::epoll_event,
    max: c_int,
    timeout_ms: c_int,
) -> c_int {
    // SAFETY: as the program calls it.
    unsafe {
        match has_ours(set) && !events.is_null() && max > 0 {
            true => wait(set, events, max, timeout_ms),
            false => real::epoll_wait(set, events, max, timeout_ms),
        }
    }
}

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn epoll_pwait(
    set: c_int,
    events: *mut libc::epoll_event,
    max: c_int,
    timeout_ms: c_int,
    signals: *const libc::sigset_t,
) -> c_int {
    // SAFETY: as the program calls it.
    unsafe {
        match has_ours(set) && !events.is_null() && max > 0 {
            true => masked(signals, || wait(set, events, max, timeout_ms)),
            false => real::epoll_pwait(set, events, max, timeout_ms, signals),
        }
    }
}
