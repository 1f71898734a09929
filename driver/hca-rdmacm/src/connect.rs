//! Connections, and lookups of services of datagrams: asked for, answered, ended.

use std::ffi::c_void;
use std::ptr::null_mut;

use hca_cm::RejectReason;
use hca_cm::ip::{HEADER_BYTES, Header};
use hca_cm::message::{Rep, Req, SidrRep, SidrReq};

use crate::abi::*;
use crate::channel::{self, EventObject};
use crate::errno::{Call, EINVAL, Errno, errno_of};
use crate::ids::{acknowledge, complete, destroy, settle};
use crate::live::{self, Kind};
use crate::qp::{UDP_QKEY, starting_psn};
use crate::state::{Cm, Phase, with};

/// CM-37.
const PRIVATE_OF_CONNECT: usize = Req::PRIVATE_BYTES - HEADER_BYTES;
const PRIVATE_OF_LOOKUP: usize = SidrReq::PRIVATE_BYTES - HEADER_BYTES;
/// 4.096 us << 18: 1 s. A manager answers at once, but a simulated card takes its time.
const RESPONSE_TIMEOUT: u8 = 18;
const MAX_RETRIES: u8 = 15;
/// 4.096 us << 14: 67 ms, beyond any delay of a simulated network.
const ACK_TIMEOUT: u8 = 14;
const SIDR_REJECTED: u8 = 2;
/// Of counts that have three bits: without end.
const ENDLESS: u8 = 7;
/// LID of who has none: Ethernet.
const PERMISSIVE_LID: u16 = 0xffff;

/// CM-38: there and back, and what the card takes to acknowledge; each is a power of two.
fn ack_timeout(life_time: u8, ack_delay: u8) -> u8 {
    if life_time == 0 {
        return ACK_TIMEOUT;
    }
    let (way, delay) = (life_time + 1, ack_delay);
    let (longer, shorter) = (way.max(delay), way.min(delay));
    // Less than half as much does not count.
    (longer + u8::from(shorter + 1 >= longer)).min(31)
}

/// A program's private data.
///
/// # Safety
/// As many bytes as it says, or NULL.
unsafe fn private_data(data: *const c_void, len: u8, limit: usize) -> Call<Vec<u8>> {
    match (data.is_null(), usize::from(len)) {
        (_, 0) => Ok(Vec::new()),
        (true, _) => Err(EINVAL),
        (false, len) if len > limit => Err(EINVAL),
        // SAFETY: the caller's promise.
        (false, len) => Ok(unsafe { std::slice::from_raw_parts(data.cast(), len) }.to_vec()),
    }
}

impl Cm {
    /// The header that goes before private data.
    fn header(&mut self, id: usize) -> Call<Vec<u8>> {
        let entry = self.id(id)?;
        let (src, dst) = (entry.src.ok_or(EINVAL)?, entry.dst.ok_or(EINVAL)?);
        Ok(Header {
            source: src,
            destination: dst.ip(),
        }
        .emit()
        .to_vec())
    }

    pub fn max_rd_atomic(&self, id: usize) -> Call<u8> {
        Ok(self.devices[self.ports[self.port_of(id)?].device].max_rd_atomic)
    }

    fn qp_num(&mut self, id: usize, param: &rdma_conn_param) -> Call<u32> {
        let raw = self.id(id)?.raw;
        // SAFETY: a live id, and its QP.
        Ok(unsafe {
            if (*raw).qp.is_null() {
                param.qp_num
            } else {
                (*(*raw).qp).qp_num
            }
        })
    }

