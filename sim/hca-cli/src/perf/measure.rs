//! The measurement itself.

use anyhow::{Result, bail};
use hca_dev::DmaBuf;
use hca_host::PcieParams;
use hca_system_tests::{Dev, Place, Rig, RigConfig, RigError, Rng, connect};
use hca_verbs::{
    Access, Ah, ConnectOptions, Datagram, Flow, Flush, Mr, PageSize, QpCap, QpOptions, RawQp, RecvWr,
    SendFlags, SendOp, SendWr, Service, Srq, WcStatus, WorkCompletion, WrData,
};
use std::rc::Rc;
use std::time::Instant;

use super::{Args, Figures, INLINE_BYTES_MAX, Op, Region, Share, datagrams, frames, internal};
use crate::files;
use crate::options::Link;
use crate::samples::Samples;
use crate::stages::Breakdown;
use crate::waveforms::{self, Waveform};

/// Isolated messages whose latency is measured, and those before them.
const LATENCY_ITERS: u32 = 64;
const LATENCY_WARM_UP: u32 = 4;
/// A completion that takes longer is lost.
const COMPLETION_LIMIT_NS: u64 = 2_000_000_000;
/// In which a card reads the first lines of a shared queue's list.
const SRQ_LIST_CYCLES: u64 = 1_000;
/// Port events of an isolated message: enough for one of 16 MiB.
const STAMPS: usize = 1 << 20;
/// Work requests whose stages are kept: those of the longest phase, of one QP.
const STAGED: usize = 1 << 16;
/// Work requests per doorbell.
const BATCH: u32 = 32;
const POLL_BATCH: usize = 64;
/// What peers may do.
pub const RIGHTS: Access = Access::from_bits(
    Access::LOCAL_WRITE.bits()
        | Access::REMOTE_WRITE.bits()
        | Access::REMOTE_READ.bits()
        | Access::REMOTE_ATOMIC.bits()
        | Access::FLUSH_GLOBAL.bits(),
);

/// A stream's part of its card's buffer: whole pages.
fn buffer_bytes(largest: u32) -> u64 {
    u64::from(largest.max(1) + datagrams::HEADER_BYTES).next_multiple_of(4096)
}

/// One connection.
struct Stream {
    /// What leads frames to their QP; it goes before the QPs do.
    _rule: Option<Flow<Dev>>,
    qps: [RawQp<Dev>; 2],
    /// Where datagrams go.
    way: Option<Ah<Dev>>,
    /// At card 0: source of writes and sends, target of reads. At card 1: the other end.
    mrs: [Rc<Mr<Dev>>; 2],
    /// Where in them.
    offset: u64,
    posted: u32,
    completed: u32,
}

/// What a run posts, and with --in-flight how many of its messages have had their turn.
struct Load {
    size: u32,
    outstanding: u32,
    total: u32,
    turns: u64,
}

/// Completed messages of each stream at the ends of the time in which all are busy.
#[derive(Default)]
struct Shares {
    start: Option<(u64, Vec<u32>)>,
    end: Option<(u64, Vec<u32>)>,
}

impl Shares {
    /// To be called after each completion of the window. A stream that has posted everything soon runs dry, and leaves
    /// the others its share.
    fn look(&mut self, now_ns: u64, streams: &[Stream], total: u32) {
        let counts = || streams.iter().map(|stream| stream.completed).collect();
        if self.start.is_none() {
            self.start = Some((now_ns, counts()));
        } else if self.end.is_none() && streams.iter().any(|stream| stream.posted == total) {
            self.end = Some((now_ns, counts()));
        }
    }

    /// Of each service level, in the order in which they were named. Empty when the time was too short to tell.
    fn goodput(&self, args: &Args, size: u32) -> Vec<Share> {
        let (Some((from, before)), Some((to, after))) = (&self.start, &self.end) else {
            return Vec::new();
        };
        if from == to {
            return Vec::new();
        }
        let mut shares: Vec<Share> = Vec::new();
        for (index, (before, after)) in (0..).zip(before.iter().zip(after)) {
            let sl = args.sl_of(index);
            let goodput_bytes_per_s = f64::from(after - before) * f64::from(size) * 1e9 / (to - from) as f64;
            match shares.iter_mut().find(|share| share.sl == sl) {
                Some(share) => share.goodput_bytes_per_s += goodput_bytes_per_s,
                None => shares.push(Share {
                    sl,
                    goodput_bytes_per_s,
                }),
            }
        }
        shares
    }
}

