//! Golden bytes of admin commands and completions.

mod common;
use common::expect;
use hca_abi::*;

#[test]
fn command_and_completion() {
    let mut body = HandleCmd::new();
    body.set_handle(0x0102_0304);
    let mut cmd = AdminCmd::new();
    cmd.set_opcode(AdminOpcode::DestroyQp.into());
    cmd.set_command_id(0xabcd);
    cmd.set_body(body.0);
    expect(cmd.as_bytes(), 256, &[(0, "0f 00 cd ab"), (8, "04 03 02 01")]);

    let mut body = HandleResult::new();
    body.set_handle(0x11);
    let mut cpl = AdminCpl::new();
    cpl.set_status(AdminStatus::InUse.into());
    cpl.set_command_id(0xabcd);
    cpl.set_detail(0x99);
    cpl.set_body(body.0);
    cpl.set_phase(true);
    expect(
        cpl.as_bytes(),
        256,
        &[(0, "06 00 cd ab 99 00 00 00 11"), (252, "01")],
    );
    assert_eq!(AdminStatus::InUse.errno(), 16);
}

#[test]
fn port_commands() {
    let mut m = ModifyPortCmd::new();
    m.set_port_num(1);
    m.set_link_layer(LinkLayer::Ethernet.into());
    m.set_enable(true);
    m.set_is_sm(true);
    m.set_lmc(2);
    m.set_attr_mask(port_attr::LID | port_attr::MAC | port_attr::IS_SM);
    m.set_lid(0x1234);
    m.set_mtu(Mtu::Bytes2048.into());
    m.set_mac([2, 0x11, 0x22, 0x33, 0x44, 0x55]);
    expect(
        m.as_bytes(),
        248,
        &[(0, "01 02 03 02 64 00 00 00 34 12 04 00 02 11 22 33 44 55")],
    );

    let mut g = SetGidCmd::new();
    g.set_port_num(1);
    g.set_index(0x0f);
    g.set_gid([0xfe, 0x80, 0, 0, 0, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8]);
    expect(
        g.as_bytes(),
        248,
        &[
            (0, "01 00 0f 00"),
            (8, "fe 80 00 00 00 00 00 00 01 02 03 04 05 06 07 08"),
        ],
    );

    let mut p = SetPkeyCmd::new();
    p.set_port_num(1);
    p.set_index(0x1f);
    p.set_pkey(0x8001);
    expect(p.as_bytes(), 248, &[(0, "01 00 1f 00 01 80")]);
}

#[test]
fn queue_commands() {
    let mut e = CreateEqCmd::new();
    e.set_base(0x1000);
    e.set_log_size(8);
    e.set_vector(0x0102);
    expect(e.as_bytes(), 248, &[(0, "00 10 00 00 00 00 00 00 08 00 02 01")]);

    let mut c = CreateCqCmd::new();
    c.set_base(0x2000);
    c.set_log_size(22);
    c.set_eqn(3);
    expect(c.as_bytes(), 248, &[(0, "00 20 00 00 00 00 00 00 16 03")]);

    let mut q = CreateQpCmd::new();
    q.set_service(Service::Ud.into());
    q.set_sq_sig_all(true);
    q.set_has_srq(true);
    q.set_sq_log_size(6);
    q.set_sq_log_stride(1);
    q.set_rq_log_size(7);
    q.set_rq_log_stride(2);
    q.set_pd(0x0a0b0c);
    q.set_send_cqn(1);
    q.set_recv_cqn(2);
    q.set_srqn(3);
    q.set_sq_base(0x1_0000);
    q.set_rq_base(0x2_0000);
    q.set_xrcd(4);
    q.set_create_flags(1 << 1);
    q.set_async_eqn(5);
    let parts = [
        (
            0,
            "03 03 06 01 07 02 00 00 0c 0b 0a 00 01 00 00 00 02 00 00 00 03 00 00 00",
        ),
        (
            24,
            "00 00 01 00 00 00 00 00 00 00 02 00 00 00 00 00 04 00 00 00 02 00 00 00 05",
        ),
    ];
    expect(q.as_bytes(), 248, &parts);

    let mut s = CreateSrqCmd::new();
    s.set_pd(1);
    s.set_base(0x3000);
    s.set_log_size(9);
    s.set_log_stride(1);
    s.set_is_xrc(true);
    s.set_async_eqn(2);
    s.set_xrcd(0x20);
    s.set_cqn(0x30);
    s.set_list_base(0x4000);
    let parts = [
        (0, "01"),
        (
            8,
            "00 30 00 00 00 00 00 00 09 01 01 02 00 00 00 00 20 00 00 00 30 00 00 00 00 40",
        ),
    ];
    expect(s.as_bytes(), 248, &parts);

    let mut s = ModifySrqCmd::new();
    s.set_srqn(7);
    s.set_limit(8);
    expect(s.as_bytes(), 248, &[(0, "07 00 00 00 08")]);
}

