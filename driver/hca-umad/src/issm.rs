//! What a program opens to say that it is a subnet manager (IsSM): in the kernel a device, here an empty file in
//! memory. The kernel tells when somebody opens and closes it.

use std::ffi::{CString, c_int};

use crate::errno::{Call, EINVAL, last_errno};

/// Room for a few events, which have no names.
const EVENT_BYTES: usize = 16;
const EVENTS: usize = 16;

/// The file of a port.
pub struct Issm {
    file: c_int,
    watch: c_int,
    /// How many have it open.
    opens: u32,
}

impl Issm {
    pub fn new() -> Call<Self> {
        // SAFETY: a C string; no other memory is passed.
        let file = unsafe { libc::memfd_create(c"issm".as_ptr(), libc::MFD_CLOEXEC) };
        if file < 0 {
            return Err(last_errno());
        }
        // SAFETY: no memory is passed.
        let watch = unsafe { libc::inotify_init1(libc::IN_CLOEXEC | libc::IN_NONBLOCK) };
        let issm = Self {
            file,
            watch,
            opens: 0,
        };
        if watch < 0 {
            return Err(last_errno());
        }
        let path = CString::new(issm.path()).map_err(|_| EINVAL)?;
        // SAFETY: a C string.
        let added = unsafe { libc::inotify_add_watch(watch, path.as_ptr(), libc::IN_OPEN | libc::IN_CLOSE) };
        if added < 0 { Err(last_errno()) } else { Ok(issm) }
    }

    /// What is to be opened.
    pub fn path(&self) -> String {
        format!("/proc/self/fd/{}", self.file)
    }

    /// Readable when somebody has opened or closed it.
    pub fn fd(&self) -> c_int {
        self.watch
    }

    /// Does anybody have it open?
    pub fn is_open(&mut self) -> bool {
        let mut events = [0u8; EVENT_BYTES * EVENTS];
        loop {
            // SAFETY: as many bytes as there are; the descriptor does not block.
            let got = unsafe { libc::read(self.watch, events.as_mut_ptr().cast(), events.len()) };
            let Ok(got) = usize::try_from(got) else {
                return self.opens != 0;
            };
            for event in events[..got.min(events.len())].chunks_exact(EVENT_BYTES) {
                let mask = u32::from_ne_bytes([event[4], event[5], event[6], event[7]]);
                if mask & libc::IN_OPEN != 0 {
                    self.opens += 1;
                }
                if mask & libc::IN_CLOSE != 0 {
                    self.opens = self.opens.saturating_sub(1);
                }
            }
            if got == 0 {
                return self.opens != 0;
            }
        }
    }
}

impl Drop for Issm {
    fn drop(&mut self) {
        for fd in [self.file, self.watch] {
            if fd >= 0 {
                // SAFETY: descriptors of ours.
                unsafe { libc::close(fd) };
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;

    /// MGMT-9: a manager is there as long as one of those who have opened the file has it open.
    #[test]
    fn who_has_it_open_is_there() {
        let mut issm = Issm::new().unwrap();
        assert!(!issm.is_open());
        let first = File::open(issm.path()).unwrap();
        assert!(issm.is_open());
        let second = File::open(issm.path()).unwrap();
        drop(first);
        assert!(issm.is_open());
        drop(second);
        assert!(!issm.is_open());
        for _ in 0..40 {
            drop(File::open(issm.path()).unwrap());
        }
        assert!(!issm.is_open());
    }
}
