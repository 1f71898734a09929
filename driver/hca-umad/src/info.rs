//! What is known of cards and their ports, by the verbs that any program has.

use std::collections::BTreeMap;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::mem::size_of;
use std::ptr::null_mut;
use std::sync::{Arc, MutexGuard};

use hca_exports::table::Table;

use crate::abi::*;
use crate::errno::{Call, EINVAL, Errno, last_errno, made, verb};
use crate::station;

/// IBA vol1: a channel adapter.
const CHANNEL_ADAPTER: u32 = 1;
const PHYS_LINK_UP: u8 = 5;
/// Mbit/s of a lane by active_speed, and lanes by active_width (E-6).
const SPEEDS: [(u8, u32); 7] = [
    (1, 2_500),
    (2, 5_000),
    (4, 10_000),
    (16, 14_062),
    (32, 25_000),
    (64, 50_000),
    (128, 100_000),
];
const WIDTHS: [(u8, u32); 4] = [(1, 1), (2, 4), (4, 8), (8, 12)];

/// A device, open as long as this is there.
pub struct OpenDevice(*mut ibv_context);

// SAFETY: verbs may be called from any thread, with a context that is nobody's.
unsafe impl Send for OpenDevice {}
// SAFETY: as above.
unsafe impl Sync for OpenDevice {}

/// Those that manage ports. A process has one function of a card for this, and keeps it.
static MANAGERS: Table<BTreeMap<String, Arc<OpenDevice>>> = Table::new();

fn managers() -> MutexGuard<'static, BTreeMap<String, Arc<OpenDevice>>> {
    MANAGERS.lock()
}

impl OpenDevice {
    /// The device of this name, to be asked: the one that manages ports if there is one, or else one for this call.
    fn look(name: &str) -> Call<Arc<Self>> {
        if let Some(device) = managers().get(name) {
            return Ok(device.clone());
        }
        Ok(Arc::new(Self::open_now(name)?))
    }

    /// The device of this name, to manage its ports: by the function that has QP0, if nobody else has this.
    pub fn manage(name: &str) -> Call<Arc<Self>> {
        let mut managers = managers();
        if let Some(device) = managers.get(name) {
            return Ok(device.clone());
        }
        prefer_manager(true);
        let opened = Self::open_now(name);
        prefer_manager(false);
        let device = Arc::new(opened?);
        managers.insert(name.to_owned(), device.clone());
        Ok(device)
    }

    /// Whoever manages the device next gets another function of the card, if there is a better one.
    pub fn forget(name: &str) {
        managers().remove(name);
    }

    fn open_now(name: &str) -> Call<Self> {
        with_devices(|devices| {
            let device = devices.iter().find(|device| name_of(**device) == name);
            let device = *device.ok_or(Errno(libc::ENODEV))?;
            // SAFETY: a device of the list.
            Ok(Self(made(unsafe { ibv_open_device(device) })?))
        })
    }

    pub fn context(&self) -> *mut ibv_context {
        self.0
    }
}

impl Drop for OpenDevice {
    fn drop(&mut self) {
        // SAFETY: opened by this, and everything made of it is gone.
        unsafe { ibv_close_device(self.0) };
    }
}

/// Tells libibverbs, if it is ours, that the function that has QP0 is wanted.
fn prefer_manager(prefers: bool) {
    // SAFETY: a symbol of ours, a function with one argument.
    unsafe {
        let symbol = libc::dlsym(libc::RTLD_DEFAULT, c"hca_prefer_manager".as_ptr());
        if !symbol.is_null() {
            std::mem::transmute::<*mut c_void, extern "C" fn(c_int)>(symbol)(prefers.into());
        }
    }
}

/// Says at a port whether a subnet manager is there. Only our libibverbs can, with the function that ports belong to.
pub fn set_is_sm(context: *mut ibv_context, port_num: u8, is_sm: bool) -> Call<()> {
    // SAFETY: a symbol of ours, a function with these arguments; an open device.
    unsafe {
        let symbol = libc::dlsym(libc::RTLD_DEFAULT, c"hca_set_is_sm".as_ptr());
        if symbol.is_null() {
            return Err(Errno(libc::ENOSYS));
        }
        type SetIsSm = extern "C" fn(*mut ibv_context, u8, c_int) -> c_int;
        let set_is_sm = std::mem::transmute::<*mut c_void, SetIsSm>(symbol);
        verb(set_is_sm(context, port_num, is_sm.into()))
    }
}

