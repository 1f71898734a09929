//! What a card is built with (decision 0081): QUERY_DEVICE says it, what needs more is refused, by firmware, by the
//! send queue and towards the peer, and all else goes on. The same tests for every build (`HCA_VSIM_FEATURES`).

mod common;

use common::forge::{self, Forged};
use common::{BOTH_LINKS, CANARY_BYTES, LOCAL_AND_REMOTE, Pair};
use hca_abi::{AtomicCap, VL_ARB_ENTRIES, VL_ARB_ENTRIES_LEAST, device_cap, feature};
use hca_cosim::FEATURES;
use hca_link::LinkKind;
use hca_system_tests::{RigConfig, path};
use hca_verbs::{
    Access, Congestion, Error, LinkConfig, LinkPolicy, Mtu, MwType, QpOptions, QpState, SendFlags, SendOp,
    Service, VlArbTable, VlWeight, WcStatus, WrData,
};
use hca_wire::{ExtHeaders, Opcode, atomic_eth, feth, ieth, reth};

const RIGHTS: Access =
    Access::from_bits(LOCAL_AND_REMOTE.bits() | Access::REMOTE_ATOMIC.bits() | Access::FLUSH_GLOBAL.bits());
const REGION_BYTES: u64 = 64 << 10;
/// A multiple of 8 in memory, though the region is none.
const WORD: u64 = (32 << 10) + 8 - CANARY_BYTES % 8;

fn has(bits: u16) -> bool {
    FEATURES & bits == bits
}

fn pair(seed: u64, kind: LinkKind) -> Pair {
    Pair::new(
        &RigConfig::new(seed, kind),
        &path(Mtu::Bytes1024),
        REGION_BYTES,
        [RIGHTS; 2],
    )
}

#[test]
fn the_card_says_what_it_is_built_with() {
    let pair = pair(1, LinkKind::Ethernet);
    let told = pair.rig.nodes[0].context.query_device().unwrap();
    let flags = [
        (
            feature::RAW,
            device_cap::RAW_IP_CSUM | device_cap::MANAGED_FLOW_STEERING,
        ),
        (feature::SRQ, device_cap::XRC),
        (
            feature::KEY_WR,
            device_cap::MEM_WINDOW | device_cap::MEM_MGT_EXTENSIONS | device_cap::MEM_WINDOW_TYPE_2B,
        ),
        (
            feature::ATOMIC,
            device_cap::FLUSH_GLOBAL | device_cap::ATOMIC_WRITE,
        ),
    ];
    for (bits, flags) in flags {
        let here = told.device_cap_flags() & flags;
        assert_eq!(here, if has(bits) { flags } else { 0 }, "feature {bits:#x}");
    }
    let atomics = if has(feature::ATOMIC) {
        AtomicCap::Hca
    } else {
        AtomicCap::None
    };
    assert_eq!([told.atomic_cap(), told.masked_atomic_cap()], [atomics as u8; 2]);
    let numbers = [
        (feature::RAW, told.raw_packet_caps()),
        (feature::RAW, told.rss_qps().into()),
        (feature::SRQ, told.max_srq()),
        (feature::SRQ, told.max_srq_wr()),
        (feature::KEY_WR, told.max_mw()),
        (feature::DEVICE_MEMORY, told.max_dm_size() as u32),
    ];
    for (at, (bits, number)) in numbers.into_iter().enumerate() {
        assert_eq!(number != 0, has(bits), "number {at} is {number}");
    }
}

/// A call succeeds, or firmware says that there is no such thing.
#[track_caller]
fn is_served<T>(bits: u16, what: &str, made: Result<T, Error>) {
    match made {
        Ok(_) => assert!(has(bits), "{what} although the card is built without it"),
        Err(error) => {
            assert!(!has(bits), "{what}: {error}");
            assert_eq!(error.errno(), libc::EOPNOTSUPP, "{what}: {error}");
        }
    }
}

