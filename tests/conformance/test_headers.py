"""The headers of packets field by field, as Wireshark reads them, on both personalities: against what the programs at
both ends say of themselves. Fragmented messages with padding, and a multicast group."""

import re
import subprocess

import judge
import pytest

FIELDS = """infiniband.lrh.lver infiniband.lrh.slid infiniband.lrh.dlid infiniband.lrh.sl infiniband.lrh.vl
    infiniband.lrh.lnh infiniband.lrh.pktlen infiniband.grh.ipver infiniband.grh.nxthdr infiniband.grh.paylen
    infiniband.grh.hoplmt infiniband.grh.sgid infiniband.grh.dgid infiniband.bth.opcode infiniband.bth.se
    infiniband.bth.m infiniband.bth.padcnt infiniband.bth.tver infiniband.bth.p_key infiniband.bth.destqp
    infiniband.bth.a infiniband.bth.reserved7 infiniband.bth.psn infiniband.deth.q_key infiniband.deth.srcqp
    eth.dst eth.type ip.version ip.src ip.dst ip.proto ip.flags.df ipv6.version ipv6.nxt ipv6.dst udp.dstport udp.length
    frame.len""".split()
BYTES, MTU, MESSAGES, LEVEL = 1001, 256, 20, 3
SEND_FIRST, SEND_MIDDLE, SEND_LAST, ACKNOWLEDGE, UD_SENDS = 0, 1, 2, 17, (0x64, 0x65)
PADDING = -BYTES % 4
GROUP, CM_QKEY, MULTICAST_QPN = "239.1.2.3", 0x01234567, 0xFFFFFF
SIDE = re.compile(r"server:\s+(local|remote) address: LID (\w+) QPN (\w+) PSN (\w+)")


def number(text):
    return int(text, 0) if text else None


def headers(pcap):
    """[{field: text}] of the data packets, beside what the other reader of the capture says."""
    command = ["tshark", "-n", "-r", str(pcap), "-T", "fields", "-E", "separator=/t", "-E", "occurrence=f"]
    for field in FIELDS:
        command += ["-e", field]
    lines = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120).stdout.splitlines()
    rows = [dict(zip((field.removeprefix("infiniband.") for field in FIELDS), line.split("\t"), strict=True))
            for line in lines]
    packets = judge.read(pcap)
    assert len(rows) == len(packets) > 0
    return [(row, packet) for row, packet in zip(rows, packets, strict=True) if packet.kind != "link"]


def check_link(link, row, packet, lids):
    """WIRE-1, WIRE-11, WIRE-14, SYS-5: what comes before the BTH."""
    if link == "ib":
        assert (row["lrh.lver"], row["lrh.sl"]) == ("0", str(LEVEL))
        assert {number(row["lrh.slid"]), number(row["lrh.dlid"])} == lids
        assert number(row["lrh.pktlen"]) * 4 == packet.end
        assert (number(row["lrh.lnh"]) == 3) == (packet.kind == "InfiniBand with GRH") == bool(row["grh.dgid"])
        assert packet.bth == (48 if row["grh.dgid"] else 8) and not row["eth.dst"]
    else:
        assert (row["eth.type"], row["ip.version"], row["ip.proto"]) == ("0x0800", "4", "17")
        assert row["udp.dstport"] == "4791"
        assert not row["lrh.slid"] and not row["grh.dgid"]
        # No VCRC: the frame ends behind the ICRC.
        assert number(row["frame.len"]) == packet.end == len(packet.data)
        assert number(row["udp.length"]) == packet.end - packet.bth + 8
    if row["grh.dgid"]:
        assert (row["grh.ipver"], row["grh.nxthdr"]) == ("6", "27")
        assert number(row["grh.paylen"]) == packet.end - 48


@pytest.mark.parametrize(("link", "gid"), [("eth", ["-x", 1]), ("ib", []), ("ib", ["-x", 0])],
                         ids=["eth", "ib", "ib-global"])
