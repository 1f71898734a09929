//! The PCIe model: latency, rates, order, errors.

use std::sync::Arc;

use hca_dev::SharedMem;
use hca_host::{Host, Interrupt, Line, Memory, MmioRequest, PcieModel, PcieParams, Violation, WriteBeat};

const BASE: u64 = 0x4000_0000;
const BYTES: usize = 1 << 20;

fn setup(params: PcieParams) -> (PcieModel, Host, Arc<SharedMem>) {
    let memory = Arc::new(SharedMem::new("pcie-test", BYTES).unwrap());
    let mut host = Host::new(2);
    let map = host.function(0).unwrap();
    map.map(
        BASE,
        BYTES as u64,
        Memory::Shared {
            memory: memory.clone(),
            offset: 0,
        },
    )
    .unwrap();
    (PcieModel::new(params, 42).unwrap(), host, memory)
}

fn write(addr: u64, value: u8, last: bool) -> WriteBeat {
    WriteBeat {
        msix: false,
        last,
        func: 0,
        addr,
        strb: u64::MAX,
        data: Line([value; 64]),
    }
}

fn msix(vector: u64) -> WriteBeat {
    WriteBeat {
        msix: true,
        last: true,
        func: 0,
        addr: vector,
        strb: 0xf,
        data: Line::ZERO,
    }
}

#[test]
fn a_single_read_takes_exactly_the_stated_latency() {
    for read_latency_ns in [300, 500, 1200] {
        let (mut pcie, mut host, _memory) = setup(PcieParams {
            read_latency_ns,
            ..Default::default()
        });
        let start = 1000;
        pcie.push_read(start, 3, 0, BASE, 64).unwrap();
        let arrived = (start..start + 1000).find(|now| {
            pcie.advance(*now, &mut host);
            pcie.poll_completion(*now).is_some()
        });
        assert_eq!(arrived, Some(start + u64::from(read_latency_ns) / 4));
        assert_eq!(pcie.next_event(), None);
    }
}

#[test]
fn long_reads_run_at_link_rate() {
    let (mut pcie, mut host, memory) = setup(PcieParams::default());
    for i in 0..BYTES {
        // SAFETY: inside the mapping, no other thread.
        unsafe { *memory.as_ptr().add(i) = (i / 64) as u8 };
    }
    let (mut issued, mut beats, mut first, mut free) =
        (0u64, 0u64, None, (0..=255u8).rev().collect::<Vec<_>>());
    let mut blocks = [0u64; 256];
    let mut done = [0u64; 256];
    let mut now = 0;
    while beats < 8 * 1000 {
        pcie.advance(now, &mut host);
        if let Some(beat) = pcie.poll_completion(now) {
            let tag = usize::from(beat.tag);
            assert!(!beat.err);
            assert_eq!(beat.data.0[5], (blocks[tag] * 8 + done[tag]) as u8);
            done[tag] += 1;
            assert_eq!(beat.last, done[tag] == 8);
            if beat.last {
                done[tag] = 0;
                free.push(beat.tag);
            }
            first.get_or_insert(now);
            beats += 1;
        }
        if pcie.read_ready(now)
            && let Some(tag) = free.pop()
        {
            blocks[usize::from(tag)] = issued % 2000;
            pcie.push_read(now, tag, 0, BASE + issued % 2000 * 512, 512)
                .unwrap();
            issued += 1;
        }
        now += 1;
    }
    // 256 of 280 bytes of each completion packet are data: 14.6 of 16 GB/s, 58.5 bytes per cycle.
    let bytes_per_cycle = (beats - 1) as f64 * 64.0 / (now - 1 - first.unwrap()) as f64;
    assert!((57.5..58.6).contains(&bytes_per_cycle), "{bytes_per_cycle}");
}

