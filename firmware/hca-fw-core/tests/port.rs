//! What a port says of itself.

use std::rc::Rc;

use hca_abi::{ModifyPortCmd, QueryPortResult, port_attr, port_cap};
use hca_driver::{Function, OpenOptions};
use hca_fw_core::Identity;
use hca_lone::LoneCard;

const INFINIBAND: u8 = 1;
const ETHERNET: u8 = 2;

fn function(identity: Identity) -> Function<Rc<LoneCard>> {
    let dev = Rc::new(LoneCard::with(identity, |_| ()));
    Function::open(dev, &OpenOptions::simulated()).unwrap()
}

fn port(infiniband: bool, rate_mbps: u32) -> QueryPortResult {
    let identity = Identity {
        infiniband,
        rate_mbps,
        ..LoneCard::identity()
    };
    function(identity).query_port(1).unwrap()
}

/// Lanes of active_width and Mbit/s of active_speed, as verbs.h and E-6 say.
fn product(attr: &QueryPortResult) -> u32 {
    let lanes = match attr.active_width() {
        1 => 1,
        2 => 4,
        4 => 8,
        8 => 12,
        other => panic!("active_width {other}"),
    };
    lanes
        * match attr.active_speed() {
            1 => 2_500,
            2 => 5_000,
            4 => 10_000,
            16 => 14_062,
            32 => 25_000,
            64 => 50_000,
            128 => 100_000,
            other => panic!("active_speed {other}"),
        }
}

/// V-35, E-6: width times speed is the rate of the cable, where there are codes for it, and near it elsewhere.
#[test]
fn width_and_speed_follow_the_cable() {
    for gbps in [5, 10, 20, 25, 40, 50, 80, 100, 120, 200, 300, 400, 600, 800, 1200] {
        for infiniband in [false, true] {
            let attr = port(infiniband, gbps * 1000);
            assert_eq!(product(&attr), gbps * 1000, "{gbps} Gb/s");
        }
    }
    assert_eq!(product(&port(true, 2_500)), 2_500);
    assert_eq!(product(&port(false, 1_000)), 2_500, "nothing is slower");
    assert_eq!(product(&port(true, 56_000)), 56_248);
    assert_eq!(product(&port(false, 10_000_000)), 1_200_000, "nothing is faster");
    // The names that people know: 4X EDR, 4X QDR, 1X EDR.
    let codes = |mbps| {
        let attr = port(false, mbps);
        (attr.active_width(), attr.active_speed())
    };
    assert_eq!(
        [codes(100_000), codes(40_000), codes(25_000)],
        [(2, 32), (2, 4), (1, 32)]
    );
}

/// V-38, E-5: by personality, also after it has changed.
#[test]
fn flags_and_capabilities_are_those_of_the_link_layer() {
    let wanted = |link_layer| match link_layer {
        ETHERNET => (1, port_cap::IP_BASED_GIDS),
        _ => {
            let caps = port_cap::SL_MAP | port_cap::OPT_IPD | port_cap::EXTENDED_SPEEDS | port_cap::CAP_MASK2;
            let notices = port_cap::NOTICE | port_cap::TRAP | port_cap::DR_NOTICE | port_cap::CAP_MASK_NOTICE;
            (
                0,
                caps | notices | port_cap::SYS_IMAGE_GUID | port_cap::CLIENT_REG,
            )
        }
    };
    let mut function = function(LoneCard::identity());
    for link_layer in [ETHERNET, INFINIBAND, ETHERNET] {
        let mut cmd = ModifyPortCmd::new();
        cmd.set_port_num(1);
        cmd.set_attr_mask(port_attr::LINK_LAYER);
        cmd.set_link_layer(link_layer);
        function.modify_port(&cmd).unwrap();
        let attr = function.query_port(1).unwrap();
        assert_eq!(attr.link_layer(), link_layer);
        let (flags, caps) = wanted(link_layer);
        // APM-2: of each kind of port.
        assert_eq!(
            (attr.flags(), attr.port_cap_flags()),
            (flags, caps | port_cap::AUTO_MIGR)
        );
    }
}

/// MGMT-9: that a subnet manager runs at a port everybody can see, as long as its function is not reset.
#[test]
fn a_port_says_that_a_manager_is_there() {
    let mut function = function(LoneCard::identity());
    for is_sm in [true, true, false] {
        let mut cmd = ModifyPortCmd::new();
        cmd.set_port_num(1);
        cmd.set_attr_mask(port_attr::IS_SM);
        cmd.set_is_sm(is_sm);
        function.modify_port(&cmd).unwrap();
        let flags = function.query_port(1).unwrap().port_cap_flags();
        assert_eq!(flags & port_cap::SM != 0, is_sm);
    }
}
