"""hca_lines when other QPs want a line: drain, look, refusal, turns, bursts (decision 0082)."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import cocotb
from common import simulate
from lines_bench import Lines
from lines_defs import ASK, FILL, LINE_BITS, SQ
from lines_firmware import Firmware
from lines_runs import bring, drain


@cocotb.test()
async def never_quiet(dut):
    """Who has something to do stays; after 200 us firmware is told. Quiet at the look alone does not help: it
    refuses."""
    lines = Lines(dut, 17)
    holder, other = 1 << LINE_BITS | 30, 2 << LINE_BITS | 30
    await lines.start([holder, other])
    firmware = Firmware(lines)
    await bring(lines, SQ, holder)
    before = lines.refusals
    lines.quiet = 0.0
    lines.wants.append((ASK, 0, other, 0))
    await lines.bench.until(lambda: lines.stuck, what="LINE_MISS")
    assert lines.refusals == before
    lines.quiet, lines.offers_quiet = 1.0, 0.0
    lines.wants.append((SQ, lines.funcs[other], other, 1))
    await lines.bench.until(lambda: lines.refusals == before + 5, what="refusals")
    assert lines.line(holder).qpn == holder
    lines.offers_quiet = None
    await drain(lines, firmware)


async def begin_drain(dut, seed, kind, **answers):
    """A line whose holder drains because another QP wants it: (lines, firmware, line, holder, other)."""
    lines = Lines(dut, seed)
    holder, other = 1 << LINE_BITS | 30, 2 << LINE_BITS | 30
    await lines.start([holder, other])
    firmware = Firmware(lines)
    await bring(lines, SQ, holder)
    for name, value in answers.items():
        setattr(lines, name, value)
    lines.wants.append((kind, 0 if kind == ASK else lines.funcs[other], other, int(kind != ASK)))
    line = lines.line(holder)
    await lines.bench.until(lambda: line.drain, what="drain")
    return lines, firmware, line, holder, other


@cocotb.test()
async def drains(dut):
    """Whose line another QP wants gets no doorbells: they wait as all others do, but what firmware wants of it is there
    already. 200 us behind that firmware is told, whatever was looked at meanwhile, the doors are open, and its
    doorbells go on."""
    lines, firmware, line, holder, other = await begin_drain(dut, 21, ASK, quiet=0.0)
    begun = lines.bench.cycle
    rung = (SQ, lines.funcs[holder], holder, 1)
    lines.wants.append(rung)
    lines.wants.append((ASK, 0, holder, 0))
    # A doorbell in the cycle of a wish of firmware's would go another way.
    await lines.bench.until(lambda: not lines.wants, what="all offered")
    await firmware.want(FILL, lines.funcs[holder], holder)
    await lines.bench.step(500)
    assert line.drain and rung in lines.doorbells and lines.asks[holder] == 1 and not lines.stuck
    await lines.bench.until(lambda: lines.stuck, what="LINE_MISS")
    assert 800 - 4 <= lines.bench.cycle - begun < 900 and list(lines.stuck) == [(ASK, 0, other, 0)]
    await lines.bench.until(lambda: rung not in lines.doorbells and not lines.asks[holder], limit=50, what="its own")
    assert not line.drain and line.qpn == holder
    await drain(lines, firmware)


@cocotb.test()
async def door_is_not_free(dut):
    """hca_rx_ctrl is not asked while a doorbell from before is in the door."""
    lines = Lines(dut, 22)
    holder, other = 1 << LINE_BITS | 30, 2 << LINE_BITS | 30
    await lines.start([holder, other])
    await bring(lines, SQ, holder)
    await drain(lines, Firmware(lines))
    lines.knock_rate = 1.0
    lines.rates["door"] = 0
    await lines.bench.until(lambda: lines.door is not None, what="a doorbell")
    looks = lines.looks
    lines.wants.append((SQ, lines.funcs[other], other, 1))
    await lines.bench.until(lambda: lines.line(holder).drain, what="drain")
    await lines.bench.step(300)
    assert lines.looks == looks and not lines.reads
    lines.rates["door"], lines.knock_rate = 1, 0.4
    await drain(lines, Firmware(lines))
    assert lines.swaps == 2


@cocotb.test()
async def refuses(dut):
    """Behind a refusal the holder drains on, and its time goes on: firmware is told 200 us after the drain began."""
    lines, firmware, line, holder, other = await begin_drain(dut, 23, SQ, offers_quiet=0.0)
    begun = lines.bench.cycle
    for n in range(1, 4):
        await lines.bench.until(lambda n=n: lines.refusals == n, what="a refusal")
        await lines.bench.until(lambda: not line.shut, limit=10, what="its door")
        assert line.drain
    lines.quiet = 0.0
    await lines.bench.until(lambda: lines.stuck, what="LINE_MISS")
    assert 800 - 4 <= lines.bench.cycle - begun < 900 and not line.drain
    lines.offers_quiet = None
    await drain(lines, firmware)


@cocotb.test()
async def bursts(dut):
    """A burst of a QP's packets that waits is one want, and its peer is asked once; others between them are further
    ones, and so is one that comes when the first has left the queue."""
    lines = Lines(dut, 24)
    first, second = 1 << LINE_BITS | 40, 1 << LINE_BITS | 41
    await lines.start([first, second])
    firmware = Firmware(lines)
    await bring(lines, SQ, first)
    await bring(lines, SQ, second)
    lines.want_rate = 1.0
    for burst, asked in (([first] * 20, 1), ([first, second] * 4, 8), ([first, first, second, second, second], 2)):
        await drain(lines, firmware)
        looks = lines.looks
        await firmware.hold()
        lines.wants.extend((ASK, 0, qpn, 0) for qpn in burst)
        await lines.bench.until(lambda: not lines.wants, what="packets")
        await lines.bench.step(2)
        await firmware.release()
        await drain(lines, firmware)
        assert lines.looks == looks + asked
    looks = lines.looks
    for _ in range(2):
        lines.wants.append((ASK, 0, first, 0))
        await lines.bench.until(lambda: lines.looks > looks, what="the peer asked")
        looks += 1
    await drain(lines, firmware)
    assert lines.looks == looks


@cocotb.test()
async def take_turns(dut):
    """QPs of one line that are rung all the time: each has its line, and none for long."""
    lines = Lines(dut, 25)
    qpns = [generation << LINE_BITS | 50 for generation in range(1, 4)]
    await lines.start(qpns)
    had, serial = {qpn: 0 for qpn in qpns}, 0
    for _ in range(6000):
        await lines.bench.step()
        holder = lines.line(qpns[0]).qpn
        if holder is not None:
            had[holder] += 1
        for qpn in qpns:
            if not lines.wanted(qpn) and not any(want[2] == qpn for want in lines.wants):
                serial += 1
                lines.wants.append((SQ, lines.funcs[qpn], qpn, serial))
    assert lines.swaps > 20 and min(had.values()) > 1000, had
    await drain(lines, Firmware(lines))


def test_line_drains():
    simulate("hca_lines", __name__)
