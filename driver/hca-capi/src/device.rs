//! The list of devices, and what is known of one without opening it.

use std::collections::BTreeMap;
use std::ffi::{CStr, c_char, c_int};
use std::sync::{LazyLock, Mutex};

use crate::abi::*;
use crate::boundary::{Errno, Verb, count, invalid, pointer, set_errno, value};
use crate::card::Card;
use crate::live::{Kind, Object, get, lock, publish};
use crate::sockets::{cards, index_of};

/// Vendor libraries read behind ibv_device, where rdma-core has its own fields: zeros for them.
const PADDING_BYTES: usize = 1024;

/// A device. One for each card that was ever listed; they are kept, so that no pointer to one goes stale.
#[repr(C)]
pub struct DeviceObject {
    raw: ibv_device,
    _padding: [u8; PADDING_BYTES],
    number: u32,
    /// GUID in network byte order, once it was asked for.
    guid: Mutex<Option<u64>>,
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

static DEVICES: LazyLock<Mutex<BTreeMap<u32, usize>>> = LazyLock::new(Mutex::default);

fn copy_name(to: &mut [c_char], name: &str) {
    for (to, byte) in to.iter_mut().zip(name.bytes()) {
        *to = byte as c_char;
    }
}

fn device(number: u32) -> *mut ibv_device {
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
        publish(Box::new(DeviceObject {
            raw,
            _padding: [0; PADDING_BYTES],
            number,
            guid: Mutex::default(),
        })) as usize
    };
    *lock(&DEVICES).entry(number).or_insert_with(make) as *mut ibv_device
}

/// The array is one allocation of the C library, as a program may expect.
pub unsafe extern "C" fn get_device_list(num_devices: *mut c_int) -> *mut *mut ibv_device {
    pointer(|| {
        let numbers = cards().list();
        // SAFETY: plain allocation; the result is checked.
        let list = unsafe { libc::calloc(numbers.len() + 1, size_of::<usize>()) }.cast::<*mut ibv_device>();
        if list.is_null() {
            return Err(Errno(libc::ENOMEM));
        }
        for (i, number) in numbers.iter().enumerate() {
            // SAFETY: inside the allocation, whose last entry stays NULL.
            unsafe { *list.add(i) = device(*number) };
        }
        if !num_devices.is_null() {
            // SAFETY: the program's integer.
            unsafe { *num_devices = numbers.len() as c_int };
        }
        Ok(list)
    })
}

pub unsafe extern "C" fn free_device_list(list: *mut *mut ibv_device) {
    // SAFETY: from get_device_list, or NULL.
    unsafe { libc::free(list.cast()) };
}

/// The device behind a pointer of the program.
///
/// # Safety
/// None needed beyond a pointer value: devices are never freed.
pub unsafe fn device_of<'a>(raw: *mut ibv_device) -> Verb<&'a DeviceObject> {
    // SAFETY: looked up first, and never freed.
    unsafe { get(raw.cast::<DeviceObject>()) }
}

pub unsafe extern "C" fn get_device_name(raw: *mut ibv_device) -> *const c_char {
    // SAFETY: as device_of says; the name lives as long as the device.
    pointer(|| unsafe { Ok(device_of(raw)?.raw.name.as_ptr().cast_mut()) })
}

pub unsafe extern "C" fn get_device_index(raw: *mut ibv_device) -> c_int {
    // SAFETY: as device_of says.
    count(|| unsafe { Ok(index_of(device_of(raw)?.number) as c_int) })
}

/// The card is asked, once: it is claimed for that moment if this process has not opened it.
pub unsafe extern "C" fn get_device_guid(raw: *mut ibv_device) -> __be64 {
    value(|| {
        // SAFETY: as device_of says.
        let guid = unsafe { device_of(raw) }.and_then(|device| {
            let mut guid = lock(&device.guid);
            if guid.is_none() {
                let attr = Card::open(device.number)?.shared.context.query_device()?;
                *guid = Some(u64::from_ne_bytes(attr.node_guid()));
            }
            Ok(guid.unwrap_or_default())
        });
        guid.unwrap_or_else(|_| {
            set_errno(Errno(libc::EMFILE));
            0
        })
    })
}

pub unsafe extern "C" fn get_sysfs_path() -> *const c_char {
    c"/sys".as_ptr()
}

/// Reads a file of at most `size` bytes and cuts the newline, as rdma-core does; -1 if there is none.
pub unsafe extern "C" fn read_sysfs_file(
    folder: *const c_char,
    file: *const c_char,
    buf: *mut c_char,
    size: usize,
) -> c_int {
    count(|| {
        if folder.is_null() || file.is_null() || buf.is_null() {
            return Err(invalid("NULL path or buffer"));
        }
        // SAFETY: the program's C strings.
        let (folder, file) = unsafe { (CStr::from_ptr(folder), CStr::from_ptr(file)) };
        let path = format!("{}/{}", folder.to_string_lossy(), file.to_string_lossy());
        let text = std::fs::read(path).map_err(|e| Errno(e.raw_os_error().unwrap_or(libc::EIO)))?;
        let text = text.strip_suffix(b"\n").unwrap_or(&text);
        let len = text.len().min(size.saturating_sub(1));
        if size > 0 {
            // SAFETY: the program's buffer of `size` bytes; len + 1 fits.
            unsafe {
                buf.copy_from_nonoverlapping(text.as_ptr().cast(), len);
                *buf.add(len) = 0;
            }
        }
        Ok(len as c_int)
    })
}
