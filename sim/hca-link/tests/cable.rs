//! Time, rate and faults of a cable.

use hca_link::*;

fn ethernet() -> CableConfig {
    CableConfig::new("t", LinkKind::Ethernet)
}

fn faulty(spec: &str, seed: u64) -> CableConfig {
    CableConfig {
        faults: spec.parse().unwrap(),
        seed,
        ..ethernet()
    }
}

/// Packet `number` of `len` bytes; the number can be read back from its first bytes.
fn packet(number: u32, len: usize) -> Vec<u8> {
    let mut bytes = vec![0x5a; len];
    bytes[..4].copy_from_slice(&number.to_be_bytes());
    bytes
}

fn number(packet: &Packet) -> u32 {
    u32::from_be_bytes(packet.bytes[..4].try_into().unwrap())
}

/// Sends `count` packets of `len` bytes as fast as the cable takes them; returns the cable, what
/// arrived with the cycle, and the cycle in which the last beat was taken.
fn run(config: CableConfig, count: u32, len: usize) -> (Cable, Vec<(u64, Packet)>, u64) {
    let mut cable = Cable::new(config).unwrap();
    let mut arrived = Vec::new();
    let mut now = 0;
    for index in 0..count {
        let bytes = packet(index, len);
        let beats = bytes.chunks(CableConfig::BEAT_BYTES);
        let last = beats.len() - 1;
        for (at, beat) in beats.enumerate() {
            while !cable.ready(Dir::AToB, now) {
                now += 1;
                arrived.extend(cable.poll(Dir::AToB, now).map(|packet| (now, packet)));
            }
            cable.push_beat(Dir::AToB, now, beat, at == last).unwrap();
            now += 1;
            arrived.extend(cable.poll(Dir::AToB, now).map(|packet| (now, packet)));
        }
    }
    let end = now;
    while let Some(cycle) = cable.next_event_cycle() {
        now = now.max(cycle);
        while let Some(packet) = cable.poll(Dir::AToB, now) {
            arrived.push((now, packet));
        }
    }
    (cable, arrived, end)
}

#[test]
fn one_packet_arrives_after_serialisation_and_latency() {
    // 64 + 24 bytes at 12.5 bytes per ns are 7.04 ns; with 100 ns of cable 107.04 ns, cycle 27.
    let (cable, arrived, _) = run(ethernet(), 1, 64);
    let (cycle, packet) = &arrived[0];
    assert_eq!((*cycle, packet.sent_ps, packet.last_bit_ps), (27, 0, 107_040));
    let stats = cable.stats().a_to_b;
    assert_eq!(
        (stats.sent_packets, stats.sent_bytes, stats.wire_bytes),
        (1, 64, 88)
    );
    assert_eq!((stats.busy_ps, stats.delivered_packets), (7_040, 1));
    assert_eq!(cable.stats().b_to_a, DirStats::default());
}

#[test]
fn the_rate_is_exact() {
    for rate in [10_000_000_000, 54_545_454_545, 100_000_000_000, 127_000_000_000] {
        for (len, count) in [(64, 20_000), (65, 20_000), (1086, 4_000), (4158, 1_000)] {
            let config = CableConfig {
                rate_bits_per_s: rate,
                ..ethernet()
            };
            let (cable, arrived, end) = run(config, count, len);
            let wire_bits = u64::from(count) * (len as u64 + 24) * 8;
            let line_s = wire_bits as f64 / rate as f64;
            // The sender alone can be the slower one: one beat per cycle.
            let card_s = f64::from(count) * len.div_ceil(64) as f64 * 4e-9;
            let took_s = end as f64 * 4e-9;
            let expected_s = line_s.max(card_s);
            assert!(
                (took_s / expected_s - 1.0).abs() < 1e-3,
                "{rate} b/s, {len} bytes: {took_s}"
            );
            let busy_s = cable.stats().a_to_b.busy_ps as f64 * 1e-12;
            assert!((busy_s / line_s - 1.0).abs() < 1e-6);
            assert_eq!(arrived.len(), count as usize);
        }
    }
}

#[test]
fn directions_do_not_disturb_each_other() {
    let mut cable = Cable::new(ethernet()).unwrap();
    for now in 0..100 {
        if cable.ready(Dir::AToB, now) {
            cable.push_beat(Dir::AToB, now, &packet(0, 64), true).unwrap();
        }
    }
    assert!(cable.ready(Dir::BToA, 0));
    cable.push_beat(Dir::BToA, 100, &packet(7, 64), true).unwrap();
    assert_eq!(number(&cable.poll(Dir::BToA, 200).unwrap()), 7);
    assert!(cable.poll(Dir::BToA, 200).is_none());
}

