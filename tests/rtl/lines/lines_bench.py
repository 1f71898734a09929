"""Everything around hca_lines, in Python: context memory behind read and write ports, the door with its doorbells, a
fence over what these have begun, hca_rx_ctrl that says when a QP is quiet, the other takers of contexts, and who has
which line. What must hold in every cycle is checked here, and that every want ends, once (decision 0082)."""

from collections import Counter, deque

from lines_defs import (ASK, BASE, CFG, DOOR, HINT, INDEX_BITS, LINE_BITS, OLD, QPC, QPC_WR, RECORD, RTS, RX_CTRL, SHUT,
                        SINKS, STAY, WANT)
from lines_memory import MemoryPorts
from lines_parks import Parks
from lines_wants import Wants

from common import Bench

ALL = {"req": 1, "rsp": 1, "wr": 1, "ev": 1, "again": 1, "look": 1, "sink": 1, "item": 1, "door": 1,
       "back": 1}


class Line:
    """One line: who has it, its door, and what is under way of who had it."""

    def __init__(self):
        self.qpn = self.taken_by = None
        self.may_rest, self.since = True, 0
        self.shut, self.drain = False, False    # how far its doors are shut
        self.cleared = False                    # no doorbell from before is in the door
        self.handed = False                     # its doors open soon
        self.fenced = None                      # the fence that covers it, or True: it is over
        self.old = 0                            # what hca_rx_ctrl knows of who has it
        self.quiet = None                       # the answer to the last look at it since it drains
        self.drains_for = 0                     # cycles; not those in which hardware may not go on
        self.waited = None                      # for so long it drained, until its doors were opened


