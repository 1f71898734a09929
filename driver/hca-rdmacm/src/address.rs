//! Addresses: those of this process' cards, those of their neighbours, and how C writes them.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};
use std::path::PathBuf;
use std::{env, fs};

use serde_json::Value;

use crate::abi::*;
use crate::errno::{Call, EINVAL, Errno};

/// A GID, first byte on the wire first.
pub type Gid = [u8; 16];

/// An address that a GID is: ::ffff:a.b.c.d is an IPv4 address.
pub fn ip_of(gid: &Gid) -> IpAddr {
    let ip = Ipv6Addr::from(*gid);
    ip.to_ipv4_mapped().map_or(IpAddr::V6(ip), IpAddr::V4)
}

/// The GID that an address is.
pub fn gid_of(ip: IpAddr) -> Gid {
    match ip {
        IpAddr::V4(ip) => ip.to_ipv6_mapped().octets(),
        IpAddr::V6(ip) => ip.octets(),
    }
}

/// Do two addresses lie on one network? As those of the simulator's cards do: /24, or /64.
pub fn is_near(a: IpAddr, b: IpAddr) -> bool {
    match (a, b) {
        (IpAddr::V4(a), IpAddr::V4(b)) => a.octets()[..3] == b.octets()[..3],
        (IpAddr::V6(a), IpAddr::V6(b)) => a.octets()[..8] == b.octets()[..8],
        _ => false,
    }
}

/// Reads a program's address.
///
/// # Safety
/// `addr` is NULL or points to an address as long as its family says.
pub unsafe fn read(addr: *const sockaddr) -> Call<SocketAddr> {
    if addr.is_null() {
        return Err(EINVAL);
    }
    // SAFETY: the caller's promise.
    unsafe {
        match i32::from((*addr).sa_family) {
            libc::AF_INET => {
                let sin = addr.cast::<libc::sockaddr_in>().read_unaligned();
                let ip = Ipv4Addr::from(u32::from_be(sin.sin_addr.s_addr));
                Ok(SocketAddrV4::new(ip, u16::from_be(sin.sin_port)).into())
            }
            libc::AF_INET6 => {
                let sin6 = addr.cast::<libc::sockaddr_in6>().read_unaligned();
                let ip = Ipv6Addr::from(sin6.sin6_addr.s6_addr);
                Ok(SocketAddrV6::new(ip, u16::from_be(sin6.sin6_port), 0, sin6.sin6_scope_id).into())
            }
            _ => Err(Errno(libc::EAFNOSUPPORT)),
        }
    }
}

/// Bytes that an address takes.
pub fn length(addr: &SocketAddr) -> usize {
    match addr {
        SocketAddr::V4(_) => size_of::<libc::sockaddr_in>(),
        SocketAddr::V6(_) => size_of::<libc::sockaddr_in6>(),
    }
}

/// Writes an address where C looks for one.
///
/// # Safety
/// `to` has room for [`length`] bytes.
pub unsafe fn write(to: *mut sockaddr, addr: &SocketAddr) {
    // SAFETY: the caller's promise; all-zero structures are valid.
    unsafe {
        match addr {
            SocketAddr::V4(addr) => {
                let mut sin: libc::sockaddr_in = std::mem::zeroed();
                sin.sin_family = libc::AF_INET as u16;
                sin.sin_port = addr.port().to_be();
                sin.sin_addr.s_addr = u32::from(*addr.ip()).to_be();
                to.cast::<libc::sockaddr_in>().write_unaligned(sin);
            }
            SocketAddr::V6(addr) => {
                let mut sin6: libc::sockaddr_in6 = std::mem::zeroed();
                sin6.sin6_family = libc::AF_INET6 as u16;
                sin6.sin6_port = addr.port().to_be();
                sin6.sin6_addr.s6_addr = addr.ip().octets();
                sin6.sin6_scope_id = addr.scope_id();
                to.cast::<libc::sockaddr_in6>().write_unaligned(sin6);
            }
        }
    }
}

