//! A TAP interface: the kernel's end of a wire.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::OpenOptionsExt as _;

use nix::libc;

const DEVICE: &str = "/dev/net/tun";

nix::ioctl_write_ptr!(
    /// TUNSETIFF: which interface a descriptor of the device is for. The kernel's number of it says `int` where it
    /// takes an `ifreq`.
    set_interface, b'T', 202, libc::c_int
);

/// Opens the interface, and makes it if it is not there, which takes CAP_NET_ADMIN; frames without any header of the
/// kernel's. Taking it up and giving it an address is left to the user.
pub(crate) fn open(name: &str) -> io::Result<File> {
    let explain = |error: io::Error, remedy: &str| io::Error::new(error.kind(), format!("{error}; {remedy}"));
    let device = File::options()
        .read(true)
        .write(true)
        .custom_flags(libc::O_NONBLOCK)
        .open(DEVICE)
        .map_err(|error| explain(error, "/dev/net/tun must be there, and yours to open"))?;
    // SAFETY: a structure of plain numbers and bytes, for which zeros are legal.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    for (to, from) in request.ifr_name.iter_mut().zip(name.bytes()) {
        *to = from as libc::c_char;
    }
    request.ifr_ifru.ifru_flags = (libc::IFF_TAP | libc::IFF_NO_PI) as libc::c_short;
    // SAFETY: a live `ifreq`, as this request takes; its name is at most 15 bytes and so ends in a zero.
    let made = unsafe { set_interface(device.as_raw_fd(), (&raw const request).cast()) };
    let remedy = format!("make it for this user with: ip tuntap add dev {name} mode tap user $(id -un)");
    made.map_err(|error| explain(error.into(), &remedy))?;
    Ok(device)
}
