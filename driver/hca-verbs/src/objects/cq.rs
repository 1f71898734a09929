//! Completion queues.

use std::cell::Cell;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use hca_abi::{CqArm, CreateCqCmd, ModifyCqCmd, ResizeCqCmd, WcOpcode, WcStatus, wc_flag};
use hca_dev::{Device, DmaBuf, OneThread, ShortLock};
use hca_driver::{
    BadCompletion, Completion, CqRing, DevicePtr, Doorbells, DriverError, QpShadow, SrqRing, usable_cqes,
};

use crate::function::dispatcher::{ChannelQueue, CqSink};
use crate::function::shared::Shared;
use crate::objects::channel::CompChannel;
use crate::objects::context::Context;
use crate::values::error::{Error, Result};

/// Empty polls between two looks whether the device is still there.
const POLLS_PER_LOOK: u32 = 64;
/// Commands that take longer than a short send with a cold key.
const SETTLING_NOPS: usize = 4;

/// A completion: ibv_wc. With a status other than success only wr_id, status, qp_num and vendor_err count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WorkCompletion {
    /// wr_id of the work request.
    pub wr_id: u64,
    /// Result.
    pub status: WcStatus,
    /// What completed.
    pub opcode: WcOpcode,
    /// Detail of an error.
    pub vendor_err: u8,
    /// Bytes received, or moved by a READ or atomic.
    pub byte_len: u32,
    /// Immediate data (flag WITH_IMM) or invalidated R_Key (flag WITH_INV), as a number.
    pub imm_data: u32,
    /// Local QP.
    pub qp_num: u32,
    /// UD: source QP.
    pub src_qp: u32,
    /// wc_flag bits.
    pub wc_flags: u8,
    /// GSI: index of the P_Key.
    pub pkey_index: u16,
    /// UD: source LID.
    pub slid: u16,
    /// UD: service level; over Ethernet the network header: 9 IPv6, 10 IPv4 (IBA A17.4.5.1, values of ConnectX).
    pub sl: u8,
    /// UD: path bits of the destination LID.
    pub dlid_path_bits: u8,
    /// Card cycles.
    pub timestamp: u64,
}

impl Default for WorkCompletion {
    fn default() -> Self {
        Self {
            wr_id: 0,
            status: WcStatus::Success,
            opcode: WcOpcode::Send,
            vendor_err: 0,
            byte_len: 0,
            imm_data: 0,
            qp_num: 0,
            src_qp: 0,
            wc_flags: 0,
            pkey_index: 0,
            slid: 0,
            sl: 0,
            dlid_path_bits: 0,
            timestamp: 0,
        }
    }
}

impl WorkCompletion {
    /// Of a frame: the tag of its rule (ibv_wc_read_flow_tag), 0 without one. Of a message: 0.
    pub fn flow_tag(&self) -> u32 {
        if self.wc_flags & (wc_flag::WITH_IMM | wc_flag::WITH_INV) == 0 {
            // Of immediate data it would be the first byte on the wire that is the most significant.
            self.imm_data.swap_bytes()
        } else {
            0
        }
    }

    #[inline(always)]
    fn new(completion: &Completion) -> std::result::Result<Self, Box<Error>> {
        let cqe = &completion.cqe;
        let codes = (cqe.status(), cqe.opcode());
        let (Ok(status), Ok(opcode)) = (WcStatus::try_from(codes.0), WcOpcode::try_from(codes.1)) else {
            return Err(bad_answer(codes));
        };
        Ok(Self {
            wr_id: completion.wr_id,
            status,
            opcode,
            vendor_err: cqe.vendor_err(),
            byte_len: cqe.byte_len(),
            imm_data: cqe.imm_data().swap_bytes(),
            qp_num: cqe.qpn(),
            src_qp: cqe.src_qp(),
            wc_flags: cqe.wc_flags(),
            pkey_index: cqe.pkey_index(),
            slid: cqe.slid(),
            sl: cqe.sl(),
            dlid_path_bits: cqe.dlid_path_bits(),
            timestamp: cqe.timestamp(),
        })
    }

