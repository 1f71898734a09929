//! A client of the simulator that keeps no rule, for `tests/process`: `hca-hostile SEED OPERATIONS SOCKET...`.
//!
//! It does so many things to these sockets, decided by the seed, says `done`, and ends without closing anything.

use hca_dev::SharedMem;
use hca_system_tests::Rng;
use hca_system_tests::raw::{RawClient, enabling, hello};
use hca_vfio_user::{
    Command, DmaMap, DmaUnmap, Header, MAX_FDS, Message, RegionAccess, RegionInfo, SHARED_REGION_BYTES,
    SetIrqs, eventfd, irq, irq_data, region,
};
use std::fs::File;
use std::io::{self, Write as _};
use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd, FromRawFd as _, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::Duration;

/// Connections at a time.
const CLIENTS: usize = 6;
/// A look whether the simulator takes or answers something.
const NAP: Duration = Duration::from_millis(20);
/// Shared regions kept, most of them of connections that are over.
const REGIONS: usize = 4;

/// A memfd with these seals, after it was given a length, and another one behind the seals.
fn memfd(flags: u32, seals: i32, len_bytes: u64) -> io::Result<OwnedFd> {
    // SAFETY: a plain system call with a C string; the result is checked.
    let fd = unsafe { libc::memfd_create(c"hostile".as_ptr(), libc::MFD_CLOEXEC | flags) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: new, and nobody else owns it.
    let file = unsafe { File::from_raw_fd(fd) };
    file.set_len(len_bytes)?;
    // SAFETY: a plain system call; what cannot be sealed is another kind of descriptor.
    unsafe { libc::fcntl(fd, libc::F_ADD_SEALS, seals) };
    Ok(file.into())
}

/// An eventfd that holds whoever counts it up.
fn full_eventfd(flags: i32) -> io::Result<OwnedFd> {
    // SAFETY: a plain system call; the result is checked.
    let fd = unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | flags) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: new, and nobody else owns it.
    let mut file = unsafe { File::from_raw_fd(fd) };
    file.write_all(&(u64::MAX - 1).to_ne_bytes())?;
    Ok(file.into())
}

/// Descriptors of every kind.
fn kit() -> io::Result<Vec<OwnedFd>> {
    let sealing = libc::MFD_ALLOW_SEALING;
    let (reader, writer) = io::pipe()?;
    let (left, right) = UnixStream::pair()?;
    let loose = File::from(memfd(sealing, 0, 1 << 20)?);
    loose.set_len(0)?;
    let mut kit = vec![
        eventfd()?,
        full_eventfd(0)?,
        full_eventfd(libc::EFD_NONBLOCK)?,
        full_eventfd(libc::EFD_SEMAPHORE)?,
        memfd(sealing, libc::F_SEAL_SHRINK, 4096)?,
        memfd(sealing, libc::F_SEAL_SHRINK, 1 << 20)?,
        memfd(sealing, libc::F_SEAL_SHRINK, 1 << 40)?,
        memfd(sealing, libc::F_SEAL_SHRINK | libc::F_SEAL_WRITE, 4096)?,
        memfd(sealing, libc::F_SEAL_GROW, 4096)?,
        memfd(0, 0, 4096)?,
        loose.into(),
        reader.into(),
        writer.into(),
        left.into(),
        right.into(),
        File::open("/proc/self/exe")?.into(),
        File::options().read(true).write(true).open("/dev/zero")?.into(),
        File::open("/")?.into(),
    ];
    // Not every machine has huge pages.
    kit.extend(memfd(sealing | libc::MFD_HUGETLB, libc::F_SEAL_SHRINK, 2 << 20).ok());
    Ok(kit)
}

struct Hostile {
    rng: Rng,
    sockets: Vec<PathBuf>,
    kit: Vec<OwnedFd>,
    clients: Vec<RawClient>,
    /// What the simulator shares with its clients, as long as they were ours.
    regions: Vec<SharedMem>,
    /// Memory that the simulator may reach by its address.
    arena: Vec<u8>,
    /// Messages of the simulator, and those of them that grant what was asked.
    answers: u64,
    granted: u64,
}

impl Hostile {
    fn client(&mut self) -> Option<usize> {
        (!self.clients.is_empty()).then(|| self.rng.below(self.clients.len() as u32) as usize)
    }

    fn u64(&mut self) -> u64 {
        let near = [
            0,
            1,
            8,
            64,
            4095,
            4096,
            1 << 20,
            1 << 32,
            1 << 47,
            1 << 63,
            u64::MAX - 4095,
            u64::MAX,
        ];
        let arena = self.arena.as_ptr() as u64;
        match self.rng.below(4) {
            0 => u64::from(self.rng.u32()) << 32 | u64::from(self.rng.u32()),
            1 => self.rng.pick(&near),
            2 => u64::from(self.rng.below(0x1_0000)),
            _ => arena + u64::from(self.rng.below(self.arena.len() as u32)),
        }
    }

    fn u32(&mut self) -> u32 {
        let bits = self.rng.below(33);
        self.rng.u32().checked_shr(bits).unwrap_or(0)
    }

