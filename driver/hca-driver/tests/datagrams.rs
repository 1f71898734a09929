//! Rings of datagrams: the bytes of a WQE, and what a ring refuses by itself.

use hca_abi::{AhAttr, Sge as WqeSge, SqWqeUdCtrl, WrOpcode};
use hca_dev::Device;
use hca_driver::*;
use hca_lone::LoneCard;

const RULES: DatagramRules = DatagramRules {
    pd: 5,
    port_num: 1,
    mtu_bytes: 256,
};

fn attr() -> AhAttr {
    let mut attr = AhAttr::new();
    attr.set_dgid(std::array::from_fn(|i| i as u8 + 1));
    attr.set_sgid_index(9);
    attr.set_flow_label(0x4_0003);
    attr.set_hop_limit(33);
    attr.set_traffic_class(0xa4);
    attr.set_is_global(true);
    attr.set_dlid(0x1234);
    attr.set_sl(6);
    attr.set_src_path_bits(3);
    attr.set_port_num(1);
    attr.set_dmac([2, 4, 6, 8, 10, 12]);
    attr
}

fn ring(size: WqSize) -> SendRing {
    let memory = LoneCard::new().alloc_dma(size.ring_bytes()).unwrap();
    SendRing::for_datagrams(memory, size, RULES).unwrap()
}

fn wr(data: WrData<'_>) -> SendWr<'_> {
    SendWr {
        wr_id: 1,
        op: SendOp::SendWithImm {
            imm_data: 0x0102_0304,
        },
        flags: SendFlags::SIGNALED,
        data,
    }
}

/// Header with the whole way, entries from byte 64.
#[test]
fn the_wqe_of_a_datagram() {
    let size = WqSize::for_datagrams(4, 2, 0).unwrap();
    assert_eq!(
        (
            size.stride_bytes(),
            size.datagram_sges(),
            size.datagram_inline_bytes()
        ),
        (128, 4, 64)
    );
    for is_ethernet in [true, false] {
        let mut ring = ring(size);
        let address = AddressVector::new(5, &attr(), is_ethernet);
        let to = Destination {
            address: &address,
            remote_qpn: 0xab_cdef,
            remote_qkey: 0x8765_4321,
        };
        let sges = [10, 20].map(|length| Sge {
            addr: 0x1000,
            length,
            lkey: 0x77,
        });
        for _ in 0..2 {
            let wr = wr(WrData::Sges(&sges));
            ring.push_datagram(&Datagram { wr, to }).unwrap();
        }
        let mut wqe = [0; 128];
        ring.memory().read_bytes(128, &mut wqe);
        let header = SqWqeUdCtrl::read_from(&wqe).unwrap();
        assert_eq!(header.opcode(), u8::from(WrOpcode::SendWithImm));
        assert!(header.signaled() && !header.solicited() && !header.inline_data());
        assert_eq!(
            (header.num_sge(), header.length(), header.wqe_index()),
            (2, 30, 1)
        );
        assert_eq!(wqe[4..8], [1, 2, 3, 4], "WIRE-5");
        assert_eq!((header.remote_qpn(), header.qkey()), (0xab_cdef, 0x8765_4321));
        assert_eq!((header.dgid(), header.sgid_index()), (attr().dgid(), 9));
        assert_eq!((header.dmac(), header.dlid()), (attr().dmac(), 0x1234));
        assert_eq!((header.flow_label(), header.hop_limit()), (0x4_0003, 33));
        assert_eq!((header.traffic_class(), header.sl()), (0xa4, attr().sl()));
        assert_eq!((header.is_global(), header.src_path_bits()), (true, 3));
        assert_eq!(header.udp_src_port(), 0xc000 | (3 ^ 0x10));
        let second = WqeSge::read_from(&wqe[80..]).unwrap();
        assert_eq!(
            (second.addr(), second.length(), second.lkey()),
            (0x1000, 20, 0x77)
        );
    }
}

/// V-145: only through the QP's port; and a ring takes what it was made for.
#[test]
fn rings_refuse_what_is_not_theirs() {
    let size = WqSize::for_datagrams(4, 1, 0).unwrap();
    let mut ring = ring(size);
    let to = |address| Destination {
        address,
        remote_qpn: 1,
        remote_qkey: 1,
    };
    let mut elsewhere = attr();
    elsewhere.set_port_num(2);
    let own = AddressVector::new(5, &attr(), true);
    let other_port = AddressVector::new(5, &elsewhere, true);
    let wr = wr(WrData::Inline(b"data"));
    assert_eq!(
        ring.push_datagram(&Datagram {
            wr,
            to: to(&other_port)
        }),
        Err(PostError::AddressOfOtherPort {
            port_num: 2,
            qp_port_num: 1
        })
    );
    assert_eq!(ring.push(&wr), Err(PostError::NoDestination));
    for _ in 0..4 {
        ring.push_datagram(&Datagram { wr, to: to(&own) }).unwrap();
    }
    assert_eq!(
        ring.push_datagram(&Datagram { wr, to: to(&own) }),
        Err(PostError::RingFull { entries: 4 })
    );
    let memory = LoneCard::new().alloc_dma(size.ring_bytes()).unwrap();
    assert_eq!(
        SendRing::new(memory, size)
            .unwrap()
            .push_datagram(&Datagram { wr, to: to(&own) }),
        Err(PostError::DestinationOfConnection)
    );
}

/// Sizes that fit a WQE of 512 bytes, and those that do not.
#[test]
fn sizes() {
    for (sges, inline, stride) in [
        (0, 0, 128),
        (4, 64, 128),
        (5, 0, 256),
        (0, 65, 256),
        (16, 0, 512),
        (0, 448, 512),
    ] {
        let size = WqSize::for_datagrams(1, sges, inline).unwrap();
        assert_eq!(size.stride_bytes(), stride, "{sges} entries, {inline} bytes");
    }
    for (wr, log_size) in [(32_768, 15), (32_769, 16), (65_535, 16), (65_536, 16)] {
        assert_eq!(WqSize::for_datagrams(wr, 1, 0).unwrap().log_size, log_size);
        assert_eq!(WqSize::for_send(wr, 1, 0).unwrap().log_size, log_size);
        assert_eq!(WqSize::for_recv(wr, 1).unwrap().log_size, log_size);
    }
    for (wr, sges, inline) in [(65_537, 1, 0), (1, 17, 0), (1, 1, 449)] {
        assert!(WqSize::for_datagrams(wr, sges, inline).is_err());
    }
}
