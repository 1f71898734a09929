"""hca_requester: WQEs that ride with their doorbell, against the oracle of sq_bench."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
sys.path.insert(0, str(Path(__file__).resolve().parent))

import cocotb
from common import simulate
from hca_abi import PUSH_SLOT_BYTES, PUSH_SLOTS, WcStatus
from sq_bench import Qp, SqBench
from test_requester import drain, random_wqe, write64


async def until_idle(bench, qp):
    """Everything the QP has posted is acknowledged: its push slot is free."""
    await bench.until(lambda: qp.una == qp.tail_psn and bench.complete(), 20000, "an empty send queue")


def fitting_wqe(bench, qp, length=None):
    """A good WQE that fits a push slot."""
    while True:
        wqe = random_wqe(bench.rng, qp, length=length)
        if 32 + 16 * len(wqe.sges) <= PUSH_SLOT_BYTES:
            return wqe


@cocotb.test()
async def the_host_is_not_asked(dut):
    """Decision 0024: a pushed WQE is sent without a read, and so much sooner; each function, each stride, slots from
    the first to the last, ring positions around the end of the ring."""
    bench = await SqBench(dut, 1, latency=(125, 125)).begin()
    for slot in range(0, PUSH_SLOTS, 7):
        func, log_stride = slot % 4, slot // 4 % 4
        qp = bench.create(Qp(100 + slot, func=func, log_size=2, log_stride=log_stride, psn=0xFFFFFE))
        qp.push_slot = slot
        for _ in range(6):
            start = bench.cycle
            bench.post(qp, fitting_wqe(bench, qp, length=64), push=True)
            words = min(qp.stride, PUSH_SLOT_BYTES) // 8
            await bench.until(bench.done, 200, "packet")
            assert bench.cycle - start < words + 50, f"{bench.cycle - start} cycles"
            await until_idle(bench, qp)
    assert bench.host.requests == 0 and not bench.errors


@cocotb.test()
async def what_does_not_fit_is_read(dut):
    """Several WQEs with one doorbell, a doorbell that comes behind at once: read from the ring."""
    bench = await SqBench(dut, 2).begin()
    several = bench.create(Qp(2))
    bench.post(several, write64(), write64(1), write64(2), push=True)
    await until_idle(bench, several)
    assert bench.host.requests == 1 and bench.host.blocks == 3
    bench.post(several, write64(3), push=True)
    await bench.until(lambda: not bench.push.queue, what="the words")
    bench.post(several, write64(4))
    await until_idle(bench, several)
    assert not bench.errors


@cocotb.test()
async def indices_wrap(dut):
    """Producer indices from 131071 to 0."""
    bench = await SqBench(dut, 5).begin()
    qp = bench.create(Qp(7, log_size=2, start=131071))
    for _ in range(4):
        bench.post(qp, write64(), push=True)
        await until_idle(bench, qp)
    assert qp.tail == 131075 and not bench.errors


@cocotb.test()
async def stale_and_strange_slots(dut):
    """A slot that has something else than the doorbell says is a bad WQE of that QP; a slot is the function's own."""
    bench = await SqBench(dut, 3).begin()
    victim, other = bench.create(Qp(4, func=0)), bench.create(Qp(5, func=1))
    bench.push.write(other.func, victim.push_slot, b"\xff" * PUSH_SLOT_BYTES)
    bench.post(victim, write64(), push=True)
    await until_idle(bench, victim)
    assert not bench.errors and bench.host.requests == 0
    wqe = write64()
    wqe.error = WcStatus.LOC_QP_OP_ERR
    bench.post(other, wqe, ring=False)
    bench.doorbell(other, other.tail, victim.push_slot)
    await bench.until(lambda: bench.errors, 1000, "error")
    assert bench.errors == [(5, 0, WcStatus.LOC_QP_OP_ERR)]


@cocotb.test()
@cocotb.parametrize(rate=[1.0, 0.5], lossy=[0.0, 0.1])
async def mixed(dut, rate, lossy):
    """Pushed and other WQEs of many QPs, with stalls, packets that are lost and sent again, and rings that wrap; pushed
    ones also behind others that are under way (no driver of ours does that)."""
    bench = await SqBench(dut, 4, rate=rate, latency=(20, 150)).begin()
    bench.lossy = lossy
    rng = bench.rng
    qps = [bench.create(Qp(qpn, log_size=rng.randint(1, 5), log_stride=qpn % 4, mtu_code=rng.randint(1, 5),
                              psn=0xFFFFF0)) for qpn in range(90, 114)]
    pushed, last = 0, dict.fromkeys(range(90, 114), -1)
    for turn in range(600):
        qp = rng.choice(qps[:rng.choice((2, 24))])
        room = (1 << qp.log_size) - (qp.tail - qp.una_wqe())
        await bench.until(lambda: not bench.push.queue, what="the words")
        if room > 0 and last[qp.qpn] < qp.una_wqe() and rng.random() < 0.6:
            last[qp.qpn] = qp.tail
            bench.post(qp, fitting_wqe(bench, qp), push=True)
            pushed += 1
        elif room > 0:
            bench.post(qp, *[random_wqe(rng, qp) for _ in range(rng.randint(1, room))])
        await bench.step(rng.choice((1, 5, 20, 200)))
        if lossy and turn % 10 == 9:
            await drain(bench)
    await drain(bench)
    assert pushed > 100 and not bench.errors


def test_push():
    """Runs the tests of this file."""
    simulate("hca_requester", "test_push")
