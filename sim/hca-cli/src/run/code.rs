//! Exit codes of `hca run`, where it is not a program's own: those of `timeout`, `env` and other programs that start
//! others.

use std::io;

/// The simulator failed: a card broke a contract of its ports, or an assertion of the RTL.
pub const SIMULATOR_FAILED: u8 = 123;
/// `--timeout` was over.
pub const TIMED_OUT: u8 = 124;
/// What hca itself should have done, it could not.
pub const CANNOT: u8 = 125;
const NOT_EXECUTABLE: u8 = 126;
const NOT_FOUND: u8 = 127;
/// More by the number of the signal that ended a program.
pub const SIGNAL: u8 = 128;

/// For `hca help run`.
pub const HELP: &str = "Exit code:
  0        the program ended with 0; with --pair both did
  1 to 122 the program's own code; with --pair that of the end that failed first
  123      the simulator failed: a card broke, and hca says which and how
  124      --timeout was over
  125      hca could not do its part: wrong options, no simulator, no library
  126, 127 the program cannot be executed, is not there
  128 + N  the program was ended by signal N, or hca was
A program that uses the codes above 122 itself is told apart by --json.";

/// A program that could not be started.
#[derive(Debug)]
pub struct NotStarted {
    pub word: String,
    pub reason: io::Error,
}

impl std::fmt::Display for NotStarted {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "cannot run {}: {}", self.word, self.reason)
    }
}

impl std::error::Error for NotStarted {}

/// Of an error that ends `hca run`.
pub fn of(error: &anyhow::Error) -> u8 {
    match error.downcast_ref::<NotStarted>() {
        Some(NotStarted { reason, .. }) if reason.kind() == io::ErrorKind::NotFound => NOT_FOUND,
        Some(_) => NOT_EXECUTABLE,
        None => CANNOT,
    }
}
