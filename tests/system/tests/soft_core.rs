//! Firmware on the card's own processor (D9): two cards whose firmware is the image that a board would have, on the
//! RTL's RISC-V core.

mod common;
#[path = "soft_core/restart.rs"]
mod restart;
#[path = "soft_core/update.rs"]
mod update;

use std::rc::Rc;

use common::{BOTH_LINKS, LOCAL_AND_REMOTE, Pair, cap};
use hca_abi::{device_cap, port_cap};
use hca_cosim::{Processor, ProcessorCounters};
use hca_link::LinkKind;
use hca_parity::{Ends, TESTS};
use hca_system_tests::{Place, Rig, RigConfig, path};
use hca_verbs::Mtu;

/// Of simulated time.
const PATIENCE_NS: u64 = 100_000_000;
/// Far beyond what firmware does after the last command.
const REST_CYCLES: u64 = 20_000;

/// Without Rust's library for the core there is no image, as the set-up has said; then nothing here can be shown.
fn is_missing() -> bool {
    let is_missing = !Processor::Core.is_there();
    if is_missing {
        eprintln!(
            "skipped: no firmware image, for Rust's library for riscv32imc is not installed (scripts/setup.sh core)"
        );
    }
    is_missing
}

fn processors(rig: &Rig) -> [ProcessorCounters; 2] {
    let fabric = rig.sim.fabric();
    rig.cards.map(|card| {
        fabric
            .card(card)
            .processor()
            .expect("the cards have a processor of their own")
    })
}

/// ADDR-6, OP-1..8: a pair connects and transfers on both links; the processors sleep while packets go, are never
/// restarted, and print nothing.
#[test]
fn two_cards_work_with_firmware_on_their_own_processors() {
    if is_missing() {
        return;
    }
    Processor::Core.choose();
    for link in BOTH_LINKS {
        let mut pair = Pair::new(
            &RigConfig::new(1, link),
            &path(Mtu::Bytes1024),
            64 << 10,
            [LOCAL_AND_REMOTE; 2],
        );
        pair.rig.run(REST_CYCLES);
        let before = processors(&pair.rig);
        assert!(
            before
                .iter()
                .all(|processor| processor.awake_cycles > 0 && processor.restarts == 0)
        );
        for round in 0..8u64 {
            let bytes = pair.expected(0, 0, 4000);
            let source = [pair.mrs[0].sge(0, 4000)];
            let to = 32 << 10;
            pair.expect(1, to, &bytes);
            pair.post(0, round, pair.write_to(1, to), &source);
            pair.wait_ok(0, round);
        }
        assert_eq!(
            processors(&pair.rig),
            before,
            "{link:?}: data moves without firmware"
        );
        let mut fabric = pair.rig.sim.fabric();
        for card in pair.rig.cards {
            assert_eq!(
                fabric.card_mut(card).take_console(),
                Vec::<String>::new(),
                "{link:?}"
            );
        }
    }
}

/// What a client is told: facts, objects, refusals.
fn replies(processor: Processor, link: LinkKind) -> Vec<String> {
    processor.choose();
    let rig = Rig::new(&RigConfig::new(3, link)).unwrap();
    let node = &rig.nodes[0];
    let function = || node.context.function();
    // APM-2.
    let device = function().query_device().unwrap();
    let port = node.context.query_port(1).unwrap();
    assert_ne!(device.device_cap_flags() & device_cap::AUTO_PATH_MIG, 0);
    assert_ne!(port.port_cap_flags() & port_cap::AUTO_MIGR, 0);
    let mut told = vec![
        format!("{:?}", device.as_bytes()),
        format!("{:?}", port.as_bytes()),
        format!("{:?}", node.context.query_port(2).is_err()),
    ];
    for index in [0, 1, 2, 255] {
        told.push(format!("{:?}", function().query_gid(1, index)));
        told.push(format!("{:?}", function().query_pkey(1, index)));
    }
    let mut qps: Vec<_> = (0..20).map(|_| node.create_qp(cap(), false).unwrap()).collect();
    told.extend(qps.iter().map(|qp| format!("{}", qp.qp_num())));
    // Lines rest before they are used again; then it is another generation.
    qps.truncate(3);
    let more = [(); 3].map(|()| node.create_qp(cap(), true).unwrap().qp_num());
    told.push(format!("{more:?}"));
    let buffer = node.alloc(8192).unwrap();
    let regions = [0, 1 << 40].map(|base| {
        let place = Place::whole(&buffer, LOCAL_AND_REMOTE, base);
        let region = node.register(&buffer, place).unwrap();
        (region.lkey(), region.rkey())
    });
    told.push(format!("{regions:?}"));
    told
}

/// D9: the same crate both ways says the same.
#[test]
fn replies_are_the_same_natively_and_on_the_core() {
    if is_missing() {
        return;
    }
    for link in BOTH_LINKS {
        let native = replies(Processor::Native, link);
        assert_eq!(replies(Processor::Core, link), native, "{link:?}");
        assert!(native.len() > 30);
    }
}

/// Version and digest of the firmware that runs are the host's to read. On the core they are those of the
/// image that the build has made; native firmware is none.
#[test]
fn version_and_digest_of_the_firmware_can_be_read() {
    if is_missing() {
        return;
    }
    for (processor, on_core, digest) in [
        (Processor::Core, true, hca_image::DIGEST),
        (Processor::Native, false, [0; 32]),
    ] {
        processor.choose();
        let rig = Rig::new(&RigConfig::new(4, LinkKind::Ethernet)).unwrap();
        let image = rig.nodes[0].context.function().query_firmware().unwrap();
        assert_eq!((image.on_core(), image.digest()), (on_core, digest));
        let device = rig.nodes[0].context.query_device().unwrap();
        let version = u32::from(device.fw_ver_major()) << 16
            | u32::from(device.fw_ver_minor()) << 8
            | u32::from(device.fw_ver_patch());
        assert_eq!(image.version(), version);
        assert_ne!(version, 0);
    }
}

/// The parity list ([`hca_parity`]), which any transport passes, on the soft core.
#[test]
#[ignore = "a minute; make test-soft-core"]
fn parity_list() {
    Processor::Core.choose();
    for test in TESTS {
        let rig = Rig::new(&RigConfig::new(7, LinkKind::Ethernet)).unwrap();
        let Rig {
            sim, cards, nodes, ..
        } = rig;
        drop(nodes);
        let devices = cards.map(|card| Rc::new(sim.device(card, 0).unwrap()) as hca_parity::Dev);
        if let Err(failure) = test.run(&Ends::new(devices, PATIENCE_NS)) {
            panic!("{}: {failure}", test.name);
        }
    }
}
