//! The engine: connections of one port.

use std::collections::{HashMap, HashSet};

use crate::api::{CommunicationId, Config, Error, Event, Transmit};
use crate::connection::{Connection, State, ns_of};
use crate::message::{Apr, Drep, Dreq, Lap, Mad, Message, Mra, Rej, RejectReason, Rep, Req, Rtu, SidrReq};
use crate::outbox::Outbox;
use crate::sidr::Sidr;

/// Low bits of a communication ID: a counter. The others are the engine's.
const COUNTER_BITS: u32 = 24;
/// What an MRA asks for: 4.096 us << 24 is 69 s, as Linux does.
const SERVICE_TIMEOUT: u8 = 24;
/// IBA vol1 12.6.6: which message an MRA or REJ is about.
const ABOUT_REQ: u8 = 0;
const ABOUT_REP: u8 = 1;
const ABOUT_NONE: u8 = 2;
/// APR status: not supported.
const APR_UNSUPPORTED: u8 = 2;

/// All connections of a port. `R`: where datagrams go.
pub struct Engine<R> {
    config: Config,
    connections: HashMap<CommunicationId, Connection<R>>,
    /// By card and communication ID of the other side, from its request on.
    requests: HashMap<(u64, u32), CommunicationId>,
    services: HashSet<u64>,
    pub(crate) sidr: Sidr<R>,
    next_id: u32,
    next_transaction: u64,
    pub(crate) out: Outbox<R>,
}

impl<R: Clone + PartialEq> Engine<R> {
    /// An engine without connections.
    pub fn new(config: Config) -> Self {
        Self {
            config,
            connections: HashMap::new(),
            requests: HashMap::new(),
            services: HashSet::new(),
            sidr: Sidr::default(),
            next_id: config.seed as u32,
            next_transaction: config.seed ^ u64::from(config.id_prefix) << 56,
            out: Outbox::new(),
        }
    }

    /// The next datagram to send.
    pub fn poll_transmit(&mut self) -> Option<Transmit<R>> {
        self.out.transmits.pop_front()
    }

    /// The next event.
    pub fn poll_event(&mut self) -> Option<Event<R>> {
        self.out.events.pop_front()
    }

    /// Connections that there are, those in timewait among them.
    pub fn connections(&self) -> usize {
        self.connections.len()
    }

    /// Requests for the service become events.
    pub fn listen(&mut self, service_id: u64) -> Result<(), Error> {
        if self.services.insert(service_id) {
            Ok(())
        } else {
            Err(Error::ServiceInUse(service_id))
        }
    }

    /// No more of them.
    pub fn unlisten(&mut self, service_id: u64) {
        self.services.remove(&service_id);
    }

    fn is_served(&self, service_id: u64) -> bool {
        self.services.contains(&service_id)
    }

    pub(crate) fn new_transaction(&mut self) -> u64 {
        self.next_transaction = self.next_transaction.wrapping_add(1);
        self.next_transaction
    }

    pub(crate) fn new_id(&mut self) -> CommunicationId {
        loop {
            self.next_id = self.next_id.wrapping_add(1);
            let counter = self.next_id & ((1 << COUNTER_BITS) - 1);
            let id = u32::from(self.config.id_prefix) << COUNTER_BITS | counter;
            if counter != 0 && !self.connections.contains_key(&id) && !self.sidr.has(id) {
                return id;
            }
        }
    }

    fn send(&mut self, to: R, mad: Mad) {
        self.out.send(to, mad);
    }

    fn find(&mut self, id: CommunicationId) -> Result<&mut Connection<R>, Error> {
        self.connections.get_mut(&id).ok_or(Error::NoConnection(id))
    }

    fn tell(&mut self, orphan: bool, event: Event<R>) {
        if !orphan {
            self.out.tell(event);
        }
    }

    fn remove(&mut self, id: CommunicationId) {
        if let Some(connection) = self.connections.remove(&id) {
            let key = (connection.remote_ca_guid, connection.remote_id);
            if self.requests.get(&key) == Some(&id) {
                self.requests.remove(&key);
            }
        }
    }

    // ---- What the user does --------------------------------------------------------------------------

