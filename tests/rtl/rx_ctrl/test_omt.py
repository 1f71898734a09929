"""hca_omt beside a model of QPs that begin messages, complete them in order, and go on behind a send queue error at a
WQE amid a block: no row is another's, no block is lost or has two owners."""

import cocotb
from common import Bench, Source, constants, simulate, struct
from hca_abi import WQE_INDEX_BITS, WrOpcode

LIMITS = constants()
NUM_QPS, BLOCKS, ROWS = LIMITS["NumQps"], LIMITS["MsgBlocks"], LIMITS["MsgBlockRows"]
WINDOW = LIMITS["MaxOutstanding"]
BLK_W = (BLOCKS - 1).bit_length()
WQE_MASK, PSN_MASK = (1 << WQE_INDEX_BITS) - 1, 0xFFFFFF
ANSWERED = {WrOpcode.RDMA_READ, WrOpcode.ATOMIC_CMP_AND_SWP, WrOpcode.ATOMIC_FETCH_AND_ADD, WrOpcode.ATOMIC_WRITE,
            WrOpcode.MASKED_ATOMIC_CMP_AND_SWP, WrOpcode.MASKED_ATOMIC_FETCH_AND_ADD, WrOpcode.FLUSH}


def packed(**fields):
    """Fields as name=(value, width), first one in the upper bits."""
    word = 0
    for value, width in fields.values():
        assert 0 <= value < 1 << width
        word = word << width | value
    return word


def ask_word(map_en=0, next_en=0, row_en=0, wqe=0, blk=0, free=0, free_blk=0, free_wqe=0):
    """omt_ask_t."""
    return packed(map_en=(map_en, 1), next_en=(next_en, 1), row_en=(row_en, 1),
                  wqe=(wqe & WQE_MASK, WQE_INDEX_BITS), blk=(blk, BLK_W), free=(free, 1), free_blk=(free_blk, BLK_W),
                  free_wqe=(free_wqe & WQE_MASK, WQE_INDEX_BITS))


