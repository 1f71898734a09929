//! What a seed means: which cards, faults and messages. Nothing here talks to a card.

use hca_abi::MAX_SGE;
use hca_cosim::Design;
use hca_host::PcieParams;
use hca_link::{FaultSpec, LinkKind};
use hca_verbs::{CcAlgorithm, Congestion};

use crate::rng::Rng;
use crate::scenario::Options;
use crate::services::ServicesPlan;
use crate::upheaval::UpheavalPlan;

/// Longest message of a scenario.
const MESSAGE_BYTES_MAX: u32 = 64 << 10;
/// Bytes that inline data may have.
pub(crate) const INLINE_BYTES_MAX: u32 = 220;

/// Which of the two areas of a QP's end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Area {
    /// Never written: what is sent, and what the peer reads.
    Source,
    /// Disjoint targets: of receives, of the peer's writes, of own reads and atomics.
    Target,
    /// Words that atomics of the peer change, again and again.
    Words,
}

/// Bytes of an area.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Piece {
    pub offset: u32,
    pub len: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Write,
    WriteImm,
    Send,
    SendImm,
    Read,
    /// Adds.
    FetchAdd(u64),
    /// Compares with what the word holds by then, or with something else, and swaps.
    CmpSwap {
        hit: bool,
        swap: u64,
    },
    /// Adds by fields; the most significant bit of each.
    MaskedAdd {
        add: u64,
        boundaries: u64,
    },
    /// As CmpSwap, of some bits; what it does not look at differs.
    MaskedSwap {
        hit: bool,
        swap: u64,
        compare_mask: u64,
        swap_mask: u64,
    },
    /// ATOMIC WRITE.
    Store(u64),
    /// Of its word, or of all of them.
    Flush {
        whole: bool,
    },
}

impl Kind {
    /// Is of a word of the peer; FETCH AND ADD, COMPARE AND SWAP bring what it was.
    pub fn is_atomic(self) -> bool {
        matches!(
            self,
            Self::FetchAdd(_)
                | Self::CmpSwap { .. }
                | Self::MaskedAdd { .. }
                | Self::MaskedSwap { .. }
                | Self::Store(_)
                | Self::Flush { .. }
        )
    }

    /// Where its local buffers are.
    pub fn local_area(self) -> Area {
        if self == Self::Read || self.is_atomic() {
            Area::Target
        } else {
            Area::Source
        }
    }
}

/// One work request, and the receive that it consumes.
#[derive(Clone, Debug)]
pub(crate) struct Message {
    pub kind: Kind,
    pub len: u32,
    /// Sender: gather list in its sources, or scatter list of a READ or an atomic in its targets.
    pub local: Vec<Piece>,
    /// Peer: target of a WRITE, source of a READ, word of an atomic.
    pub remote: Piece,
    /// Peer: scatter list of the receive, in its targets.
    pub receive: Vec<Piece>,
    pub imm: u32,
    pub inline: bool,
    pub signaled: bool,
    pub solicited: bool,
    pub fence: bool,
}

impl Message {
    /// Consumes a receive.
    pub fn receives(&self) -> bool {
        matches!(self.kind, Kind::WriteImm | Kind::Send | Kind::SendImm)
    }
}

/// One end of a connection.
#[derive(Clone, Debug)]
pub(crate) struct End {
    pub messages: Vec<Message>,
    pub source_bytes: u32,
    pub target_bytes: u32,
    /// 0: the peer has no atomics.
    pub words_bytes: u32,
    pub start_psn: u32,
    pub send_depth: u32,
    pub recv_depth: u32,
    /// Work requests per doorbell.
    pub burst: u32,
    pub sig_all: bool,
}

/// Two connected QPs.
#[derive(Clone, Debug)]
pub(crate) struct Pair {
    pub mtu_bytes: u32,
    pub rd_atomic: u8,
    pub ends: [End; 2],
}

/// Everything a seed decides.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub link: LinkKind,
    pub faults: FaultSpec,
    pub read_jitter_ns: u32,
    /// Of both cards; on Ethernet alone.
    pub congestion: Option<Congestion>,
    pub pairs: Vec<Pair>,
    /// A program beside that uses every service.
    pub services: Option<ServicesPlan>,
    pub swarm: Swarm,
    /// All pairs repeat selectively.
    pub selective: bool,
}

