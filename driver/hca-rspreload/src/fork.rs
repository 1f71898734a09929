//! What becomes of connections when a program forks (RS-6).
//!
//! A card belongs to the process that has opened it, so a child cannot use its parent's rsockets. With RDMAV_FORK_SAFE
//! in the environment, a fork turns every connection into one end of a pair of ordinary sockets, which parent and child
//! can both use, and threads of the parent carry the bytes between the other end and the rsocket. It ends when all who
//! have the descriptor have closed it; a parent that exits before waits for that. One that is killed takes the
//! connection with it. Without the variable a child's descriptors are sockets that are not connected.

use std::collections::HashMap;
use std::ffi::c_int;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, LazyLock, Mutex, Once, PoisonError, TryLockError};

use crate::rdma;
use crate::real;
use crate::table;

const BUFFER: usize = 64 << 10;

/// An address, as C writes it.
#[derive(Clone, Copy)]
struct Name {
    bytes: libc::sockaddr_storage,
    len: libc::socklen_t,
}

/// Names of both ends of what was a connection of ours: own, and the peer's.
static NAMES: LazyLock<Mutex<HashMap<c_int, [Name; 2]>>> = LazyLock::new(Mutex::default);
static HAS_NAMES: AtomicBool = AtomicBool::new(false);

/// Connections that are carried, and who waits for their end.
static CARRIED: (Mutex<usize>, Condvar) = (Mutex::new(0), Condvar::new());

/// Before the first socket: hears of forks.
pub fn prepare_once() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        table::adopt();
        // SAFETY: functions that live as long as the process.
        unsafe { libc::pthread_atfork(Some(before), None, Some(table_of_child)) };
    });
}

unsafe extern "C" fn table_of_child() {
    table::adopt();
}

/// The process exits: what its children have sent shall arrive.
extern "C" fn before_exit() {
    let own = lock_names(|names| names.drain().map(|(fd, _)| fd).collect::<Vec<_>>());
    if !table::is_owner() {
        return;
    }
    for fd in own.unwrap_or_default() {
        // SAFETY: no pointers. The program has no use for it any more.
        unsafe { real::close(fd) };
    }
    let mut count = CARRIED.0.lock().unwrap_or_else(PoisonError::into_inner);
    while *count > 0 {
        count = CARRIED.1.wait(count).unwrap_or_else(PoisonError::into_inner);
    }
}

unsafe extern "C" fn before() {
    let is_asked = ["RDMAV_FORK_SAFE", "IBV_FORK_SAFE"]
        .iter()
        .any(|name| std::env::var_os(name).is_some());
    if !is_asked || !table::has_rsockets() {
        return;
    }
    let mut seen: HashMap<c_int, Vec<c_int>> = HashMap::new();
    for (fd, rsocket) in table::connected() {
        seen.entry(rsocket).or_default().push(fd);
    }
    for (rsocket, fds) in seen {
        relay(rsocket, &fds);
    }
}

/// A name of a connected rsocket.
fn name_of(rsocket: c_int, of_peer: bool) -> Option<Name> {
    let mut name = Name {
        // SAFETY: all-zero addresses are valid.
        bytes: unsafe { std::mem::zeroed() },
        len: size_of::<libc::sockaddr_storage>() as libc::socklen_t,
    };
    // SAFETY: room for any address.
    let done = unsafe {
        let get = if of_peer {
            rdma::rgetpeername
        } else {
            rdma::rgetsockname
        };
        get(rsocket, (&raw mut name.bytes).cast(), &mut name.len)
    };
    (done == 0).then_some(name)
}

/// Puts a pair of sockets between an rsocket and its descriptors.
fn relay(rsocket: c_int, fds: &[c_int]) {
    // One that is not connected, or listens, stays the parent's.
    let (Some(own), Some(peer)) = (name_of(rsocket, false), name_of(rsocket, true)) else {
        return;
    };
    let mut pair = [0; 2];
    // SAFETY: room for two.
    if unsafe {
        libc::socketpair(
            libc::AF_UNIX,
            libc::SOCK_STREAM | libc::SOCK_CLOEXEC,
            0,
            pair.as_mut_ptr(),
        )
    } != 0
    {
        return;
    }
    let [near, far] = pair;
    for fd in fds {
        // SAFETY: live descriptors; no pointers.
        unsafe {
            let is_closed_by_exec = real::fcntl64(*fd, libc::F_GETFD, 0) & libc::FD_CLOEXEC != 0;
            let status = real::flags(*fd);
            real::dup3(near, *fd, if is_closed_by_exec { libc::O_CLOEXEC } else { 0 });
            real::fcntl64(*fd, libc::F_SETFL, status as usize);
        }
        lock_names(|names| names.insert(*fd, [own, peer]));
    }
    HAS_NAMES.store(true, Ordering::Relaxed);
    table::detach(rsocket, fds);
    // SAFETY: this function's own.
    unsafe {
        real::close(near);
        rdma::rfcntl(rsocket, libc::F_SETFL, 0);
    }
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // SAFETY: a function that lives as long as the process.
        unsafe { libc::atexit(before_exit) };
    });
    *CARRIED.0.lock().unwrap_or_else(PoisonError::into_inner) += 1;
    let ends = Arc::new(Ends { rsocket, far });
    start({
        let ends = Arc::clone(&ends);
        move || ends.receive()
    });
    start(move || ends.send());
}

