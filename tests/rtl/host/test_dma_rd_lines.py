"""hca_dma_rd_lines: each client has its own answers in its own order, whatever the others do, out of one RAM."""

import sys
from collections import deque
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import cocotb
from common import Bench, Sink, Source, host_line, simulate, struct

REQ, RSP = struct("dma_rd_req_t"), struct("dma_rd_rsp_t")
CLIENTS, TAGS = 4, 8


class Lines:
    """Bench of the ports in front of a host that answers in any order, a line a cycle at most."""

    def __init__(self, dut, seed, rates=(1.0, 1.0, 1.0), latency=(20, 60)):
        self.bench = Bench(dut, seed)
        req, mreq, rsp = rates
        self.latency = latency
        self.due = {}       # client, tag: cycle, function, line
        self.fails = set()  # lines that cannot be read
        self.requests = [Source(self.bench, "req", "dma_rd_req_t", index=n, rate=req) for n in range(CLIENTS)]
        self.expected = [deque() for _ in range(CLIENTS)]
        self.answers = []
        for n in range(CLIENTS):
            Sink(self.bench, "mreq", index=n, rate=mreq, payload=[("mreq_tag_o", 6), ("mreq_o", REQ.width)],
                 on_word=lambda word, n=n: self.asked(n, *word))
            self.answers.append(Sink(self.bench, "rsp", index=n, width=RSP.width, rate=rsp,
                                     on_word=lambda word, n=n: self.came(n, word)))
        self.bench.agents.append(self)

    def read(self, client, line, func=0):
        self.requests[client].put(REQ.pack(func=func, addr=64 * line, len_bytes=64))
        self.expected[client].append((func, line))

    def asked(self, client, tag, word):
        req = REQ.unpack(word)
        assert (client, tag) not in self.due and tag < TAGS
        self.due[client, tag] = (self.bench.cycle + self.bench.rng.randint(*self.latency), req["func"],
                                 req["addr"] // 64)

    def came(self, client, word):
        func, line = self.expected[client].popleft()
        got = RSP.unpack(word)
        assert (got["last"], got["err"]) == (1, line in self.fails), f"client {client}"
        assert got["err"] or got["data"] == host_line(func, line), f"client {client}"

    def drive(self):
        """One answer of those that are due."""
        due = [at for at, entry in self.due.items() if entry[0] <= self.bench.cycle]
        self.bench.set("mrsp_valid_i", 0)
        if due:
            client, tag = at = self.bench.rng.choice(due)
            _, func, line = self.due.pop(at)
            self.bench.set("mrsp_valid_i", 1 << client)
            self.bench.set("mrsp_tag_i", tag)
            self.bench.set("mrsp_i", RSP.pack(last=1, err=line in self.fails, data=host_line(func, line)))

    def sample(self):
        """What comes is compared as it comes."""


@cocotb.test()
@cocotb.parametrize(rates=[(1, 1, 1), (0.5, 0.5, 0.5), (1, 1, 0.1), (1, 0.2, 1)])
async def random_clients(dut, rates):
    """Random latencies and stalls on all streams; some reads fail."""
    lines = Lines(dut, 3, rates, latency=(1, 200))
    rng = lines.bench.rng
    await lines.bench.start()
    for _ in range(1000):
        line = rng.randrange(1 << 40)
        if rng.random() < 0.1:
            lines.fails.add(line)
        lines.read(rng.randrange(CLIENTS), line, rng.randrange(4))
    await lines.bench.until(lambda: not any(lines.expected), 60000, "all answers")
    await lines.bench.step(20)
    assert not lines.due and not lines.bench.get("busy_o")


@cocotb.test()
async def a_client_that_takes_nothing(dut):
    """Holds up nobody: the others have a line a cycle together."""
    lines = Lines(dut, 4, latency=(8, 8))
    lines.answers[1].rate = 0.0
    await lines.bench.start()
    for n in range(200):
        for client in range(CLIENTS):
            lines.read(client, 1000 * client + n)
    begin = lines.bench.cycle
    await lines.bench.until(lambda: all(not lines.expected[n] for n in (0, 2, 3)), 2000, "the others' answers")
    assert lines.bench.cycle - begin < 700, lines.bench.cycle - begin
    assert len(lines.expected[1]) == 200
    lines.answers[1].rate = 1.0
    await lines.bench.until(lambda: not lines.expected[1], 2000, "its answers")


def test_dma_rd_lines():
    simulate("hca_dma_rd_lines", __name__)
