//! `hca link` and the lanes of `hca perf` from outside.

mod common;
use common::{HCA, Simulator, refused, run, text};
use hca_vfio_user::VfioUserDevice;
use serde_json::Value;
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

/// Longer than a NodeDescription.
const LONG_NAME: &str = "01234567890123456789012345678901234567890123456789012345678901234";

/// A look at each card, as JSON.
fn look(folder: &Path, arguments: &[&str]) -> Vec<Value> {
    let output = run(
        Path::new(HCA),
        folder,
        &[&["link", "--once", "--json"], arguments].concat(),
    );
    assert!(output.status.success(), "{}", text(&output.stderr));
    let lines = text(&output.stdout);
    lines
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

fn set(folder: &Path, arguments: &[&str]) {
    let output = run(Path::new(HCA), folder, &[&["link", "set"], arguments].concat());
    assert!(output.status.success(), "{}", text(&output.stderr));
}

/// SYS-7: ports are configured through function 0 alone. Looking needs any function, and both say what is wrong.
#[test]
fn who_has_function_0_may_configure() {
    let home = tempfile::tempdir().unwrap();
    let folder = home.path().join("sockets");
    let _simulator = Simulator::start(&folder, &["--cards", "1"]);
    let claim = |func: u8| VfioUserDevice::connect(&folder.join(format!("card0.{func}"))).unwrap();
    let others = [1, 2, 3].map(claim);
    set(&folder, &["--pkey", "1=0x8001"]);
    let manager = claim(0);
    refused(
        &run(Path::new(HCA), &folder, &["link", "set", "--pkey", "1=0x8002"]),
        &["card 0", "only function 0", "end the process"],
    );
    refused(
        &run(Path::new(HCA), &folder, &["link", "--once"]),
        &["all 4 functions are in use"],
    );
    drop(others);
    assert_eq!(look(&folder, &[]).len(), 1);
    drop(manager);
    set(&folder, &["--pkey", "1=0x8002"]);
}

fn change(folder: &Path, arguments: &[&str]) {
    let output = run(Path::new(HCA), folder, &[&["link"], arguments].concat());
    assert!(output.status.success(), "{}", text(&output.stderr));
}

/// SYS-7, IEEE 802.1Q: priorities of Ethernet ports are set by commands of their own, by who has function 0, and shown;
/// what cannot be is refused in words, and changes nothing.
#[test]
fn priorities_of_ethernet_ports_are_set_and_shown() {
    let home = tempfile::tempdir().unwrap();
    let folder = home.path().join("sockets");
    let _simulator = Simulator::start(&folder, &["--ports", "2", "--link", "ib,eth", "--cards", "1"]);
    change(&folder, &["dscp", "26:6", "0-3:1"]);
    change(&folder, &["trust", "pcp"]);
    change(&folder, &["pfc", "3,6"]);
    change(
        &folder,
        &["ets", "--map", "0,0,0,1,1,1,2,2", "0:40", "1:60", "2:strict"],
    );
    let seen = &look(&folder, &["--port", "2"])[0];
    let ethernet = &seen["ethernet"];
    assert_eq!(
        (&ethernet["trust"], &ethernet["has_ets"]),
        (&"pcp".into(), &true.into())
    );
    let dscp = |at: usize| ethernet["dscp"][at].as_u64().unwrap();
    assert_eq!([dscp(26), dscp(27), dscp(0), dscp(3), dscp(4)], [6, 3, 1, 1, 0]);
    let classes = serde_json::json!([
        { "class": 0, "strict": false, "percent": 40 },
        { "class": 1, "strict": false, "percent": 60 },
        { "class": 2, "strict": true },
    ]);
    assert_eq!(ethernet["classes"], classes);
    let six = &ethernet["priorities"][6];
    assert_eq!(
        (&six["class"], &six["pfc"], &six["pauses_sent"]),
        (&2.into(), &true.into(), &0.into())
    );
    assert_eq!(
        (&ethernet["xoff_blocks"], &ethernet["headroom_blocks"]),
        (&255.into(), &255.into()) // halves of a ring of 510, of which VL15 has two of 512
    );
    assert_eq!(look(&folder, &["--port", "1"])[0].get("ethernet"), None);
    let shown = run(Path::new(HCA), &folder, &["link", "show", "--port", "2"]);
    for word in ["trust pcp", "26:6", "classes 0:40 1:60 2:strict", "headroom 255"] {
        assert!(
            text(&shown.stdout).contains(word),
            "{word}: {}",
            text(&shown.stdout)
        );
    }

    let refusals: [(&[&str], &str); 3] = [
        (
            &["ets", "--map", "0,0,0,0,0,0,0,0", "0:99"],
            "99 percent together",
        ),
        (&["ets", "0:100"], "priority 1 is of class 1"),
        (&["pfc", "3", "--port", "1"], "no Ethernet port"),
    ];
    for (arguments, word) in refusals {
        refused(
            &run(Path::new(HCA), &folder, &[&["link"], arguments].concat()),
            &[word],
        );
    }
    let misspelt: [(&[&str], &str); 2] = [
        (&["dscp", "64:0"], "DSCPs of 0 to 63"),
        (&["trust", "vlan"], "[possible values: dscp, pcp]"),
    ];
    for (arguments, word) in misspelt {
        let output = run(Path::new(HCA), &folder, &[&["link"], arguments].concat());
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert!(text(&output.stderr).contains(word), "{}", text(&output.stderr));
    }
    assert_eq!(&look(&folder, &["--port", "2"])[0]["ethernet"], ethernet);
    let _manager = VfioUserDevice::connect(&folder.join("card0.0")).unwrap();
    refused(
        &run(Path::new(HCA), &folder, &["link", "trust", "dscp"]),
        &["only function 0", "end the process"],
    );
}

/// VL-4, VL-8, VL-12: configured from one process, seen from another; a refusal changes nothing.
#[test]
fn links_are_configured_and_shown() {
    let home = tempfile::tempdir().unwrap();
    let folder = home.path().join("sockets");
    refused(&run(Path::new(HCA), &folder, &["link"]), &["no simulator"]);
    let simulator = Simulator::start(&folder, &["--link", "ib"]);
    let cards = look(&folder, &[]);
    assert_eq!(cards.len(), 2);
    assert_eq!((&cards[1]["card"], &cards[1]["lid"]), (&1.into(), &2.into()));
    for card in &cards {
        assert_eq!((&card["state"], &card["link"]), (&"Active".into(), &"ib".into()));
        assert_eq!((&card["built_vls"], &card["vls"]), (&8.into(), &8.into()));
        assert_eq!(card["vlarb_low"], "0:64,1:64,2:64,3:64,4:64,5:64,6:64,7:64");
        assert_eq!(
            (&card["policy"], &card["high_limit"]),
            (&"iba".into(), &255.into())
        );
    }

    set(
        &folder,
        &[
            "--vls",
            "2",
            "--sl2vl",
            "0,1",
            "--vlarb-high",
            "0:16",
            "--vlarb-low",
            "1:4",
            "--high-limit",
            "1",
            "--policy",
            "round-quantum",
            "--hoq-life",
            "9",
        ],
    );
    set(
        &folder,
        &[
            "--card",
            "1",
            "--lid",
            "0x40",
            "--lmc",
            "2",
            "--pkey",
            "3=0x8001",
            "--peer-vls",
            "1",
        ],
    );
    let cards = look(&folder, &[]);
    assert_eq!((&cards[0]["vls"], &cards[1]["vls"]), (&2.into(), &1.into()));
    assert_eq!(
        (&cards[0]["vlarb_high"], &cards[0]["vlarb_low"]),
        (&"0:16".into(), &"1:4".into())
    );
    assert_eq!(
        (&cards[0]["policy"], &cards[0]["high_limit"]),
        (&"round-quantum".into(), &1.into())
    );
    assert_eq!(
        (&cards[0]["hoq_life"], &cards[0]["sl2vl"][7]),
        (&9.into(), &1.into())
    );
    assert_eq!((&cards[1]["lid"], &cards[1]["lmc"]), (&0x40.into(), &2.into()));
    let pkeys = serde_json::json!([{"index": 0, "pkey": 0xffff}, {"index": 3, "pkey": 0x8001}]);
    assert_eq!(cards[1]["pkeys"], pkeys);
    assert_eq!(cards[0]["pkeys"].as_array().unwrap().len(), 1);
    assert_eq!(cards[1]["sl2vl"], Value::from(vec![0; 16]));
    assert_eq!(cards[1]["lanes"].as_array().unwrap().len(), 2, "VL0 and VL15");

    for (arguments, words) in [
        (&["--vls", "15"][..], &["card 0", "op_vls"][..]),
        (&["--card", "0", "--vlarb-low", "1:1,8:1"], &["card 0", "entry 1"]),
        (&["--sl2vl", "0,9"], &["SL 1"]),
        (&["--card", "1", "--state", "armed"], &["card 1", "state"]),
        (&["--card", "1", "--lid", "0x41"], &["card 1", "BadParam"]),
        (&["--card", "1", "--pkey", "32=1"], &["SetPkey"]),
        (&["--node-desc", LONG_NAME], &["NodeDescription", "65", "64"]),
        (&["--card", "2", "--vls", "1"], &["no card 2"]),
    ] {
        let output = run(Path::new(HCA), &folder, &[&["link", "set"], arguments].concat());
        refused(&output, words);
    }
    // Flow control goes on meanwhile: its counters differ, the configuration must not.
    let configured = |cards: &[Value]| {
        let keys = [
            "state",
            "lid",
            "lmc",
            "vls",
            "sl2vl",
            "vlarb_high",
            "vlarb_low",
            "high_limit",
            "policy",
            "hoq_life",
        ];
        let of = |card: &Value| keys.map(|key| card[key].clone());
        cards.iter().map(of).collect::<Vec<_>>()
    };
    assert!(configured(&cards).iter().flatten().all(|value| !value.is_null()));
    assert_eq!(configured(&look(&folder, &[])), configured(&cards));

    set(&folder, &["--card", "0", "--state", "down"]);
    let output = run(Path::new(HCA), &folder, &["link", "--once", "--card", "0"]);
    let shown = text(&output.stdout);
    for word in [
        "card 0 port 1",
        "Down",
        "round-quantum",
        "high  0:16",
        "credits",
        "counted:",
        "P_Keys 0=0xffff",
    ] {
        assert!(shown.contains(word), "{word}: {shown}");
    }
    assert!(!shown.contains("card 1"), "{shown}");
    simulator.stop("INT");
}

/// Without --once it goes on until nobody reads any more.
#[test]
fn links_are_watched() {
    let folder = tempfile::tempdir().unwrap();
    let _simulator = Simulator::start(folder.path(), &["--cards", "1"]);
    let mut child = Command::new(HCA)
        .args(["link", "--json", "--interval", "1"])
        .env("HCA_SIM", folder.path())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut next = || -> Value { serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap() };
    let (first, second, third) = (next(), next(), next());
    assert_eq!((&first["link"], &first["vls"]), (&"eth".into(), &8.into()));
    assert!(
        first["lanes"][0].get("tx_bytes_per_s").is_none(),
        "nothing to compare with"
    );
    assert_eq!(second["lanes"][0]["tx_bytes_per_s"], 0.0);
    assert!(third["cycle"].as_u64() > second["cycle"].as_u64());
    drop(lines);
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

/// Ctrl-C ends it as what it is, the normal end; also while it waits for the next look.
#[test]
fn ctrl_c_ends_the_watching() {
    let folder = tempfile::tempdir().unwrap();
    let _simulator = Simulator::start(folder.path(), &["--cards", "1", "--link", "ib"]);
    let mut child = Command::new(HCA)
        .args(["link", "--interval", "3600000"])
        .env("HCA_SIM", folder.path())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut shown = String::new();
    let mut lines = BufReader::new(child.stdout.take().unwrap());
    while !shown.contains("counted:") {
        assert!(lines.read_line(&mut shown).unwrap() > 0, "{shown}");
    }
    assert!(
        shown.contains("card 0 port 1: ib, ") && !shown.contains('\x1b'),
        "{shown}"
    );
    let interrupt = Command::new("kill")
        .args(["-INT", &child.id().to_string()])
        .status();
    assert!(interrupt.unwrap().success());
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

/// What cannot be written on the command line.
#[test]
fn wrong_words_are_explained() {
    for (arguments, word) in [
        (&["link", "set", "--vlarb-high", "0:256"][..], "VL:WEIGHT"),
        (&["link", "set", "--vls", "3"], "1, 2, 4, 8 or 15"),
        (&["link", "set", "--high-limit", "256"], "unlimited"),
        (&["link", "set", "--pfc", "8"], "priority"),
        (&["link", "set", "--state", "defer"], "armed"),
        (&["link", "set", "--pkey", "1"], "INDEX=PKEY"),
        (&["perf", "--sl2vl", "16"], "not a VL"),
        (&["perf", "--sl", "16", "--link", "ib"], "16"),
        (&["perf", "--sl", "8"], "priorities 0 to 7"),
        (&["perf", "--sl", "0,1"], "more --qps"),
    ] {
        let output = Command::new(HCA).args(arguments).output().unwrap();
        let stderr = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {stderr}");
        assert!(
            stderr.contains(word),
            "{arguments:?} should say '{word}': {stderr}"
        );
    }
}

/// Every QP has its service level, and the figures say what each level got. The lanes of SL 1 and 5 are what the map
/// says on InfiniBand, priorities 1 and 5 on Ethernet; a lane in neither table gets no service (VL-12).
#[test]
fn perf_takes_service_levels_in_turn() {
    for (link, high, low) in [("ib", "0:16", "1:16,0:16"), ("eth", "1:16", "5:16,1:16")] {
        let arguments = [
            "perf",
            "--link",
            link,
            "--op",
            "write",
            "--size",
            "4k",
            "--qps",
            "3",
            "--sl",
            "1,5",
            "--sl2vl",
            "0,1",
            "--vlarb-high",
            high,
            "--vlarb-low",
            low,
            "--high-limit",
            "8",
            "--policy",
            "iba",
            "--iters",
            "32",
            "--outstanding",
            "8",
            "--json",
        ];
        let output = Command::new(HCA).args(arguments).output().unwrap();
        assert!(output.status.success(), "{}", text(&output.stderr));
        let figures: Value = serde_json::from_slice(&output.stdout).unwrap();
        let shares = figures["by_sl"].as_array().unwrap();
        let sls: Vec<_> = shares.iter().map(|share| share["sl"].as_u64()).collect();
        assert_eq!(sls, [Some(1), Some(5)], "{figures}");
        let sum: f64 = shares
            .iter()
            .map(|share| share["goodput_bytes_per_s"].as_f64().unwrap())
            .sum();
        let all = figures["goodput_bytes_per_s"].as_f64().unwrap();
        assert!((0.5..2.0).contains(&(sum / all)), "{figures}");
    }
}
