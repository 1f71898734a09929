//! Device memory.

use std::sync::Arc;

use crate::abi::*;
use crate::boundary::live::{CStruct, Kind, Object};
use crate::cards::DevPtr;

/// RAM of the card, or another name for it.
#[repr(C)]
pub struct DmObject {
    pub raw: CStruct<ibv_dm>,
    pub dm: Arc<hca_verbs::DeviceMemory<DevPtr>>,
    /// It was not allocated here, and is not freed by this name.
    pub is_import: bool,
}

impl Object for DmObject {
    const KIND: Kind = Kind::Dm;
}
