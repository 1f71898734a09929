"""hca_atomic against memory and a list: results in order, each what all before it have left; nobody writes beside it.

Memory is written when a write is accepted and read when a read is accepted: a block that reads too early finds what was
there before."""

import sys
from collections import Counter, deque
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
sys.path.insert(0, str(Path(__file__).resolve().parent))

import cocotb
from common import Bench, Sink, Source, simulate, struct
from word_oracle import added, draw_masks, draw_tops, swapped

OP, MASKS = struct("at_op_t"), struct("at_masks_t")
RESULT, WR = struct("at_result_t"), struct("dma_wr_t")
REQ, RSP = struct("dma_rd_req_t"), struct("dma_rd_rsp_t")
WORD = (1 << 64) - 1

DIGEST_BITS = 10
SAME_DIGEST = 1 << 8 | 1 << 8 + DIGEST_BITS    # bits of an address that fall into one of the digest


def digest_of(block):
    """Parities of every tenth bit of a block's number."""
    digest = 0
    while block:
        digest ^= block % (1 << DIGEST_BITS)
        block >>= DIGEST_BITS
    return digest


class Memory:
    """In-order reads like those of hca_dma_rd_port: at most `tags` at a time, each after its latency."""

    def __init__(self, bench, tags=16, latency=(20, 60), rate=1.0):
        self.bench, self.tags, self.latency, self.rate = bench, tags, latency, rate
        self.words, self.bad = {}, set()
        self.waiting = deque()   # [due cycle, response]
        self.reads, self.most = 0, 0
        self.offered = False
        self.ready = False
        bench.agents.append(self)

    def word(self, func, addr):
        """The word at a multiple of 8."""
        return self.words.setdefault((func, addr), (addr * 0x9E3779B97F4A7C15 + func) & WORD)

    def drive(self):
        self.ready = len(self.waiting) < self.tags and self.bench.rng.random() < self.rate
        self.bench.set("rd_req_ready_i", self.ready)
        self.offered = bool(self.waiting) and self.waiting[0][0] <= self.bench.cycle and (
            self.offered or self.bench.rng.random() < self.rate)
        self.bench.set("rd_rsp_valid_i", self.offered)
        self.bench.set("rd_rsp_i", self.waiting[0][1] if self.offered else 0)

    def sample(self):
        if self.offered and self.bench.get("rd_rsp_ready_o"):
            self.waiting.popleft()
            self.offered = False
        if self.ready and self.bench.get("rd_req_valid_o"):
            req = REQ.unpack(self.bench.get("rd_req_o"))
            addr, func = req["addr"], req["func"]
            assert addr % 8 == 0 and req["len_bytes"] == 8
            line = sum(self.word(func, addr - addr % 64 + 8 * n) << 64 * n for n in range(8))
            err = (func, addr) in self.bad
            due = self.bench.cycle + self.bench.rng.randint(*self.latency)
            self.waiting.append((due, RSP.pack(last=1, err=err, data=0 if err else line)))
            self.reads += 1
            self.most = max(self.most, len(self.waiting))

    def write(self, word):
        """A write was accepted."""
        beat = WR.unpack(word)
        lane = (beat["strb"] & -beat["strb"]).bit_length() - 1
        assert beat["last"] and not beat["msix"] and beat["strb"] == 0xFF << lane and lane % 8 == 0
        assert beat["addr"] % 64 == 0
        self.words[beat["func"], beat["addr"] + lane] = beat["data"] >> 8 * lane & WORD


