"""What the way through a guest costs, beside the way through a socket."""

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


def test_cost(slots, hca, row):
    row("hca-parity --cost", "register read, write, map and unmap", "vfio / vfio-user")
    guest = costs(slots.check(f"hca-parity --cost {' '.join(slots.addresses)}", limit_s=300))
    sim = vfio.two_cards(hca)
    try:
        words = [hca.with_name("hca-parity"), "--cost", sim.sockets / "card0.0", sim.sockets / "card1.0"]
        socket = costs(subprocess.run(words, check=True, capture_output=True, text=True, timeout=LIMIT_S).stdout)
    finally:
        sim.stop()
    assert guest.keys() == socket.keys() and len(guest) >= 3, (guest, socket)
    row.figure(", ".join(f"{step} {guest[step] / 1000:.1f} us, {guest[step] / max(socket[step], 1):.1f} x"
                         for step in guest))
