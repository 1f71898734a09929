//! Protection domains, memory regions and windows.

use std::ffi::c_uint;

use crate::abi::*;
use crate::boundary::live::{CStruct, Kind, Object};
use crate::cards::DevPtr;

/// Protection domain.
#[repr(C)]
pub struct PdObject {
    pub raw: CStruct<ibv_pd>,
    pub pd: hca_verbs::Pd<DevPtr>,
}

impl Object for PdObject {
    const KIND: Kind = Kind::Pd;
}

/// Memory region.
#[repr(C)]
pub struct MrObject {
    pub raw: CStruct<ibv_mr>,
    pub mr: hca_verbs::Mr<DevPtr>,
    /// As the program gave them.
    pub iova: u64,
    pub access: c_uint,
}

impl Object for MrObject {
    const KIND: Kind = Kind::Mr;
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