def test_a_connection(hca, judged, tmp_path, link, gid):
    """WIRE-1 to WIRE-3, WIRE-6 to WIRE-8, WIRE-11, WIRE-13 to WIRE-15, KEY-13, X-1, X-2, X-5, X-7:
    SENDs of four packets, the last of them padded, one acknowledge at least for each."""
    pcap = tmp_path / "link.pcap"
    words = ["ib_send_bw", "-F", *gid, "-n", MESSAGES, "-s", BYTES, "-m", MTU, "-S", LEVEL]
    done = hca("run", "--pair", "--link", link, "--pcap", pcap, "--", *words, "---", *words, "localhost")
    assert done.code == 0, done
    server, client = (tuple(int(text, 16) for text in SIDE.findall(done.out)[at][1:]) for at in (0, 1))
    rows = headers(pcap)
    judged(f"headers {link}", [packet for _, packet in rows])
    requests = []
    for row, packet in rows:
        check_link(link, row, packet, {server[0], client[0]})
        assert (packet.kind == "InfiniBand with GRH") == (link == "ib" and bool(gid))
        assert judge.faults(packet) == set()  # ICRC, VCRC, lengths
        opcode = number(row["bth.opcode"])
        assert opcode in (SEND_FIRST, SEND_MIDDLE, SEND_LAST, ACKNOWLEDGE)
        # MigReq: the path is the primary one. No event was asked for.
        assert (row["bth.tver"], row["bth.m"], row["bth.se"], row["bth.reserved7"]) == ("0", "1", "0", "0")
        assert number(row["bth.p_key"]) == 0xFFFF
        assert number(row["bth.destqp"]) == (client if opcode == ACKNOWLEDGE else server)[1]
        if opcode == ACKNOWLEDGE:
            assert packet.payload == b"" and row["bth.a"] == row["bth.padcnt"] == "0"
        else:
            requests.append((row, packet))
    kinds = [SEND_FIRST, SEND_MIDDLE, SEND_MIDDLE, SEND_LAST]
    assert len(requests) == MESSAGES * len(kinds)
    for count, (row, packet) in enumerate(requests):
        opcode = kinds[count % len(kinds)]
        assert number(row["bth.opcode"]) == opcode
        assert number(row["bth.psn"]) == (client[2] + count) % 2**24
        is_last = opcode == SEND_LAST
        assert len(packet.payload) == (BYTES % MTU if is_last else MTU)
        assert (row["bth.padcnt"], row["bth.a"]) == ((str(PADDING), "1") if is_last else ("0", row["bth.a"]))


@pytest.mark.parametrize("link", ["eth", "ib"])
def test_a_group(hca, judged, tmp_path, link):
    """WIRE-2, WIRE-15, ADDR-2, KEY-26, SYS-11, X-4: datagrams to a group are for no QP, carry a global header, and go
    to an address of groups on the link."""
    pcap = tmp_path / "link.pcap"
    server = ["mckey", "-m", GROUP, "-b", "10.0.0.1"]
    client = ["mckey", "-m", GROUP, "-b", "10.0.0.2", "-s"]
    done = hca("run", "--pair", "--link", link, "--pcap", pcap, "--", *server, "---", *client)
    assert done.code == 0, done
    rows = [(row, packet) for row, packet in headers(pcap) if packet.opcode in UD_SENDS
            and number(row["deth.q_key"]) == CM_QKEY]
    judged(f"group {link}", [packet for _, packet in rows])
    assert len(rows) >= 10
    for row, packet in rows:
        assert judge.faults(packet) == set()
        assert number(row["bth.destqp"]) == MULTICAST_QPN and 1 < number(row["deth.srcqp"]) < MULTICAST_QPN
        if link == "ib":
            assert 0xC000 <= number(row["lrh.dlid"]) <= 0xFFFE and 1 <= number(row["lrh.slid"]) <= 0xBFFF
            assert row["grh.dgid"].startswith("ff") and packet.kind == "InfiniBand with GRH"
        else:
            assert row["ip.dst"] == GROUP and row["eth.dst"] == "01:00:5e:01:02:03"
            assert row["udp.dstport"] == "4791"
