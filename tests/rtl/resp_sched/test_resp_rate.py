"""Static rate in hca_resp_sched: READ responses and acknowledges of a group take turns at its rate, others go on."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
sys.path.insert(0, str(Path(__file__).resolve().parent))

import cocotb
from common import simulate, struct
from hca_abi import QpState
from rates import CARD_BYTES, RateAgent, interval_of, wire_bytes
from test_resp_sched import RING, RespBench


class Rated(RateAgent):
    """The gates, and contexts with a rate; InfiniBand, for its overhead."""

    def __init__(self, bench, **options):
        super().__init__(bench, 0, **options)

    def create(self, qpn, group, ratio, mtu_code=1, init=True):
        """A QP of a group (0: none) whose path is `ratio` times slower than the port."""
        bench = self.bench
        bench.create(qpn, mtu_code, QpState.RTS, init)
        bench.qpc.queue.pop()
        qpc = struct("qpc_t").pack(state=QpState.RTS, path_mtu=mtu_code, func=qpn & 3, pd=qpn + 5, rate_group=group,
                                   qpn=0xABC000 | qpn, rate_interval=interval_of(ratio) if group else 0)
        bench.qpc.put(struct("qpc_wr_t").pack(init_rq=init, qpn=qpn, qpc=qpc))

    def drive(self):
        super().drive()
        self.bench.set("ib_i", 1)


@cocotb.test()
@cocotb.parametrize(case=[(5, 4096, 2), (3, 1024, 5), (1, 256, 20)])
async def exact(dut, case):
    """RATE-3: READ responses of two QPs leave evenly, at their rate; so do acknowledges."""
    code, size, ratio = case
    bench = await RespBench(dut, 1).begin()
    agent = Rated(bench)
    for qpn in (1, 2):
        agent.create(qpn, 7, ratio, code)
    await bench.until(bench.qpc.idle)
    for qpn in (1, 2):
        bench.read(qpn, 0, size * 20)
    await bench.run()
    agent.check_rates()
    assert {wire for _, wire, _ in agent.times[7]} == {wire_bytes(size, 0x0D)}
    even = wire_bytes(size, 0x0D) * ratio / CARD_BYTES
    gaps = agent.gaps(7)[12:]
    assert len(gaps) == 27 and all(even - 5 <= gap <= even + 5 for gap in gaps), (even, gaps)
    for n in range(40):
        bench.acknowledge(1 + n % 2, n)
        await bench.step(3)
    await bench.run()
    assert agent.times[7][-1][1] == wire_bytes(0, 0x11)
    agent.check_rates()


@cocotb.test()
@cocotb.parametrize(groups=[3, 31])
async def random_jobs(dut, groups):
    """Random jobs with and without a rate: nobody early, all done, in order."""
    bench = await RespBench(dut, 2).begin()
    agent = Rated(bench)
    psn = dict.fromkeys(range(60), 0)
    for qpn in psn:
        agent.create(qpn, 1 + qpn % groups if qpn % 3 else 0, 2 + qpn % groups % 7)
    await bench.until(bench.qpc.idle)
    for _ in range(700):
        qpn = bench.rng.randrange(60)
        queued = sum(struct("rsp_job_t").unpack(word)["qpn"] == qpn for word in bench.rsp.queue)
        if bench.rng.random() < 0.5 and len(bench.jobs[qpn]) + queued < RING:
            length = bench.rng.choice([0, 1, 256, 700])
            bench.read(qpn, psn[qpn], length)
            psn[qpn] += max(1, -(-length // 256))
        else:
            bench.acknowledge(qpn, psn[qpn])
            psn[qpn] += 1
        await bench.step(bench.rng.choice([0, 1, 8]))
    await bench.until(bench.finished, 100000, "end of all jobs")
    assert bench.wait_max <= 12, f"rsp waited {bench.wait_max} cycles"
    bench.check_pops()
    agent.check_rates()


@cocotb.test()
@cocotb.parametrize(groups=[2, 31])
async def others_go_on(dut, groups):
    """RATE-4: 150 QPs that wait for a slow rate take nothing from the others."""
    cycles = []
    for slow in (0, 150):
        bench = await RespBench(dut, 3).begin()
        agent = Rated(bench)
        for qpn in range(16):
            agent.create(qpn, 0, 1)
        for qpn in range(100, 100 + slow):
            agent.create(qpn, 1 + qpn % groups, 200, 5)
        await bench.until(bench.qpc.idle)
        for qpn in range(100, 100 + slow):
            bench.read(qpn, 0, 4096 * 3)
        await bench.until(bench.rsp.idle)
        await bench.step(1500)
        count = len(bench.txp.got)
        for qpn in range(16):
            bench.read(qpn, 0, 256 * 60)
        begin = bench.cycle
        await bench.until(lambda b=bench, n=count: len(b.txp.got) >= n + 960, 8000, "the others")
        cycles.append((bench.cycle - begin) / 960)
    print(f"STATIC RATE {groups} groups: READ responses of the others {cycles} cycles per packet")
    assert cycles[1] <= cycles[0] * 1.03


@cocotb.test()
async def shared(dut):
    """40 QPs to one destination: it is used as much as it may be, and all of them have their turns."""
    bench = await RespBench(dut, 4).begin()
    agent = Rated(bench)
    for qpn in range(40):
        agent.create(qpn, 5, 8, 3)
    await bench.until(bench.qpc.idle)
    for qpn in range(40):
        bench.read(qpn, 0, 1024 * 4)
    await bench.until(lambda: len(agent.times.get(5, [])) >= 100, 60000, "packets")
    even = wire_bytes(1024, 0x0D) * 8 / CARD_BYTES
    assert abs(agent.times[5][99][0] - agent.times[5][9][0] - 90 * even) <= 90
    assert len({struct("txp_t").unpack(word)["qpn"] for word in bench.txp.got}) == 40
    await bench.run()


@cocotb.test()
async def path_changes(dut):
    """A QP that waits for its group gets another path: its jobs go on at once."""
    bench = await RespBench(dut, 5).begin()
    agent = Rated(bench)
    for qpn in range(30):
        agent.create(qpn, 9, 255, 5)
    await bench.until(bench.qpc.idle)
    for qpn in range(30):
        bench.read(qpn, 0, 4096)
    await bench.step(400)
    assert len(bench.txp.got) == 1
    agent.create(20, 0, 0, 5, init=False)
    await bench.step(64 + 3 * 30 + 10)          # its queue is found, and looked through
    assert [struct("txp_t").unpack(word)["qpn"] for word in bench.txp.got[1:]] == [20]


def test_resp_rate():
    """All of the above."""
    simulate("hca_resp_sched", __name__)
