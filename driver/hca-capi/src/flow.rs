//! The life of a program by the functions themselves, without their exported names: Miri, which runs this to judge the
//! pointers (`make miri`), does not see symbols that an assembler makes.

use std::ffi::c_int;
use std::ptr::null_mut;
use std::sync::Arc;

use hca_verbs::{Context, OpenOptions};

use crate::abi::*;
use crate::boundary::Verb;
use crate::sockets::{Cards, DevPtr, install_cards};
use crate::{channel, context, cq, cq_ex, device, memory, post, qp};

#[path = "../tests/common/locked.rs"]
mod locked;

struct OneFake;

impl Cards for OneFake {
    fn list(&self) -> Vec<u32> {
        vec![0]
    }

    fn claim(&self, _number: u32) -> Verb<Context<DevPtr>> {
        let device: DevPtr = Arc::new(locked::Locked::new());
        Ok(Context::open_with(device, &OpenOptions::simulated())?)
    }
}

/// To RTS, with a QP of the same card.
unsafe fn connect(raw: *mut ibv_qp, dest_qp_num: u32) {
    let dgid = ibv_gid {
        raw: [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 0, 0, 1],
    };
    let mut attr = ibv_qp_attr {
        port_num: 1,
        qp_access_flags: 7,
        path_mtu: IBV_MTU_1024,
        dest_qp_num,
        ah_attr: ibv_ah_attr {
            grh: ibv_global_route {
                dgid,
                sgid_index: 1,
                hop_limit: 64,
                ..Default::default()
            },
            is_global: 1,
            port_num: 1,
            ..Default::default()
        },
        max_dest_rd_atomic: 1,
        max_rd_atomic: 1,
        timeout: 14,
        ..Default::default()
    };
    let path = IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
    let retries = IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY;
    for (state, mask) in [
        (
            IBV_QPS_INIT,
            IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS,
        ),
        (
            IBV_QPS_RTR,
            path | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER,
        ),
        (IBV_QPS_RTS, IBV_QP_SQ_PSN | retries | IBV_QP_MAX_QP_RD_ATOMIC),
    ] {
        attr.qp_state = state;
        // SAFETY: the caller's QP.
        unsafe {
            assert_eq!(qp::modify_qp(raw, &mut attr, (mask | IBV_QP_STATE) as c_int), 0);
            assert_eq!((*raw).state, state);
        }
    }
}

struct Program {
    context: *mut ibv_context,
    pd: *mut ibv_pd,
    channel: *mut ibv_comp_channel,
    cq: *mut ibv_cq_ex,
    qps: [*mut ibv_qp; 2],
}

impl Program {
    unsafe fn new() -> Self {
        assert!(install_cards(Box::new(OneFake)));
        // SAFETY: each object is made before it is used.
        unsafe {
            let list = device::get_device_list(null_mut());
            let context = context::open_device(*list);
            device::free_device_list(list);
            let (pd, channel) = (memory::alloc_pd(context), channel::create_comp_channel(context));
            let mut attr = ibv_cq_init_attr_ex {
                cqe: 20,
                channel,
                ..Default::default()
            };
            let cq = cq_ex::create_cq_ex(context, &mut attr);
            let cap = ibv_qp_cap {
                max_send_wr: 4,
                max_recv_wr: 4,
                max_send_sge: 1,
                max_recv_sge: 1,
                max_inline_data: 16,
            };
            let mut attr = ibv_qp_init_attr_ex {
                send_cq: cq.cast(),
                recv_cq: cq.cast(),
                cap,
                qp_type: IBV_QPT_RC,
                comp_mask: IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
                pd,
                send_ops_flags: IBV_QP_EX_WITH_SEND.into(),
                ..Default::default()
            };
            let qps = [(); 2].map(|()| qp::create_qp_ex(context, &mut attr));
            connect(qps[0], (*qps[1]).qp_num);
            connect(qps[1], (*qps[0]).qp_num);
            Self {
                context,
                pd,
                channel,
                cq,
                qps,
            }
        }
    }

    /// A message by each of the two interfaces.
    unsafe fn two_messages(&self) {
        let mut bad = null_mut();
        // SAFETY: live objects.
        unsafe {
            for wr_id in [1, 2] {
                let mut recv = ibv_recv_wr {
                    wr_id,
                    ..Default::default()
                };
                assert_eq!(post::post_recv(self.qps[1], &mut recv, &mut bad), 0);
            }
            let mut send = ibv_send_wr {
                opcode: IBV_WR_SEND,
                ..Default::default()
            };
            assert_eq!(post::post_send(self.qps[0], &mut send, &mut null_mut()), 0);
            let qp = qp::qp_to_qp_ex(self.qps[0]);
            (*qp).wr_start.unwrap()(qp);
            ((*qp).wr_id, (*qp).wr_flags) = (7, 0);
            (*qp).wr_send.unwrap()(qp);
            (*qp).wr_set_inline_data.unwrap()(qp, null_mut(), 0);
            assert_eq!((*qp).wr_complete.unwrap()(qp), 0);
        }
    }

    /// The wr_ids of two completions, one by each of the two interfaces.
    unsafe fn two_completions(&self) -> [u64; 2] {
        let (cq, mut wc) = (self.cq, ibv_wc::default());
        // SAFETY: live objects.
        unsafe {
            while cq::poll_cq(cq.cast(), 1, &mut wc) == 0 {}
            assert_eq!(wc.status, IBV_WC_SUCCESS);
            while (*cq).start_poll.unwrap()(cq, null_mut()) != 0 {}
            let found = ((*cq).status, (*cq).read_opcode.unwrap()(cq));
            assert_eq!(found, (IBV_WC_SUCCESS, IBV_WC_RECV));
            let second = (*cq).wr_id;
            assert_eq!((*cq).next_poll.unwrap()(cq), libc::ENOENT);
            (*cq).end_poll.unwrap()(cq);
            [wc.wr_id, second]
        }
    }

    unsafe fn close(self) {
        // SAFETY: made in `new`, and used by nobody any more.
        unsafe {
            self.qps.iter().for_each(|qp| assert_eq!(qp::destroy_qp(*qp), 0));
            assert_eq!(cq::destroy_cq(self.cq.cast()), 0);
            assert_eq!(channel::destroy_comp_channel(self.channel), 0);
            assert_eq!(memory::dealloc_pd(self.pd), 0);
            assert_eq!(context::close_device(self.context), 0);
        }
    }
}

#[test]
fn a_program_from_open_to_close() {
    // SAFETY: the program's own objects, in their order.
    unsafe {
        let program = Program::new();
        program.two_messages();
        assert_eq!(program.two_completions(), [1, 2]);
        assert_eq!(cq::req_notify_cq(program.cq.cast(), 0), 0);
        program.two_messages();
        let (cq_of, other) = (&mut null_mut(), &mut null_mut());
        // The card works while somebody polls; then the event comes.
        assert_eq!(program.two_completions(), [1, 2]);
        assert_eq!(channel::get_cq_event(program.channel, cq_of, other), 0);
        assert_eq!(*cq_of, program.cq.cast());
        // Acknowledged on another thread, while this one destroys.
        let cq = program.cq as usize;
        let acknowledge = std::thread::spawn(move || channel::ack_cq_events(cq as *mut ibv_cq, 1));
        program.close();
        acknowledge.join().unwrap();
    }
}
