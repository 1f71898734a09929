//! Multicast groups of ids (CM-52 to CM-54).

use std::ffi::c_void;
use std::net::IpAddr;

use hca_wire::{LID_MULTICAST, QPN_MULTICAST};

use crate::abi::*;
use crate::address::{self, Gid};
use crate::errno::{Call, EINVAL, Errno, verb};
use crate::events::Param;
use crate::gsi::Route;
use crate::ids::complete;
use crate::qp::UDP_QKEY;
use crate::sa::{self, Answer, Purpose};
use crate::state::{Cm, with};

/// Multicast LIDs that there are.
const LIDS: u16 = 0x3fff;

/// The LID of a group on a subnet without a manager that gives one: the same for all who join.
fn lid_of(mgid: &Gid) -> u16 {
    let sum = mgid.iter().fold(0u32, |sum, byte| {
        sum.wrapping_mul(31).wrapping_add((*byte).into())
    });
    LID_MULTICAST + (sum % u32::from(LIDS)) as u16
}

impl Cm {
    /// The way to a group by its address, and its GID; the LID is still to be said.
    fn way_to_group(&self, id: usize, ip: IpAddr) -> Call<Route> {
        let port = &self.ports[self.port_of(id)?];
        let mgid = address::multicast_gid(ip, port.is_ethernet, port.pkey).ok_or(EINVAL)?;
        let own = self.ids.get(&id).and_then(|id| id.src).map(|src| src.ip());
        let sgid_index = match own.and_then(|own| port.gid_index(own)) {
            Some(index) if port.is_ethernet => index,
            _ => 0,
        };
        Ok(Route {
            is_global: true,
            dgid: mgid,
            sgid_index,
            hop_limit: 1,
            port_num: port.num,
            ..Route::default()
        })
    }

    /// The id is of a group from now on.
    fn enter(&mut self, id: usize, ip: IpAddr, route: &Route, receives: bool) -> Call<()> {
        let entry = self.id(id)?;
        if entry.has_qp() && receives {
            // SAFETY: a live id, and its QP.
            let code = unsafe { ibv_attach_mcast((*entry.raw).qp, &ibv_gid { raw: route.dgid }, route.dlid) };
            verb(code)?;
        }
        entry.groups.push((ip, route.dgid, route.dlid, receives));
        Ok(())
    }

    /// MC-12: begins to join. The result is an event.
    fn join(&mut self, id: usize, ip: IpAddr, context: usize, receives: bool) -> Call<()> {
        let port = self.port_of(id)?;
        let manager = self.manager(port);
        let found = self.way_to_group(id, ip);
        if let (Some(manager), Ok(route)) = (manager, &found) {
            let mgid = route.dgid;
            let (_, own) = self.ports[port].gids.first().copied().ok_or(EINVAL)?;
            let mad = sa::join_request(&mgid, &own, self.ports[port].pkey, UDP_QKEY, receives);
            let purpose = Purpose::Join {
                ip,
                mgid,
                context,
                receives,
            };
            self.start_port(port)?;
            return self.ask_manager(id, port, manager, purpose, mad);
        }
        let joined = found.and_then(|mut route| {
            if !self.ports[port].is_ethernet {
                route.dlid = lid_of(&route.dgid);
            }
            self.enter(id, ip, &route, receives)?;
            Ok((route, UDP_QKEY))
        });
        self.tell_joined(id, context, joined);
        Ok(())
    }

    /// The subnet's administration has answered a join.
    pub fn join_answered(
        &mut self,
        id: usize,
        (ip, mgid, receives): (IpAddr, Gid, bool),
        context: usize,
        answer: Call<Answer>,
    ) {
        let joined = answer.and_then(|answer| {
            let route = Route {
                dgid: mgid,
                dlid: answer.dlid,
                sl: answer.sl,
                flow_label: answer.flow_label,
                traffic_class: answer.traffic_class,
                ..self.way_to_group(id, ip)?
            };
            self.enter(id, ip, &route, receives)?;
            Ok((route, answer.qkey))
        });
        self.tell_joined(id, context, joined);
    }

    fn tell_joined(&mut self, id: usize, context: usize, joined: Call<(Route, u32)>) {
        let mut param = rdma_ud_param {
            private_data: context as *const c_void,
            ..Default::default()
        };
        let (kind, status) = match joined {
            Ok((route, qkey)) => {
                (param.ah_attr, param.qp_num, param.qkey) = (route.to_ah_attr(), QPN_MULTICAST, qkey);
                (RDMA_CM_EVENT_MULTICAST_JOIN, 0)
            }
            Err(Errno(errno)) => (RDMA_CM_EVENT_MULTICAST_ERROR, -errno),
        };
        self.tell(id, kind, status, Param::Ud(param), Vec::new());
    }

    /// MC-13: the last one of the port has left. Whether it arrives is nobody's concern: the manager looks itself.
    fn tell_left(&mut self, id: usize, mgid: &Gid, receives: bool) -> Call<()> {
        let at = self.port_of(id)?;
        let is_same = |group: &(IpAddr, Gid, u16, bool)| group.1 == *mgid && group.3 == receives;
        let others = self.ids.values().filter(|other| other.port == Some(at));
        if others.flat_map(|other| &other.groups).any(is_same) {
            return Ok(());
        }
        let Some(manager) = self.manager(at) else {
            return Ok(());
        };
        let port = &mut self.ports[at];
        let (_, own) = port.gids.first().copied().ok_or(EINVAL)?;
        let mut mad = sa::leave_request(mgid, &own, receives);
        port.sa.number(&mut mad);
        let to = manager.route(port.num);
        port.gsi.as_mut().ok_or(EINVAL)?.send(&to, &mad)
    }

    fn leave(&mut self, id: usize, ip: IpAddr) -> Call<()> {
        let entry = self.id(id)?;
        let at = entry.groups.iter().position(|(group, ..)| *group == ip);
        let (_, mgid, mlid, receives) = entry.groups.remove(at.ok_or(Errno(libc::EADDRNOTAVAIL))?);
        if entry.has_qp() {
            // SAFETY: a live id, and its QP. One that only sends was never attached.
            unsafe { ibv_detach_mcast((*entry.raw).qp, &ibv_gid { raw: mgid }, mlid) };
        }
        let _ = self.tell_left(id, &mgid, receives);
        Ok(())
    }

    /// CM-14: a destroyed id leaves all its groups.
    pub fn leave_all(&mut self, id: usize) -> Call<()> {
        while let Some((ip, ..)) = self.id(id)?.groups.last().copied() {
            self.leave(id, ip)?;
        }
        Ok(())
    }
}

/// rdma_join_multicast, rdma_join_multicast_ex.
///
/// # Safety
/// As the manual page says.
pub unsafe fn join(
    id: *mut rdma_cm_id,
    addr: *const sockaddr,
    context: *mut c_void,
    receives: bool,
) -> Call<()> {
    // SAFETY: the program's address.
    let addr = unsafe { address::read(addr) }?;
    with(id, |cm, at| cm.join(at, addr.ip(), context as usize, receives))?;
    complete(id)
}

/// rdma_leave_multicast.
///
/// # Safety
/// As the manual page says.
pub unsafe fn leave(id: *mut rdma_cm_id, addr: *const sockaddr) -> Call<()> {
    // SAFETY: the program's address.
    let addr = unsafe { address::read(addr) }?;
    with(id, |cm, at| cm.leave(at, addr.ip()))
}
