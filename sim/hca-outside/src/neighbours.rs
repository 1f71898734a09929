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

#[cfg(test)]
mod tests {
    use super::*;

    /// Frames of every kind that is understood, with any bytes changed and any part missing: judged, never a panic.
    #[test]
    fn any_frame_is_judged() {
        let own = [2, 0, 10, 0, 0, 1];
        let peer = [0x52, 0x54, 0, 0, 0, 1];
        let gids = ["fe80::1", "::ffff:10.0.0.1", "fd00::1"];
        let gids = gids.map(|gid| gid.parse::<std::net::Ipv6Addr>().unwrap().octets());
        let mut hood = Neighbourhood::new(&[], &[]);
        hood.host = Some(Host::of_gids(own, &gids));
        let (us4, them4) = ([10, 0, 0, 1].into(), [10, 0, 0, 9].into());
        let (us6, them6) = (gids[2].into(), "fd00::9".parse().unwrap());
        let mut frames = vec![
            packet::arp_reply((peer, them4), (own, us4)),
            packet::echo4((peer, them4), (own, us4), 1, 2, &[3; 56]),
            packet::echo6((peer, them6), (own, us6), 1, 2, &[3; 56]),
            packet::advertisement((peer, them6), Some((own, us6))),
        ];
        frames.extend(packet::question(peer, them4.into(), us4.into()));
        frames.extend(packet::question(peer, them6.into(), us6.into()));
        assert_eq!(frames.len(), 6);
        let now = Instant::now();
        let mut state = 1u64;
        let mut draw = |below: usize| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) as usize % below
        };
        let mut judged = 0;
        for round in 0..200_000 {
            let mut frame = frames[round % frames.len()].clone();
            for _ in 0..draw(4) {
                let at = draw(frame.len());
                frame[at] = draw(256) as u8;
            }
            frame.truncate(if draw(4) == 0 {
                draw(frame.len() + 1)
            } else {
                frame.len()
            });
            if draw(4) == 0 {
                frame.extend(std::iter::repeat_n(draw(256) as u8, draw(64)));
            }
            judged += u32::from(hood.hear(now, &frame) != Heard::Card);
        }
        assert!(judged > 100_000);
    }
}
