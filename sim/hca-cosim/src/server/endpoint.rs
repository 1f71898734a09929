//! One function behind a socket: what its client has set up, and the answers to its messages.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;
use std::sync::Arc;

use hca_host::{IommuMap, MapError, Memory};
use hca_regs as reg;
use hca_vfio_user::{
    ActivityPage, Command, DmaMap, DmaUnmap, Header, IoEventFd, IrqInfo, KICK_BYTES, KICK_OFFSET,
    POSTED_ENTRIES, PostedReader, PostedWrite, RegionAccess, RegionInfo, SHARED_REGION_BYTES, SetIrqs,
    SharedRegion, device_info, irq, irq_data, region, region_flags,
};

use super::config_space::{CONFIG_BYTES, ConfigSpace, MSIX_BAR_BYTES};
use super::lane::{Event, Given, Lane, Newcomer, Request, Shared, encode_reply};
use super::signal::Signals;
use crate::fabric::{CardId, Fabric};
use crate::observe::{Observer, SentPacket};
use crate::{BAR_LEN_BYTES, NUM_VECTORS};

/// Mappings one client may have.
pub(super) const MAX_MAPPINGS: usize = 65_536;
/// Register accesses of a function under way, with which no more are taken: a link has so many credits.
const ACCESSES_MAX: usize = 64;

/// The answer to a message, or an errno. None: it comes later.
type Answer = Result<Option<Vec<u8>>, i32>;

/// The process that has the function.
struct Client {
    process_memory: bool,
    vectors: Vec<Option<OwnedFd>>,
    channel: Option<Channel>,
    observer: Option<Box<dyn Observer>>,
}

/// What a client shares with us, where it has asked for that.
struct Channel {
    region: SharedRegion,
    activity: ActivityPage,
    posted: PostedReader,
    kick: OwnedFd,
    /// Where the ring of posted writes was when the oldest message came, and a whole ring more: what the client had
    /// posted before the message is taken then.
    barrier: Option<u64>,
}

impl Client {
    fn new(process_memory: bool, shared: Option<Shared>) -> Self {
        Self {
            process_memory,
            vectors: (0..NUM_VECTORS).map(|_| None).collect(),
            channel: shared.map(Channel::new),
            observer: None,
        }
    }
}

impl Channel {
    fn new(Shared { region, kick }: Shared) -> Self {
        Self {
            activity: region.activity(),
            posted: PostedReader::new(region.clone()),
            region,
            kick,
            barrier: None,
        }
    }

    /// Nothing passes what the client has posted before; but what it goes on posting holds no message up for good.
    fn may_take_message(&mut self) -> bool {
        let taken = self.posted.taken();
        let barrier = *self.barrier.get_or_insert(taken + POSTED_ENTRIES);
        !self.posted.has_any() || taken >= barrier
    }
}

/// One function behind a socket.
pub(super) struct Endpoint {
    pub card: CardId,
    pub func: u8,
    pub path: PathBuf,
    pub lane: Arc<Lane>,
    config: ConfigSpace,
    msix_bar: Box<[u8; MSIX_BAR_BYTES]>,
    client: Option<Client>,
    /// Register reads under way: id, the message, the access.
    reads: Vec<(u64, Header, RegionAccess)>,
    /// Unmaps that are answered when the card's accesses from before are done.
    unmaps: Vec<(Header, DmaUnmap)>,
    /// What the card had written into the client's rings at the last look.
    announced: u64,
}

impl Endpoint {
    pub fn new(card: CardId, func: u8, path: PathBuf, lane: Arc<Lane>) -> Self {
        Self {
            card,
            func,
            path,
            lane,
            config: ConfigSpace::new(),
            msix_bar: Box::new([0; MSIX_BAR_BYTES]),
            client: None,
            reads: Vec::new(),
            unmaps: Vec::new(),
            announced: 0,
        }
    }

    pub fn connected(&mut self, fabric: &mut Fabric, newcomer: Newcomer) {
        if let Some(map) = fabric.card_mut(self.card).host().function(self.func) {
            map.set_process(newcomer.memory);
        }
        self.client = Some(Client::new(newcomer.process_memory, newcomer.shared));
    }