/// Two cards and their connections, for all sizes of a sweep.
pub struct Bench<'a> {
    args: &'a Args,
    link: Link,
    rig: Rig,
    config: RigConfig,
    streams: Vec<Stream>,
    /// Of all streams, at each card: a mapping for each would be too many.
    buffers: [DmaBuf; 2],
    /// Where all receive.
    srq: Option<Srq<Dev>>,
    /// At card 1, and what chooses places in it.
    region: Option<(Mr<Dev>, Rng)>,
    inline: Vec<u8>,
    /// Work requests not recorded so far.
    overflow: u64,
    wall: Instant,
}

impl<'a> Bench<'a> {
    /// Connects everything, over ports of one personality.
    pub fn new(args: &'a Args, link: Link) -> Result<Self> {
        let sizes = &args.size.0;
        let largest = sizes.iter().copied().max().unwrap_or(0);
        let messages = sizes
            .iter()
            .map(|size| args.iters(*size) + args.outstanding(*size))
            .max()
            .unwrap_or(1);
        let messages = messages.max(LATENCY_ITERS + LATENCY_WARM_UP);
        let depth = sizes
            .iter()
            .map(|size| args.outstanding(*size))
            .max()
            .unwrap_or(1);
        let cqe = args.qps * if args.op.takes_receives() { messages } else { depth };
        let config = RigConfig {
            faults: args.faults,
            switches: args.switches,
            pcie: args.pcie.over(&PcieParams::default()),
            cqe: cqe.max(64),
            stages: if args.stages { STAGED } else { 0 },
            waveforms: waveforms::config(&args.plot, args.trace),
            timeline: args.timeline.wanted(),
            rate_bits_per_s: args.rate_bits_per_s(),
            // The whole card for one client.
            functions: 1,
            threads: args.machine.threads,
            ..RigConfig::new(args.seed, link.into())
        };
        if args.trace.is_some() {
            files::make_dir(&args.plot)?;
        }
        args.machine.cards.need_cycles("perf")?;
        args.machine.cards.apply();
        let rig = Rig::new(&config)?;
        for node in &rig.nodes {
            args.arbitration.apply(&node.context)?;
        }
        let bytes = (u64::from(args.qps) * buffer_bytes(largest)) as usize;
        let mut bench = Self {
            args,
            link,
            buffers: [rig.nodes[0].alloc(bytes)?, rig.nodes[1].alloc(bytes)?],
            rig,
            config,
            streams: Vec::new(),
            srq: None,
            region: None,
            inline: vec![0x5a; INLINE_BYTES_MAX as usize],
            overflow: 0,
            wall: Instant::now(),
        };
        let cap = QpCap {
            max_send_wr: depth,
            max_recv_wr: if args.op.takes_receives() { messages } else { 1 },
            max_inline_data: if args.inline { args.inline_bytes_max() } else { 0 },
            // The masks of a compare and swap stand behind its entry.
            max_send_sge: if args.op == Op::MaskedCmpSwap {
                3
            } else {
                QpCap::default().max_send_sge
            },
            ..QpCap::default()
        };
        if args.srq {
            bench.srq = Some(bench.rig.nodes[1].pd.create_srq(args.qps * messages, 1)?);
        }
        bench.region = args
            .region
            .map(|bytes| Ok::<_, anyhow::Error>((bench.register(bytes)?, Rng::new(args.seed, "places"))))
            .transpose()?;
        for index in 0..args.qps {
            let stream = bench.connect(cap, index, largest)?;
            bench.streams.push(stream);
        }
        Ok(bench)
    }

    /// The PCIe model's parameters.
    pub fn pcie(&self) -> &PcieParams {
        &self.config.pcie
    }

    /// Simulated nanoseconds and real seconds so far.
    pub fn times(&self) -> (u64, f64) {
        (self.rig.now_ns(), self.wall.elapsed().as_secs_f64())
    }

    /// The cards and what joins them.
    pub fn rig(&self) -> &Rig {
        &self.rig
    }

