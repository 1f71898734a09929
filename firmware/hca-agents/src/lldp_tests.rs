use super::*;
use hca_wire::lldp::{Malformed, Tlvs, selection};
use proptest::prelude::*;
use std::vec::Vec;

const MAC: [u8; 6] = [2, 0, 0, 0, 0, 1];
const S: u64 = US_PER_S;

fn facts(name: &[u8]) -> Facts<'_> {
    Facts {
        mac: MAC,
        chassis: [2, 0, 0, 0, 0, 9],
        port: 2,
        name,
        description: b"a card",
        is_bridge: false,
        address: Some((lldp::FAMILY_IPV4, &[10, 0, 0, 7])),
        ets: Ets {
            willing: false,
            classes: 8,
            prio_tc: [0; 8],
            percent: [100, 0, 0, 0, 0, 0, 0, 0],
            selection: [selection::ETS; 8],
        },
        pfc: Pfc {
            willing: false,
            capability: 8,
            enabled: 8,
        },
    }
}

fn sent(agent: &mut Agent, now_us: u64) -> Option<Vec<u8>> {
    let mut out = [0xaa; FRAME_MAX];
    let len = agent.take_due(now_us)?.write(&facts(b"db1"), &mut out);
    Some(out[..len].to_vec())
}

/// A neighbour's frame.
fn frame(chassis: u8, ttl_s: u16, more: &[u8]) -> Vec<u8> {
    let mut bytes = [&lldp::MAC[..], &[2, 0, 0, 0, 1, chassis], &[0x88, 0xcc]].concat();
    bytes.extend([2, 2, 7, chassis, 4, 2, 7, 1, 6, 2]);
    bytes.extend(ttl_s.to_be_bytes());
    bytes.extend(more);
    bytes.extend([0, 0]);
    bytes
}

/// 802.1AB 8.5, 802.1Q D.2: every TLV, in a frame that hardware can send.
#[test]
fn a_port_says_who_it_is() {
    let mut agent = Agent::new();
    assert_eq!(
        (sent(&mut agent, 5), agent.due_us()),
        (None, None),
        "nobody has asked for it"
    );
    agent.set_on(true);
    let frame = sent(&mut agent, 5).unwrap();
    assert_eq!(frame[..14], [&lldp::MAC[..], &MAC, &[0x88, 0xcc]].concat());
    assert!(frame.len() >= FRAME_MIN && frame.len().is_multiple_of(4));
    let head = lldp::check(&frame[14..]).unwrap();
    assert_eq!(
        (head.chassis_id, head.port_id),
        (&[4, 2, 0, 0, 0, 0, 9][..], &[3, 2, 0, 0, 0, 0, 1][..])
    );
    assert_eq!(head.ttl_s, 121);
    let tlvs: Vec<_> = Tlvs::of(&frame[14..]).map(Result::unwrap).collect();
    let value = |kind| tlvs.iter().find(|tlv| tlv.kind == kind).map(|tlv| tlv.value);
    assert_eq!(value(lldp::PORT_DESCRIPTION), Some(&b"port 2"[..]));
    assert_eq!(value(lldp::SYSTEM_NAME), Some(&b"db1"[..]));
    assert_eq!(value(lldp::SYSTEM_DESCRIPTION), Some(&b"a card"[..]));
    assert_eq!(value(lldp::CAPABILITIES), Some(&[0, 0x80, 0, 0x80][..]));
    assert_eq!(
        value(lldp::MANAGEMENT_ADDRESS),
        Some(&[5, 1, 10, 0, 0, 7, 3, 0, 0, 0, 2, 0][..])
    );
    let dcbx: Vec<_> = tlvs.iter().filter_map(|tlv| tlv.of_8021()).collect();
    assert_eq!(Ets::read(dcbx[0].1), Some(facts(b"").ets));
    assert_eq!(
        (dcbx[0].0, dcbx[1].0, Pfc::read(dcbx[1].1)),
        (9, 11, Some(facts(b"").pfc))
    );
    // The longest that can be.
    let mut out = [0; FRAME_MAX];
    let long = Facts {
        name: &[b'x'; 64],
        description: &[b'y'; 64],
        ..facts(b"")
    };
    let len = Frame { is_there: true }.write(&long, &mut out);
    assert_eq!(Tlvs::of(&out[14..len]).filter(Result::is_ok).count(), tlvs.len());
}

/// 802.1AB 9.2.5: four fast ones, then every 30 s; a change at once, but not before a second has passed; the end is
/// said.
#[test]
fn when_it_speaks() {
    let mut agent = Agent::new();
    agent.set_on(true);
    let mut at = Vec::new();
    for second in 0..70 {
        at.extend(sent(&mut agent, second * S).map(|_| second));
    }
    assert_eq!(at, [0, 1, 2, 3, 33, 63]);
    agent.changed();
    assert!(sent(&mut agent, 70 * S).is_some());
    agent.changed();
    assert!(sent(&mut agent, 71 * S - 1).is_none() && sent(&mut agent, 71 * S).is_some());
    agent.link_down();
    agent.changed();
    assert_eq!(agent.due_us(), None, "nobody there");
    agent.link_up();
    assert!(sent(&mut agent, 80 * S).is_some());
    agent.set_on(false);
    let last = sent(&mut agent, 81 * S).unwrap();
    assert_eq!(lldp::check(&last[14..]).unwrap().ttl_s, 0);
    assert_eq!((sent(&mut agent, 500 * S), agent.due_us()), (None, None));
    agent.link_up();
    assert_eq!(agent.due_us(), None, "it is off");
}