#[test]
fn writes_run_at_link_rate_and_push_back() {
    let (mut pcie, mut host, _memory) = setup(PcieParams::default());
    let (mut beats, mut now) = (0u64, 0);
    while beats < 4000 {
        pcie.advance(now, &mut host);
        if pcie.write_ready(now) {
            pcie.push_write(now, &write(BASE + beats * 64 % 65536, 1, beats % 4 == 3))
                .unwrap();
            beats += 1;
        }
        now += 1;
    }
    let bytes_per_cycle = beats as f64 * 64.0 / now as f64;
    assert!((57.0..58.7).contains(&bytes_per_cycle), "{bytes_per_cycle}");
    assert_eq!(pcie.counters().writes, 1000);
    assert_eq!(pcie.counters().write_bytes, 256_000);
}

#[test]
fn reads_see_earlier_writes_and_not_later_ones() {
    let (mut pcie, mut host, _memory) = setup(PcieParams::default());
    pcie.push_write(0, &write(BASE, 1, true)).unwrap();
    pcie.push_read(0, 0, 0, BASE, 64).unwrap();
    pcie.push_write(0, &write(BASE, 2, true)).unwrap();
    pcie.push_read(0, 1, 0, BASE, 64).unwrap();
    let mut seen = Vec::new();
    for now in 0..400 {
        pcie.advance(now, &mut host);
        seen.extend(pcie.poll_completion(now).map(|beat| (beat.tag, beat.data.0[0])));
    }
    assert_eq!(seen, [(0, 1), (1, 2)]);
}

#[test]
fn interrupts_and_register_values_push_writes_ahead() {
    let (mut pcie, mut host, memory) = setup(PcieParams::default());
    // SAFETY: inside the mapping, no other thread.
    let seen = || unsafe { memory.as_ptr().read_volatile() };
    pcie.push_write(0, &write(BASE, 9, true)).unwrap();
    pcie.push_write(0, &msix(5)).unwrap();
    pcie.push_mmio_value(0, 0, 77, 0xabcd);
    for now in 0..400 {
        pcie.advance(now, &mut host);
        if let Some(interrupt) = host.take_interrupt() {
            assert_eq!((interrupt, seen()), (Interrupt { func: 0, vector: 5 }, 9));
            assert!(now >= 50, "200 ns is the least");
        }
        if let Some(value) = pcie.take_mmio_value() {
            assert_eq!((value, seen()), ((77, 0xabcd), 9));
            return;
        }
        assert!(pcie.next_event().is_some());
    }
    panic!("the register value did not arrive");
}

#[test]
fn unmapped_reads_complete_with_one_error_beat_and_writes_are_dropped() {
    let (mut pcie, mut host, _memory) = setup(PcieParams::default());
    pcie.push_read(0, 0, 0, BASE + BYTES as u64 - 64, 128)
        .unwrap_err();
    pcie.push_read(0, 1, 0, BASE - 512, 512).unwrap();
    pcie.push_read(0, 2, 1, BASE, 512).unwrap(); // another function's map is empty
    pcie.push_read(0, 3, 9, BASE, 512).unwrap(); // no such function
    pcie.push_read(0, 4, 0, BASE, 512).unwrap();
    pcie.push_write(0, &write(0x1000, 1, true)).unwrap();
    let mut errors = Vec::new();
    let mut good = 0;
    for now in 0..1000 {
        pcie.advance(now, &mut host);
        match pcie.poll_completion(now) {
            Some(beat) if beat.err => {
                assert!(beat.last);
                errors.push(beat.tag);
            }
            Some(beat) => {
                assert_eq!(beat.tag, 4);
                good += 1;
            }
            None => {}
        }
    }
    assert_eq!((errors, good), (vec![1, 2, 3], 8));
    assert_eq!((pcie.counters().read_errors, host.fault_count()), (3, 4));
    assert_eq!(host.faults().last().unwrap().addr, 0x1000);
    assert_eq!(pcie.tags_used(), 0);
}

