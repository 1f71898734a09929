//! One list of tests for every way to a card: simulated in this process, behind a simulator's socket, or in a slot
//! (VFIO). A test knows two devices and the verbs, nothing else; what passes on one way must pass on all.
//!
//! In-process and over sockets the list runs in the system tests (`tests/system/tests/parity.rs`,
//! `tests/system/tests/process/parity.rs`), over VFIO by the program `hca-parity` in a guest (`make peers`).
//!
//! ```no_run
//! # use hca_parity::Dev;
//! # fn devices() -> [Dev; 2] { panic!() }
//! for test in hca_parity::TESTS {
//!     let outcome = test.run(&hca_parity::Ends::new(devices(), 60_000_000_000));
//!     println!("{}: {outcome:?}", test.name);
//! }
//! ```
#![deny(unsafe_code)]

mod bench;
mod cost;
mod life;
mod lost;
mod memory;
mod refusals;
mod transfers;

use std::rc::Rc;

use hca_dev::Device;
use thiserror::Error;

pub use cost::{Cost, costs};

/// A device, whatever is behind it.
pub type Dev = Rc<dyn Device>;

/// Why a test failed.
#[derive(Debug, Error)]
pub enum Failure {
    /// Driver or card.
    #[error(transparent)]
    Verbs(#[from] hca_verbs::Error),
    /// A work request was not taken.
    #[error(transparent)]
    Post(#[from] hca_verbs::BadWr),
    /// Something else happened than what must.
    #[error("{0}")]
    Wrong(String),
}

impl From<hca_dev::DeviceError> for Failure {
    fn from(error: hca_dev::DeviceError) -> Self {
        Self::Verbs(error.into())
    }
}

/// What a test came to.
pub type Outcome<T = ()> = Result<T, Failure>;

/// Two devices whose first ports reach each other by Ethernet.
#[derive(Clone)]
pub struct Ends {
    /// The devices.
    pub devices: [Dev; 2],
    /// Longer than anything takes, by the clock of the devices.
    pub patience_ns: u64,
    /// Bytes of the region of the test of large ones.
    pub region_bytes: usize,
}

impl Ends {
    /// With a large region of 8 MiB.
    pub fn new(devices: [Dev; 2], patience_ns: u64) -> Self {
        Self {
            devices,
            patience_ns,
            region_bytes: 8 << 20,
        }
    }
}

/// A test of the list.
pub struct ParityTest {
    /// What it shows.
    pub name: &'static str,
    run: fn(&Ends) -> Outcome,
}

impl ParityTest {
    /// Runs it. It leaves nothing behind on the cards, whatever happens.
    pub fn run(&self, ends: &Ends) -> Outcome {
        (self.run)(ends)
    }
}

macro_rules! tests {
    ($($module:ident::$name:ident,)*) => {
        /// The list. The last one ends a device: it has to be opened anew.
        pub const TESTS: &[ParityTest] = &[
            $(ParityTest { name: stringify!($name), run: $module::$name },)*
        ];
    };
}

tests! {
    transfers::write_of_every_size,
    transfers::read_of_every_size,
    transfers::send_of_every_size,
    transfers::immediate_data,
    transfers::inline_data,
    transfers::gather_and_scatter,
    transfers::completion_events,
    transfers::loopback_on_each_card,
    refusals::bad_rkey,
    refusals::past_the_end_of_a_region,
    refusals::rights_that_are_missing,
    refusals::bad_lkey,
    refusals::receive_too_small,
    refusals::send_queue_flushed,
    refusals::bus_address_that_is_not_mapped,
    life::regions_that_overlap,
    life::region_of_many_megabytes,
    life::region_that_changes_its_rights,
    life::completion_queue_that_grows,
    life::reset_in_mid_traffic,
    lost::write_that_is_lost,
}
