//! docs/capabilities.md is what the firmware says of the card and what the driver lets through: written from them, and
//! compared with them in every run. `HCA_WRITE_DOCS=1` writes it.

mod common;

use std::fmt::Write as _;
use std::path::Path;

use common::{Bench, Dev};
use hca_abi::device_cap;
use hca_abi::table::FieldDef;
use hca_verbs::*;

const SERVICES: [(Service, &str); 5] = [
    (Service::Rc, "RC"),
    (Service::Uc, "UC"),
    (Service::Ud, "UD"),
    (Service::Xrc, "XRC initiator"),
    (Service::Raw, "raw packets"),
];

/// One of each operation.
fn operations() -> Vec<(&'static str, SendOp)> {
    let (remote_addr, rkey, imm_data) = (0, 0, 0);
    let bind = MwBind {
        rkey,
        is_type_2: true,
        lkey: 0,
        addr: 0,
        length: 0,
        access: 0,
    };
    vec![
        ("SEND", SendOp::Send),
        ("SEND with immediate", SendOp::SendWithImm { imm_data }),
        (
            "SEND with invalidate",
            SendOp::SendWithInv {
                invalidate_rkey: rkey,
            },
        ),
        ("RDMA WRITE", SendOp::RdmaWrite { remote_addr, rkey }),
        (
            "RDMA WRITE with immediate",
            SendOp::RdmaWriteWithImm {
                remote_addr,
                rkey,
                imm_data,
            },
        ),
        ("RDMA READ", SendOp::RdmaRead { remote_addr, rkey }),
        (
            "compare and swap",
            SendOp::AtomicCmpAndSwp {
                remote_addr,
                rkey,
                compare: 0,
                swap: 0,
            },
        ),
        (
            "fetch and add",
            SendOp::AtomicFetchAndAdd {
                remote_addr,
                rkey,
                add: 0,
            },
        ),
        (
            "masked compare and swap (Rust interface)",
            SendOp::MaskedAtomicCmpAndSwp {
                remote_addr,
                rkey,
                compare: 0,
                swap: 0,
                compare_mask: 0,
                swap_mask: 0,
            },
        ),
        (
            "masked fetch and add (Rust interface)",
            SendOp::MaskedAtomicFetchAndAdd {
                remote_addr,
                rkey,
                add: 0,
                boundaries: 0,
            },
        ),
        ("ATOMIC WRITE", SendOp::AtomicWrite { remote_addr, rkey }),
        (
            "FLUSH",
            SendOp::Flush(Flush {
                remote_addr,
                rkey,
                placement: Flush::GLOBAL,
                ..Flush::default()
            }),
        ),
        ("bind a window", SendOp::BindMw(bind)),
        ("fast registration", SendOp::RegMr(RegMr::default())),
        (
            "local invalidate",
            SendOp::LocalInv {
                invalidate_rkey: rkey,
            },
        ),
    ]
}

/// A QP of the service in RTS.
fn ready(bench: &Bench, service: Service) -> RawQp<Dev> {
    use QpAttrMask as M;
    let options = QpOptions {
        service,
        // WQEs with room for the masks of a compare and swap.
        cap: QpCap {
            max_send_sge: 3,
            ..QpCap::default()
        },
        ..QpOptions::new(&bench.cq, &bench.cq)
    };
    let mut qp = bench.pd.create_raw_qp(&options).unwrap();
    let connected = matches!(service, Service::Rc | Service::Uc | Service::Xrc);
    let acked = matches!(service, Service::Rc | Service::Xrc);
    let pick = |is: bool, mask: M| if is { mask } else { M::STATE };
    let init = M::STATE | M::PORT | pick(service != Service::Raw, M::PKEY_INDEX);
    let init = init | pick(service == Service::Ud, M::QKEY) | pick(connected, M::ACCESS_FLAGS);
    let rtr = pick(connected, M::AV | M::PATH_MTU | M::DEST_QPN | M::RQ_PSN);
    let rtr = rtr | pick(service == Service::Rc, M::MAX_DEST_RD_ATOMIC | M::MIN_RNR_TIMER);
    let rts = pick(service != Service::Raw, M::SQ_PSN);
    let rts = rts
        | pick(
            acked,
            M::TIMEOUT | M::RETRY_CNT | M::RNR_RETRY | M::MAX_QP_RD_ATOMIC,
        );
    for (qp_state, mask) in [(QpState::Init, init), (QpState::Rtr, rtr), (QpState::Rts, rts)] {
        let attr = QpAttr {
            qp_state,
            ah_attr: AhAttr {
                dgid: gid_of_ipv4([10, 0, 0, 2]),
                sgid_index: 1,
                is_global: true,
                ..AhAttr::default()
            },
            ..QpAttr::default()
        };
        qp.modify(&attr, mask | M::STATE).unwrap();
    }
    qp
}

