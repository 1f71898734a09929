//! Files that a client has given as memory, each mapped once and as a whole: a virtual IOMMU maps single pages,
//! hundreds of thousands of them, each with a copy of the same descriptor, and a process can have but 65530 mappings.

use std::collections::HashMap;
use std::fs::File;
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt as _;
use std::sync::Arc;

use hca_dev::{PAGE_BYTES, SharedMem};

/// What a client's files may take of the simulator's address space.
#[derive(Clone, Copy)]
pub(super) struct Share {
    pub mappings: usize,
    pub bytes: usize,
}

/// Which file, and how it is mapped. A file that is mapped cannot lose its number to another one.
type Key = (u64, u64, bool);

/// The files of a client. They are held here so that their mappings end here, in the door's thread: that may take long.
#[derive(Default)]
pub(super) struct Files {
    current: HashMap<Key, Arc<SharedMem>>,
    /// Mapped again since, because they had grown.
    outgrown: Vec<Arc<SharedMem>>,
}

impl Files {
    /// Memory of a file from `offset` on, and where in the mapping that is; or an errno. EINVAL: no memory that
    /// stays, or not so much of it; EACCES: the descriptor is not open for writing; ENOSPC: more than the share.
    pub fn map(
        &mut self,
        file: &File,
        offset: u64,
        len_bytes: u64,
        writable: bool,
        share: Share,
    ) -> Result<(Arc<SharedMem>, usize), i32> {
        let end = offset.checked_add(len_bytes).ok_or(libc::EINVAL)?;
        let found = file.metadata().map_err(|_| libc::EINVAL)?;
        if len_bytes == 0 || !offset.is_multiple_of(PAGE_BYTES as u64) || end > found.len() {
            return Err(libc::EINVAL);
        }
        if writable && !is_open_for_writing(file) {
            return Err(libc::EACCES);
        }
        let offset = offset as usize;
        let key = (found.dev(), found.ino(), writable);
        if let Some(memory) = self.current.get(&key)
            && memory.len_bytes() as u64 >= end
        {
            return Ok((memory.clone(), offset));
        }
        let whole = usize::try_from(found.len()).map_err(|_| libc::ENOSPC)?;
        self.forget_unused();
        if self.len() >= share.mappings || whole > share.bytes.saturating_sub(self.bytes()) {
            return Err(libc::ENOSPC);
        }
        let made = if writable {
            SharedMem::from_file(file, 0, whole)
        } else {
            SharedMem::from_file_to_read(file, 0, whole)
        };
        let memory = Arc::new(made.map_err(|_| libc::EINVAL)?);
        self.outgrown.extend(self.current.insert(key, memory.clone()));
        Ok((memory, offset))
    }

    /// Unmaps what nobody else holds any more.
    pub fn forget_unused(&mut self) {
        self.current.retain(|_, memory| Arc::strong_count(memory) > 1);
        self.outgrown.retain(|memory| Arc::strong_count(memory) > 1);
    }

    fn len(&self) -> usize {
        self.current.len() + self.outgrown.len()
    }

    fn bytes(&self) -> usize {
        let all = self.current.values().chain(&self.outgrown);
        all.map(|memory| memory.len_bytes()).sum()
    }
}

fn is_open_for_writing(file: &File) -> bool {
    // SAFETY: a plain system call on a live file; any file may be asked.
    let flags = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_GETFL) };
    flags >= 0 && flags & libc::O_ACCMODE != libc::O_RDONLY
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsFd as _;

    const SHARE: Share = Share {
        mappings: 2,
        bytes: 1 << 20,
    };

    fn memory(pages: usize) -> (SharedMem, File) {
        let memory = SharedMem::new("file", pages * PAGE_BYTES).unwrap();
        let file = File::from(memory.fd().unwrap().try_clone_to_owned().unwrap());
        (memory, file)
    }

    fn reopened_to_read(file: &File) -> File {
        File::open(format!("/proc/self/fd/{}", file.as_fd().as_raw_fd())).unwrap()
    }

    #[test]
    fn a_file_is_mapped_once_whatever_is_asked_of_it() {
        let mut files = Files::default();
        let (_memory, file) = memory(8);
        let copy = file.try_clone().unwrap();
        let (first, offset) = files.map(&file, 0, 4096, true, SHARE).unwrap();
        assert_eq!((first.len_bytes(), offset), (8 * PAGE_BYTES, 0));
        let (second, offset) = files.map(&copy, 3 * 4096, 4096, true, SHARE).unwrap();
        assert!(Arc::ptr_eq(&first, &second) && offset == 3 * PAGE_BYTES);
        // To be read alone it is mapped so.
        let to_read = files
            .map(&reopened_to_read(&file), 0, 4096, false, SHARE)
            .unwrap();
        assert!(!Arc::ptr_eq(&first, &to_read.0));
        assert_eq!(files.len(), 2);
        drop((first, to_read));
        files.forget_unused();
        assert_eq!(files.len(), 1);
        drop(second);
        files.forget_unused();
        assert_eq!((files.len(), files.bytes()), (0, 0));
    }

    #[test]
    fn a_file_that_has_grown_is_mapped_again() {
        let mut files = Files::default();
        let (_memory, file) = memory(2);
        let (first, _) = files.map(&file, 0, 8192, true, SHARE).unwrap();
        assert_eq!(files.map(&file, 0, 8193, true, SHARE).err(), Some(libc::EINVAL));
        file.set_len(16384).unwrap();
        let (second, _) = files.map(&file, 8192, 8192, true, SHARE).unwrap();
        assert_eq!((first.len_bytes(), second.len_bytes()), (8192, 16384));
        file.set_len(32768).unwrap();
        let full = files.map(&file, 0, 32768, true, SHARE);
        assert_eq!(full.err(), Some(libc::ENOSPC), "two are all there may be");
        drop(first);
        assert!(files.map(&file, 0, 32768, true, SHARE).is_ok());
    }

    #[test]
    fn what_cannot_be_mapped_is_refused() {
        let mut files = Files::default();
        let (_memory, file) = memory(2);
        for (offset, len) in [
            (1, 4096),
            (0, 0),
            (4096, 4097),
            (8192, 1),
            (u64::MAX - 4095, 8192),
        ] {
            let refused = files.map(&file, offset, len, true, SHARE);
            assert_eq!(refused.err(), Some(libc::EINVAL), "{offset:#x} + {len:#x}");
        }
        let read_only = reopened_to_read(&file);
        assert_eq!(
            files.map(&read_only, 0, 4096, true, SHARE).err(),
            Some(libc::EACCES)
        );
        let unsealed = tempfile::tempfile().unwrap();
        unsealed.set_len(4096).unwrap();
        assert_eq!(
            files.map(&unsealed, 0, 4096, true, SHARE).err(),
            Some(libc::EINVAL)
        );
        let (_memory, large) = memory(257);
        assert_eq!(files.map(&large, 0, 4096, true, SHARE).err(), Some(libc::ENOSPC));
        assert_eq!(files.len(), 0);
    }
}
