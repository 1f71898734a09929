//! Starts that are not the first one. Hardware goes on while firmware is away: packets, queues and translations are its
//! own. Firmware that finds its state as it was when it was whole goes on from there (warm). One that does not know any
//! more what it has made takes everything back (cold): every function that was in use is lost until its driver resets
//! it.

use crate::hal::{Hal, Shadow};
use crate::memory::Keys;
use crate::table::Table;
use crate::{Bus, Control, Firmware, Identity, NUM_CQS, NUM_EQS, NUM_FUNCS, NUM_PORTS, NUM_QPS, NUM_SRQS};
use hca_abi::{
    CtxTable, DM_PAGES, EventKind, Forget, GROUP_ROWS, LINK_ROW_CTRL, LINK_ROWS, LinkCongestion,
    MAX_LOG_KEYS, RULES,
};

impl Firmware {
    /// After a restart, with the state of the last [`Bus::commit`]: what had been begun since then is done again.
    pub fn resume<B: Bus>(&mut self, bus: &mut B) {
        self.shadow = Shadow::new();
        let mut hal = Hal::new(bus, &mut self.shadow);
        hal.wait_rest();
        self.control.answer(&mut hal);
    }

    /// [`Firmware::init_ports`] on a card at work, whose firmware has lost its state.
    pub fn init_again<B: Bus>(&mut self, bus: &mut B, identities: &[Identity]) {
        let mut hal = Hal::new(bus, &mut self.shadow);
        hal.wait_rest();
        self.control.silence_card(&mut hal);
        self.control.init_ports(&mut hal, identities);
    }

    /// Firmware that cannot run: every function is told, for good. It needs no state, and leaves the data path alone.
    pub fn give_up<B: Bus>(bus: &mut B) {
        let mut shadow = Shadow::new();
        let mut hal = Hal::new(bus, &mut shadow);
        for func in 0..NUM_FUNCS as u8 {
            hal.set_func_status(func, false, true, false);
        }
    }
}

/// Links as after a reset, as new firmware expects them (no row is longer than that of congestion control); their
/// states stay until it asks for others.
fn silence_links<B: Bus>(hal: &mut Hal<B>) {
    let ports = hal.num_ports().clamp(1, NUM_PORTS as u32) as u8;
    for port in 0..ports {
        for row in (0..LINK_ROWS).filter(|row| *row != LINK_ROW_CTRL) {
            hal.link_row(port, row, &[0; LinkCongestion::BYTES]);
        }
    }
}

impl Control {
    /// Takes back all that a firmware before may have given to functions, in an order in which nothing is in use.
    fn silence_card<B: Bus>(&mut self, hal: &mut Hal<B>) {
        for func in 0..NUM_FUNCS as u8 {
            let (is_enabled, _) = hal.func_control(func);
            self.funcs[usize::from(func)].is_lost = is_enabled;
            hal.set_func_status(func, !is_enabled, is_enabled, false);
        }
        // An EQ that is not there has no event.
        for eqn in 0..NUM_EQS as u8 {
            hal.post_eqe(eqn, EventKind::DeviceFatal.into(), 0, 0);
        }
        // What rests in context memory has no QP any more.
        hal.hold_lines(false, 0, false);
        for (table, rows) in [
            (CtxTable::Qpc, NUM_QPS as u32),
            (CtxTable::Srqc, NUM_SRQS as u32),
            (CtxTable::Group, GROUP_ROWS),
            (CtxTable::Rule, RULES),
            (CtxTable::KeyTable, NUM_FUNCS as u32),
            (CtxTable::DeviceMemory, DM_PAGES),
        ] {
            hal.ctx_clear(table, rows);
        }
        silence_links(hal);
        let mut all = Forget::new();
        all.set_all(true);
        for func in 0..NUM_FUNCS as u32 {
            hal.ctx_write(CtxTable::Forget, func << MAX_LOG_KEYS, all.as_bytes());
        }
        // What is under way still ends in the queues of before.
        hal.start_fence();
        hal.wait_fence();
        hal.ctx_clear(CtxTable::Cqc, NUM_CQS as u32);
        hal.ctx_clear(CtxTable::Eqc, NUM_EQS as u32);
        self.forget_names(hal.micros());
    }

    /// Numbers and keys that were given before mean nobody: generations and tags begin somewhere else, by the clock.
    fn forget_names(&mut self, now_us: u64) {
        let generation = now_us as u16 & self.lines.max_generation();
        for rec in self.qps.iter_mut() {
            rec.generation = generation;
        }
        self.keys = Table::new([Keys::beginning_with(now_us as u8); NUM_FUNCS]);
    }
}