#[test]
fn no_faults_no_change() {
    let (cable, arrived, _) = run(ethernet(), 500, 300);
    let numbers: Vec<_> = arrived.iter().map(|(_, packet)| number(packet)).collect();
    assert_eq!(numbers, (0..500).collect::<Vec<_>>());
    assert!(
        arrived
            .iter()
            .all(|(_, got)| got.bytes == packet(number(got), 300))
    );
    assert_eq!(cable.stats().a_to_b.faults, FaultCounts::default());
}

const EVERYTHING: &str = "loss=0.05,dup=0.04,reorder=0.03,corrupt=0.02,delay_ns=700,pause=0.01";

#[test]
fn same_seed_same_trace() {
    let trace = |seed| run(faulty(EVERYTHING, seed), 3_000, 200).1;
    assert_eq!(trace(1), trace(1));
    assert_ne!(trace(1), trace(2));
    let renamed = CableConfig {
        name: "u".into(),
        ..faulty(EVERYTHING, 1)
    };
    assert_ne!(trace(1), run(renamed, 3_000, 200).1);
}

#[test]
fn one_fault_does_not_move_another() {
    let lost = |spec: &str| {
        let (_, arrived, _) = run(faulty(spec, 5), 2_000, 100);
        let mut numbers: Vec<_> = arrived.iter().map(|(_, packet)| number(packet)).collect();
        numbers.sort_unstable();
        numbers.dedup();
        numbers
    };
    assert_eq!(
        lost("loss=0.1"),
        lost("loss=0.1,dup=0.2,reorder=0.1,delay_ns=300")
    );
}

#[test]
fn every_packet_is_accounted_for() {
    for seed in 0..5 {
        let (cable, arrived, _) = run(faulty(EVERYTHING, seed), 5_000, 200);
        let stats = cable.stats().a_to_b;
        assert_eq!(cable.in_flight(Dir::AToB), 0);
        let out = stats.delivered_packets + stats.faults.lost;
        assert_eq!(stats.sent_packets + stats.faults.duplicated, out);
        assert_eq!(arrived.len() as u64, stats.delivered_packets);
        assert_eq!(stats.delivered_bytes, stats.delivered_packets * 200);
    }
}

#[test]
fn each_fault_happens_at_about_the_asked_rate() {
    const COUNT: u32 = 40_000;
    let near = |found: u64, probability: f64| {
        let expected = f64::from(COUNT) * probability;
        let sigma = (expected * (1.0 - probability)).sqrt();
        assert!(
            (found as f64 - expected).abs() < 5.0 * sigma,
            "{found} is not near {expected}"
        );
    };
    let faults = |spec: &str| run(faulty(spec, 9), COUNT, 64).0.stats().a_to_b.faults;
    near(faults("loss=0.01").lost, 0.01);
    near(faults("dup=0.02").duplicated, 0.02);
    near(faults("reorder=0.03").reordered, 0.03);
    near(faults("corrupt=0.04").corrupted, 0.04);
    near(faults("pause=0.05").paused, 0.05);
    let all = faults("loss=0.01,dup=0.02,reorder=0.03,corrupt=0.04,pause=0.05,delay_ns=100");
    near(all.lost, 0.01);
    near(all.reordered, 0.03 * 0.99);
    assert_eq!(faults("loss=1").lost, u64::from(COUNT));
}

#[test]
fn corruption_flips_one_to_three_bits() {
    let (_, arrived, _) = run(faulty("corrupt=1", 3), 300, 64);
    let mut seen = [0; 4];
    for (index, (_, got)) in (0..).zip(&arrived) {
        let sent = packet(index, 64);
        let flipped: u32 = sent
            .iter()
            .zip(&got.bytes)
            .map(|(a, b)| (a ^ b).count_ones())
            .sum();
        seen[flipped as usize] += 1;
    }
    assert!(
        seen[0] == 0 && seen[1..].iter().all(|&count| count > 50),
        "{seen:?}"
    );
}

#[test]
fn reordering_lets_up_to_three_later_packets_pass() {
    let (cable, arrived, _) = run(faulty("reorder=0.05", 4), 5_000, 200);
    let numbers: Vec<_> = arrived.iter().map(|(_, packet)| number(packet)).collect();
    let mut late = 0;
    for (at, &number) in numbers.iter().enumerate() {
        let passed = numbers[..at].iter().filter(|&&other| other > number).count();
        assert!(
            passed as u64 <= 2 * REORDER_DISTANCE_MAX,
            "packet {number} was passed by {passed}"
        );
        late += u64::from(passed > 0);
    }
    // A packet held back when none follows in time, or when all that follow are held as well, is
    // delivered in order; that is rare.
    let reordered = cable.stats().a_to_b.faults.reordered;
    assert!(
        late > reordered * 9 / 10 && late <= reordered,
        "{late} of {reordered}"
    );
}

