"""`hca run --pair`: several at once on one machine."""

import re
import subprocess

import pytest
from cards import LIMIT_S, WITH_US

ITERS = (20, 30)


def start(hca, iters):
    """A pair with a report, on the default TCP port of its programs. Both find their card under one name."""
    words = ["ibv_rc_pingpong", "-d", "hca0", "-c", "-g", "1", "-n", str(iters)]
    command = [*WITH_US, hca, "run", "--pair", "--report", "--", *words, "---", *words, "localhost"]
    return subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                            text=True)


def at_once(hca):
    """Two pairs on the same port: each has its answers, and its simulator has seen its traffic and no other."""
    pairs = [start(hca, iters) for iters in ITERS]
    texts = [pair.communicate(timeout=LIMIT_S)[0] for pair in pairs]
    for iters, pair, text in zip(ITERS, pairs, texts, strict=True):
        assert pair.returncode == 0 and text.count(f"{iters} iters in ") == 2, text
        for what in ("sent", "received"):
            assert text.count(f" {what} ") == len(re.findall(rf" {what} +{iters} messages, ", text)) == 2, text


@pytest.mark.quick
def test_two_pairs_at_once(hca, row):
    row("hca run --pair", "two at once on one TCP port")
    at_once(hca)


def test_two_pairs_at_once_ten_times(hca, row):
    row("hca run --pair", "two at once on one TCP port, ten times")
    for _ in range(10):
        at_once(hca)