/// Trouble beside that of the cables. Each kind is there or not: a run with only one finds what a mixture hides.
#[derive(Clone, Debug)]
pub(crate) struct Swarm {
    /// Host side of each card.
    pub hosts: [PcieParams; 2],
    /// Cycles each card's firmware computes between two accesses.
    pub think_cycles: [u64; 2],
    /// A completion queue grows, a QP is modified, every so many turns.
    pub changes_every: Option<u32>,
    /// What a program beside does to its objects.
    pub upheaval: Option<UpheavalPlan>,
}

impl Swarm {
    fn draw(rng: &mut Rng, options: &Options) -> Self {
        let hosts = [(); 2].map(|()| draw_host(rng));
        let think_cycles = [(); 2].map(|()| {
            if rng.percent(30) {
                rng.pick(&[0, 1, 40, 150])
            } else {
                4
            }
        });
        let changes_every = rng.percent(20).then(|| rng.between(5, 60));
        let upheaval = rng.percent(35).then(|| UpheavalPlan::draw(rng));
        Self {
            hosts,
            think_cycles,
            changes_every,
            upheaval: upheaval.filter(|_| options.upheavals),
        }
    }

    /// Transport timeout of the QPs (REL-6): more than a full receive buffer of small packets takes with a slow host.
    /// For each of them the card reads a work request, as many at a time as there are tags.
    pub fn ack_timeout(&self) -> u8 {
        const USUAL: u8 = 6;
        const PACKETS: u32 = 64 * 1024 / 256;
        let read_ns = |host: &PcieParams| host.read_latency_ns * PACKETS / u32::from(host.max_tags).max(1);
        let longest_ns = self.hosts.iter().map(read_ns).max().unwrap_or(0);
        (USUAL..31)
            .find(|code| 4_096_u64 << code > u64::from(longest_ns))
            .unwrap_or(31)
    }

    /// How long packets that the card has made may wait for their payload.
    pub fn pipeline_ns(&self) -> u64 {
        /// Packets that are on their way through a card at a time, and their longest payload.
        const PACKETS: u32 = 64;
        const PAYLOAD_BYTES: u32 = 4096;
        if self.has_fast_hosts() {
            return hca_model::PIPELINE_NS;
        }
        let wait_ns = |host: &PcieParams| {
            let reads = PACKETS * PAYLOAD_BYTES.div_ceil(host.max_read_request_bytes);
            let latency_ns = u64::from(reads * host.read_latency_ns / u32::from(host.max_tags).max(1));
            let bytes_ns = u64::from(PACKETS * PAYLOAD_BYTES) * 1_000 / u64::from(host.bandwidth_mbps);
            latency_ns + bytes_ns + u64::from(host.stall_ns)
        };
        self.hosts
            .iter()
            .map(wait_ns)
            .max()
            .unwrap_or(0)
            .max(hca_model::PIPELINE_NS)
    }

    /// Hosts as they are by default.
    pub fn has_fast_hosts(&self) -> bool {
        let usual = PcieParams::default();
        self.hosts.iter().all(|host| *host == usual)
    }
}

/// A slow one, one that stands still for a while, or one with another link.
fn draw_host(rng: &mut Rng) -> PcieParams {
    let mut host = PcieParams::default();
    if rng.percent(20) {
        (host.read_latency_ns, host.write_latency_ns) = rng.pick(&[(1500, 200), (3000, 1000), (500, 10)]);
        host.mmio_latency_ns = rng.pick(&[20, 200, 1500]);
    }
    if rng.percent(20) {
        host.bandwidth_mbps = rng.pick(&[2_000, 8_000, 32_000]);
        // Below this a line takes longer than the whole latency.
        host.read_latency_ns = host.read_latency_ns.max(host.write_latency_ns + 300);
    }
    if rng.percent(15) {
        (host.stall_ns, host.stall_every_ns) = rng.pick(&[(2_000, 20_000), (10_000, 100_000), (300, 1_000)]);
    }
    if rng.percent(20) {
        host.max_payload_bytes = rng.pick(&[128, 512, 4096]);
        host.max_read_request_bytes = rng.pick(&[64, 128, 256]);
    }
    if rng.percent(20) {
        host.max_tags = rng.pick(&[1, 2, 8, 32]);
        host.upstream_buffer_bytes = rng.pick(&[512, 4096]);
    }
    host
}

