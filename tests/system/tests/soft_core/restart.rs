//! Firmware that fails, by a fault that the board injects: the watchdog restarts it, and the data path does not notice.

use hca_abi::{SOC_DATA_BASE, SOC_JOURNAL_WORDS, SocFault};
use hca_cosim::{CardId, Processor};
use hca_dev::Device;
use hca_link::LinkKind;
use hca_regs as reg;
use hca_system_tests::{Node, Place, Rig, RigConfig, connect, path};
use hca_verbs::{DriverError, Error, Mtu, QpState, SendFlags, SendOp, SendWr, WcStatus, WrData};

use crate::common::{LOCAL_AND_REMOTE, Pair, cap};
use crate::{is_missing, processors};

/// More than any turn of the firmware takes.
const WATCHDOG_CYCLES: u32 = 60_000;
/// More than a start from nothing takes.
const PATIENT_WATCHDOG_CYCLES: u32 = 1_000_000;
/// For a restart and a start from nothing.
const START_CYCLES: u64 = 1_500_000;
/// Before firmware that has started has run out of work.
const SOON_CYCLES: u32 = 200;
const BYTES: u32 = 4000;
const WARM: &str = "restarted, with its state of before";
const COLD: &str = "restarted without a state: functions in use have to be reset";
const STOPPED: &str = "stopped: it failed again after every restart";

fn pair(seed: u64, watchdog_cycles: u32) -> Option<Pair> {
    if is_missing() {
        return None;
    }
    Processor::Core.choose();
    let config = RigConfig::new(seed, LinkKind::Ethernet);
    let pair = Pair::new(&config, &path(Mtu::Bytes1024), 64 << 10, [LOCAL_AND_REMOTE; 2]);
    for card in pair.rig.cards {
        pair.rig.sim.fabric().card_mut(card).set_watchdog(watchdog_cycles);
    }
    Some(pair)
}

fn fail(rig: &Rig, card: CardId, fault: SocFault, cycles: u32, times: u32) {
    rig.sim.fabric().card_mut(card).set_fault(fault, cycles, times);
}

fn restarts(rig: &Rig) -> [u32; 2] {
    processors(rig).map(|processor| processor.restarts)
}

/// Lines of a card's console, without those of the fault itself.
fn console(rig: &Rig, card: CardId) -> Vec<String> {
    let mut lines = rig.sim.fabric().card_mut(card).take_console();
    lines.retain(|line| !line.starts_with("trap ") && !line.starts_with("panic"));
    lines
}

/// WRITEs of both sides that arrive whole.
fn exchange(pair: &mut Pair, rounds: u64) {
    for round in 0..rounds {
        for node in 0..2 {
            let to = (32 << 10) + u64::from(BYTES) * (round % 7);
            let bytes = pair.expected(node, 0, BYTES);
            let source = [pair.mrs[node].sge(0, BYTES)];
            let op = pair.write_to(1 - node, to);
            pair.expect(1 - node, to, &bytes);
            pair.post(node, round, op, &source);
        }
        pair.wait_ok(0, round);
        pair.wait_ok(1, round);
    }
}

/// A region and a connection of their own on each side, which carry a WRITE, and their end.
fn make_and_use(rig: &Rig) {
    let [a, b] = &rig.nodes;
    let mut qps = [a, b].map(|node| node.create_qp(cap(), false).unwrap());
    connect(&mut qps, &path(Mtu::Bytes1024)).unwrap();
    let buffers = [a, b].map(|node| node.alloc(8192).unwrap());
    let place = |at: usize| Place::whole(&buffers[at], LOCAL_AND_REMOTE, 1 << 44);
    let mrs = [
        a.register(&buffers[0], place(0)).unwrap(),
        b.register(&buffers[1], place(1)).unwrap(),
    ];
    buffers[0].write_bytes(0, b"as if nothing had happened");
    let op = SendOp::RdmaWrite {
        remote_addr: mrs[1].addr() + 4096,
        rkey: mrs[1].rkey(),
    };
    let sges = [mrs[0].sge(0, 26)];
    let data = WrData::Sges(&sges);
    let flags = SendFlags::SIGNALED;
    qps[0]
        .post_send(&[SendWr {
            wr_id: 77,
            op,
            flags,
            data,
        }])
        .unwrap();
    let wc = loop {
        if let Some(wc) = a.poll().unwrap() {
            break wc;
        }
    };
    assert_eq!((wc.status, wc.wr_id), (WcStatus::Success, 77), "{wc:?}");
    let mut bytes = [0; 26];
    buffers[1].read_bytes(4096, &mut bytes);
    assert_eq!(&bytes, b"as if nothing had happened");
    assert_eq!(qps[0].query().unwrap().qp_state, QpState::Rts);
}

/// Firmware hangs while a command is under way and packets go both ways. Not a byte is lost, the command is
/// answered, and whatever is asked afterwards works.
#[test]
fn hung_firmware_is_restarted_beside_traffic() {
    let Some(mut pair) = pair(21, WATCHDOG_CYCLES) else {
        return;
    };
    let cards = pair.rig.cards;
    for (times, cycles) in [(1, 1500), (2, 3000)] {
        fail(&pair.rig, cards[0], SocFault::Hang, cycles, 1);
        exchange(&mut pair, 4);
        let made = pair.rig.nodes[0].create_qp(cap(), false).unwrap();
        assert_eq!(
            restarts(&pair.rig),
            [times, 0],
            "it was hung when the command came"
        );
        exchange(&mut pair, 4);
        drop(made);
        make_and_use(&pair.rig);
        assert_eq!(console(&pair.rig, cards[0]), [WARM]);
    }
    pair.check_traffic("after two restarts");
    assert_eq!(console(&pair.rig, cards[1]), Vec::<String>::new());
}

