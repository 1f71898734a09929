"""hca_rx_ctrl with SENDs that invalidate, and send WQEs that hca_mw carries out."""

import cocotb
from common import simulate, struct
from hca_abi import BthOpcode as Op
from hca_abi import HwEventKind, QpState, WcOpcode, WcStatus, WrOpcode
from rx_bench import (KIND_NONE, KIND_SEND, MSG_SQ_DRAIN, MSG_SQ_ERROR, PSN_MASK, Env, Qp, ack, sending, status_of)

MSG_MW_DONE, MSG_INV_DONE = 9, 10
EPSN, KEY = 0xFFFFFF, 0x12345678
ACK, NAK_SEQUENCE, NAK_ACCESS = 0x1F, 0x60, 0x62
WITH_INV = 1 << 3


class Asked:
    """What hca_mw is asked for."""

    def __init__(self, bench):
        self.bench, self.got = bench, []
        bench.agents.append(self)

    def drive(self):
        """Nothing."""

    def sample(self):
        """A strobe each."""
        if self.bench.get("inv_valid_o"):
            self.got.append(struct("mw_inv_t").unpack(self.bench.get("inv_o")))


async def setup(dut, **fields):
    """A QP with four receives."""
    qp = Qp(5, rq_psn=EPSN, **fields)
    env = Env(dut)
    asked = Asked(env.bench)
    await env.start(qp)
    await env.doorbell(qp, rq=4)
    return env, asked, qp


def inv(env, qp, psn=EPSN, opcode=Op.RC_SEND_ONLY_INV, size=100, **fields):
    """The packet that asks for it."""
    wire = int.from_bytes(KEY.to_bytes(4, "big"), "little")
    return env.packet(qp, opcode, psn, size, imm=wire, **dict(ack_req=1, **fields))


@cocotb.test()
async def ends_when_the_key_is_dead(dut):
    """OP-11, V-180: placed at once; acknowledged and completed only then. Copies and what follows change nothing."""
    env, asked, qp = await setup(dut)
    await env.send(env.packet(qp, Op.RC_SEND_FIRST, EPSN, qp.mtu, ack_req=0))
    item = (await env.send(inv(env, qp, EPSN + 1, Op.RC_SEND_LAST_INV, solicited=1))).item()
    assert (item["kind"], item["wqe_index"], item["msg_offset"], item["frees"]) == (KIND_SEND, 0, qp.mtu, 1)
    assert not item["rsp"]["valid"] and not item["cqe"]["valid"] and not item["msg_last"]
    assert asked.got == [dict(func=qp.fields["func"], pd=qp.fields["pd"], qpn=5, key=KEY)]
    for word in (inv(env, qp, EPSN + 1, Op.RC_SEND_LAST_INV), env.packet(qp, Op.RC_SEND_FIRST, EPSN, qp.mtu)):
        assert (await env.send(word)).dropped(), "a copy"
    out = await env.message("mw", MSG_INV_DONE, qp)
    item, cqe = out.item(), out.item()["cqe"]
    assert out.answer() == (ACK, 0) and item["kind"] == KIND_NONE and not item["frees"] and item["rsp"]["msn"] == 1
    assert (cqe["wqe_index"], cqe["status"], cqe["opcode"], cqe["byte_len"]) == (0, 0, WcOpcode.RECV, qp.mtu + 100)
    assert (cqe["wc_flags"], cqe["solicited"]) == (WITH_INV, 1)
    assert cqe["imm_data"] == int.from_bytes(KEY.to_bytes(4, "big"), "little")
    # REL-19: a copy is acknowledged, and invalidates nothing.
    assert (await env.send(inv(env, qp, EPSN + 1, Op.RC_SEND_LAST_INV))).answer() == (ACK, 0)
    assert len(asked.got) == 1
    out = await env.send(env.packet(qp, Op.RC_SEND_ONLY, 1, 10, ack_req=1))
    assert out.answer() == (ACK, 1) and out.cqes() == [(1, 0)]
    assert not (await env.message("mw", MSG_INV_DONE, qp)).rxw, "nobody waits for it"


@cocotb.test()
async def what_passed_is_asked_for(dut):
    """Requests behind it are dropped until it is over, and then asked for at once."""
    env, asked, qp = await setup(dut)
    await env.send(inv(env, qp))
    for psn in (0, 1, 0):
        assert (await env.send(env.packet(qp, Op.RC_SEND_ONLY, psn, 10, ack_req=1))).dropped()
    out = await env.message("mw", MSG_INV_DONE, qp)
    assert out.answer() == (NAK_SEQUENCE, 0) and out.cqes() == [(0, 0)], "acknowledges all before it"
    # The gap was told.
    assert (await env.send(env.packet(qp, Op.RC_SEND_ONLY, 1, 10, ack_req=1))).dropped()
    out = await env.send(env.packet(qp, Op.RC_SEND_ONLY, 0, 10, ack_req=1))
    assert out.answer() == (ACK, 0) and out.cqes() == [(1, 0)] and len(asked.got) == 1


