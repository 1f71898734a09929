//! A program's buffer: a header (`ib_user_mad`), and the datagram behind it.

use std::ffi::c_int;
use std::mem::size_of;

use crate::abi::*;
use crate::engine::Message;
use crate::errno::{Call, EINVAL};
use crate::qp::Route;

/// umad_size.
pub const HEADER_BYTES: usize = size_of::<ib_user_mad>();
/// The longest message.
const MAX_BYTES: usize = 1 << 24;

/// Where the header's address leads.
pub fn route_of(addr: &ib_mad_addr_t) -> Route {
    // SAFETY: any bytes are a GID.
    let gid = unsafe { addr.__bindgen_anon_1.gid };
    Route {
        lid: u16::from_be(addr.lid),
        sl: addr.sl & 15,
        path_bits: addr.path_bits & 0x7f,
        qpn: u32::from_be(addr.qpn) & 0xff_ffff,
        qkey: u32::from_be(addr.qkey),
        pkey_index: addr.pkey_index,
        grh: (addr.grh_present != 0).then_some((
            gid,
            addr.gid_index,
            u32::from_be(addr.flow_label) & 0xf_ffff,
            addr.hop_limit,
            addr.traffic_class,
        )),
    }
}

fn address_of(route: &Route) -> ib_mad_addr_t {
    let mut addr = ib_mad_addr_t {
        qpn: route.qpn.to_be(),
        qkey: route.qkey.to_be(),
        lid: route.lid.to_be(),
        sl: route.sl,
        path_bits: route.path_bits,
        pkey_index: route.pkey_index,
        ..Default::default()
    };
    if let Some((gid, gid_index, flow_label, hop_limit, traffic_class)) = route.grh {
        addr.grh_present = 1;
        addr.__bindgen_anon_1.gid = gid;
        (addr.gid_index, addr.flow_label) = (gid_index, flow_label.to_be());
        (addr.hop_limit, addr.traffic_class) = (hop_limit, traffic_class);
    }
    addr
}

/// The datagram of a buffer that is sent.
///
/// # Safety
/// `umad` has a header and `length` bytes behind it.
pub unsafe fn to_send<'a>(umad: *mut ib_user_mad, length: c_int) -> Call<(Route, &'a [u8])> {
    let length = usize::try_from(length).ok().filter(|length| *length <= MAX_BYTES);
    let length = length.ok_or(EINVAL)?;
    if umad.is_null() {
        return Err(EINVAL);
    }
    // SAFETY: the caller's.
    unsafe {
        let data = std::slice::from_raw_parts(umad.cast::<u8>().add(HEADER_BYTES), length);
        Ok((route_of(&(*umad).addr), data))
    }
}

/// Puts a message into a buffer; `Err`: it is too long, `length` says how long, and its first part is there.
///
/// # Safety
/// `umad` has room for a header and `*length` bytes.
pub unsafe fn fill(umad: *mut ib_user_mad, length: *mut c_int, message: &Message) -> Result<c_int, c_int> {
    // SAFETY: the caller's.
    unsafe {
        let room = usize::try_from(*length).unwrap_or(0);
        let bytes = message.data.len();
        umad.write_unaligned(ib_user_mad {
            agent_id: message.agent,
            status: message.status as u32,
            length: (HEADER_BYTES + bytes) as u32,
            addr: address_of(&message.route),
            ..Default::default()
        });
        let data = umad.cast::<u8>().add(HEADER_BYTES);
        data.copy_from_nonoverlapping(message.data.as_ptr(), bytes.min(room));
        *length = bytes as c_int;
        match bytes <= room {
            true => Ok(message.agent as c_int),
            false => Err(-libc::ENOSPC),
        }
    }
}

/// umad_set_grh; NULL: none.
///
/// # Safety
/// `umad` has a header, and `grh` is an address or NULL.
pub unsafe fn set_grh(umad: *mut ib_user_mad, grh: *const ib_mad_addr_t) {
    // SAFETY: the caller's.
    unsafe {
        let to = &mut (*umad).addr;
        if grh.is_null() {
            to.grh_present = 0;
            return;
        }
        to.grh_present = 1;
        to.__bindgen_anon_1.gid = (*grh).__bindgen_anon_1.gid;
        to.flow_label = (*grh).flow_label.to_be();
        (to.hop_limit, to.traffic_class) = ((*grh).hop_limit, (*grh).traffic_class);
    }
}
