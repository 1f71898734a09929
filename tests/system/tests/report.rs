//! What `hca run --report` says, against what the programs know: a simulator with meters, and drivers behind its
//! sockets.

use hca_cosim::{CardConfig, Design, Fabric, Observer, SentPacket, Server, StopHandle};
use hca_host::{IommuMap, SharedWrite};
use hca_link::{CableConfig, FaultSpec, LinkKind};
use hca_meter::{Meters, QpReport};
use hca_system_tests::{Place, Rig, RigConfig, identity, path};
use hca_verbs::{
    Access, Context, Cq, CqOptions, Mr, Mtu, OpenOptions, Pd, QpOptions, RawQp, RecvWr, SendFlags, SendOp,
    SendWr, WcStatus, WorkCompletion, WrData, connect_raw, peer_info,
};
use hca_vfio_user::VfioUserDevice;
use std::ops::Range;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::channel;
use std::thread::JoinHandle;

type Dev = Rc<VfioUserDevice>;

/// Nothing here takes so long, whatever else the processor has to do.
const PATIENCE_NS: u64 = 60_000_000_000;
const BUFFER_BYTES: usize = 1 << 18;

/// A meter, and how often it is told of packets.
struct Counted {
    meter: Box<dyn Observer>,
    tellings: Arc<AtomicU64>,
}

impl Observer for Counted {
    fn register_written(&mut self, now_ns: u64, bytes: Range<u16>, value: u64, memory: &IommuMap) {
        self.meter.register_written(now_ns, bytes, value, memory);
    }

    fn ring_written(&mut self, now_ns: u64, write: &SharedWrite, memory: &IommuMap) {
        self.meter.ring_written(now_ns, write, memory);
    }

    fn packet_sent(&mut self, now_ns: u64, packet: &SentPacket) {
        self.tellings.fetch_add(1, Ordering::Relaxed);
        self.meter.packet_sent(now_ns, packet);
    }
}

struct Simulator {
    meters: Meters,
    /// How often meters have been told of packets.
    tellings: Arc<AtomicU64>,
    stop: StopHandle,
    thread: JoinHandle<()>,
    folder: tempfile::TempDir,
}

impl Simulator {
    fn start(link: LinkKind, faults: &str) -> Self {
        Self::start_of(Design::chosen(), link, faults)
    }

    fn start_of(design: Design, link: LinkKind, faults: &str) -> Self {
        let (meters, tellings) = (Meters::default(), Arc::new(AtomicU64::new(0)));
        let folder = tempfile::tempdir().unwrap();
        let (path, theirs, counter) = (folder.path().to_owned(), meters.clone(), tellings.clone());
        let faults: FaultSpec = faults.parse().unwrap();
        let (started, start) = channel();
        let thread = std::thread::spawn(move || {
            design.choose();
            let mut fabric = Fabric::new(1);
            let cards = [0, 1].map(|index| {
                let config = CardConfig::core(&format!("card{index}"), identity(index, link));
                fabric.add_card(config).unwrap()
            });
            let cable = CableConfig {
                faults,
                ..CableConfig::new("link0", link)
            };
            fabric.connect(cards[0], cards[1], cable).unwrap();
            let mut server = Server::new(fabric);
            let mut observers = theirs.observers();
            server.observe(Box::new(move |session| {
                Box::new(Counted {
                    meter: observers(session),
                    tellings: counter.clone(),
                })
            }));
            for (index, card) in cards.into_iter().enumerate() {
                server
                    .serve(card, 0, &path.join(format!("card{index}.0")))
                    .unwrap();
            }
            started.send(server.stop_handle()).unwrap();
            server.run();
        });
        Self {
            meters,
            tellings,
            stop: start.recv().unwrap(),
            thread,
            folder,
        }
    }

    fn ends(&self) -> [End; 2] {
        let mut ends = [0, 1].map(|index| End::open(&self.folder.path().join(format!("card{index}.0"))));
        let options = path(Mtu::Bytes1024);
        let infos = ends
            .each_ref()
            .map(|end| peer_info(&end.qp, &options, 0).unwrap());
        connect_raw(&mut ends[0].qp, &options, 0, &infos[1]).unwrap();
        connect_raw(&mut ends[1].qp, &options, 0, &infos[0]).unwrap();
        ends
    }

    /// Both ends' figures, if they have any. The simulation has stopped by then.
    fn finish(self) -> [Option<QpReport>; 2] {
        self.stop.stop();
        self.thread.join().unwrap();
        let mut sessions = self.meters.report(None).sessions;
        sessions.sort_by(|a, b| a.card.cmp(&b.card));
        let report = |index: usize| {
            let session = &sessions[index];
            assert_eq!(session.pid, std::process::id() as i32);
            assert_eq!(session.qps.len() as u64 + session.idle_qps, 1);
            session.qps.first().cloned()
        };
        [report(0), report(1)]
    }
}

/// A driver with a connected QP.
struct End {
    context: Context<Dev>,
    _pd: Pd<Dev>,
    cq: Cq<Dev>,
    mr: Mr<Dev>,
    qp: RawQp<Dev>,
}

