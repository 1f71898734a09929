"""How the tests of hca_lines go: wants that are made up, firmware at work, the end, at which no door is shut."""

from lines_defs import ASK, LINE_BITS, RQ, SQ

OTHER = 1234    # a line of which something is under way, for fences


def some_qpns(lines, count, generations):
    """QPs that share lines."""
    numbers = lines.rng.sample(range(1 << LINE_BITS), count)
    return [generation << LINE_BITS | number for number in numbers for generation in range(generations)]


def random_wants(lines, qpns, count, bad=0.03):
    """Doorbells and packets, some of them for a QP that is another function's, or none at all."""
    rng = lines.rng
    for _ in range(count):
        lines.serial += 1   # no two doorbells are the same
        qpn = rng.choice(qpns)
        kind, func = rng.choice([SQ, SQ, RQ, ASK]), lines.funcs[qpn]
        if rng.random() < bad and kind != ASK:
            func ^= rng.randrange(1, 8)
        if kind == ASK and rng.random() < 0.3:
            lines.wants.extend([(ASK, 0, qpn, 0)] * rng.randrange(6))
        if rng.random() < bad:
            qpn ^= 1 << rng.randrange(LINE_BITS, 24)
        lines.wants.append((kind, func if kind != ASK else 0, qpn, lines.serial % (1 << 16) if kind != ASK else 0))


async def run(lines, firmware, meddle=0.0):
    """Until everything has been offered, with firmware at work."""
    while lines.wants:
        await lines.bench.step()
        await attend(lines, firmware)
        if lines.rng.random() < meddle:
            await firmware.meddle()


async def attend(lines, firmware):
    """Firmware does what it is asked for."""
    if lines.filled:
        await firmware.let_go(lines.filled.pop(0))
    elif lines.stuck:
        await firmware.make_room(*lines.stuck.popleft())


async def drain(lines, firmware, limit=60000):
    """Every want ends, and then nothing goes on, and no doors are shut."""
    lines.quiet, lines.errors = max(lines.quiet, 0.9), 0.0
    end = lines.bench.cycle + limit
    while lines.open_wants() or lines.stuck or lines.filled or lines.bench.cycle < lines.quiet_since + 2600:
        assert lines.bench.cycle < end, f"without end: {lines.open_wants()[:8]}, quiet since {lines.quiet_since}"
        await attend(lines, firmware)
        await lines.bench.step()
    assert not lines.writes and not lines.reads and not lines.expect_filled
    assert not any(line.drain or line.shut for line in lines.lines.values()), "doors are left shut"
    lines.give_up()


async def probe(lines, firmware, qpns):
    """Each line serves each of its QPs: nothing was left behind in it."""
    lines.wants.extend((SQ, lines.funcs[qpn], qpn, 1 << 15 | serial) for serial, qpn in enumerate(qpns))
    await run(lines, firmware)
    await drain(lines, firmware)


async def bring(lines, kind, qpn, pi=0):
    """One want, until its QP has its line."""
    lines.wants.append((kind, lines.funcs[qpn] if kind != ASK else 0, qpn, pi))
    await lines.bench.until(lambda: lines.line(qpn).qpn == qpn, what=f"the line of {qpn:#x}")


async def keep_fence(lines, firmware):
    """The next fence does not end; its item is of no line that is used here."""
    lines.knock_rate = 0
    await drain(lines, firmware)
    lines.items.append((OTHER, None))
    lines.rates["item"] = 0
