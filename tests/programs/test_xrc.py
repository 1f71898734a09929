"""Debian's programs over extended reliable connections (XRC)."""

import pytest
from test_perftest import GID, measure
from test_pingpong import GID as PINGPONG_GID


def quick(*values):
    return pytest.param(*values, marks=pytest.mark.quick)


# The program prints no figures: that every message came to its SRQ is what it calls success.
@pytest.mark.parametrize(("link", "words"), [
    *[(link, ["-n", 100, *more]) for link in GID
      for more in ([], ["-e"], ["-s", 1], ["-s", 65536], ["-m", 256, "-s", 3000])],
    ("ib", ["-g", 0, "-n", 100]),
    quick("eth", ["-n", 50, "-e", "-s", 5000]),
    quick("ib", ["-n", 50]),
], ids=lambda value: "".join(map(str, value)))
def test_xsrq_pingpong(simulators, row, link, words):
    row("ibv_xsrq_pingpong", " ".join(map(str, words)), link)
    sim = simulators(link=link)
    before = sim.sent(0, 1)
    for done in sim.pair(["ibv_xsrq_pingpong", *PINGPONG_GID[link], *words]):
        assert done.code == 0 and "success" in done.text, done
    sent = [after - past for after, past in zip(sim.sent(0, 1), before, strict=True)]
    assert min(sent) >= words[words.index("-n") + 1], f"{sent} packets on the cable for {words}"


XRC = ["-c", "XRC"]


@pytest.mark.parametrize(("link", "program", "words"), [
    *[(link, f"ib_{kind}_bw", [*XRC, "-n", 40, *more]) for link in GID for kind in ("send", "write", "read")
      for more in (["-s", 2048], ["-s", 65536], ["-s", 2048, "-q", 4], ["-s", 8192, "-b"])],
    *[(link, f"ib_{kind}_lat", [*XRC, "-n", 50, *more]) for link in GID for kind in ("send", "write", "read")
      for more in ([], ["-s", 1000])],
    *[(link, f"ib_atomic_{kind}", [*XRC, "-n", 100, "-A", op]) for link in GID for kind in ("bw", "lat")
      for op in ("FETCH_AND_ADD", "CMP_AND_SWAP")],
    *[(link, "ib_send_bw", [*XRC, "-e", "-n", 40, "-s", 1024]) for link in GID],
    quick("eth", "ib_send_bw", [*XRC, "-n", 40, "-s", 8192, "-q", 2]),
    quick("ib", "ib_write_bw", [*XRC, "-n", 40, "-s", 16384]),
    quick("eth", "ib_read_lat", [*XRC, "-n", 20]),
    quick("ib", "ib_atomic_lat", [*XRC, "-n", 20]),
], ids=lambda value: "".join(map(str, value)))
def test_perftest(simulators, row, link, program, words):
    row(program, " ".join(map(str, words)), link)
    measure(simulators(link=link), link, program, words)
