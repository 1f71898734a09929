//! Two simulators joined by a wire, each in a process of its own; this process has a card of either.

use std::io::{Read as _, Write as _};
use std::net::UdpSocket;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::rc::Rc;
use std::time::{Duration, Instant};

use hca_dev::{Device as _, DmaBuf};
use hca_verbs::{
    Access, ConnectOptions, Context, Cq, CqOptions, Mr, OpenOptions, Pd, PeerInfo, QpOptions, RawQp, RecvWr,
    SendFlags, SendOp, SendWr, WcStatus, WorkCompletion, WrData, connect_raw, gid_of_ipv4, peer_info,
};
use hca_vfio_user::VfioUserDevice;

mod common;
use common::{HCA, Simulator, refused, run, text};

const PATIENCE_NS: u64 = 60_000_000_000;
const BYTES: usize = 40_000;

type Dev = Rc<VfioUserDevice>;

struct End {
    dev: Dev,
    cq: Cq<Dev>,
    qp: RawQp<Dev>,
    buf: DmaBuf,
    mr: Mr<Dev>,
    _context: Context<Dev>,
    _pd: Pd<Dev>,
}

impl End {
    fn open(socket: &Path) -> Self {
        let dev = Rc::new(VfioUserDevice::connect(socket).unwrap());
        let options = OpenOptions {
            ready_timeout_ns: PATIENCE_NS,
            command_timeout_ns: PATIENCE_NS,
            ..OpenOptions::default()
        };
        let context = Context::open_with(dev.clone(), &options).unwrap();
        let pd = context.alloc_pd().unwrap();
        let cq = context.create_cq(&CqOptions::new(64)).unwrap();
        let qp = pd.create_raw_qp(&QpOptions::new(&cq, &cq)).unwrap();
        let buf = dev.alloc_dma(4 * BYTES).unwrap();
        let access = Access::LOCAL_WRITE | Access::REMOTE_WRITE | Access::REMOTE_READ;
        let mr = pd.reg_mr(&buf, access).unwrap();
        Self {
            dev,
            cq,
            qp,
            buf,
            mr,
            _context: context,
            _pd: pd,
        }
    }

    fn connect(&mut self, options: &ConnectOptions, peer: &PeerInfo) {
        // The MAC address is found by the network.
        let peer = PeerInfo { mac: [0; 6], ..*peer };
        connect_raw(&mut self.qp, options, 0, &peer).unwrap();
    }

    fn post(&mut self, op: SendOp, offset: usize) {
        let sges = [self.mr.sge(offset as u64, BYTES as u32)];
        let wr = SendWr {
            wr_id: 1,
            op,
            flags: SendFlags::SIGNALED,
            data: WrData::Sges(&sges),
        };
        self.qp.post_send(&[wr]).unwrap();
    }

    fn wait(&self) {
        self.wait_for(WcStatus::Success);
    }

    fn wait_for(&self, status: WcStatus) {
        let mut wc = [WorkCompletion::default()];
        self.cq
            .poll_all(&mut wc, self.dev.now_ns() + PATIENCE_NS)
            .unwrap();
        assert_eq!(wc[0].status, status);
    }

    fn bytes(&self, part: usize) -> Vec<u8> {
        let mut bytes = vec![0; BYTES];
        self.buf.read_bytes(part * BYTES, &mut bytes);
        bytes
    }
}

/// SEND, WRITE and READ in both directions.
fn transfer(sockets: [PathBuf; 2], gid_index: u8) {
    let mut ends = sockets.map(|socket| End::open(&socket));
    let options = ConnectOptions {
        gid_index: Some(gid_index),
        psns: (0, 0),
        timeout: 18,
        ..ConnectOptions::default()
    };
    let infos = [0, 1].map(|at: usize| peer_info(&ends[at].qp, &options, 0).unwrap());
    let remotes = [0, 1].map(|at: usize| (ends[at].mr.addr(), ends[at].mr.rkey()));
    for at in [0, 1] {
        ends[at].connect(&options, &infos[1 - at]);
        let bytes: Vec<u8> = (0..BYTES).map(|i| (i * (at + 3) / 7) as u8).collect();
        ends[at].buf.write_bytes(0, &bytes);
    }
    for at in [0, 1] {
        let (addr, rkey) = remotes[1 - at];
        let own = ends[at].bytes(0);
        let sges = [ends[1 - at].mr.sge(BYTES as u64, BYTES as u32)];
        ends[1 - at]
            .qp
            .post_recv(&[RecvWr {
                wr_id: 2,
                sges: &sges,
            }])
            .unwrap();
        ends[at].post(SendOp::Send, 0);
        ends[at].wait();
        ends[1 - at].wait();
        assert!(ends[1 - at].bytes(1) == own, "SEND");
        let remote_addr = addr + 2 * BYTES as u64;
        ends[at].post(SendOp::RdmaWrite { remote_addr, rkey }, 0);
        ends[at].wait();
        assert!(ends[1 - at].bytes(2) == own, "WRITE");
        let remote_addr = addr;
        ends[at].post(SendOp::RdmaRead { remote_addr, rkey }, 3 * BYTES);
        ends[at].wait();
        assert!(ends[at].bytes(3) == ends[1 - at].bytes(0), "READ");
    }
}

