//! Clients that are not ours, such as QEMU: the protocol from its greeting on, message by message. The server is in
//! this process, so that its mappings can be counted.

mod client;
mod interrupts;
mod memory;
mod regions;

use client::{Client, Simulator, qemu};
use hca_models as _;
use hca_vfio_user::{
    Capabilities, Command, IoEventFd, IrqInfo, RegionInfo, decode_version, encode_version, region,
};

#[test]
fn the_greeting_is_answered_with_the_less_able_of_both() {
    let sim = Simulator::start();
    let greet = |minor, theirs: &Capabilities| {
        let mut client = Client::silent(sim.path("core"));
        let answer = client.ask(Command::Version, &encode_version(minor, theirs), &[])?;
        Ok::<_, i32>(decode_version(&answer.payload).unwrap())
    };
    for (asked, found) in [(0, 0), (1, 1), (7, 1), (u16::MAX, 1)] {
        assert_eq!(greet(asked, &qemu()).unwrap().1, found, "minor version {asked}");
    }
    let (.., found) = greet(0, &qemu()).unwrap();
    assert_eq!(
        (found.max_msg_fds, found.pgsizes, found.max_dma_maps),
        (16, 4096, 65_535)
    );
    assert_eq!(found.max_data_xfer_size, 32 << 10);
    assert!(!found.hca_shared_region && !found.hca_process_memory);
    let all = Capabilities {
        max_msg_fds: u32::MAX,
        max_data_xfer_size: u64::MAX,
        max_dma_maps: u64::MAX,
        pgsizes: u64::MAX,
        ..qemu()
    };
    let (.., found) = greet(0, &all).unwrap();
    assert_eq!((found.max_msg_fds, found.pgsizes), (64, !4095));
    assert!(found.max_dma_maps >= 2 * 262_144, "{}", found.max_dma_maps);
    let pgsizes = 2048;
    assert_eq!(greet(0, &Capabilities { pgsizes, ..qemu() }), Err(libc::EINVAL));
    // No capabilities at all, and another major version.
    let mut bare = Client::silent(sim.path("core"));
    assert!(bare.ask(Command::Version, &[0, 0, 0, 0], &[]).is_ok());
    drop(bare);
    let mut newer = Client::silent(sim.path("core"));
    assert_eq!(
        newer.ask(Command::Version, &[1, 0, 0, 0], &[]).err(),
        Some(libc::EPROTO)
    );
}

/// Every region and interrupt that the specification has a number for is answered, and what we share is shown to who
/// has asked for it only.
#[test]
fn all_regions_and_interrupts_are_described() {
    let sim = Simulator::start();
    for hca_shared_region in [false, true] {
        let theirs = Capabilities {
            hca_shared_region,
            ..qemu()
        };
        let (mut client, answer) = Client::with(&sim, "core", &theirs);
        answer.unwrap();
        let expected = [
            0x1_0000,
            0,
            0x1000,
            0,
            u64::from(hca_shared_region) * 0x8000,
            0,
            0,
            4096,
            0,
        ];
        for (index, size) in (0..).zip(expected) {
            let ask = RegionInfo {
                index,
                flags: 0,
                size: 0,
                offset: 0,
            };
            let answer = client
                .ask(Command::DeviceGetRegionInfo, &ask.encode(), &[])
                .unwrap();
            let found = RegionInfo::decode(&answer.payload).unwrap();
            let shared = index == region::BAR4 && hca_shared_region;
            let flags = match size {
                0 => 0,
                _ if shared => 7,
                _ => 3,
            };
            assert_eq!((found.index, found.size, found.flags), (index, size, flags));
            assert_eq!(answer.fds.len(), usize::from(shared));
            let answer = client
                .ask(Command::DeviceGetRegionIoFds, &IoEventFd::ask(index), &[])
                .unwrap();
            let found = IoEventFd::decode(&answer.payload).unwrap();
            assert_eq!((found.is_some(), answer.fds.len()), (shared, usize::from(shared)));
        }
        for (index, count, flags) in [(0, 0, 0), (1, 0, 0), (2, 32, 3), (3, 1, 1), (4, 0, 0)] {
            let ask = IrqInfo {
                index,
                flags: 0,
                count: 0,
            };
            let answer = client.ask(Command::DeviceGetIrqInfo, &ask.encode(), &[]).unwrap();
            assert_eq!(
                IrqInfo::decode(&answer.payload),
                Ok(IrqInfo { index, flags, count })
            );
        }
        for command in [
            Command::DeviceGetRegionInfo,
            Command::DeviceGetRegionIoFds,
            Command::DeviceGetIrqInfo,
        ] {
            let beyond = [0u32, 0, 99, 99, 0, 0, 0, 0].map(u32::to_le_bytes).concat();
            assert_eq!(client.ask(command, &beyond, &[]).err(), Some(libc::EINVAL));
            assert_eq!(client.ask(command, &[0; 7], &[]).err(), Some(libc::EINVAL));
        }
    }
}

/// What the specification has and we have not.
#[test]
fn what_is_not_supported_says_so() {
    let sim = Simulator::start();
    let mut client = sim.connect("core");
    let refused = [
        Command::DirtyPages,
        Command::RegionWriteMulti,
        Command::DeviceFeature,
        Command::MigDataRead,
        Command::MigDataWrite,
        Command::DmaRead,
        Command::DmaWrite,
        Command::Version,
    ];
    for command in refused {
        for payload in [&[][..], &[0; 16], &[0xff; 64]] {
            assert_eq!(
                client.ask(command, payload, &[]).err(),
                Some(libc::ENOTSUP),
                "{command:?}"
            );
        }
    }
    assert!(
        client.ask(Command::DeviceGetInfo, &[0; 16], &[]).is_ok(),
        "it goes on"
    );
}
