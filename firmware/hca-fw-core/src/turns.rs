//! Whose turn it is. Each turn of firmware does one bounded piece of work for one function, and functions take turns,
//! so that none waits long for the others: a command is one piece, or goes on in further turns of its function.

use hca_abi::{AdminCmd, AdminStatus, MAX_LOG_ADMIN_SIZE};

use crate::hal::Hal;
use crate::memory::{Store, Stored};
use crate::{Bus, CmdResult, Control, NUM_FUNCS};

/// The function that ports belong to, and that alone has QP0.
const MANAGER: u8 = 0;

/// One client: a function of the card with its admin queue.
#[derive(Clone, Copy)]
pub(crate) struct Func {
    pub enabled: bool,
    pub sq_base: u64,
    pub cq_base: u64,
    pub log_size: u8,
    /// Next command to execute, free running.
    pub head: u16,
    /// The first one that the driver has not announced.
    producer: u16,
    /// The command at `head`, while it is under way.
    pub command_id: u16,
    job: Job,
    /// The driver wrote CONTROL.
    has_request: bool,
    /// QPs of failed CQs must fail: where the search stands.
    failing_from: Option<u32>,
    /// Another CQ failed meanwhile.
    fails_again: bool,
    /// The firmware has lost what it knew of the function: nothing helps but a reset.
    pub is_lost: bool,
}

impl Func {
    pub const fn new() -> Self {
        Self {
            enabled: false,
            sq_base: 0,
            cq_base: 0,
            log_size: 0,
            head: 0,
            producer: 0,
            command_id: 0,
            job: Job::Idle,
            has_request: false,
            failing_from: None,
            fails_again: false,
            is_lost: false,
        }
    }
}

/// Work that goes on in the next turn of its function.
#[derive(Clone, Copy)]
enum Job {
    Idle,
    /// Until the memory accesses are over that were under way at its start.
    Fence(Fenced),
    /// Everything the function owns goes.
    Clear(Clearing),
    /// A key's row goes to host memory.
    Store(Store),
    /// All is done but the answer. What the command has asked of the hardware must not be done again.
    Answer,
}

/// What is left of a command when its handler returns.
pub(crate) enum Rest {
    None,
    Fence(Fenced),
    Store(Store),
}

/// What is done after a fence.
#[derive(Clone, Copy)]
pub(crate) enum Fenced {
    Nothing,
    FreeQp(u32),
    FreeMr(u32),
    FreeSrq(u32),
}

/// Who wants everything gone.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Asker {
    /// RESET_FUNC.
    Command,
    /// CONTROL.
    Register,
}

/// SYS-20: everything a function owns goes, in an order in which nothing is in use.
#[derive(Clone, Copy)]
struct Clearing {
    asker: Asker,
    stage: Stage,
    /// Next number to look at.
    at: u32,
    /// There was something that a fence must be waited for.
    needs_fence: bool,
}

#[derive(Clone, Copy)]
enum Stage {
    Rules,
    SilenceQps,
    SilenceSrqs,
    DropKeys,
    StartFence,
    Fence,
    FreeQps,
    FreeSrqs,
    DestroyCqs,
    DestroyEqs,
    FreePds,
    FreeXrcds,
    Done,
}

impl Func {
    /// Bus address of the entry at `head` of a ring. Ring addresses come from the driver: one at the end of the address
    /// space wraps, and the IOMMU refuses it.
    pub fn entry_at(&self, base: u64) -> u64 {
        let slot = u64::from(self.head) & ((1 << self.log_size) - 1);
        base.wrapping_add(slot * AdminCmd::BYTES as u64)
    }
}

impl Control {
    /// Takes what hardware reports.
    pub(crate) fn take_events<B: Bus>(&mut self, hal: &mut Hal<B>) -> bool {
        let mut any = false;
        while !hal.is_over()
            && let Some(event) = hal.event()
        {
            any = true;
            self.handle_event(hal, event);
            hal.pop_event();
        }
        any
    }

    /// The driver of `func` rang its admin doorbell.
    pub(crate) fn commands_announced<B: Bus>(&mut self, hal: &mut Hal<B>, func: u8) {
        let producer = hal.admin_producer(func);
        let f = &mut self.funcs[usize::from(func)];
        if !f.enabled {
            return;
        }
        if producer.wrapping_sub(f.head) > 1 << f.log_size {
            hal.set_admin_status(func, f.head, AdminStatus::BadParam.into());
        } else {
            f.producer = producer;
            self.wake(func);
        }
    }