/// Folder of the simulator's sockets, and of what the processes on its cards agree on.
pub fn run_folder() -> PathBuf {
    if let Some(folder) = env::var_os("HCA_SIM") {
        return folder.into();
    }
    match env::var_os("XDG_RUNTIME_DIR") {
        Some(folder) => PathBuf::from(folder).join("hca"),
        // SAFETY: it cannot fail.
        None => PathBuf::from(format!("/tmp/hca-{}", unsafe { libc::getuid() })),
    }
}

/// Who has an address on InfiniBand: LID and port GID. The simulator says so; without one a subnet manager would.
pub fn infiniband_neighbour(ip: IpAddr) -> Option<(u16, Gid)> {
    let text = fs::read(run_folder().join("facts.json")).ok()?;
    let cards: Value = serde_json::from_slice(&text).ok()?;
    let ports = cards
        .as_array()?
        .iter()
        .filter_map(|card| card["ports"].as_array())
        .flatten();
    for port in ports.filter(|port| port["infiniband"] == true) {
        let gids = port["gids"].as_array()?.iter().filter_map(Value::as_str);
        let gids: Vec<Gid> = gids
            .filter_map(|gid| Some(gid.parse::<Ipv6Addr>().ok()?.octets()))
            .collect();
        if gids.iter().any(|gid| ip_of(gid) == ip) {
            return Some((u16::try_from(port["lid"].as_u64()?).ok()?, *gids.first()?));
        }
    }
    None
}

/// The multicast GID of an address (CM-52). On Ethernet the address itself; on InfiniBand that of RFC 4391 with the
/// signature of the connection manager, 0x01, where that of IPoIB would be.
pub fn multicast_gid(ip: IpAddr, is_ethernet: bool, pkey: u16) -> Option<Gid> {
    if !ip.is_multicast() {
        return None;
    }
    if is_ethernet {
        return Some(gid_of(ip));
    }
    let [high, low] = pkey.to_be_bytes();
    let mut gid = [0; 16];
    gid[..6].copy_from_slice(&[0xff, 0x12, 0x40, 0x01, high, low]);
    match ip {
        IpAddr::V4(ip) => gid[12..].copy_from_slice(&(u32::from(ip) & 0x0fff_ffff).to_be_bytes()),
        IpAddr::V6(ip) => {
            gid[2] = 0x60;
            gid[6..].copy_from_slice(&ip.octets()[6..]);
        }
    }
    Some(gid)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_written_and_read() {
        for text in ["10.0.0.1:7174", "[fd00::2]:1", "0.0.0.0:0"] {
            let addr: SocketAddr = text.parse().unwrap();
            // SAFETY: all zero is an address without a family.
            let mut storage: libc::sockaddr_storage = unsafe { std::mem::zeroed() };
            // SAFETY: there is room for any address.
            let again = unsafe {
                write((&raw mut storage).cast(), &addr);
                read((&raw const storage).cast())
            };
            assert_eq!(again, Ok(addr));
            assert_eq!(ip_of(&gid_of(addr.ip())), addr.ip());
        }
        // SAFETY: NULL is allowed.
        assert_eq!(unsafe { read(std::ptr::null()) }, Err(EINVAL));
    }

    #[test]
    fn networks_and_groups() {
        let ip = |text: &str| text.parse::<IpAddr>().unwrap();
        assert!(is_near(ip("10.0.0.1"), ip("10.0.0.200")) && is_near(ip("fd00::1"), ip("fd00::2")));
        assert!(!is_near(ip("10.0.0.1"), ip("10.0.1.1")) && !is_near(ip("10.0.0.1"), ip("fd00::2")));
        assert_eq!(multicast_gid(ip("10.0.0.1"), true, 0xffff), None);
        assert_eq!(
            multicast_gid(ip("239.1.2.3"), true, 0xffff),
            Some(gid_of(ip("239.1.2.3")))
        );
        let gid = multicast_gid(ip("239.1.2.3"), false, 0xffff).unwrap();
        assert_eq!(
            gid,
            [0xff, 0x12, 0x40, 1, 0xff, 0xff, 0, 0, 0, 0, 0, 0, 15, 1, 2, 3]
        );
    }
}
