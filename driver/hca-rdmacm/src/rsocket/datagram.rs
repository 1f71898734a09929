//! Datagrams over UD. Each begins with who has sent it, as librdmacm's do. Where a socket has its QPs is asked of the
//! connection manager (SIDR), not of a socket of the host: cards have addresses that their hosts do not.

use std::collections::{HashMap, VecDeque};
use std::ffi::c_int;
use std::net::{IpAddr, SocketAddr};
use std::ptr::null_mut;

use super::config::Config;
use super::region::Region;
use super::stream::{Pieces, each_part};
use super::waits::{Transport, readable};
use crate::abi::*;
use crate::connect;
use crate::errno::{Call, EINVAL, Errno, last_errno, made, verb};
use crate::ids::{self, complete};
use crate::qp::UDP_QKEY;
use crate::state::{Cm, with};

const GRH_BYTES: usize = 40;
/// Header of an IPv4 sender, and of an IPv6 one.
const HEADERS: [(u8, usize); 2] = [(4, 8), (6, 24)];
const LONGEST_HEADER: usize = 24;
/// Places that a socket knows; who asks for more makes room by forgetting all.
const MAX_PLACES: usize = 4096;
const SEND: u64 = 1 << 32;
const BATCH: usize = 16;

/// Who has sent a datagram, as it is written in front of it; how long that is.
fn emit_header(from: SocketAddr) -> ([u8; LONGEST_HEADER], usize) {
    let mut bytes = [0; LONGEST_HEADER];
    let (version, len) = HEADERS[usize::from(from.is_ipv6())];
    (bytes[0], bytes[1]) = (version, len as u8);
    bytes[2..4].copy_from_slice(&from.port().to_be_bytes());
    match from.ip() {
        IpAddr::V4(ip) => bytes[4..8].copy_from_slice(&ip.octets()),
        // Behind the flow label.
        IpAddr::V6(ip) => bytes[8..24].copy_from_slice(&ip.octets()),
    }
    (bytes, len)
}

/// Who has sent a datagram, and where its data begins. None: it is no datagram of rsockets.
fn parse_header(bytes: &[u8]) -> Option<(SocketAddr, usize)> {
    let found = (*bytes.first()?, usize::from(*bytes.get(1)?));
    let len = HEADERS.iter().find(|header| **header == found)?.1;
    let bytes = bytes.get(..len)?;
    let ip: IpAddr = match len {
        8 => <[u8; 4]>::try_from(&bytes[4..]).ok()?.into(),
        _ => <[u8; 16]>::try_from(&bytes[8..]).ok()?.into(),
    };
    Some((SocketAddr::new(ip, u16::from_be_bytes([bytes[2], bytes[3]])), len))
}

/// A QP on a port of a card.
struct Endpoint {
    port: usize,
    port_num: u8,
    context: *mut ibv_context,
    pd: *mut ibv_pd,
    channel: *mut ibv_comp_channel,
    cq: *mut ibv_cq,
    qp: *mut ibv_qp,
    /// Slots of receives, and behind them those of sends.
    memory: Region,
    receives: usize,
    slot_bytes: usize,
    mtu: usize,
    free: Vec<usize>,
    sends: usize,
    is_armed: bool,
}

/// Where datagrams to an address go.
struct Place {
    endpoint: usize,
    ah: *mut ibv_ah,
    qpn: u32,
    own: IpAddr,
}

/// A datagram that has come.
struct Arrived {
    endpoint: usize,
    slot: usize,
    from: SocketAddr,
    at: usize,
    len: usize,
}

/// What a socket of datagrams has.
pub struct Datagrams {
    own: SocketAddr,
    pub peer: Option<SocketAddr>,
    endpoints: Vec<Endpoint>,
    places: HashMap<SocketAddr, Place>,
    queue: VecDeque<Arrived>,
    /// (port, service) of each endpoint, under which it can be looked up.
    services: Vec<(usize, u64)>,
    error: Option<Errno>,
}

// SAFETY: verbs may be called from any thread, and who owns this calls one at a time.
unsafe impl Send for Datagrams {}

