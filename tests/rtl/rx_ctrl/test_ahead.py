"""hca_rx_ctrl with selective repeat: WRITEs that come behind a gap go to their place at once, and everything else waits
for its turn. Directed, and a lossy network against an oracle written from the rules (decision 0066)."""

import cocotb
from common import simulate
from hca_abi import BthOpcode as Op
from rx_bench import KIND_NONE, KIND_SEND, KIND_WRITE, PSN_MASK, Env, Qp, ack, sending

EPSN = 0x200
FEW, ALL, RNR = 0x68, 0x60, 0x2C
WINDOW, MISSING_MAX = 64, 31
WRITE, SEND, FIRST, LAST_IMM = Op.RC_WRITE_ONLY, Op.RC_SEND_ONLY, Op.RC_WRITE_FIRST, Op.RC_WRITE_LAST_IMM


def few(psn, missing, seen):
    """The NAK that names some packets."""
    return FEW, psn & PSN_MASK, missing << 16 | seen & 0xFFFF


def said(item):
    """(syndrome, psn, msn) of an item's answer, or None."""
    rsp = item["rsp"]
    return (rsp["syndrome"], rsp["psn"], rsp["msn"]) if rsp["valid"] else None


async def setup(dut, rq=0, **fields):
    """One QP with `rq` receive WQEs."""
    qp = Qp(5, selective=1, **fields)
    env = await Env(dut).start(qp)
    await env.doorbell(qp, rq=rq)
    return env, qp


@cocotb.test()
async def placed_at_once_and_counted_later(dut):
    """REL-1, REL-16, REL-19: the NAK names what is missing; when it comes one ACK is for all; copies go nowhere."""
    env, qp = await setup(dut)

    async def write(psn, **fields):
        word = env.packet(qp, WRITE, psn, 8, reth_va=psn << 12, reth_rkey=7, reth_bytes=8, **{"ack_req": 0, **fields})
        return (await env.send(word)).item()

    item = await write(EPSN + 2)
    assert (item["kind"], item["va"], item["rkey"], item["chk_bytes"]) == (KIND_WRITE, (EPSN + 2) << 12, 7, 8)
    assert said(item) == few(EPSN, 2, EPSN + 2) and item["frees"] and not item["cqe"]["valid"]
    item = await write(EPSN + 2, ack_req=1)
    assert item["kind"] == KIND_NONE and said(item) is None, "a copy"
    item = await write(EPSN + 3, ack_req=1)
    assert item["kind"] == KIND_WRITE and said(item) is None, "the gap has been told of"
    item = await write(EPSN + 8)
    assert said(item) == few(EPSN, 2, EPSN + 8), "and with every eighth packet again"
    item = await write(EPSN)
    assert item["kind"] == KIND_WRITE and said(item) == few(EPSN + 1, 1, EPSN + 2), "the next gap"
    item = await write(EPSN + 1)
    assert said(item) == few(EPSN + 4, 4, EPSN + 8), "and the next one, behind two that had come"
    for psn in range(EPSN + 4, EPSN + 7):
        await write(psn)
    item = await write(EPSN + 7)
    assert said(item) == (0x1F, EPSN + 8, 9), "nobody asked, but of those that came before somebody did"
    item = await write(EPSN + 9, ack_req=1)
    assert said(item) == (0x1F, EPSN + 9, 10)
    item = await write(EPSN + 5, ack_req=1)
    assert item["kind"] == KIND_NONE and said(item) == (0x1F, EPSN + 9, 10), "a duplicate"
    item = await write(EPSN + 10 + WINDOW)
    assert item["kind"] == KIND_WRITE and said(item) == (ALL, EPSN + 10, 10), "more is missing than a NAK can name"
    item = await write(EPSN + 12)
    assert item["kind"] == KIND_NONE and said(item) is None, "all comes again"


