"""hca_lines by its ports: every want ends once, no QPN is in two lines, nothing of a QP is under way when its line goes
to another one, context memory has what it was before it is read again (decision 0082)."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import cocotb
from common import simulate
from lines_bench import Lines
from lines_defs import ASK, ERR, FILL, INDEX_BITS, LINE_BITS, RQ, SQ
from lines_firmware import Firmware
from lines_runs import OTHER, attend, bring, drain, keep_fence, probe, random_wants, run, some_qpns

SLOW = {"req": 0.3, "rsp": 0.4, "wr": 0.2, "ev": 0.05, "again": 0.3, "look": 0.3, "sink": 0.3, "item": 0.1,
        "door": 0.3}
MIXED = {"req": 0.7, "rsp": 0.8, "wr": 0.6, "ev": 0.5, "again": 0.6, "look": 0.5, "sink": 0.7, "item": 0.3, "door": 0.6}


@cocotb.test()
@cocotb.parametrize(case=[(1, {}, 0.9, 0.0, 0.3), (2, MIXED, 0.7, 0.01, 0.2), (3, SLOW, 0.8, 0.02, 0.1),
                          (4, {"ev": 0.01, "wr": 0.05}, 0.6, 0.02, 0.9)])
async def at_random(dut, case):
    """Wants of all kinds over more QPs than lines, stalls everywhere, reads that fail, QPs that turn busy, firmware
    that changes lines and records meanwhile."""
    seed, rates, quiet, errors, want_rate = case
    lines = Lines(dut, seed, rates, quiet=quiet, errors=errors)
    qpns = some_qpns(lines, 24, 3)
    await lines.start(qpns)
    firmware = Firmware(lines)
    for qpn in qpns[::7]:
        lines.create(qpn, state=ERR)
    lines.want_rate, lines.careless = want_rate, want_rate > 0.5
    random_wants(lines, qpns, 400 if rates is SLOW else 1000)
    await run(lines, firmware, meddle=0.002)
    await drain(lines, firmware)
    assert lines.swaps > 100 and lines.drains > 30 and lines.refusals > 5
    await probe(lines, firmware, qpns)


@cocotb.test()
async def full_queue(dut):
    """2,048 doorbells wait; further ones are refused, and go another way. None of those that wait is lost."""
    lines = Lines(dut, 10)
    qpns = some_qpns(lines, 100, 2)
    await lines.start(qpns)
    firmware = Firmware(lines)
    await firmware.hold()
    lines.want_rate = 1.0
    lines.wants.extend((SQ, lines.funcs[qpns[n % 200]], qpns[n % 200], n) for n in range(2200))
    await lines.bench.until(lambda: not lines.wants, what="doorbells")
    await lines.bench.step()
    assert len(lines.refused) == 2200 - 2048
    await firmware.want(FILL, lines.funcs[qpns[0]], qpns[0])
    await lines.bench.step(5)
    assert not lines.bench.get("room_o")
    await firmware.release()
    await drain(lines, firmware)
    assert lines.swaps >= 200


@cocotb.test()
async def all_places_busy(dut):
    """64 contexts are on their way, and no answer comes: others wait, hits go on, and firmware can hold the lines."""
    lines = Lines(dut, 11, {"rsp": 0})
    qpns = some_qpns(lines, 121, 1)
    await lines.start(qpns)
    firmware = Firmware(lines)
    await firmware.hold()
    await firmware.set(qpns[0])
    await firmware.release()
    lines.wants.extend((RQ, lines.funcs[qpn], qpn, n) for n, qpn in enumerate(qpns[1:], 1))
    await lines.bench.until(lambda: len(lines.reads) == 64, what="64 reads")
    await lines.bench.step(1500)
    assert len(lines.reads) == 64 and lines.swaps == 0 and len(lines.doorbells) == 120
    lines.wants.append((RQ, lines.funcs[qpns[0]], qpns[0], 999))
    await lines.bench.until(lambda: len(lines.doorbells) == 120 and not lines.wants, what="who has its line")
    await firmware.hold()
    await firmware.release()
    lines.rates["rsp"] = 1
    await drain(lines, firmware)
    assert lines.swaps == 120


@cocotb.test()
async def held_whatever_the_host_does(dut):
    """Nothing answers: neither reads nor writes of context memory, nor does firmware take events. Lines are held in a
    bounded time (decision 0082), and a change is made."""
    lines = Lines(dut, 12, MIXED)
    qpns = some_qpns(lines, 20, 3)
    await lines.start(qpns)
    firmware = Firmware(lines)
    random_wants(lines, qpns, 400)
    for _ in range(25):
        await lines.bench.step(lines.rng.randrange(200))
        lines.rates.update(rsp=0, wr=0, ev=0, req=0)
        await lines.bench.step(lines.rng.randrange(60))
        await firmware.hold()
        qpn = lines.rng.choice(qpns)
        if lines.line(qpn).qpn is None:
            await firmware.set(qpn)
        await firmware.check_holder(qpn)
        await firmware.release()
        lines.rates.update(MIXED, wr=1)
        await attend(lines, firmware)
    await run(lines, firmware)
    await drain(lines, firmware)


@cocotb.test()
@cocotb.parametrize(kind=[SQ, RQ, ASK, FILL])
async def has_it_already(dut, kind):
    """A QP that has its line: its doorbell goes on, its peer is asked, and firmware's wish is fulfilled; nothing is
    read and nobody leaves."""
    lines = Lines(dut, 13)
    qpn = 3 << LINE_BITS | 77
    await lines.start([qpn])
    firmware = Firmware(lines)
    await firmware.want(kind, lines.funcs[qpn], qpn)
    await drain(lines, firmware)
    assert lines.swaps == 1 and lines.line(qpn).qpn == qpn
    lines.latency = (1 << 30, 1 << 30)
    await firmware.want(kind, lines.funcs[qpn], qpn)
    await drain(lines, firmware)
    assert lines.swaps == 1
    if kind == FILL:
        assert not lines.stuck and lines.looks == 0


@cocotb.test()
async def bad_contexts(dut):
    """KEY-3: context memory has another QP's context in that place, or another function rings: nothing comes of it, the
    holder keeps the line with its doors open, and whoever comes next gets it."""
    lines = Lines(dut, 14)
    holder, other = 1 << LINE_BITS | 5, 2 << LINE_BITS | 5
    await lines.start([holder, other])
    firmware = Firmware(lines)
    await bring(lines, SQ, holder)
    swaps = lines.swaps
    for n, (kind, func, qpn) in enumerate([(SQ, lines.funcs[other] ^ 1, other), (RQ, lines.funcs[other] ^ 4, other),
                                           (SQ, lines.funcs[other], other | 1 << INDEX_BITS),
                                           (ASK, 0, other | 1 << 23), (SQ, 0, 3 << LINE_BITS | 5)]):
        lines.wants.append((kind, func, qpn, n if kind != ASK else 0))
        await drain(lines, firmware)
        assert lines.swaps == swaps and not lines.line(holder).shut
    await firmware.want(FILL, 0, other | 1 << 22)
    await drain(lines, firmware)
    await firmware.hold()
    await firmware.check_holder(holder)
    await firmware.release()
    await bring(lines, ASK, other)
    await drain(lines, firmware)
    assert lines.swaps == swaps + 1


@cocotb.test()
@cocotb.parametrize(change=["record", "nobody", "another", "itself"], when=["read", "shut", "fence"])
async def firmware_comes_between(dut, change, when):
    """What firmware does to a line voids what was prepared for it: doors open, and the context is read once more."""
    lines = Lines(dut, 15, quiet=1.0)
    holder, other, third = (generation << LINE_BITS | 9 for generation in (1, 2, 3))
    await lines.start([holder, other, third])
    firmware = Firmware(lines)
    await bring(lines, SQ, holder)
    await keep_fence(lines, firmware)
    if when == "read":
        lines.rates["rsp"] = 0
    fences, reads = lines.fences, lines.read_count
    lines.wants.append((SQ, lines.funcs[other], other, 1))
    line = lines.line(other)
    await lines.bench.until({"read": lambda: lines.reads, "shut": lambda: line.shut,
                             "fence": lambda: lines.fences > fences}[when], what=when)
    await firmware.hold()
    assert line.shut
    if change == "record":
        await firmware.record(other, whole=0)
    elif change == "nobody":
        await firmware.record(holder, whole=1)
        await firmware.set(holder, valid=0)
    else:
        await firmware.record(holder, whole=1)
        await firmware.set(other if change == "itself" else third)
    await firmware.release()
    lines.rates.update(item=1, rsp=1)
    await drain(lines, firmware)
    assert line.qpn == other and lines.read_count == reads + (1 if change == "itself" else 2)


@cocotb.test()
async def place_of_before(dut):
    """Firmware voids a place whose doors were shut, and the line has a further place before the first has come to its
    turn: that one is nobody's, whatever the line says of the other."""
    lines = Lines(dut, 20, quiet=1.0)
    holder, other, third = (generation << LINE_BITS | 9 for generation in (1, 2, 3))
    await lines.start([holder, other, third])
    firmware = Firmware(lines)
    await bring(lines, SQ, holder)
    await keep_fence(lines, firmware)
    fences, reads = lines.fences, lines.read_count
    lines.wants.append((SQ, lines.funcs[other], other, 1))
    await lines.bench.until(lambda: lines.fences > fences, what="a fence")
    await firmware.hold()
    await firmware.record(other, whole=0)
    await firmware.release()
    lines.wants.append((SQ, lines.funcs[third], third, 2))
    await lines.bench.until(lambda: lines.read_count == reads + 2, what="the second place")
    lines.rates["item"] = 1
    await drain(lines, firmware)
    assert lines.swaps == 3


