//! The reference model at the end of a cable: packets in and out in simulated time, and a test's hand on them.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;

use hca_cosim::Peer;
use hca_link::LinkKind;
use hca_model::{Completion, Frame, Model, ModelEvent, RecvRequest, SendRequest};
use hca_wire::Framing;

/// Nanoseconds of a cycle of the card.
pub(crate) const CYCLE_NS: u64 = 4;

/// Which way a packet goes, as the model sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// From the card.
    In,
    /// To the card.
    Out,
}

/// A packet at the model.
#[derive(Clone, Debug)]
pub struct Seen {
    /// When.
    pub ns: u64,
    /// Which way.
    pub way: Way,
    /// What.
    pub frame: Frame,
}

/// Looks at a packet at the model; false: it is lost.
pub type Filter = Box<dyn FnMut(Way, &Frame) -> bool>;

struct Station {
    model: Model,
    framing: Framing,
    now_ns: u64,
    /// There may be something to send that no packet and no timer tells of.
    posted: bool,
    filter: Option<Filter>,
    log: Option<Vec<Seen>>,
    /// Packets that are not the model's: they go first, whatever they are.
    others: VecDeque<Vec<u8>>,
}

impl Station {
    /// Whether a packet goes on.
    fn passes(&mut self, way: Way, frame: &Frame) -> bool {
        let passes = self.filter.as_mut().is_none_or(|filter| filter(way, frame));
        if let Some(log) = &mut self.log {
            log.push(Seen {
                ns: self.now_ns,
                way,
                frame: frame.clone(),
            });
        }
        passes
    }
}

/// The model's end of the cable, shared between the fabric and a test.
#[derive(Clone)]
pub struct ModelPort(Rc<RefCell<Station>>);

impl ModelPort {
    pub(crate) fn new(kind: LinkKind) -> Self {
        Self(Rc::new(RefCell::new(Station {
            model: Model::new(),
            framing: match kind {
                LinkKind::Ethernet => Framing::Ethernet,
                LinkKind::InfiniBand => Framing::InfiniBand,
            },
            now_ns: 0,
            posted: false,
            filter: None,
            log: None,
            others: VecDeque::new(),
        })))
    }

    /// Does something with the model, after which it may have something to send.
    pub fn with<T>(&self, action: impl FnOnce(&mut Model) -> T) -> T {
        let mut station = self.0.borrow_mut();
        station.posted = true;
        action(&mut station.model)
    }

    /// Posts a send request.
    pub fn post_send(&self, qpn: u32, request: SendRequest) {
        self.with(|model| model.post_send(qpn, request))
            .unwrap_or_else(|error| panic!("{error}"));
    }

    /// Posts a receive.
    pub fn post_recv(&self, qpn: u32, request: RecvRequest) {
        self.with(|model| model.post_recv(qpn, request))
            .unwrap_or_else(|error| panic!("{error}"));
    }

    /// The oldest completion.
    pub fn poll(&self) -> Option<Completion> {
        self.with(Model::poll_completion)
    }

    /// The oldest event.
    pub fn poll_event(&self) -> Option<ModelEvent> {
        self.with(Model::poll_event)
    }

    /// Puts any bytes on the wire, ahead of what the model sends.
    pub fn put(&self, packet: Vec<u8>) {
        self.0.borrow_mut().others.push_back(packet);
    }

    /// How many of them have not left yet.
    pub fn waiting(&self) -> usize {
        self.0.borrow().others.len()
    }

    /// From now on packets pass this, in both directions.
    pub fn set_filter(&self, filter: impl FnMut(Way, &Frame) -> bool + 'static) {
        self.0.borrow_mut().filter = Some(Box::new(filter));
    }

    /// Everything passes.
    pub fn clear_filter(&self) {
        self.0.borrow_mut().filter = None;
    }

    /// From now on packets are kept, lost ones too.
    pub fn keep_log(&self) {
        self.0.borrow_mut().log = Some(Vec::new());
    }

    /// What has been kept; it is kept on.
    pub fn take_log(&self) -> Vec<Seen> {
        self.0
            .borrow_mut()
            .log
            .as_mut()
            .map(std::mem::take)
            .unwrap_or_default()
    }
}

impl Peer for ModelPort {
    fn next_cycle(&self) -> Option<u64> {
        let station = self.0.borrow();
        let timeout = station.model.next_timeout().map(|ns| ns.div_ceil(CYCLE_NS));
        if station.posted || !station.others.is_empty() {
            Some(0)
        } else {
            timeout
        }
    }

    fn receive(&mut self, now: u64, bytes: &[u8]) {
        let mut station = self.0.borrow_mut();
        station.now_ns = now * CYCLE_NS;
        if let Some(frame) = Frame::parse(station.framing, bytes)
            && station.passes(Way::In, &frame)
        {
            let ns = station.now_ns;
            station.model.handle_frame(ns, &frame);
            station.posted = true;
        }
    }

    fn transmit(&mut self, now: u64) -> Option<Vec<u8>> {
        let mut station = self.0.borrow_mut();
        let ns = now * CYCLE_NS;
        station.now_ns = ns;
        if let Some(packet) = station.others.pop_front() {
            return Some(packet);
        }
        station.model.handle_timeout(ns);
        while let Some(bytes) = station.model.poll_transmit(ns) {
            let frame = Frame::parse(station.framing, &bytes);
            if frame.is_some_and(|frame| station.passes(Way::Out, &frame)) {
                return Some(bytes);
            }
        }
        station.posted = false;
        None
    }
}
