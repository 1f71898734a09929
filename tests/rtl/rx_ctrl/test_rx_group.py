"""hca_rx_group against a model of its lists, which are changed while packets pass."""

import cocotb
from common import Bench, Sink, Source, simulate, struct
from hca_abi import GROUP_HASH_HEADS as HASH_HEADS
from hca_abi import GROUP_HEADS as HEADS
from hca_abi import GROUP_ROWS as ROWS
from hca_abi import GROUP_SMI_HEADS as SMI_HEADS

RXD, WRITE, ROW = struct("rxd_t"), struct("group_wr_t"), struct("group_row_t")
QP, GSI, MULTICAST, COPY, END, SMI, AGENT = range(7)    # rxd_kind_e


def head_of(kind, port, mgid):
    """The head of the list of a packet or a member."""
    if kind in (GSI, SMI):
        return port + (SMI_HEADS if kind == SMI else 0)
    piece = 0
    while mgid:
        piece ^= mgid & 63
        mgid >>= 6
    return HASH_HEADS + piece


class Lists:
    """What firmware keeps: rows, and who is in which list."""

    def __init__(self, bench):
        self.bench, self.rng = bench, bench.rng
        self.source = Source(bench, "wr")
        self.next = dict.fromkeys(range(ROWS), 0)
        self.member = {}                       # row: (kind, port, mgid, qpn)
        self.free = list(range(HEADS, ROWS))

    def write(self, row):
        """Queues the write of a row."""
        kind, port, mgid, qpn = self.member.get(row, (QP, 0, 0, 0))
        fields = dict(next=self.next[row], valid=kind != QP, is_multicast=kind == MULTICAST, port=port, mgid=mgid,
                      qpn=qpn)
        self.source.put(WRITE.pack(index=row, row=ROW.pack(**fields)))

    def join(self, kind, port, mgid, qpn):
        """In front of the list."""
        row = self.free.pop(self.rng.randrange(len(self.free)))
        head = head_of(kind, port, mgid)
        self.member[row], self.next[row] = (kind, port, mgid, qpn), self.next[head]
        self.write(row)
        self.next[head] = row
        self.write(head)

    def leave(self, row):
        """Out of its list; its own bytes stay as they are."""
        before = head_of(*self.member[row][:3])
        while self.next[before] != row:
            before = self.next[before]
        self.next[before] = self.next[row]
        self.write(before)
        del self.member[row]
        self.free.append(row)

    def copies(self, kind, port, mgid):
        """QPNs in the order of the list."""
        row, found = self.next[head_of(kind, port, mgid)], []
        while row:
            its = self.member[row]
            if its[0] == kind and (kind in (GSI, SMI) or its[1:3] == (port, mgid)):
                found.append(its[3])
            row = self.next[row]
        return found


class Env:
    """A bench whose lists are still whenever a packet passes: firmware's writes wait for the walk, and it for them."""

    def __init__(self, dut, seed, rates=(1, 1)):
        self.bench = Bench(dut, seed)
        self.rng = self.bench.rng
        self.packets = Source(self.bench, "in", "rxd_t", rate=rates[0])
        self.out = Sink(self.bench, "out", rate=rates[1])
        self.lists = Lists(self.bench)

    async def start(self):
        """Clears the heads, as the context port does after reset."""
        await self.bench.start()
        for row in range(ROWS):
            self.lists.source.put(WRITE.pack(index=row))
        await self.settle()
        return self

    async def settle(self):
        """All that was written is in."""
        await self.bench.until(self.lists.source.idle, 20000, "rows")
        await self.bench.step(2)

    def packet(self, kind, **fields):
        """A packet, and what must come of it."""
        word = RXD.random(self.rng, kind=kind, **fields)
        its = RXD.unpack(word)
        if kind == QP:
            return word, [word]
        if kind == AGENT:
            return word, [RXD.pack(**{**its, "kind": END})]
        copies = [RXD.pack(**{**its, "kind": COPY, "dest_qpn": qpn})
                  for qpn in self.lists.copies(kind, its["port"], its["dgid"])]
        return word, [*copies, RXD.pack(**{**its, "kind": END})]


