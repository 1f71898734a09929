"""The judges judged: a capture between two Linux soft-RoCE machines, the specification's sample, flipped
bits; and `hca pcap check` on all of it. The golden packets are also wrapped into IPv6 and InfiniBand, with
CRCs made here."""

import json
from collections import Counter

import judge
import pytest
from scapy.contrib.roce import BTH
from scapy.layers.inet import UDP
from scapy.layers.inet6 import IPv6
from scapy.layers.l2 import Ether
from scapy.packet import Raw

GOLDEN_PACKETS, GOLDEN_OTHER = 246, 2
# IBA vol1 7.8.1: the sample packet with its variant fields (virtual lane, BTH byte 4) as ones.
SAMPLE = bytes.fromhex("f012375c 000e17d2 0a202487 ff87b1b3 000dec2a 01710a1c 015d4002"
                       "38f27a05 0000000e bb884d85 fd5cfba4 728bc069 0ed40000")
SAMPLE_ICRC = bytes.fromhex("9625b75a")
LIDS, GIDS = bytes.fromhex("00070009"), [bytes.fromhex(f"fe80000000000000024843fffe00000{n}") for n in (1, 2)]


def infiniband(packet, with_grh):
    """The transport part of a RoCEv2 packet behind an LRH, and a GRH."""
    transport = packet.data[packet.bth:packet.end - 4]
    grh = b""
    if with_grh:
        grh = b"\x60\0\0\0" + (len(transport) + 4).to_bytes(2) + b"\x1b\x40" + b"".join(GIDS)
    words = (8 + len(grh) + len(transport) + 4) // 4
    lrh = bytes([0, 3 if with_grh else 2]) + LIDS[:2] + words.to_bytes(2) + LIDS[2:]
    data = lrh + grh + transport
    draft = judge.infiniband_packet(data + bytes(6))
    data += judge.icrc(draft.masked())
    return data + judge.vcrc(data)


def ipv6(packet):
    """The transport part of a RoCEv2 packet in IPv6, ICRC by scapy."""
    old = Ether(packet.data)
    new = Ether(src=old.src, dst=old.dst) / IPv6(src="fe80::1", dst="fe80::2", hlim=64)
    new /= UDP(sport=old[UDP].sport, dport=judge.ROCE_PORT, chksum=0) / old[BTH].copy()
    new[BTH].icrc = None
    return bytes(new)


def erf(data):
    """One ERF record, type InfiniBand."""
    return bytes(8) + b"\x15\x04" + (16 + len(data)).to_bytes(2) + b"\0\0" + len(data).to_bytes(2) + data


WRAPPINGS = {
    "RoCEv2 over IPv4": (judge.ETHERNET, lambda packet: packet.data),
    "RoCEv2 over IPv6": (judge.ETHERNET, ipv6),
    "InfiniBand": (judge.ERF, lambda packet: erf(infiniband(packet, False))),
    "InfiniBand with GRH": (judge.ERF, lambda packet: erf(infiniband(packet, True))),
}
HEADER_BYTES = {judge.ETHERNET: 14, judge.ERF: 16}


def check(hca, path):
    """Exit code and report of `hca pcap check`."""
    done = hca("pcap", "check", "--json", path)
    return done.code, json.loads(done.out) if done.out else None, done.err


@pytest.fixture(scope="module")
def packets(golden):
    return judge.read(golden)


def test_every_golden_packet_is_right(golden, packets, judged):
    """What Linux sent is right in the eyes of scapy, zlib and Wireshark."""
    kinds = Counter(packet.kind for packet in packets)
    judged("golden soft-RoCE capture", packets)
    assert kinds == {"RoCEv2 over IPv4": GOLDEN_PACKETS, "other": GOLDEN_OTHER}
    for number, (packet, row) in enumerate(zip(packets, judge.tshark(golden), strict=True), 1):
        assert judge.tshark_complaint(row) == ""
        if packet.kind == "other":
            assert row["layers"] == "eth:ethertype:arp"
            continue
        assert judge.faults(packet) == set(), f"packet {number}"
        fields = [int(row[name], 0) for name in ("opcode", "psn", "icrc")]
        want = [packet.opcode, packet.psn, int.from_bytes(packet.icrc)]
        assert (row["protocol"], fields) == ("RRoCE", want), f"packet {number}"


