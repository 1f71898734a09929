"""hca_rx_ctrl with shared receive queues: when a slot is taken, whose it is, and that each comes back in an item of its
own or with the QP's end."""

import cocotb
from common import simulate, struct
from hca_abi import BthOpcode as Op
from hca_abi import QpState, Service, WcStatus
from rx_bench import KIND_NONE, KIND_SEND, KIND_WRITE, MSG_FLUSH_RQ, MSG_RQ_ERROR, Env, Qp, send_ops, write_ops

EPSN = 0x200
HEAD = struct("srq_head_t")
SRQN = 5


class Slots:
    """The SRQ: slots in the order in which they are taken; looks must name it."""

    def __init__(self, bench):
        self.bench, self.slots, self.taken, self.looked = bench, [], [], False
        bench.agents.append(self)

    def drive(self):
        """The head, in the cycle after a look; garbage else."""
        head = self.bench.rng.getrandbits(HEAD.width)
        if self.looked:
            head = HEAD.pack(ok=bool(self.slots), slot=self.slots[0] if self.slots else 0)
        self.bench.set("srq_head_i", head)

    def sample(self):
        """Taken?"""
        if self.bench.get("srq_pop_o"):
            assert self.looked and self.slots, "taken without a look, or where nothing was"
            self.taken.append(self.slots.pop(0))
        self.looked = self.bench.get("srq_look_o")
        if self.looked:
            assert self.bench.get("srq_look_srqn_o") == SRQN


async def setup(dut, service=Service.RC, count=1, **fields):
    """QPs of one SRQ, with a ring of 64 slots of 128 bytes."""
    qps = [Qp(5 + n, service=service, rq_psn=EPSN, srqn=SRQN, rq_base=1 << 40, rq_log_size=6, rq_log_stride=1, **fields)
           for n in range(count)]
    env = Env(dut)
    srq = Slots(env.bench)
    # As after the sweep: before a QP has an SRQ, its row has been cleared.
    await env.start(*qps)
    for qp in qps:
        await env.context(qp, has_srq=1, init_sq=1, init_rq=1)
    return env, srq, qps


def places(out):
    """(kind, slot) of the items that have one."""
    return [(item["kind"], item["wqe_index"]) for item in out.rxw if item["kind"] != KIND_NONE]


@cocotb.test()
async def a_message_keeps_its_slot(dut):
    """SPEC-4: taken with the first packet, fetched from its place with each, completed with the last; other QPs take
    theirs between."""
    env, srq, (a, b) = await setup(dut, count=2)
    srq.slots = [40, 3, 17]
    first, middle, last = send_ops(700, 256)
    out = await env.send(env.packet(a, first[0], EPSN, first[1]))
    assert srq.taken == [40] and places(out) == [(KIND_SEND, 40)] and not out.cqes()
    assert [req["addr"] for req in out.list] == [(1 << 40) + 40 * 128]
    out = await env.send(env.packet(b, Op.RC_SEND_ONLY, EPSN, 10), env.packet(a, middle[0], EPSN + 1, middle[1]))
    assert srq.taken == [40, 3] and out.cqes() == [(3, WcStatus.SUCCESS)]
    assert [req["addr"] for req in out.list] == [(1 << 40) + slot * 128 for slot in (3, 40)]
    assert all(item["shared"] for item in out.rxw)
    out = await env.send(env.packet(a, last[0], EPSN + 2, last[1]))
    assert out.cqes() == [(40, WcStatus.SUCCESS)]
    out = await env.send(env.packet(a, Op.RC_SEND_ONLY, EPSN + 3, 10))
    assert srq.taken == [40, 3, 17] and out.cqes() == [(17, WcStatus.SUCCESS)]


@cocotb.test()
async def what_takes_a_slot(dut):
    """WRITE with immediate takes one with its last packet; what is refused, repeated or dropped takes none."""
    env, srq, (qp,) = await setup(dut)
    srq.slots = [9, 8, 7]
    ops = write_ops(600, 256, imm=True)
    reth = dict(reth_va=0, reth_rkey=1, reth_bytes=600)
    out = await env.send(*(env.packet(qp, op, EPSN + i, size, **reth) for i, (op, size) in enumerate(ops)))
    assert srq.taken == [9] and places(out)[-1] == (KIND_WRITE, 9) and out.cqes() == [(9, WcStatus.SUCCESS)]
    # Again, and ahead.
    await env.send(env.packet(qp, Op.RC_SEND_ONLY, EPSN + 1, 10), env.packet(qp, Op.RC_SEND_ONLY, EPSN + 9, 10))
    assert srq.taken == [9]
    # Nothing there: RNR NAK, and then there is.
    srq.slots = []
    out = await env.send(env.packet(qp, Op.RC_SEND_ONLY, EPSN + 3, 10))
    assert out.item()["rsp"]["syndrome"] == 0x20 | 12 and not out.cqes()
    srq.slots = [30]
    out = await env.send(env.packet(qp, Op.RC_SEND_ONLY, EPSN + 3, 10))
    assert out.cqes() == [(30, WcStatus.SUCCESS)]
    # Too long for the MTU: the QP dies, and has taken none.
    srq.slots = [31]
    out = await env.send(env.packet(qp, Op.RC_SEND_ONLY, EPSN + 4, 300))
    assert out.item()["rsp"]["syndrome"] == 0x61 and srq.taken == [9, 30]


