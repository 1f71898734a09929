//! Functions take turns (SYS-7): what one asks for does not hold up another, and what is cut off in the midst leaves
//! nothing behind (SYS-20). Measured in bus accesses of the firmware; one takes seven cycles.

mod common;

use common::{Client, Limits};
use hca_abi::{AdminOpcode, AdminStatus, CtxTable, HwEventKind, QpState};
use hca_lone::LoneCard;
use proptest::prelude::*;

/// docs/isolation.md: a NOP is answered within so many bus accesses, whatever the other functions do.
const NOP_ACCESSES_MAX: u64 = 1_500;

/// A NOP of `client` from its doorbell to its completion.
fn nop_accesses(dev: &LoneCard, client: &mut Client) -> u64 {
    let before = dev.with_card(|card| card.accesses);
    let nop = client.post(AdminOpcode::Nop, &[]);
    while client.answer(nop).is_none() {
        assert!(dev.turn(), "no answer, and nothing to do");
    }
    dev.with_card(|card| card.accesses) - before
}

/// The work of the three others while one asks for nothing but NOPs: the longest wait until all are through.
fn longest_wait(dev: &LoneCard, client: &mut Client, others: &[(&Client, u16)]) -> (u64, u32) {
    let (mut longest, mut nops) = (0, 0);
    while others.iter().any(|(other, index)| other.answer(*index).is_none()) {
        longest = longest.max(nop_accesses(dev, client));
        nops += 1;
        assert!(nops < 1_000_000, "it never ends");
    }
    (longest, nops)
}

/// A registration costs the same however long its page list is: that stays where it is (V-130).
#[test]
fn a_registration_does_not_depend_on_its_length() {
    let dev = LoneCard::new();
    let mut client = Client::open(&dev, 0);
    let pd = client.alloc_pd();
    let mut accesses = |pages| {
        let before = dev.with_card(|card| card.accesses);
        client.reg_mr(pd, pages).unwrap();
        dev.with_card(|card| card.accesses) - before
    };
    // Less, if anything: words of the row that stay are not written again.
    let one = accesses(1);
    let longer = [accesses(512), accesses(1 << 28)];
    assert!(longer.iter().all(|n| *n <= one), "{one}, {longer:?}");
    dev.assert_no_violations();
}

/// RESET_FUNC, and the reset by register, of functions that have everything there is.
#[test]
fn a_nop_does_not_wait_for_resets() {
    for by_register in [false, true] {
        let dev = LoneCard::new();
        let mut clients: Vec<Client> = (0..4).map(|func| Client::open(&dev, func)).collect();
        let limits = clients[0].limits();
        for client in &mut clients[1..] {
            client.take_everything(&limits);
        }
        let (first, rest) = clients.split_first_mut().unwrap();
        let mut longest = 0;
        if by_register {
            rest.iter().for_each(Client::request_reset);
            while rest.iter().any(Client::is_resetting) {
                longest = longest.max(nop_accesses(&dev, first));
            }
        } else {
            let asked: Vec<u16> = rest
                .iter_mut()
                .map(|c| c.post(AdminOpcode::ResetFunc, &[]))
                .collect();
            let others: Vec<_> = rest.iter().zip(asked).collect();
            longest = longest_wait(&dev, first, &others).0;
        }
        assert!(longest > 0 && longest <= NOP_ACCESSES_MAX, "{longest} accesses");
        dev.assert_no_violations();
    }
}

/// EVT CQ_ERR: a CQ with every QP of a function on it.
#[test]
fn a_nop_does_not_wait_for_a_failing_cq() {
    let dev = LoneCard::new();
    let (mut one, mut other) = (Client::open(&dev, 0), Client::open(&dev, 1));
    let limits = one.limits();
    let made = other.take_everything(&limits);
    for qpn in &made.qps {
        other.bring_to_rts(*qpn);
    }
    // The turn after this one is the other's: its QPs begin to fail while the next NOP waits.
    nop_accesses(&dev, &mut one);
    dev.with_card(|card| card.raise(HwEventKind::CqError, made.cqs[0], 0));
    let has_failed = |qpn: &u32| dev.with_card(|card| card.qpc(*qpn).state()) == u8::from(QpState::Err);
    let (mut longest, mut nops) = (0, 0);
    while !made.qps.iter().all(has_failed) {
        longest = longest.max(nop_accesses(&dev, &mut one));
        nops += 1;
        assert!(nops < 1_000, "some QPs do not fail");
    }
    assert!(longest <= NOP_ACCESSES_MAX, "{longest} accesses");
    assert!(nops > 1, "all of them failed in one turn");
    dev.assert_no_violations();
}

/// Doorbells and CONTROL without end from one function.
#[test]
fn a_nop_does_not_wait_for_a_flood_of_events() {
    let dev = LoneCard::new();
    let (mut one, mut other) = (Client::open(&dev, 0), Client::open(&dev, 1));
    other.take_everything(&one.limits());
    for round in 0..50 {
        // As many as the hardware queues before it holds the doorbells back.
        for _ in 0..16 {
            other.post(AdminOpcode::QueryDevice, &[]);
            if round % 2 == 1 {
                other.request_reset();
            }
        }
        let waited = nop_accesses(&dev, &mut one);
        assert!(waited <= NOP_ACCESSES_MAX, "{waited} accesses");
    }
}

