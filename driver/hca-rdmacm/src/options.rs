//! Options, devices, and words for events.

use std::ffi::{c_char, c_int, c_void};
use std::net::SocketAddr;
use std::ptr::null_mut;

use crate::abi::*;
use crate::errno::{Call, EINVAL, Errno};
use crate::ids::complete;
use crate::live::{self, Kind};
use crate::state::{Phase, cm, with};

/// rdma_set_option (CM-16).
///
/// # Safety
/// As the manual page says.
pub unsafe fn set(
    id: *mut rdma_cm_id,
    level: c_int,
    name: c_int,
    value: *mut c_void,
    len: usize,
) -> Call<()> {
    if value.is_null() {
        return Err(EINVAL);
    }
    // SAFETY: as long as the program says.
    let bytes = unsafe { std::slice::from_raw_parts(value.cast::<u8>(), len) };
    // The answer is an event, like that of rdma_resolve_route.
    if (level as u32, name as u32) == (RDMA_OPTION_IB, RDMA_OPTION_IB_PATH) {
        with(id, |cm, at| cm.set_path(at, bytes))?;
        return complete(id);
    }
    with(id, |cm, at| {
        let entry = cm.id(at)?;
        match (level as u32, name as u32, bytes) {
            (RDMA_OPTION_ID, RDMA_OPTION_ID_TOS, [tos]) => entry.traffic_class = *tos,
            (RDMA_OPTION_ID, RDMA_OPTION_ID_ACK_TIMEOUT, [timeout @ 0..=31]) => {
                entry.ack_timeout = Some(*timeout)
            }
            (RDMA_OPTION_ID, RDMA_OPTION_ID_REUSEADDR, [a, b, c, d]) => {
                entry.shares_port = [a, b, c, d].iter().any(|byte| **byte != 0);
            }
            // Listeners for both families at once: each address has its own here, whatever is asked for.
            (RDMA_OPTION_ID, RDMA_OPTION_ID_AFONLY, [_, _, _, _]) if entry.phase == Phase::Idle => {}
            (RDMA_OPTION_ID, RDMA_OPTION_ID_TOS..=RDMA_OPTION_ID_ACK_TIMEOUT, _) => return Err(EINVAL),
            _ => return Err(Errno(libc::ENOSYS)),
        }
        Ok(())
    })
}

/// rdma_get_devices (CM-49).
///
/// # Safety
/// As the manual page says.
pub unsafe fn devices(count: *mut c_int) -> Call<*mut *mut ibv_context> {
    let mut cm = cm();
    cm.open_devices()?;
    if cm.devices.is_empty() {
        return Err(Errno(libc::ENODEV));
    }
    // SAFETY: the program's variable, or NULL.
    if let Some(count) = unsafe { count.as_mut() } {
        *count = cm.devices.len() as c_int;
    }
    let mut list: Vec<*mut ibv_context> = cm.devices.iter().map(|device| device.context).collect();
    list.push(null_mut());
    live::require_room()?;
    live::publish(Kind::Devices, Box::into_raw(list.into_boxed_slice()).cast())
}

/// rdma_free_devices.
///
/// # Safety
/// As the manual page says.
pub unsafe fn free_devices(list: *mut *mut ibv_context) {
    if live::retire(Kind::Devices, list).is_err() {
        return;
    }
    let mut len = 0;
    // SAFETY: a list of rdma_get_devices, once; NULL is its last entry.
    unsafe {
        while !(*list.add(len)).is_null() {
            len += 1;
        }
        drop(Box::from_raw(std::ptr::slice_from_raw_parts_mut(list, len + 1)));
    }
}

/// rdma_get_src_port, rdma_get_dst_port (CM-48): as on the wire; 0 if there is none.
pub fn port(id: *mut rdma_cm_id, of_peer: bool) -> u16 {
    let addr = with(id, |cm, at| {
        let entry = cm.id(at)?;
        Ok(if of_peer { entry.dst } else { entry.src })
    });
    addr.ok()
        .flatten()
        .map_or(0, |addr: SocketAddr| addr.port().to_be())
}

/// rdma_event_str (CM-59).
pub fn event_name(event: rdma_cm_event_type) -> *const c_char {
    let name = match event {
        RDMA_CM_EVENT_ADDR_RESOLVED => c"RDMA_CM_EVENT_ADDR_RESOLVED",
        RDMA_CM_EVENT_ADDR_ERROR => c"RDMA_CM_EVENT_ADDR_ERROR",
        RDMA_CM_EVENT_ROUTE_RESOLVED => c"RDMA_CM_EVENT_ROUTE_RESOLVED",
        RDMA_CM_EVENT_ROUTE_ERROR => c"RDMA_CM_EVENT_ROUTE_ERROR",
        RDMA_CM_EVENT_CONNECT_REQUEST => c"RDMA_CM_EVENT_CONNECT_REQUEST",
        RDMA_CM_EVENT_CONNECT_RESPONSE => c"RDMA_CM_EVENT_CONNECT_RESPONSE",
        RDMA_CM_EVENT_CONNECT_ERROR => c"RDMA_CM_EVENT_CONNECT_ERROR",
        RDMA_CM_EVENT_UNREACHABLE => c"RDMA_CM_EVENT_UNREACHABLE",
        RDMA_CM_EVENT_REJECTED => c"RDMA_CM_EVENT_REJECTED",
        RDMA_CM_EVENT_ESTABLISHED => c"RDMA_CM_EVENT_ESTABLISHED",
        RDMA_CM_EVENT_DISCONNECTED => c"RDMA_CM_EVENT_DISCONNECTED",
        RDMA_CM_EVENT_DEVICE_REMOVAL => c"RDMA_CM_EVENT_DEVICE_REMOVAL",
        RDMA_CM_EVENT_MULTICAST_JOIN => c"RDMA_CM_EVENT_MULTICAST_JOIN",
        RDMA_CM_EVENT_MULTICAST_ERROR => c"RDMA_CM_EVENT_MULTICAST_ERROR",
        RDMA_CM_EVENT_ADDR_CHANGE => c"RDMA_CM_EVENT_ADDR_CHANGE",
        RDMA_CM_EVENT_TIMEWAIT_EXIT => c"RDMA_CM_EVENT_TIMEWAIT_EXIT",
        _ => c"UNKNOWN EVENT",
    };
    name.as_ptr()
}
