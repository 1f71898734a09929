//! Looks at the ports of one card in every cycle.

use std::sync::Arc;

use hca_cosim::{CardPorts, PortObserver};
use hca_link::LinkKind;
use hca_stages::Lines;

use crate::packet::Key;
use crate::pcie::Pcie;
use crate::port::PortTap;
use crate::queues::Queues;
use crate::sink::Sink;
use crate::track::CardTracks;

/// Bits of `trace_strobe_o` (hw/rtl/top/hca_trace.sv).
mod strobe {
    pub const QPC: u16 = 1 << 0;
    pub const SENT: u16 = 1 << 3;
    pub const RXD: u16 = 1 << 4;
    pub const UPD: u16 = 1 << 6;
    /// First of four: payload, completions, events, firmware.
    pub const WR: u32 = 7;
}

/// The observer of one card.
pub(crate) struct CardTap {
    sink: Arc<Sink>,
    tracks: CardTracks,
    ports: Vec<PortTap>,
    pcie: Pcie,
    queues: Queues,
    lines: Lines,
}

impl CardTap {
    /// `kinds`: of the cable at each port, none without one.
    pub fn new(sink: Arc<Sink>, tracks: CardTracks, kinds: &[Option<LinkKind>]) -> Self {
        let ports = kinds.iter().enumerate();
        Self {
            pcie: Pcie::new(tracks.card().pid),
            ports: ports.map(|(index, kind)| PortTap::new(index, *kind)).collect(),
            sink,
            tracks,
            queues: Queues::default(),
            lines: Lines::default(),
        }
    }

    /// What the transmit side traces.
    fn made(&mut self, now: u64, ports: &CardPorts, strobes: u16) {
        let out = (&*self.sink, self.tracks);
        if strobes & strobe::QPC != 0 {
            let logs = ports.trace_qpc_sq_logs_o.get();
            let (log_size, log_stride) = (logs & 0x1f, 6 + (logs >> 5));
            let (qpn, func) = (ports.trace_qpc_qpn_o.get(), ports.trace_qpc_func_o.get());
            let before = self.lines.bind(qpn);
            if before != qpn {
                self.queues.forget_queue(before);
            }
            let restart = ports.trace_qpc_init_o.get() != 0;
            let dest_qpn = ports.trace_qpc_dest_qpn_o.get();
            self.queues.context(qpn, func, dest_qpn, log_size, restart);
            let base = ports.trace_qpc_sq_base_o.get();
            self.pcie.ring(func, base, 1 << (log_size + log_stride));
        }
        if strobes & strobe::SENT != 0 {
            let qpn = self.lines.qpn(ports.trace_sent_qpn_o.get());
            let (opcode, psn) = (ports.trace_sent_opcode_o.get(), ports.trace_sent_psn_o.get());
            self.queues.made(now, (qpn, opcode, psn), out);
        }
    }

    fn wire(&mut self, now: u64, ports: &CardPorts) {
        let out = (&*self.sink, self.tracks);
        for port in &mut self.ports {
            if let Some((seen, first)) = port.sent(now, ports, out) {
                let from = self.queues.sent(now, port.index(), &seen, out);
                let from = from.map_or(String::new(), |qpn| format!(r#","qp":"{qpn:#x}""#));
                let track = self.tracks.tx(port.index());
                let args = format_args!("{}{from}", seen.args);
                self.sink.slice(track, &seen.name, first, now + 1, args);
            }
            if let Some(seen) = port.received(now, ports, out) {
                self.queues.arrived(&seen);
            }
        }
    }
}

impl PortObserver for CardTap {
    fn cycle(&mut self, now: u64, ports: &CardPorts) {
        let strobes = ports.trace_strobe_o.get();
        let sink = self.sink.clone();
        let out = (&*sink, self.tracks);
        if let Some(doorbell) = self.pcie.cycle(now, ports, out) {
            self.queues.posted(now, doorbell, out);
        }
        if strobes != 0 {
            self.made(now, ports, strobes);
        }
        self.wire(now, ports);
        if strobes & strobe::RXD != 0 {
            self.queues.taken(Key {
                opcode: ports.trace_rxd_opcode_o.get(),
                dest_qpn: ports.trace_rxd_qpn_o.get(),
                psn: ports.trace_rxd_psn_o.get(),
            });
        }
        self.queues.show_arrived(now, out);
        if strobes & strobe::UPD != 0 {
            let qpn = self.lines.qpn(ports.trace_upd_qpn_o.get());
            self.queues
                .retired(now, qpn, ports.trace_upd_una_wqe_o.get(), out);
        }
        // A beat leaves the write mux one cycle after it was taken, or later.
        let takers = strobes >> strobe::WR;
        if takers != 0 {
            self.pcie.write_taken(takers.trailing_zeros() as u8);
        }
    }
}
