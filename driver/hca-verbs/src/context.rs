//! An open function of a card.

use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use hca_abi::{CreateEqCmd, LinkLayer, ModifyPortCmd, SetGidCmd, SetPkeyCmd, port_attr};
use hca_dev::{Device, DmaBuf};
use hca_driver::{
    DevicePtr, Doorbells, DriverError, EqRing, Function, FunctionInfo, OpenOptions, PushSlot, PushSlots,
};

use crate::address::Gid;
use crate::address::while_resolving;
use crate::cq::{Cq, CqOptions};
use crate::error::{Error, Result};
use crate::events::{AsyncEvent, CompChannel, Dispatcher};
use crate::known::{Port, PortTables};
use crate::pd::Pd;
use crate::xrc::Xrcd;
use crate::{DeviceAttr, PortAttr, PortCounters};

/// Completion events: one per armed CQ, twice if it is armed again before the queue is read.
const COMP_EQ_LOG_SIZE: u8 = 11;
const ASYNC_EQ_LOG_SIZE: u8 = 10;
/// Completion vectors of a context. A card has 32 event queues for its four functions; each has one more, for
/// asynchronous events.
const COMP_VECTORS_MAX: u16 = 4;

/// A lock that goes on after a panic elsewhere: what it guards is consistent between any two statements.
pub(crate) fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

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
    /// Dropped last of all: resets the function.
    function: Mutex<Function<P>>,
    eq_memory: Mutex<Vec<DmaBuf>>,
}

impl<P: DevicePtr> Shared<P> {
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

/// An open function of a card: ibv_context. Clones are the same context.
pub struct Context<P: DevicePtr> {
    shared: Arc<Shared<P>>,
}

debug_as!(Context, name);

impl<P: DevicePtr> Clone for Context<P> {
    fn clone(&self) -> Self {
        Self {
            shared: self.shared.clone(),
        }
    }
}

impl<P: DevicePtr> Context<P> {
    /// Opens a function with the usual limits.
    pub fn open(dev: P) -> Result<Self> {
        Self::open_with(dev, &OpenOptions::default())
    }

    /// Opens a function.
    pub fn open_with(dev: P, options: &OpenOptions) -> Result<Self> {
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
        let shared = Shared {
            dispatcher: Dispatcher::new(doorbells.clone(), rings),
            doorbells,
            async_eq,
            comp_eqs,
            info,
            name: dev.info().name,
            push_slots: OnceLock::new(),
            function: Mutex::new(function),
            eq_memory: Mutex::new(eq_memory),
        };
        Ok(Self {
            shared: Arc::new(shared),
        })
    }

    pub(crate) fn from_shared(shared: Arc<Shared<P>>) -> Self {
        Self { shared }
    }

    /// Name of the device.
    pub fn name(&self) -> &str {
        &self.shared.name
    }

    /// The device.
    pub fn device(&self) -> &P::Target {
        self.shared.device()
    }

    /// Function number, vectors, clock.
    pub fn info(&self) -> FunctionInfo {
        self.shared.info
    }

    /// The admin queue, for what this crate has no verb for.
    pub fn function(&self) -> MutexGuard<'_, Function<P>> {
        self.shared.function()
    }

    /// ibv_query_device: limits of the card, asked for once. Nothing is known of a card that is gone (V-27).
    pub fn query_device(&self) -> Result<DeviceAttr> {
        let ask = || Ok(self.shared.function().query_device()?);
        if self.device().is_gone() {
            return ask();
        }
        self.shared.dispatcher.known.device(ask)
    }

    /// READs and atomics that the device can have outstanding in either direction.
    pub(crate) fn rd_atomic_max(&self) -> Result<u8> {
        let limit = self.query_device()?.max_qp_rd_atom();
        Ok(u8::try_from(limit).unwrap_or(u8::MAX))
    }

    /// A push slot, if the card has one left.
    pub(crate) fn push_slot(&self) -> Result<Option<PushSlot>> {
        let count = self.query_device()?.push_slots();
        Ok(self
            .shared
            .push_slots
            .get_or_init(|| PushSlots::new(count))
            .take())
    }

    /// ibv_query_port; ports count from 1. The card is asked each time: counters and states change without an event.
    pub fn query_port(&self, port_num: u8) -> Result<PortAttr> {
        Ok(self.shared.function().query_port(port_num)?)
    }

    /// What of ibv_query_port does not change, or not without an event: from memory.
    pub fn port_tables(&self, port_num: u8) -> Result<PortTables> {
        let ask = || Ok(PortTables::from(&self.query_port(port_num)?));
        let keep = |port: &mut Port, tables| port.tables = Some(tables);
        self.remembered(port_num, |port| port.tables, ask, keep)
    }

    /// From memory, where no event that is there by now says otherwise.
    fn remembered<T: Copy>(
        &self,
        port_num: u8,
        find: impl FnOnce(&Port) -> Option<T>,
        ask: impl FnOnce() -> Result<T>,
        keep: impl FnOnce(&mut Port, T),
    ) -> Result<T> {
        if self.device().is_gone() {
            return ask();
        }
        let dispatcher = &self.shared.dispatcher;
        dispatcher.take_waiting();
        dispatcher.known.of_port(port_num, find, ask, keep)
    }

