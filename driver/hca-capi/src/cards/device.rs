//! A device, however it is reached.

use std::sync::Arc;

use hca_dev::Device;
use hca_verbs::{Context, OpenOptions};

/// A device that any thread may use.
pub type DevPtr = Arc<dyn Device + Send + Sync>;

/// A card may be slow in wall-clock time: its simulator shares the processor with the programs.
const PATIENCE_NS: u64 = 60_000_000_000;

/// Opens a card with the patience that a simulator needs: a real one never takes so long.
pub fn open(device: DevPtr) -> hca_verbs::Result<Context<DevPtr>> {
    let options = OpenOptions {
        ready_timeout_ns: PATIENCE_NS,
        command_timeout_ns: PATIENCE_NS,
        ..OpenOptions::default()
    };
    Context::open_with(device, &options)
}
