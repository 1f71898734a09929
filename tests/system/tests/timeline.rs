//! The timeline of a run: what the cards counted is in it, every track has a name, slices lie within each other, and
//! the run is the one that nobody watches.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use hca_link::LinkKind;
use hca_switch::VL15;
use hca_system_tests::scenario::{Options, run, run_watched};
use serde_json::Value;

/// Card and track.
type Track = (u64, u64);

/// Times of a trace are microseconds; picoseconds are whole numbers.
fn ps(value: &Value) -> u64 {
    (value.as_f64().unwrap() * 1e6).round() as u64
}

fn read(path: &Path) -> Vec<Value> {
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

fn text<'a>(event: &'a Value, key: &str) -> &'a str {
    event[key].as_str().unwrap()
}

fn track(event: &Value) -> Track {
    (event["pid"].as_u64().unwrap(), event["tid"].as_u64().unwrap_or(0))
}

/// Every event has the members that its kind needs, and no others come.
fn check_schema(events: &[Value]) {
    for event in events {
        let object = event.as_object().unwrap();
        let members: BTreeSet<&str> = object.keys().map(String::as_str).collect();
        let wanted = match text(event, "ph") {
            "M" => &["ph", "pid", "tid", "name", "args"][..],
            "X" => &["ph", "pid", "tid", "ts", "dur", "name", "args"],
            "i" => &["ph", "s", "pid", "tid", "ts", "name", "args"],
            "C" => &["ph", "pid", "tid", "ts", "name", "args"],
            "b" => &["ph", "cat", "id2", "pid", "name", "ts", "args"],
            "e" => &["ph", "cat", "id2", "pid", "name", "ts"],
            other => panic!("an event of kind {other}: {event}"),
        };
        assert_eq!(members, wanted.iter().copied().collect(), "{event}");
        assert!(event["ts"].as_f64().is_none_or(|ts| ts >= 0.0), "{event}");
        assert!(event["dur"].as_f64().is_none_or(|dur| dur > 0.0), "{event}");
        let is_number = |(_, value): (_, &Value)| value.as_u64().is_some();
        let is_counter = text(event, "ph") == "C";
        assert!(
            !is_counter || event["args"].as_object().unwrap().iter().all(is_number),
            "{event}"
        );
    }
}

fn names(events: &[Value]) -> BTreeMap<Track, String> {
    let named = events.iter().filter(|event| event["name"] == "thread_name");
    named
        .map(|event| (track(event), text(&event["args"], "name").to_owned()))
        .collect()
}

/// Slices of a track are apart from each other, or one lies within the other.
fn check_nesting(events: &[Value], names: &BTreeMap<Track, String>) {
    let mut slices: BTreeMap<Track, Vec<(u64, u64)>> = BTreeMap::new();
    for event in events {
        if ["X", "i"].contains(&text(event, "ph")) {
            assert!(
                names.contains_key(&track(event)),
                "a track without a name: {event}"
            );
        }
        if event["ph"] == "X" {
            let start = ps(&event["ts"]);
            let slice = (start, start + ps(&event["dur"]));
            slices.entry(track(event)).or_default().push(slice);
        }
    }
    for (track, mut slices) in slices {
        slices.sort_by_key(|(start, end)| (*start, std::cmp::Reverse(*end)));
        let mut open: Vec<u64> = Vec::new();
        for (start, end) in slices {
            open.retain(|outer| *outer > start);
            assert!(
                open.iter().all(|outer| end <= *outer),
                "{}: slices overlap at {start} ps",
                names[&track]
            );
            open.push(end);
        }
    }
}

/// Counters go forward in time; what begins ends, once and later.
fn check_order(events: &[Value]) {
    let mut last: BTreeMap<(u64, &str), u64> = BTreeMap::new();
    let mut open: BTreeMap<&str, u64> = BTreeMap::new();
    for event in events {
        match text(event, "ph") {
            "C" => {
                let key = (event["pid"].as_u64().unwrap(), text(event, "name"));
                let at = ps(&event["ts"]);
                assert!(last.insert(key, at).is_none_or(|before| before <= at), "{event}");
            }
            "b" => {
                let id = text(&event["id2"], "local");
                assert!(open.insert(id, ps(&event["ts"])).is_none(), "{event}");
            }
            "e" => {
                let id = text(&event["id2"], "local");
                assert!(open.remove(id).unwrap() < ps(&event["ts"]), "{event}");
            }
            _ => {}
        }
    }
    assert!(open.is_empty());
}

/// Packets, link packets among them, on the tracks with such a name.
fn packets(events: &[Value], names: &BTreeMap<Track, String>, pid: u64, ending: &str) -> u64 {
    let on_track = |event: &&Value| {
        let track = track(event);
        ["X", "i"].contains(&text(event, "ph"))
            && track.0 == pid
            && names.get(&track).is_some_and(|name| name.ends_with(ending))
    };
    events.iter().filter(on_track).count() as u64
}

/// Work requests of all cards: slices that are named by queue pair and not pieces of others.
fn work_requests(events: &[Value]) -> u64 {
    let is_one = |event: &&Value| event["ph"] == "X" && event["args"]["wqe_index"].is_u64();
    events.iter().filter(is_one).count() as u64
}

