//! How long the hardware takes, as it has shown: looked at only then, a read of host memory costs one or two accesses
//! to a register instead of one in every seven cycles.

/// An access to a register takes as long.
const LOOK_CYCLES: u32 = 7;

#[derive(Clone, Copy)]
pub(crate) struct Patience(u32);

impl Patience {
    /// Longest wait before the first look.
    const CYCLES_MAX: u32 = 1024;
    /// What a late answer adds at most: a single one says nothing about the next.
    const STEP_MAX: u32 = 64;

    pub const fn new() -> Self {
        Self(0)
    }

    /// To be waited before the first look.
    pub const fn cycles(self) -> u32 {
        self.0
    }

    /// So many looks were in vain; none: the first one came in time, and so perhaps too late.
    pub fn learn(&mut self, vain: u32) {
        self.0 = if vain == 0 {
            self.0 - self.0.div_ceil(64)
        } else {
            (self.0 + vain.saturating_mul(LOOK_CYCLES).min(Self::STEP_MAX)).min(Self::CYCLES_MAX)
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Looks in vain, and cycles lost, of a wait of `cycles`.
    fn wait(patience: &mut Patience, cycles: u32) -> (u32, u32) {
        let left = cycles.saturating_sub(patience.cycles());
        let vain = left.div_ceil(LOOK_CYCLES);
        let lost = (patience.cycles() + vain * LOOK_CYCLES).saturating_sub(cycles);
        patience.learn(vain);
        (vain, lost)
    }

    #[test]
    fn it_learns_and_forgets() {
        let mut patience = Patience::new();
        for cycles in [140, 900, 20, 0, 140] {
            (0..500).for_each(|_| {
                wait(&mut patience, cycles);
            });
            let (vain, lost) = (0..100).fold((0, 0), |(vain, lost), _| {
                let (more, later) = wait(&mut patience, cycles);
                (vain + more, lost + later)
            });
            assert!(
                vain <= 200 && lost <= 100 * (LOOK_CYCLES + cycles / 64),
                "{cycles}: {vain}, {lost}"
            );
        }
    }

    /// Whatever a slow host did once does not make the next commands slow.
    #[test]
    fn one_late_answer_is_no_rule() {
        let mut patience = Patience::new();
        (0..100).for_each(|_| {
            wait(&mut patience, 140);
        });
        wait(&mut patience, 10_000_000);
        assert!(patience.cycles() <= 147 + Patience::STEP_MAX);
        (0..1000).for_each(|_| patience.learn(u32::MAX));
        assert_eq!(patience.cycles(), Patience::CYCLES_MAX);
    }
}
