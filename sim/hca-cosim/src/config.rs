//! What a card is built from.

use hca_fw_core::{Identity, Neighbour, Quotas, SHARING_FUNCS};
use hca_host::PcieParams;
use hca_vsim::Model;

use crate::core_firmware::Board;
use crate::design::Design;
use crate::firmware::{FirmwareEntry, firmware_with_wires, shared_lines};
use crate::flash::Flash;
use crate::processor::Processor;

/// What a card is built from.
pub struct CardConfig {
    /// For messages and seeds; unique in a fabric.
    pub name: String,
    /// What does its work.
    pub design: Design,
    /// The design in gates, of a card that has some.
    pub model: Model,
    /// Ports fitted, 1 or 2.
    pub ports: u8,
    /// What the card calls itself, an EUI-64; 0: nothing.
    pub guid: u64,
    /// The host side.
    pub pcie: PcieParams,
    /// What runs beside it.
    pub firmware: CardFirmware,
    /// Cycles that a program computes between two bus accesses.
    pub firmware_think_cycles: u64,
    /// A broken port contract or a failed assertion of the RTL stops the run (panic). Otherwise it is only
    /// listed, as it is in a [`crate::Server`], where it stops that one card.
    pub stop_on_violation: bool,
}

/// What runs beside a card.
pub enum CardFirmware {
    /// A program of this machine.
    Native(FirmwareEntry),
    /// The image, on the card's own processor.
    Core(Box<Board>),
}

impl CardConfig {
    /// The card with one port and its native firmware, on a default PCIe link.
    pub fn core(name: &str, identity: Identity) -> Self {
        Self::with_ports(name, &[identity])
    }

    /// The card with as many ports as there are identities, one or two.
    pub fn with_ports(name: &str, identities: &[Identity]) -> Self {
        Self::with_shares(name, identities, SHARING_FUNCS, &[])
    }

    /// The same with its tables divided among so many functions, the first ones, or by quotas; it knows who has which
    /// GID on its networks.
    pub fn with_shares(
        name: &str,
        identities: &[Identity],
        quotas: impl Into<Quotas>,
        neighbours: &[Neighbour],
    ) -> Self {
        Self::of_design(Design::chosen(), name, identities, quotas, neighbours)
    }

    /// The same of a design that may be another one than the other cards'.
    pub fn of_design(
        design: Design,
        name: &str,
        identities: &[Identity],
        quotas: impl Into<Quotas>,
        neighbours: &[Neighbour],
    ) -> Self {
        Self::with_wires(design, name, identities, quotas.into(), neighbours, Vec::new())
    }

    /// The same with wires to the outside at some ports, from 1: it asks there for neighbours that it does not know.
    pub(crate) fn with_wires(
        design: Design,
        name: &str,
        identities: &[Identity],
        quotas: Quotas,
        neighbours: &[Neighbour],
        wires: Vec<(u8, hca_outside::Neighbours)>,
    ) -> Self {
        let firmware = match Processor::chosen() {
            Processor::Native => CardFirmware::Native(firmware_with_wires(
                identities,
                quotas,
                neighbours,
                wires,
                shared_lines(),
                design,
            )),
            Processor::Core => {
                CardFirmware::Core(Box::new(Board::new(identities, quotas, neighbours, wires)))
            }
        };
        Self {
            design,
            model: if identities.len() > 1 {
                Model::TwoPorts
            } else {
                Model::Core
            },
            ports: identities.len() as u8,
            guid: identities
                .first()
                .map_or(0, |identity| u64::from_be_bytes(identity.guid)),
            firmware,
            ..Self::probe(name)
        }
    }

    /// Of [`CardConfig::with_shares`]: the QPs of a function share `lines` lines, and those at rest are in the memory
    /// of the firmware, which runs natively.
    pub fn share_lines(mut self, identities: &[Identity], functions: u8, lines: u32) -> Self {
        let entry = firmware_with_wires(
            identities,
            functions.into(),
            &[],
            Vec::new(),
            Some(lines),
            Design::Rtl,
        );
        self.firmware = CardFirmware::Native(entry);
        self
    }

    /// Its board comes up with what another one has kept without power, and the boot program checks what it starts. Of
    /// a card whose firmware runs natively nothing changes.
    pub fn with_flash(mut self, flash: &Flash) -> Self {
        if let CardFirmware::Core(board) = &mut self.firmware {
            board.set_flash(flash);
        }
        self
    }

    /// The test card, firmware idle.
    pub fn probe(name: &str) -> Self {
        Self::with_firmware(name, Box::new(|_| ()))
    }

    /// The test card with a program of the caller's.
    pub fn with_firmware(name: &str, firmware: FirmwareEntry) -> Self {
        Self {
            name: name.to_owned(),
            design: Design::Rtl,
            model: Model::Probe,
            ports: 1,
            guid: 0,
            pcie: PcieParams::default(),
            firmware: CardFirmware::Native(firmware),
            firmware_think_cycles: 4,
            stop_on_violation: true,
        }
    }
}
