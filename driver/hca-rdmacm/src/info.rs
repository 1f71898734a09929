//! Names into addresses: rdma_getaddrinfo (CM-28), and ids made from the result (CM-45).

use std::ffi::{CStr, c_char, c_int};
use std::net::SocketAddr;
use std::ptr::null_mut;

use crate::abi::*;
use crate::address::{self, ip_of};
use crate::errno::{Call, EINVAL, Errno};
use crate::ids::{complete, create, destroy};
use crate::live::{self, Kind};
use crate::state::with;
use crate::{path, qp};

/// A result; the C structure is the first field, and points into the others.
#[repr(C)]
struct Info {
    raw: rdma_addrinfo,
    src: libc::sockaddr_storage,
    dst: libc::sockaddr_storage,
    route: Vec<u8>,
}

/// What getaddrinfo(3) says first.
fn look_up(
    node: Option<&CStr>,
    service: Option<&CStr>,
    hints: &rdma_addrinfo,
    is_passive: bool,
) -> Call<SocketAddr> {
    let flags = [
        (is_passive, libc::AI_PASSIVE),
        (
            hints.ai_flags & RAI_NUMERICHOST as c_int != 0,
            libc::AI_NUMERICHOST,
        ),
    ];
    // SAFETY: an all-zero structure is a valid one.
    let mut wanted: libc::addrinfo = unsafe { std::mem::zeroed() };
    wanted.ai_flags = flags
        .iter()
        .filter(|(is_set, _)| *is_set)
        .map(|(_, flag)| flag)
        .sum();
    wanted.ai_family = hints.ai_family;
    wanted.ai_socktype = match hints.ai_port_space as u32 {
        RDMA_PS_UDP => libc::SOCK_DGRAM,
        _ => libc::SOCK_STREAM,
    };
    let pointer = |text: Option<&CStr>| text.map_or(std::ptr::null(), CStr::as_ptr);
    let mut found = null_mut();
    // SAFETY: C strings or NULL; what was found is freed behind its last use.
    unsafe {
        match libc::getaddrinfo(pointer(node), pointer(service), &wanted, &mut found) {
            0 => {}
            libc::EAI_SYSTEM => return Err(crate::errno::last_errno()),
            libc::EAI_MEMORY => return Err(Errno(libc::ENOMEM)),
            libc::EAI_NONAME | libc::EAI_NODATA => return Err(Errno(libc::ENODATA)),
            _ => return Err(EINVAL),
        }
        let addr = address::read((*found).ai_addr.cast());
        libc::freeaddrinfo(found);
        addr
    }
}

/// Addresses of both ends: by name, or else those of the hints, or of the path that the hints name (CM-28).
///
/// # Safety
/// Addresses of the hints are as long as they say.
unsafe fn ends_of(
    node: Option<&CStr>,
    service: Option<&CStr>,
    hints: &rdma_addrinfo,
    route: &[u8],
) -> Call<(Option<SocketAddr>, Option<SocketAddr>)> {
    let is_passive = hints.ai_flags & RAI_PASSIVE as c_int != 0;
    let hinted = |addr: *mut sockaddr| {
        (!addr.is_null())
            // SAFETY: the caller's promise.
            .then(|| unsafe { address::read(addr) })
            .transpose()
    };
    let (mut src, mut dst) = (hinted(hints.ai_src_addr)?, hinted(hints.ai_dst_addr)?);
    if dst.is_none() && !route.is_empty() {
        let (own, peer) = path::ends(&path::first_whole(route)?);
        src = src.or(Some(SocketAddr::new(ip_of(&own), 0)));
        dst = Some(SocketAddr::new(ip_of(&peer), 0));
    }
    if node.is_some() || service.is_some() {
        let found = look_up(node, service, hints, is_passive)?;
        match (is_passive, dst) {
            (true, _) => src = Some(found),
            // The path says where, the service at which port.
            (false, Some(dst)) if node.is_none() && !route.is_empty() => {
                return Ok((src, Some(SocketAddr::new(dst.ip(), found.port()))));
            }
            (false, _) => dst = Some(found),
        }
    } else if src.is_none() && dst.is_none() {
        return Err(EINVAL);
    }
    Ok((src, dst))
}

