"""hca_rx_ctrl and the send queues of datagrams: what has left completes in order; a local error stops the send side
alone, which is flushed in SQE and goes on in RTS. A model of the transmit path beside it, and receivers that know
nothing of it."""

from collections import deque

import cocotb
from common import simulate, struct
from hca_abi import HwEventKind, HwEventWho, QpState, Service, WcOpcode, WcStatus, WrOpcode
from rx_bench import (MSG_FLUSH_RQ, MSG_FLUSH_SQ, MSG_SQ_DRAIN, MSG_SQ_ERROR, PSN_MASK, WQE_MASK, Env, Qp)

MSG_SENT = 8
QKEY, RING = 0x77, 64
FLUSHED, OK = WcStatus.WR_FLUSH_ERR, WcStatus.SUCCESS
ERRORS = (WcStatus.LOC_LEN_ERR, WcStatus.LOC_PROT_ERR, WcStatus.LOC_QP_OP_ERR)


class Sender:
    """A QP of datagrams: program, requester, gather and header stage; checks each completion as it comes."""

    def __init__(self, env, line, **fields):
        self.env, self.rng = env, env.rng
        self.qp = Qp(line, service=Service.UD, qkey=QKEY, sq_log_size=6, **fields)
        self.qp.fields["qpn"] = env.rng.getrandbits(14) << 10 | line
        self.chance = 0.0            # of a local error
        self.counts = dict.fromkeys(("ok", "error", "flush", "resume", "life", "receive"), 0)

    async def begin(self):
        """A new life."""
        self.qp.fields["sq_psn"] = self.rng.choice((self.rng.getrandbits(24), PSN_MASK - 3))
        await self.env.context(self.qp, state=QpState.RESET)
        await self.env.context(self.qp, state=QpState.RTS, init_sq=1, init_rq=1)
        self.posted = self.done = self.una = 0
        self.rq_posted = self.rq_done = 0
        self.wqes = {}               # index: (signaled, length)
        self._run(0, self.qp.fields["sq_psn"])
        self.counts["life"] += 1

    def _run(self, wqe, psn):
        """The requester begins at a WQE, with a PSN."""
        self.first, self.first_psn, self.next = wqe, psn, wqe
        self.flying = deque()        # (cycle, WQE): on its way to the gather
        self.left, self.errors, self.failed, self.halted = set(), {}, None, False
        self.untold = None

    def psn(self, wqe):
        """Each takes one."""
        return self.first_psn + wqe - self.first & PSN_MASK

    def message(self, source, kind, index=0, status=0):
        """A message, some time."""
        self.env.msgs[source].put(struct("pipe_msg_t").pack(kind=kind, qpn=self.qp.qpn, wqe_index=index & WQE_MASK,
                                                            status=status))

    async def post(self, count):
        """WQEs; in SQE (and in ERR) the doorbell asks for a flush."""
        count = min(count, RING - (self.posted - min(self.una, self.done)))
        for _ in range(count):
            self.wqes[self.posted] = (self.rng.random() < 0.7, self.rng.randint(0, 256))
            self.posted += 1
        await self.env.doorbell(self.qp, sq=self.posted)
        if self.qp.fields["state"] in (QpState.SQE, QpState.ERR):
            self.message("doorbell", MSG_FLUSH_SQ, self.posted)

    def emit(self):
        """The requester's next packet, or what it finds wrong with its WQE."""
        if self.halted or self.next == self.posted or self.qp.fields["state"] != QpState.RTS:
            return
        wqe = self.next
        if self.rng.random() < self.chance / 2:
            self.errors[wqe] = self.rng.choice(ERRORS)
            self.message("requester", MSG_SQ_ERROR, wqe, self.errors[wqe])
            self.halted = True
            return
        self.next += 1
        signaled, length = self.wqes[wqe]
        psn = self.psn(wqe)
        self.env.omt.put(struct("omt_wr_t").pack(
            first=1, qpn=self.qp.qpn, wqe_index=wqe & WQE_MASK, opcode=self.rng.choice((WrOpcode.SEND, 3)),
            signaled=signaled, last_psn=psn, next_psn=psn + 1 & PSN_MASK, len_bytes=length))
        # Its record goes ahead of it.
        self.flying.append((self.env.bench.cycle + 20 + self.rng.randrange(60), wqe))

    def gather(self):
        """Packets leave, or fail; the newest is told now and then, behind the errors before it."""
        while self.flying and self.flying[0][0] <= self.env.bench.cycle and self.env.omt.idle():
            wqe = self.flying.popleft()[1]
            if self.rng.random() < self.chance:
                self.errors[wqe] = self.rng.choice(ERRORS)
                self.message("gather", MSG_SQ_ERROR, wqe, self.errors[wqe])
            else:
                self.left.add(wqe)
                self.untold = self.psn(wqe)
        if self.untold is not None and self.rng.random() < 0.3:
            self.message("gather", MSG_SENT, self.untold & 0xFFFF, self.untold >> 16)
            self.untold = None

    def complete(self, cqe):
        """A completion of the send queue."""
        index, status = self.done + (cqe["wqe_index"] - self.done & 0xFFFF), cqe["status"]
        assert (cqe["cqn"], cqe["qpn"]) == (self.qp.fields["send_cqn"], self.qp.fields["qpn"])
        assert index < self.posted, "a completion of nothing"
        for silent in range(self.done, index):
            assert silent in self.left and not self.wqes[silent][0] and self.failed is None, (silent, index)
        self.done = index + 1
        if status == OK:
            self.counts["ok"] += 1
            assert self.failed is None and index in self.left and self.wqes[index][0]
            assert (cqe["opcode"], cqe["byte_len"]) == (WcOpcode.SEND, self.wqes[index][1])
        elif status == FLUSHED:
            self.counts["flush"] += 1
            assert self.failed is not None or self.qp.fields["state"] == QpState.ERR
        else:
            self.counts["error"] += 1
            assert self.failed is None and self.errors[index] == status and index == min(self.errors)
            self.failed = index

    def update(self, upd):
        """Progress, a halt, or where to go on."""
        assert not upd["rewind"] or self.resuming, "nobody goes back"
        if upd["halt"]:
            self.halted = True
        self.una = self.una + (upd["una_wqe"] - self.una & WQE_MASK)

    resuming = False

    async def error(self):
        """Firmware, told of the error: SQE, and a flush of the send queue."""
        await self.env.bench.until(lambda: self.env.omt.idle(), what="records")
        await self.env.context(self.qp, state=QpState.SQE)
        self.message("mgmt", MSG_FLUSH_SQ)

    def quiet(self):
        """Nothing of the old life is under way."""
        return not self.flying and self.untold is None and all(source.idle() for source in self.env.msgs.values())

    async def resume(self, look):
        """The program modifies to RTS: the requester goes on where the flush has come to, with a PSN not used yet."""
        psn = self.psn(self.next)  # not used yet: what has left may still be told of
        await self.env.bench.step(10)
        self.resuming, before = True, len(self.env.upd.got)
        await self.env.context(self.qp, state=QpState.RTS)
        await self.env.bench.until(lambda: len(self.env.upd.got) > before, 200, "the requester is told")
        upds = [struct("ack_upd_t").unpack(word) for word in self.env.upd.got[before:]]
        upd = next(upd for upd in upds if upd["qpn"] == self.qp.qpn)
        for _ in range(20):          # completions may still be in their queue
            await self.env.bench.step(20)
            look()
        assert upd["rewind"] and not upd["halt"]
        assert upd["una_psn"] == upd["una_first_psn"] == psn, "the next PSN is behind all that were used"
        assert upd["una_wqe"] == self.done & WQE_MASK, "behind all that was flushed"
        self._run(self.done, psn)
        self.resuming = False
        self.counts["resume"] += 1

    # ---- The receive side, which knows nothing of all this -----------------------------------------------
    async def receive(self, count):
        """Datagrams come in; there are WQEs for them."""
        self.rq_posted += count
        await self.env.doorbell(self.qp, rq=self.rq_posted)
        for _ in range(count):
            self.env.rxd.put(self.env.packet(self.qp, 0x64, self.rng.getrandbits(24), 8, deth_qkey=QKEY,
                                             dest_qpn=self.qp.fields["qpn"]))

    def received(self, cqe):
        """All of them are taken, in every state but ERR."""
        assert cqe["wqe_index"] == self.rq_done & 0xFFFF
        assert cqe["status"] == (FLUSHED if self.qp.fields["state"] == QpState.ERR else OK)
        self.rq_done += 1
        self.counts["receive"] += 1


