//! The PCIe link and root complex: one queue towards memory, one towards the card, link time counted in parts
//! of a cycle.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use crate::iommu::{Fault, Found};
use crate::late::{Late, Request};
use crate::params::{ParamError, PcieParams, TICKS_PER_CYCLE, Timing};
use crate::up::{Up, Upstream};
use crate::violation::Violation;
use crate::{Host, Interrupt, LINE_BYTES, Line, MmioRequest, ReadBeat, WriteBeat};

const READ_LINES: usize = 8;
/// Longest read of the card.
pub(crate) const READ_BYTES: usize = READ_LINES * LINE_BYTES;

/// What went over the link.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PcieCounters {
    /// Read requests.
    pub reads: u64,
    /// Bytes they asked for.
    pub read_bytes: u64,
    /// Reads completed with an error.
    pub read_errors: u64,
    /// Reads that the host has lost.
    pub lost_reads: u64,
    /// Posted write transactions.
    pub writes: u64,
    /// Bytes enabled in them.
    pub write_bytes: u64,
    /// Interrupt messages.
    pub interrupts: u64,
    /// Register writes towards the card.
    pub mmio_writes: u64,
    /// Register reads towards the card.
    pub mmio_reads: u64,
}

/// What tells the host of earlier writes, and must not pass them.
enum Notice {
    Interrupt(Interrupt),
    MmioValue { id: u64, value: u32 },
}

/// One completion packet waiting for the link.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Completion {
    ready_at: u64,
    seq: u64,
    tag: u8,
    first_line: u8,
    lines: u8,
    bytes: u16,
    last: bool,
    err: bool,
}

/// The completion packet being handed to the card.
struct Delivery {
    completion: Completion,
    from_cycle: u64,
    done_lines: u8,
}

struct Slot {
    in_use: bool,
    data: [Line; READ_LINES],
}

/// The link of one card.
pub struct PcieModel {
    params: PcieParams,
    timing: Timing,
    up: Up,
    late: Late<Notice>,
    down_free_ticks: u64,
    completions: BinaryHeap<Reverse<Completion>>,
    delivery: Option<Delivery>,
    next_beat_cycle: u64,
    slots: Box<[Slot]>,
    tags_used: u16,
    seq: u64,
    burst: Option<(u64, bool)>,
    mmio: VecDeque<(u64, MmioRequest)>,
    mmio_pending: Box<[usize; 256]>,
    mmio_values: VecDeque<(u64, u32)>,
    random: u64,
    counters: PcieCounters,
}

impl PcieModel {
    /// A link at rest. `seed` decides the jitter of completions, if there is any.
    pub fn new(params: PcieParams, seed: u64) -> Result<Self, ParamError> {
        let timing = params.timing()?;
        Ok(Self {
            params,
            timing,
            up: Up::default(),
            late: Late::default(),
            down_free_ticks: 0,
            completions: BinaryHeap::new(),
            delivery: None,
            next_beat_cycle: 0,
            slots: (0..256)
                .map(|_| Slot {
                    in_use: false,
                    data: [Line::ZERO; READ_LINES],
                })
                .collect(),
            tags_used: 0,
            seq: 0,
            burst: None,
            mmio: VecDeque::new(),
            mmio_pending: Box::new([0; 256]),
            mmio_values: VecDeque::new(),
            random: seed ^ 0x9e37_79b9_7f4a_7c15,
            counters: PcieCounters::default(),
        })
    }

    /// What the link is.
    pub fn params(&self) -> &PcieParams {
        &self.params
    }

    /// From now on one read in so many is never answered; 0: none.
    pub fn lose_reads(&mut self, one_in: u32) {
        self.params.lost_read_one_in = one_in;
    }

    /// What went over it.
    pub fn counters(&self) -> &PcieCounters {
        &self.counters
    }

    // ---- Towards the host
    // ------------------------------------------------------------------------------------------

    /// The link takes a read request this cycle.
    #[inline]
    pub fn read_ready(&self, now: u64) -> bool {
        self.tags_used < self.params.max_tags && self.up.room(now, &self.timing)
    }

    /// The link takes a write beat this cycle.
    #[inline]
    pub fn write_ready(&self, now: u64) -> bool {
        self.up.room(now, &self.timing)
    }

    /// First cycle in which [`PcieModel::read_ready`] is true if nothing else happens; none while it needs a tag back.
    pub fn read_ready_cycle(&self) -> Option<u64> {
        (self.tags_used < self.params.max_tags).then(|| self.write_ready_cycle())
    }