fn lock_names<T>(f: impl FnOnce(&mut HashMap<c_int, [Name; 2]>) -> T) -> Option<T> {
    // A child of a program with several threads may find it locked for ever.
    match NAMES.try_lock() {
        Ok(mut names) => Some(f(&mut names)),
        Err(TryLockError::Poisoned(names)) => Some(f(&mut names.into_inner())),
        Err(TryLockError::WouldBlock) => None,
    }
}

/// The name of what was a connection of ours; None: it was not.
///
/// # Safety
/// As getpeername(2) says.
pub unsafe fn name(
    fd: c_int,
    addr: *mut libc::sockaddr,
    len: *mut libc::socklen_t,
    of_peer: bool,
) -> Option<c_int> {
    if !HAS_NAMES.load(Ordering::Relaxed) || addr.is_null() || len.is_null() {
        return None;
    }
    let name = lock_names(|names| names.get(&fd).map(|names| names[usize::from(of_peer)])).flatten()?;
    // SAFETY: the caller's promise.
    unsafe {
        let count = (*len).min(name.len);
        std::ptr::copy_nonoverlapping((&raw const name.bytes).cast::<u8>(), addr.cast(), count as usize);
        *len = name.len;
    }
    Some(0)
}

/// A descriptor is closed.
pub fn forget(fd: c_int) {
    if HAS_NAMES.load(Ordering::Relaxed) {
        lock_names(|names| names.remove(&fd));
    }
}

/// A thread that takes none of the program's signals.
fn start(run: impl FnOnce() + Send + 'static) {
    // SAFETY: both sets are live; all zero is one to write to.
    let old = unsafe {
        let (mut all, mut old) = (std::mem::zeroed(), std::mem::zeroed());
        libc::sigfillset(&mut all);
        libc::pthread_sigmask(libc::SIG_SETMASK, &all, &mut old);
        old
    };
    // Where none can be had, the connection ends here, and both ends hear of it.
    let _ = std::thread::Builder::new().name("rspreload".into()).spawn(run);
    // SAFETY: the set came from the same call.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &old, std::ptr::null_mut()) };
}

/// The two things that threads carry bytes between.
struct Ends {
    rsocket: c_int,
    far: c_int,
}

impl Ends {
    /// From the card to the program.
    fn receive(&self) {
        let mut buffer = vec![0u8; BUFFER];
        loop {
            // SAFETY: a live buffer, as long as it says.
            let got = unsafe { rdma::rrecv(self.rsocket, buffer.as_mut_ptr().cast(), buffer.len(), 0) };
            if got <= 0 || !self.give(&buffer[..got as usize]) {
                break;
            }
        }
        // SAFETY: no pointers.
        unsafe { real::shutdown(self.far, libc::SHUT_WR) };
    }

    fn give(&self, mut bytes: &[u8]) -> bool {
        while !bytes.is_empty() {
            // SAFETY: live bytes.
            match unsafe { real::send(self.far, bytes.as_ptr().cast(), bytes.len(), libc::MSG_NOSIGNAL) } {
                sent @ 1.. => bytes = &bytes[sent as usize..],
                _ => return false,
            }
        }
        true
    }

    /// From the program to the card.
    fn send(&self) {
        let mut buffer = vec![0u8; BUFFER];
        loop {
            // SAFETY: a live buffer, as long as it says.
            let got = unsafe { real::read(self.far, buffer.as_mut_ptr().cast(), buffer.len()) };
            if got <= 0 || !self.pass(&buffer[..got as usize]) {
                break;
            }
        }
        let mut poll = libc::pollfd {
            fd: self.far,
            events: libc::POLLIN,
            revents: 0,
        };
        // SAFETY: a live entry; otherwise no pointers. When nobody has the near end, nothing more is to be received.
        unsafe {
            real::poll(&mut poll, 1, 0);
            let gone = poll.revents & (libc::POLLHUP | libc::POLLERR) != 0;
            rdma::rshutdown(self.rsocket, if gone { libc::SHUT_RDWR } else { libc::SHUT_WR });
        }
    }

    fn pass(&self, mut bytes: &[u8]) -> bool {
        while !bytes.is_empty() {
            // SAFETY: live bytes.
            match unsafe { rdma::rsend(self.rsocket, bytes.as_ptr().cast(), bytes.len(), 0) } {
                sent @ 1.. => bytes = &bytes[sent as usize..],
                _ => return false,
            }
        }
        true
    }
}

impl Drop for Ends {
    fn drop(&mut self) {
        // SAFETY: both threads have ended.
        unsafe {
            rdma::rclose(self.rsocket);
            real::close(self.far);
        }
        *CARRIED.0.lock().unwrap_or_else(PoisonError::into_inner) -= 1;
        CARRIED.1.notify_all();
    }
}
