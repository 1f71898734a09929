//! Messages of several datagrams (IBA vol1 13.6): RMPP, as the kernel speaks it.

use hca_agents::mad::{put_u32, u32_at};
use hca_agents::{MAD_BYTES, Mad};

/// Class of subnet administration.
pub const CLASS_SA: u8 = 0x03;
/// What stands in front of the data of subnet administration.
const SA_HEADER: usize = 56;
/// The same of other classes that have messages.
const OTHER_HEADER: usize = 36;
const TYPE: usize = 25;
const FLAGS: usize = 26;
const STATUS: usize = 27;
const SEGMENT: usize = 28;
/// Payload length of data; of an acknowledge the last segment that may be sent.
const LENGTH: usize = 32;
/// Bytes behind the header of RMPP, which payload lengths count.
const COUNTED: usize = MAD_BYTES - OTHER_HEADER;
/// Segments that may be under way.
const WINDOW: u32 = 16;
/// The longest message that is put together.
const MAX_SEGMENTS: u32 = 1 << 16;

/// Kinds of datagrams.
pub mod kind {
    pub const DATA: u8 = 1;
    pub const ACK: u8 = 2;
}

mod flag {
    pub const ACTIVE: u8 = 1;
    pub const FIRST: u8 = 2;
    pub const LAST: u8 = 4;
}

/// Is the datagram of a message of several, or about one?
pub fn is_active(mad: &[u8]) -> bool {
    mad.len() >= OTHER_HEADER && mad[FLAGS] & flag::ACTIVE != 0
}

/// Its kind.
pub fn kind_of(mad: &Mad) -> u8 {
    mad[TYPE]
}

/// Bytes in front of the data.
pub fn header_bytes(class: u8) -> usize {
    match class {
        CLASS_SA => SA_HEADER,
        _ => OTHER_HEADER,
    }
}

/// A message that goes out.
pub struct Outgoing {
    data: Vec<u8>,
    header: usize,
    segments: u32,
    /// Acknowledged so far.
    acked: u32,
    /// Sent so far.
    sent: u32,
    /// The last one that may be sent.
    window: u32,
}

impl Outgoing {
    /// Of a header and data behind it. `None`: too short, or too long.
    pub fn new(data: Vec<u8>) -> Option<Self> {
        let header = header_bytes(*data.get(1)?);
        let bytes = data.len().checked_sub(header)?;
        let segments = u32::try_from(bytes.div_ceil(MAD_BYTES - header).max(1)).ok()?;
        (segments <= MAX_SEGMENTS).then_some(Self {
            data,
            header,
            segments,
            acked: 0,
            sent: 0,
            window: 1,
        })
    }

    fn segment(&self, number: u32) -> Mad {
        let room = MAD_BYTES - self.header;
        let from = self.header + (number as usize - 1) * room;
        let part = &self.data[from.min(self.data.len())..self.data.len().min(from + room)];
        let mut mad = [0; MAD_BYTES];
        mad[..self.header].copy_from_slice(&self.data[..self.header]);
        mad[self.header..self.header + part.len()].copy_from_slice(part);
        let counted = |bytes: usize| bytes + COUNTED - room;
        (mad[24], mad[TYPE], mad[STATUS]) = (1, kind::DATA, 0);
        mad[FLAGS] = mad[FLAGS] & 0xf8 | flag::ACTIVE;
        put_u32(&mut mad, SEGMENT, number);
        put_u32(&mut mad, LENGTH, 0);
        if number == 1 {
            mad[FLAGS] |= flag::FIRST;
            let pad = self.segments as usize * room - (self.data.len() - self.header);
            put_u32(&mut mad, LENGTH, (self.segments as usize * COUNTED - pad) as u32);
        }
        if number == self.segments {
            mad[FLAGS] |= flag::LAST;
            put_u32(&mut mad, LENGTH, counted(part.len()) as u32);
        }
        mad
    }

    /// The segments that can go now.
    pub fn next(&mut self) -> Vec<Mad> {
        let last = self.window.min(self.segments).min(self.acked + WINDOW);
        let from = self.sent + 1;
        self.sent = self.sent.max(last);
        (from..=last).map(|number| self.segment(number)).collect()
    }

    /// All that are not acknowledged go once more.
    pub fn again(&mut self) -> Vec<Mad> {
        self.sent = self.acked;
        self.next()
    }

    /// An acknowledge has come. True: it is the last.
    pub fn acknowledge(&mut self, mad: &Mad) -> bool {
        let (segment, window) = (u32_at(mad, SEGMENT), u32_at(mad, LENGTH));
        if segment <= self.sent && segment >= self.acked && window >= segment {
            (self.acked, self.window) = (segment, window.max(self.window));
        }
        self.acked == self.segments
    }
}