    /// Ends timeline and waveforms, if there are any.
    pub fn end(&mut self) -> Result<Vec<Waveform>> {
        self.rig.close_timeline()?;
        waveforms::end(&mut self.rig)
    }

    fn connect(&self, cap: QpCap, index: u32, largest: u32) -> Result<Stream> {
        let path = self.args.path(self.link, index);
        let bytes = buffer_bytes(largest);
        let (qps, way, rule) = match self.args.op {
            Op::Datagram => {
                let joined = datagrams::join(&self.rig, cap, &path, self.srq.as_ref())?;
                (joined.qps, Some(joined.way), None)
            }
            Op::Raw => {
                let source = (&self.buffers[0], u64::from(index) * bytes);
                let joined = frames::join(&self.rig, cap, index, self.srq.as_ref(), source)?;
                (joined.qps, None, Some(joined.rule))
            }
            _ => (self.connected(cap, &path)?, None, None),
        };
        let mr = |node: usize| -> Result<Rc<Mr<Dev>>> {
            let buf = &self.buffers[node];
            if self.one_region()
                && let Some(first) = self.streams.first()
            {
                return Ok(first.mrs[node].clone());
            }
            let whole = Place::whole(buf, RIGHTS, ((node as u64 + 1) << 44) + (u64::from(index) << 32));
            let own = Place {
                offset: u64::from(index) * bytes,
                len: bytes,
                ..whole
            };
            let place = if self.one_region() { whole } else { own };
            Ok(Rc::new(self.rig.nodes[node].register(buf, place)?))
        };
        Ok(Stream {
            qps,
            way,
            _rule: rule,
            mrs: [mr(0)?, mr(1)?],
            offset: if self.one_region() {
                u64::from(index) * bytes
            } else {
                0
            },
            posted: 0,
            completed: 0,
        })
    }

    /// All streams are in one region: the card keeps 256 keys, and it is not keys that are measured.
    fn one_region(&self) -> bool {
        self.args.qps > 200
    }

    fn connected(&self, cap: QpCap, path: &ConnectOptions) -> Result<[RawQp<Dev>; 2]> {
        let service = self.args.op.service();
        let Some(srq) = &self.srq else {
            return Ok(self.rig.connect_as(service, [cap; 2], [false; 2], path)?);
        };
        let [a, b] = &self.rig.nodes;
        let receiver = QpOptions {
            service,
            cap,
            srq: Some(srq),
            ..QpOptions::new(&b.cq, &b.cq)
        };
        let mut qps = [
            a.create_qp_of(service, cap, false)?,
            b.pd.create_raw_qp(&receiver)?,
        ];
        connect(&mut qps, path)?;
        Ok(qps)
    }

    /// The region of --region.
    fn register(&self, bytes: u64) -> Result<Mr<Dev>> {
        let node = &self.rig.nodes[1];
        let buf = node.alloc(bytes as usize)?;
        let page = self.args.page.unwrap_or(1);
        let place = Place {
            page_size: match self.args.page {
                None => PageSize::Direct,
                Some(page) => PageSize::Shift(page.trailing_zeros() as u8),
            },
            len: bytes,
            // Low bits as on the bus, so that pages fit.
            ..Place::whole(&buf, RIGHTS, 3 << 44 | buf.iova() & (page - 1))
        };
        Ok(node.register(&buf, place)?)
    }

    /// Lines of page lists that card 1 has read.
    fn list_reads(&self) -> u64 {
        self.rig.sim.fabric().card(self.rig.cards[1]).page_list_reads()
    }

