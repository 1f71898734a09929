//! Extended reliable connections (SPEC-3, XPORT-6; IBA annex A14): one pair of QPs reaches every SRQ of a domain, with all
//! that a reliable connection can do.

mod common;

use common::BOTH_LINKS;
use common::xrc::Bench;
use hca_verbs::{WcOpcode, WcStatus};

/// SPEC-3: each message goes to the SRQ that it names, and completes in that SRQ's CQ.
#[test]
fn one_connection_reaches_every_srq() {
    for kind in BOTH_LINKS {
        let mut bench = Bench::on(kind, 1, 3);
        for round in 0..60u64 {
            let srq = (round * 7 % 3) as usize;
            let len = [0, 1, 64, 1000, 1024, 3000][round as usize % 6];
            bench.post(srq, round);
            bench.rig.run(600);
            bench.send(0, srq, 100 + round, 64 * round, len);
            let wc = bench.wait_recv(srq);
            assert_eq!(
                (wc.status, wc.wr_id, wc.byte_len),
                (WcStatus::Success, round, len)
            );
            assert_eq!(
                (wc.opcode, wc.qp_num),
                (WcOpcode::Recv, bench.targets[0].qp_num())
            );
            bench.expect(round, 64 * round, len);
            assert_eq!(bench.wait_sent().wr_id, 100 + round);
        }
        bench.check_memory();
        bench.rig.check_idle(100_000).unwrap();
    }
}
