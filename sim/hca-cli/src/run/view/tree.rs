//! The files that the kernel would show for the cards, below /sys and /dev. Names and formats are those of the kernel's
//! documentation (Documentation/ABI/stable/sysfs-class-infiniband, testing/sysfs-bus-pci).
//! What is in the folders of ports is the simulator's own.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use crate::sim::facts::CardFacts;
use crate::sim::ports::{self, NET_DEVICE, groups};

/// Of uverbs, and of umad: what libibverbs and libibumad expect.
const VERBS_ABI: u32 = 6;
const MAD_ABI: u32 = 5;
/// The device behind every uverbs node, so that a program may open it: /dev/null.
const NODE: &str = "1:3";

/// BARs, expansion ROM and the windows of a bridge.
const RESOURCES: usize = 13;

/// What stands at a path.
#[derive(Clone, Debug, PartialEq)]
pub enum Node {
    /// A file with these bytes.
    File(Vec<u8>),
    /// A symbolic link.
    Link(PathBuf),
    /// What another folder has in it.
    Folder(PathBuf),
    /// A character device that may be opened and does nothing.
    Device,
}

/// Files by their absolute paths.
pub type Tree = BTreeMap<PathBuf, Node>;

/// What the cards share with the machine that they are in.
pub struct Machine {
    /// A PCI domain that the machine does not have.
    pub pci_domain: u16,
    /// Its processors, as /sys/devices/system/cpu/online lists them.
    pub cpus: String,
}

/// The files of these cards; `index` is the number in the names that libibverbs gives one, `simulator` its folder.
pub fn build(cards: &[CardFacts], index: impl Fn(u32) -> u32, machine: &Machine, simulator: &Path) -> Tree {
    let mut tree = Tree::new();
    let mut top = Folder::new(&mut tree, "/sys/class");
    top.file("infiniband_verbs/abi_version", VERBS_ABI);
    top.file("infiniband_mad/abi_version", MAD_ABI);
    let mut umads = 0;
    for card in cards {
        let index = index(card.card);
        let (name, uverbs) = (format!("hca{index}"), format!("uverbs{index}"));
        let address = format!(
            "{:04x}:{:02x}:00.0",
            u32::from(machine.pci_domain) + (card.card >> 8),
            card.card & 0xff
        );
        let (bus, _) = address.split_at("0000:00".len());
        let path = format!("devices/pci{bus}/{address}");
        let mut sys = Folder::new(&mut tree, "/sys");
        sys.link(format!("bus/pci/devices/{address}"), format!("../../../{path}"));
        for (class, device) in [("infiniband", &name), ("infiniband_verbs", &uverbs)] {
            sys.link(
                format!("class/{class}/{device}"),
                format!("../../{path}/{class}/{device}"),
            );
        }
        let mut function = Folder::new(&mut tree, format!("/sys/{path}"));
        pci_function(&mut function, card, &address, machine);
        if card.ports.iter().any(|port| !port.infiniband) {
            function.link(
                format!("net/{NET_DEVICE}"),
                format!("../../../virtual/net/{NET_DEVICE}"),
            );
        }
        let mut verbs = function.inside(format!("infiniband_verbs/{uverbs}"));
        verbs.file("abi_version", 1);
        verbs.file("dev", NODE);
        verbs.file("ibdev", &name);
        verbs.link("device", format!("../../../{address}"));
        verbs.link("subsystem", "../../../../../class/infiniband_verbs");
        let mut device = function.inside(format!("infiniband/{name}"));
        device.link("device", format!("../../../{address}"));
        device.link("subsystem", "../../../../../class/infiniband");
        ib_device(&mut device, card, &name);
        for port in (1..).take(card.ports.len()) {
            let all = ports::folder_of(simulator, card.card, port);
            device.folder(&format!("ports/{port}"), all);
        }
        mad_nodes(&mut tree, umads..umads + card.ports.len(), &name, &path);
        umads += card.ports.len();
        tree.insert(format!("/dev/infiniband/{uverbs}").into(), Node::Device);
    }
    tree
}

/// Of each port a node for the programs of management, and one by which a subnet manager says that it is one; numbered
/// through all cards.
fn mad_nodes(tree: &mut Tree, numbers: std::ops::Range<usize>, name: &str, path: &str) {
    let function = path.rsplit('/').next().unwrap_or(path);
    for (port, number) in (1..).zip(numbers) {
        for kind in ["umad", "issm"] {
            let node = format!("{kind}{number}");
            let mut mad = Folder::new(tree, format!("/sys/{path}/infiniband_mad/{node}"));
            mad.file("ibdev", name);
            mad.file("port", port);
            mad.file("dev", NODE);
            mad.link("device", format!("../../../{function}"));
            mad.link("subsystem", "../../../../../class/infiniband_mad");
            let shown = format!("../../{path}/infiniband_mad/{node}");
            Folder::new(tree, "/sys/class/infiniband_mad").link(&node, shown);
            tree.insert(format!("/dev/infiniband/{node}").into(), Node::Device);
        }
    }
}