impl Datagrams {
    /// Binds an id, with a QP on each port that it is bound to.
    pub fn bind(id: *mut rdma_cm_id, addr: SocketAddr, config: &Config) -> Call<Box<Self>> {
        with(id, |cm, at| {
            cm.bind(at, addr)?;
            let entry = cm.id(at)?;
            let (own, bound) = (entry.src.ok_or(EINVAL)?, entry.port);
            let service = entry.service_id(own.port());
            let ports = bound.map_or_else(|| (0..cm.ports.len()).collect(), |port| vec![port]);
            let mut this = Box::new(Self {
                own,
                peer: None,
                endpoints: Vec::new(),
                places: HashMap::new(),
                queue: VecDeque::new(),
                services: Vec::new(),
                error: None,
            });
            for &port in &ports {
                this.endpoints.push(Endpoint::new(cm, port, config)?);
            }
            cm.listen(at, 1)?;
            let asked = Some(own.ip()).filter(|ip| !ip.is_unspecified());
            for endpoint in &this.endpoints {
                let key = (endpoint.port, service);
                // SAFETY: a live QP.
                cm.datagrams
                    .insert(key, (unsafe { (*endpoint.qp).qp_num }, asked));
                this.services.push(key);
            }
            Ok(this)
        })
    }

    /// Does it know where an address has its QP?
    pub fn knows(&self, to: &SocketAddr) -> bool {
        self.places.contains_key(to)
    }

    /// It does now.
    pub fn learn(&mut self, to: SocketAddr, found: &Found) -> Call<()> {
        let endpoint = self
            .endpoints
            .iter()
            .position(|endpoint| endpoint.port == found.port);
        let endpoint = endpoint.ok_or(Errno(libc::ENETUNREACH))?;
        self.set_place(to, endpoint, found.attr, found.qpn, found.own)
    }

    fn set_place(
        &mut self,
        to: SocketAddr,
        endpoint: usize,
        mut attr: ibv_ah_attr,
        qpn: u32,
        own: IpAddr,
    ) -> Call<()> {
        if self.places.len() >= MAX_PLACES {
            self.forget_all();
        }
        // SAFETY: a live domain.
        let ah = made(unsafe { ibv_create_ah(self.endpoints[endpoint].pd, &mut attr) })?;
        let place = Place {
            endpoint,
            ah,
            qpn,
            own,
        };
        if let Some(old) = self.places.insert(to, place) {
            // SAFETY: made here, once. What is under way has the address with it.
            unsafe { ibv_destroy_ah(old.ah) };
        }
        Ok(())
    }

    fn forget_all(&mut self) {
        for place in self.places.drain().map(|(_, place)| place) {
            // SAFETY: made here, once.
            unsafe { ibv_destroy_ah(place.ah) };
        }
    }

    /// Can a datagram be sent there at once? Where it goes is known.
    pub fn can_send(&self, to: &SocketAddr) -> bool {
        self.places
            .get(to)
            .is_some_and(|place| !self.endpoints[place.endpoint].free.is_empty())
    }

    pub fn can_send_any(&self) -> bool {
        self.endpoints.iter().all(|endpoint| !endpoint.free.is_empty())
    }

    /// Has all that was sent left?
    pub fn is_drained(&self) -> bool {
        self.error.is_some()
            || self
                .endpoints
                .iter()
                .all(|endpoint| endpoint.free.len() == endpoint.sends)
    }

    /// Sends a datagram to a place that is known.
    pub fn send(&mut self, to: &SocketAddr, pieces: Pieces<'_>, len: usize) -> Call<()> {
        let place = self.places.get(to).ok_or(EINVAL)?;
        let own = match self.own.ip().is_unspecified() {
            true => place.own,
            false => self.own.ip(),
        };
        let (header, header_len) = emit_header(SocketAddr::new(own, self.own.port()));
        let endpoint = &mut self.endpoints[place.endpoint];
        if len > endpoint.mtu - header_len {
            return Err(Errno(libc::EMSGSIZE));
        }
        let slot = endpoint.free.pop().ok_or(Errno(libc::EAGAIN))?;
        let at = slot * endpoint.slot_bytes;
        // SAFETY: a slot has room for a header and as many bytes as the MTU allows; the pieces are the program's.
        unsafe {
            endpoint.memory.write(at, header.as_ptr(), header_len);
            let mut to = at + header_len;
            each_part(pieces, 0, len, |part, len| {
                endpoint.memory.write(to, part, len);
                to += len;
            });
        }
        let mut sge = endpoint.sge(at, header_len + len);
        let mut wr = ibv_send_wr {
            wr_id: SEND | slot as u64,
            sg_list: &mut sge,
            num_sge: 1,
            opcode: IBV_WR_SEND,
            ..Default::default()
        };
        wr.wr.ud.ah = place.ah;
        wr.wr.ud.remote_qpn = place.qpn;
        wr.wr.ud.remote_qkey = UDP_QKEY;
        let mut bad = null_mut();
        // SAFETY: a live QP and AH; the slot is not written before the completion.
        verb(unsafe {
            let post = (*endpoint.context).ops.post_send.ok_or(EINVAL)?;
            post(endpoint.qp, &mut wr, &mut bad)
        })
        .inspect_err(|_| endpoint.free.push(slot))
    }

