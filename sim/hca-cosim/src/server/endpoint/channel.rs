//! What a client of ours shares with the simulation: writes that it posts, and what the card has written for it.

use std::os::fd::OwnedFd;

use hca_vfio_user::{ActivityPage, POSTED_ENTRIES, PostedReader, SharedRegion};

use crate::server::lane::Shared;

/// The shared memory of a client, where it has asked for that.
pub(super) struct Channel {
    pub region: SharedRegion,
    pub activity: ActivityPage,
    pub posted: PostedReader,
    pub kick: OwnedFd,
    /// Where the ring of posted writes was when the oldest message came, and a whole ring more: what the client had
    /// posted before the message is taken then.
    barrier: Option<u64>,
}

impl Channel {
    pub fn new(Shared { region, kick }: Shared) -> Self {
        Self {
            activity: region.activity(),
            posted: PostedReader::new(region.clone()),
            region,
            kick,
            barrier: None,
        }
    }

    /// Nothing passes what the client has posted before; but what it goes on posting holds no message up for good.
    pub fn may_take_message(&mut self) -> bool {
        let taken = self.posted.taken();
        let barrier = *self.barrier.get_or_insert(taken + POSTED_ENTRIES);
        !self.posted.has_any() || taken >= barrier
    }

    /// The oldest message has been taken.
    pub fn message_taken(&mut self) {
        self.barrier = None;
    }
}