    /// Success?
    pub fn is_ok(&self) -> bool {
        self.status == WcStatus::Success
    }
}

/// What is wrong with the status or the opcode of a completion.
#[cold]
#[inline(never)]
fn bad_answer((status, opcode): (u8, u8)) -> Box<Error> {
    let (what, code) = match WcStatus::try_from(status) {
        Err(_) => ("a work request (wc_status)", status),
        Ok(_) => ("a work request (wc_opcode)", opcode),
    };
    let value = code.into();
    Box::new(DriverError::BadAnswer { what, value }.into())
}

#[cold]
#[inline(never)]
fn bad_completion(bad: BadCompletion) -> Box<Error> {
    Box::new(DriverError::from(bad).into())
}

#[cold]
#[inline(never)]
fn destroyed(cqn: u32) -> Box<Error> {
    Box::new(Error::Destroyed { what: "CQ", id: cqn })
}

/// What a poll returns on its way: an error is large, seldom, and has its own memory.
type Polled = std::result::Result<usize, Box<Error>>;

/// What a CQ is made with.
pub struct CqOptions<'a, P: DevicePtr> {
    /// Completions it holds at least; at most about 3 million.
    pub cqe: u32,
    /// Where its events go.
    pub channel: Option<&'a CompChannel<P>>,
    /// Event queue of its events, below [`Context::comp_vectors`].
    pub comp_vector: u16,
    /// Nobody polls it while another does: it needs no lock.
    pub one_thread: Option<OneThread>,
    /// V-58: it has no overrun: a completion without room replaces the oldest one, which the caller vouches to have
    /// taken.
    pub ignore_overrun: bool,
}

impl<'a, P: DevicePtr> CqOptions<'a, P> {
    /// A CQ without a channel.
    pub fn new(cqe: u32) -> Self {
        Self {
            cqe,
            channel: None,
            comp_vector: 0,
            one_thread: None,
            ignore_overrun: false,
        }
    }

    /// With events.
    pub fn with_channel(cqe: u32, channel: &'a CompChannel<P>) -> Self {
        Self {
            cqe,
            channel: Some(channel),
            ..Self::new(cqe)
        }
    }
}

pub(crate) struct CqShared<P: DevicePtr> {
    pub shared: Arc<Shared<P>>,
    pub cqn: u32,
    queue: ShortLock<Queue>,
    sink: Arc<CqSink>,
    gone: AtomicBool,
    /// Polls in a row that found nothing.
    empty_polls: AtomicU32,
}

/// What a poll needs. Both places that hold completions are behind one lock: whoever takes some takes the oldest.
struct Queue {
    ring: CqRing,
    /// Completions that arming has taken off the ring, older than all in it. Its room is made when the queue is made
    /// or resized; a queue without a channel has none, and needs none.
    taken: VecDeque<WorkCompletion>,
    /// An error found behind completions that had to be delivered first.
    held: Option<Box<Error>>,
}

impl Queue {
    /// Up to `max` completions, oldest first, each with how many came before it. What fails behind some of them is for
    /// the next call. Inlined always, as all that a completion goes through from the ring to the program's structure:
    /// so it stays in registers.
    #[inline(always)]
    fn take<P: DevicePtr>(
        &mut self,
        doorbells: &Doorbells<P>,
        max: usize,
        take: impl Fn(usize, &WorkCompletion),
    ) -> Polled {
        let mut count = 0;
        while count < max && !self.taken.is_empty() {
            self.taken.pop_front().iter().for_each(|wc| take(count, wc));
            count += 1;
        }
        self.take_from_ring(doorbells, count, max, take)
    }

