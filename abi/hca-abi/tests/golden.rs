//! Golden bytes of the structures that hardware reads or writes.

mod common;
use common::expect;
use hca_abi::*;

#[test]
fn sq_wqe_ctrl() {
    let mut w = SqWqeCtrl::new();
    w.set_opcode(WrOpcode::RdmaWriteWithImm.into());
    w.set_signaled(true);
    w.set_fence(true);
    w.set_num_sge(2);
    w.set_imm_data(u32::from_le_bytes([0xde, 0xad, 0xbe, 0xef]));
    w.set_length(0x0001_0203);
    w.set_wqe_index(0x1_fffe);
    w.set_remote_addr(0x1122_3344_5566_7788);
    w.set_rkey(0xaabb_ccdd);
    let parts = [
        (0, "01 05 02 00 de ad be ef 03 02 01 00 fe ff 01"),
        (16, "88 77 66 55 44 33 22 11 dd cc bb aa"),
    ];
    expect(w.as_bytes(), 32, &parts);
    w.set_solicited(true);
    w.set_inline_data(true);
    assert_eq!(w.as_bytes()[1], 0x0f);
}

#[test]
fn sq_wqe_ud_ctrl() {
    let mut w = SqWqeUdCtrl::new();
    w.set_opcode(WrOpcode::Send.into());
    w.set_signaled(true);
    w.set_solicited(true);
    w.set_num_sge(1);
    w.set_imm_data(0x0403_0201);
    w.set_length(64);
    w.set_wqe_index(0x1_0003);
    w.set_remote_qpn(0x00ab_cdef);
    w.set_sgid_index(3);
    w.set_qkey(0x8001_0000);
    w.set_dgid(*b"0123456789abcdef");
    w.set_dmac([1, 2, 3, 4, 5, 6]);
    w.set_dlid(0x1234);
    w.set_flow_label(0xa_bcde);
    w.set_hop_limit(64);
    w.set_traffic_class(0x20);
    w.set_sl(5);
    w.set_is_global(true);
    w.set_src_path_bits(2);
    w.set_udp_src_port(0xc001);
    let parts = [
        (0, "02 03 01 00 01 02 03 04 40 00 00 00 03 00 01"),
        (16, "ef cd ab 03 00 00 01 80"),
        (24, "30 31 32 33 34 35 36 37 38 39 61 62 63 64 65 66"),
        (40, "01 02 03 04 05 06 34 12 de bc 0a 40 20 15 02 00 01 c0"),
    ];
    expect(w.as_bytes(), 64, &parts);
}

#[test]
fn sq_wqe_atomic() {
    let mut a = SqWqeAtomic::new();
    a.set_compare_add(1);
    a.set_swap(0x8000_0000_0000_0002);
    expect(a.as_bytes(), 16, &[(0, "01"), (8, "02 00 00 00 00 00 00 80")]);
}

#[test]
fn sq_wqe_bind() {
    let mut b = SqWqeBind::new();
    b.set_length(0x10_0000_0001);
    b.set_lkey(0x0000_1107);
    b.set_access(0x2e);
    b.set_is_type_2(true);
    expect(
        b.as_bytes(),
        32,
        &[(0, "01 00 00 00 10 00 00 00 07 11 00 00 2e 01")],
    );
}

#[test]
fn sge() {
    let mut s = Sge::new();
    s.set_addr(0x7fff_0000_1000);
    s.set_length(0x200);
    s.set_lkey(0x0000_1107);
    expect(
        s.as_bytes(),
        16,
        &[(0, "00 10 00 00 ff 7f 00 00 00 02 00 00 07 11 00 00")],
    );
}

#[test]
fn rq_wqe_ctrl() {
    let mut w = RqWqeCtrl::new();
    w.set_num_sge(16);
    w.set_length(0x1234_5678);
    w.set_wqe_index(0x1_0a0b);
    expect(w.as_bytes(), 16, &[(0, "10 00 00 00 78 56 34 12 0b 0a 01")]);
}

#[test]
fn cqe() {
    let mut c = Cqe::new();
    c.set_wqe_index(0x0102);
    c.set_opcode(WcOpcode::RecvRdmaWithImm.into());
    c.set_status(WcStatus::RnrRetryExcErr.into());
    c.set_qpn(0x00aa_bbcc);
    c.set_byte_len(0x1000);
    c.set_imm_data(0x4433_2211);
    c.set_timestamp(0x0123_4567_89ab_cdef);
    c.set_src_qp(7);
    c.set_wc_flags(wc_flag::GRH | wc_flag::WITH_IMM);
    c.set_sl(5);
    c.set_pkey_index(0x0304);
    c.set_slid(0xbeef);
    c.set_dlid_path_bits(0x7f);
    c.set_vendor_err(0x62);
    c.set_phase(true);
    let parts = [
        (
            0,
            "02 01 81 0d cc bb aa 00 00 10 00 00 11 22 33 44 ef cd ab 89 67 45 23 01",
        ),
        (24, "07 00 00 00 03 05 04 03 ef be 7f 62"),
        (60, "01"),
    ];
    expect(c.as_bytes(), 64, &parts);
}

