//! One port of a card on its cable: what the wire brings in a cycle, and what the card sends.

use hca_host::Line;
use hca_link::{BeatStream, Cable, Dir, LinkKind};
use hca_vsim::{Beat, In, Out, Ports};

use crate::monitor::Monitor;
use crate::observe::PacketNotes;
use crate::stamps::{StampKind, Stamps};

/// The card's end of a cable.
pub(crate) struct Attachment {
    pub cable: usize,
    pub kind: LinkKind,
    pub tx: Dir,
    pub rx: BeatStream,
}

/// A beat on its way from the card to its cable.
struct Sent {
    line: Line,
    len_bytes: usize,
    last: bool,
}

/// The model's ports of one stream.
struct Mac<'a> {
    tx_valid: &'a Out<u8>,
    tx_ready: &'a In<u8>,
    tx_link: &'a Out<u8>,
    tx_last: &'a Out<u8>,
    tx_len: &'a Out<u8>,
    tx_data: &'a Out<Beat>,
    up: &'a In<u8>,
    rx_valid: &'a In<u8>,
    rx_link: &'a In<u8>,
    rx_last: &'a In<u8>,
    rx_len: &'a In<u8>,
    rx_data: &'a In<Beat>,
}

impl<'a> Mac<'a> {
    #[inline(always)]
    fn first(ports: &'a Ports) -> Self {
        Self {
            tx_valid: &ports.mac_tx_valid_o,
            tx_ready: &ports.mac_tx_ready_i,
            tx_link: &ports.mac_tx_link_o,
            tx_last: &ports.mac_tx_last_o,
            tx_len: &ports.mac_tx_len_o,
            tx_data: &ports.mac_tx_data_o,
            up: &ports.mac_up_i,
            rx_valid: &ports.mac_rx_valid_i,
            rx_link: &ports.mac_rx_link_i,
            rx_last: &ports.mac_rx_last_i,
            rx_len: &ports.mac_rx_len_i,
            rx_data: &ports.mac_rx_data_i,
        }
    }

    #[inline(always)]
    fn second(ports: &'a Ports) -> Self {
        Self {
            tx_valid: &ports.mac1_tx_valid_o,
            tx_ready: &ports.mac1_tx_ready_i,
            tx_link: &ports.mac1_tx_link_o,
            tx_last: &ports.mac1_tx_last_o,
            tx_len: &ports.mac1_tx_len_o,
            tx_data: &ports.mac1_tx_data_o,
            up: &ports.mac1_up_i,
            rx_valid: &ports.mac1_rx_valid_i,
            rx_link: &ports.mac1_rx_link_i,
            rx_last: &ports.mac1_rx_last_i,
            rx_len: &ports.mac1_rx_len_i,
            rx_data: &ports.mac1_rx_data_i,
        }
    }
}

/// A port of a card, and what the simulator knows about it.
pub(crate) struct Wire {
    /// Which port, from 0.
    index: usize,
    pub attachment: Option<Attachment>,
    ready: bool,
    /// The port sees the other end.
    is_up: bool,
    tx_open: bool,
    sent: Option<Sent>,
    monitor: Monitor<(u8, u8, Beat)>,
    pub notes: PacketNotes,
    /// Packets sent and received.
    pub tx_packets: u64,
    pub rx_packets: u64,
}

impl Wire {
    pub fn new(index: usize) -> Self {
        Self {
            index,
            attachment: None,
            ready: true,
            is_up: false,
            tx_open: false,
            sent: None,
            monitor: Monitor::default(),
            notes: PacketNotes::default(),
            tx_packets: 0,
            rx_packets: 0,
        }
    }

