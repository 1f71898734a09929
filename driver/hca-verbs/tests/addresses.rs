//! GIDs and what they lead to.

mod common;
use common::*;
use hca_lone::LoneCard;
use hca_verbs::*;

const ETHERNET_PORT: u8 = 1;
const STRANGER: Gid = [0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 7];

fn to_rtr(dgid: Gid, sgid_index: u8, port_num: u8) -> (QpAttr, QpAttrMask) {
    let attr = QpAttr {
        qp_state: QpState::Rtr,
        path_mtu: Mtu::Bytes1024,
        dest_qp_num: 5,
        ah_attr: AhAttr {
            dgid,
            sgid_index,
            is_global: true,
            port_num,
            ..AhAttr::default()
        },
        ..QpAttr::default()
    };
    (attr, rtr_mask())
}

fn init(bench: &Bench) -> RawQp<Dev> {
    let mut qp = bench.qp(QpCap::default()).into_raw();
    let attr = QpAttr {
        qp_state: QpState::Init,
        port_num: ETHERNET_PORT,
        ..QpAttr::default()
    };
    qp.modify(&attr, init_mask()).unwrap();
    qp
}

/// The destination MAC address of a path to the GID.
fn dmac(bench: &Bench, dgid: Gid, sgid_index: u8) -> Result<[u8; 6]> {
    let mut qp = init(bench);
    let (attr, mask) = to_rtr(dgid, sgid_index, ETHERNET_PORT);
    qp.modify(&attr, mask)?;
    Ok(qp.query()?.ah_attr.dmac)
}

/// ADDR-6, ADDR-8: every GID that a card lists is an address at which its neighbours and it itself find it.
#[test]
fn every_gid_leads_to_its_port() {
    let bench = Bench::new(8);
    let (own, neighbour) = (LoneCard::identity(), LoneCard::neighbour());
    let listed = (0..own.gids().len()).map(|index| bench.context.query_gid(1, index as u16).unwrap());
    assert_eq!(listed.collect::<Vec<_>>(), own.gids());
    assert_eq!(own.gids()[0], link_local_gid_of_mac(own.mac));
    for identity in [own, neighbour] {
        for (index, gid) in (0..).zip(identity.gids()) {
            assert_ne!(gid, [0; 16]);
            assert_eq!(bench.context.resolve_gid(1, gid).unwrap(), identity.mac);
            assert_eq!(dmac(&bench, gid, index).unwrap(), identity.mac);
        }
    }
    // A GID that was set is the port's own.
    bench.context.set_gid(1, 5, STRANGER).unwrap();
    assert_eq!(dmac(&bench, STRANGER, 5).unwrap(), own.mac);
}

/// A link-local GID made from a MAC address needs no neighbour who says so.
#[test]
fn a_gid_may_tell_its_mac() {
    let bench = Bench::new(8);
    let mac = [0xe4, 0x1d, 0x2d, 1, 2, 3];
    let gid = link_local_gid_of_mac(mac);
    assert_eq!(bench.context.resolve_gid(1, gid).unwrap(), mac);
    assert_eq!(dmac(&bench, gid, 0).unwrap(), mac);
    // The address of a path wins.
    let mut qp = init(&bench);
    let (mut attr, mask) = to_rtr(gid, 0, ETHERNET_PORT);
    attr.ah_attr.dmac = [2, 2, 2, 2, 2, 2];
    qp.modify(&attr, mask).unwrap();
    assert_eq!(qp.query().unwrap().ah_attr.dmac, [2, 2, 2, 2, 2, 2]);
}