class Model:
    """The block with its memory, and what must come out."""

    def __init__(self, dut, seed, rates=(1.0, 1.0, 1.0, 1.0), **memory):
        self.bench = Bench(dut, seed)
        self.rng = self.bench.rng
        self.ops = Source(self.bench, "op", "at_op_t", rate=rates[0])
        self.results = Sink(self.bench, "result", rate=rates[1])
        self.memory = Memory(self.bench, rate=rates[3], **memory)
        self.writes = Sink(self.bench, "wr", rate=rates[2], on_word=self.memory.write)
        self.truth, self.wanted, self.writing, self.flushes = {}, [], 0, 0
        self.under_way = []      # of those accepted, without a result yet
        self.ops.on_accept = lambda word: self.under_way.append(OP.unpack(word))
        self.results.on_word = lambda word: self.under_way.pop(0)

    def flush(self, func, addr):
        """A read of what all before it have left, and no more."""
        key = func, addr
        self.ops.put(OP.pack(func=func, addr=addr >> 3, cas=1, stores=1, swap_add=self.rng.getrandbits(64),
                             compare=self.memory.word(func, addr)))
        bad = key in self.memory.bad
        self.wanted.append((1, None) if bad else (0, self.truth.get(key, self.memory.word(func, addr))))
        self.flushes += 1

    def put(self, func, addr, cas=None, swap_add=None):
        """Compare and swap with a right or a wrong value, or add by fields, or store."""
        stores = cas is None and self.rng.random() < 0.3
        cas = not stores and self.rng.random() < 0.5 if cas is None else cas
        swap_add = self.rng.getrandbits(64) if swap_add is None else swap_add
        key = func, addr
        before = self.truth.get(key, self.memory.word(func, addr))
        masks, tops = draw_masks(self.rng), draw_tops(self.rng)
        # Right where it counts, or wrong somewhere.
        compare = before ^ self.rng.getrandbits(64) & ~masks[0] if self.rng.random() < 0.6 else self.rng.getrandbits(64)
        self.ops.put(OP.pack(func=func, addr=addr >> 3, cas=cas, stores=stores, swap_add=swap_add,
                             compare=compare if cas else tops, masks=MASKS.pack(compare=masks[0], swap=masks[1])))
        if key in self.memory.bad:
            self.wanted.append((1, None))
            return
        self.wanted.append((0, before))
        after = swap_add if stores else added(before, swap_add, tops)
        after = swapped(before, compare, swap_add, masks) if cas else after
        if after is not None:
            self.truth[key] = after
            self.writing += 1

    async def finish(self):
        """All results, and memory as it must be."""
        await self.bench.until(lambda: len(self.results.got) == len(self.wanted), 200_000, "results")
        await self.bench.step(20)
        for word, (err, value) in zip(self.results.got, self.wanted, strict=True):
            got = RESULT.unpack(word)
            assert got["err"] == err and (err or got["value"] == value)
        for (func, addr), value in self.truth.items():
            assert self.memory.word(func, addr) == value
        assert len(self.writes.got) == self.writing


@cocotb.test()
@cocotb.parametrize(rates=[(1, 1, 1, 1), (0.4, 1, 1, 1), (1, 0.3, 0.4, 0.5), (0.7, 0.9, 0.2, 0.9)],
                    places=[1, 3, 40, 2000])
async def results(dut, rates, places):
    """One word, few, and many; functions whose addresses are the same, words whose digests are; words that cannot be
    read."""
    model = Model(dut, places, rates, latency=(3, 90))
    await model.bench.start()
    spots = [(model.rng.choice((0, 1, 3)), model.rng.randrange(1 << 30) * 8) for _ in range(places)]
    spots += [(func ^ 1, addr) for func, addr in spots[:2]] + [(func, addr + 8) for func, addr in spots[:2]]
    spots += [(func, addr ^ SAME_DIGEST) for func, addr in spots[:3]]
    if places > 1:
        model.memory.bad.update(spots[1::7])
    for _ in range(800):
        do = model.flush if model.rng.random() < 0.1 else model.put
        do(*model.rng.choice(spots))
    await model.finish()


