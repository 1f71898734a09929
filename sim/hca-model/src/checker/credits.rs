//! End-to-end flow control (IBA vol1 9.7.7.2): what a requester that keeps to credits may send.

use hca_wire::{Operation, Psn, Syndrome};

use crate::packet::Packet;

/// `a` comes behind `b`, modulo 2^24.
fn is_behind(a: u32, b: u32) -> bool {
    let ahead = a.wrapping_sub(b) & 0xff_ffff;
    ahead != 0 && ahead < 1 << 23
}

/// What a requester has been told. What it makes of that may be less, never more.
pub(super) struct Credits {
    /// Messages up to this one have a receive; `None`: there is no limit.
    limit: Option<u32>,
    /// First PSN of the message in progress, if it has none.
    limited: Option<Psn>,
}

impl Credits {
    pub fn new(keeps: bool) -> Self {
        Self {
            limit: keeps.then_some(0),
            limited: None,
        }
    }

    /// An answer has arrived.
    pub fn told(&mut self, packet: &Packet) {
        let (Some(limit), Some(aeth)) = (self.limit, packet.ext.aeth) else {
            return;
        };
        if let Syndrome::Ack { credit_code } = Syndrome::from_byte(aeth.syndrome) {
            self.limit = Syndrome::credit_count(credit_code).map(|count| {
                let told = (aeth.msn + count) & 0xff_ffff;
                if is_behind(told, limit) { told } else { limit }
            });
        }
    }

    /// A packet that is sent for the first time, of message `number` (from 1, modulo 2^24); before `answered`
    /// everything has an answer.
    pub fn sends(
        &mut self,
        packet: &Packet,
        operation: Operation,
        number: u32,
        answered: Psn,
    ) -> Result<(), String> {
        let begins = operation.is_first() || operation.is_only();
        let beyond = self.limit.filter(|limit| is_behind(number, *limit));
        if !begins {
            return match self.limited {
                Some(first) if beyond.is_some() && !answered.is_after(first) => Err(format!(
                    "message {number} goes on without a credit, and PSN {first} has no answer"
                )),
                _ => Ok(()),
            };
        }
        self.limited = None;
        let takes = operation.is_send() || operation.has_immdt();
        let Some(limit) = beyond.filter(|_| takes) else {
            return Ok(());
        };
        self.limited = Some(packet.psn);
        if packet.psn != answered {
            return Err(format!(
                "message {number} though there are receives for {limit}, and PSN {answered} has no answer"
            ));
        }
        if !packet.ack_req {
            return Err(format!(
                "message {number} goes beyond {limit} credits and asks for no answer"
            ));
        }
        Ok(())
    }
}
