//! A message on its way in: where its bytes go.

use hca_abi::{WcOpcode, WcStatus};
use hca_wire::Operation;

use crate::config::QpConfig;
use crate::memory::{Access, Refusal, Sge};
use crate::packet::Packet;
use crate::work::{Atomic, Completion, RecvRequest};
use crate::world::{BadReceive, World};

/// Why a request is not carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    /// There is no receive (REL-8).
    NotReady,
    /// Malformed, out of place, or not what the RETH says.
    Invalid,
    /// More READs and atomics than agreed on (OP-23).
    TooMany,
    /// XRC: the receive queue that it names is not there, or (true) in another domain.
    Queue {
        /// See above.
        is_foreign: bool,
    },
    /// The R_Key does not allow it.
    Access,
    /// The receive is at fault, and completes with this.
    Receive(WcStatus),
}

/// The message of which some packets have come.
#[derive(Debug)]
enum Open {
    Send { placed: u32 },
    Write { va: u64, rkey: u32, left: u32, len: u32 },
}

/// At most one message at a time.
#[derive(Debug, Default)]
pub(super) struct Incoming {
    open: Option<Open>,
    /// The receive that belongs to it, or to the next one (a message of UC was dropped).
    receive: Option<RecvRequest>,
    /// The queue that the message began with: XRC names it in each packet.
    queue: u32,
}

/// WIRE-13: every packet but the last is full, a last one is not empty.
pub(super) fn size_is_right(operation: Operation, len: usize, mtu: u32) -> bool {
    let mtu = mtu as usize;
    if operation.is_first() || operation.is_middle() {
        len == mtu
    } else if operation.is_last() {
        (1..=mtu).contains(&len)
    } else {
        len <= mtu
    }
}

impl Incoming {
    pub fn is_open(&self) -> bool {
        self.open.is_some()
    }

    /// The operation is one that may come now (IBA vol1 9.7.4.1.2).
    pub fn follows(&self, operation: Operation) -> bool {
        let goes_on = operation.is_middle() || operation.is_last();
        match self.open {
            None => !goes_on,
            Some(Open::Send { .. }) => goes_on && operation.is_send(),
            Some(Open::Write { .. }) => goes_on && operation.is_write(),
        }
    }

    /// UC: the rest of it will be dropped. Its receive is the next message's.
    pub fn drop_message(&mut self) {
        self.open = None;
    }

    /// The receive that is bound here, as its number, and its queue.
    pub fn give_up(&mut self) -> Option<(u64, u32)> {
        self.open = None;
        self.receive.take().map(|receive| (receive.wr_id, self.queue))
    }

    /// Packets of a SEND that travel as one are as good as each for itself: there is room for all, and nothing is wrong
    /// with where they go. Of a WRITE that is known since its first packet.
    pub fn takes_at_once(&self, packet: &Packet, config: &QpConfig, world: &mut dyn World) -> bool {
        let (Some(Open::Send { placed }), Some(receive)) = (&self.open, &self.receive) else {
            return true;
        };
        let room: u64 = receive.sges.iter().map(|entry| u64::from(entry.len)).sum();
        u64::from(*placed) + packet.payload.len() as u64 <= room && world.may_scatter(config, &receive.sges)
    }

    /// The queue of the message that is open.
    pub fn queue(&self) -> u32 {
        self.queue
    }

    /// Binds the next receive, unless one is bound already.
    fn bind(&mut self, config: &QpConfig, world: &mut dyn World) -> Result<(), Fault> {
        if self.receive.is_none() {
            self.receive = world
                .next_receive(config)
                .map_err(|BadReceive { wr_id, status }| {
                    self.receive = Some(RecvRequest::new(wr_id, Vec::new()));
                    Fault::Receive(status)
                })?;
        }
        self.receive.as_ref().map(|_| ()).ok_or(Fault::NotReady)
    }

    /// The bound receive completes with a status.
    pub fn complete(&mut self, config: &QpConfig, status: WcStatus, world: &mut dyn World) {
        self.finish(config, world, |completion| Completion { status, ..completion });
    }

    fn finish(
        &mut self,
        config: &QpConfig,
        world: &mut dyn World,
        say: impl FnOnce(Completion) -> Completion,
    ) {
        self.open = None;
        if let Some(receive) = self.receive.take() {
            let completion = Completion::of_recv(config, receive.wr_id, WcStatus::Success);
            world.complete(say(completion));
        }
    }

