//! The flow of a stream, without a card: which bytes of which buffer are whose, and how many messages may be sent.
//!
//! A receiver's buffer has two halves. It names one to the sender, and the other as soon as that is empty; with it, or
//! in between, it says up to which number it takes messages.

use std::collections::VecDeque;

use super::wire::Sge;

/// A stream is ready to send when it has room for so much.
pub const LOW_WATER: u32 = 2048;
/// Longest message: the first bytes are on their way while the next are copied.
const MAX_MESSAGE: u32 = 16 << 10;

/// A place in a ring: where it begins, and how long it is up to the ring's end and from its beginning.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Span {
    pub at: u32,
    pub first: u32,
    pub second: u32,
}

impl Span {
    fn new(at: u32, len: u32, size: u32) -> Self {
        let first = len.min(size - at);
        Self {
            at,
            first,
            second: len - first,
        }
    }

    pub fn len(&self) -> u32 {
        self.first + self.second
    }
}

/// The sending half.
#[derive(Debug)]
pub struct Outgoing {
    size: u32,
    head: u32,
    free: u32,
    slots: u32,
    sent: u16,
    limit: u16,
    targets: VecDeque<Sge>,
}

/// A message to be sent.
#[derive(Debug, PartialEq, Eq)]
pub struct Piece {
    pub len: u32,
    /// Where its bytes go first; None: they are short enough to travel in the work request.
    pub span: Option<Span>,
    /// Where they are written to.
    pub addr: u64,
    pub key: u32,
}

impl Outgoing {
    /// A ring of `size` bytes, and `slots` of the send queue.
    pub fn new(size: u32, slots: u32) -> Self {
        Self {
            size,
            head: 0,
            free: size,
            slots,
            sent: 0,
            limit: 0,
            targets: VecDeque::new(),
        }
    }

    /// The other side's greeting.
    pub fn begin(&mut self, credits: u16, target: Sge) {
        self.limit = credits;
        self.add_target(target);
    }

    pub fn set_limit(&mut self, limit: u16) {
        self.limit = limit;
    }

    /// False: the other side names more than it has said it would.
    pub fn add_target(&mut self, target: Sge) -> bool {
        if target.length != 0 {
            self.targets.push_back(target);
        }
        self.targets.len() <= super::wire::TARGETS as usize
    }

    /// Is there a slot, room, and a message that may be sent? Without a target: not for data.
    fn may_send(&self) -> bool {
        self.slots > 0 && self.free >= LOW_WATER.min(self.size) && self.sent != self.limit
    }

    pub fn is_ready(&self) -> bool {
        self.may_send() && !self.targets.is_empty()
    }

    /// The next message of up to `want` bytes, where there can be one.
    pub fn take(&mut self, want: u32, inline: u32) -> Option<Piece> {
        if want == 0 || !self.is_ready() {
            return None;
        }
        let target = self.targets.front_mut()?;
        let mut len = want.min(MAX_MESSAGE).min(target.length);
        if len > inline {
            len = len.min(self.free);
        }
        let (addr, key) = (target.addr, target.key);
        target.addr += u64::from(len);
        target.length -= len;
        if target.length == 0 {
            self.targets.pop_front();
        }
        self.sent = self.sent.wrapping_add(1);
        self.slots -= 1;
        let span = (len > inline).then(|| self.reserve(len));
        Some(Piece { len, span, addr, key })
    }

    /// The same for bytes whose place the caller knows; `counts`: the other side counts it as a message.
    pub fn take_direct(&mut self, want: u32, inline: u32, counts: bool) -> Option<(u32, Option<Span>)> {
        if want == 0 || !self.may_send() {
            return None;
        }
        let mut len = want.min(MAX_MESSAGE);
        if len > inline {
            len = len.min(self.free);
        }
        if counts {
            self.sent = self.sent.wrapping_add(1);
        }
        self.slots -= 1;
        Some((len, (len > inline).then(|| self.reserve(len))))
    }

    fn reserve(&mut self, len: u32) -> Span {
        let span = Span::new(self.head, len, self.size);
        self.head = (self.head + len) % self.size;
        self.free -= len;
        span
    }

    /// A message has arrived, which had so many bytes in the ring.
    pub fn done(&mut self, in_ring: u32) {
        self.slots += 1;
        self.free += in_ring;
    }
}

