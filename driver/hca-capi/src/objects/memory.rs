//! Protection domains, thread domains, memory regions and windows.

use std::ffi::c_uint;
use std::sync::Arc;

use hca_dev::OneThread;

use crate::abi::*;
use crate::boundary::live::{CStruct, Kind, Object};
use crate::cards::DevPtr;

/// Keeps a domain from being freed for as long as something is in it.
pub type Hold = Arc<()>;

/// Thread domain: what is made in it is used by one thread at a time, and needs no locks.
#[repr(C)]
pub struct TdObject {
    pub raw: CStruct<ibv_td>,
    pub users: Hold,
}

impl Object for TdObject {
    const KIND: Kind = Kind::Td;
}

/// What makes a protection domain a parent domain.
pub struct Parent {
    pub _pd: Hold,
    pub _td: Option<Hold>,
    /// It has a thread domain.
    pub one_thread: Option<OneThread>,
}

/// Protection domain, or a parent domain: another name for one, with a thread domain perhaps.
#[repr(C)]
pub struct PdObject {
    pub raw: CStruct<ibv_pd>,
    pub pd: hca_verbs::Pd<DevPtr>,
    pub users: Hold,
    pub parent: Option<Parent>,
}

impl Object for PdObject {
    const KIND: Kind = Kind::Pd;
}

impl PdObject {
    /// What an object keeps that is made in a parent domain. Those in other domains the card counts.
    pub fn hold(&self) -> Option<Hold> {
        self.parent.as_ref().map(|_| self.users.clone())
    }

    /// What the program has promised of all that is made here.
    pub fn one_thread(&self) -> Option<OneThread> {
        self.parent.as_ref()?.one_thread
    }
}

/// Is anything in the domain?
pub fn is_in_use(users: &Hold) -> bool {
    Arc::strong_count(users) > 1
}

/// Memory region.
#[repr(C)]
pub struct MrObject {
    pub raw: CStruct<ibv_mr>,
    pub mr: hca_verbs::Mr<DevPtr>,
    /// As the program gave them.
    pub iova: u64,
    pub access: c_uint,
    /// The parent domain that it was made in.
    pub domain: Option<Hold>,
}

impl Object for MrObject {
    const KIND: Kind = Kind::Mr;
}

/// Another name for a region: its keys. It is deregistered by its own.
#[repr(C)]
pub struct ImportedMrObject {
    pub raw: CStruct<ibv_mr>,
}

impl Object for ImportedMrObject {
    const KIND: Kind = Kind::ImportedMr;
}

/// Memory window.
#[repr(C)]
pub struct MwObject {
    pub raw: CStruct<ibv_mw>,
    pub mw: hca_verbs::Mw<DevPtr>,
}

impl Object for MwObject {
    const KIND: Kind = Kind::Mw;
}
