//! Management datagrams that firmware answers, and who may have QP0.

use hca_abi::SetPkeyCmd;
use hca_agents::mad::{put_u16, put_u32, status_of, u16_at, u32_at};
use hca_agents::packet::{self, From, MAX_PACKET};
use hca_agents::{MAD_BYTES, Mad};
use hca_driver::{Function, OpenOptions};
use hca_fw_core::Identity;
use hca_lone::LoneCard;
use proptest::prelude::*;
use std::rc::Rc;

const GET: u8 = 1;
const SET: u8 = 2;
const NODE_DESC: u16 = 0x10;
const NODE_INFO: u16 = 0x11;
const PORT_INFO: u16 = 0x15;
const OWN_LID: u16 = 5;

fn card(infiniband: bool) -> Rc<LoneCard> {
    let identity = Identity {
        infiniband,
        lid: OWN_LID,
        rate_mbps: 100_000,
        ..LoneCard::identity()
    };
    Rc::new(LoneCard::with(identity, |_| ()))
}

fn from(slid: u16, dlid: u16, qpn: u32) -> From {
    From {
        slid,
        dlid,
        sl: 3,
        qpn,
        src_qpn: if qpn == 0 { 0 } else { 77 },
        pkey: 0xffff,
        gids: None,
    }
}

fn mad(class: u8, method: u8, attribute: u16) -> Mad {
    let mut mad = [0; MAD_BYTES];
    mad[..4].copy_from_slice(&[1, class, 1, method]);
    mad[32..36].fill(0xff);
    put_u16(&mut mad, 16, attribute);
    mad
}

/// The packet of a request. An answer is written the other way round.
fn packet(from: &From, mad: &Mad) -> Vec<u8> {
    let to = From {
        slid: from.dlid,
        src_qpn: from.qpn,
        qpn: from.src_qpn,
        ..*from
    };
    let mut out = [0; MAX_PACKET];
    let len = packet::write_answer(&to, from.slid, |_| 15, mad, &mut out);
    let bth = len - MAD_BYTES - 20;
    // Who writes an answer takes QP 1 of who asked for its own.
    put_u32(&mut out, bth + 4, from.qpn);
    put_u32(&mut out, bth + 16, from.src_qpn);
    out[..len].to_vec()
}

fn ask(dev: &LoneCard, from: &From, mad: &Mad) -> Option<(From, Mad, Vec<u8>)> {
    dev.with_card(|card| card.mad_arrives(&packet(from, mad)));
    dev.settle();
    let mut sent = dev.with_card(|card| card.take_mads_sent());
    assert!(sent.len() <= 1);
    let bytes = sent.pop()?;
    let (to, mad) = packet::read(&bytes)?;
    Some((to, mad, bytes))
}

/// MGMT-2: an answer goes back to where its request came from, on the VL of its class.
#[test]
fn answers_go_back() {
    let dev = card(true);
    let (to, answer, bytes) = ask(&dev, &from(9, OWN_LID, 0), &mad(1, GET, NODE_INFO)).unwrap();
    assert_eq!(
        (to.slid, to.dlid, to.qpn, to.src_qpn, to.sl),
        (OWN_LID, 9, 0, 0, 3)
    );
    assert_eq!((bytes[0] >> 4, answer[3], status_of(&answer)), (15, 0x81, 0));
    let (to, ..) = ask(&dev, &from(0xffff, 0xffff, 0), &mad(0x81, GET, NODE_INFO)).unwrap();
    assert_eq!((to.slid, to.dlid), (0xffff, 0xffff));
    // Counters: QP 1, on a VL for data, to the QP that asked.
    dev.with_card(|card| card.mad_arrives(&packet(&from(9, OWN_LID, 1), &mad(4, GET, 1))));
    dev.settle();
    let sent = dev.with_card(|card| card.take_mads_sent());
    assert_ne!(sent[0][0] >> 4, 15);
    assert_eq!(sent[0][12..16], [0, 0, 0, 77]);
}

/// MGMT-5: who gives its own port another LID hears of it.
#[test]
fn a_manager_can_move_its_own_port() {
    let dev = card(true);
    let own = from(OWN_LID, OWN_LID, 0);
    let (_, mut set, _) = ask(&dev, &own, &mad(1, GET, PORT_INFO)).unwrap();
    (set[3], set[64 + 32], set[64 + 33]) = (SET, 0, 0);
    put_u16(&mut set, 64 + 16, 8);
    put_u16(&mut set, 64 + 18, 8);
    let (to, answer, _) = ask(&dev, &own, &set).unwrap();
    assert_eq!((to.slid, to.dlid, status_of(&answer)), (8, 8, 0));
    assert_eq!(u16_at(&answer, 64 + 16), 8);
    assert!(ask(&dev, &from(9, 8, 0), &mad(1, GET, NODE_INFO)).is_some());
}

#[test]
fn ethernet_has_no_agents() {
    let dev = card(false);
    assert!(ask(&dev, &from(9, OWN_LID, 0), &mad(1, GET, NODE_INFO)).is_none());
}

