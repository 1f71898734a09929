//! Process mode: the test card behind its socket, clients in this process.

mod common;

use std::io::Write;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread::JoinHandle;

use hca_cosim::{CardConfig, Fabric, Server, ServerStatus, StopHandle};
use hca_dev::{Device, UserMemory};
use hca_link::{CableConfig, LinkKind};
use hca_models as _;
use hca_vfio_user::VfioUserDevice;
use tempfile::TempDir;

/// Two test cards and a cable, functions 0 and 1 of the first and 0 of the second served.
struct Simulator {
    folder: TempDir,
    stop: StopHandle,
    status: Arc<ServerStatus>,
    thread: Option<JoinHandle<()>>,
}

impl Simulator {
    fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().to_owned();
        let (sender, receiver) = std::sync::mpsc::channel();
        let thread = std::thread::spawn(move || {
            let mut fabric = Fabric::new(1);
            let cards = ["card0", "card1"].map(|name| fabric.add_card(CardConfig::probe(name)).unwrap());
            let cable = CableConfig::new("cable0", LinkKind::Ethernet);
            fabric.connect(cards[0], cards[1], cable).unwrap();
            let mut server = Server::new(fabric);
            for (card, func) in [(0, 0), (0, 1), (1, 0)] {
                server
                    .serve(cards[card], func, &path.join(format!("card{card}.{func}")))
                    .unwrap();
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

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn connect(&self, name: &str) -> VfioUserDevice {
        VfioUserDevice::connect(&self.path(name)).unwrap()
    }
}

impl Drop for Simulator {
    fn drop(&mut self) {
        self.stop.stop();
        let ended = self.thread.take().unwrap().join();
        // A test that has failed says why; a second panic would be all that is seen.
        assert!(
            ended.is_ok() || std::thread::panicking(),
            "the server has panicked"
        );
    }
}

fn soon(dev: &dyn Device) -> u64 {
    dev.now_ns() + 20_000_000_000
}

#[test]
fn bytes_travel_between_clients() {
    let sim = Simulator::start();
    let (a, b) = (sim.connect("card0.0"), sim.connect("card1.0"));
    assert_eq!((a.info().bar_len_bytes, a.info().num_vectors), (0x1_0000, 32));
    assert_eq!(a.mmio_read32(0), 0x5052_4f42);
    let target = b.alloc_dma(8192).unwrap();
    b.mmio_write64(0x1008, target.iova());

    // From shared memory.
    let shared = a.alloc_dma(4096).unwrap();
    shared.fill(0, 512, 0x11);
    a.mmio_write64(0x1000, 512 << 48 | shared.iova());
    assert!(b.wait_irq(1, soon(&b)).unwrap());
    assert_eq!(
        (target.load_u32(0), target.load_u32(508), target.load_u32(512)),
        (0x1111_1111, 0x1111_1111, 0)
    );

    // From any memory of the client; the receiver polls.
    let mut bytes = vec![0x22u8; 1024];
    let aligned = bytes.as_ptr().align_offset(512);
    // SAFETY: `bytes` outlives its mapping.
    let memory = unsafe { UserMemory::new(bytes.as_mut_ptr().add(aligned), 512) };
    let iova = a.map_dma(memory).unwrap();
    a.map_dma(memory).unwrap();
    a.unmap_dma(iova, 512).unwrap();
    a.mmio_write64(0x1000, 512 << 48 | iova);
    let deadline_ns = soon(&b);
    while target.load_u32_acquire(1020) == 0 {
        assert!(b.now_ns() < deadline_ns);
        b.progress();
    }
    assert_eq!(target.load_u32(512), 0x2222_2222);
    assert!(b.wait_irq(1, soon(&b)).unwrap());

    // Not after it was unmapped.
    a.unmap_dma(iova, 512).unwrap();
    a.unmap_dma(iova, 512).unwrap_err();
    a.mmio_write64(0x1000, 512 << 48 | iova);
    let deadline_ns = soon(&a);
    while a.mmio_read32(0x10) == 0 {
        assert!(a.now_ns() < deadline_ns, "the read must fail");
    }
    assert_eq!(a.mmio_read32(0x10), 1, "one read error");
    assert!(!b.wait_irq(1, b.now_ns()).unwrap(), "nothing was sent");
    b.wait_irq(32, 0).unwrap_err();
}

#[test]
fn rings_and_memory_of_the_program_have_bus_addresses_of_their_own() {
    let sim = Simulator::start();
    common::rings_and_memory_have_bus_addresses_of_their_own(&sim.connect("card0.0"));
}

#[test]
fn a_function_has_one_owner_and_can_be_taken_again() {
    let sim = Simulator::start();
    let first = sim.connect("card0.1");
    let error = VfioUserDevice::connect(&sim.path("card0.1"))
        .err()
        .unwrap()
        .to_string();
    assert!(error.contains("in use by another process"), "{error}");
    let shared = first.alloc_dma(4096).unwrap();
    drop(first);
    // The old owner's memory is gone for the card.
    let second = sim.connect("card0.1");
    assert_eq!(second.mmio_read32(0x20), 1, "function 1");
    second.mmio_write64(0x1000, 64 << 48 | shared.iova());
    let deadline_ns = soon(&second);
    while second.mmio_read32(0x10) == 0 {
        assert!(second.now_ns() < deadline_ns, "the read must fail");
    }
    assert!(
        VfioUserDevice::connect(&sim.path("nothing"))
            .err()
            .unwrap()
            .to_string()
            .contains("cannot connect")
    );
}

/// SYS-7: a card that breaks the contract of its ports ends its own clients, not those of other cards.
#[test]
fn a_broken_card_ends_alone() {
    let sim = Simulator::start();
    let (culprit, beside, other) = (
        sim.connect("card0.0"),
        sim.connect("card0.1"),
        sim.connect("card1.0"),
    );
    // The test card reads as many bytes as it is told; none is not a length.
    culprit.mmio_write64(0x1000, 0);
    for dev in [&culprit, &beside] {
        let deadline_ns = soon(dev);
        while !dev.is_gone() {
            assert!(dev.now_ns() < deadline_ns, "hung up");
            dev.progress();
        }
    }
    let refusal = VfioUserDevice::connect(&sim.path("card0.1")).err().unwrap();
    assert!(refusal.to_string().contains("Input/output error"), "{refusal}");
    assert_eq!(other.mmio_read32(0), 0x5052_4f42);
    let what = sim.status.broken().unwrap();
    assert!(what.contains("card0") && what.contains("0 bytes"), "{what}");
}

/// A function that has lost a write is cut off alone, and says where it was. The next client has it as new.
#[test]
fn a_lost_write_ends_one_client() {
    let sim = Simulator::start();
    let (culprit, beside) = (sim.connect("card1.0"), sim.connect("card0.1"));
    let sender = sim.connect("card0.0");
    let bytes = sender.alloc_dma(4096).unwrap();
    culprit.mmio_write64(0x1008, 0x7777_7000);
    culprit.mmio_read32(0);
    sender.mmio_write64(0x1000, 512 << 48 | bytes.iova());
    let deadline_ns = soon(&culprit);
    while !culprit.is_gone() {
        assert!(culprit.now_ns() < deadline_ns, "a write to nowhere is noticed");
        culprit.progress();
    }
    let why = culprit.why_gone().unwrap();
    assert!(why.contains("card1.0") && why.contains("0x77777000"), "{why}");
    let error = culprit.wait_irq(0, deadline_ns).unwrap_err().to_string();
    assert!(error.contains("0x77777000"), "{error}");
    assert_eq!(culprit.mmio_read32(0), u32::MAX);
    for other in [&sender, &beside] {
        assert!(other.mmio_read32(0) == 0x5052_4f42 && !other.is_gone());
    }
    drop(culprit);
    let next = sim.connect("card1.0");
    let target = next.alloc_dma(4096).unwrap();
    next.mmio_write64(0x1008, target.iova());
    next.mmio_read32(0);
    bytes.fill(0, 512, 0x31);
    sender.mmio_write64(0x1000, 512 << 48 | bytes.iova());
    assert!(next.wait_irq(1, soon(&next)).unwrap());
    assert_eq!(target.load_u32(0), 0x3131_3131);
}

/// A mapping too many is refused with what to do, and leaves everything as it was.
#[test]
fn a_mapping_too_many_names_the_remedy() {
    const PIECES: usize = 4097;
    const STRIDE: usize = 128;
    let sim = Simulator::start();
    let dev = sim.connect("card0.0");
    let mut bytes = vec![0u8; PIECES * STRIDE];
    let start = bytes.as_mut_ptr();
    // SAFETY: `bytes` outlives the mappings of its parts.
    let part = |at: usize, len| unsafe { UserMemory::new(start.add(at), len) };
    let parts: Vec<u64> = (0..PIECES)
        .map(|piece| dev.map_dma(part(piece * STRIDE, 64)).unwrap())
        .collect();
    let error = dev.map_dma(part(0, PIECES * STRIDE)).unwrap_err().to_string();
    for word in [
        "docs/isolation.md",
        "deregister memory first",
        &format!("{} bytes", PIECES * STRIDE),
    ] {
        assert!(error.contains(word), "{word}: {error}");
    }
    for iova in parts {
        dev.unmap_dma(iova, 64).unwrap();
    }
    dev.map_dma(part(0, PIECES * STRIDE)).unwrap();
}

#[test]
fn garbage_and_silence_harm_nobody() {
    let sim = Simulator::start();
    let _silent = UnixStream::connect(sim.path("card0.0")).unwrap();
    let mut noise = UnixStream::connect(sim.path("card0.0")).unwrap();
    noise.write_all(&[0xff; 64]).unwrap();
    let dev = sim.connect("card0.0");
    assert_eq!(dev.mmio_read32(0), 0x5052_4f42);
    // Registers that do not exist in that width or place.
    assert_eq!(dev.mmio_read32(0x1_0000), u32::MAX);
    assert_eq!(dev.mmio_read32(2), u32::MAX);
    dev.mmio_write64(0x1_0000, 1);
    assert_eq!(dev.mmio_read32(0), 0x5052_4f42);
}
