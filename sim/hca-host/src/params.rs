use serde::{Deserialize, Serialize};
use thiserror::Error;

/// The PCIe link and root complex a card sits on. Every performance report states these.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct PcieParams {
    /// The card's clock, in MHz: 1000 divided by it is the cycle time in ns.
    pub clock_mhz: u32,
    /// Raw bandwidth in each direction, in MB/s (10^6 bytes).
    pub bandwidth_mbps: u32,
    /// From the request for one 64-byte line to its data, at the card, link idle.
    pub read_latency_ns: u32,
    /// From a posted write at the card to its visibility in memory, beyond its own time on the link.
    pub write_latency_ns: u32,
    /// From the processor's store or load of a register to the card's port; a load's value travels back as
    /// long.
    pub mmio_latency_ns: u32,
    /// Largest payload of one transaction layer packet.
    pub max_payload_bytes: u32,
    /// Largest read request.
    pub max_read_request_bytes: u32,
    /// Bytes on the link besides the payload of a write, or for a whole read request: header, framing, LCRC
    /// and a share of the link's own packets.
    pub request_overhead_bytes: u32,
    /// The same for a completion with data.
    pub completion_overhead_bytes: u32,
    /// Reads in flight.
    pub max_tags: u16,
    /// Bytes of writes and requests the card side of the link buffers before it pushes back.
    pub upstream_buffer_bytes: u32,
    /// Completions may take this much longer, at random by the seed, and so overtake each other between tags.
    pub read_jitter_ns: u32,
    /// Bytes of writes and requests that the host lets arrive before it has taken the first of them: the link's
    /// flow-control credits. A host that takes nothing stops the card when they are used up.
    pub host_buffer_bytes: u32,
    /// One read in so many, at random by the seed, is never answered; 0: none. The card ends it after 16.8 to 33.6 ms.
    pub lost_read_one_in: u32,
    /// For so long in every `stall_every_ns` the host takes nothing: what arrives meanwhile waits, in order.
    pub stall_ns: u32,
    /// From the start of one stall to the start of the next; 0: there are none.
    pub stall_every_ns: u32,
}

impl Default for PcieParams {
    /// Gen4 x8-like.
    fn default() -> Self {
        Self {
            clock_mhz: 250,
            bandwidth_mbps: 16_000,
            read_latency_ns: 500,
            write_latency_ns: 200,
            mmio_latency_ns: 200,
            max_payload_bytes: 256,
            max_read_request_bytes: 512,
            request_overhead_bytes: 28,
            completion_overhead_bytes: 24,
            max_tags: 256,
            upstream_buffer_bytes: 1024,
            read_jitter_ns: 0,
            host_buffer_bytes: 16 << 10,
            lost_read_one_in: 0,
            stall_ns: 0,
            stall_every_ns: 0,
        }
    }
}

/// Parameters that cannot be simulated.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum ParamError {
    /// A value outside its limits.
    #[error("PCIe parameter {name} = {value} is outside {min}..={max}")]
    Range {
        /// Field of [`PcieParams`].
        name: &'static str,
        /// Its value.
        value: u32,
        /// Smallest value allowed.
        min: u32,
        /// Largest value allowed.
        max: u32,
    },
    /// A size that PCIe does not know.
    #[error("PCIe parameter {name} = {value} is not a power of two")]
    PowerOfTwo {
        /// Field of [`PcieParams`].
        name: &'static str,
        /// Its value.
        value: u32,
    },
    /// The latencies contradict each other.
    #[error(
        "PCIe read_latency_ns = {read_ns} is below write_latency_ns plus the time on the link ({least_ns} ns)"
    )]
    Latency {
        /// What was asked.
        read_ns: u32,
        /// The least that works.
        least_ns: u32,
    },
}

/// Each part of a read's way. The card uses a tag again 67 ms after its read began at the earliest, answered or not: an
/// answer that came later would be taken for another read's.
const SLOWEST_NS: u32 = 15_000_000;

/// Parts of a cycle in which link time is counted.
pub(crate) const TICKS_PER_CYCLE: u64 = 4096;

/// The parameters in cycles and ticks.
#[derive(Clone, Debug)]
pub(crate) struct Timing {
    pub one_way_cycles: u64,
    pub turnaround_cycles: u64,
    pub mmio_cycles: u64,
    pub jitter_cycles: u64,
    pub buffer_ticks: u64,
    /// Bytes that may be on the link and in the host's buffer.
    pub credit_bytes: u64,
    stall_cycles: u64,
    stall_every_cycles: u64,
    /// Ticks per byte times 2^16.
    byte_ticks_x64k: u64,
}

