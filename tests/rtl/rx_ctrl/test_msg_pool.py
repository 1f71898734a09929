"""hca_msg_pool beside a model of QPs that begin messages, complete them in order, and end."""

import random
from collections import deque

import cocotb
from common import Bench, constants, simulate
from hca_abi import WQE_INDEX_BITS

LIMITS = constants()
NUM_QPS, BLOCKS, ROWS = LIMITS["NumQps"], LIMITS["MsgBlocks"], LIMITS["MsgBlockRows"]
WINDOW = LIMITS["MaxOutstanding"]
WQE_MASK = (1 << WQE_INDEX_BITS) - 1
NEAR_WRAP = (1 << WQE_INDEX_BITS) // ROWS - 3   # of the places, by their first WQE


class Pool:
    """The pool, with who has which block."""

    def __init__(self, dut, seed):
        self.bench, self.rng = Bench(dut, seed), random.Random(seed)
        self.begun, self.una, self.blocks, self.newest = {}, {}, {}, {}   # by QPN; blocks: oldest first
        self.offer = 0, 0
        self.bench.agents.append(self)

    def drive(self):
        """Nothing of its own."""

    def sample(self):
        """What the pool offers in this cycle."""
        self.offer = self.bench.get("alloc_ready_o"), self.bench.get("alloc_blk_o")

    async def start(self):
        """Reset; the tables are cleared."""
        for name in ("alloc_i", "map_en_i", "next_en_i", "free_i", "clear_i", "clear_init_i", "clear_quiet_i", "peek_i",
                     "mark_ready_i"):
            self.bench.set(name, 0)
        await self.bench.start()
        await self.bench.until(lambda: self.bench.get("ready_o"), NUM_QPS + 8, "reset")
        return self

    def held(self):
        """All blocks that somebody has."""
        return [block for blocks in self.blocks.values() for block in blocks]

    async def strobe(self, name, **fields):
        """One cycle with a strobe, and one to see what came of it."""
        for field, value in fields.items():
            self.bench.set(field, value)
        self.bench.set(name, 1)
        await self.bench.step()
        self.bench.set(name, 0)
        await self.bench.step()

    async def alloc(self, qpn, wqe):
        """The QP gets a block within some cycles."""
        for field, value in (("alloc_qpn_i", qpn), ("alloc_wqe_i", wqe & WQE_MASK),
                             ("alloc_tail_i", self.newest.get(qpn, self.rng.randrange(BLOCKS))), ("alloc_i", 1)):
            self.bench.set(field, value)
        for _ in range(8):
            await self.bench.step()
            if self.offer[0]:
                break
        assert self.offer[0], "no block, and one is free"
        self.bench.set("alloc_i", 0)
        block = self.offer[1]
        if self.rng.random() < 0.5:
            await self.bench.step()
        return block

    async def begin(self, qpn):
        """The QP begins a message: with room, or with nothing outstanding. False: it must wait."""
        wqe = self.begun.setdefault(qpn, 0)
        una = self.una.setdefault(qpn, 0)
        if wqe - una // ROWS * ROWS >= WINDOW:
            return False
        if wqe % ROWS == 0:
            if wqe != una and not self.bench.get("room_o"):
                return False
            block = await self.alloc(qpn, wqe)
            assert block not in self.held(), f"block {block} has an owner"
            self.blocks.setdefault(qpn, []).append(block)
            self.newest[qpn] = block
        self.begun[qpn] = wqe + 1
        return True

    async def complete(self, qpn):
        """The QP's oldest message completes."""
        wqe = self.una[qpn]
        if wqe % ROWS == 0 or self.rng.random() < 0.1:
            await self.strobe("map_en_i", qpn_i=qpn)
            assert self.bench.get("map_blk_o") == self.blocks[qpn][0]
            if self.rng.random() < 0.5:   # and those behind it, two cycles behind what came back
                await self.bench.step()
                for block, behind in zip(self.blocks[qpn], self.blocks[qpn][1:]):
                    await self.strobe("next_en_i", qpn_i=qpn, next_of_i=block)
                    assert self.bench.get("map_blk_o") == behind
                await self.strobe("map_en_i", qpn_i=qpn)
                assert self.bench.get("map_blk_o") == self.blocks[qpn][0]
        if wqe % ROWS == ROWS - 1:
            block = self.blocks[qpn].pop(0)
            await self.strobe("free_i", qpn_i=qpn, free_blk_i=block, free_wqe_i=wqe & WQE_MASK)
        self.una[qpn] = wqe + 1

    async def clear(self, qpn, init):
        """The QP ends, or begins anew."""
        bench = self.bench
        for name, value in (("qpn_i", qpn), ("clear_init_i", init), ("mark_wqe_i", self.begun.get(qpn, 0) & WQE_MASK)):
            bench.set(name, value)
        bench.set("clear_i", 1)
        for _ in range(self.rng.choice((0, 0, 5))):
            await bench.step()
            assert not bench.get("mark_en_o")
        bench.set("mark_ready_i", 1)
        count = len(self.blocks.pop(qpn, []))
        await bench.until(lambda: bench.get("clear_done_o"), 2 * count + 8, "the clear")
        bench.set("mark_ready_i", 0)
        await bench.step(self.rng.randint(0, 1))
        bench.set("clear_i", 0)
        # The next context write stands there already.
        bench.set("clear_init_i", self.rng.randint(0, 1))
        bench.set("qpn_i", self.rng.randrange(NUM_QPS))
        await bench.step(2)
        if init:
            self.begun[qpn] = self.una[qpn] = 0


    async def clear_quiet(self, qpn):
        """The QP has nothing outstanding, and another one has its place: over in the second cycle."""
        bench = self.bench
        assert self.begun[qpn] == self.una[qpn]
        for name in ("clear_init_i", "clear_quiet_i", "peek_i"):
            bench.set(name, 1)
        bench.set("qpn_i", qpn)
        bench.set("clear_wqe_i", 0)
        await bench.step(self.rng.choice((1, 1, 2, 5)))
        bench.set("clear_i", 1)
        await bench.until(lambda: bench.get("clear_done_o"), 4, "the clear")   # one that comes back goes first
        await bench.step(self.rng.randint(1, 2))
        for name in ("clear_i", "peek_i", "clear_quiet_i"):
            bench.set(name, 0)
        await bench.step(1)
        self.blocks.pop(qpn, [])
        self.begun[qpn] = self.una[qpn] = 0


