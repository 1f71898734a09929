//! Looks at the ports of one card in every cycle and tells the join what happened.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;

use hca_abi::{Cqe, DOORBELL_PAGE_OFFSET, Eqe, EventKind, SQ_DOORBELL_OFFSET, SqDoorbell};
use hca_cosim::{CardPorts, PortObserver};
use hca_wire::Framing;

use crate::join::{Join, Work};
use crate::lines::Lines;
use crate::open::Queue;
use crate::packet::{Assembler, INSIDE, Packet, rx_beat, tx_beat};

/// Bits of `trace_strobe_o` (hw/rtl/top/hca_trace.sv).
mod strobe {
    pub const QPC: u16 = 1 << 0;
    pub const OMT: u16 = 1 << 1;
    pub const EMIT: u16 = 1 << 2;
    pub const SENT: u16 = 1 << 3;
    pub const RXD: u16 = 1 << 4;
    pub const END: u16 = 1 << 5;
    pub const UPD: u16 = 1 << 6;
    /// First of four: payload, CQE, EQE and MSI-X, firmware.
    pub const WR: u32 = 7;
}

/// Clients of the write path.
const WR_PAYLOAD: u8 = 0;
const WR_CQ: u8 = 1;
const WR_EQ: u8 = 2;

/// `rxw_kind_e`.
const KIND_NONE: u8 = 0;
const KIND_READ_REQUEST: u8 = 4;
const KIND_ATOMIC: u8 = 5;

/// The card counts payload beats modulo this.
const BEATS: usize = 4096;
/// Packets between two places of a card's pipeline; more than there can be.
const IN_PIPELINE: usize = 4096;

/// A packet at the header stage.
#[derive(Clone, Copy)]
struct Header {
    qpn: u32,
    opcode: u8,
    psn: u32,
}

/// An item whose payload beats have not all reached the host port.
struct Ended {
    packet: Option<Packet>,
    beats: u16,
}

/// The observer of one card.
pub(crate) struct Tap {
    card: usize,
    framing: Framing,
    join: Rc<RefCell<Join>>,
    lines: Lines,
    tx: Assembler,
    rx: Assembler,
    /// Packets between header stage and wire.
    headers: VecDeque<Header>,
    /// Good packets between wire and descriptor.
    arrived: VecDeque<Packet>,
    /// Descriptors whose work is not over.
    working: VecDeque<Packet>,
    ended: VecDeque<Ended>,
    /// Clients of the beats between write mux and host port.
    writers: VecDeque<u8>,
    /// Cycle of each payload beat at the host port, by its number.
    beat_cycles: Vec<u64>,
    beats_written: u16,
    beats_before: u16,
}

impl Tap {
    pub fn new(card: usize, framing: Framing, join: Rc<RefCell<Join>>) -> Self {
        Self {
            card,
            framing,
            join,
            lines: Lines::default(),
            tx: Assembler::default(),
            rx: Assembler::default(),
            headers: VecDeque::new(),
            arrived: VecDeque::new(),
            working: VecDeque::new(),
            ended: VecDeque::new(),
            writers: VecDeque::new(),
            beat_cycles: vec![0; BEATS],
            beats_written: 0,
            beats_before: 0,
        }
    }

    fn host(&mut self, now: u64, ports: &CardPorts, join: &mut Join) {
        let card = self.card;
        if ports.mmio_wr_valid_i.get() & ports.mmio_wr_ready_o.get() != 0
            && u32::from(ports.mmio_wr_addr_i.get()) == DOORBELL_PAGE_OFFSET + SQ_DOORBELL_OFFSET
        {
            let doorbell = SqDoorbell::from_word(ports.mmio_wr_data_i.get());
            let func = ports.mmio_wr_func_i.get();
            join.doorbell(now, card, func, &doorbell);
        }
        if ports.hrd_req_valid_o.get() & ports.hrd_req_ready_i.get() != 0 {
            let (func, tag) = (ports.hrd_req_func_o.get(), ports.hrd_req_tag_o.get());
            let (addr, len_bytes) = (ports.hrd_req_addr_o.get(), ports.hrd_req_len_o.get());
            join.read_asked(now, card, func, tag, addr, len_bytes.into());
        }
        if ports.hrd_rsp_valid_i.get() & ports.hrd_rsp_last_i.get() != 0 {
            join.read_arrived(now, card, ports.hrd_rsp_tag_i.get());
        }
        if ports.hwr_valid_o.get() & ports.hwr_ready_i.get() != 0 {
            self.written(now, ports, join);
        }
    }

