//! Somebody who watches what crosses the ports of a card for one of its functions: doorbells and other register
//! writes, what the card writes into rings, packets it sends.

use std::ops::Range;

use hca_functional::Frame;
use hca_host::{IommuMap, SharedWrite};
use hca_link::LinkKind;

use crate::fabric::CardId;

/// Bytes kept of a packet: all headers of any encapsulation.
pub const PACKET_HEAD_BYTES: usize = 128;

/// A process that has a function.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Session {
    /// Card.
    pub card: CardId,
    /// Its name.
    pub card_name: String,
    /// Function.
    pub func: u8,
    /// Kind of the card's first port.
    pub link: LinkKind,
    /// Process id of the client when it connected.
    pub pid: i32,
}

/// A packet that a card has put on the wire, or several of a connection whose PSNs follow each other.
#[derive(Clone, Copy, Debug)]
pub struct SentPacket {
    /// Cycle of its last beat; of several that of the last one.
    pub cycle: u64,
    /// How many packets; what follows is that of the first.
    pub count: u32,
    /// Kind of the cable that it left by.
    pub link: LinkKind,
    /// Length.
    pub len_bytes: u32,
    /// Its first bytes; zeros after the end of a shorter one, and, if it was never written, in place of its payload.
    pub head: [u8; PACKET_HEAD_BYTES],
}

impl SentPacket {
    /// The bytes that are known.
    pub fn bytes(&self) -> &[u8] {
        &self.head[..PACKET_HEAD_BYTES.min(self.len_bytes as usize)]
    }
}

/// Watches one function while a process has it. Times are the card's, in nanoseconds; what happens is told in order,
/// except that a packet may be told a few cycles late.
pub trait Observer: Send {
    /// The process has written a register, of 4 or 8 bytes.
    fn register_written(&mut self, now_ns: u64, bytes: Range<u16>, value: u64, memory: &IommuMap);

    /// The card has written into a ring: it is visible to the process since then.
    fn ring_written(&mut self, now_ns: u64, write: &SharedWrite, memory: &IommuMap);

    /// The card has sent a packet, on behalf of any of its functions.
    fn packet_sent(&mut self, now_ns: u64, packet: &SentPacket);
}

/// Makes an observer for a process that has just got a function.
pub type ObserverFactory = Box<dyn FnMut(&Session) -> Box<dyn Observer>>;

/// Notes the packets of a card.
pub(crate) struct PacketNotes {
    on: bool,
    head: [u8; PACKET_HEAD_BYTES],
    len_bytes: usize,
    sent: Vec<SentPacket>,
}

impl Default for PacketNotes {
    fn default() -> Self {
        Self {
            on: false,
            head: [0; PACKET_HEAD_BYTES],
            len_bytes: 0,
            sent: Vec::new(),
        }
    }
}

impl PacketNotes {
    pub fn switch(&mut self, on: bool) {
        self.on = on;
    }

    /// A beat goes out.
    #[inline]
    pub fn beat(&mut self, cycle: u64, link: LinkKind, bytes: &[u8], is_last: bool) {
        if !self.on {
            return;
        }
        if let Some(room) = self.head.get_mut(self.len_bytes..) {
            let known = room.len().min(bytes.len());
            room[..known].copy_from_slice(&bytes[..known]);
        }
        self.len_bytes += bytes.len();
        if is_last {
            self.sent.push(SentPacket {
                cycle,
                count: 1,
                link,
                len_bytes: self.len_bytes as u32,
                head: self.head,
            });
            (self.head, self.len_bytes) = ([0; PACKET_HEAD_BYTES], 0);
        }
    }

    /// A packet that is not written out goes out, or several as one, each of so many bytes.
    pub fn frame(&mut self, cycle: u64, link: LinkKind, frame: &Frame, len_bytes: usize) {
        if !self.on {
            return;
        }
        let mut head = [0; PACKET_HEAD_BYTES];
        // More than any headers have.
        frame.write_headers(&mut head);
        self.sent.push(SentPacket {
            cycle,
            count: frame.packet.count,
            link,
            len_bytes: len_bytes as u32,
            head,
        });
    }

    pub fn take(&mut self) -> Vec<SentPacket> {
        std::mem::take(&mut self.sent)
    }
}
