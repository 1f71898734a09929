//! The waveform of a card: an FST file with the cycles of a window and no others.

use std::io;
use std::ops::Range;
use std::path::Path;

use hca_vsim::Dut;

/// Decides which cycles go into the file. None when no file is open: then it costs one comparison per evaluation.
pub(crate) struct Waveform {
    /// Cycles to record; empty when there is no file.
    window: Range<u64>,
    /// Cycles recorded so far, the end not included.
    recorded: Option<Range<u64>>,
    open: bool,
    /// What went wrong when the file was closed at the end of the window.
    failed: Option<io::Error>,
}

impl Default for Waveform {
    fn default() -> Self {
        Self {
            window: 0..0,
            recorded: None,
            open: false,
            failed: None,
        }
    }
}

impl Waveform {
    /// Makes the file at once, so that what is wrong with its place is known before the run.
    pub fn begin(&mut self, dut: &mut Dut, path: &Path, window: Range<u64>) -> io::Result<()> {
        dut.trace_open(path)?;
        *self = Self {
            window,
            open: true,
            ..Self::default()
        };
        Ok(())
    }

    /// The model has been evaluated in cycle `now`.
    #[inline(always)]
    pub fn record(&mut self, dut: &mut Dut, now: u64, time_ps: u64) {
        if self.window.contains(&now) {
            let from = self.recorded.as_ref().map_or(now, |cycles| cycles.start);
            self.recorded = Some(from..now + 1);
            dut.trace_dump(time_ps);
        } else if self.open && now >= self.window.end {
            self.failed = self.close(dut).err();
        }
    }

    fn close(&mut self, dut: &mut Dut) -> io::Result<()> {
        (self.open, self.window) = (false, 0..0);
        dut.trace_close()
    }

    /// Ends the file, if the window's end has not done that already.
    pub fn end(&mut self, dut: &mut Dut) -> io::Result<Option<Range<u64>>> {
        self.close(dut)?;
        match self.failed.take() {
            Some(error) => Err(error),
            None => Ok(self.recorded.take()),
        }
    }
}
