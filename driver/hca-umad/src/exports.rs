//! The names that programs link to. `exports.txt` says which version each has, and the linker fails when one of that
//! list is not here.

use std::ffi::{CStr, c_char, c_int, c_long, c_void};
use std::ptr::null_mut;

use hca_exports::exports;
use hca_exports::table::Live;

use crate::abi::*;
use crate::engine::Agent;
use crate::errno::{Call, EINVAL, Errno, last_errno, number, pointer, status, with_room};
use crate::{buffer, info, station, strings};

/// Words of a mask of methods.
const MASK_WORDS: usize = 2;
/// Bytes of a card's name.
const NAME_BYTES: usize = UMAD_CA_NAME_LEN as usize;

/// What a program has by a pointer; NULL: EINVAL.
unsafe fn given<'a, T>(pointer: *mut T) -> Call<&'a mut T> {
    // SAFETY: the program's, or NULL.
    unsafe { pointer.as_mut() }.ok_or(EINVAL)
}

unsafe fn text<'a>(name: *const c_char) -> Call<Option<&'a str>> {
    if name.is_null() {
        return Ok(None);
    }
    // SAFETY: the program's C string.
    let name = unsafe { CStr::from_ptr(name) }.to_str().map_err(|_| EINVAL)?;
    Ok(Some(name).filter(|name| !name.is_empty()))
}

unsafe fn register(
    handle: c_int,
    class: c_int,
    version: c_int,
    rmpp: u8,
    mask: *const c_long,
) -> Call<c_int> {
    let mut methods = 0u128;
    if !mask.is_null() {
        for word in (0..MASK_WORDS).rev() {
            // SAFETY: the mask has two words.
            methods = methods << 64 | u128::from(unsafe { *mask.add(word) } as u64);
        }
    }
    let byte = |value: c_int| u8::try_from(value).map_err(|_| EINVAL);
    let agent = Agent {
        class: byte(class)?,
        version: byte(version)?,
        methods,
        rmpp: rmpp != 0,
    };
    station::register(handle, agent).map(|id| id as c_int)
}

unsafe extern "C-unwind" {
    fn poll(fds: *mut libc::pollfd, count: libc::nfds_t, timeout_ms: c_int) -> c_int;
}

/// Waits until a port has something, with -1 for ever: 0, or a negative errno. OpenSM cancels its thread here, which
/// unwinds through this and its caller: neither has anything to drop, and no lock is held.
unsafe extern "C-unwind" fn wait(handle: c_int, timeout_ms: c_int) -> c_int {
    let is_open = number(|| Ok(station::is_open(handle).into()));
    if is_open != 1 {
        return -libc::EINVAL;
    }
    let mut fd = libc::pollfd {
        fd: handle,
        events: libc::POLLIN,
        revents: 0,
    };
    // SAFETY: one descriptor.
    match unsafe { poll(&mut fd, 1, timeout_ms) } {
        0 => number(|| Err(Errno(libc::ETIMEDOUT))),
        n if n < 0 => number(|| Err(last_errno())),
        _ => 0,
    }
}

/// Lists of cards by their nodes: one that was freed, or that is another's, is no list.
static NODES: Live<()> = Live::new();

/// A node of a list of cards. The C structure is the first field.
#[repr(C)]
struct ListNode {
    raw: umad_device_node,
    name: [c_char; NAME_BYTES],
}

fn list_of(names: Vec<String>) -> Call<*mut umad_device_node> {
    let mut head = null_mut();
    for name in names.into_iter().rev() {
        let mut node = hca_room::boxed(ListNode {
            raw: umad_device_node::default(),
            name: [0; NAME_BYTES],
        })?;
        for (to, byte) in node.name[..NAME_BYTES - 1].iter_mut().zip(name.bytes()) {
            *to = byte as c_char;
        }
        node.raw.next = head;
        node.raw.ca_name = node.name.as_ptr();
        head = NODES.publish((), Box::into_raw(node).cast())?;
    }
    Ok(head)
}

