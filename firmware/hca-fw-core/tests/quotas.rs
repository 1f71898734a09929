//! D15: what each function may take of the card, with as many functions as it has, and with shares that differ.

mod common;

use std::sync::Arc;

use common::Client;
use hca_abi::{AdminOpcode, AdminStatus, DM_BYTES, DM_PAGE_BYTES, QueryDeviceResult};
use hca_driver::{Function, OpenOptions};
use hca_fw_core::{NUM_CQS, NUM_EQS, NUM_FUNCS, NUM_PDS, NUM_QPS, NUM_SRQS, Quotas};
use hca_lone::LoneCard;

/// docs/isolation.md: a NOP is answered within so many bus accesses with all functions at work.
const NOP_ACCESSES_MAX: u64 = 1_500;

fn card_of(quotas: Quotas) -> LoneCard {
    LoneCard::of_quotas(LoneCard::identity(), quotas, |_| ())
}

/// One function takes all it can of everything before the others come: they have all that they were told.
#[test]
fn a_greedy_function_takes_nothing_that_others_have() {
    let quotas = Quotas::from(NUM_FUNCS as u8);
    for greedy in [0, NUM_FUNCS / 2 - 1, NUM_FUNCS - 1] {
        let dev = card_of(quotas);
        let mut clients: Vec<Client> = (0..NUM_FUNCS as u8)
            .map(|func| Client::open_of(&dev, func, quotas))
            .collect();
        let limits = clients[greedy].limits();
        let parts = NUM_FUNCS as u32;
        assert_eq!(
            [limits.qps, limits.cqs, limits.pds, limits.eqs],
            [
                NUM_QPS as u32 / parts - 2,
                NUM_CQS as u32 / parts,
                NUM_PDS as u32 / parts - 1,
                NUM_EQS as u32 / parts
            ]
        );
        clients[greedy].take_everything(&limits);
        clients[greedy].nothing_is_left();
        for client in &mut clients {
            if client.func() != greedy as u8 {
                let limits = client.limits();
                client.take_everything(&limits);
            }
            client.nothing_is_left();
        }
        // What one of them gives back is its own again, and nobody else's.
        assert_eq!(clients[1].call(AdminOpcode::ResetFunc, &[]).map(|_| ()), Ok(()));
        clients[greedy].nothing_is_left();
        let mut again = Client::open_of(&dev, 1, quotas);
        again.take_everything(&limits);
        again.nothing_is_left();
        dev.assert_no_violations();
    }
}

/// Shares that differ: each function is told what it has, and gets it; a function without any gets nothing.
#[test]
fn shares_may_differ() {
    let quotas = Quotas::of_parts(&[9, 4, 2, 1]).unwrap();
    let dev = card_of(quotas);
    let mut clients: Vec<Client> = (0..4).map(|func| Client::open_of(&dev, func, quotas)).collect();
    for (parts, client) in [9, 4, 2, 1].into_iter().zip(&mut clients).rev() {
        let limits = client.limits();
        assert_eq!(
            [limits.qps, limits.cqs, limits.eqs],
            [64 * parts - 2, 64 * parts, 8 * parts]
        );
        client.take_everything(&limits);
        client.nothing_is_left();
    }
    let mut nobody = Client::open_of(&dev, 4, quotas);
    let told = QueryDeviceResult(nobody.call(AdminOpcode::QueryDevice, &[]).unwrap().body());
    assert_eq!(
        [
            told.max_qp(),
            told.max_cq(),
            told.max_srq(),
            told.max_pd(),
            told.max_eq()
        ],
        [0; 5]
    );
    assert_eq!((told.max_dm_size(), told.max_mcast_grp()), (0, 0));
    assert_eq!(nobody.create_eq(), Err(AdminStatus::NoResources));
    let none = nobody.call(AdminOpcode::AllocPd, &[]).map(|_| ());
    assert_eq!(none, Err(AdminStatus::NoResources));
    dev.assert_no_violations();
}

/// MEM-19, D15: device memory, SRQs and XRC domains are divided as well, and their limits are told.
#[test]
fn what_is_small_is_divided_too() {
    let quotas = Quotas::from(NUM_FUNCS as u8);
    let dev = card_of(quotas);
    let parts = NUM_FUNCS as u32;
    let mut pages = Vec::new();
    for func in [0, 1, NUM_FUNCS as u8 / 2 - 1, NUM_FUNCS as u8 - 1] {
        let mut function = Function::open(Arc::new(dev.function(func)), &OpenOptions::default()).unwrap();
        let told = function.query_device().unwrap();
        assert_eq!(told.max_dm_size(), u64::from(DM_BYTES / parts));
        assert_eq!(told.max_srq(), NUM_SRQS as u32 / parts);
        for _ in 0..DM_BYTES / parts / DM_PAGE_BYTES {
            pages.push(function.alloc_dm(DM_PAGE_BYTES).unwrap());
        }
        assert!(function.alloc_dm(1).is_err());
        let domains = (0..256 / parts).filter(|_| function.alloc_xrcd().is_ok()).count();
        assert_eq!(domains as u32, 256 / parts);
        assert!(function.alloc_xrcd().is_err());
        // It keeps what it has until the test ends.
        std::mem::forget(function);
    }
    pages.sort_unstable();
    pages.dedup();
    assert_eq!(
        pages.len() as u32,
        4 * (DM_BYTES / parts / DM_PAGE_BYTES),
        "no page has two owners"
    );
    dev.assert_no_violations();
}

/// SYS-7: functions that register regions and are reset, all of them, hold up one for their turns, no longer.
#[test]
fn a_nop_waits_for_a_turn_of_each_function() {
    let quotas = Quotas::from(NUM_FUNCS as u8);
    let mut longest = [0; 2];
    for (resets, longest) in [false, true].into_iter().zip(&mut longest) {
        let dev = card_of(quotas);
        let mut clients: Vec<Client> = (0..NUM_FUNCS as u8)
            .map(|func| Client::open_of(&dev, func, quotas))
            .collect();
        let (first, rest) = clients.split_first_mut().unwrap();
        let asked: Vec<u16> = rest
            .iter_mut()
            .map(|client| {
                if resets {
                    let limits = client.limits();
                    client.take_everything(&limits);
                    return client.post(AdminOpcode::ResetFunc, &[]);
                }
                let pd = client.alloc_pd();
                (0..20).map(|_| client.post_reg_mr(pd, 512)).last().unwrap()
            })
            .collect();
        let is_over = |rest: &[Client]| {
            rest.iter()
                .zip(&asked)
                .all(|(client, index)| client.answer(*index).is_some())
        };
        while !is_over(rest) {
            let nop = first.post(AdminOpcode::Nop, &[]);
            let before = dev.with_card(|card| card.accesses);
            while first.answer(nop).is_none() {
                assert!(dev.turn(), "no answer, and nothing to do");
            }
            *longest = dev.with_card(|card| card.accesses - before).max(*longest);
        }
        dev.assert_no_violations();
    }
    println!("a NOP among {NUM_FUNCS} functions: {longest:?} accesses with registrations, resets");
    assert!(
        longest.iter().all(|longest| *longest <= NOP_ACCESSES_MAX),
        "{longest:?} accesses"
    );
}
