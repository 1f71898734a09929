//! Who listens on which port: processes on one card share its addresses, so they must agree. A file for each port of a
//! port space, locked by who has it; the lock of one that has died is gone with it.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::ops::RangeInclusive;
use std::os::fd::AsRawFd;
use std::path::PathBuf;

use crate::address::run_folder;
use crate::errno::{Call, Errno};

/// First port that is given to who names none, as IANA wants it.
const FIRST_EPHEMERAL: u16 = 49152;

/// A port number that is this process', on some cards.
pub struct Lease {
    /// The number.
    pub port: u16,
    names: Vec<String>,
    files: Vec<File>,
}

impl Lease {
    /// Says to who looks at this process' open files that somebody can connect now: `hca run --pair` starts the client;
    /// and to other processes on the card that requests for the port are not theirs to refuse.
    pub fn announce(&mut self) -> Call<()> {
        for name in &self.names {
            let served = open(&format!("{name}{SERVED}"))?;
            // Who has it for a moment looks whether anybody serves the port, and will look again.
            // SAFETY: a live descriptor.
            unsafe { libc::flock(served.as_raw_fd(), libc::LOCK_SH) };
            self.files.push(served);
        }
        // Nobody needs it: without it the client is only started later.
        self.files
            .extend(open(&format!("{}{LISTENING}", std::process::id())));
        Ok(())
    }
}

/// Last part of the name of a file that a process has open while it listens.
const LISTENING: &str = "-listening";
/// Last part of the name of a file that who serves a port has locked.
const SERVED: &str = "-served";

fn folder() -> PathBuf {
    run_folder().join("rdmacm")
}

fn open(name: &str) -> Call<File> {
    let errno = |e: io::Error| Errno(e.raw_os_error().unwrap_or(libc::EIO));
    std::fs::create_dir_all(folder()).map_err(errno)?;
    let mut options = OpenOptions::new();
    options.create(true).truncate(false).read(true).write(true);
    options.open(folder().join(name)).map_err(errno)
}

fn lock(file: &File, operation: i32) -> bool {
    // SAFETY: a live descriptor.
    unsafe { libc::flock(file.as_raw_fd(), operation | libc::LOCK_NB) == 0 }
}

fn name(guid: u64, port_space: u16, port: u16) -> String {
    format!("{guid:016x}-{port_space:04x}-{port}")
}

/// Takes a port on all of these cards; 0: any that is free. With `shares` others that share may have it, too.
pub fn take(guids: &[u64], port_space: u16, port: u16, shares: bool) -> Call<Lease> {
    if port != 0 {
        return take_one(guids, port_space, port, shares);
    }
    take_any(guids, port_space, FIRST_EPHEMERAL..=u16::MAX)
}

/// One of these that is free. Different processes begin at different places.
fn take_any(guids: &[u64], port_space: u16, ports: RangeInclusive<u16>) -> Call<Lease> {
    let start = (std::process::id() as usize).wrapping_mul(40503) % ports.len();
    for port in ports.clone().cycle().skip(start).take(ports.len()) {
        match take_one(guids, port_space, port, false) {
            Err(Errno(libc::EADDRINUSE)) => {}
            result => return result,
        }
    }
    Err(Errno(libc::EADDRNOTAVAIL))
}

fn take_one(guids: &[u64], port_space: u16, port: u16, shares: bool) -> Call<Lease> {
    let operation = if shares { libc::LOCK_SH } else { libc::LOCK_EX };
    let names: Vec<_> = guids.iter().map(|guid| name(*guid, port_space, port)).collect();
    let mut files = Vec::new();
    for name in &names {
        let file = open(name)?;
        if !lock(&file, operation) {
            return Err(Errno(libc::EADDRINUSE));
        }
        files.push(file);
    }
    Ok(Lease { port, names, files })
}

/// Does any process serve the port on a card? Who has it to call others from does not.
pub fn is_served(guid: u64, port_space: u16, port: u16) -> bool {
    let served = format!("{}{SERVED}", name(guid, port_space, port));
    let Ok(file) = File::open(folder().join(served)) else {
        return false;
    };
    !lock(&file, libc::LOCK_EX)
}

/// A number that no other process on the same cards has.
pub fn take_prefix() -> Call<(u8, File)> {
    for number in 1..=u8::MAX {
        let file = open(&format!("process-{number}"))?;
        if lock(&file, libc::LOCK_EX) {
            return Ok((number, file));
        }
    }
    Err(Errno(libc::EBUSY))
}

