"""hca_dma_rd_mux and hca_dma_wr_mux: nothing lost, order kept, fair, bursts unbroken, full rate."""

import sys
from collections import deque
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import cocotb
from common import Bench, Sink, Source, simulate, struct

REQ, RSP, WR = struct("dma_rd_req_t"), struct("dma_rd_rsp_t"), struct("dma_wr_t")
CLIENTS = 5   # of the write side
READERS = 10  # three of them with 64 tags, the last one with 16, the others with 8
LAST = READERS - 1


def host_tag(client, tag):
    """A client's tag as the host sees it."""
    if client == LAST:
        return 15 << 4 | tag
    return client << 6 | tag if client < 3 else 3 << 6 | (client - 3) << 3 | tag


def reader(tag):
    """Client of a host's tag, and its own tag."""
    if tag >> 4 == 15:
        return LAST, tag & 15
    return (tag >> 6, tag & 63) if tag >> 6 < 3 else (3 + (tag >> 3 & 7), tag & 7)


def read_bench(dut, seed, source_rate, sink_rate):
    bench = Bench(dut, seed)
    ports = [("mreq_tag_i", 6), ("mreq_i", REQ.width)]
    sources = [Source(bench, "mreq", index=n, rate=source_rate, payload=ports) for n in range(READERS)]
    sink = Sink(bench, "hrd_req", rate=sink_rate, payload=[("hrd_req_tag_o", None), ("hrd_req_o", None)])
    return bench, sources, sink


@cocotb.test()
@cocotb.parametrize(rates=[(1, 1), (0.3, 1), (1, 0.4), (0.5, 0.5)])
async def reads(dut, rates):
    """Each client's requests arrive in order under its tag; each response reaches its client only."""
    bench, sources, sink = read_bench(dut, 1, *rates)
    await bench.start()
    sent = [deque() for _ in range(READERS)]
    for n in range(400):
        client = bench.rng.randrange(READERS)
        word = (bench.rng.getrandbits(6 if client < 3 else 4 if client == LAST else 3), REQ.random(bench.rng))
        sources[client].put(word)
        sent[client].append(word)
    await bench.until(lambda: len(sink.got) == 400, what="requests")
    for tag, req in sink.got:
        client, own = reader(tag)
        assert host_tag(client, own) == tag and sent[client].popleft() == (own, req)
    for tag in range(256):
        word = RSP.random(bench.rng)
        bench.set("hrd_rsp_valid_i", 1)
        bench.set("hrd_rsp_tag_i", tag)
        bench.set("hrd_rsp_i", word)
        await bench.step()
        client, own = reader(tag)
        bench.set("hrd_rsp_valid_i", 0)
        if client < 3:
            assert bench.get("mrsp_valid_o") == 1 << client
            assert (bench.get("mrsp_tag_o"), bench.get("mrsp_o")) == (own, word)
            continue
        assert bench.get("mrsp_valid_o") == 0, "a cycle too early"
        await bench.step()
        assert bench.get("mrsp_valid_o") == 1 << client
        own_bits = 15 if client == LAST else 7   # a port of few tags takes the low bits
        assert (bench.get("mrsp_few_tag_o") & own_bits, bench.get("mrsp_few_o")) == (own, word)


@cocotb.test()
async def reads_are_fair(dut):
    """With all clients waiting the host port is busy each cycle. The three large ones have a quarter each, the others
    share the fourth."""
    bench, sources, sink = read_bench(dut, 2, 1, 1)
    await bench.start()
    for client in range(READERS):
        sources[client].put(*[(n % 8, REQ.random(bench.rng)) for n in range(60)])
    await bench.until(lambda: len(sink.got) == 60 * READERS, what="requests")
    assert sink.when[-1] - sink.when[0] == 60 * READERS - 1
    seen = [reader(tag)[0] for tag, _ in sink.got[10:206]]
    counts = [seen.count(client) for client in range(READERS)]
    assert counts == [49] * 3 + [7] * 7


@cocotb.test()
@cocotb.parametrize(rates=[(1, 1), (0.3, 1), (1, 0.4), (0.5, 0.5)])
async def writes(dut, rates):
    """Bursts come out whole, in the order of each source, and in the order in which they were accepted."""
    bench = Bench(dut, 3)
    sources = [Source(bench, "wr", "dma_wr_t", index=n, rate=rates[0]) for n in range(CLIENTS)]
    sink = Sink(bench, "hwr", rate=rates[1])
    order = []
    for source in sources:
        source.on_accept = order.append
    await bench.start()
    for n in range(300):
        beats = bench.rng.randint(1, 4)
        client = bench.rng.randrange(CLIENTS)
        sources[client].put(*[WR.random(bench.rng, func=client, last=k == beats - 1, addr=n * 4 + k)
                              for k in range(beats)])
    await bench.until(lambda: all(s.idle() for s in sources), what="writes")
    await bench.step(30)
    assert sink.got == order
    seen = [WR.unpack(word) for word in sink.got]
    for before, after in zip(seen, seen[1:]):
        assert before["last"] or after["addr"] == before["addr"] + 1, "a burst was broken"
    for client in range(CLIENTS):
        mine = [beat["addr"] for beat in seen if beat["func"] == client]
        assert mine == sorted(mine)
    if rates == (1, 1):
        assert sink.when[-1] - sink.when[0] == len(sink.got) - 1, "not one beat per cycle"


def test_dma_rd_mux():
    simulate("hca_dma_rd_mux", __name__, parameters={"N": READERS}, tests=".*reads.*")


def test_dma_wr_mux():
    simulate("hca_dma_wr_mux", __name__, parameters={"N": CLIENTS}, tests=".*writes.*")
