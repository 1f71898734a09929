//! Receive side scaling on RTL (V-90 to V-95), and what rules do beside leading somewhere: DROP, TAG and counts.

use crate::common::CANARY_BYTES;
use crate::net::{ALL_MACS, Net, SLOT, TCP, UDP, frame, ipv4, ipv6, mac};
use hca_abi::rx_hash;
use hca_system_tests::{Dev, Node};
use hca_verbs::{
    EthFilter, EventKind, FlowAttr, FlowCounts, FlowSpec, Ipv4Filter, PortFilter, RecvWr, RssOptions, RssQp,
    WcOpcode, WcStatus, WorkCompletion, Wq, WqState,
};

/// The key of the verification suite that makers of network cards print.
const KEY: [u8; 40] = [
    0x6d, 0x5a, 0x56, 0xda, 0x25, 0x5b, 0x0e, 0xc2, 0x41, 0x67, 0x25, 0x3d, 0x43, 0xa3, 0x8f, 0xb0, 0xd0,
    0xca, 0x2b, 0xcb, 0xae, 0x7b, 0x30, 0xb4, 0x77, 0xcb, 0x2d, 0xa3, 0x80, 0x30, 0xf2, 0x0c, 0x6a, 0x42,
    0xb7, 0x3b, 0xbe, 0xac, 0x01, 0xfa,
];

/// The hash by its definition: for each bit of the data that is set the 32 bits of the key from there on.
fn toeplitz(data: &[u8]) -> u32 {
    let bit = |bytes: &[u8], at: usize| bytes[at / 8] >> (7 - at % 8) & 1;
    let window = |at| (at..at + 32).fold(0, |word, at| word << 1 | u32::from(bit(&KEY, at)));
    let set = (0..8 * data.len()).filter(|at| bit(data, *at) == 1);
    set.map(window).fold(0, |hash, word| hash ^ word)
}

/// Work queues of node 1, ready, each with so many receives.
struct Queues {
    wqs: Vec<Wq<Dev>>,
    next_slot: u64,
}

impl Queues {
    fn new(net: &mut Net, count: usize, receives: u32) -> Self {
        let node = &net.pair.rig.nodes[1];
        let wq = |_| {
            let mut wq = node.pd.create_wq(&node.cq, receives, 1).unwrap();
            assert!(wq.cap().max_recv_wr >= receives);
            wq.modify(WqState::Rdy).unwrap();
            wq
        };
        let wqs = (0..count).map(wq).collect();
        let mut queues = Self { wqs, next_slot: 0 };
        for wq in 0..count {
            (0..receives).for_each(|_| queues.recv(net, wq));
        }
        queues
    }

    fn nums(&self) -> Vec<u32> {
        self.wqs.iter().map(Wq::wq_num).collect()
    }

    fn recv(&mut self, net: &Net, wq: usize) {
        let slot = self.next_slot % 16;
        self.next_slot += 1;
        let sges = [net.pair.mrs[1].sge(slot * SLOT, SLOT as u32)];
        let wr = RecvWr {
            wr_id: slot,
            sges: &sges,
        };
        self.wqs[wq].post_recv_iter([wr]).unwrap();
    }
}

/// Sends a frame, and says what its receive says.
fn deliver(net: &mut Net, sent: &[u8]) -> WorkCompletion {
    net.send(sent, false);
    let wc = net.pair.wait(1);
    assert_eq!((wc.status, wc.opcode), (WcStatus::Success, WcOpcode::Recv));
    let mut bytes = vec![0; wc.byte_len as usize];
    let at = wc.wr_id * SLOT;
    let buf = net.pair.memory[1].buf();
    buf.read_bytes((CANARY_BYTES + at) as usize, &mut bytes);
    net.pair.expect(1, at, &bytes);
    assert_eq!(&bytes[..sent.len()], sent);
    wc
}

fn rss_qp(node: &Node, fields: u8, wq_nums: &[u32]) -> hca_verbs::Result<RssQp<Dev>> {
    node.pd.create_rss_qp(&RssOptions {
        fields,
        key: KEY,
        wq_nums,
    })
}

