//! `hca qos` from outside: what two virtual lanes get of a saturated wire, measured on the RTL.

mod common;
use common::{HCA, refused, run, text};
use serde_json::Value;
use std::path::Path;
use std::process::Command;

/// What the project promises of a ratio.
const WITHIN: f64 = 0.01;

/// A measured setting.
#[derive(Clone, Copy, Debug)]
struct Point {
    l: u32,
    ratio: f64,
    formula: f64,
    total: f64,
}

/// Measures settings `(Q, H, L)`.
fn measure(policy: &str, settings: &[(u32, u32, u32)]) -> Vec<Point> {
    let points = settings
        .iter()
        .flat_map(|(q, h, l)| ["--point".to_owned(), format!("{q},{h},{l}")]);
    let output = Command::new(HCA)
        .args(["qos", "--json", "--policy", policy])
        .args(points)
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
    let lines = text(&output.stdout);
    assert_eq!(lines.lines().count(), settings.len(), "{lines}");
    let point = |(line, (q, h, l)): (&str, &(u32, u32, u32))| {
        let point: Value = serde_json::from_str(line).unwrap();
        assert_eq!(
            (&point["q"], &point["h"], &point["l"]),
            (&(*q).into(), &(*h).into(), &(*l).into())
        );
        assert_eq!((&point["policy"], &point["mtu"]), (&policy.into(), &2048.into()));
        let number = |key: &str| point[key].as_f64().unwrap();
        let [ratio, high, low] = ["ratio", "high_bytes_per_s", "low_bytes_per_s"].map(number);
        assert!((high / low / ratio - 1.0).abs() < 1e-9, "{line}");
        Point {
            l: *l,
            ratio,
            formula: number("formula"),
            total: high + low,
        }
    };
    lines.lines().zip(settings).map(point).collect()
}

#[track_caller]
fn near(measured: f64, expected: f64, what: &str) {
    assert!(
        (measured / expected - 1.0).abs() <= WITHIN,
        "{what}: {measured} measured, {expected} expected"
    );
}

/// QOS-5: whatever the setting, both flows together fill the wire, at 100 Gb/s of 2076 bytes for each 2074.
#[track_caller]
fn wire_is_full(points: &[Point]) {
    for point in points {
        near(point.total, 12.5e9 * 2074.0 / 2076.0, &format!("{point:?}"));
    }
}

/// ACC-8, VL-15, QOS-8, QOS-12, QOS-15, QOS-16: the six points that the paper quotes, and those of the inventory with
/// other limits.
#[test]
fn points_of_the_paper() {
    let points = [
        (0, 2, 2, 1.0),
        (1, 16, 4, 4.0),
        (2, 3, 2, 3.0),
        (5, 10, 90, 10.0),
        (6, 8, 40, 12.0),
        (8, 25, 100, 16.0),
        (4, 64, 15, 4.267),
        (4, 64, 16, 8.0),
        (2, 64, 31, 2.065),
        (2, 64, 32, 4.0),
    ];
    let measured = measure("round-quantum", &points.map(|(q, h, l, _)| (q, h, l)));
    for (point, (q, h, l, expected)) in measured.iter().zip(points) {
        near(point.ratio, expected, &format!("({q}, {h}, {l})"));
        near(point.formula, expected, &format!("formula at ({q}, {h}, {l})"));
    }
    wire_is_full(&measured);
}

