//! What QPs are told beside their attributes.

use super::udp_source_port;

/// Values worked out by hand from the formula.
#[test]
fn source_ports_follow_the_flow_label() {
    assert_eq!(udp_source_port(1, 2, 3), 0xc001);
    assert_eq!(udp_source_port(0xf_ffff, 2, 3), 0xffc0);
    assert_eq!(udp_source_port(0x4000, 2, 3), 0xc001);
    assert_eq!(udp_source_port(0, 0x12, 0x34), 0xc3a8);
    // 0x1000 x 0x1001 = 0x1001000, folded to 0x1000 ^ 0x10.
    assert_eq!(udp_source_port(0, 0x1000, 0x1001), 0xd010);
    for (qpn, dest) in [(0x12, 0x34), (0xff_ffff, 0xff_fffe), (2, 0x77)] {
        assert_eq!(udp_source_port(0, qpn, dest), udp_source_port(0, dest, qpn));
    }
}

/// The QPs of two cards that connect in the order of their making are spread over seven ways.
#[test]
fn source_ports_spread() {
    let mut ways = [0u32; 7];
    for qpn in 2..1026 {
        let port = udp_source_port(0, qpn, qpn + 37);
        assert!(port >= 0xc000);
        ways[usize::from(port % 7)] += 1;
    }
    assert!(ways.iter().all(|count| (100..200).contains(count)), "{ways:?}");
}
