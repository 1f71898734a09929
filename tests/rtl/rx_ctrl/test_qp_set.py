"""hca_qp_set against a set: a walk meets all who are in it, once, and nobody who has been dropped."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import cocotb
from common import Bench, simulate

SETTLE = 5    # cycles from a strobe to the row, when others have their turn first


class Walks(Bench):
    """Adds at random; whoever is offered is kept or dropped. `members` has when each came in."""

    def __init__(self, dut, seed, qpns, add_rate, drop_rate):
        super().__init__(dut, seed)
        self.width = len(dut.qpn_o)
        self.qpns, self.add_rate, self.drop_rate = qpns, add_rate, drop_rate
        self.members, self.added, self.dropped, self.maybe = {}, {}, {}, set()
        self.met, self.begun, self.walks = [], None, 0
        self.quiet = [0, 0]        # when each of the adds may come again
        self.offer, self.now = None, {}
        self.agents.append(self)

    def drive(self):
        """Strobes of this cycle."""
        rng, adds = self.rng, [None, None]
        for a in range(2):
            if self.cycle >= self.quiet[a] and rng.random() < self.add_rate:
                adds[a] = rng.choice(self.qpns)
                self.quiet[a] = self.cycle + (2, 8)[a]
        takes = self.offer is not None and rng.random() < 0.5
        self.now = dict(adds=adds, drops=takes and rng.random() < self.drop_rate)
        self.set("add_i", sum((a is not None) << i for i, a in enumerate(adds)))
        self.set("add_qpn_i", sum((a or 0) << i * self.width for i, a in enumerate(adds)))
        self.set("next_i", takes)
        self.set("drop_i", self.now["drops"])
        self.set("drop_qpn_i", self.offer or 0)
        self.set("walk_i", self.begun is not None)

    def sample(self):
        """What the clock edge takes."""
        adds = [a for a in self.now["adds"] if a is not None]
        if self.get("next_i"):
            qpn = self.offer
            assert qpn not in self.met, f"{qpn} is met again"
            just_left = self.dropped.get(qpn, -SETTLE) + SETTLE > self.begun
            assert qpn in self.members or qpn in self.maybe or just_left, f"{qpn} is not in it"
            self.met.append(qpn)
            if self.now["drops"] and qpn not in adds:
                self.members.pop(qpn, None)
                self.maybe.discard(qpn)
                if self.cycle <= self.added.get(qpn, -9) + 2:
                    self.maybe.add(qpn)    # whichever has its turn first
                self.dropped[qpn] = self.cycle
        self.offer = self.get("qpn_o") if self.get("valid_o") and not self.get("next_i") else None
        for qpn in adds:
            self.added[qpn] = self.cycle
            self.members.setdefault(qpn, self.cycle)
        if self.begun is not None and self.get("done_o"):
            missed = [q for q, since in self.members.items() if since + SETTLE <= self.begun and q not in self.met]
            assert not missed, f"the walk has not met {missed}"
            self.met, self.begun, self.walks = [], None, self.walks + 1
        elif self.begun is None and not self.get("walk_i") and self.rng.random() < 0.5:
            self.begun = self.cycle


@cocotb.test()
@cocotb.parametrize(few=[True, False], add_rate=[0.02, 1.0], drop_rate=[0.1, 0.9])
async def random_members(dut, few, add_rate, drop_rate):
    """Few QPs, whose adds and drops meet, and many; adds as fast as they may come, and seldom."""
    width = len(dut.qpn_o)
    qpns = [1, 2, 33, 40, (1 << width) - 1] if few else list(range(1 << width))
    bench = Walks(dut, 5, qpns, add_rate, drop_rate)
    await bench.start()
    await bench.step(12000)
    assert bench.walks >= (50 if few else 1)
    # Nobody comes any more: all leave, and stay away.
    bench.add_rate, bench.drop_rate = 0, 1
    await bench.until(lambda: not bench.members, 40000, "an empty set")
    before = bench.walks
    await bench.until(lambda: bench.walks > before + 2, 40000, "further walks")


def test_qp_set():
    """All of the above."""
    simulate("hca_qp_set", __name__)