/// Nothing is sent to nobody: the path is refused and the QP stays as it is.
#[test]
fn unknown_gids_are_unreachable() {
    const EHOSTUNREACH: i32 = 113;
    let bench = Bench::new(8);
    let unknown = [
        (STRANGER, 2),
        (gid_of_ipv4([10, 0, 0, 77]), 1),
        // Link-local, but from no MAC address.
        ([0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 9], 0),
        ([0; 16], 0),
    ];
    for (gid, sgid_index) in unknown {
        let error = dmac(&bench, gid, sgid_index).unwrap_err();
        assert_eq!(error.errno(), EHOSTUNREACH, "{error}");
        let text = error.to_string();
        let name = std::net::Ipv6Addr::from(gid).to_string();
        assert!(
            text.contains(&name) && text.contains("port 1") && text.contains("dmac"),
            "{text}"
        );
        assert_eq!(
            bench.context.resolve_gid(1, gid).unwrap_err().errno(),
            EHOSTUNREACH
        );
    }
    let mut qp = init(&bench);
    let (attr, mask) = to_rtr(STRANGER, 2, ETHERNET_PORT);
    assert!(qp.modify(&attr, mask).is_err());
    assert_eq!(
        (qp.state(), qp.query().unwrap().qp_state),
        (QpState::Init, QpState::Init)
    );
}

/// One packet has one IP header: an IPv4 address cannot send to an IPv6 one. There are GIDs of ports only.
#[test]
fn paths_that_cannot_be() {
    const EINVAL: i32 = 22;
    let bench = Bench::new(8);
    let gids = LoneCard::neighbour().gids();
    for (gid, sgid_index) in [(gids[0], 1), (gids[1], 0), (gids[1], 2), (gids[2], 1)] {
        assert_eq!(dmac(&bench, gid, sgid_index).unwrap_err().errno(), EINVAL);
    }
    assert_eq!(bench.context.resolve_gid(2, gids[0]).unwrap_err().errno(), EINVAL);
    let dev = std::rc::Rc::new(LoneCard::infiniband());
    let context = Context::open_with(dev, &OpenOptions::simulated()).unwrap();
    assert_eq!(context.resolve_gid(1, gids[0]).unwrap_err().errno(), EINVAL);
}

/// A port whose neighbours can be asked for: the verb waits while they answer, and no longer than a second.
#[test]
fn neighbours_may_answer_late() {
    const EHOSTUNREACH: i32 = 113;
    const MAC: [u8; 6] = [0x52, 0x54, 0, 0, 0, 1];
    let second = std::time::Duration::from_secs(1);
    let bench = Bench::new(8);
    bench.dev.with_firmware(|firmware| firmware.set_asks(1, true));
    let resolved = std::thread::scope(|scope| {
        let card = bench.dev.function(0);
        scope.spawn(move || {
            // The third question is answered.
            let mut asked = 0;
            while asked < 3 {
                let wanted = card.with_firmware(|firmware| firmware.take_wanted());
                if let Some(wanted) = wanted {
                    assert_eq!(wanted, (1, STRANGER));
                    asked += 1;
                } else {
                    std::thread::yield_now();
                }
            }
            let mut found = LoneCard::neighbour();
            (found.ipv6, found.mac) = (STRANGER, MAC);
            let found: Vec<_> = found.neighbours(1).collect();
            card.with_firmware(|firmware| firmware.set_neighbours(&found));
        });
        bench.context.resolve_gid(1, STRANGER)
    });
    assert_eq!(resolved.unwrap(), MAC);
    assert_eq!(dmac(&bench, STRANGER, 2).unwrap(), MAC);

    let nobody = gid_of_ipv4([10, 0, 0, 77]);
    let start = std::time::Instant::now();
    let error = dmac(&bench, nobody, 1).unwrap_err();
    assert_eq!(error.errno(), EHOSTUNREACH, "{error}");
    assert!(start.elapsed() >= second);
    // What no host can have is not asked for.
    let start = std::time::Instant::now();
    assert_eq!(
        bench.context.resolve_gid(1, [0; 16]).unwrap_err().errno(),
        EHOSTUNREACH
    );
    // That of a group is made from its address.
    let group = bench.context.resolve_gid(1, [0xff; 16]);
    assert_eq!(group.unwrap(), [0x33, 0x33, 0xff, 0xff, 0xff, 0xff]);
    bench.dev.with_firmware(|firmware| firmware.set_asks(1, false));
    assert_eq!(
        bench.context.resolve_gid(1, nobody).unwrap_err().errno(),
        EHOSTUNREACH
    );
    assert!(start.elapsed() < second);
}
