"""hca_rx_park: packets that wait for their QPs come again, once each, when hca_lines says so; others pass."""

import sys
from collections import deque
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import cocotb
from common import Bench, Sink, Source, simulate, struct

RXD, WANT, PLACE = struct("rxd_t"), struct("park_want_t"), struct("rx_place_t")
SLOTS = 128


class Park:
    """Bench, hca_rx_ctrl and hca_lines. `rate`: of packets, `takes`: of hca_rx_ctrl, `parks`: packets it parks of
    those that have slots, `wants` and `back`: of hca_lines."""

    def __init__(self, dut, seed, rate=1.0, takes=0.5, parks=0.5, wants=1.0, back=0.2):
        self.bench = Bench(dut, seed)
        self.rng = self.bench.rng
        self.takes, self.parks, self.back = takes, parks, back
        self.source = Source(self.bench, "in", rate=rate)
        self.source.on_accept = lambda word: self.came.append(word)
        self.wants = Sink(self.bench, "want", rate=wants, on_word=self.wanted)
        self.free = list(range(SLOTS))
        self.came, self.offered = deque(), None
        self.parked, self.known = {}, deque()   # slot: the packet; slots that hca_lines has to give back
        self.due, self.backs = deque(), None    # slots that were given back, whose packets come next
        self.passed, self.again = [], []        # cycles, per packet
        self.begun = None                       # cycle of the `back` that is under way
        self.put_count = self.most = 0
        self.bench.agents.append(self)

    async def start(self):
        await self.bench.start()
        return self

    def put(self, count, slots=0.7):
        """Packets, some of which have slots; each slot is one packet's until that is over."""
        for _ in range(count):
            parks = bool(self.free) and self.rng.random() < slots
            slot = self.free.pop(self.rng.randrange(len(self.free))) if parks else self.rng.randrange(SLOTS)
            self.source.put(RXD.random(self.rng, place=PLACE.pack(parks=parks, slot=slot), again=0))
            self.put_count += 1

    def wanted(self, word):
        """hca_lines hears of a packet that waits."""
        want = WANT.unpack(word)
        assert want["qpn"] == RXD.unpack(self.parked[want["slot"]])["dest_qpn"]
        assert want["slot"] not in self.known and want["slot"] not in self.due, "a packet has two wants"
        self.known.append(want["slot"])

    def drive(self):
        """hca_rx_ctrl takes a packet when it has seen it, and knows then whether that waits."""
        bench, rng = self.bench, self.rng
        ready = self.offered is not None and rng.random() < self.takes
        self.parking = False
        if ready:
            packet = RXD.unpack(self.offered)
            place = PLACE.unpack(packet["place"])
            self.parking = bool(place["parks"] and not packet["again"] and rng.random() < self.parks)
        bench.set("out_ready_i", ready)
        bench.set("park_i", self.parking)
        if self.backs is None and self.known and rng.random() < self.back:
            at = rng.randrange(len(self.known))
            self.backs = self.known[at]
            del self.known[at]
        bench.set("back_valid_i", self.backs is not None)
        bench.set("back_slot_i", rng.randrange(SLOTS) if self.backs is None else self.backs)
        self.ready = ready

    def sample(self):
        bench = self.bench
        self.most = max(self.most, len(self.parked))
        if self.backs is not None and bench.get("back_ready_o"):
            self.due.append(self.backs)
            self.backs = None
            self.begun = bench.cycle
        if not bench.get("out_valid_o"):
            assert self.offered is None, "what was offered was withdrawn"
            return
        word = bench.get("out_o")
        assert self.offered in (None, word), "what was offered has changed"
        if self.ready:
            self.taken(word)
        self.offered = None if self.ready else word

    def taken(self, word):
        """A packet that was given back comes as it was; all others in their order."""
        packet = RXD.unpack(word)
        slot = PLACE.unpack(packet["place"])["slot"]
        if packet["again"]:
            assert self.due and slot == self.due.popleft(), "nobody has given it back"
            assert word == RXD.pack(**RXD.unpack(self.parked.pop(slot)) | {"again": 1}), "this is not what was parked"
            self.free.append(slot)
            self.again.append(self.bench.cycle)
            return
        # The source books it later in this cycle, or has done so.
        self.check_fresh(word)
        if self.parking:
            assert slot not in self.parked, "two packets in one slot"
            self.parked[slot] = word
        else:
            self.passed.append(self.bench.cycle)
            if PLACE.unpack(packet["place"])["parks"]:
                self.free.append(slot)

    def check_fresh(self, word):
        """It is the one that came in, in this cycle."""
        assert self.came and self.came.popleft() == word and not self.came, "a packet was lost, or comes twice"

    def count(self):
        """Packets that are over."""
        return len(self.passed) + len(self.again)

    async def finish(self):
        """All come out in the end."""
        self.takes, self.back, self.wants.rate = max(self.takes, 0.5), max(self.back, 0.5), 1.0
        await self.bench.until(lambda: self.count() == self.put_count, what="every packet")
        await self.bench.step(20)
        assert self.count() == self.put_count and not self.parked and self.offered is None and not self.known


