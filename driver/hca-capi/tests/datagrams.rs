//! Datagrams through the C interface: address handles, QPs of UD, both ways of posting.

mod common;

use std::ffi::c_int;
use std::ptr::null_mut;

use common::*;
use ibverbs::abi::*;

/// QPS-25: the key of the manual's sample.
const QKEY: u32 = 0x2222_2222;
const GRH_BYTES: u32 = 40;
const SIZE: usize = 8192;

/// Two QPs in RTS, with memory of 8 KiB that both know.
struct Pair {
    context: *mut ibv_context,
    pd: *mut ibv_pd,
    cq: *mut ibv_cq,
    mr: *mut ibv_mr,
    qps: [*mut ibv_qp; 2],
    memory: Vec<u8>,
}

fn modify(qp: *mut ibv_qp, qp_state: u32, mask: u32) -> c_int {
    let mut attr = ibv_qp_attr {
        qp_state,
        port_num: 1,
        qkey: QKEY,
        sq_psn: 0xffff_ffff,
        ..Default::default()
    };
    // SAFETY: a live QP.
    unsafe { ibv_modify_qp(qp, &mut attr, (IBV_QP_STATE | mask) as c_int) }
}

/// The steps and masks of ibv_ud_pingpong.
fn to_rts(qp: *mut ibv_qp) {
    for (state, mask) in [
        (IBV_QPS_INIT, IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY),
        (IBV_QPS_RTR, 0),
        (IBV_QPS_RTS, IBV_QP_SQ_PSN),
    ] {
        assert_eq!(modify(qp, state, mask), 0, "to state {state}");
    }
}

fn ud(cq: *mut ibv_cq) -> ibv_qp_init_attr {
    ibv_qp_init_attr {
        qp_type: IBV_QPT_UD,
        ..init_attr(cq)
    }
}

/// The way to the card itself, as ibv_ud_pingpong asks for it.
fn own(context: *mut ibv_context) -> ibv_ah_attr {
    let mut dgid = ibv_gid::default();
    // SAFETY: an open context.
    assert_eq!(unsafe { ibv_query_gid(context, 1, 1, &mut dgid) }, 0);
    ibv_ah_attr {
        grh: ibv_global_route {
            dgid,
            sgid_index: 1,
            hop_limit: 1,
            ..Default::default()
        },
        is_global: 1,
        port_num: 1,
        ..Default::default()
    }
}

impl Pair {
    fn new(card: usize, is_ex: bool) -> Self {
        let context = open(card);
        let mut memory = vec![0; SIZE];
        // SAFETY: all of it is alive; results are checked.
        unsafe {
            let pd = ibv_alloc_pd(context);
            let cq = ibv_create_cq(context, 100, null_mut(), null_mut(), 0);
            let access = IBV_ACCESS_LOCAL_WRITE as c_int;
            let mr = ibv_reg_mr(pd, memory.as_mut_ptr().cast(), SIZE, access);
            let ops = IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM;
            let qps = [(); 2].map(|()| {
                if is_ex {
                    let mut attr = init_attr_ex(pd, cq, ops);
                    attr.qp_type = IBV_QPT_UD;
                    (*extended(context)).create_qp_ex.unwrap()(context, &mut attr)
                } else {
                    ibv_create_qp(pd, &mut ud(cq))
                }
            });
            assert!(!mr.is_null() && qps.iter().all(|qp| !qp.is_null()));
            qps.iter().for_each(|qp| to_rts(*qp));
            Self {
                context,
                pd,
                cq,
                mr,
                qps,
                memory,
            }
        }
    }

    fn number(&self, qp: usize) -> u32 {
        // SAFETY: a live QP.
        unsafe { (*self.qps[qp]).qp_num }
    }

    fn create_ah(&self) -> *mut ibv_ah {
        // SAFETY: a live PD.
        let ah = unsafe { ibv_create_ah(self.pd, &mut own(self.context)) };
        assert!(!ah.is_null());
        ah
    }

    /// A part of the memory.
    fn sge(&self, at: usize, length: u32) -> ibv_sge {
        ibv_sge {
            addr: self.memory[at..].as_ptr() as u64,
            length,
            // SAFETY: a live region.
            lkey: unsafe { (*self.mr).lkey },
        }
    }