#[test]
fn calls_are_refused() {
    let pair = pair(2, LinkKind::Ethernet);
    let node = &pair.rig.nodes[0];
    is_served(feature::SRQ, "SRQ", node.pd.create_srq(16, 1));
    is_served(feature::SRQ, "XRC domain", node.context.alloc_xrcd());
    is_served(feature::KEY_WR, "window of type 1", node.pd.alloc_mw(MwType::One));
    is_served(feature::KEY_WR, "window of type 2", node.pd.alloc_mw(MwType::Two));
    is_served(
        feature::KEY_WR,
        "region for fast registration",
        node.pd.alloc_mr(4),
    );
    is_served(
        feature::DEVICE_MEMORY,
        "device memory",
        node.context.alloc_dm(4096),
    );
    let raw = QpOptions {
        service: Service::Raw,
        ..QpOptions::new(&node.cq, &node.cq)
    };
    is_served(feature::RAW, "raw QP", node.pd.create_raw_qp(&raw));
    let congestion = Congestion::default();
    is_served(
        feature::CONGESTION,
        "congestion control",
        node.context.set_congestion(1, Some(&congestion)),
    );
    pair.check_memory("after all calls");
}

/// VL-12: tables are as long as the card has them, and the policy is one that it has. What is refused changes nothing.
#[test]
fn arbitration_is_what_the_card_has() {
    let pair = pair(4, LinkKind::InfiniBand);
    let context = &pair.rig.nodes[0].context;
    let policy = LinkConfig::new().policy(LinkPolicy::RoundQuantum);
    is_served(
        feature::ARBITRATION,
        "policy round-quantum",
        context.link_config(1, &policy),
    );
    let entries: Vec<_> = (0..VL_ARB_ENTRIES)
        .map(|n| VlWeight {
            vl: (n % 8) as u8,
            weight: n as u8 + 1,
        })
        .collect();
    for table in [VlArbTable::High, VlArbTable::Low] {
        let few = &entries[..VL_ARB_ENTRIES_LEAST as usize];
        context.set_vl_arb(1, table, few).unwrap();
        let all = context.set_vl_arb(1, table, &entries);
        if has(feature::ARBITRATION) {
            all.unwrap();
        } else {
            let error = all.unwrap_err();
            assert_eq!(error.errno(), libc::EINVAL);
            assert!(error.to_string().contains("16 entries"), "{error}");
        }
        let there = context.vl_arb(1, table).unwrap();
        assert_eq!(there, if has(feature::ARBITRATION) { &entries } else { few });
    }
    pair.check_memory("after all tables");
}

/// Work requests that the card has no unit for end with an error of their own QP, and with nothing else.
#[test]
fn work_requests_are_refused() {
    for kind in BOTH_LINKS {
        for what in ["fetch and add", "ATOMIC WRITE", "local invalidate"] {
            let mut pair = pair(3, kind);
            let (remote_addr, rkey) = pair.remote(1, WORD);
            let (sges, word) = ([pair.mrs[0].sge(0, 8)], pair.expected(1, WORD, 8));
            // Nobody has the key that is to be invalidated: an error in any case, another one where there is a unit.
            let (bits, op, data, status) = match what {
                "fetch and add" => (
                    feature::ATOMIC,
                    SendOp::AtomicFetchAndAdd {
                        remote_addr,
                        rkey,
                        add: 0,
                    },
                    WrData::Sges(&sges),
                    WcStatus::Success,
                ),
                "ATOMIC WRITE" => (
                    feature::ATOMIC,
                    SendOp::AtomicWrite { remote_addr, rkey },
                    WrData::Inline(&word),
                    WcStatus::Success,
                ),
                _ => (
                    feature::KEY_WR,
                    SendOp::LocalInv {
                        invalidate_rkey: 0x0100_0000,
                    },
                    WrData::Sges(&[]),
                    WcStatus::MwBindErr,
                ),
            };
            pair.post_with(0, 1, op, SendFlags::SIGNALED, data);
            let wc = pair.wait(0);
            let wanted = if has(bits) { status } else { WcStatus::LocQpOpErr };
            assert_eq!(wc.status, wanted, "{kind:?} {what}: {wc:?}");
        }
    }
}