/// QOS-7 and QOS-11 on measurements, and the curve of QOS-12: limit 1, weight 16, so the period T is 8.
#[test]
fn the_saw_tooth() {
    const T: u32 = 8;
    let settings = (1..=4 * T).map(|l| (1, 16, l)).collect::<Vec<_>>();
    let points = measure("round-quantum", &settings);
    wire_is_full(&points);
    for (l, expected) in [
        (1, 16.0),
        (4, 4.0),
        (8, 2.0),
        (9, 1.778),
        (15, 1.067),
        (16, 2.0),
        (23, 1.391),
        (24, 2.0),
        (31, 1.548),
        (32, 2.0),
    ] {
        near(points[l - 1].ratio, expected, &format!("L = {l}"));
    }
    for point in &points {
        // QOS-11. The bound 2Q is reached at whole multiples of T, exceeded below T, and nowhere else met.
        match point.l {
            l if l < T => assert!(point.ratio > 2.0 * (1.0 + WITHIN), "{point:?}"),
            l if l.is_multiple_of(T) => near(point.ratio, 2.0, &format!("{point:?}")),
            _ => assert!(point.ratio < 2.0 * (1.0 - WITHIN), "{point:?}"),
        }
    }
    // QOS-7: it falls within each period, and each period's end is higher than that of the one before.
    for period in points.chunk_by(|_, next| !next.l.is_multiple_of(T)) {
        assert!(
            period.windows(2).all(|pair| pair[1].ratio < pair[0].ratio),
            "{period:?}"
        );
    }
    let minima = [15, 23, 31].map(|l| points[l - 1].ratio);
    assert!(minima[0] < minima[1] && minima[1] < minima[2], "{minima:?}");
}

/// QOS-14: under the specification's rule high gets the limit and low a packet, whatever the weights; VL-12.
#[test]
fn the_specifications_constant() {
    let settings = [(1, 16, 4), (2, 3, 2), (2, 64, 31), (0, 9, 1)];
    let points = measure("iba", &settings);
    for (point, expected) in points.iter().zip([2.0, 4.0, 4.0, 1.0]) {
        near(point.ratio, expected, &format!("{point:?}"));
        assert_eq!(point.formula, expected);
    }
    wire_is_full(&points);
}

/// QOS-5 (a), (b): one program alone has the same bandwidth with and without QoS, and with longer messages.
#[test]
fn one_flow_alone_has_the_whole_wire() {
    let folder = tempfile::tempdir().unwrap();
    let figure_6 = "--sl2vl 0,1 --vlarb-high 0:16 --vlarb-low 1:64 --high-limit 1 --policy round-quantum";
    for (size, options) in [("64k,128k", ""), ("64k", figure_6)] {
        let output = Command::new(HCA)
            .args(["perf", "--link", "ib", "--mtu", "2048", "--iters", "16", "--json"])
            .args(["--size", size, "--plot", folder.path().to_str().unwrap()])
            .args(options.split_whitespace())
            .output()
            .unwrap();
        assert!(output.status.success(), "{}", text(&output.stderr));
        let lines = text(&output.stdout);
        assert_eq!(lines.lines().count(), size.split(',').count());
        for line in lines.lines() {
            let figures: Value = serde_json::from_str(line).unwrap();
            let goodput = figures["goodput_bytes_per_s"].as_f64().unwrap();
            near(goodput, 12.5e9 * 2048.0 / 2076.0, line);
        }
    }
}

/// `--random` draws settings from its seed, `--within` decides the exit code, and what makes no sense is refused.
#[test]
fn limits_and_refusals() {
    let hca = |arguments: &[&str]| run(Path::new(HCA), Path::new("none"), &[&["qos"], arguments].concat());
    let tight = hca(&["--point", "1,16,5", "--within", "0.00001"]);
    assert_eq!(tight.status.code(), Some(1), "{}", text(&tight.stderr));
    assert!(
        text(&tight.stderr).contains("1 of 1 settings"),
        "{}",
        text(&tight.stderr)
    );
    assert!(text(&tight.stdout).contains("sum GB/s"));
    for (arguments, word) in [
        (&["--point", "255,1,1"][..], "low VL would starve"),
        (&["--point", "1,0,1"], "H and L 1 to 255"),
        (&["--point", "1,2"], "three numbers"),
        (&[], "--paper"),
        (&["--paper", "--random", "3"], "cannot be used with"),
        (&["--random", "2", "--rate", "101"], "101"),
    ] {
        let output = hca(arguments);
        let stderr = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{stderr}");
        assert!(
            stderr.contains(word),
            "{arguments:?} should say '{word}': {stderr}"
        );
    }
    // Before the sweep, not after it.
    refused(&hca(&["--paper", "--out", "/dev/null/x"]), &["/dev/null/x"]);
}