@cocotb.test()
@cocotb.parametrize(case=[(1, {}), (2, {"takes": 1.0, "rate": 1.0, "back": 1.0}), (3, {"rate": 0.3, "takes": 0.9}),
                          (4, {"takes": 1.0, "back": 0.03, "parks": 0.9}), (5, {"wants": 0.1, "takes": 0.8}),
                          (6, {"parks": 1.0, "takes": 1.0, "back": 0.5}), (7, {"takes": 0.1, "back": 1.0})])
async def at_random(dut, case):
    """Stalls everywhere, packets that wait for any time and come back in any order: each is over once, those that
    waited with their own descriptor and `again`, and nothing that is offered changes."""
    seed, rates = case
    park = await Park(dut, seed, **rates).start()
    for _ in range(40):
        park.put(park.rng.randrange(1, 60))
        await park.bench.step(park.rng.randrange(120))
    await park.finish()
    assert len(park.again) > 90 and len(park.passed) > 90


@cocotb.test()
async def all_slots(dut):
    """128 packets wait, and hca_lines takes no want: further ones pass. Then each comes again."""
    park = await Park(dut, 10, takes=1.0, parks=1.0, wants=0.0, back=0.0).start()
    park.put(SLOTS, slots=1.0)
    await park.bench.until(lambda: len(park.parked) == SLOTS, what="128 parked packets")
    park.put(100)
    await park.bench.until(lambda: len(park.passed) == 100, what="others")
    park.wants.rate = 1.0
    await park.bench.until(lambda: len(park.known) == SLOTS, what="128 wants")
    await park.finish()
    assert len(park.again) == SLOTS


@cocotb.test()
async def soon_and_first(dut):
    """A packet that is given back is offered two cycles later if nothing stands there, and in front of all that come
    if hca_rx_ctrl takes something."""
    park = await Park(dut, 11, takes=1.0, parks=1.0, back=0.0).start()
    park.put(20, slots=1.0)
    await park.bench.until(lambda: len(park.known) == 20, what="wants")
    park.takes = 0.0
    park.back = 1.0
    await park.bench.until(lambda: park.due, what="back")
    await park.bench.until(lambda: park.offered is not None, limit=10, what="the packet")
    assert park.bench.cycle - 1 - park.begun == 2
    park.parks, park.takes = 0.0, 1.0
    park.put(300)
    before = park.bench.cycle
    await park.finish()
    # One packet again in each three cycles; all the others pass meanwhile.
    assert max(park.again) - before < 20 * 5 and len([cycle for cycle in park.passed if cycle < max(park.again)]) >= 18


def test_rx_park():
    simulate("hca_rx_park", __name__)
