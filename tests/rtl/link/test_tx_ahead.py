"""hca_tx_ahead: what is on its way to each ring, by the VL that a packet had when it was made."""

import sys
from collections import deque
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import cocotb
import pytest
from common import Bench, constants, simulate, struct

PORTS = constants()["NumPorts"]
WIDTH = 14
REAL = 24       # cycles of a first beat from the gather to the ring, as seen in a card
SIZES = (26, 30, 94, 200, 600, 2078, 4126, 4230)


class Wire:
    """What is behind the gather: a beat per cycle, packet behind packet, so many cycles to the ring."""

    def __init__(self, cycles, slack):
        self.cycles, self.slack, self.free, self.under_way = cycles, slack, 0, deque()

    def take(self, cycle, port, vl, blocks):
        self.free = max(self.free, cycle + self.cycles) + max(blocks, 2) + self.slack
        self.under_way.append((self.free, port, vl, blocks))

    def count(self, cycle, vls):
        """Blocks that are not in a ring by then, by port and VL."""
        while self.under_way and self.under_way[0][0] <= cycle:
            self.under_way.popleft()
        counts = [[0] * vls for _ in range(PORTS)]
        for _, port, vl, blocks in self.under_way:
            if vl < vls:
                counts[port][vl] += blocks
        return counts


@cocotb.test()
async def counts(dut):
    """VL-6: every packet counts from when it was made until it is in its ring, also if SL2VL changes meanwhile: not a
    cycle less than the wire takes (REAL), and not many more."""
    vls = int(dut.NumVls.value)
    bench = Bench(dut, 1)
    await bench.start()
    rng = bench.rng
    made_of = [[0] * vls for _ in range(PORTS)]
    waiting = [deque(), deque()]
    real, late = Wire(REAL, 0), Wire(REAL + 8, 1)
    tables = [[0] * 16 for _ in range(PORTS)]
    later = deque([[], []])      # counted one cycle after the strobe, shown one later
    for cycle in range(60000):
        if cycle > 5000 and not any(waiting) and not late.under_way:
            break
        if cycle % 200 == 0:
            tables = [[rng.choice([*range(vls), 15]) for _ in range(16)] for _ in range(PORTS)]
            bench.set("sl2vl_i", sum(vl << 64 * p + 4 * sl for p in range(PORTS) for sl, vl in enumerate(tables[p])))
        made, valid, left, changes = 0, 0, 0, []
        source = rng.randrange(2)
        if waiting[source] and waiting[source][0][0] + 4 < cycle and len(real.under_way) < 6:
            _, port, vl, blocks = waiting[source].popleft()
            changes.append((cycle, port, vl, -blocks))
            left |= 1 << source
        for source in range(2):
            if cycle < 5000 and len(waiting[source]) < 100 and rng.random() < (0.4 if cycle % 1000 < 500 else 0.02):
                lane, size, gathered = rng.randrange(16 * PORTS), rng.choice(SIZES), rng.random() < 0.8
                port, sl = divmod(lane, 16)
                item = struct("tx_made_t").pack(gathered=gathered, lane=16 * port + sl, bytes=size)
                made |= item << source * struct("tx_made_t").width
                valid |= 1 << source
                if gathered:
                    vl = tables[port][sl]
                    changes.append((cycle, port, vl, -(-size // 64)))
                    waiting[source].append((cycle, port, vl, -(-size // 64)))
        bench.set("made_valid_i", valid)
        bench.set("made_i", made)
        bench.set("left_i", left)
        later.append(changes)
        await bench.step()
        for when, port, vl, blocks in later.popleft():
            if blocks < 0:
                real.take(when, port, vl, -blocks)
                late.take(when, port, vl, -blocks)
            if vl < vls:
                made_of[port][vl] += blocks
        got = bench.get("ahead_o")
        least, most = real.count(cycle, vls), late.count(cycle - 4, vls)
        for port in range(PORTS):
            for vl in range(vls):
                count = got >> WIDTH * (port * vls + vl) & (1 << WIDTH) - 1
                made, low, high = made_of[port][vl], least[port][vl], most[port][vl]
                assert made + low <= count <= made + high, (cycle, port, vl, count, made, low, high)
    assert bench.get("ahead_o") == 0 and cycle < 50000


@pytest.mark.parametrize("vls", [8, 2])
def test_tx_ahead(vls):
    """As built, and with fewer VLs than priorities."""
    simulate("hca_tx_ahead", __name__, parameters={"NumVls": vls})
