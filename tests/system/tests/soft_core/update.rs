//! Images of the firmware over the admin queue: what is signed is started and comes up or not, what is not signed never
//! is.

use hca_abi::{
    AdminStatus, BoardSlot, FIRMWARE_CHUNK_BYTES, QueryFirmwareResult, SLOT_NONE, SOC_IMAGE_BYTES, SlotState,
};
use hca_cosim::{CardId, Processor};
use hca_dev::Device;
use hca_link::LinkKind;
use hca_system_tests::{Node, Rig, RigConfig, connect, path};
use hca_verbs::{DriverError, Mtu};

use crate::common::cap;
use crate::{is_missing, processors};

const NONE: u8 = SLOT_NONE as u8;
/// A check of two images and a start, by far.
const MAX_CYCLES: u64 = 200_000_000;
const STEP_CYCLES: u64 = 100_000;
/// 2.3.4.
const NEW_VERSION: u32 = 0x0002_0304;

fn rig(seed: u64) -> Option<Rig> {
    if is_missing() {
        return None;
    }
    Processor::Core.choose();
    Some(Rig::new(&RigConfig::new(seed, LinkKind::Ethernet)).unwrap())
}

fn query(rig: &Rig) -> QueryFirmwareResult {
    rig.nodes[0].context.function().query_firmware().unwrap()
}

fn slot(result: &QueryFirmwareResult, slot: usize) -> (u8, u32) {
    let slot = BoardSlot::read_from(&result.slots()[slot * BoardSlot::BYTES..]).unwrap();
    (slot.state(), slot.version())
}

fn console(rig: &Rig, card: CardId) -> Vec<String> {
    rig.sim.fabric().card_mut(card).take_console()
}

/// An image of another version, signed with the board's key.
fn newer() -> Vec<u8> {
    hca_image::sign(hca_image::IMAGE, hca_image::DEVELOPMENT_SEED, Some(NEW_VERSION)).unwrap()
}

/// Writes an image, and has card 0 start it. Comes back when its function answers again.
fn update(rig: &mut Rig, image: &[u8]) {
    let card = rig.cards[0];
    {
        let mut function = rig.nodes[0].context.function();
        function.write_firmware(image).unwrap();
        function.activate_firmware(true).unwrap();
    }
    let start = rig.now_cycles();
    // It sleeps again when it has come up, or has given up.
    let mut awake_cycles = u64::MAX;
    while processors(rig)[0].awake_cycles != awake_cycles {
        awake_cycles = processors(rig)[0].awake_cycles;
        rig.run(STEP_CYCLES);
        assert!(rig.now_cycles() - start < MAX_CYCLES);
    }
    println!("{} cycles", rig.now_cycles() - start);
    let replacement = Node::open(rig.sim.device(card, 1).unwrap(), 64).unwrap();
    drop(std::mem::replace(&mut rig.nodes[0], replacement));
    let manager = Node::open(rig.sim.device(card, 0).unwrap(), 64).unwrap();
    drop(std::mem::replace(&mut rig.nodes[0], manager));
}

/// Issue 14: version and digest are what the build has made; a signed image of another version runs after an update,
/// and its QPs connect.
#[test]
fn a_signed_image_runs_after_an_update() {
    let Some(mut rig) = rig(31) else { return };
    let before = query(&rig);
    assert!(before.on_core() && before.is_updatable());
    assert_eq!((before.running(), before.next()), (0, NONE));
    assert_eq!(before.digest(), hca_image::DIGEST);
    assert_eq!(slot(&before, 0), (SlotState::Good.into(), before.version()));
    assert_eq!(slot(&before, 1), (SlotState::Empty.into(), 0));
    update(&mut rig, &newer());
    let after = query(&rig);
    assert_eq!(
        (after.running(), after.next(), after.version()),
        (1, NONE, NEW_VERSION)
    );
    assert_ne!(after.digest(), before.digest());
    assert_eq!(slot(&after, 1), (SlotState::Good.into(), NEW_VERSION));
    let device = rig.nodes[0].context.query_device().unwrap();
    assert_eq!(
        (
            device.fw_ver_major(),
            device.fw_ver_minor(),
            device.fw_ver_patch()
        ),
        (2, 3, 4)
    );
    let mut qps = [0, 1].map(|node: usize| rig.nodes[node].create_qp(cap(), false).unwrap());
    connect(&mut qps, &path(Mtu::Bytes1024)).unwrap();
}

/// An image that may not run: the old one goes on.
fn is_refused(rig: &mut Rig, what: &str, image: &[u8]) {
    let before = query(rig);
    update(rig, image);
    let after = query(rig);
    assert_eq!((after.running(), after.next()), (0, NONE), "{what}");
    assert_eq!(
        (after.version(), after.digest()),
        (before.version(), before.digest()),
        "{what}"
    );
    assert_eq!(slot(&after, 1).0, u8::from(SlotState::Refused), "{what}");
    let lines = console(rig, rig.cards[0]);
    assert!(
        lines
            .iter()
            .any(|line| line.contains("digest or signature is wrong")),
        "{what}: {lines:?}"
    );
}

