//! Names of codes, for messages.

use std::ffi::{CStr, c_char, c_int};

const WC_STATUS: [&CStr; 24] = [
    c"success",
    c"local length error",
    c"local QP operation error",
    c"local EE context operation error",
    c"local protection error",
    c"Work Request Flushed Error",
    c"memory management operation error",
    c"bad response error",
    c"local access error",
    c"remote invalid request error",
    c"remote access error",
    c"remote operation error",
    c"transport retry counter exceeded",
    c"RNR retry counter exceeded",
    c"local RDD violation error",
    c"remote invalid RD request",
    c"aborted error",
    c"invalid EE context number",
    c"invalid EE context state",
    c"fatal error",
    c"response timeout error",
    c"general error",
    c"TM error",
    c"TM software rendezvous",
];

const EVENT_TYPE: [&CStr; 20] = [
    c"CQ error",
    c"local work queue catastrophic error",
    c"invalid request local work queue error",
    c"local access violation work queue error",
    c"communication established",
    c"send queue drained",
    c"path migrated",
    c"path migration request error",
    c"local catastrophic error",
    c"port active",
    c"port error",
    c"LID change",
    c"P_Key change",
    c"SM change",
    c"SRQ catastrophic error",
    c"SRQ limit reached",
    c"last WQE reached",
    c"client reregistration",
    c"GID table change",
    c"WQ fatal",
];

/// From UNKNOWN = -1 on.
const NODE_TYPE: [&CStr; 9] = [
    c"unknown",
    c"unknown",
    c"InfiniBand channel adapter",
    c"InfiniBand switch",
    c"InfiniBand router",
    c"iWARP NIC",
    c"usNIC",
    c"usNIC UDP",
    c"unspecified",
];

/// E-2.
const PORT_STATE: [&CStr; 6] = [
    c"no state change (NOP)",
    c"down",
    c"init",
    c"armed",
    c"active",
    c"active defer",
];

fn name(table: &[&'static CStr], index: i64, other: &'static CStr) -> *const c_char {
    let found = usize::try_from(index).ok().and_then(|index| table.get(index));
    found.copied().unwrap_or(other).as_ptr()
}

pub extern "C" fn wc_status_str(status: c_int) -> *const c_char {
    name(&WC_STATUS, status.into(), c"unknown")
}

pub extern "C" fn event_type_str(event: c_int) -> *const c_char {
    name(&EVENT_TYPE, event.into(), c"unknown")
}

pub extern "C" fn node_type_str(node_type: c_int) -> *const c_char {
    name(&NODE_TYPE, i64::from(node_type) + 1, c"unknown")
}

pub extern "C" fn port_state_str(state: c_int) -> *const c_char {
    name(&PORT_STATE, state.into(), c"unknown")
}
