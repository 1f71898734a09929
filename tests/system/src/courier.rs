//! A device whose driver shares no memory with the simulator: every access of the card is a message, and so is every
//! register access. Slow, and how any client of the protocol may do it.

use crate::raw::enabling;
use hca_dev::{Device, DeviceError, DeviceInfo, DmaBuf, SharedMem, UserMemory, load_bytes, store_bytes};
use hca_vfio_user::{
    Capabilities, Command, Connection, DmaAccess, DmaMap, DmaUnmap, MINOR, Message, RegionAccess,
    decode_version, encode_version, region,
};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io;
use std::os::fd::AsRawFd as _;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Bytes of the card in one message: less than a completion has, so that accesses come in pieces, too.
const MAX_BYTES: u64 = 96;
/// First bus address; nothing below is mapped.
const FIRST_IOVA: u64 = 0x7_0000_0000;
const NAP_MS: i32 = 1;

struct Link {
    connection: Connection,
    last_id: u16,
    /// Memory by bus address: where it is, how long, and what keeps it.
    mapped: BTreeMap<u64, (*mut u8, usize, Option<Arc<SharedMem>>)>,
    next_iova: u64,
}

/// See the head of this file.
pub struct Courier {
    link: RefCell<Link>,
    stream: UnixStream,
    start: Instant,
}

fn gone(error: io::Error) -> DeviceError {
    DeviceError::Gone(error.to_string())
}

impl Link {
    fn call(&mut self, command: Command, payload: &[u8]) -> io::Result<Message> {
        self.last_id = self.last_id.wrapping_add(1);
        let id = self.last_id;
        self.connection.send_command(id, command, payload, &[], true)?;
        loop {
            let message = self.connection.receive()?;
            if message.header.is_reply() && message.header.id == id {
                return Ok(message);
            }
            self.serve(&message)?;
        }
    }

    fn demand(&mut self, command: Command, payload: &[u8]) -> io::Result<Vec<u8>> {
        let message = self.call(command, payload)?;
        match message.header.errno() {
            0 => Ok(message.payload),
            errno => Err(io::Error::from_raw_os_error(errno as i32)),
        }
    }

    /// Whatever has come.
    fn serve_all(&mut self) -> io::Result<()> {
        while let Some(message) = self.connection.try_receive()? {
            self.serve(&message)?;
        }
        Ok(())
    }

    /// An access of the card.
    fn serve(&mut self, message: &Message) -> io::Result<()> {
        let answer = self.access(message);
        let (payload, errno) = answer.map_or((Vec::new(), libc::EFAULT), |payload| (payload, 0));
        self.connection
            .send_reply(&message.header, &payload, &[], errno as u32)
    }

    fn access(&self, message: &Message) -> Option<Vec<u8>> {
        let (access, data) = DmaAccess::decode(&message.payload).ok()?;
        let count = usize::try_from(access.count).ok()?;
        let (start, (base, len, _)) = self.mapped.range(..=access.address).next_back()?;
        let offset = usize::try_from(access.address - start).ok()?;
        if access.count > MAX_BYTES || offset.checked_add(count)? > *len {
            return None;
        }
        let at = base.wrapping_add(offset);
        match Command::from_wire(message.header.command)? {
            Command::DmaRead => {
                let mut bytes = vec![0; count];
                // SAFETY: inside the mapping, whose owner keeps it alive.
                unsafe { load_bytes(at, &mut bytes) };
                Some(access.encode(&bytes))
            }
            Command::DmaWrite if data.len() == count => {
                // SAFETY: as above.
                unsafe { store_bytes(at, data) };
                Some(access.encode(&[]))
            }
            _ => None,
        }
    }

    fn map(
        &mut self,
        base: *mut u8,
        len_bytes: usize,
        memory: Option<Arc<SharedMem>>,
    ) -> Result<u64, DeviceError> {
        let iova = self.next_iova + (base as u64 & 0xfff);
        let map = DmaMap {
            flags: 3,
            offset: 0,
            address: iova,
            size: len_bytes as u64,
        };
        let reply = self.demand(Command::DmaMap, &map.encode());
        reply.map_err(|error| DeviceError::Map {
            addr: base as u64,
            len_bytes,
            reason: error.to_string(),
        })?;
        self.mapped.insert(iova, (base, len_bytes, memory));
        self.next_iova = (iova + len_bytes as u64).next_multiple_of(1 << 16);
        Ok(iova)
    }
}

