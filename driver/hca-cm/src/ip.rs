//! The RDMA IP CM service (IBA vol1 annex A11): connections between addresses and ports as sockets have them.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// Bytes of the header before a user's private data.
pub const HEADER_BYTES: usize = 36;
/// IP protocol versions of the header.
const IPV4: u8 = 4;
const IPV6: u8 = 6;
/// Version of the header: major, minor.
const VERSION: u8 = 0;

/// The service of a port in a port space (`RDMA_PS_TCP` 0x0106, `RDMA_PS_UDP` 0x0111 ...).
pub const fn service_id(port_space: u16, port: u16) -> u64 {
    (port_space as u64) << 16 | port as u64
}

/// Port space and port of a service, if it is one of these.
pub const fn port_of(service_id: u64) -> Option<(u16, u16)> {
    if service_id >> 32 != 0 {
        return None;
    }
    Some(((service_id >> 16) as u16, service_id as u16))
}

/// Who asks whom: the header of private data. The destination's port is in the service ID.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Address and port of who asks.
    pub source: SocketAddr,
    /// Address of who is asked.
    pub destination: IpAddr,
}

impl Header {
    /// The bytes; of addresses of two families the first's counts.
    pub fn emit(&self) -> [u8; HEADER_BYTES] {
        let mut out = [0; HEADER_BYTES];
        out[0] = VERSION;
        out[1] = if self.source.is_ipv4() { IPV4 } else { IPV6 } << 4;
        out[2..4].copy_from_slice(&self.source.port().to_be_bytes());
        for (at, address) in [(4, self.source.ip()), (20, self.destination)] {
            match address {
                IpAddr::V4(address) => out[at + 12..at + 16].copy_from_slice(&address.octets()),
                IpAddr::V6(address) => out[at..at + 16].copy_from_slice(&address.octets()),
            }
        }
        out
    }

    /// Reads the header in front of private data; `None`: it is another version's, or cut off.
    pub fn parse(bytes: &[u8]) -> Option<Self> {
        let bytes: &[u8; HEADER_BYTES] = bytes.get(..HEADER_BYTES)?.try_into().ok()?;
        if bytes[0] != VERSION {
            return None;
        }
        let version = bytes[1] >> 4;
        let address = |at: usize| -> Option<IpAddr> {
            let octets: [u8; 16] = bytes[at..at + 16].try_into().ok()?;
            match version {
                IPV4 => Some(Ipv4Addr::new(octets[12], octets[13], octets[14], octets[15]).into()),
                IPV6 => Some(Ipv6Addr::from(octets).into()),
                _ => None,
            }
        };
        let port = u16::from_be_bytes([bytes[2], bytes[3]]);
        Some(Self {
            source: SocketAddr::new(address(4)?, port),
            destination: address(20)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_come_back() {
        for (source, destination) in [("10.0.0.1:7174", "10.0.0.2"), ("[fd00::1]:65535", "fd00::2")] {
            let header = Header {
                source: source.parse().unwrap(),
                destination: destination.parse().unwrap(),
            };
            let mut bytes = header.emit().to_vec();
            assert_eq!(Header::parse(&bytes), Some(header));
            bytes[1] = 0x50;
            assert_eq!(Header::parse(&bytes), None);
            assert_eq!(Header::parse(&bytes[..35]), None);
        }
    }

    /// CM-12: the numbers that Linux gives port spaces.
    #[test]
    fn services() {
        assert_eq!(service_id(0x0106, 7174), 0x0106_1c06);
        assert_eq!(port_of(0x0106_1c06), Some((0x0106, 7174)));
        assert_eq!(port_of(1 << 40), None);
    }
}
