//! Children of `fork` get copies of shared pages, as of private ones.
//!
//! The parent goes on when the child has copied them. `vfork` and `posix_spawn` do not come here: their children have
//! the parent's pages anyway, until they run another program.

use std::cell::RefCell;
use std::io::{PipeReader, PipeWriter, Read as _};
use std::sync::{MutexGuard, Once};

use super::maps::Maps;
use super::{NAME, Pages, all, copy_privately};

/// A fork that is under way on this thread, which is the child's only one.
struct Fork {
    /// Nobody shares or unshares meanwhile.
    all: MutexGuard<'static, Vec<Pages>>,
    /// None: it could not be found out.
    pieces: Option<Vec<(u64, usize)>>,
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
        [] => Some(Vec::new()),
        _ => Maps::read().ok().map(|maps| maps.shared_of(NAME, &inodes)),
    };
    // Without a pipe, where descriptors are used up, the parent goes on at once: the copies are of a moment later.
    let has_pieces = pieces.as_ref().is_some_and(|pieces| !pieces.is_empty());
    let copied = has_pieces.then(|| std::io::pipe().ok()).flatten();
    UNDER_WAY.set(Some(Fork { all, pieces, copied }));
}

extern "C" fn in_parent() {
    let Some(fork) = UNDER_WAY.take() else { return };
    if let Some((mut copied, ours)) = fork.copied {
        drop(ours);
        // Nothing is ever written: this ends with the end of the file, and not with a signal.
        let _ = copied.read_exact(&mut [0]);
    }
}

extern "C" fn in_child() {
    let Some(mut fork) = UNDER_WAY.take() else { return };
    let are_private = fork.pieces.as_ref().is_some_and(|pieces| {
        let mut pieces = pieces.iter();
        pieces.all(|(addr, len_bytes)| copy_privately(*addr, *len_bytes).is_ok())
    });
    if !are_private {
        eprintln!(
            "a child of fork ends: it has no copy of its parent's registered memory, and would write there"
        );
        std::process::abort();
    }
    // The files are the parent's.
    fork.all.clear();
}
