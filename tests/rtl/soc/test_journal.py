"""hca_fw_journal against a memory: playing back makes it what it was at the last commit, or says that it cannot."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import cocotb
from common import Bench, simulate

ADDR_BITS = 6
DEPTH = 16
# The words before it are the stack's.
FIRST = 8


class Memory:
    """The memory beside the journal: a write is told with what the word held, a cycle later."""

    def __init__(self, dut, seed):
        self.bench = Bench(dut, seed)
        self.words = [self.bench.rng.getrandbits(32) for _ in range(1 << ADDR_BITS)]
        self.committed = None
        self.kept = 0

    async def step(self, addr=None, commit=None):
        """A cycle in which the core writes a word, commits, or does neither."""
        old = self.words[addr] if addr is not None else self.bench.rng.getrandbits(32)
        self.bench.set("wr_i", addr is not None)
        self.bench.set("wr_addr_i", addr or 0)
        self.bench.set("commit_i", commit is not None)
        self.bench.set("first_i", commit or 0)
        await self.bench.step()
        self.bench.set("old_i", old)
        if addr is not None:
            self.words[addr] = self.bench.rng.getrandbits(32)
            self.kept += addr >= FIRST
        if commit is not None:
            self.committed, self.kept = list(self.words), 0

    async def undo(self):
        """A restart: whether all is whole, and the memory is played back."""
        await self.step()
        self.bench.set("undo_i", 1)
        await self.step()
        self.bench.set("undo_i", 0)
        for _ in range(2 * DEPTH + 4):
            await self.step()
            if self.bench.get("undo_valid_o"):
                self.words[self.bench.get("undo_addr_o")] = self.bench.get("undo_data_o")
        assert not self.bench.get("busy_o")
        return bool(self.bench.get("whole_o"))


@cocotb.test()
async def state_of_the_last_commit(dut):
    """Random writes, commits and restarts: from the first on every word is that of the commit, below it what it was."""
    memory = Memory(dut, 1)
    await memory.bench.start()
    rng, longest, wholes = memory.bench.rng, 0, 0
    for _ in range(300):
        await memory.step(commit=FIRST)
        for _ in range(rng.randrange(3 * DEPTH)):
            kind = rng.random()
            if kind < 0.02:
                await memory.step(commit=FIRST)
            else:
                # Few addresses, so that words are written again and again.
                await memory.step(addr=rng.randrange(1 << ADDR_BITS) & rng.choice([12, 63]) if kind < 0.8 else None)
            longest = max(longest, min(memory.kept, DEPTH))
        is_whole, stack = memory.kept <= DEPTH, memory.words[:FIRST]
        wholes += is_whole
        assert await memory.undo() == is_whole
        if is_whole:
            assert memory.words == stack + memory.committed[FIRST:]
    assert 50 < wholes < 270
    assert memory.bench.get("most_o") == longest == DEPTH


@cocotb.test()
async def nothing_is_whole_before_a_commit(dut):
    """After reset, after a restart without a commit since, and after a commit that keeps nothing."""
    memory = Memory(dut, 2)
    await memory.bench.start()
    assert not await memory.undo()
    await memory.step(commit=FIRST)
    await memory.step(addr=FIRST)
    assert await memory.undo()
    await memory.step(addr=FIRST)
    assert not await memory.undo()
    await memory.step(commit=0)
    assert not await memory.undo()


def test_journal():
    simulate("hca_fw_journal", __name__, parameters={"AddrW": ADDR_BITS, "Depth": DEPTH})
