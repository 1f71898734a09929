//! Ids: made, bound to addresses, resolved, and destroyed.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::ptr::null_mut;
use std::sync::Arc;

use hca_cm::Mad;

use crate::abi::*;
use crate::address::{self, gid_of, is_near};
use crate::channel::{self, Channel, EventObject};
use crate::errno::{Call, EINVAL, Errno};
use crate::events::Param;
use crate::gsi::Route;
use crate::registry::{self, Lease};
use crate::sa::{self, Answer, Manager, Purpose};
use crate::state::{Cm, Id, Path, Phase, Port, cm, with};

/// Requests that may wait at a listener whose program names no number, as Linux does.
const DEFAULT_BACKLOG: u32 = 1024;
const HOP_LIMIT: u8 = 64;

impl Cm {
    /// An id on a channel; without one it gets its own, and is synchronous.
    pub fn new_id(
        &mut self,
        channel: Option<Arc<Channel>>,
        context: *mut libc::c_void,
        ps: rdma_port_space,
    ) -> Call<usize> {
        let is_sync = channel.is_none();
        let channel = channel.map_or_else(Channel::open, Ok)?;
        let is_ud = matches!(ps, RDMA_PS_UDP | RDMA_PS_IPOIB);
        self.ids.try_reserve(1).map_err(|_| Errno(libc::ENOMEM))?;
        let raw = Box::into_raw(hca_room::boxed(rdma_cm_id {
            channel: channel.raw(),
            context,
            ps,
            qp_type: if is_ud { IBV_QPT_UD } else { IBV_QPT_RC },
            ..Default::default()
        })?);
        let id = Id {
            raw,
            channel,
            is_sync,
            phase: Phase::Idle,
            port: None,
            src: None,
            dst: None,
            lease: None,
            shares_port: false,
            path: Path::default(),
            connection: None,
            lookup: None,
            is_passive: false,
            req: None,
            rep: None,
            unacked: Arc::default(),
            waiting: 0,
            backlog: 0,
            listener: 0,
            endpoint: None,
            owns_cqs: false,
            has_xrc_srq: false,
            is_rsocket: false,
            traffic_class: 0,
            ack_timeout: None,
            groups: Vec::new(),
            path_rec: Box::default(),
        };
        self.ids.insert(raw as usize, id);
        Ok(raw as usize)
    }

    /// The addresses that the program sees.
    pub fn set_addresses(&mut self, id: usize, src: Option<SocketAddr>, dst: Option<SocketAddr>) -> Call<()> {
        let entry = self.id(id)?;
        // SAFETY: a live id, whose addresses have room for any.
        unsafe {
            let addr = &raw mut (*entry.raw).route.addr;
            if let Some(src) = src {
                address::write((&raw mut (*addr).__bindgen_anon_1).cast(), &src);
                entry.src = Some(src);
            }
            if let Some(dst) = dst {
                address::write((&raw mut (*addr).__bindgen_anon_2).cast(), &dst);
                entry.dst = Some(dst);
            }
        }
        Ok(())
    }

    /// CM-27: an address of this process' cards, or any.
    pub fn bind(&mut self, id: usize, addr: SocketAddr) -> Call<()> {
        self.open_devices()?;
        let entry = self.id(id)?;
        if entry.src.is_some() || entry.phase != Phase::Idle {
            return Err(EINVAL);
        }
        // SAFETY: a live id.
        let (space, shares) = (unsafe { (*entry.raw).ps } as u16, entry.shares_port);
        let ip = match addr.ip() {
            ip if ip.is_loopback() => self.own_ip(0, ip).ok_or(Errno(libc::EADDRNOTAVAIL))?,
            ip => ip,
        };
        let port = match ip.is_unspecified() {
            true => None,
            false => Some(self.port_with(ip).ok_or(Errno(libc::EADDRNOTAVAIL))?),
        };
        let lease = registry::take(&self.guids(port), space, addr.port(), shares)?;
        let src = SocketAddr::new(ip, lease.port);
        self.id(id)?.lease = Some(lease);
        if let Some(port) = port {
            self.attach(id, port)?;
        }
        self.set_addresses(id, Some(src), None)
    }