    fn ask(&mut self, id: usize, param: &rdma_conn_param, private: &[u8]) -> Call<()> {
        let port = self.port_of(id)?;
        let (max, qpn) = (self.max_rd_atomic(id)?, self.qp_num(id, param)?);
        let has_srq = self.has_srq(id, Some(param))?;
        let mut private_data = self.header(id)?;
        private_data.extend(private);
        let (pkey, is_ethernet) = (self.ports[port].pkey, self.ports[port].is_ethernet);
        let ack_delay = self.devices[self.ports[port].device].ack_delay;
        let entry = self.id(id)?;
        let (path, number) = (entry.path.clone(), entry.dst.map_or(0, |dst| dst.port()));
        // SAFETY: a live id.
        let kind = unsafe { (*entry.raw).qp_type };
        let req = Req {
            service_id: entry.service_id(number),
            local_qpn: qpn,
            responder_resources: param.responder_resources.min(max),
            initiator_depth: param.initiator_depth.min(max),
            remote_cm_response_timeout: RESPONSE_TIMEOUT,
            transport_service_type: match kind {
                IBV_QPT_UC => 1,
                IBV_QPT_XRC_SEND => Req::EXTENDED,
                _ => 0,
            },
            extended_transport_type: if kind == IBV_QPT_XRC_SEND { Req::XRC } else { 0 },
            end_to_end_flow_control: param.flow_control != 0,
            starting_psn: starting_psn(),
            local_cm_response_timeout: RESPONSE_TIMEOUT,
            retry_count: param.retry_count.min(ENDLESS),
            partition_key: pkey,
            path_mtu: path.mtu,
            rnr_retry_count: param.rnr_retry_count.min(ENDLESS),
            max_cm_retries: MAX_RETRIES,
            srq: has_srq,
            primary_local_lid: if is_ethernet { PERMISSIVE_LID } else { path.slid },
            primary_remote_lid: if is_ethernet {
                PERMISSIVE_LID
            } else {
                path.route.dlid
            },
            primary_local_gid: path.sgid,
            primary_remote_gid: path.dgid,
            primary_flow_label: path.route.flow_label,
            primary_traffic_class: path.route.traffic_class,
            primary_hop_limit: path.route.hop_limit,
            primary_sl: path.route.sl,
            primary_subnet_local: !path.route.is_global,
            primary_local_ack_timeout: entry
                .ack_timeout
                .unwrap_or_else(|| ack_timeout(path.life_time, ack_delay)),
            private_data,
            ..Req::default()
        };
        entry.req = Some(Box::new(req.clone()));
        let (now, engine) = self.ports[port].timed();
        let connection = engine.connect(now, path.route, req).map_err(errno_of)?;
        let entry = self.id(id)?;
        (entry.connection, entry.phase) = (Some(connection), Phase::Connecting);
        self.connections.insert((port, connection), id);
        self.pump(port);
        Ok(())
    }

    fn look_up(&mut self, id: usize, private: &[u8]) -> Call<()> {
        let port = self.port_of(id)?;
        let mut private_data = self.header(id)?;
        private_data.extend(private);
        let pkey = self.ports[port].pkey;
        let entry = self.id(id)?;
        let req = SidrReq {
            partition_key: pkey,
            service_id: entry.service_id(entry.dst.map_or(0, |dst| dst.port())),
            private_data,
            ..SidrReq::default()
        };
        let route = entry.path.route.clone();
        let (now, engine) = self.ports[port].timed();
        let lookup = engine.look_up(now, route, req, RESPONSE_TIMEOUT, MAX_RETRIES);
        let entry = self.id(id)?;
        (entry.lookup, entry.phase) = (Some(lookup), Phase::Connecting);
        self.lookups.insert((port, lookup), id);
        self.pump(port);
        Ok(())
    }

    fn accept_connection(
        &mut self,
        id: usize,
        param: Option<&rdma_conn_param>,
        private_data: Vec<u8>,
    ) -> Call<()> {
        let port = self.port_of(id)?;
        let max = self.max_rd_atomic(id)?;
        let qpn = self.qp_num(id, param.unwrap_or(&rdma_conn_param::default()))?;
        let has_srq = self.has_srq(id, param)?;
        let entry = self.id(id)?;
        let (connection, req) = (entry.connection.ok_or(EINVAL)?, entry.req.as_ref().ok_or(EINVAL)?);
        // CM-34, CM-36: what was asked for, as far as this side can.
        let asked = (req.initiator_depth, req.responder_resources, req.rnr_retry_count);
        let (resources, depth, rnr) = param.map_or(asked, |param| {
            (
                param.responder_resources,
                param.initiator_depth,
                param.rnr_retry_count,
            )
        });
        let is_xrc = req.is_xrc();
        let rep = Rep {
            local_qpn: if is_xrc { 0 } else { qpn },
            local_eecn: if is_xrc { qpn } else { 0 },
            starting_psn: entry
                .rep
                .as_ref()
                .map_or_else(starting_psn, |rep| rep.starting_psn),
            responder_resources: resources.min(max),
            initiator_depth: depth.min(max).min(req.responder_resources),
            target_ack_delay: 4,
            failover_accepted: 1,
            end_to_end_flow_control: param.is_some_and(|param| param.flow_control != 0),
            rnr_retry_count: rnr.min(ENDLESS),
            srq: has_srq || is_xrc,
            private_data,
            ..Rep::default()
        };
        entry.rep = Some(Box::new(rep.clone()));
        if entry.has_qp() {
            entry.make_ready()?;
        }
        let (now, engine) = self.ports[port].timed();
        engine.accept(now, connection, rep).map_err(errno_of)?;
        self.answered(id);
        self.pump(port);
        Ok(())
    }

