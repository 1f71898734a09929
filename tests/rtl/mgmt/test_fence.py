"""hca_fence: busy from the start until the last item has left that was inside then, whatever comes meanwhile."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import cocotb
from common import Bench, simulate

STREAMS = 4


class Model:
    """Items of each stream, by the cycle in which they came; a fence waits for those from before its start."""

    def __init__(self, dut, seed, enter_rate, leave_rate, start_rate):
        self.bench = Bench(dut, seed)
        self.rates = enter_rate, leave_rate, start_rate
        self.inside = [[] for _ in range(STREAMS)]
        self.start = None
        self.ended = 0

    async def step(self):
        bench, (enter_rate, leave_rate, start_rate) = self.bench, self.rates
        draw = bench.rng.random
        enter = [draw() < enter_rate and len(items) < 200 for items in self.inside]
        leave = [bool(items) and draw() < leave_rate for items in self.inside]
        # Seldom over each other: else none would ever end.
        start = draw() < (start_rate if self.start is None else start_rate / 20)
        bench.set("enter_i", sum(bit << n for n, bit in enumerate(enter)))
        bench.set("leave_i", sum(bit << n for n, bit in enumerate(leave)))
        bench.set("start_i", start)
        await bench.step()
        waits = self.start is not None and any(items and items[0] <= self.start for items in self.inside)
        assert bench.get("busy_o") == waits, f"cycle {bench.cycle}"
        if self.start is not None and not waits:
            self.start, self.ended = None, self.ended + 1
        for items, comes, goes in zip(self.inside, enter, leave):
            if comes:
                items.append(bench.cycle)
            if goes:
                items.pop(0)
        if start:
            self.start = bench.cycle


@cocotb.test()
async def waits_for_what_was_inside(dut):
    """Empty, busy and full streams; fences one by one and over each other."""
    cases = [(0.5, 0.5, 0.02), (0.8, 0.9, 0.1), (0.5, 0.4, 0.05), (0.05, 0.9, 0.2), (1.0, 1.0, 0.1)]
    for seed, rates in enumerate(cases):
        model = Model(dut, seed, *rates)
        await model.bench.start()
        for _ in range(3000):
            await model.step()
        assert model.ended > 0, "no fence ended"


@cocotb.test()
async def ends_under_traffic(dut):
    """Streams that are never empty: what comes after the start does not hold it."""
    model = Model(dut, 9, 1.0, 0.5, 0.0)
    await model.bench.start()
    for _ in range(300):
        await model.step()
    inside = max(map(len, model.inside))
    model.rates = 1.0, 1.0, 1.0
    await model.step()
    model.rates = 1.0, 1.0, 0.0
    for _ in range(inside + 2):
        await model.step()
    assert model.ended == 1


def test_fence():
    simulate("hca_fence", __name__, parameters={"Streams": STREAMS})
