//! What has happened on a connection lately, for whoever reads a verdict.

use std::collections::VecDeque;
use std::fmt;

use hca_wire::{Opcode, Psn, Syndrome};

use crate::packet::Packet;

/// Packets kept.
const KEPT: usize = 128;

struct Line {
    ns: u64,
    from: usize,
    sent: bool,
    opcode: Opcode,
    psn: Psn,
    len: usize,
    ack_req: bool,
    dma_len: Option<u32>,
    aeth: Option<(u8, u32)>,
}

/// The last packets of a connection, at the ports of both ends.
#[derive(Default)]
pub(super) struct History(VecDeque<Line>);

impl History {
    pub fn note(&mut self, ns: u64, from: usize, sent: bool, packet: &Packet) {
        if self.0.len() == KEPT {
            self.0.pop_front();
        }
        self.0.push_back(Line {
            ns,
            from,
            sent,
            opcode: packet.opcode,
            psn: packet.psn,
            len: packet.payload.len(),
            ack_req: packet.ack_req,
            dma_len: packet.ext.reth.map(|reth| reth.dma_len),
            aeth: packet.ext.aeth.map(|aeth| (aeth.syndrome, aeth.msn)),
        });
    }
}

impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (from, to) = if self.from == 0 { ("A", "B") } else { ("B", "A") };
        let event = match self.sent {
            true => format!("{from} sends  "),
            false => format!("{to} gets   "),
        };
        write!(
            f,
            "{:>12} {event} {} {}, {} bytes",
            self.ns, self.opcode, self.psn, self.len
        )?;
        if let Some(dma_len) = self.dma_len {
            write!(f, " of {dma_len}")?;
        }
        if self.ack_req {
            write!(f, ", asks")?;
        }
        if let Some((syndrome, msn)) = self.aeth {
            write!(f, ", {:?}, MSN {msn}", Syndrome::from_byte(syndrome))?;
        }
        Ok(())
    }
}

impl fmt::Display for History {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|line| writeln!(f, "{line}"))
    }
}
