//! One of two programs that run side by side.

use anyhow::{Context as _, Error, Result};
use nix::sys::prctl;
use nix::sys::signal::{Signal, kill, killpg};
use nix::unistd::Pid;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, BufRead as _, BufReader, Read, Write};
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::code::{NotStarted, SIGNAL};

/// As a shell tells it: 128 + N for signal N.
pub fn exit_code(status: ExitStatus) -> u8 {
    match (status.code(), status.signal()) {
        (Some(code), _) => code as u8,
        (None, signal) => SIGNAL + signal.unwrap_or(0) as u8,
    }
}

/// Of a program that could not be started.
pub fn not_started(word: &OsString, reason: io::Error) -> Error {
    let word = word.to_string_lossy().into_owned();
    NotStarted { word, reason }.into()
}

/// Where its output goes.
pub struct Output {
    /// All of it to standard error.
    pub to_stderr: bool,
    /// And here, as it is.
    pub log: Option<File>,
}

/// A program under way. Dropping it ends it.
pub struct End {
    name: &'static str,
    child: Child,
    begin: Instant,
    /// And when that was seen.
    status: Option<(ExitStatus, Instant)>,
    killed: bool,
    printers: Vec<JoinHandle<()>>,
}

impl End {
    /// Starts it. Each line of its output gets `name` in front.
    pub fn start(name: &'static str, mut command: Command, word: &OsString, output: Output) -> Result<Self> {
        // What it starts is ended with it.
        let command = command
            .process_group(0)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut child = command.spawn().map_err(|error| not_started(word, error))?;
        let log = || output.log.as_ref().map(File::try_clone).transpose();
        let logs = [log(), log()].map(|log| log.context("cannot copy a descriptor"));
        let [log_stdout, log_stderr] = logs;
        let mut printers = Vec::new();
        if let Some(from) = child.stdout.take() {
            let (log, to_stderr) = (log_stdout?, output.to_stderr);
            printers.push(std::thread::spawn(move || match to_stderr {
                false => copy_lines(name, from, io::stdout, log),
                true => copy_lines(name, from, io::stderr, log),
            }));
        }
        if let Some(from) = child.stderr.take() {
            let log = log_stderr?;
            printers.push(std::thread::spawn(move || {
                copy_lines(name, from, io::stderr, log);
            }));
        }
        Ok(Self {
            name,
            child,
            begin: Instant::now(),
            status: None,
            killed: false,
            printers,
        })
    }

    pub fn name(&self) -> &'static str {
        self.name
    }

    /// Its exit code, once it has ended; 128 + N for signal N.
    pub fn exit_code(&mut self, now: Instant) -> Result<Option<u8>> {
        if self.status.is_none() {
            let status = self.child.try_wait().context("cannot wait for a program")?;
            self.status = status.map(|status| (status, now));
        }
        Ok(self.status.map(|(status, _)| exit_code(status)))
    }

    /// It was seen to have ended.
    pub fn has_ended(&self) -> bool {
        self.status.is_some()
    }

    /// Ends it at once, and what it has started, if it has not ended.
    pub fn kill(&mut self) {
        if self.status.is_none() {
            self.killed = true;
            // It fails only where none is left.
            let _ = killpg(Pid::from_raw(self.child.id() as i32), Signal::SIGKILL);
        }
    }

    /// Ends it and waits for that. Its exit code, how long it ran, when it was seen to have ended, and whether it was
    /// killed.
    pub fn finish(&mut self) -> Result<(u8, Duration, Instant, bool)> {
        self.kill();
        let (status, at) = match self.status {
            Some(ended) => ended,
            None => (
                self.child.wait().context("cannot wait for a program")?,
                Instant::now(),
            ),
        };
        self.status = Some((status, at));
        Ok((exit_code(status), at.duration_since(self.begin), at, self.killed))
    }

    /// Does it, or a program that it has started, listen for connections: of TCP, or by our connection manager?
    pub fn listens(&self) -> bool {
        let pids = with_children(self.child.id());
        pids.into_iter().any(|pid| listens(pid) || listens_by_cm(pid))
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

fn copy_lines<W: Write>(name: &str, from: impl Read, to: impl Fn() -> W, mut log: Option<File>) {
    let mut lines = BufReader::new(from);
    let mut line = format!("{name}: ").into_bytes();
    let prefix = line.len();
    // One write per line, so that lines of two programs do not mix.
    while lines.read_until(b'\n', &mut line).is_ok_and(|len| len > 0) {
        if line.last() != Some(&b'\n') {
            line.push(b'\n');
        }
        // A reader that has gone away must not stop the program, nor a full disk.
        let _ = to().write_all(&line);
        let _ = log.as_mut().map(|log| log.write_all(&line[prefix..]));
        line.truncate(prefix);
    }
}

/// Has the process said by an open file, as our librdmacm does, that somebody can connect?
fn listens_by_cm(pid: u32) -> bool {
    let Ok(files) = fs::read_dir(format!("/proc/{pid}/fd")) else {
        return false;
    };
    let paths = files.flatten().filter_map(|file| fs::read_link(file.path()).ok());
    paths.into_iter().any(|path| {
        let name = path
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        name.ends_with("-listening") && path.parent().is_some_and(|folder| folder.ends_with("rdmacm"))
    })
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

/// From now on processes whose parents end become children of this one: programs put parts of themselves into sessions
/// of their own, which no signal to a process group reaches.
pub fn adopt_orphans() -> Result<()> {
    prctl::set_child_subreaper(true).context("cannot adopt what programs leave behind")
}

/// Ends everything that descends from this process, at once. Their output ends with them.
pub fn end_descendants() {
    let own = std::process::id();
    loop {
        let family = with_children(own);
        let mut alive = family.into_iter().filter(|pid| *pid != own).peekable();
        if alive.peek().is_none() {
            return;
        }
        // One that has ended by itself is as good; what it has started meanwhile is found in the next turn.
        alive.for_each(|pid| {
            let _ = kill(Pid::from_raw(pid as i32), Signal::SIGKILL);
        });
        std::thread::yield_now();
    }
}

/// A process and all that descend from it, but those that have ended.
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
    let mut fields = stat.rsplit_once(')')?.1.split_ascii_whitespace();
    let state = fields.next()?;
    fields
        .next()?
        .parse()
        .ok()
        .filter(|_| !matches!(state, "Z" | "X"))
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
