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
        self.debt = {}                              # group: debt, where there is one
        self.late = self.size = self.cost = None    # (group, cost)

    def step(self, charges):
        """The clock edge: `charges[p]` is (group, bytes, interval) of the packet that asker p makes, or None."""
        items = [(charge[0], cost_of(charge[1], charge[2])) if charge else None for charge in charges]
        due = ALL
        for item in (*items, self.late, self.size, self.cost):
            if item:
                due &= ~(1 << item[0])
        for group, debt in self.debt.items():
            if debt // FRACTION >= AHEAD:
                due &= ~(1 << group)
        for port, charge in enumerate(charges):
            shuts = charge and (charge[1] > SMALL or self.debt.get(charge[0], 0) // FRACTION >= AHEAD // 2)
            used = 1 << charge[0] if shuts else 0
            self.open[port] = ((self.open[port] | due) & ~used) | 1
        self.debt = {group: debt - FRACTION for group, debt in self.debt.items() if debt > FRACTION}
        if self.cost:
            self.debt[self.cost[0]] = self.debt.get(self.cost[0], 0) + self.cost[1]
        waiting = [item for item in (items[0], self.late, items[1]) if item]
        assert len(waiting) < 3, "the bench charges too often"
        now, late = (waiting + [None, None])[:2]
        self.late, self.size, self.cost = late, now, self.size


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
