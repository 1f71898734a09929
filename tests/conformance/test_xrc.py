"""XRC of unmodified programs, on both personalities: CRCs and lengths by others' code, opcodes by Wireshark
(which knows them, and not the XRCETH)."""

import re

import judge
import pytest

XRC = 5
SEND_ONLY, READ_REQUEST, READ_RESPONSES, ACKNOWLEDGE = 0x04, 0x0C, range(0x0D, 0x11), 0x11
ITERATIONS = 50
PROGRAMS = {
    "ibv_xsrq_pingpong": ["-s", 500, "-m", 1024],
    "ib_write_bw": ["-c", "XRC", "-s", 5000],
    "ib_read_bw": ["-c", "XRC", "-s", 5000],
    "ib_atomic_bw": ["-c", "XRC"],
}


@pytest.mark.parametrize("program", PROGRAMS)
@pytest.mark.parametrize("link", ["eth", "ib"])
def test_xrc(hca, judged, tmp_path, link, program):
    """SPEC-3, WIRE-4: every request names the SRQ that the peer has told of, no answer does; nothing else is wrong."""
    pcap = tmp_path / "link.pcap"
    gid = [] if link == "ib" else ["-g", 1] if "pingpong" in program else ["-x", 1]
    words = [program, *gid, "-n", ITERATIONS, *PROGRAMS[program]]
    done = hca("run", "--pair", "--link", link, "--pcap", pcap, "--", *words, "---", *words, "localhost")
    assert done.code == 0, done
    packets = [packet for packet in judge.read(pcap) if packet.kind != "link"]
    rows = [row for row in judge.tshark(pcap) if "Link" not in row["protocol"]]
    judged(f"{program} {link}", packets)
    told = {int(number, 16) for number in re.findall(r"SRQ[Nn] (?:0x)?([0-9a-f]{6})", done.out)}
    assert told, done.out
    for count, (packet, row) in enumerate(zip(packets, rows, strict=True), 1):
        assert packet.opcode >> 5 == XRC and int(row["opcode"], 0) == packet.opcode, f"packet {count}: {row}"
        assert judge.faults(packet) == set() and judge.tshark_complaint(row) == "", f"packet {count}: {row}"
        if "XRCETH" in packet.header_names:
            header = packet.header("XRCETH")
            assert header[0] == 0 and int.from_bytes(header[1:]) in told, f"packet {count}: {header.hex()}"
    operations = {packet.opcode & 0x1F for packet in packets}
    if "pingpong" in program:
        assert operations == {SEND_ONLY, ACKNOWLEDGE}
        assert sum(packet.opcode & 0x1F == SEND_ONLY for packet in packets) >= 2 * ITERATIONS
        assert {len(packet.payload) for packet in packets} == {0, 500}
    if "read" in program:
        assert READ_REQUEST in operations and operations & set(READ_RESPONSES)
