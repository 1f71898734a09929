"""hca_eq: EQE contents and phase, MSI-X behind each EQE, full queues, two sources, rate."""

import sys
from collections import deque
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import cocotb
import hca_abi as abi
from common import Bench, Sink, Source, simulate, struct

EQE, JOB, DB = struct("eqe_t"), struct("eqe_job_t"), struct("eq_db_t")
EQC, WR, EV = struct("eqc_t"), struct("dma_wr_t"), struct("hw_ev_t")
M16 = 0xFFFF


class Eq:
    """Bench and model of some event queues. The model follows the order in which the unit does jobs: an EQE's is done
    when its write is offered, or without one when it is taken."""

    def __init__(self, dut, seed, rate=1.0, wr_rate=1.0, ev_rate=1.0):
        self.bench = Bench(dut, seed)
        ports = [("eqc_wr_eqn_i", None), ("eqc_wr_i", None)]
        self.eqc = Source(self.bench, "eqc_wr", payload=ports)
        self.src = [Source(self.bench, "eqe", "eqe_job_t", index=n, rate=rate) for n in range(2)]
        self.db = Source(self.bench, "eq_db", rate=rate)
        self.wr = Sink(self.bench, "wr", rate=wr_rate)
        self.ev = Sink(self.bench, "ev", rate=ev_rate)
        for source in self.src:
            source.on_accept = self.accept
        self.offered = None   # job whose EQE waits for its place
        self.db.on_accept = self.take_db
        self.queues, self.writes, self.events = {}, deque(), []
        self.drops = self.bad_db = 0
        self.bench.agents.insert(0, self)

    def drive(self):
        """Nothing to do: the streams have their own agents."""

    def sample(self):
        """A write that was not there before: its job is done."""
        if self.offered is None and self.bench.get("wr_valid_o"):
            wr = WR.unpack(self.bench.get("wr_o"))
            if not wr["msix"]:
                data = EQE.unpack(wr["data"])
                self.offered = next(source.queue[0] for source in self.src if source.queue and source.offered
                                    and JOB.unpack(source.queue[0])["data1"] == data["data1"])
                self.take(self.offered)

    def accept(self, word):
        if self.offered is None:
            assert self.bench.get("eqe_full_o") == self.queues[JOB.unpack(word)["eqn"]]["valid"]
            self.take(word)
        self.offered = None

    async def create(self, eqn, log_size, func=1, vector=3, valid=1):
        base = 0x200000000 + eqn * 0x100000
        self.eqc.put((eqn, EQC.random(self.bench.rng, valid=valid, func=func, base=base, log_size=log_size,
                                      vector=vector)))
        await self.bench.until(self.eqc.idle, what="eqc write")
        self.queues[eqn] = dict(valid=valid, func=func, base=base, log_size=log_size, vector=vector, pi=0,
                                ci=0, told=False)
        return self.queues[eqn]

    def post(self, eqn, source=None):
        rng = self.bench.rng
        source = rng.randrange(2) if source is None else source
        self.src[source].put(JOB.random(rng, eqn=eqn))

    def ring(self, eqn, ci, func=None):
        func = self.queues[eqn]["func"] if func is None else func
        self.db.put(DB.pack(func=func, eqn=eqn, ci=ci & M16))

    def take(self, word):
        job = JOB.unpack(word)
        queue = self.queues[job["eqn"]]
        full = (queue["pi"] - queue["ci"]) & M16 >= 1 << queue["log_size"]
        if not queue["valid"] or full:
            self.drops += 1
            if not queue["told"]:
                queue["told"] = True
                cause = 1 if queue["valid"] else 2
                self.events.append((abi.HwEventKind.EQ_OVERFLOW, queue["func"], job["eqn"], cause))
            return
        slot = queue["pi"] % (1 << queue["log_size"])
        phase = ~(queue["pi"] >> queue["log_size"]) & 1
        eqe = dict(kind=job["kind"], eqn=job["eqn"], id=job["id"], data0=job["data0"], data1=job["data1"],
                   phase=phase)
        self.writes.append((0, queue["func"], queue["base"] + slot * 64, eqe))
        self.writes.append((1, queue["func"], queue["vector"], None))
        queue["pi"] = queue["pi"] + 1 & M16

    def take_db(self, word):
        db = DB.unpack(word)
        queue = self.queues[db["eqn"]]
        if not queue["valid"] or queue["func"] != db["func"]:
            self.bad_db += 1
            return
        assert self.bench.get("room_o") == int(queue["ci"] != db["ci"])
        if queue["ci"] != db["ci"]:
            queue["told"] = False
        queue["ci"] = db["ci"]

    async def settle(self):
        await self.bench.until(lambda: self.db.idle() and all(s.idle() for s in self.src), 60000, "jobs")
        await self.bench.step(60)
        while self.wr.got:
            wr = WR.unpack(self.wr.got.pop(0))
            msix, func, addr, eqe = self.writes.popleft()
            assert (wr["msix"], wr["last"], wr["func"], wr["addr"]) == (msix, 1, func, addr)
            if not msix:
                assert wr["strb"] == (1 << 64) - 1
                data = EQE.unpack(wr["data"])
                assert {name: data[name] for name in eqe} == eqe
                assert data["timestamp"] == 77
        assert not self.writes
        assert self.bench.get("drop_cnt_o") == self.drops
        assert self.bench.get("bad_db_cnt_o") == self.bad_db
        words = [EV.unpack(word) for word in self.ev.got]
        assert [(w["kind"], w["func"], w["id"], w["cause"]) for w in words] == self.events


