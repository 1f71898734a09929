//! What a card says of itself, and addresses made from that.

mod common;

use std::ffi::c_int;

use common::*;
use ibverbs::abi::*;

const OTHER: [u8; 4] = [10, 0, 0, 9];

/// The IPv4 header of a datagram from [`OTHER`] to 10.0.0.1 behind 20 bytes of nothing, as a card delivers it.
fn ipv4_grh() -> [u8; 40] {
    let mut grh = [0xee; 40];
    let header = &mut grh[20..];
    header.copy_from_slice(&[
        0x45, 0x20, 0, 68, 0, 0, 0x40, 0, 61, 17, 0, 0, 10, 0, 0, 9, 10, 0, 0, 1,
    ]);
    let sum: u32 = header
        .chunks(2)
        .map(|w| u32::from(w[0]) << 8 | u32::from(w[1]))
        .sum();
    header[10..12].copy_from_slice(&(!((sum & 0xffff) + (sum >> 16)) as u16).to_be_bytes());
    grh
}

fn grh(next: u8, sgid: [u8; 16], dgid: [u8; 16]) -> [u8; 40] {
    let mut grh = [0; 40];
    grh[..8].copy_from_slice(&[0x6b, 0x11, 0x23, 0x45, 0, 28, next, 77]);
    grh[8..24].copy_from_slice(&sgid);
    grh[24..].copy_from_slice(&dgid);
    grh
}

fn address(context: *mut ibv_context, wc_flags: u32, mut grh: [u8; 40]) -> Result<ibv_ah_attr, c_int> {
    let mut wc = ibv_wc {
        wc_flags,
        slid: 0x21,
        sl: 3,
        dlid_path_bits: 1,
        ..Default::default()
    };
    let mut attr = ibv_ah_attr::default();
    // SAFETY: an open context, live structures.
    match unsafe { ibv_init_ah_from_wc(context, 1, &mut wc, grh.as_mut_ptr().cast(), &mut attr) } {
        0 => Ok(attr),
        result => {
            assert_eq!(result, -1);
            Err(errno())
        }
    }
}

/// V-40, V-41, V-42: no such entry.
#[test]
fn entries_that_do_not_exist() {
    let context = open(0);
    let failed = |result: c_int| (result, errno());
    let (mut gid, mut pkey) = (ibv_gid::default(), 0);
    // SAFETY: an open context, live structures.
    unsafe {
        for index in [16, 255, 1 << 16, c_int::MAX, -1] {
            assert_eq!(
                failed(ibv_query_gid(context, 1, index, &mut gid)),
                (-1, libc::EMFILE)
            );
        }
        assert_eq!(
            ibv_query_gid(context, 1, 15, &mut gid),
            0,
            "an empty entry is one"
        );
        for index in [32, 1 << 16, c_int::MAX, -1] {
            assert_eq!(
                failed(ibv_query_pkey(context, 1, index, &mut pkey)),
                (-1, libc::EMFILE)
            );
        }
        assert_eq!(ibv_query_pkey(context, 1, 31, &mut pkey), 0);
        assert_eq!(
            failed(ibv_query_gid(context, 2, 0, &mut gid)),
            (-1, libc::EINVAL),
            "no such port"
        );
        assert_eq!(ibv_close_device(context), 0);
    }
}

fn gid(context: *mut ibv_context, index: c_int) -> [u8; 16] {
    let mut gid = ibv_gid::default();
    // SAFETY: an open context; any bytes are a GID.
    unsafe {
        assert_eq!(ibv_query_gid(context, 1, index, &mut gid), 0);
        gid.raw
    }
}

/// IBA A17.4.5.2: the address of who sent a datagram.
#[test]
fn the_address_behind_a_datagram() {
    const UDP: u8 = 17;
    const IBA: u8 = 0x1b;
    let context = open(KEPT_CARD as usize);
    let (local, ipv4) = (gid(context, 0), gid(context, 1));
    let other = hca_verbs::link_local_gid_of_mac([2, 0, 0, 0, 0, 9]);

    let attr = address(context, 0, [0; 40]).unwrap();
    let basic = (attr.dlid, attr.sl, attr.src_path_bits, attr.port_num);
    assert_eq!((basic, attr.is_global), ((0x21, 3, 1, 1), 0));

    let found = |grh| {
        let attr = address(context, IBV_WC_GRH, grh)?;
        assert_eq!(attr.is_global, 1);
        let g = attr.grh;
        // SAFETY: any bytes are a GID.
        let dgid = unsafe { g.dgid.raw };
        Ok((dgid, g.sgid_index, g.flow_label, g.traffic_class, g.hop_limit))
    };
    assert_eq!(
        found(ipv4_grh()),
        Ok((hca_verbs::gid_of_ipv4(OTHER), 1, 0, 0x20, 61))
    );
    assert_eq!(found(grh(UDP, other, local)), Ok((other, 0, 0x12345, 0xb1, 77)));
    assert_eq!(found(grh(UDP, other, ipv4)).map(|found| found.1), Ok(1));
    // RoCE version 1, to an entry of version 2; somebody else's; a group's; neither IPv4 nor a GRH.
    assert_eq!(found(grh(IBA, other, local)), Err(libc::ENOENT));
    assert_eq!(found(grh(UDP, local, other)), Err(libc::ENOENT));
    assert_eq!(found(grh(UDP, other, [0xff; 16])), Err(libc::EINVAL));
    let mut broken = ipv4_grh();
    broken[38] ^= 1;
    assert_eq!(found(broken), Err(libc::EPROTONOSUPPORT));
    assert_eq!(found([0; 40]), Err(libc::EPROTONOSUPPORT));

    let kept = KEPT.get().unwrap();
    kept.set_link_layer(1, hca_verbs::LinkLayer::Infiniband).unwrap();
    assert_eq!(found(grh(IBA, other, local)), Ok((other, 0, 0x12345, 0xb1, 77)));
    assert_eq!(found(grh(UDP, other, local)), Err(libc::EPROTONOSUPPORT));
    // SAFETY: open until now.
    assert_eq!(unsafe { ibv_close_device(context) }, 0);
}