impl Courier {
    /// Connects to the socket of a function.
    pub fn connect(socket: &Path) -> Result<Self, DeviceError> {
        let stream = UnixStream::connect(socket).map_err(gone)?;
        let mut link = Link {
            connection: Connection::new(stream.try_clone().map_err(gone)?),
            last_id: 0,
            mapped: BTreeMap::new(),
            next_iova: FIRST_IOVA,
        };
        let ours = Capabilities {
            max_data_xfer_size: MAX_BYTES,
            ..Capabilities::default()
        };
        let hello = encode_version(MINOR, &ours);
        let reply = link.demand(Command::Version, &hello).map_err(gone)?;
        decode_version(&reply).map_err(|error| DeviceError::Gone(error.to_string()))?;
        link.demand(Command::RegionWrite, &enabling()).map_err(gone)?;
        Ok(Self {
            link: RefCell::new(link),
            stream,
            start: Instant::now(),
        })
    }

    fn write(&self, offset: u32, data: &[u8]) {
        let access = RegionAccess {
            region: region::BAR0,
            offset: offset.into(),
            count: data.len() as u32,
        };
        // A write to a device that is gone is lost.
        let _ = self
            .link
            .borrow_mut()
            .demand(Command::RegionWrite, &access.encode(data));
    }
}

impl Device for Courier {
    fn info(&self) -> DeviceInfo {
        DeviceInfo {
            name: "courier".into(),
            bar_len_bytes: hca_cosim::BAR_LEN_BYTES,
            num_vectors: 0,
        }
    }

    fn mmio_write32(&self, offset: u32, value: u32) {
        self.write(offset, &value.to_le_bytes());
    }

    fn mmio_write64(&self, offset: u32, value: u64) {
        self.write(offset, &value.to_le_bytes());
    }

    fn mmio_read32(&self, offset: u32) -> u32 {
        let access = RegionAccess {
            region: region::BAR0,
            offset: offset.into(),
            count: 4,
        };
        let reply = self
            .link
            .borrow_mut()
            .demand(Command::RegionRead, &access.encode(&[]));
        let value = reply.ok().and_then(|payload| {
            let (_, data) = RegionAccess::decode(&payload).ok()?;
            Some(u32::from_le_bytes(data.try_into().ok()?))
        });
        value.unwrap_or(u32::MAX)
    }

    fn alloc_dma(&self, len_bytes: usize) -> Result<DmaBuf, DeviceError> {
        let memory = Arc::new(SharedMem::new("courier", len_bytes)?);
        let (base, len_bytes) = (memory.as_ptr(), memory.len_bytes());
        let iova = self
            .link
            .borrow_mut()
            .map(base, len_bytes, Some(memory.clone()))?;
        Ok(DmaBuf::new(memory, iova))
    }

    fn free_dma(&self, buf: DmaBuf) -> Result<(), DeviceError> {
        self.unmap_dma(buf.iova(), buf.len_bytes())
    }

    fn map_dma(&self, memory: UserMemory) -> Result<u64, DeviceError> {
        self.link
            .borrow_mut()
            .map(memory.addr() as *mut u8, memory.len_bytes(), None)
    }

    fn unmap_dma(&self, iova: u64, len_bytes: usize) -> Result<(), DeviceError> {
        let unmap = DmaUnmap {
            flags: 0,
            address: iova,
            size: len_bytes as u64,
        };
        let mut link = self.link.borrow_mut();
        link.demand(Command::DmaUnmap, &unmap.encode()).map_err(gone)?;
        link.mapped.remove(&iova);
        Ok(())
    }

    fn progress(&self) {
        let mut poll = libc::pollfd {
            fd: self.stream.as_raw_fd(),
            events: libc::POLLIN,
            revents: 0,
        };
        // SAFETY: one live pollfd.
        unsafe { libc::poll(&mut poll, 1, NAP_MS) };
        // Of a device that is gone nothing comes; its driver finds out by its time limits.
        let _ = self.link.borrow_mut().serve_all();
    }

    fn wait_irq(&self, vector: u16, _: u64) -> Result<bool, DeviceError> {
        Err(DeviceError::BadVector {
            vector,
            num_vectors: 0,
        })
    }

    fn now_ns(&self) -> u64 {
        Duration::as_nanos(&self.start.elapsed()) as u64
    }
}
