//! `hca info`: what the cards of a running simulator say, asked through their sockets.

use anyhow::{Context as _, Result};
use hca_abi::port_cap;
use hca_abi::table::FieldDef;
use hca_verbs::{Context, DeviceAttr, Gid, LinkLayer, Mtu, OpenOptions, PortAttr, PortCounters, PortState};
use hca_vfio_user::VfioUserDevice;
use serde::Serialize;
use std::fmt::Write as _;
use std::net::{IpAddr, Ipv6Addr};
use std::path::PathBuf;
use std::process::ExitCode;
use std::rc::Rc;

use crate::sim::folder::Folder;

/// A simulator may be slow in wall-clock time: it shares the processor with its programs.
const PATIENCE_NS: u64 = 60_000_000_000;

const EXAMPLES: &str = "Examples:
  hca info
  hca info --card 1 --json

The JSON object has every attribute of card and ports under its name in docs/abi.md.

A card is asked through a function that no process has; where all are taken, that is all there is to say.

Exit code: 0 the cards answered; 2 no simulator, no such card, or a card that does not answer.";

/// Options of `hca info`.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// This card only
    #[arg(long, value_name = "N")]
    card: Option<u32>,
    /// Print one JSON object per card
    #[arg(long)]
    json: bool,
    /// Folder with the simulator's sockets, as given to hca sim
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
}

