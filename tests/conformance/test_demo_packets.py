"""Every packet of `hca demo`, on both personalities, clean and under faults, judged by others' code."""

import json
import random

import judge
import pytest

FILE_BYTES = (256 << 10) + 3  # The last packet has a padded payload.
FAULTS = "loss=0.01,dup=0.01,reorder=0.01"
RUNS = [("eth", ""), ("eth", FAULTS), ("ib", ""), ("ib", FAULTS)]
WRITES, READ_RESPONSES = (0x06, 0x07, 0x08, 0x0A), (0x0D, 0x0E, 0x0F, 0x10)
READ_REQUEST, ACKNOWLEDGE, SEND = 0x0C, 0x11, 0x04


class Demo:
    """One run and what it left."""

    def __init__(self, hca, folder, link, faults):
        self.link, self.faults = link, faults
        self.content = random.Random(f"{link} {faults}").randbytes(FILE_BYTES)
        file = folder / "file"
        file.write_bytes(self.content)
        arguments = ["--link", link, "--file", file, "--out", folder / "out", "--seed", 3]
        done = hca("demo", *arguments, *(["--faults", faults] if faults else []))
        assert done.code == 0, done.err
        self.pcap = folder / "out" / "link0.pcap"
        self.summary = json.loads((folder / "out" / "summary.json").read_text())
        records = list(zip(judge.read(self.pcap), judge.tshark(self.pcap), strict=True))
        self.link_packets = [packet for packet, _ in records if packet.kind == "link"]
        self.link_rows = [row for packet, row in records if packet.kind == "link"]
        self.packets = [packet for packet, _ in records if packet.kind != "link"]
        self.rows = [row for packet, row in records if packet.kind != "link"]


@pytest.fixture(scope="module", params=RUNS, ids=lambda run: f"{run[0]}-{'faults' if run[1] else 'clean'}")
def demo(request, hca, tmp_path_factory):
    """Each run happens once for all tests."""
    return Demo(hca, tmp_path_factory.mktemp("demo"), *request.param)


def test_all_packets_are_in_the_capture(demo):
    """As many as the cards say they have sent, and of every kind that the demo needs."""
    counts = judge.count(demo.packets)
    sent = sum(card["tx_packets"] for card in demo.summary["cards"])
    assert sent > 0 and len(demo.packets) == len(demo.rows) == sum(counts.values()) == sent
    for kinds in (WRITES, (READ_REQUEST,), READ_RESPONSES, (ACKNOWLEDGE,), (SEND,)):
        assert sum(counts[opcode] for opcode in kinds) > 0, f"no packet of {kinds}"
    injected = sum(sum(side["faults"].values()) for side in demo.summary["cable"].values())
    assert (injected > 0) == bool(demo.faults)


def test_wireshark_decodes_every_packet(demo):
    """No malformed packet, no warning, and the fields are where we read them."""
    want = {"eth": ("RRoCE", "eth:ethertype:ip:udp:infiniband"), "ib": ("InfiniBand", "erf:infiniband")}
    for number, (row, packet) in enumerate(zip(demo.rows, demo.packets, strict=True), 1):
        assert judge.tshark_complaint(row) == "", f"packet {number}: {row}"
        assert (row["protocol"], row["layers"].removesuffix(":data")) == want[demo.link], f"{number}: {row}"
        fields = [int(row[name], 0) for name in ("opcode", "psn", "icrc")]
        assert fields == [packet.opcode, packet.psn, int.from_bytes(packet.icrc)], f"packet {number}"


def test_every_crc_is_right(demo, judged):
    """ICRC by scapy (RoCEv2) and by zlib with the specification's masks; VCRC bit by bit."""
    kind = {"eth": "RoCEv2 over", "ib": "InfiniBand"}[demo.link]
    found = {number: judge.faults(packet) for number, packet in enumerate(demo.packets, 1)}
    judged(f"demo {demo.link} {demo.faults or 'clean'}", demo.packets)
    assert [(number, faults) for number, faults in found.items() if faults] == []
    assert demo.packets and all(packet.kind.startswith(kind) for packet in demo.packets)


def test_flow_control_is_right(demo):
    """InfiniBand has flow control packets, each with a right LPCRC and known to Wireshark; Ethernet has none."""
    assert bool(demo.link_packets) == (demo.link == "ib")
    for number, (row, packet) in enumerate(zip(demo.link_rows, demo.link_packets, strict=True), 1):
        assert judge.faults(packet) == set(), f"link packet {number}: {packet.data.hex()}"
        assert (judge.tshark_complaint(row), row["protocol"]) == ("", "InfiniBand Link"), f"link packet {number}: {row}"


def test_pcap_check_agrees(demo, hca):
    """Our own judge counts the same packets and finds nothing."""
    done = hca("pcap", "check", "--json", demo.pcap)
    report = json.loads(done.out)
    assert (done.code, done.err, report["wrong"]) == (0, "", [])
    assert report["icrc_checked"] == len(demo.packets)
    assert report["vcrc_checked"] == (len(demo.packets) if demo.link == "ib" else 0)
    assert report["lpcrc_checked"] == len(demo.link_packets)


@pytest.mark.parametrize("opcodes", [WRITES, READ_RESPONSES], ids=["write", "read"])
def test_the_payloads_are_the_file(demo, opcodes):
    """Put together by PSN; a packet that was sent again carries the same bytes."""
    pieces = {}
    for packet in demo.packets:
        if packet.opcode in opcodes:
            assert pieces.setdefault(packet.psn, packet.payload) == packet.payload
            padding = packet.data[packet.end - 4 - packet.pad_bytes:packet.end - 4]
            assert not any(padding), "padding is not zero"
    assert b"".join(pieces[psn] for psn in sorted(pieces)) == demo.content