fn free_ports() -> [u16; 2] {
    [0, 1]
        .map(|_| UdpSocket::bind("127.0.0.1:0").unwrap())
        .map(|socket| socket.local_addr().unwrap().port())
}

/// What `--peer` says at either end, for a kind of wire.
fn wires(kind: &str, home: &Path) -> [String; 2] {
    let path = |name: &str| home.join(name).display().to_string();
    match kind {
        "unix" => [path("w"), format!("unix-connect:{}", path("w"))],
        "dgram" => [(path("a"), path("b")), (path("b"), path("a"))].map(|(a, b)| format!("dgram:{a},{b}")),
        _ => {
            let [a, b] = free_ports();
            [(a, b), (b, a)].map(|(a, b)| format!("udp:127.0.0.1:{a},127.0.0.1:{b}"))
        }
    }
}

/// Every kind of wire, over link-local, IPv4 and IPv6 GIDs; with losses, and what the captures hold.
#[test]
fn two_simulators_transfer() {
    for kind in ["unix", "dgram", "udp"] {
        for faults in ["", "loss=0.01,reorder=0.01"] {
            let home = tempfile::tempdir().unwrap();
            let [a, b] = wires(kind, home.path());
            let [folder_a, folder_b] = ["A", "B"].map(|name| home.path().join(name));
            let pcap = home.path().join("wire.pcap");
            let (peer_a, peer_b) = (format!("card0={a}"), format!("card1={b}"));
            let options = ["--faults", faults, "--pcap", pcap.to_str().unwrap()];
            let sim_a = Simulator::start(
                &folder_a,
                &[&["--cards", "1", "--peer", &peer_a], &options[..]].concat(),
            );
            let sim_b = Simulator::start(&folder_b, &["--peer", &peer_b]);
            for gid_index in 0..3 {
                transfer([folder_a.join("card0.0"), folder_b.join("card1.0")], gid_index);
            }
            let (said_a, said_b) = (sim_a.stop("TERM"), sim_b.stop("TERM"));
            for (said, port) in [(&said_a, "card0 to "), (&said_b, "card1 to ")] {
                assert!(said.contains(port) && said.contains("frames_in"), "{said}");
                assert!(!said.contains("dropped") && !said.contains("malformed"), "{said}");
            }
            let check = run(
                Path::new(HCA),
                &folder_a,
                &["pcap", "check", pcap.to_str().unwrap()],
            );
            assert!(
                check.status.success(),
                "{}{}",
                text(&check.stdout),
                text(&check.stderr)
            );
        }
    }
}

/// Nobody is there. The card is looked at once in 4 ms then, more than its time may run ahead of the wall clock at
/// once: time has to pass although nothing happens in it.
#[test]
fn a_peer_that_never_answers_is_given_up() {
    let home = tempfile::tempdir().unwrap();
    let (folder, wire) = (home.path().join("S"), home.path().join("wire"));
    let peer = format!("card0={}", wire.display());
    let neighbour = "card0=10.0.0.9,52:54:00:00:00:01";
    let simulator = Simulator::start(
        &folder,
        &["--cards", "1", "--peer", &peer, "--neighbour", neighbour],
    );
    let mut end = End::open(&folder.join("card0.0"));
    let options = ConnectOptions {
        gid_index: Some(1),
        timeout: 14,
        retry_cnt: 1,
        ..ConnectOptions::default()
    };
    let own = peer_info(&end.qp, &options, 0).unwrap();
    let gid = Some(gid_of_ipv4([10, 0, 0, 9]));
    end.connect(&options, &PeerInfo { gid, ..own });
    let begin = Instant::now();
    end.post(SendOp::Send, 0);
    end.wait_for(WcStatus::RetryExcErr);
    // Two time-outs of 67 ms, and not earlier than they say.
    assert!(
        begin.elapsed() >= Duration::from_millis(134),
        "{:?}",
        begin.elapsed()
    );
    drop(end);
    simulator.stop("TERM");
}

/// A TAP device of this machine, if there may be one: the kernel finds the card by IPv4 and IPv6.
#[test]
fn a_tap_device_finds_the_card() {
    let home = tempfile::tempdir().unwrap();
    let folder = home.path().join("S");
    let script = format!(
        "set -e; {HCA} sim --cards 1 --peer card0=tap:hcatest --dir {} & pid=$!; \
         until ip link show hcatest > /dev/null 2>&1; do kill -0 $pid; done; \
         ip addr add 10.0.0.9/24 dev hcatest; ip addr add fd00::9/64 dev hcatest nodad; ip link set hcatest up; \
         for a in 10.0.0.1 fd00::1; do echo > /dev/udp/$a/9; \
         until ip neigh show to $a | grep -q 02:00:0a:00:00:01; do kill -0 $pid; done; done; kill $pid; wait $pid",
        folder.display()
    );
    let in_network = |script: &str| {
        Command::new("unshare")
            .args(["-rn", "bash", "-c", script])
            .output()
    };
    let may = in_network("command -v ip && exec 3<>/dev/net/tun");
    if !may.is_ok_and(|output| output.status.success()) {
        return println!("skipped: no network namespace with a TAP device can be had here, or no program ip");
    }
    let output = in_network(&script).unwrap();
    let said = text(&output.stdout);
    assert!(output.status.success(), "{said}{}", text(&output.stderr));
    assert!(said.contains("asked "), "{said}");
}

