"""Programs whose cards are joined by two InfiniBand switches, with a packet in a thousand lost on every cable."""

from pathlib import Path

import pytest
from test_perftest import measure
from test_pingpong import pingpong

TOPOLOGY = Path(__file__).resolve().with_name("two-switches-loss.toml")
THROUGH = "through two switches, 0.1 % loss"
# Enough packets for some to be lost: three cables, there and back.
BANDWIDTH = ["-n", 40, "-s", 65536, "-m", 1024]
CASES = [("ib_write_bw", BANDWIDTH), ("ib_read_bw", BANDWIDTH), ("ib_send_bw", BANDWIDTH),
         ("ib_write_bw", ["-q", 4, *BANDWIDTH]), ("ib_send_bw", ["-b", *BANDWIDTH])]
QUICK = [("ib_read_bw", BANDWIDTH)]


def cases():
    for program, words in CASES:
        mark = [pytest.mark.quick] if (program, words) in QUICK else []
        yield pytest.param(program, words, id=f"{program}{''.join(map(str, words))}", marks=mark)


def retransmitted(sim):
    return sum(card["ports"][0]["retransmitted_packets"] for card in sim.info())


@pytest.mark.parametrize(("program", "words"), list(cases()))
def test_perftest(simulators, row, program, words):
    """It measures what it was asked for; what got lost was sent again."""
    row(program, f"{' '.join(map(str, words))}, {THROUGH}", "ib")
    sim = simulators(topology=TOPOLOGY)
    before = retransmitted(sim)
    measure(sim, "ib", program, words)
    again = retransmitted(sim) - before
    assert again > 0, "nothing was lost"
    row.figure(f"{again} packets sent again")


def test_pingpong(simulators, row):
    """Every byte is looked at."""
    words = ["-c", "-n", 100, "-s", 32768]
    row("ibv_rc_pingpong", f"{' '.join(map(str, words))}, {THROUGH}", "ib")
    sim = simulators(topology=TOPOLOGY)
    before = retransmitted(sim)
    pingpong(sim, "ib", words)
    assert retransmitted(sim) > before, "nothing was lost"