    /// Is there a datagram to be read? Those of others than the peer are not for who has one.
    pub fn is_there(&mut self) -> bool {
        while let Some(first) = self.queue.front() {
            if self.peer.is_none_or(|peer| peer == first.from) {
                return true;
            }
            self.drop_first();
        }
        self.error.is_some()
    }

    /// The first datagram: its sender, its length, and as much of it as there is room for.
    pub fn receive(&mut self, into: Pieces<'_>, keeps: bool) -> Call<(SocketAddr, usize)> {
        let Some(first) = self.queue.front() else {
            return Err(self.error.take().unwrap_or(Errno(libc::EAGAIN)));
        };
        let endpoint = &self.endpoints[first.endpoint];
        let mut at = first.at;
        each_part(into, 0, first.len, |part, len| {
            // SAFETY: the program's memory, as long as it says, and a place inside the slot.
            unsafe { endpoint.memory.read(at, part.cast_mut(), len) };
            at += len;
        });
        let found = (first.from, first.len);
        if !keeps {
            self.drop_first();
        }
        Ok(found)
    }

    fn drop_first(&mut self) {
        if let Some(first) = self.queue.pop_front() {
            let posted = self.endpoints[first.endpoint].post_receive(first.slot);
            self.note(posted);
        }
    }

    fn note(&mut self, result: Call<()>) {
        if let Err(errno) = result {
            self.error.get_or_insert(errno);
        }
    }

    /// Something of an endpoint is done.
    fn on_completion(&mut self, at: usize, wc: &mut ibv_wc) -> Call<()> {
        let slot = wc.wr_id as u32 as usize;
        let endpoint = &mut self.endpoints[at];
        if wc.wr_id & SEND != 0 {
            // One that could not be sent is lost, as datagrams are.
            endpoint.free.push(slot);
            return Ok(());
        }
        let begin = slot * endpoint.slot_bytes;
        let len = (wc.byte_len as usize).saturating_sub(GRH_BYTES).min(endpoint.mtu);
        let header: [u8; LONGEST_HEADER] = endpoint.memory.get(begin + GRH_BYTES);
        let parsed = parse_header(&header[..len.min(LONGEST_HEADER)]);
        let Some((from, header_len)) = parsed.filter(|_| wc.status == IBV_WC_SUCCESS) else {
            return match wc.status {
                IBV_WC_SUCCESS => endpoint.post_receive(slot),
                _ => Err(Errno(libc::EIO)),
            };
        };
        self.queue.push_back(Arrived {
            endpoint: at,
            slot,
            from,
            at: begin + GRH_BYTES + header_len,
            len: len - header_len,
        });
        // Answers need not ask where they go.
        if self.places.get(&from).is_none_or(|place| place.qpn != wc.src_qp) {
            let endpoint = &self.endpoints[at];
            let (mut attr, grh) = (ibv_ah_attr::default(), endpoint.memory.addr() + begin as u64);
            // SAFETY: a completion with its 40 bytes in front of the data.
            let code = unsafe {
                ibv_init_ah_from_wc(
                    endpoint.context,
                    endpoint.port_num,
                    wc,
                    grh as *mut ibv_grh,
                    &mut attr,
                )
            };
            // One that cannot be answered can be read.
            if code == 0 {
                let own = crate::state::cm().own_ip(endpoint.port, from.ip());
                let own = own.unwrap_or(self.own.ip());
                let _ = self.set_place(from, at, attr, wc.src_qp, own);
            }
        }
        Ok(())
    }
}

impl Transport for Datagrams {
    fn process(&mut self) -> bool {
        let mut changed = false;
        for at in 0..self.endpoints.len() {
            loop {
                let mut found = [ibv_wc::default(); BATCH];
                let Endpoint { context, cq, .. } = self.endpoints[at];
                // SAFETY: a live CQ, and room for as many completions.
                let count = unsafe {
                    (*context)
                        .ops
                        .poll_cq
                        .map_or(-1, |poll| poll(cq, BATCH as c_int, found.as_mut_ptr()))
                };
                let Ok(count) = usize::try_from(count) else {
                    self.note(Err(Errno(libc::EIO)));
                    return true;
                };
                for wc in &mut found[..count] {
                    let done = self.on_completion(at, wc);
                    self.note(done);
                }
                changed |= count > 0;
                if count < BATCH {
                    break;
                }
            }
        }
        changed
    }

