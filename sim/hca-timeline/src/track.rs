//! Tracks: a card is a process of the timeline, its ports, blocks and queue pairs are threads of it.

use serde_json::json;

use crate::sink::Sink;

/// Where an event is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Track {
    /// Card or switch, from 1.
    pub pid: u64,
    pub tid: u64,
}

/// Numbers of the fixed tracks; those of work requests follow.
const DOORBELLS: u64 = 1;
const WRITES: u64 = 2;
const PORTS: u64 = 3;
/// First number of a work request's track.
pub(crate) const WORK: u64 = 100;

/// The fixed tracks of a card.
#[derive(Clone, Copy)]
pub(crate) struct CardTracks {
    pid: u64,
}

impl CardTracks {
    /// Names them in the file.
    pub fn announce(sink: &Sink, index: usize, card: &str, ports: u8) -> Self {
        let tracks = Self {
            pid: index as u64 + 1,
        };
        process(sink, index, card);
        name(sink, tracks.doorbells(), "doorbells");
        name(sink, tracks.writes(), "PCIe writes");
        for port in 0..usize::from(ports) {
            name(sink, tracks.tx(port), &format!("port {} sends", port + 1));
            name(sink, tracks.rx(port), &format!("port {} receives", port + 1));
        }
        tracks
    }

    fn track(self, tid: u64) -> Track {
        Track { pid: self.pid, tid }
    }

    /// Register writes by the host.
    pub fn doorbells(self) -> Track {
        self.track(DOORBELLS)
    }

    /// Writes to host memory.
    pub fn writes(self) -> Track {
        self.track(WRITES)
    }

    /// Packets sent at a port, from 0.
    pub fn tx(self, port: usize) -> Track {
        self.track(PORTS + 2 * port as u64)
    }

    /// Packets received at a port, from 0.
    pub fn rx(self, port: usize) -> Track {
        self.track(PORTS + 2 * port as u64 + 1)
    }

    /// What is no track of its own: counters, and events that overlap.
    pub fn card(self) -> Track {
        self.track(0)
    }
}

/// Names a card or a switch; they are shown in their order.
pub(crate) fn process(sink: &Sink, index: usize, name: &str) {
    let process = Track {
        pid: index as u64 + 1,
        tid: 0,
    };
    sink.describe(process, "process_name", &json!({ "name": name }));
    sink.describe(process, "process_sort_index", &json!({ "sort_index": index }));
}

/// Names a track; tracks are shown in the order of their numbers.
pub(crate) fn name(sink: &Sink, track: Track, name: &str) {
    sink.describe(track, "thread_name", &json!({ "name": name }));
    sink.describe(track, "thread_sort_index", &json!({ "sort_index": track.tid }));
}
