"""Mixed traffic between card and soft-RoCE for as long as wanted: make peers ARGS="--soak-minutes 30 -k soak"."""

import random
import re
import time

import perftest
import pytest
from cards import LIMIT_S

# The last two with bandwidth programs only: ibv_rc_pingpong's time-out of 67 ms cannot be changed, and on a busy
# machine soft-RoCE begins anew before so much has been acknowledged.
SIZES = [1, 64, 1000, 4096, 65536, 300_000, 1 << 20]
FAULTS = [{}, {"faults": "loss=0.001"}, {"faults": "reorder=0.01,delay_ns=2000"}]
TIMEOUT = 20
"""Four seconds: other work on the machine must not look like a peer that is gone."""
ROUND = 20
"""Programs after which the cable is exchanged for the next one."""


def draw(rng):
    program = rng.choice(["ibv_rc_pingpong", "ibv_rc_pingpong", *perftest.BANDWIDTH, *perftest.LATENCY])
    options = ["-m", rng.choice([1024, 2048, 4096])]
    lines = iterations = rng.randrange(5, 30)
    if program == "ibv_rc_pingpong":
        options += rng.choice([["-c"], ["-c", "-e"]])
    elif program in perftest.BANDWIDTH:
        extra = rng.choice([[], ["-b"], ["-q", 3]])
        lines *= 3 if "-q" in extra else 1
        options += extra
    bytes_ = rng.choice(SIZES if program in perftest.BANDWIDTH else SIZES[:5])
    return program, options, bytes_, iterations, lines, rng.choice(["IPv4", "IPv6"]), rng.choice(["rxe", "card"])


def last_acknowledgement_lost(done, cable):
    """One end has all that it waited for and has gone, the acknowledgement of the other end's last message was lost on
    the cable, and nobody is left who could repeat it. Neither end can know: such a run tells nothing."""
    failed = [end for end in done if end.code != 0]
    if "loss" not in cable.get("faults", "") or len(failed) != 1:
        return False
    return bool(re.search(r"status 12:|counter exceeded \(12\)", failed[0].text))


@pytest.mark.soak
def test_soak(rxe, request, row):
    minutes, seed = (request.config.getoption(name) for name in ("--soak-minutes", "--soak-seed"))
    row("mixed traffic", f"{minutes:g} minutes, seed {seed}", "card <-> rxe")
    rng = random.Random(seed)
    end, count, orphans = time.monotonic() + 60 * minutes, 0, 0
    while time.monotonic() < end:
        cable = FAULTS[count // ROUND % len(FAULTS)]
        rxe.plug(**cable)
        program, options, bytes_, iterations, lines, kind, server = draw(rng)
        words = perftest.words(program, *options, iterations=iterations, bytes_=bytes_, timeout=TIMEOUT)
        done = rxe.run_pair(words, kind, server, limit_s=LIMIT_S)
        count += 1
        if last_acknowledgement_lost(done, cable):
            orphans += 1
            # One packet in a thousand: a few in hours.
            assert orphans <= 1 + count // 100, f"seed {seed}: {orphans} of {count} programs ended without an answer"
            continue
        try:
            perftest.judge(done, bytes_, lines)
        except AssertionError as error:
            raise AssertionError(f"seed {seed}, program {count - 1}: {error}") from error
    row.figure(f"{count} programs, {orphans} without the last acknowledgement")
