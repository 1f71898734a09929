"""`hca run --report`: what the card says of a program, against what the program was told to do."""

import re
import subprocess

import pytest

WIRE_BYTES_PER_S = 12.5e9
PREFIXES = {"": 1, "k": 1e3, "M": 1e6, "G": 1e9}


def run(hca, *words):
    words = [str(word) for word in (hca, "run", "--report", *words)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done
    output, _, report = done.stdout.partition("What the card saw, in simulated time:\n")
    assert output and report, done
    return report


def figures(report, kind):
    """[(messages, bytes, bytes per second)] of all lines of a kind."""
    line = rf"^    {kind} +(\d+) messages, (\d+) bytes in [\d.]+ us: ([\d.]+)(\w?)B/s"
    lines = re.findall(line, report, re.MULTILINE)
    return [(int(messages), int(size), float(rate) * PREFIXES[prefix]) for messages, size, rate, prefix in lines]


@pytest.mark.quick
def test_a_pair(hca, row):
    row("hca run --pair --report", "ib_write_bw -s 65536 -n 50 -q 2")
    words = ["ib_write_bw", "-s", 65536, "-n", 50, "-q", 2, "-x", 1]
    report = run(hca, "--pair", "--", *words, "---", *words, "localhost")
    assert report.count("ib_write_bw (process ") == 2, report
    sent = figures(report, "sent")
    assert [(messages, size) for messages, size, _ in sent] == [(50, 50 * 65536)] * 2, report
    rate = sum(rate for _, _, rate in sent)
    assert 0.8 * WIRE_BYTES_PER_S < rate < WIRE_BYTES_PER_S, report
    assert not figures(report, "received") and "0 of them retransmissions" in report, report
    # 16 packets of the MTU each.
    assert report.count(f"{50 * 16} requests") == 2, report


def test_loss_shows(hca, row):
    row("hca run --pair --report", "ib_send_bw -s 4096 -n 500, 1 % loss")
    words = ["ib_send_bw", "-s", 4096, "-n", 500, "-x", 1]
    report = run(hca, "--pair", "--faults", "loss=0.01", "--", *words, "---", *words, "localhost")
    assert [found[:2] for found in figures(report, "sent")] == [(500, 500 * 4096)], report
    assert [found[:2] for found in figures(report, "received")] == [(500, 500 * 4096)], report
    requests, again, restarts = map(int, re.search(
        r"(\d+) requests, (\d+) of them retransmissions in (\d+) restarts", report).groups())
    assert requests - again == 500 and 1 <= restarts <= again, report


def test_a_program_of_a_running_simulator(hca, sim, row):
    row("hca run --report", "ibv_devinfo")
    report = run(hca, "--dir", sim.sockets, "--card", 0, "--", "ibv_devinfo")
    assert re.fullmatch(r"card0 function \d: ibv_devinfo \(process \d+\)\n  no QPs\n", report), report
