"""hca_rd_share: each client gets the answers to its own requests, in order, whatever the other does."""

import sys
from collections import deque
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import cocotb
from common import Bench, Sink, Source, simulate, struct

REQ, RSP = struct("dma_rd_req_t"), struct("dma_rd_rsp_t")


@cocotb.test()
async def random_clients(dut):
    """Answers of one to eight beats, random stalls everywhere."""
    bench = Bench(dut, 5)
    rng = bench.rng
    clients = [Source(bench, "req", "dma_rd_req_t", index=n, rate=0.6) for n in range(2)]
    wanted = [deque(), deque()]

    def check(client):
        def on_word(word):
            assert word == wanted[client].popleft(), f"client {client}"
        return on_word

    for client in range(2):
        Sink(bench, "rsp", index=client, rate=0.7, payload=[("rsp_o", None)], on_word=check(client))
    port = Source(bench, "port_rsp", "dma_rd_rsp_t", rate=0.5)

    def answered(word):
        addr, beats = REQ.unpack(word)["addr"], rng.randint(1, 8)
        for beat in range(beats):
            answer = RSP.pack(last=beat == beats - 1, err=rng.getrandbits(1), data=addr << 8 | beat)
            wanted[addr & 1].append(answer)
            port.put(answer)

    Sink(bench, "port_req", rate=0.5, on_word=answered)
    await bench.start()
    for number in range(300):
        for client in range(2):
            clients[client].put(REQ.pack(addr=number << 1 | client, len_bytes=64))
    await bench.until(lambda: all(source.idle() for source in [*clients, port]) and not any(wanted), limit=40000)


def test_rd_share():
    simulate("hca_rd_share", __name__)
