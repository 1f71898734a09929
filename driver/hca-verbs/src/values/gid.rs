//! GIDs.

/// GID, bytes as on the wire.
pub type Gid = [u8; 16];

const IPV4_PREFIX: [u8; 12] = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff];
const LINK_LOCAL_PREFIX: [u8; 8] = [0xfe, 0x80, 0, 0, 0, 0, 0, 0];

/// The GID ::ffff:a.b.c.d.
pub fn gid_of_ipv4(ipv4: [u8; 4]) -> Gid {
    let mut gid = [0; 16];
    gid[..12].copy_from_slice(&IPV4_PREFIX);
    gid[12..].copy_from_slice(&ipv4);
    gid
}

/// The link-local GID whose interface identifier is the EUI-64 of a MAC address.
pub fn link_local_gid_of_mac(mac: [u8; 6]) -> Gid {
    let mut gid = [0; 16];
    gid[..8].copy_from_slice(&LINK_LOCAL_PREFIX);
    gid[8..].copy_from_slice(&[mac[0] ^ 2, mac[1], mac[2], 0xff, 0xfe, mac[3], mac[4], mac[5]]);
    gid
}

pub(crate) fn is_ipv4(gid: &Gid) -> bool {
    gid[..12] == IPV4_PREFIX
}
