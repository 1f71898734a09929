use super::*;

const GUID: u64 = 0x0202_00ff_fe00_0001;

fn space() -> ConfigSpace {
    ConfigSpace::new(&PcieParams::default(), GUID)
}

fn field(space: &ConfigSpace, at: usize, bytes: usize) -> u32 {
    let data = space.read(at as u64, bytes).unwrap();
    data.iter()
        .rev()
        .fold(0, |high, byte| high << 8 | u32::from(*byte))
}

/// Offset of a capability, by walking the list as an operating system does.
fn find(space: &ConfigSpace, id: u32) -> usize {
    let mut at = field(space, 0x34, 1) as usize;
    for _ in 0..48 {
        assert!(at >= 0x40 && at.is_multiple_of(4), "capability at {at:#x}");
        if field(space, at, 1) == id {
            return at;
        }
        at = field(space, at + 1, 1) as usize;
    }
    panic!("the list has no end");
}

#[test]
fn the_header_is_where_the_specification_puts_it() {
    let mut space = space();
    assert!(space.write(0, &[0xff; 0x40]).is_some());
    assert_eq!(field(&space, 0x00, 4), 0x0ca1_1234);
    assert_eq!(field(&space, 0x04, 2), 0x0546);
    assert_eq!(field(&space, 0x06, 2), 0x0010);
    assert_eq!(field(&space, 0x08, 4), 0x0207_0001);
    assert_eq!(field(&space, 0x0e, 1), 0, "one function");
    for (bar, mask) in [0xffff_0000, 0, 0xffff_f000, 0, 0, 0].into_iter().enumerate() {
        assert_eq!(field(&space, 0x10 + 4 * bar, 4), mask, "BAR {bar}");
    }
    assert_eq!(field(&space, 0x2c, 4), 0x0ca1_1234);
    assert_eq!(field(&space, 0x30, 4), 0, "no ROM");
    assert_eq!(field(&space, 0x3c, 2), 0x00ff, "a line, but no pin");
    space.reset();
    assert_eq!(field(&space, 0x04, 2), 0);
}

#[test]
fn capabilities_are_in_a_list_and_say_what_is_there() {
    let mut space = space();
    let power = find(&space, 0x01);
    assert_eq!(field(&space, power + 2, 2), 3, "version 3, no D1, no D2, no PME");
    assert_eq!(field(&space, power + 4, 2), 8, "D0, no soft reset");
    let msix = find(&space, 0x11);
    assert_eq!(field(&space, msix + 2, 2), 31);
    assert_eq!(
        (field(&space, msix + 4, 4), field(&space, msix + 8, 4)),
        (2, 0x802)
    );
    let express = find(&space, 0x10);
    assert_eq!(field(&space, express + 2, 2), 2, "version 2, endpoint");
    assert_eq!(field(&space, express + 4, 4), 0x1000_8021);
    assert_eq!(field(&space, express + 0x0c, 4), 0x0040_0084, "16 GT/s, 8 lanes");
    assert_eq!(field(&space, express + 0x12, 2), 0x1084);
    assert_eq!(field(&space, express + 0x2c, 4), 0x1e);
    assert_eq!(field(&space, express + 0x30, 2), 4);
    assert_eq!(
        field(&space, express + 1, 1),
        0,
        "the last one, in front of {:#x}",
        express + 0x3c
    );
    assert!(express + 0x3c <= 0x100);
    assert_eq!(field(&space, 0x100, 4), 0x0001_0003);
    assert_eq!(
        (field(&space, 0x104, 4), field(&space, 0x108, 4)),
        (0xfe00_0001, 0x0202_00ff)
    );
    // Nothing of it but the control bits changes.
    let before = space.bytes.clone();
    assert!(space.write(0x40, &[0xff; 0xfc0]).is_some());
    let changed = (0..CONFIG_BYTES).filter(|at| space.bytes[*at] != before[*at]);
    let controls = [
        power + 4,
        msix + 3,
        express + 8,
        express + 9,
        express + 0x10,
        express + 0x30,
    ];
    assert!(changed.into_iter().all(|at| controls.contains(&at)));
}

#[test]
fn links_are_as_fast_as_the_model() {
    for (mbps, found) in [
        (1_000, (1, 8)),
        (7_880, (3, 8)),
        (16_000, (4, 8)),
        (32_000, (5, 8)),
        (64_000, (5, 16)),
        (u32::MAX, (5, 16)),
    ] {
        assert_eq!(link(mbps), found, "{mbps} MB/s");
    }
}

#[test]
fn power_command_and_masks_do_what_they_say() {
    let mut space = space();
    let (power, msix) = (find(&space, 0x01) as u64 + 4, find(&space, 0x11) as u64 + 2);
    let write = |space: &mut ConfigSpace, at: u64, value: u16| space.write(at, &value.to_le_bytes()).unwrap();
    assert!(!space.decodes_memory() && !space.masters_bus());
    write(&mut space, 4, 2);
    assert!(space.decodes_memory() && !space.masters_bus());
    write(&mut space, 4, 6);
    assert!(space.decodes_memory() && space.masters_bus());
    // D1 and D2 are not there.
    for (state, on) in [(1, true), (3, false), (2, false), (0, true)] {
        write(&mut space, power, state);
        assert_eq!(
            (space.decodes_memory(), space.masters_bus()),
            (on, on),
            "D{state}"
        );
    }
    for (control, masks) in [(0x4000, false), (0x8000, false), (0xc000, true), (0, false)] {
        write(&mut space, msix, control);
        assert_eq!(space.masks_vectors(), masks, "{control:#x}");
    }
}

#[test]
fn flr_starts_by_its_bit_whatever_the_width_of_the_write() {
    let mut space = space();
    let control = find(&space, 0x10) as u64 + 8;
    let writes: [(u64, &[u8], bool); 6] = [
        (control, &[0x10, 0x28], false),
        (control, &[0x10, 0xa8], true),
        (control + 1, &[0x80], true),
        (control, &[0x80], false),
        (control, &[0, 0x80, 0, 0], true),
        (control + 2, &[0, 0x80], false),
    ];
    for (at, data, flr) in writes {
        assert_eq!(space.write(at, data), Some(Written { flr }), "{at:#x} {data:x?}");
        assert_eq!(field(&space, control as usize, 2) & 0x8000, 0, "reads as zero");
    }
}

#[test]
fn accesses_beyond_the_end_are_refused() {
    let mut space = space();
    for (offset, count) in [(4093, 4), (4096, 1), (u64::MAX, 1), (0, 4097), (4095, usize::MAX)] {
        assert!(space.read(offset, count).is_none(), "{offset:#x}");
    }
    assert!(space.write(4095, &[0; 2]).is_none() && space.write(u64::MAX, &[0]).is_none());
    assert_eq!(space.read(0, CONFIG_BYTES).map(<[u8]>::len), Some(CONFIG_BYTES));
}

#[test]
fn a_card_without_a_guid_has_no_serial_number() {
    let space = ConfigSpace::new(&PcieParams::default(), 0);
    assert_eq!(field(&space, 0x100, 4), 0);
}
