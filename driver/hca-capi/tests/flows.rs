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
        refused(|f| f.specs.type_ = IBV_FLOW_SPEC_ACTION_HANDLE, libc::EOPNOTSUPP);
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

/// The functions of an extended context.
unsafe fn table(bench: &Bench) -> &verbs_context {
    // SAFETY: the context is the last field of an extended one.
    unsafe {
        let table = bench
            .context
            .cast::<u8>()
            .sub(std::mem::offset_of!(verbs_context, context));
        &*table.cast::<verbs_context>()
    }
}

fn counters_spec(counters: *mut ibv_counters) -> ibv_flow_spec_counter_action {
    ibv_flow_spec_counter_action {
        type_: IBV_FLOW_SPEC_ACTION_COUNT,
        size: size_of::<ibv_flow_spec_counter_action>() as u16,
        counters,
    }
}

/// V-85, V-86, V-155: counters objects say first what they count and then are in rules; tags and drops are specs.
#[test]
fn v_85_counters_tags_and_drops() {
    let bench = bench(13);
    // SAFETY: live objects, and the functions that the inline ones of verbs.h call.
    unsafe {
        let t = table(&bench);
        let (make, unmake) = (t.create_counters.unwrap(), t.destroy_counters.unwrap());
        let (attach, read) = (t.attach_counters_point_flow.unwrap(), t.read_counters.unwrap());
        let mut none = ibv_counters_init_attr::default();
        let counters = make(bench.context, &mut none);
        assert!(!counters.is_null());
        let point = |counter_desc, index| ibv_counter_attach_attr {
            counter_desc,
            index,
            comp_mask: 0,
        };
        assert_eq!(attach(counters, &mut point(IBV_COUNTER_BYTES, 2), null_mut()), 0);
        assert_eq!(
            attach(counters, &mut point(IBV_COUNTER_PACKETS, 0), null_mut()),
            0
        );
        for (mut wrong, errno) in [
            (point(IBV_COUNTER_PACKETS, 0), libc::EBUSY),
            (point(IBV_COUNTER_PACKETS, 16), libc::EINVAL),
            (point(9, 1), libc::EOPNOTSUPP),
        ] {
            assert_eq!(attach(counters, &mut wrong, null_mut()), errno);
        }
        let qp = raw_qp(&bench);
        let tag = ibv_flow_spec_action_tag {
            type_: IBV_FLOW_SPEC_ACTION_TAG,
            size: size_of::<ibv_flow_spec_action_tag>() as u16,
            tag_id: 0x1234_5678,
        };
        #[repr(C, packed)]
        struct Specs(ibv_flow_spec_action_tag, ibv_flow_spec_counter_action);
        let (made, _) = create(&bench, qp, &mut flow(Specs(tag, counters_spec(counters)), 2));
        assert!(!made.is_null());
        #[repr(C, packed)]
        struct Twice(ibv_flow_spec_action_tag, ibv_flow_spec_action_tag);
        let twice = create(&bench, qp, &mut flow(Twice(tag, tag), 2));
        assert_eq!(twice, (null_mut(), libc::EINVAL));
        #[repr(C, packed)]
        struct One(ibv_flow_spec_counter_action);
        let strange = create(&bench, qp, &mut flow(One(counters_spec(qp.cast())), 1));
        assert_eq!(strange, (null_mut(), libc::EINVAL));
        let drop = ibv_flow_spec_action_drop {
            type_: IBV_FLOW_SPEC_ACTION_DROP,
            size: size_of::<ibv_flow_spec_action_drop>() as u16,
        };
        let (dropping, _) = create(&bench, qp, &mut flow(drop, 1));
        assert!(!dropping.is_null());

        let mut values = [7; 3];
        assert_eq!(read(counters, values.as_mut_ptr(), 3, 0), 0);
        // The card without frames that this runs on has seen none; what is between the places is left alone.
        assert_eq!(values, [0, 7, 0]);
        assert_eq!(read(counters, values.as_mut_ptr(), 2, 0), libc::EINVAL);
        assert_eq!(read(counters, values.as_mut_ptr(), 3, 2), libc::EOPNOTSUPP);
        assert_eq!(unmake(counters), libc::EBUSY);
        let mut late = point(IBV_COUNTER_PACKETS, 1);
        assert_eq!(attach(counters, &mut late, null_mut()), libc::EBUSY);
        assert_eq!((destroy(&bench, made), destroy(&bench, dropping)), (0, 0));
        assert_eq!((unmake(counters), unmake(counters)), (0, libc::EINVAL));
        assert_eq!(ibv_destroy_qp(qp), 0);
    }
    bench.close();
}

