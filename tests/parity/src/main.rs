//! The parity list on two cards: a line for each test, exit code 1 when one fails, 2 when a card cannot be opened.

use std::path::Path;
use std::process::ExitCode;
use std::rc::Rc;
use std::time::Instant;

use clap::Parser;
use hca_dev::DeviceError;
use hca_parity::{Dev, Ends, TESTS, costs};
use hca_vfio::{Bdf, VfioDevice};
use hca_vfio_user::VfioUserDevice;

/// Nothing here takes so long, also not behind a simulator in a guest.
const PATIENCE_NS: u64 = 120_000_000_000;

/// The same system tests over every way to a card
#[derive(Parser)]
struct Args {
    /// Two cards whose ports reach each other: PCI addresses of cards that `hca bind` has prepared, or sockets of a
    /// simulator
    #[arg(required_unless_present = "list", num_args = 2, value_name = "DEVICE")]
    devices: Vec<String>,
    /// Only tests whose name contains this
    #[arg(long, value_name = "WORD")]
    only: Option<String>,
    /// Bytes of the large region
    #[arg(long, default_value_t = 64 << 20, value_name = "BYTES")]
    region: usize,
    /// Measure what register reads, writes and mappings cost, instead of the tests
    #[arg(long)]
    cost: bool,
    /// Print the names of the tests
    #[arg(long)]
    list: bool,
}

/// A PCI address, else a socket.
fn open(name: &str) -> Result<Dev, DeviceError> {
    match name.parse::<Bdf>() {
        Ok(bdf) => Ok(Rc::new(VfioDevice::open(bdf)?)),
        Err(_) => Ok(Rc::new(VfioUserDevice::connect(Path::new(name))?)),
    }
}

fn print_costs(devices: &[Dev]) -> hca_parity::Outcome {
    for dev in devices {
        for cost in costs(dev)? {
            println!("{}: {}: {} ns", dev.info().name, cost.step, cost.mean.as_nanos());
        }
    }
    Ok(())
}

fn run(args: &Args, ends: &Ends) -> ExitCode {
    let is_wanted = |name: &str| args.only.as_deref().is_none_or(|word| name.contains(word));
    let mut failed = 0;
    let wanted = TESTS.iter().filter(|test| is_wanted(test.name));
    let count = wanted.clone().count();
    for test in wanted {
        let start = Instant::now();
        let outcome = test.run(ends);
        let took_ms = start.elapsed().as_millis();
        match outcome {
            Ok(()) => println!("ok {} ({took_ms} ms)", test.name),
            Err(failure) => {
                failed += 1;
                println!("FAILED {} ({took_ms} ms): {failure}", test.name);
            }
        }
    }
    println!("{} of {count} passed", count - failed);
    match (count, failed) {
        (1.., 0) => ExitCode::SUCCESS,
        _ => ExitCode::FAILURE,
    }
}

fn main() -> ExitCode {
    let args = Args::parse();
    if args.list {
        TESTS.iter().for_each(|test| println!("{}", test.name));
        return ExitCode::SUCCESS;
    }
    let opened = args
        .devices
        .iter()
        .map(|name| open(name))
        .collect::<Result<Vec<_>, _>>();
    let devices: [Dev; 2] = match opened.map(TryInto::try_into) {
        Ok(Ok(devices)) => devices,
        Ok(Err(_)) => return ExitCode::from(2),
        Err(error) => {
            eprintln!("hca-parity: {error}");
            return ExitCode::from(2);
        }
    };
    if args.cost {
        return match print_costs(&devices) {
            Ok(()) => ExitCode::SUCCESS,
            Err(failure) => {
                eprintln!("hca-parity: {failure}");
                ExitCode::FAILURE
            }
        };
    }
    let ends = Ends {
        region_bytes: args.region,
        ..Ends::new(devices, PATIENCE_NS)
    };
    run(&args, &ends)
}
