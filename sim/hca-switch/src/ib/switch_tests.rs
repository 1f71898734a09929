//! The VL of a packet, what a switch may be made of, and how long its manager lets packets wait.

use super::*;
use hca_agents::packet::{self, From, MAX_PACKET};
use hca_agents::{MAD_BYTES, Mad};
use hca_wire::{LID_PERMISSIVE, crc};

#[test]
fn another_vl_needs_another_vcrc() {
    let mut bytes = vec![0x30, 0x02, 0, 9, 0, 7, 0, 1];
    bytes.extend([0x55; 20]);
    bytes.extend(crc::vcrc(&bytes).to_be_bytes());
    let before = bytes.clone();
    set_vl(&mut bytes, 9);
    assert_eq!(bytes[0], 0x90);
    assert_eq!(bytes[1..28], before[1..28]);
    assert_eq!(bytes[28..], crc::vcrc(&bytes[..28]).to_be_bytes());
    set_vl(&mut bytes, 3);
    assert_eq!(bytes, before);
}

#[test]
fn configurations_are_checked() {
    let bad = |change: fn(&mut IbSwitchConfig)| {
        let mut config = IbSwitchConfig::new("sw0", 4);
        change(&mut config);
        IbSwitch::new(config).err().unwrap().to_string()
    };
    for (text, word) in [
        (bad(|config| config.ports = 0), "ports is 0"),
        (bad(|config| config.data_vls = 3), "3 data VLs"),
        (bad(|config| config.buffer_blocks = 8), "buffer of a VL"),
        (bad(|config| config.vl15_blocks = 2), "buffer of VL 15"),
        (bad(|config| config.fcp_max_cycles = 1), "fcp_max_cycles"),
        (bad(|config| config.mtu_bytes = 1500), "MTU"),
    ] {
        assert!(text.contains("sw0") && text.contains(word), "{text}");
    }
}

/// A datagram of subnet management, to whoever is there.
fn smp(mad: &Mad) -> Received {
    let to = From {
        slid: LID_PERMISSIVE,
        dlid: LID_PERMISSIVE,
        sl: 0,
        qpn: 0,
        src_qpn: 0,
        pkey: 0xffff,
        gids: None,
    };
    let mut out = [0; MAX_PACKET];
    let len = packet::write_answer(&to, LID_PERMISSIVE, |_| VL15, mad, &mut out);
    let mut bytes = out[..len].to_vec();
    bytes.extend(crc::icrc_ib_local(&bytes).to_be_bytes());
    bytes.extend(crc::vcrc(&bytes).to_be_bytes());
    let lrh = lrh::Repr::read(&bytes).unwrap();
    let blocks = hca_wire::blocks(bytes.len()) as u16;
    Received { bytes, lrh, blocks }
}

/// MGMT-5: HOQLife of PortInfo is how long packets wait at that port; until somebody has set it the switch's own
/// counts.
#[test]
fn mgmt_5_a_manager_sets_the_lifetime() {
    const MAD_AT: usize = 28;
    const HOQ_LIFE: usize = 64 + 42;
    for own in [None, Some(1_000), Some(1_024), Some(5_000)] {
        let mut switch = IbSwitch::new(IbSwitchConfig {
            hoq_life_cycles: own,
            is_managed: true,
            ..IbSwitchConfig::new("sw0", 3)
        })
        .unwrap();
        let mut ask = |method: u8, life: Option<u8>| {
            let mut mad = [0; MAD_BYTES];
            (mad[0], mad[1], mad[2], mad[3]) = (1, 0x81, 1, method);
            (mad[6], mad[7], mad[17], mad[23]) = (1, 1, 0x15, 2);
            mad[32..36].fill(0xff);
            mad[HOQ_LIFE] = life.unwrap_or(0);
            let (answer, _) = switch.manage(0, 1, smp(&mad)).unwrap();
            assert_eq!(answer.bytes[MAD_AT + 5], 0, "status");
            (
                answer.bytes[MAD_AT + HOQ_LIFE],
                [1, 2].map(|port| switch.hoq_life_cycles(port)),
            )
        };
        let code = match own {
            None => 31,
            Some(5_000) => 3,
            Some(_) => 0,
        };
        assert_eq!(ask(1, None), (code, [own; 2]));
        for (life, cycles) in [
            (0, Some(1_024)),
            (7, Some(1_024 << 7)),
            (19, Some(1_024 << 19)),
            (20, None),
            (31, None),
        ] {
            assert_eq!(ask(2, Some(life)), (life, [own, cycles]));
        }
        switch.restart(0, 1);
        assert_eq!(switch.hoq_life_cycles(2), own);
    }
}