@cocotb.test()
async def refused(dut):
    """KEY-30: NAK remote access, once; the QP is dead, and its receive is left to be flushed."""
    env, _, qp = await setup(dut)
    await env.send(inv(env, qp))
    out = await env.message("mw", MSG_INV_DONE, qp, status=WcStatus.REM_ACCESS_ERR, syndrome=NAK_ACCESS)
    assert out.answer() == (NAK_ACCESS, EPSN) and not out.cqes()
    (event,) = out.ev
    assert (event["kind"], event["status"], event["syndrome"]) == (
        HwEventKind.QP_ERROR, WcStatus.REM_ACCESS_ERR, NAK_ACCESS)
    assert (await env.send(env.packet(qp, Op.RC_SEND_ONLY, 0, 10))).dropped()
    assert not (await env.message("mw", MSG_INV_DONE, qp)).rxw


@cocotb.test()
async def reads_come_first(dut):
    """READs that wait for their turn may be using the key: RNR, until they have left."""
    env, asked, qp = await setup(dut)
    await env.send(env.packet(qp, Op.RC_READ_REQUEST, EPSN, 0, reth_bytes=8))
    syndrome, psn = (await env.send(inv(env, qp, 0))).answer()
    assert syndrome >> 5 == 1 and psn == 0 and not asked.got
    env.popped.queue.append(qp.qpn)
    await env.settle()
    await env.send(inv(env, qp, 0))
    assert len(asked.got) == 1


@cocotb.test()
async def another_life(dut):
    """A QP that was reset, or has no receive, owes nothing."""
    env, asked, qp = await setup(dut)
    await env.send(inv(env, qp))
    await env.context(qp, init_sq=1, init_rq=1)
    assert not (await env.message("mw", MSG_INV_DONE, qp)).rxw
    empty = Qp(6, rq_psn=EPSN)
    await env.context(empty, state=QpState.RESET)
    await env.context(empty, init_sq=1, init_rq=1, state=QpState.RTS)
    syndrome, _ = (await env.send(inv(env, empty))).answer()
    assert syndrome >> 5 == 1 and len(asked.got) == 1


@cocotb.test()
async def local_operations_complete(dut):
    """OP-11: the oldest WQE completes with its opcode, without a PSN; unsignaled without a CQE; others are ignored."""
    env, qp, first = await sending(dut, (WrOpcode.SEND, 0))
    await env.send(ack(env, qp, first[0]))
    psn = first[0] + 1
    for index, (opcode, signaled, wc) in enumerate([
            (WrOpcode.BIND_MW, 1, WcOpcode.BIND_MW), (WrOpcode.LOCAL_INV, 1, WcOpcode.LOCAL_INV),
            (WrOpcode.BIND_MW, 0, None)] * 4, start=1):
        await env.doorbell(qp, sq=index + 1)
        await env.emit(qp, index, opcode, psn, 0, signaled, next_psn=psn)
        assert not (await env.message("mw", MSG_MW_DONE, qp, index - 1)).rxw
        out = await env.message("mw", MSG_MW_DONE, qp, index)
        assert [(i["cqe"]["wqe_index"], i["cqe"]["status"], i["cqe"]["opcode"]) for i in out.rxw] == (
            [(index, 0, wc)] if signaled else [])
        (upd,) = out.upd
        assert (upd["una_wqe"], upd["una_psn"], upd["rewind"], upd["halt"]) == (index + 1, psn & PSN_MASK, 0, 0)
    # A message behind them, and SQD's drain waits for one.
    await env.doorbell(qp, sq=15)
    await env.emit(qp, 13, WrOpcode.SEND, psn, 0)
    out = await env.send(ack(env, qp, psn))
    assert out.cqes() == [(13, 0)]
    await env.emit(qp, 14, WrOpcode.BIND_MW, psn + 1, 0, next_psn=psn + 1)
    assert not (await env.message("mgmt", MSG_SQ_DRAIN, qp)).ev
    out = await env.message("mw", MSG_MW_DONE, qp, 14)
    assert out.cqes() == [(14, 0)] and [event["kind"] for event in out.ev] == [HwEventKind.SQ_DRAINED]


@cocotb.test()
async def local_operations_fail(dut):
    """MEM-14: MW_BIND_ERR, and the queue is halted."""
    env, qp, first = await sending(dut, (WrOpcode.SEND, 0))
    await env.send(ack(env, qp, first[0]))
    await env.doorbell(qp, sq=2)
    await env.emit(qp, 1, WrOpcode.BIND_MW, first[0] + 1, 0, next_psn=first[0] + 1)
    assert status_of(await env.message("mw", MSG_SQ_ERROR, qp, 1, WcStatus.MW_BIND_ERR)) == (1, WcStatus.MW_BIND_ERR)
    assert not (await env.message("mw", MSG_MW_DONE, qp, 1)).rxw


def test_windows():
    simulate("hca_rx_ctrl", __name__)
