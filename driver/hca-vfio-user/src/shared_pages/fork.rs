//! Children of `fork` get copies of shared pages, as of private ones.
//!
//! The parent goes on when the child has copied them. `vfork` and `posix_spawn` do not come here: their children have
//! the parent's pages anyway, until they run another program.

use std::cell::RefCell;
use std::io::{PipeReader, PipeWriter, Read as _};
use std::sync::{MutexGuard, Once};

use super::maps::Maps;
use super::{Pages, all, copy_privately};

/// A fork that is under way on this thread, which is the child's only one.
struct Fork {
    /// Nobody shares or unshares meanwhile.
    all: MutexGuard<'static, Vec<Pages>>,
    pieces: Vec<(u64, usize)>,
    /// At its end when the child has copied all of them, or is no more.
    copied: Option<(PipeReader, PipeWriter)>,
}

thread_local! {
    static UNDER_WAY: RefCell<Option<Fork>> = const { RefCell::new(None) };
}

/// Hears of forks from now on.
pub(super) fn prepare_once() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // SAFETY: functions that live as long as the process.
        unsafe { libc::pthread_atfork(Some(before), Some(in_parent), Some(in_child)) };
    });
}

extern "C" fn before() {
    let all = all();
    let inodes: Vec<u64> = all.iter().map(|pages| pages.inode).collect();
    let pieces = match inodes[..] {
        [] => Vec::new(),
        _ => Maps::read().map_or_else(|_| Vec::new(), |maps| maps.shared_of(&inodes)),
    };
    let copied = if pieces.is_empty() {
        None
    } else {
        std::io::pipe().ok()
    };
    UNDER_WAY.set(Some(Fork { all, pieces, copied }));
}

extern "C" fn in_parent() {
    let Some(fork) = UNDER_WAY.take() else { return };
    if let Some((mut copied, ours)) = fork.copied {
        drop(ours);
        // Nothing is ever written.
        let _ = copied.read(&mut [0]);
    }
}

extern "C" fn in_child() {
    let Some(mut fork) = UNDER_WAY.take() else { return };
    for &(addr, len_bytes) in &fork.pieces {
        if copy_privately(addr, len_bytes).is_err() {
            // It would write to its parent's memory.
            eprintln!("no memory for a copy of {len_bytes} registered bytes at {addr:#x} in a child of fork");
            std::process::abort();
        }
    }
    // The files are the parent's.
    fork.all.clear();
}
