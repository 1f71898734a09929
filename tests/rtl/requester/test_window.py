"""How many packets and messages of a QP the requester has outstanding."""

import cocotb
from common import simulate
from hca_abi import WrOpcode
from sq_bench import ATOMIC_WRITE, ATOMICS, Qp, SqBench, Wqe
from test_requester import drain, random_wqe, write64


@cocotb.test()
async def window(dut):
    """Without acknowledges a QP stops after 2048 packets, or after 256 WQEs, and goes on from there. Without room for
    further blocks of outstanding messages it stops at the end of its block, and one with nothing outstanding goes."""
    bench = await SqBench(dut, 2).begin()
    bench.auto_ack = False
    long = bench.create(Qp(1, mtu_code=1, psn=0xFFFC00))
    many = bench.create(Qp(2, log_size=9))
    bench.post(long, Wqe(WrOpcode.RDMA_WRITE, [(0, 3000 * 256, 5)]))
    bench.post(many, *[write64(n) for n in range(300)])
    await bench.step(15000)
    assert (long.sent, many.sent) == (2048, 256)
    bench.send_ack(long, long.sq_psn + 10)
    bench.send_ack(many, 7)
    await bench.step(1000)
    assert (long.sent, many.sent) == (2058, 256), "places are given back eight at a time"
    bench.send_ack(many, 11)
    await bench.step(1000)
    assert many.sent == 264
    bench.set("msg_room_i", 0)
    bench.send_ack(many, 250)
    await bench.step(1000)
    assert many.sent == 264, "no further block"
    few = bench.create(Qp(3, log_size=4))
    bench.post(few, *[write64(n) for n in range(12)])
    await bench.step(1000)
    assert few.sent == 8, "its first block"
    bench.send_ack(few, 7)
    await bench.step(1000)
    assert few.sent == 8, "one is outstanding"
    bench.send_ack(few, 8)
    bench.send_ack(many, 264)
    await bench.step(1000)
    assert (few.sent, many.sent) == (12, 272)
    bench.set("msg_room_i", 1)
    bench.auto_ack = True
    bench.send_ack(long, long.sq_psn + 2058)
    bench.send_ack(few, 12)
    bench.send_ack(many, 272)
    await drain(bench)
    assert (long.sent, few.sent, many.sent) == (3000, 12, 300)


@cocotb.test()
async def atomics_count_as_reads(dut):
    """OP-13, OP-23: READs and atomics together are at most max_rd_atomic, and a fenced WQE waits for both."""
    bench = await SqBench(dut, 13).begin()
    bench.auto_ack = False
    qp = bench.create(Qp(5, mtu_code=1, max_rd_atomic=2, psn=0xFFFFFE))
    atomics = [random_wqe(bench.rng, qp, opcode=opcode) for opcode in (*ATOMIC_WRITE, *ATOMICS)][:4]
    for wqe, fence in zip(atomics, (False, False, False, True), strict=True):
        wqe.fence = fence
    bench.post(qp, Wqe(WrOpcode.RDMA_READ, [(0, 1000, 1)]), *atomics)
    await bench.step(1000)
    assert qp.sent == 2, "a READ and an atomic"
    bench.send_ack(qp, qp.una + 5)
    await bench.step(500)
    assert qp.sent == 4, "two atomics, and a fenced one behind them"
    bench.send_ack(qp, qp.una + 1)
    await bench.step(500)
    assert qp.sent == 4
    bench.send_ack(qp, qp.una + 1)
    await bench.step(500)
    assert qp.sent == 5


def test_window():
    """Runs the test of this file."""
    simulate("hca_requester", __name__, parameters={"Slots": 4, "Burst": 4, "Large": 4})