/// 802.1AB 9.2.7: what is newest counts, until its time is over or it leaves.
#[test]
fn a_neighbour_is_kept_and_forgotten() {
    let mut agent = Agent::new();
    agent.receive(0, &frame(1, 20, &[10, 1, b'a']));
    let (heard, left_us) = agent.neighbour(5 * S);
    assert_eq!((heard.last(), left_us), (Some(&b'a'), 15 * S));
    agent.receive(6 * S, &frame(1, 20, &[10, 1, b'b']));
    assert_eq!(agent.neighbour(25 * S).0.last(), Some(&b'b'));
    assert_eq!((agent.due_us(), agent.wakes_us()), (None, Some(26 * S)));
    assert!(agent.neighbour(26 * S).0.is_empty());
    assert_eq!((agent.counters().aged_out, agent.counters().replaced), (1, 0));
    agent.receive(30 * S, &frame(1, 20, &[]));
    agent.receive(31 * S, &frame(2, 20, &[]));
    assert_eq!(agent.counters().replaced, 1);
    agent.receive(32 * S, &frame(1, 0, &[]));
    assert_eq!(agent.neighbour(32 * S).0[3], 2, "another one has left");
    agent.receive(33 * S, &frame(2, 0, &[]));
    assert!(agent.neighbour(33 * S).0.is_empty());
    // A new one makes a port that speaks speak fast, one that does not says nothing.
    assert_eq!(agent.due_us(), None);
    agent.set_on(true);
    for second in 0..10 {
        sent(&mut agent, (40 + second) * S);
    }
    agent.receive(50 * S, &frame(3, 20, &[]));
    assert!(sent(&mut agent, 50 * S).is_some() && sent(&mut agent, 51 * S).is_some());
    assert_eq!(agent.counters().received, 7);
}

/// Frames that mean harm: cut anywhere, with lengths beyond their end, longer than anything, other addresses and types.
#[test]
fn hostile_frames_change_nothing() {
    let mut agent = Agent::new();
    agent.receive(0, &frame(1, 100, &[10, 1, b'a']));
    let whole = frame(2, 100, &[10, 3, b'x', b'y', b'z']);
    for len in 0..whole.len() - 2 {
        if lldp::check(whole.get(14..len).unwrap_or(&[])).is_err() {
            agent.receive(1, &whole[..len]);
        }
    }
    assert!(agent.counters().malformed > 10);
    let beyond = frame(2, 100, &[0xff, 0xff]);
    assert_eq!(lldp::check(&beyond[14..]), Err(Malformed::Truncated));
    let long: Vec<u8> = (0..3)
        .flat_map(|_| [&[0xff, 0xff][..], &[7; 511]].concat())
        .collect();
    let malformed = agent.counters().malformed;
    agent.receive(1, &beyond);
    agent.receive(1, &frame(2, 100, &long));
    assert_eq!(agent.counters().malformed, malformed + 2);
    let received = agent.counters().received;
    for at in [0, 5, 12, 13] {
        let mut other = whole.clone();
        other[at] ^= 1;
        agent.receive(1, &other);
    }
    assert_eq!(agent.counters().received, received);
    assert_eq!(agent.neighbour(2).0[3], 1);
    // A flood of neighbours: each replaces the one before, and the port answers no more than once a second.
    agent.set_on(true);
    let mut frames = 0;
    for n in 0..10_000u64 {
        let now_us = n * 100;
        agent.receive(now_us, &frame(n as u8, 100, &[]));
        frames += u32::from(sent(&mut agent, now_us).is_some());
    }
    assert_eq!((frames, agent.counters().replaced), (1, 10_000));
}

fn any_bytes() -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(any::<u8>(), 0..600)
}

proptest! {
    /// Any bytes, at any time: no panic, and what is kept is an LLDPDU that is whole.
    #[test]
    fn any_frames(frames in prop::collection::vec((any_bytes(), any::<bool>(), 0u64..1 << 40), 1..20)) {
        let mut agent = Agent::new();
        for (mut bytes, is_near, now_us) in frames {
            if is_near {
                let head = frame(bytes.first().copied().unwrap_or(0), 100, &[]);
                bytes.splice(..0, head[..head.len() - 2].iter().copied());
            }
            agent.receive(now_us, &bytes);
            let (heard, _) = agent.neighbour(now_us);
            prop_assert!(heard.is_empty() || lldp::check(heard).is_ok_and(|head| head.bytes == heard.len()));
        }
    }
}
