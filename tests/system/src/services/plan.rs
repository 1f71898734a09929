//! What a seed means for the program that uses every service: memory, queues, connections, messages and deeds. Nothing
//! here talks to a card.

use hca_link::LinkKind;
use hca_verbs::{Access, Service};

use crate::plan::{INLINE_BYTES_MAX, Piece, draw_len};
use crate::rng::Rng;

use super::draft::Draft;

/// Longest message but for some.
pub(super) const USUAL_BYTES_MAX: u32 = 9_000;
/// What precedes the data of a datagram (OP-22).
pub(super) const GRH_BYTES: u32 = 40;
/// Receives of a queue are posted over and over; there are so many more than messages, for those that a deed takes.
pub(super) const SPARE_BUFFERS: usize = 12;
/// Lanes that may change the words of a node: a byte of a word counts those of one lane.
pub(super) const FIELDS: u8 = 8;

/// Registered memory of a node.
#[derive(Clone, Debug)]
pub(super) struct RegionPlan {
    pub node: usize,
    pub len: u32,
    pub access: Access,
    pub in_device: bool,
    /// Translated by pages of 4 KiB.
    pub pages: bool,
    pub what: &'static str,
}

/// An SRQ.
#[derive(Clone, Debug)]
pub(super) struct SharedPlan {
    pub is_xrc: bool,
    /// 0: none is armed.
    pub limit: u32,
    /// Of one of XRC.
    pub cq: usize,
}

/// Where receives are posted: a QP's own queue, or an SRQ.
#[derive(Clone, Debug)]
pub(super) struct PoolPlan {
    pub node: usize,
    pub shared: Option<SharedPlan>,
    pub depth: u32,
    pub region: usize,
    /// Bytes of a receive.
    pub room: u32,
    pub max_sge: u32,
    pub buffers: Vec<Vec<Piece>>,
    /// Messages that may come.
    pub wanted: usize,
    /// A message that ends early leaves no bytes: the service is reliable, and nobody takes QPs away.
    pub is_clean: bool,
}

/// A QP, or a target of XRC.
#[derive(Clone, Debug)]
pub(super) struct SeatPlan {
    pub service: Service,
    pub node: usize,
    pub conn: usize,
    pub is_target: bool,
    pub pool: Option<usize>,
    pub lane: Option<usize>,
    /// Of sends, of receives.
    pub cqs: [usize; 2],
    /// What the peer writes to, and where READs and atomics of its own end.
    pub region: usize,
    /// Multicast groups, by bit.
    pub groups: u8,
}

/// A connection of two seats, or one seat of datagrams.
#[derive(Clone, Debug)]
pub(super) struct ConnPlan {
    pub service: Service,
    pub seats: Vec<usize>,
    pub mtu_bytes: u32,
    pub rd_atomic: u8,
    pub gid_index: Option<u8>,
    /// The second seat's memory is reached by memory windows for a part of the messages.
    pub has_window: bool,
    /// By a region for fast registration in the place of a window, if it is host memory.
    pub is_fast: bool,
    /// Another partition is another path.
    pub has_path: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Send {
        imm: bool,
        inv: bool,
    },
    Write {
        imm: bool,
    },
    Read,
    /// Fetch and add of one to the lane's byte of a word.
    Add,
    /// Compare and swap that would do the same.
    Swap,
    /// Masked fetch and add that does the same: the fields of other lanes get nothing.
    MaskedAdd {
        boundaries: u64,
    },
    /// Masked compare and swap that would do the same: looks at the lane's byte at least, swaps what it looks at.
    MaskedSwap {
        compare_mask: u64,
        swap_mask: u64,
    },
    /// FLUSH of what the lane has written to one place, or to the whole region.
    Flush {
        whole: bool,
    },
}

impl Kind {
    pub fn receives(self) -> bool {
        matches!(self, Self::Send { .. } | Self::Write { imm: true })
    }

    pub fn is_atomic(self) -> bool {
        matches!(
            self,
            Self::Add | Self::Swap | Self::MaskedAdd { .. } | Self::MaskedSwap { .. }
        )
    }

