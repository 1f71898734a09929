//! Messages that Linux has sent: read field by field, and written again byte for byte.

use std::fs::File;

use hca_cm::{MAD_BYTES, Mad, Message, ip};
use pcap_file::pcap::PcapReader;

/// Ethernet, IPv4, UDP, BTH, DETH.
const HEADERS: usize = 14 + 20 + 8 + 12 + 8;
const CM_CLASS: u8 = 7;

fn mads() -> Vec<Mad> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/golden/rxe-golden.pcap");
    let mut reader = PcapReader::new(File::open(path).unwrap()).unwrap();
    let mut found = Vec::new();
    while let Some(packet) = reader.next_packet() {
        let data = packet.unwrap().data;
        let Some(mad) = data.get(HEADERS..HEADERS + MAD_BYTES) else {
            continue;
        };
        // UD SEND only, to QP1, of this class.
        if data[42] == 0x64 && data[47..50] == [0, 0, 1] && mad[1] == CM_CLASS {
            found.push(mad.try_into().unwrap());
        }
    }
    found
}

#[test]
fn messages_of_linux() {
    let mads = mads();
    let messages: Vec<_> = mads.iter().map(|mad| Message::parse(mad).unwrap()).collect();
    let [
        (tid, Message::Req(req)),
        (_, Message::Rep(rep)),
        (_, Message::Rtu(rtu)),
        (_, Message::Dreq(dreq)),
        (_, Message::Drep(drep)),
    ] = &messages[..]
    else {
        panic!("{messages:?}")
    };
    assert_eq!(*tid, 0x0000_0002_28b2_0a4a);
    let ids = (req.local_communication_id, rep.local_communication_id);
    assert_eq!(ids.0, 0x4a0a_b228);
    assert_eq!(
        (req.service_id, req.local_ca_guid),
        (ip::service_id(0x0106, 0x1c06), 0x5054_00ff_fe00_0002)
    );
    assert_eq!(
        (req.local_qpn, req.starting_psn, req.partition_key),
        (0x1f, 0x28_7a6e, 0xffff)
    );
    assert_eq!((req.responder_resources, req.initiator_depth), (1, 1));
    assert_eq!(
        (req.remote_cm_response_timeout, req.local_cm_response_timeout),
        (20, 20)
    );
    assert_eq!(
        (req.retry_count, req.rnr_retry_count, req.max_cm_retries),
        (7, 7, 15)
    );
    assert_eq!(
        (req.transport_service_type, req.end_to_end_flow_control, req.srq),
        (0, false, false)
    );
    assert_eq!((req.path_mtu, req.primary_local_ack_timeout), (3, 17));
    assert_eq!((req.primary_local_lid, req.primary_remote_lid), (0xffff, 0xffff));
    assert_eq!((req.primary_flow_label, req.primary_packet_rate), (0xf_e8cc, 0));
    assert_eq!(
        (req.primary_hop_limit, req.primary_sl, req.primary_subnet_local),
        (64, 0, false)
    );
    assert_eq!(req.primary_local_gid[10..], [0xff, 0xff, 10, 0, 0, 2]);
    assert_eq!(req.primary_remote_gid[10..], [0xff, 0xff, 10, 0, 0, 1]);
    let header = ip::Header::parse(&req.private_data).unwrap();
    assert_eq!(header.source, "10.0.0.2:33402".parse().unwrap());
    assert_eq!(
        header.destination,
        "10.0.0.1".parse::<std::net::IpAddr>().unwrap()
    );
    assert_eq!(rep.remote_communication_id, ids.0);
    assert_eq!((rtu.local_communication_id, rtu.remote_communication_id), ids);
    assert_eq!((dreq.local_communication_id, dreq.remote_communication_id), ids);
    assert_eq!(dreq.remote_qpn, rep.local_qpn);
    assert_eq!((drep.remote_communication_id, drep.local_communication_id), ids);
    for (mad, (tid, message)) in mads.iter().zip(&messages) {
        let written = message.emit(*tid);
        assert_eq!(&written, mad, "{message:?}");
    }
}
