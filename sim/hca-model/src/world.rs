//! What queue pairs work on: memory behind keys, receives, and who is told.

use hca_abi::WcStatus;

use crate::config::QpConfig;
use crate::memory::{Access, Refusal, Sge, cut};
use crate::model::ModelEvent;
use crate::packet::Frame;
use crate::work::{Completion, RecvRequest};

/// A receive that is at fault before a byte has come: it completes with this.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BadReceive {
    /// The caller's number for it.
    pub wr_id: u64,
    /// How it completes.
    pub status: WcStatus,
}

/// What a QP learns of its paths. It stays on the one that it has: whoever has the QP changes that (APM-5).
#[derive(Clone, Copy, Debug)]
pub enum PathNews<'a> {
    /// REARM: the peer has loaded a second path, too.
    Armed,
    /// ARMED: a packet has come whose sender has migrated. It is dropped, and comes again.
    Asked(&'a Frame),
    /// ARMED: the retries are exhausted. They begin anew after a wait.
    Failed,
}

/// See the head of the module. [`crate::Model`] has one of its own, with regions that are bytes of its own; a card has
/// rings, key tables and the memory of a host behind it. `config` is that of the QP that asks.
pub trait World {
    /// Whether a range may be touched (KEY-31).
    fn check(&mut self, config: &QpConfig, range: Sge, right: Access) -> Result<(), Refusal>;

    /// Whether the region of a key may be touched, whatever its addresses are.
    fn check_region(&mut self, config: &QpConfig, key: u32, right: Access) -> Result<(), Refusal>;

    /// Each access to memory keeps everybody waiting: better ask for much at a time.
    fn is_far(&self) -> bool {
        false
    }

    /// The bytes of a range, into as many.
    fn read_to(
        &mut self,
        config: &QpConfig,
        range: Sge,
        right: Access,
        out: &mut [u8],
    ) -> Result<(), Refusal>;

    /// The bytes of a range.
    fn read(&mut self, config: &QpConfig, range: Sge, right: Access) -> Result<Vec<u8>, Refusal> {
        let mut bytes = vec![0; range.len as usize];
        self.read_to(config, range, right, &mut bytes)?;
        Ok(bytes)
    }

    /// Writes to a range, as long as the bytes are.
    fn write(
        &mut self,
        config: &QpConfig,
        key: u32,
        va: u64,
        bytes: &[u8],
        right: Access,
    ) -> Result<(), Refusal>;

    /// OP-11: the peer wants this key to be nothing. Refused: it may not be invalidated so.
    fn invalidate(&mut self, config: &QpConfig, key: u32) -> Result<(), Refusal>;

    /// XRC: whether a request may name the receive queue that `config` has (decision 0037).
    fn check_queue(&mut self, config: &QpConfig) -> Result<(), Refusal> {
        let _ = config;
        Ok(())
    }

    /// Takes the next receive of a queue.
    fn next_receive(&mut self, config: &QpConfig) -> Result<Option<RecvRequest>, BadReceive>;

    /// Receives in a queue that is the QP's alone, of which its peer is told; `None`: others have it, too.
    fn count_receives(&mut self, config: &QpConfig) -> Option<u32>;

    /// A QP is in ERR: the receives of a queue that is its alone are flushed (SPEC-8: a shared one's stay).
    fn flush_receives(&mut self, config: &QpConfig);

    /// A request has completed.
    fn complete(&mut self, completion: Completion);

    /// Something has happened to a QP.
    fn tell(&mut self, event: ModelEvent);

    /// Something about the paths of a QP in REARM or ARMED.
    fn path_news(&mut self, config: &QpConfig, news: PathNews<'_>) {
        let _ = (config, news);
    }

    /// Bytes of a gather list from `offset` on, as many as there is room for.
    fn gather_to(
        &mut self,
        config: &QpConfig,
        list: &[Sge],
        offset: u32,
        out: &mut [u8],
    ) -> Result<(), Refusal> {
        if let [only] = list
            && !out.is_empty()
            && u64::from(offset) + out.len() as u64 <= only.len.into()
        {
            let piece = Sge::new(only.lkey, only.addr.wrapping_add(offset.into()), out.len() as u32);
            return self.read_to(config, piece, Access::NONE, out);
        }
        let mut rest = out;
        for piece in cut(list, offset, rest.len() as u32)? {
            let (now, later) = rest.split_at_mut(piece.len as usize);
            self.read_to(config, piece, Access::NONE, now)?;
            rest = later;
        }
        Ok(())
    }

    /// Nothing is wrong with any entry of a scatter list.
    fn may_scatter(&mut self, config: &QpConfig, list: &[Sge]) -> bool {
        let mut entries = list.iter().filter(|entry| entry.len > 0);
        entries.all(|entry| self.check(config, *entry, Access::LOCAL).is_ok())
    }

    /// Puts bytes into a scatter list from `offset` on; nothing is written where any of it is refused.
    fn scatter(&mut self, config: &QpConfig, list: &[Sge], offset: u32, bytes: &[u8]) -> Result<(), Refusal> {
        let pieces = cut(list, offset, bytes.len() as u32)?;
        for piece in &pieces {
            self.check(config, *piece, Access::LOCAL)?;
        }
        let mut rest = bytes;
        for piece in pieces {
            let (now, later) = rest.split_at(piece.len as usize);
            self.write(config, piece.lkey, piece.addr, now, Access::LOCAL)?;
            rest = later;
        }
        Ok(())
    }
}
