//! Memory that a client keeps to itself: the card's accesses are messages to it (DMA_READ and DMA_WRITE), one after
//! the other, and the client's answers.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use hca_host::RemoteMemory;
use hca_vfio_user::{Command, DmaAccess, Header, Message};

use super::lane::Lane;

/// The message that is not answered yet, and its answer.
#[derive(Default)]
struct State {
    last_id: u16,
    answer: Option<Message>,
    closed: bool,
}

/// Where a client's answers arrive.
#[derive(Default)]
pub(super) struct Mailbox {
    state: Mutex<State>,
    arrived: Condvar,
}

impl Mailbox {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// An answer of the client; one that nobody waits for is dropped.
    pub fn deliver(&self, message: Message) {
        let mut state = self.lock();
        if message.header.id == state.last_id {
            state.answer = Some(message);
            self.arrived.notify_all();
        }
    }

    /// No answers will come any more.
    pub fn close(&self) {
        self.lock().closed = true;
        self.arrived.notify_all();
    }

    fn next_id(&self) -> u16 {
        let mut state = self.lock();
        state.last_id = state.last_id.wrapping_add(1);
        state.answer = None;
        state.last_id
    }

    /// None: not in time.
    fn wait(&self, limit: Duration) -> Option<Message> {
        let until = Instant::now() + limit;
        let mut state = self.lock();
        loop {
            let left = until.saturating_duration_since(Instant::now());
            if state.answer.is_some() || state.closed || left.is_zero() {
                return state.answer.take();
            }
            let waited = self.arrived.wait_timeout(state, left);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

/// The memory of one client.
pub(super) struct MessageMemory {
    lane: Arc<Lane>,
    mailbox: Arc<Mailbox>,
    /// Bytes that one message may carry.
    max_bytes: usize,
}

impl MessageMemory {
    pub fn new(lane: Arc<Lane>, mailbox: Arc<Mailbox>, max_bytes: u64) -> Self {
        let max_bytes = usize::try_from(max_bytes).unwrap_or(usize::MAX);
        Self {
            lane,
            mailbox,
            max_bytes: max_bytes.max(1),
        }
    }

    /// Asks, and gives the bytes behind the answer. None: refused, or no answer that fits.
    fn ask(&self, command: Command, addr: u64, count: usize, data: &[u8]) -> Option<Vec<u8>> {
        let access = DmaAccess {
            address: addr,
            count: count as u64,
        };
        let payload = access.encode(data);
        let header = Header::command(self.mailbox.next_id(), command, payload.len(), true);
        self.lane.send([&header.encode()[..], &payload].concat());
        let answer = self.mailbox.wait(self.lane.patience())?;
        let fits = answer.header.errno() == 0 && answer.header.command == command as u16;
        let (found, bytes) = DmaAccess::decode(&answer.payload).ok()?;
        (fits && found == access).then(|| bytes.to_vec())
    }
}

impl RemoteMemory for MessageMemory {
    fn read(&self, addr: u64, out: &mut [u8]) -> bool {
        let mut at = addr;
        out.chunks_mut(self.max_bytes).all(|piece| {
            let bytes = self.ask(Command::DmaRead, at, piece.len(), &[]);
            at = at.wrapping_add(piece.len() as u64);
            bytes
                .filter(|bytes| bytes.len() == piece.len())
                .is_some_and(|bytes| {
                    piece.copy_from_slice(&bytes);
                    true
                })
        })
    }

    fn write(&self, addr: u64, bytes: &[u8]) -> bool {
        let mut at = addr;
        bytes.chunks(self.max_bytes).all(|piece| {
            let done = self.ask(Command::DmaWrite, at, piece.len(), piece);
            at = at.wrapping_add(piece.len() as u64);
            done.is_some()
        })
    }
}
