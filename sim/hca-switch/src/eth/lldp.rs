//! What a switch tells its neighbours (LLDP). The agent is the card's.

use hca_agents::lldp::{FRAME_MAX, Facts, Frame};
use hca_wire::lldp::{Ets, Pfc, selection};

use super::frame::PRIORITIES;
use super::switch::EthSwitchConfig;

/// Card cycles of a microsecond.
pub(crate) const CYCLES_PER_US: u64 = 250;
const NAME_BYTES: usize = 64;

/// The frame of a port, from 1, that has the address `mac`; `chassis`: the switch's.
pub(crate) fn frame(
    frame: Frame,
    config: &EthSwitchConfig,
    port: u8,
    mac: [u8; 6],
    chassis: [u8; 6],
) -> Vec<u8> {
    let sum: u32 = config.weights.iter().map(|weight| u32::from(*weight)).sum();
    let facts = Facts {
        mac,
        chassis,
        port,
        name: &config.name.as_bytes()[..config.name.len().min(NAME_BYTES)],
        description: b"OpenHCA's model of an Ethernet switch",
        is_bridge: true,
        address: None,
        ets: Ets {
            willing: false,
            classes: PRIORITIES as u8,
            prio_tc: std::array::from_fn(|priority| priority as u8),
            percent: config
                .weights
                .map(|weight| (u32::from(weight) * 100 / sum.max(1)) as u8),
            selection: [selection::ETS; PRIORITIES],
        },
        pfc: Pfc {
            willing: false,
            capability: PRIORITIES as u8,
            enabled: config.pfc.priorities,
        },
    };
    let mut bytes = [0; FRAME_MAX];
    let len = frame.write(&facts, &mut bytes);
    bytes[..len].to_vec()
}
