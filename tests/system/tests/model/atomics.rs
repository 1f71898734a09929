//! Atomics between the card and the model, in both roles: results, memory, once and in order whatever is lost.

use super::common::{BOTH_LINKS, LOCAL_AND_REMOTE};
use super::duel::{Duel, MODEL_VA, TARGET};
use hca_link::{FaultSpec, LinkKind};
use hca_model::{Access as ModelAccess, Atomic, EventKind, Op, QpConfig, SendRequest};
use hca_system_tests::opposite::{OppositeConfig, Way};
use hca_system_tests::{Place, path};
use hca_verbs::{
    Access, ConnectOptions, Flush, Mtu, SendFlags, SendOp, SendWr, Service, WcOpcode, WcStatus, WrData,
};

const ALL_RIGHTS: Access =
    Access::from_bits(LOCAL_AND_REMOTE.bits() | Access::REMOTE_ATOMIC.bits() | Access::FLUSH_GLOBAL.bits());
/// Virtual address of the card's memory as the model's atomics know it.
const WORDS_VA: u64 = 0x3000_0000_0000;
/// Words that are changed: at this offset of either region, and behind it.
const WORDS: u64 = 0x800;
const ATOMICS: u64 = 9;

fn duel(config: &OppositeConfig, rd_atomic: u8) -> Duel {
    duel_of(config, rd_atomic, rd_atomic)
}

/// Of READs and atomics of the model's the card takes `rd_atomic` at a time, and `of_model` come.
fn duel_of(config: &OppositeConfig, rd_atomic: u8, of_model: u8) -> Duel {
    let options = ConnectOptions {
        psns: (0xff_fffb, 0xff_fffd),
        access: ALL_RIGHTS,
        rd_atomic,
        ..path(Mtu::Bytes256)
    };
    let change = |qp: &mut QpConfig| qp.max_rd_atomic = of_model;
    let mut duel = Duel::with(config, Service::Rc, &options, change);
    let place = Place::whole(duel.arena.buf(), ALL_RIGHTS, WORDS_VA);
    duel.mr = duel.opposite.node.register(duel.arena.buf(), place).unwrap();
    duel
}

/// Eight bytes that must be in a region, as a number.
fn word(duel: &Duel, of_card: bool, offset: u64) -> u64 {
    let bytes = match of_card {
        true => duel.arena.expected(offset, 8),
        false => &duel.model_expected[offset as usize..][..8],
    };
    u64::from_le_bytes(bytes.try_into().unwrap())
}

fn expect(duel: &mut Duel, of_card: bool, offset: u64, word: u64) {
    let bytes = word.to_le_bytes();
    match of_card {
        true => duel.arena.expect(offset, &bytes),
        false => duel.model_expected[offset as usize..][..8].copy_from_slice(&bytes),
    }
}

/// Posts atomic `index` on one of two words, and says what must come of it (OP-6 to OP-9).
fn post(duel: &mut Duel, from_card: bool, index: u64) {
    let offset = WORDS + 8 * (index % 2);
    let found = word(duel, !from_card, offset);
    let atomic = match index % 5 {
        0 => Atomic::FetchAdd {
            add: u64::MAX - index,
        },
        3 => Atomic::MaskedFetchAdd {
            add: u64::MAX - index,
            boundaries: 0x8000_0080_0001_0000 << (index % 8),
        },
        // It looks at half of the word, and is wrong in the other half; now and then it is wrong in both.
        4 => Atomic::MaskedCompareSwap {
            compare: found ^ 0xffff_ffff ^ u64::from(index % 2 == 1) << 40,
            swap: !index,
            compare_mask: !0xffff_ffff,
            swap_mask: 0xff << (index % 56),
        },
        // One that finds what it looks for, one that does not.
        1 => Atomic::CompareSwap {
            compare: found,
            swap: index,
        },
        _ => Atomic::CompareSwap {
            compare: !found,
            swap: index,
        },
    };
    let new = atomic.apply(found);
    let result = TARGET + 16 * index;
    expect(duel, !from_card, offset, new);
    expect(duel, from_card, result, found);
    if !from_card {
        let (va, rkey) = (WORDS_VA + offset, duel.mr.rkey());
        return duel.model_post(index, Op::Atomic { va, rkey, atomic }, result, 8);
    }
    let (remote_addr, rkey) = (MODEL_VA + offset, duel.key);
    let op = match atomic {
        Atomic::FetchAdd { add } => SendOp::AtomicFetchAndAdd {
            remote_addr,
            rkey,
            add,
        },
        Atomic::CompareSwap { compare, swap } => SendOp::AtomicCmpAndSwp {
            remote_addr,
            rkey,
            compare,
            swap,
        },
        Atomic::MaskedFetchAdd { add, boundaries } => SendOp::MaskedAtomicFetchAndAdd {
            remote_addr,
            rkey,
            add,
            boundaries,
        },
        Atomic::MaskedCompareSwap {
            compare,
            swap,
            compare_mask,
            swap_mask,
        } => SendOp::MaskedAtomicCmpAndSwp {
            remote_addr,
            rkey,
            compare,
            swap,
            compare_mask,
            swap_mask,
        },
    };
    duel.post(index, op, result, 8);
}

