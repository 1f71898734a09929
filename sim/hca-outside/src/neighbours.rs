//! The neighbours of a port, for whoever needs their addresses.

use std::sync::{Arc, MutexGuard};
use std::time::Instant;

use crate::answer::{Heard, hear};
use crate::host::{Gateway, Host, Mac, StaticNeighbour, gid_of_ip, ip_of_gid};
use crate::packet;
use crate::table::Table;
use crate::wire::Shared;

/// The port, and who is on its network. No socket, no clock.
pub(crate) struct Neighbourhood {
    /// None: nothing is known of the port, and everything is for it.
    host: Option<Host>,
    table: Table,
}

impl Neighbourhood {
    pub fn new(neighbours: &[StaticNeighbour], gateways: &[Gateway]) -> Self {
        Self {
            host: None,
            table: Table::new(neighbours, gateways),
        }
    }

    pub fn hear(&mut self, now: Instant, frame: &[u8]) -> Heard {
        match &self.host {
            None => Heard::Card,
            Some(host) => hear(host, &mut self.table, now, frame),
        }
    }

    /// Questions that go out now.
    pub fn questions(&mut self, now: Instant) -> Vec<Vec<u8>> {
        self.table.expire(now);
        let mut frames = Vec::new();
        while let Some(target) = self.table.question(now) {
            let source = self
                .host
                .as_ref()
                .and_then(|host| Some((host.mac, host.source_for(target)?)));
            frames.extend(source.and_then(|(mac, source)| packet::question(mac, source, target)));
        }
        frames
    }

    pub fn next_time(&self) -> Option<Instant> {
        self.table.next_time()
    }
}

/// The neighbours behind a wire. Addresses are GIDs, as verbs have them.
#[derive(Clone)]
pub struct Neighbours {
    shared: Arc<Shared>,
}

impl Neighbours {
    pub(crate) fn new(shared: Arc<Shared>) -> Self {
        Self { shared }
    }

    fn lock(&self) -> MutexGuard<'_, Neighbourhood> {
        self.shared.neighbourhood()
    }

    /// Changes when [`Neighbours::list`] does.
    pub fn version(&self) -> u64 {
        self.lock().table.version()
    }

    /// Those that are known, at most 256.
    pub fn list(&self) -> Vec<([u8; 16], Mac)> {
        let list = self.lock().table.list().into_iter();
        list.map(|(address, mac)| (gid_of_ip(address), mac)).collect()
    }

    /// Asks the network for one; it is in the list once it has answered.
    pub fn want(&self, gid: [u8; 16]) {
        self.lock().table.want(Instant::now(), ip_of_gid(gid));
        self.shared.kick();
    }

    /// The port has these addresses from now on.
    pub fn set_host(&self, host: Host) {
        self.lock().host = Some(host);
    }
}
