//! The C entry points of the models (see shim.cpp).

use std::ffi::{c_char, c_int, c_void};

use crate::{Model, Ports};

/// One model's functions.
pub(crate) struct Entry {
    pub new: unsafe extern "C" fn(c_int, *mut Ports) -> *mut c_void,
    pub eval: unsafe extern "C" fn(*mut c_void) -> c_int,
    pub clock: unsafe extern "C" fn(*mut c_void, c_int, c_int, c_int) -> c_int,
    pub still: unsafe extern "C" fn(*mut c_void) -> c_int,
    pub trace_open: unsafe extern "C" fn(*mut c_void, *const c_char) -> c_int,
    pub trace_dump: unsafe extern "C" fn(*mut c_void, u64),
    pub trace_close: unsafe extern "C" fn(*mut c_void),
    pub free: unsafe extern "C" fn(*mut c_void),
}

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
        static $entry: Entry = Entry {
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

#[allow(non_snake_case)]
mod names {
    use super::*;
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
        TWO,
        Vtwo_new,
        Vtwo_eval,
        Vtwo_clock,
        Vtwo_still,
        Vtwo_trace_open,
        Vtwo_trace_dump,
        Vtwo_trace_close,
        Vtwo_free
    );
    pub(crate) fn entry(model: Model) -> &'static Entry {
        match model {
            Model::Core => &CORE,
            Model::TwoPorts => &TWO,
            Model::Probe => &PROBE,
        }
    }
}

pub(crate) use names::entry;
