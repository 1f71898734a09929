"""hca_cq: CQE contents and phase, arming, overflow, isolation, order CQE before EQE, rate."""

import sys
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import cocotb
import hca_abi as abi
from common import Bench, Sink, Source, simulate, struct

CQE, JOB, DB = struct("cqe_t"), struct("cqe_job_t"), struct("cq_db_t")
CQC, WR, EQE, EV = struct("cqc_t"), struct("dma_wr_t"), struct("eqe_job_t"), struct("hw_ev_t")
NEXT, SOLICITED = 1, 2
M24 = 0xFFFFFF


class Queue:
    """What the test knows of one CQ."""

    def __init__(self, func, base, log_size, eqn):
        self.func, self.base, self.log_size, self.eqn = func, base, log_size, eqn
        self.pi = self.ci = self.sol = self.arm = 0
        self.error = False
        self.count = self.cycles = self.overwrites = 0
        self.until = None   # the cycle until which its event may wait
        self.spare = 0      # events that may come besides: of waits that ended just when something else happened


class Cq:
    """Bench and model. The model follows the order in which the unit does jobs: a CQE's is done when its write is
    offered, or without one when it is taken."""

    def __init__(self, dut, seed, rate=1.0, wr_rate=1.0, eqe_rate=1.0, ev_rate=1.0):
        self.bench = Bench(dut, seed)
        self.cqc = Source(self.bench, "cqc_wr", payload=[("cqc_wr_cqn_i", None), ("cqc_wr_i", None)])
        self.cqe = Source(self.bench, "cqe", rate=rate)
        self.db = Source(self.bench, "cq_db", rate=rate)
        self.wr = Sink(self.bench, "wr", rate=wr_rate)
        self.eqe = Sink(self.bench, "eqe", rate=eqe_rate, on_word=self.check_eqe)
        self.ev = Sink(self.bench, "ev", rate=ev_rate)
        self.cqe.on_accept = self.accept_cqe
        self.db.on_accept = self.take_db
        self.queues, self.writes, self.events = {}, [], []
        self.fires, self.unmet = Counter(), {}   # by CQ: how often; writes before the first one that has no event yet
        self.offered = False                     # the CQE at the head of the stream is done
        self.bad_db = self.refused = self.timeouts = self.late = 0
        self.bench.agents.insert(0, self)

    def drive(self):
        self.bench.set("now_i", self.bench.cycle + 1000)

    def sample(self):
        """A write that was not there before: its job is done."""
        if self.bench.get("wr_valid_o") and not self.offered:
            self.offered = True
            self.take_cqe(self.cqe.queue[0])

    def accept_cqe(self, word):
        if not self.offered:
            self.take_cqe(word)
        self.offered = False

    async def create(self, cqn, log_size, func=1, valid=1, count=0, cycles=0, overwrites=0):
        queue = Queue(func, 0x10000000 + cqn * 0x100000, log_size, cqn % 32)
        queue.count, queue.cycles, queue.overwrites = count, cycles, overwrites
        await self.write(cqn, queue, valid=valid)
        self.queues[cqn] = queue if valid else None
        return queue

    async def write(self, cqn, queue, **flags):
        row = dict(func=queue.func, base=queue.base, log_size=queue.log_size, eqn=queue.eqn, mod_count=queue.count,
                   mod_cycles=queue.cycles, ignore_overrun=queue.overwrites, keep=0, moderate=0)
        self.cqc.put((cqn, CQC.random(self.bench.rng, **{**row, **flags})))
        await self.bench.until(self.cqc.idle, what="cqc write")

    async def resize(self, cqn, log_size):
        """A ring elsewhere; indices, arming and error go on."""
        await self.bench.until(lambda: self.cqe.idle() and self.db.idle(), what="jobs before the new ring")
        queue = self.queues[cqn]
        queue.base, queue.log_size = queue.base + 0x40000000, log_size
        await self.write(cqn, queue, valid=1, keep=1, mod_count=self.bench.rng.getrandbits(16))

    async def moderate(self, cqn, count, cycles):
        """V-64: other moderation; all else goes on."""
        queue = self.queues[cqn]
        queue.count, queue.cycles = count, cycles
        await self.write(cqn, queue, valid=0, moderate=1, base=0, log_size=0, eqn=0, ignore_overrun=0)

    def post(self, cqn, solicited=0, status=0, valid=1):
        cqe = CQE.random(self.bench.rng, status=status, reserved1=0)
        self.cqe.put(JOB.pack(valid=valid, solicited=solicited, cqn=cqn, cqe=cqe))

    def ring(self, cqn, ci, arm=0, func=None):
        queue = self.queues.get(cqn)
        self.db.put(DB.pack(func=queue.func if func is None else func, cqn=cqn, arm=arm, ci=ci & M24))

    async def jump(self, cqn, index):
        """Moves both indices of an empty queue (as if it had run for long)."""
        await self.settle()
        queue = self.queues[cqn]
        queue.pi = queue.ci = queue.sol = index
        fields = 0
        for value, width in ((queue.pi, 24), (queue.ci, 24), (queue.sol, 24), (queue.arm, 2), (0, 3)):
            fields = fields << width | value
        self.bench.dut.u_dyn.mem[cqn].value = fields
        await self.bench.step()

    def take_cqe(self, word):
        job = JOB.unpack(word)
        queue = self.queues[job["cqn"]]
        if not job["valid"] or (queue and queue.error):
            return
        used = (queue.pi - queue.ci) & M24 if queue else 0
        last = queue and not queue.overwrites and used == (1 << queue.log_size) - 1
        if queue is None or last or not queue.overwrites and used >= 1 << queue.log_size:
            if queue:
                queue.error = True
            self.events.append((abi.HwEventKind.CQ_ERROR, queue.func if queue else 1, job["cqn"],
                                1 if queue else 2))
            if not last:
                return
        cqe = CQE.unpack(job["cqe"])
        if last:
            cqe["status"] = abi.WcStatus.GENERAL_ERR
        cqe["phase"] = ~(queue.pi >> queue.log_size) & 1
        self.writes.append((queue.func, queue.base + queue.pi % (1 << queue.log_size) * 64, cqe))
        queue.pi = queue.pi + 1 & M24
        loud = job["solicited"] or cqe["status"] != 0
        if loud:
            queue.sol = queue.pi
        if queue.arm == NEXT or (queue.arm == SOLICITED and loud) or queue.until is not None:
            self.meant(job["cqn"], queue, used + 1, last)

    def take_db(self, word):
        db = DB.unpack(word)
        queue = self.queues[db["cqn"]]
        if queue is None or queue.func != db["func"]:
            self.bad_db += 1
            return
        if queue.error:
            return
        queue.ci = db["ci"]
        ahead = (queue.sol - queue.ci) & M24
        if db["arm"] in (NEXT, SOLICITED):
            if db["arm"] == NEXT and queue.pi != queue.ci or db["arm"] == SOLICITED and 0 < ahead < 1 << 23:
                queue.arm = db["arm"]
                self.meant(db["cqn"], queue, (queue.pi - queue.ci) & M24)
            else:
                if queue.until is not None:   # what that arming was for has come, and is read
                    self.fire(db["cqn"], queue)
                queue.arm = db["arm"]

    def meant(self, cqn, queue, unread, at_once=False):
        """What a queue was armed for is there: its event, or the beginning of its wait (V-64)."""
        if not (queue.count and queue.cycles) or unread >= queue.count or at_once:
            self.fire(cqn, queue)
        elif queue.until is None:
            queue.until = self.bench.cycle + queue.cycles
        elif self.bench.cycle >= queue.until:
            queue.spare += 1

    def times_out(self, cqn, queue):
        """An event that nothing else explains: the wait of its queue is over, and not before its time."""
        if queue.until is None:
            assert queue.spare, f"CQ {cqn} again"
            queue.spare -= 1
        else:
            assert self.bench.cycle >= queue.until, f"CQ {cqn}: {queue.until - self.bench.cycle} cycles early"
            self.late = max(self.late, self.bench.cycle - queue.until)
            self.timeouts += 1
        self.fire(cqn, queue)

    def fire(self, cqn, queue):
        queue.arm, queue.until = 0, None
        self.fires[cqn] += 1
        self.unmet.setdefault(cqn, len(self.writes))

    def seen(self):
        """[(kind, func, cqn, cause)] of the events to firmware."""
        words = [EV.unpack(word) for word in self.ev.got]
        return [(w["kind"], w["func"], w["id"], w["cause"]) for w in words]

    def told(self):
        """How often there was an event, by CQ."""
        return Counter(EQE.unpack(word)["id"] for word in self.eqe.got)

    def check_eqe(self, word):
        """An event that is due; order to the host: the CQE is on its way before the EQE exists."""
        cqn = EQE.unpack(word)["id"]
        assert word == EQE.pack(eqn=self.queues[cqn].eqn, kind=0, id=cqn)
        queue = self.queues[cqn]
        if self.told()[cqn] > self.fires[cqn] and not self.bench.get("eqe_full_i") and not self.refused:
            self.times_out(cqn, queue)
        elif queue.until is not None and self.bench.cycle >= queue.until:
            self.fire(cqn, queue)   # this may be the event of both
            queue.spare += 1
        self.refused += self.bench.get("eqe_full_i")
        assert len(self.wr.got) >= self.unmet.pop(cqn, 0), "EQE before its CQE was accepted"

    async def settle(self):
        await self.bench.until(lambda: self.cqe.idle() and self.db.idle(), 60000, "jobs")
        await self.bench.until(lambda: not self.unmet and all(not q or q.error or q.until is None
                                                              for q in self.queues.values()),
                               60000, what="events that are due")
        await self.bench.step(120)
        assert len(self.wr.got) == len(self.writes)
        for word, (func, addr, cqe) in zip(self.wr.got, self.writes):
            wr = WR.unpack(word)
            data = CQE.unpack(wr["data"])
            assert (wr["msix"], wr["last"], wr["func"], wr["addr"]) == (0, 1, func, addr)
            assert wr["strb"] == (1 << 64) - 1
            assert 1000 <= data["timestamp"] <= self.bench.cycle + 1000
            assert dict(data, timestamp=0) == dict(cqe, timestamp=0)
        assert self.seen() == self.events
        assert self.bench.get("bad_db_cnt_o") == self.bad_db


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