/// rdma_getaddrinfo.
///
/// # Safety
/// As the manual page says.
pub unsafe fn get(
    node: *const c_char,
    service: *const c_char,
    hints: *const rdma_addrinfo,
    res: *mut *mut rdma_addrinfo,
) -> Call<()> {
    let none = rdma_addrinfo::default();
    // SAFETY: the program's strings, structure and variable, or NULL.
    let (node, service, hints, out) = unsafe {
        let text = |text: *const c_char| (!text.is_null()).then(|| CStr::from_ptr(text));
        (
            text(node),
            text(service),
            hints.as_ref().unwrap_or(&none),
            res.as_mut().ok_or(EINVAL)?,
        )
    };
    let is_passive = hints.ai_flags & RAI_PASSIVE as c_int != 0;
    // SAFETY: as long as it says.
    let route = hca_room::copied(unsafe { route_of(hints) })?;
    // SAFETY: the hints' addresses are as long as they say.
    let (src, dst) = unsafe { ends_of(node, service, hints, &route) }?;
    let known = |space: c_int| if space == 0 { RDMA_PS_TCP as c_int } else { space };
    let port_space = match hints.ai_qp_type as u32 {
        IBV_QPT_UD if hints.ai_port_space == 0 => RDMA_PS_UDP as c_int,
        _ => known(hints.ai_port_space),
    };
    let qp_type = match (hints.ai_qp_type, port_space as u32) {
        (0, RDMA_PS_UDP) => IBV_QPT_UD as c_int,
        (0, _) => IBV_QPT_RC as c_int,
        (given, _) => given,
    };
    // SAFETY: all-zero addresses are valid.
    let mut info = Box::new(Info {
        raw: rdma_addrinfo {
            ai_flags: hints.ai_flags,
            ai_qp_type: qp_type,
            ai_port_space: port_space,
            ..Default::default()
        },
        // SAFETY: all-zero addresses are valid.
        src: unsafe { std::mem::zeroed() },
        // SAFETY: as above.
        dst: unsafe { std::mem::zeroed() },
        route,
    });
    let Info {
        raw,
        src: to_src,
        dst: to_dst,
        route,
    } = &mut *info;
    if !route.is_empty() {
        (raw.ai_route, raw.ai_route_len) = (route.as_mut_ptr().cast(), route.len());
    }
    // SAFETY: there is room for any address.
    unsafe {
        if let Some(addr) = src {
            raw.ai_src_addr = (&raw mut *to_src).cast();
            raw.ai_src_len = address::length(&addr) as socklen_t;
            address::write(raw.ai_src_addr, &addr);
        }
        if let Some(addr) = dst.filter(|_| !is_passive) {
            raw.ai_dst_addr = (&raw mut *to_dst).cast();
            raw.ai_dst_len = address::length(&addr) as socklen_t;
            address::write(raw.ai_dst_addr, &addr);
        }
    }
    raw.ai_family = match src.or(dst) {
        Some(SocketAddr::V6(_)) => libc::AF_INET6,
        _ => libc::AF_INET,
    };
    live::require_room()?;
    *out = live::publish(Kind::Info, Box::into_raw(info))?.cast();
    Ok(())
}

/// Paths that a program names (CM-28), or none.
///
/// # Safety
/// As long as it says.
unsafe fn route_of(info: &rdma_addrinfo) -> &[u8] {
    match info.ai_route.is_null() {
        true => &[],
        // SAFETY: the caller's promise.
        false => unsafe { std::slice::from_raw_parts(info.ai_route.cast(), info.ai_route_len) },
    }
}

/// rdma_freeaddrinfo (CM-29).
///
/// # Safety
/// As the manual page says.
pub unsafe fn free(mut info: *mut rdma_addrinfo) {
    while live::retire(Kind::Info, info).is_ok() {
        // SAFETY: a result of rdma_getaddrinfo, once.
        let own = unsafe { Box::from_raw(info.cast::<Info>()) };
        info = own.raw.ai_next;
    }
}

/// rdma_create_ep.
///
/// # Safety
/// As the manual page says.
pub unsafe fn create_ep(
    id: *mut *mut rdma_cm_id,
    res: *mut rdma_addrinfo,
    pd: *mut ibv_pd,
    attr: *mut ibv_qp_init_attr,
) -> Call<()> {
    // SAFETY: the program's structures and variable, or NULL.
    let (out, res, attr) = unsafe { (id.as_mut(), res.as_ref(), attr.as_mut()) };
    let (out, res) = (out.ok_or(EINVAL)?, res.ok_or(EINVAL)?);
    let mut new = null_mut();
    // SAFETY: a variable of this function.
    unsafe {
        create(
            null_mut(),
            &mut new,
            null_mut(),
            res.ai_port_space as rdma_port_space,
        )
    }?;
    // SAFETY: the new id is nobody else's yet.
    unsafe { (*new).qp_type = res.ai_qp_type as ibv_qp_type };
    // SAFETY: addresses of a result of rdma_getaddrinfo.
    let prepared = unsafe { prepare(new, res, pd, attr) };
    if let Err(errno) = prepared {
        destroy(new)?;
        return Err(errno);
    }
    *out = new;
    Ok(())
}

unsafe fn prepare(
    id: *mut rdma_cm_id,
    res: &rdma_addrinfo,
    pd: *mut ibv_pd,
    attr: Option<&mut ibv_qp_init_attr>,
) -> Call<()> {
    // SAFETY: the caller's promise.
    let read = |addr: *mut sockaddr| {
        (!addr.is_null())
            // SAFETY: as above.
            .then(|| unsafe { address::read(addr) })
            .transpose()
    };
    let (src, dst) = (read(res.ai_src_addr)?, read(res.ai_dst_addr)?);
    if res.ai_flags & RAI_PASSIVE as c_int != 0 {
        return with(id, |cm, at| {
            cm.bind(at, src.ok_or(EINVAL)?)?;
            cm.id(at)?.endpoint = attr.map(|attr| {
                (
                    pd,
                    ibv_qp_init_attr {
                        qp_type: res.ai_qp_type as ibv_qp_type,
                        ..*attr
                    },
                )
            });
            Ok(())
        });
    }
    with(id, |cm, at| cm.resolve_addr(at, src, dst.ok_or(EINVAL)?))?;
    complete(id)?;
    // SAFETY: as above.
    let route = unsafe { route_of(res) };
    with(id, |cm, at| match route.is_empty() {
        true => cm.resolve_route(at),
        false => cm.set_path(at, route),
    })?;
    complete(id)?;
    match attr {
        Some(attr) => {
            attr.qp_type = res.ai_qp_type as ibv_qp_type;
            // SAFETY: a live structure.
            unsafe { qp::create(id, pd, attr) }
        }
        None => Ok(()),
    }
}