fn everything() -> [FlowSpec; 1] {
    let of = |dst_mac| EthFilter {
        dst_mac,
        ..EthFilter::default()
    };
    [FlowSpec::Eth(of(mac(1)), of(ALL_MACS))]
}

fn rule(specs: &[FlowSpec]) -> FlowAttr<'_> {
    FlowAttr {
        port_num: 1,
        specs,
        ..FlowAttr::default()
    }
}

/// V-90 to V-95: IPv4 and IPv6, TCP and UDP, with ports and without; what has nothing to hash goes to the first entry.
#[test]
fn v_93_v_95_frames_are_spread_by_their_hash() {
    let mut net = Net::new(0);
    let mut queues = Queues::new(&mut net, 4, 4);
    let nums = queues.nums();
    let table: Vec<u32> = [0, 1, 2, 3, 3, 1, 2, 0].map(|at| nums[at]).to_vec();
    let fields = rx_hash::ALL & !(rx_hash::SRC_PORT_TCP | rx_hash::DST_PORT_TCP);
    let rss = rss_qp(&net.pair.rig.nodes[1], fields, &table).unwrap();
    let specs = everything();
    let flow = rss.create_flow(&rule(&specs)).unwrap();
    let mut seen = Vec::new();
    for i in 0..12u16 {
        let ports = [2794 + i, 1766];
        let port_bytes = [ports[0].to_be_bytes(), ports[1].to_be_bytes()].concat();
        let ips = [[66, 9, 149, 187 - i as u8], [161, 142, 100, 80]];
        let ips6 = [[0x3f; 16], [0xfe - i as u8; 16]];
        let tag = (i % 2 == 0).then_some(i);
        let (kind, body, hashed) = match i % 4 {
            0 => (
                0x0800,
                ipv4(UDP, ips, ports, &[5; 40], true),
                [ips.concat(), port_bytes].concat(),
            ),
            1 => (0x0800, ipv4(TCP, ips, ports, &[5; 40], true), ips.concat()),
            2 => (
                0x86dd,
                ipv6(UDP, ips6, ports, &[5; 40]),
                [ips6.concat(), port_bytes].concat(),
            ),
            _ => (0x88b5, vec![i as u8; 50], Vec::new()),
        };
        let wc = deliver(&mut net, &frame(mac(1), mac(0), tag, kind, &body));
        let wanted = table[toeplitz(&hashed) as usize & 7];
        assert_eq!((wc.qp_num, wc.flow_tag()), (wanted, 0), "frame {i}");
        seen.push(wanted);
        let wq = nums.iter().position(|num| *num == wanted).unwrap();
        queues.recv(&net, wq);
    }
    seen.sort_unstable();
    seen.dedup();
    assert!(seen.len() > 2, "{seen:x?}");
    assert_eq!(flow.counts().unwrap().packets, 12);
    // V-91: a queue in RESET receives nothing, one in ERR ends what it had.
    let first = frame(mac(1), mac(0), None, 0x88b5, &[7; 50]);
    queues.wqs[0].modify(WqState::Reset).unwrap();
    net.send(&first, false);
    net.pair.silent(1, 3000);
    queues.wqs[0].modify(WqState::Rdy).unwrap();
    queues.recv(&net, 0);
    assert_eq!(deliver(&mut net, &first).qp_num, nums[0]);
    queues.recv(&net, 0);
    queues.wqs[0].modify(WqState::Err).unwrap();
    let wc = net.pair.wait(1);
    assert_eq!((wc.status, wc.qp_num), (WcStatus::WrFlushErr, nums[0]));
    // E-10: one that ends by itself is told of; a state that software has chosen is not.
    let context = net.pair.rig.nodes[1].context.clone();
    net.pair.rig.run(10_000);
    assert_eq!(context.poll_async_event(), None);
    queues.wqs[0].modify(WqState::Reset).unwrap();
    queues.wqs[0].modify(WqState::Rdy).unwrap();
    let short = [net.pair.mrs[1].sge(0, 20)];
    let wr = RecvWr {
        wr_id: 5,
        sges: &short,
    };
    queues.wqs[0].post_recv_iter([wr]).unwrap();
    net.send(&first, false);
    let wc = net.pair.wait(1);
    assert_eq!((wc.status, wc.qp_num), (WcStatus::LocLenErr, nums[0]));
    let event = context
        .get_async_event(net.pair.rig.now_ns() + 10_000_000)
        .unwrap();
    assert_eq!((event.kind, event.id), (EventKind::WqFatal, nums[0]));
    net.pair.check_traffic("beside spread frames");
}

