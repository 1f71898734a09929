"""hca_rx_home: a request of a reliable connection whose QP shares its line and has not got it is away, nobody else."""

import sys
from collections import Counter, deque
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import cocotb
from common import Bench, constants, simulate, struct
from hca_abi import BthOpcode as Op

BEAT = struct("rx_beat_t")
LINE_BITS = constants()["QpW"]
LATE = 5                                  # cycles, as hca_rx_delay
IPV4, IPV6, IB_LOCAL, IB_GLOBAL, RAW = range(5)
BTH_AT = {IPV4: 28, IPV6: 48, IB_LOCAL: 8, IB_GLOBAL: 48}
ANSWERS = range(Op.RC_READ_RESPONSE_FIRST, Op.RC_ATOMIC_ACKNOWLEDGE + 1)


class Home:
    """Bench and model. `rate`: of beats, `writes`: of context writes, `lengths`: of packets, in beats."""

    def __init__(self, dut, seed, rate=1.0, writes=0.2, lengths=(1,), lines=12):
        self.bench = Bench(dut, seed)
        self.rng = self.bench.rng
        self.rate, self.writes, self.lengths = rate, writes, lengths
        self.rows = {line: None for line in self.rng.sample(range(1 << LINE_BITS), lines)}
        self.gens = [0, 1, 2, 3, (1 << 24 - LINE_BITS) - 1]
        self.force = None            # the line whose context is written next
        self.left = 0                # beats of the packet that comes in
        self.guess = None            # of the packet that began in the cycle before
        self.away = None             # of the packet that comes in
        self.due = deque()           # beats: cycle, and whether it is away
        self.seen = Counter()
        self.bench.agents.append(self)

    async def start(self):
        """Each line has somebody."""
        await self.bench.start()
        rate, self.rate, self.writes = self.rate, 0.0, 0.0
        for line in self.rows:
            self.force = line
            await self.bench.step()
        self.rate, self.force = rate, None
        return self

    def drive(self):
        bench, rng = self.bench, self.rng
        line = self.force
        if line is None and rng.random() < self.writes:
            line = rng.choice(list(self.rows))
        self.write = None if line is None else (line, (rng.random() < 0.8, rng.choice(self.gens)))
        bench.set("wr_valid_i", self.write is not None)
        if self.write:
            bench.set("wr_line_i", line)
            bench.set("wr_shared_i", self.write[1][0])
            bench.set("wr_gen_i", self.write[1][1])
        self.valid = rng.random() < self.rate
        bench.set("valid_i", self.valid)
        first = self.valid and not self.left
        if first:
            self.left = rng.choice(self.lengths)
            self.packet = self.random_packet()
        self.first = first
        if self.valid:
            l3, data = self.packet
            self.left -= 1
            bench.set("beat_i", BEAT.random(rng, first=first, last=not self.left, l3=l3,
                                            **({"data": data} if first else {})))
        else:
            # No beat: what stands there means nothing.
            bench.set("beat_i", BEAT.random(rng))

    def random_packet(self):
        """(l3, first beat)"""
        rng = self.rng
        l3 = rng.choice((IPV4, IPV6, IB_LOCAL, IB_GLOBAL) * 3 + (RAW,))
        self.line, self.gen = rng.choice(list(self.rows)), rng.choice(self.gens)
        opcode = rng.choice((rng.randrange(32), rng.randrange(32), rng.randrange(256)))
        self.asks = l3 != RAW and opcode < 32 and opcode not in ANSWERS
        qpn = self.gen << LINE_BITS | self.line
        at = BTH_AT[l3 if l3 != RAW else rng.choice((IPV4, IPV6))]
        data = bytearray(rng.randbytes(64))
        data[at] = opcode
        data[at + 5:at + 8] = qpn.to_bytes(3, "big")
        return l3, int.from_bytes(data, "little")

    def sample(self):
        bench = self.bench
        # Who began a cycle ago is compared with what had been written before this cycle.
        if self.guess:
            (asks, line, gen), beat = self.guess
            shared, holder = self.rows[line]
            beat[1] = self.away = asks and shared and holder != gen
            self.seen[beat[1], asks] += 1
            self.guess = None
        if self.write:
            self.rows[self.write[0]] = self.write[1]
        if self.valid:
            beat = [bench.cycle + LATE, self.away]
            if self.first:
                self.guess = ((self.asks, self.line, self.gen), beat)
            self.due.append(beat)
        if self.due and self.due[0][0] == bench.cycle:
            _, away = self.due.popleft()
            assert bench.get("away_o") == away, "a packet is away that is not, or is not that is"


@cocotb.test()
@cocotb.parametrize(case=[(1, 1.0, 0.3, (1,)), (2, 0.6, 0.3, (1,)), (3, 1.0, 0.3, (1, 1, 2, 3, 6, 67)),
                          (4, 0.7, 0.02, (1, 2, 5)), (5, 1.0, 1.0, (1, 4))])
async def at_random(dut, case):
    """Packets of all network headers and services, back to back or not, and contexts that are written meanwhile."""
    seed, rate, writes, lengths = case
    home = await Home(dut, seed, rate, lengths=lengths).start()
    home.writes = writes
    await home.bench.step(6000)
    home.rate = 0.0
    await home.bench.step(LATE + 1)
    assert not home.due and min(home.seen[True, True], home.seen[False, True], home.seen[False, False]) > 50


def test_rx_home():
    simulate("hca_rx_home", __name__)
