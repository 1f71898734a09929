//! What must arrive, does.

use hca_verbs::{SendOp, Sge, WcOpcode, WrData, wc_flag};

use crate::bench::{Side, cap, check_traffic, connect, expect, expect_bytes, pair, post, write_to};
use crate::{Ends, Outcome};

/// Around the lines of the bus, the packets of the MTU, and pages; and none.
const SIZES: [usize; 16] = [
    0,
    1,
    2,
    63,
    64,
    65,
    255,
    1023,
    1024,
    1025,
    4095,
    4096,
    4097,
    65_536,
    65_537,
    1 << 20,
];
/// Room for the largest, at an odd place.
const MEMORY_BYTES: usize = (1 << 20) + 8192;
/// Where data lands: not aligned as its source.
const TO: usize = 29;

/// Each size, with the roles changing.
fn every_size(ends: &Ends, what: &str, transfer: fn(&mut Side, &mut Side, usize) -> Outcome) -> Outcome {
    let [mut a, mut b] = pair(ends, MEMORY_BYTES)?;
    for (turn, len) in SIZES.into_iter().enumerate() {
        let (from, to) = match turn % 2 {
            0 => (&mut a, &mut b),
            _ => (&mut b, &mut a),
        };
        let bytes = from.memory.fill(0, len, turn as u64);
        to.memory.bytes().fill(TO - 1, len + 2, 0xee);
        transfer(from, to, len)?;
        let landed = to.memory.read(TO - 1, len + 2);
        expect_bytes(&format!("{what} of {len} bytes"), &landed[1..=len], &bytes)?;
        expect(
            "bytes around it",
            (landed[0], landed[len + 1]),
            (0xee, if len == 0 { landed[1] } else { 0xee }),
        )?;
    }
    Ok(())
}

pub fn write_of_every_size(ends: &Ends) -> Outcome {
    every_size(ends, "WRITE", |from, to, len| {
        let sges = [from.mr.sge(0, len as u32)];
        from.post(1, to.write_here(TO as u64), WrData::Sges(&sges))?;
        let wc = from.wait_ok(1)?;
        expect("opcode", wc.opcode, WcOpcode::RdmaWrite)
    })
}

pub fn read_of_every_size(ends: &Ends) -> Outcome {
    every_size(ends, "READ", |from, to, len| {
        let sges = [to.mr.sge(TO as u64, len as u32)];
        to.post(2, from.read_here(0), WrData::Sges(&sges))?;
        let wc = to.wait_ok(2)?;
        expect(
            "completion",
            (wc.opcode, wc.byte_len),
            (WcOpcode::RdmaRead, len as u32),
        )
    })
}

pub fn send_of_every_size(ends: &Ends) -> Outcome {
    every_size(ends, "SEND", |from, to, len| {
        let landing = [to.mr.sge(TO as u64, len as u32)];
        to.recv(3, &landing)?;
        let sges = [from.mr.sge(0, len as u32)];
        from.post(4, SendOp::Send, WrData::Sges(&sges))?;
        from.wait_ok(4)?;
        let wc = to.wait_ok(3)?;
        expect(
            "completion",
            (wc.opcode, wc.byte_len),
            (WcOpcode::Recv, len as u32),
        )
    })
}

pub fn immediate_data(ends: &Ends) -> Outcome {
    let [mut a, mut b] = pair(ends, 8192)?;
    for (wr_id, imm_data) in [(1, 0), (2, 0x0102_0304), (3, u32::MAX)] {
        let bytes = a.memory.fill(0, 700, wr_id);
        let source = [a.mr.sge(0, 700)];
        let (remote_addr, rkey) = (b.mr.addr() + 100, b.mr.rkey());
        b.recv(10 + wr_id, &[])?;
        let op = SendOp::RdmaWriteWithImm {
            remote_addr,
            rkey,
            imm_data,
        };
        a.post(wr_id, op, WrData::Sges(&source))?;
        a.wait_ok(wr_id)?;
        let wc = b.wait_ok(10 + wr_id)?;
        let has_imm = wc.wc_flags & wc_flag::WITH_IMM != 0;
        expect(
            "WRITE with immediate",
            (wc.opcode, wc.imm_data, has_imm),
            (WcOpcode::RecvRdmaWithImm, imm_data, true),
        )?;
        expect_bytes("WRITE with immediate", &b.memory.read(100, 700), &bytes)?;
        let landing = [b.mr.sge(4000, 700)];
        b.recv(20 + wr_id, &landing)?;
        a.post(wr_id, SendOp::SendWithImm { imm_data }, WrData::Sges(&source))?;
        a.wait_ok(wr_id)?;
        let wc = b.wait_ok(20 + wr_id)?;
        expect(
            "SEND with immediate",
            (wc.opcode, wc.imm_data),
            (WcOpcode::Recv, imm_data),
        )?;
        expect_bytes("SEND with immediate", &b.memory.read(4000, 700), &bytes)?;
    }
    Ok(())
}

