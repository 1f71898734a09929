//! PCI configuration space of a function: the header, the list of capabilities and the extended ones (PCI Express Base
//! Specification, section 7.5 and following).
//!
//! The tables below are the layout: structures are lists of fields, one behind the other, and nothing else knows where
//! a field is. What an offset in the specification is for is checked by the tests.

use hca_dev::{PCI_DEVICE_ID, PCI_VENDOR_ID};
use hca_host::PcieParams;

use crate::{BAR_LEN_BYTES, NUM_VECTORS};

/// Length of the configuration space.
pub const CONFIG_BYTES: usize = 4096;
/// Length of BAR 2: MSI-X table, and pending bits in its second half.
pub(super) const MSIX_BAR_BYTES: usize = 4096;
/// Where in BAR 2 the pending bits are.
pub(super) const PBA_OFFSET: usize = MSIX_BAR_BYTES / 2;
/// The BAR of the MSI-X table.
const MSIX_BAR: u32 = 2;

/// Vendor and device: `docs/decisions/0015-vendor-and-device-numbers.md`.
const REVISION: u32 = 1;
const CLASS_NETWORK_INFINIBAND: u32 = 0x02_07_00;

/// Where the lists of capabilities start.
const FIRST_CAPABILITY: usize = 0x40;
const FIRST_EXTENDED: usize = 0x100;

const POWER_MANAGEMENT: u32 = 0x01;
const EXPRESS: u32 = 0x10;
const MSIX: u32 = 0x11;
const SERIAL_NUMBER: u32 = 0x0003;

const COMMAND_MEMORY: u32 = 1 << 1;
const COMMAND_MASTER: u32 = 1 << 2;
/// Parity error response, SERR#, interrupt disable: kept, and without effect here.
const COMMAND_KEPT: u32 = 1 << 6 | 1 << 8 | 1 << 10;
const STATUS_CAPABILITIES: u32 = 1 << 4;
/// A read of ours was answered "unsupported request".
const STATUS_MASTER_ABORT: u32 = 1 << 13;
const POWER_STATE: u32 = 3;
const POWER_D0: u32 = 0;
const POWER_D3HOT: u32 = 3;
const NO_SOFT_RESET: u32 = 1 << 3;
const START_FLR: u32 = 1 << 15;
const MSIX_ENABLE: u32 = 1 << 15;
const MSIX_MASK: u32 = 1 << 14;

/// A field of one, two or four bytes.
#[derive(Clone, Copy)]
struct Field {
    name: &'static str,
    bytes: usize,
    /// After a reset.
    value: u32,
    /// Bits that software sets and clears.
    writable: u32,
    /// Bits that software clears by writing ones.
    clears: u32,
}

const fn fixed(name: &'static str, bytes: usize, value: u32) -> Field {
    kept(name, bytes, value, 0)
}

const fn kept(name: &'static str, bytes: usize, value: u32, writable: u32) -> Field {
    Field {
        name,
        bytes,
        value,
        writable,
        clears: 0,
    }
}

const fn cleared(name: &'static str, bytes: usize, clears: u32) -> Field {
    Field {
        clears,
        ..fixed(name, bytes, 0)
    }
}

/// A BAR of 32-bit memory: writing ones tells its size. Length 0: it is not there.
const fn bar(len_bytes: u32) -> Field {
    kept("bar", 4, 0, if len_bytes == 0 { 0 } else { !(len_bytes - 1) })
}

const HEADER: [Field; 23] = [
    fixed("vendor", 2, PCI_VENDOR_ID as u32),
    fixed("device", 2, PCI_DEVICE_ID as u32),
    kept("command", 2, 0, COMMAND_MEMORY | COMMAND_MASTER | COMMAND_KEPT),
    Field {
        clears: STATUS_MASTER_ABORT,
        ..fixed("status", 2, STATUS_CAPABILITIES)
    },
    fixed("revision and class", 4, CLASS_NETWORK_INFINIBAND << 8 | REVISION),
    kept("cache line", 1, 0, 0xff),
    fixed("latency timer", 1, 0),
    fixed("header type", 1, 0),
    fixed("self test", 1, 0),
    bar(BAR_LEN_BYTES),
    bar(0),
    bar(MSIX_BAR_BYTES as u32),
    bar(0),
    bar(0),
    bar(0),
    fixed("card bus", 4, 0),
    fixed("subsystem vendor", 2, PCI_VENDOR_ID as u32),
    fixed("subsystem", 2, PCI_DEVICE_ID as u32),
    fixed("expansion ROM", 4, 0),
    fixed("first capability", 4, FIRST_CAPABILITY as u32),
    fixed("reserved", 4, 0),
    // Its driver's to write, and nobody else's business; there is no interrupt pin.
    kept("interrupt line", 1, 0, 0xff),
    fixed("pin, grant and latency", 3, 0),
];

