//! `hca perf --table loss`: messages per second over a cable that loses packets, in percent of those over one that
//! does not.

use super::table::{NONE, Row, What, again};

/// QPs, and messages of each.
const LOADS: [(usize, usize); 2] = [(1, 600), (16, 60)];
/// Operations with go-back-N, and those that repeat selectively.
const KINDS: [(&str, &str, &str); 5] = [
    ("write", "WRITE", ""),
    ("write", "WRITE, selective,", " --selective-repeat"),
    ("send", "SEND", ""),
    ("read", "READ", ""),
    ("read", "READ, selective,", " --selective-repeat"),
];
/// One packet in so many is lost; what must be left.
const LOSSES: [(u32, f64); 2] = [(1_000, 97.0), (100, 90.0)];

/// From a NAK to the packet; each load without loss, then what is left of it.
pub fn rows() -> Vec<Row> {
    let mut rows = vec![again()];
    for (op, name, more) in KINDS {
        for (qps, iters) in LOADS {
            let options = format!("--op {op} --qps {qps} --outstanding 16 --iters {iters}{more}");
            let load = format!("{name} 64 KiB, {qps} QP{}", if qps == 1 { "" } else { "s" });
            let whole = rows.len();
            rows.push(Row {
                what: What::Messages,
                name: format!("{load}, nothing lost"),
                options: options.clone(),
                must: NONE,
                goal: NONE,
            });
            rows.extend(LOSSES.map(|(packets, must)| Row {
                what: What::OfRow(whole),
                name: format!("{load}, one packet in {packets} lost, %"),
                options: format!("{options} --faults loss={}", 1.0 / f64::from(packets)),
                must,
                goal: NONE,
            }));
        }
    }
    rows
}