/// Says that the process of this prefix uses a card, as long as it lives.
pub fn announce(guid: u64, prefix: u8) -> Call<File> {
    let file = open(&process_on(guid, prefix))?;
    // Nobody else has the prefix; who looks at the file has it for a moment only.
    // SAFETY: a live descriptor.
    unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_EX) };
    let since = std::time::SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default();
    let written = file
        .set_len(0)
        .and_then(|()| (&file).write_all(format!("{} {}", std::process::id(), since.as_nanos()).as_bytes()));
    written.map_err(|e| Errno(e.raw_os_error().unwrap_or(libc::EIO)))?;
    Ok(file)
}

fn process_on(guid: u64, prefix: u8) -> String {
    format!("{guid:016x}-process-{prefix}")
}

/// What is known of a process that uses a card.
#[derive(Debug, PartialEq, Eq)]
pub enum Peer {
    /// It is none of this folder's: a card elsewhere, a manager that is not this library.
    Unknown,
    /// It lives; what it has said of itself.
    Lives(String),
    /// It has ended.
    Gone,
}

/// The process that a prefix on a card belongs to.
pub fn peer(guid: u64, prefix: u8) -> Peer {
    let Ok(mut file) = File::open(folder().join(process_on(guid, prefix))) else {
        return Peer::Unknown;
    };
    if lock(&file, libc::LOCK_SH) {
        return Peer::Gone;
    }
    let mut said = String::new();
    match file.read_to_string(&mut said) {
        // It is about to say it.
        Ok(0) | Err(_) => Peer::Unknown,
        Ok(_) => Peer::Lives(said),
    }
}

/// The right to say no for all processes on a port of a card.
pub fn speak_for_all(guid: u64, port_num: u8) -> Option<File> {
    let file = open(&format!("{guid:016x}-speaker-{port_num}")).ok()?;
    lock(&file, libc::LOCK_EX).then_some(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// CM-27: ports like sockets have them.
    #[test]
    fn ports_are_taken_once() {
        let home = tempfile::tempdir().unwrap();
        // SAFETY: no other test of this crate reads it at the same time.
        unsafe { std::env::set_var("HCA_SIM", home.path()) };
        let mut first = take(&[1, 2], 0x106, 7174, false).unwrap();
        let errno = |guids: &[u64], space, port| take(guids, space, port, false).err().map(|e| e.0);
        assert_eq!(errno(&[2], 0x106, 7174), Some(libc::EADDRINUSE));
        assert_eq!(errno(&[3], 0x106, 7174), None);
        assert_eq!(errno(&[2], 0x111, 7174), None);
        assert!(!is_served(1, 0x106, 7174));
        first.announce().unwrap();
        assert!(is_served(1, 0x106, 7174) && !is_served(3, 0x106, 7174));
        drop(first);
        assert!(!is_served(1, 0x106, 7174));
        let shared = take(&[1], 0x106, 9, true).unwrap();
        assert!(take(&[1], 0x106, 9, true).is_ok());
        assert_eq!(errno(&[1], 0x106, 9), Some(libc::EADDRINUSE));
        drop(shared);
        let (a, b) = (
            take(&[1], 0x106, 0, false).unwrap(),
            take(&[1], 0x106, 0, false).unwrap(),
        );
        assert!(a.port >= FIRST_EPHEMERAL && b.port >= FIRST_EPHEMERAL && a.port != b.port);
        // As many as there are, and no more until one is free again.
        let mut all: Vec<_> = (0..3)
            .map(|_| take_any(&[1], 0x106, 100..=102).unwrap())
            .collect();
        let none = take_any(&[1], 0x106, 100..=102).err();
        assert_eq!(none, Some(Errno(libc::EADDRNOTAVAIL)));
        let free = all.pop().map(|lease| lease.port);
        assert_eq!(
            take_any(&[1], 0x106, 100..=102).ok().map(|lease| lease.port),
            free
        );
        assert_eq!(peer(1, 7), Peer::Unknown);
        let process = announce(1, 7).unwrap();
        let Peer::Lives(first) = peer(1, 7) else {
            panic!("{:?}", peer(1, 7))
        };
        assert_eq!(peer(2, 7), Peer::Unknown);
        drop(process);
        assert_eq!(peer(1, 7), Peer::Gone);
        let _process = announce(1, 7).unwrap();
        assert!(matches!(peer(1, 7), Peer::Lives(next) if next != first));
        let speaker = speak_for_all(1, 1).unwrap();
        assert!(speak_for_all(1, 1).is_none() && speak_for_all(1, 2).is_some());
        drop(speaker);
        assert!(speak_for_all(1, 1).is_some());
    }
}
