//! Completion channels.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::abi::*;
use crate::boundary::live::{CStruct, Kind, Object};
use crate::objects::card::Card;
use crate::objects::events::ChannelEnds;

/// A completion channel.
#[repr(C)]
pub struct ChannelObject {
    raw: CStruct<ibv_comp_channel>,
    /// CQs that use it.
    users: AtomicU32,
    pub ends: Arc<ChannelEnds>,
    pub card: Arc<Card>,
}

impl Object for ChannelObject {
    const KIND: Kind = Kind::Channel;
}

impl ChannelObject {
    pub fn new(context: *mut ibv_context, card: Arc<Card>, ends: Arc<ChannelEnds>) -> Self {
        let raw = CStruct::new(ibv_comp_channel {
            context,
            fd: ends.pipe.fd(),
            refcnt: 0,
        });
        let users = AtomicU32::new(0);
        Self {
            raw,
            users,
            ends,
            card,
        }
    }

    pub fn add_user(&self) {
        self.users.fetch_add(1, Ordering::AcqRel);
    }

    pub fn remove_user(&self) {
        self.users.fetch_sub(1, Ordering::AcqRel);
    }

    pub fn has_users(&self) -> bool {
        self.users.load(Ordering::Acquire) != 0
    }
}
