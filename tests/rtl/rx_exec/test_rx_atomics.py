"""hca_rx_exec with atomics: in the order of everything else that it writes, of all QPs, at any pace of memory.

Memory here is real: a write counts when it is accepted, a read sees what was accepted before it."""

import sys
from collections import deque
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
sys.path.insert(0, str(Path(__file__).resolve().parent))

import cocotb
from common import Sink, simulate, struct
from exec_bench import ATOMIC, ATOMIC_RESP, NONE, READ_RESP, SEND, WRITE, Env, bus
from hca_abi import WcOpcode, WcStatus, WrOpcode
from word_oracle import added, draw_masks, draw_tops, swapped

WORD = (1 << 64) - 1
GOOD, OTHER, BAD = 0x100, 0x200, 0x300
NAK_OP = 0x63


class AtomicEnv(Env):
    """Bytes of memory as they are, and as they will be when all that was submitted is over."""

    def __init__(self, dut, seed=1, rate=1.0, latency=12, reads=(5, 60)):
        super().__init__(dut, seed, rate, latency)
        self.rate, self.reads = rate, reads
        self.now, self.then, self.gone = {}, {}, set()
        self.waiting, self.offered = deque(), False
        self.requests = Sink(self.bench, "at_req", rate=rate, on_word=self._request)
        self.words = Sink(self.bench, "at_wr", rate=rate, on_word=self._word)

    def item(self, kind, qpn, size=0, **fields):
        """All QPs are of one function, so they have one memory."""
        super().item(kind, qpn, size, func=1, **fields)

    @staticmethod
    def first(addr):
        """A byte before anybody wrote it."""
        return addr * 0x9E3779B1 >> 11 & 0xFF

    def value(self, memory, addr):
        """The word there."""
        return int.from_bytes(bytes(memory.get(addr + n, self.first(addr + n)) for n in range(8)), "little")

    def _request(self, word):
        req = struct("dma_rd_req_t").unpack(word)
        line = req["addr"] & ~63
        data = sum(self.value(self.now, line + 8 * n) << 64 * n for n in range(8))
        err = req["addr"] in self.gone
        due = self.bench.cycle + self.rng.randint(*self.reads)
        self.waiting.append((due, struct("dma_rd_rsp_t").pack(last=1, err=err, data=0 if err else data)))

    def _word(self, word):
        beat = struct("dma_wr_t").unpack(word)
        lane = (beat["strb"] & -beat["strb"]).bit_length() - 1
        assert beat["strb"] == 0xFF << lane and beat["last"]
        for n in range(8):
            self.now[beat["addr"] + lane + n] = beat["data"] >> 8 * (lane + n) & 0xFF
        self.swapped += 1

    def _beat(self, word):
        super()._beat(word)
        beat = struct("dma_wr_t").unpack(word)
        for lane in range(64):
            if beat["strb"] >> lane & 1:
                self.now[beat["addr"] + lane] = beat["data"] >> 8 * lane & 0xFF

    def drive(self):
        self.offered = bool(self.waiting) and self.waiting[0][0] <= self.bench.cycle and (
            self.offered or self.rng.random() < self.rate)
        self.bench.set("at_rsp_valid_i", self.offered)
        self.bench.set("at_rsp_i", self.waiting[0][1] if self.offered else 0)

    def sample(self):
        super().sample()
        if self.offered and self.bench.get("at_rsp_ready_o"):
            self.waiting.popleft()
            self.offered = False

    def _bytes(self, *args):
        before = len(self.bytes)
        super()._bytes(*args)
        self.then.update(list(self.bytes)[before:])

    def _error(self, kind, values, *args):
        if kind == ATOMIC and values["va"] % 8:
            return 0x62, WcStatus.REM_ACCESS_ERR
        return super()._error(kind, values, *args)

    def _expect(self, kind, values, rsp, *args):
        if kind == ATOMIC and args[-1] is None and values["qpn"] not in self.bad_rq:
            addr = bus(values["rkey"], values["va"])
            if addr in self.gone:
                values["rsp"] = struct("rsp_job_t").pack(**dict(rsp, syndrome=NAK_OP, va=0))
            else:
                before = self.value(self.then, addr)
                values["rsp"] = struct("rsp_job_t").pack(**dict(rsp, va=before))
                compare = rsp["rkey"] << 32 | rsp["len_bytes"]
                masks = struct("at_masks_t").unpack(values["cqe"])
                after = rsp["va"] if rsp["stores"] else added(before, rsp["va"], compare)
                if rsp["cas"]:
                    after = swapped(before, compare, rsp["va"], (masks["compare"], masks["swap"]))
                if after is not None:
                    self.to_swap += 1
                    self.then.update((addr + n, after >> 8 * n & 0xFF) for n in range(8))
        super()._expect(kind, values, rsp, *args)

    def _end(self, name, word):
        if name == "rsp":   # where memory was gone the value says nothing
            job = struct("rsp_job_t").unpack(word)
            if job["atomic"] and job["syndrome"] == NAK_OP:
                word = struct("rsp_job_t").pack(**dict(job, va=0))
        super()._end(name, word)

    def atomic(self, qpn, va, key=GOOD, **fields):
        """One that hits now and then, an addition, or an ATOMIC WRITE; with masks now and then."""
        cas, stores = self.rng.choice(((1, 0), (0, 0), (0, 1)))
        compare = self.value(self.then, bus(key, va)) if self.rng.random() < 0.6 else self.rng.getrandbits(64)
        compare = compare if cas else draw_tops(self.rng)
        masks = draw_masks(self.rng)
        rsp = dict(read=1, atomic=1, cas=cas, stores=stores, va=self.rng.getrandbits(64), rkey=compare >> 32,
                   len_bytes=compare & 0xFFFFFFFF)
        masks = struct("at_masks_t").pack(compare=masks[0], swap=masks[1])
        self.item(ATOMIC, qpn, va=va, rkey=key, chk_bytes=8, rsp=rsp, masks=masks, **fields)

    async def finish(self):
        """All is over, and memory is what it must be."""
        await self.drain()
        assert {addr: self.now.get(addr) for addr in self.then} == self.then


