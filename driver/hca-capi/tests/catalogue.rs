//! What the verbs catalogue says of devices, contexts, queues and events, statement by statement, as far as no other
//! test shows it; and the numbers of the card beside those of the headers (section 16).

mod common;

use std::collections::HashSet;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::ptr::null_mut;

use common::makers::create_wq;
use common::*;
use hca_abi::{
    AtomicCap, EventKind, LinkLayer, Mtu, PortState, QpState, WcOpcode, WcStatus, device_cap, wc_flag,
};
use ibverbs::abi::*;

unsafe extern "C" {
    fn ibv_dofork_range(base: *mut c_void, size: usize) -> c_int;
    fn ibv_dontfork_range(base: *mut c_void, size: usize) -> c_int;
    fn ibv_fork_init() -> c_int;
    fn ibv_is_fork_initialized() -> ibv_fork_status;
}

fn text(field: &[c_char]) -> &str {
    // SAFETY: a C string inside the field, which is zero at its end.
    unsafe { CStr::from_ptr(field.as_ptr()) }.to_str().unwrap()
}

/// V-20: an array that ends with NULL, whose number nobody has to ask for; V-21: it is freed, what was opened stays;
/// V-24: what the structure says.
#[test]
fn the_list_of_devices() {
    // SAFETY: the list, and devices of it.
    unsafe {
        let context = open(50);
        let mut num = 0;
        let list = ibv_get_device_list(&mut num);
        let devices: Vec<_> = (0..)
            .map(|i| *list.add(i))
            .take_while(|device| !device.is_null())
            .collect();
        assert_eq!(devices.len(), num as usize);
        let uncounted = ibv_get_device_list(null_mut());
        assert!(
            (0..devices.len()).all(|i| *uncounted.add(i) == devices[i]),
            "the same devices"
        );
        ibv_free_device_list(uncounted);
        let device = &*devices[50];
        assert_eq!(
            (device.node_type, device.transport_type),
            (IBV_NODE_CA, IBV_TRANSPORT_IB)
        );
        assert_eq!(
            (text(&device.name), text(&device.dev_name)),
            ("hca50", "uverbs50")
        );
        assert_eq!(text(&device.dev_path), "/sys/class/infiniband_verbs/uverbs50");
        assert_eq!(text(&device.ibdev_path), "/sys/class/infiniband/hca50");
        assert_eq!((device.name.len(), device.dev_path.len()), (64, 256));
        ibv_free_device_list(list);
        assert_eq!((*context).device, devices[50]);
        assert_eq!(ibv_query_device(context, &mut ibv_device_attr::default()), 0);
        assert_eq!(ibv_close_device(context), 0);
    }
}

/// V-2, V-10, V-14: nothing has to be prepared, at any time: 0 and UNNEEDED.
#[test]
fn nothing_is_prepared_for_fork() {
    let bench = bench(51);
    // SAFETY: no arguments, or memory that is only named.
    unsafe {
        assert_eq!(ibv_fork_init(), 0);
        assert_eq!(ibv_is_fork_initialized(), IBV_FORK_UNNEEDED);
        let mut buf = [0u8; 64];
        assert_eq!(ibv_dontfork_range(buf.as_mut_ptr().cast(), 64), 0);
        assert_eq!(ibv_dofork_range(buf.as_mut_ptr().cast(), 64), 0);
    }
    bench.close();
}

/// V-26: closing frees nothing: what is left works on until it is destroyed.
#[test]
fn objects_outlive_their_context() {
    let bench = bench(52);
    // SAFETY: live objects.
    unsafe {
        assert_eq!(ibv_close_device(bench.context), 0);
        assert!(
            ibv_alloc_pd(bench.context).is_null(),
            "the context itself is gone"
        );
        assert_eq!(ibv_dealloc_pd(bench.pd), libc::EBUSY);
        for qp in bench.qps {
            assert_eq!(ibv_destroy_qp(qp), 0);
        }
        assert_eq!(ibv_destroy_cq(bench.cq), 0);
        assert_eq!(ibv_dealloc_pd(bench.pd), 0);
    }
}