/// The receiving half.
#[derive(Debug)]
pub struct Incoming {
    half: u32,
    /// Messages that have come, by bytes left.
    messages: VecDeque<u32>,
    unread: u32,
    offset: u32,
    /// Bytes that nobody has been told of, and where they begin.
    room: u32,
    next_grant: u32,
    depth: u16,
    read: u16,
    /// Number of messages read at which the other side should hear of it.
    tell_at: u16,
}

/// What the other side may send from now on.
#[derive(Debug, PartialEq, Eq)]
pub struct Grant {
    pub limit: u16,
    /// Offset of a half that is empty.
    pub target: Option<u32>,
}

impl Incoming {
    /// A buffer of twice `half` bytes, and room for `depth` messages. The other side knows the first half already.
    pub fn new(half: u32, depth: u16) -> Self {
        Self {
            half,
            messages: VecDeque::new(),
            unread: 0,
            offset: 0,
            room: half,
            next_grant: half,
            depth,
            read: 0,
            tell_at: depth >> 1,
        }
    }

    pub fn unread(&self) -> u32 {
        self.unread
    }

    /// A message has come. False: it is more than was granted.
    pub fn arrived(&mut self, len: u32) -> bool {
        let granted = 2 * self.half - self.room - self.unread;
        if len > granted || self.messages.len() >= usize::from(self.depth) {
            return false;
        }
        match len {
            0 => self.count_read(),
            len => self.messages.push_back(len),
        }
        self.unread += len;
        true
    }

    /// A message was read, or there is nothing in it to read.
    pub fn count_read(&mut self) {
        self.read = self.read.wrapping_add(1);
    }

    /// Where the next bytes lie.
    pub fn peek(&self, want: u32) -> Span {
        Span::new(self.offset, want.min(self.unread), 2 * self.half)
    }

    /// The program has them.
    pub fn consume(&mut self, mut len: u32) {
        self.offset = (self.offset + len) % (2 * self.half);
        self.unread -= len;
        self.room += len;
        while let Some(first) = self.messages.front_mut().filter(|_| len > 0) {
            let part = len.min(*first);
            *first -= part;
            len -= part;
            if *first == 0 {
                self.messages.pop_front();
                self.count_read();
            }
        }
    }

    /// Is it time to tell the other side?
    pub fn wants_grant(&self) -> bool {
        self.room >= self.half || self.read.wrapping_sub(self.tell_at) as i16 >= 0
    }