impl Plan {
    pub fn draw(seed: u64, options: &Options) -> Self {
        let mut rng = Rng::new(seed, "plan");
        let link = rng.pick(&[LinkKind::Ethernet, LinkKind::InfiniBand]);
        let faults = draw_faults(&mut rng);
        let read_jitter_ns = rng.pick(&[0, 0, 100, 400]);
        // Streams of their own, here and below: what is added there changes no message of those before.
        let mut atomics = Rng::new(seed, "atomics");
        let mut pairs: Vec<Pair> = (0..rng.between(1, options.pairs_max.max(1)))
            .map(|_| draw_pair(&mut rng, &mut atomics, options))
            .collect();
        let link = options.link.unwrap_or(link);
        let services = options.services.then(|| draw_services(seed, link)).flatten();
        if services.is_some() {
            pairs.truncate(Rng::new(seed, "pairs beside").below(3) as usize);
        }
        let congestion = draw_congestion(&mut Rng::new(seed, "congestion"));
        // The card of the model refuses it.
        let is_rtl = options.designs == [Design::Rtl; 2];
        let has_congestion = link == LinkKind::Ethernet && is_rtl;
        Self {
            link,
            faults: options.faults.unwrap_or(faults),
            read_jitter_ns,
            congestion: congestion.filter(|_| has_congestion),
            pairs,
            services,
            swarm: Swarm::draw(&mut Rng::new(seed, "swarm"), options),
            // A fast card goes back for READ data that is missing, however often: the judge wants holes asked for.
            selective: is_rtl
                && options
                    .selective
                    .unwrap_or_else(|| Rng::new(seed, "selective").percent(50)),
        }
    }
}

/// Each fault is there or not: a run with only one kind finds what a mixture hides.
fn draw_faults(rng: &mut Rng) -> FaultSpec {
    let mut chance = |per_mille_max: u32| {
        let (there, per_mille) = (rng.percent(40), rng.between(1, per_mille_max));
        if there { f64::from(per_mille) / 1000.0 } else { 0.0 }
    };
    let (loss, dup, reorder, corrupt, pause) = (chance(50), chance(50), chance(80), chance(50), chance(50));
    let delay_ns = if rng.percent(30) {
        u64::from(rng.between(1, 3000))
    } else {
        0
    };
    FaultSpec {
        loss,
        dup,
        reorder,
        corrupt,
        pause,
        delay_ns,
        ..FaultSpec::default()
    }
}

/// Three of four seeds have it.
fn draw_services(seed: u64, link: LinkKind) -> Option<ServicesPlan> {
    let mut rng = Rng::new(seed, "services");
    rng.percent(75).then(|| ServicesPlan::draw(&mut rng, link))
}

/// Nothing on a cable marks, so DCQCN holds nobody; by round trips with a target that none, or few, keep, everybody is
/// held nearly all the time.
fn draw_congestion(rng: &mut Rng) -> Option<Congestion> {
    let algorithm = rng.pick(&[CcAlgorithm::Dcqcn, CcAlgorithm::Delay, CcAlgorithm::Delay]);
    let congestion = Congestion {
        algorithm,
        delay_target_ns: rng.pick(&[0, 2_000, 5_000]),
        delay_scale: rng.pick(&[0, 11]),
        rate_period_ns: rng.pick(&[300, 4_000]),
        min_rate_mbps: rng.pick(&[5_000, 7_500]),
        additive_mbps: rng.pick(&[40, 2_000]),
        ..Congestion::default()
    };
    rng.percent(30).then_some(congestion)
}

