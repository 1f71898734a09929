//! Accesses of the card that the IOMMU has refused: somebody is mistaken about what is mapped.
//!
//! A read ends in an error completion, and the card itself fails what needed it. A write is posted, so the card does
//! not hear that it is lost; the host contains it (decision 0016): the function is reset and cut off, its registers
//! read as ones, until its client enables it again. A client of ours finds the address in what it shares with the
//! simulator.

use hca_host::{Fault, Touch};

use super::Endpoint;
use crate::containment::lost_write;
use crate::fabric::Fabric;

/// Accesses of a client that are told of, each by a line; the others are counted.
const TOLD_MAX: usize = 8;

impl Endpoint {
    /// The card's access for this function was refused. What is to be said of it.
    pub fn refused(&mut self, fabric: &Fabric, fault: &Fault) -> Option<String> {
        if !fault.is_mistake() || self.client.is_none() {
            return None;
        }
        let end = match fault.touch {
            Touch::Read => {
                self.config.note_refused_read();
                "what needed it fails"
            }
            Touch::Write => "the function is reset and cut off until its driver opens it anew",
        };
        self.told += 1;
        let name = fabric.card(self.card).name();
        match self.told {
            ..=TOLD_MAX => Some(format!("{name}: {fault}; {end}")),
            told if told == TOLD_MAX + 1 => Some(format!(
                "{name}: function {}: more accesses were refused; they are counted only",
                self.func
            )),
            _ => None,
        }
    }

    /// The function has lost a write.
    pub fn contain(&mut self, fabric: &mut Fabric) {
        let lost = lost_write(fabric, self.card, self.func);
        if let (Some(lost), Some(channel)) = (lost, self.channel()) {
            channel.activity.tell_lost_write(lost.addr);
        }
        self.reset(fabric);
    }
}
