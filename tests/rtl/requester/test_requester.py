"""hca_requester against the oracle of sq_bench: packets, limits, retransmission, bad WQEs, fairness, rate."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
sys.path.insert(0, str(Path(__file__).resolve().parent))

import cocotb
import pytest
from common import simulate, struct
from hca_abi import QpState, Service, WcStatus, WrOpcode
from sq_bench import ANSWERED, ATOMIC_WRITE, ATOMICS, FLUSH, Qp, SqBench, Wqe

UC_OPS = [WrOpcode.SEND, WrOpcode.SEND_WITH_IMM, WrOpcode.RDMA_WRITE, WrOpcode.RDMA_WRITE_WITH_IMM]
OPS = [*UC_OPS, *ANSWERED]


def random_sges(rng, length, count):
    """`count` entries of `length` bytes in all; some may be empty."""
    cuts = sorted(rng.choice([0, length, rng.randint(0, length)]) for _ in range(count - 1))
    sizes = [b - a for a, b in zip([0, *cuts], [*cuts, length], strict=True)]
    return [(rng.getrandbits(48), size, rng.getrandbits(32)) for size in sizes]


def random_wqe(rng, qp, length=None, opcode=None, max_packets=6):
    """A good WQE that fits the QP's stride."""
    opcode = rng.choice(UC_OPS if qp.unacked else OPS) if opcode is None else opcode
    if opcode == WrOpcode.MASKED_ATOMIC_CMP_AND_SWP and qp.stride == 64:
        opcode = WrOpcode.MASKED_ATOMIC_FETCH_AND_ADD     # its masks have no place there
    if length is None:
        mtu = qp.mtu
        length = rng.choice([0, 1, mtu - 1, mtu, mtu + 1, 5 * mtu + 3, rng.randint(0, max_packets * mtu)])
    room = (qp.stride - 32) // 16
    wqe = Wqe(opcode, signaled=rng.random() < 0.5, solicited=rng.random() < 0.3, fence=rng.random() < 0.1,
              imm=rng.getrandbits(32), remote_addr=rng.getrandbits(48), rkey=rng.getrandbits(32))
    wqe.remote_srqn, wqe.operands = wqe.rkey >> 8, (rng.getrandbits(64), rng.getrandbits(64))
    if opcode in ATOMICS:
        wqe.sges = [(rng.getrandbits(48), 8, rng.getrandbits(32))]
    elif opcode in ATOMIC_WRITE:
        wqe.inline = 8
    elif opcode in FLUSH:
        pass
    elif opcode != WrOpcode.RDMA_READ and rng.random() < 0.25:
        wqe.inline = rng.randint(0, qp.stride - 32)
    else:
        low = 0 if length == 0 else 1
        count = rng.randint(low, min(16, room))
        wqe.sges = random_sges(rng, length, count) if count else []
    return wqe


def write64(n=0):
    """A 64-byte RDMA WRITE."""
    return Wqe(WrOpcode.RDMA_WRITE, [(0x10000 + 64 * n, 64, 0x1200)], remote_addr=0x8000, rkey=7)


async def post_all(bench, qp, wqes):
    """Posts as room in the ring allows; rings now and then."""
    for wqe in wqes:
        await bench.until(lambda: qp.tail - qp.una_wqe() < 1 << qp.log_size, 200000, "room in the ring")
        bench.post(qp, wqe, ring=bench.rng.random() < 0.6)
        if bench.rng.random() < 0.2:
            await bench.step(bench.rng.randint(1, 30))
    bench.doorbell(qp, qp.tail)


