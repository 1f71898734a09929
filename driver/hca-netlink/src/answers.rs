//! What is answered: the commands of rdma/rdma_netlink.h that ask for devices, ports, the system and the counters of a
//! port. Objects of programs are known to nobody here, and nothing can be changed: EOPNOTSUPP.

use std::ffi::CString;
use std::path::Path;

use crate::cards::{self, Card, Port};
use crate::message::{
    Message, NLM_F_ACK, NLM_F_DUMP, NLM_F_MULTI, NLMSG_DONE, NLMSG_ERROR, Request, datagrams,
};

/// RDMA_NL_NLDEV: the upper bits of a message's type.
const CLIENT: u16 = 5;
const CLIENT_SHIFT: u32 = 10;

// RDMA_NLDEV_CMD_.
const GET: u16 = 1;
const PORT_GET: u16 = 5;
const SYS_GET: u16 = 6;
const STAT_GET: u16 = 17;

// RDMA_NLDEV_ATTR_.
const DEV_INDEX: u16 = 1;
const DEV_NAME: u16 = 2;
const PORT_INDEX: u16 = 3;
const CAP_FLAGS: u16 = 4;
const FW_VERSION: u16 = 5;
const NODE_GUID: u16 = 6;
const SYS_IMAGE_GUID: u16 = 7;
const SUBNET_PREFIX: u16 = 8;
const LID: u16 = 9;
const SM_LID: u16 = 10;
const LMC: u16 = 11;
const PORT_STATE: u16 = 12;
const PORT_PHYS_STATE: u16 = 13;
const DEV_NODE_TYPE: u16 = 14;
const NDEV_INDEX: u16 = 50;
const NDEV_NAME: u16 = 51;
const SYS_NETNS_MODE: u16 = 66;
const DEV_PROTOCOL: u16 = 67;
const STAT_RES: u16 = 75;
const STAT_HWCOUNTERS: u16 = 80;
const STAT_HWCOUNTER_ENTRY: u16 = 81;
const STAT_HWCOUNTER_ENTRY_NAME: u16 = 82;
const STAT_HWCOUNTER_ENTRY_VALUE: u16 = 83;
const SYS_COPY_ON_FORK: u16 = 93;

type Fill<'a> = Box<dyn FnOnce(&mut Message) + 'a>;
/// The contents of each message of an answer, or an errno.
type Found<'a> = Result<Vec<Fill<'a>>, i32>;

/// Datagrams that answer what a socket with this port ID has sent; `class` is /sys/class/infiniband.
pub fn to(class: &Path, mut bytes: &[u8], port_id: u32) -> Vec<Vec<u8>> {
    let cards = cards::all(class);
    let mut all = Vec::new();
    while let Some((request, rest)) = Request::parse(bytes) {
        all.extend(to_request(&cards, &request, port_id));
        bytes = rest;
    }
    all
}

fn to_request(cards: &[Card], request: &Request, port_id: u32) -> Vec<Vec<u8>> {
    let is_dump = request.flags & NLM_F_DUMP == NLM_F_DUMP;
    let found = match (
        request.kind >> CLIENT_SHIFT == CLIENT,
        request.kind & ((1 << CLIENT_SHIFT) - 1),
    ) {
        (true, GET) => devices(cards, request, is_dump),
        (true, PORT_GET) => ports(cards, request, is_dump),
        (true, SYS_GET) => Ok(vec![Box::new(system) as Fill]),
        (true, STAT_GET) if !is_dump && request.attribute(STAT_RES).is_none() => statistics(cards, request),
        _ => Err(libc::EOPNOTSUPP),
    };
    let message = |kind, flags| Message::new(kind, flags, request.sequence, port_id);
    let error = |errno: i32| {
        let mut error = message(NLMSG_ERROR, 0);
        error.raw(&(-errno).to_ne_bytes());
        error.raw(request.header);
        error.finish()
    };
    let flags = if is_dump { NLM_F_MULTI } else { 0 };
    let filled = |fill: Fill| {
        let mut one = message(request.kind, flags);
        fill(&mut one);
        one.finish()
    };
    match found {
        Err(errno) => vec![error(errno)],
        Ok(parts) if is_dump => {
            let mut done = message(NLMSG_DONE, NLM_F_MULTI);
            done.raw(&0i32.to_ne_bytes());
            datagrams(parts.into_iter().map(filled).chain([done.finish()]).collect())
        }
        Ok(parts) => {
            // As the kernel does it: the acknowledgement is a datagram of its own.
            let mut all: Vec<_> = parts.into_iter().map(filled).collect();
            all.extend((request.flags & NLM_F_ACK != 0).then(|| error(0)));
            all
        }
    }
}

fn named<'a>(cards: &'a [Card], request: &Request) -> Result<&'a Card, i32> {
    let index = request.number(DEV_INDEX).ok_or(libc::EINVAL)?;
    cards.iter().find(|card| card.index == index).ok_or(libc::EINVAL)
}

