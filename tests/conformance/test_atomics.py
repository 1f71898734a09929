"""Atomics of an unmodified program (perftest), on both personalities: headers by scapy, fields by Wireshark, CRCs by
others' code, and the words that the answers carry."""

import subprocess

import judge
import pytest

ATOMIC_ACKNOWLEDGE = 0x12
OPERATIONS = {"FETCH_AND_ADD": 0x14, "CMP_AND_SWAP": 0x13}
ITERATIONS = 200   # perftest goes round over some 64 words
WORD = 1 << 64
FIELDS = ["infiniband.reth.va", "infiniband.reth.r_key", "infiniband.atomiceth.swapdt", "infiniband.atomiceth.cmpdt",
          "infiniband.atomicacketh.origremdt"]


def number(packet, name, at=0, size=8):
    """A number of an extended header."""
    return int.from_bytes(packet.header(name)[at:at + size])


def fields(pcap, opcode):
    """Wireshark's view of the extended headers of all packets of an opcode."""
    asked = [word for name in FIELDS for word in ("-e", name)]
    command = ["tshark", "-r", str(pcap), "-Y", f"infiniband.bth.opcode == {opcode}", "-T", "fields", *asked]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return [line.split("\t") for line in done.stdout.splitlines()]


@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize("link", ["eth", "ib"])
def test_atomics(hca, judged, tmp_path, link, operation):
    pcap = tmp_path / "link.pcap"
    gid = ["-x", 1] if link == "eth" else []
    words = ["ib_atomic_bw", *gid, "-n", ITERATIONS, "-A", operation]
    done = hca("run", "--pair", "--link", link, "--pcap", pcap, "--", *words, "---", *words, "localhost")
    assert done.code == 0, done
    packets = [packet for packet in judge.read(pcap) if packet.kind != "link"]
    rows = [row for row in judge.tshark(pcap) if "Link" not in row["protocol"]]
    judged(f"{operation} {link}", packets)
    for count, (packet, row) in enumerate(zip(packets, rows, strict=True), 1):
        assert judge.faults(packet) == set() and judge.tshark_complaint(row) == "", f"packet {count}: {row}"
    opcode = OPERATIONS[operation]
    requests = [packet for packet in packets if packet.opcode == opcode]
    answers = {packet.psn: packet for packet in packets if packet.opcode == ATOMIC_ACKNOWLEDGE}
    assert len(requests) == len(answers) == ITERATIONS and not any(packet.payload for packet in packets)
    words, known = {}, 0
    for request in requests:
        layer = judge.AtomicETH(request.header("AtomicETH"))
        assert layer.va % 8 == 0 and layer.rkey == number(request, "AtomicETH", 8, 4)
        original = number(answers[request.psn], "AtomicAckETH")
        known += layer.va in words
        assert words.setdefault(layer.va, original) == original, f"PSN {request.psn}"
        if operation == "FETCH_AND_ADD":
            words[layer.va] = (original + layer.swap_or_add) % WORD
        elif original == layer.compare:
            words[layer.va] = layer.swap_or_add
    assert known > 50
    seen = [[int(value, 0) for value in line[:4]] for line in fields(pcap, opcode)]
    places = [(0, 8), (8, 4), (12, 8), (20, 8)]
    assert seen == [[number(packet, "AtomicETH", *place) for place in places] for packet in requests]
    seen = [int(line[4], 0) for line in fields(pcap, ATOMIC_ACKNOWLEDGE)]
    assert seen == [number(packet, "AtomicAckETH") for packet in answers.values()]
