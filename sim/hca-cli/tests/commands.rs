//! `hca demo`, `perf` and `soak` from outside: artifacts, exit codes, and sentences instead of panics.

use std::fs;
use std::process::Command;

/// Exit code, standard output, standard error.
fn hca(arguments: &[&str]) -> (i32, String, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_hca"))
        .args(arguments)
        .output()
        .unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (
        output.status.code().unwrap_or(-1),
        text(output.stdout),
        text(output.stderr),
    )
}

/// A refusal: exit code 2, and one line that says the words.
fn refused(arguments: &[&str], words: &[&str]) {
    let (code, _, stderr) = hca(arguments);
    assert_eq!(code, 2, "{arguments:?}: {stderr}");
    assert!(!stderr.contains("panicked"), "{arguments:?}: {stderr}");
    for word in words {
        assert!(
            stderr.contains(word),
            "{arguments:?} should say '{word}': {stderr}"
        );
    }
}

#[test]
fn demo_sends_a_file_there_and_back() {
    let folder = tempfile::tempdir().unwrap();
    let (file, out) = (folder.path().join("file"), folder.path().join("out"));
    fs::write(&file, vec![0x5a; 300_001]).unwrap();
    for (link, faults) in [("eth", ""), ("ib", "loss=0.02,reorder=0.02,corrupt=0.01")] {
        let arguments = [
            "demo",
            "--link",
            link,
            "--faults",
            faults,
            "--file",
            file.to_str().unwrap(),
            "--out",
        ];
        let (code, stdout, stderr) = hca(&[&arguments[..], &[out.to_str().unwrap()]].concat());
        assert_eq!(code, 0, "{stderr}");
        assert!(
            stdout.contains("match") && stdout.contains("300001 bytes"),
            "{stdout}"
        );
        let summary: serde_json::Value =
            serde_json::from_str(&fs::read_to_string(out.join("summary.json")).unwrap()).unwrap();
        assert_eq!(summary["digests_match"], true);
        assert_eq!(summary["pcie"]["read_latency_ns"], 500);
        let retransmitted =
            (0..2).map(|card| summary["cards"][card]["retransmitted_packets"].as_u64().unwrap());
        assert_eq!(retransmitted.sum::<u64>() > 0, !faults.is_empty(), "{stdout}");
        assert!(
            fs::read_to_string(out.join("latency.svg"))
                .unwrap()
                .starts_with("<svg")
        );
        let stages: serde_json::Value =
            serde_json::from_str(&fs::read_to_string(out.join("stages.json")).unwrap()).unwrap();
        let all = stages["work_requests"].as_array().unwrap();
        // WRITEs and READs of the file, and the two SENDs with its digest.
        let messages = ["write", "read"].map(|phase| summary[phase]["messages"].as_u64().unwrap());
        assert_eq!(all.len() as u64, messages.iter().sum::<u64>() + 2);
        assert_eq!(stages["counts"]["overflow"], 0);
        for request in all {
            let cycle = |stage: &str| request["cycles"][stage].as_u64().unwrap();
            assert!(
                cycle("doorbell") < cycle("placed") && cycle("placed") < cycle("cqe"),
                "{request}"
            );
        }
        // What the cards sent is right to the last CRC; faults come behind.
        let (code, stdout, _) = hca(&["pcap", "check", out.join("link0.pcap").to_str().unwrap()]);
        assert_eq!(code, 0, "{stdout}");
    }
}

#[test]
fn demo_sends_nothing_at_all() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("empty");
    fs::write(&file, b"").unwrap();
    let out = folder.path().join("out");
    let (code, stdout, stderr) = hca(&[
        "demo",
        "--file",
        file.to_str().unwrap(),
        "--out",
        out.to_str().unwrap(),
    ]);
    assert_eq!(code, 0, "{stderr}");
    assert!(stdout.contains("0 bytes in 1 messages"), "{stdout}");
}

#[test]
fn demo_traces_a_window() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("small");
    fs::write(&file, b"0123456789").unwrap();
    let out = folder.path().join("out");
    let arguments = [
        "demo",
        "--file",
        file.to_str().unwrap(),
        "--out",
        out.to_str().unwrap(),
        "--trace",
        "1000:2000",
    ];
    let (code, stdout, stderr) = hca(&arguments);
    assert_eq!(code, 0, "{stderr}");
    assert!(
        stdout.contains("card0.fst, cycles 1000 to 1999"),
        "the firmware boots then: {stdout}"
    );
    for card in ["card0.fst", "card1.fst"] {
        // First and last time, in picoseconds, from the header of the file.
        let header = fs::read(out.join(card)).unwrap();
        let time = |at: usize| u64::from_be_bytes(header[at..at + 8].try_into().unwrap());
        assert_eq!((time(9), time(17)), (1000 * 4000, 2000 * 4000 - 2000), "{card}");
    }
    let (code, stdout, stderr) = hca(&[&arguments[..6], &["1000000000:"]].concat());
    assert_eq!(code, 0, "{stderr}");
    assert!(stdout.contains("card1.fst is empty"), "{stdout}");
}

