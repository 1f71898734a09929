//! The firmware's image for the card's own processor, as the build made it. Empty where Rust's library for
//! riscv32imc-unknown-none-elf is not installed.

/// What goes into the core's memory, from address 0 on.
pub static IMAGE: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/image.bin"));

include!(concat!(env!("OUT_DIR"), "/facts.rs"));