/// All of them at once; they complete in order, and both memories are what they must be.
fn storm(duel: &mut Duel, from_card: bool, what: &str) {
    (0..ATOMICS).for_each(|index| post(duel, from_card, index));
    for index in 0..ATOMICS {
        let opcode = if from_card {
            duel.wait_ok(index).opcode
        } else {
            duel.model_ok(index).opcode
        };
        let wanted = match index % 5 {
            0 => WcOpcode::FetchAdd,
            3 => WcOpcode::MaskedFetchAdd,
            4 => WcOpcode::MaskedCompSwap,
            _ => WcOpcode::CompSwap,
        };
        assert_eq!(opcode, wanted, "{what}");
    }
    duel.opposite.run(20_000);
    duel.check_memory(what);
}

/// OP-6 to OP-10, OP-23: results and memory, with few and with many of them outstanding.
#[test]
fn atomics_in_both_roles() {
    for (link, from_card) in BOTH_LINKS
        .into_iter()
        .flat_map(|link| [(link, true), (link, false)])
    {
        for rd_atomic in [1, 16] {
            let mut duel = duel(&OppositeConfig::new(61, link), rd_atomic);
            storm(
                &mut duel,
                from_card,
                &format!("{link:?}, from the card: {from_card}, {rd_atomic}"),
            );
            duel.opposite.judge.verdict().unwrap();
        }
    }
}

/// REL-19: each packet lost in turn, and all of them twice: carried out once, and the result is that of the first time.
#[test]
fn atomics_are_carried_out_once() {
    for (from_card, way) in [
        (true, Way::In),
        (true, Way::Out),
        (false, Way::In),
        (false, Way::Out),
    ] {
        for lost in 0..10 {
            let mut duel = duel(&OppositeConfig::new(62, BOTH_LINKS[lost % 2]), 16);
            let mut number = 0;
            duel.opposite.model.set_filter(move |found, _| {
                number += usize::from(found == way);
                !(found == way && number == lost + 1)
            });
            storm(
                &mut duel,
                from_card,
                &format!("{way:?} packet {lost} lost, from the card: {from_card}"),
            );
        }
        let faults = FaultSpec {
            dup: 1.0,
            ..FaultSpec::default()
        };
        let config = OppositeConfig {
            faults,
            ..OppositeConfig::new(63, LinkKind::Ethernet)
        };
        storm(&mut duel(&config, 16), from_card, "all of them twice");
    }
}

/// REL-13, KEY-31: an address that is not aligned, a region and a QP without the right; both roles.
#[test]
fn atomics_that_are_refused() {
    let (invalid, access) = (WcStatus::RemInvReqErr, WcStatus::RemAccessErr);
    for (aligned, allowed, status) in [(false, true, invalid), (true, false, access)] {
        let mut duel = duel(&OppositeConfig::new(64, LinkKind::Ethernet), 16);
        if !allowed {
            let place = Place::whole(duel.arena.buf(), LOCAL_AND_REMOTE, WORDS_VA);
            duel.mr = duel.opposite.node.register(duel.arena.buf(), place).unwrap();
        }
        let va = WORDS_VA + WORDS + if aligned { 0 } else { 4 };
        let (rkey, atomic) = (duel.mr.rkey(), Atomic::FetchAdd { add: 1 });
        duel.model_post(1, Op::Atomic { va, rkey, atomic }, TARGET, 8);
        assert_eq!(
            duel.model_wait().status,
            status,
            "aligned {aligned}, allowed {allowed}"
        );
        duel.opposite.run(10_000);
        let mut kinds = std::iter::from_fn(|| duel.opposite.node.context.poll_async_event());
        let event = kinds.find(|event| event.kind != EventKind::CommEst);
        assert_eq!(
            event.map(|event| event.kind),
            Some(EventKind::QpAccessErr),
            "aligned {aligned}"
        );
        duel.check_memory("refused by the card");
    }
    let mut duel = duel(&OppositeConfig::new(65, LinkKind::Ethernet), 16);
    let bytes = duel.model_expected.clone();
    let rights = ModelAccess::LOCAL | ModelAccess::REMOTE_WRITE;
    let rkey = duel
        .opposite
        .model
        .with(|model| model.register(0, MODEL_VA, bytes, rights));
    let remote_addr = MODEL_VA + WORDS;
    duel.post(
        1,
        SendOp::AtomicFetchAndAdd {
            remote_addr,
            rkey,
            add: 1,
        },
        TARGET,
        8,
    );
    assert_eq!(duel.wait().status, access);
    duel.check_memory("refused by the model");
}