    /// An address of a port, of the family of another one and as near to it as there is.
    pub fn own_ip(&self, port: usize, peer: IpAddr) -> Option<IpAddr> {
        let same: Vec<IpAddr> = self
            .ports
            .get(port)?
            .ips()
            .filter(|ip| ip.is_ipv4() == peer.is_ipv4())
            .collect();
        let near = same.iter().find(|ip| is_near(**ip, peer));
        near.or_else(|| same.iter().find(|ip| !is_link_local(ip)))
            .copied()
    }

    pub fn listen(&mut self, id: usize, backlog: i32) -> Call<()> {
        if self.id(id)?.src.is_none() {
            self.bind(id, SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), 0))?;
        }
        let entry = self.id(id)?;
        if entry.phase != Phase::Idle {
            return Err(EINVAL);
        }
        let number = entry.src.map_or(0, |src| src.port());
        let (service, bound) = (entry.service_id(number), entry.port);
        let ports = bound.map_or_else(|| (0..self.ports.len()).collect(), |port| vec![port]);
        ports.iter().try_for_each(|port| self.start_port(*port))?;
        let listening = ports.iter().try_for_each(|&port| {
            let engine = &mut self.ports[port].engine;
            engine.listen(service).map_err(|_| Errno(libc::EADDRINUSE))?;
            self.listeners.insert((port, service), id);
            Ok(())
        });
        // Others see the service once somebody answers.
        let lease = &mut self.id(id)?.lease;
        listening
            .and_then(|()| lease.as_mut().map_or(Ok(()), Lease::announce))
            .inspect_err(|_| self.stop_listening(id))?;
        let entry = self.id(id)?;
        entry.phase = Phase::Listening;
        entry.backlog = u32::try_from(backlog)
            .ok()
            .filter(|n| *n > 0)
            .unwrap_or(DEFAULT_BACKLOG);
        Ok(())
    }

    /// How packets go from one of a port's addresses to another one.
    pub fn path_to(&self, port: usize, own: IpAddr, peer: IpAddr, traffic_class: u8) -> Call<Path> {
        let port = &self.ports[port];
        let unreachable = Errno(libc::EHOSTUNREACH);
        let mut path = Path {
            slid: port.lid,
            mtu: port.mtu,
            ..Path::default()
        };
        path.route = Route {
            is_global: port.is_ethernet,
            hop_limit: HOP_LIMIT,
            traffic_class,
            port_num: port.num,
            ..Route::default()
        };
        if port.is_ethernet {
            path.route.sgid_index = port.gid_index(own).ok_or(Errno(libc::EADDRNOTAVAIL))?;
            (path.sgid, path.dgid) = (gid_of(own), gid_of(peer));
        } else {
            let (_, first) = port.gids.first().ok_or(unreachable)?;
            let is_own = port.gid_index(peer).is_some();
            let known = is_own.then_some((port.lid, *first));
            let found = known.or_else(|| address::infiniband_neighbour(peer));
            (path.route.dlid, path.dgid) = found.ok_or(unreachable)?;
            path.sgid = *first;
        }
        path.route.dgid = path.dgid;
        Ok(path)
    }

    /// The port through which an address is reached, and the own address there.
    fn way_to(&self, id: &Id, peer: IpAddr) -> Option<(usize, IpAddr)> {
        let own = id.src.map(|src| src.ip()).filter(|ip| !ip.is_unspecified());
        if let Some(port) = id.port {
            return Some((port, own.or_else(|| self.own_ip(port, peer))?));
        }
        let all = || (0..self.ports.len()).filter_map(|port| Some((port, self.own_ip(port, peer)?)));
        all()
            .find(|(_, own)| is_near(*own, peer))
            .or_else(|| all().next())
    }

    /// CM-25: the result is an event.
    pub fn resolve_addr(&mut self, id: usize, src: Option<SocketAddr>, dst: SocketAddr) -> Call<()> {
        self.open_devices()?;
        if self.id(id)?.phase != Phase::Idle {
            return Err(EINVAL);
        }
        if let (Some(src), None) = (src, self.id(id)?.src) {
            self.bind(id, src)?;
        }
        let result = self.find_address(id, dst);
        let (kind, status) = match result {
            Ok(()) => (RDMA_CM_EVENT_ADDR_RESOLVED, 0),
            Err(Errno(errno)) => (RDMA_CM_EVENT_ADDR_ERROR, -errno),
        };
        self.tell(id, kind, status, Param::None, Vec::new());
        Ok(())
    }

    fn find_address(&mut self, id: usize, mut dst: SocketAddr) -> Call<()> {
        let no_way = Errno(libc::ENETUNREACH);
        // The program's own machine is, for its cards, its own card.
        let is_self = dst.ip().is_loopback() || dst.ip().is_unspecified();
        let entry = self.ids.get(&id).ok_or(EINVAL)?;
        let traffic_class = entry.traffic_class;
        let (port, own) = self.way_to(entry, dst.ip()).ok_or(no_way)?;
        if is_self {
            dst.set_ip(own);
        }
        let number = entry.src.map_or(0, |src| src.port());
        // SAFETY: a live id.
        let space = unsafe { (*entry.raw).ps } as u16;
        if number == 0 {
            let lease = registry::take(&self.guids(Some(port)), space, 0, false)?;
            self.id(id)?.lease = Some(lease);
        }
        let number = self.id(id)?.lease.as_ref().map_or(number, |lease| lease.port);
        self.attach(id, port)?;
        self.set_addresses(id, Some(SocketAddr::new(own, number)), Some(dst))?;
        self.start_port(port)?;
        // With a manager LIDs are what it says, which is asked with the route.
        let has_manager = self.manager(port).is_some();
        let path = if dst.ip().is_multicast() {
            Path::default()
        } else {
            self.path_to(port, own, dst.ip(), traffic_class)?
        };
        if !dst.ip().is_multicast() && !has_manager {
            // A neighbour that does not answer is not there.
            self.ports[port].gsi.as_mut().ok_or(EINVAL)?.reach(&path.route)?;
        }
        let entry = self.id(id)?;
        (entry.path, entry.phase) = (path, Phase::AddressResolved);
        Ok(())
    }

    /// CM-26.
    pub fn resolve_route(&mut self, id: usize) -> Call<()> {
        let entry = self.id(id)?;
        if entry.phase != Phase::AddressResolved {
            return Err(EINVAL);
        }
        let port = self.port_of(id)?;
        match self.manager(port) {
            Some(manager) => self.ask_path(id, port, manager),
            None => self.route_resolved(id),
        }
    }

    pub fn route_resolved(&mut self, id: usize) -> Call<()> {
        self.id(id)?.phase = Phase::RouteResolved;
        self.fill_path_record(id)?;
        self.tell(id, RDMA_CM_EVENT_ROUTE_RESOLVED, 0, Param::None, Vec::new());
        Ok(())
    }

    /// MGMT-3: the subnet's administration says how packets go; the result is an event.
    fn ask_path(&mut self, id: usize, port: usize, manager: Manager) -> Call<()> {
        if self.ports[port].sa.waits(id) {
            return Err(Errno(libc::EALREADY));
        }
        let path = self.id(id)?.path.clone();
        let mad = sa::path_request(&path.sgid, &path.dgid, self.ports[port].pkey);
        self.ask_manager(id, port, manager, Purpose::Path, mad)
    }

    /// Asks the subnet's administration.
    pub fn ask_manager(
        &mut self,
        id: usize,
        port: usize,
        manager: Manager,
        purpose: Purpose,
        mad: Mad,
    ) -> Call<()> {
        let now = self.ports[port].clock.now_ns();
        let Port { sa, gsi, num, .. } = &mut self.ports[port];
        let to = manager.route(*num);
        let asked = sa.ask(now, id, purpose, to.clone(), mad);
        let mad = asked.ok_or(Errno(libc::ENOMEM))?;
        // What cannot be sent is asked again.
        let _ = gsi.as_mut().ok_or(EINVAL)?.send(&to, &mad);
        self.ports[port].wake();
        Ok(())
    }

    /// The path that the subnet's administration has given. None: there is no way.
    pub fn path_answered(&mut self, id: usize, answer: Call<Answer>) {
        let took = answer.and_then(|answer| {
            let path = &mut self.id(id)?.path;
            (path.route.dlid, path.route.sl, path.slid) = (answer.dlid, answer.sl, answer.slid);
            (path.rate, path.life_time) = (answer.rate, answer.life_time);
            path.mtu = path.mtu.min(answer.mtu.max(1));
            self.route_resolved(id)
        });
        if let Err(Errno(errno)) = took {
            self.tell(id, RDMA_CM_EVENT_ROUTE_ERROR, -errno, Param::None, Vec::new());
        }
    }

    /// CM-13: the path, as programs read it.
    pub fn fill_path_record(&mut self, id: usize) -> Call<()> {
        let port = self.port_of(id)?;
        let pkey = self.ports[port].pkey;
        let entry = self.id(id)?;
        let Path {
            route,
            sgid,
            dgid,
            slid,
            mtu,
            rate,
            life_time,
        } = entry.path.clone();
        *entry.path_rec = ibv_sa_path_rec {
            dgid: ibv_gid { raw: dgid },
            sgid: ibv_gid { raw: sgid },
            dlid: route.dlid.to_be(),
            slid: slid.to_be(),
            flow_label: route.flow_label.to_be(),
            hop_limit: route.hop_limit,
            traffic_class: route.traffic_class,
            reversible: 1,
            numb_path: 1,
            pkey: pkey.to_be(),
            sl: route.sl,
            mtu_selector: 2,
            mtu,
            rate_selector: 2,
            rate,
            packet_life_time_selector: 2,
            packet_life_time: life_time,
            ..Default::default()
        };
        // SAFETY: a live id; the record lives as long.
        unsafe {
            let raw = entry.raw;
            (*raw).route.path_rec = &raw mut *entry.path_rec;
            (*raw).route.num_paths = 1;
            (*raw).route.addr.addr.ibaddr.sgid = ibv_gid { raw: sgid };
            (*raw).route.addr.addr.ibaddr.dgid = ibv_gid { raw: dgid };
        }
        Ok(())
    }

    /// One request less waits at the listener.
    pub fn answered(&mut self, id: usize) {
        let listener = self
            .ids
            .get_mut(&id)
            .map(|entry| std::mem::take(&mut entry.listener));
        if let Some(listener) = listener.and_then(|listener| self.ids.get_mut(&listener)) {
            listener.waiting = listener.waiting.saturating_sub(1);
        }
    }

    fn stop_listening(&mut self, id: usize) {
        let Self { listeners, ports, .. } = self;
        listeners.retain(|&(port, service), listener| {
            let is_its = *listener == id;
            if is_its {
                ports[port].engine.unlisten(service);
            }
            !is_its
        });
    }

    /// Takes an id out of everything, and frees it.
    fn remove(&mut self, id: usize) {
        self.answered(id);
        let _ = self.leave_all(id);
        let Some(entry) = self.ids.remove(&id) else { return };
        self.stop_listening(id);
        self.connections.retain(|_, of| *of != id);
        self.lookups.retain(|_, of| *of != id);
        if let Some(port) = entry.port {
            self.ports[port].sa.forget(id);
            let (now, engine) = self.ports[port].timed();
            if let Some(connection) = entry.connection {
                engine.forget(now, connection);
            }
            if let Some(lookup) = entry.lookup.filter(|_| !entry.is_passive) {
                engine.cancel_lookup(lookup);
            }
            self.pump(port);
        }
        if entry.is_sync {
            channel::close(entry.channel.raw());
        }
        // SAFETY: it was a box, and nobody knows it any more.
        drop(unsafe { Box::from_raw(entry.raw) });
    }
}