    /// All figures of one size.
    pub fn measure(&mut self, size: u32) -> Result<Figures> {
        let (wall, start_cycle) = (Instant::now(), self.rig.now_cycles());
        let before = self.retransmitted()?;
        let (outstanding, iters) = (self.args.outstanding(size), self.args.iters(size));
        self.stages("");
        let list_reads = self.list_reads();
        let (messages, ns, shares) = self.throughput(size, outstanding, iters)?;
        let list_reads = self.list_reads() - list_reads;
        let posted = u64::from(outstanding + iters) * u64::from(self.args.qps);
        let loaded = self.stages("loaded");
        let retransmitted_packets = self.retransmitted()? - before;
        let (latency, card_cycles) = self.latency(size)?;
        let stages = self
            .stages("alone")
            .zip(loaded)
            .map(|(alone, loaded)| [alone, loaded]);
        let messages_per_s = messages as f64 * 1e9 / ns.max(1) as f64;
        let wall_s = wall.elapsed().as_secs_f64().max(1e-9);
        Ok(Figures {
            op: self.args.op,
            size_bytes: size,
            qps: self.args.qps,
            mtu: self.args.mtu,
            link: self.link.to_string(),
            rate_gbps: self.args.rate,
            goodput_bytes_per_s: messages_per_s * f64::from(size),
            messages_per_s,
            latency_p50_ns: latency.percentile_ns(50),
            latency_p99_ns: latency.percentile_ns(99),
            card_internal_cycles: card_cycles.total,
            card_cycles_to_wire: card_cycles.to_wire,
            sim_cycles_per_wall_s: (self.rig.now_cycles() - start_cycle) as f64 / wall_s,
            iters,
            outstanding,
            inline: self.args.inline,
            signal_every: self.args.signal_every,
            faults: self.args.faults.to_string(),
            seed: self.args.seed,
            retransmitted_packets,
            region: self.args.region.map(|bytes| Region {
                bytes,
                page_bytes: self.args.page,
                list_reads_per_message: list_reads as f64 / posted as f64,
            }),
            by_sl: shares.goodput(self.args, size),
            pcie: self.config.pcie.clone(),
            stages,
        })
    }

    /// Stages of the work requests since the last call.
    fn stages(&mut self, phase: &'static str) -> Option<Breakdown> {
        let log = self.rig.stages.as_ref()?;
        let overflow = log.counts().overflow;
        let not_recorded = overflow - std::mem::replace(&mut self.overflow, overflow);
        Some(Breakdown::new(
            phase,
            &log.take(),
            not_recorded,
            &self.config.pcie,
        ))
    }

    fn retransmitted(&self) -> Result<u64> {
        let mut sum = 0;
        for node in &self.rig.nodes {
            sum += node.context.query_counters(1)?.retransmitted_packets();
        }
        Ok(sum)
    }

    /// Messages completed in the window, its length, and what each stream had of the time when all were busy.
    fn throughput(&mut self, size: u32, outstanding: u32, iters: u32) -> Result<(u64, u64, Shares)> {
        let (warm_up, total) = (outstanding, outstanding + iters);
        let mut load = Load {
            size,
            outstanding,
            total,
            turns: 0,
        };
        self.start(self.streams.len(), size, total)?;
        self.refill((0..self.streams.len()).collect(), &mut load, 0)?;
        let streams = self.streams.len() as u64;
        let (mut window, mut messages) = (None, 0);
        let mut end_ns = self.rig.now_ns();
        let mut shares = Shares::default();
        while messages < streams * u64::from(total) {
            let (changed, completed) = self.collect()?;
            messages += completed;
            end_ns = self.rig.now_ns();
            if window.is_none() && messages >= streams * u64::from(warm_up) {
                window = Some((messages, end_ns));
            }
            if window.is_some() {
                shares.look(end_ns, &self.streams, total);
            }
            self.refill(changed, &mut load, messages)?;
        }
        self.drain(u64::from(total) * streams)?;
        let (first, start_ns) = window.unwrap_or((0, end_ns));
        Ok((messages - first, end_ns - start_ns, shares))
    }

    /// Posts what may follow: on the streams that got completions, or with --in-flight on whose turn it is.
    fn refill(&mut self, changed: Vec<usize>, load: &mut Load, completed: u64) -> Result<()> {
        let Some(in_flight) = self.args.in_flight else {
            for index in changed {
                self.top_up(
                    index,
                    load.size,
                    load.outstanding,
                    load.total,
                    self.args.signal_every,
                )?;
            }
            return Ok(());
        };
        let streams = self.streams.len() as u64;
        let last = (completed + u64::from(in_flight)).min(streams * u64::from(load.total));
        while load.turns < last {
            let (round, index) = ((load.turns / streams) as u32, (load.turns % streams) as usize);
            if self.streams[index].completed < round {
                break; // its turn, and its last message is not done: all wait for it
            }
            self.top_up(index, load.size, 1, round + 1, 1)?;
            load.turns += 1;
        }
        Ok(())
    }

