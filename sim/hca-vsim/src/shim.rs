//! The C entry points of the models (see shim.cpp and soc.cpp of `hca-models`), from the crate that has the models.

use std::ffi::{c_char, c_int, c_void};
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

use crate::{Model, NoModels, Ports, SocInputs, SocOutputs};

/// One model's functions.
#[allow(missing_docs)]
pub struct Entry {
    pub new: unsafe extern "C" fn(c_int, *mut Ports) -> *mut c_void,
    pub eval: unsafe extern "C" fn(*mut c_void) -> c_int,
    pub clock: unsafe extern "C" fn(*mut c_void, c_int, c_int, c_int) -> c_int,
    pub still: unsafe extern "C" fn(*mut c_void) -> c_int,
    pub trace_open: unsafe extern "C" fn(*mut c_void, *const c_char) -> c_int,
    pub trace_dump: unsafe extern "C" fn(*mut c_void, u64),
    pub trace_close: unsafe extern "C" fn(*mut c_void),
    pub free: unsafe extern "C" fn(*mut c_void),
}

/// Functions of the soft core.
#[allow(missing_docs)]
pub struct SocEntry {
    pub new: unsafe extern "C" fn(c_int) -> *mut c_void,
    pub step: unsafe extern "C" fn(*mut c_void, *const SocInputs, *mut SocOutputs),
    pub free: unsafe extern "C" fn(*mut c_void),
}

/// All models.
#[allow(missing_docs)]
pub struct Models {
    pub core: Entry,
    pub two_ports: Entry,
    pub probe: Entry,
    pub soft_core: SocEntry,
}

/// Null in a program without models.
static MODELS: AtomicPtr<Models> = AtomicPtr::new(ptr::null_mut());

/// From now on the program has these models.
///
/// # Safety
/// The functions are those of shim.cpp and soc.cpp, for this crate's table of ports.
pub unsafe fn provide(models: &'static Models) {
    MODELS.store(ptr::from_ref(models).cast_mut(), Ordering::Release);
}

fn models() -> Result<&'static Models, NoModels> {
    let models = MODELS.load(Ordering::Acquire).cast_const();
    // SAFETY: null, or what `provide` has been given for the life of the program.
    unsafe { models.as_ref() }.ok_or(NoModels)
}

/// Does this program have models?
pub fn has_models() -> bool {
    models().is_ok()
}

pub(crate) fn entry(model: Model) -> Result<&'static Entry, NoModels> {
    let models = models()?;
    Ok(match model {
        Model::Core => &models.core,
        Model::TwoPorts => &models.two_ports,
        Model::Probe => &models.probe,
    })
}

pub(crate) fn soft_core() -> Result<&'static SocEntry, NoModels> {
    Ok(&models()?.soft_core)
}
