"""hca_device_memory (MEM-19): reads see the writes before them, pages are there or not, and for their owners alone, and
what is the host's goes to the host, unchanged and unhindered."""

import sys
from collections import deque
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import cocotb
import hca_abi as abi
from common import Bench, HostReads, Sink, Source, constants, simulate, struct

REQ, RSP, WR, ROW = (struct(name) for name in ("dma_rd_req_t", "dma_rd_rsp_t", "dma_wr_t", "dm_page_t"))
BASE = abi.DM_BUS_HIGH << 48
LINES = abi.DM_BYTES // 64
PAGE_LINES = abi.DM_PAGE_BYTES // 64
FUNCS = constants()["NumFuncs"]
STRB_ALL = (1 << 64) - 1


class Memory:
    """What is in every line, and was at any time: {line: [(first cycle, owner, bytes or None)]}."""

    def __init__(self, bench):
        self.bench = bench
        self.lines = {line: [(-1, None, None)] for line in range(LINES)}

    def now(self, func, line):
        """The newest value; None: not there, or another's."""
        _, owner, value = self.lines[line][-1] if line in self.lines else (0, None, None)
        return value if owner == func else None

    def write(self, word):
        """A write was accepted."""
        beat = WR.unpack(word)
        if beat["msix"] or beat["addr"] >> 48 != abi.DM_BUS_HIGH:
            return
        func, line = beat["func"], (beat["addr"] & (1 << 48) - 1) // 64
        old = self.now(func, line)
        if old is not None:
            mask = sum(0xFF << 8 * n for n in range(64) if beat["strb"] >> n & 1)
            self.lines[line].append((self.bench.cycle, func, old & ~mask | beat["data"] & mask))

    def row(self, word):
        """A page has come, all zeros, or gone."""
        row = ROW.unpack(word)
        for line in range(row["page"] * PAGE_LINES, (row["page"] + 1) * PAGE_LINES):
            self.lines[line].append((self.bench.cycle, row["func"], 0 if row["there"] else None))

    def between(self, func, line, first, last):
        """Values that a read of these cycles may see."""
        if line not in self.lines:
            return {None}
        history = [(cycle, value if owner == func else None) for cycle, owner, value in self.lines[line]]
        at_first = [value for cycle, value in history if cycle <= first][-1]
        return {at_first} | {value for cycle, value in history if first < cycle < last}


