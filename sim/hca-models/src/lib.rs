//! The Verilated models themselves, to be linked with what uses [`hca_vsim`]: `use hca_models as _;` in a program.
//!
//! A crate of its own, and one that libraries do without: after a change of RTL only this one and the programs are
//! built again, and not everything that drives a card. A program without it has no RTL.

use std::ffi::{c_char, c_int, c_void};

use hca_vsim::{Entry, Models, Ports, SocEntry, SocInputs, SocOutputs};

macro_rules! model {
    ($entry:ident, $new:ident, $eval:ident, $clock:ident, $still:ident, $open:ident, $dump:ident, $close:ident,
     $free:ident) => {
        unsafe extern "C" {
            fn $new(seed: c_int, ports: *mut Ports) -> *mut c_void;
            fn $eval(instance: *mut c_void) -> c_int;
            fn $clock(instance: *mut c_void, is_due: c_int, checked: c_int, may_rest: c_int) -> c_int;
            fn $still(instance: *mut c_void) -> c_int;
            fn $open(instance: *mut c_void, path: *const c_char) -> c_int;
            fn $dump(instance: *mut c_void, time_ps: u64);
            fn $close(instance: *mut c_void);
            fn $free(instance: *mut c_void);
        }
        const $entry: Entry = Entry {
            new: $new,
            eval: $eval,
            clock: $clock,
            still: $still,
            trace_open: $open,
            trace_dump: $dump,
            trace_close: $close,
            free: $free,
        };
    };
}

model!(
    CORE,
    Vcore_new,
    Vcore_eval,
    Vcore_clock,
    Vcore_still,
    Vcore_trace_open,
    Vcore_trace_dump,
    Vcore_trace_close,
    Vcore_free
);
model!(
    PROBE,
    Vprobe_new,
    Vprobe_eval,
    Vprobe_clock,
    Vprobe_still,
    Vprobe_trace_open,
    Vprobe_trace_dump,
    Vprobe_trace_close,
    Vprobe_free
);
model!(
    TWO_PORTS,
    Vtwo_new,
    Vtwo_eval,
    Vtwo_clock,
    Vtwo_still,
    Vtwo_trace_open,
    Vtwo_trace_dump,
    Vtwo_trace_close,
    Vtwo_free
);

unsafe extern "C" {
    fn Vsoc_new(seed: c_int) -> *mut c_void;
    fn Vsoc_step(instance: *mut c_void, inputs: *const SocInputs, outputs: *mut SocOutputs);
    fn Vsoc_free(instance: *mut c_void);
}

static MODELS: Models = Models {
    core: CORE,
    two_ports: TWO_PORTS,
    probe: PROBE,
    soft_core: SocEntry {
        new: Vsoc_new,
        step: Vsoc_step,
        free: Vsoc_free,
    },
};

extern "C" fn provide() {
    // SAFETY: they are declared as they are defined in shim.cpp and soc.cpp, which were compiled with the table of
    // ports of this very hca-vsim.
    unsafe { hca_vsim::provide(&MODELS) }
}

/// Called before `main`: whoever links this crate has its models and need not say so.
#[used]
#[unsafe(link_section = ".init_array")]
static PROVIDE: extern "C" fn() = provide;