/// V-47, EVT-1: what concerns a port comes to every open of the card, what concerns a CQ to its own; EVT-2, V-45:
/// events that nobody reads stay, oldest first; O_NONBLOCK ends the reading with EAGAIN; V-46: those without an object
/// are acknowledged like the others.
#[test]
fn events_wait_in_order_for_every_open() {
    let contexts = [open(KEPT_CARD as usize), open(KEPT_CARD as usize)];
    let card = KEPT.get().unwrap();
    let gid = [0xfe, 0x80, 0, 0, 0, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8];
    card.set_gid(1, 5, gid).unwrap();
    card.set_pkey(1, 3, 0x8123).unwrap();
    card.set_gid(1, 5, [0; 16]).unwrap();
    // SAFETY: open contexts.
    unsafe {
        for context in contexts {
            let fd = (*context).async_fd;
            for wanted in [IBV_EVENT_GID_CHANGE, IBV_EVENT_PKEY_CHANGE, IBV_EVENT_GID_CHANGE] {
                let mut event = ibv_async_event::default();
                assert_eq!(ibv_get_async_event(context, &mut event), 0);
                assert_eq!((event.event_type, event.element.port_num), (wanted, 1));
                ibv_ack_async_event(&mut event);
            }
            assert_eq!(libc::fcntl(fd, libc::F_SETFL, libc::O_NONBLOCK), 0);
            assert_eq!(ibv_get_async_event(context, &mut ibv_async_event::default()), -1);
            assert_eq!(errno(), libc::EAGAIN);
        }
        // A CQ that overruns.
        let [own, other] = contexts;
        assert_eq!(libc::fcntl((*own).async_fd, libc::F_SETFL, 0), 0);
        let pd = ibv_alloc_pd(own);
        let small = ibv_create_cq(own, 1, null_mut(), null_mut(), 0);
        let large = ibv_create_cq(own, 100, null_mut(), null_mut(), 0);
        let mut attr = ibv_qp_init_attr {
            send_cq: small,
            ..init_attr(large)
        };
        let qps = [(); 2].map(|()| ibv_create_qp(pd, &mut attr));
        connect(qps[0], (*qps[1]).qp_num);
        connect(qps[1], (*qps[0]).qp_num);
        // A work queue that completes into it, and one that does not.
        let wqs = [small, large].map(|cq| create_wq(own, pd, cq));
        for wq in wqs {
            let mut ready = ibv_wq_attr {
                attr_mask: IBV_WQ_ATTR_STATE,
                wq_state: IBV_WQS_RDY,
                ..Default::default()
            };
            assert_eq!((*extended(own)).modify_wq.unwrap()(wq, &mut ready), 0);
        }
        for i in 0..30 {
            assert_eq!(post_recv(qps[1], i), 0);
            assert_eq!(post_send(qps[0], &mut [send_wr(i)]), (0, None));
        }
        let poll = (*own).ops.poll_cq.unwrap();
        (0..1000).for_each(|_| assert!(poll(large, 1, &mut ibv_wc::default()) >= 0));
        let mut event = ibv_async_event::default();
        let mut next = |wanted| {
            loop {
                assert_eq!(ibv_get_async_event(own, &mut event), 0);
                ibv_ack_async_event(&mut event);
                if event.event_type == wanted {
                    return event.element;
                }
                assert_eq!(event.event_type, IBV_EVENT_QP_FATAL, "for a QP of that CQ");
            }
        };
        assert_eq!(next(IBV_EVENT_CQ_ERR).cq, small);
        // V-91: the queue that cannot complete any more, and no other.
        assert_eq!(next(IBV_EVENT_WQ_FATAL).wq, wqs[0]);
        assert_eq!(libc::fcntl((*own).async_fd, libc::F_SETFL, libc::O_NONBLOCK), 0);
        while ibv_get_async_event(own, &mut event) == 0 {
            assert_eq!(event.event_type, IBV_EVENT_QP_FATAL);
            ibv_ack_async_event(&mut event);
        }
        assert_eq!(
            ibv_get_async_event(other, &mut event),
            -1,
            "not to who does not have the CQ"
        );
        let destroy_wq = (*extended(own)).destroy_wq.unwrap();
        wqs.iter().for_each(|wq| assert_eq!(destroy_wq(*wq), 0));
        qps.iter().for_each(|qp| assert_eq!(ibv_destroy_qp(*qp), 0));
        [small, large]
            .iter()
            .for_each(|cq| assert_eq!(ibv_destroy_cq(*cq), 0));
        assert_eq!(ibv_dealloc_pd(pd), 0);
        contexts
            .iter()
            .for_each(|context| assert_eq!(ibv_close_device(*context), 0));
    }
}

