//! Devices: one for each card that was ever listed.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::ffi::c_char;
use std::sync::Mutex;

use hca_exports::table::Table;

use crate::abi::*;
use crate::boundary::Verb;
use crate::boundary::live::{Kind, Object, get, publish_again};
use crate::cards::index_of;

/// Vendor libraries read behind ibv_device, where rdma-core has its own fields: zeros for them.
const PADDING_BYTES: usize = 1024;

/// A device. One for each card that was ever listed; they are kept, so that no pointer to one goes stale.
#[repr(C)]
pub struct DeviceObject {
    pub raw: ibv_device,
    _padding: [u8; PADDING_BYTES],
    number: u32,
    /// GUID in network byte order, once it was asked for.
    pub guid: Mutex<Option<u64>>,
}

impl Object for DeviceObject {
    const KIND: Kind = Kind::Device;
}

impl DeviceObject {
    /// The card behind it.
    pub fn number(&self) -> u32 {
        self.number
    }
}

static DEVICES: Table<BTreeMap<u32, usize>> = Table::new();

fn copy_name(to: &mut [c_char], name: &str) {
    for (to, byte) in to.iter_mut().zip(name.bytes()) {
        *to = byte as c_char;
    }
}

/// The device of a card.
pub fn device(number: u32) -> Verb<*mut ibv_device> {
    let make = || {
        let index = index_of(number);
        let mut raw = ibv_device {
            node_type: IBV_NODE_CA,
            transport_type: IBV_TRANSPORT_IB,
            ..Default::default()
        };
        copy_name(&mut raw.name, &format!("hca{index}"));
        copy_name(&mut raw.dev_name, &format!("uverbs{index}"));
        copy_name(
            &mut raw.dev_path,
            &format!("/sys/class/infiniband_verbs/uverbs{index}"),
        );
        copy_name(&mut raw.ibdev_path, &format!("/sys/class/infiniband/hca{index}"));
        let object = hca_room::boxed(DeviceObject {
            raw,
            _padding: [0; PADDING_BYTES],
            number,
            guid: Mutex::default(),
        })?;
        Verb::Ok(Box::into_raw(object) as usize)
    };
    let device = match DEVICES.lock().entry(number) {
        Entry::Occupied(known) => *known.get(),
        Entry::Vacant(place) => *place.insert(make()?),
    };
    Ok(publish_again(device as *mut DeviceObject)?.cast())
}

/// The device behind a pointer of the program.
///
/// # Safety
/// None needed beyond a pointer value: devices are never freed.
pub unsafe fn device_of<'a>(raw: *mut ibv_device) -> Verb<&'a DeviceObject> {
    // SAFETY: looked up first, and never freed.
    unsafe { get(raw.cast::<DeviceObject>()) }
}