    /// A packet of SEND or WRITE, whose turn it is and whose size is right. A fault changes nothing but that a receive
    /// may be bound.
    pub fn take(
        &mut self,
        packet: &Packet,
        operation: Operation,
        config: &QpConfig,
        world: &mut dyn World,
    ) -> Result<(), Fault> {
        if self.open.is_none() {
            self.queue = config.receive_queue;
        }
        if operation.is_send() {
            self.take_send(packet, operation, config, world)
        } else {
            self.take_write(packet, operation, config, world)
        }
    }

    fn take_send(
        &mut self,
        packet: &Packet,
        operation: Operation,
        config: &QpConfig,
        world: &mut dyn World,
    ) -> Result<(), Fault> {
        let placed = match self.open {
            Some(Open::Send { placed }) => placed,
            _ => 0,
        };
        self.bind(config, world)?;
        let receive = self.receive.as_ref().ok_or(Fault::NotReady)?;
        let bytes = &packet.payload;
        let result = world.scatter(config, &receive.sges, placed, bytes);
        result.map_err(|refusal| {
            Fault::Receive(match refusal {
                // OP-21.
                Refusal::TooShort => WcStatus::LocLenErr,
                _ => WcStatus::LocProtErr,
            })
        })?;
        let placed = placed.saturating_add(bytes.len() as u32);
        if !(operation.is_last() || operation.is_only()) {
            self.open = Some(Open::Send { placed });
            return Ok(());
        }
        let invalidated = packet.ext.ieth.map(|ieth| ieth.rkey);
        // OP-11: before the completion says so.
        if let Some(rkey) = invalidated {
            world.invalidate(config, rkey).map_err(|_| Fault::Access)?;
        }
        self.finish(config, world, |completion| Completion {
            byte_len: placed,
            imm: packet.ext.immdt.map(|immdt| immdt.imm),
            invalidated,
            src_qp: config.dest_qpn,
            solicited: packet.solicited,
            ..completion
        });
        Ok(())
    }

    fn take_write(
        &mut self,
        packet: &Packet,
        operation: Operation,
        config: &QpConfig,
        world: &mut dyn World,
    ) -> Result<(), Fault> {
        let bytes = &packet.payload;
        // Of one packet without anything beside: to write it checks as much.
        if let (None, Some(reth), None) = (&self.open, packet.ext.reth, packet.ext.immdt)
            && operation.is_only()
            && reth.dma_len as usize == bytes.len()
            && !bytes.is_empty()
        {
            let right = Access::REMOTE_WRITE;
            let is_allowed =
                config.access.allows(right) && world.write(config, reth.rkey, reth.va, bytes, right).is_ok();
            return is_allowed.then_some(()).ok_or(Fault::Access);
        }
        let (va, rkey, left, len) = match (&self.open, packet.ext.reth) {
            (Some(Open::Write { va, rkey, left, len }), _) => (*va, *rkey, *left, *len),
            (_, Some(reth)) => {
                check_write(reth.va, reth.rkey, reth.dma_len, config, world)?;
                (reth.va, reth.rkey, reth.dma_len, reth.dma_len)
            }
            _ => return Err(Fault::Invalid),
        };
        let ends = operation.is_last() || operation.is_only();
        let now = bytes.len() as u32;
        if (ends && now != left) || (!ends && now >= left) {
            return Err(Fault::Invalid);
        }
        // OP-4: its buffers stay as they are.
        if packet.ext.immdt.is_some() {
            self.bind(config, world)?;
        }
        if now > 0 {
            let right = Access::REMOTE_WRITE;
            let written = world.write(config, rkey, va, bytes, right);
            written.map_err(|_| Fault::Access)?;
        }
        if !ends {
            self.open = Some(Open::Write {
                va: va.wrapping_add(now.into()),
                rkey,
                left: left - now,
                len,
            });
            return Ok(());
        }
        self.open = None;
        if let Some(immdt) = packet.ext.immdt {
            self.finish(config, world, |completion| Completion {
                opcode: WcOpcode::RecvRdmaWithImm,
                byte_len: len,
                imm: Some(immdt.imm),
                src_qp: config.dest_qpn,
                solicited: packet.solicited,
                ..completion
            });
        }
        Ok(())
    }
}

/// The whole range at once, with the first packet; without bytes no key is needed.
fn check_write(va: u64, rkey: u32, len: u32, config: &QpConfig, world: &mut dyn World) -> Result<(), Fault> {
    if len > 1 << 31 {
        return Err(Fault::Invalid);
    }
    let range = Sge::new(rkey, va, len);
    let right = Access::REMOTE_WRITE;
    if len == 0 || (config.access.allows(right) && world.check(config, range, right).is_ok()) {
        Ok(())
    } else {
        Err(Fault::Access)
    }
}

