//! Completion queues.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

use hca_abi::{CqArm, CreateCqCmd, ResizeCqCmd, WcOpcode, WcStatus};
use hca_dev::Device;
use hca_driver::{Completion, CqRing, DevicePtr, Doorbells, DriverError, QpShadow, SrqRing, usable_cqes};

use crate::function::dispatcher::CqSink;
use crate::function::shared::Shared;
use crate::objects::channel::CompChannel;
use crate::objects::context::Context;
use crate::values::error::{Error, Result};
use crate::values::lock::lock;

/// Empty polls between two looks whether the device is still there.
const POLLS_PER_LOOK: u32 = 64;
/// Completions that arming takes at a time.
const BATCH: usize = 16;

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
    fn new(completion: &Completion) -> Result<Self> {
        let cqe = &completion.cqe;
        let bad = |what, code: u8| DriverError::BadAnswer {
            what,
            value: code.into(),
        };
        let status =
            WcStatus::try_from(cqe.status()).map_err(|e| bad("a work request (wc_status)", e.code))?;
        let opcode =
            WcOpcode::try_from(cqe.opcode()).map_err(|e| bad("a work request (wc_opcode)", e.code))?;
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

/// What a CQ is made with.
pub struct CqOptions<'a, P: DevicePtr> {
    /// Completions it holds at least; at most about 3 million.
    pub cqe: u32,
    /// Where its events go.
    pub channel: Option<&'a CompChannel<P>>,
    /// Event queue of its events, below [`Context::comp_vectors`].
    pub comp_vector: u16,
}

impl<'a, P: DevicePtr> CqOptions<'a, P> {
    /// A CQ without a channel.
    pub fn new(cqe: u32) -> Self {
        Self {
            cqe,
            channel: None,
            comp_vector: 0,
        }
    }

    /// With events.
    pub fn with_channel(cqe: u32, channel: &'a CompChannel<P>) -> Self {
        Self {
            cqe,
            channel: Some(channel),
            comp_vector: 0,
        }
    }
}

pub(crate) struct CqShared<P: DevicePtr> {
    pub shared: Arc<Shared<P>>,
    pub cqn: u32,
    queue: Mutex<Queue>,
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
    held: Option<Error>,
}

impl Queue {
    #[inline]
    fn take<P: DevicePtr>(&mut self, doorbells: &Doorbells<P>, wc: &mut [WorkCompletion]) -> Result<usize> {
        if self.taken.is_empty() {
            return self.take_from_ring(doorbells, wc);
        }
        let count = self.taken.len().min(wc.len());
        wc.iter_mut()
            .zip(self.taken.drain(..count))
            .for_each(|(to, from)| *to = from);
        if count == wc.len() {
            return Ok(count);
        }
        match self.take_from_ring(doorbells, &mut wc[count..]) {
            Ok(more) => Ok(count + more),
            Err(e) => {
                self.held = Some(e);
                Ok(count)
            }
        }
    }

    #[inline]
    fn take_from_ring<P: DevicePtr>(
        &mut self,
        doorbells: &Doorbells<P>,
        wc: &mut [WorkCompletion],
    ) -> Result<usize> {
        if let Some(error) = self.held.take() {
            return Err(error);
        }
        let mut count = 0;
        while count < wc.len() {
            let found = match self.ring.poll(doorbells) {
                Ok(None) => break,
                Ok(Some(completion)) => WorkCompletion::new(&completion),
                Err(e) => Err(e.into()),
            };
            match found {
                Ok(completion) => wc[count] = completion,
                Err(e) if count == 0 => return Err(e),
                Err(e) => {
                    self.held = Some(e);
                    break;
                }
            }
            count += 1;
        }
        Ok(count)
    }

    /// Takes all that the ring holds, as far as there is room. An error is for the poll that comes to it.
    fn take_ahead<P: DevicePtr>(&mut self, doorbells: &Doorbells<P>) {
        let mut wc = [WorkCompletion::default(); BATCH];
        loop {
            let room = (self.taken.capacity() - self.taken.len()).min(BATCH);
            match self.take_from_ring(doorbells, &mut wc[..room]) {
                Ok(count) => {
                    self.taken.extend(&wc[..count]);
                    if count < BATCH {
                        return;
                    }
                }
                Err(e) => {
                    self.held = Some(e);
                    return;
                }
            }
        }
    }
}

impl<P: DevicePtr> CqShared<P> {
    pub fn attach(&self, qpn: u32, shadow: QpShadow) {
        lock(&self.queue).ring.attach(qpn, shadow);
    }

    pub fn attach_srq(&self, number: u32, ring: Arc<SrqRing>) {
        lock(&self.queue).ring.attach_srq(number, ring);
    }

    pub fn detach_srq(&self, number: u32) {
        lock(&self.queue).ring.detach_srq(number);
    }

    /// Removes every completion of a QP that the card has moved to RESET, or destroyed.
    pub fn purge(&self, qpn: u32, detach: bool) {
        let Queue { ring, taken, .. } = &mut *lock(&self.queue);
        taken.retain(|wc| wc.qp_num != qpn);
        if !self.gone.load(Ordering::Acquire) {
            ring.purge(&self.shared.doorbells, qpn);
        }
        if detach {
            ring.detach(qpn);
        }
    }