class Lines(MemoryPorts, Parks, Wants):
    """Bench and model; one agent of the bench."""

    def __init__(self, dut, seed, rates=None, quiet=0.8, errors=0.0, now_step=64):
        self.bench = Bench(dut, seed)
        self.rng = self.bench.rng
        self.bench.agents.append(self)
        self.rates = {**ALL, **(rates or {})}
        self.quiet, self.errors, self.now_step = quiet, errors, now_step
        self.offers_quiet = None      # at the hand-over, if that is another rate
        self.latency, self.knock_rate = (2, 60), 0.4
        # A read that waits costs a turn, and so does a hand-over that is refused.
        self.drain_limit = 12000 if self.rates["req"] < 0.5 else 6000 if quiet < 0.7 else 3000
        self.memory, self.funcs = {}, {}
        self.wants = deque()          # of doorbells and packets, to be offered
        self.serial = 0               # of the newest one at random
        self.want_rate, self.careless = 0.3, False   # careless: packets come before the last one is in the queue
        self.forget()

    def forget(self):
        """As behind a reset; context memory stays."""
        self.lines = {}
        self.cfg = {"enable": 1, "index_bits": INDEX_BITS, "base": BASE}
        self.records, self.record_line = deque(), None
        self.doorbells, self.asks, self.fills = set(), Counter(), {}
        self.stuck, self.filled, self.expect_filled = deque(), [], deque()
        self.refused, self.lost, self.bad_reads = [], Counter(), Counter()
        self.reads, self.writes, self.write_beat = deque(), deque(), 0
        self.swap, self.swaps, self.refusals, self.read_count, self.looks = None, 0, 0, 0, 0
        self.drains, self.longest = 0, 0
        self.look, self.seen_look, self.seen_offer = None, False, False
        self.hints = deque([(None, False)] * 3, 3)   # a cycle each: which line rests, and that nobody rings it
        self.hint_of = None
        self.pkt = self.last = None   # the packet that may not be in the queue yet; the newest one
        self.ev = self.again = None
        self.door, self.leaves, self.knock = None, False, None
        self.items, self.fence, self.fences = [], None, 0
        self.spoiled = {}             # line: in which cycle firmware changed it
        self.set_new = self.swapped = None
        self.quiet_since = 0
        self.held = 0
        self.forget_parks()

    # ---- Setting up ----------------------------------------------------------------------------------
    async def start(self, qpns=()):
        """Resets, and waits until all lines are known to be free."""
        for qpn in qpns:
            self.create(qpn)
        await self.bench.start()
        self.bench.set("cfg_i", CFG.pack(**self.cfg))
        await self.bench.step((1 << LINE_BITS) + 8)
        return self

    async def reset(self):
        """Reset in the middle: nothing of before is left but context memory."""
        self.bench.set("rst_i", 1)
        self.forget()
        for port in ("db_valid_i", "pkt_valid_i", "record_valid_i", "rd_rsp_valid_i", "again_ready_i", "look_done_i",
                     "park_valid_i", "back_ready_i", "qpc_ready_i", "fence_busy_i", "door_free_i"):
            self.bench.set(port, 0)
        self.bench.agents.remove(self)
        await self.bench.step(3)
        self.bench.agents.append(self)
        self.bench.set("rst_i", 0)
        self.bench.set("cfg_i", CFG.pack(**self.cfg))
        await self.bench.step((1 << LINE_BITS) + 8)

    def create(self, qpn, state=RTS, func=None):
        """A QP that rests."""
        func = self.rng.randrange(4) if func is None else func
        self.funcs[qpn] = func
        self.memory[qpn % (1 << INDEX_BITS)] = QPC.random(self.rng, qpn=qpn, func=func, state=state)

    def line(self, qpn):
        """The line that a QPN names."""
        return self.lines.setdefault(qpn % (1 << LINE_BITS), Line())

    def now(self):
        """In units of 256 cycles, as far as hca_lines keeps them."""
        return (self.bench.cycle * self.now_step >> 8) % 4096

    def stayed(self, line):
        """How long its holder has had it."""
        return (self.now() - line.since) % 4096

    def configure(self, **values):
        """Changes what registers say."""
        self.cfg.update(values)
        self.bench.set("cfg_i", CFG.pack(**self.cfg))

    # ---- Inputs --------------------------------------------------------------------------------------
    def draw(self, name):
        """Whether it comes about in this cycle."""
        rate = self.rates[name]
        return rate >= 1 or self.rng.random() < rate

    def drive(self):
        bench, rng = self.bench, self.rng
        if bench.cycle % 4 == 0:
            bench.set("now_i", bench.cycle * self.now_step)
        # Who misses: a doorbell is offered in one cycle, and then gone.
        want = None
        waits = self.wants and self.wants[0][0] == ASK and self.pkt and not self.careless
        if self.wants and rng.random() < self.want_rate and not waits:
            want = self.wants.popleft()
        self.db = want if want and want[0] != ASK else None
        self.asked = want[2] if want and want[0] == ASK else None
        bench.set("db_valid_i", self.db is not None)
        if self.db:
            bench.set("db_i", WANT.pack(**dict(zip(("kind", "func", "qpn", "pi"), self.db, strict=True))))
        bench.set("pkt_valid_i", self.asked is not None)
        if self.asked is not None:
            bench.set("pkt_qpn_i", self.asked)
        self.drive_parks()
        # The door. A doorbell comes when it is free.
        self.leaves = self.door is not None and self.draw("door")
        bench.set("door_free_i", self.door is None or self.leaves)
        self.knock = None
        if (self.door is None or self.leaves) and self.lines and rng.random() < self.knock_rate:
            self.knock = rng.choice(list(self.lines))
        bench.set("again_ready_i", self.knock is None and (self.door is None or self.leaves) and self.draw("again"))
        # What is known of the line of a cycle ago, and what hca_rx_ctrl answers when it has seen itself asked.
        rests = self.quiet_now(self.hint_of, self.quiet * 0.8)
        bench.set("look_hint_i", HINT.pack(rests=rests, ask=rests or rng.random() < 0.5))
        self.hints.append((self.hint_of, rests and self.hint_cleared))
        ready = self.seen_offer and self.draw("look")
        done = self.seen_look and not ready and self.draw("look")
        self.is_quiet = self.quiet_now(self.look[0] if done else self.swap_line if ready else None,
                                       self.quiet if done or self.offers_quiet is None else self.offers_quiet)
        bench.set("look_done_i", done)
        bench.set("quiet_i", self.is_quiet if done or ready else rng.getrandbits(1))
        sinks = 0
        for sink in range(SINKS):
            if sink != RX_CTRL and self.draw("sink"):
                sinks |= 1 << sink
        self.ready = sinks | ready << RX_CTRL
        bench.set("qpc_ready_i", self.ready)
        if ready:
            bench.set("old_i", self.lines[self.swap_line].old)
        bench.set("fence_busy_i", bool(self.fence))
        # Memory.
        self.req_ready, self.wr_ready, self.ev_ready = self.draw("req"), self.draw("wr"), self.draw("ev")
        bench.set("rd_req_ready_i", self.req_ready)
        bench.set("wr_ready_i", self.wr_ready)
        bench.set("ev_ready_i", self.ev_ready)
        self.answer()
        bench.set("record_valid_i", bool(self.records))
        if self.records:
            bench.set("record_i", RECORD.pack(**self.records[0]))

    def quiet_now(self, number, rate):
        """What hca_rx_ctrl says: who has been rung for has something to do; so has one now and then, for once."""
        if number is None:
            return False
        if self.line(number).qpn is None:
            return True
        return self.rng.random() < rate and not any(item[0] == number for item in self.items)

    # ---- Outputs -------------------------------------------------------------------------------------
    def sample(self):
        get = self.bench.get
        self.begun = False
        self.sample_wants()
        self.sample_parks()
        self.sample_again()
        self.sample_door()
        self.sample_look()
        self.hint_of = self.bench.get("look_line_o")
        self.hint_cleared = self.line(self.hint_of).cleared
        self.sample_memory()
        self.sample_swap()
        self.sample_strobe()
        self.sample_events()
        self.sample_firmware()
        self.sample_drains()
        if get("held_o"):
            self.held += 1
            assert self.cfg.get("hold"), "held, and nobody asked"
            assert not self.begun, "something begins, or goes on, while held"
        else:
            self.held = 0
        if self.begun:
            self.quiet_since = self.bench.cycle

    def sample_door(self):
        """Doorbells pass the door or miss, by what it says before this cycle's changes."""
        if self.door is not None:
            if self.leaves:
                if self.door[1] is not None:
                    self.items.append(self.door)
                self.door = None
        if self.knock is not None:
            line = self.lines[self.knock]
            hits = line.qpn is not None and not line.shut and not line.drain
            self.door = (self.knock, line.qpn if hits else None)
        elif self.bench.get("again_valid_o") and self.bench.get("again_ready_i"):
            qpn = WANT.unpack(self.bench.get("again_o"))["qpn"]
            line = self.line(qpn)
            hits = line.qpn == qpn and line.taken_by is None and not line.shut and not line.drain
            self.door = (qpn % (1 << LINE_BITS), qpn if hits else None)
        # What a doorbell has begun is over some time later.
        if self.items and self.rng.random() < self.rates["item"] * len(self.items) / 4:
            self.items.pop(self.rng.randrange(len(self.items)))
        if self.fence is not None:
            self.fence = [item for item in self.fence if any(item is other for other in self.items)]
            if not self.fence:
                self.fence = None
                for line in self.lines.values():
                    if line.fenced == self.fences:
                        line.fenced = True
        if self.bench.get("fence_start_o"):
            assert self.fence is None, "a fence within a fence"
            self.fences += 1
            self.fence = list(self.items) or None
            for line in self.lines.values():
                if line.shut and line.cleared and line.fenced is None:
                    line.fenced = self.fences if self.fence else True
        if self.bench.get("door_free_i"):
            for line in self.lines.values():
                line.cleared = line.shut or line.drain

    def sample_strobe(self):
        """Doors change; behind a hand-over in the cycle in which the last column has the context, or later."""
        word = self.bench.get("shut_o")
        if word & SHUT.pack(valid=1):
            change = SHUT.unpack(word)
            self.doors(change["line"], change["drain"], change["shut"])

    def doors(self, number, drain, shut):
        """A strobe: a line begins to drain, its doors are shut, its holder refuses (drain again), or they open."""
        line = self.line(number)
        assert line.taken_by is None, "doors change during a hand-over"
        self.begun = self.begun or bool(shut)
        if line.handed:
            assert not drain and not shut, "behind a hand-over the doors open"
            line.handed = False
        elif shut:
            assert drain and not line.shut
            rests = self.hints[0] == (number, True)
            assert line.qpn is None or (line.drain and (line.quiet or rests)), "shut, and it was not said that it rests"
        elif drain and not line.shut:
            assert not line.drain and line.qpn is not None and line.may_rest, "nobody drains, or one that stays"
            assert self.stayed(line) >= STAY, "it has just come"
            self.begun, line.since, line.drains_for = True, self.now(), 0
            self.drains += 1
        elif drain:
            assert line.drain and self.refusals, "nobody has refused"
        else:
            line.waited, line.since = self.stayed(line), self.now()
        if not line.shut or not drain:
            line.cleared = False
        line.drain, line.shut, line.fenced = bool(drain) and line.qpn is not None, bool(shut), None
        if not shut:
            line.quiet = None

    def sample_drains(self):
        """A line whose doors are shut, wholly or not, is waited for by somebody, and not for long."""
        if self.cfg.get("hold") or self.ev is not None:
            return
        for number, line in self.lines.items():
            if not line.drain and not line.shut:
                continue
            line.drains_for += 1
            self.longest = max(self.longest, line.drains_for)
            assert line.drains_for < self.drain_limit, f"line {number} drains and drains"

    def sample_look(self):
        """Looks: only at a holder that may go and has had its time, and for the peer of who has its line."""
        valid = self.bench.get("look_valid_o")
        done = self.bench.get("look_done_i")
        if not valid:
            assert self.look is None, "a look was withdrawn"
            self.seen_look = False
            return
        self.begun = True
        look = (self.bench.get("look_line_o"), self.bench.get("look_asks_o"))
        assert self.look in (None, look), "a look changed"
        line = self.line(look[0])
        assert line.taken_by is None
        if not look[1] and self.look is None:
            assert line.drain and not line.shut, "a look at one that gets doorbells"
            assert line.cleared, "a look while a doorbell from before is in the door"
        self.look, self.seen_look = (None, False) if done else (look, True)
        self.looks += done
        if not done:
            return
        if look[1]:
            assert not line.shut and not line.drain and self.asks[line.qpn] > 0, "a peer is asked that had not sent"
            self.asks[line.qpn] -= 1
        else:
            line.quiet = self.is_quiet

    def sample_swap(self):
        """Context writes: hca_rx_ctrl first, the door last; the context is that in memory, all is fenced."""
        valid = self.bench.get("qpc_valid_o")
        if not valid:
            assert self.swap is None, "a context write was withdrawn"
            self.seen_offer = False
            return
        self.begun = True
        if self.swap is None:
            assert valid == 1 << RX_CTRL, "hca_rx_ctrl comes first"
            self.offered(self.bench.get("qpc_o"))
        line = self.lines[self.swap_line]
        assert self.bench.get("qpc_o") == self.swap, "a context write changed"
        taken = valid & self.ready
        if valid >> RX_CTRL & 1:
            assert valid == 1 << RX_CTRL and line.taken_by is None
            if not taken:
                self.seen_offer = True
                return
            self.seen_offer = False
            if not self.is_quiet:
                self.swap, self.refusals = None, self.refusals + 1
                return
            self.pending = (1 << SINKS) - 1 - (1 << RX_CTRL)
            if line.qpn is not None:
                old = OLD.unpack(line.old) | {"has_record": 1}
                self.writes.append((line.qpn % (1 << INDEX_BITS), 2, OLD.pack(**old) << 1024, 4))
            line.taken_by = QPC.unpack(QPC_WR.unpack(self.swap)["qpc"])["qpn"]
            return
        assert line.taken_by is not None, "hca_rx_ctrl was not asked"
        assert valid & ~self.pending == 0, "a context write comes twice"
        if valid >> DOOR & 1:
            assert self.pending == 1 << DOOR, "the door is last"
        else:
            assert valid == self.pending & ~(1 << DOOR)
        self.pending &= ~taken
        if not self.pending:
            self.handed_over(line)

    def offered(self, word):
        """Whether this may be handed over now."""
        write = QPC_WR.unpack(word)
        qpc = QPC.unpack(write["qpc"])
        number, qpn = write["qpn"], qpc["qpn"]
        line = self.line(qpn)
        assert (write["swap"], write["init_sq"], write["init_rq"]) == (1, 1, 1)
        assert number == qpn % (1 << LINE_BITS), "a line that is not its own"
        assert line.qpn != qpn, "it has its line"
        assert line.qpn is None or line.may_rest, "who has it stays"
        memory = QPC.unpack(self.memory[qpn % (1 << INDEX_BITS)])
        memory |= {"restores": memory["has_record"], "asks_again": 0, "is_shut": 0}
        assert qpc == memory, "this is not what context memory has"
        assert line.shut and line.fenced is True, "before its fence has ended"
        assert not any(item[0] == number for item in self.items), "something is under way of who had it"
        assert self.door is None or self.door[0] != number or self.door[1] is None, "a doorbell is in the door"
        assert len(self.writes) <= 1, "before writes to context memory"
        assert self.wanted(qpn), f"nobody wants {qpn:#x}"
        self.swap, self.swap_line = word, number

    def handed_over(self, line):
        """Everybody has it."""
        self.swap, self.swaps = None, self.swaps + 1
        qpc = QPC.unpack(QPC_WR.unpack(self.bench.get("qpc_o"))["qpc"])
        filled = qpc["state"] in (4, 5, 6)
        self.takes_line(line, line.taken_by, not filled)
        line.shut = line.handed = True
        if filled:
            self.expect_filled.append(line.qpn)

    def takes_line(self, line, qpn, may_rest):
        """Hardware or firmware has given it away."""
        assert sum(other.qpn == qpn for other in self.lines.values() if other is not line) == 0
        line.qpn, line.taken_by, line.may_rest = qpn, None, may_rest
        line.shut, line.drain, line.fenced, line.since, line.quiet = False, False, None, self.now(), None
        line.handed = False
        line.old = self.rng.getrandbits(OLD.width)
        for fill in self.fills:
            if fill[2] == qpn:
                self.fills[fill] = True

    def sample_firmware(self):
        """Records that are taken, and what a change of firmware's does: doors of its line are open again."""
        for number, cycle in list(self.spoiled.items()):
            if self.bench.cycle >= cycle + 3:
                del self.spoiled[number]
                line = self.lines[number]
                assert not line.shut and not line.drain, "firmware has changed the line, and its door is shut"
        if self.records and self.bench.get("record_ready_o"):
            record = self.records.popleft()
            index = record["index"] % (1 << INDEX_BITS)
            self.writes.append((index, 0, record["qpc"], 4 if record["whole"] else 2))
            self.changed(record["index"])

    def changed(self, qpn):
        """Firmware has changed the line of a QP, or what rests of it."""
        self.spoiled[qpn % (1 << LINE_BITS)] = self.bench.cycle
        self.line(qpn)

