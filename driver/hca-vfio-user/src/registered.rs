//! Memory of a program that a card of the simulator's may reach: at its address, or by a file that both have.

use std::collections::HashMap;
use std::os::fd::BorrowedFd;
use std::sync::{Mutex, PoisonError};

use hca_dev::{DeviceError, UserMemory};

use crate::client::VfioUserDevice;
use crate::shared_pages::{SHARE_VARIABLE, Shared};

/// What of registered memory is shared, by its address and length; the same may be registered several times.
pub(crate) struct Registered {
    /// Pages are shared at all.
    pub shares: bool,
    shared: Mutex<HashMap<(u64, usize), Vec<Shared>>>,
}

/// A range that is mapped for itself, and the file behind it.
struct Piece<'a> {
    addr: u64,
    len_bytes: usize,
    file: Option<(BorrowedFd<'a>, u64)>,
}

/// The parts of memory with shared pages: what is before them, they, what is behind them.
fn pieces(addr: u64, len_bytes: usize, shared: &Shared) -> impl Iterator<Item = Piece<'_>> {
    let end = shared.addr + shared.len_bytes as u64;
    let by_address = |from: u64, to: u64| Piece {
        addr: from,
        len_bytes: (to - from) as usize,
        file: None,
    };
    let pages = Piece {
        addr: shared.addr,
        len_bytes: shared.len_bytes,
        file: Some((shared.fd(), shared.offset)),
    };
    let all = [
        by_address(addr, shared.addr),
        pages,
        by_address(end, addr + len_bytes as u64),
    ];
    all.into_iter().filter(|piece| piece.len_bytes > 0)
}

impl Registered {
    /// As the program's environment says.
    pub fn from_environment() -> Self {
        Self {
            shares: std::env::var_os(SHARE_VARIABLE).is_some_and(|value| value == "1"),
            shared: Mutex::default(),
        }
    }

    fn keep(&self, addr: u64, len_bytes: usize, shared: Shared) {
        let mut all = self.shared.lock().unwrap_or_else(PoisonError::into_inner);
        all.entry((addr, len_bytes)).or_default().push(shared);
    }

    fn take(&self, addr: u64, len_bytes: usize) -> Option<Shared> {
        let mut all = self.shared.lock().unwrap_or_else(PoisonError::into_inner);
        let found = all.get_mut(&(addr, len_bytes))?;
        let shared = found.pop();
        if found.is_empty() {
            all.remove(&(addr, len_bytes));
        }
        shared
    }
}

impl VfioUserDevice {
    /// Maps memory at `addr`, its own address.
    pub(crate) fn register(&self, addr: u64, memory: &UserMemory) -> Result<(), DeviceError> {
        let len_bytes = memory.len_bytes();
        let shared = if self.registered.shares {
            Shared::new(memory)
        } else {
            None
        };
        let Some(shared) = shared else {
            return self.map(addr, len_bytes, 0, &[]);
        };
        let mut done: Vec<(u64, usize)> = Vec::new();
        for piece in pieces(addr, len_bytes, &shared) {
            if let Err(error) = self.map_piece(&piece) {
                let undone = done
                    .iter()
                    .try_for_each(|(addr, len_bytes)| self.unmap(*addr, *len_bytes));
                return Err(undone.err().unwrap_or(error));
            }
            done.push((piece.addr, piece.len_bytes));
        }
        self.registered.keep(addr, len_bytes, shared);
        Ok(())
    }

    /// Where the simulator has no room for one more file it reaches the pages by their address.
    fn map_piece(&self, piece: &Piece<'_>) -> Result<(), DeviceError> {
        if let Some((fd, offset)) = piece.file
            && self.map(piece.addr, piece.len_bytes, offset, &[fd]).is_ok()
        {
            return Ok(());
        }
        self.map(piece.addr, piece.len_bytes, 0, &[])
    }

    /// Ends a mapping that [`VfioUserDevice::register`] has made.
    pub(crate) fn deregister(&self, addr: u64, len_bytes: usize) -> Result<(), DeviceError> {
        let Some(shared) = self.registered.take(addr, len_bytes) else {
            return self.unmap(addr, len_bytes);
        };
        pieces(addr, len_bytes, &shared).try_for_each(|piece| self.unmap(piece.addr, piece.len_bytes))
    }
}
