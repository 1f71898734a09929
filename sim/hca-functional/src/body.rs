//! What all QPs of a card share: context tables, queues of completions and events, device memory.

use std::collections::{BTreeMap, VecDeque};

use hca_abi::{
    CtxTable, DM_PAGES, GROUP_ROWS, HwEvent, HwEventKind, KeyTable, LINK_PORT_ROWS, LINK_ROWS, Qpc,
    RSS_ENTRIES, RSS_QPS, RULES,
};
use hca_fw_core::{NUM_CQS, NUM_EQS, NUM_FUNCS, NUM_GIDS, NUM_PORTS, NUM_QPS, NUM_SRQS, line_of};

use crate::keys::{DeviceMemory, Run};
use crate::port::Port;
use crate::queues::{Cq, Eq};
use crate::srq::Srq;

/// Bytes of the longest row.
pub(crate) const ROW_BYTES: usize = 256;
/// The one that all cards have.
pub(crate) const CLOCK_HZ: u32 = 250_000_000;

/// All data VLs of the contract's cards.
const DATA_VLS: u32 = 8;

/// Free-running indices of a QP's rings. What the send queue has taken is the transport's.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Rings {
    pub sq_producer: u32,
    /// The next send WQE to fetch.
    pub sq_fetched: u32,
    pub rq_producer: u32,
    pub rq_consumer: u32,
}

/// See above.
pub(crate) struct Body {
    pub vectors: u16,
    pub cycle_ps: u64,
    /// The present cycle.
    pub now: u64,
    pub qpcs: Vec<Qpc>,
    pub rings: Vec<Rings>,
    pub cqs: Vec<Cq>,
    pub eqs: Vec<Eq>,
    pub srqs: Vec<Srq>,
    pub keys: [KeyTable; NUM_FUNCS],
    pub ports: Vec<Port>,
    /// Counts changes of what ports are: P_Keys, addresses, lanes.
    pub port_changes: u64,
    /// VLs that it says it has.
    pub data_vls: u32,
    pub device_memory: DeviceMemory,
    /// Room for the runs of a range, empty between two calls.
    pub runs: Vec<Run>,
    /// Room for a WQE.
    pub wqe: Vec<u8>,
    /// Rows of the other tables.
    rows: BTreeMap<(u8, u32), [u8; ROW_BYTES]>,
    pub events: VecDeque<HwEvent>,
    /// CQs whose events wait, by the cycle in which they wait no longer.
    pub cq_timers: BTreeMap<(u64, u32), ()>,
}

impl Body {
    pub fn new(ports: u8, vectors: u16, cycle_ps: u64) -> Self {
        Self {
            vectors,
            cycle_ps,
            now: 0,
            qpcs: vec![Qpc::new(); NUM_QPS],
            rings: vec![Rings::default(); NUM_QPS],
            cqs: vec![Cq::default(); NUM_CQS],
            eqs: vec![Eq::default(); NUM_EQS],
            srqs: vec![Srq::default(); NUM_SRQS],
            keys: [KeyTable::new(); NUM_FUNCS],
            ports: (0..ports).map(|_| Port::new()).collect(),
            port_changes: 1,
            data_vls: DATA_VLS,
            device_memory: DeviceMemory::default(),
            runs: Vec::new(),
            wqe: Vec::new(),
            rows: BTreeMap::new(),
            events: VecDeque::new(),
            cq_timers: BTreeMap::new(),
        }
    }

    /// Nanoseconds since power on.
    #[inline]
    pub fn now_ns(&self) -> u64 {
        self.now * self.cycle_ps / 1_000
    }

    /// Tells firmware something.
    pub fn raise(&mut self, kind: HwEventKind, func: u8, id: u32, cause: u32) {
        let mut event = HwEvent::new();
        event.set_kind(kind.into());
        event.set_func(func);
        event.set_id(id);
        event.set_cause(cause);
        self.events.push_back(event);
    }

    /// The context of a QP, if its line has it.
    #[inline]
    pub fn qpc_of(&self, qpn: u32) -> Option<&Qpc> {
        let line = line_of(qpn);
        self.qpcs.get(line as usize).filter(|qpc| qpc.qpn() == qpn)
    }

    /// Rows of a table.
    pub fn rows_of(table: CtxTable) -> u32 {
        match table {
            CtxTable::Qpc => NUM_QPS as u32,
            CtxTable::Cqc => NUM_CQS as u32,
            CtxTable::Eqc => NUM_EQS as u32,
            CtxTable::KeyTable => NUM_FUNCS as u32,
            CtxTable::Forget => 1 << 24,
            CtxTable::Link => LINK_PORT_ROWS + LINK_ROWS,
            CtxTable::Gid => (NUM_PORTS * NUM_GIDS) as u32,
            CtxTable::Group => GROUP_ROWS,
            CtxTable::Srqc => NUM_SRQS as u32,
            CtxTable::Rule => RULES,
            CtxTable::Rss => RSS_QPS,
            CtxTable::RssQp => RSS_QPS * RSS_ENTRIES,
            CtxTable::DeviceMemory => DM_PAGES,
            // Its QPs share no lines.
            CtxTable::Record => 0,
        }
    }

    /// A row of one of the tables that are read as they were written.
    pub fn row(&self, table: CtxTable, index: u32) -> &[u8; ROW_BYTES] {
        self.rows.get(&(table.into(), index)).unwrap_or(&[0; ROW_BYTES])
    }

    pub fn set_row(&mut self, table: CtxTable, index: u32, row: &[u8; ROW_BYTES]) {
        self.rows.insert((table.into(), index), *row);
    }
}
