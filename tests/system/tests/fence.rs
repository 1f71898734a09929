//! When destroy_qp, a move to RESET, dereg_mr or rereg_mr returns, nothing of the object is under way any more, however
//! slow the host is: the card neither writes the memory (KEY-30, QPS-6) nor reads what is unmapped then.

mod common;

use common::{BASES, BOTH_LINKS, LOCAL_AND_REMOTE, cap};
use hca_dev::{Device as _, DmaBuf};
use hca_host::PcieParams;
use hca_link::LinkKind;
use hca_system_tests::{Dev, Place, Rig, RigConfig, Rng, path};
use hca_verbs::{Access, Mr, Mtu, QpState, RawQp, SendFlags, SendOp, SendWr, WrData};

/// Bytes of a message, and of each third of the memory: target of the peer's WRITEs, of the own READs, source of both.
const PART: u64 = 32 << 10;
const MESSAGES: u64 = 6;
const MARK: u8 = 0xa5;

#[derive(Clone, Copy, Debug)]
enum End {
    DestroyQp,
    ResetQp,
    DeregMr,
    ReregMr,
}

const ENDS: [End; 4] = [End::DestroyQp, End::ResetQp, End::DeregMr, End::ReregMr];

/// What a host of that bandwidth can do; one that stands still for a millisecond in two.
fn hosts() -> [PcieParams; 5] {
    let slow = |bandwidth_mbps| PcieParams {
        bandwidth_mbps,
        read_latency_ns: 1_000,
        ..PcieParams::default()
    };
    let stalled = PcieParams {
        stall_ns: 1_000_000,
        stall_every_ns: 2_000_000,
        ..PcieParams::default()
    };
    [slow(4_000), slow(2_000), slow(1_000), slow(200), stalled]
}

/// Two QPs that write to each other's memory and read it, until one end is over.
struct Round {
    bufs: [DmaBuf; 2],
    mrs: [Mr<Dev>; 2],
    qps: [RawQp<Dev>; 2],
}

impl Round {
    fn new(rig: &Rig) -> Self {
        let bufs = [0, 1].map(|node: usize| rig.nodes[node].alloc(3 * PART as usize).unwrap());
        let mrs = [0, 1].map(|node: usize| {
            let rights = LOCAL_AND_REMOTE | Access::REMOTE_ATOMIC;
            let place = Place::whole(&bufs[node], rights, BASES[node]);
            rig.nodes[node].register(&bufs[node], place).unwrap()
        });
        let qps = rig
            .connect([cap(); 2], [false; 2], &path(Mtu::Bytes4096))
            .unwrap();
        Self { bufs, mrs, qps }
    }

    /// WRITEs, and between them READs and atomics if they are wanted: what those bring comes in by the node's right.
    fn post(&mut self, node: usize, reads: bool) {
        let peer = &self.mrs[1 - node];
        for number in 0..MESSAGES {
            let read = reads && number % 3 == 1;
            let atomic = reads && number % 3 == 2;
            let (remote_addr, rkey) = (peer.addr() + if read { 2 * PART } else { 0 }, peer.rkey());
            let sge = match (read, atomic) {
                (_, true) => self.mrs[node].sge(PART + 8 * number, 8),
                (true, _) => self.mrs[node].sge(PART, PART as u32),
                _ => self.mrs[node].sge(2 * PART, PART as u32),
            };
            let wr = SendWr {
                wr_id: number,
                op: if read {
                    SendOp::RdmaRead { remote_addr, rkey }
                } else if atomic {
                    SendOp::AtomicFetchAndAdd {
                        remote_addr,
                        rkey,
                        add: 1,
                    }
                } else {
                    SendOp::RdmaWrite { remote_addr, rkey }
                },
                flags: SendFlags::SIGNALED,
                data: WrData::Sges(&[sge]),
            };
            self.qps[node].post_send(&[wr]).unwrap();
        }
    }

