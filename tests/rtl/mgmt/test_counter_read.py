"""hca_counter_read: 64-bit counters a word at a time, low word first: both words are of one moment."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import cocotb
from common import Bench, simulate

COUNTERS, PORTS = 25, 2
M32 = 0xFFFFFFFF


async def read(bench, port, index, half):
    """The word in the next cycle."""
    bench.set("word_i", port << 6 | index << 1 | half)
    bench.set("rule_word_i", bench.rng.getrandbits(32))
    bench.set("rd_i", 1)
    await bench.step()
    bench.set("rd_i", 0)
    bench.set("word_i", bench.rng.getrandbits(8))
    await bench.step()
    return bench.get("data_o")


@cocotb.test()
async def both_words_are_of_one_moment(dut):
    """Though the counter moves between the two reads, at any distance; what is not there is 0."""
    bench = Bench(dut, 1)
    await bench.start()
    ports = len(dut.rows_i) // 64
    for _ in range(500):
        port, index = bench.rng.randrange(PORTS), bench.rng.randrange(32)
        value = bench.rng.choice([bench.rng.getrandbits(64), bench.rng.getrandbits(31) << 32 | M32])
        values = [bench.rng.getrandbits(64) for _ in range(ports)]
        there = index < COUNTERS and port < ports
        if there:
            values[port] = value
        bench.set("rows_i", sum(v << 64 * n for n, v in enumerate(values)))
        low = await read(bench, port, index, 0)
        bench.set("rows_i", sum(((v + 1) % (1 << 64)) << 64 * n for n, v in enumerate(values)))
        for _ in range(bench.rng.randrange(3)):
            await bench.step()
        high = await read(bench, port, index, 1)
        assert high << 32 | low == (value if there else 0), f"port {port}, counter {index}"
        # Words of rules are another's.
        bench.set("word_i", 1 << 7 | bench.rng.getrandbits(7))
        bench.set("rd_i", 1)
        await bench.step()
        bench.set("rd_i", 0)
        bench.set("rule_word_i", word := bench.rng.getrandbits(32))
        await bench.step()
        assert bench.get("data_o") == word


def test_counter_read():
    simulate("hca_counter_read", __name__)
