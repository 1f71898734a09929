//! Draws a [`ServicesPlan`], piece by piece.

use hca_link::LinkKind;
use hca_verbs::{Access, Service};

use crate::plan::{AreaAlloc, Piece};
use crate::rng::Rng;

use super::plan::{
    ConnPlan, CqPlan, Deed, DeedPlan, FIELDS, GRH_BYTES, Goal, Kind, LanePlan, Message, PoolPlan, RegionPlan,
    SPARE_BUFFERS, SeatPlan, ServicesPlan, SharedPlan, draw_size,
};

/// Device memory that a function has, less than all of it (MEM-19).
const DEVICE_BYTES_MAX: u32 = 16 << 10;
const MESSAGES_MAX: u32 = 8;
/// A message without immediate data is known by its bytes; shorter ones look alike.
const TELLING_BYTES: u32 = 8;

pub(super) struct Draft<'a> {
    rng: &'a mut Rng,
    link: LinkKind,
    pub plan: ServicesPlan,
    /// By region: how far it is filled.
    filled: Vec<AreaAlloc>,
    /// What each node sends from, and lets others read.
    sources: [usize; 2],
    /// Lanes that change the words of each node.
    fields: [u8; 2],
}

impl<'a> Draft<'a> {
    pub fn new(rng: &'a mut Rng, link: LinkKind) -> Self {
        let cqs = [(); 2].map(|()| (0..rng.between(1, 3)).map(|_| draw_cq(rng)).collect());
        let plan = ServicesPlan {
            regions: Vec::new(),
            pools: Vec::new(),
            seats: Vec::new(),
            conns: Vec::new(),
            lanes: Vec::new(),
            cqs,
            deeds: Vec::new(),
            words: [None; 2],
        };
        let mut draft = Self {
            rng,
            link,
            plan,
            filled: Vec::new(),
            sources: [0; 2],
            fields: [0; 2],
        };
        draft.sources = [0, 1].map(|node| draft.region(node, Access::REMOTE_READ, "source"));
        draft
    }

    pub fn draw(&mut self) {
        let has_words = self.rng.percent(60);
        for node in 0..2 {
            if has_words {
                let words = self.region(node, Access::LOCAL_WRITE | Access::REMOTE_ATOMIC, "words");
                self.filled[words].used = 8 * self.rng.pick(&[1, 1, 3]);
                self.plan.words[node] = Some(words);
            }
        }
        while self.plan.conns.is_empty() {
            for service in [Service::Rc, Service::Uc, Service::Ud, Service::Xrc] {
                if self.rng.percent(45) {
                    self.party(service);
                }
            }
        }
        self.deeds();
        self.buffers();
        for (region, filled) in self.plan.regions.iter_mut().zip(&self.filled) {
            region.len = filled.used.next_multiple_of(8).max(64);
            let fits = region.len <= DEVICE_BYTES_MAX / 2 && region.what != "receives";
            // One of each node's at most: what has words goes first.
            region.in_device &= fits;
            region.pages &= !region.in_device;
        }
        for node in 0..2 {
            let mut seen = false;
            for region in self.plan.regions.iter_mut().filter(|region| region.node == node) {
                region.in_device &= !seen;
                seen |= region.in_device;
            }
        }
    }

    fn region(&mut self, node: usize, access: Access, what: &'static str) -> usize {
        let pages = self.rng.percent(50);
        let in_device = self.rng.percent(25);
        self.plan.regions.push(RegionPlan {
            node,
            len: 0,
            access,
            in_device,
            pages,
            what,
        });
        self.filled.push(AreaAlloc::default());
        self.plan.regions.len() - 1
    }

    fn piece(&mut self, region: usize, len: u32) -> Piece {
        self.filled[region].piece(self.rng, len)
    }

    fn pieces(&mut self, region: usize, len: u32, max: u32) -> Vec<Piece> {
        self.filled[region].pieces_of(self.rng, len, max)
    }

    fn pool(&mut self, node: usize, shared: Option<SharedPlan>) -> usize {
        let region = self.region(node, Access::LOCAL_WRITE, "receives");
        let depth = self.rng.pick(&[2, 4, 8, 16]);
        let max_sge = self.rng.pick(&[1, 1, 4, 16]);
        self.plan.pools.push(PoolPlan {
            node,
            depth,
            shared,
            region,
            room: 1,
            max_sge,
            buffers: Vec::new(),
            wanted: 0,
            is_clean: true,
        });
        self.plan.pools.len() - 1
    }

