//! The Verilated models themselves, to be linked with what uses [`hca_vsim`]: `use hca_models as _;` in a program.
//!
//! A crate of its own, and one that libraries do without: after a change of RTL only this one and the programs are
//! built again, and not everything that drives a card.

use std::ffi::c_void;

unsafe extern "C" {
    fn Vcore_free(instance: *mut c_void);
    fn Vtwo_free(instance: *mut c_void);
    fn Vprobe_free(instance: *mut c_void);
    fn Vsoc_free(instance: *mut c_void);
}

/// A linker that takes from each archive what it misses by then, and never looks back, has come past this crate before
/// it sees what calls the models: here it misses one function of each, and with it gets the rest.
#[used]
static MODELS: [unsafe extern "C" fn(*mut c_void); 4] = [Vcore_free, Vtwo_free, Vprobe_free, Vsoc_free];
