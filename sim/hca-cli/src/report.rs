//! The report of a running simulator, for `hca run --report`: a socket beside those of the cards. Whoever connects gets
//! what the processes that descend from it did, as JSON, and the end.

use anyhow::{Context as _, Result};
use hca_meter::{Meters, Report};
use hca_vfio_user::Connection;
use std::fs;
use std::io::{self, Read as _, Write as _};
use std::net::Shutdown;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::files::FileError;

/// Name of the socket in the simulator's folder.
const NAME: &str = "report";
/// How long a reader may take to read.
const PATIENCE: Duration = Duration::from_secs(5);

/// The socket of a simulator. Dropping it removes it.
pub struct Socket {
    path: PathBuf,
}

impl Socket {
    /// Answers from a thread until the process ends.
    pub fn serve(folder: &Path, meters: Meters) -> Result<Self> {
        let path = folder.join(NAME);
        let cannot =
            |error| FileError::from_display(format_args!("cannot listen at {}: {error}", path.display()));
        let listener = listen(&path).map_err(cannot)?;
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                // A reader that goes away has only itself to blame.
                let _ = stream.and_then(|stream| answer(stream, &meters));
            }
        });
        Ok(Self { path })
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        // A path that somebody else removed is as good as removed.
        let _ = fs::remove_file(&self.path);
    }
}

/// The cards' sockets in the same folder are ours, so that one which is there is a killed simulator's.
pub fn listen(path: &Path) -> io::Result<UnixListener> {
    match UnixListener::bind(path) {
        Err(error) if error.kind() == io::ErrorKind::AddrInUse => match UnixStream::connect(path) {
            Err(refused) if refused.kind() == io::ErrorKind::ConnectionRefused => {
                fs::remove_file(path)?;
                UnixListener::bind(path)
            }
            _ => Err(error),
        },
        result => result,
    }
}

fn answer(mut stream: UnixStream, meters: &Meters) -> io::Result<()> {
    let asker = Connection::new(stream.try_clone()?).peer_pid()?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let report = serde_json::to_vec(&meters.report(Some(asker)))?;
    stream.write_all(&report)?;
    stream.shutdown(Shutdown::Both)
}

/// What the processes that descend from this one did on the cards of a simulator.
pub fn ask(folder: &Path) -> Result<Report> {
    let path = folder.join(NAME);
    let mut stream = UnixStream::connect(&path)
        .with_context(|| format!("the simulator gives no report at {}", path.display()))?;
    let mut text = Vec::new();
    stream
        .read_to_end(&mut text)
        .context("the simulator's report broke off")?;
    serde_json::from_slice(&text).context("the simulator's report is not readable")
}
