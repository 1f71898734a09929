"""hca_activity: busy while a stream is valid or a read is out, and HoldCycles longer."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import cocotb
from common import Bench, simulate

STREAMS, HOLD = 8, 24


class Activity:
    """The cell and its model. A read request is a valid stream too (bit 0), as in the card."""

    def __init__(self, dut, seed):
        self.bench = Bench(dut, seed)
        self.reads = 0
        self.last = None      # last cycle with something under way; None: reset was the last
        self.falls = 0
        self.was_busy = 1

    async def start(self):
        await self.bench.start()
        self.last = self.bench.cycle - 1
        return self

    async def step(self, valid=0, request=0, done=0):
        """One cycle with these inputs; compares busy."""
        self.bench.set("valid_i", valid | request)
        self.bench.set("rd_req_i", request)
        self.bench.set("rd_done_i", done)
        await self.bench.step()
        now = self.bench.cycle - 1
        if valid or request or self.reads:
            self.last = now
        self.reads += request - done
        busy = self.bench.get("busy_o")
        assert busy == (now - self.last <= HOLD), f"cycle {now}: busy {busy}, last activity at {self.last}"
        self.falls += self.was_busy and not busy
        self.was_busy = busy


@cocotb.test()
async def holds_after_reset(dut):
    """Busy for HoldCycles after reset, then quiet."""
    bench = await Activity(dut, 1).start()
    for _ in range(3 * HOLD):
        await bench.step()
    assert bench.falls == 1


@cocotb.test()
async def each_stream_alone(dut):
    """Every stream alone keeps the card awake, one cycle is enough."""
    bench = await Activity(dut, 2).start()
    for stream in range(STREAMS):
        for _ in range(HOLD + 3):
            await bench.step()
        await bench.step(valid=1 << stream)
    for _ in range(HOLD + 3):
        await bench.step()
    assert bench.falls == STREAMS + 1


@cocotb.test()
async def outstanding_reads(dut):
    """Up to 256 reads (4 clients of 64 tags): busy until the last is answered, however long that takes."""
    bench = await Activity(dut, 3).start()
    for _ in range(256):
        await bench.step(request=1)
    for _ in range(10 * HOLD):
        await bench.step()
    for _ in range(256):
        await bench.step(done=1)
        for _ in range(2 * HOLD if bench.reads < 3 else 0):
            await bench.step()
    assert bench.falls == 1


@cocotb.test()
async def random_activity(dut):
    """Bursts of streams and reads with silences around HoldCycles; a request and an answer in one cycle."""
    bench = await Activity(dut, 4).start()
    rng = bench.bench.rng
    for _ in range(150):
        for _ in range(rng.randint(0, 12)):
            await bench.step(valid=rng.choice([0, rng.getrandbits(STREAMS)]), request=int(rng.random() < 0.3),
                             done=int(bench.reads > 0 and rng.random() < 0.5))
        while bench.reads and rng.random() < 0.95:
            await bench.step(done=int(rng.random() < 0.3))
        for _ in range(HOLD + rng.randint(-5, 5)):
            await bench.step()
    assert bench.falls > 10


def test_activity():
    simulate("hca_activity", __name__, parameters={"Streams": STREAMS, "HoldCycles": HOLD})
