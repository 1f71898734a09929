//! The addresses of the card's port, and what the user says of its network.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

/// A MAC address, first byte on the wire first.
pub type Mac = [u8; 6];

/// The port behind a wire: it answers for these addresses.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Host {
    /// Its MAC address.
    pub mac: Mac,
    /// Its IP addresses.
    pub addresses: Vec<IpAddr>,
}

impl Host {
    /// A port with these GIDs; empty entries and what is no address of one host are left out.
    pub fn of_gids(mac: Mac, gids: &[[u8; 16]]) -> Self {
        let addresses = gids.iter().map(|gid| ip_of_gid(*gid)).filter(is_unicast);
        Self {
            mac,
            addresses: addresses.collect(),
        }
    }

    pub(crate) fn has(&self, address: IpAddr) -> bool {
        self.addresses.contains(&address)
    }

    /// Our address for a question about `target`: of its kind, on its network if there is one.
    pub(crate) fn source_for(&self, target: IpAddr) -> Option<IpAddr> {
        let prefix = if is_link_local(target) {
            10
        } else {
            prefix_of(target)
        };
        let same_kind = |own: &&IpAddr| own.is_ipv4() == target.is_ipv4();
        let near = |own: &&IpAddr| same_network(**own, target, prefix);
        let mut own = self.addresses.iter();
        let found = own.clone().find(near).or_else(|| own.find(same_kind));
        found.copied()
    }
}

/// The IP address that a GID is: ::ffff:a.b.c.d is IPv4.
pub fn ip_of_gid(gid: [u8; 16]) -> IpAddr {
    let address = Ipv6Addr::from(gid);
    address.to_ipv4_mapped().map_or(IpAddr::V6(address), IpAddr::V4)
}

/// The other way round.
pub fn gid_of_ip(address: IpAddr) -> [u8; 16] {
    match address {
        IpAddr::V4(address) => address.to_ipv6_mapped().octets(),
        IpAddr::V6(address) => address.octets(),
    }
}

/// An address that one host can have.
pub(crate) fn is_unicast(address: &IpAddr) -> bool {
    match address {
        IpAddr::V4(v4) => {
            !(v4.is_unspecified() || v4.is_multicast() || v4.is_broadcast() || v4.is_loopback())
        }
        IpAddr::V6(v6) => !(v6.is_unspecified() || v6.is_multicast() || v6.is_loopback()),
    }
}

pub(crate) fn is_link_local(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(v4) => v4.is_link_local(),
        IpAddr::V6(v6) => v6.is_unicast_link_local(),
    }
}

/// Bits of the network's part of an address, if nobody says another number.
fn prefix_of(address: IpAddr) -> u8 {
    if address.is_ipv4() { 24 } else { 64 }
}

fn same_network(a: IpAddr, b: IpAddr, prefix: u8) -> bool {
    let same = |a: u128, b: u128, bits: u32| {
        let low = bits.saturating_sub(prefix.into());
        low >= bits || (a ^ b) >> low == 0
    };
    match (a, b) {
        (IpAddr::V4(a), IpAddr::V4(b)) => same(a.to_bits().into(), b.to_bits().into(), Ipv4Addr::BITS),
        (IpAddr::V6(a), IpAddr::V6(b)) => same(a.to_bits(), b.to_bits(), Ipv6Addr::BITS),
        _ => false,
    }
}

/// The router to all other networks: `IP` or `IP/BITS`, where the first BITS bits are those of its own network
/// (24 and 64 without it).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gateway {
    /// Its address on our network.
    pub address: IpAddr,
    /// Bits of our network.
    pub prefix: u8,
}

impl Gateway {
    /// True for an address that is reached through it.
    pub(crate) fn leads_to(&self, address: IpAddr) -> bool {
        address.is_ipv4() == self.address.is_ipv4()
            && !is_link_local(address)
            && !same_network(address, self.address, self.prefix)
    }
}