    /// A change by this process is seen by it at once, and not only with its event.
    fn changed<T>(&self, port_num: u8, result: std::result::Result<T, DriverError>) -> Result<T> {
        self.shared.dispatcher.known.forget_port(port_num);
        Ok(result?)
    }

    /// Counters of a port since the card's reset.
    pub fn query_counters(&self, port_num: u8) -> Result<PortCounters> {
        Ok(self.shared.function().query_counters(port_num)?)
    }

    /// ibv_query_gid: each entry is asked for once, and again when an event says that the table has changed.
    pub fn query_gid(&self, port_num: u8, index: u16) -> Result<Gid> {
        let find = |port: &Port| port.gids.get(&index).copied();
        let ask = || Ok(self.shared.function().query_gid(port_num, index)?);
        let keep = |port: &mut Port, gid| {
            port.gids.insert(index, gid);
        };
        self.remembered(port_num, find, ask, keep)
    }

    /// ibv_resolve_eth_l2_from_gid: MAC address of the neighbour of an Ethernet port that has the GID.
    pub fn resolve_gid(&self, port_num: u8, gid: Gid) -> Result<[u8; 6]> {
        let found = while_resolving(|| self.shared.function().resolve_gid(port_num, gid));
        found.map_err(|error| Error::of_path(error, gid, port_num))
    }

    /// ibv_query_pkey: as [`Context::query_gid`].
    pub fn query_pkey(&self, port_num: u8, index: u16) -> Result<u16> {
        let find = |port: &Port| port.pkeys.get(&index).copied();
        let ask = || Ok(self.shared.function().query_pkey(port_num, index)?);
        let keep = |port: &mut Port, pkey| {
            port.pkeys.insert(index, pkey);
        };
        self.remembered(port_num, find, ask, keep)
    }

    /// Sets an entry of the GID table; all zero clears it.
    pub fn set_gid(&self, port_num: u8, index: u16, gid: Gid) -> Result<()> {
        let mut cmd = SetGidCmd::new();
        cmd.set_port_num(port_num);
        cmd.set_index(index);
        cmd.set_gid(gid);
        let result = self.shared.function().set_gid(&cmd);
        self.changed(port_num, result)
    }

    /// Sets an entry of the P_Key table.
    pub fn set_pkey(&self, port_num: u8, index: u16, pkey: u16) -> Result<()> {
        let mut cmd = SetPkeyCmd::new();
        cmd.set_port_num(port_num);
        cmd.set_index(index);
        cmd.set_pkey(pkey);
        let result = self.shared.function().set_pkey(&cmd);
        self.changed(port_num, result)
    }

    /// ibv_modify_port, and what a subnet manager would set. `attr_mask` of the command says which fields
    /// count.
    pub fn modify_port(&self, cmd: &ModifyPortCmd) -> Result<()> {
        let result = self.shared.function().modify_port(cmd);
        self.changed(cmd.port_num(), result)
    }

    /// Makes a port an Ethernet (RoCEv2) or an InfiniBand one. Refused (EBUSY) while QPs are connected.
    pub fn set_link_layer(&self, port_num: u8, link_layer: LinkLayer) -> Result<()> {
        let mut cmd = ModifyPortCmd::new();
        cmd.set_port_num(port_num);
        cmd.set_link_layer(link_layer.into());
        cmd.set_attr_mask(port_attr::LINK_LAYER);
        self.modify_port(&cmd)
    }

    /// ibv_alloc_pd.
    pub fn alloc_pd(&self) -> Result<Pd<P>> {
        Pd::new(self.shared.clone())
    }

    /// ibv_open_xrcd without a file: a domain that only this object's clones share.
    pub fn alloc_xrcd(&self) -> Result<Xrcd<P>> {
        Xrcd::new(self.shared.clone())
    }

    /// Completion vectors: event queues with an interrupt of their own, that a CQ can choose.
    pub fn comp_vectors(&self) -> u16 {
        self.shared.comp_eqs.len() as u16
    }

    /// ibv_create_comp_channel.
    pub fn create_comp_channel(&self) -> CompChannel<P> {
        CompChannel::new(self.shared.clone())
    }

    /// ibv_create_cq.
    pub fn create_cq(&self, options: &CqOptions<'_, P>) -> Result<Cq<P>> {
        Cq::new(self.shared.clone(), options)
    }

    /// A thread of the caller takes events, with [`Context::poll_async_event`] and [`CompChannel::poll_event`], at
    /// every interrupt. From now on a poll of a CQ leaves them to it.
    pub fn leave_events_to_thread(&self) {
        self.shared.dispatcher.set_thread();
    }

    /// The oldest asynchronous event, if there is one.
    pub fn poll_async_event(&self) -> Option<AsyncEvent> {
        self.shared.dispatcher.run();
        self.shared.dispatcher.next_async()
    }

    /// ibv_get_async_event: waits until `deadline_ns` of [`Device::now_ns`].
    pub fn get_async_event(&self, deadline_ns: u64) -> Result<AsyncEvent> {
        self.shared.wait(
            self.shared.async_eq.vector,
            deadline_ns,
            "asynchronous event",
            || self.shared.dispatcher.next_async(),
        )
    }
}

impl<P: DevicePtr> Shared<P> {
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