fn address() -> AhAttr {
    let mut a = AhAttr::new();
    a.set_dgid([0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 0, 0, 1]);
    a.set_flow_label(0x12345);
    a.set_sgid_index(1);
    a.set_hop_limit(64);
    a.set_traffic_class(0x20);
    a.set_is_global(true);
    a.set_dlid(0x0007);
    a.set_sl(15);
    a.set_src_path_bits(0x7f);
    a.set_static_rate(3);
    a.set_port_num(1);
    a.set_dmac([2, 0, 0, 0, 0, 1]);
    a
}

const ADDRESS_TAIL: &str = "45 23 01 00 01 40 20 01 07 00 0f 7f 03 01 02 00 00 00 00 01";

#[test]
fn address_handle() {
    let gid = "00 00 00 00 00 00 00 00 00 00 ff ff 0a 00 00 01";
    expect(address().as_bytes(), 40, &[(0, gid), (16, ADDRESS_TAIL)]);
}

fn attributes() -> QpAttr {
    let mut a = QpAttr::new();
    a.set_qp_state(QpState::Rtr.into());
    a.set_cur_qp_state(QpState::Init.into());
    a.set_path_mtu(Mtu::Bytes1024.into());
    a.set_path_mig_state(PathMigState::Armed.into());
    a.set_qkey(0x8001_0000);
    a.set_rq_psn(0x111213);
    a.set_sq_psn(0x212223);
    a.set_dest_qp_num(0x313233);
    a.set_qp_access_flags(access::REMOTE_READ);
    a.set_max_send_wr(0x40);
    a.set_max_recv_wr(0x50);
    a.set_max_send_sge(2);
    a.set_max_recv_sge(3);
    a.set_max_inline_data(480);
    a.set_ah_attr(address().0);
    let mut alternate = AhAttr::new();
    alternate.set_port_num(2);
    a.set_alt_ah_attr(alternate.0);
    a.set_pkey_index(0x0102);
    a.set_alt_pkey_index(0x0304);
    a.set_en_sqd_async_notify(true);
    a.set_sq_draining(true);
    a.set_max_rd_atomic(16);
    a.set_max_dest_rd_atomic(15);
    a.set_min_rnr_timer(12);
    a.set_port_num(1);
    a.set_timeout(14);
    a.set_retry_cnt(7);
    a.set_rnr_retry(6);
    a.set_alt_port_num(2);
    a.set_alt_timeout(13);
    a.set_udp_src_port(0xc123);
    a.set_rate_limit(0x0001_0000);
    a
}

const ATTRIBUTES: [(usize, &str); 5] = [
    (
        0,
        "02 01 03 02 00 00 01 80 13 12 11 00 23 22 21 00 33 32 31 00 04 00 00 00",
    ),
    (24, "40 00 00 00 50 00 00 00 02 00 00 00 03 00 00 00 e0 01 00 00"),
    (44, "00 00 00 00 00 00 00 00 00 00 ff ff 0a 00 00 01"),
    (60, ADDRESS_TAIL),
    (
        113,
        "02 00 00 00 00 00 00 00 00 00 00 02 01 04 03 03 10 0f 0c 01 0e 07 06 02 0d 23 c1 00 00 01",
    ),
];

