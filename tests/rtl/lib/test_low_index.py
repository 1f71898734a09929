"""hca_low_index: the lowest bit that is set, and the lowest one behind a place, against Python's integers."""

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
    """The lowest bit, and the lowest one behind any place: its number and its note. None: only that there is none."""
    count = int(dut.N.value)
    rng = random.Random(1)
    notes = [rng.randrange(8) for _ in range(count)]
    dut.notes_i.value = sum(note << 3 * number for number, note in enumerate(notes))
    for bits in patterns(count, rng):
        for place in range(count) if count <= 8 else [0, count - 1, *rng.sample(range(count), 4)]:
            behind = bits >> place + 1 << place + 1
            dut.bits_i.value = bits
            dut.later_i.value = behind
            await Timer(1, "ns")
            assert [int(dut.none_o.value), int(dut.wraps_o.value)] == [bits == 0, behind == 0], f"{bits:#x} {place}"
            if bits:
                number = (bits & -bits).bit_length() - 1
                assert [int(dut.idx_o.value), int(dut.note_o.value)] == [number, notes[number]], f"{bits:#x}"
            if behind:
                number = (behind & -behind).bit_length() - 1
                found = [int(dut.behind_o.value), int(dut.behind_note_o.value)]
                assert found == [number, notes[number]], f"{bits:#x} {place}"


@pytest.mark.parametrize("count", [2, 4, 8, 64])
def test_low_index(count):
    """The above."""
    simulate("hca_low_index", __name__, parameters={"N": count, "NoteW": 3})