    pub fn has_imm(self) -> bool {
        matches!(self, Self::Send { imm: true, .. } | Self::Write { imm: true })
    }
}

/// Where a message goes, if not to the seat that its own is connected to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Goal {
    Peer,
    /// An SRQ of XRC.
    Pool(usize),
    /// A seat of datagrams.
    Seat(usize),
    /// A multicast group.
    Group(usize),
}

/// One work request.
#[derive(Clone, Debug)]
pub(super) struct Message {
    pub kind: Kind,
    pub goal: Goal,
    pub len: u32,
    /// Region and pieces: what is gathered, or where what is fetched ends.
    pub local: (usize, Vec<Piece>),
    /// Region and place of a WRITE, a READ or an atomic.
    pub remote: (usize, Piece),
    pub imm: u32,
    pub inline: bool,
    pub signaled: bool,
    pub solicited: bool,
    pub fence: bool,
    /// By the window of this turn.
    pub epoch: Option<u32>,
}

/// What one seat sends.
#[derive(Clone, Debug)]
pub(super) struct LanePlan {
    pub seat: usize,
    pub messages: Vec<Message>,
    pub depth: u32,
    pub burst: u32,
    pub sig_all: bool,
    /// Its byte in the words of the peer's node.
    pub field: Option<u8>,
    /// Turns of its window.
    pub epochs: u32,
}

/// A completion queue: polled, or looked at when its event comes.
#[derive(Clone, Copy, Debug)]
pub(super) struct CqPlan {
    pub by_event: bool,
    /// Completions, and microseconds, that events wait for (V-64).
    pub moderation: Option<(u16, u16)>,
}

/// What happens to a connection in the middle of its messages, which then go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Deed {
    /// To SQD; when it is drained back to RTS.
    Drain,
    /// To ERR, then through RESET.
    Error,
    /// To RESET.
    Reset,
    /// ibv_destroy_qp, and another one.
    Destroy,
    /// ibv_dereg_mr of what the peer writes to.
    Deregister,
    /// Along the other path from now on.
    Migrate,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct DeedPlan {
    /// For its name.
    pub number: usize,
    pub deed: Deed,
    pub conn: usize,
    /// Which of its seats.
    pub end: usize,
    /// After so many completions of all.
    pub after: u64,
    /// Turns until the peer is told.
    pub grace: u32,
}

/// All of it.
#[derive(Clone, Debug)]
pub(crate) struct ServicesPlan {
    pub(super) regions: Vec<RegionPlan>,
    pub(super) pools: Vec<PoolPlan>,
    pub(super) seats: Vec<SeatPlan>,
    pub(super) conns: Vec<ConnPlan>,
    pub(super) lanes: Vec<LanePlan>,
    pub(super) cqs: [Vec<CqPlan>; 2],
    pub(super) deeds: Vec<DeedPlan>,
    /// Words of each node: region.
    pub(super) words: [Option<usize>; 2],
}

impl ServicesPlan {
    pub fn draw(rng: &mut Rng, link: LinkKind) -> Self {
        let mut draft = Draft::new(rng, link);
        draft.draw();
        draft.plan
    }

    /// Some connection has another path.
    pub fn has_paths(&self) -> bool {
        self.conns.iter().any(|conn| conn.has_path)
    }

    pub(super) fn messages(&self) -> impl Iterator<Item = &Message> {
        self.lanes.iter().flat_map(|lane| &lane.messages)
    }

    /// Names of what the plan could do without: lanes and deeds.
    pub fn parts(&self) -> Vec<String> {
        let lanes = self
            .lanes
            .iter()
            .enumerate()
            .filter(|(_, lane)| !lane.messages.is_empty());
        let lanes = lanes.map(|(index, _)| format!("lane{index}"));
        let deeds = self.deeds.iter().map(|deed| format!("deed{}", deed.number));
        deeds.chain(lanes).collect()
    }

    pub fn leave_away(&mut self, part: &str) {
        self.deeds.retain(|deed| part != format!("deed{}", deed.number));
        for (index, lane) in self.lanes.iter_mut().enumerate() {
            if part == format!("lane{index}") {
                (lane.messages, lane.epochs) = (Vec::new(), 0);
            }
        }
    }

