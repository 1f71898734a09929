//! What a responder has to say, in the order in which it must say it: an acknowledge never overtakes the data of a READ
//! (IBA vol1 9.7.5.1.2).

use std::collections::VecDeque;

use hca_wire::{NakCode, Operation, Psn, Syndrome, aeth, atomic_ack_eth};

use super::Failed;
use crate::ahead::Ahead;
use crate::config::QpConfig;
use crate::memory::{Access, Refusal, Sge};
use crate::packet::Packet;
use crate::requester::opcode_of;
use crate::world::World;

/// Repetitions that wait at most: what is asked for more often is asked for again.
const REPEATS_MAX: usize = 64;

/// Data that has been asked for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fetched {
    pub first: Psn,
    pub next: Psn,
    pub end: Psn,
    pub range: Sge,
    /// Its packets may travel as one.
    pub is_smooth: bool,
}

#[derive(Clone, Copy, Debug)]
enum Reply {
    /// ACK or NAK; an ACK may wait for more to acknowledge.
    Answer {
        psn: Psn,
        syndrome: Syndrome,
        msn: u32,
        until: Option<u64>,
    },
    Data {
        fetched: Fetched,
        msn: u32,
        fresh: bool,
    },
    /// Of an ATOMIC WRITE and a FLUSH there is no value.
    Atomic {
        psn: Psn,
        original: Option<u64>,
        msn: u32,
        fresh: bool,
    },
}

#[derive(Default)]
pub(super) struct Replies {
    queue: VecDeque<Reply>,
    /// Results of atomics, for those who ask again (REL-19).
    results: VecDeque<(Psn, Option<u64>)>,
    /// Data of a READ that has been fetched before its packets' turn, and whose by its first PSN.
    ahead: (Option<Psn>, Ahead),
}

/// Bytes of a READ from an offset on, as many as there is room for.
fn read(
    (whose, ahead): &mut (Option<Psn>, Ahead),
    (fetched, offset): (&Fetched, u32),
    config: &QpConfig,
    world: &mut dyn World,
    out: &mut [u8],
) -> Result<(), Refusal> {
    let (left, len) = (fetched.range.len - offset, out.len() as u32);
    let piece = |len| {
        let addr = fetched.range.addr.wrapping_add(offset.into());
        Sge::new(fetched.range.lkey, addr, len)
    };
    if whose.replace(fetched.first) != Some(fetched.first) {
        ahead.clear();
    }
    if ahead.has(offset, len) {
        // The region may have gone away in the meantime.
        world.check(config, piece(len), Access::REMOTE_READ)?;
    }
    let is_far = world.is_far();
    ahead.read((offset, left), is_far, out, |bytes| {
        world.read_to(config, piece(bytes.len() as u32), Access::REMOTE_READ, bytes)
    })
}

impl Replies {
    /// Queues an acknowledge; one that has not left yet says as much by a later PSN.
    pub fn answer(&mut self, psn: Psn, syndrome: Syndrome, msn: u32, until: Option<u64>) {
        let new = Reply::Answer {
            psn,
            syndrome,
            msn,
            until,
        };
        if let Some(Reply::Answer {
            syndrome: Syndrome::Ack { .. },
            until: earlier,
            ..
        }) = self.queue.back().copied()
            && matches!(syndrome, Syndrome::Ack { .. })
        {
            self.queue.pop_back();
            return self.queue.push_back(match new {
                Reply::Answer {
                    psn, syndrome, msn, ..
                } => Reply::Answer {
                    psn,
                    syndrome,
                    msn,
                    until: earlier,
                },
                other => other,
            });
        }
        self.queue.push_back(new);
    }

    pub fn fetch(&mut self, fetched: Fetched, msn: u32, fresh: bool) {
        if fresh || self.queue.len() < REPEATS_MAX {
            self.queue.push_back(Reply::Data { fetched, msn, fresh });
        }
    }

    pub fn atomic(&mut self, psn: Psn, original: Option<u64>, msn: u32, kept: usize) {
        self.results.push_back((psn, original));
        while self.results.len() > kept {
            self.results.pop_front();
        }
        self.queue.push_back(Reply::Atomic {
            psn,
            original,
            msn,
            fresh: true,
        });
    }

    /// A FLUSH, whether it has come before or not.
    pub fn flush(&mut self, psn: Psn, msn: u32) {
        if self.queue.len() < REPEATS_MAX {
            self.queue.push_back(Reply::Atomic {
                psn,
                original: None,
                msn,
                fresh: false,
            });
        }
    }

    pub fn atomic_again(&mut self, psn: Psn, msn: u32) {
        let result = self.results.iter().find(|(known, _)| *known == psn);
        if let Some((_, original)) = result.copied()
            && self.queue.len() < REPEATS_MAX
        {
            self.queue.push_back(Reply::Atomic {
                psn,
                original,
                msn,
                fresh: false,
            });
        }
    }

    /// READs and atomics that have been accepted and not been answered to their end.
    pub fn fresh_fetches(&self) -> usize {
        let is_fresh = |reply: &&Reply| match reply {
            Reply::Data { fresh, .. } | Reply::Atomic { fresh, .. } => *fresh,
            Reply::Answer { .. } => false,
        };
        self.queue.iter().filter(is_fresh).count()
    }

