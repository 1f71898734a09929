//! Netlink messages (netlink(7)): a header, then attributes; everything in the host's byte order, each on a multiple of
//! four bytes.

/// nlmsghdr, and nlattr.
const HEADER_BYTES: usize = 16;
const ATTRIBUTE_BYTES: usize = 4;
const NLA_F_NESTED: u16 = 1 << 15;
/// Longest datagram of an answer: programs read with 8 KiB.
const DATAGRAM_BYTES: usize = 4096;

pub const NLMSG_ERROR: u16 = 2;
pub const NLMSG_DONE: u16 = 3;
pub const NLM_F_MULTI: u16 = 2;
pub const NLM_F_ACK: u16 = 4;
/// NLM_F_ROOT and NLM_F_MATCH.
pub const NLM_F_DUMP: u16 = 0x300;

/// A request.
#[derive(Debug)]
pub struct Request<'a> {
    pub kind: u16,
    pub flags: u16,
    pub sequence: u32,
    /// All of it: an error answers with its header.
    pub header: &'a [u8],
    attributes: &'a [u8],
}

fn aligned(len: usize) -> usize {
    len.next_multiple_of(4)
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_ne_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

impl<'a> Request<'a> {
    /// The first request of a datagram, and what is behind it. None: nothing more that is whole.
    pub fn parse(bytes: &'a [u8]) -> Option<(Self, &'a [u8])> {
        let len = u32_at(bytes, 0)? as usize;
        if len < HEADER_BYTES {
            return None;
        }
        let request = Self {
            kind: u16_at(bytes, 4)?,
            flags: u16_at(bytes, 6)?,
            sequence: u32_at(bytes, 8)?,
            header: bytes.get(..HEADER_BYTES)?,
            attributes: bytes.get(HEADER_BYTES..len)?,
        };
        Some((request, bytes.get(aligned(len)..).unwrap_or_default()))
    }

    /// What an attribute says, if it is there.
    pub fn attribute(&self, kind: u16) -> Option<&'a [u8]> {
        let mut rest = self.attributes;
        loop {
            let len = usize::from(u16_at(rest, 0)?);
            let data = rest.get(ATTRIBUTE_BYTES..len)?;
            if u16_at(rest, 2)? & !NLA_F_NESTED == kind {
                return Some(data);
            }
            rest = rest.get(aligned(len)..)?;
        }
    }

    /// The same, of 32 bits.
    pub fn number(&self, kind: u16) -> Option<u32> {
        u32_at(self.attribute(kind)?, 0)
    }
}

/// A message that is being written.
pub struct Message(Vec<u8>);

impl Message {
    /// Of an answer to a request of the socket with this port ID.
    pub fn new(kind: u16, flags: u16, sequence: u32, port_id: u32) -> Self {
        let mut bytes = vec![0; 4];
        bytes.extend(kind.to_ne_bytes());
        bytes.extend(flags.to_ne_bytes());
        bytes.extend(sequence.to_ne_bytes());
        bytes.extend(port_id.to_ne_bytes());
        Self(bytes)
    }

    /// Bytes that are no attribute.
    pub fn raw(&mut self, bytes: &[u8]) {
        self.0.extend(bytes);
        self.0.resize(aligned(self.0.len()), 0);
    }

    pub fn attribute(&mut self, kind: u16, data: &[u8]) {
        self.0
            .extend(((ATTRIBUTE_BYTES + data.len()) as u16).to_ne_bytes());
        self.0.extend(kind.to_ne_bytes());
        self.raw(data);
    }

    /// A C string.
    pub fn text(&mut self, kind: u16, text: &str) {
        let bytes: Vec<u8> = text.bytes().chain([0]).collect();
        self.attribute(kind, &bytes);
    }

    /// Attributes in an attribute.
    pub fn nested(&mut self, kind: u16, fill: impl FnOnce(&mut Self)) {
        let at = self.0.len();
        self.attribute(kind | NLA_F_NESTED, &[]);
        fill(self);
        let len = (self.0.len() - at) as u16;
        self.0[at..at + 2].copy_from_slice(&len.to_ne_bytes());
    }

    pub fn finish(mut self) -> Vec<u8> {
        let len = self.0.len() as u32;
        self.0[..4].copy_from_slice(&len.to_ne_bytes());
        self.0
    }
}

/// As few datagrams as hold all of these.
pub fn datagrams(messages: Vec<Vec<u8>>) -> Vec<Vec<u8>> {
    let mut all: Vec<Vec<u8>> = Vec::new();
    for message in messages {
        match all.last_mut() {
            Some(last) if last.len() + message.len() <= DATAGRAM_BYTES => last.extend(message),
            _ => all.push(message),
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_is_written_is_read() {
        let mut message = Message::new(0x1401, NLM_F_DUMP, 7, 99);
        message.text(2, "hca0");
        message.nested(80, |message| message.attribute(83, &5u64.to_ne_bytes()));
        message.attribute(1, &3u32.to_ne_bytes());
        let bytes = message.finish();
        let (request, rest) = Request::parse(&bytes).unwrap();
        assert_eq!(
            (request.kind, request.flags, request.sequence),
            (0x1401, NLM_F_DUMP, 7)
        );
        assert_eq!(request.attribute(2), Some(&b"hca0\0"[..]));
        assert_eq!(request.number(1), Some(3));
        assert_eq!(request.attribute(80).map(<[u8]>::len), Some(12));
        assert_eq!((request.attribute(9), rest.len()), (None, 0));
        assert_eq!(bytes.len() % 4, 0);
    }

    #[test]
    fn datagrams_hold_what_fits() {
        let sizes = |messages: &[usize]| -> Vec<usize> {
            let messages = messages.iter().map(|len| vec![0; *len]).collect();
            datagrams(messages).iter().map(Vec::len).collect()
        };
        assert_eq!(sizes(&[4000, 96, 4, 5000, 1]), [4096, 4, 5000, 1]);
        assert_eq!(sizes(&[]), []);
    }

    proptest! {
        /// Whatever a program sends is read or not, and ends.
        #[test]
        fn any_bytes(bytes in prop::collection::vec(any::<u8>(), 0..100), kind: u16) {
            let mut rest = &bytes[..];
            while let Some((request, behind)) = Request::parse(rest) {
                request.attribute(kind);
                prop_assert!(behind.len() < rest.len());
                rest = behind;
            }
        }
    }
}
