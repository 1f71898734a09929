//! Opening functions of good, absent, hanging and vanishing cards; the admin queue at its limits.

use std::rc::Rc;

use hca_abi::{AdminOpcode, AdminStatus};
use hca_driver::{DriverError, Function, OpenOptions};
use hca_lone::LoneCard;

fn open(dev: &Rc<LoneCard>) -> Result<Function<Rc<LoneCard>>, DriverError> {
    Function::open(
        dev.clone(),
        &OpenOptions {
            admin_log_size: 2,
            ..OpenOptions::simulated()
        },
    )
}

#[test]
fn the_admin_ring_wraps() {
    let dev = Rc::new(LoneCard::new());
    let mut function = open(&dev).unwrap();
    for _ in 0..70_000 {
        function.nop().unwrap();
    }
    assert!(function.time_cycles() < function.time_cycles());
    dev.assert_no_violations();
}

#[test]
fn a_card_that_does_not_answer_is_given_up() {
    let dev = Rc::new(LoneCard::new());
    let mut function = open(&dev).unwrap();
    dev.set_firmware_hangs(true);
    let error = function.nop().unwrap_err();
    assert!(
        matches!(
            error,
            DriverError::Timeout {
                waited_ns: 20_000_000..,
                ..
            }
        ),
        "{error}"
    );
    assert!(error.to_string().contains("admin command"), "{error}");
    assert_eq!(error.errno(), 110);
    // What comes later is absorbed.
    dev.set_firmware_hangs(false);
    function.nop().unwrap();
    drop(function);
    assert!(open(&dev).unwrap().nop().is_ok());
    assert_eq!(dev.with_card(|card| card.host.mapped()), 0);
}

/// What a command has made after its time limit, nobody knows of: it is destroyed, and can be had again.
#[test]
fn late_answers_leave_nothing_behind() {
    let dev = Rc::new(LoneCard::new());
    let mut function = open(&dev).unwrap();
    let max_pd = function.query_device().unwrap().max_pd();
    for round in 1..5 {
        dev.set_firmware_hangs(true);
        for _ in 0..round % 4 {
            assert_eq!(function.alloc_pd().unwrap_err().errno(), 110, "round {round}");
        }
        dev.set_firmware_hangs(false);
        let pds: Vec<u32> = (0..max_pd).map(|_| function.alloc_pd().unwrap()).collect();
        assert_eq!(function.alloc_pd().unwrap_err().errno(), 12, "round {round}");
        pds.iter().for_each(|pd| function.dealloc_pd(*pd).unwrap());
    }
    dev.assert_no_violations();
}

/// As many commands without an answer as the ring has entries: one more is refused, until the card answers.
#[test]
fn a_ring_full_of_late_commands_says_so() {
    let dev = Rc::new(LoneCard::new());
    let mut function = open(&dev).unwrap();
    dev.set_firmware_hangs(true);
    for _ in 0..4 {
        assert!(matches!(function.nop(), Err(DriverError::Timeout { .. })));
    }
    let error = function.nop().unwrap_err();
    assert!(
        matches!(error, DriverError::AdminQueueFull { entries: 4 }),
        "{error}"
    );
    assert_eq!(error.errno(), 110);
    for word in ["4 admin commands", "open it again"] {
        assert!(error.to_string().contains(word), "{word}: {error}");
    }
    dev.set_firmware_hangs(false);
    dev.settle();
    function.nop().unwrap();
    dev.assert_no_violations();
}

#[test]
fn a_reset_that_hangs_names_itself() {
    let dev = Rc::new(LoneCard::new());
    dev.set_firmware_hangs(true);
    let error = open(&dev).unwrap_err();
    assert!(error.to_string().contains("function reset"), "{error}");
    assert_eq!(dev.with_card(|card| card.host.mapped()), 0);
}

#[test]
fn a_card_that_vanishes_is_noticed() {
    let dev = Rc::new(LoneCard::new());
    let mut function = open(&dev).unwrap();
    dev.set_gone();
    assert!(matches!(function.nop(), Err(DriverError::Gone)));
    drop(function);
    assert!(matches!(
        open(&dev),
        Err(DriverError::NotOurs { id: u32::MAX, .. })
    ));
}

/// Bytes of any kind get an answer, and never harm what is there: as many commands as `HCA_COMMAND_CASES` says.
#[test]
fn garbage_commands() {
    use proptest::prelude::*;
    use proptest::test_runner::{Config, TestRunner};
    let dev = Rc::new(LoneCard::new());
    let mut function = open(&dev).unwrap();
    let pd = function.alloc_pd().unwrap();
    let reset = u8::from(AdminOpcode::ResetFunc);
    let small = prop_oneof![Just(0u8), Just(1), Just(0xff), any::<u8>()];
    let command = (0u8..80, prop::collection::vec(small, 248));
    let asked = std::env::var("HCA_COMMAND_CASES").ok();
    let mut runner = TestRunner::new(Config {
        cases: asked.map_or(5000, |text| text.parse().expect("HCA_COMMAND_CASES is a number")),
        ..Config::default()
    });
    let function_cell = std::cell::RefCell::new(&mut function);
    runner
        .run(
            &command.prop_filter("not the reset", move |(opcode, _)| *opcode != reset),
            |(opcode, body)| {
                let cpl = function_cell.borrow_mut().issue_raw(opcode, &body).unwrap();
                let status = AdminStatus::try_from(cpl.status()).unwrap();
                prop_assert_ne!(status, AdminStatus::Internal);
                prop_assert_eq!(
                    status == AdminStatus::BadOpcode,
                    AdminOpcode::try_from(opcode).is_err()
                );
                Ok(())
            },
        )
        .unwrap();
    dev.assert_no_violations();
    function.reset_func().unwrap();
    let error = function.dealloc_pd(pd).unwrap_err();
    assert_eq!(error.errno(), 2);
    assert!(matches!(error, DriverError::Admin(e) if e.opcode == AdminOpcode::DeallocPd && e.detail == pd));
}
