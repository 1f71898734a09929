//! Address handles.

use hca_verbs::{AddressVector, Ah};

use crate::abi::*;
use crate::boundary::live::{CStruct, Kind, Object};
use crate::cards::DevPtr;
use crate::objects::memory::Hold;

/// Address handle.
#[repr(C)]
pub struct AhObject {
    pub raw: CStruct<ibv_ah>,
    pub ah: Ah<DevPtr>,
    /// The parent domain that it was made in.
    pub _domain: Option<Hold>,
}

impl Object for AhObject {
    const KIND: Kind = Kind::Ah;
}

/// The way that a work request's handle leads. Posting does not look it up.
///
/// # Safety
/// A handle of the program, which does not destroy it meanwhile.
#[inline]
pub unsafe fn vector<'a>(ah: *mut ibv_ah) -> &'a AddressVector {
    // SAFETY: the caller vouches for it.
    unsafe { (*ah.cast::<AhObject>()).ah.vector() }
}
