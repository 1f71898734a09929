"""Who wants a line and what becomes of it, part of the bench of hca_lines: each want ends once (decision 0082)."""

from collections import Counter

import hca_abi as abi
from lines_defs import ASK, EV, FILL, INDEX_BITS, SQ, STAY_BUSY, WANT


class Wants:
    """Wants that have not ended: doorbells one by one, packets by QPN, what firmware wants."""

    def good(self, kind, func, qpn):
        """There is such a QP, and who rings for it may."""
        return self.funcs.get(qpn, -1) == func or (kind in (ASK, FILL) and qpn in self.funcs)

    def wanted(self, qpn):
        """A want that is not over names it."""
        return (self.asks[qpn] > 0 or qpn in self.parked.values() or any(fill[2] == qpn for fill in self.fills)
                or any(want[2] == qpn and self.good(*want[:3]) for want in self.doorbells))

    def sample_wants(self):
        """What came in, or found no room."""
        ready = self.bench.get("db_ready_o")
        if self.bench.get("park_ready_o"):
            self.pkt = None           # what came before this cycle is in the queue
        if self.db:
            (self.doorbells.add if ready else self.refused.append)(self.db)
        if self.asked is not None:
            # One of the QP of the packet before may be the same want.
            if self.asked == self.last:
                self.lost[self.asked] += 1
            elif self.pkt is not None:
                self.lost[self.pkt] += 1
            self.pkt = self.last = self.asked
            self.asks[self.asked] += 1

    def sample_again(self):
        """Doorbells come again to their door when their QP has its line."""
        if not self.bench.get("again_valid_o"):
            assert self.again is None, "a doorbell was withdrawn"
            return
        self.begun = True
        word = WANT.unpack(self.bench.get("again_o"))
        want = (word["kind"], word["func"], word["qpn"], word["pi"])
        line = self.line(want[2])
        assert want in self.doorbells, f"{want} has ended before, or never was"
        assert self.again in (None, want), "a doorbell changed"
        misses = line.qpn != want[2] or line.taken_by is not None or line.shut or line.drain
        assert self.again or not misses or self.rates["back"] < 0.1, f"{want} misses again, and nobody was in the way"
        self.again = None if self.bench.get("again_ready_i") else want
        if self.again is None:
            self.doorbells.remove(want)
            if misses:   # it had to wait for so long
                self.wants.append(want)

    def sample_events(self):
        """Firmware is told of those that hardware cannot help, and of those that need it."""
        if not self.bench.get("ev_valid_o"):
            assert self.ev is None, "an event was withdrawn"
            return
        word = self.bench.get("ev_o")
        assert self.ev in (None, word), "an event changed"
        if self.ev is None:
            self.told(EV.unpack(word))
        self.ev = None if self.ev_ready else word

    def told(self, ev):
        """A new event, in the cycle in which it is there."""
        kind = ev["cause"] >> 19
        want = (kind, ev["func"], ev["id"], ev["cause"] & 0x1FFFF)
        if ev["kind"] == abi.HwEventKind.LINE_FILLED:
            assert self.expect_filled.popleft() == want[2]
            self.filled.append(want[2])
            return
        assert ev["kind"] == abi.HwEventKind.LINE_MISS
        assert ev["cause"] >> 18 & 1 and ev["cause"] >> 17 & 1 == (kind == SQ)
        line = self.line(want[2])
        assert line.qpn not in (None, want[2]), "firmware is asked, and nobody is in the way"
        if line.may_rest:
            assert line.waited is not None and line.waited >= STAY_BUSY, "firmware is asked too early"
            line.waited = None
        if kind == ASK and want[2] in self.parks_told:
            self.parks_told.remove(want[2])
        elif kind == ASK and want[2] in self.parked.values():
            self.parks_due.append(want[2])
        elif kind == ASK:
            assert self.asks[want[2]] > 0
            self.asks[want[2]] -= 1
        elif kind == FILL:
            del self.fills[want]
        else:
            self.doorbells.remove(want)
        self.stuck.append(want)

    def open_wants(self):
        """Wants that have not ended, but those that may end unseen: bad ones, lost packets, reads that failed."""
        spare = Counter(self.bad_reads)
        left = []
        rest = [*self.doorbells, *(fill for fill, over in self.fills.items() if not over)]
        for qpn, count in self.asks.items():
            rest += [(ASK, 0, qpn, 0)] * max(0, count - self.lost[qpn] - self.parks_due.count(qpn))
        for want in rest:
            if not self.good(*want[:3]):
                continue
            index = want[2] % (1 << INDEX_BITS)
            if spare[index]:
                spare[index] -= 1
            else:
                left.append(want)
        # Each packet that waits comes back, whatever becomes of it.
        return left + list(self.parked.items()) + list(self.parks)

    def give_up(self):
        """What has ended unseen is not waited for any more."""
        for done in (self.bad_reads, self.lost, self.asks, self.doorbells, self.fills):
            done.clear()