    /// A beat to the host.
    fn written(&mut self, now: u64, ports: &CardPorts, join: &mut Join) {
        let line = || {
            let mut line = [0; 64];
            for (bytes, word) in line.chunks_exact_mut(4).zip(ports.hwr_data_o.get()) {
                bytes.copy_from_slice(&word.to_le_bytes());
            }
            line
        };
        match self.writers.pop_front() {
            Some(WR_PAYLOAD) => {
                self.beat_cycles[usize::from(self.beats_written) % BEATS] = now;
                self.beats_written = self.beats_written.wrapping_add(1);
            }
            Some(WR_CQ) => {
                if let Some(cqe) = Cqe::read_from(&line()) {
                    let recv = cqe.opcode() & 0x80 != 0;
                    let wqe = (cqe.qpn(), cqe.wqe_index());
                    join.completed(now, self.card, wqe, recv, cqe.status());
                }
            }
            Some(WR_EQ) if ports.hwr_msix_o.get() != 0 => join.interrupt(now, self.card),
            Some(WR_EQ) => {
                if let Some(eqe) =
                    Eqe::read_from(&line()).filter(|eqe| eqe.kind() == EventKind::Completion as u8)
                {
                    join.event(self.card, eqe.id());
                }
            }
            _ => {}
        }
    }

    /// What the transmit side traces.
    fn made(&mut self, now: u64, ports: &CardPorts, strobes: u16, join: &mut Join) {
        if strobes & strobe::QPC != 0 {
            let (logs, cqns) = (ports.trace_qpc_sq_logs_o.get(), ports.trace_qpc_cqns_o.get());
            let queue = Queue {
                func: ports.trace_qpc_func_o.get(),
                dest_qpn: ports.trace_qpc_dest_qpn_o.get(),
                base: ports.trace_qpc_sq_base_o.get(),
                log_size: logs & 0x1f,
                log_stride: 6 + (logs >> 5),
                send_cqn: cqns as u16,
                recv_cqn: (cqns >> 16) as u16,
                ..Queue::default()
            };
            let restart = ports.trace_qpc_init_o.get() != 0;
            let qpn = ports.trace_qpc_qpn_o.get();
            let before = self.lines.bind(qpn);
            if before != qpn {
                join.forget(self.card, before);
            }
            join.queue(self.card, qpn, queue, restart);
        }
        if strobes & strobe::OMT != 0 {
            let what = (
                ports.trace_omt_opcode_o.get(),
                ports.trace_omt_signaled_o.get() != 0,
                ports.trace_omt_last_psn_o.get(),
                ports.trace_omt_len_o.get(),
            );
            let (qpn, index) = (
                self.lines.qpn(ports.trace_omt_qpn_o.get()),
                ports.trace_omt_wqe_index_o.get(),
            );
            join.announced(self.card, qpn, index, what);
        }
        if strobes & strobe::EMIT != 0 {
            let qpn = self.lines.qpn(ports.trace_emit_qpn_o.get());
            let psn = ports.trace_emit_psn_o.get();
            join.emitted(now, self.card, qpn, psn);
        }
        if strobes & strobe::SENT != 0 {
            let header = Header {
                qpn: self.lines.qpn(ports.trace_sent_qpn_o.get()),
                opcode: ports.trace_sent_opcode_o.get(),
                psn: ports.trace_sent_psn_o.get(),
            };
            bounded_push(&mut self.headers, header);
        }
    }

    fn wire(&mut self, now: u64, ports: &CardPorts, join: &mut Join) {
        if let Some(packet) = tx_beat(ports).and_then(|beat| self.tx.beat(now, beat, self.framing, false))
            && let Some(header) = self.take_header(&packet, join)
        {
            join.sent(self.card, header.qpn, packet);
        }
        if let Some(packet) = rx_beat(ports).and_then(|beat| self.rx.beat(now, beat, self.framing, true)) {
            bounded_push(&mut self.arrived, packet);
        }
    }

    /// The header that a packet on its way was made from.
    fn take_header(&mut self, packet: &Packet, join: &Join) -> Option<Header> {
        let is_it = |header: &Header| {
            (header.opcode, header.psn) == (packet.opcode, packet.psn)
                && join.may_send_to(self.card, header.qpn, packet.dest_qpn)
        };
        let at = self.headers.iter().position(is_it)?;
        self.headers.remove(at)
    }