async def drain(bench, limit=200000, timeout=3000):
    """Runs until everything is acknowledged; the peer's silence makes rx_ctrl's timer go back."""
    quiet, sent = 0, -1
    for _ in range(limit):
        if bench.complete():
            return
        await bench.step()
        quiet, sent = (0, bench.sent) if bench.sent != sent else (quiet + 1, sent)
        if quiet >= timeout and bench.lossy:
            quiet = 0
            for qp in bench.qps.values():
                if qp.una != qp.tail_psn:
                    bench.send_ack(qp, rewind=True)
    stuck = [(qp.qpn, qp.pos, qp.una, qp.tail, qp.tail_psn) for qp in bench.qps.values()
             if qp.una != qp.tail_psn]
    raise AssertionError(f"not complete: {stuck[:5]}, errors {bench.errors[:5]}")


@cocotb.test()
@cocotb.parametrize(rate=[1.0, 0.5], latency=[(1, 5), (100, 200)])
async def segmentation(dut, rate, latency):
    """All operations, lengths, entry lists, MTUs and strides, on many QPs of RC and UC, with stalls on every stream."""
    bench = await SqBench(dut, 1, rate, latency).begin()
    tasks = []
    for n in range(30):
        qp = bench.create(Qp(n * 7, mtu_code=1 + n % 5, log_size=3 + n % 3, log_stride=n % 4, psn=n * 1000,
                             base=(n + 1 << 32) + 64 * (n % 8), max_rd_atomic=1 + n % 4,
                             service=(Service.RC, Service.XRC, Service.UC)[n % 3]))
        tasks.append((qp, [random_wqe(bench.rng, qp) for _ in range(12)]))
    for n in range(12):
        for qp, wqes in tasks:
            await post_all(bench, qp, [wqes[n]])
    await drain(bench)
    assert not bench.errors


@cocotb.test()
async def read_limit_and_fence(dut):
    """max_rd_atomic READs and atomics under way at most (OP-23); a fenced WQE waits for all of them, others do not."""
    bench = await SqBench(dut, 3).begin()
    bench.auto_ack = False
    qp = bench.create(Qp(5, mtu_code=1, max_rd_atomic=2, psn=100))
    reads = [Wqe(WrOpcode.RDMA_READ, [(0, 1000, 1)], remote_addr=0x5000, rkey=3) for _ in range(3)]
    bench.post(qp, *reads)
    await bench.step(1000)
    assert qp.sent == 2, "limit"
    bench.send_ack(qp, 104)          # first READ (4 packets)
    await bench.step(500)
    assert qp.sent == 3
    fenced = write64()
    fenced.fence = True
    bench.post(qp, write64(), fenced, write64())
    await bench.step(1000)
    assert qp.sent == 4, "the plain WRITE passes, the fenced one waits"
    bench.send_ack(qp, 110)          # into the third READ
    await bench.step(500)
    assert qp.sent == 4
    bench.send_ack(qp, 112)
    await bench.step(500)
    assert qp.sent == 6
    huge = Wqe(WrOpcode.RDMA_READ, [(0, 1 << 31, 1)])   # 2^23 PSNs: only with nothing else in flight
    bench.post(qp, huge)
    await bench.step(500)
    assert qp.sent == 6
    bench.send_ack(qp, qp.psn_at(qp.pos))
    await bench.step(500)
    assert qp.sent == 7
    bench.post(qp, write64())
    await bench.step(300)
    assert qp.sent == 7
    bench.send_ack(qp, qp.tail_psn - 1)
    await bench.step(300)
    assert qp.sent == 8


@cocotb.test()
async def rewind(dut):
    """Back into the middle of a WRITE and of a READ; first packet after it asks for an acknowledge."""
    bench = await SqBench(dut, 4).begin()
    bench.auto_ack = False
    qp = bench.create(Qp(9, mtu_code=2, log_stride=2, psn=0xFFFFFE))
    sges = [(0x1000, 700, 1), (0x2000, 0, 2), (0x3000, 1500, 3), (0x9000, 20, 4), (0xA000, 500, 5)]
    bench.post(qp, Wqe(WrOpcode.RDMA_WRITE, sges, remote_addr=0x100, rkey=1),
               Wqe(WrOpcode.RDMA_READ, [(0, 5000, 9)], remote_addr=0x7000, rkey=2), write64())
    await bench.step(600)
    assert qp.sent == 6 + 1 + 1
    for psn, more in [(0xFFFFFE + 3, 5), (0xFFFFFE + 6 + 4, 2), (0xFFFFFE + 16, 1), (0xFFFFFE + 16, 1)]:
        before = qp.sent
        bench.send_ack(qp, psn, rewind=True)
        await bench.step(600)
        assert qp.sent - before == more, f"after rewind to {psn:#x}: {qp.sent - before} packets"
    assert not bench.errors