    /// Asks for a connection. Communication ID and GUID of the request are filled in here.
    pub fn connect(&mut self, now: u64, to: R, mut req: Req) -> Result<CommunicationId, Error> {
        if self.connections.len() >= self.config.max_connections {
            return Err(Error::TooMany(self.config.max_connections));
        }
        let id = self.new_id();
        req.local_communication_id = id;
        req.local_ca_guid = self.config.ca_guid;
        let transaction_id = self.new_transaction();
        let mut connection = Connection::new(State::ReqSent, to.clone(), transaction_id, &req);
        let mad = Message::from(req).emit(transaction_id);
        connection.say(now, State::ReqSent, mad);
        self.connections.insert(id, connection);
        self.send(to, mad);
        Ok(id)
    }

    /// Accepts a request.
    pub fn accept(&mut self, now: u64, id: CommunicationId, mut rep: Rep) -> Result<(), Error> {
        let ca_guid = self.config.ca_guid;
        let connection = self.find(id)?;
        if connection.state != State::ReqReceived {
            return Err(Error::WrongState(id));
        }
        rep.local_communication_id = id;
        rep.remote_communication_id = connection.remote_id;
        rep.local_ca_guid = ca_guid;
        let mad = Message::from(rep).emit(connection.transaction_id);
        connection.say(now, State::RepSent, mad);
        let to = connection.to.clone();
        self.send(to, mad);
        Ok(())
    }

    /// Active side: the QP is ready, the other one may send.
    pub fn establish(&mut self, id: CommunicationId, private_data: &[u8]) -> Result<(), Error> {
        let connection = self.find(id)?;
        if connection.state != State::RepReceived {
            return Err(Error::WrongState(id));
        }
        let rtu = Rtu {
            local_communication_id: id,
            remote_communication_id: connection.remote_id,
            private_data: private_data.to_vec(),
        };
        let mad = Message::from(rtu).emit(connection.transaction_id);
        connection.rest(State::Established, Some(mad));
        let to = connection.to.clone();
        self.send(to, mad);
        Ok(())
    }

    /// Passive side: data has come before the word that the other side is ready.
    pub fn data_arrived(&mut self, id: CommunicationId) -> Result<(), Error> {
        let connection = self.find(id)?;
        if connection.state != State::RepSent {
            return Err(Error::WrongState(id));
        }
        self.established(id, Vec::new());
        Ok(())
    }

    fn established(&mut self, id: CommunicationId, private_data: Vec<u8>) {
        if let Ok(connection) = self.find(id) {
            connection.rest(State::Established, None);
            let orphan = connection.orphan;
            self.tell(orphan, Event::Established { id, private_data });
        }
    }

    /// Passive side: no; active side: no after all. The connection is gone for the user.
    pub fn reject(
        &mut self,
        now: u64,
        id: CommunicationId,
        reason: u16,
        private_data: &[u8],
    ) -> Result<(), Error> {
        let connection = self.find(id)?;
        let about = match connection.state {
            State::ReqReceived => ABOUT_REQ,
            State::RepReceived => ABOUT_REP,
            State::RepSent => ABOUT_NONE,
            _ => return Err(Error::WrongState(id)),
        };
        let rej = Rej {
            local_communication_id: id,
            remote_communication_id: connection.remote_id,
            message_rejected: about,
            reason,
            private_data: private_data.to_vec(),
            ..Rej::default()
        };
        let mad = Message::from(rej).emit(connection.transaction_id);
        let to = connection.to.clone();
        connection.rest(State::Refused, Some(mad));
        connection.deadline = Some(now + connection.interval_ns * (u64::from(connection.max_retries) + 1));
        connection.orphan = true;
        self.send(to, mad);
        Ok(())
    }

    /// Ends a connection that is established.
    pub fn disconnect(&mut self, now: u64, id: CommunicationId) -> Result<(), Error> {
        let transaction_id = self.new_transaction();
        let connection = self.find(id)?;
        if !matches!(connection.state, State::Established | State::RepSent) {
            return Err(Error::WrongState(id));
        }
        let dreq = Dreq {
            local_communication_id: id,
            remote_communication_id: connection.remote_id,
            remote_qpn: connection.remote_qpn,
            private_data: Vec::new(),
        };
        let mad = Message::from(dreq).emit(transaction_id);
        connection.say(now, State::DreqSent, mad);
        let to = connection.to.clone();
        self.send(to, mad);
        Ok(())
    }

    /// The user has no more interest: what is open is closed as it is fit, and no event names the connection any more.
    pub fn forget(&mut self, now: u64, id: CommunicationId) {
        let Ok(connection) = self.find(id) else { return };
        connection.orphan = true;
        match connection.state {
            State::ReqSent => self.give_up(id, ABOUT_NONE),
            State::ReqReceived | State::RepReceived => {
                let consumer = RejectReason::Consumer as u16;
                let _ = self.reject(now, id, consumer, &[]);
            }
            State::RepSent | State::Established => {
                let _ = self.disconnect(now, id);
            }
            State::DreqSent | State::Timewait | State::Refused => {}
        }
    }

