//! Address vectors, and the patience that finding a MAC address takes.

use std::time::{Duration, Instant};

use hca_abi::AdminStatus;
use hca_driver::DriverError;

use crate::values::error::{Error, Result};
use crate::values::gid::Gid;

/// How long the network has to say who has an address, as in Linux: by the wall clock, which its other hosts have.
const RESOLVING_MAX: Duration = Duration::from_secs(1);
/// Time between two tries: at first, and at last.
const PAUSES: (Duration, Duration) = (Duration::from_millis(1), Duration::from_millis(64));

/// Tries a command again while the card asks its network for the MAC address that it needs.
pub(crate) fn while_resolving<T>(
    mut command: impl FnMut() -> std::result::Result<T, DriverError>,
) -> std::result::Result<T, DriverError> {
    let is_resolving = |done: &std::result::Result<T, DriverError>| match done {
        Err(DriverError::Admin(refusal)) => refusal.status == AdminStatus::Resolving,
        _ => false,
    };
    let mut done = command();
    if is_resolving(&done) {
        let (start, mut pause) = (Instant::now(), PAUSES.0);
        while is_resolving(&done) && start.elapsed() < RESOLVING_MAX {
            std::thread::sleep(pause);
            pause = (2 * pause).min(PAUSES.1);
            done = command();
        }
    }
    done
}

/// Where a path leads: ibv_ah_attr, with the MAC address that RoCE needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AhAttr {
    /// Destination GID.
    pub dgid: Gid,
    /// Index of the source GID in the port's table.
    pub sgid_index: u8,
    /// Flow label, 20 bits.
    pub flow_label: u32,
    /// Hop limit. On Ethernet 0 and 1 are sent as 64, as an operating system would fill in from its route.
    pub hop_limit: u8,
    /// Traffic class.
    pub traffic_class: u8,
    /// The GRH fields above count. Always so on Ethernet.
    pub is_global: bool,
    /// Destination LID (InfiniBand).
    pub dlid: u16,
    /// Service level, 0..=15.
    pub sl: u8,
    /// Low bits of the source LID, 0..=127.
    pub src_path_bits: u8,
    /// Static rate: a code of `StaticRate`; 0: that of the port.
    pub static_rate: u8,
    /// Port, from 1.
    pub port_num: u8,
    /// Destination MAC address (Ethernet); all zero: the card finds the neighbour that has `dgid`.
    pub dmac: [u8; 6],
}

impl Default for AhAttr {
    fn default() -> Self {
        Self {
            dgid: [0; 16],
            sgid_index: 0,
            flow_label: 0,
            hop_limit: 64,
            traffic_class: 0,
            is_global: false,
            dlid: 0,
            sl: 0,
            src_path_bits: 0,
            static_rate: 0,
            port_num: 1,
            dmac: [0; 6],
        }
    }
}

impl AhAttr {
    /// For the card. A value that its field cannot hold is refused here.
    pub(crate) fn to_abi(self) -> Result<hca_abi::AhAttr> {
        if self.flow_label >> 20 != 0 || self.sl > 15 || self.src_path_bits > 127 {
            return Err(Error::Invalid(format!(
                "ah_attr: flow_label {:#x} (20 bits), sl {} (4 bits) or src_path_bits {} (7 bits) too large",
                self.flow_label, self.sl, self.src_path_bits
            )));
        }
        let mut out = hca_abi::AhAttr::new();
        out.set_dgid(self.dgid);
        out.set_sgid_index(self.sgid_index);
        out.set_flow_label(self.flow_label);
        out.set_hop_limit(self.hop_limit);
        out.set_traffic_class(self.traffic_class);
        out.set_is_global(self.is_global);
        out.set_dlid(self.dlid);
        out.set_sl(self.sl);
        out.set_src_path_bits(self.src_path_bits);
        out.set_static_rate(self.static_rate);
        out.set_port_num(self.port_num);
        out.set_dmac(self.dmac);
        Ok(out)
    }

    pub(crate) fn from_abi(a: &hca_abi::AhAttr) -> Self {
        Self {
            dgid: a.dgid(),
            sgid_index: a.sgid_index(),
            flow_label: a.flow_label(),
            hop_limit: a.hop_limit(),
            traffic_class: a.traffic_class(),
            is_global: a.is_global(),
            dlid: a.dlid(),
            sl: a.sl(),
            src_path_bits: a.src_path_bits(),
            static_rate: a.static_rate(),
            port_num: a.port_num(),
            dmac: a.dmac(),
        }
    }
}
