//! Packets at one port of a card, and the credits of its link.

use std::collections::BTreeMap;

use hca_cosim::CardPorts;
use hca_link::LinkKind;
use hca_wire::{BLOCK_COUNTS, FlowControl, Framing, blocks};

use crate::packet::{Assembler, Beat, Seen, see, see_link};
use crate::sink::Sink;
use crate::track::CardTracks;

/// Management packets have this VL, which has no credits.
const VL_MANAGEMENT: u8 = 15;

/// What both streams of a port bring in a cycle: a beat, and whether it is a link packet.
type Taken = Option<(Beat, bool)>;

/// One port.
pub(crate) struct PortTap {
    index: usize,
    framing: Framing,
    tx: Assembler,
    rx: Assembler,
    credits: BTreeMap<u8, Credits>,
}

/// Blocks of a VL, 12 bits each.
#[derive(Default)]
struct Credits {
    /// Sent so far.
    sent: u16,
    /// The peer has room up to here; none before it has said so.
    limit: Option<u16>,
}

impl PortTap {
    pub fn new(index: usize, kind: Option<LinkKind>) -> Self {
        let framing = match kind {
            Some(LinkKind::InfiniBand) => Framing::InfiniBand,
            Some(LinkKind::Ethernet) | None => Framing::Ethernet,
        };
        Self {
            index,
            framing,
            tx: Assembler::default(),
            rx: Assembler::default(),
            credits: BTreeMap::new(),
        }
    }

    pub fn index(&self) -> usize {
        self.index
    }

    /// The packet, other than a link packet, whose last beat leaves in this cycle, and its first cycle.
    pub fn sent(&mut self, now: u64, ports: &CardPorts, out: (&Sink, CardTracks)) -> Option<(Seen, u64)> {
        let (beat, is_link) = self.tx_beat(ports)?;
        if !self.tx.add(now, beat) {
            return None;
        }
        let (sink, tracks) = out;
        let packet = self.tx.take();
        if is_link {
            let (name, args, flow) = see_link(&packet);
            sink.instant(tracks.tx(self.index), &name, now, format_args!("{args}"));
            if let Some(flow) = flow {
                self.credits.entry(flow.vl).or_default().sent = flow.fctbs;
            }
            return None;
        }
        let (seen, first, len_bytes) = (see(self.framing, &packet), packet.first, packet.len_bytes);
        if self.framing == Framing::InfiniBand && seen.vl < VL_MANAGEMENT && seen.key.is_some() {
            let credits = self.credits.entry(seen.vl).or_default();
            credits.sent = credits.sent.wrapping_add(blocks(len_bytes) as u16) % BLOCK_COUNTS;
            self.show_credits(now, seen.vl, out);
        }
        Some((seen, first))
    }

    /// The packet whose last beat arrives in this cycle.
    pub fn received(&mut self, now: u64, ports: &CardPorts, out: (&Sink, CardTracks)) -> Option<Seen> {
        let (beat, is_link) = self.rx_beat(ports)?;
        if !self.rx.add(now, beat) {
            return None;
        }
        let (sink, tracks) = out;
        let (packet, track) = (self.rx.take(), tracks.rx(self.index));
        if !is_link {
            let seen = see(self.framing, &packet);
            sink.slice(
                track,
                &seen.name,
                packet.first,
                now + 1,
                format_args!("{}", seen.args),
            );
            return Some(seen);
        }
        let (name, args, flow) = see_link(&packet);
        sink.instant(track, &name, now, format_args!("{args}"));
        if let Some(FlowControl { vl, fccl, .. }) = flow {
            self.credits.entry(vl).or_default().limit = Some(fccl);
            self.show_credits(now, vl, out);
        }
        None
    }

    /// Blocks that may still be sent.
    fn show_credits(&self, now: u64, vl: u8, (sink, tracks): (&Sink, CardTracks)) {
        let Some(credits) = self.credits.get(&vl) else {
            return;
        };
        if let Some(limit) = credits.limit {
            let left = limit.wrapping_sub(credits.sent) % BLOCK_COUNTS;
            let name = format_args!("port {} VL {vl} credits", self.index + 1);
            sink.counter(tracks.card(), &name, now, format_args!(r#""blocks":{left}"#));
        }
    }

    fn tx_beat(&self, ports: &CardPorts) -> Taken {
        let (valid, ready, link, last, len, data) = if self.index == 0 {
            (
                &ports.mac_tx_valid_o,
                &ports.mac_tx_ready_i,
                &ports.mac_tx_link_o,
                &ports.mac_tx_last_o,
                &ports.mac_tx_len_o,
                &ports.mac_tx_data_o,
            )
        } else {
            (
                &ports.mac1_tx_valid_o,
                &ports.mac1_tx_ready_i,
                &ports.mac1_tx_link_o,
                &ports.mac1_tx_last_o,
                &ports.mac1_tx_len_o,
                &ports.mac1_tx_data_o,
            )
        };
        let taken = valid.get() != 0 && ready.get() != 0;
        taken.then(|| ((last.get() != 0, data.get(), len.get()), link.get() != 0))
    }

    fn rx_beat(&self, ports: &CardPorts) -> Taken {
        let (valid, link, last, len, data) = if self.index == 0 {
            (
                &ports.mac_rx_valid_i,
                &ports.mac_rx_link_i,
                &ports.mac_rx_last_i,
                &ports.mac_rx_len_i,
                &ports.mac_rx_data_i,
            )
        } else {
            (
                &ports.mac1_rx_valid_i,
                &ports.mac1_rx_link_i,
                &ports.mac1_rx_last_i,
                &ports.mac1_rx_len_i,
                &ports.mac1_rx_data_i,
            )
        };
        (valid.get() != 0).then(|| ((last.get() != 0, data.get(), len.get()), link.get() != 0))
    }
}