/// V-30, V-40, V-41: what `ibv_devinfo -v` and UCX's scan of the GIDs ask for, twice.
#[test]
fn a_second_look_costs_nothing() {
    const CARD: u32 = 1;
    let context = open(CARD as usize);
    let cost = |f: &dyn Fn()| {
        let before = admin_commands(CARD);
        f();
        admin_commands(CARD).wrapping_sub(before)
    };
    // SAFETY: an open context, live structures.
    let devinfo = || unsafe {
        let mut attr = ibv_device_attr_ex::default();
        let slot = (*extended(context)).query_device_ex.unwrap();
        assert_eq!(slot(context, NO_ATTR, &mut attr, size_of_val(&attr)), 0);
        let mut port = ibv_port_attr::default();
        let slot = (*extended(context)).query_port.unwrap();
        assert_eq!(slot(context, 1, &mut port, size_of_val(&port)), 0);
        for index in 0..port.gid_tbl_len {
            gid(context, index);
            let mut entry = ibv_gid_entry::default();
            let result = _ibv_query_gid_ex(context, 1, index as u32, &mut entry, 0, size_of_val(&entry));
            assert_eq!(result, if index < 3 { 0 } else { libc::ENODATA });
        }
    };
    let scan = || {
        let mut entries = [ibv_gid_entry::default(); 64];
        // SAFETY: an open context, an array of that size.
        let found = unsafe {
            _ibv_query_gid_table(
                context,
                entries.as_mut_ptr(),
                entries.len(),
                0,
                size_of_val(&entries[0]),
            )
        };
        assert_eq!(found, 3);
    };
    assert_eq!(
        cost(&devinfo),
        1 + 1 + 1 + 16,
        "attributes, port, its tables, GIDs"
    );
    assert_eq!(cost(&devinfo), 1, "state and counters of the port");
    assert_eq!(cost(&scan), 0);
    let mut attr = ibv_device_attr::default();
    // SAFETY: an open context, live structures.
    unsafe {
        let before = admin_commands(CARD);
        assert_eq!(ibv_query_device(context, &mut attr), 0);
        assert_eq!(admin_commands(CARD), before);
        assert_eq!(ibv_close_device(context), 0);
    }
}

/// A RoCE GID names an interface of this host, an InfiniBand one none.
#[test]
fn the_interface_of_a_gid() {
    let context = open(2);
    let mut entry = ibv_gid_entry::default();
    // SAFETY: an open context, live structures; a buffer of the size that the C library asks for.
    unsafe {
        assert_eq!(
            _ibv_query_gid_ex(context, 1, 1, &mut entry, 0, size_of_val(&entry)),
            0
        );
        assert_eq!(entry.gid_type, IBV_GID_TYPE_ROCE_V2);
        let mut name = [0; libc::IF_NAMESIZE];
        assert!(!libc::if_indextoname(entry.ndev_ifindex, name.as_mut_ptr()).is_null());
        assert_eq!(std::ffi::CStr::from_ptr(name.as_ptr()), c"lo");
        assert_eq!(ibv_close_device(context), 0);
    }
}

/// Programs share a context by its descriptor: that can be duplicated, and says that no kernel driver is behind it.
#[test]
fn the_command_descriptor() {
    const RDMA_VERBS_IOCTL: libc::c_ulong = 0xc018_1b01;
    let context = open(3);
    // SAFETY: an open context; descriptors of our own.
    unsafe {
        let copy = libc::dup((*context).cmd_fd);
        assert!(copy >= 0, "errno {}", errno());
        let mut header = [0u8; 24];
        assert_eq!(libc::ioctl(copy, RDMA_VERBS_IOCTL, header.as_mut_ptr()), -1);
        assert_eq!(errno(), libc::ENOTTY);
        assert_eq!(ibv_close_device(context), 0);
        assert_eq!(
            libc::fcntl(copy, libc::F_GETFD) & !libc::FD_CLOEXEC,
            0,
            "the program's own lives"
        );
        libc::close(copy);
    }
}
