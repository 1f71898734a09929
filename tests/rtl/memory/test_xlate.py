"""hca_xlate: each refusal, each page size, chunk cuts, bypass, rate; against the rules in keys.py."""

import sys
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
sys.path.insert(0, str(Path(__file__).resolve().parent))

import cocotb
import keys
import pytest
from common import Bench, Sink, Source, constants, simulate, struct

SEG, CHUNK = struct("seg_t"), struct("chunk_t")


class Xlate:
    """Bench of one translator with a key table."""

    def __init__(self, dut, seed, rate=1.0, chunk_rate=1.0):
        self.bench = Bench(dut, seed)
        self.size = int(dut.ChunkBytes.value)
        self.table = keys.KeyTable(self.bench)
        self.seg = Source(self.bench, "seg", rate=rate)
        self.chunk = Sink(self.bench, "chunk", rate=chunk_rate)
        self.expected = []
        self.verdicts = Counter()

    def put(self, seg):
        self.seg.put(SEG.pack(**seg))
        self.verdicts[self.table.verdict(seg)] += 1
        for err, addr, count, last in self.table.chunks(seg, self.size):
            self.expected.append((err, addr, count, last, int(last and seg["last"]), seg["func"]))

    async def settle(self):
        await self.bench.until(lambda: len(self.chunk.got) >= len(self.expected), 200000, "chunks")
        await self.bench.step(10)
        assert len(self.chunk.got) == len(self.expected)
        for word, want in zip(self.chunk.got, self.expected):
            chunk = CHUNK.unpack(word)
            addr = chunk["addr"] if want[1] is not None else None
            rest = tuple(chunk[name] for name in ("len_bytes", "seg_last", "pkt_last", "func"))
            got = (chunk["err"], addr, *rest)
            assert got == want, f"{got} is not {want}"


@cocotb.test()
@cocotb.parametrize(rates=[(1, 1), (0.3, 1), (1, 0.3), (0.6, 0.6)])
async def random_segments(dut, rates):
    """Regions of all kinds, good and bad segments; every verdict occurs."""
    xlate = Xlate(dut, 1, *rates)
    await xlate.bench.start()
    keys.random_table(xlate.table, xlate.bench.rng)
    for _ in range(1500):
        xlate.put(keys.random_seg(xlate.table, xlate.bench.rng))
    await xlate.settle()
    assert all(xlate.verdicts[err] > 5 for err in (keys.OK, keys.KEY, keys.PD, keys.BOUNDS, keys.ACCESS))


@cocotb.test()
async def edges_of_the_address_space(dut):
    """Nothing wraps: regions that end at 2^64, ranges that would pass it, rows past the page table."""
    xlate = Xlate(dut, 2)
    await xlate.bench.start()
    table = xlate.table
    top = (1 << 64) - 4096
    key = table.add(0, start=top, length=4096, iova=0x1000)
    whole = table.add(1, start=0, length=(1 << 64) - 1, iova=0)
    base = dict(bypass=0, access=keys.LOCAL_READ, func=0, pd=0, last=1)
    for va, count, chk in [(top, 4096, 4096), (top + 4095, 1, 1), (top + 4095, 1, 2), (top, 1, (1 << 32) - 1),
                           (top - 1, 1, 1), ((1 << 64) - 1, 1, 1), (0, 1, 1)]:
        xlate.put(dict(base, key=key, va=va, len_bytes=count, chk_bytes=chk))
        xlate.put(dict(base, key=whole, va=va, len_bytes=count, chk_bytes=chk))
    rows = constants()["NumMtts"]
    edge = table.add(2, start=0x3000, length=0x3000, page_shift=12, mtt_base=rows - 2)
    table.pages.update({rows - 2: 0x7000, rows - 1: 0x9000})
    for va, count in [(0x3000, 4096), (0x4FFF, 1), (0x4FFF, 2), (0x5000, 1)]:
        xlate.put(dict(base, key=edge, va=va, len_bytes=count, chk_bytes=count))
    last = constants()["NumMrs"] - 1
    for index in (last, last + 1):
        if index == last:
            table.add(index, length=100)
        xlate.put(dict(base, key=index << 8, va=0, len_bytes=1, chk_bytes=1))
    await xlate.settle()


@cocotb.test()
async def rate(dut):
    """One-chunk segments pass at one per cycle, pages in a row give one chunk per cycle."""
    xlate = Xlate(dut, 3)
    await xlate.bench.start()
    table = xlate.table
    key = table.add(3, start=0, length=1 << 20, page_shift=12)
    table.map(3, 500, xlate.bench.rng)
    base = dict(bypass=0, access=keys.LOCAL_READ, func=0, pd=0, key=key, last=0)
    for n in range(50):
        xlate.put(dict(base, va=n * 512, len_bytes=64, chk_bytes=64))
    for n in range(20):
        xlate.put(dict(base, va=n * 4096 + 2048, len_bytes=4096, chk_bytes=4096))
    await xlate.settle()
    assert xlate.chunk.when[0] - xlate.seg.taken[0] == 3
    assert xlate.chunk.when[-1] - xlate.chunk.when[0] == len(xlate.chunk.when) - 1, "a bubble"


@pytest.mark.parametrize("size", [512, 4096])
def test_xlate(size):
    simulate("hca_xlate", __name__, parameters={"ChunkBytes": size})