#[test]
fn contract_violations_are_named() {
    let (mut pcie, _host, _memory) = setup(PcieParams::default());
    assert!(matches!(
        pcie.push_read(0, 0, 0, 0x1fe, 4),
        Err(Violation::ReadShape { .. })
    ));
    assert!(matches!(
        pcie.push_read(0, 0, 0, 0, 0),
        Err(Violation::ReadShape { .. })
    ));
    pcie.push_read(0, 0, 0, 0, 4).unwrap();
    assert_eq!(pcie.push_read(0, 0, 0, 0, 4), Err(Violation::TagInUse { tag: 0 }));
    assert!(matches!(
        pcie.push_write(0, &write(8, 0, true)),
        Err(Violation::WriteShape { .. })
    ));
    pcie.push_write(0, &write(192, 0, false)).unwrap();
    assert!(matches!(
        pcie.push_write(0, &write(256, 0, true)),
        Err(Violation::Burst { .. })
    ));
}

#[test]
fn tags_are_bounded() {
    let (mut pcie, _host, _memory) = setup(PcieParams {
        max_tags: 4,
        ..Default::default()
    });
    for tag in 0..4 {
        assert!(pcie.read_ready(0));
        pcie.push_read(0, tag, 0, BASE, 64).unwrap();
    }
    assert!(!pcie.read_ready(1000));
}

#[test]
fn a_host_that_stands_still_takes_everything_later_in_order() {
    let params = PcieParams {
        stall_ns: 4_000,
        stall_every_ns: 40_000,
        ..Default::default()
    };
    let usual = PcieParams::default();
    let arrival = |params: &PcieParams, now: u64| {
        let (mut pcie, mut host, _memory) = setup(params.clone());
        pcie.push_write(now, &write(BASE, 7, true)).unwrap();
        let visible = |at: u64, host: &mut Host, pcie: &mut PcieModel| {
            pcie.advance(at, host);
            host.writes_seen()
        };
        let first = (now..now + 20_000).find(|at| visible(*at, &mut host, &mut pcie) > 0);
        first.unwrap()
    };
    // 1000 cycles of every 10,000.
    for (now, at) in [(0, 1000), (500, 1000), (10_500, 11_000)] {
        assert_eq!(arrival(&params, now), at, "written at {now}");
    }
    for now in [1000, 5000, 15_000] {
        assert_eq!(arrival(&params, now), arrival(&usual, now), "written at {now}");
    }
}

/// What arrives while the host stands still uses its credits up; then the card waits for them, and is told when.
#[test]
fn a_host_that_takes_nothing_stops_the_card_when_its_buffer_is_full() {
    let (mut pcie, mut host, _memory) = setup(PcieParams {
        stall_ns: 400_000,
        stall_every_ns: 1_000_000,
        host_buffer_bytes: 2048,
        ..Default::default()
    });
    // 2048 bytes and the 3200 that are on a link of 16 GB/s and 200 ns; a write is 92.
    let room = 5248_u64.div_ceil(92);
    let accepted = |pcie: &mut PcieModel, host: &mut Host, cycles: std::ops::Range<u64>| {
        cycles
            .filter(|now| {
                pcie.advance(*now, host);
                let ready = pcie.write_ready(*now);
                if ready {
                    pcie.push_write(*now, &write(BASE, 7, true)).unwrap();
                }
                ready
            })
            .count() as u64
    };
    assert_eq!(accepted(&mut pcie, &mut host, 0..99_999), room);
    assert!(!pcie.read_ready(99_999));
    assert_eq!(pcie.write_ready_cycle(), 100_000);
    assert_eq!(pcie.read_ready_cycle(), Some(100_000));
    assert_eq!(host.writes_seen(), 0);
    let later = accepted(&mut pcie, &mut host, 100_000..101_000);
    assert!(later > 600, "{later} in 1,000 cycles");
}

