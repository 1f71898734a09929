//! Notices and traps, on a clock of numbers.

use super::*;
use crate::mad::{u32_at, u64_at};

const CA: u8 = 1;

fn kept(sm_lid: u16, subnet_timeout: u8) -> Kept {
    Kept {
        sm_lid,
        subnet_timeout,
        ..*crate::Agent::new().kept()
    }
}

fn number(mad: &Mad) -> u16 {
    u16_at(mad, NOTICE + 4)
}

fn repress_of(mad: &Mad) -> Mad {
    let mut repress = *mad;
    repress[3] = method::TRAP_REPRESS;
    repress
}

/// MGMT-6: a trap goes at once, again after each SubnetTimeOut, and no more once it is repressed.
#[test]
fn a_trap_goes_until_it_is_repressed() {
    let (mut notices, kept) = (Notices::new(), kept(3, 18));
    let interval_us = (4_096 << 18) / 1_000;
    assert_eq!(notices.due_us(&kept), None);
    notices.raise_local(local_change(9, 0x1234_5678, 0));
    assert_eq!(notices.due_us(&kept), Some(0));
    let first = notices.next(5, &kept, 9, CA).unwrap();
    assert_eq!((first[0], first[1], first[2], first[3]), (1, 1, 1, 5));
    assert_eq!((first[NOTICE], number(&first)), (0x84, 144));
    assert_eq!((u16_at(&first, NOTICE + 6), u16_at(&first, DETAILS + 2)), (9, 9));
    assert_eq!(u32_at(&first, DETAILS + 6), 0x1234_5678);
    assert_eq!(notices.due_us(&kept), Some(5 + interval_us));
    assert_eq!(notices.next(4 + interval_us, &kept, 9, CA), None);
    assert_eq!(notices.next(5 + interval_us, &kept, 9, CA), Some(first));
    // Another event of the kind: who represses the one before has not heard of it.
    notices.raise_local(local_change(9, 2, 0));
    notices.repress(&repress_of(&first));
    let second = notices.next(6 + 2 * interval_us, &kept, 9, CA).unwrap();
    assert_eq!(u32_at(&second, DETAILS + 6), 2);
    notices.repress(&repress_of(&second));
    assert_eq!(notices.due_us(&kept), None);
}

/// MGMT-6: traps in a flood go one by one, each kind in its turn; without a subnet manager none goes.
#[test]
fn a_flood_is_told_at_the_rate_that_is_allowed() {
    let (mut notices, with, without) = (Notices::new(), kept(3, 0), kept(0, 0));
    let mut told = std::vec::Vec::new();
    for now_us in 0..1_000_000 {
        notices.raise(Trap::BadMkey, bad_mkey(&[1; MAD_BYTES], 7));
        notices.raise(Trap::BadPkey, bad_key(6, 9, 5));
        assert_eq!(notices.next(now_us, &without, 9, CA), None);
        told.extend(notices.next(now_us, &with, 9, CA).map(|mad| number(&mad)));
    }
    assert_eq!(told.len(), 100);
    assert_eq!(told.iter().filter(|number| **number == 256).count(), 50);
}

/// KEY-3: who has named a wrong M_Key is told of with what it has asked for, and how it came.
#[test]
fn a_bad_mkey_is_told_of() {
    let mut mad = [0; MAD_BYTES];
    (mad[1], mad[3], mad[7]) = (class::SM_DIRECTED, method::SET, 40);
    put_u16(&mut mad, 16, 0x15);
    put_u32(&mut mad, 20, 0x0102_0304);
    put_u64(&mut mad, 24, 0xbad);
    put_u16(&mut mad, 32, 0xffff);
    (192..256).for_each(|at| mad[at] = at as u8);
    let details = bad_mkey(&mad, 0xffff);
    assert_eq!((u16_at(&details, 2), u16_at(&details, 4)), (0xffff, 0xffff));
    assert_eq!(
        (details[6], u16_at(&details, 8), u32_at(&details, 10)),
        (2, 0x15, 0x0102_0304)
    );
    assert_eq!(u64_at(&details, 14), 0xbad);
    assert_eq!(details[23], 0x80 | 0x40 | 30, "more hops than it has room for");
    assert_eq!(details[24..], mad[193..223]);
    mad[1] = class::SM_LID;
    let details = bad_mkey(&mad, 7);
    assert_eq!((u16_at(&details, 2), u16_at(&details, 4), details[23]), (7, 0, 0));
}

/// The queue of notices: a Get shows its first and how many there are, a Set takes it out.
#[test]
fn the_queue_is_read() {
    let mut notices = Notices::new();
    let mut mad = [0xff; MAD_BYTES];
    notices.attribute(&mut mad, false, 9, CA);
    assert_eq!(mad[NOTICE..NOTICE + 64], [0; 64]);
    notices.raise(Trap::BadPkey, bad_key(6, 9, 5));
    notices.raise(Trap::LinkState, link_state(9));
    notices.attribute(&mut mad, false, 9, CA);
    assert_eq!((number(&mad), u16_at(&mad, NOTICE + 8)), (128, 2));
    notices.attribute(&mut mad, true, 9, CA);
    assert_eq!((number(&mad), u16_at(&mad, NOTICE + 8)), (257, 1));
    notices.attribute(&mut mad, true, 9, CA);
    assert_eq!(number(&mad), 0);
}

/// KEY-15, KEY-23, MGMT-9: wrong P_Keys and Q_Keys are told of by kinds of their own: from whom, and for which QP.
#[test]
fn wrong_keys_are_told_of() {
    let mut agent = crate::Agent::new();
    agent.kept = kept(3, 0);
    agent.bad_key(crate::Key::Queue, 6, 9, 0x12_3456);
    agent.bad_key(crate::Key::Partition, 7, 9, 5);
    let told: [Mad; 2] = [1, 2].map(|n| agent.trap(n * 100_000, 9).unwrap());
    assert_eq!(
        told.map(|mad| (number(&mad), mad[NOTICE])),
        [(257, 0x82), (258, 0x82)]
    );
    let details = |mad: &Mad| {
        (
            u16_at(mad, DETAILS + 2),
            u16_at(mad, DETAILS + 4),
            u32_at(mad, DETAILS + 14),
        )
    };
    assert_eq!(details(&told[0]), (7, 9, 5));
    assert_eq!(details(&told[1]), (6, 9, 0x12_3456));
}
