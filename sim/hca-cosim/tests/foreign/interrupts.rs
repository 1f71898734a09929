//! Interrupts: eventfds, masks, the table and the pending bits.

use crate::client::{ARRIVED, Client, SOON_MS, Simulator, count, memory, page_map};
use hca_vfio_user::{DmaMap, SetIrqs, eventfd, irq, irq_data, region};
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};

const PENDING: u64 = 0x800;

fn set(flags: u32, start: u32, count: u32) -> SetIrqs {
    SetIrqs {
        flags,
        index: irq::MSIX,
        start,
        count,
    }
}

/// Fires the vectors of a range, and says which of the eventfds were told.
fn told(client: &mut Client, eventfds: &[OwnedFd]) -> Vec<usize> {
    client
        .set_irqs(set(irq_data::NONE | irq_data::TRIGGER, 0, 32), &[], &[])
        .unwrap();
    // It has been done when it is answered.
    (0..eventfds.len())
        .filter(|i| count(&eventfds[*i], 0) != 0)
        .collect()
}

#[test]
fn eventfds_are_given_and_taken_in_any_part() {
    let sim = Simulator::start();
    let mut client = sim.connect("core");
    let eventfds: Vec<OwnedFd> = (0..32).map(|_| eventfd().unwrap()).collect();
    let fds: Vec<BorrowedFd<'_>> = eventfds.iter().map(|fd| fd.as_fd()).collect();
    const GIVE: u32 = irq_data::EVENTFD | irq_data::TRIGGER;
    assert_eq!(told(&mut client, &eventfds), [] as [usize; 0]);
    // In pieces of sixteen, as QEMU does.
    for start in [0, 16] {
        let piece = &fds[start..start + 16];
        client.set_irqs(set(GIVE, start as u32, 16), &[], piece).unwrap();
    }
    assert_eq!(told(&mut client, &eventfds), (0..32).collect::<Vec<_>>());
    client.set_irqs(set(GIVE, 4, 20), &[], &[]).unwrap();
    assert_eq!(
        told(&mut client, &eventfds),
        (0..4).chain(24..32).collect::<Vec<_>>()
    );
    // With numbers: -1 takes one away.
    let numbers = [0i32, -1, 2, -1].map(i32::to_le_bytes).concat();
    client
        .set_irqs(set(GIVE, 0, 4), &numbers, &[fds[0], fds[2]])
        .unwrap();
    assert_eq!(
        told(&mut client, &eventfds),
        [0, 2].into_iter().chain(24..32).collect::<Vec<_>>()
    );
    client.set_irqs(set(GIVE, 24, 8), &[0xff; 32], &[]).unwrap();
    assert_eq!(told(&mut client, &eventfds), [0, 2]);
    client
        .set_irqs(set(irq_data::BOOL | irq_data::TRIGGER, 0, 3), &[0, 1, 1], &[])
        .unwrap();
    assert_eq!((count(&eventfds[0], 0), count(&eventfds[2], 0)), (0, 1));
    client
        .set_irqs(set(irq_data::NONE | irq_data::TRIGGER, 0, 0), &[], &[])
        .unwrap();
    assert_eq!(told(&mut client, &eventfds), [] as [usize; 0]);
}

#[test]
fn what_has_no_meaning_is_refused() {
    let sim = Simulator::start();
    let mut client = sim.connect("core");
    let fd = eventfd().unwrap();
    let (none, boolean, event) = (irq_data::NONE, irq_data::BOOL, irq_data::EVENTFD);
    let trigger = irq_data::TRIGGER;
    let wrong: [(SetIrqs, &[u8], usize); 14] = [
        (set(event | trigger, 31, 2), &[], 2),
        (set(event | trigger, u32::MAX, 2), &[], 2),
        (set(event | trigger, 0, 2), &[], 1),
        (set(event | trigger, 0, 1), &[0xff; 4], 1),
        (set(event | trigger, 0, 2), &[0; 4], 1),
        (set(event | irq_data::MASK, 0, 1), &[], 1),
        (set(event | none | trigger, 0, 1), &[], 1),
        (set(none | trigger | irq_data::MASK, 0, 1), &[], 0),
        (set(none, 0, 1), &[], 0),
        (set(trigger, 0, 1), &[], 0),
        (set(boolean | trigger, 0, 3), &[1, 1], 0),
        (set(none | trigger | 0x100, 0, 1), &[], 0),
        (
            SetIrqs {
                index: 0,
                ..set(none | trigger, 0, 1)
            },
            &[],
            0,
        ),
        (
            SetIrqs {
                index: irq::ERR,
                ..set(none | irq_data::MASK, 0, 1)
            },
            &[],
            0,
        ),
    ];
    for (set, data, fds) in wrong {
        let refused = client.set_irqs(set, data, &vec![fd.as_fd(); fds]);
        assert_eq!(refused, Err(libc::EINVAL), "{set:?} {data:?} {fds}");
    }
}