    /// Latencies of isolated messages on the first stream, and the cycles one of them spends in the cards.
    fn latency(&mut self, size: u32) -> Result<(Samples, internal::Cycles)> {
        let total = LATENCY_WARM_UP + LATENCY_ITERS;
        self.start(1, size, total)?;
        let (mut samples, mut card_cycles, mut received) = (Vec::new(), internal::Cycles::default(), 0);
        for iter in 0..total {
            let stamped = iter == LATENCY_WARM_UP;
            if stamped {
                self.record_stamps(STAMPS);
            }
            let start_ns = self.rig.now_ns();
            self.top_up(0, size, 1, total, 1)?;
            self.collect()?;
            if iter >= LATENCY_WARM_UP {
                samples.push(self.rig.now_ns() - start_ns);
            }
            if stamped {
                if matches!(self.args.op, Op::Datagram | Op::Raw) {
                    // Its completion does not say that it has arrived.
                    received = iter + 1;
                    self.drain(received.into())?;
                }
                let [requester, responder] = self
                    .rig
                    .cards
                    .map(|card| self.rig.sim.fabric().card_mut(card).take_stamps());
                card_cycles = internal::cycles(&requester, &responder, self.args.op.is_answered());
                self.record_stamps(0);
            }
        }
        self.drain((total - received).into())?;
        Ok((samples.into(), card_cycles))
    }

    fn record_stamps(&self, capacity: usize) {
        for card in self.rig.cards {
            self.rig.sim.fabric().card_mut(card).record_stamps(capacity);
        }
    }

    /// Counts from zero; posts the receives of all messages, so that the other side need not be looked at.
    fn start(&mut self, streams: usize, size: u32, total: u32) -> Result<()> {
        for stream in &mut self.streams[..streams] {
            (stream.posted, stream.completed) = (0, 0);
            if !self.args.op.takes_receives() {
                continue;
            }
            let header = if stream.way.is_some() {
                datagrams::HEADER_BYTES
            } else {
                0
            };
            let sges = [stream.mrs[1].sge(stream.offset, size + header)];
            let wrs = vec![
                RecvWr {
                    wr_id: 0,
                    sges: &sges
                };
                total as usize
            ];
            match &self.srq {
                Some(srq) => srq.post_recv(&wrs)?,
                None => stream.qps[1].post_recv(&wrs)?,
            }
        }
        if self.srq.is_some() {
            // What the card has not read of the list yet is not there for who sends none again.
            self.rig.run(SRQ_LIST_CYCLES);
        }
        Ok(())
    }

