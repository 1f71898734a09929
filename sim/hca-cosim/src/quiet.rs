//! When a card need not be evaluated: nothing in it would change but the time.
//!
//! The rule is exact whatever the RTL: a card in which no part would change at the edge of the clock ([`Dut::clock`])
//! stays so until an input changes, or until a cycle that it names itself, because something in it follows the time.

use hca_vsim::{Dut, Ports};

/// What the simulator says to a card in a cycle, without payloads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Inputs {
    /// A register access, read data, a beat of a packet or an access of the firmware.
    pub arrives: bool,
    pub may_read: bool,
    pub may_write: bool,
    pub may_send: [bool; 2],
    pub link_up: [bool; 2],
}

impl Inputs {
    #[inline]
    pub fn of(ports: &Ports) -> Self {
        let arrives = ports.mmio_wr_valid_i.get()
            | ports.mmio_rd_valid_i.get()
            | ports.hrd_rsp_valid_i.get()
            | ports.mac_rx_valid_i.get()
            | ports.mac1_rx_valid_i.get()
            | ports.fw_req_i.get();
        Self {
            arrives: arrives != 0,
            may_read: ports.hrd_req_ready_i.get() != 0,
            may_write: ports.hwr_ready_i.get() != 0,
            may_send: [ports.mac_tx_ready_i.get() != 0, ports.mac1_tx_ready_i.get() != 0],
            link_up: [ports.mac_up_i.get() != 0, ports.mac1_up_i.get() != 0],
        }
    }

    /// The card hands something over in this cycle.
    #[inline]
    fn leaves(&self, ports: &Ports) -> bool {
        (self.may_read && ports.hrd_req_valid_o.get() != 0)
            || (self.may_write && ports.hwr_valid_o.get() != 0)
            || (self.may_send[0] && ports.mac_tx_valid_o.get() != 0)
            || (self.may_send[1] && ports.mac1_tx_valid_o.get() != 0)
    }
}

/// The cycle from which the time may change something in a card that is quiet otherwise: its timers, its links.
#[inline]
pub(crate) fn named_cycle(ports: &Ports) -> Option<u64> {
    let at = |active: u8, at: u64| (active != 0).then_some(at);
    let timers = at(ports.timer_active_o.get(), ports.wake_at_o.get());
    let links = at(ports.link_active_o.get(), ports.link_wake_at_o.get());
    timers.into_iter().chain(links).min()
}

/// Nothing changes while this holds.
#[derive(Clone, Debug)]
pub(crate) struct Quiet {
    pub inputs: Inputs,
    /// Cycle in which the timers of QPs look again, if they run.
    pub timers_at: Option<u64>,
    /// Cycle in which a link does something by itself.
    pub links_at: Option<u64>,
}

impl Quiet {
    /// After an edge: whether anything is going to happen.
    #[inline]
    pub fn found(now: u64, dut: &Dut, inputs: Inputs, firmware_away: bool) -> Option<Self> {
        let ports = dut.ports();
        if inputs.arrives || !firmware_away || !dut.is_still() || inputs.leaves(ports) {
            return None;
        }
        let cycle = |active: u8, at: u64| (active != 0).then(|| at.max(now + 1));
        Some(Self {
            inputs,
            timers_at: cycle(ports.timer_active_o.get(), ports.wake_at_o.get()),
            links_at: cycle(ports.link_active_o.get(), ports.link_wake_at_o.get()),
        })
    }

    #[inline]
    pub fn holds(&self, now: u64, inputs: &Inputs) -> bool {
        let due = |at: &Option<u64>| at.is_some_and(|at| at <= now);
        self.inputs == *inputs && !due(&self.timers_at) && !due(&self.links_at)
    }
}
