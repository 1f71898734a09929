"""hca_rx_ctrl as receiver of unreliable connections (README table 4): what a loss costs, that nobody is answered, and a
random stream against an oracle written from the rules."""

import cocotb
from common import simulate
from hca_abi import HwEventKind, QpState, Service, WcStatus
from resp_oracle import ATOMICS, FIRST, ONLY, Oracle
from rx_bench import (KIND_NONE, KIND_SEND, KIND_WRITE, MSG_REQ_ERROR, MSG_RQ_ERROR, PSN_MASK, Env, Qp, send_ops,
                      write_ops)

EPSN = 0x200
UC = Service.UC << 5
# How far behind the expected one a PSN is a copy.
COPIES = 1 << 16


class Unreliable(Oracle):
    """What is lost drops with its message; any gap may come before a message."""

    def _by_psn(self, pkt, ahead):
        if (1 << 24) - ahead <= COPIES:
            return dict(kind=KIND_NONE, rsp=None)
        starts = pkt["opcode"] in FIRST + ONLY
        hole = ahead != 0 and not starts
        if starts:
            self.busy = None
        self.epsn = pkt["psn"]
        if hole or pkt["opcode"] in (12, *ATOMICS) or self._refused(pkt):
            return self._nak(0)
        out = self._in_sequence({**pkt, "ack_req": 0})
        return out

    def _refused(self, pkt):
        """The QP's rights."""
        return 6 <= pkt["opcode"] < 12 and not self.qp.fields["remote_write"]

    def _nak(self, syndrome, fatal=False):
        self.busy = None
        self.epsn = (self.epsn + 1) & PSN_MASK
        return dict(kind=KIND_NONE, rsp=None)


async def setup(dut, rq=0, **fields):
    """One QP with `rq` receive WQEs."""
    qp = Qp(5, **{"service": Service.UC, "rq_psn": EPSN, **fields})
    env = await Env(dut).start(qp)
    await env.doorbell(qp, rq=rq)
    return env, qp


@cocotb.test()
async def messages_are_placed_and_not_acknowledged(dut):
    """OP-1, OP-3 on UC: as on RC, without an answer though the packets ask for one; COMM_EST in RTR (QPS-8)."""
    env, qp = await setup(dut, rq=2, state=QpState.RTR)
    ops = [*write_ops(600, 256), *send_ops(700, 256, imm=True)]
    words = [env.packet(qp, op | UC, EPSN + i, size, ack_req=1, reth_va=0x10000, reth_rkey=0x77, reth_bytes=600)
             for i, (op, size) in enumerate(ops)]
    out = await env.send(*words)
    assert [item["kind"] for item in out.rxw] == [KIND_WRITE] * 3 + [KIND_SEND] * 3
    assert [item["va"] for item in out.rxw[:3]] == [0x10000, 0x10100, 0x10200]
    assert not any(item["rsp"]["valid"] for item in out.rxw) and all(item["silent"] for item in out.rxw)
    assert out.cqes() == [(0, WcStatus.SUCCESS)] and out.rxw[-1]["cqe"]["byte_len"] == 700
    assert [ev["kind"] for ev in out.ev] == [HwEventKind.QP_COMM_EST]


