"""Gates of the SLs in hca_resp_sched: READ responses and acknowledges wait for theirs, at no cost for others."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
sys.path.insert(0, str(Path(__file__).resolve().parent))

import cocotb
from common import simulate, struct
from hca_abi import QpState
from test_resp_sched import NAK, RING, RespBench

# From a gate to the output of the packet that it still lets pass: decision, packet, output register.
LATENCY = 3
REFUSED = 0x61


LANES, ALL = 32, 0xFFFFFFFF   # SLs of both ports


class Gates:
    """Drives the gates and checks every packet: its lane was open a moment ago. Contexts with a lane, 16 * port + SL.
    `ib`: of the first port; the second has the other personality."""

    def __init__(self, bench, ib=True):
        self.bench, self.ib, self.mask, self.toggle = bench, (ib, not ib), ALL, 0.0
        self.history = [ALL] * (LATENCY + 1)
        self.sl, self.seen = {}, [0, 0]
        self.strict = True
        bench.agents.append(self)

    def lanes(self):
        """Those that packets can be on: Ethernet has eight."""
        return [16 * port + sl for port in (0, 1) for sl in range(16 if self.ib[port] else 8)]

    def create(self, qpn, lane, mtu_code=1, state=QpState.RTS, init=True):
        """A QP of this port and SL (Ethernet: of this priority)."""
        port, sl = divmod(lane, 16)
        bench = self.bench
        bench.create(qpn, mtu_code, state, init)
        bench.qpc.queue.pop()
        qpc = struct("qpc_t").pack(state=state, path_mtu=mtu_code, func=qpn & 3, pd=qpn + 5, port=port + 1,
                                   qpn=0xABC000 | qpn, sl=sl)
        bench.qpc.put(struct("qpc_wr_t").pack(init_rq=init, qpn=qpn, qpc=qpc))
        self.sl[qpn] = lane

    def drive(self):
        if self.bench.rng.random() < self.toggle:
            self.mask ^= 1 << self.bench.rng.randrange(LANES)
        self.bench.set("ib_i", self.ib[0] | self.ib[1] << 1)
        self.bench.set("sl_open_i", self.mask)
        self.history = [*self.history[1:], self.mask]

    def sample(self):
        for index, sink in enumerate((self.bench.txp, self.bench.ack)):
            for word in sink.got[self.seen[index]:]:
                qpn = struct("txp_t").unpack(word)["qpn"]
                passed = any(mask >> self.sl[qpn] & 1 for mask in self.history)
                assert passed or not self.strict, f"QP {qpn} sends though lane {self.sl[qpn]} is shut"
            self.seen[index] = len(sink.got)


@cocotb.test()
@cocotb.parametrize(ib=[True, False], toggle=[0.002, 0.05])
async def random_gates(dut, ib, toggle):
    """VL-6: READ responses and acknowledges never pass a shut gate; all of them leave at the end."""
    bench = await RespBench(dut, 1, 1.0, 0.5).begin()
    gates = Gates(bench, ib)
    gates.toggle = toggle
    psn = dict.fromkeys(range(48), 0xFFFFF0)
    for qpn in psn:
        gates.create(qpn, gates.lanes()[qpn % len(gates.lanes())], 1 + qpn % 3)
    await bench.until(bench.qpc.idle)
    last_ack = {}
    for _ in range(800):
        qpn = bench.rng.randrange(48)
        queued = sum(struct("rsp_job_t").unpack(word)["qpn"] == qpn for word in bench.rsp.queue)
        if bench.rng.random() < 0.4 and len(bench.jobs[qpn]) + queued < RING:
            length = bench.rng.choice([0, 1, bench.mtu[qpn], 3 * bench.mtu[qpn] + 3])
            bench.read(qpn, psn[qpn], length)
            psn[qpn] += max(1, -(-length // bench.mtu[qpn]))
            last_ack.pop(qpn, None)
        else:
            bench.acknowledge(qpn, psn[qpn], 0x1F if bench.rng.random() < 0.8 else NAK)
            last_ack[qpn] = psn[qpn] & 0xFFFFFF
            psn[qpn] += 1
        await bench.step(bench.rng.choice([0, 1, 8]))
    # A lane that is shut opens after 16,000 cycles, on the average.
    await bench.until(bench.finished, 300_000, "end of all jobs")
    for qpn, want in last_ack.items():
        assert [ack for ack in bench.acks if ack[0] == qpn][-1][1] == want
    assert bench.wait_max <= 12, f"rsp waited {bench.wait_max} cycles"
    bench.check_pops()


@cocotb.test()
async def no_slower(dut):
    """Jobs of 200 QPs behind a shut gate: READ responses and acknowledges of the others are as fast as alone."""
    cycles = {}
    for shut in (False, True):
        bench = await RespBench(dut, 2).begin()
        gates = Gates(bench)
        for qpn in range(16):
            gates.create(qpn, qpn % 4)
        for qpn in range(100, 300):
            gates.create(qpn, 9)
        await bench.until(bench.qpc.idle)
        gates.mask = 0xFDFF
        if shut:
            for qpn in range(100, 300):
                bench.read(qpn, 0, 1000)
                bench.acknowledge(qpn, 4)
            await bench.until(bench.rsp.idle)
        for qpn in range(16):
            bench.read(qpn, 0, 256 * 30)
        await bench.until(lambda b=bench: len(b.txp.got) == 480, 4000, "READ responses")
        rate = (bench.txp.when[-1] - bench.txp.when[0]) / 479
        acks = len(bench.acks)
        for qpn in range(16):
            bench.acknowledge(qpn, 100)
        begin = bench.cycle
        await bench.until(lambda b=bench, n=acks: len(b.acks) == n + 16, 400, "acknowledges")
        cycles[shut] = (rate, bench.cycle - begin)
        gates.mask = ALL
        await bench.run()
    print(f"GATING READ responses (cycles per packet), 16 ACKs (cycles): {cycles}")
    assert cycles[True][0] <= cycles[False][0] * 1.01 and cycles[True][1] <= cycles[False][1] + 4


@cocotb.test()
async def acknowledge_waits(dut):
    """An acknowledge behind a shut gate: the newest leaves when it opens, the NAK of what was refused in ERR too."""
    bench = await RespBench(dut, 3).begin()
    gates = Gates(bench)
    gates.create(1, 6)
    gates.create(2, 6)
    gates.create(3, 7)
    await bench.until(bench.qpc.idle)
    gates.mask = 0xFFBF
    bench.acknowledge(1, 5)
    bench.acknowledge(1, 6)
    bench.acknowledge(2, 7, REFUSED)
    bench.acknowledge(3, 8)
    await bench.step(100)
    assert bench.acks == [(3, 8, 0x1F)]
    gates.create(2, 6, state=QpState.ERR, init=False)
    await bench.step(50)
    gates.mask = ALL
    await bench.step(50)
    assert sorted(bench.acks) == [(1, 6, 0x1F), (2, 7, REFUSED), (3, 8, 0x1F)]


@cocotb.test()
async def path_changes(dut):
    """A QP that waits behind a shut gate gets another SL: its jobs go on at once, those of others do not."""
    bench = await RespBench(dut, 4).begin()
    gates = Gates(bench)
    for qpn in range(60):
        gates.create(qpn, 3)
    await bench.until(bench.qpc.idle)
    gates.mask = 0xFFF7
    for qpn in range(60):
        bench.read(qpn, 0, 600)
        bench.acknowledge(qpn, 9)
    await bench.until(bench.rsp.idle)
    await bench.step(50)
    assert not bench.txp.got and not bench.acks
    gates.create(30, 4, init=False)
    await bench.until(lambda: bench.acks, 400, "the QP that moved")
    await bench.step(200)
    assert len(bench.txp.got) == 3 and bench.acks == [(30, 9, 0x1F)]
    gates.mask = ALL
    await bench.run()
    bench.check_pops()


def test_resp_gating():
    """All of the above."""
    simulate("hca_resp_sched", __name__)
