//! What comes from the wire becomes events of ids; and the thread of each port, which sees to it.

use std::ffi::c_int;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use hca_cm::ip::{self, Header};
use hca_cm::message::{Rep, Req, SidrRep, SidrReq};
use hca_cm::{CommunicationId, Event, RejectReason};

use crate::abi::*;
use crate::address::ip_of;
use crate::clock::Look;
use crate::errno::{Call, EINVAL, Errno, errno_of};
use crate::events::Param;
use crate::gsi::{Gsi, Route};
use crate::qp::{UDP_QKEY, starting_psn};
use crate::registry;
use crate::sa::{Answer, Purpose};
use crate::state::{Cm, Path, Phase, Port, cm};

/// How often the processes at the other ends of connections are looked at.
const LOOK: Duration = Duration::from_millis(500);
/// A thread waits no longer at once.
const REST_MAX: Duration = Duration::from_secs(60);

impl Cm {
    /// Opens QP1 of a port, and starts its thread.
    pub fn start_port(&mut self, port: usize) -> Call<()> {
        if self.ports[port].gsi.is_some() {
            return Ok(());
        }
        let context = self.devices[self.ports[port].device].context;
        // SAFETY: devices stay open.
        let gsi = unsafe { Gsi::open(context, self.ports[port].num) }?;
        let (fd, wake) = (gsi.fd(), self.ports[port].wake);
        self.ports[port].gsi = Some(gsi);
        // SAFETY: both sets are live; an all-zero one is valid to write to. The program's signals are for its threads.
        let old = unsafe {
            let (mut all, mut old) = (std::mem::zeroed(), std::mem::zeroed());
            libc::sigfillset(&mut all);
            libc::pthread_sigmask(libc::SIG_SETMASK, &all, &mut old);
            old
        };
        let thread = std::thread::Builder::new().name("rdma-cm".into());
        let started = thread.spawn(move || run(port, fd, wake));
        // SAFETY: the set came from the same call.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &old, std::ptr::null_mut()) };
        if let Err(error) = started {
            // Without a thread nobody would hear of what comes.
            self.ports[port].gsi = None;
            return Err(Errno(error.raw_os_error().unwrap_or(libc::EAGAIN)));
        }
        Ok(())
    }

    /// Sends what is to be sent, and tells what is to be told, until there is nothing more.
    pub fn pump(&mut self, port: usize) {
        self.work(port);
        // When it must look again may have changed.
        self.ports[port].wake();
    }

    fn work(&mut self, port: usize) {
        loop {
            let Port { engine, gsi, .. } = &mut self.ports[port];
            while let Some(transmit) = engine.poll_transmit() {
                // What cannot be sent is as good as lost: it is repeated, or given up in the end.
                let _ = gsi.as_mut().map(|gsi| gsi.send(&transmit.to, &transmit.mad));
            }
            let Some(event) = engine.poll_event() else { break };
            self.on_event(port, event);
        }
    }

    /// Looks after a port: what has come, and, where the card was asked about it, what is over. False: the card is
    /// gone.
    fn serve(&mut self, port: usize, asked: Option<Option<Look>>) -> bool {
        let Port {
            engine,
            gsi,
            sa,
            clock,
            next_look,
            ..
        } = &mut self.ports[port];
        let now = clock.now_ns_by(asked.flatten());
        let host = Instant::now();
        let looks = next_look.is_none_or(|at| at <= host);
        let received = gsi.as_mut().ok_or(EINVAL).and_then(Gsi::receive);
        let is_there = received.is_ok();
        let mut answers = Vec::new();
        for (mad, from) in received.unwrap_or_default() {
            match sa.receive(&mad) {
                Some(answer) => answers.push(answer),
                None => engine.receive(now, &mad, from),
            }
        }
        let (mut again, mut over) = (Vec::new(), Vec::new());
        if asked.is_some() {
            engine.handle_timeout(now);
            (again, over) = sa.expire(now);
        }
        for (to, mad) in again {
            // What cannot be sent is asked once more.
            let _ = gsi.as_mut().map(|gsi| gsi.send(&to, &mad));
        }
        if looks {
            self.look_for_the_dead(port, now);
            self.ports[port].next_look = Some(host + LOOK);
        }
        for (id, purpose, answer) in answers {
            self.administered(id, purpose, answer.ok_or(Errno(libc::EHOSTUNREACH)));
        }
        for (id, purpose) in over {
            self.administered(id, purpose, Err(Errno(libc::ETIMEDOUT)));
        }
        if !is_there {
            let gone: Vec<usize> = self
                .ids
                .iter()
                .filter(|(_, id)| id.port == Some(port))
                .map(|(id, _)| *id)
                .collect();
            for id in gone {
                self.tell(id, RDMA_CM_EVENT_DEVICE_REMOVAL, 0, Param::None, Vec::new());
            }
        }
        self.work(port);
        is_there
    }

