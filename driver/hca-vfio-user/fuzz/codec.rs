//! Whatever bytes come from the other end, by socket or by shared memory: they decode or fail, and what decodes says
//! the same when it is encoded again. Run by `scripts/fuzz.sh`.
#![no_main]

use std::io::Write as _;
use std::os::unix::net::UnixStream;

use hca_dev::store_bytes;
use hca_vfio_user::{
    Connection, DmaAccess, DmaMap, DmaUnmap, HEADER_BYTES, Header, IoEventFd, IrqInfo, MAX_FDS, MAX_PAYLOAD_BYTES,
    POSTED_ENTRIES, PostedReader, RegionAccess, RegionInfo, SHARED_REGION_BYTES, SetIrqs, SharedRegion,
    decode_version, encode_version,
};
use libfuzzer_sys::fuzz_target;

/// More than a UNIX socket holds would wait for a reader.
const STREAM_BYTES: usize = 32 << 10;

/// A structure of fixed length: what decodes is the same after a round trip.
macro_rules! round_trip {
    ($type:ty, $bytes:expr) => {
        if let Ok(found) = <$type>::decode($bytes) {
            assert_eq!(<$type>::decode(&found.encode()), Ok(found));
        }
    };
}

fn structures(bytes: &[u8]) {
    round_trip!(DmaMap, bytes);
    round_trip!(DmaUnmap, bytes);
    round_trip!(RegionInfo, bytes);
    round_trip!(IrqInfo, bytes);
    round_trip!(SetIrqs, bytes);
    let _ = IoEventFd::decode_ask(bytes);
    if let Ok(Some(found)) = IoEventFd::decode(bytes) {
        assert_eq!(IoEventFd::decode(&found.encode()), Ok(Some(found)));
    }
    if let Ok((access, data)) = RegionAccess::decode(bytes) {
        assert_eq!(RegionAccess::decode(&access.encode(data)), Ok((access, data)));
    }
    if let Ok((access, data)) = DmaAccess::decode(bytes) {
        assert_eq!(DmaAccess::decode(&access.encode(data)), Ok((access, data)));
    }
    if let Some(head) = bytes.first_chunk::<HEADER_BYTES>() {
        let header = Header::decode(head);
        assert_eq!(header.encode(), *head);
        assert!(!(header.is_reply() && header.wants_reply()));
        assert!(Header::reply(&header, 0, header.errno()).is_reply());
    }
    if let Ok((_, minor, capabilities)) = decode_version(bytes) {
        let again = decode_version(&encode_version(minor, &capabilities)).map(|(_, _, found)| found);
        assert_eq!(again, Ok(capabilities));
    }
}

/// A peer that sends anything, in pieces of the length that the first byte says, and hangs up.
fn stream(bytes: &[u8]) {
    let Some((piece, bytes)) = bytes.split_first() else {
        return;
    };
    let (mut peer, end) = UnixStream::pair().expect("a pair of sockets");
    let mut end = Connection::new(end);
    let mut total = 0;
    for piece in bytes[..bytes.len().min(STREAM_BYTES)].chunks(usize::from(*piece) + 1) {
        if peer.write_all(piece).is_err() {
            return;
        }
        loop {
            match end.try_receive() {
                Ok(Some(message)) => {
                    total += HEADER_BYTES + message.payload.len();
                    assert!(message.payload.len() <= MAX_PAYLOAD_BYTES && message.fds.len() <= MAX_FDS);
                    assert_eq!(message.header.size_bytes as usize, HEADER_BYTES + message.payload.len());
                    structures(&message.payload);
                }
                Ok(None) => break,
                Err(_) => return,
            }
        }
    }
    assert!(total <= bytes.len());
    drop(peer);
    assert!(end.try_receive().is_err());
}

/// A client that writes anything into the shared region, at an offset that it chooses, again and again.
fn posted(bytes: &[u8]) {
    let region = SharedRegion::new().expect("memory");
    let mut reader = PostedReader::new(region.clone());
    for write in bytes.chunks(18) {
        let Some((at, data)) = write.split_first_chunk::<2>() else {
            return;
        };
        let offset = usize::from(u16::from_le_bytes(*at)).min(SHARED_REGION_BYTES - data.len());
        let target = region.memory().as_ptr().wrapping_add(offset);
        // SAFETY: inside the region, which is only touched atomically.
        unsafe { store_bytes(target, data) };
        for _ in 0..=POSTED_ENTRIES {
            let had_any = reader.has_any();
            let Some(found) = reader.take() else {
                assert!(!had_any);
                break;
            };
            assert!(had_any && found.offset < 1 << 24);
        }
    }
}

fuzz_target!(|bytes: &[u8]| {
    match bytes.split_first() {
        Some((0, bytes)) => stream(bytes),
        Some((1, bytes)) => posted(bytes),
        Some((_, bytes)) => structures(bytes),
        None => {}
    }
});
