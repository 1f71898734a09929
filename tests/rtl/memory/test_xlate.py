"""hca_xlate: each refusal, each page size, chunk cuts, bypass, page lists that are late or cannot be read, rate;
against the rules in keys.py."""

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

    def __init__(self, dut, seed, rate=1.0, chunk_rate=1.0, **lists):
        self.bench = Bench(dut, seed)
        self.size = int(dut.ChunkBytes.value)
        self.table = keys.KeyTable(self.bench, **lists)
        self.seg = Source(self.bench, "seg", rate=rate)
        self.chunk = Sink(self.bench, "chunk", rate=chunk_rate)
        self.expected = []
        self.verdicts = Counter()

    def put(self, seg):
        self.seg.put(SEG.pack(**seg))
        self.verdicts[self.table.verdict(seg)] += 1
        for err, addr, count, last in self.table.chunks(seg, self.size):
            discards = self.table.discards(seg) if count else None
            self.expected.append((err, addr, count, last, int(last and seg["last"]), seg["func"], discards))

    async def settle(self):
        await self.bench.until(lambda: len(self.chunk.got) >= len(self.expected), 200000, "chunks")
        await self.bench.step(10)
        assert len(self.chunk.got) == len(self.expected)
        for word, want in zip(self.chunk.got, self.expected):
            chunk = CHUNK.unpack(word)
            assert chunk["has_bytes"] == (chunk["len_bytes"] > 0)
            assert not chunk["has_bytes"] or chunk["end_at"] == chunk["addr"] % 64 + chunk["len_bytes"] - 1
            addr = chunk["addr"] if want[1] is not None else None
            rest = tuple(chunk[name] for name in ("len_bytes", "seg_last", "pkt_last", "func"))
            discards = chunk["discards"] if want[6] is not None else None
            got = (chunk["err"], addr, *rest, discards)
            assert got == want, f"{got} is not {want}"


class SomeBadLines:
    """Lines of page lists that cannot be read: one in ten."""

    def __contains__(self, line):
        return line * 0x9E3779B1 % (1 << 32) < (1 << 32) // 10


@cocotb.test()
@cocotb.parametrize(rates=[(1, 1), (0.3, 1), (1, 0.3), (0.6, 0.6)], late=[(1, 1), (1, 200)])
async def random_segments(dut, rates, late):
    """Regions of all kinds, good and bad segments; every verdict occurs."""
    xlate = Xlate(dut, 1, *rates, late=late, asked=rates[0], bad=SomeBadLines())
    await xlate.bench.start()
    keys.random_table(xlate.table, xlate.bench.rng)
    for _ in range(1500):
        xlate.put(keys.random_seg(xlate.table, xlate.bench.rng))
    await xlate.settle()
    assert all(xlate.verdicts[err] > 5 for err in (keys.OK, keys.KEY, keys.PD, keys.BOUNDS, keys.ACCESS))
    assert sum(err == keys.DMA for err, *_ in xlate.expected) > 20