#[test]
#[ignore = "long: make soak"]
fn soak_what_is_not_signed_never_runs() {
    let Some(mut rig) = rig(32) else { return };
    let good = newer();
    let end = good.len() - hca_image::SIGNATURE_BYTES;
    let mut flipped = good.clone();
    flipped[end / 2] ^= 1;
    is_refused(&mut rig, "a bit of the code", &flipped);
    let mut flipped = good.clone();
    flipped[end + 9] ^= 1;
    is_refused(&mut rig, "a bit of the signature", &flipped);
    let foreign = hca_image::sign(hca_image::IMAGE, [5; 32], Some(NEW_VERSION)).unwrap();
    is_refused(&mut rig, "another key", &foreign);
    is_refused(&mut rig, "no image at all", &[0xff; 4096]);
    is_refused(&mut rig, "its first half", &good[..good.len() / 2]);
}

/// A signed image that does not come up: it hangs at once, or traps. The old one is started again.
#[test]
#[ignore = "long: make soak"]
fn soak_an_image_that_does_not_come_up_is_rolled_back() {
    /// `j .`, and an illegal instruction.
    const STOPS: [[u8; 4]; 2] = [[0x6f, 0, 0, 0], [0; 4]];
    let Some(mut rig) = rig(33) else { return };
    rig.sim.fabric().card_mut(rig.cards[0]).set_watchdog(2_000_000);
    for stop in STOPS {
        let mut image = hca_image::IMAGE.to_vec();
        image[0x80..0x84].copy_from_slice(&stop);
        let image = hca_image::sign(&image, hca_image::DEVELOPMENT_SEED, Some(NEW_VERSION)).unwrap();
        let before = query(&rig);
        update(&mut rig, &image);
        let after = query(&rig);
        assert_eq!(
            (after.running(), after.next(), after.version()),
            (0, NONE, before.version())
        );
        assert_eq!(slot(&after, 1), (SlotState::Failed.into(), NEW_VERSION));
        assert!(console(&rig, rig.cards[0]).contains(&"new firmware does not come up".to_owned()));
    }
}

fn refusal<T: std::fmt::Debug>(result: Result<T, DriverError>) -> AdminStatus {
    match result {
        Err(DriverError::Admin(e)) => e.status,
        other => panic!("{other:?}"),
    }
}

/// Only function 0 may, pieces lie where they fit, and what is not there is not started.
#[test]
fn updates_are_refused_where_they_cannot_be() {
    let Some(rig) = rig(34) else { return };
    let other = Node::open(rig.sim.device(rig.cards[0], 1).unwrap(), 64).unwrap();
    assert_eq!(
        refusal(other.context.function().write_firmware(&[0; 64])),
        AdminStatus::NotPermitted
    );
    assert_eq!(
        refusal(other.context.function().activate_firmware(false)),
        AdminStatus::NotPermitted
    );
    let mut function = rig.nodes[0].context.function();
    assert_eq!(
        refusal(function.activate_firmware(true)),
        AdminStatus::BadState,
        "the slot is empty"
    );
    let most = SOC_IMAGE_BYTES as usize;
    assert_eq!(
        refusal(function.write_firmware(&vec![0; most + 1])),
        AdminStatus::BadLength
    );
    let mut cmd = hca_abi::WriteFirmwareCmd::new();
    for (offset, bytes, status) in [
        (0, 0, AdminStatus::BadLength),
        (0, 65, AdminStatus::BadLength),
        (0, FIRMWARE_CHUNK_BYTES + 64, AdminStatus::BadLength),
        (4, 64, AdminStatus::BadParam),
        (u32::MAX - 63, 64, AdminStatus::BadLength),
        (0, 64, AdminStatus::DmaError),
    ] {
        (cmd.set_offset(offset), cmd.set_bytes(bytes));
        cmd.set_addr(1 << 60);
        let reply = function
            .issue_raw(hca_abi::AdminOpcode::WriteFirmware.into(), cmd.as_bytes())
            .unwrap();
        assert_eq!(
            AdminStatus::try_from(reply.status()),
            Ok(status),
            "{offset} {bytes}"
        );
    }
    drop(function);
    // Natively firmware is a part of the simulator.
    Processor::Native.choose();
    let rig = Rig::new(&RigConfig::new(35, LinkKind::Ethernet)).unwrap();
    let native = query(&rig);
    assert!(!native.on_core() && !native.is_updatable());
    let mut function = rig.nodes[0].context.function();
    assert_eq!(
        refusal(function.write_firmware(&[0; 64])),
        AdminStatus::Unsupported
    );
    assert_eq!(
        refusal(function.activate_firmware(true)),
        AdminStatus::Unsupported
    );
}