    /// The driver of `func` wrote CONTROL. What the function has goes first, in any case.
    pub(crate) fn control_written(&mut self, func: u8) {
        self.funcs[usize::from(func)].has_request = true;
        self.wake(func);
    }

    /// A CQ of `func` is marked as failed.
    pub(crate) fn fail_qps_of_failed(&mut self, func: u8) {
        let f = &mut self.funcs[usize::from(func)];
        f.fails_again |= f.failing_from.is_some();
        f.failing_from.get_or_insert(self.qp_ids.of(func).start);
        self.wake(func);
    }

    /// One piece of work for the next function that has some; false: none has.
    pub(crate) fn take_turn<B: Bus>(&mut self, hal: &mut Hal<B>) -> bool {
        // From the one behind the last on, as if they lay in a ring.
        let from = u32::from(self.last_turn) + 1;
        let ring = u32::from(self.busy) * (1 << NUM_FUNCS | 1);
        let mut left = ring >> from & ((1 << NUM_FUNCS) - 1);
        while left != 0 {
            let func = (from + left.trailing_zeros()) as u8 % NUM_FUNCS as u8;
            left &= left - 1;
            if self.work_for(hal, func) {
                self.last_turn = func;
                return true;
            }
            // One that waits is looked at again.
            if matches!(self.funcs[usize::from(func)].job, Job::Idle) {
                self.busy &= !(1 << func);
            }
        }
        self.busy != 0 || self.last_wqes.is_waiting()
    }

    /// No function has work.
    pub(crate) fn all_rest(&self) -> bool {
        self.busy == 0 && !self.has_other_work()
    }

    /// There may be work for the function.
    fn wake(&mut self, func: u8) {
        self.busy |= 1 << (func % NUM_FUNCS as u8);
    }

    /// A command of the function is over; with none behind it nothing is looked for in its next turn.
    pub(crate) fn rest_if_idle(&mut self, func: u8) {
        let f = &self.funcs[usize::from(func)];
        if f.head == f.producer && f.failing_from.is_none() && !f.has_request {
            self.busy &= !(1 << (func % NUM_FUNCS as u8));
        }
    }

    /// False: the function has no work, or waits.
    fn work_for<B: Bus>(&mut self, hal: &mut Hal<B>, func: u8) -> bool {
        let f = &mut self.funcs[usize::from(func)];
        let is_closing = matches!(&f.job, Job::Clear(clearing) if clearing.asker == Asker::Register);
        if f.has_request && !is_closing {
            // Whatever command is under way: what it has made so far is dropped, too, and nobody waits for it.
            f.has_request = false;
            f.enabled = false;
            f.job = Job::Clear(Clearing::new(Asker::Register));
        }
        match &f.job {
            Job::Fence(then) => {
                let then = *then;
                return self.go_on_fencing(hal, func, then);
            }
            Job::Clear(clearing) => {
                let clearing = *clearing;
                return self.go_on_clearing(hal, func, clearing);
            }
            Job::Store(store) => {
                let store = *store;
                self.store(hal, func, store);
            }
            Job::Answer => self.finish(hal, func, Ok(())),
            Job::Idle if f.failing_from.is_some() => self.go_on_failing(hal, func),
            Job::Idle if f.enabled && f.head != f.producer => self.run_command(hal, func),
            Job::Idle => return false,
        }
        true
    }

    /// The rest of a command, of which this is all for now. True: it is over.
    pub(crate) fn leave<B: Bus>(&mut self, hal: &mut Hal<B>, func: u8, rest: Rest) -> bool {
        match rest {
            Rest::None => true,
            Rest::Fence(then) => {
                self.fence(hal, func, then);
                false
            }
            Rest::Store(store) => {
                // From here on the row is written, and a restart writes it again: its old content is not needed.
                self.funcs[usize::from(func)].job = Job::Store(store);
                hal.commit();
                self.store(hal, func, store);
                false
            }
        }
    }

    /// The command goes on when no access to memory is under way that is now.
    fn fence<B: Bus>(&mut self, hal: &mut Hal<B>, func: u8, then: Fenced) {
        hal.start_fence();
        self.funcs[usize::from(func)].job = Job::Fence(then);
    }

