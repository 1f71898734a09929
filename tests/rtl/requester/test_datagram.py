"""hca_requester: unreliable datagrams, against the oracle of sq_bench: WQEs, lanes, places of the header stage."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
sys.path.insert(0, str(Path(__file__).resolve().parent))

import cocotb
import pytest
from common import simulate, struct
from hca_abi import QpState, WcStatus, WrOpcode
from sq_bench import Qp
from sq_datagram import (
    ALL,
    AV_SLOTS,
    LATENCY,
    Datagram,
    DatagramBench,
    Gates,
    datagram_qp,
    destination,
    go,
    random_datagram,
    small,
)
from test_requester import drain, post_all, random_wqe, write64

PLACES = AV_SLOTS - 1


async def traffic(bench, tasks, limit=200000):
    """Posts (QP, [WQEs]) of many QPs side by side, and waits for all of it."""
    for n in range(max(len(wqes) for _, wqes in tasks)):
        for qp, wqes in tasks:
            await post_all(bench, qp, wqes[n:n + 1])
    await drain(bench, limit)
    await bench.until(lambda: not bench.stage.busy, 2000, "the last ones have left")
    assert not bench.errors


async def mixed(bench, gates, count, each):
    """UD QPs, every fourth one RC: [(QP, [WQEs])]."""
    tasks = []
    for n in range(count):
        port = n // 2 % 2
        lanes = gates.lanes(port)
        common = dict(mtu_code=1 + n % 5, log_size=3 + n % 2, log_stride=n // 4 % 4, psn=0xFFFFF0 - n,
                      base=(n + 1 << 32) + 64 * (n % 8), **gates.context(16 * port + lanes[n * 3 % len(lanes)]))
        if n % 4 == 3:
            qp = Qp(n * 7, **common)
            wqes = [random_wqe(bench.rng, qp, max_packets=4) for _ in range(each)]
        else:
            qp = datagram_qp(n * 7, start=131066 if n % 3 else 65530, **common)
            wqes = [random_datagram(bench.rng, qp, sl=bench.rng.choice(lanes)) for _ in range(each)]
        tasks.append((qp, wqes))
    await go(bench, [qp for qp, _ in tasks])
    return tasks


@cocotb.test()
@cocotb.parametrize(rate=[1.0, 0.5], latency=[(1, 5), (100, 200)])
async def all_kinds(dut, rate, latency):
    """Entries, inline data, strides, MTUs, immediates; beside RC QPs; stalls on every stream; slots wrap many times."""
    bench = await DatagramBench(dut, 1, rate=rate, latency=latency).begin()
    bench.stage.rate = 0.3
    await traffic(bench, await mixed(bench, Gates(bench, loose=rate < 1), 40, 16))
    assert bench.stage.made == bench.stage.left == 480


@cocotb.test()
async def pushed(dut):
    """WQEs that ride with their doorbell: not read, if all of them fits."""
    bench = await DatagramBench(dut, 2, latency=(100, 100)).begin()
    Gates(bench)
    for n in range(40):
        qp = bench.create(datagram_qp(n, func=n % 4, log_size=2, log_stride=n // 4 % 4))
        for _ in range(5):
            bench.post(qp, random_datagram(bench.rng, qp, pushed=True), push=True)
            await bench.until(bench.complete, 300, "pushed one")
    assert bench.host.requests == 0 and not bench.errors


@cocotb.test()
@cocotb.parametrize(rate=[1.0, 0.6])
async def rewinds(dut, rate):
    """Rewinds at any time: what was not acknowledged goes again, with a slot of its own; PSNs and indices wrap."""
    bench = await DatagramBench(dut, 3, rate=rate, latency=(20, 200)).begin()
    gates = Gates(bench, loose=rate < 1)
    qps = await go(bench, [datagram_qp(n, mtu_code=1, log_size=4, log_stride=1 + n % 3, psn=0xFFFFF8 - n,
                                       start=131068 if n % 2 else 65532, port=1 + n % 2) for n in range(20)])
    rewound = 0
    bench.stage.rate = 0.0
    bench.post(qps[0], *[random_datagram(bench.rng, qps[0]) for _ in range(10)])
    await bench.step(600)
    bench.send_ack(qps[0], rewind=True)
    await bench.step(600)
    assert bench.stage.made == 20, bench.stage.made
    gates.toggle = 0.3
    for _ in range(400):
        qp = bench.rng.choice(qps)
        room = 16 - (qp.tail - qp.una_wqe())
        bench.post(qp, *[random_datagram(bench.rng, qp) for _ in range(bench.rng.randint(0, room))])
        await bench.step(bench.rng.choice((1, 5, 60)))
        flying = [each for each in qps if bench.psn_behind(each) != each.una]
        if flying and bench.rng.random() < 0.3:
            bench.send_ack(bench.rng.choice(flying), rewind=True)
            rewound += 1
        bench.stage.rate = bench.rng.choice((0.001, 0.02))
    bench.stage.rate = 1.0
    await drain(bench, 60000)
    again = bench.stage.made - sum(qp.tail - qp.start for qp in qps)
    print(f"DATAGRAMS {rewound} rewinds, {again} sent again")
    assert not bench.errors and again > 10 and bench.stage.most > PLACES // 2


@cocotb.test()
async def bad_wqes(dut):
    """Each rule: reported once with its status; what was before is sent, nothing behind."""
    bench = await DatagramBench(dut, 4).begin()
    Gates(bench)
    op, length = WcStatus.LOC_QP_OP_ERR, WcStatus.LOC_LEN_ERR
    wide = [(0, 10, 1)] * 5
    one = [(0, 64, 1)]
    bad = [  # log_stride, (entries, inline bytes), raw header fields, status
        *[(1, (one, None), dict(opcode=code), op) for code in (
            WrOpcode.RDMA_WRITE, WrOpcode.RDMA_WRITE_WITH_IMM, WrOpcode.RDMA_READ, WrOpcode.TSO,
            WrOpcode.ATOMIC_CMP_AND_SWP, WrOpcode.SEND_WITH_INV, 0xFF)],
        (1, (one, None), dict(wqe_index=77), op),
        (1, (wide, None), {}, op),
        (0, (one, None), {}, op),
        (3, ([(0, 1, 1)] * 17, None), {}, op),
        (2, ([], None), dict(num_sge=0x41), op),
        (1, ([], 65), {}, op),
        (0, ([], 1), {}, op),
        (3, ([], 300), {}, length),                   # more than the MTU
        (1, ([(0, 257, 1)], None), {}, length),
        (2, ([(0, 200, 1), (0, 57, 1)], None), {}, length),
        (1, ([(0, (1 << 31) + 1, 1)], None), {}, length),
        (1, (one, None), dict(length=63), length),
        (1, (one, None), dict(length=65), length),
        (1, (one, None), dict(length=0), length),
        (2, (wide, None), dict(length=40), length),
        (2, (wide, None), dict(length=51), length),
        (0, ([], None), dict(length=1), length),
        (1, (one, None), dict(num_sge=0), length),
        (1, ([(0, 0xFFFFFFFF, 1), (0, 2, 1)], None), dict(length=1), length),
    ]
    for n, (log_stride, (sges, inline), raw, status) in enumerate(bad):
        qp = bench.create(datagram_qp(n, mtu_code=1, log_stride=log_stride, psn=n))
        wqe = Datagram(WrOpcode.SEND, sges, inline, dest=destination(bench.rng), raw=raw, error=status)
        bench.post(qp, random_datagram(bench.rng, qp), wqe, random_datagram(bench.rng, qp))
    await bench.step(4000)
    want = sorted((n, 1, int(status)) for n, (_, _, _, status) in enumerate(bad))
    assert sorted(bench.errors) == want, [pair for pair in zip(sorted(bench.errors), want, strict=False)
                                          if pair[0] != pair[1]][:3]
    for qp in bench.qps.values():
        assert qp.sent == 1
        bench.doorbell(qp, qp.tail)
    await bench.step(1000)
    assert len(bench.errors) == len(want)


@cocotb.test()
async def states(dut):
    """SQD holds what was never begun; leaving RTS stops; a halt lasts until the rewind; init starts anew."""
    bench = await DatagramBench(dut, 5, latency=(30, 30)).begin()
    gates = Gates(bench)
    qp = bench.create(datagram_qp(6, log_stride=1, psn=9, state=QpState.INIT))
    bench.post(qp, small(bench.rng))
    posted, sent = 1, 0
    for state, goes in ((QpState.INIT, 0), (QpState.RTS, 1), (QpState.SQD, 0), (QpState.RTS, 1), (QpState.ERR, 0)):
        bench.modify(qp, state=state)
        await bench.until(bench.qpc.idle, what="context")
        bench.post(qp, *[small(bench.rng) for _ in range(3)])
        posted += 3
        sent = posted if goes else sent
        await bench.step(300)
        assert qp.sent == sent, (state, qp.sent, sent)
    bench.modify(qp, state=QpState.RTS)
    await bench.step(300)
    assert qp.sent == posted
    bench.send_ack(qp, halt=True)
    bench.post(qp, small(bench.rng))
    await bench.step(300)
    assert qp.sent == posted
    bench.send_ack(qp, rewind=True)
    await bench.step(300)
    assert qp.sent == posted + 1
    # What waited behind a shut lane has a new life.
    gates.mask = ALL & ~(1 << 5)
    bench.post(qp, small(bench.rng, 5))
    await bench.step(300)
    bench.modify(qp, state=QpState.ERR)
    again = bench.create(datagram_qp(6, log_stride=1, psn=0x777, base=qp.base))
    bench.post(again, small(bench.rng, 4))
    await bench.step(300)
    assert (qp.sent, again.sent) == (posted + 1, 1) and not bench.errors


@cocotb.test()
@cocotb.parametrize(ib=[True, False], toggle=[0.002, 0.05])
async def random_lanes(dut, ib, toggle):
    """Lanes open and shut at random under datagrams of changing SL and RC QPs: nothing passes a shut one, the charge is
    right, all of it gets through."""
    bench = await DatagramBench(dut, 6, latency=(20, 200)).begin()
    gates = Gates(bench, ib)
    gates.toggle = toggle
    bench.stage.rate = 0.5
    # A lane may be shut for a long time, and ten times in a row.
    await traffic(bench, await mixed(bench, gates, 90, 10), limit=600000)
    assert all(gates.passed[16 * port + sl] for port in (0, 1) for sl in gates.lanes(port))


@cocotb.test()
async def own_lane_counts(dut):
    """The slot waits for the lane of the datagram at its head, and not for the context's once that is known."""
    bench = await DatagramBench(dut, 7, latency=(30, 30)).begin()
    gates = Gates(bench)
    qp = bench.create(datagram_qp(3, log_stride=1, sl=1))
    gates.mask = ALL & ~(1 << 5)
    bench.post(qp, *[small(bench.rng, sl) for sl in (3, 5, 3, 6)])
    await bench.step(300)
    assert qp.sent == 1, "the second one's lane is shut"
    gates.mask = ALL & ~(1 << 1)
    await bench.step(100)
    assert qp.sent == 4, "the lane of the context does not matter"
    bench.post(qp, small(bench.rng, 3))
    await bench.step(100)
    assert qp.sent == 4, "nobody knows what it is: it waits for the lane of the context"
    gates.mask = ALL
    await bench.step(100)
    assert qp.sent == 5
    for _ in range(5):
        bench.post(qp, *[small(bench.rng, 4) for _ in range(60)])
        await bench.step(bench.rng.randint(100, 200))
        gates.mask = ALL & ~(1 << 4)
        await bench.step(LATENCY)
        sent = qp.sent
        await bench.step(100)
        assert qp.sent <= sent + 1, "what was made may still be in the output register"
        gates.mask = ALL
        await drain(bench)


