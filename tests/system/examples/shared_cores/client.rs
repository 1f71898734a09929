//! One of the two programs: verbs by their C entry points, completions by polling.

#[path = "../../../../driver/hca-capi/tests/common/c.rs"]
mod c;

use std::io::{BufRead as _, Write as _};
use std::ptr::null_mut;

use c::*;
use ibverbs::abi::*;

use crate::{DEPTH, Traffic};

struct End {
    context: *mut ibv_context,
    cq: *mut ibv_cq,
    qp: *mut ibv_qp,
    mr: *mut ibv_mr,
    remote: (u64, u32),
    bytes: u32,
}

fn hear() -> Vec<u64> {
    let mut line = String::new();
    std::io::stdin()
        .lock()
        .read_line(&mut line)
        .expect("the parent writes");
    line.split_ascii_whitespace()
        .filter_map(|word| word.parse().ok())
        .collect()
}

fn say(line: &str) {
    writeln!(std::io::stdout(), "{line}").expect("the parent reads");
}

impl End {
    fn new(bytes: u32) -> Self {
        // Never freed: it belongs to the card until the process ends.
        let memory = Vec::leak(vec![1u8; bytes as usize]);
        // SAFETY: results are checked; all of it lives as long as the process.
        unsafe {
            let context = open_device(0);
            let pd = ibv_alloc_pd(context);
            let mr = ibv_reg_mr(pd, memory.as_mut_ptr().cast(), memory.len(), 7);
            let cq = ibv_create_cq(context, 8 * DEPTH as i32, null_mut(), null_mut(), 0);
            let mut attr = init_attr(cq);
            (attr.cap.max_send_wr, attr.cap.max_recv_wr) = (2 * DEPTH as u32, 2 * DEPTH as u32);
            let qp = ibv_create_qp(pd, &mut attr);
            assert!(!mr.is_null() && !qp.is_null(), "errno {}", errno());
            let mut gid = ibv_gid::default();
            assert_eq!(ibv_query_gid(context, 1, 1, &mut gid), 0);
            let halves = gid.global;
            say(&format!(
                "{} {} {} {} {}",
                (*qp).qp_num,
                halves.subnet_prefix,
                halves.interface_id,
                (*mr).addr as u64,
                (*mr).rkey
            ));
            let peer = hear();
            let global = ibv_gid__bindgen_ty_1 {
                subnet_prefix: peer[1],
                interface_id: peer[2],
            };
            connect_to(qp, peer[0] as u32, ibv_gid { global });
            let remote = (peer[3], peer[4] as u32);
            Self {
                context,
                cq,
                qp,
                mr,
                remote,
                bytes,
            }
        }
    }

    fn sge(&self) -> ibv_sge {
        // SAFETY: alive.
        let (addr, lkey) = unsafe { ((*self.mr).addr as u64, (*self.mr).lkey) };
        ibv_sge {
            addr,
            length: self.bytes,
            lkey,
        }
    }

    fn post_recv(&self) {
        let mut sge = self.sge();
        let mut wr = ibv_recv_wr {
            sg_list: &mut sge,
            num_sge: 1,
            ..Default::default()
        };
        // SAFETY: alive.
        let result = unsafe { (*self.context).ops.post_recv.unwrap()(self.qp, &mut wr, &mut null_mut()) };
        assert_eq!(result, 0);
    }

    fn post_send(&self, opcode: ibv_wr_opcode) {
        let mut sge = self.sge();
        let mut wr = ibv_send_wr {
            sg_list: &mut sge,
            num_sge: 1,
            opcode,
            ..send_wr(0)
        };
        (wr.wr.rdma.remote_addr, wr.wr.rdma.rkey) = self.remote;
        assert_eq!(post_send(self.qp, &mut [wr]), (0, None));
    }

    /// Completions of sends, and of receives.
    fn poll(&self) -> (u64, u64) {
        let mut wc = [ibv_wc::default(); 16];
        // SAFETY: alive, and room for as many.
        let found = unsafe { (*self.context).ops.poll_cq.unwrap()(self.cq, 16, wc.as_mut_ptr()) };
        let wc = &wc[..usize::try_from(found).expect("a healthy CQ")];
        assert!(wc.iter().all(|wc| wc.status == IBV_WC_SUCCESS));
        let received = wc.iter().filter(|wc| wc.opcode & IBV_WC_RECV != 0).count() as u64;
        (wc.len() as u64 - received, received)
    }
}

pub fn run(is_passive: bool, traffic: Traffic) {
    let end = End::new(traffic.message_bytes());
    let receives = match traffic {
        Traffic::Write => 0,
        Traffic::Send => 2 * DEPTH,
        Traffic::PingPong => 1,
    };
    (0..receives).for_each(|_| end.post_recv());
    say("ready");
    hear();
    match (traffic, is_passive) {
        (Traffic::PingPong, _) => ping_pong(&end, is_passive, traffic.messages()),
        (_, false) => stream(&end, traffic),
        (_, true) => {}
    }
    if !is_passive {
        say("done");
    }
    // The passive end takes what comes until the parent ends it.
    loop {
        let (_, received) = end.poll();
        (0..received).for_each(|_| end.post_recv());
    }
}

fn stream(end: &End, traffic: Traffic) {
    let opcode = if traffic == Traffic::Write {
        IBV_WR_RDMA_WRITE
    } else {
        IBV_WR_SEND
    };
    let (mut posted, mut sent) = (0, 0);
    let total = traffic.messages();
    while sent < total {
        while posted < total && posted - sent < DEPTH {
            end.post_send(opcode);
            posted += 1;
        }
        sent += end.poll().0;
    }
}

fn ping_pong(end: &End, is_passive: bool, messages: u64) {
    let wait = || {
        while end.poll().1 == 0 {}
        end.post_recv();
    };
    for _ in 0..messages {
        if is_passive {
            wait();
        }
        end.post_send(IBV_WR_SEND);
        if !is_passive {
            wait();
        }
    }
}
