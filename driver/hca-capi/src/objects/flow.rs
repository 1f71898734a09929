//! Rules for received frames.

use std::sync::Arc;

use crate::abi::*;
use crate::boundary::live::{CStruct, Kind, Object};
use crate::objects::counters::{SharedFlow, Sums};

/// A rule.
#[repr(C)]
pub struct FlowObject {
    pub raw: CStruct<ibv_flow>,
    pub flow: SharedFlow,
    /// Of the counters object that it was made with.
    pub sums: Option<Arc<Sums>>,
}

impl Object for FlowObject {
    const KIND: Kind = Kind::Flow;
}