    /// The client went away: its memory goes with it, and the function is reset before the next client. The card must
    /// not find its queues gone before it has been reset: it would tell peers of a fault that shall hear nothing.
    pub fn gone(&mut self, fabric: &mut Fabric) {
        self.client = None;
        if let Some(map) = fabric.card_mut(self.card).host().function(self.func) {
            map.abandon();
            map.log_shared_writes(false);
        }
        self.reads.clear();
        self.unmaps.clear();
        self.config = ConfigSpace::new();
        self.reset(fabric);
        self.lane.release();
    }

    /// Nobody is connected, and the card rests: what the last client had mapped is not kept.
    pub fn forget(&mut self, fabric: &mut Fabric) {
        if self.client.is_none()
            && let Some(map) = fabric.card_mut(self.card).host().function(self.func)
            && !map.is_empty()
        {
            map.clear();
            self.lane.kick_door();
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
        let Some(map) = fabric.card_mut(self.card).host().function(self.func) else {
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
        let map = fabric.card_mut(self.card).host().function(self.func);
        map.is_some_and(|map| !map.is_idle())
    }

    /// Does a turn's work: writes that the client has posted, then the oldest message. An event that the server must
    /// know of is returned.
    pub fn turn(&mut self, fabric: &mut Fabric) -> Option<Event> {
        self.take_writes(fabric);
        let accesses = self.accesses(fabric);
        let may_take = |channel: Option<&mut Channel>| channel.is_none_or(Channel::may_take_message);
        let messages = self.lane.has_waiting() && accesses < ACCESSES_MAX && may_take(self.channel_mut());
        match self.lane.take(messages)? {
            Event::Message(request) => {
                self.channel_mut()
                    .into_iter()
                    .for_each(|channel| channel.barrier = None);
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

    fn reset(&self, fabric: &mut Fabric) {
        let data = u64::from(reg::FUNC_CONTROL_RESET_MASK) << (8 * (reg::FUNC_CONTROL & 4));
        let strb = 0x0f << (reg::FUNC_CONTROL & 4);
        fabric.mmio_write(self.card, self.func, reg::FUNC_CONTROL as u16, data, strb);
    }

    /// From now on the client's doings are told.
    pub fn set_observer(&mut self, fabric: &mut Fabric, observer: Box<dyn Observer>) {
        let map = fabric.card_mut(self.card).host().function(self.func);
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

    /// A register write of 4 or 8 bytes.
    fn write_register(&mut self, fabric: &mut Fabric, access: &RegionAccess, data: &[u8]) -> Result<(), i32> {
        let offset = register_offset(access, &[4, 8])?;
        let mut word = [0; 8];
        let lane = usize::from(offset & 7);
        word[lane..lane + data.len()].copy_from_slice(data);
        let word = u64::from_le_bytes(word);
        let strb = (0xffu16 >> (8 - data.len()) << lane) as u8;
        fabric.mmio_write(self.card, self.func, offset, word, strb);
        let observer = self.client.as_mut().and_then(|client| client.observer.as_mut());
        let now_ns = fabric.now_ns(self.card);
        let map = fabric.card_mut(self.card).host().function(self.func);
        if let (Some(observer), Some(map)) = (observer, map) {
            let bytes = offset..offset.saturating_add(data.len() as u16);
            observer.register_written(now_ns, bytes, word >> (8 * lane), map);
        }
        Ok(())
    }

    /// There is something to do: a turn would find it.
    pub fn has_work(&self) -> bool {
        self.channel().is_some_and(|channel| channel.posted.has_any()) || self.lane.has_event()
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
        let map = fabric.card_mut(self.card).host().function(self.func);
        let channel = self.client.as_ref().and_then(|client| client.channel.as_ref());
        let (Some(channel), Some(map)) = (channel, map) else {
            return;
        };
        if std::mem::replace(&mut self.announced, map.shared_writes()) != self.announced {
            channel.activity.announce();
        }
    }

    pub fn interrupt(&self, signals: &Signals, vector: u16) {
        let vectors = self.client.as_ref().map(|client| &client.vectors[..]);
        if let Some(Some(eventfd)) = vectors.and_then(|vectors| vectors.get(usize::from(vector))) {
            signals.raise(eventfd.as_fd());
        }
    }

    /// A register value that some read of ours waited for. False: not ours.
    pub fn register_value(&mut self, id: u64, value: u32) -> bool {
        let Some(at) = self.reads.iter().position(|(found, ..)| *found == id) else {
            return false;
        };
        let (_, header, access) = self.reads.swap_remove(at);
        self.reply(&header, Ok(Some(access.encode(&value.to_le_bytes()))), None);
        true
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
                let size = self.dma_unmap(fabric, &unmap)?;
                let done = DmaUnmap { size, ..unmap };
                let map = fabric.card_mut(self.card).host().function(self.func);
                if map.is_none_or(IommuMap::is_settled) {
                    return Ok(Some(done.encode()));
                }
                self.unmaps.push((*header, done));
                Ok(None)
            }
            Some(Command::DeviceGetInfo) => Ok(Some(device_info())),
            Some(Command::DeviceGetIrqInfo) => irq_info(payload).map(|info| Some(info.encode())),
            Some(Command::DeviceSetIrqs) => {
                let set = SetIrqs::decode(payload).map_err(|_| libc::EINVAL)?;
                self.set_irqs(&set, given).and(done)
            }
            Some(Command::RegionRead) => self.region_read(fabric, header, payload),
            Some(Command::RegionWrite) => self.region_write(fabric, payload).map(Some),
            Some(Command::DeviceReset) => {
                self.reset(fabric);
                done
            }
            _ => Err(libc::ENOTSUP),
        }
    }

    fn dma_map(&mut self, fabric: &mut Fabric, map: &DmaMap, given: Given) -> Result<(), i32> {
        let process_memory = self.client.as_ref().is_some_and(|client| client.process_memory);
        let iommu = fabric
            .card_mut(self.card)
            .host()
            .function(self.func)
            .ok_or(libc::ENODEV)?;
        if iommu.len() >= MAX_MAPPINGS {
            return Err(libc::ENOSPC);
        }
        let mapped = match given {
            Given::Memory(memory) => {
                let memory = Memory::Shared { memory, offset: 0 };
                iommu.map(map.address, map.size, memory)
            }
            Given::Refused(errno) => return Err(errno),
            Given::Nothing if process_memory => iommu.map_process(map.address, map.size),
            Given::Nothing => iommu.map(map.address, map.size, Memory::Messages),
            Given::Eventfds(_) => return Err(libc::EINVAL),
        };
        mapped.map_err(|error| match error {
            MapError::Overlap { .. } => libc::EEXIST,
            MapError::Pieces { .. } => libc::ENOSPC,
            _ => libc::EINVAL,
        })
    }

    /// Ends mappings; returns how many bytes that were. As with the kernel's, to end nothing is no error: a virtual IOMMU
    /// ends whole address spaces without a look at what is in them.
    fn dma_unmap(&mut self, fabric: &mut Fabric, unmap: &DmaUnmap) -> Result<u64, i32> {
        let iommu = fabric
            .card_mut(self.card)
            .host()
            .function(self.func)
            .ok_or(libc::ENODEV)?;
        let ended = if unmap.flags & DmaUnmap::ALL != 0 {
            iommu.clear();
            unmap.size
        } else if iommu.unmap(unmap.address, unmap.size).is_ok() {
            unmap.size
        } else {
            iommu.unmap_inside(unmap.address, unmap.size)
        };
        // The door unmaps: that takes a while for much memory.
        self.lane.kick_door();
        Ok(ended)
    }

    fn set_irqs(&mut self, set: &SetIrqs, given: Given) -> Result<(), i32> {
        let Some(client) = &mut self.client else {
            return Err(libc::ENODEV);
        };
        let end = set.start.checked_add(set.count).ok_or(libc::EINVAL)?;
        let limit = if set.index == irq::MSIX {
            u32::from(NUM_VECTORS)
        } else {
            0
        };
        if end > limit || set.flags & irq_data::TRIGGER == 0 {
            return Err(libc::EINVAL);
        }
        let by_eventfd = set.flags & irq_data::EVENTFD != 0;
        let range = &mut client.vectors[set.start as usize..end as usize];
        match given {
            Given::Nothing if set.flags & irq_data::NONE != 0 && set.count == 0 => {
                client.vectors.iter_mut().for_each(|vector| *vector = None);
            }
            Given::Nothing if by_eventfd => range.iter_mut().for_each(|vector| *vector = None),
            Given::Eventfds(fds) if by_eventfd && fds.len() == range.len() => {
                for (vector, fd) in range.iter_mut().zip(fds) {
                    *vector = Some(fd);
                }
            }
            Given::Refused(errno) => return Err(errno),
            _ => return Err(libc::EINVAL),
        }
        Ok(())
    }

    fn region_read(
        &mut self,
        fabric: &mut Fabric,
        header: &Header,
        payload: &[u8],
    ) -> Result<Option<Vec<u8>>, i32> {
        let (access, _) = RegionAccess::decode(payload).map_err(|_| libc::EINVAL)?;
        let count = access.count as usize;
        let data = match access.region {
            region::BAR0 => {
                let offset = register_offset(&access, &[4])?;
                let id = fabric.mmio_read(self.card, self.func, offset);
                self.reads.push((id, *header, access));
                return Ok(None);
            }
            region::BAR2 => bar2_range(&access).map(|range| &self.msix_bar[range]),
            region::CONFIG => self.config.read(access.offset, count),
            _ => None,
        };
        data.map(|data| Some(access.encode(data))).ok_or(libc::EINVAL)
    }

    fn region_write(&mut self, fabric: &mut Fabric, payload: &[u8]) -> Result<Vec<u8>, i32> {
        let (access, data) = RegionAccess::decode(payload).map_err(|_| libc::EINVAL)?;
        if data.len() != access.count as usize {
            return Err(libc::EINVAL);
        }
        match access.region {
            region::BAR0 => self.write_register(fabric, &access, data)?,
            region::BAR2 => self.msix_bar[bar2_range(&access).ok_or(libc::EINVAL)?].copy_from_slice(data),
            region::CONFIG if self.config.write(access.offset, data) => {}
            _ => return Err(libc::EINVAL),
        }
        Ok(access.encode(&[]))
    }
}

/// The offset of a register access: aligned, of an allowed length, inside BAR 0.
fn register_offset(access: &RegionAccess, lengths: &[u32]) -> Result<u16, i32> {
    let inside = access.offset < BAR_LEN_BYTES.into();
    if !lengths.contains(&access.count) || !inside || !access.offset.is_multiple_of(access.count.into()) {
        return Err(libc::EINVAL);
    }
    Ok(access.offset as u16)
}

fn bar2_range(access: &RegionAccess) -> Option<std::ops::Range<usize>> {
    let start = usize::try_from(access.offset).ok()?;
    let end = start
        .checked_add(access.count as usize)
        .filter(|end| *end <= MSIX_BAR_BYTES)?;
    Some(start..end)
}

/// What there is behind a region number.
fn region_info(payload: &[u8], is_shared: bool) -> Result<RegionInfo, i32> {
    let ask = RegionInfo::decode(payload).map_err(|_| libc::EINVAL)?;
    if ask.index >= region::COUNT {
        return Err(libc::EINVAL);
    }
    let rw = region_flags::READ | region_flags::WRITE;
    let (flags, size) = match ask.index {
        region::BAR0 => (rw, u64::from(BAR_LEN_BYTES)),
        region::BAR2 => (rw, MSIX_BAR_BYTES as u64),
        region::BAR4 if is_shared => (rw | region_flags::MMAP, SHARED_REGION_BYTES as u64),
        region::CONFIG => (rw, CONFIG_BYTES as u64),
        _ => (0, 0),
    };
    Ok(RegionInfo {
        index: ask.index,
        flags,
        size,
        offset: 0,
    })
}

/// Parts of a region that an eventfd stands for, and that eventfd.
fn region_io_fds<'a>(
    index: u32,
    kick: Option<BorrowedFd<'a>>,
) -> Result<(Vec<u8>, Option<BorrowedFd<'a>>), i32> {
    match index {
        region::BAR4 if kick.is_some() => {
            let (offset, size) = (KICK_OFFSET, KICK_BYTES);
            Ok((IoEventFd { index, offset, size }.encode(), kick))
        }
        index if index < region::COUNT => Ok((IoEventFd::none(index), None)),
        _ => Err(libc::EINVAL),
    }
}

fn irq_info(payload: &[u8]) -> Result<IrqInfo, i32> {
    const EVENTFD: u32 = 1;
    let ask = IrqInfo::decode(payload).map_err(|_| libc::EINVAL)?;
    match ask.index {
        irq::MSIX => Ok(IrqInfo {
            index: ask.index,
            flags: EVENTFD,
            count: NUM_VECTORS.into(),
        }),
        index if index < irq::COUNT => Ok(IrqInfo {
            index,
            flags: 0,
            count: 0,
        }),
        _ => Err(libc::EINVAL),
    }
}
