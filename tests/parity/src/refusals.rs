//! What must not happen, does not: the right status at both ends, and nothing written.

use hca_verbs::{EventKind, MrOptions, PageSize, QpState, SendOp, Sge, WcStatus, WrData};

use crate::bench::{ALL_RIGHTS, Side, connect, expect, expect_bytes, pair};
use crate::{Ends, Outcome};

const MEMORY_BYTES: usize = 16 << 10;
/// On the bus of no process of any test: the last page of 38 bits.
pub const NOBODYS_PAGE: u64 = 0x3f_ffff_f000;

/// A bad request, another behind it: the status, the flush, both QPs where they must be, and memory as it was.
fn refused(sides: &mut [Side; 2], op: SendOp, sges: &[Sge], status: WcStatus, reaches_peer: bool) -> Outcome {
    let [a, b] = sides;
    let before = [&*a, &*b].map(|side| side.memory.read(0, MEMORY_BYTES));
    let good = [a.mr.sge(0, 64)];
    a.post(1, op, WrData::Sges(sges))?;
    a.post(2, b.write_here(0), WrData::Sges(&good))?;
    a.wait_for(1, status)?;
    a.wait_for(2, WcStatus::WrFlushErr)?;
    expect("the requester's QP", a.qp.query()?.qp_state, QpState::Err)?;
    let peer = if reaches_peer { QpState::Err } else { QpState::Rts };
    expect("the responder's QP", b.qp.query()?.qp_state, peer)?;
    if reaches_peer {
        b.wait_event(EventKind::QpAccessErr)?;
    }
    for (side, before) in [a, b].into_iter().zip(before) {
        expect_bytes("memory", &side.memory.read(0, MEMORY_BYTES), &before)?;
    }
    again(sides)
}

/// Both QPs go through RESET, and work again.
fn again(sides: &mut [Side; 2]) -> Outcome {
    let [a, b] = sides;
    a.qp.modify_state(QpState::Reset)?;
    b.qp.modify_state(QpState::Reset)?;
    connect(&mut a.qp, &mut b.qp)?;
    crate::bench::check_traffic(sides)
}

pub fn bad_rkey(ends: &Ends) -> Outcome {
    let mut sides = pair(ends, MEMORY_BYTES)?;
    let [a, b] = &sides;
    let (remote_addr, rkey) = (b.mr.addr(), b.mr.rkey() ^ 1);
    let sges = [a.mr.sge(0, 2000)];
    for op in [
        SendOp::RdmaWrite { remote_addr, rkey },
        SendOp::RdmaRead { remote_addr, rkey },
    ] {
        refused(&mut sides, op, &sges, WcStatus::RemAccessErr, true)?;
    }
    Ok(())
}

pub fn past_the_end_of_a_region(ends: &Ends) -> Outcome {
    let mut sides = pair(ends, MEMORY_BYTES)?;
    let [a, b] = &sides;
    let sges = [a.mr.sge(0, 65)];
    let end = MEMORY_BYTES as u64 - 64;
    for op in [b.write_here(end), b.read_here(end)] {
        refused(&mut sides, op, &sges, WcStatus::RemAccessErr, true)?;
    }
    Ok(())
}

pub fn rights_that_are_missing(ends: &Ends) -> Outcome {
    let mut sides = pair(ends, MEMORY_BYTES)?;
    let [a, b] = &sides;
    let sges = [a.mr.sge(0, 64)];
    let readable = hca_verbs::Access::LOCAL_WRITE | hca_verbs::Access::REMOTE_READ;
    let other =
        b.pd.reg_user_mr(b.memory.user(0, MEMORY_BYTES), &MrOptions::new(readable))?;
    let op = crate::bench::write_to(&other, 0);
    refused(&mut sides, op, &sges, WcStatus::RemAccessErr, true)
}

pub fn bad_lkey(ends: &Ends) -> Outcome {
    let mut sides = pair(ends, MEMORY_BYTES)?;
    let [a, b] = &sides;
    let stranger = Sge {
        lkey: a.mr.lkey() ^ 1,
        ..a.mr.sge(0, 64)
    };
    let op = b.write_here(0);
    refused(&mut sides, op, &[stranger], WcStatus::LocProtErr, false)
}

pub fn receive_too_small(ends: &Ends) -> Outcome {
    let mut sides = pair(ends, MEMORY_BYTES)?;
    let [a, b] = &mut sides;
    let landing = [b.mr.sge(0, 99)];
    b.recv(5, &landing)?;
    let sges = [a.mr.sge(0, 100)];
    a.post(6, SendOp::Send, WrData::Sges(&sges))?;
    a.wait_for(6, WcStatus::RemInvReqErr)?;
    b.wait_for(5, WcStatus::LocLenErr)?;
    again(&mut sides)
}

/// A QP that its program moves to ERR: everything comes back, in order.
pub fn send_queue_flushed(ends: &Ends) -> Outcome {
    let mut sides = pair(ends, MEMORY_BYTES)?;
    let [a, b] = &mut sides;
    for wr_id in 0..8 {
        let landing = [b.mr.sge(64 * wr_id, 64)];
        b.recv(wr_id, &landing)?;
    }
    b.qp.modify_state(QpState::Err)?;
    for wr_id in 0..8 {
        b.wait_for(wr_id, WcStatus::WrFlushErr)?;
    }
    // The other end finds nobody there.
    let sges = [a.mr.sge(0, 64)];
    a.post(20, SendOp::Send, WrData::Sges(&sges))?;
    let wc = a.wait()?;
    expect("the SEND to a QP in ERR", wc.is_ok(), false)?;
    again(&mut sides)
}

/// The IOMMU stops a card that is told of a bus address that nobody has mapped. The error comes back to whoever posted,
/// and the function works on.
pub fn bus_address_that_is_not_mapped(ends: &Ends) -> Outcome {
    let mut sides = pair(ends, MEMORY_BYTES)?;
    let options = MrOptions {
        page_size: PageSize::KiB4,
        addr: Some(0x5000_0000_0000),
        length: Some(4096),
        ..MrOptions::new(ALL_RIGHTS)
    };
    let dead = sides[0].pd.reg_pages(&[NOBODYS_PAGE], &options)?;
    let sges = [dead.sge(0, 512)];
    let op = sides[1].write_here(0);
    refused(&mut sides, op, &sges, WcStatus::LocProtErr, false)
}
