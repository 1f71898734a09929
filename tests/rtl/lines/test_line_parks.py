"""hca_lines and packets that wait for their QPs: each slot comes back once, when the QP has its line or cannot have it
now (decision 0082)."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import cocotb
from common import simulate
from lines_bench import Lines
from lines_defs import ASK, ERR, LINE_BITS, PARK_SLOTS, SQ
from lines_firmware import Firmware
from lines_runs import attend, bring, drain, probe, random_wants, run, some_qpns

SLOW = {"req": 0.3, "rsp": 0.4, "wr": 0.2, "ev": 0.05, "again": 0.3, "look": 0.3, "sink": 0.3, "item": 0.1,
        "door": 0.3, "back": 0.1}
MIXED = {"req": 0.7, "rsp": 0.8, "wr": 0.6, "ev": 0.5, "again": 0.6, "look": 0.5, "sink": 0.7, "item": 0.3,
         "door": 0.6, "back": 0.5}
HOLDER, OTHER = 1 << LINE_BITS | 30, 2 << LINE_BITS | 30


async def start(dut, seed, **answers):
    """Two QPs of one line, which the first has: (lines, firmware)"""
    lines = Lines(dut, seed)
    await lines.start([HOLDER, OTHER])
    firmware = Firmware(lines)
    await bring(lines, SQ, HOLDER)
    await drain(lines, firmware)
    for name, value in answers.items():
        setattr(lines, name, value)
    return lines, firmware


async def come_back(lines, firmware=None, limit=6000):
    """All slots come back: why. Firmware does nothing meanwhile without `firmware`."""
    for _ in range(limit):
        if not lines.parks and not lines.parked:
            return dict(lines.reasons)
        await lines.bench.step()
        if firmware:
            await attend(lines, firmware)
    raise AssertionError(f"without end: {lines.parked}, {lines.parks}")


@cocotb.test()
@cocotb.parametrize(case=[(1, {}, 0.9, 0.0, 0.3), (2, MIXED, 0.7, 0.01, 0.2), (3, SLOW, 0.8, 0.02, 0.1),
                          (4, {"ev": 0.01, "wr": 0.05, "back": 0.02}, 0.6, 0.02, 0.9)])
async def at_random(dut, case):
    """Packets that wait between doorbells, packets that are dropped and wishes of firmware's, which changes lines
    meanwhile: all of them end, once."""
    seed, rates, quiet, errors, want_rate = case
    lines = Lines(dut, seed, rates, quiet=quiet, errors=errors)
    qpns = some_qpns(lines, 24, 3)
    await lines.start(qpns)
    firmware = Firmware(lines)
    for qpn in qpns[::7]:
        lines.create(qpn, state=ERR)
    lines.want_rate, lines.careless = want_rate, want_rate > 0.5
    count = 300 if rates is SLOW else 700
    random_wants(lines, qpns, count)
    for _ in range(count):
        qpn = lines.rng.choice(qpns)
        bad = lines.rng.random() < 0.03
        lines.parks.extend([qpn ^ bad << lines.rng.randrange(LINE_BITS, 24)] * lines.rng.choice((1, 1, 2, 5)))
    while lines.parks:
        await run(lines, firmware, meddle=0.002)
        await lines.bench.step()
        await attend(lines, firmware)
    await drain(lines, firmware)
    assert lines.swaps > 100 and lines.reasons["there"] > count / 2 and lines.reasons["bad"] > 3, lines.reasons
    await probe(lines, firmware, qpns)


@cocotb.test()
@cocotb.parametrize(case=["nobody's", "its own", "resting"])
async def gets_its_line(dut, case):
    """Packets of a QP come back when it has its line, all of them; its peer is not asked."""
    lines, firmware = await start(dut, 30)
    qpn = {"nobody's": 3 << LINE_BITS | 31, "its own": HOLDER, "resting": OTHER}[case]
    if case == "nobody's":
        lines.create(qpn)
    swaps = lines.swaps
    lines.parks.extend([qpn] * 7)
    assert await come_back(lines) == {"there": 7} and lines.line(qpn).qpn == qpn and not lines.stuck
    assert lines.swaps == swaps + (case != "its own")
    await drain(lines, firmware)


@cocotb.test()
async def bad_context(dut):
    """Another QPN's context, or one that cannot be read: they come back to be dropped; the holder keeps its line."""
    lines, firmware = await start(dut, 31)
    for bad in (OTHER | 1 << 23, 3 << LINE_BITS | 30, OTHER ^ 1 << 20):
        lines.reasons.clear()
        lines.parks.extend([bad] * 3)
        assert await come_back(lines) == {"bad": 3}
    lines.reasons.clear()
    lines.errors = 1.0
    lines.parks.extend([OTHER] * 3)
    assert await come_back(lines) == {"unread": 3}
    lines.errors = 0.0
    assert lines.line(HOLDER).qpn == HOLDER and not lines.stuck
    lines.reasons.clear()
    lines.parks.append(OTHER)
    assert await come_back(lines) == {"there": 1}
    await drain(lines, firmware)