    fn shared(&mut self, node: usize, is_xrc: bool) -> usize {
        let limit = if self.rng.percent(50) {
            self.rng.between(1, 4)
        } else {
            0
        };
        let cq = self.cq(node);
        self.pool(node, Some(SharedPlan { is_xrc, limit, cq }))
    }

    fn cq(&mut self, node: usize) -> usize {
        self.rng.below(self.plan.cqs[node].len() as u32) as usize
    }

    /// Connections, or QPs of datagrams, of one service.
    fn party(&mut self, service: Service) {
        let mut shared = [None; 2];
        for (node, pool) in shared.iter_mut().enumerate() {
            if service != Service::Xrc && self.rng.percent(40) {
                *pool = Some(self.shared(node, false));
            }
        }
        let count = self.rng.pick(&[1, 1, 2, 3]);
        match service {
            Service::Ud => self.datagrams(shared, count),
            Service::Xrc => self.extended(count),
            _ => (0..count).for_each(|_| self.connection(service, shared)),
        }
    }

    fn conn(&mut self, service: Service) -> usize {
        // RoCE over IPv4 or IPv6; InfiniBand with GRH or without.
        let gid_index = match (self.link, self.rng.percent(30)) {
            (LinkKind::Ethernet, false) => Some(1),
            (LinkKind::Ethernet, true) | (LinkKind::InfiniBand, true) => Some(0),
            (LinkKind::InfiniBand, false) => None,
        };
        self.plan.conns.push(ConnPlan {
            service,
            seats: Vec::new(),
            mtu_bytes: self.rng.pick(&[256, 512, 1024, 2048, 4096]),
            rd_atomic: self.rng.pick(&[1, 2, 4, 16]),
            gid_index,
            has_window: false,
            is_fast: false,
            has_path: false,
        });
        self.plan.conns.len() - 1
    }

    fn seat(&mut self, conn: usize, node: usize, is_target: bool, pool: Option<usize>) -> usize {
        let rights = Access::LOCAL_WRITE | Access::REMOTE_WRITE | Access::MW_BIND | Access::FLUSH_GLOBAL;
        let region = self.region(node, rights, "target");
        let cqs = [self.cq(node), self.cq(node)];
        let seat = self.plan.seats.len();
        self.plan.seats.push(SeatPlan {
            service: self.plan.conns[conn].service,
            node,
            conn,
            is_target,
            pool,
            lane: None,
            cqs,
            region,
            groups: 0,
        });
        self.plan.conns[conn].seats.push(seat);
        seat
    }

    fn connection(&mut self, service: Service, shared: [Option<usize>; 2]) {
        let conn = self.conn(service);
        let first = self.rng.below(2) as usize;
        // Both at one card: what a port sends to itself.
        let nodes = if self.rng.percent(15) {
            [first; 2]
        } else {
            [first, 1 - first]
        };
        for node in nodes {
            let pool = match shared[node] {
                Some(pool) => pool,
                None => self.pool(node, None),
            };
            self.seat(conn, node, false, Some(pool));
        }
        self.plan.conns[conn].has_window = service == Service::Rc && self.rng.percent(30);
        self.plan.conns[conn].has_path =
            service == Service::Rc && self.rng.percent(40) && nodes[0] != nodes[1];
        let both_ways = self.rng.percent(70);
        for end in 0..=usize::from(both_ways) {
            let seat = self.plan.conns[conn].seats[end];
            let peer = self.plan.conns[conn].seats[1 - end];
            self.lane(seat, &[(Goal::Peer, peer)]);
        }
        if self.plan.conns[conn].has_window {
            self.plan.conns[conn].is_fast = self.rng.percent(50);
            self.windows(conn);
        }
    }

    fn extended(&mut self, count: u32) {
        let target_node = self.rng.below(2) as usize;
        let pools: Vec<usize> = (0..self.rng.between(1, 3))
            .map(|_| self.shared(target_node, true))
            .collect();
        for _ in 0..count {
            let conn = self.conn(Service::Xrc);
            let seat = self.seat(conn, 1 - target_node, false, None);
            let target = self.seat(conn, target_node, true, None);
            let goals: Vec<_> = pools.iter().map(|pool| (Goal::Pool(*pool), target)).collect();
            self.lane(seat, &goals);
        }
    }

