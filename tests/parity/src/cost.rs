//! What the steps of a driver cost on a way to a card.

use std::time::{Duration, Instant};

use crate::memory::Memory;
use crate::{Dev, Outcome};

/// A register that can be read at any time: the card's identity.
const ID_REGISTER: u32 = 0;
/// Mean of so many.
const ROUNDS: u32 = 200;
const MAP_BYTES: usize = 1 << 20;

/// A step and its mean time on the wall clock.
#[derive(Clone, Copy, Debug)]
pub struct Cost {
    /// The step.
    pub step: &'static str,
    /// Mean time.
    pub mean: Duration,
}

fn mean(step: &'static str, rounds: u32, mut run: impl FnMut() -> Outcome) -> Outcome<Cost> {
    let start = Instant::now();
    for _ in 0..rounds {
        run()?;
    }
    let mean = start.elapsed() / rounds;
    Ok(Cost { step, mean })
}

/// Measures a device that no test uses at the moment.
pub fn costs(dev: &Dev) -> Outcome<Vec<Cost>> {
    let memory = Memory::new(MAP_BYTES)?;
    let map = |len_bytes| {
        let iova = dev.map_dma(memory.user(0, len_bytes))?;
        Ok(dev.unmap_dma(iova, len_bytes)?)
    };
    Ok(vec![
        mean("register read", ROUNDS, || {
            dev.mmio_read32(ID_REGISTER);
            Ok(())
        })?,
        // Nothing is written: the register is read-only, the way is the same.
        mean("register write", ROUNDS, || {
            dev.mmio_write32(ID_REGISTER, 0);
            Ok(())
        })?,
        mean("map and unmap 4 KiB", ROUNDS, || map(4096))?,
        mean("map and unmap 1 MiB", ROUNDS / 10, || map(MAP_BYTES))?,
    ])
}
