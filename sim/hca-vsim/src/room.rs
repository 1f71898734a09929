//! Disk space for waveforms: their writer ends the process when a write fails, so a write must not fail.

use std::fs::File;
use std::io::Write;
use std::os::fd::AsRawFd;
use std::path::Path;

/// A waveform is not begun with less free space.
const START_BYTES: u64 = 256 << 20;
/// It ends when there is less. What the writer still holds back is far smaller.
const STOP_BYTES: u64 = 64 << 20;
/// Values recorded between two looks at the disk.
const LOOK_EVERY: u32 = 1024;

/// Watches the disk a waveform is written to.
pub(crate) struct TraceRoom {
    file: File,
    dumps: u32,
}

impl TraceRoom {
    /// Creates the file and looks whether its disk has room.
    pub fn create(path: &Path) -> std::io::Result<Self> {
        let file = File::create(path)?;
        // Opening succeeds on a full disk too.
        (&file).write_all(&[0])?;
        let room = Self { file, dumps: 0 };
        let free = room.free_bytes()?;
        if free < START_BYTES {
            let (free, needed) = (free >> 20, START_BYTES >> 20);
            return Err(std::io::Error::other(format!(
                "{free} MB free on its disk, {needed} MB needed"
            )));
        }
        Ok(room)
    }

    /// May another set of values be recorded?
    pub fn has_room(&mut self) -> bool {
        self.dumps = self.dumps.wrapping_add(1);
        !self.dumps.is_multiple_of(LOOK_EVERY) || self.free_bytes().is_ok_and(|free| free >= STOP_BYTES)
    }

    fn free_bytes(&self) -> std::io::Result<u64> {
        let mut stat = std::mem::MaybeUninit::<libc::statvfs>::uninit();
        // SAFETY: the descriptor is open, the structure is ours and large enough.
        if unsafe { libc::fstatvfs(self.file.as_raw_fd(), stat.as_mut_ptr()) } != 0 {
            return Err(std::io::Error::last_os_error());
        }
        // SAFETY: filled by the call that succeeded.
        let stat = unsafe { stat.assume_init() };
        Ok(stat.f_bavail.saturating_mul(stat.f_frsize))
    }
}

/// The error of a waveform that was cut short.
pub(crate) fn ended_early() -> std::io::Error {
    let needed = STOP_BYTES >> 20;
    std::io::Error::other(format!(
        "the waveform ends early: less than {needed} MB free on its disk"
    ))
}