    /// Says REJ for a request that nobody on the port serves.
    pub fn refuse(&mut self, transaction_id: u64, req: &Req, to: R) {
        self.reject_request(transaction_id, req, to, RejectReason::InvalidServiceId);
    }

    fn reject_request(&mut self, transaction_id: u64, req: &Req, to: R, reason: RejectReason) {
        let rej = Rej {
            remote_communication_id: req.local_communication_id,
            message_rejected: ABOUT_REQ,
            reason: reason as u16,
            ..Rej::default()
        };
        self.send(to, Message::from(rej).emit(transaction_id));
    }

    // ---- What comes in -------------------------------------------------------------------------------

    /// A datagram has come. What is not understood, or not for this engine, is dropped.
    pub fn receive(&mut self, now: u64, mad: &Mad, from: R) {
        let Some((transaction_id, message)) = Message::parse(mad) else {
            return;
        };
        match message {
            Message::Req(req) => self.on_req(now, transaction_id, req, from),
            Message::Rep(rep) => self.on_rep(rep),
            Message::Rtu(rtu) => self.on_rtu(rtu),
            Message::Rej(rej) => self.on_rej(rej),
            Message::Mra(mra) => self.on_mra(now, &mra),
            Message::Dreq(dreq) => self.on_dreq(now, transaction_id, &dreq, from),
            Message::Drep(drep) => self.on_drep(now, &drep),
            Message::Lap(lap) => self.on_lap(transaction_id, &lap),
            Message::Apr(_) => {}
            Message::SidrReq(req) => self.on_sidr_req(now, transaction_id, req, from),
            Message::SidrRep(rep) => self.sidr.on_answer(rep, &mut self.out),
        }
    }

    fn on_sidr_req(&mut self, now: u64, transaction_id: u64, req: SidrReq, from: R) {
        if self.sidr.repeat_answer(&req, &from, &mut self.out) {
            return;
        }
        if self.is_served(req.service_id) {
            return self.sidr.ask(now, transaction_id, req, from, &mut self.out);
        }
        self.out.tell(Event::UnservedLookup {
            transaction_id,
            req,
            from,
        });
    }

    fn on_req(&mut self, now: u64, transaction_id: u64, req: Req, from: R) {
        let key = (req.local_ca_guid, req.local_communication_id);
        if let Some(&id) = self.requests.get(&key) {
            return self.repeat_answer(id);
        }
        if !self.is_served(req.service_id) {
            let req = Box::new(req);
            self.out.tell(Event::Unserved {
                transaction_id,
                req,
                from,
            });
            return;
        }
        if req.transport_service_type > 1 && !req.is_xrc() {
            let reason = RejectReason::InvalidTransportServiceType;
            return self.reject_request(transaction_id, &req, from, reason);
        }
        // 12.9.8.3.1: the other side has begun anew with a QP that is connected here.
        if let Some(stale) = self.connected_with(req.local_ca_guid, req.local_qpn) {
            self.end_stale(now, stale);
            let reason = RejectReason::StaleConnection;
            return self.reject_request(transaction_id, &req, from, reason);
        }
        if self.connections.len() >= self.config.max_connections {
            return self.reject_request(transaction_id, &req, from, RejectReason::NoResources);
        }
        let id = self.new_id();
        let mut connection = Connection::new(State::ReqReceived, from.clone(), transaction_id, &req);
        connection.remote_id = req.local_communication_id;
        connection.remote_ca_guid = req.local_ca_guid;
        connection.remote_qpn = req.local_qpn;
        self.connections.insert(id, connection);
        self.requests.insert(key, id);
        let req = Box::new(req);
        self.out.tell(Event::Request { id, req, from });
    }

    fn connected_with(&self, ca_guid: u64, qpn: u32) -> Option<CommunicationId> {
        let mut live = self.connections.iter().filter(|(_, c)| c.is_live());
        let found = live.find(|(_, c)| (c.remote_ca_guid, c.remote_qpn) == (ca_guid, qpn));
        found.map(|(id, _)| *id)
    }