fn is_link_local(ip: &IpAddr) -> bool {
    matches!(ip, IpAddr::V6(ip) if ip.is_unicast_link_local())
}

/// rdma_create_id.
///
/// # Safety
/// As the manual page says.
pub unsafe fn create(
    channel: *mut rdma_event_channel,
    id: *mut *mut rdma_cm_id,
    context: *mut libc::c_void,
    ps: rdma_port_space,
) -> Call<()> {
    // SAFETY: the program's variable, or NULL.
    let id = unsafe { id.as_mut() }.ok_or(EINVAL)?;
    if !matches!(ps, RDMA_PS_TCP | RDMA_PS_UDP | RDMA_PS_IPOIB | RDMA_PS_IB) {
        return Err(EINVAL);
    }
    let channel = (!channel.is_null()).then(|| channel::find(channel)).transpose()?;
    *id = cm().new_id(channel, context, ps)? as *mut rdma_cm_id;
    Ok(())
}

/// A new id with a channel of its own.
pub fn new_synchronous(ps: rdma_port_space) -> Call<*mut rdma_cm_id> {
    let mut id = null_mut();
    // SAFETY: a variable of this function.
    unsafe { create(null_mut(), &mut id, null_mut(), ps) }?;
    Ok(id)
}

/// CM-14: waits until the program has acknowledged what it was told.
pub fn destroy(id: *mut rdma_cm_id) -> Call<()> {
    let (unacked, taken) = with(id, |cm, at| {
        cm.release_event(at)?;
        let entry = cm.id(at)?;
        Ok((entry.unacked.clone(), take_back(&entry.channel, id)))
    })?;
    // Requests that the program has never seen go with their listener.
    for event in taken.iter().filter(|event| event.raw.listen_id == id) {
        cm().remove(event.raw.id as usize);
    }
    unacked.wait();
    let mut cm = cm();
    cm.destroy_qp(id as usize)?;
    cm.remove(id as usize);
    Ok(())
}

