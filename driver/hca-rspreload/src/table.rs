//! What stands behind a descriptor.
//!
//! A word for each, read without a lock; a lock for those who change them. What there is besides, options that were set
//! before it was known where a socket goes, is behind that lock.

use std::collections::HashMap;
use std::ffi::c_int;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, Ordering};
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};

use crate::rdma::rclose;

/// Descriptors above are the C library's alone.
const MAX: usize = 1 << 16;

/// What stands behind a descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Behind {
    /// Nothing of ours.
    Kernel,
    /// Of a kind that may be an rsocket; not decided yet.
    Open,
    /// An rsocket.
    Rsocket(c_int),
    /// The kernel's socket and an rsocket, which listen both.
    Both(c_int),
}

const OPEN: u64 = 1 << 32;
const RSOCKET: u64 = 2 << 32;
const BOTH: u64 = 3 << 32;

static WORDS: [AtomicU64; MAX] = [const { AtomicU64::new(0) }; MAX];
/// Whose table this is. A child of fork must not use what its parent has, and one of vfork not touch its table.
static OWNER: AtomicI32 = AtomicI32::new(0);
static HAS_RSOCKETS: AtomicBool = AtomicBool::new(false);
static CHANGES: LazyLock<Mutex<Changes>> = LazyLock::new(Mutex::default);

/// An option of a socket that is not decided: level, name, value.
pub type SetOption = (c_int, c_int, Vec<u8>);

/// What the lock guards.
#[derive(Default)]
pub struct Changes {
    /// Descriptors of each rsocket.
    holders: HashMap<c_int, usize>,
    pub options: HashMap<c_int, Vec<SetOption>>,
}

pub fn changes() -> MutexGuard<'static, Changes> {
    CHANGES.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What stands behind a descriptor.
pub fn behind(fd: c_int) -> Behind {
    let Some(word) = usize::try_from(fd).ok().and_then(|fd| WORDS.get(fd)) else {
        return Behind::Kernel;
    };
    let word = word.load(Ordering::Acquire);
    if word == 0 || !is_owner() {
        return Behind::Kernel;
    }
    let rsocket = word as u32 as c_int;
    match word - u64::from(word as u32) {
        RSOCKET => Behind::Rsocket(rsocket),
        BOTH => Behind::Both(rsocket),
        _ => Behind::Open,
    }
}

/// The rsocket of a descriptor, where it is nothing else.
pub fn rsocket(fd: c_int) -> Option<c_int> {
    match behind(fd) {
        Behind::Rsocket(rsocket) => Some(rsocket),
        _ => None,
    }
}

/// Can something stand behind a descriptor of this number?
pub fn has_room(fd: c_int) -> bool {
    usize::try_from(fd).is_ok_and(|fd| fd < MAX)
}

/// Puts something behind a descriptor; what was there is closed with its last one.
pub fn set(fd: c_int, new: Behind) {
    let Some(word) = usize::try_from(fd).ok().and_then(|fd| WORDS.get(fd)) else {
        return;
    };
    if !is_owner() {
        return;
    }
    let bits = match new {
        Behind::Kernel => 0,
        Behind::Open => OPEN,
        Behind::Rsocket(rsocket) => RSOCKET | rsocket as u64,
        Behind::Both(rsocket) => BOTH | rsocket as u64,
    };
    let unheld = {
        let mut changes = changes();
        let old = behind(fd);
        if let Behind::Rsocket(rsocket) | Behind::Both(rsocket) = new {
            *changes.holders.entry(rsocket).or_insert(0) += 1;
        }
        if new != Behind::Open {
            changes.options.remove(&fd);
        }
        word.store(bits, Ordering::Release);
        match old {
            Behind::Rsocket(rsocket) | Behind::Both(rsocket) => changes.release(rsocket),
            _ => None,
        }
    };
    if let Some(rsocket) = unheld {
        // SAFETY: nobody holds it any more. Without the lock: what it sends comes here again.
        unsafe { rclose(rsocket) };
    }
}

impl Changes {
    /// One holder less; the rsocket if that was the last one.
    fn release(&mut self, rsocket: c_int) -> Option<c_int> {
        let left = self.holders.get_mut(&rsocket)?;
        *left -= 1;
        if *left > 0 {
            return None;
        }
        self.holders.remove(&rsocket);
        Some(rsocket)
    }
}

/// Takes an rsocket from behind its descriptors, without closing it.
pub fn detach(rsocket: c_int, fds: &[c_int]) {
    let mut changes = changes();
    changes.holders.remove(&rsocket);
    for fd in fds {
        WORDS[*fd as usize].store(0, Ordering::Release);
    }
}

/// All descriptors that an rsocket alone stands behind.
pub fn connected() -> Vec<(c_int, c_int)> {
    (0..MAX as c_int)
        .filter_map(|fd| Some((fd, rsocket(fd)?)))
        .collect()
}

/// Is this the process whose rsockets they are?
pub fn is_owner() -> bool {
    // SAFETY: it cannot fail.
    OWNER.load(Ordering::Relaxed) == unsafe { libc::getpid() }
}

/// This process may use the table, unless it is the child of one that has used rsockets: those are the parent's.
pub fn adopt() {
    if OWNER.load(Ordering::Relaxed) == 0 || !has_rsockets() {
        // SAFETY: it cannot fail.
        OWNER.store(unsafe { libc::getpid() }, Ordering::Relaxed);
    }
}

/// Has the process used any?
pub fn has_rsockets() -> bool {
    HAS_RSOCKETS.load(Ordering::Relaxed)
}

/// From now on it has.
pub fn uses_rsockets() {
    HAS_RSOCKETS.store(true, Ordering::Relaxed);
}
