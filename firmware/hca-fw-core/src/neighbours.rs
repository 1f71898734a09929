//! Who has which GID on the networks of the ports: what an operating system finds out for an Ethernet port by ARP and
//! Neighbour Discovery. The simulator knows all cards and tells each; where a port has a wire to the outside it asks
//! there, and the command that wanted to know is tried again. On a machine the driver asks the system's own
//! table and puts the MAC address into the path.

use crate::NUM_PORTS;
use crate::groups::group_mac;
use crate::port::Port;

/// Entries: all addresses of 128 ports, from both ports of the card.
pub const NUM_NEIGHBOURS: usize = 768;

/// A port elsewhere, as a port of this card sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Neighbour {
    /// Port of this card, from 1.
    pub port_num: u8,
    /// GID, first byte on the wire first.
    pub gid: [u8; 16],
    /// MAC address, first byte on the wire first.
    pub mac: [u8; 6],
}

/// The MAC address of a neighbour of a port, from 1, by its GID.
pub type FindNeighbour = fn(u8, &[u8; 16]) -> Option<[u8; 6]>;

/// Those that firmware keeps itself: none where the board has them in a memory of its own.
const NUM_KEPT: usize = if cfg!(feature = "std") { NUM_NEIGHBOURS } else { 0 };

/// All that the card knows.
pub(crate) struct Neighbours {
    entries: [Neighbour; NUM_KEPT],
    len: usize,
    /// Where the others are found.
    elsewhere: Option<FindNeighbour>,
    /// Ports whose neighbours can be asked for.
    asks: [bool; NUM_PORTS],
    /// Who was looked for last at such a port, in vain.
    wanted: Option<(u8, [u8; 16])>,
}

impl Neighbours {
    pub const fn new() -> Self {
        let none = Neighbour {
            port_num: 0,
            gid: [0; 16],
            mac: [0; 6],
        };
        Self {
            entries: [none; NUM_KEPT],
            len: 0,
            elsewhere: None,
            asks: [false; NUM_PORTS],
            wanted: None,
        }
    }

    /// From now on these and no others; those beyond the last entry stay unknown.
    pub fn set(&mut self, neighbours: &[Neighbour]) {
        self.len = 0;
        for (entry, neighbour) in self.entries.iter_mut().zip(neighbours) {
            *entry = *neighbour;
            self.len += 1;
        }
    }

    /// Others than these are looked for there.
    pub fn find_in(&mut self, elsewhere: FindNeighbour) {
        self.elsewhere = Some(elsewhere);
    }

    /// Whether somebody can be asked who the neighbours of a port are.
    pub fn set_asks(&mut self, port_num: u8, asks: bool) {
        if let Some(port) = self.asks.get_mut(usize::from(port_num).wrapping_sub(1)) {
            *port = asks;
        }
    }

    /// Whom to ask for; once.
    pub fn take_wanted(&mut self) -> Option<(u8, [u8; 16])> {
        self.wanted.take()
    }

    /// Notes a GID that [`Neighbours::resolve`] has not found. False: there is nobody to ask for it.
    pub fn want(&mut self, port_num: u8, gid: [u8; 16]) -> bool {
        let asks = self.asks.get(usize::from(port_num).wrapping_sub(1)) == Some(&true);
        let could_be = gid != [0; 16] && gid[0] != 0xff;
        if asks && could_be {
            self.wanted = Some((port_num, gid));
        }
        asks && could_be
    }

    /// ADDR-8: MAC address behind a GID: of a multicast group, of the port itself, of a neighbour, or the one that the
    /// GID is made from.
    pub fn resolve(&self, port: &Port, gid: &[u8; 16]) -> Option<[u8; 6]> {
        if *gid == [0; 16] {
            return None;
        }
        if let Some(mac) = group_mac(gid) {
            return Some(mac);
        }
        if port.has_gid(gid) {
            return Some(port.identity().mac);
        }
        let mut known = self.entries.iter().take(self.len);
        let found = known.find(|entry| entry.port_num == port.number() && entry.gid == *gid);
        let found = found.map(|entry| entry.mac);
        let found = found.or_else(|| self.elsewhere.and_then(|find| find(port.number(), gid)));
        found.or_else(|| mac_in(gid))
    }
}

/// Subnet prefix of a port that no subnet manager has given another one.
const LINK_LOCAL_PREFIX: [u8; 8] = [0xfe, 0x80, 0, 0, 0, 0, 0, 0];
/// ::ffff:0:0/96, the prefix of a GID that is an IPv4 address.
const IPV4_GID_PREFIX: [u8; 12] = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff];

/// GID of a port whose subnet prefix is the link-local one.
pub(crate) fn link_local(guid: [u8; 8]) -> [u8; 16] {
    let mut gid = [0; 16];
    gid[..8].copy_from_slice(&LINK_LOCAL_PREFIX);
    gid[8..].copy_from_slice(&guid);
    gid
}

/// The GID ::ffff:a.b.c.d.
pub(crate) fn of_ipv4(ipv4: [u8; 4]) -> [u8; 16] {
    let mut gid = [0; 16];
    gid[..12].copy_from_slice(&IPV4_GID_PREFIX);
    gid[12..].copy_from_slice(&ipv4);
    gid
}

/// Packets to it carry IPv4.
pub(crate) fn is_ipv4(gid: &[u8; 16]) -> bool {
    gid[..12] == IPV4_GID_PREFIX
}

/// A link-local interface identifier with ff:fe in the middle is a MAC address with its universal/local bit turned
/// (RFC 4291 appendix A).
fn mac_in(gid: &[u8; 16]) -> Option<[u8; 6]> {
    let made = gid[..8] == LINK_LOCAL_PREFIX && gid[11..13] == [0xff, 0xfe];
    made.then(|| [gid[8] ^ 2, gid[9], gid[10], gid[13], gid[14], gid[15]])
}