/// V-55: a CQ holds at least what was asked for, and says so; V-56: it serves many queues, and a completion says of
/// which QP and direction it is (E-7: bit 7 is receive); V-62: an extended CQ is a plain one; V-113: what a QP says.
#[test]
fn one_cq_for_many_queues() {
    let bench = bench(53);
    // SAFETY: live objects.
    unsafe {
        let mut attr = ibv_cq_init_attr_ex {
            cqe: 33,
            cq_context: 0x77 as *mut c_void,
            ..Default::default()
        };
        let cq: *mut ibv_cq =
            (*extended(bench.context)).create_cq_ex.unwrap()(bench.context, &mut attr).cast();
        assert!((*cq).cqe >= 33 && (*cq).context == bench.context);
        assert_eq!((*cq).cq_context as usize, 0x77);
        let qps = [(); 4].map(|()| {
            let qp = ibv_create_qp(bench.pd, &mut init_attr(cq));
            let said = &*qp;
            assert_eq!(
                (said.state, said.qp_type, said.handle),
                (IBV_QPS_RESET, IBV_QPT_RC, said.qp_num)
            );
            assert_eq!((said.send_cq, said.recv_cq, said.pd), (cq, cq, bench.pd));
            qp
        });
        let numbers: HashSet<u32> = qps.iter().map(|qp| (**qp).qp_num).collect();
        assert!(numbers.len() == 4 && numbers.iter().all(|number| *number >> 24 == 0));
        for [a, b] in [[0, 1], [2, 3]] {
            connect(qps[a], (*qps[b]).qp_num);
            connect(qps[b], (*qps[a]).qp_num);
            assert_eq!((*qps[a]).state, IBV_QPS_RTS);
            assert_eq!(post_recv(qps[b], b as u64), 0);
            assert_eq!(post_send(qps[a], &mut [send_wr(a as u64)]), (0, None));
        }
        let mut found: Vec<_> = completions(cq, 4)
            .iter()
            .map(|wc| (wc.wr_id, wc.qp_num, wc.opcode & 128 != 0, wc.status))
            .collect();
        found.sort_unstable();
        let wanted = |i: usize| (i as u64, (*qps[i]).qp_num, i % 2 == 1, IBV_WC_SUCCESS);
        assert_eq!(found, [0, 1, 2, 3].map(wanted));
        qps.iter().for_each(|qp| assert_eq!(ibv_destroy_qp(*qp), 0));
        assert_eq!(ibv_destroy_cq(cq), 0);
    }
    bench.close();
}