    fn check_there(&self) -> Result<()> {
        if self.gone.load(Ordering::Acquire) {
            return Err(Error::Destroyed {
                what: "CQ",
                id: self.cqn,
            });
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
        let memory = lock(&self.queue).ring.memory().clone();
        Ok(self.shared.device().free_dma(memory)?)
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
        let (cqn, memory) = shared.with_ring(CqRing::ring_bytes(log_size), |ring| {
            let mut cmd = CreateCqCmd::new();
            cmd.set_base(ring.iova());
            cmd.set_log_size(log_size);
            cmd.set_eqn(eq.eqn);
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
        let ahead = sink.channel.as_ref().map_or(0, |_| usable_cqes(log_size));
        let queue = Mutex::new(Queue {
            ring: CqRing::new(memory, cqn, log_size, qpn_line_bits),
            taken: VecDeque::with_capacity(ahead as usize),
            held: None,
        });
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
        usable_cqes(lock(&self.inner.queue).ring.log_size())
    }

    /// ibv_resize_cq (V-63): room for at least `cqe` completions. Those that wait stay, in order; so does the arming.
    /// A queue never becomes smaller, but fewer than those that wait are refused. After an error it is as it was.
    pub fn resize(&self, cqe: u32) -> Result<()> {
        let cq = &*self.inner;
        cq.check_there()?;
        let log_size = CqRing::log_size_for(cqe)?;
        // Nobody polls from the old ring once the card writes to the new one.
        let mut queue = lock(&cq.queue);
        if log_size <= queue.ring.log_size() {
            // Sends that were posted before count, as on cards whose command takes longer than a send.
            for _ in 0..SETTLING_NOPS {
                cq.shared.function().nop()?;
            }
            let waiting = queue.ring.waiting();
            if cqe < waiting {
                return Err(Error::Invalid(format!(
                    "cqe {cqe}: {waiting} completions wait in the queue; poll them first"
                )));
            }
            return Ok(());
        }
        let ((), memory) = cq.shared.with_ring(CqRing::ring_bytes(log_size), |ring| {
            queue.ring.prepare(ring, log_size);
            let mut cmd = ResizeCqCmd::new();
            cmd.set_base(ring.iova());
            cmd.set_log_size(log_size);
            cmd.set_cqn(cq.cqn);
            cq.shared.function().resize_cq(&cmd)
        })?;
        let old = queue.ring.move_to(memory, log_size);
        if cq.sink.channel.is_some() {
            let taken = &mut queue.taken;
            taken.reserve((usable_cqes(log_size) as usize).saturating_sub(taken.len()));
        }
        Ok(cq.shared.device().free_dma(old)?)
    }

    /// ibv_poll_cq: takes up to `wc.len()` completions, oldest first; returns how many. Finding none lets the
    /// card (or simulated time) go on, and may sleep for a moment. A CQ that has overrun gives what is left, then
    /// [`Error::CqDead`] for ever. The only lock is the CQ's own.
    #[inline]
    pub fn poll_cq(&self, wc: &mut [WorkCompletion]) -> Result<usize> {
        let count = self.poll_ready(wc)?;
        let empty_polls = &self.inner.empty_polls;
        if count > 0 {
            // A store only where it changes something: the line may be shared with other pollers.
            if empty_polls.load(Ordering::Relaxed) != 0 {
                empty_polls.store(0, Ordering::Relaxed);
            }
            return Ok(count);
        }
        if wc.is_empty() { Ok(0) } else { self.poll_again(wc) }
    }

    /// After a look that found nothing. Whatever comes after the two values are read is either seen by the second
    /// look or ends the rest.
    fn poll_again(&self, wc: &mut [WorkCompletion]) -> Result<usize> {
        let cq = &*self.inner;
        let device = cq.shared.device();
        cq.shared.dispatcher.run_for_poll();
        let (seen, is_dead) = (device.activity(), cq.sink.dead.load(Ordering::Acquire));
        let count = self.poll_ready(wc)?;
        if count > 0 {
            cq.empty_polls.store(0, Ordering::Relaxed);
            return Ok(count);
        }
        if is_dead {
            return Err(Error::CqDead { cqn: cq.cqn });
        }
        let empty_polls = cq.empty_polls.fetch_add(1, Ordering::Relaxed);
        device.rest(seen, empty_polls);
        if empty_polls % POLLS_PER_LOOK == POLLS_PER_LOOK - 1 && device.is_gone() {
            return Err(DriverError::Gone.into());
        }
        Ok(0)
    }

    /// The same, but finding none is the end of it: no time passes, and a dead CQ is not noticed.
    pub fn poll_ready(&self, wc: &mut [WorkCompletion]) -> Result<usize> {
        let cq = &*self.inner;
        cq.check_there()?;
        lock(&cq.queue).take(&cq.shared.doorbells, wc)
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
        let mut queue = lock(&cq.queue);
        queue.take_ahead(&cq.shared.doorbells);
        queue.ring.arm(&cq.shared.doorbells, arm);
        Ok(())
    }

    /// ibv_destroy_cq now: EBUSY while a QP uses it, and then nothing has changed.
    pub fn destroy(&self) -> Result<()> {
        self.inner.destroy()
    }
}
