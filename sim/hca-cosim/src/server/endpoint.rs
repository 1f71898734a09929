//! One function behind a socket: what its client has set up, and the answers to its messages.

mod channel;
mod dma;
mod faults;
mod leaving;
mod regions;

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;
use std::sync::Arc;

use hca_host::IommuMap;
use hca_vfio_user::{
    Command, DmaMap, DmaUnmap, Header, IoEventFd, POSTED_ENTRIES, PostedWrite, RegionAccess, SetIrqs,
    device_info, region, region_flags,
};

use super::config_space::ConfigSpace;
use super::lane::{Event, Given, Lane, Newcomer, Request, Shared, encode_reply};
use super::signal::Signals;
use super::vectors::Vectors;
use crate::containment::reset_function;
use crate::fabric::{CardId, Fabric};
use crate::observe::{Observer, SentPacket};
use channel::Channel;
use dma::Unmapping;
use leaving::Leaving;
use regions::{Read, irq_info, region_info, region_io_fds};

/// Mappings one client may have: twice 1 GiB in pages of 4 KiB, and as many as a kernel's VFIO allows for the rest.
pub(super) const MAX_MAPPINGS: usize = 2 * 262_144 + 65_536;
/// Register accesses of a function under way, with which no more are taken: a link has so many credits.
const ACCESSES_MAX: usize = 64;

/// The answer to a message, or an errno. None: it comes later.
type Answer = Result<Option<Vec<u8>>, i32>;

/// The process that has the function.
struct Client {
    process_memory: bool,
    channel: Option<Channel>,
    observer: Option<Box<dyn Observer>>,
}

impl Client {
    fn new(process_memory: bool, shared: Option<Shared>) -> Self {
        Self {
            process_memory,
            channel: shared.map(Channel::new),
            observer: None,
        }
    }
}

/// One function behind a socket.
pub(super) struct Endpoint {
    pub card: CardId,
    pub func: u8,
    pub path: PathBuf,
    pub lane: Arc<Lane>,
    signals: Arc<Signals>,
    config: ConfigSpace,
    vectors: Vectors,
    client: Option<Client>,
    /// Register reads under way.
    reads: Vec<Read>,
    /// While it is under way, no message is taken.
    unmapping: Option<Unmapping>,
    /// Unmaps that are answered when the card's accesses from before are done.
    unmaps: Vec<(Header, DmaUnmap)>,
    /// What the card had written into the client's rings at the last look.
    announced: u64,
    /// Nobody is connected, and the function's reset has not ended.
    leaving: Option<Leaving>,
    /// Refused accesses of this client that were told of.
    told: usize,
}

impl Endpoint {
    /// A function of `card`.
    pub fn new(
        fabric: &Fabric,
        card: CardId,
        func: u8,
        path: PathBuf,
        lane: Arc<Lane>,
        signals: Arc<Signals>,
    ) -> Self {
        let found = fabric.card(card);
        Self {
            card,
            func,
            path,
            lane,
            signals,
            config: ConfigSpace::new(found.pcie().params(), found.guid()),
            vectors: Vectors::new(),
            client: None,
            reads: Vec::new(),
            unmapping: None,
            unmaps: Vec::new(),
            announced: 0,
            leaving: None,
            told: 0,
        }
    }

    pub fn connected(&mut self, fabric: &mut Fabric, newcomer: Newcomer) {
        if let Some(map) = fabric.host_mut(self.card).function(self.func) {
            self.lane.discard(map.take());
            map.set_process(newcomer.memory);
            map.set_bus_master(self.config.masters_bus());
        }
        self.told = 0;
        self.leaving = None;
        self.client = Some(Client::new(newcomer.process_memory, newcomer.shared));
    }

    /// The client went away: its memory goes with it, and the function is reset before the next client. The card must
    /// not find its queues gone before it has been reset: it would tell peers of a fault that shall hear nothing.
    pub fn gone(&mut self, fabric: &mut Fabric) {
        self.client = None;
        if let Some(map) = fabric.host_mut(self.card).function(self.func) {
            map.abandon();
            map.log_shared_writes(false);
        }
        self.reads.clear();
        self.unmapping = None;
        self.unmaps.clear();
        self.vectors = Vectors::new();
        self.reset(fabric);
        self.leave(fabric);
        self.lane.release();
    }

    /// Mappings that the function has.
    pub fn mappings(&self, fabric: &mut Fabric) -> usize {
        let map = fabric.host_mut(self.card).function(self.func);
        map.map_or(0, |map| map.len())
    }

    /// Nobody is connected, and the card rests: what the last client had mapped is not kept.
    pub fn forget(&mut self, fabric: &mut Fabric) {
        if self.client.is_none()
            && let Some(map) = fabric.host_mut(self.card).function(self.func)
            && !map.is_empty()
        {
            self.lane.discard(map.take());
        }
    }

