//! The driver's end: one function of a card behind a socket.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use hca_dev::{Device, DeviceError, DeviceInfo, DmaBuf, SharedMem, UserMemory, ring_iova, user_iova};

use crate::activity::{ActivityPage, eventfd};
use crate::header::Command;
use crate::posted::{PostedWrite, PostedWriter};
use crate::protocol::{
    DmaMap, DmaUnmap, IoEventFd, IrqInfo, RegionAccess, RegionInfo, SetIrqs, irq, irq_data, region,
    region_flags,
};
use crate::registered::Registered;
use crate::shared::{KICK_BYTES, KICK_OFFSET, SharedRegion};
use crate::socket::{Connection, MAX_FDS, Message};
use crate::version::{Capabilities, MAJOR, MINOR, decode_version, encode_version};

/// A simulator that is silent for so long is gone.
const REPLY_TIMEOUT: Duration = Duration::from_secs(60);
/// Empty polls in a row that only give the processor away; after them the poller sleeps.
const YIELDS: u32 = 20;
/// Longest sleep of an empty poll: for programs that wait for something else at the same time.
const NAP: Duration = Duration::from_millis(1);
const READ_WRITE: u32 = 3;

/// Why the simulator takes no more mappings.
const NO_ROOM: &str = "the simulator has as many mappings of this program as it takes, or too many others overlap \
                       this one (docs/isolation.md): deregister memory first, or register one large region instead \
                       of many small ones";

struct Link {
    connection: Connection,
    next_id: u16,
}

/// A function of a card that another process simulates.
pub struct VfioUserDevice {
    info: DeviceInfo,
    link: Mutex<Link>,
    vectors: Vec<OwnedFd>,
    activity: ActivityPage,
    /// Register writes do not take the link.
    posted: PostedWriter,
    pub(crate) registered: Registered,
    start: Instant,
}

fn gone(error: &io::Error) -> DeviceError {
    DeviceError::Gone(format!("the connection to the simulator broke: {error}"))
}

fn os(what: &'static str) -> impl Fn(io::Error) -> DeviceError {
    move |reason| DeviceError::Os { what, reason }
}

fn refused(what: &'static str, errno: u32) -> DeviceError {
    DeviceError::Os {
        what,
        reason: io::Error::from_raw_os_error(errno as i32),
    }
}

