//! Several cards write to one through a switch that marks, or one reads from several: what congestion control does for
//! the queue and the shares.

use hca_system_tests::incast::{Incast, Seen, quick_dcqcn, quick_delay};
use hca_verbs::Congestion;

const SENDERS: u8 = 3;

fn run(congestion: Option<Congestion>, reads: bool, cycles: u64) -> Seen {
    let incast = Incast {
        senders: SENDERS,
        reads,
        congestion,
        settle_cycles: cycles,
        look_cycles: cycles,
        ..Incast::default()
    };
    let seen = incast.run().unwrap();
    println!(
        "{:?}, reads: {reads}: {:.1} bytes per cycle, fairness {:.3}, queue {:.0} bytes, 99 % {}, {} pauses, {} CNPs",
        incast.congestion.map(|congestion| congestion.algorithm),
        seen.goodput(),
        seen.fairness(),
        seen.queue_mean(),
        seen.queue_percentile(99),
        seen.pauses,
        seen.cnps
    );
    seen
}

/// Without control the windows fill the switch's queue, and it pauses; with it the queue is short and the shares alike.
fn judge(congestion: Congestion, reads: bool, cycles: u64, least_goodput: f64) {
    let without = run(None, reads, cycles);
    assert!(without.goodput() > 40.0 && without.queue_mean() > 100_000.0);
    // What a card may read at once is no more than the switch holds of a sender before it pauses it.
    assert!((without.pauses > 0) != reads && without.cnps == 0);
    let with = run(Some(congestion), reads, cycles);
    assert!(with.queue_mean() < without.queue_mean() / 2.0);
    assert!(with.goodput() > least_goodput * without.goodput());
    assert!(with.fairness() > 0.9);
    assert!(with.pauses < without.pauses || reads);
}

/// DCQCN while the rates of three senders are still on their way back from the first cuts.
#[test]
fn marks_keep_the_queue_short_and_shares_alike() {
    judge(quick_dcqcn(), false, 60_000, 0.25);
}

/// READ responses are held to their QP's rate as WRITEs are.
#[test]
fn reads_keep_the_queue_short_and_shares_alike() {
    judge(quick_dcqcn(), true, 60_000, 0.25);
}

/// The other algorithm, and both for longer.
#[test]
#[ignore = "long: make soak"]
fn soak_marks_and_round_trips_keep_the_queue_short() {
    for congestion in [quick_dcqcn(), quick_delay()] {
        judge(congestion, false, 150_000, 0.7);
        judge(congestion, true, 150_000, 0.7);
    }
}
