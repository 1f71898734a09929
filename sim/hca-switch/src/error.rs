//! What can go wrong when a network is built.

use hca_link::{LinkError, LinkKind};

/// A network that cannot be built.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SwitchError {
    /// A cable.
    #[error(transparent)]
    Link(#[from] LinkError),
    /// A number out of range.
    #[error("{what} is {found}, it must be {low} to {high}")]
    Range {
        /// What the number is.
        what: String,
        /// The number.
        found: usize,
        /// Least legal value.
        low: usize,
        /// Greatest legal value.
        high: usize,
    },
    /// A count of data VLs that there is not.
    #[error("{name}: {found} data VLs; a port has 1, 2, 4, 8 or 15")]
    Vls {
        /// Switch or endpoint.
        name: String,
        /// What was asked for.
        found: u8,
    },
    /// A port that the switch does not have.
    #[error("switch {switch} has ports 1 to {ports}, there is no port {port}")]
    NoPort {
        /// The switch.
        switch: String,
        /// What was asked for.
        port: u8,
        /// How many it has.
        ports: u8,
    },
    /// A second cable at a port.
    #[error("{0} already has a cable")]
    PortTaken(String),
    /// A cable of the other kind.
    #[error("cable {cable} is {}, {name} is not", kind_name(*.kind))]
    Kind {
        /// The cable.
        cable: String,
        /// Its kind.
        kind: LinkKind,
        /// What it was to be plugged into.
        name: String,
    },
    /// A cable with another clock.
    #[error("cable {cable} counts cycles of {found_ps} ps, the network of {cycle_ps} ps: they must be equal")]
    Clock {
        /// The cable.
        cable: String,
        /// Its cycle.
        found_ps: u64,
        /// That of the first cable.
        cycle_ps: u64,
    },
    /// A LID or an MLID where the other belongs.
    #[error("{what} {found:#06x} must be {low:#06x} to {high:#06x}")]
    Lid {
        /// LID or MLID.
        what: &'static str,
        /// What was asked for.
        found: u16,
        /// The first of its kind.
        low: u16,
        /// The last of its kind.
        high: u16,
    },
}

fn kind_name(kind: LinkKind) -> &'static str {
    match kind {
        LinkKind::Ethernet => "Ethernet",
        LinkKind::InfiniBand => "InfiniBand",
    }
}

impl SwitchError {
    pub(crate) fn range(what: impl Into<String>, found: usize, low: usize, high: usize) -> Self {
        Self::Range {
            what: what.into(),
            found,
            low,
            high,
        }
    }
}
