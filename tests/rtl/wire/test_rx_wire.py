"""hca_rx_wire: captured and built packets to descriptors, every way to be bad, no stall, no wedge."""

import sys
from collections import Counter, deque
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import cocotb
from common import ROOT, Bench, Sink, Source, simulate, struct
from wire_ref import AGENT, GSI, KNOWN, MASKED, SMI, beats_of, frame_of, icrc, parse, pcap_frames, random_packet, vcrc

MAD = struct("mad_beat_t")
MAC, RXD, PORT, ENDED = struct("mac_t"), struct("rxd_t"), struct("port_cfg_t"), struct("rx_ended_t")
PLACE, QPC, QPC_WR = struct("rx_place_t"), struct("qpc_t"), struct("qpc_wr_t")
LINES = 1024
ME = dict(mac=bytes.fromhex("02c0ffee0203"), lid=0x2340)
OTHER = dict(mac=bytes.fromhex("02c0ffee0302"), lid=0x1340)   # the second port
LENGTHS = (0, 1, 2, 3, 4, 17, 60, 63, 64, 65, 127, 128, 255, 1024, 4096)
PCAPS = (ROOT / "tests/golden/rxe-golden.pcap",)
GOLDEN = next((path for path in PCAPS if path.is_file()), None)
MAC_STREAM = [("mac_i", None), ("mac_port_i", None)]
COUNTERS = ("good", "icrc_err", "vcrc_err", "malformed", "dropped")


class Reader:
    """Reads each described packet from the buffer, checks it, frees it. `rate`: chance to start per cycle."""

    def __init__(self, bench, rate):
        self.bench, self.rate, self.done = bench, rate, []
        self.queue, self.current, self.reading, self.data = deque(), None, False, []
        bench.agents.append(self)

    def drive(self):
        bench = self.bench
        bench.set("buf_re_i", 0)
        bench.set("buf_free_i", 0)
        if self.current is None and bench.rng.random() < self.rate:
            self.current, self.asked, self.data = self.pick(), 0, []
        if self.current is None:
            return
        beats = self.current["buf_beats"]
        if self.asked < beats:
            bench.set("buf_re_i", 1)
            bench.set("buf_raddr_i", self.parks() << 10 | (self.current["buf_beat"] + self.asked) % 1024)
        elif self.asked == beats + 1:
            bench.set("buf_free_i", 1)
            bench.set("buf_free_beats_i", beats)
            bench.set("buf_free_place_i", self.current["place"])
        self.asked += 1

    def parks(self):
        """It lies where packets may wait."""
        return PLACE.unpack(self.current["place"])["parks"]

    def pick(self):
        """The next one to be read."""
        return self.queue.popleft() if self.queue else None

    def sample(self):
        if self.current is None:
            return
        if 2 <= self.asked <= self.current["buf_beats"] + 1:
            self.data.append(self.bench.get("buf_rdata_o").to_bytes(64, "little"))
        if self.asked == self.current["buf_beats"] + 2:
            self.done.append((self.current, b"".join(self.data)))
            self.current = None


class Ended:
    """How packets have ended, by port: the strobes counted."""

    def __init__(self, bench):
        self.bench = bench
        self.counts = [dict.fromkeys(COUNTERS, 0) for _ in range(2)]
        bench.agents.append(self)

    def drive(self):
        """Nothing to drive."""

    def sample(self):
        for port, counts in enumerate(self.counts):
            ended = self.bench.get("ended_o", ENDED.width * port, ENDED.width)
            if ended:
                for name, strobe in ENDED.unpack(ended).items():
                    counts[name] += strobe