    fn channel(&self) -> Option<&Channel> {
        self.client.as_ref()?.channel.as_ref()
    }

    fn channel_mut(&mut self) -> Option<&mut Channel> {
        self.client.as_mut()?.channel.as_mut()
    }

    /// A process has the function.
    pub fn has_client(&self) -> bool {
        self.client.is_some()
    }

    /// Goes on with what waits for the client's memory. One that has not answered for so long is hung up: its requests
    /// are the only thing that has no end of its own.
    pub fn attend_memory(&mut self, fabric: &mut Fabric) {
        let Some(map) = fabric.host_mut(self.card).function(self.func) else {
            return;
        };
        if map.is_stuck(self.lane.patience()) {
            self.lane.hang_up();
        }
        if self.unmaps.is_empty() || !map.is_idle() {
            return;
        }
        for (header, unmap) in std::mem::take(&mut self.unmaps) {
            self.reply(&header, Ok(Some(unmap.encode())), None);
        }
    }

    /// Accesses of the card wait for the client's memory.
    pub fn waits_for_memory(&self, fabric: &mut Fabric) -> bool {
        let map = fabric.host_mut(self.card).function(self.func);
        map.is_some_and(|map| !map.is_idle())
    }

    /// Does a turn's work: writes that the client has posted, then the oldest message. An event that the server must
    /// know of is returned.
    pub fn turn(&mut self, fabric: &mut Fabric) -> Option<Event> {
        self.take_writes(fabric);
        self.go_on_unmapping(fabric);
        let accesses = self.accesses(fabric);
        let may_take = |channel: Option<&mut Channel>| channel.is_none_or(Channel::may_take_message);
        let messages = self.lane.has_waiting() && accesses < ACCESSES_MAX && may_take(self.channel_mut());
        match self.lane.take(messages)? {
            Event::Message(request) => {
                self.channel_mut().into_iter().for_each(Channel::message_taken);
                self.message(fabric, request);
                None
            }
            event => Some(event),
        }
    }

    /// Register accesses of ours under way.
    fn accesses(&self, fabric: &Fabric) -> usize {
        let pending = fabric.card(self.card).pcie().mmio_pending(self.func);
        pending.max(self.reads.len())
    }

    /// Resets the function: its registers and queues, configuration and table. What it may still reach is left as it is
    /// until the client enables it again: the card must not find its queues gone before the reset has arrived there.
    fn reset(&mut self, fabric: &mut Fabric) {
        self.config.reset();
        self.vectors.reset();
        reset_function(fabric, self.card, self.func);
    }

    /// The configuration may have changed: what the function may reach, and which interrupts may go.
    fn follow_config(&mut self, fabric: &mut Fabric) {
        if let Some(map) = fabric.host_mut(self.card).function(self.func) {
            map.set_bus_master(self.config.masters_bus());
        }
        self.vectors.release(&self.signals, &self.config);
    }

    /// From now on the client's doings are told.
    pub fn set_observer(&mut self, fabric: &mut Fabric, observer: Box<dyn Observer>) {
        let map = fabric.host_mut(self.card).function(self.func);
        if let (Some(client), Some(map)) = (&mut self.client, map) {
            client.observer = Some(observer);
            map.log_shared_writes(true);
        }
    }

    /// Tells what the card has written for the client, and what it has sent.
    pub fn tell(&mut self, fabric: &mut Fabric, packets: &[SentPacket]) {
        let Some(observer) = self.client.as_mut().and_then(|client| client.observer.as_mut()) else {
            return;
        };
        let card = fabric.card_mut(self.card);
        let map = card.host().function(self.func);
        let writes = map.map(IommuMap::take_shared_writes).unwrap_or_default();
        if writes.is_empty() && packets.is_empty() {
            return;
        }
        let clock = card.pcie().params().clone();
        if let Some(map) = card.host().function(self.func) {
            for write in writes {
                observer.ring_written(clock.ns(write.cycle), &write, map);
            }
        }
        for packet in packets {
            observer.packet_sent(clock.ns(packet.cycle), packet);
        }
    }

    /// Takes what the client has posted, until so many register accesses are under way.
    fn take_writes(&mut self, fabric: &mut Fabric) {
        // A client that writes faster than this must not hold everybody else up.
        for _ in 0..POSTED_ENTRIES {
            if self.accesses(fabric) >= ACCESSES_MAX {
                return;
            }
            let posted = self.channel_mut().and_then(|channel| channel.posted.take());
            let Some(PostedWrite {
                offset,
                len_bytes,
                value,
            }) = posted
            else {
                return;
            };
            let access = RegionAccess {
                region: region::BAR0,
                offset: offset.into(),
                count: len_bytes.into(),
            };
            let data = &value.to_le_bytes()[..usize::from(len_bytes.min(8))];
            // Like any posted write, a wrong one has nobody to tell.
            let _ = self.write_register(fabric, &access, data);
        }
    }