/// The other card's bytes arrive, which raises a vector.
fn arrives(from: &mut Client, to: &mut Client) {
    let before = to.config(0, 4);
    let word = 512u64 << 48;
    from.write(region::BAR0, 0x1000, &word.to_le_bytes()).unwrap();
    // The sender's reads take simulated time, and far more of it than the cable.
    for _ in 0..200 {
        from.read_errors();
    }
    assert_eq!(to.config(0, 4), before);
}

#[test]
fn a_masked_vector_waits() {
    let sim = Simulator::start();
    let (mut from, mut to) = (sim.connect("probe0"), sim.connect("probe1"));
    let (source, target) = (memory(1), memory(4));
    from.map(page_map(0, 0, 3), source.fd()).unwrap();
    let all = DmaMap {
        size: 4 * 4096,
        ..page_map(0, 0, 3)
    };
    to.map(all, target.fd()).unwrap();
    to.receives_at(0);
    let eventfd = to.listen(ARRIVED);
    let msix = to.capability(0x11) + 2;
    let control = 16 * ARRIVED as u64 + 12;
    assert_eq!(
        to.read(region::BAR2, control, 4),
        Ok(vec![1, 0, 0, 0]),
        "masked after a reset"
    );
    arrives(&mut from, &mut to);
    assert_eq!(count(&eventfd, SOON_MS), 1, "but only once that was written");
    type Mask = fn(&mut Client, bool, u64, u64);
    let masks: [(&str, Mask); 4] = [
        ("by message", |to, on, _, _| {
            let action = if on { irq_data::MASK } else { irq_data::UNMASK };
            to.set_irqs(set(irq_data::NONE | action, 0, 32), &[], &[])
                .unwrap();
        }),
        ("one of many", |to, on, _, _| {
            let action = if on { irq_data::MASK } else { irq_data::UNMASK };
            to.set_irqs(set(irq_data::BOOL | action, 0, 3), &[0, 1, 0], &[])
                .unwrap();
        }),
        ("by the table", |to, on, control, _| {
            to.write(region::BAR2, control, &u32::from(on).to_le_bytes())
                .unwrap();
        }),
        ("all by the capability", |to, on, _, msix| {
            let value = if on { 0xc000u16 } else { 0x8000 };
            to.write(region::CONFIG, msix, &value.to_le_bytes()).unwrap();
        }),
    ];
    for (how, mask) in masks {
        mask(&mut to, true, control, msix);
        arrives(&mut from, &mut to);
        arrives(&mut from, &mut to);
        assert_eq!(count(&eventfd, 0), 0, "{how}");
        assert_eq!(
            to.read(region::BAR2, PENDING, 8),
            Ok(vec![2, 0, 0, 0, 0, 0, 0, 0]),
            "{how}"
        );
        to.write(region::BAR2, PENDING, &[0; 8]).unwrap();
        mask(&mut to, false, control, msix);
        assert_eq!(count(&eventfd, SOON_MS), 1, "{how}");
        assert_eq!(to.read(region::BAR2, PENDING, 1), Ok(vec![0]), "{how}");
        arrives(&mut from, &mut to);
        assert_eq!(count(&eventfd, SOON_MS), 1, "{how}");
    }
}

/// The table keeps what is written, in every width, but for what is fixed.
#[test]
fn the_table_is_memory() {
    let sim = Simulator::start();
    let mut client = sim.connect("core");
    for vector in [0u64, 31] {
        client.write(region::BAR2, 16 * vector, &[0xff; 8]).unwrap();
        client.write(region::BAR2, 16 * vector + 8, &[0xff; 4]).unwrap();
        for at in 12..16 {
            client.write(region::BAR2, 16 * vector + at, &[0xfe]).unwrap();
        }
        let entry: Vec<u8> = (0..2)
            .flat_map(|i| client.read(region::BAR2, 16 * vector + 8 * i, 8).unwrap())
            .collect();
        assert_eq!(entry, [&[0xfc][..], &[0xff; 11], &[0; 4]].concat());
    }
    client.write(region::BAR2, 16 * 32, &[0xff; 8]).unwrap();
    assert_eq!(
        client.read(region::BAR2, 16 * 32, 8),
        Ok(vec![0; 8]),
        "behind the last entry"
    );
}

#[test]
fn a_card_that_breaks_says_so() {
    let sim = Simulator::start();
    let mut client = sim.connect("probe0");
    let fd = eventfd().unwrap();
    let listen = SetIrqs {
        index: irq::ERR,
        ..set(irq_data::EVENTFD | irq_data::TRIGGER, 0, 1)
    };
    client.set_irqs(listen, &[], &[fd.as_fd()]).unwrap();
    // The test card reads as many bytes as it is told; none is not a length.
    client.write(region::BAR0, 0x1000, &[0; 8]).unwrap();
    assert_eq!(count(&fd, SOON_MS), 1);
}
