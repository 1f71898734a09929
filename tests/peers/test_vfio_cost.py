"""What the way through a guest costs, beside those through a socket and inside of one process."""

import re
import subprocess

import pytest
import vfio
from cards import LIMIT_S


@pytest.fixture(scope="module")
def slots(boot, hca):
    sim = vfio.two_cards(hca)
    slots = vfio.Slots(boot, "cost", [sim.sockets / "card0.0", sim.sockets / "card1.0"])
    yield slots
    slots.guest.stop()
    sim.stop()


def costs(text):
    """{step: ns}, the mean of both cards."""
    found = {}
    for step, cost_ns in re.findall(r": (.+): (\d+) ns$", text, re.MULTILINE):
        found.setdefault(step, []).append(int(cost_ns))
    return {step: sum(values) / len(values) for step, values in found.items()}


def run(*words):
    return costs(subprocess.run(words, check=True, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                                timeout=LIMIT_S).stdout)


def test_cost(slots, hca, row):
    row("hca-parity --cost", "as ratios to the same in one process", "vfio, vfio-user")
    guest = costs(slots.check(f"hca-parity --cost {' '.join(slots.addresses)}", limit_s=300))
    sim = vfio.two_cards(hca)
    try:
        socket = run(hca.with_name("hca-parity"), "--cost", sim.sockets / "card0.0", sim.sockets / "card1.0")
    finally:
        sim.stop()
    process = run("cargo", "run", "--quiet", "--release", "-p", "hca-system-tests", "--example", "parity_costs")
    assert guest.keys() == socket.keys() == process.keys() and len(guest) >= 3, (guest, socket, process)
    row.figure("; ".join(
        f"{step}: {process[step] / 1000:.2f} us, socket {socket[step] / max(process[step], 1):.1f} x, "
        f"guest {guest[step] / max(process[step], 1):.1f} x" for step in guest))
