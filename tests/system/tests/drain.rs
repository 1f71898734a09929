//! SQD: a send queue finishes what it has begun and holds the rest (QPS-4, QPS-10, QPS-11).

mod common;

use common::{BOTH_LINKS, LOCAL_AND_REMOTE, Pair};
use hca_system_tests::{RigConfig, path};
use hca_verbs::{EventKind, Mtu, QpAttr, QpAttrMask, QpState};

const LEN: u32 = 64 << 10;
const WRITES: u64 = 16;

fn post_write(pair: &mut Pair, wr_id: u64) {
    let at = wr_id * u64::from(LEN);
    let bytes = pair.expected(0, at, LEN);
    pair.expect(1, at, &bytes);
    let (write, source) = (pair.write_to(1, at), [pair.mrs[0].sge(at, LEN)]);
    pair.post(0, wr_id, write, &source);
}

#[test]
fn a_send_queue_drains_and_goes_on() {
    for link in BOTH_LINKS {
        let len = (WRITES + 1) * u64::from(LEN);
        // Slow, so that there is time for commands before it has drained.
        let config = RigConfig {
            rate_bits_per_s: 5_000_000_000,
            ..RigConfig::new(31, link)
        };
        let mut pair = Pair::new(&config, &path(Mtu::Bytes4096), len, [LOCAL_AND_REMOTE; 2]);
        (0..WRITES).for_each(|wr_id| post_write(&mut pair, wr_id));
        let sqd = QpAttr {
            qp_state: QpState::Sqd,
            en_sqd_async_notify: true,
            ..QpAttr::default()
        };
        let mask = QpAttrMask::STATE | QpAttrMask::EN_SQD_ASYNC_NOTIFY;
        pair.qps[0].modify(&sqd, mask).unwrap();
        let attr = pair.qps[0].query().unwrap();
        assert_eq!((attr.qp_state, attr.sq_draining), (QpState::Sqd, true));
        // Not before it is drained.
        assert!(pair.qps[0].modify_state(QpState::Rts).is_err());
        post_write(&mut pair, WRITES);

        let context = &pair.rig.nodes[0].context;
        let event = context.get_async_event(pair.rig.now_ns() + 10_000_000).unwrap();
        assert_eq!(event.kind, EventKind::SqDrained);
        let attr = pair.qps[0].query().unwrap();
        assert_eq!((attr.qp_state, attr.sq_draining), (QpState::Sqd, false));
        pair.rig.run(5_000);
        let mut done = 0;
        while let Some(wc) = pair.rig.nodes[0].poll().unwrap() {
            assert!(wc.is_ok() && wc.wr_id == done, "{wc:?}");
            done += 1;
        }
        assert!((1..WRITES).contains(&done), "{done} WRITEs were begun");
        pair.silent(0, 100_000);

        pair.qps[0].modify_state(QpState::Rts).unwrap();
        (done..=WRITES).for_each(|wr_id| {
            pair.wait_ok(0, wr_id);
        });
        pair.check_memory("after the queue went on");
    }
}
