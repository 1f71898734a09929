use super::*;
use crate::header::{Command, Header};
use proptest::prelude::*;

#[test]
fn layouts_are_those_of_the_specification() {
    let header = Header::command(0x1234, Command::DmaMap, 32, false);
    assert_eq!(
        header.encode(),
        [0x34, 0x12, 2, 0, 48, 0, 0, 0, 0x10, 0, 0, 0, 0, 0, 0, 0]
    );
    let reply = Header::reply(&header, 0, 22);
    assert_eq!(
        reply.encode(),
        [0x34, 0x12, 2, 0, 16, 0, 0, 0, 0x21, 0, 0, 0, 22, 0, 0, 0]
    );
    assert!(reply.is_reply() && !reply.wants_reply() && !header.wants_reply());
    assert_eq!(reply.errno(), 22);
    let access = RegionAccess {
        region: 7,
        offset: 0x40,
        count: 4,
    }
    .encode(&[1, 2, 3, 4]);
    assert_eq!(
        access,
        [0x40, 0, 0, 0, 0, 0, 0, 0, 7, 0, 0, 0, 4, 0, 0, 0, 1, 2, 3, 4]
    );
}

#[test]
fn structures_survive_the_wire() {
    let map = DmaMap {
        flags: 3,
        offset: 4096,
        address: 0xdead_0000,
        size: 8192,
    };
    assert_eq!(DmaMap::decode(&map.encode()), Ok(map));
    let unmap = DmaUnmap {
        flags: 0,
        address: 1,
        size: 2,
    };
    assert_eq!(DmaUnmap::decode(&unmap.encode()), Ok(unmap));
    let region = RegionInfo {
        index: 4,
        flags: 7,
        size: 4096,
        offset: 8,
    };
    assert_eq!(RegionInfo::decode(&region.encode()), Ok(region));
    let access = DmaAccess {
        address: 1 << 40,
        count: 3,
    };
    let bytes = access.encode(&[7, 8, 9]);
    assert_eq!((bytes[5], bytes[8], bytes.len()), (1, 3, 19));
    assert_eq!(DmaAccess::decode(&bytes), Ok((access, &[7u8, 8, 9][..])));
    for number in 1..=18 {
        assert_eq!(
            Command::from_wire(number).map(|command| command as u16),
            Some(number)
        );
    }
    assert!(Command::from_wire(0).is_none() && Command::from_wire(19).is_none());
    let kick = IoEventFd {
        index: 4,
        offset: 0x2000,
        size: 8,
    };
    assert_eq!(kick.encode().len(), 56);
    assert_eq!(IoEventFd::decode(&kick.encode()), Ok(Some(kick)));
    assert_eq!(IoEventFd::decode_ask(&IoEventFd::ask(4)), Ok(4));
    assert_eq!(IoEventFd::decode(&IoEventFd::none(4)), Ok(None));
    let info = IrqInfo {
        index: 2,
        flags: 1,
        count: 32,
    };
    assert_eq!(IrqInfo::decode(&info.encode()), Ok(info));
    let set = SetIrqs {
        flags: 36,
        index: 2,
        start: 0,
        count: 32,
    };
    assert_eq!(SetIrqs::decode(&set.encode()), Ok(set));
}

proptest! {
    #[test]
    fn any_bytes_decode_or_fail(bytes in proptest::collection::vec(any::<u8>(), 0..64)) {
        let _ = DmaMap::decode(&bytes);
        let _ = DmaUnmap::decode(&bytes);
        let _ = RegionInfo::decode(&bytes);
        let _ = IoEventFd::decode(&bytes);
        let _ = IoEventFd::decode_ask(&bytes);
        let _ = IrqInfo::decode(&bytes);
        let _ = SetIrqs::decode(&bytes);
        let short = RegionAccess::decode(&bytes).is_err();
        prop_assert_eq!(short, bytes.len() < 16);
        prop_assert_eq!(DmaAccess::decode(&bytes).is_err(), short);
        let _ = crate::decode_version(&bytes);
    }
}