impl Timing {
    pub fn ticks(&self, bytes: u32) -> u64 {
        (u64::from(bytes) * self.byte_ticks_x64k) >> 16
    }

    /// When the host takes what arrives at `cycle`: at once, or at the end of its stall.
    pub fn taken_at(&self, cycle: u64) -> u64 {
        match cycle.checked_rem(self.stall_every_cycles) {
            Some(into) if into < self.stall_cycles => cycle - into + self.stall_cycles,
            _ => cycle,
        }
    }
}

impl PcieParams {
    /// Cycles (rounded up) of a time.
    pub fn cycles(&self, ns: u64) -> u64 {
        (ns * u64::from(self.clock_mhz)).div_ceil(1000)
    }

    /// Nanoseconds of a number of cycles.
    pub fn ns(&self, cycles: u64) -> u64 {
        (u128::from(cycles) * 1000 / u128::from(self.clock_mhz.max(1))) as u64
    }

    pub(crate) fn timing(&self) -> Result<Timing, ParamError> {
        let limits = [
            ("clock_mhz", self.clock_mhz, 1, 10_000),
            ("bandwidth_mbps", self.bandwidth_mbps, 100, 1_000_000),
            ("max_payload_bytes", self.max_payload_bytes, 64, 4096),
            ("max_read_request_bytes", self.max_read_request_bytes, 64, 512),
            ("max_tags", u32::from(self.max_tags), 1, 256),
            ("upstream_buffer_bytes", self.upstream_buffer_bytes, 512, 1 << 20),
            ("request_overhead_bytes", self.request_overhead_bytes, 0, 256),
            (
                "completion_overhead_bytes",
                self.completion_overhead_bytes,
                0,
                256,
            ),
            ("host_buffer_bytes", self.host_buffer_bytes, 512, 1 << 24),
            ("lost_read_one_in", self.lost_read_one_in, 0, u32::MAX),
            ("read_latency_ns", self.read_latency_ns, 0, SLOWEST_NS),
            ("write_latency_ns", self.write_latency_ns, 0, SLOWEST_NS),
            ("mmio_latency_ns", self.mmio_latency_ns, 0, 1_000_000_000),
            ("read_jitter_ns", self.read_jitter_ns, 0, SLOWEST_NS),
            ("stall_every_ns", self.stall_every_ns, 0, 1_000_000_000),
            ("stall_ns", self.stall_ns, 0, SLOWEST_NS.min(self.stall_every_ns)),
        ];
        for (name, value, min, max) in limits {
            if !(min..=max).contains(&value) {
                return Err(ParamError::Range {
                    name,
                    value,
                    min,
                    max,
                });
            }
        }
        for (name, value) in [
            ("max_payload_bytes", self.max_payload_bytes),
            ("max_read_request_bytes", self.max_read_request_bytes),
        ] {
            if !value.is_power_of_two() {
                return Err(ParamError::PowerOfTwo { name, value });
            }
        }
        // bytes per cycle = MB/s / MHz
        let byte_ticks_x64k =
            (TICKS_PER_CYCLE << 16) * u64::from(self.clock_mhz) / u64::from(self.bandwidth_mbps);
        let mut timing = Timing {
            one_way_cycles: self.cycles(u64::from(self.write_latency_ns)),
            turnaround_cycles: 0,
            mmio_cycles: self.cycles(u64::from(self.mmio_latency_ns)),
            jitter_cycles: self.cycles(u64::from(self.read_jitter_ns)),
            buffer_ticks: 0,
            credit_bytes: u64::from(self.host_buffer_bytes)
                + u64::from(self.bandwidth_mbps) * u64::from(self.write_latency_ns) / 1000,
            stall_cycles: self.cycles(self.stall_ns.into()),
            stall_every_cycles: self.cycles(self.stall_every_ns.into()),
            byte_ticks_x64k,
        };
        timing.buffer_ticks = timing.ticks(self.upstream_buffer_bytes);
        let link_cycles = timing
            .ticks(self.request_overhead_bytes)
            .div_ceil(TICKS_PER_CYCLE)
            + timing
                .ticks(self.completion_overhead_bytes + 64)
                .div_ceil(TICKS_PER_CYCLE);
        let least = timing.one_way_cycles + link_cycles;
        let read = self.cycles(u64::from(self.read_latency_ns));
        timing.turnaround_cycles = read.checked_sub(least).ok_or(ParamError::Latency {
            read_ns: self.read_latency_ns,
            least_ns: self.ns(least) as u32,
        })?;
        Ok(timing)
    }
}
