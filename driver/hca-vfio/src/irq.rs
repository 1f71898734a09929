//! Interrupts as eventfds: one for each MSI-X vector, and the two alarms that the kernel itself raises.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use vfio_bindings::bindings::vfio::{
    VFIO_PCI_ERR_IRQ_INDEX, VFIO_PCI_MSIX_IRQ_INDEX, VFIO_PCI_REQ_IRQ_INDEX,
};

use crate::ioctl;

/// A driver uses a handful; a card may have 2048.
const VECTORS_MAX: u32 = 64;

/// A condition of the whole device, and its name for people.
#[derive(Debug)]
struct Alarm {
    fd: OwnedFd,
    meaning: &'static str,
}

/// All of a device.
#[derive(Debug)]
pub struct Interrupts {
    vectors: Vec<OwnedFd>,
    alarms: Vec<Alarm>,
}

/// An eventfd whose reads and writes never wait.
fn eventfd() -> io::Result<OwnedFd> {
    // SAFETY: a plain system call; the result is checked.
    let fd = unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: new, and nobody else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

impl Interrupts {
    /// Switches them on.
    pub fn new(device: BorrowedFd<'_>) -> io::Result<Self> {
        let count = ioctl::irq_count(device, VFIO_PCI_MSIX_IRQ_INDEX)?.min(VECTORS_MAX);
        if count == 0 {
            return Err(io::Error::other("the device has no MSI-X vectors"));
        }
        let vectors = (0..count).map(|_| eventfd()).collect::<io::Result<Vec<_>>>()?;
        ioctl::set_irqs(device, VFIO_PCI_MSIX_IRQ_INDEX, &vectors)?;
        let mut alarms = Vec::new();
        for (index, meaning) in [
            (VFIO_PCI_REQ_IRQ_INDEX, "somebody takes it away from user space"),
            (
                VFIO_PCI_ERR_IRQ_INDEX,
                "its PCI Express link reports an error that cannot be corrected (the kernel's log says which)",
            ),
        ] {
            // Errors have an alarm on PCI Express alone, requests since Linux 4.0.
            if ioctl::irq_count(device, index).is_ok_and(|count| count > 0) {
                let fd = eventfd()?;
                ioctl::set_irqs(device, index, std::slice::from_ref(&fd))?;
                alarms.push(Alarm { fd, meaning });
            }
        }
        Ok(Self { vectors, alarms })
    }

    /// Switches all of a device off.
    pub fn switch_off(device: BorrowedFd<'_>) {
        for index in [
            VFIO_PCI_MSIX_IRQ_INDEX,
            VFIO_PCI_ERR_IRQ_INDEX,
            VFIO_PCI_REQ_IRQ_INDEX,
        ] {
            // What a device does not have is off.
            let _ = ioctl::set_irqs(device, index, &[]);
        }
    }

    /// MSI-X vectors.
    pub fn count(&self) -> u16 {
        self.vectors.len() as u16
    }

    /// The eventfd of a vector.
    pub fn vector(&self, vector: u16) -> Option<&OwnedFd> {
        self.vectors.get(usize::from(vector))
    }

    /// An alarm that is on; it stays on.
    pub fn alarm(&self) -> Option<&'static str> {
        let mut polls: Vec<libc::pollfd> = self.alarms.iter().map(|alarm| poll_of(&alarm.fd)).collect();
        poll(&mut polls, 0);
        let on = polls.iter().position(|poll| poll.revents != 0)?;
        Some(self.alarms[on].meaning)
    }

    /// Waits until `fd` or an alarm has something, at most so long, at most a second.
    pub fn wait(&self, fd: &OwnedFd, limit_ns: u64) {
        let mut polls = vec![poll_of(fd)];
        polls.extend(self.alarms.iter().map(|alarm| poll_of(&alarm.fd)));
        poll(&mut polls, limit_ns.div_ceil(1_000_000).min(1000) as i32);
    }

    /// As if every vector had come.
    pub fn wake(&self) {
        let one = 1u64.to_ne_bytes();
        for vector in &self.vectors {
            // SAFETY: a live buffer of eight bytes. A full eventfd wakes as well.
            unsafe { libc::write(vector.as_raw_fd(), one.as_ptr().cast(), one.len()) };
        }
    }
}

fn poll_of(fd: &OwnedFd) -> libc::pollfd {
    libc::pollfd {
        fd: fd.as_raw_fd(),
        events: libc::POLLIN,
        revents: 0,
    }
}

/// A signal ends the wait early, which all callers allow.
fn poll(polls: &mut [libc::pollfd], limit_ms: i32) {
    // SAFETY: live pollfds, as many as named.
    unsafe { libc::poll(polls.as_mut_ptr(), polls.len() as libc::nfds_t, limit_ms) };
}
