use hca_system_tests::scenario::{Options, run};
fn main() {
    let mut args = std::env::args().skip(1).map(|a| a.parse::<u64>().unwrap());
    let (start, count) = (args.next().unwrap(), args.next().unwrap());
    let mut judged = 0;
    for seed in start..start + count {
        match run(seed, &Options::default()) {
            Ok(r) => judged += r.judged,
            Err(f) => {
                println!("{f}");
            }
        }
    }
    println!("{judged} judged");
}
