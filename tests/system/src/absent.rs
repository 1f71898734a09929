//! Memory that never comes: pages of a file whose file system (FUSE, in this process) does not answer reads. A process
//! may register them, and whoever touches them waits until this process has ended.

use fuser::{
    BackgroundSession, Config, Errno, FileAttr, FileHandle, FileType, Filesystem, Generation, INodeNo,
    LockOwner, OpenFlags, ReplyAttr, ReplyData, ReplyEntry, Request, Session,
};
use hca_dev::UserMemory;
use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd as _;
use std::time::{Duration, UNIX_EPOCH};
use tempfile::TempDir;

const NAME: &str = "absent";
const FILE: INodeNo = INodeNo(2);
const KEPT: Duration = Duration::from_secs(60);

struct Silent {
    len_bytes: u64,
}

impl Silent {
    fn attr(&self, ino: INodeNo) -> FileAttr {
        let is_file = ino == FILE;
        FileAttr {
            ino,
            size: if is_file { self.len_bytes } else { 0 },
            blocks: 0,
            atime: UNIX_EPOCH,
            mtime: UNIX_EPOCH,
            ctime: UNIX_EPOCH,
            crtime: UNIX_EPOCH,
            kind: if is_file {
                FileType::RegularFile
            } else {
                FileType::Directory
            },
            perm: 0o700,
            nlink: 1,
            uid: 0,
            gid: 0,
            rdev: 0,
            blksize: 4096,
            flags: 0,
        }
    }
}

impl Filesystem for Silent {
    fn lookup(&self, _: &Request, _: INodeNo, name: &OsStr, reply: ReplyEntry) {
        if name == NAME {
            reply.entry(&KEPT, &self.attr(FILE), Generation(0));
        } else {
            reply.error(Errno::ENOENT);
        }
    }

    fn getattr(&self, _: &Request, ino: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        reply.attr(&KEPT, &self.attr(ino));
    }

    fn read(
        &self,
        _: &Request,
        _: INodeNo,
        _: FileHandle,
        _: u64,
        _: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        // An answer that is dropped says that it failed.
        std::mem::forget(reply);
    }
}

/// The memory, and the file system behind it.
pub struct Absent {
    base: *mut libc::c_void,
    len_bytes: usize,
    _session: BackgroundSession,
    _folder: TempDir,
}

impl Absent {
    /// Needs the right to mount, and a kernel with FUSE.
    pub fn new(len_bytes: usize) -> io::Result<Self> {
        own_mounts()?;
        let folder = TempDir::new()?;
        let len = len_bytes as u64;
        let session = Session::new(Silent { len_bytes: len }, folder.path(), &Config::default())?.spawn()?;
        let file = File::options()
            .read(true)
            .write(true)
            .open(folder.path().join(NAME))?;
        // SAFETY: a new mapping at an address the kernel chooses; the result is checked.
        let base = unsafe {
            let prot = libc::PROT_READ | libc::PROT_WRITE;
            let fd = file.as_raw_fd();
            libc::mmap(std::ptr::null_mut(), len_bytes, prot, libc::MAP_PRIVATE, fd, 0)
        };
        if base == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        Ok(Self {
            base,
            len_bytes,
            _session: session,
            _folder: folder,
        })
    }

    /// For registration; never to be touched.
    pub fn memory(&self) -> UserMemory {
        // SAFETY: mapped as long as this lives.
        unsafe { UserMemory::new(self.base.cast(), self.len_bytes) }
    }
}

/// What this thread mounts from now on goes with the process, however it ends.
fn own_mounts() -> io::Result<()> {
    let (none, private) = (c"none".as_ptr(), libc::MS_REC | libc::MS_PRIVATE);
    // SAFETY: plain system calls with C strings.
    let failed = unsafe {
        libc::unshare(libc::CLONE_NEWNS) < 0
            || libc::mount(none, c"/".as_ptr(), std::ptr::null(), private, std::ptr::null()) < 0
    };
    if failed {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

impl Drop for Absent {
    fn drop(&mut self) {
        // SAFETY: our own mapping, which nobody here has touched.
        unsafe { libc::munmap(self.base, self.len_bytes) };
    }
}
