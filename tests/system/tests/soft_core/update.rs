//! Images of the firmware over the admin queue (issue 14): what is signed is started and comes up or not, what is not
//! signed never is; power and firmware may go away at any time.

use hca_abi::{
    ActivateFirmwareCmd, AdminOpcode, AdminStatus, BoardSlot, FIRMWARE_CHUNK_BYTES, ImageHead,
    QueryFirmwareResult, SLOT_NONE, SOC_IMAGE_BYTES, SlotState, SocFault, WriteFirmwareCmd,
};
use hca_cosim::{CardConfig, CardId, Fabric, Flash, Processor, Simulation};
use hca_dev::Device;
use hca_link::LinkKind;
use hca_regs as reg;
use hca_system_tests::{Node, Rig, RigConfig, connect, identity, path};
use hca_verbs::{DriverError, Error, Mtu};

use crate::common::{LOCAL_AND_REMOTE, Pair, cap};
use crate::{REST_CYCLES, is_missing, processors};

const NONE: u8 = SLOT_NONE as u8;
/// A check of two images and a start, by far.
const MAX_CYCLES: u64 = 200_000_000;
const STEP_CYCLES: u64 = 100_000;
/// 2.3.4.
const NEW_VERSION: u32 = 0x0002_0304;
/// Enough for a start, and not for a check: the boot program is not watched.
const WATCHDOG_CYCLES: u32 = 2_000_000;
/// After a start, when firmware has nothing to do.
const LATE_CYCLES: u32 = 3_000_000;
/// Both slots are looked at, and nothing is started.
const REFUSED_CYCLES: u64 = 100_000_000;
/// A byte of the image's code.
const CODE: usize = 4000;

fn config(seed: u64) -> Option<RigConfig> {
    if is_missing() {
        return None;
    }
    Processor::Core.choose();
    Some(RigConfig::new(seed, LinkKind::Ethernet))
}

fn rig(seed: u64) -> Option<Rig> {
    config(seed).map(|config| Rig::new(&config).unwrap())
}

fn query(rig: &Rig) -> QueryFirmwareResult {
    rig.nodes[0].context.function().query_firmware().unwrap()
}

fn slot(result: &QueryFirmwareResult, slot: usize) -> (SlotState, u32) {
    let slot = BoardSlot::read_from(&result.slots()[slot * BoardSlot::BYTES..]).unwrap();
    (SlotState::try_from(slot.state()).unwrap(), slot.version())
}

fn console(rig: &Rig, card: CardId) -> String {
    rig.sim.fabric().card_mut(card).take_console().join("\n")
}

fn signed_after(image: &[u8], change: impl FnOnce(&mut ImageHead)) -> Vec<u8> {
    hca_image::sign(image, hca_image::DEVELOPMENT_SEED, change).unwrap()
}

/// An image of another version, signed with the board's key.
fn newer() -> Vec<u8> {
    signed_after(hca_image::IMAGE, |head| head.set_version(NEW_VERSION))
}

fn write(rig: &Rig, image: &[u8]) {
    let mut function = rig.nodes[0].context.function();
    let mut told = 0;
    function.write_firmware(image, |bytes| told = bytes).unwrap();
    assert_eq!(told, image.len());
}

/// Card 0 starts what is in its other slot. Comes back when its function 0 has been opened again, and has asked once:
/// the new image is kept then.
fn start(rig: &mut Rig) {
    rig.nodes[0].context.function().activate_firmware(true).unwrap();
    let began = rig.now_cycles();
    // It sleeps again when it has come up, or has given up.
    let mut awake_cycles = u64::MAX;
    while processors(rig)[0].awake_cycles != awake_cycles {
        awake_cycles = processors(rig)[0].awake_cycles;
        rig.run(STEP_CYCLES);
        assert!(rig.now_cycles() - began < MAX_CYCLES);
    }
    println!("started in {} cycles", rig.now_cycles() - began);
    open_again(rig);
}

fn open_again(rig: &mut Rig) {
    let card = rig.cards[0];
    // The old one's function is taken until it is gone.
    for func in [1, 0] {
        let node = Node::open(rig.sim.device(card, func).unwrap(), 64).unwrap();
        drop(std::mem::replace(&mut rig.nodes[0], node));
    }
}