class Rx:
    """Bench; `frames` go in, descriptors are compared with what Python parses from the good ones. `ib`: personality
    of both ports, or one for each."""

    def __init__(self, dut, seed, ib, rate=1.0, sink_rate=1.0, read_rate=1.0, mac=ME["mac"]):
        self.bench = Bench(dut, seed)
        self.rng, self.ib = self.bench.rng, ib
        self.ibs = ib if isinstance(ib, tuple) else (ib, ib)
        self.ports = (dict(ME, mac=mac), dict(OTHER))
        self.mac = Source(self.bench, "mac", rate=rate, payload=MAC_STREAM)
        self.reader = Reader(self.bench, read_rate)
        self.sink = Sink(self.bench, "rxd", rate=sink_rate,
                         on_word=lambda word: self.reader.queue.append(RXD.unpack(word)))
        self.ended = Ended(self.bench)
        self.expected = []
        self.lmc = [0, 0]
        self.count = dict.fromkeys(COUNTERS, 0)
        self.other_count = dict.fromkeys(COUNTERS, 0)

    async def start(self):
        await self.bench.start()
        for port, (ib, me) in enumerate(zip(self.ibs, self.ports, strict=True)):
            self.configure(port, ib=ib, active=1, mac=int.from_bytes(me["mac"], "big"), lid=me["lid"], lmc=2)
        # Nobody shares a line: no packet is stored where it may wait.
        for line in range(LINES):
            await self.holds(line, is_shared=0)
        return self

    async def holds(self, qpn, is_shared=1):
        """A QP has its line."""
        self.bench.set("qpc_wr_i", QPC_WR.pack(qpn=qpn % LINES, qpc=QPC.pack(qpn=qpn, is_shared=is_shared)))
        self.bench.set("qpc_wr_valid_i", 1)
        await self.bench.step()
        self.bench.set("qpc_wr_valid_i", 0)

    def configure(self, port, **fields):
        self.lmc[port] = fields["lmc"]
        self.bench.set("port_cfg_i", PORT.pack(**fields), PORT.width * port, PORT.width)

    def push(self, frame, verdict="good", port=0):
        """Queues a frame."""
        for last, size, data in beats_of(frame):
            self.mac.put((MAC.pack(last=last, len_bytes=size, data=data), port))
        (self.other_count if port else self.count)[verdict] += 1
        if verdict == "good":
            headers, payload = parse(frame, self.ibs[port])
            # ADDR-4: the bits of the destination LID that are the path's.
            path = int.from_bytes(frame[2:4], "big") % (1 << self.lmc[port]) if self.ibs[port] else 0
            self.expected.append((dict(headers, port=port, path_bits=path), payload))

    def random(self, opcode, length, port=0, **changes):
        """Good random frame to us."""
        if opcode & 0x1F == 0x1D or opcode in MASKED:   # behind its bytes that count as payload
            length = min(length, 4096 - 16)
        p = random_packet(self.rng, self.ibs[port], opcode, length, self.ports[port])
        p.update(changes)
        return frame_of(p)

    def counters(self, port=0):
        return self.ended.counts[port]

    async def finish(self, limit=100000):
        await self.bench.until(self.mac.idle, limit=limit, what="frames accepted")
        await self.bench.until(lambda: len(self.reader.done) == len(self.expected), limit, "packets read")
        await self.bench.step(30)
        assert (self.counters(0), self.counters(1)) == (self.count, self.other_count)
        assert len(self.reader.done) == len(self.expected)
        done = sorted(self.reader.done, key=lambda read: read[0].get("number", 0))   # stays in order without numbers
        pairs = zip(done, self.expected, strict=True)
        for number, ((got, data), (want, payload)) in enumerate(pairs):
            wrong = {name: (got[name], value) for name, value in want.items() if got[name] != value}
            assert not wrong, f"packet {number}, opcode {want['opcode']:#x}: got, want {wrong}"
            offset = got["lead"] + got["payload_off"]
            assert data[offset:offset + len(payload)] == payload, f"packet {number}: payload"