#[test]
fn lost_reads_are_never_answered_and_give_their_tags_back() {
    let run = |seed: u64| {
        let (_, mut host, _memory) = setup(PcieParams::default());
        let params = PcieParams {
            lost_read_one_in: 3,
            ..Default::default()
        };
        let mut pcie = PcieModel::new(params, seed).unwrap();
        let mut answered = Vec::new();
        for number in 0..300_u64 {
            let start = number * 1000;
            pcie.push_read(start, 5, 0, BASE, 64).unwrap();
            let beats = (start..start + 1000).filter(|now| {
                pcie.advance(*now, &mut host);
                pcie.poll_completion(*now).is_some()
            });
            answered.push(beats.count());
            assert_eq!(pcie.tags_used(), 0);
        }
        let lost = answered.iter().filter(|beats| **beats == 0).count();
        assert_eq!(pcie.counters().lost_reads, lost as u64);
        assert!((50..150).contains(&lost), "{lost} of 300");
        answered
    };
    assert_eq!(run(1), run(1));
    assert_ne!(run(1), run(2));
}

#[test]
fn jitter_reorders_between_tags_only_and_repeats_with_the_seed() {
    let run = || {
        let (mut pcie, mut host, _memory) = setup(PcieParams {
            read_jitter_ns: 400,
            ..Default::default()
        });
        for tag in 0..32u8 {
            pcie.push_read(u64::from(tag), tag, 0, BASE + u64::from(tag) * 512, 512)
                .unwrap();
        }
        let mut order = Vec::new();
        for now in 32..2000 {
            pcie.advance(now, &mut host);
            order.extend(pcie.poll_completion(now).map(|beat| (beat.tag, beat.last)));
        }
        order
    };
    let order = run();
    assert_eq!(order.len(), 32 * 8);
    assert!(!order.is_sorted_by_key(|(tag, _)| *tag));
    for tag in 0..32 {
        let lasts: Vec<bool> = order
            .iter()
            .filter(|(t, _)| *t == tag)
            .map(|(_, last)| *last)
            .collect();
        assert_eq!(lasts.iter().filter(|last| **last).count(), 1);
        assert_eq!(lasts.last(), Some(&true));
    }
    assert_eq!(order, run());
}

#[test]
fn mmio_takes_its_latency_and_keeps_its_order() {
    let (mut pcie, _host, _memory) = setup(PcieParams::default());
    let write = MmioRequest::Write {
        func: 0,
        addr: 0x1000,
        data: 1,
        strb: 0xff,
    };
    let read = MmioRequest::Read {
        func: 0,
        addr: 0,
        id: 1,
    };
    pcie.push_mmio(10, write);
    pcie.push_mmio(10, read);
    assert_eq!(pcie.mmio_front(59), None);
    assert_eq!(pcie.mmio_front(60), Some(&write));
    assert_eq!(pcie.next_event(), Some(60));
    assert_eq!(pcie.mmio_taken(), Some(write));
    assert_eq!(pcie.mmio_taken(), Some(read));
}

#[test]
fn parameters_are_checked_and_serialise() {
    let params = PcieParams {
        read_jitter_ns: 5,
        ..Default::default()
    };
    let text = serde_json::to_string(&params).unwrap();
    assert_eq!(serde_json::from_str::<PcieParams>(&text).unwrap(), params);
    assert_eq!(
        serde_json::from_str::<PcieParams>("{}").unwrap(),
        PcieParams::default()
    );
    for bad in [
        PcieParams {
            bandwidth_mbps: 0,
            ..Default::default()
        },
        PcieParams {
            max_payload_bytes: 100,
            ..Default::default()
        },
        PcieParams {
            read_latency_ns: 100,
            ..Default::default()
        },
        PcieParams {
            max_tags: 300,
            ..Default::default()
        },
        PcieParams {
            stall_ns: 2,
            stall_every_ns: 1,
            ..Default::default()
        },
        PcieParams {
            read_latency_ns: 20_000_000,
            ..Default::default()
        },
        PcieParams {
            host_buffer_bytes: 100,
            ..Default::default()
        },
    ] {
        PcieModel::new(bad, 0).err().expect("refused");
    }
}
