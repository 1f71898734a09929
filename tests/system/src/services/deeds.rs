//! What happens to connections in the middle of their messages.

use hca_verbs::{QpAttr, QpAttrMask, QpState, Service};

use super::build::group_gid;
use super::complete::Take;
use super::plan::{Deed, DeedPlan, Kind};
use super::{Handle, Mark, Services, Stage, wrong};
use crate::rig::{Rig, RigError};

/// What is under way for a QP that is gone has left cables and cards by then.
const WAIT_CYCLES: u64 = 12_000;

impl Services<'_> {
    pub(super) fn do_deeds(&mut self, rig: &mut Rig) -> Result<bool, RigError> {
        let mut changed = false;
        if let Some(deed) = self.plan.deeds.get(self.next_deed)
            && self.completions >= deed.after
            && self.conns[deed.conn].stage == Stage::Running
        {
            self.next_deed += 1;
            self.begin(deed)?;
            changed = true;
        }
        for conn in 0..self.conns.len() {
            changed |= self.go_on(conn, rig)?;
        }
        Ok(changed)
    }

    fn begin(&mut self, deed: &DeedPlan) -> Result<(), RigError> {
        let DeedPlan { conn, grace, .. } = *deed;
        let seat = self.plan.conns[conn].seats[deed.end];
        let stage = match deed.deed {
            Deed::Drain => {
                self.seats[seat].drained = false;
                if self.drain(conn, seat, QpState::Sqd)? {
                    Stage::Draining(seat)
                } else {
                    Stage::Running
                }
            }
            Deed::Error => {
                self.move_to(seat, QpState::Err)?;
                Stage::Falling {
                    seat,
                    grace,
                    told: false,
                }
            }
            Deed::Reset | Deed::Destroy => {
                let destroys = deed.deed == Deed::Destroy;
                self.leave(seat, destroys)?;
                Stage::Leaving {
                    seat,
                    grace,
                    destroys,
                }
            }
            Deed::Migrate => {
                self.migrate(seat)?;
                Stage::Running
            }
            Deed::Deregister => {
                self.conns[conn].may_fail = true;
                let region = self.plan.seats[seat].region;
                self.ledgers[region].mr.destroy()?;
                self.freeze(seat)?;
                let node = &self.nodes[self.plan.seats[seat].node];
                self.ledgers[region].register_again(node)?;
                Stage::Running
            }
        };
        self.conns[conn].stage = stage;
        Ok(())
    }

    /// To SQD, or back to RTS. False: its region is gone, and it has failed before.
    fn drain(&mut self, conn: usize, seat: usize, state: QpState) -> Result<bool, RigError> {
        let tells = state == QpState::Sqd;
        let mask = if tells {
            QpAttrMask::EN_SQD_ASYNC_NOTIFY
        } else {
            QpAttrMask::empty()
        };
        let attr = QpAttr {
            qp_state: state,
            en_sqd_async_notify: tells,
            ..QpAttr::default()
        };
        let qp = match &mut self.seats[seat].handle {
            Handle::Qp(qp) => qp,
            Handle::Target(_) => return Err(wrong(format!("seat {seat} has no send queue"))),
            Handle::Gone => return Ok(false),
        };
        match qp.modify(&attr, mask | QpAttrMask::STATE) {
            Ok(()) => Ok(true),
            Err(_) if self.conns[conn].may_fail && qp.query()?.qp_state == QpState::Err => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    fn move_to(&mut self, seat: usize, state: QpState) -> Result<(), RigError> {
        match &mut self.seats[seat].handle {
            Handle::Qp(qp) => qp.modify_state(state)?,
            Handle::Target(target) => target.modify_state(state)?,
            Handle::Gone => {}
        }
        Ok(())
    }

    fn go_on(&mut self, conn: usize, rig: &mut Rig) -> Result<bool, RigError> {
        match self.conns[conn].stage {
            Stage::Running => Ok(false),
            Stage::Draining(seat) => {
                if !self.seats[seat].drained {
                    return Ok(false);
                }
                self.drain(conn, seat, QpState::Rts)?;
                self.conns[conn].stage = Stage::Running;
                Ok(true)
            }
            Stage::Falling { seat, grace, told } => {
                if grace > 0 {
                    self.conns[conn].stage = Stage::Falling {
                        seat,
                        grace: grace - 1,
                        told,
                    };
                    return Ok(false);
                }
                if !told {
                    for seat in &self.plan.conns[conn].seats {
                        self.move_to(*seat, QpState::Err)?;
                        self.post_mark(*seat)?;
                    }
                    self.conns[conn].stage = Stage::Falling {
                        seat,
                        grace,
                        told: true,
                    };
                    return Ok(true);
                }
                if !self.has_fallen(conn) {
                    return Ok(false);
                }
                self.begin_anew(conn, false, rig)?;
                Ok(true)
            }
            Stage::Leaving {
                seat,
                grace,
                destroys,
            } => {
                if grace == 0 {
                    self.begin_anew(conn, destroys, rig)?;
                    return Ok(true);
                }
                self.conns[conn].stage = Stage::Leaving {
                    seat,
                    grace: grace - 1,
                    destroys,
                };
                Ok(false)
            }
        }
    }

    /// Everything that both ends had posted has completed.
    fn has_fallen(&self, conn: usize) -> bool {
        self.plan.conns[conn].seats.iter().all(|seat| {
            let plan = self.seat_plan(*seat);
            let lane = plan.lane.map(|lane| &self.lanes[lane]);
            let sent = lane.is_none_or(|lane| lane.mark == Mark::Back);
            let received = plan.pool.is_none_or(|pool| match &self.pools[pool] {
                pool if pool.shared.is_some() => self.seats[*seat].last_wqe,
                pool => pool.posted.is_empty(),
            });
            sent && received
        })
    }

    /// A seat leaves RTS at once: nothing comes of what it had posted, and nothing of its peer's comes here any more.
    fn leave(&mut self, seat: usize, destroys: bool) -> Result<(), RigError> {
        self.judge.forget(
            self.plan.seats[seat].node,
            self.seats[seat].number().unwrap_or_default(),
        );
        if destroys {
            let groups: Vec<usize> = self.groups_of(seat).collect();
            match &mut self.seats[seat].handle {
                Handle::Qp(qp) => {
                    for group in groups {
                        qp.detach_mcast(group_gid(self.link, group))?;
                    }
                    qp.destroy()?;
                }
                Handle::Target(target) => target.destroy()?,
                Handle::Gone => return Ok(()),
            }
            self.seats[seat].handle = Handle::Gone;
        } else {
            self.move_to(seat, QpState::Reset)?;
        }
        self.freeze(seat)?;
        let plan = self.seat_plan(seat);
        if let Some(pool) = plan.pool
            && self.pools[pool].shared.is_none()
        {
            let posted = std::mem::take(&mut self.pools[pool].posted);
            let pool_plan = self.pool_plan(pool);
            for buffer in posted {
                self.seal(pool_plan.region, &pool_plan.buffers[buffer])?;
                self.pools[pool].free.push_back(buffer);
            }
        }
        if let Some(lane) = plan.lane {
            for at in self.lanes[lane].done..self.lanes[lane].next {
                self.lose(lane, at);
            }
            let run = &mut self.lanes[lane];
            run.done = run.next;
            run.due.clear();
            run.mark = Mark::None;
        }
        Ok(())
    }

    /// What was written here by way of a seat's connection, or not, stays as it is from now on.
    fn freeze(&mut self, seat: usize) -> Result<(), RigError> {
        let own = self.plan.seats[seat].lane;
        let of_peer = self.peer(seat).and_then(|peer| self.plan.seats[peer].lane);
        for (lane, is_own) in [(own, true), (of_peer, false)] {
            let Some(lane) = lane else { continue };
            let (born, next) = (self.lanes[lane].born, self.lanes[lane].next);
            for message in &self.plan.lanes[lane].messages[born..next] {
                let fetches = message.kind == Kind::Read || message.kind.is_atomic();
                let (region, place) = message.remote;
                match message.kind {
                    Kind::Write { .. } if !is_own => self.ledgers[region].freeze(place.offset, place.len)?,
                    _ if is_own && fetches => self.seal(message.local.0, &message.local.1)?,
                    _ => {}
                }
            }
        }
        Ok(())
    }

    /// Both seats through RESET, or new ones, and connected with other PSNs: later messages go on.
    fn begin_anew(&mut self, conn: usize, destroys: bool, rig: &mut Rig) -> Result<(), RigError> {
        let seats = &self.plan.conns[conn].seats;
        for seat in seats {
            self.leave(*seat, destroys)?;
        }
        rig.run(WAIT_CYCLES);
        self.take_events()?;
        self.take_completions(Take::All)?;
        for seat in seats {
            if matches!(self.seats[*seat].handle, Handle::Gone) {
                self.seats[*seat].handle = self.make_handle(*seat)?;
            }
            if let Some(lane) = self.plan.seats[*seat].lane {
                let run = &mut self.lanes[lane];
                run.born = run.next;
                run.has_failed = false;
                if self.plan.seats[*seat].service != Service::Ud {
                    run.heard = run.next;
                }
            }
        }
        self.conns[conn].may_fail = false;
        self.connect(conn)?;
        self.conns[conn].stage = Stage::Running;
        Ok(())
    }
}
