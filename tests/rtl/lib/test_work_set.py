"""hca_work_set against a set: each member comes out once, soon, and again only when it is added again."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import cocotb
from common import Bench, Sink, Source, simulate

ITEMS = 256
ROWS = ITEMS // 32


class Model:
    """Bench and the set, in the order in which adds are taken and members leave."""

    def __init__(self, dut, seed, rate=1.0, take_rate=1.0):
        self.bench = Bench(dut, seed)
        self.rng = self.bench.rng
        self.members = {}   # member: the cycle in which it was added first
        self.left = []      # (member, cycles it was in)
        self.out = Sink(self.bench, "out", rate=take_rate, on_word=self.leave)
        self.add = Source(self.bench, "add", rate=rate)
        self.add.on_accept = self.enter

    def enter(self, item):
        """An add was taken."""
        self.members.setdefault(item, self.bench.cycle)

    def leave(self, item):
        """Whoever leaves was in."""
        assert item in self.members, f"{item} leaves and is not in"
        self.left.append((item, self.bench.cycle - self.members.pop(item)))

    async def empty(self):
        """Everybody has left."""
        await self.bench.until(lambda: self.add.idle() and not self.members, what="an empty set")
        await self.bench.step(20)
        assert not self.members


@cocotb.test()
@cocotb.parametrize(rate=[0.1, 1.0], take_rate=[0.2, 1.0])
async def random_members(dut, rate, take_rate):
    """Adds of few and of many different members, random stalls; at the end all have left."""
    model = Model(dut, 1, rate, take_rate)
    await model.bench.start()
    for spread in (3, 40, ITEMS):
        model.add.put(*[model.rng.randrange(spread) * (ITEMS // spread) for _ in range(1500)])
        await model.empty()
    assert len(model.left) > 1000


@cocotb.test()
async def everybody_in_turn(dut):
    """All at once, each added again as soon as it has left: nobody leaves twice while another one waits."""
    model = Model(dut, 2)
    await model.bench.start()
    model.add.put(*range(ITEMS))
    await model.bench.until(model.add.idle, what="adds")
    done = len(model.left)
    rounds = 0
    while rounds < 4 * ITEMS:
        if len(model.left) > done:
            model.add.put(*(item for item, _ in model.left[done:]))
            rounds += len(model.left) - done
            done = len(model.left)
        await model.bench.step()
    # Two turns at most: members of a row that is being walked are met in the next round.
    longest = max(age for _, age in model.left)
    assert longest < 2 * (2 * ITEMS + 3 * ROWS), longest


@cocotb.test()
async def a_lone_member(dut):
    """It is offered four cycles after its add was taken, again and again."""
    model = Model(dut, 3)
    await model.bench.start()
    for item in (0, 31, 32, ITEMS - 1, ITEMS - 1):
        model.add.put(item)
        await model.empty()
    assert model.left == [(item, 4) for item in (0, 31, 32, ITEMS - 1, ITEMS - 1)]


def test_work_set():
    simulate("hca_work_set", __name__, parameters={"Items": ITEMS})