async def keep_busy(bench, qps, packets):
    """Cycles per packet of RC QPs that always have work."""
    begin, sent = bench.cycle, sum(qp.sent for qp in qps)
    while sum(qp.sent for qp in qps) < sent + packets:
        for qp in qps:
            if qp.tail - qp.una_wqe() + 32 <= 1 << qp.log_size:
                bench.post(qp, *[write64(n) for n in range(32)])
        await bench.step()
    return (bench.cycle - begin) / packets


def count_reads(bench, qps):
    """List of the cycles in which WQEs of these QPs are read."""
    reads, plain = [], bench.fetch.on_word

    def look(word):
        req = struct("dma_rd_req_t").unpack(word)
        if bench.qp_at(req["func"], req["addr"]) in qps:
            reads.append(bench.cycle)
        plain(word)

    bench.fetch.on_word = look
    return reads


@cocotb.test()
@cocotb.parametrize(case=[("lane", 30), ("lane", 200), ("places", 30)])
async def others_go_on(dut, case):
    """UD QPs whose next datagram may not go, more or fewer than the slots: RC QPs are as fast as alone, and nothing of
    the waiting ones is read again and again. When they may, all go."""
    if int(dut.Slots.value) < 64:
        return
    why, count = case
    bench = await DatagramBench(dut, 8, latency=(150, 150)).begin()
    gates = Gates(bench)
    stuck = [bench.create(datagram_qp(500 + n, log_stride=1)) for n in range(count)]
    reads = count_reads(bench, stuck)
    await bench.until(bench.qpc.idle, what="contexts")
    if why == "lane":
        gates.mask = ALL & ~(1 << 9)
    else:
        bench.stage.rate = 0.0
    for qp in stuck:
        bench.post(qp, *[small(bench.rng, 9) for _ in range(20)])
    # Each is looked at once.
    await bench.step(12000 if count > 64 else 1000)
    rc = [bench.create(Qp(n, log_size=7, sl=n % 7)) for n in range(60)]
    await keep_busy(bench, rc, 1500)
    before = len(reads)
    cycles = await keep_busy(bench, rc, 1500)
    print(f"DATAGRAMS {why} {count}: {cycles:.2f} cycles per 64-byte WRITE of the others, "
          f"{before} and {len(reads) - before} reads of what waits")
    assert cycles <= 4.4 and len(reads) - before <= 4
    assert bench.stage.made == (0 if why == "lane" else PLACES)
    gates.mask, bench.stage.rate = ALL, 1.0
    await drain(bench)