#[test]
fn eqe() {
    let mut e = Eqe::new();
    e.set_kind(EventKind::QpAccessErr.into());
    e.set_eqn(9);
    e.set_id(0x0001_0002);
    e.set_data0(0x62);
    e.set_data1(0xffff_ffff);
    e.set_timestamp(0x10);
    e.set_phase(true);
    let parts = [
        (0, "13 00 09 00 02 00 01 00 62 00 00 00 ff ff ff ff 10"),
        (60, "01"),
    ];
    expect(e.as_bytes(), 64, &parts);
}

#[test]
fn hw_event() {
    let mut e = HwEvent::new();
    e.set_kind(HwEventKind::QpFlushNeeded.into());
    e.set_func(3);
    e.set_id(0x1234);
    e.set_cause(0x0002_620a);
    expect(e.as_bytes(), 12, &[(0, "0a 03 00 00 34 12 00 00 0a 62 02 00")]);
}

fn connected_qpc() -> Qpc {
    let mut q = Qpc::new();
    q.set_state(QpState::Rts.into());
    q.set_service(Service::Xrc.into());
    q.set_access(access::REMOTE_WRITE | access::REMOTE_ATOMIC);
    q.set_sq_sig_all(true);
    q.set_is_global(true);
    q.set_is_ipv4(true);
    q.set_func(2);
    q.set_port(1);
    q.set_path_mtu(Mtu::Bytes4096.into());
    q.set_pd(0x010203);
    q.set_pkey_index(31);
    q.set_dest_qpn(0xabcdef);
    q.set_max_rd_atomic(16);
    q.set_qkey(0x1111_2222);
    q.set_sq_base(0x1000);
    q.set_rq_base(0x2000_0000_0000_0040);
    q.set_send_cqn(0x10);
    q.set_sq_log_size(16);
    q.set_sq_log_stride(3);
    q.set_recv_cqn(0x20);
    q.set_rq_log_size(4);
    q.set_rq_log_stride(1);
    q.set_srqn(0x30);
    q.set_max_dest_rd_atomic(8);
    q.set_sq_psn(0xfffffe);
    q.set_timeout(14);
    q.set_rq_psn(0x000001);
    q.set_retry_cnt(7);
    q.set_rnr_retry(6);
    q
}

#[test]
fn qpc() {
    let mut q = connected_qpc();
    q.set_min_rnr_timer(12);
    q.set_sgid_index(15);
    q.set_sl(3);
    q.set_src_path_bits(0x55);
    q.set_rate_limit(100_000);
    q.set_udp_src_port(0xc001);
    q.set_dlid(0xbfff);
    q.set_dgid([0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 192, 168, 0, 2]);
    q.set_sgid([0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 192, 168, 0, 1]);
    q.set_dmac([2, 0, 0, 0, 0, 0x0b]);
    q.set_hop_limit(64);
    q.set_traffic_class(0x68);
    q.set_flow_label(0xfedcb);
    q.set_static_rate(9);
    let parts = [
        (0, "53 6d 02 51 03 02 01 1f ef cd ab 10 22 22 11 11"),
        (16, "00 10 00 00 00 00 00 00 40 00 00 00 00 00 00 20"),
        (32, "10 00 00 70 20 00 00 24 30 00 00 48 fe ff ff 0e"),
        (48, "01 00 00 67 0c 0f 03 55 a0 86 01 00 01 c0 ff bf"),
        (64, "00 00 00 00 00 00 00 00 00 00 ff ff c0 a8 00 02"),
        (80, "fe 80 00 00 00 00 00 00 00 00 ff ff c0 a8 00 01"),
        (96, "02 00 00 00 00 0b 40 68 cb ed 0f 09"),
    ];
    expect(q.as_bytes(), 256, &parts);
    q.set_has_srq(true);
    assert_eq!(q.as_bytes()[1], 0x7d);
}

/// What a QP was: indices of 17 bits, one behind the other.
#[test]
fn qpc_record() {
    let mut q = Qpc::new();
    q.set_sq_pi(0x1_0203);
    q.set_una_wqe(0x0_ffff);
    q.set_rq_pi(0x1_0000);
    q.set_rd_done(0x8001);
    q.set_una_psn(0xab_cdef);
    q.set_record([0x55; 56]);
    // 0x10203 | 0xffff << 17 | 0x10000 << 34 | 0x8001 << 51
    let mut tail = String::from("03 02 ff ff 01 00 0c 00 04 ef cd ab");
    tail.push_str(&" 55".repeat(56));
    expect(q.as_bytes(), 256, &[(128, &tail)]);
}