@cocotb.test()
async def two_things_to_tell(dut):
    """Firmware has not taken the last event when a QP in ERR gets its line: it is told of both."""
    lines = Lines(dut, 16, {"item": 0})
    lines.knock_rate = 0
    holder, other, failed = 1 << LINE_BITS | 20, 2 << LINE_BITS | 20, 1 << LINE_BITS | 21
    await lines.start([holder, other])
    lines.create(failed, state=ERR)
    firmware = Firmware(lines)
    await firmware.hold()
    await firmware.set(holder, may_rest=0)
    await firmware.release()
    lines.items.append((OTHER, None))
    lines.rates["ev"] = 0
    lines.wants.append((RQ, lines.funcs[failed], failed, 1))
    await lines.bench.until(lambda: lines.line(failed).shut, what="its doors")
    lines.wants.append((SQ, lines.funcs[other], other, 2))
    await lines.bench.until(lambda: lines.ev is not None, what="LINE_MISS")
    lines.rates["item"] = 1
    await lines.bench.step(200)
    lines.rates["ev"] = 1
    await lines.bench.until(lambda: lines.filled, what="LINE_FILLED")
    assert list(lines.stuck) == [(SQ, lines.funcs[other], other, 2)] and lines.filled == [failed]
    await drain(lines, firmware)