#[test]
fn what_cannot_be_done_is_said_in_a_sentence() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().to_str().unwrap();
    refused(&["demo", "--faults", "lost=1"], &["lost=1", "unknown", "loss"]);
    refused(&["demo", "--faults", "loss=2"], &["loss=2", "0 to 1"]);
    refused(
        &["demo", "--file", "/no/such/file"],
        &["/no/such/file", "No such file"],
    );
    refused(&["demo", "--file", path], &["not a regular file"]);
    refused(&["demo", "--out", "/dev/null/x"], &["/dev/null/x", "cannot"]);
    refused(&["demo", "--trace", "9:5"], &["9:5"]);
    refused(&["perf", "--size", "lots"], &["lots", "not a size"]);
    refused(&["perf", "--mtu", "1500"], &["256, 512, 1024, 2048 or 4096"]);
    refused(&["perf", "--op", "read", "--inline"], &["--inline"]);
    refused(&["perf", "--inline", "--size", "1k"], &["480", "1024"]);
    refused(
        &["perf", "--op", "datagram", "--inline", "--size", "450"],
        &["448", "450"],
    );
    refused(
        &["perf", "--op", "datagram", "--size", "2k", "--mtu", "1024"],
        &["one packet", "2048", "1024"],
    );
    refused(
        &["perf", "--signal-every", "9", "--outstanding", "4"],
        &["--signal-every"],
    );
    refused(&["perf", "--qps", "1000", "--size", "16M"], &["1 GiB"]);
    refused(&["soak"], &["--seeds"]);
    refused(&["soak", "--seeds", "1", "--jobs", "0"], &["jobs"]);
}

#[test]
fn perf_prints_a_json_object_per_size_and_plots_a_sweep() {
    let folder = tempfile::tempdir().unwrap();
    let plots = folder.path().to_str().unwrap();
    for (op, large) in [
        ("write", 5000),
        ("read", 5000),
        ("send", 5000),
        ("datagram", 4096),
    ] {
        let sizes = format!("0,64,{large}");
        let (code, stdout, stderr) = hca(&[
            "perf", "--op", op, "--size", &sizes, "--qps", "2", "--iters", "32", "--json", "--plot", plots,
        ]);
        assert_eq!(code, 0, "{stderr}");
        let lines: Vec<serde_json::Value> = stdout
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect();
        assert_eq!(lines.len(), 3);
        for (line, size) in lines.iter().zip([0, 64, large]) {
            assert_eq!((&line["op"], &line["size_bytes"]), (&op.into(), &size.into()));
            assert!(line["messages_per_s"].as_f64().unwrap() > 1e5, "{line}");
            // Never faster than the wire.
            assert!(line["goodput_bytes_per_s"].as_f64().unwrap() < 12.5e9, "{line}");
            // At least two PCIe reads' worth of latency and the cable, see the model; nobody acknowledges a datagram.
            let least_ns = if op == "datagram" { 500 } else { 1000 };
            assert!(
                (least_ns..20_000).contains(&line["latency_p50_ns"].as_u64().unwrap()),
                "{line}"
            );
            assert!(
                (20..400).contains(&line["card_internal_cycles"].as_u64().unwrap()),
                "{line}"
            );
            assert_eq!(line["pcie"]["bandwidth_mbps"], 16_000);
        }
        assert!(
            fs::read_to_string(folder.path().join("latency.svg"))
                .unwrap()
                .contains("p99")
        );
    }
}