    fn store<B: Bus>(&mut self, hal: &mut Hal<B>, func: u8, store: Store) {
        match self.store_row(hal, func, store) {
            Ok(Stored::Region(key)) => {
                self.answer.set_keys(key);
                self.finish(hal, func, Ok(()));
            }
            Ok(Stored::Window(key)) => {
                self.answer.set_handle(key, 0);
                self.finish(hal, func, Ok(()));
            }
            Ok(Stored::Fence(then)) => self.fence(hal, func, then),
            Err(e) => self.finish(hal, func, Err(e)),
        }
    }

    /// What the command under way has asked of the hardware is done, and is not done again after a restart.
    pub(crate) fn only_answer<B: Bus>(&mut self, hal: &mut Hal<B>, func: u8) {
        self.funcs[usize::from(func)].job = Job::Answer;
        hal.commit();
    }

    pub(crate) fn start_reset(&mut self, func: u8) {
        self.funcs[usize::from(func)].job = Job::Clear(Clearing::new(Asker::Command));
    }

    pub(crate) fn finish<B: Bus>(&mut self, hal: &mut Hal<B>, func: u8, result: CmdResult) {
        self.funcs[usize::from(func)].job = Job::Idle;
        self.complete(hal, func, result);
    }

    fn go_on_fencing<B: Bus>(&mut self, hal: &mut Hal<B>, func: u8, then: Fenced) -> bool {
        if !hal.is_fence_over() {
            return false;
        }
        match then {
            Fenced::Nothing => {}
            Fenced::FreeQp(line) => self.free_qp(hal, line),
            Fenced::FreeMr(pd) => self.free_mr(pd),
            Fenced::FreeSrq(srqn) => self.free_srq(srqn),
        }
        self.finish(hal, func, Ok(()));
        true
    }

    /// EVT CQ_ERR, SPEC-7: every QP of a failed CQ or SRQ fails with it.
    #[inline(never)]
    fn go_on_failing<B: Bus>(&mut self, hal: &mut Hal<B>, func: u8) {
        let own = self.qp_ids.of(func);
        let mut line = self.funcs[usize::from(func)].failing_from.unwrap_or(own.end);
        while line < own.end && !hal.is_over() {
            let made = &self.qps[line as usize].made;
            let cqs = [made.send_cqn(), made.recv_cqn()];
            let must_fail = (!made.is_target() && cqs.iter().any(|cqn| self.cqs[*cqn as usize].has_failed))
                || self
                    .srq_of(line)
                    .is_some_and(|srqn| self.srqs[srqn as usize].has_failed);
            if must_fail && let Some(kind) = self.fail_qp(hal, line) {
                self.post_qp_event(hal, line, kind, 0);
            }
            line += 1;
        }
        let f = &mut self.funcs[usize::from(func)];
        f.failing_from = (line < own.end).then_some(line);
        if f.failing_from.is_none() && core::mem::take(&mut f.fails_again) {
            f.failing_from = Some(own.start);
        }
    }

    /// False: waits for a fence.
    #[inline(never)]
    fn go_on_clearing<B: Bus>(&mut self, hal: &mut Hal<B>, func: u8, mut clearing: Clearing) -> bool {
        let mut has_worked = false;
        while !self.has_to_rest(hal, func, clearing) {
            // The next one that there is, and what is done with it; behind the last one the next stage.
            let at = clearing.at;
            let next = match clearing.stage {
                Stage::Rules => {
                    if func == MANAGER {
                        self.drop_context_memory(hal);
                        self.clear_rules(hal);
                    }
                    Err(Stage::SilenceQps)
                }
                Stage::SilenceQps => match self.qp_ids.next_of(func, at) {
                    Some(line) => {
                        clearing.needs_fence = true;
                        self.silence_qp(hal, line);
                        Ok(line)
                    }
                    None => Err(Stage::SilenceSrqs),
                },
                Stage::SilenceSrqs => match self.srq_ids.next_of(func, at) {
                    Some(srqn) => {
                        clearing.needs_fence = true;
                        self.silence_srq(hal, srqn);
                        Ok(srqn)
                    }
                    None => Err(Stage::DropKeys),
                },
                Stage::DropKeys => {
                    clearing.needs_fence |= self.drop_key_table(hal, func);
                    self.clear_dm(hal, func);
                    Err(Stage::StartFence)
                }
                Stage::StartFence => {
                    if clearing.needs_fence {
                        hal.start_fence();
                    }
                    Err(Stage::Fence)
                }
                Stage::Fence if clearing.needs_fence && !hal.is_fence_over() => break,
                Stage::Fence => Err(Stage::FreeQps),
                Stage::Done => {
                    self.cleared(hal, func, clearing.asker);
                    return true;
                }
                stage => self.clear_object(hal, func, stage, at),
            };
            (clearing.stage, clearing.at) = match next {
                Ok(done) => (clearing.stage, done + 1),
                Err(stage) => (stage, 0),
            };
            has_worked = true;
        }
        self.funcs[usize::from(func)].job = Job::Clear(clearing);
        has_worked
    }