@cocotb.test()
async def everybody_finds_a_block(dut):
    """Design 9.4, 9.10: few QPs take all there is room for; every other one can begin all the same; nothing is lost
    when they end."""
    pool = await Pool(dut, 1).start()
    for turn in range(2):
        greedy = range(40)
        for qpn in greedy:
            while await pool.begin(qpn):
                pass
        shared = len(pool.held())
        assert BLOCKS - NUM_QPS - 8 <= shared <= BLOCKS - NUM_QPS + len(greedy), shared
        assert not pool.bench.get("room_o")
        for qpn in range(len(greedy), NUM_QPS):
            assert await pool.begin(qpn)
        for qpn in range(NUM_QPS):
            await pool.clear(qpn, turn)
            await pool.clear(qpn, 1)
        assert not pool.held()


@cocotb.test()
async def random_lives(dut):
    """Design 9.4, 9.10: no block has two owners, none is lost: random beginnings, ends and new lives; indices wrap."""
    pool = await Pool(dut, 2).start()
    qpns = (0, 1, 7, NUM_QPS - 1)
    for qpn in qpns:
        pool.begun[qpn] = pool.una[qpn] = 0
    for _ in range(3000):
        qpn, kind = pool.rng.choice(qpns), pool.rng.random()
        if kind < 0.5:
            for _ in range(pool.rng.choice((1, 7, 40, 300))):
                if not await pool.begin(qpn):
                    break
        elif kind < 0.99:
            for _ in range(pool.rng.randint(0, pool.begun[qpn] - pool.una[qpn])):
                await pool.complete(qpn)
            if pool.begun[qpn] == pool.una[qpn] and pool.rng.random() < 0.5:
                await pool.clear_quiet(qpn)
        else:
            await pool.clear(qpn, 0)
            await pool.clear(qpn, 1)
    for qpn in qpns:
        await pool.clear(qpn, 1)
    assert not pool.held()
    await everybody(pool)


