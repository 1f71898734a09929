"""Firmware as hca_lines knows it: it holds all lines, changes one, lets go; and wants lines itself (decision 0082)."""

from lines_defs import ASK, FILL, HOLDER, LINE_BITS, QPC, RTS, WANT

# Nothing on the way to a hold waits for the host: the door, the takers of contexts, and hca_rx_ctrl alone.
HELD_LIMIT = 1000   # what is on its way to the door waits for it, 50 cycles each in the slowest runs


class Firmware:
    """What firmware does, in turn; each of it runs the bench."""

    def __init__(self, lines):
        self.lines, self.bench, self.rng = lines, lines.bench, lines.rng
        self.serial = 1 << 16

    async def hold(self):
        """All lines stand still, in a bounded time."""
        self.lines.configure(hold=1)
        await self.bench.until(lambda: self.lines.held, limit=HELD_LIMIT, what="held")

    async def release(self):
        """They go on."""
        await self.bench.step(self.rng.choice([1, 1, 2, 30]))
        self.lines.configure(hold=0)

    async def still(self):
        """Held again behind a change."""
        await self.bench.until(lambda: self.lines.held, limit=8, what="held again")

    async def check_holder(self, qpn):
        """Who has the line is told right."""
        line = self.lines.line(qpn)
        self.lines.configure(sel=qpn % (1 << LINE_BITS))
        await self.bench.step(2)
        holder = HOLDER.unpack(self.bench.get("holder_o"))
        assert self.lines.held and holder["valid"] == (line.qpn is not None), hex(qpn)
        assert not holder["valid"] or (holder["qpn"], holder["may_rest"]) == (line.qpn, line.may_rest), hex(qpn)

    async def set(self, qpn, valid=1, may_rest=1):
        """Gives a line to somebody, or to nobody. What was begun by who had it is over: firmware has seen to it."""
        lines, line, number = self.lines, self.lines.line(qpn), qpn % (1 << LINE_BITS)
        lines.items = [item for item in lines.items if item[0] != number]
        if lines.door and lines.door[0] == number:
            lines.door = (number, None)
        lines.configure(set_go=1, set=HOLDER.pack(valid=valid, may_rest=may_rest, qpn=qpn))
        lines.changed(qpn)
        await self.bench.step()
        lines.configure(set_go=0)
        if valid:
            lines.takes_line(line, qpn, bool(may_rest))
        else:
            line.qpn, line.may_rest = None, True
        await self.still()

    async def record(self, qpn, whole, state=RTS, wait=True):
        """A context into context memory, or what of it comes before the record. Without `wait` the next change comes
        in the cycle behind it."""
        lines = self.lines
        qpc = QPC.random(self.rng, qpn=qpn, func=lines.funcs[qpn], state=state)
        index = self.rng.choice([qpn, qpn % (1 << lines.cfg["index_bits"])])
        lines.records.append({"whole": whole, "index": index, "qpc": qpc})
        await self.bench.until(lambda: not lines.records, limit=20000, what="record")
        if wait:
            await self.still()

    async def want(self, kind, func, qpn):
        """Hardware is to move a QP into its line."""
        lines = self.lines
        self.serial += 1
        pi = self.serial % (1 << 17) if kind != ASK else 0
        await self.bench.until(lambda: self.bench.get("room_o"), limit=20000, what="room")
        if kind == ASK:
            lines.asks[qpn] += 1
        elif kind == FILL:
            lines.fills[FILL, func, qpn, pi] = lines.line(qpn).qpn == qpn
        else:
            lines.doorbells.add((kind, func, qpn, pi))
        lines.configure(want_go=1, want=WANT.pack(kind=kind, func=func, qpn=qpn, pi=pi))
        await self.bench.step()
        lines.configure(want_go=0)

    # ---- What it does when -----------------------------------------------------------------------------
    async def make_room(self, kind, func, qpn, _):
        """LINE_MISS: whoever is in the way goes, or may go; or firmware moves the QP in itself."""
        line, choice = self.lines.line(qpn), self.rng.randrange(3)
        await self.hold()
        await self.check_holder(qpn)
        there = line.qpn == qpn
        if not there and line.qpn is not None and (choice != 1 or not line.may_rest):
            await self.record(line.qpn, whole=1)
            if choice != 2 or not self.lines.good(kind, func, qpn):
                await self.set(qpn, valid=0)
        if not there and choice == 2 and self.lines.good(kind, func, qpn):
            await self.set(qpn)
        await self.check_holder(qpn)
        await self.release()
        if choice != 2:
            await self.want(kind, func, qpn)

    async def let_go(self, qpn):
        """LINE_FILLED: its error is dealt with, and it may rest again."""
        await self.hold()
        await self.check_holder(qpn)
        if self.lines.line(qpn).qpn == qpn:
            await self.record(qpn, whole=0, wait=False)
            await self.set(qpn)
        await self.check_holder(qpn)
        await self.release()

    async def meddle(self):
        """Firmware does something of its own."""
        lines = self.lines
        qpn = self.rng.choice(list(lines.funcs))
        choice = self.rng.randrange(5)
        if choice == 0:
            return await self.want(FILL, lines.funcs[qpn], qpn)
        await self.hold()
        line = lines.line(qpn)
        if choice == 1:
            await self.record(qpn, whole=0, state=self.rng.choice([RTS, RTS, 6]))
        elif choice == 2 and line.qpn != qpn:
            await self.record(qpn, whole=1, state=self.rng.choice([RTS, RTS, 5]))
        elif choice == 3 and line.qpn is None:
            await self.set(qpn, may_rest=self.rng.randrange(2))
        elif choice == 4 and line.qpn is not None:
            await self.record(line.qpn, whole=1)
            await self.set(qpn, may_rest=1)
        await self.check_holder(qpn)
        await self.release()
