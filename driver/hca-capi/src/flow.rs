//! The life of a program by the functions themselves, without their exported names: Miri, which runs this to judge the
//! pointers (`make miri`), does not see symbols that an assembler makes.

use std::ffi::c_int;
use std::ptr::null_mut;
use std::sync::Arc;

use hca_verbs::{Context, OpenOptions};

use crate::abi::*;
use crate::boundary::Verb;
use crate::cards::{Cards, DevPtr, install_cards};
use crate::entry::{channel, context, cq, cq_ex, device, memory, post, qp};

#[path = "../tests/common/attr.rs"]
mod attr;
#[path = "../tests/common/locked.rs"]
mod locked;
use attr::{init_attr_ex, steps};

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
    for (mut attr, mask) in steps(dest_qp_num, dgid) {
        // SAFETY: the caller's QP.
        unsafe {
            assert_eq!(qp::modify_qp(raw, &mut attr, mask as c_int), 0);
            assert_eq!((*raw).state, attr.qp_state);
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
            let mut attr = init_attr_ex(pd, cq.cast(), IBV_QP_EX_WITH_SEND);
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
