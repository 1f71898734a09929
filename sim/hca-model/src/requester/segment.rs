//! From a WQE to its packets (WIRE-13, X-2, X-6).

use hca_abi::WcStatus;
use hca_wire::{Opcode, Operation, Psn, atomic_eth, deth, feth, ieth, immdt, reth, xrceth};

use crate::config::{QpConfig, Service};
use crate::memory::Access;
use crate::packet::Packet;
use crate::work::{Atomic, Op, Wqe};
use crate::world::World;

/// The opcode of an operation in a service; not all services have all.
pub(crate) fn opcode_of(service: Service, operation: Operation) -> Option<Opcode> {
    let service = match service {
        Service::Rc => hca_wire::Service::Rc,
        Service::Uc => hca_wire::Service::Uc,
        Service::Ud => hca_wire::Service::Ud,
        Service::Xrc => hca_wire::Service::Xrc,
    };
    Opcode::of(service, operation)
}

/// What was any packet becomes packet `at` of a WQE, or it and those that follow, `count` in all; or the status with
/// which the WQE fails.
pub(super) fn build(
    wqe: &mut Wqe,
    (at, count): (u32, u32),
    config: &QpConfig,
    world: &mut dyn World,
    packet: &mut Packet,
) -> Result<(), WcStatus> {
    let mtu = config.mtu_bytes();
    if config.service == Service::Ud && wqe.packets > 1 {
        return Err(WcStatus::LocLenErr);
    }
    let is_only = wqe.packets == 1;
    let is_last = at + 1 == wqe.packets;
    let operation = operation_of(wqe.request.op, at == 0, is_last || is_only);
    if let Op::Broken(status) = wqe.request.op {
        return Err(status);
    }
    // XPORT-12: an operation that the service does not have.
    let opcode = opcode_of(config.service, operation).ok_or(WcStatus::LocQpOpErr)?;
    let psn = wqe.first.wrapping_add(at);
    packet.renew(opcode, config.dest_qpn, psn);
    packet.count = count;
    packet.pkey = wqe.request.pkey.unwrap_or(config.pkey);
    if !wqe.request.op.fetches() {
        let offset = at * mtu;
        let len = (wqe.len - offset).min(mtu * count);
        if at == 0 && wqe.packets >= SMOOTH_PACKETS {
            wqe.is_smooth = is_smooth(wqe, config, world);
        }
        let payload = packet.payload_of(len as usize);
        match &wqe.request.inline {
            Some(bytes) => payload.copy_from_slice(&bytes[offset as usize..][..len as usize]),
            None => stage(wqe, offset, config, world, payload)?,
        };
    } else {
        packet.payload.clear();
        for entry in wqe.request.sges.iter().filter(|entry| entry.len > 0) {
            let there = world.check(config, *entry, Access::NONE);
            there.map_err(|_| WcStatus::LocProtErr)?;
        }
    }
    put_headers(packet, wqe, at, mtu);
    if config.service == Service::Ud {
        let destination = wqe.request.destination.as_ref().ok_or(WcStatus::LocQpOpErr)?;
        packet.dest_qp = destination.qpn;
        packet.ext.deth = Some(deth::Repr {
            // KEY-24.
            qkey: if destination.qkey >> 31 == 1 {
                config.qkey
            } else {
                destination.qkey
            },
            src_qp: config.source_qpn,
            ..Default::default()
        });
    }
    Ok(())
}

/// A message with fewer packets has none that could go in one with others: its first one and its last go alone.
pub(crate) const SMOOTH_PACKETS: u32 = 4;

/// It is a WRITE or a SEND, and nothing is wrong with its data.
fn is_smooth(wqe: &Wqe, config: &QpConfig, world: &mut dyn World) -> bool {
    let mut entries = wqe.request.sges.iter().filter(|entry| entry.len > 0);
    matches!(wqe.request.op, Op::Write { .. } | Op::Send { .. })
        && wqe.request.inline.is_none()
        && entries.all(|entry| world.check(config, *entry, Access::NONE).is_ok())
}

/// So many bytes of a WQE from an offset on as there is room for.
fn stage(
    wqe: &mut Wqe,
    offset: u32,
    config: &QpConfig,
    world: &mut dyn World,
    out: &mut [u8],
) -> Result<(), WcStatus> {
    let (sges, is_far) = (&wqe.request.sges, world.is_far());
    let fetch = |bytes: &mut [u8]| world.gather_to(config, sges, offset, bytes);
    let read = wqe.ahead.read((offset, wqe.len - offset), is_far, out, fetch);
    read.map_err(|_| WcStatus::LocProtErr)
}

