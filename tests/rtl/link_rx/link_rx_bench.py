"""Bench of the link's receive half: the cable's end, a sender that obeys credits, and what must come out."""

from collections import deque

from common import Bench, Sink, struct
from link_ref import VL15, blocks, ib_packet, parse_fcp

MAC, PHY, CFG, UPD = struct("mac_t"), struct("phy_t"), struct("link_cfg_t"), struct("fc_upd_t")
CLASS = struct("eth_class_t")
DOWN, INIT, ARMED, ACTIVE, DEFER = 1, 2, 3, 4, 5
COUNTS = ("packet", "symbol_err", "malformed", "vl_mismatch", "state_drop", "vl15_drop", "overrun", "fcp",
          "lpcrc_err", "fcp_malformed", "recovery", "downed")
NUM_VLS, CAP = 8, 256      # as the bench is built
ME = bytes.fromhex("02c0ffee0203")


class Phy:
    """Drives the physical stream: beats (phy word, err), with gaps; `feed` is asked for more when it runs dry."""

    def __init__(self, bench, rate=1.0):
        self.bench, self.rate, self.queue, self.feed = bench, rate, deque(), None
        self.sent_last = []      # cycles of last beats
        bench.agents.append(self)

    def put(self, packet, link=0, err_at=None):
        """Queues a packet; err_at: beat with a symbol error."""
        pieces = [packet[i:i + 64] for i in range(0, len(packet), 64)]
        for i, piece in enumerate(pieces):
            word = PHY.pack(link=link, last=i == len(pieces) - 1, len_bytes=len(piece),
                            data=int.from_bytes(piece, "little"))
            self.queue.append((word, i == err_at))

    def idle(self):
        return not self.queue

    def drive(self):
        if not self.queue and self.feed:
            self.feed()
        on = bool(self.queue) and self.bench.rng.random() < self.rate
        self.bench.set("phy_valid_i", on)
        if on:
            word, err = self.queue.popleft()
            self.bench.set("phy_i", word)
            self.bench.set("phy_err_i", err)
            if PHY.unpack(word)["last"]:
                self.sent_last.append(self.bench.cycle)

    def sample(self):
        """The stream never stalls."""


class Room:
    """Room downstream, now and then; checks that no packet begins without."""

    def __init__(self, bench, rate):
        self.bench, self.rate = bench, rate
        self.now = self.before = False
        self.first = True        # the next beat to appear begins a packet
        bench.agents.append(self)

    def drive(self):
        self.before, self.now = self.now, self.bench.rng.random() < self.rate
        self.bench.set("room_i", self.now)

    def sample(self):
        if not self.bench.get("mac_valid_o"):
            return
        assert self.before or not self.first, "a packet began without room"
        if self.bench.get("mac_ready_i"):
            self.first = bool(MAC.unpack(self.bench.get("mac_o"))["last"])
        else:
            self.first = False


