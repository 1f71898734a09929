"""hca_sent between a model of the transmit path, in which datagrams and packets of unreliable connections leave or fail
in order, and a reader of messages that takes its time."""

from collections import deque

import cocotb
from common import Bench, Sink, Source, constants, simulate, struct
from hca_abi import WcStatus

SLOTS = constants()["AvSlots"]
MSG = struct("pipe_msg_t")
MSG_SQ_ERROR, MSG_SENT = 3, 8
QPNS = (0, 1, 2, 33, 700, 1023)
UNRELIABLE = (2, 700)  # of connections: no slots
MOST = 300             # of their packets under way
CONNECTION = 512       # a QP whose errors pass through, too
FENCE = 5 * SLOTS      # cycles after which all that was done is in the set: it takes one in two cycles, or in four
PSN_MASK = (1 << 24) - 1


class Reader(Sink):
    """As hca_rx_ctrl: never two messages in a row. Knows since when a message has been offered."""

    def __init__(self, bench, on_word):
        super().__init__(bench, "msg", on_word=on_word)
        self.pause, self.since = False, 0

    def drive(self):
        """Ready, but not behind a message."""
        super().drive()
        if self.pause:
            self.ready = False
            self.bench.set("msg_ready_i", 0)

    def sample(self):
        """The moment of the offer is that of its first cycle."""
        if self.held is None:
            self.since = self.bench.cycle
        count = len(self.got)
        super().sample()
        self.pause = len(self.got) > count


class Life:
    """One life of a line: its datagrams by PSN."""

    def __init__(self, rng):
        self.next = rng.choice((rng.getrandbits(15), PSN_MASK - 2))
        self.order = {}          # PSN: number
        self.failed = deque()    # numbers of errors not told yet
        self.newest = None       # PSN that has left last
        self.told = None


class Path:
    """Requester, gather and header stage: hands out datagrams while there are slots."""

    def __init__(self, dut, seed, rate=1.0, reader=1.0, fails=0.1):
        self.bench = bench = Bench(dut, seed)
        self.rng, self.rate, self.fails, self.busy = bench.rng, rate, fails, True
        self.qpns = QPNS
        self.lives = {qpn: Life(self.rng) for qpn in QPNS}
        self.under_way = deque()     # (qpn, psn) in order, or (None, error word)
        self.in_use, self.made, self.left = [0, 0], [0, 0], [0, 0]   # datagrams, packets of connections
        self.most = 0
        self.full, self.waits = False, 0
        self.lost_next = 0
        self.last_done = dict.fromkeys(QPNS, -FENCE)
        self.forgotten = {qpn: [] for qpn in QPNS}   # (cycle, PSNs not to be told any more)
        self.errors = deque()
        self.err = Source(bench, "err")
        self.err.on_accept = self._refused
        self.messages = dict.fromkeys(QPNS, 0)
        self.reader = Reader(bench, self._message)
        self.reader.rate = reader
        bench.agents.append(self)

    def drive(self):
        """One datagram in, one out."""
        bench, rng = self.bench, self.rng
        for name in ("done_i", "init_i"):
            bench.set(name, 0)
        bench.set("lost_i", self.lost_next)
        self.lost_next = 0
        for name in ("done_qpn_i", "init_qpn_i"):
            bench.set(name, rng.getrandbits(10))
        if self.busy and rng.random() < self.rate:
            self._make(rng.choice(self.qpns))
        self.waits += self.full
        if self.under_way and not self.full and self.err.idle() and rng.random() < self.rate:
            self._leave(*self.under_way.popleft())

    def _make(self, qpn):
        kind = int(qpn in UNRELIABLE)
        if self.in_use[kind] == (SLOTS, MOST)[kind]:
            return
        life = self.lives[qpn]
        life.order[life.next] = len(life.order)
        self.under_way.append((qpn, life.next))
        life.next = life.next + 1 & PSN_MASK
        self.in_use[kind] += 1
        self.made[kind] += 1
        self.most = max(self.most, self.in_use[0])
        if self.rng.random() < self.fails / 2:
            self.under_way.append((None, MSG.random(self.rng, kind=MSG_SQ_ERROR, qpn=CONNECTION)))

    def _leave(self, qpn, psn):
        if qpn is None:
            self.errors.append((psn, None, None))
            self.err.put(psn)
        elif self.rng.random() < self.fails:
            life = self.lives[qpn]
            life.failed.append(life.order[psn])
            word = MSG.pack(kind=MSG_SQ_ERROR, qpn=qpn, wqe_index=psn & 0xFFFF, status=WcStatus.LOC_PROT_ERR,
                            syndrome=self.rng.getrandbits(8))
            self.errors.append((word, life, life.order[psn]))
            self.err.put(word)
        else:
            self.lives[qpn].newest = psn
            self.last_done[qpn] = self.bench.cycle
            for name, value in (("done_i", 1 << (qpn in UNRELIABLE)), ("done_qpn_i", qpn), ("done_psn_i", psn)):
                self.bench.set(name, value)

    def _refused(self, word):
        qpn = MSG.unpack(word)["qpn"]
        self.lost_next = 0 if qpn == CONNECTION else 1 << (qpn in UNRELIABLE)

    def sample(self):
        """Slots come back."""
        self.full = self.bench.get("full_o")
        for kind in (0, 1):
            if self.bench.get("left_o") >> kind & 1:
                self.left[kind] += 1
                self.in_use[kind] -= 1
                assert self.in_use[kind] >= 0, "it came back twice"

    def _message(self, word):
        fields = MSG.unpack(word)
        if fields["kind"] != MSG_SENT:
            want, life, number = self.errors.popleft()
            assert word == want, "errors pass as they are, in order"
            if life is not None:
                assert life.failed.popleft() == number
            return
        qpn, psn = fields["qpn"], fields["status"] << 16 | fields["wqe_index"]
        assert fields["syndrome"] == 0
        self.messages[qpn] += 1
        if psn not in self.lives[qpn].order:
            # What was looked up before, or in the cycle of the wipe, is offered and stays.
            before = [cycle for cycle, order in self.forgotten[qpn] if psn in order]
            assert before and self.reader.since <= before[0] + 4, "told what its predecessor had sent"
            return
        life = self.lives[qpn]
        number = life.order[psn]
        assert life.told is None or life.told < number, "told twice, or backwards"
        assert all(failed > number for failed in life.failed), "an error was overtaken"
        life.told = number

    async def init(self, qpn):
        """The QP begins anew; all of its datagrams have left long ago."""
        old = self.lives[qpn]
        self.lives[qpn] = Life(self.rng)
        # None of its PSNs is one of theirs: a message says whose it is.
        self.lives[qpn].next = (len(self.forgotten[qpn]) + 1) << 16 | self.rng.getrandbits(15)
        self.forgotten[qpn].append((self.bench.cycle, old.order))
        # Driven behind drive(): for this very cycle.
        self.bench.agents.append(Strobe(self.bench, qpn))
        await self.bench.step()
        self.bench.agents.pop()
        await self.bench.step(4)

    def settled(self):
        """Everything was told."""
        newest = all(life.newest is None or life.told == life.order[life.newest] for life in self.lives.values())
        return not self.under_way and self.err.idle() and not self.errors and newest and not any(self.in_use)

    async def finish(self):
        """All datagrams are told, all slots are free, nothing else comes."""
        self.busy = False
        self.reader.rate = max(self.reader.rate, 0.3)
        await self.bench.until(self.settled, 5000, "everything is told")
        count = len(self.reader.got)
        await self.bench.step(200)
        assert self.left == self.made and len(self.reader.got) == count


