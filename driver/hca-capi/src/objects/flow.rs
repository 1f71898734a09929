//! Rules for received frames.

use hca_verbs::Flow;

use crate::abi::*;
use crate::boundary::live::{CStruct, Kind, Object};
use crate::cards::DevPtr;

/// A rule.
#[repr(C)]
pub struct FlowObject {
    pub raw: CStruct<ibv_flow>,
    pub flow: Flow<DevPtr>,
}

impl Object for FlowObject {
    const KIND: Kind = Kind::Flow;
}