/// Events of an id that nobody has fetched.
#[allow(clippy::vec_box, reason = "programs know events by their addresses")]
fn take_back(channel: &Channel, id: *mut rdma_cm_id) -> Vec<Box<EventObject>> {
    channel.take_back(|event| event.raw.id == id || event.raw.listen_id == id)
}

/// The program has no more use for an event.
#[allow(clippy::boxed_local, reason = "it is the program's box that ends here")]
pub fn acknowledge(event: Box<EventObject>) {
    event.waits.iter().for_each(|unacked| unacked.sub());
}

impl Cm {
    /// CM-2: the event of the last call of a synchronous id is the library's own.
    fn release_event(&mut self, id: usize) -> Call<()> {
        let raw = self.id(id)?.raw;
        // SAFETY: a live id.
        let event = unsafe { std::mem::replace(&mut (*raw).event, null_mut()) };
        if !event.is_null() {
            // SAFETY: it was a box, and the id's alone.
            acknowledge(unsafe { Box::from_raw(event.cast::<EventObject>()) });
        }
        Ok(())
    }

    /// What the id was told, and will be, comes by another channel.
    fn move_to(&mut self, id: usize, channel: Arc<Channel>, is_sync: bool) -> Call<()> {
        let entry = self.id(id)?;
        let old = std::mem::replace(&mut entry.channel, channel);
        for event in take_back(&old, entry.raw) {
            entry.channel.push(event);
        }
        // SAFETY: a live id.
        unsafe { (*entry.raw).channel = entry.channel.raw() };
        if std::mem::replace(&mut entry.is_sync, is_sync) {
            channel::close(old.raw());
        }
        Ok(())
    }
}