/// Power management without wake-up: D0 and D3hot, between which nothing is lost.
const POWER: [Field; 3] = [
    fixed("power capabilities", 2, 3),
    kept("power control", 2, NO_SOFT_RESET, POWER_STATE),
    fixed("power data", 2, 0),
];

const MSIX_FIELDS: [Field; 3] = [
    kept("msix control", 2, NUM_VECTORS as u32 - 1, MSIX_ENABLE | MSIX_MASK),
    fixed("msix table", 4, MSIX_BAR),
    fixed("msix pending", 4, PBA_OFFSET as u32 | MSIX_BAR),
];

/// A PCI Express endpoint, structure version 2. No errors are reported by messages and none are logged, hence no
/// Advanced Error Reporting: what goes wrong on this link is counted by the simulator.
fn express(pcie: &PcieParams) -> Vec<Field> {
    const ROLE_BASED_ERRORS: u32 = 1 << 15;
    const EXTENDED_TAGS: u32 = 1 << 5;
    const CAN_FLR: u32 = 1 << 28;
    /// Relaxed ordering and no-snoop enabled, read requests of 512 bytes.
    const CONTROL: u32 = 0x2810;
    const CONTROL_KEPT: u32 = 0x79ff;
    const ASPM_OPTIONAL: u32 = 1 << 22;
    /// Read completion boundary, common clock, extended synch.
    const LINK_KEPT: u32 = 0x00c8;
    const SLOT_CLOCK: u32 = 1 << 12;
    let payload = (pcie.max_payload_bytes / 128).max(1).ilog2();
    let (speed, width) = link(pcie.bandwidth_mbps);
    vec![
        fixed("express capabilities", 2, 2),
        fixed(
            "device capabilities",
            4,
            CAN_FLR | ROLE_BASED_ERRORS | EXTENDED_TAGS | payload,
        ),
        kept("device control", 2, CONTROL, CONTROL_KEPT),
        cleared("device status", 2, 0xf),
        fixed("link capabilities", 4, ASPM_OPTIONAL | width << 4 | speed),
        kept("link control", 2, 0, LINK_KEPT),
        fixed("link status", 2, SLOT_CLOCK | width << 4 | speed),
        fixed("slot capabilities", 4, 0),
        fixed("slot control and status", 4, 0),
        fixed("root control and capabilities", 4, 0),
        fixed("root status", 4, 0),
        fixed("device capabilities 2", 4, 0),
        fixed("device control and status 2", 4, 0),
        fixed("link capabilities 2", 4, ((1 << speed) - 1) << 1),
        kept("link control 2", 2, speed, 0xf),
        fixed("link status 2", 2, 0),
        fixed("slot capabilities 2", 4, 0),
        fixed("slot control and status 2", 4, 0),
    ]
}

/// Speed as a generation, and lanes, of a link with this bandwidth: the slowest of 8 lanes, then of 16, that has 95 %
/// of it at least.
fn link(bandwidth_mbps: u32) -> (u32, u32) {
    const LANE_MBPS: [u32; 5] = [250, 500, 985, 1969, 3938];
    let needed = u64::from(bandwidth_mbps) * 95 / 100;
    for lanes in [8, 16] {
        for (speed, lane) in (1..).zip(LANE_MBPS) {
            if u64::from(lane * lanes) >= needed {
                return (speed, lanes);
            }
        }
    }
    (5, 16)
}

/// The card's serial number: its GUID.
fn serial_number(guid: u64) -> [Field; 2] {
    [
        fixed("serial number low", 4, guid as u32),
        fixed("serial number high", 4, (guid >> 32) as u32),
    ]
}

/// The bytes, and which bits of them software may change.
pub(super) struct ConfigSpace {
    bytes: Vec<u8>,
    initial: Vec<u8>,
    writable: Vec<u8>,
    clears: Vec<u8>,
    places: Places,
}

/// Where the fields are that do something.
#[derive(Default)]
struct Places {
    command: usize,
    status: usize,
    power_control: usize,
    device_control: usize,
    msix_control: usize,
}

/// What a write asks for, besides the new values.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Written {
    /// Function level reset: to be followed by [`ConfigSpace::reset`].
    pub flr: bool,
}

/// The first 256 bytes of a function's configuration space as it comes out of a reset.
pub fn pci_config(pcie: &PcieParams) -> Vec<u8> {
    let mut space = ConfigSpace::new(pcie, 0);
    space.bytes.truncate(FIRST_EXTENDED);
    space.bytes
}

