//! Flow steering by the C interface (V-155, V-156): specs as programs pack them, and every way to pack them wrong.

mod common;

use std::ptr::null_mut;

use common::*;
use ibverbs::abi::*;

/// Attributes with room for specs behind them, as programs lay them out.
#[repr(C)]
struct Flow<T> {
    attr: ibv_flow_attr,
    specs: T,
}

fn flow<T>(specs: T, count: u8) -> Flow<T> {
    Flow {
        attr: ibv_flow_attr {
            size: size_of::<Flow<T>>() as u16,
            num_of_specs: count,
            port: 1,
            ..Default::default()
        },
        specs,
    }
}

fn eth() -> ibv_flow_spec_eth {
    let mut spec = ibv_flow_spec_eth {
        type_: IBV_FLOW_SPEC_ETH,
        size: size_of::<ibv_flow_spec_eth>() as u16,
        ..Default::default()
    };
    (spec.val.dst_mac, spec.mask.dst_mac) = ([2, 0, 0, 0, 0, 1], [0xff; 6]);
    spec
}

/// The calls of the inline functions of verbs.h.
unsafe fn create<T>(bench: &Bench, qp: *mut ibv_qp, flow: &mut Flow<T>) -> (*mut ibv_flow, i32) {
    // SAFETY: the context's table, and objects of the test.
    unsafe {
        let table = bench
            .context
            .cast::<u8>()
            .sub(std::mem::offset_of!(verbs_context, context));
        let create = (*table.cast::<verbs_context>()).ibv_create_flow.unwrap();
        let made = create(qp, (&raw mut *flow).cast());
        (made, errno())
    }
}

unsafe fn destroy(bench: &Bench, flow: *mut ibv_flow) -> i32 {
    // SAFETY: as above.
    unsafe {
        let table = bench
            .context
            .cast::<u8>()
            .sub(std::mem::offset_of!(verbs_context, context));
        (*table.cast::<verbs_context>()).ibv_destroy_flow.unwrap()(flow)
    }
}

#[test]
fn specs_right_and_wrong() {
    let bench = bench(12);
    // SAFETY: live objects.
    unsafe {
        let mut attr = init_attr(bench.cq);
        attr.qp_type = IBV_QPT_RAW_PACKET;
        let qp = ibv_create_qp(bench.pd, &mut attr);
        assert!(!qp.is_null());
        // Its port is not known yet.
        assert_eq!(
            create(&bench, qp, &mut flow(eth(), 1)),
            (null_mut(), libc::EINVAL)
        );
        let mut init = ibv_qp_attr {
            qp_state: IBV_QPS_INIT,
            port_num: 1,
            ..Default::default()
        };
        let mask = (IBV_QP_STATE | IBV_QP_PORT) as i32;
        assert_eq!(ibv_modify_qp(qp, &mut init, mask), 0);
        let (made, _) = create(&bench, qp, &mut flow(eth(), 1));
        assert!(!made.is_null() && (*made).context == bench.context);
        assert_eq!(ibv_destroy_qp(qp), libc::EBUSY);
        assert_eq!(destroy(&bench, made), 0);
        assert_eq!(destroy(&bench, made), libc::EINVAL);

        let refused = |change: fn(&mut Flow<ibv_flow_spec_eth>), wanted| {
            let mut one = flow(eth(), 1);
            change(&mut one);
            assert_eq!(create(&bench, qp, &mut one), (null_mut(), wanted));
        };
        refused(|f| f.specs.size = 0, libc::EINVAL);
        refused(|f| f.specs.size = 8, libc::EINVAL);
        refused(|f| f.specs.size -= 2, libc::EINVAL);
        refused(|f| f.specs.type_ = IBV_FLOW_SPEC_ESP, libc::EOPNOTSUPP);
        refused(|f| f.specs.type_ |= IBV_FLOW_SPEC_INNER, libc::EOPNOTSUPP);
        refused(|f| f.specs.type_ = IBV_FLOW_SPEC_ACTION_DROP, libc::EOPNOTSUPP);
        refused(|f| f.attr.flags = IBV_FLOW_ATTR_FLAGS_EGRESS, libc::EOPNOTSUPP);
        refused(|f| f.attr.flags = 1, libc::EOPNOTSUPP);
        refused(|f| f.attr.comp_mask = 1, libc::EOPNOTSUPP);
        refused(|f| f.attr.type_ = 4, libc::EINVAL);
        refused(|f| f.attr.type_ = IBV_FLOW_ATTR_SNIFFER, libc::EINVAL);
        refused(|f| f.attr.port = 2, libc::EINVAL);
        let (made, error) = create(&bench, null_mut(), &mut flow(eth(), 1));
        assert_eq!((made, error), (null_mut(), libc::EINVAL));
        assert_eq!(ibv_destroy_qp(qp), 0);
    }
    bench.close();
}