/// Annex A19: ATOMIC WRITEs among atomics, in both roles, with each packet lost in turn.
#[test]
fn atomic_writes_in_both_roles() {
    for (from_card, lost) in (0..6).flat_map(|lost| [(true, lost), (false, lost)]) {
        let mut duel = duel(&OppositeConfig::new(66, BOTH_LINKS[lost % 2]), [1, 16][lost % 2]);
        let mut number = 0;
        let way = [Way::In, Way::Out][lost / 2 % 2];
        duel.opposite.model.set_filter(move |found, _| {
            number += usize::from(found == way);
            !(found == way && number == lost)
        });
        for index in 0..ATOMICS {
            if index % 2 == 0 {
                atomic_write(&mut duel, from_card, index);
            } else {
                post(&mut duel, from_card, index);
            }
        }
        for index in 0..ATOMICS {
            let (opcode, byte_len) = if from_card {
                let wc = duel.wait_ok(index);
                (wc.opcode, wc.byte_len)
            } else {
                let wc = duel.model_ok(index);
                (wc.opcode, wc.byte_len)
            };
            assert_eq!(byte_len, 8, "{index}");
            assert_eq!(opcode == WcOpcode::AtomicWrite, index % 2 == 0, "{index}");
        }
        duel.opposite.run(20_000);
        duel.check_memory(&format!("packet {lost}, from the card: {from_card}"));
        // It does not see what is lost at the model.
        if lost == 0 {
            duel.opposite.judge.verdict().unwrap();
        }
    }
}

fn atomic_write(duel: &mut Duel, from_card: bool, index: u64) {
    let offset = WORDS + 8 * (index % 2);
    let value = [index as u8, 1, 2, 3, 4, 5, 6, 7];
    expect(duel, !from_card, offset, u64::from_le_bytes(value));
    if from_card {
        let (remote_addr, rkey) = (MODEL_VA + offset, duel.key);
        let wr = SendWr {
            wr_id: index,
            op: SendOp::AtomicWrite { remote_addr, rkey },
            flags: SendFlags::SIGNALED,
            data: WrData::Inline(&value),
        };
        return duel.qp.post_send(&[wr]).unwrap();
    }
    let (va, rkey) = (WORDS_VA + offset, duel.mr.rkey());
    let request = SendRequest::new(index, Op::AtomicWrite { va, rkey, value }, Vec::new());
    duel.opposite.model.post_send(duel.qpn, request);
}

/// REL-13, KEY-31: by either: an address that is not aligned, and a region in which nobody may write.
#[test]
fn atomic_writes_that_are_refused() {
    for (aligned, status) in [(false, WcStatus::RemInvReqErr), (true, WcStatus::RemAccessErr)] {
        let mut duel = duel(&OppositeConfig::new(67, LinkKind::Ethernet), 16);
        if aligned {
            let rights = Access::LOCAL_WRITE | Access::REMOTE_ATOMIC;
            let place = Place::whole(duel.arena.buf(), rights, WORDS_VA);
            duel.mr = duel.opposite.node.register(duel.arena.buf(), place).unwrap();
        }
        let va = WORDS_VA + WORDS + if aligned { 0 } else { 4 };
        let (rkey, value) = (duel.mr.rkey(), [7; 8]);
        let request = SendRequest::new(1, Op::AtomicWrite { va, rkey, value }, Vec::new());
        duel.opposite.model.post_send(duel.qpn, request);
        assert_eq!(duel.model_wait().status, status, "by the card");
        duel.opposite.run(10_000);
        duel.check_memory("refused by the card");
    }
    for (aligned, status) in [(false, WcStatus::RemInvReqErr), (true, WcStatus::RemAccessErr)] {
        let mut duel = duel(&OppositeConfig::new(68, LinkKind::Ethernet), 16);
        let bytes = duel.model_expected.clone();
        let rights = ModelAccess::LOCAL | ModelAccess::REMOTE_ATOMIC;
        let rights = if aligned { rights } else { ModelAccess::ALL };
        let rkey = duel
            .opposite
            .model
            .with(|model| model.register(0, MODEL_VA, bytes, rights));
        let remote_addr = MODEL_VA + WORDS + if aligned { 0 } else { 4 };
        let wr = SendWr {
            wr_id: 1,
            op: SendOp::AtomicWrite { remote_addr, rkey },
            flags: SendFlags::SIGNALED,
            data: WrData::Inline(&[7; 8]),
        };
        duel.qp.post_send(&[wr]).unwrap();
        assert_eq!(duel.wait().status, status, "by the model");
        duel.check_memory("refused by the model");
    }
}

