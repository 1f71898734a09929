"""hca_rx_wire: packets of QPs that have not their lines lie behind the 64 KiB, and are read and freed in any order."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import cocotb
from common import simulate
from test_rx_wire import LINES, PLACE, RXD, Reader, Rx, flip

ACK = 0x11
REQUESTS = (0x00, 0x04, 0x06, 0x0A, 0x0C, 0x14)
PARK_BEATS, PARK_SLOTS, LONGEST = 512, 128, 67


class LateReader(Reader):
    """Packets that may wait do: they are read, and freed, in any order. `back`: the chance of one of them, where
    something is to be read."""

    def __init__(self, bench, rate, back):
        super().__init__(bench, rate)
        self.waiting, self.back, self.parked = [], back, []

    def arrive(self, packet):
        """A descriptor."""
        place = PLACE.unpack(packet["place"])
        self.parked.append(bool(place["parks"]))
        if not place["parks"]:
            self.queue.append(packet)
            return
        assert place["slot"] not in [PLACE.unpack(other["place"])["slot"] for other in self.waiting]
        self.waiting.append(packet)

    def pick(self):
        rng = self.bench.rng
        if self.waiting and rng.random() < self.back:
            return self.waiting.pop(rng.randrange(len(self.waiting)))
        return super().pick()


async def start(dut, seed, ib, back, **rates):
    """A bench with some QPs that have their lines, and others of the same lines that have not: (rx, homes, aways)."""
    rx = Rx(dut, seed, ib, **rates)
    rx.bench.agents.remove(rx.reader)
    rx.reader = LateReader(rx.bench, rates.get("read_rate", 1.0), back)

    def arrive(word):
        packet = RXD.unpack(word)
        packet["number"] = len(rx.reader.parked)
        rx.reader.arrive(packet)

    rx.sink.on_word = arrive
    await rx.start()
    lines = rx.rng.sample(range(2, LINES), 8)
    homes = [rx.rng.randrange(1, 100) * LINES + line for line in lines]
    aways = [qpn ^ rx.rng.randrange(1, 1 << 14) * LINES for qpn in homes]
    for qpn in homes:
        await rx.holds(qpn)
    return rx, homes, aways


def spoiled(rx, frame):
    """A wrong bit at its end: (frame, verdict)"""
    if rx.ib:
        return flip(rx.rng, frame, len(frame) - 2, len(frame)), "vcrc_err"
    return flip(rx.rng, frame, len(frame) - 4, len(frame)), "icrc_err"


@cocotb.test()
@cocotb.parametrize(ib=[0, 1], rate=[1.0, 0.7])
async def any_order(dut, ib, rate):
    """Requests for who is not there lie apart, back to back with others, good or bad, and are intact when they are
    read at last; answers, and packets for who is there, never."""
    rx, homes, aways = await start(dut, 40 + ib, ib, back=0.3, rate=rate, sink_rate=0.9)
    want = []
    for _ in range(60):
        for _ in range(rx.rng.randrange(1, 12)):
            away, answer = rx.rng.random() < 0.4, rx.rng.random() < 0.2
            opcode = ACK if answer else rx.rng.choice(REQUESTS)
            size = 0 if answer else rx.rng.choice((0, 1, 4, 64, 200))
            frame = rx.random(opcode, size, dest_qpn=rx.rng.choice(aways if away else homes))
            if rx.rng.random() < 0.1:
                rx.push(*spoiled(rx, frame))
                continue
            rx.push(frame)
            want.append(away and not answer)
        await rx.bench.until(rx.mac.idle, what="frames accepted")
        if rx.rng.random() < 0.2:
            await turn(rx, homes, aways)
        await rx.bench.until(lambda: len(rx.reader.done) + 40 > len(rx.expected), what="packets read")
    rx.reader.back = 1.0
    await rx.finish()
    assert rx.reader.parked == want and sum(want) > 60


async def turn(rx, homes, aways):
    """A line changes hands; no packet that comes is of before."""
    await rx.bench.step(20)
    at = rx.rng.randrange(len(homes))
    homes[at], aways[at] = aways[at], homes[at]
    await rx.holds(homes[at])


@cocotb.test()
@cocotb.parametrize(size=[0, 200, 1024, 4096])
async def full_ring(dut, size):
    """Where there is no room for one more that waits, it lies with the others, as it did without; when one is freed,
    and all before it, there is room again."""
    rx, _, aways = await start(dut, 50, 0, back=0.0)
    for _ in range(3):
        before = len(rx.expected)
        for _ in range({0: 150, 200: 140, 1024: 40, 4096: 20}[size]):
            rx.push(rx.random(0x0A, size, dest_qpn=rx.rng.choice(aways)))
            await rx.bench.until(rx.mac.idle, what="frames accepted")
            if not len(rx.expected) % 8:
                await rx.bench.step(rx.rng.randrange(100))
        await rx.bench.until(lambda: len(rx.reader.done) + len(rx.reader.waiting) == len(rx.expected), what="others")
        waiting = len(rx.reader.waiting)
        beats = sum(packet["buf_beats"] for packet in rx.reader.waiting)
        assert beats <= PARK_BEATS and waiting < len(rx.expected) - before
        assert waiting >= PARK_SLOTS - 1 or beats > PARK_BEATS - 2 * LONGEST, (waiting, beats)
        rx.reader.back = 0.5
        await rx.bench.until(lambda: len(rx.reader.done) == len(rx.expected), what="packets read")
        await rx.bench.step(2 * PARK_SLOTS + 4)
        rx.reader.back = 0.0
    rx.reader.back = 1.0
    await rx.finish()


def test_rx_away():
    simulate("hca_rx_wire", __name__)