    /// What to tell it.
    pub fn grant(&mut self) -> Grant {
        self.tell_at = self.read.wrapping_add(self.depth >> 1);
        let target = (self.room >= self.half).then(|| {
            self.room -= self.half;
            let at = self.next_grant;
            self.next_grant = (at + self.half) % (2 * self.half);
            at
        });
        Grant {
            limit: self.read.wrapping_add(self.depth),
            target,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const KEY: u32 = 7;

    /// Two halves, their memory, and messages between them in order.
    struct Pair {
        out: Outgoing,
        ring: Vec<u8>,
        incoming: Incoming,
        buffer: Vec<u8>,
        data: VecDeque<u32>,
        grants: VecDeque<Grant>,
        in_flight: VecDeque<u32>,
        inline: u32,
    }

    impl Pair {
        fn new(ring: u32, slots: u32, half: u32, depth: u16, inline: u32) -> Self {
            let mut out = Outgoing::new(ring, slots);
            out.begin(
                depth,
                Sge {
                    addr: 0,
                    key: KEY,
                    length: half,
                },
            );
            Self {
                out,
                ring: vec![0; ring as usize],
                incoming: Incoming::new(half, depth),
                buffer: vec![0; 2 * half as usize],
                data: VecDeque::new(),
                grants: VecDeque::new(),
                in_flight: VecDeque::new(),
                inline,
            }
        }

        fn send(&mut self, bytes: &[u8]) -> usize {
            let Some(piece) = self.out.take(bytes.len() as u32, self.inline) else {
                return 0;
            };
            let len = piece.len as usize;
            assert!(len > 0 && piece.key == KEY);
            let mut sent = bytes[..len].to_vec();
            if let Some(Span { at, first, second }) = piece.span {
                let (at, first, second) = (at as usize, first as usize, second as usize);
                self.ring[at..at + first].copy_from_slice(&bytes[..first]);
                self.ring[..second].copy_from_slice(&bytes[first..len]);
                sent = [&self.ring[at..at + first], &self.ring[..second]].concat();
            }
            // Nobody has bytes there that have not been read.
            let to = piece.addr as usize;
            assert!(
                self.buffer[to..to + len].iter().all(|byte| *byte == 0),
                "overwritten"
            );
            self.buffer[to..to + len].copy_from_slice(&sent);
            self.data.push_back(piece.len);
            self.in_flight.push_back(piece.span.map_or(0, |span| span.len()));
            len
        }

        fn arrive(&mut self) {
            if let Some(len) = self.data.pop_front() {
                assert!(self.incoming.arrived(len));
            }
        }

        fn complete(&mut self) {
            if let Some(bytes) = self.in_flight.pop_front() {
                self.out.done(bytes);
            }
        }

        fn read(&mut self, want: u32) -> Vec<u8> {
            let span = self.incoming.peek(want);
            let mut found = Vec::new();
            for (at, len) in [(span.at as usize, span.first as usize), (0, span.second as usize)] {
                found.extend_from_slice(&self.buffer[at..at + len]);
                self.buffer[at..at + len].fill(0);
            }
            self.incoming.consume(span.len());
            found
        }

        fn grant(&mut self) {
            if self.incoming.wants_grant() {
                let grant = self.incoming.grant();
                self.grants.push_back(grant);
            }
        }

        fn hear(&mut self) {
            if let Some(grant) = self.grants.pop_front() {
                self.out.set_limit(grant.limit);
                if let Some(at) = grant.target {
                    assert!(self.out.add_target(Sge {
                        addr: at.into(),
                        key: KEY,
                        length: self.incoming.half,
                    }));
                }
            }
        }
    }

    proptest! {
        /// RS-1: bytes come whole and in order, nothing is overwritten, and nothing stands still for ever.
        #[test]
        fn bytes_come_in_order(
            ring in 1u32..9000, slots in 1u32..9, half in 1u32..5000, depth in 1u16..9, inline in 0u32..100,
            steps in prop::collection::vec((0u8..6, 1u32..6000), 1..300),
        ) {
            let mut pair = Pair::new(ring, slots, half, depth.max(2), inline);
            let (mut next, mut expected) = (0usize, 0usize);
            // No byte is 0: that is what is empty.
            let byte = |n: usize| (n % 255 + 1) as u8;
            let mut run = |pair: &mut Pair, step: u8, len: u32| {
                match step {
                    0 => {
                        let bytes: Vec<u8> = (next..next + len as usize).map(byte).collect();
                        next += pair.send(&bytes);
                    }
                    1 => pair.arrive(),
                    2 => pair.complete(),
                    3 => for found in pair.read(len) {
                        assert_eq!(found, byte(expected));
                        expected += 1;
                    },
                    4 => pair.grant(),
                    _ => pair.hear(),
                }
                next - expected
            };
            for (step, len) in steps {
                run(&mut pair, step, len);
            }
            // With everybody at work, all that was sent arrives, and more can be sent.
            for _ in 0..200 {
                for step in 1..6 {
                    run(&mut pair, step, 6000);
                }
            }
            prop_assert_eq!(run(&mut pair, 5, 0), 0);
            prop_assert!(pair.out.is_ready());
        }
    }

    /// A peer that sends more than was granted is found out.
    #[test]
    fn more_than_granted_is_refused() {
        let mut incoming = Incoming::new(100, 2);
        assert!(!incoming.arrived(101));
        assert!(incoming.arrived(60) && incoming.arrived(40));
        assert!(!incoming.arrived(0), "more messages than credits");
        incoming.consume(100);
        assert!(!incoming.arrived(1), "nothing granted yet");
        assert_eq!(
            incoming.grant(),
            Grant {
                limit: 4,
                target: Some(100)
            }
        );
        assert!(incoming.arrived(100));
    }

    /// Counts go round at 2^16.
    #[test]
    fn counts_go_round() {
        let mut pair = Pair::new(4096, 4, 64, 3, 0);
        for n in 0..70_000 {
            assert_eq!(pair.send(&[n as u8 | 1]), 1, "{n}");
            pair.arrive();
            pair.complete();
            assert_eq!(pair.read(1), [n as u8 | 1]);
            pair.grant();
            pair.hear();
        }
    }

    /// An empty message takes its credit and gives it back.
    #[test]
    fn an_empty_message_is_read_at_once() {
        let mut incoming = Incoming::new(100, 4);
        assert!(incoming.grant().limit == 4);
        for n in 1..10 {
            assert!(incoming.arrived(0));
            assert_eq!(incoming.grant().limit, 4 + n);
        }
    }
}
