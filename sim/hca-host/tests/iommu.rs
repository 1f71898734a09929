//! The map of a function: what may be done where, what ends together, and how much of it there may be.

use hca_dev::SharedMem;
use hca_host::{Access, Host, IommuMap, Line, MapError, Memory};
use std::sync::Arc;
use std::time::Instant;

const PAGE: u64 = 4096;

fn shared(pages: u64) -> Arc<SharedMem> {
    Arc::new(SharedMem::new("test", (pages * PAGE) as usize).unwrap())
}

fn part(memory: &Arc<SharedMem>, page: u64) -> Memory {
    Memory::Shared {
        memory: memory.clone(),
        offset: (page * PAGE) as usize,
    }
}

#[test]
fn a_mapping_is_open_for_what_it_was_made_for() {
    let memory = shared(3);
    let mut host = Host::new(1);
    let map = host.function(0).unwrap();
    for (page, access) in [
        (0, Access::ReadOnly),
        (1, Access::WriteOnly),
        (2, Access::ReadWrite),
    ] {
        map.map_for(page * PAGE, PAGE, part(&memory, page), access)
            .unwrap();
    }
    let line = Line([7; 64]);
    let mut faults = 0;
    for (page, reads, writes) in [(0, true, false), (1, false, true), (2, true, true)] {
        host.write_line(1, 0, page * PAGE, &line, u64::MAX);
        host.write_line(1, 0, page * PAGE + 64, &line, 0xf0);
        faults += 2 * u64::from(!writes);
        assert_eq!(host.fault_count(), faults);
        // SAFETY: inside the mapping.
        let found = unsafe { memory.as_ptr().add((page * PAGE) as usize).read_volatile() };
        assert_eq!(found, if writes { 7 } else { 0 });
        assert_eq!(host.read(0, page * PAGE, &mut [0; 64]).is_ok(), reads);
    }
    // Reads are counted where their completions are made.
    assert_eq!(host.fault_count(), faults);
    let text = host.faults().next().unwrap().to_string();
    assert!(text.contains("0x0") && text.contains("for this access"), "{text}");
}

#[test]
fn who_may_not_master_the_bus_reaches_nothing() {
    let memory = shared(1);
    let mut map = IommuMap::default();
    map.map(0, PAGE, part(&memory, 0)).unwrap();
    map.set_bus_master(false);
    assert!(map.read(0, 0, &mut [0; 4]).is_err());
    assert!(map.write_line(0, 0, 0, &Line::ZERO, u64::MAX).is_err());
    map.set_bus_master(true);
    assert!(map.read(0, 0, &mut [0; 4]).is_ok());
}

#[test]
fn memory_behind_messages_of_nobody_faults() {
    let mut map = IommuMap::default();
    map.map(0, 1 << 40, Memory::Messages).unwrap();
    assert_eq!(map.read(0, PAGE, &mut [0; 4]).err().unwrap().addr, PAGE);
    assert!(map.write_line(0, 0, 0, &Line::ZERO, 1).is_err());
    assert!(matches!(
        map.map(PAGE, PAGE, Memory::Messages),
        Err(MapError::Overlap { .. })
    ));
}

#[test]
fn a_range_ends_whole_mappings_and_cuts_none() {
    let memory = shared(8);
    let mut map = IommuMap::default();
    for page in [1, 2, 3, 6] {
        map.map(page * PAGE, PAGE, part(&memory, page)).unwrap();
    }
    map.map(8 * PAGE, 4 * PAGE, part(&memory, 0)).unwrap();
    let mut end = |page: u64, pages: u64| map.unmap_range(page * PAGE, pages * PAGE, 100);
    for (page, pages) in [(8, 2), (9, 1), (9, 3), (7, 2), (11, 9), (6, 3), (10, 1 << 20)] {
        let refused = end(page, pages);
        assert!(
            matches!(refused, Err(MapError::Cut { .. })),
            "{page} + {pages}: {refused:?}"
        );
    }
    assert_eq!(end(4, 2).unwrap().len_bytes, 0, "nothing is there");
    assert_eq!(end(0, 0).unwrap().len_bytes, 0);
    assert_eq!(end(2, 5).unwrap().len_bytes, 3 * PAGE);
    let rest = map.unmap_range(0, u64::MAX, 100).unwrap();
    assert_eq!(rest.len_bytes, 5 * PAGE, "the whole address space");
    assert!(matches!(
        map.unmap_range(PAGE, u64::MAX, 1),
        Err(MapError::BadRange { .. })
    ));
    assert!(map.is_empty());
}

/// Memory that this process has in use.
fn resident_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
    line.split_ascii_whitespace().nth(1).unwrap().parse().unwrap()
}

/// 1 GiB in pages of 4 KiB, twice: to look up, to map and to unmap one of them costs no more than among a few.
#[test]
fn half_a_million_mappings() {
    const COUNT: u64 = 2 * 262_144;
    let memory = shared(512);
    let mut map = IommuMap::default();
    let before_kib = resident_kib();
    let start = Instant::now();
    for page in 0..COUNT {
        // Every other place, and all over.
        let place = page.wrapping_mul(0x9e37_79b1) % (1 << 20) * 2;
        map.map(place * PAGE, PAGE, part(&memory, page % 512)).unwrap();
    }
    let mapped = start.elapsed();
    let resident_kib = resident_kib() - before_kib;
    let mut word = [0; 8];
    for page in 0..COUNT {
        let place = page.wrapping_mul(0x9e37_79b1) % (1 << 20) * 2;
        map.read(0, place * PAGE + 8, &mut word).unwrap();
    }
    let read = start.elapsed() - mapped;
    assert_eq!(map.len() as u64, COUNT);
    let (mut turns, mut ended) = (0, 0);
    loop {
        let some = map.unmap_range(0, 1 << 40, 4096).unwrap();
        ended += some.len_bytes;
        turns += 1;
        if !some.goes_on {
            break;
        }
    }
    let unmapped = start.elapsed() - mapped - read;
    assert_eq!((turns, ended), (COUNT / 4096, COUNT * PAGE));
    println!(
        "{COUNT} mappings: {resident_kib} KiB, mapped in {mapped:?}, read in {read:?}, unmapped in {unmapped:?}"
    );
}