fn update(rig: &mut Rig, image: &[u8]) {
    write(rig, image);
    start(rig);
}

/// QPs of firmware that has come up connect.
fn works(rig: &Rig) {
    let mut qps = [0, 1].map(|node: usize| rig.nodes[node].create_qp(cap(), false).unwrap());
    connect(&mut qps, &path(Mtu::Bytes1024)).unwrap();
}

/// Version and digest are what the build has made. An image goes to its slot beside traffic, of which nothing is lost;
/// its start costs the functions in use; then it runs, and is the one to start from now on.
#[test]
fn a_signed_image_is_written_beside_traffic_and_runs_after_a_restart() {
    let Some(config) = config(31) else { return };
    let mut pair = Pair::new(&config, &path(Mtu::Bytes1024), 64 << 10, [LOCAL_AND_REMOTE; 2]);
    let before = query(&pair.rig);
    assert!(before.on_core() && before.is_updatable());
    assert_eq!((before.running(), before.next()), (0, NONE));
    assert_eq!(before.digest(), hca_image::DIGEST);
    assert_eq!(before.public_key(), hca_image::PUBLIC_KEY);
    assert_eq!(slot(&before, 0), (SlotState::Good, before.version()));
    assert_eq!(slot(&before, 1), (SlotState::Empty, 0));

    let image = newer();
    for (round, piece) in (0..).zip(image.chunks(8 << 10)) {
        let (bytes, to) = (pair.expected(0, 0, 4000), 32 << 10);
        let source = [pair.mrs[0].sge(0, 4000)];
        pair.expect(1, to, &bytes);
        pair.post(0, round, pair.write_to(1, to), &source);
        let from = round as usize * (8 << 10);
        write_piece(&pair.rig, &image[..from + piece.len()], from);
        pair.wait_ok(0, round);
    }
    pair.check_traffic("an update");
    assert_eq!(processors(&pair.rig)[0].restarts, 0);

    let Pair {
        mut rig, qps, mrs, ..
    } = pair;
    rig.nodes[0].context.function().activate_firmware(false).unwrap();
    let written = query(&rig);
    assert_eq!((written.running(), written.next()), (0, 1), "at the next start");
    assert_eq!(slot(&written, 1), (SlotState::Untried, NEW_VERSION));
    drop((qps, mrs));
    start(&mut rig);
    let after = query(&rig);
    assert_eq!(
        (after.running(), after.next(), after.version()),
        (1, NONE, NEW_VERSION)
    );
    assert_ne!(after.digest(), before.digest());
    assert_eq!(slot(&after, 1), (SlotState::Good, NEW_VERSION));
    let device = rig.nodes[0].context.query_device().unwrap();
    let version = [
        device.fw_ver_major(),
        device.fw_ver_minor(),
        device.fw_ver_patch(),
    ];
    assert_eq!(version, [2, 3, 4]);
    works(&rig);
}

/// Bytes of an image from an offset on.
fn write_piece(rig: &Rig, image: &[u8], from: usize) {
    let node = &rig.nodes[0];
    let buffer = node.dev.alloc_dma(FIRMWARE_CHUNK_BYTES as usize).unwrap();
    for offset in (from..image.len()).step_by(FIRMWARE_CHUNK_BYTES as usize) {
        let mut piece = image[offset..].to_vec();
        piece.truncate(FIRMWARE_CHUNK_BYTES as usize);
        piece.resize(piece.len().next_multiple_of(64), 0);
        buffer.write_bytes(0, &piece);
        let mut cmd = WriteFirmwareCmd::new();
        cmd.set_addr(buffer.iova());
        cmd.set_offset(offset as u32);
        cmd.set_bytes(piece.len() as u32);
        let mut function = node.context.function();
        let reply = function
            .issue_raw(AdminOpcode::WriteFirmware.into(), cmd.as_bytes())
            .unwrap();
        assert_eq!(AdminStatus::try_from(reply.status()), Ok(AdminStatus::Ok));
    }
    node.dev.free_dma(buffer).unwrap();
}

