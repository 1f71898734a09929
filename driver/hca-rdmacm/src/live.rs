//! What the program holds pointers to, beside ids (`state`) and channels (`channel`): events, results of lookups, lists
//! of devices. A call looks a pointer up here first, so that one that is no such thing, or that was given back already,
//! is an error and no crash.

use hca_exports::table::Live;

use crate::errno::{Call, EINVAL};

/// What a pointer points at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Event,
    Info,
    Devices,
}

static LIVE: Live<Kind> = Live::new();

/// The program has it from now on.
pub fn publish<T>(kind: Kind, pointer: *mut T) -> Call<*mut T> {
    Ok(LIVE.publish(kind, pointer)?)
}

/// There is memory to [`publish`] one more.
pub fn require_room() -> Call<()> {
    Ok(LIVE.require_room()?)
}

/// The program gives it back. Only one of two callers does.
pub fn retire<T>(kind: Kind, pointer: *mut T) -> Call<()> {
    LIVE.retire(kind, pointer).then_some(()).ok_or(EINVAL)
}