#[test]
fn mpt() {
    let mut m = Mpt::new();
    m.set_valid(true);
    m.set_is_window(true);
    m.set_access(access::LOCAL_WRITE | access::REMOTE_READ | access::ZERO_BASED | access::RELAXED_ORDERING);
    m.set_tag(0xa5);
    m.set_func(1);
    m.set_pd(0x030201);
    m.set_page_shift(63);
    m.set_is_type_2(true);
    m.set_qpn(0x0c0b0a);
    m.set_region(0x54321);
    m.set_list_offset(0x1234);
    m.set_start(0x7f00_0000_0000);
    m.set_length(0x10_0000);
    m.set_iova(0x4000_0000_0000_0000);
    let parts = [
        (0, "07 25 a5 01 01 02 03 3f 0a 0b 0c 00 21 43 05 00"),
        (
            16,
            "00 00 00 00 00 7f 00 00 00 00 10 00 00 00 00 00 00 00 00 00 00 00 00 40 \
             34 12",
        ),
    ];
    expect(m.as_bytes(), 64, &parts);
    assert_eq!(m.access(), 0x25);
    assert!(m.local_write() && m.remote_read() && m.zero_based());
    assert!(!m.remote_write() && !m.remote_atomic() && !m.mw_bind());
}

#[test]
fn cqc_eqc() {
    let mut c = Cqc::new();
    c.set_valid(true);
    c.set_func(4);
    c.set_log_size(22);
    c.set_eqn(17);
    c.set_base(0xffff_0000);
    expect(c.as_bytes(), 64, &[(0, "01 04 16 11"), (8, "00 00 ff ff")]);

    let mut q = Srqc::new();
    q.set_valid(true);
    q.set_keep(true);
    q.set_func(1);
    q.set_log_size(16);
    q.set_limit_tag(7);
    q.set_limit(0x1_0000);
    q.set_base(0x5_0000_0040);
    q.set_slots_log_size(16);
    q.set_slots_log_stride(3);
    expect(
        q.as_bytes(),
        64,
        &[
            (0, "03 01 10 07 00 00 01"),
            (8, "40 00 00 00 05 00 00 00"),
            (24, "70"),
        ],
    );

    let mut e = Eqc::new();
    e.set_valid(true);
    e.set_func(4);
    e.set_log_size(10);
    e.set_vector(0x7fe);
    e.set_base(0xabcd_e000);
    expect(e.as_bytes(), 64, &[(0, "01 04 0a 00 fe 07"), (8, "00 e0 cd ab")]);
}

#[test]
fn doorbells() {
    let mut d = SqDoorbell::new();
    d.set_qpn(0x123456);
    d.set_producer_index(0x1_beef);
    assert_eq!(d.to_word(), 0x0001_beef_0012_3456);
    let mut d = RqDoorbell::new();
    d.set_qpn(0xffffff);
    d.set_producer_index(1);
    assert_eq!(d.to_word(), 0x0000_0001_00ff_ffff);
    let mut d = CqDoorbell::new();
    d.set_cqn(0x000010);
    d.set_arm(CqArm::Solicited.into());
    d.set_consumer_index(0xabcdef);
    assert_eq!(d.to_word(), 0x00ab_cdef_0200_0010);
    let mut d = EqDoorbell::new();
    d.set_eqn(0x7f);
    d.set_consumer_index(0x0102);
    assert_eq!(d.to_word(), 0x0000_0102_0000_007f);
    let mut d = AdminDoorbell::new();
    d.set_producer_index(0x8001);
    assert_eq!(d.to_word(), 0x8001);
    let mut d = SrqDoorbell::new();
    d.set_srqn(5);
    d.set_producer_index(0x1_0006);
    assert_eq!(d.to_word(), 0x0001_0006_0000_0005);
    assert_eq!(SrqDoorbell::from_word(d.to_word()), d);
}

#[test]
fn numbers_that_others_rely_on() {
    assert_eq!(HCA_ID.to_be_bytes(), *b"HCA1");
    assert_eq!(DOORBELL_PAGE_OFFSET + CQ_DOORBELL_OFFSET, 0x1010);
    assert_eq!(32 + 16 * MAX_SGE, 288);
    assert_eq!(
        MAX_INLINE_BYTES,
        (MIN_WQE_STRIDE_BYTES << MAX_LOG_WQE_STRIDE) - 32
    );
    assert_eq!(qp_attr::RATE_LIMIT, 1 << 25);
    assert_eq!(qp_attr::DEST_QPN, 1 << 20);
    assert_eq!(EventKind::GidChange as u32, EVENT_KIND_BASE + 18);
    assert_eq!(
        WcStatus::try_from(24),
        Err(UnknownCode {
            what: "wc_status",
            code: 24
        })
    );
}