fn flush(duel: &mut Duel, from_card: bool, index: u64, (placement, selectivity): (u8, u8)) {
    let offset = WORDS + 100 * index;
    if from_card {
        let flush = Flush {
            remote_addr: MODEL_VA + offset,
            rkey: duel.key,
            length: 700,
            placement,
            whole_region: selectivity == 1,
        };
        let wr = SendWr {
            wr_id: index,
            op: SendOp::Flush(flush),
            flags: SendFlags::SIGNALED,
            data: WrData::Sges(&[]),
        };
        return duel.qp.post_send(&[wr]).unwrap();
    }
    let op = Op::Flush {
        va: WORDS_VA + offset,
        rkey: duel.mr.rkey(),
        len: 700,
        placement,
        selectivity,
    };
    let request = SendRequest::new(index, op, Vec::new());
    duel.opposite.model.post_send(duel.qpn, request);
}

/// Annex A19: FLUSHes among atomics, in both roles, with each packet lost in turn.
#[test]
fn flushes_in_both_roles() {
    for (from_card, lost) in (0..6).flat_map(|lost| [(true, lost), (false, lost)]) {
        let mut duel = duel(&OppositeConfig::new(69, BOTH_LINKS[lost % 2]), [1, 16][lost % 2]);
        let mut number = 0;
        let way = [Way::In, Way::Out][lost / 2 % 2];
        duel.opposite.model.set_filter(move |found, _| {
            number += usize::from(found == way);
            !(found == way && number == lost)
        });
        for index in 0..ATOMICS {
            if index % 2 == 0 {
                flush(&mut duel, from_card, index, (1, (index / 2 % 2) as u8));
            } else {
                post(&mut duel, from_card, index);
            }
        }
        for index in 0..ATOMICS {
            let (opcode, byte_len) = if from_card {
                let wc = duel.wait_ok(index);
                (wc.opcode, wc.byte_len)
            } else {
                let wc = duel.model_ok(index);
                (wc.opcode, wc.byte_len)
            };
            assert_eq!(opcode == WcOpcode::Flush, index % 2 == 0, "{index}");
            assert_eq!(byte_len, if index % 2 == 0 { 0 } else { 8 }, "{index}");
        }
        duel.opposite.run(20_000);
        duel.check_memory(&format!("packet {lost}, from the card: {from_card}"));
        // It does not see what is lost at the model.
        if lost == 0 {
            duel.opposite.judge.verdict().unwrap();
        }
    }
}

/// REL-13, KEY-31: what there is not is an invalid request, what nobody has is refused; by either.
#[test]
fn flushes_that_are_refused() {
    for (how, status) in [
        ((0, 0), WcStatus::RemInvReqErr),
        ((4, 0), WcStatus::RemInvReqErr),
        ((1, 2), WcStatus::RemInvReqErr),
        ((1, 3), WcStatus::RemInvReqErr),
        ((2, 0), WcStatus::RemAccessErr),
        ((3, 1), WcStatus::RemAccessErr),
    ] {
        let mut duel = duel(&OppositeConfig::new(70, LinkKind::Ethernet), 16);
        flush(&mut duel, false, 1, how);
        assert_eq!(duel.model_wait().status, status, "{how:?} by the card");
    }
    for how in [(2, 0), (3, 1)] {
        let mut duel = duel(&OppositeConfig::new(70, LinkKind::InfiniBand), 16);
        flush(&mut duel, true, 1, how);
        assert_eq!(duel.wait().status, WcStatus::RemAccessErr, "{how:?} by the model");
    }
    for selectivity in [0, 1] {
        let mut duel = duel(&OppositeConfig::new(70, LinkKind::Ethernet), 16);
        let place = Place::whole(duel.arena.buf(), LOCAL_AND_REMOTE, WORDS_VA);
        duel.mr = duel.opposite.node.register(duel.arena.buf(), place).unwrap();
        flush(&mut duel, false, 1, (1, selectivity));
        assert_eq!(
            duel.model_wait().status,
            WcStatus::RemAccessErr,
            "the region has no right"
        );
    }
}

/// More at a time than there may be READs: a peer that does not count them, as soft-RoCE, is not refused.
#[test]
fn flushes_are_not_counted_by_the_card() {
    for kind in BOTH_LINKS {
        let mut duel = duel_of(&OppositeConfig::new(71, kind), 1, 16);
        for index in 0..40 {
            flush(&mut duel, false, index % 8, (1, 1));
        }
        for index in 0..40 {
            assert_eq!(duel.model_ok(index % 8).opcode, WcOpcode::Flush);
        }
    }
}
