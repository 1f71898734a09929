//! Reads and writes of host memory, and register writes by the host.

use std::collections::{BTreeMap, VecDeque};

use hca_abi::{DOORBELL_PAGE_OFFSET, SQ_DOORBELL_OFFSET, SqDoorbell};
use hca_cosim::CardPorts;

use crate::sink::Sink;
use crate::track::CardTracks;

/// PCIe tags of a card.
const TAGS: usize = 256;
/// Beats between two places of the write path; more than there can be.
const IN_PIPELINE: usize = 4096;
/// Clients of the write path, as the trace port numbers them.
const WRITERS: [&str; 4] = ["payload", "completion", "event", "firmware"];

/// A read that is not answered.
#[derive(Clone, Copy)]
struct Read {
    at: u64,
    func: u8,
    addr: u64,
    len_bytes: u16,
    name: &'static str,
}

/// A burst of a write of which some beats have gone.
#[derive(Clone, Copy)]
struct Burst {
    first: u64,
    func: u8,
    addr: u64,
    beats: u32,
    writer: Option<u8>,
}

/// The host side of a card.
pub(crate) struct Pcie {
    /// Send rings by function and bus address: length in bytes.
    rings: BTreeMap<(u8, u64), u64>,
    reads: Vec<Option<Read>>,
    num_reads: u32,
    shown_reads: u32,
    next_id: u64,
    burst: Option<Burst>,
    /// Clients of the beats between write mux and host port.
    writers: VecDeque<u8>,
}

impl Pcie {
    pub fn new(card: u64) -> Self {
        Self {
            rings: BTreeMap::new(),
            reads: vec![None; TAGS],
            num_reads: 0,
            shown_reads: 0,
            // Numbers of different cards differ.
            next_id: card << 48,
            burst: None,
            writers: VecDeque::new(),
        }
    }

    /// A send queue is there.
    pub fn ring(&mut self, func: u8, base: u64, len_bytes: u64) {
        self.rings.insert((func, base), len_bytes);
    }

    /// A beat of this client entered the write path.
    pub fn write_taken(&mut self, client: u8) {
        if self.writers.len() == IN_PIPELINE {
            self.writers.pop_front();
        }
        self.writers.push_back(client);
    }

    /// One cycle. Returns the send doorbell in it: queue pair and index.
    pub fn cycle(&mut self, now: u64, ports: &CardPorts, out: (&Sink, CardTracks)) -> Option<(u32, u8, u32)> {
        if ports.hrd_req_valid_o.get() & ports.hrd_req_ready_i.get() != 0 {
            self.read_asked(now, ports);
        }
        if ports.hrd_rsp_valid_i.get() & ports.hrd_rsp_last_i.get() != 0 {
            let failed = ports.hrd_rsp_err_i.get() != 0;
            self.read_arrived(now, ports.hrd_rsp_tag_i.get(), failed, out);
        }
        if self.num_reads != self.shown_reads {
            self.shown_reads = self.num_reads;
            let (sink, tracks) = out;
            let series = format_args!(r#""reads":{}"#, self.num_reads);
            sink.counter(tracks.card(), &"PCIe reads in flight", now, series);
        }
        if ports.hwr_valid_o.get() & ports.hwr_ready_i.get() != 0 {
            self.written(now, ports, out);
        }
        if ports.mmio_wr_valid_i.get() & ports.mmio_wr_ready_o.get() != 0 {
            return register_written(now, ports, out);
        }
        None
    }

    fn read_asked(&mut self, now: u64, ports: &CardPorts) {
        let (func, addr) = (ports.hrd_req_func_o.get(), ports.hrd_req_addr_o.get());
        let ring = self.rings.range(..=(func, addr)).next_back();
        let is_wqe = ring.is_some_and(|((f, base), len)| *f == func && addr - base < *len);
        let tag = &mut self.reads[usize::from(ports.hrd_req_tag_o.get())];
        self.num_reads += u32::from(tag.is_none());
        *tag = Some(Read {
            at: now,
            func,
            addr,
            len_bytes: ports.hrd_req_len_o.get(),
            name: if is_wqe { "PCIe read, WQE" } else { "PCIe read" },
        });
    }

    fn read_arrived(&mut self, now: u64, tag: u8, failed: bool, (sink, tracks): (&Sink, CardTracks)) {
        let Some(read) = self.reads[usize::from(tag)].take() else {
            return;
        };
        self.num_reads -= 1;
        self.next_id += 1;
        let Read {
            func,
            addr,
            len_bytes,
            ..
        } = read;
        sink.overlapping(
            tracks.card(),
            self.next_id,
            read.name,
            (read.at, now + 1),
            format_args!(
                r#""addr":"{addr:#x}","bytes":{len_bytes},"func":{func},"tag":{tag},"failed":{failed}"#
            ),
        );
    }

    /// A beat to the host.
    fn written(&mut self, now: u64, ports: &CardPorts, (sink, tracks): (&Sink, CardTracks)) {
        let writer = self.writers.pop_front();
        let burst = self.burst.get_or_insert_with(|| Burst {
            first: now,
            func: ports.hwr_func_o.get(),
            addr: ports.hwr_addr_o.get(),
            beats: 0,
            writer,
        });
        burst.beats += 1;
        let is_message = ports.hwr_msix_o.get() != 0;
        if ports.hwr_last_o.get() == 0 && !is_message {
            return;
        }
        let burst = *burst;
        self.burst = None;
        let writer = burst
            .writer
            .and_then(|client| WRITERS.get(usize::from(client)).copied());
        let name = if is_message {
            "MSI-X"
        } else {
            writer.unwrap_or("write")
        };
        let Burst {
            first,
            func,
            addr,
            beats,
            ..
        } = burst;
        sink.slice(
            tracks.writes(),
            &name,
            first,
            now + 1,
            format_args!(r#""addr":"{addr:#x}","beats":{beats},"func":{func}"#),
        );
    }
}

fn register_written(
    now: u64,
    ports: &CardPorts,
    (sink, tracks): (&Sink, CardTracks),
) -> Option<(u32, u8, u32)> {
    let (addr, func) = (ports.mmio_wr_addr_i.get(), ports.mmio_wr_func_i.get());
    let track = tracks.doorbells();
    if u32::from(addr) != DOORBELL_PAGE_OFFSET + SQ_DOORBELL_OFFSET {
        let args = format_args!(r#""offset":"{addr:#x}","func":{func}"#);
        let is_doorbell = u32::from(addr) >= DOORBELL_PAGE_OFFSET;
        let name = if is_doorbell { "other doorbell" } else { "register" };
        sink.instant(track, &name, now, args);
        return None;
    }
    let doorbell = SqDoorbell::from_word(ports.mmio_wr_data_i.get());
    let (qpn, producer) = (doorbell.qpn(), doorbell.producer_index());
    let args = format_args!(r#""qp":"{qpn:#x}","producer_index":{producer},"func":{func}"#);
    sink.instant(track, &"send doorbell", now, args);
    Some((qpn, func, producer))
}
