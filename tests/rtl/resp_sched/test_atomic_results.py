"""hca_atomic_results with few blocks: who has one finds all that it had; who loses it finds nothing of others."""

import sys
from collections import deque
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import cocotb
from common import Bench, constants, simulate

LIMITS = constants()
BLOCKS, SLOTS = 4, LIMITS["MaxDestRdAtomic"]
QPNS = (0, 1, 5, LIMITS["NumQps"] - 1, 700, 512)


class Results:
    """The store, and what must be in it: blocks in the order in which they were taken."""

    def __init__(self, dut, seed):
        self.bench = Bench(dut, seed)
        self.rng = self.bench.rng
        self.owners = deque(maxlen=BLOCKS)
        self.kept = {}
        self.found = self.value = 0
        self.bench.agents.append(self)

    def drive(self):
        """Nothing of its own."""

    def sample(self):
        """What it says in this cycle."""
        self.found, self.value = self.bench.get("found_o"), self.bench.get("value_o")

    async def start(self):
        """Reset, and the scrubbing."""
        await self.bench.start()
        self.bench.set("scrub_i", 1)
        for qpn in range(LIMITS["NumQps"]):
            self.bench.set("scrub_qpn_i", qpn)
            await self.bench.step()
        self.bench.set("scrub_i", 0)
        return self

    async def cycle(self, **fields):
        """One cycle with these inputs; strobes fall behind it."""
        for name, value in fields.items():
            self.bench.set(name, value)
        await self.bench.step()
        for name in ("find_i", "add_i", "read_i", "clear_i"):
            self.bench.set(name, 0)

    async def add(self, qpn, psn):
        """An atomic is done."""
        value = self.rng.getrandbits(64)
        await self.cycle(find_i=1, find_qpn_i=qpn)
        await self.cycle(qpn_i=qpn, psn_i=psn, value_i=value, add_i=1)
        if qpn not in self.owners:
            if len(self.owners) == BLOCKS:
                self.kept.pop(self.owners[0], None)
            self.owners.append(qpn)
            self.kept[qpn] = deque(maxlen=SLOTS)
        self.kept[qpn].append((psn, value))

    async def look(self, qpn, psn):
        """It comes again."""
        await self.cycle(find_i=1, find_qpn_i=qpn)
        await self.cycle(qpn_i=qpn)
        await self.cycle(psn_i=psn)
        await self.cycle(read_i=1)
        found = self.found
        await self.cycle()
        want = [value for at, value in self.kept.get(qpn, ()) if at == psn]
        assert found == bool(want), (qpn, psn)
        if want:
            assert self.value == want[-1]

    async def clear(self, qpn):
        """Another life."""
        await self.cycle(find_i=0, find_qpn_i=self.rng.choice(QPNS))
        await self.cycle(qpn_i=qpn, clear_i=1)
        if qpn in self.kept:
            self.kept[qpn].clear()


@cocotb.test()
@cocotb.parametrize(count=[BLOCKS, len(QPNS)])
async def random_atomics(dut, count):
    """REL-19: as many QPs as blocks lose nothing; with more of them the block that was taken first goes, whole."""
    store = await Results(dut, count).start()
    psns = dict.fromkeys(QPNS, 0xFFFFF0)
    for _ in range(4000):
        qpn, kind = store.rng.choice(QPNS[:count]), store.rng.random()
        if kind < 0.5:
            await store.add(qpn, psns[qpn] & 0xFFFFFF)
            psns[qpn] += 1
        elif kind < 0.98:
            await store.look(qpn, psns[qpn] - store.rng.randint(0, SLOTS + 2) & 0xFFFFFF)
        else:
            await store.clear(qpn)
            psns[qpn] += 100
        await store.bench.step(store.rng.choice([0, 0, 0, 1, 2]))


def test_atomic_results():
    """Runs the tests of this file."""
    simulate("hca_atomic_results", __name__, parameters={"Blocks": BLOCKS})