/// Asks and prints.
pub fn run(args: &Args) -> Result<ExitCode> {
    let folder = Folder::find(args.dir.as_deref())?;
    let cards = folder.demand_cards(args.card)?;
    for (number, functions) in cards {
        if args.card.is_none_or(|card| card == number) {
            let card = ask(&folder, number, &functions).with_context(|| format!("card {number}"))?;
            let text = if args.json {
                serde_json::to_string(&card)? + "\n"
            } else {
                card.text()
            };
            crate::print(&text)?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

#[derive(Serialize)]
struct Card {
    card: u32,
    functions: usize,
    #[serde(flatten)]
    answer: Option<Answer>,
}

#[derive(Serialize)]
struct Answer {
    function: u8,
    clock_hz: u32,
    vectors: u16,
    firmware: String,
    /// SHA-256 of the image on the card's own processor.
    firmware_digest: Option<String>,
    node_guid: String,
    limits: Limits,
    attributes: Attributes,
    ports: Vec<Port>,
}

/// What a card answers to a query, by the names of the ABI.
type Attributes = serde_json::Map<String, serde_json::Value>;

#[derive(Serialize)]
struct Limits {
    qps: u32,
    qp_wrs: u32,
    sges: u32,
    cqs: u32,
    cqes: u32,
    mrs: u32,
    mr_bytes: u64,
    pds: u32,
    reads_per_qp: u32,
}

#[derive(Serialize)]
struct Port {
    port: u8,
    state: String,
    link: &'static str,
    max_mtu_bytes: Option<u32>,
    mac: String,
    lid: u16,
    /// Of InfiniBand ports that one has set up: LID of the subnet manager.
    sm_lid: u16,
    /// A subnet manager runs at this port.
    is_sm: bool,
    gids: Vec<String>,
    ip_addresses: Vec<IpAddr>,
    tx_packets: u64,
    rx_packets: u64,
    rx_crc_errors: u64,
    retransmitted_packets: u64,
    ack_timeouts: u64,
    attributes: Attributes,
    counters: Attributes,
}

/// Asks through the last function that is free: programs take the first ones.
fn ask(folder: &Folder, number: u32, functions: &[u8]) -> Result<Card> {
    let free = functions
        .iter()
        .rev()
        .find_map(|func| VfioUserDevice::connect(&folder.socket(number, *func)).ok());
    let answer = free.map(answer).transpose()?;
    Ok(Card {
        card: number,
        functions: functions.len(),
        answer,
    })
}

fn answer(device: VfioUserDevice) -> Result<Answer> {
    let options = OpenOptions {
        ready_timeout_ns: PATIENCE_NS,
        command_timeout_ns: PATIENCE_NS,
        ..OpenOptions::default()
    };
    let context = Context::open_with(Rc::new(device), &options)?;
    let (attr, info) = (context.query_device()?, context.info());
    let image = context.function().query_firmware()?;
    let mut ports = Vec::new();
    for number in 1..=attr.phys_port_cnt() {
        let port = context.query_port(number)?;
        let mut gids = Vec::new();
        for index in 0..port.gid_tbl_len() as u16 {
            let gid: Gid = context.query_gid(number, index)?;
            if gid != Gid::default() {
                gids.push(Ipv6Addr::from(gid));
            }
        }
        ports.push(Port::new(number, &port, &gids, &context.query_counters(number)?));
    }
    Ok(Answer {
        function: info.func,
        clock_hz: info.clock_hz,
        vectors: info.vectors,
        firmware: format!(
            "{}.{}.{}",
            attr.fw_ver_major(),
            attr.fw_ver_minor(),
            attr.fw_ver_patch()
        ),
        firmware_digest: image.on_core().then(|| hex(&image.digest())),
        node_guid: hex(&attr.node_guid()),
        limits: Limits::new(&attr),
        attributes: attributes(DeviceAttr::TABLE.fields, attr.as_bytes()),
        ports,
    })
}

/// Fields that are byte strings and not numbers.
const BYTE_STRINGS: [&str; 3] = ["node_guid", "sys_image_guid", "mac"];

/// Byte strings become hexadecimal digits. Both tables have whole bytes only.
fn attributes(fields: &[FieldDef], bytes: &[u8]) -> Attributes {
    let mut attributes = Attributes::new();
    for field in fields {
        let (first, len) = (field.byte as usize, field.width as usize / 8);
        let bytes = &bytes[first..first + len];
        let value = if BYTE_STRINGS.contains(&field.name) {
            hex(bytes).into()
        } else {
            let number = bytes.iter().rev();
            number
                .fold(0, |high: u64, byte| high << 8 | u64::from(*byte))
                .into()
        };
        attributes.insert(field.name.to_owned(), value);
    }
    attributes
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

impl Limits {
    fn new(attr: &DeviceAttr) -> Self {
        Self {
            qps: attr.max_qp(),
            qp_wrs: attr.max_qp_wr(),
            sges: attr.max_sge(),
            cqs: attr.max_cq(),
            cqes: attr.max_cqe(),
            mrs: attr.max_mr(),
            mr_bytes: attr.max_mr_size(),
            pds: attr.max_pd(),
            reads_per_qp: attr.max_qp_rd_atom(),
        }
    }
}

impl Port {
    fn new(number: u8, attr: &PortAttr, gids: &[Ipv6Addr], counters: &PortCounters) -> Self {
        let state = PortState::try_from(attr.state());
        let is_ethernet = attr.link_layer() == u8::from(LinkLayer::Ethernet);
        Self {
            port: number,
            state: state.map_or_else(
                |_| format!("state {}", attr.state()),
                |state| format!("{state:?}"),
            ),
            link: if is_ethernet { "eth" } else { "ib" },
            max_mtu_bytes: Mtu::try_from(attr.max_mtu()).ok().map(|_| 128 << attr.max_mtu()),
            mac: attr.mac().map(|byte| format!("{byte:02x}")).join(":"),
            lid: attr.lid(),
            sm_lid: attr.sm_lid(),
            is_sm: attr.port_cap_flags() & port_cap::SM != 0,
            gids: gids.iter().map(Ipv6Addr::to_string).collect(),
            // RoCEv2: a GID is the IP address that packets carry.
            ip_addresses: if is_ethernet {
                gids.iter().map(Ipv6Addr::to_canonical).collect()
            } else {
                Vec::new()
            },
            tx_packets: counters.tx_packets(),
            rx_packets: counters.rx_packets(),
            rx_crc_errors: counters.rx_crc_errors(),
            retransmitted_packets: counters.retransmitted_packets(),
            ack_timeouts: counters.ack_timeouts(),
            attributes: attributes(PortAttr::TABLE.fields, attr.as_bytes()),
            counters: attributes(PortCounters::TABLE.fields, counters.as_bytes()),
        }
    }
}

impl Port {
    /// Nothing where no subnet manager is known.
    fn manager_line(&self) -> String {
        let here = if self.is_sm { "; one runs at this port" } else { "" };
        match self.sm_lid {
            0 if here.is_empty() => String::new(),
            lid => format!("    subnet manager at LID {lid}{here}\n"),
        }
    }

    fn ip_addresses_line(&self) -> String {
        let addresses: Vec<String> = self.ip_addresses.iter().map(IpAddr::to_string).collect();
        match addresses.join(" ") {
            none if none.is_empty() => none,
            addresses => format!("    IP addresses {addresses}\n"),
        }
    }
}

impl Card {
    fn text(&self) -> String {
        let mut text = format!("card {}", self.card);
        let Some(answer) = &self.answer else {
            return format!("{text}: all {} functions are in use\n", self.functions);
        };
        let limits = &answer.limits;
        // Writing to a String cannot fail.
        let _ = writeln!(
            text,
            ": GUID {}, firmware {}, {} functions with {} vectors, {} MHz\n  \
             {} QPs of {} work requests of {} SGEs, {} CQs of {} entries, {} PDs, {} MRs of {} bytes, {} READs per QP",
            answer.node_guid,
            answer.firmware,
            self.functions,
            answer.vectors,
            answer.clock_hz / 1_000_000,
            limits.qps,
            limits.qp_wrs,
            limits.sges,
            limits.cqs,
            limits.cqes,
            limits.pds,
            limits.mrs,
            limits.mr_bytes,
            limits.reads_per_qp,
        );
        for port in &answer.ports {
            let _ = writeln!(
                text,
                "  port {}: {}, {}, MTU {}, MAC {}, LID {}\n{}    GIDs {}\n{}    sent {} packets, received {}, \
                 CRC errors {}, sent again {}, acknowledge timeouts {}",
                port.port,
                port.state,
                port.link,
                port.max_mtu_bytes.unwrap_or(0),
                port.mac,
                port.lid,
                port.manager_line(),
                port.gids.join(" "),
                port.ip_addresses_line(),
                port.tx_packets,
                port.rx_packets,
                port.rx_crc_errors,
                port.retransmitted_packets,
                port.ack_timeouts,
            );
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_attribute_has_its_value() {
        let mut attr = DeviceAttr::new();
        attr.set_node_guid([2, 0, 0, 0, 0, 0, 0, 0xab]);
        attr.set_max_mr_size(1 << 63);
        attr.set_max_pkeys(0x1234);
        let shown = attributes(DeviceAttr::TABLE.fields, attr.as_bytes());
        assert_eq!(shown.len(), DeviceAttr::TABLE.fields.len());
        assert_eq!(shown["node_guid"], "02000000000000ab");
        assert_eq!(shown["max_mr_size"], 1u64 << 63);
        assert_eq!(shown["max_pkeys"], 0x1234);
        for field in DeviceAttr::TABLE.fields.iter().chain(PortAttr::TABLE.fields) {
            assert!(
                field.bit == 0 && field.width % 8 == 0 && field.width <= 64,
                "{}",
                field.name
            );
        }
    }
}
