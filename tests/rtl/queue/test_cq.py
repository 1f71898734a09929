"""hca_cq: CQE contents and phase, arming, overflow, isolation, order CQE before EQE, rate."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
sys.path.insert(0, str(Path(__file__).resolve().parent))

import cocotb
import hca_abi as abi
from common import simulate
from cq_bench import CQE, EQE, M24, NEXT, SOLICITED, WR, Cq


@cocotb.test()
@cocotb.parametrize(rates=[(1, 1, 1), (0.4, 1, 1), (1, 0.3, 0.5), (0.6, 0.6, 0.6)])
async def random_jobs(dut, rates):
    """CQEs, doorbells and arms of many queues in any mix; small rings wrap and overflow."""
    cq = Cq(dut, 1, *rates)
    await cq.bench.start()
    rng = cq.bench.rng
    for cqn in range(8):
        await cq.create(cqn, log_size=rng.choice([1, 2, 3, 6]), func=cqn % 4, **kind(rng))
    for turn in range(300):
        cqn = rng.randrange(8)
        queue = cq.queues[cqn]
        for _ in range(rng.randint(0, 3)):
            cq.post(rng.randrange(8), rng.random() < 0.3, rng.choice([0, 0, 0, 5]), rng.random() < 0.9)
        if not queue.error and rng.random() < 0.8:
            cq.ring(cqn, queue.pi if rng.random() < 0.8 else queue.ci, rng.randrange(4),
                    func=None if rng.random() < 0.9 else 7)
        if queue.error and rng.random() < 0.2:
            await cq.settle()
            await cq.create(cqn, log_size=rng.choice([1, 2, 3, 6]), func=cqn % 4, **kind(rng))
        if rng.random() < 0.03:
            await cq.moderate(cqn, rng.randrange(5), rng.choice([0, 300, 2000]))
        await cq.bench.step(rng.randint(0, 6))
    await cq.settle()
    assert cq.events and len(cq.eqe.got) > 30 and len(cq.writes) > 100 and cq.timeouts


def kind(rng):
    """Some queues are moderated, some have no error when they are full."""
    return dict(count=rng.choice([0, 0, 2, 3, 9]), cycles=rng.choice([0, 50, 500, 3000]),
                overwrites=int(rng.random() < 0.3))


@cocotb.test()
async def rate(dut):
    """Two cycles per CQE; three with an event."""
    cq = Cq(dut, 2)
    await cq.bench.start()
    await cq.create(1, 10)
    for _ in range(50):
        cq.post(1)
    await cq.settle()
    assert cq.wr.when[-1] - cq.wr.when[0] == 2 * 49
    assert [CQE.unpack(WR.unpack(word)["data"])["phase"] for word in cq.wr.got] == [1] * 50


@cocotb.test()
async def arming(dut):
    """Arm for next and for solicited, before and after the CQE; one event per arming."""
    cq = Cq(dut, 3)
    await cq.bench.start()
    queue = await cq.create(5, 4)
    steps = [("ring", 0, NEXT, 0), ("post", 0, 0, 1), ("post", 0, 0, 1), ("ring", 1, NEXT, 2),
             ("ring", 2, SOLICITED, 2), ("post", 0, 0, 2), ("post", 1, 0, 3), ("ring", 2, SOLICITED, 4),
             ("ring", 4, SOLICITED, 4),
             ("post", 0, 5, 5), ("ring", 5, 0, 5), ("post", 0, 0, 5)]
    for what, a, b, events in steps:
        if what == "ring":
            cq.ring(5, a, b)
        else:
            cq.post(5, a, b)
        await cq.settle()
        assert len(cq.eqe.got) == events, (what, a, b)
    assert queue.pi == 6


@cocotb.test()
async def event_queue_is_full(dut):
    """V-67: an event for which its queue has no room is not lost with the arming it has used up: it is tried again when
    an event queue has been read, once per reading, each CQ's once, until it is in; also beside other work."""
    cq = Cq(dut, 7)
    await cq.bench.start()
    cqns = [3, 900, 17]
    for cqn in (*cqns, 5):
        await cq.create(cqn, 6)
        cq.ring(cqn, 0, NEXT)

    def events():
        return sorted(EQE.unpack(word)["id"] for word in cq.eqe.got)

    async def room():
        cq.bench.set("eq_room_i", 1)
        await cq.bench.step()
        cq.bench.set("eq_room_i", 0)
        for _ in range(10):
            cq.post(5)
        await cq.bench.step(60)

    cq.post(5)
    await cq.bench.step(20)
    cq.bench.set("eqe_full_i", 1)
    for cqn in (*cqns, 3):
        cq.post(cqn)
    await cq.bench.step(60)
    assert events() == [3, 5, 17, 900]
    await room()
    assert events() == [3, 3, 5, 17, 17, 900, 900], "once per reading"
    cq.ring(900, 0, NEXT)   # armed again with a completion unread: the event that is owed is about that one, too
    await cq.bench.step(20)
    assert len(events()) == 7
    await cq.create(17, 6)  # another queue with this number: nothing is owed to it
    cq.bench.set("eqe_full_i", 0)
    await room()
    assert events() == [3, 3, 3, 5, 17, 17, 900, 900, 900]
    await room()
    assert len(events()) == 9, "nothing is told twice"


