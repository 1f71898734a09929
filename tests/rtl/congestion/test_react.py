"""hca_cc_react with its algorithms: every rate that comes out against DCQCN and the delay-based one in plain Python."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import cocotb
from common import Bench, Source, simulate, struct
from hca_abi import CC_RATE_FULL as FULL
from hca_abi import CC_TICK_CYCLES, CcAlgorithm

CFG, SENT, RATE = struct("link_congestion_t"), struct("cc_sent_t"), struct("cc_rate_wr_t")
TURNS, QPS = 16, 6
M32, M24 = (1 << 32) - 1, (1 << 24) - 1
EVENT_CYCLES = 4 + 4 * TURNS + 4


class Dcqcn:
    """State of one QP."""

    def __init__(self, tick):
        self.alpha, self.rate, self.target = 0xFFFF, FULL, FULL
        self.alpha_at = self.rate_at = tick
        self.bytes = self.timed = self.counted = 0

    def cnp(self, tick, cfg):
        alpha = 0xFFFF if self.rate == FULL else self.alpha
        self.target = self.rate
        self.rate = max(cfg["min_rate"], self.rate - (self.rate * alpha >> 17))
        self.alpha = alpha + (0xFFFF - alpha >> cfg["alpha_shift"])
        self.alpha_at = self.rate_at = tick
        self.bytes = self.timed = self.counted = 0

    def sent(self, tick, cfg, count):
        self.bytes = min(M24, self.bytes + count)
        for _ in range(TURNS):
            alpha_due = (tick - self.alpha_at & M32) >= cfg["alpha_period"]
            by_time = (tick - self.rate_at & M32) >= cfg["rate_period"]
            by_bytes = not by_time and self.bytes >= cfg["rate_bytes"]
            if alpha_due:
                self.alpha -= self.alpha >> cfg["alpha_shift"]
                self.alpha_at += cfg["alpha_period"]
            if by_time:
                self.rate_at += cfg["rate_period"]
                self.timed = min(31, self.timed + 1)
            if by_bytes:
                self.bytes -= cfg["rate_bytes"]
                self.counted = min(31, self.counted + 1)
            if by_time or by_bytes:
                steps = sorted((self.timed, self.counted))
                late = [step > cfg["recovery_steps"] for step in steps]
                self.target = min(FULL, self.target + (cfg["hyper"] if late[0] else cfg["additive"] if late[1] else 0))
                self.rate = self.target + self.rate + 1 >> 1
            if not (alpha_due or by_time or by_bytes):
                return

    def rtt(self, tick, cfg, cycles):
        """Means nothing."""


class Delay:
    """State of one QP."""

    def __init__(self, tick):
        self.rate, self.cut_at = FULL, None

    def cnp(self, tick, cfg):
        """Means nothing."""

    def sent(self, tick, cfg, count):
        """The same."""

    def rtt(self, tick, cfg, cycles):
        if cycles <= cfg["delay_target"]:
            self.rate = min(FULL, self.rate + cfg["additive"])
        elif self.cut_at is None or (tick - self.cut_at & M32) >= cfg["rate_period"]:
            over = min(cycles - cfg["delay_target"], 1 << cfg["delay_scale"])
            cut = self.rate * over >> cfg["delay_scale"] >> cfg["delay_shift"]
            self.rate = max(cfg["min_rate"], self.rate - cut)
            self.cut_at = tick


def draw(rng, algorithm):
    """A row."""
    return dict(enable=1, algorithm=algorithm, alpha_period=rng.randrange(1, 60), rate_period=rng.randrange(1, 60),
                rate_bytes=rng.randrange(500, 20000), alpha_shift=rng.randrange(2, 9), recovery_steps=rng.randrange(7),
                min_rate=rng.randrange(1, 9000), additive=rng.randrange(65536), hyper=rng.randrange(65536),
                delay_target=rng.randrange(4000), delay_scale=rng.randrange(13), delay_shift=rng.randrange(1, 5))


async def event(bench, tick, **inputs):
    """One event, and all rates that follow."""
    bench.set("now_i", tick * CC_TICK_CYCLES + bench.rng.randrange(CC_TICK_CYCLES))
    for name, value in inputs.items():
        bench.set(name, value)
    await bench.step()
    for name in inputs:
        if name in ("cnp_i", "rtt_i", "sent_valid_i", "init_valid_i"):
            bench.set(name, 0)
    rates = []
    for _ in range(EVENT_CYCLES):
        await bench.step()
        word = RATE.unpack(bench.get("rate_o"))
        if word["valid"]:
            rates.append((word["qpn"], word["rate"], word["epoch"]))
    return rates


@cocotb.test()
async def rates_of_both_algorithms(dut):
    """CNPs, bytes, time and round trips in any order, QPs that begin again, rows that are written anew."""
    bench = Bench(dut, 11)
    await bench.start()
    rng, tick, epoch, cut = bench.rng, 1000, 0, 0
    for turn in range(8):
        algorithm = (CcAlgorithm.DCQCN, CcAlgorithm.DELAY)[turn % 2]
        make = Dcqcn if algorithm == CcAlgorithm.DCQCN else Delay
        cfg = draw(rng, algorithm)
        epoch += 1
        for port in range(2):
            bench.set("cfg_i", CFG.pack(**cfg), CFG.width * port, CFG.width)
            bench.set("epoch_i", epoch, 8 * port, 8)
        states = {}
        if turn == 0:   # nothing is there at reset
            for qpn in range(QPS):
                assert await event(bench, tick, init_valid_i=1, init_qpn_i=qpn) == [(qpn, FULL, epoch)]
        for _ in range(150):
            tick += rng.choice((0, 1, 5, 40, 40, 300))
            qpn, port = rng.randrange(QPS), rng.randrange(2)
            kind = rng.choice(("cnp", "sent", "sent", "sent", "rtt", "rtt", "init") if rng.random() < 0.3
                              else ("sent", "rtt"))
            if kind == "init":
                states.pop(qpn, None)
                assert await event(bench, tick, init_valid_i=1, init_qpn_i=qpn) == [(qpn, FULL, epoch)]
                continue
            state = states.setdefault(qpn, make(tick))
            if kind == "cnp":
                state.cnp(tick, cfg)
                rates = await event(bench, tick, cnp_i=1, cnp_qpn_i=qpn, cnp_port_i=port)
            elif kind == "sent":
                count = rng.randrange(1, 9000)
                state.sent(tick, cfg, count)
                rates = await event(bench, tick, sent_valid_i=1, sent_i=SENT.pack(port=port, qpn=qpn, bytes=count))
            else:
                cycles = rng.randrange(8000)
                state.rtt(tick, cfg, cycles)
                rates = await event(bench, tick, rtt_i=1, rtt_qpn_i=qpn, rtt_port_i=port, rtt_cycles_i=cycles)
            assert rates[-1] == (qpn, state.rate, epoch), f"{kind}: {state.__dict__}, {cfg}"
            cut += state.rate < FULL
    assert cut > 200, "rates hardly ever moved"


@cocotb.test()
async def nothing_is_lost_but_what_may_be(dut):
    """A flood from all sides: QPs that begin and what was sent wait and are dealt with, each once; CNPs go first."""
    bench = Bench(dut, 12)
    await bench.start()
    rng = bench.rng
    row = CFG.pack(**dict(draw(rng, CcAlgorithm.DCQCN), alpha_period=60000, rate_period=60000, rate_bytes=M24))
    for port in range(2):
        bench.set("cfg_i", row, CFG.width * port, CFG.width)
    init = Source(bench, "init", rate=0.02, payload=[("init_qpn_i", None)])
    sent = Source(bench, "sent", "cc_sent_t", rate=0.3)
    for _ in range(60):
        init.put((rng.randrange(QPS),))
    for _ in range(300):
        sent.put(SENT.pack(port=0, qpn=rng.randrange(QPS), bytes=rng.randrange(2000)))
    rates = 0
    for cycle in range(8000):
        flood = cycle < 7000
        bench.set("cnp_i", flood and rng.random() < 0.02)
        bench.set("cnp_qpn_i", QPS + rng.randrange(4))
        bench.set("rtt_i", flood and rng.random() < 0.1)
        bench.set("rtt_qpn_i", QPS + rng.randrange(4))
        await bench.step()
        word = RATE.unpack(bench.get("rate_o"))
        rates += word["valid"] and word["qpn"] < QPS
    assert init.idle() and sent.idle()
    assert rates == 360, "one for each that began and each that sent"


def test_react():
    simulate("hca_cc_react", __name__)