fn draw_pair(rng: &mut Rng, atomics: &mut Rng, options: &Options) -> Pair {
    let mtu_bytes = rng.pick(&[256, 512, 1024, 2048, 4096]);
    let rd_atomic = rng.pick(&[1, 2, 4, 16]);
    let mut areas = [[AreaAlloc::default(); 2]; 2];
    let both_ways = rng.percent(70);
    let mut messages = [0, 1].map(|end| {
        let count = if end == 0 || both_ways {
            rng.between(1, options.messages_max.max(1))
        } else {
            0
        };
        (0..count)
            .map(|_| draw_message(rng, mtu_bytes, end, &mut areas))
            .collect::<Vec<_>>()
    });
    let words_bytes = draw_atomics(atomics, options, &mut messages, &mut areas);
    let sig_all = [0, 1].map(|_| rng.percent(20));
    let depths = [0, 1].map(|_| rng.pick(&[1u32, 2, 4, 8, 16]));
    for end in 0..2 {
        // A queue whose every entry is unsignaled could never be emptied.
        let every = depths[end].div_ceil(2) as usize;
        let last = messages[end].len().wrapping_sub(1);
        for (at, message) in messages[end].iter_mut().enumerate() {
            message.signaled |= sig_all[end] || at % every == every - 1 || at == last;
        }
    }
    let mut ends = messages.into_iter().enumerate().map(|(end, messages)| End {
        messages,
        source_bytes: areas[end][0].used.max(1),
        target_bytes: areas[end][1].used.max(1),
        words_bytes: words_bytes[end],
        start_psn: if rng.percent(30) {
            0xff_ffff - rng.below(40)
        } else {
            rng.u32() & 0xff_ffff
        },
        send_depth: depths[end],
        recv_depth: rng.pick(&[1, 2, 4, 16]),
        burst: rng.between(1, 4),
        sig_all: sig_all[end],
    });
    let ends = [(); 2].map(|()| ends.next().unwrap_or_else(|| unreachable!("two ends")));
    Pair {
        mtu_bytes,
        rd_atomic,
        ends,
    }
}

/// Puts atomics among the messages of some pairs: each end changes a few words of its peer, which nobody else touches,
/// so that the order of its QP says what each of them finds. Returns the bytes of the words at each end.
fn draw_atomics(
    rng: &mut Rng,
    options: &Options,
    messages: &mut [Vec<Message>; 2],
    areas: &mut [[AreaAlloc; 2]; 2],
) -> [u32; 2] {
    let mut words_bytes = [0, 0];
    if !rng.percent(40) {
        return words_bytes;
    }
    for end in 0..2 {
        // An end without messages stays without.
        if messages[end].is_empty() {
            continue;
        }
        let words = rng.pick(&[1, 2, 9]);
        words_bytes[1 - end] = 8 * words;
        for _ in 0..rng.between(1, options.messages_max.max(1)) {
            let at = rng.below(messages[end].len() as u32 + 1) as usize;
            let kind = match rng.below(10) {
                0..3 => Kind::FetchAdd(rng.below_u64(u64::MAX)),
                3..5 => Kind::MaskedAdd {
                    add: rng.below_u64(u64::MAX),
                    boundaries: rng.below_u64(u64::MAX) & rng.below_u64(u64::MAX),
                },
                5..7 => Kind::CmpSwap {
                    hit: rng.percent(70),
                    swap: rng.below_u64(u64::MAX),
                },
                7 => Kind::MaskedSwap {
                    hit: rng.percent(70),
                    swap: rng.below_u64(u64::MAX),
                    compare_mask: rng.below_u64(u64::MAX) | 1 << rng.below(64),
                    swap_mask: rng.below_u64(u64::MAX),
                },
                8 => Kind::Store(rng.below_u64(u64::MAX)),
                _ => Kind::Flush {
                    whole: rng.percent(30),
                },
            };
            let target = &mut areas[end][Area::Target as usize];
            let message = Message {
                kind,
                len: if matches!(kind, Kind::Flush { .. }) { 0 } else { 8 },
                local: match kind {
                    Kind::Store(_) | Kind::Flush { .. } => Vec::new(),
                    _ => vec![target.piece(rng, 8)],
                },
                remote: Piece {
                    offset: 8 * rng.below(words),
                    len: 8,
                },
                receive: Vec::new(),
                imm: 0,
                inline: matches!(kind, Kind::Store(_)),
                signaled: rng.percent(50),
                solicited: false,
                fence: rng.percent(20),
            };
            messages[end].insert(at, message);
        }
    }
    words_bytes
}