/// KEY-14, KEY-16: counters are told to whoever shares a partition with the port, in that one.
#[test]
fn key_14_counters_are_for_members() {
    let dev = card(true);
    let mut manager = Function::open(Rc::new(dev.function(0)), &OpenOptions::simulated()).unwrap();
    let mut cmd = SetPkeyCmd::new();
    cmd.set_port_num(1);
    cmd.set_index(7);
    cmd.set_pkey(0x0123);
    manager.set_pkey(&cmd).unwrap();
    for (pkey, is_answered) in [
        (0xffff, true),
        (0x7fff, true),
        (0x8123, true),
        (0x0123, false),
        (0x8124, false),
        (0x8000, false),
    ] {
        let from = From {
            pkey,
            ..from(9, OWN_LID, 1)
        };
        dev.with_card(|card| card.mad_arrives(&packet(&from, &mad(4, GET, 1))));
        dev.settle();
        let sent = dev.with_card(|card| card.take_mads_sent());
        let told: Vec<_> = sent.iter().map(|bytes| u16_at(bytes, 8 + 2)).collect();
        assert_eq!(told, if is_answered { vec![pkey] } else { vec![] }, "{pkey:#x}");
    }
}

/// MGMT-13: the host describes the node; agents tell it, and the manager hears of it by trap 144 with its flag, once
/// for a text. PortInfo and query_port say that a manager may set it, too.
#[test]
fn mgmt_13_the_host_describes_the_node() {
    let dev = card(true);
    let mut host = Function::open(Rc::new(dev.function(0)), &OpenOptions::simulated()).unwrap();
    let to = from(9, OWN_LID, 0);
    let (_, mut port_info, _) = ask(&dev, &to, &mad(1, GET, PORT_INFO)).unwrap();
    assert_eq!(
        (u32_at(&port_info, 64 + 20) >> 15 & 1, u16_at(&port_info, 64 + 60)),
        (1, 1)
    );
    assert_eq!(host.query_port(1).unwrap().port_cap_flags2(), 1);
    port_info[3..6].copy_from_slice(&[SET, 0, 0]);
    put_u16(&mut port_info, 64 + 18, 3);
    (port_info[64 + 32], port_info[64 + 33]) = (0, 0);
    assert_eq!(status_of(&ask(&dev, &to, &port_info).unwrap().1), 0);
    let text = |words: &str| {
        let mut text = [0; 64];
        text[..words.len()].copy_from_slice(words.as_bytes());
        text
    };
    assert_eq!(host.query_node_desc().unwrap(), text("OpenHCA"));
    for (round, is_news) in [(0, true), (1, false)] {
        host.set_node_desc(text("db1 hca0")).unwrap();
        dev.settle();
        let sent = dev.with_card(|card| card.take_mads_sent());
        assert_eq!(sent.len(), usize::from(is_news), "round {round}");
        let Some((_, mut trap)) = sent.first().and_then(|bytes| packet::read(bytes)) else {
            continue;
        };
        assert_eq!(
            (trap[3], u16_at(&trap, 64 + 4), u16_at(&trap, 74 + 2)),
            (5, 144, OWN_LID)
        );
        assert_eq!(
            (trap[74 + 5], u16_at(&trap, 74 + 10)),
            (1, 1),
            "NodeDescriptionChanged"
        );
        trap[3] = 7;
        assert!(ask(&dev, &to, &trap).is_none(), "heard");
    }
    let (_, told, _) = ask(&dev, &to, &mad(1, GET, NODE_DESC)).unwrap();
    assert_eq!(told[64..128], text("db1 hca0"));
    let mut set = mad(1, SET, NODE_DESC);
    set[64..128].copy_from_slice(&[b'z'; 64]);
    assert_eq!(status_of(&ask(&dev, &to, &set).unwrap().1), 0);
    assert_eq!(host.query_node_desc().unwrap(), [b'z'; 64]);
    let mut other = Function::open(Rc::new(dev.function(1)), &OpenOptions::simulated()).unwrap();
    assert_eq!(other.set_node_desc([0; 64]).unwrap_err().errno(), 1);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    /// MGMT-2: a hundred times a thousand datagrams of any bytes: each is answered or dropped, and firmware goes on.
    #[test]
    fn any_packets_are_survived(mut seed: u64) {
        let dev = card(true);
        for _ in 0..1_000 {
            let mut bytes = [0; MAX_PACKET];
            for chunk in bytes.chunks_exact_mut(4) {
                seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
                chunk.copy_from_slice(&((seed >> 32) as u32).to_be_bytes());
            }
            if seed & 1 << 40 != 0 {
                // Nearly one of ours.
                let from = from(seed as u16, OWN_LID, (seed >> 16) as u32 & 1);
                let class = [1, 0x81, 4][seed as usize >> 20 & 1];
                let random: Mad = bytes[..MAD_BYTES].try_into().unwrap();
                let mut mad = mad(class, 1 + (seed >> 33) as u8 % 2, 0x10 + (seed >> 35) as u16 % 16);
                mad[64..].copy_from_slice(&random[64..]);
                // But nobody locks the port.
                mad[64..72].fill(0);
                bytes[..284].copy_from_slice(&packet(&from, &mad));
            }
            dev.with_card(|card| card.mad_arrives(&bytes));
        }
        dev.settle();
        dev.with_card(|card| {
            assert_eq!(card.violations, Vec::<String>::new());
            card.take_mads_sent();
        });
        let probe = ask(&dev, &from(9, 0xffff, 0), &mad(0x81, GET, NODE_INFO));
        prop_assert!(probe.is_some());
    }
}