/// Requests of a peer that has more: invalid, and the word stays as it is.
#[test]
fn requests_are_refused() {
    for kind in BOTH_LINKS {
        for opcode in [
            Opcode::RcFetchAdd,
            Opcode::RcCmpSwap,
            Opcode::RcAtomicWrite,
            Opcode::RcFlush,
            Opcode::RcSendOnlyInv,
        ] {
            let mut pair = pair(4, kind);
            let (va, rkey) = pair.remote(1, WORD);
            let bits = if opcode == Opcode::RcSendOnlyInv {
                feature::KEY_WR
            } else {
                feature::ATOMIC
            };
            let word: [u8; 8] = pair.expected(1, WORD, 8).try_into().unwrap();
            let value = u64::from_le_bytes(word);
            let at = reth::Repr { va, rkey, dma_len: 8 };
            let (ext, payload): (_, &[u8]) = match opcode {
                Opcode::RcAtomicWrite => (
                    ExtHeaders {
                        reth: Some(at),
                        ..Default::default()
                    },
                    &word,
                ),
                Opcode::RcFlush => {
                    let feth = Some(feth::Repr {
                        plt: 1,
                        ..Default::default()
                    });
                    (
                        ExtHeaders {
                            feth,
                            reth: Some(at),
                            ..Default::default()
                        },
                        &[],
                    )
                }
                Opcode::RcSendOnlyInv => {
                    let ieth = Some(ieth::Repr { rkey });
                    (
                        ExtHeaders {
                            ieth,
                            ..Default::default()
                        },
                        &[],
                    )
                }
                _ => {
                    let atomic_eth = Some(atomic_eth::Repr {
                        va,
                        rkey,
                        swap_add: 0,
                        compare: value,
                    });
                    (
                        ExtHeaders {
                            atomic_eth,
                            ..Default::default()
                        },
                        &[],
                    )
                }
            };
            if opcode == Opcode::RcCmpSwap {
                pair.expect(1, WORD, &if has(bits) { [0; 8] } else { word });
            }
            let packet = Forged {
                link: forge::link(0, kind),
                opcode,
                dest_qp: pair.qps[1].qp_num(),
                psn: 0,
                pkey: 0xffff,
                ext,
                payload,
            };
            forge::send(&mut pair.rig, 0, &packet);
            pair.rig.run(6_000);
            let state = pair.qps[1].query().unwrap().qp_state;
            // A SEND with invalidate that finds no receive WQE waits for one.
            assert_eq!(
                state == QpState::Err,
                !has(bits),
                "{kind:?} {opcode:?}: {state:?}"
            );
            pair.check_memory(&format!("{kind:?} {opcode:?}"));
        }
    }
}

/// What every card has goes on beside all that: also where both ends would like selective repeat.
#[test]
fn what_is_always_there() {
    for kind in BOTH_LINKS {
        let mut options = path(Mtu::Bytes1024);
        options.selective_repeat = true;
        let mut config = RigConfig::new(5, kind);
        config.faults.loss = 0.02;
        let mut pair = Pair::new(&config, &options, REGION_BYTES, [RIGHTS; 2]);
        for n in 0..4 {
            let bytes = pair.expected(0, 0, 16 << 10);
            let (write, read) = (pair.write_to(1, 8 << 10), pair.read_from(1, 8 << 10));
            let sges = [pair.mrs[0].sge(0, 16 << 10)];
            pair.expect(1, 8 << 10, &bytes);
            pair.post(0, 2 * n, write, &sges);
            pair.wait_ok(0, 2 * n);
            pair.post(0, 2 * n + 1, read, &sges);
            pair.wait_ok(0, 2 * n + 1);
            pair.check_traffic("with losses");
        }
    }
}
