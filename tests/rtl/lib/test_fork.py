"""hca_fork: every taker sees every item once and in order; full rate when nobody stalls."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import cocotb
import pytest
from common import Bench, simulate


class Fork:
    """The cell with a payload beside it. Takers look at the payload of the input, as in the card."""

    def __init__(self, dut, seed, rate, taker_rates):
        self.bench = Bench(dut, seed)
        self.rate, self.taker_rates = rate, taker_rates
        self.item, self.offered = 0, False
        self.got = [[] for _ in taker_rates]
        self.was_valid = 0
        self.advanced = []

    async def step(self, count):
        """One cycle: offers an item now and then, keeps it until it is taken."""
        bench = self.bench
        if not self.offered and self.item < count:
            self.offered = bench.rng.random() < self.rate
        ready = sum((bench.rng.random() < rate) << n for n, rate in enumerate(self.taker_rates))
        bench.set("in_valid_i", self.offered)
        bench.set("out_ready_i", ready)
        await bench.step()
        valid = bench.get("out_valid_o")
        assert self.offered or not valid, "an item out of nothing"
        assert self.was_valid & ~valid == 0, "valid was withdrawn"
        for n, got in enumerate(self.got):
            if valid & ready & 1 << n:
                got.append(self.item)
        self.was_valid = valid & ~ready
        if self.offered and bench.get("in_ready_o"):
            assert all(got and got[-1] == self.item for got in self.got), "advanced before all had it"
            self.advanced.append(bench.cycle)
            self.item, self.offered = self.item + 1, False
        else:
            assert not self.offered or any(self.item not in got[-1:] for got in self.got), "all have it"

    async def run(self, count):
        """Sends `count` items and checks what every taker saw."""
        await self.bench.start()
        while self.item < count:
            await self.step(count)
            assert self.bench.cycle < 100 * count, "stuck"
        assert all(got == list(range(count)) for got in self.got)


@cocotb.test()
async def each_once(dut):
    """Random gaps and stalls, equal and very unequal takers."""
    takers = int(dut.N.value)
    cases = [(1, 0.5, 0.5), (0.5, 1, 1), (0.6, 0.6, 0.6), (1, 0.1, 1), (0.9, 0.05, 0.3)]
    for seed, (rate, low, high) in enumerate(cases):
        rates = [low + (high - low) * n / (takers - 1) for n in range(takers)]
        await Fork(dut, seed, rate, rates).run(400)


@cocotb.test()
async def full_rate(dut):
    """One item per cycle when nobody stalls."""
    fork = Fork(dut, 9, 1.0, [1.0] * int(dut.N.value))
    await fork.run(200)
    assert fork.advanced[-1] - fork.advanced[0] == 199


@pytest.mark.parametrize("takers", [2, 5])
def test_fork(takers):
    simulate("hca_fork", __name__, parameters={"N": takers})
