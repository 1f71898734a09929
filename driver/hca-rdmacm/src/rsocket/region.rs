//! Memory that the card may read and write: registered while it lives.

use std::alloc::{Layout, alloc_zeroed, dealloc};

use crate::abi::*;
use crate::errno::{Call, EINVAL, Errno, last_errno};

/// Cards write there while programs run: nothing here ever becomes a reference.
pub struct Region {
    at: *mut u8,
    layout: Layout,
    mr: *mut ibv_mr,
}

const PAGE: usize = 4096;

/// Registers memory.
///
/// # Safety
/// A live domain.
pub unsafe fn register(pd: *mut ibv_pd, at: *mut libc::c_void, len: usize, access: u32) -> Call<*mut ibv_mr> {
    // SAFETY: the caller's promise; memory that is not there is found out.
    let mr = unsafe { ibv_reg_mr(pd, at, len, access as i32) };
    if mr.is_null() { Err(last_errno()) } else { Ok(mr) }
}

impl Region {
    /// Zeroed memory of a protection domain.
    ///
    /// # Safety
    /// The domain lives longer.
    pub unsafe fn new(pd: *mut ibv_pd, len: usize, access: u32) -> Call<Self> {
        let layout = Layout::from_size_align(len.max(1), PAGE).map_err(|_| EINVAL)?;
        // SAFETY: not of no bytes.
        let at = unsafe { alloc_zeroed(layout) };
        if at.is_null() {
            return Err(Errno(libc::ENOMEM));
        }
        // SAFETY: memory that lives until it is no longer registered.
        match unsafe { register(pd, at.cast(), layout.size(), access) } {
            Ok(mr) => Ok(Self { at, layout, mr }),
            Err(errno) => {
                // SAFETY: as it was made.
                unsafe { dealloc(at, layout) };
                Err(errno)
            }
        }
    }

    pub fn addr(&self) -> u64 {
        self.at as u64
    }

    pub fn lkey(&self) -> u32 {
        // SAFETY: live as long as this.
        unsafe { (*self.mr).lkey }
    }

    pub fn rkey(&self) -> u32 {
        // SAFETY: live as long as this.
        unsafe { (*self.mr).rkey }
    }

    /// Where so many bytes lie.
    fn place(&self, at: usize, len: usize) -> *mut u8 {
        assert!(at <= self.layout.size() && len <= self.layout.size() - at);
        // SAFETY: inside, as was just seen.
        unsafe { self.at.add(at) }
    }

    /// Copies bytes of the program there.
    ///
    /// # Safety
    /// `from` has so many bytes.
    pub unsafe fn write(&self, at: usize, from: *const u8, len: usize) {
        // SAFETY: the caller's promise; other memory than this.
        unsafe { std::ptr::copy_nonoverlapping(from, self.place(at, len), len) };
    }

    /// Copies bytes from there to the program.
    ///
    /// # Safety
    /// `to` has room for so many bytes.
    pub unsafe fn read(&self, at: usize, to: *mut u8, len: usize) {
        // SAFETY: the caller's promise; other memory than this.
        unsafe { std::ptr::copy_nonoverlapping(self.place(at, len), to, len) };
    }

    /// Bytes that the other side has written.
    pub fn get<const N: usize>(&self, at: usize) -> [u8; N] {
        let from = self.place(at, N).cast::<[u8; N]>();
        // SAFETY: inside; any bytes will do.
        unsafe { from.read_volatile() }
    }

    pub fn set<const N: usize>(&self, at: usize, bytes: [u8; N]) {
        let to = self.place(at, N).cast::<[u8; N]>();
        // SAFETY: inside.
        unsafe { to.write_volatile(bytes) };
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        // SAFETY: both as they were made; no QP uses the memory any more. A card that is gone does not write either.
        unsafe {
            ibv_dereg_mr(self.mr);
            dealloc(self.at, self.layout);
        }
    }
}