def addresses(rng):
    """MGIDs of which some share a hash, some differ in one bit that the hash does not show."""
    base = rng.getrandbits(128)
    return [base, base ^ 1 << 106 ^ 1 << 112, base ^ 1 << 127 ^ 1 << 1, base ^ 1, rng.getrandbits(128)]


@cocotb.test()
@cocotb.parametrize(rates=[(1, 1), (0.3, 1), (1, 0.3), (0.5, 0.5)])
async def copies(dut, rates):
    """MC-3, MGMT-4: one copy for each member, an end behind them, in the order of the packets; rounds of changes."""
    env = await Env(dut, 1, rates).start()
    rng, lists = env.rng, env.lists
    mgids = addresses(rng)
    for _ in range(40):
        for _ in range(rng.randrange(6)):
            if lists.member and rng.random() < 0.4:
                lists.leave(rng.choice(list(lists.member)))
            else:
                kind = rng.choice((GSI, SMI, MULTICAST))
                lists.join(kind, rng.randrange(2), rng.choice(mgids) if kind == MULTICAST else 0, rng.getrandbits(24))
        await env.settle()
        expected, env.out.got = [], []
        for _ in range(rng.randrange(12)):
            kind = rng.choice((QP, QP, GSI, SMI, AGENT, MULTICAST))
            word, out = env.packet(kind, port=rng.randrange(2), dgid=rng.choice(mgids))
            env.packets.put(word)
            expected += out
        await env.bench.until(lambda want=len(expected): len(env.out.got) >= want, 20000, "copies")
        await env.bench.step(4)
        assert env.out.got == expected
        assert env.packets.idle()


@cocotb.test()
async def pace(dut):
    """A packet for one QP, or for firmware, takes a cycle; one for a group of n members 2 n + 3, and a
    cycle for each other row."""
    env = await Env(dut, 2).start()
    mgid, other, *_ = addresses(env.rng)
    for _ in range(3):
        env.lists.join(MULTICAST, 1, mgid, env.rng.getrandbits(24))
        env.lists.join(MULTICAST, 1, other, env.rng.getrandbits(24))
    await env.settle()
    for kind, cycles in ((QP, 1), (AGENT, 1), (MULTICAST, 2 * 3 + 3 + 3), (GSI, 3), (SMI, 3)):
        env.packets.taken.clear()
        for _ in range(5):
            env.packets.put(env.packet(kind, port=1, dgid=mgid)[0])
        await env.bench.until(lambda: len(env.packets.taken) == 5, 1000, "packets")
        spans = {b - a for a, b in zip(env.packets.taken, env.packets.taken[1:], strict=False)}
        assert spans == {cycles}, (kind, spans)


@cocotb.test()
@cocotb.parametrize(rate=[1, 0.2])
async def change_in_mid_walk(dut, rate):
    """A walk meets the lists as they were when it began or as they are after a write, never a row used again."""
    env = await Env(dut, 3, (1, rate)).start()
    rng, lists = env.rng, env.lists
    for _ in range(200):
        while len(lists.member) < 6:
            lists.join(GSI, 0, 0, rng.getrandbits(24))
        await env.settle()
        env.out.got = []
        word, before = env.packet(GSI, port=0)
        env.packets.put(word)
        await env.bench.step(rng.randrange(1, 20))
        # One leaves, and its row is somebody else's at once, in another list.
        row = rng.choice(list(lists.member))
        lists.leave(row)
        lists.member[row], lists.next[row] = (MULTICAST, 0, 5, rng.getrandbits(24)), 0
        lists.write(row)
        await env.settle()
        await env.bench.until(env.packets.idle, 1000, "the packet")
        its = RXD.unpack(word)
        after = [w for w in before if RXD.unpack(w)["kind"] == END
                 or RXD.unpack(w)["dest_qpn"] in lists.copies(GSI, 0, 0)]
        assert env.out.got in (before, after), its
        del lists.member[row]


def test_rx_group():
    """Runs the tests of this file."""
    simulate("hca_rx_group", "test_rx_group")
