use super::*;

fn facts(infiniband: bool, state: u8) -> PortFacts {
    PortFacts {
        infiniband,
        state,
        phys_state: 5,
        lid: 0x1f,
        lmc: 0,
        active_width: 2,
        active_speed: 32,
        port_cap_flags: 0x42,
        gids: vec!["fe80::1".parse().unwrap(), Ipv6Addr::UNSPECIFIED],
        pkeys: vec![0xffff, 0],
    }
}

fn text(files: &[Named], name: &str) -> Option<String> {
    let mut found = files.iter().filter(|(known, _)| known == name);
    found.next().map(|(_, text)| text.clone())
}

#[test]
fn files_of_a_port() {
    let mut files = fixed_files(&facts(false, 4));
    files.extend(state_files(&view_at_start(&facts(false, 4))));
    for (name, value) in [
        ("state", "4: ACTIVE"),
        ("phys_state", "5: LinkUp"),
        ("rate", "100 Gb/sec (4X EDR)"),
        ("link_layer", "Ethernet"),
        ("lid", "0x1f"),
        ("lid_mask_count", "0"),
        ("sm_lid", "0x0"),
        ("sm_sl", "0"),
        ("cap_mask", "0x00000042"),
        ("pkeys/0", "0xffff"),
        ("pkeys/1", "0x0000"),
        ("gids/0", "fe80:0000:0000:0000:0000:0000:0000:0001"),
        ("gids/1", "0000:0000:0000:0000:0000:0000:0000:0000"),
        ("gid_attrs/types/0", "RoCE v2"),
        ("gid_attrs/ndevs/0", "lo"),
    ] {
        assert_eq!(text(&files, name).as_deref(), Some(value), "{name}");
    }
    assert_eq!(text(&files, "gid_attrs/types/1"), None);
}

#[test]
fn an_infiniband_port_has_no_net_device() {
    let files = fixed_files(&facts(true, 4));
    assert_eq!(text(&files, "link_layer").as_deref(), Some("InfiniBand"));
    assert_eq!(text(&files, "gid_attrs/types/0").as_deref(), Some("IB/RoCE v1"));
    assert_eq!(text(&files, "gid_attrs/ndevs/0"), None);
}

fn view(state: u8, lid: u16) -> PortView {
    let mut view = view_at_start(&facts(true, state));
    view.set_port_num(1);
    view.set_lid(lid);
    view
}

/// VL-14, MGMT-5: as the port is going to be until it has come up, then as it is; nothing is left behind on the way.
#[test]
fn files_follow_the_port() {
    let folder = tempfile::tempdir().unwrap();
    let mut state = State {
        folder: folder.path().join("card0.port1"),
        shown: view_at_start(&facts(true, 2)),
        has_come_up: false,
    };
    fs::create_dir(&state.folder).unwrap();
    for (name, text) in state_files(&state.shown) {
        fs::write(state.folder.join(name), format!("{text}\n")).unwrap();
    }
    let read = |name: &str| fs::read_to_string(folder.path().join("card0.port1").join(name)).unwrap();
    for (now, shown, lid) in [
        (None, "2: INIT\n", "0x1f\n"),
        (Some(view(1, 0)), "2: INIT\n", "0x1f\n"),
        (Some(view(2, 0)), "2: INIT\n", "0x0\n"),
        (Some(view(4, 7)), "4: ACTIVE\n", "0x7\n"),
        (Some(view(5, 7)), "5: ACTIVE_DEFER\n", "0x7\n"),
        (Some(view(1, 7)), "1: DOWN\n", "0x7\n"),
        (None, "1: DOWN\n", "0x7\n"),
    ] {
        state.update(now);
        assert_eq!(
            (read("state").as_str(), read("lid").as_str()),
            (shown, lid),
            "{now:?}"
        );
    }
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    assert_eq!(fs::read_dir(&state.folder).unwrap().count(), 7);
}

#[test]
fn rates_of_every_width_and_speed() {
    assert_eq!(rate(1, 1), "2.5 Gb/sec (1X SDR)");
    assert_eq!(rate(2, 1), "10 Gb/sec (4X SDR)");
    assert_eq!(rate(2, 16), "56 Gb/sec (4X FDR)");
    assert_eq!(rate(16, 64), "100 Gb/sec (2X HDR)");
    assert_eq!(rate(8, 128), "1200 Gb/sec (12X NDR)");
    assert_eq!(rate(0, 0), "0 Gb/sec (0X)");
}