impl Link {
    /// Sends a command and waits for its reply.
    fn call(
        &mut self,
        command: Command,
        payload: &[u8],
        fds: &[BorrowedFd<'_>],
    ) -> Result<Message, DeviceError> {
        self.next_id = self.next_id.wrapping_add(1);
        let id = self.next_id;
        self.connection
            .send_command(id, command, payload, fds, true)
            .map_err(|e| gone(&e))?;
        loop {
            let message = self.connection.receive().map_err(|e| gone(&e))?;
            if message.header.is_reply() && message.header.id == id {
                return Ok(message);
            }
            if message.header.wants_reply() {
                // Requests of the other side (DMA messages) are not agreed on.
                let reply = self
                    .connection
                    .send_reply(&message.header, &[], &[], libc::ENOTSUP as u32);
                reply.map_err(|e| gone(&e))?;
            }
        }
    }

    /// A call whose refusal is an error.
    fn demand(
        &mut self,
        what: &'static str,
        command: Command,
        payload: &[u8],
        fds: &[BorrowedFd<'_>],
    ) -> Result<Message, DeviceError> {
        let reply = self.call(command, payload, fds)?;
        match reply.header.errno() {
            0 => Ok(reply),
            errno => Err(refused(what, errno)),
        }
    }

    fn region_info(&mut self, index: u32) -> Result<(RegionInfo, Option<OwnedFd>), DeviceError> {
        let ask = RegionInfo {
            index,
            flags: 0,
            size: 0,
            offset: 0,
        };
        let reply = self.demand("region info", Command::DeviceGetRegionInfo, &ask.encode(), &[])?;
        let info = RegionInfo::decode(&reply.payload).map_err(|e| DeviceError::Gone(e.to_string()))?;
        Ok((info, reply.fds.into_iter().next()))
    }
}

impl VfioUserDevice {
    /// Connects to the socket of a function. The function then belongs to this process until the value is
    /// dropped.
    pub fn connect(path: &Path) -> Result<Self, DeviceError> {
        let stream = UnixStream::connect(path)
            .map_err(|e| DeviceError::Gone(format!("cannot connect to {}: {e}", path.display())))?;
        let hang_up = stream.try_clone().map_err(os("copy a descriptor"))?;
        let connection = Connection::new(stream);
        connection
            .set_receive_timeout(Some(REPLY_TIMEOUT))
            .map_err(os("set the receive timeout"))?;
        let mut link = Link {
            connection,
            next_id: 0,
        };
        agree_on_version(&mut link)?;
        enable(&mut link)?;
        let (bar, _) = link.region_info(region::BAR0)?;
        let vectors = set_up_vectors(&mut link)?;
        let region = map_shared(&mut link)?;
        let kick = kick_of(&mut link)?;
        let name = path
            .file_name()
            .map_or_else(String::new, |name| name.to_string_lossy().into_owned());
        let info = DeviceInfo {
            name,
            bar_len_bytes: bar.size as u32,
            num_vectors: vectors.len() as u16,
        };
        Ok(Self {
            info,
            link: Mutex::new(link),
            vectors,
            activity: region.activity(),
            posted: PostedWriter::new(region, kick, hang_up.into()),
            registered: Registered::from_environment(),
            start: Instant::now(),
        })
    }

    /// Whether memory that is registered from now on is shared with the simulator where it can be, whatever the
    /// environment says ([`SHARE_VARIABLE`](crate::SHARE_VARIABLE)).
    pub fn share_memory(&mut self, shares: bool) {
        self.registered.shares = shares;
    }

    fn link(&self) -> MutexGuard<'_, Link> {
        self.link.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Maps memory, if descriptors are given of the file that has it, from `offset` on.
    pub(crate) fn map(
        &self,
        address: u64,
        len_bytes: usize,
        offset: u64,
        fds: &[BorrowedFd<'_>],
    ) -> Result<(), DeviceError> {
        let map = DmaMap {
            flags: READ_WRITE,
            offset,
            address,
            size: len_bytes as u64,
        };
        let reply = self.link().call(Command::DmaMap, &map.encode(), fds)?;
        match reply.header.errno() {
            0 => Ok(()),
            errno => {
                let reason = match errno as i32 {
                    libc::ENOSPC => NO_ROOM.to_owned(),
                    errno => io::Error::from_raw_os_error(errno).to_string(),
                };
                Err(DeviceError::Map {
                    addr: address,
                    len_bytes,
                    reason,
                })
            }
        }
    }

    /// Ends a mapping of exactly this range.
    pub(crate) fn unmap(&self, iova: u64, len_bytes: usize) -> Result<(), DeviceError> {
        let unmap = DmaUnmap {
            flags: 0,
            address: iova,
            size: len_bytes as u64,
        };
        let reply = self.link().call(Command::DmaUnmap, &unmap.encode(), &[])?;
        // To end nothing is no error there.
        let ended = DmaUnmap::decode(&reply.payload).map_or(0, |ended| ended.size);
        if reply.header.errno() == 0 && ended == unmap.size {
            Ok(())
        } else {
            Err(DeviceError::NotMapped { iova, len_bytes })
        }
    }

    fn vector(&self, vector: u16) -> Result<&OwnedFd, DeviceError> {
        let num_vectors = self.info.num_vectors;
        self.vectors
            .get(usize::from(vector))
            .ok_or(DeviceError::BadVector { vector, num_vectors })
    }
}

/// What lets the simulator read and write this process' memory by address (D16): a process may always open its own, and
/// who has the open file needs no right to trace it. That matters in containers, and where the Yama module is strict.
fn own_memory() -> Result<File, DeviceError> {
    const PATH: &str = "/proc/self/mem";
    let opened = File::options().read(true).write(true).open(PATH);
    opened.map_err(os(
        "open /proc/self/mem, by which the simulated card reaches registered memory (is /proc mounted, and may the \
         program itself be read by its user?)",
    ))
}

fn agree_on_version(link: &mut Link) -> Result<(), DeviceError> {
    let ours = Capabilities {
        max_msg_fds: MAX_FDS as u32,
        max_dma_maps: u64::MAX,
        hca_process_memory: true,
        hca_shared_region: true,
        ..Default::default()
    };
    let what = "the simulator refuses the connection (is the function in use by another process?)";
    let memory = own_memory()?;
    let greeting = encode_version(MINOR, &ours);
    let reply = link.demand(what, Command::Version, &greeting, &[memory.as_fd()])?;
    let (major, minor, theirs) =
        decode_version(&reply.payload).map_err(|e| DeviceError::Gone(e.to_string()))?;
    if major != MAJOR || !theirs.hca_process_memory || !theirs.hca_shared_region {
        return Err(DeviceError::Gone(format!(
            "the peer speaks vfio-user {major}.{minor} but is no OpenHCA simulator of this version: it does not answer \
             hca_process_memory and hca_shared_region"
        )));
    }
    Ok(())
}

/// Lets the function answer, and reach memory: what a driver of a real card does first, too.
fn enable(link: &mut Link) -> Result<(), DeviceError> {
    const COMMAND_OFFSET: u64 = 4;
    const MEMORY_AND_MASTER: u16 = 6;
    let access = RegionAccess {
        region: region::CONFIG,
        offset: COMMAND_OFFSET,
        count: 2,
    };
    let payload = access.encode(&MEMORY_AND_MASTER.to_le_bytes());
    link.demand("enable the function", Command::RegionWrite, &payload, &[])?;
    Ok(())
}

/// An eventfd for each vector.
fn set_up_vectors(link: &mut Link) -> Result<Vec<OwnedFd>, DeviceError> {
    let ask = IrqInfo {
        index: irq::MSIX,
        flags: 0,
        count: 0,
    };
    let reply = link.demand("interrupt info", Command::DeviceGetIrqInfo, &ask.encode(), &[])?;
    let info = IrqInfo::decode(&reply.payload).map_err(|e| DeviceError::Gone(e.to_string()))?;
    let count = info.count.min(MAX_FDS as u32);
    let vectors = (0..count)
        .map(|_| eventfd())
        .collect::<io::Result<Vec<_>>>()
        .map_err(os("eventfd"))?;
    let flags = irq_data::EVENTFD | irq_data::TRIGGER;
    let set = SetIrqs {
        flags,
        index: irq::MSIX,
        start: 0,
        count,
    };
    let fds: Vec<BorrowedFd<'_>> = vectors.iter().map(AsFd::as_fd).collect();
    link.demand("set up interrupts", Command::DeviceSetIrqs, &set.encode(), &fds)?;
    Ok(vectors)
}

/// Neither simulator nor QEMU device without it.
fn no_region(what: &str) -> DeviceError {
    DeviceError::Gone(format!("the peer is no OpenHCA simulator: {what}"))
}

fn map_shared(link: &mut Link) -> Result<SharedRegion, DeviceError> {
    let (info, fd) = link.region_info(region::BAR4)?;
    let fd = fd.filter(|_| info.flags & region_flags::MMAP != 0);
    let fd = fd.ok_or_else(|| no_region("its BAR 4 is no shared memory"))?;
    let size = usize::try_from(info.size).unwrap_or(0);
    let memory = SharedMem::from_file(&File::from(fd), info.offset, size)?;
    SharedRegion::from_memory(memory).ok_or_else(|| no_region("its BAR 4 is too short"))
}

/// The eventfd that wakes the simulator.
fn kick_of(link: &mut Link) -> Result<OwnedFd, DeviceError> {
    let ask = IoEventFd::ask(region::BAR4);
    let reply = link.demand("region descriptors", Command::DeviceGetRegionIoFds, &ask, &[])?;
    let found = IoEventFd::decode(&reply.payload).map_err(|e| DeviceError::Gone(e.to_string()))?;
    let is_kick = |found: &IoEventFd| (found.offset, found.size) == (KICK_OFFSET, KICK_BYTES);
    match (found.filter(is_kick), reply.fds.into_iter().next()) {
        (Some(_), Some(fd)) => Ok(fd),
        _ => Err(no_region("its BAR 4 has no kick")),
    }
}

impl Device for VfioUserDevice {
    fn info(&self) -> DeviceInfo {
        self.info.clone()
    }

    fn mmio_write32(&self, offset: u32, value: u32) {
        self.posted.post(PostedWrite {
            offset,
            len_bytes: 4,
            value: value.into(),
        });
    }

    #[inline]
    fn mmio_write64(&self, offset: u32, value: u64) {
        self.posted.post(PostedWrite {
            offset,
            len_bytes: 8,
            value,
        });
    }

    fn mmio_read32(&self, offset: u32) -> u32 {
        let access = RegionAccess {
            region: region::BAR0,
            offset: offset.into(),
            count: 4,
        };
        let reply = self
            .link()
            .demand("read a register", Command::RegionRead, &access.encode(&[]), &[]);
        let value = reply.ok().and_then(|reply| {
            let (_, data) = RegionAccess::decode(&reply.payload).ok()?;
            Some(u32::from_le_bytes(data.get(..4)?.try_into().ok()?))
        });
        value.unwrap_or(u32::MAX)
    }

    fn alloc_dma(&self, len_bytes: usize) -> Result<DmaBuf, DeviceError> {
        let memory = Arc::new(SharedMem::new("hca-dma", len_bytes)?);
        let iova = ring_iova(&memory);
        self.map(iova, memory.len_bytes(), 0, memory.fd().as_slice())?;
        Ok(DmaBuf::new(memory, iova))
    }

    fn free_dma(&self, buf: DmaBuf) -> Result<(), DeviceError> {
        self.unmap(buf.iova(), buf.len_bytes())
    }

    fn map_dma(&self, memory: UserMemory) -> Result<u64, DeviceError> {
        let iova = user_iova(&memory)?;
        self.register(iova, &memory)?;
        Ok(iova)
    }

    fn unmap_dma(&self, iova: u64, len_bytes: usize) -> Result<(), DeviceError> {
        self.deregister(iova, len_bytes)
    }

    fn progress(&self) {
        std::thread::yield_now();
    }

    fn activity(&self) -> u32 {
        self.activity.sequence()
    }

    /// The first empty polls give the processor to whoever has work. A poller that goes on sleeps until the
    /// card has written into a ring: each of its wake-ups so has a reason, and the simulator has the processor
    /// meanwhile (design: an empty poll must not starve it).
    fn rest(&self, seen: u32, empty_polls: u32) {
        if empty_polls < YIELDS {
            std::thread::yield_now();
        } else {
            self.activity.wait(seen, NAP);
        }
    }

    fn is_gone(&self) -> bool {
        self.activity.lost_write().is_some() || self.posted.is_hung_up()
    }

    fn why_gone(&self) -> Option<String> {
        let addr = self.activity.lost_write()?;
        Some(format!(
            "{}: the IOMMU refused its write to bus address {addr:#x}, where nothing is mapped for writing; it was \
             reset, and works again once it is opened anew",
            self.info.name
        ))
    }

    fn wait_irq(&self, vector: u16, deadline_ns: u64) -> Result<bool, DeviceError> {
        let fd = self.vector(vector)?;
        loop {
            let mut count = [0u8; 8];
            // SAFETY: an eventfd read writes eight bytes.
            let got = unsafe { libc::read(fd.as_raw_fd(), count.as_mut_ptr().cast(), count.len()) };
            if got == count.len() as isize {
                return Ok(true);
            }
            if let Some(why) = self.why_gone() {
                return Err(DeviceError::Gone(why));
            }
            let left_ns = deadline_ns.saturating_sub(self.now_ns());
            if left_ns == 0 {
                return Ok(false);
            }
            let millis = left_ns.div_ceil(1_000_000).min(1000) as i32;
            let mut poll = libc::pollfd {
                fd: fd.as_raw_fd(),
                events: libc::POLLIN,
                revents: 0,
            };
            // SAFETY: one live pollfd. A signal ends the wait early, which the loop allows.
            unsafe { libc::poll(&mut poll, 1, millis) };
        }
    }

    fn irq_fd(&self, vector: u16) -> Option<BorrowedFd<'_>> {
        self.vectors.get(usize::from(vector)).map(AsFd::as_fd)
    }

    fn now_ns(&self) -> u64 {
        self.start.elapsed().as_nanos() as u64
    }
}
