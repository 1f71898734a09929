//! Memory that does not answer at once: order within a function, and nobody else waits.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use hca_dev::SharedMem;
use hca_host::{
    Host, Interrupt, LINE_BYTES, Line, Memory, PcieModel, PcieParams, ReadBeat, Remote, RemoteMemory,
    Watcher, WriteBeat,
};

const RING: u64 = 0x4000_0000;
const DATA: u64 = 0x10_0000;
const BYTES: usize = 1 << 16;

/// Memory of a process behind a gate that can be shut.
#[derive(Default)]
struct Gated {
    shut: Mutex<bool>,
    moved: Condvar,
    bytes: Mutex<Vec<u8>>,
    ended: AtomicU64,
}

impl Gated {
    fn shut(&self, shut: bool) {
        *self.shut.lock().unwrap() = shut;
        self.moved.notify_all();
    }

    fn pass(&self) {
        let shut = self.shut.lock().unwrap();
        drop(self.moved.wait_while(shut, |shut| *shut).unwrap());
    }
}

impl RemoteMemory for Gated {
    fn read(&self, addr: u64, out: &mut [u8]) -> bool {
        self.pass();
        let at = (addr - DATA) as usize;
        let bytes = self.bytes.lock().unwrap();
        bytes.get(at..at + out.len()).is_some_and(|found| {
            out.copy_from_slice(found);
            true
        })
    }

    fn write(&self, addr: u64, bytes: &[u8]) -> bool {
        self.pass();
        let at = (addr - DATA) as usize;
        let mut memory = self.bytes.lock().unwrap();
        memory.get_mut(at..at + bytes.len()).is_some_and(|place| {
            place.copy_from_slice(bytes);
            true
        })
    }
}

impl Watcher for Gated {
    fn progress(&self) {}

    fn ended(&self) {
        self.ended.fetch_add(1, Ordering::SeqCst);
    }
}

struct Rig {
    pcie: PcieModel,
    host: Host,
    gated: Arc<Gated>,
    rings: [Arc<SharedMem>; 2],
    now: u64,
}

/// Two functions, each with a ring that is shared; the first one's program is another process.
fn rig() -> Rig {
    let mut host = Host::new(2);
    let gated = Arc::new(Gated::default());
    gated.bytes.lock().unwrap().resize(BYTES - 32, 0);
    let remote = Remote::new(gated.clone(), gated.clone()).unwrap();
    let rings = [0, 1].map(|func| {
        let memory = Arc::new(SharedMem::new("ring", BYTES).unwrap());
        let map = host.function(func).unwrap();
        if func == 0 {
            return memory;
        }
        map.map(RING, BYTES as u64, shared(&memory)).unwrap();
        memory
    });
    let map = host.function(0).unwrap();
    map.set_process(remote);
    map.map(RING, BYTES as u64, shared(&rings[0])).unwrap();
    // A page more than there is.
    map.map_process(DATA, BYTES as u64 + 4096).unwrap();
    let pcie = PcieModel::new(PcieParams::default(), 1).unwrap();
    Rig {
        pcie,
        host,
        gated,
        rings,
        now: 0,
    }
}

fn shared(memory: &Arc<SharedMem>) -> Memory {
    Memory::Shared {
        memory: memory.clone(),
        offset: 0,
    }
}

impl Rig {
    fn write(&mut self, func: u8, addr: u64, value: u8) {
        let beat = WriteBeat {
            msix: false,
            last: true,
            func,
            addr,
            strb: u64::MAX,
            data: Line([value; LINE_BYTES]),
        };
        self.pcie.push_write(self.now, &beat).unwrap();
    }

    fn interrupt(&mut self, func: u8) {
        let beat = WriteBeat {
            msix: true,
            last: true,
            func,
            addr: 5,
            strb: 0xf,
            data: Line::ZERO,
        };
        self.pcie.push_write(self.now, &beat).unwrap();
    }

    /// Lets cycles pass; what the card is answered in them.
    fn run(&mut self, cycles: u64) -> Vec<ReadBeat> {
        let end = self.now + cycles;
        let mut beats = Vec::new();
        while self.now < end {
            self.now += 1;
            self.pcie.advance(self.now, &mut self.host);
            beats.extend(self.pcie.poll_completion(self.now));
        }
        self.host.flush();
        beats
    }

    /// Until it holds, in wall-clock time.
    fn until(&mut self, what: &str, mut holds: impl FnMut(&mut Self, Vec<ReadBeat>) -> bool) {
        let start = Instant::now();
        let mut seen = Vec::new();
        while !holds(self, seen) {
            assert!(start.elapsed() < Duration::from_secs(60), "{what}");
            seen = self.run(1);
            std::thread::yield_now();
        }
    }

    fn ring(&self, func: usize) -> u8 {
        // SAFETY: inside the mapping.
        unsafe { self.rings[func].as_ptr().read_volatile() }
    }
}

