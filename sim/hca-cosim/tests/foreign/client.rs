//! A client of the test's own, as a virtual machine is one: it knows the protocol and nothing of ours.

use hca_cosim::{CardConfig, Fabric, Identity, OpVls, Server, ServerStatus, StopHandle};
use hca_dev::SharedMem;
use hca_link::{CableConfig, LinkKind};
use hca_vfio_user::{
    Capabilities, Command, Connection, DmaMap, DmaUnmap, MINOR, Message, RegionAccess, SetIrqs,
    encode_version, eventfd, irq, region,
};
use std::os::fd::{AsRawFd as _, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread::JoinHandle;
use tempfile::TempDir;

pub const GUID: [u8; 8] = [0x02, 0, 0, 0xff, 0xfe, 0, 0, 0x17];
/// Registers of the test card: sends bytes of memory to the other card; where what arrives goes; reads that failed.
const SEND: u64 = 0x1000;
const TARGET: u64 = 0x1008;
const READ_ERRORS: u64 = 0x10;
/// The vector that says that something has arrived.
pub const ARRIVED: usize = 1;

/// Two test cards on a cable, probe0 and probe1, and a real card.
pub struct Simulator {
    folder: TempDir,
    stop: StopHandle,
    pub status: Arc<ServerStatus>,
    thread: Option<JoinHandle<()>>,
}

fn identity() -> Identity {
    Identity {
        guid: GUID,
        mac: [2, 0, 0, 0, 0, 1],
        ipv4: [10, 0, 0, 1],
        ipv6: [0; 16],
        lid: 1,
        infiniband: false,
        self_active: true,
        peer_vls: OpVls::Fifteen,
        rate_mbps: 100_000,
    }
}

impl Simulator {
    pub fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().to_owned();
        let (sender, receiver) = std::sync::mpsc::channel();
        let thread = std::thread::spawn(move || {
            let mut fabric = Fabric::new(1);
            let probes = ["probe0", "probe1"].map(|name| fabric.add_card(CardConfig::probe(name)).unwrap());
            let cable = CableConfig::new("cable0", LinkKind::Ethernet);
            fabric.connect(probes[0], probes[1], cable).unwrap();
            let core = fabric.add_card(CardConfig::core("core", identity())).unwrap();
            let mut server = Server::new(fabric);
            for (card, name) in probes
                .into_iter()
                .zip(["probe0", "probe1"])
                .chain([(core, "core")])
            {
                server.serve(card, 0, &path.join(name)).unwrap();
            }
            sender.send((server.stop_handle(), server.status())).unwrap();
            server.run();
        });
        let (stop, status) = receiver.recv().unwrap();
        Self {
            folder,
            stop,
            status,
            thread: Some(thread),
        }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// A client that has greeted as QEMU does, and enabled its function.
    pub fn connect(&self, name: &str) -> Client {
        let mut client = Client::silent(self.path(name));
        client
            .ask(Command::Version, &encode_version(0, &qemu()), &[])
            .unwrap();
        client.enable(6);
        client
    }
}

impl Drop for Simulator {
    fn drop(&mut self) {
        self.stop.stop();
        let ended = self.thread.take().unwrap().join();
        assert!(std::thread::panicking() || ended.is_ok());
    }
}

/// What QEMU 11 can do.
pub fn qemu() -> Capabilities {
    Capabilities {
        max_msg_fds: 16,
        ..Capabilities::default()
    }
}

pub struct Client {
    pub connection: Connection,
    /// Commands of the server's, none of which is done.
    pub refused: Vec<u16>,
    id: u16,
}

impl Client {
    pub fn silent(path: PathBuf) -> Self {
        Self {
            connection: Connection::new(UnixStream::connect(path).unwrap()),
            refused: Vec::new(),
            id: 0,
        }
    }

    pub fn with(sim: &Simulator, name: &str, capabilities: &Capabilities) -> (Self, Result<Message, i32>) {
        let mut client = Self::silent(sim.path(name));
        let answer = client.ask(Command::Version, &encode_version(MINOR, capabilities), &[]);
        (client, answer)
    }

    /// A command and its answer, or the errno in it.
    pub fn ask(&mut self, command: Command, payload: &[u8], fds: &[BorrowedFd<'_>]) -> Result<Message, i32> {
        self.id += 1;
        self.connection
            .send_command(self.id, command, payload, fds, true)
            .unwrap();
        let reply = loop {
            let message = self.connection.receive().unwrap();
            if message.header.is_reply() {
                break message;
            }
            // The card wants memory of which there is no descriptor.
            self.refused.push(message.header.command);
            let errno = libc::EFAULT as u32;
            self.connection
                .send_reply(&message.header, &[], &[], errno)
                .unwrap();
        };
        assert!(reply.header.is_reply() && reply.header.id == self.id);
        match reply.header.errno() as i32 {
            0 => Ok(reply),
            errno => Err(errno),
        }
    }

    pub fn read(&mut self, region: u32, offset: u64, count: u32) -> Result<Vec<u8>, i32> {
        let access = RegionAccess {
            region,
            offset,
            count,
        };
        let reply = self.ask(Command::RegionRead, &access.encode(&[]), &[])?;
        let (found, data) = RegionAccess::decode(&reply.payload).unwrap();
        assert_eq!(found, access);
        Ok(data.to_vec())
    }

    pub fn write(&mut self, region: u32, offset: u64, data: &[u8]) -> Result<(), i32> {
        let access = RegionAccess {
            region,
            offset,
            count: data.len() as u32,
        };
        self.ask(Command::RegionWrite, &access.encode(data), &[])
            .map(drop)
    }

    /// The command register.
    pub fn enable(&mut self, command: u16) {
        self.write(region::CONFIG, 4, &command.to_le_bytes()).unwrap();
    }

    pub fn config(&mut self, offset: u64, count: u32) -> u32 {
        let data = self.read(region::CONFIG, offset, count).unwrap();
        data.iter()
            .rev()
            .fold(0, |high, byte| high << 8 | u32::from(*byte))
    }

    /// Offset of a capability, found as an operating system does.
    pub fn capability(&mut self, id: u32) -> u64 {
        let mut at = u64::from(self.config(0x34, 1));
        for _ in 0..48 {
            if self.config(at, 1) == id {
                return at;
            }
            at = u64::from(self.config(at + 1, 1));
            assert!(at >= 0x40, "no capability {id:#x}");
        }
        panic!("the list has no end");
    }

    pub fn map(&mut self, map: DmaMap, fd: Option<BorrowedFd<'_>>) -> Result<(), i32> {
        self.ask(Command::DmaMap, &map.encode(), fd.as_slice()).map(drop)
    }

    /// Bytes that have ended.
    pub fn unmap(&mut self, flags: u32, address: u64, size: u64) -> Result<u64, i32> {
        let unmap = DmaUnmap { flags, address, size };
        let reply = self.ask(Command::DmaUnmap, &unmap.encode(), &[])?;
        Ok(DmaUnmap::decode(&reply.payload).unwrap().size)
    }

    pub fn set_irqs(&mut self, set: SetIrqs, data: &[u8], fds: &[BorrowedFd<'_>]) -> Result<(), i32> {
        let payload = [&set.encode()[..], data].concat();
        self.ask(Command::DeviceSetIrqs, &payload, fds).map(drop)
    }

    // ---- The test card

    /// 512 bytes from a bus address to the other card; false: they could not be read.
    pub fn sends(&mut self, address: u64) -> bool {
        let errors = self.read_errors();
        let word = 512 << 48 | address;
        self.write(region::BAR0, SEND, &word.to_le_bytes()).unwrap();
        // Nothing passes the answer of the card's own read: the second register read is behind it.
        (0..1000).all(|_| self.read_errors() == errors)
    }

    pub fn read_errors(&mut self) -> u32 {
        let data = self.read(region::BAR0, READ_ERRORS, 4).unwrap();
        u32::from_le_bytes(data.try_into().unwrap())
    }

    /// Until registers read as ones.
    pub fn wait_cut_off(&mut self) {
        let start = std::time::Instant::now();
        while self.read(region::BAR0, 0, 4).unwrap() != [0xff; 4] {
            assert!(start.elapsed().as_millis() < SOON_MS as u128, "it still answers");
        }
    }

    /// Where what arrives goes.
    pub fn receives_at(&mut self, address: u64) {
        self.write(region::BAR0, TARGET, &address.to_le_bytes()).unwrap();
    }

    /// An eventfd for a vector.
    pub fn listen(&mut self, vector: usize) -> OwnedFd {
        let eventfd = eventfd().unwrap();
        let set = SetIrqs {
            flags: 0x24,
            index: irq::MSIX,
            start: vector as u32,
            count: 1,
        };
        let copy = eventfd.try_clone().unwrap();
        self.set_irqs(set, &[], &[std::os::fd::AsFd::as_fd(&copy)])
            .unwrap();
        eventfd
    }
}

/// Counts of an eventfd since the last call; 0 after so long.
pub fn count(eventfd: &OwnedFd, limit_ms: i32) -> u64 {
    let mut poll = libc::pollfd {
        fd: eventfd.as_raw_fd(),
        events: libc::POLLIN,
        revents: 0,
    };
    // SAFETY: one live pollfd.
    if unsafe { libc::poll(&mut poll, 1, limit_ms) } != 1 {
        return 0;
    }
    let mut bytes = [0u8; 8];
    // SAFETY: a live buffer of eight bytes.
    assert_eq!(unsafe { libc::read(poll.fd, bytes.as_mut_ptr().cast(), 8) }, 8);
    u64::from_ne_bytes(bytes)
}

/// Long enough for whatever shall happen.
pub const SOON_MS: i32 = 60_000;

/// Memory with a pattern in it: page p is full of p + 1.
pub fn memory(pages: usize) -> SharedMem {
    let memory = SharedMem::new("guest", pages * 4096).unwrap();
    for at in 0..pages * 4096 {
        // SAFETY: inside the mapping.
        unsafe { memory.as_ptr().add(at).write_volatile((at / 4096 + 1) as u8) };
    }
    memory
}

/// Bytes of a page.
pub fn page(memory: &SharedMem, page: usize) -> Vec<u8> {
    let at = |at| page * 4096 + at;
    // SAFETY: inside the mapping.
    (0..4096)
        .map(|i| unsafe { memory.as_ptr().add(at(i)).read_volatile() })
        .collect()
}

/// A whole page to be mapped.
pub fn page_map(address: u64, file_page: u64, flags: u32) -> DmaMap {
    DmaMap {
        flags,
        offset: file_page * 4096,
        address,
        size: 4096,
    }
}
