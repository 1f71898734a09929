//! Whoever wants to see every cycle of a card.

pub use hca_vsim::Ports as CardPorts;

/// Sees the ports of a card in every cycle in which it is evaluated: inputs and outputs of that cycle, settled,
/// before the clock edge. Can change nothing.
pub trait PortObserver {
    /// One cycle.
    fn cycle(&mut self, now: u64, ports: &CardPorts);
}