class Table:
    """The table, with what every QP has in it."""

    def __init__(self, dut, seed):
        self.bench = Bench(dut, seed)
        self.rng = self.bench.rng
        self.omt = Source(self.bench, "omt")
        self.begun, self.una, self.psn = {}, {}, {}
        self.rows, self.blocks = {}, {}     # by QPN; blocks: {place: block}, None until it is the oldest one

    async def start(self, *qpns):
        """Reset; the tables are cleared; the QPs begin."""
        await self.bench.start()
        await self.bench.until(lambda: self.bench.get("omt_ready_o"), NUM_QPS + 8, "reset")
        for qpn in qpns:
            await self.clear(qpn, 0)
        return self

    def held(self):
        """All blocks that somebody has."""
        return [block for blocks in self.blocks.values() for block in blocks.values() if block is not None]

    async def ask(self, qpn, **fields):
        """One cycle with a question, and one to see the answer."""
        self.bench.set("qpn_i", qpn)
        self.bench.set("ask_i", ask_word(**fields))
        await self.bench.step()
        self.bench.set("ask_i", 0)
        await self.bench.step()

    async def block_of(self, qpn, wqe):
        """The block of the oldest WQE: always the same one."""
        await self.ask(qpn, map_en=1, wqe=wqe)
        block, mine = self.bench.get("blk_o"), self.blocks[qpn]
        if mine[wqe // ROWS] is None:
            assert block not in self.held(), f"block {block} has an owner"
            mine[wqe // ROWS] = block
        assert mine[wqe // ROWS] == block
        return block

    async def begin(self, qpn, again=False):
        """The QP begins a message, or repeats the newest one. False: it must wait."""
        wqe, una = self.begun[qpn], self.una[qpn]
        if again and wqe > una:
            wqe -= 1
            await self._record(qpn, wqe, self.rows[qpn][wqe])
            return True
        if wqe - una // ROWS * ROWS >= WINDOW:
            return False
        fresh = wqe // ROWS not in self.blocks.get(qpn, {})
        if fresh and wqe != una and not self.bench.get("room_o"):
            return False
        row = dict(opcode=self.rng.getrandbits(4), signaled=self.rng.getrandbits(1), last_psn=self.psn[qpn],
                   len_bytes=self.rng.getrandbits(32))
        await self._record(qpn, wqe, row)
        if fresh:
            self.blocks.setdefault(qpn, {})[wqe // ROWS] = None
        self.rows.setdefault(qpn, {})[wqe] = row
        self.begun[qpn], self.psn[qpn] = wqe + 1, self.psn[qpn] + 1 & PSN_MASK
        return True

    async def _record(self, qpn, wqe, row):
        self.omt.put(struct("omt_wr_t").pack(first=1, qpn=qpn, wqe_index=wqe & WQE_MASK,
                                             next_psn=row["last_psn"] + 1 & PSN_MASK, **row))
        await self.bench.until(self.omt.idle, 20, "a record is taken")
        await self.bench.step(2)

    async def complete(self, qpn):
        """The QP's oldest message completes: its row is what was written."""
        wqe = self.una[qpn]
        block = await self.block_of(qpn, wqe)
        await self.ask(qpn, row_en=1, wqe=wqe, blk=block)
        row = self.rows[qpn].pop(wqe)
        want = packed(answered=(row["opcode"] in ANSWERED, 1), opcode=(row["opcode"], 8),
                      signaled=(row["signaled"], 1), last_psn=(row["last_psn"], 24), len_bytes=(row["len_bytes"], 32))
        assert self.bench.get("row_o") == want
        if wqe % ROWS == ROWS - 1:
            del self.blocks[qpn][wqe // ROWS]
            await self.ask(qpn, free=1, free_blk=block, free_wqe=wqe)
        self.una[qpn] = wqe + 1

    async def clear(self, qpn, wqe, init=True):
        """The QP ends (not init), or goes on, or begins anew, at a WQE."""
        bench, rng = self.bench, self.rng
        psn = rng.getrandbits(24)
        count = len(self.blocks.pop(qpn, {}))
        self.rows.pop(qpn, None)
        bench.set("qpn_i", qpn)
        bench.set("clear_init_i", init)
        bench.set("clear_quiet_i", 0)
        bench.set("init_mark_i", packed(wqe=(wqe & WQE_MASK, WQE_INDEX_BITS), psn=(psn, 24)))
        bench.set("clear_i", 1)
        # done_o falls with the clock's edge behind it: what counts is the cycle in which it is seen.
        await bench.until(lambda: bench.get("clear_done_o"), 2 * count + 12, "the clear")
        bench.set("init_i", init)
        await bench.step()
        bench.set("init_i", 0)
        bench.set("clear_i", 0)
        bench.set("clear_init_i", rng.getrandbits(1))
        bench.set("init_mark_i", rng.getrandbits(40))
        bench.set("qpn_i", rng.randrange(NUM_QPS))
        await bench.step(2)
        if init:
            self.begun[qpn] = self.una[qpn] = wqe
            self.psn[qpn] = psn
            bench.set("mark_qpn_i", qpn)
            bench.set("mark_en_i", 1)
            await bench.step()
            bench.set("mark_en_i", 0)
            await bench.step()
            assert bench.get("mark_o") == packed(wqe=(wqe & WQE_MASK, WQE_INDEX_BITS), psn=(psn, 24))


@cocotb.test()
async def goes_on_amid_a_block(dut):
    """QPS-12: back from SQE at any WQE, with and without messages before and behind, many times over; ends at once, or
    behind some messages."""
    table = await Table(dut, 1).start(5, 6)
    for at in [*range(20), 250, 255, 256, 257, 65535, 65530]:
        for sent in (0, 1, 5, 8, 17):
            await table.clear(5, at)
            for _ in range(sent):
                assert await table.begin(5) and await table.begin(6)
            for _ in range(table.rng.randint(0, sent)):
                await table.complete(5)
            while table.una[6] != table.begun[6]:
                await table.complete(6)
            if table.rng.random() < 0.3:
                await table.clear(5, 0, init=False)
    await ends(table, (5, 6))


@cocotb.test()
async def random_lives(dut):
    """QPS-12, design 9.4: random beginnings, completions, repetitions, returns from SQE anywhere, and ends; indices
    wrap."""
    qpns = (0, 1, 7, NUM_QPS - 1)
    table = await Table(dut, 2).start(*qpns)
    rng = table.rng
    for _ in range(1500):
        qpn, kind = rng.choice(qpns), rng.random()
        if kind < 0.5:
            for _ in range(rng.choice((1, 3, 7, 40, 300))):
                if not await table.begin(qpn, again=rng.random() < 0.1):
                    break
        elif kind < 0.8:
            for _ in range(rng.randint(0, table.begun[qpn] - table.una[qpn])):
                await table.complete(qpn)
        elif kind < 0.97:
            # What was flushed is over: anywhere from the oldest WQE to a ring further on.
            await table.clear(qpn, table.una[qpn] + rng.choice((0, 1, 5, 8, 300, 30000)))
        else:
            if rng.random() < 0.5:
                await table.clear(qpn, 0, init=False)
            await table.clear(qpn, 0)
    await ends(table, qpns)


async def ends(table, qpns):
    """All blocks are there when the QPs have ended: one QP after another takes its window, as long as there is room."""
    for qpn in qpns:
        await table.clear(qpn, 0)
    assert not table.held()
    qpn, taken = 0, 0
    while table.bench.get("room_o"):
        await table.clear(qpn, 0)
        while table.begun[qpn] < WINDOW and table.bench.get("room_o"):
            # One record per block: the mark may leap, rows without one are nobody's.
            table.begun[qpn] = taken_at = table.begun[qpn]
            await table.begin(qpn)
            table.begun[qpn] = taken_at + ROWS
            table.psn[qpn] = table.psn[qpn] + ROWS & PSN_MASK
            taken += 1
        qpn += 1
    # A place for each QP that has none, and what may be under way.
    assert BLOCKS - NUM_QPS + qpn - 8 <= taken <= BLOCKS - NUM_QPS + qpn, taken


def test_omt():
    """Runs the tests of this file."""
    simulate("hca_omt", "test_omt")