    fn datagrams(&mut self, shared: [Option<usize>; 2], count: u32) {
        let mut seats = Vec::new();
        for index in 0..=count as usize {
            let conn = self.conn(Service::Ud);
            let node = if index < 2 {
                index
            } else {
                self.rng.below(2) as usize
            };
            let pool = match shared[node] {
                Some(pool) => pool,
                None => self.pool(node, None),
            };
            seats.push(self.seat(conn, node, false, Some(pool)));
        }
        let has_groups = self.rng.percent(40);
        let mut goals: Vec<_> = seats.iter().map(|seat| (Goal::Seat(*seat), *seat)).collect();
        if has_groups {
            for seat in &seats {
                self.plan.seats[*seat].groups = self.rng.below(4) as u8;
            }
            goals.extend([0, 1].map(|group| (Goal::Group(group), seats[0])));
        }
        for seat in seats.clone() {
            self.lane(seat, &goals);
        }
    }

    /// Messages of a seat, to each of these goals.
    fn lane(&mut self, seat: usize, goals: &[(Goal, usize)]) {
        let service = self.plan.seats[seat].service;
        let node = self.plan.seats[goals[0].1].node;
        let reliable = matches!(service, Service::Rc | Service::Xrc);
        let mut field = None;
        if reliable && self.plan.words[node].is_some() && self.fields[node] < FIELDS {
            field = Some(self.fields[node]);
            self.fields[node] += 1;
        }
        let count = self.rng.between(1, MESSAGES_MAX);
        let mut messages: Vec<Message> = (0..count)
            .map(|_| {
                let goal = goals[self.rng.below(goals.len() as u32) as usize];
                self.message(seat, goal)
            })
            .collect();
        if let Some(field) = field {
            for _ in 0..self.rng.between(1, 2 * MESSAGES_MAX) {
                let at = self.rng.below(messages.len() as u32 + 1) as usize;
                let atomic = self.atomic(seat, goals[0], node, field);
                messages.insert(at, atomic);
            }
        }
        if reliable && self.rng.percent(40) {
            for _ in 0..self.rng.between(1, 4) {
                let at = self.rng.below(messages.len() as u32 + 1) as usize;
                let flush = self.flush(seat, goals[0], &messages[..at]);
                messages.insert(at, flush);
            }
        }
        self.plan.seats[seat].lane = Some(self.plan.lanes.len());
        let lane = LanePlan {
            seat,
            messages,
            depth: self.rng.pick(&[2, 4, 8, 16]),
            burst: self.rng.between(1, 4),
            sig_all: self.rng.percent(30),
            field,
            epochs: 0,
        };
        self.plan.lanes.push(lane);
    }

    fn kind(&mut self, service: Service) -> Kind {
        let (send, send_imm) = (
            Kind::Send {
                imm: false,
                inv: false,
            },
            Kind::Send {
                imm: true,
                inv: false,
            },
        );
        let (write, write_imm) = (Kind::Write { imm: false }, Kind::Write { imm: true });
        match service {
            Service::Ud => self.rng.pick(&[send, send_imm]),
            Service::Uc => self.rng.pick(&[send, send_imm, write, write_imm]),
            _ => self.rng.pick(&[send, send_imm, write, write_imm, Kind::Read]),
        }
    }

    fn message(&mut self, seat: usize, goal: (Goal, usize)) -> Message {
        let kind = self.kind(self.plan.seats[seat].service);
        self.message_of(seat, goal, kind)
    }

    fn message_of(&mut self, seat: usize, goal: (Goal, usize), kind: Kind) -> Message {
        let SeatPlan {
            service,
            node,
            conn,
            region,
            ..
        } = self.plan.seats[seat];
        let peer = self.plan.seats[goal.1].clone();
        let inline = kind != Kind::Read && self.rng.percent(20);
        let mut len = draw_size(self.rng, service, self.plan.conns[conn].mtu_bytes, inline);
        let is_reliable = matches!(service, Service::Rc | Service::Xrc);
        if kind.receives() && !kind.has_imm() && !is_reliable {
            len = len.max(TELLING_BYTES);
        }
        let max = self.rng.pick(&[1, 1, 2, 4, 16]);
        let from = if kind == Kind::Read {
            region
        } else {
            self.sources[node]
        };
        let local = (from, self.pieces(from, len, max));
        let to = if kind == Kind::Read {
            self.sources[peer.node]
        } else {
            peer.region
        };
        let remote = match kind {
            Kind::Send { .. } => (to, Piece { offset: 0, len: 0 }),
            _ => (to, self.piece(to, len)),
        };
        if kind.receives() {
            self.count(
                goal,
                len + if service == Service::Ud { GRH_BYTES } else { 0 },
                is_reliable,
            );
        }
        Message {
            kind,
            goal: goal.0,
            len,
            local,
            remote,
            imm: self.rng.u32(),
            inline,
            signaled: self.rng.percent(50),
            solicited: self.rng.percent(30) && kind.receives(),
            fence: self.rng.percent(20) && is_reliable,
            epoch: None,
        }
    }

