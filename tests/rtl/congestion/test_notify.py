"""hca_cc_notify: one CNP for the marks of a QP in an interval, in lanes that are open, none of what a QP was before."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import cocotb
from common import Bench, Sink, simulate
from hca_abi import CC_TICK_CYCLES

QPS, PLACES = 30, 8


class Env:
    """Marks in, CNPs out, time by hand."""

    def __init__(self, dut, seed, rate=1.0):
        self.bench = Bench(dut, seed)
        self.sink = Sink(self.bench, "cnp", rate=rate, payload=[("cnp_qpn_o", None), ("cnp_port_o", None)])
        self.now = 5000 * CC_TICK_CYCLES

    async def start(self):
        await self.bench.start()
        self.bench.set("open_i", 3)
        for qpn in range(QPS):
            await self.cycle(init_i=1, init_qpn_i=qpn)
        return self

    async def cycle(self, **inputs):
        """One cycle with these strobes."""
        self.now += 1
        self.bench.set("now_i", self.now)
        for name, value in inputs.items():
            self.bench.set(name, value)
        await self.bench.step()
        for name in ("marked_i", "init_i"):
            if name in inputs:
                self.bench.set(name, 0)

    async def mark(self, qpn, port=0, interval=10):
        await self.cycle(marked_i=1, qpn_i=qpn, port_i=port, interval_i=interval)
        await self.cycle()

    def took(self):
        """CNPs since the last call."""
        got, self.sink.got[:] = list(self.sink.got), []
        return got


@cocotb.test()
async def one_in_an_interval(dut):
    """Marks at random: a CNP where the last one of the QP was an interval ago, and its port with it."""
    env = await Env(dut, 1, rate=0.7).start()
    rng, last, wanted = env.bench.rng, {}, []
    port_of = [rng.randrange(2) for _ in range(QPS)]
    for _ in range(3000):
        qpn = rng.randrange(QPS)
        made = (env.now + 2) // CC_TICK_CYCLES
        if made - last.get(qpn, -99) >= 10 + 5 * port_of[qpn]:
            last[qpn] = made
            wanted.append((qpn, port_of[qpn]))
        await env.mark(qpn, port_of[qpn], 10 + 5 * port_of[qpn])
        for _ in range(rng.choice((0, 0, 3, 20))):
            await env.cycle()
    await env.bench.step(200)
    assert sorted(env.took()) == sorted(wanted) and len(wanted) > 200


@cocotb.test()
async def lanes_and_places(dut):
    """Behind a shut lane eight wait, and the other port's go on; what finds no place is lost until the next mark."""
    env = await Env(dut, 2).start()
    env.bench.set("open_i", 2)
    for qpn in range(PLACES + 3):
        await env.mark(qpn, 0)
    await env.bench.step(20)
    assert not env.took()
    env.bench.set("open_i", 3)
    await env.bench.step(40)
    assert sorted(qpn for qpn, _ in env.took()) == list(range(PLACES))
    for qpn in range(PLACES + 3):
        await env.mark(qpn, 0)
        await env.bench.step(4)
    assert sorted(qpn for qpn, _ in env.took()) == list(range(PLACES, PLACES + 3))
    env.bench.set("open_i", 2)
    await env.mark(20, 0)
    await env.mark(21, 1)
    await env.bench.step(10)
    assert env.took() == [(21, 1)]


@cocotb.test()
async def who_begins_has_no_past(dut):
    """A CNP that waits is void when its QP begins again, and the first mark after that is answered at once."""
    env = await Env(dut, 3).start()
    env.bench.set("open_i", 0)
    await env.mark(4)
    await env.mark(5)
    await env.cycle(init_i=1, init_qpn_i=4)
    env.bench.set("open_i", 3)
    await env.bench.step(20)
    assert env.took() == [(5, 0)]
    await env.mark(4)
    await env.mark(5)
    await env.bench.step(20)
    assert env.took() == [(4, 0)]


def test_notify():
    simulate("hca_cc_notify", __name__)
