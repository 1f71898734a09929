//! Makes queues and QPs, connects them, and connects them again.

use std::collections::VecDeque;

use hca_abi::MAX_SGE;
use hca_link::LinkKind;
use hca_verbs::{
    Access, AhAttr, ConnectOptions, CqOptions, Gid, Mtu, MwType, QpAttr, QpAttrMask, QpCap, QpOptions,
    QpState, RawQp, Service, connect_xrc,
};
use hca_wire::LID_MULTICAST;

use super::plan::Goal;
use super::{BINDS, Conn, CqRun, Handle, Key, MARKS, Pool, Seat, Services, Stage, Window, wrong};
use crate::node::{Dev, connect, path};
use crate::plan::INLINE_BYTES_MAX;
use crate::rig::RigError;

/// Q_Key of all QPs of datagrams.
pub(super) const QKEY: u32 = 0x1357_9bdf;
/// Completions that each CQ has room for: more than are ever outstanding.
const CQES: u32 = 1024;

/// Address of a multicast group.
pub(super) fn group_gid(link: LinkKind, group: usize) -> Gid {
    let last = 1 + group as u8;
    match link {
        LinkKind::Ethernet => [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 239, 4, 5, last],
        LinkKind::InfiniBand => [0xff, 0x12, 0x40, 0x1b, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 8, last],
    }
}

fn mtu(bytes: u32) -> Mtu {
    match bytes {
        256 => Mtu::Bytes256,
        512 => Mtu::Bytes512,
        1024 => Mtu::Bytes1024,
        2048 => Mtu::Bytes2048,
        _ => Mtu::Bytes4096,
    }
}

