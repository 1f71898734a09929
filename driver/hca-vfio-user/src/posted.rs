//! Posted register writes through shared memory: what doorbells travel by.
//!
//! A message on a socket would cost an allocation, a system call and a lock of the socket. Instead all threads of a
//! client put their writes into one ring in [`SharedRegion`], which the simulator empties whenever it looks, and
//! before it handles any message of the client. Writes so reach the card in one order, as on a PCI bus, and no
//! write passes behind a register read or an unmapping that its thread has asked for later.
//!
//! # Who waits for whom
//! A writer takes a ticket (one atomic addition, never repeated) and owns the entry of that number. It waits only when
//! the ring is full, as a processor does when the root complex has no more credits; nobody waits for another writer.
//!
//! # Memory ordering, all of it
//! 1. *Entry.* `state` of an entry counts its passes: `2 n` free for pass n, `2 n + 1` full. The writer stores
//!    the value, then `state` with release; the simulator loads `state` with acquire, then the value. So everything
//!    that a thread stored before its doorbell (work requests, payload) is visible to the simulator when it sees the
//!    doorbell. The way back (free again) is release and acquire too.
//! 2. *Sleep.* Before it sleeps the simulator sets `asleep` and looks at the ring once more; a writer fills its entry
//!    and then looks at `asleep`. Both have a sequentially consistent fence between the store and the load, so that
//!    at least one of them sees the other: no write is left lying.
//!
//! `ring.rs` is these rules and nothing else; its tests try them in every order with loom.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering, fence};
use std::time::Duration;

use crate::ring::{self, Word, Words};
use crate::shared::{CONTROL_OFFSET, ENTRIES_OFFSET, SharedRegion};

/// Writes that may wait for the simulator; then their writers do.
pub const POSTED_ENTRIES: u64 = 1024;
const ENTRY_BYTES: usize = 16;
/// Tickets given so far, and, on another cache line, whether the simulator sleeps.
const TICKETS_OFFSET: usize = CONTROL_OFFSET;
const ASLEEP_OFFSET: usize = CONTROL_OFFSET + 64;

/// Waits for room that only give the processor away; after them a writer naps.
const YIELDS: u32 = 32;
const NAP: Duration = Duration::from_micros(50);
/// Naps between two looks whether the simulator is still there.
const NAPS_PER_LOOK: u32 = 64;

/// A register write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PostedWrite {
    /// Offset in BAR 0, 24 bits.
    pub offset: u32,
    /// 4 or 8.
    pub len_bytes: u8,
    /// The value, in the lower bytes.
    pub value: u64,
}

impl SharedRegion {
    #[inline]
    fn word(&self, word: Word) -> &AtomicU64 {
        let entry = |entry: u64| ENTRIES_OFFSET + entry as usize * ENTRY_BYTES;
        self.word64(match word {
            Word::Tickets => TICKETS_OFFSET,
            Word::Asleep => ASLEEP_OFFSET,
            Word::State(index) => entry(index),
            Word::Value(index) => entry(index) + 8,
        })
    }
}

impl Words for SharedRegion {
    const ENTRIES: u64 = POSTED_ENTRIES;

    #[inline]
    fn load(&self, word: Word, order: Ordering) -> u64 {
        self.word(word).load(order)
    }

    #[inline]
    fn store(&self, word: Word, value: u64, order: Ordering) {
        self.word(word).store(value, order);
    }

    #[inline]
    fn fetch_add(&self, word: Word, value: u64, order: Ordering) -> u64 {
        self.word(word).fetch_add(value, order)
    }

    #[inline]
    fn swap(&self, word: Word, value: u64, order: Ordering) -> u64 {
        self.word(word).swap(value, order)
    }

    #[inline]
    fn fence(&self, order: Ordering) {
        fence(order);
    }
}

/// The clients' end. Any thread may write.
#[derive(Debug)]
pub struct PostedWriter {
    region: SharedRegion,
    kick: OwnedFd,
    /// The connection, to find out that the simulator is gone.
    connection: OwnedFd,
}

impl PostedWriter {
    /// `kick` is the eventfd that wakes the simulator.
    pub fn new(region: SharedRegion, kick: OwnedFd, connection: OwnedFd) -> Self {
        Self {
            region,
            kick,
            connection,
        }
    }

