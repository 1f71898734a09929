//! Starts of the firmware that are not its first one, on a card that goes on meanwhile.

mod common;

use std::rc::Rc;

use common::Client;
use hca_abi::{
    AdminOpcode, CC_RATE_MIN, CcAlgorithm, CtxTable, LINK_ROW_CONGESTION, LINK_ROW_CTRL, LINK_ROW_DSCP,
    LINK_ROW_SL2VL, LINK_ROWS, LinkCongestion, LinkSl2vl, LinkVlArb, SetLinkCmd, link_attr,
};
use hca_dev::Device;
use hca_driver::{Function, OpenOptions};
use hca_fw_core::{Firmware, NUM_FUNCS};
use hca_lone::{Hardware, LoneCard};
use hca_regs as reg;

/// New firmware on the card as it is, which knows nothing of what the one before has made.
fn start_cold(dev: &LoneCard) {
    dev.restart(|firmware, card| {
        *firmware = Firmware::boxed();
        firmware.init_again(card, &[LoneCard::identity()]);
    });
}

/// Rows of the port's link, as far as they mean something, without the one that says its state.
fn link_rows(dev: &LoneCard) -> Vec<(u32, Vec<u8>)> {
    let bytes_of = |row| match row {
        LINK_ROW_CONGESTION => LinkCongestion::BYTES,
        LINK_ROW_SL2VL => LinkSl2vl::BYTES,
        _ => LinkVlArb::BYTES,
    };
    let rows = (0..LINK_ROWS).filter(|row| *row != LINK_ROW_CTRL);
    let read = |card: &mut Hardware| {
        rows.map(|row| (row, card.row(CtxTable::Link, row)[..bytes_of(row)].to_vec()))
            .collect()
    };
    dev.with_card(read)
}

/// Rows that differ.
fn changed(before: &[(u32, Vec<u8>)], after: &[(u32, Vec<u8>)]) -> Vec<u32> {
    let pairs = before.iter().zip(after);
    pairs.filter(|(a, b)| a != b).map(|((row, _), _)| *row).collect()
}

fn set_dscp_and_congestion(dev: &LoneCard) {
    let mut function = Function::open(Rc::new(dev.function(0)), &OpenOptions::simulated()).unwrap();
    let mut cmd = SetLinkCmd::new();
    cmd.set_port_num(1);
    cmd.set_attr_mask(link_attr::DSCP);
    cmd.set_dscp_mask(1 << 5);
    cmd.set_dscp([7; 64]);
    function.set_link(&cmd).unwrap();
    let mut congestion = LinkCongestion::new();
    congestion.set_enable(true);
    congestion.set_algorithm(CcAlgorithm::Delay.into());
    congestion.set_alpha_period(1);
    congestion.set_rate_period(1);
    congestion.set_rate_bytes(1);
    congestion.set_min_rate(CC_RATE_MIN as u16);
    congestion.set_delay_scale(20);
    function.set_congestion(1, &congestion).unwrap();
}

fn status(dev: &LoneCard, func: u8) -> (bool, bool) {
    let status = dev.function(func).mmio_read32(reg::FUNC_STATUS);
    let has = |mask| reg::field(status, mask) != 0;
    (has(reg::FUNC_STATUS_READY_MASK), has(reg::FUNC_STATUS_FATAL_MASK))
}

/// Decision 0051: what was made is there, and nothing of the card changes.
#[test]
fn a_warm_restart_goes_on() {
    let dev = LoneCard::new();
    let mut client = Client::open(&dev, 1);
    let made = client.make_some();
    let (rows, links) = (client.rows(&dev), link_rows(&dev));
    dev.restart(|firmware, card| firmware.resume(card));
    assert_eq!((client.rows(&dev), link_rows(&dev)), (rows, links));
    assert_eq!(status(&dev, 1), (true, false));
    // Whatever the card's registers hold by then, what is made next is whole.
    let more = client.make_some();
    client.destroy_all(more);
    client.destroy_all(made);
    dev.assert_no_violations();
}

/// Decision 0051: rows are taken back, links are as after a reset, who was there has to reset its function and can.
/// A second cold restart finds the same.
#[test]
fn a_cold_restart_takes_back_what_was_given() {
    let dev = LoneCard::new();
    let at_first = link_rows(&dev);
    for round in 1..=2 {
        set_dscp_and_congestion(&dev);
        let set = [LINK_ROW_CONGESTION, LINK_ROW_DSCP];
        assert_eq!(changed(&at_first, &link_rows(&dev)), set, "round {round}");
        let mut client = Client::open(&dev, 1);
        client.make_some();
        start_cold(&dev);
        assert_eq!(changed(&at_first, &link_rows(&dev)), [], "round {round}");
        for table in [CtxTable::Qpc, CtxTable::Srqc, CtxTable::Cqc, CtxTable::Eqc] {
            assert_eq!(client.valid_rows(&dev, table), 0, "round {round}: {table:?}");
        }
        assert_eq!(status(&dev, 1), (false, true), "round {round}: in use before");
        assert_eq!(status(&dev, 2), (true, false), "round {round}: not in use");
        let mut client = Client::open(&dev, 1);
        assert_eq!(status(&dev, 1), (true, false), "round {round}: after its reset");
        let made = client.make_some();
        client.destroy_all(made);
    }
    dev.assert_no_violations();
}

/// Decision 0051: after the last failure every function is told, and no command is taken.
#[test]
fn firmware_that_gives_up_says_so() {
    let dev = LoneCard::new();
    let mut client = Client::open(&dev, 1);
    let rows = client.rows(&dev);
    dev.restart(|_, card| Firmware::give_up(card));
    for func in 0..NUM_FUNCS as u8 {
        assert_eq!(status(&dev, func), (false, true), "function {func}");
    }
    assert_eq!(client.rows(&dev), rows, "the data path goes on");
    dev.set_firmware_hangs(true);
    let index = client.post(AdminOpcode::Nop, &[]);
    dev.settle();
    assert_eq!(client.answer(index), None);
    dev.assert_no_violations();
}
