"""End-to-end credits (decision 0068) in the requester: what waits for them, and what may go without."""

import cocotb
from common import simulate, struct
from hca_abi import WrOpcode
from sq_bench import PSN_MASK, WQE_MASK, Qp, SqBench, Wqe
from test_requester import drain, write64

SEND, IMM, WRITE, READ = WrOpcode.SEND, WrOpcode.RDMA_WRITE_WITH_IMM, WrOpcode.RDMA_WRITE, WrOpcode.RDMA_READ


def wqe(opcode, length=64):
    """A WQE with one entry."""
    return Wqe(opcode, [(0x1000, length, 5)])


def tell(bench, qp, psn, **credit):
    """An update with credits."""
    bench.send_ack(qp, psn, credit=struct("credit_t").pack(**{"on": 1, **credit}))


async def settled(bench, qp):
    """Packets that it has sent when nothing more comes."""
    await bench.step(400)
    return qp.sent


@cocotb.test()
async def the_limit_is_kept(dut):
    """SENDs and WRITEs with immediate stop at the limit, WRITEs and READs do not; the first of a QP goes alone."""
    bench = await SqBench(dut, 3).begin()
    bench.auto_ack = False
    qp = bench.create(Qp(1, psn=0xFFFFF0, credits=1))
    bench.post(qp, wqe(SEND), wqe(SEND), wqe(WRITE), wqe(READ), wqe(IMM), wqe(SEND), wqe(SEND))
    assert await settled(bench, qp) == 1, "nobody knows of a receive"
    tell(bench, qp, qp.una + 1, limit=1)
    assert await settled(bench, qp) == 1, "there is none"
    tell(bench, qp, qp.una, limit=4)
    assert await settled(bench, qp) == 4, "one, and what takes none; the fifth would be one more"
    tell(bench, qp, qp.una, limit=5)
    assert await settled(bench, qp) == 5
    tell(bench, qp, qp.una + 4, limit=5)
    assert await settled(bench, qp) == 5
    tell(bench, qp, qp.una, limit=WQE_MASK)
    assert await settled(bench, qp) == 5, "before the position, by the nearer way around"
    tell(bench, qp, qp.una, on=0, limit=5)
    assert await settled(bench, qp) == 7, "no limit"


@cocotb.test()
async def one_packet_probes(dut):
    """With leave one packet of a message goes beyond the limit when nothing is outstanding, and asks for an answer;
    what is left of the message follows behind that, and the next one does not."""
    bench = await SqBench(dut, 4).begin()
    bench.auto_ack = False
    for opcode in (SEND, IMM):
        qp = bench.create(Qp(opcode, mtu_code=1, psn=0xFFFFFE, credits=1))
        bench.post(qp, wqe(WRITE), wqe(opcode, 1000), wqe(opcode, 300))
        assert await settled(bench, qp) == 1, "the WRITE is outstanding"
        tell(bench, qp, qp.una + 1, limit=1, probe=1)
        qp.probes.add((1, 0))
        assert await settled(bench, qp) == 2, "one packet"
        tell(bench, qp, qp.una + 1, limit=1)
        assert await settled(bench, qp) == 5, "its message has a receive"
        tell(bench, qp, qp.una + 1, limit=1)
        assert await settled(bench, qp) == 5
        bench.send_ack(qp, qp.una, rewind=True, credit=struct("credit_t").pack(on=1, limit=1))
        assert await settled(bench, qp) == 7, "again from where it was acknowledged"
        tell(bench, qp, qp.una + 2, limit=1)
        assert await settled(bench, qp) == 7
        tell(bench, qp, qp.una, limit=2, probe=1)
        qp.probes.add((2, 0))
        assert await settled(bench, qp) == 8, "the first of two packets"
        tell(bench, qp, qp.una, limit=3)
        assert await settled(bench, qp) == 9
        tell(bench, qp, qp.una + 2, limit=3)
    await drain(bench)


@cocotb.test()
async def others_are_not_limited(dut):
    """Without the context's bit nothing waits; the index wraps; other QPs go on beside one that waits, which loses its
    slot."""
    bench = await SqBench(dut, 5).begin()
    dry = [bench.create(Qp(qpn, credits=1)) for qpn in range(1, 9)]
    for qp in dry:
        bench.post(qp, wqe(SEND), wqe(SEND))
    bench.auto_ack = False
    await bench.step(600)
    assert {qp.sent for qp in dry} <= {1, 2}
    bench.auto_ack = True
    free = bench.create(Qp(20))
    far = bench.create(Qp(21, start=WQE_MASK - 3, credits=1, log_size=4))
    tell(bench, far, far.una, limit=5)
    bench.post(free, *[wqe(SEND) for _ in range(10)], write64(0))
    bench.post(far, *[wqe(SEND) for _ in range(10)])
    bench.auto_ack = False
    await bench.step(1000)
    assert free.sent == 11 and far.sent == 9, (free.sent, far.sent)
    tell(bench, far, far.una + 9, limit=9)
    tell(bench, free, free.una + 11, on=0)
    for qp in dry:
        tell(bench, qp, qp.una + qp.sent, limit=9)
    await bench.step(1000)
    assert far.sent == 10 and {qp.sent for qp in dry} == {2}
    tell(bench, far, far.una + 1, limit=99)
    for qp in dry:
        tell(bench, qp, qp.tail_psn, limit=9)
    await drain(bench)
    assert all(qp.una == qp.tail_psn & PSN_MASK for qp in (*dry, far, free))


def test_sq_credits():
    """Runs the tests of this file."""
    simulate("hca_requester", __name__, parameters={"Slots": 4, "Burst": 4, "Large": 4})