#[test]
fn a_packet_held_back_alone_arrives_after_the_hold_time() {
    let (_, arrived, _) = run(faulty("reorder=1", 4), 1, 64);
    assert_eq!(arrived[0].1.last_bit_ps, 107_040 + REORDER_HOLD_NS * 1_000);
}

#[test]
fn delay_keeps_the_order_and_its_limit() {
    let clean = run(ethernet(), 1_000, 200).1;
    let (cable, delayed, _) = run(faulty("delay_ns=500", 4), 1_000, 200);
    let mut late = 0;
    for ((_, clean), (_, delayed)) in clean.iter().zip(&delayed) {
        assert_eq!(number(clean), number(delayed));
        let extra_ps = delayed.last_bit_ps - clean.last_bit_ps;
        assert!(extra_ps <= 500_000 + 2_000, "{extra_ps}");
        late += u64::from(extra_ps > 0);
    }
    assert!(late > 900 && cable.stats().a_to_b.faults.delayed > 900);
}

#[test]
fn a_pause_stops_the_sender() {
    let (_, _, clean_end) = run(ethernet(), 100, 64);
    let (cable, _, end) = run(faulty("pause=0.5,pause_ns=4000", 4), 100, 64);
    let pauses = cable.stats().a_to_b.faults.paused;
    let waited = end - clean_end;
    assert!(
        waited >= (pauses - 1) * 990 && waited <= pauses * 1_000,
        "{waited} {pauses}"
    );
}

#[test]
fn duplicates_do_not_ask_more_of_the_wire_than_it_carries() {
    let (_, arrived, _) = run(faulty("dup=0.5", 4), 2_000, 1_000);
    for pair in arrived.windows(2) {
        let gap_ps = pair[1].1.last_bit_ps - pair[0].1.last_bit_ps;
        assert!(gap_ps >= 81_919, "{gap_ps}");
    }
}

#[test]
fn a_packet_without_end_is_thrown_away() {
    let mut cable = Cable::new(ethernet()).unwrap();
    let mut result = Ok(());
    for now in 0..257 {
        result = cable.push_beat(Dir::AToB, now, &[0; 64], false);
        assert_eq!(result.is_err(), now == 256);
    }
    let text = result.unwrap_err().to_string();
    assert!(text.contains("16384") && text.contains("cable t"), "{text}");
    cable.push_beat(Dir::AToB, 300, &packet(1, 64), true).unwrap();
    assert_eq!(number(&cable.poll(Dir::AToB, 10_000).unwrap()), 1);
}

#[test]
fn a_beat_stream_ends_with_the_last_bit_and_keeps_the_rate() {
    for delivery in [Delivery::FirstBeat, Delivery::LastBit] {
        let config = CableConfig {
            delivery,
            latency_ns: 500,
            ..ethernet()
        };
        let mut stream = BeatStream::new(&config, Dir::AToB);
        let mut cable = Cable::new(config).unwrap();
        let sent: Vec<_> = (0..20).map(|index| packet(index, 1_500)).collect();
        let mut beats = sent.iter().flat_map(|bytes| {
            let last = bytes.len().div_ceil(64) - 1;
            bytes
                .chunks(64)
                .enumerate()
                .map(move |(at, beat)| (beat, at == last))
        });
        let mut next = beats.next();
        let (mut received, mut current, mut ends) = (Vec::new(), Vec::new(), Vec::new());
        for now in 0..4_000 {
            if let Some((beat, last)) = next
                && cable.ready(Dir::AToB, now)
            {
                cable.push_beat(Dir::AToB, now, beat, last).unwrap();
                next = beats.next();
            }
            stream.fetch(&mut cable, now);
            if let Some(beat) = stream.beat(now) {
                assert_eq!(beat.first, current.is_empty());
                current.extend_from_slice(beat.bytes);
                if beat.last {
                    received.push(std::mem::take(&mut current));
                    ends.push(now);
                }
                stream.advance(now);
            }
        }
        assert_eq!(received, sent);
        assert!(!stream.is_busy());
        // 1524 bytes take 121.92 ns; the last bit of the first packet is there at 621.92 ns.
        let streaming = if delivery == Delivery::FirstBeat { 0 } else { 29 };
        assert!(
            ends[0].abs_diff(156 + streaming) <= 3,
            "{delivery:?}: {}",
            ends[0]
        );
        let span_ns = (ends[19] - ends[0]) * 4;
        assert!(
            span_ns.abs_diff(19 * 12_192 / 100) <= 8,
            "{delivery:?}: {span_ns}"
        );
    }
}

#[test]
fn configurations_out_of_range_are_refused() {
    let config = CableConfig {
        rate_bits_per_s: 0,
        ..ethernet()
    };
    let text = Cable::new(config).err().unwrap().to_string();
    assert!(text.contains("rate_bits_per_s is 0"), "{text}");
    let faults = FaultSpec {
        loss: f64::NAN,
        ..FaultSpec::default()
    };
    assert!(Cable::new(CableConfig { faults, ..ethernet() }).is_err());
}