/// An address handle; with a P_Key index other than 0 only our libibverbs makes one.
///
/// # Safety
/// `pd` is a live protection domain.
pub unsafe fn create_ah(pd: *mut ibv_pd, attr: &mut ibv_ah_attr, pkey_index: u16) -> Call<*mut ibv_ah> {
    // SAFETY: the caller's; a symbol of ours, a function with these arguments.
    unsafe {
        if pkey_index == 0 {
            return made(ibv_create_ah(pd, attr));
        }
        let symbol = libc::dlsym(libc::RTLD_DEFAULT, c"hca_create_mad_ah".as_ptr());
        if symbol.is_null() {
            return Err(Errno(libc::EOPNOTSUPP));
        }
        type CreateAh = extern "C" fn(*mut ibv_pd, *mut ibv_ah_attr, u16) -> *mut ibv_ah;
        let create_ah = std::mem::transmute::<*mut c_void, CreateAh>(symbol);
        made(create_ah(pd, attr, pkey_index))
    }
}

fn name_of(device: *mut ibv_device) -> String {
    // SAFETY: a device of the list, whose name is a C string.
    let name = unsafe { CStr::from_ptr(ibv_get_device_name(device)) };
    name.to_string_lossy().into_owned()
}

fn with_devices<T>(f: impl FnOnce(&[*mut ibv_device]) -> Call<T>) -> Call<T> {
    let mut count = 0;
    // SAFETY: the list ends where the count says.
    let list = unsafe { ibv_get_device_list(&mut count) };
    if list.is_null() {
        return Err(last_errno());
    }
    // SAFETY: as above.
    let devices = unsafe { std::slice::from_raw_parts(list, count.max(0) as usize) };
    let result = f(devices);
    // SAFETY: the list is not used any more.
    unsafe { ibv_free_device_list(list) };
    result
}

/// Names of all cards.
pub fn names() -> Call<Vec<String>> {
    with_devices(|devices| Ok(devices.iter().map(|device| name_of(*device)).collect()))
}

pub fn port_attr(context: *mut ibv_context, port_num: u8) -> Call<ibv_port_attr> {
    station::query(context, port_num)
}

/// An entry of the port's P_Key table; EINVAL: it has no such entry.
pub fn pkey(context: *mut ibv_context, port_num: u8, index: u16) -> Call<u16> {
    let mut pkey = 0;
    // SAFETY: an open device, and a place for the answer.
    match unsafe { ibv_query_pkey(context, port_num, c_int::from(index), &mut pkey) } {
        0 => Ok(u16::from_be(pkey)),
        _ => Err(Errno(libc::EINVAL)),
    }
}

fn device_attr(context: *mut ibv_context) -> Call<ibv_device_attr> {
    let mut attr = ibv_device_attr::default();
    // SAFETY: an open device.
    verb(unsafe { ibv_query_device(context, &mut attr) })?;
    Ok(attr)
}

/// The card and port that a program means: with no name the first card; with port 0 the first that is ACTIVE, or else
/// has a link, or else is there, of InfiniBand.
pub fn choose(ca_name: Option<&str>, port_num: c_int) -> Call<(String, u8)> {
    let name = match ca_name {
        Some(name) => name.to_owned(),
        None => names()?.into_iter().next().ok_or(Errno(libc::ENODEV))?,
    };
    let device = OpenDevice::look(&name)?;
    let ports = device_attr(device.context())?.phys_port_cnt;
    if port_num != 0 {
        let port = u8::try_from(port_num).map_err(|_| EINVAL)?;
        return (port <= ports).then_some((name, port)).ok_or(EINVAL);
    }
    let mut best = None;
    for port in 1..=ports {
        let attr = port_attr(device.context(), port)?;
        let rank = (
            attr.link_layer == IBV_LINK_LAYER_INFINIBAND as u8,
            attr.state == IBV_PORT_ACTIVE,
            attr.phys_state == PHYS_LINK_UP,
            u8::MAX - port,
        );
        best = best.max(Some((rank, port)));
    }
    let (_, port) = best.ok_or(EINVAL)?;
    Ok((name, port))
}

/// Gbit/s.
fn rate(attr: &ibv_port_attr) -> u32 {
    let of = |table: &[(u8, u32)], code| table.iter().find(|(of, _)| *of == code).map_or(0, |(_, n)| *n);
    of(&WIDTHS, attr.active_width) * of(&SPEEDS, attr.active_speed) / 1000
}

fn copy(to: &mut [c_char], text: &str) {
    let bytes = text.bytes().take(to.len() - 1).chain([0]);
    for (to, byte) in to.iter_mut().zip(bytes) {
        *to = byte as c_char;
    }
}

