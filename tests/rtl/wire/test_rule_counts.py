"""hca_rule_counts: frames and bytes of each rule (V-85), read a word at a time while they move."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import cocotb
from common import Bench, simulate, struct
from hca_abi import RULES

RULE_WR, RULE_ROW = struct("rule_wr_t"), struct("rule_row_t")


class Counts:
    """The bench, and what it has counted."""

    def __init__(self, dut, seed):
        self.bench = Bench(dut, seed)
        self.rng = self.bench.rng
        self.sums = [[0, 0] for _ in range(RULES)]
        self.last, self.busy = None, 0
        self.counts = True
        self.gone = set()

    async def step(self):
        """A cycle, in which a rule has a frame or not: never the same one in two cycles that follow each other, and
        there is a cycle between two frames, of which a frame of many rules takes one for each."""
        rule, size = self.rng.randrange(RULES), self.rng.choice([14, 60, 4114])
        counts = self.counts and rule != self.last and self.rng.random() < 0.8 and rule not in self.gone
        counts = counts and self.busy < 8
        self.busy = self.busy + 1 if counts else 0
        self.last = rule if counts else None
        self.bench.set("count_i", counts)
        self.bench.set("rule_i", rule)
        self.bench.set("bytes_i", size)
        await self.bench.step()
        if counts:
            self.sums[rule][0] += 1
            self.sums[rule][1] += size

    async def clear(self, rule):
        """The row is nobody's; a frame may come in the same cycle, and none later."""
        self.bench.set("rule_wr_i", RULE_WR.pack(valid=1, index=rule, row=RULE_ROW.random(self.rng, valid=0)))
        await self.step()
        self.bench.set("rule_wr_i", 0)
        self.sums[rule] = [0, 0]

    async def word(self, rule, at):
        self.bench.set("rd_i", 1)
        self.bench.set("word_i", rule << 2 | at)
        await self.step()
        self.bench.set("rd_i", 0)
        self.bench.set("word_i", self.rng.getrandbits(7))
        await self.step()
        return self.bench.get("data_o")

    async def read(self, rule):
        """Packets and bytes, with pauses between the words."""
        words = []
        for at in range(4):
            words.append(await self.word(rule, at))
            for _ in range(self.rng.randrange(1, 3)):
                await self.step()
        return words[0] | words[1] << 32, words[2] | words[3] << 32


@cocotb.test()
async def v_85_frames_and_bytes(dut):
    """All words are of one moment, each rule's are its own, and a row that is cleared begins anew."""
    counts = Counts(dut, 71)
    await counts.bench.start()
    counts.counts = False
    for rule in range(RULES):
        await counts.clear(rule)
    counts.counts = True
    for i in range(300):
        rule = counts.rng.randrange(RULES)
        if i % 10 == 0:
            await counts.clear(rule)
            counts.gone = {rule}
        for _ in range(12 if counts.gone else 2):   # so long a frame takes to be counted, or a row to be cleared
            await counts.step()
        before = list(counts.sums[rule])
        counts.gone = set()
        got = await counts.read(rule)
        assert before[0] - 1 <= got[0] <= counts.sums[rule][0], rule
        assert 14 * got[0] <= got[1] <= 4114 * got[0], "of one moment"
    counts.counts = False
    for _ in range(3):
        await counts.step()
    for rule in range(RULES):
        assert list(await counts.read(rule)) == counts.sums[rule]


def test_rule_counts():
    simulate("hca_rule_counts", __name__)
