"""hca_link_tx, rounds of sending: what a QP sends again need not leave, and nothing else is lost. REL-1, REL-16."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import cocotb
from common import simulate, struct
from tx_bench import Tx

ROUND = struct("tx_round_t")
VLS, QPS = 8, 12
SIZES = (30, 94, 106, 300, 1054, 2078, 4126)
# One is read, one is chosen, one is chosen while its round is told; and the FIFO behind the rings.
UNSEEN, IN_FIFO = 3, 6


class Rounds(Tx):
    """Tx whose packets belong to QPs, or to nobody. A packet is lawful to lose once its QP has begun another round."""

    def __init__(self, dut, seed, **more):
        super().__init__(dut, seed, **more)
        self.now = [0] * QPS
        self.tags, self.all, self.gone = [], [], {}   # tags of packets to come; all packets; when which one left
        self.began = []                               # rounds to tell: QPs
        self.told = {}                                # packet: when it became stale

    async def start(self, **more):
        """Every QP is told its first round, as after a reset."""
        await super().start(**more)
        self.began = list(range(QPS))
        await self.bench.step(QPS + 1)
        arrive = self.stream.on_packet

        def leaves(vl, packet):
            """Notes when."""
            self.gone[packet] = self.bench.cycle
            if arrive:
                arrive(vl, packet)

        self.stream.on_packet = leaves
        return self

    def post(self, qpn, vl, size):
        """A packet of a QP in its round, or of nobody (None)."""
        self.send(vl, size)
        packet = self.expected[vl][-1]
        tag = (0, 0, 0) if qpn is None else (1, qpn, self.now[qpn] % 4)
        self.tags.append(tag)
        self.all.append((packet, qpn, None if qpn is None else self.now[qpn], vl))
        return packet

    def rewind(self, qpn):
        """Another round of it: what it has on the way is stale."""
        self.now[qpn] += 1
        self.began.append(qpn)
        for packet, whose, _, _ in self.all:
            if whose == qpn:
                self.told.setdefault(packet, self.bench.cycle)

    def drive(self):
        """The round beside the packet at the door, and one that begins."""
        super().drive()
        if self.source.offered and self.at_door is None:
            valid, qpn, turn = self.tags[0]
            self.bench.set("mac_round_i", ROUND.pack(valid=valid, qpn=qpn, round=turn))
        # What a QP's number is does not matter without the strobe.
        qpn = self.began.pop(0) if self.began else None
        self.bench.set("round_i", ROUND.pack(valid=0, qpn=self.rng.randrange(QPS), round=self.rng.randrange(4))
                       if qpn is None else ROUND.pack(valid=1, qpn=qpn, round=self.now[qpn] % 4))

    def sample(self):
        """A packet is in: the next one's round."""
        before = sum(self.entered)
        super().sample()
        if sum(self.entered) > before:
            self.tags.pop(0)

    async def settle(self):
        """Until nothing is in a ring, and nothing comes any more."""
        await self.bench.until(lambda: self.source.idle() and not self.bench.get("fill_o"), 60000, "empty rings")
        await self.bench.step(400)

    def lost(self):
        """Packets that did not leave: stale ones, and none else; what left is in its order, unchanged."""
        missing = []
        for vl, want in self.expected.items():
            left = iter(self.stream.packets.get(vl, []))
            here = next(left, None)
            for packet in want:
                if packet == here:
                    here = next(left, None)
                else:
                    assert packet in self.told, f"VL{vl}: a packet of the round that goes on was lost"
                    missing.append(packet)
            assert here is None, f"VL{vl}: packets changed or out of order"
        assert self.events["discard"] == self.events["refused"] == 0
        assert self.events["packet"] == len(self.all) - len(missing)
        return missing


