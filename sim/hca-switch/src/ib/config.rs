//! What an InfiniBand switch is made from.

use super::link::LinkConfig;
use crate::arb::VlArbConfig;
use crate::{PORTS_MAX, SwitchError};

/// What an InfiniBand switch is made from.
#[derive(Debug, Clone, PartialEq)]
pub struct IbSwitchConfig {
    /// For messages; unique in a network.
    pub name: String,
    /// Ports, numbered from 1.
    pub ports: u8,
    /// Data VLs of each port: 1, 2, 4, 8 or 15. A link has those that both its ends have.
    pub data_vls: u8,
    /// Receive buffer of each data VL of each port, in blocks of 64 bytes.
    pub buffer_blocks: u32,
    /// Receive buffer of VL 15 of each port. It has no credits: what finds no room is dropped.
    pub vl15_blocks: u32,
    /// Largest payload.
    pub mtu_bytes: u32,
    /// VL arbitration of each port.
    pub arbitration: VlArbConfig,
    /// Cycles from a packet's last bit to the first in which it may leave.
    pub forward_cycles: u64,
    /// Head of queue life: a packet that has been the first of its queue for so long is dropped. `None`: never.
    pub hoq_life_cycles: Option<u64>,
    /// A VL's credits are told at least this often while anything moves.
    pub fcp_max_cycles: u64,
    /// Its GUID.
    pub guid: u64,
    /// A subnet manager sets it up: until that has come no data pass (VL-14).
    pub is_managed: bool,
}

impl IbSwitchConfig {
    /// 8 data VLs with 32 KiB each, all alike, 100 ns, no lifetime.
    pub fn new(name: &str, ports: u8) -> Self {
        Self {
            name: name.to_owned(),
            ports,
            data_vls: 8,
            buffer_blocks: 512,
            vl15_blocks: 64,
            mtu_bytes: 4096,
            arbitration: VlArbConfig::default(),
            forward_cycles: 25,
            hoq_life_cycles: None,
            fcp_max_cycles: 16_384,
            guid: guid_of(name),
            is_managed: false,
        }
    }

    pub(crate) fn link(&self) -> LinkConfig {
        LinkConfig {
            data_vls: self.data_vls,
            buffer_blocks: self.buffer_blocks,
            vl15_blocks: self.vl15_blocks,
            mtu_bytes: self.mtu_bytes,
            fcp_max_cycles: self.fcp_max_cycles,
        }
    }

    /// Fails where a number is out of range.
    pub fn check(&self) -> Result<(), SwitchError> {
        let range = |what: &str, found: u64, low: u64, high: u64| {
            if (low..=high).contains(&found) {
                return Ok(());
            }
            let what = format!("switch {}: {what}", self.name);
            Err(SwitchError::range(
                what,
                found as usize,
                low as usize,
                high as usize,
            ))
        };
        range("ports", self.ports.into(), 1, PORTS_MAX.into())?;
        range("forward_cycles", self.forward_cycles, 0, 1 << 30)?;
        range("fcp_max_cycles", self.fcp_max_cycles, 64, 1 << 30)?;
        if let Some(life) = self.hoq_life_cycles {
            range("hoq_life_cycles", life, 1, 1 << 40)?;
        }
        self.link().check(&format!("switch {}", self.name))?;
        self.arbitration.check()
    }
}

/// A GUID that is nobody's but this name's (IBA vol1 4.1.1: bit 57 says that it was not given by the IEEE).
fn guid_of(name: &str) -> u64 {
    let hash = name.bytes().fold(0xcbf2_9ce4_8422_2325u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3)
    });
    hash & 0x00ff_ffff_ffff_ffff | 0x0200_0000_0000_0000
}
