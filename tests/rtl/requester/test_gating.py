"""Gates of the SLs in hca_requester: a shut one sends nothing, costs others nothing, and loses nothing."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
sys.path.insert(0, str(Path(__file__).resolve().parent))

import cocotb
import pytest
from common import simulate
from hca_abi import QpState, WrOpcode
from sq_bench import Qp, SqBench, Wqe
from test_requester import drain, post_all, random_wqe, write64

# From a gate to the strobe of the packet that it still lets pass: gate register, decision, packet.
LATENCY = 3


LANES, ALL = 32, 0xFFFFFFFF   # SLs of both ports


class Gates:
    """Drives the gates and checks every packet made: its lane was open a moment ago. Lane: 16 * port + SL. `ib`: of the
    first port; the second has the other personality."""

    def __init__(self, bench, ib=True):
        self.bench, self.ib, self.mask = bench, (ib, not ib), ALL
        self.history = [ALL] * (LATENCY + 1)
        self.toggle = 0.0
        self.passed = [0] * LANES
        bench.agents.append(self)

    def lanes(self):
        """Those that packets can be on: Ethernet has eight."""
        return [16 * port + sl for port in (0, 1) for sl in range(16 if self.ib[port] else 8)]

    def context(self, lane):
        """Context fields of a QP of this port and SL (Ethernet: priority)."""
        port, sl = divmod(lane, 16)
        return dict(sl=sl, port=port + 1)

    def drive(self):
        rng = self.bench.rng
        if rng.random() < self.toggle:
            self.mask ^= 1 << rng.randrange(LANES)
        self.bench.set("ib_i", self.ib[0] | self.ib[1] << 1)
        self.bench.set("sl_open_i", self.mask)
        self.history = [*self.history[1:], self.mask]

    def sample(self):
        bench = self.bench
        if not bench.get("ev_emit_valid_o"):
            return
        qp = bench.qps[bench.get("ev_emit_qpn_o")]
        port = max(qp.context.get("port", 0), 1) - 1
        lane = 16 * port + qp.context["sl"]
        assert any(mask >> lane & 1 for mask in self.history), f"QP {qp.qpn} sends though lane {lane} is shut"
        self.passed[lane] += 1


@cocotb.test()
@cocotb.parametrize(ib=[True, False], toggle=[0.002, 0.05])
async def random_gates(dut, ib, toggle):
    """VL-6: gates open and shut at random under all kinds of traffic; nothing passes a shut one; all work is done."""
    bench = await SqBench(dut, 1, latency=(20, 200)).begin()
    gates = Gates(bench, ib)
    gates.toggle = toggle
    tasks = []
    for n in range(80):
        qp = bench.create(Qp(n * 5, mtu_code=1 + n % 3, log_size=4, log_stride=n % 4, psn=0xFFFFF0 - n,
                             max_rd_atomic=1 + n % 3, **gates.context(gates.lanes()[n % len(gates.lanes())])))
        tasks.append((qp, [random_wqe(bench.rng, qp, max_packets=8) for _ in range(8)]))
    for n in range(8):
        for qp, wqes in tasks:
            await post_all(bench, qp, [wqes[n]])
    await drain(bench)
    assert not bench.errors and all(gates.passed[lane] for lane in gates.lanes())


@cocotb.test()
async def shut_in_mid_message(dut):
    """A gate that shuts stops a long message at once; the message goes on where it was."""
    bench = await SqBench(dut, 2).begin()
    gates = Gates(bench)
    qp = bench.create(Qp(3, mtu_code=5, sl=4))
    bench.post(qp, Wqe(WrOpcode.RDMA_WRITE, [(0x1000, 4096 * 300, 1)]), write64())
    for _ in range(20):
        await bench.step(bench.rng.randint(20, 60))
        gates.mask = 0xFFEF
        await bench.step(LATENCY)
        sent = qp.sent
        await bench.step(100)
        assert qp.sent <= sent + 1, "what was made may still be in the output register"
        gates.mask = ALL
    assert 40 < qp.sent < 300
    await drain(bench)


@cocotb.test()
async def news_while_shut(dut):
    """Doorbells, acknowledges, rewinds and context writes that come while a gate is shut are acted on later."""
    bench = await SqBench(dut, 3, latency=(30, 30)).begin()
    bench.auto_ack = False
    gates = Gates(bench)
    qp = bench.create(Qp(6, mtu_code=1, psn=9, sl=2))
    gates.mask = 0
    bench.post(qp, *[write64(n) for n in range(5)])
    await bench.step(500)
    assert qp.sent == 0 and bench.host.requests == 0, "nobody looks at it"
    gates.mask = ALL
    await bench.step(300)
    assert qp.sent == 5
    gates.mask = 0
    bench.send_ack(qp, 9 + 2, rewind=True)
    await bench.step(300)
    assert qp.sent == 5
    gates.mask = ALL
    await bench.step(300)
    assert qp.sent == 8
    gates.mask = 0
    bench.post(qp, write64())
    bench.modify(qp, state=QpState.ERR)
    await bench.step(300)
    gates.mask = ALL
    await bench.step(300)
    assert qp.sent == 8, "it may not send any more"
    gates.mask = 0
    again = bench.create(Qp(6, mtu_code=1, psn=0x777, base=qp.base, sl=2))
    bench.post(again, write64(), write64())
    await bench.step(300)
    assert again.sent == 0
    gates.mask = ALL
    await bench.step(300)
    assert again.sent == 2 and not bench.errors


@cocotb.test()
@cocotb.parametrize(case=["waits", "bound", "many"])
async def path_changes(dut, case):
    """A QP that waits behind a shut gate gets a new SL: it goes on at once, and the others go on waiting."""
    bench = await SqBench(dut, 4, latency=(30, 30)).begin()
    gates = Gates(bench)
    slots = int(dut.Slots.value)
    gates.mask = ALL if case == "bound" else 0xFFF7
    count = 3 * slots if case == "many" else 2
    qps = [bench.create(Qp(n, sl=3)) for n in range(count)]
    await bench.until(bench.qpc.idle, what="contexts")
    for qp in qps:
        bench.post(qp, *[write64(n) for n in range(40)])
    await bench.until(bench.db.idle, what="doorbells")
    if case == "bound":
        await bench.step(150)
        gates.mask = 0xFFF7
    await bench.step(50)
    before = [qp.sent for qp in qps]
    moved = qps[count // 2]
    bench.modify(moved, sl=5)
    await bench.until(lambda: moved.una == moved.tail_psn, 4000, "the QP that moved")
    still = [qp.sent for qp in qps if qp is not moved]
    assert still == [sent for qp, sent in zip(qps, before, strict=True) if qp is not moved]
    gates.mask = ALL
    await drain(bench)


@cocotb.test()
async def slots_come_back(dut):
    """QPs behind a shut gate hold every slot: others get slots soon, and the first ones go on later."""
    bench = await SqBench(dut, 5, latency=(50, 100)).begin()
    gates = Gates(bench)
    slots = int(dut.Slots.value)
    stuck = [bench.create(Qp(n, sl=1, log_size=8)) for n in range(slots)]
    for qp in stuck:
        bench.post(qp, *[write64(n) for n in range(200)])
    await bench.until(lambda: all(qp.sent for qp in stuck), 20000, "slots taken")
    gates.mask = 0xFFFD
    await bench.step(200)
    others = [bench.create(Qp(500 + n, sl=2)) for n in range(40)]
    await bench.until(bench.qpc.idle, what="contexts")
    for qp in others:
        bench.post(qp, write64())
    begin = bench.cycle
    await bench.until(lambda: all(qp.sent for qp in others), 2000, "the others")
    assert bench.cycle - begin < 400 + 40 * 30, f"{bench.cycle - begin} cycles"
    gates.mask = ALL
    await drain(bench)


async def busy(bench, qps, packets):
    """Keeps QPs busy for that many packets of the card; cycles per packet."""
    begin, end = bench.cycle, len(bench.txp.when) + packets
    while len(bench.txp.when) < end:
        for qp in qps:
            if qp.tail - qp.una_wqe() + 32 <= 1 << qp.log_size:
                bench.post(qp, *[write64(n) for n in range(32)])
        await bench.step()
    return (bench.cycle - begin) / packets


@cocotb.test()
@cocotb.parametrize(case=["alone", "shut", "flaps"])
async def no_slower(dut, case):
    """64-byte WRITEs of 100 QPs beside 200 QPs behind a shut gate: as fast as alone; nearly so when it flaps."""
    slots = int(dut.Slots.value)
    if slots < 64:
        return
    bench = await SqBench(dut, 6, latency=(150, 150)).begin()
    gates = Gates(bench)
    if case != "alone":
        stuck = [bench.create(Qp(500 + n, sl=7, log_size=8)) for n in range(200)]
        await bench.until(bench.qpc.idle, what="contexts")
        for qp in stuck:
            bench.post(qp, *[write64(n) for n in range(250)])
        await bench.step(2000)
        gates.mask = 0xFF7F
    qps = [bench.create(Qp(n, sl=n % 7, log_size=7)) for n in range(100)]

    class Flap:
        """Opens the gate for 60 of 2000 cycles."""

        def drive(self):
            if case == "flaps":
                gates.mask = ALL if bench.cycle % 2000 < 60 else 0xFF7F

        def sample(self):
            """Nothing to see."""

    bench.agents.append(Flap())
    # The first packets also pay for the slots that come back from behind the gate.
    await busy(bench, qps, 1000)
    before, begin = gates.passed[7], bench.cycle
    cycles = await busy(bench, qps, 1500)
    print(f"GATING {case}: {cycles:.2f} cycles per 64-byte WRITE, {gates.passed[7] - before} of the other VL")
    assert cycles <= 4.25
    if case == "flaps":
        assert gates.passed[7] - before >= (bench.cycle - begin) // 2000, "each moment is used"


@pytest.mark.parametrize("slots", [64, 4])
def test_gating(slots):
    """Normal size and few slots."""
    simulate("hca_requester", __name__, parameters={"Slots": slots, "Burst": 4, "Large": 4})