#[test]
fn fault_specifications() {
    let text = "loss=0.01,dup=0.02,reorder=0.03,corrupt=0.04,pause=0.05,delay_ns=500,pause_ns=200";
    let spec: FaultSpec = text.parse().unwrap();
    assert_eq!(
        (spec.loss, spec.dup, spec.reorder, spec.corrupt),
        (0.01, 0.02, 0.03, 0.04)
    );
    assert_eq!((spec.pause, spec.delay_ns, spec.pause_ns), (0.05, 500, 200));
    assert_eq!(spec.to_string(), text);
    assert!("".parse::<FaultSpec>().unwrap().is_clean());
    assert_eq!(" loss = 0.5 , ".parse::<FaultSpec>().unwrap().loss, 0.5);
    for (bad, why) in [
        ("los=0.1", "unknown"),
        ("loss", "no '='"),
        ("loss=x", "not a number"),
        ("loss=1.1", "0 to 1"),
        ("loss=-0.1", "0 to 1"),
        ("loss=NaN", "0 to 1"),
        ("delay_ns=1.5", "whole number"),
        ("delay_ns=2000000000", "over one second"),
        ("loss=0.1,loss=0.2", "twice"),
    ] {
        let text = bad.parse::<FaultSpec>().unwrap_err().to_string();
        assert!(
            text.contains(why) && text.contains("legal are loss, dup"),
            "{bad}: {text}"
        );
        assert!(!text.contains('\n') && !text.contains("  "), "{text}");
    }
}

#[test]
fn a_watched_direction_tells_what_was_sent() {
    let mut cable = Cable::new(ethernet()).unwrap();
    cable.push_beat(Dir::AToB, 1, &packet(1, 64), true).unwrap();
    cable.watch(Dir::AToB, true);
    cable.push_beat(Dir::AToB, 9, &packet(2, 64), false).unwrap();
    cable.push_beat(Dir::AToB, 10, &packet(3, 6), true).unwrap();
    cable.push_beat(Dir::BToA, 10, &packet(4, 64), true).unwrap();
    let (seen, lost) = cable.take_sightings(Dir::AToB);
    assert_eq!((seen.len(), lost), (1, 0));
    assert_eq!((seen[0].sent_ps, seen[0].len_bytes), (40_000, 70));
    assert_eq!(seen[0].head, [0, 0, 0, 2, 0x5a, 0x5a, 0x5a, 0x5a]);
    assert_eq!(cable.take_sightings(Dir::AToB), (vec![], 0));
    assert_eq!(cable.take_sightings(Dir::BToA), (vec![], 0));
}

/// What a listener has heard: sent or delivered, direction, cycle, number of the packet.
type Heard = std::rc::Rc<std::cell::RefCell<Vec<(bool, Dir, u64, u8)>>>;

struct Ear(Heard);

impl Listener for Ear {
    fn sent(&mut self, dir: Dir, now_cycle: u64, bytes: &[u8]) {
        self.0.borrow_mut().push((true, dir, now_cycle, bytes[0]));
    }

    fn delivered(&mut self, dir: Dir, now_cycle: u64, bytes: &[u8]) {
        self.0.borrow_mut().push((false, dir, now_cycle, bytes[0]));
    }
}

/// A listener hears what is sent before the faults, and what comes out behind them; link packets it does not hear.
#[test]
fn a_listener_hears_both_ends() {
    let heard = Heard::default();
    let mut cable = Cable::new(CableConfig {
        faults: "loss=1,fc_loss=0".parse().unwrap(),
        ..CableConfig::new("t", LinkKind::InfiniBand)
    })
    .unwrap();
    cable.listen(Some(Box::new(Ear(heard.clone()))));
    cable.push_packet(Dir::AToB, 3, &[7; 100]).unwrap();
    cable
        .push_packet(Dir::BToA, 4, &[8; LinkKind::LINK_PACKET_BYTES])
        .unwrap();
    assert!(cable.poll(Dir::BToA, 1_000).is_some());
    assert!(cable.poll(Dir::AToB, 1_000).is_none());
    assert_eq!(heard.borrow()[..], [(true, Dir::AToB, 3, 7)]);
    let mut cable = Cable::new(ethernet()).unwrap();
    cable.listen(Some(Box::new(Ear(heard.clone()))));
    cable.push_packet(Dir::BToA, 5, &[9; 100]).unwrap();
    let arrival = cable.next_event_cycle().unwrap();
    assert!(cable.poll(Dir::BToA, arrival).is_some());
    assert_eq!(
        heard.borrow()[1..],
        [(true, Dir::BToA, 5, 9), (false, Dir::BToA, arrival, 9)]
    );
}
