//! Files: the examples, the routes found in them, and what is said of wrong ones.

use hca_link::LinkKind;
use hca_topology::{Algorithm, EndSpec, SwitchSpec, Topology};
use proptest::prelude::*;
use std::path::{Path, PathBuf};

fn examples() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/topologies");
    let entries = std::fs::read_dir(folder).unwrap();
    let mut files: Vec<_> = entries
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|ending| ending == "toml"))
        .collect();
    files.sort();
    files
}

fn example(name: &str) -> Topology {
    let path = examples().into_iter().find(|path| path.ends_with(name)).unwrap();
    Topology::read(&path).unwrap()
}

/// Follows a LID from a card through the tables; the switches on the way, or `None` where it does not arrive.
///
/// On Ethernet the card's address takes the place of its LID.
fn way(topology: &Topology, from: usize, lid: u16) -> Option<Vec<usize>> {
    let tables = topology.routes();
    let other = |at: EndSpec| {
        let link = topology.links.iter().find(|link| link.ends.contains(&at))?;
        let [a, b] = link.ends;
        Some(if a == at { b } else { a })
    };
    let mut way = Vec::new();
    let mut at = other(EndSpec::Card(from, 1))?;
    loop {
        match at {
            EndSpec::Card(card, port) => {
                let lids = topology.cards[card].port(port)?.lids();
                return lids.contains(&lid).then_some(way);
            }
            EndSpec::Switch(switch, _) => {
                if way.len() > topology.switches.len() {
                    return None;
                }
                way.push(switch);
                let card = topology
                    .cards
                    .iter()
                    .position(|card| card.ports[0].lids().contains(&lid))?;
                let by_lid = tables[switch].unicast.iter().find(|(found, _)| *found == lid);
                let by_card = tables[switch].cards.iter().find(|(found, ..)| *found == card);
                let port = match topology.switches[switch].kind() {
                    LinkKind::InfiniBand => by_lid?.1,
                    LinkKind::Ethernet => by_card?.2,
                };
                at = other(EndSpec::Switch(switch, port))?;
            }
            EndSpec::Outside(_) => return None,
        }
    }
}

/// All ways from all cards to all LIDs.
fn all_ways(topology: &Topology) -> Vec<Vec<usize>> {
    let mut ways = Vec::new();
    for from in 0..topology.cards.len() {
        for (to, card) in topology.cards.iter().enumerate().filter(|(to, _)| *to != from) {
            for lid in card.ports[0].lids() {
                let found = way(topology, from, lid);
                ways.push(found.unwrap_or_else(|| panic!("card {from} does not reach card {to}, LID {lid}")));
            }
        }
    }
    ways
}

/// True where packets on these ways can wait for each other: the links depend on each other in a cycle.
fn can_deadlock(ways: &[Vec<usize>]) -> bool {
    let mut after = std::collections::BTreeMap::<(usize, usize), Vec<(usize, usize)>>::new();
    for way in ways {
        let links: Vec<_> = way.windows(2).map(|pair| (pair[0], pair[1])).collect();
        for pair in links.windows(2) {
            after.entry(pair[0]).or_default().push(pair[1]);
            after.entry(pair[1]).or_default();
        }
    }
    // Takes away links behind which nothing waits, until none is left or all wait.
    loop {
        let before = after.len();
        let there: std::collections::BTreeSet<_> = after.keys().copied().collect();
        after.retain(|_, next| next.iter().any(|link| there.contains(link)));
        if after.len() == before {
            return before > 0;
        }
    }
}

#[test]
fn every_example_can_be_read_and_every_card_reaches_every_other() {
    let files = examples();
    assert!(files.len() >= 6);
    for file in files {
        let topology = Topology::read(&file).unwrap_or_else(|error| panic!("{error}"));
        let ways = all_ways(&topology);
        let deadlock = file.ends_with("deadlock.toml");
        assert_eq!(can_deadlock(&ways), deadlock, "{}", file.display());
        let readme = std::fs::read_to_string(file.with_file_name("README.md")).unwrap();
        let name = file.file_name().unwrap().to_str().unwrap();
        assert!(
            readme.contains(&format!("({name})")),
            "README.md does not list {name}"
        );
    }
}

