"""hca_sniff_share against a list: sniffers are held back while so much is under way for them, and no longer."""

import sys
from collections import deque
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import cocotb
from common import Bench, simulate

SHARE, EACH, LONGEST = 128, 8, 66


class Model:
    """Descriptors on their way, oldest first: what each has begun, and in which turn."""

    def __init__(self, bench):
        self.bench, self.rng = bench, bench.rng
        self.left = deque()      # charges of those that have left and are not freed
        self.here = None         # charge of the one at the input
        self.worst = self.idle = 0    # most under way; cycles for which nothing has been

    def under_way(self):
        return sum(self.left) + (self.here or 0)

    async def cycle(self, fill, drain):
        """One cycle: something comes, is copied, leaves, is freed, each with a chance."""
        bench, rng = self.bench, self.rng
        if self.here is None and rng.random() < fill:
            self.here = 0
        valid = self.here is not None
        held = bench.get("hold_o")
        copy = valid and not held and rng.random() < 0.6
        beats = rng.choice((1, 2, 3, 17, LONGEST))
        take = valid and not copy and rng.random() < 0.5 and len(self.left) < 900
        free = bool(self.left) and rng.random() < drain
        for name, value in (("valid_i", valid), ("copy_i", copy), ("beats_i", beats), ("take_i", take),
                            ("free_i", free)):
            bench.set(name, value)
        await bench.step()
        if copy:
            self.here += beats + EACH
        if free:
            self.left.popleft()
        if take:
            self.left.append(self.here)
            self.here = None
        self.worst = max(self.worst, self.under_way())
        self.idle = 0 if self.under_way() else self.idle + 1
        return held


@cocotb.test()
async def bounds(dut):
    """Never more under way than two shares and what may go over them; held back only for a share at least."""
    bench = Bench(dut, 81)
    await bench.start()
    model = Model(bench)
    held = 0
    for turn in range(200):
        drain = (0.02, 0.1, 0.3, 1.0)[turn % 4]
        for _ in range(100):
            if await model.cycle(0.7, drain):
                held += 1
                assert model.idle < 4
    over = 2 * (LONGEST + EACH)    # the bench sees hold_o a cycle late
    assert SHARE <= model.worst <= 2 * (SHARE + over), model.worst
    assert held > 1000
    # All is done: in three cycles sniffers have their share again.
    while model.left or model.here is not None:
        await model.cycle(0.0, 1.0)
    for name in ("valid_i", "copy_i", "take_i", "free_i"):
        bench.set(name, 0)
    await bench.step(4)
    assert not bench.get("hold_o")


@cocotb.test()
async def a_share_is_to_be_had(dut):
    """Copies that are done in time are never held back, however many; while the buffer is filling up all are."""
    bench = Bench(dut, 82)
    await bench.start()
    for _ in range(400):
        for values in (dict(valid_i=1, copy_i=1, beats_i=LONGEST), dict(copy_i=0, take_i=1), dict(valid_i=0, take_i=0),
                       dict(free_i=1), dict(free_i=0)):
            for name, value in values.items():
                bench.set(name, value)
            await bench.step()
            assert not bench.get("hold_o")
        await bench.step(2)
    bench.set("filling_i", 1)
    await bench.step()
    assert bench.get("hold_o")
    bench.set("filling_i", 0)
    await bench.step()
    assert not bench.get("hold_o")


def test_sniff_share():
    simulate("hca_sniff_share", __name__)