    /// There is something to do: a turn would find it.
    pub fn has_work(&self) -> bool {
        self.unmapping.is_some()
            || self.channel().is_some_and(|channel| channel.posted.has_any())
            || self.lane.has_event()
    }

    /// What the client kicks when it posts while we sleep.
    pub fn kick(&self) -> Option<&OwnedFd> {
        self.channel().map(|channel| &channel.kick)
    }

    pub fn fall_asleep(&self) {
        self.channel()
            .iter()
            .for_each(|channel| channel.posted.fall_asleep());
    }

    pub fn wake_up(&self) {
        self.channel().iter().for_each(|channel| channel.posted.wake_up());
    }

    /// Wakes the client if the card has written into its rings. Payload wakes nobody: what says that it is there is a
    /// completion.
    pub fn announce(&mut self, fabric: &mut Fabric) {
        let map = fabric.host_mut(self.card).function(self.func);
        let channel = self.client.as_ref().and_then(|client| client.channel.as_ref());
        let (Some(channel), Some(map)) = (channel, map) else {
            return;
        };
        if std::mem::replace(&mut self.announced, map.shared_writes()) != self.announced {
            channel.activity.announce();
        }
    }

    /// The card raises a vector.
    pub fn interrupt(&mut self, vector: u16) {
        self.vectors.raise(&self.signals, &self.config, vector);
    }

    /// The card is broken: its client is told, if it wants to be, and hung up.
    pub fn part_with(&self) {
        if self.lane.shut() {
            self.vectors.raise_error(&self.signals);
        }
    }

    /// Handles a message of the client.
    fn message(&mut self, fabric: &mut Fabric, request: Request) {
        let Request {
            header,
            payload,
            given,
        } = request;
        if self.client.is_none() || header.is_reply() {
            return;
        }
        let channel = self.channel();
        // The two answers that carry a descriptor.
        match Command::from_wire(header.command) {
            Some(Command::DeviceGetRegionInfo) => {
                let info = region_info(&payload, channel.is_some());
                let is_shared = info.is_ok_and(|info| info.flags & region_flags::MMAP != 0);
                let fd = channel.and_then(|channel| channel.region.memory().fd().filter(|_| is_shared));
                self.reply(&header, info.map(|info| Some(info.encode())), fd);
            }
            Some(Command::DeviceGetRegionIoFds) => {
                let ask = IoEventFd::decode_ask(&payload).map_err(|_| libc::EINVAL);
                let found =
                    ask.and_then(|index| region_io_fds(index, channel.map(|channel| channel.kick.as_fd())));
                let fd = found.as_ref().ok().and_then(|(_, fd)| *fd);
                self.reply(&header, found.map(|(reply, _)| Some(reply)), fd);
            }
            _ => {
                let answer = self.answer(fabric, &header, &payload, given);
                self.reply(&header, answer, None);
            }
        }
    }

    fn reply(&self, to: &Header, answer: Answer, fd: Option<BorrowedFd<'_>>) {
        if !to.wants_reply() {
            return;
        }
        match answer {
            Ok(None) => {}
            Ok(Some(payload)) => self.lane.reply(encode_reply(to, &payload, 0), fd),
            Err(errno) => self.lane.reply(encode_reply(to, &[], errno as u32), None),
        }
    }

    fn answer(&mut self, fabric: &mut Fabric, header: &Header, payload: &[u8], given: Given) -> Answer {
        let done = Ok(Some(Vec::new()));
        match Command::from_wire(header.command) {
            Some(Command::DmaMap) => {
                let map = DmaMap::decode(payload).map_err(|_| libc::EINVAL)?;
                self.dma_map(fabric, &map, given).and(done)
            }
            Some(Command::DmaUnmap) => {
                let unmap = DmaUnmap::decode(payload).map_err(|_| libc::EINVAL)?;
                self.dma_unmap(fabric, header, unmap)
            }
            Some(Command::DeviceGetInfo) => Ok(Some(device_info())),
            Some(Command::DeviceGetIrqInfo) => irq_info(payload).map(|info| Some(info.encode())),
            Some(Command::DeviceSetIrqs) => {
                let set = SetIrqs::decode(payload).map_err(|_| libc::EINVAL)?;
                let data = payload.get(SetIrqs::BYTES..).unwrap_or(&[]);
                self.vectors.set(&self.signals, &set, data, given)?;
                self.vectors.release(&self.signals, &self.config);
                done
            }
            Some(Command::RegionRead) => self.region_read(fabric, header, payload),
            Some(Command::RegionWrite) => self.region_write(fabric, payload).map(Some),
            Some(Command::DeviceReset) => {
                self.reset(fabric);
                done
            }
            // Also what the specification has and we have not: dirty pages, migration, features of the device.
            _ => Err(libc::ENOTSUP),
        }
    }
}