#[test]
fn two_switches_in_detail() {
    let topology = example("two-switches.toml");
    assert_eq!((topology.seed, topology.cards.len()), (Some(7), 4));
    let card = &topology.cards[3];
    let port = &card.ports[0];
    assert_eq!((port.lid, port.ipv4), (4, [10, 0, 0, 4]));
    assert_eq!(
        (port.mac, port.guid[3..5].to_vec()),
        ([2, 0, 10, 0, 0, 4], vec![0xff, 0xfe])
    );
    assert_eq!(
        (card.pcie.read_latency_ns, card.pcie.max_payload_bytes),
        (600, 512)
    );
    assert_eq!(topology.cards[0].pcie.max_payload_bytes, 256);
    let trunk = &topology.links[4];
    assert_eq!(
        (trunk.cable.name.as_str(), trunk.cable.latency_ns),
        ("trunk", 500)
    );
    assert_eq!(topology.end_name(trunk.ends[0]), "sw0:8");
    let routes = topology.routes();
    assert_eq!(routes[0].unicast, [(1, 1), (2, 2), (3, 8), (4, 8)]);
    assert_eq!(routes[1].unicast, [(1, 8), (2, 8), (3, 1), (4, 2)]);
    // MC-10: the trunk once, and the members.
    assert_eq!(routes[0].multicast, [(0xc001, 1), (0xc001, 8)]);
    assert_eq!(routes[1].multicast, [(0xc001, 1), (0xc001, 2), (0xc001, 8)]);
}

/// Addresses and the tree for unknown ones, on a circle of Ethernet switches.
#[test]
fn ethernet_in_detail() {
    let topology = example("roce.toml");
    let routes = topology.routes();
    assert_eq!(routes[0].cards, [(0, 1, 1), (1, 1, 2), (2, 1, 8)]);
    assert_eq!(routes[1].cards, [(0, 1, 8), (1, 1, 8), (2, 1, 1)]);
    let flood: Vec<_> = routes.iter().map(|table| table.flood.clone()).collect();
    // The cable between the second and the third switch is not part of the tree.
    assert_eq!(flood, [vec![1, 2, 7, 8], vec![1, 8], vec![8]]);
    let SwitchSpec::Ethernet(config) = &topology.switches[0] else {
        panic!("sw0 is an Ethernet switch");
    };
    assert_eq!((config.pfc.priorities, config.pfc.xoff_bytes), (1 << 3, 40_000));
    assert_eq!(config.ecn.map(|ecn| ecn.max_bytes), Some(30_000));
    assert!(
        topology
            .cards
            .iter()
            .all(|card| card.ports[0].kind == LinkKind::Ethernet)
    );
}

#[test]
fn the_pair_is_what_the_simulator_makes_without_a_file() {
    let mut pair = example("pair.toml");
    let cable = hca_link::CableConfig::new("any", LinkKind::Ethernet);
    let made = Topology::pairs(2, &cable).unwrap();
    assert_eq!(pair, made);
    pair.seed = Some(1);
    assert_ne!(pair, made);
    let odd = Topology::pairs(5, &cable).unwrap();
    let ends: Vec<_> = odd.links.iter().map(|link| link.ends).collect();
    let card = |card| EndSpec::Card(card, 1);
    assert_eq!(ends, [[card(0), card(1)], [card(2), card(3)], [card(4), card(4)]]);
}