    /// Where a kernel has the connection manager it says for a process that has died that its connections are over.
    /// Here nobody is left to say it: the other side sees by the process' lock on the card (registry.rs) that it is
    /// gone.
    fn look_for_the_dead(&mut self, port: usize, now: u64) {
        let Port { engine, peers, .. } = &mut self.ports[port];
        let live: Vec<_> = engine.peers().collect();
        peers.retain(|id, _| live.iter().any(|(other, ..)| other == id));
        for (id, guid, remote) in live {
            let is_gone = match registry::peer(guid, (remote >> 24) as u8) {
                registry::Peer::Unknown => false,
                registry::Peer::Gone => true,
                // Another one may have come in its place.
                registry::Peer::Lives(said) => *peers.entry(id).or_insert_with(|| said.clone()) != said,
            };
            if is_gone {
                peers.remove(&id);
                engine.peer_gone(now, id);
            }
        }
    }

    /// The subnet's administration has answered an id, or has not.
    fn administered(&mut self, id: usize, purpose: Purpose, answer: Call<Answer>) {
        match purpose {
            Purpose::Path => self.path_answered(id, answer),
            Purpose::Join {
                ip,
                mgid,
                context,
                receives,
            } => self.join_answered(id, (ip, mgid, receives), context, answer),
        }
    }

    fn on_event(&mut self, port: usize, event: Event<Route>) {
        match event {
            Event::Request { id, req, from } => {
                if self.on_request(port, id, req, from).is_err() {
                    let consumer = RejectReason::Consumer as u16;
                    let (now, engine) = self.ports[port].timed();
                    let _ = engine.reject(now, id, consumer, &[]);
                }
            }
            Event::Unserved {
                transaction_id,
                req,
                from,
            } => {
                if self.speaks_for_all(port, req.service_id) {
                    self.ports[port].engine.refuse(transaction_id, &req, from);
                }
            }
            Event::UnservedLookup {
                transaction_id,
                req,
                from,
            } => {
                if self.speaks_for_all(port, req.service_id) {
                    self.ports[port].engine.refuse_lookup(transaction_id, &req, from);
                }
            }
            Event::Reply { id, rep } => self.on_reply(port, id, rep),
            Event::Lookup { token, req, .. } => {
                if self.on_lookup(port, token, &req).is_err() {
                    let refused = SidrRep {
                        status: 2,
                        ..SidrRep::default()
                    };
                    let (now, engine) = self.ports[port].timed();
                    let _ = engine.answer_lookup(now, token, refused);
                }
            }
            Event::Found { id, rep } => self.on_found(port, id, rep),
            Event::NotFound { id } => {
                if let Some(id) = self.lookups.remove(&(port, id)) {
                    self.end(id, RDMA_CM_EVENT_UNREACHABLE, -libc::ETIMEDOUT, Vec::new());
                }
            }
            Event::Established { id, private_data } => {
                if let Some(id) = self.connected(port, id) {
                    let none = Param::Conn(rdma_conn_param::default());
                    self.tell(id, RDMA_CM_EVENT_ESTABLISHED, 0, none, private_data);
                }
            }
            Event::Rejected {
                id,
                reason,
                private_data,
            } => {
                if let Some(id) = self.connections.remove(&(port, id)) {
                    self.end(id, RDMA_CM_EVENT_REJECTED, reason.into(), private_data);
                }
            }
            Event::Unreachable { id } => {
                if let Some(id) = self.connections.remove(&(port, id)) {
                    self.end(id, RDMA_CM_EVENT_UNREACHABLE, -libc::ETIMEDOUT, Vec::new());
                }
            }
            Event::Disconnected { id } => {
                if let Some(&id) = self.connections.get(&(port, id)) {
                    self.set_phase(id, Phase::Disconnected);
                    if let Some(entry) = self.ids.get(&id).filter(|entry| entry.is_rsocket) {
                        entry.make_failed();
                    }
                    self.tell(id, RDMA_CM_EVENT_DISCONNECTED, 0, Param::None, Vec::new());
                }
            }
            Event::TimewaitExit { id } => {
                if let Some(id) = self.connections.remove(&(port, id)) {
                    self.tell(id, RDMA_CM_EVENT_TIMEWAIT_EXIT, 0, Param::None, Vec::new());
                }
            }
        }
    }

