"""hca_srq: every slot once and in order, from lists in host memory; limits, bad lists, strangers, rate."""

import sys
from collections import deque
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import cocotb
from common import Bench, Sink, Source, constants, simulate, struct
from hca_abi import WQE_INDEX_BITS, HwEventKind

SRQC, DB, REQ = struct("srqc_t"), struct("srq_db_t"), struct("dma_rd_req_t")
RSP, EV = struct("dma_rd_rsp_t"), struct("hw_ev_t")
XRC = struct("xrc_srq_t")
NUM_SRQS = constants()["NumSrqs"]
LINE = 32
WQE_MASK = (1 << WQE_INDEX_BITS) - 1


class Lists:
    """Host memory with the lists: answers reads in order, each after its own latency."""

    def __init__(self, bench, latency=(20, 150), rate=1.0):
        self.bench, self.latency, self.rate = bench, latency, rate
        self.memory = {}      # (func, line): 32 numbers
        self.waiting = deque()
        self.reads = 0
        self.offered = False
        bench.agents.append(self)

    def request(self, word):
        """A read of the DUT: one line."""
        req = REQ.unpack(word)
        assert req["len_bytes"] == 64 and req["addr"] % 64 == 0
        due = self.bench.cycle + self.bench.rng.randint(*self.latency)
        # What is there now, or later, until it arrives: the data is taken when the request comes.
        numbers = self.memory.get((req["func"], req["addr"] // 64))
        self.waiting.append((due, list(numbers) if numbers else None))
        self.reads += 1

    def drive(self):
        """The oldest answer, when it is due."""
        if not self.offered and self.waiting and self.waiting[0][0] <= self.bench.cycle \
                and self.bench.rng.random() < self.rate:
            numbers = self.waiting[0][1]
            data = sum(number << 16 * i for i, number in enumerate(numbers or []))
            self.bench.set("rsp_i", RSP.pack(last=1, err=numbers is None, data=data))
            self.offered = True
        self.bench.set("rsp_valid_i", self.offered)

    def sample(self):
        """Taken?"""
        if self.offered and self.bench.get("rsp_ready_o"):
            self.waiting.popleft()
            self.offered = False


class Srq:
    """Model of a queue, and its driver."""

    def __init__(self, srqn, func, log_size):
        self.srqn, self.func, self.log_size = srqn, func, log_size
        self.base = (srqn + 1) << 20 | func << 40
        self.posted = self.popped = self.rung = 0
        self.slots = deque()
        self.limit = self.tag = 0
        self.armed = False      # as the card must have it
        self.unreadable = False
        self.xrc = {}           # what peers mean that name it
        self.xrc_since = 0

    def row(self, keep=0, valid=1):
        """Context."""
        return (self.srqn, SRQC.pack(valid=valid, keep=keep, func=self.func, log_size=self.log_size,
                                     limit_tag=self.tag, limit=self.limit, base=self.base, **self.xrc))


class Unit:
    """Bench of the block: looks and pops at random, checked by the models."""

    def __init__(self, dut, seed, rate=1.0, latency=(20, 150)):
        self.bench = Bench(dut, seed)
        self.rng = self.bench.rng
        ports = [("srqc_wr_srqn_i", None), ("srqc_wr_i", None)]
        self.ctx = Source(self.bench, "srqc_wr", payload=ports, rate=rate)
        self.db = Source(self.bench, "srq_db", rate=rate)
        self.lists = Lists(self.bench, latency, rate)
        Sink(self.bench, "req", rate=rate, on_word=self.lists.request)
        Sink(self.bench, "ev", rate=rate, on_word=self.event)
        self.ctx.on_accept = self.context_taken
        self.srqs, self.events = {}, []
        self.look_rate, self.pop_rate = 0.5, 0.8
        self.asks = None        # who is looked at in this cycle
        self.looked = None      # whose head is there in this cycle
        self.watch = None       # only look at these
        self.pops = []
        self.bench.agents.append(self)

    # ---- The card's side: looks ----
    def drive(self):
        """A look in at most every second cycle; a pop with some of the heads."""
        self.looked, self.asks = self.asks, None
        self.bench.set("want_i", self.looked is not None and self.rng.random() < self.pop_rate)
        names = self.watch or list(self.srqs)
        if self.looked is None and names and self.rng.random() < self.look_rate:
            self.asks = self.rng.choice(names)
            self.bench.set("look_srqn_i", self.asks)
        self.bench.set("look_i", self.asks is not None)

    def sample(self):
        """What was looked at is what the model says; and it is gone if it was wanted."""
        if self.looked is None:
            return
        srq = self.srqs[self.looked]
        if self.bench.cycle > srq.xrc_since + 2:
            self.check_xrc(srq)
        if not self.bench.get("ok_o"):
            return
        assert srq.popped != srq.rung, f"SRQ {srq.srqn}: a head where nothing was posted"
        assert self.bench.get("slot_o") == srq.slots[0], f"SRQ {srq.srqn}, index {srq.popped:#x}"
        if self.bench._driven["want_i"]:
            srq.slots.popleft()
            srq.popped = (srq.popped + 1) & WQE_MASK
            self.pops.append(self.bench.cycle)

    def check_xrc(self, srq):
        """SPEC-3: the row as it was written last."""
        got = XRC.unpack(self.bench.get("xrc_o"))
        assert got["valid"] == srq.xrc["is_xrc"]
        names = dict(number="number", xrcd="xrcd", pd="pd", cqn="cqn", slots="slots", log_size="slots_log_size",
                     log_stride="slots_log_stride")
        want = {name: srq.xrc[of] for name, of in names.items()} | dict(func=srq.func)
        assert {name: got[name] for name in want} == want, f"SRQ {srq.srqn}"

    # ---- The driver's side ----
    async def create(self, srqn, func=1, log_size=5):
        srq = Srq(srqn, func, log_size)
        bits = dict(is_xrc=1, number=24, xrcd=24, pd=24, cqn=10, slots=64, slots_log_size=5, slots_log_stride=2)
        srq.xrc = {name: self.rng.getrandbits(width) for name, width in bits.items()}
        srq.xrc_since = 1 << 60
        self.srqs.pop(srqn, None)
        self.ctx.put(srq.row())
        await self.bench.until(self.ctx.idle)
        srq.xrc_since = self.bench.cycle
        self.srqs[srqn] = srq
        return srq

    def room(self, srq):
        """How many can be posted."""
        return (1 << srq.log_size) - len(srq.slots)

    def post(self, srq, count):
        """Writes numbers into the list, and rings."""
        for _ in range(count):
            slot = self.rng.getrandbits(15)
            index = srq.posted & ((1 << srq.log_size) - 1)
            if not srq.unreadable:
                line = self.lists.memory.setdefault((srq.func, srq.base // 64 + index // LINE),
                                                    [self.rng.getrandbits(16) for _ in range(LINE)])
                line[index % LINE] = slot
            srq.slots.append(slot)
            srq.posted = (srq.posted + 1) & WQE_MASK
        srq.rung = srq.posted
        self.db.put(DB.pack(func=srq.func, srqn=srq.srqn, pi=srq.posted))

    def arm(self, srq, limit):
        srq.limit = limit
        srq.tag = (srq.tag + 1) & 0xFF
        self.ctx.put(srq.row(keep=1))

    def context_taken(self, words):
        row = SRQC.unpack(words[1])
        srq = self.srqs.get(words[0])
        if srq:
            srq.xrc_since = self.bench.cycle
        if srq and row["keep"]:
            srq.armed = row["limit"] != 0

    def event(self, word):
        ev = EV.unpack(word)
        srq = self.srqs[ev["id"]]
        self.events.append((ev["kind"], ev["id"]))
        if ev["kind"] == HwEventKind.SRQ_LIMIT:
            assert ev["cause"] == srq.tag and srq.armed, "an event of no limit"
            srq.armed = False

    async def drain(self, limit=20000):
        """Whoever looks gets everything."""
        await self.bench.until(lambda: self.db.idle() and not any(srq.slots for srq in self.srqs.values()
                                                                  if not srq.unreadable), limit, "drain")


async def traffic(dut, seed, rate, latency):
    unit = Unit(dut, seed, rate, latency)
    await unit.bench.start()
    numbers = [0, 1, NUM_SRQS // 2, NUM_SRQS - 1]
    for srqn, log_size in zip(numbers, (5, 5, 7, 10)):
        await unit.create(srqn, func=srqn & 3, log_size=log_size)
    total = 0
    while total < 4000:
        srq = unit.srqs[unit.rng.choice(numbers)]
        count = min(unit.room(srq), unit.rng.choice((1, 1, 2, 7, 31, 32, 33, 100)))
        if count and len(unit.db.queue) < 4:
            unit.post(srq, count)
            total += count
        if unit.rng.random() < 0.1:
            unit.look_rate = unit.rng.choice((0.05, 0.3, 1.0))
            unit.pop_rate = unit.rng.choice((0.2, 1.0))
        await unit.bench.step(unit.rng.randrange(40))
    unit.look_rate = unit.pop_rate = 1.0
    await unit.drain()
    assert len(unit.pops) == total and not unit.events


@cocotb.test()
async def every_slot_once_and_in_order(dut):
    """SPEC-4, with stalls on every side."""
    for seed in range(6):
        rate, latency = [(1.0, (20, 150)), (0.3, (1, 300)), (0.7, (1, 5))][seed % 3]
        await traffic(dut, seed, rate, latency)


@cocotb.test()
async def indices_wrap(dut):
    """Free-running indices of 17 bits, in lists of a line and of many."""
    unit = Unit(dut, 11, latency=(1, 5))
    await unit.bench.start()
    for srqn, log_size in ((3, 5), (4, 9)):
        srq = await unit.create(srqn, log_size=log_size)
        unit.watch = [srqn]
        unit.look_rate = unit.pop_rate = 1.0
        left = 140000
        while left:
            count = min(left, unit.room(srq))
            if count:
                unit.post(srq, count)
                left -= count
            await unit.bench.step(16)
        await unit.drain()
        assert srq.popped == 140000 & WQE_MASK


@cocotb.test()
async def a_line_comes_beside_a_pop(dut):
    """A number that arrives in the cycles in which the last one before it is taken is found without further help."""
    unit = Unit(dut, 15, latency=(1, 4))
    await unit.bench.start()
    srq = await unit.create(6, log_size=6)
    unit.look_rate = unit.pop_rate = 1.0
    for _ in range(1200):
        unit.post(srq, 1)
        await unit.bench.step(unit.rng.randrange(14))
        unit.post(srq, 1)
        await unit.bench.until(lambda: not srq.slots, 200, "both")


@cocotb.test()
async def limits_fire_once(dut):
    """SPEC-6: strictly below, once, at once where so few are posted now; another limit any time."""
    unit = Unit(dut, 21)
    await unit.bench.start()
    srq = await unit.create(7, log_size=6)
    unit.look_rate = 0.0
    unit.post(srq, 20)
    await unit.bench.step(400)
    unit.arm(srq, 20)
    await unit.bench.step(200)
    assert not unit.events, "20 are not fewer than 20"

    async def pop(count):
        unit.look_rate = unit.pop_rate = 1.0
        end = len(unit.pops) + count
        await unit.bench.until(lambda: len(unit.pops) >= end)
        unit.look_rate = unit.pop_rate = 0.0
        await unit.bench.step(40)

    await pop(1)
    assert unit.events == [(HwEventKind.SRQ_LIMIT, 7)]
    await pop(3)
    assert len(unit.events) == 1, "it tells once"
    left = len(srq.slots)
    unit.arm(srq, left + 1)
    await unit.bench.step(40)
    assert len(unit.events) == 2, "too few from the beginning"
    unit.arm(srq, left - 1)
    unit.arm(srq, 0)
    await unit.bench.step(40)
    await pop(3)
    assert len(unit.events) == 2, "taken away again"
    # Posts between: the count is what is posted then.
    unit.arm(srq, 5)
    unit.post(srq, 10)
    await unit.bench.step(400)
    await pop(len(srq.slots) - 5)
    assert len(unit.events) == 2
    await pop(1)
    assert len(unit.events) == 3


@cocotb.test()
async def the_last_pop_beside_a_new_limit(dut):
    """Pops that take the count below a limit in the very cycles in which it is armed, and none after them: told."""
    unit = Unit(dut, 25, latency=(1, 4))
    await unit.bench.start()
    srq = await unit.create(9, log_size=5)
    unit.pop_rate = 1.0
    for n in range(400):
        unit.look_rate = 0.0
        unit.post(srq, 12 - len(srq.slots))
        await unit.bench.step(40)
        unit.arm(srq, 10)
        await unit.bench.step(unit.rng.randrange(16))
        end, unit.look_rate = len(unit.pops) + 3, 1.0
        await unit.bench.until(lambda end=end: len(unit.pops) >= end)
        unit.look_rate = 0.0
        await unit.bench.until(lambda n=n: len(unit.events) > n, 100, "the limit")


@cocotb.test()
async def limits_in_traffic(dut):
    """Armed at any time beside pops of every rate: each is told, and none falsely."""
    for seed in range(5):
        unit = Unit(dut, 30 + seed, rate=(1.0, 0.5)[seed % 2], latency=(1, 60))
        await unit.bench.start()
        srqs = [await unit.create(srqn, log_size=6) for srqn in (5, 6)]
        fired = 0
        for _ in range(60):
            srq = unit.rng.choice(srqs)
            if unit.ctx.idle() and not srq.armed:
                unit.arm(srq, unit.rng.randrange(1, 64))
                fired += 1
            unit.post(srq, unit.rng.randrange(unit.room(srq) + 1))
            unit.look_rate = unit.rng.choice((0.1, 1.0))
            await unit.bench.step(unit.rng.randrange(200))
        await unit.drain()
        await unit.bench.step(100)
        told = sum(kind == HwEventKind.SRQ_LIMIT for kind, _ in unit.events)
        assert told == fired and not any(srq.armed for srq in srqs), "empty, so every limit was reached"


@cocotb.test()
async def a_list_that_cannot_be_read(dut):
    """SPEC-7: told once; what was here is still taken, nothing else; others do not notice; a new context heals."""
    unit = Unit(dut, 41)
    await unit.bench.start()
    good, bad = await unit.create(8, log_size=6), await unit.create(9, log_size=6)
    unit.post(bad, 16)
    await unit.bench.until(lambda: not bad.slots)
    bad.unreadable = True
    unit.lists.memory.pop((bad.func, bad.base // 64))
    unit.lists.memory.pop((bad.func, bad.base // 64 + 1), None)
    before = len(unit.pops)
    unit.post(bad, 20)
    unit.watch = [9]
    await unit.bench.step(1500)
    assert unit.events == [(HwEventKind.SRQ_ERROR, 9)] and len(unit.pops) == before
    unit.watch = None
    for _ in range(20):
        unit.post(good, unit.room(good))
        unit.db.put(DB.pack(func=bad.func, srqn=9, pi=unit.rng.getrandbits(17)))
        await unit.bench.step(100)
    await unit.drain()
    assert len(unit.events) == 1
    healed = await unit.create(9, log_size=6)
    unit.post(healed, 64)
    await unit.drain()


@cocotb.test()
async def strangers_and_leavers(dut):
    """A doorbell of another function, or of no queue, changes nothing and is counted; a queue that is gone gives
    nothing, and its successor begins at 0."""
    unit = Unit(dut, 51, latency=(20, 60))
    await unit.bench.start()
    srq = await unit.create(12, func=2, log_size=5)
    reads = unit.lists.reads
    for n in range(10):
        unit.db.put(DB.pack(func=(0, 1, 3)[n % 3], srqn=12, pi=n + 1), DB.pack(func=2, srqn=13, pi=n + 1))
    await unit.bench.until(unit.db.idle)
    await unit.bench.step(300)
    assert unit.bench.get("bad_db_cnt_o") == 20 and unit.lists.reads == reads
    await unit.create(99, func=0)
    for _ in range(30):
        unit.post(srq, unit.rng.randrange(33))
        await unit.bench.step(unit.rng.randrange(200))
        unit.watch = [99]
        await unit.bench.step(4)
        unit.ctx.put(srq.row(valid=0))
        await unit.bench.until(unit.ctx.idle)
        # The fence.
        await unit.bench.until(lambda: not unit.lists.waiting)
        await unit.bench.step(10)
        reads = unit.lists.reads
        unit.db.put(DB.pack(func=2, srqn=12, pi=77))
        await unit.bench.step(30)
        assert unit.lists.reads == reads, "a queue that is gone is read"
        srq = await unit.create(12, func=2, log_size=5)
        unit.watch = [12]
    unit.post(srq, 32)
    await unit.drain()


@cocotb.test()
async def lines_come_ahead(dut):
    """A stream of SENDs, one in three cycles, over one queue: no look finds it empty, with a host that takes half a
    microsecond."""
    unit = Unit(dut, 61, latency=(125, 135))
    await unit.bench.start()
    srq = await unit.create(20, log_size=12)
    unit.look_rate = 0.0
    unit.post(srq, 4096)
    await unit.bench.step(400)
    unit.watch, unit.pop_rate = [20], 1.0
    start = unit.bench.cycle
    looks = 0
    while len(unit.pops) < 3000:
        unit.look_rate = 1.0
        await unit.bench.step(1)
        unit.look_rate = 0.0
        await unit.bench.step(2)
        looks += 1
    await unit.bench.step(2)
    cycles = unit.bench.cycle - start
    assert looks <= 3002, f"{looks - 3000} looks in vain"
    assert cycles < 3 * 3010
    assert unit.lists.reads <= 4096 // LINE + 2


def test_srq():
    bench = Path(__file__).resolve().parent / "srq_bench.sv"
    simulate("srq_bench", __name__, source=bench)