    /// What there is, by name.
    pub fn names(&self) -> Vec<String> {
        let mut names = Vec::new();
        for service in [Service::Rc, Service::Uc, Service::Ud, Service::Xrc] {
            let count = self.conns.iter().filter(|conn| conn.service == service).count();
            if count > 0 {
                names.push(format!("{count} {service:?}"));
            }
        }
        let shared = self.pools.iter().filter(|pool| pool.shared.is_some()).count();
        let is_window = |conn: &&ConnPlan| conn.has_window && !conn.is_fast;
        let windows = self.conns.iter().filter(is_window).count();
        let fast = self.conns.iter().filter(|conn| conn.is_fast).count();
        let paths = self.conns.iter().filter(|conn| conn.has_path).count();
        let atomics = self.messages().filter(|message| message.kind.is_atomic()).count();
        let is_flush = |message: &&Message| matches!(message.kind, Kind::Flush { .. });
        let flushes = self.messages().filter(is_flush).count();
        let device = self.regions.iter().filter(|region| region.in_device).count();
        let groups = self.seats.iter().filter(|seat| seat.groups != 0).count();
        let counts = [
            (shared, "SRQs"),
            (windows, "windows"),
            (fast, "regions for fast registration"),
            (paths, "with another path"),
            (atomics, "atomics"),
            (flushes, "FLUSHes"),
            (device, "regions of device memory"),
            (groups, "members of groups"),
        ];
        names.extend(
            counts
                .iter()
                .filter(|(count, _)| *count > 0)
                .map(|(count, what)| format!("{count} {what}")),
        );
        let moderated = |cq: &CqPlan| cq.moderation.is_some();
        if self.cqs.iter().flatten().any(moderated) {
            names.push("moderated CQs".to_owned());
        }
        names.extend(
            self.deeds
                .iter()
                .map(|deed| format!("{:?} of connection {} end {}", deed.deed, deed.conn, deed.end)),
        );
        names
    }
}

/// Sizes of messages of a connection.
pub(super) fn draw_size(rng: &mut Rng, service: Service, mtu_bytes: u32, inline: bool) -> u32 {
    if inline {
        return rng.below(INLINE_BYTES_MAX + 1);
    }
    let len = draw_len(rng, mtu_bytes);
    match service {
        Service::Ud => len.min(4096),
        _ => len.min(USUAL_BYTES_MAX),
    }
}

