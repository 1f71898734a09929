"""hca_dma_rd_port: order, data, error marks, tag wrap-around, latency and rate."""

import sys
from collections import deque
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import cocotb
import pytest
from common import Bench, HostReads, Sink, Source, host_line, simulate, struct

REQ, RSP = struct("dma_rd_req_t"), struct("dma_rd_rsp_t")


class Port:
    """Bench of one read port in front of a host that answers out of order."""

    def __init__(self, dut, seed, req_rate=1.0, mreq_rate=1.0, rsp_rate=1.0, **host):
        self.bench = Bench(dut, seed)
        self.bytes = int(dut.Bytes.value)
        self.req = Source(self.bench, "req", "dma_rd_req_t", rate=req_rate)
        self.host = HostReads(self.bench, "mrsp", **host)
        self.mreq = Sink(self.bench, "mreq", rate=mreq_rate, payload=[("mreq_tag_o", None), ("mreq_o", None)],
                         on_word=lambda word: self.host.request(*word))
        self.rsp = Sink(self.bench, "rsp", rate=rsp_rate)
        self.expected = deque()
        self.bench.agents.append(self)

    def read(self, addr, count, func=1):
        """Queues a read and what must come back."""
        self.req.put(REQ.pack(func=func, addr=addr, len_bytes=count))
        lines = range(addr // 64, (addr + count - 1) // 64 + 1)
        err = any(line in self.host.bad for line in lines)
        if err:
            bad = next(n for n, line in enumerate(lines) if line in self.host.bad)
            lines = lines[:bad + 1]
        for line in lines:
            self.expected.append((line == lines[-1], err, host_line(func, line)))

    def random_read(self, bad=False):
        """A legal read anywhere."""
        rng = self.bench.rng
        block = rng.randrange(1 << 40) * self.bytes
        first = rng.randrange(self.bytes)
        count = rng.randint(1, self.bytes - first)
        if bad:
            self.host.bad.add((block + first + rng.randrange(count)) // 64)
        self.read(block + first, count, rng.randrange(4))

    def drive(self):
        """Nothing to drive."""

    def sample(self):
        """Compares what came."""
        while self.rsp.got:
            last, err, data = self.expected.popleft()
            got = RSP.unpack(self.rsp.got.pop(0))
            assert (got["last"], got["err"]) == (last, err)
            assert err or got["data"] == data


async def run(port, limit=60000):
    await port.bench.until(lambda: not port.expected, limit, "all responses")
    await port.bench.step(20)
    assert port.bench.get("done_idx_o") == port.host.requests % 65536


@cocotb.test()
@cocotb.parametrize(rates=[(1, 1, 1, 1), (0.5, 0.5, 0.5, 0.5), (1, 1, 0.3, 1), (1, 0.3, 1, 0.7)])
async def random_traffic(dut, rates):
    """Random sizes, latencies, interleaving and stalls on all streams; some reads fail."""
    req, mreq, rsp, host = rates
    port = Port(dut, 1, req, mreq, rsp, rate=host, latency=(1, 200))
    await port.bench.start()
    for n in range(300):
        port.random_read(bad=n % 7 == 3)
    await run(port)


@cocotb.test()
async def full_rate(dut):
    """At 125 cycles of latency 64 tags of 512 bytes keep the beats coming one per cycle."""
    port = Port(dut, 5, latency=(125, 125), interleave=False)
    await port.bench.start()
    for n in range(200):
        port.read(n * 512, port.bytes)
    await run(port)
    when = port.rsp.when
    few = int(dut.Tags.value) < 64
    assert few or len(when) == 1600 and when[-1] - when[0] == 1599, "a bubble between beats"


@cocotb.test()
async def latency(dut):
    """First beat two cycles after the last beat of the response came in."""
    port = Port(dut, 6, latency=(10, 10))
    await port.bench.start()
    port.read(64, 64)
    await port.bench.until(lambda: port.bench.get("mrsp_valid_i"), 100, "response")
    arrived = port.bench.cycle - 1
    await run(port)
    assert port.rsp.when[0] - arrived == 2, port.rsp.when[0] - arrived


@cocotb.test()
async def done_counts_complete_prefix(dut):
    """done_idx moves only over the contiguous prefix, and before anything is taken from rsp."""
    port = Port(dut, 7, rsp_rate=0.0, latency=(1000000, 1000000))
    await port.bench.start()
    for n in range(4):
        port.read(n * 4096, 64)
    await port.bench.until(lambda: len(port.host.waiting) == 4, 100, "requests")
    for tag, expected in [(2, 0), (0, 1), (3, 1), (1, 4)]:
        port.host.waiting[tag][0] = 0
        await port.bench.step(10)
        assert port.bench.get("done_idx_o") == expected
    port.rsp.rate = 1.0
    await run(port)


async def tick(port, cycles=60):
    """A time-out period is over."""
    port.bench.set("tick_i", 1)
    await port.bench.step()
    port.bench.set("tick_i", 0)
    await port.bench.step(cycles)


@cocotb.test()
@cocotb.parametrize(rsp_rate=[1.0, 0.2])
async def reads_without_an_answer(dut, rsp_rate):
    """A read that has no answer, or a part of one, at its second tick ends with an error of one beat; those around it
    are untouched; its tag is not used while the answer may still come, and what comes of it is lost."""
    port = Port(dut, 8, rsp_rate=rsp_rate, latency=(20, 30), interleave=False)
    tags = int(dut.Tags.value)
    host, bench = port.host, port.bench
    await bench.start()
    for start in range(0, 3 * tags, tags):   # each tag once
        port.read(0x8000, 64)
        port.read(0x4000 + 512 * start, port.bytes)
        await bench.until(lambda: len(host.waiting) == 2, 100, "requests")
        lost = max(host.waiting, key=lambda tag: host.waiting[tag][4])
        entry = host.waiting[lost]
        entry[0] = bench.cycle
        await bench.until(lambda: entry[3] < port.bytes // 64, 100, "a beat, and not the last one")
        entry[0] = 1 << 60
        await bench.step(60)                      # the other one has its answer
        port.expected.clear()
        port.expected.append((True, True, None))
        await tick(port)
        assert port.expected, "too early"
        await tick(port)
        assert not port.expected and bench.get("busy_o")
        for n in range(2 * tags + 1):
            port.read(0x100000 + 4096 * n, 100)   # TagInUse is the host's to find
        await run(port)
        if start == tags:
            entry[0] = bench.cycle                # late
            await bench.step(60)
            assert not host.waiting and not bench.get("busy_o")
        else:
            del host.waiting[lost]                # never
            for _ in range(3):
                assert bench.get("busy_o")
                await tick(port)
            assert not bench.get("busy_o")
    await run(port)


@cocotb.test()
async def everything_is_lost(dut):
    """A host that answers nothing: all tags end, reads go on with the next ones as tags come back."""
    port = Port(dut, 9, latency=(1 << 60, 1 << 60))
    tags = int(dut.Tags.value)
    await port.bench.start()
    for n in range(tags + 3):
        port.req.put(REQ.pack(func=1, addr=n * 512, len_bytes=100))
        port.expected.append((True, True, None))
    await port.bench.step(2 * tags)
    for turn in range(2):
        assert len(port.host.waiting) == (tags, 3)[turn]
        port.host.waiting.clear()
        await tick(port)
        await tick(port, 2 * tags)
        assert len(port.expected) == (3, 0)[turn]
        for _ in range(3):
            assert len(port.host.waiting) == 0, "a tag that rests is used"
            await tick(port, 2 * tags)
    await run(port)
    assert not port.bench.get("busy_o")


@pytest.mark.parametrize(("tags", "size"), [(64, 512), (4, 512), (16, 128)])
def test_dma_rd_port(tags, size):
    simulate("hca_dma_rd_port", __name__, parameters={"Tags": tags, "Bytes": size})
