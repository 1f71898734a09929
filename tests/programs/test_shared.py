"""Debian's programs that receive from a shared receive queue (SRQ)."""

import pytest
from test_perftest import GID, measure
from test_pingpong import GID as PINGPONG_GID
from test_pingpong import assert_exchanged


def quick(*values):
    return pytest.param(*values, marks=pytest.mark.quick)


# Its sixteen QPs share what it posts.
@pytest.mark.parametrize(("link", "words"), [
    *[(link, ["-n", 100, *more]) for link in GID
      for more in ([], ["-e"], ["-s", 1], ["-s", 65536], ["-m", 256, "-s", 3000], ["-q", 1], ["-q", 32, "-r", 64])],
    ("ib", ["-g", 0, "-n", 100]),
    quick("eth", ["-n", 50, "-e", "-q", 4]),
    quick("ib", ["-n", 50, "-q", 8, "-s", 5000]),
], ids=lambda value: "".join(map(str, value)))
def test_srq_pingpong(simulators, row, link, words):
    row("ibv_srq_pingpong", " ".join(map(str, words)), link)
    sim = simulators(link=link)
    before = sim.sent(0, 1)
    words = words if "-s" in words else [*words, "-s", 4096]
    assert_exchanged(sim.pair(["ibv_srq_pingpong", *PINGPONG_GID[link], *words]), words)
    sent = [after - past for after, past in zip(sim.sent(0, 1), before, strict=True)]
    assert min(sent) >= words[words.index("-n") + 1], f"{sent} packets on the cable for {words}"


SRQ = ["--use-srq"]


@pytest.mark.parametrize(("link", "program", "words"), [
    *[(link, "ib_send_bw", [*SRQ, "-c", service, "-n", 96, *more]) for link in GID for service in ("RC", "UC", "UD")
      for more in (["-s", 2048], ["-s", 1024, "-b"], ["-s", 64, "-e"], ["-s", 2048, "-q", 4], ["-s", 512, "-l", 8])],
    *[(link, "ib_send_lat", [*SRQ, "-c", service, "-n", 50, *more]) for link in GID for service in ("RC", "UC", "UD")
      for more in ([], ["-s", 1000])],
    *[(link, "ib_send_bw", [*SRQ, "-n", 40, "-s", 65536, "-q", 2]) for link in GID],
    quick("eth", "ib_send_bw", [*SRQ, "-n", 64, "-s", 16384, "-q", 4]),
    quick("ib", "ib_send_bw", [*SRQ, "-c", "UD", "-n", 64, "-s", 1024]),
    quick("ib", "ib_send_lat", [*SRQ, "-n", 20]),
], ids=lambda value: "".join(map(str, value)))
def test_perftest(simulators, row, link, program, words):
    row(program, " ".join(map(str, words)), link)
    measure(simulators(link=link), link, program, words)
