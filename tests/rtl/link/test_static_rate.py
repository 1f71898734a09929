"""hca_static_rate against the same in Python, and what it promises: exact rates, and turns for both askers."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import cocotb
from common import Bench, simulate, struct
from rates import AHEAD, GROUPS, Rates, interval_of


class RateBench(Bench):
    """Two askers; `plan(port, cycle, gates)` says what each charges."""

    def __init__(self, dut, seed, plan):
        super().__init__(dut, seed)
        self.rates, self.plan, self.charges = Rates(), plan, [None, None]
        self.sent = []
        self.agents.append(self)

    def drive(self):
        """Each asker sends every second cycle at most, as the two schedulers do."""
        words = [0, 0]
        for port in range(2):
            charge = None if self.charges[port] else self.plan(port, self.cycle, self.rates.open[port])
            self.charges[port] = charge
            if charge:
                group, size, interval = charge
                words[port] = struct("tx_made_t").pack(group=group, bytes=size, interval=interval)
                self.sent.append((self.cycle, port, charge))
        self.set("made_valid_i", sum(bool(charge) << port for port, charge in enumerate(self.charges)))
        self.set("made_i", words[0] | words[1] << struct("tx_made_t").width)

    def sample(self):
        """Gates as in the model."""
        gates = self.rates.open
        assert self.get("open_o") == gates[0] | gates[1] << GROUPS, f"cycle {self.cycle}"
        assert self.get("busy_o") == (gates != [(1 << GROUPS) - 1] * 2)
        self.rates.step(self.charges)


@cocotb.test()
@cocotb.parametrize(groups=[2, 31])
async def like_the_model(dut, groups):
    """Random packets of random groups and rates, also against shut gates."""
    rng = None

    def plan(_port, cycle, gates):
        if rng.random() > (0.5 if cycle % 3000 < 1500 else 0.02):
            return None
        group = rng.randint(1, groups)
        rude = rng.random() < 0.02
        if not (gates >> group & 1 or rude):
            return None
        size = rng.choice([30, 90, 1100, 4200, 64 if rude else 8191])
        return group, size, rng.choice([1, 1311, 2622, 13107, 40000])

    bench = RateBench(dut, 1, plan)
    rng = bench.rng
    await bench.start()
    await bench.step(12000)
    assert len(bench.sent) > 100
    bench.plan = lambda *_: None
    await bench.until(lambda: bench.rates.open == [(1 << GROUPS) - 1] * 2, 400000, "the end of all debts")
    await bench.step(2)


@cocotb.test()
async def slowest(dut):
    """The longest packets at the slowest rate that there is: the debt does not overflow."""
    bench = RateBench(dut, 2, lambda port, cycle, _gates: (7, 8191, (1 << 24) - 1) if cycle < 2 else None)
    await bench.start()
    await bench.step(2000)
    for _ in range(3):
        await bench.step(20000)
        assert not bench.rates.open[0] >> 7 & 1


@cocotb.test()
@cocotb.parametrize(ratio=[2, 2.5, 4, 40], size=[90, 4200], askers=[1, 2])
async def exact(dut, ratio, size, askers):
    """RATE-3, RATE-8: whoever uses every release gets the rate, to 0.2 %; two askers get half of it each."""
    interval = interval_of(ratio)

    def plan(port, _cycle, gates):
        return (3, size, interval) if port < askers and gates >> 3 & 1 else None

    bench = RateBench(dut, 3, plan)
    await bench.start()
    await bench.step(1500)
    before = len(bench.sent)
    await bench.step(20000 if size < 1000 else int(20 * size * ratio / 50))
    packets, cycles = len(bench.sent) - before, bench.sent[-1][0] - bench.sent[before - 1][0]
    wanted = packets * size * ratio / 50
    # Debts at the two ends differ by some turns of the groups, which is what small packets are let in for.
    ends = 2 * size * ratio / 50 + 6 + (AHEAD // 4 if size < 1000 else 0)
    assert abs(cycles - wanted) <= wanted * 0.002 + ends, (cycles, wanted)
    assert bench.sent[-1][0] >= len(bench.sent) * size * ratio / 50 - AHEAD - 3 * size * ratio / 50
    shares = [sum(port == p for _, port, _ in bench.sent) for p in range(2)]
    assert shares[1] == 0 if askers == 1 else abs(shares[0] - shares[1]) <= 0.02 * sum(shares), shares


@cocotb.test()
async def slow_asker(dut):
    """One asker takes each release at once, the other looks every 97 cycles and is busy else: it is not starved."""
    def plan(port, cycle, gates):
        ready = port == 0 or cycle % 97 == 0
        return (9, 4200, interval_of(2)) if ready and gates >> 9 & 1 else None

    bench = RateBench(dut, 4, plan)
    await bench.start()
    await bench.step(200 * 168)
    shares = [sum(port == p for _, port, _ in bench.sent) for p in range(2)]
    assert min(shares) >= 90 and sum(shares) <= 204, shares


def test_static_rate():
    """All of the above."""
    simulate("hca_static_rate", __name__)
