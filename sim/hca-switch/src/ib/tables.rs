//! Forwarding tables of a switch, and which VL an SL takes through it.

use std::collections::BTreeMap;

use crate::SwitchError;

/// First multicast LID.
pub const MLID_MIN: u16 = 0xc000;
/// The LID that means "whoever hears it", which belongs to nobody.
pub const LID_PERMISSIVE: u16 = 0xffff;

/// True for the LID of a multicast group.
pub fn is_multicast(lid: u16) -> bool {
    (MLID_MIN..LID_PERMISSIVE).contains(&lid)
}

/// Linear forwarding table and multicast forwarding table.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Forwarding {
    unicast: BTreeMap<u16, u8>,
    multicast: BTreeMap<u16, u64>,
}

impl Forwarding {
    /// Packets to this LID leave by this port.
    pub fn set_unicast(&mut self, lid: u16, port: u8) -> Result<(), SwitchError> {
        check("LID", lid, 1, MLID_MIN - 1)?;
        self.unicast.insert(lid, port);
        Ok(())
    }

    /// Packets to this group leave by these ports too.
    pub fn add_multicast(&mut self, mlid: u16, port: u8) -> Result<(), SwitchError> {
        check("MLID", mlid, MLID_MIN, LID_PERMISSIVE - 1)?;
        *self.multicast.entry(mlid).or_default() |= 1u64.checked_shl(port.into()).unwrap_or(0);
        Ok(())
    }

    /// The LID leads nowhere.
    pub fn clear_unicast(&mut self, lid: u16) {
        self.unicast.remove(&lid);
    }

    /// Packets to this group leave by these ports, and no other.
    pub fn set_multicast(&mut self, mlid: u16, ports: u64) {
        if ports == 0 || !is_multicast(mlid) {
            self.multicast.remove(&mlid);
        } else {
            self.multicast.insert(mlid, ports);
        }
    }

    /// The port for a LID.
    pub fn unicast(&self, lid: u16) -> Option<u8> {
        self.unicast.get(&lid).copied()
    }

    /// LIDs and their ports.
    pub fn all_unicast(&self) -> impl Iterator<Item = (u16, u8)> {
        self.unicast.iter().map(|(lid, port)| (*lid, *port))
    }

    /// Groups and their ports, a bit each.
    pub fn all_multicast(&self) -> impl Iterator<Item = (u16, u64)> {
        self.multicast.iter().map(|(mlid, ports)| (*mlid, *ports))
    }

    /// The ports for a group, a bit each; port 1 is bit 1.
    pub fn multicast(&self, mlid: u16) -> u64 {
        self.multicast.get(&mlid).copied().unwrap_or(0)
    }

    /// All ports to which a packet goes that came in at `from`: never back to it.
    pub fn ports(&self, dlid: u16, from: u8) -> u64 {
        let all = if is_multicast(dlid) {
            self.multicast(dlid)
        } else {
            self.unicast(dlid)
                .and_then(|port| 1u64.checked_shl(port.into()))
                .unwrap_or(0)
        };
        all & !1u64.checked_shl(from.into()).unwrap_or(0)
    }
}

fn check(what: &'static str, found: u16, low: u16, high: u16) -> Result<(), SwitchError> {
    if (low..=high).contains(&found) {
        return Ok(());
    }
    Err(SwitchError::Lid {
        what,
        found,
        low,
        high,
    })
}

/// VL of each SL.
pub type Sl2Vl = [u8; 16];

/// SL-to-VL tables, one per pair of input and output port (VL-5, VL-8).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SlTables {
    tables: BTreeMap<(u8, u8), Sl2Vl>,
}

impl SlTables {
    /// The table of a pair of ports.
    pub fn set(&mut self, input: u8, output: u8, table: Sl2Vl) {
        self.tables.insert((input, output), table);
    }

    /// The VL of a packet, by its SL and its way; without a table the SLs take turns over the VLs of the output (VL-4:
    /// all VL 0 where that is the only one).
    pub fn vl(&self, input: u8, output: u8, sl: u8, op_vls: u8) -> u8 {
        let sl = sl & 15;
        match self.tables.get(&(input, output)) {
            Some(table) => table[usize::from(sl)],
            None => sl % op_vls.max(1),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_packet_never_goes_back() {
        let mut tables = Forwarding::default();
        tables.set_unicast(7, 3).unwrap();
        for port in [1, 2, 5] {
            tables.add_multicast(0xc001, port).unwrap();
        }
        assert_eq!((tables.ports(7, 1), tables.ports(7, 3)), (1 << 3, 0));
        assert_eq!(tables.ports(0xc001, 2), 1 << 1 | 1 << 5);
        assert_eq!((tables.ports(8, 1), tables.ports(0xc002, 1)), (0, 0));
        assert_eq!(tables.ports(LID_PERMISSIVE, 1), 0);
    }

    #[test]
    fn lids_of_the_wrong_kind_are_refused() {
        let mut tables = Forwarding::default();
        for lid in [0, 0xc000, 0xffff] {
            assert!(tables.set_unicast(lid, 1).is_err());
        }
        for mlid in [0xbfff, 0xffff] {
            assert!(tables.add_multicast(mlid, 1).is_err());
        }
    }

    #[test]
    fn tables_belong_to_pairs_of_ports() {
        let mut tables = SlTables::default();
        tables.set(1, 2, [9; 16]);
        assert_eq!(tables.vl(1, 2, 3, 8), 9);
        assert_eq!(tables.vl(2, 1, 3, 8), 3);
        assert_eq!(tables.vl(2, 1, 3, 1), 0);
    }
}
