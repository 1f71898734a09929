//! Both drivers in the simulator's thread.

use std::time::Instant;

use hca_link::LinkKind;
use hca_system_tests::{Dev, Node, Place, Rig, RigConfig, path};
use hca_verbs::{Access, Mr, Mtu, QpCap, RawQp, RecvWr, SendFlags, SendOp, SendWr, WorkCompletion, WrData};

use crate::{DEPTH, Run, Traffic, processor_seconds};

struct End {
    qp: RawQp<Dev>,
    mr: Mr<Dev>,
}

impl End {
    fn post_recv(&mut self, bytes: u32) {
        let sges = [self.mr.sge(0, bytes)];
        let wr = RecvWr {
            wr_id: 0,
            sges: &sges,
        };
        self.qp.post_recv(&[wr]).expect("room in the receive queue");
    }

    fn post_send(&mut self, op: SendOp, bytes: u32) {
        let sges = [self.mr.sge(0, bytes)];
        let wr = SendWr {
            wr_id: 0,
            op,
            flags: SendFlags::SIGNALED,
            data: WrData::Sges(&sges),
        };
        self.qp.post_send(&[wr]).expect("room in the send queue");
    }
}

/// Completions of a node: of sends, and of receives.
fn take(node: &Node, is_waiting: bool) -> (u64, u64) {
    let mut wc = [WorkCompletion::default(); 16];
    let found = if is_waiting {
        node.cq.poll_cq(&mut wc)
    } else {
        node.cq.poll_ready(&mut wc)
    };
    let wc = &wc[..found.expect("a healthy CQ")];
    assert!(wc.iter().all(WorkCompletion::is_ok), "{wc:?}");
    let received = wc.iter().filter(|wc| u8::from(wc.opcode) & 0x80 != 0).count() as u64;
    (wc.len() as u64 - received, received)
}

pub fn run(traffic: Traffic) -> Run {
    let rig = Rig::new(&RigConfig::new(1, LinkKind::Ethernet)).expect("two cards");
    let cap = QpCap {
        max_send_wr: 2 * DEPTH as u32,
        max_recv_wr: 2 * DEPTH as u32,
        ..QpCap::default()
    };
    let qps = rig
        .connect([cap; 2], [false; 2], &path(Mtu::Bytes1024))
        .expect("a connection");
    let bytes = traffic.message_bytes();
    let access = Access::LOCAL_WRITE | Access::REMOTE_WRITE;
    let mut nodes = rig.nodes.iter();
    let mut ends = qps.map(|qp| {
        let node = nodes.next().expect("two nodes");
        let buf = node.alloc(bytes as usize).expect("memory");
        let mr = node
            .register(&buf, Place::whole(&buf, access, 1 << 44))
            .expect("a region");
        End { qp, mr }
    });
    let evaluated = || {
        let fabric = rig.sim.fabric();
        rig.cards
            .iter()
            .map(|card| fabric.card(*card).counters().evaluated_cycles)
            .sum::<u64>()
    };
    let (start, processor, before) = (Instant::now(), processor_seconds(), evaluated());
    match traffic {
        Traffic::PingPong => ping_pong(&rig, &mut ends, traffic),
        Traffic::Write | Traffic::Send => stream(&rig, &mut ends, traffic),
    }
    Run {
        cycles: evaluated() - before,
        seconds: start.elapsed().as_secs_f64(),
        processor_seconds: processor_seconds() - processor,
    }
}

fn stream(rig: &Rig, ends: &mut [End; 2], traffic: Traffic) {
    let bytes = traffic.message_bytes();
    let (remote_addr, rkey) = (ends[1].mr.addr(), ends[1].mr.rkey());
    let op = match traffic {
        Traffic::Write => SendOp::RdmaWrite { remote_addr, rkey },
        _ => SendOp::Send,
    };
    let wants_receives = op == SendOp::Send;
    if wants_receives {
        (0..2 * DEPTH).for_each(|_| ends[1].post_recv(bytes));
    }
    let (mut posted, mut sent, mut received) = (0, 0, 0);
    let total = traffic.messages();
    while sent < total || (wants_receives && received < total) {
        while posted < total && posted - sent < DEPTH {
            ends[0].post_send(op, bytes);
            posted += 1;
        }
        sent += take(&rig.nodes[0], true).0;
        let (_, came) = take(&rig.nodes[1], false);
        received += came;
        (0..came).for_each(|_| ends[1].post_recv(bytes));
    }
}

fn ping_pong(rig: &Rig, ends: &mut [End; 2], traffic: Traffic) {
    let bytes = traffic.message_bytes();
    ends.iter_mut().for_each(|end| end.post_recv(bytes));
    for _ in 0..traffic.messages() {
        for (from, to) in [(0, 1), (1, 0)] {
            ends[from].post_send(SendOp::Send, bytes);
            while take(&rig.nodes[to], true).1 == 0 {}
            ends[to].post_recv(bytes);
        }
    }
}