/// Issue 14: a stack that outgrows its memory is an access fault below it, and writes over nothing: firmware is
/// restarted with its state whole, and packets go on.
#[test]
fn a_stack_that_overflows_is_a_fault_beside_traffic() {
    let Some(mut pair) = pair(25, WATCHDOG_CYCLES) else {
        return;
    };
    let card = pair.rig.cards[0];
    fail(&pair.rig, card, SocFault::Overflow, SOON_CYCLES, 1);
    exchange(&mut pair, 2);
    make_and_use(&pair.rig);
    assert_eq!(restarts(&pair.rig), [1, 0]);
    let lines = pair.rig.sim.fabric().card_mut(card).take_console();
    let [trap, restarted] = &lines[..] else {
        panic!("{lines:?}");
    };
    let below = format!("value {:08x}", SOC_DATA_BASE - 16);
    assert!(
        trap.starts_with("trap 00000007 ") && trap.ends_with(&below),
        "a store below the memory: {trap}"
    );
    assert_eq!(restarted, WARM);
    pair.check_traffic("after the overflow");
}

/// Wherever firmware is stopped, the command under way is done once, and the objects are what they were.
fn fail_everywhere(seed: u64, delays: impl Iterator<Item = u32>) {
    let Some(mut pair) = pair(seed, WATCHDOG_CYCLES) else {
        return;
    };
    let cards = pair.rig.cards;
    let mut count = 0;
    for (round, cycles) in delays.enumerate() {
        let fault = [SocFault::Trap, SocFault::GiveUp][round % 2];
        let node = round / 2 % 2;
        fail(&pair.rig, cards[node], fault, cycles, 1);
        make_and_use(&pair.rig);
        exchange(&mut pair, 1);
        count += 1;
        // It may be stopped at the very end of this: then it has not said anything yet.
        let mut said = console(&pair.rig, cards[node]);
        while said.is_empty() || restarts(&pair.rig).iter().sum::<u32>() < count {
            pair.rig.run(1000);
            said.extend(console(&pair.rig, cards[node]));
        }
        assert_eq!(said, [WARM], "after {cycles} cycles");
    }
    pair.check_traffic("after all restarts");
    for processor in processors(&pair.rig) {
        assert!(processor.journal_words < SOC_JOURNAL_WORDS, "{processor:?}");
    }
}

#[test]
fn commands_are_done_once_wherever_firmware_is_stopped() {
    fail_everywhere(22, (0..8).map(|round| 900 + 7919 * round));
}

#[test]
#[ignore = "long: make soak"]
fn soak_commands_are_done_once_wherever_firmware_is_stopped() {
    fail_everywhere(23, (0..900).map(|round| 500 + 97 * round));
}

/// Fails again after a warm restart: what it knew is given up. Functions in use are lost, their peers see them gone,
/// and a reset makes them work again.
#[test]
#[ignore = "long: make soak"]
fn soak_a_second_failure_costs_the_functions_and_a_third_the_firmware() {
    let Some(mut pair) = pair(24, PATIENT_WATCHDOG_CYCLES) else {
        return;
    };
    let card = pair.rig.cards[1];
    fail(&pair.rig, card, SocFault::Trap, SOON_CYCLES, 2);
    pair.rig.run(START_CYCLES);
    assert_eq!(restarts(&pair.rig), [0, 2]);
    assert_eq!(console(&pair.rig, card), [WARM, COLD]);
    let lost = pair.rig.nodes[1].create_qp(cap(), false);
    assert!(
        matches!(lost, Err(Error::Driver(DriverError::Fatal))),
        "{:?}",
        lost.err()
    );
    let op = pair.write_to(1, 0);
    let source = [pair.mrs[0].sge(0, BYTES)];
    pair.post(0, 5, op, &source);
    assert_eq!(pair.wait(0).status, WcStatus::RetryExcErr, "nobody is there");
    let Pair {
        mut rig, qps, mrs, ..
    } = pair;
    drop((qps, mrs));
    let [mine, lost] = rig.nodes;
    drop(lost);
    rig.nodes = [mine, Node::open(rig.sim.device(card, 0).unwrap(), 4096).unwrap()];
    make_and_use(&rig);
    // Once more, to the end.
    fail(&rig, card, SocFault::Trap, SOON_CYCLES, 3);
    rig.run(2 * START_CYCLES);
    assert_eq!(restarts(&rig), [0, 5]);
    assert_eq!(console(&rig, card), [WARM, COLD, STOPPED]);
    let status = rig.nodes[1].dev.mmio_read32(reg::FUNC_STATUS);
    assert_eq!(status & reg::FUNC_STATUS_FATAL_MASK, reg::FUNC_STATUS_FATAL_MASK);
    assert_eq!(status & reg::FUNC_STATUS_READY_MASK, 0);
    rig.run(START_CYCLES);
    assert_eq!(restarts(&rig), [0, 5], "nothing restarts it any more");
    // The other card has nothing to do with it.
    assert!(rig.nodes[0].create_qp(cap(), false).is_ok());
}