    fn post_recv(&self, qp: usize, wr_id: u64, sge: &mut ibv_sge) {
        let mut wr = ibv_recv_wr {
            wr_id,
            sg_list: sge,
            num_sge: 1,
            ..Default::default()
        };
        let mut bad = null_mut();
        // SAFETY: a live QP and list.
        let post = unsafe { (*self.context).ops.post_recv.unwrap() };
        // SAFETY: as above.
        assert_eq!(unsafe { post(self.qps[qp], &mut wr, &mut bad) }, 0);
    }

    fn close(self) {
        // SAFETY: created above, and nobody else has them.
        unsafe {
            for qp in self.qps {
                assert_eq!(ibv_destroy_qp(qp), 0);
            }
            assert_eq!(ibv_dereg_mr(self.mr), 0);
            assert_eq!(ibv_destroy_cq(self.cq), 0);
            assert_eq!(ibv_dealloc_pd(self.pd), 0);
            assert_eq!(ibv_close_device(self.context), 0);
        }
    }
}

fn to(ah: *mut ibv_ah, remote_qpn: u32, mut wr: ibv_send_wr) -> ibv_send_wr {
    wr.wr.ud.ah = ah;
    wr.wr.ud.remote_qpn = remote_qpn;
    wr.wr.ud.remote_qkey = QKEY;
    wr
}

fn by_wr_id(wc: &[ibv_wc], wr_id: u64) -> &ibv_wc {
    wc.iter()
        .find(|wc| wc.wr_id == wr_id)
        .expect("no such completion")
}

/// OP-22, E-9, V-145, V-148: there with a handle, and back with one from the completion and its header.
#[test]
fn there_and_back() {
    let pair = Pair::new(0, false);
    let (client, server) = (pair.number(0), pair.number(1));
    let ah = pair.create_ah();
    let mut recvs = [pair.sge(0, 2048), pair.sge(4096, 2048)];
    pair.post_recv(0, 100, &mut recvs[0]);
    pair.post_recv(1, 101, &mut recvs[1]);
    let mut data = *b"ping";
    let mut sge = ibv_sge {
        addr: data.as_mut_ptr() as u64,
        length: 4,
        lkey: 0,
    };
    let mut wr = to(ah, server, send_wr(1));
    wr.send_flags |= IBV_SEND_INLINE;
    (wr.sg_list, wr.num_sge) = (&mut sge, 1);
    assert_eq!(post_send(pair.qps[0], &mut [wr]), (0, None));
    let wc = completions(pair.cq, 2);
    let (sent, mut got) = (*by_wr_id(&wc, 1), *by_wr_id(&wc, 101));
    assert_eq!((sent.status, sent.opcode), (IBV_WC_SUCCESS, IBV_WC_SEND));
    assert_eq!(
        (got.status, got.opcode, got.byte_len),
        (IBV_WC_SUCCESS, IBV_WC_RECV, GRH_BYTES + 4)
    );
    assert_eq!(
        (got.src_qp, got.qp_num, got.wc_flags),
        (client, server, IBV_WC_GRH)
    );
    // The card's side of the memory.
    let mut bytes = [0; 44];
    LAST_MAPPED.with_borrow(|buf| buf.as_ref().unwrap().read_bytes(4096, &mut bytes));
    assert_eq!(&bytes[40..], b"ping");
    // SAFETY: live objects, and 40 bytes.
    unsafe {
        let back = ibv_create_ah_from_wc(pair.pd, &mut got, bytes.as_mut_ptr().cast(), 1);
        assert!(!back.is_null());
        assert_eq!(((*back).context, (*back).pd), (pair.context, pair.pd));
        let mut wr = to(back, got.src_qp, send_wr(2));
        (wr.opcode, wr.__bindgen_anon_1.imm_data) = (IBV_WR_SEND_WITH_IMM, 0x7788u32.to_be());
        assert_eq!(post_send(pair.qps[1], &mut [wr]), (0, None));
        let wc = completions(pair.cq, 2);
        let got = by_wr_id(&wc, 100);
        assert_eq!((got.byte_len, got.src_qp), (GRH_BYTES, server));
        assert_eq!(got.wc_flags, IBV_WC_GRH | IBV_WC_WITH_IMM);
        assert_eq!(got.__bindgen_anon_1.imm_data, 0x7788u32.to_be());
        assert!(ibv_create_ah_from_wc(pair.pd, &mut { *got }, null_mut(), 1).is_null());
        assert_eq!(errno(), libc::EINVAL);
        // V-145, MEM-2: the domain is in use.
        let mut attr = ibv_device_attr::default();
        assert_eq!(ibv_query_device(pair.context, &mut attr), 0);
        assert_eq!(attr.max_ah, c_int::MAX);
        assert_ne!(attr.device_cap_flags & IBV_DEVICE_UD_AV_PORT_ENFORCE, 0);
        for handle in [ah, back] {
            assert_eq!(ibv_dealloc_pd(pair.pd), libc::EBUSY);
            assert_eq!(ibv_destroy_ah(handle), 0);
            assert_eq!(ibv_destroy_ah(handle), libc::EINVAL, "twice");
        }
    }
    pair.close();
}

