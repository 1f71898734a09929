//! The cable: two lanes and the captures.

use crate::capture::{Capture, Tap};
use crate::content::{Content, Unwritten};
use crate::lane::{Lane, Packet};
use crate::watch::{Listener, Sighting, Watch};
use crate::{CableConfig, CableStats, Delivery, Dir, LinkError, PACKET_BYTES_MAX};
use std::path::Path;

/// A cable between end A and end B.
///
/// Cycles given to its methods must not run backwards.
pub struct Cable {
    config: CableConfig,
    a_to_b: Lane,
    b_to_a: Lane,
    is_plugged: bool,
    /// By the direction in which the end sends.
    is_enabled: [bool; 2],
    captures: Vec<Capture>,
    watches: [Watch; 2],
    listener: Option<Box<dyn Listener>>,
    /// First capture error, for `close`.
    capture_error: Option<LinkError>,
}

impl Cable {
    /// Makes a cable; fails where the configuration is out of range.
    pub fn new(config: CableConfig) -> Result<Self, LinkError> {
        config.check()?;
        Ok(Self {
            a_to_b: Lane::new(&config, Dir::AToB),
            b_to_a: Lane::new(&config, Dir::BToA),
            config,
            is_plugged: true,
            is_enabled: [true; 2],
            captures: Vec::new(),
            watches: Default::default(),
            listener: None,
            capture_error: None,
        })
    }

    /// Configuration of the cable.
    pub fn config(&self) -> &CableConfig {
        &self.config
    }

    /// Writes a capture from now on. A file that exists is replaced.
    pub fn capture(&mut self, tap: Tap, path: &Path) -> Result<(), LinkError> {
        self.captures.push(Capture::create(tap, self.config.kind, path)?);
        self.part();
        Ok(())
    }

    /// Puts a packet into the captures that passes the cable by: at a wire to the outside, what is answered there.
    pub fn capture_aside(&mut self, dir: Dir, now_cycle: u64, bytes: &[u8]) {
        self.record(Tap::Sent, dir, now_cycle, bytes);
        self.record(Tap::Delivered, dir, now_cycle, bytes);
    }

    /// Changes when the packets of one direction are handed out: a card streams them, a switch takes whole ones.
    /// Packets in flight keep their time.
    pub fn set_delivery(&mut self, dir: Dir, delivery: Delivery) {
        self.lane_mut(dir).set_delivery(delivery);
    }

    /// Begins to note, or stops noting, the data packets put on the wire in one direction.
    pub fn watch(&mut self, dir: Dir, on: bool) {
        self.watches[dir as usize].switch(on);
        self.part();
    }

    /// The packets noted since the last call, in the order of sending, and how many more there was no room for.
    pub fn take_sightings(&mut self, dir: Dir) -> (Vec<Sighting>, u64) {
        self.watches[dir as usize].take()
    }

    /// From now on somebody hears every data packet, or nobody does.
    pub fn listen(&mut self, listener: Option<Box<dyn Listener>>) {
        self.listener = listener;
        self.part();
    }

    /// From now on, or already, each packet is for itself.
    fn part(&mut self) {
        self.a_to_b.part();
        self.b_to_a.part();
    }

    /// In this direction packets that nobody misses may travel as one: nobody looks, and nothing happens to them.
    #[inline]
    pub fn is_smooth(&self, dir: Dir) -> bool {
        !self.is_looked_at() && !self.watches[dir as usize].is_on() && self.lane(dir).is_smooth()
    }

    /// First cycle in which [`Cable::ready`] is true when so many packets more have been sent, each so long.
    pub fn ready_cycle_behind(&self, dir: Dir, packets: u32, len_bytes: usize) -> u64 {
        self.lane(dir).ready_cycle_behind(packets, len_bytes)
    }