/// Firmware is stopped in the middle of the update's commands: what was under way is done again, the image is whole.
#[test]
#[ignore = "long: make soak"]
fn soak_an_update_goes_on_after_a_restart_of_the_firmware() {
    let Some(mut rig) = rig(36) else { return };
    let image = newer();
    let card = rig.cards[0];
    rig.sim.fabric().card_mut(card).set_watchdog(WATCHDOG_CYCLES);
    for (count, (index, piece)) in (1..).zip(image.chunks(16 << 10).enumerate()) {
        let from = index * (16 << 10);
        rig.sim
            .fabric()
            .card_mut(card)
            .set_fault(SocFault::Trap, 1500 + 3700 * count, 1);
        write_piece(&rig, &image[..from + piece.len()], from);
        assert_eq!(processors(&rig)[0].restarts, count);
        // It is well again when it has run out of work.
        rig.run(REST_CYCLES);
    }
    let head = hca_image::head(&image).unwrap();
    let mut flash = rig.sim.fabric().card_mut(card).flash();
    let written = flash.slot_bytes(1);
    assert_eq!(written.len(), image.len().next_multiple_of(64));
    assert!(written[..image.len()] == image[..], "{} bytes", head.bytes());
}

/// An image that may not run: the old one goes on.
fn is_refused(rig: &mut Rig, what: &str, image: &[u8], state: SlotState, said: &str) {
    let before = query(rig);
    update(rig, image);
    let after = query(rig);
    assert_eq!(
        (after.running(), after.next()),
        (before.running(), NONE),
        "{what}"
    );
    assert_eq!(
        (after.version(), after.digest()),
        (before.version(), before.digest()),
        "{what}"
    );
    assert_eq!(
        slot(&after, usize::from(before.running() == 0)).0,
        state,
        "{what}"
    );
    let lines = console(rig, rig.cards[0]);
    assert!(lines.contains(said), "{what}: {lines}");
    let again = rig.nodes[0].context.function().activate_firmware(true);
    assert_eq!(refusal(again), AdminStatus::BadState, "{what}");
    works(rig);
}

#[test]
#[ignore = "long: make soak"]
fn soak_what_is_not_signed_for_this_card_never_runs() {
    let Some(mut rig) = rig(32) else { return };
    let good = newer();
    let end = good.len() - hca_image::SIGNATURE_BYTES;
    let flipped = |at: usize| {
        let mut image = good.clone();
        image[at] ^= 1;
        image
    };
    let refused = SlotState::Refused;
    let is_wrong = "its digest is wrong";
    is_refused(&mut rig, "a bit of the code", &flipped(CODE), refused, is_wrong);
    is_refused(&mut rig, "a bit of its end", &flipped(end - 1), refused, is_wrong);
    let unsigned = "not signed with the board's key";
    is_refused(
        &mut rig,
        "a bit of the signature",
        &flipped(end + 9),
        refused,
        unsigned,
    );
    let foreign = hca_image::sign(hca_image::IMAGE, [5; 32], |_| ()).unwrap();
    is_refused(&mut rig, "another key", &foreign, refused, unsigned);
    is_refused(
        &mut rig,
        "its first half",
        &good[..(good.len() / 2) & !63],
        refused,
        is_wrong,
    );
    is_refused(
        &mut rig,
        "no image at all",
        &[0xff; 4096],
        refused,
        "no head of an image",
    );
    let other = signed_after(hca_image::IMAGE, |head| head.set_hardware(0x0001_000e));
    is_refused(
        &mut rig,
        "another card's",
        &other,
        SlotState::OtherCard,
        "hardware of another kind",
    );
    update(&mut rig, &good);
    assert_eq!(query(&rig).version(), NEW_VERSION, "and then a good one");
}

