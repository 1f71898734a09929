//! SET_CONGESTION and QUERY_CONGESTION: what the hardware gets, and what is refused without a trace.

use std::rc::Rc;

use hca_abi::{AdminStatus, CcAlgorithm, CtxTable, LINK_ROW_CONGESTION, LinkCongestion};
use hca_driver::{AdminError, DriverError, Function, OpenOptions};
use hca_fw_core::Identity;
use hca_lone::LoneCard;

fn open(infiniband: bool) -> (Rc<LoneCard>, Function<Rc<LoneCard>>) {
    let identity = Identity {
        infiniband,
        ..LoneCard::identity()
    };
    let dev = Rc::new(LoneCard::with(identity, |_| {}));
    let function = Function::open(dev.clone(), &OpenOptions::simulated()).unwrap();
    (dev, function)
}

#[track_caller]
fn refusal<T: std::fmt::Debug>(result: Result<T, DriverError>) -> (AdminStatus, u32) {
    match result {
        Err(DriverError::Admin(AdminError { status, detail, .. })) => (status, detail),
        other => panic!("expected a refusal, got {other:?}"),
    }
}

fn good() -> LinkCongestion {
    let mut row = LinkCongestion::new();
    row.set_enable(true);
    row.set_algorithm(CcAlgorithm::Delay.into());
    row.set_alpha_period(1);
    row.set_rate_period(1);
    row.set_rate_bytes(1);
    row.set_min_rate(64);
    row.set_delay_scale(20);
    row
}

fn written(dev: &LoneCard) -> Vec<u8> {
    dev.with_card(|card| card.row(CtxTable::Link, LINK_ROW_CONGESTION)[..LinkCongestion::BYTES].to_vec())
}

#[test]
fn the_row_reaches_the_hardware_and_comes_back() {
    let (dev, mut function) = open(false);
    assert_eq!(function.query_congestion(1).unwrap(), LinkCongestion::new());
    function.set_congestion(1, &good()).unwrap();
    assert_eq!(written(&dev), good().as_bytes());
    assert_eq!(function.query_congestion(1).unwrap(), good());
    function.set_congestion(1, &LinkCongestion::new()).unwrap();
    assert_eq!(written(&dev), LinkCongestion::new().as_bytes());
    dev.assert_no_violations();
}

#[test]
fn what_no_algorithm_can_live_with_is_refused() {
    let (dev, mut function) = open(false);
    function.set_congestion(1, &good()).unwrap();
    type Spoil = fn(&mut LinkCongestion);
    let wrong: [(u32, Spoil); 6] = [
        (0, |row| row.set_algorithm(2)),
        (4, |row| row.set_alpha_period(0)),
        (6, |row| row.set_rate_period(0)),
        (8, |row| row.set_rate_bytes(0)),
        (14, |row| row.set_min_rate(63)),
        (23, |row| row.set_delay_scale(21)),
    ];
    for (byte, spoil) in wrong {
        let mut row = good();
        spoil(&mut row);
        assert_eq!(
            refusal(function.set_congestion(1, &row)),
            (AdminStatus::BadParam, byte)
        );
    }
    for port in [0, 2, 255] {
        let at = u32::from(port);
        assert_eq!(
            refusal(function.set_congestion(port, &good())),
            (AdminStatus::BadParam, at)
        );
        assert_eq!(
            refusal(function.query_congestion(port)),
            (AdminStatus::BadParam, at)
        );
    }
    assert_eq!(written(&dev), good().as_bytes());
    assert_eq!(function.query_congestion(1).unwrap(), good());
}

/// What it says, only RoCEv2 has a place for.
#[test]
fn an_infiniband_port_has_none() {
    let (_, mut function) = open(true);
    assert_eq!(
        refusal(function.set_congestion(1, &good())),
        (AdminStatus::Unsupported, 1)
    );
    function.set_congestion(1, &LinkCongestion::new()).unwrap();
}
