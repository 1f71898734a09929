//! What the program holds pointers to, beside ids (`state`) and channels (`channel`): events, results of lookups, lists
//! of devices. A call looks a pointer up here first, so that one that is no such thing, or that was given back already,
//! is an error and no crash.

use std::collections::HashMap;
use std::sync::{LazyLock, Mutex};

use crate::errno::{Call, EINVAL};
use crate::state::lock;

/// What a pointer points at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Event,
    Info,
    Devices,
}

static LIVE: LazyLock<Mutex<HashMap<usize, Kind>>> = LazyLock::new(Mutex::default);

/// The program has it from now on.
pub fn publish<T>(kind: Kind, pointer: *mut T) -> *mut T {
    lock(&LIVE).insert(pointer as usize, kind);
    pointer
}

/// The program gives it back. Only one of two callers does.
pub fn retire<T>(kind: Kind, pointer: *mut T) -> Call<()> {
    let mut live = lock(&LIVE);
    if live.get(&(pointer as usize)) != Some(&kind) {
        return Err(EINVAL);
    }
    live.remove(&(pointer as usize));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn once_and_as_what_it_is() {
        let mut thing = 1u64;
        let pointer = publish(Kind::Info, &raw mut thing);
        assert_eq!(retire(Kind::Event, pointer), Err(EINVAL));
        assert_eq!(retire(Kind::Info, pointer), Ok(()));
        assert_eq!(retire(Kind::Info, pointer), Err(EINVAL));
        assert_eq!(retire(Kind::Info, std::ptr::null_mut::<u8>()), Err(EINVAL));
    }
}