class PoliteSource(Source):
    """Begins a packet only when room_o was set in the cycle before; never stops inside one."""

    def __init__(self, bench):
        super().__init__(bench, "mac", payload=MAC_STREAM)
        self.first, self.room, self.held_back = True, False, 0

    def drive(self):
        wants = self.offered or self.queue
        self.rate = 1.0 if self.room or not self.first else 0.0
        self.held_back += bool(wants and self.rate == 0.0)
        super().drive()

    def sample(self):
        word = self.queue[0] if self.offered else None
        super().sample()
        self.room = bool(self.bench.get("room_o"))
        if word is not None:
            self.first = bool(MAC.unpack(word[0])["last"])


def fix_crcs(frame, ib):
    """Frame whose headers were changed, with CRCs that match again."""
    if ib:
        packet = frame[:-6] + icrc(frame[:-6], True)
        return packet + vcrc(packet)
    return frame[:-4] + icrc(frame[14:-4], False)


def flip(rng, frame, lo, hi):
    """One wrong bit in bytes lo..hi-1."""
    at = rng.randrange(lo, hi)
    return frame[:at] + bytes([frame[at] ^ 1 << rng.randrange(8)]) + frame[at + 1:]


@cocotb.test(skip=GOLDEN is None)
async def golden(dut):
    """Frames captured from Linux soft-RoCE parse to the right descriptors; with a wrong bit they drop."""
    frames = [f for f in pcap_frames(GOLDEN)
              if f[12:14] == b"\x08\x00" and f[23] == 17 and f[36:38] == b"\x12\xb7"]
    assert len(frames) > 200
    for mac in sorted({f[:6] for f in frames}):
        rx = await Rx(dut, 1, 0, mac=mac).start()
        for frame in frames:
            if frame[:6] != mac:
                rx.push(frame, "malformed")
                continue
            rx.push(frame)
            end = 14 + int.from_bytes(frame[16:18], "big")
            rx.push(flip(rx.rng, frame, 54, end), "icrc_err" if end > 54 else "malformed")
        await rx.finish()


async def every_opcode(dut, ib, seed, rate, sink_rate, read_rate):
    rx = await Rx(dut, seed, ib, rate, sink_rate, read_rate).start()
    for length in LENGTHS:
        for opcode in sorted(KNOWN) if length < 200 else rx.rng.sample(sorted(KNOWN), 2):
            rx.push(rx.random(opcode, length))
        await rx.bench.until(rx.mac.idle, what="frames accepted")
        await rx.bench.until(lambda: len(rx.reader.done) + 5 > len(rx.expected), 50000, "packets read")
    await rx.finish()


@cocotb.test()
async def roce_every_opcode(dut):
    """Every opcode and length over IPv4 and IPv6, with gaps and a slow reader."""
    await every_opcode(dut, 0, 2, 0.8, 0.5, 0.5)


@cocotb.test()
async def ib_every_opcode(dut):
    """Every opcode and length with and without GRH."""
    await every_opcode(dut, 1, 3, 0.8, 0.5, 0.5)


@cocotb.test()
async def never_stalls(dut):
    """Back-to-back packets of one to three beats: none is lost, a beat is taken in every cycle."""
    for ib in (0, 1):
        rx = await Rx(dut, 4, ib).start()
        for _ in range(12):
            for _ in range(30):
                rx.push(rx.random(rx.rng.choice((0x04, 0x11, 0x0A, 0x10)), rx.rng.choice((0, 4, 8, 64, 96))))
            beats, before = len(rx.mac.queue), len(rx.mac.taken)
            await rx.bench.until(rx.mac.idle, what="frames accepted")
            burst = rx.mac.taken[before:]
            assert len(burst) == beats and burst[-1] - burst[0] == beats - 1
            # The buffer's reader takes more cycles per packet than the line.
            await rx.bench.until(lambda rx=rx: len(rx.reader.done) == len(rx.expected), what="packets read")
        await rx.finish()


