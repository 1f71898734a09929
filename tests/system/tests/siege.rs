//! Random commands, doorbells, rings and resets of one function on each card, while function 0 of both transfers and
//! checks its bytes, its completions and the time they take (D15, SYS-7, KEY-1).

use hca_cosim::Processor;
use hca_system_tests::siege::{Report, run};

/// Runs seeds until so many operations are done; stops at the first that did harm, whose text says how to repeat it.
fn besiege(seeds: impl Iterator<Item = u64>, operations: u64) -> Report {
    let mut total = Report::default();
    let mut count = 0;
    for seed in seeds {
        let report = run(seed).unwrap_or_else(|failure| panic!("{failure}"));
        println!("seed {seed}: {report:?}");
        total.tally += report.tally;
        total.messages += report.messages;
        total.bytes += report.bytes;
        total.cycles += report.cycles;
        total.intrusions += report.intrusions;
        total.bad_sources += report.bad_sources;
        total.command_cycles_max = total.command_cycles_max.max(report.command_cycles_max);
        count += 1;
        if total.tally.operations >= operations {
            break;
        }
    }
    println!("{count} seeds: {total:?}");
    total
}

/// The attack gets deep: commands are done, not only refused, the neighbour's traffic is more than a few bytes, and its
/// QPs are spoken to.
fn assert_worth_it(total: &Report) {
    let tally = total.tally;
    assert!(
        tally.done * 10 > tally.answers,
        "hardly any command was done: {tally:?}"
    );
    // On the card's own processor a command takes some thousand cycles, in which the attackers do other things.
    let in_a_thousand = match Processor::chosen() {
        Processor::Native => 10,
        Processor::Core => 1,
    };
    assert!(
        tally.answers * 1_000 > tally.operations * in_a_thousand,
        "hardly any command was answered: {tally:?}"
    );
    assert!(total.bytes > 0 && total.messages > 0);
    assert!(
        total.intrusions > 0 && total.bad_sources > 0,
        "nobody spoke to the neighbour: {total:?}"
    );
}

#[test]
fn sieges_1_to_3() {
    assert_worth_it(&besiege(1..=3, u64::MAX));
}

#[test]
fn sieges_4_to_6() {
    assert_worth_it(&besiege(4..=6, u64::MAX));
}

fn number(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    let number = text.parse();
    Some(number.unwrap_or_else(|_| panic!("{name} is '{text}', it must be a whole number")))
}

/// `make soak SEEDS=1000`; START moves on to seeds not yet seen. `OPERATIONS` instead of SEEDS: until so many are done.
#[test]
#[ignore = "takes as long as SEEDS or OPERATIONS asks for"]
fn soak_sieges() {
    let start = number("START").unwrap_or(1000);
    let operations = number("OPERATIONS").unwrap_or(u64::MAX);
    let seeds = if operations == u64::MAX {
        number("SEEDS").unwrap_or(1000)
    } else {
        u64::MAX - start
    };
    let total = besiege(start..start + seeds, operations);
    assert!(total.tally.operations > 0);
}