    fn set_phase(&mut self, id: usize, phase: Phase) {
        if let Ok(entry) = self.id(id) {
            entry.phase = phase;
        }
    }

    /// An attempt has come to nothing.
    fn end(&mut self, id: usize, kind: rdma_cm_event_type, status: c_int, private_data: Vec<u8>) {
        if let Ok(entry) = self.id(id) {
            entry.phase = Phase::RouteResolved;
            (entry.connection, entry.lookup) = (None, None);
            if kind == RDMA_CM_EVENT_REJECTED {
                entry.make_failed();
            }
        }
        self.tell(
            id,
            kind,
            status,
            Param::Conn(rdma_conn_param::default()),
            private_data,
        );
    }

    fn connected(&mut self, port: usize, connection: CommunicationId) -> Option<usize> {
        let id = *self.connections.get(&(port, connection))?;
        self.set_phase(id, Phase::Connected);
        Some(id)
    }

    /// Does nobody serve this, and is it this process that says so?
    fn speaks_for_all(&mut self, port: usize, service_id: u64) -> bool {
        let Port { device, num, .. } = self.ports[port];
        let guid = self.devices[device].guid;
        let is_served =
            ip::port_of(service_id).is_some_and(|(space, number)| registry::is_served(guid, space, number));
        if is_served {
            return false;
        }
        let speaker = &mut self.ports[port].speaker;
        if speaker.is_none() {
            *speaker = registry::speak_for_all(guid, num);
        }
        speaker.is_some()
    }

    /// A new id for who asks a listener, at the far end of a path.
    fn adopt(
        &mut self,
        port: usize,
        service_id: u64,
        kind: ibv_qp_type,
        source: Option<Header>,
        path: Path,
    ) -> Call<usize> {
        let listener = *self.listeners.get(&(port, service_id)).ok_or(EINVAL)?;
        let entry = self.id(listener)?;
        if entry.waiting >= entry.backlog {
            return Err(Errno(libc::ENOBUFS));
        }
        let number = ip::port_of(service_id).map_or(0, |(_, number)| number);
        let (own, peer) = match source {
            Some(header) => (header.destination, header.source),
            None => (ip_of(&path.sgid), SocketAddr::new(ip_of(&path.dgid), 0)),
        };
        let bound = entry.src.map(|src| src.ip()).filter(|ip| !ip.is_unspecified());
        if bound.is_some_and(|ip| ip != own) {
            return Err(EINVAL);
        }
        let (channel, raw) = (entry.channel.clone(), entry.raw);
        let endpoint = entry.endpoint;
        // SAFETY: a live id.
        let (context, ps, wanted) = unsafe { ((*raw).context, (*raw).ps, (*raw).qp_type) };
        // Only RDMA_PS_IB is for services of any kind.
        if kind != wanted && (ps != RDMA_PS_IB || kind == IBV_QPT_UD) {
            return Err(EINVAL);
        }
        let id = self.new_id(Some(channel), context, ps)?;
        // SAFETY: the new id.
        unsafe { (*self.id(id)?.raw).qp_type = kind };
        self.id(listener)?.waiting += 1;
        self.set_addresses(id, Some(SocketAddr::new(own, number)), Some(peer))?;
        self.attach(id, port)?;
        let entry = self.id(id)?;
        (entry.is_passive, entry.listener, entry.endpoint) = (true, listener, endpoint);
        (entry.path, entry.phase) = (path, Phase::Connecting);
        self.fill_path_record(id)?;
        Ok(id)
    }

