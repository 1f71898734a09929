//! Links that leave the simulator.

use hca_link::{CableConfig, LinkKind};
use hca_outside::WireConfig;
use hca_topology::{EndSpec, Topology};

fn peer(text: &str) -> WireConfig {
    WireConfig::new(text.parse().unwrap())
}

fn cable(kind: LinkKind) -> CableConfig {
    CableConfig::new("", kind)
}

#[test]
fn a_file_may_lead_links_outside() {
    let text = r#"
        [defaults]
        kind = "eth"
        [[card]]
        [[card]]
        ports = 2
        [[link]]
        ends = ["card0", "unix:/run/wire.sock"]
        [[link]]
        ends = ["./second", "card1:2"]
        faults = "loss=0.5"
    "#;
    let topology = Topology::parse("x.toml", text).unwrap();
    assert_eq!(topology.links[0].ends, [EndSpec::Card(0, 1), EndSpec::Outside(0)]);
    assert_eq!(topology.links[1].ends, [EndSpec::Card(1, 2), EndSpec::Outside(1)]);
    assert_eq!(topology.peers, [peer("unix:/run/wire.sock"), peer("./second")]);
    assert_eq!(topology.end_name(EndSpec::Outside(1)), "unix:./second");
    assert!(topology.reachable(0, 1).is_empty());
}

#[test]
fn what_cannot_lead_outside_is_refused() {
    let cases = [
        ("kind = \"ib\"", "[\"card0\", \"unix:/a\"]", "kind = \"eth\""),
        ("kind = \"eth\"", "[\"sw\", \"unix:/a\"]", "a switch has none"),
        (
            "kind = \"eth\"",
            "[\"unix:/b\", \"unix:/a\"]",
            "both ends are outside",
        ),
        ("kind = \"eth\"", "[\"card0\", \"udp:1\"]", "a comma is missing"),
        (
            "kind = \"eth\"",
            "[\"card9\", \"unix:/a\"]",
            "no card or switch has this name",
        ),
    ];
    for (kind, ends, why) in cases {
        let text =
            format!("[defaults]\n{kind}\n[[card]]\n[[switch]]\nname = \"sw\"\n[[link]]\nends = {ends}\n");
        let error = Topology::parse("x.toml", &text).unwrap_err().to_string();
        assert!(error.contains("link 0") && error.contains(why), "{ends}: {error}");
    }
}

/// A pair of cards of which one gets a peer: the other has a loopback plug; then it gets one too.
#[test]
fn ports_of_a_pair_lead_outside() {
    let mut topology = Topology::pairs(2, &cable(LinkKind::Ethernet)).unwrap();
    let spare = cable(LinkKind::Ethernet);
    topology.lead_outside(1, 1, peer("/a"), &spare).unwrap();
    let ends = |topology: &Topology| topology.links.iter().map(|link| link.ends).collect::<Vec<_>>();
    let (card0, card1) = (EndSpec::Card(0, 1), EndSpec::Card(1, 1));
    assert_eq!(ends(&topology), [[card1, EndSpec::Outside(0)], [card0; 2]]);
    let again = topology.lead_outside(1, 1, peer("/b"), &spare).unwrap_err();
    assert_eq!(again, "port card1 has a wire to the outside already");
    topology.lead_outside(0, 1, peer("/b"), &spare).unwrap();
    assert_eq!(
        ends(&topology),
        [[card1, EndSpec::Outside(0)], [card0, EndSpec::Outside(1)]]
    );

    let mut topology = Topology::pairs(2, &cable(LinkKind::InfiniBand)).unwrap();
    let error = topology.lead_outside(0, 1, peer("/a"), &spare).unwrap_err();
    assert!(error.contains("is InfiniBand"), "{error}");
}

/// A port of a file that has no link has one outside; one at a switch is not taken from it.
#[test]
fn ports_of_a_file_lead_outside() {
    let text = r#"
        [defaults]
        kind = "eth"
        [[card]]
        ports = 2
        [[switch]]
        [[link]]
        ends = ["card0:1", "switch0"]
    "#;
    let mut topology = Topology::parse("x.toml", text).unwrap();
    let spare = cable(LinkKind::Ethernet);
    let error = topology.lead_outside(0, 1, peer("/a"), &spare).unwrap_err();
    assert!(error.contains("has a cable to switch0:1"), "{error}");
    topology.lead_outside(0, 2, peer("/a"), &spare).unwrap();
    assert_eq!(topology.links[1].ends, [EndSpec::Card(0, 2), EndSpec::Outside(0)]);
    assert_eq!(topology.cards[0].ports[1].kind, LinkKind::Ethernet);
}

#[test]
fn ports_are_found_by_name() {
    let text = "[[card]]\nname = \"a.b\"\nports = 2\n[[card]]\nname = \"a.b.1\"\n";
    let topology = Topology::parse("x.toml", text).unwrap();
    for (name, port) in [
        ("a.b", (0, 1)),
        ("a.b.2", (0, 2)),
        ("a.b:1", (0, 1)),
        ("a.b.1", (1, 1)),
    ] {
        assert_eq!(topology.find_port(name), Ok(port), "{name}");
    }
    for (name, why) in [
        ("a.b.3", "has ports 1 to 2"),
        ("x", "the cards are a.b, a.b.1"),
        ("a.b.x", "1 to 2"),
    ] {
        assert!(topology.find_port(name).unwrap_err().contains(why), "{name}");
    }
}