    fn answer(&mut self, id: usize, rep: SidrRep) -> Call<()> {
        let port = self.port_of(id)?;
        let token = self.id(id)?.lookup.ok_or(EINVAL)?;
        let (now, engine) = self.ports[port].timed();
        engine.answer_lookup(now, token, rep).map_err(errno_of)?;
        self.id(id)?.phase = Phase::Connected;
        self.answered(id);
        self.pump(port);
        Ok(())
    }

    fn refuse(&mut self, id: usize, reason: RejectReason, private: &[u8]) -> Call<()> {
        if self.id(id)?.is_ud() {
            let rep = SidrRep {
                status: SIDR_REJECTED,
                private_data: private.to_vec(),
                ..SidrRep::default()
            };
            return self.answer(id, rep);
        }
        let port = self.port_of(id)?;
        let connection = self.id(id)?.connection.ok_or(EINVAL)?;
        let (now, engine) = self.ports[port].timed();
        engine
            .reject(now, connection, reason as u16, private)
            .map_err(errno_of)?;
        self.connections.remove(&(port, connection));
        self.id(id)?.phase = Phase::Disconnected;
        self.answered(id);
        self.pump(port);
        Ok(())
    }

    fn disconnect(&mut self, id: usize) -> Call<()> {
        let port = self.port_of(id)?;
        let entry = self.id(id)?;
        entry.make_failed();
        let connection = entry.connection.ok_or(EINVAL)?;
        // The other side may have been first.
        if entry.phase == Phase::Disconnected {
            return Ok(());
        }
        let (now, engine) = self.ports[port].timed();
        engine.disconnect(now, connection).map_err(errno_of)?;
        self.pump(port);
        Ok(())
    }
}

/// rdma_connect (CM-33).
///
/// # Safety
/// As the manual page says.
pub unsafe fn connect(id: *mut rdma_cm_id, param: *mut rdma_conn_param) -> Call<()> {
    // SAFETY: the program's structure, or NULL.
    let given = unsafe { param.as_ref() };
    with(id, |cm, at| {
        let entry = cm.id(at)?;
        if entry.phase != Phase::RouteResolved {
            return Err(EINVAL);
        }
        let is_ud = entry.is_ud();
        let limit = if is_ud {
            PRIVATE_OF_LOOKUP
        } else {
            PRIVATE_OF_CONNECT
        };
        let param = given.copied().unwrap_or(rdma_conn_param {
            responder_resources: u8::MAX,
            initiator_depth: u8::MAX,
            retry_count: ENDLESS,
            rnr_retry_count: ENDLESS,
            ..Default::default()
        });
        // SAFETY: the program's private data.
        let private = unsafe { private_data(param.private_data, param.private_data_len, limit) }?;
        if is_ud {
            cm.look_up(at, &private)
        } else {
            cm.ask(at, &param, &private)
        }
    })?;
    complete(id)
}

/// rdma_accept (CM-34).
///
/// # Safety
/// As the manual page says.
pub unsafe fn accept(id: *mut rdma_cm_id, param: *mut rdma_conn_param) -> Call<()> {
    // SAFETY: the program's structure, or NULL.
    let given = unsafe { param.as_ref() };
    let is_ud = with(id, |cm, at| {
        let entry = cm.id(at)?;
        if !entry.is_passive || entry.phase != Phase::Connecting {
            return Err(EINVAL);
        }
        let is_ud = entry.is_ud();
        let limit = if is_ud {
            SidrRep::PRIVATE_BYTES
        } else {
            Rep::PRIVATE_BYTES
        };
        // SAFETY: the program's private data.
        let private =
            given.map(|param| unsafe { private_data(param.private_data, param.private_data_len, limit) });
        let private_data = private.transpose()?.unwrap_or_default();
        if is_ud {
            let qpn = cm.qp_num(at, given.unwrap_or(&rdma_conn_param::default()))?;
            let rep = SidrRep {
                qpn,
                qkey: UDP_QKEY,
                private_data,
                ..SidrRep::default()
            };
            cm.answer(at, rep)?;
        } else {
            cm.accept_connection(at, given, private_data)?;
        }
        Ok(is_ud)
    })?;
    if is_ud { Ok(()) } else { complete(id) }
}

/// rdma_reject, rdma_reject_ece (CM-41).
///
/// # Safety
/// As the manual page says.
pub unsafe fn reject(id: *mut rdma_cm_id, reason: RejectReason, data: *const c_void, len: u8) -> Call<()> {
    with(id, |cm, at| {
        let is_ud = cm.id(at)?.is_ud();
        let limit = if is_ud { SidrRep::PRIVATE_BYTES } else { 148 };
        // SAFETY: the program's private data.
        let private = unsafe { private_data(data, len, limit) }?;
        cm.refuse(at, reason, &private)
    })
}