    #[inline(always)]
    fn mac<'a>(&self, ports: &'a Ports) -> Mac<'a> {
        if self.index == 0 {
            Mac::first(ports)
        } else {
            Mac::second(ports)
        }
    }

    /// Cycle in which the wire may bring something next, or takes something again.
    pub fn next_event(&self, now: u64, cables: &[Cable]) -> Option<u64> {
        let at = self.attachment.as_ref()?;
        let cable = &cables[at.cable];
        let arrival = if at.rx.is_busy() || self.is_up != cable.is_up() {
            Some(now + 1)
        } else {
            cable.next_arrival_cycle(at.rx.dir())
        };
        let ready = (!self.ready).then(|| cable.ready_cycle(at.tx));
        arrival.into_iter().chain(ready).min()
    }

    /// Begins a cycle at the cable. Without one packets fall on the floor.
    pub fn begin(&mut self, now: u64, cables: &mut [Cable]) {
        let Some(at) = &mut self.attachment else {
            self.ready = true;
            return;
        };
        let cable = &mut cables[at.cable];
        self.ready = cable.ready(at.tx, now);
        if std::mem::replace(&mut self.is_up, cable.is_up()) && !self.is_up {
            // Neither side finishes what it has begun; what was offered may be withdrawn.
            at.rx.cut();
            self.tx_open = false;
            self.monitor = Monitor::default();
        }
        at.rx.fetch(cable, now);
    }

    /// Before the first evaluation of a cycle.
    pub fn drive(&mut self, now: u64, ports: &Ports, stamps: &mut Stamps) {
        let mac = self.mac(ports);
        mac.rx_valid.set(0);
        mac.up.set(u8::from(self.is_up));
        mac.tx_ready.set(u8::from(self.ready));
        let Some(at) = &mut self.attachment else {
            return;
        };
        let Some(beat) = at.rx.beat(now) else {
            return;
        };
        mac.rx_valid.set(1);
        // Only a link packet is so short; its one beat is all of it.
        let link = beat.first && beat.last && at.kind.is_link_packet(beat.bytes);
        mac.rx_link.set(u8::from(link));
        mac.rx_last.set(u8::from(beat.last));
        mac.rx_len.set(beat.bytes.len() as u8);
        mac.rx_data.set(to_beat(beat.bytes));
        let (first, last) = (beat.first, beat.last);
        at.rx.advance(now);
        self.rx_packets += u64::from(last);
        if link {
            stamps.push(now, StampKind::RxLink);
        } else if first {
            stamps.push(now, StampKind::RxFirst);
        }
        if last && !link {
            stamps.push(now, StampKind::RxLast);
        }
    }

    /// After it: what the card sends, or what is wrong with it.
    pub fn sample(&mut self, now: u64, ports: &Ports, stamps: &mut Stamps) -> Result<(), String> {
        let mac = self.mac(ports);
        let port = self.index + 1;
        let valid = mac.tx_valid.get() != 0;
        let payload = || {
            let flags = mac.tx_link.get() << 1 | mac.tx_last.get();
            (flags, mac.tx_len.get(), mac.tx_data.get())
        };
        if !self.monitor.check(valid, self.ready, payload) {
            return Err(format!(
                "mac_tx of port {port} changed or was withdrawn before it was taken"
            ));
        }
        if !(valid && self.ready) {
            return Ok(());
        }
        let (flags, len_bytes, data) = payload();
        let (link, last, len_bytes) = (flags & 2 != 0, flags & 1 != 0, usize::from(len_bytes));
        if link != (last && !self.tx_open && len_bytes == LinkKind::LINK_PACKET_BYTES) {
            return Err(format!(
                "mac_tx beat of {len_bytes} bytes on port {port}, link packet {link}"
            ));
        }
        let first = !std::mem::replace(&mut self.tx_open, !last);
        if link {
            stamps.push(now, StampKind::TxLink);
        } else if first {
            stamps.push(now, StampKind::TxFirst);
        }
        if last && !link {
            stamps.push(now, StampKind::TxLast);
        }
        self.tx_packets += u64::from(last);
        if len_bytes == 0 || len_bytes > 64 || (!last && len_bytes != 64) {
            return Err(format!(
                "mac_tx beat of {len_bytes} bytes on port {port}, last {last}"
            ));
        }
        let Some(at) = &self.attachment else {
            return Ok(());
        };
        let line = Line::from_words(&data);
        self.notes.beat(now, at.kind, &line.0[..len_bytes], last);
        self.sent = Some(Sent {
            line,
            len_bytes,
            last,
        });
        Ok(())
    }

    /// Ends a cycle at the cable: what the card has sent goes into it, for others to see from the next cycle on.
    pub fn end(&mut self, now: u64, cables: &mut [Cable]) -> Result<(), String> {
        let (Some(sent), Some(at)) = (self.sent.take(), &self.attachment) else {
            return Ok(());
        };
        let bytes = &sent.line.0[..sent.len_bytes];
        let pushed = cables[at.cable].push_beat(at.tx, now, bytes, sent.last);
        pushed.map_err(|error| error.to_string())
    }
}

/// Up to 64 bytes as a 512-bit port value, the rest zero.
fn to_beat(bytes: &[u8]) -> Beat {
    let mut line = Line::ZERO;
    line.0[..bytes.len()].copy_from_slice(bytes);
    line.to_words()
}