fn operation_of(op: Op, is_first: bool, is_last: bool) -> Operation {
    use Operation as O;
    match (op, is_first, is_last) {
        (Op::Read { .. }, ..) => O::ReadRequest,
        (
            Op::Atomic {
                atomic: Atomic::CompareSwap { .. },
                ..
            },
            ..,
        ) => O::CmpSwap,
        (
            Op::Atomic {
                atomic: Atomic::FetchAdd { .. },
                ..
            },
            ..,
        ) => O::FetchAdd,
        (
            Op::Atomic {
                atomic: Atomic::MaskedCompareSwap { .. },
                ..
            },
            ..,
        ) => O::MaskedCmpSwap,
        (
            Op::Atomic {
                atomic: Atomic::MaskedFetchAdd { .. },
                ..
            },
            ..,
        ) => O::MaskedFetchAdd,
        (Op::AtomicWrite { .. }, ..) => O::AtomicWrite,
        (Op::Flush { .. }, ..) => O::Flush,
        // It has no packet.
        (Op::Broken(_), ..) => O::SendOnly,
        (Op::Send { .. }, true, false) => O::SendFirst,
        (Op::Send { .. }, false, false) => O::SendMiddle,
        (Op::Send { imm: Some(_), .. }, true, true) => O::SendOnlyImm,
        (Op::Send { imm: Some(_), .. }, false, true) => O::SendLastImm,
        (
            Op::Send {
                invalidate: Some(_), ..
            },
            true,
            true,
        ) => O::SendOnlyInv,
        (
            Op::Send {
                invalidate: Some(_), ..
            },
            false,
            true,
        ) => O::SendLastInv,
        (Op::Send { .. }, true, true) => O::SendOnly,
        (Op::Send { .. }, false, true) => O::SendLast,
        (Op::Write { .. }, true, false) => O::WriteFirst,
        (Op::Write { .. }, false, false) => O::WriteMiddle,
        (Op::Write { imm: Some(_), .. }, true, true) => O::WriteOnlyImm,
        (Op::Write { imm: Some(_), .. }, false, true) => O::WriteLastImm,
        (Op::Write { .. }, true, true) => O::WriteOnly,
        (Op::Write { .. }, false, true) => O::WriteLast,
    }
}

/// Extended headers that the opcode asks for, and the solicited event bit (OP-16).
fn put_headers(packet: &mut Packet, wqe: &Wqe, at: u32, mtu: u32) {
    let has = |header| packet.opcode.has(header);
    let (needs_reth, needs_imm) = (has(hca_wire::ExtHeader::Reth), has(hca_wire::ExtHeader::ImmDt));
    let needs_inv = has(hca_wire::ExtHeader::Ieth);
    let offset = u64::from(at) * u64::from(mtu);
    let srqn = wqe.request.remote_srqn;
    packet.ext.xrceth = has(hca_wire::ExtHeader::Xrceth).then_some(xrceth::Repr {
        xrcsrq: srqn,
        ..Default::default()
    });
    let ends = packet.opcode.is_last() || packet.opcode.is_only();
    match wqe.request.op {
        Op::Send { imm, invalidate } => {
            packet.ext.immdt = imm.filter(|_| needs_imm).map(|imm| immdt::Repr { imm });
            packet.ext.ieth = invalidate.filter(|_| needs_inv).map(|rkey| ieth::Repr { rkey });
            packet.solicited = wqe.request.flags.solicited && ends;
        }
        Op::Write { va, rkey, imm } => {
            packet.ext.immdt = imm.filter(|_| needs_imm).map(|imm| immdt::Repr { imm });
            let dma_len = wqe.len;
            packet.ext.reth = needs_reth.then_some(reth::Repr { va, rkey, dma_len });
            packet.solicited = wqe.request.flags.solicited && needs_imm;
        }
        // Asked for again from the middle: what is left.
        Op::Read { va, rkey } => {
            let va = va.wrapping_add(offset);
            let dma_len = wqe.len - offset as u32;
            packet.ext.reth = Some(reth::Repr { va, rkey, dma_len });
        }
        Op::Broken(_) => {}
        Op::AtomicWrite { va, rkey, value } => {
            let dma_len = value.len() as u32;
            packet.ext.reth = Some(reth::Repr { va, rkey, dma_len });
            packet.payload_of(value.len()).copy_from_slice(&value);
        }
        Op::Flush {
            va,
            rkey,
            len: dma_len,
            placement: plt,
            selectivity: sel,
        } => {
            packet.ext.feth = Some(feth::Repr { resv26: 0, sel, plt });
            packet.ext.reth = Some(reth::Repr { va, rkey, dma_len });
        }
        Op::Atomic { va, rkey, atomic } => {
            let (swap_add, compare) = match atomic {
                Atomic::CompareSwap { compare, swap } => (swap, compare),
                Atomic::FetchAdd { add } => (add, 0),
                Atomic::MaskedCompareSwap {
                    compare,
                    swap,
                    compare_mask,
                    swap_mask,
                } => {
                    packet.payload = [compare_mask, swap_mask].map(u64::to_le_bytes).concat().into();
                    (swap, compare)
                }
                Atomic::MaskedFetchAdd { add, boundaries } => (add, boundaries),
            };
            packet.ext.atomic_eth = Some(atomic_eth::Repr {
                va,
                rkey,
                swap_add,
                compare,
            });
        }
    }
}

/// Bytes of the payload of packet `psn` of a READ's response, or of it and those that follow, `count` in all.
pub(super) fn response_len(wqe: &Wqe, (psn, count): (Psn, u32), mtu: u32) -> u32 {
    let offset = psn.distance_from(wqe.first) as u32 * mtu;
    (wqe.len - offset).min(mtu * count)
}