/// rdma_establish (CM-39).
pub fn establish(id: *mut rdma_cm_id) -> Call<()> {
    with(id, |cm, at| {
        let port = cm.port_of(at)?;
        let entry = cm.id(at)?;
        let connection = entry.connection.ok_or(EINVAL)?;
        if entry.has_qp() {
            return Err(EINVAL);
        }
        cm.ports[port]
            .engine
            .establish(connection, &[])
            .map_err(errno_of)?;
        cm.id(at)?.phase = Phase::Connected;
        cm.pump(port);
        Ok(())
    })
}

/// rdma_disconnect (CM-42).
pub fn disconnect(id: *mut rdma_cm_id) -> Call<()> {
    let was_open = with(id, |cm, at| {
        let was_open = cm.id(at)?.phase != Phase::Disconnected;
        cm.disconnect(at)?;
        Ok(was_open)
    })?;
    if was_open { complete(id) } else { Ok(()) }
}

/// rdma_notify (CM-56).
pub fn notify(id: *mut rdma_cm_id, event: ibv_event_type) -> Call<()> {
    with(id, |cm, at| {
        let port = cm.port_of(at)?;
        let entry = cm.id(at)?;
        match (event, entry.connection) {
            (IBV_EVENT_COMM_EST, _) if entry.phase == Phase::Connected => Err(Errno(libc::EISCONN)),
            (IBV_EVENT_COMM_EST, Some(connection)) => {
                cm.ports[port].engine.data_arrived(connection).map_err(errno_of)?;
                cm.pump(port);
                Ok(())
            }
            _ => Err(EINVAL),
        }
    })
}

/// rdma_get_request (CM-40).
///
/// # Safety
/// As the manual page says.
pub unsafe fn get_request(listener: *mut rdma_cm_id, id: *mut *mut rdma_cm_id) -> Call<()> {
    // SAFETY: the program's variable, or NULL.
    let out = unsafe { id.as_mut() }.ok_or(EINVAL)?;
    let (channel, endpoint) = with(listener, |cm, at| {
        let entry = cm.id(at)?;
        if !entry.is_sync || entry.phase != Phase::Listening {
            return Err(EINVAL);
        }
        Ok((entry.channel.clone(), entry.endpoint))
    })?;
    // Before the request is taken: without a descriptor for it, it waits for the next call.
    *out = channel::opened(|own| {
        let event = channel.next()?;
        if event.raw.event != RDMA_CM_EVENT_CONNECT_REQUEST {
            acknowledge(event);
            return Err(EINVAL);
        }
        let new = event.raw.id;
        settle(new, own.clone(), event)?;
        if let Some((pd, mut attr)) = endpoint {
            with(new, |cm, at| cm.create_qp(at, (pd, null_mut()), &mut attr)).or_else(|errno| {
                destroy(new)?;
                Err(errno)
            })?;
        }
        Ok(new)
    })?;
    Ok(())
}

/// rdma_get_cm_event (CM-57).
///
/// # Safety
/// As the manual page says.
pub unsafe fn get_event(channel: *mut rdma_event_channel, event: *mut *mut rdma_cm_event) -> Call<()> {
    // SAFETY: the program's variable, or NULL.
    let out = unsafe { event.as_mut() }.ok_or(EINVAL)?;
    live::require_room()?;
    let event = channel::find(channel)?.next()?;
    *out = live::publish(Kind::Event, Box::into_raw(event))?.cast();
    Ok(())
}

/// rdma_ack_cm_event (CM-58).
pub fn ack_event(event: *mut rdma_cm_event) -> Call<()> {
    let event = event.cast::<EventObject>();
    live::retire(Kind::Event, event)?;
    // SAFETY: an event of rdma_get_cm_event, once.
    acknowledge(unsafe { Box::from_raw(event) });
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// CM-38: never shorter than both together.
    #[test]
    fn acknowledge_timeouts() {
        assert_eq!(ack_timeout(0, 15), ACK_TIMEOUT, "nobody has said the life time");
        for life_time in 1..=31u8 {
            for delay in 0..=31u8 {
                let whole = (2u64 << life_time) + (1u64 << delay);
                let found = ack_timeout(life_time, delay);
                assert!(
                    found == 31 || 1u64 << found >= whole / 2 + whole / 4,
                    "{life_time} {delay} {found}"
                );
                assert!(1u64 << found <= 2 * whole, "{life_time} {delay} {found}");
            }
        }
    }
}
