use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use hca_dev::{SharedMem, UserMemory};

use super::*;
use crate::Host;
use crate::remote::{RemoteMemory, Watcher};

struct Nobody;

impl RemoteMemory for Nobody {
    fn read(&self, _: u64, _: &mut [u8]) -> bool {
        false
    }

    fn write(&self, _: u64, _: &[u8]) -> bool {
        false
    }
}

impl Watcher for Nobody {
    fn progress(&self) {}
    fn ended(&self) {}
}

fn shared(bytes: usize) -> (Arc<SharedMem>, Memory) {
    let memory = Arc::new(SharedMem::new("test", bytes).unwrap());
    (memory.clone(), Memory::Shared { memory, offset: 0 })
}

#[test]
fn reads_and_writes_cross_mappings() {
    let mut map = IommuMap::default();
    let (a, a_memory) = shared(4096);
    let (_b, b_memory) = shared(4096);
    map.map(0x10_0000, 4064, a_memory).unwrap();
    map.map(0x10_0000 + 4064, 4096, b_memory).unwrap();
    let line = Line(std::array::from_fn(|i| i as u8 + 1));
    map.write_line(9, 0, 0x10_0000 + 4032, &line, u64::MAX).unwrap();
    let mut out = [0; 64];
    map.read(0, 0x10_0000 + 4032, &mut out).unwrap();
    assert_eq!(out, line.0);
    // SAFETY: offset 4063 is inside the mapping.
    assert_eq!(unsafe { *a.as_ptr().add(4063) }, 32);
    let fault = map.read(3, 0x10_0000 + 4064 + 4090, &mut out).err().unwrap();
    assert_eq!(fault, Fault::read(3, 0x10_0000 + 4064 + 4096, Cause::Unmapped));
}

#[test]
fn lines_in_one_go_are_what_they_are_one_by_one() {
    let (line, addr) = (|at: usize| Line([at as u8 + 1; 64]), 0x10_0000);
    let bytes: Vec<u8> = (0..130).flat_map(|at| line(at).0).collect();
    let run = |in_one_go: bool, noted: bool| {
        let mut host = Host::new(1);
        let (a, a_memory) = shared(4096);
        let (b, b_memory) = shared(4096);
        let map = host.function(0).unwrap();
        // A line lies in both mappings, and the last ones in none.
        map.map(addr, 4064, a_memory).unwrap();
        map.map(addr + 4064, 4096, b_memory).unwrap();
        map.log_shared_writes(noted);
        if in_one_go {
            host.write_lines(3, 0, addr, &bytes);
        } else {
            for at in 0..130 {
                host.write_line(3, 0, addr + 64 * at as u64, &line(at), u64::MAX);
            }
        }
        let found = [a, b].map(|memory| {
            let mut found = vec![0; 4096];
            // SAFETY: the mapping has so many bytes, and nobody else has it.
            unsafe { load_bytes(memory.as_ptr(), &mut found) };
            found
        });
        let map = host.function(0).unwrap();
        let noted = (map.shared_writes(), map.take_shared_writes());
        let faults: Vec<_> = host.faults().copied().collect();
        (found, noted, faults, host.fault_count(), host.writes_seen())
    };
    for noted in [false, true] {
        let one_by_one = run(false, noted);
        assert_eq!(run(true, noted), one_by_one);
        assert_eq!(one_by_one.3, 3, "{:?}", one_by_one.2);
    }
}

#[test]
fn an_abandoned_map_keeps_rings_and_loses_writes() {
    let mut map = IommuMap::default();
    let (_ring, memory) = shared(4096);
    map.set_process(Remote::new(Arc::new(Nobody), Arc::new(Nobody)).unwrap());
    map.map(0x10_0000, 4096, memory).unwrap();
    map.map_process(0x20_0000, 4096).unwrap();
    map.abandon();
    let (line, mut out) = (Line([7; 64]), [0; 64]);
    map.write_line(9, 0, 0x10_0000, &line, u64::MAX).unwrap();
    map.read(0, 0x10_0000, &mut out).unwrap();
    assert_eq!(out, line.0);
    map.write_line(9, 0, 0x20_0000, &line, u64::MAX).unwrap();
    assert_eq!(
        map.read(0, 0x20_0000, &mut out).err(),
        Some(Fault::read(0, 0x20_0000, Cause::Ended))
    );
    map.clear();
    assert!(map.write_line(9, 0, 0x20_0000, &line, u64::MAX).is_err());
}

/// A process with a page of its own at 0x20_0000 and two of a file behind it.
struct Process {
    own: Arc<SharedMem>,
    file: Arc<SharedMem>,
    accesses: AtomicU64,
}

impl Process {
    fn at(&self, addr: u64) -> *mut u8 {
        self.accesses.fetch_add(1, Ordering::Relaxed);
        let offset = (addr - 0x20_0000) as usize;
        match offset.checked_sub(4096) {
            None => self.own.as_ptr().wrapping_add(offset),
            Some(offset) => self.file.as_ptr().wrapping_add(offset),
        }
    }
}

impl RemoteMemory for Process {
    fn read(&self, addr: u64, out: &mut [u8]) -> bool {
        // SAFETY: accesses here do not cross from one to the other.
        unsafe { load_bytes(self.at(addr), out) };
        true
    }

    fn write(&self, addr: u64, bytes: &[u8]) -> bool {
        // SAFETY: as above.
        unsafe { store_bytes(self.at(addr), bytes) };
        true
    }
}

