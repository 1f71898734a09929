"""What the arbiter tests share: the bench around hca_vl_arb (arb_bench.sv) and the paper's formula."""

import logging
from pathlib import Path

BENCH = Path(__file__).with_name("arb_bench.sv")
HIGH, LOW = 0, 64
IBA, ROUND = 0, 1


def laps(q, h, low, mtu=2048):
    """Laps of the high list in one round: max(1, floor(k L / H)), k = Q * 4096 / MTU (QOS-14)."""
    return max(1, q * 4096 // mtu * low // h)


def formula(q, h, low):
    """The paper's ratio of high to low bandwidth at MTU 2048 (section 23.4)."""
    return h / low * laps(q, h, low)


class Arb:
    """The bench. Only what it needs crosses into Python: a run of any length is one step here."""

    def __init__(self, dut):
        self.dut = dut
        self.vls = len(dut.active_i)
        self.written = set()
        logging.getLogger("cocotb").setLevel(logging.WARNING)

    async def start(self):
        for handle in self.dut:
            if handle._name.endswith("_i") and handle._name != "clk_i":
                handle.value = 0
        self.dut.mtu_i.value = 4
        self.dut.rst_i.value = 1
        await self.run(4)
        self.dut.rst_i.value = 0
        return self

    async def run(self, cycles):
        """Lets cycles pass; ends at a falling edge, when all is settled."""
        from cocotb.triggers import FallingEdge, Timer

        if cycles > 1:
            await Timer(2 * (cycles - 1), unit="ns")
        await FallingEdge(self.dut.clk_o)

    async def write(self, index, vl, weight):
        """Writes one entry of the table; LOW + n is entry n of the low list."""
        dut = self.dut
        dut.tbl_we_i.value, dut.tbl_idx_i.value = 1, index
        dut.tbl_vl_i.value, dut.tbl_weight_i.value = vl, weight
        await self.run(1)
        dut.tbl_we_i.value = 0
        self.written.add(index)

    async def setup(self, high, low, limit=0, policy=ROUND, mtu=2048, size=2048, spread=0, paced=0, active=None):
        """New tables ([(vl, weight)] each), new traffic, nothing owed."""
        dut = self.dut
        dut.active_i.value = 0
        wanted = {HIGH + n: e for n, e in enumerate(high)} | {LOW + n: e for n, e in enumerate(low)}
        for index in sorted(self.written | set(wanted)):
            await self.write(index, *wanted.get(index, (0, 0)))
        self.written = set(wanted)
        dut.round_quantum_i.value, dut.limit_i.value, dut.mtu_i.value = policy, limit, mtu.bit_length() - 8
        sizes = size if isinstance(size, list) else [size] * self.vls
        dut.size_i.value = sum(s << 13 * v for v, s in enumerate(sizes))
        dut.spread_i.value, dut.paced_i.value = spread, paced
        dut.clear_i.value = 1
        await self.run(4)
        dut.clear_i.value = 0
        listed = {vl for vl, weight in [*high, *low] if weight}
        self.active(listed if active is None else active)

    def active(self, vls):
        """Exactly these VLs have packets."""
        self.dut.active_i.value = sum(1 << vl for vl in vls)

    async def measure(self, cycles, mark=0, warmup=500):
        """Bytes and packets of each VL between two packets of VL `mark`, and idle cycles of the link."""
        dut = self.dut
        await self.run(warmup)
        dut.mark_vl_i.value = mark
        dut.arm_i.value = 1
        await self.run(1)
        dut.arm_i.value = 0
        await self.run(cycles)
        words, counts = int(dut.bytes_o.value), int(dut.packets_o.value)
        size = [words >> 48 * v & (1 << 48) - 1 for v in range(self.vls)]
        packets = [counts >> 32 * v & (1 << 32) - 1 for v in range(self.vls)]
        return size, packets, int(dut.idle_o.value)

    async def picks(self, count, limit=100000):
        """The next `count` decisions: [(vl, bytes)]."""
        dut, found = self.dut, []
        for _ in range(limit):
            if int(dut.pick_o.value):
                found.append((int(dut.pick_vl_o.value), int(dut.pick_bytes_o.value)))
                if len(found) == count:
                    await self.run(1)
                    return found
            await self.run(1)
        raise AssertionError(f"only {len(found)} of {count} decisions in {limit} cycles")


class Reference:
    """The rules of README.md for VLs that always have packets, entry by entry and lap by lap."""

    class List:
        """One list: weighted round robin, debts in bytes carried over."""

        def __init__(self, entries):
            self.entries = [entry for entry in entries if entry[1]]
            self.sum = sum(weight for _, weight in self.entries)
            self.debt = {vl: 0 for vl, _ in self.entries}
            self.at, self.added, self.skip = 0, False, None

        def start(self):
            """Between two laps."""
            return self.at == 0 and not self.added and self.skip is None

        def early(self, release):
            """VLs that cannot send in this lap: if there are many, they get their weights at its beginning."""
            share = {vl: sum(w for v, w in self.entries if v == vl) for vl in self.debt}
            owes = {vl for vl in share if self.debt[vl] + 64 * share[vl] <= 0}
            self.skip = owes if len(owes) >= 4 and owes != set(share) else set()
            for vl in self.skip:
                self.debt[vl] += 64 * share[vl]
                release(give=share[vl])
                release(blocks=None)

        def visit(self, release):
            """Visits one entry once: the VL that sends, or None; `release` is told of weight that was given."""
            if self.start():
                self.early(release)
            vl, weight = self.entries[self.at]
            if vl in self.skip:
                self.leave(release)
                return None
            if not self.added:
                self.debt[vl] += 64 * weight
                release(give=weight)
            if self.debt[vl] > 0:
                self.added = True
                return vl
            self.leave(release)
            return None

        def send(self, vl, size, release):
            """The VL that visit() named has sent."""
            self.debt[vl] -= size
            if self.debt[vl] <= 0:
                self.leave(release)
            else:
                release(blocks=-(-size // 64))

        def leave(self, release):
            """On to the next entry."""
            release(blocks=None)
            self.added = False
            self.at = (self.at + 1) % len(self.entries)
            if self.at == 0:
                self.skip = None

    def __init__(self, high, low, limit, policy, mtu):
        self.high, self.low = self.List(high), self.List(low)
        self.limit, self.policy, self.k = limit, policy, limit * 4096 // mtu
        self.budget, self.low_done, self.pending, self.used = 0, True, 0, 0

    def release(self, give=None, blocks=None):
        """Weight given to low turns into budget for high as its packets leave."""
        if give is not None:
            self.pending = give
            return
        units = self.pending if blocks is None else min(self.pending, blocks)
        self.pending -= units
        self.budget += self.k * units

    def turn_high(self):
        """Whether the high list has the next visit."""
        if not self.high.entries or not self.low.entries or self.limit == 255:
            return bool(self.high.entries)
        if self.policy == ROUND:
            return not self.high.start() or self.low_done or self.budget >= self.high.sum
        return self.used == 0 if self.limit == 0 else self.used < 64 * self.limit

    def next(self):
        """The VL that sends next, and the function to call with the size of its packet."""
        while True:
            if self.turn_high():
                if self.high.start():
                    if self.budget < self.high.sum:
                        self.budget, self.low_done = 0, False
                    self.budget -= self.high.sum
                vl = self.high.visit(lambda **_: None)
                if vl is not None:
                    return vl, self.sent_high
            else:
                if self.low.start() and self.low_done:
                    self.budget = 0
                self.low_done = False
                vl = self.low.visit(self.release)
                if vl is not None:
                    return vl, self.sent_low
                self.low_done = self.low.start()

    def sent_high(self, vl, size):
        """High has sent a packet."""
        self.used += max(1, size // 64)
        self.high.send(vl, size, lambda **_: None)

    def sent_low(self, vl, size):
        """Low has sent a packet."""
        self.used = 0
        self.low.send(vl, size, self.release)
        self.low_done = self.low.start()