    fn arm(&mut self) -> bool {
        let mut was_armed = true;
        for endpoint in self.endpoints.iter_mut().filter(|endpoint| !endpoint.is_armed) {
            // SAFETY: a live CQ. If it cannot be armed, the card is gone, and polling says so.
            unsafe {
                if let Some(notify) = (*endpoint.context).ops.req_notify_cq {
                    notify(endpoint.cq, 0);
                }
            }
            (endpoint.is_armed, was_armed) = (true, false);
        }
        !was_armed
    }

    fn disarm(&mut self) {
        for endpoint in &mut self.endpoints {
            let (mut cq, mut cookie) = (null_mut(), null_mut());
            // SAFETY: a live channel that does not block; each event is acknowledged once.
            while unsafe { ibv_get_cq_event(endpoint.channel, &mut cq, &mut cookie) } == 0 {
                // SAFETY: as above.
                unsafe { ibv_ack_cq_events(endpoint.cq, 1) };
                endpoint.is_armed = false;
            }
        }
    }

    fn polls(&self) -> Vec<libc::pollfd> {
        // SAFETY: live as long as this.
        self.endpoints
            .iter()
            .map(|endpoint| readable(unsafe { (*endpoint.channel).fd }))
            .collect()
    }
}

impl Drop for Datagrams {
    fn drop(&mut self) {
        {
            let mut cm = crate::state::cm();
            for key in &self.services {
                cm.datagrams.remove(key);
            }
        }
        self.forget_all();
    }
}

impl Endpoint {
    fn new(cm: &mut Cm, port: usize, config: &Config) -> Call<Self> {
        let pd = cm.default_pd(port)?;
        let (device, port_num) = (cm.ports[port].device, cm.ports[port].num);
        let (context, mtu) = (cm.devices[device].context, 128usize << cm.ports[port].mtu.min(5));
        let mut attr = ibv_device_attr::default();
        // SAFETY: an open device.
        verb(unsafe { ibv_query_device(context, &mut attr) })?;
        let deepest = attr.max_qp_wr.min(attr.max_cqe / 2).max(1) as usize;
        let receives = (config.receive_queue as usize).min(deepest);
        let sends = (config.send_queue as usize).min(deepest);
        let slot_bytes = GRH_BYTES + mtu;
        // SAFETY: the domain is the card's, which stays open.
        let memory = unsafe { Region::new(pd, (receives + sends) * slot_bytes, IBV_ACCESS_LOCAL_WRITE) }?;
        let free = hca_room::slice(sends, |at| receives + sends - 1 - at)?.into_vec();
        let mut endpoint = Self {
            port,
            port_num,
            context,
            pd,
            channel: null_mut(),
            cq: null_mut(),
            qp: null_mut(),
            memory,
            receives,
            slot_bytes,
            mtu,
            free,
            sends,
            is_armed: false,
        };
        endpoint.open()?;
        for slot in 0..receives {
            endpoint.post_receive(slot)?;
        }
        Ok(endpoint)
    }

    fn open(&mut self) -> Call<()> {
        let entries = (self.receives + self.sends) as c_int;
        // SAFETY: an open device; what fails is taken down again with this endpoint.
        unsafe {
            self.channel = made(ibv_create_comp_channel(self.context))?;
            if libc::fcntl((*self.channel).fd, libc::F_SETFL, libc::O_NONBLOCK) < 0 {
                return Err(last_errno());
            }
            self.cq = made(ibv_create_cq(self.context, entries, null_mut(), self.channel, 0))?;
            let mut init = ibv_qp_init_attr {
                send_cq: self.cq,
                recv_cq: self.cq,
                cap: ibv_qp_cap {
                    max_send_wr: self.sends as u32,
                    max_recv_wr: self.receives as u32,
                    max_send_sge: 1,
                    max_recv_sge: 1,
                    max_inline_data: 0,
                },
                qp_type: IBV_QPT_UD,
                sq_sig_all: 1,
                ..Default::default()
            };
            self.qp = made(ibv_create_qp(self.pd, &mut init))?;
            let mut attr = ibv_qp_attr {
                port_num: self.port_num,
                qkey: UDP_QKEY,
                ..Default::default()
            };
            let steps = [
                (IBV_QPS_INIT, IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY),
                (IBV_QPS_RTR, 0),
                (IBV_QPS_RTS, IBV_QP_SQ_PSN),
            ];
            for (state, mask) in steps {
                attr.qp_state = state;
                verb(ibv_modify_qp(self.qp, &mut attr, (IBV_QP_STATE | mask) as c_int))?;
            }
        }
        Ok(())
    }