@cocotb.test()
async def a_qp_that_leaves_gives_its_slot_back(dut):
    """SPEC-8: with the context that says ERR or RESET, flushed, once; without one, nothing. A flush of the receive side
    finds nothing else."""
    for state, init in ((QpState.ERR, 0), (QpState.RESET, 1)):
        env, srq, (qp, idle) = await setup(dut, count=2)
        srq.slots = [22, 23]
        await env.send(env.packet(qp, Op.RC_SEND_FIRST, EPSN, 256))
        await env.context(qp, state=QpState.SQD)
        assert not (await env.settle()).rxw
        await env.context(qp, state=state, init_sq=init, init_rq=init)
        item = (await env.settle()).item()
        assert item["cqe"]["valid"] and item["shared"] and not item["resumes"] and not item["frees"]
        assert (item["cqe"]["wqe_index"], item["cqe"]["status"]) == (22, WcStatus.WR_FLUSH_ERR)
        assert item["cqe"]["cqn"] == qp.fields["recv_cqn"] and item["cqe"]["qpn"] == qp.qpn
        await env.context(qp, state=state, init_sq=init, init_rq=init)
        await env.context(idle, state=state, init_sq=init, init_rq=init)
        assert not (await env.settle()).rxw
        if state == QpState.ERR:
            out = await env.message("mgmt", MSG_FLUSH_RQ, qp)
            assert not out.rxw
        assert srq.taken == [22]


@cocotb.test()
async def a_failed_receive_is_no_longer_held(dut):
    """rx_exec has completed the slot that failed itself: the answer only resumes. Another slot that the QP holds by
    then is still flushed with its end."""
    for later in (False, True):
        env, srq, (qp,) = await setup(dut)
        srq.slots = [50, 51]
        words = [env.packet(qp, Op.RC_SEND_FIRST, EPSN, 256)]
        if later:
            words += [env.packet(qp, Op.RC_SEND_LAST, EPSN + 1, 10), env.packet(qp, Op.RC_SEND_FIRST, EPSN + 2, 256)]
        await env.send(*words)
        out = await env.message("exec", MSG_RQ_ERROR, qp, 50, WcStatus.LOC_LEN_ERR, 0x61)
        item = out.item()
        assert item["resumes"] and not item["cqe"]["valid"] and len(out.ev) == 1
        await env.context(qp, state=QpState.ERR)
        found = (await env.settle()).rxw
        assert [item["cqe"]["wqe_index"] for item in found] == ([51] if later else [])


@cocotb.test()
async def a_lost_message_leaves_its_slot_to_the_next(dut):
    """UC: the next SEND or WRITE with immediate has the slot that was taken."""
    env, srq, (qp,) = await setup(dut, service=Service.UC)
    uc = Service.UC << 5
    srq.slots = [11, 12, 13]
    await env.send(env.packet(qp, Op.RC_SEND_FIRST | uc, EPSN, 256), env.packet(qp, Op.RC_SEND_LAST | uc, EPSN + 5, 8))
    out = await env.send(env.packet(qp, Op.RC_SEND_ONLY | uc, EPSN + 6, 8))
    assert srq.taken == [11] and out.cqes() == [(11, WcStatus.SUCCESS)]
    await env.send(env.packet(qp, Op.RC_SEND_FIRST | uc, EPSN + 7, 256))
    out = await env.send(env.packet(qp, Op.RC_WRITE_ONLY_IMM | uc, EPSN + 20, 8, reth_va=0, reth_rkey=1, reth_bytes=8))
    assert srq.taken == [11, 12] and out.cqes() == [(12, WcStatus.SUCCESS)]
    out = await env.send(env.packet(qp, Op.RC_SEND_ONLY | uc, EPSN + 21, 8))
    assert out.cqes() == [(13, WcStatus.SUCCESS)]
    # Nothing there: lost.
    assert (await env.send(env.packet(qp, Op.RC_SEND_ONLY | uc, EPSN + 22, 8))).dropped()


@cocotb.test()
async def streams_at_full_rate(dut):
    """Two cycles per SEND of many QPs, as with rings of their own; each has another slot."""
    env, srq, qps = await setup(dut, count=8)
    srq.slots = list(range(64))
    words = [env.packet(qps[n % 8], Op.RC_SEND_ONLY, EPSN + n // 8, 64) for n in range(48)]
    out = await env.send(*words)
    assert out.cqes() == [(slot, WcStatus.SUCCESS) for slot in range(48)]
    taken = env.rxd.taken[-48:]
    assert taken[-1] - taken[0] <= 2 * 47 + 2


def test_srq_receive():
    simulate("hca_rx_ctrl", __name__)