/// V-94, V-92: what is in use stays, and is said to be; then all of it goes. MEM-1: one PD for all of a table.
#[test]
fn v_92_v_94_what_is_in_use_stays() {
    let mut net = Net::new(1);
    let mut queues = Queues::new(&mut net, 2, 1);
    let nums = queues.nums();
    let node = &net.pair.rig.nodes[1];
    for wrong in [&[][..], &[nums[0]; 3], &[nums[0]; 128]] {
        assert_eq!(rss_qp(node, 3, wrong).unwrap_err().errno(), 22);
    }
    let connected = net.pair.qps[1].qp_num();
    for (stranger, errno) in [(connected, 22), (0xff_ffff, 2)] {
        assert_eq!(rss_qp(node, 3, &[nums[0], stranger]).unwrap_err().errno(), errno);
    }
    let other = node.context.alloc_pd().unwrap();
    let options = RssOptions {
        fields: 3,
        key: KEY,
        wq_nums: &nums,
    };
    assert_eq!(other.create_rss_qp(&options).unwrap_err().errno(), 22);
    let mut all: Vec<_> = (0..hca_abi::RSS_QPS)
        .map(|_| rss_qp(node, 3, &nums).unwrap())
        .collect();
    assert_eq!(rss_qp(node, 3, &nums).unwrap_err().errno(), 12);
    let specs = everything();
    let mut rss = all.pop().unwrap();
    let mut flow = rss.create_flow(&rule(&specs)).unwrap();
    let elsewhere = FlowAttr {
        port_num: 9,
        ..rule(&specs)
    };
    assert!(rss.create_flow(&elsewhere).is_err());
    assert_eq!(rss.destroy().unwrap_err().errno(), 16);
    // A queue that goes leaves a number in the table that is nobody's, also if another one has its place.
    let sent = frame(mac(1), mac(0), None, 0x88b5, &[1; 60]);
    queues.wqs[0].destroy().unwrap();
    net.send(&sent, false);
    net.pair.silent(1, 3000);
    let mut next = net.pair.rig.nodes[1]
        .pd
        .create_wq(&net.pair.rig.nodes[1].cq, 1, 1)
        .unwrap();
    next.modify(WqState::Rdy).unwrap();
    net.send(&sent, false);
    net.pair.silent(1, 3000);
    flow.destroy().unwrap();
    rss.destroy().unwrap();
    assert!(rss.create_flow(&rule(&specs)).is_err());
    drop(all);
    next.destroy().unwrap();
    queues.wqs[1].destroy().unwrap();
    net.pair.check_traffic("after queues");
}

