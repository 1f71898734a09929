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