class Answers:
    """Looks at every beat that comes back: the host's at once, ours for the oldest read of ours."""

    def __init__(self, bench, memory):
        self.bench, self.memory = bench, memory
        self.reads = deque()   # [tag, func, next line, lines left, accepted]
        self.beats, self.host_beats, self.errors, self.when = 0, 0, 0, []
        bench.agents.append(self)

    def accepted(self, words):
        """A read was accepted."""
        tag, word = words
        req = REQ.unpack(word)
        if req["addr"] >> 48 == abi.DM_BUS_HIGH:
            offset = req["addr"] & (1 << 48) - 1
            lines = (offset % 64 + req["len_bytes"] + 63) // 64
            self.reads.append([tag, req["func"], offset // 64, lines, self.bench.cycle])

    def drive(self):
        """Nothing to drive."""

    def sample(self):
        """A beat, or none."""
        bench = self.bench
        if not bench.get("rsp_valid_o"):
            assert not bench.get("hrsp_valid_i"), "an answer of the host is lost"
            return
        tag, word = bench.get("rsp_tag_o"), bench.get("rsp_o")
        if bench.get("hrsp_valid_i"):
            assert (tag, word) == (bench.get("hrsp_tag_i"), bench.get("hrsp_i"))
            self.host_beats += 1
            return
        read, beat = self.reads[0], RSP.unpack(word)
        assert (tag, beat["last"]) == (read[0], read[3] == 1)
        allowed = self.memory.between(read[1], read[2], read[4], bench.cycle)
        assert (None if beat["err"] else beat["data"]) in allowed, f"line {read[2]} of function {read[1]}"
        self.beats, self.errors = self.beats + 1, self.errors + beat["err"]
        self.when.append(bench.cycle)
        read[2], read[3] = read[2] + 1, read[3] - 1
        if not read[3]:
            self.reads.popleft()


class Rig:
    """The block, its clients and a host."""

    def __init__(self, dut, seed, rates=(1, 1, 1)):
        bench = self.bench = Bench(dut, seed)
        self.rng = bench.rng
        ours, theirs, answers = rates
        self.memory = Memory(bench)
        self.host = HostReads(bench, "hrsp", rate=answers)
        self.rows = Source(bench, "row", "dm_page_t")
        self.wr = Source(bench, "wr", "dma_wr_t", rate=ours)
        self.rd = Source(bench, "rd", rate=ours, payload=[("rd_tag_i", None), ("rd_i", None)])
        self.hwr = Sink(bench, "hwr", rate=theirs, payload=[("wr_i", None)])
        self.hrd = Sink(bench, "hrd", rate=theirs, payload=[("rd_tag_i", None), ("rd_i", None)],
                        on_word=lambda words: self.host.request(*words))
        self.answers = Answers(bench, self.memory)
        self.rows.on_accept = self.memory.row
        self.wr.on_accept = self.memory.write
        self.rd.on_accept = self.answers.accepted
        self.tag = 0

    async def row(self, func, page, there):
        """One row, taken."""
        self.rows.put(ROW.pack(page=page, there=there, func=func))
        await self.bench.until(self.rows.idle, what="row")

    def write(self, func, line, **fields):
        """A beat for device memory."""
        values = dict(msix=0, func=func, addr=BASE + 64 * line, last=1)
        self.wr.put(WR.random(self.rng, **{**values, **fields}))

    def read(self, func, offset, length, base=BASE):
        """A read, with a tag that is free again after 255 others."""
        self.tag = (self.tag + 1) % 256
        self.rd.put((self.tag, REQ.pack(func=func, addr=base + offset, len_bytes=length)))

    def owner(self, line, other):
        """Whose the line is, nearly always."""
        owner = self.memory.lines[line][-1][1]
        return other if owner is None or self.rng.random() < 0.1 else owner

    async def settle(self):
        """Everything has been accepted and answered."""
        await self.bench.until(lambda: self.rd.idle() and self.wr.idle() and not self.answers.reads
                               and not self.host.waiting, 60000, "the end")


def some_read(rng):
    """Offset and length inside a block of 512 bytes."""
    offset = 512 * rng.choice([0, 1, LINES // 8 - 1, rng.randrange(LINES // 8)]) + rng.choice([0, rng.randrange(512)])
    return offset, rng.randint(1, 512 - offset % 512)


@cocotb.test()
@cocotb.parametrize(rates=[(1, 1, 1), (0.6, 0.5, 0.4), (1, 0.3, 1), (0.3, 1, 0.9)])
async def any_order(dut, rates):
    """Reads and writes of all functions, device memory and host, while pages come and go."""
    rig = Rig(dut, 1, rates)
    rng = rig.rng
    await rig.bench.start()
    for page in range(abi.DM_PAGES):
        if rng.random() < 0.8:
            await rig.row(rng.choice([0, FUNCS - 1, rng.randrange(FUNCS)]), page, 1)
    to_host = 0
    for _ in range(400):
        func = rng.randrange(FUNCS)
        what = rng.random()
        if what < 0.45:
            line = rng.choice([0, 8, LINES - 1, rng.randrange(LINES)])
            rig.write(rig.owner(line, func), line)
        elif what < 0.8:
            offset, length = some_read(rng)
            rig.read(rig.owner(offset // 64, func), offset, length)
        elif what < 0.88:
            offset, length = some_read(rng)
            rig.read(func, offset, length, base=rng.choice([0, 0xFFFE << 48, 0x7FFF << 48]))
        elif what < 0.95:
            kind = rng.random()
            beat = dict(msix=1) if kind < 0.3 else dict(addr=64 * rng.getrandbits(40))
            rig.write(func, rng.randrange(LINES), **beat)
            to_host += 1
        else:
            page = rng.randrange(abi.DM_PAGES)
            there = rig.memory.lines[page * PAGE_LINES][-1][2] is not None
            await rig.row(func, page, not there)
        await rig.bench.step(rng.randrange(3))
    await rig.settle()
    assert len(rig.hwr.got) == to_host and rig.answers.host_beats > 50
    assert rig.answers.beats > 300 and 0 < rig.answers.errors < rig.answers.beats


@cocotb.test()
async def what_is_not_there(dut):
    """Before its row, behind the end, of another function or one that the card has not: an error, each beat; writes
    change nothing anywhere. A page that comes is all zeros, whatever was there."""
    rig = Rig(dut, 2)
    await rig.bench.start()
    await rig.row(0, 1, 1)
    for line in range(PAGE_LINES, 2 * PAGE_LINES):
        rig.write(0, line, strb=STRB_ALL)
    for func, line in [(0, 0), (0, 2 * PAGE_LINES), (0, LINES + PAGE_LINES), (0, (1 << 42) - 1), (1, PAGE_LINES),
                       (FUNCS - 1, PAGE_LINES), (FUNCS, PAGE_LINES), (255, PAGE_LINES)]:
        rig.write(func, line, strb=STRB_ALL)
        rig.read(func, 64 * line, 64)
    await rig.settle()
    assert rig.answers.errors == rig.answers.beats == 8
    for page in range(abi.DM_PAGES):
        for block in range(abi.DM_PAGE_BYTES // 512):
            rig.read(0, page * abi.DM_PAGE_BYTES + 512 * block, 512)
    await rig.settle()
    await rig.row(0, 1, 0)
    rig.read(0, abi.DM_PAGE_BYTES, 512)
    await rig.settle()
    errors = rig.answers.errors
    await rig.row(0, 1, 1)
    for block in range(abi.DM_PAGE_BYTES // 512):
        rig.read(0, abi.DM_PAGE_BYTES + 512 * block, 512)
    await rig.settle()
    assert rig.answers.errors == errors


@cocotb.test()
async def a_beat_per_cycle(dut):
    """Of a read, from two cycles behind it; a write per cycle; a row takes 65 cycles, in which the host's are not
    held."""
    rig = Rig(dut, 3)
    await rig.bench.start()
    start = rig.bench.cycle
    await rig.row(2, 3, 1)
    assert rig.bench.cycle - start <= 66
    rig.read(2, 3 * abi.DM_PAGE_BYTES, 512)
    await rig.settle()
    first = rig.rd.taken[-1] + 2
    assert rig.answers.when == list(range(first, first + 8))
    for line in range(40):
        rig.write(2, 3 * PAGE_LINES + line)
    await rig.settle()
    assert rig.wr.taken[-1] - rig.wr.taken[-40] == 39
    rig.rows.put(ROW.pack(page=4, there=1, func=2))
    for _ in range(40):
        rig.write(0, 0, addr=64)
    await rig.bench.until(rig.wr.idle, what="writes")
    assert not rig.rows.idle() and rig.wr.taken[-1] - rig.wr.taken[-40] == 39


def test_device_memory():
    simulate("hca_device_memory", __name__)