fn process_with_file() -> (Arc<Process>, IommuMap) {
    let process = Arc::new(Process {
        own: shared(4096).0,
        file: shared(8192).0,
        accesses: AtomicU64::new(0),
    });
    let mut map = IommuMap::default();
    map.set_process(Remote::new(process.clone(), Arc::new(Nobody)).unwrap());
    (process, map)
}

fn read_all(map: &mut IommuMap, addr: u64, len_bytes: usize) -> Vec<u8> {
    let mut out = vec![0; len_bytes];
    match map.read(0, addr, &mut out).unwrap() {
        Found::Now => {}
        Found::Later(fetch) => {
            assert!(fetch.wait_for(Duration::from_secs(60)));
            fetch.finish(&mut out).unwrap();
        }
    }
    out
}

#[test]
fn memory_of_a_process_with_a_file_is_reached_without_it() {
    let (process, mut map) = process_with_file();
    let file = process.file.clone();
    map.map_process(0x20_0000, 4096).unwrap();
    assert!(map.is_far());
    map.map_shared_process(0x20_1000, 8192, (file.clone(), 0))
        .unwrap();
    assert!(!map.is_far());
    let line = Line(std::array::from_fn(|i| i as u8 + 1));
    map.write_line(0, 0, 0x20_1fc0, &line, u64::MAX).unwrap();
    assert_eq!(map.write_lines(0, 0, 0x20_2000, &[9; 4096]), (4096, Ok(())));
    assert_eq!(read_all(&mut map, 0x20_1fc0, 64), line.0);
    assert_eq!(process.accesses.load(Ordering::Relaxed), 0);
    assert_eq!(map.shared_writes(), 0, "no ring");
    // Across the border, and behind what is under way.
    map.write_line(0, 0, 0x20_0fc0, &Line([3; 64]), u64::MAX).unwrap();
    assert_eq!(map.write_lines(0, 0, 0x20_1000, &[4; 128]), (128, Ok(())));
    let both = read_all(&mut map, 0x20_0fc0, 128);
    assert_eq!((&both[..64], &both[64..]), (&[3; 64][..], &[4; 64][..]));
    assert!(process.accesses.load(Ordering::Relaxed) >= 2);
    // A process that is no more has no memory, whoever else has it.
    map.abandon();
    let ended = map.read(0, 0x20_1000, &mut [0; 64]).err();
    assert_eq!(ended, Some(Fault::read(0, 0x20_1000, Cause::Ended)));
    map.write_line(0, 0, 0x20_1000, &line, u64::MAX).unwrap();
    // SAFETY: inside the mapping.
    assert_eq!(unsafe { *file.as_ptr() }, 4);
    map.clear();
    // Ours, the process's, and what is here.
    assert_eq!(Arc::strong_count(&file), 2);
}

#[test]
fn a_file_that_is_unmapped_leaves_the_address() {
    let (process, mut map) = process_with_file();
    let file = process.file.clone();
    map.map_shared_process(0x20_1000, 8192, (file.clone(), 0))
        .unwrap();
    map.map_process(0x20_1000, 64).unwrap();
    map.write_line(0, 0, 0x20_1000, &Line([5; 64]), u64::MAX).unwrap();
    assert!(map.unmap(0x20_1000, 8193).is_err());
    map.unmap(0x20_1000, 8192).unwrap();
    assert_eq!(process.accesses.load(Ordering::Relaxed), 0);
    assert_eq!(read_all(&mut map, 0x20_1000, 64), [5; 64]);
    assert_eq!(process.accesses.load(Ordering::Relaxed), 1);
    map.unmap(0x20_1000, 64).unwrap();
    assert!(map.is_empty() && map.read(0, 0x20_1000, &mut [0; 8]).is_err());
}

#[test]
fn overlaps_and_empty_ranges_are_refused() {
    let mut map = IommuMap::default();
    let (_a, memory) = shared(8192);
    map.map(0x2000, 0x1000, memory.clone()).unwrap();
    assert_eq!(
        map.map(0x1000, 0x1001, memory.clone()),
        Err(MapError::Overlap {
            iova: 0x1000,
            len_bytes: 0x1001
        })
    );
    assert!(matches!(
        map.map(0x2fff, 1, memory.clone()),
        Err(MapError::Overlap { .. })
    ));
    assert!(matches!(
        map.map(0, 0, memory.clone()),
        Err(MapError::BadRange { .. })
    ));
    assert!(matches!(
        map.map(0, 8193, memory.clone()),
        Err(MapError::BadRange { .. })
    ));
    assert!(matches!(
        map.map(u64::MAX, 2, memory.clone()),
        Err(MapError::BadRange { .. })
    ));
    map.map(0x3000, 0x1000, memory).unwrap();
    assert!(matches!(
        map.unmap(0x2000, 0x2000),
        Err(MapError::NotMapped { .. })
    ));
    let all = map.unmap_range(0x2000, 0x2000, 9).unwrap();
    assert_eq!((all.len_bytes, all.goes_on, map.len()), (0x2000, false, 0));
}

#[test]
fn same_user_memory_counts_uses() {
    let mut map = IommuMap::default();
    let mut bytes = vec![0u8; 100];
    // SAFETY: `bytes` outlives the map's use of it.
    let user = unsafe { UserMemory::new(bytes.as_mut_ptr(), 100) };
    map.map(user.addr(), 100, Memory::User(user)).unwrap();
    map.map(user.addr(), 100, Memory::User(user)).unwrap();
    map.unmap(user.addr(), 100).unwrap();
    assert_eq!(map.len(), 1);
    map.unmap(user.addr(), 100).unwrap();
    assert!(map.unmap(user.addr(), 100).is_err());
}