/// E-1, E-2, E-4, E-7, E-8, E-10 and the codes of section 8 and 17: the card's are the headers'.
#[test]
fn numbers_of_card_and_headers_are_the_same() {
    let codes = |pairs: &[(u8, u32)]| {
        pairs
            .iter()
            .for_each(|(ours, theirs)| assert_eq!(u32::from(*ours), *theirs))
    };
    assert_eq!(
        (IBV_NODE_CA, IBV_NODE_SWITCH, IBV_NODE_ROUTER, IBV_NODE_RNIC),
        (1, 2, 3, 4)
    );
    codes(&[
        (PortState::Nop.into(), IBV_PORT_NOP),
        (PortState::Down.into(), IBV_PORT_DOWN),
        (PortState::Init.into(), IBV_PORT_INIT),
        (PortState::Armed.into(), IBV_PORT_ARMED),
        (PortState::Active.into(), IBV_PORT_ACTIVE),
        (AtomicCap::None.into(), IBV_ATOMIC_NONE),
        (AtomicCap::Hca.into(), IBV_ATOMIC_HCA),
        (WcOpcode::Send.into(), IBV_WC_SEND),
        (WcOpcode::RdmaWrite.into(), IBV_WC_RDMA_WRITE),
        (WcOpcode::RdmaRead.into(), IBV_WC_RDMA_READ),
        (WcOpcode::CompSwap.into(), IBV_WC_COMP_SWAP),
        (WcOpcode::FetchAdd.into(), IBV_WC_FETCH_ADD),
        (WcOpcode::Recv.into(), IBV_WC_RECV),
        (WcOpcode::RecvRdmaWithImm.into(), IBV_WC_RECV_RDMA_WITH_IMM),
        (wc_flag::GRH, IBV_WC_GRH),
        (wc_flag::WITH_IMM, IBV_WC_WITH_IMM),
        (wc_flag::WITH_INV, IBV_WC_WITH_INV),
        (WcStatus::Success.into(), IBV_WC_SUCCESS),
        (WcStatus::LocLenErr.into(), IBV_WC_LOC_LEN_ERR),
        (WcStatus::LocProtErr.into(), IBV_WC_LOC_PROT_ERR),
        (WcStatus::WrFlushErr.into(), IBV_WC_WR_FLUSH_ERR),
        (WcStatus::RemAccessErr.into(), IBV_WC_REM_ACCESS_ERR),
        (WcStatus::RetryExcErr.into(), IBV_WC_RETRY_EXC_ERR),
        (WcStatus::RnrRetryExcErr.into(), IBV_WC_RNR_RETRY_EXC_ERR),
        (QpState::Reset.into(), IBV_QPS_RESET),
        (QpState::Rts.into(), IBV_QPS_RTS),
        (QpState::Sqd.into(), IBV_QPS_SQD),
        (QpState::Err.into(), IBV_QPS_ERR),
        (Mtu::Bytes256.into(), IBV_MTU_256),
        (Mtu::Bytes4096.into(), IBV_MTU_4096),
        (LinkLayer::Infiniband.into(), IBV_LINK_LAYER_INFINIBAND),
        (LinkLayer::Ethernet.into(), IBV_LINK_LAYER_ETHERNET),
    ]);
    // An event queue's code is the event's, behind 0x10.
    codes(&[
        (u8::from(EventKind::CqErr) - 0x10, IBV_EVENT_CQ_ERR),
        (u8::from(EventKind::QpFatal) - 0x10, IBV_EVENT_QP_FATAL),
        (u8::from(EventKind::CommEst) - 0x10, IBV_EVENT_COMM_EST),
        (u8::from(EventKind::SqDrained) - 0x10, IBV_EVENT_SQ_DRAINED),
        (u8::from(EventKind::DeviceFatal) - 0x10, IBV_EVENT_DEVICE_FATAL),
        (u8::from(EventKind::PortActive) - 0x10, IBV_EVENT_PORT_ACTIVE),
        (u8::from(EventKind::PkeyChange) - 0x10, IBV_EVENT_PKEY_CHANGE),
        (
            u8::from(EventKind::SrqLimitReached) - 0x10,
            IBV_EVENT_SRQ_LIMIT_REACHED,
        ),
        (
            u8::from(EventKind::QpLastWqeReached) - 0x10,
            IBV_EVENT_QP_LAST_WQE_REACHED,
        ),
        (u8::from(EventKind::GidChange) - 0x10, IBV_EVENT_GID_CHANGE),
        (u8::from(EventKind::WqFatal) - 0x10, IBV_EVENT_WQ_FATAL),
    ]);
    // E-3.
    for (ours, theirs) in [
        (device_cap::RESIZE_MAX_WR, IBV_DEVICE_RESIZE_MAX_WR),
        (device_cap::SRQ_RESIZE, IBV_DEVICE_SRQ_RESIZE),
        (device_cap::MEM_WINDOW, IBV_DEVICE_MEM_WINDOW),
        (device_cap::XRC, IBV_DEVICE_XRC),
        (device_cap::MEM_MGT_EXTENSIONS, IBV_DEVICE_MEM_MGT_EXTENSIONS),
    ] {
        assert_eq!(ours, u64::from(theirs));
    }
}
