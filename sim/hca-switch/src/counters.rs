//! Port counters, by the names that InfiniBand gives them (MGMT, PMA PortCounters).

use serde::Serialize;

/// Counters of a port. Data counters count packets and bytes LRH through VCRC, or Ethernet frames.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct PortCounters {
    /// Data packets sent.
    pub port_xmit_pkts: u64,
    /// Their bytes.
    pub port_xmit_bytes: u64,
    /// Data packets received, good ones.
    pub port_rcv_pkts: u64,
    /// Their bytes.
    pub port_rcv_bytes: u64,
    /// Cycles in which a VL had a packet to send and no credits for it, summed over the VLs.
    pub port_xmit_wait: u64,
    /// Packets received with a wrong VCRC, a wrong length or a VL that is not operational. On Ethernet: frames too
    /// short for their headers.
    pub port_rcv_errors: u64,
    /// Packets received that cannot be forwarded: destination unknown, or behind the port they came from.
    pub port_rcv_switch_relay_errors: u64,
    /// Packets to be sent that were dropped: larger than the MTU of the link, or their time at the head of a queue was
    /// over, or on Ethernet a queue was full.
    pub port_xmit_discards: u64,
    /// Packets received that were dropped because their partition may not come in here (KEY-19).
    pub port_rcv_constraint_errors: u64,
    /// Packets to be sent that were dropped because their SL has no usable VL here, or their partition may not leave.
    pub port_xmit_constraint_errors: u64,
    /// Packets received beyond the credits.
    pub excessive_buffer_overrun_errors: u64,
    /// VL15 packets that found no room.
    pub vl15_dropped: u64,
    /// Times that the link went down.
    pub link_downed: u64,
    /// Flow control packets sent. On Ethernet: pause frames.
    pub fcp_sent: u64,
    /// Good ones received.
    pub fcp_received: u64,
    /// Link packets received that are damaged or no flow control packets.
    pub lpcrc_errors: u64,
    /// Flow control packets received for a VL that is not operational.
    pub fcp_vl_mismatch: u64,
    /// Ethernet: packets marked with congestion experienced.
    pub ecn_marked: u64,
}

/// Counters of a virtual lane, or on Ethernet of a priority.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct VlCounters {
    /// Packets sent.
    pub packets_sent: u64,
    /// Their blocks of 64 bytes.
    pub blocks_sent: u64,
    /// Packets received.
    pub packets_received: u64,
    /// Cycles with a packet to send and no credits, or paused.
    pub xmit_wait_cycles: u64,
    /// Most blocks that the receive buffer ever held.
    pub buffer_peak_blocks: u32,
}
