"""hca_loopback, hca_rx_merge: what is for this port comes back whole, the wire loses nothing."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import cocotb
from common import Bench, Sink, Source, simulate, struct

MAC, PORT = struct("mac_t"), struct("port_cfg_t")
OWN_MAC, OWN_LID, LMC = bytes.fromhex("02c0ffee0102"), 0x1230, 3
MAX_BEATS = 66


def words_of(frame):
    """mac_t beats of a frame."""
    pieces = [frame[i:i + 64] for i in range(0, len(frame), 64)]
    return [MAC.pack(last=piece is pieces[-1], len_bytes=len(piece), data=int.from_bytes(piece, "little"))
            for piece in pieces]


def length(rng):
    """Bytes of a frame: short ones and the longest are common."""
    return rng.choice([60, 64, 65, 74, 128, rng.randint(60, 400), rng.randint(60, 64 * MAX_BEATS), 64 * MAX_BEATS])


def frame(rng, number, size=None):
    """A frame that tells which one it is."""
    return number.to_bytes(8, "big") + rng.randbytes((size or length(rng)) - 8)


class Frames:
    """Puts beats together again."""

    def __init__(self, bench):
        self.bench, self.part, self.got, self.spans = bench, b"", [], []
        self.begin = None

    def beat(self, word):
        beat = MAC.unpack(word)
        if not self.part:
            self.begin = self.bench.cycle
        self.part += beat["data"].to_bytes(64, "little")[:beat["len_bytes"]]
        if beat["last"]:
            self.got.append(self.part)
            self.spans.append(self.bench.cycle + 1 - self.begin)
            self.part = b""


class Wire:
    """A stream that cannot be stalled, in or out."""

    def __init__(self, bench, valid, port, rate=1.0, on_word=None):
        self.bench, self.valid, self.port, self.rate, self.on_word = bench, valid, port, rate, on_word
        self.queue = []
        bench.agents.append(self)

    def drive(self):
        if self.on_word:
            return
        offer = bool(self.queue) and self.bench.rng.random() < self.rate
        self.bench.set(self.valid, offer)
        if offer:
            self.bench.set(self.port, self.queue.pop(0))

    def sample(self):
        if self.on_word and self.bench.get(self.valid):
            self.on_word(self.bench.get(self.port))


def destination(rng, ib):
    """First bytes of a frame, and whether they name this port."""
    own = rng.random() < 0.5
    if not ib:
        mac = bytearray(OWN_MAC)
        if not own:
            mac[rng.randrange(6)] ^= 1 << rng.randrange(8)
        return bytes(mac), own
    lid = OWN_LID | rng.randrange(1 << LMC)
    if not own:
        lid = rng.choice([0xFFFF, lid ^ 1 << rng.randrange(LMC, 16)])
    return bytes([0, rng.getrandbits(8)]) + lid.to_bytes(2, "big"), own


@cocotb.test()
@cocotb.parametrize(ib=[0, 1], rates=[(1, 1, 1), (1, 0.3, 0.3), (0.5, 1, 0.2), (1, 0.2, 1)])
async def demux(dut, ib, rates):
    """ADDR-3: each packet leaves on the right side, whole and in order; a looped packet has no gap inside."""
    bench = Bench(dut, 1)
    source = Source(bench, "in", "mac_t", rate=rates[0])
    out, loop = Frames(bench), Frames(bench)
    Sink(bench, "out", rate=rates[1], on_word=out.beat)
    Sink(bench, "loop", rate=rates[2], on_word=loop.beat)
    await bench.start()
    bench.set("port_cfg_i", PORT.pack(ib=ib, mac=int(OWN_MAC.hex(), 16), lid=OWN_LID | 5, lmc=LMC))
    sent = [[], []]
    for n in range(150):
        head, own = destination(bench.rng, ib)
        packet = head + frame(bench.rng, n)
        packet = packet[:64 * MAX_BEATS]
        sent[own].append(packet)
        source.put(*words_of(packet))
    await bench.until(lambda: len(out.got) + len(loop.got) == 150, 60000, "packets")
    assert (out.got, loop.got) == (sent[0], sent[1])
    if rates[2] == 1:
        assert loop.spans == [-(-len(packet) // 64) for packet in loop.got]
    if rates == (1, 1, 1):
        beats = len(source.taken)
        assert source.taken[-1] - source.taken[0] == beats - 1, "the demultiplexer slows the stream down"


@cocotb.test()
@cocotb.parametrize(rates=[(1, 1, 1), (0.4, 0.7, 1), (1, 1, 0.4), (0.5, 0.5, 0.6)])
async def merge(dut, rates):
    """Packets of both sources come out unbroken, each source's in order, and in turns when both wait."""
    bench = Bench(dut, 2)
    sources = [Source(bench, name, "mac_t", rate=rate) for name, rate in zip(("wire", "loop"), rates, strict=False)]
    out = Frames(bench)
    Sink(bench, "out", rate=rates[2], on_word=out.beat)
    await bench.start()
    sent = [[frame(bench.rng, 2 * n + s) for n in range(80)] for s in range(2)]
    for source, frames in zip(sources, sent, strict=True):
        for packet in frames:
            source.put(*words_of(packet))
    await bench.until(lambda: len(out.got) == 160, 60000, "packets")
    origin = [packet[7] & 1 for packet in out.got]
    assert [[p for p, o in zip(out.got, origin, strict=True) if o == s] for s in range(2)] == sent
    if rates == (1, 1, 1):
        assert origin == [0, 1] * 80, "not in turns"
        assert sum(out.spans) == sum(-(-len(p) // 64) for p in out.got), "gaps"


@cocotb.test()
async def hold(dut):
    """While held no looped packet begins; one that has begun goes on."""
    bench = Bench(dut, 3)
    loop = Source(bench, "loop", "mac_t")
    out = Frames(bench)
    Sink(bench, "out", on_word=out.beat)
    await bench.start()
    bench.set("loop_hold_i", 1)
    packets = [frame(bench.rng, n, 640) for n in range(2)]
    for packet in packets:
        loop.put(*words_of(packet))
    await bench.step(50)
    assert loop.taken == []
    bench.set("loop_hold_i", 0)
    await bench.step(3)
    bench.set("loop_hold_i", 1)
    await bench.step(50)
    assert out.got == packets[:1]
    bench.set("loop_hold_i", 0)
    await bench.step(20)
    assert out.got == packets


def test_loopback():
    simulate("hca_loopback", __name__, tests="demux")


def test_rx_merge():
    simulate("hca_rx_merge", __name__, tests="merge|hold")