    fn sge(&self, at: usize, len: usize) -> ibv_sge {
        ibv_sge {
            addr: self.memory.addr() + at as u64,
            length: len as u32,
            lkey: self.memory.lkey(),
        }
    }

    fn post_receive(&self, slot: usize) -> Call<()> {
        let mut sge = self.sge(slot * self.slot_bytes, self.slot_bytes);
        let mut wr = ibv_recv_wr {
            wr_id: slot as u64,
            sg_list: &mut sge,
            num_sge: 1,
            ..Default::default()
        };
        let mut bad = null_mut();
        // SAFETY: a live QP; nobody reads the slot before it is filled.
        verb(unsafe {
            let post = (*self.context).ops.post_recv.ok_or(EINVAL)?;
            post(self.qp, &mut wr, &mut bad)
        })
    }
}

impl Drop for Endpoint {
    fn drop(&mut self) {
        // SAFETY: made here; nobody uses them any more.
        unsafe {
            if !self.qp.is_null() {
                ibv_destroy_qp(self.qp);
            }
            if !self.cq.is_null() {
                ibv_destroy_cq(self.cq);
            }
            if !self.channel.is_null() {
                ibv_destroy_comp_channel(self.channel);
            }
        }
    }
}

/// What the connection manager says of an address.
pub struct Found {
    port: usize,
    own: IpAddr,
    attr: ibv_ah_attr,
    qpn: u32,
}

/// Asks where an address has its QP; waits for the answer.
pub fn look_up(to: SocketAddr) -> Call<Found> {
    let id = ids::new_synchronous(RDMA_PS_UDP)?;
    let found = ask(id, to);
    // SAFETY: an id of this function.
    let _ = ids::destroy(id);
    found
}

fn ask(id: *mut rdma_cm_id, to: SocketAddr) -> Call<Found> {
    with(id, |cm, at| cm.resolve_addr(at, None, to))?;
    complete(id)?;
    with(id, |cm, at| cm.resolve_route(at))?;
    complete(id)?;
    // SAFETY: a live id, without private data.
    match unsafe { connect::connect(id, null_mut()) } {
        Ok(()) => {}
        Err(errno @ Errno(libc::ETIMEDOUT | libc::ENOMEM)) => return Err(errno),
        // The other side's card knows of no such service.
        Err(_) => return Err(Errno(libc::ECONNREFUSED)),
    }
    with(id, |cm, at| {
        let port = cm.port_of(at)?;
        let own = cm.id(at)?.src.ok_or(EINVAL)?.ip();
        // SAFETY: a live id, whose last event is the answer, which says this.
        let ud = unsafe { (*id).event.as_ref().ok_or(EINVAL)?.param.ud };
        Ok(Found {
            port,
            own,
            attr: ud.ah_attr,
            qpn: ud.qp_num,
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bytes as librdmacm writes them.
    #[test]
    fn headers_byte_by_byte() {
        let v4: SocketAddr = "10.0.0.1:7471".parse().unwrap();
        let (bytes, len) = emit_header(v4);
        assert_eq!(bytes[..len], [4, 8, 0x1d, 0x2f, 10, 0, 0, 1]);
        assert_eq!(parse_header(&bytes[..len]), Some((v4, 8)));
        let v6: SocketAddr = "[fd00::2]:1".parse().unwrap();
        let (bytes, len) = emit_header(v6);
        assert_eq!(len, 24);
        assert_eq!(bytes[..8], [6, 24, 0, 1, 0, 0, 0, 0]);
        assert_eq!(parse_header(&bytes), Some((v6, 24)));
        assert_eq!(parse_header(&bytes[..23]), None);
        for wrong in [
            &[][..],
            &[4],
            &[4, 24, 0, 0, 0, 0, 0, 0],
            &[5, 8, 0, 0, 0, 0, 0, 0],
            &[4, 8, 0],
        ] {
            assert_eq!(parse_header(wrong), None);
        }
    }
}
