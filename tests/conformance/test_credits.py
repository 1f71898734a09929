"""End-to-end credits (X-3, decision 0068) of an unmodified program whose receive queue is small, on both personalities:
as Wireshark reads them, no SEND leaves before its receive has been told of but one that asks, and no other one is
refused."""

import subprocess

import judge
import pytest

SEND_ONLY, ACKNOWLEDGE, ACK, RNR = 4, 17, 0, 1
MESSAGES, RECEIVES = 400, 16
# IBA vol1 9.7.7.2: the table of credit counts.
COUNTS = [0, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 1536, 2048, 3072, 4096,
          6144, 8192, 12288, 16384, 24576, 32768]
FIELDS = ["infiniband.bth.opcode", "infiniband.bth.psn", "infiniband.bth.a", "infiniband.aeth.syndrome.opcode",
          "infiniband.aeth.syndrome.credit_count", "infiniband.aeth.msn"]


def rows(pcap):
    """Wireshark's view of SENDs and acknowledges, in order."""
    asked = [word for name in FIELDS for word in ("-e", name)]
    shown = f"infiniband.bth.opcode == {SEND_ONLY} || infiniband.bth.opcode == {ACKNOWLEDGE}"
    command = ["tshark", "-n", "-r", str(pcap), "-Y", shown, "-T", "fields", *asked]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return [line.split("\t") for line in done.stdout.splitlines()]


@pytest.mark.parametrize("link", ["eth", "ib"])
def test_credits(hca, judged, tmp_path, link):
    pcap = tmp_path / "link.pcap"
    gid = ["-x", 1] if link == "eth" else []
    words = ["ib_send_bw", *gid, "-n", MESSAGES, "-r", RECEIVES, "-s", 64]
    done = hca("run", "--pair", "--link", link, "--pcap", pcap, "--", *words, "---", *words, "localhost")
    assert done.code == 0, done
    judged(f"credits {link}", [packet for packet in judge.read(pcap) if packet.kind != "link"])
    limit, ended, sent, told, psns, probes = 0, 0, 0, set(), set(), set()
    for opcode, psn, asks, syndrome, credits, msn in rows(pcap):
        if int(opcode, 0) == SEND_ONLY and psn in psns:
            assert psn in probes, f"PSN {psn}: once more"
        elif int(opcode, 0) == SEND_ONLY:
            sent += 1
            psns.add(psn)
            if sent > limit:
                probes.add(psn)
                assert sent == ended + 1 and asks in ("1", "True"), f"PSN {psn}: {sent} of {limit}"
        elif int(syndrome, 0) == RNR:   # a program that the machine has kept from posting: whoever asked may hear so
            assert psn in probes, f"PSN {psn}: refused"
        else:
            assert int(syndrome, 0) == ACK, f"PSN {psn}: syndrome {syndrome}"
            code, ended = int(credits, 0), int(msn, 0)
            limit = max(limit, ended + COUNTS[code])
            told.add(code)
    assert sent == ended == MESSAGES, (sent, ended)
    assert len(told) > 1 and max(COUNTS[code] for code in told) <= RECEIVES, told
