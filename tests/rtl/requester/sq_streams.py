"""Streams into hca_requester that keep an order among each other."""

from common import Source


class AfterContext(Source):
    """A stream that waits while context writes are queued: firmware creates a QP before anybody uses it."""

    def may_offer(self):
        """The next word may come."""
        return self.bench.qpc.idle()

    def drive(self):
        """Holds its tongue until then."""
        if not self.offered and self.queue and not self.may_offer():
            self.shown = False
            self.bench.set(f"{self.name}_valid_i", 0)
        else:
            super().drive()


class Doorbells(AfterContext):
    """A program rings for what it had room for: behind the acknowledges that made the room."""

    def put(self, *words):
        """Behind all acknowledges queued until now."""
        ack = self.bench.ack
        self.queue.extend((word, len(ack.taken) + len(ack.queue)) for word in words)

    def may_offer(self):
        """They are taken."""
        if isinstance(self.queue[0], tuple) and len(self.bench.ack.taken) >= self.queue[0][1]:
            self.queue[0] = self.queue[0][0]
        return super().may_offer() and not isinstance(self.queue[0], tuple)