fn pci_function(folder: &mut Folder, card: &CardFacts, address: &str, machine: &Machine) {
    // A short configuration space, of whatever simulator wrote it, has zeros.
    let config = |at: usize, len: usize| {
        let bytes = card.pci_config.iter().skip(at).take(len).rev();
        bytes.fold(0, |high: u32, byte| high << 8 | u32::from(*byte))
    };
    let (vendor, device, class) = (config(0, 2), config(2, 2), config(9, 3));
    let (subsystem_vendor, subsystem_device) = (config(0x2c, 2), config(0x2e, 2));
    for (name, value) in [
        ("vendor", vendor),
        ("device", device),
        ("subsystem_vendor", subsystem_vendor),
        ("subsystem_device", subsystem_device),
    ] {
        folder.file(name, format_args!("{value:#06x}"));
    }
    folder.file("class", format_args!("{class:#08x}"));
    folder.file("revision", format_args!("{:#04x}", config(8, 1)));
    folder.bytes("config", &card.pci_config);
    // Nobody has given it addresses or an interrupt line; libpci wants to be told so.
    folder.file("irq", 0);
    folder.file(
        "resource",
        ["0x0000000000000000 0x0000000000000000 0x0000000000000000"; RESOURCES].join("\n"),
    );
    // -1: it is near to no processor more than to another.
    folder.file("numa_node", -1);
    folder.file("local_cpulist", &machine.cpus);
    folder.file("local_cpus", cpu_mask(&machine.cpus));
    folder.link("subsystem", "../../../bus/pci");
    let subsystem = format!("{subsystem_vendor:04X}:{subsystem_device:04X}");
    let lines = [
        format!("PCI_CLASS={class:X}"),
        format!("PCI_ID={vendor:04X}:{device:04X}"),
        format!("PCI_SUBSYS_ID={subsystem}"),
        format!("PCI_SLOT_NAME={address}"),
    ];
    folder.file("uevent", lines.join("\n"));
}

fn ib_device(folder: &mut Folder, card: &CardFacts, name: &str) {
    let guid = groups(&card.node_guid);
    folder.file("node_guid", &guid);
    folder.file("sys_image_guid", &guid);
    folder.file("node_type", "1: CA");
    folder.file("node_desc", name);
    let [major, minor, patch] = card.firmware;
    folder.file("fw_ver", format_args!("{major}.{minor}.{patch}"));
    folder.file("hw_rev", format_args!("{:x}", card.hw_ver));
    folder.file("hca_type", "OpenHCA");
    folder.file("board_id", "simulated");
    folder.file("uevent", format_args!("NAME={name}"));
}

/// Where files are made.
struct Folder<'a> {
    tree: &'a mut Tree,
    path: PathBuf,
}

impl<'a> Folder<'a> {
    fn new(tree: &'a mut Tree, path: impl Into<PathBuf>) -> Self {
        let path = path.into();
        Self { tree, path }
    }

    fn inside(&mut self, path: impl AsRef<Path>) -> Folder<'_> {
        let path = self.path.join(path);
        Folder::new(self.tree, path)
    }

    /// A line of text.
    fn file(&mut self, name: &str, value: impl ToString) {
        let text = value.to_string() + "\n";
        self.tree
            .insert(self.path.join(name), Node::File(text.into_bytes()));
    }

    fn bytes(&mut self, name: &str, bytes: &[u8]) {
        self.tree.insert(self.path.join(name), Node::File(bytes.to_vec()));
    }

    fn folder(&mut self, name: &str, source: PathBuf) {
        self.tree.insert(self.path.join(name), Node::Folder(source));
    }

    fn link(&mut self, name: impl AsRef<Path>, target: impl Into<PathBuf>) {
        self.tree.insert(self.path.join(name), Node::Link(target.into()));
    }
}