fn fill_port(name: &str, context: *mut ibv_context, port_num: u8) -> Call<umad_port_t> {
    let attr = port_attr(context, port_num)?;
    let mut gid = ibv_gid::default();
    // SAFETY: an open device.
    verb(unsafe { ibv_query_gid(context, port_num, 0, &mut gid) })?;
    // SAFETY: any bytes are a GID.
    let raw = unsafe { gid.raw };
    let half = |at: usize| u64::from_ne_bytes(raw[at..at + 8].try_into().unwrap_or_default());
    let count = usize::from(attr.pkey_tbl_len);
    // SAFETY: memory of the C library, which umad_release_port frees; each entry is written before it is read.
    let pkeys = unsafe { libc::calloc(count.max(1), size_of::<u16>()) }.cast::<u16>();
    if pkeys.is_null() {
        return Err(Errno(libc::ENOMEM));
    }
    for index in 0..count {
        let mut pkey = 0u16;
        // SAFETY: an open device; an entry of the array.
        unsafe {
            if ibv_query_pkey(context, port_num, index as c_int, &mut pkey) == 0 {
                *pkeys.add(index) = u16::from_be(pkey);
            }
        }
    }
    let mut port = umad_port_t {
        portnum: port_num.into(),
        base_lid: attr.lid.into(),
        lmc: attr.lmc.into(),
        sm_lid: attr.sm_lid.into(),
        sm_sl: attr.sm_sl.into(),
        state: attr.state,
        phys_state: attr.phys_state.into(),
        rate: rate(&attr),
        capmask: attr.port_cap_flags.to_be(),
        gid_prefix: half(0),
        port_guid: half(8),
        pkeys_size: count as u32,
        pkeys,
        ..Default::default()
    };
    copy(&mut port.ca_name, name);
    let layer = match attr.link_layer == IBV_LINK_LAYER_ETHERNET as u8 {
        true => "Ethernet",
        false => "InfiniBand",
    };
    copy(&mut port.link_layer, layer);
    Ok(port)
}

/// umad_get_port.
pub fn get_port(ca_name: Option<&str>, port_num: c_int) -> Call<umad_port_t> {
    let (name, port) = choose(ca_name, port_num)?;
    let device = OpenDevice::look(&name)?;
    fill_port(&name, device.context(), port)
}

/// umad_get_ca.
pub fn get_ca(ca_name: Option<&str>) -> Call<umad_ca_t> {
    let (name, _) = choose(ca_name, 1)?;
    let device = OpenDevice::look(&name)?;
    let attr = device_attr(device.context())?;
    let ports = attr.phys_port_cnt.min(UMAD_CA_MAX_PORTS as u8 - 1);
    let mut ca = umad_ca_t {
        node_type: CHANNEL_ADAPTER,
        numports: ports.into(),
        node_guid: attr.node_guid,
        system_guid: attr.sys_image_guid,
        ..Default::default()
    };
    copy(&mut ca.ca_name, &name);
    // SAFETY: an array of C characters that ends with 0.
    let version = unsafe { CStr::from_ptr(attr.fw_ver.as_ptr()) };
    copy(&mut ca.fw_ver, &version.to_string_lossy());
    copy(&mut ca.ca_type, "OpenHCA");
    copy(&mut ca.hw_ver, &attr.hw_ver.to_string());
    for port in 1..=ports {
        let filled = fill_port(&name, device.context(), port)?;
        // SAFETY: memory of the C library, which umad_release_ca frees.
        unsafe {
            let memory = libc::calloc(1, size_of::<umad_port_t>()).cast::<umad_port_t>();
            if memory.is_null() {
                return Err(Errno(libc::ENOMEM));
            }
            memory.write(filled);
            ca.ports[usize::from(port)] = memory;
        }
    }
    Ok(ca)
}

/// umad_release_port.
///
/// # Safety
/// `port` was filled by umad_get_port, or is all zero.
pub unsafe fn release_port(port: *mut umad_port_t) {
    // SAFETY: the caller's.
    unsafe {
        libc::free((*port).pkeys.cast::<c_void>());
        (*port).pkeys = null_mut();
        (*port).pkeys_size = 0;
    }
}

/// umad_release_ca.
///
/// # Safety
/// `ca` was filled by umad_get_ca.
pub unsafe fn release_ca(ca: *mut umad_ca_t) {
    // SAFETY: the caller's.
    unsafe {
        for port in &mut (*ca).ports {
            if !port.is_null() {
                release_port(*port);
                libc::free((*port).cast::<c_void>());
                *port = null_mut();
            }
        }
    }
}

/// umad_get_ca_portguids: one for each port from 0, which no channel adapter has.
pub fn port_guids(ca_name: Option<&str>) -> Call<Vec<u64>> {
    let (name, _) = choose(ca_name, 1)?;
    let device = OpenDevice::look(&name)?;
    let mut guids = vec![0];
    for port in 1..=device_attr(device.context())?.phys_port_cnt {
        let mut filled = fill_port(&name, device.context(), port)?;
        guids.push(filled.port_guid);
        // SAFETY: filled by this.
        unsafe { release_port(&mut filled) };
    }
    Ok(guids)
}