/// A raw QP in INIT.
unsafe fn raw_qp(bench: &Bench) -> *mut ibv_qp {
    let mut attr = init_attr(bench.cq);
    attr.qp_type = IBV_QPT_RAW_PACKET;
    let mut init = ibv_qp_attr {
        qp_state: IBV_QPS_INIT,
        port_num: 1,
        ..Default::default()
    };
    // SAFETY: live objects.
    unsafe {
        let qp = ibv_create_qp(bench.pd, &mut attr);
        let mask = (IBV_QP_STATE | IBV_QP_PORT) as i32;
        assert_eq!(ibv_modify_qp(qp, &mut init, mask), 0);
        qp
    }
}

fn to_state(wq_state: ibv_wq_state) -> ibv_wq_attr {
    ibv_wq_attr {
        attr_mask: IBV_WQ_ATTR_STATE,
        wq_state,
        ..Default::default()
    }
}

/// V-90 to V-95, V-114: queues, tables and QPs that spread are made, used wrongly, and end in their order only.
#[test]
fn v_90_v_95_queues_tables_and_spreading_qps() {
    let bench = bench(14);
    // SAFETY: live objects, and the functions that the inline ones of verbs.h call.
    unsafe {
        let t = table(&bench);
        let wish = |change: fn(&mut ibv_wq_init_attr)| {
            let mut attr = ibv_wq_init_attr {
                wq_type: IBV_WQT_RQ,
                max_wr: 5,
                max_sge: 2,
                pd: bench.pd,
                cq: bench.cq,
                ..Default::default()
            };
            change(&mut attr);
            (t.create_wq.unwrap()(bench.context, &mut attr), attr, errno())
        };
        for (change, errno) in [
            ((|a| a.wq_type = 1) as fn(&mut ibv_wq_init_attr), libc::EINVAL),
            (|a| a.pd = null_mut(), libc::EINVAL),
            (|a| a.comp_mask = 2, libc::EOPNOTSUPP),
            (
                |a| (a.comp_mask, a.create_flags) = (1, IBV_WQ_FLAGS_DELAY_DROP),
                libc::EOPNOTSUPP,
            ),
        ] {
            let (wq, _, found) = wish(change);
            assert_eq!((wq, found), (null_mut(), errno));
        }
        let mut wqs = [(); 4].map(|()| {
            let (wq, attr, _) = wish(|_| ());
            assert!(!wq.is_null() && attr.max_wr >= 5 && attr.max_sge >= 2);
            wq
        });
        let modify = t.modify_wq.unwrap();
        let mut wr = ibv_recv_wr::default();
        let post = |wq: *mut ibv_wq, wr| (*wq).post_recv.unwrap()(wq, wr, &mut null_mut());
        assert_eq!(post(wqs[0], &mut wr), libc::EINVAL, "in RESET");
        assert_eq!(modify(wqs[0], &mut to_state(IBV_WQS_ERR)), libc::EINVAL);
        assert_eq!(modify(wqs[0], &mut to_state(IBV_WQS_UNKNOWN)), libc::EINVAL);
        for wq in wqs {
            assert_eq!(modify(wq, &mut to_state(IBV_WQS_RDY)), 0);
            assert_eq!((*wq).state, IBV_WQS_RDY);
        }
        assert_eq!(post(wqs[0], &mut wr), 0);
        let mut elsewhere = to_state(IBV_WQS_ERR);
        elsewhere.attr_mask |= IBV_WQ_ATTR_CURR_STATE;
        assert_eq!(modify(wqs[0], &mut elsewhere), libc::EINVAL, "it is not in RESET");
        elsewhere.attr_mask |= IBV_WQ_ATTR_FLAGS;
        assert_eq!(modify(wqs[0], &mut elsewhere), libc::EOPNOTSUPP);

        let mut table_attr = ibv_rwq_ind_table_init_attr {
            log_ind_tbl_size: 2,
            ind_tbl: wqs.as_mut_ptr(),
            comp_mask: 0,
        };
        let make_table = t.create_rwq_ind_table.unwrap();
        for wrong in [7, 32, 64] {
            table_attr.log_ind_tbl_size = wrong;
            assert_eq!(make_table(bench.context, &mut table_attr), null_mut());
            assert_eq!(errno(), libc::EINVAL);
        }
        table_attr.log_ind_tbl_size = 2;
        let indirection = make_table(bench.context, &mut table_attr);
        assert!(!indirection.is_null());
        assert_eq!(t.destroy_wq.unwrap()(wqs[3]), libc::EBUSY);

        let key = vec![9; 40];
        let spread = |change: fn(&mut ibv_qp_init_attr_ex)| {
            let mut attr = ibv_qp_init_attr_ex {
                qp_type: IBV_QPT_RAW_PACKET,
                comp_mask: IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_IND_TABLE | IBV_QP_INIT_ATTR_RX_HASH,
                pd: bench.pd,
                rwq_ind_tbl: indirection,
                rx_hash_conf: ibv_rx_hash_conf {
                    rx_hash_function: IBV_RX_HASH_FUNC_TOEPLITZ as u8,
                    rx_hash_key_len: 40,
                    rx_hash_key: key.as_ptr().cast_mut(),
                    rx_hash_fields_mask: u64::from(IBV_RX_HASH_SRC_IPV4 | IBV_RX_HASH_DST_PORT_UDP),
                },
                ..Default::default()
            };
            change(&mut attr);
            (t.create_qp_ex.unwrap()(bench.context, &mut attr), errno())
        };
        for (change, errno) in [
            (
                (|a| a.rx_hash_conf.rx_hash_key_len = 39) as fn(&mut ibv_qp_init_attr_ex),
                libc::EINVAL,
            ),
            (|a| a.rx_hash_conf.rx_hash_function = 2, libc::EOPNOTSUPP),
            (|a| a.rx_hash_conf.rx_hash_fields_mask = 1 << 31, libc::EOPNOTSUPP),
            (|a| a.qp_type = IBV_QPT_UD, libc::EINVAL),
            (|a| a.comp_mask &= !IBV_QP_INIT_ATTR_RX_HASH, libc::EINVAL),
            (|a| a.rwq_ind_tbl = null_mut(), libc::EINVAL),
        ] {
            assert_eq!(spread(change), (null_mut(), errno));
        }
        let (qp, _) = spread(|_| ());
        assert!(!qp.is_null() && (*qp).qp_num == 0);
        drop(key); // copied when the QP was made
        let mut init = ibv_qp_attr::default();
        assert_eq!(
            ibv_modify_qp(qp, &mut init, IBV_QP_STATE as i32),
            libc::EOPNOTSUPP
        );
        let post_recv = (*bench.context).ops.post_recv.unwrap();
        assert_eq!(post_recv(qp, &mut wr, &mut null_mut()), libc::EINVAL);
        let (made, _) = create(&bench, qp, &mut flow(eth(), 1));
        assert!(!made.is_null());
        assert_eq!(ibv_destroy_qp(qp), libc::EBUSY);
        assert_eq!(t.destroy_rwq_ind_table.unwrap()(indirection), libc::EBUSY);
        assert_eq!((destroy(&bench, made), ibv_destroy_qp(qp)), (0, 0));
        assert_eq!(t.destroy_rwq_ind_table.unwrap()(indirection), 0);
        for wq in wqs {
            assert_eq!(t.destroy_wq.unwrap()(wq), 0);
            assert_eq!(t.destroy_wq.unwrap()(wq), libc::EINVAL);
        }
    }
    bench.close();
}