@cocotb.test()
async def places(dut):
    """At most 63 are under way; each that leaves lets one follow, of whatever QP."""
    bench = await DatagramBench(dut, 9, latency=(20, 60)).begin()
    Gates(bench)
    bench.stage.rate = 0.0
    qps = [bench.create(datagram_qp(n, log_stride=1, log_size=7)) for n in range(8)]
    for qp in qps:
        bench.post(qp, *[small(bench.rng) for _ in range(100)])
    await bench.step(1500)
    assert bench.stage.made == PLACES
    for n in range(150):
        bench.stage.rate = 1.0
        await bench.step()
        bench.stage.rate = 0.0
        await bench.step(60)
        assert bench.stage.left == n + 1 and bench.stage.made == PLACES + n + 1
    assert min(qp.sent for qp in qps) >= (20 if int(dut.Slots.value) > 8 else 5), [qp.sent for qp in qps]
    other = bench.create(Qp(100))
    bench.post(other, *[write64(n) for n in range(40)])
    bench.auto_ack = False
    await bench.step(400)
    assert other.sent == 40 or int(dut.Slots.value) < 8
    bench.auto_ack = True
    bench.stage.rate = 0.05
    bench.send_ack(other, other.psn_at(other.high))
    await drain(bench)
    assert bench.stage.most == PLACES and not bench.errors