    fn on_request(
        &mut self,
        port: usize,
        connection: CommunicationId,
        req: Box<Req>,
        from: Route,
    ) -> Call<()> {
        let own = &self.ports[port];
        let sgid_index = own.index_of(&req.primary_remote_gid).unwrap_or(from.sgid_index);
        let path = Path {
            route: Route {
                is_global: own.is_ethernet || !req.primary_subnet_local,
                dgid: req.primary_local_gid,
                sgid_index,
                hop_limit: req.primary_hop_limit.max(1),
                traffic_class: req.primary_traffic_class,
                flow_label: req.primary_flow_label,
                dlid: if own.is_ethernet { 0 } else { req.primary_local_lid },
                sl: req.primary_sl,
                src_path_bits: 0,
                port_num: own.num,
            },
            sgid: req.primary_remote_gid,
            dgid: req.primary_local_gid,
            slid: own.lid,
            mtu: req.path_mtu.clamp(1, own.mtu),
            ..Path::default()
        };
        let header = Header::parse(&req.private_data);
        let skip = if header.is_some() { ip::HEADER_BYTES } else { 0 };
        let kind = match req.transport_service_type {
            0 => IBV_QPT_RC,
            1 => IBV_QPT_UC,
            _ => IBV_QPT_XRC_RECV,
        };
        let id = self.adopt(port, req.service_id, kind, header, path)?;
        let private_data = req.private_data[skip..].to_vec();
        // CM-60: what the other side sends is what this one takes.
        let param = rdma_conn_param {
            responder_resources: req.initiator_depth,
            initiator_depth: req.responder_resources,
            flow_control: req.end_to_end_flow_control.into(),
            retry_count: req.retry_count,
            rnr_retry_count: req.rnr_retry_count,
            srq: req.srq.into(),
            qp_num: req.local_qpn,
            ..Default::default()
        };
        // A program that moves its QP itself may do so before it accepts.
        let max = self.max_rd_atomic(id)?;
        let rep = Rep {
            starting_psn: starting_psn(),
            responder_resources: req.initiator_depth.min(max),
            initiator_depth: req.responder_resources.min(max),
            ..Rep::default()
        };
        let entry = self.id(id)?;
        entry.rep = Some(Box::new(rep));
        (entry.connection, entry.req) = (Some(connection), Some(req));
        self.connections.insert((port, connection), id);
        self.tell(
            id,
            RDMA_CM_EVENT_CONNECT_REQUEST,
            0,
            Param::Conn(param),
            private_data,
        );
        Ok(())
    }

    fn on_reply(&mut self, port: usize, connection: CommunicationId, rep: Box<Rep>) {
        let Some(&id) = self.connections.get(&(port, connection)) else {
            return;
        };
        let param = rdma_conn_param {
            responder_resources: rep.initiator_depth,
            initiator_depth: rep.responder_resources,
            flow_control: rep.end_to_end_flow_control.into(),
            rnr_retry_count: rep.rnr_retry_count,
            srq: rep.srq.into(),
            qp_num: if rep.local_qpn == 0 {
                rep.local_eecn
            } else {
                rep.local_qpn
            },
            ..Default::default()
        };
        let private_data = rep.private_data.clone();
        let Ok(entry) = self.id(id) else { return };
        entry.rep = Some(rep);
        if !entry.has_qp() {
            let kind = RDMA_CM_EVENT_CONNECT_RESPONSE;
            return self.tell(id, kind, 0, Param::Conn(param), private_data);
        }
        let ready = entry.make_ready();
        let (now, engine) = self.ports[port].timed();
        if let Err(Errno(errno)) = ready {
            let _ = engine.reject(now, connection, RejectReason::Consumer as u16, &[]);
            self.connections.remove(&(port, connection));
            return self.end(id, RDMA_CM_EVENT_CONNECT_ERROR, -errno, Vec::new());
        }
        let _ = engine.establish(connection, &[]);
        self.set_phase(id, Phase::Connected);
        self.tell(id, RDMA_CM_EVENT_ESTABLISHED, 0, Param::Conn(param), private_data);
    }

