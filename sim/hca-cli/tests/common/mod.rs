//! Simulators in other processes, and what programs say.
#![allow(dead_code)]

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

/// The program.
pub const HCA: &str = env!("CARGO_BIN_EXE_hca");

/// Runs a program with the simulator's folder in its environment.
pub fn run(program: &Path, folder: &Path, arguments: &[&str]) -> Output {
    Command::new(program)
        .env("HCA_SIM", folder)
        .args(arguments)
        .output()
        .unwrap()
}

/// What a program printed.
pub fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// A refusal: exit code 2, and one line that says the words.
#[track_caller]
pub fn refused(output: &Output, words: &[&str]) {
    refused_with(2, output, words);
}

/// The same with another exit code.
#[track_caller]
pub fn refused_with(code: i32, output: &Output, words: &[&str]) {
    let stderr = text(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{stderr}");
    assert!(
        !stderr.contains("panicked") && stderr.lines().count() == 1,
        "{stderr}"
    );
    for word in words {
        assert!(stderr.contains(word), "should say '{word}': {stderr}");
    }
}

/// A copy of hca with a file beside it that has the C library's name: the programs here do not use it.
pub fn with_library(home: &Path) -> PathBuf {
    let program = home.join("hca");
    fs::copy(HCA, &program).unwrap();
    // What the loader accepts: it is preloaded.
    let library = home.join("libibverbs.so");
    let mut compile = Command::new("cc");
    compile
        .args(["-shared", "-x", "c", "/dev/null", "-o"])
        .arg(library);
    assert!(compile.status().unwrap().success());
    program
}

/// A running `hca sim`.
pub struct Simulator(Child);

impl Simulator {
    /// Returns when its sockets are there.
    pub fn start(folder: &Path, arguments: &[&str]) -> Self {
        let mut child = Command::new(HCA)
            .arg("sim")
            .args(arguments)
            .arg("--dir")
            .arg(folder)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.as_mut().unwrap())
            .read_line(&mut line)
            .unwrap();
        assert!(line.contains(folder.to_str().unwrap()), "{line}");
        Self(child)
    }

    /// As Ctrl-C does, or a service manager.
    pub fn stop(mut self, signal: &str) -> String {
        let id = self.0.id().to_string();
        assert!(
            Command::new("kill")
                .args(["-s", signal, &id])
                .status()
                .unwrap()
                .success()
        );
        let mut rest = String::new();
        self.0.stdout.take().unwrap().read_to_string(&mut rest).unwrap();
        assert_eq!(self.0.wait().unwrap().code(), Some(0));
        rest
    }
}

impl Drop for Simulator {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