class AtOnce:
    """Both sides of the pool at work in every cycle: a block per QP begun or completed, by their places."""

    def __init__(self, bench, qpns):
        self.bench, self.rng, self.qpns = bench, bench.rng, qpns
        self.blocks = {qpn: [] for qpn in qpns}      # of places una .. begun
        self.una = dict.fromkeys(qpns, NEAR_WRAP)
        self.newest = dict.fromkeys(qpns, 0)
        self.asking = self.freeing = self.mapping = self.again = self.ending = None
        self.ended, self.peeks, self.rest = 0, 0, 0
        self.answered, self.mapped, self.allocs = deque(), 0, 0
        bench.agents.append(self)

    def drive(self):
        """What each side does in this cycle."""
        bench, rng = self.bench, self.rng
        if self.asking is None and rng.random() < (0.5 if bench.cycle % 400 < 200 else 0.05):
            qpn = rng.choice(self.qpns)
            if qpn != self.ending and len(self.blocks[qpn]) < WINDOW // ROWS:
                self.asking = qpn
                place = self.una[qpn] + len(self.blocks[qpn])
                for name, value in (("alloc_qpn_i", qpn), ("alloc_wqe_i", place * ROWS & WQE_MASK),
                                    ("alloc_tail_i", self.newest[qpn])):
                    bench.set(name, value)
        bench.set("alloc_i", self.asking is not None)
        self.freeing = self.mapping = None
        if self.ending is None and rng.random() < 0.1:
            quiet = [qpn for qpn in self.qpns if qpn != self.asking and len(self.blocks[qpn]) < 2]
            self.ending, self.peeks = (rng.choice(quiet) if quiet else None), 0
        for name in ("clear_quiet_i", "clear_init_i", "peek_i"):
            bench.set(name, self.ending is not None)
        bench.set("clear_i", self.ending is not None and self.peeks > 0)
        if self.ending is not None:
            bench.set("qpn_i", self.ending)
            bench.set("clear_wqe_i", NEAR_WRAP * ROWS)
            bench.set("map_en_i", 0)
            bench.set("free_i", 0)
            return
        qpn = self.again if self.again is not None and rng.random() < 0.7 else rng.choice(self.qpns)
        if self.blocks[qpn]:
            kind = rng.random()
            if kind < 0.4:
                self.mapping = qpn
            elif kind < 0.6 and self.again is None and bench.cycle > self.rest + 2:
                self.freeing = qpn
        bench.set("qpn_i", qpn)
        bench.set("map_en_i", self.mapping is not None)
        bench.set("free_i", self.freeing is not None)
        if self.freeing is not None:
            bench.set("free_blk_i", self.blocks[qpn][0])
            bench.set("free_wqe_i", self.una[qpn] * ROWS + ROWS - 1 & WQE_MASK)

    def sample(self):
        """What came of it."""
        if self.answered:
            assert self.bench.get("map_blk_o") == self.answered.popleft()
            self.mapped += 1
        if self.mapping is not None:
            self.answered.append(self.blocks[self.mapping][0])
        self.again = None
        if self.ending is not None:
            assert self.peeks < 6, "the clear"
            self.peeks += 1
            if self.bench.get("clear_i") and self.bench.get("clear_done_o"):
                self.blocks[self.ending], self.una[self.ending], self.ending = [], NEAR_WRAP, None
                self.ended, self.rest = self.ended + 1, self.bench.cycle
        if self.freeing is not None:
            self.blocks[self.freeing].pop(0)
            self.una[self.freeing] += 1
            self.again = self.freeing
        if self.asking is not None and self.bench.get("alloc_ready_o"):
            block = self.bench.get("alloc_blk_o")
            assert all(block not in blocks for blocks in self.blocks.values()), f"block {block} has an owner"
            self.blocks[self.asking].append(block)
            self.newest[self.asking] = block
            self.asking = None
            self.allocs += 1


@cocotb.test()
@cocotb.parametrize(count=[1, 3, 50])
async def at_once(dut, count):
    """Design 9.10: blocks are taken while others, of the same QP or not, come back and are asked for: the oldest one is
    always right, and no block has two owners. The pool is gone through several times."""
    pool = await Pool(dut, count).start()
    bench = pool.bench
    qpns = [bench.rng.randrange(NUM_QPS) for _ in range(count)]
    for qpn in dict.fromkeys(qpns):
        # The QP begins where its places nearly wrap.
        for name, value in (("qpn_i", qpn), ("clear_init_i", 1), ("clear_wqe_i", NEAR_WRAP * ROWS), ("clear_i", 1),
                            ("mark_wqe_i", 0), ("mark_ready_i", 1)):
            bench.set(name, value)
        await bench.until(lambda: bench.get("clear_done_o"), 16, "the clear")
        await bench.step()
        bench.set("clear_i", 0)
        await bench.step(2)
    work = AtOnce(bench, list(dict.fromkeys(qpns)))
    await bench.step(30000)
    assert work.allocs > 2000 and work.mapped > 2000 and work.ended > 500, (work.allocs, work.mapped, work.ended)


async def everybody(pool):
    """All blocks are there: one QP after another takes its window, as long as there is room."""
    qpn = 0
    while pool.bench.get("room_o"):
        while await pool.begin(qpn):
            pass
        qpn += 1
    assert len(pool.held()) >= BLOCKS - NUM_QPS + qpn - 8


def test_msg_pool():
    """Runs the tests of this file."""
    simulate("hca_msg_pool", "test_msg_pool")
