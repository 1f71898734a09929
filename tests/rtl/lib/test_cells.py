"""FIFO, skid buffer, arbiter and RAMs: order, full throughput, capacity, fairness, collisions."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import cocotb
import pytest
from common import Bench, Sink, Source, simulate


async def stream(dut, seed, rate, sink_rate, count=600):
    bench = Bench(dut, seed)
    source = Source(bench, "in", rate=rate)
    sink = Sink(bench, "out", rate=sink_rate)
    await bench.start()
    words = [bench.rng.getrandbits(32) for _ in range(count)]
    source.put(*words)
    await bench.until(lambda: len(sink.got) == count, what="all words")
    assert sink.got == words
    return bench, source, sink


@cocotb.test()
async def stream_order(dut):
    """Every word once and in order under gaps and stalls."""
    rates = [(1.0, 1.0), (0.5, 1.0), (1.0, 0.5), (0.6, 0.6), (0.2, 0.9), (0.9, 0.2)]
    for seed, (rate, sink_rate) in enumerate(rates):
        await stream(dut, seed, rate, sink_rate)


@cocotb.test()
async def stream_full_rate(dut):
    """One word per cycle when nobody stalls."""
    _, source, sink = await stream(dut, 9, 1.0, 1.0)
    assert sink.when[-1] - sink.when[0] == 599
    assert 1 <= sink.when[0] - source.taken[0] <= 2


@cocotb.test()
async def fifo_capacity(dut):
    """Takes exactly Depth words without a reader; count_o says so."""
    bench = Bench(dut, 3)
    source, sink = Source(bench, "in"), Sink(bench, "out", rate=0.0)
    await bench.start()
    depth = int(dut.Depth.value)
    source.put(*range(200))
    await bench.step(120)
    assert len(source.taken) == depth == bench.get("count_o")
    sink.rate = 1.0
    await bench.until(lambda: len(sink.got) == 200, what="all words")
    await bench.step(3)
    assert sink.got == list(range(200)) and bench.get("count_o") == 0


@cocotb.test()
async def arb_fair(dut):
    """One-hot, only who asks, stable until served, nobody waits more than N-1 turns."""
    bench = Bench(dut, 4)
    await bench.start()
    count = int(dut.N.value)
    waiting, requests, held = [0] * count, 0, None
    for _ in range(3000):
        requests |= bench.rng.getrandbits(count) & bench.rng.getrandbits(count)
        advance = bench.rng.random() < 0.7 and requests != 0
        bench.set("req_i", requests)
        bench.set("advance_i", advance)
        await bench.step()
        if not requests:
            continue
        index = bench.get("idx_o")
        assert bench.get("grant_o") == 1 << index and requests >> index & 1
        assert held is None or held == index
        held = None if advance else index
        if advance:
            requests &= ~(1 << index)
            waiting = [0 if i == index or not requests >> i & 1 else waiting[i] + 1 for i in range(count)]
            assert max(waiting) < count


@cocotb.test()
async def ram_model(dut):
    """Read data comes one cycle later and holds; a collision reads the old word."""
    bench = Bench(dut, 5)
    await bench.start()
    memory, want = {}, None
    for _ in range(3000):
        write, read = bench.rng.random() < 0.6, bench.rng.random() < 0.6
        waddr, raddr, data = bench.rng.randrange(8), bench.rng.randrange(8), bench.rng.getrandbits(32)
        bench.set("we_i", write)
        bench.set("waddr_i", waddr)
        bench.set("wdata_i", data)
        bench.set("re_i", read)
        bench.set("raddr_i", raddr)
        await bench.step()
        if want is not None:
            assert bench.get("rdata_o") == want
        if read:
            want = memory.get(raddr)
        if write:
            memory[waddr] = data


@cocotb.test()
async def words_model(dut):
    """Only the words that are enabled change; a collision reads the old row."""
    bench = Bench(dut, 6)
    await bench.start()
    words, width = int(dut.Words.value), int(dut.WordW.value)
    mask = (1 << width) - 1
    memory, want = {}, None
    for step in range(3000):
        # Every row is whole once before anything is read.
        enables = (1 << words) - 1 if step < 8 else bench.rng.getrandbits(words) & bench.rng.getrandbits(words)
        read = step >= 8 and bench.rng.random() < 0.6
        waddr = step if step < 8 else bench.rng.randrange(8)
        raddr, data = bench.rng.randrange(8), bench.rng.getrandbits(words * width)
        bench.set("we_i", enables)
        bench.set("waddr_i", waddr)
        bench.set("wdata_i", data)
        bench.set("re_i", read)
        bench.set("raddr_i", raddr)
        await bench.step()
        if want is not None:
            assert bench.get("rdata_o") == want
        if read:
            want = memory[raddr]
        written = sum(mask << word * width for word in range(words) if enables >> word & 1)
        memory[waddr] = memory.get(waddr, 0) & ~written | data & written


@pytest.mark.parametrize("depth", [2, 16, 64])
def test_fifo(depth):
    simulate("hca_fifo", __name__, parameters={"Width": 32, "Depth": depth}, tests="stream|fifo")


def test_skid():
    simulate("hca_skid", __name__, parameters={"Width": 32}, tests="stream")


@pytest.mark.parametrize("count", [2, 5])
def test_arb(count):
    simulate("hca_rr_arb", __name__, parameters={"N": count}, tests="arb")


def test_ram():
    simulate("hca_ram_1r1w", __name__, tests="ram")


def test_ram_words():
    simulate("hca_ram_words", __name__, parameters={"WordW": 32, "Words": 16}, tests="words")
