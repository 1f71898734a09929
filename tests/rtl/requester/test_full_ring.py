"""hca_requester: rings of as many WQEs as there may be, all of them posted at once, at every place of the indices."""

import sys
from dataclasses import replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import cocotb
from common import simulate
from hca_abi import MAX_LOG_WQ_SIZE, MAX_LOG_WQE_STRIDE, QpState, WcStatus, WrOpcode
from sq_bench import WQE_MASK, Qp, SqBench, Wqe

ENTRIES = 1 << MAX_LOG_WQ_SIZE


def write8(n):
    """A WRITE of 8 bytes, to and from places of its own."""
    return Wqe(WrOpcode.RDMA_WRITE, [(8 * n, 8, 0x1200)], remote_addr=0x8000 + 8 * n, rkey=7)


@cocotb.test()
async def every_entry_is_posted_at_once(dut):
    """One doorbell for 65,536 WQEs, from the middle of the ring, from its end, and from where the indices run over:
    sent in order, far behind the end of the ring (all of it: tests/system/tests/largest.rs)."""
    bench = await SqBench(dut, 3).begin()
    starts = (ENTRIES // 2, ENTRIES - 40, WQE_MASK + 1 - 40)
    qps = [bench.create(Qp(9 + n, log_size=MAX_LOG_WQ_SIZE, start=at, psn=0xFFFF00)) for n, at in enumerate(starts)]
    wqe = write8(1)
    for qp in qps:
        bench.post(qp, *[replace(wqe) for _ in range(ENTRIES)])
    await bench.until(lambda: all(qp.sent > 600 for qp in qps), 20000, "600 of each")
    assert not bench.errors


@cocotb.test()
async def the_last_entries(dut):
    """Both ends of the largest ring of the largest WQEs, 2^25 bytes: reads stay inside, as the bench checks."""
    bench = await SqBench(dut, 4).begin()
    qp = bench.create(Qp(3, log_size=MAX_LOG_WQ_SIZE, log_stride=MAX_LOG_WQE_STRIDE, start=ENTRIES - 3))
    for n in range(8):
        wide = Wqe(WrOpcode.RDMA_WRITE, [(0x1000 * k, 3, 0x1200) for k in range(16)], remote_addr=n, rkey=7)
        inline = Wqe(WrOpcode.RDMA_WRITE, inline=480 - n, remote_addr=0x100, rkey=8)
        bench.post(qp, wide, inline, write8(n))
    await bench.until(bench.complete, 4000, "all sent")
    assert qp.tail == ENTRIES + 21 and not bench.errors


@cocotb.test()
async def beyond_the_ring(dut):
    """Producer indices that cannot be true, a WQE more than a ring holds and one before the oldest: reported once."""
    bench = await SqBench(dut, 5).begin()
    for n, (log_size, start) in enumerate((s, at) for s in (0, 14, 15, 16) for at in (0, ENTRIES - 1, WQE_MASK)):
        for far in (0, 1):
            qp = bench.create(Qp(2 * n + far, log_size=log_size, start=start, psn=n))
            bench.doorbell(qp, start + (1 << log_size) + 1 if far else start - 1)
            await bench.step(300)
            assert bench.errors == [(qp.qpn, start, WcStatus.LOC_QP_OP_ERR)], f"ring of 2^{log_size} at {start:#x}"
            bench.errors.clear()
    assert bench.host.requests == 0


@cocotb.test()
async def a_wqe_of_the_pass_before(dut):
    """The ring of 65,536 entries still has what was there a pass ago: the index says so, by its upper bit alone."""
    bench = await SqBench(dut, 6).begin()
    qp = bench.create(Qp(8, log_size=MAX_LOG_WQ_SIZE, start=ENTRIES))
    old = write8(1)
    old.raw, old.error = dict(wqe_index=0), WcStatus.LOC_QP_OP_ERR
    bench.post(qp, old)
    await bench.until(lambda: bench.errors, 1000, "error")
    assert bench.errors == [(8, ENTRIES, WcStatus.LOC_QP_OP_ERR)]


@cocotb.test()
async def full_and_not_yet_sent(dut):
    """A full ring of a QP in SQD is posted, not empty: what it has is sent when the QP goes on."""
    bench = await SqBench(dut, 7).begin()
    qp = bench.create(Qp(1, log_size=MAX_LOG_WQ_SIZE, start=ENTRIES + 5))
    bench.modify(qp, state=QpState.SQD)
    bench.post(qp, *[write8(1) for _ in range(ENTRIES)])
    await bench.step(400)
    assert qp.sent == 0 and not bench.errors
    bench.modify(qp, state=QpState.RTS)
    await bench.until(lambda: qp.sent > 500, 20000, "the first WQEs")
    assert not bench.errors


def test_full_ring():
    """Runs the tests of this file."""
    simulate("hca_requester", "test_full_ring", parameters={"Burst": 4, "Large": 4})