/// A message that comes in.
pub struct Incoming {
    data: Vec<u8>,
    /// Segments that are here.
    segments: u32,
}

/// What a segment was.
#[derive(Debug, PartialEq, Eq)]
pub enum Taken {
    /// More are to come.
    More,
    /// The last one: this is the message.
    Whole(Vec<u8>),
    /// It cannot be.
    Broken,
}

impl Incoming {
    pub fn new() -> Self {
        Self {
            data: Vec::new(),
            segments: 0,
        }
    }

    /// Takes a segment; one that comes twice or too early changes nothing.
    pub fn take(&mut self, mad: &Mad) -> Taken {
        let number = u32_at(mad, SEGMENT);
        let header = header_bytes(mad[1]);
        if number != self.segments + 1 {
            return Taken::More;
        }
        if self.segments == MAX_SEGMENTS || self.data.try_reserve(MAD_BYTES).is_err() {
            return Taken::Broken;
        }
        self.segments = number;
        let room = MAD_BYTES - header;
        let is_last = mad[FLAGS] & flag::LAST != 0;
        let bytes = match is_last {
            // As the kernel has it: a length that cannot be is that of a full segment.
            true => (u32_at(mad, LENGTH) as usize)
                .checked_sub(COUNTED - room)
                .filter(|bytes| *bytes <= room)
                .unwrap_or(room),
            false => room,
        };
        if number == 1 {
            self.data.extend_from_slice(&mad[..header]);
        }
        self.data.extend_from_slice(&mad[header..header + bytes]);
        match is_last {
            true => Taken::Whole(std::mem::take(&mut self.data)),
            false => Taken::More,
        }
    }

    /// The acknowledge of all that is here, made of a segment's header.
    pub fn acknowledge(&self, segment: &Mad) -> Mad {
        let mut mad = [0; MAD_BYTES];
        let header = header_bytes(segment[1]);
        mad[..header].copy_from_slice(&segment[..header]);
        // The same transaction, the other way: who sent an answer sent it with this bit.
        mad[3] ^= hca_agents::mad::method::RESPONSE;
        (mad[TYPE], mad[FLAGS], mad[STATUS]) = (kind::ACK, flag::ACTIVE, 0);
        put_u32(&mut mad, SEGMENT, self.segments);
        put_u32(&mut mad, LENGTH, self.segments + WINDOW);
        mad
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(bytes: usize) -> Vec<u8> {
        let mut data: Vec<u8> = (0..SA_HEADER + bytes).map(|i| i as u8).collect();
        data[..4].copy_from_slice(&[1, CLASS_SA, 2, 0x92]);
        (data[24], data[TYPE], data[FLAGS], data[STATUS]) = (1, kind::DATA, flag::ACTIVE, 0);
        data
    }

    /// Messages of every length come whole, though every third datagram is lost on the way.
    #[test]
    fn messages_come_whole() {
        for bytes in (0..700).chain([4_000, 6_399, 6_400]) {
            let sent = message(bytes);
            let (mut out, mut into) = (Outgoing::new(sent.clone()).unwrap(), Incoming::new());
            let (mut wire, mut lost, mut whole) = (out.next(), 0, None);
            let mut is_over = false;
            for _ in 0..1_000 {
                if is_over {
                    break;
                }
                if wire.is_empty() {
                    wire = out.again();
                }
                let segment = wire.remove(0);
                lost += 1;
                if lost % 3 == 0 {
                    continue;
                }
                if whole.is_none()
                    && let Taken::Whole(data) = into.take(&segment)
                {
                    whole = Some(data);
                }
                let ack = into.acknowledge(&segment);
                assert_eq!(ack[3], 0x12, "the answer's other direction");
                is_over = out.acknowledge(&ack);
                wire.extend(out.next());
            }
            let whole = whole.unwrap();
            assert!(is_over, "{bytes} bytes");
            assert_eq!(whole[SA_HEADER..], sent[SA_HEADER..], "{bytes} bytes");
        }
    }

    #[test]
    fn what_cannot_be_is_no_message() {
        assert!(Outgoing::new(vec![1, CLASS_SA]).is_none());
        assert!(!is_active(&[0; 4]));
        let mut mad = [0xff; MAD_BYTES];
        let mut into = Incoming::new();
        assert_eq!(into.take(&mad), Taken::More);
        put_u32(&mut mad, SEGMENT, 1);
        assert!(matches!(into.take(&mad), Taken::Whole(data) if data.len() == MAD_BYTES));
    }
}
