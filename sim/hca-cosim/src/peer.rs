//! Somebody at the end of a cable who is no card: a model of one, a generator, a recorder. In the simulation's own
//! time, so that runs repeat; what is in another process comes over a wire ([`crate::Outside`]).

use hca_link::{Cable, Dir};

/// Takes whole packets from a cable, and puts whole packets on it. On InfiniBand it has no flow control: it is sent to
/// without limit, and belongs behind a switch.
pub trait Peer {
    /// The first cycle in which it has something to do though nothing arrives; it may be in the past.
    fn next_cycle(&self) -> Option<u64>;
    /// A packet has arrived.
    fn receive(&mut self, now: u64, bytes: &[u8]);
    /// The line is free: the next packet that leaves in this cycle.
    fn transmit(&mut self, now: u64) -> Option<Vec<u8>>;
}

/// A peer of a fabric.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PeerId(pub(crate) usize);

/// A peer, and the cable that leads to it.
pub(crate) struct PeerEnd {
    peer: Box<dyn Peer>,
    /// The cable, and the direction into it.
    at: Option<(usize, Dir)>,
}

impl PeerEnd {
    pub fn new(peer: Box<dyn Peer>) -> Self {
        Self { peer, at: None }
    }

    pub fn is_taken(&self) -> bool {
        self.at.is_some()
    }

    pub fn attach(&mut self, cable: usize, into: Dir) {
        self.at = Some((cable, into));
    }

    /// The first cycle in which it has something to do.
    pub fn next_event(&self, cables: &[Cable]) -> Option<u64> {
        let (cable, into) = self.at?;
        let own = self.peer.next_cycle();
        let own = own.map(|at| at.max(cables[cable].ready_cycle(into)));
        let arrival = cables[cable].next_arrival_cycle(into.reverse());
        own.into_iter().chain(arrival).min()
    }

    /// One cycle.
    pub fn step(&mut self, now: u64, cables: &mut [Cable]) {
        let Some((cable, into)) = self.at else { return };
        let cable = &mut cables[cable];
        while let Some(packet) = cable.poll(into.reverse(), now) {
            self.peer.receive(now, &packet.bytes);
        }
        while cable.ready(into, now)
            && let Some(packet) = self.peer.transmit(now)
        {
            // One that is longer than any cable takes is lost.
            let _ = cable.push_packet(into, now, &packet);
        }
    }
}