    fn on_lookup(&mut self, port: usize, token: u32, req: &SidrReq) -> Call<()> {
        let header = Header::parse(&req.private_data).ok_or(EINVAL)?;
        if let Some((qpn, own)) = self.datagrams.get(&(port, req.service_id)) {
            if own.is_some_and(|own| own != header.destination) {
                return Err(EINVAL);
            }
            let rep = SidrRep {
                qpn: *qpn,
                qkey: UDP_QKEY,
                ..SidrRep::default()
            };
            let (now, engine) = self.ports[port].timed();
            return engine.answer_lookup(now, token, rep).map_err(errno_of);
        }
        let path = self.path_to(port, header.destination, header.source.ip(), 0)?;
        let id = self.adopt(port, req.service_id, IBV_QPT_UD, Some(header), path)?;
        self.id(id)?.lookup = Some(token);
        let private_data = req.private_data[ip::HEADER_BYTES..].to_vec();
        let param = Param::Ud(rdma_ud_param::default());
        self.tell(id, RDMA_CM_EVENT_CONNECT_REQUEST, 0, param, private_data);
        Ok(())
    }

    fn on_found(&mut self, port: usize, lookup: u32, rep: SidrRep) {
        let Some(id) = self.lookups.remove(&(port, lookup)) else {
            return;
        };
        if rep.status != 0 {
            return self.end(id, RDMA_CM_EVENT_UNREACHABLE, rep.status.into(), rep.private_data);
        }
        let Ok(entry) = self.id(id) else { return };
        entry.phase = Phase::Connected;
        let param = rdma_ud_param {
            ah_attr: entry.path.route.to_ah_attr(),
            qp_num: rep.qpn,
            qkey: rep.qkey,
            ..Default::default()
        };
        self.tell(
            id,
            RDMA_CM_EVENT_ESTABLISHED,
            0,
            Param::Ud(param),
            rep.private_data,
        );
    }
}

/// Looks after a port until the card is gone.
fn run(port: usize, fd: c_int, wake: c_int) {
    loop {
        // Nobody waits with the lock.
        let rest = cm().ports[port].rest();
        wait(fd, wake, rest);
        let context = {
            let cm = &mut *cm();
            let device = cm.ports[port].device;
            cm.ports[port].is_due().then(|| cm.devices[device].context)
        };
        // Only a card that has had the time is late; a stopped one answers when it goes on, and nobody waits behind us.
        // SAFETY: devices stay open.
        let asked = context.map(|context| unsafe { Look::take(context) });
        if !cm().serve(port, asked) {
            return;
        }
    }
}

/// Until a datagram has come, somebody has changed something, or the time is over.
fn wait(fd: c_int, wake: c_int, limit: Option<Duration>) {
    let timeout_ms = limit.map_or(-1, |limit| {
        limit.min(REST_MAX).as_micros().div_ceil(1000) as c_int
    });
    let mut polls = [fd, wake].map(|fd| libc::pollfd {
        fd,
        events: libc::POLLIN,
        revents: 0,
    });
    let mut count = [0u8; 8];
    // SAFETY: live pollfds, as many as named, and a live buffer of eight bytes.
    unsafe {
        libc::poll(polls.as_mut_ptr(), 2, timeout_ms);
        libc::read(wake, count.as_mut_ptr().cast(), count.len());
    }
}

impl Port {
    fn deadline_ns(&self) -> Option<u64> {
        let deadlines = [self.engine.next_timeout(), self.sa.deadline_ns()];
        deadlines.into_iter().flatten().min()
    }

    /// Is a time-out over, if the card keeps up?
    fn is_due(&self) -> bool {
        let now = self.clock.host_ns();
        self.deadline_ns().is_some_and(|deadline| deadline <= now)
    }

    /// How long its thread may wait.
    fn rest(&self) -> Option<Duration> {
        let now = self.clock.host_ns();
        let due = self
            .deadline_ns()
            .map(|at| Duration::from_nanos(at.saturating_sub(now)));
        let has_peers = self.engine.peers().next().is_some();
        let next_look = self.next_look.filter(|_| has_peers);
        let look = next_look.map(|at| at.saturating_duration_since(Instant::now()));
        due.into_iter().chain(look).min()
    }
}
