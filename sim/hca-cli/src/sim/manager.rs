//! OpenSM as a part of a simulator: unmodified, as a program on card 0.

use anyhow::{Context as _, Result, bail};
use std::ffi::OsString;
use std::fs;
use std::io::IsTerminal as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::folder::Folder;
use crate::place;

/// Its folder in the simulator's, and its log there.
const FOLDER: &str = "opensm";
const LOG: &str = "opensm.log";
/// What the log says once every port is up.
const UP: &str = "SUBNET UP";
/// Time between two looks at the log, and between two words of progress.
const LOOK: Duration = Duration::from_millis(50);
const PROGRESS: Duration = Duration::from_secs(2);

/// OpenSM under way; it ends when this is dropped.
pub struct OpenSm {
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl OpenSm {
    /// Starts it, with these arguments beside ours. It waits for the simulator to run.
    pub fn start(folder: &Folder, arguments: &[OsString]) -> Result<Self> {
        let own = folder.path().join(FOLDER);
        fs::create_dir_all(&own).with_context(|| format!("cannot make folder {}", own.display()))?;
        let log = own.join(LOG);
        if let Err(error) = fs::remove_file(&log)
            && error.kind() != std::io::ErrorKind::NotFound
        {
            bail!("cannot remove {}: {error}", log.display());
        }
        let child = Command::new(place::program()?)
            .args(["run", "--card", "0", "--dir"])
            .arg(folder.path())
            // Whoever looks at the log sees all that is in it.
            .args(["--", "opensm", "-d", "2", "-f"])
            .arg(&log)
            .args(arguments)
            // What it remembers of a fabric is of this one alone.
            .env("OSM_CACHE_DIR", &own)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn()
            .context("cannot start hca run")?;
        let (stop, stopped) = channel();
        let thread = std::thread::spawn(move || watch(child, &log, |wait| stopped.recv_timeout(wait)));
        Ok(Self {
            stop: Some(stop),
            thread: Some(thread),
        })
    }
}

impl Drop for OpenSm {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // It only watches: there is nothing of it to lose.
            let _ = thread.join();
        }
    }
}

/// Tells on standard error when the subnet is up, and when OpenSM has ended by itself.
fn watch(mut child: Child, log: &Path, sleep: impl Fn(Duration) -> Result<(), RecvTimeoutError>) {
    let start = Instant::now();
    let (mut is_up, mut told) = (false, start);
    while sleep(LOOK) == Err(RecvTimeoutError::Timeout) {
        if let Ok(Some(status)) = child.try_wait() {
            eprintln!("hca: opensm has ended ({status}); its log is {}", log.display());
            return;
        }
        if !is_up && says_up(log) {
            is_up = true;
            eprintln!("hca: opensm: {UP} after {:.1} s", start.elapsed().as_secs_f64());
        }
        if !is_up && told.elapsed() > PROGRESS && std::io::stderr().is_terminal() {
            told = Instant::now();
            eprintln!(
                "hca: opensm sets the ports up ({:.0} s)",
                start.elapsed().as_secs_f64()
            );
        }
    }
    // One that has ended meanwhile is as good as killed.
    let _ = child.kill();
    let _ = child.wait();
}

fn says_up(log: &Path) -> bool {
    fs::read_to_string(log).is_ok_and(|text| text.contains(UP))
}
