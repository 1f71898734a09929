//! Namespaces of Linux for what `hca run` starts: mounts and a network that are not the machine's.
//!
//! [`Isolation::enter`] moves the whole process, so it comes before the first thread; what is started later inherits
//! it. Root unshares as it is. Anybody else does so in a user namespace where they are themselves: this process may
//! mount and configure the network there, also from a thread with mounts of its own; what it executes may not. Sockets
//! with a path reach across all this: a simulator inside serves clients outside, and the other way round.

use anyhow::{Context as _, Result, bail};
use nix::libc;
use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, unshare};
use nix::sys::socket::{
    AddressFamily, MsgFlags, NetlinkAddr, SockFlag, SockProtocol, SockType, recv, sendto, socket,
};
use nix::unistd::{getgid, getuid};
use std::fs;
use std::io;
use std::net::IpAddr;
use std::os::fd::AsRawFd as _;
use std::process::{Command, ExitCode, Stdio};

use crate::place;

/// Index of the loopback device, the first one of every network.
const LOOPBACK: i32 = 1;

/// The command of [`try_out`].
const COMMAND: &str = "namespaces";

/// What shall not be the machine's.
#[derive(clap::Args, Clone, Copy, Debug, PartialEq, Eq)]
pub struct Isolation {
    /// Mounts made from now on are seen by this process and its children alone
    #[arg(long)]
    pub mounts: bool,
    /// A network with nothing but a loopback device
    #[arg(long)]
    pub network: bool,
}

impl Isolation {
    /// Enters them; the process must not have a second thread. The error says why the kernel forbids it, and that
    /// nothing has changed: another process has tried it before, for of a step that fails half-way nothing is undone.
    pub fn enter(self) -> Result<()> {
        let flags = [("--mounts", self.mounts), ("--network", self.network)];
        let flags = flags.into_iter().filter(|(_, wanted)| *wanted);
        let flags: Vec<_> = flags.map(|(flag, _)| flag).collect();
        if flags.is_empty() {
            return Ok(());
        }
        let program = place::program()?;
        let mut rehearsal = Command::new(program);
        rehearsal.arg(COMMAND).args(flags).stdin(Stdio::null());
        let output = rehearsal.output();
        let output = output.with_context(|| format!("cannot run {}", program.display()))?;
        if !output.status.success() {
            let text = String::from_utf8_lossy(&output.stderr);
            bail!("{}", text.trim().trim_start_matches("hca: "));
        }
        self.unshare()
    }

    fn unshare(self) -> Result<()> {
        let mut wanted = CloneFlags::empty();
        wanted.set(CloneFlags::CLONE_NEWNS, self.mounts);
        wanted.set(CloneFlags::CLONE_NEWNET, self.network);
        if unshare(wanted).is_err() {
            let (user, group) = (getuid(), getgid());
            let cannot = "the kernel allows this user no namespaces";
            unshare(wanted | CloneFlags::CLONE_NEWUSER).context(cannot)?;
            // user_namespaces(7): who is not root outside maps themself alone, and gives up setgroups before groups.
            fs::write("/proc/self/uid_map", format!("{user} {user} 1\n")).context(cannot)?;
            fs::write("/proc/self/setgroups", "deny").context(cannot)?;
            fs::write("/proc/self/gid_map", format!("{group} {group} 1\n")).context(cannot)?;
        }
        if self.mounts {
            let flags = MsFlags::MS_REC | MsFlags::MS_PRIVATE;
            mount(None::<&str>, "/", None::<&str>, flags, None::<&str>)
                .context("the kernel does not let mounts be separated from the machine's")?;
        }
        if self.network {
            loopback_up().context("the kernel does not let the loopback device be switched on")?;
        }
        Ok(())
    }
}

/// Gives this thread mounts apart from its process', which has entered mounts of its own before.
pub fn separate_mounts() -> Result<()> {
    unshare(CloneFlags::CLONE_NEWNS).context("the kernel gives a thread no mounts of its own")
}

/// `hca namespaces`: enters them and ends.
pub fn try_out(isolation: &Isolation) -> Result<ExitCode> {
    isolation.unshare()?;
    Ok(ExitCode::SUCCESS)
}

/// In a new network namespace the loopback device is down. rtnetlink(7): RTM_NEWLINK changes flags of a device.
fn loopback_up() -> Result<()> {
    const UP: u32 = libc::IFF_UP as u32;
    // struct ifinfomsg: family and type of no matter; device, flags, and which of them count.
    let info = [[0; 4], LOOPBACK.to_ne_bytes(), UP.to_ne_bytes(), UP.to_ne_bytes()];
    route_request(libc::RTM_NEWLINK, &info.concat())
}

/// One more address of the loopback device. rtnetlink(7): RTM_NEWADDR.
pub fn loopback_address(address: IpAddr) -> Result<()> {
    let (family, bytes) = match address {
        IpAddr::V4(address) => (libc::AF_INET, address.octets().to_vec()),
        IpAddr::V6(address) => (libc::AF_INET6, address.octets().to_vec()),
    };
    let request = [
        // struct ifaddrmsg: family, bits of the prefix, flags, scope, device.
        &[family as u8, 8 * bytes.len() as u8, 0, libc::RT_SCOPE_UNIVERSE][..],
        &LOOPBACK.to_ne_bytes(),
        // struct rtattr: length, type, then the address.
        &(4 + bytes.len() as u16).to_ne_bytes(),
        &libc::IFA_LOCAL.to_ne_bytes(),
        &bytes,
    ]
    .concat();
    route_request(libc::RTM_NEWADDR, &request)
}

/// Asks the kernel to change the network, and waits for its answer.
fn route_request(kind: u16, body: &[u8]) -> Result<()> {
    const HEADER_BYTES: usize = 16;
    let len = (HEADER_BYTES + body.len()) as u32;
    let request = [
        // struct nlmsghdr: length, then type and flags; a sequence number and the sender may be 0.
        &len.to_ne_bytes()[..],
        &kind.to_ne_bytes(),
        &((libc::NLM_F_REQUEST | libc::NLM_F_ACK) as u16).to_ne_bytes(),
        &[0; 8],
        body,
    ]
    .concat();
    let route = socket(
        AddressFamily::Netlink,
        SockType::Raw,
        SockFlag::SOCK_CLOEXEC,
        SockProtocol::NetlinkRoute,
    )?;
    sendto(
        route.as_raw_fd(),
        &request,
        &NetlinkAddr::new(0, 0),
        MsgFlags::empty(),
    )?;
    // The kernel has answered before sendto returns: nlmsghdr, then an errno, negative.
    let mut answer = [0; 1024];
    let len = recv(route.as_raw_fd(), &mut answer, MsgFlags::MSG_DONTWAIT)?;
    let Some(errno) = answer[..len].get(HEADER_BYTES..).and_then(<[u8]>::first_chunk) else {
        bail!("the kernel answers in {len} bytes");
    };
    match i32::from_ne_bytes(*errno) {
        0 => Ok(()),
        errno => Err(io::Error::from_raw_os_error(errno.wrapping_neg()).into()),
    }
}