def test_scapy_reads_every_layer(packets):
    """Our extension of scapy and our own offsets name the same headers and the same payload."""
    seen = Counter()
    for packet in packets:
        if packet.kind == "other":
            continue
        layer, names = Ether(packet.data)[BTH].payload, []
        while layer and not isinstance(layer, Raw):
            names.append(layer.name)
            layer = layer.payload
        assert names == packet.header_names
        pad = packet.data[packet.end - 4 - packet.pad_bytes:packet.end - 4]
        assert bytes(layer) == packet.payload + pad
        seen.update(names)
    assert {"RETH", "AETH", "ImmDt", "AtomicETH", "AtomicAckETH", "DETH"} <= set(seen)


def test_the_sample_of_the_specification():
    """52 bytes, ICRC 0x9625B75A; and through the masks, from a packet with other variant fields."""
    assert len(SAMPLE) == 52 and judge.icrc(SAMPLE) == SAMPLE_ICRC
    data = b"\x70" + SAMPLE[1:12] + b"\x05" + SAMPLE[13:]
    packet = judge.Packet("InfiniBand", data + SAMPLE_ICRC + bytes(2), 0, 8, len(data) + 4)
    assert packet.masked() == SAMPLE
    assert judge.faults(packet) - {"vcrc", "length"} == set()
    wrong = data[:40] + bytes([data[40] ^ 1]) + data[41:]
    assert judge.icrc(judge.Packet("InfiniBand", wrong, 0, 8, len(data) + 4).masked()) != SAMPLE_ICRC


def test_vcrc_finds_any_burst():
    """A CRC-16 finds every burst of up to 16 bits; its register over data and VCRC is a constant."""
    data = SAMPLE + SAMPLE_ICRC
    sent = judge.vcrc(data)
    residue = judge.vcrc(data + sent)
    assert residue == judge.vcrc(b"another packet" + judge.vcrc(b"another packet"))
    bits = int.from_bytes(data, "little")
    for at in range(0, 8 * len(data) - 16, 7):
        for burst in (1, 3, 0x8001, 0xFFFF):
            assert judge.vcrc((bits ^ burst << at).to_bytes(len(data), "little")) != sent


def test_wireshark_complains(packets, tmp_path):
    """A wrong header checksum, a header cut short and a wrong UDP length do not pass as clean."""
    data = next(packet.data for packet in packets if packet.opcode == 0x0A and packet.kind != "other")
    wrong = [bytearray(data) for _ in range(3)]
    wrong[0][24] ^= 1
    wrong[1][16:18], wrong[1][38:40] = (20 + 8 + 14).to_bytes(2), (8 + 14).to_bytes(2)
    wrong[2][38] ^= 0x80
    judge.write(tmp_path / "wrong.pcap", judge.ETHERNET, [data, *wrong])
    clean, *complaints = [judge.tshark_complaint(row) for row in judge.tshark(tmp_path / "wrong.pcap")]
    assert clean == "" and all(complaints), complaints


@pytest.mark.parametrize("kind", WRAPPINGS)
def test_pcap_check_agrees_on_good_packets(kind, packets, hca, tmp_path, judged):
    """Golden packets in each wrapping: right for tshark, for the judge, and for `hca pcap check`."""
    link, wrap = WRAPPINGS[kind]
    path = tmp_path / "good.pcap"
    judge.write(path, link, [wrap(packet) for packet in packets if packet.kind != "other"])
    wrapped = judge.read(path)
    assert {packet.kind for packet in wrapped} == {kind}
    assert [judge.faults(packet) for packet in wrapped] == GOLDEN_PACKETS * [set()]
    assert [judge.tshark_complaint(row) for row in judge.tshark(path)] == GOLDEN_PACKETS * [""]
    code, report, _ = check(hca, path)
    assert (code, report["wrong"], report["icrc_checked"]) == (0, [], GOLDEN_PACKETS)
    assert report["vcrc_checked"] == (GOLDEN_PACKETS if link == judge.ERF else 0)
    judged(f"golden packets in {kind}", wrapped)


