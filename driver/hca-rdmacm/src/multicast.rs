//! Multicast groups of ids (CM-52 to CM-54).

use std::ffi::c_void;

use hca_wire::{LID_MULTICAST, QPN_MULTICAST};

use crate::abi::*;
use crate::address::{self, Gid};
use crate::errno::{Call, EINVAL, Errno, verb};
use crate::flow::Param;
use crate::gsi::Route;
use crate::ids::complete;
use crate::qp::UDP_QKEY;
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
    fn join(&mut self, id: usize, addr: std::net::SocketAddr, receives: bool) -> Call<Route> {
        let port_at = self.port_of(id)?;
        let port = &self.ports[port_at];
        let mgid = address::multicast_gid(addr.ip(), port.is_ethernet, port.pkey).ok_or(EINVAL)?;
        let own = self.ids.get(&id).and_then(|id| id.src).map(|src| src.ip());
        let sgid_index = match own.and_then(|own| port.gid_index(own)) {
            Some(index) if port.is_ethernet => index,
            _ => 0,
        };
        let route = Route {
            is_global: true,
            dgid: mgid,
            sgid_index,
            hop_limit: 1,
            dlid: if port.is_ethernet { 0 } else { lid_of(&mgid) },
            port_num: port.num,
            ..Route::default()
        };
        let entry = self.id(id)?;
        if entry.has_qp() && receives {
            // SAFETY: a live id, and its QP.
            let code = unsafe { ibv_attach_mcast((*entry.raw).qp, &ibv_gid { raw: mgid }, route.dlid) };
            verb(code)?;
        }
        entry.groups.push((addr.ip(), mgid, route.dlid));
        Ok(route)
    }

    fn leave(&mut self, id: usize, ip: std::net::IpAddr) -> Call<()> {
        let entry = self.id(id)?;
        let at = entry.groups.iter().position(|(group, ..)| *group == ip);
        let (_, mgid, mlid) = entry.groups.remove(at.ok_or(Errno(libc::EADDRNOTAVAIL))?);
        if entry.has_qp() {
            // SAFETY: a live id, and its QP. One that only sends was never attached.
            unsafe { ibv_detach_mcast((*entry.raw).qp, &ibv_gid { raw: mgid }, mlid) };
        }
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
    with(id, |cm, at| {
        cm.port_of(at)?;
        let (kind, status, param) = match cm.join(at, addr, receives) {
            Ok(route) => {
                let ud = rdma_ud_param {
                    private_data: context,
                    ah_attr: route.to_ah_attr(),
                    qp_num: QPN_MULTICAST,
                    qkey: UDP_QKEY,
                    ..Default::default()
                };
                (RDMA_CM_EVENT_MULTICAST_JOIN, 0, ud)
            }
            Err(Errno(errno)) => {
                let ud = rdma_ud_param {
                    private_data: context,
                    ..Default::default()
                };
                (RDMA_CM_EVENT_MULTICAST_ERROR, -errno, ud)
            }
        };
        cm.tell(at, kind, status, Param::Ud(param), Vec::new());
        Ok(())
    })?;
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