fn devices<'a>(cards: &'a [Card], request: &Request, is_dump: bool) -> Found<'a> {
    let meant = if is_dump {
        cards
    } else {
        std::slice::from_ref(named(cards, request)?)
    };
    let fill = |card: &'a Card| Box::new(move |message: &mut Message| device(card, message)) as Fill<'a>;
    Ok(meant.iter().map(fill).collect())
}

fn identity(card: &Card, message: &mut Message) {
    message.attribute(DEV_INDEX, &card.index.to_ne_bytes());
    message.text(DEV_NAME, &card.name);
}

fn device(card: &Card, message: &mut Message) {
    identity(card, message);
    let ports = card.ports();
    message.attribute(PORT_INDEX, &(ports.len() as u32).to_ne_bytes());
    if let Some(version) = card.firmware() {
        message.text(FW_VERSION, &version);
    }
    for (kind, name) in [(NODE_GUID, "node_guid"), (SYS_IMAGE_GUID, "sys_image_guid")] {
        if let Some(guid) = card.guid(name) {
            message.attribute(kind, &guid.to_ne_bytes());
        }
    }
    if let Some(kind) = card.node_type() {
        message.attribute(DEV_NODE_TYPE, &[kind]);
    }
    // One word for the whole device, as the kernel has it: that of its first port.
    if let Some(port) = ports.first() {
        message.text(DEV_PROTOCOL, if port.is_infiniband() { "ib" } else { "roce" });
    }
}

fn one_port(card: &Card, request: &Request) -> Result<Port, i32> {
    let number = request.number(PORT_INDEX).ok_or(libc::EINVAL)?;
    card.ports()
        .into_iter()
        .find(|port| port.number == number)
        .ok_or(libc::EINVAL)
}

fn ports<'a>(cards: &'a [Card], request: &Request, is_dump: bool) -> Found<'a> {
    let card = named(cards, request)?;
    let meant = if is_dump {
        card.ports()
    } else {
        vec![one_port(card, request)?]
    };
    let fill = |port: Port| Box::new(move |message: &mut Message| port_of(card, &port, message)) as Fill<'a>;
    Ok(meant.into_iter().map(fill).collect())
}

fn port_of(card: &Card, port: &Port, message: &mut Message) {
    identity(card, message);
    message.attribute(PORT_INDEX, &port.number.to_ne_bytes());
    if port.is_infiniband() {
        let wide = |value: Option<u32>| value.unwrap_or(0).to_ne_bytes();
        message.attribute(
            CAP_FLAGS,
            &u64::from(port.hex("cap_mask").unwrap_or(0)).to_ne_bytes(),
        );
        message.attribute(SUBNET_PREFIX, &port.subnet_prefix().unwrap_or(0).to_ne_bytes());
        message.attribute(LID, &wide(port.hex("lid")));
        message.attribute(SM_LID, &wide(port.hex("sm_lid")));
        message.attribute(LMC, &[port.lid_mask_count().unwrap_or(0)]);
    }
    for (kind, name) in [(PORT_STATE, "state"), (PORT_PHYS_STATE, "phys_state")] {
        if let Some(state) = port.state(name) {
            message.attribute(kind, &[state]);
        }
    }
    if let Some(name) = port.net_device() {
        message.attribute(NDEV_INDEX, &net_device_index(&name).to_ne_bytes());
        message.text(NDEV_NAME, &name);
    }
}

/// 0: there is none of this name.
fn net_device_index(name: &str) -> u32 {
    // SAFETY: a C string.
    CString::new(name).map_or(0, |name| unsafe { libc::if_nametoindex(name.as_ptr()) })
}

/// Cards are of all network namespaces that see them; memory that they use need not be marked for fork.
fn system(message: &mut Message) {
    message.attribute(SYS_NETNS_MODE, &[1]);
    message.attribute(SYS_COPY_ON_FORK, &[1]);
}

