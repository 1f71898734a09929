//! How full the buffers of switches are.

use std::collections::HashMap;
use std::sync::Arc;

use hca_switch::{EthSwitch, EthSwitchId, IbSwitch, Net, SwitchId, SwitchObserver, VL15};

use crate::sink::{Sink, lanes};
use crate::track::{Track, process};

/// VLs of a port; Ethernet has half as many priorities.
const LANES: usize = 16;
const PRIORITIES: usize = 8;

/// What waits in a switch that came in at one port, by lane.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
struct Fill {
    held: [u32; LANES],
    /// A bit for each lane that ever held something: only those are shown.
    used: u16,
}

/// The observer of all switches. They are processes of the timeline behind those of the cards.
pub(crate) struct SwitchTap {
    sink: Arc<Sink>,
    /// Of the first InfiniBand and the first Ethernet switch.
    pids: [u64; 2],
    /// By process and port.
    fills: HashMap<(u64, u8), Fill>,
}

impl SwitchTap {
    /// Names the switches in the file. `before`: processes that are there already.
    pub fn announce(sink: Arc<Sink>, net: &Net, before: usize) -> Self {
        let ib = net.switches().map(|id| net.switch(id).name());
        let eth = net.eth_switches().map(|id| net.eth_switch(id).name());
        for (index, name) in (before..).zip(ib.chain(eth)) {
            process(&sink, index, name);
        }
        let first = before as u64 + 1;
        Self {
            sink,
            pids: [first, first + net.switches().count() as u64],
            fills: HashMap::new(),
        }
    }

    /// `lane`: what a VL or priority is called.
    fn show(&mut self, now: u64, (pid, port): (u64, u8), lane: &str, held: [u32; LANES]) {
        let fill = self.fills.entry((pid, port)).or_default();
        if fill.held == held {
            return;
        }
        fill.held = held;
        for (number, held) in held.iter().enumerate() {
            fill.used |= u16::from(*held != 0) << number;
        }
        let used = fill.used;
        let shown = (0..).zip(held).filter(|(number, _)| used >> number & 1 != 0);
        let series = lanes(lane, shown);
        let name = format_args!("port {port} buffer");
        let track = Track { pid, tid: 0 };
        self.sink.counter(track, &name, now, format_args!("{series}"));
    }
}

impl SwitchObserver for SwitchTap {
    fn ib_switch(&mut self, now: u64, id: SwitchId, switch: &IbSwitch) {
        for port in 1..=switch.config().ports {
            let mut held = [0; LANES];
            for vl in (0..switch.config().data_vls).chain([VL15]) {
                held[usize::from(vl)] = switch.buffer_fill(port, vl);
            }
            self.show(now, (self.pids[0] + id.index() as u64, port), "VL", held);
        }
    }

    fn eth_switch(&mut self, now: u64, id: EthSwitchId, switch: &EthSwitch) {
        for port in 1..=switch.config().ports {
            let mut held = [0; LANES];
            for (priority, held) in (0..).zip(&mut held[..PRIORITIES]) {
                *held = switch.held_bytes(port, priority);
            }
            self.show(now, (self.pids[1] + id.index() as u64, port), "priority", held);
        }
    }
}
