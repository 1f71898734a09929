"""What hca_rx_exec refuses is behind what hca_rx_ctrl has decided: a model of the one beside the other, at random."""

from collections import deque

import cocotb
from common import simulate, struct
from hca_abi import BthOpcode as Op
from hca_abi import QpState, WcOpcode, WcStatus, WrOpcode
from rx_bench import (KIND_NONE, KIND_READ_RESP, KIND_SEND, MSG_FLUSH_RQ, MSG_FLUSH_SQ, MSG_REQ_ERROR,
                      MSG_RQ_ERROR, MSG_SQ_ERROR, Env, Qp, ack, responses)

SPSN, EPSN = 0x100, 0x200
WRITE, READ = WrOpcode.RDMA_WRITE, WrOpcode.RDMA_READ
REFUSED = WcStatus.LOC_PROT_ERR
MESSAGES = {KIND_SEND: MSG_RQ_ERROR, KIND_READ_RESP: MSG_SQ_ERROR}


class Exec:
    """Takes items, some cycles later carries them out in order, and refuses some: from then on nothing of that side
    of the QP is completed before an item that resumes."""

    def __init__(self, env):
        self.env, self.rng = env, env.rng
        self.items = deque()
        self.failed = set()
        self.seen = {}      # completions (wqe_index, status) by (QPN, side)
        self.refusals = 0
        self.chance = 0.0
        env.rxw.on_word = lambda word: self.items.append((self._due(), env.item_of(word)))
        env.bench.agents.append(self)

    def _due(self):
        return self.env.bench.cycle + self.rng.choice((1, 10, 200))

    def drive(self):
        """Carries out what is due."""
        while self.items and self.items[0][0] <= self.env.bench.cycle:
            self._end(self.items.popleft()[1])

    def sample(self):
        """Nothing to see."""

    def _end(self, item):
        cqe = item["cqe"]
        sends = item["kind"] == KIND_READ_RESP or (item["kind"] == KIND_NONE and cqe["valid"]
                                                   and cqe["opcode"] < WcOpcode.RECV)
        side = (item["qpn"], "sq" if sends else "rq")
        if item["resumes"]:
            assert side in self.failed, "goes on with what had not stopped"
            self.failed.discard(side)
        if side in self.failed:
            return
        if item["kind"] != KIND_NONE and self.rng.random() < self.chance:
            self.failed.add(side)
            self.refusals += 1
            kind = MESSAGES.get(item["kind"], MSG_REQ_ERROR)
            self.env.msgs["exec"].put(struct("pipe_msg_t").pack(kind=kind, qpn=item["qpn"], status=REFUSED,
                                                                wqe_index=item["wqe_index"]))
        elif cqe["valid"]:
            self.seen.setdefault(side, []).append((cqe["wqe_index"], cqe["status"]))


class Life:
    """One QP from its first WQE to its flush."""

    def __init__(self, env, qp):
        self.env, self.rng, self.qp = env, env.rng, qp
        self.posted = {"sq": 0, "rq": 0}
        self.packets = []

    async def begin(self):
        """Context, WQEs, and the packets that will come."""
        env, qp, rng = self.env, self.qp, self.rng
        await env.context(qp, state=QpState.RESET)
        await env.context(qp, state=QpState.RTS, init_sq=1, init_rq=1)
        self.posted = {side: rng.randint(1, rng.choice((3, 12, 40))) for side in ("sq", "rq")}
        await env.doorbell(qp, **self.posted)
        answers, psn = [], SPSN
        for index in range(self.posted["sq"]):
            opcode, size = rng.choice((READ, WRITE)), rng.choice((8, 600))
            first, psn = psn, psn + max(1, -(-size // qp.mtu))
            await env.emit(qp, index, opcode, psn - 1, size)
            answers += responses(env, qp, first, size) if opcode == READ else [ack(env, qp, psn - 1)]
        requests = [env.packet(qp, rng.choice((Op.RC_SEND_ONLY, Op.RC_WRITE_ONLY)), EPSN + i, 4, reth_bytes=4,
                               ack_req=0) for i in range(self.posted["rq"])]
        while answers or requests:
            self.packets.append((answers if answers and (not requests or rng.random() < 0.5) else requests).pop(0))
        del self.packets[rng.randint(0, len(self.packets)):]

    async def error(self):
        """What firmware does about an event, or a program without one."""
        if self.qp.fields["state"] != QpState.ERR:
            await self.env.context(self.qp, state=QpState.ERR)
            for kind in (MSG_FLUSH_SQ, MSG_FLUSH_RQ):
                self.env.msgs["mgmt"].put(struct("pipe_msg_t").pack(kind=kind, qpn=self.qp.qpn))

    def local_error(self):
        """The requester's side finds something wrong with a WQE."""
        self.env.msgs["gather"].put(struct("pipe_msg_t").pack(
            kind=MSG_SQ_ERROR, qpn=self.qp.qpn, wqe_index=self.rng.randrange(self.posted["sq"]),
            status=WcStatus.LOC_LEN_ERR))

    def check(self, model):
        """Every WQE completed once and in order, all that is behind an error flushed."""
        for side, count in self.posted.items():
            seen = model.seen.pop((self.qp.qpn, side), [])
            assert [index for index, _ in seen] == list(range(count)), (self.qp.qpn, side, seen)
            statuses = [status for _, status in seen]
            good = statuses.index(next((s for s in statuses if s), None)) if any(statuses) else count
            assert set(statuses[good + 1:]) <= {WcStatus.WR_FLUSH_ERR}, (side, seen)


@cocotb.test()
async def each_completes_once_whatever_is_refused(dut):
    """QPS-13, QPS-14: payload that cannot be placed, local errors, a program's move to ERR and the flushes, in any
    order: every WQE completes once and in order."""
    qps = [Qp(qpn) for qpn in (2, 3, 700)]
    env = await Env(dut, seed=11).start(*qps)
    model, rng = Exec(env), env.rng
    for turn in range(170):
        model.chance = rng.choice((0.0, 0.03, 0.2))
        lives = [Life(env, qp) for qp in qps]
        for life in lives:
            await life.begin()
        while any(life.packets for life in lives):
            life = rng.choice([life for life in lives if life.packets])
            env.rxd.put(life.packets.pop(0))
            if rng.random() < 0.02:
                life.local_error()
            if rng.random() < 0.03:
                await rng.choice(lives).error()
            await env.bench.step(rng.choice((1, 5, 30, 100)))
            for event in env.news().ev:
                await next(life for life in lives if life.qp.qpn == event["id"]).error()
        for life in lives:
            await life.error()
        await env.settle(500)
        for life in lives:
            life.check(model)
    assert model.refusals > 100, "too few refusals to say anything"


def test_resume():
    """Runs the tests of this file."""
    simulate("hca_rx_ctrl", "test_resume")
