//! Memory of a virtual machine.

use crate::client::{ARRIVED, Client, SOON_MS, Simulator, count, memory, page, page_map};
use hca_dev::SharedMem;
use hca_vfio_user::{Command, DmaMap, DmaUnmap};
use std::fs::File;
use std::os::fd::{AsFd as _, AsRawFd as _};
use std::time::Instant;

const BOTH: u32 = DmaMap::READ | DmaMap::WRITE;

/// Mappings of memfds of that name in this process: those of the server, and the test's own.
fn mappings(name: &str) -> usize {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    maps.lines()
        .filter(|line| line.contains(&format!("memfd:{name} ")))
        .count()
}

/// A sender with what the other card received, in one page of memory.
struct Pair {
    from: Client,
    to: Client,
    target: SharedMem,
    arrived: std::os::fd::OwnedFd,
}

impl Pair {
    fn new(sim: &Simulator) -> Self {
        let (from, mut to) = (sim.connect("probe0"), sim.connect("probe1"));
        let target = SharedMem::new("target", 4096).unwrap();
        to.map(page_map(0x7000, 0, BOTH), target.fd()).unwrap();
        to.receives_at(0x7000);
        let arrived = to.listen(ARRIVED);
        Self {
            from,
            to,
            target,
            arrived,
        }
    }

    /// The first byte that arrives when 512 bytes are sent from there.
    fn carry(&mut self, address: u64) -> u8 {
        self.to.receives_at(0x7000);
        let word = 512u64 << 48 | address;
        self.from.write(0, 0x1000, &word.to_le_bytes()).unwrap();
        assert_ne!(
            count(&self.arrived, SOON_MS),
            0,
            "nothing arrived from {address:#x}"
        );
        page(&self.target, 0)[0]
    }
}

#[test]
fn pages_of_a_file_are_one_mapping() {
    const PAGES: u64 = 200;
    let sim = Simulator::start();
    let mut pair = Pair::new(&sim);
    let guest = memory(PAGES as usize);
    let before = mappings("guest");
    // All over, each with a copy of the descriptor.
    for i in 0..PAGES {
        let file_page = i * 77 % PAGES;
        let copy = guest.fd().unwrap().try_clone_to_owned().unwrap();
        pair.from
            .map(
                page_map(0x10_0000 + 2 * 4096 * i, file_page, BOTH),
                Some(copy.as_fd()),
            )
            .unwrap();
    }
    assert_eq!(mappings("guest"), before + 1);
    for i in [0, 1, 2, 57, 199] {
        assert_eq!(
            pair.carry(0x10_0000 + 2 * 4096 * i),
            (i * 77 % PAGES + 1) as u8,
            "page {i}"
        );
        assert!(
            !pair.from.sends(0x10_0000 + 2 * 4096 * i + 4096),
            "the gap behind page {i}"
        );
    }
    assert_eq!(pair.from.unmap(0, 0x10_0000, 2 * 4096 * PAGES), Ok(4096 * PAGES));
    // The door unmaps in its own time; it has when it has dealt with a later descriptor.
    pair.from.map(page_map(0, 0, BOTH), pair.target.fd()).unwrap();
    assert_eq!(mappings("guest"), before);
}