fn shifted(by: usize) -> Vec<(usize, &'static str)> {
    ATTRIBUTES
        .iter()
        .map(|&(offset, hex)| (offset + by, hex))
        .collect()
}

#[test]
fn qp_attributes() {
    expect(attributes().as_bytes(), 176, &ATTRIBUTES);

    let mut m = ModifyQpCmd::new();
    m.set_qpn(0x000102);
    m.set_attr_mask(qp_attr::STATE | qp_attr::SQ_PSN);
    m.set_attr(attributes().0);
    let mut parts = shifted(8);
    parts.push((0, "02 01 00 00 01 00 01 00"));
    expect(m.as_bytes(), 248, &parts);

    let mut q = QueryQpResult::new();
    q.set_attr(attributes().0);
    q.set_service(Service::Uc.into());
    q.set_sq_sig_all(true);
    q.set_has_srq(true);
    q.set_pd(9);
    q.set_send_cqn(10);
    q.set_recv_cqn(11);
    q.set_srqn(12);
    let mut parts = shifted(0);
    parts.push((176, "01 03 00 00 09 00 00 00 0a 00 00 00 0b 00 00 00 0c"));
    expect(q.as_bytes(), 244, &parts);
}

#[test]
fn alloc_mw_cmd() {
    let mut a = AllocMwCmd::new();
    a.set_pd(0x010203);
    a.set_is_type_2(true);
    a.set_row(0x4_0506);
    expect(a.as_bytes(), 248, &[(0, "03 02 01 00 01 00 00 00 06 05 04 00")]);
}

#[test]
fn device_memory_commands() {
    let mut a = AllocDmCmd::new();
    a.set_length(0x0102_0304);
    expect(a.as_bytes(), 248, &[(0, "04 03 02 01")]);
    let mut c = CopyDmCmd::new();
    c.set_addr(0x0102_0304_0506_0708);
    c.set_handle(9);
    c.set_offset(0x0a0b);
    c.set_bytes(0x0c0d);
    c.set_to_host(true);
    let bytes = "08 07 06 05 04 03 02 01 09 00 00 00 0b 0a 00 00 0d 0c 00 00 01";
    expect(c.as_bytes(), 248, &[(0, bytes)]);
}

#[test]
fn memory_commands() {
    let mut r = RegMrCmd::new();
    r.set_pd(0x010203);
    r.set_access(access::LOCAL_WRITE | access::REMOTE_WRITE);
    r.set_start(0x7f00_0000_1000);
    r.set_length(0x1_0000_0001);
    r.set_iova(0x5000);
    r.set_page_list_addr(0x6000);
    r.set_num_pages(0x77);
    r.set_page_shift(12);
    let parts = [
        (
            0,
            "03 02 01 00 03 00 00 00 00 10 00 00 00 7f 00 00 01 00 00 00 01 00 00 00",
        ),
        (
            24,
            "00 50 00 00 00 00 00 00 00 60 00 00 00 00 00 00 77 00 00 00 0c",
        ),
    ];
    expect(r.as_bytes(), 248, &parts);

    let mut r = RegMrResult::new();
    r.set_lkey(0x0000_0102);
    r.set_rkey(0x0000_0103);
    expect(r.as_bytes(), 244, &[(0, "02 01 00 00 03 01")]);

    let mut q = QueryMrResult::new();
    q.set_lkey(1);
    q.set_rkey(2);
    q.set_pd(3);
    q.set_access(4);
    q.set_start(5);
    q.set_length(6);
    q.set_page_shift(63);
    let parts = [
        (0, "01 00 00 00 02 00 00 00 03 00 00 00 04"),
        (16, "05"),
        (24, "06"),
        (32, "3f"),
    ];
    expect(q.as_bytes(), 244, &parts);
}