impl ConfigSpace {
    /// A function of a card with this GUID; 0: it has none.
    pub fn new(pcie: &PcieParams, guid: u64) -> Self {
        let mut space = Self {
            bytes: vec![0; CONFIG_BYTES],
            initial: Vec::new(),
            writable: vec![0; CONFIG_BYTES],
            clears: vec![0; CONFIG_BYTES],
            places: Places::default(),
        };
        space.lay(0, &HEADER);
        let express = express(pcie);
        let capabilities = [
            (POWER_MANAGEMENT, &POWER[..]),
            (MSIX, &MSIX_FIELDS),
            (EXPRESS, &express),
        ];
        let mut at = FIRST_CAPABILITY;
        for (i, (id, fields)) in capabilities.iter().enumerate() {
            let end = space.lay(at + 2, fields).next_multiple_of(4);
            let next = if i + 1 < capabilities.len() { end } else { 0 };
            space.lay(at, &[fixed("id", 1, *id), fixed("next", 1, next as u32)]);
            at = end;
        }
        if guid != 0 {
            // Version 1, the only one in the list.
            space.lay(FIRST_EXTENDED, &[fixed("id", 4, SERIAL_NUMBER | 1 << 16)]);
            space.lay(FIRST_EXTENDED + 4, &serial_number(guid));
        }
        space.initial.clone_from(&space.bytes);
        space
    }

    /// Lays fields from `at` on; returns where the next one would be.
    fn lay(&mut self, mut at: usize, fields: &[Field]) -> usize {
        for field in fields {
            let range = at..at + field.bytes;
            self.bytes[range.clone()].copy_from_slice(&field.value.to_le_bytes()[..field.bytes]);
            self.writable[range.clone()].copy_from_slice(&field.writable.to_le_bytes()[..field.bytes]);
            self.clears[range].copy_from_slice(&field.clears.to_le_bytes()[..field.bytes]);
            match field.name {
                "command" => self.places.command = at,
                "status" => self.places.status = at,
                "power control" => self.places.power_control = at,
                "device control" => self.places.device_control = at,
                "msix control" => self.places.msix_control = at,
                _ => {}
            }
            at += field.bytes;
        }
        at
    }

    /// As after a reset of the function.
    pub fn reset(&mut self) {
        self.bytes.clone_from(&self.initial);
    }

    /// Bytes from `offset`, if they are inside.
    pub fn read(&self, offset: u64, count: usize) -> Option<&[u8]> {
        let start = usize::try_from(offset).ok()?;
        self.bytes.get(start..start.checked_add(count)?)
    }

    /// Changes what may be changed. None: not inside.
    pub fn write(&mut self, offset: u64, data: &[u8]) -> Option<Written> {
        let start = usize::try_from(offset).ok()?;
        let end = start.checked_add(data.len()).filter(|end| *end <= CONFIG_BYTES)?;
        let power = self.word(self.places.power_control) & POWER_STATE;
        for (i, value) in (start..end).zip(data) {
            let old = self.bytes[i] & !(self.clears[i] & value);
            self.bytes[i] = old & !self.writable[i] | value & self.writable[i];
        }
        self.keep_known_power_state(power);
        // The bit reads as zero, so the write itself is looked at: it is in the high byte.
        let flr_byte = self.places.device_control + 1;
        let flr = (start..end).contains(&flr_byte) && u32::from(data[flr_byte - start]) & START_FLR >> 8 != 0;
        Some(Written { flr })
    }

    /// A state that the function does not have is not taken.
    fn keep_known_power_state(&mut self, before: u32) {
        let at = self.places.power_control;
        let control = self.word(at);
        if ![POWER_D0, POWER_D3HOT].contains(&(control & POWER_STATE)) {
            self.bytes[at] = (control & !POWER_STATE | before) as u8;
        }
    }

    fn word(&self, at: usize) -> u32 {
        u32::from(u16::from_le_bytes([self.bytes[at], self.bytes[at + 1]]))
    }

    fn is_on(&self) -> bool {
        self.word(self.places.power_control) & POWER_STATE == POWER_D0
    }

    /// The BARs answer: memory space is enabled, and the function is in D0.
    pub fn decodes_memory(&self) -> bool {
        self.is_on() && self.word(self.places.command) & COMMAND_MEMORY != 0
    }

    /// The function may read, write and interrupt: bus mastering is enabled, and the function is in D0.
    pub fn masters_bus(&self) -> bool {
        self.is_on() && self.word(self.places.command) & COMMAND_MASTER != 0
    }

    /// The host has refused a read.
    pub fn note_refused_read(&mut self) {
        self.bytes[self.places.status + 1] |= (STATUS_MASTER_ABORT >> 8) as u8;
    }

    /// MSI-X is enabled, and all vectors are masked at once.
    pub fn masks_vectors(&self) -> bool {
        let both = MSIX_ENABLE | MSIX_MASK;
        self.word(self.places.msix_control) & both == both
    }
}

#[cfg(test)]
mod tests;
