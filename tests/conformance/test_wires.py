"""A wire to the outside answers ARP, Neighbour Discovery and pings: asked by scapy, judged by Wireshark."""

import signal
import socket
import struct
import subprocess
import tempfile
from pathlib import Path

import judge
import pytest
from scapy.layers.inet import ICMP, IP
from scapy.layers.inet6 import ICMPv6EchoRequest, ICMPv6ND_NS, ICMPv6NDOptSrcLLAddr, IPv6, in6_getnsma, in6_getnsmac
from scapy.layers.l2 import ARP, Ether
from scapy.utils import inet_pton

PEER_MAC, CARD_MAC = "02:00:0a:00:00:09", "02:00:0a:00:00:01"
PEER, CARD = "10.0.0.9", "10.0.0.1"
PEER6, CARD6 = "fd00::9", "fd00::1"
LIMIT_S = 60


def questions():
    """{name of the answer in Wireshark's layers: question}"""
    ether = Ether(src=PEER_MAC, dst=CARD_MAC)
    group = in6_getnsma(inet_pton(socket.AF_INET6, CARD6))
    solicitation = ICMPv6ND_NS(tgt=CARD6) / ICMPv6NDOptSrcLLAddr(lladdr=PEER_MAC)
    return [
        ("arp", Ether(src=PEER_MAC, dst="ff:ff:ff:ff:ff:ff") / ARP(op=1, hwsrc=PEER_MAC, psrc=PEER, pdst=CARD)),
        ("icmp", ether / IP(src=PEER, dst=CARD) / ICMP(id=7, seq=1) / b"forty-two bytes of a ping that comes back"),
        ("icmpv6", Ether(src=PEER_MAC, dst=in6_getnsmac(group)) /
         IPv6(src=PEER6, dst=socket.inet_ntop(socket.AF_INET6, group), hlim=255) / solicitation),
        ("icmpv6", ether / IPv6(src=PEER6, dst=CARD6) / ICMPv6EchoRequest(id=7, seq=1, data=b"odd")),
    ]


@pytest.fixture(scope="module")
def capture(hca):
    """The cable's capture of all questions and answers."""
    with tempfile.TemporaryDirectory(prefix="hca-") as folder:
        folder = Path(folder)
        pcap, wire = folder / "wire.pcap", folder / "wire"
        words = ["sim", "--dir", folder / "cards", "--cards", 1, "--peer", f"card0={wire}", "--pcap", pcap]
        with subprocess.Popen([hca.path, *map(str, words)], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE) as sim:
            try:
                assert sim.stdout.readline()
                with socket.socket(socket.AF_UNIX) as peer:
                    peer.settimeout(LIMIT_S)
                    peer.connect(str(wire))
                    for _, question in questions():
                        frame = bytes(question)
                        peer.sendall(struct.pack(">I", len(frame)) + frame)
                        length = struct.unpack(">I", peer.recv(4, socket.MSG_WAITALL))[0]
                        peer.recv(length, socket.MSG_WAITALL)
            finally:
                sim.send_signal(signal.SIGINT)
                sim.communicate(timeout=LIMIT_S)
        yield pcap


def test_wireshark_finds_nothing_wrong(capture):
    """Every answer is whole, its checksums are right, and it is what was asked for."""
    rows = judge.tshark(capture)
    assert [judge.tshark_complaint(row) for row in rows] == [""] * len(rows)
    found = [[layer for layer in row["layers"].split(":") if layer in ("arp", "icmp", "icmpv6")][-1] for row in rows]
    assert found == [name for name, _ in questions() for _ in range(2)], "each question and its answer"


FIELDS = ["eth.src", "eth.dst", "arp.opcode", "arp.src.hw_mac", "arp.src.proto_ipv4", "icmp.type",
          "icmp.checksum.status",
          "icmpv6.type", "icmpv6.checksum.status", "ipv6.hlim", "icmpv6.nd.na.target_address",
          "icmpv6.nd.na.flag.s", "icmpv6.nd.na.flag.o", "icmpv6.opt.linkaddr"]
ON, GOOD = "True", "1"
ADVERTISEMENT, ECHO_REPLY6 = "136", "129"


def test_the_answers_as_wireshark_reads_them(capture):
    command = ["tshark", "-n", "-r", str(capture), "-T", "fields", "-E", "separator=/t", "-Y", f"eth.src == {CARD_MAC}"]
    for field in FIELDS:
        command += ["-e", field]
    lines = subprocess.run(command, capture_output=True, text=True, check=True, timeout=LIMIT_S).stdout.splitlines()
    arp, ping, advertisement, ping6 = [dict(zip(FIELDS, line.split("\t"), strict=True)) for line in lines]
    for answer in (arp, ping, advertisement, ping6):
        assert (answer["eth.src"], answer["eth.dst"]) == (CARD_MAC, PEER_MAC)
    assert (arp["arp.opcode"], arp["arp.src.hw_mac"], arp["arp.src.proto_ipv4"]) == ("2", CARD_MAC, CARD)
    assert (ping["icmp.type"], ping["icmp.checksum.status"]) == ("0", GOOD)
    assert advertisement["icmpv6.type"] == ADVERTISEMENT and advertisement["ipv6.hlim"] == "255"
    assert advertisement["icmpv6.nd.na.target_address"] == CARD6
    assert advertisement["icmpv6.opt.linkaddr"] == CARD_MAC
    assert advertisement["icmpv6.nd.na.flag.s"] in (ON, "1") and advertisement["icmpv6.nd.na.flag.o"] in (ON, "1")
    assert ping6["icmpv6.type"] == ECHO_REPLY6
    assert advertisement["icmpv6.checksum.status"] == ping6["icmpv6.checksum.status"] == GOOD