/// Annex A19: eight bytes at once, in their place and with the right to write there.
pub(super) fn write_at_once(packet: &Packet, config: &QpConfig, world: &mut dyn World) -> Result<(), Fault> {
    const LEN: u32 = 8;
    let reth = packet.ext.reth.ok_or(Fault::Invalid)?;
    if reth.dma_len != LEN || packet.payload.len() != LEN as usize || !reth.va.is_multiple_of(LEN.into()) {
        return Err(Fault::TooMany);
    }
    let right = Access::REMOTE_WRITE;
    if !config.access.allows(right) {
        return Err(Fault::Access);
    }
    let written = world.write(config, reth.rkey, reth.va, &packet.payload, right);
    written.map_err(|_| Fault::Access)
}

/// Annex A19: all that was written before is in its place already; whether the peer may ask for it, and of this memory.
/// Persistence is nothing that anybody has here.
pub(super) fn flush(packet: &Packet, config: &QpConfig, world: &mut dyn World) -> Result<(), Fault> {
    const GLOBAL: u8 = 1;
    const PERSISTENT: u8 = 2;
    let (feth, reth) = packet.ext.feth.zip(packet.ext.reth).ok_or(Fault::Invalid)?;
    let is_known = (GLOBAL..=GLOBAL | PERSISTENT).contains(&feth.plt) && feth.sel <= 1;
    if !is_known || !packet.payload.is_empty() {
        return Err(Fault::TooMany);
    }
    let right = Access::FLUSH_GLOBAL;
    if feth.plt & PERSISTENT != 0 || !config.access.allows(right) {
        return Err(Fault::Access);
    }
    let checked = match feth.sel {
        0 => world.check(config, Sge::new(reth.rkey, reth.va, reth.dma_len), right),
        _ => world.check_region(config, reth.rkey, right),
    };
    checked.map_err(|_| Fault::Access)
}

/// Decision 0075: the masks of a compare and swap are payload, little-endian as memory.
fn atomic_of(packet: &Packet) -> Result<Atomic, Fault> {
    let header = packet.ext.atomic_eth.ok_or(Fault::Invalid)?;
    let (compare, swap) = (header.compare, header.swap_add);
    let masks = match packet.payload.as_chunks::<8>() {
        ([], []) => None,
        ([compare, swap], []) => Some((u64::from_le_bytes(*compare), u64::from_le_bytes(*swap))),
        _ => return Err(Fault::TooMany),
    };
    match (packet.opcode.operation(), masks) {
        (Some(Operation::CmpSwap), None) => Ok(Atomic::CompareSwap { compare, swap }),
        (Some(Operation::FetchAdd), None) => Ok(Atomic::FetchAdd { add: swap }),
        (Some(Operation::MaskedCmpSwap), Some((compare_mask, swap_mask))) => Ok(Atomic::MaskedCompareSwap {
            compare,
            swap,
            compare_mask,
            swap_mask,
        }),
        (Some(Operation::MaskedFetchAdd), None) => Ok(Atomic::MaskedFetchAdd {
            add: swap,
            boundaries: compare,
        }),
        _ => Err(Fault::TooMany),
    }
}

/// OP-6 to OP-9: carries an atomic out; what was there before.
pub(super) fn execute_atomic(
    packet: &Packet,
    config: &QpConfig,
    world: &mut dyn World,
) -> Result<u64, Fault> {
    const LEN: u32 = 8;
    let header = packet.ext.atomic_eth.ok_or(Fault::Invalid)?;
    let atomic = atomic_of(packet)?;
    if !header.va.is_multiple_of(LEN.into()) {
        return Err(Fault::TooMany);
    }
    let right = Access::REMOTE_ATOMIC;
    if !config.access.allows(right) {
        return Err(Fault::Access);
    }
    let range = Sge::new(header.rkey, header.va, LEN);
    let bytes = world.read(config, range, right).map_err(|_| Fault::Access)?;
    let found = u64::from_le_bytes(bytes.try_into().map_err(|_| Fault::Access)?);
    let new = atomic.apply(found).to_le_bytes();
    let written = world.write(config, header.rkey, header.va, &new, right);
    written.map_err(|_| Fault::Access)?;
    Ok(found)
}
