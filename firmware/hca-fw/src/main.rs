//! The firmware as an image for the card's own processor: `hca-fw-core` with what it needs to stand alone. Built for
//! riscv32imc by `sim/hca-image`; for any other machine it is an empty program.
#![cfg_attr(target_os = "none", no_std, no_main)]

#[cfg(target_os = "none")]
mod board;
#[cfg(target_os = "none")]
mod copy;
#[cfg(target_os = "none")]
mod fault;
#[cfg(target_os = "none")]
mod frames;
#[cfg(target_os = "none")]
mod soc;
#[cfg(target_os = "none")]
mod start;

#[cfg(not(target_os = "none"))]
fn main() {}
