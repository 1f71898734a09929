"""Bench of hca_cq, and a model of it."""

from collections import Counter

import hca_abi as abi
from common import Bench, Sink, Source, struct

CQE, WC, JOB, DB = struct("cqe_t"), struct("wc_t"), struct("cqe_job_t"), struct("cq_db_t")
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
        # Of events that may come besides, when their waits are over: where one ended just when something else happened,
        # that may have begun another one.
        self.spares = []


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
        await self.bench.until(lambda: self.cqe.idle() and self.db.idle(), what="jobs before the new moderation")
        queue = self.queues[cqn]
        queue.count, queue.cycles = count, cycles
        await self.write(cqn, queue, valid=0, moderate=1, base=0, log_size=0, eqn=0, ignore_overrun=0)

    def post(self, cqn, solicited=0, status=0, valid=1):
        wc = WC.random(self.bench.rng, status=status)
        self.cqe.put(JOB.pack(valid=valid, solicited=solicited, cqn=cqn, wc=wc))

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
        cqe = {**dict.fromkeys(CQE.fields, 0), **WC.unpack(job["wc"])}   # what is reserved is 0
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
        elif self.over(queue):
            queue.spares.append(self.bench.cycle + queue.cycles)

    def over(self, queue):
        """A wait of this queue is over, or may be."""
        return any(until <= self.bench.cycle for until in [queue.until, *queue.spares] if until is not None)

    def times_out(self, cqn, queue):
        """An event that nothing else explains: the wait of its queue is over, and not before its time."""
        if queue.until is None or self.bench.cycle < queue.until:
            assert self.over(queue), f"CQ {cqn} at {self.bench.cycle}: over at {queue.until} {queue.spares}"
            queue.spares.remove(min(queue.spares))
        else:
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
            queue.spares.append(self.bench.cycle)
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
