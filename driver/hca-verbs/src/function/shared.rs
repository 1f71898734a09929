//! What every object of an open function shares: its doorbells, its event queues, its admin queue.

use std::sync::{Arc, Mutex, MutexGuard, OnceLock};

use hca_abi::{CreateEqCmd, ModifyQpCmd, QueryDeviceResult as DeviceAttr};
use hca_dev::{Device, DmaBuf};
use hca_driver::{
    DevicePtr, Doorbells, DriverError, EqRing, Function, FunctionInfo, OpenOptions, PushSlot, PushSlots,
};

use crate::function::dispatcher::Dispatcher;
use crate::values::address::while_resolving;
use crate::values::attr::{QpAttr, QpAttrMask};
use crate::values::error::{Error, Result};
use crate::values::lock::lock;
use crate::values::wall_clock::WallClock;

/// Completion events: one per armed CQ, twice if it is armed again before the queue is read.
const COMP_EQ_LOG_SIZE: u8 = 11;
const ASYNC_EQ_LOG_SIZE: u8 = 10;
/// Completion vectors of a context. A card has eight event queues for each function at least; one of them is for
/// asynchronous events.
const COMP_VECTORS_MAX: u16 = 4;

/// One event queue and the vector it rings.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Eq {
    pub eqn: u8,
    pub vector: u16,
}

/// What every object of a context shares.
pub(crate) struct Shared<P: DevicePtr> {
    pub doorbells: Doorbells<P>,
    pub dispatcher: Dispatcher<P>,
    pub async_eq: Eq,
    /// One for each completion vector, at least one.
    pub comp_eqs: Vec<Eq>,
    pub info: FunctionInfo,
    pub name: String,
    push_slots: OnceLock<Arc<PushSlots>>,
    pub wall_clock: WallClock,
    /// Dropped last of all: resets the function.
    function: Mutex<Function<P>>,
    eq_memory: Mutex<Vec<DmaBuf>>,
}

impl<P: DevicePtr> Shared<P> {
    /// Brings a function up, with its event queues.
    pub fn open(dev: P, options: &OpenOptions) -> Result<Self> {
        let mut function = Function::open(dev.clone(), options)?;
        let info = function.info();
        let (async_eq, async_ring) = make_eq(&mut function, ASYNC_EQ_LOG_SIZE, 0, true)?;
        let (mut comp_eqs, mut rings) = (Vec::new(), Vec::new());
        for number in 0..COMP_VECTORS_MAX.min(info.vectors.saturating_sub(1)).max(1) {
            // Interrupt 0 is that of asynchronous events, and of everything where there is no other.
            let vector = if info.vectors > 1 { number + 1 } else { 0 };
            match make_eq(&mut function, COMP_EQ_LOG_SIZE, vector, false) {
                Ok((eq, ring)) => {
                    comp_eqs.push(eq);
                    rings.push(ring);
                }
                // Others have the rest of them.
                Err(_) if number > 0 => break,
                Err(e) => return Err(e),
            }
        }
        // A CQ's error comes by its own queue, and before the errors of its QPs (EVT CQ_ERR): theirs is looked at last.
        rings.push(async_ring);
        let eq_memory = rings.iter().map(|ring| ring.memory().clone()).collect();
        let doorbells = Doorbells::new(dev.clone());
        Ok(Self {
            dispatcher: Dispatcher::new(doorbells.clone(), rings),
            doorbells,
            async_eq,
            comp_eqs,
            info,
            name: dev.info().name,
            push_slots: OnceLock::new(),
            wall_clock: WallClock::default(),
            function: Mutex::new(function),
            eq_memory: Mutex::new(eq_memory),
        })
    }

    /// Limits of the card, asked for once. Nothing is known of a card that is gone (V-27).
    pub fn query_device(&self) -> Result<DeviceAttr> {
        let ask = || Ok(self.function().query_device()?);
        if self.device().is_gone() {
            return ask();
        }
        self.dispatcher.known.device(ask)
    }

    /// A push slot, if the card has one left.
    pub fn push_slot(&self) -> Result<Option<PushSlot>> {
        let count = self.query_device()?.push_slots();
        Ok(self.push_slots.get_or_init(|| PushSlots::new(count)).take())
    }

    /// MODIFY_QP, which may have to find a MAC address first.
    pub fn modify_qp(&self, qpn: u32, attr: &QpAttr, mask: QpAttrMask) -> Result<()> {
        let mut cmd = ModifyQpCmd::new();
        cmd.set_qpn(qpn);
        cmd.set_attr_mask(mask.bits());
        cmd.set_attr(attr.to_abi(mask)?.0);
        let done = while_resolving(|| self.function().modify_qp(&cmd));
        done.map_err(|error| Error::of_path(error, attr.ah_attr.dgid, attr.ah_attr.port_num))
    }

    pub fn device(&self) -> &P::Target {
        self.doorbells.device()
    }

    /// The admin queue.
    pub fn function(&self) -> MutexGuard<'_, Function<P>> {
        lock(&self.function)
    }

    /// Allocates memory for a ring and makes its object on the card; the memory goes back if that fails.
    pub fn with_ring<T>(
        &self,
        len_bytes: usize,
        make: impl FnOnce(&DmaBuf) -> std::result::Result<T, DriverError>,
    ) -> Result<(T, DmaBuf)> {
        let ring = self.device().alloc_dma(len_bytes)?;
        match make(&ring) {
            Ok(made) => Ok((made, ring)),
            Err(e) => {
                self.device().free_dma(ring)?;
                Err(e.into())
            }
        }
    }

    /// Runs the event queues until `take` finds something.
    pub fn wait<T>(
        &self,
        vector: u16,
        deadline_ns: u64,
        what: &'static str,
        mut take: impl FnMut() -> Option<T>,
    ) -> Result<T> {
        /// Another thread may have consumed our interrupt and queued our event: look again this often.
        const SLICE_NS: u64 = 1_000_000;
        let start_ns = self.device().now_ns();
        loop {
            self.dispatcher.run();
            if let Some(found) = take() {
                return Ok(found);
            }
            let now_ns = self.device().now_ns();
            if now_ns >= deadline_ns {
                return Err(Error::Timeout {
                    what,
                    waited_ns: now_ns - start_ns,
                });
            }
            self.device()
                .wait_irq(vector, deadline_ns.min(now_ns.saturating_add(SLICE_NS)))?;
        }
    }
}

impl<P: DevicePtr> Drop for Shared<P> {
    fn drop(&mut self) {
        for eq in self.comp_eqs.iter().chain([&self.async_eq]) {
            // The function's reset that follows frees what a failing card leaves.
            let _ = self.function().destroy_eq(eq.eqn);
        }
        for ring in lock(&self.eq_memory).drain(..) {
            let _ = self.doorbells.device().free_dma(ring);
        }
    }
}

fn make_eq<P: DevicePtr>(
    function: &mut Function<P>,
    log_size: u8,
    vector: u16,
    gets_port_events: bool,
) -> Result<(Eq, EqRing)> {
    let ring = function.device().alloc_dma(EqRing::ring_bytes(log_size))?;
    let mut cmd = CreateEqCmd::new();
    cmd.set_base(ring.iova());
    cmd.set_log_size(log_size);
    cmd.set_vector(vector);
    cmd.set_port_events(gets_port_events);
    match function.create_eq(&cmd) {
        Ok(eqn) => Ok((Eq { eqn, vector }, EqRing::new(ring, eqn, log_size))),
        Err(e) => {
            function.device().free_dma(ring)?;
            Err(e.into())
        }
    }
}
