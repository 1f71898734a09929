//! The list of devices, and what is known of one without opening it.

use std::ffi::{CStr, c_char, c_int};

use crate::abi::*;
use crate::boundary::live::lock;
use crate::boundary::{Errno, count, found, invalid, pointer, set_errno, value};
use crate::cards::{cards, index_of, sockets};
use crate::objects::card::Card;
use crate::objects::device::{device, device_of};

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
            unsafe { *list.add(i) = device(*number)? };
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

pub unsafe extern "C" fn get_device_name(raw: *mut ibv_device) -> *const c_char {
    // SAFETY: as device_of says; the name lives as long as the device.
    found(|| unsafe { Ok(device_of(raw)?.raw.name.as_ptr().cast_mut()) })
}

pub unsafe extern "C" fn get_device_index(raw: *mut ibv_device) -> c_int {
    // SAFETY: as device_of says.
    count(|| unsafe { Ok(index_of(device_of(raw)?.number()) as c_int) })
}

/// The card is asked, once: it is claimed for that moment if this process has not opened it.
pub unsafe extern "C" fn get_device_guid(raw: *mut ibv_device) -> __be64 {
    value(|| {
        // SAFETY: as device_of says.
        let guid = unsafe { device_of(raw) }.and_then(|device| {
            let mut guid = lock(&device.guid);
            if guid.is_none() {
                let attr = Card::open(device.number())?.shared.context.query_device()?;
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

/// `hca_prefer_manager`, for our libibumad: functions that this process claims from now on shall be those of managers,
/// or with 0 those of others again.
pub extern "C" fn prefer_manager(prefers: c_int) {
    sockets::prefer_manager(prefers != 0);
}