    /// The same of the ring alone, where `count` have been taken already.
    #[inline(always)]
    fn take_from_ring<P: DevicePtr>(
        &mut self,
        doorbells: &Doorbells<P>,
        mut count: usize,
        max: usize,
        mut take: impl FnMut(usize, &WorkCompletion),
    ) -> Polled {
        if count < max && self.held.is_some() {
            return self.take_held(count);
        }
        while count < max {
            let completion = match self.ring.poll(doorbells) {
                Ok(None) => break,
                Ok(Some(completion)) => completion,
                Err(bad) => return self.hold(count, bad_completion(bad)),
            };
            match WorkCompletion::new(&completion) {
                Ok(wc) => take(count, &wc),
                Err(error) => return self.hold(count, error),
            }
            count += 1;
        }
        Ok(count)
    }

    /// The error that earlier completions were delivered before.
    #[cold]
    #[inline(never)]
    fn take_held(&mut self, count: usize) -> Polled {
        match self.held.take() {
            Some(error) => self.hold(count, error),
            None => Ok(count),
        }
    }

    /// An error comes alone.
    #[cold]
    #[inline(never)]
    fn hold(&mut self, count: usize, error: Box<Error>) -> Polled {
        if count == 0 {
            return Err(error);
        }
        self.held = Some(error);
        Ok(count)
    }

    /// Takes all that the ring holds, as far as there is room. An error is for the poll that comes to it.
    fn take_ahead<P: DevicePtr>(&mut self, doorbells: &Doorbells<P>) {
        let mut ahead = std::mem::take(&mut self.taken);
        let room = ahead.capacity() - ahead.len();
        let taken = self.take_from_ring(doorbells, 0, room, |_, wc| ahead.push_back(*wc));
        self.taken = ahead;
        if let Err(e) = taken {
            self.held = Some(e);
        }
    }
}

/// Room for all that a ring holds: arming takes it ahead, and must not fail.
fn make_room(taken: &mut VecDeque<WorkCompletion>, log_size: u8) -> Result<()> {
    let entries = usable_cqes(log_size) as usize;
    let reserved = taken.try_reserve_exact(entries.saturating_sub(taken.len()));
    reserved.map_err(|_| Error::NoMemory {
        what: "a CQ with a channel",
        len_bytes: entries * size_of::<WorkCompletion>(),
    })?;
    Ok(hca_room::require()?)
}

impl<P: DevicePtr> CqShared<P> {
    pub fn attach(&self, qpn: u32, shadow: QpShadow) {
        self.queue.with(|queue| queue.ring.attach(qpn, shadow));
    }

    pub fn attach_srq(&self, number: u32, ring: Arc<SrqRing>) {
        self.queue.with(|queue| queue.ring.attach_srq(number, ring));
    }

    pub fn detach_srq(&self, number: u32) {
        self.queue.with(|queue| queue.ring.detach_srq(number));
    }

    /// Removes every completion of a QP that the card has moved to RESET, or destroyed.
    pub fn purge(&self, qpn: u32, detach: bool) {
        self.queue.with(|Queue { ring, taken, .. }| {
            taken.retain(|wc| wc.qp_num != qpn);
            if !self.gone.load(Ordering::Acquire) {
                ring.purge(&self.shared.doorbells, qpn);
            }
            if detach {
                ring.detach(qpn);
            }
        });
    }

    /// The ring that is not in use any more, if there is another one now.
    fn resize_queue(&self, queue: &mut Queue, cqe: u32, log_size: u8) -> Result<Option<DmaBuf>> {
        if log_size <= queue.ring.log_size() {
            // Sends that were posted before count, as on cards whose command takes longer than a send.
            for _ in 0..SETTLING_NOPS {
                self.shared.function().nop()?;
            }
            let waiting = queue.ring.waiting();
            if cqe < waiting {
                return Err(Error::Invalid(format!(
                    "cqe {cqe}: {waiting} completions wait in the queue; poll them first"
                )));
            }
            return Ok(None);
        }
        if self.sink.channel.is_some() {
            make_room(&mut queue.taken, log_size)?;
        }
        let ((), memory) = self.shared.with_ring(CqRing::ring_bytes(log_size), |ring| {
            queue.ring.prepare(ring, log_size);
            let mut cmd = ResizeCqCmd::new();
            cmd.set_base(ring.iova());
            cmd.set_log_size(log_size);
            cmd.set_cqn(self.cqn);
            self.shared.function().resize_cq(&cmd)
        })?;
        Ok(Some(queue.ring.move_to(memory, log_size)))
    }