@cocotb.test()
async def masks_and_fields(dut):
    """OP-8, OP-9: each bit and field by itself, at the edges: carries out of the field below, all ones."""
    model = Model(dut, 8, latency=(3, 9))
    await model.bench.start()
    rng, before = model.rng, model.memory.word(0, 64)
    for bit in range(64):
        for flip, masks in ((1 << bit, (WORD ^ 1 << bit, WORD)), (1 << bit, (1 << bit, WORD)), (0, (0, 1 << bit))):
            swap, compare = rng.getrandbits(64), before ^ flip
            after = swapped(before, compare, swap, masks)
            assert (after is None) == (masks == (1 << bit, WORD))
            model.ops.put(OP.pack(addr=8, cas=1, swap_add=swap, compare=compare,
                                  masks=MASKS.pack(compare=masks[0], swap=masks[1])))
            model.wanted.append((0, before))
            before, model.writing = before if after is None else after, model.writing + (after is not None)
        for tops, add in ((1 << bit, WORD), (1 << bit, 1), (1 << bit | 1 << 63, 1 << bit), (WORD ^ 1 << bit, WORD)):
            model.ops.put(OP.pack(addr=8, swap_add=add, compare=tops))
            model.wanted.append((0, before))
            before, model.writing = added(before, add, tops), model.writing + 1
    model.truth[0, 64] = before
    await model.finish()


@cocotb.test()
async def a_hot_word(dut):
    """What is under way is its own source: two cycles each, and hardly a read."""
    model = Model(dut, 5, latency=(125, 125))
    await model.bench.start()
    for _ in range(600):
        model.put(0, 4096, cas=False)
    await model.finish()
    span = model.results.when[-1] - model.results.when[0]
    assert span <= 2 * 600 and model.memory.reads == 1, (span, model.memory.reads)


@cocotb.test()
async def flushes(dut):
    """Each reads, whatever is under way at its address, and only when all before it have written; as many at a time as
    the port has; nobody behind one takes its value, or waits for more than its read to begin."""
    model = Model(dut, 9, latency=(125, 125))
    await model.bench.start()
    for n in range(400):
        model.flush(0, 4096 + 8 * (n % 3))
    await model.finish()
    span = model.results.when[-1] - model.results.when[0]
    assert model.memory.reads == 400 and model.memory.most == 16 and span < 400 * 130 / 16
    for n in range(60):
        model.put(0, 4096, cas=False)
        model.flush(0, 4096 if n % 2 else 1 << 20)
    before = model.memory.reads
    await model.finish()
    assert model.memory.reads - before >= model.flushes - 400
    model.writes.got.clear()
    assert not model.bench.get("hold_o")


@cocotb.test()
async def many_words(dut):
    """As many reads at a time as the port has, and none of them is waited for alone."""
    model = Model(dut, 6, latency=(125, 125))
    await model.bench.start()
    for n in range(600):
        model.put(0, 64 * n)
    await model.finish()
    span = model.results.when[-1] - model.results.when[0]
    assert model.memory.most == 16 and span < 600 * 130 / 16, (span, model.memory.most)


@cocotb.test()
@cocotb.parametrize(stall=[0.1, 1.0])
async def bursts_wait(dut, stall):
    """hold_o covers everything from the cycle after its acceptance to its write; with nothing under way it is off."""
    model = Model(dut, 7, (0.2, 1, stall, 0.5), latency=(3, 40))
    bench = model.bench
    await bench.start()
    for _ in range(400):
        model.put(model.rng.choice((0, 1)), model.rng.randrange(1 << 12) * 8)
    seen = Counter()
    while len(model.results.got) < 400:
        func, block = model.rng.choice((0, 1)), model.rng.randrange(1 << 7)
        near = [op for op in model.under_way if (op["func"], op["addr"] >> 5) == (func, block)]
        if model.under_way and model.rng.random() < 0.5:
            chosen = model.rng.choice(model.under_way)
            func, block = chosen["func"], chosen["addr"] >> 5
            near = [chosen]
        # Those whose write has been accepted have a result on its way; they may be let go.
        done = len(model.writes.got)
        bench.set("look_func_i", func)
        bench.set("look_digest_i", digest_of(block))
        idle = not model.under_way
        await bench.step()
        still = [op for op in near if op in model.under_way]
        if still and len(model.writes.got) == done and not bench.get("hold_o"):
            # It has been finished before this cycle: its result is what comes out next, or is a comparison that failed.
            await bench.step(3)
            assert not [op for op in still if op in model.under_way] or bench.get("result_valid_o")
        seen[bool(near)] += 1
        if idle and not model.under_way:
            assert not bench.get("hold_o")
    await model.finish()
    assert min(seen.values()) > 50


def test_atomic():
    simulate("hca_atomic", __name__)
