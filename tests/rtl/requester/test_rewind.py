"""What a rewind reads again."""

import cocotb
from common import simulate
from hca_abi import WrOpcode
from sq_bench import Qp, SqBench, Wqe


@cocotb.test()
async def rewind_inside_a_wqe_reads_nothing(dut):
    """A WQE that is being sent is in its slot: a rewind inside it needs no read. One that is over has to be read."""
    bench = await SqBench(dut, 15, latency=(60, 60)).begin()
    bench.auto_ack = False
    qp = bench.create(Qp(9, mtu_code=1, psn=100))
    bench.post(qp, Wqe(WrOpcode.SEND, [(0, 40 * 256, 1)]))
    await bench.until(lambda: qp.sent == 10, 300, "ten packets")
    bench.txp.rate = 0
    bench.send_ack(qp, 103, rewind=True)
    await bench.step(40)
    reads, sent, bench.txp.rate = len(bench.fetch.got), qp.sent, 1.0
    await bench.step(300)
    assert len(bench.fetch.got) == reads, "its WQE is there"
    assert qp.sent >= sent + 37, "all from PSN 103 on"
    bench.send_ack(qp, 139, rewind=True)
    await bench.step(300)
    assert len(bench.fetch.got) == reads + 1
    bench.send_ack(qp)
    await bench.step(50)
    assert not bench.errors


def test_rewind():
    simulate("hca_requester", __name__)