    /// Takes several packets in one, the first of which is sent in that cycle, if [`Cable::is_smooth`]. They are handed
    /// out as one when the last has come.
    pub fn push_several(
        &mut self,
        dir: Dir,
        now_cycle: u64,
        packets: Box<dyn Unwritten>,
    ) -> Result<(), LinkError> {
        if !self.is_smooth(dir) {
            for part in packets.parts() {
                let cycle = self.ready_cycle(dir).max(now_cycle);
                self.push_unwritten(dir, cycle, part)?;
            }
            return Ok(());
        }
        if !self.is_up() || self.lane_mut(dir).push_several(now_cycle, packets) {
            return Ok(());
        }
        Err(self.too_long())
    }

    /// Both ends see each other: it is plugged in, and both are switched on.
    #[inline]
    pub fn is_up(&self) -> bool {
        self.is_plugged && self.is_enabled == [true; 2]
    }

    /// Pulls it out, or plugs it in again.
    pub fn plug(&mut self, is_plugged: bool) {
        self.is_plugged = is_plugged;
        self.cut_if_down();
    }

    /// The end that sends in this direction switches its port on or off.
    pub fn enable(&mut self, dir: Dir, is_enabled: bool) {
        self.is_enabled[dir as usize] = is_enabled;
        self.cut_if_down();
    }

    /// What was under way is lost.
    fn cut_if_down(&mut self) {
        if !self.is_up() {
            self.a_to_b.cut();
            self.b_to_a.cut();
        }
    }

    #[inline]
    fn lane(&self, dir: Dir) -> &Lane {
        match dir {
            Dir::AToB => &self.a_to_b,
            Dir::BToA => &self.b_to_a,
        }
    }

    #[inline]
    fn lane_mut(&mut self, dir: Dir) -> &mut Lane {
        match dir {
            Dir::AToB => &mut self.a_to_b,
            Dir::BToA => &mut self.b_to_a,
        }
    }

    /// True where the sender may push a beat in this cycle. Following it, a sender with enough
    /// data fills the line exactly: no more than two cycles of data wait in front of it.
    #[inline]
    pub fn ready(&self, dir: Dir, now_cycle: u64) -> bool {
        self.lane(dir).ready(now_cycle)
    }

    /// First cycle in which [`Cable::ready`] is true, if nothing is pushed until then.
    #[inline]
    pub fn ready_cycle(&self, dir: Dir) -> u64 {
        self.lane(dir).ready_cycle()
    }

    /// Takes a whole packet, for senders that have one at hand: a switch. It is serialised like any other, and
    /// [`Cable::ready`] is true again when the line is about to be free.
    pub fn push_packet(&mut self, dir: Dir, now_cycle: u64, packet: &[u8]) -> Result<(), LinkError> {
        self.push_beat(dir, now_cycle, packet, true)
    }

    /// The same of a data packet that is not bytes yet: it need not become any if nobody looks.
    pub fn push_unwritten(
        &mut self,
        dir: Dir,
        now_cycle: u64,
        packet: Box<dyn Unwritten>,
    ) -> Result<(), LinkError> {
        let is_seen = self.is_looked_at() || self.watches[dir as usize].is_on();
        if is_seen || !self.lane(dir).partial().is_empty() {
            return self.push_packet(dir, now_cycle, &packet.write());
        }
        if !self.is_up() || self.lane_mut(dir).push_unwritten(now_cycle, packet) {
            return Ok(());
        }
        Err(self.too_long())
    }

    fn too_long(&self) -> LinkError {
        LinkError::PacketTooLong {
            name: self.config.name.clone(),
            limit_bytes: PACKET_BYTES_MAX,
        }
    }

    /// Somebody looks at the bytes of packets.
    #[inline]
    fn is_looked_at(&self) -> bool {
        self.listener.is_some() || !self.captures.is_empty()
    }

