//! What the boot program decides: may an image run, and which one is started. The program itself (`main.rs`) is for the
//! card's own processor; tools use the same check before they send an image to a card.
#![no_std]
#![forbid(unsafe_code)]

#[cfg(test)]
extern crate std;

mod check;
mod choice;

pub use check::{Refusal, SIGNATURE_BYTES, check, digest};
pub use choice::order;
