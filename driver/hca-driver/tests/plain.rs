//! A work request in its plain form is written and refused as in the general one, on a queue of every service.

use std::sync::Arc;

use hca_abi::{MIN_WQE_STRIDE_BYTES, WrOpcode};
use hca_dev::{DmaBuf, SharedMem};
use hca_driver::*;

const SIZE: WqSize = WqSize {
    log_size: 2,
    log_stride: 1,
};
const OPCODES: [WrOpcode; 5] = [
    WrOpcode::Send,
    WrOpcode::SendWithImm,
    WrOpcode::RdmaWrite,
    WrOpcode::RdmaWriteWithImm,
    WrOpcode::RdmaRead,
];

type Make = fn(DmaBuf) -> SendRing;

const SERVICES: [Make; 5] = [
    |memory| SendRing::new(memory, SIZE).unwrap(),
    |memory| SendRing::for_unreliable(memory, SIZE).unwrap(),
    |memory| SendRing::for_frames(memory, SIZE).unwrap(),
    |memory| SendRing::for_xrc(memory, SIZE).unwrap(),
    |memory| {
        let rules = DatagramRules {
            pd: 1,
            port_num: 1,
            mtu_bytes: 4096,
        };
        SendRing::for_datagrams(memory, SIZE, rules).unwrap()
    },
];

fn memory() -> DmaBuf {
    DmaBuf::new(Arc::new(SharedMem::new("ring", SIZE.ring_bytes()).unwrap()), 0)
}

/// What both forms of one work request are.
fn forms<'a>(opcode: WrOpcode, flags: SendFlags, sges: &'a [Sge]) -> (PlainWr<'a>, SendWr<'a>) {
    let (remote_addr, rkey, imm_data) = (0x1122_3344_5566_7788, 0x99aa_bbcc, 0xddee_ff01u32);
    let op = match opcode {
        WrOpcode::Send => SendOp::Send,
        WrOpcode::SendWithImm => SendOp::SendWithImm { imm_data },
        WrOpcode::RdmaWrite => SendOp::RdmaWrite { remote_addr, rkey },
        WrOpcode::RdmaWriteWithImm => SendOp::RdmaWriteWithImm {
            remote_addr,
            rkey,
            imm_data,
        },
        _ => SendOp::RdmaRead { remote_addr, rkey },
    };
    let is_send = matches!(opcode, WrOpcode::Send | WrOpcode::SendWithImm);
    let has_imm = matches!(opcode, WrOpcode::SendWithImm | WrOpcode::RdmaWriteWithImm);
    let plain = PlainWr {
        wr_id: 7,
        opcode,
        imm_data: if has_imm { imm_data.swap_bytes() } else { 0 },
        remote_addr: if is_send { 0 } else { remote_addr },
        rkey: if is_send { 0 } else { rkey },
        flags,
        sges,
    };
    let data = WrData::Sges(sges);
    let general = SendWr {
        wr_id: 7,
        op,
        flags,
        data,
    };
    (plain, general)
}

/// V-179, V-164: the same WQE, or the same error.
#[test]
fn both_forms_do_the_same() {
    let sge = |addr, length, lkey| Sge { addr, length, lkey };
    let entries = [
        sge(0x1000, 5, 1),
        sge(u64::MAX, 1 << 31, 2),
        sge(2, 0, u32::MAX),
        sge(3, 9, 3),
        sge(4, 1, 4),
        sge(5, 1, 5),
        sge(6, 1, 6),
    ];
    // None; what fits; a message that is too long; more entries than the ring was made for.
    let lists = [
        &entries[..0],
        &entries[..1],
        &entries[1..3],
        &entries[2..6],
        &entries[..2],
        &entries[..],
    ];
    let mut written = 0;
    for make in SERVICES {
        for opcode in OPCODES {
            for (bits, sges) in (0..16).flat_map(|bits| lists.map(|sges| (bits, sges))) {
                let flags = SendFlags {
                    signaled: bits & 1 != 0,
                    solicited: bits & 2 != 0,
                    fence: bits & 4 != 0,
                    ip_csum: bits & 8 != 0,
                };
                let (plain, general) = forms(opcode, flags, sges);
                let mut rings = [make(memory()), make(memory())];
                let results = [rings[0].push_plain(&plain), rings[1].push(&general)];
                assert_eq!(results[0], results[1], "{opcode:?} {flags:?} {sges:?}");
                assert_eq!(rings[0].next_index(), rings[1].next_index());
                if results[0].is_ok() {
                    let wqes = [0, 1].map(|i| {
                        let mut wqe = vec![0; 2 * MIN_WQE_STRIDE_BYTES as usize];
                        rings[i].memory().read_bytes(0, &mut wqe);
                        wqe
                    });
                    assert_eq!(wqes[0], wqes[1], "{opcode:?} {flags:?} {sges:?}");
                    written += 1;
                }
            }
        }
    }
    // RC: 5 opcodes; UC: 4; each with 8 flags and 4 lists. Frames: SEND, with 16 flags.
    assert_eq!(written, (5 + 4) * 8 * 4 + 16 * 4);
}

/// What has no plain form is refused, whatever else is in it.
#[test]
fn other_operations_have_no_plain_form() {
    for opcode in [
        WrOpcode::AtomicCmpAndSwp,
        WrOpcode::AtomicFetchAndAdd,
        WrOpcode::BindMw,
        WrOpcode::LocalInv,
        WrOpcode::RegMr,
        WrOpcode::SendWithInv,
    ] {
        let (mut plain, _) = forms(WrOpcode::Send, SendFlags::SIGNALED, &[]);
        plain.opcode = opcode;
        let mut ring = SERVICES[0](memory());
        assert_eq!(ring.push_plain(&plain), Err(PostError::NotPlain { opcode }));
        assert!(!ring.plain().has(opcode as u32) && !ring.plain().has(opcode as u32 + 32));
    }
}

/// A ring that is full takes no more in either form.
#[test]
fn a_full_ring() {
    let mut ring = SERVICES[0](memory());
    let (plain, general) = forms(WrOpcode::Send, SendFlags::SIGNALED, &[]);
    (0..4).for_each(|_| ring.push_plain(&plain).unwrap());
    let full = Err(PostError::RingFull { entries: 4 });
    assert_eq!((ring.push_plain(&plain), ring.push(&general)), (full, full));
}