@cocotb.test()
async def overflow(dut):
    """Nobody reads: 64 descriptors or 64 KiB are kept, the rest is dropped and counted; all is well later."""
    for length, room in ((0, 66), (4096, 15)):
        rx = await Rx(dut, 5, 0, sink_rate=0.0).start()
        frames = [rx.random(0x04, length) for _ in range(120 if length == 0 else 40)]
        for frame in frames:
            rx.push(frame)
        await rx.bench.until(rx.mac.idle, what="frames accepted")
        await rx.bench.step(30)
        good = rx.counters()["good"]
        assert rx.counters()["dropped"] == len(frames) - good and room - 2 <= good <= room
        rx.expected = rx.expected[:good]
        rx.count.update(good=good, dropped=len(frames) - good)
        rx.sink.rate = 1.0
        await rx.bench.until(lambda rx=rx: len(rx.reader.done) == len(rx.expected), what="packets read")
        rx.push(rx.random(0x0A, 4096))
        await rx.finish()


@cocotb.test()
async def polite(dut):
    """A source that looks at room_o loses nothing, whatever the reader does, and the buffer is still used well."""
    for ib, length in ((0, None), (1, None), (0, 0), (1, 0), (1, 4096)):
        rx = await Rx(dut, 9, ib, sink_rate=0.0, read_rate=0.05).start()
        rx.bench.agents.remove(rx.mac)
        rx.mac = PoliteSource(rx.bench)
        for _ in range(90):
            size = rx.rng.choice((0, 0, 0, 1, 200, 1500, 4096)) if length is None else length
            rx.push(rx.random(0x0A, size))
        await rx.bench.step(3000)
        waiting = rx.counters()["good"]
        assert 0 < waiting < 90 and rx.mac.held_back > 1000, "it never had to wait"
        assert waiting >= {0: 58, 4096: 12}.get(length, 20), f"only {waiting} packets before the source was held"
        rx.sink.rate = 0.2
        await rx.finish()


def bad_variants(rx):
    """(frame, verdict) of packets that must not pass."""
    rng, ib = rx.rng, rx.ib
    length = rng.choice((0, 5, 64, 200))
    frame = rx.random(rng.choice((0x04, 0x0A, 0x0F)), length, is_ipv4=False, is_global=True)
    l3 = 0 if ib else 14
    bth = l3 + 48
    tail = 6 if ib else 4

    def patch(at, value):
        return fix_crcs(frame[:at] + value + frame[at + len(value):], ib)

    yield flip(rng, frame, bth + 12 - 3, len(frame) - tail + 1), "vcrc_err" if ib else "icrc_err"
    unknown = (0x15, 0x18, 0x40, 0x80, 0x82, 0xE0, 0x81 if ib else 0x83)   # a CNP is RoCEv2's
    for bad in (patch(bth, bytes([rng.choice(unknown)])), patch(bth + 1, b"\x43"),
                patch(l3 + 6 if not ib else 14, b"\x06")):
        yield bad, "malformed"
    yield frame[:rng.randrange(1, len(frame) - (2 if ib else 0))], "malformed"
    yield rng.randbytes(rng.choice((1, 2, 13, 14, 15, 18, 30, 63, 64, 65, 66, 100, 9000, 40000))), "malformed"
    if ib:
        yield fix_crcs(frame[:2] + (ME["lid"] ^ 4).to_bytes(2, "big") + frame[4:], 1), "malformed"
        yield frame[:-2] + bytes([frame[-2] ^ 1]) + frame[-1:], "vcrc_err"
        broken = flip(rng, frame[:-2], bth + 9, len(frame) - 2)
        yield broken + vcrc(broken), "icrc_err"
        yield frame + b"\0\0", "malformed"
    else:
        yield flip(rng, frame, 1, 6), "malformed"    # the first byte has the bit of groups
        yield patch(14 + 42, b"\x12\xb6"), "malformed"
        yield patch(14 + 44, b"\x7f\x00"), "malformed"


