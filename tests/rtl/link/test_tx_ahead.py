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


@cocotb.test()
async def counts(dut):
    """VL-6: every packet counts from when it was made to when it leaves the gather, also if SL2VL changes meanwhile."""
    vls = int(dut.NumVls.value)
    bench = Bench(dut, 1)
    await bench.start()
    rng = bench.rng
    want = [[0] * vls for _ in range(PORTS)]
    waiting = [deque(), deque()]
    tables = [[0] * 16 for _ in range(PORTS)]
    later = deque([[], []])      # counted one cycle after the strobe, shown one later
    for cycle in range(4000):
        if cycle % 200 == 0:
            tables = [[rng.choice([*range(vls), 15]) for _ in range(16)] for _ in range(PORTS)]
            bench.set("sl2vl_i", sum(vl << 64 * p + 4 * sl for p in range(PORTS) for sl, vl in enumerate(tables[p])))
        made, valid, left, changes = 0, 0, 0, []
        for source in range(2):
            if waiting[source] and waiting[source][0][0] + 4 < cycle and rng.random() < 0.2:
                _, port, vl, blocks = waiting[source].popleft()
                changes.append((port, vl, -blocks))
                left |= 1 << source
            if len(waiting[source]) < 100 and rng.random() < (0.4 if cycle % 1000 < 500 else 0.1):
                lane, size, gathered = rng.randrange(16 * PORTS), rng.randint(26, 4230), rng.random() < 0.8
                port, sl = divmod(lane, 16)
                item = struct("tx_made_t").pack(gathered=gathered, lane=16 * port + sl, bytes=size)
                made |= item << source * struct("tx_made_t").width
                valid |= 1 << source
                if gathered:
                    vl = tables[port][sl]
                    changes.append((port, vl, -(-size // 64)))
                    waiting[source].append((cycle, port, vl, -(-size // 64)))
        bench.set("made_valid_i", valid)
        bench.set("made_i", made)
        bench.set("left_i", left)
        later.append(changes)
        await bench.step()
        for port, vl, blocks in later.popleft():
            if vl < vls:
                want[port][vl] += blocks
        got = bench.get("ahead_o")
        for port in range(PORTS):
            for vl in range(vls):
                assert got >> WIDTH * (port * vls + vl) & (1 << WIDTH) - 1 == want[port][vl], (cycle, port, vl)


@pytest.mark.parametrize("vls", [8, 2])
def test_tx_ahead(vls):
    """As built, and with fewer VLs than priorities."""
    simulate("hca_tx_ahead", __name__, parameters={"NumVls": vls})