/// What none of these plans has: the seeds of `make test` draw all of it.
#[cfg(test)]
pub(crate) fn undrawn<'p>(plans: impl Iterator<Item = &'p ServicesPlan> + Clone) -> Vec<&'static str> {
    let any = |is: &dyn Fn(&ServicesPlan) -> bool| plans.clone().any(is);
    let conn = |is: &dyn Fn(&ConnPlan) -> bool| any(&|plan| plan.conns.iter().any(is));
    let seat = |is: &dyn Fn(&SeatPlan) -> bool| any(&|plan| plan.seats.iter().any(is));
    let pool = |is: &dyn Fn(&PoolPlan) -> bool| any(&|plan| plan.pools.iter().any(is));
    let shared = |is: &dyn Fn(&SharedPlan) -> bool| pool(&|pool| pool.shared.as_ref().is_some_and(is));
    let message = |is: &dyn Fn(&Message) -> bool| any(&|plan| plan.messages().any(is));
    let reliable = |service: Service, is: &dyn Fn(Kind) -> bool| {
        any(&|plan| {
            let of_it = |lane: &&LanePlan| plan.seats[lane.seat].service == service;
            let mut messages = plan.lanes.iter().filter(of_it).flat_map(|lane| &lane.messages);
            messages.any(|message| is(message.kind))
        })
    };
    let cq = |is: &dyn Fn(&CqPlan) -> bool| any(&|plan| plan.cqs.iter().flatten().any(is));
    let deed = |wanted: Deed| any(&|plan| plan.deeds.iter().any(|deed| deed.deed == wanted));
    let region = |what: &str| {
        any(&|plan| {
            plan.regions
                .iter()
                .any(|region| region.in_device && region.what == what)
        })
    };
    let is_loop = |plan: &ServicesPlan| {
        let at_home = |conn: &ConnPlan| {
            conn.seats
                .windows(2)
                .any(|ends| plan.seats[ends[0]].node == plan.seats[ends[1]].node)
        };
        plan.conns.iter().any(at_home)
    };
    let drawn = [
        ("RC", conn(&|conn| conn.service == Service::Rc)),
        ("UC", conn(&|conn| conn.service == Service::Uc)),
        ("UD", conn(&|conn| conn.service == Service::Ud)),
        ("XRC", conn(&|conn| conn.service == Service::Xrc)),
        ("a window", conn(&|conn| conn.has_window && !conn.is_fast)),
        ("a region for fast registration", conn(&|conn| conn.is_fast)),
        ("a loop", any(&is_loop)),
        ("a multicast group", seat(&|seat| seat.groups != 0)),
        (
            "a datagram to a group",
            message(&|message| matches!(message.goal, Goal::Group(_))),
        ),
        ("a queue of its own", pool(&|pool| pool.shared.is_none())),
        ("an SRQ", shared(&|shared| !shared.is_xrc && shared.limit == 0)),
        (
            "an SRQ with a limit",
            shared(&|shared| !shared.is_xrc && shared.limit > 0),
        ),
        (
            "an SRQ of XRC with a limit",
            shared(&|shared| shared.is_xrc && shared.limit > 0),
        ),
        (
            "a SEND with invalidate",
            message(&|message| matches!(message.kind, Kind::Send { inv: true, .. })),
        ),
        (
            "a WRITE with immediate data",
            message(&|message| message.kind == Kind::Write { imm: true }),
        ),
        ("a READ", message(&|message| message.kind == Kind::Read)),
        ("a fetch and add", message(&|message| message.kind == Kind::Add)),
        (
            "a compare and swap",
            message(&|message| message.kind == Kind::Swap),
        ),
        (
            "a masked fetch and add of RC",
            reliable(Service::Rc, &|kind| matches!(kind, Kind::MaskedAdd { .. })),
        ),
        (
            "a masked fetch and add of XRC",
            reliable(Service::Xrc, &|kind| matches!(kind, Kind::MaskedAdd { .. })),
        ),
        (
            "a masked compare and swap of RC",
            reliable(Service::Rc, &|kind| matches!(kind, Kind::MaskedSwap { .. })),
        ),
        (
            "a masked compare and swap of XRC",
            reliable(Service::Xrc, &|kind| matches!(kind, Kind::MaskedSwap { .. })),
        ),
        (
            "a FLUSH of RC",
            reliable(Service::Rc, &|kind| matches!(kind, Kind::Flush { .. })),
        ),
        (
            "a FLUSH of a place of XRC",
            reliable(Service::Xrc, &|kind| kind == Kind::Flush { whole: false }),
        ),
        (
            "a FLUSH of a region of XRC",
            reliable(Service::Xrc, &|kind| kind == Kind::Flush { whole: true }),
        ),
        ("inline data", message(&|message| message.inline)),
        ("16 pieces", message(&|message| message.local.1.len() == 16)),
        ("words in device memory", region("words")),
        ("sources in device memory", region("source")),
        ("targets in device memory", region("target")),
        (
            "a CQ looked at when its event comes",
            cq(&|cq| cq.by_event && cq.moderation.is_none()),
        ),
        ("a moderated CQ", cq(&|cq| cq.moderation.is_some())),
        ("SQD", deed(Deed::Drain)),
        ("ERR", deed(Deed::Error)),
        ("RESET", deed(Deed::Reset)),
        ("destroy", deed(Deed::Destroy)),
        ("deregister", deed(Deed::Deregister)),
        ("migrate", deed(Deed::Migrate)),
    ];
    drawn
        .into_iter()
        .filter(|(_, is)| !is)
        .map(|(what, _)| what)
        .collect()
}