/// A card may have two ports, of different kinds: the second one named by a link, or asked for by the card.
#[test]
fn cards_with_two_ports() {
    let text = r#"
        [[card]]
        [[card]]
        second = { lid = 9, ipv4 = "10.9.0.1" }
        [[card]]
        ports = 2
        [[switch]]
        name = "sw0"
        [[link]]
        ends = ["card0:1", "sw0"]
        [[link]]
        ends = ["card1", "sw0"]
        [[link]]
        ends = ["card0:2", "card1:2"]
        kind = "eth"
        [[link]]
        ends = ["card2", "sw0"]
        [[link]]
        ends = ["card2", "card2:1"]
    "#;
    let error = Topology::parse("net.toml", text).unwrap_err().to_string();
    assert!(
        error.contains("end 'card2:1': the card has a link already"),
        "{error}"
    );
    let text = text.replace("[\"card2\", \"card2:1\"]", "[\"card2\", \"card2\"]");
    let topology = Topology::parse("net.toml", &text).unwrap();
    let kinds: Vec<Vec<_>> = topology
        .cards
        .iter()
        .map(|card| card.ports.iter().map(|port| port.kind).collect())
        .collect();
    let (ib, eth) = (LinkKind::InfiniBand, LinkKind::Ethernet);
    assert_eq!(kinds, [vec![ib, eth], vec![ib, eth], vec![ib, ib]]);
    let lids: Vec<Vec<_>> = topology
        .cards
        .iter()
        .map(|card| card.ports.iter().map(|port| port.lid).collect())
        .collect();
    assert_eq!(lids, [[1, 10], [2, 9], [3, 11]]);
    let address = |card: usize| {
        (
            topology.cards[card].ports[1].ipv4,
            topology.cards[card].ports[1].mac,
        )
    };
    assert_eq!(address(0), ([10, 0, 1, 1], [2, 0, 10, 0, 1, 1]));
    assert_eq!(address(1), ([10, 9, 0, 1], [2, 0, 10, 9, 0, 1]));
    assert_eq!(topology.links[2].ends, [EndSpec::Card(0, 2), EndSpec::Card(1, 2)]);
    assert_eq!(topology.links[4].ends, [EndSpec::Card(2, 2); 2]);
    assert_eq!(topology.end_name(EndSpec::Card(1, 2)), "card1:2");
    // The switch knows the ports that it leads to, and no others.
    assert_eq!(topology.routes()[0].unicast, [(1, 1), (2, 2), (3, 3)]);
}

/// Two cables per pair of cards: first port to first port, second to second.
#[test]
fn pairs_with_two_ports() {
    let cable = |kind| hca_link::CableConfig::new("any", kind);
    let cables = [cable(LinkKind::InfiniBand), cable(LinkKind::Ethernet)];
    let made = Topology::pairs_of(3, &cables).unwrap();
    let ends: Vec<_> = made.links.iter().map(|link| link.ends).collect();
    let pair = |a, b, port| [EndSpec::Card(a, port), EndSpec::Card(b, port)];
    assert_eq!(ends, [pair(0, 1, 1), pair(0, 1, 2), pair(2, 2, 1), pair(2, 2, 2)]);
    let names: Vec<_> = made.links.iter().map(|link| link.cable.name.as_str()).collect();
    assert_eq!(names, ["link0", "link1", "link2", "link3"]);
    let lids: Vec<_> = made
        .cards
        .iter()
        .map(|card| [card.ports[0].lid, card.ports[1].lid])
        .collect();
    assert_eq!(lids, [[1, 4], [2, 5], [3, 6]]);
    assert!(
        made.cards
            .iter()
            .all(|card| card.ports[1].kind == LinkKind::Ethernet)
    );
}

/// Further LIDs of a card take other ways of the same length.
#[test]
fn lmc_spreads_over_equal_ways() {
    let text = r#"
        [[card]]
        [[card]]
        lid = 8
        lmc = 1
        [[switch]]
        name = "a"
        [[switch]]
        name = "b"
        [[switch]]
        name = "up0"
        [[switch]]
        name = "up1"
        [[link]]
        ends = ["card0", "a:1"]
        [[link]]
        ends = ["card1", "b:1"]
        [[link]]
        ends = ["a:2", "up0"]
        [[link]]
        ends = ["a:3", "up1"]
        [[link]]
        ends = ["b", "up0"]
        [[link]]
        ends = ["b", "up1"]
    "#;
    let topology = Topology::parse("t", text).unwrap();
    assert_eq!(way(&topology, 0, 8), Some(vec![0, 2, 1]));
    assert_eq!(way(&topology, 0, 9), Some(vec![0, 3, 1]));
    assert_eq!(topology.cards[0].ports[0].lid, 1);
}

/// Where an Ethernet switch has the priority of a frame from.
#[test]
fn priorities_of_a_switch() {
    let text = "[[card]]\n[[switch]]\nkind = \"eth\"\ntrust = \"pcp\"\ndscp = { 26 = 6, 0 = 1 }\n";
    let topology = Topology::parse("t", text).unwrap();
    let SwitchSpec::Ethernet(config) = &topology.switches[0] else {
        panic!("an Ethernet switch");
    };
    let found = config.priorities;
    assert_eq!(
        (found.trust_pcp, found.dscp[26], found.dscp[27], found.dscp[0]),
        (true, 6, 3, 1)
    );
}