// SAFETY: each passes on what the program gave, as the manual page of its name says.
exports! {
    umad_init() -> c_int {
        0
    }
    umad_done() -> c_int {
        0
    }
    umad_get_cas_names(cas: *mut [c_char; NAME_BYTES], max: c_int) -> c_int {
        number(with_room(|| {
            let names = info::names()?;
            if cas.is_null() {
                return Err(EINVAL);
            }
            let count = names.len().min(max.max(0) as usize);
            for (index, name) in names[..count].iter().enumerate() {
                // SAFETY: room for `max` names.
                let to = unsafe { &mut *cas.add(index) };
                to.fill(0);
                for (to, byte) in to[..NAME_BYTES - 1].iter_mut().zip(name.bytes()) {
                    *to = byte as c_char;
                }
            }
            Ok(count as c_int)
        }))
    }
    umad_get_ca_portguids(ca_name: *const c_char, guids: *mut u64, max: c_int) -> c_int {
        number(with_room(|| {
            // SAFETY: the program's string.
            let found = info::port_guids(unsafe { text(ca_name) }?)?;
            if guids.is_null() {
                return Ok(found.len() as c_int);
            }
            if found.len() > max.max(0) as usize {
                return Err(Errno(libc::ENOMEM));
            }
            for (index, guid) in found.iter().enumerate() {
                // SAFETY: room for `max` numbers.
                unsafe { *guids.add(index) = *guid };
            }
            Ok(found.len() as c_int)
        }))
    }
    umad_get_ca(ca_name: *const c_char, ca: *mut umad_ca_t) -> c_int {
        // SAFETY: the program's string and structure.
        status(with_room(|| unsafe {
            let ca = given(ca)?;
            (&raw mut *ca).write(info::get_ca(text(ca_name)?)?);
            Ok(())
        }))
    }
    umad_release_ca(ca: *mut umad_ca_t) -> c_int {
        // SAFETY: the program's structure, filled by umad_get_ca.
        status(|| unsafe { info::release_ca(given(ca)?); Ok(()) })
    }
    umad_get_port(ca_name: *const c_char, port_num: c_int, port: *mut umad_port_t) -> c_int {
        // SAFETY: the program's string and structure.
        status(with_room(|| unsafe {
            let port = given(port)?;
            (&raw mut *port).write(info::get_port(text(ca_name)?, port_num)?);
            Ok(())
        }))
    }
    umad_release_port(port: *mut umad_port_t) -> c_int {
        // SAFETY: the program's structure, filled by umad_get_port.
        status(|| unsafe { info::release_port(given(port)?); Ok(()) })
    }
    umad_get_issm_path(ca_name: *const c_char, port_num: c_int, path: *mut c_char, max: c_int) -> c_int {
        status(with_room(|| {
            // SAFETY: the program's string.
            let issm = station::issm_path(unsafe { text(ca_name) }?, port_num)?;
            if path.is_null() || usize::try_from(max).map_err(|_| EINVAL)? <= issm.len() {
                return Err(EINVAL);
            }
            for (index, byte) in issm.bytes().chain([0]).enumerate() {
                // SAFETY: room for `max` characters.
                unsafe { *path.add(index) = byte as c_char };
            }
            Ok(())
        }))
    }
    umad_open_port(ca_name: *const c_char, port_num: c_int) -> c_int {
        // SAFETY: the program's string.
        number(with_room(|| station::open(unsafe { text(ca_name) }?, port_num)))
    }
    umad_close_port(handle: c_int) -> c_int {
        status(|| station::close(handle))
    }
    umad_get_mad(umad: *mut c_void) -> *mut c_void {
        if umad.is_null() {
            return null_mut();
        }
        umad.cast::<u8>().wrapping_add(buffer::HEADER_BYTES).cast()
    }
    umad_size() -> usize {
        buffer::HEADER_BYTES
    }
    umad_status(umad: *mut ib_user_mad) -> c_int {
        // SAFETY: the program's buffer.
        number(|| Ok(unsafe { given(umad)? }.status as c_int))
    }
    umad_get_mad_addr(umad: *mut ib_user_mad) -> *mut ib_mad_addr_t {
        // SAFETY: the program's buffer.
        unsafe { given(umad) }.map_or(null_mut(), |umad| &raw mut umad.addr)
    }
    umad_set_grh(umad: *mut ib_user_mad, grh: *mut ib_mad_addr_t) -> c_int {
        // SAFETY: the program's buffer and address.
        status(|| unsafe { buffer::set_grh(given(umad)?, grh); Ok(()) })
    }
    umad_set_addr(umad: *mut ib_user_mad, dlid: c_int, dqp: c_int, sl: c_int, qkey: c_int) -> c_int {
        status(|| {
            // SAFETY: the program's buffer.
            let addr = &mut unsafe { given(umad)? }.addr;
            (addr.lid, addr.qpn) = ((dlid as u16).to_be(), (dqp as u32).to_be());
            (addr.sl, addr.qkey) = (sl as u8, (qkey as u32).to_be());
            Ok(())
        })
    }
    umad_set_addr_net(umad: *mut ib_user_mad, dlid: u16, dqp: u32, sl: c_int, qkey: u32) -> c_int {
        status(|| {
            // SAFETY: the program's buffer.
            let addr = &mut unsafe { given(umad)? }.addr;
            (addr.lid, addr.qpn, addr.sl, addr.qkey) = (dlid, dqp, sl as u8, qkey);
            Ok(())
        })
    }
    umad_set_pkey(umad: *mut ib_user_mad, pkey_index: c_int) -> c_int {
        // SAFETY: the program's buffer.
        status(|| { unsafe { given(umad)? }.addr.pkey_index = pkey_index as u16; Ok(()) })
    }
    umad_get_pkey(umad: *mut ib_user_mad) -> c_int {
        // SAFETY: the program's buffer.
        number(|| Ok(unsafe { given(umad)? }.addr.pkey_index.into()))
    }
    umad_send(
        handle: c_int, agent: c_int, umad: *mut ib_user_mad, length: c_int, timeout_ms: c_int, retries: c_int
    ) -> c_int {
        status(with_room(|| {
            // SAFETY: the program's buffer.
            let (route, data) = unsafe { buffer::to_send(umad, length) }?;
            let agent = u32::try_from(agent).map_err(|_| EINVAL)?;
            let count = |value: c_int| u32::try_from(value).unwrap_or(0);
            station::send(handle, agent, route, data, count(timeout_ms), count(retries))
        }))
    }
    umad_recv(handle: c_int, umad: *mut ib_user_mad, length: *mut c_int, timeout_ms: c_int) -> c_int {
        if timeout_ms != 0 {
            // SAFETY: nothing of this frame has to be dropped.
            let code = unsafe { wait(handle, timeout_ms) };
            if code < 0 {
                return code;
            }
        }
        number(|| {
            if umad.is_null() || length.is_null() {
                return Err(EINVAL);
            }
            // SAFETY: the program's buffer.
            let result = station::receive(handle, |message| unsafe { buffer::fill(umad, length, message) });
            match result? {
                code if code < 0 => Err(Errno(-code)),
                agent => Ok(agent),
            }
        })
    }
    umad_poll(handle: c_int, timeout_ms: c_int) -> c_int {
        // SAFETY: nothing of this frame has to be dropped.
        unsafe { wait(handle, timeout_ms) }
    }
    umad_get_fd(handle: c_int) -> c_int {
        number(|| station::is_open(handle).then_some(handle).ok_or(EINVAL))
    }
    umad_register(handle: c_int, class: c_int, version: c_int, rmpp: u8, mask: *mut c_long) -> c_int {
        // SAFETY: the program's mask, or NULL.
        number(with_room(|| unsafe { register(handle, class, version, rmpp, mask) }))
    }
    umad_register_oui(handle: c_int, class: c_int, rmpp: u8, _oui: *mut u8, mask: *mut c_long) -> c_int {
        number(with_room(|| {
            if !(0x30..0x50).contains(&class) {
                return Err(EINVAL);
            }
            // SAFETY: the program's mask, or NULL.
            unsafe { register(handle, class, 1, rmpp, mask) }
        }))
    }
    umad_register2(handle: c_int, attr: *mut umad_reg_attr, agent: *mut u32) -> c_int {
        // What it returns is an errno, and not negative.
        -status(with_room(|| {
            if attr.is_null() || agent.is_null() {
                return Err(EINVAL);
            }
            // SAFETY: the program's structures.
            unsafe {
                let attr = &*attr;
                let mask = attr.method_mask.as_ptr().cast::<c_long>();
                let id = register(
                    handle,
                    attr.mgmt_class.into(),
                    attr.mgmt_class_version.into(),
                    attr.rmpp_version,
                    mask,
                )?;
                *agent = id as u32;
            }
            Ok(())
        }))
    }
    umad_unregister(handle: c_int, agent: c_int) -> c_int {
        status(|| station::unregister(handle, u32::try_from(agent).map_err(|_| EINVAL)?))
    }
    umad_debug(_level: c_int) -> c_int {
        0
    }
    umad_addr_dump(addr: *mut ib_mad_addr_t) {
        // SAFETY: the program's address.
        if let Ok(addr) = unsafe { given(addr) } {
            eprint!("{}", strings::address(addr));
        }
    }
    umad_dump(umad: *mut ib_user_mad) {
        // SAFETY: the program's buffer.
        let Ok(umad) = (unsafe { given(umad) }) else { return };
        eprintln!("agent id {} status {:x} timeout {}", umad.agent_id, umad.status, umad.timeout_ms);
        eprint!("{}", strings::address(&umad.addr));
    }
    umad_class_str(class: u8) -> *const c_char {
        strings::class(class).as_ptr()
    }
    umad_method_str(class: u8, method: u8) -> *const c_char {
        strings::method(class, method).as_ptr()
    }
    umad_common_mad_status_str(code: u16) -> *const c_char {
        strings::status(u16::from_be(code)).as_ptr()
    }
    umad_sa_mad_status_str(code: u16) -> *const c_char {
        strings::sa_status(u16::from_be(code)).as_ptr()
    }
    umad_attribute_str(class: u8, attribute: u16) -> *const c_char {
        strings::attribute(class, u16::from_be(attribute)).as_ptr()
    }
    umad_get_ca_device_list() -> *mut umad_device_node {
        pointer(|| list_of(info::names()?))
    }
    umad_free_ca_device_list(head: *mut umad_device_node) {
        let mut node = head;
        while NODES.retire((), node) {
            // SAFETY: of a list of umad_get_ca_device_list, until now.
            unsafe {
                let next = (*node).next;
                drop(Box::from_raw(node.cast::<ListNode>()));
                node = next;
            }
        }
    }
    umad_sort_ca_device_list(head: *mut *mut umad_device_node, _size: usize) -> c_int {
        let mut nodes = Vec::new();
        // SAFETY: the program's pointer; a list of umad_get_ca_device_list: each node goes into the new list once.
        unsafe {
            let Ok(head) = given(head) else { return libc::EINVAL };
            let mut node = *head;
            if !node.is_null() && !NODES.has((), node) {
                return libc::EINVAL;
            }
            while !node.is_null() {
                if hca_room::reserve(&mut nodes, 1).is_err() {
                    return libc::ENOMEM;
                }
                nodes.push((CStr::from_ptr((*node).ca_name), node));
                node = (*node).next;
            }
            nodes.sort();
            *head = null_mut();
            for (_, node) in nodes.into_iter().rev() {
                (*node).next = *head;
                *head = node;
            }
        }
        0
    }
}