class World:
    """Some senders, and the news sorted by them."""

    def __init__(self, env, senders):
        self.env, self.rng = env, env.rng
        self.senders = {sender.qp.qpn: sender for sender in senders}
        self.events = {line: [] for line in self.senders}

    def look(self):
        """Takes the news."""
        out = self.env.news()
        for item in out.rxw:
            cqe, sender = item["cqe"], self.senders[item["qpn"]]
            # What completes by a message owns no packet.
            assert not item["rsp"]["valid"] and bool(item["frees"]) == (item["kind"] != 0), item
            if cqe["valid"]:
                (sender.received if cqe["opcode"] == WcOpcode.RECV else sender.complete)(cqe)
        for upd in out.upd:
            self.senders[upd["qpn"]].update(upd)
        for event in out.ev:
            self.events[event["id"]].append(event)

    async def step(self, cycles):
        """Time passes."""
        for _ in range(cycles):
            await self.env.bench.step()
            for sender in self.senders.values():
                sender.gather()

    async def settle(self, done, limit=6000):
        """Until something holds of all."""
        for _ in range(limit // 20):
            self.look()
            if done():
                return
            await self.step(20)
        raise AssertionError("it does not come to an end")

    def handled(self, line):
        """The one event of an error."""
        events, sender = self.events[line], self.senders[line]
        if not events:
            return False
        event = events.pop()
        assert not events and event["kind"] == HwEventKind.QP_ERROR and event["who"] == HwEventWho.REQUESTER
        assert event["status"] in sender.errors.values()
        return True


async def turn(world, sender, chance):
    """One QP: WQEs and datagrams, perhaps an error, SQE, doorbells there, and RTS again."""
    rng = world.rng
    sender.chance = chance
    await sender.post(rng.randint(0, 20))
    await sender.receive(rng.randint(0, 4))
    for _ in range(rng.randint(5, 60)):
        sender.emit()
        await world.step(rng.choice((1, 3, 10)))
        world.look()
        if rng.random() < 0.05:
            await sender.post(rng.randint(0, 5))
    line = sender.qp.qpn
    if not sender.errors:
        return
    await world.settle(lambda: world.events[line])
    await sender.receive(2)          # dead for packets to send, not for those that come
    if rng.random() < 0.5:
        await sender.post(rng.randint(1, 5))
    sender.halted = True
    await sender.error()
    assert world.handled(line)
    await sender.receive(rng.randint(0, 3))
    patient = rng.random() < 0.7
    if patient:
        for _ in range(rng.randint(0, 3)):
            await sender.post(rng.randint(0, 4))
            await world.step(rng.choice((1, 30)))
        await world.settle(lambda: sender.done == sender.posted)
    await world.settle(sender.quiet)
    await world.settle(lambda: sender.rq_done == sender.rq_posted)
    assert sender.failed is not None and not world.events[line]
    await sender.resume(world.look)


async def end(world, sender):
    """ERR: both queues are flushed; all was completed once. Then a new life."""
    sender.chance = 0.0
    sender.halted = True
    await world.settle(lambda: world.env.omt.idle() and world.env.rxd.idle() and sender.rq_done == sender.rq_posted)
    await world.env.context(sender.qp, state=QpState.ERR)
    sender.rq_posted += 3
    await world.env.doorbell(sender.qp, rq=sender.rq_posted)
    for kind in (MSG_FLUSH_SQ, MSG_FLUSH_RQ):
        sender.message("mgmt", kind)
    await world.settle(lambda: sender.quiet() and sender.rq_done == sender.rq_posted)
    await world.step(300)
    world.look()
    # Those behind the last completion have left without one.
    assert all(index in sender.left and not sender.wqes[index][0] for index in range(sender.done, sender.posted))
    await sender.begin()


@cocotb.test()
@cocotb.parametrize(rate=[1.0, 0.3])
async def lives_of_send_queues(dut, rate):
    """QPS-12, QPS-13, XPORT-4: whatever leaves, fails, is posted and comes in: every send WQE completes once and in
    order (unsignaled ones only when they do not succeed), everything behind an error is flushed, later ones are sent
    again from RTS on, and the receive side takes every datagram."""
    env = await Env(dut, 7, rate).start()
    senders = [Sender(env, line, port=line % 3) for line in (3, 8, 700)]
    for sender in senders:
        await sender.begin()
    world = World(env, senders)
    for _ in range(200):
        sender = env.rng.choice(senders)
        await turn(world, sender, env.rng.choice((0.0, 0.03, 0.2)))
        if env.rng.random() < 0.1:
            await end(world, sender)
    for sender in senders:
        await end(world, sender)
    total = {name: sum(sender.counts[name] for sender in senders) for name in senders[0].counts}
    dut._log.warning("%s", total)
    assert min(total.values()) > 12, total
    assert not any(kind != "rewind" for kind, _ in env.strobes.count)


@cocotb.test()
async def drain(dut):
    """QPS-10: in SQD the event comes when the last datagram that was begun has left, not before."""
    env = await Env(dut, 8).start()
    sender = Sender(env, 5)
    await sender.begin()
    world = World(env, [sender])
    for index in range(4):
        await sender.post(index + 1)
        for _ in range(index + 1):
            sender.emit()
        await env.bench.until(env.omt.idle, what="records")
        await env.context(sender.qp, state=QpState.SQD)
        sender.message("mgmt", MSG_SQ_DRAIN)
        await env.bench.step(100)    # nothing leaves: the model of the gather stands still
        world.look()
        assert not world.events[5]
        await world.settle(lambda: world.events[5])
        assert [event["kind"] for event in world.events[5]] == [HwEventKind.SQ_DRAINED]
        assert sender.una == sender.posted
        world.events[5].clear()
        await env.context(sender.qp, state=QpState.RTS)


@cocotb.test()
async def one_message_for_many(dut):
    """A QP is told once, however many have gone: all of them complete, in order; what it is told again, or what is not
    outstanding, changes nothing."""
    env = await Env(dut, 9).start()
    sender = Sender(env, 5)
    await sender.begin()
    world = World(env, [sender])
    await sender.post(40)
    for _ in range(40):
        sender.emit()
    await env.bench.until(env.omt.idle, what="records")
    sender.flying.clear()
    sender.left.update(range(40))
    for told, una in ((0, 1), (0, 1), (30, 31), (7, 31), (-1, 31), (41, 31), (39, 40), (39, 40)):
        psn = sender.psn(told)
        sender.message("gather", MSG_SENT, psn & 0xFFFF, psn >> 16)
        await env.bench.step(150)
        world.look()
        assert sender.una == una
    assert not world.events[5]


@cocotb.test()
async def forged_acknowledge(dut):
    """XPORT-10: a datagram whose opcode looks like an acknowledge or a response completes nothing."""
    env = await Env(dut, 10).start()
    sender = Sender(env, 5)
    await sender.begin()
    await sender.post(9)
    for _ in range(9):
        sender.emit()
    await env.bench.until(env.omt.idle, what="records")
    await env.settle()
    for opcode in range(0x60, 0x80):
        if opcode not in (0x64, 0x65):
            out = await env.send(env.packet(sender.qp, opcode, sender.psn(4), 0, deth_qkey=QKEY, aeth_syndrome=0x1F,
                                            dest_qpn=sender.qp.fields["qpn"]))
            assert out.dropped(), hex(opcode)


def test_dg_send():
    """Runs the tests of this file."""
    simulate("hca_rx_ctrl", "test_dg_send")