    /// A command that has sense, or nearly.
    fn command(&mut self) -> (Command, Vec<u8>) {
        let access = RegionAccess {
            region: self.rng.pick(&[
                region::BAR0,
                region::BAR0,
                region::BAR2,
                region::BAR4,
                region::CONFIG,
                9,
            ]),
            offset: self.u64(),
            count: self.rng.pick(&[4, 4, 8, 0, 1, 2, 256, 4096, 1 << 20, u32::MAX]),
        };
        match self.rng.below(12) {
            10 => (Command::RegionWrite, enabling()),
            11 => {
                let word = self.rng.u32();
                let config = RegionAccess {
                    region: region::CONFIG,
                    offset: u64::from(self.rng.below(0x90)),
                    count: 4,
                };
                (Command::RegionWrite, config.encode(&word.to_le_bytes()))
            }
            0 | 1 => {
                let (flags, address) = (self.u32(), self.u64() & !4095);
                let pages = u64::from(self.rng.below(16));
                let size = if self.rng.percent(80) {
                    4096 * pages
                } else {
                    self.u64()
                };
                let offset = if self.rng.percent(80) { 0 } else { self.u64() };
                let map = DmaMap {
                    flags,
                    offset,
                    address,
                    size,
                };
                (Command::DmaMap, map.encode())
            }
            2 => {
                let (address, size) = (self.u64() & !4095, self.u64());
                let flags = u32::from(self.rng.percent(10)) * DmaUnmap::ALL;
                (Command::DmaUnmap, DmaUnmap { flags, address, size }.encode())
            }
            3 => {
                let set = SetIrqs {
                    flags: self.rng.pick(&[
                        irq_data::EVENTFD | irq_data::TRIGGER,
                        irq_data::NONE | irq_data::TRIGGER,
                        irq_data::NONE | irq_data::MASK,
                        irq_data::NONE | irq_data::UNMASK,
                        irq_data::BOOL | irq_data::TRIGGER,
                    ]),
                    index: self.rng.pick(&[irq::MSIX, irq::MSIX, irq::ERR, 0, 7]),
                    start: self.u32() % 40,
                    count: self.rng.below(4),
                };
                (Command::DeviceSetIrqs, set.encode())
            }
            4 | 5 => (Command::RegionRead, access.encode(&[])),
            6 => {
                let len_bytes = self.rng.pick(&[0, 4, 8, 256]);
                let data = self.rng.bytes(len_bytes);
                let count = if self.rng.percent(80) {
                    len_bytes as u32
                } else {
                    access.count
                };
                (
                    Command::RegionWrite,
                    RegionAccess { count, ..access }.encode(&data),
                )
            }
            7 => (Command::DeviceReset, Vec::new()),
            8 => (Command::DeviceGetRegionInfo, self.region_info().encode()),
            _ => {
                let command = Command::from_wire(self.rng.below(16) as u16).unwrap_or(Command::Version);
                let len_bytes = self.rng.below(80) as usize;
                (command, self.rng.bytes(len_bytes))
            }
        }
    }

    fn region_info(&mut self) -> RegionInfo {
        let index = self.rng.below(10);
        RegionInfo {
            index,
            flags: 0,
            size: 0,
            offset: 0,
        }
    }

    /// Sends bytes, with descriptors. When the simulator holds it back it reads what it was answered, or loses patience
    /// and leaves half a message. False: the connection is over.
    fn send(&mut self, client: usize, bytes: &[u8], count: usize) -> bool {
        let first = self.rng.below(self.kit.len() as u32) as usize;
        let fds: Vec<BorrowedFd<'_>> = (0..count)
            .map(|i| self.kit[(first + i) % self.kit.len()].as_fd())
            .collect();
        let mut result = self.clients[client].connection.try_send(bytes, &fds);
        let mut sent = 0;
        loop {
            match result {
                Ok(more) => sent += more,
                Err(_) => {
                    self.clients.swap_remove(client);
                    return false;
                }
            }
            if sent == bytes.len() || self.rng.percent(3) {
                return true;
            }
            self.clients[client].wait_ready(NAP);
            if !self.listen(client) {
                return false;
            }
            result = self.clients[client].connection.try_send(&bytes[sent..], &[]);
        }
    }

    fn message(&mut self) -> Vec<u8> {
        let (command, payload) = self.command();
        let id = self.rng.u32() as u16;
        let head = Header::command(id, command, payload.len(), self.rng.percent(50));
        [&head.encode()[..], &payload].concat()
    }

    /// Connects, and greets or not.
    fn call(&mut self) {
        if self.clients.len() >= CLIENTS {
            return;
        }
        let at = self.rng.below(self.sockets.len() as u32) as usize;
        let Ok(client) = RawClient::silent(&self.sockets[at]) else {
            return;
        };
        self.clients.push(client);
        let greeting = hello();
        let head = Header::command(0, Command::Version, greeting.len(), true);
        let bytes = [&head.encode()[..], &greeting].concat();
        let end = match self.rng.below(10) {
            0 => self.rng.below(bytes.len() as u32) as usize,
            _ => bytes.len(),
        };
        let client = self.clients.len() - 1;
        if self.send(client, &bytes[..end], 0) && end == bytes.len() && self.rng.percent(90) {
            match self.clients[client].connection.receive() {
                Ok(message) => self.keep(message),
                Err(_) => drop(self.clients.swap_remove(client)),
            }
        }
    }