@cocotb.test()
async def rewind_asks_for_ack(dut):
    """AckReq on the first retransmitted packet and on every 16th of a message."""
    bench = await SqBench(dut, 14).begin()
    bench.auto_ack = False
    seen = []
    plain = bench.txp.on_word

    def look(word):
        seen.append(struct("txp_t").unpack(word)["ack_req"])
        plain(word)

    bench.txp.on_word = look
    qp = bench.create(Qp(9, mtu_code=1))
    bench.post(qp, Wqe(WrOpcode.SEND, [(0, 40 * 256, 1)]))
    await bench.step(600)
    assert [n for n, ack in enumerate(seen) if ack] == [15, 31, 39]
    seen.clear()
    bench.send_ack(qp, 5, rewind=True)
    await bench.step(600)
    assert [n + 5 for n, ack in enumerate(seen) if ack] == [5, 15, 31, 39]


@cocotb.test()
async def jump_ahead(dut):
    """A late acknowledge after a rewind: packets it covers are not sent again."""
    bench = await SqBench(dut, 5, latency=(60, 60)).begin()
    bench.auto_ack = False
    qp = bench.create(Qp(3, mtu_code=1, psn=50, max_rd_atomic=1))
    bench.post(qp, Wqe(WrOpcode.RDMA_READ, [(0, 600, 9)]), *[write64(n) for n in range(4)],
               Wqe(WrOpcode.SEND, [(0, 2560, 1)]))
    await bench.step(800)
    assert qp.sent == 1 + 4 + 10
    bench.send_ack(qp, rewind=True)      # everything again, after one fetch latency
    bench.send_ack(qp, 50 + 3 + 4 + 6)   # but then all up to the middle of the SEND is acknowledged
    await bench.step(800)
    assert qp.sent == 15 + 4, qp.sent
    bench.post(qp, Wqe(WrOpcode.RDMA_READ, [(0, 600, 9)]))
    bench.send_ack(qp, qp.psn_at(qp.pos))
    await bench.step(500)
    assert qp.sent == 20, "the READ count went along"


@cocotb.test()
async def news_while_wqes_arrive(dut):
    """An acknowledge in any cycle around the arrival of a WQE: never a stale block, never a lost wake-up."""
    bench = await SqBench(dut, 15, latency=(20, 20)).begin()
    bench.auto_ack = False
    qp = bench.create(Qp(3, log_size=4))
    await bench.until(bench.qpc.idle)
    for delay in range(60):
        bench.post(qp, write64(delay))
        await bench.step(delay)
        bench.send_ack(qp)
        await bench.step(80)
        assert qp.sent == delay + 1 and not bench.errors, f"delay {delay}: {qp.sent} sent, {bench.errors}"
        bench.send_ack(qp, delay + 1)


@cocotb.test()
@cocotb.parametrize(rate=[1.0, 0.6])
async def lossy_traffic(dut, rate):
    """Random rewinds, partial and late acknowledges over many QPs, with PSN and index wrap-around."""
    bench = await SqBench(dut, 6, rate, (20, 200)).begin()
    bench.lossy = 0.15
    tasks = []
    for n in range(24):
        qp = Qp(n * 3, mtu_code=1 + n % 3, log_size=4, log_stride=n % 4, psn=0xFFFFF0 - n,
                start=131066 if n % 2 else 65530, max_rd_atomic=1 + n % 3)
        bench.create(qp)
        tasks.append((qp, [random_wqe(bench.rng, qp, max_packets=40) for _ in range(30)]))
    for n in range(30):
        for qp, wqes in tasks:
            await bench.until(lambda q=qp: q.tail - q.una_wqe() < 16 or bench.cycle % 4000 == 0, 5000)
            if qp.tail - qp.una_wqe() < 16:
                bench.post(qp, wqes[n])
    await drain(bench)
    assert not bench.errors


