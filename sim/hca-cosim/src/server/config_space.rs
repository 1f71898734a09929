//! PCI configuration space of a function: what a guest's or host's PCI core needs to find the BARs and MSI-X.

use crate::{BAR_LEN_BYTES, NUM_VECTORS};

/// Length of the configuration space.
pub const CONFIG_BYTES: usize = 256;
/// Length of BAR 2: MSI-X table, and pending bits in its second half.
pub(super) const MSIX_BAR_BYTES: usize = 4096;

/// No vendor number has been assigned to OpenHCA: the one that emulated teaching devices use.
const VENDOR_ID: u16 = 0x1234;
const DEVICE_ID: u16 = 0x0ca1;
const CLASS_NETWORK_INFINIBAND: u32 = 0x02_07_00;
const CAP_OFFSET: usize = 0x40;
const CAP_MSIX: u8 = 0x11;

/// The bytes, and which bits of them software may change.
pub(super) struct ConfigSpace {
    bytes: [u8; CONFIG_BYTES],
    writable: [u8; CONFIG_BYTES],
}

/// The configuration space of a function as it comes out of a reset.
pub fn pci_config() -> [u8; CONFIG_BYTES] {
    ConfigSpace::new().bytes
}

impl ConfigSpace {
    pub fn new() -> Self {
        let mut space = Self {
            bytes: [0; CONFIG_BYTES],
            writable: [0; CONFIG_BYTES],
        };
        space.put(0x00, &VENDOR_ID.to_le_bytes(), &[0; 2]);
        space.put(0x02, &DEVICE_ID.to_le_bytes(), &[0; 2]);
        // Command: memory space, bus master, INTx disable. Status: there is a list of capabilities.
        space.put(0x04, &[0, 0], &[0x06, 0x04]);
        space.put(0x06, &[0x10, 0], &[0; 2]);
        space.put(0x08, &(CLASS_NETWORK_INFINIBAND << 8 | 1).to_le_bytes(), &[0; 4]);
        // BARs of 32-bit memory; writing ones tells their size.
        space.put(0x10, &[0; 4], &(!(BAR_LEN_BYTES - 1)).to_le_bytes());
        space.put(0x18, &[0; 4], &(!(MSIX_BAR_BYTES as u32 - 1)).to_le_bytes());
        space.put(0x34, &[CAP_OFFSET as u8], &[0]);
        space.put(0x3c, &[0], &[0xff]);
        let [lo, hi] = (NUM_VECTORS - 1).to_le_bytes();
        space.put(CAP_OFFSET, &[CAP_MSIX, 0, lo, hi], &[0, 0, 0, 0xc0]);
        // Table at 0 and pending bits in the second half, both in BAR 2.
        space.put(CAP_OFFSET + 4, &2u32.to_le_bytes(), &[0; 4]);
        space.put(
            CAP_OFFSET + 8,
            &((MSIX_BAR_BYTES as u32 / 2) | 2).to_le_bytes(),
            &[0; 4],
        );
        space
    }

    fn put(&mut self, at: usize, value: &[u8], writable: &[u8]) {
        self.bytes[at..at + value.len()].copy_from_slice(value);
        self.writable[at..at + writable.len()].copy_from_slice(writable);
    }

    /// Bytes from `offset`, if they are inside.
    pub fn read(&self, offset: u64, count: usize) -> Option<&[u8]> {
        let start = usize::try_from(offset).ok()?;
        self.bytes.get(start..start.checked_add(count)?)
    }

    /// Changes what may be changed. False: not inside.
    pub fn write(&mut self, offset: u64, data: &[u8]) -> bool {
        let Ok(start) = usize::try_from(offset) else {
            return false;
        };
        let Some(end) = start.checked_add(data.len()).filter(|end| *end <= CONFIG_BYTES) else {
            return false;
        };
        for (i, value) in (start..end).zip(data) {
            self.bytes[i] = self.bytes[i] & !self.writable[i] | value & self.writable[i];
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_tell_their_size_and_identity_is_fixed() {
        let mut space = ConfigSpace::new();
        assert!(space.write(0, &[0xff; CONFIG_BYTES]));
        assert_eq!(space.read(0, 4), Some(&[0x34, 0x12, 0xa1, 0x0c][..]));
        assert_eq!(space.read(0x10, 4), Some(&[0, 0, 0xff, 0xff][..]));
        assert_eq!(space.read(0x14, 4), Some(&[0; 4][..]), "no BAR 1");
        assert_eq!(space.read(0x18, 4), Some(&[0, 0xf0, 0xff, 0xff][..]));
        assert_eq!(space.read(0x40, 4), Some(&[0x11, 0, 31, 0xc0][..]));
        assert!(space.read(253, 4).is_none() && space.read(u64::MAX, 1).is_none());
        assert!(!space.write(255, &[0; 2]) && !space.write(u64::MAX, &[0]));
    }
}