/// Whoever has all that is his share cannot keep others from theirs; and limits are what QUERY_DEVICE says, exactly.
#[test]
fn every_function_gets_its_limits() {
    let dev = LoneCard::new();
    let mut clients: Vec<Client> = (0..4).map(|func| Client::open(&dev, func)).collect();
    for client in &mut clients {
        let limits = client.limits();
        let Limits {
            qps,
            cqs,
            mrs,
            pds,
            eqs,
        } = limits;
        assert_eq!([qps, cqs, mrs, pds, eqs], [254, 256, 255, 255, 32]);
        client.take_everything(&limits);
        client.nothing_is_left();
    }
    dev.assert_no_violations();
}

/// D15: rows of keys are a function's own memory. Whatever it makes of them, firmware goes on, and its neighbour has
/// what it had.
#[test]
fn forged_rows_of_keys() {
    let dev = LoneCard::new();
    let (mut one, mut other) = (Client::open(&dev, 0), Client::open(&dev, 1));
    let mine = one.make_some();
    let rows = one.rows(&dev);
    let made = other.make_some();
    // Given back more often than it was registered: the domain has users, and is counted down all the same.
    for _ in 0..12 {
        other.destroy(AdminOpcode::DeregMr, made.keys[0]).unwrap();
        other.forge(made.keys[0], |_| ());
    }
    // Domains and functions that are not its own.
    let forgeries: [fn(&mut hca_abi::Mpt); 4] = [
        |row| row.set_pd(0xff_ffff),
        |row| row.set_pd(1),
        |row| row.set_func(0),
        |row| row.set_tag(row.tag() ^ 1),
    ];
    for forge in forgeries {
        other.forge(made.keys[1], forge);
        for opcode in [AdminOpcode::DeregMr, AdminOpcode::QueryMr] {
            let refusal = other.destroy(opcode, made.keys[1]).unwrap_err();
            assert_eq!(refusal, AdminStatus::BadHandle);
        }
    }
    for qpn in &made.qps {
        other.destroy(AdminOpcode::DestroyQp, *qpn).unwrap();
    }
    other.destroy(AdminOpcode::DeregMr, made.keys[2]).unwrap();
    other.destroy(AdminOpcode::DeallocPd, made.pds[0]).unwrap();
    assert!(one.rows(&dev) == rows, "rows of the neighbour have changed");
    one.destroy_all(mine);
    other.call(AdminOpcode::ResetFunc, &[]).unwrap();
    dev.assert_no_violations();
}

/// What a function may be doing when it is reset.
#[derive(Clone, Copy, Debug)]
enum Doing {
    RegMr(u32),
    DeregMr,
    CreateQp,
    DestroyQp,
    ModifyToReset,
    ResizeCq,
    ModifyMr,
    ResetFunc,
    Garbage(u8),
}

fn doing() -> impl Strategy<Value = Doing> {
    prop_oneof![
        (1u32..2_000).prop_map(Doing::RegMr),
        Just(Doing::DeregMr),
        Just(Doing::CreateQp),
        Just(Doing::DestroyQp),
        Just(Doing::ModifyToReset),
        Just(Doing::ResizeCq),
        Just(Doing::ModifyMr),
        Just(Doing::ResetFunc),
        any::<u8>().prop_map(Doing::Garbage),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, ..ProptestConfig::default() })]
    /// A function that is reset or disabled, or whose rings are gone, in the midst of anything: it has nothing then,
    /// everything can be had again, no row of the hardware is left valid, and its neighbour's are untouched.
    #[test]
    fn nothing_is_left_of_a_function_that_is_reset(
        commands in prop::collection::vec((doing(), 0usize..40), 1..8),
        disable in any::<bool>(),
        turns in 0usize..60,
    ) {
        let dev = LoneCard::new();
        let (mut one, mut other) = (Client::open(&dev, 0), Client::open(&dev, 1));
        let mine = one.make_some();
        let rows = one.rows(&dev);
        let made = other.make_some();
        for (what, turns) in commands {
            match what {
                Doing::RegMr(pages) => other.post_reg_mr(made.pds[0], pages),
                Doing::DeregMr => other.post_handle(AdminOpcode::DeregMr, made.keys[0]),
                Doing::CreateQp => other.post_create_qp(&made),
                Doing::DestroyQp => other.post_handle(AdminOpcode::DestroyQp, made.qps[0]),
                Doing::ModifyToReset => other.post_modify_to_reset(made.qps[1]),
                Doing::ResizeCq => other.post_resize_cq(made.cqs[0]),
                Doing::ModifyMr => other.post_modify_mr(made.keys[1], made.pds[0]),
                Doing::ResetFunc => other.post(AdminOpcode::ResetFunc, &[]),
                Doing::Garbage(opcode) => other.post_raw(opcode, &[1; 248]),
            };
            (0..turns).for_each(|_| _ = dev.turn());
        }
        if disable {
            other.disable();
        } else {
            other.request_reset();
        }
        // Somebody else works meanwhile.
        let nop = one.post(AdminOpcode::Nop, &[]);
        (0..turns).for_each(|_| _ = dev.turn());
        dev.settle();
        prop_assert_eq!(one.answer(nop).unwrap().status(), u8::from(AdminStatus::Ok));
        prop_assert!(!other.is_resetting());
        for table in [CtxTable::KeyTable, CtxTable::Cqc, CtxTable::Eqc, CtxTable::Qpc] {
            prop_assert_eq!(other.valid_rows(&dev, table), 0, "{:?}", table);
        }
        prop_assert!(one.rows(&dev) == rows, "rows of the neighbour have changed");
        let mut again = Client::open(&dev, 1);
        let limits = again.limits();
        again.take_everything(&limits);
        again.nothing_is_left();
        one.destroy_all(mine);
        dev.assert_no_violations();
    }
}