def write(env, qpn, va, size, key=GOOD):
    env.item(WRITE, qpn, size, va=va, rkey=key, chk_bytes=size, rsp={})


async def mix(dut, seed, rate, latency, spread, reads=(5, 60)):
    env = await AtomicEnv(dut, seed, rate, latency, reads).start(1, 2, 3)
    rng = env.rng
    for _ in range(900):
        qpn, va = rng.choice((1, 2, 3)), 0x10000 + rng.randrange(spread) * 8
        choice = rng.random()
        if choice < 0.5:
            env.atomic(qpn, va)
        elif choice < 0.75:
            write(env, qpn, va + rng.randrange(8), rng.choice((1, 4, 8, 60, 64, 130, 600)))
        elif choice < 0.9:
            size = rng.randint(1, 40)
            env.item(SEND, qpn, size, sges=[(va, size, GOOD)], rsp={}, cqe={})
        else:
            env.item(READ_RESP, qpn, 16, sges=[(va, 16, GOOD)])
        if len(env.rxw.queue) > 20:
            await env.bench.until(lambda: len(env.rxw.queue) < 4, 20000, "items")
    await env.finish()


@cocotb.test()
@cocotb.parametrize(spread=[1, 12, 4000])
async def mix_fast(dut, spread):
    """WRITEs, SENDs and READ responses into the words themselves and beside them; nothing stalls."""
    await mix(dut, spread, 1.0, 12, spread)


@cocotb.test()
@cocotb.parametrize(spread=[2, 40])
async def mix_stalled(dut, spread):
    """Everything stalls; memory is slow."""
    await mix(dut, spread, 0.4, 30, spread, (100, 400))


@cocotb.test()
async def refused(dut):
    """KEY-31, REL-13: a key that is refused, an address that is none of a word: a NAK, and nothing more of this side of
    the QP until it resumes. Others go on."""
    env = await AtomicEnv(dut, 3).start(1, 2)
    for round_, place in enumerate(((0x1000, BAD), (0x1004, GOOD))):
        env.xlate.bad = {BAD}
        env.atomic(1, 0x2000)
        env.atomic(1, *place)
        env.atomic(1, 0x2000)
        write(env, 1, 0x2000, 8)
        env.item(NONE, 1, rsp=dict(read=1, atomic=1, again=1))
        env.atomic(2, 0x2000 + 8 * round_)
        env.item(READ_RESP, 1, 8, sges=[(0x9000, 8, GOOD)])
        env.item(NONE, 1, frees=0, resumes=1)
        env.atomic(1, 0x2000)
        await env.finish()


@cocotb.test()
async def memory_that_is_gone(dut):
    """The answer is a NAK in line with the others; those that followed it at the same word have none either."""
    env = await AtomicEnv(dut, 4).start(1, 2)
    env.gone.add(bus(GOOD, 0x4008))
    for _ in range(20):
        env.atomic(env.rng.choice((1, 2)), env.rng.choice((0x4000, 0x4008, 0x4010)))
    await env.finish()


@cocotb.test()
async def answers(dut):
    """STAT-2, OP-14: the original goes to its entry, wherever that is, and nowhere else."""
    env = await AtomicEnv(dut, 5).start(1)
    for va in (*range(0x1F00, 0x1F50), 0x1FF9, 0x1FFF):
        env.item(ATOMIC_RESP, 1, 8, sges=[(va, 8, GOOD)], list_bytes=64, rsp=dict(va=env.rng.getrandbits(64)),
                 cqe=dict(opcode=WcOpcode.FETCH_ADD))
        env.item(READ_RESP, 1, 24, sges=[(va + 0x1000, 24, OTHER)])
    await env.finish()
    bad = [dict(sges=[(0, 7, GOOD)]), dict(sges=[(0, 8, BAD)]), dict(head=dict(num_sge=0)),
           dict(head=dict(num_sge=2)), dict(head=dict(inline_data=1)),
           dict(head=dict(opcode=WrOpcode.RDMA_READ)), dict(head=dict(wqe_index=8)),
           dict(list_err=True)]
    env.xlate.bad = {BAD}
    for fields in bad:
        env.item(ATOMIC_RESP, 1, 8, **{"sges": [(0x100, 8, GOOD)], "list_bytes": 64, "rsp": {"va": 5}, **fields})
        env.item(ATOMIC_RESP, 1, 8, sges=[(0x200, 8, GOOD)], list_bytes=64, rsp=dict(va=6))
        env.item(NONE, 1, frees=0, resumes=1, cqe=dict(opcode=WcOpcode.FETCH_ADD, status=1))
        await env.finish()


@cocotb.test()
async def throughput(dut):
    """One hot word, and many, beside small WRITEs elsewhere."""
    for name, limit, place in (("hot", 3.1, lambda n: 0x8000), ("many", 5, lambda n: 0x8000 + 64 * (n % 512))):
        env = await AtomicEnv(dut, 6, reads=(60, 60)).start(1, 2)
        for n in range(300):
            env.atomic(1, place(n))
        await env.finish()
        cycles = (env.rsp.when[-1] - env.rsp.when[0]) / 299
        print(f"RATE atomics, {name}: {cycles:.2f} cycles each")
        assert cycles <= limit, (name, cycles)


def test_rx_atomics():
    simulate("hca_rx_exec", __name__)