@cocotb.test()
async def what_is_asked_for_is_next(dut):
    """A ring full of a QP's packets, and it begins again: those chosen leave, no other; the new one is next, as fast as
    the old ones are thrown away. Of both personalities, on each VL; of another QP all leave."""
    for ib in (1, 0):
        for vl in range(VLS):
            for size in (4126, 1054, 106):
                tx = await Rounds(dut, 100 * vl + size, ib=ib).start()
                tx.stream.rate = 0.0
                if tx.peer:
                    tx.peer.drain, tx.peer.size = 1.0, 2000
                count = 24000 // size
                old = [tx.post(3, vl, size) for _ in range(count)]
                other = tx.post(4, vl, 300)
                await tx.bench.until(tx.source.idle, 2000, "door")
                await tx.bench.step(3 * VLS)
                tx.rewind(3)
                new = tx.post(3, vl, size)
                start = tx.bench.cycle
                await tx.bench.step(4)
                tx.stream.rate = 1.0
                await tx.bench.until(lambda tx=tx, new=new: new in tx.gone, 3000, "the new packet")
                took = tx.gone[new] - start
                await tx.settle()
                left = [packet for packet in old if packet in tx.gone]
                # Without a cable that takes them the FIFO behind the rings is full of the first ones.
                most = UNSEEN + (IN_FIFO if size < 400 else 0)
                assert len(left) <= most, f"{len(left)} of {count} stale packets of {size} bytes left"
                assert tx.lost() == old[len(left):] and other in tx.gone, "one behind those that were thrown away left"
                beats = -(-size // 64)
                limit = (len(left) + 2) * beats + count * (8 + beats // 8) + 40
                assert took <= limit, f"{size} bytes: {took} cycles, {limit} at the most"


@cocotb.test()
async def at_any_time(dut):
    """Many QPs, rings, sizes, packets of nobody, a cable that stalls, and rounds that begin at any moment: none but
    stale ones are lost, all others leave in their order; and of the stale ones many do not."""
    spared = told = 0
    for seed in range(1, 13):
        tx = await Rounds(dut, seed, ib=seed % 2, rate=(1.0, 0.5, 0.9)[seed % 3]).start()
        tx.stream.gapless = False
        tx.source.rate = (1.0, 0.3)[seed % 2]
        vls = list(range(VLS)) if seed % 4 else [seed % VLS]
        for _ in range(60):
            for _ in range(tx.rng.randrange(8)):
                qpn = tx.rng.randrange(QPS) if tx.rng.random() < 0.9 else None
                # A QP has one VL.
                vl = tx.rng.choice(vls) if qpn is None else vls[qpn % len(vls)]
                tx.post(qpn, vl, tx.rng.choice(SIZES))
            if tx.rng.random() < 0.5:
                tx.rewind(tx.rng.randrange(QPS))
            # No more than three rounds while a packet waits: of four the first looks like the last.
            await tx.bench.step(tx.rng.randrange(120))
            if len(tx.source.queue) > 400:
                await tx.bench.until(lambda tx=tx: len(tx.source.queue) < 100, 20000, "door")
        await tx.settle()
        spared += len(tx.lost())
        told += len([packet for packet in tx.told if tx.gone.get(packet, 1 << 60) > tx.told[packet]])
    dut._log.warning(f"{spared} of {told} stale packets did not leave")
    assert spared > told // 2


@cocotb.test()
async def life_time_and_states(dut):
    """A stale head, one whose life is over, and a port that goes down, at once: each packet is thrown away once, pages
    come back, and only what is no stale one is a discard."""
    for seed in range(1, 9):
        tx = await Rounds(dut, seed).start(hoq_life=0)
        tx.peer.silent = {1, 2, 3}
        for _ in range(60):
            tx.post(tx.rng.randrange(QPS), tx.rng.randrange(4), tx.rng.choice(SIZES))
        await tx.bench.step(700 + 131 * seed)
        for qpn in range(0, QPS, 2):
            tx.rewind(qpn)
        await tx.bench.step(2500)
        tx.configure(state=3)   # Armed: no data
        await tx.bench.until(lambda tx=tx: not tx.bench.get("fill_o") and tx.source.idle(), 20000, "empty rings")
        await tx.bench.step(200)
        stale = [packet for packet in tx.told if packet not in tx.gone]
        gone = tx.events["packet"] + tx.events["discard"]
        assert len(tx.all) - len(stale) <= gone <= len(tx.all), f"{gone} of {len(tx.all)}, {len(stale)} stale"
        tx.configure(state=4)
        tx.peer.silent = set()
        more = [tx.post(tx.rng.randrange(QPS), vl, 4126) for vl in range(VLS)]
        await tx.bench.until(lambda tx=tx, more=more: all(packet in tx.gone for packet in more), 20000, "all VLs")


def test_tx_rounds():
    simulate("hca_link_tx", __name__)
