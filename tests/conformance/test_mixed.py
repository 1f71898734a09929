"""A run of everything at once on InfiniBand: SEND, WRITE and READ by unmodified programs, on four service levels and
lanes, with GRH and without, under faults. Every CRC of the capture, also of the flow control packets, is computed by
somebody else's CRC library, told no more than polynomial, start and order of bits."""

import sys
from collections import Counter
from pathlib import Path

import anycrc
import judge
import pytest

sys.path.append(str(Path(__file__).resolve().parent.parent / "programs"))
from cards import UNCALIBRATED, Simulator  # noqa: E402  (needs the path above)

FAULTS = "loss=0.01,dup=0.01,reorder=0.01,corrupt=0.005,fc_loss=0.05,fc_corrupt=0.05"
LANES = 4
# Program, and the service level that it is told.
# Acknowledge timeout of 262 us: what is lost at the end of a message is soon sent again.
SOON = ["-n", 20, "-u", 6]
PROGRAMS = [
    (["ib_send_bw", *SOON, "-s", 3001, "-S", 1], 1),
    (["ib_send_bw", *SOON, "-s", 700, "-m", 256, "-S", 2, "-x", 0], 2),
    (["ib_write_bw", *SOON, "-s", 5001, "-m", 2048, "-S", 7], 7),
    (["ib_read_bw", *SOON, "-s", 4099, "-m", 1024, "-S", 4, "-x", 0], 4)]
LEVELS = {level for _, level in PROGRAMS}

# IBA vol1 7.8: the low bit of each byte first, start and inversion with ones.
ICRC = anycrc.CRC(width=32, poly=0x04C11DB7, init=0xFFFFFFFF, refin=True, refout=True, xorout=0xFFFFFFFF)
VCRC = anycrc.CRC(width=16, poly=0x100B, init=0xFFFF, refin=True, refout=True, xorout=0xFFFF)


class Mixed:
    """The run and its capture."""

    def __init__(self, hca, folder):
        self.pcap = folder / "mixed.pcap"
        sim = Simulator(hca.path, "--link=ib", f"--faults={FAULTS}", f"--pcap={self.pcap}")
        try:
            lanes = ",".join(map(str, range(LANES)))
            done = hca("link", "set", "--dir", sim.sockets, "--vls", LANES, "--sl2vl", lanes)
            assert done.code == 0, done.err
            pairs = [sim.start_pair(words) for words, _ in PROGRAMS]  # as many as a card has functions
            for end in [program.done() for pair in pairs for program in pair]:
                assert end.code == 0 or UNCALIBRATED in end.text, end
        finally:
            sim.stop()
        self.packets = judge.read(self.pcap)
        self.rows = judge.tshark(self.pcap)
        self.data = [packet for packet in self.packets if packet.kind != "link"]
        self.link = [packet for packet in self.packets if packet.kind == "link"]


@pytest.fixture(scope="module")
def mixed(hca, tmp_path_factory):
    return Mixed(hca, tmp_path_factory.mktemp("mixed"))


def test_the_mixture_is_one(mixed, judged):
    """Every operation, service level, lane and kind of header is there; lanes are those of the table."""
    judged("mixed ib", mixed.data)
    names = {judge.opcode_name(opcode).partition("RC ")[2].split(" ")[0] for opcode in judge.count(mixed.data)}
    assert {"SEND", "WRITE", "READ", "Acknowledge"} <= names
    kinds = Counter(packet.kind for packet in mixed.data)
    assert set(kinds) == {"InfiniBand", "InfiniBand with GRH"} and min(kinds.values()) > 50, kinds
    levels = {(packet.data[1] >> 4, packet.data[0] >> 4) for packet in mixed.data}
    assert levels == {(level, level % LANES) for level in LEVELS}
    # Until the links were told to use four lanes they had eight.
    lanes = {packet.data[2] >> 4 for packet in mixed.link}
    assert set(range(LANES)) <= lanes <= set(range(8))


def test_every_icrc_and_vcrc(mixed):
    """By anycrc, and beside it by zlib and bit by bit: all three agree with the packet."""
    for number, packet in enumerate(mixed.data, 1):
        masked = packet.masked()
        assert ICRC.calc(masked).to_bytes(4, "little") == packet.icrc, f"ICRC of packet {number}"
        vcrc = VCRC.calc(packet.data[:packet.end]).to_bytes(2, "little")
        assert vcrc == packet.data[packet.end:], f"VCRC of packet {number}"
        assert judge.icrc(masked) == packet.icrc
    assert [packet for packet in mixed.data[:200] if judge.faults(packet)] == []


def test_every_lpcrc(mixed):
    """Flow control packets: six bytes, the last two of them right."""
    assert len(mixed.link) > 20
    for number, packet in enumerate(mixed.link, 1):
        lpcrc = VCRC.calc(packet.data[:4]).to_bytes(2, "little")
        assert len(packet.data) == 6 and lpcrc == packet.data[4:], f"link packet {number}: {packet.data.hex()}"
        assert judge.link_faults(packet.data) == set()


def test_wireshark_finds_nothing_malformed(mixed):
    """Data and link packets of one capture, each known as what it is."""
    for number, (row, packet) in enumerate(zip(mixed.rows, mixed.packets, strict=True), 1):
        want = "InfiniBand Link" if packet.kind == "link" else "InfiniBand"
        assert (judge.tshark_complaint(row), row["protocol"]) == ("", want), f"packet {number}: {row}"


def test_a_wrong_bit_is_found(mixed):
    """Both judges: a bit that the CRC covers, turned over, makes another CRC."""
    for packet in mixed.data[:20]:
        for at in (1, packet.bth, packet.bth + 11, packet.end - 5):
            data = bytearray(packet.data)
            data[at] ^= 0x10
            spoilt = judge.infiniband_packet(bytes(data))
            vcrc = VCRC.calc(spoilt.data[:packet.end]).to_bytes(2, "little")
            assert vcrc != spoilt.data[packet.end:]
            if spoilt.kind == packet.kind == "InfiniBand" and at != packet.bth:
                assert ICRC.calc(spoilt.masked()) != int.from_bytes(packet.icrc, "little")