@cocotb.test()
async def holder_refuses(dut):
    """They wait while the holder has something to do after all, and come back behind the hand-over."""
    lines, firmware = await start(dut, 32, offers_quiet=0.0)
    refusals = lines.refusals
    lines.parks.extend([OTHER] * 3)
    await lines.bench.until(lambda: lines.refusals == refusals + 2, what="refusals")
    assert len(lines.parked) == 3 and not lines.reasons
    lines.offers_quiet = None
    assert await come_back(lines) == {"there": 3} and lines.line(OTHER).qpn == OTHER
    await drain(lines, firmware)


@cocotb.test()
async def holder_stays(dut):
    """A holder that is firmware's: they come back at once and miss once more; firmware is told of that."""
    lines, firmware = await start(dut, 33)
    await firmware.hold()
    await firmware.set(HOLDER, may_rest=0)
    await firmware.release()
    lines.parks.extend([OTHER] * 4)
    assert await come_back(lines, limit=60) == {"stays": 4} and not lines.stuck
    lines.wants.append((ASK, 0, OTHER, 0))
    await lines.bench.until(lambda: lines.stuck, limit=60, what="LINE_MISS")
    await drain(lines, firmware)
    assert lines.line(OTHER).qpn == OTHER


@cocotb.test()
@cocotb.parametrize(helps=[0, 1])
async def overdue(dut, helps):
    """A holder that is never quiet: firmware is told after 200 us, and the packet comes back; the others wait on, each
    for its 200 us, or until firmware has helped."""
    lines, firmware = await start(dut, 34, quiet=0.0)
    lines.parks.extend([OTHER] * 3)
    await lines.bench.until(lambda: lines.stuck, what="LINE_MISS")
    assert list(lines.stuck) == [(ASK, 0, OTHER, 0)]
    await lines.bench.step(20)
    assert lines.reasons["overdue"] == 1 and len(lines.parked) == 2 and not lines.line(HOLDER).drain
    if helps:
        reasons = await come_back(lines, firmware)
        assert sum(reasons.values()) == 3
    else:
        assert await come_back(lines) == {"overdue": 3}
        assert list(lines.stuck) == [(ASK, 0, OTHER, 0)] * 3
    await drain(lines, firmware)


@cocotb.test()
async def all_slots(dut):
    """128 packets wait for the lines of 64 QPs, hca_rx_park takes none back for a while; doorbells go on behind."""
    lines = Lines(dut, 35, {"back": 0})
    qpns = some_qpns(lines, 64, 1)
    await lines.start(qpns)
    firmware = Firmware(lines)
    lines.want_rate = 1.0
    lines.parks.extend(qpns * 2)
    await lines.bench.until(lambda: len(lines.parked) == PARK_SLOTS and lines.park is None, what="all taken")
    await lines.bench.until(lambda: lines.back is not None, what="the first one")
    lines.wants.extend((SQ, lines.funcs[qpn], qpn, n) for n, qpn in enumerate(qpns))
    await lines.bench.step(500)
    assert len(lines.parked) == PARK_SLOTS and not lines.refused
    lines.rates["back"] = 0.5
    await drain(lines, firmware)
    assert lines.reasons == {"there": PARK_SLOTS} and lines.swaps == 64


def test_line_parks():
    simulate("hca_lines", __name__)