impl End {
    fn open(socket: &std::path::Path) -> Self {
        let dev = Rc::new(VfioUserDevice::connect(socket).unwrap());
        let options = OpenOptions {
            ready_timeout_ns: PATIENCE_NS,
            command_timeout_ns: PATIENCE_NS,
            ..OpenOptions::default()
        };
        let context = Context::open_with(dev.clone(), &options).unwrap();
        let pd = context.alloc_pd().unwrap();
        let cq = context.create_cq(&CqOptions::new(256)).unwrap();
        let qp = pd.create_raw_qp(&QpOptions::new(&cq, &cq)).unwrap();
        let buf = hca_dev::Device::alloc_dma(&*dev, BUFFER_BYTES).unwrap();
        let access = Access::LOCAL_WRITE | Access::REMOTE_WRITE | Access::REMOTE_READ;
        let mr = pd.reg_mr(&buf, access).unwrap();
        Self {
            context,
            _pd: pd,
            cq,
            mr,
            qp,
        }
    }

    fn recv(&mut self, bytes: u32) {
        let sges = [self.mr.sge(0, bytes)];
        self.qp
            .post_recv(&[RecvWr {
                wr_id: 0,
                sges: &sges,
            }])
            .unwrap();
    }

    fn post(&mut self, op: SendOp, bytes: u32, signaled: bool) {
        let sges = [self.mr.sge(0, bytes)];
        let wr = SendWr {
            wr_id: 0,
            op,
            flags: SendFlags {
                signaled,
                ..SendFlags::default()
            },
            data: WrData::Sges(&sges),
        };
        self.qp.post_send(&[wr]).unwrap();
    }

    fn wait(&self, count: usize) -> Vec<WcStatus> {
        let mut wc = vec![WorkCompletion::default(); count];
        let deadline_ns = hca_dev::Device::now_ns(self.context.device()) + PATIENCE_NS;
        self.cq.poll_all(&mut wc, deadline_ns).unwrap();
        wc.iter().map(|wc| wc.status).collect()
    }
}

fn write_to(end: &End) -> SendOp {
    SendOp::RdmaWrite {
        remote_addr: end.mr.addr(),
        rkey: end.mr.rkey(),
    }
}

#[test]
fn messages_bytes_and_errors_are_those_of_the_program() {
    let simulator = Simulator::start(LinkKind::Ethernet, "");
    let [mut a, mut b] = simulator.ends();
    for _ in 0..20 {
        b.recv(4096);
        a.post(SendOp::Send, 1500, true);
    }
    assert!(a.wait(20).iter().all(|status| *status == WcStatus::Success));
    let write = write_to(&b);
    (0..10).for_each(|_| a.post(write, 3000, false));
    a.post(write, 3000, true);
    a.wait(1);
    let read = SendOp::RdmaRead {
        remote_addr: b.mr.addr(),
        rkey: b.mr.rkey(),
    };
    a.post(read, 5000, true);
    a.wait(1);
    // Refused by the peer, and what is behind it flushed.
    let wrong = SendOp::RdmaWrite {
        remote_addr: b.mr.addr(),
        rkey: b.mr.rkey() ^ 0x5500,
    };
    a.post(wrong, 100, true);
    assert_eq!(a.wait(1), [WcStatus::RemAccessErr]);
    a.post(write, 100, true);
    assert_eq!(a.wait(1), [WcStatus::WrFlushErr]);
    b.wait(20);
    let numbers = (a.qp.qp_num(), b.qp.qp_num());
    drop((a, b));

    let [a, b] = simulator.finish().map(Option::unwrap);
    assert_eq!((a.qp_num, a.peer_qp_num), (numbers.0, Some(numbers.1)));
    let sent = 20 + 11 + 1;
    let bytes = 20 * 1500 + 11 * 3000 + 5000;
    assert_eq!((a.sent.messages, a.sent.bytes, a.sent.errors), (sent, bytes, 2));
    assert_eq!((a.received.messages, a.received.errors), (0, 0));
    let latency = a.latency.unwrap();
    assert_eq!(latency.samples, 22, "signalled and successful ones");
    assert!(latency.min_ns > 1000 && latency.min_ns <= latency.p50_ns && latency.p99_ns <= latency.max_ns);
    // Of MTU 1024: two packets each, three each, a READ request, and the wrong one.
    assert_eq!((a.packets, a.retransmitted_packets), (20 * 2 + 11 * 3 + 1 + 1, 0));
    let rate = a.sent.bytes as f64 * 1e9 / a.sent.time_ns as f64;
    assert_eq!(a.sent.bytes_per_s, rate);
    assert_eq!((b.received.messages, b.received.bytes), (20, 20 * 1500));
    assert_eq!((b.sent.messages, b.latency, b.packets), (0, None, 0));
}

