//! Co-simulation: Verilated cards with their firmware, host side and cables, in one thread of simulated time.
//!
//! A [`Fabric`] owns cards and cables and moves time, one cycle of the cards' clock per step; idle time is
//! skipped. One seed decides everything, and nothing reads the wall clock, so two runs are equal cycle by
//! cycle; only wires that leave the simulator ([`Outside`]) bring in what nobody can repeat. [`Simulation`]
//! shares a fabric between the [`hca_dev::Device`]s of its cards' functions, for
//! drivers in the same process.
//!
//! [`Fabric::from_topology`] builds what a topology file says.
//!
//! This crate must not know about rings, verbs or packets.
//!
//! ```
//! use hca_cosim::{CardConfig, Fabric, Simulation};
//! use hca_dev::Device;
//! use hca_vsim::Model;
//! # use hca_models as _;
//! let mut fabric = Fabric::new(1);
//! let card = fabric.add_card(CardConfig::probe("card0")).unwrap();
//! let sim = Simulation::new(fabric);
//! let dev = sim.device(card, 0).unwrap();
//! assert_eq!(dev.mmio_read32(0), 0x5052_4f42); // what the test card answers there
//! ```

#[cfg(test)]
use hca_models as _;

mod build;
mod card;
mod choice;
mod circuit;
mod config;
mod containment;
mod core_firmware;
mod crew;
mod design;
mod device;
mod draw;
mod error;
mod fabric;
mod firmware;
mod flash;
mod functional;
mod monitor;
mod observe;
mod outside;
mod peer;
mod plain;
mod port_observer;
mod processor;
mod quiet;
mod server;
mod stamps;
mod waveform;
mod wire;

pub use build::{Built, BuiltSwitch, identities};
pub use card::{Card, CardCounters};
pub use config::{CardConfig, CardFirmware};
pub use core_firmware::{Board, ProcessorCounters};
pub use design::Design;
pub use device::{SimDevice, Simulation};
pub use error::SimError;
pub use fabric::{CableId, CardId, Fabric, Plug};
pub use firmware::{FirmwareEntry, FwBus, native_firmware};
pub use flash::Flash;
pub use hca_abi::{OpVls, PortView};
pub use hca_fw_core::{
    FEATURES, Identity, NUM_EQS, Neighbour, QPN_LINE_BITS, Quotas, SHARING_FUNCS, line_of,
};
pub use hca_switch::{EthSwitchId, SwitchId};
pub use hca_vsim::{DATA_VLS, has_models as has_rtl};
pub use observe::{Observer, ObserverFactory, PACKET_HEAD_BYTES, SentPacket, Session};
pub use outside::{Outside, OutsideId};
pub use peer::{Peer, PeerId};
pub use port_observer::{CardPorts, PortObserver};
pub use processor::Processor;
pub use server::{
    Calls, LinkStatus, OutsideStatus, PortStatus, Server, ServerStatus, StopHandle, Traffic, pci_config,
};
pub use stamps::{Stamp, StampKind};

/// Ports that a card can have.
pub const NUM_PORTS: u8 = hca_fw_core::NUM_PORTS as u8;
/// Functions of a card.
pub const NUM_FUNCS: u8 = hca_fw_core::NUM_FUNCS as u8;
/// Length of a function's BAR 0.
pub const BAR_LEN_BYTES: u32 = 0x1_0000;
/// MSI-X vectors of a function.
pub const NUM_VECTORS: u16 = 32;
