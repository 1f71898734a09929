"""hca_loopback, hca_mac_merge: what is for its own port comes back whole, packets of all sources come out unbroken."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import cocotb
import pytest
from common import Bench, Sink, Source, simulate, struct

MAC, PORT = struct("mac_t"), struct("port_cfg_t")
OWN_MAC, OWN_LID, LMC = (bytes.fromhex("02c0ffee0102"), bytes.fromhex("02c0ffee0103")), (0x1230, 0x1238), 3
OUT = [("out_o", None), ("out_port_o", None)]
MERGED = [("out_o", None), ("out_side_o", None)]
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
        self.bench, self.part, self.got, self.ports, self.spans = bench, b"", [], [], []
        self.begin = None

    def beat(self, word):
        word, port = word
        beat = MAC.unpack(word)
        if not self.part:
            self.begin = self.bench.cycle
            self.ports.append(port)
        assert self.ports[-1] == port, "the port changes inside a packet"
        self.part += beat["data"].to_bytes(64, "little")[:beat["len_bytes"]]
        if beat["last"]:
            self.got.append(self.part)
            self.spans.append(self.bench.cycle + 1 - self.begin)
            self.part = b""


class MergeBench(Bench):
    """mac_i is an unpacked array: its sources write it."""

    def set(self, port, value, lsb=0, width=None):
        if port != "mac_i":
            super().set(port, value, lsb, width)


class MergeSource(Source):
    """One of the sources of hca_mac_merge: beat and port, each in its place of a port of all sources."""

    def __init__(self, bench, index, rate=1.0):
        super().__init__(bench, "src", index=index, rate=rate)

    def drive(self):
        bench = self.bench
        if not self.offered and self.queue and bench.rng.random() < self.rate:
            self.offered = True
            word, port = self.queue[0]
            bench.dut.mac_i[self.index].value = word
            bench.set("side_i", port, self.index, 1)
        bench.set("valid_i", self.offered, self.index, 1)

    def sample(self):
        if self.offered and self.bench.get("ready_o", self.index, 1):
            self.queue.popleft()
            self.offered = False
            self.taken.append(self.bench.cycle)


def destination(rng, ib, port):
    """First bytes of a frame, and where it must go: out, to its own port."""
    own = rng.random() < 0.5
    if rng.random() < 0.2:
        if not ib:
            return bytes([rng.getrandbits(8) | 1]) + rng.randbytes(5), (True, True)
        lid = rng.choice([0xC000, 0xFFFE, rng.randrange(0xC000, 0xFFFF)])
        return bytes([0, 0]) + lid.to_bytes(2, "big"), (True, True)
    if not ib:
        if not own and rng.random() < 0.3:
            return OWN_MAC[1 - port], (True, False)
        mac = bytearray(OWN_MAC[port])
        if not own:
            byte = rng.randrange(6)
            mac[byte] ^= 1 << rng.randrange(byte == 0, 8)   # not the bit of groups
        return bytes(mac), (not own, own)
    lid = OWN_LID[port] | rng.randrange(1 << LMC)
    if not own:
        lid = rng.choice([0xFFFF, lid ^ 1 << rng.randrange(LMC, 16)])
    return bytes([0, rng.getrandbits(8)]) + lid.to_bytes(2, "big"), (not own, own)


@cocotb.test()
@cocotb.parametrize(ib=[0, 1], rates=[(1, 1, 1), (1, 0.3, 0.3), (0.5, 1, 0.2), (1, 0.2, 1)])
async def demux(dut, ib, rates):
    """ADDR-3, MC-3: each packet leaves on the right side, one for a group on both, whole and in order; a looped packet
    has no gap inside."""
    bench = Bench(dut, 1)
    source = Source(bench, "in", rate=rates[0], payload=[("in_i", None), ("in_port_i", None)])
    out, loop = Frames(bench), Frames(bench)
    Sink(bench, "out", rate=rates[1], payload=OUT, on_word=out.beat)
    Sink(bench, "loop", rate=rates[2], payload=[("loop_o", None), ("loop_port_o", None)], on_word=loop.beat)
    await bench.start()
    # The second port has the other personality.
    for port in (0, 1):
        cfg = PORT.pack(ib=ib ^ port, mac=int(OWN_MAC[port].hex(), 16), lid=OWN_LID[port] | 5, lmc=LMC)
        bench.set("port_cfg_i", cfg, PORT.width * port, PORT.width)
    sent, ports = [[], []], [[], []]
    for n in range(150):
        port = bench.rng.randrange(2)
        head, sides = destination(bench.rng, ib ^ port, port)
        packet = head + frame(bench.rng, n)
        packet = packet[:64 * MAX_BEATS]
        for side in (side for side in (0, 1) if sides[side]):
            sent[side].append(packet)
            ports[side].append(port)
        source.put(*((word, port) for word in words_of(packet)))
    await bench.until(lambda: [len(out.got), len(loop.got)] == [len(side) for side in sent], 60000, "packets")
    assert (out.got, loop.got) == (sent[0], sent[1])
    assert (out.ports, loop.ports) == (ports[0], ports[1])
    if rates[2] == 1:
        assert loop.spans == [-(-len(packet) // 64) for packet in loop.got]
    if rates == (1, 1, 1):
        beats = len(source.taken)
        assert source.taken[-1] - source.taken[0] == beats - 1, "the demultiplexer slows the stream down"


@cocotb.test()
@cocotb.parametrize(rates=[(1, 1, 1, 1), (0.4, 0.7, 0.5, 1), (1, 1, 1, 0.4), (0.5, 0.5, 0.1, 0.6)])
async def merge(dut, rates):
    """Packets of all sources come out unbroken with their port, each source's in order, and in turns when all wait."""
    bench = MergeBench(dut, 2)
    count = len(dut.valid_i)
    sources = [MergeSource(bench, n, rate) for n, rate in zip(range(count), rates, strict=False)]
    out = Frames(bench)
    Sink(bench, "out", rate=rates[3], payload=MERGED, on_word=out.beat)
    await bench.start()
    sent = [[frame(bench.rng, 4 * n + s) for n in range(60)] for s in range(count)]
    for source, frames in zip(sources, sent, strict=True):
        for packet in frames:
            source.put(*((word, packet[8] & 1) for word in words_of(packet)))
    await bench.until(lambda: len(out.got) == 60 * count, 60000, "packets")
    assert out.ports == [packet[8] & 1 for packet in out.got]
    origin = [packet[7] & 3 for packet in out.got]
    assert [[p for p, o in zip(out.got, origin, strict=True) if o == s] for s in range(count)] == sent
    if rates == (1, 1, 1, 1):
        assert origin == list(range(count)) * 60, "not in turns"
        assert sum(out.spans) == sum(-(-len(p) // 64) for p in out.got), "gaps"


@cocotb.test()
async def hold(dut):
    """While held no packet of that source begins; one that has begun goes on."""
    bench = MergeBench(dut, 3)
    loop = MergeSource(bench, 1)
    out = Frames(bench)
    Sink(bench, "out", payload=MERGED, on_word=out.beat)
    await bench.start()
    bench.set("hold_i", 2)
    packets = [frame(bench.rng, n, 640) for n in range(2)]
    for packet in packets:
        loop.put(*((word, 1) for word in words_of(packet)))
    await bench.step(50)
    assert loop.taken == []
    bench.set("hold_i", 0)
    await bench.step(3)
    bench.set("hold_i", 2)
    await bench.step(50)
    assert out.got == packets[:1]
    bench.set("hold_i", 0)
    await bench.step(20)
    assert out.got == packets


def test_loopback():
    simulate("hca_loopback", __name__, tests="demux")


@pytest.mark.parametrize("sources", [2, 3])
def test_mac_merge(sources):
    simulate("hca_mac_merge", __name__, parameters=dict(N=sources), tests="merge|hold")
