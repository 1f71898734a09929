"""hca_msg_pool beside a model of QPs that begin messages, complete them in order, and end."""

import random

import cocotb
from common import Bench, constants, simulate

LIMITS = constants()
NUM_QPS, BLOCKS, ROWS = LIMITS["NumQps"], LIMITS["MsgBlocks"], LIMITS["MsgBlockRows"]
WINDOW = LIMITS["MaxOutstanding"]


class Pool:
    """The pool, with who has which block."""

    def __init__(self, dut, seed):
        self.bench, self.rng = Bench(dut, seed), random.Random(seed)
        self.begun, self.una, self.blocks = {}, {}, {}   # by QPN; blocks: oldest first

    async def start(self):
        """Reset; the tables are cleared."""
        for name in ("alloc_i", "map_en_i", "free_i", "clear_i", "clear_init_i", "mark_ready_i"):
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

    async def begin(self, qpn):
        """The QP begins a message: with room, or with nothing outstanding. False: it must wait."""
        wqe = self.begun.setdefault(qpn, 0)
        una = self.una.setdefault(qpn, 0)
        if wqe - una // ROWS * ROWS >= WINDOW:
            return False
        if wqe % ROWS == 0:
            if wqe != una and not self.bench.get("room_o"):
                return False
            await self.bench.until(lambda: self.bench.get("alloc_ready_o"), 4, "a block: it is free")
            block = self.bench.get("alloc_blk_o")
            assert block not in self.held(), f"block {block} has an owner"
            await self.strobe("alloc_i", alloc_qpn_i=qpn, alloc_wqe_i=wqe & 0xFFFF)
            self.blocks.setdefault(qpn, []).append(block)
        self.begun[qpn] = wqe + 1
        return True

    async def complete(self, qpn):
        """The QP's oldest message completes."""
        wqe = self.una[qpn]
        if wqe % ROWS == 0 or self.rng.random() < 0.1:
            await self.strobe("map_en_i", qpn_i=qpn, map_wqe_i=wqe & 0xFFFF)
            assert self.bench.get("map_blk_o") == self.blocks[qpn][0]
        if wqe % ROWS == ROWS - 1:
            block = self.blocks[qpn].pop(0)
            await self.strobe("free_i", qpn_i=qpn, free_blk_i=block, free_wqe_i=wqe & 0xFFFF)
        self.una[qpn] = wqe + 1

    async def clear(self, qpn, init):
        """The QP ends, or begins anew."""
        bench = self.bench
        for name, value in (("qpn_i", qpn), ("clear_init_i", init), ("mark_wqe_i", self.begun.get(qpn, 0) & 0xFFFF)):
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
        else:
            await pool.clear(qpn, 0)
            await pool.clear(qpn, 1)
    for qpn in qpns:
        await pool.clear(qpn, 1)
    assert not pool.held()
    await everybody(pool)


async def everybody(pool):
    """All blocks are there: one QP after another takes its window, as long as there is room."""
    qpn = 0
    while pool.bench.get("room_o"):
        while await pool.begin(qpn):
            pass
        qpn += 1
    assert len(pool.held()) >= BLOCKS - NUM_QPS - 8


def test_msg_pool():
    """Runs the tests of this file."""
    simulate("hca_msg_pool", "test_msg_pool")
