//! Frames in a byte stream, as QEMU's `-netdev stream` writes them: four bytes of length, most significant first, then
//! the frame without its check sequence.

use crate::{FRAME_BYTES_MAX, FRAME_BYTES_MIN};

/// Bytes of the length before each frame.
const PREFIX_BYTES: usize = 4;
/// A longer frame is none: the stream has lost its place. QEMU sends up to 68 KiB.
const CLAIM_MAX: usize = 1 << 20;

/// What a stream brings.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Unframed {
    /// A frame.
    Frame(Vec<u8>),
    /// One that is too short, skipped.
    Runt,
    /// One that is too long; skipped.
    Oversized,
}

/// The stream makes no sense any more.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Broken;

/// Cuts a stream into frames.
#[derive(Default)]
pub(crate) struct Unframer {
    buffer: Vec<u8>,
    /// Bytes of a frame that nobody wants, still to come.
    skip: usize,
}

impl Unframer {
    /// Takes bytes as they come, and hands out what is complete. Never holds more than one frame and the bytes given.
    pub fn feed(&mut self, mut bytes: &[u8], mut out: impl FnMut(Unframed)) -> Result<(), Broken> {
        loop {
            let skipped = self.skip.min(bytes.len());
            self.skip -= skipped;
            bytes = &bytes[skipped..];
            if bytes.is_empty() {
                return Ok(());
            }
            let wanted = match self.buffer.first_chunk::<PREFIX_BYTES>() {
                None => PREFIX_BYTES,
                Some(length) => PREFIX_BYTES + u32::from_be_bytes(*length) as usize,
            };
            let taken = (wanted - self.buffer.len()).min(bytes.len());
            self.buffer.extend_from_slice(&bytes[..taken]);
            bytes = &bytes[taken..];
            if self.buffer.len() < wanted {
                return Ok(());
            }
            if wanted == PREFIX_BYTES {
                self.begin(&mut out)?;
            } else {
                out(Unframed::Frame(self.buffer.split_off(PREFIX_BYTES)));
                self.buffer.clear();
            }
        }
    }

    /// The length is there: says whether the frame is wanted.
    fn begin(&mut self, out: &mut impl FnMut(Unframed)) -> Result<(), Broken> {
        let Some(length) = self.buffer.first_chunk::<PREFIX_BYTES>() else {
            return Ok(());
        };
        let len_bytes = u32::from_be_bytes(*length) as usize;
        if len_bytes > CLAIM_MAX {
            return Err(Broken);
        }
        if !(FRAME_BYTES_MIN..=FRAME_BYTES_MAX).contains(&len_bytes) {
            out(if len_bytes < FRAME_BYTES_MIN {
                Unframed::Runt
            } else {
                Unframed::Oversized
            });
            self.skip = len_bytes;
            self.buffer.clear();
        }
        Ok(())
    }
}

/// A frame as it goes into the stream.
pub(crate) fn frame_up(frame: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(&(frame.len() as u32).to_be_bytes());
    out.extend_from_slice(frame);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn feed(unframer: &mut Unframer, bytes: &[u8]) -> Result<Vec<Unframed>, Broken> {
        let mut found = Vec::new();
        unframer.feed(bytes, |one| found.push(one)).map(|()| found)
    }

    #[test]
    fn any_cut_gives_the_same_frames() {
        let mut stream = Vec::new();
        for len in [60, 0, 14, 13, FRAME_BYTES_MAX, FRAME_BYTES_MAX + 1, 100] {
            frame_up(&vec![len as u8; len], &mut stream);
        }
        let frame = |len: usize| Unframed::Frame(vec![len as u8; len]);
        let wanted = [
            frame(60),
            Unframed::Runt,
            frame(14),
            Unframed::Runt,
            frame(FRAME_BYTES_MAX),
            Unframed::Oversized,
            frame(100),
        ];
        for step in [1, 2, 3, 5, 64, 1500, stream.len()] {
            let mut unframer = Unframer::default();
            let parts = stream.chunks(step);
            let found: Vec<_> = parts
                .flat_map(|part| feed(&mut unframer, part).unwrap())
                .collect();
            assert_eq!(found, wanted, "{step} bytes at a time");
        }
    }

    #[test]
    fn a_stream_of_something_else_is_broken_at_once() {
        let mut unframer = Unframer::default();
        assert_eq!(feed(&mut unframer, b"GET / HTTP/1.0\r\n"), Err(Broken));
        let mut unframer = Unframer::default();
        let limit = (CLAIM_MAX as u32).to_be_bytes();
        assert_eq!(feed(&mut unframer, &limit), Ok(vec![Unframed::Oversized]));
        let mut unframer = Unframer::default();
        assert_eq!(
            feed(&mut unframer, &(CLAIM_MAX as u32 + 1).to_be_bytes()),
            Err(Broken)
        );
    }
}
