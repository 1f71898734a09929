//! When a card need not be evaluated: nothing in it would change but the time.
//!
//! The rule is exact whatever the RTL: a card whose whole state, inputs included, has stayed the same over three
//! cycles goes on doing so until an input changes ([`Dut::same`] says why), or until a cycle that it names itself,
//! because something in it follows the time.

use hca_vsim::{Dut, Ports};

/// Cycles without anything at the ports before the state is looked at; a card at work is not worth the look.
const FIRST_LOOK: u32 = 2;

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
    #[inline]
    pub fn holds(&self, now: u64, inputs: &Inputs) -> bool {
        let due = |at: &Option<u64>| at.is_some_and(|at| at <= now);
        self.inputs == *inputs && !due(&self.timers_at) && !due(&self.links_at)
    }
}

/// Looks for the moment from which a card is quiet.
#[derive(Default)]
pub(crate) struct Silence {
    /// Cycles since anything was at the ports.
    cycles: u32,
    /// Of them, when the next look begins.
    look_at: u32,
    /// Cycles in a row without a change.
    same: u32,
}

impl Silence {
    /// After each evaluation.
    #[inline]
    pub fn judge(&mut self, now: u64, dut: &mut Dut, inputs: Inputs, firmware_idle: bool) -> Option<Quiet> {
        if inputs.arrives || !firmware_idle || inputs.leaves(dut.ports()) {
            *self = Self {
                look_at: FIRST_LOOK,
                ..Self::default()
            };
            return None;
        }
        self.cycles += 1;
        if self.cycles < self.look_at {
            return None;
        }
        self.look(dut);
        (self.same == 2).then(|| {
            self.same = 0;
            self.look_at = self.cycles + 1;
            let ports = dut.ports();
            let cycle = |active: u8, at: u64| (active != 0).then(|| at.max(now + 1));
            Quiet {
                inputs,
                timers_at: cycle(ports.timer_active_o.get(), ports.wake_at_o.get()),
                links_at: cycle(ports.link_active_o.get(), ports.link_wake_at_o.get()),
            }
        })
    }

    /// A look takes three cycles: the first only remembers. After one in vain the next is the later the longer the
    /// silence, so that a card that works without a word pays little.
    fn look(&mut self, dut: &mut Dut) {
        let same = dut.same();
        if self.cycles == self.look_at {
            self.same = 0;
        } else if same {
            self.same += 1;
        } else {
            self.same = 0;
            self.look_at = self.cycles + 2 + self.cycles / 4;
        }
    }
}
