//! The simulator itself, with the test card of hca-vsim in place of the real one.

mod common;

use hca_cosim::{CardConfig, CardId, Fabric, SimDevice, Simulation, StampKind};
use hca_dev::{Device, UserMemory};
use hca_fw_core::RegisterBus;
use hca_link::{CableConfig, LinkKind, Tap};
use hca_models as _;

fn pair(seed: u64) -> (Simulation, [CardId; 2], [SimDevice; 2]) {
    let mut fabric = Fabric::new(seed);
    let a = fabric.add_card(CardConfig::probe("card0")).unwrap();
    let b = fabric.add_card(CardConfig::probe("card1")).unwrap();
    fabric
        .connect(a, b, CableConfig::new("cable0", LinkKind::Ethernet))
        .unwrap();
    let sim = Simulation::new(fabric);
    let devices = [sim.device(a, 0).unwrap(), sim.device(b, 0).unwrap()];
    (sim, [a, b], devices)
}

fn send(dev: &SimDevice, iova: u64, len_bytes: u64) {
    dev.mmio_write64(0x1000, len_bytes << 48 | iova);
}

#[test]
fn bytes_travel_from_host_to_host() {
    let (sim, [a, b], [dev_a, dev_b]) = pair(7);
    let source = dev_a.alloc_dma(4096).unwrap();
    let target = dev_b.alloc_dma(4096).unwrap();
    let bytes: Vec<u8> = (0..512).map(|i| (i * 7) as u8).collect();
    source.write_bytes(512, &bytes);
    sim.fabric().card_mut(a).record_stamps(100);
    sim.fabric().card_mut(b).record_stamps(100);
    dev_b.mmio_write64(0x1008, target.iova() + 1024);
    assert_eq!(dev_b.mmio_read32(0), 0x5052_4f42);
    send(&dev_a, source.iova() + 512, 512);
    assert!(dev_b.wait_irq(1, dev_b.now_ns() + 100_000).unwrap());
    let mut seen = vec![0; 512];
    target.read_bytes(1024, &mut seen);
    assert_eq!(seen, bytes);

    let stamps = sim.fabric().card_mut(a).take_stamps();
    let at = |wanted: fn(&StampKind) -> bool| stamps.iter().find(|s| wanted(&s.kind)).unwrap().cycle;
    let doorbell = at(|k| matches!(k, StampKind::MmioWrite { addr: 0x1000, .. }));
    let request = at(|k| matches!(k, StampKind::ReadRequest { .. }));
    let data = at(|k| matches!(k, StampKind::ReadFirst { .. }));
    let tx = at(|k| matches!(k, StampKind::TxFirst));
    assert_eq!(request - doorbell, 1);
    assert!((125..135).contains(&(data - request)), "{}", data - request);
    assert_eq!(tx - data, 1);
    let stamps = sim.fabric().card_mut(b).take_stamps();
    assert_eq!(stamps.iter().filter(|s| s.kind == StampKind::RxLast).count(), 1);
    assert_eq!(stamps.last().unwrap().kind, StampKind::Msix { vector: 1 });
}

#[test]
fn rings_and_memory_of_the_program_have_bus_addresses_of_their_own() {
    let (_sim, _, [dev, _]) = pair(1);
    common::rings_and_memory_have_bus_addresses_of_their_own(&dev);
}

#[test]
fn registered_memory_is_reached_until_it_is_unmapped() {
    let (sim, [a, _], [dev_a, dev_b]) = pair(1);
    let mut bytes = vec![0x5au8; 1024];
    let aligned = bytes.as_ptr().align_offset(512); // the test card sends whole lines
    // SAFETY: `bytes` lives to the end of the test, and is unmapped before.
    let memory = unsafe { UserMemory::new(bytes.as_mut_ptr().add(aligned), 256) };
    let iova = dev_a.map_dma(memory).unwrap();
    let target = dev_b.alloc_dma(4096).unwrap();
    dev_b.mmio_write64(0x1008, target.iova());
    send(&dev_a, iova, 64);
    assert!(dev_b.wait_irq(1, dev_b.now_ns() + 100_000).unwrap());
    assert_eq!(target.load_u32(0), 0x5a5a_5a5a);
    assert_eq!(dev_a.mmio_read32(0x10), 0);
    dev_a.unmap_dma(iova, 256).unwrap();
    assert!(dev_a.unmap_dma(iova, 256).is_err());
    send(&dev_a, iova, 64);
    assert!(!dev_b.wait_irq(1, dev_b.now_ns() + 100_000).unwrap());
    assert_eq!(dev_a.mmio_read32(0x10), 1, "one read error");
    assert_eq!(sim.fabric().card_mut(a).host().fault_count(), 1);
}