/// V-160: the first work request that is none of a datagram is named, and those before it are sent.
#[test]
fn posts_stop_at_the_bad_one() {
    let pair = Pair::new(1, false);
    let ah = pair.create_ah();
    let peer = pair.number(1);
    let good = |wr_id| to(ah, peer, send_wr(wr_id));
    let mut long = [pair.sge(0, 4097)];
    let mut too_long = good(0);
    (too_long.sg_list, too_long.num_sge) = (long.as_mut_ptr(), 1);
    for bad in [
        to(null_mut(), peer, send_wr(0)),
        to(ah, 1 << 24, send_wr(0)),
        ibv_send_wr {
            opcode: IBV_WR_RDMA_WRITE,
            ..good(0)
        },
        too_long,
    ] {
        let mut list: Vec<_> = (1..4).map(good).collect();
        list.push(bad);
        list.push(good(5));
        assert_eq!(post_send(pair.qps[0], &mut list), (libc::EINVAL, Some(3)));
        assert_eq!(post_send(pair.qps[0], &mut [bad]), (libc::EINVAL, Some(0)));
        let ids: Vec<u64> = completions(pair.cq, 3).iter().map(|wc| wc.wr_id).collect();
        assert_eq!(ids, [1, 2, 3]);
    }
    // MEM-2: a handle of another domain.
    // SAFETY: live objects.
    unsafe {
        let other = ibv_alloc_pd(pair.context);
        let foreign = ibv_create_ah(other, &mut own(pair.context));
        let wr = to(foreign, peer, send_wr(0));
        assert_eq!(post_send(pair.qps[0], &mut [wr]), (libc::EINVAL, Some(0)));
        assert_eq!(ibv_destroy_ah(foreign), 0);
        assert_eq!(ibv_dealloc_pd(other), 0);
        assert_eq!(ibv_destroy_ah(ah), 0);
    }
    pair.close();
}

/// V-176, V-179: builders of SEND, and the destination, without which nothing of a section is sent.
#[test]
fn sections_with_destinations() {
    let pair = Pair::new(2, true);
    let ah = pair.create_ah();
    let mut recv = pair.sge(0, 64);
    // SAFETY: live objects; slots are checked.
    unsafe {
        let mut attr = init_attr_ex(pair.pd, pair.cq, IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_RDMA_WRITE);
        attr.qp_type = IBV_QPT_UD;
        let create = (*extended(pair.context)).create_qp_ex.unwrap();
        assert!(create(pair.context, &mut attr).is_null());
        assert_eq!(errno(), libc::EOPNOTSUPP);
        attr.qp_type = IBV_QPT_RC;
        let connected = create(pair.context, &mut attr);
        assert!((*ibv_qp_to_qp_ex(connected)).wr_set_ud_addr.is_none());
        assert_eq!(ibv_destroy_qp(connected), 0);

        let qp = ibv_qp_to_qp_ex(pair.qps[0]);
        assert!((*qp).wr_rdma_write.is_none());
        let set = (*qp).wr_set_ud_addr.unwrap();
        let build = |wr_id| {
            ((*qp).wr_id, (*qp).wr_flags) = (wr_id, IBV_SEND_SIGNALED);
            (*qp).wr_send_imm.unwrap()(qp, 0x55u32.to_be());
            (*qp).wr_set_inline_data.unwrap()(qp, b"hello".as_ptr().cast_mut().cast(), 5);
        };
        for handle in [None, Some(null_mut())] {
            (*qp).wr_start.unwrap()(qp);
            build(1);
            set(qp, ah, pair.number(1), QKEY);
            build(2);
            if let Some(handle) = handle {
                set(qp, handle, pair.number(1), QKEY);
            }
            assert_eq!((*qp).wr_complete.unwrap()(qp), libc::EINVAL);
        }
        (*qp).wr_start.unwrap()(qp);
        set(qp, ah, pair.number(1), QKEY);
        assert_eq!((*qp).wr_complete.unwrap()(qp), libc::EINVAL, "no work request");
        for wr_id in 100..102 {
            pair.post_recv(1, wr_id, &mut recv);
        }
        (*qp).wr_start.unwrap()(qp);
        build(3);
        set(qp, ah, pair.number(1), QKEY);
        build(4);
        set(qp, ah, pair.number(1), QKEY);
        // Its way is in the section by now.
        assert_eq!(ibv_destroy_ah(ah), 0);
        assert_eq!((*qp).wr_complete.unwrap()(qp), 0);
        let wc = completions(pair.cq, 4);
        assert!(wc.iter().all(|wc| wc.status == IBV_WC_SUCCESS));
        let got = by_wr_id(&wc, 101);
        assert_eq!(
            (got.byte_len, got.__bindgen_anon_1.imm_data),
            (45, 0x55u32.to_be())
        );
    }
    pair.close();
}

