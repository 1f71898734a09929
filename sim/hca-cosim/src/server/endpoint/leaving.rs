//! What a client leaves behind goes as soon as the card has nothing more to do with it: when its function's reset has
//! ended, whatever else the cards do meanwhile.

use hca_regs as reg;

use super::Endpoint;
use crate::fabric::Fabric;

/// Looks at a reset, which takes microseconds; a test card has no such register. What is then left goes when the cards
/// rest.
const LOOKS_MAX: u32 = 10_000;

/// A look at the reset of a function that nobody has.
pub(super) struct Leaving {
    read: u64,
    looks: u32,
}

impl Endpoint {
    /// Starts to look.
    pub(super) fn leave(&mut self, fabric: &mut Fabric) {
        self.look(fabric, 1);
    }

    fn look(&mut self, fabric: &mut Fabric, looks: u32) {
        let read = fabric.mmio_read(self.card, self.func, reg::FUNC_CONTROL as u16);
        self.leaving = Some(Leaving { read, looks });
    }

    /// A register value that says how far the reset is. False: not ours.
    pub fn reset_value(&mut self, fabric: &mut Fabric, id: u64, value: u32) -> bool {
        let Some(Leaving { looks, .. }) = self.leaving.take_if(|leaving| leaving.read == id) else {
            return false;
        };
        if reg::field(value, reg::FUNC_CONTROL_RESET_MASK) == 0 {
            self.forget(fabric);
        } else if looks < LOOKS_MAX {
            self.look(fabric, looks + 1);
        }
        true
    }
}