@cocotb.test()
async def what_needs_its_turn_waits(dut):
    """A SEND, a READ, an immediate or a message in several packets behind a gap: all comes again, as ever. A refusal of
    what is behind a gap is told of the expected PSN: it acknowledges nothing that is missing."""
    for op, fields in ((SEND, {}), (Op.RC_READ_REQUEST, dict(reth_bytes=8)), (FIRST, dict(reth_bytes=300)),
                       (Op.RC_WRITE_ONLY_IMM, dict(reth_bytes=0)), (Op.RC_WRITE_MIDDLE, {}),
                       (WRITE, dict(reth_bytes=9))):
        env, qp = await setup(dut, rq=4)
        item = (await env.send(env.packet(qp, WRITE, EPSN + 1, 8, reth_bytes=8))).item()
        assert item["kind"] == KIND_WRITE and item["rsp"]["psn"] == EPSN and not item["msg_last"]
        item = (await env.send(env.packet(qp, op, EPSN + 2, 0, **fields))).item()
        assert item["kind"] == KIND_NONE and said(item) == (ALL, EPSN, 0), op
        item = (await env.send(env.packet(qp, WRITE, EPSN, 8, reth_bytes=8, ack_req=1))).item()
        assert said(item) == (0x1F, EPSN, 1), "what was placed is forgotten"
        item = (await env.send(env.packet(qp, WRITE, EPSN + 1, 8, reth_bytes=8, ack_req=1))).item()
        assert item["kind"] == KIND_WRITE and said(item) == (0x1F, EPSN + 1, 2)
    env, qp = await setup(dut)
    item = (await env.send(env.packet(qp, SEND, EPSN, 0))).item()
    assert item["rsp"]["syndrome"] == RNR
    item = (await env.send(env.packet(qp, WRITE, EPSN + 1, 8, reth_bytes=8))).item()
    assert item["kind"] == KIND_NONE and said(item) is None, "behind an RNR NAK all comes again"


@cocotb.test()
async def the_requester_sends_some_again_once(dut):
    """REL-16, REL-3: a NAK that names packets is passed on with their number and costs a retry. The same gap told of
    again does nothing until something has come that was sent behind what was sent again."""
    env, qp, first = await sending(dut, *[(1, 256 * 10)] * 6, selective=1, retry_cnt=2)

    async def nak(psn, missing, seen):
        word = env.packet(qp, Op.RC_ACKNOWLEDGE, psn, 0, aeth_syndrome=FEW, aeth_msn=missing << 16 | seen & 0xFFFF)
        return (await env.send(word)).upd

    start, end = first[0], first[0] + 60
    (upd,) = await nak(start + 3, 2, start + 5)
    assert (upd["rewind"], upd["again"], upd["una_psn"]) == (1, 2, start + 3)
    assert not await nak(start + 3, 2, start + 8)
    (upd,) = await nak(start + 4, 1, start + 8)
    assert not upd["rewind"] and upd["una_psn"] == start + 4, "the first of both has come"
    (upd,) = await nak(start + 7, 1, start + 9)
    assert (upd["rewind"], upd["again"]) == (1, 1), "another gap"
    assert not await nak(start + 7, 1, end + 15)
    (upd,) = await nak(start + 7, 1, end + 16)
    assert (upd["rewind"], upd["again"]) == (1, 1), "what was sent again is lost"
    (upd,) = (await env.send(ack(env, qp, start + 7, ALL))).upd or [None]
    assert upd is None or not upd["rewind"], "no retry is left"
    env, qp, first = await sending(dut, (1, 256 * 10))
    (upd,) = await nak(first[0] + 3, 2, first[0] + 5)
    assert not upd["rewind"], "nothing was agreed on: a reserved syndrome"


class Oracle:
    """The rules; PSNs never wrap here."""

    def __init__(self, psn):
        self.epsn, self.here, self.msn = psn, set(), 0
        self.told = self.all = False
        self.busy = False

    def expect(self, psn, op, ack_req):
        """(kind, answer)."""
        ahead = psn - self.epsn
        if ahead < 0:
            return KIND_NONE, (0x1F, self.epsn - 1, self.msn) if ack_req else None
        return self.in_turn(op, ack_req) if ahead == 0 else self.behind(psn, op, ahead)

    def behind(self, psn, op, ahead):
        """Behind a gap."""
        if psn in self.here:
            return KIND_NONE, None
        if op != WRITE or ahead > WINDOW or self.all or self.busy:
            if self.all:
                return KIND_NONE, None
            return KIND_NONE, self.go_back()
        self.here.add(psn)
        if self.told and ahead % 8:
            return KIND_WRITE, None
        return KIND_WRITE, self.name(psn)

    def name(self, seen):
        """The NAK."""
        missing = min(self.here) - self.epsn
        if missing > MISSING_MAX:
            return self.go_back()
        self.told = True
        return few(self.epsn, missing, seen)

    def go_back(self):
        """All comes again."""
        self.told = self.all = True
        self.here.clear()
        return ALL, self.epsn, self.msn

    def in_turn(self, op, ack_req):
        """The expected one."""
        self.told = self.all = False
        self.epsn += 1
        self.msn += op != FIRST
        self.busy = op == FIRST
        kind = KIND_SEND if op == SEND else KIND_WRITE
        if op == FIRST:
            self.here.clear()
        passed = 0
        while self.epsn in self.here:
            self.here.remove(self.epsn)
            self.epsn += 1
            passed += 1
        self.msn += passed
        if self.here:
            return kind, self.name(min(self.here))
        return kind, (0x1F, self.epsn - 1, self.msn) if ack_req or passed else None


