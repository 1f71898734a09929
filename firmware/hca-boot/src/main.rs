//! The first program of the card's own processor, in a memory of its own that nothing changes. After most resets it
//! only goes on to the firmware. When there is none, or another one is to be tried, it has the board load an image from
//! a slot of its flash, checks it, and starts it; what is not signed by the owner of the board's key never runs. Built
//! for riscv32imc by `sim/hca-image`; for any other machine it is an empty program.
#![cfg_attr(target_os = "none", no_std, no_main)]

#[cfg(target_os = "none")]
mod start;

#[cfg(not(target_os = "none"))]
fn main() {}