    /// Posts what there is room for.
    fn top_up(
        &mut self,
        index: usize,
        size: u32,
        outstanding: u32,
        total: u32,
        signal_every: u32,
    ) -> Result<()> {
        let (op, inline) = (self.args.op, self.args.inline);
        let stream = &mut self.streams[index];
        let own = (stream.mrs[1].addr() + stream.offset, stream.mrs[1].rkey());
        let region = &mut self.region;
        let mut target = move || match region {
            None => own,
            Some((mr, rng)) => {
                let places = mr.length() / u64::from(size.max(1));
                (mr.addr() + rng.below_u64(places) * u64::from(size), mr.rkey())
            }
        };
        let sges = [stream.mrs[0].sge(stream.offset, size)];
        let mut op = move || {
            let (remote_addr, rkey) = target();
            match op {
                Op::Write | Op::UcWrite => SendOp::RdmaWrite { remote_addr, rkey },
                Op::Read => SendOp::RdmaRead { remote_addr, rkey },
                Op::FetchAdd => SendOp::AtomicFetchAndAdd {
                    remote_addr,
                    rkey,
                    add: 1,
                },
                // A word is 0 in the beginning, so each is written.
                Op::CmpSwap => SendOp::AtomicCmpAndSwp {
                    remote_addr,
                    rkey,
                    compare: 0,
                    swap: 0,
                },
                Op::AtomicWrite => SendOp::AtomicWrite { remote_addr, rkey },
                Op::Flush => SendOp::Flush(Flush {
                    remote_addr,
                    rkey,
                    length: size,
                    placement: Flush::GLOBAL,
                    whole_region: false,
                }),
                Op::MaskedFetchAdd => SendOp::MaskedAtomicFetchAndAdd {
                    remote_addr,
                    rkey,
                    add: 1 << 32 | 1,
                    boundaries: 1 << 63 | 1 << 31,
                },
                Op::MaskedCmpSwap => SendOp::MaskedAtomicCmpAndSwp {
                    remote_addr,
                    rkey,
                    compare: 0,
                    swap: 0,
                    compare_mask: 0xff,
                    swap_mask: 0xff00,
                },
                Op::Send | Op::UcSend | Op::Datagram | Op::Raw => SendOp::Send,
            }
        };
        let data = if inline || self.args.op == Op::AtomicWrite {
            WrData::Inline(&self.inline[..size as usize])
        } else if self.args.op == Op::Flush {
            WrData::Sges(&[])
        } else {
            WrData::Sges(&sges)
        };
        loop {
            let room = (outstanding - (stream.posted - stream.completed))
                .min(total - stream.posted)
                .min(BATCH);
            if room == 0 {
                return Ok(());
            }
            let wrs = (stream.posted..stream.posted + room).map(|message| {
                let signaled = (message + 1).is_multiple_of(signal_every) || message + 1 == total;
                let flags = SendFlags {
                    signaled,
                    ..SendFlags::default()
                };
                SendWr {
                    wr_id: (index as u64) << 32 | u64::from(message),
                    op: op(),
                    flags,
                    data,
                }
            });
            match &stream.way {
                None => stream.qps[0].post_send(&wrs.collect::<Vec<_>>())?,
                Some(way) => {
                    let to = way.to(stream.qps[1].qp_num(), datagrams::QKEY);
                    stream.qps[0].post_send_to(wrs.map(|wr| Datagram { wr, to }))?;
                }
            }
            stream.posted += room;
        }
    }

    /// Waits for completions: the streams that got some, and how many messages they stand for.
    fn collect(&mut self) -> Result<(Vec<usize>, u64)> {
        let mut wcs = [WorkCompletion::default(); POLL_BATCH];
        let limit_ns = self.rig.now_ns() + COMPLETION_LIMIT_NS;
        loop {
            let count = self.rig.nodes[0].cq.poll_cq(&mut wcs)?;
            let (mut changed, mut messages) = (Vec::new(), 0);
            for wc in &wcs[..count] {
                check(wc)?;
                let (index, message) = ((wc.wr_id >> 32) as usize, wc.wr_id as u32);
                messages += u64::from(message + 1 - self.streams[index].completed);
                self.streams[index].completed = message + 1;
                changed.push(index);
            }
            if count > 0 {
                return Ok((changed, messages));
            }
            if self.rig.now_ns() > limit_ns {
                let what = "a completion".to_owned();
                return Err(RigError::Late {
                    what,
                    limit_ns: COMPLETION_LIMIT_NS,
                }
                .into());
            }
        }
    }

    /// Takes the completions of receives.
    fn drain(&mut self, mut due: u64) -> Result<()> {
        if !self.args.op.takes_receives() {
            return Ok(());
        }
        let limit_ns = self.rig.now_ns() + COMPLETION_LIMIT_NS;
        while due > 0 {
            if let Some(wc) = self.rig.nodes[1].poll()? {
                check(&wc)?;
                due -= 1;
            } else if self.rig.now_ns() > limit_ns {
                if self.args.op.service() != Service::Rc {
                    bail!(
                        "{due} messages were lost, and {:?} sends none again: the receiver is slower than the wire. \
                         --link ib holds the sender back; so do longer messages and fewer --outstanding",
                        self.args.op
                    );
                }
                return Err(RigError::Late {
                    what: format!("{due} receives"),
                    limit_ns: COMPLETION_LIMIT_NS,
                }
                .into());
            }
        }
        Ok(())
    }
}

fn check(wc: &WorkCompletion) -> Result<()> {
    if wc.status != WcStatus::Success {
        bail!(
            "work request {:#x} of QP {:#x} failed: {:?}",
            wc.wr_id,
            wc.qp_num,
            wc.status
        );
    }
    Ok(())
}