    fn check_there(&self) -> Result<()> {
        if self.gone.load(Ordering::Acquire) {
            return Err(*destroyed(self.cqn));
        }
        Ok(())
    }

    fn destroy(&self) -> Result<()> {
        self.check_there()?;
        self.shared.function().destroy_cq(self.cqn)?;
        self.release()
    }

    fn release(&self) -> Result<()> {
        self.gone.store(true, Ordering::Release);
        self.shared.dispatcher.remove_cq(self.cqn);
        let memory = self.queue.with(|queue| queue.ring.memory().clone());
        Ok(self.shared.device().free_dma(memory)?)
    }
}

impl<P: DevicePtr> CqShared<P> {
    #[inline(always)]
    fn ready(&self, max: usize, take: impl Fn(usize, &WorkCompletion)) -> Polled {
        if self.gone.load(Ordering::Acquire) {
            return Err(destroyed(self.cqn));
        }
        self.queue
            .with(|queue| queue.take(&self.shared.doorbells, max, take))
    }

    /// After a look that found nothing. Whatever comes after the two values are read is either seen by the second
    /// look or ends the rest.
    #[inline(never)]
    fn poll_again(&self, max: usize, take: impl Fn(usize, &WorkCompletion)) -> Polled {
        let device = self.shared.device();
        self.shared.dispatcher.run_for_poll();
        let (seen, is_dead) = (device.activity(), self.sink.dead.load(Ordering::Acquire));
        let count = self.ready(max, take)?;
        if count > 0 {
            self.empty_polls.store(0, Ordering::Relaxed);
            return Ok(count);
        }
        if is_dead {
            return Err(Box::new(Error::CqDead { cqn: self.cqn }));
        }
        // Two pollers may count one poll for both: it is a measure of patience.
        let empty_polls = self.empty_polls.load(Ordering::Relaxed);
        self.empty_polls
            .store(empty_polls.wrapping_add(1), Ordering::Relaxed);
        device.rest(seen, empty_polls);
        if empty_polls % POLLS_PER_LOOK == POLLS_PER_LOOK - 1 && device.is_gone() {
            return Err(Box::new(DriverError::Gone.into()));
        }
        Ok(0)
    }
}

impl<P: DevicePtr> Drop for CqShared<P> {
    fn drop(&mut self) {
        if !self.gone.load(Ordering::Acquire) {
            // The card may be gone: its memory is released all the same.
            let _ = self.shared.function().destroy_cq(self.cqn);
            let _ = self.release();
        }
    }
}

/// Completion queue: ibv_cq. Clones are the same queue; QPs keep theirs alive.
pub struct Cq<P: DevicePtr> {
    inner: Arc<CqShared<P>>,
}

debug_as!(Cq, cqn);

impl<P: DevicePtr> Clone for Cq<P> {
    fn clone(&self) -> Self {
        Self {
            inner: self.inner.clone(),
        }
    }
}

impl<P: DevicePtr> Context<P> {
    /// ibv_create_cq.
    pub fn create_cq(&self, options: &CqOptions<'_, P>) -> Result<Cq<P>> {
        Cq::new(self.shared().clone(), options)
    }
}