def test_pcap_check_agrees_on_the_golden_file(golden, hca):
    code, report, err = check(hca, golden)
    assert (code, report["wrong"], err) == (0, [], "")
    assert (report["icrc_checked"], report["opcodes"]["other"]["packets"]) == (GOLDEN_PACKETS, GOLDEN_OTHER)


def flipped(data, first_byte):
    """The packet with each of its bits flipped in turn."""
    for bit in range(8 * first_byte, 8 * len(data)):
        copy = bytearray(data)
        copy[bit // 8] ^= 1 << bit % 8
        yield bytes(copy)


@pytest.mark.parametrize("kind", WRAPPINGS)
def test_a_flipped_bit_is_noticed(kind, packets, hca, tmp_path):
    """Any bit of any header or payload: the judge and `hca pcap check` call the same packets wrong. What
    neither notices is a field that switches and routers may change, or what makes it no RoCEv2 packet."""
    link, wrap = WRAPPINGS[kind]
    shortest = {}
    for packet in packets:
        if packet.kind != "other" and len(packet.data) <= len(shortest.get(packet.opcode, packet).data):
            shortest[packet.opcode] = packet
    originals = [wrap(shortest[opcode]) for opcode in (0x0A, 0x11)]  # WRITE Only and Acknowledge
    variants = [copy for data in originals for copy in flipped(data, HEADER_BYTES[link])]
    path = tmp_path / "flipped.pcap"
    judge.write(path, link, variants)
    read = judge.read(path)
    code, report, _ = check(hca, path)
    ours = {}
    for entry in report["wrong"]:
        ours.setdefault(entry["packet"], set()).add(entry["kind"])
    assert code == 1
    unnoticed = Counter()
    for number, packet in enumerate(read, 1):
        found = judge.faults(packet) if packet.kind != "other" else None
        assert found is None or bool(found) == (number in ours), f"{found} {ours.get(number)} {packet}"
        if found and "length" not in found and "malformed" not in ours[number]:
            assert found == ours[number], f"packet {number}"
        unnoticed["other" if found is None else "masked"] += not found
    # Bits per original that the ICRC of RoCEv2 does not cover; on InfiniBand the VCRC covers those as well.
    masked = {"RoCEv2 over IPv4": 8 + 8 + 16 + 16 + 8, "RoCEv2 over IPv6": 8 + 20 + 8 + 16 + 8}.get(kind, 0)
    assert unnoticed["masked"] == masked * len(originals)
    assert unnoticed["other"] <= 64 * len(originals) < len(variants) / 4


def test_exit_codes(golden, packets, hca, tmp_path):
    """0 good, 1 a wrong packet, 2 a file that cannot be judged, with one sentence that names it."""
    whole = golden.read_bytes()
    bad = bytearray(whole)
    bad[-9] ^= 4
    (tmp_path / "bad.pcap").write_bytes(bad)
    code, report, _ = check(hca, tmp_path / "bad.pcap")
    assert code == 1 and [entry["packet"] for entry in report["wrong"]] == [len(packets)]
    files = {"cut": whole[:-5], "head": whole[:11], "foreign": b"\x7fELF" + whole, "empty": b""}
    for name, content in files.items():
        (tmp_path / name).write_bytes(content)
        code, report, err = check(hca, tmp_path / name)
        assert (code, report) == (2, None) and err.count("\n") == 1 and name in err, (name, code, err)
