//! Two cards in a thread, and clients of them in processes.

use hca_cosim::{CardConfig, Fabric, SHARING_FUNCS, Server, ServerStatus, StopHandle};
use hca_link::{CableConfig, LinkKind};
use hca_system_tests::identity;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// Nothing here takes so long, whatever else the processor has to do.
pub const PATIENCE: Duration = Duration::from_secs(120);

/// Two cards on a cable, every function served from a thread.
pub struct Simulator {
    folder: TempDir,
    stop: StopHandle,
    pub status: Arc<ServerStatus>,
    thread: JoinHandle<()>,
}

impl Simulator {
    pub fn start(link: LinkKind) -> Self {
        Self::start_with(link, |server| server.set_patience(PATIENCE))
    }

    /// A server with other settings.
    pub fn start_with(link: LinkKind, set_up: impl FnOnce(&mut Server) + Send + 'static) -> Self {
        Self::start_of(link, SHARING_FUNCS, set_up)
    }

    /// The same of cards with so many functions.
    pub fn start_of(
        link: LinkKind,
        functions: u8,
        set_up: impl FnOnce(&mut Server) + Send + 'static,
    ) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().to_owned();
        let (sender, receiver) = channel();
        let thread = std::thread::spawn(move || {
            let mut fabric = Fabric::new(1);
            let cards = [0, 1].map(|index| {
                let name = format!("card{index}");
                fabric
                    .add_card(CardConfig::with_shares(
                        &name,
                        &[identity(index, link)],
                        functions,
                        &[],
                    ))
                    .unwrap()
            });
            fabric
                .connect(cards[0], cards[1], CableConfig::new("link0", link))
                .unwrap();
            let mut server = Server::new(fabric);
            set_up(&mut server);
            for (index, card) in cards.into_iter().enumerate() {
                for func in 0..functions {
                    server
                        .serve(card, func, &path.join(format!("card{index}.{func}")))
                        .unwrap();
                }
            }
            sender.send((server.stop_handle(), server.status())).unwrap();
            server.run();
            check_all_is_home(&mut server, functions);
        });
        let (stop, status) = receiver.recv().unwrap();
        Self {
            folder,
            stop,
            status,
            thread,
        }
    }

    pub fn socket(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub fn client(&self, name: &str) -> Client {
        Client::start(self.socket(name), &[])
    }

    /// Clients on two functions, connected with each other.
    pub fn pair(&self, names: [&str; 2]) -> [Client; 2] {
        self.connect(names.map(|name| self.client(name)))
    }

    /// The same, of clients that share no memory with the simulator.
    pub fn couriers(&self, names: [&str; 2]) -> [Client; 2] {
        self.connect(names.map(|name| Client::start(self.socket(name), &["--courier"])))
    }

    fn connect(&self, mut pair: [Client; 2]) -> [Client; 2] {
        let infos = pair.each_ref().map(|client| client.info.clone());
        for (client, info) in pair.iter_mut().zip(infos.iter().rev()) {
            client.expect(&format!("connect {info}"), "connected");
        }
        pair
    }

    /// Waits until that many functions are taken: the server has noticed who is gone, and cleaned up behind it.
    pub fn wait_clients(&self, count: u64) {
        let start = Instant::now();
        while self.status.clients() != count {
            assert!(
                start.elapsed() < PATIENCE,
                "{} clients, not {count}",
                self.status.clients()
            );
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// All clients have ended: ends the simulator, which checks that nothing of theirs is left.
    pub fn finish(self) {
        self.wait_clients(0);
        self.stop.stop();
        self.thread.join().unwrap();
        assert_eq!(
            std::fs::read_dir(self.folder.path()).unwrap().count(),
            0,
            "sockets are removed"
        );
    }
}

/// No client is left: no memory of theirs is mapped, and no read of it is under way.
fn check_all_is_home(server: &mut Server, functions: u8) {
    let fabric = server.fabric();
    fabric.run(1_000_000);
    assert!(
        !fabric.is_active(),
        "a card still works for clients that are gone"
    );
    server.settle();
    let fabric = server.fabric();
    for card in fabric.cards() {
        let card = fabric.card_mut(card);
        assert_eq!(card.pcie().tags_used(), 0, "{}", card.name());
        assert_eq!(card.violations(), &[] as &[String]);
        for func in 0..functions {
            assert!(
                card.host().function(func).unwrap().is_empty(),
                "function {func} has mappings"
            );
        }
    }
}

/// An `hca-peer` process. It ends when this is dropped.
pub struct Client {
    child: Child,
    input: Option<ChildStdin>,
    lines: Receiver<String>,
    /// What the other end must know.
    pub info: String,
}

impl Client {
    pub fn start(socket: PathBuf, options: &[&str]) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_hca-peer"))
            .args(options)
            .arg(&socket)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let (sender, lines) = channel();
        let output = BufReader::new(child.stdout.take().unwrap());
        std::thread::spawn(move || {
            // It ends with the process, or with the test.
            for line in output.lines().map_while(Result::ok) {
                if sender.send(line).is_err() {
                    break;
                }
            }
        });
        let input = child.stdin.take();
        let mut client = Self {
            child,
            input,
            lines,
            info: String::new(),
        };
        let ready = client.answer();
        client.info = ready.strip_prefix("ready ").expect("its first line").to_owned();
        client
    }

    pub fn tell(&mut self, command: &str) {
        writeln!(self.input.as_mut().unwrap(), "{command}").unwrap();
    }

    pub fn answer(&mut self) -> String {
        self.lines
            .recv_timeout(PATIENCE)
            .expect("an answer; see above for its reason if it has ended")
    }

    pub fn ask(&mut self, command: &str) -> String {
        self.tell(command);
        self.answer()
    }

    #[track_caller]
    pub fn expect(&mut self, command: &str, wanted: &str) {
        assert_eq!(self.ask(command), wanted, "{command}");
    }

    /// SIGKILL.
    pub fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// The end of its input: it closes everything and ends well.
    pub fn end(mut self) {
        drop(self.input.take());
        assert!(self.child.wait().unwrap().success());
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// WRITE, READ and SEND of one size; the sources are at 0 and differ.
#[track_caller]
pub fn transfers(pair: &mut [Client; 2], len: u32) {
    const TARGETS: [u32; 2] = [256 << 10, 512 << 10];
    let [a, b] = pair;
    a.expect(&format!("fill 0 {len} {len}"), "filled");
    b.expect(&format!("fill 0 {len} {}", u64::from(len) + 1_000_000), "filled");
    let [source_a, source_b] = [&mut *a, &mut *b].map(|client| client.ask(&format!("digest 0 {len}")));
    assert!(source_a != source_b || len == 0);

    a.expect(
        &format!("write 0 {} {len}", TARGETS[0]),
        &format!("RdmaWrite Success {len}"),
    );
    b.expect(&format!("digest {} {len}", TARGETS[0]), &source_a);

    a.expect(
        &format!("read {} 0 {len}", TARGETS[0]),
        &format!("RdmaRead Success {len}"),
    );
    a.expect(&format!("digest {} {len}", TARGETS[0]), &source_b);

    b.expect(&format!("recv {} {len}", TARGETS[1]), "posted");
    a.expect(&format!("send 0 0 {len}"), &format!("Send Success {len}"));
    b.expect("wait", &format!("Recv Success {len}"));
    b.expect(&format!("digest {} {len}", TARGETS[1]), &source_a);
}

/// WRITE and READ between clients whose memory is so slow that only a completion of their own says what is there: a
/// receive follows the WRITE.
#[track_caller]
pub fn transfers_behind_a_receive(pair: &mut [Client; 2], len: u32) {
    let [a, b] = pair;
    a.expect(&format!("fill 0 {len} {len}"), "filled");
    let source = a.ask(&format!("digest 0 {len}"));
    b.expect("recv 0 0", "posted");
    a.expect(
        &format!("write 0 4096 {len}"),
        &format!("RdmaWrite Success {len}"),
    );
    a.expect("send 0 0 0", "Send Success 0");
    b.expect("wait", "Recv Success 0");
    b.expect(&format!("digest 4096 {len}"), &source);
    a.expect(
        &format!("read 65536 4096 {len}"),
        &format!("RdmaRead Success {len}"),
    );
    a.expect(&format!("digest 65536 {len}"), &source);
}