    /// Must others have a turn before the function's clearing goes on? When its own is over, but nobody waits, it goes
    /// on at once, from here if firmware is restarted.
    fn has_to_rest<B: Bus>(&mut self, hal: &mut Hal<B>, func: u8, clearing: Clearing) -> bool {
        if !hal.is_over() {
            return false;
        }
        if self.busy != 1 << func || self.has_other_work() || hal.has_event() {
            return true;
        }
        self.funcs[usize::from(func)].job = Job::Clear(clearing);
        hal.commit();
        hal.restart();
        false
    }

    /// Frees one of a function's objects, none of which is at work any more: its number, or the stage that follows.
    fn clear_object<B: Bus>(
        &mut self,
        hal: &mut Hal<B>,
        func: u8,
        stage: Stage,
        at: u32,
    ) -> Result<u32, Stage> {
        let (found, then) = match stage {
            Stage::FreeQps => (self.qp_ids.next_of(func, at), Stage::FreeSrqs),
            Stage::FreeSrqs => (self.srq_ids.next_of(func, at), Stage::DestroyCqs),
            Stage::DestroyCqs => (self.cq_ids.next_of(func, at), Stage::DestroyEqs),
            Stage::DestroyEqs => (self.eq_ids.next_of(func, at), Stage::FreePds),
            Stage::FreePds => (self.pd_ids.next_of(func, at), Stage::FreeXrcds),
            Stage::FreeXrcds => (self.xrcd_ids.next_of(func, at), Stage::Done),
            _ => (None, Stage::Done),
        };
        let object = found.ok_or(then)?;
        // None is refused: what used it is gone before it.
        let _ = match stage {
            Stage::FreeQps => {
                self.free_qp(hal, object);
                Ok(())
            }
            Stage::FreeSrqs => {
                self.free_srq(object);
                Ok(())
            }
            Stage::DestroyCqs => self.destroy_cq(hal, func, object),
            Stage::DestroyEqs => self.destroy_eq(hal, func, object),
            Stage::FreePds => {
                // Regions that used it are gone with the key table.
                self.pds[object as usize] = 0;
                self.dealloc_pd(func, object)
            }
            _ => self.dealloc_xrcd(func, object),
        };
        Ok(object)
    }

    /// The function owns nothing any more.
    fn cleared<B: Bus>(&mut self, hal: &mut Hal<B>, func: u8, asker: Asker) {
        if func == MANAGER {
            self.manager_gone();
        }
        let f = &mut self.funcs[usize::from(func)];
        f.failing_from = None;
        f.fails_again = false;
        if asker == Asker::Command {
            return self.finish(hal, func, Ok(()));
        }
        let was_lost = f.is_lost;
        *f = Func::new();
        hal.wait_ctx();
        if was_lost {
            self.announce_link(hal);
        }
        let (enable, reset) = hal.func_control(func);
        if reset || !enable {
            hal.set_admin_status(func, 0, 0);
            if reset {
                hal.reset_done(func);
            }
            return;
        }
        let (sq_base, cq_base, log_size) = hal.admin_rings(func);
        let ok = log_size <= MAX_LOG_ADMIN_SIZE as u8 && sq_base % 64 == 0 && cq_base % 64 == 0;
        let f = &mut self.funcs[usize::from(func)];
        // A new driver begins at 0 and rings after it has enabled.
        (f.enabled, f.sq_base, f.cq_base, f.log_size) = (ok, sq_base, cq_base, log_size);
        let status = if ok {
            AdminStatus::Ok
        } else {
            AdminStatus::BadParam
        };
        hal.set_admin_status(func, 0, status.into());
        // Its doorbell may have been faster than its register write.
        self.commands_announced(hal, func);
    }
}

impl Clearing {
    fn new(asker: Asker) -> Self {
        Self {
            asker,
            stage: Stage::Rules,
            at: 0,
            needs_fence: false,
        }
    }
}