@cocotb.test()
async def more_than_slots(dut):
    """Three times as many QPs as slots, of both kinds, with places scarce and lanes that flap: all get their turn."""
    bench = await DatagramBench(dut, 10, latency=(50, 100)).begin()
    gates = Gates(bench)
    gates.toggle = 0.01
    bench.stage.rate = 0.05
    slots = int(dut.Slots.value)
    await traffic(bench, await mixed(bench, gates, min(3 * slots, 140), 2 if slots == 64 else 12))


@cocotb.test()
@cocotb.parametrize(shape=["inline", "entry", "full"])
async def rate(dut, shape):
    """Cycles per datagram in the steady state: 64 QPs, turns of 4."""
    if int(dut.Slots.value) < 64:
        return
    bench = await DatagramBench(dut, 11, latency=(150, 150)).begin()
    Gates(bench)
    qps = [bench.create(datagram_qp(n, log_stride=1, log_size=5, mtu_code=3))
           for n in range(64)]

    def one():
        if shape == "inline":
            return Datagram(WrOpcode.SEND, inline=64, dest=destination(bench.rng, 0))
        return Datagram(WrOpcode.SEND, [(64 * n, 16, 7) for n in range(1 if shape == "entry" else 4)],
                        dest=destination(bench.rng, 0))

    times = bench.txp.when
    while len(times) < 2500:
        for qp in qps:
            if qp.tail - qp.una_wqe() <= 8:
                bench.post(qp, *[one() for _ in range(16)])
        await bench.step()
    cycles = (times[-1] - times[500]) / (len(times) - 501)
    print(f"DATAGRAMS {shape}: {cycles:.2f} cycles, turns of 4 packets")
    # A turn: 4 cycles for 4 packets.
    assert cycles <= dict(inline=5.1, entry=6.1, full=16.6)[shape]


@pytest.mark.parametrize("slots", [64, 4])
def test_datagram(slots):
    """Normal size and few slots."""
    simulate("hca_requester", __name__, parameters={"Slots": slots, "Burst": 4, "Large": 4})