    /// Connections that are established, with the card and the communication ID of their other side.
    pub fn peers(&self) -> impl Iterator<Item = (CommunicationId, u64, CommunicationId)> + '_ {
        let established = |c: &&Connection<R>| matches!(c.state, State::Established | State::RepSent);
        let peers = self.connections.iter().map(|(id, c)| (*id, c));
        peers
            .filter(move |(_, c)| established(c))
            .map(|(id, c)| (id, c.remote_ca_guid, c.remote_id))
    }

    /// The other side's manager is gone, and will say no more: as if it had ended the connection.
    pub fn peer_gone(&mut self, now: u64, id: CommunicationId) {
        if self.peers().any(|(peer, ..)| peer == id) {
            self.end_stale(now, id);
        }
    }

    fn end_stale(&mut self, now: u64, id: CommunicationId) {
        if let Ok(connection) = self.find(id) {
            connection.enter_timewait(now, id);
            let orphan = connection.orphan;
            self.tell(orphan, Event::Disconnected { id });
        }
    }

    /// The other side has not heard the answer, or there is none yet.
    fn repeat_answer(&mut self, id: CommunicationId) {
        let Ok(connection) = self.find(id) else { return };
        let to = connection.to.clone();
        let about = match connection.state {
            State::ReqReceived => Some(ABOUT_REQ),
            State::RepReceived => Some(ABOUT_REP),
            _ => None,
        };
        let mad = match (about, connection.last) {
            (Some(message_mraed), _) => {
                let mra = Mra {
                    local_communication_id: id,
                    remote_communication_id: connection.remote_id,
                    message_mraed,
                    service_timeout: SERVICE_TIMEOUT,
                    private_data: Vec::new(),
                };
                Message::from(mra).emit(connection.transaction_id)
            }
            (None, Some(last)) => last,
            (None, None) => return,
        };
        self.send(to, mad);
    }

    /// The connection that a message names, if the message is from its other side.
    fn addressed(&mut self, local: u32, remote: u32) -> Option<(CommunicationId, &mut Connection<R>)> {
        let connection = self.connections.get_mut(&local)?;
        (connection.remote_id == remote).then_some((local, connection))
    }

    fn on_rep(&mut self, rep: Rep) {
        let id = rep.remote_communication_id;
        let Ok(connection) = self.find(id) else { return };
        match connection.state {
            State::ReqSent => {
                connection.remote_id = rep.local_communication_id;
                connection.remote_ca_guid = rep.local_ca_guid;
                connection.remote_qpn = if connection.is_xrc {
                    rep.local_eecn
                } else {
                    rep.local_qpn
                };
                connection.rest(State::RepReceived, None);
                let orphan = connection.orphan;
                let rep = Box::new(rep);
                self.tell(orphan, Event::Reply { id, rep });
            }
            // The RTU, the MRA or the REJ is said again.
            State::RepReceived | State::Established | State::Refused
                if connection.remote_id == rep.local_communication_id =>
            {
                self.repeat_answer(id);
            }
            _ => {}
        }
    }

    fn on_rtu(&mut self, rtu: Rtu) {
        let named = self.addressed(rtu.remote_communication_id, rtu.local_communication_id);
        if let Some((id, _)) = named.filter(|(_, connection)| connection.state == State::RepSent) {
            self.established(id, rtu.private_data);
        }
    }

    fn on_rej(&mut self, rej: Rej) {
        let id = rej.remote_communication_id;
        let Ok(connection) = self.find(id) else { return };
        // Nobody may have given it a number yet.
        let is_peer =
            connection.remote_id == rej.local_communication_id || connection.state == State::ReqSent;
        let is_open = matches!(
            connection.state,
            State::ReqSent | State::ReqReceived | State::RepReceived | State::RepSent
        );
        if is_peer && is_open {
            let orphan = connection.orphan;
            self.remove(id);
            let (reason, private_data) = (rej.reason, rej.private_data);
            self.tell(
                orphan,
                Event::Rejected {
                    id,
                    reason,
                    private_data,
                },
            );
        }
    }

    fn on_mra(&mut self, now: u64, mra: &Mra) {
        let Ok(connection) = self.find(mra.remote_communication_id) else {
            return;
        };
        let waits = matches!(
            (connection.state, mra.message_mraed),
            (State::ReqSent, ABOUT_REQ) | (State::RepSent, ABOUT_REP)
        );
        if waits {
            connection.retries_left = connection.max_retries;
            connection.deadline = Some(now + ns_of(mra.service_timeout) + connection.interval_ns);
        }
    }

    fn on_dreq(&mut self, now: u64, transaction_id: u64, dreq: &Dreq, from: R) {
        let (local, remote) = (dreq.remote_communication_id, dreq.local_communication_id);
        let Some((id, connection)) = self.addressed(local, remote) else {
            // Of a connection that is long gone here: the other side shall not wait.
            if local >> COUNTER_BITS == u32::from(self.config.id_prefix)
                && !self.connections.contains_key(&local)
            {
                let drep = Drep {
                    local_communication_id: local,
                    remote_communication_id: remote,
                    private_data: Vec::new(),
                };
                self.send(from, Message::from(drep).emit(transaction_id));
            }
            return;
        };
        match connection.state {
            State::Established | State::RepSent | State::DreqSent => {
                connection.transaction_id = transaction_id;
                connection.enter_timewait(now, id);
                let orphan = connection.orphan;
                self.repeat_answer(id);
                self.tell(orphan, Event::Disconnected { id });
            }
            State::Timewait => self.repeat_answer(id),
            _ => {}
        }
    }

    fn on_drep(&mut self, now: u64, drep: &Drep) {
        let named = self.addressed(drep.remote_communication_id, drep.local_communication_id);
        if let Some((id, connection)) = named.filter(|(_, c)| c.state == State::DreqSent) {
            connection.enter_timewait(now, id);
            let orphan = connection.orphan;
            self.tell(orphan, Event::Disconnected { id });
        }
    }

    /// Alternate paths are not taken.
    fn on_lap(&mut self, transaction_id: u64, lap: &Lap) {
        let named = self.addressed(lap.remote_communication_id, lap.local_communication_id);
        if let Some((id, connection)) = named.filter(|(_, c)| c.state == State::Established) {
            let apr = Apr {
                local_communication_id: id,
                remote_communication_id: connection.remote_id,
                status: APR_UNSUPPORTED,
                ..Apr::default()
            };
            let to = connection.to.clone();
            self.send(to, Message::from(apr).emit(transaction_id));
        }
    }

    // ---- Time ----------------------------------------------------------------------------------------

    /// When [`Engine::handle_timeout`] has something to do.
    pub fn next_timeout(&self) -> Option<u64> {
        let deadlines = self.connections.values().filter_map(|c| c.deadline);
        deadlines.chain(self.sidr.next_timeout()).min()
    }

    /// Repeats what was not answered, and ends what never will be.
    pub fn handle_timeout(&mut self, now: u64) {
        let is_over = |c: &Connection<R>| c.deadline.is_some_and(|deadline| deadline <= now);
        let mut over: Vec<_> = self.connections.iter().filter(|(_, c)| is_over(c)).collect();
        over.sort_by_key(|(id, c)| (c.deadline, **id));
        let over: Vec<CommunicationId> = over.into_iter().map(|(id, _)| *id).collect();
        for id in over {
            self.expire(now, id);
        }
        self.sidr.expire(now, &mut self.out);
    }

    fn expire(&mut self, now: u64, id: CommunicationId) {
        let Ok(connection) = self.find(id) else { return };
        let orphan = connection.orphan;
        match connection.state {
            State::ReqSent | State::RepSent | State::DreqSent if connection.retries_left > 0 => {
                connection.retries_left -= 1;
                connection.deadline = Some(now + connection.interval_ns);
                self.repeat_answer(id);
            }
            State::ReqSent | State::RepSent => {
                let about = if connection.state == State::ReqSent {
                    ABOUT_NONE
                } else {
                    ABOUT_REP
                };
                self.give_up(id, about);
                self.tell(orphan, Event::Unreachable { id });
            }
            State::DreqSent => {
                connection.enter_timewait(now, id);
                self.tell(orphan, Event::Disconnected { id });
            }
            State::Timewait => {
                self.remove(id);
                self.tell(orphan, Event::TimewaitExit { id });
            }
            State::Refused => self.remove(id),
            State::ReqReceived | State::RepReceived | State::Established => connection.deadline = None,
        }
    }

    /// 12.9.8.7: the other side is told that nothing was heard of it.
    fn give_up(&mut self, id: CommunicationId, about: u8) {
        let Ok(connection) = self.find(id) else { return };
        let rej = Rej {
            local_communication_id: id,
            remote_communication_id: connection.remote_id,
            message_rejected: about,
            reason: RejectReason::Timeout as u16,
            ..Rej::default()
        };
        let (to, mad) = (
            connection.to.clone(),
            Message::from(rej).emit(connection.transaction_id),
        );
        self.remove(id);
        self.send(to, mad);
    }
}