/// QPS-T-UD, V-110, V-121: masks, sizes and what a query says.
#[test]
fn attributes_of_datagram_qps() {
    let pair = Pair::new(3, false);
    // SAFETY: live objects.
    unsafe {
        let mut attr = ud(pair.cq);
        let qp = ibv_create_qp(pair.pd, &mut attr);
        assert_eq!((attr.cap.max_send_sge, attr.cap.max_inline_data), (4, 64));
        let init = IBV_QP_PKEY_INDEX | IBV_QP_PORT;
        assert_eq!(modify(qp, IBV_QPS_INIT, init), libc::EINVAL, "no Q_Key");
        assert_eq!(
            modify(qp, IBV_QPS_INIT, init | IBV_QP_QKEY | IBV_QP_ACCESS_FLAGS),
            libc::EINVAL
        );
        assert_eq!(modify(qp, IBV_QPS_INIT, init | IBV_QP_QKEY), 0);
        assert_eq!(modify(qp, IBV_QPS_RTR, IBV_QP_AV), libc::EINVAL);
        let mut bad = null_mut();
        let post = (*pair.context).ops.post_send.unwrap();
        assert_eq!(post(qp, &mut send_wr(1), &mut bad), libc::EINVAL, "QPS-5");
        to_rts_from_init(qp);
        let (mut now, mut made) = (ibv_qp_attr::default(), ibv_qp_init_attr::default());
        assert_eq!(ibv_query_qp(qp, &mut now, IBV_QP_QKEY as c_int, &mut made), 0);
        assert_eq!((now.qp_state, now.qkey, now.port_num), (IBV_QPS_RTS, QKEY, 1));
        assert_eq!((now.sq_psn, now.path_mtu), (0xff_ffff, IBV_MTU_4096));
        assert_eq!((made.qp_type, made.cap.max_inline_data), (IBV_QPT_UD, 64));
        assert_eq!(ibv_destroy_qp(qp), 0);
        attr.cap.max_inline_data = 449;
        assert!(ibv_create_qp(pair.pd, &mut attr).is_null());
        assert_eq!(errno(), libc::EINVAL);
    }
    pair.close();
}

fn to_rts_from_init(qp: *mut ibv_qp) {
    assert_eq!(modify(qp, IBV_QPS_RTR, 0), 0);
    assert_eq!(modify(qp, IBV_QPS_RTS, IBV_QP_SQ_PSN), 0);
}

/// V-145: which errno says what is wrong with an address.
#[test]
fn addresses_that_lead_nowhere() {
    let pair = Pair::new(4, false);
    let refused = |change: &dyn Fn(&mut ibv_ah_attr), wanted: c_int| {
        let mut attr = own(pair.context);
        change(&mut attr);
        // SAFETY: a live PD.
        assert!(unsafe { ibv_create_ah(pair.pd, &mut attr) }.is_null());
        assert_eq!(errno(), wanted);
    };
    refused(&|a| a.is_global = 0, libc::EINVAL);
    refused(&|a| a.port_num = 2, libc::EINVAL);
    refused(&|a| a.grh.sgid_index = 14, libc::EINVAL);
    refused(&|a| a.static_rate = 77, libc::EINVAL);
    refused(&|a| a.static_rate = IBV_RATE_10_GBPS as u8, libc::EOPNOTSUPP);
    let stranger = hca_verbs::gid_of_ipv4([10, 1, 2, 3]);
    refused(&|a| a.grh.dgid = ibv_gid { raw: stranger }, libc::EHOSTUNREACH);
    pair.close();
}