    /// A descriptor was taken by the receive control.
    fn described(&mut self, now: u64, ports: &CardPorts, join: &mut Join) {
        let (opcode, dest_qpn) = (ports.trace_rxd_opcode_o.get(), ports.trace_rxd_qpn_o.get());
        let psn = ports.trace_rxd_psn_o.get();
        let is_it = |packet: &Packet| (packet.opcode, packet.dest_qpn, packet.psn) == (opcode, dest_qpn, psn);
        let packet = match self.arrived.iter().position(is_it) {
            // Those before it were good but had no place in the receive buffer.
            Some(at) => self.arrived.drain(..=at).next_back(),
            None => None,
        };
        let packet = packet.unwrap_or_else(|| {
            let packet = Packet {
                opcode,
                dest_qpn,
                psn,
                from: INSIDE,
                to: INSIDE,
                first: now,
                last: now,
                looped: true,
            };
            if let Some(header) = self.take_header(&packet, join).filter(|_| !packet.is_reply()) {
                join.looped(self.card, header.qpn, packet);
            }
            packet
        });
        bounded_push(&mut self.working, packet);
        join.accepted(self.card, packet, ports.trace_rxd_syndrome_o.get());
    }

    /// An item is over: its payload is on its way, or it has none.
    fn item(&mut self, ports: &CardPorts, join: &mut Join) {
        let frees = ports.trace_end_frees_o.get() != 0;
        let packet = if frees { self.working.pop_front() } else { None };
        let beats = ports.trace_end_beats_o.get();
        let moved = std::mem::replace(&mut self.beats_before, beats) != beats;
        let carried_out = ports.trace_end_ok_o.get() != 0;
        match ports.trace_end_kind_o.get() {
            KIND_READ_REQUEST | KIND_ATOMIC if carried_out => {
                if let Some(packet) = packet {
                    join.worked(self.card, packet, Work::ReadRequest);
                }
            }
            KIND_NONE | KIND_READ_REQUEST | KIND_ATOMIC => {
                if let Some(packet) = packet {
                    join.worked(self.card, packet, Work::None);
                }
            }
            _ if moved => {
                let packet = packet.filter(|_| carried_out);
                self.ended.push_back(Ended { packet, beats });
            }
            _ => {
                if let Some(packet) = packet.filter(|_| carried_out) {
                    join.worked(self.card, packet, Work::None);
                }
            }
        }
    }

    /// Items whose last payload beat has reached the host port.
    fn placed(&mut self, join: &mut Join) {
        while let Some(ended) = self.ended.front() {
            let left = ended.beats.wrapping_sub(self.beats_written) % BEATS as u16;
            if (1..BEATS as u16 / 2).contains(&left) {
                return;
            }
            if let Some(packet) = ended.packet {
                let last = usize::from(ended.beats.wrapping_sub(1)) % BEATS;
                join.worked(self.card, packet, Work::Placed(self.beat_cycles[last]));
            }
            self.ended.pop_front();
        }
    }
}

impl PortObserver for Tap {
    fn cycle(&mut self, now: u64, ports: &CardPorts) {
        let join = self.join.clone();
        let join = &mut *join.borrow_mut();
        let strobes = ports.trace_strobe_o.get();
        self.host(now, ports, join);
        if strobes != 0 {
            self.made(now, ports, strobes, join);
        }
        self.wire(now, ports, join);
        if strobes & strobe::RXD != 0 {
            self.described(now, ports, join);
        }
        if strobes & strobe::END != 0 {
            self.item(ports, join);
        }
        self.placed(join);
        if strobes & strobe::UPD != 0 {
            let (qpn, una_wqe) = (
                self.lines.qpn(ports.trace_upd_qpn_o.get()),
                ports.trace_upd_una_wqe_o.get(),
            );
            join.retired(now, self.card, qpn, una_wqe);
        }
        // A beat leaves the write mux one cycle after it was taken, or later.
        let takers = strobes >> strobe::WR;
        if takers != 0 {
            bounded_push(&mut self.writers, takers.trailing_zeros() as u8);
        }
    }
}

fn bounded_push<T>(queue: &mut VecDeque<T>, item: T) {
    if queue.len() == IN_PIPELINE {
        queue.pop_front();
    }
    queue.push_back(item);
}
