//! Counters objects: sums over the rules that they were attached to.

use std::sync::{Arc, Mutex};

use hca_verbs::{Flow, FlowCounts};

use crate::abi::*;
use crate::boundary::Verb;
use crate::boundary::live::{CStruct, Kind, Object, lock};
use crate::cards::DevPtr;

/// A rule that somebody may count.
pub type SharedFlow = Arc<Mutex<Flow<DevPtr>>>;

/// A counters object.
#[repr(C)]
pub struct CountersObject {
    pub raw: CStruct<ibv_counters>,
    /// What it counts, and where a program finds it.
    pub points: Mutex<Vec<(ibv_counter_description, u32)>>,
    pub sums: Arc<Sums>,
}

impl Object for CountersObject {
    const KIND: Kind = Kind::Counters;
}

/// What the rules of a counters object have had.
#[derive(Default)]
pub struct Sums {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    flows: Vec<SharedFlow>,
    /// Of rules that are gone.
    gone: FlowCounts,
}

impl Sums {
    /// A rule was made with the object.
    pub fn attach(&self, flow: SharedFlow) {
        lock(&self.state).flows.push(flow);
    }

    pub fn is_in_use(&self) -> bool {
        !lock(&self.state).flows.is_empty()
    }

    pub fn read(&self) -> Verb<FlowCounts> {
        let state = lock(&self.state);
        let mut sum = state.gone;
        for flow in &state.flows {
            add(&mut sum, lock(flow).counts()?);
        }
        Ok(sum)
    }

    /// Destroys a rule of the object; what it has had stays.
    pub fn detach(&self, flow: &SharedFlow) -> hca_verbs::Result<()> {
        let mut state = lock(&self.state);
        let last = lock(flow).counts()?;
        lock(flow).destroy()?;
        add(&mut state.gone, last);
        state.flows.retain(|other| !Arc::ptr_eq(other, flow));
        Ok(())
    }
}

fn add(sum: &mut FlowCounts, more: FlowCounts) {
    sum.packets = sum.packets.wrapping_add(more.packets);
    sum.bytes = sum.bytes.wrapping_add(more.bytes);
}
