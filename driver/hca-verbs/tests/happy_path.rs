//! What every program does, from open to completion.

mod common;

use common::{Bench, send};
use hca_verbs::*;

/// Data goes where it shall, both ends hear of it, and closing gives everything back.
#[test]
fn send_write_read() {
    let dev = {
        let bench = Bench::new(64);
        let (mut a, mut b) = bench.pair(QpCap::default());
        bench.buf.write_bytes(0, b"hello, world");
        b.post_recv(&[RecvWr {
            wr_id: 7,
            sges: &[bench.mr.sge(0x1000, 64)],
        }])
        .unwrap();
        a.post_send(&[send(1, &[bench.mr.sge(0, 12)])]).unwrap();
        let wc = bench.completions(2);
        let got = |id| *wc.iter().find(|wc| wc.wr_id == id).unwrap();
        assert_eq!(
            (got(7).status, got(7).opcode, got(7).byte_len),
            (WcStatus::Success, WcOpcode::Recv, 12)
        );
        assert_eq!(
            (got(1).status, got(1).opcode),
            (WcStatus::Success, WcOpcode::Send)
        );
        assert_eq!((got(7).qp_num, got(1).qp_num), (b.qp_num(), a.qp_num()));
        let mut out = [0; 12];
        bench.buf.read_bytes(0x1000, &mut out);
        assert_eq!(&out, b"hello, world");

        let remote = SendOp::RdmaWrite {
            remote_addr: bench.mr.addr() + 0x2000,
            rkey: bench.mr.rkey(),
        };
        let (from, into) = ([bench.mr.sge(7, 5)], [bench.mr.sge(0x3000, 5)]);
        let write = SendWr {
            op: remote,
            ..send(2, &from)
        };
        let back = SendOp::RdmaRead {
            remote_addr: bench.mr.addr() + 0x2000,
            rkey: bench.mr.rkey(),
        };
        let read = SendWr {
            op: back,
            ..send(3, &into)
        };
        b.post_send(&[write, read]).unwrap();
        let wc = bench.completions(2);
        assert_eq!(
            wc.iter().map(|wc| (wc.wr_id, wc.opcode)).collect::<Vec<_>>(),
            [(2, WcOpcode::RdmaWrite), (3, WcOpcode::RdmaRead)]
        );
        bench.buf.read_bytes(0x3000, &mut out[..5]);
        assert_eq!(&out[..5], b"world");
        bench.dev.assert_no_violations();
        hca_dev::Device::free_dma(&*bench.dev, bench.buf.clone()).unwrap();
        bench.dev.clone()
    };
    assert_eq!(dev.with_card(|card| card.host.mapped()), 0);
}

/// Immediate data keeps its value, solicited or not.
#[test]
fn immediate_data() {
    let bench = Bench::new(64);
    let (mut a, mut b) = bench.pair(QpCap {
        max_inline_data: 32,
        ..QpCap::default()
    });
    b.post_recv(&[
        RecvWr {
            wr_id: 7,
            sges: &[bench.mr.sge(0, 64)],
        },
        RecvWr { wr_id: 8, sges: &[] },
    ])
    .unwrap();
    let (remote_addr, rkey) = (bench.mr.addr() + 100, bench.mr.rkey());
    let data = WrData::InlineList(&[b"ab", b"", b"cde"]);
    let flags = SendFlags::default();
    a.post_send(&[
        SendWr {
            wr_id: 1,
            op: SendOp::SendWithImm {
                imm_data: 0x0102_0304,
            },
            flags,
            data,
        },
        SendWr {
            wr_id: 2,
            op: SendOp::RdmaWriteWithImm {
                remote_addr,
                rkey,
                imm_data: 0xfeed,
            },
            flags,
            data,
        },
    ])
    .unwrap();
    let wc = bench.completions(2);
    assert_eq!((wc[0].wr_id, wc[0].imm_data, wc[0].byte_len), (7, 0x0102_0304, 5));
    assert_eq!(
        (wc[1].wr_id, wc[1].imm_data, wc[1].opcode),
        (8, 0xfeed, WcOpcode::RecvRdmaWithImm)
    );
    assert!(wc.iter().all(|wc| wc.wc_flags == wc_flag::WITH_IMM));
    let mut out = [0; 5];
    bench.buf.read_bytes(100, &mut out);
    assert_eq!(&out, b"abcde");
    bench.assert_no_completion();
}

/// Whatever was opened is given back when it is dropped, in any order.
#[test]
fn dropping_releases_everything() {
    let bench = Bench::new(16);
    let dev = bench.dev.clone();
    let (a, b) = bench.pair(QpCap::default());
    let Bench {
        context,
        pd,
        mr,
        cq,
        buf,
        ..
    } = bench;
    drop((context, pd, cq));
    assert!(a.query().is_ok());
    drop((mr, a, b));
    hca_dev::Device::free_dma(&*dev, buf).unwrap();
    assert_eq!(dev.with_card(|card| card.host.mapped()), 0);
    // The card is as new: a second driver finds nothing left over.
    let again = Context::open(dev.clone()).unwrap();
    assert!(again.alloc_pd().is_ok());
    dev.assert_no_violations();
}

/// What the card says of itself.
#[test]
fn queries() {
    let bench = Bench::new(16);
    let port = bench.context.query_port(1).unwrap();
    assert_eq!(port.state(), u8::from(PortState::Active));
    assert_eq!(port.link_layer(), u8::from(LinkLayer::Ethernet));
    assert_eq!(bench.context.query_port(2).unwrap_err().errno(), 22);
    assert_eq!(bench.context.query_gid(1, 1).unwrap(), gid_of_ipv4([10, 0, 0, 1]));
    assert_eq!(
        bench.context.query_gid(1, 0).unwrap(),
        link_local_gid_of_mac([2, 0, 10, 0, 0, 1])
    );
    assert_eq!(bench.context.query_pkey(1, 0).unwrap(), 0xffff);
    assert_eq!(bench.context.query_device().unwrap().max_qp(), 254);
    assert!(bench.context.function().link_up());
    assert!(bench.context.info().vectors > 1);
}