/// Hands out an area from its start, with gaps that nobody may touch.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct AreaAlloc {
    pub used: u32,
}

impl AreaAlloc {
    pub fn piece(&mut self, rng: &mut Rng, len: u32) -> Piece {
        let gap = match rng.below(10) {
            0..4 => rng.below(4),
            4..9 => rng.below(100),
            _ => self.used.next_multiple_of(4096) - self.used,
        };
        let offset = self.used + gap;
        self.used = offset + len;
        Piece { offset, len }
    }

    /// `len` bytes in up to 16 pieces, some of them empty.
    pub fn pieces(&mut self, rng: &mut Rng, len: u32) -> Vec<Piece> {
        let max = rng.pick(&[1, 1, 2, 4, MAX_SGE]);
        self.pieces_of(rng, len, max)
    }

    /// The same in so many.
    pub fn pieces_of(&mut self, rng: &mut Rng, len: u32, max: u32) -> Vec<Piece> {
        let mut cuts: Vec<u32> = (1..max).map(|_| rng.below(len + 1)).collect();
        cuts.sort_unstable();
        cuts.push(len);
        let mut at = 0;
        let lens = cuts.into_iter().map(|cut| cut - std::mem::replace(&mut at, cut));
        lens.collect::<Vec<_>>()
            .into_iter()
            .map(|len| self.piece(rng, len))
            .collect()
    }
}

pub(crate) fn draw_len(rng: &mut Rng, mtu_bytes: u32) -> u32 {
    match rng.below(10) {
        0..5 => rng.pick(&[0, 1, mtu_bytes - 1, mtu_bytes, mtu_bytes + 1]),
        5..8 => rng.below(4097),
        _ => rng.below(MESSAGE_BYTES_MAX + 1),
    }
}

fn draw_message(rng: &mut Rng, mtu_bytes: u32, end: usize, areas: &mut [[AreaAlloc; 2]; 2]) -> Message {
    let kind = rng.pick(&[Kind::Write, Kind::WriteImm, Kind::Send, Kind::SendImm, Kind::Read]);
    let inline = kind != Kind::Read && rng.percent(20);
    let len = if inline {
        rng.below(INLINE_BYTES_MAX + 1)
    } else {
        draw_len(rng, mtu_bytes)
    };
    let (source, target) = (Area::Source as usize, Area::Target as usize);
    let local = areas[end][if kind == Kind::Read { target } else { source }].pieces(rng, len);
    let peer = 1 - end;
    let (remote, receive) = match kind {
        Kind::Write => (areas[peer][target].piece(rng, len), Vec::new()),
        Kind::Read => (areas[peer][source].piece(rng, len), Vec::new()),
        Kind::WriteImm => {
            // OP-4: the buffers of the receive stay as they are.
            let untouched = rng.below(20);
            (
                areas[peer][target].piece(rng, len),
                areas[peer][target].pieces(rng, untouched),
            )
        }
        Kind::Send | Kind::SendImm => {
            let slack = if rng.percent(50) { 0 } else { rng.below(200) };
            (
                Piece { offset: 0, len: 0 },
                areas[peer][target].pieces(rng, len + slack),
            )
        }
        Kind::FetchAdd(_)
        | Kind::CmpSwap { .. }
        | Kind::MaskedAdd { .. }
        | Kind::MaskedSwap { .. }
        | Kind::Store(_)
        | Kind::Flush { .. } => unreachable!("not drawn here"),
    };
    let solicited = !matches!(kind, Kind::Write | Kind::Read) && rng.percent(30);
    let fence = rng.percent(20);
    Message {
        kind,
        len,
        local,
        remote,
        receive,
        imm: rng.u32(),
        inline,
        signaled: rng.percent(50),
        solicited,
        fence,
    }
}