impl Services<'_> {
    pub(super) fn build(&mut self) -> Result<(), RigError> {
        self.make_cqs()?;
        self.make_pools()?;
        for seat in 0..self.plan.seats.len() {
            let handle = self.make_handle(seat)?;
            self.seats.push(Seat {
                handle,
                numbers: Vec::new(),
                last_wqe: false,
                drained: false,
            });
        }
        for conn in 0..self.plan.conns.len() {
            let plan = &self.plan.conns[conn];
            let window = if plan.has_window {
                let seat = &self.plan.seats[plan.seats[1]];
                let (pd, pages) = (&self.nodes[seat.node].pd, self.ledgers[seat.region].pages());
                Some(Window {
                    key: match pages.filter(|_| plan.is_fast) {
                        Some(pages) => Key::Fast(pd.alloc_mr(pages)?),
                        None => Key::Window(pd.alloc_mw(MwType::Two)?),
                    },
                    bound: None,
                    binding: None,
                    is_invalid: true,
                })
            } else {
                None
            };
            self.conns.push(Conn {
                stage: Stage::Running,
                may_fail: false,
                window,
            });
            self.connect(conn)?;
        }
        self.make_ways()
    }

    fn make_cqs(&mut self) -> Result<(), RigError> {
        for node in 0..2 {
            let context = &self.nodes[node].context;
            for plan in &self.plan.cqs[node] {
                let channel = plan.by_event.then(|| context.create_comp_channel());
                let cq = match &channel {
                    Some(channel) => context.create_cq(&CqOptions::with_channel(CQES, channel))?,
                    None => context.create_cq(&CqOptions::new(CQES))?,
                };
                if let Some((count, period_us)) = plan.moderation {
                    cq.moderate(count, period_us)?;
                }
                if plan.by_event {
                    cq.req_notify(false)?;
                }
                self.cqs[node].push(CqRun { cq, channel });
            }
        }
        Ok(())
    }

    fn make_pools(&mut self) -> Result<(), RigError> {
        for (index, plan) in self.plan.pools.iter().enumerate() {
            let pd = &self.nodes[plan.node].pd;
            let shared = match &plan.shared {
                None => None,
                Some(shared) if shared.is_xrc => {
                    let xrcd = match &self.xrcds[plan.node] {
                        Some(xrcd) => xrcd,
                        None => self.xrcds[plan.node].insert(self.nodes[plan.node].context.alloc_xrcd()?),
                    };
                    let cq = &self.cqs[plan.node][shared.cq].cq;
                    Some(pd.create_xrc_srq(xrcd, cq, plan.depth, plan.max_sge)?)
                }
                Some(_) => Some(pd.create_srq(plan.depth, plan.max_sge)?),
            };
            let owner = (0..self.plan.seats.len()).find(|seat| self.plan.seats[*seat].pool == Some(index));
            self.pools.push(Pool {
                owner: owner.filter(|_| shared.is_none()),
                shared,
                free: (0..plan.buffers.len()).collect(),
                posted: VecDeque::new(),
                is_armed: false,
                arms: 0,
                below_ns: None,
            });
        }
        Ok(())
    }

    pub(super) fn make_handle(&self, seat: usize) -> Result<Handle, RigError> {
        let plan = self.seat_plan(seat);
        if plan.is_target {
            let xrcd = self.xrcds[plan.node].as_ref();
            let xrcd = xrcd.ok_or_else(|| wrong("targets without SRQs of XRC".to_owned()))?;
            return Ok(Handle::Target(xrcd.create_target()?));
        }
        let pool = plan.pool.map(|pool| &self.plan.pools[pool]);
        let lane = plan.lane.map(|lane| &self.plan.lanes[lane]);
        let cap = QpCap {
            max_send_wr: lane.map_or(1, |lane| lane.depth) + BINDS + MARKS,
            max_recv_wr: pool.map_or(1, |pool| pool.depth),
            max_send_sge: MAX_SGE,
            max_recv_sge: pool.map_or(1, |pool| pool.max_sge),
            max_inline_data: INLINE_BYTES_MAX,
        };
        let [send, recv] = plan.cqs.map(|cq| &self.cqs[plan.node][cq].cq);
        let srq = plan.pool.and_then(|pool| self.pools[pool].shared.as_ref());
        let options = QpOptions {
            cap,
            service: plan.service,
            srq,
            sq_sig_all: lane.is_some_and(|lane| lane.sig_all),
            ..QpOptions::new(send, recv)
        };
        Ok(Handle::Qp(Box::new(
            self.nodes[plan.node].pd.create_raw_qp(&options)?,
        )))
    }

    fn options(&mut self, conn: usize) -> ConnectOptions {
        let plan = &self.plan.conns[conn];
        let wraps = self.rng.percent(30);
        let psns = [(); 2].map(|()| match wraps {
            true => 0xff_ffff - self.rng.below(40),
            false => self.rng.u32() & 0xff_ffff,
        });
        ConnectOptions {
            psns: (psns[0], psns[1]),
            gid_index: plan.gid_index,
            rd_atomic: plan.rd_atomic,
            timeout: self.timeout,
            access: Access::LOCAL_WRITE
                | Access::REMOTE_WRITE
                | Access::REMOTE_READ
                | Access::REMOTE_ATOMIC
                | Access::FLUSH_GLOBAL,
            ..path(mtu(plan.mtu_bytes))
        }
    }

    /// From RESET to RTS, both seats.
    pub(super) fn connect(&mut self, conn: usize) -> Result<(), RigError> {
        let plan = &self.plan.conns[conn];
        let options = self.options(conn);
        let mut handles = Vec::new();
        for seat in &plan.seats {
            let run = &mut self.seats[*seat];
            (run.last_wqe, run.drained) = (false, false);
            run.numbers.extend(run.number());
            handles.push(std::mem::replace(&mut run.handle, Handle::Gone));
        }
        let handles = match <[Handle; 2]>::try_from(handles) {
            Ok([Handle::Qp(a), Handle::Qp(b)]) => {
                let mut qps = [*a, *b];
                connect(&mut qps, &options)?;
                qps.map(|qp| Handle::Qp(Box::new(qp))).into()
            }
            Ok([Handle::Qp(mut initiator), Handle::Target(mut target)]) => {
                connect_xrc(&mut initiator, &mut target, &options)?;
                vec![Handle::Qp(initiator), Handle::Target(target)]
            }
            Ok(_) => return Err(wrong(format!("connection {conn} has no QPs"))),
            Err(mut single) => {
                for handle in &mut single {
                    if let Handle::Qp(qp) = handle {
                        self.start_datagrams(plan.seats[0], qp, options.psns.0)?;
                    }
                }
                single
            }
        };
        for (seat, handle) in plan.seats.iter().zip(handles) {
            self.seats[*seat].handle = handle;
        }
        self.have_judged(conn, &options);
        self.load_paths(conn)
    }

    fn start_datagrams(&self, seat: usize, qp: &mut RawQp<Dev>, sq_psn: u32) -> Result<(), RigError> {
        let attr = |qp_state| QpAttr {
            qp_state,
            qkey: QKEY,
            port_num: 1,
            sq_psn,
            ..QpAttr::default()
        };
        let init = QpAttrMask::STATE | QpAttrMask::PKEY_INDEX | QpAttrMask::PORT | QpAttrMask::QKEY;
        qp.modify(&attr(QpState::Init), init)?;
        qp.modify(&attr(QpState::Rtr), QpAttrMask::STATE)?;
        qp.modify(&attr(QpState::Rts), QpAttrMask::STATE | QpAttrMask::SQ_PSN)?;
        for group in self.groups_of(seat) {
            qp.attach_mcast(group_gid(self.link, group))?;
        }
        Ok(())
    }

    pub(super) fn groups_of(&self, seat: usize) -> impl Iterator<Item = usize> {
        let groups = self.plan.seats[seat].groups;
        (0..8).filter(move |group| groups >> group & 1 == 1)
    }

    /// The reference model follows connections that cross the cable.
    fn have_judged(&self, conn: usize, options: &ConnectOptions) {
        let plan = &self.plan.conns[conn];
        let [first, second] = plan.seats[..] else { return };
        let nodes = [first, second].map(|seat| self.plan.seats[seat].node);
        let numbers = [first, second].map(|seat| self.seats[seat].number().unwrap_or_default());
        let service = match plan.service {
            Service::Uc => hca_model::Service::Uc,
            _ => hca_model::Service::Rc,
        };
        let (psn, other) = options.psns;
        // What XRC receives into is shared.
        let options = &ConnectOptions {
            credits: options.credits && plan.service == Service::Rc,
            // All of them along one path, and again along the other.
            retry_cnt: match plan.has_path {
                true => 2 * options.retry_cnt + 1,
                false => options.retry_cnt,
            },
            ..*options
        };
        // Who is asked for its other path drops the packet that asks.
        let judge = match plan.has_path {
            true => self.judge.with_drops_inside(),
            false => self.judge.clone(),
        };
        match nodes {
            [0, 1] => judge.connect(service, numbers, options),
            [1, 0] => {
                let options = ConnectOptions {
                    psns: (other, psn),
                    ..*options
                };
                judge.connect(service, [numbers[1], numbers[0]], &options);
            }
            _ => {}
        }
    }

    /// Ways of datagrams from each seat to each goal.
    fn make_ways(&mut self) -> Result<(), RigError> {
        for (seat, plan) in self.plan.seats.iter().enumerate() {
            let Some(lane) = plan.lane.filter(|_| plan.service == Service::Ud) else {
                continue;
            };
            let gid_index = self.plan.conns[plan.conn].gid_index;
            for message in &self.plan.lanes[lane].messages {
                let attr = match message.goal {
                    Goal::Seat(to) => self.way_to(self.plan.seats[to].node, gid_index)?,
                    Goal::Group(group) => AhAttr {
                        is_global: true,
                        dgid: group_gid(self.link, group),
                        // Those of groups are IPv4 addresses on Ethernet.
                        sgid_index: u8::from(self.link == LinkKind::Ethernet),
                        dlid: LID_MULTICAST + 7,
                        ..AhAttr::default()
                    },
                    _ => continue,
                };
                if !self.ways.contains_key(&(seat, message.goal)) {
                    let way = self.nodes[plan.node].pd.create_ah(&attr)?;
                    self.ways.insert((seat, message.goal), way);
                }
            }
        }
        Ok(())
    }

    pub(super) fn way_to(&self, node: usize, gid_index: Option<u8>) -> Result<AhAttr, RigError> {
        let context = &self.nodes[node].context;
        let port = context.query_port(1)?;
        let dgid = match gid_index {
            Some(index) => context.query_gid(1, index.into())?,
            None => Gid::default(),
        };
        Ok(AhAttr {
            is_global: gid_index.is_some(),
            dgid,
            sgid_index: gid_index.unwrap_or(0),
            dlid: port.lid(),
            dmac: port.mac(),
            ..AhAttr::default()
        })
    }
}
