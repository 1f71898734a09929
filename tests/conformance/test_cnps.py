"""Congestion notification packets as Wireshark and the other reader see them: an incast through a switch that marks."""

import subprocess

import judge

FIELDS = """infiniband.bth.opcode infiniband.bth.se infiniband.bth.m infiniband.bth.padcnt infiniband.bth.tver
    infiniband.bth.p_key infiniband.bth.destqp infiniband.bth.a infiniband.bth.psn ip.dsfield.dscp ip.dsfield.ecn ip.src
    ip.dst udp.dstport""".split()
CNP, BECN, CNP_BYTES = 0x81, 0x40, 16
NOT_ECT, ECT0, CE = 0, 2, 3


def rows(pcap):
    """[{field: number, or text of an address}] of all packets."""
    command = ["tshark", "-n", "-r", str(pcap), "-T", "fields", "-E", "separator=/t", "-E", "occurrence=f"]
    for field in FIELDS:
        command += ["-e", field]
    lines = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120).stdout.splitlines()
    names = [field.rpartition(".")[2] for field in FIELDS]
    return [{name: text if text.count(".") == 3 else int(text or "-1", 0)
             for name, text in zip(names, line.split("\t"), strict=True)} for line in lines]


def test_cnps(hca, judged, tmp_path):
    """Annex A17: BECN, the peer's QP, PSN 0, 16 bytes of zero, a class of its own, no mark on it; on the data of a
    connection ECT(0), or CE; on acknowledges neither. Each CNP goes to a sender of which data came marked."""
    pcap = tmp_path / "link.pcap"
    done = hca("incast", "--senders", 2, "--control", "dcqcn", "--settle", 1, "--look", 12000, "--pcap", pcap, "--out",
               tmp_path)
    assert done.code == 0, done
    packets = judge.read(pcap)
    pairs = [(row, packet) for row, packet in zip(rows(pcap), packets, strict=True) if packet.roce]
    judged("CNPs", [packet for _, packet in pairs])
    marked, told = set(), 0
    for row, packet in pairs:
        assert judge.faults(packet) == set()
        if row["opcode"] == CNP:
            told += 1
            assert (row["se"], row["m"], row["padcnt"], row["tver"], row["a"], row["psn"]) == (0, 1, 0, 0, 0, 0)
            assert row["p_key"] == 0xFFFF and row["dstport"] == 4791
            assert packet.data[packet.bth + 4] == BECN
            assert packet.payload == bytes(CNP_BYTES)
            assert (row["dscp"], row["ecn"]) == (48, NOT_ECT)
            assert row["dst"] in marked
        elif row["opcode"] == 17:
            assert row["ecn"] == NOT_ECT
        else:
            assert row["ecn"] in (ECT0, CE)
            if row["ecn"] == CE:
                marked.add(row["src"])
    assert told >= 2 and len(marked) == 2
