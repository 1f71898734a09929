"""hca_static_rate in Python, cycle by cycle: the gates of the rate groups, for the benches of the blocks that ask."""

from common import struct

GROUPS = 32
AHEAD = 256              # cycles
SMALL = 256              # bytes
FRACTION = 256
CARD_BYTES = 50          # of the port, per cycle: 100 Gbit/s at 250 MHz
ALL = (1 << GROUPS) - 1


def interval_of(ratio):
    """rate_interval of a path that is `ratio` times slower than the port."""
    return round(ratio * 65536 / CARD_BYTES)


def cost_of(size, interval):
    """Time of a packet of `size` bytes on the wire, in units of 1 / FRACTION of a cycle."""
    return -(-size * interval * FRACTION // 65536)


def wire_bytes(payload, opcode, overhead=26):
    """Bytes of a packet on the wire; `overhead` of an InfiniBand packet without GRH."""
    extra = 16 if opcode in (0x06, 0x0A, 0x0B, 0x0C) else 4 if 0x0D <= opcode <= 0x11 else 0
    extra = {0x12: 12, 0x13: 28, 0x14: 28, 0x1C: 20, 0x1D: 24}.get(opcode, extra)   # of atomics
    return (payload + 3 & ~3) + overhead + extra


class Rates:
    """State of the block. `open[p]`: gates of asker p in this cycle."""

    def __init__(self):
        self.open = [ALL, ALL]
        self.debts = {}                             # group: what it owed at its last visit, and when that was
        self.half = set()                           # groups that owed more than half of Ahead then
        self.tick = self.scan = 0
        self.turns = ALL                            # who has the next turns of this round
        self.late = self.item = self.size = self.cost = None    # (group, cost)
        self.here = None                            # the visit: (group, cost)
        self.told = None                            # the one before it: (group, whether it may open)

    def visit(self):
        """Charges the group that is visited; what its gate hears of it."""
        group, cost = self.here
        debt, seen = self.debts.pop(group, (0, self.tick))
        debt = max(0, debt - (self.tick - seen) * FRACTION) + cost
        if debt:
            self.debts[group] = debt, self.tick
        self.half.discard(group)
        if debt // FRACTION >= AHEAD // 2:
            self.half.add(group)
        return group, debt // FRACTION < AHEAD

    def step(self, charges):
        """The clock edge: `charges[p]` is (group, bytes, interval) of the packet that asker p makes, or None."""
        items = [(charge[0], cost_of(charge[1], charge[2])) if charge else None for charge in charges]
        used = [charge and (charge[1] > SMALL or charge[0] in self.half) for charge in charges]
        charged = self.here if self.here and self.here[1] else None
        under_way = [item[0] for item in (*items, self.late, self.item, self.size, self.cost, charged) if item]
        due = 1 << self.told[0] if self.told and self.told[1] and self.told[0] not in under_way else 0
        waiting = sum(1 << group for group in self.debts) | ALL & ~(self.open[0] & self.open[1])
        coming = (self.cost or (self.scan, 0)) if self.cost or waiting else None
        if waiting:
            asking = waiting & self.turns or waiting
            turn = (asking & -asking).bit_length() - 1
            self.turns = ALL & -(1 << turn)
            if not self.cost:
                self.turns &= ~(1 << turn)
                self.scan = turn
        self.told, self.here = self.visit() if self.here else None, coming
        for port, charge in enumerate(charges):
            self.open[port] = ((self.open[port] | due) & ~(1 << charge[0] if used[port] else 0)) | 1
        self.tick += 1
        waiting = [item for item in (items[0], self.late, items[1]) if item]
        assert len(waiting) < 3, "the bench charges too often"
        now, late = (waiting + [None, None])[:2]
        self.late, self.item, self.size, self.cost = late, now, self.item, self.size


class RateAgent:
    """Drives the gates of one block (`rate_open_i`) from what it charges, checks that it obeys them; another asker
    may charge too: `rival(cycle, is_open)` returns (group, bytes, interval) or None."""

    def __init__(self, bench, port, rival=None):
        self.bench, self.port, self.rival = bench, port, rival
        self.rates = Rates()
        self.history = [ALL] * 4
        self.times = {}          # group: [(cycle, bytes, interval)]
        self.on_charge = None
        bench.agents.append(self)

    def drive(self):
        """The gates as they stand."""
        self.bench.set("rate_open_i", self.rates.open[self.port])
        self.history = [*self.history[1:], self.rates.open[self.port]]

    def sample(self):
        """What was charged counts from the next cycle on."""
        bench, charges = self.bench, [None, None]
        item = struct("tx_made_t").unpack(bench.get("made_o")) if bench.get("made_valid_o") else dict(group=0)
        if item["group"]:
            charge = (item["group"], item["bytes"], item["interval"])
            late = charge[1] <= SMALL    # a second small one may be under way
            seen = self.history[0 if late else 3:]
            assert any(gates >> charge[0] & 1 for gates in seen), f"group {charge[0]} is shut"
            self.times.setdefault(charge[0], []).append((bench.cycle, *charge[1:]))
            charges[self.port] = charge
            if self.on_charge:
                self.on_charge(charge)
        if self.rival:
            charges[1 - self.port] = self.rival(bench.cycle, self.rates.open[1 - self.port])
        self.rates.step(charges)

    def gaps(self, group):
        """Cycles between packets of a group."""
        times = [time for time, _, _ in self.times[group]]
        return [b - a for a, b in zip(times, times[1:], strict=False)]

    def check_rates(self):
        """RATE-3: in no stretch of time has a group sent more than its rate, a packet and Ahead."""
        for group, items in self.times.items():
            credit = 0
            for (time, size, interval), (later, _, _) in zip(items, items[1:], strict=False):
                credit = max(0, credit + cost_of(size, interval) / FRACTION - (later - time))
                slack = 3 * cost_of(SMALL, interval) / FRACTION if size <= SMALL else 1
                assert credit <= AHEAD + slack, f"group {group} is {credit} cycles ahead"
