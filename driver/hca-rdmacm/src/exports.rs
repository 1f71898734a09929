//! The names that programs link to. `exports.txt` says which version each has, and the linker fails when one of that
//! list is not here.
//!
//! rustc gives every symbol that it exports its own anonymous version, so it must not know of these: each is a jump in
//! assembly to a Rust function that is not exported.

use std::ffi::{c_char, c_int, c_void};

use hca_cm::RejectReason;
use hca_exports::exports;

use crate::abi::*;
use crate::address;
use crate::channel::{self, Channel};
use crate::errno::{EINVAL, Errno, count, pointer, status, status_with_room, value, with_room};
use crate::ids::complete;
use crate::state::with;
use crate::{connect, ids, info, multicast, options, qp, rsocket, srq};

// SAFETY: each passes on what the program gave, as the manual page of its name says.
exports! {
    rdma_create_event_channel() -> *mut rdma_event_channel {
        pointer(|| Ok(Channel::open()?.raw()))
    }
    rdma_destroy_event_channel(channel: *mut rdma_event_channel) {
        value(|| channel::close(channel));
    }
    rdma_create_id(
        channel: *mut rdma_event_channel, id: *mut *mut rdma_cm_id, context: *mut c_void, ps: rdma_port_space
    ) -> c_int {
        // SAFETY: as above.
        status_with_room(|| unsafe { ids::create(channel, id, context, ps) })
    }
    rdma_destroy_id(id: *mut rdma_cm_id) -> c_int {
        status(|| ids::destroy(id))
    }
    rdma_migrate_id(id: *mut rdma_cm_id, channel: *mut rdma_event_channel) -> c_int {
        status_with_room(|| ids::migrate(id, channel))
    }
    rdma_bind_addr(id: *mut rdma_cm_id, addr: *mut sockaddr) -> c_int {
        status_with_room(|| {
            // SAFETY: as above.
            let addr = unsafe { address::read(addr) }?;
            with(id, |cm, id| cm.bind(id, addr))
        })
    }
    rdma_listen(id: *mut rdma_cm_id, backlog: c_int) -> c_int {
        status_with_room(|| with(id, |cm, id| cm.listen(id, backlog)))
    }
    rdma_resolve_addr(id: *mut rdma_cm_id, src: *mut sockaddr, dst: *mut sockaddr, _timeout_ms: c_int) -> c_int {
        status_with_room(|| {
            // SAFETY: as above.
            let (src, dst) = unsafe {
                let src = (!src.is_null()).then(|| address::read(src)).transpose()?;
                (src, address::read(dst)?)
            };
            with(id, |cm, id| cm.resolve_addr(id, src, dst))?;
            complete(id)
        })
    }
    rdma_resolve_route(id: *mut rdma_cm_id, _timeout_ms: c_int) -> c_int {
        status_with_room(|| {
            with(id, |cm, id| cm.resolve_route(id))?;
            complete(id)
        })
    }
    rdma_create_qp(id: *mut rdma_cm_id, pd: *mut ibv_pd, attr: *mut ibv_qp_init_attr) -> c_int {
        // SAFETY: as above.
        status_with_room(|| unsafe { qp::create(id, pd, attr) })
    }
    rdma_create_qp_ex(id: *mut rdma_cm_id, attr: *mut ibv_qp_init_attr_ex) -> c_int {
        // SAFETY: as above.
        status_with_room(|| unsafe { qp::create_ex(id, attr) })
    }
    rdma_destroy_qp(id: *mut rdma_cm_id) {
        status(|| with(id, |cm, id| cm.destroy_qp(id)));
    }
    rdma_init_qp_attr(id: *mut rdma_cm_id, attr: *mut ibv_qp_attr, mask: *mut c_int) -> c_int {
        status_with_room(|| {
            // SAFETY: as above.
            let (attr, mask) = unsafe { (attr.as_mut().ok_or(EINVAL)?, mask.as_mut().ok_or(EINVAL)?) };
            let (found, bits) = with(id, |cm, id| cm.qp_attributes(id, attr.qp_state))?;
            (*attr, *mask) = (found, bits as c_int);
            Ok(())
        })
    }
    rdma_connect(id: *mut rdma_cm_id, param: *mut rdma_conn_param) -> c_int {
        // SAFETY: as above.
        status_with_room(|| unsafe { connect::connect(id, param) })
    }
    rdma_accept(id: *mut rdma_cm_id, param: *mut rdma_conn_param) -> c_int {
        // SAFETY: as above.
        status_with_room(|| unsafe { connect::accept(id, param) })
    }
    rdma_reject(id: *mut rdma_cm_id, data: *const c_void, len: u8) -> c_int {
        // SAFETY: as above.
        status(|| unsafe { connect::reject(id, RejectReason::Consumer, data, len) })
    }
    rdma_reject_ece(id: *mut rdma_cm_id, data: *const c_void, len: u8) -> c_int {
        // SAFETY: as above.
        status(|| unsafe { connect::reject(id, RejectReason::VendorOption, data, len) })
    }
    rdma_establish(id: *mut rdma_cm_id) -> c_int {
        status_with_room(|| connect::establish(id))
    }
    rdma_disconnect(id: *mut rdma_cm_id) -> c_int {
        status(|| connect::disconnect(id))
    }
    rdma_notify(id: *mut rdma_cm_id, event: ibv_event_type) -> c_int {
        status_with_room(|| connect::notify(id, event))
    }
    rdma_get_request(listener: *mut rdma_cm_id, id: *mut *mut rdma_cm_id) -> c_int {
        // SAFETY: as above.
        status_with_room(|| unsafe { connect::get_request(listener, id) })
    }
    rdma_get_cm_event(channel: *mut rdma_event_channel, event: *mut *mut rdma_cm_event) -> c_int {
        // SAFETY: as above.
        status_with_room(|| unsafe { connect::get_event(channel, event) })
    }
    rdma_ack_cm_event(event: *mut rdma_cm_event) -> c_int {
        status(|| connect::ack_event(event))
    }
    rdma_getaddrinfo(
        node: *const c_char, service: *const c_char, hints: *const rdma_addrinfo, res: *mut *mut rdma_addrinfo
    ) -> c_int {
        // SAFETY: as above.
        status_with_room(|| unsafe { info::get(node, service, hints, res) })
    }
    rdma_freeaddrinfo(res: *mut rdma_addrinfo) {
        // SAFETY: as above.
        value(|| unsafe { info::free(res) });
    }
    rdma_create_ep(
        id: *mut *mut rdma_cm_id, res: *mut rdma_addrinfo, pd: *mut ibv_pd, attr: *mut ibv_qp_init_attr
    ) -> c_int {
        // SAFETY: as above.
        status_with_room(|| unsafe { info::create_ep(id, res, pd, attr) })
    }
    rdma_destroy_ep(id: *mut rdma_cm_id) {
        // CM-46: the QP first, which uses the SRQ.
        value(|| {
            let _ = with(id, |cm, id| cm.destroy_qp(id).and_then(|()| cm.destroy_srq(id)));
        });
        status(|| ids::destroy(id));
    }
    rdma_set_option(id: *mut rdma_cm_id, level: c_int, name: c_int, val: *mut c_void, len: usize) -> c_int {
        // SAFETY: as above.
        status_with_room(|| unsafe { options::set(id, level, name, val, len) })
    }
    rdma_get_src_port(id: *mut rdma_cm_id) -> u16 {
        value(|| options::port(id, false))
    }
    rdma_get_dst_port(id: *mut rdma_cm_id) -> u16 {
        value(|| options::port(id, true))
    }
    rdma_get_devices(count: *mut c_int) -> *mut *mut ibv_context {
        // SAFETY: as above.
        pointer(|| unsafe { options::devices(count) })
    }
    rdma_free_devices(list: *mut *mut ibv_context) {
        // SAFETY: as above.
        value(|| unsafe { options::free_devices(list) });
    }
    rdma_event_str(event: rdma_cm_event_type) -> *const c_char {
        options::event_name(event)
    }
    rdma_join_multicast(id: *mut rdma_cm_id, addr: *mut sockaddr, context: *mut c_void) -> c_int {
        // SAFETY: as above.
        status_with_room(|| unsafe { multicast::join(id, addr, context, true) })
    }
    rdma_join_multicast_ex(id: *mut rdma_cm_id, attr: *mut rdma_cm_join_mc_attr_ex, context: *mut c_void) -> c_int {
        status_with_room(|| {
            // SAFETY: as above.
            let attr = unsafe { attr.as_ref() }.ok_or(EINVAL)?;
            let needed = RDMA_CM_JOIN_MC_ATTR_ADDRESS | RDMA_CM_JOIN_MC_ATTR_JOIN_FLAGS;
            if attr.comp_mask != needed || attr.join_flags > 1 {
                return Err(EINVAL);
            }
            // SAFETY: as above. CM-53: a member that only sends is not attached.
            unsafe { multicast::join(id, attr.addr, context, attr.join_flags == 0) }
        })
    }
    rdma_leave_multicast(id: *mut rdma_cm_id, addr: *mut sockaddr) -> c_int {
        // SAFETY: as above.
        status(|| unsafe { multicast::leave(id, addr) })
    }
    rdma_create_srq(id: *mut rdma_cm_id, pd: *mut ibv_pd, attr: *mut ibv_srq_init_attr) -> c_int {
        // SAFETY: as above.
        status_with_room(|| unsafe { srq::create(id, pd, attr) })
    }
    rdma_create_srq_ex(id: *mut rdma_cm_id, attr: *mut ibv_srq_init_attr_ex) -> c_int {
        // SAFETY: as above.
        status_with_room(|| unsafe { srq::create_ex(id, attr) })
    }
    rdma_destroy_srq(id: *mut rdma_cm_id) {
        status(|| with(id, |cm, id| cm.destroy_srq(id)));
    }
    rdma_set_local_ece(id: *mut rdma_cm_id, ece: *mut ibv_ece) -> c_int {
        // SAFETY: as above. None is the one that there is.
        status_with_room(|| match unsafe { ece.as_ref() } {
            Some(ece) if ece.vendor_id == 0 => with(id, |_, _| Ok(())),
            Some(_) => Err(Errno(libc::EOPNOTSUPP)),
            None => Err(EINVAL),
        })
    }
    rdma_get_remote_ece(id: *mut rdma_cm_id, ece: *mut ibv_ece) -> c_int {
        status_with_room(|| {
            // SAFETY: as above.
            let ece = unsafe { ece.as_mut() }.ok_or(EINVAL)?;
            *ece = ibv_ece::default();
            with(id, |_, _| Ok(()))
        })
    }
    rsocket(domain: c_int, kind: c_int, protocol: c_int) -> c_int {
        count(with_room(|| rsocket::connect::open(domain, kind, protocol)))
    }
    rbind(fd: c_int, addr: *const sockaddr, len: socklen_t) -> c_int {
        // SAFETY: as above.
        status_with_room(|| unsafe { rsocket::connect::bind(fd, addr, len) })
    }
    rlisten(fd: c_int, backlog: c_int) -> c_int {
        status_with_room(|| rsocket::connect::listen(fd, backlog))
    }
    raccept(fd: c_int, addr: *mut sockaddr, len: *mut socklen_t) -> c_int {
        // SAFETY: as above.
        count(with_room(|| unsafe { rsocket::connect::accept(fd, addr, len) }))
    }
    rconnect(fd: c_int, addr: *const sockaddr, len: socklen_t) -> c_int {
        // SAFETY: as above.
        status_with_room(|| unsafe { rsocket::connect::connect(fd, addr, len) })
    }
    rshutdown(fd: c_int, how: c_int) -> c_int {
        status(|| rsocket::connect::shutdown(fd, how))
    }
    rclose(fd: c_int) -> c_int {
        status(|| rsocket::connect::close(fd))
    }
    rrecv(fd: c_int, buf: *mut c_void, len: usize, flags: c_int) -> isize {
        // SAFETY: as above.
        count(|| unsafe { rsocket::data::rrecv(fd, buf, len, flags) })
    }
    rrecvfrom(
        fd: c_int, buf: *mut c_void, len: usize, flags: c_int, addr: *mut sockaddr, addr_len: *mut socklen_t
    ) -> isize {
        // SAFETY: as above.
        count(|| unsafe { rsocket::data::rrecvfrom(fd, buf, len, flags, addr, addr_len) })
    }
    rrecvmsg(fd: c_int, msg: *mut libc::msghdr, flags: c_int) -> isize {
        // SAFETY: as above.
        count(|| unsafe { rsocket::data::rrecvmsg(fd, msg, flags) })
    }
    rread(fd: c_int, buf: *mut c_void, len: usize) -> isize {
        // SAFETY: as above.
        count(|| unsafe { rsocket::data::rrecv(fd, buf, len, 0) })
    }
    rreadv(fd: c_int, iov: *const libc::iovec, pieces: c_int) -> isize {
        // SAFETY: as above.
        count(|| unsafe { rsocket::data::rreadv(fd, iov, pieces) })
    }
    rsend(fd: c_int, buf: *const c_void, len: usize, flags: c_int) -> isize {
        // SAFETY: as above.
        count(|| unsafe { rsocket::data::rsend(fd, buf, len, flags) })
    }
    rsendto(
        fd: c_int, buf: *const c_void, len: usize, flags: c_int, addr: *const sockaddr, addr_len: socklen_t
    ) -> isize {
        // SAFETY: as above.
        count(|| unsafe { rsocket::data::rsendto(fd, buf, len, flags, addr, addr_len) })
    }
    rsendmsg(fd: c_int, msg: *const libc::msghdr, flags: c_int) -> isize {
        // SAFETY: as above.
        count(|| unsafe { rsocket::data::rsendmsg(fd, msg, flags) })
    }
    rwrite(fd: c_int, buf: *const c_void, len: usize) -> isize {
        // SAFETY: as above.
        count(|| unsafe { rsocket::data::rsend(fd, buf, len, 0) })
    }
    rwritev(fd: c_int, iov: *const libc::iovec, pieces: c_int) -> isize {
        // SAFETY: as above.
        count(|| unsafe { rsocket::data::rwritev(fd, iov, pieces) })
    }
    rpoll(fds: *mut libc::pollfd, entries: libc::nfds_t, timeout_ms: c_int) -> c_int {
        // SAFETY: as above.
        count(with_room(|| unsafe { rsocket::poll::rpoll(fds, entries, timeout_ms) }))
    }
    rselect(
        fds: c_int, read: *mut libc::fd_set, write: *mut libc::fd_set, except: *mut libc::fd_set,
        timeout: *mut libc::timeval
    ) -> c_int {
        // SAFETY: as above.
        count(with_room(|| unsafe { rsocket::poll::rselect(fds, [read, write, except], timeout) }))
    }
    rgetpeername(fd: c_int, addr: *mut sockaddr, len: *mut socklen_t) -> c_int {
        // SAFETY: as above.
        status(|| unsafe { rsocket::options::name(fd, addr, len, true) })
    }
    rgetsockname(fd: c_int, addr: *mut sockaddr, len: *mut socklen_t) -> c_int {
        // SAFETY: as above.
        status(|| unsafe { rsocket::options::name(fd, addr, len, false) })
    }
    rsetsockopt(fd: c_int, level: c_int, name: c_int, value: *const c_void, len: socklen_t) -> c_int {
        // SAFETY: as above.
        status_with_room(|| unsafe { rsocket::options::set(fd, level, name, value, len) })
    }
    rgetsockopt(fd: c_int, level: c_int, name: c_int, value: *mut c_void, len: *mut socklen_t) -> c_int {
        // SAFETY: as above.
        status(|| unsafe { rsocket::options::get(fd, level, name, value, len) })
    }
    rfcntl(fd: c_int, cmd: c_int, arg: c_int) -> c_int {
        count(|| rsocket::options::control(fd, cmd, arg))
    }
    riomap(fd: c_int, buf: *mut c_void, len: usize, prot: c_int, flags: c_int, offset: libc::off_t) -> libc::off_t {
        // SAFETY: as above.
        count(with_room(|| unsafe { rsocket::data::riomap(fd, buf, len, prot, flags, offset) }))
    }
    riounmap(fd: c_int, buf: *mut c_void, len: usize) -> c_int {
        status(|| rsocket::data::riounmap(fd, buf, len))
    }
    riowrite(fd: c_int, buf: *const c_void, len: usize, offset: libc::off_t, flags: c_int) -> isize {
        // SAFETY: as above.
        count(|| unsafe { rsocket::data::riowrite(fd, buf, len, offset, flags) })
    }
}