    /// What tells the peer of the end remains, with what was accepted before it; without such an end nothing does.
    pub fn keep_last_nak(&mut self) {
        let is_nak = |reply: &Reply| {
            matches!(
                reply,
                Reply::Answer {
                    syndrome: Syndrome::Nak(_),
                    ..
                }
            )
        };
        if !self.queue.back().is_some_and(is_nak) {
            self.queue.clear();
            self.ahead.1.clear();
        }
    }

    pub fn next_timeout(&self) -> Option<u64> {
        match self.queue.front()? {
            Reply::Answer { until, .. } if self.queue.len() == 1 => Some(until.unwrap_or(0)),
            _ => Some(0),
        }
    }

    pub fn next_packet(
        &mut self,
        now: u64,
        config: &QpConfig,
        world: &mut dyn World,
        packet: &mut Packet,
    ) -> Option<Result<(), Failed>> {
        if self.next_timeout()? > now {
            return None;
        }
        match self.queue.pop_front()? {
            Reply::Answer {
                psn, syndrome, msn, ..
            } => answer(packet, config, psn, syndrome, msn),
            Reply::Atomic {
                psn, original, msn, ..
            } => {
                let operation = match original {
                    Some(_) => Operation::AtomicAcknowledge,
                    None => Operation::ReadResponseOnly,
                };
                response(packet, config, operation, psn, msn);
                packet.ext.atomic_ack_eth = original.map(|orig_remote| atomic_ack_eth::Repr { orig_remote });
            }
            Reply::Data { fetched, msn, fresh } => {
                return Some(self.data((fetched, msn, fresh), config, world, packet));
            }
        }
        packet.payload.clear();
        Some(Ok(()))
    }

    /// See [`super::Responder::middles_ahead`].
    pub fn middles_ahead(&self) -> u32 {
        match self.queue.front() {
            Some(Reply::Data { fetched, .. }) if fetched.is_smooth && fetched.next != fetched.first => {
                fetched.end.distance_from(fetched.next) as u32 - 1
            }
            _ => 0,
        }
    }

    /// See [`super::Responder::put_middles`].
    pub fn put_middles(
        &mut self,
        count: u32,
        config: &QpConfig,
        world: &mut dyn World,
        packet: &mut Packet,
    ) -> bool {
        let Some(Reply::Data { fetched, msn, .. }) = self.queue.front_mut() else {
            return false;
        };
        let offset = fetched.next.distance_from(fetched.first) as u32 * config.mtu_bytes();
        response(packet, config, Operation::ReadResponseMiddle, fetched.next, *msn);
        packet.count = count;
        let payload = packet.payload_of((config.mtu_bytes() * count) as usize);
        if read(&mut self.ahead, (fetched, offset), config, world, payload).is_err() {
            // One after the other, so that the right one is at fault.
            fetched.is_smooth = false;
            return false;
        }
        fetched.next = fetched.next.wrapping_add(count);
        true
    }

    /// One packet of a READ's data.
    fn data(
        &mut self,
        (mut fetched, msn, fresh): (Fetched, u32, bool),
        config: &QpConfig,
        world: &mut dyn World,
        packet: &mut Packet,
    ) -> Result<(), Failed> {
        use Operation as O;
        let psn = fetched.next;
        let offset = psn.distance_from(fetched.first) as u32 * config.mtu_bytes();
        let len = (fetched.range.len - offset).min(config.mtu_bytes());
        fetched.next = psn.wrapping_add(1);
        let operation = match (psn == fetched.first, fetched.next == fetched.end) {
            (true, true) => O::ReadResponseOnly,
            (true, false) => O::ReadResponseFirst,
            (false, false) => O::ReadResponseMiddle,
            (false, true) => O::ReadResponseLast,
        };
        response(packet, config, operation, psn, msn);
        let payload = packet.payload_of(len as usize);
        if len > 0 && read(&mut self.ahead, (&fetched, offset), config, world, payload).is_err() {
            // The region went away in the meantime.
            self.queue.clear();
            self.ahead.1.clear();
            self.answer(psn, Syndrome::Nak(NakCode::RemoteOperational), msn, None);
            return Err(Failed(None));
        }
        if fetched.next != fetched.end {
            self.queue.push_front(Reply::Data { fetched, msn, fresh });
        }
        Ok(())
    }
}

fn answer(packet: &mut Packet, config: &QpConfig, psn: Psn, syndrome: Syndrome, msn: u32) {
    response(packet, config, Operation::Acknowledge, psn, msn);
    let syndrome = syndrome.to_byte();
    packet.ext.aeth = Some(aeth::Repr { syndrome, msn });
}

/// What was any packet becomes a response with the header that its opcode asks for.
fn response(packet: &mut Packet, config: &QpConfig, operation: Operation, psn: Psn, msn: u32) {
    let syndrome = Syndrome::Ack {
        credit_code: Syndrome::CREDIT_UNLIMITED,
    };
    let opcode = opcode_of(config.service, operation).unwrap_or(hca_wire::Opcode::RcAcknowledge);
    packet.renew(opcode, config.dest_qpn, psn);
    packet.pkey = config.pkey;
    packet.ext.aeth = operation.has_aeth().then_some(aeth::Repr {
        syndrome: syndrome.to_byte(),
        msn,
    });
}