    /// The same for [`PcieModel::write_ready`].
    pub fn write_ready_cycle(&self) -> u64 {
        self.up.room_cycle(&self.timing)
    }

    /// Takes a read request. Larger than the link's read request size: it goes as several, under the same
    /// tag.
    pub fn push_read(
        &mut self,
        now: u64,
        tag: u8,
        func: u8,
        addr: u64,
        len_bytes: u16,
    ) -> Result<(), Violation> {
        let in_block = (addr % READ_BYTES as u64) as usize + usize::from(len_bytes) <= READ_BYTES;
        if len_bytes == 0 || !in_block {
            return Err(Violation::ReadShape { addr, len_bytes });
        }
        let slot = &mut self.slots[usize::from(tag)];
        if std::mem::replace(&mut slot.in_use, true) {
            return Err(Violation::TagInUse { tag });
        }
        self.tags_used += 1;
        self.counters.reads += 1;
        self.counters.read_bytes += u64::from(len_bytes);
        let requests = u32::from(len_bytes).div_ceil(self.params.max_read_request_bytes);
        let read = Upstream::Read {
            tag,
            func,
            addr,
            len_bytes,
        };
        let bytes = requests * self.params.request_overhead_bytes;
        self.up.send(now, bytes, read, &self.timing);
        Ok(())
    }

    /// Takes a beat of the write stream.
    pub fn push_write(&mut self, now: u64, beat: &WriteBeat) -> Result<(), Violation> {
        let first = self.burst.is_none();
        if !beat.msix {
            let block_end = (beat.addr | 255).wrapping_add(1);
            match self.burst {
                Some((expected, open)) if !open || beat.addr != expected => {
                    return Err(Violation::Burst {
                        addr: beat.addr,
                        expected,
                    });
                }
                _ if !beat.addr.is_multiple_of(LINE_BYTES as u64) || beat.strb == 0 => {
                    return Err(Violation::WriteShape {
                        addr: beat.addr,
                        strb: beat.strb,
                    });
                }
                _ => {}
            }
            let next = beat.addr.wrapping_add(LINE_BYTES as u64);
            self.burst = (!beat.last).then_some((next, next != block_end));
        }
        let bytes = if beat.msix { 4 } else { line_bytes(beat.strb) };
        self.counters.writes += u64::from(first && !beat.msix);
        self.counters.interrupts += u64::from(beat.msix);
        self.counters.write_bytes += if beat.msix {
            0
        } else {
            u64::from(beat.strb.count_ones())
        };
        let overhead = if first || beat.msix {
            self.params.request_overhead_bytes
        } else {
            0
        };
        let write = Upstream::Write(*beat);
        self.up.send(now, overhead + bytes, write, &self.timing);
        Ok(())
    }

    /// Lets everything that has reached the host by now act on its memory, in order.
    #[inline]
    pub fn advance(&mut self, now: u64, host: &mut Host) {
        while let Some((at, item)) = self.up.take(now) {
            self.arrive(at, item, host);
        }
        if !self.late.is_empty() {
            self.catch_up(now, host);
        }
    }

    fn arrive(&mut self, at: u64, item: Upstream, host: &mut Host) {
        match item {
            Upstream::Write(beat) if beat.msix => {
                let vector = (beat.addr & 0x7ff) as u16;
                let func = beat.func;
                self.notify(func, Notice::Interrupt(Interrupt { func, vector }), host);
            }
            Upstream::Write(beat) => host.write_line(at, beat.func, beat.addr, &beat.data, beat.strb),
            Upstream::Read {
                tag,
                func,
                addr,
                len_bytes,
            } => {
                let request = Request {
                    at,
                    tag,
                    addr,
                    len_bytes,
                };
                self.read_memory(func, request, host);
            }
            Upstream::MmioValue { func, id, value } => {
                self.notify(func, Notice::MmioValue { id, value }, host);
            }
        }
    }

    /// A notice arrives behind what the card has written before.
    fn notify(&mut self, func: u8, notice: Notice, host: &mut Host) {
        match host.last_write(func) {
            Some(write) if !write.wait() => self.late.push_behind(write, notice),
            _ => self.deliver_notice(notice, host),
        }
    }

    fn deliver_notice(&mut self, notice: Notice, host: &mut Host) {
        match notice {
            Notice::Interrupt(interrupt) => host.interrupt(interrupt),
            Notice::MmioValue { id, value } => self.mmio_values.push_back((id, value)),
        }
    }

