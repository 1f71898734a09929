//! An open function of a card.

use std::sync::{Arc, MutexGuard};

use hca_abi::{
    LinkLayer, ModifyPortCmd, QueryCountersResult as PortCounters, QueryDeviceResult as DeviceAttr,
    QueryPortResult as PortAttr, SetGidCmd, SetPkeyCmd, port_attr,
};
use hca_dev::Device;
use hca_driver::{DevicePtr, DriverError, Function, FunctionInfo, OpenOptions};

use crate::function::dispatcher::AsyncEvent;
use crate::function::known::{Port, PortTables};
use crate::function::shared::Shared;
use crate::values::address::while_resolving;
use crate::values::error::{Error, Result};
use crate::values::gid::Gid;

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
        Ok(Self {
            shared: Arc::new(Shared::open(dev, options)?),
        })
    }

    pub(crate) fn from_shared(shared: Arc<Shared<P>>) -> Self {
        Self { shared }
    }

    pub(crate) fn shared(&self) -> &Arc<Shared<P>> {
        &self.shared
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
        self.shared.query_device()
    }

    /// READs and atomics that the device can have outstanding in either direction.
    pub(crate) fn rd_atomic_max(&self) -> Result<u8> {
        let limit = self.query_device()?.max_qp_rd_atom();
        Ok(u8::try_from(limit).unwrap_or(u8::MAX))
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

    /// Time of day, in ns since 1970 by the host's clock, when the card's clock said `timestamp`, as completions tell
    /// it (V-59). The clocks are compared at most once per millisecond of calls.
    pub fn wall_clock_ns(&self, timestamp: u64) -> Result<u64> {
        let clock_khz = self.query_device()?.hca_core_clock_khz();
        let read_cycles = || self.shared.function().time_cycles();
        Ok(self
            .shared
            .wall_clock
            .wall_ns_at(timestamp, clock_khz, read_cycles))
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

    /// NodeDescription (MGMT-13): the text up to its first NUL, as far as it is UTF-8.
    pub fn node_description(&self) -> Result<String> {
        let bytes = self.shared.function().query_node_desc()?;
        let text = bytes.split(|byte| *byte == 0).next().unwrap_or_default();
        Ok(String::from_utf8_lossy(text).into_owned())
    }

    /// Gives the card another NodeDescription (MGMT-13); subnet managers are told. Function 0 may.
    pub fn set_node_description(&self, text: &str) -> Result<()> {
        let mut bytes = [0; 64];
        let Some(room) = bytes.get_mut(..text.len()) else {
            let length = text.len();
            return Err(Error::Invalid(format!(
                "NodeDescription: {length} bytes, and there is room for 64"
            )));
        };
        room.copy_from_slice(text.as_bytes());
        Ok(self.shared.function().set_node_desc(bytes)?)
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

    /// Completion vectors: event queues with an interrupt of their own, that a CQ can choose.
    pub fn comp_vectors(&self) -> u16 {
        self.shared.comp_eqs.len() as u16
    }

    /// A thread of the caller takes events at every interrupt: with [`Context::poll_async_event`], and `poll_event` of
    /// every [`CompChannel`](crate::CompChannel). From now on a poll of a CQ leaves them to it.
    pub fn leave_events_to_thread(&self) {
        self.shared.dispatcher.set_thread();
    }

    /// Handles the events that are there: whoever waits for one of them is woken. For an executor without an
    /// [`EventThread`](crate::EventThread), whenever it has nothing else to do.
    pub fn run_events(&self) {
        self.shared.dispatcher.run();
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