/// A signed image that does not come up: it hangs at once, or traps, or its commands do. The old one is started again.
#[test]
#[ignore = "long: make soak"]
fn soak_an_image_that_does_not_come_up_is_rolled_back() {
    /// `j .`, and an illegal instruction.
    const STOPS: [[u8; 4]; 2] = [[0x6f, 0, 0, 0], [0; 4]];
    let Some(mut rig) = rig(33) else { return };
    let card = rig.cards[0];
    rig.sim.fabric().card_mut(card).set_watchdog(WATCHDOG_CYCLES);
    let before = query(&rig);
    let is_back = |rig: &Rig| {
        let after = query(rig);
        assert_eq!((after.running(), after.next()), (0, NONE));
        assert_eq!(
            (after.version(), after.digest()),
            (before.version(), before.digest())
        );
        assert_eq!(slot(&after, 1), (SlotState::Failed, NEW_VERSION));
        let lines = console(rig, card);
        assert!(lines.contains("new firmware does not come up"), "{lines}");
        works(rig);
    };
    for stop in STOPS {
        let mut image = hca_image::IMAGE.to_vec();
        image[0x80..0x84].copy_from_slice(&stop);
        let image = signed_after(&image, |head| head.set_version(NEW_VERSION));
        update(&mut rig, &image);
        is_back(&rig);
    }
    // It comes up and sleeps, but fails before it has answered a command: three times.
    write(&rig, &newer());
    rig.nodes[0].context.function().activate_firmware(true).unwrap();
    rig.run(STEP_CYCLES);
    rig.sim
        .fabric()
        .card_mut(card)
        .set_fault(SocFault::Trap, LATE_CYCLES, 3);
    rig.run(MAX_CYCLES);
    assert_eq!(
        processors(&rig)[0].restarts,
        3 + 1 + 3 + 1 + 3 + 1,
        "and each activation is one"
    );
    open_again(&mut rig);
    is_back(&rig);
}

/// Back to the image before by hand; and not any more when its epoch is over, however well it is signed.
#[test]
#[ignore = "long: make soak"]
fn soak_an_epoch_that_is_over_does_not_come_back() {
    let Some(mut rig) = rig(37) else { return };
    update(&mut rig, &newer());
    assert_eq!(query(&rig).running(), 1);
    start(&mut rig);
    let back = query(&rig);
    assert_eq!(
        (back.running(), back.version(), back.digest()),
        (0, back.version(), hca_image::DIGEST)
    );
    let next = signed_after(hca_image::IMAGE, |head| {
        head.set_version(NEW_VERSION + 1);
        head.set_epoch(1);
    });
    update(&mut rig, &next);
    let after = query(&rig);
    assert_eq!((after.running(), after.epoch()), (1, 1));
    // The old one is in slot 0 still, and its bytes may be written again.
    is_refused(
        &mut rig,
        "a replay",
        hca_image::IMAGE,
        SlotState::TooOld,
        "its epoch is over",
    );
    assert_eq!(query(&rig).version(), NEW_VERSION + 1);
}

/// A card that gets power with this flash. Its functions are not opened.
fn power_on(seed: u64, flash: &Flash) -> Option<Rig> {
    let mut config = config(seed)?;
    config.flash = Some(flash.clone());
    Some(Rig::new(&config).unwrap())
}

/// Power comes back: the boot program checks what it starts. A damaged slot is left; a new image is tried twice; an
/// update that was cut leaves the old image.
#[test]
#[ignore = "long: make soak"]
fn soak_power_goes_away_at_any_time() {
    let Some(mut rig) = rig(38) else { return };
    let card = rig.cards[0];
    let image = newer();
    let old_version = query(&rig).version();
    // In the middle of an update, and at its end.
    let half = (image.len() / 2) & !1023;
    write(&rig, &image[..half]);
    rig.nodes[0].context.function().activate_firmware(false).unwrap();
    rig.run(STEP_CYCLES);
    let cut = rig.sim.fabric().card_mut(card).flash();
    write(&rig, &image);
    rig.nodes[0].context.function().activate_firmware(false).unwrap();
    rig.run(STEP_CYCLES);
    let mut whole = rig.sim.fabric().card_mut(card).flash();
    drop(rig);

    let Some(rig) = power_on(39, &cut) else { return };
    let after = query(&rig);
    assert_eq!((after.running(), after.version()), (0, old_version));
    assert_eq!(slot(&after, 1).0, SlotState::Refused);
    drop(rig);

    let Some(rig) = power_on(40, &whole) else { return };
    assert_eq!((query(&rig).running(), query(&rig).version()), (1, NEW_VERSION));
    drop(rig);

    // The good slot is damaged: the other one runs, whatever was meant.
    whole.slot_bytes(0)[CODE] ^= 1;
    let Some(rig) = power_on(41, &whole) else { return };
    assert_eq!(query(&rig).running(), 1);
}