    /// Goes on with what waited for memory.
    fn catch_up(&mut self, now: u64, host: &mut Host) {
        while let Some(notice) = self.late.take_behind() {
            self.deliver_notice(notice, host);
        }
        while let Some((request, fetch)) = self.late.take_read(now) {
            let mut bytes = [0; READ_BYTES];
            let lanes = request.lanes();
            let read = fetch.finish(&mut bytes[lanes]);
            self.complete(request, read.map(|()| &bytes), now, host);
        }
    }

    fn read_memory(&mut self, func: u8, request: Request, host: &mut Host) {
        if self.loses() {
            self.release(request.tag);
            self.counters.lost_reads += 1;
            return;
        }
        let mut bytes = [0u8; READ_BYTES];
        match host.read(func, request.addr, &mut bytes[request.lanes()]) {
            Ok(Found::Now) => self.complete(request, Ok(&bytes), 0, host),
            Ok(Found::Later(fetch)) => {
                let due = request.at + self.timing.turnaround_cycles;
                self.late.push_read(request, due, fetch);
            }
            Err(fault) => self.complete(request, Err(fault), 0, host),
        }
    }

    /// A read has its bytes, or none, and is answered no earlier than in cycle `from_cycle`.
    fn complete(
        &mut self,
        request: Request,
        read: Result<&[u8; READ_BYTES], Fault>,
        from_cycle: u64,
        host: &mut Host,
    ) {
        let Request { at, tag, addr, .. } = request;
        let (lane, end) = (request.lanes().start, request.lanes().end);
        let ok = read.is_ok();
        match read {
            Ok(bytes) => {
                let slot_data = &mut self.slots[usize::from(tag)].data;
                for (line, chunk) in slot_data.iter_mut().zip(bytes.chunks_exact(LINE_BYTES)) {
                    line.0.copy_from_slice(chunk);
                }
            }
            Err(fault) => host.log(fault),
        }
        self.counters.read_errors += u64::from(!ok);
        let mut ready_at = from_cycle.max(at + self.timing.turnaround_cycles);
        let mut from = lane;
        while from < end {
            // Completions end at addresses that are multiples of the largest payload.
            let bus = addr as usize - lane + from;
            let payload = self.params.max_payload_bytes as usize;
            let to = if ok {
                end.min(from + payload - bus % payload)
            } else {
                end
            };
            ready_at = ready_at.max(at + self.timing.turnaround_cycles + self.jitter());
            self.seq += 1;
            self.completions.push(Reverse(Completion {
                ready_at,
                seq: self.seq,
                tag,
                first_line: (from / LINE_BYTES) as u8,
                lines: if ok {
                    (to.div_ceil(LINE_BYTES) - from / LINE_BYTES) as u8
                } else {
                    1
                },
                bytes: if ok { (to - from) as u16 } else { 0 },
                last: to == end,
                err: !ok,
            }));
            from = to;
        }
    }

    /// The next read gets no answer.
    fn loses(&mut self) -> bool {
        let one_in = u64::from(self.params.lost_read_one_in);
        one_in != 0 && self.draw().is_multiple_of(one_in)
    }

    /// The tag may be used again.
    fn release(&mut self, tag: u8) {
        self.slots[usize::from(tag)].in_use = false;
        self.tags_used -= 1;
    }

    fn jitter(&mut self) -> u64 {
        match self.timing.jitter_cycles {
            0 => 0,
            most => self.draw() % (most + 1),
        }
    }

    fn draw(&mut self) -> u64 {
        // splitmix64
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut x = self.random;
        x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        x ^ (x >> 31)
    }

    // ---- Towards the card
    // ------------------------------------------------------------------------------------------

    /// The completion beat for this cycle, if one is due. Call it at most once per cycle: the card always
    /// takes it.
    #[inline]
    pub fn poll_completion(&mut self, now: u64) -> Option<ReadBeat> {
        if self.delivery.is_none() {
            let Reverse(next) = self.completions.peek()?;
            if next.ready_at > now {
                return None;
            }
            let Reverse(completion) = self.completions.pop()?;
            let from_cycle = self.send_downstream(
                completion.ready_at,
                self.params.completion_overhead_bytes + u32::from(completion.bytes),
            );
            self.delivery = Some(Delivery {
                completion,
                from_cycle,
                done_lines: 0,
            });
        }
        let delivery = self
            .delivery
            .as_mut()
            .filter(|d| d.from_cycle <= now && self.next_beat_cycle <= now)?;
        let completion = delivery.completion;
        let line = completion.first_line + delivery.done_lines;
        delivery.done_lines += 1;
        let end = delivery.done_lines == completion.lines;
        self.next_beat_cycle = now + 1;
        let slot = &mut self.slots[usize::from(completion.tag)];
        let data = slot.data[usize::from(line)];
        if end {
            self.delivery = None;
            if completion.last {
                self.release(completion.tag);
            }
        }
        Some(ReadBeat {
            tag: completion.tag,
            last: end && completion.last,
            err: completion.err,
            data,
        })
    }