    /// Posts a write. Waits while the ring is full; if the simulator is gone the write is lost, as with a PCI
    /// device.
    #[inline]
    pub fn post(&self, write: PostedWrite) {
        if ring::post(&self.region, write, |is_free| self.wait(is_free)) {
            self.wake();
        }
    }

    /// Waits until there is room. False: the simulator is gone.
    #[cold]
    fn wait(&self, is_free: impl Fn() -> bool) -> bool {
        for _ in 0..YIELDS {
            std::thread::yield_now();
            if is_free() {
                return true;
            }
        }
        for nap in 1u32.. {
            std::thread::sleep(NAP);
            if is_free() {
                return true;
            }
            if nap.is_multiple_of(NAPS_PER_LOOK) && self.is_hung_up() {
                return false;
            }
        }
        false
    }

    /// The simulator has closed the connection, or died.
    pub fn is_hung_up(&self) -> bool {
        let mut poll = libc::pollfd {
            fd: self.connection.as_raw_fd(),
            events: libc::POLLRDHUP,
            revents: 0,
        };
        // SAFETY: one live pollfd; does not wait.
        let found = unsafe { libc::poll(&mut poll, 1, 0) };
        found > 0 && poll.revents & (libc::POLLRDHUP | libc::POLLHUP | libc::POLLERR) != 0
    }

    #[cold]
    fn wake(&self) {
        let one = 1u64.to_ne_bytes();
        // SAFETY: a live buffer of eight bytes. A full eventfd wakes as well.
        unsafe { libc::write(self.kick.as_raw_fd(), one.as_ptr().cast(), one.len()) };
    }
}

/// The simulator's end. Whatever a client writes into the region, this yields at worst wrong writes of that client.
#[derive(Debug)]
pub struct PostedReader {
    region: SharedRegion,
    next: u64,
}

impl PostedReader {
    /// Of a new region.
    pub fn new(region: SharedRegion) -> Self {
        Self { region, next: 0 }
    }

    /// The oldest write, if there is one.
    #[inline]
    pub fn take(&mut self) -> Option<PostedWrite> {
        let write = ring::take(&self.region, self.next)?;
        self.next += 1;
        Some(write)
    }

    /// Writes taken so far.
    pub fn taken(&self) -> u64 {
        self.next
    }

    /// Something waits.
    pub fn has_any(&self) -> bool {
        ring::has_any(&self.region, self.next)
    }

    /// From now on a writer kicks. To be followed by a look ([`PostedReader::has_any`]) before one sleeps.
    pub fn fall_asleep(&self) {
        ring::fall_asleep(&self.region);
    }

    /// No kicks any more.
    pub fn wake_up(&self) {
        ring::wake_up(&self.region);
    }
}