/// What a card's functions may take of it.
#[test]
fn functions_share_a_card() {
    let text = "[[card]]\n[[card]]\nfunctions = 16\n[[card]]\nshares = [9, 4, 3]\n";
    let cards = Topology::parse("t", text).unwrap().cards;
    assert_eq!([0, 1, 2].map(|card: usize| cards[card].functions), [4, 16, 3]);
    let parts = |card: usize| [0, 2, 15].map(|func| cards[card].quotas().parts_of(func));
    assert_eq!([0, 1, 2].map(parts), [[1, 1, 0], [1, 1, 1], [9, 3, 0]]);
}

#[test]
fn what_is_wrong_is_named_with_file_place_and_limit() {
    let two = "[[card]]\n[[card]]\n[[switch]]\nname = \"sw0\"\nports = 4\n";
    let cases = [
        ("", "file: number of cards is 0, it must be 1 to 64"),
        ("[[card]]\ncolour = 3\n", "line 2: unknown field `colour`"),
        ("[[card]]\nlid = \"x\"\n", "line 2: invalid type"),
        (
            "[[card]]\nlid = 3\n[[card]]\nlid = 3\n",
            "card card1: lid 3 is that of card0 already",
        ),
        (
            "[[card]]\nlid = 50000\n",
            "card card0: lid is 50000, it must be 1 to 49151",
        ),
        ("[[card]]\nlid = 3\nlmc = 1\n", "lid 3 must be a multiple of 2"),
        (
            "[[card]]\nfunctions = 17\n",
            "card card0: functions is 17, it must be 1 to 16",
        ),
        (
            "[[card]]\nshares = [9, 8]\n",
            "card card0: shares is [9, 8]: give each of 1 to 16 functions 1 or more, 16 together at most",
        ),
        (
            "[[card]]\nshares = [1, 0]\n",
            "card card0: shares is [1, 0]: give each",
        ),
        (
            "[[card]]\nfunctions = 3\nshares = [1, 1]\n",
            "card card0: shares are of 2 functions: leave 'functions' away",
        ),
        ("[[card]]\nname = \"a b\"\n", "name 'a b': a name has letters"),
        (
            "[[card]]\nname = \"x\"\n[[card]]\nname = \"x\"\n",
            "name 'x': two cards",
        ),
        (
            "[[card]]\nipv4 = \"10.0.0\"\n",
            "card card0: ipv4 '10.0.0' is no address",
        ),
        (
            "[[card]]\nipv4 = \"10.0.0.2\"\n[[card]]\n",
            "card card1: mac is that of card0 already",
        ),
        (
            "[pcie]\nmax_tags = 0\n[[card]]\n",
            "card card0: PCIe parameter max_tags = 0 is outside 1..=256",
        ),
        (
            "[pcie]\nspeed = 0\n[[card]]\n",
            "card card0: pcie: unknown field `speed`",
        ),
        (
            "[[card]]\n[[card]]\npcie = { clock_mhz = 125 }\n",
            "card card1: clock_mhz is 125, that of card0 is 250",
        ),
        (
            "[routing]\nroot = \"card0\"\n[[card]]\n",
            "[routing]: root 'card0' is no switch",
        ),
        (
            "[[card]]\n[[switch]]\nkind = \"eth\"\ndscp = { 64 = 3 }\n",
            "switch switch0: dscp has '64', which is no DSCP of 0 to 63",
        ),
        (
            "[[card]]\n[[switch]]\nkind = \"eth\"\ndscp = { 26 = 8 }\n",
            "switch switch0: dscp is 8, it must be 0 to 7",
        ),
        (
            "[[card]]\n[[switch]]\ntrust = \"pcp\"\n",
            "only switches of kind Ethernet have trust",
        ),
        (
            "[[card]]\n[[switch]]\nvls = 3\n",
            "3 data VLs; a port has 1, 2, 4, 8 or 15",
        ),
        (
            "[[card]]\n[[switch]]\nbuffer_bytes = 64\n",
            "buffer of a VL in blocks",
        ),
        (
            "[[card]]\n[[switch]]\nports = 64\n",
            "switch switch0: ports is 64, it must be 1 to 63",
        ),
        (
            "[[card]]\n[[switch]]\narbitration = { high = [{ vl = 15, weight = 1 }] }\n",
            "switch switch0: VL in the high list is 15, it must be 0 to 14",
        ),
        (
            "[[card]]\n[[switch]]\nsl2vl = [{ from = 1, to = 2, vls = [0] }]\n",
            "sl2vl.vls has 1 entries",
        ),
        (
            "[[card]]\n[[switch]]\nroutes = [{ lid = 1, port = 9 }]\n",
            "routes.port is 9, it must be 1 to 8",
        ),
        (
            "[[card]]\n[[multicast]]\nmlid = 4\nmembers = []\n",
            "multicast group 0x0004: mlid must be",
        ),
        (
            "[[card]]\n[[multicast]]\nmlid = 0xc000\nmembers = [\"nobody\"]\n",
            "member 'nobody' is no card",
        ),
    ];
    for (text, expected) in cases {
        let error = Topology::parse("net.toml", text).unwrap_err().to_string();
        assert!(
            error.starts_with("net.toml: ") && error.contains(expected),
            "{error}\n{text}"
        );
    }
    let links = [
        (
            "ends = [\"card0\", \"card7\"]",
            "link 0 (card0 to card7): end 'card7': no card or switch has this name",
        ),
        (
            "ends = [\"card0:3\", \"card1\"]",
            "end 'card0:3': the card has ports 1 to 2",
        ),
        (
            "ends = [\"card0\", \"sw0:5\"]",
            "end 'sw0:5': the switch has ports 1 to 4",
        ),
        (
            "ends = [\"card0\", \"sw0:x\"]",
            "end 'sw0:x': behind ':' there must be the number of a port",
        ),
        (
            "ends = [\"card0\", \"sw0\"]\nkind = \"ethernet\"",
            "the link and switch sw0 differ in kind",
        ),
        (
            "ends = [\"card0\", \"sw0\"]\nrate_gbps = 0",
            "rate_gbps is 0, it must be 0.001 to 10000",
        ),
        (
            "ends = [\"card0\", \"sw0\"]\nfaults = \"lost=1\"",
            "fault 'lost=1': the key is unknown",
        ),
        (
            "ends = [\"card0\", \"sw0\"]\n[[link]]\nends = [\"card0\", \"sw0\"]",
            "link 1 (card0 to sw0): end 'card0': the card has a link already",
        ),
        (
            "ends = [\"card0\", \"sw0:2\"]\n[[link]]\nends = [\"card1\", \"sw0:2\"]",
            "link 1 (card1 to sw0:2): end 'sw0:2': the port has a link already",
        ),
    ];
    for (text, expected) in links {
        let text = format!("{two}[[link]]\n{text}\n");
        let error = Topology::parse("net.toml", &text).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}\n{text}");
    }
    let missing = Topology::read(Path::new("/nonexistent/net.toml")).unwrap_err();
    assert!(
        missing
            .to_string()
            .starts_with("/nonexistent/net.toml: file: No such file")
    );
}