#[test]
fn firmware_answers_events() {
    let mut fabric = Fabric::new(3);
    let firmware = CardConfig::with_firmware(
        "card0",
        Box::new(|bus| {
            loop {
                bus.wait_irq(None);
                let word = bus.read32(0);
                bus.write32(4, word.wrapping_mul(3));
            }
        }),
    );
    let card = fabric.add_card(firmware).unwrap();
    let sim = Simulation::new(fabric);
    let dev = sim.device(card, 2).unwrap();
    for value in [5, 1000, 77] {
        dev.mmio_write64(0x1010, value);
        sim.fabric().run(200);
        assert_eq!(u64::from(dev.mmio_read32(4)), value * 3);
    }
    assert_eq!(
        dev.mmio_read32(0x20),
        2,
        "the function number travels with every access"
    );
    assert_eq!(sim.fabric().card(card).counters().firmware_accesses, 6);
}

#[test]
fn idle_time_costs_nothing_and_the_card_sees_it() {
    let (sim, [a, _], [dev, _]) = pair(1);
    let evaluated = |sim: &Simulation| sim.fabric().card(a).counters().evaluated_cycles;
    sim.fabric().run(1000);
    let before = evaluated(&sim);
    sim.fabric().run(250_000_000_000);
    assert_eq!(evaluated(&sim), before);
    assert!(dev.now_ns() > 1_000_000_000_000, "a thousand seconds and more");
    let time = u64::from(dev.mmio_read32(8)) | u64::from(dev.mmio_read32(12)) << 32;
    assert!(time > 250_000_000_000);
    assert!(!dev.wait_irq(0, dev.now_ns() + 1_000_000).unwrap());
    // Two reads, each with some cycles until it is seen that nothing moves any more.
    assert!(evaluated(&sim) < before + 60);
}

/// Everything observable of a run: end time, stamps of both cards, the capture.
fn observe(seed: u64) -> (u64, String, Vec<u8>) {
    let (sim, [a, b], [dev_a, dev_b]) = pair(seed);
    let capture = std::env::temp_dir().join(format!("hca-cosim-{}-{seed}.pcap", std::process::id()));
    let cable = sim.fabric().cables().next().unwrap();
    sim.fabric().capture(cable, Tap::Delivered, &capture).unwrap();
    for card in [a, b] {
        sim.fabric().card_mut(card).record_stamps(10_000);
    }
    let source = dev_a.alloc_dma(1 << 16).unwrap();
    let target = dev_b.alloc_dma(1 << 20).unwrap();
    for i in 0..1 << 14 {
        source.store_u32(4 * i, (i as u32).wrapping_mul(0x9e37_79b9));
    }
    dev_b.mmio_write64(0x1008, target.iova());
    for i in 0..100u64 {
        send(&dev_a, source.iova() + i * 512, 64 + (i % 8) * 64);
        dev_a.progress();
    }
    sim.fabric().run(50_000);
    let mut fabric = sim.fabric();
    fabric.cable_mut(cable).close().unwrap();
    let base = [source.iova(), target.iova()];
    let mut stamps = fabric.card_mut(a).take_stamps();
    stamps.extend(fabric.card_mut(b).take_stamps());
    for stamp in &mut stamps {
        // Bus addresses are this process' and differ between runs.
        match &mut stamp.kind {
            StampKind::ReadRequest { addr, .. } => *addr -= base[0],
            StampKind::WriteLast { addr } => *addr -= base[1],
            _ => {}
        }
    }
    assert!(stamps.iter().filter(|s| s.kind == StampKind::RxLast).count() == 100);
    let pcap = std::fs::read(&capture).unwrap();
    std::fs::remove_file(&capture).unwrap();
    (fabric.now(), format!("{stamps:?}"), pcap)
}

#[test]
fn equal_seeds_give_equal_runs() {
    let (now, stamps, pcap) = observe(11);
    let again = observe(11);
    assert_eq!(now, again.0);
    assert!(stamps == again.1 && pcap == again.2);
}