@cocotb.test()
@cocotb.parametrize(rates=[(1, 1, 1), (0.3, 1, 1), (1, 0.3, 0.5), (0.6, 0.6, 0.6)])
async def random_jobs(dut, rates):
    """Two sources, several queues, doorbells of owners and of strangers; rings wrap and overflow."""
    eq = Eq(dut, 1, *rates)
    await eq.bench.start()
    eq.bench.set("now_i", 77)
    rng = eq.bench.rng
    for eqn in range(6):
        await eq.create(eqn, rng.choice([1, 2, 4]), func=eqn % 4, vector=rng.getrandbits(11), valid=eqn != 5)
    for _ in range(400):
        eq.post(rng.randrange(6))
        if rng.random() < 0.4:
            eqn = rng.randrange(6)
            eq.ring(eqn, eq.queues[eqn]["pi"], func=None if rng.random() < 0.9 else 9)
        await eq.bench.step(rng.randint(0, 5))
    await eq.settle()
    assert eq.events and eq.drops and eq.bad_db


@cocotb.test()
async def rate(dut):
    """Three cycles per EQE with its interrupt; both sources get their turn."""
    eq = Eq(dut, 2)
    await eq.bench.start()
    eq.bench.set("now_i", 77)
    await eq.create(0, 8)
    for n in range(60):
        eq.post(0, n % 2)
    await eq.bench.until(lambda: all(s.idle() for s in eq.src), what="EQEs")
    taken = sorted(eq.src[0].taken + eq.src[1].taken)
    assert taken[-1] - taken[0] == 3 * 59
    assert abs(len([t for t in eq.src[0].taken if t < taken[30]]) - 15) <= 1
    await eq.settle()


@cocotb.test()
async def full_queue(dut):
    """Full: drop, count, tell firmware once until the consumer index moves. Firmware asleep stalls nobody."""
    eq = Eq(dut, 3, ev_rate=0.0)
    await eq.bench.start()
    eq.bench.set("now_i", 77)
    queue = await eq.create(3, 2)
    for turn in range(3):
        for _ in range(8):
            eq.post(3)
        await eq.bench.until(lambda: all(s.idle() for s in eq.src), what="EQEs")
        eq.ring(3, queue["pi"])
        await eq.bench.until(eq.db.idle, what="doorbell")
    eq.ev.rate = 1.0
    await eq.settle()
    assert len(eq.events) == 3 and eq.drops == 12


@cocotb.test()
async def index_wraps(dut):
    """The 16-bit indices wrap: slots, phase and room go on."""
    eq = Eq(dut, 4)
    await eq.bench.start()
    eq.bench.set("now_i", 77)
    queue = await eq.create(7, 2)
    await eq.settle()
    queue["pi"] = queue["ci"] = M16 - 5
    eq.bench.dut.u_dyn.mem[7].value = (M16 - 5) << 33 | (M16 - 5) << 17  # nothing in use
    await eq.bench.step()
    for _ in range(12):
        eq.post(7)
        await eq.settle()
        eq.ring(7, queue["pi"])
        await eq.settle()
    for _ in range(5):
        eq.post(7)
    await eq.settle()
    assert queue["pi"] == 10 and eq.drops == 1


@cocotb.test()
async def doorbells_pass_what_waits(dut):
    """Design 9.9: doorbells are taken while neither an EQE nor its interrupt can go out."""
    eq = Eq(dut, 5, wr_rate=0.0)
    await eq.bench.start()
    eq.bench.set("now_i", 77)
    for eqn in range(3):
        await eq.create(eqn, 3)
    for turn in range(4):   # the EQE waits, then its interrupt, then the next EQE
        for eqn in range(3):
            eq.post(eqn)
        await eq.bench.step(5)
        start = eq.bench.cycle
        for n in range(20):
            eq.ring(n % 3, eq.queues[n % 3]["pi"])
        await eq.bench.until(eq.db.idle, what="doorbells")
        assert eq.bench.cycle - start < 20 * 2 + 10, "a doorbell waits"
        before = len(eq.wr.got)
        eq.wr.rate = 1.0
        while len(eq.wr.got) == before:
            await eq.bench.step()
        eq.wr.rate = 0.0
    eq.wr.rate = 1.0
    await eq.settle()


def test_eq():
    simulate("hca_eq", __name__, memories=["hca_ram_1r1w"])
