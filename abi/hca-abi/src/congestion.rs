//! Congestion control of a port: the row that hardware has, and the admin commands that set and read it.

use crate::table::{StructDef, abi_enum, layout};

/// Tables of this module.
pub const STRUCTS: &[&StructDef] = &[
    &LinkCongestion::TABLE,
    &CongestionCmd::TABLE,
    &CongestionResult::TABLE,
];

abi_enum! {
    /// What sets the rate of a QP: hca_cc_algorithms.
CcAlgorithm("cc_algorithm", "Cc", 4, Hardware) {
        /// Marks alone: alpha and increases as in DCQCN (Zhu et al., SIGCOMM 2015).
        Dcqcn = 0,
        /// Round trips alone.
        Delay = 1,
    }
}

layout! {
    /// Row LINK_ROW_CONGESTION: notification and reaction on an Ethernet port. Times are in ticks of CC_TICK_CYCLES
    /// cycles, rates in CC_RATE_UNIT-ths of a byte per cycle.
    LinkCongestion("link_congestion", 32, Hardware) {
        /// Connected QPs send ECT(0), marks are answered with CNPs, and the algorithm sets QPs' rates.
        enable set_enable: bool [0, 0, 1];
        /// cc_algorithm.
        algorithm set_algorithm: u8 [0, 4, 4];
        /// DSCP of CNPs; its upper three bits are their priority.
        cnp_dscp set_cnp_dscp: u8 [1, 0, 6];
        /// Ticks between two CNPs for a QP at least.
        cnp_interval set_cnp_interval: u16 [2, 0, 16];
        /// DCQCN: ticks without CNP after which alpha falls.
        alpha_period set_alpha_period: u16 [4, 0, 16];
        /// DCQCN: ticks from one increase to the next; delay: from one decrease to the next at least.
        rate_period set_rate_period: u16 [6, 0, 16];
        /// DCQCN: bytes from one increase to the next.
        rate_bytes set_rate_bytes: u32 [8, 0, 24];
        /// DCQCN: alpha moves by 1/2^n of its distance.
        alpha_shift set_alpha_shift: u8 [11, 0, 4];
        /// DCQCN: increases of fast recovery.
        recovery_steps set_recovery_steps: u8 [12, 0, 5];
        /// Least rate.
        min_rate set_min_rate: u16 [14, 0, 16];
        /// DCQCN: additive increase; delay: increase for each round trip that was short enough.
        additive set_additive: u16 [16, 0, 16];
        /// DCQCN: hyper increase.
        hyper set_hyper: u16 [18, 0, 16];
        /// Delay: cycles of a round trip that is short enough.
        delay_target set_delay_target: u32 [20, 0, 20];
        /// Delay: a round trip of 2^n cycles too many costs the whole decrease, a shorter one its part.
        delay_scale set_delay_scale: u8 [23, 0, 5];
        /// Delay: the whole decrease is 1/2^n of the rate.
        delay_shift set_delay_shift: u8 [24, 0, 4];
    }
}

layout! {
    /// SET_CONGESTION.
    CongestionCmd("congestion_cmd", 248, Software) {
        /// Port, from 1.
        port_num set_port_num: u8 [0, 0, 8];
        /// link_congestion.
        row set_row: [u8; 32] [8, 0, 256];
    }
}

layout! {
    /// Completion body of QUERY_CONGESTION.
    CongestionResult("congestion_result", 244, Software) {
        /// link_congestion, as it was set; all zero at first.
        row set_row: [u8; 32] [0, 0, 256];
    }
}
