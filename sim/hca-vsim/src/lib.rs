//! The Verilated card behind a safe type: ports, one evaluation at a time, waveform.
//!
//! This crate must not know what the ports mean; `hca-cosim` drives them. The models are in `hca-models`: a program
//! that does not link that crate has none, and needs neither Verilator nor a C++ compiler.
//!
//! ```
//! # use hca_models as _;
//! use hca_vsim::{Dut, Model};
//! let mut dut = Dut::new(Model::Probe, 1).unwrap();
//! dut.ports().rst_i.set(1);
//! for clk in [0, 1, 0, 1] {
//!     dut.ports().clk_i.set(clk);
//!     dut.eval();
//! }
//! assert_eq!(dut.ports().hrd_req_valid_o.get(), 0);
//! ```

mod port;
mod room;
mod shim;
mod soc;

use std::ffi::{CString, c_void};
use std::path::Path;
use std::ptr::NonNull;

pub use port::{Beat, In, Out};
use room::TraceRoom;
pub use shim::{Entry, Models, SocEntry, has_models, provide};
pub use soc::{SocInputs, SocOutputs, SoftCore};

include!(concat!(env!("OUT_DIR"), "/ports.rs"));

/// Which design to instantiate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Model {
    /// `hw/rtl/top/hca_core.sv`: the card, built with one port.
    Core,
    /// The same, built with two ports.
    TwoPorts,
    /// `sim/hca-vsim/testtop/hca_core.sv`: a tiny card for tests of the simulator.
    Probe,
}

/// What is looked at besides at an edge of the clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i32)]
pub enum Check {
    /// Nothing. Parts in which the edge would change nothing do not get it.
    None,
    /// Those parts, which get the edge all the same.
    Sleeping,
    /// All parts: none is to change.
    All,
}

/// A part has changed at an edge that was taken to change nothing in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PartChanged;

/// This program was built without `hca-models`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoModels;

/// One instance of a Verilated card.
pub struct Dut {
    raw: NonNull<c_void>,
    entry: &'static Entry,
    ports: Ports,
    lawful: bool,
    tracing: Option<TraceRoom>,
    cut_short: bool,
}

// SAFETY: an instance owns its context and shares nothing with others; `Dut` is not `Sync`.
unsafe impl Send for Dut {}

impl Dut {
    /// A new card, inputs at zero. `seed` decides the values that registers and RAMs have before reset.
    pub fn new(model: Model, seed: u64) -> Result<Self, NoModels> {
        let entry = shim::entry(model)?;
        let mut ports = std::mem::MaybeUninit::<Ports>::uninit();
        let seed = ((seed ^ (seed >> 32)) & 0x7fff_ffff) as i32 | 1;
        // SAFETY: `new` fills the whole port table.
        let raw = unsafe { (entry.new)(seed, ports.as_mut_ptr()) };
        let raw = NonNull::new(raw).expect("the C++ shim returns an instance");
        // SAFETY: filled above with pointers that live as long as the instance.
        let ports = unsafe { ports.assume_init() };
        ports.clear_inputs();
        Ok(Self {
            raw,
            entry,
            ports,
            lawful: true,
            tracing: None,
            cut_short: false,
        })
    }

    /// The ports. Inputs act at the next [`Dut::eval`], outputs are of the last one.
    #[inline(always)]
    pub fn ports(&self) -> &Ports {
        &self.ports
    }

    /// Settles the design after changes of inputs, including the clock. False once an assertion of the RTL
    /// has failed (Verilator has printed it).
    #[inline(always)]
    pub fn eval(&mut self) -> bool {
        // SAFETY: raw is our live instance.
        self.lawful = unsafe { (self.entry.eval)(self.raw.as_ptr()) == 0 };
        self.lawful
    }

    /// The rising edge of the clock after an [`Dut::eval`] with `clk_i` at zero. Parts of the card in which it would
    /// change nothing do not get it (hw/rtl/lib/hca_part_clock.sv), unless that is to be checked. `is_due`: the time
    /// has come that the card has named. `may_rest`: who kept parts at work has stopped, so it is worth while to see
    /// soon whether they do. False after a failed assertion.
    #[inline(always)]
    pub fn clock(&mut self, is_due: bool, check: Check, may_rest: bool) -> Result<bool, PartChanged> {
        let (raw, clock) = (self.raw.as_ptr(), self.entry.clock);
        // SAFETY: raw is our live instance.
        let outcome = unsafe { clock(raw, is_due.into(), check as i32, may_rest.into()) };
        self.lawful = outcome != 1;
        if outcome == 2 {
            Err(PartChanged)
        } else {
            Ok(self.lawful)
        }
    }

    /// What the last [`Dut::eval`] or [`Dut::clock`] returned.
    pub fn is_lawful(&self) -> bool {
        self.lawful
    }

    /// The last [`Dut::clock`] has changed nothing in any part, and no further one changes anything while the inputs
    /// are the same, but by the time.
    pub fn is_still(&self) -> bool {
        // SAFETY: raw is our live instance.
        unsafe { (self.entry.still)(self.raw.as_ptr()) != 0 }
    }

    /// Starts writing a waveform (FST). One per instance and life.
    pub fn trace_open(&mut self, path: &Path) -> std::io::Result<()> {
        let invalid =
            |why: &str| std::io::Error::other(format!("cannot open waveform {}: {why}", path.display()));
        let c_path =
            CString::new(path.as_os_str().as_encoded_bytes()).map_err(|_| invalid("NUL in the name"))?;
        if self.tracing.is_some() {
            return Err(invalid("this card is traced already"));
        }
        let room = TraceRoom::create(path).map_err(|e| invalid(&e.to_string()))?;
        // SAFETY: raw is live, c_path is a C string.
        if unsafe { (self.entry.trace_open)(self.raw.as_ptr(), c_path.as_ptr()) } == 0 {
            return Err(invalid("hca-vsim was built with HCA_VSIM_TRACE=0"));
        }
        self.tracing = Some(room);
        self.cut_short = false;
        Ok(())
    }

    /// Records the values now. Costs nothing when no waveform is open.
    #[inline(always)]
    pub fn trace_dump(&mut self, time_ps: u64) {
        let Some(room) = &mut self.tracing else { return };
        if room.has_room() {
            // SAFETY: raw is live.
            unsafe { (self.entry.trace_dump)(self.raw.as_ptr(), time_ps) }
        } else {
            self.trace_end();
            self.cut_short = true;
        }
    }

    fn trace_end(&mut self) {
        if self.tracing.take().is_some() {
            // SAFETY: raw is live.
            unsafe { (self.entry.trace_close)(self.raw.as_ptr()) }
        }
    }

    /// Ends the waveform. Fails where it had ended before, because its disk was filling up.
    pub fn trace_close(&mut self) -> std::io::Result<()> {
        self.trace_end();
        if std::mem::take(&mut self.cut_short) {
            Err(room::ended_early())
        } else {
            Ok(())
        }
    }
}

impl Drop for Dut {
    fn drop(&mut self) {
        // SAFETY: raw is live and not used afterwards; `ports` dies with us.
        unsafe { (self.entry.free)(self.raw.as_ptr()) }
    }
}