@cocotb.test()
async def bad_packets(dut):
    """Bad CRCs, truncated, oversize, foreign and garbage packets drop; good ones between them pass."""
    for ib in (0, 1):
        rx = await Rx(dut, 6, ib, rate=0.95).start()
        for _ in range(40):
            for frame, verdict in bad_variants(rx):
                rx.push(frame, verdict)
                if rx.rng.random() < 0.7:
                    rx.push(rx.random(0x0A, rx.rng.choice((0, 1, 64, 300))))
            await rx.bench.until(rx.mac.idle, what="frames accepted")
        await rx.finish()


@cocotb.test()
async def lid_mask(dut):
    """ADDR-3: the port answers to 2^LMC LIDs and to the permissive one, to no other; any VL is taken (VL-5)."""
    for lmc in range(8):
        rx = await Rx(dut, 9, 1).start()
        own = ME["lid"] << 3 & 0x3FFF | rx.rng.randrange(1 << lmc)
        rx.configure(0, ib=1, active=1, lid=own, lmc=lmc)
        base = own >> lmc << lmc
        paths = range(1 << lmc) if lmc < 3 else [0, (1 << lmc) - 1, rx.rng.randrange(1 << lmc)]
        for dlid in [*[base + path for path in paths], 0xFFFF]:
            rx.push(rx.random(0x0A, 8, dlid=dlid, vl=rx.rng.randrange(16)))
        for dlid in [base - 1, base + (1 << lmc), *[base ^ 1 << bit for bit in range(lmc, 16)]]:
            rx.push(rx.random(0x0A, 8, dlid=dlid), "malformed")
        await rx.finish()


@cocotb.test()
@cocotb.parametrize(ib=[0, 1], rates=[(1.0, 1.0, 1.0), (0.8, 0.5, 0.5)])
async def datagrams(dut, ib, rates):
    """ADDR-4, KEY-23, MC-3, MGMT-4: datagrams, those for QP1 and for groups too, with every kind of
    network header: Q_Key, source QP, immediate data, source LID, GIDs, and the path bits of the destination LID, as
    many as each port's LMC has."""
    for turn in range(4):
        rx = await Rx(dut, 30 + turn, ib, *rates).start()
        lids = (0x2300, 0x1380)
        for port, lid in enumerate(lids):
            rx.ports[port]["lid"] = lid
            rx.configure(port, ib=ib, active=1, mac=int.from_bytes(rx.ports[port]["mac"], "big"), lid=lid,
                         lmc=(2 * turn + 3 * port) % 8)
        for _ in range(60):
            port = rx.rng.randrange(2)
            dlid = lids[port] + rx.rng.randrange(1 << rx.lmc[port])
            size = rx.rng.choice((0, 1, 2, 3, 60, 64, 200, rx.rng.randint(0, 4096)))
            dmac = int.from_bytes(rx.ports[port]["mac"], "little")
            if rx.rng.random() < 0.3:    # MC-3: for a group, whoever is in it
                dlid, dmac = rx.rng.randrange(0xC000, 0xFFFF), rx.rng.getrandbits(48) | 1
            rx.push(rx.random(rx.rng.choice((0x64, 0x65)), size, port, dlid=dlid, dmac=dmac), port=port)
            await rx.bench.until(lambda rx=rx: len(rx.reader.done) + 5 > len(rx.expected), 50000, "packets read")
        await rx.finish()


@cocotb.test()
@cocotb.parametrize(ibs=[(0, 0), (0, 1), (1, 0), (1, 1)], rate=[1.0, 0.7])
async def two_ports(dut, ibs, rate):
    """Packets of two ports in turns, back to back, each with its port's framing and address; one that carries the
    address of the other port, or its framing, drops and is counted for the port through which it came."""
    rx = await Rx(dut, 10, ibs, rate, 0.7, 0.7).start()
    for _ in range(20):
        for _ in range(12):
            port, size = rx.rng.randrange(2), rx.rng.choice((0, 0, 4, 64, 200, 1024))
            frame = rx.random(rx.rng.choice((0x04, 0x11, 0x0A)), size, port=port)
            if rx.rng.random() < 0.3:
                rx.push(frame, "malformed", 1 - port)
            else:
                rx.push(frame, port=port)
        await rx.bench.until(rx.mac.idle, what="frames accepted")
        await rx.bench.until(lambda: len(rx.reader.done) == len(rx.expected), what="packets read")
    await rx.finish()