    fn end(&mut self, rig: &Rig, node: usize, end: End) {
        match end {
            End::DestroyQp => self.qps[node].destroy().unwrap(),
            End::ResetQp => self.qps[node].modify_state(QpState::Reset).unwrap(),
            End::DeregMr => self.mrs[node].destroy().unwrap(),
            End::ReregMr => self.mrs[node]
                .modify(&rig.nodes[node].pd, Access::LOCAL_WRITE)
                .unwrap(),
        }
    }

    /// Everything goes, and its memory is unmapped: what the card still reads is a fault, which `check_idle` finds.
    fn close(mut self, rig: &Rig) {
        for node in [0, 1] {
            let _ = self.qps[node].destroy();
            let _ = self.mrs[node].destroy();
        }
        for (node, buf) in rig.nodes.iter().zip(self.bufs) {
            while node.poll_ready().unwrap().is_some() {}
            node.dev.free_dma(buf).unwrap();
        }
    }
}

/// Connections that are busy at once.
const FLOWS: usize = 4;

/// Each connection ends in its own way and at its own time, in the midst of the others' traffic; from then on nothing
/// changes in its memory.
fn round(rig: &mut Rig, host: &PcieParams, rng: &mut Rng, ends: [End; FLOWS]) {
    let mut flows = ends.map(|end| (end, rng.below(2) as usize, Round::new(rig)));
    for (end, _, flow) in &mut flows {
        let reads = !matches!(end, End::ReregMr);
        for node in [0, 1] {
            flow.post(node, reads);
        }
    }
    let targets = 2 * PART as usize;
    for (end, node, flow) in &mut flows {
        rig.run(rng.between(200, 20_000).into());
        flow.end(rig, *node, *end);
        flow.bufs[*node].fill(0, targets, MARK);
    }
    // Longer than the host stands still, and than anything takes on its way to it.
    rig.run(host.cycles(host.stall_ns.into()) + 50_000);
    for (end, node, flow) in flows {
        let mut bytes = vec![0; targets];
        flow.bufs[node].read_bytes(0, &mut bytes);
        let changed = bytes.iter().filter(|byte| **byte != MARK).count();
        assert_eq!(
            changed, 0,
            "bytes written after {end:?} had returned at node {node}"
        );
        flow.close(rig);
    }
}

fn rounds(seed: u64, link: LinkKind, host: &PcieParams, count: usize) {
    let config = RigConfig {
        pcie: host.clone(),
        ..RigConfig::new(seed, link)
    };
    let mut rig = Rig::new(&config).unwrap();
    let mut rng = Rng::new(seed, "fence");
    for number in 0..count.div_ceil(FLOWS) {
        let ends = [0, 1, 2, 3].map(|flow| ENDS[(flow + number / 4) % ENDS.len()]);
        round(&mut rig, host, &mut rng, ends);
    }
    rig.check_idle(2_000_000).unwrap();
}

#[test]
fn nothing_is_touched_after_the_end() {
    for (seed, host) in hosts().iter().enumerate() {
        rounds(seed as u64, BOTH_LINKS[seed % 2], host, 2 * FLOWS);
    }
}

/// Half as many ends as `ENDS` says, of 10,000 without it.
fn soak(link: LinkKind) {
    let ends = std::env::var("ENDS").ok().and_then(|text| text.parse().ok());
    let each = ends.unwrap_or(10_000_usize).div_ceil(2 * hosts().len());
    for (seed, host) in hosts().iter().enumerate() {
        rounds(100 + seed as u64, link, host, each);
        println!(
            "{link:?}, {} MB/s, {} ns of stalls: {each} ends",
            host.bandwidth_mbps, host.stall_ns
        );
    }
}

#[test]
#[ignore = "half an hour: part of make soak"]
fn soak_of_ends_under_traffic_on_ethernet() {
    soak(LinkKind::Ethernet);
}

#[test]
#[ignore = "half an hour: part of make soak"]
fn soak_of_ends_under_traffic_on_infiniband() {
    soak(LinkKind::InfiniBand);
}
