//! Objects that change, grow, overlap and die under traffic.

use hca_verbs::{Access, MrOptions, Sge, WcStatus, WrData};

use crate::bench::{ALL_RIGHTS, Side, check_traffic, connect, expect, expect_bytes, pair, write_to};
use crate::memory::Memory;
use crate::{Ends, Outcome};

/// Registrations of the same pages, nested, equal, and half over each other: each works until its own end.
pub fn regions_that_overlap(ends: &Ends) -> Outcome {
    const LEN: usize = 64 << 10;
    let mut sides = pair(ends, LEN)?;
    let [a, b] = &mut sides;
    let parts = [
        (0, LEN),
        (0, LEN),
        (100, 200),
        (5000, 40_000),
        (30_000, 34_000),
        (4096, 4096),
    ];
    let memory = Memory::new(2 * LEN)?;
    let mut regions = Vec::new();
    // Shifted over the end of what the first registration has.
    for (offset, len) in parts.into_iter().chain([(LEN - 4096, LEN), (0, 2 * LEN)]) {
        let mr =
            b.pd.reg_user_mr(memory.user(offset, len), &MrOptions::new(ALL_RIGHTS))?;
        regions.push((offset, len, mr));
    }
    while !regions.is_empty() {
        for (turn, (offset, len, mr)) in regions.iter().enumerate() {
            let at = (len - 100) as u64;
            let bytes = a.memory.fill(0, 100, (turn + regions.len() * 10) as u64);
            let sges = [a.mr.sge(0, 100)];
            a.post(1, write_to(mr, at), WrData::Sges(&sges))?;
            a.wait_ok(1)?;
            expect_bytes(
                "a region beside others",
                &memory.read(offset + at as usize, 100),
                &bytes,
            )?;
        }
        // Not in the order in which they came.
        let (_, _, mut mr) = regions.swap_remove(regions.len() / 2);
        mr.destroy()?;
    }
    check_traffic(&mut sides)
}

/// Its first and last bytes, and some between.
pub fn region_of_many_megabytes(ends: &Ends) -> Outcome {
    let mut sides = pair(ends, 8192)?;
    let [a, b] = &mut sides;
    let len = ends.region_bytes;
    let memory = Memory::new(len)?;
    let mr =
        b.pd.reg_user_mr(memory.user(0, len), &MrOptions::new(ALL_RIGHTS))?;
    for (turn, at) in [0, len / 3, len / 2 + 4090, len - 5000].into_iter().enumerate() {
        let bytes = a.memory.fill(0, 5000, turn as u64);
        let sges = [a.mr.sge(0, 5000)];
        a.post(1, write_to(&mr, at as u64), WrData::Sges(&sges))?;
        a.wait_ok(1)?;
        expect_bytes("a large region", &memory.read(at, 5000), &bytes)?;
    }
    drop(mr);
    check_traffic(&mut sides)
}

/// ibv_rereg_mr: the keys stay, the rights do not; and a key that has ended opens nothing.
pub fn region_that_changes_its_rights(ends: &Ends) -> Outcome {
    let mut sides = pair(ends, 8192)?;
    let memory = Memory::new(8192)?;
    let options = MrOptions::new(ALL_RIGHTS);
    let mut mr = sides[1].pd.reg_user_mr(memory.user(0, 8192), &options)?;
    let keys = (mr.lkey(), mr.rkey());
    for (rights, status) in [
        (ALL_RIGHTS, WcStatus::Success),
        (Access::LOCAL_WRITE, WcStatus::RemAccessErr),
        (ALL_RIGHTS, WcStatus::Success),
    ] {
        mr.modify(&sides[1].pd, rights)?;
        expect("keys", (mr.lkey(), mr.rkey()), keys)?;
        try_write(&mut sides, write_to(&mr, 0), status)?;
    }
    let dead = write_to(&mr, 0);
    mr.destroy()?;
    try_write(&mut sides, dead, WcStatus::RemAccessErr)
}

/// A WRITE of 64 bytes ends so; afterwards the connection works.
fn try_write(sides: &mut [Side; 2], op: hca_verbs::SendOp, status: WcStatus) -> Outcome {
    let [a, b] = sides;
    let sges = [a.mr.sge(0, 64)];
    a.post(1, op, WrData::Sges(&sges))?;
    a.wait_for(1, status)?;
    if status != WcStatus::Success {
        for side in [&mut *a, &mut *b] {
            side.qp.modify_state(hca_verbs::QpState::Reset)?;
        }
        connect(&mut a.qp, &mut b.qp)?;
    }
    check_traffic(sides)
}

/// ibv_resize_cq between completions that wait and those to come.
pub fn completion_queue_that_grows(ends: &Ends) -> Outcome {
    let mut sides = pair(ends, 8192)?;
    let [a, b] = &mut sides;
    let sges = [a.mr.sge(0, 64)];
    let mut next = 0;
    for cqe in [100, 500, 4000] {
        for wr_id in next..next + 8 {
            a.post(wr_id, b.write_here(0), WrData::Sges(&sges))?;
        }
        a.cq.resize(cqe)?;
        expect("room", a.cq.cqe() >= cqe, true)?;
        for wr_id in next + 8..next + 16 {
            a.post(wr_id, b.write_here(0), WrData::Sges(&sges))?;
        }
        for wr_id in next..next + 16 {
            a.wait_ok(wr_id)?;
        }
        next += 16;
    }
    check_traffic(&mut sides)
}

/// A function reset while its peer sends to it, and while it sends itself: the peer finds nobody, the card reaches
/// nothing of the one that is gone, and the next one has everything.
pub fn reset_in_mid_traffic(ends: &Ends) -> Outcome {
    const LEN: usize = 64 << 10;
    for victim in [0, 1] {
        let mut sides = pair(ends, LEN)?;
        let all = sides.each_ref().map(|side| [side.mr.sge(0, LEN as u32)]);
        for wr_id in 0..16 {
            for (from, to) in [(0, 1), (1, 0)] {
                let op = sides[to].write_here(0);
                sides[from].post(wr_id, op, WrData::Sges(&all[from]))?;
            }
        }
        sides[1 - victim].wait_ok(0)?;
        let [a, b] = sides;
        let (gone, mut left): (Side, Side) = if victim == 0 { (a, b) } else { (b, a) };
        drop(gone);
        let stranded = wait_until_failed(&mut left, &all[1 - victim])?;
        expect("the peer's work", stranded, WcStatus::RetryExcErr)?;
        drop(left);
        check_traffic(&mut pair(ends, LEN)?)?;
    }
    Ok(())
}

/// Posts on until something fails: the status.
fn wait_until_failed(side: &mut Side, sges: &[Sge]) -> Outcome<WcStatus> {
    // What was posted may all have arrived before the end: then the next one finds nobody.
    let mut waiting = 15;
    loop {
        if waiting == 0 {
            side.post(
                100,
                hca_verbs::SendOp::RdmaWrite {
                    remote_addr: 0,
                    rkey: 0,
                },
                WrData::Sges(sges),
            )?;
            waiting = 1;
        }
        let wc = side.wait()?;
        if !wc.is_ok() {
            return Ok(wc.status);
        }
        waiting -= 1;
    }
}