@cocotb.test()
async def ethernet_extras(dut):
    """Padding to 60 bytes, trailing bytes and a VLAN tag are taken off."""
    rx = await Rx(dut, 7, 0).start()
    for length in (0, 4, 64, 1000):
        for extra in (0, 2, 40, 64, 200):
            frame = rx.random(0x04, length) + rx.rng.randbytes(extra)
            rx.push(frame)
            rx.push(frame[:12] + b"\x81\x00\x60\x05" + frame[12:])
    await rx.finish()


@cocotb.test()
async def latency(dut):
    """Cycles from the last beat to the descriptor."""
    for ib in (0, 1):
        rx = await Rx(dut, 8, ib).start()
        rx.push(rx.random(0x11, 0))
        await rx.finish()
        cycles = rx.sink.when[0] - rx.mac.taken[-1]
        dut._log.warning(f"latency from the last beat to rxd, ib={ib}: {cycles} cycles")
        assert cycles <= 12


def mad_bytes(rng, mgmt_class, method, attribute):
    """A management datagram."""
    mad = bytearray(rng.randbytes(256))
    mad[0:4] = bytes((1, mgmt_class, 1, method))
    mad[16:18] = attribute.to_bytes(2, "big")
    return bytes(mad)


@cocotb.test()
@cocotb.parametrize(ib=[0, 1], is_global=[0, 1])
async def management(dut, ib, is_global):
    """MGMT-2, VL-9: requests to agents are for firmware, and for it only; other datagrams of subnet management are for
    QP0, if they come on VL15 from QP 0. What firmware gets is the packet as it is in the buffer, once its CRCs are
    good."""
    rx = await Rx(dut, 31 + 2 * ib + is_global, ib).start()
    rng, taken, want, packet, kinds = rx.rng, [], [], [], Counter()

    class Tap:
        """What hca_mad_rx sees."""

        def drive(self):
            """Nothing."""

        def sample(self):
            beat = MAD.unpack(rx.bench.get("mad_o"))
            if beat["valid"]:
                packet.append(beat["data"].to_bytes(64, "little") if beat["store"] else b"")
                if beat["last"]:
                    if beat["take"]:
                        assert beat["bytes"] == 256
                        taken.append((beat["port"], b"".join(packet)))
                    packet.clear()

    rx.bench.agents.append(Tap())
    for mgmt_class in (1, 0x81, 3, 4):
        for method in (1, 2, 5, 6, 7, 0x81):
            for attribute in (0x11, 0x20):
                for qpn, src, vl in ((0, 0, 15), (0, 7, 15), (0, 0, 3), (1, 1, 2), (5, 1, 2)):
                    port = rng.randrange(2)
                    p = random_packet(rng, ib, 0x64, 256, rx.ports[port])
                    p.update(dest_qpn=qpn, deth_src_qpn=src, is_global=is_global, vl=vl,
                             payload=mad_bytes(rng, mgmt_class, method, attribute))
                    frame = frame_of(p)
                    broken = rng.random() < 0.1
                    if broken:
                        frame = frame[:-10] + bytes((frame[-10] ^ 1,)) + frame[-9:]
                    rx.push(frame, ("vcrc_err" if ib else "icrc_err") if broken else "good", port)
                    if not broken:
                        kind = rx.expected[-1][0]["kind"]
                        kinds[kind] += 1
                        if kind == AGENT:
                            want.append((port, frame[:-2]))
    await rx.finish()
    assert [(port, data[:len(w)]) for (port, data), (_, w) in zip(taken, want, strict=True)] == want
    assert set(kinds) == ({0, GSI, SMI, AGENT} if ib else {0, GSI}) and (kinds[AGENT] > 12 or not ib)


def test_rx_wire():
    simulate("hca_rx_wire", __name__)