impl std::fmt::Display for Plan {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let messages = self
            .pairs
            .iter()
            .flat_map(|pair| &pair.ends)
            .map(|end| end.messages.len())
            .sum::<usize>();
        let mtus = self
            .pairs
            .iter()
            .map(|pair| pair.mtu_bytes.to_string())
            .collect::<Vec<_>>()
            .join(",");
        let faults = if self.faults.is_clean() {
            "no faults".to_owned()
        } else {
            self.faults.to_string()
        };
        write!(
            f,
            "{:?}, {} pairs with MTU {mtus}, {messages} messages, {faults}",
            self.link,
            self.pairs.len()
        )?;
        if let Some(services) = &self.services {
            write!(f, ", services: {}", services.names().join(", "))?;
        }
        if let Some(congestion) = &self.congestion {
            write!(f, ", congestion control {:?}", congestion.algorithm)?;
        }
        if !self.swarm.has_fast_hosts() {
            write!(f, ", {:?}", self.swarm.hosts)?;
        }
        if let Some(upheaval) = &self.swarm.upheaval {
            write!(f, ", {upheaval:?}")?;
        }
        if self.selective {
            write!(f, ", selective repeat")?;
        }
        let Swarm {
            think_cycles,
            changes_every,
            ..
        } = &self.swarm;
        write!(f, ", firmware {think_cycles:?}, changes {changes_every:?}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::services::undrawn;
    use crate::upheaval::Deed;
    use hca_verbs::Service;

    /// The seeds of `make test` draw each kind of trouble, and runs without any.
    #[test]
    fn two_hundred_seeds_draw_everything() {
        let usual = PcieParams::default();
        let plans: Vec<Plan> = (1..=200)
            .map(|seed| Plan::draw(seed, &Options::default()))
            .collect();
        let host = |is: &dyn Fn(&PcieParams) -> bool| plans.iter().any(|p| p.swarm.hosts.iter().any(is));
        assert!(host(&|host| host.stall_ns != 0) && host(&|host| host.max_tags == 1));
        assert!(host(&|host| host.read_latency_ns > usual.read_latency_ns));
        assert!(host(&|host| host.bandwidth_mbps < usual.bandwidth_mbps));
        assert!(host(&|host| host.max_payload_bytes != usual.max_payload_bytes));
        assert!(plans.iter().any(|plan| plan.swarm.think_cycles[0] > 4));
        assert!(plans.iter().any(|plan| plan.swarm.changes_every.is_some()));
        let messages = || {
            plans
                .iter()
                .flat_map(|plan| &plan.pairs)
                .flat_map(|pair| &pair.ends)
        };
        let kind = |is: &dyn Fn(Kind) -> bool| messages().any(|end| end.messages.iter().any(|m| is(m.kind)));
        assert!(kind(&|kind| matches!(kind, Kind::FetchAdd(_))));
        assert!(kind(&|kind| matches!(kind, Kind::MaskedAdd { .. })));
        assert!(kind(&|kind| matches!(kind, Kind::MaskedSwap { .. })));
        assert!(kind(&|kind| matches!(kind, Kind::Store(_))));
        assert!(
            [false, true]
                .iter()
                .all(|wanted| kind(&|kind| kind == Kind::Flush { whole: *wanted }))
        );
        assert!(
            [false, true]
                .iter()
                .all(|wanted| kind(&|kind| matches!(kind, Kind::CmpSwap { hit, .. } if hit == *wanted)))
        );
        use Deed::{Death, Deregister, Destroy, Error, Kill, Reset, Revoke};
        let upheavals = || plans.iter().filter_map(|plan| plan.swarm.upheaval);
        for deed in [Destroy, Deregister, Revoke, Error, Reset, Death, Kill] {
            assert!(upheavals().any(|upheaval| upheaval.deed == deed), "{deed:?}");
        }
        for service in [Service::Rc, Service::Uc, Service::Xrc] {
            assert!(
                upheavals().any(|upheaval| upheaval.service == service),
                "{service:?}"
            );
        }
        assert_eq!(
            undrawn(plans.iter().filter_map(|plan| plan.services.as_ref())),
            Vec::<&str>::new()
        );
        let is_calm = |plan: &Plan| plan.swarm.has_fast_hosts() && plan.swarm.upheaval.is_none();
        assert!(plans.iter().any(is_calm));
        for (host, seed) in plans.iter().flat_map(|plan| &plan.swarm.hosts).zip(1..) {
            assert!(hca_host::PcieModel::new(host.clone(), seed).is_ok(), "{host:?}");
        }
    }
}