@cocotb.test()
async def bad_wqes(dut):
    """Each kind of garbage is reported once with its status; the QP stops there until a rewind."""
    bench = await SqBench(dut, 7).begin()
    bad = [
        (dict(raw=dict(wqe_index=77)), WcStatus.LOC_QP_OP_ERR),
        (dict(opcode=WrOpcode.TSO), WcStatus.LOC_QP_OP_ERR),
        (dict(opcode=WrOpcode.ATOMIC_CMP_AND_SWP), WcStatus.LOC_LEN_ERR),
        (dict(opcode=WrOpcode.FLUSH, sges=[(0, 8, 1)]), WcStatus.LOC_QP_OP_ERR),
        *((dict(opcode=WrOpcode.FLUSH, sges=[], raw=raw), WcStatus.LOC_QP_OP_ERR)
          for raw in (dict(length=8), dict(inline_data=1))),
        (dict(opcode=WrOpcode.ATOMIC_FETCH_AND_ADD, sges=[(0, 8, 1)], raw=dict(num_sge=2)), WcStatus.LOC_QP_OP_ERR),
        (dict(opcode=WrOpcode.ATOMIC_CMP_AND_SWP, sges=[(0, 8, 1)], raw=dict(num_sge=0)), WcStatus.LOC_QP_OP_ERR),
        (dict(opcode=WrOpcode.ATOMIC_FETCH_AND_ADD, sges=[(0, 8, 1)], raw=dict(inline_data=1)), WcStatus.LOC_QP_OP_ERR),
        *((dict(opcode=op, sges=[(0, 7, 1)], raw=raw), WcStatus.LOC_LEN_ERR) for raw in ({}, dict(length=8))
          for op in (WrOpcode.ATOMIC_FETCH_AND_ADD, WrOpcode.MASKED_ATOMIC_FETCH_AND_ADD)),
        (dict(opcode=WrOpcode.ATOMIC_CMP_AND_SWP, sges=[(0, 8, 1)], raw=dict(length=9)), WcStatus.LOC_LEN_ERR),
        (dict(opcode=WrOpcode.MASKED_ATOMIC_CMP_AND_SWP, sges=[(0, 8, 1)]), WcStatus.LOC_QP_OP_ERR),   # 64 bytes
        (dict(raw=dict(opcode=0xFF)), WcStatus.LOC_QP_OP_ERR),
        (dict(raw=dict(num_sge=3)), WcStatus.LOC_QP_OP_ERR),
        (dict(raw=dict(num_sge=255)), WcStatus.LOC_QP_OP_ERR),
        (dict(raw=dict(num_sge=0x42)), WcStatus.LOC_QP_OP_ERR),
        (dict(raw=dict(inline_data=1)), WcStatus.LOC_QP_OP_ERR),
        (dict(opcode=WrOpcode.RDMA_READ, raw=dict(inline_data=1, length=8)), WcStatus.LOC_QP_OP_ERR),
        (dict(raw=dict(length=63)), WcStatus.LOC_LEN_ERR),
        (dict(raw=dict(length=65)), WcStatus.LOC_LEN_ERR),
        (dict(raw=dict(length=0)), WcStatus.LOC_LEN_ERR),
        (dict(raw=dict(num_sge=0)), WcStatus.LOC_LEN_ERR),
        (dict(sges=[(0, 0xC0000000, 1)]), WcStatus.LOC_LEN_ERR),
        (dict(sges=[(0, 0xFFFFFFFF, 1), (0, 2, 1)], raw=dict(length=1)), WcStatus.LOC_LEN_ERR),
        (dict(sges=[(0, 0, 1), (0, 0, 1)], raw=dict(length=5)), WcStatus.LOC_LEN_ERR),
    ]
    for n, (change, status) in enumerate(bad):
        qp = bench.create(Qp(n, psn=n))
        wqe = write64()
        for name, value in change.items():
            setattr(wqe, name, value)
        wqe.error = status
        bench.post(qp, write64(), wqe, write64())
    qp = bench.create(Qp(50, log_stride=2))
    wide = Wqe(WrOpcode.SEND, [(0, 100, 1)] * 12, raw=dict(length=1201), error=WcStatus.LOC_LEN_ERR)
    bench.post(qp, write64(), wide, write64())
    contexts = dict(max_rd_atomic=0), dict(service=Service.UC)
    answered = [(context, opcode) for context in contexts for opcode in ANSWERED]
    for n, (context, opcode) in enumerate([(dict(service=2), WrOpcode.RDMA_READ), *answered], 51):
        qp = bench.create(Qp(n, **context))
        first = write64() if n != 51 else Wqe(WrOpcode.SEND, error=WcStatus.LOC_QP_OP_ERR)
        bench.post(qp, first, Wqe(opcode, [(0, 8, 1)], error=WcStatus.LOC_QP_OP_ERR))
    await bench.step(4000)
    want = {n: (1, status) for n, (_, status) in enumerate(bad)}
    want.update({50: (1, WcStatus.LOC_LEN_ERR), 51: (0, WcStatus.LOC_QP_OP_ERR)})
    want.update({52 + n: (1, WcStatus.LOC_QP_OP_ERR) for n in range(len(answered))})
    got = {qpn: (index, status) for qpn, index, status in bench.errors}
    assert got == want and len(bench.errors) == len(want), f"{bench.errors}"
    for qp in bench.qps.values():
        assert qp.sent == want[qp.qpn][0]
        bench.doorbell(qp, qp.tail)     # more doorbells change nothing
    await bench.step(1000)
    assert len(bench.errors) == len(want)
    for qpn in range(len(bad)):         # the driver repairs the WQE, rx_ctrl goes back: all is well
        qp = bench.qps[qpn]
        qp.wqes[1].raw, qp.wqes[1].error, qp.wqes[1].opcode, qp.wqes[1].sges = {}, None, write64().opcode, \
            write64().sges
        qp.tail_psn = (qp.sq_psn + 3) & 0xFFFFFF
        for index in range(3):
            qp.wqes[index].first_psn = qp.sq_psn + index
        bench.send_ack(qp, rewind=True)
    await bench.step(4000)
    assert all(bench.qps[qpn].pos[0] == 3 for qpn in range(len(bad)))
    assert len(bench.errors) == len(want)