/// A list such as 0-3,8 as words of 32 bits in hex, the highest first.
fn cpu_mask(list: &str) -> String {
    let mut words = vec![0u32];
    for range in list.trim().split(',') {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let (Ok(first), Ok(last)) = (first.parse::<u16>(), last.parse::<u16>()) else {
            continue;
        };
        for cpu in first..=last {
            let word = usize::from(cpu / 32);
            words.resize(words.len().max(word + 1), 0);
            words[word] |= 1 << (cpu % 32);
        }
    }
    let mut text = String::new();
    for word in words.iter().rev() {
        // Writing to a String cannot fail.
        let _ = write!(text, "{}{word:08x}", if text.is_empty() { "" } else { "," });
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sim::facts::PortFacts;
    use std::net::Ipv6Addr;

    fn card(number: u32, infiniband: bool) -> CardFacts {
        let port = PortFacts {
            infiniband,
            state: 4,
            phys_state: 5,
            lid: 0x1f,
            lmc: 0,
            active_width: 2,
            active_speed: 32,
            port_cap_flags: 0x42,
            gids: vec!["fe80::1".parse().unwrap(), Ipv6Addr::UNSPECIFIED],
            pkeys: vec![0xffff, 0],
        };
        CardFacts {
            card: number,
            firmware: [1, 2, 3],
            hw_ver: 16,
            node_guid: [2, 0, 10, 255, 254, 0, 0, 1],
            pci_config: vec![0x34, 0x12, 0xa1, 0x0c, 0, 0, 0, 0, 1, 0, 7, 2],
            ports: vec![port],
        }
    }

    fn tree(cards: &[CardFacts]) -> Tree {
        let machine = Machine {
            pci_domain: 1,
            cpus: "0-1".to_owned(),
        };
        build(cards, |card| card, &machine, Path::new("/run/hca"))
    }

    fn text<'a>(tree: &'a Tree, path: &str) -> Option<&'a str> {
        match tree.get(Path::new(path))? {
            Node::File(text) => std::str::from_utf8(text).unwrap().strip_suffix('\n'),
            node => panic!("{path} is {node:?}"),
        }
    }

    const FUNCTION: &str = "/sys/devices/pci0001:02/0001:02:00.0";

    #[test]
    fn files_of_a_card() {
        let tree = tree(&[card(2, false)]);
        let device = format!("{FUNCTION}/infiniband/hca2");
        for (name, value) in [
            ("node_guid", "0200:0aff:fe00:0001"),
            ("fw_ver", "1.2.3"),
            ("hw_rev", "10"),
        ] {
            assert_eq!(text(&tree, &format!("{device}/{name}")), Some(value), "{name}");
        }
        assert_eq!(
            tree[Path::new(&format!("{device}/ports/1"))],
            Node::Folder("/run/hca/ports/card2.port1".into())
        );
        for node in ["umad0", "issm0"] {
            let folder = format!("{FUNCTION}/infiniband_mad/{node}");
            assert_eq!(text(&tree, &format!("{folder}/ibdev")), Some("hca2"));
            assert_eq!(text(&tree, &format!("{folder}/port")), Some("1"));
            assert_eq!(tree[Path::new(&format!("/dev/infiniband/{node}"))], Node::Device);
        }
        for (name, value) in [("vendor", "0x1234"), ("device", "0x0ca1"), ("class", "0x020700")] {
            assert_eq!(text(&tree, &format!("{FUNCTION}/{name}")), Some(value), "{name}");
        }
        assert_eq!(text(&tree, &format!("{FUNCTION}/local_cpus")), Some("00000003"));
        assert_eq!(
            tree[Path::new(&format!("{FUNCTION}/net/lo"))],
            Node::Link("../../../virtual/net/lo".into())
        );
        assert_eq!(tree[Path::new("/dev/infiniband/uverbs2")], Node::Device);
    }

    #[test]
    fn an_infiniband_port_has_no_net_device() {
        let tree = tree(&[card(2, true)]);
        assert!(!tree.contains_key(Path::new(&format!("{FUNCTION}/net/lo"))));
    }

    /// What the machine has itself.
    const MACHINES: [&str; 2] = ["/sys/bus/pci", "/sys/devices/virtual/net/lo"];

    /// Each link leads to something in the tree, or to what every machine with PCI has.
    #[test]
    fn links_lead_somewhere() {
        let tree = tree(&[card(0, false), card(255, true), card(256, true)]);
        let mut links = 0;
        for (path, node) in &tree {
            let Node::Link(target) = node else { continue };
            let mut found = path.parent().unwrap().to_owned();
            for part in target.components() {
                match part {
                    std::path::Component::ParentDir => assert!(found.pop()),
                    part => found.push(part),
                }
            }
            let is_there = tree.keys().any(|path| path.starts_with(&found));
            assert!(
                is_there || MACHINES.iter().any(|machines| found == Path::new(machines)),
                "{path:?} -> {found:?}"
            );
            links += 1;
        }
        // The Ethernet card has one more; each has a port, with two nodes of management.
        assert_eq!(links, 3 * (8 + 2 * 3) + 1);
        assert!(tree.contains_key(Path::new("/dev/infiniband/umad2")));
        assert!(tree.contains_key(Path::new("/sys/bus/pci/devices/0002:00:00.0")));
    }

    #[test]
    fn processors_as_a_mask() {
        assert_eq!(cpu_mask("0\n"), "00000001");
        assert_eq!(cpu_mask("0-3,8"), "0000010f");
        assert_eq!(cpu_mask("31-32"), "00000001,80000000");
        assert_eq!(cpu_mask(""), "00000000");
    }
}