/// On fast cards packets of a message travel together, also where they are counted.
#[test]
fn packets_that_travel_as_one_are_counted_each() {
    let simulator = Simulator::start_of(Design::Model, LinkKind::Ethernet, "");
    let tellings = simulator.tellings.clone();
    let [mut a, mut b] = simulator.ends();
    let write = write_to(&b);
    for _ in 0..5 {
        b.recv(4096);
        (0..4).for_each(|_| a.post(write, 200_000, true));
        a.post(SendOp::Send, 3000, true);
        assert_eq!(a.wait(5), [WcStatus::Success; 5]);
    }
    let read = SendOp::RdmaRead {
        remote_addr: b.mr.addr(),
        rkey: b.mr.rkey(),
    };
    a.post(read, 200_000, true);
    a.wait(1);
    let counters = a.context.query_counters(1).unwrap();
    drop((a, b));
    let [a, b] = simulator.finish().map(Option::unwrap);
    // Of MTU 1024: 196 packets each, three each, and a READ request.
    let packets = 20 * 196 + 5 * 3 + 1;
    assert_eq!((a.packets, counters.tx_packets()), (packets, packets));
    assert_eq!((a.retransmitted_packets, a.restarts), (0, 0));
    assert_eq!((a.sent.messages, a.sent.bytes), (26, 21 * 200_000 + 5 * 3000));
    assert_eq!((b.received.messages, b.packets), (5, 0));
    let tellings = tellings.load(Ordering::Relaxed);
    assert!(
        tellings < packets / 5,
        "{tellings} tellings of {packets} packets: each for itself"
    );
}

/// What is not the first copy of a packet is a retransmission; the card counts what it sends.
#[test]
fn retransmissions_are_told_from_first_copies() {
    for link in [LinkKind::Ethernet, LinkKind::InfiniBand] {
        let simulator = Simulator::start(link, "loss=0.03");
        let [mut a, mut b] = simulator.ends();
        let write = write_to(&b);
        for _ in 0..40 {
            a.post(write, 20_000, true);
            b.recv(1000);
        }
        assert!(a.wait(40).iter().all(|status| *status == WcStatus::Success));
        for _ in 0..30 {
            a.post(SendOp::Send, 900, true);
        }
        assert!(a.wait(30).iter().all(|status| *status == WcStatus::Success));
        let counters = a.context.query_counters(1).unwrap();
        drop((a, b));
        let [a, b] = simulator.finish().map(Option::unwrap);
        assert_eq!(
            a.packets,
            counters.tx_packets(),
            "{link:?}: this end sends nothing but requests"
        );
        assert_eq!(a.packets - a.retransmitted_packets, 40 * 20 + 30, "{link:?}");
        assert!(a.retransmitted_packets > 0, "nothing was lost");
        println!(
            "{} restarts, {} rewinds",
            a.restarts,
            counters.retransmitted_packets()
        );
        assert_eq!((b.packets, b.retransmitted_packets), (0, 0));
        assert_eq!((a.sent.messages, b.received.messages), (70, 30));
    }
}

/// Post to completion of an isolated WRITE, in this thread's simulation, without any socket.
fn latency_in_process() -> u64 {
    let config = RigConfig {
        switches: 0, // the simulator's cards are joined by a cable
        ..RigConfig::new(1, LinkKind::Ethernet)
    };
    let rig = Rig::new(&config).unwrap();
    let cap = hca_verbs::QpCap::default();
    let mut qps = rig.connect([cap; 2], [false; 2], &path(Mtu::Bytes1024)).unwrap();
    let access = Access::LOCAL_WRITE | Access::REMOTE_WRITE;
    let regions = rig.nodes.each_ref().map(|node| {
        let buf = node.alloc(4096).unwrap();
        node.register(&buf, Place::whole(&buf, access, 1 << 44)).unwrap()
    });
    let sges = [regions[0].sge(0, 64)];
    let wr = SendWr {
        wr_id: 0,
        op: SendOp::RdmaWrite {
            remote_addr: regions[1].addr(),
            rkey: regions[1].rkey(),
        },
        flags: SendFlags::SIGNALED,
        data: WrData::Sges(&sges),
    };
    let mut last_ns = 0;
    for _ in 0..4 {
        let start_ns = rig.now_ns();
        qps[0].post_send(&[wr]).unwrap();
        while rig.nodes[0].poll().unwrap().is_none() {}
        last_ns = rig.now_ns() - start_ns;
    }
    last_ns
}

#[test]
fn latency_is_simulated_time() {
    let simulator = Simulator::start(LinkKind::Ethernet, "");
    let [mut a, b] = simulator.ends();
    let write = write_to(&b);
    for _ in 0..10 {
        a.post(write, 64, true);
        a.wait(1);
    }
    drop((a, b));
    let latency = simulator.finish()[0].as_ref().unwrap().latency.unwrap();
    let expected_ns = latency_in_process();
    for found_ns in [latency.min_ns, latency.p50_ns] {
        let off_ns = found_ns.abs_diff(expected_ns);
        assert!(
            off_ns * 20 < expected_ns,
            "{found_ns} ns, in-process {expected_ns} ns"
        );
    }
}
