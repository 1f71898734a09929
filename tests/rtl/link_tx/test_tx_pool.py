"""hca_link_tx, the pool of its rings: whoever obeys the gate is never stalled at the door and never shut out by the
others; whoever does not is stalled and loses nothing; what is dropped, too long or reset gives its pages back."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import cocotb
from common import simulate
from tx_bench import MAC, VL15, Tx

VLS = 8
OPEN, GUARD, LONGEST = 440, 264, 66   # blocks
ALL = 3072 - 16 * (VLS + 1) - 10 * 8 - 4 * 8 - LONGEST   # a pool without room for one more holds so many at least
SIZES = (30, 94, 300, 1054, 2078, 4126, 4190)


class Senders:
    """Two schedulers that see the gate some cycles late: each makes a packet every third cycle for an open VL, which
    counts as under way until it has come in. Checks that the door never stalls."""

    def __init__(self, tx, vls=range(VLS), sizes=SIZES, late=3):
        self.tx, self.vls, self.sizes = tx, list(vls), sizes
        self.seen = [0] * late        # the gate, as it was
        self.ahead, self.made, self.door, self.opened, self.running = [0] * VLS, 0, True, False, True
        tx.bench.agents.append(self)

    def drive(self):
        """New packets."""
        tx, rng = self.tx, self.tx.rng
        now = self.seen[0]
        for scheduler in range(2):
            vls = [vl for vl in self.vls if now >> vl & 1]
            if self.running and vls and (tx.bench.cycle + scheduler) % 3 == 0 and len(tx.source.queue) < 2000:
                vl, size = rng.choice(vls), rng.choice(self.sizes)
                tx.send(vl, size)
                self.ahead[vl] += -(-size // 64)
                self.made += 1
        tx.bench.set("ahead_i", sum(blocks << 14 * vl for vl, blocks in enumerate(self.ahead)))

    def sample(self):
        """What has come in, and the gate."""
        bench = self.tx.bench
        self.seen = self.seen[1:] + [bench.get("vl_open_o")]
        if not bench.get("mac_valid_i"):
            return
        assert bench.get("mac_ready_o"), "the door stalls"
        beat = MAC.unpack(bench.get("mac_i"))
        if self.opened is False:
            self.opened = bench.get("mac_vl_i")
            self.beats = 0
        self.beats += 1
        if beat["last"]:
            self.ahead[self.opened] -= self.beats
            self.opened = False


async def mute(dut, seed, vls=range(VLS), **cfg):
    """A bench whose peer promises nothing to some VLs, and much as soon as it does."""
    tx = Tx(dut, seed)
    tx.peer.size, tx.peer.silent = 1000, set(vls)
    return await tx.start(**cfg)


def fills(tx):
    """Blocks of every VL's ring."""
    return [tx.bench.get("fill_o", 12 * vl, 12) for vl in range(VLS)]


async def settled(tx, senders):
    """Until nobody may send any more and all is in the rings."""
    await tx.bench.until(lambda: not any(tx.open(vl) for vl in senders.vls), 20000, "shut")
    await tx.bench.until(tx.source.idle, 20000, "door")
    await tx.bench.step(20)


@cocotb.test()
async def alone(dut):
    """One VL alone is open below TxOpenBytes, to the block."""
    tx = await mute(dut, 1, vls={2})
    for number in range(110):
        assert tx.open(2) == (fills(tx)[2] < OPEN), f"{fills(tx)[2]} blocks"
        tx.send(2, 300)
        await tx.bench.step(12)
        assert tx.source.idle(), f"packet {number} was stalled"
    tx.peer.silent = set()
    await tx.drain()


@cocotb.test()
async def all_blocked(dut):
    """VLs that all stand still: each has what is its own, the door never stalls, and one that gets credits again has
    the whole wire."""
    rates = {}
    for seed, sizes in ((1, SIZES), (2, (4190,)), (3, (30,)), (4, (2078,)), (5, (4190, 30))):
        tx = await mute(dut, seed)
        tx.peer.drain = 1.0
        senders = Senders(tx, sizes=sizes)
        await settled(tx, senders)
        dut._log.warning(f"{fills(tx)}: {sum(fills(tx))} blocks")
        assert all(fill > GUARD - LONGEST for fill in fills(tx)), fills(tx)
        tx.peer.silent = set(range(VLS)) - {3}
        await tx.bench.until(lambda tx=tx: tx.stream.beats > 100, 1000, "VL3")
        beats, start = tx.stream.beats, tx.bench.cycle
        await tx.bench.step(1500)
        rate = (tx.stream.beats - beats) / (tx.bench.cycle - start)
        dut._log.warning(f"VL3 alone moves: {rate}")
        rates[sizes] = rate
        assert set(vl for vl, _ in tx.stream.order) == {3}
        senders.running = False
        tx.peer.silent = set()
        await tx.drain()
    # Of packets of one beat one VL sends one every second cycle.
    assert rates.pop((30,)) > 0.45 and rates[(2078,)] > 0.95 and min(rates.values()) > 0.8, rates


