//! Cards in this process, and the C interface as a program calls it.
#![allow(dead_code, missing_docs)]

pub mod c;
pub mod locked;
pub mod makers;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, Once, OnceLock};

use hca_room::limited::unlimited;
use hca_verbs::{Context, OpenOptions};
use ibverbs::{Cards, DevPtr, Errno, Verb, install_cards};

pub use c::*;
use ibverbs::abi::ibv_context;
pub use locked::*;

/// The card whose context is kept, for a test that looks behind the C interface.
pub const KEPT_CARD: u32 = 62;
pub static KEPT: OnceLock<Context<DevPtr>> = OnceLock::new();

/// The card that was claimed last under each number.
static FAKES: Mutex<BTreeMap<u32, Arc<Locked>>> = Mutex::new(BTreeMap::new());

/// Admin commands that a card has got, modulo 2^16.
pub fn admin_commands(card: u32) -> u16 {
    FAKES.lock().unwrap()[&card].admin_commands()
}

/// Cards 0 to 63, a new lone one at each claim.
struct Fakes;

impl Cards for Fakes {
    fn list(&self) -> Vec<u32> {
        unlimited(|| (0..64).collect())
    }
    fn claim(&self, number: u32) -> Verb<Context<DevPtr>> {
        if number == 63 {
            return Err(Errno(libc::EBUSY));
        }
        let fake = unlimited(|| {
            let fake = Arc::new(Locked::new());
            FAKES.lock().unwrap().insert(number, fake.clone());
            fake
        });
        let device: DevPtr = fake;
        let context = Context::open_with(device, &OpenOptions::simulated())?;
        if number == KEPT_CARD {
            let _ = KEPT.set(context.clone());
        }
        Ok(context)
    }
}

/// Opens a card; each test takes its own.
pub fn open(number: usize) -> *mut ibv_context {
    static INSTALL: Once = Once::new();
    INSTALL.call_once(|| assert!(install_cards(Box::new(Fakes))));
    open_device(number)
}

/// A card with two connected QPs on one CQ.
pub fn bench(card: usize) -> Bench {
    Bench::on(open(card))
}