/// Does the driver let it through?
fn is_let_through(bench: &Bench, qp: &mut RawQp<Dev>, service: Service, op: SendOp) -> bool {
    let is_atomic = matches!(
        op,
        SendOp::AtomicCmpAndSwp { .. }
            | SendOp::AtomicFetchAndAdd { .. }
            | SendOp::MaskedAtomicCmpAndSwp { .. }
            | SendOp::MaskedAtomicFetchAndAdd { .. }
    );
    let word = [bench.mr.sge(0, 8)];
    let wr = SendWr {
        wr_id: 0,
        op,
        flags: SendFlags::SIGNALED,
        data: match op {
            SendOp::AtomicWrite { .. } => WrData::Inline(&[0; 8]),
            _ => WrData::Sges(if is_atomic { &word } else { &[] }),
        },
    };
    match service {
        Service::Xrc => qp.post_send_xrc([(wr, 0)]).is_ok(),
        Service::Ud => {
            let attr = AhAttr {
                dgid: gid_of_ipv4([10, 0, 0, 2]),
                sgid_index: 1,
                is_global: true,
                ..AhAttr::default()
            };
            let ah = bench.pd.create_ah(&attr).unwrap();
            qp.post_send_to([Datagram { wr, to: ah.to(2, 0) }]).is_ok()
        }
        _ => qp.post_send(&[wr]).is_ok(),
    }
}

fn matrix(page: &mut String, bench: &Bench) {
    let names = SERVICES.map(|(_, name)| name).join(" | ");
    writeln!(
        page,
        "| Operation | {names} |\n|---|{}",
        "---|".repeat(SERVICES.len())
    )
    .unwrap();
    for (name, op) in operations() {
        let cells = SERVICES.map(|(service, _)| {
            let mut qp = ready(bench, service);
            ["-", "yes"][usize::from(is_let_through(bench, &mut qp, service, op))]
        });
        writeln!(page, "| {name} | {} |", cells.join(" | ")).unwrap();
    }
}

fn flags(page: &mut String, found: u64) {
    writeln!(page, "| Bit | Name | Meaning | This card |\n|---|---|---|---|").unwrap();
    for flag in device_cap::TABLE.flags {
        let is_set = found >> flag.bit & 1 == 1;
        let doc = flag.doc.trim();
        let answer = ["-", "yes"][usize::from(is_set)];
        writeln!(page, "| {} | {} | {doc} | {answer} |", flag.bit, flag.name).unwrap();
    }
}

/// Numbers that are the card's and not those of one simulation.
fn numbers(page: &mut String, fields: &[FieldDef], bytes: &[u8], prefixes: &[&str]) {
    writeln!(page, "| Attribute | Value | Meaning |\n|---|---|---|").unwrap();
    let shown = fields
        .iter()
        .filter(|field| prefixes.iter().any(|prefix| field.name.starts_with(prefix)));
    for field in shown {
        let (first, len) = (field.byte as usize, field.width as usize / 8);
        let bytes = bytes[first..first + len].iter().rev();
        let value = bytes.fold(0u64, |high, byte| high << 8 | u64::from(*byte));
        writeln!(page, "| {} | {value} | {} |", field.name, field.doc.trim()).unwrap();
    }
}

fn generated() -> String {
    let bench = Bench::new(64);
    let device = bench.context.query_device().unwrap();
    let port = bench.context.query_port(1).unwrap();
    let mut page = String::from(
        "# What the card can do\n\nWritten by `driver/hca-verbs/tests/capabilities.rs` from what firmware and driver \
         say (`HCA_WRITE_DOCS=1 cargo test --release -p hca-verbs --test capabilities`); the test fails when this page \
         differs. Numbers are those of function 0 of a card of the usual size. `hca info --json` asks a card.\n\n\
         ## Operations\n\nEach cell on the RTL: `tests/programs/test_transport_statements.py` (ACC-3); what the Rust \
         interface alone has: `tests/system`.\n\n",
    );
    matrix(&mut page, &bench);
    page.push_str("\n## device_cap_flags\n\n");
    flags(&mut page, device.device_cap_flags());
    page.push_str("\n## Limits\n\nZero: there is none of it.\n\n");
    let limits = [
        "max_",
        "atomic_cap",
        "masked_atomic_cap",
        "local_ca_ack_delay",
        "raw_packet_caps",
        "rss_",
    ];
    numbers(&mut page, DeviceAttr::TABLE.fields, device.as_bytes(), &limits);
    page.push_str("\n## Of a port\n\n");
    let limits = ["max_", "pkey_tbl_len", "gid_tbl_len"];
    numbers(&mut page, PortAttr::TABLE.fields, port.as_bytes(), &limits);
    page
}

#[test]
fn the_page_says_what_the_card_says() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/capabilities.md");
    let now = generated();
    if std::env::var_os("HCA_WRITE_DOCS").is_some() {
        std::fs::write(&path, &now).unwrap();
    }
    let written = std::fs::read_to_string(&path).unwrap_or_default();
    let differs = now.lines().zip(written.lines()).find(|(now, then)| now != then);
    assert!(
        now == written,
        "docs/capabilities.md is not what the card says, first at {differs:?}: write it with HCA_WRITE_DOCS=1"
    );
}
