//! End-to-end flow control (IBA vol1 9.7.7.2): how many messages the peer has receives for.

use hca_wire::{Operation, Syndrome};

use super::Requester;
use crate::packet::Packet;
use crate::work::{Op, Wqe};

/// `a` comes behind `b`, modulo 2^24.
fn is_behind(a: u32, b: u32) -> bool {
    let ahead = a.wrapping_sub(b) & 0xff_ffff;
    ahead != 0 && ahead < 1 << 23
}

impl Requester {
    /// An answer to something outstanding, or again to the last packet that was answered, tells of receives. What is
    /// known is never taken back: the counts of codes are rounded down.
    pub(super) fn hear_credits(&mut self, packet: &Packet) {
        let late = packet.psn == self.una.wrapping_sub(1) && self.is_ack(packet);
        if (packet.psn.is_before(self.una) && !late) || !packet.psn.is_before(self.sent) {
            return;
        }
        let (Some(lsn), Some(aeth)) = (self.lsn, packet.ext.aeth) else {
            return;
        };
        let Syndrome::Ack { credit_code } = Syndrome::from_byte(aeth.syndrome) else {
            return;
        };
        self.lsn = Syndrome::credit_count(credit_code).map(|count| {
            let told = (aeth.msn + count) & 0xff_ffff;
            if is_behind(told, lsn) { told } else { lsn }
        });
    }

    fn is_ack(&self, packet: &Packet) -> bool {
        packet.opcode.operation() == Some(Operation::Acknowledge)
    }

    /// It needs a receive of which nobody has told: one packet of it may go, with nothing else outstanding. Once that
    /// has been answered it has its receive.
    pub(super) fn lacks_credit(&self, wqe: &Wqe) -> bool {
        let takes = match &wqe.request.op {
            Op::Send { .. } => true,
            Op::Write { imm, .. } => imm.is_some(),
            _ => false,
        };
        let begun = self.una.is_after(wqe.first) && wqe.contains(self.una);
        takes && !begun && self.lsn.is_some_and(|lsn| is_behind(wqe.ssn, lsn))
    }
}