/// Both slots are damaged: nothing runs, every function says so, and the console says why.
#[test]
#[ignore = "long: make soak"]
fn soak_a_card_without_an_image_that_may_run_stops() {
    let Some(rig) = rig(42) else { return };
    let mut flash = rig.sim.fabric().card_mut(rig.cards[0]).flash();
    drop(rig);
    flash.slot_bytes(0)[CODE] ^= 1;
    let mut fabric = Fabric::new(43);
    let config = CardConfig::with_shares("card0", &[identity(0, LinkKind::Ethernet)], 4, &[]);
    let card = fabric.add_card(config.with_flash(&flash)).unwrap();
    let sim = Simulation::new(fabric);
    sim.fabric().run(REFUSED_CYCLES);
    let lines = sim.fabric().card_mut(card).take_console();
    assert!(
        lines.iter().any(|line| line.contains("its digest is wrong")),
        "{lines:?}"
    );
    assert!(
        lines
            .iter()
            .any(|line| line.contains("no slot has firmware that may run")),
        "{lines:?}"
    );
    for func in 0..4 {
        let status = sim.device(card, func).unwrap().mmio_read32(reg::FUNC_STATUS);
        assert_eq!(status & reg::FUNC_STATUS_FATAL_MASK, reg::FUNC_STATUS_FATAL_MASK);
        assert_eq!(status & reg::FUNC_STATUS_READY_MASK, 0);
    }
    let opened = Node::open(sim.device(card, 0).unwrap(), 64);
    assert!(matches!(opened, Err(Error::Driver(_))), "{:?}", opened.err());
}

fn refusal<T: std::fmt::Debug>(result: Result<T, DriverError>) -> AdminStatus {
    match result {
        Err(DriverError::Admin(e)) => e.status,
        other => panic!("{other:?}"),
    }
}

/// SYS-7: only function 0 may; pieces lie where they fit, and what is not there is not started.
#[test]
fn updates_are_refused_where_they_cannot_be() {
    let Some(rig) = rig(34) else { return };
    let other = Node::open(rig.sim.device(rig.cards[0], 1).unwrap(), 64).unwrap();
    let written = other.context.function().write_firmware(&[0; 64], |_| ());
    assert_eq!(refusal(written), AdminStatus::NotPermitted);
    let activated = other.context.function().activate_firmware(false);
    assert_eq!(refusal(activated), AdminStatus::NotPermitted);
    let mut function = rig.nodes[0].context.function();
    let empty = function.activate_firmware(true);
    assert_eq!(refusal(empty), AdminStatus::BadState);
    let too_long = function.write_firmware(&vec![0; SOC_IMAGE_BYTES as usize + 1], |_| ());
    assert_eq!(refusal(too_long), AdminStatus::BadLength);
    let mut cmd = WriteFirmwareCmd::new();
    for (offset, bytes, status) in [
        (0, 0, AdminStatus::BadLength),
        (0, 65, AdminStatus::BadLength),
        (0, FIRMWARE_CHUNK_BYTES + 64, AdminStatus::BadLength),
        (4, 64, AdminStatus::BadParam),
        (u32::MAX - 63, 64, AdminStatus::BadLength),
        (0, 64, AdminStatus::DmaError),
    ] {
        cmd.set_offset(offset);
        cmd.set_bytes(bytes);
        cmd.set_addr(1 << 60);
        let reply = function
            .issue_raw(AdminOpcode::WriteFirmware.into(), cmd.as_bytes())
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
    let written = function.write_firmware(&[0; 64], |_| ());
    assert_eq!(refusal(written), AdminStatus::Unsupported);
    let cmd = ActivateFirmwareCmd::new();
    let reply = function
        .issue_raw(AdminOpcode::ActivateFirmware.into(), cmd.as_bytes())
        .unwrap();
    assert_eq!(
        AdminStatus::try_from(reply.status()),
        Ok(AdminStatus::Unsupported)
    );
}
