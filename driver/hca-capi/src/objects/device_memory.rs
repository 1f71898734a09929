//! Device memory.

use crate::abi::*;
use crate::boundary::live::{CStruct, Kind, Object};
use crate::cards::DevPtr;

/// RAM of the card.
#[repr(C)]
pub struct DmObject {
    pub raw: CStruct<ibv_dm>,
    pub dm: hca_verbs::DeviceMemory<DevPtr>,
}

impl Object for DmObject {
    const KIND: Kind = Kind::Dm;
}