class Strobe:
    """init_i for a cycle."""

    def __init__(self, bench, qpn):
        self.bench, self.qpn = bench, qpn

    def drive(self):
        """The strobe."""
        self.bench.set("init_i", 1)
        self.bench.set("init_qpn_i", self.qpn)

    def sample(self):
        """Nothing to see."""


@cocotb.test()
@cocotb.parametrize(rate=[1.0, 0.3], reader=[1.0, 0.3, 0.03], fails=[0.0, 0.2])
async def everything_is_told(dut, rate, reader, fails):
    """Every datagram is told at last, the newest of each QP, behind the errors before it; each slot comes back once."""
    path = Path(dut, 1, rate, reader, fails)
    await path.bench.start()
    for _ in range(6):
        path.busy = True
        path.qpns = path.rng.sample(QPNS, path.rng.randint(1, len(QPNS)))
        await path.bench.step(path.rng.choice((50, 300, 700)))
        if path.rng.random() < 0.5:
            await path.finish()
            path.reader.rate = reader
    await path.finish()


@cocotb.test()
async def all_slots(dut):
    """A reader that does not take anything: slots come back all the same, and the header stage goes on; then every QP
    is told once, its newest. It waits only for the set, which takes one in two cycles."""
    path = Path(dut, 2, reader=0.0, fails=0.0)
    await path.bench.start()
    await path.bench.step(1500)
    assert path.made[0] > 3 * SLOTS and path.made[1] > SLOTS and path.waits
    path.busy = False
    await path.bench.until(lambda: not any(path.in_use), 5000, "all slots are free")
    await path.finish()
    # One of them was on offer all the time, with what was the newest then.
    assert sum(path.messages.values()) <= len(QPNS) + 1
    # A burst of as many as there are slots.
    path.rate, path.busy = 0.0, True
    for _ in range(SLOTS):
        path._make(path.rng.choice([qpn for qpn in QPNS if qpn not in UNRELIABLE]))
    path.busy, path.rate = False, 1.0
    await path.finish()
    assert path.most == SLOTS


@cocotb.test()
@cocotb.parametrize(rate=[1.0, 0.5], reader=[0.5, 0.02, 0.005])
async def new_lives(dut, rate, reader):
    """A QP that begins anew is not told what its predecessor sent, which still waits in the set; its own datagrams are
    told."""
    path = Path(dut, 3, rate, reader, 0.01)
    await path.bench.start()
    for _ in range(60):
        path.busy = True
        path.qpns = path.rng.sample(QPNS, 3)
        await path.bench.step(path.rng.choice((5, 40, 100)))
        # Another QP's datagrams go on beside it.
        rest = [qpn for qpn in QPNS if qpn not in path.qpns]
        path.qpns = rest[:1]
        await path.bench.until(lambda: not any(q not in (None, *rest[:1]) for q, _ in path.under_way)
                               and not any(life and life is not path.lives[rest[0]] for _, life, _ in path.errors),
                               60000, "all have left")
        await path.bench.step(FENCE)
        for qpn in path.rng.sample([q for q in QPNS if q != rest[0]], 2):
            assert not path.lives[qpn].failed
            await path.init(qpn)
        path.qpns = path.rng.sample(QPNS, 3)
    await path.finish()


def test_sent():
    """Runs the tests of this file."""
    simulate("hca_sent", "test_sent")
