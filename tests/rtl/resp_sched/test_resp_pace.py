"""Congestion control in hca_resp_sched: READ responses of a QP are held to its rate, and nobody waits for another."""

import sys
from collections import Counter, defaultdict, deque
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
sys.path.insert(0, str(Path(__file__).resolve().parent))

import cocotb
from common import simulate, struct
from hca_abi import CC_RATE_FULL, CC_RATE_UNIT
from test_resp_sched import RING, RespBench

PACE, RATE, SENT, MADE, TXP = (struct(name) for name in
                               ("cc_pace_t", "cc_rate_wr_t", "cc_sent_t", "tx_made_t", "txp_t"))
EPOCH, AHEAD = 7, 4096


class Rates:
    """Time, rates in, what is told of packets out; and when each packet left."""

    def __init__(self, bench, on=1):
        self.bench, self.on = bench, on
        self.now = (1 << 32) - 3000   # it wraps in the middle
        self.writes, self.times, self.told = [], defaultdict(list), Counter()
        self.made = deque()   # bytes on the wire of packets that the sink has not had
        bench.agents.append(self)

    def set(self, qpn, bytes_per_cycle, epoch=EPOCH):
        """A rate; None: the full one."""
        rate = CC_RATE_FULL if bytes_per_cycle is None else round(bytes_per_cycle * CC_RATE_UNIT)
        self.writes.append(RATE.pack(valid=1, qpn=qpn, epoch=epoch, rate=rate))

    def drive(self):
        """Time goes on."""
        bench = self.bench
        self.now += 1
        bench.set("now_i", self.now)
        for port in range(2):
            bench.set("cc_pace_i", PACE.pack(on=self.on, epoch=EPOCH), PACE.width * port, PACE.width)
        bench.set("cc_rate_i", self.writes.pop(0) if self.writes else 0)
        bench.set("cc_sent_ready_i", bench.rng.random() < 0.5)

    def sample(self):
        """Packets, and what is told of them."""
        bench = self.bench
        if bench.get("made_valid_o") and bench.get("made_read_o"):
            self.made.append((self.now, MADE.unpack(bench.get("made_o"))["bytes"]))
        if bench.get("txp_valid_o") and bench.get("txp_ready_i"):
            self.times[TXP.unpack(bench.get("txp_o"))["qpn"]].append(self.made.popleft())
        if bench.get("cc_sent_valid_o") and bench.get("cc_sent_ready_i"):
            sent = SENT.unpack(bench.get("cc_sent_o"))
            self.told[sent["qpn"]] += sent["bytes"]

    def check(self, qpn, rate, tolerance=0.02):
        """A QP has this rate in the long run, and is never further ahead of it than it may be."""
        times = self.times[qpn]
        start, total = times[0][0], 0
        for now, size in times:
            assert total <= (now - start) * rate + AHEAD + 60 * rate, f"QP {qpn}: {total} bytes at {now - start}"
            total += size
        late = times[len(times) // 3:]
        cycles, sent = late[-1][0] - late[0][0], sum(size for _, size in late[:-1])
        slack = tolerance * rate + max(size for _, size in late) / cycles
        assert abs(sent / cycles - rate) <= slack, (sent, cycles, rate)


async def start(dut, seed, **options):
    """A bench with rates."""
    bench = await RespBench(dut, seed).begin()
    rates = Rates(bench, **options)
    await bench.step(1100)   # all tables are cleared
    return bench, rates


async def feed(bench, work):
    """Gives each QP its READs, (qpn, bytes, how many), as its list has room."""
    psns = dict.fromkeys((qpn for qpn, _, _ in work), 0)
    left = {qpn: count for qpn, _, count in work}
    sizes = {qpn: size for qpn, size, _ in work}
    while any(left.values()):
        queued = Counter(struct("rsp_job_t").unpack(word)["qpn"] for word in bench.rsp.queue)
        for qpn, count in left.items():
            if count and len(bench.jobs[qpn]) + queued[qpn] < RING - 1:
                bench.read(qpn, psns[qpn], sizes[qpn])
                psns[qpn] += max(1, -(-sizes[qpn] // bench.mtu[qpn]))
                left[qpn] -= 1
        await bench.step(20)
    await bench.until(lambda: not any(bench.jobs.values()), limit=200_000, what="all READs are answered")


@cocotb.test()
@cocotb.parametrize(case=[(4096, 5, 7.5), (20_000, 3, 20), (300, 2, 0.9)])
async def exact(dut, case):
    """One QP has its rate, and all of it, whatever the size of its READs; every byte is told."""
    size, code, rate = case
    bench, rates = await start(dut, 1)
    bench.create(3, code)
    rates.set(3, rate)
    await bench.until(bench.qpc.idle)
    await feed(bench, [(3, size, 100 if size < 1000 else 60)])
    rates.check(3, rate)
    sent = sum(size for _, size in rates.times[3])
    assert 0 <= sent - rates.told[3] <= 2 * 4300, (sent, rates.told)


@cocotb.test()
async def each_its_own(dut):
    """Twelve QPs of different rates together, one without a rate, and acknowledges of them all, which wait for none."""
    bench, rates = await start(dut, 2)
    wanted = {5 * n + 2: 0.7 + 0.25 * n for n in range(12)}
    for qpn, rate in wanted.items():
        bench.create(qpn, 3)
        rates.set(qpn, rate)
    bench.create(200, 3)
    rates.set(200, None)
    await bench.until(bench.qpc.idle)
    await feed(bench, [(qpn, 1024, int(40 * rate)) for qpn, rate in wanted.items()] + [(200, 1024, 200)])
    for qpn, rate in wanted.items():
        rates.check(qpn, rate, 0.05)
    took = rates.times[200][-1][0] - rates.times[200][0][0]
    assert took < 200 * 1200 / 20, f"the QP without a rate needed {took} cycles"
    assert 200 not in rates.told
    for qpn in wanted:
        bench.acknowledge(qpn, 900)
    await bench.until(lambda: len(bench.acks) == len(wanted), limit=2000)


@cocotb.test()
async def off_and_old_rates_hold_nobody(dut):
    """Rates count while it is on, and those alone that were set since the newest row; a QP that begins anew is free."""
    for on, epoch in ((0, EPOCH), (1, EPOCH - 1)):
        bench, rates = await start(dut, 4, on=on)
        bench.create(9, 3)
        rates.set(9, 0.1, epoch)
        await bench.until(bench.qpc.idle)
        await feed(bench, [(9, 1024, 40)])
        assert rates.times[9][-1][0] - rates.times[9][0][0] < 40 * 100 and not rates.told


@cocotb.test()
async def a_held_qp_ends(dut):
    """A QP that is reset while it is held sends nothing more, and with another rate it goes on."""
    bench, rates = await start(dut, 5)
    bench.create(4, 3)
    rates.set(4, 0.05)
    await bench.until(bench.qpc.idle)
    for n in range(10):
        bench.read(4, 4 * n, 4096)
    await bench.step(600)
    assert 0 < len(rates.times[4]) < 20, "held by now"
    before = len(rates.times[4])
    bench.create(4, 3)
    bench.read_qpns.clear()
    bench.popped.clear()
    rates.set(4, None)
    await bench.until(bench.qpc.idle)
    await bench.step(5)
    bench.read(4, 0, 4096)
    await bench.until(lambda: len(rates.times[4]) == before + 4, limit=200_000, what="its time comes")
    await bench.step(1000)
    assert len(rates.times[4]) == before + 4


def test_resp_pace():
    simulate("hca_resp_sched", __name__)
