"""hca_doorbell: routing, push slots, ownership checks, flush of QPs in ERR, events that merge or drop, rate."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import cocotb
import hca_abi as abi
from common import Bench, Sink, Source, constants, simulate, struct

QP_DB, CQ_DB, EQ_DB = struct("qp_db_t"), struct("cq_db_t"), struct("eq_db_t")
SRQ_DB = struct("srq_db_t")
WANT = struct("line_want_t")
MSG, EV, QPC, QPC_WR = struct("pipe_msg_t"), struct("hw_ev_t"), struct("qpc_t"), struct("qpc_wr_t")
MMIO = [(f"mmio_wr_{part}_i", None) for part in ("func", "addr", "data", "strb")]
PUSH, PUSH_WR = struct("push_t"), struct("push_wr_t")
RESET, INIT, RTR, RTS, SQD, SQE, ERR = range(7)
QPS = 64
LINE_BITS, GENERATIONS = 10, 1 << 14


class PushWords:
    """Words that go to push slots: (function, word, data)."""

    def __init__(self, bench):
        self.bench, self.got = bench, []
        bench.agents.append(self)

    def drive(self):
        """Nothing to drive: there is no back-pressure."""

    def sample(self):
        if self.bench.get("push_wr_valid_o"):
            word = PUSH_WR.unpack(self.bench.get("push_wr_o"))
            self.got.append((word["func"], word["word"], word["data"]))


class Doorbell:
    """Bench with QPs of all states and owners; predicts each output."""

    def __init__(self, dut, seed, rate=1.0, sink_rate=1.0, ev_rate=1.0):
        self.bench = Bench(dut, seed)
        self.mmio = Source(self.bench, "mmio_wr", payload=MMIO, rate=rate)
        self.qpc_wr = Source(self.bench, "qpc_wr", "qpc_wr_t")
        names = ("sq_db", "rq_db", "cq_db", "eq_db", "srq_db", "msg", "miss")
        # What is not taken at once goes to firmware: hca_lines takes it.
        self.out = {name: Sink(self.bench, name, rate=1 if name == "miss" else sink_rate) for name in names}
        self.ev = Sink(self.bench, "ev", rate=ev_rate)
        self.push = PushWords(self.bench)
        self.expected = {name: [] for name in names}
        self.bad = 0
        self.admin = {}
        self.qps, self.shared = {}, {}

    async def start(self, generations=1):
        await self.bench.start()
        self.bench.dut.lines_on_i.value = 1
        for line in range(QPS):
            self.context(line, line % 4, line % 7, self.bench.rng.randrange(generations))
        await self.bench.until(self.qpc_wr.idle, what="contexts")
        await self.bench.step()
        return self

    def context(self, line, func, state, generation=0, shared=0):
        self.qps[line] = (func, state, generation)
        self.shared[line] = shared
        qpc = QPC.random(self.bench.rng, func=func, state=state, qpn=generation << LINE_BITS | line,
                         is_shared=shared, is_shut=0)
        self.qpc_wr.put(QPC_WR.pack(qpn=line, qpc=qpc))

    def ring(self, func, addr, data, strb=0xFF):
        """Queues an MMIO write and predicts what it does."""
        self.mmio.put((func, abi.DOORBELL_PAGE_OFFSET + addr, data, strb))
        number = data & 0xFFFFFF
        pi = (data >> 32) & ((1 << abi.WQE_INDEX_BITS) - 1)
        if addr in (abi.SQ_DOORBELL_OFFSET, abi.RQ_DOORBELL_OFFSET) and strb == 0xFF:
            sq = addr == abi.SQ_DOORBELL_OFFSET
            line = number % (1 << LINE_BITS)
            owner, state, generation = self.qps.get(line, (None, RESET, 0))
            if owner == func and state >= (RTS if sq else INIT) and generation == number >> LINE_BITS:
                push = PUSH.pack(valid=data >> 31 & 1, slot=data >> 24 & 63) if sq else 0
                self.expected["sq_db" if sq else "rq_db"].append(QP_DB.pack(sq=sq, qpn=line, pi=pi, push=push))
                if state == ERR or (sq and state == SQE):   # QPS-12: the send side alone
                    self.expected["msg"].append(MSG.pack(kind=1 if sq else 2, qpn=line, wqe_index=pi))
                return
            if owner == func and self.shared.get(line) and generation != number >> LINE_BITS:
                self.expected["miss"].append(WANT.pack(kind=0 if sq else 1, func=func, qpn=number, pi=pi))
                return
        elif addr == abi.CQ_DOORBELL_OFFSET and strb == 0xFF and number < constants()["NumCqs"]:
            self.expected["cq_db"].append(CQ_DB.pack(func=func, cqn=number, arm=(data >> 24) & 3,
                                                     ci=(data >> 32) & 0xFFFFFF))
            return
        elif addr == abi.EQ_DOORBELL_OFFSET and strb == 0xFF and number & 0xFF < constants()["NumEqs"]:
            self.expected["eq_db"].append(EQ_DB.pack(func=func, eqn=number & 0xFF, ci=pi & 0xFFFF))
            return
        elif addr == abi.SRQ_DOORBELL_OFFSET and strb == 0xFF and number < constants()["NumSrqs"]:
            self.expected["srq_db"].append(SRQ_DB.pack(func=func, srqn=number, pi=pi))
            return
        elif addr == abi.ADMIN_DOORBELL_OFFSET and strb & 3 == 3 and func < constants()["NumFuncs"]:
            self.admin[func] = data & 0xFFFF
            return
        self.bad += 1

    def random_ring(self):
        rng = self.bench.rng
        addr = rng.choice([0, 0, 0, 8, 8, 8, 0x10, 0x10, 0x18, 0x18, 0x20, 0x20, 0x28, 0x28, 0x30, 0x800, 4])
        line = rng.randrange(QPS)
        number = self.qps[line][2] << LINE_BITS | line
        if addr not in (abi.SQ_DOORBELL_OFFSET, abi.RQ_DOORBELL_OFFSET):
            number = line
        if rng.random() < 0.05:
            number ^= 1 << rng.randrange(LINE_BITS, 24)
        if addr == 0x18:
            number = rng.randrange(40)
        func = rng.choice([number % 4] * 6 + [rng.randrange(6)])
        strb = rng.choice([0xFF] * 9 + [0x0F])
        reserved = rng.getrandbits(8) << 56 | rng.getrandbits(8) << 24
        self.ring(func, addr, rng.getrandbits(24) << 32 | reserved | number, strb)

    async def finish(self):
        await self.bench.until(self.mmio.idle, what="doorbells")
        await self.bench.step(60)
        for name, sink in self.out.items():
            assert sink.got == self.expected[name], name
        assert self.bench.get("bad_db_cnt_o") == self.bad

    def events(self):
        """[(kind, func, id, cause)] so far."""
        words = [EV.unpack(word) for word in self.ev.got]
        return [(w["kind"], w["func"], w["id"], w["cause"]) for w in words]


@cocotb.test()
@cocotb.parametrize(rates=[(1, 1, 1), (0.7, 0.3, 0.5)])
async def misses(dut, rates):
    """Lines that QPs share: who rings for another QP of the line misses, if the line is of its function; a neighbour's
    doorbell is a bad one, whatever QPN it names (KEY-3)."""
    db = await Doorbell(dut, 2, *rates).start(GENERATIONS)
    rng = db.bench.rng
    for line in range(QPS):
        db.context(line, line % 4, 1 + line % 6, rng.randrange(GENERATIONS), shared=line % 2)
    await db.bench.until(db.qpc_wr.idle, what="contexts")
    await db.bench.step()
    for _ in range(500):
        line = rng.randrange(QPS)
        generation = rng.choice([db.qps[line][2], rng.randrange(GENERATIONS)])
        func = rng.choice([line % 4] * 3 + [rng.randrange(6)])
        addr = rng.choice([abi.SQ_DOORBELL_OFFSET, abi.RQ_DOORBELL_OFFSET])
        db.ring(func, addr, rng.getrandbits(17) << 32 | generation << LINE_BITS | line)
    await db.finish()
    assert len(db.expected["miss"]) > 50 and db.bad > 50


@cocotb.test()
@cocotb.parametrize(rates=[(1, 1, 1), (0.3, 1, 1), (1, 0.3, 0.5), (0.7, 0.7, 0.05)])
async def random_doorbells(dut, rates):
    """Every doorbell goes where it belongs or is counted; the newest admin index of each function arrives."""
    db = await Doorbell(dut, 1, *rates).start(GENERATIONS)
    for _ in range(500):
        db.random_ring()
    await db.finish()
    db.ev.rate = 1.0
    await db.bench.step(20)
    newest = {func: number for kind, func, number, _ in db.events() if kind == abi.HwEventKind.ADMIN_DB}
    assert newest == db.admin
    bad = [event for event in db.events() if event[0] == abi.HwEventKind.BAD_DOORBELL]
    assert 0 < len(bad) <= db.bad
    if rates == (1, 1, 1):
        assert len(bad) == db.bad


@cocotb.test()
async def rate(dut):
    """Two cycles per doorbell, four on a QP in ERR, or of the send side in SQE."""
    db = await Doorbell(dut, 2).start()
    for n in range(20):
        db.ring(3, abi.SQ_DOORBELL_OFFSET, n << 32 | 3)   # RTS
    await db.finish()
    assert db.mmio.taken[-1] - db.mmio.taken[0] == 2 * 19
    first = len(db.mmio.taken)
    for n in range(20):
        db.ring(2, abi.SQ_DOORBELL_OFFSET, n << 32 | 6)   # ERR
    await db.finish()
    assert db.mmio.taken[-1] - db.mmio.taken[first] == 4 * 19
    for addr, cycles in ((abi.SQ_DOORBELL_OFFSET, 4), (abi.RQ_DOORBELL_OFFSET, 2)):
        first = len(db.mmio.taken)
        for n in range(20):
            db.ring(1, addr, n << 32 | 5)   # SQE
        await db.finish()
        assert db.mmio.taken[-1] - db.mmio.taken[first] == cycles * 19


@cocotb.test()
async def send_queue_error(dut):
    """QPS-12: in SQE a send doorbell passes and asks for a flush behind it; a receive doorbell only passes. Back in
    RTS neither asks for anything."""
    db = await Doorbell(dut, 6, sink_rate=0.4).start()
    for turn, state in enumerate((RTS, SQE, SQE, RTS, SQE, ERR, SQE)):
        db.context(7, 2, state)
        await db.bench.until(db.qpc_wr.idle, what="context")
        before = len(db.expected["msg"])
        for n in range(4):
            db.ring(2, abi.SQ_DOORBELL_OFFSET, (8 * turn + n) << 32 | 7)
            db.ring(2, abi.RQ_DOORBELL_OFFSET, (8 * turn + n) << 32 | 7)
            db.ring(1, abi.SQ_DOORBELL_OFFSET, n << 32 | 7)   # not its owner
        await db.finish()
        assert len(db.expected["msg"]) - before == {RTS: 0, SQE: 4, ERR: 8}[state]


@cocotb.test()
@cocotb.parametrize(sq=[True, False], wait=[0, 1, 2, 3, 9])
async def fails_on_the_way(dut, sq, wait):
    """QPS-7: the QP comes into ERR between the look at its row and the end of the pass, when its flush may have begun:
    another one follows the doorbell."""
    db = await Doorbell(dut, 8).start()
    name = "sq_db" if sq else "rq_db"
    db.out[name].rate = 0.0
    db.ring(3, abi.SQ_DOORBELL_OFFSET if sq else abi.RQ_DOORBELL_OFFSET, 9 << 32 | 3)   # RTS
    await db.bench.until(db.mmio.idle, what="the doorbell")
    await db.bench.step(wait)
    db.context(4, 0, ERR)   # another one's
    db.context(3, 3, ERR)
    await db.bench.until(db.qpc_wr.idle, what="contexts")
    db.expected["msg"].append(MSG.pack(kind=1 if sq else 2, qpn=3, wqe_index=9))
    await db.bench.step(3)
    db.out[name].rate = 1.0
    await db.finish()


@cocotb.test()
async def push_words(dut):
    """Decision 0024: whole words to push slots pass, one per cycle, before a doorbell behind them; others are lost."""
    db = await Doorbell(dut, 5, sink_rate=0.5).start()
    rng, words, size = db.bench.rng, [], abi.PUSH_SLOTS * abi.PUSH_SLOT_BYTES
    for _ in range(300):
        place, func = rng.randrange(0, 2 * size, 8), rng.randrange(6)
        data, strb = rng.getrandbits(64), rng.choice([0xFF] * 5 + [0x0F, 0x7F])
        db.mmio.put((func, abi.PUSH_SLOTS_OFFSET + place, data, strb))
        if place < size and func < constants()["NumFuncs"] and strb == 0xFF:
            words.append((func, place // 8, data))
    await db.finish()
    assert db.push.got == words and len(words) > 50
    assert db.mmio.taken[-1] - db.mmio.taken[0] == 299
    db.ring(3, abi.SQ_DOORBELL_OFFSET, 1 << 31 | 3)
    db.mmio.put((3, abi.PUSH_SLOTS_OFFSET, 1, 0xFF))
    db.ring(3, abi.SQ_DOORBELL_OFFSET, 1 << 32 | 3)
    await db.finish()


@cocotb.test()
async def firmware_asleep(dut):
    """With the event stream stalled doorbells go on: admin events merge, refused ones are counted."""
    db = await Doorbell(dut, 3, ev_rate=0.0).start()
    for n in range(100):
        db.ring(n % 4, abi.ADMIN_DOORBELL_OFFSET, n)
        db.ring(0, 0x30, n)
        db.ring(3, abi.RQ_DOORBELL_OFFSET, n << 32 | 3)
    await db.finish()
    db.ev.rate = 1.0
    await db.bench.step(20)
    events = db.events()
    assert len(events) <= 6
    newest = {func: number for kind, func, number, _ in events if kind == abi.HwEventKind.ADMIN_DB}
    assert newest == {0: 96, 1: 97, 2: 98, 3: 99}
    refused = [event for event in events if event[0] == abi.HwEventKind.BAD_DOORBELL]
    assert refused[0] == (abi.HwEventKind.BAD_DOORBELL, 0, 0, 0x30)


@cocotb.test()
async def context_changes(dut):
    """A context write takes effect for the next doorbell."""
    db = await Doorbell(dut, 4).start()
    for state in (RTS, RESET, INIT, RTR, RTS, ERR):
        db.context(5, 1, state)
        await db.bench.until(db.qpc_wr.idle, what="context")
        db.ring(1, abi.SQ_DOORBELL_OFFSET, state << 32 | 5)
        db.ring(1, abi.RQ_DOORBELL_OFFSET, state << 32 | 5)
        db.ring(2, abi.SQ_DOORBELL_OFFSET, state << 32 | 5)
        await db.finish()


def test_doorbell():
    simulate("hca_doorbell", __name__)