pub fn inline_data(ends: &Ends) -> Outcome {
    let [mut a, b] = pair(ends, 4096)?;
    for len in [1, 16, 63, 64, cap().max_inline_data as usize] {
        let bytes = a.memory.fill(0, len, len as u64);
        a.post(1, b.write_here(7), WrData::Inline(&bytes))?;
        a.wait_ok(1)?;
        expect_bytes("inline data", &b.memory.read(7, len), &bytes)?;
    }
    Ok(())
}

/// Sixteen pieces on either side, cut differently.
pub fn gather_and_scatter(ends: &Ends) -> Outcome {
    let [mut a, mut b] = pair(ends, 64 << 10)?;
    let total: usize = (0..16).map(|i| 100 + 37 * i).sum();
    let bytes = a.memory.fill(0, 64 << 10, 5);
    let gather: Vec<Sge> = (0..16)
        .map(|i| a.mr.sge(4000 * i + i, 100 + 37 * i as u32))
        .collect();
    let wanted: Vec<u8> = (0..16)
        .flat_map(|i| bytes[4001 * i..][..100 + 37 * i].to_vec())
        .collect();
    let mut left = total;
    let scatter: Vec<Sge> = (0..16)
        .map(|i| {
            let len = if i == 15 { left } else { (i * 61 + 1).min(left) };
            left -= len;
            b.mr.sge(4000 * i as u64 + 3, len as u32)
        })
        .collect();
    b.recv(1, &scatter)?;
    a.post(2, SendOp::Send, WrData::Sges(&gather))?;
    a.wait_ok(2)?;
    expect("bytes received", b.wait_ok(1)?.byte_len, total as u32)?;
    let landed: Vec<u8> = scatter
        .iter()
        .flat_map(|sge| {
            b.memory
                .read((sge.addr - b.mr.addr()) as usize, sge.length as usize)
        })
        .collect();
    expect_bytes("gathered and scattered", &landed, &wanted)?;
    check_traffic(&mut [a, b])
}

/// Both ends sleep until their interrupt.
pub fn completion_events(ends: &Ends) -> Outcome {
    let mut sides = pair(ends, 8192)?;
    for round in 0..4 {
        let [a, b] = &mut sides;
        a.cq.req_notify(false)?;
        b.cq.req_notify(false)?;
        let landing = [b.mr.sge(0, 4096)];
        b.recv(round, &landing)?;
        let bytes = a.memory.fill(0, 4096, round);
        let sges = [a.mr.sge(0, 4096)];
        a.post(round, SendOp::Send, WrData::Sges(&sges))?;
        for side in [b, a] {
            let cqn = side.channel.get_event(side.deadline_ns())?;
            expect("queue of the event", cqn, side.cq.cqn())?;
            side.wait_ok(round)?;
            expect("further events", side.channel.poll_event(), None)?;
        }
        expect_bytes("after an event", &sides[1].memory.read(0, 4096), &bytes)?;
    }
    Ok(())
}

/// Two QPs of one card, connected to each other.
pub fn loopback_on_each_card(ends: &Ends) -> Outcome {
    for dev in &ends.devices {
        let side = Side::open(dev, ends.patience_ns, 64 << 10)?;
        let mut qps = [side.another_qp()?, side.another_qp()?];
        let [first, second] = &mut qps;
        connect(first, second)?;
        for (turn, qp) in qps.iter_mut().enumerate() {
            let bytes = side.memory.fill(0, 20_000, turn as u64);
            let sges = [side.mr.sge(0, 20_000)];
            post(qp, 1, write_to(&side.mr, 30_001), WrData::Sges(&sges))?;
            side.wait_ok(1)?;
            expect_bytes("a card to itself", &side.memory.read(30_001, 20_000), &bytes)?;
        }
    }
    Ok(())
}