impl<P: DevicePtr> Cq<P> {
    pub(crate) fn new(shared: Arc<Shared<P>>, options: &CqOptions<'_, P>) -> Result<Self> {
        if options.cqe == 0 {
            return Err(Error::Invalid("cqe 0: a CQ holds at least one completion".into()));
        }
        let vectors = shared.comp_eqs.len();
        let Some(eq) = shared.comp_eqs.get(usize::from(options.comp_vector)).copied() else {
            let vector = options.comp_vector;
            return Err(Error::Invalid(format!(
                "comp_vector {vector}: there are {vectors}"
            )));
        };
        let log_size = CqRing::log_size_for(options.cqe)?;
        let qpn_line_bits = shared.query_device()?.qpn_line_bits();
        shared.dispatcher.require_room()?;
        let mut taken = VecDeque::new();
        if options.channel.is_some() {
            make_room(&mut taken, log_size)?;
        }
        let (cqn, memory) = shared.with_ring(CqRing::ring_bytes(log_size), |ring| {
            let mut cmd = CreateCqCmd::new();
            cmd.set_base(ring.iova());
            cmd.set_log_size(log_size);
            cmd.set_eqn(eq.eqn);
            cmd.set_ignore_overrun(options.ignore_overrun);
            shared.function().create_cq(&cmd)
        })?;
        let channel = options.channel.map(|channel| channel.queue().clone());
        if let Some(channel) = &channel {
            channel.vector.store(eq.vector, Ordering::Relaxed);
        }
        let sink = Arc::new(CqSink {
            dead: AtomicBool::new(false),
            channel,
        });
        shared.dispatcher.add_cq(cqn, sink.clone());
        let queue = Queue {
            ring: CqRing::new(memory, cqn, log_size, qpn_line_bits),
            taken,
            held: None,
        };
        let queue = ShortLock::new(queue, options.one_thread);
        Ok(Self {
            inner: Arc::new(CqShared {
                shared,
                cqn,
                queue,
                sink,
                gone: AtomicBool::new(false),
                empty_polls: AtomicU32::new(0),
            }),
        })
    }

    pub(crate) fn inner(&self) -> &Arc<CqShared<P>> {
        &self.inner
    }

    /// Its number, as [`CompChannel`] and asynchronous events give it.
    pub fn cqn(&self) -> u32 {
        self.inner.cqn
    }

    /// Completions it holds without overrun.
    pub fn cqe(&self) -> u32 {
        self.inner.queue.with(|queue| usable_cqes(queue.ring.log_size()))
    }

    /// ibv_resize_cq (V-63): room for at least `cqe` completions. Those that wait stay, in order; so does the arming.
    /// A queue never becomes smaller, but fewer than those that wait are refused. After an error it is as it was.
    pub fn resize(&self, cqe: u32) -> Result<()> {
        let cq = &*self.inner;
        cq.check_there()?;
        let log_size = CqRing::log_size_for(cqe)?;
        // Nobody polls from the old ring once the card writes to the new one.
        let old = cq.queue.with(|queue| cq.resize_queue(queue, cqe, log_size))?;
        old.map_or(Ok(()), |old| Ok(cq.shared.device().free_dma(old)?))
    }

    /// ibv_modify_cq with MODERATE (V-64): when the CQ is armed and has what it was armed for, its event comes with the
    /// `count`-th completion that was not taken, or `period_us` after the first one; at once if either is 0. At most
    /// max_cq_count and max_cq_period_us of the device's attributes.
    pub fn moderate(&self, count: u16, period_us: u16) -> Result<()> {
        let cq = &*self.inner;
        cq.check_there()?;
        let mut cmd = ModifyCqCmd::new();
        cmd.set_cqn(cq.cqn);
        cmd.set_count(count);
        cmd.set_period_us(period_us);
        Ok(cq.shared.function().modify_cq(&cmd)?)
    }

