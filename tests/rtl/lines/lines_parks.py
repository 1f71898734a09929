"""Packets that wait for their QPs, part of the bench of hca_lines: each slot comes back once, for a reason."""

from collections import Counter, deque

from lines_defs import ASK, INDEX_BITS, PARK, PARK_SLOTS, STAY_BUSY


class Parks:
    """QPNs of packets to be parked, and slots of those that are."""

    def forget_parks(self):
        """As behind a reset."""
        self.parks = deque()          # QPNs, to be offered
        self.parked = {}              # slot: QPN; offered or taken, not back
        self.park = None              # the slot that is offered
        self.back = None              # the slot that comes back, since a cycle before
        self.parks_told = []          # QPNs of those of whom firmware is told as they come back,
        self.parks_due = []           # and of those of whom it was told before, or of their dropped packets
        self.reasons = Counter()      # why slots came back

    def drive_parks(self):
        """What hca_rx_park offers stays until it is taken."""
        bench, rng = self.bench, self.rng
        if self.park is None and self.parks and len(self.parked) < PARK_SLOTS and rng.random() < self.want_rate:
            self.park = rng.choice([slot for slot in range(PARK_SLOTS) if slot not in self.parked])
            self.parked[self.park] = self.parks.popleft()
            bench.set("park_i", PARK.pack(slot=self.park, qpn=self.parked[self.park]))
        bench.set("park_valid_i", self.park is not None)
        self.back_ready = self.draw("back")
        bench.set("back_ready_i", self.back_ready)

    def sample_parks(self):
        """A slot comes back when its QP has its line, or cannot have it now."""
        bench = self.bench
        if self.park is not None and bench.get("park_ready_o"):
            self.park = None
        if not bench.get("back_valid_o"):
            assert self.back is None, "a slot was withdrawn"
            return
        self.begun = True
        slot = bench.get("back_slot_o")
        assert self.back in (None, slot), "a slot changed"
        assert slot in self.parked and slot != self.park, f"slot {slot} has come back before, or never was"
        if self.back is None:
            self.reasons[self.reason(self.parked[slot])] += 1
        self.back = None if self.back_ready else slot
        if self.back_ready:
            del self.parked[slot]

    def reason(self, qpn):
        """Why it comes back now."""
        line = self.line(qpn)
        assert line.taken_by is None
        if line.qpn == qpn:
            assert self.rates["back"] < 0.1 or (not line.shut and not line.drain), "it would miss again"
            return "there"
        if qpn in self.parks_due:
            self.parks_due.remove(qpn)
            return "overdue"
        if line.may_rest and line.waited is not None and line.waited >= STAY_BUSY:
            self.parks_told.append(qpn)
            return "overdue"
        if not self.good(ASK, 0, qpn):
            return "bad"
        if self.bad_reads[qpn % (1 << INDEX_BITS)]:
            self.bad_reads[qpn % (1 << INDEX_BITS)] -= 1
            return "unread"
        assert line.qpn is not None and not line.may_rest, "it comes back, and nobody is in the way who stays"
        return "stays"
