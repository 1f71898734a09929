"""What the tests of hca_link_tx share: packets, the peer's side of flow control, and a checker of the stream."""

from collections import deque

from common import Bench, Source, struct

MAC, PHY, CFG, UPD, ENTRY = (struct(name) for name in ("mac_t", "phy_t", "link_cfg_t", "fc_upd_t", "vl_entry_t"))
EVENT, AGE = struct("tx_ev_t"), struct("ring_age_t")
DOWN, INIT, ARMED, ACTIVE, DEFER = 1, 2, 3, 4, 5
VL15 = 15


def crc16(data):
    """LPCRC and VCRC: polynomial 0x100B reflected, from ones, inverted."""
    crc = 0xFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0xD008 if crc & 1 else 0)
    return crc ^ 0xFFFF


def ib_packet(vl, serial, size, qpn=1):
    """A packet with an LRH, a BTH, its number and bytes that follow from both."""
    lrh = bytes([vl << 4, 2]) + (2).to_bytes(2, "big") + (size // 4).to_bytes(2, "big") + bytes(2)
    bth = bytes([4, 0, 255, 255, 0]) + qpn.to_bytes(3, "big") + serial.to_bytes(4, "big")
    return (lrh + bth + bytes((serial * 7 + i * (vl + 3)) & 255 for i in range(size)))[:size]


def eth_frame(prio, serial, size, kind=4):
    """A frame with a priority in its IP header (kind 4, 6), or without IP (kind 0)."""
    head = {4: b"\x08\x00" + bytes([0x45, prio << 5]), 6: b"\x86\xdd" + bytes([0x60 | prio << 1, 0]),
            0: b"\x88\xb5" + bytes([0xFF, 0xFF])}[kind]
    body = bytes(12) + head + bytes([prio]) + serial.to_bytes(4, "big")
    return body + bytes((serial + i) & 255 for i in range(size - len(body)))


def beats_of(packet):
    """Beats of a packet as mac_t words."""
    words = []
    for at in range(0, len(packet), 64):
        part = packet[at:at + 64]
        words.append(MAC.pack(last=at + 64 >= len(packet), len_bytes=len(part), data=int.from_bytes(part, "little")))
    return words


class Stream:
    """Takes the physical stream: data packets by VL in order, link packets with the blocks that stood before them.
    `rate`: chance of ready. Checks the handshake, that packets are whole, and that a packet has no gap of its own."""

    def __init__(self, bench, ib=1, rate=1.0):
        self.bench, self.ib, self.rate = bench, ib, rate
        self.packets, self.order, self.links, self.frames = {}, [], [], []
        self.blocks = [0] * 16
        self.beats = self.part_beats = 0
        self.part, self.held, self.gapless = b"", None, True
        self.on_packet = None
        bench.agents.append(self)

    def drive(self):
        """Chooses ready, blind to valid."""
        self.ready = self.bench.rng.random() < self.rate
        self.bench.set("phy_ready_i", self.ready)

    def sample(self):
        """Looks at the stream."""
        bench = self.bench
        if not bench.get("phy_valid_o"):
            assert self.held is None, "valid was withdrawn"
            assert not (self.part and self.gapless), "a gap inside a packet"
            return
        word = bench.get("phy_o")
        assert self.held is None or self.held == word, "payload changed while stalled"
        self.held = None if self.ready else word
        if not self.ready:
            return
        beat = PHY.unpack(word)
        data = beat["data"].to_bytes(64, "little")
        assert 1 <= beat["len_bytes"] <= 64 and (beat["last"] or beat["len_bytes"] == 64)
        if beat["link"]:
            assert not self.part, "a link packet inside a packet"
            self.link(data, beat)
            return
        self.beats += 1
        self.part_beats += 1
        self.part += data[:beat["len_bytes"]]
        if beat["last"]:
            self.packet(self.part)
            self.part, self.part_beats = b"", 0

    def link(self, data, beat):
        """A flow control packet: right CRC, and FCTBS true at its place."""
        assert beat["last"] and beat["len_bytes"] == 6 and not any(data[6:])
        assert crc16(data[:4]) == int.from_bytes(data[4:6], "little"), "LPCRC"
        vl, fctbs = data[2] >> 4, int.from_bytes(data[:2], "big") & 0xFFF
        self.links.append((data[0] >> 4, vl, int.from_bytes(data[2:4], "big") & 0xFFF))
        assert fctbs == self.blocks[vl] % 4096, f"VL{vl}: FCTBS {fctbs} after {self.blocks[vl]} blocks"

    def packet(self, packet):
        """A data packet or frame."""
        if not self.ib:
            if packet[12:14] == b"\x88\x08":
                self.frames.append(packet)
                return
            vl = packet[16]     # its priority
        else:
            vl = packet[0] >> 4
        self.blocks[vl] += -(-len(packet) // 64)
        self.packets.setdefault(vl, []).append(packet)
        self.order.append((vl, len(packet)))
        if self.on_packet:
            self.on_packet(vl, packet)


class Peer:
    """The receiving end: a buffer of `size` blocks per VL that empties at random; promises lost at random. An arrival
    that does not fit is an overflow."""

    def __init__(self, bench, stream, vls, size=128, drain=0.5, loss=0.0, period=64):
        self.bench, self.size, self.drain, self.loss, self.period = bench, size, drain, loss, period
        self.used, self.abr = [0] * vls, [0] * vls
        self.blocked, self.silent, self.init = set(), set(), False
        self.due = deque()
        stream.on_packet = self.arrive
        bench.agents.append(self)

    def arrive(self, vl, packet):
        """A packet came."""
        if vl == VL15:
            return
        blocks = -(-len(packet) // 64)
        self.abr[vl] += blocks
        self.used[vl] += blocks
        assert self.used[vl] <= self.size, f"VL{vl} overflows"

    def drive(self):
        """Empties buffers, and tells a VL's state now and then."""
        bench, rng = self.bench, self.bench.rng
        for vl, used in enumerate(self.used):
            if used and vl not in self.blocked and rng.random() < self.drain:
                self.used[vl] -= min(used, rng.randint(1, 4))
        bench.set("fcp_i", 0)
        if bench.cycle % self.period == 0:
            self.due.extend(range(len(self.used)))
        if self.due:
            vl = self.due.popleft()
            if vl not in self.silent and rng.random() >= self.loss:
                bench.set("fcp_i", 1)
                fccl = (self.abr[vl] + self.size - self.used[vl]) % 4096
                bench.set("fcp_upd_i", UPD.pack(init=self.init, vl=vl, fccl=fccl))

    def sample(self):
        """Nothing to see."""


class Ages:
    """Asks again and again what is in the rings, by age_o: whoever is there is said to have left when it has, but for
    what is on its last few beats, and is said so at last."""

    IN_FIFO = 6   # packets of a beat between the ring and the stream, at most

    def __init__(self, bench, tx, every=7):
        self.bench, self.tx, self.every = bench, tx, every
        self.asked, self.answers = {}, 0
        bench.agents.append(self)

    def age(self, vl):
        """What the ring of a VL says."""
        return AGE.unpack(self.bench.get("age_o", vl * AGE.width, AGE.width))

    def drive(self):
        """Nothing to drive."""

    def sample(self):
        """One VL's turn, each time another one's: asks, or looks whether the answer has come."""
        turn, late = divmod(self.bench.cycle, self.every)
        vl = turn % self.tx.vls
        if late:
            return
        age = self.age(vl)
        if vl not in self.asked:
            self.asked[vl] = (age["mark"], self.tx.entered[vl])
            return
        mark, there = self.asked[vl]
        if age["empty"] or 0 < (age["epoch"] - mark) % (1 << 16) < 1 << 15:
            gone = len(self.tx.stream.packets.get(vl, ())) + self.tx.events["discard"]
            assert gone + self.IN_FIFO >= there, f"VL{vl}: {gone} of {there} packets have left"
            self.answers += 1
            del self.asked[vl]


class Tx:
    """hca_link_tx with its agents. Packets to send are counted per VL; what must come out is known."""

    def __init__(self, dut, seed, ib=1, rate=1.0, vls=8):
        self.bench = Bench(dut, seed)
        self.rng, self.ib, self.vls = self.bench.rng, ib, vls
        self.source = Source(self.bench, "mac", "mac_t")
        self.ctl = Source(self.bench, "ctl", "phy_t")
        self.stream = Stream(self.bench, ib, rate)
        self.peer = Peer(self.bench, self.stream, vls) if ib else None
        self.serial, self.expected = [0] * 16, {}
        self.entered, self.at_door = [0] * 16, None   # packets that have come in whole
        self.prio_tc = list(range(8))                 # Ethernet: traffic class of each priority
        self.events = dict.fromkeys(("discard", "refused", "packet", "ctl"), 0)
        self.cfg = dict(state=ACTIVE, ib=ib, vl_mask=(1 << vls) - 1, round_quantum=1, limit=255, mtu=5, hoq_life=31,
                        pfc_enable=0xFF)
        self.bench.agents.append(self)

    def drive(self):
        """The ring of the packet at the door, as hca_tx_class has it: of these frames the traffic class is behind the
        IP header's first bytes."""
        source = self.source
        if source.offered and self.at_door is None:
            data = MAC.unpack(source.queue[0])["data"].to_bytes(64, "little")
            self.bench.set("mac_vl_i", data[0] >> 4 if self.ib else self.prio_tc[data[16]])

    def sample(self):
        """Counts events, and what comes in."""
        if self.bench.get("mac_valid_i") and self.bench.get("mac_ready_o"):
            beat = MAC.unpack(self.bench.get("mac_i"))
            if self.at_door is None:
                self.at_door = self.bench.get("mac_vl_i")
            if beat["last"]:
                self.entered[self.at_door] += 1
                self.at_door = None
        event = EVENT.unpack(self.bench.get("ev_o"))
        for name in self.events:
            self.events[name] += event[name]

    async def start(self, high=(), low=None, **cfg):
        """Reset, tables (default: all VLs low, weight of one 2 KiB packet), configuration."""
        bench = self.bench
        await bench.start()
        bench.set("phy_up_i", 1)
        low = [(vl, 33) for vl in range(self.vls)] if low is None else low
        for is_low, entries in ((0, high), (1, low)):
            for index, (vl, weight) in enumerate(entries):
                bench.set("tbl_we_i", 1)
                bench.set("tbl_low_i", is_low)
                bench.set("tbl_idx_i", index)
                bench.set("tbl_i", ENTRY.pack(vl=vl, weight=weight))
                await bench.step()
        bench.set("tbl_we_i", 0)
        self.configure(**cfg)
        await bench.step(2 * self.peer.period if self.peer else 2)
        return self

    def configure(self, **cfg):
        """Changes fields of the configuration."""
        self.cfg.update(cfg)
        self.bench.set("cfg_i", CFG.pack(**self.cfg))
        self.bench.set("sl2vl_i", sum(tc << 4 * prio for prio, tc in enumerate(self.prio_tc)))

    def send(self, vl, size, expect=True, **more):
        """Queues a packet on a VL (Ethernet: priority)."""
        make = ib_packet if self.ib else eth_frame
        if vl == VL15 and self.ib:
            more.setdefault("qpn", 0)
        packet = make(vl, self.serial[vl], size, **more)
        self.serial[vl] += 1
        self.source.put(*beats_of(packet))
        if expect:
            self.expected.setdefault(vl, []).append(packet)

    async def drain(self, limit=60000):
        """Runs until everything that is expected has come, and checks it."""
        want = sum(map(len, self.expected.values()))
        await self.bench.until(lambda: len(self.stream.order) >= want, limit, f"{want} packets")
        await self.bench.step(200)
        self.check()

    def check(self):
        """Every packet came, once, unchanged, in the order of its VL."""
        for vl in set(self.expected) | set(self.stream.packets):
            want, got = self.expected.get(vl, []), self.stream.packets.get(vl, [])
            assert len(got) == len(want), f"VL{vl}: {len(got)} of {len(want)} packets"
            assert got == want, f"VL{vl}: packets changed or out of order"

    def open(self, vl):
        """Whether the VL is open to the send side."""
        return self.bench.get("vl_open_o", vl, 1)