    /// A receive of so many bytes is needed.
    fn count(&mut self, goal: (Goal, usize), len: u32, is_reliable: bool) {
        let pools: Vec<usize> = match goal.0 {
            Goal::Pool(pool) => vec![pool],
            Goal::Peer | Goal::Seat(_) => self.plan.seats[goal.1].pool.into_iter().collect(),
            Goal::Group(group) => {
                let members = self
                    .plan
                    .seats
                    .iter()
                    .filter(|seat| seat.groups >> group & 1 == 1);
                members.filter_map(|seat| seat.pool).collect()
            }
        };
        for pool in pools {
            let pool = &mut self.plan.pools[pool];
            pool.room = pool.room.max(len);
            pool.wanted += 1;
            pool.is_clean &= is_reliable;
        }
    }

    fn atomic_kind(&mut self, field: u8) -> Kind {
        let own = 0xff << (8 * field);
        match self.rng.below(10) {
            0..4 => Kind::Add,
            4..6 => Kind::Swap,
            // Of the lane's byte carries go on; its count stays below 128.
            6..8 => Kind::MaskedAdd {
                boundaries: self.rng.below_u64(u64::MAX) & !own | 0x80 << (8 * field),
            },
            _ => {
                let compare_mask = self.rng.below_u64(u64::MAX) | own;
                let swap_mask = self.rng.below_u64(u64::MAX) & compare_mask | own;
                Kind::MaskedSwap {
                    compare_mask,
                    swap_mask,
                }
            }
        }
    }

    /// Of the place of the last WRITE before it, of no bytes if there is none, or of the region.
    fn flush(&mut self, seat: usize, goal: (Goal, usize), before: &[Message]) -> Message {
        let whole = self.rng.percent(40);
        let write = before
            .iter()
            .rfind(|message| matches!(message.kind, Kind::Write { .. }) && message.epoch.is_none());
        let nothing = (self.plan.seats[goal.1].region, Piece { offset: 0, len: 0 });
        Message {
            kind: Kind::Flush { whole },
            goal: goal.0,
            len: 0,
            local: (self.plan.seats[seat].region, Vec::new()),
            remote: write.map_or(nothing, |write| write.remote),
            imm: 0,
            inline: false,
            signaled: self.rng.percent(70),
            solicited: false,
            fence: self.rng.percent(20),
            epoch: None,
        }
    }

    fn atomic(&mut self, seat: usize, goal: (Goal, usize), node: usize, field: u8) -> Message {
        let region = self.plan.seats[seat].region;
        let words = self.plan.words[node].unwrap_or_else(|| unreachable!("lanes with a field have words"));
        let word = self.rng.below(self.filled[words].used / 8);
        let kind = self.atomic_kind(field);
        Message {
            kind,
            goal: goal.0,
            len: 8,
            local: (region, vec![self.piece(region, 8)]),
            remote: (
                words,
                Piece {
                    offset: 8 * word,
                    len: 8,
                },
            ),
            imm: 0,
            inline: false,
            signaled: true,
            solicited: false,
            fence: self.rng.percent(20),
            epoch: None,
        }
    }

    /// Turns of a window: WRITEs by its key, and at the end of some a SEND that invalidates it.
    fn windows(&mut self, conn: usize) {
        let seats = self.plan.conns[conn].seats.clone();
        let goal = (Goal::Peer, seats[1]);
        let Some(lane) = self.plan.seats[seats[0]].lane else {
            return;
        };
        let epochs = self.rng.between(1, 4);
        for epoch in 0..epochs {
            for _ in 0..self.rng.between(1, 3) {
                let imm = self.rng.percent(30);
                self.windowed(lane, seats[0], goal, Kind::Write { imm }, epoch);
            }
            if self.rng.percent(60) {
                self.windowed(
                    lane,
                    seats[0],
                    goal,
                    Kind::Send {
                        imm: false,
                        inv: true,
                    },
                    epoch,
                );
            } else if let Some(last) = self.plan.lanes[lane].messages.last_mut() {
                last.signaled = true;
            }
        }
        self.plan.lanes[lane].epochs = epochs;
    }