@cocotb.test()
async def producer_index_beyond_ring(dut):
    """A doorbell that names more than the ring holds, or goes backwards: reported once, nothing is read."""
    bench = await SqBench(dut, 8).begin()
    for qpn, (index, good) in enumerate([(9, 0), (0x10000, 0), (0x1FFFF, 0), (13, 4), (2, 3)]):
        qp = bench.create(Qp(qpn, log_size=3))
        if good:
            bench.post(qp, *[write64(n) for n in range(good)])
            await bench.step(600)
            assert qp.sent == good
        blocks = bench.host.blocks
        bench.auto_ack = False
        bench.doorbell(qp, index)
        await bench.step(300)
        bench.doorbell(qp, index)
        await bench.step(300)
        want = [(qpn, good, int(WcStatus.LOC_QP_OP_ERR))]
        assert bench.errors == want, f"QP {qpn}: {bench.errors}, expected {want}"
        assert qp.sent == good and bench.host.blocks == blocks
        bench.errors.clear()
        bench.auto_ack = True
    qp = bench.create(Qp(100, log_size=16, psn=3))
    bench.doorbell(qp, 0x10001)
    await bench.step(300)
    assert bench.errors == [(100, 0, int(WcStatus.LOC_QP_OP_ERR))]


@cocotb.test()
async def failed_fetch(dut):
    """A WQE that cannot be read is a bad WQE; those before it are sent."""
    bench = await SqBench(dut, 9).begin()
    for qpn, bad in enumerate([0, 1, 5, 9]):
        qp = bench.create(Qp(qpn, log_stride=qpn % 2))
        bench.host.fail.add((qpn, bad))
        bench.post(qp, *[write64(n) for n in range(12)])
        for index in range(bad, 12):
            qp.wqes[index].error = WcStatus.LOC_QP_OP_ERR
    await bench.step(3000)
    want = [(n, bad, int(WcStatus.LOC_QP_OP_ERR)) for n, bad in enumerate([0, 1, 5, 9])]
    assert sorted(bench.errors) == want
    assert [bench.qps[n].sent for n in range(4)] == [0, 1, 5, 9]
    bench.host.fail.clear()
    for qp in bench.qps.values():
        for wqe in qp.wqes.values():
            wqe.error = None
        bench.send_ack(qp, rewind=True)
    await drain(bench)