class Network:
    """A requester that does as it is told, and a network that loses, doubles and reorders."""

    def __init__(self, rng, ops, psn, mix):
        self.rng, self.ops, self.start, self.mix = rng, ops, psn, mix
        self.at = self.una = self.high = psn
        self.end = psn + len(ops)
        self.again = []      # to be sent alone
        self.wire = []

    def send(self):
        """The next packet, if there is one."""
        psn = None
        if self.again:
            psn = self.again.pop(0)
        elif self.at < min(self.end, self.una + 90):
            psn, self.at = self.at, self.at + 1
        if psn is None:
            return False
        self.high = max(self.high, psn + 1)
        loss, copy, late = self.mix
        if self.rng.random() >= loss:
            place = len(self.wire) - (self.rng.randint(1, 3) if self.rng.random() < late else 0)
            self.wire.insert(max(0, place), psn)
            if self.rng.random() < copy:
                self.wire.append(psn)
        return True

    def answer(self, rsp):
        """What the requester does."""
        syndrome, psn, word = rsp
        psn = self.start + ((psn - self.start) & PSN_MASK)
        self.una = max(self.una, psn + (syndrome == 0x1F))
        if syndrome == FEW:
            self.again = list(range(psn, psn + (word >> 16)))
        elif syndrome == ALL:
            self.again, self.at = [], psn


@cocotb.test()
@cocotb.parametrize(seed=[1, 2, 3, 4])
async def a_lossy_network(dut, seed):
    """Every packet is placed: WRITEs once unless the responder had to forget them, none before the expected PSN;
    what completes does so once and in order. Loss, copies and disorder by seed."""
    env, qp = await setup(dut, rq_psn=PSN_MASK - 100 * seed, rq_log_size=15)
    rng = env.rng
    ops = []
    while len(ops) < 700:
        chance = rng.random()
        ops += [WRITE] if chance < (0.97, 1.0, 0.9, 0.97)[seed - 1] else rng.choice(([SEND], [FIRST, LAST_IMM]))
    await env.doorbell(qp, rq=1000)
    start = qp.fields["rq_psn"]
    oracle, net = Oracle(start), Network(rng, ops, start, ((0.05, 0, 0), (0.1, 0.02, 0.02), (0.02, 0.1, 0.1),
                                                           (0.1, 0.1, 0.2))[seed - 1])
    placed, messages, timeouts = [0] * len(ops), [], 0
    while oracle.epsn < net.end or net.una < net.end:
        sent = net.send()
        if (len(net.wire) < 6 and sent) or not net.wire:
            if not sent:      # nothing is under way: the time-out
                timeouts += 1
                net.at = net.una
            continue
        psn = net.wire.pop(0)
        op, size, asks = ops[psn - start], 8, rng.randint(0, 1)
        size = 256 if op == FIRST else 8
        word = env.packet(qp, op, psn, size, reth_va=psn << 8, reth_bytes=264 if op == FIRST else 8, ack_req=asks)
        before = oracle.epsn
        item = (await env.send(word)).item()
        kind, rsp = oracle.expect(psn, op, asks)
        rsp = rsp and (rsp[0], rsp[1] & PSN_MASK, rsp[2])
        assert (item["kind"], said(item)) == (kind, rsp), (psn - before, op, item["rsp"], rsp)
        if kind != KIND_NONE:
            assert psn >= before
            placed[psn - start] += 1
            if kind == KIND_WRITE and op == WRITE:
                assert item["va"] == (psn << 8) & ((1 << 64) - 1)
        if item["cqe"]["valid"]:
            messages.append(item["cqe"]["wqe_index"])
        if rsp:
            net.answer(rsp)
    assert all(placed) and messages == list(range(sum(op in (SEND, LAST_IMM) for op in ops)))
    twice = sum(count > 1 for op, count in zip(ops, placed) if op == WRITE)
    dut._log.warning("%d packets, %d placed twice, %d time-outs", len(ops), twice, timeouts)
    if seed == 2:
        assert twice == 0, "with nothing but WRITEs nothing is forgotten"
    assert all(count == 1 for op, count in zip(ops, placed) if op != WRITE)


def test_ahead():
    """Runs the tests of this file."""
    simulate("hca_rx_ctrl", __name__)
