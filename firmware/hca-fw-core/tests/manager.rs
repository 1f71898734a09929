//! What any function may do to a port, and what function 0 alone may (SYS-7, KEY-3, KEY-11): every command.

use std::rc::Rc;

use hca_abi::{AdminOpcode, AdminStatus, CtxTable, LINK_ROWS};
use hca_driver::{AdminError, DriverError, Function, OpenOptions};
use hca_lone::LoneCard;

type Opened = Function<Rc<LoneCard>>;

fn open(dev: &LoneCard, func: u8) -> Opened {
    Function::open(Rc::new(dev.function(func)), &OpenOptions::simulated()).unwrap()
}

/// Bodies that a command takes for good: port 1, attributes of every kind.
fn bodies() -> Vec<[u8; 248]> {
    let mut all = vec![[0; 248]];
    for fill in [1, 2, 5, 0xff] {
        let mut body = [fill; 248];
        body[0] = 1;
        all.push(body);
        // attr_mask of one bit.
        for bit in 0..8 {
            let mut body = [0; 248];
            body[0] = 1;
            body[4] = 1 << bit;
            body[8..].fill(fill);
            all.push(body);
        }
    }
    all
}

fn ports(dev: &LoneCard, manager: &mut Opened) -> impl PartialEq + std::fmt::Debug + use<> {
    let rows = dev.with_card(|card| {
        (0..LINK_ROWS)
            .map(|row| card.row(CtxTable::Link, row))
            .collect::<Vec<_>>()
    });
    let gids: Vec<_> = (0..16)
        .map(|index| manager.query_gid(1, index).unwrap())
        .collect();
    let pkeys: Vec<_> = (0..32)
        .map(|index| manager.query_pkey(1, index).unwrap())
        .collect();
    (
        rows,
        gids,
        pkeys,
        manager.query_port(1).unwrap(),
        manager.query_link(1).unwrap(),
    )
}

#[test]
fn only_function_0_changes_a_port() {
    let dev = LoneCard::new();
    let mut manager = open(&dev, 0);
    let before = ports(&dev, &mut manager);
    for func in 1..4 {
        let mut other = open(&dev, func);
        for opcode in AdminOpcode::ALL {
            for body in bodies() {
                let status = other.issue_raw((*opcode).into(), &body).unwrap().status();
                let refused = status == u8::from(AdminStatus::NotPermitted);
                assert_eq!(refused, opcode.is_for_manager(), "function {func}, {opcode:?}");
            }
        }
        assert_eq!(ports(&dev, &mut manager), before, "after function {func}");
    }
    dev.assert_no_violations();
}

/// The list of what is refused is not empty, and the manager's commands do reach the port. Rules need a QP, which no
/// body here names: `driver/hca-capi/tests/flows.rs` makes some. Images need a board with a flash, which this one has
/// not: `tests/system/tests/soft_core/update.rs`. Context memory is for QPs that share lines, which these do not:
/// `tests/system/tests/cache.rs`.
#[test]
fn function_0_does() {
    let dev = LoneCard::new();
    let mut manager = open(&dev, 0);
    let of_qps = [
        AdminOpcode::CreateRule,
        AdminOpcode::DestroyRule,
        AdminOpcode::QueryRule,
        AdminOpcode::CreateRss,
        AdminOpcode::DestroyRss,
    ];
    let of_flash = [AdminOpcode::WriteFirmware, AdminOpcode::ActivateFirmware];
    let of_lines = [AdminOpcode::SetContextMemory];
    let others = [&of_qps[..], &of_flash, &of_lines].concat();
    let of_ports = |opcode: &&AdminOpcode| opcode.is_for_manager() && !others.contains(opcode);
    for opcode in AdminOpcode::ALL.iter().filter(of_ports) {
        let taken = bodies().iter().any(|body| {
            let status = manager.issue_raw((*opcode).into(), body).unwrap().status();
            assert_ne!(status, u8::from(AdminStatus::NotPermitted), "{opcode:?}");
            status == u8::from(AdminStatus::Ok)
        });
        assert!(taken, "{opcode:?}: no body was taken");
    }
}

/// The driver says who may instead, with EPERM.
#[test]
fn the_refusal_names_its_remedy() {
    let dev = LoneCard::new();
    let error = open(&dev, 2).set_sl2vl(1, &[0; 16]).unwrap_err();
    assert_eq!(error.errno(), 1);
    for word in ["function 2", "function 0", "SetSl2vl"] {
        assert!(error.to_string().contains(word), "{word}: {error}");
    }
    assert!(matches!(error, DriverError::Admin(AdminError { detail: 2, .. })));
}