/// A peer that sends anything, floods, hangs up in the middle of a frame: the card next door does not mind.
#[test]
fn a_peer_may_do_anything() {
    let home = tempfile::tempdir().unwrap();
    let (folder, wire) = (home.path().join("S"), home.path().join("wire"));
    let peer = format!("card0={}", wire.display());
    let simulator = Simulator::start(&folder, &["--cards", "3", "--peer", &peer]);
    let own = [2, 0, 10, 0, 0, 1];
    let mut roce = vec![0; 4000];
    roce[..6].copy_from_slice(&own);
    roce[6..12].copy_from_slice(&[2, 9, 9, 9, 9, 9]);
    roce[12..16].copy_from_slice(&[8, 0, 0x45, 0]);
    roce[16..18].copy_from_slice(&(4000u16 - 14).to_be_bytes());
    roce[22..24].copy_from_slice(&[64, 17]);
    roce[26..34].copy_from_slice(&[10, 0, 0, 9, 10, 0, 0, 1]);
    roce[36..38].copy_from_slice(&4791u16.to_be_bytes());
    roce[38..40].copy_from_slice(&(4000u16 - 34).to_be_bytes());
    let mut stream = UnixStream::connect(&wire).unwrap();
    stream.set_write_timeout(Some(Duration::from_secs(30))).unwrap();
    for len in [0, 13, 14, 60, 4000, 9000, 20_000] {
        let mut frame = roce.clone();
        frame.resize(len, 0xa5);
        stream.write_all(&(len as u32).to_be_bytes()).unwrap();
        stream.write_all(&frame).unwrap();
    }
    let framed = [&4000u32.to_be_bytes()[..], &roce].concat();
    for _ in 0..10_000 {
        stream.write_all(&framed).unwrap();
    }
    stream.write_all(&framed[..1000]).unwrap();
    drop(stream);
    let mut stream = UnixStream::connect(&wire).unwrap();
    stream.write_all(b"GET / HTTP/1.0\r\n\r\n").unwrap();
    let _ = stream.read(&mut [0]);
    // Card 2 has a loopback plug: its QP talks to itself.
    let mut end = End::open(&folder.join("card2.0"));
    let options = ConnectOptions::default();
    let info = peer_info(&end.qp, &options, 0).unwrap();
    end.connect(&options, &info);
    let (remote_addr, rkey) = (end.mr.addr() + BYTES as u64, end.mr.rkey());
    end.buf.write_bytes(0, &[7; BYTES]);
    end.post(SendOp::RdmaWrite { remote_addr, rkey }, 0);
    end.wait();
    assert_eq!(end.bytes(1), [7; BYTES]);
    drop(end);
    let output = run(Path::new(HCA), &folder, &["info", "--card", "0"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let said = simulator.stop("TERM");
    for word in ["runts 2", "oversized 1", "bad_streams 1", "connects 2"] {
        assert!(said.contains(word), "{word}: {said}");
    }
}

#[test]
fn what_cannot_be_is_refused() {
    let home = tempfile::tempdir().unwrap();
    let (folder, wire) = (
        home.path().join("S"),
        home.path().join("wire").display().to_string(),
    );
    let cases: [(&[&str], &[&str]); 6] = [
        (
            &["--link", "ib", "--peer", "card0=/x"],
            &["InfiniBand", "--link eth"],
        ),
        (&["--peer", "card7=/x"], &["card7", "card0, card1"]),
        (&["--peer", "card0.2=/x"], &["ports 1 to 1"]),
        (&["--peer", "card0=/x", "--peer", "card0=/y"], &["already"]),
        (
            &["--neighbour", "card0=10.0.0.9,52:54:00:00:00:01"],
            &["no wire", "--peer card0=PATH"],
        ),
        (
            &["--peer", "card0=/nowhere/at/all"],
            &["cannot open the wire", "unix:/nowhere/at/all"],
        ),
    ];
    for (arguments, words) in cases {
        let arguments = [&["sim", "--dir", folder.to_str().unwrap()], arguments].concat();
        refused(&run(Path::new(HCA), &folder, &arguments), words);
    }
    let peer = format!("card0={wire}");
    let _simulator = Simulator::start(&folder, &["--peer", &peer]);
    let other = home.path().join("T");
    let again = run(
        Path::new(HCA),
        &other,
        &["sim", "--dir", other.to_str().unwrap(), "--peer", &peer],
    );
    refused(&again, &["somebody else listens there"]);
}
