//! Captures of a cable that leads out of the simulator.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use hca_cosim::{CardConfig, Fabric, Plug, Server};
use hca_link::{CableConfig, LinkKind, Tap};
use hca_models as _;
use hca_outside::{Host, Wire, WireConfig, gid_of_ip};
use pcap_file::pcap::PcapReader;

const OWN: [u8; 6] = [2, 0, 10, 0, 0, 1];
const PEER: [u8; 6] = [2, 0, 10, 0, 0, 9];
const OWN_IP: [u8; 4] = [10, 0, 0, 1];
const PEER_IP: [u8; 4] = [10, 0, 0, 9];

fn question() -> Vec<u8> {
    let (ethertype, head) = ([8, 6], [0, 1, 8, 0, 6, 4, 0, 1]);
    let ethernet = [&[0xff; 6][..], &PEER, &ethertype];
    [&ethernet.concat()[..], &head, &PEER, &PEER_IP, &[0; 6], &OWN_IP].concat()
}

fn answer(path: &Path) -> Vec<u8> {
    let mut peer = UnixStream::connect(path).unwrap();
    peer.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let frame = question();
    let framed = [&(frame.len() as u32).to_be_bytes()[..], &frame].concat();
    peer.write_all(&framed).unwrap();
    let mut length = [0; 4];
    peer.read_exact(&mut length).unwrap();
    let mut answer = vec![0; u32::from_be_bytes(length) as usize];
    peer.read_exact(&mut answer).unwrap();
    answer
}

/// Who has seen the wire's answer finds it in the capture, however early he asked and however soon the run ended.
#[test]
fn a_capture_has_what_was_answered_before_the_first_cycle_and_after_the_last() {
    let folder = tempfile::tempdir().unwrap();
    let (socket, pcap) = (folder.path().join("wire"), folder.path().join("wire.pcap"));
    let wire = Wire::open(WireConfig::new(socket.to_str().unwrap().parse().unwrap())).unwrap();
    wire.set_host(Host::of_gids(OWN, &[gid_of_ip(OWN_IP.into())]));
    let mut fabric = Fabric::new(1);
    let card = fabric.add_card(CardConfig::probe("card0")).unwrap();
    let outside = fabric.add_outside(wire);
    let cable = CableConfig::new("cable0", LinkKind::Ethernet);
    let cable = fabric
        .plug([Plug::Card(card), Plug::Outside(outside)], cable)
        .unwrap();
    fabric.capture(cable, Tap::Sent, &pcap).unwrap();
    let answer = answer(&socket);
    let mut server = Server::new(fabric);
    server.stop_handle().stop();
    server.run();
    server.fabric().cable_mut(cable).close().unwrap();
    let mut reader = PcapReader::new(File::open(&pcap).unwrap()).unwrap();
    let mut frames = Vec::new();
    while let Some(packet) = reader.next_packet() {
        frames.push(packet.unwrap().data.into_owned());
    }
    assert_eq!(frames, [question(), answer]);
}