@cocotb.test()
async def what_rx_exec_refuses_costs_the_message(dut):
    """REL-17: a refused WRITE gives its receive back and ends what is in progress; the QP lives and nobody is told."""
    env, qp = await setup(dut, rq=8)
    first, middle = ((op | UC, size) for op, size in write_ops(600, 256)[:2])
    reth = dict(reth_bytes=600, reth_va=0)
    await env.send(env.packet(qp, 0x04 | UC, EPSN, 8), env.packet(qp, first[0], EPSN + 1, 256, **reth),
                   env.packet(qp, 0x04 | UC, EPSN + 2, 8), env.packet(qp, first[0], EPSN + 3, 256, **reth))
    # Refused was the first WRITE, in whose time one receive was used.
    out = await env.message("exec", MSG_REQ_ERROR, qp, 1, WcStatus.REM_ACCESS_ERR, 0x62)
    item = out.item()
    assert item["resumes"] and not item["cqe"]["valid"] and not item["frees"] and not out.ev and not out.upd
    assert (await env.send(env.packet(qp, middle[0], EPSN + 4, 256))).dropped(), "the rest of another message"
    out = await env.send(env.packet(qp, 0x04 | UC, EPSN + 5, 8))
    assert out.cqes() == [(1, WcStatus.SUCCESS)], "the receive of the one that was held back"
    # A receive WQE that fails is another matter.
    out = await env.message("exec", MSG_RQ_ERROR, qp, 1, WcStatus.LOC_LEN_ERR)
    assert out.cqes() == [(1, WcStatus.LOC_LEN_ERR)] and [ev["kind"] for ev in out.ev] == [HwEventKind.QP_ERROR]
    assert (await env.send(env.packet(qp, 0x04 | UC, EPSN + 6, 8))).dropped()


@cocotb.test()
async def other_services_drop(dut):
    """XPORT-10: packets of RC and UD for a UC QP, acknowledges, and of UC for an RC QP."""
    env, qp = await setup(dut, rq=4)
    rc = Qp(6)
    await env.context(rc, state=QpState.RESET)
    await env.context(rc, init_sq=1, init_rq=1, state=QpState.RTS)
    await env.doorbell(rc, rq=4)
    for opcode in (0x04, 0x0A, 0x0C, 0x11, 0x64, 0xA4, 0x31, 0x2C):
        assert (await env.send(env.packet(qp, opcode, EPSN, 0, reth_bytes=0))).dropped(), hex(opcode)
    assert (await env.send(env.packet(rc, 0x24, rc.fields["rq_psn"], 8))).dropped()


@cocotb.test()
@cocotb.parametrize(seed=[1, 2, 3], rate=[1.0, 0.5])
async def random_stream(dut, seed, rate):
    """REL-17: PSNs and indices that wrap, every kind of disorder, QPs with and without rights, against the oracle."""
    env = Env(dut, seed, rate)
    rng = env.rng
    await env.start()
    oracles = []
    for qpn in (1, 2, 700):
        qp = Qp(qpn, service=Service.UC, rq_psn=rng.choice((0, PSN_MASK - 40, 0x7FFFF0)), path_mtu=rng.randint(1, 3),
                rq_log_stride=rng.randint(0, 3), rq_log_size=4, remote_write=int(qpn != 2))
        oracles.append(Unreliable(qp, rng))
        await env.context(qp, state=QpState.RESET)
        await env.context(qp, init_sq=1, init_rq=1, state=QpState.RTS)
    for _ in range(60):
        for oracle in oracles:
            if rng.random() < 0.6:
                await env.doorbell(oracle.qp, rq=oracle.post(rng.randint(1, 6)))
        words, expected = [], []
        for _ in range(40):
            oracle = rng.choice(oracles)
            pkt = oracle.invent()
            if rng.random() < 0.05:
                pkt["psn"] = (oracle.epsn - rng.choice((1, COPIES - 1, COPIES, COPIES + 1))) & PSN_MASK
            expected.append((oracle, oracle.expect(pkt)))
            opcode, size, psn = (pkt.pop(name) for name in ("opcode", "size", "psn"))
            words.append(env.packet(oracle.qp, opcode | UC, psn, size, **pkt))
        out = await env.send(*words)
        assert len(out.rxw) == len(expected) and not out.ev and not out.upd
        for item, (oracle, want) in zip(out.rxw, expected, strict=True):
            oracle.compare(item, want)
    for oracle in oracles:
        assert oracle.accepted > 100 and oracle.ci > 20, (oracle.accepted, oracle.ci)


def test_uc_receive():
    """Runs the tests of this file."""
    simulate("hca_rx_ctrl", "test_uc_receive")