@cocotb.test()
async def event_queue_is_read_at_once(dut):
    """V-67: an event queue that is read just when it has refused an event: the event is not forgotten."""
    cq = Cq(dut, 9)
    await cq.bench.start()
    queue = await cq.create(4, 10)
    await cq.create(5, 10)
    for delay in range(12):
        cq.bench.set("eqe_full_i", 1)
        cq.ring(4, queue.pi, NEXT)
        cq.post(4)
        for _ in range(delay % 2 * 30):   # the unit is busy when the refusal comes
            cq.post(5)
        seen = len(cq.eqe.got)
        await cq.bench.until(lambda: len(cq.eqe.got) > seen, what="an event that is refused")
        cq.bench.set("eqe_full_i", 0)
        await cq.bench.step(delay // 2 + 1)   # not in the cycle behind the refusal: hca_eq takes two for a doorbell
        cq.bench.set("eq_room_i", 1)
        await cq.bench.step()
        cq.bench.set("eq_room_i", 0)
        await cq.bench.step(90)
        assert len(cq.eqe.got) == seen + 2, f"case {delay}"


@cocotb.test()
async def doorbells_pass_what_waits(dut):
    """Design 9.9: doorbells are taken while no CQE, and while no event, can go out; the events of all arms come when it
    can, each once, behind the CQEs."""
    cq = Cq(dut, 8, wr_rate=0.0)
    await cq.bench.start()
    for cqn in range(40):
        await cq.create(cqn, 4)
    for cqn in range(40):
        cq.post(cqn)
    for stalled in (cq.wr, cq.eqe):
        cq.wr.rate, cq.eqe.rate = 1.0, 1.0
        stalled.rate = 0.0
        for turn in range(5):
            start = cq.bench.cycle
            for cqn in range(40):
                cq.ring(cqn, 0, NEXT)
            await cq.bench.until(cq.db.idle, what="doorbells")
            assert cq.bench.cycle - start < 40 * 6 + 20, "a doorbell waits"
    cq.eqe.rate = 1.0
    await cq.settle()
    assert set(cq.told()) == set(range(40)) and max(cq.told().values()) <= 5


@cocotb.test()
async def index_wraps(dut):
    """The 24-bit indices wrap: slots, phase, room and arming go on."""
    cq = Cq(dut, 5)
    await cq.bench.start()
    queue = await cq.create(9, 2)
    await cq.jump(9, M24 - 5)
    for n in range(12):
        cq.ring(9, queue.pi, NEXT)
        await cq.settle()
        cq.post(9)
        await cq.settle()
    assert queue.pi == 6 and len(cq.eqe.got) == 12
    for n in range(3):
        assert not cq.events
        cq.post(9)
        await cq.settle()
    assert cq.events, "room is counted across the wrap"


@cocotb.test()
async def another_ring(dut):
    """V-63: a larger ring for a queue at work: the next CQE is in it at the running index, an arming holds, entries
    that wait still count; a queue in error stays there."""
    cq = Cq(dut, 6, wr_rate=0.5)
    await cq.bench.start()
    queue = await cq.create(7, 2)
    for turn, log_size in enumerate((3, 5, 5, 8)):
        cq.ring(7, queue.pi, (NEXT, SOLICITED)[turn % 2])
        await cq.settle()
        await cq.resize(7, log_size)
        for _ in range((1 << log_size) - 1):
            cq.post(7, solicited=1)
        await cq.settle()
        assert len(cq.eqe.got) == turn + 1 and not cq.events
    cq.post(7)
    await cq.settle()
    assert len(cq.events) == 1, "the ring is full"
    await cq.resize(7, 9)
    cq.post(7)
    await cq.settle()
    assert len(cq.events) == 1 and queue.pi == 7 + 31 + 31 + 256


@cocotb.test()
async def overflow_is_told_once(dut):
    """V-57: the completion for which a CQ has no room is its last entry, with an error, and an event if it is armed;
    the CQ goes to error once; nothing more is written until the context is written; firmware asleep stalls nobody;
    other queues go on."""
    cq = Cq(dut, 4, ev_rate=0.0)
    await cq.bench.start()
    await cq.create(1, 1)
    await cq.create(2, 6)
    await cq.create(3, 2, valid=0)
    cq.ring(1, 0, SOLICITED)
    for _ in range(20):
        for cqn in (1, 2, 3):
            cq.post(cqn)
    await cq.bench.until(cq.cqe.idle, what="CQEs")
    assert len(cq.wr.got) == 2 + 20
    of_1 = [CQE.unpack(wr["data"]) for wr in map(WR.unpack, cq.wr.got) if wr["addr"] >> 20 == 0x101]
    assert [(cqe["status"], cqe["phase"]) for cqe in of_1] == [(0, 1), (abi.WcStatus.GENERAL_ERR, 1)]
    assert [EQE.unpack(word)["id"] for word in cq.eqe.got] == [1], "an error is an event even for solicited ones"
    cq.ev.rate = 1.0
    await cq.bench.step(20)
    kind = abi.HwEventKind.CQ_ERROR
    assert cq.seen() == [(kind, 1, 3, 2), (kind, 1, 1, 1)]
    cq.ring(1, 2, NEXT)
    cq.post(1)
    await cq.bench.step(20)
    assert len(cq.wr.got) == 22 and len(cq.eqe.got) == 1
    await cq.create(1, 1)
    cq.post(1)
    await cq.bench.step(20)
    assert len(cq.wr.got) == 23


@cocotb.test()
async def moderation(dut):
    """V-64: the event of an armed queue comes with the count-th completion, or when the period is over that began with
    the first one, at most a walk late; an armed queue with nothing for it waits for ever; with neither, at once."""
    cq = Cq(dut, 10)
    await cq.bench.start()
    queue = await cq.create(5, 6, count=4, cycles=3000)
    late = (1 << (len(dut.cqc_wr_cqn_i) + 1)) + 20   # a walk that has begun, and one more

    async def step(cycles, events):
        await cq.bench.step(cycles)
        assert len(cq.eqe.got) == events, f"{len(cq.eqe.got)} events, not {events}"

    cq.ring(5, 0, NEXT)
    await step(4000, 0)
    for n in range(4):                       # the fourth
        await step(50, 0)
        cq.post(5)
    await step(50, 1)
    cq.ring(5, 4, NEXT)
    cq.post(5)
    cq.post(5)
    await step(2900, 1)                      # the period
    await step(200 + late, 2)
    cq.ring(5, 4, NEXT)                      # two that were there before
    await step(2900, 2)
    cq.post(5)
    cq.post(5)
    await step(50, 3)                        # with them four
    cq.ring(5, 8, SOLICITED)
    for _ in range(9):
        cq.post(5)
    await step(4000 + late, 3)               # none that counts
    cq.post(5, status=5)
    await step(50, 4)                        # one that does, and there are more than four
    cq.ring(5, 18, NEXT)
    cq.post(5)
    await step(50, 4)
    cq.ring(5, 19, NEXT)                     # read, and armed again: two armings, two events
    await step(50, 5)
    cq.post(5)
    await step(3100 + late, 6)
    await cq.moderate(5, 0, 3000)
    cq.ring(5, 20, NEXT)
    cq.post(5)
    await step(50, 7)
    await cq.settle()
    assert not cq.events and 0 < cq.late <= late, cq.late
    assert cq.bench.get("active_o") == 0, "nothing follows the time"


@cocotb.test()
async def many_timers(dut):
    """V-64: timers of many queues, begun at any time, end each in its time and once; another queue with the number of
    one whose event waits has nothing of it."""
    cq = Cq(dut, 11)
    await cq.bench.start()
    rng = cq.bench.rng
    cqns = [0, 1, 2, 31, 32, 500, (1 << len(dut.cqc_wr_cqn_i)) - 1]
    for cqn in cqns:
        await cq.create(cqn, 10, count=100, cycles=rng.randint(200, 6000))
    for turn in range(60):
        for cqn in rng.sample(cqns, 3):
            cq.ring(cqn, cq.queues[cqn].pi, NEXT)
            cq.post(cqn)
        await cq.bench.step(rng.randint(1, 800))
    await cq.settle()
    assert cq.timeouts > 40 and cq.late <= 2 * (1 << len(dut.cqc_wr_cqn_i)) + 20, (cq.timeouts, cq.late)
    cq.ring(31, cq.queues[31].pi, NEXT)
    cq.post(31)
    await cq.bench.step(60)
    told = len(cq.eqe.got)
    await cq.create(31, 10, count=100, cycles=300)
    cq.ring(31, 0, NEXT)
    await cq.bench.step(9000)
    assert len(cq.eqe.got) == told and cq.bench.get("active_o") == 0


@cocotb.test()
async def overruns_are_ignored(dut):
    """V-58: IGNORE_OVERRUN: what has no room is written over what is there, without an error, again and again."""
    cq = Cq(dut, 12)
    await cq.bench.start()
    queue = await cq.create(4, 2, overwrites=1)
    for _ in range(23):
        cq.post(4)
    await cq.settle()
    assert len(cq.writes) == 23 and not cq.events
    cq.ring(4, queue.pi, NEXT)
    cq.post(4)
    await cq.settle()
    assert len(cq.eqe.got) == 1 and not queue.error


def test_cq():
    simulate("hca_cq", __name__, memories=["hca_ram_1r1w"])