/// CM-15: the id's events come by another channel from now on; NULL: it becomes synchronous.
pub fn migrate(id: *mut rdma_cm_id, channel: *mut rdma_event_channel) -> Call<()> {
    let unacked = with(id, |cm, at| {
        let unacked = cm.id(at)?.unacked.clone();
        cm.release_event(at).map(|()| unacked)
    })?;
    let move_to = |channel: &Arc<Channel>, is_sync| {
        unacked.wait();
        with(id, |cm, at| cm.move_to(at, channel.clone(), is_sync))
    };
    match channel.is_null() {
        true => channel::opened(|own| move_to(own, true)),
        false => move_to(&channel::find(channel)?, false),
    }
}

/// A new id of a listener becomes synchronous, and keeps the event that it came by.
pub fn settle(id: *mut rdma_cm_id, channel: Arc<Channel>, event: Box<EventObject>) -> Call<()> {
    let mut event = Some(event);
    let settled = with(id, |cm, at| {
        cm.move_to(at, channel, true)?;
        // SAFETY: a live id.
        unsafe { (*cm.id(at)?.raw).event = event.take().map_or(null_mut(), Box::into_raw).cast() };
        Ok(())
    });
    event.into_iter().for_each(acknowledge);
    settled
}

/// CM-2: of a synchronous id, waits for what was begun, and keeps the event.
pub fn complete(id: *mut rdma_cm_id) -> Call<()> {
    let channel = with(id, |cm, at| {
        cm.release_event(at)?;
        let entry = cm.id(at)?;
        Ok(entry.is_sync.then(|| entry.channel.clone()))
    })?;
    let Some(channel) = channel else { return Ok(()) };
    let event = channel.next()?;
    let (kind, status) = (event.raw.event, event.raw.status);
    with(id, |cm, at| {
        let entry = cm.id(at)?;
        // SAFETY: a live id.
        unsafe { (*entry.raw).event = Box::into_raw(event).cast() };
        match (kind, status) {
            (RDMA_CM_EVENT_REJECTED, _) => Err(Errno(libc::ECONNREFUSED)),
            (_, 0) => Ok(()),
            (_, status) => Err(Errno(status.abs())),
        }
    })
}
