//! What is answered from memory, and when the card is asked again. Cost is counted in admin commands.

mod common;

use common::{Bench, Dev};
use hca_abi::{SetGidCmd, SetPkeyCmd};
use hca_verbs::*;

const GID: Gid = [0x20; 16];

/// Admin commands that `f` costs.
fn cost<T>(bench: &Bench, f: impl FnOnce(&Context<Dev>) -> T) -> (T, u16) {
    let count = || bench.dev.with_card(|card| card.admin_commands());
    let before = count();
    let result = f(&bench.context);
    (result, count().wrapping_sub(before))
}

/// As another function of the card does it: the context does not know.
fn set_gid_elsewhere(bench: &Bench, index: u16, gid: Gid) {
    let mut cmd = SetGidCmd::new();
    cmd.set_port_num(1);
    cmd.set_index(index);
    cmd.set_gid(gid);
    bench.context.function().set_gid(&cmd).unwrap();
}

/// V-30, V-40, V-41: what does not change is asked for once.
#[test]
fn a_second_look_costs_nothing() {
    let bench = Bench::new(64);
    let look = |context: &Context<Dev>| {
        let tables = context.port_tables(1).unwrap();
        let gids: Vec<_> = (0..tables.gid_tbl_len)
            .map(|index| context.query_gid(1, index as u16).unwrap())
            .collect();
        let pkeys: Vec<_> = (0..tables.pkey_tbl_len)
            .map(|index| context.query_pkey(1, index).unwrap())
            .collect();
        (context.query_device().unwrap(), tables, gids, pkeys)
    };
    let (first, commands) = cost(&bench, look);
    // The device was asked about when the CQ was made.
    assert_eq!(commands, 1 + 16 + 32);
    let (second, commands) = cost(&bench, look);
    assert_eq!((second, commands), (first, 0));
    // V-35: state and counters change without an event.
    assert_eq!(cost(&bench, |context| context.query_port(1).unwrap()).1, 1);
}

/// An entry that is not there is refused each time, and not kept.
#[test]
fn refusals_are_not_kept() {
    let bench = Bench::new(64);
    for _ in 0..2 {
        assert_eq!(
            cost(&bench, |context| context.query_gid(1, 16).unwrap_err().errno()),
            (22, 1)
        );
        assert_eq!(
            cost(&bench, |context| context.query_pkey(2, 0).unwrap_err().errno()),
            (22, 1)
        );
        assert_eq!(
            cost(&bench, |context| context.port_tables(9).unwrap_err().errno()),
            (22, 1)
        );
    }
}

#[test]
fn an_own_change_is_seen_at_once() {
    let bench = Bench::new(64);
    let context = &bench.context;
    assert_eq!(
        (
            context.query_gid(1, 5).unwrap(),
            context.query_pkey(1, 5).unwrap()
        ),
        ([0; 16], 0)
    );
    context.set_gid(1, 5, GID).unwrap();
    assert_eq!(context.query_gid(1, 5).unwrap(), GID);
    context.set_pkey(1, 5, 0x8123).unwrap();
    assert_eq!(context.query_pkey(1, 5).unwrap(), 0x8123);
    for link_layer in [LinkLayer::Infiniband, LinkLayer::Ethernet] {
        context.set_link_layer(1, link_layer).unwrap();
        assert_eq!(context.port_tables(1).unwrap().link_layer, link_layer);
    }
}

/// ADDR-7, EVT GID_CHANGE, PKEY_CHANGE: a change by somebody else is seen as soon as its event is there, which is
/// before that one's command completes; the event itself is still told, and what has not changed again costs nothing.
#[test]
fn a_change_by_others_is_seen_with_its_event() {
    let bench = Bench::new(64);
    let context = &bench.context;
    for kept in [false, true] {
        if kept {
            context.leave_events_to_thread();
        }
        let gid = [u8::from(kept) + 1; 16];
        let pkey = 0x8100 + u16::from(kept);
        assert_ne!(
            (
                context.query_gid(1, 7).unwrap(),
                context.query_pkey(1, 7).unwrap()
            ),
            (gid, pkey)
        );
        set_gid_elsewhere(&bench, 7, gid);
        assert_eq!(cost(&bench, |context| context.query_gid(1, 7).unwrap()), (gid, 1));
        assert_eq!(cost(&bench, |context| context.query_gid(1, 7).unwrap()), (gid, 0));
        assert_eq!(context.poll_async_event().unwrap().kind, EventKind::GidChange);

        let mut cmd = SetPkeyCmd::new();
        cmd.set_port_num(1);
        cmd.set_index(7);
        cmd.set_pkey(pkey);
        bench.context.function().set_pkey(&cmd).unwrap();
        assert_eq!(
            cost(&bench, |context| context.query_pkey(1, 7).unwrap()),
            (pkey, 1)
        );
        assert_eq!(context.poll_async_event().unwrap().kind, EventKind::PkeyChange);
    }
}

/// The bytes of the GIDs stay, and are of another type.
#[test]
fn a_new_link_layer_is_a_change_of_the_gids() {
    let bench = Bench::new(64);
    let context = &bench.context;
    assert_eq!(context.port_tables(1).unwrap().link_layer, LinkLayer::Ethernet);
    let mut cmd = ModifyPortCmd::new();
    cmd.set_port_num(1);
    cmd.set_link_layer(LinkLayer::Infiniband.into());
    cmd.set_attr_mask(port_attr::LINK_LAYER);
    for wanted in [Some(EventKind::GidChange), None] {
        context.function().modify_port(&cmd).unwrap();
        assert_eq!(context.port_tables(1).unwrap().link_layer, LinkLayer::Infiniband);
        let mut events = std::iter::from_fn(|| context.poll_async_event());
        assert_eq!(
            events
                .find(|event| event.kind == EventKind::GidChange)
                .map(|event| event.kind),
            wanted
        );
    }
}