    /// Link time of `bytes` towards the card; returns the cycle in which the last of them is there.
    fn send_downstream(&mut self, ready_at: u64, bytes: u32) -> u64 {
        let start = self.down_free_ticks.max(ready_at * TICKS_PER_CYCLE);
        self.down_free_ticks = start + self.timing.ticks(bytes);
        self.down_free_ticks.div_ceil(TICKS_PER_CYCLE)
    }

    /// The processor writes or reads a register.
    pub fn push_mmio(&mut self, now: u64, request: MmioRequest) {
        match request {
            MmioRequest::Write { .. } => self.counters.mmio_writes += 1,
            MmioRequest::Read { .. } => self.counters.mmio_reads += 1,
        }
        self.mmio_pending[usize::from(request.func())] += 1;
        self.mmio.push_back((now + self.timing.mmio_cycles, request));
    }

    /// The processor has written a register that the card has not: nothing comes of it.
    #[inline]
    pub fn count_mmio_write(&mut self) {
        self.counters.mmio_writes += 1;
    }

    /// The oldest register access that has reached the card.
    #[inline]
    pub fn mmio_front(&self, now: u64) -> Option<&MmioRequest> {
        self.mmio
            .front()
            .filter(|(at, _)| *at <= now)
            .map(|(_, request)| request)
    }

    /// The card has taken it.
    pub fn mmio_taken(&mut self) -> Option<MmioRequest> {
        let (_, request) = self.mmio.pop_front()?;
        self.mmio_pending[usize::from(request.func())] -= 1;
        Some(request)
    }

    /// Register accesses of a function that are on their way or waiting.
    pub fn mmio_pending(&self, func: u8) -> usize {
        self.mmio_pending[usize::from(func)]
    }

    /// The card answers a register read. The value pushes earlier writes ahead of it.
    pub fn push_mmio_value(&mut self, now: u64, func: u8, id: u64, value: u32) {
        let bytes = self.params.completion_overhead_bytes + 4;
        let value = Upstream::MmioValue { func, id, value };
        self.up.send(now, bytes, value, &self.timing);
    }

    /// A register value that has reached the processor: the id of the request, and the value.
    pub fn take_mmio_value(&mut self) -> Option<(u64, u32)> {
        self.mmio_values.pop_front()
    }

    // ---- Time
    // ------------------------------------------------------------------------------------------------------

    /// The next cycle at which something happens by itself; none when the link is at rest.
    #[inline]
    pub fn next_event(&self) -> Option<u64> {
        let up = self.up.next_event();
        let mmio = self.mmio.front().map(|(at, _)| *at);
        let late = self.late.next_event();
        earlier(earlier(up, mmio), earlier(late, self.next_completion()))
    }

    /// The memory of a client has yet to answer.
    pub fn waits_for_memory(&self) -> bool {
        !self.late.is_empty()
    }

    #[inline]
    fn next_completion(&self) -> Option<u64> {
        match &self.delivery {
            Some(delivery) => Some(delivery.from_cycle.max(self.next_beat_cycle)),
            None => self.completions.peek().map(|Reverse(next)| next.ready_at),
        }
    }

    /// Reads in flight.
    pub fn tags_used(&self) -> u16 {
        self.tags_used
    }
}

/// The earlier of two cycles that may come.
#[inline]
pub fn earlier(a: Option<u64>, b: Option<u64>) -> Option<u64> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (a, b) => a.or(b),
    }
}

/// Bytes a write of these enables puts on the link: whole double words from the first to the last enabled.
fn line_bytes(strb: u64) -> u32 {
    if strb == 0 {
        return 0;
    }
    let first = strb.trailing_zeros() / 4;
    let last = (63 - strb.leading_zeros()) / 4;
    (last - first + 1) * 4
}
