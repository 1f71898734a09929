//! What the board says and wants to know.

use hca_abi::{BoardHead, BoardNeighbour, BoardPort, OpVls, SOC_BOARD_NEIGHBOURS, SOC_BOARD_PORTS};
use hca_fw_core::{Firmware, Identity, NUM_GIDS, NUM_NEIGHBOURS, NUM_PORTS};

use crate::soc;

const HEAD_BYTES: usize = 32;
const PORT_BYTES: usize = 64;
const NEIGHBOUR_BYTES: usize = 24;

/// The head of the board's data.
pub fn head() -> BoardHead {
    BoardHead::read_from(&soc::board_bytes::<HEAD_BYTES>(0)).unwrap_or(BoardHead::new())
}

/// Identity of the port with this index.
pub fn identity(index: usize) -> Identity {
    let bytes = soc::board_bytes::<PORT_BYTES>(SOC_BOARD_PORTS + (PORT_BYTES * index) as u32);
    let port = BoardPort::read_from(&bytes).unwrap_or(BoardPort::new());
    Identity {
        guid: port.guid(),
        mac: port.mac(),
        ipv4: port.ipv4(),
        ipv6: port.ipv6(),
        lid: port.lid(),
        infiniband: port.infiniband(),
        self_active: port.self_active(),
        peer_vls: OpVls::try_from(port.peer_vls()).unwrap_or(OpVls::One),
        rate_mbps: port.rate_mbps(),
    }
}

/// MAC address of a neighbour of a port, from the board's list as it is now.
pub fn find_neighbour(port_num: u8, gid: &[u8; 16]) -> Option<[u8; 6]> {
    let count = usize::from(head().neighbours()).min(NUM_NEIGHBOURS);
    let entry = |index: usize| {
        let place = SOC_BOARD_NEIGHBOURS + (NEIGHBOUR_BYTES * index) as u32;
        BoardNeighbour::read_from(&soc::board_bytes::<NEIGHBOUR_BYTES>(place))
            .unwrap_or(BoardNeighbour::new())
    };
    let mut entries = (0..count).map(entry);
    let found = entries.find(|entry| entry.port_num() == port_num && entry.gid() == *gid);
    found.map(|entry| entry.mac())
}

/// For ports whose neighbours the board finds out: what it has been told of their GID tables.
pub struct Told {
    asks: u8,
    gids: [[[u8; 16]; NUM_GIDS]; NUM_PORTS],
}

impl Told {
    /// It has been told nothing.
    pub const fn new() -> Self {
        Self {
            asks: 0,
            gids: [[[0; 16]; NUM_GIDS]; NUM_PORTS],
        }
    }

    /// From the board's data.
    pub fn begin(&mut self, firmware: &mut Firmware, asks: u8) {
        self.asks = asks;
        for port_num in self.ports() {
            firmware.set_asks(port_num, true);
        }
    }

    fn ports(&self) -> impl Iterator<Item = u8> + use<> {
        let asks = self.asks;
        (0..NUM_PORTS as u8)
            .filter(move |port| asks >> port & 1 != 0)
            .map(|port| port + 1)
    }

    /// After a piece of work of the firmware.
    pub fn tell(&mut self, firmware: &mut Firmware) {
        if self.asks == 0 {
            return;
        }
        if let Some((port_num, gid)) = firmware.take_wanted() {
            soc::tell_wanted(port_num, &gid);
        }
        for port_num in self.ports() {
            let Some(known) = self.gids.get_mut(usize::from(port_num) - 1) else {
                continue;
            };
            for (index, (known, gid)) in known.iter_mut().zip(firmware.gids(port_num)).enumerate() {
                if known != gid {
                    *known = *gid;
                    soc::tell_own_gid(port_num, index, gid);
                }
            }
        }
    }
}