/// A random connected network: `count` switches, each joined with an earlier one, and some links more.
fn network(count: usize, parents: &[usize], extra: &[(usize, usize)], algorithm: &str) -> String {
    let mut text = format!("[routing]\nalgorithm = \"{algorithm}\"\n");
    for index in 0..count {
        text += &format!("[[card]]\n[[switch]]\n[[link]]\nends = [\"card{index}\", \"switch{index}\"]\n");
    }
    let tree = (1..count).map(|index| (index, parents[index] % index));
    let extra = extra
        .iter()
        .map(|(a, b)| (a % count, b % count))
        .filter(|(a, b)| a != b);
    for (a, b) in tree.chain(extra) {
        text += &format!("[[link]]\nends = [\"switch{a}\", \"switch{b}\"]\n");
    }
    text
}

/// Lines that look like a topology, and lines that do not.
const ANY_TEXT: &str =
    "(\\[\\[(card|switch|link)\\]\\]\n|(ends|lid|ports|vls|kind) = .{0,12}\n|.{0,20}\n){0,12}";

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// In any network everybody reaches everybody, and up and down a tree nobody can wait for himself.
    #[test]
    fn routes_arrive_and_trees_do_not_deadlock(
        count in 2usize..12,
        parents in proptest::collection::vec(any::<usize>(), 12),
        extra in proptest::collection::vec((any::<usize>(), any::<usize>()), 0..14),
    ) {
        let shortest = Topology::parse("t", &network(count, &parents, &extra, "shortest")).unwrap();
        let tree = Topology::parse("t", &network(count, &parents, &extra, "up-down")).unwrap();
        prop_assert_eq!(tree.algorithm, Algorithm::UpDown);
        let (short_ways, tree_ways) = (all_ways(&shortest), all_ways(&tree));
        prop_assert!(!can_deadlock(&tree_ways));
        for (short, long) in short_ways.iter().zip(&tree_ways) {
            prop_assert!(short.len() <= long.len());
        }
        prop_assert_eq!(shortest.routes(), shortest.routes());
    }

    /// A file of any kind is read or refused, never a panic.
    #[test]
    fn any_text_is_read_or_refused(text in ANY_TEXT) {
        let _ = Topology::parse("t", &text);
    }
}