fn statistics<'a>(cards: &'a [Card], request: &Request) -> Found<'a> {
    let card = named(cards, request)?;
    let port = one_port(card, request)?;
    Ok(vec![Box::new(move |message: &mut Message| {
        identity(card, message);
        message.attribute(PORT_INDEX, &port.number.to_ne_bytes());
        message.nested(STAT_HWCOUNTERS, |message| {
            for (name, value) in port.hardware_counters() {
                message.nested(STAT_HWCOUNTER_ENTRY, |message| {
                    message.text(STAT_HWCOUNTER_ENTRY_NAME, &name);
                    message.attribute(STAT_HWCOUNTER_ENTRY_VALUE, &value.to_ne_bytes());
                });
            }
        });
    })])
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::fs;
    use std::sync::LazyLock;

    /// What there is of two cards with a port each: of the second one nothing but its name.
    fn class() -> tempfile::TempDir {
        let class = tempfile::tempdir().unwrap();
        let files = [
            ("fw_ver", "1.2.3"),
            ("node_guid", "0200:0aff:fe00:0001"),
            ("node_type", "1: CA"),
            ("ports/1/state", "4: ACTIVE"),
            ("ports/1/link_layer", "InfiniBand"),
            ("ports/1/lid", "0x1f"),
            ("ports/1/gids/0", "fe80:0000:0000:0000:0200:0aff:fe00:0001"),
            ("ports/1/hw_counters/tx_pkts", "77"),
        ];
        for (name, text) in files {
            let path = class.path().join("hca0").join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, format!("{text}\n")).unwrap();
        }
        fs::create_dir_all(class.path().join("hca12/ports/1")).unwrap();
        fs::create_dir_all(class.path().join("other0")).unwrap();
        class
    }

    fn request(command: u16, flags: u16, attributes: &[(u16, u32)]) -> Vec<u8> {
        let mut message = Message::new(CLIENT << CLIENT_SHIFT | command, flags, 9, 0);
        for (kind, value) in attributes {
            message.attribute(*kind, &value.to_ne_bytes());
        }
        message.finish()
    }

    fn parsed(datagrams: &[Vec<u8>]) -> Vec<Request<'_>> {
        let mut found = Vec::new();
        for mut bytes in datagrams.iter().map(|datagram| &datagram[..]) {
            while let Some((message, rest)) = Request::parse(bytes) {
                found.push(message);
                bytes = rest;
            }
        }
        found
    }

    #[test]
    fn devices_ports_and_counters() {
        let class = class();
        let ask = |command, flags, attributes: &[(u16, u32)]| {
            to(class.path(), &request(command, flags, attributes), 5)
        };
        let all = ask(GET, NLM_F_DUMP, &[]);
        let found = parsed(&all);
        assert_eq!(
            found
                .iter()
                .map(|card| card.number(DEV_INDEX))
                .collect::<Vec<_>>(),
            [Some(0), Some(12), None]
        );
        assert_eq!((found[2].kind, found[2].sequence, all.len()), (NLMSG_DONE, 9, 1));
        assert_eq!(
            found[0].attribute(NODE_GUID),
            Some(&0x0200_0aff_fe00_0001u64.to_ne_bytes()[..])
        );
        assert_eq!(found[0].attribute(DEV_PROTOCOL), Some(&b"ib\0"[..]));
        let one = ask(PORT_GET, NLM_F_ACK, &[(DEV_INDEX, 0), (PORT_INDEX, 1)]);
        let found = parsed(&one);
        assert_eq!(
            (found[0].number(LID), found[0].attribute(PORT_STATE)),
            (Some(0x1f), Some(&[4][..]))
        );
        assert_eq!(
            (found[1].kind, one.len()),
            (NLMSG_ERROR, 2),
            "the acknowledgement"
        );
        let counters = ask(STAT_GET, 0, &[(DEV_INDEX, 0), (PORT_INDEX, 1)]);
        let found = parsed(&counters);
        let nested = found[0].attribute(STAT_HWCOUNTERS).unwrap();
        assert!(
            nested.windows(8).any(|bytes| bytes == b"tx_pkts\0") && nested.ends_with(&77u64.to_ne_bytes())
        );
    }

    /// The errno of an answer, which is right behind its header.
    fn errno(datagrams: &[Vec<u8>]) -> i32 {
        assert_eq!(parsed(datagrams)[0].kind, NLMSG_ERROR);
        -i32::from_ne_bytes(datagrams[0][16..20].try_into().unwrap())
    }

    #[test]
    fn what_is_not_there_and_what_nobody_knows() {
        let class = class();
        let ask = |bytes: &[u8]| errno(&to(class.path(), bytes, 5));
        assert_eq!(ask(&request(GET, 0, &[(DEV_INDEX, 7)])), libc::EINVAL);
        assert_eq!(ask(&request(GET, 0, &[])), libc::EINVAL);
        assert_eq!(
            ask(&request(PORT_GET, 0, &[(DEV_INDEX, 0), (PORT_INDEX, 2)])),
            libc::EINVAL
        );
        assert_eq!(
            ask(&request(
                STAT_GET,
                0,
                &[(DEV_INDEX, 0), (PORT_INDEX, 1), (STAT_RES, 1)]
            )),
            libc::EOPNOTSUPP
        );
        for command in [2, 3, 4, 7, 9, 10, 15, 16, 18, 1000] {
            assert_eq!(
                ask(&request(command, NLM_F_DUMP, &[])),
                libc::EOPNOTSUPP,
                "{command}"
            );
        }
        assert_eq!(
            ask(&Message::new(4 << CLIENT_SHIFT | GET, 0, 1, 0).finish()),
            libc::EOPNOTSUPP
        );
    }

    proptest! {
        /// Whatever is sent is answered or not.
        #[test]
        fn any_bytes(bytes in prop::collection::vec(any::<u8>(), 0..64), command in 0u16..30) {
            static CLASS: LazyLock<tempfile::TempDir> = LazyLock::new(class);
            to(CLASS.path(), &bytes, 1);
            let mut message = Message::new(CLIENT << CLIENT_SHIFT | command, NLM_F_DUMP, 1, 0);
            message.raw(&bytes);
            let answers = to(CLASS.path(), &message.finish(), 1);
            for message in parsed(&answers) {
                prop_assert_eq!(message.sequence, 1);
            }
        }
    }
}
