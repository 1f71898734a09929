"""hca_rx_match while its rules change: frames come one per cycle, and each has the rules of one moment, before a write
or after it, never of two."""

import sys
from collections import deque
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import cocotb
from common import Bench, simulate, struct
from frame_ref import FIELDS, key_of, random_frame
from hca_abi import RULES

RULE_WR, RULE_ROW, BEAT = struct("rule_wr_t"), struct("rule_row_t"), struct("rx_beat_t")
LATENCY = 5        # cycles from the last beat of a frame to rules_o
WRITE_CYCLES = 32  # of a rule that is there; the next write comes when they are over
CHANGES = ("yields", "another", "gone")


class Line:
    """Frames of one beat, one per cycle at `rate` 1, each looked at when its rules are out; and the rules' history."""

    def __init__(self, dut, seed, rate):
        self.bench = Bench(dut, seed)
        self.rng, self.rate = self.bench.rng, rate
        frames = [random_frame(self.rng, 4) for _ in range(150)]
        self.frames = [(f[:64].ljust(60, b"\0"), int.from_bytes(key_of(f), "little")) for f in frames]
        self.states = [(None,) * RULES]    # after each write
        self.settled = 0                   # the last of them that has surely come about
        self.under_way = deque()           # cycle, key, port, the oldest state that may count
        self.known = {}                    # which frames a rule matches
        self.counts = {"judged": 0, "met": 0, "several": 0, "differ": 0}
        self.out = None                    # before the first frame anything
        self.bench.agents.append(self)

    def drive(self):
        bench, rng = self.bench, self.rng
        valid = rng.random() < self.rate
        bench.set("valid_i", valid)
        if valid:
            frame, key = rng.choice(self.frames)
            port = rng.randrange(2)
            bench.set("beat_i", BEAT.pack(data=int.from_bytes(frame, "little"), len_bytes=len(frame), first=1, last=1,
                                          port=port))
            self.under_way.append((bench.cycle, key, port, self.settled))

    def sample(self):
        out = self.bench.get("rules_o")
        if not self.under_way or self.under_way[0][0] != self.bench.cycle - LATENCY:
            assert self.out in (None, out), "rules of no frame"    # they hold until the next one's
            return
        _, key, port, oldest = self.under_way.popleft()
        self.out = out
        wanted = [self.who(state, key, port) for state in self.states[oldest:]]
        hexes = ", ".join(f"{w:#010x}" for w in wanted)
        assert out in wanted, f"cycle {self.bench.cycle}: rules {out:#010x}, of one moment {hexes}"
        self.counts["judged"] += 1
        self.counts["met"] += out != 0
        self.counts["several"] += out & (out - 1) != 0
        self.counts["differ"] += len(set(wanted)) > 1

    def matches(self, rule, key, port):
        at = (id(rule), key, port)
        if at not in self.known:
            self.known[at] = rule["port"] == port and key & rule["mask"] == rule["value"]
        return self.known[at]

    def who(self, state, key, port):
        matched = sum(1 << i for i, rule in enumerate(state) if rule and self.matches(rule["match"], key, port))
        return sum(1 << i for i, rule in enumerate(state) if matched >> i & 1 and not matched & rule["yields"])

    def random_match(self):
        """Some fields of some frame, or all frames of a port."""
        _, key = self.rng.choice(self.frames)
        mask = 0
        for at, size in self.rng.sample(list(FIELDS.values()), self.rng.choice((0, 1, 1, 1, 2, 3))):
            bits = (1 << 8 * size) - 1
            mask |= (self.rng.getrandbits(8 * size) if self.rng.random() < 0.3 else bits) << 8 * at
        return dict(port=self.rng.randrange(2), value=key & mask, mask=mask)

    def random_yields(self, index):
        return self.rng.getrandbits(32) & self.rng.getrandbits(32) & ~(1 << index)

    async def write(self, index, rule):
        """A rule, or none, as hca_mgmt_ctx does it: the strobe, then nothing else until busy_o falls. What is on the
        wires of the row behind that is anything."""
        bench = self.bench
        state = list(self.states[-1])
        state[index] = rule
        self.states.append(tuple(state))
        row = RULE_ROW.pack(valid=1, yields=rule["yields"], **rule["match"]) if rule \
            else RULE_ROW.random(self.rng, valid=0)
        bench.set("rule_wr_i", RULE_WR.pack(valid=1, index=index, row=row))
        await bench.step()
        bench.set("rule_wr_i", RULE_WR.pack(valid=0, index=index, row=row))
        cycles = 0
        await bench.step()
        while bench.get("busy_o"):
            cycles += 1
            await bench.step()
        assert cycles == (WRITE_CYCLES if rule else 0), f"busy for {cycles} cycles"
        self.settled = len(self.states) - 1
        bench.set("rule_wr_i", RULE_WR.random(self.rng, valid=0))

    async def change(self):
        """Another `yields` of a rule, another rule in its place, which is made invalid first, or none."""
        rng = self.rng
        index = rng.randrange(RULES)
        rule = self.states[-1][index]
        what = rng.choice(CHANGES) if rule else "another"
        if what == "yields":
            await self.write(index, dict(rule, yields=self.random_yields(index)))
            return what
        if rule:
            await self.write(index, None)
        if what == "another":
            await self.bench.step(rng.choice((0, 0, 1, 2, 7)))
            await self.write(index, dict(match=self.random_match(), yields=self.random_yields(index)))
        return what


@cocotb.test()
@cocotb.parametrize(seed=[71, 72, 73], rate=[1.0, 0.6])
async def rules_change_under_frames(dut, seed, rate):
    """V-151, V-155: rules come, change and go at random while frames come that they match. A frame has the rules as
    they were at one moment of its way; it has them in time, whatever is being written; and no other rule is touched."""
    line = Line(dut, seed, rate)
    await line.bench.start()
    for index in range(RULES):     # the tables hold anything at first
        await line.write(index, None)
    done = dict.fromkeys(CHANGES, 0)
    for _ in range(250):
        done[await line.change()] += 1
        if line.rng.random() < 0.3:
            await line.bench.step(line.rng.randrange(20))
    line.rate = 0
    await line.bench.step(LATENCY + 3)
    counts = line.counts
    dut._log.warning(f"{counts}, {done}")
    assert not line.under_way and min(done.values()) > 20
    assert counts["met"] > counts["judged"] // 4 and counts["several"] > 100 and counts["differ"] > 100, counts


def test_rx_match():
    simulate("hca_rx_match", __name__)
