//! What a wire has carried and thrown away.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

macro_rules! counts {
    ($($(#[$doc:meta])* $name:ident),* $(,)?) => {
        /// Counts of a wire.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct WireCounts {
            $($(#[$doc])* pub $name: u64,)*
        }

        /// The counts of a wire in use, for other threads to look at. Each is right by itself.
        #[derive(Debug, Default)]
        pub struct WireStats {
            connected: AtomicBool,
            $(pub(crate) $name: AtomicU64,)*
        }

        impl WireStats {
            /// All of them.
            pub fn counts(&self) -> WireCounts {
                WireCounts { $($name: self.$name.load(Ordering::Relaxed),)* }
            }
        }

        impl WireCounts {
            /// Name and value of those that are not zero.
            pub fn named(&self) -> impl Iterator<Item = (&'static str, u64)> + use<> {
                [$((stringify!($name), self.$name),)*].into_iter().filter(|(_, count)| *count > 0)
            }
        }
    };
}

counts! {
    /// Frames that the peer sent for the card.
    frames_in,
    /// Frames of the card that the peer was sent.
    frames_out,
    /// Frames for the card for which there was no room: the simulation is slower than the peer.
    dropped_in,
    /// Frames of the card for which there was no room: the peer is slower than the simulation.
    dropped_out,
    /// Frames of the card for which there was no peer.
    no_peer,
    /// Of those, frames of no protocol of the port's: only a raw QP's rule takes them.
    foreign,
    /// Questions about the card's addresses that were answered.
    asked,
    /// Echo requests that were answered.
    echoes,
    /// Frames that said of themselves what they were not, or had a wrong checksum.
    malformed,
    /// Frames of somebody who claims an address of the card.
    conflicts,
    /// Frames that are no frames: shorter than a header.
    runts,
    /// Frames that are too long.
    oversized,
    /// Streams that were hung up because what came was no frames.
    bad_streams,
    /// Callers that were hung up because there was a peer.
    refused,
    /// Times a peer came.
    connects,
}

impl WireStats {
    /// A peer is there; datagram sockets and TAP devices cannot tell and say yes.
    pub fn is_connected(&self) -> bool {
        self.connected.load(Ordering::Relaxed)
    }

    pub(crate) fn set_connected(&self, connected: bool) {
        if connected && !self.connected.swap(true, Ordering::Relaxed) {
            add(&self.connects, 1);
        }
        self.connected.store(connected, Ordering::Relaxed);
    }
}

pub(crate) fn add(count: &AtomicU64, by: u64) {
    count.fetch_add(by, Ordering::Relaxed);
}