    /// ibv_poll_cq: takes up to `wc.len()` completions, oldest first; returns how many. Finding none lets the
    /// card (or simulated time) go on, and may sleep for a moment. A CQ that has overrun gives what is left, then
    /// [`Error::CqDead`] for ever. The only lock is the CQ's own.
    #[inline]
    pub fn poll_cq(&self, wc: &mut [WorkCompletion]) -> Result<usize> {
        let wc = Cell::from_mut(wc).as_slice_of_cells();
        self.poll_each(wc.len(), |at, found| wc[at].set(*found))
    }

    /// The same, with each completion given to `take` as it is found, and how many came before it. It runs under the
    /// CQ's lock, and must not use the CQ.
    #[inline]
    pub fn poll_each(&self, max: usize, take: impl Fn(usize, &WorkCompletion)) -> Result<usize> {
        let count = self.inner.ready(max, &take).map_err(|error| *error)?;
        let empty_polls = &self.inner.empty_polls;
        if count > 0 {
            // A store only where it changes something: the line may be shared with other pollers.
            if empty_polls.load(Ordering::Relaxed) != 0 {
                empty_polls.store(0, Ordering::Relaxed);
            }
            return Ok(count);
        }
        if max == 0 {
            Ok(0)
        } else {
            self.inner.poll_again(max, take).map_err(|error| *error)
        }
    }

    /// [`Cq::poll_cq`], but finding none is the end of it: no time passes, and a dead CQ is not noticed.
    pub fn poll_ready(&self, wc: &mut [WorkCompletion]) -> Result<usize> {
        let wc = Cell::from_mut(wc).as_slice_of_cells();
        let ready = self.inner.ready(wc.len(), |at, found| wc[at].set(*found));
        ready.map_err(|error| *error)
    }

    /// Polls until `wc` is full or `deadline_ns` of [`Device::now_ns`] has passed (an error that says how
    /// many came).
    pub fn poll_all(&self, wc: &mut [WorkCompletion], deadline_ns: u64) -> Result<()> {
        let start_ns = self.inner.shared.device().now_ns();
        let mut done = 0;
        while done < wc.len() {
            let count = self.poll_cq(&mut wc[done..])?;
            done += count;
            let now_ns = self.inner.shared.device().now_ns();
            if count == 0 && now_ns >= deadline_ns {
                return Err(Error::Timeout {
                    what: "completion",
                    waited_ns: now_ns - start_ns,
                });
            }
        }
        Ok(())
    }

    /// ibv_req_notify_cq: one event at the next new completion; with `solicited_only`, at the next solicited
    /// receive or failed work request. Canonical order (V-70): get event, arm again, then drain.
    ///
    /// V-67: completions that are there do not trigger, the next new one does. The card triggers as well when it has
    /// written completions that it was not told the consumption of; so they are all taken off its ring first.
    pub fn req_notify(&self, solicited_only: bool) -> Result<()> {
        let cq = &*self.inner;
        cq.check_there()?;
        let arm = if solicited_only {
            CqArm::Solicited
        } else {
            CqArm::Next
        };
        cq.queue.with(|queue| {
            queue.take_ahead(&cq.shared.doorbells);
            queue.ring.arm(&cq.shared.doorbells, arm);
        });
        Ok(())
    }

    /// The channel that it was made with.
    pub(crate) fn channel(&self) -> Option<&Arc<ChannelQueue>> {
        self.inner.sink.channel.as_ref()
    }

    /// What is there, with an error once it is dead and empty; no time passes.
    pub(crate) fn take_one(&self) -> Result<Option<WorkCompletion>> {
        let is_dead = self.inner.sink.dead.load(Ordering::Acquire);
        let mut wc = [WorkCompletion::default()];
        match self.poll_ready(&mut wc)? {
            0 if is_dead => Err(Error::CqDead { cqn: self.inner.cqn }),
            0 => Ok(None),
            _ => Ok(Some(wc[0])),
        }
    }

    /// ibv_destroy_cq now: EBUSY while a QP uses it, and then nothing has changed.
    pub fn destroy(&self) -> Result<()> {
        self.inner.destroy()
    }
}