@cocotb.test()
async def reset_in_the_middle(dut):
    """Whatever was under way, behind a reset everything goes on from context memory, with all lines free."""
    lines = Lines(dut, 18, MIXED, errors=0.01)
    qpns = some_qpns(lines, 12, 3)
    await lines.start(qpns)
    for _ in range(4):
        firmware = Firmware(lines)
        lines.wants.clear()
        random_wants(lines, qpns, 200)
        await lines.bench.step(lines.rng.randrange(200, 900))
        assert lines.doorbells
        await lines.reset()
    lines.wants.clear()
    random_wants(lines, qpns, 100)
    await run(lines, Firmware(lines))
    await drain(lines, Firmware(lines))
    await probe(lines, Firmware(lines), qpns)


@cocotb.test()
async def switched_off(dut):
    """Without context memory nothing begins; what waits goes on when there is one."""
    lines = Lines(dut, 19)
    qpns = some_qpns(lines, 5, 2)
    await lines.start(qpns)
    lines.configure(enable=0)
    random_wants(lines, qpns, 50, bad=0)
    await lines.bench.until(lambda: not lines.wants, what="wants")
    await lines.bench.step(200)
    assert lines.quiet_since == 0 and not lines.reads
    lines.configure(enable=1)
    await drain(lines, Firmware(lines))


def test_lines():
    simulate("hca_lines", __name__)
