//! Registers, the MSI-X BAR and the configuration space by messages of every length.

use crate::client::{Client, GUID, Simulator, memory, page_map};
use hca_regs as reg;
use hca_vfio_user::{Command, region};

/// A register of 64 bits that keeps what is written.
const KEEPS: u64 = reg::FUNC_ADMIN_SQ_BASE_LO as u64;

/// Enables the function (bit 0), resets it (bit 1).
const CONTROL: u64 = reg::FUNC_CONTROL as u64;

/// Every length at every offset: those that a processor makes are done, byte by byte, the others are refused.
#[test]
fn registers_are_read_and_written_in_every_width() {
    let sim = Simulator::start();
    let mut client = sim.connect("core");
    let mut expected = [0u8; 8];
    client.write(region::BAR0, KEEPS, &expected).unwrap();
    for round in 0..2u8 {
        for len in 0..=9usize {
            for at in 0..8usize {
                let data: Vec<u8> = (0..len as u8)
                    .map(|i| 16 * len as u8 + 2 * at as u8 + i + round)
                    .collect();
                let fits = [1, 2, 4, 8].contains(&len) && at.is_multiple_of(len);
                let written = client.write(region::BAR0, KEEPS + at as u64, &data);
                let read = client.read(region::BAR0, KEEPS + at as u64, len as u32);
                if fits {
                    expected[at..at + len].copy_from_slice(&data);
                    assert_eq!((written, read), (Ok(()), Ok(data)), "{len} bytes at {at}");
                } else {
                    assert_eq!(
                        (written, read),
                        (Err(libc::EINVAL), Err(libc::EINVAL)),
                        "{len} bytes at {at}"
                    );
                }
                assert_eq!(
                    client.read(region::BAR0, KEEPS, 8).unwrap(),
                    expected,
                    "{len} bytes at {at}"
                );
            }
        }
    }
    let id = client.read(region::BAR0, 0, 8).unwrap();
    let words = [reg::FUNC_ID_VALUE_FIXED, reg::FUNC_ABI_VERSION_VALUE_FIXED]
        .map(u32::to_le_bytes)
        .concat();
    assert_eq!(id, words);
}

#[test]
fn accesses_outside_are_refused() {
    let sim = Simulator::start();
    let mut client = sim.connect("core");
    let ends = [
        (region::BAR0, 0x1_0000),
        (region::BAR2, 0x1000),
        (region::CONFIG, 0x1000),
    ];
    for (index, end) in ends {
        assert!(client.read(index, end - 8, 8).is_ok() && client.write(index, end - 1, &[0]).is_ok());
        for (offset, count) in [
            (end, 1),
            (end, 4),
            (end + 4, 4),
            (u64::MAX - 3, 4),
            (1 << 32, 4),
            (end - 2, 4),
        ] {
            assert_eq!(
                client.read(index, offset, count),
                Err(libc::EINVAL),
                "{index}: {offset:#x}"
            );
            assert_eq!(
                client.write(index, offset, &[0; 4][..count as usize]),
                Err(libc::EINVAL)
            );
        }
        assert_eq!(client.read(index, 0, u32::MAX), Err(libc::EINVAL));
    }
    for index in [1, 3, region::BAR4, 5, 6, 8, 9, u32::MAX] {
        assert_eq!(client.read(index, 0, 4), Err(libc::EINVAL), "region {index}");
        assert_eq!(
            client.write(index, 0, &[0; 4]),
            Err(libc::EINVAL),
            "region {index}"
        );
    }
    // A length that is not that of the data.
    let mut payload = hca_vfio_user::RegionAccess {
        region: region::BAR0,
        offset: KEEPS,
        count: 8,
    }
    .encode(&[0; 4]);
    assert_eq!(
        client.ask(Command::RegionWrite, &payload, &[]).err(),
        Some(libc::EINVAL)
    );
    payload.truncate(15);
    assert_eq!(
        client.ask(Command::RegionWrite, &payload, &[]).err(),
        Some(libc::EINVAL)
    );
    assert_eq!(
        client.ask(Command::RegionRead, &payload, &[]).err(),
        Some(libc::EINVAL)
    );
}