    /// Takes a beat of a packet; `last` ends the packet. An empty last beat of an empty packet is
    /// no packet. While the cable is down nothing arrives.
    ///
    /// Fails where the packet is too long. A capture that can no longer be written is dropped, the simulation goes on,
    /// and [`Cable::close`] says why.
    pub fn push_beat(&mut self, dir: Dir, now_cycle: u64, beat: &[u8], last: bool) -> Result<(), LinkError> {
        if !self.is_up() {
            return Ok(());
        }
        if !self.lane_mut(dir).push(now_cycle, beat) {
            return Err(self.too_long());
        }
        if last && !self.lane(dir).partial().is_empty() {
            let sent_ps = now_cycle.saturating_mul(self.config.cycle_ps);
            let lane = match dir {
                Dir::AToB => &self.a_to_b,
                Dir::BToA => &self.b_to_a,
            };
            if !self.config.kind.is_link_packet(lane.partial()) {
                self.watches[dir as usize].see(sent_ps, lane.partial());
                if let Some(listener) = &mut self.listener {
                    listener.sent(dir, now_cycle, lane.partial());
                }
            }
            if !self.captures.is_empty() {
                let bytes = self.lane(dir).partial().to_vec();
                self.record(Tap::Sent, dir, now_cycle, &bytes);
            }
            self.lane_mut(dir).finish(now_cycle);
        }
        Ok(())
    }

    /// Hands out the next packet that has arrived, one per call.
    ///
    /// A capture that can no longer be written is dropped, and [`Cable::close`] says why.
    pub fn poll(&mut self, dir: Dir, now_cycle: u64) -> Option<Packet> {
        let packet = Packet::from(self.lane_mut(dir).poll(now_cycle)?);
        self.record(Tap::Delivered, dir, now_cycle, &packet.bytes);
        if let Some(listener) = &mut self.listener
            && !self.config.kind.is_link_packet(&packet.bytes)
        {
            listener.delivered(dir, now_cycle, &packet.bytes);
        }
        Some(packet)
    }

    /// The same for a receiver that takes packets as their sender has left them.
    #[inline]
    pub fn poll_content(&mut self, dir: Dir, now_cycle: u64) -> Option<Content> {
        if self.is_looked_at() {
            return Some(Content::Bytes(self.poll(dir, now_cycle)?.bytes));
        }
        Some(self.lane_mut(dir).poll(now_cycle)?.content)
    }

    fn record(&mut self, tap: Tap, dir: Dir, now_cycle: u64, bytes: &[u8]) {
        let time_ps = now_cycle.saturating_mul(self.config.cycle_ps);
        let capture_error = &mut self.capture_error;
        self.captures.retain_mut(|capture| {
            if capture.tap() != tap {
                return true;
            }
            match capture.write(dir, time_ps, bytes) {
                Ok(()) => true,
                Err(error) => {
                    capture_error.get_or_insert(error);
                    false
                }
            }
        });
    }

    /// First cycle in which [`Cable::poll`] has a packet; `None` where nothing is in flight.
    pub fn next_event_cycle(&self) -> Option<u64> {
        let cycles = Dir::ALL.map(|dir| self.next_arrival_cycle(dir));
        cycles.into_iter().flatten().min()
    }

    /// The same for one direction.
    #[inline]
    pub fn next_arrival_cycle(&self, dir: Dir) -> Option<u64> {
        self.lane(dir).next_event_cycle()
    }

    /// Packets put on the wire and neither lost nor handed out yet.
    pub fn in_flight(&self, dir: Dir) -> usize {
        self.lane(dir).in_flight()
    }

    /// What the cable has carried so far.
    pub fn stats(&self) -> CableStats {
        CableStats {
            a_to_b: *self.a_to_b.stats(),
            b_to_a: *self.b_to_a.stats(),
        }
    }

    /// Writes the captures out; without it, errors while the rest is written go unseen.
    pub fn close(&mut self) -> Result<(), LinkError> {
        let mut result = self.capture_error.take().map_or(Ok(()), Err);
        for capture in self.captures.drain(..) {
            result = result.and(capture.close());
        }
        result
    }
}
