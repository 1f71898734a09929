//! The simulator here, both programs in processes of their own.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::mpsc::channel;
use std::time::Instant;

use hca_cosim::{CardConfig, Fabric, Identity, SHARING_FUNCS, Server};
use hca_link::{CableConfig, LinkKind};

use crate::{Run, Traffic, processor_seconds};

fn identity(index: u8) -> Identity {
    hca_system_tests::identity(index, LinkKind::Ethernet)
}

fn server(folder: &Path) -> Server {
    let mut fabric = Fabric::new(1);
    let cards = [0, 1].map(|index| {
        let neighbours: Vec<_> = identity(1 - index).neighbours(1).collect();
        let name = format!("card{index}");
        let config = CardConfig::with_shares(&name, &[identity(index)], SHARING_FUNCS, &neighbours);
        fabric.add_card(config).expect("a card")
    });
    let cable = CableConfig::new("link0", LinkKind::Ethernet);
    fabric.connect(cards[0], cards[1], cable).expect("a cable");
    let mut server = Server::new(fabric);
    for (index, card) in cards.into_iter().enumerate() {
        let path = folder.join(format!("card{index}.0"));
        server.serve(card, 0, &path).expect("a socket");
    }
    server
}

/// A program under way, ended when this is dropped.
struct Program {
    child: Child,
    output: BufReader<ChildStdout>,
}

impl Program {
    fn start(folder: &Path, role: &str, traffic: Traffic) -> Self {
        let mut child = Command::new(std::env::current_exe().expect("our own path"))
            .args([role, traffic.name()])
            .env("HCA_SIM", folder)
            .env("HCA_CARD", role)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("a process");
        let output = BufReader::new(child.stdout.take().expect("a pipe"));
        Self { child, output }
    }

    fn hear(&mut self) -> String {
        let mut line = String::new();
        self.output.read_line(&mut line).expect("a pipe");
        assert!(!line.is_empty(), "the program has failed");
        line
    }

    fn say(&mut self, line: &str) {
        let input = self.child.stdin.as_mut().expect("a pipe");
        input.write_all(line.as_bytes()).expect("the program reads");
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub fn run(traffic: Traffic) -> Run {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().to_owned();
    let (started, start) = channel();
    let simulator = std::thread::spawn(move || {
        let mut server = server(&path);
        started
            .send((server.stop_handle(), server.status()))
            .expect("the parent waits");
        let before = (processor_seconds(), server.status().evaluated_cycles());
        server.run();
        let after = (processor_seconds(), server.status().evaluated_cycles());
        (after.0 - before.0, after.1 - before.1)
    });
    let (stop, status) = start.recv().expect("a simulator");
    let mut programs = ["0", "1"].map(|role| Program::start(folder.path(), role, traffic));
    let infos = programs.each_mut().map(Program::hear);
    programs[0].say(&infos[1]);
    programs[1].say(&infos[0]);
    programs
        .iter_mut()
        .for_each(|program| assert_eq!(program.hear(), "ready\n"));

    let (begin, before) = (Instant::now(), status.evaluated_cycles());
    programs.iter_mut().rev().for_each(|program| program.say("go\n"));
    assert_eq!(programs[0].hear(), "done\n");
    let (cycles, seconds) = (status.evaluated_cycles() - before, begin.elapsed().as_secs_f64());
    drop(programs);
    stop.stop();
    // Of the whole run: opening and closing are a small part of its cycles.
    let (processor, all_cycles) = simulator.join().expect("the simulator ends well");
    Run {
        cycles,
        seconds,
        processor_seconds: processor * cycles as f64 / all_cycles as f64,
    }
}