/// QEMU maps ROM without a descriptor, and read-only parts of its memory with one.
#[test]
fn flags_say_what_the_card_may_do() {
    let sim = Simulator::start();
    let mut pair = Pair::new(&sim);
    let guest = memory(4);
    for flags in [0, 4, 7, 0xffff_ffff] {
        let refused = pair.from.map(page_map(0, 0, flags), guest.fd());
        assert_eq!(refused, Err(libc::EINVAL), "flags {flags:#x}");
    }
    pair.from
        .map(page_map(0x1000, 1, DmaMap::READ), guest.fd())
        .unwrap();
    pair.from
        .map(page_map(0x2000, 2, DmaMap::WRITE), guest.fd())
        .unwrap();
    pair.from.map(page_map(0x4000, 9, DmaMap::READ), None).unwrap();
    assert_eq!(pair.carry(0x1000), 2);
    assert!(!pair.from.sends(0x2000), "may only be written");
    assert!(!pair.from.sends(0x4000), "the client does not give it");
    assert!(pair.from.refused.contains(&(Command::DmaRead as u16)));
    let faults = sim.status.faults();
    assert!(faults >= 2, "{faults}");

    // The other card writes to what may only be read.
    let rom = memory(2);
    pair.to
        .map(page_map(0x1_0000, 0, DmaMap::READ), rom.fd())
        .unwrap();
    pair.to
        .map(page_map(0x1_1000, 1, DmaMap::WRITE), rom.fd())
        .unwrap();
    for (address, lands) in [(0x1_1000, true), (0x1_0000, false)] {
        pair.to.receives_at(address);
        let before = sim.status.faults();
        let word = 512u64 << 48 | 0x1000;
        pair.from.write(0, 0x1000, &word.to_le_bytes()).unwrap();
        if lands {
            assert_ne!(count(&pair.arrived, SOON_MS), 0);
        } else {
            pair.to.wait_cut_off();
        }
        assert_eq!(sim.status.faults() > before, !lands, "{address:#x}");
        let at = usize::from(lands);
        assert_eq!(page(&rom, at)[0], if lands { 2 } else { 1 });
    }
}

/// A posted write has no answer: the host tells of it, and cuts the function off, until its driver begins anew.
#[test]
fn a_lost_write_cuts_the_function_off() {
    let sim = Simulator::start();
    let mut pair = Pair::new(&sim);
    let guest = memory(1);
    pair.from.map(page_map(0, 0, BOTH), guest.fd()).unwrap();
    pair.to.receives_at(0x9000);
    pair.from.write(0, 0x1000, &(512u64 << 48).to_le_bytes()).unwrap();
    // Its card still has the line on its way to memory when it is asked for the first time.
    pair.to.wait_cut_off();
    let texts = sim.status.take_fault_texts();
    assert_eq!(texts.len(), 1, "{texts:?}");
    for word in [
        "probe1",
        "function 0",
        "0x9000",
        "a write to",
        "nothing is mapped there",
    ] {
        assert!(texts[0].contains(word), "{word}: {texts:?}");
    }
    assert_eq!(pair.to.config(4, 2), 0, "neither memory nor bus master");
    // The sender is another matter, and so is the same function once it is opened anew.
    assert!(pair.from.sends(0), "the neighbour works");
    pair.to.enable(6);
    // What arrived while it was cut off may yet be told of.
    assert!((0..3).any(|_| pair.carry(0) == 1));
    assert_eq!(sim.status.take_fault_texts(), [] as [String; 0]);
}

/// Reads have an answer; the function hears of them, and each is told, up to a limit.
#[test]
fn refused_reads_are_told() {
    let sim = Simulator::start();
    let mut from = sim.connect("probe0");
    assert_eq!(from.config(6, 2) & 1 << 13, 0);
    for _ in 0..20 {
        assert!(!from.sends(0x9000));
    }
    assert_eq!(from.config(6, 2) & 1 << 13, 1 << 13, "received master abort");
    from.write(hca_vfio_user::region::CONFIG, 6, &(1u16 << 13).to_le_bytes())
        .unwrap();
    assert_eq!(from.config(6, 2) & 1 << 13, 0, "cleared by a one");
    let texts = sim.status.take_fault_texts();
    assert_eq!(texts.len(), 9, "{texts:?}");
    assert!(texts[0].contains("a read from bus address 0x9000"), "{texts:?}");
    assert!(texts[8].contains("counted"), "{texts:?}");
    // A program that has ended tells nobody.
    drop(from);
}

