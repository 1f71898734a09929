"""Rates of QPs in hca_requester, as congestion control sets them: each QP has its own, and nobody waits for another."""

import sys
from collections import Counter, defaultdict
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
sys.path.insert(0, str(Path(__file__).resolve().parent))

import cocotb
import pytest
from common import simulate, struct
from hca_abi import CC_RATE_FULL, CC_RATE_UNIT, WrOpcode
from sq_bench import Qp, SqBench, Wqe
from test_requester import drain

PACE, RATE, SENT, MADE = (struct(name) for name in ("cc_pace_t", "cc_rate_wr_t", "cc_sent_t", "tx_made_t"))
EPOCH = 7
AHEAD = 4096


class Rates:
    """Time, rates in, packets and what is told of them out."""

    def __init__(self, bench, on=1, ready=0.5):
        self.bench, self.on, self.ready = bench, on, ready
        self.now = (1 << 32) - 3000   # it wraps in the middle
        self.writes, self.times, self.told = [], defaultdict(list), Counter()
        bench.agents.append(self)

    def set(self, qpn, bytes_per_cycle, epoch=EPOCH):
        rate = CC_RATE_FULL if bytes_per_cycle is None else round(bytes_per_cycle * CC_RATE_UNIT)
        self.writes.append(RATE.pack(valid=1, qpn=qpn, epoch=epoch, rate=rate))

    def drive(self):
        bench = self.bench
        self.now += 1
        bench.set("ib_i", 0)
        bench.set("sl_open_i", (1 << 32) - 1)
        bench.set("rate_open_i", (1 << 32) - 1)
        bench.set("now_i", self.now)
        for port in range(2):
            bench.set("cc_pace_i", PACE.pack(on=self.on, epoch=EPOCH), PACE.width * port, PACE.width)
        bench.set("cc_rate_i", self.writes.pop(0) if self.writes else 0)
        bench.set("cc_sent_ready_i", bench.rng.random() < self.ready)

    def sample(self):
        bench = self.bench
        if bench.get("made_valid_o"):
            made = MADE.unpack(bench.get("made_o"))
            self.times[bench.get("ev_emit_qpn_o")].append((self.now, made["bytes"]))
        if bench.get("cc_sent_valid_o") and bench.get("cc_sent_ready_i"):
            sent = SENT.unpack(bench.get("cc_sent_o"))
            self.told[sent["qpn"]] += sent["bytes"]

    def check(self, qpn, rate, tolerance=0.01):
        """A QP has this rate in the long run, and is never further ahead of it than it may be."""
        times = self.times[qpn]
        start, total = times[0][0], 0
        for now, size in times:
            assert total <= (now - start) * rate + AHEAD + 40 * rate, f"QP {qpn}: {total} bytes at {now - start}"
            total += size
        late = times[len(times) // 3:]
        cycles, sent = late[-1][0] - late[0][0], sum(size for _, size in late[:-1])
        slack = tolerance * rate + max(size for _, size in late) / cycles
        assert abs(sent / cycles - rate) <= slack, (sent, cycles, rate)


def write(size):
    """An RDMA WRITE."""
    return Wqe(WrOpcode.RDMA_WRITE, [(0x1000, size, 1)], remote_addr=8)


async def start(dut, seed, **options):
    bench = await SqBench(dut, seed, latency=(50, 50)).begin()
    rates = Rates(bench, **options)
    await bench.step(1100)   # all tables are cleared
    return bench, rates


@cocotb.test()
@cocotb.parametrize(case=[(4096, 5, 7.5), (1024, 3, 20), (64, 3, 3), (300, 2, 0.9)])
async def exact(dut, case):
    """One QP has its rate, and all of it, whatever the size of its packets; every byte is told."""
    size, code, rate = case
    bench, rates = await start(dut, 1)
    qp = bench.create(Qp(3, mtu_code=code, log_size=8))
    rates.set(3, rate)
    bench.post(qp, *[write(size) for _ in range(200 if size < 1000 else 60)])
    await drain(bench)
    rates.check(3, rate)
    sent = sum(size for _, size in rates.times[3])
    assert 0 <= sent - rates.told[3] <= 2 * 4300, (sent, rates.told)


@cocotb.test()
async def each_its_own(dut):
    """Twelve QPs of different rates together, and one without, which takes what it wants."""
    bench, rates = await start(dut, 2)
    wanted = {5 * n + 2: 0.7 + 0.25 * n for n in range(12)}
    for qpn, rate in wanted.items():
        qp = bench.create(Qp(qpn, mtu_code=3, log_size=8))
        rates.set(qpn, rate)
        bench.post(qp, *[write(1024) for _ in range(int(40 * rate))])
    free = bench.create(Qp(200, mtu_code=3, log_size=8))
    rates.set(200, None)
    bench.post(free, *[write(1024) for _ in range(200)])
    await drain(bench)
    for qpn, rate in wanted.items():
        rates.check(qpn, rate, 0.03)
    took = rates.times[200][-1][0] - rates.times[200][0][0]
    assert took < 200 * 1200 / 20, f"the QP without a rate needed {took} cycles"
    assert 200 not in rates.told


@cocotb.test()
async def more_qps_than_slots(dut):
    """RATE-4, in its sense: held QPs, more than there are slots, give their slots to those that may send."""
    bench, rates = await start(dut, 3)
    slow = [bench.create(Qp(300 + n, mtu_code=3, log_size=4)) for n in range(int(dut.Slots.value) + 20)]
    for qp in slow:
        rates.set(qp.qpn, 0.25)
        bench.post(qp, *[write(4096) for _ in range(3)])
    await bench.step(3000)
    fast = [bench.create(Qp(n, mtu_code=3, log_size=6)) for n in range(10)]
    for qp in fast:
        bench.post(qp, *[write(1024) for _ in range(30)])
    await drain(bench)
    ends = [rates.times[qp.qpn][-1][0] for qp in fast]
    begin = min(rates.times[qp.qpn][0][0] for qp in fast)
    assert max(ends) - begin < 30000, "who has no rate waited for those who have"
    for qp in slow:
        rates.check(qp.qpn, 0.25, 0.1)


@cocotb.test()
async def off_and_old_rates_hold_nobody(dut):
    """Rates count while it is on, and those alone that were set since the newest row."""
    for on, epoch in ((0, EPOCH), (1, EPOCH - 1)):
        bench, rates = await start(dut, 4, on=on)
        qp = bench.create(Qp(9, mtu_code=3, log_size=8))
        rates.set(9, 0.1, epoch)
        bench.post(qp, *[write(1024) for _ in range(40)])
        await drain(bench)
        assert rates.times[9][-1][0] - rates.times[9][0][0] < 40 * 100 and not rates.told


@pytest.mark.parametrize("slots", [8, 64])
def test_congestion(slots):
    simulate("hca_requester", __name__, parameters={"Slots": slots, "Burst": 4, "Large": 4})
