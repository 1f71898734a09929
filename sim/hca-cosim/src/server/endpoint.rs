//! One function behind a socket: what its client has set up, and the answers to its messages.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use hca_dev::SharedMem;
use hca_host::{IommuMap, MapError, Memory};
use hca_regs as reg;
use hca_vfio_user::{
    ActivityPage, Command, Connection, DmaMap, DmaUnmap, Header, IoEventFd, IrqInfo, KICK_BYTES, KICK_OFFSET,
    Message, POSTED_ENTRIES, PostedReader, PostedWrite, RegionAccess, RegionInfo, SHARED_REGION_BYTES,
    SetIrqs, SharedRegion, device_info, eventfd, irq, irq_data, region, region_flags,
};

use super::config_space::{CONFIG_BYTES, ConfigSpace, MSIX_BAR_BYTES};
use super::process::ProcessMemory;
use crate::fabric::{CardId, Fabric};
use crate::observe::{Observer, SentPacket};
use crate::{BAR_LEN_BYTES, NUM_VECTORS};

/// Mappings one client may have.
const MAX_MAPPINGS: usize = 65_536;

/// The answer to a message: payload and descriptors, or an errno. None: it comes later.
type Answer<'a> = Result<Option<(Vec<u8>, Option<BorrowedFd<'a>>)>, i32>;

/// The process that has the function.
struct Client {
    connection: Connection,
    process_memory: bool,
    vectors: Vec<Option<File>>,
    /// Made for this client, so that an earlier one that kept the mapping reaches nobody.
    region: SharedRegion,
    activity: ActivityPage,
    posted: PostedReader,
    kick: OwnedFd,
    observer: Option<Box<dyn Observer>>,
}

impl Client {
    fn new(connection: Connection, process_memory: bool) -> io::Result<Self> {
        let region = SharedRegion::new().map_err(io::Error::other)?;
        Ok(Self {
            connection,
            process_memory,
            vectors: (0..NUM_VECTORS).map(|_| None).collect(),
            activity: region.activity(),
            posted: PostedReader::new(region.clone()),
            region,
            kick: eventfd()?,
            observer: None,
        })
    }
}

/// One function behind a socket.
pub(super) struct Endpoint {
    pub card: CardId,
    pub func: u8,
    pub path: PathBuf,
    pub taken: Arc<AtomicBool>,
    config: ConfigSpace,
    msix_bar: Box<[u8; MSIX_BAR_BYTES]>,
    client: Option<Client>,
    /// Register reads under way: id, the message, the access.
    reads: Vec<(u64, Header, RegionAccess)>,
    /// What the card had written into the client's rings at the last look.
    announced: u64,
}

impl Endpoint {
    pub fn new(card: CardId, func: u8, path: PathBuf, taken: Arc<AtomicBool>) -> Self {
        Self {
            card,
            func,
            path,
            taken,
            config: ConfigSpace::new(),
            msix_bar: Box::new([0; MSIX_BAR_BYTES]),
            client: None,
            reads: Vec::new(),
            announced: 0,
        }
    }

    pub fn connected(&mut self, fabric: &mut Fabric, connection: Connection, pid: i32, process_memory: bool) {
        if let Some(map) = fabric.card_mut(self.card).host().function(self.func) {
            map.clear();
            if process_memory {
                map.set_process(Arc::new(ProcessMemory::new(pid)));
            }
        }
        let hang_up = connection.try_clone();
        match (Client::new(connection, process_memory), hang_up) {
            (Ok(client), _) => self.client = Some(client),
            // Out of memory or descriptors. The thread that reads notices the end and reports that the client is gone.
            (Err(_), Ok(hang_up)) => hang_up.shutdown(),
            (Err(_), Err(_)) => {}
        }
    }

    /// The client went away: its memory goes with it, and the function is reset before the next client. The card must
    /// not find its queues gone before it has been reset: it would tell peers of a fault that shall hear nothing.
    pub fn gone(&mut self, fabric: &mut Fabric) {
        if let Some(client) = self.client.take() {
            client.connection.shutdown();
        }
        if let Some(map) = fabric.card_mut(self.card).host().function(self.func) {
            map.abandon();
            map.log_shared_writes(false);
        }
        self.reads.clear();
        self.config = ConfigSpace::new();
        self.reset(fabric);
        self.taken.store(false, Ordering::Release);
    }

    /// Nobody is connected, and the card rests: what the last client had mapped is not kept.
    pub fn forget(&mut self, fabric: &mut Fabric) {
        if self.client.is_none()
            && let Some(map) = fabric.card_mut(self.card).host().function(self.func)
        {
            map.clear();
        }
    }

    /// Ends the connection: the client finds out.
    pub fn hang_up(&self) {
        self.client.iter().for_each(|client| client.connection.shutdown());
    }