/// As `lspci` does: every capability, the extended ones, and the whole at once.
#[test]
fn the_configuration_space_is_walked() {
    let sim = Simulator::start();
    let mut client = sim.connect("core");
    let whole = client.read(region::CONFIG, 0, 4096).unwrap();
    assert_eq!(whole.len(), 4096);
    for len in [1, 2, 4, 8] {
        let pieces = (0..4096)
            .step_by(len)
            .map(|at| client.read(region::CONFIG, at, len as u32).unwrap());
        assert_eq!(pieces.collect::<Vec<_>>().concat(), whole);
    }
    let [power, msix, express] = [0x01, 0x11, 0x10].map(|id| client.capability(id));
    assert_eq!(client.config(power + 2, 2) & 7, 3);
    assert_eq!(client.config(msix + 2, 2) & 0x7ff, 31);
    assert_eq!(client.config(express + 2, 2) & 0xff, 2);
    assert_eq!(
        client.config(express + 0x12, 2) & 0x3ff,
        client.config(express + 0x0c, 4) & 0x3ff
    );
    assert_eq!(client.config(0x100, 4), 0x0001_0003);
    let serial = u64::from(client.config(0x108, 4)) << 32 | u64::from(client.config(0x104, 4));
    assert_eq!(serial, u64::from_be_bytes(GUID));
    // Sizes of BARs, for who asks himself.
    for (bar, mask) in [
        (0u64, 0xffff_0000u32),
        (1, 0),
        (2, 0xffff_f000),
        (3, 0),
        (4, 0),
        (5, 0),
    ] {
        client.write(region::CONFIG, 0x10 + 4 * bar, &[0xff; 4]).unwrap();
        assert_eq!(client.config(0x10 + 4 * bar, 4), mask);
    }
}

/// A reset of any kind leaves registers and configuration as new; what is mapped stays.
#[test]
fn the_function_is_reset_by_message_and_by_configuration() {
    let sim = Simulator::start();
    let mut client = sim.connect("core");
    let guest = memory(1);
    client.map(page_map(0, 0, 3), guest.fd()).unwrap();
    let express = client.capability(0x10);
    type Reset = fn(&mut Client, u64);
    let resets: [Reset; 2] = [
        |client, _| drop(client.ask(Command::DeviceReset, &[], &[]).unwrap()),
        |client, express| client.write(region::CONFIG, express + 8, &[0x10, 0xa8]).unwrap(),
    ];
    for reset in resets {
        client.enable(6);
        client.write(region::BAR0, CONTROL, &[1, 0, 0, 0]).unwrap();
        assert_eq!(client.read(region::BAR0, CONTROL, 4), Ok(vec![1, 0, 0, 0]));
        client.write(region::CONFIG, 0x10, &[0, 0, 0xaa, 0xbb]).unwrap();
        reset(&mut client, express);
        assert_eq!((client.config(4, 2), client.config(0x10, 4)), (0, 0));
        client.enable(6);
        // The firmware resets the function, which takes some time; it is disabled at once.
        let found = (0..10_000).find(|_| client.read(region::BAR0, CONTROL, 4).unwrap() == [0; 4]);
        assert!(found.is_some(), "the function is as it was");
        assert_eq!(client.map(page_map(0, 0, 3), guest.fd()), Err(libc::EEXIST));
    }
}

#[test]
fn a_function_that_is_off_neither_answers_nor_reaches_memory() {
    let sim = Simulator::start();
    let mut client = sim.connect("probe0");
    let guest = memory(1);
    client.map(page_map(0, 0, 3), guest.fd()).unwrap();
    let power = client.capability(0x01) + 4;
    let id = client.read(region::BAR0, 0, 4).unwrap();
    assert!(client.sends(0));
    // Memory space, bus master, power: what answers, and what reaches memory.
    for (command, state, answers, reaches) in [
        (6, 0, true, true),
        (2, 0, true, false),
        (4, 0, false, true),
        (0, 0, false, false),
        (6, 3, false, false),
    ] {
        client.enable(command);
        client.write(region::CONFIG, power, &[state, 0]).unwrap();
        let found = client.read(region::BAR0, 0, 4).unwrap();
        assert_eq!(found == id, answers, "command {command}, D{state}");
        assert_eq!(found == [0xff; 4], !answers);
        assert_eq!(client.read(region::BAR2, 0, 8).unwrap() == [0xff; 8], !answers);
        if answers {
            assert_eq!(client.sends(0), reaches, "command {command}, D{state}");
        } else {
            client
                .write(region::BAR0, 0x1000, &(512u64 << 48).to_le_bytes())
                .unwrap();
        }
    }
    // Power that comes back finds everything as it was.
    client.write(region::CONFIG, power, &[0, 0]).unwrap();
    assert_eq!(client.config(4, 2), 6);
    assert!(client.sends(0));
}
