//! Counters objects (V-85, V-86): what they count is said first, then rules are made with them.

use std::ffi::c_int;
use std::sync::{Arc, Mutex};

use crate::abi::*;
use crate::boundary::live::{CStruct, get, lock, publish, retire};
use crate::boundary::{Errno, invalid, pointer, status, status_with_room, unsupported};
use crate::objects::context::context_of;
use crate::objects::counters::{CountersObject, Sums};

/// Places of a counters object.
const MAX_INDEX: u32 = 15;

pub unsafe extern "C" fn create_counters(
    context: *mut ibv_context,
    attr: *mut ibv_counters_init_attr,
) -> *mut ibv_counters {
    pointer(|| {
        // SAFETY: the program's structure, or NULL; as context_of says.
        let (owner, attr) = unsafe { (context_of(context)?, attr.as_ref().ok_or(Errno(libc::EINVAL))?) };
        if owner.hca().query_device()?.device_cap_flags() & hca_abi::device_cap::MANAGED_FLOW_STEERING == 0 {
            return Err(unsupported(
                "ibv_create_counters: they count for rules, which are function 0's",
            ));
        }
        if attr.comp_mask != 0 {
            return Err(unsupported("ibv_create_counters: no comp_mask"));
        }
        Ok(publish(CountersObject {
            raw: CStruct::new(ibv_counters { context }),
            points: Mutex::default(),
            sums: Arc::<Sums>::default(),
        })?
        .cast())
    })
}

pub unsafe extern "C" fn destroy_counters(counters: *mut ibv_counters) -> c_int {
    status(|| {
        let object = counters.cast::<CountersObject>();
        // SAFETY: looked up first.
        if unsafe { get(object)? }.sums.is_in_use() {
            return Err(Errno(libc::EBUSY));
        }
        drop(retire(object)?);
        Ok(())
    })
}

/// Before any rule is made with the object: `flow` is NULL.
pub unsafe extern "C" fn attach_counters_point_flow(
    counters: *mut ibv_counters,
    attr: *mut ibv_counter_attach_attr,
    flow: *mut ibv_flow,
) -> c_int {
    status_with_room(|| {
        // SAFETY: looked up first; the program's structure, or NULL.
        let (object, attr) = unsafe {
            (
                get(counters.cast::<CountersObject>())?,
                attr.as_ref().ok_or(Errno(libc::EINVAL))?,
            )
        };
        if !flow.is_null() || attr.comp_mask != 0 {
            return Err(unsupported(
                "ibv_attach_counters_point_flow: counters are attached when a rule is made, by its COUNT spec",
            ));
        }
        if !matches!(attr.counter_desc, IBV_COUNTER_PACKETS | IBV_COUNTER_BYTES) {
            return Err(unsupported(
                "ibv_attach_counters_point_flow: PACKETS and BYTES are counted",
            ));
        }
        if attr.index > MAX_INDEX {
            return Err(invalid(format_args!(
                "ibv_attach_counters_point_flow: index {}, there are 0 to {MAX_INDEX}",
                attr.index
            )));
        }
        if object.sums.is_in_use() {
            return Err(Errno(libc::EBUSY));
        }
        let mut points = lock(&object.points);
        if points.iter().any(|(_, index)| *index == attr.index) {
            return Err(Errno(libc::EBUSY));
        }
        points.push((attr.counter_desc, attr.index));
        Ok(())
    })
}

pub unsafe extern "C" fn read_counters(
    counters: *mut ibv_counters,
    values: *mut u64,
    ncounters: u32,
    flags: u32,
) -> c_int {
    status_with_room(|| {
        // SAFETY: looked up first.
        let object = unsafe { get(counters.cast::<CountersObject>())? };
        if flags & !IBV_READ_COUNTERS_ATTR_PREFER_CACHED != 0 {
            return Err(unsupported("ibv_read_counters: no flag but PREFER_CACHED"));
        }
        let points = lock(&object.points).clone();
        if values.is_null() || points.iter().any(|(_, index)| *index >= ncounters) {
            return Err(invalid("ibv_read_counters: less room than the counters need"));
        }
        let now = object.sums.read()?;
        for (description, index) in points {
            let value = if description == IBV_COUNTER_PACKETS {
                now.packets
            } else {
                now.bytes
            };
            // SAFETY: the program has room for ncounters of them.
            unsafe { *values.add(index as usize) = value };
        }
        Ok(())
    })
}