/// ADDR-1, ADDR-6: the GUID is the interface identifier of the MAC address (RFC 4291 appendix A); each port has
/// addresses of both families, and a file may choose every one.
#[test]
fn addresses_of_a_port() {
    let text = r#"
        [defaults]
        kind = "ethernet"
        [[card]]
        [[card]]
        mac = "e4:1d:2d:00:00:07"
        ipv6 = "2001:db8::7"
        second = { ipv6 = "2001:db8::8", guid = "0102030405060708" }
        [[link]]
        ends = ["card0", "card1"]
        [[link]]
        ends = ["card0:2", "card1:2"]
    "#;
    let topology = Topology::parse("net.toml", text).unwrap();
    let of = |card: usize, port| topology.cards[card].port(port).unwrap();
    let ipv6 = |card, port| std::net::Ipv6Addr::from(of(card, port).ipv6).to_string();
    assert_eq!(of(0, 1).guid, [0, 0, 10, 0xff, 0xfe, 0, 0, 1]);
    assert_eq!(of(1, 1).guid, [0xe6, 0x1d, 0x2d, 0xff, 0xfe, 0, 0, 7]);
    assert_eq!(
        (of(1, 1).ipv4, of(1, 2).guid),
        ([10, 0, 0, 2], [1, 2, 3, 4, 5, 6, 7, 8])
    );
    assert_eq!([ipv6(0, 1), ipv6(0, 2)], ["fd00::1", "fd00:0:0:1::1"]);
    assert_eq!([ipv6(1, 1), ipv6(1, 2)], ["2001:db8::7", "2001:db8::8"]);
    for (text, wanted) in [
        (
            "[[card]]\nipv6 = \"10.0.0.1\"\n",
            "card card0: ipv6 '10.0.0.1' is no address",
        ),
        (
            "[[card]]\nipv6 = \"fd00::2\"\n[[card]]\n",
            "card card1: ipv6 is that of card0 already",
        ),
    ] {
        let error = Topology::parse("net.toml", text).unwrap_err().to_string();
        assert!(error.contains(wanted), "{error}");
    }
}

/// Neighbours are the ports that a cable leads to, over any number of switches.
#[test]
fn ports_within_reach() {
    let text = r#"
        [defaults]
        kind = "ethernet"
        [[card]]
        [[card]]
        [[card]]
        [[card]]
        [[switch]]
        name = "a"
        [[switch]]
        name = "b"
        [[link]]
        ends = ["card0", "a"]
        [[link]]
        ends = ["card1", "a"]
        [[link]]
        ends = ["a", "b"]
        [[link]]
        ends = ["b", "card2"]
        [[link]]
        ends = ["card0:2", "card1:2"]
        [[link]]
        ends = ["card3", "card3"]
    "#;
    let topology = Topology::parse("net.toml", text).unwrap();
    let reach = |card, port| {
        let mut found = topology.reachable(card, port);
        found.sort_unstable();
        found
    };
    assert_eq!(reach(0, 1), [(1, 1), (2, 1)]);
    assert_eq!(reach(2, 1), [(0, 1), (1, 1)]);
    assert_eq!(reach(0, 2), [(1, 2)]);
    assert_eq!(reach(3, 1), []);
}
