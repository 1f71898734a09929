"""hca_rd_order: no read goes before, or with, a write that the write mux had accepted before it came."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import cocotb
from common import Bench, simulate


class Model:
    """A mux that holds up to two writes, and reads that come at random."""

    def __init__(self, dut, seed, rates):
        self.bench = Bench(dut, seed)
        self.writes, self.reads, self.hands_on, self.takes = rates
        self.accepted = self.gone = 0     # writes
        self.waiting = None               # writes accepted before the read at the head came
        self.waited, self.passed, self.gaps = 0, 0, []
        self.new = self.gone_now = False
        self.bench.agents.append(self)

    def drive(self):
        rng, bench = self.bench.rng, self.bench
        if self.waiting is None and rng.random() < self.reads:
            self.waiting, self.waited = self.accepted, 0
        held = self.accepted - self.gone
        self.gone_now = held > 0 and rng.random() < self.hands_on
        self.take = rng.random() < self.takes
        bench.set("in_valid_i", self.waiting is not None)
        bench.set("out_ready_i", self.take)
        bench.set("wr_held_i", held)
        bench.set("wr_gone_i", self.gone_now)
        self.new = held < 2 and rng.random() < self.writes

    def sample(self):
        out = self.bench.get("out_valid_o")
        assert not out or self.waiting is not None, "a read out of nothing"
        if self.waiting is not None:
            self.waited += 1
            if out:
                assert self.gone >= self.waiting, "passes a write"
            elif self.gone >= self.waiting:
                self.gaps.append(self.waited)
            assert self.bench.get("in_ready_o") == (out and self.take)
            if out and self.take:
                self.waiting, self.passed = None, self.passed + 1
        self.gone += self.gone_now
        self.accepted += self.new


@cocotb.test()
@cocotb.parametrize(rates=[(0.5, 0.5, 0.5, 0.5), (1, 1, 1, 1), (1, 1, 0.2, 1), (0.1, 1, 1, 0.3), (0, 1, 1, 1)])
async def order(dut, rates):
    """At any rates; and it waits for nothing else."""
    model = Model(dut, 1, rates)
    await model.bench.start()
    await model.bench.step(3000)
    assert model.passed > 200 and not model.gaps
    if rates[0] == 0:
        assert model.passed == 3000, "a read per cycle beside no writes"


def test_rd_order():
    simulate("hca_rd_order", __name__)
