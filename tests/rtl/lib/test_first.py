"""hca_first: the earliest of the valid times, against Python's min."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import random

import cocotb
from cocotb.triggers import Timer
from common import simulate

N, WIDTH = 4, 64


@cocotb.test()
async def earliest(dut):
    """Random times, near ones and equal ones, with every set of valid ones."""
    rng = random.Random(1)
    for n in range(4000):
        base = rng.choice([0, rng.getrandbits(WIDTH - 1), (1 << WIDTH) - 8])
        times = [rng.choice([base + rng.randrange(8), rng.getrandbits(WIDTH)]) for _ in range(N)]
        valid = [n >> i & 1 for i in range(N)]
        dut.valid_i.value = sum(bit << i for i, bit in enumerate(valid))
        dut.at_i.value = sum(time << WIDTH * i for i, time in enumerate(times))
        # One less where nobody behind it is that one.
        orders = [max(time - 1, 0) if rng.random() < 0.3 and time - 1 not in times[i + 1 :] else time
                  for i, time in enumerate(times)]
        dut.order_i.value = sum(order << WIDTH * i for i, order in enumerate(orders))
        await Timer(1, "ns")
        assert int(dut.valid_o.value) == any(valid)
        want = min((time for time, bit in zip(times, valid, strict=True) if bit), default=0)
        assert int(dut.at_o.value) == want, f"{times} {valid}"


def test_first():
    """The above."""
    simulate("hca_first", __name__, parameters={"N": N, "Width": WIDTH})