@cocotb.test()
async def newcomer(dut):
    """However long the others have stood, whoever comes last has its own, and some of what is shared."""
    for seed in (1, 2):
        tx = await mute(dut, seed)
        senders = Senders(tx, vls=[])
        for vl in range(VLS):
            senders.vls.append(vl)
            await settled(tx, senders)
        dut._log.warning(f"one after the other: {fills(tx)}")
        assert fills(tx)[0] >= OPEN and all(fill > GUARD - LONGEST for fill in fills(tx)), fills(tx)
        senders.running = False
        tx.peer.silent = set()
        await tx.drain()


@cocotb.test()
async def exhausted(dut):
    """A sender that does not mind the gate is stalled at the door and loses nothing; a ring full of packets of one beat
    stalls too; VL15 finds its room until then."""
    for seed, sizes, vls in ((1, (4190,), range(VLS)), (2, SIZES, range(VLS)), (3, (30,), (6,)), (4, (4190,), (6,))):
        tx = await mute(dut, seed)
        while sum(fills(tx)) < 2300 and tx.source.idle():
            vl = tx.rng.choice(list(vls))
            tx.send(vl, tx.rng.choice(sizes))
            await tx.bench.step(70)
        if tx.source.idle():
            for _ in range(20):
                tx.send(VL15, 290)
                await tx.bench.step(30)
            assert len(tx.stream.packets[VL15]) == 20
        for _ in range(60):
            tx.send(tx.rng.choice(list(vls)), tx.rng.choice(sizes))
        await tx.bench.step(4500)
        dut._log.warning(f"{fills(tx)}: {sum(fills(tx))} blocks")
        assert not tx.source.idle() and tx.events["discard"] == 0
        tx.peer.silent = set()
        await tx.drain()


@cocotb.test()
async def given_back(dut):
    """Packets that die of age, that are too long (also on VL15), or that the port state throws away give their pages
    back, while others come and go: the pool is as large afterwards, and nothing is mixed up."""
    tx = await mute(dut, 3, vls={2, 5, 6}, hoq_life=0)
    tx.stream.rate, tx.stream.gapless, tx.source.rate, tx.peer.drain = 0.9, False, 0.9, 1.0
    died = too_long = 0
    for round_ in range(250):
        for _ in range(6):
            vl = tx.rng.randrange(VLS)
            dies = vl in tx.peer.silent
            died += dies
            tx.send(vl, tx.rng.choice(SIZES), expect=not dies)
        if round_ % 5 == 0:
            vl, size = tx.rng.choice(((1, 4500), (7, 4300), (VL15, 500), (VL15, 1000), (3, 8000)))
            too_long += 1
            tx.send(vl, size, expect=False)
            tx.send(VL15, 290)
        await tx.bench.until(tx.source.idle, 20000, "door")
        # As many as can die of age in time.
        await tx.bench.until(lambda tx=tx: sum(fills(tx)) < 1500, 40000, "room")
    await tx.bench.until(lambda: sum(fills(tx)) == 0, 600000, "empty rings")
    await tx.bench.step(200)
    tx.check()
    assert tx.events["discard"] == died + too_long
    tx.configure(hoq_life=31)
    for number in range(60):
        tx.send((2, 5, 6)[number % 3], 4190)   # in turn: none is full long before the others, and stalls them
    await tx.bench.step(3500)
    dut._log.warning(f"{fills(tx)}: {sum(fills(tx))} blocks")
    assert sum(fills(tx)) > ALL
    tx.peer.silent = set()
    await tx.drain()


@cocotb.test()
async def reset_meanwhile(dut):
    """A reset in the middle of packets, of drops and of a full pool: all pages are there again."""
    for seed in range(1, 6):
        tx = await Tx(dut, seed).start(hoq_life=0)
        tx.peer.silent = {1, 2}
        for _ in range(80):
            tx.send(tx.rng.randrange(VLS), tx.rng.choice(SIZES), expect=False)
        await tx.bench.step(1000 + 331 * seed)
        tx = await mute(dut, seed + 10)
        assert sum(fills(tx)) == 0
        for _ in range(60):
            tx.send(tx.rng.randrange(VLS), 4190)
        await tx.bench.step(3500)
        assert sum(fills(tx)) > ALL, fills(tx)
        tx.peer.silent = set()
        await tx.drain()


def test_tx_pool():
    simulate("hca_link_tx", __name__)
