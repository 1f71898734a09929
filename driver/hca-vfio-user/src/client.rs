//! The driver's end: one function of a card behind a socket.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use hca_dev::{Device, DeviceError, DeviceInfo, DmaBuf, SharedMem, UserMemory};

use crate::activity::{ActivityPage, eventfd};
use crate::protocol::{
    Command, DmaMap, DmaUnmap, IrqInfo, RegionAccess, RegionInfo, SetIrqs, irq, irq_data, region,
    region_flags,
};
use crate::socket::{Connection, MAX_FDS, Message};
use crate::version::{Capabilities, MAJOR, decode_version, encode_version};

/// A simulator that is silent for so long is gone.
const REPLY_TIMEOUT: Duration = Duration::from_secs(60);
/// Empty polls that only yield the processor; after them the poller sleeps.
const YIELDS: u32 = 20;
/// Longest sleep of an empty poll, should its wake-up get lost.
const NAP: Duration = Duration::from_millis(2);
const READ_WRITE: u32 = 3;

struct Link {
    connection: Connection,
    next_id: u16,
}

/// A function of a card that another process simulates.
pub struct VfioUserDevice {
    info: DeviceInfo,
    link: Mutex<Link>,
    vectors: Vec<OwnedFd>,
    activity: Option<ActivityPage>,
    empty_polls: AtomicU32,
    last_sequence: AtomicU32,
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
        let connection = Connection::new(stream);
        connection
            .set_receive_timeout(Some(REPLY_TIMEOUT))
            .map_err(os("set the receive timeout"))?;
        allow_memory_access(
            connection
                .peer_pid()
                .map_err(os("ask for the peer's process id"))?,
        );
        let mut link = Link {
            connection,
            next_id: 0,
        };
        agree_on_version(&mut link)?;
        let (bar, _) = link.region_info(region::BAR0)?;
        let vectors = set_up_vectors(&mut link)?;
        let activity = map_activity(&mut link)?;
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
            last_sequence: AtomicU32::new(activity.as_ref().map_or(0, ActivityPage::sequence)),
            activity,
            empty_polls: AtomicU32::new(0),
            start: Instant::now(),
        })
    }

    fn link(&self) -> MutexGuard<'_, Link> {
        self.link.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A posted write. A broken connection shows at the next read, as with a PCI device that is gone.
    fn post(&self, offset: u32, bytes: &[u8]) {
        let access = RegionAccess {
            region: region::BAR0,
            offset: offset.into(),
            count: bytes.len() as u32,
        };
        let _ =
            self.link()
                .connection
                .send_command(0, Command::RegionWrite, &access.encode(bytes), &[], false);
    }

    fn map(&self, address: u64, len_bytes: usize, fds: &[BorrowedFd<'_>]) -> Result<(), DeviceError> {
        let map = DmaMap {
            flags: READ_WRITE,
            offset: 0,
            address,
            size: len_bytes as u64,
        };
        let reply = self.link().call(Command::DmaMap, &map.encode(), fds)?;
        match reply.header.errno() {
            0 => Ok(()),
            errno => {
                let reason = io::Error::from_raw_os_error(errno as i32).to_string();
                Err(DeviceError::Map {
                    addr: address,
                    len_bytes,
                    reason,
                })
            }
        }
    }

    fn vector(&self, vector: u16) -> Result<&OwnedFd, DeviceError> {
        let num_vectors = self.info.num_vectors;
        self.vectors
            .get(usize::from(vector))
            .ok_or(DeviceError::BadVector { vector, num_vectors })
    }
}

/// Lets the simulator read and write this process' memory by address (D16). Without the Yama module it may
/// anyway.
fn allow_memory_access(pid: i32) {
    // SAFETY: a plain system call; failure (no Yama) means that nothing needs to be allowed.
    unsafe { libc::prctl(libc::PR_SET_PTRACER, pid as libc::c_ulong, 0, 0, 0) };
}

fn agree_on_version(link: &mut Link) -> Result<(), DeviceError> {
    let ours = Capabilities {
        max_msg_fds: MAX_FDS as u32,
        hca_process_memory: true,
        ..Default::default()
    };
    let what = "the simulator refuses the connection (is the function in use by another process?)";
    let reply = link.demand(what, Command::Version, &encode_version(&ours), &[])?;
    let (major, minor, theirs) =
        decode_version(&reply.payload).map_err(|e| DeviceError::Gone(e.to_string()))?;
    if major != MAJOR || !theirs.hca_process_memory {
        return Err(DeviceError::Gone(format!(
            "the peer speaks vfio-user {major}.{minor} but is no OpenHCA simulator (no hca_process_memory)"
        )));
    }
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

fn map_activity(link: &mut Link) -> Result<Option<ActivityPage>, DeviceError> {
    let (info, fd) = link.region_info(region::BAR4)?;
    match fd {
        Some(fd) if info.flags & region_flags::MMAP != 0 => {
            let size = usize::try_from(info.size).unwrap_or(0);
            Ok(ActivityPage::from_memory(SharedMem::from_file(
                File::from(fd),
                info.offset,
                size,
            )?))
        }
        _ => Ok(None),
    }
}

impl Device for VfioUserDevice {
    fn info(&self) -> DeviceInfo {
        self.info.clone()
    }

    fn mmio_write32(&self, offset: u32, value: u32) {
        self.post(offset, &value.to_le_bytes());
    }

    fn mmio_write64(&self, offset: u32, value: u64) {
        self.post(offset, &value.to_le_bytes());
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
        let iova = memory.as_ptr() as u64;
        self.map(iova, memory.len_bytes(), &[memory.fd()])?;
        Ok(DmaBuf::new(memory, iova))
    }

    fn free_dma(&self, buf: DmaBuf) -> Result<(), DeviceError> {
        self.unmap_dma(buf.iova(), buf.len_bytes())
    }

    fn map_dma(&self, memory: UserMemory) -> Result<u64, DeviceError> {
        self.map(memory.addr(), memory.len_bytes(), &[])?;
        Ok(memory.addr())
    }

    fn unmap_dma(&self, iova: u64, len_bytes: usize) -> Result<(), DeviceError> {
        let unmap = DmaUnmap {
            flags: 0,
            address: iova,
            size: len_bytes as u64,
        };
        let reply = self.link().call(Command::DmaUnmap, &unmap.encode(), &[])?;
        if reply.header.errno() == 0 {
            Ok(())
        } else {
            Err(DeviceError::NotMapped { iova, len_bytes })
        }
    }

    fn progress(&self) {
        let Some(activity) = &self.activity else {
            return std::thread::yield_now();
        };
        let sequence = activity.sequence();
        if self.last_sequence.swap(sequence, Ordering::Relaxed) != sequence {
            self.empty_polls.store(0, Ordering::Relaxed);
        } else if self.empty_polls.fetch_add(1, Ordering::Relaxed) < YIELDS {
            std::thread::yield_now();
        } else {
            activity.wait(sequence, NAP);
        }
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