/// Takes the count out of an eventfd, so that it is silent until the next kick. Never waits, not even where the other
/// end has made the eventfd a blocking one: it may, since both share its flags.
pub fn clear_kick(kick: &OwnedFd) -> io::Result<()> {
    let mut count = [0u8; 8];
    let iov = libc::iovec {
        iov_base: count.as_mut_ptr().cast(),
        iov_len: count.len(),
    };
    // SAFETY: one live buffer of eight bytes; -1 stands for no position.
    let got = unsafe { libc::preadv2(kick.as_raw_fd(), &iov, 1, -1, libc::RWF_NOWAIT) };
    if got >= 0 {
        return Ok(());
    }
    match io::Error::last_os_error() {
        error if error.kind() == io::ErrorKind::WouldBlock => Ok(()),
        error => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::activity::eventfd;
    use crate::ring::{LENGTH_SHIFT, OFFSET_MASK};
    use std::os::fd::AsFd;
    use std::os::unix::net::UnixStream;
    use std::sync::atomic::AtomicBool;

    fn pair() -> (PostedWriter, PostedReader, OwnedFd, UnixStream) {
        let region = SharedRegion::new().unwrap();
        let kick = eventfd().unwrap();
        let (ours, theirs) = UnixStream::pair().unwrap();
        let their_kick = kick.as_fd().try_clone_to_owned().unwrap();
        let writer = PostedWriter::new(region.clone(), their_kick, theirs.into());
        (writer, PostedReader::new(region), kick, ours)
    }

    fn write(offset: u32, value: u64) -> PostedWrite {
        PostedWrite {
            offset,
            len_bytes: 8,
            value,
        }
    }

    #[test]
    fn writes_of_all_threads_arrive_whole_and_in_each_threads_order() {
        const THREADS: u32 = 4;
        const EACH: u64 = 20_000;
        let (writer, mut reader, kick, _connection) = pair();
        std::thread::scope(|scope| {
            for thread in 0..THREADS {
                let writer = &writer;
                scope.spawn(move || {
                    (0..EACH).for_each(|i| writer.post(write(8 * thread, i << 8 | u64::from(thread))))
                });
            }
            let mut next = [0; THREADS as usize];
            let mut seen = 0;
            while seen < EACH * u64::from(THREADS) {
                let Some(found) = reader.take() else {
                    // As the simulator does: sleeps when there is nothing, and is woken.
                    reader.fall_asleep();
                    if !reader.has_any() {
                        let mut poll = libc::pollfd {
                            fd: kick.as_raw_fd(),
                            events: libc::POLLIN,
                            revents: 0,
                        };
                        // SAFETY: one live pollfd.
                        let woken = unsafe { libc::poll(&mut poll, 1, 20_000) };
                        assert_eq!(woken, 1, "nobody kicked after {seen} writes");
                        clear_kick(&kick).unwrap();
                    }
                    reader.wake_up();
                    continue;
                };
                let thread = (found.value & 0xff) as usize;
                assert_eq!(found, write(8 * thread as u32, next[thread] << 8 | thread as u64));
                next[thread] += 1;
                seen += 1;
            }
            assert_eq!(next, [EACH; THREADS as usize]);
        });
    }

    #[test]
    fn a_full_ring_holds_its_writer_until_there_is_room() {
        let (writer, mut reader, _kick, _connection) = pair();
        (0..POSTED_ENTRIES).for_each(|i| writer.post(write(0, i)));
        let through = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                writer.post(write(0, POSTED_ENTRIES));
                through.store(true, Ordering::SeqCst);
            });
            assert_eq!(reader.take(), Some(write(0, 0)));
        });
        assert!(through.load(Ordering::SeqCst));
        for i in 1..=POSTED_ENTRIES {
            assert_eq!(reader.take(), Some(write(0, i)));
        }
        assert_eq!((reader.take(), reader.has_any()), (None, false));
    }

    #[test]
    fn nobody_waits_for_a_simulator_that_is_gone() {
        let (writer, mut reader, _kick, connection) = pair();
        drop(connection);
        (0..POSTED_ENTRIES + 5).for_each(|i| writer.post(write(0, i)));
        assert_eq!(
            std::iter::from_fn(|| reader.take()).count() as u64,
            POSTED_ENTRIES
        );
    }

    #[test]
    fn a_kick_made_blocking_by_the_other_end_holds_nobody() {
        let (writer, _reader, kick, _connection) = pair();
        // SAFETY: a plain system call on a live descriptor.
        let result = unsafe { libc::fcntl(writer.kick.as_raw_fd(), libc::F_SETFL, libc::O_RDWR) };
        assert_eq!(result, 0);
        clear_kick(&kick).unwrap();
        writer.wake();
        clear_kick(&kick).unwrap();
        clear_kick(&kick).unwrap();
    }

    #[test]
    fn any_bytes_in_the_region_are_harmless() {
        let (_writer, mut reader, ..) = pair();
        let region = reader.region.clone();
        for at in (ENTRIES_OFFSET..crate::SHARED_REGION_BYTES).step_by(8) {
            region
                .word64(at)
                .store((at as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15), Ordering::Relaxed);
        }
        region.word64(ENTRIES_OFFSET).store(u64::MAX, Ordering::Relaxed);
        assert_eq!(reader.take(), None);
        let full = 1u64 << 32 | 0xff << LENGTH_SHIFT | OFFSET_MASK;
        region.word64(ENTRIES_OFFSET).store(full, Ordering::Relaxed);
        let found = reader.take().unwrap();
        assert_eq!((found.offset, found.len_bytes), (OFFSET_MASK as u32, 0xff));
    }
}
