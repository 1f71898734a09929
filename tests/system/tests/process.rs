//! Process mode: clients in processes of their own, one for each function (D15). They come and go, also by SIGKILL.

use hca_cosim::{CardConfig, Fabric, NUM_FUNCS, Server, ServerStatus, SimError, StopHandle};
use hca_link::{CableConfig, LinkKind};
use hca_system_tests::{Rng, identity};
use hca_vfio_user::{Capabilities, Command as Message, Connection, encode_version};
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// Nothing here takes so long, whatever else the processor has to do.
const PATIENCE: Duration = Duration::from_secs(120);

/// Two cards on a cable, every function served from a thread.
struct Simulator {
    folder: TempDir,
    stop: StopHandle,
    status: Arc<ServerStatus>,
    thread: JoinHandle<()>,
}

impl Simulator {
    fn start(link: LinkKind) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().to_owned();
        let (sender, receiver) = channel();
        let thread = std::thread::spawn(move || {
            let mut fabric = Fabric::new(1);
            let cards = [0, 1].map(|index| {
                let name = format!("card{index}");
                fabric
                    .add_card(CardConfig::core(&name, identity(index, link)))
                    .unwrap()
            });
            fabric
                .connect(cards[0], cards[1], CableConfig::new("link0", link))
                .unwrap();
            let mut server = Server::new(fabric);
            for (index, card) in cards.into_iter().enumerate() {
                for func in 0..NUM_FUNCS {
                    server
                        .serve(card, func, &path.join(format!("card{index}.{func}")))
                        .unwrap();
                }
            }
            sender.send((server.stop_handle(), server.status())).unwrap();
            server.run();
            check_all_is_home(&mut server);
        });
        let (stop, status) = receiver.recv().unwrap();
        Self {
            folder,
            stop,
            status,
            thread,
        }
    }

    fn socket(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn client(&self, name: &str) -> Client {
        Client::start(self.socket(name))
    }

    /// Clients on two functions, connected with each other.
    fn pair(&self, names: [&str; 2]) -> [Client; 2] {
        let mut pair = names.map(|name| self.client(name));
        let infos = pair.each_ref().map(|client| client.info.clone());
        for (client, info) in pair.iter_mut().zip(infos.iter().rev()) {
            client.expect(&format!("connect {info}"), "connected");
        }
        pair
    }

    /// Waits until that many functions are taken: the server has noticed who is gone, and cleaned up behind it.
    fn wait_clients(&self, count: u64) {
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
    fn finish(self) {
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
fn check_all_is_home(server: &mut Server) {
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
        for func in 0..NUM_FUNCS {
            assert!(
                card.host().function(func).unwrap().is_empty(),
                "function {func} has mappings"
            );
        }
    }
}

/// An `hca-peer` process. It ends when this is dropped.
struct Client {
    child: Child,
    input: Option<ChildStdin>,
    lines: Receiver<String>,
    /// What the other end must know.
    info: String,
}

impl Client {
    fn start(socket: PathBuf) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_hca-peer"))
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

    fn tell(&mut self, command: &str) {
        writeln!(self.input.as_mut().unwrap(), "{command}").unwrap();
    }

    fn answer(&mut self) -> String {
        self.lines
            .recv_timeout(PATIENCE)
            .expect("an answer; see above for its reason if it has ended")
    }

    fn ask(&mut self, command: &str) -> String {
        self.tell(command);
        self.answer()
    }

    #[track_caller]
    fn expect(&mut self, command: &str, wanted: &str) {
        assert_eq!(self.ask(command), wanted, "{command}");
    }

    /// SIGKILL.
    fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// The end of its input: it closes everything and ends well.
    fn end(mut self) {
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
fn transfers(pair: &mut [Client; 2], len: u32) {
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

/// SYS-3, OP-1, OP-3, OP-5: what works in-process works between processes, on both links.
#[test]
fn basic_transfers() {
    for link in [LinkKind::Ethernet, LinkKind::InfiniBand] {
        let simulator = Simulator::start(link);
        let mut pair = simulator.pair(["card0.0", "card1.0"]);
        for len in [0, 1, 1023, 1024, 1025, 4096, 200_001] {
            transfers(&mut pair, len);
        }
        pair.into_iter().for_each(Client::end);
        simulator.finish();
    }
}

/// SYS-7: the killed client's objects and memory go, its peer ends in retry-exceeded, its function serves the next.
#[test]
fn a_client_killed_in_mid_transfer() {
    let simulator = Simulator::start(LinkKind::Ethernet);
    for operation in ["write", "read"] {
        // The responder is killed.
        let [mut requester, responder] = simulator.pair(["card0.0", "card1.0"]);
        requester.tell(&format!("flood {operation}"));
        assert_eq!(requester.answer(), "flooding");
        responder.kill();
        assert_eq!(requester.answer(), "RetryExcErr flushed 15", "{operation}");
        simulator.wait_clients(1);
        requester.end();
        simulator.wait_clients(0);

        // The requester is killed.
        let [responder, mut requester] = simulator.pair(["card0.0", "card1.0"]);
        requester.tell(&format!("flood {operation}"));
        assert_eq!(requester.answer(), "flooding");
        requester.kill();
        simulator.wait_clients(1);
        responder.end();
        simulator.wait_clients(0);
    }
    // Nothing of theirs is left: one client can have every QP of the card, and when it is killed, so can others.
    let mut greedy = simulator.client("card1.0");
    let qps = greedy.ask("qps");
    let numbers: Vec<u32> = qps.split(' ').filter_map(|word| word.parse().ok()).collect();
    assert!(numbers.len() == 2 && numbers[0] == numbers[1], "{qps}");
    greedy.kill();
    simulator.wait_clients(0);
    let mut pair = simulator.pair(["card0.0", "card1.0"]);
    transfers(&mut pair, 5000);
    pair.into_iter().for_each(Client::end);
    simulator.finish();
}

/// D15, KEY-31: processes on two functions of each card work side by side, and cannot reach each other's memory.
#[test]
fn two_clients_on_one_card() {
    let simulator = Simulator::start(LinkKind::Ethernet);
    let mut pairs = [["card0.0", "card1.0"], ["card0.1", "card1.1"]].map(|names| simulator.pair(names));
    let mut digests = Vec::new();
    for (seed, [a, b]) in pairs.iter_mut().enumerate() {
        a.expect(&format!("fill 0 65536 {seed}"), "filled");
        b.expect("fill 0 65536 77", "filled");
        digests.push(a.ask("digest 0 65536"));
    }
    assert_ne!(digests[0], digests[1]);
    pairs.iter_mut().for_each(|[a, _]| a.tell("burst 100"));
    for ([a, b], digest) in pairs.iter_mut().zip(&digests) {
        assert_eq!(a.answer(), "burst done");
        b.expect("digest 0 65536", digest);
    }

    // A connection between the third functions, with address and key of the first one's memory.
    let victim = &mut pairs[0][1];
    let stolen: Vec<&str> = victim.info.split(' ').skip(4).collect();
    let [mut thief, mut friend] = [simulator.client("card0.2"), simulator.client("card1.2")];
    let connection: Vec<&str> = friend.info.split(' ').take(4).collect();
    let connect = format!("connect {} {}", connection.join(" "), stolen.join(" "));
    thief.expect(&connect, "connected");
    let info = thief.info.clone();
    friend.expect(&format!("connect {info}"), "connected");
    let refusal = thief.ask("write 0 0 64");
    assert!(refusal.contains("RemAccessErr"), "{refusal}");
    victim.expect("digest 0 65536", &digests[0]);
    for client in pairs.into_iter().flatten().chain([thief, friend]) {
        client.end();
    }
    simulator.finish();
}

/// SYS-7: what comes in through a socket is not trusted, before the greeting and after it.
#[test]
fn garbage_on_a_socket_harms_nobody() {
    let simulator = Simulator::start(LinkKind::Ethernet);
    let mut pair = simulator.pair(["card0.0", "card1.0"]);
    let mut rng = Rng::new(1, "garbage");
    for name in ["card0.0", "card0.1"] {
        let mut noise = UnixStream::connect(simulator.socket(name)).unwrap();
        // The simulator hangs up when it has seen enough of it.
        let _ = noise.write_all(&rng.bytes(10_000));
    }
    for round in 0..40 {
        let stream = UnixStream::connect(simulator.socket("card0.1")).unwrap();
        let mut raw = stream.try_clone().unwrap();
        let mut connection = Connection::new(stream);
        let hello = encode_version(&Capabilities::default());
        connection
            .send_command(1, Message::Version, &hello, &[], true)
            .unwrap();
        let greeting = connection.receive().unwrap();
        assert_eq!(greeting.header.errno(), 0, "round {round}");
        // A known command with a payload that means nothing, then bytes that are no message at all.
        let commands = [
            Message::DmaMap,
            Message::DmaUnmap,
            Message::DeviceSetIrqs,
            Message::RegionRead,
            Message::RegionWrite,
            Message::DeviceGetRegionInfo,
        ];
        let payload = rng.bytes(round);
        connection
            .send_command(2, rng.pick(&commands), &payload, &[], true)
            .unwrap();
        // Refused or, where chance gave it a meaning, done; but answered.
        assert!(connection.receive().unwrap().header.is_reply(), "round {round}");
        let _ = raw.write_all(&rng.bytes(64));
        drop((raw, connection));
        simulator.wait_clients(2);
    }
    transfers(&mut pair, 3000);
    let late = simulator.client("card0.1");
    pair.into_iter().for_each(Client::end);
    late.end();
    simulator.finish();
}

fn serve_at(path: &Path) -> Result<Server, SimError> {
    let mut fabric = Fabric::new(1);
    let card = fabric.add_card(CardConfig::core("card0", identity(0, LinkKind::Ethernet)))?;
    let mut server = Server::new(fabric);
    server.serve(card, 0, path)?;
    Ok(server)
}

/// A socket in use is left alone and named; one that a killed simulator has left is taken over.
#[test]
fn occupied_and_stale_sockets() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("card0.0");
    let refusal = |path: &Path| serve_at(path).err().unwrap().to_string();

    let first = serve_at(&path).unwrap();
    let error = refusal(&path);
    assert!(
        error.contains("card0.0") && error.contains("another simulator"),
        "{error}"
    );
    assert!(path.exists());
    drop(first);
    assert!(!path.exists());

    drop(UnixListener::bind(&path).unwrap());
    assert!(path.exists(), "what a killed simulator leaves");
    drop(serve_at(&path).unwrap());

    std::fs::write(&path, "precious").unwrap();
    let error = refusal(&path);
    assert!(
        error.contains("card0.0") && error.contains("no socket"),
        "{error}"
    );
    assert_eq!(std::fs::read(&path).unwrap(), b"precious");

    let error = refusal(&folder.path().join("missing/card0.0"));
    assert!(error.contains("missing/card0.0"), "{error}");
}
