//! One of two programs that run side by side.

use anyhow::{Context as _, Result};
use std::ffi::OsString;
use std::fs;
use std::io::{self, BufRead as _, BufReader, Read, Write};
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread::JoinHandle;

/// As a shell tells it: 128 + N for signal N.
pub fn exit_code(status: ExitStatus) -> u8 {
    match (status.code(), status.signal()) {
        (Some(code), _) => code as u8,
        (None, signal) => 128 + signal.unwrap_or(0) as u8,
    }
}

/// A program under way. Dropping it ends it.
pub struct End {
    child: Child,
    status: Option<ExitStatus>,
    printers: Vec<JoinHandle<()>>,
}

impl End {
    /// Starts it. Each line of its output gets `name` in front.
    pub fn start(name: &'static str, mut command: Command, word: &OsString) -> Result<Self> {
        let command = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut child = command
            .spawn()
            .with_context(|| format!("cannot run {}", word.display()))?;
        let mut printers = Vec::new();
        if let Some(output) = child.stdout.take() {
            printers.push(std::thread::spawn(move || copy_lines(name, output, io::stdout)));
        }
        if let Some(output) = child.stderr.take() {
            printers.push(std::thread::spawn(move || copy_lines(name, output, io::stderr)));
        }
        Ok(Self {
            child,
            status: None,
            printers,
        })
    }

    /// Its exit code, once it has ended; 128 + N for signal N.
    pub fn exit_code(&mut self) -> Result<Option<u8>> {
        if self.status.is_none() {
            self.status = self.child.try_wait().context("cannot wait for a program")?;
        }
        Ok(self.status.map(exit_code))
    }

    /// Ends it at once, if it has not ended.
    pub fn kill(&mut self) {
        // It fails only for a program that has been waited for.
        let _ = self.child.kill();
    }

    /// Does it, or a program that it has started, listen for TCP connections?
    pub fn listens(&self) -> bool {
        with_children(self.child.id()).into_iter().any(listens)
    }
}

impl Drop for End {
    fn drop(&mut self) {
        self.kill();
        let _ = self.child.wait();
        for printer in self.printers.drain(..) {
            // A printer that panicked has lost its output already.
            let _ = printer.join();
        }
    }
}

fn copy_lines<W: Write>(name: &str, from: impl Read, to: impl Fn() -> W) {
    let mut lines = BufReader::new(from);
    let mut line = format!("{name}: ").into_bytes();
    let prefix = line.len();
    // One write per line, so that lines of two programs do not mix.
    while lines.read_until(b'\n', &mut line).is_ok_and(|len| len > 0) {
        if line.last() != Some(&b'\n') {
            line.push(b'\n');
        }
        // A reader that has gone away must not stop the program.
        let _ = to().write_all(&line);
        line.truncate(prefix);
    }
}

fn listens(pid: u32) -> bool {
    let listening = listening_inodes(pid);
    !listening.is_empty() && sockets(pid).iter().any(|inode| listening.contains(inode))
}

/// Inodes of TCP sockets in state LISTEN, in the network of a process.
fn listening_inodes(pid: u32) -> Vec<u64> {
    const LISTEN: &str = "0A";
    let tables = ["tcp", "tcp6"].map(|table| format!("/proc/{pid}/net/{table}"));
    let tables = tables.map(|path| fs::read_to_string(path).unwrap_or_default());
    let lines = tables.iter().flat_map(|table| table.lines().skip(1));
    let fields = lines.map(|line| line.split_ascii_whitespace().collect::<Vec<_>>());
    fields
        .filter(|fields| fields.get(3) == Some(&LISTEN))
        .filter_map(|fields| fields.get(9)?.parse().ok())
        .collect()
}

/// Inodes of the sockets a process has open.
fn sockets(pid: u32) -> Vec<u64> {
    let files = fs::read_dir(format!("/proc/{pid}/fd"))
        .into_iter()
        .flatten()
        .flatten();
    let targets = files.filter_map(|file| fs::read_link(file.path()).ok());
    targets
        .filter_map(|target| {
            target
                .to_str()?
                .strip_prefix("socket:[")?
                .strip_suffix(']')?
                .parse()
                .ok()
        })
        .collect()
}

/// A process and all that descend from it.
fn with_children(pid: u32) -> Vec<u32> {
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = processes.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let parents: Vec<(u32, u32)> = pids.filter_map(|pid| Some((pid, parent(pid)?))).collect();
    let mut family = vec![pid];
    let mut next = 0;
    while let Some(&member) = family.get(next) {
        family.extend(
            parents
                .iter()
                .filter(|(_, parent)| *parent == member)
                .map(|(pid, _)| pid),
        );
        next += 1;
    }
    family
}

fn parent(pid: u32) -> Option<u32> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name in parentheses may contain anything; behind it come state and parent.
    stat.rsplit_once(')')?
        .1
        .split_ascii_whitespace()
        .nth(1)?
        .parse()
        .ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    #[test]
    fn a_listening_socket_is_found() {
        let pid = std::process::id();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        assert!(listens(pid));
        drop(listener);
        assert!(with_children(parent(pid).unwrap()).contains(&pid));
    }
}
