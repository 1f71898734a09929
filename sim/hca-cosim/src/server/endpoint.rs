//! One function behind a socket: what its client has set up, and the answers to its messages.

use std::fs::File;
use std::io::Write;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use hca_dev::SharedMem;
use hca_host::{MapError, Memory};
use hca_regs as reg;
use hca_vfio_user::{
    ACTIVITY_PAGE_BYTES, ActivityPage, Command, Connection, DmaMap, DmaUnmap, Header, IrqInfo, Message,
    RegionAccess, RegionInfo, SetIrqs, device_info, irq, irq_data, region, region_flags,
};

use super::config_space::{CONFIG_BYTES, ConfigSpace, MSIX_BAR_BYTES};
use super::process::ProcessMemory;
use crate::fabric::{CardId, Fabric};
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
}

/// One function behind a socket.
pub(super) struct Endpoint {
    pub card: CardId,
    pub func: u8,
    pub path: PathBuf,
    pub taken: Arc<AtomicBool>,
    activity: ActivityPage,
    config: ConfigSpace,
    msix_bar: Box<[u8; MSIX_BAR_BYTES]>,
    client: Option<Client>,
    /// Register reads under way: id, the message, the access.
    reads: Vec<(u64, Header, RegionAccess)>,
}

impl Endpoint {
    pub fn new(
        card: CardId,
        func: u8,
        path: PathBuf,
        taken: Arc<AtomicBool>,
        activity: ActivityPage,
    ) -> Self {
        Self {
            card,
            func,
            path,
            taken,
            activity,
            config: ConfigSpace::new(),
            msix_bar: Box::new([0; MSIX_BAR_BYTES]),
            client: None,
            reads: Vec::new(),
        }
    }

    pub fn connected(&mut self, fabric: &mut Fabric, connection: Connection, pid: i32, process_memory: bool) {
        if process_memory && let Some(map) = fabric.card_mut(self.card).host().function(self.func) {
            map.set_process(Arc::new(ProcessMemory::new(pid)));
        }
        let vectors = (0..NUM_VECTORS).map(|_| None).collect();
        self.client = Some(Client {
            connection,
            process_memory,
            vectors,
        });
    }

    /// The client went away: its memory goes with it, and the function is reset before the next client.
    pub fn gone(&mut self, fabric: &mut Fabric) {
        if let Some(client) = self.client.take() {
            client.connection.shutdown();
        }
        if let Some(map) = fabric.card_mut(self.card).host().function(self.func) {
            map.clear();
        }
        self.reads.clear();
        self.config = ConfigSpace::new();
        self.reset(fabric);
        self.taken.store(false, Ordering::Release);
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

    /// Something has become visible to the host.
    pub fn announce(&self) {
        if self.client.is_some() {
            self.activity.announce();
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
        if self.client.is_none() || header.is_reply() {
            return;
        }
        if Command::from_wire(header.command) == Some(Command::DeviceGetRegionInfo) {
            // The only answer that carries a descriptor, which must stay borrowed from us.
            let page = self.activity.clone();
            let answer = region_info(&payload)
                .map(|(info, with_page)| Some((info.encode(), with_page.then(|| page.memory().fd()))));
            return self.reply(&header, answer);
        }
        let answer = self.answer(fabric, &header, &payload, fds);
        self.reply(
            &header,
            answer.map(|payload| payload.map(|payload| (payload, None))),
        );
    }

    fn reply(&mut self, to: &Header, answer: Answer<'_>) {
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
            region::BAR0 => {
                let offset = register_offset(&access, &[4, 8])?;
                let mut word = [0; 8];
                let lane = usize::from(offset & 7);
                word[lane..lane + data.len()].copy_from_slice(data);
                let strb = (0xffu16 >> (8 - data.len()) << lane) as u8;
                fabric.mmio_write(self.card, self.func, offset, u64::from_le_bytes(word), strb);
            }
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

/// What there is behind a region number; true: the activity page goes with it.
fn region_info(payload: &[u8]) -> Result<(RegionInfo, bool), i32> {
    let ask = RegionInfo::decode(payload).map_err(|_| libc::EINVAL)?;
    if ask.index >= region::COUNT {
        return Err(libc::EINVAL);
    }
    let rw = region_flags::READ | region_flags::WRITE;
    let (flags, size) = match ask.index {
        region::BAR0 => (rw, u64::from(BAR_LEN_BYTES)),
        region::BAR2 => (rw, MSIX_BAR_BYTES as u64),
        region::BAR4 => (rw | region_flags::MMAP, ACTIVITY_PAGE_BYTES as u64),
        region::CONFIG => (rw, CONFIG_BYTES as u64),
        _ => (0, 0),
    };
    Ok((
        RegionInfo {
            index: ask.index,
            flags,
            size,
            offset: 0,
        },
        ask.index == region::BAR4,
    ))
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
