"""hca_park_ring: parked packets lie in a ring, leave in any order, and never lie over one another."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import cocotb
from cocotb.triggers import FallingEdge, RisingEdge, Timer
from common import Bench, simulate

BEATS, SLOTS, LONGEST = 512, 128, 67    # hca_park_types
LATE = 2 * SLOTS + 4                    # cycles until there is room where all are freed: two for each


class Ring:
    """Bench and model. As in hca_rx_buf, whether a packet parks is decided with its first beat, and it is taken with
    its last one; packets come back to back. `take`, `free`: chances in each cycle."""

    def __init__(self, dut, seed, lengths, take=1.0, free=0.1):
        self.dut, self.bench = dut, Bench(dut, seed)
        self.rng = self.bench.rng
        self.lengths, self.take, self.free = lengths, take, free
        self.coming = None        # the packet that comes in: (start, slot, length)
        self.left = 0             # beats of it, or of one that finds no room
        self.there = {}           # slot: its beats; not freed
        self.order = []           # slots from the oldest on, those too whose older ones are there
        self.taken = self.beats = self.refused = 0
        self.full = False         # once all slots were in use

    async def start(self):
        await self.bench.start()
        await self.bench.step(2)
        return self

    async def step(self, cycles=1):
        for _ in range(cycles):
            await self.cycle()

    async def cycle(self):
        """One cycle. A packet of one beat is taken in the cycle in which room_o is looked at."""
        dut, rng = self.dut, self.rng
        freed = rng.choice(list(self.there)) if self.there and rng.random() < self.free else None
        dut.free_i.value = freed is not None
        dut.free_slot_i.value = rng.randrange(SLOTS) if freed is None else freed
        dut.take_i.value = 0
        dut.beats_i.value = rng.randrange(SLOTS)
        await Timer(1, "ns")
        if not self.left and rng.random() < self.take:
            self.begin(rng.choice(self.lengths))
        self.left -= self.left > 0
        taken = self.coming if self.coming and not self.left else None
        if taken:
            dut.take_i.value, dut.beats_i.value = 1, taken[2]
            self.coming = None
        await FallingEdge(dut.clk_i)
        if taken:
            start, slot, length = taken
            assert (int(dut.start_o.value), int(dut.slot_o.value)) == (start, slot), "moved while a packet came in"
            self.there[slot] = {(start + beat) % BEATS for beat in range(length)}
            self.order.append(slot)
            self.taken, self.beats = self.taken + 1, self.beats + length
        if freed is not None:
            del self.there[freed]
        while self.order and self.order[0] not in self.there:
            self.order.pop(0)
        self.full = self.full or len(self.order) == SLOTS
        await RisingEdge(dut.clk_i)

    def begin(self, length):
        """A packet's first beat: it gets beats and a slot that are nobody's, or is none of the ring's."""
        self.left = length
        if not int(self.dut.room_o.value):
            self.refused += 1
            return
        start, slot = int(self.dut.start_o.value), int(self.dut.slot_o.value)
        assert slot not in self.there, f"slot {slot} is given a second time"
        # Any length had to fit.
        beats = {(start + beat) % BEATS for beat in range(LONGEST)}
        assert not any(beats & other for other in self.there.values()), "a packet lies over another one"
        self.coming = (start, slot, length)

    async def empty(self):
        """All are freed, in any order; then there is room."""
        self.take, self.free = 0.0, 1.0
        while self.there or self.left:
            await self.cycle()
        await self.step(LATE)
        assert int(self.dut.room_o.value), "all have gone, and there is no room"


@cocotb.test()
@cocotb.parametrize(case=[(1, range(1, 68), 1.0, 0.02), (2, range(1, 68), 0.3, 0.02), (3, (1, 1, 1, 67), 1.0, 0.04),
                          (4, (1, 2), 1.0, 0.3), (5, (67,), 1.0, 0.01), (6, (1,), 1.0, 0.45)])
async def at_random(dut, case):
    """Packets of all lengths back to back, freed in any order: no two share a beat or a slot, and room comes back."""
    seed, lengths, take, free = case
    ring = await Ring(dut, seed, lengths).start()
    for _ in range(4):
        ring.take, ring.free = take, free
        await ring.step(4000)
        await ring.empty()
    assert ring.beats > 4 * BEATS and ring.refused > 0
    # Where packets are short, slots are what there is too few of.
    assert ring.full == (max(lengths) <= 2)


@cocotb.test()
@cocotb.parametrize(length=[1, 3, 4, 5, 66, 67])
async def filled_to_the_brim(dut, length):
    """Nobody leaves: as many are taken as there is room for, and none more; the oldest one alone makes room."""
    ring = await Ring(dut, 10 + length, (length,), free=0.0).start()
    await ring.step(2000)
    room = min(SLOTS, (BEATS - LONGEST) // length + 1)
    # One that begins right behind another one may be refused where it would just have fitted.
    assert room - 1 <= len(ring.there) <= room and ring.refused
    full = len(ring.there)
    ring.take = 0.0
    while ring.left:
        await ring.cycle()
    oldest, *others = ring.order
    for slot in others[:-1]:
        ring.there.pop(slot)
        dut.free_i.value, dut.free_slot_i.value = 1, slot
        await RisingEdge(dut.clk_i)
    await ring.step(LATE)
    assert not int(dut.room_o.value), "room behind the newest one, and the oldest is there"
    ring.free = 1.0
    while oldest in ring.there:
        await ring.cycle()
    await ring.step(LATE)
    assert int(dut.room_o.value)
    ring.take, ring.free = 1.0, 0.0
    await ring.step(2000)
    assert len(ring.there) >= full - 1
    await ring.empty()


def test_park_ring():
    simulate("hca_park_ring", __name__)