/// Lines in one go to memory that ends within them: those before its end are there, the others are told of one by one.
#[test]
fn a_run_of_lines_is_written_up_to_the_end_of_memory() {
    let mut rig = rig();
    let first = BYTES as u64 - 192;
    let bytes: Vec<u8> = (1..=4).flat_map(|value| [value; LINE_BYTES]).collect();
    rig.host.write_lines(1, 0, DATA + first, &bytes);
    rig.until("two lines fail", |rig, _| rig.host.fault_count() == 2);
    let memory = rig.gated.bytes.lock().unwrap().clone();
    assert_eq!(memory[first as usize..][..128], bytes[..128]);
    assert!(memory[first as usize + 128..].iter().all(|byte| *byte == 0));
    let found: Vec<_> = rig.host.faults().map(|fault| fault.addr).collect();
    assert_eq!(found, [2, 3].map(|line| DATA + first + 64 * line));
}

#[test]
fn reads_and_writes_arrive_and_faults_are_counted() {
    let mut rig = rig();
    rig.write(0, DATA + 64, 7);
    rig.pcie.push_read(rig.now, 1, 0, DATA, 192).unwrap();
    rig.pcie
        .push_read(rig.now, 2, 0, DATA + BYTES as u64 - 64, 64)
        .unwrap();
    let mut beats = Vec::new();
    rig.until("both reads are answered", |rig, seen| {
        beats.extend(seen);
        rig.pcie.tags_used() == 0
    });
    let lines: Vec<u8> = beats
        .iter()
        .filter(|beat| beat.tag == 1)
        .map(|beat| beat.data.0[9])
        .collect();
    assert_eq!(lines, [0, 7, 0]);
    assert!(beats.iter().any(|beat| beat.tag == 2 && beat.err && beat.last));
    assert_eq!(rig.host.fault_count(), 1);
    rig.write(0, DATA + BYTES as u64, 1);
    rig.until("the fault of a write", |rig, _| rig.host.fault_count() == 2);
    assert_eq!(rig.host.faults().last().unwrap().addr, DATA + BYTES as u64);
}

/// Completions are written behind the data that they tell of, interrupts come behind both; another function's do not
/// wait.
#[test]
fn what_tells_of_data_comes_behind_it() {
    let mut rig = rig();
    rig.gated.shut(true);
    rig.write(0, DATA, 1);
    rig.write(0, RING, 2);
    rig.interrupt(0);
    rig.write(1, RING, 3);
    rig.interrupt(1);
    rig.pcie.push_mmio_value(rig.now, 0, 77, 1);
    rig.pcie.push_mmio_value(rig.now, 1, 78, 1);
    rig.run(1000);
    assert_eq!((rig.ring(0), rig.ring(1)), (0, 3));
    let other = Interrupt { func: 1, vector: 5 };
    assert_eq!(rig.host.take_interrupt(), Some(other));
    assert_eq!(rig.host.take_interrupt(), None);
    assert_eq!(rig.pcie.take_mmio_value(), Some((78, 1)));
    assert_eq!(rig.pcie.take_mmio_value(), None);
    assert_eq!(rig.pcie.next_event(), None, "time may stand still meanwhile");
    assert!(!rig.host.function(0).unwrap().is_settled());

    rig.gated.shut(false);
    rig.until("its interrupt", |rig, _| rig.host.take_interrupt().is_some());
    rig.until("its register value", |rig, _| {
        rig.pcie.take_mmio_value().is_some()
    });
    assert!(rig.host.function(0).unwrap().is_settled());
    assert_eq!(rig.ring(0), 2);
    assert_eq!(rig.gated.bytes.lock().unwrap()[63], 1);
}

/// Reads of one function wait; the other's are answered in their time, and the waits of all together are short.
#[test]
fn a_gate_that_stays_shut_holds_nobody_else() {
    let mut rig = rig();
    rig.gated.shut(true);
    let start = Instant::now();
    for tag in 0..100 {
        rig.pcie.push_read(rig.now, tag, 0, DATA, 64).unwrap();
        rig.pcie.push_read(rig.now, 100 + tag, 1, RING, 64).unwrap();
        let beats = rig.run(500);
        assert_eq!(beats.len(), 1, "tag {tag}");
        assert_eq!(beats[0].tag, 100 + tag);
    }
    let limit = Duration::from_millis(500) + start.elapsed() / 2;
    assert!(start.elapsed() < limit, "{:?}", start.elapsed());
    // As after its client has gone: everything ends, with errors.
    rig.host.function(0).unwrap().abandon();
    let beats = rig.run(2000);
    assert!(beats.len() == 100 && beats.iter().all(|beat| beat.err));
    assert_eq!(rig.pcie.tags_used(), 0);
}

/// The thread goes when nothing is wanted any more, and is seen to be there until then.
#[test]
fn presence_lasts_until_the_memory_lets_go() {
    let gated = Arc::new(Gated::default());
    gated.shut(true);
    let remote = Remote::new(gated.clone(), gated.clone()).unwrap();
    let presence = remote.presence();
    let mut host = Host::new(1);
    let map = host.function(0).unwrap();
    map.set_process(remote);
    map.map_process(DATA, 4096).unwrap();
    map.read(0, DATA, &mut [0; 64]).ok().unwrap();
    assert!(!map.is_settled() && !map.is_stuck(Duration::from_secs(60)));
    let start = Instant::now();
    while !map.is_stuck(Duration::from_millis(1)) {
        assert!(start.elapsed() < Duration::from_secs(60));
    }
    map.abandon();
    assert!(map.is_settled() && !presence.is_over());
    gated.shut(false);
    while gated.ended.load(Ordering::SeqCst) == 0 {
        std::thread::yield_now();
    }
    assert!(presence.is_over());
}
