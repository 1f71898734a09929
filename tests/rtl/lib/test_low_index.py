"""hca_low_index: the lowest bit that is set, against Python's integers."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import random

import cocotb
import pytest
from cocotb.triggers import Timer
from common import simulate


def patterns(count, rng):
    """All of a narrow cell; of a wide one none, each bit alone, all above each, and random ones, dense and sparse."""
    if count <= 8:
        return range(1 << count)
    single = [1 << i for i in range(count)]
    above = [(1 << count) - bit for bit in single]
    dense = [rng.getrandbits(count) for _ in range(500)]
    sparse = [rng.getrandbits(count) << rng.randrange(count) & (1 << count) - 1 for _ in range(2000)]
    return [0, *single, *above, *dense, *sparse]


@cocotb.test()
async def lowest(dut):
    """The bit alone, its number and all places above it; without a bit nothing but none_o."""
    count = int(dut.N.value)
    for bits in patterns(count, random.Random(1)):
        dut.bits_i.value = bits
        await Timer(1, "ns")
        low = bits & -bits
        got = [int(dut.none_o.value), int(dut.onehot_o.value), int(dut.above_o.value), int(dut.idx_o.value)]
        above = (1 << count) - 2 * low if bits else 0
        assert got == [bits == 0, low, above, max(low.bit_length() - 1, 0)], f"{bits:#x}"


@pytest.mark.parametrize("count", [1, 2, 5, 8, 64])
def test_low_index(count):
    """The above."""
    simulate("hca_low_index", __name__, parameters={"N": count})