@cocotb.test()
async def states(dut):
    """Only RTS sends; SQD finishes what was begun; leaving RTS stops; halt stops; init starts anew."""
    bench = await SqBench(dut, 10, latency=(30, 30)).begin()
    bench.auto_ack = False
    qp = bench.create(Qp(6, mtu_code=1, psn=9, state=QpState.INIT))
    bench.post(qp, Wqe(WrOpcode.SEND, [(0, 2100 * 256, 1)]), write64(), write64())
    await bench.step(500)
    assert qp.sent == 0
    bench.modify(qp, state=QpState.RTS)
    await bench.step(300)
    assert 0 < qp.sent < 200
    bench.modify(qp, state=QpState.SQD)
    await bench.step(8000)
    assert qp.sent == 2048, "the message begun goes on to the window"
    bench.send_ack(qp, 9 + 2048)
    await bench.step(600)
    assert qp.sent == 2100, "and to its end; the next is held"
    bench.send_ack(qp, 9 + 2098, rewind=True)
    await bench.step(600)
    assert qp.sent == 2102, "retransmission too"
    bench.modify(qp, state=QpState.RTS)
    await bench.step(300)
    assert qp.sent == 2104
    bench.send_ack(qp, 9 + 2101, rewind=True, halt=True)
    await bench.step(300)
    assert qp.sent == 2104, "halted"
    bench.send_ack(qp, 9 + 2101)
    await bench.step(300)
    assert qp.sent == 2104, "an acknowledge does not end the halt"
    bench.send_ack(qp, rewind=True)
    await bench.step(300)
    assert qp.sent == 2105
    bench.modify(qp, state=QpState.ERR)
    bench.send_ack(qp, rewind=True)
    bench.post(qp, write64())
    await bench.step(300)
    assert qp.sent == 2105
    again = bench.create(Qp(6, mtu_code=1, psn=0x777, base=qp.base))
    await bench.step(100)
    assert again.sent == 0, "the old producer index is gone"
    bench.post(again, write64(), write64())
    await bench.step(300)
    assert again.sent == 2 and not bench.errors


