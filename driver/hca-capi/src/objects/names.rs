//! What a process can open by name on one card: XRC domains by their file, targets of XRC by their number.
//!
//! Each process has a function of the card for itself, and nothing of it is another's. So a domain is shared by what
//! one process has opened, not between processes: one that opens the same file gets a domain of its own.

use std::collections::HashMap;
use std::ffi::c_int;
use std::os::fd::{FromRawFd, OwnedFd};
use std::sync::{Arc, Mutex, Weak};

use hca_verbs::{XrcTarget, Xrcd};

use crate::boundary::live::lock;
use crate::boundary::{Verb, last_errno};
use crate::cards::DevPtr;

/// Device and inode of a file.
pub type File = (libc::dev_t, libc::ino_t);

/// What a process can open by name, on one card. Whoever holds the lock may count references: nobody gets one without.
#[derive(Default)]
pub struct Names {
    pub domains: HashMap<File, Weak<Domain>>,
    /// By QPN.
    targets: HashMap<u32, Weak<SharedTarget>>,
}

/// A domain, as long as it is open.
pub struct Domain {
    pub xrcd: Xrcd<DevPtr>,
    /// A descriptor of our own keeps the inode from being another file's.
    pub file: Option<(File, OwnedFd)>,
}

/// A target of XRC, as long as it has handles.
pub struct SharedTarget {
    pub qp: Mutex<XrcTarget<DevPtr>>,
}

impl Names {
    /// The first handle of a new target.
    pub fn add_target(&mut self, qp: XrcTarget<DevPtr>) -> Arc<SharedTarget> {
        let qp_num = qp.qp_num();
        let target = Arc::new(SharedTarget { qp: Mutex::new(qp) });
        self.targets.insert(qp_num, Arc::downgrade(&target));
        target
    }

    /// One more handle of a target of this domain, if there is one of this number.
    pub fn find_target(&self, qp_num: u32, domain: &Domain) -> Option<Arc<SharedTarget>> {
        let known = self.targets.get(&qp_num).and_then(Weak::upgrade);
        known.filter(|target| lock(&target.qp).xrcd() == domain.xrcd.handle())
    }

    /// A handle of a target goes; the last one takes the QP along (V-120).
    pub fn drop_target(&mut self, target: &Arc<SharedTarget>) -> hca_verbs::Result<()> {
        if Arc::strong_count(target) > 1 {
            return Ok(());
        }
        let mut qp = lock(&target.qp);
        qp.destroy()?;
        self.targets.remove(&qp.qp_num());
        Ok(())
    }
}

/// A descriptor of our own for the file of the program's, and which file it is.
pub fn file_of(fd: c_int) -> Verb<(File, OwnedFd)> {
    // SAFETY: any number may be given; a new descriptor is ours.
    let own = unsafe {
        let own = libc::fcntl(fd, libc::F_DUPFD_CLOEXEC, 0);
        if own < 0 {
            return Err(last_errno());
        }
        OwnedFd::from_raw_fd(own)
    };
    // SAFETY: an all-zero stat is a valid one to write to.
    let mut stat: libc::stat = unsafe { std::mem::zeroed() };
    // SAFETY: live structure.
    if unsafe { libc::fstat(fd, &mut stat) } != 0 {
        return Err(last_errno());
    }
    Ok(((stat.st_dev, stat.st_ino), own))
}