#[test]
fn what_was_counted_is_in_the_timeline() {
    let folder = tempfile::tempdir().unwrap();
    let mut seen = BTreeSet::new();
    for (seed, link) in [(1, LinkKind::Ethernet), (2, LinkKind::InfiniBand)] {
        let options = Options {
            link: Some(link),
            hash: true,
            upheavals: false,
            services: false,
            ..Options::default()
        };
        let file = folder.path().join(format!("{seed}.json"));
        let watched = Options {
            timeline: Some(file.clone()),
            ..options.clone()
        };
        let mut counters = Vec::new();
        let report = run_watched(seed, &watched, |rig| {
            // What the end of a driver brings is not in the counts below either.
            rig.close_timeline().unwrap();
            let fabric = rig.sim.fabric();
            counters = rig
                .cards
                .iter()
                .map(|card| fabric.card(*card).counters())
                .collect();
        })
        .unwrap();
        assert_eq!(
            run(seed, &options).unwrap(),
            report,
            "seed {seed}: watching changes the run"
        );
        let events = read(&file);
        let names = names(&events);
        check_schema(&events);
        check_nesting(&events, &names);
        check_order(&events);
        for (pid, counters) in (1..).zip(counters) {
            assert_eq!(
                packets(&events, &names, pid, "sends"),
                counters.tx_packets,
                "seed {seed}"
            );
            assert_eq!(
                packets(&events, &names, pid, "receives"),
                counters.rx_packets,
                "seed {seed}"
            );
        }
        assert_eq!(work_requests(&events), report.messages, "seed {seed}");
        seen.extend(events.iter().map(|event| text(event, "name").to_owned()));
    }
    for name in [
        "send doorbell",
        "PCIe read, WQE",
        "PCIe read",
        "PCIe reads in flight",
        "payload",
        "completion",
        "flow control",
        "receive queue",
        "port 1 send queue",
        "port 1 VL 0 credits",
        "doorbell .. wqe_asked",
        "RC Acknowledge",
    ] {
        assert!(seen.contains(name), "no event is called '{name}': {seen:?}");
    }
}

/// Counters that are called so, of a process: the most that a series ever had, and what it had at last.
fn most_and_last(events: &[Value], pid: u64, name: &str) -> BTreeMap<String, (u64, u64)> {
    let mut found = BTreeMap::new();
    let counters = events.iter().filter(|event| event["ph"] == "C");
    for event in counters.filter(|event| event["name"] == name && track(event).0 == pid) {
        for (series, value) in event["args"].as_object().unwrap() {
            let value = value.as_u64().unwrap();
            let (most, last) = found.entry(series.clone()).or_insert((0, 0));
            (*most, *last) = (value.max(*most), value);
        }
    }
    found
}

#[test]
fn buffers_of_switches_are_in_the_timeline() {
    let folder = tempfile::tempdir().unwrap();
    for (link, lane) in [(LinkKind::Ethernet, "priority"), (LinkKind::InfiniBand, "VL")] {
        let file = folder.path().join(format!("{link:?}.json"));
        let options = Options {
            link: Some(link),
            switches: Some(2),
            upheavals: false,
            services: false,
            timeline: Some(file.clone()),
            ..Options::default()
        };
        // The most that a lane of a port of a switch has held, as the switches say.
        let mut peaks = BTreeMap::new();
        run_watched(7, &options, |rig| {
            rig.close_timeline().unwrap();
            let fabric = rig.sim.fabric();
            let net = fabric.net();
            for (pid, id) in (3..).zip(net.switches()) {
                let switch = net.switch(id);
                let vls = (0..switch.config().data_vls).chain([VL15]);
                for (port, vl) in (1..=2).flat_map(|port| vls.clone().map(move |vl| (port, vl))) {
                    let peak = switch.vl_counters(port, vl).unwrap().buffer_peak_blocks;
                    peaks.insert((pid, port, vl), peak);
                }
            }
            for (pid, id) in (3..).zip(net.eth_switches()) {
                for (port, priority) in (1..=2).flat_map(|port| (0..8).map(move |vl| (port, vl))) {
                    let peak = net.eth_switch(id).peak_bytes(port, priority);
                    peaks.insert((pid, port, priority), peak);
                }
            }
        })
        .unwrap();
        let events = read(&file);
        check_schema(&events);
        check_order(&events);
        let named = |event: &&Value| event["name"] == "process_name" && [3, 4].contains(&track(event).0);
        assert_eq!(events.iter().filter(named).count(), 2);
        assert!(peaks.values().any(|peak| *peak > 0), "{link:?}");
        for ((pid, port, number), peak) in peaks {
            let series = most_and_last(&events, pid, &format!("port {port} buffer"));
            let (most, last) = series.get(&format!("{lane} {number}")).copied().unwrap_or((0, 0));
            let place = format!("{link:?}, process {pid}, port {port}, {lane} {number}");
            // What comes and goes within a cycle is not shown.
            assert!(
                most <= u64::from(peak) && (most > 0) == (peak > 0),
                "{place}: {most} of {peak}"
            );
            assert_eq!(last, 0, "{place}");
        }
    }
}