/// V-155, V-85: DROP keeps a frame from all behind it, a tag comes with the completion, and rules count what they had.
#[test]
fn v_85_v_155_drop_tag_and_counts() {
    let mut net = Net::new(2);
    (0..2).for_each(|taker| net.recv(taker));
    let every = everything();
    let port = |dst_port| PortFilter {
        dst_port,
        ..PortFilter::default()
    };
    let udp_9 = [FlowSpec::Udp(port(9), port(0xffff))];
    let tagged = |tag, priority| FlowAttr {
        tag,
        priority,
        ..rule(&every)
    };
    let first = net.rule(0, tagged(0xdead_beef, 5));
    let also = net.rule(1, tagged(7, 5));
    let dropping = net.rule(
        0,
        FlowAttr {
            drops: true,
            ..rule(&udp_9)
        },
    );
    let ips = [[10, 0, 0, 1], [10, 0, 0, 2]];
    let packet = |dst| {
        frame(
            mac(1),
            mac(0),
            None,
            0x0800,
            &ipv4(UDP, ips, [1, dst], &[3; 100], true),
        )
    };
    let (goes, stays) = (packet(8), packet(9));
    for _ in 0..3 {
        net.send(&stays, false);
    }
    net.pair.silent(1, 3000);
    net.send(&goes, false);
    let mut tags = [0; 2];
    for _ in 0..2 {
        let wc = net.pair.wait(1);
        assert_eq!(wc.status, WcStatus::Success);
        let mut bytes = vec![0; goes.len()];
        let at = (wc.wr_id & 0xff) * SLOT;
        net.pair.memory[1]
            .buf()
            .read_bytes((CANARY_BYTES + at) as usize, &mut bytes);
        net.pair.expect(1, at, &bytes);
        tags[(wc.wr_id >> 32) as usize] = wc.flow_tag();
    }
    assert_eq!(tags, [0xdead_beef, 7]);
    let counts = |packets, frame: &[u8]| FlowCounts {
        packets,
        bytes: packets * frame.len() as u64,
    };
    assert_eq!(dropping.counts().unwrap(), counts(3, &stays));
    assert_eq!(first.counts().unwrap(), counts(1, &goes));
    assert_eq!(also.counts().unwrap(), counts(1, &goes));
    // A rule begins with nothing, whoever had its row.
    drop(dropping);
    let ip = |ip| Ipv4Filter {
        src_ip: ip,
        ..Ipv4Filter::default()
    };
    let nobody = [FlowSpec::Ipv4(ip([1, 2, 3, 4]), ip([0xff; 4]))];
    assert_eq!(
        net.rule(0, rule(&nobody)).counts().unwrap(),
        FlowCounts::default()
    );
    let undone = FlowAttr {
        drops: true,
        dont_trap: true,
        ..rule(&every)
    };
    assert_eq!(net.takers[0].create_flow(&undone).unwrap_err().errno(), 22);
    net.pair.check_traffic("beside dropped frames");
}

/// D15: all of it is the manager's. Its reset takes it away, and what was spread goes to nobody.
#[test]
fn d15_spreading_is_the_managers() {
    let mut net = Net::new(0);
    let queues = Queues::new(&mut net, 2, 2);
    let nums = queues.nums();
    let specs = everything();
    let rss = rss_qp(&net.pair.rig.nodes[1], 0xff, &nums).unwrap();
    let flow = rss.create_flow(&rule(&specs)).unwrap();
    let card = net.pair.rig.cards[1];
    let foreign = Node::open(net.pair.rig.sim.device(card, 1).unwrap(), 64).unwrap();
    assert_eq!(foreign.pd.create_wq(&foreign.cq, 1, 1).unwrap_err().errno(), 1);
    assert_eq!(rss_qp(&foreign, 3, &nums).unwrap_err().errno(), 1);
    let theirs = foreign.context.query_device().unwrap();
    assert_eq!((theirs.rss_qps(), theirs.rss_entries()), (0, 0));
    for handle in [rss.handle(), flow.handle(), 16, u32::MAX] {
        let mut function = foreign.context.function();
        assert_eq!(function.destroy_rss(handle).unwrap_err().errno(), 1);
        assert_eq!(function.query_rule(handle).unwrap_err().errno(), 1);
    }
    let sent = frame(mac(1), mac(0), None, 0x88b5, &[1; 60]);
    assert_eq!(deliver(&mut net, &sent).qp_num, nums[0]);
    let manager = net.pair.rig.nodes[1].context.clone();
    assert_eq!(manager.function().destroy_rss(99).unwrap_err().errno(), 2);
    manager.function().reset_func().unwrap();
    net.send(&sent, false);
    net.pair.silent(1, 3000);
    assert_eq!(
        manager.function().destroy_rss(rss.handle()).unwrap_err().errno(),
        2
    );
}
