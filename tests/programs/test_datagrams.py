"""Debian's programs over datagrams (UD)."""

import re

import pytest
from test_perftest import GID, measure
from test_pingpong import GID as PINGPONG_GID
from test_pingpong import assert_exchanged

# What it sends by default.
SIZE = 1024


def quick(*values):
    return pytest.param(*values, marks=pytest.mark.quick)


def pingpong(sim, link, words):
    before = sim.sent(0, 1)
    ends = sim.pair(["ibv_ud_pingpong", *PINGPONG_GID[link], *words])
    words = words if "-s" in words else [*words, "-s", SIZE]
    assert_exchanged(ends, words)
    iters = words[words.index("-n") + 1] if "-n" in words else 1000
    sent = [after - past for after, past in zip(sim.sent(0, 1), before, strict=True)]
    assert min(sent) >= iters, f"{sent} packets on the cable for {words}"


@pytest.mark.parametrize(("link", "words"), [
    *[(link, ["-c", *more]) for link in GID for more in ([], ["-e"], ["-s", 4096, "-n", 100], ["-s", 1, "-n", 100])],
    ("ib", ["-c", "-g", 0, "-n", 100]),
    quick("eth", ["-c", "-n", 100]),
    quick("ib", ["-c", "-n", 50, "-e"]),
], ids=lambda value: "".join(map(str, value)))
def test_ud_pingpong(simulators, row, link, words):
    row("ibv_ud_pingpong", " ".join(map(str, words)), link)
    pingpong(simulators(link=link), link, words)


def test_ten_times_in_a_row(simulators, row):
    row("ibv_ud_pingpong", "-c, ten times in a row")
    for _ in range(10):
        pingpong(simulators(), "eth", ["-c", "-n", 50])


UD = ["-c", "UD"]


@pytest.mark.parametrize(("link", "program", "words"), [
    *[(link, "ib_send_bw", [*UD, "-n", 96, *more]) for link in GID
      for more in (["-s", 2048], ["-s", 2048, "-b"], ["-s", 64, "-e"], ["-s", 2048, "-q", 4], ["-s", 1024, "-m", 1024],
                   ["-s", 512, "-l", 8])],
    *[(link, "ib_send_lat", [*UD, "-n", 50, *more]) for link in GID for more in ([], ["-e"], ["-s", 4096])],
    quick("eth", "ib_send_bw", [*UD, "-n", 64, "-s", 4096]),
    quick("ib", "ib_send_lat", [*UD, "-n", 20, "-s", 64]),
], ids=lambda value: "".join(map(str, value)))
def test_perftest(simulators, row, link, program, words):
    row(program, " ".join(map(str, words)), link)
    measure(simulators(link=link), link, program, words)


@pytest.mark.parametrize("index", [0, 2])
def test_perftest_multicast(simulators, row, index):
    """Its groups are IPv6 addresses, so the port's own has to be one."""
    words = ["ib_send_bw", "-c", "UD", "-g", "-x", index, "-n", 40, "-s", 1024]
    row(words[0], " ".join(map(str, words[1:])), "eth")
    for done in simulators(link="eth").pair(words):
        assert done.code == 0, done
        assert re.search(r"^ *1024 +40 ", done.text, re.MULTILINE), done