/// Both links in one table, and a JSON line of each for every size; InfiniBand's packets cost less of the wire.
#[test]
fn perf_puts_links_side_by_side() {
    let folder = tempfile::tempdir().unwrap();
    let both = ["perf", "--link", "eth,ib", "--size", "64,4096", "--iters", "64"];
    let plot = ["--plot", folder.path().to_str().unwrap()];
    let (code, stdout, stderr) = hca(&[&both[..], &plot].concat());
    assert_eq!(code, 0, "{stderr}");
    let columns = stdout
        .lines()
        .find(|line| line.contains("eth        ib"))
        .unwrap();
    assert_eq!(columns.matches("ib").count(), 5, "{stdout}");
    for size in ["64 B", "4 KiB"] {
        let row = stdout.lines().find(|line| line.contains(size)).unwrap();
        assert_eq!(row.split_whitespace().count(), 12, "{row}");
    }
    let (code, stdout, stderr) = hca(&[&both[..], &plot, &["--json"]].concat());
    assert_eq!(code, 0, "{stderr}");
    let lines: Vec<serde_json::Value> = stdout
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let order = lines.iter().map(|line| (&line["size_bytes"], &line["link"]));
    let expected: Vec<serde_json::Value> = [(64, "eth"), (64, "ib"), (4096, "eth"), (4096, "ib")]
        .map(|(size, link)| serde_json::json!([size, link]))
        .to_vec();
    assert_eq!(
        order
            .map(|(size, link)| serde_json::json!([size, link]))
            .collect::<Vec<_>>(),
        expected
    );
    let goodput = |link: &str, size: u64| {
        let line = lines
            .iter()
            .find(|line| line["link"] == link && line["size_bytes"] == size);
        line.unwrap()["goodput_bytes_per_s"].as_f64().unwrap()
    };
    for size in [64, 4096] {
        let (eth, ib) = (goodput("eth", size), goodput("ib", size));
        assert!(ib < 12.5e9 && eth < 12.5e9);
        assert!(size == 64 || ib > 1.005 * eth, "{ib} against {eth}");
    }
    refused(&["perf", "--link", "eth,eth"], &["eth twice"]);
    refused(
        &["perf", "--link", "eth,ib", "--stages"],
        &["--stages", "--link ib"],
    );
}

#[test]
fn perf_traces_a_window() {
    let folder = tempfile::tempdir().unwrap();
    let arguments = [
        "perf",
        "--size",
        "64",
        "--iters",
        "4",
        "--trace",
        "1000:1500",
        "--plot",
    ];
    let (code, _, stderr) = hca(&[&arguments[..], &[folder.path().to_str().unwrap()]].concat());
    assert_eq!(code, 0, "{stderr}");
    assert!(stderr.contains("card1.fst, cycles 1000 to 1499"), "{stderr}");
    refused(&[&arguments[..], &["/dev/null/x"]].concat(), &["/dev/null/x"]);
}

#[test]
fn perf_says_where_the_time_goes() {
    let folder = tempfile::tempdir().unwrap();
    let arguments = [
        "perf", "--size", "64,9000", "--iters", "16", "--qps", "2", "--stages",
    ];
    let plot = ["--plot", folder.path().to_str().unwrap()];
    let (code, stdout, stderr) = hca(&[&arguments[..], &plot, &["--json"]].concat());
    assert_eq!(code, 0, "{stderr}");
    for line in stdout.lines() {
        let line: serde_json::Value = serde_json::from_str(line).unwrap();
        let phases = line["stages"].as_array().unwrap();
        let names: Vec<_> = phases
            .iter()
            .map(|phase| phase["phase"].as_str().unwrap())
            .collect();
        assert_eq!(names, ["alone", "loaded"]);
        for phase in phases {
            assert_eq!((&phase["failed"], &phase["not_recorded"]), (&0.into(), &0.into()));
            assert!(phase["work_requests"].as_u64().unwrap() >= 40, "{phase}");
            let rows = phase["rows"].as_array().unwrap();
            let share = rows.iter().map(|row| row["share"].as_f64().unwrap()).sum::<f64>();
            assert!((share - 1.0).abs() < 1e-9, "{share}: the pieces have gaps");
            // Each begins where the one before ends.
            assert!(
                rows.windows(2).all(|pair| pair[0]["to"] == pair[1]["from"]),
                "{phase}"
            );
        }
        // A program sees the completion later than the card writes it, by the PCIe model's latencies.
        let total = phases[0]["total_p50_ns"].as_u64().unwrap();
        let seen = line["latency_p50_ns"].as_u64().unwrap();
        assert!(total < seen && seen < total + 600, "{total} {seen}");
    }
    let svg = fs::read_to_string(folder.path().join("stages.svg")).unwrap();
    assert!(svg.contains("wqe_asked .. wqe_arrived") && svg.contains("9000 B loaded"));
    let arguments = ["perf", "--size", "64", "--iters", "4", "--stages"];
    let (code, stdout, _) = hca(&[&arguments[..], &plot].concat());
    assert_eq!(code, 0);
    assert!(
        stdout.contains("placed .. reply_rx") && stdout.contains("100.0 %"),
        "{stdout}"
    );
}

#[test]
fn soak_runs_its_seeds() {
    let (code, stdout, stderr) = hca(&["soak", "--seeds", "2", "--start", "5"]);
    assert_eq!(code, 0, "{stderr}");
    assert!(stdout.contains("2 seeds, 0 failed"), "{stdout}");
}