#[test]
fn a_descriptor_open_for_reading_gives_memory_to_read() {
    let sim = Simulator::start();
    let mut pair = Pair::new(&sim);
    let guest = memory(1);
    let to_read = File::open(format!("/proc/self/fd/{}", guest.fd().unwrap().as_raw_fd())).unwrap();
    for flags in [DmaMap::WRITE, BOTH] {
        let refused = pair.from.map(page_map(0, 0, flags), Some(to_read.as_fd()));
        assert_eq!(refused, Err(libc::EACCES));
    }
    pair.from
        .map(page_map(0x3000, 0, DmaMap::READ), Some(to_read.as_fd()))
        .unwrap();
    assert_eq!(pair.carry(0x3000), 1);
}

#[test]
fn mappings_end_whole_or_not_at_all() {
    let sim = Simulator::start();
    let mut client = sim.connect("probe0");
    let guest = memory(16);
    for at in [1, 2, 4] {
        client.map(page_map(at * 4096, at, BOTH), guest.fd()).unwrap();
    }
    let large = DmaMap {
        size: 4 * 4096,
        ..page_map(0x8000, 8, BOTH)
    };
    client.map(large, guest.fd()).unwrap();
    for at in [1, 8, 11] {
        let refused = client.map(page_map(at * 4096, 0, BOTH), guest.fd());
        assert_eq!(refused, Err(libc::EEXIST), "page {at} overlaps");
    }
    for (address, size) in [
        (0x8000, 0x1000),
        (0x9000, 0x1000),
        (0xa000, 0x9000),
        (0x4000, 0x5000),
    ] {
        assert_eq!(
            client.unmap(0, address, size),
            Err(libc::EINVAL),
            "{address:#x} + {size:#x} cuts"
        );
    }
    for (address, size) in [(0x5000, 0x3000), (1 << 40, 1 << 40), (0x1000, 0)] {
        assert_eq!(client.unmap(0, address, size), Ok(0), "nothing is there");
    }
    assert_eq!(client.unmap(0, 0x2000, 0x1000), Ok(0x1000));
    assert_eq!(client.unmap(0, 0, 0x8000), Ok(0x2000));
    assert_eq!(
        client.unmap(0, 1 << 63, 1 << 63),
        Ok(0),
        "the end of the address space"
    );
    assert_eq!(client.unmap(0, 1 << 63, (1 << 63) + 1), Err(libc::EINVAL));
    assert_eq!(
        client.unmap(DmaUnmap::DIRTY_BITMAP, 0x8000, 0x4000),
        Err(libc::ENOTSUP)
    );
    assert_eq!(client.unmap(DmaUnmap::ALL, 0x8000, 0x4000), Err(libc::EINVAL));
    assert_eq!(client.unmap(8, 0x8000, 0x4000), Err(libc::EINVAL));
    client.map(page_map(0x1000, 0, BOTH), guest.fd()).unwrap();
    assert_eq!(client.unmap(DmaUnmap::ALL, 0, 0), Ok(0));
    assert!(!client.sends(0x8000) && !client.sends(0x1000));
    // All of it is free again.
    client.map(large, guest.fd()).unwrap();
}

/// As fast as a client can send them, and ended by one message.
#[test]
fn many_pages() {
    const PAGES: u64 = 65_536;
    let sim = Simulator::start();
    let mut client = sim.connect("probe0");
    let guest = memory(64);
    let start = Instant::now();
    for at in 0..PAGES {
        let map = page_map(4096 * at, at * 31 % 64, BOTH).encode();
        let fds = [guest.fd().unwrap()];
        client
            .connection
            .send_command(0, Command::DmaMap, &map, &fds, false)
            .unwrap();
    }
    assert_eq!(
        client.map(page_map(4096 * (PAGES - 1), 0, BOTH), guest.fd()),
        Err(libc::EEXIST)
    );
    let mapped = start.elapsed();
    assert_eq!(client.unmap(0, 0, u64::MAX), Ok(4096 * PAGES));
    let ended = start.elapsed() - mapped;
    println!("{PAGES} pages mapped in {mapped:?}, ended in {ended:?}");
}