@cocotb.test()
@cocotb.parametrize(blocked=[False, True])
async def more_qps_than_slots(dut, blocked):
    """200 QPs share the slots. With `blocked`, more QPs than slots wait for acknowledges for ever."""
    bench = await SqBench(dut, 11, latency=(50, 100)).begin()
    stuck = []
    if blocked:
        bench.auto_ack = False
        bench.set("msg_room_i", 0)
        for n in range(100):
            qp = bench.create(Qp(800 + n, log_size=7))
            bench.post(qp, *[write64() for _ in range(80)])
            stuck.append(qp)
        await bench.step(15000)
        assert [qp.sent for qp in stuck] == [8] * 100
    bench.auto_ack = True
    qps = [bench.create(Qp(n, mtu_code=1, log_size=6)) for n in range(200)]
    for qp in qps:
        bench.post(qp, *[random_wqe(bench.rng, qp, max_packets=3) for _ in range(4)])
    await bench.until(lambda: all(qp.una == qp.tail_psn for qp in qps), 60000, "all QPs served")


@cocotb.test()
async def fairness(dut):
    """QPs that never run dry do not starve others, though they are more than the slots."""
    bench = await SqBench(dut, 12, latency=(50, 100)).begin()
    slots = int(dut.Slots.value)
    busy = slots + slots // 4
    qps = [bench.create(Qp(n, mtu_code=1, log_size=8)) for n in range(busy)]
    for n, qp in enumerate(qps):
        if n % 3:
            bench.post(qp, *[write64(k) for k in range(250)])
        else:
            bench.post(qp, Wqe(WrOpcode.RDMA_WRITE, [(0, 250 * 256, 1)]))
    await bench.step(busy * 250 * 3)
    sent = [qp.sent for qp in qps]
    assert min(sent) >= 60, sent


async def measure(bench, qps, packets, refill):
    """Cycles per packet in the steady state."""
    for qp in qps:
        bench.post(qp, *[write64(n) for n in range(refill)])
    skip = packets // 4
    start = None
    while len(bench.txp.when) < packets:
        await bench.step()
        for qp in qps:
            room = (1 << qp.log_size) - (qp.tail - qp.una_wqe())
            if room >= refill:
                bench.post(qp, *[write64(n) for n in range(refill)])
        if start is None and len(bench.txp.when) >= skip:
            start = bench.cycle
    return (bench.cycle - start) / (packets - skip)


@cocotb.test()
@cocotb.parametrize(shape=[(1, 6.25, 8, 64), (64, 5.0, 5, 8), (200, 5.0, 7, 32)])
async def rate(dut, shape):
    """64-byte WRITEs with 150 cycles of fetch latency: cycles per packet for 1 QP, 64 QPs, and 200 QPs."""
    count, limit, log_size, refill = shape
    if int(dut.Slots.value) < 64:
        return
    bench = await SqBench(dut, 13, latency=(150, 150)).begin()
    qps = [bench.create(Qp(n, log_size=log_size)) for n in range(count)]
    cycles = await measure(bench, qps, 1200 if count == 1 else 3000, refill)
    print(f"RATE {count} QPs: {cycles:.2f} cycles per 64-byte WRITE, limit {limit}")
    assert cycles <= limit, f"{count} QPs: {cycles:.2f} cycles per packet, limit {limit}"


@cocotb.test()
async def latency(dut):
    """An idle card: doorbell to read request, last beat of the WQE to packet descriptor."""
    bench = await SqBench(dut, 16, latency=(20, 20)).begin()
    qp = bench.create(Qp(3))
    await bench.until(bench.qpc.idle)
    await bench.step(50)
    for _ in range(2):
        bench.post(qp, write64())
        count = len(bench.txp.when)
        await bench.until(lambda n=count: len(bench.txp.when) > n, 200, "packet")
        fetch = bench.fetch.when[-1] - bench.db.taken[-1]
        packet = bench.txp.when[-1] - bench.fetch.when[-1] - 21
        print(f"LATENCY doorbell to fetch_req {fetch}, WQE to txp {packet} cycles")
        assert fetch <= 20 and packet <= 12
        await bench.step(100)


@pytest.mark.parametrize("slots", [64, 4])
def test_requester(slots):
    """Normal size and few slots. Short turns: long ones leave the oracle too many orders of news and packets."""
    simulate("hca_requester", __name__, parameters={"Slots": slots, "Burst": 4, "Large": 4})
