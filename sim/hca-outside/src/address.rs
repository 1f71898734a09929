//! How a peer is named.

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::str::FromStr;

use crate::AddressError;

/// Bytes that the kernel's `ifreq` has for an interface's name, less its end.
const INTERFACE_BYTES_MAX: usize = 15;

/// Where the other end of a wire is.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum PeerAddress {
    /// UNIX stream socket with QEMU's framing; we listen. `unix:PATH`, or a bare path.
    Listen(PathBuf),
    /// The same; somebody else listens. `unix-connect:PATH`.
    Connect(PathBuf),
    /// UNIX datagram socket, a frame per datagram. `dgram:LOCAL,REMOTE`.
    Datagram {
        /// Made by us.
        local: PathBuf,
        /// Made by the peer.
        remote: PathBuf,
    },
    /// UDP, a frame per datagram. `udp:LOCAL_IP:PORT,REMOTE_IP:PORT`.
    Udp {
        /// Ours.
        local: SocketAddr,
        /// The peer's; nobody else is heard.
        remote: SocketAddr,
    },
    /// A TAP interface of this machine. `tap:NAME`.
    Tap(String),
}

impl PeerAddress {
    /// True for a text that can only be meant as a peer: it begins as one, or is a path.
    pub fn is_meant_by(text: &str) -> bool {
        text.contains('/') || SCHEMES.iter().any(|scheme| split(text).0 == Some(scheme))
    }
}

const SCHEMES: [&str; 5] = ["unix", "unix-connect", "dgram", "udp", "tap"];

/// What stands before the first ':', unless that is part of a path.
fn split(text: &str) -> (Option<&str>, &str) {
    match text.split_once(':') {
        Some((scheme, rest)) if !scheme.contains('/') => (Some(scheme), rest),
        _ => (None, text),
    }
}

impl FromStr for PeerAddress {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Self, AddressError> {
        let bad = |why| AddressError {
            text: text.to_owned(),
            why,
        };
        let path = |path: &str| {
            let named = !path.is_empty() && !path.contains(['\0', '\n']);
            named
                .then(|| PathBuf::from(path))
                .ok_or_else(|| bad("the path is empty or no path"))
        };
        let (scheme, rest) = split(text);
        Ok(match scheme {
            None | Some("unix") => Self::Listen(path(rest)?),
            Some("unix-connect") => Self::Connect(path(rest)?),
            Some("dgram") => {
                let (local, remote) = rest.split_once(',').ok_or_else(|| bad("a comma is missing"))?;
                if remote.contains(',') {
                    return Err(bad("more than one comma"));
                }
                let (local, remote) = (path(local)?, path(remote)?);
                if local == remote {
                    return Err(bad("both paths are the same"));
                }
                Self::Datagram { local, remote }
            }
            Some("udp") => {
                let (local, remote) = rest.split_once(',').ok_or_else(|| bad("a comma is missing"))?;
                let address = |text: &str| {
                    let address = text.parse::<SocketAddr>();
                    address.map_err(|_| bad("an end is no IP address with a port"))
                };
                let (local, remote) = (address(local)?, address(remote)?);
                if local.is_ipv4() != remote.is_ipv4() {
                    return Err(bad("one end is IPv4, the other IPv6"));
                }
                if remote.port() == 0 || local.port() == 0 {
                    return Err(bad("port 0"));
                }
                Self::Udp { local, remote }
            }
            Some("tap") => {
                let legal = |c: char| c.is_ascii_graphic() && c != '/' && c != '%';
                if rest.is_empty() || rest.len() > INTERFACE_BYTES_MAX || !rest.chars().all(legal) {
                    return Err(bad(
                        "an interface's name has 1 to 15 letters, no '/', '%' or space",
                    ));
                }
                Self::Tap(rest.to_owned())
            }
            Some(_) => return Err(bad("unknown kind")),
        })
    }
}

impl fmt::Display for PeerAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Listen(path) => write!(f, "unix:{}", path.display()),
            Self::Connect(path) => write!(f, "unix-connect:{}", path.display()),
            Self::Datagram { local, remote } => write!(f, "dgram:{},{}", local.display(), remote.display()),
            Self::Udp { local, remote } => write!(f, "udp:{local},{remote}"),
            Self::Tap(name) => write!(f, "tap:{name}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_notation_is_read_and_written() {
        for text in [
            "unix:/tmp/a.sock",
            "unix-connect:b.sock",
            "dgram:/tmp/a,/tmp/b",
            "udp:127.0.0.1:5000,127.0.0.1:5001",
            "udp:[::1]:5000,[::1]:5001",
            "tap:hca0",
        ] {
            let address: PeerAddress = text.parse().unwrap();
            assert_eq!(address.to_string(), text);
            assert!(PeerAddress::is_meant_by(text), "{text}");
        }
        for bare in ["/tmp/a.sock", "wire.sock", "./x:y"] {
            assert_eq!(bare.parse(), Ok(PeerAddress::Listen(bare.into())), "{bare}");
        }
        assert!(PeerAddress::is_meant_by("./wire"));
        assert!(!PeerAddress::is_meant_by("card0:2") && !PeerAddress::is_meant_by("sw0"));
    }

    #[test]
    fn what_names_no_peer_is_refused() {
        for text in [
            "",
            "unix:",
            "dgram:/tmp/a",
            "dgram:/a,/a",
            "dgram:/a,/b,/c",
            "udp:127.0.0.1:1",
            "udp:127.0.0.1,127.0.0.1:2",
            "udp:127.0.0.1:1,[::1]:2",
            "udp:127.0.0.1:1,127.0.0.1:0",
            "udp:localhost:1,127.0.0.1:2",
            "tap:",
            "tap:a/b",
            "tap:a%d",
            "tap:sixteen-letters-",
            "tcp:1.2.3.4:5",
        ] {
            let error = text.parse::<PeerAddress>().unwrap_err();
            assert!(error.to_string().contains("write unix:PATH"), "{text}");
        }
    }
}