    fn windowed(&mut self, lane: usize, seat: usize, goal: (Goal, usize), kind: Kind, epoch: u32) {
        let mut message = self.message_of(seat, goal, kind);
        message.epoch = Some(epoch);
        message.signaled |= matches!(kind, Kind::Send { .. });
        self.plan.lanes[lane].messages.push(message);
    }

    /// Windows belong to their connection: they are not taken away here.
    fn deeds(&mut self) {
        if !self.rng.percent(75) {
            return;
        }
        let total: usize = self.plan.lanes.iter().map(|lane| lane.messages.len()).sum();
        for _ in 0..self.rng.between(1, 4) {
            let conn = self.rng.below(self.plan.conns.len() as u32) as usize;
            let (deed, after) = (self.draw_deed(conn), self.rng.below(total as u32 / 2 + 1).into());
            let end = self.rng.below(self.plan.conns[conn].seats.len() as u32) as usize;
            let grace = self.rng.pick(&[0, 0, 3, 20]);
            let is_gentle = matches!(deed, Deed::Drain | Deed::Migrate);
            if deed == Deed::Drain && self.plan.seats[self.plan.conns[conn].seats[end]].is_target {
                continue;
            }
            if self.plan.conns[conn].has_window && !is_gentle {
                continue;
            }
            self.plan.deeds.push(DeedPlan {
                number: self.plan.deeds.len(),
                deed,
                conn,
                end,
                after,
                grace,
            });
            if !is_gentle {
                self.spoil(conn);
            }
        }
        self.plan.deeds.sort_by_key(|deed| deed.after);
    }

    fn draw_deed(&mut self, conn: usize) -> Deed {
        use Deed::{Deregister, Destroy, Drain, Error, Migrate, Reset};
        match self.plan.conns[conn].service {
            _ if self.plan.conns[conn].has_path && self.rng.percent(50) => Migrate,
            Service::Rc | Service::Xrc => self.rng.pick(&[Drain, Error, Reset, Destroy, Deregister]),
            _ => self.rng.pick(&[Drain, Error, Reset, Destroy]),
        }
    }

    /// Its receives may be left in their middle.
    fn spoil(&mut self, conn: usize) {
        let seats = &self.plan.conns[conn].seats;
        let own = seats.iter().filter_map(|seat| self.plan.seats[*seat].pool);
        let lanes = seats.iter().filter_map(|seat| self.plan.seats[*seat].lane);
        let of_xrc =
            lanes
                .flat_map(|lane| &self.plan.lanes[lane].messages)
                .filter_map(|message| match message.goal {
                    Goal::Pool(pool) => Some(pool),
                    _ => None,
                });
        let pools: Vec<usize> = own.chain(of_xrc).collect();
        for pool in pools {
            self.plan.pools[pool].is_clean = false;
        }
    }

    fn buffers(&mut self) {
        for pool in 0..self.plan.pools.len() {
            let PoolPlan {
                region,
                room,
                max_sge,
                wanted,
                ..
            } = self.plan.pools[pool];
            for _ in 0..wanted + SPARE_BUFFERS {
                let pieces = self.pieces(region, room, max_sge);
                self.plan.pools[pool].buffers.push(pieces);
            }
        }
        for lane in &mut self.plan.lanes {
            // A queue whose every entry is unsignaled could never be emptied.
            let every = lane.depth.div_ceil(2) as usize;
            let last = lane.messages.len() - 1;
            for (at, message) in lane.messages.iter_mut().enumerate() {
                message.signaled |= lane.sig_all || at % every == every - 1 || at == last;
            }
        }
    }
}

fn draw_cq(rng: &mut Rng) -> CqPlan {
    let by_event = rng.percent(40);
    let moderation = (rng.pick(&[1, 2, 5, 16]), rng.pick(&[1, 4, 20]));
    CqPlan {
        by_event,
        moderation: rng.percent(60).then_some(moderation).filter(|_| by_event),
    }
}