class Rx:
    """Bench; `want` per VL (or priority) is compared with the packets that come out."""

    def __init__(self, dut, seed, ib=1, rate=1.0, sink_rate=1.0, room_rate=1.0, fcp_rate=1.0, vls=NUM_VLS, pfc=0):
        self.bench = Bench(dut, seed)
        self.rng, self.ib, self.vls, self.pfc = self.bench.rng, ib, vls, pfc
        self.phy = Phy(self.bench, rate)
        self.room = Room(self.bench, room_rate)
        self.parts = []
        self.got = []            # (bytes, cycle of the first beat, cycle of the last)
        self.sink = Sink(self.bench, "mac", rate=sink_rate, on_word=self.beat)
        self.want = []
        self.fcps = []           # (cycle, op, fctbs, vl, fccl)
        self.fcp_sink = Sink(self.bench, "fcp_ctl", rate=fcp_rate, on_word=self.fcp)
        self.pfcs = []           # (cycle, frame)
        self.pfc_sink = Sink(self.bench, "pfc_ctl", on_word=self.pfc_frame)
        self.count = dict.fromkeys(COUNTS, 0)
        self.fccl = [0] * 16     # as told by the FCPs
        self.fctbs = [0] * 16

    async def start(self, state=ACTIVE):
        await self.bench.start()
        self.bench.set("phy_up_i", 1)
        self.classify([dscp >> 3 for dscp in range(64)])
        self.bench.set("mac_addr_i", int.from_bytes(ME, "big"))
        await self.bench.step(2)
        await self.set_state(state)
        return self

    def classify(self, priorities, trust_pcp=False):
        """Ethernet: the priority of each DSCP, and whether VLAN tags say it instead."""
        dscp = sum(prio << 3 * dscp for dscp, prio in enumerate(priorities))
        self.bench.set("class_i", CLASS.pack(trust_pcp=trust_pcp, dscp=dscp))

    async def set_state(self, state):
        """Firmware writes the port state."""
        self.bench.set("cfg_i", CFG.pack(state=state, ib=self.ib, vl_mask=(1 << self.vls) - 1, pfc_enable=self.pfc))
        self.bench.set("state_wr_i", 1)
        await self.bench.step()
        self.bench.set("state_wr_i", 0)
        await self.bench.step()

    def beat(self, word):
        """A beat towards hca_rx_wire."""
        m = MAC.unpack(word)
        assert m["len_bytes"] == 64 or m["last"]
        if not self.parts:
            self.began = self.bench.cycle
        self.parts.append(m["data"].to_bytes(64, "little")[:m["len_bytes"]])
        if m["last"]:
            self.got.append((b"".join(self.parts), self.began, self.bench.cycle))
            self.parts = []

    def fcp(self, word):
        """A flow control packet towards the peer. hca_link_tx fills in FCTBS and LPCRC."""
        p = PHY.unpack(word)
        assert (p["link"], p["last"], p["len_bytes"]) == (1, 1, 6)
        (op, fctbs, vl, fccl), good = parse_fcp(p["data"].to_bytes(64, "little")[:6])
        assert good and fctbs == 0
        self.fcps.append((self.bench.cycle, op, fctbs, vl, fccl))
        self.fccl[vl] = fccl

    def pfc_frame(self, word):
        """A PFC frame towards the peer."""
        p = PHY.unpack(word)
        assert (p["link"], p["last"], p["len_bytes"]) == (0, 1, 60)
        self.pfcs.append((self.bench.cycle, p["data"].to_bytes(64, "little")[:60]))

    def credit(self, vl):
        """Blocks the sender may still send."""
        left = (self.fccl[vl] - self.fctbs[vl]) % 4096
        return left if left <= 2048 else 0

    def push(self, packet, verdict="packet", link=0, err_at=None):
        """Queues a packet that must meet this verdict."""
        self.phy.put(packet, link, err_at)
        self.count[verdict] += 1
        if verdict == "packet":
            self.want.append(packet)

    def send(self, vl, size, lose=False):
        """A sender's packet; `lose`: the cable swallows it."""
        packet = ib_packet(self.rng, vl, size)
        if vl != VL15:
            assert self.credit(vl) >= blocks(packet)
            self.fctbs[vl] = (self.fctbs[vl] + blocks(packet)) % 4096
        if not lose:
            self.push(packet)

    def counts(self):
        value = self.bench.get("count_o")
        return {name: value >> 32 * i & 0xFFFFFFFF for i, name in enumerate(COUNTS)}

    def field(self, port, vl, width):
        return self.bench.get(port, vl * width, width)

    def check(self, key):
        """What came out is what was wanted, in order within each value of `key(packet)`."""
        lanes = {}
        for packet in self.want:
            lanes.setdefault(key(packet), deque()).append(packet)
        for number, (packet, _, _) in enumerate(self.got):
            lane = lanes.get(key(packet))
            assert lane and lane.popleft() == packet, f"packet {number} out of order, changed or twice"
        assert not any(lanes.values()), "packets are missing"

    async def finish(self, key=lambda packet: packet[0] >> 4, limit=60000):
        """Everything that was sent has come out; strobes were counted."""
        await self.bench.until(self.phy.idle, limit, "phy idle")
        await self.bench.until(lambda: len(self.got) >= len(self.want), limit, "packets out")
        await self.bench.step(20)
        assert self.counts() == self.count
        self.check(key)