@cocotb.test()
@cocotb.parametrize(late=[(1, 3), (1, 150), (150, 150)])
async def lines_are_shared_and_replaced(dut, late):
    """Regions whose lines meet in few slots: each page is what its list says, and a list whose every line is here is
    not read again."""
    xlate = Xlate(dut, 4, late=late, bad={0x80000 // 64 + 1})
    await xlate.bench.start()
    rng, table = xlate.bench.rng, xlate.table
    lines = constants()["PageCacheLines"]
    found = [table.add(n, start=0, length=8 * lines * 4096 * 4, page_shift=12, iova=n << 32, func=n % 2)
             for n in range(1, 6)]
    found.append(table.add(6, start=0, length=1 << 20, page_shift=12, iova=0x80000))
    base = dict(bypass=0, access=keys.LOCAL_READ, pd=0, last=1)
    for _ in range(1200):
        key = rng.choice(found)
        row = table.rows[key >> 8]
        func = row["func"]
        page = rng.randrange(16) if row["iova"] == 0x80000 else rng.randrange(32) + 8 * lines * rng.randrange(4)
        count = rng.choice([1, 64, 4096])
        xlate.put(dict(base, func=func, key=key, va=page * 4096 + rng.choice([0, 4000]), len_bytes=count,
                       chk_bytes=count))
    await xlate.settle()
    assert any(err == keys.DMA for err, *_ in xlate.expected)
    for again in range(2):
        before = len(table.lists.requests)
        for page in range(8 * 64):
            xlate.put(dict(base, func=1, key=found[0], va=page * 4096, len_bytes=64, chk_bytes=64))
        await xlate.settle()
        assert again == 0 or len(table.lists.requests) == before


class Lines(set):
    """Lines one by one, and a range of them."""

    wide = range(0)

    def __contains__(self, line):
        return line in self.wide or super().__contains__(line)

    def clear(self):
        super().clear()
        self.wide = range(0)


@cocotb.test()
async def a_line_that_failed_is_read_again(dut):
    """Who was promised a line that cannot be read gets the error, however many; the next one asks again."""
    bad = Lines({0x100000 // 64})
    xlate = Xlate(dut, 6, late=(40, 60), bad=bad)
    await xlate.bench.start()
    key = xlate.table.add(3, start=0, length=1 << 20, page_shift=12, iova=0x100000)
    base = dict(bypass=0, access=keys.LOCAL_READ, func=0, pd=0, key=key, last=1, len_bytes=64, chk_bytes=64)
    for turn in range(3):
        for page in range(24):
            xlate.put(dict(base, va=page * 4096))
        await xlate.settle()
        assert [err for err, *_ in xlate.expected[-24:]] == [keys.DMA if turn < 2 else keys.OK] * 8 + [keys.OK] * 16
        assert [line for _, line in xlate.table.lists.requests].count(0x100000 // 64) == turn + 1
        if turn == 1:
            bad.clear()
    # Two regions in turn whose lines all fail: errors come out while slots are taken. Then none does.
    lines = constants()["PageCacheLines"]
    table = xlate.table
    found = [table.add(n, start=0, length=1 << 32, page_shift=12, iova=n << 32) for n in (4, 5)]
    bad.wide = range(1 << 26, 6 << 26)
    for turn in range(2):
        for line in range(lines):
            for key in found:
                for _ in range(1 + line % 3):
                    xlate.put(dict(base, key=key, va=line << 15))
        await xlate.settle()
        assert xlate.expected[-1][0] == (keys.OK if turn else keys.DMA)
        bad.clear()


@cocotb.test()
async def a_key_used_again_has_a_new_list(dut):
    """KEY-30: what was kept of the list of a region is not found by the next one with its index; others' is kept."""
    xlate = Xlate(dut, 5)
    await xlate.bench.start()
    table = xlate.table
    base = dict(bypass=0, access=keys.LOCAL_READ, func=0, pd=0, last=1, len_bytes=64, chk_bytes=64)
    for n in (1, 2):
        table.add(n, start=0, length=1 << 24, page_shift=12, iova=n << 20)
    for life in range(4):
        for n in (1, 2):
            for page in range(0, 4096, 37):
                xlate.put(dict(base, key=n << 8, va=page * 4096))
        await xlate.settle()
        table.lists.requests.clear()
        table.rows[1]["iova"] += 1 << 30
        if life % 2:   # beside traffic of the other one
            for page in range(0, 4096, 3):
                xlate.put(dict(base, key=2 << 8, va=page * 4096))
        table.keys.requests.clear()
        await table.forget(1)
        await xlate.settle()
    xlate.put(dict(base, key=2 << 8, va=0))
    await xlate.settle()
    assert not [line for _, line in table.lists.requests if line == (2 << 20) // 64]


@cocotb.test()
async def edges_of_the_address_space(dut):
    """Nothing wraps: regions that end at 2^64, ranges that would pass it; the longest page list."""
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
    # As many pages as a list can have, up to the end of the address space.
    edge = table.add(2, start=0x3000, length=((1 << 32) - 1) << 12, page_shift=12, iova=(1 << 64) - (1 << 35))
    for va, count in [(0x3000, 4096), (0x4FFF, 1), (0x4FFF, 2), (0x5000, 1), (0xAFFF, 1), ((1 << 44) - 8193, 4096)]:
        xlate.put(dict(base, key=edge, va=va, len_bytes=count, chk_bytes=count))
    last = (1 << keys.LOG_ROWS) - 1
    table.add(last, length=100)
    for index in (last, last + 1, 1 << keys.ROW_BITS | last):
        xlate.put(dict(base, key=index << 8, va=0, len_bytes=1, chk_bytes=1))
    for func in (2, 3, 4, 16, 255):   # no table, no such function
        key = (func % 16) << (8 + keys.ROW_BITS) | 1 << 8
        xlate.put(dict(base, key=key, func=func, va=0, len_bytes=1, chk_bytes=1))
    await xlate.settle()


@cocotb.test()
@cocotb.parametrize(rates=[(1, 1), (0.5, 0.5)])
async def long_frames(dut, rates):
    """Frames that are longer than the smallest page reach three of them; every byte is in the page of its list."""
    xlate = Xlate(dut, 8, *rates, late=(1, 60), bad={(3 << 20) // 64 + 2})
    await xlate.bench.start()
    rng, table = xlate.bench.rng, xlate.table
    found = [table.add(n, start=0, length=1 << 20, page_shift=shift, iova=n << 20)
             for n, shift in enumerate([keys.DIRECT, 12, 13, 12, 16, 21], 1)]
    base = dict(bypass=0, access=keys.LOCAL_READ, func=0, pd=0, last=1)
    for _ in range(600):
        count = rng.randint(4097, 4224)
        va = rng.randrange(60) * 4096 + rng.choice([0, 4095, rng.randrange(4096), rng.randint(3968, 4095)])
        xlate.put(dict(base, key=rng.choice(found), va=va, len_bytes=count, chk_bytes=count))
    await xlate.settle()
    assert {err for err, *_ in xlate.expected} == {keys.OK, keys.DMA}


@cocotb.test()
async def keys_change(dut):
    """KEY-30: a row that has changed is seen by whoever asks after the forgetting; rows of others stay. Forgetting a
    function leaves the other one's."""
    xlate = Xlate(dut, 7, late=(1, 80))
    await xlate.bench.start()
    table, rng = xlate.table, xlate.bench.rng
    found = [table.add(n + 64 * (n % 2), start=0, length=1 << 24, page_shift=rng.choice([12, keys.DIRECT]),
                       iova=n << 20, func=n % 2) for n in range(1, 40)]   # a slot each
    base = dict(bypass=0, access=keys.LOCAL_READ, pd=0, last=1, len_bytes=64, chk_bytes=64)

    used = set()   # what they find is settled

    def use(key):
        used.add(key)
        func = table.rows[key >> 8]["func"]
        xlate.put(dict(base, func=func, key=key, va=rng.randrange(4000) * 4096))

    for life in range(60):
        if len(used) > 25:
            await xlate.settle()
            used.clear()
        key = rng.choice([key for key in found if key not in used])
        row = table.rows[key >> 8]
        for _ in range(rng.randrange(10)):
            use(rng.choice([other for other in found if other != key]))
        if life % 3 == 0:
            row["valid"] ^= 1
        else:
            row.update(iova=rng.getrandbits(40) << 12, page_shift=rng.choice([12, keys.DIRECT]))
        await table.forget(key >> 8, pages=row["page_shift"] == 12 or life % 3 != 0)
        for _ in range(rng.randrange(10)):
            use(rng.choice([key, rng.choice(found)]))
    await xlate.settle()
    for key in found:
        xlate.put(dict(base, func=table.rows[key >> 8]["func"], key=key, va=0))
    await xlate.settle()
    table.keys.requests.clear()
    table.lists.requests.clear()
    await table.forget(1 << keys.ROW_BITS, whole=True)
    for key in found:
        xlate.put(dict(base, func=table.rows[key >> 8]["func"], key=key, va=0))
    for key in found:
        xlate.put(dict(base, func=table.rows[key >> 8]["func"], key=key, va=0))
    await xlate.settle()
    assert {func for func, _ in table.keys.requests} == {1}
    assert {func for func, _ in table.lists.requests} == {1}
    assert len(table.keys.requests) == sum(key >> 8 >> keys.ROW_BITS for key in found)


@cocotb.test()
@cocotb.parametrize(paged=[False, True])
async def rate(dut, paged):
    """One-chunk segments pass at one per cycle, segments in a row give one chunk per cycle; four cycles with a key
    that is here (its rules are looked at out of a register), five with a page that is, too."""
    xlate = Xlate(dut, 3)
    await xlate.bench.start()
    table = xlate.table
    key = table.add(3, start=0, length=1 << 20, page_shift=12 if paged else keys.DIRECT, iova=0x100000)
    base = dict(bypass=0, access=keys.LOCAL_READ, func=0, pd=0, key=key, last=0)
    for n in range(24):   # the lines come
        xlate.put(dict(base, va=n * 4096, len_bytes=64, chk_bytes=64))
    await xlate.bench.step(600)           # after reset all slots are emptied
    await xlate.settle()
    before = len(xlate.chunk.when)
    for n in range(50):
        xlate.put(dict(base, va=n * 512, len_bytes=64, chk_bytes=64))
    for n in range(20):
        xlate.put(dict(base, va=n * 4096 + (0 if paged else 2048), len_bytes=4096, chk_bytes=4096))
    await xlate.settle()
    when = xlate.chunk.when[before:]
    assert when[0] - xlate.seg.taken[24] == (5 if paged else 4)
    assert when[-1] - when[0] == len(when) - 1, "a bubble"


@pytest.mark.parametrize("size", [512, 4096])
def test_xlate(size):
    simulate("hca_xlate", __name__, parameters={"ChunkBytes": size})
