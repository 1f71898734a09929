"""Debian's programs over unreliable connections (UC)."""

import pytest
from test_perftest import GID, measure
from test_pingpong import GID as PINGPONG_GID
from test_pingpong import assert_exchanged


def quick(*values):
    return pytest.param(*values, marks=pytest.mark.quick)


@pytest.mark.parametrize(("link", "words"), [
    *[(link, ["-c", "-n", 100, *more]) for link in GID
      for more in (["-e"], ["-s", 1], ["-s", 65536], ["-m", 256, "-s", 3000], ["-r", 1])],
    ("ib", ["-c", "-g", 0, "-n", 100]),
    quick("eth", ["-c", "-n", 100, "-s", 9000]),
    quick("ib", ["-c", "-n", 50, "-e"]),
], ids=lambda value: "".join(map(str, value)))
def test_uc_pingpong(simulators, row, link, words):
    row("ibv_uc_pingpong", " ".join(map(str, words)), link)
    sim = simulators(link=link)
    before = sim.sent(0, 1)
    words = words if "-s" in words else [*words, "-s", 4096]
    assert_exchanged(sim.pair(["ibv_uc_pingpong", *PINGPONG_GID[link], *words]), words)
    sent = [after - past for after, past in zip(sim.sent(0, 1), before, strict=True)]
    assert min(sent) >= words[words.index("-n") + 1], f"{sent} packets on the cable for {words}"


UC = ["-c", "UC"]


@pytest.mark.parametrize(("link", "program", "words"), [
    *[(link, program, [*UC, "-n", 96, *more]) for link in GID for program in ("ib_send_bw", "ib_write_bw")
      for more in (["-s", 65536], ["-s", 8192, "-b"], ["-s", 64, "-e"], ["-s", 4096, "-q", 4], ["-s", 5000, "-m", 512],
                   ["-s", 512, "-l", 8]) if (program, more[-1]) != ("ib_write_bw", "-e")],
    *[(link, program, [*UC, "-n", 50, *more]) for link in GID for program in ("ib_send_lat", "ib_write_lat")
      for more in ([], ["-s", 20000])],
    quick("eth", "ib_write_bw", [*UC, "-n", 64, "-s", 16384]),
    quick("ib", "ib_send_bw", [*UC, "-n", 64, "-s", 16384]),
    quick("ib", "ib_write_lat", [*UC, "-n", 20, "-s", 64]),
], ids=lambda value: "".join(map(str, value)))
def test_perftest(simulators, row, link, program, words):
    row(program, " ".join(map(str, words)), link)
    measure(simulators(link=link), link, program, words)
