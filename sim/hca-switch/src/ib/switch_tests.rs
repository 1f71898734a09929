//! The VL of a packet, and what a switch may be made of.

use super::*;
use hca_wire::crc;

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