    /// A process has the function.
    pub fn has_client(&self) -> bool {
        self.client.is_some()
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
    pub fn take_writes(&mut self, fabric: &mut Fabric, pending_max: usize) {
        // A client that writes faster than this must not hold everybody else up.
        for _ in 0..POSTED_ENTRIES {
            if fabric.card(self.card).pcie().mmio_pending() >= pending_max {
                return;
            }
            let posted = self.client.as_mut().and_then(|client| client.posted.take());
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

    /// The client has posted something that was not taken.
    pub fn has_writes(&self) -> bool {
        self.client.as_ref().is_some_and(|client| client.posted.has_any())
    }

    /// What the client kicks when it posts while we sleep.
    pub fn kick(&self) -> Option<&OwnedFd> {
        self.client.as_ref().map(|client| &client.kick)
    }

    pub fn fall_asleep(&self) {
        self.client.iter().for_each(|client| client.posted.fall_asleep());
    }

    pub fn wake_up(&self) {
        self.client.iter().for_each(|client| client.posted.wake_up());
    }

    /// Wakes the client if the card has written into its rings. Payload wakes nobody: what says that it is there is a
    /// completion.
    pub fn announce(&mut self, fabric: &mut Fabric) {
        let map = fabric.card_mut(self.card).host().function(self.func);
        let (Some(client), Some(map)) = (&self.client, map) else {
            return;
        };
        if std::mem::replace(&mut self.announced, map.shared_writes()) != self.announced {
            client.activity.announce();
        }
    }

    pub fn interrupt(&mut self, vector: u16) {
        let file = self
            .client
            .as_mut()
            .and_then(|client| client.vectors.get_mut(usize::from(vector))?.as_mut());
        if let Some(file) = file {
            // It is an eventfd (checked), and full only if the client ignores 2^64 interrupts.
            let _ = file.write(&1u64.to_ne_bytes());
        }
    }

    /// A register value that some read of ours waited for. False: not ours.
    pub fn register_value(&mut self, id: u64, value: u32) -> bool {
        let Some(at) = self.reads.iter().position(|(found, ..)| *found == id) else {
            return false;
        };
        let (_, header, access) = self.reads.swap_remove(at);
        self.reply(&header, Ok(Some((access.encode(&value.to_le_bytes()), None))));
        true
    }

    /// Handles a message of the client.
    pub fn message(&mut self, fabric: &mut Fabric, message: Message) {
        let Message { header, payload, fds } = message;
        if header.is_reply() {
            return;
        }
        // Nothing passes what the client has posted before.
        self.take_writes(fabric, usize::MAX);
        let Some(client) = &self.client else { return };
        // The two answers that carry a descriptor, which must stay borrowed from us.
        let with_fd = match Command::from_wire(header.command) {
            Some(Command::DeviceGetRegionInfo) => Some(region_info(&payload).map(|info| {
                let is_shared = info.flags & region_flags::MMAP != 0;
                Some((info.encode(), is_shared.then(|| client.region.memory().fd())))
            })),
            Some(Command::DeviceGetRegionIoFds) => {
                let kick = IoEventFd::decode_ask(&payload).map_err(|_| libc::EINVAL);
                Some(kick.and_then(region_io_fds).map(|(reply, has_kick)| {
                    let kick = has_kick.then(|| client.kick.as_fd());
                    Some((reply, kick))
                }))
            }
            _ => None,
        };
        if let Some(answer) = with_fd {
            return self.reply(&header, answer);
        }
        let answer = self.answer(fabric, &header, &payload, fds);
        self.reply(
            &header,
            answer.map(|payload| payload.map(|payload| (payload, None))),
        );
    }

    fn reply(&self, to: &Header, answer: Answer<'_>) {
        let Some(client) = &self.client else { return };
        if !to.wants_reply() {
            return;
        }
        let sent = match answer {
            Ok(None) => return,
            Ok(Some((payload, fd))) => client.connection.send_reply(to, &payload, fd.as_slice(), 0),
            Err(errno) => client.connection.send_reply(to, &[], &[], errno as u32),
        };
        if sent.is_err() {
            // The reading thread notices, and reports that the client is gone.
            client.connection.shutdown();
        }
    }

    fn answer(
        &mut self,
        fabric: &mut Fabric,
        header: &Header,
        payload: &[u8],
        fds: Vec<OwnedFd>,
    ) -> Result<Option<Vec<u8>>, i32> {
        let done = Ok(Some(Vec::new()));
        match Command::from_wire(header.command) {
            Some(Command::DmaMap) => {
                let map = DmaMap::decode(payload).map_err(|_| libc::EINVAL)?;
                self.dma_map(fabric, &map, fds).and(done)
            }
            Some(Command::DmaUnmap) => {
                let unmap = DmaUnmap::decode(payload).map_err(|_| libc::EINVAL)?;
                self.dma_unmap(fabric, &unmap)?;
                Ok(Some(unmap.encode()))
            }
            Some(Command::DeviceGetInfo) => Ok(Some(device_info())),
            Some(Command::DeviceGetIrqInfo) => irq_info(payload).map(|info| Some(info.encode())),
            Some(Command::DeviceSetIrqs) => {
                let set = SetIrqs::decode(payload).map_err(|_| libc::EINVAL)?;
                self.set_irqs(&set, fds).and(done)
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

    fn dma_map(&mut self, fabric: &mut Fabric, map: &DmaMap, fds: Vec<OwnedFd>) -> Result<(), i32> {
        let process_memory = self.client.as_ref().is_some_and(|client| client.process_memory);
        let iommu = fabric
            .card_mut(self.card)
            .host()
            .function(self.func)
            .ok_or(libc::ENODEV)?;
        if iommu.len() >= MAX_MAPPINGS {
            return Err(libc::ENOSPC);
        }
        let mapped = match fds.into_iter().next() {
            Some(fd) => {
                let len_bytes = usize::try_from(map.size).map_err(|_| libc::EINVAL)?;
                let memory = SharedMem::from_file(File::from(fd), map.offset, len_bytes);
                let memory = memory.ok().filter(SharedMem::is_sealed).ok_or(libc::EINVAL)?;
                iommu.map(
                    map.address,
                    map.size,
                    Memory::Shared {
                        memory: Arc::new(memory),
                        offset: 0,
                    },
                )
            }
            None if process_memory => iommu.map_process(map.address, map.size),
            None => return Err(libc::ENOTSUP),
        };
        mapped.map_err(|error| match error {
            MapError::Overlap { .. } => libc::EEXIST,
            _ => libc::EINVAL,
        })
    }

    fn dma_unmap(&mut self, fabric: &mut Fabric, unmap: &DmaUnmap) -> Result<(), i32> {
        let iommu = fabric
            .card_mut(self.card)
            .host()
            .function(self.func)
            .ok_or(libc::ENODEV)?;
        if unmap.flags & DmaUnmap::ALL != 0 {
            iommu.clear();
            return Ok(());
        }
        // A client may end several mappings at once.
        let ended = iommu.unmap(unmap.address, unmap.size).is_ok()
            || iommu.unmap_inside(unmap.address, unmap.size) > 0;
        if ended { Ok(()) } else { Err(libc::ENOENT) }
    }

    fn set_irqs(&mut self, set: &SetIrqs, fds: Vec<OwnedFd>) -> Result<(), i32> {
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
        let range = set.start as usize..end as usize;
        if set.flags & irq_data::NONE != 0 && set.count == 0 {
            client.vectors.iter_mut().for_each(|vector| *vector = None);
        } else if set.flags & irq_data::EVENTFD != 0 && fds.is_empty() {
            client.vectors[range].iter_mut().for_each(|vector| *vector = None);
        } else if set.flags & irq_data::EVENTFD != 0 && fds.len() == range.len() {
            if !fds.iter().all(is_eventfd) {
                return Err(libc::EINVAL);
            }
            for (vector, fd) in client.vectors[range].iter_mut().zip(fds) {
                *vector = Some(File::from(fd));
            }
        } else {
            return Err(libc::EINVAL);
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
fn region_info(payload: &[u8]) -> Result<RegionInfo, i32> {
    let ask = RegionInfo::decode(payload).map_err(|_| libc::EINVAL)?;
    if ask.index >= region::COUNT {
        return Err(libc::EINVAL);
    }
    let rw = region_flags::READ | region_flags::WRITE;
    let (flags, size) = match ask.index {
        region::BAR0 => (rw, u64::from(BAR_LEN_BYTES)),
        region::BAR2 => (rw, MSIX_BAR_BYTES as u64),
        region::BAR4 => (rw | region_flags::MMAP, SHARED_REGION_BYTES as u64),
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

/// Parts of a region that an eventfd stands for. True: that eventfd goes with it.
fn region_io_fds(index: u32) -> Result<(Vec<u8>, bool), i32> {
    match index {
        region::BAR4 => {
            let (offset, size) = (KICK_OFFSET, KICK_BYTES);
            Ok((IoEventFd { index, offset, size }.encode(), true))
        }
        index if index < region::COUNT => Ok((IoEventFd::none(index), false)),
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

/// Anything else could block the simulation when it is written to.
fn is_eventfd(fd: &OwnedFd) -> bool {
    let link = std::fs::read_link(format!("/proc/self/fd/{}", fd.as_fd().as_raw_fd()));
    link.is_ok_and(|target| target.as_os_str() == "anon_inode:[eventfd]")
}