    fn keep(&mut self, message: Message) {
        let Message { header, fds, .. } = message;
        self.answers += 1;
        self.granted += u64::from(header.errno() == 0);
        if header.command == Command::DeviceGetRegionInfo as u16 {
            let files = fds.into_iter().map(File::from);
            let found = files.filter_map(|file| SharedMem::from_file(&file, 0, SHARED_REGION_BYTES).ok());
            self.regions.extend(found);
            if self.regions.len() > REGIONS {
                self.regions.remove(0);
            }
        } else {
            self.kit.extend(fds);
        }
    }

    /// Reads what has been answered, and keeps what comes with it. False: the connection is over.
    fn listen(&mut self, client: usize) -> bool {
        loop {
            let message = match self.clients[client].connection.try_receive() {
                Ok(Some(message)) => message,
                Ok(None) => break,
                Err(_) => {
                    self.clients.swap_remove(client);
                    return false;
                }
            };
            self.keep(message);
        }
        // Kicks of the simulator: from now on they hold whoever reads them.
        self.kit.truncate(24);
        for kick in self.kit.iter().skip(20) {
            // SAFETY: a plain system call on a live descriptor.
            unsafe { libc::fcntl(kick.as_raw_fd(), libc::F_SETFL, libc::O_RDWR) };
        }
        true
    }

    /// Writes anything into memory that is shared with the simulator.
    fn scribble(&mut self) {
        let Some(at) = (!self.regions.is_empty()).then(|| self.rng.below(self.regions.len() as u32)) else {
            return;
        };
        let region = &self.regions[at as usize];
        let entry = 0x4000 + 16 * (self.rng.below(1024) as usize);
        let offset = self.rng.pick(&[0, 4, 0x1000, 0x1040, entry]);
        let bytes = match self.rng.below(2) {
            // An entry that is full in the first pass.
            0 => (1u64 << 32 | 4 << 24 | u64::from(self.rng.below(0x1_0000)))
                .to_le_bytes()
                .to_vec(),
            _ => self.rng.bytes(8),
        };
        let target = region.as_ptr().wrapping_add(offset);
        // SAFETY: inside the region, and only touched atomically by either end.
        unsafe { hca_dev::store_bytes(target, &bytes) };
    }

    /// One thing. Returns how many operations it was.
    fn step(&mut self) -> u64 {
        let Some(client) = self.client() else {
            self.call();
            return 1;
        };
        match self.rng.below(1000) {
            0..50 => self.call(),
            50..60 => drop(self.clients.swap_remove(client)),
            60..80 => {
                // A flood, of which nothing is read until nothing more is taken.
                let message = self.message();
                let count = 1 + self.rng.below(500);
                let sent = (0..count).take_while(|_| self.send(client, &message, 0)).count();
                return sent as u64 + 1;
            }
            80..85 => {
                // Half a message, and often no more of it.
                let message = self.message();
                let end = self.rng.below(message.len() as u32) as usize;
                self.send(client, &message[..end], 0);
            }
            85..90 => {
                // More descriptors than a message may have, in pieces.
                let message = self.message();
                if self.send(client, &message[..8], MAX_FDS) {
                    self.send(client, &message[8..], 1);
                }
            }
            90..95 => {
                let len_bytes = 1 + self.rng.below(100) as usize;
                let noise = self.rng.bytes(len_bytes);
                self.send(client, &noise, 0);
            }
            95..200 => self.scribble(),
            200..400 => drop(self.listen(client)),
            _ => {
                let message = self.message();
                let count = self.rng.pick(&[0, 0, 0, 1, 1, 2, 32]);
                self.send(client, &message, count);
            }
        }
        1
    }
}

fn main() -> io::Result<()> {
    let mut words = std::env::args_os().skip(1);
    let mut number = || {
        let word = words.next().and_then(|word| word.into_string().ok());
        word.and_then(|word| word.parse::<u64>().ok())
    };
    let (Some(seed), Some(operations)) = (number(), number()) else {
        return Err(io::Error::other("usage: hca-hostile SEED OPERATIONS SOCKET..."));
    };
    let mut hostile = Hostile {
        rng: Rng::new(seed, "hostile"),
        sockets: words.map(PathBuf::from).collect(),
        kit: kit()?,
        clients: Vec::new(),
        regions: Vec::new(),
        arena: vec![0; 1 << 20],
        answers: 0,
        granted: 0,
    };
    let mut done = 0;
    while done < operations {
        done += hostile.step();
    }
    println!(
        "{done} operations, {} answers, {} granted",
        hostile.answers, hostile.granted
    );
    std::process::exit(0);
}
