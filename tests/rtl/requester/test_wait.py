"""hca_sq_wait: whoever waits leaves after its time, in the order of its line, and not much later."""

import sys
from collections import deque
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import cocotb
from common import Bench, simulate

LINES, IDS, TICK_W = 6, 64, 3


class Lines:
    """The oracle: who stands where, and since which tick."""

    def __init__(self):
        self.lines = [deque() for _ in range(LINES)]
        self.popped = 0

    def push(self, ident, line, tick):
        self.lines[line].append((ident, tick))

    def pop(self, ident, tick):
        for number, line in enumerate(self.lines):
            if line and line[0][0] == ident:
                waited = tick - line.popleft()[1]
                assert waited >= 1 << number, f"{ident} left line {number} after {waited} ticks"
                self.popped += 1
                return
        raise AssertionError(f"{ident} is first in no line")

    def late(self, tick):
        """Ticks by which the first of a line is over its time, at most."""
        over = [tick - line[0][1] - (1 << number) for number, line in enumerate(self.lines) if line]
        return max(over, default=0)


@cocotb.test()
@cocotb.parametrize(push=[0.02, 0.2, 0.9], pop=[0.3, 1.0])
async def each_its_time(dut, push, pop):
    """Random ids into random lines, popped when the reader likes; the time wraps what is kept of it."""
    bench = Bench(dut, 3)
    await bench.start()
    rng, oracle = bench.rng, Lines()
    free, now = set(range(IDS)), (1 << TICK_W + LINES + 3) - 2000
    for cycle in range(6000):
        now += 1
        bench.set("now_i", now)
        pushes = cycle < 5000 and bool(free) and rng.random() < push
        bench.set("push_i", pushes)
        if pushes:
            ident, line = rng.choice(sorted(free)), rng.randrange(LINES)
            free.remove(ident)
            oracle.push(ident, line, now >> TICK_W)
            bench.set("push_line_i", line)
            bench.set("push_id_i", ident)
        takes = rng.random() < pop
        bench.set("pop_i", takes)
        before = len(free)
        await bench.step()
        if takes and bench.get("valid_o"):
            ident = bench.get("pop_id_o")
            oracle.pop(ident, now >> TICK_W)
            free.add(ident)
        if pop == 1.0:
            # All that is due at once, a few cycles each.
            assert oracle.late(now >> TICK_W) <= 1 + (4 * IDS >> TICK_W)
        assert bool(bench.get("used_o")) == (before + pushes < IDS)
    assert len(free) == IDS and oracle.popped > 60


def test_wait():
    simulate("hca_sq_wait", __name__, parameters={"Lines": LINES, "Ids": IDS, "TickW": TICK_W})
