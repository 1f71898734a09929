//! What the card has said already: attributes that never change (V-30), and the tables of its ports until an event, or
//! this process itself, changes them (V-35: refresh on asynchronous events).

use std::collections::BTreeMap;
use std::sync::{Mutex, OnceLock};

use hca_abi::{EventKind, LinkLayer, QueryDeviceResult as DeviceAttr, QueryPortResult as PortAttr};

use crate::values::error::Result;
use crate::values::gid::Gid;
use crate::values::lock::lock;

/// What is known of the tables of a port: attributes that an event announces the change of, if they change at all.
/// State, counters and the like are not among them: those are asked for, with ibv_query_port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PortTables {
    /// Entries of the GID table.
    pub gid_tbl_len: u32,
    /// Entries of the P_Key table.
    pub pkey_tbl_len: u16,
    /// Ethernet or InfiniBand; what the GIDs are follows from it.
    pub link_layer: LinkLayer,
}

impl From<&PortAttr> for PortTables {
    fn from(attr: &PortAttr) -> Self {
        Self {
            gid_tbl_len: attr.gid_tbl_len(),
            pkey_tbl_len: attr.pkey_tbl_len(),
            link_layer: LinkLayer::try_from(attr.link_layer()).unwrap_or(LinkLayer::Unspecified),
        }
    }
}

/// One port. Entries that the card has refused are not kept.
#[derive(Debug, Default)]
pub(crate) struct Port {
    pub tables: Option<PortTables>,
    pub gids: BTreeMap<u16, Gid>,
    pub pkeys: BTreeMap<u16, u16>,
}

#[derive(Debug, Default)]
struct Ports {
    by_number: BTreeMap<u8, Port>,
    /// Counts what was forgotten: an answer that was under way meanwhile may be the old one.
    generation: u64,
}

/// What a context knows.
#[derive(Debug, Default)]
pub(crate) struct Known {
    device: OnceLock<DeviceAttr>,
    ports: Mutex<Ports>,
}

impl Known {
    /// Attributes of the card. `ask` is called until it has answered once.
    pub fn device(&self, ask: impl FnOnce() -> Result<DeviceAttr>) -> Result<DeviceAttr> {
        if let Some(known) = self.device.get() {
            return Ok(*known);
        }
        let answer = ask()?;
        Ok(*self.device.get_or_init(|| answer))
    }

    /// Something of a port: what `find` finds, else what `ask` answers, which `keep` puts in its place.
    pub fn of_port<T: Copy>(
        &self,
        port_num: u8,
        find: impl FnOnce(&Port) -> Option<T>,
        ask: impl FnOnce() -> Result<T>,
        keep: impl FnOnce(&mut Port, T),
    ) -> Result<T> {
        let generation = {
            let ports = lock(&self.ports);
            if let Some(found) = ports.by_number.get(&port_num).and_then(find) {
                return Ok(found);
            }
            ports.generation
        };
        let answer = ask()?;
        let mut ports = lock(&self.ports);
        if ports.generation == generation {
            keep(ports.by_number.entry(port_num).or_default(), answer);
        }
        Ok(answer)
    }

    /// The port has changed.
    pub fn forget_port(&self, port_num: u8) {
        let mut ports = lock(&self.ports);
        ports.generation += 1;
        ports.by_number.remove(&port_num);
    }

    /// An event says that something has changed. `id`: the number of the port, for the events of ports.
    pub fn note(&self, kind: EventKind, id: u32) {
        use EventKind::{ClientReregister, GidChange, LidChange, PkeyChange, PortActive, PortErr, SmChange};
        if matches!(
            kind,
            PortActive | PortErr | LidChange | PkeyChange | SmChange | ClientReregister | GidChange
        ) {
            // A number that is no port's was never asked for.
            self.forget_port(u8::try_from(id).unwrap_or(0));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gid(known: &Known, answer: Gid) -> Gid {
        let find = |port: &Port| port.gids.get(&3).copied();
        let keep = |port: &mut Port, gid| {
            port.gids.insert(3, gid);
        };
        known.of_port(1, find, || Ok(answer), keep).unwrap()
    }

    /// The table changes while the card's answer is under way: the old answer is given, and not kept.
    #[test]
    fn an_answer_that_was_overtaken_is_not_kept() {
        let known = Known::default();
        let find = |port: &Port| port.gids.get(&3).copied();
        let ask = || {
            known.note(EventKind::GidChange, 1);
            Ok([1; 16])
        };
        let keep = |port: &mut Port, gid| {
            port.gids.insert(3, gid);
        };
        assert_eq!(known.of_port(1, find, ask, keep).unwrap(), [1; 16]);
        assert_eq!(gid(&known, [2; 16]), [2; 16]);
        assert_eq!(gid(&known, [3; 16]), [2; 16], "kept");
        known.note(EventKind::CqErr, 1);
        known.note(EventKind::GidChange, 2);
        assert_eq!(gid(&known, [3; 16]), [2; 16], "another object, another port");
    }

    /// EVT: each event of a port.
    #[test]
    fn every_event_of_the_port_forgets_it() {
        use EventKind::*;
        let known = Known::default();
        for (i, kind) in [
            PortActive,
            PortErr,
            LidChange,
            PkeyChange,
            SmChange,
            ClientReregister,
            GidChange,
        ]
        .into_iter()
        .enumerate()
        {
            known.note(kind, 1);
            let answer = [i as u8; 16];
            assert_eq!(gid(&known, answer), answer, "{kind:?}");
        }
    }
}
