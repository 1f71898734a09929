"""hca_requester: messages of 2^31 bytes, the longest there are: their first and their last packets, by rewinds of a
peer that has everything between."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import cocotb
from common import simulate
from hca_abi import WrOpcode
from sq_bench import PSN_MASK, Qp, SqBench, Wqe

HUGE = 1 << 31


@cocotb.test()
@cocotb.parametrize(mtu_code=[1, 5])
async def last_bytes_of_a_write(dut, mtu_code):
    """OP-3, WIRE-13, XPORT-1: opcodes, PSNs and places in memory at both ends of a WRITE, and of what is behind it."""
    bench = await SqBench(dut, 11).begin()
    bench.auto_ack = False
    qp = bench.create(Qp(9, mtu_code=mtu_code, log_stride=1, psn=0xFFFFF0))
    sges = [(0x10_0000_0000, HUGE // 2, 1), (0x20_0000_0000, HUGE // 2 - 7, 3), (0x30_0000_0000, 7, 4)]
    bench.post(qp, Wqe(WrOpcode.RDMA_WRITE, sges, remote_addr=0x100, rkey=1),
               Wqe(WrOpcode.RDMA_WRITE, [(0x1000, 100, 5)], remote_addr=0x7000, rkey=2))
    await bench.step(600)
    assert 20 < qp.sent
    bench.send_ack(qp, halt=True)
    await bench.step(300)
    for left, sent in ((3, 4), (1, 2), (0, 1)):
        before = qp.sent
        bench.send_ack(qp, 0xFFFFF0 + HUGE // qp.mtu - left & PSN_MASK, rewind=True)
        await bench.step(400)
        assert qp.sent - before == sent, f"{left} packets of it left: {qp.sent - before} packets"
    bench.send_ack(qp, qp.tail_psn)
    await bench.step(300)
    assert not bench.errors


def test_huge():
    """Runs the tests of this file."""
    simulate("hca_requester", "test_huge")