impl FromStr for Gateway {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let bad =
            || format!("'{text}' is no gateway; write IP or IP/BITS, as in 10.0.0.254/24 or fd00::1/64");
        let (address, bits) = text.split_once('/').map_or((text, None), |(a, b)| (a, Some(b)));
        let address: IpAddr = address.parse().map_err(|_| bad())?;
        let most = if address.is_ipv4() { 32 } else { 128 };
        let prefix = bits.map_or(Ok(prefix_of(address)), |bits| bits.parse().map_err(|_| bad()))?;
        if prefix > most || !is_unicast(&address) {
            return Err(bad());
        }
        Ok(Self { address, prefix })
    }
}

/// A neighbour that need not be asked for: `IP,MAC`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StaticNeighbour {
    /// Its address.
    pub address: IpAddr,
    /// Its MAC address.
    pub mac: Mac,
}

impl FromStr for StaticNeighbour {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let bad = || format!("'{text}' is no neighbour; write IP,MAC, as in 10.0.0.9,52:54:00:00:00:01");
        let (address, mac) = text.split_once(',').ok_or_else(bad)?;
        let address: IpAddr = address.parse().map_err(|_| bad())?;
        let bytes: Vec<u8> = mac
            .split(':')
            .map(|byte| u8::from_str_radix(byte, 16))
            .collect::<Result<_, _>>()
            .map_err(|_| bad())?;
        let mac: Mac = bytes.try_into().map_err(|_| bad())?;
        if !is_unicast(&address) || !is_station(mac) {
            return Err(bad());
        }
        Ok(Self { address, mac })
    }
}

/// A MAC address of one station.
pub(crate) fn is_station(mac: Mac) -> bool {
    mac[0] & 1 == 0 && mac != [0; 6]
}

impl fmt::Display for StaticNeighbour {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, e, g] = self.mac;
        write!(
            f,
            "{},{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{g:02x}",
            self.address
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gateways_and_neighbours_are_read() {
        let gateway: Gateway = "10.0.0.254".parse().unwrap();
        let ip = |text: &str| text.parse::<IpAddr>().unwrap();
        assert_eq!(gateway.prefix, 24);
        assert!(!gateway.leads_to(ip("10.0.0.7")) && gateway.leads_to(ip("10.0.1.7")));
        assert!(!gateway.leads_to(ip("fd01::1")) && !gateway.leads_to(ip("169.254.1.1")));
        let gateway: Gateway = "fd00::1/48".parse().unwrap();
        assert!(!gateway.leads_to(ip("fd00:0:0:9::7")) && gateway.leads_to(ip("fd00:0:1::7")));
        assert!(!gateway.leads_to(ip("fe80::1")));
        let all: Gateway = "10.9.9.9/0".parse().unwrap();
        assert!(!all.leads_to(ip("1.2.3.4")));
        let neighbour: StaticNeighbour = "10.0.0.9,52:54:00:00:00:01".parse().unwrap();
        assert_eq!(neighbour.to_string(), "10.0.0.9,52:54:00:00:00:01");
        for bad in [
            "10.0.0.9",
            "x,52:54:00:00:00:01",
            "10.0.0.9,52:54:00:00:00",
            "10.0.0.9,01:00:5e:00:00:01",
        ] {
            assert!(bad.parse::<StaticNeighbour>().is_err(), "{bad}");
        }
        for bad in ["", "10.0.0.0/33", "ff02::1", "10.0.0.1/x", "0.0.0.0"] {
            assert!(bad.parse::<Gateway>().is_err(), "{bad}");
        }
    }

    #[test]
    fn the_right_address_asks() {
        let ip = |text: &str| text.parse::<IpAddr>().unwrap();
        let gids = ["fe80::1", "::ffff:10.0.0.1", "fd00::1", "::", "ff02::1"];
        let gids = gids.map(|text| text.parse::<Ipv6Addr>().unwrap().octets());
        let host = Host::of_gids([2, 0, 0, 0, 0, 1], &gids);
        assert_eq!(host.addresses, [ip("fe80::1"), ip("10.0.0.1"), ip("fd00::1")]);
        for (target, source) in [
            ("10.0.0.9", "10.0.0.1"),
            ("192.168.1.1", "10.0.0.1"),
            ("fe80::9", "fe80::1"),
            ("fd00::9", "fd00::1"),
        ] {
            assert_eq!(host.source_for(ip(target)), Some(ip(source)));
        }
        assert_eq!(Host::default().source_for(ip("10.0.0.9")), None);
    }
}
